/*-------------------------------------------------------------------------
 *
 * registry_answer.c
 *	  Reading what the registry answers.
 *
 * The registry may be false: another program, or functions that somebody
 * changed.  So nothing of an answer is believed before it was checked here.
 *
 * Invariants, of an answer that was read to its end:
 *	- the first row, and no other, says how the call ended;
 *	- each row has the cells that its state is to have, and no others;
 *	- a number is a number in whole, and in range; shards are the layout's, and
 *	  at most one row grants or refuses a shard; leases are in ascending order;
 *	- times lie between 1970 and the year 148,000, so that sums and differences
 *	  of any two do not overflow, and a lease ends after it begins;
 *	- texts have no character that is not printable ASCII.
 *
 * It takes memory in proportion to the layout's shards, however many rows come.
 * An answer is read a few rows at a time: see registry.c.
 *
 * All of this is private to the worker: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq-fe.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "registry_answer.h"
#include "shards.h"

/* No cell is longer: the longest is a list of shards. */
#define MAX_CELL_LENGTH 8000

/* Unix times are before this one. */
#define END_OF_TIME_US (INT64CONST(1) << 62)

/* A time in SQL that any registry understands, as a Unix time. */
#define MICROSECONDS(column) \
	"(extract(epoch FROM " column ") * 1000000)::bigint"

enum AnswerColumns
{
	COLUMN_STATE,
	COLUMN_SHARD,
	COLUMN_FROM,
	COLUMN_UNTIL,
	COLUMN_OTHER,
	ANSWER_COLUMNS
};

const char *const registry_answer_columns = "state, shard, " MICROSECONDS(
	"lease_from") ", " MICROSECONDS("lease_until") ", other";

/* A row, when its cells have been checked one by one. */
typedef struct AnswerRow
{
	int32		shard;	 /* ANY_SHARD: none */
	TimestampTz from;	 /* DT_NOBEGIN: none */
	TimestampTz until;	 /* DT_NOEND: none */
	const char *other;	 /* NULL: none; not to be printed yet */
	RefusalKind refusal; /* of a row that is one */
} AnswerRow;

/* --- Failures ----------------------------------------------------------- */

/* Leave nothing in a text that could do more than be read. */
static void
make_printable(char *text)
{
	for (; *text != '\0'; text++)
	{
		if (*text < ' ' || *text >= 0x7f)
			*text = '?';
	}
}

bool
registry_fail(RegistryFailure *failure, RegistryFailureKind kind,
			  const char *format, ...)
{
	va_list arguments;

	*failure = (RegistryFailure){.kind = kind};
	va_start(arguments, format);
	vsnprintf(failure->text, sizeof(failure->text), format, arguments);
	va_end(arguments);
	make_printable(failure->text);
	return false;
}

/* Add what to do about a failure, or nothing if it does not fit. */
void
registry_hint(RegistryFailure *failure, const char *format, ...)
{
	va_list arguments;
	int		length;

	va_start(arguments, format);
	length =
		vsnprintf(failure->hint, sizeof(failure->hint), format, arguments);
	va_end(arguments);
	if (length >= (int) sizeof(failure->hint))
		failure->hint[0] = '\0';
	make_printable(failure->hint);
}

static bool
is_invalid(AnswerReader *reader, const char *what)
{
	return registry_fail(reader->failure, REGISTRY_INVALID,
						 INVALID_ANSWER "row %d %s", reader->rows, what);
}

/* --- Cells -------------------------------------------------------------- */

/* A number from 0 to "most", in digits and nothing besides. */
static bool
read_number(const char *text, int64 most, int64 *number)
{
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || text[digits] != '\0')
		return false;
	*number = strtoll(text, NULL, 10); /* the greatest, if it overflows */
	return *number <= most;
}

static bool
read_time(const char *text, TimestampTz *time)
{
	int64 unix_us;

	if (text == NULL)
		return true;
	if (!read_number(text, END_OF_TIME_US - 1, &unix_us))
		return false;
	*time = unix_us + UNIX_EPOCH_US;
	return true;
}

static bool
read_shard_cell(const char *text, int32 last_shard, int32 *shard)
{
	int64 number;

	if (text == NULL)
		return true;
	if (!read_number(text, last_shard, &number))
		return false;
	*shard = (int32) number;
	return true;
}

/* The registry's number: 16 hexadecimal digits; 0: it is not one. */
static uint64
read_registry(const char *text)
{
	return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16 ?
			   strtou64(text, NULL, 16) :
			   0;
}

static void
copy_text(char *copy, const char *text)
{
	strlcpy(copy, text != NULL ? text : "", LEASE_OTHER_SIZE);
	make_printable(copy);
}

/* --- Rows, by their state ----------------------------------------------- */

static bool
take_accepted(AnswerReader *reader, const AnswerRow *row)
{
	reader->answer->now = row->until;
	reader->answer->registry = read_registry(row->other);
	return reader->answer->registry != 0 ||
		   is_invalid(reader, "has no number of a registry");
}

static bool
take_clone(AnswerReader *reader, const AnswerRow *row)
{
	reader->is_over = true;
	reader->answer->is_clone = true;
	reader->answer->now = row->until;
	copy_text(reader->answer->clone, row->other);
	return true;
}

/* Which shard it is not open for, the administrator knows. */
static bool
take_closed(AnswerReader *reader, const AnswerRow *row)
{
	return registry_fail(reader->failure, REGISTRY_CLOSED,
						 "the registry is not open");
}

/* Is it the first row that grants or refuses the shard? */
static bool
is_first_about(AnswerReader *reader, int32 shard)
{
	if (reader->has_shard[shard])
		return is_invalid(reader, "has a shard for the second time");
	reader->has_shard[shard] = true;
	return true;
}

static bool
take_held(AnswerReader *reader, const AnswerRow *row)
{
	RegistryAnswer *answer = reader->answer;

	if (!is_first_about(reader, row->shard))
		return false;
	if (answer->held > 0 && row->shard < answer->lease[answer->held - 1].shard)
		return is_invalid(reader, "is not in the order of shards");
	if (row->from >= row->until)
		return is_invalid(reader, "has a lease that ends before it begins");
	if (answer->held == reader->room)
	{
		reader->room *= 2;
		answer->lease =
			repalloc_huge(answer->lease, reader->room * sizeof(Lease));
	}
	answer->lease[answer->held++] =
		(Lease){row->from, row->until, row->shard, HELD_HERE};
	return true;
}

static bool
take_refusal(AnswerReader *reader, const AnswerRow *row)
{
	RegistryAnswer *answer = reader->answer;
	Refusal		   *refusal = &answer->refusal[answer->refusals];

	if (row->shard != ANY_SHARD && !is_first_about(reader, row->shard))
		return false;
	if (answer->refusals == LEASE_MAX_REFUSALS)
		return true; /* so many tell enough */
	answer->refusals++;
	*refusal = (Refusal){.kind = row->refusal,
						 .shard = row->shard,
						 .until = row->until};
	copy_text(refusal->other, row->other);
	return true;
}

static bool
take_lost(AnswerReader *reader, const AnswerRow *row)
{
	RegistryAnswer *answer = reader->answer;
	LeaseLoss	   *loss = &answer->loss[answer->losses];

	if (answer->losses == LEASE_MAX_LOSSES)
		return true;
	answer->losses++;
	loss->lease = (Lease){row->from, row->until, row->shard, NOT_HELD};
	copy_text(loss->what, row->other);
	return true;
}

/* Shards that are reserved, unless these are too many to tell. */
static bool
take_set_aside(AnswerReader *reader, const AnswerRow *row)
{
	LayoutError error;

	if (reader->has_reserved)
		return is_invalid(reader, "tells reserved shards again");
	reader->has_reserved = true;
	if (row->other == NULL)
		reader->answer->reserved = NULL;
	else if (!shards_parse(row->other, reader->last_shard,
						   reader->answer->reserved, &error))
		return is_invalid(reader, "has no list of shards");
	return true;
}

/*
 * The states.  "cells" says of shard, from, until and other whether the row has
 * it ('+'), has it not ('-'), or may have it ('?').
 */
static const struct AnswerState
{
	const char *name;
	const char *cells;
	bool (*take)(AnswerReader *reader, const AnswerRow *row);
	RefusalKind refusal; /* of a row that is one */
	bool		is_first;
} states[] = {
	{"accepted", "--++", take_accepted, 0, true},
	{"clone", "--++", take_clone, 0, true},
	{"closed", "--??", take_closed, 0, true},
	{"held", "+++-", take_held, 0, false},
	{"taken", "+-++", take_refusal, REFUSED_TAKEN, false},
	{"fenced", "+-+-", take_refusal, REFUSED_FENCED, false},
	{"reserved", "+-?+", take_refusal, REFUSED_RESERVED, false},
	{"exhausted", "--?-", take_refusal, REFUSED_EXHAUSTED, false},
	{"limited", "---+", take_refusal, REFUSED_LIMITED, false},
	{"lost", "???+", take_lost, 0, false},
	{"set_aside", "---?", take_set_aside, 0, false},
	{NULL},
};

static const struct AnswerState *
find_state(const char *name)
{
	for (const struct AnswerState *state = states;
		 name != NULL && state->name != NULL; state++)
	{
		if (strcmp(state->name, name) == 0)
			return state;
	}
	return NULL;
}

/* --- Answers ------------------------------------------------------------ */

/* Read one row, which has the columns that were asked for. */
static bool
read_row(AnswerReader *reader, const char *const *cell)
{
	const struct AnswerState *state = find_state(cell[COLUMN_STATE]);
	AnswerRow				  row = {.shard = ANY_SHARD,
									 .from = DT_NOBEGIN,
									 .until = DT_NOEND,
									 .other = cell[COLUMN_OTHER]};

	if (state == NULL)
		return is_invalid(reader, "has no known state");
	if (state->is_first != (reader->rows == 1) || reader->is_over)
		return is_invalid(reader, "stands where its state cannot");
	for (int column = COLUMN_SHARD; column < ANSWER_COLUMNS; column++)
	{
		char rule = state->cells[column - COLUMN_SHARD];

		if (rule != '?' && (rule == '+') != (cell[column] != NULL))
			return is_invalid(reader, "lacks a cell, or has one too many");
	}
	if (!read_shard_cell(cell[COLUMN_SHARD], reader->last_shard, &row.shard))
		return is_invalid(reader, "has no shard of the layout");
	if (!read_time(cell[COLUMN_FROM], &row.from) ||
		!read_time(cell[COLUMN_UNTIL], &row.until))
		return is_invalid(reader, "has no time");
	row.refusal = state->refusal;
	return state->take(reader, &row);
}

void
registry_answer_begin(AnswerReader *reader, RegistryAnswer *answer,
					  int32 last_shard, RegistryFailure *failure)
{
	memset(answer, 0, sizeof(*answer));
	*reader = (AnswerReader){.answer = answer,
							 .failure = failure,
							 .room = 16,
							 .last_shard = last_shard,
							 .has_shard = palloc0(last_shard + 1)};
	answer->lease = palloc(reader->room * sizeof(Lease));
	answer->reserved = palloc0(last_shard + 1);
}

/* Read some of the rows of an answer. */
bool
registry_answer_read(void *arg, const PGresult *rows)
{
	AnswerReader *reader = arg;
	const char	 *cell[ANSWER_COLUMNS];

	if (PQnfields(rows) != ANSWER_COLUMNS)
		return registry_fail(reader->failure, REGISTRY_INVALID,
							 INVALID_ANSWER "it has %d columns instead of %d",
							 PQnfields(rows), ANSWER_COLUMNS);
	for (int row = 0; row < PQntuples(rows); row++)
	{
		/* each shard in a row of its own, each lost, and a few others */
		if (reader->rows++ > 2 * reader->last_shard + 8)
			return is_invalid(reader, "is one too many");
		for (int column = 0; column < ANSWER_COLUMNS; column++)
		{
			if (PQfformat(rows, column) != 0 ||
				PQgetlength(rows, row, column) > MAX_CELL_LENGTH)
				return is_invalid(reader, "has a cell that is not a text");
			cell[column] = PQgetisnull(rows, row, column) ?
							   NULL :
							   PQgetvalue(rows, row, column);
		}
		if (!read_row(reader, cell))
			return false;
	}
	return true;
}

/* There are no more rows. */
bool
registry_answer_end(AnswerReader *reader)
{
	return reader->rows > 0 || registry_fail(reader->failure, REGISTRY_INVALID,
											 INVALID_ANSWER "it has no row");
}
