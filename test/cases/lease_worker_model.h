/*-------------------------------------------------------------------------
 *
 * lease_worker_model.h
 *	  What the worker that leases shards has to do, for lease_worker_cases.c: by the head of
 *	  lease_worker.c, and shard by shard.
 *
 * It is written down in "expected", line by line.
 *
 *-------------------------------------------------------------------------
 */
#include "lease_worker_registry.h"

#define NO_LEASE (-1)

/* What its record has to have, by shard; the kind can be NO_LEASE. */
static Lease model[SHARDS];

static LeaseOutcome told;			   /* at the end of the last attempt */
static char			pending[2000];	   /* the call to repeat; empty: none */
static int			expected_calls;	   /* so far, in this attempt */
static uint64		expected_registry; /* which answered last; 0: none */
static bool			is_stored;		   /* the last time it was to be */
static int troubles; /* attempts in a row that failed or were refused */

static bool
is_held(int shard)
{
	return model[shard].kind == HELD_HERE ||
		   model[shard].kind == HELD_FORGOTTEN;
}

/* Those of the model that are there, or of one kind. */
static int
list_model(Lease *lease, int kind)
{
	int count = 0;

	for (int i = 0; i < SHARDS; i++)
	{
		if (kind == NO_LEASE ? model[i].kind != NO_LEASE :
							   model[i].kind == kind)
			lease[count++] = model[i];
	}
	return count;
}

static char *
held_text(void)
{
	int32 shard[SHARDS];
	int	  count = 0;

	for (int i = 0; i < SHARDS; i++)
	{
		if (is_held(i))
			shard[count++] = i;
	}
	return leases_text(shard, count);
}

static void
expect_publishing(bool on_disk)
{
	Lease lease[SHARDS];
	int	  count = list_model(lease, NO_LEASE);

	tell_leases(&expected,
				on_disk && held_text()[0] ? "publishes, on disk" : "publishes",
				lease, count, false);
}

static bool
expect_failure(RegistryFailureKind kind, const char *text)
{
	fails_with(&told.failure, kind);
	if (text != NULL)
		strcpy(told.failure.text, text);
	return false;
}

static bool
expect_storing(void)
{
	Lease lease[SHARDS];

	is_stored = expected_calls < world.full_after;
	if (!is_stored)
	{
		tell(&expected, "does not store\n");
		return expect_failure(REGISTRY_UNSTORED, "the disk is full");
	}
	tell_leases(&expected, "stores", lease, list_model(lease, NO_LEASE), true);
	return true;
}

/* A call, and before it a store, unless it is the very same again. */
static bool
expect_call(const char *arguments, Reply reply)
{
	if (strcmp(arguments, pending) != 0)
	{
		pending[0] = '\0';
		if (!expect_storing())
			return false;
	}
	tell(&expected, "%s\n", arguments);
	expected_calls++;
	strcpy(pending, reply == LOST ? arguments : "");
	return reply != LOST || expect_failure(world.failure, NULL);
}

static void
expect_loss(const Lease *lease, const char *what)
{
	tell_loss(&expected, lease, what);
	tell_log(&expected, WARNING,
			 "the registry of snowflake shards has lost what it told this "
			 "server",
			 lease->shard == ANY_SHARD ?
				 psprintf("The registry says: %s.", what) :
				 psprintf("Shard %d, leased from %lld until %lld: %s.",
						  lease->shard, (long long) lease->from,
						  (long long) lease->until, what),
			 LEASE_LOSS_HINT);
}

static void
expect_acceptance(void)
{
	Lease lost_lease = {1, 2, world.loses};

	if (expected_registry != 0 && expected_registry != world.registry)
		tell_log(&expected, LOG,
				 "another registry leases snowflake shards to this server",
				 "Leases of the registry before are not renewed.", NULL);
	expected_registry = world.registry;
	if (world.loses != NOTHING_LOST)
		expect_loss(&lost_lease, "it was reset");
}

/* It closes what is not wanted; gives which shards it is to give back. */
static int
expect_closing(bool all, Lease *back)
{
	int rank = 0;
	int count = 0;

	for (int i = 0; i < SHARDS; i++)
	{
		TimestampTz ends[] = {model[i].from, model[i].from + 50000,
							  model[i].until};

		if (!is_held(i) || (rank++ < world.automatic && !all) ||
			((world.named & 1 << i) && !all))
			continue;
		tell(&expected, "closes %d\n", i);
		model[i].until = ends[world.end[i]];
		if (model[i].kind == HELD_HERE)
			back[count++] = model[i];
		model[i].kind = NOT_HELD;
	}
	expect_publishing(false);
	return count;
}

/* It gives leases back; as the registry answers, it goes on. */
static bool
expect_release(const Lease *back, int count)
{
	if (!expect_call(arguments_of("gives back", back, count, NULL, 0),
					 world.release))
		return false;
	if (world.release == CLONE)
		return true;
	expect_acceptance();
	tell_log(&expected, LOG,
			 psprintf("this server has given back %d leased snowflake shards",
					  count),
			 NULL, NULL);
	return true;
}

/* What watchers are told of the answer: who lacks which shard that it wants. */
static void
expect_refusals(void)
{
	told.answered_at = world.now;
	told.refusals = 0;
	if (world.has_none)
		told.refusal[told.refusals++] =
			(Refusal){REFUSED_EXHAUSTED, ANY_SHARD, 0, "nobody"};
	for (int i = 0; i < SHARDS; i++)
	{
		if ((world.says[i] == TAKEN || world.says[i] == FENCED) &&
			((world.named & 1 << i) || is_held(i)))
			told.refusal[told.refusals++] =
				(Refusal){world.says[i] == TAKEN ? REFUSED_TAKEN :
												   REFUSED_FENCED,
						  i, 0, "server X"};
	}
}

/* What it has after an answer. */
static void
expect_leases(void)
{
	bool grants = false;

	for (int i = 0; i < SHARDS; i++)
	{
		grants |= world.says[i] == GRANTS;
		if (model[i].kind == NO_LEASE)
			continue;
		if (world.says[i] != TAKEN)
		{
			if (is_held(i))
				model[i].kind = HELD_FORGOTTEN;
			continue;
		}
		if (is_held(i) && world.now < model[i].until && world.loses != i)
			expect_loss(&model[i], "server X has it");
		model[i].kind = NOT_HELD;
		model[i].until = model[i].from;
	}
	for (int i = 0; i < SHARDS && grants; i++)
		model[i] = (Lease){from_of(i), until_of(i) + 1000, i,
						   world.says[i] == GRANTS ? HELD_HERE : NO_LEASE};
}

static bool
expect_leasing(void)
{
	for (int call = 0;; call++)
	{
		Lease claims[SHARDS];
		Lease all[SHARDS];
		int	  nclaims = list_model(claims, HELD_HERE);
		int	  nall = list_model(all, NO_LEASE);
		Reply reply = world.lease[call];
		char *arguments = arguments_of("leases", claims, nclaims, all, nall);

		if (!expect_call(arguments, reply))
			return false;
		if (reply == ACCEPTED)
			break;
		told.answered_at = world.now;
		if (call == 1)
		{
			strcpy(pending, arguments);
			return expect_failure(REGISTRY_INVALID, INVALID_ANSWER
								  "it knows a holder that has just begun");
		}
		for (int i = 0; i < SHARDS; i++)
			model[i].kind = NO_LEASE;
		tell_log(&expected, LOG,
				 "this server is a new holder of snowflake leases",
				 "It is holder new: a clone also calls in the name of the "
				 "holder before.",
				 NULL);
		expect_publishing(true);
	}
	expect_refusals();
	expect_acceptance();
	expect_leases();
	tell(&expected, "notes what is reserved\n");
	return expect_storing();
}

static bool
expect_calls(void)
{
	Lease back[SHARDS];
	int	  count = expect_closing(false, back);

	return (world.connects || expect_failure(REGISTRY_AWAY, NULL)) &&
		   (count == 0 || expect_release(back, count)) && expect_leasing();
}

/* In the log there is what changed. */
static void
expect_log(const char *held_before, const LeaseOutcome *before)
{
	const RegistryFailure *failure = &told.failure;
	bool				   failed_before = before->failure.kind != 0;

	if (strcmp(held_before, held_text()) != 0)
		tell_log(&expected, LOG,
				 psprintf("this server has leased snowflake shards \"%s\"",
						  held_text()),
				 psprintf("Before, it had \"%s\".", held_before), NULL);
	if (failure->kind == REGISTRY_ANSWERED && failed_before)
		tell_log(&expected, LOG,
				 "the registry of snowflake shards answers again", NULL, NULL);
	if (failure->kind != REGISTRY_ANSWERED &&
		!(failed_before && strcmp(failure->text, before->failure.text) == 0))
		tell_log(&expected, LOG,
				 psprintf("could not lease snowflake shards: %s",
						  failure->text),
				 NULL, failure->hint[0] ? failure->hint : NULL);
	if (before->refusals > 0 && told.refusals == 0)
		tell_log(&expected, LOG,
				 "the registry leases all snowflake shards that this server "
				 "wants",
				 NULL, NULL);
	else if (before->refusals != told.refusals)
		tell_log(&expected, LOG,
				 psprintf("the registry refuses %d of the snowflake shards "
						  "that this server wants",
						  told.refusals),
				 NULL, "See snowflake_leases().");
}

/* The pause in seconds after a success, and after the troubles in a row. */
static const struct
{
	int lease_ms;
	int pause[6];
} pauses[] = {{10000, {5, 1, 1, 1, 1, 1}},
			  {60000, {30, 1, 2, 3, 3, 3}},
			  {3600000, {1800, 1, 2, 4, 8, 10}}};

static int lease_case;

static void
expect_attempt(void)
{
	LeaseOutcome before = told;
	char		*held_before = held_text();

	expected_calls = calls = lease_calls = 0;
	told.failure.kind = REGISTRY_ANSWERED;
	if (world.registry_text[0] == '\0' || expect_calls())
		expect_publishing(true);
	expect_log(held_before, &before);
	tell_outcome(&expected, &told);
	if (told.failure.kind != REGISTRY_ANSWERED || told.refusals > 0)
		troubles++;
	else
		troubles = 0;
}
