/*-------------------------------------------------------------------------
 *
 * lease_status.c
 *	  Functions of SQL that tell of leases.
 *
 * What the worker that leases wrote is copied: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "lease_wait.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(snowflake_leases);
PG_FUNCTION_INFO_V1(snowflake_lease_status);

static bool
is_held(const LeaseTable *table, int32 shard)
{
	for (int i = 0; i < table->count; i++)
	{
		if (table->held[i].lease.shard == shard)
			return true;
	}
	return false;
}

/* The shards that this server has leased, and those that it cannot get. */
Datum
snowflake_leases(PG_FUNCTION_ARGS)
{
	static const Oid columns[] = {INT4OID, BOOLOID, TIMESTAMPTZOID,
								  TIMESTAMPTZOID, TEXTOID};
	LeaseTable		*now;
	ReturnSetInfo	*result;

	(void) settings_layout();
	now = leases_copy();
	result = result_rows(fcinfo, columns, lengthof(columns));
	for (int i = 0; i < now->count; i++)
	{
		const Lease *lease = &now->held[i].lease;
		Row			 row = {0};

		row_add(&row, Int32GetDatum(lease->shard));
		row_add(&row, BoolGetDatum(true));
		row_add_time(&row, lease->from);
		row_add_time(&row, lease->until);
		row_add_text(&row, NULL);
		put_row(result, &row);
	}
	for (int i = 0; i < now->outcome.refusals; i++)
	{
		const Refusal *refusal = &now->outcome.refusal[i];
		Row			   row = {0};

		if (refusal->shard == ANY_SHARD || is_held(now, refusal->shard))
			continue;
		row_add(&row, Int32GetDatum(refusal->shard));
		row_add(&row, BoolGetDatum(false));
		row_add_time(&row, DT_NOBEGIN);
		row_add_time(&row, refusal->until);
		row_add_text(&row, refusal->other[0] != '\0' ? refusal->other : NULL);
		put_row(result, &row);
	}
	return (Datum) 0;
}

/* The last loss, for people; NULL: there was none. */
static const char *
describe_last_loss(const LeaseTable *table)
{
	const LeaseLoss *loss;

	if (table->losses == 0)
		return NULL;
	loss = &table->loss[(table->losses - 1) % LEASE_MAX_LOSSES];
	if (loss->lease.shard == ANY_SHARD)
		return loss->what;
	return psprintf("shard %d, from %s until %s: %s", loss->lease.shard,
					time_text(loss->lease.from), time_text(loss->lease.until),
					loss->what);
}

/* What the worker that leases shards knows of the registry. */
Datum
snowflake_lease_status(PG_FUNCTION_ARGS)
{
	static const Oid	columns[] = {TEXTOID,		 TEXTOID,		 INT4OID,
									 TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT8OID,
									 TEXTOID,		 INT4OID,		 TEXTOID,
									 BOOLOID,		 TEXTOID,		 TEXTOID};
	TupleDesc			type = result_row(fcinfo, columns, lengthof(columns));
	LeaseTable		   *now;
	const LeaseOutcome *outcome;
	const char		   *failure;
	bool				has_answered;
	ErrorData		   *error = NULL;
	Row					row = {0};

	(void) settings_layout();
	now = leases_copy();
	outcome = &now->outcome;
	failure = lease_failure_code(&outcome->failure);
	has_answered = outcome->answered_at != 0;
	if (!RecoveryInProgress())
		error = caught_error(lease_check);
	row_add_text(&row, !positions_need_leases()			? "off" :
					   RecoveryInProgress()				? "standby" :
					   now->count == 0					? "none" :
					   now->end > GetCurrentTimestamp() ? "held" :
														  "ended");
	row_add_text(&row, now->holder != 0 ? number_text(now->holder) : NULL);
	row_add(&row, Int32GetDatum(now->count));
	row_add_time(&row, now->end);
	row_add_if(&row, has_answered, TimestampTzGetDatum(outcome->answered_at));
	row_add_if(&row, has_answered,
			   Float8GetDatum(lease_clock_ahead_us(outcome) / 1e6));
	row_add_text(&row, failure != NULL ? outcome->failure.text :
					   error != NULL   ? error->message :
										 NULL);
	row_add(&row, Int32GetDatum(now->losses));
	row_add_text(&row, describe_last_loss(now));
	row_add(&row, BoolGetDatum(settings_leave_registry()));
	row_add_text(&row, failure);
	row_add_text(&row, failure != NULL ?
						   lease_failure_way_out(&outcome->failure) :
					   error != NULL ? error->hint :
									   NULL);
	PG_RETURN_DATUM(row_datum(type, &row));
}
