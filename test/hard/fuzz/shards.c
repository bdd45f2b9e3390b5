/*-------------------------------------------------------------------------
 *
 * shards.c
 *	  Feed src/shards.c texts: it takes those that a regular expression takes,
 *	  and finds the shards in them that sscanf() finds.
 *
 * The first byte is the number of shard bits, the rest the list.
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/shards.c"

#include <regex.h>

#include "../../../src/settings.h"
#include "server.h"

#define MAX_SHARDS (1 << SETTINGS_MAX_SHARD_BITS)

#define ELEMENT \
	"[[:space:]]*[0-9]{1,18}[[:space:]]*(-[[:space:]]*[0-9]{1,18}[[:space:]]*)?"
#define LIST "^([[:space:]]*|" ELEMENT "(," ELEMENT ")*)$"

/* from src/layout.c, which nothing else is wanted of; not too careful */
char *
layout_quote(const char *start, const char *end, char *quote)
{
	snprintf(quote, LAYOUT_QUOTE_SIZE, "%.*s", (int) (end - start), start);
	return quote;
}

/* Read a list in the other way; false if it is not one. */
static bool
read_otherwise(const char *text, int64 last_shard, bool *mine)
{
	static regex_t list;
	static bool	   compiled = false;

	if (!compiled)
		must(regcomp(&list, LIST, REG_EXTENDED | REG_NOSUB) == 0);
	compiled = true;
	if (regexec(&list, text, 0, NULL, 0) != 0)
		return false;
	for (const char *at = text - 1; at != NULL; at = strchr(at + 1, ','))
	{
		long long first, last;
		int		  found = sscanf(at + 1, "%lld - %lld", &first, &last);

		if (found <= 0)
			return true; /* nothing but blanks */
		if (found == 1)
			last = first;
		if (first > last || last > last_shard)
			return false;
		for (; first <= last; first++)
			mine[first] = true;
	}
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	static bool mine[MAX_SHARDS];
	static bool theirs[MAX_SHARDS];
	int64		last_shard;
	char	   *text;
	LayoutError error;

	if (size == 0)
		return -1;
	last_shard = layout_mask(data[0] % SETTINGS_MAX_SHARD_BITS + 1);
	text = malloc(size);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';

	memset(mine, 0, last_shard + 1);
	memset(theirs, 0, last_shard + 1);
	if (shards_parse(text, last_shard, mine, &error))
	{
		must(read_otherwise(text, last_shard, theirs));
		must(memcmp(mine, theirs, last_shard + 1) == 0);
	}
	else
	{
		must(!read_otherwise(text, last_shard, theirs));
		must(memchr(error.message, '.', sizeof(error.message)) != NULL);
	}
	free(text);
	return 0;
}
