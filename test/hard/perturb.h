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

#define pg_atomic_read_u32(...) \
	PERTURB_BEFORE((pg_atomic_read_u32) (__VA_ARGS__))
#define pg_atomic_read_u64(...) \
	PERTURB_BEFORE((pg_atomic_read_u64) (__VA_ARGS__))
#define pg_atomic_write_u32(...) \
	PERTURB_AROUND((pg_atomic_write_u32) (__VA_ARGS__))
#define pg_atomic_write_u64(...) \
	PERTURB_AROUND((pg_atomic_write_u64) (__VA_ARGS__))
#define pg_atomic_exchange_u32(...) \
	PERTURB_BEFORE((pg_atomic_exchange_u32) (__VA_ARGS__))
#define pg_atomic_exchange_u64(...) \
	PERTURB_BEFORE((pg_atomic_exchange_u64) (__VA_ARGS__))
#define pg_atomic_fetch_add_u32(...) \
	PERTURB_AFTER(uint32, (pg_atomic_fetch_add_u32) (__VA_ARGS__))
#define pg_atomic_fetch_add_u64(...) \
	PERTURB_AFTER(uint64, (pg_atomic_fetch_add_u64) (__VA_ARGS__))
#define pg_atomic_compare_exchange_u64(...) \
	PERTURB_AFTER(bool, (pg_atomic_compare_exchange_u64) (__VA_ARGS__))

#undef pg_read_barrier
#undef pg_write_barrier
#undef pg_memory_barrier
#define pg_read_barrier() PERTURB_BEFORE(pg_read_barrier_impl())
#define pg_write_barrier() PERTURB_BEFORE(pg_write_barrier_impl())
#define pg_memory_barrier() PERTURB_AROUND(pg_memory_barrier_impl())

static inline void
perturb_spin_acquire(volatile slock_t *lock)
{
	SpinLockAcquire(lock);
	perturb_spins++;
}

static inline void
perturb_spin_release(volatile slock_t *lock)
{
	perturb_spins--;
	SpinLockRelease(lock);
}

#undef SpinLockAcquire
#undef SpinLockRelease
#define SpinLockAcquire(lock) PERTURB_AROUND(perturb_spin_acquire(lock))
#define SpinLockRelease(lock) PERTURB_AROUND(perturb_spin_release(lock))

#define LWLockAcquire(...) PERTURB_AROUND((LWLockAcquire) (__VA_ARGS__))
#define LWLockRelease(...) PERTURB_AROUND((LWLockRelease) (__VA_ARGS__))
#define SetLatch(...) PERTURB_AROUND((SetLatch) (__VA_ARGS__))
#define ResetLatch(...) PERTURB_AROUND((ResetLatch) (__VA_ARGS__))
#define WaitLatch(...) PERTURB_AFTER(int, (WaitLatch) (__VA_ARGS__))
#define ConditionVariableBroadcast(...) \
	PERTURB_AROUND((ConditionVariableBroadcast) (__VA_ARGS__))
#define ConditionVariablePrepareToSleep(...) \
	PERTURB_AROUND((ConditionVariablePrepareToSleep) (__VA_ARGS__))
#define ConditionVariableTimedSleep(...) \
	PERTURB_AFTER(bool, (ConditionVariableTimedSleep) (__VA_ARGS__))

#define GetCurrentTimestamp() \
	PERTURB_AFTER(TimestampTz, (GetCurrentTimestamp) ())

#define rename(...) PERTURB_AFTER(int, (rename) (__VA_ARGS__))
#define write(...) PERTURB_AFTER(ssize_t, (write) (__VA_ARGS__))
#define fsync_fname_ext(...) \
	PERTURB_AFTER(int, (fsync_fname_ext) (__VA_ARGS__))
#define OpenTransientFile(...) \
	PERTURB_AFTER(int, (OpenTransientFile) (__VA_ARGS__))
#define log_newpage(...) PERTURB_AFTER(XLogRecPtr, (log_newpage) (__VA_ARGS__))
#define XLogFlush(...) PERTURB_AROUND((XLogFlush) (__VA_ARGS__))
