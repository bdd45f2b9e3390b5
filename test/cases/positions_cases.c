/*-------------------------------------------------------------------------
 *
 * positions_cases.c
 *	  Shards and bounds in all states.
 *
 * positions_cases() calls the functions of positions.c, with memory, locks, barriers and
 * a clock of our own below them.  It compares each outcome with what the heads of
 * positions.c and positions.h say, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "positions_system.h"

PG_MODULE_MAGIC;

/* --- The start --------------------------------------------------------------- */

static const char *const layouts[] = {
	"epoch=2024-01-01T00:00:00Z unit=10ms fields=timestamp:41,shard:3,sequence:2",
	"epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,sequence:16,shard:3",
	"epoch=1970-01-01T00:00:00Z unit=1ms fields=timestamp:41,sequence:4",
	"epoch=2030-01-01T00:00:00Z unit=1s fields=timestamp:35,shard:2"};

static void
begin(bool needs_leases)
{
	static char room[ROOM + 2 * PG_CACHE_LINE_SIZE];

	memset(room, fill, sizeof(room));
	memory = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, room) + 8;
	is_there = false;
	wants_leases = needs_leases;
	bounds = NULL;
	positions = NULL;
	shards = NULL;
	end_lock = NULL;
	positions_shmem_startup();
	CHECK(end_lock == &locks[END_LOCK].lock);
}

static void
check_shard(const ShardState *state, int64 last)
{
	static const ShardCounters none;

	CHECK(*(const char *) &state->lock == 'f');
	CHECK(state->last == last);
	CHECK(state->opened_with == -1 && state->minted_before == -1);
	CHECK(memcmp(&state->counters, &none, sizeof(none)) == 0);
}

static void
try_start(void)
{
	for (int i = 0; i < 4; i++)
	{
		int			leases = i & 1;
		const char *end;
		char		before[ROOM];

		fill = i & 2 ? 0x55 : 0;
		now = 1234567;
		begin(leases);
		CHECK((uintptr_t) bounds % PG_CACHE_LINE_SIZE == 0);
		CHECK((char *) bounds >= memory);
		CHECK((char *) positions >= (char *) (bounds + 1));
		CHECK((char *) shards >= (char *) (positions + 1));
		CHECK((uintptr_t) positions % PG_CACHE_LINE_SIZE == 0);
		CHECK((uintptr_t) shards % PG_CACHE_LINE_SIZE == 0);
		end = (char *) &shards[layout_last_shard(&layout) + 1];
		CHECK(end <= memory + positions_shmem_size());
		CHECK(*end == fill);

		/* nothing is known yet, and nothing may be minted */
		CHECK(pg_atomic_read_u64(&bounds->latest) == 0);
		CHECK(pg_atomic_read_u64(&bounds->horizon) == 0);
		CHECK(pg_atomic_read_u64(&bounds->renew) == 0);
		CHECK(pg_atomic_read_u64(&bounds->found_horizon) == 0);
		CHECK(!bounds_are_known());
		CHECK(positions_reset_at() == 1234567);
		CHECK(pg_atomic_read_u64(&positions->log_clock_after) == 0);
		CHECK(positions_need_leases() == leases);
		CHECK(positions_are_leased(layout.last_mint_tick) == !leases);
		CHECK(positions_are_leased(0) == !leases);
		CHECK(positions_have_changed(0) == leases);
		for (int i = 0; i <= layout_last_shard(&layout); i++)
			check_shard(&shards[i].state, leases ? NEVER : -1);

		/* another process finds it, and leaves it as it is */
		memcpy(before, memory, sizeof(before));
		bounds = NULL;
		positions = NULL;
		shards = NULL;
		is_there = true;
		now++;
		positions_shmem_startup();
		CHECK((char *) &shards[layout_last_shard(&layout) + 1] == end);
		CHECK(positions_reset_at() == 1234567);
		CHECK(!bounds_are_known());
		CHECK(memcmp(before, memory, sizeof(before)) == 0);
	}
}

/* --- The bounds -------------------------------------------------------------- */

static pg_atomic_uint64 bound;
static int64			raised_to; /* by somebody else */

static void
raise_it(void)
{
	pg_atomic_write_u64(&bound, raised_to);
}

/* Whatever others do to it, it only grows, and to what the tick asks for. */
static void
try_raising(void)
{
	for (int64 from = -2; from < 4; from++)
		for (int64 tick = -2; tick < 4; tick++)
			for (raised_to = from; raised_to < 4; raised_to++)
			{
				pg_atomic_write_u64(&bound, from);
				meanwhile = raise_it;
				CHECK(bounds_raise(&bound, tick) ==
					  (from < tick ? raised_to : from));
				CHECK((int64) pg_atomic_read_u64(&bound) ==
					  (from >= tick ? from : Max(tick, raised_to)));
				meanwhile = NULL;
			}
}

static void
raise_both(void)
{
	pg_atomic_write_u64(&bounds->latest, 8);
	pg_atomic_write_u64(&bounds->horizon, 9);
}

static void
lower_known(void)
{
	pg_atomic_write_u32(&bounds->are_known, false);
}

/* The horizon is read before the latest tick, and what is known before what it tells. */
static void
try_order(void)
{
	int64 horizon = -1;
	int64 latest = -1;

	begin(false);
	pg_atomic_write_u64(&bounds->latest, 3);
	pg_atomic_write_u64(&bounds->horizon, 5);
	bounds_read(&horizon, &latest);
	CHECK(horizon == 5 && latest == 3);
	meanwhile = raise_both;
	bounds_read(&horizon, &latest);
	CHECK(horizon == 5 && latest == 8);

	pg_atomic_write_u32(&bounds->are_known, true);
	CHECK(bounds_are_known());
	meanwhile = lower_known;
	CHECK(bounds_are_known());
	CHECK(meanwhile == NULL);
	CHECK(!bounds_are_known());
}

/* --- A shard ----------------------------------------------------------------- */

typedef enum Step
{
	OPENS,		 /* from a tick on that has passed */
	OPENS_AHEAD, /* from a later one on */
	CLOSES,
	MINTS,
	TIME_GOES_ON,
	STEPS
} Step;

#define STEPS_AT_ONCE 6

/* What is true of a shard, as ids and ticks tell it. */
typedef struct Truth
{
	bool  is_open;
	int64 minted_tick; /* of the last id; -1: none */
	int64 minted_sequence;
	int64 next_tick; /* the first one that the next id can be of */
	int64 end;		 /* the first one that cannot have ids by what has been */
} Truth;

static int64
latest_tick(void)
{
	return (int64) pg_atomic_read_u64(&bounds->latest);
}

static void
open_it(int shard, int64 tick, Truth *truth)
{
	int64 latest = Max(latest_tick(), tick - 1);

	positions_open(shard, tick);
	CHECK(latest_tick() == latest);
	if (truth->is_open)
		return;
	truth->is_open = true;
	truth->next_tick = latest + 1;
	truth->end = latest + 1;
}

/* As take() does: the next position, or the first one of the latest tick. */
static void
mint_on(int shard, Truth *truth)
{
	ShardState *state = &shards[shard].state;
	int64		sequences = layout_last_sequence(&layout) + 1;
	int64		position;
	int64		tick;

	if (!truth->is_open)
	{
		CHECK(state->last == NEVER);
		return;
	}
	position = Max(state->last + 1, latest_tick() * sequences);
	tick = position / sequences;
	state->last = position;
	bounds_raise(&bounds->latest, tick);
	CHECK(tick >= truth->next_tick);
	CHECK(tick > truth->minted_tick ||
		  (tick == truth->minted_tick &&
		   position % sequences == truth->minted_sequence + 1));
	truth->minted_tick = truth->next_tick = tick;
	truth->minted_sequence = position % sequences;
	truth->end = tick + 1;
}

static void
check_truth(int shard, const Truth *truth)
{
	int64	   found = (int64) pg_atomic_read_u64(&bounds->found_horizon);
	bool	   has_minted = truth->minted_tick >= 0;
	ShardStats stats;

	memset(&stats, 0x55, sizeof(stats));
	CHECK(positions_is_open(shard) == truth->is_open);
	CHECK(positions_end(shard) == Max(found, truth->end));
	positions_read(shard, &stats);
	CHECK(stats.counters.waited_us == 5);
	CHECK(stats.has_minted == has_minted);
	CHECK(!has_minted ||
		  stats.last_id == layout_pack(&layout, truth->minted_tick, shard,
									   truth->minted_sequence));
}

/* All that can happen to a shard, in any order. */
static void
try_shard(int64 found, bool leases)
{
	int shard = layout_last_shard(&layout);
	int most = 1;

	for (int i = 0; i < STEPS_AT_ONCE; i++)
		most *= STEPS;
	for (int way = 0; way < most; way++)
	{
		Truth truth = {.minted_tick = -1};

		snprintf(what_is_tried, sizeof(what_is_tried), "way %d, found %lld",
				 way, (long long) found);
		begin(leases);
		pg_atomic_write_u64(&bounds->found_horizon, found);
		pg_atomic_write_u64(&bounds->latest, found);
		truth.is_open = !leases;
		positions_count_wait(shard, 5);
		check_truth(shard, &truth);
		for (int i = 0, rest = way; i < STEPS_AT_ONCE; i++, rest /= STEPS)
		{
			switch ((Step) (rest % STEPS))
			{
				case OPENS:
					open_it(shard, latest_tick() - 1, &truth);
					break;
				case OPENS_AHEAD:
					open_it(shard, latest_tick() + 3, &truth);
					break;
				case CLOSES:
					positions_close(shard);
					truth.is_open = false;
					break;
				case MINTS:
					mint_on(shard, &truth);
					break;
				default:
					bounds_raise(&bounds->latest, latest_tick() + 2);
			}
			check_truth(shard, &truth);
		}
	}
}

/* --- Leases ------------------------------------------------------------------ */

static void
set_end(TimestampTz end)
{
	LWLockAcquire(end_lock, LW_EXCLUSIVE);
	positions_set_common_end(end);
	LWLockRelease(end_lock);
}

/* Ids are within the leases if their time is; and no horizon is after such ids. */
static void
try_end(TimestampTz end, int64 from)
{
	set_end(end);
	memset(takes, 0, sizeof(takes));
	for (int64 tick = from; tick < from + 6; tick++)
	{
		int64 horizon = tick;

		CHECK(positions_are_leased(tick) ==
			  (layout_time_of_tick(&layout, tick) < end));
		while (horizon > 0 && layout_time_of_tick(&layout, horizon - 1) >= end)
			horizon--;
		for (int64 before = from; before < from + 6; before++)
		{
			pg_atomic_write_u64(&bounds->horizon, before);
			positions_raise_horizon(tick);
			CHECK((int64) pg_atomic_read_u64(&bounds->horizon) ==
				  Max(before, horizon));
		}
	}
	CHECK(takes[LW_SHARED] == 6 * 7 && takes[LW_EXCLUSIVE] == 0);
	CHECK(held == NULL);
}

static void
try_ends(void)
{
	begin(true);
	for (int64 tick = 1; tick < 5; tick++)
	{
		for (int us = -1; us <= 1; us++)
			try_end(layout_time_of_tick(&layout, tick) + us, 0);
	}
	try_end(DT_NOBEGIN, 0);
	try_end(DT_NOEND, 0);
	try_end(DT_NOEND, layout.last_mint_tick - 5);
	try_end(layout_time_of_tick(&layout, layout.last_mint_tick),
			layout.last_mint_tick - 5);
}

/* The settings ask for leases; since the start, or now. */
static void
try_heeding(void)
{
	for (int i = 0; i < 4; i++)
	{
		bool needed = i & 1;
		bool wanted = i & 2;
		bool closes = wanted && !needed;

		begin(needed);
		set_end(DT_NOEND);
		for (int shard = 0; shard <= layout_last_shard(&layout); shard++)
			positions_open(shard, 0);
		memset(takes, 0, sizeof(takes));
		wants_leases = wanted;
		positions_heed_settings();
		CHECK(takes[LW_EXCLUSIVE] == closes && takes[LW_SHARED] == 0);
		CHECK(positions_need_leases() == (needed || wanted));
		CHECK(positions_are_leased(0) == !closes);
		for (int shard = 0; shard <= layout_last_shard(&layout); shard++)
			CHECK(positions_is_open(shard) == !closes);
		CHECK(held == NULL);
	}
}

static const OwnShards *
change_and_give(void)
{
	positions_note_change();
	return &leased;
}

static uint32 changes_at_barrier;

static void
look_at_changes(void)
{
	changes_at_barrier = pg_atomic_read_u32(&positions->changes);
}

static void
try_changes(void)
{
	static const Leasing ours = {.own_shards = change_and_give};

	leasing = &ours;
	for (int leases = 0; leases < 2; leases++)
	{
		uint32 seen = 77;

		begin(leases);
		for (int i = 0; i < 3; i++)
		{
			uint32 before = pg_atomic_read_u32(&positions->changes);

			/* the change can be seen before the latest tick is read */
			meanwhile = look_at_changes;
			positions_note_change();
			CHECK(meanwhile == NULL);
			CHECK(changes_at_barrier == before + 1);
			CHECK(positions_have_changed(before) == leases);
			CHECK(!positions_have_changed(before + 1));

			/* one that comes while the shards are looked at shows */
			CHECK(positions_own_shards(&seen) == (leases ? &leased : &asked));
			CHECK(seen == (leases ? before + 1 : 77));
			CHECK(positions_have_changed(seen) == leases);
		}
	}
}

/* --- Counters ---------------------------------------------------------------- */

static void
try_counters(void)
{
	int shard_count = layout_last_shard(&layout) + 1;

	now = 1;
	begin(false);
	for (int times = 0; times < 3; times++)
	{
		now++;
		for (int shard = 0; shard < shard_count; shard++)
		{
			ShardState	 *state = &shards[shard].state;
			ShardCounters expected = {.waited_us = 100 + 3 * shard,
									  .clock_behind = 1};
			ShardStats	  stats;

			may_log = false;
			positions_count_wait(shard, 100);
			positions_count_wait(shard, 3 * shard);
			positions_note_clock_behind(shard, 5, 5);
			state->last = shard;
			positions_read(shard, &stats);
			CHECK(memcmp(&stats.counters, &expected, sizeof(expected)) == 0);
		}
		CHECK(positions_reset_at() == now - 1);
		positions_reset_counters();
		CHECK(positions_reset_at() == now);
		for (int shard = 0; shard < shard_count; shard++)
		{
			CHECK(shards[shard].state.last == shard);
			shards[shard].state.last = -1;
			check_shard(&shards[shard].state, -1);
		}
	}
}

/* --- A clock that is behind --------------------------------------------------- */

static char logged[200];

static void
note_log(ErrorData *error)
{
	if (error->elevel == LOG)
		strlcpy(logged, error->message, sizeof(logged));
	error->output_to_server = false;
}

static void
try_logging(void)
{
	begin(false);
	pg_atomic_write_u64(&bounds->found_horizon, 6);
	for (int i = 0; i < 6; i++)
	{
		int64 latest = 5 + i / 2;

		may_log = i % 2;
		logged[0] = '\0';
		positions_note_clock_behind(0, 1500 * US_PER_MS, latest);
		CHECK(shards[0].state.counters.clock_behind == i + 1);
		CHECK(strcmp(logged, !may_log ? "" :
							 latest == 6 ?
										"clock is 1.5 s behind the snowflake "
										"horizon that was found at the start" :
										"clock is 1.5 s behind the last "
										"snowflake id") == 0);
	}
}

static void
fail_by_two_seconds(bool patient)
{
	TimestampTz latest = layout_time_of_tick(&layout, 4000);

	positions_fail_clock_behind(latest - 2 * USECS_PER_SEC, 4000,
								250 * US_PER_MS);
}

static void
mint_meanwhile(void)
{
	pg_atomic_write_u64(&bounds->latest, layout.last_mint_tick);
}

static bool
fails_with(ErrorData *error, const char *message)
{
	return message == NULL ? error == NULL :
							 error && strcmp(error->message, message) == 0;
}

static void
try_clock(void)
{
	TimestampTz latest = layout_time_of_tick(&layout, 4000);
	TimestampTz end = layout_time_of_tick(&layout, layout.last_mint_tick + 1);
	ErrorData  *error;
	char	   *time = time_text(latest);

	begin(false);
	pg_atomic_write_u64(&bounds->latest, 4000);
	settings_clock_tolerance_ms = 250;
	error = caught_error(fail_by_two_seconds);
	CHECK(fails_with(error, "clock is 2.0 s behind the last snowflake id"));
	CHECK(error->sqlerrcode == ERRCODE_SYSTEM_ERROR);
	CHECK(strcmp(error->detail,
				 psprintf("Ids of the times before %s may exist already. "
						  "Waited 250 ms for the clock; "
						  "\"snowflake.clock_tolerance\" is 250 ms.",
						  time)) == 0);
	CHECK(strstr(error->hint, time) != NULL);

	/* a call fails where it would have to wait for longer than is tolerated */
	for (int i = 0; i < 2 * 3 * 5; i++)
	{
		static const int tolerances[] = {0, 1, 3000};
		int				 tolerance = tolerances[i / 2 % 3];
		int				 late_us = i / 6 - 2;
		bool			 known = i % 2;

		pg_atomic_write_u32(&bounds->are_known, known);
		settings_clock_tolerance_ms = tolerance;
		now = latest - tolerance * 1000 - late_us;
		error = caught_error(positions_check_clock);
		CHECK((error != NULL) == (known && late_us > 0));
		CHECK(!error || strstr(error->message, "behind the last snowflake"));
	}

	/* who mints while the clock is read is not ahead of it */
	pg_atomic_write_u32(&bounds->are_known, true);
	now = latest;
	before_time = mint_meanwhile;
	CHECK(caught_error(positions_check_clock) == NULL);
	CHECK(latest_tick() == layout.last_mint_tick);

	/* nor is there an id of a time that the layout does not have */
	for (int known = 0; known < 2; known++)
	{
		pg_atomic_write_u64(&bounds->latest, 0);
		pg_atomic_write_u32(&bounds->are_known, known);
		now = end - 1;
		CHECK(caught_error(positions_check_clock) == NULL);
		now = end;
		CHECK(fails_with(caught_error(positions_check_clock),
						 "the layout of snowflake ids has expired"));
		now = layout.epoch;
		CHECK(caught_error(positions_check_clock) == NULL);
		now = layout.epoch - 1;
		CHECK(fails_with(caught_error(positions_check_clock),
						 "clock is before the epoch of the layout"));
	}
}

PG_FUNCTION_INFO_V1(positions_cases);
Datum
positions_cases(PG_FUNCTION_ARGS)
{
	emit_log_hook_type hook = emit_log_hook;

	tried = 0;
	emit_log_hook = note_log;
	PG_TRY();
	{
		for (int i = 0; i < lengthof(layouts); i++)
		{
			LayoutError error;

			CHECK(
				layout_parse(layouts[i], strlen(layouts[i]), &layout, &error));
			try_start();
			try_order();
			for (int way = 0; way < 4; way++)
				try_shard(way / 2 * 7, way % 2);
			try_ends();
			try_heeding();
			try_changes();
			try_counters();
			try_logging();
			try_clock();
		}
		try_raising();
	}
	PG_FINALLY();
	{
		emit_log_hook = hook;
	}
	PG_END_TRY();
	PG_RETURN_INT64(tried);
}
