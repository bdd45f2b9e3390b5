/*-------------------------------------------------------------------------
 *
 * registry_answer_system.h
 *	  What is below registry_answer.c, for registry_answer_cases.c: libpq's results, and
 *	  memory; and an answer that is read row by row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq-fe.h"
#include "utils/memutils.h"

#include "cases.h"

/* --- The result ----------------------------------------------------------- */

#define MOST_ROWS 40

static const char *cells[MOST_ROWS][5];
static int		   first_row; /* of a result that is read in pieces */
static int		   row_count;
static int		   column_count;
static int		   binary_column; /* -1: none */

static const char *
cell_of(int row, int column)
{
	CHECK(row >= 0 && row < row_count);
	CHECK(column >= 0 && column < column_count);
	return cells[first_row + row][column];
}

static int
length_of(const char *text)
{
	return text ? strlen(text) : 0;
}

#define PQnfields(rows) column_count
#define PQntuples(rows) row_count
#define PQfformat(rows, column) ((column) == binary_column)
#define PQgetlength(rows, row, column) length_of(cell_of(row, column))
#define PQgetisnull(rows, row, column) (cell_of(row, column) == NULL)
#define PQgetvalue(rows, row, column) cell_of(row, column)

#include "../../src/shards.c"

char *
layout_quote(const char *start, const char *end, char *quote)
{
	return quote;
}

#include "../../src/lease/lease.h"

/* What is in memory before the leases looks as one of a great shard. */
static size_t lease_bytes;

static Lease *
our_palloc(size_t size)
{
	Lease *before = palloc(sizeof(Lease) + size);

	memset(before, 0x7f, sizeof(Lease));
	lease_bytes = size;
	return before + 1;
}

static Lease *
our_repalloc(Lease *lease, size_t size)
{
	lease_bytes = size;
	return (Lease *) repalloc_huge(lease - 1, sizeof(Lease) + size) + 1;
}

#define palloc(size) our_palloc(size)
#define repalloc_huge(lease, size) our_repalloc(lease, size)

#include "../../src/lease/registry_answer.c"

#undef palloc

/* --- An answer ------------------------------------------------------------ */

#define REGISTRY "0123456789abcdef"

static AnswerReader	   reader;
static RegistryAnswer  answer;
static RegistryFailure failure;

static bool
has_room(void *memory, size_t size)
{
	return GetMemoryChunkSpace(memory) >= GetMemoryChunkSpace(palloc(size));
}

static void
begin(int32 last_shard)
{
	memset(&reader, 0xff, sizeof(reader));
	memset(&answer, 0xff, sizeof(answer));
	memset(&failure, 0xff, sizeof(failure));
	registry_answer_begin(&reader, &answer, last_shard, &failure);
	CHECK(has_room(reader.has_shard, last_shard + 1));
	CHECK(has_room(answer.reserved, last_shard + 1));
	first_row = 0;
	column_count = 5;
	binary_column = -1;
}

/* Read a row, which comes by itself. */
static bool
row(const char *state, const char *shard, const char *from, const char *until,
	const char *other)
{
	const char *in_order[] = {state, shard, from, until, other};

	memcpy(cells[0], in_order, sizeof(cells[0]));
	row_count = 1;
	return registry_answer_read(&reader, NULL);
}

static void
begin_accepted(int32 last_shard)
{
	begin(last_shard);
	CHECK(row("accepted", NULL, NULL, "5", REGISTRY));
}

static bool
fails_with(RegistryFailureKind kind, const char *text)
{
	return failure.kind == kind && strcmp(failure.text, text) == 0 &&
		   failure.hint[0] == '\0';
}

static bool
refuses_row(int number, const char *what)
{
	char text[100];

	snprintf(text, sizeof(text),
			 "the registry's answer is not valid: row %d %s", number, what);
	return fails_with(REGISTRY_INVALID, text);
}

/* All of the answer but what is allocated. */
static bool
is_answered(const RegistryAnswer *expected)
{
	RegistryAnswer shown = answer;

	shown.lease = NULL;
	shown.reserved = NULL;
	return memcmp(&shown, expected, sizeof(shown)) == 0;
}

static bool
is_lease(const Lease *lease, int32 shard, TimestampTz from, TimestampTz until,
		 LeaseKind kind)
{
	return lease->shard == shard && lease->from == from &&
		   lease->until == until && lease->kind == kind;
}

/* A Unix time in microseconds, on the server's scale. */
#define UNIX(us) ((us) -INT64CONST(946684800000000))
