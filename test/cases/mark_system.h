/*-------------------------------------------------------------------------
 *
 * mark_system.h
 *	  What is below mark.c, for mark_cases.c: the server's transactions, those that are
 *	  prepared and their locks, snapshots, and what is true of each.
 *
 * With sessions.c and what is below that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "nodes/parsenodes.h"
#include "replication/walsender.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "../../src/horizon.h"
#include "../../src/mark.h"
#include "../../src/server.h"
#include "sessions_system.h"

/* --- Transactions ------------------------------------------------------------ */

#define MOST_TRANSACTIONS 400
#define SHARDS 2

typedef struct Transaction
{
	FullTransactionId xid; /* not valid: it has none */
	Oid				  database;
	Hold			  hold;
	bool			  in_slot;	/* it holds the mark there */
	bool			  is_noted; /* in the table or in the ring */
	bool			  is_prepared;
	bool			  is_aborted;
	int64			  ended_at;		 /* for all to see; 0: not yet */
	int64			  first[SHARDS]; /* the ticks of its first ids */
	LOCKTAG			  locks[3];
	int				  lock_count;
	bool			  is_recovered; /* it is from before the start */
	bool			  is_awaited;	/* its replay has not come to it */
} Transaction;

static Transaction all[MOST_TRANSACTIONS];
static int		   all_count;
static int64	   moment; /* counts what happens */

static FullTransactionId next_xid;
static FullTransactionId completed; /* the latest one */

static int	most_prepared;
static bool in_recovery;
static bool is_walsender;
static bool has_one_snapshot;
static bool began_in_recovery;

static Transaction *my_transaction; /* of the session that runs */

static void
give_xid(Transaction *transaction)
{
	if (FullTransactionIdIsValid(transaction->xid))
		return;
	transaction->xid = next_xid;
	FullTransactionIdAdvance(&next_xid);
}

static bool
runs(const Transaction *transaction)
{
	return transaction->ended_at == 0;
}

static bool
is_running(TransactionId xid)
{
	for (int i = 0; i < all_count; i++)
	{
		if (FullTransactionIdIsValid(all[i].xid) && runs(&all[i]) &&
			XidFromFullTransactionId(all[i].xid) == xid)
			return true;
	}
	return false;
}

/* --- Locks -------------------------------------------------------------------- */

static LWLockPadded locks[8];
static LWLock	   *held;
static int			takes[2]; /* of the LWLock, by mode */

static void
our_acquire(LWLock *lock, LWLockMode mode)
{
	CHECK(held == NULL && lock == &locks[MARK_LOCK].lock);
	held = lock;
	takes[mode]++;
}

static void
our_release(LWLock *lock)
{
	CHECK(held == lock);
	held = NULL;
}

/* Who does not wait for a lock may not get it. */
static LockAcquireResult
our_lock(const LOCKTAG *tag, LOCKMODE mode, bool is_of_session, bool no_wait)
{
	CHECK(held == NULL && mode == ShareLock && !is_of_session);
	CHECK(my_transaction->lock_count < lengthof(my_transaction->locks));
	if (no_wait)
		return LOCKACQUIRE_NOT_AVAIL;
	my_transaction->locks[my_transaction->lock_count++] = *tag;
	return LOCKACQUIRE_OK;
}

#define MOST_LOCKS 200

static LockInstanceData listed[MOST_LOCKS];
static LockData			lock_data = {.locks = listed};

static void
list_lock(const LOCKTAG *tag, const Transaction *transaction, bool recovered)
{
	CHECK(lock_data.nelements < MOST_LOCKS);
	listed[lock_data.nelements++] =
		(LockInstanceData){.locktag = *tag,
						   .pid = recovered ? 0 : 77,
						   .leaderPid = (int) XidFromFullTransactionId(
							   transaction->xid)};
}

/*
 * The locks of a transaction.  If it is from before the start, it has others, too, which say
 * nothing of the mark: of other kinds, and those of statements in SQL.
 */
static void
list_locks(const Transaction *transaction)
{
	LOCKTAG tag;

	for (int i = 0; i < transaction->lock_count; i++)
		list_lock(&transaction->locks[i], transaction,
				  transaction->is_recovered);
	for (int kind = 24345; kind <= 24349; kind++)
	{
		SET_LOCKTAG_ADVISORY(tag, transaction->database, 0, 3, kind);
		tag.locktag_type = LOCKTAG_OBJECT;
		list_lock(&tag, transaction, transaction->is_recovered);
		tag.locktag_type = LOCKTAG_ADVISORY;
		if (kind < 24346 || kind > 24348)
			list_lock(&tag, transaction, transaction->is_recovered);
		tag.locktag_field4 = 1 + kind % 2;
		list_lock(&tag, transaction, transaction->is_recovered);
	}
}

static int fills;

static LockData *
our_lock_data(void)
{
	LOCKTAG tag;

	/* the table is filled once */
	CHECK(held != NULL && !in_recovery && fills++ == 0);
	lock_data.nelements = 0;
	for (int i = 0; i < all_count; i++)
	{
		if (runs(&all[i]) && !all[i].is_awaited && all[i].lock_count > 0)
			list_locks(&all[i]);
	}
	if (all_count > 0)
	{
		/* behind the end */
		SET_LOCKTAG_ADVISORY(tag, all[0].database, 0, 3, 24346);
		list_lock(&tag, &all[0], true);
		lock_data.nelements--;
	}
	return &lock_data;
}

/* --- The server ------------------------------------------------------------------ */

static XactCallback at_end;
static int64		present; /* tick */
static bool			has_other_layout;
static void (*after_draw)(void); /* what others do when a ticket is drawn */

static uint64
our_draw(pg_atomic_uint64 *tickets)
{
	uint64 ticket = pg_atomic_fetch_add_u64(tickets, 1);
	void (*run)(void) = after_draw;

	after_draw = NULL;
	if (run)
		run();
	return ticket;
}

#define max_prepared_xacts most_prepared
#define am_walsender is_walsender
#define RecoveryInProgress() in_recovery
#define TransactionStartedDuringRecovery() began_in_recovery
#undef IsolationUsesXactSnapshot
#define IsolationUsesXactSnapshot() has_one_snapshot
#define latest_completed_xid() completed
#define ReadNextFullTransactionId() next_xid
#define TransactionIdIsInProgress(xid) is_running(xid)
#define GetTopFullTransactionIdIfAny() \
	(my_transaction ? my_transaction->xid : InvalidFullTransactionId)
#define RegisterXactCallback(function, argument) (at_end = (function))
#define LockAcquire(tag, mode, session, no_wait) \
	our_lock(tag, mode, session, no_wait)
#define GetLockStatusData() our_lock_data()
#undef lock_is_recovered
#undef lock_recovered_xid
#define lock_is_recovered(lock) ((lock)->pid == 0)
#define lock_recovered_xid(lock) ((TransactionId) (lock)->leaderPid)
#define GetNamedLWLockTranche(name) locks
#define LWLockAcquire(lock, mode) our_acquire(lock, mode)
#define LWLockRelease(lock) our_release(lock)
#define pg_atomic_fetch_add_u64(atomic, count) our_draw(atomic)

#include "../../src/mark.c"

#undef max_prepared_xacts

/* --- What is below it ------------------------------------------------------------- */

static const Layout layout = {.epoch = INT64CONST(700000000000000),
							  .tick_us = 1000,
							  .first_tick = PG_INT64_MIN / 2000,
							  .last_tick = PG_INT64_MAX / 2000};

const Layout *
settings_layout(void)
{
	return &layout;
}

const Layout *
server_layout(void)
{
	return &layout;
}

bool
layout_tick_of_time(const Layout *of, TimestampTz time, int64 *tick)
{
	CHECK(of == &layout);
	*tick = (time - layout.epoch) / layout.tick_us;
	return !has_other_layout;
}

void
horizon_begin_present_tick(void)
{
	(void) bounds_raise(&bounds->latest, present);
}
