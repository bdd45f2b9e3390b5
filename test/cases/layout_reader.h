/*-------------------------------------------------------------------------
 *
 * layout_reader.h
 *	  A reader of layouts as doc/reference.md has them, with the C library's calendar.
 *
 * layout_text_cases.c compares layout_text.c with it.  Of that file it has the texts of the
 * presets, and how a message quotes.
 *
 *-------------------------------------------------------------------------
 */
#include <time.h>

#define DIGITS "0123456789"
#define UNIX_EPOCH_S INT64CONST(946684800) /* from there to 2000 */
#define MOST_TEXT 400

/* What a text should be: a layout; else the reason, and the preset that there is not. */
static Layout expected;
static char	  reason[200];
static char	  no_preset[LAYOUT_QUOTE_SIZE];

#define NO_LAYOUT(...) (snprintf(reason, sizeof(reason), __VA_ARGS__), false)

/* --- The calendar ------------------------------------------------------------- */

/* Is a text like a pattern, in which 9 is any digit? */
static bool
is_like(const char *text, const char *pattern)
{
	size_t length = strlen(pattern);

	if (strlen(text) != length)
		return false;
	for (size_t i = 0; i < length; i++)
	{
		if (pattern[i] == '9' ? text[i] < '0' || text[i] > '9' :
								text[i] != pattern[i])
			return false;
	}
	return true;
}

/* A time that exists is one that the calendar does not turn into another one. */
static bool
is_time(const char *text, TimestampTz *time)
{
	static const char *const patterns[] = {"9999-99-99",
										   "9999-99-99T99:99:99Z",
										   "9999-99-99T99:99:99.9Z",
										   "9999-99-99T99:99:99.99Z",
										   "9999-99-99T99:99:99.999Z",
										   "9999-99-99T99:99:99.9999Z",
										   "9999-99-99T99:99:99.99999Z",
										   "9999-99-99T99:99:99.999999Z"};
	struct tm				 given = {0};
	struct tm				 date;
	double					 fraction = 0;
	int64					 seconds;
	int						 i = 0;

	while (i < lengthof(patterns) && !is_like(text, patterns[i]))
		i++;
	if (i == lengthof(patterns))
		return false;
	sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%lf", &given.tm_year, &given.tm_mon,
		   &given.tm_mday, &given.tm_hour, &given.tm_min, &given.tm_sec,
		   &fraction);
	given.tm_year -= 1900;
	given.tm_mon--;
	date = given;
	seconds = timegm(&date);
	*time = (seconds - UNIX_EPOCH_S) * 1000000 + (int64) (fraction * 1e6 + .5);
	return date.tm_mon == given.tm_mon && date.tm_mday == given.tm_mday &&
		   date.tm_hour == given.tm_hour && date.tm_min == given.tm_min &&
		   date.tm_sec == given.tm_sec;
}

static const char *
text_of_time(TimestampTz time)
{
	static char text[LAYOUT_TIME_SIZE];
	char		fraction[10];
	int64		us = (time % 1000000 + 1000000) % 1000000;
	time_t		seconds = (time - us) / 1000000 + UNIX_EPOCH_S;
	struct tm	date;

	gmtime_r(&seconds, &date);
	snprintf(fraction, sizeof(fraction), ".%06d", (int) us);
	if (us % 1000 == 0)
		fraction[us == 0 ? 0 : 4] = '\0';
	snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d%sZ",
			 date.tm_year + 1900, date.tm_mon + 1, date.tm_mday, date.tm_hour,
			 date.tm_min, date.tm_sec, fraction);
	return text;
}

/* --- What a text should be ------------------------------------------------------ */

static const char *
quoted(const char *start, size_t length)
{
	static char quote[LAYOUT_QUOTE_SIZE];

	return layout_quote(start, start + length, quote);
}

/* A number of 1 to 18 digits; -1: it is none. */
static int64
number_of(const char *start, size_t length)
{
	return length == 0 || length > 18 || strspn(start, DIGITS) < length ?
			   -1 :
			   strtoll(start, NULL, 10);
}

static bool
expect_epoch(const char *value)
{
	size_t length = strlen(value);
	int64  ms = number_of(value, length);

	if (strspn(value, DIGITS) < length)
		return is_time(value, &expected.epoch) ||
			   NO_LAYOUT("epoch \"%s\" is neither Unix milliseconds nor a UTC "
						 "time such as 2024-01-01T00:00:00Z",
						 quoted(value, length));
	expected.epoch = (ms - UNIX_EPOCH_S * 1000) * 1000;
	return ms == 0 ||
		   (ms >= INT64CONST(100000000000) &&
			ms <= INT64CONST(253402300799999)) ||
		   NO_LAYOUT("epoch \"%s\" is not 0 or from 100000000000 to "
					 "253402300799999 milliseconds since 1970",
					 quoted(value, length));
}

static bool
expect_unit(const char *value)
{
	size_t		digits = strspn(value, DIGITS);
	const char *suffix = value + digits;
	int64		us = strcmp(suffix, "us") == 0 ? 1 :
					 strcmp(suffix, "ms") == 0 ? 1000 :
					 strcmp(suffix, "s") == 0  ? 1000000 :
												 0;
	int64		count = number_of(value, digits);

	if (us == 0 || count < 1 || count > INT64CONST(86400000000) / us)
		return NO_LAYOUT("unit \"%s\" is not a length such as 1ms, 10ms or "
						 "1s, of a day at most",
						 quoted(value, strlen(value)));
	expected.tick_us = count * us;
	return true;
}

static bool
expect_fields(char *value)
{
	static const char *const names[] = {"timestamp",  "sequence", "shard",
										"datacenter", "worker",	  "process",
										"machine",	  "node"};
	const char				*text;

	expected.nfields = 0;
	while ((text = strsep(&value, ",")) != NULL)
	{
		LayoutField *field = &expected.fields[expected.nfields];
		size_t		 length = strcspn(text, ":");
		const char	*width = text + length + (text[length] == ':' ? 1 : 0);
		int64		 bits;
		int			 i = 0;

		if (expected.nfields == 4)
			return NO_LAYOUT("more than 4 fields");
		while (i < lengthof(names) && (strlen(names[i]) != length ||
									   memcmp(names[i], text, length) != 0))
			i++;
		if (i == lengthof(names))
			return NO_LAYOUT("unknown field \"%s\"", quoted(text, length));
		field->name = names[i];
		field->part = i == 0 ? LAYOUT_TIMESTAMP :
					  i == 1 ? LAYOUT_SEQUENCE :
							   LAYOUT_SHARD;
		bits = number_of(width, strlen(width));
		field->bits = Min(bits, 64);
		if (field->bits < 1 || field->bits > 63)
			return NO_LAYOUT("field \"%s\" needs a width from 1 to 63 bits",
							 quoted(text, strlen(text)));
		for (i = 0; i < expected.nfields; i++)
		{
			if (expected.fields[i].name == field->name)
				return NO_LAYOUT("field \"%s\" appears twice", field->name);
		}
		expected.nfields++;
	}
	return true;
}

/* The parts, from the highest bit down: each that follows lifts those before it. */
static bool
expect_parts(void)
{
	char parts[5] = "";
	int	 total = 0;
	int	 bits[3] = {0};
	int	 shift[3] = {0};

	for (int i = 0; i < expected.nfields; i++)
	{
		const LayoutField *field = &expected.fields[i];

		parts[i] = "tsq"[field->part];
		total += field->bits;
		for (int j = 0; j < i; j++)
			expected.fields[j].shift += field->bits;
		for (int part = 0; part < 3; part++)
			shift[part] += bits[part] > 0 ? field->bits : 0;
		bits[field->part] += field->bits;
		shift[field->part] = 0;
	}
	expected.timestamp_shift = shift[LAYOUT_TIMESTAMP];
	expected.shard_shift = shift[LAYOUT_SHARD];
	expected.shard_bits = bits[LAYOUT_SHARD];
	expected.sequence_shift = shift[LAYOUT_SEQUENCE];
	expected.sequence_bits = bits[LAYOUT_SEQUENCE];

	if (parts[0] != 't')
		return NO_LAYOUT("timestamp must come first");
	if (total > 64)
		return NO_LAYOUT("fields sum to %d bits, and an id has 64", total);
	if (parts[1] == '\0')
		return NO_LAYOUT("there is neither a shard nor a sequence");
	if (strcmp(parts, "tsss") == 0)
		return NO_LAYOUT("the shard has 3 parts, and the most is 2");
	if (strcmp(parts, "tsqs") == 0)
		return NO_LAYOUT("the two parts of a shard must be neighbours");
	if (bits[LAYOUT_SHARD] > 31)
		return NO_LAYOUT("the shard has %d bits, and the most is 31",
						 bits[LAYOUT_SHARD]);
	if (bits[LAYOUT_SEQUENCE] > 31)
		return NO_LAYOUT("the sequence has %d bits, and the most is 31",
						 bits[LAYOUT_SEQUENCE]);
	return true;
}

/* Ids that are minted are positive, and the server has their times. */
static bool
expect_ticks(void)
{
	uint64 before = expected.epoch - MIN_TIMESTAMP;
	uint64 after = (uint64) (END_TIMESTAMP - 1) - (uint64) expected.epoch;
	int64  last_positive = PG_INT64_MAX >> expected.timestamp_shift;

	expected.last_mint_tick =
		last_positive & layout_mask(expected.fields[0].bits);
	expected.first_tick = -(int64) (before / expected.tick_us);
	expected.last_tick =
		Min(after, (uint64) PG_INT64_MAX - 1) / expected.tick_us;
	return expected.last_mint_tick <= expected.last_tick ||
		   NO_LAYOUT("a timestamp of %d bits runs past the last time that the "
					 "server can hold",
					 expected.fields[0].bits);
}

static bool
expect_words(const char *text)
{
	static const char *const keys[] = {"epoch", "unit", "fields"};
	bool					 is_given[3] = {false};
	char					 words[MOST_TEXT];
	char					*rest;

	strlcpy(words, text, sizeof(words));
	for (char *word = strtok_r(words, " \t\r\n", &rest); word != NULL;
		 word = strtok_r(NULL, " \t\r\n", &rest))
	{
		size_t length = strcspn(word, "=");
		char  *value = word + length + (word[length] == '=' ? 1 : 0);
		int	   i = 0;

		while (i < 3 && (strlen(keys[i]) != length ||
						 memcmp(keys[i], word, length) != 0))
			i++;
		if (i == 3)
			return NO_LAYOUT("\"%s\" is not epoch=..., unit=... or fields=...",
							 quoted(word, strlen(word)));
		if (!(i == 0 ? expect_epoch(value) :
			  i == 1 ? expect_unit(value) :
					   expect_fields(value)))
			return false;
		if (is_given[i])
			return NO_LAYOUT("\"%s\" appears twice", keys[i]);
		is_given[i] = true;
	}
	for (int i = 0; i < 3; i++)
	{
		if (!is_given[i])
			return NO_LAYOUT("%s=... is missing", keys[i]);
	}
	return true;
}

static bool
expect_layout(const char *text)
{
	memset(&expected, 0, sizeof(expected));
	no_preset[0] = '\0';
	for (int i = 0; i < layout_preset_count; i++)
	{
		if (strcmp(text, layout_presets[i].name) == 0)
			return expect_layout(layout_presets[i].specification);
	}
	if (strchr(text, '=') == NULL)
	{
		strcpy(no_preset, quoted(text, strlen(text)));
		return NO_LAYOUT("there is no preset \"%s\"", no_preset);
	}
	return expect_words(text) && expect_parts() && expect_ticks();
}

/* The expected layout, written in the shortest way. */
static const char *
expected_text(void)
{
	static char text[LAYOUT_TEXT_SIZE];
	bool		is_ms = expected.tick_us % 1000 == 0;
	bool		is_s = expected.tick_us % 1000000 == 0;

	snprintf(text, sizeof(text), "epoch=%s unit=" INT64_FORMAT "%s fields=",
			 text_of_time(expected.epoch),
			 expected.tick_us / (is_s  ? 1000000 :
								 is_ms ? 1000 :
										 1),
			 is_s  ? "s" :
			 is_ms ? "ms" :
					 "us");
	for (int i = 0; i < expected.nfields; i++)
		strcat(text,
			   psprintf("%s%s:%d", i > 0 ? "," : "", expected.fields[i].name,
						expected.fields[i].bits));
	return text;
}
