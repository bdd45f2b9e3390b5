/*-------------------------------------------------------------------------
 *
 * mint_system.h
 *	  What is below mint.c, for mint_cases.c and mint_walk_cases.c: the clock, the bounds,
 *	  the shards and their leases, the session's slot, and all that a call waits for.
 *
 * A wait moves the clock; other sessions act where a case says.
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

#include "../../src/compat.h"
#include "../../src/errors.h"
#include "../../src/horizon.h"
#include "../../src/positions.h"
#include "../../src/server.h"
#include "../../src/sessions.h"
#include "calls.h"

/* --- The server, as a case sets it --------------------------------------- */

#define SHARD_BITS 2
#define SHARDS 4
#define SEQUENCES (1 << layout.sequence_bits)
#define EPOCH INT64CONST(77000000)
#define TICK_US 1000
#define LAST_TICK 1000000

typedef enum LayoutKind
{
	SHARD_ABOVE_SEQUENCE,
	SEQUENCE_ABOVE_SHARD,
	NO_SEQUENCE,
	LAYOUT_KINDS
} LayoutKind;

static LayoutKind layout_kind;
static Layout	  layout;
static bool		  in_parallel;
static bool		  in_recovery;
static bool		  under_postmaster;
static bool		  is_refused; /* by its layout */
static bool		  is_clone;
static bool		  is_cancelled;

static TimestampTz clock_now;
static int64	   woken_after; /* a wait lasts one part of so many */
static int64	   waited;		/* in all waits */
static int		   waits;
static int64	   counted_us; /* for the session */
static int		   counted;
static int64	   counted_on[SHARDS];
static int		   held; /* locks */

static bool	  need_leases;
static int64  leased_until; /* a tick */
static uint32 changes;		/* of shards */
static uint32 seen_changes; /* before a barrier, an older count */
static int	  backend_index;

/* What others do after the next reading of the clock, and a worker in a wait for it. */
static void (*after_clock)(void);
static void (*in_horizon_wait)(void);
static void (*in_lease_wait)(int32 shard);

/* A list of shards, and behind its last one what is no part of it. */
typedef union ShardList
{
	OwnShards list;
	int32	  room[16];
} ShardList;

static ShardList asked;
static ShardList leased;

static void
set_list(ShardList *set, const char *digits)
{
	int32 *shard = set->list.shard;

	set->list.count = strlen(digits);
	for (int i = 0; i < 8; i++)
		shard[i] = i < set->list.count ? digits[i] - '0' : shard[0] + i;
}

static bool
is_in(const ShardList *set, int32 shard)
{
	for (int i = 0; i < set->list.count; i++)
	{
		if (set->list.shard[i] == shard)
			return true;
	}
	return false;
}

static void
set_layout(LayoutKind kind)
{
	int sequence_bits = kind == NO_SEQUENCE ? 0 : 2;

	layout_kind = kind;
	layout = (Layout){
		.epoch = EPOCH,
		.tick_us = TICK_US,
		.timestamp_shift = SHARD_BITS + sequence_bits,
		.shard_bits = SHARD_BITS,
		.shard_shift = kind == SHARD_ABOVE_SEQUENCE ? sequence_bits : 0,
		.sequence_bits = sequence_bits,
		.sequence_shift = kind == SEQUENCE_ABOVE_SHARD ? SHARD_BITS : 0,
		.last_mint_tick = LAST_TICK,
		.first_tick = -1000,
		.last_tick = LAST_TICK + 1000,
	};
}

/* When a tick begins. */
static TimestampTz
start_of(int64 tick)
{
	return EPOCH + tick * TICK_US;
}

static int64
tick_at(TimestampTz time)
{
	return (time - EPOCH) / TICK_US;
}

/* An id, and the position of it, as arithmetic. */
static int64
id_of(int64 tick, int shard, int sequence)
{
	return tick * SHARDS * SEQUENCES + (layout.shard_shift == 0 ?
											sequence * SHARDS + shard :
											shard * SEQUENCES + sequence);
}

static int64
position_of(int64 tick, int sequence)
{
	return tick * SEQUENCES + sequence;
}

/* --- The process --------------------------------------------------------- */

#undef IsParallelWorker
#define IsParallelWorker() in_parallel
#define RecoveryInProgress() in_recovery
#define IsUnderPostmaster under_postmaster
#undef my_backend_index
#define my_backend_index() backend_index

static void
our_interrupts(void)
{
	called(" interrupts");
	CHECK(held == 0);
	if (is_cancelled)
		elog(ERROR, "cancelled");
}

#undef CHECK_FOR_INTERRUPTS
#define CHECK_FOR_INTERRUPTS() our_interrupts()

static TimestampTz
our_clock(void)
{
	TimestampTz now = clock_now;
	void (*act)(void) = after_clock;

	called(" clock");
	CHECK(held == 0);
	after_clock = NULL;
	if (act)
		act();
	return now;
}

#define GetCurrentTimestamp() our_clock()

/* What another processor wrote shows after a barrier, and not before. */
#undef pg_memory_barrier
#define pg_memory_barrier() (called(" barrier"), seen_changes = changes)

static void our_acquire(slock_t *lock);

#undef SpinLockAcquire
#undef SpinLockRelease
#define SpinLockAcquire(lock) our_acquire(lock)
#define SpinLockRelease(lock) ((void) (lock), held--)

/* Who reads a slot without its lock sees no count before its id. */
static SessionSlot slot;
static uint64	   counted_id;

static void
our_write(pg_atomic_uint64 *atomic, uint64 value)
{
	pg_atomic_write_u64(atomic, value);
	if (atomic == &slot.minted)
	{
		CHECK(counted_id != pg_atomic_read_u64(&slot.last_id));
		counted_id = pg_atomic_read_u64(&slot.last_id);
	}
}

#define pg_atomic_write_u64(atomic, value) our_write(atomic, value)
#define layout_first_position(of, tick, spread) \
	(called(" spread"), layout_first_position(of, tick, spread))

#include "../../src/mint.c"

#undef pg_atomic_write_u64
#undef layout_first_position

/* --- Settings ------------------------------------------------------------ */

int				 settings_clock_tolerance_ms;
bool			 settings_refuse_clone;
int				 settings_spread;
int				 settings_ordering;
char			*settings_shards_text = "the list";
const OwnShards *settings_asked_shards = &asked.list;
uint32			 settings_shards_changes = 1;

const Layout *
settings_layout(void)
{
	called(" settings");
	return &layout;
}

int
index_of_shard(const OwnShards *own, int32 shard)
{
	int index = 0;

	called(" index");
	while (index < own->count && own->shard[index] < shard)
		index++;
	return index;
}

bool
settings_name_shard(int32 shard)
{
	called(" name");
	return is_in(&asked, shard);
}

/* --- The server's records, and its horizon ------------------------------- */

const Layout *
server_layout(void)
{
	called(" layout");
	if (is_refused)
		elog(ERROR, "refused");
	return &layout;
}

void
server_check_clone(void)
{
	called(" clone");
	if (is_clone)
		elog(ERROR, "a clone");
}

static Bounds our_bounds;
Bounds		 *bounds = &our_bounds;

static int64
latest_tick(void)
{
	return (int64) pg_atomic_read_u64(&our_bounds.latest);
}

static void
set_bounds(int64 latest, int64 horizon, int64 renew)
{
	pg_atomic_init_u64(&our_bounds.latest, latest);
	pg_atomic_init_u64(&our_bounds.horizon, horizon);
	pg_atomic_init_u64(&our_bounds.renew, renew);
	pg_atomic_init_u32(&our_bounds.are_known, 1);
}

void
horizon_ask_for_renewal(int64 tick)
{
	called(" renew %ld", (long) tick);
}

void
horizon_begin_present_tick(void)
{
	called(" present");
	bounds_raise(&our_bounds.latest, tick_at(clock_now));
	pg_atomic_write_u32(&our_bounds.are_known, 1);
}

int64
present_mint_tick(const Layout *of, TimestampTz now)
{
	CHECK(of == &layout);
	if (now < EPOCH || tick_at(now) > LAST_TICK)
		elog(ERROR, "no tick");
	return tick_at(now);
}

void
report_part_range(const Layout *of, const char *part, int32 value, int64 last)
{
	elog(ERROR, "range %s %d %d", part, value, (int) last);
}

/* --- Waiting ------------------------------------------------------------- */

static void
pass(int64 us)
{
	clock_now += us;
	waited += us;
	waits++;
}

int64
wait_outside_locks(int64 us, WaitName *event, ConditionVariable *condition)
{
	int64 lasts = (us + woken_after - 1) / woken_after;

	called(" %s %ld", event->name, (long) us);
	CHECK(held == 0 && condition == NULL);
	pass(lasts);
	return lasts;
}

#define WORKER_TAKES 7

static void
pass_with_worker(bool begins)
{
	clock_now += WORKER_TAKES;
	waited += WORKER_TAKES;
	waits += begins;
}

/* A WorkerWait is for one worker. */
static void
wait_for_worker(WorkerWait *wait, int worker)
{
	CHECK(held == 0);
	CHECK(!wait->begun || wait->attempts == worker);
	pass_with_worker(!wait->begun);
	wait->begun = true;
	wait->attempts = worker;
	wait->waited_us += WORKER_TAKES;
}

void
horizon_wait(WorkerWait *wait, int64 tick)
{
	called(" horizon %ld", (long) tick);
	wait_for_worker(wait, 1);
	if (in_horizon_wait == NULL)
		elog(ERROR, "no horizon comes");
	in_horizon_wait();
}

static void
lease_wait(WorkerWait *wait, int32 shard)
{
	called(" lease %d", shard);
	wait_for_worker(wait, 2);
	if (in_lease_wait == NULL)
		elog(ERROR, "no lease comes");
	in_lease_wait(shard);
}

int64
worker_end_wait(const WorkerWait *wait)
{
	called(" end");
	return wait->waited_us;
}

/* --- Shards and leases --------------------------------------------------- */

static PaddedShard our_shards[SHARDS];
PaddedShard		  *shards = our_shards;

static bool
is_open(int shard)
{
	return our_shards[shard].state.last != NEVER;
}

static void
close_shard(int32 shard)
{
	our_shards[shard].state.last = NEVER;
	changes++;
}

/* It has room from the next tick on. */
static void
open_shard(int32 shard)
{
	changes++;
	our_shards[shard].state.last = position_of(latest_tick(), SEQUENCES - 1);
}

static const OwnShards *
leased_shards(void)
{
	char digits[SHARDS + 1];
	int	 count = 0;

	for (int i = 0; i < asked.list.count; i++)
	{
		if (is_open(asked.list.shard[i]))
			digits[count++] = '0' + asked.list.shard[i];
	}
	digits[count] = '\0';
	set_list(&leased, digits);
	return &leased.list;
}

static const Leasing our_leasing = {.own_shards = leased_shards,
									.wait = lease_wait};
const Leasing		*leasing = &our_leasing;

bool
positions_need_leases(void)
{
	return need_leases;
}

bool
positions_are_leased(int64 tick)
{
	return tick < leased_until;
}

bool
positions_have_changed(uint32 since)
{
	return need_leases && since != seen_changes;
}

const OwnShards *
positions_own_shards(uint32 *found_changes)
{
	called(" own");
	if (!need_leases)
		return &asked.list;
	*found_changes = seen_changes = changes;
	return our_leasing.own_shards();
}

bool
positions_is_open(int32 shard)
{
	return is_open(shard);
}

void
positions_count_wait(int32 shard, int64 us)
{
	called(" on %d", shard);
	CHECK(us > 0);
	counted_on[shard] += us;
}

void
positions_note_clock_behind(int32 shard, int64 behind_us, int64 latest)
{
	called(" behind %d %ld %ld", shard, (long) behind_us, (long) latest);
	our_shards[shard].state.counters.clock_behind++;
}

void
positions_fail_clock_behind(TimestampTz now, int64 latest, int64 waited_us)
{
	CHECK(latest == latest_tick() && now == clock_now);
	elog(ERROR, "behind after %ld", (long) waited_us);
}

/* --- The session's slot -------------------------------------------------- */

SessionSlot *my_slot = NULL;
int64		 my_held = HOLDS_NOTHING;

void
session_begin(void)
{
	called(" begin");
	memset(&slot, 0xff, sizeof(slot));
	pg_atomic_init_u64(&slot.last_id, (uint64) NO_ID);
	pg_atomic_init_u64(&slot.minted, 0);
	counted_id = (uint64) NO_ID;
	my_slot = &slot;
}

void
session_count_wait(int64 us)
{
	called(" counts %ld", (long) us);
	counted_us += us;
	counted++;
}

void
session_hold_mark(int32 shard)
{
	called(" hold %d", shard);
	slot.mark_shard = shard;
	slot.mark_others_tick = NO_TICK;
	pg_atomic_write_u64(&slot.mark_tick, (uint64) latest_tick());
	my_held = HOLDS_LATEST;
}

void
session_hold_mark_for_all(void)
{
	called(" hold all");
	slot.mark_others_tick = latest_tick();
	my_held = ALL_SHARDS;
}

void
session_note_first_id(int64 id, int64 tick)
{
	called(" first %ld", (long) id);
	CHECK(tick == id >> layout.timestamp_shift);
	pg_atomic_write_u64(&slot.mark_tick, (uint64) tick);
	my_held = slot.mark_shard;
}

static void
end_transaction(void)
{
	my_held = HOLDS_NOTHING;
	pg_atomic_write_u64(&slot.mark_tick, (uint64) NO_TICK);
}

/* A shard is locked where the mark is held for it, at a tick that is not after the id's. */
static void
our_acquire(slock_t *lock)
{
	int	  shard = ((char *) lock - (char *) our_shards) / sizeof(PaddedShard);
	int64 tick = (int64) pg_atomic_read_u64(&slot.mark_tick);

	called(" take");
	CHECK(lock == &our_shards[shard].state.lock);
	CHECK(held++ == 0);
	if (slot.mark_shard != shard && slot.mark_shard != ALL_SHARDS)
		tick = slot.mark_others_tick;
	CHECK(my_held > HOLDS_NOTHING && tick <= latest_tick());
}

/* --- A new session, and its calls ---------------------------------------- */

/* What mint.c has in a new process. */
typedef struct Session
{
	int64 last_own_id;
	int32 shards_hold;
	bool  met_others;
	Tick  tick;
} Session;

static Session new_session;

static void
keep_new_session(void)
{
	static bool is_kept = false;

	if (!is_kept)
		new_session = (Session){my_last_own_id, my_shards_hold, met_others,
								current_tick};
	is_kept = true;
}

/* The server has minted in tick 10, and the clock is within tick 10. */
static void
start(const char *list, LayoutKind kind)
{
	set_layout(kind);
	set_list(&asked, list);
	for (int i = 0; i < SHARDS; i++)
	{
		memset(&our_shards[i], 0, sizeof(our_shards[i]));
		our_shards[i].state.last = -1;
		counted_on[i] = 0;
	}
	clock_now = start_of(10) + 1;
	set_bounds(10, 1000, 1000);
	in_parallel = in_recovery = is_refused = is_clone = is_cancelled = false;
	under_postmaster = true;
	need_leases = false;
	leased_until = PG_INT64_MAX;
	after_clock = NULL;
	in_horizon_wait = NULL;
	in_lease_wait = NULL;
	woken_after = 1;
	waited = waits = counted_us = counted = held = 0;
	settings_clock_tolerance_ms = 1000;
	settings_refuse_clone = false;
	settings_spread = 0;
	settings_ordering = ORDER_SERVER;
	settings_shards_changes++;

	my_slot = NULL;
	my_layout = NULL;
	my_held = HOLDS_NOTHING;
	my_last_own_id = new_session.last_own_id;
	my_settings_seen = my_openings_seen = 0;
	my_shards_hold = new_session.shards_hold;
	my_index = 0;
	met_others = new_session.met_others;
	current_tick = new_session.tick;
	forget_calls();
}

#define OWN (-100) /* in place of a shard */

static int32 call_shard;
static int64 minted;

static void
call(void)
{
	minted = DatumGetInt64(
		call_shard == OWN ?
			snowflake_nextval(NULL) :
			DirectFunctionCall1(snowflake_nextval_shard, call_shard));
}

/* Mint on a shard, or on the own ones; gives the error. */
static const char *
mint(int32 shard)
{
	const char *error;

	call_shard = shard;
	minted = -1;
	error = error_of(call);
	CHECK(held == 0);
	if (minted >= 0)
	{
		CHECK((int64) pg_atomic_read_u64(&slot.last_id) == minted);
		CHECK(counted == waits && counted_us == waited);
	}
	counted = waits;
	counted_us = waited;
	return error;
}
