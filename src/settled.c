/*-------------------------------------------------------------------------
 *
 * settled.c
 *	  snowflake_settled() and snowflake_wait_settled(), of all shards or of some.
 *
 * One statement has one mark, and one of each list of shards.  A STABLE function may be
 * called for each row, and the mark moves.  Then a row above one mark would be skipped,
 * and one with a greater id, below the next mark, read.  So the first call in a
 * statement gives it a number, in the copy of the snapshot that it has to itself: see
 * STATEMENT_NUMBER.  Later calls find the mark by that.  Nothing else lives as long: a
 * snapshot's address is soon another one's, two statements in a loop have equal
 * snapshots, a statement has several calls, and a reference to the snapshot would keep
 * VACUUM from rows.
 *
 * The marks of a session's statements are kept until the transaction ends.  Of two
 * statements with a snapshot at one address the first is over, and so is its mark: so
 * there are never more marks of a list than snapshots at one time.  A list of shards is
 * read once, and kept: marks point to it, so at least until the transaction ends.
 *
 * All of it is private to a process: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "mark.h"
#include "server.h"
#include "sessions.h"
#include "shards.h"

PG_FUNCTION_INFO_V1(snowflake_settled);
PG_FUNCTION_INFO_V1(snowflake_wait_settled);

/* A mark is mostly passed within a tick or two; then there is no hurry. */
#define FIRST_PAUSE_US INT64CONST(1000)
#define LAST_PAUSE_US INT64CONST(50000)

/* Who waits for longer makes a mistake, or means "for ever". */
#define LONGEST_WAIT_US (USECS_PER_DAY * 365)

/* The mark that a statement has of some shards. */
typedef struct StatementMark
{
	struct StatementMark *next;
	Snapshot		 snapshot; /* may be another statement's by now, but: */
	uint64			 statement;
	const OwnShards *shards;
	int64			 tick;
} StatementMark;

/* A list of shards, as it was written. */
typedef struct KnownShards
{
	struct KnownShards *next;
	OwnShards		   *shards;
	Size				size;
	char				text[FLEXIBLE_ARRAY_MEMBER];
} KnownShards;

/* The marks of this transaction's statements. */
static StatementMark *marks = NULL;
static uint64		  statements = 0;

static KnownShards *known =
	NULL; /* the one that was asked for last is first */
static int known_count = 0;

/* If a session has more lists than this, it forgets all before a transaction's first mark. */
#define MOST_KNOWN 100

/* --- Lists of shards ------------------------------------------------------- */

static OwnShards *
read_shards(const char *text)
{
	const Layout *layout = settings_layout();
	int64		  last_shard = layout_last_shard(layout);
	bool		 *listed = palloc0(last_shard + 1);
	OwnShards	 *list;
	LayoutError	  error = {.message = "No shard is named."};
	bool		  good = shards_parse(text, last_shard, listed, &error);
	int			  count = 0;

	for (int64 shard = 0; good && shard <= last_shard; shard++)
		count += listed[shard];
	if (count == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid list of shards \"%s\"", text),
						errdetail_internal("%s", error.message),
						errhint("Write shards from 0 to " INT64_FORMAT
								" and ranges of them, such as '5', '0-7' or "
								"'1,5,9-12'.",
								last_shard)));
	list =
		MemoryContextAllocZero(TopMemoryContext, offsetof(OwnShards, shard) +
													 count * sizeof(int32));
	for (int64 shard = 0; shard <= last_shard; shard++)
	{
		if (listed[shard])
			list->shard[list->count++] = (int32) shard;
	}
	pfree(listed);
	return list;
}

/* A list that was asked for before; it is the first one then.  Or NULL. */
static const OwnShards *
find_known(const char *text, Size size)
{
	for (KnownShards **at = &known; *at != NULL; at = &(*at)->next)
	{
		KnownShards *found = *at;

		if (found->size != size || memcmp(found->text, text, size) != 0)
			continue;
		*at = found->next;
		found->next = known;
		known = found;
		return found->shards;
	}
	return NULL;
}

static void
forget_lists(void)
{
	while (known != NULL)
	{
		KnownShards *one = known;

		known = one->next;
		pfree(one->shards);
		pfree(one);
	}
	known_count = 0;
}

/* The list that an argument has, in a transaction the same one for the same text. */
static const OwnShards *
shards_of(const text *argument)
{
	const char		*text = VARDATA_ANY(argument);
	Size			 size = VARSIZE_ANY_EXHDR(argument);
	const OwnShards *shards = find_known(text, size);
	OwnShards		*list;
	KnownShards *new;

	if (shards != NULL)
		return shards;
	if (marks == NULL && known_count > MOST_KNOWN)
		forget_lists();
	list = read_shards(text_to_cstring(argument)); /* first: it can fail */
	new = MemoryContextAlloc(TopMemoryContext,
							 offsetof(KnownShards, text) + size);
	new->shards = list;
	new->size = size;
	memcpy(new->text, text, size);
	new->next = known;
	known = new;
	known_count++;
	return new->shards;
}

/* --- The mark of a statement ------------------------------------------------- */

static void
forget_marks(void *arg)
{
	marks = NULL;
}

/* Where a statement's mark is to be, with that of one before it, if any. */
static StatementMark *
place_for_mark(Snapshot snapshot, const OwnShards *shards)
{
	static MemoryContextCallback at_end = {.func = forget_marks};
	StatementMark				*mark;

	for (mark = marks; mark != NULL; mark = mark->next)
	{
		if (mark->snapshot == snapshot && mark->shards == shards)
			return mark;
	}
	if (marks == NULL)
		MemoryContextRegisterResetCallback(TopTransactionContext, &at_end);
	mark = MemoryContextAllocZero(TopTransactionContext, sizeof(*mark));
	mark->snapshot = snapshot;
	mark->shards = shards;
	mark->next = marks;
	marks = mark;
	return mark;
}

/*
 * Where a statement's number is, in its own snapshot.  That this is ours to write:
 *	- The server counts completed transactions there to see whether one of its own few,
 *	  static snapshots can be used again.  Nothing else reads it.
 *	- mark_of() makes sure that this is none of them: it is what CopySnapshot() made, which
 *	  sets the field to 0, no number; and who is sent a snapshot does not get the field.
 *	- Each statement pushes a snapshot of its own.  Who shares it, as the statements of
 *	  a STABLE function, shall have the same mark.
 */
#define STATEMENT_NUMBER(snapshot) ((snapshot)->snapXactCompletionCount)

/* The statement that has the snapshot; it gets a number if it has none. */
static uint64
statement_of(Snapshot snapshot)
{
	if (STATEMENT_NUMBER(snapshot) == 0)
		STATEMENT_NUMBER(snapshot) = ++statements;
	return STATEMENT_NUMBER(snapshot);
}

static int64
tick_of_statement(Snapshot snapshot, const OwnShards *shards)
{
	uint64		   statement = statement_of(snapshot);
	StatementMark *mark = place_for_mark(snapshot, shards);

	if (mark->statement != statement)
	{
		mark->tick = mark_unsettled_tick(snapshot, shards);
		mark->statement = statement;
	}
	return mark->tick;
}

static int64
mark_of(Snapshot snapshot, const OwnShards *shards)
{
	const Layout *layout;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot tell which ids are settled during recovery"),
				 errhint("Call snowflake_settled() on the primary server.")));
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot tell which ids are settled in a parallel "
						"worker"),
				 errdetail("A statement would have more than one mark."),
				 errhint("A function that calls snowflake_settled() must be "
						 "PARALLEL RESTRICTED or PARALLEL UNSAFE.")));
	layout = server_layout();
	if (snapshot->snapshot_type != SNAPSHOT_MVCC || !snapshot->copied)
		elog(ERROR, "cannot tell which ids are settled without a snapshot");
	return layout_pack(layout, tick_of_statement(snapshot, shards), 0, 0);
}

/* snowflake_settled(), and snowflake_settled(shards) */
Datum
snowflake_settled(PG_FUNCTION_ARGS)
{
	const OwnShards *shards =
		PG_NARGS() > 0 ? shards_of(PG_GETARG_TEXT_PP(0)) : NULL;

	PG_RETURN_INT64(mark_of(GetActiveSnapshot(), shards));
}

/* --- Waiting for the mark --------------------------------------------------- */

/* The mark as a statement that began now would have it. */
static int64
present_mark(const OwnShards *shards)
{
	int64 mark;

	PushActiveSnapshot(GetTransactionSnapshot());
	mark = mark_of(GetActiveSnapshot(), shards);
	PopActiveSnapshot();
	return mark;
}

/* An infinite interval, which the majors write differently, is very long here. */
static int64
wait_us(const Interval *timeout)
{
	double days = timeout->month * (double) DAYS_PER_MONTH + timeout->day;
	double us = timeout->time + days * USECS_PER_DAY;

	return (int64) Max(0.0, Min(us, (double) LONGEST_WAIT_US));
}

/* Raise an error if this transaction would wait in vain. */
static void
check_can_see_end(const OwnShards *shards)
{
	Hold mine = session_hold();

	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot wait for ids to be settled in a transaction "
						"with one snapshot"),
				 errdetail("The isolation level is \"%s\", and its snapshot "
						   "sees nothing that commits later.",
						   GetConfigOption("transaction_isolation", false,
										   false)),
				 errhint("Wait with isolation level \"read committed\".")));
	if (hold_tick(&mine, shards) != NO_TICK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot wait for ids to be settled in a transaction "
						"that has minted"),
				 errdetail("The mark stays at its first id until it ends."),
				 errhint("Wait after COMMIT.")));
}

/*
 * snowflake_wait_settled(after, timeout), and with shards: was the id settled in time?
 */
Datum
snowflake_wait_settled(PG_FUNCTION_ARGS)
{
	static WaitName event = {"SnowflakeSettled", 0};
	int64			after = PG_GETARG_INT64(0);
	int64 end_us = steady_clock_us() + wait_us(PG_GETARG_INTERVAL_P(1));
	int64 pause_us = FIRST_PAUSE_US;
	const OwnShards *shards =
		PG_NARGS() > 2 ? shards_of(PG_GETARG_TEXT_PP(2)) : NULL;

	while (present_mark(shards) <= after)
	{
		int64 left_us = end_us - steady_clock_us();

		check_can_see_end(shards);
		if (left_us <= 0)
			PG_RETURN_BOOL(false);
		(void) wait_outside_locks(Min(pause_us, left_us), &event, NULL);
		pause_us = Min(pause_us * 3 / 2, LAST_PAUSE_US);
	}
	PG_RETURN_BOOL(true);
}
