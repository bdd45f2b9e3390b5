/*-------------------------------------------------------------------------
 *
 * lease_wait.c
 *	  Waiting for a lease, or learning why there is none.
 *
 * A session that needs a lease asks the worker for an attempt, and waits for its
 * end, until the lease has come.  As soon as waiting does not help, an error says
 * why: the registry does not answer, or it has answered, and what the session needs
 * is not there.
 *
 * There is no state here, and nothing to lock: what the worker wrote is copied.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid_d.h"
#include "common/string.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "horizon.h"
#include "lease_wait.h"
#include "server.h"

/* An attempt that ended so lately tells a caller what another would. */
#define FRESH_US USECS_PER_SEC

/* How long one that only looks waits for an attempt to end. */
#define CHECK_PATIENCE_US (10 * USECS_PER_SEC)

/* How long an answer about reserved shards counts, in one statement. */
#define ANSWER_HOLDS_US USECS_PER_SEC

#define CLOCK_HINT \
	"Check the time synchronization of this server and of the registry's."

/* What the server holds, for a message. */
static char *
describe_held(const LeaseTable *table)
{
	int32 *shard = palloc(table->count * sizeof(int32));

	if (table->count == 0)
		return pstrdup("It holds no shard.");
	for (int i = 0; i < table->count; i++)
		shard[i] = table->held[i].lease.shard;
	return psprintf("It holds %s of the registry's shards.",
					leases_text(shard, table->count));
}

/* Of each kind of failure: a code, what any user may know, and what to do. */
static const struct
{
	const char *code;
	const char *what;
	const char *way_out; /* where the failure itself has no hint */
} of_failure[] = {
	[REGISTRY_ANSWERED] = {NULL, "the registry answers", NULL},
	[REGISTRY_AWAY] = {"away", "the registry cannot be reached",
					   "Check that the registry runs, and try "
					   "\"snowflake.registry\" from this server: psql "
					   "'host=... dbname=... user=...'"},
	[REGISTRY_SILENT] = {"silent", "the registry does not answer",
						 "Look whether the registry hangs, or the network."},
	[REGISTRY_REFUSED] = {"refused", "the registry refuses this server",
						  "Do in the registry what these words ask for: "
						  "doc/failures.md#the-registry-is-away."},
	[REGISTRY_CLOSED] = {"closed", "the registry is not open", NULL},
	[REGISTRY_INVALID] = {"invalid", "the registry's answer is not valid",
						  "Look at what \"snowflake.registry\" names: it is "
						  "another program, or its functions were changed."},
	[REGISTRY_UNSTORED] = {"unstored",
						   "this server could not store its leases",
						   "Remove the cause, such as a full disk."},
};

const char *
lease_failure_code(const RegistryFailure *failure)
{
	return of_failure[failure->kind].code;
}

const char *
lease_failure_way_out(const RegistryFailure *failure)
{
	return failure->hint[0] != '\0' ? failure->hint :
									  of_failure[failure->kind].way_out;
}

/*
 * May the session know of other servers, and of what the registry says?  In a
 * function with the rights of an administrator it is still the session that reads
 * the message.
 */
static bool
may_know_others(void)
{
	return has_privs_of_role(GetSessionUserId(), ROLE_PG_MONITOR);
}

/*
 * The registry could not be asked, or refused.  The words of the failure name
 * hosts, databases and roles: they are for the log, and for those who may call
 * snowflake_lease_status().
 */
static void
report_registry(const RegistryFailure *failure, TimestampTz end)
{
	bool  is_admin = may_know_others();
	char *ended =
		TIMESTAMP_NOT_FINITE(end) ?
			pstrdup("This server holds no shard.") :
			psprintf("This server's lease ended at %s.", time_text(end));
	char *words = psprintf("%s The last attempt to lease failed: %s%s", ended,
						   failure->text,
						   pg_str_endswith(failure->text, ".") ? "" : ".");

	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("cannot mint snowflake ids: %s",
					of_failure[failure->kind].what),
			 errdetail("%s", is_admin ? words : ended),
			 errdetail_log("%s", words),
			 is_admin && failure->hint[0] != '\0' ?
				 errhint("%s", failure->hint) :
				 errhint("Minting goes on by itself when the registry leases "
						 "shards to this server. Its administrator finds the "
						 "reason in snowflake_lease_status().")));
}

/*
 * Which refusal is about the shard?  Else one that is about none, such as a limit.  With
 * "auto" it is that none is free: which shard the server held before does not matter.
 */
static const Refusal *
find_refusal(const LeaseOutcome *outcome, int32 shard)
{
	const Refusal *found = NULL;

	for (int i = 0; i < outcome->refusals; i++)
	{
		const Refusal *refusal = &outcome->refusal[i];

		if (refusal->shard == shard)
			return refusal;
		if (found == NULL &&
			(shard == ANY_SHARD || refusal->shard == ANY_SHARD))
			found = refusal;
	}
	return found;
}

/* Another server has a shard that this one had a lease of at the same time. */
static void
report_loss(const LeaseTable *table, const Refusal *refusal)
{
	const LeaseLoss *loss = NULL;

	for (int i = 0; i < Min(table->losses, LEASE_MAX_LOSSES); i++)
	{
		if (table->loss[i].lease.shard == refusal->shard)
			loss = &table->loss[i];
	}
	if (loss != NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the registry gave shard %d to another server during a "
					"lease of this server",
					refusal->shard),
			 errdetail("%s has it now. The lease was from %s until %s.",
					   may_know_others() ? refusal->other : "Another server",
					   time_text(loss->lease.from),
					   time_text(loss->lease.until)),
			 errdetail_log("%s has it now. The lease was from %s until "
						   "%s.",
						   refusal->other, time_text(loss->lease.from),
						   time_text(loss->lease.until)),
			 errhint(LEASE_LOSS_HINT)));
}

static void
report_refusal(const LeaseTable *table, const Refusal *refusal)
{
	char *until = time_text(refusal->until);

	switch (refusal->kind)
	{
		case REFUSED_TAKEN:
			report_loss(table, refusal);
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("shard %d is leased to another server",
							refusal->shard),
					 errdetail("%s has it until %s.",
							   may_know_others() ? refusal->other :
												   "Another server",
							   until),
					 errdetail_log("%s has it until %s.", refusal->other,
								   until),
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
		case REFUSED_LIMITED:
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("the registry leases no more shards to this "
							"server"),
					 errdetail("Its limits are %s.", refusal->other),
					 errhint("Ask for less by \"snowflake.shards\" or "
							 "\"snowflake.lease\", or call "
							 "snowflake_registry_limit() in the registry.")));
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
least_in_registry(const LeaseOutcome *outcome)
{
	return outcome->answered_at + steady_clock_us() - outcome->answered_us;
}

static TimestampTz
most_in_registry(const LeaseOutcome *outcome)
{
	return outcome->answered_at + steady_clock_us() - outcome->asked_us;
}

/*
 * How far this server's clock is ahead of the registry's, at least: an answer
 * that was late is no fault of a clock.
 */
int64
lease_clock_ahead_us(const LeaseOutcome *outcome)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz least = least_in_registry(outcome);
	TimestampTz most = most_in_registry(outcome);

	return now > most ? now - most : now < least ? now - least : 0;
}

/* "5 s ahead of", of this server's clock and the registry's. */
static char *
describe_clock(const LeaseOutcome *outcome)
{
	int64 ahead_us = lease_clock_ahead_us(outcome);

	return psprintf("%s %s", duration_text(ahead_us),
					ahead_us < 0 ? "behind" : "ahead of");
}

/* The clock is not within the lease, and the registry answers. */
static void
report_clock(const LeaseOutcome *outcome, TimestampTz now, TimestampTz bound)
{
	bool is_ahead = now >= bound;

	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("clock is %s %s the lease of this server's shards",
					duration_text(now - bound),
					is_ahead ? "ahead of" : "behind"),
			 errdetail("The lease %s at %s, and the clock is at %s, %s the "
					   "registry's.",
					   is_ahead ? "ends" : "begins", time_text(bound),
					   time_text(now), describe_clock(outcome)),
			 errhint(CLOCK_HINT)));
}

/* The lease is over, and its renewal came too late. */
static void
report_late(const LeaseOutcome *outcome, TimestampTz end)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("the lease of this server's shards ended before it was "
					"renewed"),
			 errdetail("It ended at %s. The registry's last answer took %s.",
					   time_text(end),
					   duration_text(outcome->answered_us - outcome->asked_us)),
			 errhint("Minting goes on by itself when an answer comes in time. "
					 "Look for what delays the answers, or set "
					 "\"snowflake.lease\" to several times as long.")));
}

/*
 * The lease is over by this server's clock.  Raise an error if the registry's is
 * not there yet, or was not when it answered.
 */
static void
report_over(const LeaseOutcome *outcome, TimestampTz now, TimestampTz end)
{
	if (most_in_registry(outcome) < end)
		report_clock(outcome, now, end);
	if (least_in_registry(outcome) < end)
		report_late(outcome, end);
}

/* A lease ends before ids that this server may have minted already. */
static void
report_horizon(const LeaseOutcome *outcome, TimestampTz until)
{
	TimestampTz horizon =
		layout_time_of_tick(settings_layout(),
							(int64) pg_atomic_read_u64(&bounds->horizon));

	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("snowflake horizon is %s ahead of the lease of this "
					"server's shards",
					duration_text(horizon - until)),
			 errdetail("The lease ends at %s, and the horizon is %s. The "
					   "clock is %s the registry's.",
					   time_text(until), time_text(horizon),
					   describe_clock(outcome)),
			 errhint(CLOCK_HINT
					 " Minting goes on by itself when the lease is renewed "
					 "past the horizon.")));
}

/* The server holds a lease that its shard cannot be opened with. */
static void
report_not_open(const LeaseOutcome *outcome, TimestampTz now,
				const Lease *lease)
{
	if (now < lease->from)
		report_clock(outcome, now, lease->from);
	if (now >= lease->until)
	{
		report_over(outcome, now, lease->until);
		report_late(outcome, lease->until);
	}
	report_horizon(outcome, lease->until);
}

/* The outcome of the last attempt is forgotten, or there was none yet. */
static void
report_unanswered(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("cannot mint snowflake ids: the registry has not answered "
					"yet"),
			 errdetail("No attempt to lease has ended since this server's "
					   "worker began, or gave its shards back, or since the "
					   "configuration was reloaded."),
			 errhint("Minting begins by itself when the registry leases "
					 "shards to this server. An answer takes some seconds if "
					 "a host of \"snowflake.registry\" is silent.")));
}

/* Nobody has asked the registry for it. */
static void
report_not_asked(const LeaseTable *table, int32 shard)
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
			 shard == ANY_SHARD ?
				 errmsg("no shard is leased to this server") :
				 errmsg("shard %d is not leased to this server", shard),
			 errdetail("%s", describe_held(table)),
			 errhint("A server leases the shards of the \"snowflake.shards\" "
					 "of its configuration file. For a database or a role it "
					 "can only name some of these.")));
}

/*
 * Copy what the worker wrote.  "fresh": the last attempt has ended since the wait began, or
 * just before.  One whose outcome is forgotten tells nothing.
 */
static LeaseTable *
copy_table(const WorkerWait *wait, bool *fresh)
{
	/* counted first: so the outcome is of this attempt, or of a later one */
	uint64		attempts = pg_atomic_read_u64(&leases_worker()->attempts);
	LeaseTable *table = leases_copy();

	*fresh = table->ended_us != 0 &&
			 (attempts > wait->attempts ||
			  steady_clock_us() - table->ended_us < FRESH_US);
	return table;
}

/* A lease that a session needs: one whose shard may be open, if there is one. */
static const HeldLease *
find_held(const LeaseTable *table, int32 shard)
{
	const HeldLease *found = NULL;

	for (int i = 0; i < table->count; i++)
	{
		const HeldLease *held = &table->held[i];

		if (shard == ANY_SHARD ? settings_ask_for(held->lease.shard) :
								 held->lease.shard == shard)
			found = found != NULL && found->is_counted ? found : held;
	}
	return found;
}

/*
 * Raise an error if waiting does not help.  "fresh": the last attempt tells what another
 * would.
 */
static void
report_hopeless(LeaseTable *table, int32 shard, bool fresh, int64 waited_us)
{
	const LeaseOutcome *outcome = &table->outcome;
	const HeldLease	   *held = find_held(table, shard);
	bool				may_be_open = held != NULL && held->is_counted;
	TimestampTz			now = GetCurrentTimestamp();
	const Refusal	   *refusal;

	if (may_be_open && now < table->end)
		return;
	if (outcome->failure.kind != REGISTRY_ANSWERED)
		report_registry(&outcome->failure, table->end);
	if (!fresh)
		return;
	if (table->ended_us == 0 && settings_registry()[0] != '\0')
		report_unanswered();
	if (may_be_open && outcome->answered_at != 0)
		report_over(outcome, now, table->end);
	if (held != NULL && !may_be_open)
	{
		/* its clock may be about to reach the lease */
		if (waited_us < settings_clock_tolerance_ms * US_PER_MS)
			return;
		if (outcome->answered_at != 0)
			report_not_open(outcome, now, &held->lease);
	}
	if (shard == ANY_SHARD && settings_asked_shards->count > 0)
		shard = settings_asked_shards->shard[0];
	refusal = find_refusal(outcome, shard);
	if (refusal != NULL)
		report_refusal(table, refusal);
	if (may_be_open && outcome->answered_at != 0)
		report_late(outcome, table->end);
	report_not_asked(table, shard);
}

/*
 * The worker leases nothing before it is known what this server may have minted.
 * Raises why it cannot be known.
 */
static void
wait_for_bounds(void)
{
	WorkerWait wait = {0};

	while (!bounds_are_known())
	{
		(void) server_layout(); /* raises an error if it differs */
		horizon_wait(&wait, HORIZON_OPEN_ONLY);
	}
	(void) worker_end_wait(&wait);
}

/* Ask the worker for an attempt, and wait for its end. */
static void
wait_for_attempt(WorkerWait *wait)
{
	static WaitName event = {"SnowflakeLease", 0};

	leases_ask();
	worker_wait(leases_worker(), wait, &event);
}

/*
 * Wait for the worker to lease a shard, or any that the session asks for, or to
 * renew its leases.  Call it in a loop until what you wait for has come.  The
 * first call asks for no attempt: look again after it.  Raises why it cannot come.
 */
static void
lease_wait(WorkerWait *wait, int32 shard)
{
	LeaseTable *table;
	bool		fresh;

	if (!wait->begun)
		wait_for_bounds();
	if (worker_begin_wait(leases_worker(), wait))
		return;
	table = copy_table(wait, &fresh);
	report_hopeless(table, shard, fresh, wait->waited_us);
	pfree(table);
	wait_for_attempt(wait);
}

/* Are there leases in force that this session could mint with? */
static bool
is_covered(const LeaseTable *table)
{
	const HeldLease *held = find_held(table, ANY_SHARD);

	return held != NULL && held->is_counted &&
		   GetCurrentTimestamp() < table->end;
}

/*
 * Raise the error of a call that needs a lease, if there is one.  Without patience, go
 * by the last attempt; with it, wait for another, as the call would.
 */
void
lease_check(bool patient)
{
	WorkerWait	wait = {0};
	LeaseTable *table;
	bool		fresh;

	if (!positions_need_leases() || !bounds_are_known())
		return;
	table = leases_copy();
	if (is_covered(table))
		return;
	worker_check(leases_worker(), patient);
	if (!patient)
	{
		report_hopeless(table, ANY_SHARD, true, PG_INT64_MAX);
		return;
	}
	(void) worker_begin_wait(leases_worker(), &wait);
	while (!is_covered(table = copy_table(&wait, &fresh)))
	{
		report_hopeless(table, ANY_SHARD,
						fresh || wait.waited_us > CHECK_PATIENCE_US,
						wait.waited_us);
		wait_for_attempt(&wait);
	}
	(void) worker_end_wait(&wait);
}

/*
 * Has the registry reserved a shard?  What it said last can be old, so wait for
 * an answer.  A statement can ask for many shards: one answer counts for all of them, for
 * a second.
 */
static Reservation
wait_for_reservation(int32 shard)
{
	/* the start of the last statement that had an answer, and when it had that */
	static TimestampTz answered_statement = 0;
	static int64	   answered_us;
	WorkerWait		   wait = {0};

	if (answered_statement == GetCurrentStatementStartTimestamp() &&
		steady_clock_us() - answered_us < ANSWER_HOLDS_US &&
		leases_reservation(shard) == RESERVED_YES)
		return RESERVED_YES;
	wait_for_bounds();
	(void) worker_begin_wait(leases_worker(), &wait);
	while (pg_atomic_read_u64(&leases_worker()->attempts) == wait.attempts)
		wait_for_attempt(&wait);
	(void) worker_end_wait(&wait);
	answered_statement = GetCurrentStatementStartTimestamp();
	answered_us = steady_clock_us();
	return leases_reservation(shard);
}

/* Refuse a shard that the registry has not reserved. */
static void
check_reserved(int32 shard)
{
	Reservation answer;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("it is not known whether shard %d is reserved", shard),
				 errdetail("This server is a standby, which does not ask the "
						   "registry."),
				 errhint("Make the ids on the primary.")));
	answer = wait_for_reservation(shard);

	if (answer == RESERVED_UNKNOWN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("it is not known whether shard %d is reserved", shard),
				 errdetail("The registry does not answer."),
				 errhint("See snowflake_lease_status().")));
	if (answer == RESERVED_TOO_MANY)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("it is not known whether shard %d is reserved", shard),
				 errdetail("The registry has reserved more shards than it can "
						   "tell."),
				 errhint("Reserve shards that follow each other.")));
	if (answer == RESERVED_NOT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("shard %d is not reserved in the registry", shard),
				 errdetail("The registry leases it to servers, which mint the "
						   "same ids."),
				 errhint("Call snowflake_registry_reserve(%d, 'ids for old "
						 "rows') in the registry, if no server had it.",
						 shard)));
}

/* --- What the server is handed ---------------------------------------------- */

static const Leasing leases = {.own_shards = leases_own_shards,
							   .wait = lease_wait,
							   .check = lease_check,
							   .check_reserved = check_reserved};

/* This server can lease its shards: a worker does, if the settings ask for it. */
void
leases_install(void)
{
	leasing = &leases;
	worker_register("snowflake lease", "snowflake_lease_main");
}
