/*-------------------------------------------------------------------------
 *
 * marks.c
 *	  Waiting for the mark of snowflake_settled().
 *
 * Waiting is looking again, each time with a new snapshot.  So commits pay nothing
 * for those that wait, and those that wait hold no lock.
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "generator.h"
#include "settled.h"
#include "wait.h"

PG_FUNCTION_INFO_V1(snowflake_wait_settled);

/* A mark is mostly passed within a tick or two; then there is no hurry. */
#define FIRST_PAUSE_US INT64CONST(1000)
#define LAST_PAUSE_US INT64CONST(50000)

/* Who waits for longer makes a mistake, or means "for ever". */
#define LONGEST_WAIT_US (USECS_PER_DAY * 365)

/* The mark as a statement that began now would have it. */
static int64
present_mark(void)
{
	FmgrInfo function = {.fn_addr = snowflake_settled,
						 .fn_mcxt = CurrentMemoryContext,
						 .fn_strict = true};
	LOCAL_FCINFO(call, 0);
	int64 mark;

	InitFunctionCallInfoData(*call, &function, 0, InvalidOid, NULL, NULL);
	PushActiveSnapshot(GetTransactionSnapshot());
	mark = DatumGetInt64(FunctionCallInvoke(call));
	PopActiveSnapshot();
	return mark;
}

/* Infinite ones, which the majors write differently, are very long here. */
static int64
wait_us(const Interval *timeout)
{
	double us = (double) timeout->time +
				(double) timeout->day * USECS_PER_DAY +
				(double) timeout->month * DAYS_PER_MONTH * USECS_PER_DAY;

	return (int64) Max(0.0, Min(us, (double) LONGEST_WAIT_US));
}

/* What would wait in vain fails at once. */
static void
check_can_see_end(void)
{
	if (IsolationUsesXactSnapshot())
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
			 errmsg(
				 "cannot wait for ids to be settled in a transaction with one snapshot"),
			 errdetail(
				 "The isolation level is \"%s\", and its snapshot sees nothing that commits later.",
				 GetConfigOption("transaction_isolation", false, false)),
			 errhint("Wait with isolation level \"read committed\".")));
	if (generator_my_held_tick() != GENERATOR_NO_TICK)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
			 errmsg(
				 "cannot wait for ids to be settled in a transaction that has minted"),
			 errdetail("The mark stays at its first id until it ends."),
			 errhint("Wait after COMMIT.")));
}

/* snowflake_wait_settled(after, timeout): was the id settled in time? */
Datum
snowflake_wait_settled(PG_FUNCTION_ARGS)
{
	static uint32 wait_event = 0;
	int64		  after = PG_GETARG_INT64(0);
	int64 end_us = steady_clock_us() + wait_us(PG_GETARG_INTERVAL_P(1));
	int64 pause_us = FIRST_PAUSE_US;

	if (wait_event == 0)
		wait_event = named_wait_event("SnowflakeSettled");
	while (present_mark() <= after)
	{
		int64 left_us = end_us - steady_clock_us();

		check_can_see_end();
		if (left_us <= 0)
			PG_RETURN_BOOL(false);
		(void) wait_outside_locks(Min(pause_us, left_us), wait_event, NULL);
		pause_us = Min(pause_us * 3 / 2, LAST_PAUSE_US);
	}
	PG_RETURN_BOOL(true);
}
