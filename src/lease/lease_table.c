/*-------------------------------------------------------------------------
 *
 * lease_table.c
 *	  This server's leases, in shared memory.
 *
 * With snowflake.registry a server mints only on shards that it has leased, and
 * only ids whose time lies within the lease: see lease_worker.c.  The worker that
 * leases writes here, and sessions read.
 *
 * A lease costs a minted id nothing:
 *
 *	- Its end.  The horizon is never raised past the common end: see positions.c.
 *	- Its beginning.  A shard is opened when the clock has reached that, with a
 *	  last position just before it, or later: see positions.c.
 *	- A shard that is not leased is closed.  A session that meets one waits for its
 *	  lease, or learns why there is none: see lease_wait.c.
 *
 * A session mints on the part of its snowflake.shards that is open, or about to be.
 * It finds that part when it first needs it, when snowflake.shards was set, and in
 * each tick if a shard was opened or closed since: see mint.c.
 *
 * A note about locking:
 *	- LeaseTable is read and written under END_LOCK, that of the common end, which is
 *	  of the same leases; but for "asked", which is an atomic, and "worker": see
 *	  worker.c.  The worker alone writes it, and so reads it without the lock.
 *	- No other lock is taken while that is held; nothing waits with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "lease_table.h"
#include "server.h"
#include "shards.h"

static LeaseTable *table = NULL;
static bool		  *reserved = NULL; /* for each shard, behind the table */
static LWLock	  *end_lock = NULL;

/* What this session found when it looked for its shards last. */
static OwnShards *leased_shards = NULL;

/* How many shards the layout has. */
static Size
shards_count(void)
{
	return layout_last_shard(settings_layout()) + 1;
}

static Size
table_size(void)
{
	return add_size(offsetof(LeaseTable, held),
					mul_size(shards_count(), sizeof(HeldLease)));
}

Size
leases_shmem_size(void)
{
	return add_size(table_size(), shards_count());
}

void
leases_shmem_startup(void)
{
	bool found;

	end_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[END_LOCK].lock;
	table = ShmemInitStruct("snowflake leases", leases_shmem_size(), &found);
	reserved = (bool *) table + table_size();
	if (found)
		return;
	memset(table, 0, leases_shmem_size());
	pg_atomic_init_u32(&table->asked, 0);
	table->end = DT_NOBEGIN;
	worker_shmem_startup(&table->worker);
}

/* --- What the worker writes --------------------------------------------------- */

/*
 * The last attempt is no reason any more for a shard that is not leased: the worker
 * gives all shards back, has other settings, or goes.  Wait for another one.
 */
void
leases_forget_outcome(void)
{
	LWLockAcquire(end_lock, LW_EXCLUSIVE);
	table->ended_us = 0;
	table->outcome.failure.kind = REGISTRY_ANSWERED;
	LWLockRelease(end_lock);
}

void
leases_begin_worker(void)
{
	worker_begin(&table->worker, leases_forget_outcome);
}

/* Has a session asked for an attempt since this was called last? */
bool
leases_take_request(void)
{
	return pg_atomic_exchange_u32(&table->asked, 0) != 0;
}

static int
compare_leases(const void *one, const void *other)
{
	return ((const Lease *) one)->shard - ((const Lease *) other)->shard;
}

/*
 * The same lease, maybe renewed, among things of this size that begin with a lease
 * and are in the order of shards; NULL: it is not held there.
 */
static const void *
find_same(const Lease *lease, const void *among, int count, Size size)
{
	const Lease *found = bsearch(lease, among, count, size, compare_leases);

	return found != NULL && found->kind != NOT_HELD &&
				   found->from == lease->from ?
			   found :
			   NULL;
}

/* Let nobody mint on the shards of leases that are not held any more. */
static bool
close_dropped(const LeaseRecord *record)
{
	bool closed = false;

	/* the worker alone writes the table, and so reads it without the lock */
	for (int i = 0; i < table->count; i++)
	{
		if (find_same(&table->held[i].lease, record->lease, record->count,
					  sizeof(Lease)) != NULL)
			continue;
		positions_close(table->held[i].lease.shard);
		closed = true;
	}
	return closed;
}

/*
 * May the common end count a lease?  Not before it has begun by this server's clock, nor
 * while it ends before the horizon: a renewal must come first.  One that is counted stays
 * so: no renewal lowers an end.
 */
static bool
can_count(const Lease *lease)
{
	const Layout *layout = settings_layout();
	int64		  first = layout_first_tick_from(layout, lease->from);
	int64		  end = layout_first_tick_from(layout, lease->until);

	return layout_time_of_tick(layout, first) <= GetCurrentTimestamp() &&
		   end >= (int64) pg_atomic_read_u64(&bounds->horizon);
}

/*
 * Write the table again, and with it the common end.
 * What is new may not be on disk yet: a lease, or a renewal.  Then leave it out.
 */
static void
write_table(const LeaseRecord *record, bool is_on_disk)
{
	Size	   size = table->count * sizeof(HeldLease);
	HeldLease *before = memcpy(palloc(size), table->held, size);
	int		   nbefore = table->count;

	LWLockAcquire(end_lock, LW_EXCLUSIVE);
	table->holder = record->caller.holder;
	table->count = 0;
	table->end = DT_NOEND;
	for (int i = 0; i < record->count; i++)
	{
		HeldLease		 held = {.lease = record->lease[i]};
		const HeldLease *same =
			find_same(&held.lease, before, nbefore, sizeof(HeldLease));

		if (held.lease.kind == NOT_HELD)
			continue;
		if (is_on_disk)
			held.is_counted =
				(same != NULL && same->is_counted) || can_count(&held.lease);
		else if (same != NULL)
			held = *same;
		else
			continue;
		if (held.is_counted)
			table->end = Min(table->end, held.lease.until);
		table->held[table->count++] = held;
	}
	if (TIMESTAMP_IS_NOEND(table->end))
		table->end = DT_NOBEGIN;
	positions_set_common_end(table->end);
	LWLockRelease(end_lock);
	pfree(before);
}

/* Does the common end count a lease whose shard is closed? */
static bool
has_to_open(void)
{
	for (int i = 0; i < table->count; i++)
	{
		if (table->held[i].is_counted &&
			!positions_is_open(table->held[i].lease.shard))
			return true;
	}
	return false;
}

/* Let sessions mint on the shards that the common end counts. */
static void
open_counted(void)
{
	for (int i = 0; i < table->count; i++)
	{
		const HeldLease *held = &table->held[i];
		int64 first = (int64) pg_atomic_read_u64(&bounds->found_horizon);
		int64 from =
			layout_first_tick_from(settings_layout(), held->lease.from);

		if (held->is_counted && !positions_is_open(held->lease.shard))
			positions_open(held->lease.shard, Max(first, from));
	}
}

/*
 * Bring what sessions see up to this record.  First close what is not held any
 * more, because the common end then may move past it.  Then, if all of the record is
 * on disk, take over what is new, and open what has begun.
 *
 * A shard is opened after all sessions can know of it.  So who still mints without it
 * does so in a tick that had begun before it was opened, and ids on it are of later
 * ticks.
 */
void
leases_publish(const LeaseRecord *record, bool is_on_disk)
{
	bool closed = close_dropped(record);
	bool opens;

	write_table(record, is_on_disk);
	opens = is_on_disk && has_to_open();
	if (!closed && !opens)
		return;
	positions_note_change();
	if (opens)
		open_counted();
	ConditionVariableBroadcast(&table->worker.attempted);
}

/* An attempt has ended. */
void
leases_end_attempt(const LeaseOutcome *outcome)
{
	int64 now_us = steady_clock_us();

	LWLockAcquire(end_lock, LW_EXCLUSIVE);
	table->outcome = *outcome;
	if (outcome->failure.kind != REGISTRY_ANSWERED)
		table->reservation = RESERVED_UNKNOWN;
	table->ended_us = now_us;
	LWLockRelease(end_lock);
	worker_end_attempt(&table->worker);
}

void
leases_note_loss(const LeaseLoss *loss)
{
	LWLockAcquire(end_lock, LW_EXCLUSIVE);
	table->loss[table->losses++ % LEASE_MAX_LOSSES] = *loss;
	LWLockRelease(end_lock);
}

/* The registry says which shards it has reserved; NULL: too many to tell. */
void
leases_note_reserved(const bool *of_registry)
{
	LWLockAcquire(end_lock, LW_EXCLUSIVE);
	table->reservation =
		of_registry != NULL ? RESERVED_YES : RESERVED_TOO_MANY;
	if (of_registry != NULL)
		memcpy(reserved, of_registry, shards_count());
	LWLockRelease(end_lock);
}

/* --- What sessions read -------------------------------------------------------- */

Worker *
leases_worker(void)
{
	return &table->worker;
}

/* Ask the worker for an attempt; who waits for the worker wakes it. */
void
leases_ask(void)
{
	pg_atomic_write_u32(&table->asked, 1);
}

/* All that the worker wrote, but for the shards that are reserved. */
LeaseTable *
leases_copy(void)
{
	LeaseTable *copy;
	Size		size;

	LWLockAcquire(end_lock, LW_SHARED);
	size = offsetof(LeaseTable, held) + table->count * sizeof(HeldLease);
	copy = memcpy(palloc(size), table, size);
	LWLockRelease(end_lock);
	return copy;
}

/* Has the registry reserved a shard, by its last answer, if no attempt has failed since? */
Reservation
leases_reservation(int32 shard)
{
	Reservation answer;

	LWLockAcquire(end_lock, LW_SHARED);
	answer = table->reservation;
	if (answer == RESERVED_YES && !reserved[shard])
		answer = RESERVED_NOT;
	LWLockRelease(end_lock);
	return answer;
}

/*
 * The shards that this session mints on from now on: of those that it asks for the
 * ones that are open, or are being opened.
 */
const OwnShards *
leases_own_shards(void)
{
	OwnShards *own;

	LWLockAcquire(end_lock, LW_SHARED);
	own =
		MemoryContextAlloc(TopMemoryContext, offsetof(OwnShards, shard) +
												 table->count * sizeof(int32));
	own->count = own->automatic = 0;
	for (int i = 0; i < table->count; i++)
	{
		int32 shard = table->held[i].lease.shard;

		if (settings_ask_for(shard) && table->held[i].is_counted)
			own->shard[own->count++] = shard;
	}
	LWLockRelease(end_lock);
	if (leased_shards != NULL)
		pfree(leased_shards);
	leased_shards = own;
	return own;
}

/* Shards, which are in ascending order, as a list; of many, the first. */
char *
leases_text(const int32 *shard, int count)
{
	size_t size = 200;
	char  *text = palloc(size);

	shards_format(shard, count, text, size);
	return text;
}
