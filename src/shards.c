/*-------------------------------------------------------------------------
 *
 * shards.c
 *	  Lists of shards, such as "1,5,9-12", and "auto:4" in place of one.
 *
 * Pure functions: a fuzzer calls them without a server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "shards.h"

static void
skip_blanks(const char **at)
{
	while (isspace((unsigned char) **at))
		(*at)++;
}

/* Read a shard's number, of up to 18 digits; -1 where there is none. */
static int64
read_shard(const char **at)
{
	int64 number = 0;
	int	  digits = 0;

	skip_blanks(at);
	for (; isdigit((unsigned char) **at) && digits < 18; (*at)++, digits++)
		number = number * 10 + (**at - '0');
	skip_blanks(at);
	return digits > 0 ? number : -1;
}

/*
 * Read a list and set mine[shard] for each of its shards, of 0 to last_shard;
 * no list at all is an empty one.  On false, *error has the reason, a whole
 * sentence, and mine is undefined.
 */
bool
shards_parse(const char *text, int64 last_shard, bool *mine,
			 LayoutError *error)
{
	const char *at = text;

	skip_blanks(&at);
	if (*at == '\0')
		return true;
	for (;;)
	{
		const char *element = at;
		const char *end = at + strcspn(at, ",");
		int64		first = read_shard(&at);
		int64		last = first; /* there is none without a first one */

		if (first >= 0 && *at == '-')
		{
			at++;
			last = read_shard(&at);
		}
		if (last < 0 || at != end)
		{
			snprintf(error->message, sizeof(error->message),
					 "\"%s\" is not a shard or a range of shards.",
					 layout_quote(element, end, (char[LAYOUT_QUOTE_SIZE]){0}));
			return false;
		}
		if (Max(first, last) > last_shard)
		{
			snprintf(
				error->message, sizeof(error->message),
				"Shard " INT64_FORMAT
				" is out of range: the layout has shards 0 to " INT64_FORMAT
				".",
				Max(first, last), last_shard);
			return false;
		}
		if (first > last)
		{
			snprintf(error->message, sizeof(error->message),
					 "The range " INT64_FORMAT "-" INT64_FORMAT
					 " runs backwards.",
					 first, last);
			return false;
		}
		memset(mine + first, true, last - first + 1);
		if (*at == '\0')
			return true;
		at++;
	}
}

/*
 * Read "auto" or "auto:N", and set *count to 1 or N; to 0 if the text is
 * neither, but a list.  False, with the reason, if N is no number of shards.
 */
bool
shards_parse_auto(const char *text, int64 last_shard, int32 *count,
				  LayoutError *error)
{
	const char *at = text;
	int64		number = 1;

	*count = 0;
	skip_blanks(&at);
	if (pg_strncasecmp(at, "auto", 4) != 0)
		return true;
	at += 4;
	skip_blanks(&at);
	if (*at == ':')
	{
		at++;
		number = read_shard(&at);
	}
	if (*at != '\0' || number < 1 || number > last_shard + 1)
	{
		snprintf(
			error->message, sizeof(error->message),
			"\"%s\" is not \"auto\" or \"auto:N\", with N from 1 to " INT64_FORMAT
			".",
			layout_quote(text, text + strlen(text),
						 (char[LAYOUT_QUOTE_SIZE]){0}),
			last_shard + 1);
		return false;
	}
	*count = (int32) number;
	return true;
}

/*
 * Write shards, which are in ascending order, as a list that shards_parse()
 * reads, or as much of it as fits.
 */
void
shards_format(const int32 *shard, int count, char *buffer, size_t size)
{
	size_t length = 0;

	buffer[0] = '\0';
	for (int i = 0; i < count && length < size; i++)
	{
		int first = i;

		while (i + 1 < count && shard[i + 1] == shard[i] + 1)
			i++;
		length += snprintf(buffer + length, size - length,
						   first == i ? "%s%d" : "%s%d-%d",
						   first == 0 ? "" : ",", shard[first], shard[i]);
	}
}
