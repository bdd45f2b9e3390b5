/*-------------------------------------------------------------------------
 *
 * history.c
 *	  Ids for rows that exist: the window function snowflake_history().
 *
 * It applies the minting rule of mint.c to the past: the next position is the
 * first one of the row's tick, or the one after the last row's, whichever is
 * greater.  So each id has the time of its row, or, if that tick is exhausted, of
 * the next tick with room.  The ids of a window partition strictly increase, and
 * the same rows in the same order get the same ids.
 *
 * Nothing is remembered after the statement.  Ids are unique because nobody else
 * mints on the shard.  So with a registry a shard has to be reserved there.
 * Without one, a shard that this server mints on is refused.  So is a shard in two
 * window partitions of a statement, because each begins with no position.
 *
 * All state is in memory of one running statement: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"
#include "windowapi.h"

#include "errors.h"
#include "positions.h"
#include "server.h"

PG_FUNCTION_INFO_V1(snowflake_history);

/* The arguments, by number. */
#define ARG_CREATED_AT 0
#define ARG_SHARD 1
#define ARG_LAYOUT 2

/* Of one call in a statement, for as long as it runs. */
typedef struct HistoryCall
{
	Layout		layout;
	HTAB	   *shards;	  /* those of the window partitions so far */
	TimestampTz now;	  /* the clock, as it was when last read */
	int64		now_tick; /* the last one that has begun then */
} HistoryCall;

/* Of one window partition; the server zeroes it at each partition's start. */
typedef struct HistoryPartition
{
	bool		is_begun;
	int32		shard;
	TimestampTz created_at; /* of the last row */
	int64		position;	/* of the last row's id */
} HistoryPartition;

/* --- Arguments ---------------------------------------------------------- */

/* An argument for the current row, which must not be NULL. */
static Datum
argument(WindowObject window, int number)
{
	static const char *const names[] = {"created_at", "shard", "layout"};
	bool					 is_null;
	Datum value = WinGetFuncArgCurrent(window, number, &is_null);

	if (is_null)
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("%s must not be null in snowflake_history",
							   names[number])));
	return value;
}

/* The layout that the call names, or else the server's. */
static Layout
layout_of_call(FunctionCallInfo fcinfo, WindowObject window)
{
	Layout layout;
	text  *name;

	if (PG_NARGS() <= ARG_LAYOUT)
		return *server_layout();
	if (!get_fn_expr_arg_stable(fcinfo->flinfo, ARG_LAYOUT))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("layout of snowflake_history must be a constant")));
	name = DatumGetTextPP(argument(window, ARG_LAYOUT));
	read_layout_or_fail(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), &layout);
	return layout;
}

/* What the call remembers from row to row; made at its first. */
static HistoryCall *
this_call(FunctionCallInfo fcinfo, WindowObject window)
{
	FmgrInfo	*flinfo = fcinfo->flinfo;
	HASHCTL		 table = {.keysize = sizeof(int32),
						  .entrysize = sizeof(int32),
						  .hcxt = flinfo->fn_mcxt};
	HistoryCall *call;
	Layout		 layout;

	if (flinfo->fn_extra != NULL)
		return flinfo->fn_extra;
	layout = layout_of_call(fcinfo, window);
	call = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(HistoryCall));
	call->layout = layout;
	call->now_tick = -1;
	call->shards = hash_create("shards of snowflake_history", 16, &table,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	flinfo->fn_extra = call;
	return call;
}

/* --- What is refused ---------------------------------------------------- */

/* Refuse a shard on which a server may mint. */
static void
check_shard_is_free(const Layout *layout, int32 shard)
{
	ShardStats stats;

	if (!settings_preloaded() || !layout_is_same(layout, settings_layout()))
		return;
	if (positions_need_leases())
		leasing->check_reserved(shard);
	positions_read(shard, &stats);
	if (settings_name_shard(shard) || stats.has_minted)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("this server mints ids on shard %d", shard),
				 settings_name_shard(shard) ?
					 errdetail("\"snowflake.shards\" is \"%s\".",
							   settings_shards_text) :
					 errdetail("It has minted there since it started."),
				 errhint("Name a shard on which no server mints, and keep it "
						 "out of \"snowflake.shards\" everywhere.")));
}

/* Begin a window partition, on a shard of its own. */
static void
begin_partition(HistoryCall *call, HistoryPartition *partition, int32 shard)
{
	const Layout *layout = &call->layout;
	bool		  found;

	if (shard < 0 || shard > layout_last_shard(layout))
		report_part_range(layout, "shard", shard, layout_last_shard(layout));
	check_shard_is_free(layout, shard);
	(void) hash_search(call->shards, &shard, HASH_ENTER, &found);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shard %d is in two window partitions", shard),
				 errdetail(
					 "Each window partition begins with no position, so their "
					 "ids would repeat."),
				 errhint(
					 "Leave out PARTITION BY, or partition by the shard. If "
					 "the plan scans the window twice, compute the ids in a "
					 "MATERIALIZED common table expression.")));
	partition->is_begun = true;
	partition->shard = shard;
	partition->created_at = DT_NOBEGIN;
	partition->position = -1;
}

/* Refuse a row that belongs to another shard, or to an earlier time. */
static void
check_order(const HistoryPartition *partition, TimestampTz created_at,
			int32 shard)
{
	if (shard != partition->shard)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shard changes from %d to %d within a window partition",
						partition->shard, shard),
				 errhint("Write PARTITION BY with the expression that gives "
						 "the shard.")));
	if (created_at < partition->created_at)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("created_at goes backwards within the window"),
						errdetail("Time %s comes after time %s.",
								  time_text(created_at),
								  time_text(partition->created_at)),
						errhint("Order the window by it, as in OVER (ORDER BY "
								"created_at, id).")));
}

/*
 * Has a tick not begun yet?  One after the last of the layout never does.  The clock is
 * read again only if it has to be.
 */
static bool
is_future(HistoryCall *call, int64 tick)
{
	if (tick <= call->now_tick)
		return false;
	call->now = GetCurrentTimestamp();
	call->now_tick = layout_first_tick_from(&call->layout, call->now + 1) - 1;
	return tick > call->now_tick;
}

/* The tick of a row's time, which the layout holds and which has begun. */
static int64
tick_of_row(HistoryCall *call, TimestampTz created_at)
{
	const Layout *layout = &call->layout;
	int64		  tick;

	if (!layout_tick_of_time(layout, created_at, &tick) || tick < 0 ||
		tick > layout->last_mint_tick)
		report_time_range(layout, created_at, 0, layout->last_mint_tick);
	if (is_future(call, tick))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("time %s is in the future", time_text(created_at)),
				 errdetail("The clock is at %s.", time_text(call->now)),
				 errhint("Correct the time, or leave out the row.")));
	return tick;
}

/* Too many rows lie just before the present. */
static void
report_no_room(const HistoryCall *call, int32 shard, TimestampTz created_at)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("shard %d has no id left before the present", shard),
			 errdetail("The ids of the rows up to time %s fill all ticks up to "
					   "the clock, which is at %s.",
					   time_text(created_at), time_text(call->now)),
			 errhint("Run the statement again later.")));
}

/* snowflake_history(created_at, shard [, layout]) OVER (ORDER BY created_at) */
Datum
snowflake_history(PG_FUNCTION_ARGS)
{
	WindowObject	  window = PG_WINDOW_OBJECT();
	HistoryCall		 *call = this_call(fcinfo, window);
	HistoryPartition *partition =
		WinGetPartitionLocalMemory(window, sizeof(HistoryPartition));
	TimestampTz created_at =
		DatumGetTimestampTz(argument(window, ARG_CREATED_AT));
	int32 shard = DatumGetInt32(argument(window, ARG_SHARD));
	int64 tick;
	int64 position;

	if (!partition->is_begun)
		begin_partition(call, partition, shard);
	check_order(partition, created_at, shard);
	tick = tick_of_row(call, created_at);
	if (partition->position == PG_INT64_MAX)
		report_no_room(call, shard, created_at);
	position = layout_position(&call->layout, tick, 0);
	position = Max(position, partition->position + 1);
	tick = layout_position_tick(&call->layout, position);
	if (is_future(call, tick))
		report_no_room(call, shard, created_at);
	partition->created_at = created_at;
	partition->position = position;

	/* rows before this one are not asked for again */
	WinSetMarkPosition(window, WinGetCurrentPosition(window));
	PG_RETURN_INT64(layout_id_at(&call->layout, position, shard));
}
