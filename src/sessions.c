/*-------------------------------------------------------------------------
 *
 * sessions.c
 *	  A slot for each session that mints: what it did, and where it holds the mark.
 *
 * The mark of snowflake_settled() stands below the ids of every transaction that
 * may still mint or commit.  So a transaction holds it, in its session's slot,
 * from before its first id to its end: see mark.c.
 *
 * A note about locking: a slot is written only by the session that it belongs to:
 * its atomics without a lock, because a second lock would cost half as much as the
 * id, the rest under its spinlock.  Others read each atomic by itself,
 * so they may see an id that is not counted yet; the owner needs no lock.  Under the
 * spinlock a slot changes hands, so who reads it there has one session's.  A session
 * begins to hold the mark under that lock, and a reader of the mark takes that lock, too:
 * see mark.c.  That reader alone looks at "pid" before: see sessions_first_mark_tick().
 *
 * test/memory has this file searched with weak memory: a mark after another, a slot
 * that is used again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "positions.h"
#include "sessions.h"

/* Each in a cache line of its own, so that neighbours do not disturb. */
typedef union PaddedSlot
{
	SessionSlot slot;
	char		padding[PG_CACHE_LINE_SIZE];
} PaddedSlot;

StaticAssertDecl(sizeof(SessionSlot) <= PG_CACHE_LINE_SIZE,
				 "a slot fits a cache line");

static PaddedSlot *slots = NULL;
SessionSlot		  *my_slot = NULL;
int64			   my_held = HOLDS_NOTHING;

static inline SessionSlot *
slot_at(int index)
{
	Assert(index >= 0 && index < MaxBackends);
	return &slots[index].slot;
}

Size
sessions_shmem_size(void)
{
	/* room to begin at a cache line */
	return mul_size(MaxBackends + 1, sizeof(PaddedSlot));
}

void
sessions_shmem_startup(void)
{
	bool  found;
	char *start =
		ShmemInitStruct("snowflake sessions", sessions_shmem_size(), &found);

	slots = (PaddedSlot *) TYPEALIGN(PG_CACHE_LINE_SIZE, start);
	for (int i = 0; i < MaxBackends && !found; i++)
	{
		SessionSlot *slot = slot_at(i);

		memset(slot, 0, sizeof(SessionSlot));
		SpinLockInit(&slot->lock);
		pg_atomic_init_u64(&slot->last_id, (uint64) NO_ID);
		pg_atomic_init_u64(&slot->minted, 0);
		pg_atomic_init_u64(&slot->mark_tick, (uint64) NO_TICK);
		pg_atomic_init_u64(&slot->first_id, (uint64) NO_ID);
	}
}

/* At the end of the process: it mints no more. */
static void
give_up_slot(int code, Datum arg)
{
	pg_atomic_write_u64(&my_slot->mark_tick, (uint64) NO_TICK);
	SpinLockAcquire(&my_slot->lock);
	my_slot->pid = 0;
	SpinLockRelease(&my_slot->lock);
}

void
session_begin(void)
{
	int			 index = my_backend_index();
	SessionSlot *slot;

	if (index < 0 || index >= MaxBackends)
		elog(ERROR, "cannot mint ids in this kind of process");
	slot = slot_at(index);
	SpinLockAcquire(&slot->lock);
	pg_atomic_write_u64(&slot->last_id, (uint64) NO_ID);
	pg_atomic_write_u64(&slot->minted, 0);
	slot->pid = MyProcPid;
	slot->database = MyDatabaseId;
	slot->waits = 0;
	slot->waited_us = 0;
	SpinLockRelease(&slot->lock);
	pg_memory_barrier(); /* who found the slot free has raised the latest tick */
	my_slot = slot;
	on_shmem_exit(give_up_slot, (Datum) 0);
}

void
session_count_wait(int64 us)
{
	SpinLockAcquire(&my_slot->lock);
	my_slot->waits++;
	my_slot->waited_us += us;
	SpinLockRelease(&my_slot->lock);
}

/* --- Holding the mark -------------------------------------------------------- */

/*
 * Hold the mark at the latest tick, before read_tick() reads that again: for a shard, or
 * for all.  Under the lock that tick is read and put into the slot in one step: a reader
 * that looks at the slot in between would give a mark that this one is before.
 */
void
session_hold_mark(int32 shard)
{
	SessionSlot *slot = my_slot;

	pg_atomic_write_u64(&slot->first_id, (uint64) NO_ID);
	SpinLockAcquire(&slot->lock);
	slot->mark_shard = shard;
	slot->mark_others_tick = NO_TICK;
	pg_atomic_write_u64(&slot->mark_tick, pg_atomic_read_u64(&bounds->latest));
	SpinLockRelease(&slot->lock);
	my_held = HOLDS_LATEST;
}

/*
 * The transaction has minted on one shard, and is about to mint on another: hold the mark
 * for all of them from now on, likewise.
 */
void
session_hold_mark_for_all(void)
{
	SessionSlot *slot = my_slot;

	SpinLockAcquire(&slot->lock);
	slot->mark_others_tick = (int64) pg_atomic_read_u64(&bounds->latest);
	SpinLockRelease(&slot->lock);
	my_held = ALL_SHARDS;
}

/* No later id of the transaction is of a tick before its first one's. */
void
session_note_first_id(int64 id, int64 tick)
{
	pg_atomic_write_u64(&my_slot->first_id, (uint64) id);
	pg_atomic_write_u64(&my_slot->mark_tick, (uint64) tick);
	my_held = my_slot->mark_shard;
}

/* Where this transaction holds the mark. */
Hold
session_hold(void)
{
	if (likely(my_held == HOLDS_NOTHING))
		return (Hold){.tick = NO_TICK};
	return (Hold){.tick = (int64) pg_atomic_read_u64(&my_slot->mark_tick),
				  .others_tick = my_slot->mark_others_tick,
				  .shard = my_slot->mark_shard};
}

/* The transaction has ended, and is where mark.c finds it. */
void
session_release_mark(void)
{
	pg_write_barrier();
	pg_atomic_write_u64(&my_slot->mark_tick, (uint64) NO_TICK);
	my_held = HOLDS_NOTHING;
}

/* The tick at which it holds the mark of these shards, or of all, if NULL. */
int64
hold_tick(const Hold *hold, const OwnShards *shards)
{
	if (shards == NULL || hold->tick == NO_TICK || hold->shard == ALL_SHARDS ||
		has_shard(shards, hold->shard))
		return hold->tick;
	return hold->others_tick;
}

/*
 * The first tick at which a session of a database holds the mark of these shards, or of
 * all, if NULL.  The caller has raised the latest tick, and then comes a full barrier: a
 * session that begins in a slot which was free here begins with that tick, or a later one.
 */
int64
sessions_first_mark_tick(Oid database, const OwnShards *shards)
{
	int64 first = NO_TICK;

	for (int i = 0; i < MaxBackends; i++)
	{
		SessionSlot *slot = slot_at(i);
		Hold		 hold = {.tick = NO_TICK};
		int64		 tick;

		if (slot->pid == 0)
			continue;
		SpinLockAcquire(&slot->lock);
		if (slot->database == database)
		{
			hold.tick = (int64) pg_atomic_read_u64(&slot->mark_tick);
			hold.others_tick = slot->mark_others_tick;
			hold.shard = slot->mark_shard;
		}
		SpinLockRelease(&slot->lock);
		tick = hold_tick(&hold, shards);
		first = Min(first, tick);
	}
	return first;
}

/* False where the slot is nobody's.  All is of one session: see above. */
bool
sessions_read(int index, SessionStats *stats)
{
	SessionSlot *slot = slot_at(index);

	SpinLockAcquire(&slot->lock);
	stats->pid = slot->pid;
	stats->waits = slot->waits;
	stats->waited_us = slot->waited_us;
	stats->mark_shard =
		slot->mark_others_tick == NO_TICK ? slot->mark_shard : ALL_SHARDS;
	stats->minted = (int64) pg_atomic_read_u64(&slot->minted);
	stats->last_id = (int64) pg_atomic_read_u64(&slot->last_id);
	stats->first_id = (int64) pg_atomic_read_u64(&slot->first_id);
	stats->mark_tick = (int64) pg_atomic_read_u64(&slot->mark_tick);
	SpinLockRelease(&slot->lock);
	return stats->pid != 0;
}
