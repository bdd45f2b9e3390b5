/*-------------------------------------------------------------------------
 *
 * mint_walk_cases.c
 *	  Long walks through all that can happen to a session that mints.
 *
 * What a call of snowflake_nextval() should do is written here once more: in ticks, shards
 * and sequence numbers, where mint.c has positions.  mint_walk_cases() predicts each call
 * and then makes it, from the same state of the server: both must give the same id, and
 * leave the same state.  It returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "mint_system.h"

#include "common/pg_prng.h"

PG_MODULE_MAGIC;

/* --- The server ---------------------------------------------------------- */

/* All that a call can change, but for the session's own state. */
typedef struct World
{
	TimestampTz now;
	void (*after_clock)(void);
	int64		latest;
	int64		horizon;
	uint32		changes;
	int			waits;
	int64		waited;
	int64		behind; /* calls that met a clock that was behind */
	int64		others_tick[SHARDS];
	PaddedShard shard[SHARDS];
} World;

static int64 others_tick[SHARDS]; /* of the last id of another session there */
static int32 others_shard; /* where others mint after a reading of the clock */

static World
world(void)
{
	World it;

	memset(&it, 0, sizeof(it));
	it.now = clock_now;
	it.after_clock = after_clock;
	it.latest = latest_tick();
	it.horizon = (int64) pg_atomic_read_u64(&our_bounds.horizon);
	it.changes = changes;
	it.waits = waits;
	it.waited = waited;
	memcpy(it.others_tick, others_tick, sizeof(others_tick));
	memcpy(it.shard, our_shards, sizeof(our_shards));
	for (int i = 0; i < SHARDS; i++)
	{
		it.behind += it.shard[i].state.counters.clock_behind;
		it.shard[i].state.counters.clock_behind = 0;
	}
	return it;
}

static void
put_world(const World *it)
{
	clock_now = it->now;
	after_clock = it->after_clock;
	pg_atomic_init_u64(&our_bounds.latest, it->latest);
	pg_atomic_init_u64(&our_bounds.horizon, it->horizon);
	changes = it->changes;
	waits = it->waits;
	waited = it->waited;
	memcpy(others_tick, it->others_tick, sizeof(others_tick));
	memcpy(our_shards, it->shard, sizeof(our_shards));
	our_shards[0].state.counters.clock_behind = it->behind;
}

/* Another session mints on a shard, if it can. */
static void
others_mint(int32 shard)
{
	int64  tick = tick_at(clock_now);
	int64  begin = layout_first_position(&layout, tick, settings_spread);
	int64 *last = &our_shards[shard].state.last;

	if (tick < latest_tick() || tick >= world().horizon ||
		*last >= position_of(tick, SEQUENCES - 1))
		return;
	*last = *last < position_of(tick, 0) ? begin : *last + 1;
	others_tick[shard] = tick;
	bounds_raise(&our_bounds.latest, tick);
}

static void
others_mint_in_next_tick(void)
{
	clock_now += TICK_US;
	others_mint(others_shard);
}

static void
lease_comes(int32 shard)
{
	open_shard(shard == ANY_SHARD ? asked.list.shard[0] : shard);
}

static void
horizon_comes(void)
{
	pg_atomic_write_u64(&our_bounds.horizon, tick_at(clock_now) + 3);
}

/* --- What a call should do ----------------------------------------------- */

/* What a session knows. */
static struct
{
	int64	  last_tick; /* of its last id */
	int64	  own_id;	 /* its last one without a shard's number */
	int		  own_shard;
	bool	  met; /* others, where it began in a tick */
	ShardList shards;
	uint32	  changes;	/* of shards, when it found these */
	uint32	  settings; /* likewise */
} me;

/* In place of an id: the shard has none in this tick, or others are past it. */
#define ROOMLESS (-1)
#define CLOSED (-2)
#define OVER (-3)

static void
should_sleep(int64 us)
{
	if (us > 0)
		pass((us + woken_after - 1) / woken_after);
}

/* The tick that a call mints in, after the waits for the clock and the horizon. */
static int64
should_begin(bool *met_behind)
{
	for (;;)
	{
		World		before = world();
		TimestampTz now = our_clock();
		int64		tick = tick_at(now);

		if (tick < before.latest)
		{
			our_shards[0].state.counters.clock_behind += !*met_behind;
			*met_behind = true;
			should_sleep(Min(start_of(before.latest) - now, 100000));
		}
		else if (tick >= before.horizon)
		{
			if (tick >= world().horizon)
			{
				pass_with_worker(true);
				horizon_comes();
			}
		}
		else
		{
			bounds_raise(&our_bounds.latest, tick);
			return tick;
		}
	}
}

/* The next id of a shard in a tick, above another id. */
static int64
should_take(int shard, int64 tick, int64 above)
{
	ShardState *state = &our_shards[shard].state;
	int			sequence = 0;

	if (!is_open(shard))
		return CLOSED;
	if (state->last >= position_of(tick + 1, 0))
		return OVER;
	if (state->last >= position_of(tick, 0))
		sequence = state->last % SEQUENCES + 1;
	while (sequence < SEQUENCES && id_of(tick, shard, sequence) <= above)
		sequence++;
	if (sequence == 0)
		sequence =
			layout_first_position(&layout, tick, settings_spread) % SEQUENCES;
	if (sequence == SEQUENCES)
	{
		state->counters.exhausted++;
		return ROOMLESS;
	}
	state->counters.minted++;
	state->last = position_of(tick, sequence);
	return id_of(tick, shard, sequence);
}

static void
should_wait_for_next(int64 tick)
{
	int64 left_us = start_of(tick + 1) - our_clock();

	should_sleep(Min(left_us, TICK_US));
}

/* snowflake_nextval(shard) */
static int64
should_mint_on(int32 shard)
{
	bool met_behind = false;

	for (;;)
	{
		int64 tick = should_begin(&met_behind);
		int64 id = should_take(shard, tick, -1);

		if (id >= 0)
		{
			me.last_tick = tick;
			return id;
		}
		if (id == ROOMLESS)
			should_wait_for_next(tick);
		for (bool begins = true; !is_open(shard); begins = false)
		{
			pass_with_worker(begins);
			lease_comes(shard);
		}
	}
}

static void
should_find_shards(void)
{
	for (bool begins = true;; begins = false)
	{
		char digits[SHARDS + 1] = "";
		int	 count = 0;

		for (int i = 0; i < asked.list.count; i++)
		{
			if (is_open(asked.list.shard[i]))
				digits[count++] = '0' + asked.list.shard[i];
		}
		set_list(&me.shards, digits);
		me.changes = changes;
		if (count > 0)
			break;
		pass_with_worker(begins);
		lease_comes(ANY_SHARD);
	}
	me.settings = settings_shards_changes;
}

/* The k-th of the own shards to look at in a tick; or none. */
static int
shard_to_look_at(int k, bool is_new)
{
	const OwnShards *own = &me.shards.list;
	bool			 goes_round = layout_kind == SEQUENCE_ABOVE_SHARD;
	int				 first = 0;

	if (is_new && me.met && (goes_round || settings_ordering == ORDER_SESSION))
		first = backend_index;
	while (!is_new && first < own->count &&
		   own->shard[first] < me.own_shard + (goes_round ? 1 : 0))
		first++;
	if (k >= own->count || (!is_new && !goes_round && first + k >= own->count))
		return -1;
	return own->shard[(first + k) % own->count];
}

/* snowflake_nextval() */
static int64
should_mint(void)
{
	bool met_behind = false;

	if (me.settings != settings_shards_changes)
		should_find_shards();
	for (;;)
	{
		int64 tick = should_begin(&met_behind);
		bool  is_new = me.own_id < id_of(tick, 0, 0);
		bool  has_changed = need_leases && me.changes != changes;
		int64 id = ROOMLESS;
		int	  shard = -1;

		if (is_new && has_changed)
		{
			should_find_shards();
			continue;
		}
		for (int k = 0; id < 0 && id != OVER &&
						(shard = shard_to_look_at(k, is_new)) >= 0;
			 k++)
			id = should_take(shard, tick, me.own_id);
		if (id >= 0)
		{
			if (is_new && others_tick[shard] == tick && me.last_tick != tick)
				me.met = true;
			me.last_tick = tick;
			me.own_id = id;
			me.own_shard = shard;
			return id;
		}
		if (id == OVER)
			continue;
		if (has_changed)
			should_find_shards();
		else
		{
			me.met = false;
			should_wait_for_next(tick);
		}
	}
}

/* --- The walks ----------------------------------------------------------- */

/* Both from the same state: what should be, and what is. */
static void
predict_and_mint(int32 shard)
{
	World before = world();
	World expected;
	World after;
	int64 last_own_id = me.own_id;
	int64 id = shard == OWN ? should_mint() : should_mint_on(shard);

	expected = world();
	put_world(&before);
	forget_calls();
	CHECK(mint(shard)[0] == '\0');
	CHECK(minted == id);
	CHECK(shard != OWN || id > last_own_id);
	after = world();
	CHECK(memcmp(&after, &expected, sizeof(after)) == 0);
}

/* One thing that happens: half of the time a call without a shard's number. */
static void
step(int what, int number)
{
	static const char *const lists[] = {"012", "03", "0123", "1",
										"13",  "23", "12",	 "012"};
	int						 shard = number % SHARDS;

	switch (what)
	{
		case 0:
			end_transaction();
			break;
		case 1:
			set_list(&asked, lists[number % lengthof(lists)]);
			settings_shards_changes++;
			break;
		case 2:
			settings_ordering = number % 2 ? ORDER_SESSION : ORDER_SERVER;
			break;
		case 3: /* in the midst of a call: its tick is over then */
			others_shard = shard;
			after_clock = others_mint_in_next_tick;
			break;
		case 4:
			clock_now += number % 5 * TICK_US / 2;
			break;
		case 5:
			clock_now -= number % 5 * TICK_US / 2;
			break;
		case 6:
			if (need_leases && is_open(shard))
				close_shard(shard);
			else if (need_leases)
				open_shard(shard);
			break;
		case 7:
		case 8:
			others_mint(shard);
			break;
		case 9:
		case 10:
			if (is_in(&asked, shard))
				predict_and_mint(shard);
			break;
		default:
			predict_and_mint(OWN);
	}
}

#define STEPS 1500

static void
walk(LayoutKind kind, bool leases, int spread, int woken)
{
	pg_prng_state random;

	start("012", kind);
	memset(others_tick, 0, sizeof(others_tick));
	memset(&me, 0, sizeof(me));
	me.own_id = me.last_tick = -1;
	set_bounds(10, 12, PG_INT64_MAX);
	in_horizon_wait = horizon_comes;
	in_lease_wait = lease_comes;
	need_leases = leases;
	settings_spread = spread;
	settings_clock_tolerance_ms = 1000000;
	woken_after = woken;
	backend_index = 5;
	pg_prng_seed(&random, 1);
	for (int i = 0; i < STEPS; i++)
	{
		int what = pg_prng_uint64_range(&random, 0, 20);
		int number = pg_prng_uint64_range(&random, 0, 999);

		snprintf(what_is_tried, sizeof(what_is_tried),
				 "layout %d, leases %d, spread %d, woken %d: step %d is %d %d",
				 kind, leases, spread, woken, i, what, number);
		step(what, number);
	}
	after_clock = NULL;
}

PG_FUNCTION_INFO_V1(mint_walk_cases);
Datum
mint_walk_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	keep_new_session();
	for (int i = 0; i < LAYOUT_KINDS * 2 * 4 * 2; i++)
		walk(i % LAYOUT_KINDS, i / LAYOUT_KINDS & 1, i / LAYOUT_KINDS / 2 % 4,
			 i / LAYOUT_KINDS / 8 ? 3 : 1);
	PG_RETURN_INT64(tried);
}
