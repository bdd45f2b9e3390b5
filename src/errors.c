/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  Errors that more than one file raises, and what messages are made of.
 *
 * Each error is written once, so that reading and minting say the same of the
 * same mistake: a short message, a detail with the numbers, a hint with the way
 * out where there is one.
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/memutils.h"
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

/* The layout that a text names; else an error. */
void
read_layout_or_fail(const char *text, size_t length, Layout *layout)
{
	LayoutError error;

	if (!layout_parse(text, length, layout, &error))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid layout: %s", error.message),
						errhint("%s", hint_of_layout(&error))));
}

/* What messages call a layout: the preset's name or the specification. */
char *
layout_name(const Layout *layout)
{
	const LayoutPreset *preset = layout_preset_of(layout);
	char			   *name;

	if (preset != NULL)
		return pstrdup(preset->name);
	name = palloc(LAYOUT_TEXT_SIZE);
	layout_format(layout, name, LAYOUT_TEXT_SIZE);
	return name;
}

char *
time_text(TimestampTz time)
{
	char *text = palloc(LAYOUT_TIME_SIZE);

	layout_format_time(time, text, LAYOUT_TIME_SIZE);
	return text;
}

/* 850 ms, 61.2 s, 14 min 3 s, 2 h 5 min, 12 days; without a sign. */
char *
duration_text(int64 us)
{
	int64 ms = (Max(us, -us) + 999) / 1000;
	int64 s = ms / 1000;

	if (ms < 1000)
		return psprintf(INT64_FORMAT " ms", ms);
	if (s < 120)
		return psprintf("%.1f s", ms / 1000.0);
	if (s < INT64CONST(2) * SECS_PER_HOUR)
		return psprintf(INT64_FORMAT " min " INT64_FORMAT " s", s / 60,
						s % 60);
	if (s < INT64CONST(2) * SECS_PER_DAY)
		return psprintf(INT64_FORMAT " h " INT64_FORMAT " min",
						s / SECS_PER_HOUR, s / 60 % 60);
	return psprintf(INT64_FORMAT " days", s / SECS_PER_DAY);
}

/* A random number, such as a server's: 16 hexadecimal digits. */
char *
number_text(uint64 number)
{
	return psprintf("%08x%08x", (uint32) (number >> 32), (uint32) number);
}

/* A shard or a sequence number is not from 0 to "last". */
void
report_part_range(const Layout *layout, const char *part, int32 value,
				  int64 last)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %d is out of range", part, value),
			 errdetail("Layout \"%s\" has %s numbers 0 to " INT64_FORMAT ".",
					   layout_name(layout), part, last)));
}

/* A time is not within the given ticks of a layout. */
void
report_time_range(const Layout *layout, TimestampTz time, int64 first_tick,
				  int64 last_tick)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("time %s is out of the layout's range", time_text(time)),
			 errdetail("Layout \"%s\" holds the times from %s to %s.",
					   layout_name(layout),
					   time_text(layout_time_of_tick(layout, first_tick)),
					   time_text(layout_time_of_tick(layout, last_tick)))));
}

/*
 * The tick that it is now.  Minting is not possible if the layout has expired, or the
 * clock is before its epoch.
 */
int64
present_mint_tick(const Layout *layout, TimestampTz now)
{
	TimestampTz last = layout_time_of_tick(layout, layout->last_mint_tick);
	int64		tick;

	if (layout_tick_of_time(layout, now, &tick) && tick >= 0 &&
		tick <= layout->last_mint_tick)
		return tick;
	if (now > last)
		ereport(
			ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("the layout of snowflake ids has expired"),
			 errdetail("The last time that layout \"%s\" can hold is %s, and "
					   "the clock is at %s. Minting ended then.",
					   layout_name(layout), time_text(last), time_text(now)),
			 errhint("If the clock is right, change \"snowflake.layout\", "
					 "restart the server, and call "
					 "snowflake_accept_layout().")));
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("clock is before the epoch of the layout"),
			 errdetail("The first time that layout \"%s\" can hold is %s, and "
					   "the clock is at %s.",
					   layout_name(layout), time_text(layout->epoch),
					   time_text(now)),
			 errhint("Check the server's clock, and \"snowflake.layout\".")));
}

/*
 * The error that a check raises, without its patience; NULL: none.  A check holds no lock
 * then; but where it is out of memory it may, and that error goes on.
 */
ErrorData *
caught_error(void (*check)(bool patient))
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData *volatile error = NULL;

	PG_TRY();
	{
		check(false);
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_OUT_OF_MEMORY)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	Assert(error == NULL || GetMemoryChunkContext(error) == context);
	return error;
}
