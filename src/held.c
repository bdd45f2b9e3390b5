/*-------------------------------------------------------------------------
 *
 * held.c
 *	  What this server holds of the registry's shards, in shared memory.
 *
 * With snowflake.registry a server mints only on shards that it has leased, and
 * only ids whose time lies within the lease: see lease.c.  The worker that
 * leases writes here; sessions and the horizon's worker read.
 *
 * A lease costs a minted id nothing:
 *
 *	- Its end.  The common end is the least of those of all shards that may be
 *	  minted on.  The horizon is never raised past the common end.
 *	- Its beginning.  The worker opens a shard when the clock has reached that,
 *	  with a last position just before it: see generator_open_shard().
 *	- A shard that is not held is closed: its last position is after all others.
 *	  Who meets one comes here, to learn why, or to wait.
 *
 * A session mints on the part of its snowflake.shards that is open.  It finds
 * that part when it first needs it, and again when it meets a closed shard, or
 * when its shards are exhausted and others have been opened since.
 *
 * A note about locking:
 *	- HeldState and the leases are read and written under held_lock, an LWLock,
 *	  but for "is_on", "changes", "attempts" and "asked", which are atomics.
 *	- The horizon is raised under held_lock, shared; the common end is lowered
 *	  under it, exclusive.  So the one never passes the other.
 *	- "attempted" is broadcast after each attempt to reach the registry, and
 *	  when a shard was opened.
 *	- No spinlock is taken while held_lock is held, and nothing waits with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "bounds.h"
#include "compat.h"
#include "errors.h"
#include "fault.h"
#include "held.h"
#include "identity.h"
#include "layout.h"
#include "rows.h"
#include "server.h"
#include "settings.h"
#include "shards.h"
#include "wait.h"

PG_FUNCTION_INFO_V1(snowflake_leases);
PG_FUNCTION_INFO_V1(snowflake_lease_status);

#define US_PER_MS INT64CONST(1000)
#define US_PER_S INT64CONST(1000000)

/* How long a caller waits for the worker before it asks again. */
#define LEASE_WAIT_US US_PER_S

/* An attempt that ended so lately tells a caller what another would. */
#define FRESH_US US_PER_S

/* How long a caller waits for a worker that died; it is back after a second. */
#define WORKER_PATIENCE_US (5 * US_PER_S)

/* A list of shards in a message. */
#define SHARDS_TEXT_SIZE 200

#define CLOCK_HINT \
	"Check the time synchronization of this server and of the registry's."

/* How far the worker has come with a shard. */
typedef enum ShardStage
{
	HELD,	  /* its lease has not begun, or ends before the horizon */
	ADMITTED, /* the common end counts it */
	OPEN	  /* sessions mint on it */
} ShardStage;

typedef struct HeldLease
{
	Lease	   lease;
	ShardStage stage;
} HeldLease;

typedef struct HeldState
{
	pg_atomic_uint32  is_on;	/* nothing is minted without a lease */
	pg_atomic_uint32  changes;	/* how often a shard was opened or closed */
	pg_atomic_uint32  asked;	/* a session wants an attempt */
	pg_atomic_uint64  attempts; /* to reach the registry, ended */
	TimestampTz		  end;		/* the common one; DT_NOEND: without leases */
	int64			  ended_us; /* the last attempt, by a steady clock */
	HeldReport		  report;
	Latch			 *worker; /* NULL while there is none */
	ConditionVariable attempted;
	int				  losses; /* the last ones are in "loss" */
	HeldLoss		  loss[HELD_MAX_LOSSES];
	SetAside		  knows_set_aside; /* SET_ASIDE: the list is there */
	int				  count; /* of leases, in ascending order of shards */
	HeldLease		  leases[FLEXIBLE_ARRAY_MEMBER]; /* room for all shards */
} HeldState;

static HeldState *state = NULL;
static bool		 *set_aside = NULL; /* for each shard, behind the state */
static LWLock	 *held_lock = NULL;

/* "changes" when this session found its shards last, and what it found. */
static uint32	  my_changes = 0;
static OwnShards *my_shards = NULL;


/* --- Shared memory ------------------------------------------------------ */

static int64
last_shard(void)
{
	return layout_last_shard(settings_layout());
}

static Size
state_size(void)
{
	return add_size(offsetof(HeldState, leases),
					mul_size(last_shard() + 1, sizeof(HeldLease)));
}

Size
held_shmem_size(void)
{
	return add_size(state_size(), last_shard() + 1);
}

void
held_shmem_startup(void)
{
	bool found;
	bool on = settings_want_leases();

	held_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[3].lock;
	state = ShmemInitStruct("snowflake leases", held_shmem_size(), &found);
	set_aside = (bool *) state + state_size();
	if (found)
		return;
	memset(state, 0, held_shmem_size());
	pg_atomic_init_u32(&state->is_on, on);
	pg_atomic_init_u32(&state->changes, 1); /* nobody has seen it */
	pg_atomic_init_u32(&state->asked, 0);
	pg_atomic_init_u64(&state->attempts, 0);
	state->end = on ? DT_NOBEGIN : DT_NOEND;
	ConditionVariableInit(&state->attempted);
}

/* --- The leases: the caller has the lock, or is the worker -------------- */

/* How many leases are of shards before this one. */
static int
place_of(const HeldState *in, int32 shard)
{
	int low = 0;
	int high = in->count;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (in->leases[middle].lease.shard < shard)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The lease of a shard; NULL: the shard is not held. */
static HeldLease *
find_in(HeldState *in, int32 shard)
{
	HeldLease *held = &in->leases[place_of(in, shard)];

	return held < &in->leases[in->count] && held->lease.shard == shard ? held :
																		 NULL;
}

static HeldLease *
find_lease(int32 shard)
{
	return find_in(state, shard);
}

/* The same; if the shard is not held, it is from now on. */
static HeldLease *
make_lease(int32 shard)
{
	HeldLease *held = find_lease(shard);
	int		   place = place_of(state, shard);

	if (held != NULL)
		return held;
	held = &state->leases[place];
	memmove(held + 1, held, (state->count - place) * sizeof(HeldLease));
	state->count++;
	return held;
}

static bool
is_open(int32 shard)
{
	const HeldLease *held = find_lease(shard);

	return held != NULL && held->stage == OPEN;
}

/* --- The common end, and the horizon ------------------------------------ */

/* The first tick that is not before the common end.  The caller has the lock. */
static int64
end_tick(void)
{
	return layout_first_tick_from(settings_layout(), state->end);
}

static int64
held_end_tick(void)
{
	int64 tick;

	LWLockAcquire(held_lock, LW_SHARED);
	tick = end_tick();
	LWLockRelease(held_lock);
	return tick;
}

/* Are ids of this tick within the leases? */
bool
held_covers(int64 tick)
{
	return tick < held_end_tick();
}

/* Publish a horizon, as far as the leases reach. */
void
held_raise_horizon(int64 tick)
{
	LWLockAcquire(held_lock, LW_SHARED);
	bounds_raise(&bounds->horizon,
				 FAULT(lease_until) ? tick : Min(tick, end_tick()));
	LWLockRelease(held_lock);
}

/* --- What the worker writes --------------------------------------------- */

/* A worker has come, or goes: what the one before it found does not count. */
static void
set_worker(Latch *latch)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->worker = latch;
	state->ended_us = 0;
	state->report.failure.kind = REGISTRY_ANSWERED;
	LWLockRelease(held_lock);
}

static void
detach_worker(int code, Datum arg)
{
	set_worker(NULL);
}

void
held_attach_worker(void)
{
	on_shmem_exit(detach_worker, (Datum) 0);
	set_worker(MyLatch);
}

/* Is nothing minted without a lease? */
bool
held_is_on(void)
{
	return pg_atomic_read_u32(&state->is_on) != 0;
}

/* Has a session asked for an attempt since this was called last? */
bool
held_take_request(void)
{
	return pg_atomic_exchange_u32(&state->asked, 0) != 0;
}

/*
 * From now on, and until the server is restarted, nothing is minted without a
 * lease.  The worker then closes all shards.
 */
void
held_set_on(void)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&state->is_on, 1);
	state->end = DT_NOBEGIN;
	LWLockRelease(held_lock);
}

/* How many leases this server has, and which. */
int
held_count(void)
{
	return state->count;
}

Lease
held_lease_at(int place)
{
	return state->leases[place].lease;
}

/*
 * Let the common end count a lease, so that its shard can be opened.  False if
 * the lease has not begun by this server's clock, or if the horizon is past its
 * end already; then that has to wait.
 */
bool
held_admit(const Lease *lease)
{
	const Layout *layout = settings_layout();
	int64		  first = layout_first_tick_from(layout, lease->from);
	int64		  end = layout_first_tick_from(layout, lease->until);
	bool		  is_good;

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	is_good = (FAULT(lease_begun) ||
			   layout_time_of_tick(layout, first) <= GetCurrentTimestamp()) &&
			  (FAULT(lease_past_horizon) ||
			   end >= (int64) pg_atomic_read_u64(&bounds->horizon));
	*make_lease(lease->shard) = (HeldLease){*lease, is_good ? ADMITTED : HELD};
	if (is_good)
		state->end = TIMESTAMP_IS_NOBEGIN(state->end) ?
						 lease->until :
						 Min(state->end, lease->until);
	LWLockRelease(held_lock);
	return is_good;
}

/* The lease of a shard that is held ends later than before. */
void
held_renew(const Lease *lease)
{
	HeldLease *held;

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	held = find_lease(lease->shard);
	if (held != NULL)
		held->lease = *lease;
	LWLockRelease(held_lock);
}

/* Those who wait for a shard, or mint on one, look again. */
static void
note_change(void)
{
	(void) pg_atomic_fetch_add_u32(&state->changes, 1);
	ConditionVariableBroadcast(&state->attempted);
}

/* A shard that is held is open. */
void
held_note_open(int32 shard)
{
	HeldLease *held;

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	held = find_lease(shard);
	if (held != NULL)
		held->stage = OPEN;
	LWLockRelease(held_lock);
	note_change();
}

/* A shard is about to be closed: sessions that find it so are to wait. */
void
held_note_closing(int32 shard)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	if (is_open(shard))
		find_lease(shard)->stage = ADMITTED;
	LWLockRelease(held_lock);
}

/* A shard is closed, and not held any more. */
void
held_drop(int32 shard)
{
	HeldLease *held;

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	held = find_lease(shard);
	if (held != NULL)
	{
		state->count--;
		memmove(held, held + 1,
				(&state->leases[state->count] - held) * sizeof(HeldLease));
	}
	LWLockRelease(held_lock);
	note_change();
}

/*
 * Find the common end, when leases have been renewed or dropped.  Until then it
 * is too early, which does no harm.
 */
void
held_find_end(void)
{
	TimestampTz end = DT_NOEND;

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	for (int i = 0; i < state->count; i++)
	{
		if (state->leases[i].stage >= ADMITTED)
			end = Min(end, state->leases[i].lease.until);
	}
	state->end = end == DT_NOEND ? DT_NOBEGIN : end;
	LWLockRelease(held_lock);
}

void
held_note_holder(uint64 holder)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->report.holder = holder;
	LWLockRelease(held_lock);
}

/* An attempt has ended. */
void
held_report(const HeldReport *report)
{
	int64 now_us = steady_clock_us();

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->report = *report;
	state->ended_us = now_us;
	(void) pg_atomic_fetch_add_u64(&state->attempts, 1);
	LWLockRelease(held_lock);
	ConditionVariableBroadcast(&state->attempted);
}

/*
 * What the worker reported last is no reason any more for a shard that is not
 * held: it gives all shards back, or has other settings.  Wait for a report.
 */
void
held_forget_report(void)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->ended_us = 0;
	LWLockRelease(held_lock);
}

void
held_note_loss(const HeldLoss *loss)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->loss[state->losses++ % HELD_MAX_LOSSES] = *loss;
	LWLockRelease(held_lock);
}

/* The registry says which shards it has reserved; -1: too many to tell. */
void
held_note_set_aside(const int32 *shard, int count)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->knows_set_aside = count < 0 ? SET_ASIDE_TOO_MANY : SET_ASIDE;
	memset(set_aside, 0, last_shard() + 1);
	for (int i = 0; i < count; i++)
		set_aside[shard[i]] = true;
	LWLockRelease(held_lock);
}

/* --- What a session mints on -------------------------------------------- */

/* Was a shard opened or closed since this session found its shards? */
bool
held_has_changed(void)
{
	return my_changes != pg_atomic_read_u32(&state->changes);
}

/* May sessions mint on the shard? */
bool
held_is_open(int32 shard)
{
	bool open;

	if (!held_is_on())
		return true;
	LWLockAcquire(held_lock, LW_SHARED);
	open = is_open(shard);
	LWLockRelease(held_lock);
	return open;
}

/* Does the session's snowflake.shards name the shard, or leave it open? */
static bool
is_asked_for(int32 shard)
{
	return settings_asked_shards->count == 0 || settings_name_shard(shard);
}

static OwnShards *
copy_shards(const OwnShards *own)
{
	return memcpy(MemoryContextAlloc(TopMemoryContext,
									 offsetof(OwnShards, shard) +
										 Max(own->count, 1) * sizeof(int32)),
				  own,
				  offsetof(OwnShards, shard) + own->count * sizeof(int32));
}

/*
 * The shards that this session mints on from now on: the open ones of those that
 * it asks for.
 */
const OwnShards *
held_own_shards(void)
{
	const OwnShards *asked = settings_asked_shards;
	OwnShards		*before = my_shards;
	OwnShards		*own;

	my_changes = pg_atomic_read_u32(&state->changes);
	if (!held_is_on())
	{
		settings_narrow_shards(asked);
		return asked;
	}
	own = palloc(offsetof(OwnShards, shard) +
				 (last_shard() + 1) * sizeof(int32));
	*own = (OwnShards){.automatic = asked->automatic};
	LWLockAcquire(held_lock, LW_SHARED);
	for (int i = 0; i < state->count; i++)
	{
		const HeldLease *held = &state->leases[i];

		if (held->stage == OPEN && is_asked_for(held->lease.shard))
			own->shard[own->count++] = held->lease.shard;
	}
	LWLockRelease(held_lock);
	my_shards = copy_shards(own);
	settings_narrow_shards(my_shards);
	pfree(own);
	if (before != NULL)
		pfree(before);
	return my_shards;
}

/* --- Why a session cannot mint ------------------------------------------ */

/* What the server holds, for a message. */
static char *
describe_held(void)
{
	int32 *shard = palloc((last_shard() + 1) * sizeof(int32));
	char  *text = palloc(SHARDS_TEXT_SIZE);
	int	   count;

	LWLockAcquire(held_lock, LW_SHARED);
	for (count = 0; count < state->count; count++)
		shard[count] = state->leases[count].lease.shard;
	LWLockRelease(held_lock);
	if (count == 0)
		return pstrdup("It holds no shard.");
	shards_format(shard, count, text, SHARDS_TEXT_SIZE);
	return psprintf("It holds %s of the registry's shards.", text);
}

/* What any user may know of a failure. */
static const char *
class_of_failure(RegistryFailureKind kind)
{
	switch (kind)
	{
		case REGISTRY_AWAY:
			return "the registry cannot be reached";
		case REGISTRY_SILENT:
			return "the registry does not answer";
		case REGISTRY_REFUSED:
			return "the registry refuses this server";
		case REGISTRY_CLOSED:
			return "the registry is not open";
		case REGISTRY_INVALID:
			return "the registry's answer is not valid";
		case REGISTRY_UNSTORED:
			return "this server could not store its leases";
		case REGISTRY_ANSWERED:
			break;
	}
	return "the registry answers";
}

/*
 * The registry could not be asked, or refused.  The words of the failure name
 * hosts, databases and roles: they are for the log, and for those who may call
 * snowflake_lease_status().  In a function with the rights of an administrator
 * it is still the session that reads the message.
 */
static void
report_registry(const HeldReport *report, TimestampTz end)
{
	const RegistryFailure *failure = &report->failure;
	bool  is_admin = has_privs_of_role(GetSessionUserId(), ROLE_PG_MONITOR);
	char  at[LAYOUT_TIME_SIZE];
	char *ended;
	char *words;

	layout_format_time(end, at, sizeof(at));
	ended = TIMESTAMP_NOT_FINITE(end) ?
				pstrdup("This server holds no shard.") :
				psprintf("This server's lease ended at %s.", at);
	words = psprintf("%s The last attempt to lease failed: %s.", ended,
					 failure->text);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("cannot mint snowflake ids: %s",
					class_of_failure(failure->kind)),
			 errdetail("%s", is_admin ? words : ended),
			 errdetail_log("%s", words),
			 is_admin && failure->hint[0] != '\0' ?
				 errhint("%s", failure->hint) :
				 errhint("Minting goes on by itself when the registry leases "
						 "shards to this server. Its administrator finds the "
						 "reason in snowflake_lease_status().")));
}

/*
 * Which refusal is about the shard?  With "auto" it is that none is free: which
 * shard the server held before does not matter.
 */
static const Refusal *
find_refusal(const HeldReport *report, int32 shard)
{
	const Refusal *found = NULL;

	for (int i = 0; i < report->refusals; i++)
	{
		const Refusal *refusal = &report->refusal[i];

		if (refusal->shard == shard)
			return refusal;
		if (found == NULL &&
			(shard == HELD_ANY || refusal->kind == REFUSED_EXHAUSTED))
			found = refusal;
	}
	return found;
}

/* Another server has a shard that this one had a lease of at the same time. */
static void
report_loss(const Refusal *refusal)
{
	HeldLoss loss = {.lease.shard = HELD_ANY};
	char	 from[LAYOUT_TIME_SIZE];
	char	 until[LAYOUT_TIME_SIZE];

	LWLockAcquire(held_lock, LW_SHARED);
	for (int i = 0; i < Min(state->losses, HELD_MAX_LOSSES); i++)
	{
		if (state->loss[i].lease.shard == refusal->shard)
			loss = state->loss[i];
	}
	LWLockRelease(held_lock);
	if (loss.lease.shard == HELD_ANY)
		return;
	layout_format_time(loss.lease.from, from, sizeof(from));
	layout_format_time(loss.lease.until, until, sizeof(until));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the registry gave shard %d to another server during a "
					"lease of this server",
					refusal->shard),
			 errdetail("%s has it now. The lease was from %s until %s.",
					   refusal->other, from, until),
			 errhint(HELD_LOSS_HINT)));
}

static void
report_refusal(const Refusal *refusal)
{
	char until[LAYOUT_TIME_SIZE];

	layout_format_time(refusal->until, until, sizeof(until));
	switch (refusal->kind)
	{
		case REFUSED_TAKEN:
			report_loss(refusal);
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("shard %d is leased to another server",
							refusal->shard),
					 errdetail("%s has it until %s.", refusal->other, until),
					 errhint("Give each server shards of its own in "
							 "\"snowflake.shards\", or set it to \"auto\". "
							 "If that server is gone, minting begins by "
							 "itself then.")));
			break;
		case REFUSED_FENCED:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("shard %d is not free yet", refusal->shard),
					 errdetail("The registry was fenced, or has an earlier "
							   "lease of this server itself. No lease begins "
							   "before %s.",
							   until),
					 errhint("Minting begins by itself then.")));
			break;
		case REFUSED_RESERVED:
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("shard %d is reserved in the registry",
							refusal->shard),
					 errdetail("It is reserved for: %s.", refusal->other),
					 errhint("Take it from \"snowflake.shards\", or call "
							 "snowflake_registry_unreserve() in the "
							 "registry.")));
			break;
		case REFUSED_EXHAUSTED:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("no shard is free in the registry"),
					 TIMESTAMP_IS_NOEND(refusal->until) ?
						 errdetail("All shards are reserved.") :
						 errdetail("The next shard is free at %s.", until),
					 errhint("Minting begins by itself then. See view "
							 "snowflake_registry_leases in the registry.")));
			break;
	}
}

/* The least and the most that it can be now by the registry's clock. */
static TimestampTz
least_in_registry(const HeldReport *report)
{
	return report->answered_at + steady_clock_us() - report->answered_us;
}

static TimestampTz
most_in_registry(const HeldReport *report)
{
	return report->answered_at + steady_clock_us() - report->asked_us;
}

/*
 * How far this server's clock is ahead of the registry's, at least: an answer
 * that was late is no fault of a clock.
 */
static int64
clock_ahead_us(const HeldReport *report, TimestampTz now)
{
	TimestampTz least = least_in_registry(report);
	TimestampTz most = most_in_registry(report);

	return now > most ? now - most : now < least ? now - least : 0;
}

/* The clock is not within the lease, and the registry answers. */
static void
report_clock(const HeldReport *report, TimestampTz bound, TimestampTz now)
{
	bool  is_ahead = now >= bound;
	int64 ahead_us = clock_ahead_us(report, now);
	char  distance[REPORT_DURATION_SIZE];
	char  from_registry[REPORT_DURATION_SIZE];
	char  at[LAYOUT_TIME_SIZE];
	char  there[LAYOUT_TIME_SIZE];

	report_format_duration(is_ahead ? now - bound : bound - now, distance);
	report_format_duration(Max(ahead_us, -ahead_us), from_registry);
	layout_format_time(bound, at, sizeof(at));
	layout_format_time(now, there, sizeof(there));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("clock is %s %s the lease of this server's shards",
					distance, is_ahead ? "ahead of" : "behind"),
			 errdetail("The lease %s at %s, and the clock is at %s, %s %s "
					   "the registry's.",
					   is_ahead ? "ends" : "begins", at, there, from_registry,
					   ahead_us < 0 ? "behind" : "ahead of"),
			 errhint(CLOCK_HINT)));
}

/* The lease is over, and its renewal came too late. */
static void
report_late(const HeldReport *report, TimestampTz end)
{
	char at[LAYOUT_TIME_SIZE];
	char duration[REPORT_DURATION_SIZE];

	layout_format_time(end, at, sizeof(at));
	report_format_duration(report->answered_us - report->asked_us, duration);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("the lease of this server's shards ended before it was "
					"renewed"),
			 errdetail("It ended at %s. The registry's last answer took %s.",
					   at, duration),
			 errhint("Minting goes on by itself when an answer comes in time. "
					 "Look for what delays the answers, or set "
					 "\"snowflake.lease\" to several times as long.")));
}

/*
 * The lease is over by this server's clock.  Raise an error if the registry's is
 * not there yet, or was not when it answered.
 */
static void
report_over(const HeldReport *report, TimestampTz end, TimestampTz now)
{
	if (most_in_registry(report) < end)
		report_clock(report, end, now);
	if (least_in_registry(report) < end)
		report_late(report, end);
}

/* A lease ends before ids that this server may have minted already. */
static void
report_horizon(const HeldReport *report, TimestampTz until)
{
	TimestampTz horizon =
		layout_time_of_tick(settings_layout(),
							(int64) pg_atomic_read_u64(&bounds->horizon));
	int64 ahead_us = clock_ahead_us(report, GetCurrentTimestamp());
	char  distance[REPORT_DURATION_SIZE];
	char  from_registry[REPORT_DURATION_SIZE];
	char  at[LAYOUT_TIME_SIZE];
	char  there[LAYOUT_TIME_SIZE];

	report_format_duration(horizon - until, distance);
	report_format_duration(Max(ahead_us, -ahead_us), from_registry);
	layout_format_time(until, at, sizeof(at));
	layout_format_time(horizon, there, sizeof(there));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("snowflake horizon is %s ahead of the lease of this "
					"server's shards",
					distance),
			 errdetail("The lease ends at %s, and the horizon is %s. The "
					   "clock is %s %s the registry's.",
					   at, there, from_registry,
					   ahead_us < 0 ? "behind" : "ahead of"),
			 errhint(CLOCK_HINT
					 " Minting goes on by itself when the lease is renewed "
					 "past the horizon.")));
}

/* The server holds a lease that its shard cannot be opened with. */
static void
report_not_admitted(const HeldReport *report, const Lease *lease,
					TimestampTz now)
{
	if (now < lease->from)
		report_clock(report, lease->from, now);
	if (now >= lease->until)
	{
		report_over(report, lease->until, now);
		report_late(report, lease->until);
	}
	report_horizon(report, lease->until);
}

/* Nobody has asked the registry for it. */
static void
report_not_asked(int32 shard)
{
	if (settings_registry()[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no registry to lease snowflake shards from"),
				 errdetail("\"snowflake.shards\" is \"auto\", or was since "
						   "this server started."),
				 errhint("Set \"snowflake.registry\"; or set "
						 "\"snowflake.shards\" to a list, and restart the "
						 "server.")));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 shard == HELD_ANY ?
				 errmsg("no shard is leased to this server") :
				 errmsg("shard %d is not leased to this server", shard),
			 errdetail("%s", describe_held()),
			 errhint("A server leases the shards of the \"snowflake.shards\" "
					 "of its configuration file. For a database or a role it "
					 "can only name some of these.")));
}

/* The first shard that the session asks for; HELD_ANY if it does not mind. */
static int32
first_asked(void)
{
	const OwnShards *asked = settings_asked_shards;

	return asked->count > 0 ? asked->shard[0] : HELD_ANY;
}

/* Has the last attempt ended since the wait began, or just before? */
static bool
is_fresh(const HeldWait *wait, int64 ended_us, uint64 attempts)
{
	return attempts > wait->attempts ||
		   (attempts > 0 && steady_clock_us() - ended_us < FRESH_US);
}

/* What the server has of the shards that a session needs. */
typedef struct Outlook
{
	bool		is_open; /* one of them is, and has to come within: */
	TimestampTz end;	 /* the common one */
	bool		is_held; /* it holds one, which has this lease: */
	Lease		lease;
	uint64		attempts; /* of the worker, and the last: */
	int64		ended_us;
	HeldReport	report;
} Outlook;

static void
look_out(int32 shard, Outlook *outlook)
{
	LWLockAcquire(held_lock, LW_SHARED);
	outlook->is_open = outlook->is_held = false;
	outlook->end = state->end;
	outlook->attempts = pg_atomic_read_u64(&state->attempts);
	outlook->ended_us = state->ended_us;
	outlook->report = state->report;
	for (int i = 0; i < state->count; i++)
	{
		const HeldLease *held = &state->leases[i];

		if (!(shard == HELD_ANY ? is_asked_for(held->lease.shard) :
								  held->lease.shard == shard))
			continue;
		outlook->is_open |= held->stage == OPEN;
		outlook->is_held = true;
		outlook->lease = held->lease;
	}
	LWLockRelease(held_lock);
}

/*
 * Raise an error if waiting does not help: the registry does not answer, or it
 * has answered, and what the session needs is not there.
 */
static void
report_hopeless(const HeldWait *wait, int32 shard)
{
	Outlook			  outlook;
	const HeldReport *report = &outlook.report;
	const Refusal	 *refusal;
	TimestampTz		  now;

	look_out(shard, &outlook);
	now = GetCurrentTimestamp();
	if (outlook.is_open && now < outlook.end)
		return;
	if (report->failure.kind != REGISTRY_ANSWERED)
		report_registry(report, outlook.end);
	if (!is_fresh(wait, outlook.ended_us, outlook.attempts))
		return;
	if (outlook.is_open && report->answered_at != 0)
		report_over(report, outlook.end, now);
	if (outlook.is_held && !outlook.is_open)
	{
		/* its clock may be about to reach the lease */
		if (wait->waited_us >= settings_clock_tolerance_ms() * US_PER_MS)
			report_not_admitted(report, &outlook.lease, now);
		return;
	}
	if (shard == HELD_ANY)
		shard = first_asked();
	refusal = find_refusal(report, shard);
	if (refusal != NULL)
		report_refusal(refusal);
	if (outlook.is_open && report->answered_at != 0)
		report_late(report, outlook.end);
	report_not_asked(shard);
}

/*
 * Raise an error if the caller has waited without a worker for so long that a
 * worker that died would be back.  Else ask the worker for an attempt, and wait
 * for its end.
 */
static void
wait_for_worker(HeldWait *wait)
{
	static uint32 event = 0;
	Latch		 *worker;

	if (event == 0)
		event = named_wait_event("SnowflakeLease");

	pg_atomic_write_u32(&state->asked, 1);
	LWLockAcquire(held_lock, LW_SHARED);
	worker = state->worker;
	LWLockRelease(held_lock);
	if (worker != NULL)
	{
		wait->last_worker_us = wait->waited_us;
		SetLatch(worker);
	}
	else if (wait->waited_us - wait->last_worker_us > WORKER_PATIENCE_US)
		report_no_worker();
	wait->waited_us +=
		wait_outside_locks(LEASE_WAIT_US, event, &state->attempted);
}

/*
 * Wait for the worker to lease a shard, or any that the session asks for, or to
 * renew its leases.  Call it in a loop until what you wait for has come.  The
 * first call does not wait: look again.  Raises why it cannot come.
 */
void
held_wait(HeldWait *wait, int32 shard)
{
	if (!wait->begun)
	{
		wait->begun = true;
		wait->attempts = pg_atomic_read_u64(&state->attempts);
		ConditionVariablePrepareToSleep(&state->attempted);
		return;
	}
	report_hopeless(wait, shard);
	wait_for_worker(wait);
}

/*
 * Has the registry reserved a shard?  What it said last can be old, so wait for
 * an answer.
 */
SetAside
held_is_set_aside(int32 shard)
{
	HeldWait wait = {0};
	uint64	 attempts = pg_atomic_read_u64(&state->attempts);
	SetAside answer;

	ConditionVariablePrepareToSleep(&state->attempted);
	while (pg_atomic_read_u64(&state->attempts) == attempts)
		wait_for_worker(&wait);
	ConditionVariableCancelSleep();
	LWLockAcquire(held_lock, LW_SHARED);
	if (state->report.failure.kind != REGISTRY_ANSWERED)
		answer = SET_ASIDE_UNKNOWN;
	else if (state->knows_set_aside == SET_ASIDE && !set_aside[shard])
		answer = SET_ASIDE_NOT;
	else
		answer = state->knows_set_aside;
	LWLockRelease(held_lock);
	return answer;
}

/* --- SQL ---------------------------------------------------------------- */

static const Oid lease_columns[] = {INT4OID, BOOLOID, TIMESTAMPTZOID,
									TIMESTAMPTZOID, TEXTOID};
static const Oid status_columns[] = {TEXTOID,		 TEXTOID,		 INT4OID,
									 TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT8OID,
									 TEXTOID,		 INT4OID,		 TEXTOID,
									 BOOLOID};

/* Read all that the worker writes. */
static HeldState *
copy_state(void)
{
	HeldState *copy = palloc(held_shmem_size());

	LWLockAcquire(held_lock, LW_SHARED);
	memcpy(copy, state,
		   offsetof(HeldState, leases) + state->count * sizeof(HeldLease));
	LWLockRelease(held_lock);
	return copy;
}

static void
put_lease(ReturnSetInfo *result, int32 shard, const Lease *lease,
		  const Refusal *refusal)
{
	Datum values[lengthof(lease_columns)] = {0};
	bool  nulls[lengthof(lease_columns)] = {false};

	values[0] = Int32GetDatum(shard);
	values[1] = BoolGetDatum(lease != NULL);
	values[2] = TimestampTzGetDatum(lease != NULL ? lease->from : 0);
	values[3] =
		TimestampTzGetDatum(lease != NULL ? lease->until : refusal->until);
	nulls[2] = lease == NULL;
	nulls[3] = lease == NULL && TIMESTAMP_IS_NOEND(refusal->until);
	nulls[4] = lease != NULL || refusal->other[0] == '\0';
	if (!nulls[4])
		values[4] = CStringGetTextDatum(refusal->other);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* The shards that this server has leased, and those that it cannot get. */
Datum
snowflake_leases(PG_FUNCTION_ARGS)
{
	HeldState	  *now = copy_state();
	ReturnSetInfo *result =
		result_rows(fcinfo, lease_columns, lengthof(lease_columns));

	for (int i = 0; i < now->count; i++)
		put_lease(result, now->leases[i].lease.shard, &now->leases[i].lease,
				  NULL);
	for (int i = 0; i < now->report.refusals; i++)
	{
		const Refusal *refusal = &now->report.refusal[i];

		if (refusal->shard != HELD_ANY && find_in(now, refusal->shard) == NULL)
			put_lease(result, refusal->shard, NULL, refusal);
	}
	return (Datum) 0;
}

/* A loss, for people. */
static char *
describe_loss(const HeldLoss *loss)
{
	char from[LAYOUT_TIME_SIZE];
	char until[LAYOUT_TIME_SIZE];

	if (loss->lease.shard == HELD_ANY)
		return pstrdup(loss->what);
	layout_format_time(loss->lease.from, from, sizeof(from));
	layout_format_time(loss->lease.until, until, sizeof(until));
	return psprintf("shard %d, from %s until %s: %s", loss->lease.shard, from,
					until, loss->what);
}

/* What the worker that leases shards knows of the registry. */
Datum
snowflake_lease_status(PG_FUNCTION_ARGS)
{
	TupleDesc row =
		result_row(fcinfo, status_columns, lengthof(status_columns));
	HeldState *now = copy_state();
	bool	   on = pg_atomic_read_u32(&now->is_on) != 0;
	char	   holder[IDENTITY_NUMBER_SIZE];
	Datum	   values[lengthof(status_columns)] = {0};
	bool	   nulls[lengthof(status_columns)] = {false};

	identity_format_number(now->report.holder, holder);
	values[0] =
		CStringGetTextDatum(!on								 ? "off" :
							now->count == 0					 ? "none" :
							now->end > GetCurrentTimestamp() ? "held" :
															   "ended");
	values[1] = CStringGetTextDatum(holder);
	values[2] = Int32GetDatum(now->count);
	values[3] = TimestampTzGetDatum(now->end);
	values[4] = TimestampTzGetDatum(now->report.answered_at);
	values[5] = Float8GetDatum(
		clock_ahead_us(&now->report, GetCurrentTimestamp()) / 1e6);
	values[6] = CStringGetTextDatum(now->report.failure.text);
	values[7] = Int32GetDatum(now->losses);
	if (now->losses > 0)
		values[8] = CStringGetTextDatum(
			describe_loss(&now->loss[(now->losses - 1) % HELD_MAX_LOSSES]));
	values[9] = BoolGetDatum(settings_leave_registry());
	nulls[8] = now->losses == 0;
	nulls[1] = now->report.holder == 0;
	nulls[3] = TIMESTAMP_NOT_FINITE(now->end);
	nulls[4] = nulls[5] = now->report.answered_at == 0;
	nulls[6] = now->report.failure.kind == REGISTRY_ANSWERED;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}
