/*-------------------------------------------------------------------------
 *
 * lease_worker_registry.h
 *	  The registry that lease_worker.c calls, for lease_worker_cases.c.
 *
 * It answers what the world says.  Of each call it looks whether that is stored, and at the
 * numbers that it presents.
 *
 *-------------------------------------------------------------------------
 */
#include "lease_worker_system.h"

bool
registry_connect(RegistryFailure *failure)
{
	CHECK(!is_connected);
	is_connected = true;
	return world.connects || fails_with(failure, REGISTRY_AWAY);
}

void
registry_disconnect(void)
{
	is_connected = false;
}

bool
registry_fail(RegistryFailure *failure, RegistryFailureKind kind,
			  const char *format, ...)
{
	va_list arguments;

	*failure = (RegistryFailure){.kind = kind};
	va_start(arguments, format);
	vsnprintf(failure->text, sizeof(failure->text), format, arguments);
	va_end(arguments);
	return false;
}

/* A call in words. */
static char *
arguments_of(const char *what, const Lease *one, int n, const Lease *other,
			 int nother)
{
	Story story;

	story.length = 0;
	tell_leases(&story, what, one, n, true);
	tell_leases(&story, "of", other, nother, true);
	tell(&story, "wants %d %d", world.named, world.automatic);
	return pstrdup(story.text);
}

char *
registry_lease_arguments(const Lease *held, int nheld, const Lease *known,
						 int nknown)
{
	return arguments_of("leases", held, nheld, known, nknown);
}

char *
registry_release_arguments(const Lease *leases, int nleases)
{
	return arguments_of("gives back", leases, nleases, NULL, 0);
}

/*
 * It is on disk before it is presented.  The very same call has the same numbers, until
 * another one is tried; any other call presents the fence that the lost one proposed.
 */
static void
check_caller(const LeaseCaller *caller, const char *arguments)
{
	CHECK(memcmp(&stored.caller, caller, sizeof(*caller)) == 0);
	CHECK(caller->holder == known.holder);
	CHECK(caller->registry == known.registry);
	CHECK(caller->confirmed == known.confirmed);
	CHECK(caller->next > caller->fence);
	if (lost_arguments[0] == '\0')
		CHECK(caller->fence == known.fence);
	else if (has_tried)
		CHECK(caller->fence == lost.next);
	else
		CHECK(caller->fence == lost.fence && caller->next == lost.next &&
			  strcmp(arguments, lost_arguments) == 0);
}

/* What is behind the end of a list says something else than any answer. */
static void
fill_answer(RegistryAnswer *answer)
{
	static Lease granted[SHARDS];

	memset(answer, 0x55, offsetof(RegistryAnswer, refusal));
	answer->is_clone = false;
	answer->registry = world.registry;
	answer->now = world.now;
	answer->held = answer->refusals = answer->losses = 0;
	answer->lease = granted;
	answer->reserved = set_aside;
	if (world.has_none)
		answer->refusal[answer->refusals++] =
			(Refusal){REFUSED_EXHAUSTED, ANY_SHARD, DT_NOEND, "nobody"};
	for (int i = 0; i < SHARDS; i++)
	{
		if (world.says[i] == GRANTS)
			granted[answer->held++] =
				(Lease){from_of(i), until_of(i) + 1000, i, HELD_HERE};
		else if (world.says[i] != SAYS_NOTHING)
			answer->refusal[answer->refusals++] =
				(Refusal){world.says[i] == TAKEN ? REFUSED_TAKEN :
												   REFUSED_FENCED,
						  i, DT_NOEND, "server X"};
	}
	if (world.loses != NOTHING_LOST)
		answer->loss[answer->losses++] =
			(LeaseLoss){{1, 2, world.loses, NOT_HELD}, "it was reset"};
	answer->refusal[answer->refusals] =
		(Refusal){REFUSED_TAKEN, world.behind, DT_NOEND, "no answer"};
	answer->loss[answer->losses] =
		(LeaseLoss){{1, 2, world.behind, NOT_HELD}, "no answer"};
}

bool
registry_call(const char *function, const LeaseCaller *caller,
			  const char *arguments, RegistryAnswer *answer,
			  RegistryFailure *failure)
{
	bool  is_release = arguments[0] == 'g';
	Reply reply =
		is_release ? world.release : world.lease[Min(lease_calls, 1)];

	CHECK(is_connected);
	CHECK((activity == NULL) == shutdown_pending);
	CHECK(activity == NULL || strcmp(activity, "leasing shards") == 0);
	CHECK(strcmp(function, is_release ? "snowflake_registry_release" :
										"snowflake_registry_lease") == 0);
	CHECK(++calls < 5);
	check_caller(caller, arguments);

	/* what is given back is closed, and on disk it is given back */
	for (int i = 0; i < SHARDS; i++)
		CHECK(!is_open[i] || lease_record_holds(&mine, i));
	CHECK(!is_release || is_same_held(&stored, &mine));
	tell(&happened, "%s\n", arguments);
	strlcpy(last_arguments, arguments, sizeof(last_arguments));
	fill_answer(answer);
	if (!is_release && reply != LOST)
	{
		asked_us = now_us;
		answered_us = now_us + 30;
	}
	now_us += 30;
	if (reply == CLONE)
	{
		answer->is_clone = true;
		answer->registry = answer->held = answer->refusals = 0;
		strcpy(answer->clone, "a clone");
	}
	/* a holder that has just begun can have no clone: that is no answer */
	if (reply == LOST || (reply == CLONE && !is_release && lease_calls++ > 0))
	{
		lost = *caller;
		strlcpy(lost_arguments, arguments, sizeof(lost_arguments));
		has_tried = false;
		return reply == CLONE || fails_with(failure, world.failure);
	}
	lost_arguments[0] = '\0';
	if (reply == CLONE)
	{
		known.fence = caller->fence; /* the next call presents the same */
		return true;
	}
	known.fence = known.confirmed = caller->next;
	known.registry = world.registry;
	return true;
}
