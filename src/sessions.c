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
 * what changes with each id as atomics, because a second lock would cost half as
 * much as the id, the rest under its spinlock.  Others read each atomic by itself,
 * so they may see an id that is not counted yet; the owner needs no lock.  A session
 * begins to hold the mark under that lock, and who looks for the mark takes it, too:
 * see mark.c.
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

#include "compat.h"
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
Hold			   my_hold = HOLDS_NOTHING;

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
		memset(&slots[i], 0, sizeof(PaddedSlot));
		SpinLockInit(&slots[i].slot.lock);
		pg_atomic_init_u64(&slots[i].slot.last_id, (uint64) NO_ID);
		pg_atomic_init_u64(&slots[i].slot.minted, 0);
		pg_atomic_init_u64(&slots[i].slot.mark_tick, (uint64) NO_TICK);
		pg_atomic_init_u64(&slots[i].slot.first_id, (uint64) NO_ID);
	}
}

static void
give_up_slot(int code, Datum arg)
{
	pg_atomic_write_u64(&my_slot->mark_tick, (uint64) NO_TICK);
	SpinLockAcquire(&my_slot->lock);
	my_slot->pid = 0;
	SpinLockRelease(&my_slot->lock);
	my_slot = NULL;
}

void
session_begin(void)
{
	int			 index = my_backend_index();
	SessionSlot *slot = &slots[index].slot;

	if (index < 0 || index >= MaxBackends)
		elog(ERROR, "cannot mint ids in this kind of process");
	pg_atomic_write_u64(&slot->last_id, (uint64) NO_ID);
	pg_atomic_write_u64(&slot->minted, 0);
	SpinLockAcquire(&slot->lock);
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
 * Hold the mark at the latest tick, before read_tick() reads that again.  Under the
 * lock that tick is read and put into the slot in one step: a reader that looks at the
 * slot in between would give a mark that this one is before.
 */
void
session_hold_mark(void)
{
	SessionSlot *slot = my_slot;

	pg_atomic_write_u64(&slot->first_id, (uint64) NO_ID);
	SpinLockAcquire(&slot->lock);
	pg_atomic_write_u64(&slot->mark_tick, pg_atomic_read_u64(&bounds->latest));
	SpinLockRelease(&slot->lock);
	my_hold = HOLDS_LATEST;
}

/* No later id of the transaction is of a tick before its first one's. */
void
session_note_first_id(int64 id, int64 tick)
{
	pg_atomic_write_u64(&my_slot->first_id, (uint64) id);
	pg_atomic_write_u64(&my_slot->mark_tick, (uint64) tick);
	my_hold = HOLDS_FIRST_ID;
}

/* The tick at which this transaction holds the mark, or NO_TICK. */
int64
session_mark_tick(void)
{
	if (likely(my_hold == HOLDS_NOTHING))
		return NO_TICK;
	return (int64) pg_atomic_read_u64(&my_slot->mark_tick);
}

/* The transaction has ended, and is where mark.c finds it. */
void
session_release_mark(void)
{
	pg_write_barrier();
	pg_atomic_write_u64(&my_slot->mark_tick, (uint64) NO_TICK);
	my_hold = HOLDS_NOTHING;
}

/*
 * The first tick at which a session of a database holds the mark.  The caller has
 * raised the latest tick, and then comes a full barrier: a session that begins in a
 * slot which was free here begins with that tick, or a later one.
 */
int64
sessions_first_mark_tick(Oid database)
{
	int64 first = NO_TICK;

	for (int i = 0; i < MaxBackends; i++)
	{
		SessionSlot *slot = &slots[i].slot;
		int64		 tick;

		if (slot->pid == 0)
			continue;
		SpinLockAcquire(&slot->lock);
		tick = slot->database == database ?
				   (int64) pg_atomic_read_u64(&slot->mark_tick) :
				   NO_TICK;
		SpinLockRelease(&slot->lock);
		first = Min(first, tick);
	}
	return first;
}

/* False where the slot is nobody's. */
bool
sessions_read(int index, SessionStats *stats)
{
	SessionSlot *slot = &slots[index].slot;

	SpinLockAcquire(&slot->lock);
	stats->pid = slot->pid;
	stats->waits = slot->waits;
	stats->waited_us = slot->waited_us;
	SpinLockRelease(&slot->lock);
	stats->minted = (int64) pg_atomic_read_u64(&slot->minted);
	stats->last_id = (int64) pg_atomic_read_u64(&slot->last_id);
	stats->first_id = (int64) pg_atomic_read_u64(&slot->first_id);
	stats->mark_tick = (int64) pg_atomic_read_u64(&slot->mark_tick);
	return stats->pid != 0;
}
