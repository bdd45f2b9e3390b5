/*-------------------------------------------------------------------------
 *
 * horizon_system.h
 *	  The process that horizon.c runs in, for horizon_cases.c and horizon_sessions_cases.c:
 *	  its clocks, memory, locks, transactions, signals and waits.
 *
 * Time passes only where it waits or writes.  What the worker must not do at a point is a
 * PROMISE there.  One that is broken is not an error at once, as the worker takes errors for
 * trouble: see check_promises().
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include "access/xact.h"
#include "access/xloginsert.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "../../src/server.h"
#include "cases.h"

/* --- Promises ---------------------------------------------------------------- */

static char broken[200]; /* the first promise that was */

#define PROMISE(condition)                                                \
	do                                                                    \
	{                                                                     \
		tried++;                                                          \
		if (!(condition) && broken[0] == '\0')                            \
			snprintf(broken, sizeof(broken), "line %d: %s: %s", __LINE__, \
					 #condition, what_is_tried);                          \
	} while (0)

static void
check_promises(void)
{
	if (broken[0] != '\0')
		elog(ERROR, "promise of %s", broken);
}

/* --- Time -------------------------------------------------------------------- */

static TimestampTz wall_us; /* the clock that can be set */
static int64	   steady_us;

static void
pass(int64 us)
{
	wall_us += us;
	steady_us += us;
}

int64
steady_clock_us(void)
{
	return steady_us;
}

/* --- Leaving the worker -------------------------------------------------------- */

static sigjmp_buf *way_out;
static int		   exit_code;
static void (*at_worker_exit)(void);

static void
our_exit(int code)
{
	exit_code = code;
	siglongjmp(*way_out, 1);
}

/* It would go on for ever. */
static void
stop_after(int *count, int most)
{
	if (++*count <= most)
		return;
	*count = 0;
	PROMISE(false && "it goes on for ever");
	if (way_out)
		our_exit(-1);
	check_promises();
}

/* --- Memory and locks ----------------------------------------------------------- */

static bool			under_postmaster;
static bool			is_there; /* shared memory, from an earlier process */
static char			memory[4096];
static LWLockPadded locks[8];
static LWLock	   *held;
static LWLockMode	held_mode;
static int			locks_taken;
static void (*at_exit)(int code, Datum arg);

static void look_at_view(LWLockMode mode, bool is_release);

static void
our_acquire(LWLock *lock, LWLockMode mode)
{
	stop_after(&locks_taken, 1000000);
	PROMISE(held == NULL);
	held = lock;
	held_mode = mode;
	look_at_view(mode, false);
}

static void
our_release(LWLock *lock)
{
	PROMISE(held == lock && lock == &locks[HORIZON_LOCK].lock);
	look_at_view(held_mode, true);
	held = NULL;
}

/* --- The server that the worker is a process of ------------------------------------ */

static bool	 in_transaction;
static bool	 in_insertion; /* of WAL */
static bool	 is_running;   /* as pg_stat_activity shows */
static int	 stats_sent;
static bool	 is_latch_set;
static bool	 wants_interrupt;
static bool	 wants_exit;
static bool	 wants_reload;
static int	 reloads;
static int	 sleeps;
static int	 naps;		   /* a loop that does not sleep */
static int64 poll_from_us; /* since then it waits for a standby */
static void (*when_idle)(void);
static void (*when_polled)(void);

/* It may leave another memory context than there was. */
static void
our_transaction(bool from, bool to)
{
	PROMISE(in_transaction == from);
	PROMISE(held == NULL);
	in_transaction = to;
	MemoryContextSwitchTo(TopMemoryContext);
}

static void
our_abort(void)
{
	PROMISE(CurrentMemoryContext != ErrorContext);
	in_transaction = false;
	MemoryContextSwitchTo(TopMemoryContext);
}

static ErrorData *
our_copy_error(void)
{
	PROMISE(CurrentMemoryContext != ErrorContext);
	return CopyErrorData();
}

static void
our_interrupts(void)
{
	PROMISE(held == NULL);
	if (!wants_interrupt)
		return;
	wants_interrupt = false;
	elog(ERROR, "interrupted");
}

static void
our_reload(GucContext context)
{
	PROMISE(context == PGC_SIGHUP);
	PROMISE(!wants_reload); /* or one that comes meanwhile is lost */
	reloads++;
}

static void
our_wait_latch(int events, long timeout_ms)
{
	int64 waited_ms = (steady_us - poll_from_us) / 1000;

	stop_after(&naps, 100000);
	PROMISE(held == NULL && !in_transaction);
	PROMISE(events & WL_LATCH_SET && events & WL_EXIT_ON_PM_DEATH);
	PROMISE(((events & WL_TIMEOUT) != 0) == (timeout_ms >= 0));
	if (timeout_ms < 0 && !is_latch_set)
	{
		PROMISE(!is_running);
		naps = 0;
		when_idle();
		return;
	}
	if (timeout_ms < 0)
		return;

	/* the first one looks soon, then an eighth later than it had to */
	PROMISE(is_running);
	PROMISE(timeout_ms >= 1 && timeout_ms <= 100);
	PROMISE(timeout_ms == 1 || timeout_ms <= waited_ms / 8);
	PROMISE(timeout_ms == 100 || timeout_ms >= waited_ms / 8);
	if (!is_latch_set)
	{
		pass(timeout_ms * 1000);
		naps = 0;
	}
	if (when_polled)
		when_polled();
}

static void
our_usleep(int64 us)
{
	PROMISE(held == NULL && !is_running);
	PROMISE(us == 100 * 1000);
	pass(us);
	sleeps++;
}

#define GetCurrentTimestamp() wall_us
#define IsUnderPostmaster under_postmaster
#define GetNamedLWLockTranche(name) locks
#define ShmemInitStruct(name, size, found) \
	(*(found) = is_there, (void *) memory)
#define LWLockAcquire(lock, mode) our_acquire(lock, mode)
#define LWLockRelease(lock) our_release(lock)
#define LWLockReleaseAll() (held = NULL)
#define on_shmem_exit(function, arg) (at_exit = (function))
#define proc_exit(code) our_exit(code)
#define StartTransactionCommand() our_transaction(false, true)
#define CommitTransactionCommand() our_transaction(true, false)
#define AbortCurrentTransaction() our_abort()
#define XLogResetInsertion() (in_insertion = false)
#define CopyErrorData() our_copy_error()
#define pgstat_report_activity(activity, text) \
	(is_running = (activity) == STATE_RUNNING)
#define pgstat_report_stat(force) (stats_sent += (force))
#define WaitLatch(latch, events, timeout_ms, event) \
	our_wait_latch(events, timeout_ms)
#define ResetLatch(latch) (is_latch_set = false)
#define pg_usleep(us) our_usleep(us)
#define ProcessConfigFile(context) our_reload(context)
#define ShutdownRequestPending wants_exit
#define ConfigReloadPending wants_reload
#undef CHECK_FOR_INTERRUPTS
#define CHECK_FOR_INTERRUPTS() our_interrupts()

#include "../../src/layout.c"
#include "../../src/layout_text.c"
#include "../../src/positions.h"

/* --- The bounds ------------------------------------------------------------------- */

static Bounds all_bounds;
Bounds		 *bounds = &all_bounds;

static int64
bound_of(pg_atomic_uint64 *bound)
{
	return (int64) pg_atomic_read_u64(bound);
}

/*
 * What others rely on while the horizon is opened.  Who finds a clock behind the latest
 * tick says of what by the found horizon; and who finds a tick to renew at raises the
 * latest tick from there.
 */
static int64
our_raise(pg_atomic_uint64 *bound, int64 tick)
{
	if (!bounds_are_known() && is_running)
	{
		PROMISE(bound != &bounds->latest ||
				bound_of(&bounds->found_horizon) == tick);
		PROMISE(bound != &bounds->renew || bound_of(&bounds->latest) >= tick);
	}
	return bounds_raise(bound, tick);
}

static int barriers;

static void
our_write_barrier(void)
{
	barriers++;
	PROMISE(!bounds_are_known());
	PROMISE(bound_of(&bounds->renew) == bound_of(&bounds->found_horizon));
}

#define bounds_raise(bound, tick) our_raise(bound, tick)
#undef pg_write_barrier
#define pg_write_barrier() our_write_barrier()

#include "../../src/horizon.c"

StaticAssertDecl(sizeof(HorizonState) <= sizeof(memory),
				 "there is room for its shared memory");

/* It is changed under the lock, and under one that excludes others. */
static HorizonView seen;

static void
look_at_view(LWLockMode mode, bool is_release)
{
	if (held != &locks[HORIZON_LOCK].lock)
		return;
	PROMISE(memcmp(&seen, &state->view, sizeof(seen)) == 0 ||
			(is_release && mode == LW_EXCLUSIVE));
	memcpy(&seen, &state->view, sizeof(seen));
}
