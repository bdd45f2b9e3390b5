/*-------------------------------------------------------------------------
 *
 * noop.c
 *	  What the benchmark needs in C: nothing, the limit, and a stopwatch.
 *
 * noop() is the price of calling any C function from SQL.  What a function
 * costs is what a statement takes with it, less what the same statement takes
 * with noop().
 *
 * clock_and_lock() is what no function can be faster than that gives out times
 * which are unique: one reading of the clock, and one locked exchange on a
 * cache line that nobody else wants.
 *
 * call_latencies() calls a function for so long, and looks at the clock before
 * and after each call.  A statement's own time would tell the mean, but the
 * rare long call is of interest: one that had to wait.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(noop);
PG_FUNCTION_INFO_V1(clock_and_lock);
PG_FUNCTION_INFO_V1(call_latencies);

#define NS_PER_S INT64CONST(1000000000)
#define NS_PER_MS INT64CONST(1000000)

/*
 * Latencies are counted in buckets that are a 32nd of their value wide, so
 * that a percentile is known to 3%.
 */
#define STEP_BITS 5
#define BUCKETS (64 << STEP_BITS)

typedef struct Bucket
{
	int64 calls;
	int64 longest;
} Bucket;

Datum
noop(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(0);
}

Datum
clock_and_lock(PG_FUNCTION_ARGS)
{
	static union
	{
		pg_atomic_uint64 word;
		char			 padding[2 * PG_CACHE_LINE_SIZE];
	} line;

	PG_RETURN_INT64(
		(int64) pg_atomic_exchange_u64(&line.word,
									   (uint64) GetCurrentTimestamp()));
}

static int64
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Up to 2^STEP_BITS each value has a bucket of its own. */
static int
bucket_of(int64 ns)
{
	int shift;

	if (ns >> STEP_BITS == 0)
		return (int) ns;
	shift = pg_leftmost_one_pos64((uint64) ns) - STEP_BITS;
	return (shift << STEP_BITS) + (int) (ns >> shift);
}

/*
 * call_latencies(function regprocedure, argument bigint, milliseconds int):
 * rows of a latency in nanoseconds and how many calls had it, or one that is
 * less by 3% at most.  A function without arguments does not get the argument.
 */
Datum
call_latencies(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			   function = PG_GETARG_OID(0);
	int64		   end = now_ns() + PG_GETARG_INT32(2) * NS_PER_MS;
	Bucket		  *buckets = palloc0(BUCKETS * sizeof(Bucket));
	FmgrInfo	   flinfo;
	int			   arguments = get_func_nargs(function);
	int64		   began;
	int64		   ended;
	LOCAL_FCINFO(call, 1);

	InitMaterializedSRF(fcinfo, 0);
	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*call, &flinfo, arguments, InvalidOid, NULL,
							 NULL);
	call->args[0].value = PG_GETARG_DATUM(1);
	call->args[0].isnull = false;
	do
	{
		Bucket *bucket;

		CHECK_FOR_INTERRUPTS();
		call->isnull = false;
		began = now_ns();
		(void) FunctionCallInvoke(call);
		ended = now_ns();
		bucket = &buckets[bucket_of(ended - began)];
		bucket->calls++;
		bucket->longest = Max(bucket->longest, ended - began);
	} while (ended < end);

	for (int i = 0; i < BUCKETS; i++)
	{
		Datum values[2];
		bool  nulls[2] = {false};

		if (buckets[i].calls == 0)
			continue;
		values[0] = Int64GetDatum(buckets[i].longest);
		values[1] = Int64GetDatum(buckets[i].calls);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}
