/*-------------------------------------------------------------------------
 *
 * positions.c
 *	  How far ids are minted: on each shard, and the bounds for all.
 *
 * A call mints in a tick from the Bounds.latest that it has read on, and before
 * Bounds.horizon.  The state of a shard is one word, the position of its last id: see
 * take() in mint.c.
 *
 * With a registry a server mints only what it has leased.  Who leases is handed in, and
 * here is what all others need to know of it, so that a lease costs an id nothing:
 *	- A shard that is not leased is closed: its position is after all others, so that
 *	  nobody takes one.  Nothing else says whether a shard is open.
 *	- The common end is the first end of a lease whose shard may be open.  The horizon
 *	  is never raised past it.
 *
 * A note about locking:
 *	- ShardState is read and written under ShardState.lock, a spinlock held for a
 *	  comparison and some stores; nothing that can fail, wait or be interrupted
 *	  happens under it.
 *	- The common end is read and written under END_LOCK, an LWLock.  The horizon is
 *	  raised under it, shared, and never past the common end.  The end is changed under
 *	  it, exclusive, and never to before the horizon; except if no shard is leased: then
 *	  all shards are closed, or about to be.
 *	- The bounds are atomics that only grow.  Sessions that mint or read the mark raise
 *	  "latest", and so do both workers; the horizon's worker alone raises the others.  It
 *	  raises "latest" and "found_horizon" before it publishes a first horizon.  So who
 *	  reads the horizon and then the latest tick, as bounds_read() does, finds no
 *	  horizon with a latest tick before the found horizon.
 *
 * test/model/minting.pml has the bounds and positions, for spin, and test/memory has this
 * file searched with weak memory: minters while the horizon is opened and renewed, a
 * clock that is behind, and shards that are opened and closed meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "positions.h"
#include "server.h"

/* How often the log tells of a clock that is behind. */
#define CLOCK_LOG_INTERVAL_US (10 * USECS_PER_SEC)

typedef struct PositionsState
{
	pg_atomic_uint64 reset_at;		  /* when the counters were set to 0 */
	pg_atomic_uint64 log_clock_after; /* by a clock that nobody can set */
	pg_atomic_uint32 needs_leases;	  /* nothing is minted without one */
	pg_atomic_uint32 changes;	 /* how often shards were opened or closed */
	TimestampTz		 common_end; /* of leases; DT_NOEND: none is needed */
} PositionsState;

StaticAssertDecl(sizeof(ShardState) <= PG_CACHE_LINE_SIZE,
				 "it fits a cache line");
StaticAssertDecl(sizeof(PositionsState) <= PG_CACHE_LINE_SIZE,
				 "it fits a cache line");
StaticAssertDecl(sizeof(Bounds) <= PG_CACHE_LINE_SIZE, "it fits a cache line");

/* In shared memory, one piece: two cache lines, the shards. */
Bounds				  *bounds = NULL;
static PositionsState *positions = NULL;
PaddedShard			  *shards = NULL;
static LWLock		  *end_lock = NULL;

const Leasing *leasing = NULL;

Size
positions_shmem_size(void)
{
	/* room to begin at a cache line */
	return mul_size(layout_last_shard(settings_layout()) + 4,
					sizeof(PaddedShard));
}

void
positions_shmem_startup(void)
{
	bool  found;
	bool  needs_leases = settings_want_leases();
	char *start = ShmemInitStruct("snowflake", positions_shmem_size(), &found);

	end_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[END_LOCK].lock;
	start = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, start);
	bounds = (Bounds *) start;
	positions = (PositionsState *) (start + PG_CACHE_LINE_SIZE);
	shards = (PaddedShard *) (start + (Size) 2 * PG_CACHE_LINE_SIZE);
	if (found)
		return;
	pg_atomic_init_u64(&bounds->latest, 0);
	pg_atomic_init_u64(&bounds->horizon, 0);
	pg_atomic_init_u64(&bounds->renew, 0);
	pg_atomic_init_u64(&bounds->found_horizon, 0);
	pg_atomic_init_u32(&bounds->are_known, false);
	pg_atomic_init_u64(&positions->reset_at, (uint64) GetCurrentTimestamp());
	pg_atomic_init_u64(&positions->log_clock_after, 0);
	pg_atomic_init_u32(&positions->needs_leases, needs_leases);
	pg_atomic_init_u32(&positions->changes, 1); /* nobody has seen it */
	positions->common_end = needs_leases ? DT_NOBEGIN : DT_NOEND;
	for (int64 i = 0; i <= layout_last_shard(settings_layout()); i++)
	{
		memset(&shards[i], 0, sizeof(PaddedShard));
		SpinLockInit(&shards[i].state.lock);
		shards[i].state.last = needs_leases ? NEVER : -1;
		shards[i].state.opened_with = shards[i].state.minted_before = -1;
	}
}

/* --- Opening and closing: for the worker that leases shards ------------------ */

/* The position of the last id, whether the shard is open or not. */
static inline int64
last_minted(const ShardState *state)
{
	return state->last == NEVER || state->last == state->opened_with ?
			   state->minted_before :
			   state->last;
}

/*
 * Let a shard be minted on from a tick on: at the soonest, from the one after the
 * latest tick.  In the latest one others may have found the shard closed, and have
 * minted on a higher one: see mint.c.  No shard is ever ahead of the latest tick, so
 * this is after all ids of the shard.
 */
void
positions_open(int32 shard, int64 tick)
{
	const Layout *layout = settings_layout();
	ShardState	 *state = &shards[shard].state;

	bounds_raise(&bounds->latest, tick - 1);
	SpinLockAcquire(&state->lock);
	if (state->last == NEVER)
		state->last = state->opened_with =
			layout_position(layout,
							(int64) pg_atomic_read_u64(&bounds->latest),
							layout_last_sequence(layout));
	SpinLockRelease(&state->lock);
}

/* Let nobody mint on a shard any more. */
void
positions_close(int32 shard)
{
	ShardState *state = &shards[shard].state;

	SpinLockAcquire(&state->lock);
	state->minted_before = last_minted(state);
	state->last = NEVER;
	SpinLockRelease(&state->lock);
}

/*
 * The tick after the last one that can have ids of a shard: after what it was opened
 * with, and not before the found horizon, below which earlier starts minted.
 */
int64
positions_end(int32 shard)
{
	ShardState *state = &shards[shard].state;
	int64		found = (int64) pg_atomic_read_u64(&bounds->found_horizon);
	int64		last;
	int64		end;

	SpinLockAcquire(&state->lock);
	last = last_minted(state);
	last = Max(last, state->opened_with);
	SpinLockRelease(&state->lock);
	end = layout_position_tick(settings_layout(), last) + 1;
	return Max(end, found);
}

/* May sessions mint on the shard? */
bool
positions_is_open(int32 shard)
{
	ShardState *state = &shards[shard].state;
	bool		is_open;

	SpinLockAcquire(&state->lock);
	is_open = state->last != NEVER;
	SpinLockRelease(&state->lock);
	return is_open;
}

/* --- Leases -------------------------------------------------------------------- */

/* Is nothing minted without a lease? */
bool
positions_need_leases(void)
{
	return pg_atomic_read_u32(&positions->needs_leases) != 0;
}

/*
 * If the settings ask for leases, then from now on, and until the server is restarted,
 * nothing is minted without one.
 *
 * Each worker looks when it starts, as the settings may have changed while there was
 * none, on a standby.  The horizon's does so before the first id can be minted.
 */
void
positions_heed_settings(void)
{
	if (!settings_want_leases() || positions_need_leases())
		return;
	LWLockAcquire(end_lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&positions->needs_leases, 1);
	positions->common_end = DT_NOBEGIN;
	LWLockRelease(end_lock);
	for (int64 i = 0; i <= layout_last_shard(settings_layout()); i++)
		positions_close(i);
}

/* The first tick that is not before the common end.  The caller has the lock. */
static int64
end_tick(void)
{
	return layout_first_tick_from(settings_layout(), positions->common_end);
}

/* Are ids of this tick within the leases, if these are needed? */
bool
positions_are_leased(int64 tick)
{
	bool are_leased;

	LWLockAcquire(end_lock, LW_SHARED);
	are_leased = tick < end_tick();
	LWLockRelease(end_lock);
	return are_leased;
}

/* Publish a horizon, as far as the leases reach. */
void
positions_raise_horizon(int64 tick)
{
	int64 end;

	LWLockAcquire(end_lock, LW_SHARED);
	end = end_tick();
	bounds_raise(&bounds->horizon, Min(tick, end));
	LWLockRelease(end_lock);
}

/* The leases have another common end.  The caller has END_LOCK, exclusive. */
void
positions_set_common_end(TimestampTz end)
{
	Assert(LWLockHeldByMeInMode(end_lock, LW_EXCLUSIVE));
	positions->common_end = end;
}

/*
 * Shards are closed, or about to be opened: sessions find theirs again, by the tick after
 * the one that they mint in.
 */
void
positions_note_change(void)
{
	(void) pg_atomic_fetch_add_u32(&positions->changes, 1);
	pg_memory_barrier(); /* before the latest tick is read: see mint.c */
}

/* Were shards opened or closed since that count was read?  Without leases: no. */
bool
positions_have_changed(uint32 since)
{
	return positions_need_leases() &&
		   since != pg_atomic_read_u32(&positions->changes);
}

/*
 * The shards that a session mints on: those of snowflake.shards; with leases, the part of
 * them that is leased.  Gives how many changes there had been; without leases it leaves
 * "changes" alone.
 */
const OwnShards *
positions_own_shards(uint32 *changes)
{
	if (!positions_need_leases())
		return settings_asked_shards;
	*changes = pg_atomic_read_u32(
		&positions->changes); /* before the shards: a later change shows */
	return leasing->own_shards();
}

/* --- Counters ----------------------------------------------------------------- */

void
positions_count_wait(int32 shard, int64 us)
{
	SpinLockAcquire(&shards[shard].state.lock);
	shards[shard].state.counters.waited_us += us;
	SpinLockRelease(&shards[shard].state.lock);
}

void
positions_read(int32 shard, ShardStats *stats)
{
	ShardState *state = &shards[shard].state;
	int64		last;

	SpinLockAcquire(&state->lock);
	last = last_minted(state);
	stats->counters = state->counters;
	SpinLockRelease(&state->lock);
	stats->has_minted = last >= 0;
	stats->last_id = layout_id_at(settings_layout(), last, shard);
}

TimestampTz
positions_reset_at(void)
{
	return (TimestampTz) pg_atomic_read_u64(&positions->reset_at);
}

void
positions_reset_counters(void)
{
	for (int64 i = 0; i <= layout_last_shard(settings_layout()); i++)
	{
		SpinLockAcquire(&shards[i].state.lock);
		memset(&shards[i].state.counters, 0, sizeof(ShardCounters));
		SpinLockRelease(&shards[i].state.lock);
	}
	pg_atomic_write_u64(&positions->reset_at, (uint64) GetCurrentTimestamp());
}

/* --- A clock that is behind ------------------------------------------------------- */

/*
 * What the clock is behind, for a message.  No session has minted in the tick of
 * the found horizon yet: ids from before the start, or of another server, may lie
 * just before it.
 */
static const char *
name_of_bound(int64 latest_tick)
{
	return latest_tick == (int64) pg_atomic_read_u64(&bounds->found_horizon) ?
			   "the snowflake horizon that was found at the start" :
			   "the last snowflake id";
}

/* A call has met a clock that is behind: count it, and log it. */
void
positions_note_clock_behind(int32 shard, int64 behind_us, int64 latest_tick)
{
	SpinLockAcquire(&shards[shard].state.lock);
	shards[shard].state.counters.clock_behind++;
	SpinLockRelease(&shards[shard].state.lock);
	if (may_log_now(&positions->log_clock_after, CLOCK_LOG_INTERVAL_US))
		ereport(LOG, (errmsg("clock is %s behind %s", duration_text(behind_us),
							 name_of_bound(latest_tick)),
					  errdetail("Calls of snowflake_nextval wait for it.")));
}

void
positions_fail_clock_behind(TimestampTz now, int64 latest_tick,
							int64 waited_us)
{
	TimestampTz latest = layout_time_of_tick(settings_layout(), latest_tick);

	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("clock is %s behind %s", duration_text(latest - now),
					name_of_bound(latest_tick)),
			 errdetail("Ids of the times before %s may exist already. Waited "
					   "%s for the clock; \"snowflake.clock_tolerance\" is %s.",
					   time_text(latest), duration_text(waited_us),
					   duration_text(settings_clock_tolerance_ms * US_PER_MS)),
			 errhint("Check the server's time synchronization. Minting goes "
					 "on by itself when the clock has reached %s.",
					 time_text(latest))));
}

/* Raise an error if a call would fail because of the time, after its patience. */
void
positions_check_clock(bool patient)
{
	const Layout *layout = settings_layout();
	int64		  horizon;
	int64		  latest;
	TimestampTz	  now;

	bounds_read(&horizon, &latest); /* before the clock: see read_tick() */
	now = GetCurrentTimestamp();
	(void) present_mint_tick(layout, now);
	if (bounds_are_known() && layout_time_of_tick(layout, latest) - now >
								  settings_clock_tolerance_ms * US_PER_MS)
		positions_fail_clock_behind(now, latest, 0);
}
