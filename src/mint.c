/*-------------------------------------------------------------------------
 *
 * mint.c
 *	  Minting: the rule, the clock, and waiting.
 *
 * An id is a tick of the clock, a shard and a sequence number.  Every id of a
 * shard takes a position above its last one: see take(), which is the whole rule.
 *
 * Time is the wall clock, in ticks, within two bounds:
 *	- A call mints in no tick before the Bounds.latest that it has read.  A session
 *	  raises that to a tick before it takes a position of the tick, so no shard is ever
 *	  ahead of it.  So a clock that was set back shows before any shard is looked at; and
 *	  if a shard has no position left in the current tick, that tick is exhausted there,
 *	  or others are past it, or the shard is closed.
 *	- It mints only in ticks before Bounds.horizon, which is on disk: see horizon.c.
 *
 * One order for all sessions: if a call of snowflake_nextval() began after another one
 * had returned, it gives a greater id.  That holds if the layout has the shard above the
 * sequence number, and the sessions have the same list of shards.
 *	- A call begins with the tick that the other one minted in, or a later one.
 *	- In each tick, every session mints on the first shard of its list that has room.
 *	  A shard that has none in a tick never has again; also one that is closed, since
 *	  a shard is opened for ticks after the latest one, which is read under the
 *	  shard's lock: see positions_open().
 *	- Before a shard is opened, the change is counted.  In each new tick a session first
 *	  sees the latest tick raised to it, then passes a barrier, then looks at the count.
 *	  If it does not see the change, it mints in a tick in which the new shard is not
 *	  open yet.
 * With snowflake.ordering = 'session' only each session's ids increase.
 *
 * A note about locking: a shard is locked in take(), and where a wait is counted; a slot
 * there, too, and where the mark is held: see positions.c and sessions.c.  No two locks
 * are ever held together, and none while waiting.
 *
 * What every id passes through is inline, and what waits or fails is not: half of
 * the time of an id is the clock's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "horizon.h"
#include "mint.h"
#include "positions.h"
#include "server.h"
#include "sessions.h"

PG_FUNCTION_INFO_V1(snowflake_nextval);
PG_FUNCTION_INFO_V1(snowflake_nextval_shard);
PG_FUNCTION_INFO_V1(snowflake_lastval);

/* How often a call that waits for the clock looks at it. */
#define CLOCK_POLL_US (100 * US_PER_MS)

/* What take() gives in place of an id; there is none below 0. */
#define NO_ROOM (-1) /* the tick is exhausted there, or the shard is closed */
#define STALE (-2)	 /* this tick is over: read the clock */

/* A tick that is minted in. */
typedef struct Tick
{
	TimestampTz began;
	int64		number;
	int64		least_id; /* of shard 0 */
	int64		first;	  /* position */
	int64		last;	  /* position */
} Tick;

/* A call on its way to an id. */
typedef struct MintCall
{
	int32 shard;	  /* into whose statistics its waits go */
	bool  met_behind; /* it met a clock that is behind */
	int64 behind_us;  /* how long it waited for it */
} MintCall;

/* What this session mints with, from its first mint on. */
static const Layout *my_layout = NULL;

/*
 * The last id that this session minted by snowflake_nextval().  Those of
 * snowflake_nextval(shard) would lead the search for a shard astray.
 */
static int64 my_last_own_id = NO_ID;
static int32 my_last_own_shard;

/*
 * The shards that it mints on; how often snowflake.shards had been set when it found them;
 * and, with leases, how often shards had been opened or closed by then.
 */
static const OwnShards *my_shards;
static uint32			my_settings_seen = 0;
static uint32			my_openings_seen = 0;

/* What snowflake_nextval() needs held: the one shard of its list, or ALL_SHARDS. */
static int32 my_shards_hold = ALL_SHARDS;

/* Where among the own shards it minted last, or tried to. */
static int my_index = 0;

/* Has it met another session on a shard since its own shards were last exhausted? */
static bool met_others = false;

/* The call that is minting, one at a time; and its tick: see read_tick(). */
static MintCall my_call;
static Tick		current_tick = {.began = PG_INT64_MIN};

/* Raise an error if this data directory may not mint. */
static void
check_server(void)
{
	(void) server_layout();
	server_check_clone();
}

static inline bool
has_minted(void)
{
	return pg_atomic_read_u64(&my_slot->minted) > 0;
}

static inline int64
my_last_id(void)
{
	return (int64) pg_atomic_read_u64(&my_slot->last_id);
}

/*
 * Note the first id of a transaction.  Before its first one a session looks at the
 * server once more: it has seen a horizon by now, so the worker has read the
 * records, and knows whether this is a clone.
 */
static pg_noinline void
note_first_id(int64 id)
{
	if (!has_minted())
		check_server();
	session_note_first_id(id, layout_tick(my_layout, id));
}

/* Count an id, and return it.  Only the owner of a slot writes these counters. */
static inline int64
note_mint(int64 id)
{
	SessionSlot *slot = my_slot;
	uint64		 minted = pg_atomic_read_u64(&slot->minted);

	if (unlikely(my_held < ALL_SHARDS)) /* no id in this transaction yet */
		note_first_id(id);
	pg_atomic_write_u64(&slot->last_id, (uint64) id);
	pg_atomic_write_u64(&slot->minted, minted + 1);
	return id;
}

static void
note_wait(int64 us)
{
	session_count_wait(us);
	positions_count_wait(my_call.shard, us);
}

/* --- Waiting and the clock ----------------------------------------------------- */

/* Wait for the tick after the given one to begin. */
static pg_noinline void
wait_for_tick_after(int64 tick)
{
	static WaitName event = {"SnowflakeExhausted", 0};
	int64			us =
		layout_time_of_tick(my_layout, tick + 1) - GetCurrentTimestamp();

	/* if the clock is set back now, the caller notices it a tick later */
	if (us > 0)
		note_wait(
			wait_outside_locks(Min(us, my_layout->tick_us), &event, NULL));
}

/* Wait for a clock that is behind, or fail when that has been long enough. */
static pg_noinline void
wait_for_clock(TimestampTz now, int64 latest_tick)
{
	static WaitName event = {"SnowflakeClockBehind", 0};
	int64 behind_us = layout_time_of_tick(my_layout, latest_tick) - now;
	int64 patience_us =
		settings_clock_tolerance_ms * US_PER_MS - my_call.behind_us;
	int64 waited_us;

	if (!my_call.met_behind)
		positions_note_clock_behind(my_call.shard, behind_us, latest_tick);
	my_call.met_behind = true;
	if (patience_us <= 0)
		positions_fail_clock_behind(now, latest_tick, my_call.behind_us);
	waited_us =
		wait_outside_locks(Min(Min(behind_us, patience_us), CLOCK_POLL_US),
						   &event, NULL);
	note_wait(waited_us);
	my_call.behind_us += waited_us;
}

/*
 * Wait until the horizon is past a tick, or fail with the reason.  A WorkerWait is for one
 * of the two workers: when the other one's turn has come, another wait begins.
 */
static pg_noinline void
wait_for_horizon(int64 tick)
{
	while (tick >= (int64) pg_atomic_read_u64(&bounds->horizon))
	{
		bool	   are_leased = positions_are_leased(tick);
		WorkerWait wait = {0};

		do
		{
			check_server(); /* the worker may have found a clone */
			if (are_leased)
				horizon_wait(&wait, tick);
			else
				leasing->wait(&wait, ANY_SHARD);
		} while (tick >= (int64) pg_atomic_read_u64(&bounds->horizon) &&
				 positions_are_leased(tick) == are_leased);
		note_wait(worker_end_wait(&wait));
	}
	check_server();
}

/* Raise the latest tick: a call that reads it from now on mints in no tick before. */
static pg_noinline void
begin_tick(int64 tick)
{
	bounds_raise(&bounds->latest, tick);
	if (tick >= (int64) pg_atomic_read_u64(&bounds->renew))
		horizon_ask_for_renewal(tick);
}

/* Set "current_tick" to that of a time, or fail if the layout has none for it. */
static pg_noinline void
set_current_tick(TimestampTz now)
{
	const Layout *layout = my_layout;
	int64		  tick = present_mint_tick(layout, now);

	current_tick = (Tick){
		.began = layout_time_of_tick(layout, tick),
		.number = tick,
		.least_id = layout_pack(layout, tick, 0, 0),
		.first = layout_position(layout, tick, 0),
		.last = layout_position(layout, tick, layout_last_sequence(layout)),
	};
}

/*
 * Wait until the present tick lies within the bounds; "current_tick" is it then.  A
 * tick lasts for many calls, and finding it takes a division, so it is found once.
 *
 * The bounds are read before the clock: a clock that is before the latest tick
 * has truly been set back, and was not just read by a slower process.
 */
static pg_attribute_always_inline void
read_tick(void)
{
	for (;;)
	{
		int64		horizon;
		int64		latest;
		TimestampTz now;

		bounds_read(&horizon, &latest);
		now = GetCurrentTimestamp();
		if (unlikely((uint64) now - (uint64) current_tick.began >=
					 (uint64) my_layout->tick_us))
			set_current_tick(now);
		if (likely(current_tick.number == latest && latest < horizon))
			return;
		if (current_tick.number < latest)
			wait_for_clock(now, latest);
		else if (current_tick.number >= horizon)
			wait_for_horizon(current_tick.number);
		else
		{
			begin_tick(current_tick.number);
			return;
		}
	}
}

/* --- Minting ------------------------------------------------------------ */

/* Where a shard begins in the current tick: see snowflake.spread. */
static pg_noinline int64
spread_position(void)
{
	return layout_first_position(my_layout, current_tick.number,
								 settings_spread);
}

/*
 * THE MINTING RULE: the next position of a shard is the greater of the last one's
 * successor and "least".  If that is not past sequence number 0 of the current tick, the
 * shard begins there, or, with snowflake.spread, further up.  The position is taken if it
 * is in the current tick.
 *
 * "least" is the least position whose id is above the caller's last one; 0: any will do.
 *
 * Gives the id, NO_ROOM or STALE.  All but the shard's state is read before the lock: the
 * processor reads nothing ahead of an exchange that is locked.
 */
static pg_attribute_always_inline int64
take(int32 shard, int64 least)
{
	ShardState *state = &shards[shard].state;
	const Tick	tick = current_tick;
	const int64 first_id = tick.least_id | layout_pack(my_layout, 0, shard, 0);
	const int	shift = my_layout->sequence_shift;
	int64		begin = tick.first;
	int64		last;
	int64		position;
	int64		id;

	if (unlikely(settings_spread > 0))
		begin = spread_position();
	SpinLockAcquire(&state->lock);
	last = state->last;
	position = Max(last + 1, least);
	if (unlikely(position <= tick.first))
		position = begin;
	if (likely(position <= tick.last))
	{
		state->last = position;
		state->counters.minted++;
		id = first_id | (position - tick.first) << shift;
	}
	else if (last > tick.last)
		id = last == NEVER ? NO_ROOM : STALE;
	else
	{
		state->counters.exhausted++;
		id = NO_ROOM;
	}
	SpinLockRelease(&state->lock);
	return id;
}

/*
 * Wait until the shard of this call has room again: until the tick is over; or, if
 * the shard is closed, until it is leased.  Or fail with the reason why it is not.
 */
static pg_noinline void
wait_for_room(int64 tick)
{
	WorkerWait wait = {0};

	if (positions_is_open(my_call.shard))
	{
		wait_for_tick_after(tick);
		return;
	}
	while (!positions_is_open(my_call.shard))
		leasing->wait(&wait, my_call.shard);
	note_wait(worker_end_wait(&wait));
}

/* A check of snowflake_probe(): is there a shard to mint on without its number? */
void
mint_check_shards(bool patient)
{
	if (positions_need_leases() || settings_asked_shards->count > 0)
		return;
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("no shard is configured for this server"),
					errhint("Set \"snowflake.shards\" to the shards that are "
							"this server's alone, such as '8' or '8-15', or "
							"name a shard, as in snowflake_nextval(5).")));
}

/* Hold the mark for a shard, or for all, before a tick is read to mint there. */
static pg_noinline void
hold_mark(int32 shard)
{
	if (my_held == shard || my_held == ALL_SHARDS ||
		(my_held == HOLDS_LATEST && my_slot->mark_shard == shard))
		return;
	if (my_held > ALL_SHARDS) /* it has minted on another shard */
	{
		session_hold_mark_for_all();
		return;
	}
	/* after a start the latest tick is 0: held there, the mark is before all ids */
	if (!bounds_are_known() || pg_atomic_read_u64(&bounds->latest) == 0)
		horizon_begin_present_tick();
	session_hold_mark(shard);
}

/*
 * Find the shards that this session mints on, and hold the mark for them; with leases for
 * all shards, as these change.  Waits if there is none.
 */
static pg_noinline const OwnShards *
find_own_shards(void)
{
	WorkerWait wait = {0};
	uint32	   changes = settings_shards_changes;

	mint_check_shards(true);
	my_settings_seen = 0; /* the old ones are gone, whatever fails now */
	while ((my_shards = positions_own_shards(&my_openings_seen))->count == 0)
		leasing->wait(&wait, ANY_SHARD);
	my_settings_seen = changes;
	my_call.shard = my_shards->shard[0];
	if (worker_end_wait(&wait) > 0)
		note_wait(wait.waited_us);
	my_shards_hold = my_shards->count == 1 && !positions_need_leases() ?
						 my_shards->shard[0] :
						 ALL_SHARDS;
	hold_mark(my_shards_hold);
	return my_shards;
}

/* Were shards opened or closed since this session found its own? */
static inline bool
have_changed(void)
{
	pg_memory_barrier(); /* the tick has begun: see above */
	return positions_have_changed(my_openings_seen);
}

/* No own shard has room: wait.  Gives the shards to try then. */
static pg_noinline const OwnShards *
wait_for_room_on(const OwnShards *own, int64 tick)
{
	if (have_changed())
		return find_own_shards();
	met_others = false; /* begin at the first: most shards come after it */
	wait_for_tick_after(tick);
	return own;
}

/* Mint on one shard; wait while it is exhausted or closed. */
static inline int64
mint_on(int32 shard)
{
	my_call = (MintCall){.shard = shard};
	for (;;)
	{
		int64 id;

		read_tick();
		id = take(shard, 0);
		if (likely(id >= 0))
			return id;
		CHECK_FOR_INTERRUPTS();
		if (id == NO_ROOM)
			wait_for_room(current_tick.number);
	}
}

/* Is an id's sequence number above its shard? */
static inline bool
goes_round(void)
{
	return my_layout->sequence_shift > my_layout->shard_shift;
}

/*
 * Where among the own shards a session begins in a new tick: at the first; but where
 * there is no order between sessions, those that keep meeting there would hand its
 * cache line to and fro, so one that has met another begins at a shard of its own.
 */
static inline int
where_to_begin(const OwnShards *own)
{
	bool is_ordered = settings_ordering == ORDER_SERVER && !goes_round();

	return met_others && !is_ordered ? my_backend_index() % own->count : 0;
}

/*
 * Where among the own shards a session goes on in the tick of its last id: where it
 * is, unless they have changed.
 */
static inline int
where_to_go_on(const OwnShards *own)
{
	if (unlikely(goes_round()))
		return index_of_shard(own, my_last_own_shard + 1) % own->count;
	if (likely(my_index < own->count &&
			   own->shard[my_index] == my_last_own_shard))
		return my_index;
	return index_of_shard(own, my_last_own_shard);
}

/* Take an id on one of the own shards. */
static pg_attribute_always_inline int64
take_at(const OwnShards *own, int index)
{
	int64 least = 0;

	my_index = index;
	my_call.shard = own->shard[index];
	if (unlikely(goes_round()))
		least =
			layout_position_after(my_layout, my_last_own_id, my_call.shard);
	return take(my_call.shard, least);
}

/* Take an id on the first shard from "begin" to before "end" that has room. */
static pg_noinline int64
take_between(const OwnShards *own, int begin, int end)
{
	int64 id = NO_ROOM;

	for (int i = begin; i < end && id == NO_ROOM; i++)
		id = take_at(own, i < own->count ? i : i - own->count);
	return id;
}

/*
 * After the first id of a tick: did others take ids of the tick on that shard before?
 * There is no telling if this session did, by snowflake_nextval(shard).
 */
static pg_noinline void
note_others(int64 id)
{
	if (layout_sequence(my_layout, id) >
			spread_position() - current_tick.first &&
		layout_tick(my_layout, my_last_id()) != current_tick.number)
		met_others = true;
}

/*
 * Mint on the first of the own shards, from where the session begins or goes on,
 * that has a position left in this tick.
 *
 * The ids that a session mints here increase.  In a new tick any shard will do.  In
 * the tick of its last id:
 *	- If the shard stands above the sequence number, it goes on with that shard or a
 *	  higher one: their next ids are greater.
 *	- Else the search goes round from the next shard on, which uses all shards evenly,
 *	  and take_at() says which position of each comes after the last id.
 */
static inline int64
mint_on_own(const OwnShards *own)
{
	my_call = (MintCall){.shard = own->shard[0]};
	for (;;)
	{
		int64 id;
		bool  is_new;
		int	  begin;
		int	  end;

		read_tick();
		is_new = my_last_own_id < current_tick.least_id;
		if (unlikely(is_new) && have_changed())
		{
			own = find_own_shards();
			continue;
		}
		begin = is_new ? where_to_begin(own) : where_to_go_on(own);
		end = is_new || goes_round() ? begin + own->count : own->count;
		id = begin < own->count ? take_at(own, begin) : NO_ROOM;
		if (unlikely(id < 0) && id == NO_ROOM)
			id = take_between(own, begin + 1, end);
		if (likely(id >= 0))
		{
			if (unlikely(is_new))
				note_others(id);
			my_last_own_shard = my_call.shard;
			my_last_own_id = id;
			return id;
		}
		CHECK_FOR_INTERRUPTS();
		if (id == NO_ROOM)
			own = wait_for_room_on(own, current_tick.number);
	}
}

/* Check what must hold to mint; take a slot, and find the layout. */
static void
set_up_process(void)
{
	check_server();
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot mint ids in a parallel worker"),
				 errdetail("The mark of snowflake_settled() would not wait "
						   "for the end of the transaction."),
				 errhint("A function that calls snowflake_nextval() must be "
						 "PARALLEL UNSAFE, which is the default.")));
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot mint ids during recovery"),
				 errhint("Mint on the primary server. Ids can be read here.")));
	if (!IsUnderPostmaster)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("cannot mint ids in single-user mode")));
	if (my_slot == NULL)
		session_begin();
	my_layout = settings_layout();
}

/*
 * Check all that must hold, and hold the mark for a shard, or for all.  While the server
 * runs only snowflake.refuse_clone can change what is checked, so a session that has
 * minted need not check again.
 */
static pg_noinline void
begin_to_mint(int32 shard)
{
	if (my_slot == NULL || !has_minted() || settings_refuse_clone)
		set_up_process();
	hold_mark(shard);
}

static pg_attribute_always_inline void
prepare_to_mint(int32 shard)
{
	if (unlikely((my_held != shard && my_held != ALL_SHARDS) ||
				 settings_refuse_clone))
		begin_to_mint(shard);
}

/* In a list without gaps the first look tells. */
static inline bool
asks_for(const OwnShards *asked, int32 shard)
{
	uint32 index = (uint32) shard - asked->shard[0];

	return (index < (uint32) asked->count && asked->shard[index] == shard) ||
		   settings_name_shard(shard);
}

/* Raise the error that the caller may not mint on this shard. */
pg_noreturn static void
report_shard(int32 shard)
{
	int64 last_shard = layout_last_shard(my_layout);

	if (shard < 0 || shard > last_shard)
		report_part_range(my_layout, "shard", shard, last_shard);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("shard %d is not one of this server's", shard),
			 errdetail("\"snowflake.shards\" is \"%s\".",
					   settings_shards_text),
			 errhint("Call snowflake_nextval() without an argument to mint on "
					 "this server's own shards.")));
}

/* snowflake_nextval(shard int) */
Datum
snowflake_nextval_shard(PG_FUNCTION_ARGS)
{
	int32			 shard = PG_GETARG_INT32(0);
	const OwnShards *asked;

	prepare_to_mint(shard); /* first: it finds the layout */
	asked = settings_asked_shards;
	if (asked->count > 0 ? !asks_for(asked, shard) :
						   shard < 0 || shard > layout_last_shard(my_layout))
		report_shard(shard);
	PG_RETURN_INT64(note_mint(mint_on(shard)));
}

/* snowflake_nextval() */
Datum
snowflake_nextval(PG_FUNCTION_ARGS)
{
	const OwnShards *own;

	prepare_to_mint(my_shards_hold);
	own = my_shards;
	if (unlikely(my_settings_seen != settings_shards_changes))
		own = find_own_shards();
	PG_RETURN_INT64(note_mint(mint_on_own(own)));
}

/* The last id that this session minted. */
Datum
snowflake_lastval(PG_FUNCTION_ARGS)
{
	(void) settings_layout();
	if (my_slot == NULL || !has_minted())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake_lastval is not yet defined in this session"),
				 errhint("Call snowflake_nextval first.")));
	PG_RETURN_INT64(my_last_id());
}
