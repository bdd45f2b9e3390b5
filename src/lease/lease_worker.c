/*-------------------------------------------------------------------------
 *
 * lease_worker.c
 *	  The worker that leases shards of the registry.
 *
 * Within a server uniqueness is kept by mint.c and horizon.c.  Between
 * servers it is kept by leases, where snowflake.registry is set.  A lease is
 * (shard, holder, from, until): its holder alone mints ids of that shard whose
 * time lies in [from, until).
 *
 * Why no interleaving lets two servers mint the same id.  An id carries its
 * shard and its tick, so two equal ids have the same shard and the same time.
 *
 *	1. The registry grants the leases of a shard one after the other, under one
 *	   lock.  The next one begins at or after the "until" of the one before, and
 *	   "until" is never lowered below what was minted.  So the leases of a shard
 *	   are disjoint intervals of id time, each with one holder, whatever any
 *	   clock says.
 *	2. A holder is one server.  The number is random, and is kept on disk with
 *	   evidence of the place (lease_record.c).  A server that starts with another
 *	   server's file, or not provably where it was, draws a new one: a clone, a
 *	   standby that was promoted, a recovered backup, any server after a boot of
 *	   the machine.
 *	3. A holder mints ids of a shard only in ticks from "from" on and before
 *	   "until".  The horizon never passes the common end, which is the first end of
 *	   a lease whose shard may be open, and a shard is opened with a last position just
 *	   before "from", or a later one (positions.c).  What the registry granted is on disk
 *	   before its shard is opened, and a shard is closed before its lease is given back, or
 *	   before the end of the others is moved past its own.
 *	4. Within a lease, a holder that starts again mints above the horizon that it found,
 *	   like any server.  That stands for what it minted before, also where it gives
 *	   the lease back.  The registry need not know it, either.
 *
 * It is harmless to lose a message, to be paused, to be cut off, or to have a
 * wrong clock at any step: a server that is not told of a lease does not mint, and
 * one that is told late finds the interval over, by the ids' time and not by the
 * clock.  An answer that is lost leaves a lease that nobody uses until it ends.
 *
 * What the argument needs of the registry: it keeps what it committed.  If it
 * lost something, in a failover or because a backup was restored, it must begin
 * no new lease before all that it may have forgotten have ended.  It sees that
 * by itself, or by what its callers know; if not, somebody has to call
 * snowflake_registry_fence().  A lost renewal of a lease in force is
 * harmless: the holder renews it again before it ends.  And there must be one
 * registry.
 *
 * What it does not cover: two servers that no evidence tells apart, such as one
 * machine's memory, resumed twice.  They find out by the fence, a number that
 * each call swaps: the second to call presents an old one, drops all that it
 * holds, and is a new holder.  So they can repeat ids until the next renewal, or,
 * if they parted while a call was unanswered, until the one after it.
 *
 * Calls.  The worker calls at half of the lease, and after a reload.  It calls at most once
 * a second after a failure or a refusal, and when a session lacks a shard.  Before
 * a call it stores the fence that it proposes.  If the answer is lost, the very
 * same call is repeated with the same numbers, and the registry knows them.  Any
 * other call has new numbers: then the registry refuses the lost one, if that
 * comes late.  Else a late release could free a shard that was leased again.
 *
 * A clean stop gives the leases back, up to the end of the last tick that was
 * minted in.  That is stored before the registry is told.
 *
 * A note about locking: the worker alone writes the record, and opens shards, or closes
 * those that it opened; what sessions read of that is in lease_table.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "lease_table.h"
#include "registry.h"
#include "server.h"

/* Sessions that lack a shard do not make the worker call more often. */
#define MIN_PAUSE_US USECS_PER_SEC

/* The longest pause after a failure or a refusal. */
#define MAX_RETRY_US (10 * USECS_PER_SEC)

/* How often it looks whether the horizon is open, and a lease has begun. */
#define POLL_US (20 * US_PER_MS)

/* This server's leases; entries that are not recorded yet are not opened. */
static LeaseRecord mine;
static bool		   is_recorded;
static bool		   has_begun;

/* What sessions are told. */
static LeaseOutcome outcome;

/* When to call next, and when the last call ended, by a steady clock. */
static int64 due_us;
static int64 ended_us;

/* The pause before the next call, after a failure or a refusal; 0: none. */
static int64 retry_us;

/* --- The record --------------------------------------------------------- */

static bool
store(void)
{
	Trouble trouble;

	is_recorded = lease_record_write(&mine, &trouble);
	if (!is_recorded)
	{
		outcome.failure = (RegistryFailure){.kind = REGISTRY_UNSTORED};
		strlcpy(outcome.failure.text, trouble.reason,
				sizeof(outcome.failure.text));
	}
	return is_recorded;
}

/* Become a new holder, which holds nothing. */
static void
become_new_holder(const char *why)
{
	mine.caller = (LeaseCaller){.holder = identity_random(),
								.registry = mine.caller.registry};
	mine.count = 0;
	ereport(LOG, (errmsg("this server is a new holder of snowflake leases"),
				  errdetail("It is holder %s: %s.",
							number_text(mine.caller.holder), why)));
}

/* Is a lease held whose shard is not open? */
static bool
has_unopened(void)
{
	for (int i = 0; i < mine.count; i++)
	{
		if (mine.lease[i].kind != NOT_HELD &&
			!positions_is_open(mine.lease[i].shard))
			return true;
	}
	return false;
}

/* --- What is in the log ------------------------------------------------- */

/* Log which shards the record has now, if these are others than before. */
static void
log_change(const int32 *before, int nbefore)
{
	int	   count;
	int32 *shard = lease_record_held(&mine, &count);

	if (count != nbefore || memcmp(shard, before, count * sizeof(int32)) != 0)
		ereport(LOG, (errmsg("this server has leased snowflake shards \"%s\"",
							 leases_text(shard, count)),
					  errdetail("Before, it had \"%s\".",
								leases_text(before, nbefore))));
}

/* Log how an attempt ended, if that is another way than the one before. */
static void
log_outcome(const LeaseOutcome *before)
{
	bool failed = outcome.failure.kind != REGISTRY_ANSWERED;
	bool failed_before = before->failure.kind != REGISTRY_ANSWERED;

	if (failed && (!failed_before ||
				   strcmp(before->failure.text, outcome.failure.text) != 0))
		ereport(LOG, (errmsg("could not lease snowflake shards: %s",
							 outcome.failure.text),
					  outcome.failure.hint[0] != '\0' ?
						  errhint("%s", outcome.failure.hint) :
						  0));
	if (!failed && failed_before)
		ereport(LOG, (errmsg("the registry of snowflake shards answers "
							 "again")));
	if (outcome.refusals == 0 && before->refusals > 0)
		ereport(LOG, (errmsg("the registry leases all snowflake shards that "
							 "this server wants")));
	else if (outcome.refusals != before->refusals)
		ereport(LOG, (errmsg("the registry refuses %d of the snowflake "
							 "shards that this server wants",
							 outcome.refusals),
					  errhint("See snowflake_leases().")));
}

/* --- Calling the registry ----------------------------------------------- */

/* The proposed fence counts: it was accepted, or it may have been. */
static void
note_fence(void)
{
	mine.caller.fence = mine.caller.next;
	mine.caller.next = 0;
}

/*
 * Propose a fence for a call, and store the record with it, before the registry is
 * called.  If the same call was left unanswered, propose the same one.  If another call
 * was, the registry may have the fence of that one, or the one before.  So present the
 * former, which is the greater, and propose a still greater one.
 */
static bool
propose_fence(const char *arguments)
{
	LeaseCaller *caller = &mine.caller;
	uint64		 call =
		DatumGetUInt64(hash_any_extended((const unsigned char *) arguments,
										 strlen(arguments), 0));

	if (caller->next != 0 && caller->call != call)
		note_fence();
	if (caller->next != 0)
		return true;
	caller->next = caller->fence + 1 + (int64) (identity_random() >> 33);
	caller->call = call;
	if (!store())
		caller->next = 0; /* the next attempt proposes and stores again */
	return is_recorded;
}

/* Let nobody mint on a shard any more.  Gives where its lease may end. */
static TimestampTz
close_shard(int32 shard)
{
	positions_close(shard);
	return layout_time_of_tick(settings_layout(), positions_end(shard));
}

/*
 * Let go of the leases that are not wanted any more, or of all: close their shards, and
 * tell sessions.  Gives the leases that can be given back: give_back() stores the record
 * before the registry is called.  One that the registry does not know just ends.
 */
static Lease *
close_surplus(bool all, int *count)
{
	Lease *surplus = palloc(mine.count * sizeof(Lease));
	int	   held = 0;

	*count = 0;
	for (int i = 0; i < mine.count; i++)
	{
		Lease	   *lease = &mine.lease[i];
		TimestampTz end;

		if (lease->kind == NOT_HELD)
			continue;
		held++;
		if (!all && (held <= settings_asked_shards->automatic ||
					 settings_name_shard(lease->shard)))
			continue;
		end = close_shard(lease->shard);
		lease->until = Max(lease->from, Min(lease->until, end));
		if (lease->kind == HELD_HERE)
			surplus[(*count)++] = *lease;
		lease->kind = NOT_HELD;
	}
	leases_publish(&mine, false);
	return surplus;
}

/* Who has a shard by the answer; NULL: it does not say that anybody has it. */
static const char *
find_taker(const RegistryAnswer *answer, int32 shard)
{
	for (int i = 0; i < answer->refusals; i++)
	{
		if (answer->refusal[i].shard == shard &&
			answer->refusal[i].kind == REFUSED_TAKEN)
			return answer->refusal[i].other;
	}
	return NULL;
}

/* The registry has lost something.  Say so where it is heard. */
static void
note_loss(const Lease *lease, const char *what)
{
	LeaseLoss loss = {.lease = *lease};

	strlcpy(loss.what, what, sizeof(loss.what));
	leases_note_loss(&loss);
	ereport(WARNING,
			(errmsg("the registry of snowflake shards has lost what it told "
					"this server"),
			 lease->shard == ANY_SHARD ?
				 errdetail("The registry says: %s.", what) :
				 errdetail("Shard %d, leased from %s until %s: %s.",
						   lease->shard, time_text(lease->from),
						   time_text(lease->until), what),
			 errhint(LEASE_LOSS_HINT)));
}

/* Does the answer itself name the loss of a shard's lease? */
static bool
names_loss(const RegistryAnswer *answer, int32 shard)
{
	for (int i = 0; i < answer->losses; i++)
	{
		if (answer->loss[i].lease.shard == shard)
			return true;
	}
	return false;
}

/* A call was accepted: note its fence, who answered, and what that lost. */
static void
note_accepted(const RegistryAnswer *answer)
{
	LeaseCaller *caller = &mine.caller;

	note_fence();
	caller->confirmed = caller->fence;
	if (caller->registry != 0 && caller->registry != answer->registry)
		ereport(LOG,
				(errmsg("another registry leases snowflake shards to this "
						"server"),
				 errdetail("Leases of the registry before are not renewed.")));
	caller->registry = answer->registry;
	for (int i = 0; i < answer->losses; i++)
		note_loss(&answer->loss[i].lease, answer->loss[i].what);
}

/*
 * Tell the registry what the record has as given back.  If it does not take them, they
 * end by themselves.  True if it answered, even that it knows another caller (a clone).
 */
static bool
give_back(const Lease *surplus, int count)
{
	char		  *arguments = registry_release_arguments(surplus, count);
	RegistryAnswer answer;

	if (!propose_fence(arguments) ||
		!registry_call("snowflake_registry_release", &mine.caller, arguments,
					   &answer, &outcome.failure))
		return false;
	if (answer.is_clone)
		mine.caller.next = 0; /* the next call for leases finds that, too */
	else
	{
		note_accepted(&answer);
		ereport(LOG, (errmsg("this server has given back %d leased snowflake "
							 "shards",
							 count)));
	}
	return true;
}

/*
 * Note what the registry said, for those who wait and those who watch.  With
 * "auto" it does not matter that a shard which was given back is another's now.
 */
static void
note_answer(const RegistryAnswer *answer, int64 asked_us)
{
	outcome.answered_at = answer->now;
	outcome.asked_us = asked_us;
	outcome.answered_us = steady_clock_us();
	if (answer->is_clone)
		return; /* it says nothing of shards */
	outcome.refusals = 0;
	for (int i = 0; i < answer->refusals; i++)
	{
		int32 shard = answer->refusal[i].shard;

		if (shard == ANY_SHARD || settings_name_shard(shard) ||
			lease_record_holds(&mine, shard))
			outcome.refusal[outcome.refusals++] = answer->refusal[i];
	}
}

/*
 * The answer says what this server holds.  If that is nothing, the registry may
 * have lost it, or may be another one.  Then what the server holds goes on until
 * it ends, but for what another server has.  A lease that is in force, and that
 * another server has, is lost.
 */
static void
take_over(const RegistryAnswer *answer)
{
	for (int i = 0; i < mine.count; i++)
	{
		Lease	   *lease = &mine.lease[i];
		const char *taker = find_taker(answer, lease->shard);

		if (taker == NULL)
		{
			if (lease->kind == HELD_HERE)
				lease->kind = HELD_FORGOTTEN;
			continue;
		}
		if (lease->kind != NOT_HELD && lease->until > answer->now &&
			!names_loss(answer, lease->shard))
			note_loss(lease, psprintf("%s has it", taker));
		lease->kind = NOT_HELD;
		lease->until = lease->from; /* nothing is left to be claimed */
	}
	if (answer->held == 0)
		return;
	mine.count = answer->held;
	memcpy(mine.lease, answer->lease, mine.count * sizeof(Lease));
}

/*
 * Ask the registry for what is wanted.  If it knows another server by this
 * one's name, become a new holder and ask again.
 */
static bool
lease_shards(void)
{
	RegistryAnswer answer;
	int64		   asked_us;
	bool		   is_new_holder = false;

	for (;;)
	{
		int	   nclaims;
		Lease *claims = lease_record_claims(&mine, &nclaims);
		char  *arguments =
			registry_lease_arguments(claims, nclaims, mine.lease, mine.count);

		if (!propose_fence(arguments))
			return false;
		asked_us = steady_clock_us();
		if (!registry_call("snowflake_registry_lease", &mine.caller, arguments,
						   &answer, &outcome.failure))
			return false;
		note_answer(&answer, asked_us);
		if (!answer.is_clone)
			break;
		if (is_new_holder)
			return registry_fail(&outcome.failure, REGISTRY_INVALID,
								 INVALID_ANSWER
								 "it knows a holder that has just begun");
		is_new_holder = true;
		become_new_holder(
			psprintf("%s also calls in the name of the holder before",
					 answer.clone));
		leases_publish(&mine, true); /* it has none that has to be on disk */
	}
	note_accepted(&answer);
	take_over(&answer);
	leases_note_reserved(answer.reserved);
	return store();
}

/* Bring the leases in line with the settings. */
static bool
call_registry(void)
{
	int	   count;
	Lease *surplus = close_surplus(false, &count);
	bool   good = registry_connect(&outcome.failure) &&
				(count == 0 || give_back(surplus, count)) && lease_shards();

	registry_disconnect();
	return good;
}

/* How long the worker may sleep after an attempt. */
static int64
pause_after_attempt(void)
{
	int64 lease_us = settings_lease_ms * US_PER_MS;
	int64 most_us = Min(MAX_RETRY_US, Max(lease_us / 20, MIN_PAUSE_US));

	if (outcome.failure.kind == REGISTRY_ANSWERED && outcome.refusals == 0)
	{
		retry_us = 0;
		return lease_us / 2;
	}
	retry_us = Min(Max(2 * retry_us, MIN_PAUSE_US), most_us);
	return retry_us;
}

/* One attempt; tell the sessions that wait how it ended. */
static void
attempt(void)
{
	LeaseOutcome before = outcome;
	int			 nbefore;
	int32		*shards_before = lease_record_held(&mine, &nbefore);

	outcome.failure.kind = REGISTRY_ANSWERED;
	pgstat_report_activity(STATE_RUNNING, "leasing shards");
	if (settings_registry()[0] == '\0' || call_registry())
		leases_publish(&mine, true);
	pgstat_report_activity(STATE_IDLE, NULL);
	log_change(shards_before, nbefore);
	log_outcome(&before);
	ended_us = steady_clock_us();
	due_us = ended_us + pause_after_attempt();
	leases_end_attempt(&outcome);
}

/* --- Beginning and ending ----------------------------------------------- */

/* Go on with the leases of the record, or as a new holder. */
static void
begin(void)
{
	const char *reason;
	Record		known;

	server_known(&known);
	mine.incarnation = known.writer.incarnation;
	reason = lease_record_read(&mine);
	is_recorded = reason == NULL;
	if (!is_recorded)
		become_new_holder(reason);
	leases_publish(&mine, true);
	has_begun = true;
}

/*
 * Give all leases back.  If the registry cannot be reached, nothing is stored: the record
 * has them as held, like the registry.
 */
static void
end(void)
{
	int	   count;
	Lease *surplus;

	leases_forget_outcome();
	surplus = close_surplus(true, &count);
	if (count == 0)
		return;
	if (registry_connect(&outcome.failure) && give_back(surplus, count))
		(void) store();
	registry_disconnect();
}

/* The way back to minting without a lease takes a restart: see settings.c. */
static void
apply_settings(void)
{
	static bool told = false;

	positions_heed_settings();
	if (settings_leave_registry() && !told)
		ereport(LOG, (errmsg("\"snowflake.registry\" was emptied, which takes "
							 "a restart of this server"),
					  errdetail("Until then this server leases from the "
								"registry that it had.")));
	told = settings_leave_registry();
	leases_forget_outcome(); /* it is about the settings of before */
	due_us = 0;
}

/* --- The worker --------------------------------------------------------- */

/* Sleep until something is to be done, or somebody asks for it. */
static void
wait_for_work(int64 us)
{
	int events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

	if (us >= 0)
		events |= WL_TIMEOUT;
	(void) WaitLatch(MyLatch, events, us / US_PER_MS + 1, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* How long the worker may sleep; -1: until somebody wakes it. */
static int64
time_to_sleep(void)
{
	int64 left_us = due_us - steady_clock_us();

	if (!positions_need_leases())
		return -1;
	if (!has_begun)
		return POLL_US;
	left_us = Max(left_us, 0);
	return has_unopened() ? Min(left_us, POLL_US) : left_us;
}

/* What a session asked for, or is due. */
static void
work(void)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		apply_settings();
	}
	if (!positions_need_leases())
		return;
	if (!has_begun)
	{
		/* who this server is, and what it may have minted, has to be known */
		if (!bounds_are_known())
			return;
		begin();
	}
	if (leases_take_request())
		due_us = Min(due_us, ended_us + MIN_PAUSE_US);
	if (steady_clock_us() >= due_us)
		attempt();
	else if (is_recorded && has_unopened())
		leases_publish(&mine, true);
}

extern PGDLLEXPORT void snowflake_lease_main(Datum arg);

void
snowflake_lease_main(Datum arg)
{
	leases_begin_worker();
	positions_heed_settings();

	while (!ShutdownRequestPending)
	{
		work();
		MemoryContextReset(CurrentMemoryContext);
		wait_for_work(time_to_sleep());
	}
	if (has_begun)
		end();
	/* the server starts it again, unless it stops itself */
	proc_exit(1);
}
