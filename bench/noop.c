/*-------------------------------------------------------------------------
 *
 * noop.c
 *	  What the benchmark needs in C: nothing, and a stopwatch.
 *
 * noop() is the price of calling any C function from SQL.  What a function
 * costs is what a statement takes with it, less what the same statement takes
 * with noop().
 *
 * call_latencies() calls a function that takes no argument so many times, and
 * looks at the clock before and after each call.  A statement's own time would
 * tell the mean, but the rare long call is of interest: one that had to wait.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/array.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(noop);
PG_FUNCTION_INFO_V1(call_latencies);

Datum
noop(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(0);
}

/*
 * call_latencies(function regprocedure, calls int): how long each call took,
 * in nanoseconds.
 */
Datum
call_latencies(PG_FUNCTION_ARGS)
{
	Oid		 function = PG_GETARG_OID(0);
	int32	 calls = PG_GETARG_INT32(1);
	Datum	*elapsed = palloc_array(Datum, calls);
	FmgrInfo flinfo;

	LOCAL_FCINFO(call, 0);

	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*call, &flinfo, 0, InvalidOid, NULL, NULL);
	for (int32 i = 0; i < calls; i++)
	{
		instr_time began;
		instr_time ended;

		CHECK_FOR_INTERRUPTS();
		INSTR_TIME_SET_CURRENT(began);
		call->isnull = false;
		(void) FunctionCallInvoke(call);
		INSTR_TIME_SET_CURRENT(ended);
		INSTR_TIME_SUBTRACT(ended, began);
		elapsed[i] =
			Int32GetDatum((int32) Min(INSTR_TIME_GET_DOUBLE(ended) * 1e9,
									  (double) PG_INT32_MAX));
	}
	PG_RETURN_ARRAYTYPE_P(
		construct_array(elapsed, calls, INT4OID, sizeof(int32), true, 'i'));
}
