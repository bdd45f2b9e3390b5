/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  What the generator has done, for the views pg_stat_snowflake and
 *	  pg_stat_snowflake_backends.
 *
 * The counters live beside what they count, in the shared memory of
 * generator.c, and are counted under the lock that is taken anyway.  Here they
 * are only read, a shard or a backend at a time, so a view is exact for each
 * row and no snapshot of them all.  There is no state here and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "generator.h"
#include "rows.h"
#include "server.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_stat_shards);
PG_FUNCTION_INFO_V1(snowflake_stat_backends);
PG_FUNCTION_INFO_V1(snowflake_stat_reset);

static const Oid shard_columns[] = {INT4OID,		INT8OID,	   INT8OID,
									INT8OID,		INTERVALOID,   INT8OID,
									TIMESTAMPTZOID, TIMESTAMPTZOID};
static const Oid backend_columns[] = {INT4OID,		  INT4OID, INT8OID,
									  INT8OID,		  INT8OID, INTERVALOID,
									  TIMESTAMPTZOID, INT8OID};

static Datum
interval_of(int64 us)
{
	Interval *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/* A row for each shard that has minted, or that a call waited for. */
Datum
snowflake_stat_shards(PG_FUNCTION_ARGS)
{
	const Layout  *layout = server_layout();
	ReturnSetInfo *result =
		result_rows(fcinfo, shard_columns, lengthof(shard_columns));
	TimestampTz reset_at = generator_stats_reset_at();

	for (int64 shard = 0; shard <= layout_last_shard(layout); shard++)
	{
		ShardStats stats;
		Datum	   values[lengthof(shard_columns)];
		bool	   nulls[lengthof(shard_columns)] = {false};

		generator_read_shard(shard, &stats);
		if (!stats.has_minted && stats.counters.waited_us == 0 &&
			stats.counters.clock_behind == 0)
			continue;
		nulls[5] = nulls[6] = !stats.has_minted;
		values[0] = Int32GetDatum(shard);
		values[1] = Int64GetDatum(stats.counters.minted);
		values[2] = Int64GetDatum(stats.counters.exhausted);
		values[3] = Int64GetDatum(stats.counters.clock_behind);
		values[4] = interval_of(stats.counters.waited_us);
		values[5] = Int64GetDatum(stats.last_id);
		values[6] = TimestampTzGetDatum(
			layout_time_of_tick(layout, layout_tick(layout, stats.last_id)));
		values[7] = TimestampTzGetDatum(reset_at);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

/* A row for each live backend that has tried to mint. */
Datum
snowflake_stat_backends(PG_FUNCTION_ARGS)
{
	const Layout  *layout = server_layout();
	ReturnSetInfo *result =
		result_rows(fcinfo, backend_columns, lengthof(backend_columns));

	for (int i = 0; i < MaxBackends; i++)
	{
		BackendStats stats;
		Datum		 values[lengthof(backend_columns)];
		bool		 nulls[lengthof(backend_columns)] = {false};

		if (!generator_read_backend(i, &stats))
			continue;
		nulls[1] = nulls[2] = stats.minted == 0;
		nulls[6] = stats.held_tick == GENERATOR_NO_TICK;
		nulls[7] = nulls[6] || !stats.has_first_id;
		values[0] = Int32GetDatum(stats.pid);
		values[1] = Int32GetDatum(layout_shard(layout, stats.last_id));
		values[2] = Int64GetDatum(stats.last_id);
		values[3] = Int64GetDatum(stats.minted);
		values[4] = Int64GetDatum(stats.waits);
		values[5] = interval_of(stats.waited_us);
		values[6] =
			TimestampTzGetDatum(layout_time_of_tick(layout, stats.held_tick));
		values[7] = Int64GetDatum(stats.first_id);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

Datum
snowflake_stat_reset(PG_FUNCTION_ARGS)
{
	(void) settings_layout();
	generator_reset_stats();
	PG_RETURN_VOID();
}
