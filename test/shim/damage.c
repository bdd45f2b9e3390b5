/*-------------------------------------------------------------------------
 *
 * damage.c
 *	  Every damage of one byte, and every length, of a record as it is read.
 *
 * damaged(kind, bytes) is for a file, damaged_page(kind, bytes) for a page.  Each
 * takes the whole bytes, tries each other value of each byte, each shorter length
 * and a longer one, the other kind, and pairs of bytes at random, and returns how
 * many of them it tried.  It is an error if any of them is taken for a record,
 * unless that is the same record: most of a page is beside it.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/record.c"

#include "fmgr.h"

PG_MODULE_MAGIC;

#define PAIRS 100000
#define CONTENTS_END 600 /* of a page: its header and the record */

static int64 tried;

/* What is read of these bytes must be nothing, or what the whole ones have. */
static void
try_bytes(RecordKind kind, bool is_page, const char *bytes, int length,
		  const Record *whole)
{
	Record	record;
	Trouble trouble = {0};
	bool	found =
		   is_page ? parse_page(kind, &record, (Page) bytes, &trouble) :
					 parse(kind, &record, bytes, length, TROUBLE_FILE, &trouble);

	tried++;
	if (found &&
		!(whole && is_page && memcmp(&record, whole, sizeof(record)) == 0))
		elog(ERROR, "damage is taken for a record, attempt %lld",
			 (long long) tried);
	if (!found && trouble.reason[0] == '\0')
		elog(ERROR, "no reason is given, attempt %lld", (long long) tried);
}

static void
try_bytes_of(RecordKind kind, bool is_page, char *bytes, int length)
{
	Record	whole;
	Trouble trouble = {0};
	char   *longer = palloc0(length + 1);

	if (!(is_page ?
			  parse_page(kind, &whole, (Page) bytes, &trouble) :
			  parse(kind, &whole, bytes, length, TROUBLE_FILE, &trouble)))
		elog(ERROR, "the whole bytes are no record: %s", trouble.reason);
	try_bytes(kind == HORIZON_RECORD ? LAYOUT_RECORD : HORIZON_RECORD, is_page,
			  bytes, length, NULL);

	for (int at = 0; at < length; at++)
	{
		for (int flip = 1; flip < 256; flip++)
		{
			bytes[at] ^= flip;
			try_bytes(kind, is_page, bytes, length, &whole);
			bytes[at] ^= flip;
		}
		if (!is_page) /* a page is as long as it is */
			try_bytes(kind, false, bytes, at, &whole);
	}
	for (int i = 0; i < PAIRS; i++)
	{
		int first = random() % Min(length, CONTENTS_END);
		int second = random() % Min(length, CONTENTS_END);
		int flip = 1 + random() % 255;

		if (first == second)
			continue;
		bytes[first] ^= flip;
		bytes[second] ^= flip;
		try_bytes(kind, is_page, bytes, length, &whole);
		bytes[first] ^= flip;
		bytes[second] ^= flip;
	}
	memcpy(longer, bytes, length);
	if (!is_page)
		try_bytes(kind, false, longer, length + 1, &whole);
}

static Datum
try_all(FunctionCallInfo fcinfo, bool is_page)
{
	bytea *bytes = PG_GETARG_BYTEA_P_COPY(1);

	tried = 0;
	if (is_page && VARSIZE(bytes) - VARHDRSZ != BLCKSZ)
		elog(ERROR, "a page has %d bytes", BLCKSZ);
	try_bytes_of(PG_GETARG_INT32(0), is_page, VARDATA(bytes),
				 VARSIZE(bytes) - VARHDRSZ);
	PG_RETURN_INT64(tried);
}

PG_FUNCTION_INFO_V1(damaged);
Datum
damaged(PG_FUNCTION_ARGS)
{
	return try_all(fcinfo, false);
}

PG_FUNCTION_INFO_V1(damaged_page);
Datum
damaged_page(PG_FUNCTION_ARGS)
{
	return try_all(fcinfo, true);
}
