/*-------------------------------------------------------------------------
 *
 * lease_table_cases.c
 *	  Each way in which leases become others in shared memory, and what sessions see then.
 *
 * lease_table_cases() calls the functions of lease_table.c, with shards and a clock of our
 * own below them.  It tries all cases, compares each with what the comments of
 * lease_table.c say, and returns how many it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "lease_system.h"

PG_MODULE_MAGIC;

/* --- The system ------------------------------------------------------------ */

#define UNLOCKED (-1)

static union
{
	LeaseTable table;
	char	   bytes[32768];
} memory, seen; /* "seen" is what it was when the lock was released */

static bool			is_found;
static Size			size_asked;
static LWLockPadded locks[SERVER_LOCK_COUNT];
static int			lock_mode = UNLOCKED;
static StringInfo	events; /* what happened, in this order */
static bool			is_open[4];
static bool			asks_for[4];
static int			kept;  /* pieces of memory of the session */
static Worker	   *begun; /* the worker */
static void (*forgets)(void);

/* The part of the memory that the lock is for. */
static bool
is_as_seen(void)
{
	Size from = offsetof(LeaseTable, end);

	return memcmp(memory.bytes + from, seen.bytes + from,
				  leases_shmem_size() - from) == 0;
}

static void
our_acquire(LWLock *lock, LWLockMode mode)
{
	CHECK(lock == &locks[END_LOCK].lock);
	CHECK(lock_mode == UNLOCKED);
	CHECK(is_as_seen());
	lock_mode = mode;
}

static void
our_release(LWLock *lock)
{
	CHECK(lock == &locks[END_LOCK].lock);
	CHECK(lock_mode == LW_EXCLUSIVE || lock_mode == LW_SHARED);
	CHECK(lock_mode == LW_EXCLUSIVE || is_as_seen());
	memcpy(&seen, &memory, leases_shmem_size());
	lock_mode = UNLOCKED;
}

static void *
our_shmem(const char *name, Size size, bool *found)
{
	size_asked = size;
	*found = is_found;
	return &memory;
}

static void *
our_alloc(MemoryContext context, Size size)
{
	CHECK(context == TopMemoryContext);
	CHECK(lock_mode != UNLOCKED);
	kept++;
	return palloc(size);
}

static void
our_pfree(void *bytes)
{
	CHECK(bytes != NULL);
	kept--;
}

#define GetNamedLWLockTranche(name) locks
#define ShmemInitStruct(name, size, found) our_shmem(name, size, found)
#define LWLockAcquire(lock, mode) our_acquire(lock, mode)
#define LWLockRelease(lock) our_release(lock)
#define MemoryContextAlloc(context, size) our_alloc(context, size)
#define pfree(bytes) our_pfree(bytes)
#define ConditionVariableBroadcast(variable) our_broadcast(variable)

/* What waits must not be done with the lock held, and the rest not without it. */
static void
note(bool is_locked, const char *event, int64 number)
{
	CHECK(lock_mode == (is_locked ? LW_EXCLUSIVE : UNLOCKED));
	appendStringInfo(events, "%s " INT64_FORMAT "; ", event, number);
}

static void
our_broadcast(ConditionVariable *variable)
{
	CHECK(variable == &memory.table.worker.attempted);
	note(false, "wake", 0);
}

void
positions_close(int32 shard)
{
	is_open[shard] = false;
	note(false, "close", shard);
}

void
positions_open(int32 shard, int64 tick)
{
	is_open[shard] = true;
	note(false, psprintf("open %d from", shard), tick);
}

bool
positions_is_open(int32 shard)
{
	return is_open[shard];
}

void
positions_set_common_end(TimestampTz end)
{
	note(true, "end", end);
}

void
positions_note_change(void)
{
	note(false, "change", 0);
}

bool
settings_ask_for(int32 shard)
{
	return asks_for[shard];
}

void
worker_shmem_startup(Worker *worker)
{
	CHECK(worker == &memory.table.worker);
	note(false, "worker", 0);
}

void
worker_begin(Worker *worker, void (*forget)(void))
{
	begun = worker;
	forgets = forget;
}

/* Who is woken sees the outcome. */
void
worker_end_attempt(Worker *worker)
{
	CHECK(worker == &memory.table.worker);
	CHECK(is_as_seen());
	note(false, "attempt", steady_us);
}

#include "../../src/shards.c"
#include "../../src/lease/lease_table.c"

StaticAssertDecl(sizeof(LeaseTable) + 4 * sizeof(HeldLease) + 4 <=
					 sizeof(memory),
				 "there is room for its shared memory");

static void
begin(void)
{
	begin_case();
	events = makeStringInfo();
}

/* Begin with the memory as the case has written it. */
static void
begin_with_table(void)
{
	begin();
	memcpy(&seen, &memory, sizeof(seen));
}

/* --- The start --------------------------------------------------------------- */

static void
try_start(void)
{
	for (int i = 0; i < 2; i++)
	{
		Size size = offsetof(LeaseTable, held) + 4 * sizeof(HeldLease) + 4;

		begin();
		is_found = i == 0;
		memset(&memory, 0xff, sizeof(memory));
		memset(&locks, 0, sizeof(locks));
		leases_shmem_startup();
		CHECK(leases_shmem_size() == size && size_asked == size);
		CHECK(strcmp(events->data, is_found ? "" : "worker 0; ") == 0);
		for (int byte = 0; byte < sizeof(memory); byte++)
		{
			if (byte - offsetof(LeaseTable, end) < sizeof(TimestampTz))
				continue;
			CHECK(memory.bytes[byte] ==
				  (char) (is_found || byte >= size ? 0xff : 0));
		}
		CHECK(is_found || memory.table.end == DT_NOBEGIN);
	}
	leases_begin_worker();
	CHECK(begun == &memory.table.worker && leases_worker() == begun);
	CHECK(forgets == leases_forget_outcome);
}

/* --- A record becomes the table -------------------------------------------- */

/* When leases begin and end, the tick that is, and when that tick begins. */
static const struct
{
	TimestampTz at;
	int64		tick;
	TimestampTz tick_at;
} from[] = {{25, 3, 30}, {40, 4, 40}}, until[] = {{75, 8, 80}, {90, 9, 90}};

/* What there is of a shard, in the table or in a record: nothing, a lease, or no lease. */
#define NO_LEASE 0
#define NOT_HELD_ANY_MORE 5
#define IN_TABLE 5	/* cases */
#define IN_RECORD 6 /* cases */

#define FROM(lease_case) (from[((lease_case) -1) % 2])
#define UNTIL(lease_case) (until[((lease_case) -1) / 2 % 2])

typedef struct ShardCase
{
	int	 in_table;
	bool was_counted;
	int	 in_record;
} ShardCase;

static const int32 number[] = {1, 3};
static ShardCase   of_shard[2];
static bool		   is_on_disk;

/* Behind the last lease there is what nobody must take for one. */
static const HeldLease behind = {{25, 1, 2, HELD_HERE}, true};

static Lease
lease_of(int lease_case, int32 shard)
{
	return (Lease){FROM(lease_case).at, UNTIL(lease_case).at, shard,
				   lease_case == NOT_HELD_ANY_MORE ? NOT_HELD :
				   lease_case % 2				   ? HELD_HERE :
													 HELD_FORGOTTEN};
}

static void
set_table(void)
{
	LeaseTable *table = &memory.table;

	table->count = 0;
	table->end = 7; /* no new end may be of the old one */
	table->holder = 1;
	memset(is_open, 0, sizeof(is_open));
	for (int i = 0; i < lengthof(of_shard); i++)
	{
		if (of_shard[i].in_table == NO_LEASE)
			continue;
		table->held[table->count++] =
			(HeldLease){lease_of(of_shard[i].in_table, number[i]),
						of_shard[i].was_counted};
		is_open[number[i]] = of_shard[i].was_counted;
	}
	for (int i = table->count; i < 4; i++)
		table->held[i] = behind;
}

static void
fill_record(LeaseRecord *record)
{
	for (int i = 0; i < lengthof(of_shard); i++)
	{
		if (of_shard[i].in_record != NO_LEASE)
			record->lease[record->count++] =
				lease_of(of_shard[i].in_record, number[i]);
	}
	record->lease[record->count] = behind.lease;
}

/* Add what happens to a shard; gives whether it is held then. */
static bool
expect(const ShardCase *it, int32 shard, int64 horizon, int64 found_horizon,
	   HeldLease *held, StringInfo closes, StringInfo opens)
{
	bool is_held =
		it->in_record != NO_LEASE && it->in_record != NOT_HELD_ANY_MORE;
	bool goes_on = is_held && it->in_table != NO_LEASE &&
				   FROM(it->in_record).at == FROM(it->in_table).at;

	if (it->in_table != NO_LEASE && !goes_on)
		appendStringInfo(closes, "close %d; ", shard);
	if (!is_held || (!is_on_disk && !goes_on))
		return false;
	held->lease = lease_of(is_on_disk ? it->in_record : it->in_table, shard);
	held->is_counted = goes_on && it->was_counted;
	if (is_on_disk && !held->is_counted &&
		clock_us >= FROM(it->in_record).tick_at &&
		horizon <= UNTIL(it->in_record).tick)
	{
		int64 tick = FROM(it->in_record).tick;

		held->is_counted = true;
		appendStringInfo(opens, "open %d from " INT64_FORMAT "; ", shard,
						 tick < found_horizon ? found_horizon : tick);
	}
	return true;
}

static void
try_publish(int64 horizon, int64 found_horizon)
{
	LeaseTable *table = &memory.table;
	LeaseRecord record = {.caller.holder = 77, .lease = (Lease[3]){{0}}};
	StringInfo	expected = makeStringInfo();
	StringInfo	opens = makeStringInfo();
	TimestampTz end = DT_NOBEGIN;
	HeldLease	held[2];
	int			count = 0;

	for (int i = 0; i < lengthof(of_shard); i++)
	{
		if (!expect(&of_shard[i], number[i], horizon, found_horizon,
					&held[count], expected, opens))
			continue;
		if (held[count].is_counted &&
			(end == DT_NOBEGIN || held[count].lease.until < end))
			end = held[count].lease.until;
		count++;
	}
	if (expected->len > 0 || opens->len > 0)
		appendStringInfo(opens, "wake 0; ");
	appendStringInfo(expected, "end " INT64_FORMAT "; %s%s", end,
					 opens->len > 0 ? "change 0; " : "", opens->data);

	pg_atomic_write_u64(&bounds->horizon, horizon);
	pg_atomic_write_u64(&bounds->found_horizon, found_horizon);
	fill_record(&record);
	leases_publish(&record, is_on_disk);

	CHECK(strcmp(events->data, expected->data) == 0);
	CHECK(lock_mode == UNLOCKED && is_as_seen());
	CHECK(table->end == end && table->holder == 77 && table->count == count);
	for (int i = 0; i < count; i++)
	{
		CHECK(memcmp(&table->held[i].lease, &held[i].lease, sizeof(Lease)) ==
			  0);
		CHECK(table->held[i].is_counted == held[i].is_counted);
	}
}

/* All that the system around can be like, for one table and one record. */
static void
try_record(void)
{
	static const TimestampTz clocks[] = {29, 30, 39, 40};

	for (int i = 0; i < lengthof(clocks) * 3 * 2 * 2; i++)
	{
		int64 horizon = 8 + i / 4 % 3;
		int64 found_horizon = i / 12 % 2 ? 4 : 0;

		clock_us = clocks[i % 4];
		is_on_disk = i / 24;
		set_table();
		begin_with_table();
		try_publish(horizon, found_horizon);
	}
}

static void
try_records(void)
{
	int shard_cases = IN_TABLE * 2 * IN_RECORD;

	for (int i = 0; i < shard_cases * shard_cases; i++)
	{
		int rest = i;

		for (int n = 0; n < lengthof(of_shard); n++)
		{
			of_shard[n].in_table = rest % IN_TABLE;
			of_shard[n].was_counted = rest / IN_TABLE % 2;
			of_shard[n].in_record = rest / IN_TABLE / 2 % IN_RECORD;
			rest /= shard_cases;
		}
		snprintf(what_is_tried, sizeof(what_is_tried),
				 "table %d %d, record %d %d", of_shard[0].in_table,
				 of_shard[1].in_table, of_shard[0].in_record,
				 of_shard[1].in_record);
		try_record();
	}
}

/* --- Attempts, losses, reserved shards ------------------------------------- */

static void
try_attempts(void)
{
	LeaseTable	*table = &memory.table;
	LeaseOutcome outcome;

	for (int i = 0; i < (REGISTRY_UNSTORED + 1) * (RESERVED_YES + 1); i++)
	{
		int			kind = i % (REGISTRY_UNSTORED + 1);
		Reservation before = i / (REGISTRY_UNSTORED + 1);

		memset(&outcome, i + 1, sizeof(outcome));
		outcome.failure.kind = kind;
		table->reservation = before;
		begin_with_table();
		steady_us = 100 + i;
		leases_end_attempt(&outcome);
		CHECK(strcmp(events->data, psprintf("attempt %d; ", 100 + i)) == 0);
		CHECK(memcmp(&table->outcome, &outcome, sizeof(outcome)) == 0);
		CHECK(table->ended_us == 100 + i);
		CHECK(table->reservation ==
			  (kind == REGISTRY_ANSWERED ? before : RESERVED_UNKNOWN));

		begin();
		leases_forget_outcome();
		outcome.failure.kind = REGISTRY_ANSWERED;
		CHECK(memcmp(&table->outcome, &outcome, sizeof(outcome)) == 0);
		CHECK(table->ended_us == 0);
		CHECK(lock_mode == UNLOCKED && is_as_seen());
	}

	begin();
	for (int i = 0; i < 8; i++)
	{
		pg_atomic_write_u32(&table->asked, i & 1);
		if (i & 2)
			leases_ask();
		CHECK(leases_take_request() == ((i & 3) != 0));
		CHECK(!leases_take_request());
	}
}

static void
try_losses(void)
{
	LeaseTable *table = &memory.table;

	table->losses = 0;
	begin_with_table();
	for (int i = 0; i < 3 * LEASE_MAX_LOSSES; i++)
	{
		LeaseLoss loss;

		memset(&loss, i + 1, sizeof(loss));
		leases_note_loss(&loss);
		CHECK(lock_mode == UNLOCKED && is_as_seen());
		CHECK(table->losses == i + 1);

		/* the last ones are there */
		for (int n = 0; n < LEASE_MAX_LOSSES && n <= i; n++)
		{
			memset(&loss, i - n + 1, sizeof(loss));
			CHECK(memcmp(&table->loss[(i - n) % LEASE_MAX_LOSSES], &loss,
						 sizeof(loss)) == 0);
		}
	}
}

static void
try_reserved(void)
{
	LeaseTable *table = &memory.table;
	bool		list[4];

	for (int i = 0; i < 16; i++)
	{
		for (int shard = 0; shard < 4; shard++)
			list[shard] = i >> shard & 1;
		begin();
		leases_note_reserved(list);
		for (int shard = 0; shard < 4; shard++)
			CHECK(leases_reservation(shard) ==
				  (list[shard] ? RESERVED_YES : RESERVED_NOT));

		/* without a list it does not count what the last one said */
		leases_note_reserved(NULL);
		for (int shard = 0; shard < 4; shard++)
			CHECK(leases_reservation(shard) == RESERVED_TOO_MANY);
		table->reservation = RESERVED_UNKNOWN;
		begin_with_table();
		for (int shard = 0; shard < 4; shard++)
			CHECK(leases_reservation(shard) == RESERVED_UNKNOWN);
		CHECK(lock_mode == UNLOCKED);
	}
}

/* --- What sessions read ------------------------------------------------------ */

static void
try_copy(void)
{
	for (int count = 0; count <= 4; count++)
	{
		LeaseTable *copy;
		Size size = offsetof(LeaseTable, held) + count * sizeof(HeldLease);

		memset(&memory, count + 1, sizeof(memory));
		memory.table.count = count;
		begin_with_table();
		copy = leases_copy();
		CHECK(lock_mode == UNLOCKED);
		CHECK(memcmp(copy, &memory, size) == 0);
		CHECK(((char *) copy)[size] == SIGN);
	}
}

/* Each of the 4 shards: not in the table, not counted, or counted; asked for or not. */
static void
try_own_shards(void)
{
	LeaseTable *table = &memory.table;

	kept = 0;
	for (int i = 0; i < 3 * 3 * 3 * 3 * 16; i++)
	{
		const OwnShards *own;
		int				 expected = 0;
		int				 rest = i / 16;

		for (int n = 0; n < 4; n++)
			table->held[n] = behind;
		table->count = 0;
		for (int shard = 0; shard < 4; shard++)
		{
			asks_for[shard] = i >> shard & 1;
			if (rest % 3 > 0)
				table->held[table->count++] =
					(HeldLease){{25, 75, shard, HELD_HERE}, rest % 3 == 2};
			rest /= 3;
		}
		begin_with_table();
		own = leases_own_shards();
		CHECK(lock_mode == UNLOCKED && kept == 1);
		CHECK(own->automatic == 0);
		rest = i / 16;
		for (int shard = 0; shard < 4; shard++)
		{
			if (rest % 3 == 2 && asks_for[shard])
				CHECK(own->count > expected &&
					  own->shard[expected++] == shard);
			rest /= 3;
		}
		CHECK(own->count == expected);
	}
}

static void
try_text(void)
{
	static const int32 shard[] = {1, 2, 3, 7};
	int32			   many[300];

	for (int i = 0; i < lengthof(many); i++)
		many[i] = 2 * i;
	begin();
	CHECK(strcmp(leases_text(shard, 0), "") == 0);
	CHECK(strcmp(leases_text(shard, 4), "1-3,7") == 0);
	CHECK(strlen(leases_text(many, lengthof(many))) == 199);
}

PG_FUNCTION_INFO_V1(lease_table_cases);
Datum
lease_table_cases(PG_FUNCTION_ARGS)
{
	MemoryContext context = CurrentMemoryContext;

	tried = 0;
	try_start();
	try_records();
	try_attempts();
	try_losses();
	try_reserved();
	try_copy();
	try_own_shards();
	try_text();
	MemoryContextSwitchTo(context);
	PG_RETURN_INT64(tried);
}
