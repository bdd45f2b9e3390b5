/*-------------------------------------------------------------------------
 *
 * lease_worker_cases.c
 *	  All that the worker that leases shards can meet, and what it makes of it.
 *
 * lease_worker_cases() calls the functions of lease_worker.c, with a world of our own
 * around them: see lease_worker_system.h and lease_worker_registry.h.  What each
 * attempt has to do, lease_worker_model.h says.  It compares that with what it does, and
 * returns how much it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "lease_worker_model.h"

PG_MODULE_MAGIC;

/* --- Comparing ---------------------------------------------------------------- */

static void
forget_story(void)
{
	happened.length = expected.length = 0;
	happened.text[0] = expected.text[0] = '\0';
}

static void
check_story(void)
{
	tried++;
	if (strcmp(happened.text, expected.text) != 0)
		elog(ERROR, "%s: it is to do this:\n%sand it did this:\n%s",
			 what_is_tried, expected.text, happened.text);
	forget_story();
}

static void
try_attempt(void)
{
	asked.automatic = world.automatic;
	settings_lease_ms = pauses[lease_case].lease_ms;
	expect_attempt();
	attempt();
	check_story();
	CHECK(!is_connected && activity == NULL);
	CHECK(ended_us == now_us);
	CHECK(due_us ==
		  now_us + USECS_PER_SEC * pauses[lease_case].pause[Min(troubles, 5)]);
}

/* A worker begins, with what is on disk, or with nothing. */
static void
start(void)
{
	memset(&mine, 0, sizeof(mine));
	memset(&outcome, 0, sizeof(outcome));
	memset(&told, 0, sizeof(told));
	has_begun = is_recorded = false;
	is_stored = reason == NULL;
	due_us = ended_us = retry_us = troubles = 0;
	asked_us = answered_us = looks = 0;
	incarnation++;
	known = stored.caller;
	expected_registry = known.registry;
	pending[0] = lost_arguments[0] = '\0';
	if (known.next != 0)
	{
		lost = known;
		strcpy(lost_arguments, last_arguments);
		strcpy(pending, last_arguments);
		has_tried = false;
	}
	for (int i = 0; i < SHARDS; i++)
	{
		model[i] = (Lease){.shard = i, .kind = NO_LEASE};
		is_open[i] = false;
	}
	for (int i = 0; i < stored.count && reason == NULL; i++)
		model[stored.lease[i].shard] = stored.lease[i];
	if (reason != NULL)
	{
		pending[0] = '\0';
		tell_log(&expected, LOG,
				 "this server is a new holder of snowflake leases",
				 psprintf("It is holder new: %s.", reason), NULL);
	}
	expect_publishing(true);
	begin();
	check_story();
	CHECK(has_begun && is_recorded == (reason == NULL));
}

/* With these kinds of leases on disk, each a digit; one more than those is none. */
#define KINDS 64
#define HOLDS_ALL (HELD_HERE + 4 * HELD_HERE + 16 * HELD_HERE)
#define HERE_BUT_1 (HELD_HERE + 4 * NOT_HELD + 16 * HELD_HERE)

static void
start_with(int kinds, uint64 registry)
{
	stored = (LeaseRecord){.lease = stored_lease};
	stored.caller = (LeaseCaller){.holder = 42,
								  .fence = 10,
								  .confirmed = 10,
								  .registry = registry};
	for (int i = 0; i < SHARDS; i++, kinds /= 4)
	{
		if (kinds % 4 <= HELD_FORGOTTEN)
			stored_lease[stored.count++] =
				(Lease){from_of(i), until_of(i), i, kinds % 4};
	}
	start();
}

#define ALL_SHARDS_NAMED 7

/* A case begins in a world in which all goes well. */
static void
begin_case(const char *what, int number)
{
	snprintf(what_is_tried, sizeof(what_is_tried), "%s %d", what, number);
	MemoryContextReset(CurrentMemoryContext);
	lease_case = number % lengthof(pauses);
	now_us += USECS_PER_HOUR;
	world = (World){.named = ALL_SHARDS_NAMED,
					.registry_text = "host=r",
					.connects = true,
					.full_after = 99,
					.failure = REGISTRY_SILENT,
					.registry = 7,
					.now = 5,
					.says = {GRANTS, GRANTS, GRANTS},
					.loses = NOTHING_LOST,
					.behind = NO_SHARD};
}

/* --- The cases ------------------------------------------------------------------ */

/* "auto" for so many, or the names of shards: as bits. */
#define WANTS 11

static void
want(int wants)
{
	world.named = wants < 8 ? wants : 0;
	world.automatic = wants < 8 ? 0 : wants - 7;
}

/* All answers, to a server that holds anything. */
static void
try_answers(void)
{
	static const int wants[] = {ALL_SHARDS_NAMED, 2, 10};
	static const int losses[] = {0, 1, 2, ANY_SHARD, NOTHING_LOST};

	for (int i = 0; i < KINDS * 64 * lengthof(wants) * 2; i++)
	{
		int says = i / KINDS;

		begin_case("answers", i);
		want(wants[i / KINDS / 64 / 2]);
		for (int shard = 0; shard < SHARDS; shard++, says /= 4)
			world.says[shard] = says % 4;
		world.has_none = i / KINDS / 64 % 2;
		world.loses = losses[i % lengthof(losses)];
		world.behind = i % SHARDS;
		world.now = until_of(1) - i % 2; /* the lease of 1 has ended, or not */
		world.registry = 7 + i % 3 % 2;
		start_with(i % KINDS, i % 7 % 2 * 7);
		try_attempt();
	}
}

/* All that it can let go of, and all ways in which this goes on. */
static void
try_surplus(void)
{
	for (int i = 0; i < KINDS * WANTS * 3 * 3 * 5; i++)
	{
		int rest = i / KINDS;

		begin_case("surplus", i);
		want(rest % WANTS);
		rest /= WANTS;
		world.release = rest % 3;
		rest /= 3;
		world.lease[0] = rest % 3;
		rest /= 3;
		world.lease[1] = i % 3;
		world.full_after = rest < 4 ? rest : 99;
		for (int shard = 0; shard < SHARDS; shard++)
			world.end[shard] = (i + shard) % 3;
		start_with(i % KINDS, 7);
		try_attempt();
	}
}

/* All sequences of four attempts are tried, of these kinds. */
enum
{
	GOES_WELL,
	IS_REFUSED,
	IS_CUT_OFF,
	IS_SILENT,
	IS_CLOSED,
	IS_FULL,
	IS_FULL_LATER,
	FINDS_CLONE,
	FINDS_CLONES,
	RELEASES,
	RELEASES_UNHEARD,
	RELEASES_AS_CLONE,
	RESTARTS,
	KINDS_OF_ATTEMPTS
};

static void
try_kind(int kind)
{
	bool releases = kind >= RELEASES && kind <= RELEASES_AS_CLONE;

	world.named = releases ? ALL_SHARDS_NAMED - 4 : ALL_SHARDS_NAMED;
	world.says[2] = releases ? SAYS_NOTHING : GRANTS;
	world.says[1] = kind == IS_REFUSED ? TAKEN : GRANTS;
	world.connects = kind != IS_CUT_OFF;
	world.full_after = kind == IS_FULL ? 0 : kind == IS_FULL_LATER ? 1 : 99;
	world.failure = kind == IS_CLOSED ? REGISTRY_CLOSED : REGISTRY_SILENT;
	world.lease[0] = kind == IS_SILENT || kind == IS_CLOSED		 ? LOST :
					 kind == FINDS_CLONE || kind == FINDS_CLONES ? CLONE :
																   ACCEPTED;
	world.lease[1] = kind == FINDS_CLONES ? CLONE : ACCEPTED;
	world.release = kind == RELEASES_UNHEARD  ? LOST :
					kind == RELEASES_AS_CLONE ? CLONE :
												ACCEPTED;
	if (kind == RESTARTS)
		start();
	try_attempt();

	/* what is on disk at last is published, and nothing else */
	for (int i = 0; i < SHARDS && is_stored; i++)
	{
		if (is_held(i) && !is_open[i])
		{
			expect_publishing(true);
			break;
		}
	}
	now_us++;
	work();
	check_story();
}

static void
try_sequences(void)
{
	const int kinds = KINDS_OF_ATTEMPTS;

	for (int i = 0; i < kinds * kinds * kinds * kinds; i++)
	{
		begin_case("sequence", i);
		start_with(HOLDS_ALL, 7);
		for (int attempt = 0, rest = i; attempt < 4; attempt++, rest /= kinds)
			try_kind(rest % kinds);
	}

	/* many troubles in a row, of both kinds */
	for (int i = 0; i < lengthof(pauses); i++)
	{
		begin_case("pauses", i);
		start_with(HOLDS_ALL, 7);
		for (int n = 1; n <= 30; n++)
			try_kind(n % 15 == 0 ? GOES_WELL :
					 n % 3 == 0	 ? IS_REFUSED :
								   IS_SILENT);
	}
}

/* What is on disk does not count: it is a new holder, of the same registry. */
static void
try_beginning(void)
{
	reason = "its record is old";
	for (int i = 0; i < KINDS; i++)
	{
		begin_case("beginning", i);
		start_with(i, i % 2 * 7);
		try_attempt();
	}
	reason = NULL;
}

/* No registry is set: what is held goes on, and nobody is asked. */
static void
try_without_registry(void)
{
	for (int i = 0; i < KINDS; i++)
	{
		begin_case("no registry", i);
		world.registry_text = "";
		start_with(i, 7);
		try_attempt();
		CHECK(calls == 0);
	}
}

/* --- The end ---------------------------------------------------------------------- */

/* All is closed; then it is given back, if the registry answers. */
static void
try_end(void)
{
	for (int i = 0; i < KINDS * 3 * 2 * 3 * 3; i++)
	{
		int			 rest = i / KINDS;
		Lease		 back[SHARDS];
		int			 count;
		LeaseOutcome before;
		int			 shard;

		begin_case("end", i);
		world.release = rest % 3;
		rest /= 3;
		world.connects = rest % 2;
		rest /= 2;
		world.full_after = rest % 3 == 2 ? 99 : rest % 3;
		for (shard = 0; shard < SHARDS; shard++)
			world.end[shard] = (i + rest / 3 + shard) % 3;
		start_with(i % KINDS, 7);
		before = told;
		shutdown_pending = true;
		forgotten = calls = expected_calls = 0;
		count = expect_closing(true, back);
		if (count > 0 && world.connects && expect_release(back, count))
			(void) expect_storing();
		told = before; /* nobody is told how the last call ended */
		end();
		check_story();
		CHECK(forgotten == 1 && !is_connected);
		for (shard = 0; shard < SHARDS; shard++)
			CHECK(!is_open[shard]);

		/* what was answered is not asked again by the next worker */
		CHECK(calls == 0 || world.release == LOST || world.full_after == 1 ||
			  (stored.caller.next == 0 && stored.caller.fence == known.fence));
	}
	shutdown_pending = false;
}

/* --- Settings ---------------------------------------------------------------------- */

/* That the registry was emptied is logged once; all else holds at each reload. */
static void
try_settings(void)
{
	bool left = false;

	for (int i = 0; i < 64; i++)
	{
		leave_registry = i % 5 < 2; /* the first time, too */
		want_leases = i >= 32;
		need_leases = i % 8 == 5;
		heeded = forgotten = 0;
		due_us = 1;
		apply_settings();
		if (leave_registry && !left)
			tell_log(&expected, LOG,
					 "\"snowflake.registry\" was emptied, which takes a "
					 "restart of this server",
					 "Until then this server leases from the registry that "
					 "it had.",
					 NULL);
		check_story();
		left = leave_registry;
		CHECK(heeded == 1 && forgotten == 1 && due_us <= 0);
	}
	leave_registry = want_leases = false;
	need_leases = true;
}

/* --- When it works, and how long it sleeps ------------------------------------------ */

/* So long it may sleep; -1: until somebody wakes it. */
static int64
expected_sleep(bool begun, bool unopened, int64 due_in)
{
	if (!need_leases)
		return -1;
	if (!begun || (unopened && due_in > 20000))
		return 20000;
	return due_in > 0 ? due_in : 0;
}

/* It calls when that is due, and it publishes what has begun. */
static void
try_work(void)
{
	static const int64 dues[] = {-1, 0, 1, 19999, 20001, 5000000};

	for (int i = 0; i < 128 * lengthof(dues) * 3; i++)
	{
		bool  unopened = i & 1;
		bool  recorded = i & 2;
		bool  begun = i & 4;
		bool  request = i & 8;
		bool  reload = i & 16;
		int64 due_in = dues[i / 128 % lengthof(dues)];
		int64 ended_ago = USECS_PER_SEC + 1 - i / 128 / lengthof(dues);
		bool  works;
		bool  attempts;
		bool  publishes;

		begin_case("work", i);
		settings_lease_ms = 10000;
		has_begun_to_hold[2] = !unopened;
		start_with(HERE_BUT_1, 7);
		has_begun_to_hold[2] = true;
		need_leases = i & 32;
		are_known = i & 64;
		due_us = now_us + due_in;
		ended_us = now_us - ended_ago;
		has_begun = begun;
		is_recorded = recorded;
		has_request = request;
		reload_pending = reload;
		reloads = calls = lease_calls = 0;
		CHECK(time_to_sleep() == expected_sleep(begun, unopened, due_in));

		/* what a worker finds on disk when it begins is recorded */
		works = need_leases && (begun || are_known);
		attempts = works && (reload || due_in <= 0 ||
							 (request && ended_ago >= USECS_PER_SEC));
		publishes = works && (!begun || attempts || (recorded && unopened));
		work();
		CHECK(reloads == reload && !reload_pending);
		CHECK(has_request == (request && !works));
		CHECK(has_begun == (begun || works));
		CHECK((calls > 0) == attempts);
		CHECK((strstr(happened.text, "publishes") != NULL) == publishes);

		if (attempts)
			due_in = 5 * USECS_PER_SEC;
		else if (reload)
			due_in = 0;
		else if (request && works)
			due_in = Min(due_in, USECS_PER_SEC - ended_ago);
		CHECK(time_to_sleep() ==
			  expected_sleep(has_begun, unopened && !publishes, due_in));
		forget_story();
	}
	need_leases = are_known = true;
}

static void
check_wait(int64 us)
{
	CHECK((wait_events & WL_LATCH_SET) && (wait_events & WL_EXIT_ON_PM_DEATH));
	CHECK(((wait_events & WL_TIMEOUT) != 0) == (us >= 0));

	/* its time has come when it wakes, and not much longer ago */
	CHECK(us < 0 || (wait_ms * 1000 >= us && wait_ms * 1000 <= us + 1000));
}

static void
try_waiting(void)
{
	for (int us = -1; us < 5000; us++)
	{
		waits = resets = interrupts = 0;
		wait_for_work(us);
		CHECK(waits == 1 && resets == 1 && interrupts == 1);
		check_wait(us);
	}
}

/* --- From the start of the worker to its end ------------------------------------------ */

static int loops;

/* It sleeps: it has no memory, and it is told to work on, or to end. */
static void
after_wait(void)
{
	if (begun_workers == 0)
		return;
	CHECK(MemoryContextIsEmpty(CurrentMemoryContext));
	CHECK(heeded == 1 && begun_workers == 1);
	CHECK(waits <= loops);
	check_wait(expected_sleep(has_begun, false, due_us - now_us));
	shutdown_pending = waits == loops;
	now_us += wait_ms * 1000;
}

static void
try_main(void)
{
	MemoryContext context = CurrentMemoryContext;
	MemoryContext of_worker =
		AllocSetContextCreate(MemoryContextGetParent(context), "worker",
							  ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < 4 * 4; i++)
	{
		volatile int code = -1;

		loops = i / 4;
		want_leases = i & 1;
		are_known = i & 2;
		begin_case("main", i);
		settings_lease_ms = pauses[lease_case].lease_ms;
		start_with(HOLDS_ALL, 7);
		has_begun = need_leases = false;
		due_us = 0;
		shutdown_pending = loops == 0;
		heeded = begun_workers = waits = resets = looks = forgotten = 0;
		calls = lease_calls = 0;
		MemoryContextSwitchTo(of_worker);
		code = sigsetjmp(exits, 1);
		if (code == 0)
		{
			snowflake_lease_main(0);
			code = -1;
		}
		MemoryContextSwitchTo(context);
		CHECK(code == 2); /* with 1, so that the server starts it again */
		CHECK(begun_workers == 1 && waits == loops && resets == loops);
		CHECK(has_begun == (want_leases && are_known && loops > 0));
		CHECK(forgotten == has_begun);
		CHECK((strstr(happened.text, "gives back") != NULL) == has_begun);
		forget_story();
	}
	begun_workers = 0;
	shutdown_pending = false;
}

PG_FUNCTION_INFO_V1(lease_worker_cases);
Datum
lease_worker_cases(PG_FUNCTION_ARGS)
{
	emit_log_hook_type hook = emit_log_hook;
	MemoryContext	   context =
		AllocSetContextCreate(CurrentMemoryContext, "cases",
							  ALLOCSET_DEFAULT_SIZES);

	tried = 0;
	emit_log_hook = hear_log;
	for (int i = 0; i < SHARDS; i++)
		has_begun_to_hold[i] = true;
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		try_settings();
		try_answers();
		try_surplus();
		try_sequences();
		try_beginning();
		try_without_registry();
		try_end();
		try_work();
		try_waiting();
		try_main();
	}
	PG_FINALLY();
	{
		emit_log_hook = hook;
	}
	PG_END_TRY();
	PG_RETURN_INT64(tried);
}
