/*-------------------------------------------------------------------------
 *
 * lease_wait_cases.c
 *	  Each reason why a session has no lease, and what it is told then.
 *
 * lease_wait_cases() calls the functions of lease_wait.c, with a table, a worker and clocks
 * of our own below them.  It tries all cases, compares each error in all its words with
 * what the head and the comments of lease_wait.c say, and returns how many it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "lease_wait_system.h"

PG_MODULE_MAGIC;

#include "../../src/lease/lease_wait.c"

#include "lease_wait_told.h"

/* --- The cases ------------------------------------------------------------- */

static void
call_report(void)
{
	report_hopeless(table, wanted, fresh, waited_us);
}

/* Behind each list there is an entry that nobody must take for one of it. */
static void
set_lists(int leases, int refusals, int losses)
{
	table->count = leases;
	table->held[leases] = (HeldLease){{FROM, UNTIL, 2, HELD_HERE}, true};
	table->outcome.refusals = refusals;
	for (int i = refusals; i < LEASE_MAX_REFUSALS; i++)
		table->outcome.refusal[i] =
			(Refusal){REFUSED_TAKEN, ANY_SHARD, 5, "nobody"};
	table->losses = losses;
}

/* The answer came 30 us ago, or the registry has never answered. */
static void
set_registry_clock(bool has_answered)
{
	LeaseOutcome *outcome = &table->outcome;

	steady_us = INT64CONST(5000000);
	outcome->answered_us = steady_us - 30;
	outcome->asked_us = outcome->answered_us - (most - least);
	outcome->answered_at = has_answered ? least - 30 : 0;
}

static void
set_asked(int count, int32 first, int32 second)
{
	static union
	{
		OwnShards own;
		int32	  room[8];
	} asked;

	asked.own.count = count;
	asked.own.shard[0] = first;
	asked.own.shard[1] = second;
	settings_asked_shards = &asked.own;
}

static void
reset(void)
{
	memset(&memory, 0, sizeof(memory));
	table->end = DT_NOBEGIN;
	table->ended_us = 1;
	set_lists(0, 0, 0);
	set_asked(0, 2, 3);
	registry = "host=r";
	wanted = ANY_SHARD;
	fresh = true;
	waited_us = 0;
	clock_us = FROM;
	least = most = FROM;
	set_registry_clock(true);
	is_admin = false;
	settings_clock_tolerance_ms = TOLERANCE_MS;
	pg_atomic_write_u64(&bounds->horizon, HORIZON_TICK);
	pg_atomic_write_u32(&bounds->are_known, 1);
	then = NULL;
	waits_for_attempt = waits_for_bounds = 0;
}

/* --- Leases and clocks --------------------------------------------------------- */

typedef enum Held
{
	NOT_THERE,
	NOT_COUNTED, /* by the common end */
	COUNTED
} Held;

static Held held[2]; /* of shards 1 and 3 */

/* What there is of the leases that the session needs: the best of them. */
static Held
held_of_wanted(void)
{
	Held best = NOT_THERE;

	for (int i = 0; i < 2; i++)
	{
		int32 shard = 2 * i + 1;

		if (wanted == shard ||
			(wanted == ANY_SHARD && settings_ask_for(shard)))
			best = held[i] > best ? held[i] : best;
	}
	return best;
}

static Told
tell_lease(bool has_answered)
{
	Held  best = held_of_wanted();
	int32 shard = wanted;

	if (best == COUNTED && clock_us < UNTIL)
		return nothing;
	if (table->outcome.failure.kind != REGISTRY_ANSWERED)
		return tell_failure("It broke.");
	if (!fresh)
		return nothing;
	if (table->ended_us == 0 && registry[0] != '\0')
		return tell_unanswered();
	if (best == NOT_COUNTED && waited_us < TOLERANCE_US)
		return nothing;
	if (best == NOT_COUNTED && has_answered)
	{
		if (clock_us < FROM)
			return tell_behind();
		if (clock_us < UNTIL)
			return tell_horizon();
		return most < UNTIL ? tell_ahead() : tell_late();
	}
	if (best == COUNTED && has_answered && most < UNTIL)
		return tell_ahead();
	if (best == COUNTED && has_answered && least < UNTIL)
		return tell_late();
	if (table->outcome.refusals > 0)
		return tell_refusal(&table->outcome.refusal[0], NULL);
	if (best == COUNTED && has_answered)
		return tell_late();
	if (shard == ANY_SHARD && settings_asked_shards->count > 0)
		shard = settings_asked_shards->shard[0];
	return tell_not_asked(shard);
}

static void
set_leases(Held one, Held three)
{
	int count = 0;

	held[0] = one;
	held[1] = three;
	table->end = DT_NOBEGIN;
	for (int i = 0; i < 2; i++)
	{
		if (held[i] == NOT_THERE)
			continue;
		table->held[count++] = (HeldLease){{FROM, UNTIL, 2 * i + 1, HELD_HERE},
										   held[i] == COUNTED};
		if (held[i] == COUNTED)
			table->end = UNTIL;
	}
	set_lists(count, 0, 0);
}

/* The registry's clock, the failure, and how the session has waited. */
static void
try_leases_at(void)
{
	static const TimestampTz clocks[][2] = {
		{0, 0}, {990, 1000}, {1989, 1999}, {1999, 2000}, {2000, 2000}};

	for (int i = 0; i < lengthof(clocks) * 2 * 2 * 2 * 2 * 3 * 2; i++)
	{
		int	 rest = i / lengthof(clocks);
		bool has_answered = i % lengthof(clocks) > 0;
		Told told;

		begin_case();
		least = clocks[i % lengthof(clocks)][0];
		most = clocks[i % lengthof(clocks)][1];
		set_registry_clock(has_answered);
		fresh = rest & 1;
		table->outcome.failure =
			(RegistryFailure){rest & 2 ? REGISTRY_AWAY : REGISTRY_ANSWERED,
							  "It broke.", ""};
		registry = rest & 4 ? "host=r" : "";
		table->outcome.refusals = rest & 8 ? 1 : 0;
		table->outcome.refusal[0] =
			(Refusal){REFUSED_LIMITED, ANY_SHARD, 0, "2 shards"};
		waited_us = TOLERANCE_US - 1 + rest / 16 % 3;
		table->ended_us = rest / 48;
		snprintf(
			what_is_tried, sizeof(what_is_tried),
			"leases %d %d, wanted %d, asked %d of %d, clock %d, "
			"registry %d %d, fresh %d, failure %d, refusals %d, waited %d, "
			"ended %d",
			held[0], held[1], wanted, settings_asked_shards->shard[0],
			settings_asked_shards->count, (int) clock_us, (int) least,
			(int) most, fresh, table->outcome.failure.kind,
			table->outcome.refusals, (int) waited_us, (int) table->ended_us);
		told = tell_lease(has_answered);
		check_error(call_report, &told);
	}
}

static void
try_leases(void)
{
	static const TimestampTz clocks[] = {999, 1000, 1999, 2000, 2001};
	static const int32		 wants[] = {ANY_SHARD, 1, 2};

	reset();
	for (int i = 0; i < 9 * lengthof(wants) * 4 * lengthof(clocks); i++)
	{
		int rest = i / 9;

		set_leases(i % 3, i / 3 % 3);
		wanted = wants[rest % lengthof(wants)];
		rest /= lengthof(wants);

		/* asked for: any, 2 alone, 3 alone, or 1 and 3 */
		set_asked(rest % 4 == 3 ? 2 : Min(rest % 4, 1),
				  rest % 4 == 3 ? 1 : 1 + rest % 4, 3);
		clock_us = clocks[rest / 4];
		try_leases_at();
	}
}

/* --- Failures and refusals --------------------------------------------------- */

static void
try_failures(void)
{
	static const char *const words[][2] = {{"It broke", "It broke."},
										   {"It broke.", "It broke."},
										   {"", "."}};
	static const TimestampTz ends[] = {DT_NOBEGIN, UNTIL};
	RegistryFailure			*failure = &table->outcome.failure;

	reset();
	clock_us = UNTIL;
	for (int i = 0; i < (REGISTRY_UNSTORED + 1) * 3 * 2 * 2 * 2; i++)
	{
		int	 rest = i / 3;
		int	 kind = rest / 8;
		Told told;

		begin_case();
		failure->kind = kind;
		strcpy(failure->text, words[i % 3][0]);
		strcpy(failure->hint, rest & 1 ? "Mend it." : "");
		is_admin = rest & 2;
		table->end = ends[rest & 4 ? 1 : 0];
		snprintf(what_is_tried, sizeof(what_is_tried), "failure %d", i);
		CHECK(is_same_text(lease_failure_code(failure), failures[kind].code));
		CHECK(is_same_text(lease_failure_way_out(failure),
						   rest & 1 ? "Mend it." : failures[kind].way_out));
		if (kind == REGISTRY_ANSWERED)
			continue;
		told = tell_failure(words[i % 3][1]);
		check_error(call_report, &told);
	}
}

/* One that names the shard, else one that is about none; with "auto" the first one. */
static const Refusal *
refusal_of(int32 shard)
{
	LeaseOutcome *outcome = &table->outcome;

	for (int about = 0; about < 2; about++)
	{
		for (int i = 0; i < outcome->refusals; i++)
		{
			if (outcome->refusal[i].shard == (about == 0 ? shard : ANY_SHARD))
				return &outcome->refusal[i];
		}
	}
	return shard == ANY_SHARD && outcome->refusals > 0 ? &outcome->refusal[0] :
														 NULL;
}

/* Up to three refusals, of shards 1 to 3 or of none, and each kind in each place. */
static void
try_refusals(void)
{
	static const int32 shards[] = {ANY_SHARD, 1, 2, 3};

	reset();
	for (int i = 0; i < 4 * 64 * 5 * 4 * 2 * 2; i++)
	{
		int			   rest = i / 4 / 64 / 5;
		const Refusal *refusal;
		Told		   told;

		begin_case();
		set_lists(0, i % 4, 0);
		for (int n = 0; n < i % 4; n++)
			table->outcome.refusal[n] =
				(Refusal){(i / 4 / 64 + n) % 5,
						  shards[i / 4 >> 2 * n & 3],
						  rest & 16 ? DT_NOEND : 3000 + n,
						  {'r', '0' + n}};
		wanted = shards[rest & 3];
		is_admin = rest & 4;
		set_asked(rest & 8 ? 1 : 0, 2, 3);
		snprintf(what_is_tried, sizeof(what_is_tried), "refusals %d", i);
		if (wanted == ANY_SHARD && (rest & 8))
			refusal = refusal_of(2);
		else
			refusal = refusal_of(wanted);
		told =
			refusal != NULL ?
				tell_refusal(refusal, NULL) :
				tell_not_asked(wanted == ANY_SHARD && (rest & 8) ? 2 : wanted);
		check_error(call_report, &told);
	}
}

/* So many losses, and one place that has the shard, among them or not. */
static void
try_losses(void)
{
	reset();
	wanted = 3;
	for (int losses = 0; losses < 20; losses++)
	{
		for (int i = 0; i < (LEASE_MAX_LOSSES + 1) * 2 * 5; i++)
		{
			int	 place = i % (LEASE_MAX_LOSSES + 1);
			bool is_there = place < losses && place < LEASE_MAX_LOSSES;
			Told told;

			begin_case();
			is_admin = i / (LEASE_MAX_LOSSES + 1) % 2;
			set_lists(0, 1, losses);
			table->outcome.refusal[0] =
				(Refusal){i / (LEASE_MAX_LOSSES + 1) / 2, 3, 3000, "r"};
			for (int n = 0; n < LEASE_MAX_LOSSES; n++)
				table->loss[n].lease =
					(Lease){100 + n, 200 + n, n == place ? 3 : 1, HELD_HERE};
			told = tell_refusal(&table->outcome.refusal[0],
								is_there ? &table->loss[place] : NULL);
			snprintf(what_is_tried, sizeof(what_is_tried),
					 "losses %d, place %d", losses, place);
			check_error(call_report, &told);
		}
	}
}

static void
try_clock_ahead(void)
{
	reset();
	for (int i = 0; i < 8 * 8 * 12; i++)
	{
		least = 1000 + i % 8;
		most = least + i / 8 % 8;
		set_registry_clock(true);
		clock_us = 999 + i / 64 * 2;
		CHECK(lease_clock_ahead_us(&table->outcome) ==
			  (clock_us < least ? clock_us - least :
			   clock_us > most	? clock_us - most :
								  0));
	}
}

/* --- Waiting ------------------------------------------------------------------- */

static WorkerWait session_wait;

static void
call_wait(void)
{
	lease_wait(&session_wait, wanted);
}

/* At first it waits for the bounds, and asks for no attempt, whatever there is. */
static void
try_first_wait(void)
{
	static const char *const done[] = {
		"end begin ", "layout horizon end begin ",
		"layout horizon layout horizon end begin "};

	for (int i = 0; i < lengthof(done); i++)
	{
		reset();
		begin();
		waits_for_bounds = i;
		pg_atomic_write_u32(&bounds->are_known, i == 0);
		session_wait = (WorkerWait){0};
		check_error(call_wait, &nothing);
		CHECK(is_done(done[i]));
		CHECK(session_wait.begun && session_wait.waited_us == 0);
	}
}

/* So many attempts have ended, the last one so long ago; or it is forgotten. */
static bool
set_attempts(int attempts, int when)
{
	pg_atomic_write_u64(&table->worker.attempts, attempts);
	table->ended_us =
		attempts == 0 || when == 2 ? 0 : steady_us - 999999 - when;
	return attempts > 0 && when != 2;
}

/* Then it asks and waits, unless an attempt tells that this is in vain. */
static void
try_later_waits(void)
{
	for (int i = 0; i < 3 * 2 * 3 * 2 * 2; i++)
	{
		int	 attempts = i % 3;
		int	 when = i / 6 % 3;
		Told told = nothing;

		reset();
		begin();
		session_wait = (WorkerWait){.begun = true,
									.attempts = i / 3 % 2,
									.waited_us = TOLERANCE_US - i / 18 % 2};
		set_leases(NOT_THERE, i / 36 ? NOT_COUNTED : NOT_THERE);
		clock_us = FROM - 1;
		if (set_attempts(attempts, when) &&
			(when == 0 || attempts > i / 3 % 2))
			told = i / 36 == 0 ? tell_not_asked(ANY_SHARD) :
				   i / 18 % 2  ? nothing :
								 tell_behind();
		snprintf(what_is_tried, sizeof(what_is_tried), "later wait %d", i);
		check_error(call_wait, &told);
		CHECK(is_done(told.message == NULL ? "ask wait " : ""));
	}
}

/* --- Checking ------------------------------------------------------------------ */

static bool is_patient;

static void
call_check(void)
{
	lease_check(is_patient);
}

static void
take_lease(void)
{
	set_leases(NOT_THERE, COUNTED);
}

/* A check that looks, without patience, for shard 3; of shard 1 there is a lease or not. */
static void
try_checks(void)
{
	for (int i = 0; i < 4 * 3 * 6 * 2; i++)
	{
		Told told = nothing;
		Held of_1 = i / 72 ? COUNTED : NOT_THERE;
		Held of_3 = i / 4 % 3;
		bool is_asked;

		reset();
		begin();
		needs_leases = i & 1;
		pg_atomic_write_u32(&bounds->are_known, i >> 1 & 1);
		set_asked(1, 3, 0);
		set_leases(of_1, of_3);
		clock_us = UNTIL - i / 12 % 2;
		is_asked = (i & 3) == 3 && !(of_3 == COUNTED && clock_us < UNTIL);
		if (!set_attempts(i / 24 % 3 > 0, i / 24 % 3))
			told = is_asked ? tell_unanswered() : nothing;
		else if (is_asked)
			told = of_3 == NOT_THERE ? tell_not_asked(3) :
				   clock_us < UNTIL	 ? tell_horizon() :
									   tell_ahead();
		is_patient = false;
		snprintf(what_is_tried, sizeof(what_is_tried), "check %d", i);
		check_error(call_check, &told);
		CHECK(is_done(is_asked ? "worker 0 " : ""));
	}
	needs_leases = true;
}

/* One that waits: until a lease comes, or an attempt ends in vain, or for 10 seconds. */
static void
try_patient_checks(void)
{
	for (int i = 0; i < 14 * 2 * 2; i++)
	{
		bool	   comes = i % 2;
		int		   first_wait = 1 + i / 2 % 14;
		int		   last_wait = Min(first_wait, 11);
		StringInfo expected;
		Told	   told;

		reset();
		begin();
		is_patient = true;
		waits_for_attempt = first_wait;
		table->ended_us = i / 28;
		then = comes ? take_lease : NULL;
		expected = makeStringInfo();
		appendStringInfo(expected, "worker 1 begin ");
		for (int n = 0; n < last_wait; n++)
			appendStringInfo(expected, "ask wait ");
		comes &= waits_for_attempt == last_wait;
		told = comes							  ? nothing :
			   i >= 28 || last_wait == first_wait ? tell_not_asked(ANY_SHARD) :
													tell_unanswered();
		if (comes)
			appendStringInfo(expected, "end ");
		snprintf(what_is_tried, sizeof(what_is_tried), "patient check %d", i);
		check_error(call_check, &told);
		CHECK(is_done(expected->data));
	}
}

/* --- Reserved shards ------------------------------------------------------------- */

static Reservation answer;

static void
take_answer(void)
{
	reserved[3] = answer;
}

static void
call_check_reserved(void)
{
	check_reserved(3);
}

static Told
tell_reservation(void)
{
	static const Told told[] = {
		[RESERVED_UNKNOWN] = {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
							  "it is not known whether shard 3 is reserved",
							  "The registry does not answer.", NULL,
							  "See snowflake_lease_status()."},
		[RESERVED_TOO_MANY] = {ERRCODE_PROGRAM_LIMIT_EXCEEDED,
							   "it is not known whether shard 3 is reserved",
							   "The registry has reserved more shards than it "
							   "can tell.",
							   NULL, "Reserve shards that follow each other."},
		[RESERVED_NOT] = {ERRCODE_OBJECT_IN_USE,
						  "shard 3 is not reserved in the registry",
						  "The registry leases it to servers, which mint the "
						  "same ids.",
						  NULL,
						  "Call snowflake_registry_reserve(3, 'ids for old "
						  "rows') in the registry, if no server had it."},
		[RESERVED_YES] = {0}};
	static const Told of_standby = {
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		"it is not known whether shard 3 is reserved",
		"This server is a standby, which does not ask the registry.", NULL,
		"Make the ids on the primary."};

	return in_recovery ? of_standby : told[answer];
}

/* After an answer: in the same statement or the next one, a second later or just before. */
static void
try_reserved_after(int i, int before)
{
	bool is_same = i & 1;
	int	 age_us = i & 2 ? 1000000 : 999999;
	int	 answers_after = 1 + (i >> 2 & 1);
	bool needs_no_answer;
	Told told;

	begin();
	in_recovery = i >> 3 & 1;
	statement_at += is_same ? 0 : 1;
	steady_us += age_us;
	reserved[3] = before;
	waits_for_attempt = answers_after;
	needs_no_answer = is_same && age_us < 1000000 && before == RESERVED_YES;
	told = tell_reservation();
	if (needs_no_answer && !in_recovery)
		told = nothing;
	check_error(call_check_reserved, &told);
	CHECK(is_done(in_recovery || needs_no_answer ? "" :
				  answers_after == 1			 ? "end begin ask wait end " :
									   "end begin ask wait ask wait end "));
}

static void
try_reserved(void)
{
	reset();
	for (int i = 0; i < 16 * 4 * 4; i++)
	{
		/* an answer that the shard is reserved */
		begin();
		in_recovery = false;
		statement_at += 2;
		waits_for_attempt = 1;
		answer = RESERVED_YES;
		then = take_answer;
		check_error(call_check_reserved, &nothing);
		CHECK(is_done("end begin ask wait end "));

		answer = i / 16 % 4;
		snprintf(what_is_tried, sizeof(what_is_tried), "reserved %d", i);
		try_reserved_after(i % 16, i / 64);
	}
	in_recovery = false;
}

static void
try_install(void)
{
	begin();
	leases_install();
	CHECK(is_done("register snowflake lease snowflake_lease_main "));
	CHECK(leasing->own_shards == leases_own_shards);
	CHECK(leasing->wait == lease_wait && leasing->check == lease_check);
	CHECK(leasing->check_reserved == check_reserved);
}

PG_FUNCTION_INFO_V1(lease_wait_cases);
Datum
lease_wait_cases(PG_FUNCTION_ARGS)
{
	MemoryContext context = CurrentMemoryContext;

	tried = 0;
	try_leases();
	try_failures();
	try_refusals();
	try_losses();
	try_clock_ahead();
	try_first_wait();
	try_later_waits();
	try_checks();
	try_patient_checks();
	try_reserved();
	try_install();
	MemoryContextSwitchTo(context);
	PG_RETURN_INT64(tried);
}
