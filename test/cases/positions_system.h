/*-------------------------------------------------------------------------
 *
 * positions_system.h
 *	  What is below positions.c, for positions_cases.c: memory, locks, barriers, a clock and
 *	  the settings.  Other processes run at barriers.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "cases.h"
#include "spinlocks.h"

/* --- The system ----------------------------------------------------------- */

/* Room for eight shards, wherever it begins, and for what is not ours behind it. */
#define ROOM (14 * PG_CACHE_LINE_SIZE)

static char		   *memory;
static char			fill;	  /* what it has at first */
static bool			is_there; /* from an earlier process */
static LWLockPadded locks[8];
static LWLock	   *held;
static LWLockMode	held_mode;
static int			takes[2]; /* of END_LOCK, by mode */
static TimestampTz	now;

/* What other processes do while this one is at a barrier, or while it asks for the time. */
static void (*meanwhile)(void);
static void (*before_time)(void);

static void
let_others_run(void (**others)(void))
{
	void (*run)(void) = *others;

	*others = NULL;
	if (run)
		run();
}

static TimestampTz
our_time(void)
{
	let_others_run(&before_time);
	return now;
}

static void *
our_struct(bool *found)
{
	*found = is_there;
	return memory;
}

static void
our_acquire(LWLock *lock, LWLockMode mode)
{
	CHECK(held == NULL);
	held = lock;
	held_mode = mode;
	takes[mode]++;
}

static void
our_release(LWLock *lock)
{
	CHECK(held == lock);
	held = NULL;
}

static void
our_exchange_meets(uint64 expected, uint64 new)
{
	/* who raises nothing leaves the cache line to others */
	CHECK((int64) expected < (int64) new);
	let_others_run(&meanwhile);
}

#define GetCurrentTimestamp() our_time()
#define GetNamedLWLockTranche(name) locks
#define ShmemInitStruct(name, size, found) our_struct(found)
#define LWLockAcquire(lock, mode) our_acquire(lock, mode)
#define LWLockRelease(lock) our_release(lock)
#define LWLockHeldByMeInMode(lock, mode) \
	(held == (lock) && held_mode == (mode))
#undef pg_read_barrier
#undef pg_memory_barrier
#define pg_read_barrier() let_others_run(&meanwhile)
#define pg_memory_barrier() let_others_run(&meanwhile)
#define pg_atomic_compare_exchange_u64(atomic, expected, new) \
	(our_exchange_meets(*(expected), new),                    \
	 pg_atomic_compare_exchange_u64(atomic, expected, new))

#include "../../src/errors.c"
#include "../../src/layout.c"
#include "../../src/layout_text.c"
#include "../../src/positions.c"

/* --- What is below it ------------------------------------------------------ */

static Layout		   layout;
static bool			   wants_leases;
static bool			   may_log;
int					   settings_clock_tolerance_ms;
static const OwnShards asked;
static const OwnShards leased;
const OwnShards		  *settings_asked_shards = &asked;

const Layout *
settings_layout(void)
{
	return &layout;
}

bool
settings_want_leases(void)
{
	return wants_leases;
}

bool
may_log_now(pg_atomic_uint64 *after, int64 interval_us)
{
	CHECK(after == &positions->log_clock_after);
	CHECK(interval_us == 10 * USECS_PER_SEC);
	return may_log;
}
