/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  Errors that more than one file raises, and what messages are made of.
 *
 * Each error is written once, so that reading and minting say the same of the
 * same mistake: a short message, a detail with the numbers, a hint with the way
 * out where there is one.
 *
 * There is no state here, and nothing to lock: the callers of may_log_now()
 * bring an atomic.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "portability/instr_time.h"
#include "utils/varlena.h"

#include "errors.h"

/* The preset whose name is most like one that is none; NULL if none is. */
static const char *
nearest_preset(const char *name)
{
	int			length = strlen(name);
	int			least = Min(4, length / 2) + 1;
	const char *nearest = NULL;

	for (int i = 0; i < layout_preset_count; i++)
	{
		const char *preset = layout_presets[i].name;
		int			distance =
			varstr_levenshtein_less_equal(name, length, preset, strlen(preset),
										  1, 1, 1, least - 1, true);

		if (distance < least)
		{
			least = distance;
			nearest = preset;
		}
	}
	return nearest;
}

/*
 * The way out of an invalid layout.  It names the presets, because it must help
 * while the server is down.
 */
char *
hint_of_layout(const LayoutError *error)
{
	const char	  *nearest = nearest_preset(error->preset);
	StringInfoData hint;

	initStringInfo(&hint);
	if (nearest != NULL)
		appendStringInfo(&hint, "Perhaps you meant \"%s\". ", nearest);
	appendStringInfoString(&hint, "A layout is a preset (");
	for (int i = 0; i < layout_preset_count; i++)
		appendStringInfo(&hint, "%s%s", i == 0 ? "" : ", ",
						 layout_presets[i].name);
	appendStringInfoString(
		&hint,
		") or a specification such as \"epoch=2024-01-01T00:00:00Z unit=1ms "
		"fields=timestamp:41,shard:10,sequence:12\".");
	return hint.data;
}

void
report_invalid_layout(const LayoutError *error)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid layout: %s", error->message),
					errhint("%s", hint_of_layout(error))));
}

/* A shard or a sequence number is not from 0 to "last". */
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
 * Minting is not possible at this time: the layout has expired, or the clock is
 * before its epoch.
 */
void
report_no_mint_time(const Layout *layout, TimestampTz now)
{
	TimestampTz last = layout_time_of_tick(layout, layout->last_mint_tick);
	bool		has_expired = now > last;
	char		name[LAYOUT_TEXT_SIZE];
	char		at[LAYOUT_TIME_SIZE];
	char		bound[LAYOUT_TIME_SIZE];

	layout_describe(layout, name, sizeof(name));
	layout_format_time(now, at, sizeof(at));
	layout_format_time(has_expired ? last : layout->epoch, bound,
					   sizeof(bound));
	if (has_expired)
		ereport(
			ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("the layout of snowflake ids has expired"),
			 errdetail("The last time that layout \"%s\" can hold is %s, and "
					   "the clock is at %s. Minting ended then.",
					   name, bound, at),
			 errhint("If the clock is right, change \"snowflake.layout\", "
					 "restart the server, and call "
					 "snowflake_accept_layout().")));
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("clock is before the epoch of the layout"),
			 errdetail("The first time that layout \"%s\" can hold is %s, and "
					   "the clock is at %s.",
					   name, bound, at),
			 errhint("Check the server's clock, and \"snowflake.layout\".")));
}

/* A worker is missing, and has been for so long that it would be back. */
void
report_no_worker(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake's background worker is not running"),
			 errhint(
				 "Raise \"max_worker_processes\" and restart the server.")));
}

/*
 * Write a time span as a person reads it, into REPORT_DURATION_SIZE bytes:
 * 850 ms, 61.2 s, 14 min 3 s, 2 h 5 min, 12 days.
 */
void
report_format_duration(int64 us, char *buffer)
{
	int64 ms = (us + 999) / 1000;
	int64 s = ms / 1000;

	if (ms < 1000)
		snprintf(buffer, REPORT_DURATION_SIZE, INT64_FORMAT " ms", ms);
	else if (s < 120)
		snprintf(buffer, REPORT_DURATION_SIZE, "%.1f s", ms / 1000.0);
	else if (s < INT64CONST(2) * SECS_PER_HOUR)
		snprintf(buffer, REPORT_DURATION_SIZE,
				 INT64_FORMAT " min " INT64_FORMAT " s", s / 60, s % 60);
	else if (s < INT64CONST(2) * SECS_PER_DAY)
		snprintf(buffer, REPORT_DURATION_SIZE,
				 INT64_FORMAT " h " INT64_FORMAT " min", s / SECS_PER_HOUR,
				 s / 60 % 60);
	else
		snprintf(buffer, REPORT_DURATION_SIZE, INT64_FORMAT " days",
				 s / SECS_PER_DAY);
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
