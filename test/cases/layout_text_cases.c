/*-------------------------------------------------------------------------
 *
 * layout_text_cases.c
 *	  Texts that are layouts, and texts that are none, and why.
 *
 * layout_text_cases() compares what layout_text.c reads and writes with the reader of
 * layout_reader.h: each change of one byte, each number at its edges, and texts at random.
 * It returns how many outcomes it compared.
 *
 * Each text ends where a page ends, and nobody may read the next page.
 *
 *-------------------------------------------------------------------------
 */
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64 /* years do not end in 2038 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"

#include "cases.h"

PG_MODULE_MAGIC;

#include "../../src/layout.c"
#include "../../src/layout_text.c"

#include "layout_reader.h"

/* --- What is read, and written -------------------------------------------------- */

static char *end_of_page;
static char	 preset_texts[lengthof(layout_presets)][LAYOUT_TEXT_SIZE];

/* Is it what is expected, but for where the names of fields stand? */
static bool
is_expected(Layout *layout)
{
	for (int i = 0; i < expected.nfields; i++)
	{
		const char *name = layout->fields[i].name;

		if (name != NULL && strcmp(name, expected.fields[i].name) == 0)
			expected.fields[i].name = name;
	}
	return memcmp(layout, &expected, sizeof(expected)) == 0;
}

static bool
read_text(const char *text, Layout *layout, LayoutError *error)
{
	size_t length = strlen(text);

	memset(layout, 0x55, sizeof(*layout));
	memset(error, 0x55, sizeof(*error));
	memcpy(end_of_page - length, text, length);
	return layout_parse(end_of_page - length, length, layout, error);
}

/* It is written in one way, cut off where there is no room, and read as the same. */
static void
check_written(const Layout *layout)
{
	const char		   *text = expected_text();
	const LayoutPreset *preset = NULL;
	char				found[LAYOUT_TEXT_SIZE];
	Layout				again;
	LayoutError			error;

	layout_format(layout, found, sizeof(found));
	CHECK(strcmp(found, text) == 0);
	for (size_t size = 1; size < 100; size += 9)
	{
		layout_format(layout, found, size);
		CHECK(strncmp(found, text, size - 1) == 0 && strlen(found) < size);
	}
	CHECK(read_text(text, &again, &error));
	CHECK(memcmp(&again, layout, sizeof(again)) == 0);
	for (int i = layout_preset_count - 1; i >= 0; i--)
	{
		if (strcmp(text, preset_texts[i]) == 0)
			preset = &layout_presets[i];
	}
	CHECK(layout_preset_of(layout) == preset);
}

static void
try_text(const char *text)
{
	bool		is_layout = expect_layout(text);
	bool		is_read;
	Layout		layout;
	LayoutError error;

	strlcpy(what_is_tried, text, sizeof(what_is_tried));
	is_read = read_text(text, &layout, &error);
	CHECK(is_read == is_layout);
	CHECK(strcmp(error.preset, no_preset) == 0);
	if (!is_layout)
		CHECK(strcmp(error.message, reason) == 0);
	else
	{
		CHECK(is_expected(&layout));
		check_written(&layout);
	}
}

/* --- The texts ------------------------------------------------------------------ */

static const char *const texts[] = {
	"epoch=1288834974657 unit=10ms fields=timestamp:41,worker:5,node:5,sequence:12",
	" fields=timestamp:41,sequence:9 unit=7us  epoch=2024-02-29T23:59:59.123456Z",
	"fields=timestamp:29,shard:31\tepoch=1950-12-31\nunit=59s\r"};

/* Each end of a text, and each change of one byte. */
static void
try_changes(const char *text)
{
	static const char bytes[] = "0159:,=-.TZ smutx\n\t\xe9";
	int				  length = strlen(text);

	for (int at = 0; at <= length; at++)
	{
		try_text(psprintf("%.*s", at, text));
		if (at < length)
			try_text(psprintf("%.*s%s", at, text, text + at + 1));
		for (int i = 0; bytes[i] != '\0'; i++)
		{
			try_text(psprintf("%.*s%c%s", at, text, bytes[i], text + at));
			if (at < length)
				try_text(
					psprintf("%.*s%c%s", at, text, bytes[i], text + at + 1));
		}
	}
}

static void
try_words(const char *epoch, const char *unit, const char *fields)
{
	try_text(psprintf("unit=%s fields=%s epoch=%s", unit, fields, epoch));
	try_text(psprintf("epoch=%s fields=%s unit=%s", epoch, fields, unit));
	try_text(psprintf("epoch=%s unit=%s fields=%s", epoch, unit, fields));
}

static void
try_epoch(const char *epoch)
{
	try_words(epoch, "1ms", "timestamp:41,shard:10,sequence:12");
}

static void
try_epochs(void)
{
	static const char *const epochs[] = {"",
										 "0",
										 "00",
										 "1",
										 "99999999999",
										 "100000000000",
										 "100000000001",
										 "253402300799999",
										 "253402300800000",
										 "001288834974657123",
										 "000001288834974657",
										 "0000001288834974657",
										 "18446744073709551616",
										 "18446744173709551616",
										 "2024-01-01T",
										 "2024-01-01T00:00:00.Z",
										 "2024-01-01T00:00:00.5Z",
										 "2024-01-01T00:00:00.1234567Z"};
	static const int		 years[] = {0,	  1,	4,	  100,	1600, 1900,
										1999, 2000, 2001, 2024, 9999};

	for (int i = 0; i < lengthof(epochs); i++)
		try_epoch(epochs[i]);
	for (int i = 0; i < lengthof(years) * 14 * 33; i++)
		try_epoch(psprintf("%04d-%02d-%02d", years[i / 33 / 14], i / 33 % 14,
						   i % 33));
	for (int i = 0; i < 3 * 100; i++)
	{
		int time[3] = {0, 0, 0};

		time[i / 100] = i % 100;
		try_epoch(
			psprintf("1999-12-31T%02d:%02d:%02dZ", time[0], time[1], time[2]));
	}
}

static void
try_units(void)
{
	static const char *const units_tried[] = {"",
											  "0",
											  "1",
											  "0us",
											  "1us",
											  "999us",
											  "1000us",
											  "1001us",
											  "86400000000us",
											  "86400000001us",
											  "0ms",
											  "1ms",
											  "000000000000000001ms",
											  "0000000000000000001ms",
											  "18446744073709551617ms",
											  "999ms",
											  "1000ms",
											  "86400000ms",
											  "86400001ms",
											  "0s",
											  "1s",
											  "86400s",
											  "86401s",
											  "us",
											  "ms",
											  "s",
											  "1uss",
											  "1u"};

	for (int i = 0; i < lengthof(units_tried); i++)
		try_words("2024-01-01", units_tried[i],
				  "timestamp:15,shard:10,sequence:12");
}

/* All orders of up to four names, of which one is none, in widths at random. */
static void
try_fields(pg_prng_state *random)
{
	static const char *const names[] = {"timestamp",  "sequence", "shard",
										"datacenter", "worker",	  "process",
										"machine",	  "node",	  "us"};
	static const int		 widths[] = {1, 2, 9, 15, 16, 30, 31, 32, 62};

	for (int i = 0; i < 4 * 9 * 9 * 9 * 9; i++)
	{
		char fields[MOST_TEXT] = "";
		int	 rest = i / 4;

		for (int j = 0; j <= i % 4; j++, rest /= 9)
			strcat(fields,
				   psprintf("%s%s:%d", j > 0 ? "," : "", names[rest % 9],
							widths[pg_prng_uint64_range(random, 0, 8)]));
		if (rest == 0)
			try_text(psprintf("epoch=0 unit=1us fields=%s", fields));
	}
	try_text(
		"epoch=0 unit=1ms fields=timestamp:4,shard:1,node:1,sequence:1,w:1");
}

/* Widths at the edges of a part and of an id. */
static void
try_widths(void)
{
	for (int i = 0; i < 66 * 66; i++)
	{
		int one = i % 66;
		int other = i / 66;

		try_text(psprintf("epoch=0 unit=1us fields=timestamp:%d,shard:%d", one,
						  other));
		try_text(psprintf("epoch=0 unit=1us fields=timestamp:%d,sequence:%d,"
						  "node:31",
						  one, other));
		try_text(psprintf("epoch=0 unit=1ms fields=timestamp:2,shard:%d,"
						  "node:%d,sequence:30",
						  one, other));
	}
}

/* Epochs from which the last tick of so many bits is just one of the server's, or not. */
static void
try_last_ticks(void)
{
	const int64 us = (INT64CONST(1) << 53) * 1000;

	for (int i = -2000; i <= 2000; i += i < -2 || i > 2 ? 499 : 1)
	{
		TimestampTz epoch = (END_TIMESTAMP - us) + i;

		for (int bits = 52; bits <= 54; bits++)
			try_words(text_of_time(epoch), "1ms",
					  psprintf("timestamp:%d,shard:9", bits));
	}
}

/* Words at random, some of them twice, or not there. */
static void
try_random(pg_prng_state *random)
{
	static const char *const blanks[] = {" ", "\t", "\r\n", "  "};
	static const char *const words[] = {
		"epoch=0",
		"epoch=2024-01-01",
		"epoch",
		"epoch=1",
		"unit=1us",
		"unit=1s",
		"unit=5",
		"fields=timestamp:33,shard:9",
		"fields=timestamp:30,sequence:11,node:3",
		"fields=timestamp:30,sequence",
		"fields=,",
		"fields=",
		"=",
		"twitter"};

	for (int i = 0; i < 20000; i++)
	{
		char text[MOST_TEXT] = "";
		int	 count = pg_prng_uint64_range(random, 0, 5);

		for (int j = 0; j < count; j++)
		{
			strcat(text,
				   words[pg_prng_uint64_range(random, 0, lengthof(words) - 1)]);
			strcat(text, blanks[pg_prng_uint64_range(random, 0, 3)]);
		}
		try_text(text);
	}
}

/* --- Times ---------------------------------------------------------------------- */

/* Any time of the server is written as the calendar has it. */
static void
try_times(pg_prng_state *random)
{
	static const int64 steps[] = {0, 1, 999, 1000, 1001, 999000, 999999};
	char			   found[LAYOUT_TIME_SIZE];

	for (int i = 0; i < 20000; i++)
	{
		TimestampTz time = pg_prng_uint64_range(random, 0, END_TIMESTAMP - 1);

		if (i % 2 == 0)
			time = -(time % -MIN_TIMESTAMP);
		if (i < 400)
			time = (i - 200) * USECS_PER_DAY / 2;
		time += steps[i % lengthof(steps)] - time % 1000000;
		layout_format_time(time, found, sizeof(found));
		strlcpy(what_is_tried, text_of_time(time), sizeof(what_is_tried));
		CHECK(strcmp(found, text_of_time(time)) == 0);
	}
	layout_format_time(DT_NOBEGIN, found, sizeof(found));
	CHECK(strcmp(found, "-infinity") == 0);
	layout_format_time(DT_NOEND, found, sizeof(found));
	CHECK(strcmp(found, "infinity") == 0);
}

/* --- All ------------------------------------------------------------------------ */

static void
try_presets(void)
{
	for (int i = 0; i < layout_preset_count; i++)
	{
		CHECK(expect_layout(layout_presets[i].name));
		strcpy(preset_texts[i], expected_text());
	}
	for (int i = 0; i < layout_preset_count; i++)
	{
		try_text(layout_presets[i].name);
		try_changes(layout_presets[i].name);
		try_text(layout_presets[i].specification);
	}
}

PG_FUNCTION_INFO_V1(layout_text_cases);
Datum
layout_text_cases(PG_FUNCTION_ARGS)
{
	pg_prng_state random;

	tried = 0;
	pg_prng_seed(&random, 1);
	end_of_page = end_of_new_page();
	try_presets();
	for (int i = 0; i < lengthof(texts); i++)
		try_changes(texts[i]);
	try_epochs();
	try_units();
	try_fields(&random);
	try_widths();
	try_last_ticks();
	try_random(&random);
	try_times(&random);
	PG_RETURN_INT64(tried);
}
