/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  The one place that waits.
 *
 * Every wait of a backend goes through here, so that every one of them holds
 * no lock, sleeps, shows what it waits for in pg_stat_activity, and ends when
 * the query is cancelled or the server goes away.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/latch.h"

#include "compat.h"
#include "wait.h"

#define US_PER_MS INT64CONST(1000)

/* The server's waits count whole milliseconds; shorter ones sleep. */
#define LATCH_WAIT_US (2 * US_PER_MS)

/* Microseconds by a clock that nobody can set. */
int64
steady_clock_us(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

/*
 * Wait for so long, or until the condition variable is signalled, if one is
 * given, or until something else calls for attention: callers look again at
 * what they wait for.  Returns the time that passed, in microseconds, by a
 * clock that nobody can set.
 *
 * A short sleep answers an interrupt when it ends, or when a signal ends it.
 */
int64
wait_outside_locks(int64 us, uint32 wait_event, ConditionVariable *condition)
{
	instr_time start;
	instr_time elapsed;

	CHECK_FOR_INTERRUPTS();
	INSTR_TIME_SET_CURRENT(start);
	if (condition != NULL)
		(void) ConditionVariableTimedSleep(condition, us / US_PER_MS,
										   wait_event);
	else if (us >= LATCH_WAIT_US)
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 us / US_PER_MS, wait_event);
		ResetLatch(MyLatch);
	}
	else
	{
		pgstat_report_wait_start(wait_event);
		pg_usleep(us);
		pgstat_report_wait_end();
	}
	CHECK_FOR_INTERRUPTS();
	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, start);
	return INSTR_TIME_GET_MICROSEC(elapsed);
}
