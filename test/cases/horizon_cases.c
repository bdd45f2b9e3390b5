/*-------------------------------------------------------------------------
 *
 * horizon_cases.c
 *	  The horizon in all states of its server, its disk, its standbys and its clock.
 *
 * horizon_cases() calls the functions of horizon.c, with a system of our own below them
 * that fails, or takes its time, as it is told to.  It compares each outcome with what
 * the head of horizon.c says, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "horizon_server.h"

PG_MODULE_MAGIC;

static MemoryContext worker_memory;

/* Of the ticks that are minted in and the one after them, the first not before a time. */
static int64
first_tick(TimestampTz time)
{
	int64 low = 0;
	int64 high = layout.last_mint_tick + 1;

	while (low < high)
	{
		int64 middle = (low + high) / 2;

		if (time_of(middle) < time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* One attempt, which leaves nothing behind. */
static bool
attempt(int64 wanted_tick)
{
	uint64		  attempts = pg_atomic_read_u64(&state->worker.attempts);
	MemoryContext before = MemoryContextSwitchTo(worker_memory);
	bool		  good;

	stats_sent = 0;
	(void) palloc(100);
	good = attempt_renewal(wanted_tick);
	CHECK(CurrentMemoryContext == worker_memory);
	CHECK(MemoryContextIsEmpty(worker_memory));
	MemoryContextSwitchTo(before);
	CHECK(held == NULL && !in_transaction && !in_insertion);
	CHECK(!is_running && stats_sent == 1);
	CHECK(state->view.failed == !good);
	CHECK(state->view.waits_for == WAITS_FOR_NOTHING);
	CHECK(pg_atomic_read_u64(&state->worker.attempts) == attempts + 1);
	check_promises();
	return good;
}

/* --- Renewals ------------------------------------------------------------------ */

#define MINUTE_US INT64CONST(60000000)

/* Renew the horizon, and take so long; gives how long it took. */
static int64
renew_in(int64 us)
{
	int64		began_us = steady_us;
	TimestampTz before = known;

	write_takes_us = us / 3;
	standby_takes_us = us - us / 3;
	if (us >= MINUTE_US) /* not to a poll more */
	{
		write_takes_us = us;
		standby_takes_us = 0;
	}
	CHECK(attempt(first_tick(known) + 1));
	CHECK(steady_us >= began_us + us && known > before);
	us = steady_us - began_us;
	write_takes_us = standby_takes_us = 0;
	return us;
}

/* As the last one, but beyond a minute as the shorter one of two. */
static int64
expected_renewal(int64 before_us, int64 last_us)
{
	if (last_us <= MINUTE_US || last_us <= before_us)
		return last_us;
	return before_us <= MINUTE_US ? MINUTE_US : before_us;
}

#define ITS_TIME_US 7000

/*
 * Who wants a tick gets a horizon that is "reserve" and three renewals ahead.  The next one
 * is due half of the reserve and two renewals before that: as long as this one has taken,
 * if it stores anything.
 */
static void
try_renewal_of(int64 wanted, int64 from_renew, int64 from_latest,
			   int from_known, int64 expected)
{
	int64 reserve = settings_reserve_ms * INT64CONST(1000);
	int64 latest = wanted - from_latest;
	int64 renew = wanted - from_renew;
	int64 tick = first_tick(time_of(Max(wanted, latest)) + reserve + expected +
							expected + expected);
	TimestampTz horizon = time_of(tick);
	bool		is_due = wanted >= renew;
	bool		is_stored;
	int64		due;
	TimestampTz renewed_at = state->view.renewed_at;

	known = horizon + (from_known == 0	? 0 :
					   from_known == -1 ? -1 :
					   from_known == 1	? 1 :
					   from_known == -2 ? -reserve :
										  reserve);
	is_stored = is_due && known < horizon;
	expected = is_stored ? ITS_TIME_US : expected;
	due = first_tick(horizon - reserve / 2 - expected - expected);
	write_takes_us = ITS_TIME_US;
	published = 0;
	memset(writes, 0, sizeof(writes));
	pg_atomic_write_u64(&bounds->latest, latest);
	pg_atomic_write_u64(&bounds->renew, renew);
	pass(1);
	CHECK(attempt(wanted));
	CHECK(writes[HORIZON_RECORD] == is_stored && writes[LAYOUT_RECORD] == 0);
	CHECK(!is_stored || (known == horizon && in_wal[HORIZON_RECORD] == known));
	CHECK(state->view.renewed_at == (is_stored ? wall_us : renewed_at));
	CHECK(published == first_tick(known));
	CHECK(bound_of(&bounds->renew) == (is_due ? Max(renew, due) : renew));
	CHECK(bound_of(&bounds->latest) == latest);
}

static void
try_renewals(void)
{
	static const int   reserves[] = {100, 1000, 60000};
	static const int64 times[] = {0,
								  400,
								  25001,
								  MINUTE_US,
								  MINUTE_US + 1,
								  2 * MINUTE_US,
								  180 * MINUTE_US};

	for (int i = 0; i < lengthof(reserves) * 7 * 7; i++)
	{
		int64 before;
		int64 last;
		int64 wanted;

		begin();
		settings_reserve_ms = reserves[i % lengthof(reserves)];
		CHECK(attempt(HORIZON_OPEN_ONLY));
		for (int n = 0; n < 5 * 3 * 5 * 2; n++)
		{
			snprintf(what_is_tried, sizeof(what_is_tried), "renewal %d %d", i,
					 n);
			known = layout.epoch;
			pg_atomic_write_u64(&bounds->renew, 0);
			pg_atomic_write_u64(&bounds->latest, 0);
			before = renew_in(times[i / 3 % 7]);
			last = renew_in(times[i / 3 / 7]);
			wanted = n / 75 ? layout.last_mint_tick - 50 : 50000000;
			try_renewal_of(wanted, (int64[]){-5000, -1, 0, 1, 5000}[n % 5],
						   (int64[]){-40, 0, 3}[n / 5 % 3], n / 15 % 5 - 2,
						   expected_renewal(before, last));
		}
	}
}

/* --- Opening, and what fails ---------------------------------------------------- */

/* Does opening the horizon come to that step? */
static bool
opening_does(Step step)
{
	return step == READING		   ? !bounds_are_known() :
		   step >= WRITING_HORIZON ? has_change && change.stores_record :
		   step != NOTHING		   ? has_change && change.stores_layout :
									 false;
}

/* One attempt; what it reports is news, or not. */
static void
try_attempt(int64 wanted, bool is_news)
{
	bool was_known = bounds_are_known();
	bool changes = has_change;
	bool other = was_known ? differs : is_other;
	bool renews = wanted != HORIZON_OPEN_ONLY && !other;
	bool opening_fails = opening_does(failing);
	bool renewal_fails = renews && failing >= WRITING_HORIZON;
	bool good = !opening_fails && !renewal_fails;
	bool opens = !was_known && !other && !opening_fails;
	bool is_trouble =
		!as_error && (failing == READING || failing == WRITING_LAYOUT ||
					  failing == WRITING_HORIZON);
	int64 opened_at = first_tick(found);

	reads = notes = heeds = reports = barriers = 0;
	published = -1;
	memset(writes, 0, sizeof(writes));
	CHECK(attempt(wanted) == good);
	CHECK(reports == (!good && is_news));
	CHECK(reads == !was_known);
	CHECK(notes == (changes && !opening_fails));
	CHECK(heeds == opens && barriers == opens);
	CHECK(bounds_are_known() == (was_known || opens));
	CHECK(bounds_are_known() || bound_of(&bounds->renew) == 0);
	CHECK((published > wanted) == (good && renews));
	if (opens)
	{
		CHECK(bound_of(&bounds->found_horizon) == opened_at);
		CHECK(bound_of(&bounds->latest) == opened_at);
		CHECK((bound_of(&bounds->renew) > opened_at) == (good && renews));
	}
	if (good)
	{
		CHECK(writes[LAYOUT_RECORD] == (changes && change.stores_layout));
		CHECK(writes[HORIZON_RECORD] ==
			  (changes && change.stores_record) + renews);
		return;
	}
	CHECK(strcmp(state->view.trouble.reason, reason) == 0);
	CHECK(state->view.trouble.kind ==
		  (is_trouble ? TROUBLE_RIGHTS : TROUBLE_STORING));
	CHECK(state->view.trouble.record ==
		  (is_trouble ? LAYOUT_RECORD : HORIZON_RECORD));
}

/* The next attempt, in which another tick is wanted, or none. */
static void
try_next(int64 *wanted, Step step, bool is_news)
{
	failing = step;
	if (*wanted != HORIZON_OPEN_ONLY)
		*wanted += 200000;
	try_attempt(*wanted, is_news);
}

#define OPENINGS (2 * 2 * 2 * 2 * 2 * 2 * 2 * 5)

static void
try_opening(Step step, int i)
{
	TimestampTz horizons[] = {DT_NOBEGIN, layout.epoch - 1, layout.epoch,
							  layout.epoch + 1, layout.epoch + 12345678};
	int64		wanted = i & 1 ? 1000 : HORIZON_OPEN_ONLY;

	snprintf(what_is_tried, sizeof(what_is_tried), "opening %d %d", step, i);
	begin();
	as_error = i & 2;
	is_other = i & 4;
	has_change = i & 8;
	change.stores_layout = i & 16;
	change.stores_record = i & 32;
	leaves_trouble = i & 64;
	found = change.record.horizon = horizons[i / 128];
	standby_takes_us = 2000;

	/* the same trouble is news once; other trouble is, and so is it after a success */
	reason = "interrupted";
	try_next(&wanted, step, true);
	try_next(&wanted, step, false);
	if (step != AWAITING_STANDBY)
	{
		reason = "a disk is full";
		try_next(&wanted, step, true);
	}
	try_next(&wanted, NOTHING, false);
	try_next(&wanted, step, true);
	try_next(&wanted, NOTHING, false);
	is_other = differs = false;
	wanted = 5000000;
	try_next(&wanted, NOTHING, false);
	CHECK(bounds_are_known() && !has_change);
}

/* --- The worker ------------------------------------------------------------------- */

static int	 events;
static int64 asked;

/* The worker runs until it leaves; gives how. */
static int
run_worker(void)
{
	sigjmp_buf			  here;
	sigjmp_buf			 *exception_stack = PG_exception_stack;
	ErrorContextCallback *callbacks = error_context_stack;
	MemoryContext		  before = MemoryContextSwitchTo(worker_memory);

	events = 0;
	way_out = &here;
	if (sigsetjmp(here, 1) == 0)
		snowflake_horizon_main((Datum) 0);
	way_out = NULL;
	PG_exception_stack = exception_stack;
	error_context_stack = callbacks;
	MemoryContextSwitchTo(before);
	is_running = false;
	check_promises();
	return exit_code;
}

static void
ask_once_more(void)
{
	when_written = NULL;
	asked += 1000000;
	horizon_ask_for_renewal(asked);
}

static void
ask_as_reader(void)
{
	asked = first_tick(wall_us);
	ask_for_readers(asked);
}

#define LEAP_US (30 * USECS_PER_DAY)

/* What happens each time that it is idle, and what it has done before. */
static void
let_events_come(void)
{
	uint64 attempts = pg_atomic_read_u64(&state->worker.attempts);

	PROMISE(is_wanted_by_nobody());
	PROMISE(events < 3 ? reloads == events / 2 : reloads == 1);
	switch (events++)
	{
		case 0: /* it has opened the horizon, and set none ahead */
			PROMISE(attempts == 1 && bounds_are_known() && published == 0);
			asked = 1000000;
			horizon_ask_for_renewal(asked);
			break;
		case 1:
			PROMISE(attempts == 2 && published > asked);
			wants_reload = is_latch_set = true;
			break;
		case 2: /* nobody has asked for anything */
			PROMISE(attempts == 2 && !wants_reload);
			pass(400 * USECS_PER_DAY);
			ask_as_reader();
			break;
		case 3:
			PROMISE(attempts == 3 && published > asked && sleeps == 0);
			wall_us += LEAP_US;
			ask_as_reader();
			break;
		case 4: /* such a leap is not believed */
			PROMISE(attempts == 4 && published < asked);
			wall_us -= LEAP_US;
			asked = first_tick(wall_us);
			failing = WRITING_HORIZON;
			horizon_ask_for_renewal(asked + 200000);
			break;
		case 5:
			PROMISE(attempts == 5 && published < asked + 200000);
			PROMISE(sleeps == 1 && reports == 1);
			failing = NOTHING;
			when_written = ask_once_more;
			horizon_ask_for_renewal(asked + 200000);
			break;
		case 6:
			PROMISE(attempts == 7 && published > asked && sleeps == 1);
			wants_exit = is_latch_set = true;
			break;
		default:
			our_exit(-1);
	}
}

static int polls;

/* While it waits for a standby it is woken for nothing, and then by signals. */
static void
let_signals_come(void)
{
	polls++;
	is_latch_set = is_latch_set || polls % 2 == 1;
	wants_reload = polls == 20;
	wants_exit = polls == 30;
	PROMISE(reloads == (polls > 20));
	PROMISE(polls <= 30);
}

static void
ask_for_one(void)
{
	PROMISE(events++ == 0);
	horizon_ask_for_renewal(5000);
}

static void
try_worker(void)
{
	for (int years = -1; years < 2; years++)
	{
		snprintf(what_is_tried, sizeof(what_is_tried), "years %d", years);
		begin();
		wall_us += years * 365 * USECS_PER_DAY + 500 * USECS_PER_DAY;
		ahead_us = PG_INT64_MIN / 4; /* as if its clock had leapt ahead */
		reason = "a disk is full";
		as_error = years == 0;
		when_idle = let_events_come;
		CHECK(run_worker() == 1 && events == 7);
		CHECK(attempt(HORIZON_OPEN_ONLY));
		wants_exit = false;

		/* it leaves while it waits for a standby */
		begin();
		standby_takes_us = 60 * MINUTE_US;
		polls = 0;
		when_polled = let_signals_come;
		when_idle = ask_for_one;
		CHECK(run_worker() == 1 && polls == 30 && reloads == 1);
		CHECK(steady_us >= confirmed_us - standby_takes_us + 15 * 1000);
		CHECK(published == 0 && known == DT_NOBEGIN);
		CHECK(state->view.waits_for == WAITS_FOR_STANDBY);
		CHECK(state->view.waits_since < wall_us);
		pass(1);
		at_worker_exit();
		CHECK(state->view.waits_for == WAITS_FOR_NOTHING);
		CHECK(state->view.waits_since == wall_us);
		wants_exit = false;
		when_polled = NULL;
	}
}

/* --- A clock that leaps ----------------------------------------------------------- */

#define LEAPS 5
#define PAUSES 3
#define LEAPS_AT_ONCE 4

static const int64 leap_pauses[PAUSES] = {0, 9999000, 10000000};
static const int64 leaps[LEAPS] = {0, 1000000, 1001000, 60 * MINUTE_US,
								   -60 * MINUTE_US};

/* A lead of the clock that was seen, and how much of it was believed. */
typedef struct Lead
{
	int64 at_us;
	int64 seen;
	int64 believed;
} Lead;

/* The least lead that was seen in the last ten seconds. */
static int64
least_of_late(const Lead *leads, int last)
{
	int64 least = leads[last].seen;

	for (int i = last; i > 0 && leads[i].at_us > leads[last].at_us - 10000000;
		 i--)
		least = Min(least, leads[i - 1].seen);
	return least;
}

/* Since when has the clock gone on steadily after a leap from where it was believed? */
static int64
steady_since(const Lead *leads, int last)
{
	int i = last;

	while (i > 0 && leads[i - 1].seen == leads[last].seen)
		i--;
	return i > 0 && leads[i - 1].seen == leads[i - 1].believed ?
			   leads[i].at_us :
			   PG_INT64_MAX;
}

/* Has it gone on steadily for ten seconds, and for ten again? */
static bool
is_steady_twice(const Lead *leads, int last)
{
	for (int i = last; i > last - 2; i--)
	{
		if (i < 1 || leads[i - 1].seen != leads[last].seen ||
			leads[i].at_us - leads[i - 1].at_us < 10000000)
			return false;
	}
	return true;
}

static void
check_belief(const Lead *leads, int last)
{
	const Lead *now = &leads[last];
	int64		most = leads[0].believed;

	for (int i = 1; i < last; i++)
		most = Max(most, leads[i].believed);
	if (now->seen <= most + 1000000 ||
		now->at_us - 10000000 >= steady_since(leads, last) ||
		is_steady_twice(leads, last))
		CHECK(now->believed == now->seen);
	else if (least_of_late(leads, last) <= most + 1000000)
		CHECK(now->believed == most);
	else
		CHECK(now->believed >= most &&
			  now->believed <= least_of_late(leads, last) + 1000000);
}

/*
 * By up to the reserve, or for ten seconds: else it goes on as it went.  The clocks
 * keep to whole ticks, of 1 ms.
 */
static void
try_leaps(void)
{
	int most = 1;

	settings_reserve_ms = 1000;
	for (int i = 0; i < LEAPS_AT_ONCE; i++)
		most *= LEAPS * PAUSES;
	for (int way = 0; way < most; way++)
	{
		Lead leads[1 + LEAPS_AT_ONCE];

		snprintf(what_is_tried, sizeof(what_is_tried), "leaps %d", way);
		begin();
		steady_us = 5000000;
		ahead_us = wall_us - steady_us;
		leads[0] = (Lead){steady_us, ahead_us, ahead_us};
		CHECK(credible_tick(first_tick(wall_us)) == first_tick(wall_us));
		for (int i = 1, rest = way; i <= LEAPS_AT_ONCE;
			 i++, rest /= LEAPS * PAUSES)
		{
			int64 tick;

			pass(leap_pauses[rest % PAUSES]);
			wall_us += leaps[rest / PAUSES % LEAPS];
			tick = credible_tick(first_tick(wall_us));
			leads[i] = (Lead){steady_us, wall_us - steady_us,
							  time_of(tick) - steady_us};
			check_belief(leads, i);
		}
	}
}

PG_FUNCTION_INFO_V1(horizon_cases);
Datum
horizon_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	worker_memory =
		AllocSetContextCreate(CurrentMemoryContext, "horizon_cases",
							  ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < lengthof(layouts); i++)
	{
		begin_with(layouts[i]);
		for (int n = 0; n < STEPS * OPENINGS; n++)
			try_opening(n % STEPS, n / STEPS);
		try_worker();
		try_renewals();
		settings_reserve_ms = 1000;
		if (i == 0)
			try_leaps();
	}
	PG_RETURN_INT64(tried);
}
