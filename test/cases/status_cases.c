/*-------------------------------------------------------------------------
 *
 * status_cases.c
 *	  What the views show, for all that can be known.
 *
 * status_cases() calls the functions of status.c by SQL, with a server, shards and sessions
 * of our own below them.  It compares each column with what doc/reference.md says, and
 * returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "calls.h"
#include "sql_calls.h"

#include "errors.h"
#include "horizon.h"
#include "mint.h"
#include "positions.h"
#include "server.h"
#include "sessions.h"

PG_MODULE_MAGIC;

/* --- What is below status.c --------------------------------------------------- */

#define SHARDS 4
#define BACKENDS 6
#define AREAS 7

static const char *const area_names[AREAS] = {"worker", "horizon", "layout",
											  "clone",	"clock",   "shards",
											  "leases"};

static bool			is_preloaded;
static bool			in_recovery;
static bool			differs; /* the layout */
static bool			needs_leases;
static TimestampTz	clock_now;
static Layout		layout;
static ShardStats	shard_stats[SHARDS];
static SessionStats session_stats[BACKENDS];
static bool			is_session[BACKENDS];
static int			hinders; /* an area; or AREAS, for none */
static Record		known;
static HorizonView	view;

bool
settings_preloaded(void)
{
	return is_preloaded;
}

const Layout *
settings_layout(void)
{
	if (!is_preloaded)
		elog(ERROR, "it is not preloaded");
	return &layout;
}

void
positions_read(int32 shard, ShardStats *stats)
{
	CHECK(shard >= 0 && shard < SHARDS);
	*stats = shard_stats[shard];
}

TimestampTz
positions_reset_at(void)
{
	return clock_now - 7;
}

void
positions_reset_counters(void)
{
	called(" reset");
}

bool
sessions_read(int index, SessionStats *stats)
{
	CHECK(index >= 0 && index < BACKENDS);
	if (is_session[index])
		*stats = session_stats[index];
	return is_session[index];
}

bool
positions_need_leases(void)
{
	return needs_leases;
}

bool
server_layout_differs(void)
{
	return differs;
}

void
server_known(Record *record)
{
	*record = known;
}

void
horizon_view(HorizonView *it)
{
	*it = view;
}

/* A check of an area: "!" if it is patient. */
static void
checked(int area, bool patient)
{
	called(" %s%s", area_names[area], patient ? "!" : "");
	if (hinders == area)
		elog(ERROR, "no %s", area_names[area]);
}

void
horizon_check_worker(bool patient)
{
	checked(0, patient);
}

void
horizon_check(bool patient)
{
	checked(1, patient);
}

const Layout *
server_layout(void)
{
	checked(2, false);
	return &layout;
}

void
server_check_clone(void)
{
	checked(3, false);
}

void
positions_check_clock(bool patient)
{
	checked(4, patient);
}

void
mint_check_shards(bool patient)
{
	checked(5, patient);
}

static void
check_our_leases(bool patient)
{
	checked(6, patient);
}

static const Leasing our_leasing = {.check = check_our_leases};

const Leasing *leasing = &our_leasing;

#define RecoveryInProgress() in_recovery
#define MaxBackends BACKENDS
#define GetCurrentTimestamp() clock_now

#include "../../src/errors.c"
#include "../../src/layout.c"
#include "../../src/layout_text.c"
#include "../../src/sql.c"
#include "../../src/status.c"

/* --- Calls -------------------------------------------------------------------- */

static void
make_functions(void)
{
	static const char *const functions[] = {
		"snowflake_layouts(OUT name text, OUT in_use boolean, OUT epoch "
		"timestamptz, OUT tick interval, OUT fields text, OUT shards bigint, "
		"OUT capacity bigint, OUT expires_at timestamptz, OUT specification "
		"text, OUT source text) RETURNS SETOF record",
		"snowflake_stat_shards(OUT shard integer, OUT minted bigint, OUT "
		"exhausted bigint, OUT clock_behind bigint, OUT waited interval, OUT "
		"last_id bigint, OUT last_minted_at timestamptz, OUT stats_reset "
		"timestamptz) RETURNS SETOF record",
		"snowflake_stat_backends(OUT pid integer, OUT shard integer, OUT "
		"last_id bigint, OUT minted bigint, OUT waits bigint, OUT waited "
		"interval, OUT holding_since timestamptz, OUT oldest_id bigint, OUT "
		"holding_shard integer) RETURNS SETOF record",
		"snowflake_stat_reset() RETURNS void",
		"snowflake_horizon(OUT horizon timestamptz, OUT seconds_ahead double "
		"precision, OUT last_renewal timestamptz, OUT last_error text, OUT "
		"waiting_for text, OUT waiting_since timestamptz, OUT incarnation "
		"text, OUT clone_of text, OUT clone_evidence text, OUT state text)",
		"snowflake_is_before_horizon(id bigint) RETURNS boolean",
		"snowflake_probe(area text) RETURNS void"};

	for (int i = 0; i < lengthof(functions); i++)
		DO("CREATE FUNCTION %s LANGUAGE c STRICT AS '%s'", functions[i],
		   library);
}

/* As the server writes them; "-" for what is not known. */
static const char *
text_of_time(bool is_known, TimestampTz time)
{
	return is_known ? DatumGetCString(
						  DirectFunctionCall1(timestamptz_out,
											  TimestampTzGetDatum(time))) :
					  "-";
}

static const char *
text_of_us(int64 us)
{
	Interval interval = {.time = us};

	return DatumGetCString(
		DirectFunctionCall1(interval_out, IntervalPGetDatum(&interval)));
}

static const char *
text_of(bool is_known, int64 number)
{
	return is_known ? psprintf("%lld", (long long) number) : "-";
}

static const char *
text_if(bool is_known, const char *text)
{
	return is_known ? text : "-";
}

/* --- Layouts -------------------------------------------------------------------- */

static void
expect_layout(StringInfo rows, const char *text, const char *name,
			  const char *source, bool in_use)
{
	Layout one;
	char   fields[LAYOUT_TEXT_SIZE];
	char   specification[LAYOUT_TEXT_SIZE];

	read_layout_or_fail(text, strlen(text), &one);
	layout_format_fields(&one, fields, sizeof(fields));
	layout_format(&one, specification, sizeof(specification));
	appendStringInfo(rows, "%s%s|%s|%s|%s|%s|%lld|%lld|%s|%s|%s",
					 rows->len ? " " : "", name, in_use ? "t" : "f",
					 text_of_time(true, one.epoch), text_of_us(one.tick_us),
					 fields, 1LL << one.shard_bits, 1LL << one.sequence_bits,
					 text_of_time(true, one.epoch +
											one.last_mint_tick * one.tick_us),
					 specification, source);
}

static void
try_layouts(void)
{
	static const char *const own[] = {"twitter", "sonyflake",
									  "epoch=2024-01-01T00:00:00.5Z unit=10ms "
									  "fields=timestamp:36,shard:3,sequence:7",
									  NULL /* not preloaded */};

	for (int i = 0; i < lengthof(own); i++)
	{
		StringInfoData rows;
		bool		   is_custom = own[i] != NULL;

		initStringInfo(&rows);
		is_preloaded = own[i] != NULL;
		if (is_preloaded)
			read_layout_or_fail(own[i], strlen(own[i]), &layout);
		for (int preset = 0; preset < layout_preset_count; preset++)
		{
			const LayoutPreset *it = &layout_presets[preset];
			bool in_use = own[i] && strcmp(own[i], it->name) == 0;

			is_custom &= !in_use;
			expect_layout(&rows, it->specification, it->name, it->source,
						  in_use);
		}
		if (is_custom)
			expect_layout(&rows, own[i], "custom", "snowflake.layout", true);
		CHECK_ANSWER(rows.data, "SELECT * FROM snowflake_layouts()");
	}
	is_preloaded = true;
}

/* --- Shards and sessions ---------------------------------------------------------- */

/* The time of an id of a tick. */
static TimestampTz
time_of(int64 tick)
{
	return layout.epoch + tick * layout.tick_us;
}

/* A shard is shown if it has minted, or a call has waited for it. */
static void
try_shards(void)
{
	for (int i = 0; i < 16 * SHARDS; i++)
	{
		StringInfoData rows;

		initStringInfo(&rows);
		for (int shard = 0; shard < SHARDS; shard++)
		{
			ShardStats	  *stats = &shard_stats[shard];
			ShardCounters *counters = &stats->counters;
			int			   kind = (i + 5 * shard) % 16;

			stats->has_minted = kind & 1;
			stats->last_id = layout_pack(&layout, 100 + i, shard, 3);
			counters->minted = kind & 1 ? 10 + i : 0;
			counters->exhausted = kind & 8 ? 20 + i : 0;
			counters->clock_behind = kind & 2 ? 30 + i : 0;
			counters->waited_us = kind & 4 ? 40 + i : 0;
			if ((kind & 7) == 0)
				continue;
			appendStringInfo(&rows, "%s%d|%lld|%lld|%lld|%s|%s|%s|%s",
							 rows.len ? " " : "", shard,
							 (long long) counters->minted,
							 (long long) counters->exhausted,
							 (long long) counters->clock_behind,
							 text_of_us(counters->waited_us),
							 text_of(kind & 1, stats->last_id),
							 text_of_time(kind & 1, time_of(100 + i)),
							 text_of_time(true, clock_now - 7));
		}
		CHECK_ANSWER(rows.data, "SELECT * FROM snowflake_stat_shards()");
	}
	CHECK_ANSWER("", "SELECT snowflake_stat_reset()");
	CHECK_CALLS(" reset");
}

/* What a session holds is told as long as it holds the mark. */
static void
try_sessions(void)
{
	for (int i = 0; i < 32; i++)
	{
		StringInfoData rows;

		initStringInfo(&rows);
		for (int index = 0; index < BACKENDS; index++)
		{
			SessionStats *stats = &session_stats[index];
			int			  kind = (i + 7 * index) % 32;
			bool		  has_minted = kind & 1;
			bool		  holds = kind & 2;
			bool		  has_first = kind & 4;
			bool		  holds_one = kind & 8;
			int			  shard = (i + index) % SHARDS;

			is_session[index] = !(kind & 16);
			stats->pid = 1000 + index;
			stats->minted = has_minted ? 50 + i : 0;
			stats->last_id = layout_pack(&layout, 100 + i, shard, 3);
			stats->waits = 60 + i;
			stats->waited_us = 70 + i;
			stats->mark_tick = holds ? 90 + i : NO_TICK;
			stats->first_id = has_first ? 80 + i : NO_ID;
			stats->mark_shard = holds_one ? shard : ALL_SHARDS;
			if (kind & 16)
				continue;
			appendStringInfo(&rows, "%s%d|%s|%s|%lld|%lld|%s|%s|%s|%s",
							 rows.len ? " " : "", stats->pid,
							 text_of(has_minted, shard),
							 text_of(has_minted, stats->last_id),
							 (long long) stats->minted,
							 (long long) stats->waits,
							 text_of_us(stats->waited_us),
							 text_of_time(holds, time_of(90 + i)),
							 text_of(holds && has_first, stats->first_id),
							 text_of(holds && holds_one, shard));
		}
		CHECK_ANSWER(rows.data, "SELECT * FROM snowflake_stat_backends()");
	}
}

/* --- What hinders minting ---------------------------------------------------------- */

static void
try_probes(void)
{
	for (int i = 0; i < AREAS * 4; i++)
	{
		int			area = i / 4;
		bool		is_asked = i % 2 || strcmp(area_names[area], "leases");
		bool		takes_no_time = area == 2 || area == 3;
		const char *call =
			psprintf(" %s%s", area_names[area], takes_no_time ? "" : "!");

		needs_leases = i % 2;
		hinders = i / 2 % 2 ? area : AREAS;
		CHECK_ANSWER(hinders < AREAS && is_asked ?
						 psprintf("XX000: no %s", area_names[area]) :
						 "",
					 "SELECT snowflake_probe('%s')", area_names[area]);
		CHECK_CALLS(is_asked ? call : "");
	}
	CHECK_ANSWER("", "SELECT snowflake_probe('another')");
	CHECK_CALLS("");
}

/* The first area that hinders minting; what is not known takes no time to find. */
static void
try_hindrances(void)
{
	for (int i = 0; i < (AREAS + 1) * 8; i++)
	{
		ErrorData  *error = (ErrorData *) &known;
		const char *expected = "ok";
		char		asked[100] = "";

		hinders = i / 8;
		in_recovery = i % 2;
		differs = i / 2 % 2;
		needs_leases = i / 4 % 2;
		for (int area = 0; area < AREAS && !in_recovery; area++)
		{
			if ((area == 2 && !differs) || (area == 6 && !needs_leases))
				continue;
			sprintf(asked + strlen(asked), " %s", area_names[area]);
			if (area != hinders)
				continue;
			expected = area_names[area];
			break;
		}
		if (in_recovery)
			expected = "standby";
		CHECK(strcmp(find_hindrance(&error), expected) == 0);
		CHECK_CALLS(asked);
		if (in_recovery || strcmp(expected, "ok") == 0)
			CHECK(error == NULL);
		else
			CHECK(strcmp(error->message, psprintf("no %s", expected)) == 0);
	}
	in_recovery = false;
}

/* --- The horizon -------------------------------------------------------------------- */

static void
try_horizon(void)
{
	static const char *const waits_for[] = {"-", "disk",
											"synchronous standby"};

	differs = needs_leases = true;
	for (int i = 0; i < (AREAS + 1) * 3 * 128; i += 11)
	{
		int	 kind = i / 3 / (AREAS + 1);
		bool is_known = kind & 1;
		bool is_renewed = kind & 2;
		bool has_failed = kind & 4;
		bool has_number = kind & 8;
		bool follows = kind & 16;
		bool is_clone = kind & 32 && !follows;

		in_recovery = kind & 64;
		hinders = i / 3 % (AREAS + 1);
		known.horizon = is_known ? clock_now + 1500000 : DT_NOBEGIN;
		known.writer.incarnation = has_number ? 77 : 0;
		known.writer.clone_of = 88;
		known.writer.standby = follows;
		strcpy(known.writer.evidence, kind & 32 ? "what was found" : "");
		view.renewed_at = is_renewed ? clock_now - 11 : 0;
		view.failed = has_failed;
		strcpy(view.trouble.reason, "the disk is full");
		view.waits_for = i % 3;
		view.waits_since = clock_now - 22;
		CHECK_ANSWER(psprintf("%s|%s|%s|%s|%s|%s|%s|%s|%s|%s",
							  text_of_time(is_known, known.horizon),
							  text_if(is_known, "1.5"),
							  text_of_time(is_renewed, clock_now - 11),
							  has_failed ?
								  "the disk is full" :
							  in_recovery || hinders == AREAS ?
								  "-" :
								  psprintf("no %s", area_names[hinders]),
							  waits_for[i % 3],
							  text_of_time(i % 3 != 0, clock_now - 22),
							  text_if(has_number && !follows, number_text(77)),
							  text_if(is_clone, number_text(88)),
							  text_if(is_clone, "what was found"),
							  in_recovery	   ? "standby" :
							  hinders == AREAS ? "ok" :
												 area_names[hinders]),
					 "SELECT * FROM snowflake_horizon()");
		forget_calls();
	}
	in_recovery = false;
}

/* An id is before the horizon if its tick has begun then. */
static void
try_before(void)
{
	for (int i = -2; i <= 2; i++)
	{
		known.horizon = time_of(500) + i;
		for (int tick = 499; tick <= 501; tick++)
			CHECK_ANSWER(time_of(tick) <= known.horizon ? "t" : "f",
						 "SELECT snowflake_is_before_horizon(%lld)",
						 (long long) layout_pack(&layout, tick, 3, 3));
	}
}

/* What needs the setting says so, if the library is not preloaded. */
static void
try_not_preloaded(void)
{
	static const char *const functions[] = {"stat_shards()", "stat_backends()",
											"horizon()",
											"is_before_horizon(1)",
											"probe('worker')"};

	is_preloaded = false;
	for (int i = 0; i < lengthof(functions); i++)
		CHECK_ANSWER("XX000: it is not preloaded",
					 "SELECT * FROM snowflake_%s", functions[i]);
	is_preloaded = true;
}

static void
try_status(void)
{
	static const char specification[] =
		"epoch=2024-01-01T00:00:00Z unit=1ms "
		"fields=timestamp:41,shard:2,sequence:3";

	DO("SET LOCAL timezone = 'UTC'");
	make_functions();
	clock_now = INT64CONST(800000000000000);
	try_layouts();
	read_layout_or_fail(specification, strlen(specification), &layout);
	try_shards();
	try_sessions();
	try_probes();
	try_hindrances();
	try_horizon();
	try_before();
	try_not_preloaded();
}

PG_FUNCTION_INFO_V1(status_cases);
Datum
status_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	forget_calls();
	try_by_sql(fcinfo->flinfo->fn_oid, try_status);
	PG_RETURN_INT64(tried);
}
