/*
 * steps.h -- the steps of the code: each call of src by which processes meet
 *
 * These are shared memory, locks, latches, the clock, files and the WAL.  In their
 * place stand macros that perturb.h, which pauses there, and schedule.h, which hands
 * the turn on there, define each in its own way, and then include this file.
 */
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#define pg_atomic_read_u32(pointer) STEP_READ(u32, pointer)
#define pg_atomic_read_u64(pointer) STEP_READ(u64, pointer)
#define pg_atomic_write_u32(pointer, value) STEP_WRITE(u32, pointer, value)
#define pg_atomic_write_u64(pointer, value) STEP_WRITE(u64, pointer, value)
#define pg_atomic_exchange_u32(pointer, value) \
	STEP_EXCHANGE(u32, pointer, value)
#define pg_atomic_exchange_u64(pointer, value) \
	STEP_EXCHANGE(u64, pointer, value)
#define pg_atomic_fetch_add_u32(pointer, value) STEP_ADD(u32, pointer, value)
#define pg_atomic_fetch_add_u64(pointer, value) STEP_ADD(u64, pointer, value)
#define pg_atomic_compare_exchange_u64(pointer, expected, value) \
	STEP_COMPARE(u64, pointer, expected, value)

#undef pg_read_barrier
#undef pg_write_barrier
#undef pg_memory_barrier
#define pg_read_barrier() STEP_BARRIER(pg_read_barrier_impl())
#define pg_write_barrier() STEP_BARRIER(pg_write_barrier_impl())
#define pg_memory_barrier() STEP_FULL_BARRIER(pg_memory_barrier_impl())

#undef SpinLockAcquire
#undef SpinLockRelease
#define SpinLockAcquire(lock) STEP_SPIN_ACQUIRE(lock)
#define SpinLockRelease(lock) STEP_SPIN_RELEASE(lock)

#define LWLockAcquire(lock, mode) STEP_LOCK(lock, mode)
#define LWLockRelease(lock) STEP_UNLOCK(lock)
#define LWLockReleaseAll() STEP_UNLOCK_ALL()

#define SetLatch(latch) STEP_SET_LATCH(latch)
#define ResetLatch(latch) STEP_RESET_LATCH(latch)
#define WaitLatch(latch, events, ms, name) \
	STEP_WAIT_LATCH(latch, events, ms, name)
#define ConditionVariableBroadcast(condition) STEP_BROADCAST(condition)
#define ConditionVariablePrepareToSleep(condition) \
	STEP_PREPARE_TO_SLEEP(condition)
#define ConditionVariableTimedSleep(condition, ms, name) \
	STEP_TIMED_SLEEP(condition, ms, name)
#define pg_usleep(us) STEP_SLEEP(us)

#define GetCurrentTimestamp() STEP_CLOCK()

#define ReadNextFullTransactionId() \
	STEP_ASK_SERVER((ReadNextFullTransactionId) ())
#define TransactionIdIsInProgress(xid) \
	STEP_ASK_SERVER((TransactionIdIsInProgress) (xid))

#define rename(...) STEP_STORE(int, (rename) (__VA_ARGS__))
#define write(...) STEP_STORE(ssize_t, (write) (__VA_ARGS__))
#define fsync_fname_ext(...) STEP_STORE(int, (fsync_fname_ext) (__VA_ARGS__))
#define OpenTransientFile(...) \
	STEP_STORE(int, (OpenTransientFile) (__VA_ARGS__))
#define log_newpage(...) STEP_STORE(XLogRecPtr, (log_newpage) (__VA_ARGS__))
#define XLogFlush(...) STEP_FLUSH((XLogFlush) (__VA_ARGS__))
