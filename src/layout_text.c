/*-------------------------------------------------------------------------
 *
 * layout_text.c
 *	  Layouts as text: presets, parsing and printing.
 *
 * A layout is an epoch, a tick length and the fields from the most
 * significant bit down.  The presets are specifications in text, and the
 * parser is the only place that builds a Layout, so that a preset cannot
 * mean anything that a user could not have written.  Shifts, masks and ranges
 * are derived from the widths.
 *
 * Invariants of every Layout that layout_parse() returns:
 *	- the timestamp is the topmost field and is followed by one shard, in one
 *	  part or two neighbouring ones, and one sequence number, in either order;
 *	  or by one of the two, and the other one has no bits and is always 0;
 *	- the widths of fields are at least 1 and sum to at most 64, those of the
 *	  shard and of the sequence number to at most 31;
 *	- every id that can be minted (ticks 0 to last_mint_tick) is positive, and
 *	  the server can hold its time.
 *
 * Pure functions: no settings, no state, nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "common/int.h"
#include "utils/datetime.h"

#include "layout.h"

/*
 * Epochs as a number, in ms: 0, or from 1973 to the end of 9999.  Between lie
 * years and seconds, which are mistakes.
 */
#define MIN_EPOCH_MS INT64CONST(100000000000)
#define MAX_EPOCH_MS INT64CONST(253402300799999)

#define MAX_TICK_US USECS_PER_DAY

#define BLANKS " \t\r\n"

#define ID_BITS 64

const LayoutPreset layout_presets[] = {
	{"twitter",
	 "epoch=1288834974657 unit=1ms"
	 " fields=timestamp:41,datacenter:5,worker:5,sequence:12",
	 "Twitter, snowflake-2010 (IdWorker.scala)"},
	{"discord",
	 "epoch=1420070400000 unit=1ms"
	 " fields=timestamp:42,worker:5,process:5,sequence:12",
	 "Discord, API reference, Snowflakes"},
	{"instagram",
	 "epoch=1314220021721 unit=1ms"
	 " fields=timestamp:41,shard:13,sequence:10",
	 "Instagram Engineering, Sharding & IDs at Instagram (2012)"},
	{"sonyflake",
	 "epoch=1409529600000 unit=10ms"
	 " fields=timestamp:39,sequence:8,machine:16",
	 "Sony, sonyflake v1 (Go)"},
	{"sonyflake2",
	 "epoch=1735689600000 unit=10ms"
	 " fields=timestamp:39,sequence:8,machine:16",
	 "Sony, sonyflake v2 (Go)"},
	{"pgedge",
	 "epoch=1672531200000 unit=1ms"
	 " fields=timestamp:41,node:10,sequence:12",
	 "pgEdge, snowflake extension 2.x"},
	{"mastodon", "epoch=0 unit=1ms fields=timestamp:48,sequence:16",
	 "Mastodon, timestamp_id (lib/mastodon/snowflake.rb)"},
	{"clickhouse",
	 "epoch=0 unit=1ms fields=timestamp:41,machine:10,sequence:12",
	 "ClickHouse, generateSnowflakeID"},
	{"pgdog",
	 "epoch=1764184395000 unit=1ms fields=timestamp:41,node:10,sequence:12",
	 "PgDog, unique_id, standard (unique_id.rs)"},
	{"pgdog_compact",
	 "epoch=1764184395000 unit=1ms fields=timestamp:41,node:6,sequence:6",
	 "PgDog, unique_id, compact (unique_id.rs)"}};

const int layout_preset_count = lengthof(layout_presets);

/* Every name that a field may bear. */
static const struct
{
	const char *name;
	LayoutPart	part;
} vocabulary[] = {
	{"timestamp", LAYOUT_TIMESTAMP}, {"shard", LAYOUT_SHARD},
	{"datacenter", LAYOUT_SHARD},	 {"worker", LAYOUT_SHARD},
	{"process", LAYOUT_SHARD},		 {"machine", LAYOUT_SHARD},
	{"node", LAYOUT_SHARD},			 {"sequence", LAYOUT_SEQUENCE}};

/* Units of ticks, ascending. */
static const struct
{
	const char *suffix;
	int64		us;
} units[] = {{"us", 1}, {"ms", US_PER_MS}, {"s", USECS_PER_SEC}};

/* A stretch of the text being parsed; not terminated. */
typedef struct Span
{
	const char *start;
	const char *end;
} Span;

/* A user's text in an error message. */
#define QUOTED(span) \
	layout_quote((span).start, (span).end, (char[LAYOUT_QUOTE_SIZE]){0})

/* --- Reading text ------------------------------------------------------- */

/* Keep the reason and return false, so that callers can "return fail(...)". */
static bool pg_attribute_printf(2, 3)
	fail(LayoutError *error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->message, sizeof(error->message), format, args);
	va_end(args);
	return false;
}

static bool
span_is(Span span, const char *word)
{
	size_t length = span.end - span.start;

	return strlen(word) == length && strncmp(span.start, word, length) == 0;
}

/* Cut off what stands before the next separator, and the separator. */
static Span
cut(Span *rest, const char *separators)
{
	Span head = *rest;

	while (rest->start < rest->end && strchr(separators, *rest->start) == NULL)
		rest->start++;
	head.end = rest->start;
	if (rest->start < rest->end)
		rest->start++;
	return head;
}

/* Read exactly so many digits; false where there are fewer. */
static bool
take_digits(Span *rest, int count, int64 *value)
{
	*value = 0;
	for (int i = 0; i < count; i++)
	{
		if (rest->start == rest->end || !isdigit((unsigned char) *rest->start))
			return false;
		*value = *value * 10 + (*rest->start++ - '0');
	}
	return true;
}

static bool
take_char(Span *rest, char c)
{
	if (rest->start == rest->end || *rest->start != c)
		return false;
	rest->start++;
	return true;
}

static int
count_digits(Span span)
{
	int count = 0;

	while (span.start + count < span.end &&
		   isdigit((unsigned char) span.start[count]))
		count++;
	return count;
}

/* Read a number from 0 to max that fills the span, max below 10^18. */
static bool
whole_number(Span span, int64 max, int64 *value)
{
	int count = count_digits(span);

	return count > 0 && count <= 18 && take_digits(&span, count, value) &&
		   span.start == span.end && *value <= max;
}

/* --- Times: ISO 8601 in UTC, whatever the session's DateStyle and time zone  */

/* YYYY-MM-DD, a date that exists, as days since 2000-01-01. */
static bool
take_date(Span *rest, int64 *days)
{
	int64 year, month, day;

	if (!take_digits(rest, 4, &year) || !take_char(rest, '-') ||
		!take_digits(rest, 2, &month) || !take_char(rest, '-') ||
		!take_digits(rest, 2, &day) || month < 1 || month > 12 || day < 1 ||
		day > day_tab[isleap(year)][month - 1])
		return false;
	*days = date2j((int) year, (int) month, (int) day) - POSTGRES_EPOCH_JDATE;
	return true;
}

/* HH:MM:SS, with up to six digits of a fraction, and Z. */
static bool
take_time_of_day(Span *rest, int64 *us)
{
	int64 hour, minute, second, fraction = 0;

	if (!take_digits(rest, 2, &hour) || !take_char(rest, ':') ||
		!take_digits(rest, 2, &minute) || !take_char(rest, ':') ||
		!take_digits(rest, 2, &second) || hour > 23 || minute > 59 ||
		second > 59)
		return false;
	if (take_char(rest, '.'))
	{
		int digits = count_digits(*rest);

		if (digits < 1 || digits > 6 || !take_digits(rest, digits, &fraction))
			return false;
		for (; digits < 6; digits++)
			fraction *= 10;
	}
	*us = ((hour * 60 + minute) * 60 + second) * USECS_PER_SEC + fraction;
	return take_char(rest, 'Z');
}

/* An epoch: Unix milliseconds, a date, or a date and a time in UTC. */
static bool
parse_epoch(Span span, Layout *layout, LayoutError *error)
{
	Span  rest = span;
	int64 ms, days, us = 0;

	if (count_digits(span) == span.end - span.start)
	{
		if (!whole_number(span, MAX_EPOCH_MS, &ms) ||
			(ms != 0 && ms < MIN_EPOCH_MS))
			return fail(error,
						"epoch \"%s\" is not 0 or from " INT64_FORMAT
						" to " INT64_FORMAT " milliseconds since 1970",
						QUOTED(span), MIN_EPOCH_MS, MAX_EPOCH_MS);
		layout->epoch = UNIX_EPOCH_US + ms * US_PER_MS;
		return true;
	}
	if (!take_date(&rest, &days) ||
		(take_char(&rest, 'T') && !take_time_of_day(&rest, &us)) ||
		rest.start != rest.end)
		return fail(error,
					"epoch \"%s\" is neither Unix milliseconds nor a UTC"
					" time such as 2024-01-01T00:00:00Z",
					QUOTED(span));
	layout->epoch = days * USECS_PER_DAY + us;
	return true;
}

/* A time as parse_epoch() reads it, the fraction only as long as needed. */
void
layout_format_time(TimestampTz time, char *buffer, size_t size)
{
	int64 days = time / USECS_PER_DAY;
	int64 us = time % USECS_PER_DAY;
	int	  year, month, day, second, fraction;
	char  digits[16] = "";

	if (TIMESTAMP_NOT_FINITE(time))
	{
		strlcpy(buffer, TIMESTAMP_IS_NOBEGIN(time) ? "-infinity" : "infinity",
				size);
		return;
	}
	if (us < 0)
	{
		us += USECS_PER_DAY;
		days--;
	}
	j2date((int) days + POSTGRES_EPOCH_JDATE, &year, &month, &day);
	second = (int) (us / USECS_PER_SEC);
	fraction = (int) (us % USECS_PER_SEC);
	if (fraction % 1000 != 0)
		snprintf(digits, sizeof(digits), ".%06d", fraction);
	else if (fraction != 0)
		snprintf(digits, sizeof(digits), ".%03d", fraction / 1000);
	snprintf(buffer, size, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", year, month,
			 day, second / 3600, second / 60 % 60, second % 60, digits);
}

/* --- Specifications ----------------------------------------------------- */

static bool
parse_unit(Span span, Layout *layout, LayoutError *error)
{
	Span number = {span.start, span.start + count_digits(span)};
	Span suffix = {number.end, span.end};

	for (int i = 0; i < lengthof(units); i++)
	{
		int64 count;

		if (!span_is(suffix, units[i].suffix))
			continue;
		if (whole_number(number, MAX_TICK_US / units[i].us, &count) &&
			count > 0)
		{
			layout->tick_us = count * units[i].us;
			return true;
		}
	}
	return fail(error,
				"unit \"%s\" is not a length such as 1ms, 10ms or 1s, of"
				" a day at most",
				QUOTED(span));
}

static bool
parse_field(Span span, LayoutField *field, LayoutError *error)
{
	Span  bits = span;
	Span  name = cut(&bits, ":");
	int64 width;

	for (int i = 0; i < lengthof(vocabulary); i++)
	{
		if (!span_is(name, vocabulary[i].name))
			continue;
		if (!whole_number(bits, ID_BITS - 1, &width) || width < 1)
			return fail(error, "field \"%s\" needs a width from 1 to %d bits",
						QUOTED(span), ID_BITS - 1);
		field->name = vocabulary[i].name;
		field->part = vocabulary[i].part;
		field->bits = (int) width;
		return true;
	}
	return fail(error, "unknown field \"%s\"", QUOTED(name));
}

static bool
parse_fields(Span span, Layout *layout, LayoutError *error)
{
	layout->nfields = 0;
	do
	{
		LayoutField *field = &layout->fields[layout->nfields];

		if (layout->nfields == LAYOUT_MAX_FIELDS)
			return fail(error, "more than %d fields", LAYOUT_MAX_FIELDS);
		if (!parse_field(cut(&span, ","), field, error))
			return false;
		for (int i = 0; i < layout->nfields; i++)
		{
			if (layout->fields[i].name == field->name)
				return fail(error, "field \"%s\" appears twice", field->name);
		}
		layout->nfields++;
	} while (span.start < span.end || span.end[-1] == ',');
	return true;
}

/* Check the fields as a whole and derive the shift of each. */
static bool
place_fields(Layout *layout, LayoutError *error)
{
	int	 total = 0;
	int	 count[LAYOUT_SEQUENCE + 1] = {0, 0, 0};
	int	 bits[LAYOUT_SEQUENCE + 1] = {0, 0, 0};
	int	 shift[LAYOUT_SEQUENCE + 1] = {0, 0, 0};
	bool are_apart = false; /* two fields of one part */

	if (layout->fields[0].part != LAYOUT_TIMESTAMP)
		return fail(error, "timestamp must come first");
	for (int i = layout->nfields - 1; i >= 0; i--)
	{
		LayoutField *field = &layout->fields[i];

		if (count[field->part]++ == 0)
			shift[field->part] = total;
		else if (field->part != field[1].part)
			are_apart = true;
		field->shift = total;
		bits[field->part] += field->bits;
		total += field->bits;
	}
	if (total > ID_BITS)
		return fail(error, "fields sum to %d bits, and an id has %d", total,
					ID_BITS);
	if (count[LAYOUT_SHARD] == 0 && count[LAYOUT_SEQUENCE] == 0)
		return fail(error, "there is neither a shard nor a sequence");
	if (count[LAYOUT_SHARD] > LAYOUT_MAX_SHARD_FIELDS)
		return fail(error, "the shard has %d parts, and the most is %d",
					count[LAYOUT_SHARD], LAYOUT_MAX_SHARD_FIELDS);
	if (are_apart)
		return fail(error, "the two parts of a shard must be neighbours");
	for (LayoutPart part = LAYOUT_SHARD; part <= LAYOUT_SEQUENCE; part++)
	{
		if (bits[part] > LAYOUT_MAX_PART_BITS)
			return fail(error, "the %s has %d bits, and the most is %d",
						part == LAYOUT_SHARD ? "shard" : "sequence",
						bits[part], LAYOUT_MAX_PART_BITS);
	}

	layout->timestamp_shift = shift[LAYOUT_TIMESTAMP];
	layout->shard_bits = bits[LAYOUT_SHARD];
	layout->shard_shift = shift[LAYOUT_SHARD];
	layout->sequence_bits = bits[LAYOUT_SEQUENCE];
	layout->sequence_shift = shift[LAYOUT_SEQUENCE];
	return true;
}

/*
 * (time - epoch) in whole ticks towards zero.  The difference saturates, short
 * of the last int64, so that there is always a tick after it.  So a time that is
 * 2^63 us after an epoch before 2000, 292277 years, counts as one that the
 * server cannot hold.
 */
static int64
ticks_from_epoch(const Layout *layout, TimestampTz time)
{
	int64 us;

	if (pg_sub_s64_overflow(time, layout->epoch, &us))
		us = PG_INT64_MAX; /* only END_TIMESTAMP is as far away */
	return Min(us, PG_INT64_MAX - 1) / layout->tick_us;
}

/* Derive all that follows from the fields, the epoch and the tick. */
static bool
layout_derive(Layout *layout, LayoutError *error)
{
	int tick_bits;

	if (!place_fields(layout, error))
		return false;

	/* minted ids use the timestamp's own bits, and never the sign */
	tick_bits = Min(layout->fields[0].bits, 63 - layout->timestamp_shift);
	layout->last_mint_tick = layout_mask(tick_bits);

	layout->first_tick = ticks_from_epoch(layout, MIN_TIMESTAMP);
	layout->last_tick = ticks_from_epoch(layout, END_TIMESTAMP - 1);
	if (layout->last_mint_tick > layout->last_tick)
		return fail(error,
					"a timestamp of %d bits runs past the last time"
					" that the server can hold",
					layout->fields[0].bits);
	return true;
}

static bool
parse_specification(Span text, Layout *layout, LayoutError *error)
{
	static const struct
	{
		const char *key;
		bool (*parse)(Span value, Layout *layout, LayoutError *error);
	} settings[] = {{"epoch", parse_epoch},
					{"unit", parse_unit},
					{"fields", parse_fields}};
	bool is_given[lengthof(settings)] = {false};

	while (text.start < text.end)
	{
		Span value = cut(&text, BLANKS);
		Span word = value;
		Span key = cut(&value, "=");
		int	 i = 0;

		if (word.start == word.end)
			continue; /* more than one blank */
		while (i < lengthof(settings) && !span_is(key, settings[i].key))
			i++;
		if (i == lengthof(settings))
			return fail(error,
						"\"%s\" is not epoch=..., unit=... or fields=...",
						QUOTED(word));
		if (!settings[i].parse(value, layout, error))
			return false;
		if (is_given[i])
			return fail(error, "\"%s\" appears twice", settings[i].key);
		is_given[i] = true;
	}
	for (int i = 0; i < lengthof(settings); i++)
	{
		if (!is_given[i])
			return fail(error, "%s=... is missing", settings[i].key);
	}
	return layout_derive(layout, error);
}

/*
 * Read a layout: a preset's name or a specification.  On false, *error says
 * which part is wrong and *layout is undefined.
 */
bool
layout_parse(const char *text, size_t length, Layout *layout,
			 LayoutError *error)
{
	Span span = {text, text + length};

	memset(layout, 0, sizeof(*layout));
	error->preset[0] = '\0';
	for (int i = 0; i < layout_preset_count; i++)
	{
		const char *preset = layout_presets[i].specification;

		if (span_is(span, layout_presets[i].name))
			span = (Span){preset, preset + strlen(preset)};
	}
	if (memchr(span.start, '=', span.end - span.start) == NULL)
	{
		(void) layout_quote(span.start, span.end, error->preset);
		return fail(error, "there is no preset \"%s\"", error->preset);
	}
	return parse_specification(span, layout, error);
}

/* The fields as a specification names them. */
void
layout_format_fields(const Layout *layout, char *buffer, size_t size)
{
	buffer[0] = '\0';
	for (int i = 0; i < layout->nfields; i++)
	{
		size_t length = strlen(buffer);

		snprintf(buffer + length, size - length, "%s%s:%d", i > 0 ? "," : "",
				 layout->fields[i].name, layout->fields[i].bits);
	}
}

/* The specification; layout_parse() makes the same layout of it. */
void
layout_format(const Layout *layout, char *buffer, size_t size)
{
	char epoch[LAYOUT_TIME_SIZE];
	char fields[LAYOUT_TEXT_SIZE];
	int	 unit = lengthof(units) - 1;

	while (layout->tick_us % units[unit].us != 0)
		unit--;
	layout_format_time(layout->epoch, epoch, sizeof(epoch));
	layout_format_fields(layout, fields, sizeof(fields));
	snprintf(buffer, size, "epoch=%s unit=" INT64_FORMAT "%s fields=%s", epoch,
			 layout->tick_us / units[unit].us, units[unit].suffix, fields);
}

/* The preset that a layout is, NULL if it is none. */
const LayoutPreset *
layout_preset_of(const Layout *layout)
{
	char ours[LAYOUT_TEXT_SIZE];

	layout_format(layout, ours, sizeof(ours));
	for (int i = 0; i < layout_preset_count; i++)
	{
		const char *name = layout_presets[i].name;
		Layout		preset;
		LayoutError error;
		char		theirs[LAYOUT_TEXT_SIZE];

		if (!layout_parse(name, strlen(name), &preset, &error))
			continue; /* a test parses every preset */
		layout_format(&preset, theirs, sizeof(theirs));
		if (strcmp(ours, theirs) == 0)
			return &layout_presets[i];
	}
	return NULL;
}
