/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  Reading what is new: the mark below which no row can still appear.
 *
 * Ids are in the order of minting, and rows appear in the order of commits.  A reader
 * that asks for what is above its last id misses each row with a smaller id that is
 * committed later.  snowflake_settled() gives the mark: no row with an id below it,
 * which the caller's snapshot does not see, can still appear.
 *
 * The mark is the first id of a tick, the least of four:
 *
 *	1. the latest tick, after the reader has raised it to the present one; but not past
 *	   the horizon on disk
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
 *	   it mints.  Then the slot gets that id's tick: no later id is of an earlier one.
 *	b. At its end, it has become visible.  Then it enters the ring, and then it
 *	   clears its slot.  If it rolled back, or has no xid, there will be no rows of
 *	   it: it just clears its slot.
 *	c. If it is to be prepared, it first enters the table, then is prepared, and then
 *	   clears its slot.  When a prepared transaction has ended, a session puts it into
 *	   the ring, and only then removes it from the table.
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
 * The mark of some shards.  All of that holds for the ids of these shards alone, if only
 * transactions count that mint there.  In step a a transaction says in its slot on which
 * shard it is about to mint, or that it may be any.  Before its first id on another shard
 * it does step a once more, for all shards: it puts the latest tick of then beside the
 * first one, under the slot's lock, and reads the latest tick again.  So it holds the
 * mark at the first tick for the ids of that shard, and at the second one for all others,
 * and of each of the two all is true that is said above.  Both go to the ring and to the
 * table.
 *
 * Prepared transactions survive a restart, and shared memory does not.  But the
 * server keeps their locks.  So a transaction that is prepared takes an advisory lock
 * whose key is the time of the tick at which it holds the mark; if that is for one shard,
 * one with the shard; and one with the time for the others.  Nobody waits for them: they
 * are shared, and their kinds are ours alone.  After a start the table is filled from
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
 * snapshot.  It fails if any one of the barriers here is taken out.
 *
 * A note about locking:
 *	- The ring: see above.  Only who has set an entry's state to "under way" writes the
 *	  rest of it.
 *	- The table is read and written under mark_lock, an LWLock.  These take it: a
 *	  session that prepares a transaction or ends a prepared one; a reader, while there
 *	  are some; and each session once, to see that the table is filled.  It is held while
 *	  the server is asked for its locks, and whether transactions run, which takes locks
 *	  of the server's.  What leaves the table has entered the ring before the count says
 *	  so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "horizon.h"
#include "mark.h"
#include "positions.h"
#include "server.h"
#include "sessions.h"

/* Transactions in the ring. */
#define RING_SIZE 32768

/*
 * Tells our advisory locks from those that SQL takes, which have 1 and 2, and what the
 * key is.
 */
typedef enum LockKind
{
	LOCK_OF_TIME = 24346,
	LOCK_OF_SHARD,
	LOCK_OF_OTHERS_TIME
} LockKind;

/* A transaction that has minted, as the ring and the table have it. */
typedef struct Minted
{
	FullTransactionId xid;
	Hold			  hold;
	Oid				  database;
} Minted;

/* In the ring. */
typedef struct RingEntry
{
	pg_atomic_uint64  state;	 /* 0 at first, then one of these: */
	FullTransactionId completed; /* the latest one when it entered */
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

/* The caller's snapshot, its numbers in full, and the shards whose mark it wants. */
typedef struct View
{
	Snapshot		  snapshot;
	const OwnShards	 *shards; /* NULL: all */
	FullTransactionId xmin;
	FullTransactionId sees_before; /* all whose "completed" is less */
} View;

/* In shared memory, one piece. */
static MarkState *shared = NULL;
static RingEntry *ring = NULL;
static Minted	 *prepared = NULL;
static LWLock	 *mark_lock = NULL;

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
		entry->completed = latest_completed_xid();
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

static void
take_lock(const Minted *transaction, LockKind kind, int64 key)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, transaction->database,
						 (uint32) ((uint64) key >> 32), (uint32) key, kind);
	(void) LockAcquire(&tag, ShareLock, false, false);
}

/* Take the locks that tell, after a restart, where the mark is held. */
static void
lock_for_restart(const Minted *transaction)
{
	const Layout *layout = server_layout();
	const Hold	 *hold = &transaction->hold;

	take_lock(transaction, LOCK_OF_TIME,
			  layout_time_of_tick(layout, hold->tick));
	if (hold->shard == ALL_SHARDS)
		return;
	take_lock(transaction, LOCK_OF_SHARD, hold->shard);
	if (hold->others_tick != NO_TICK)
		take_lock(transaction, LOCK_OF_OTHERS_TIME,
				  layout_time_of_tick(layout, hold->others_tick));
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

/* Under mark_lock.  What the table has of a transaction, of which it has a lock. */
static Minted *
recovered(TransactionId xid, Oid database)
{
	Minted new = {.xid = in_full(xid, ReadNextFullTransactionId()),
				  .hold = {.others_tick = NO_TICK, .shard = ALL_SHARDS},
				  .database = database};
	uint32 count = pg_atomic_read_u32(&shared->prepared_count);

	for (uint32 i = 0; i < count; i++)
	{
		if (FullTransactionIdEquals(prepared[i].xid, new.xid))
			return &prepared[i];
	}
	enter_table(&new);
	return &prepared[count];
}

/* 0 for a time of another layout. */
static int64
tick_of_time(int64 time)
{
	int64 tick;

	return layout_tick_of_time(settings_layout(), time, &tick) ? tick : 0;
}

/* Under mark_lock.  Enter those that were prepared before the start. */
static void
enter_recovered(const LockData *locks)
{
	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];
		const LOCKTAG		   *tag = &lock->locktag;
		int64					key =
			(int64) ((uint64) tag->locktag_field2 << 32 | tag->locktag_field3);
		Hold *hold;

		if (tag->locktag_type != LOCKTAG_ADVISORY ||
			tag->locktag_field4 < LOCK_OF_TIME ||
			tag->locktag_field4 > LOCK_OF_OTHERS_TIME ||
			!lock_is_recovered(lock))
			continue;
		hold = &recovered(lock_recovered_xid(lock), tag->locktag_field1)->hold;
		if (tag->locktag_field4 == LOCK_OF_TIME)
			hold->tick = tick_of_time(key);
		else if (tag->locktag_field4 == LOCK_OF_SHARD)
			hold->shard = (int32) key;
		else
			hold->others_tick = tick_of_time(key);
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
	Minted mine = {.hold = session_hold(), .database = MyDatabaseId};

	if (event == XACT_EVENT_PRE_COMMIT)
		learn_prepared();
	else
		has_imported = false;
	if (mine.hold.tick == NO_TICK)
		return;
	mine.xid = GetTopFullTransactionIdIfAny();
	if (event == XACT_EVENT_PRE_PREPARE)
		prepare(&mine); /* the server has given it an xid, if it had none */
	if (event == XACT_EVENT_COMMIT && FullTransactionIdIsValid(mine.xid))
		enter_ring(&mine);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
		session_release_mark();
}

/*
 * What no transaction event tells: a utility statement begins.  Does it end a transaction
 * that is prepared?
 */
bool
mark_begin_utility(const Node *node)
{
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
	return ends_prepared;
}

/* A utility statement has ended a prepared transaction. */
void
mark_end_prepared(void)
{
	if (pg_atomic_read_u32(&shared->prepared_count) == 0)
		return;
	LWLockAcquire(mark_lock, LW_EXCLUSIVE);
	clear_table();
	LWLockRelease(mark_lock);
}

void
mark_install_callback(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
}

/* --- The mark ----------------------------------------------------------- */

/* Is the snapshot another session's, or that of a walsender's slot? */
static bool
is_foreign(void)
{
	return has_imported || (am_walsender && IsolationUsesXactSnapshot());
}

/*
 * Was the snapshot taken on a standby?  Its sessions noted nothing of what ended there.  A
 * snapshot of a slot does not say so, from 16 on: but its transaction began there.
 */
static bool
is_of_standby(Snapshot snapshot)
{
	return snapshot->takenDuringRecovery ||
		   (is_foreign() && TransactionStartedDuringRecovery());
}

static View
view_of(Snapshot snapshot, const OwnShards *shards)
{
	FullTransactionId next = ReadNextFullTransactionId();
	View			  view = {.snapshot = snapshot,
							  .shards = shards,
							  .xmin = in_full(snapshot->xmin, next)};

	if (is_foreign())
		view.sees_before = view.xmin;
	else
	{
		/* the latest completed xid */
		view.sees_before = in_full(snapshot->xmax, next);
		FullTransactionIdRetreat(&view.sees_before);
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
	int64 tick = hold_tick(&transaction->hold, view->shards);

	if (tick < *first && transaction->database == MyDatabaseId &&
		!FullTransactionIdPrecedes(transaction->xid, view->xmin) &&
		XidInMVCCSnapshot(XidFromFullTransactionId(transaction->xid),
						  view->snapshot))
		*first = tick;
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
	copy->completed = entry->completed;
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
		bool	  is_lost;
		RingEntry entry = {.completed = InvalidFullTransactionId};

		if (!read_entry(tickets - i, &entry, &is_lost))
			continue;
		if (is_lost)
			report_old_snapshot(
				psprintf("More than %d transactions that minted ids have "
						 "ended since the snapshot was taken.",
						 ring_size()));
		if (FullTransactionIdFollows(view->sees_before, entry.completed))
			return;
		note_unseen(view, &entry.transaction, first);
	}
}

/*
 * The latest tick, but none past the horizon on disk, since a lease may have raised the
 * latest tick further: no later start mints before that horizon.  "renew" is never past
 * it; "horizon" may be less than "renew", as it stops at the common end of leases.
 */
static int64
latest_tick_on_disk(void)
{
	int64 renew = (int64) pg_atomic_read_u64(&bounds->renew);
	int64 horizon = (int64) pg_atomic_read_u64(&bounds->horizon);
	int64 on_disk = Max(renew, horizon);
	int64 latest = (int64) pg_atomic_read_u64(&bounds->latest);

	return Min(latest, on_disk);
}

/*
 * The first tick that is not settled, of these shards, or of all, if NULL, for a
 * statement with this snapshot: see above.
 */
int64
mark_unsettled_tick(Snapshot snapshot, const OwnShards *shards)
{
	View  view = view_of(snapshot, shards);
	int64 first;
	int64 held;

	if (is_of_standby(snapshot))
		report_old_snapshot("The snapshot was taken during recovery.");
	horizon_begin_present_tick(); /* it raises the latest tick */
	first = latest_tick_on_disk();
	learn_prepared();
	pg_memory_barrier();
	held = sessions_first_mark_tick(MyDatabaseId, shards);
	first = Min(first, held);
	pg_read_barrier();
	note_unseen_prepared(&view, &first);
	pg_read_barrier();
	note_unseen_ended(&view, &first);
	return first;
}
