/*
 * perturb.h -- pauses between our steps, so that rare orders of them are common
 *
 * test/step.sh has it included before each source file.  Each step on shared memory,
 * locks, latches, files and the clock may pause before or after: give the processor
 * away, or sleep for up to some milliseconds.  A place pauses often when a process
 * comes there first, and seldom where it comes a thousand times.  Under a spinlock it
 * gives the processor away and no more.
 *
 * SNOWFLAKE_SEED seeds what is random, read once by each process; two processes
 * that are started in the same order pause alike.
 */
#include "postgres.h"

#include <sched.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

static int	  perturb_spins = 0; /* spinlocks that this process holds */
static uint64 perturb_state = 0;
static int	  perturb_pid = 0;

static pg_attribute_unused() uint64 perturb_random(void)
{
	if (perturb_pid != MyProcPid)
	{
		const char *seed = getenv("SNOWFLAKE_SEED");

		perturb_pid = MyProcPid;
		perturb_state = ((seed ? strtoul(seed, NULL, 10) : 0) << 32) +
						(uint32) (MyProcPid - PostmasterPid) + 1;
		perturb_state *= UINT64CONST(0x9E3779B97F4A7C15);
	}
	perturb_state ^= perturb_state << 13;
	perturb_state ^= perturb_state >> 7;
	perturb_state ^= perturb_state << 17;
	return perturb_state >> 11;
}

static pg_attribute_unused() void perturb_pause(uint32 *passes)
{
	int saved = errno;

	*passes += *passes < 2000;
	if (perturb_random() % (1 + *passes / 4) != 0)
		return;
	if (perturb_spins > 0 || perturb_random() % 2 == 0)
		sched_yield();
	else
		usleep(perturb_random() % 8 == 0 ? perturb_random() % 4000 :
										   perturb_random() % 200);
	errno = saved;
}

/* Where it stands, so often was it passed. */
#define PERTURB()                 \
	({                            \
		static uint32 passes = 0; \
		perturb_pause(&passes);   \
	})
#define PERTURB_BEFORE(call) \
	({                       \
		PERTURB();           \
		call;                \
	})
#define PERTURB_AFTER(type, call) \
	({                            \
		type result = call;       \
		PERTURB();                \
		result;                   \
	})
#define PERTURB_AROUND(call) \
	({                       \
		PERTURB();           \
		call;                \
		PERTURB();           \
	})

static inline void
perturb_spin_acquire(volatile slock_t *lock)
{
	SpinLockAcquire(lock);
	perturb_spins++;
}

static inline void
perturb_spin_release(volatile slock_t *lock)
{
	if (perturb_spins != 1)
		elog(PANIC, "%d spinlocks are held where one is released",
			 perturb_spins);
	perturb_spins--;
	SpinLockRelease(lock);
}

/* The steps: see steps.h. */
#define STEP_READ(kind, pointer) \
	PERTURB_BEFORE((pg_atomic_read_##kind)(pointer))
#define STEP_WRITE(kind, pointer, value) \
	PERTURB_AROUND((pg_atomic_write_##kind)(pointer, value))
#define STEP_EXCHANGE(kind, pointer, value) \
	PERTURB_BEFORE((pg_atomic_exchange_##kind)(pointer, value))
#define STEP_ADD(kind, pointer, value) \
	PERTURB_AFTER(uint64, (pg_atomic_fetch_add_##kind)(pointer, value))
#define STEP_COMPARE(kind, pointer, expected, value)                 \
	PERTURB_AFTER(bool, (pg_atomic_compare_exchange_##kind)(pointer, \
															expected, value))
#define STEP_BARRIER(call) PERTURB_BEFORE(call)
#define STEP_FULL_BARRIER(call) PERTURB_AROUND(call)
#define STEP_SPIN_ACQUIRE(lock) PERTURB_AROUND(perturb_spin_acquire(lock))
#define STEP_SPIN_RELEASE(lock) PERTURB_AROUND(perturb_spin_release(lock))
#define STEP_LOCK(lock, mode) PERTURB_AROUND((LWLockAcquire) (lock, mode))
#define STEP_UNLOCK(lock) PERTURB_AROUND((LWLockRelease) (lock))
#define STEP_UNLOCK_ALL() (LWLockReleaseAll)()
#define STEP_SET_LATCH(latch) PERTURB_AROUND((SetLatch) (latch))
#define STEP_RESET_LATCH(latch) PERTURB_AROUND((ResetLatch) (latch))
#define STEP_WAIT_LATCH(latch, events, ms, name) \
	PERTURB_AFTER(int, (WaitLatch) (latch, events, ms, name))
#define STEP_BROADCAST(condition) \
	PERTURB_AROUND((ConditionVariableBroadcast) (condition))
#define STEP_PREPARE_TO_SLEEP(condition) \
	PERTURB_AROUND((ConditionVariablePrepareToSleep) (condition))
#define STEP_TIMED_SLEEP(condition, ms, name) \
	PERTURB_AFTER(bool, (ConditionVariableTimedSleep) (condition, ms, name))
#define STEP_SLEEP(us) (pg_usleep)(us)
#define STEP_CLOCK() PERTURB_AFTER(TimestampTz, (GetCurrentTimestamp) ())
#define STEP_ASK_SERVER(call) call
#define STEP_STORE(type, call) PERTURB_AFTER(type, call)
#define STEP_FLUSH(call) PERTURB_AROUND(call)

#include "steps.h"
