/*-------------------------------------------------------------------------
 *
 * settled_cases.c
 *	  The mark of each statement, in all orders of statements, and waiting for the mark.
 *
 * settled_cases() calls snowflake_settled() and snowflake_wait_settled() in a server that
 * has other snapshots, transactions, clocks and marks.  It compares what they do with what
 * the head of settled.c and the reference say, and returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "../../src/clock.h"
#include "../../src/mark.h"
#include "../../src/server.h"
#include "../../src/sessions.h"
#include "calls.h"

PG_MODULE_MAGIC;

#include "../../src/layout.c"
#include "../../src/shards.c"

/* --- The server ------------------------------------------------------------- */

#define LAST_SHARD 7
#define MOST_SNAPSHOTS 6

static MemoryContext our_top;
static MemoryContext our_transaction;
static int			 kept; /* pieces of memory that outlive a transaction */
static int			 parsed;
static bool			 in_recovery;
static bool			 in_parallel;
static bool			 has_one_snapshot;
static int64		 steady_us;

/* The snapshots of statements, one in another; each has the place of an older one. */
static SnapshotData snapshots[MOST_SNAPSHOTS];
static int			snapshot_count;
static SnapshotData taken; /* as the transaction has it, before it is copied */

static void
our_push(Snapshot snapshot)
{
	SnapshotData *copy = &snapshots[snapshot_count++];

	CHECK(snapshot == &taken && snapshot_count <= MOST_SNAPSHOTS);
	memset(copy, 0, sizeof(*copy));
	copy->snapshot_type = SNAPSHOT_MVCC;
	copy->copied = true;
}

static Snapshot
our_active(void)
{
	return &snapshots[snapshot_count - 1];
}

/* What is behind has something in it. */
static void *
our_palloc0(Size size)
{
	char *bytes = palloc(size + 8);

	memset(bytes, 0, size);
	memset(bytes + size, 1, 8);
	return bytes;
}

#undef IsParallelWorker
#define IsParallelWorker() in_parallel
#define RecoveryInProgress() in_recovery
#undef IsolationUsesXactSnapshot
#define IsolationUsesXactSnapshot() has_one_snapshot
#define GetConfigOption(name, missing_ok, restrict_privileged) \
	"repeatable read"
#define GetTransactionSnapshot() (&taken)
#define GetActiveSnapshot() our_active()
#define PushActiveSnapshot(snapshot) our_push(snapshot)
#define PopActiveSnapshot() (snapshot_count--)
#define TopMemoryContext our_top
#define TopTransactionContext our_transaction
#define MemoryContextAlloc(context, size) \
	(kept += (context) == our_top, MemoryContextAlloc(context, size))
#define MemoryContextAllocZero(context, size) \
	(kept += (context) == our_top, MemoryContextAllocZero(context, size))
#define pfree(pointer) \
	(kept -= GetMemoryChunkContext(pointer) == our_top, pfree(pointer))
#define palloc0(size) our_palloc0(size)
#define shards_parse(text, last_shard, mine, error) \
	(parsed++, shards_parse(text, last_shard, mine, error))

#include "../../src/settled.c"

/* --- What is below it --------------------------------------------------------- */

static Layout layout = {.timestamp_shift = 10, .shard_bits = 3};

const Layout *
settings_layout(void)
{
	return &layout;
}

const Layout *
server_layout(void)
{
	called(" layout");
	return &layout;
}

static Hold my_hold;

Hold
session_hold(void)
{
	return my_hold;
}

/* A transaction holds the mark of what is asked for, or not: no need to look at the list. */
int64
hold_tick(const Hold *hold, const OwnShards *shards)
{
	return shards ? hold->others_tick : hold->tick;
}

int64
steady_clock_us(void)
{
	return steady_us;
}

static int64			now_tick; /* where the mark is */
static bool				moves;	  /* with each look at it */
static int64			rises_at; /* by 1, when this time has come */
static const OwnShards *asked;

int64
mark_unsettled_tick(Snapshot snapshot, const OwnShards *shards)
{
	called(" mark");
	CHECK(snapshot == our_active() || shards == NULL);
	asked = shards;
	if (moves)
		now_tick++;
	return now_tick + (steady_us >= rises_at);
}

static int64 leap_us; /* a wait lasts until then */

int64
wait_outside_locks(int64 us, WaitName *event, ConditionVariable *condition)
{
	called(" wait " INT64_FORMAT, us);
	CHECK(strcmp(event->name, "SnowflakeSettled") == 0 && condition == NULL);
	CHECK(snapshot_count == 1);
	steady_us = Max(steady_us + us, leap_us);
	return us;
}

/* --- Calls --------------------------------------------------------------------- */

static int64	   after;
static Interval	   timeout;
static const char *list_text; /* NULL: of all shards */
static int64	   answer;

static void
call(PGFunction function, int arguments)
{
	LOCAL_FCINFO(fcinfo, 3);

	InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
	memset(fcinfo->args, 0, 3 * sizeof(NullableDatum));
	fcinfo->args[0].value = Int64GetDatum(after);
	fcinfo->args[1].value = IntervalPGetDatum(&timeout);
	/* a list is there, though nobody may look at it */
	fcinfo->args[arguments].value = CStringGetTextDatum("0-7");
	fcinfo->nargs = arguments;
	if (list_text)
		fcinfo->args[fcinfo->nargs++].value = CStringGetTextDatum(list_text);
	answer = function == snowflake_wait_settled ?
				 DatumGetBool(function(fcinfo)) :
				 DatumGetInt64(function(fcinfo));
}

static void
settled(void)
{
	call(snowflake_settled, 0);
}

static void
wait_settled(void)
{
	call(snowflake_wait_settled, 2);
}

static void
begin_statement(void)
{
	our_push(&taken);
}

static void
end_transaction(void)
{
	MemoryContextReset(our_transaction);
	CHECK(marks == NULL);
}

static void
begin(void)
{
	end_transaction();
	forget_lists();
	CHECK(kept == 0);
	forget_calls();
	my_hold = (Hold){.tick = NO_TICK, .others_tick = NO_TICK};
	steady_us = leap_us = snapshot_count = 0;
	in_recovery = in_parallel = has_one_snapshot = moves = false;
	rises_at = PG_INT64_MAX;
	now_tick = 70;
	list_text = NULL;
	begin_statement();
}

/* --- Lists of shards -------------------------------------------------------------- */

static void
check_list(const char *text, const char *digits)
{
	snprintf(what_is_tried, sizeof(what_is_tried), "list \"%s\"", text);
	begin();
	list_text = text;
	CHECK(error_of(settled)[0] == '\0');
	CHECK(asked->count == strlen(digits) && asked->automatic == 0);
	for (int i = 0; i < asked->count; i++)
		CHECK(asked->shard[i] == digits[i] - '0');
}

static void
check_no_list(const char *text, const char *detail)
{
	snprintf(what_is_tried, sizeof(what_is_tried), "no list \"%s\"", text);
	begin();
	list_text = text;
	for (int i = 0; i < 2; i++)
		CHECK(
			strcmp(error_of(settled),
				   psprintf("22023: invalid list of shards \"%s\"; %s; Write "
							"shards from 0 to 7 and ranges of them, such as "
							"'5', '0-7' or '1,5,9-12'.",
							text, detail)) == 0);
	CHECK(kept == 0 && known == NULL);
}

static void
try_texts(void)
{
	for (int set = 1; set < 1 << (LAST_SHARD + 1); set++)
	{
		char  digits[10] = "";
		char  text[20] = "";
		char *end = text;

		for (int shard = 0; shard <= LAST_SHARD; shard++)
		{
			if (!(set >> shard & 1))
				continue;
			digits[strlen(digits)] = '0' + shard;
			end += sprintf(end, "%s%d", end > text ? "," : "", shard);
		}
		check_list(text, digits);
	}
	check_list(" 2-4, 3 ,0", "0234");
	check_no_list("", "No shard is named.");
	check_no_list(" ", "No shard is named.");
	check_no_list("8",
				  "Shard 8 is out of range: the layout has shards 0 to 7.");
	check_no_list("1,2x", "\"2x\" is not a shard or a range of shards.");
	check_no_list("0-7,8",
				  "Shard 8 is out of range: the layout has shards 0 to 7.");
}

#define TEXTS 130

/*
 * One of many texts.  Some are of the same length, others begin alike.
 */
static const char *
text_at(int i)
{
	return psprintf("%d%*s", i % (LAST_SHARD + 1), i / (LAST_SHARD + 1), "");
}

static bool is_known[TEXTS];
static int	known_texts;

/* A list is read once, until so many are known before a transaction's first mark. */
static void
ask_for_list(int i, bool is_first)
{
	int before = parsed;

	snprintf(what_is_tried, sizeof(what_is_tried), "list %d, %d known", i,
			 known_texts);
	list_text = text_at(i);
	snapshot_count = 0;
	begin_statement();
	settled();
	CHECK(asked->count == 1 && asked->shard[0] == i % (LAST_SHARD + 1));
	CHECK(parsed - before == !is_known[i]);
	if (is_first && !is_known[i] && known_texts > 100)
	{
		memset(is_known, 0, sizeof(is_known));
		known_texts = 0;
	}
	known_texts += !is_known[i];
	is_known[i] = true;
	CHECK(kept == 2 * known_texts);
}

static void
try_many_lists(void)
{
	pg_prng_state random;
	bool		  is_first = true;

	pg_prng_seed(&random, 2);
	for (int first = 98; first < 104; first++)
	{
		begin();
		memset(is_known, 0, sizeof(is_known));
		known_texts = 0;
		for (int i = 0; i < first; i++)
			ask_for_list(i, i == 0);
		end_transaction();
		ask_for_list(first, true);
		for (int n = 0; n < 500; n++)
		{
			is_first = pg_prng_uint64_range(&random, 0, 40) == 0;
			if (is_first)
				end_transaction();
			ask_for_list(pg_prng_uint64_range(&random, 0, TEXTS - 1),
						 is_first);
		}
	}
}

/* --- Statements --------------------------------------------------------------------- */

#define LISTS 3

static const char *const lists[LISTS] = {NULL, "1", "1 "};

typedef enum Step
{
	ASKS, /* with each of the lists */
	BEGINS = LISTS,
	ENDS,
	COMMITS,
	STEPS
} Step;

/* The ticks of the statements that run, by list; 0: not asked for yet. */
static int64 ticks[MOST_SNAPSHOTS + 1][LISTS];

static void
take_step(Step step)
{
	int64 *mine = ticks[snapshot_count];
	int64  before = now_tick;

	switch (step)
	{
		case BEGINS:
			begin_statement();
			memset(ticks[snapshot_count], 0, sizeof(ticks[0]));
			break;
		case ENDS:
			snapshot_count--;
			break;
		case COMMITS:
			end_transaction();
			snapshot_count = 0;
			take_step(BEGINS);
			break;
		default:
			list_text = lists[step];
			settled();
			CHECK(now_tick == before + (mine[step] == 0));
			if (mine[step] == 0)
				mine[step] = now_tick;
			CHECK(answer == mine[step] << layout.timestamp_shift);
			CHECK(mine[step] != now_tick || (asked == NULL) == (step == 0));
	}
}

#define STEPS_AT_ONCE 6

static void
try_statements(void)
{
	int ways = 1;

	for (int i = 0; i < STEPS_AT_ONCE; i++)
		ways *= STEPS;
	for (int way = 0; way < ways; way++)
	{
		snprintf(what_is_tried, sizeof(what_is_tried), "way %d", way);
		begin();
		moves = true;
		memset(ticks, 0, sizeof(ticks));
		for (int i = 0, rest = way; i < STEPS_AT_ONCE; i++, rest /= STEPS)
		{
			Step step = rest % STEPS;

			if (step == ENDS && snapshot_count == 1)
				step = COMMITS;
			if (step != BEGINS || snapshot_count < MOST_SNAPSHOTS)
				take_step(step);
		}
	}
}

/* Who cannot have a mark: on a standby, in a parallel worker, without a snapshot. */
static void
try_refusals(void)
{
	for (int i = 0; i < 16; i++)
	{
		Snapshot snapshot;

		snprintf(what_is_tried, sizeof(what_is_tried), "refusal %d", i);
		begin();
		in_recovery = i & 1;
		in_parallel = i & 2;
		snapshot = our_active();
		if (i & 4)
			snapshot->copied = false;
		if (i & 8)
			snapshot->snapshot_type = SNAPSHOT_SELF;
		CHECK(strcmp(
				  error_of(settled),
				  in_recovery ? "25006: cannot tell which ids are settled "
								"during recovery; Call snowflake_settled() on "
								"the primary server." :
				  in_parallel ? "25000: cannot tell which ids are settled in "
								"a parallel worker; A statement would have "
								"more than one mark.; A function that calls "
								"snowflake_settled() must be PARALLEL "
								"RESTRICTED or PARALLEL UNSAFE." :
				  i > 0 ? "XX000: cannot tell which ids are settled without a "
						  "snapshot" :
						  "") == 0);
		CHECK_CALLS(i == 0 ? " layout mark" : i & 3 ? "" : " layout");
	}
}

/* --- Waiting --------------------------------------------------------------------------- */

/* The pauses between looks, from the calls: they begin with 1 ms, and grow to 50 ms. */
static void
check_pauses(int64 end)
{
	int64 before = 0;
	int64 sum = 0;

	for (const char *at = calls; (at = strstr(at, " wait ")) != NULL; at++)
	{
		int64 pause = strtol(at + strlen(" wait "), NULL, 10);
		bool  is_last = sum + pause == end;

		CHECK(pause > 0);
		sum += pause;
		CHECK(sum <= end);
		if (before == 0)
			CHECK(pause == 1000 || (is_last && pause < 1000));
		else
			CHECK(pause == Min(before * 3 / 2, 50000) ||
				  (is_last && pause < Min(before * 3 / 2, 50000)));
		before = pause;
	}
	CHECK(sum == steady_us);
}

static void
try_waits(void)
{
	static const int64 ends[] = {0,	   1,	 999,  1000,	1001,
								 2499, 2500, 2501, 1000000, -7};
	static const int64 rises[] = {0,	1,	  1000,	 1001,	  2500,
								  2501, 9000, 60000, 1000000, PG_INT64_MAX};
	static const int64 afters[] = {(INT64CONST(70) << 10) - 1, 70 << 10,
								   (71 << 10) - 1, 71 << 10};

	for (int i = 0; i < lengthof(ends) * lengthof(rises) * 4 * 2; i++)
	{
		int64 end = ends[i % lengthof(ends)];
		int64 rise = rises[i / lengthof(ends) % lengthof(rises)];
		int	  of_list = i / (lengthof(ends) * lengthof(rises)) % 2;
		int	  which = i / (lengthof(ends) * lengthof(rises)) / 2;
		bool  is_settled;

		snprintf(what_is_tried, sizeof(what_is_tried),
				 "wait for " INT64_FORMAT ", rises at " INT64_FORMAT ", %d",
				 end, rise, which);
		begin();
		timeout = (Interval){.time = end};
		end = Max(end, 0);
		rises_at = rise;
		after = afters[which];
		list_text = of_list ? "1" : NULL;
		wait_settled();
		CHECK((asked != NULL) == of_list);
		CHECK(snapshot_count == 1);
		is_settled = which == 0 || (which < 3 && rise <= end);
		CHECK((answer != 0) == is_settled);
		check_pauses(end);
		if (!is_settled)
			CHECK(steady_us == end);
		else if (which == 0)
			CHECK(steady_us == 0);
		else
			CHECK(steady_us >= rise && steady_us < rise + 50000);
	}
}

/* Up to 365 days; the clock leaps to just before the end. */
static void
try_long_waits(void)
{
	static const struct
	{
		Interval timeout;
		int64	 end;
	} cases[] = {{{.time = 3, .day = 2}, 2 * USECS_PER_DAY + 3},
				 {{.time = 3, .month = 1}, 30 * USECS_PER_DAY + 3},
				 {{.time = -3, .day = 1, .month = 1}, 31 * USECS_PER_DAY - 3},
				 {{.day = 365}, 365 * USECS_PER_DAY},
				 {{.time = 1, .day = 365}, 365 * USECS_PER_DAY},
				 {{.time = -1, .day = 365}, 365 * USECS_PER_DAY - 1},
				 {{.month = 13}, 365 * USECS_PER_DAY},
				 {{PG_INT64_MAX, PG_INT32_MAX, PG_INT32_MAX},
				  365 * USECS_PER_DAY},
				 {{PG_INT64_MIN, PG_INT32_MIN, PG_INT32_MIN}, 0}};

	for (int i = 0; i < lengthof(cases); i++)
	{
		snprintf(what_is_tried, sizeof(what_is_tried), "long wait %d", i);
		begin();
		timeout = cases[i].timeout;
		leap_us = cases[i].end - 1;
		after = 71 << 10;
		wait_settled();
		CHECK(!answer && steady_us == cases[i].end);
		CHECK_CALLS(cases[i].end == 0 ?
						" layout mark" :
						" layout mark wait 1000 layout mark wait 1 layout "
						"mark");
	}
}

/* Who would wait in vain is told, unless the id is settled. */
static void
try_vain_waits(void)
{
	for (int i = 0; i < 32; i++)
	{
		bool is_settled = i & 1;
		bool of_list = i & 2;
		bool has_minted = of_list ? i & 8 : i & 4;

		snprintf(what_is_tried, sizeof(what_is_tried), "vain wait %d", i);
		begin();
		timeout = (Interval){.time = i % 3 - 1};
		after = (70 << 10) - is_settled;
		list_text = of_list ? "1" : NULL;
		my_hold.tick = i & 4 ? 69 : NO_TICK;
		my_hold.others_tick = i & 8 ? 69 : NO_TICK;
		has_one_snapshot = i & 16;
		CHECK(strcmp(error_of(wait_settled),
					 is_settled ? "" :
					 has_one_snapshot ?
								  "25000: cannot wait for ids to be settled "
								  "in a transaction with one snapshot; The "
								  "isolation level is \"repeatable read\", "
								  "and its snapshot sees nothing that commits "
								  "later.; Wait with isolation level \"read "
								  "committed\"." :
					 has_minted ? "25000: cannot wait for ids to be settled "
								  "in a transaction that has minted; The mark "
								  "stays at its first id until it ends.; Wait "
								  "after COMMIT." :
								  "") == 0);
	}
}

PG_FUNCTION_INFO_V1(settled_cases);
Datum
settled_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	our_top = AllocSetContextCreate(CurrentMemoryContext, "what is kept",
									ALLOCSET_DEFAULT_SIZES);
	our_transaction =
		AllocSetContextCreate(CurrentMemoryContext, "transaction",
							  ALLOCSET_DEFAULT_SIZES);
	try_texts();
	try_many_lists();
	try_statements();
	try_refusals();
	try_waits();
	try_long_waits();
	try_vain_waits();
	begin(); /* nothing is left */
	PG_RETURN_INT64(tried);
}
