/*-------------------------------------------------------------------------
 *
 * horizon_sessions_cases.c
 *	  What sessions ask of the horizon, and what the postmaster does with it.
 *
 * horizon_sessions_cases() calls the functions of horizon.c that are not the worker's.
 * It compares each outcome with what their comments say, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "horizon_server.h"

PG_MODULE_MAGIC;

/* --- Sessions ---------------------------------------------------------------------- */

static void
set_view(bool failed, HorizonWaitsFor waits_for)
{
	LWLockAcquire(horizon_lock, LW_EXCLUSIVE);
	state->view.failed = failed;
	state->view.waits_for = waits_for;
	strlcpy(state->view.trouble.reason, "the disk is full", 256);
	LWLockRelease(horizon_lock);
}

/* What a call raises; "" if nothing. */
static const char *
error_of(void (*call)(void))
{
	const char *message = message_of(call);

	check_promises();
	return message;
}

/* Readers wake the worker once, and now and then. */
static void
try_readers(void)
{
	for (int i = 0; i < 5 * 5 * 4; i++)
	{
		int64 first = i % 5 - 2;
		int64 tick = i / 5 % 5 - 1;
		int64 since = (int64[]){0, 99999, 100000, 100001}[i / 25];
		bool  wakes_it = first == WANTED_BY_NOBODY || since >= 100000;

		begin();
		bounds_raise(&state->readers_tick, first);
		woken_us = steady_us - since;
		ask_for_readers(tick);
		CHECK(wakes == wakes_it);
		CHECK(bound_of(&state->readers_tick) == Max(first, tick));
		CHECK(bound_of(&state->wanted_tick) == WANTED_BY_NOBODY);
		ask_for_readers(tick);
		CHECK(wakes == wakes_it + (tick == WANTED_BY_NOBODY));
		check_promises();
	}
}

static WorkerWait a_wait;

static void
wait_for_it(void)
{
	horizon_wait(&a_wait, 7);
}

/* Who waits is told of what fails meanwhile, and not of what had failed. */
static void
try_waiting(void)
{
	for (int i = 0; i < 4; i++)
	{
		bool fails_now = i == 3;

		begin();
		pg_atomic_write_u64(&state->worker.attempts, 3);
		set_view(i & 1, WAITS_FOR_NOTHING);
		memset(&a_wait, 0, sizeof(a_wait));
		CHECK(error_of(wait_for_it)[0] == '\0');
		CHECK(waits == 0 && wakes == 0 && is_wanted_by_nobody());
		pg_atomic_write_u64(&state->worker.attempts, 3 + i / 2);
		CHECK(strcmp(error_of(wait_for_it),
					 fails_now ? "the disk is full" : "") == 0);
		CHECK(waits == !fails_now && wakes == !fails_now);
		CHECK(bound_of(&state->wanted_tick) ==
			  (fails_now ? WANTED_BY_NOBODY : 7));
	}
}

static int64 its_renew;

static void
renew_at_second_wait(void)
{
	if (waits == 2)
		pg_atomic_write_u64(&bounds->renew, its_renew);
}

/*
 * It is the present tick, or where the next renewal is due, and that is asked for.  Where
 * nobody mints, nothing is done.
 */
static void
try_present_tick(void)
{
	int64 last = layout.last_mint_tick;
	int64 renews[] = {1, 5, 6, 7, 100, last - 1, last, last + 1};

	for (int i = 0; i < lengthof(renews) * 2 * 3 * 8 * 2; i++)
	{
		int64 renew = renews[i % 8];
		bool  waits_for_it = i / 8 % 2;
		int64 latest = i / 16 % 3 * 5;
		int64 present =
			(int64[]){-1, 0, 1, 6, 100, last - 1, last, last + 1}[i / 48 % 8];
		bool is_minted_in = present > 0 && present <= last;

		snprintf(what_is_tried, sizeof(what_is_tried), "present tick %d", i);
		begin();
		wall_us = time_of(present) + (i / 384 ? layout.tick_us - 1 : 0);
		woken_us = steady_us - USECS_PER_SEC;
		its_renew = renew;
		when_waited = renew_at_second_wait;
		pg_atomic_write_u64(&bounds->latest, latest);
		pg_atomic_write_u64(&bounds->renew, waits_for_it ? 0 : renew);
		CHECK(error_of(horizon_begin_present_tick)[0] == '\0');
		CHECK(!is_prepared);
		CHECK(waits == (waits_for_it && is_minted_in ? 2 : 0));
		CHECK(bound_of(&bounds->latest) ==
			  (is_minted_in ? Max(latest, Min(present, renew)) : latest));
		CHECK(bound_of(&state->readers_tick) ==
			  (is_minted_in && present >= renew ? present : WANTED_BY_NOBODY));
		CHECK(bound_of(&state->wanted_tick) ==
			  (waits > 0 ? present : WANTED_BY_NOBODY));
		when_waited = NULL;
	}
}

static bool is_patient;
static int	answers_at; /* which wait; with a failure, or not */
static bool answer_fails;
static int	shows_at;

static void
check_it(void)
{
	horizon_check(is_patient);
}

static void
answer(void)
{
	if (waits == shows_at)
		set_view(state->view.failed, WAITS_FOR_DISK);
	if (waits != answers_at)
		return;
	set_view(answer_fails, state->view.waits_for);
	pg_atomic_fetch_add_u64(&state->worker.attempts, 1);
}

/* Whoever only looks waits for the answer, for five seconds, and for no disk. */
static void
try_check(void)
{
	for (int i = 0; i < 2 * 2 * 2 * 2 * 3 * 5 * 9 * 2 * 2; i++)
	{
		bool			failed = i & 1;
		bool			is_known = i & 2;
		bool			has_worker = i & 4;
		HorizonWaitsFor waits_for = i / 16 % 3;
		int64			last = layout.last_mint_tick;
		int64 present = (int64[]){-1, 0, 1, last, last + 1}[i / 48 % 5];
		bool  looks;
		int	  waits_for_it = 6;
		bool  is_silent;
		bool  is_told;

		snprintf(what_is_tried, sizeof(what_is_tried), "check %d", i);
		is_patient = i & 8;
		answers_at = i / 240 % 9;
		answer_fails = i / 2160 % 2;
		shows_at = i / 4320 ? 3 : 0;
		looks = is_patient && has_worker;
		begin();
		wall_us = time_of(present);
		set_view(failed, waits_for);
		pg_atomic_write_u32(&bounds->are_known, is_known);
		pg_atomic_write_u64(&state->worker.attempts, 3);
		state->worker.latch = has_worker ? &latch : NULL;
		when_waited = answer;

		if (answers_at > 0)
			waits_for_it = Min(waits_for_it, answers_at);
		if (shows_at > 0)
			waits_for_it = Min(waits_for_it, shows_at);
		if (!looks || waits_for != WAITS_FOR_NOTHING)
			waits_for_it = 0;
		is_silent = looks && waits_for_it == 6 && answers_at != 6;
		is_told = !is_patient ? failed :
								answers_at > 0 && waits_for_it == answers_at &&
									answer_fails;
		CHECK(strcmp(error_of(check_it),
					 is_silent ? "snowflake's background worker has not "
								 "answered for 6000000 us" :
					 is_told   ? "the disk is full" :
								 "") == 0);
		CHECK(waits == waits_for_it);
		CHECK(is_silent || !is_prepared);
		CHECK(wakes == looks);
		CHECK(bound_of(&state->wanted_tick) ==
			  (!looks ? WANTED_BY_NOBODY :
			   failed && is_known && present > 0 && present <= last ?
						present :
						HORIZON_OPEN_ONLY));
		is_prepared = false;
		when_waited = NULL;
	}
}

/* --- The start and the end ----------------------------------------------------------- */

static void
try_start(void)
{
	static const HorizonView none;

	for (int i = 0; i < 4; i++)
	{
		HorizonView view;

		under_postmaster = i & 1;
		begin();
		CHECK((at_exit == NULL) == under_postmaster);
		horizon_view(&view);
		CHECK(memcmp(&view, &none, sizeof(none)) == 0);
		CHECK(is_wanted_by_nobody() && take_wanted_tick() == WANTED_BY_NOBODY);
		state->worker.latch = NULL;
		checks = 0;
		horizon_check_worker(i & 2);
		CHECK(checks == (i & 2 ? 10 : 1));

		/* another process finds it as it is */
		set_view(true, WAITS_FOR_STANDBY);
		horizon_ask_for_renewal(7);
		is_there = true;
		state = NULL;
		at_exit = NULL;
		horizon_shmem_startup();
		is_there = false;
		CHECK(at_exit == NULL);
		horizon_view(&view);
		CHECK(view.failed && view.waits_for == WAITS_FOR_STANDBY);
		CHECK(strcmp(view.trouble.reason, "the disk is full") == 0);
		CHECK(take_wanted_tick() == 7 && is_wanted_by_nobody());
	}
	under_postmaster = false;
	CHECK(horizon_shmem_size() == sizeof(HorizonState));
}

/* The record ends with the latest tick; but none is written that nobody had renewed. */
static void
try_close(void)
{
	for (int i = 0; i < 2 * 2 * 2 * 3; i++)
	{
		bool  is_clean = i & 1;
		bool  was_renewed = i & 2;
		bool  is_full = i & 4;
		int64 latest = 1000 + i / 8;
		bool  writes_it = is_clean && was_renewed;

		begin();
		reason = "a disk is full";
		failing = is_full ? WRITING_HORIZON : NOTHING;
		as_error = false;
		pg_atomic_write_u64(&bounds->latest, latest);
		pg_atomic_write_u64(&bounds->found_horizon, 900);
		pg_atomic_write_u64(&bounds->renew, was_renewed ? 1001 : 900);
		at_exit(is_clean ? 0 : 1, (Datum) 0);
		CHECK(writes[HORIZON_RECORD] == (writes_it && !is_full));
		CHECK(reports == (writes_it && is_full));
		if (writes[HORIZON_RECORD])
			CHECK(on_disk[HORIZON_RECORD] == time_of(latest) + layout.tick_us);
		check_promises();
	}
}

PG_FUNCTION_INFO_V1(horizon_sessions_cases);
Datum
horizon_sessions_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	for (int i = 0; i < lengthof(layouts); i++)
	{
		begin_with(layouts[i]);
		try_start();
		try_close();
		try_readers();
		try_waiting();
		try_present_tick();
		try_check();
	}
	PG_RETURN_INT64(tried);
}
