/*-------------------------------------------------------------------------
 *
 * layout_cases.c
 *	  Layouts and lists of shards as text, and the errors about them, at each edge.
 *
 * layout_cases() calls the functions of layout.c, layout_text.c, shards.c and errors.c.  It
 * compares each outcome with what their heads say, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/memutils.h"

#include "cases.h"

PG_MODULE_MAGIC;

#include "../../src/errors.c"
#include "../../src/layout.c"
#include "../../src/layout_text.c"
#include "../../src/shards.c"

#include "comparisons.h"

static const char *const texts[] = {
	"twitter",
	"sonyflake",
	"epoch=2024-01-01T00:00:00Z unit=1ms "
	"fields=timestamp:41,shard:10,sequence:12",
	"epoch=2024-01-01T00:00:00.123456Z unit=10us "
	"fields=timestamp:40,sequence:9,shard:5",
	"epoch=2030-12-31 unit=3600s fields=timestamp:20,datacenter:3,worker:7",
	"epoch=0 unit=3us fields=timestamp:61,shard:1"};

static Layout
layout_of(const char *text)
{
	Layout layout;

	read_layout_or_fail(text, strlen(text), &layout);
	return layout;
}

/* --- Texts ------------------------------------------------------------------ */

/* What stands behind the end of a text counts for nothing. */
static void
try_ends(const char *text)
{
	static const char behind[] = "0dT:Z-.=,+ s";
	char			  bytes[LAYOUT_TEXT_SIZE + 2] = {0};

	for (size_t length = 0; length <= strlen(text); length++)
	{
		Layout		expected;
		LayoutError expected_error = {0};
		bool		is_valid;

		snprintf(what_is_tried, sizeof(what_is_tried), "%.*s", (int) length,
				 text);
		memcpy(bytes, text, length);
		bytes[length] = 'x';
		is_valid = layout_parse(bytes, length, &expected, &expected_error);
		for (int i = 0; i < lengthof(behind); i++)
		{
			Layout		found;
			LayoutError error = {0};

			memset(bytes + length, behind[i], 2);
			CHECK(layout_parse(bytes, length, &found, &error) == is_valid);
			CHECK(is_valid ?
					  layout_is_same(&found, &expected) :
					  strcmp(error.message, expected_error.message) == 0);
		}
	}
}

/* A byte that is not printable ASCII is escaped, and a text that is too long ends in dots. */
static void
try_quotes(void)
{
	for (int i = 1; i < 256 * 70; i++)
	{
		unsigned char byte = i % 256;
		int			  count = i / 256;
		bool		  is_shown = byte > 31 && byte < 127;
		const char	 *item = is_shown	  ? psprintf("%c", byte) :
							 byte == '\n' ? "\\n" :
											psprintf("\\x%02x", byte);
		char		  bytes[70];
		char		  quote[LAYOUT_QUOTE_SIZE];
		char		  expected[LAYOUT_QUOTE_SIZE] = "";
		int			  shown = 0;

		snprintf(what_is_tried, sizeof(what_is_tried), "quote %d", i);
		memset(bytes, byte, sizeof(bytes));
		for (; shown < count && strlen(expected) < LAYOUT_QUOTE_SIZE - 8;
			 shown++)
			strcat(expected, item);
		strcat(expected, shown < count ? "..." : "");
		CHECK(layout_quote(bytes, bytes + count, quote) == quote);
		CHECK(strcmp(quote, expected) == 0);
	}
}

/* Two layouts are the same if they read ids alike, whatever their fields are called. */
static void
try_same(const char *text)
{
	Layout layout = layout_of(text);

	for (int i = 0; i < 9; i++)
	{
		Layout	   other = layout;
		int *const parts[] = {&other.timestamp_shift, &other.shard_bits,
							  &other.shard_shift, &other.sequence_bits,
							  &other.sequence_shift};

		snprintf(what_is_tried, sizeof(what_is_tried), "%s, %d", text, i);
		if (i < lengthof(parts))
			(*parts[i])++;
		else if (i == 5)
			other.epoch++;
		else if (i == 6)
			other.tick_us++;
		else if (i == 7)
			other.fields[0].name = "another";
		CHECK(layout_is_same(&layout, &other) == (i >= 7));
		CHECK(layout_is_same(&other, &layout) == (i >= 7));
	}
}

/* --- Times ------------------------------------------------------------------- */

/* The ticks of a time: that which it falls into, and the first one from there. */
static void
try_time(const Layout *layout, TimestampTz time)
{
	const int64 least = layout_tick(layout, PG_INT64_MIN);
	const int64 last = layout_tick(layout, PG_INT64_MAX);
	const int64 greatest = Min(last, layout->last_tick);
	const int64 end = layout->last_mint_tick + 1;
	int64		first = layout_first_tick_from(layout, time);
	int64		tick;

	CHECK(first >= 0 && first <= end);
	CHECK(first == 0 || layout_time_of_tick(layout, first - 1) < time);
	CHECK(first == end || layout_time_of_tick(layout, first) >= time);
	if (!layout_tick_of_time(layout, time, &tick))
	{
		CHECK(TIMESTAMP_NOT_FINITE(time) ||
			  time < layout_time_of_tick(layout, least) ||
			  time - layout->tick_us >= layout_time_of_tick(layout, greatest));
		return;
	}
	CHECK(!TIMESTAMP_NOT_FINITE(time) && tick >= least && tick <= greatest);
	CHECK(layout_time_of_tick(layout, tick) <= time);
	CHECK(time - layout->tick_us < layout_time_of_tick(layout, tick));
}

/* The ids of a comparison are those whose time compares so. */
static void
try_ids(const char *text)
{
	Layout		layout = layout_of(text);
	const int64 least = layout_tick(&layout, PG_INT64_MIN);
	const int64 greatest = layout_tick(&layout, PG_INT64_MAX);
	const int64 edges[] = {
		least,	 0, layout.last_mint_tick, layout.first_tick, layout.last_tick,
		greatest};
	TimestampTz times[lengthof(edges) * 9 + 4] = {DT_NOBEGIN, DT_NOEND,
												  MIN_TIMESTAMP,
												  END_TIMESTAMP - 1};
	int64		ticks[lengthof(edges) * 3];
	int			count = 0;
	int			ntimes = 4;

	for (int i = 0; i < lengthof(ticks); i++)
	{
		int64 tick = Min(Max(edges[i / 3], least + 1), greatest - 1) + i % 3 -
					 1; /* of those that ids have */

		ticks[count++] = tick;
		if (TIMESTAMP_NOT_FINITE(layout_time_of_tick(&layout, tick)))
			continue;
		for (int us = -1; us <= 1; us++)
		{
			TimestampTz time = layout_time_of_tick(&layout, tick) + us;

			if (IS_VALID_TIMESTAMP(time))
				times[ntimes++] = time;
		}
	}
	for (int i = 0; i < ntimes * 5 * count; i++)
	{
		TimestampTz		 time = times[i % ntimes];
		LayoutComparison comparison = i / ntimes % 5;
		int64			 tick = ticks[i / ntimes / 5];
		int64			 id = layout_pack(&layout, tick, 0, 0);
		LayoutIdRange	 ids = layout_ids(&layout, comparison, time);
		bool			 expected =
			compares(layout_time_of_tick(&layout, tick), comparison, time);

		snprintf(what_is_tried, sizeof(what_is_tried),
				 "%.30s: tick " INT64_FORMAT ", %d, time " INT64_FORMAT, text,
				 tick, (int) comparison, time);
		CHECK((id >= ids.first && id <= ids.last) == expected);
		id |= layout_mask(layout.timestamp_shift);
		CHECK((id >= ids.first && id <= ids.last) == expected);
		try_time(&layout, time);
	}
}

/* --- Lists of shards ------------------------------------------------------------ */

/* Blanks may stand between the words of "auto:N", and nowhere else. */
static void
try_shards(void)
{
	static const char *const blanks[] = {"", " ", "\t \n"};

	for (int i = 0; i < 3 * 3 * 3 * 3 * 5; i++)
	{
		static const struct
		{
			const char *number;
			int			count; /* 0: it is none */
		} cases[] = {{NULL, 1}, {"1", 1}, {"8", 8}, {"0", 0}, {"9", 0}};
		int			number = i / 81;
		int32		count = -1;
		LayoutError error = {0};
		const char *text =
			psprintf("%sauto%s%s%s%s%s", blanks[i % 3], blanks[i / 3 % 3],
					 number ? ":" : "", number ? blanks[i / 9 % 3] : "",
					 number ? cases[number].number : "",
					 number ? blanks[i / 27 % 3] : "");

		snprintf(what_is_tried, sizeof(what_is_tried), "%s", text);
		CHECK(shards_parse_auto(text, 7, &count, &error) ==
			  (cases[number].count > 0));
		CHECK(count == cases[number].count);
		CHECK((error.message[0] == '\0') == (cases[number].count > 0));
	}
}

/* A list is no "auto", and no error; a word that only begins so is an error. */
static void
try_no_auto(void)
{
	static const struct
	{
		const char *text;
		bool		is_list;
	} cases[] = {{"", true},		{" 1", true},		{"1,2-4", true},
				 {"aut", true},		{"1auto", true},	{"autox", false},
				 {"auto 1", false}, {"AUTO:1x", false}, {"auto:1,2", false}};

	for (int i = 0; i < lengthof(cases); i++)
	{
		const char *text = cases[i].text;
		int32		count = -1;
		LayoutError error = {0};
		const char *reason = psprintf("\"%s\" is not \"auto\" or \"auto:N\", "
									  "with N from 1 to 8.",
									  text);

		snprintf(what_is_tried, sizeof(what_is_tried), "%s", text);
		CHECK(shards_parse_auto(text, 7, &count, &error) == cases[i].is_list);
		CHECK(count == 0);
		CHECK(strcmp(error.message, cases[i].is_list ? "" : reason) == 0);
	}
}

/* All sets of eight shards: as a list, as much of it as fits, and read again. */
static void
try_lists(void)
{
	for (int set = 0; set < 256; set++)
	{
		bool  mine[8] = {false};
		int32 shard[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
		int	  count = 0;
		char  expected[40] = "";
		char  list[40];
		char *at = expected;

		for (int i = 0; i < 8; i++)
		{
			bool follows = i > 0 && set >> (i - 1) & 1;
			bool goes_on = set >> (i + 1) & 1;

			if (!(set >> i & 1))
				continue;
			shard[count++] = i;
			if (!follows)
				at += sprintf(at, "%s%d", at > expected ? "," : "", i);
			else if (!goes_on)
				at += sprintf(at, "-%d", i);
		}
		if (count > 0)
			shard[count] = shard[count - 1] + 1; /* behind the end */
		snprintf(what_is_tried, sizeof(what_is_tried), "%s", expected);
		for (size_t size = 1; size <= sizeof(list); size++)
		{
			memset(list, '#', sizeof(list));
			shards_format(shard, count, list, size);
			CHECK(strlen(list) < size && strchr(list, '#') == NULL);
			for (size_t i = size; i < sizeof(list); i++)
				CHECK(list[i] == '#');
			CHECK(strncmp(list, expected, strlen(list)) == 0);
			CHECK(strlen(list) == Min(strlen(expected), size - 1));
		}
		CHECK(shards_parse(list, 7, mine, &(LayoutError){0}));
		for (int i = 0; i < 8; i++)
			CHECK(mine[i] == (set >> i & 1));
	}
}

/* What is no list, and why; "" is one that has the shards of the third text. */
static const char *const lists[][3] = {
	{"", "", ""},
	{" \t", "", ""},
	{" 1 , 2 - 4 ,7", "", "1,2-4,7"},
	{"3-3", "", "3"},
	{"0-7", "", "0-7"},
	{",", "\"\" is not a shard or a range of shards."},
	{"1,", "\"\" is not a shard or a range of shards."},
	{"1,,2", "\"\" is not a shard or a range of shards."},
	{"1-", "\"1-\" is not a shard or a range of shards."},
	{"-1", "\"-1\" is not a shard or a range of shards."},
	{"1--2", "\"1--2\" is not a shard or a range of shards."},
	{"5,1 2,3", "\"1 2\" is not a shard or a range of shards."},
	{"auto", "\"auto\" is not a shard or a range of shards."},
	{"8", "Shard 8 is out of range: the layout has shards 0 to 7."},
	{"7-8", "Shard 8 is out of range: the layout has shards 0 to 7."},
	{"8-7", "Shard 8 is out of range: the layout has shards 0 to 7."},
	{"999999999999999999",
	 "Shard 999999999999999999 is out of range: the layout has shards 0 to 7."},
	{"1000000000000000000",
	 "\"1000000000000000000\" is not a shard or a range of shards."},
	{"3,2-1", "The range 2-1 runs backwards."}};

static void
try_no_lists(void)
{
	for (int i = 0; i < lengthof(lists); i++)
	{
		bool		mine[9] = {false};
		bool		expected[9] = {false};
		LayoutError error = {0};
		bool		is_list = lists[i][2] != NULL;

		snprintf(what_is_tried, sizeof(what_is_tried), "%s", lists[i][0]);
		CHECK(shards_parse(lists[i][0], 7, mine, &error) == is_list);
		CHECK(strcmp(error.message, lists[i][1]) == 0);
		if (!is_list)
			continue;
		CHECK(shards_parse(lists[i][2], 7, expected, &error));
		CHECK(memcmp(mine, expected, sizeof(mine)) == 0);
	}
}

/* --- Errors ------------------------------------------------------------------ */

static const Layout *asked_layout;
static TimestampTz	 asked_time;
static int64		 given;

static const struct
{
	int64		us;
	const char *text;
} durations[] = {{0, "0 ms"},
				 {1, "1 ms"},
				 {1000, "1 ms"},
				 {1001, "2 ms"},
				 {998001, "999 ms"},
				 {999001, "1.0 s"},
				 {INT64CONST(1000000), "1.0 s"},
				 {INT64CONST(61200000), "61.2 s"},
				 {INT64CONST(119900000), "119.9 s"},
				 {INT64CONST(120000000), "2 min 0 s"},
				 {INT64CONST(843000000), "14 min 3 s"},
				 {INT64CONST(7199000000), "119 min 59 s"},
				 {INT64CONST(7200000000), "2 h 0 min"},
				 {INT64CONST(172799000000), "47 h 59 min"},
				 {INT64CONST(172800000000), "2 days"},
				 {INT64CONST(1123200000000), "13 days"}};

static void
try_durations(void)
{
	for (int i = 0; i < lengthof(durations); i++)
	{
		CHECK(strcmp(duration_text(durations[i].us), durations[i].text) == 0);
		CHECK(strcmp(duration_text(-durations[i].us), durations[i].text) == 0);
	}
}

static void
fail_part(bool patient)
{
	report_part_range(asked_layout, "shard", 1024, 1023);
}

static void
fail_time(bool patient)
{
	report_time_range(asked_layout, asked_time, 0, 1);
}

static void
fail_layout(bool patient)
{
	(void) layout_of("twiter");
}

/* Each in all its words; its memory is the caller's. */
static void
try_errors(void)
{
	static const struct
	{
		void (*fails)(bool patient);
		int			code;
		const char *message;
		const char *detail;
	} cases[] = {{fail_part, ERRCODE_INVALID_PARAMETER_VALUE,
				  "shard 1024 is out of range",
				  "Layout \"twitter\" has shard numbers 0 to 1023."},
				 {fail_time, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE,
				  "time 2000-01-01T00:00:00Z is out of the layout's range",
				  "Layout \"twitter\" holds the times from "
				  "2010-11-04T01:42:54.657Z to 2010-11-04T01:42:54.658Z."},
				 {fail_layout, ERRCODE_INVALID_PARAMETER_VALUE, NULL, NULL}};
	Layout layout = layout_of("twitter");

	asked_layout = &layout;
	asked_time = 0;
	for (int i = 0; i < lengthof(cases); i++)
	{
		ErrorData *error = caught_error(cases[i].fails);

		CHECK(error != NULL && error->sqlerrcode == cases[i].code);
		CHECK(cases[i].message == NULL ||
			  strcmp(error->message, cases[i].message) == 0);
		CHECK(cases[i].detail == NULL ||
			  strcmp(error->detail, cases[i].detail) == 0);
		CHECK(CurrentMemoryContext != ErrorContext);
		CHECK(GetMemoryChunkContext(error) == CurrentMemoryContext);
	}
}

static void
ask_tick(bool patient)
{
	given = present_mint_tick(asked_layout, asked_time);
	CHECK(!patient);
}

/* Each tick from the epoch to the last one is minted in, from its first to its last us. */
static void
try_ticks(const char *text)
{
	Layout		layout = layout_of(text);
	const int64 last = layout.last_mint_tick;
	const int64 ticks[] = {-2, -1, 0, 1, 2, last - 1, last};

	asked_layout = &layout;
	for (int i = 0; i < lengthof(ticks) * 2; i++)
	{
		ErrorData *error;

		snprintf(what_is_tried, sizeof(what_is_tried), "%s, %d", text, i);
		asked_time = layout.epoch + ticks[i / 2] * layout.tick_us +
					 (i % 2 ? layout.tick_us - 1 : 0);
		given = PG_INT64_MIN;
		error = caught_error(ask_tick);
		CHECK((error == NULL) == (ticks[i / 2] >= 0));
		if (error == NULL)
			CHECK(given == ticks[i / 2]);
		else
			CHECK(strcmp(error->message,
						 "clock is before the epoch of the layout") == 0);
	}
	asked_time += 1;
	CHECK(strcmp(caught_error(ask_tick)->message,
				 "the layout of snowflake ids has expired") == 0);
}

/* A name is taken for the one that it is most like, if it is like one. */
static void
try_names(void)
{
	static const char *const names[][2] = {{"twiter", "twitter"},
										   {"tiwtter", "twitter"},
										   {"twt", NULL},
										   {"sonyflak", "sonyflake"},
										   {"sonyfl", "sonyflake"},
										   {"sonyf", NULL},
										   {"clickxxxxe", "clickhouse"},
										   {"clickxxxxx", NULL},
										   {"sonnyflakes", "sonyflake"},
										   {"discrod", "discord"},
										   {"xyz", NULL},
										   {"", NULL}};

	StringInfo presets = makeStringInfo();

	for (int i = 0; i < layout_preset_count; i++)
		appendStringInfo(presets, "%s%s", i > 0 ? ", " : "",
						 layout_presets[i].name);
	for (int i = 0; i < lengthof(names); i++)
	{
		LayoutError error = {0};
		const char *nearest = "";

		snprintf(what_is_tried, sizeof(what_is_tried), "%s", names[i][0]);
		strlcpy(error.preset, names[i][0], sizeof(error.preset));
		if (names[i][1] != NULL)
			nearest = psprintf("Perhaps you meant \"%s\". ", names[i][1]);
		CHECK(strcmp(hint_of_layout(&error),
					 psprintf("%sA layout is a preset (%s) or a specification "
							  "such as \"epoch=2024-01-01T00:00:00Z unit=1ms "
							  "fields=timestamp:41,shard:10,sequence:12\".",
							  nearest, presets->data)) == 0);
	}
}

/* A layout is called by its preset's name, else by its specification. */
static void
try_layout_name(const char *text)
{
	Layout layout = layout_of(text);

	snprintf(what_is_tried, sizeof(what_is_tried), "%s", text);
	CHECK(strcmp(layout_name(&layout), text) == 0);
}

PG_FUNCTION_INFO_V1(layout_cases);
Datum
layout_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	for (int i = 0; i < lengthof(texts); i++)
	{
		try_ends(texts[i]);
		try_same(texts[i]);
		try_ids(texts[i]);
		try_ticks(texts[i]);
	}
	for (int i = 0; i < 3; i++)
		try_layout_name(texts[i]);
	try_quotes();
	try_shards();
	try_no_auto();
	try_lists();
	try_no_lists();
	try_names();
	try_durations();
	try_errors();
	PG_RETURN_INT64(tried);
}
