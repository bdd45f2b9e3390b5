/*-------------------------------------------------------------------------
 *
 * settled.c
 *	  Reading what is new: snowflake_settled().
 *
 * Ids are in the order of minting, and rows appear in the order of commits.  A
 * reader that asks for what is above its last id misses each row with a smaller
 * id that is committed later.  snowflake_settled() gives the mark: no row with an
 * id below it, which the caller's snapshot does not see, can still appear.
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
 *	a. Before its first id, it puts the latest tick into its slot.  Then comes a
 *	   full barrier, and only then it reads the latest tick, in which or after
 *	   which it mints.  Later ids are of the same tick or later ones.
 *	b. At its end, it has become visible.  Then it enters the ring, and then it
 *	   clears its slot.  If it rolled back, or has no xid, there will be no rows of
 *	   it: it just clears its slot.
 *	c. If it is prepared, it enters the table before it is, and clears its slot
 *	   after.  The session that removes it from the table, when it has ended, puts it
 *	   into the ring first.
 *
 * What the reader does, with a snapshot that is older than the call: it raises the
 * latest tick, to P; then comes a full barrier; then it looks at the slots; then at
 * the table and the ring.
 *
 * Why no row is missed.  Let a row of transaction T have an id below the mark, and
 * let the snapshot not see T.
 *	- Did T put its tick into its slot after the reader looked there?  Then T read
 *	  the latest tick after the reader's barrier, found P or more, and mints no id
 *	  below P.  But the mark is P or less.
 *	- Was T's tick in its slot when the reader looked?  Then the mark is not above
 *	  that tick, and T's ids are not below it.
 *	- Had T cleared its slot before?  Then T had entered the ring or the table
 *	  before, and was still in one of them when the reader looked there, since what
 *	  leaves the table goes to the ring.  It counts, as the snapshot does not see it.
 *	  Or others had taken its place in the ring: see below.
 * A row that the snapshot sees is read, and whatever becomes visible later is not
 * below the mark.  So each row is read once, whichever transactions run.
 *
 * How far back the ring reaches.  With each transaction goes the server's latest
 * completed xid, as it was after the transaction became visible.  That number only
 * grows, and a snapshot has its value of then.  If the snapshot's is greater than a
 * transaction's, the snapshot was taken later, and sees that transaction and all
 * those before it in the ring.  If the reader finds no such transaction, and the ring
 * has lost others, the snapshot is too old, which is an error.  A fresh snapshot is
 * never too old: among as many transactions as the ring holds, there is one that
 * began when the oldest of them had ended, and it raised the number.
 *
 * One statement has one mark.  A STABLE function may be called for each row, and
 * the mark moves.  Then a row above one mark would be skipped, and one with a greater
 * id, below the next mark, read.  So the first call leaves the mark in the snapshot:
 * in the counter by which the server knows whether its own snapshot is still good,
 * and which is 0 in those that queries use.
 *
 * Prepared transactions survive a restart, and shared memory does not.  But the
 * server keeps their locks.  So a transaction that is prepared takes an advisory
 * lock whose key is the time of the tick at which it holds the mark.  Nobody waits
 * for it: it is shared, and its kind is ours alone.  After a start, the first call
 * fills the table from these locks.  A prepared transaction that ended before that
 * has gone unnoticed, and a snapshot that does not see it is too old.
 *
 * The mark outlives the server: whatever starts later, with whatever clock, mints
 * nothing before the horizon that it finds, and the mark is not after that.  So the
 * reader raises the latest tick only to where the next renewal of the horizon is due,
 * and then asks for it, as who mints does.  The mark goes on with the clock, whether
 * somebody mints or not, and whether there are leases or not.
 *
 * test/model/settled.pml has all that but the restart, for spin.
 *
 * A note about locking:
 *	- SettledState, the table and the ring are read and written under settled_lock,
 *	  an LWLock.  It is held while the server is asked whether transactions run,
 *	  which takes locks of the server's.
 *	- A slot is written by its owner alone: see generator.c.
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
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "bounds.h"
#include "compat.h"
#include "generator.h"
#include "horizon.h"
#include "layout.h"
#include "server.h"
#include "settings.h"
#include "settled.h"

PG_FUNCTION_INFO_V1(snowflake_settled);

/* Transactions in the ring. */
#define RING_SIZE 32768

/* Tells our advisory locks from those that SQL takes, which have 1 and 2. */
#define LOCK_KIND 24346

/* A transaction that has minted, and does not run any more. */
typedef struct Minted
{
	FullTransactionId xid;
	FullTransactionId after; /* the latest completed xid; only in the ring */
	int64			  tick;	 /* at which it holds the mark */
	Oid				  database;
} Minted;

typedef struct SettledState
{
	bool			  knows_prepared; /* those from before the start */
	FullTransactionId known_after;	  /* the latest completed xid by then */
	int				  prepared_count;
	uint64			  entered; /* transactions that entered the ring */
} SettledState;

/* The caller's snapshot, its numbers in full. */
typedef struct View
{
	Snapshot		  snapshot;
	FullTransactionId xmin;
	FullTransactionId latest; /* the latest completed xid */
} View;

/* In shared memory, one piece. */
static SettledState *settled = NULL;
static Minted		*ring = NULL;
static Minted		*prepared = NULL;

static LWLock *settled_lock = NULL;

/*-------------------------------------------------------------------------
 * Shared memory
 *-------------------------------------------------------------------------
 */

/*
 * The places in the table: for all that can be prepared at once, and one more for
 * each session that is about to.
 */
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
settled_shmem_size(void)
{
	return add_size(sizeof(SettledState),
					mul_size(sizeof(Minted), ring_size() + prepared_size()));
}

void
settled_shmem_startup(void)
{
	bool found;

	settled_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[2].lock;
	settled =
		ShmemInitStruct("snowflake settled", settled_shmem_size(), &found);
	ring = (Minted *) (settled + 1);
	prepared = ring + ring_size();
	if (!found)
		memset(settled, 0, sizeof(SettledState));
}

/*-------------------------------------------------------------------------
 * The ends of transactions
 *-------------------------------------------------------------------------
 */

/* Under settled_lock.  The transaction has become visible, or was rolled back. */
static void
enter_ring(const Minted *transaction)
{
	Minted *place = &ring[settled->entered % ring_size()];

	*place = *transaction;
	place->after = latest_completed_xid();
	settled->entered++;
}

/* Under settled_lock. */
static void
leave_table(int place)
{
	enter_ring(&prepared[place]);
	prepared[place] = prepared[--settled->prepared_count];
}

/* Under settled_lock.  Those that have ended make room. */
static void
enter_table(const Minted *transaction)
{
	for (int i = settled->prepared_count; i-- > 0;)
	{
		if (!TransactionIdIsInProgress(
				XidFromFullTransactionId(prepared[i].xid)))
			leave_table(i);
	}
	if (settled->prepared_count == prepared_size())
		elog(ERROR, "no room for a prepared transaction that has minted ids");
	prepared[settled->prepared_count++] = *transaction;
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
	LWLockAcquire(settled_lock, LW_EXCLUSIVE);
	enter_table(transaction);
	LWLockRelease(settled_lock);
}

/* A transaction that holds the mark has become visible. */
static void
commit(const Minted *transaction)
{
	LWLockAcquire(settled_lock, LW_EXCLUSIVE);
	enter_ring(transaction);
	LWLockRelease(settled_lock);
}

/*
 * Called at the end of every transaction of every session.  The server calls it
 * for XACT_EVENT_COMMIT after ProcArrayEndTransaction(), and for
 * XACT_EVENT_PREPARE before others can end the transaction.
 */
static void
at_transaction_event(XactEvent event, void *arg)
{
	Minted mine = {.tick = generator_my_held_tick(), .database = MyDatabaseId};

	if (mine.tick == GENERATOR_NO_TICK)
		return;
	mine.xid = GetTopFullTransactionIdIfAny();
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			/* PREPARE TRANSACTION has given it an xid, if it had none */
			prepare(&mine);
			break;
		case XACT_EVENT_COMMIT:
			if (FullTransactionIdIsValid(mine.xid))
				commit(&mine);
			generator_release_mark();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			generator_release_mark();
			break;
		default:
			break;
	}
}

void
settled_install_callback(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
}

/*-------------------------------------------------------------------------
 * Snapshots
 *-------------------------------------------------------------------------
 */

/* A number that is not after "next", in full. */
static FullTransactionId
in_full(TransactionId xid, FullTransactionId next)
{
	uint32 epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

static View
view_of(Snapshot snapshot)
{
	FullTransactionId next = ReadNextFullTransactionId();
	View			  view = {.snapshot = snapshot};

	view.xmin = in_full(snapshot->xmin, next);
	view.latest = in_full(snapshot->xmax, next);
	FullTransactionIdRetreat(&view.latest);
	return view;
}

static bool
sees(const View *view, const Minted *transaction)
{
	return FullTransactionIdPrecedes(transaction->xid, view->xmin) ||
		   !XidInMVCCSnapshot(XidFromFullTransactionId(transaction->xid),
							  view->snapshot);
}

/* Was it taken after the latest completed xid had been read? */
static bool
was_taken_after(const View *view, FullTransactionId completed)
{
	return FullTransactionIdFollows(view->latest, completed);
}

pg_noreturn static void
report_old_snapshot(const char *detail)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg("the snapshot is too old to tell which ids are settled"),
		 errdetail_internal("%s", detail),
		 errhint(
			 "Call snowflake_settled() in the first statement of a transaction, and soon after that statement begins.")));
}

/*-------------------------------------------------------------------------
 * The mark
 *-------------------------------------------------------------------------
 */

/* Fill the table with the transactions that were prepared before the start. */
static void
load_prepared(const Layout *layout)
{
	LockData *locks = GetLockStatusData();

	LWLockAcquire(settled_lock, LW_EXCLUSIVE);
	for (int i = 0; i < locks->nelements && !settled->knows_prepared; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];
		const LOCKTAG		   *tag = &lock->locktag;
		Minted transaction = {.database = tag->locktag_field1};

		if (tag->locktag_type != LOCKTAG_ADVISORY ||
			tag->locktag_field4 != LOCK_KIND || !lock_is_recovered(lock))
			continue;
		transaction.xid =
			in_full(lock_recovered_xid(lock), ReadNextFullTransactionId());
		if (!layout_tick_of_time(layout,
								 (TimestampTz) ((uint64) tag->locktag_field2
													<< 32 |
												tag->locktag_field3),
								 &transaction.tick))
			transaction.tick = 0; /* of another layout */
		enter_table(&transaction);
	}
	if (!settled->knows_prepared)
		settled->known_after = latest_completed_xid();
	settled->knows_prepared = true;
	LWLockRelease(settled_lock);
}

/*
 * The table has what was prepared before the start and had not ended when the
 * table was filled.  So if the snapshot is older, all that it found running must
 * run still.
 */
static void
check_prepared(const Layout *layout, const View *view)
{
	bool knows_prepared;

	LWLockAcquire(settled_lock, LW_SHARED);
	knows_prepared = settled->knows_prepared;
	LWLockRelease(settled_lock);
	if (!knows_prepared)
		load_prepared(layout);
	if (was_taken_after(view, settled->known_after))
		return;
	for (uint32 i = 0; i < view->snapshot->xcnt; i++)
	{
		if (!TransactionIdIsInProgress(view->snapshot->xip[i]))
			report_old_snapshot(
				"A transaction that was prepared before the server started may have ended since the snapshot was taken.");
	}
}

/*
 * The first tick of the transactions in the table and the ring that the snapshot
 * does not see.
 */
static int64
first_unseen_tick(const View *view)
{
	int64 first = GENERATOR_NO_TICK;
	bool  is_too_old;

	LWLockAcquire(settled_lock, LW_SHARED);
	for (int i = 0; i < settled->prepared_count; i++)
	{
		if (prepared[i].database == MyDatabaseId && !sees(view, &prepared[i]))
			first = Min(first, prepared[i].tick);
	}
	is_too_old = settled->entered > ring_size();
	for (int i = 1; i <= Min(settled->entered, ring_size()); i++)
	{
		const Minted *transaction =
			&ring[(settled->entered - i) % ring_size()];

		if (was_taken_after(view, transaction->after))
		{
			is_too_old = false;
			break;
		}
		if (transaction->database == MyDatabaseId && !sees(view, transaction))
			first = Min(first, transaction->tick);
	}
	LWLockRelease(settled_lock);
	if (is_too_old)
		report_old_snapshot(psprintf(
			"More than %d transactions that minted ids have ended since the snapshot was taken.",
			ring_size()));
	return first;
}

/*
 * Raise the latest tick to the present one, though not past where the next renewal
 * is due; there, ask for that.  A clock that is behind raises nothing.
 *
 * Gives the latest tick, or as much of it as is on disk: a lease may have raised it
 * further.  No later start mints before that.
 */
static int64
raise_latest_tick(const Layout *layout)
{
	int64 tick;
	int64 on_disk;

	if (layout_tick_of_time(layout, GetCurrentTimestamp(), &tick) && tick > 0)
	{
		int64 renew;

		tick = Min(tick, layout->last_mint_tick);
		if (pg_atomic_read_u64(&bounds->renew) == 0)
			horizon_wait_for_first(tick);
		renew = (int64) pg_atomic_read_u64(&bounds->renew);
		if (tick >= renew)
			horizon_ask_for_renewal(tick);
		bounds_raise(&bounds->latest, Min(tick, renew));
	}
	on_disk = Max((int64) pg_atomic_read_u64(&bounds->renew),
				  (int64) pg_atomic_read_u64(&bounds->horizon));
	return Min((int64) pg_atomic_read_u64(&bounds->latest), on_disk);
}

/* The first tick that is not settled.  The head of this file says why. */
static int64
unsettled_tick(const Layout *layout, const View *view)
{
	int64 tick;

	if (max_prepared_xacts > 0)
		check_prepared(layout, view);
	tick = raise_latest_tick(layout);
	pg_memory_barrier();
	tick = Min(tick, generator_first_held_tick(MyDatabaseId));
	pg_read_barrier();
	return Min(tick, first_unseen_tick(view));
}

/* snowflake_settled() */
Datum
snowflake_settled(PG_FUNCTION_ARGS)
{
	Snapshot	  snapshot = GetActiveSnapshot();
	const Layout *layout;
	int64		  tick;

	(void) settings_layout();
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot tell which ids are settled during recovery"),
				 errhint("Call snowflake_settled() on the primary server.")));
	layout = server_layout();
	if (snapshot->snapshot_type != SNAPSHOT_MVCC || !snapshot->copied)
		elog(ERROR, "cannot tell which ids are settled without a snapshot");
	if (snapshot->takenDuringRecovery)
		report_old_snapshot("The snapshot was taken during recovery.");
	if (snapshot->snapXactCompletionCount == 0)
	{
		View view = view_of(snapshot);

		snapshot->snapXactCompletionCount =
			(uint64) unsettled_tick(layout, &view) + 1;
	}
	tick = (int64) snapshot->snapXactCompletionCount - 1;
	PG_RETURN_INT64(layout_pack(layout, tick, 0, 0));
}
