/*-------------------------------------------------------------------------
 *
 * report.c
 *	  Errors that more than one file raises.
 *
 * Each is written once, so that reading and minting say the same thing of the
 * same mistake: a short message, a detail with the numbers, a hint with the
 * way out where there is one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "portability/instr_time.h"

#include "report.h"

void
report_invalid_layout(const LayoutError *error)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		 errmsg("invalid layout: %s", error->message),
		 errhint(
			 "A layout is a preset that the view snowflake_layouts shows, or a specification such as \"epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,shard:10,sequence:12\".")));
}

/* A shard or a sequence is not from 0 to "last". */
void
report_part_range(const Layout *layout, const char *part, int32 value,
				  int64 last)
{
	char name[LAYOUT_TEXT_SIZE];

	layout_describe(layout, name, sizeof(name));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %d is out of range", part, value),
			 errdetail("Layout \"%s\" has %s numbers 0 to " INT64_FORMAT ".",
					   name, part, last)));
}

/* A time is not within the given ticks of a layout. */
void
report_time_range(const Layout *layout, TimestampTz time, int64 first_tick,
				  int64 last_tick)
{
	char name[LAYOUT_TEXT_SIZE];
	char at[LAYOUT_TIME_SIZE];
	char first[LAYOUT_TIME_SIZE];
	char last[LAYOUT_TIME_SIZE];

	layout_describe(layout, name, sizeof(name));
	layout_format_time(time, at, sizeof(at));
	layout_format_time(layout_time_of_tick(layout, first_tick), first,
					   sizeof(first));
	layout_format_time(layout_time_of_tick(layout, last_tick), last,
					   sizeof(last));
	ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					errmsg("time %s is out of the layout's range", at),
					errdetail("Layout \"%s\" holds the times from %s to %s.",
							  name, first, last)));
}

/*
 * Is a line due that is logged at most once an interval, by all processes that
 * share "after"?  Counted by a clock that nobody can set; 0 is due at once.
 */
bool
may_log_now(pg_atomic_uint64 *after, int64 interval_us)
{
	instr_time now;
	uint64	   due = pg_atomic_read_u64(after);

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now) >= due &&
		   pg_atomic_compare_exchange_u64(after, &due,
										  INSTR_TIME_GET_MICROSEC(now) +
											  interval_us);
}
