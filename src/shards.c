/*-------------------------------------------------------------------------
 *
 * shards.c
 *	  Lists of shards, such as "1,5,9-12".
 *
 * Apart from settings.c, whose check hook is the only caller, because that
 * needs a server around it and a fuzzer has none.
 *
 * Nothing here knows of the server or has state: there is nothing to lock.
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
		int64		last = first;

		if (first >= 0 && *at == '-')
		{
			at++;
			last = read_shard(&at);
		}
		if (first < 0 || last < 0 || at != end)
		{
			snprintf(error->message, sizeof(error->message),
					 "\"%.*s\" is not a shard or a range of shards.",
					 layout_quotable(element, end), element);
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
