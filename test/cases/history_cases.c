/*-------------------------------------------------------------------------
 *
 * history_cases.c
 *	  Ids for rows that exist: random rows, and rows at all edges.
 *
 * history_cases() calls snowflake_history() by SQL, with a clock, a server and leases of our
 * own below it.  It compares the ids, and the errors, with what the head of history.c says,
 * and returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "fmgr.h"
#include "utils/timestamp.h"

#include "sql_calls.h"

#include "errors.h"
#include "positions.h"
#include "server.h"

PG_MODULE_MAGIC;

/* --- What is below history.c ------------------------------------------------------ */

static Layout	   layout; /* of the server */
static TimestampTz clock_now;
static int		   clock_reads;
static bool		   is_preloaded;
static bool		   needs_leases;
static int		   minted_on;	/* a shard */
static int		   named_shard; /* in snowflake.shards */
static int		   reserved_shard;

char *settings_shards_text = "the list";

static TimestampTz
our_time(void)
{
	clock_reads++;
	return clock_now;
}

const Layout *
server_layout(void)
{
	return &layout;
}

bool
settings_preloaded(void)
{
	return is_preloaded;
}

const Layout *
settings_layout(void)
{
	CHECK(is_preloaded);
	return &layout;
}

bool
settings_name_shard(int32 shard)
{
	return shard == named_shard;
}

bool
positions_need_leases(void)
{
	return needs_leases;
}

void
positions_read(int32 shard, ShardStats *stats)
{
	memset(stats, 0x55, sizeof(*stats));
	stats->has_minted = shard == minted_on;
}

static void
check_reserved(int32 shard)
{
	if (shard != reserved_shard)
		elog(ERROR, "shard %d is not reserved", shard);
}

static const Leasing our_leasing = {.check_reserved = check_reserved};

const Leasing *leasing = &our_leasing;

#define GetCurrentTimestamp() our_time()

#include "../../src/errors.c"
#include "../../src/history.c"
#include "../../src/layout.c"
#include "../../src/layout_text.c"

/* --- Rows -------------------------------------------------------------------------- */

#define OUR_TEXT                          \
	"epoch=1999-12-31T23:59:50Z unit=1s " \
	"fields=timestamp:20,shard:2,sequence:1"
#define LATER_TEXT                            \
	"epoch=2000-02-01T00:00:00.5Z unit=10ms " \
	"fields=timestamp:20,sequence:1,shard:2"

#define SHARDS 4
#define SEQUENCES 2
#define UNKNOWN 99 /* as a shard: NULL */

typedef struct OneRow
{
	int			partition;
	TimestampTz time; /* PG_INT64_MIN + 1: NULL */
	int			shard;
} OneRow;

#define NO_TIME (PG_INT64_MIN + 1)

static Layout	   one; /* of the call */
static TimestampTz reported_time;
static int		   reported_shard;

static void
report_time(void)
{
	report_time_range(&one, reported_time, 0, one.last_mint_tick);
}

static void
report_shard(void)
{
	report_part_range(&one, "shard", reported_shard, SHARDS - 1);
}

/* The id of a tick, by the fields of the two layouts. */
static int64
id_of(int64 tick, int shard, int sequence)
{
	return layout_is_same(&one, &layout) ? tick << 3 | shard << 1 | sequence :
										   tick << 3 | sequence << 2 | shard;
}

/* The tick of a time; -1: it is before the epoch. */
static int64
tick_of(TimestampTz time)
{
	return time < one.epoch ? -1 : (time - one.epoch) / one.tick_us;
}

/* Why a partition cannot begin on a shard; NULL: it can. */
static const char *
why_no_shard(int shard, const bool *has_begun)
{
	reported_shard = shard;
	if (shard < 0 || shard >= SHARDS)
		return error_text(raised_by(report_shard));
	if (is_preloaded && layout_is_same(&one, &layout))
	{
		if (needs_leases && shard != reserved_shard)
			return psprintf("XX000: shard %d is not reserved", shard);
		if (shard == named_shard || shard == minted_on)
			return psprintf(
				"55006: this server mints ids on shard %d; %s; Name a shard on "
				"which no server mints, and keep it out of "
				"\"snowflake.shards\" everywhere.",
				shard,
				shard == named_shard ?
					"\"snowflake.shards\" is \"the list\"." :
					"It has minted there since it started.");
	}
	if (has_begun[shard])
		return psprintf(
			"22023: shard %d is in two window partitions; Each window "
			"partition begins with no position, so their ids would repeat.; "
			"Leave out PARTITION BY, or partition by the shard. If the plan "
			"scans the window twice, compute the ids in a MATERIALIZED common "
			"table expression.",
			shard);
	return NULL;
}

/* What the call gives for the rows, which are in the order of their partitions. */
static const char *
expect_rows(const OneRow *rows, int count)
{
	StringInfoData ids;
	bool		   has_begun[SHARDS] = {false};
	int64		   tick = -1; /* of the last id */
	int			   sequence = 0;

	initStringInfo(&ids);
	for (int i = 0; i < count; i++)
	{
		const OneRow *row = &rows[i];
		const OneRow *last = row - 1;
		int64		  first = tick_of(row->time);

		if (row->time == NO_TIME || row->shard == UNKNOWN)
			return psprintf("22004: %s must not be null in snowflake_history",
							row->time == NO_TIME ? "created_at" : "shard");
		if (i == 0 || row->partition != last->partition)
		{
			const char *why = why_no_shard(row->shard, has_begun);

			if (why != NULL)
				return why;
			has_begun[row->shard] = true;
			tick = -1;
		}
		else if (row->shard != last->shard)
			return psprintf(
				"22023: shard changes from %d to %d within a window "
				"partition; Write PARTITION BY with the expression that gives "
				"the shard.",
				last->shard, row->shard);
		else if (row->time < last->time)
			return psprintf(
				"22023: created_at goes backwards within the window; Time %s "
				"comes after time %s.; Order the window by it, as in OVER "
				"(ORDER BY created_at, id).",
				time_text(row->time), time_text(last->time));
		reported_time = row->time;
		if (TIMESTAMP_NOT_FINITE(row->time) || first < 0 ||
			first > one.last_mint_tick)
			return error_text(raised_by(report_time));
		if (first > tick_of(clock_now))
			return psprintf("22008: time %s is in the future; The clock is at "
							"%s.; Correct the time, or leave out the row.",
							time_text(row->time), time_text(clock_now));
		sequence = first > tick ? 0 : sequence + 1;
		tick = Max(first, tick) + sequence / SEQUENCES;
		sequence %= SEQUENCES;
		if (tick > one.last_mint_tick || tick > tick_of(clock_now))
			return psprintf(
				"22008: shard %d has no id left before the present; The ids "
				"of the rows up to time %s fill all ticks up to the clock, "
				"which is at %s.; Run the statement again later.",
				row->shard, time_text(row->time), time_text(clock_now));
		appendStringInfo(&ids, "%s%lld", i ? " " : "",
						 (long long) id_of(tick, row->shard, sequence));
	}
	return ids.data;
}

/* Call it for these rows; "name" is that of the layout, or NULL. */
static void
try_rows(const OneRow *rows, int count, const char *name)
{
	StringInfoData values;
	const char	  *expected;

	initStringInfo(&values);
	one = layout;
	if (name != NULL)
		read_layout_or_fail(name, strlen(name), &one);
	for (int i = 0; i < count; i++)
	{
		appendStringInfo(
			&values, "%s(%d, %d, %s::timestamptz, %s)", i ? ", " : "", i,
			rows[i].partition,
			rows[i].time == NO_TIME ?
				"NULL" :
				quote_literal_cstr(DatumGetCString(DirectFunctionCall1(
					timestamptz_out, TimestampTzGetDatum(rows[i].time)))),
			rows[i].shard == UNKNOWN ? "NULL::integer" :
									   psprintf("%d", rows[i].shard));
	}
	expected = expect_rows(rows, count);
	clock_reads = 0;
	CHECK_ANSWER(expected,
				 "SELECT snowflake_history(t, s%s) OVER (PARTITION BY p ORDER "
				 "BY n) FROM (VALUES %s) v (n, p, t, s)",
				 name ? psprintf(", '%s'", name) : "", values.data);

	/* the clock is read again only if it has to be */
	CHECK(strchr(expected, ':') ? clock_reads <= 2 : clock_reads == 1);
}

/* --- Cases ------------------------------------------------------------------------- */

static uint64 seed;

static int
random_below(int limit)
{
	seed = seed * UINT64CONST(6364136223846793005) + 1442695040888963407;
	return (seed >> 33) % limit;
}

/* Rows in a few ticks, of one or more partitions; most are in order. */
static void
try_random(void)
{
	OneRow		rows[8];
	int			count = 1 + random_below(lengthof(rows));
	const char *name = random_below(2) ? NULL : LATER_TEXT;
	int			partition = 0;
	int64		last;

	one = layout;
	if (name != NULL)
		read_layout_or_fail(name, strlen(name), &one);
	last = one.last_mint_tick;
	rows[0].time = one.epoch +
				   (random_below(2) ? random_below(3) :
					random_below(2) ? last - random_below(3) :
									  500) *
					   one.tick_us +
				   random_below(2) * (one.tick_us - 1);
	rows[0].shard = random_below(SHARDS);
	rows[0].partition = 0;
	for (int i = 1; i < count; i++)
	{
		const int64 passed[] = {
			0, 0, 0, 1, one.tick_us - 1, one.tick_us, 3 * one.tick_us};

		rows[i] = rows[i - 1];
		rows[i].time += passed[random_below(lengthof(passed))];
		if (random_below(40) == 0)
			rows[i].time -= 1;
		if (random_below(40) == 0)
			rows[i].shard = random_below(SHARDS + 1);
		if (random_below(6) > 0)
			continue;
		rows[i].partition = ++partition;
		rows[i].shard = random_below(8) ? partition % SHARDS : 1;
		rows[i].time -= random_below(3) * one.tick_us;
	}
	clock_now = rows[count - 1].time + random_below(6) * one.tick_us - 1 +
				random_below(3);
	try_rows(rows, count, name);
}

/* One row, or two, at each edge of the layout, with the clock at each edge of a tick. */
static void
try_edges(const char *name)
{
	int64 ticks[4] = {-1, 0, 1};

	one = layout;
	if (name != NULL)
		read_layout_or_fail(name, strlen(name), &one);
	ticks[3] = one.last_mint_tick;
	for (int i = 0; i < lengthof(ticks) * 3 * 4 * 3 * 3; i++)
	{
		int			at = i % lengthof(ticks);
		int			us = i / 4 % 3 - 1;
		int			ahead = i / 12 % 4 - 1; /* ticks, of the clock */
		int			ahead_us = i / 48 % 3 - 1;
		TimestampTz time = one.epoch + ticks[at] * one.tick_us + us;
		OneRow		rows[] = {{0, time, 3}, {0, time, 3}, {0, time, 3}};

		clock_now = time - us + ahead * one.tick_us + ahead_us;
		try_rows(rows, 1 + i / 144, name);
	}
}

static void
try_special(void)
{
	const TimestampTz time = layout.epoch + 5 * layout.tick_us;
	const OneRow	  cases[][2] = {{{0, NO_TIME, 1}, {0, time, 1}},
									{{0, time, 1}, {0, NO_TIME, 1}},
									{{0, time, UNKNOWN}, {0, time, 1}},
									{{0, time, 1}, {0, time, UNKNOWN}},
									{{0, NO_TIME, UNKNOWN}, {0, time, 1}},
									{{0, DT_NOBEGIN, 1}, {0, time, 1}},
									{{0, DT_NOEND, 1}, {0, time, 1}},
									{{0, time, -1}, {0, time, 1}},
									{{0, time, SHARDS}, {0, time, 1}},
									{{0, time, PG_INT32_MIN}, {0, time, 1}},
									{{0, time, PG_INT32_MAX}, {0, time, 1}}};

	clock_now = layout.epoch + 100 * layout.tick_us;
	for (int i = 0; i < lengthof(cases); i++)
	{
		try_rows(cases[i], 2, NULL);
		try_rows(cases[i], 2, OUR_TEXT);
	}
	CHECK_ANSWER("22004: layout must not be null in snowflake_history",
				 "SELECT snowflake_history('2000-01-01', 1, NULL) OVER ()");
	CHECK_ANSWER(
		"0A000: layout of snowflake_history must be a constant",
		"SELECT snowflake_history('2000-01-01', 1, name) OVER () FROM (VALUES "
		"('%s'), ('%s')) v (name)",
		OUR_TEXT, LATER_TEXT);
}

/* A shard is refused if this server mints there: in its own layout, and if it has one. */
static void
try_shards(void)
{
	const TimestampTz time = layout.epoch + 5 * layout.tick_us;

	clock_now = time + 100 * layout.tick_us;
	for (int i = 0; i < 64 * SHARDS; i++)
	{
		int		   shard = i / 64;
		OneRow	   rows[] = {{0, time, 1}, {0, time, 1}, {1, time, shard}};
		const bool is_other = i & 32;

		is_preloaded = i & 1;
		needs_leases = i & 2;
		named_shard = i & 4 ? 1 : -1;
		minted_on = i & 8 ? 2 : 1;
		reserved_shard = i & 16 ? 1 : 2;
		one = layout;
		if (is_other)
			rows[0].time = rows[1].time = rows[2].time = clock_now =
				INT64CONST(40) * USECS_PER_DAY;
		try_rows(rows, lengthof(rows), is_other ? LATER_TEXT : NULL);
		try_rows(rows + 2, 1, is_other ? LATER_TEXT : OUR_TEXT);
	}
	is_preloaded = needs_leases = false;
}

/* After the greatest bigint there is no id, though the layout and the clock go on. */
static void
try_last_id(void)
{
	const TimestampTz time = PG_INT64_MAX / 2;
	const char *const name =
		"epoch=2000-01-01 unit=1us fields=timestamp:62,sequence:1";

	clock_now = time + 100;
	for (int rows = 2; rows <= 3; rows++)
		CHECK_ANSWER(
			rows == 2 ?
				"9223372036854775806 9223372036854775807" :
				psprintf("22008: shard 0 has no id left before the present; "
						 "The ids of the rows up to time %s fill all ticks up "
						 "to the clock, which is at %s.; Run the statement "
						 "again later.",
						 time_text(time), time_text(clock_now)),
			"SELECT snowflake_history('%s', 0, '%s') OVER () FROM "
			"generate_series(1, %d)",
			time_text(time), name, rows);
}

/* Rows that have an id are not kept: so many would be written to disk. */
static void
try_many(void)
{
	long written = pgBufferUsage.temp_blks_written;

	clock_now = layout.epoch + layout.last_mint_tick * layout.tick_us;
	DO("SET LOCAL work_mem = '64kB'");
	CHECK_ANSWER(
		"6000",
		"SELECT count(id) FROM (SELECT snowflake_history(created_at, "
		"1) OVER () AS id FROM (SELECT timestamptz '2000-01-01' AS "
		"created_at, generate_series(1, 6000) OFFSET 0) r OFFSET 0) h");
	CHECK(pgBufferUsage.temp_blks_written == written);
}

static void
try_history(void)
{
	DO("SET LOCAL timezone = 'UTC'");
	for (int i = 0; i < 2; i++)
		DO("CREATE FUNCTION snowflake_history(created_at timestamptz, shard "
		   "integer%s) RETURNS bigint WINDOW LANGUAGE c AS '%s'",
		   i ? ", layout text" : "", library);
	read_layout_or_fail(OUR_TEXT, strlen(OUR_TEXT), &layout);
	is_preloaded = needs_leases = false;
	try_edges(NULL);
	try_edges(LATER_TEXT);
	try_special();
	try_shards();
	try_last_id();
	try_many();
	seed = 1;
	for (int i = 0; i < 500; i++)
		try_random();
}

PG_FUNCTION_INFO_V1(history_cases);
Datum
history_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	try_by_sql(fcinfo->flinfo->fn_oid, try_history);
	PG_RETURN_INT64(tried);
}
