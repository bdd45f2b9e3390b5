/*-------------------------------------------------------------------------
 *
 * generator.c
 *	  Minting: the state in shared memory, the rule, and waiting.
 *
 * An id is a tick of the clock, a shard and a sequence number.  The state of
 * a shard is one word, the position (tick << sequence_bits | sequence) of its
 * last id, and every id of a shard takes a position above it: see take(),
 * which is the whole rule.
 *
 * Time is the wall clock, in ticks, under one condition: the server never
 * mints in a tick before one that it has minted in, on whatever shard.
 * Bounds.latest says so.  Hence a clock that was set back shows before any shard
 * is looked at, and a shard that has no position left in the present tick can
 * only be full.  Nor does it mint in a tick that is not before Bounds.horizon,
 * which is on disk: see horizon.c.
 *
 * A note about locking:
 *	- ShardState.last is read and written under ShardState.lock, a spinlock
 *	  held for a comparison and a store; nothing that can fail, wait or be
 *	  interrupted happens under it.
 *	- Bounds.latest is an atomic that only grows.  It is raised to a tick
 *	  before the first position of that tick is taken, so no shard is ever
 *	  ahead of it.
 *	- BackendSlot is written only by the backend it belongs to, under its
 *	  spinlock, so that others can read a consistent copy under the same lock;
 *	  the owner reads it without.
 *	- No two of these locks are ever held together, and none while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "generator.h"
#include "horizon.h"
#include "layout.h"
#include "report.h"
#include "settings.h"
#include "wait.h"

PG_FUNCTION_INFO_V1(snowflake_nextval);
PG_FUNCTION_INFO_V1(snowflake_nextval_shard);
PG_FUNCTION_INFO_V1(snowflake_lastval);

#define US_PER_MS INT64CONST(1000)

/* How often a call that waits for a clock that is behind looks at it. */
#define CLOCK_POLL_US (100 * US_PER_MS)

typedef struct ShardState
{
	slock_t lock;
	int64	last; /* position of the last id; -1 before any */
} ShardState;

typedef struct BackendSlot
{
	slock_t lock;
	int		pid;   /* 0: nobody's, and the rest is meaningless */
	int32	shard; /* of the last id */
	int64	last_id;
	int64	minted; /* ids */
	int64	waits;
	int64	waited_us;
} BackendSlot;

/* Each in a cache line of its own, so that neighbours do not disturb. */
typedef union PaddedShard
{
	ShardState state;
	char	   padding[PG_CACHE_LINE_SIZE];
} PaddedShard;

typedef union PaddedSlot
{
	BackendSlot slot;
	char		padding[PG_CACHE_LINE_SIZE];
} PaddedSlot;

StaticAssertDecl(sizeof(ShardState) <= PG_CACHE_LINE_SIZE &&
					 sizeof(BackendSlot) <= PG_CACHE_LINE_SIZE,
				 "a shard and a slot each fit a cache line");

/* What became of an attempt to take a position. */
typedef enum Outcome
{
	TAKEN,
	FULL, /* no position left in this tick */
	STALE /* the tick given is over: read the clock */
} Outcome;

/* In shared memory, one piece: the shards, then the slots. */
static PaddedShard *shards = NULL;
static PaddedSlot  *slots = NULL;

/* This backend's slot, from its first mint on. */
static BackendSlot *my_slot = NULL;


/*-------------------------------------------------------------------------
 * Shared memory
 *-------------------------------------------------------------------------
 */

static Size
shards_size(void)
{
	return mul_size(layout_last_shard(settings_layout()) + 1,
					sizeof(PaddedShard));
}

Size
generator_shmem_size(void)
{
	/* room to begin at a cache line */
	return add_size(add_size(PG_CACHE_LINE_SIZE, shards_size()),
					mul_size(MaxBackends, sizeof(PaddedSlot)));
}

void
generator_shmem_startup(void)
{
	bool  found;
	char *start;

	start = ShmemInitStruct("snowflake", generator_shmem_size(), &found);
	start = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, start);
	shards = (PaddedShard *) start;
	slots = (PaddedSlot *) (start + shards_size());
	if (found)
		return;
	for (int64 i = 0; i <= layout_last_shard(settings_layout()); i++)
	{
		SpinLockInit(&shards[i].state.lock);
		shards[i].state.last = -1;
	}
	for (int i = 0; i < MaxBackends; i++)
	{
		SpinLockInit(&slots[i].slot.lock);
		slots[i].slot.pid = 0;
	}
}

/*-------------------------------------------------------------------------
 * This backend's slot
 *-------------------------------------------------------------------------
 */

static void
give_up_slot(int code, Datum arg)
{
	SpinLockAcquire(&my_slot->lock);
	my_slot->pid = 0;
	SpinLockRelease(&my_slot->lock);
	my_slot = NULL;
}

static void
claim_slot(void)
{
	BackendSlot *slot = &slots[my_backend_index()].slot;

	Assert(my_backend_index() >= 0 && my_backend_index() < MaxBackends);
	SpinLockAcquire(&slot->lock);
	slot->pid = MyProcPid;
	slot->shard = -1;
	slot->last_id = -1;
	slot->minted = 0;
	slot->waits = 0;
	slot->waited_us = 0;
	SpinLockRelease(&slot->lock);
	my_slot = slot;
	on_shmem_exit(give_up_slot, (Datum) 0);
}

static void
note_mint(int64 id, int32 shard)
{
	SpinLockAcquire(&my_slot->lock);
	my_slot->shard = shard;
	my_slot->last_id = id;
	my_slot->minted++;
	SpinLockRelease(&my_slot->lock);
}

static void
note_wait(int64 us)
{
	SpinLockAcquire(&my_slot->lock);
	my_slot->waits++;
	my_slot->waited_us += us;
	SpinLockRelease(&my_slot->lock);
}


/*-------------------------------------------------------------------------
 * Waiting and the clock
 *-------------------------------------------------------------------------
 */

/* Wait, and count it. */
static int64
wait_us(int64 us, uint32 wait_event)
{
	int64 waited_us = wait_outside_locks(us, wait_event, NULL);

	note_wait(waited_us);
	return waited_us;
}

/* Wait for the tick after the given one to begin. */
static void
wait_for_tick_after(const Layout *layout, int64 tick)
{
	static uint32 event = 0;
	int64 us = layout_time_of_tick(layout, tick + 1) - GetCurrentTimestamp();

	if (event == 0)
		event = named_wait_event("SnowflakeExhausted");
	/* a clock set back meanwhile is the caller's to notice, a tick later */
	if (us > 0)
		(void) wait_us(Min(us, layout->tick_us), event);
}

/* Wait for a clock that is behind, or fail when that has been long enough. */
static void
wait_for_clock(const Layout *layout, TimestampTz now, int64 latest_tick,
			   int64 *waited_us)
{
	static uint32 event = 0;
	TimestampTz	  latest = layout_time_of_tick(layout, latest_tick);
	int64		  behind_us = latest - now;
	int64 patience_us = settings_clock_tolerance_ms() * US_PER_MS - *waited_us;

	if (patience_us <= 0)
	{
		char resume[LAYOUT_TIME_SIZE];

		layout_format_time(latest, resume, sizeof(resume));
		ereport(
			ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("clock is " INT64_FORMAT " ms behind the last id minted",
					(behind_us + US_PER_MS - 1) / US_PER_MS),
			 errdetail("Waited " INT64_FORMAT
					   " ms for it; \"snowflake.clock_tolerance\" is %d ms.",
					   *waited_us / US_PER_MS, settings_clock_tolerance_ms()),
			 errhint(
				 "Check the server's time synchronization. Minting goes on by itself when the clock has reached %s.",
				 resume)));
	}
	if (event == 0)
		event = named_wait_event("SnowflakeClockBehind");
	*waited_us +=
		wait_us(Min(Min(behind_us, patience_us), CLOCK_POLL_US), event);
}

/* Wait for the horizon to be moved past a tick, or fail with the reason. */
static void
wait_for_horizon(int64 tick)
{
	HorizonWait wait = {0};

	while (tick >= (int64) pg_atomic_read_u64(&horizon_bounds->horizon))
	{
		(void) cluster_layout(); /* which may turn out to be another one */
		horizon_wait(&wait, tick);
	}
	ConditionVariableCancelSleep();
	note_wait(wait.waited_us);
}

/* Nobody mints in a tick before this one any more. */
static void
begin_tick(int64 tick)
{
	uint64 latest = pg_atomic_read_u64(&horizon_bounds->latest);

	while ((int64) latest < tick &&
		   !pg_atomic_compare_exchange_u64(&horizon_bounds->latest, &latest,
										   (uint64) tick))
		;
	if (tick >= (int64) pg_atomic_read_u64(&horizon_bounds->renew))
		horizon_ask_for_renewal(tick);
}

/*
 * The present tick, which lies within the bounds.
 *
 * The horizon is read before the latest tick (see horizon.h), and both before
 * the clock: a clock that is found before the latest tick has truly been set
 * back, and is not just read by a slower process.
 */
static int64
read_tick(const Layout *layout, int64 *waited_us)
{
	for (;;)
	{
		int64		horizon;
		int64		latest;
		TimestampTz now;
		int64		tick;

		horizon = (int64) pg_atomic_read_u64(&horizon_bounds->horizon);
		pg_read_barrier();
		latest = (int64) pg_atomic_read_u64(&horizon_bounds->latest);
		pg_read_barrier();
		now = GetCurrentTimestamp();
		if (!layout_tick_of_time(layout, now, &tick) || tick < 0 ||
			tick > layout->last_mint_tick)
			report_time_range(layout, now, 0, layout->last_mint_tick);
		if (tick < latest)
			wait_for_clock(layout, now, latest, waited_us);
		else if (tick >= horizon)
			wait_for_horizon(tick);
		else
		{
			if (tick > latest)
				begin_tick(tick);
			return tick;
		}
	}
}

/*-------------------------------------------------------------------------
 * Minting
 *-------------------------------------------------------------------------
 */

/*
 * THE MINTING RULE: the next position of a shard is the greatest of the
 * present tick's first, the last one's successor, and the caller's floor.  It
 * is taken if its tick has begun.
 */
static Outcome
take(ShardState *shard, const Layout *layout, int64 tick, int64 floor,
	 int64 *position)
{
	Outcome outcome = TAKEN;
	int64	least = Max(layout_position(layout, tick, 0), floor);
	int64	last;

	SpinLockAcquire(&shard->lock);
	last = shard->last;
	*position = Max(least, last + 1);
	if (layout_position_tick(layout, *position) <= tick)
		shard->last = *position;
	else if (layout_position_tick(layout, last) > tick)
		outcome = STALE;
	else
		outcome = FULL;
	SpinLockRelease(&shard->lock);
	return outcome;
}

/* Mint on one shard, waiting for the next tick while this one is full. */
static int64
mint_on(const Layout *layout, int32 shard)
{
	int64 waited_us = 0;
	int64 position;

	for (;;)
	{
		int64	tick = read_tick(layout, &waited_us);
		Outcome outcome =
			take(&shards[shard].state, layout, tick, 0, &position);

		if (outcome == TAKEN)
			return layout_id_at(layout, position, shard);
		if (outcome == FULL)
			wait_for_tick_after(layout, tick);
	}
}

/*
 * Where among the own shards a search for a position in this tick begins.
 *
 * A session's ids increase.  If its last id is of this tick, then with the
 * shard above the sequence only that id's shard and higher ones can follow;
 * with the sequence above the shard, the next one makes the closest id, and
 * going round uses all shards evenly.
 */
static int
first_to_try(const Layout *layout, const OwnShards *own, int64 tick)
{
	int i = 0;

	if (my_slot->minted == 0 || layout_tick(layout, my_slot->last_id) != tick)
		return 0;
	while (i < own->count && own->shard[i] < my_slot->shard)
		i++;
	if (layout->sequence_shift > layout->shard_shift && i < own->count &&
		own->shard[i] == my_slot->shard)
		i++;
	return i % own->count;
}

/*
 * Mint on the server's own shards: the first that has a position left in this
 * tick, and whose id follows all that this session minted.
 */
static int64
mint_on_own(const Layout *layout, const OwnShards *own)
{
	int64 waited_us = 0;
	int64 position;

	for (;;)
	{
		int64	tick = read_tick(layout, &waited_us);
		int		i = first_to_try(layout, own, tick);
		Outcome outcome = FULL;

		for (int tries = 0; tries < own->count && outcome == FULL; tries++)
		{
			int32 shard = own->shard[i];
			int64 floor =
				layout_position_after(layout, my_slot->last_id, shard);

			outcome =
				take(&shards[shard].state, layout, tick, floor, &position);
			if (outcome == TAKEN)
				return layout_id_at(layout, position, shard);
			i = (i + 1) % own->count;
		}
		if (outcome == FULL)
			wait_for_tick_after(layout, tick);
	}
}

/* All that must hold before anything is minted; returns the layout. */
static const Layout *
prepare_to_mint(void)
{
	const Layout *layout = cluster_layout();

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot mint ids during recovery"),
				 errhint("Mint on the primary server. Ids can be read here.")));
	if (!IsUnderPostmaster)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("cannot mint ids in single-user mode")));
	if (my_slot == NULL)
		claim_slot();
	return layout;
}

static bool
owns_shard(const OwnShards *own, int32 shard)
{
	int low = 0;
	int high = own->count;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (own->shard[middle] < shard)
			low = middle + 1;
		else
			high = middle;
	}
	return low < own->count && own->shard[low] == shard;
}

/* snowflake_nextval(shard int) */
Datum
snowflake_nextval_shard(PG_FUNCTION_ARGS)
{
	int32			 shard = PG_GETARG_INT32(0);
	const Layout	*layout = prepare_to_mint();
	const OwnShards *own = settings_own_shards();
	int64			 id;

	if (shard < 0 || shard > layout_last_shard(layout))
		report_part_range(layout, "shard", shard, layout_last_shard(layout));
	if (own->count > 0 && !owns_shard(own, shard))
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("shard %d is not one of this server's", shard),
			 errdetail("\"snowflake.shards\" is \"%s\".",
					   settings_own_shards_text()),
			 errhint(
				 "Call snowflake_nextval() without an argument to mint on this server's own shards.")));
	id = mint_on(layout, shard);
	note_mint(id, shard);
	PG_RETURN_INT64(id);
}

/* snowflake_nextval() */
Datum
snowflake_nextval(PG_FUNCTION_ARGS)
{
	const Layout	*layout = prepare_to_mint();
	const OwnShards *own = settings_own_shards();
	int64			 id;

	if (own->count == 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("no shard is configured for this server"),
			 errhint(
				 "Set \"snowflake.shards\" to the shards that are this server's alone, such as '5' or '0-7', or name a shard, as in snowflake_nextval(5).")));
	id = mint_on_own(layout, own);
	note_mint(id, layout_shard(layout, id));
	PG_RETURN_INT64(id);
}

/* The last id that this session minted. */
Datum
snowflake_lastval(PG_FUNCTION_ARGS)
{
	(void) settings_layout();
	if (my_slot == NULL || my_slot->minted == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake_lastval is not yet defined in this session"),
				 errhint("Call snowflake_nextval first.")));
	PG_RETURN_INT64(my_slot->last_id);
}
