/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  Reading what is new: snowflake_settled(), and waiting for it.
 *
 * Ids are in the order of minting, and rows appear in the order of commits.  A reader
 * that asks for what is above its last id misses each row with a smaller id that is
 * committed later.  snowflake_settled() gives the mark: no row with an id below it,
 * which the caller's snapshot does not see, can still appear.
 *
 * The mark is the first id of a tick, the least of four:
 *
 *	1. the latest tick, after the reader has raised it to the present one
 *	2. the ticks at which running transactions hold the mark, in their slots
 *	3. likewise transactions that are prepared, in a table
 *	4. likewise transactions that ended lately, in a ring
 *
 * Of the table and the ring, only transactions that the snapshot does not see
 * count.  And of all of them, only those of the caller's database.
 *
 * What a transaction does:
 *	a. Before its first id, it puts the latest tick into its slot, under the slot's
 *	   lock.  Only then it reads the latest tick once more, in which or after which
 *	   it mints.  Later ids are of the same tick or later ones.
 *	b. At its end, it has become visible.  Then it enters the ring, and then it
 *	   clears its slot.  If it rolled back, or has no xid, there will be no rows of
 *	   it: it just clears its slot.
 *	c. If it is prepared, it enters the table before it is, and clears its slot
 *	   after.  The session that removes it from the table, when it has ended, puts it
 *	   into the ring first.
 *
 * What the reader does, with a snapshot that is older than the call: it raises the
 * latest tick, to P; then it looks at the slots, each under its lock; then at the
 * table and the ring.
 *
 * Why no row is missed.  Let a row of transaction T have an id below the mark, and
 * let the snapshot not see T.
 *	- Did T put its tick into its slot after the reader looked there?  Then T had the
 *	  slot's lock after the reader, found the latest tick at P or more, and mints no
 *	  id below P.  But the mark is P or less.
 *	- Was T's tick in its slot when the reader looked?  Then the mark is not above
 *	  that tick, and T's ids are not below it.
 *	- Had T cleared its slot before?  Then T had entered the ring or the table
 *	  before, and was still in one of them when the reader looked there, since what
 *	  leaves the table goes to the ring.  It counts, as the snapshot does not see it.
 *	  Or others had taken its entry in the ring: see below.
 * A row that the snapshot sees is read, and whatever becomes visible later is not
 * below the mark.  So each row is read once, whichever transactions run.
 *
 * Why the mark never goes back.  Let a snapshot be taken after a mark was returned, and
 * let transaction T hold the mark of this snapshot.
 *	- Did T put its tick into its slot after the first reader looked there?  Then that
 *	  tick was the latest one, P or more, and the first mark is P or less.
 *	- Else T held the first mark, too, at that tick or before: unless the first snapshot
 *	  saw T, but then the second one does.
 * And the latest tick only grows.  (Snapshots that are imported are as old as they are.)
 *
 * The ring takes no lock, and nobody waits there for another.  To enter it, a process
 * draws a ticket, which only grows and gives the entry; marks the entry as under way;
 * reads the latest completed xid; fills the entry; and marks it as written, with the
 * ticket.
 *	- An entry that is under way is nobody else's.  A process may be stopped just
 *	  there while the ring goes round: who then draws that entry draws another ticket.
 *	  So does a process that was stopped before that, and finds a later ticket's mark.
 *	- The reader goes back from the last ticket that was drawn.  It passes over an
 *	  entry that is not written with that ticket: its transaction had not cleared its
 *	  slot when the reader looked there, or entered with a later ticket.
 *	- An entry that is written with a later ticket, or is when the reader has read
 *	  it, is lost, and so are all tickets before.
 *
 * How far back the ring reaches.  The server's latest completed xid only grows, and a
 * snapshot has its value of then.  Each transaction in the ring has it as it was
 * after it had drawn its ticket.  If the snapshot's is greater than that, the
 * snapshot was taken later: it sees that transaction, and all with earlier tickets,
 * as these were visible before.  If the reader finds no such transaction, and the
 * ring has lost others, the snapshot is too old, which is an error.  A fresh snapshot
 * is never too old: among as many transactions as the ring holds, there is one that
 * began when the oldest of them had ended, and it raised the number.
 *
 * A snapshot that was imported may follow another order than that in which
 * transactions became visible: one that a replication slot exported follows the WAL,
 * where a transaction that waits for a synchronous standby has ended.  Its latest
 * completed xid tells nothing then.  But it sees all xids before its xmin, and these
 * are all with tickets up to a transaction's, if that one's number is before the
 * xmin.
 *
 * One statement has one mark.  A STABLE function may be called for each row, and the
 * mark moves.  Then a row above one mark would be skipped, and one with a greater id,
 * below the next mark, read.  So the first call leaves the mark in the copy of the
 * snapshot that the statement has to itself, in a field that the server sets to 0
 * there and does not read.  Nothing else lives as long: a snapshot's address is soon
 * another one's, two statements in a loop have equal snapshots, a statement has
 * several calls, and a reference to the snapshot would keep VACUUM from rows.
 *
 * Prepared transactions survive a restart, and shared memory does not.  But the
 * server keeps their locks.  So a transaction that is prepared takes an advisory lock
 * whose key is the time of the tick at which it holds the mark.  Nobody waits for it:
 * it is shared, and its kind is ours alone.  After a start the table is filled from
 * these locks before one of them can be ended: by the first transaction of any
 * process, and a process has one before it does anything, to find its database; and,
 * as a session may outlive a standby's recovery, by COMMIT PREPARED.
 *
 * The mark outlives the server: whatever starts later, with whatever clock, mints
 * nothing before the horizon that it finds, and the mark is not after that.  So the
 * reader raises the latest tick only to where the next renewal of the horizon is due,
 * and then asks for it, as who mints does.  The mark goes on with the clock, whether
 * somebody mints or not, and whether there are leases or not.
 *
 * test/model/settled.pml has all that but the restart, for spin.  test/memory has this
 * file searched with the memory of ARM and POWER: one and two writers, an old snapshot,
 * a ring of one entry, marks one after another, prepared transactions, an imported
 * snapshot.  Each barrier here is missed there.
 *
 * A note about locking:
 *	- The ring: see above.  Only who has set an entry's state to "under way" writes the
 *	  rest of it.
 *	- The table is read and written under mark_lock, an LWLock, which only those who
 *	  prepare transactions take, and who reads while there are some.  It is held while
 *	  the server is asked whether transactions run, which takes locks of the server's.
 *	  What leaves the table has entered the ring before the count says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "tcop/utility.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "compat.h"
#include "horizon.h"
#include "layout.h"
#include "mark.h"
#include "positions.h"
#include "server.h"
#include "sessions.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_settled);
PG_FUNCTION_INFO_V1(snowflake_wait_settled);

/* Transactions in the ring. */
#define RING_SIZE 32768

/* Tells our advisory locks from those that SQL takes, which have 1 and 2. */
#define LOCK_KIND 24346

/* A mark is mostly passed within a tick or two; then there is no hurry. */
#define FIRST_PAUSE_US INT64CONST(1000)
#define LAST_PAUSE_US INT64CONST(50000)

/* Who waits for longer makes a mistake, or means "for ever". */
#define LONGEST_WAIT_US (USECS_PER_DAY * 365)

/* A transaction that has minted, and does not run any more. */
typedef struct Minted
{
	FullTransactionId xid;
	int64			  tick; /* at which it holds the mark */
	Oid				  database;
} Minted;

/* In the ring. */
typedef struct RingEntry
{
	pg_atomic_uint64  state; /* 0 at first, then one of these: */
	FullTransactionId after; /* the latest completed xid */
	Minted			  transaction;
} RingEntry;

#define UNDER_WAY(ticket) (2 * (ticket) + 1)
#define WRITTEN(ticket) (2 * (ticket) + 2)
#define IS_UNDER_WAY(state) ((state) % 2 == 1)

typedef struct MarkState
{
	pg_atomic_uint64 tickets;		 /* of the ring, drawn */
	pg_atomic_uint32 prepared_count; /* in the table */
	bool			 knows_prepared; /* those from before the start */
} MarkState;

/* The caller's snapshot, its numbers in full. */
typedef struct View
{
	Snapshot		  snapshot;
	FullTransactionId xmin;
	FullTransactionId sees_after; /* it sees who entered the ring before this */
} View;

/* In shared memory, one piece. */
static MarkState *shared = NULL;
static RingEntry *ring = NULL;
static Minted	 *prepared = NULL;
static LWLock	 *mark_lock = NULL;

static ProcessUtility_hook_type prev_process_utility = NULL;

static bool i_know_prepared = false; /* I have seen that the table is filled */
static bool has_imported = false;	 /* this transaction has, its snapshot */

/* --- Shared memory ------------------------------------------------------ */

/* The table: all that can be prepared, and one for each session that is about to. */
static int
prepared_size(void)
{
	return max_prepared_xacts > 0 ? max_prepared_xacts + MaxBackends : 0;
}

/* More than can run or be prepared at once, which is why a snapshot can be fresh. */
static int
ring_size(void)
{
	return RING_SIZE + 2 * (MaxBackends + prepared_size());
}

Size
mark_shmem_size(void)
{
	return add_size(sizeof(MarkState),
					add_size(mul_size(sizeof(RingEntry), ring_size()),
							 mul_size(sizeof(Minted), prepared_size())));
}

void
mark_shmem_startup(void)
{
	bool found;

	mark_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[MARK_LOCK].lock;
	shared = ShmemInitStruct("snowflake mark", mark_shmem_size(), &found);
	ring = (RingEntry *) (shared + 1);
	prepared = (Minted *) (ring + ring_size());
	if (found)
		return;
	pg_atomic_init_u64(&shared->tickets, 0);
	pg_atomic_init_u32(&shared->prepared_count, 0);
	shared->knows_prepared = false;
	for (int i = 0; i < ring_size(); i++)
		pg_atomic_init_u64(&ring[i].state, 0);
}

/* --- The ends of transactions ------------------------------------------- */

/* An xid that is not after "next", with its epoch. */
static FullTransactionId
in_full(TransactionId xid, FullTransactionId next)
{
	uint32 epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

/* Another ticket is needed only where a process was stopped in here for a round. */
static void
enter_ring(const Minted *transaction)
{
	for (;;)
	{
		uint64	   ticket = pg_atomic_fetch_add_u64(&shared->tickets, 1);
		RingEntry *entry = &ring[ticket % ring_size()];
		uint64	   state = pg_atomic_read_u64(&entry->state);

		if (IS_UNDER_WAY(state) || state > UNDER_WAY(ticket) ||
			!pg_atomic_compare_exchange_u64(&entry->state, &state,
											UNDER_WAY(ticket)))
			continue;
		pg_write_barrier();
		entry->after = latest_completed_xid();
		entry->transaction = *transaction;
		pg_write_barrier();
		pg_atomic_write_u64(&entry->state, WRITTEN(ticket));
		return;
	}
}

/* Under mark_lock.  Those that have ended go from the table to the ring. */
static void
clear_table(void)
{
	uint32 count = pg_atomic_read_u32(&shared->prepared_count);

	for (uint32 i = count; i-- > 0;)
	{
		if (TransactionIdIsInProgress(
				XidFromFullTransactionId(prepared[i].xid)))
			continue;
		enter_ring(&prepared[i]);
		prepared[i] = prepared[--count];
	}
	pg_write_barrier();
	pg_atomic_write_u32(&shared->prepared_count, count);
}

/* Under mark_lock. */
static void
enter_table(const Minted *transaction)
{
	uint32 count = pg_atomic_read_u32(&shared->prepared_count);

	if (count == prepared_size())
		elog(ERROR, "no room for a prepared transaction that has minted ids");
	prepared[count] = *transaction;
	pg_atomic_write_u32(&shared->prepared_count, count + 1);
}

/* Take the lock that tells, after a restart, at which tick the mark is held. */
static void
lock_for_restart(const Minted *transaction)
{
	uint64 time =
		(uint64) layout_time_of_tick(server_layout(), transaction->tick);
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, transaction->database, (uint32) (time >> 32),
						 (uint32) time, LOCK_KIND);
	(void) LockAcquire(&tag, ShareLock, false, false);
}

/* A transaction that holds the mark is about to be prepared. */
static void
prepare(const Minted *transaction)
{
	if (prepared_size() == 0)
		return; /* the server will refuse it */
	lock_for_restart(transaction);
	LWLockAcquire(mark_lock, LW_EXCLUSIVE);
	clear_table();
	enter_table(transaction);
	LWLockRelease(mark_lock);
}

/* Under mark_lock.  Enter those that were prepared before the start. */
static void
enter_recovered(const LockData *locks)
{
	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];
		const LOCKTAG		   *tag = &lock->locktag;
		Minted		transaction = {.database = tag->locktag_field1};
		TimestampTz time = (TimestampTz) ((uint64) tag->locktag_field2 << 32 |
										  tag->locktag_field3);

		if (tag->locktag_type != LOCKTAG_ADVISORY ||
			tag->locktag_field4 != LOCK_KIND || !lock_is_recovered(lock))
			continue;
		transaction.xid =
			in_full(lock_recovered_xid(lock), ReadNextFullTransactionId());
		if (!layout_tick_of_time(settings_layout(), time, &transaction.tick))
			transaction.tick = 0; /* of another layout */
		enter_table(&transaction);
	}
}

/* Fill the table, if nobody has since the start. */
static void
learn_prepared(void)
{
	if (likely(i_know_prepared) || RecoveryInProgress())
		return;
	if (prepared_size() > 0)
	{
		LWLockAcquire(mark_lock, LW_EXCLUSIVE);
		if (!shared->knows_prepared)
			enter_recovered(GetLockStatusData());
		shared->knows_prepared = true;
		LWLockRelease(mark_lock);
	}
	i_know_prepared = true;
}

/*
 * Called at the end of every transaction of every session.  The server calls it
 * for XACT_EVENT_COMMIT after ProcArrayEndTransaction(), and for
 * XACT_EVENT_PREPARE before others can end the transaction.
 */
static void
at_transaction_event(XactEvent event, void *arg)
{
	Minted mine = {.tick = session_mark_tick(), .database = MyDatabaseId};

	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		learn_prepared();
	else
		has_imported = false;
	if (mine.tick == NO_TICK)
		return;
	mine.xid = GetTopFullTransactionIdIfAny();
	if (event == XACT_EVENT_PRE_PREPARE)
		prepare(&mine); /* which has an xid by now, if it had none */
	if (event == XACT_EVENT_COMMIT && FullTransactionIdIsValid(mine.xid))
		enter_ring(&mine);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
		session_release_mark();
}

/* Notes what no transaction event tells. */
static void
process_utility(PlannedStmt *statement, const char *text, bool is_read_only,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *receiver,
				QueryCompletion *completion)
{
	const Node			  *node = statement->utilityStmt;
	const TransactionStmt *end = (const TransactionStmt *) node;
	const VariableSetStmt *set = (const VariableSetStmt *) node;
	bool				   ends_prepared = IsA(node, TransactionStmt) &&
						 (end->kind == TRANS_STMT_COMMIT_PREPARED ||
						  end->kind == TRANS_STMT_ROLLBACK_PREPARED);

	if (ends_prepared)
		learn_prepared();
	if (IsA(node, VariableSetStmt) && set->kind == VAR_SET_MULTI &&
		strcmp(set->name, "TRANSACTION SNAPSHOT") == 0)
		has_imported = true;
	prev_process_utility(statement, text, is_read_only, context, params,
						 environment, receiver, completion);
	if (ends_prepared && pg_atomic_read_u32(&shared->prepared_count) > 0)
	{
		LWLockAcquire(mark_lock, LW_EXCLUSIVE);
		clear_table();
		LWLockRelease(mark_lock);
	}
}

void
mark_install_hooks(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
	prev_process_utility =
		ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
}

/* --- The mark ----------------------------------------------------------- */

static View
view_of(Snapshot snapshot)
{
	FullTransactionId next = ReadNextFullTransactionId();
	View view = {.snapshot = snapshot, .xmin = in_full(snapshot->xmin, next)};

	if (has_imported || (am_walsender && IsolationUsesXactSnapshot()))
		view.sees_after = view.xmin;
	else
	{
		/* the latest completed xid */
		view.sees_after = in_full(snapshot->xmax, next);
		FullTransactionIdRetreat(&view.sees_after);
	}
	return view;
}

pg_noreturn static void
report_old_snapshot(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the snapshot is too old to tell which ids are settled"),
			 errdetail_internal("%s", detail),
			 errhint("Call snowflake_settled() in the first statement of a "
					 "transaction, and soon after that statement begins.")));
}

/* Lower "first" to the tick of a transaction that the snapshot does not see. */
static void
note_unseen(const View *view, const Minted *transaction, int64 *first)
{
	if (transaction->tick < *first && transaction->database == MyDatabaseId &&
		!FullTransactionIdPrecedes(transaction->xid, view->xmin) &&
		XidInMVCCSnapshot(XidFromFullTransactionId(transaction->xid),
						  view->snapshot))
		*first = transaction->tick;
}

static void
note_unseen_prepared(const View *view, int64 *first)
{
	if (pg_atomic_read_u32(&shared->prepared_count) == 0)
		return;
	LWLockAcquire(mark_lock, LW_SHARED);
	for (uint32 i = 0; i < pg_atomic_read_u32(&shared->prepared_count); i++)
		note_unseen(view, &prepared[i], first);
	LWLockRelease(mark_lock);
}

/* Copy what is in the entry of a ticket, if it is written with that ticket. */
static bool
read_entry(uint64 ticket, RingEntry *copy, bool *is_lost)
{
	RingEntry *entry = &ring[ticket % ring_size()];
	uint64	   state = pg_atomic_read_u64(&entry->state);

	if (state < WRITTEN(ticket))
		return false;
	pg_read_barrier();
	copy->after = entry->after;
	copy->transaction = entry->transaction;
	pg_read_barrier();
	*is_lost = pg_atomic_read_u64(&entry->state) != WRITTEN(ticket);
	return true;
}

/* From the last transaction back to one before which the snapshot sees all. */
static void
note_unseen_ended(const View *view, int64 *first)
{
	uint64 tickets = pg_atomic_read_u64(&shared->tickets);

	for (uint64 i = 1; i <= tickets; i++)
	{
		bool	  is_lost = i > ring_size();
		RingEntry entry = {.after = InvalidFullTransactionId};

		if (!is_lost && !read_entry(tickets - i, &entry, &is_lost))
			continue;
		if (is_lost)
			report_old_snapshot(
				psprintf("More than %d transactions that minted ids have "
						 "ended since the snapshot was taken.",
						 ring_size()));
		if (FullTransactionIdFollows(view->sees_after, entry.after))
			return;
		note_unseen(view, &entry.transaction, first);
	}
}

/*
 * Raise the latest tick to the present one.  Gives the latest tick, or as much of it as
 * is on disk: a lease may have raised it further.  No later start mints before that.
 */
static int64
raise_latest_tick(void)
{
	int64 renew;
	int64 horizon;
	int64 latest;

	horizon_begin_present_tick();
	renew = (int64) pg_atomic_read_u64(&bounds->renew);
	horizon = (int64) pg_atomic_read_u64(&bounds->horizon);
	horizon = Max(renew, horizon);
	latest = (int64) pg_atomic_read_u64(&bounds->latest);
	return Min(latest, horizon);
}

/* The first tick that is not settled: see above. */
static int64
unsettled_tick(const View *view)
{
	int64 first = raise_latest_tick();
	int64 held;

	learn_prepared();
	pg_memory_barrier();
	held = sessions_first_mark_tick(MyDatabaseId);
	first = Min(first, held);
	pg_read_barrier();
	note_unseen_prepared(view, &first);
	pg_read_barrier();
	note_unseen_ended(view, &first);
	return first;
}

/* The mark of a statement, which is kept in its snapshot: see above. */
static int64
mark_of(Snapshot snapshot)
{
	const Layout *layout;
	int64		  tick;

	(void) settings_layout();
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
	if (snapshot->takenDuringRecovery)
		report_old_snapshot("The snapshot was taken during recovery.");
	if (snapshot->snapXactCompletionCount == 0)
	{
		View view = view_of(snapshot);

		snapshot->snapXactCompletionCount = (uint64) unsettled_tick(&view) + 1;
	}
	tick = (int64) snapshot->snapXactCompletionCount - 1;
	return layout_pack(layout, tick, 0, 0);
}

Datum
snowflake_settled(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(mark_of(GetActiveSnapshot()));
}

/* --- Waiting for the mark --------------------------------------------------- */

/* The mark as a statement that began now would have it. */
static int64
present_mark(void)
{
	int64 mark;

	PushActiveSnapshot(GetTransactionSnapshot());
	mark = mark_of(GetActiveSnapshot());
	PopActiveSnapshot();
	return mark;
}

/* Infinite ones, which the majors write differently, are very long here. */
static int64
wait_us(const Interval *timeout)
{
	double days = timeout->month * (double) DAYS_PER_MONTH + timeout->day;
	double us = timeout->time + days * USECS_PER_DAY;

	return (int64) Max(0.0, Min(us, (double) LONGEST_WAIT_US));
}

/* What would wait in vain fails at once. */
static void
check_can_see_end(void)
{
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
	if (session_mark_tick() != NO_TICK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot wait for ids to be settled in a transaction "
						"that has minted"),
				 errdetail("The mark stays at its first id until it ends."),
				 errhint("Wait after COMMIT.")));
}

/* snowflake_wait_settled(after, timeout): was the id settled in time? */
Datum
snowflake_wait_settled(PG_FUNCTION_ARGS)
{
	static WaitName event = {"SnowflakeSettled", 0};
	int64			after = PG_GETARG_INT64(0);
	int64 end_us = steady_clock_us() + wait_us(PG_GETARG_INTERVAL_P(1));
	int64 pause_us = FIRST_PAUSE_US;

	while (present_mark() <= after)
	{
		int64 left_us = end_us - steady_clock_us();

		check_can_see_end();
		if (left_us <= 0)
			PG_RETURN_BOOL(false);
		(void) wait_outside_locks(Min(pause_us, left_us), &event, NULL);
		pause_us = Min(pause_us * 3 / 2, LAST_PAUSE_US);
	}
	PG_RETURN_BOOL(true);
}
