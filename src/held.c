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
	NOT_HELD,
	HELD,	  /* its lease has not begun, or ends before the horizon */
	ADMITTED, /* the common end counts it */
	OPEN	  /* sessions mint on it */
} ShardStage;

typedef struct ShardLease
{
	ShardStage	stage;
	TimestampTz from;
	TimestampTz until;
} ShardLease;

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
	ShardLease		  leases[FLEXIBLE_ARRAY_MEMBER];
} HeldState;

static HeldState *state = NULL;
static LWLock	 *held_lock = NULL;

/* "changes" when this session found its shards last, and what it found. */
static uint32	  my_changes = 0;
static OwnShards *my_shards = NULL;


/*-------------------------------------------------------------------------
 * Shared memory
 *-------------------------------------------------------------------------
 */

static int64
last_shard(void)
{
	return layout_last_shard(settings_layout());
}

Size
held_shmem_size(void)
{
	return add_size(offsetof(HeldState, leases),
					mul_size(last_shard() + 1, sizeof(ShardLease)));
}

void
held_shmem_startup(void)
{
	bool found;
	bool on = settings_want_leases();

	held_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[3].lock;
	state = ShmemInitStruct("snowflake leases", held_shmem_size(), &found);
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

/*-------------------------------------------------------------------------
 * The common end, and the horizon
 *-------------------------------------------------------------------------
 */

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
	bounds_raise(&bounds->horizon, Min(tick, end_tick()));
	LWLockRelease(held_lock);
}

/*-------------------------------------------------------------------------
 * What the worker writes
 *-------------------------------------------------------------------------
 */

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
 * From now on nothing is minted without a lease; or everything is.  The worker
 * then closes all shards; or it has opened them.
 */
void
held_set_on(bool on)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&state->is_on, on);
	state->end = on ? DT_NOBEGIN : DT_NOEND;
	LWLockRelease(held_lock);
}

/* Does this server hold the shard?  Then *lease is its lease. */
bool
held_find(int32 shard, Lease *lease)
{
	const ShardLease *own = &state->leases[shard];

	*lease = (Lease){shard, own->from, own->until};
	return own->stage != NOT_HELD;
}

/* May sessions mint on the shard? */
bool
held_is_open(int32 shard)
{
	return !held_is_on() || state->leases[shard].stage == OPEN;
}

static void
set_lease(const Lease *lease, ShardStage stage)
{
	ShardLease *own = &state->leases[lease->shard];

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	own->stage = stage;
	own->from = lease->from;
	own->until = lease->until;
	LWLockRelease(held_lock);
}

/*
 * Let the common end count a new lease, so that its shard can be opened.  False
 * if the lease has not begun by this server's clock, or if the horizon is past
 * its end already; then that has to wait.
 */
bool
held_admit(const Lease *lease)
{
	const Layout *layout = settings_layout();
	ShardLease	 *own = &state->leases[lease->shard];
	int64		  first = layout_first_tick_from(layout, lease->from);
	int64		  end = layout_first_tick_from(layout, lease->until);

	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	own->stage = HELD;
	own->from = lease->from;
	own->until = lease->until;
	if (layout_time_of_tick(layout, first) <= GetCurrentTimestamp() &&
		end >= (int64) pg_atomic_read_u64(&bounds->horizon))
	{
		own->stage = ADMITTED;
		state->end = TIMESTAMP_IS_NOBEGIN(state->end) ?
						 lease->until :
						 Min(state->end, lease->until);
	}
	LWLockRelease(held_lock);
	return own->stage == ADMITTED;
}

/* A lease ends later than before. */
void
held_renew(const Lease *lease)
{
	set_lease(lease, state->leases[lease->shard].stage);
}

/* A shard is open. */
void
held_note_open(int32 shard)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->leases[shard].stage = OPEN;
	LWLockRelease(held_lock);
	(void) pg_atomic_fetch_add_u32(&state->changes, 1);
	ConditionVariableBroadcast(&state->attempted);
}

/* A shard is about to be closed: sessions that find it so are to wait. */
void
held_note_closing(int32 shard)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	if (state->leases[shard].stage == OPEN)
		state->leases[shard].stage = ADMITTED;
	LWLockRelease(held_lock);
}

/* A shard is closed, and not held any more. */
void
held_drop(int32 shard)
{
	set_lease(&(Lease){shard, 0, 0}, NOT_HELD);
	(void) pg_atomic_fetch_add_u32(&state->changes, 1);
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
	for (int64 shard = 0; shard <= last_shard(); shard++)
	{
		if (state->leases[shard].stage >= ADMITTED)
			end = Min(end, state->leases[shard].until);
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
 * The worker ends, and gives all shards back.  What it reported last is no reason
 * any more for a shard that is not held: wait for the next worker.
 */
void
held_forget_report(void)
{
	LWLockAcquire(held_lock, LW_EXCLUSIVE);
	state->ended_us = 0;
	LWLockRelease(held_lock);
}

/*-------------------------------------------------------------------------
 * What a session mints on
 *-------------------------------------------------------------------------
 */

/* Was a shard opened or closed since this session found its shards? */
bool
held_has_changed(void)
{
	return my_changes != pg_atomic_read_u32(&state->changes);
}

/* Does this server hold the shard?  Sessions need not be minting on it. */
bool
held_has(int32 shard)
{
	bool held;

	LWLockAcquire(held_lock, LW_SHARED);
	held = state->leases[shard].stage != NOT_HELD;
	LWLockRelease(held_lock);
	return held;
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
	if (asked->count == 0)
	{
		for (int32 shard = 0; shard <= last_shard(); shard++)
		{
			if (held_is_open(shard))
				own->shard[own->count++] = shard;
		}
	}
	for (int i = 0; i < asked->count; i++)
	{
		if (held_is_open(asked->shard[i]))
			own->shard[own->count++] = asked->shard[i];
	}
	LWLockRelease(held_lock);
	my_shards = copy_shards(own);
	settings_narrow_shards(my_shards);
	pfree(own);
	if (before != NULL)
		pfree(before);
	return my_shards;
}

/*-------------------------------------------------------------------------
 * Why a session cannot mint
 *-------------------------------------------------------------------------
 */

/* What the server holds, for a message. */
static char *
describe_held(void)
{
	int32 *shard = palloc((last_shard() + 1) * sizeof(int32));
	char  *text = palloc(SHARDS_TEXT_SIZE);
	int	   count = 0;

	LWLockAcquire(held_lock, LW_SHARED);
	for (int32 i = 0; i <= last_shard(); i++)
	{
		if (state->leases[i].stage != NOT_HELD)
			shard[count++] = i;
	}
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

static void
report_refusal(const Refusal *refusal)
{
	char until[LAYOUT_TIME_SIZE];

	layout_format_time(refusal->until, until, sizeof(until));
	switch (refusal->kind)
	{
		case REFUSED_TAKEN:
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
					 errdetail("The registry was fenced: no lease begins "
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

/* How far this server's clock is ahead of the registry's. */
static int64
clock_ahead_us(const HeldReport *report, TimestampTz now)
{
	return now - report->answered_at -
		   (steady_clock_us() - report->answered_us);
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
	if (is_ahead)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("clock is %s ahead of the lease of this server's "
						"shards",
						distance),
				 errdetail("The lease ends at %s, and the clock is at %s, %s "
						   "ahead of the registry's.",
						   at, there, from_registry),
				 errhint(CLOCK_HINT)));
	ereport(ERROR, (errcode(ERRCODE_SYSTEM_ERROR),
					errmsg("clock is %s behind the lease of this server's "
						   "shards",
						   distance),
					errdetail("The lease begins at %s, and the clock is at "
							  "%s, %s %s the registry's.",
							  at, there, from_registry,
							  ahead_us < 0 ? "behind" : "ahead of"),
					errhint(CLOCK_HINT)));
}

/* Nobody has asked the registry for it. */
static void
report_not_asked(int32 shard)
{
	if (settings_registry()[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"snowflake.shards\" is \"auto\", and there is no "
						"registry"),
				 errhint("Set \"snowflake.registry\", or set "
						 "\"snowflake.shards\" to a list.")));
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

/* Does the session's snowflake.shards name the shard, or leave it open? */
static bool
is_asked_for(int32 shard)
{
	return settings_asked_shards->count == 0 || settings_name_shard(shard);
}

/* Has the last attempt ended since the wait began, or just before? */
static bool
is_fresh(const HeldWait *wait, int64 ended_us, uint64 attempts)
{
	return attempts > wait->attempts ||
		   (attempts > 0 && steady_clock_us() - ended_us < FRESH_US);
}

/*
 * Is a shard of the session's open, which now has to come within the leases?
 * Then *end is the common end.  If none is, *from is when a lease of one
 * begins; DT_NOEND if it holds none.
 */
static bool
has_open_shard(int32 shard, TimestampTz *end, TimestampTz *from)
{
	bool has_open = false;

	*from = DT_NOEND;
	LWLockAcquire(held_lock, LW_SHARED);
	*end = state->end;
	for (int32 i = 0; i <= last_shard(); i++)
	{
		const ShardLease *own = &state->leases[i];

		if (own->stage == NOT_HELD ||
			!(shard == HELD_ANY ? is_asked_for(i) : shard == i))
			continue;
		has_open |= own->stage == OPEN;
		*from = Min(*from, own->from);
	}
	LWLockRelease(held_lock);
	return has_open;
}

/*
 * Raise an error if waiting does not help: the registry does not answer, or it
 * has answered, and what the session needs is not there.
 */
static void
report_hopeless(const HeldWait *wait, int32 shard)
{
	HeldReport	   report;
	const Refusal *refusal;
	uint64		   attempts;
	int64		   ended_us;
	TimestampTz	   now;
	TimestampTz	   end;
	TimestampTz	   from;
	bool		   has_open = has_open_shard(shard, &end, &from);

	LWLockAcquire(held_lock, LW_SHARED);
	report = state->report;
	ended_us = state->ended_us;
	attempts = pg_atomic_read_u64(&state->attempts);
	LWLockRelease(held_lock);
	now = GetCurrentTimestamp();
	if (has_open && now < end)
		return;
	if (report.failure.kind != REGISTRY_ANSWERED)
		report_registry(&report, end);
	if (!is_fresh(wait, ended_us, attempts))
		return;
	if (has_open)
		report_clock(&report, end, now);
	if (from != DT_NOEND)
	{
		if (now < from &&
			wait->waited_us >= settings_clock_tolerance_ms() * US_PER_MS)
			report_clock(&report, from, now);
		return;
	}
	if (shard == HELD_ANY)
		shard = first_asked();
	refusal = find_refusal(&report, shard);
	if (refusal != NULL)
		report_refusal(refusal);
	report_not_asked(shard);
}

/*
 * Raise an error if the caller has waited without a worker for so long that a
 * worker that died would be back.  Else ask the worker for an attempt.
 */
static void
ask_worker(HeldWait *wait)
{
	Latch *worker;

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
}

/*
 * Wait for the worker to lease a shard, or any that the session asks for, or to
 * renew its leases.  Call it in a loop until what you wait for has come.  The
 * first call does not wait: look again.  Raises why it cannot come.
 */
void
held_wait(HeldWait *wait, int32 shard)
{
	static uint32 event = 0;

	if (event == 0)
		event = named_wait_event("SnowflakeLease");
	if (!wait->begun)
	{
		wait->begun = true;
		wait->attempts = pg_atomic_read_u64(&state->attempts);
		ConditionVariablePrepareToSleep(&state->attempted);
		return;
	}
	report_hopeless(wait, shard);
	ask_worker(wait);
	wait->waited_us +=
		wait_outside_locks(LEASE_WAIT_US, event, &state->attempted);
}

/*-------------------------------------------------------------------------
 * SQL
 *-------------------------------------------------------------------------
 */

static const Oid lease_columns[] = {INT4OID, BOOLOID, TIMESTAMPTZOID,
									TIMESTAMPTZOID, TEXTOID};
static const Oid status_columns[] = {TEXTOID,		 TEXTOID,		 INT4OID,
									 TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT8OID,
									 TEXTOID};

/* Read all that the worker writes. */
static HeldState *
copy_state(void)
{
	HeldState *copy = palloc(held_shmem_size());

	(void) settings_layout(); /* the library must be preloaded */
	LWLockAcquire(held_lock, LW_SHARED);
	memcpy(copy, state, held_shmem_size());
	LWLockRelease(held_lock);
	return copy;
}

static void
put_lease(ReturnSetInfo *result, int32 shard, const ShardLease *lease,
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

	for (int32 shard = 0; shard <= last_shard(); shard++)
	{
		if (now->leases[shard].stage != NOT_HELD)
			put_lease(result, shard, &now->leases[shard], NULL);
	}
	for (int i = 0; i < now->report.refusals; i++)
	{
		const Refusal *refusal = &now->report.refusal[i];

		if (refusal->shard != HELD_ANY &&
			now->leases[refusal->shard].stage == NOT_HELD)
			put_lease(result, refusal->shard, NULL, refusal);
	}
	return (Datum) 0;
}

/* What the worker that leases shards knows of the registry. */
Datum
snowflake_lease_status(PG_FUNCTION_ARGS)
{
	TupleDesc row =
		result_row(fcinfo, status_columns, lengthof(status_columns));
	HeldState *now = copy_state();
	bool	   on = pg_atomic_read_u32(&now->is_on) != 0;
	int		   shards = 0;
	char	   holder[IDENTITY_NUMBER_SIZE];
	Datum	   values[lengthof(status_columns)] = {0};
	bool	   nulls[lengthof(status_columns)] = {false};

	for (int32 shard = 0; shard <= last_shard(); shard++)
		shards += now->leases[shard].stage != NOT_HELD;
	identity_format_number(now->report.holder, holder);
	values[0] =
		CStringGetTextDatum(!on								 ? "off" :
							shards == 0						 ? "none" :
							now->end > GetCurrentTimestamp() ? "held" :
															   "ended");
	values[1] = CStringGetTextDatum(holder);
	values[2] = Int32GetDatum(shards);
	values[3] = TimestampTzGetDatum(now->end);
	values[4] = TimestampTzGetDatum(now->report.answered_at);
	values[5] = Float8GetDatum(
		clock_ahead_us(&now->report, GetCurrentTimestamp()) / 1e6);
	values[6] = CStringGetTextDatum(now->report.failure.text);
	nulls[1] = now->report.holder == 0;
	nulls[3] = TIMESTAMP_NOT_FINITE(now->end);
	nulls[4] = nulls[5] = now->report.answered_at == 0;
	nulls[6] = now->report.failure.kind == REGISTRY_ANSWERED;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}
