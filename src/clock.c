/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  A clock that nobody can set, and waiting.
 *
 * Every wait of a session goes through here, so that every one of them holds
 * no lock, sleeps, shows what it waits for in pg_stat_activity, and ends when
 * the query is cancelled or the server goes away.  There is no state here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"

#include "clock.h"
#include "compat.h"

/* The server's waits count whole milliseconds; shorter ones sleep. */
#define LATCH_WAIT_MS 2

/*
 * All processes compare what they read here.  So it is not the server's instr_time: from
 * PostgreSQL 19 on, each session chooses by timing_clock_source what that counts.
 */
int64
steady_clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

/*
 * Is a line due that is logged at most once an interval, by all processes that
 * share "after"?  0 is due at once.
 */
bool
may_log_now(pg_atomic_uint64 *after, int64 interval_us)
{
	uint64 now_us = steady_clock_us();
	uint64 due_us = pg_atomic_read_u64(after);

	return now_us >= due_us &&
		   pg_atomic_compare_exchange_u64(after, &due_us,
										  now_us + interval_us);
}

/*
 * Wait for so long, or until the condition variable is signalled, if one is
 * given, or until something else calls for attention: callers look again at
 * what they wait for.  Returns the time that passed.  A sleep too short for the
 * server's waits answers an interrupt when it ends.
 */
int64
wait_outside_locks(int64 us, WaitName *event, ConditionVariable *condition)
{
	int64 ms = us / 1000;
	int64 began_us;

	if (event->number == 0)
		event->number = named_wait_event(event->name);
	CHECK_FOR_INTERRUPTS();
	began_us = steady_clock_us();
	if (condition != NULL)
		(void) ConditionVariableTimedSleep(condition, ms, event->number);
	else if (ms >= LATCH_WAIT_MS)
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
						 event->number);
		ResetLatch(MyLatch);
	}
	else
	{
		pgstat_report_wait_start(event->number);
		pg_usleep(us);
		pgstat_report_wait_end();
	}
	CHECK_FOR_INTERRUPTS();
	return steady_clock_us() - began_us;
}
