/*-------------------------------------------------------------------------
 *
 * status.c
 *	  Functions of SQL that only tell: what the views show.
 *
 * The state lives where it is used.  Here it is only read, a shard, a session or
 * a room at a time, so a view is exact for each row, and no snapshot of them all.
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "horizon.h"
#include "mint.h"
#include "positions.h"
#include "server.h"
#include "sessions.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(snowflake_layouts);
PG_FUNCTION_INFO_V1(snowflake_stat_shards);
PG_FUNCTION_INFO_V1(snowflake_stat_backends);
PG_FUNCTION_INFO_V1(snowflake_stat_reset);
PG_FUNCTION_INFO_V1(snowflake_horizon);
PG_FUNCTION_INFO_V1(snowflake_is_before_horizon);
PG_FUNCTION_INFO_V1(snowflake_probe);

static Datum
interval_of(int64 us)
{
	Interval *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/* --- Layouts -------------------------------------------------------------- */

static void
put_layout(ReturnSetInfo *result, const Layout *layout, const char *name,
		   const char *source, bool in_use)
{
	char fields[LAYOUT_TEXT_SIZE];
	char specification[LAYOUT_TEXT_SIZE];
	Row	 row = {0};

	layout_format_fields(layout, fields, sizeof(fields));
	layout_format(layout, specification, sizeof(specification));
	row_add_text(&row, name);
	row_add(&row, BoolGetDatum(in_use));
	row_add_time(&row, layout->epoch);
	row_add(&row, interval_of(layout->tick_us));
	row_add_text(&row, fields);
	row_add(&row, Int64GetDatum(layout_last_shard(layout) + 1));
	row_add(&row, Int64GetDatum(layout_last_sequence(layout) + 1));
	row_add_time(&row, layout_time_of_tick(layout, layout->last_mint_tick));
	row_add_text(&row, specification);
	row_add_text(&row, source);
	put_row(result, &row);
}

/* The presets, and the server's own layout where it is none of them. */
Datum
snowflake_layouts(PG_FUNCTION_ARGS)
{
	static const Oid columns[] = {TEXTOID,	   BOOLOID,		   TIMESTAMPTZOID,
								  INTERVALOID, TEXTOID,		   INT8OID,
								  INT8OID,	   TIMESTAMPTZOID, TEXTOID,
								  TEXTOID};
	ReturnSetInfo	*result = result_rows(fcinfo, columns, lengthof(columns));
	const Layout	*own = settings_preloaded() ? settings_layout() : NULL;
	const LayoutPreset *own_preset = own ? layout_preset_of(own) : NULL;

	for (int i = 0; i < layout_preset_count; i++)
	{
		const LayoutPreset *preset = &layout_presets[i];
		Layout				layout;

		read_layout_or_fail(preset->name, strlen(preset->name), &layout);
		put_layout(result, &layout, preset->name, preset->source,
				   preset == own_preset);
	}
	if (own != NULL && own_preset == NULL)
		put_layout(result, own, "custom", "snowflake.layout", true);
	return (Datum) 0;
}

/* --- Shards and sessions ---------------------------------------------------- */

/*
 * A row for each shard that has minted, or that a call waited for.  What was minted
 * since the start is of the layout of the setting, even if that is not accepted.
 */
Datum
snowflake_stat_shards(PG_FUNCTION_ARGS)
{
	static const Oid columns[] = {INT4OID,		  INT8OID,		 INT8OID,
								  INT8OID,		  INTERVALOID,	 INT8OID,
								  TIMESTAMPTZOID, TIMESTAMPTZOID};
	const Layout	*layout = settings_layout();
	ReturnSetInfo	*result = result_rows(fcinfo, columns, lengthof(columns));
	TimestampTz		 reset_at = positions_reset_at();

	for (int64 shard = 0; shard <= layout_last_shard(layout); shard++)
	{
		ShardStats			 stats;
		const ShardCounters *counters = &stats.counters;
		Row					 row = {0};

		positions_read(shard, &stats);
		if (!stats.has_minted && counters->waited_us == 0 &&
			counters->clock_behind == 0)
			continue;
		row_add(&row, Int32GetDatum(shard));
		row_add(&row, Int64GetDatum(counters->minted));
		row_add(&row, Int64GetDatum(counters->exhausted));
		row_add(&row, Int64GetDatum(counters->clock_behind));
		row_add(&row, interval_of(counters->waited_us));
		row_add_if(&row, stats.has_minted, Int64GetDatum(stats.last_id));
		row_add_if(&row, stats.has_minted,
				   TimestampTzGetDatum(layout_time_of_tick(
					   layout, layout_tick(layout, stats.last_id))));
		row_add_time(&row, reset_at);
		put_row(result, &row);
	}
	return (Datum) 0;
}

/* A row for each session that has tried to mint. */
Datum
snowflake_stat_backends(PG_FUNCTION_ARGS)
{
	static const Oid columns[] = {INT4OID,		  INT4OID, INT8OID,
								  INT8OID,		  INT8OID, INTERVALOID,
								  TIMESTAMPTZOID, INT8OID, INT4OID};
	const Layout	*layout = settings_layout();
	ReturnSetInfo	*result = result_rows(fcinfo, columns, lengthof(columns));

	for (int i = 0; i < MaxBackends; i++)
	{
		SessionStats stats;
		Row			 row = {0};

		if (!sessions_read(i, &stats))
			continue;
		row_add(&row, Int32GetDatum(stats.pid));
		row_add_if(&row, stats.minted > 0,
				   Int32GetDatum(layout_shard(layout, stats.last_id)));
		row_add_if(&row, stats.minted > 0, Int64GetDatum(stats.last_id));
		row_add(&row, Int64GetDatum(stats.minted));
		row_add(&row, Int64GetDatum(stats.waits));
		row_add(&row, interval_of(stats.waited_us));
		row_add_time(&row, layout_time_of_tick(layout, stats.mark_tick));
		row_add_if(&row, stats.mark_tick != NO_TICK && stats.first_id != NO_ID,
				   Int64GetDatum(stats.first_id));
		row_add_if(&row,
				   stats.mark_tick != NO_TICK &&
					   stats.mark_shard != ALL_SHARDS,
				   Int32GetDatum(stats.mark_shard));
		put_row(result, &row);
	}
	return (Datum) 0;
}

Datum
snowflake_stat_reset(PG_FUNCTION_ARGS)
{
	positions_reset_counters();
	PG_RETURN_VOID();
}

/* --- What hinders minting -------------------------------------------------------- */

static void
check_layout(bool patient)
{
	if (patient || server_layout_differs())
		(void) server_layout();
}

static void
check_clone(bool patient)
{
	server_check_clone();
}

static void
check_leases(bool patient)
{
	if (positions_need_leases())
		leasing->check(patient);
}

/*
 * On what minting depends, in the order in which one hinders the next.  Each check
 * raises the error that a call of snowflake_nextval() raises because of it: if "patient",
 * when it has waited as long as a call would; else by what is known, without a wait,
 * a lock that is held, or anything else that has to be undone.
 */
static const struct
{
	const char *area;
	void (*check)(bool patient);
} areas[] = {
	{"worker", horizon_check_worker}, {"horizon", horizon_check},
	{"layout", check_layout},		  {"clone", check_clone},
	{"clock", positions_check_clock}, {"shards", mint_check_shards},
	{"leases", check_leases},
};

/* Raise the error that a call raises because of an area. */
Datum
snowflake_probe(PG_FUNCTION_ARGS)
{
	char *area = text_to_cstring(PG_GETARG_TEXT_PP(0));

	(void) settings_layout(); /* the library must be preloaded */
	for (int i = 0; i < lengthof(areas); i++)
	{
		if (strcmp(areas[i].area, area) == 0)
			areas[i].check(true);
	}
	PG_RETURN_VOID();
}

/* The first area that hinders minting, with its error; "ok": none. */
static const char *
find_hindrance(ErrorData **error)
{
	*error = NULL;
	if (RecoveryInProgress())
		return "standby";
	for (int i = 0; i < lengthof(areas); i++)
	{
		*error = caught_error(areas[i].check);
		if (*error != NULL)
			return areas[i].area;
	}
	return "ok";
}

/* --- The horizon --------------------------------------------------------------- */

/* The horizon as it is on disk, what the worker does, and who stored it. */
Datum
snowflake_horizon(PG_FUNCTION_ARGS)
{
	static const Oid columns[] = {TIMESTAMPTZOID, FLOAT8OID, TIMESTAMPTZOID,
								  TEXTOID,		  TEXTOID,	 TIMESTAMPTZOID,
								  TEXTOID,		  TEXTOID,	 TEXTOID,
								  TEXTOID};
	static const char *const waits[] = {NULL, "disk", "synchronous standby"};
	TupleDesc	type = result_row(fcinfo, columns, lengthof(columns));
	Record		server;
	HorizonView worker;
	ErrorData  *error;
	const char *hindrance;
	bool		is_known;
	bool		is_clone;
	Row			row = {0};

	(void) settings_layout(); /* the library must be preloaded */
	server_known(&server);
	is_clone = identity_is_clone(&server.writer);
	hindrance = find_hindrance(&error);
	horizon_view(&worker);
	is_known = !TIMESTAMP_IS_NOBEGIN(server.horizon);
	row_add_time(&row, server.horizon);
	row_add_if(&row, is_known,
			   Float8GetDatum(
				   is_known ? (server.horizon - GetCurrentTimestamp()) / 1e6 :
							  0));
	row_add_if(&row, worker.renewed_at != 0,
			   TimestampTzGetDatum(worker.renewed_at));
	row_add_text(&row, worker.failed ? worker.trouble.reason :
					   error != NULL ? error->message :
									   NULL);
	row_add_text(&row, waits[worker.waits_for]);
	row_add_if(&row, worker.waits_for != WAITS_FOR_NOTHING,
			   TimestampTzGetDatum(worker.waits_since));
	row_add_text(&row,
				 server.writer.incarnation == 0 || server.writer.standby ?
					 NULL :
					 number_text(server.writer.incarnation));
	row_add_text(&row, is_clone ? number_text(server.writer.clone_of) : NULL);
	row_add_text(&row, is_clone ? server.writer.evidence : NULL);
	row_add_text(&row, hindrance);
	PG_RETURN_DATUM(row_datum(type, &row));
}

/* Whether an id is not after the horizon, as no mark of this server is. */
Datum
snowflake_is_before_horizon(PG_FUNCTION_ARGS)
{
	const Layout *layout = settings_layout();
	Record		  server;

	server_known(&server);
	PG_RETURN_BOOL(
		layout_time_of_tick(layout, layout_tick(layout, PG_GETARG_INT64(0))) <=
		server.horizon);
}
