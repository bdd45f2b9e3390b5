/*-------------------------------------------------------------------------
 *
 * mint_cases.c
 *	  All that a call of snowflake_nextval() can meet.
 *
 * mint_cases() calls the functions of mint.c, with a clock, bounds, shards and leases of
 * our own below them.  It tries each case by itself, compares the ids, and what was called
 * and waited for, with what mint.c says, and returns how many it tried.  Cases that come
 * together are those of mint_walk_cases.c.
 *
 *-------------------------------------------------------------------------
 */
#include "mint_system.h"

PG_MODULE_MAGIC;

/* A call gives an id of a tick, a shard and a sequence number. */
static void
minted_is(int32 shard, int64 tick, int of_shard, int sequence)
{
	uint64		count = my_slot ? pg_atomic_read_u64(&slot.minted) : 0;
	const char *error = mint(shard);

	snprintf(what_is_tried, sizeof(what_is_tried),
			 "shard %d: id %lld, expected %lld; %s", shard, (long long) minted,
			 (long long) id_of(tick, of_shard, sequence), error);
	CHECK(minted == id_of(tick, of_shard, sequence));
	CHECK(pg_atomic_read_u64(&slot.minted) == count + 1);
}

/* A call raises an error, with this in it. */
static void
fails(int32 shard, const char *error)
{
	const char *text = mint(shard);

	snprintf(what_is_tried, sizeof(what_is_tried), "%s", text);
	CHECK(minted == -1 && strstr(text, error) != NULL);
}

/* --- A session's life ---------------------------------------------------- */

static void
try_life(void)
{
	start("13", SHARD_ABOVE_SEQUENCE);
	minted_is(1, 10, 1, 0);
	CHECK_CALLS(" layout clone begin settings hold 1 clock take layout clone"
				" first 164");
	minted_is(1, 10, 1, 1);
	CHECK_CALLS(" clock take");
	minted_is(3, 10, 3, 0);
	CHECK_CALLS(" hold all name clock take");
	minted_is(1, 10, 1, 2);
	CHECK_CALLS(" clock take");
	end_transaction();
	minted_is(3, 10, 3, 1);
	CHECK_CALLS(" hold 3 name clock take first 173");
	end_transaction();
	minted_is(OWN, 10, 1, 3);
	CHECK_CALLS(" hold -1 own end clock barrier take spread first 167");
	minted_is(OWN, 10, 3, 2);
	CHECK_CALLS(" clock take take");

	/* who may not mint from a clone looks with each call */
	settings_refuse_clone = true;
	minted_is(OWN, 10, 3, 3);
	CHECK_CALLS(" layout clone settings clock take");
	is_clone = true;
	fails(OWN, "a clone");
	is_clone = false;
	is_refused = true;
	fails(1, "refused");
	settings_refuse_clone = is_refused = false;
	forget_calls();

	/* the list is looked for again when it was set */
	set_list(&asked, "2");
	settings_shards_changes++;
	clock_now = start_of(11);
	minted_is(OWN, 11, 2, 0);
	CHECK_CALLS(" own end clock barrier take spread");
	end_transaction();
	minted_is(OWN, 11, 2, 1);
	CHECK_CALLS(" hold 2 clock take first 185");
}

/* The mark is held for what is needed, once; after a start not before all ids. */
static void
try_holds(void)
{
	static const int64 holds[] = {HOLDS_NOTHING, HOLDS_LATEST, ALL_SHARDS, 1,
								  3};

	for (int i = 0; i < lengthof(holds) * 3 * 2 * 2 * 2; i++)
	{
		int64 hold = holds[i / 24];
		int32 of_shard = i % 3 == 0 ? ALL_SHARDS : i % 3 == 1 ? 1 : 3;
		int32 shard = i / 3 % 2 ? 1 : ALL_SHARDS;
		bool  is_known = i / 6 % 2;
		int64 latest = i / 12 % 2 ? 10 : 0;
		char *expected =
			psprintf("%s hold %d", is_known && latest > 0 ? "" : " present",
					 shard);

		start("12", SHARD_ABOVE_SEQUENCE);
		session_begin();
		slot.mark_shard = hold >= ALL_SHARDS ? hold : of_shard;
		set_bounds(latest, 1000, 1000);
		pg_atomic_init_u32(&our_bounds.are_known, is_known);
		my_held = hold;
		forget_calls();
		if (hold == shard || hold == ALL_SHARDS ||
			(hold == HOLDS_LATEST && of_shard == shard))
			expected = "";
		else if (hold >= 0)
			expected = " hold all";
		hold_mark(shard);
		CHECK_CALLS(expected);
	}
}

static void
lastval(void)
{
	minted = DatumGetInt64(snowflake_lastval(NULL));
}

static void
try_lastval(void)
{
	static const char undefined[] =
		"55000: snowflake_lastval is not yet defined in this session; "
		"Call snowflake_nextval first.";

	start("1", SHARD_ABOVE_SEQUENCE);
	CHECK(strcmp(error_of(lastval), undefined) == 0);
	CHECK_CALLS(" settings");
	set_bounds(10, 10, 10);
	fails(1, "no horizon comes"); /* it has a slot now */
	CHECK(my_slot != NULL);
	CHECK(strcmp(error_of(lastval), undefined) == 0);
	set_bounds(10, 1000, 1000);
	for (int i = 0; i < SEQUENCES; i++)
	{
		minted_is(i % 2 ? 1 : OWN, 10, 1, i);
		minted = -1;
		CHECK(error_of(lastval)[0] == '\0');
		CHECK(minted == id_of(10, 1, i));
	}
}

/* --- Who may mint, and where --------------------------------------------- */

static void
try_refusals(void)
{
	for (int32 shard = OWN; shard <= 1; shard += 1 - OWN)
	{
		start("1", SHARD_ABOVE_SEQUENCE);
		is_refused = in_parallel = in_recovery = true;
		under_postmaster = false;
		fails(shard, "refused");
		is_refused = false;
		fails(shard,
			  "25000: cannot mint ids in a parallel worker; The mark of "
			  "snowflake_settled() would not wait for the end of the "
			  "transaction.; A function that calls snowflake_nextval() "
			  "must be PARALLEL UNSAFE, which is the default.");
		in_parallel = false;
		fails(shard, "25006: cannot mint ids during recovery; Mint on the "
					 "primary server. Ids can be read here.");
		in_recovery = false;
		fails(shard, "55000: cannot mint ids in single-user mode");
		CHECK(my_slot == NULL);
		under_postmaster = true;

		/* a session that has a slot and no id yet looks again */
		set_bounds(10, 10, 10);
		fails(shard, "no horizon comes");
		CHECK(my_slot != NULL);
		is_refused = true;
		fails(shard, "refused");
		is_refused = false;
		set_bounds(10, 1000, 1000);
		is_clone = true;
		fails(shard, "a clone");
		is_clone = false;
		minted_is(shard, 10, 1, 0);
		is_refused = is_clone = in_recovery = true;
		minted_is(shard, 10, 1, 1);
	}
}

static void
check_shards(void)
{
	mint_check_shards(false);
}

static void
try_lists(void)
{
	static const char *const lists[] = {"",	  "0",	"1",   "3",	  "12",	 "13",
										"03", "23", "013", "123", "0123"};
	static const char		 not_set[] =
		"55000: no shard is configured for this server; Set "
		"\"snowflake.shards\" to the shards that are this server's alone, such "
		"as '8' or '8-15', or name a shard, as in snowflake_nextval(5).";

	for (int i = 0; i < lengthof(lists); i++)
	{
		for (int32 shard = -2; shard < 9; shard++)
		{
			bool in_range = shard >= 0 && shard < SHARDS;
			bool is_listed = in_range && strchr(lists[i], '0' + shard) != NULL;

			start(lists[i], SHARD_ABOVE_SEQUENCE);
			if (in_range && (is_listed || lists[i][0] == '\0'))
				minted_is(shard, 10, shard, 0);
			else if (in_range)
				fails(shard,
					  psprintf("42501: shard %d is not one of this server's; "
							   "\"snowflake.shards\" is \"the list\".; Call "
							   "snowflake_nextval() without an argument to "
							   "mint on this server's own shards.",
							   shard));
			else
				fails(shard, psprintf("range shard %d 3", shard));

			/* where it would stand without gaps, the first look finds it */
			if (is_listed)
				CHECK((strstr(calls, " name") == NULL) ==
					  (shard - (lists[i][0] - '0') ==
					   strchr(lists[i], '0' + shard) - lists[i]));
		}
		start(lists[i], SHARD_ABOVE_SEQUENCE);
		CHECK(strcmp(error_of(check_shards), lists[i][0] ? "" : not_set) == 0);
		if (lists[i][0] != '\0')
			minted_is(OWN, 10, lists[i][0] - '0', 0);
		else
			fails(OWN, not_set);
		need_leases = true;
		CHECK(error_of(check_shards)[0] == '\0');
	}
}

/* --- The clock and the bounds -------------------------------------------- */

static void
bring_horizon(void)
{
	pg_atomic_write_u64(&our_bounds.horizon, tick_at(clock_now) + 1);
}

/* A tick between bounds, at its edges and beyond them. */
static void
try_bounds(void)
{
	for (int i = 0; i < 5 * 2 * 4 * 5; i++)
	{
		int64 at = start_of(9 + i % 5) + (i / 5 % 2 ? 999 : 0);
		int64 horizon = 10 + i / 10 % 4;
		int64 renew = 9 + i / 40;
		char *expected = " clock";

		start("1", SHARD_ABOVE_SEQUENCE);
		minted_is(1, 10, 1, 0);
		set_bounds(10, horizon, renew);
		in_horizon_wait = bring_horizon;
		clock_now = at;
		forget_calls();
		if (at < start_of(10))
		{
			int64 us = start_of(10) - at;

			expected = psprintf(" clock behind 1 %ld 10 SnowflakeClockBehind "
								"%ld counts %ld on 1 clock",
								(long) us, (long) us, (long) us);
			at = start_of(10);
		}
		if (at >= start_of(horizon))
		{
			expected =
				psprintf("%s layout clone horizon %ld end counts 7 on 1 "
						 "layout clone clock",
						 expected, (long) tick_at(at));
			at += WORKER_TAKES;
		}
		if (at >= start_of(11) && tick_at(at) >= renew)
			expected = psprintf("%s renew %ld", expected, (long) tick_at(at));
		minted_is(1, tick_at(at), 1, at < start_of(11) ? 1 : 0);
		CHECK_CALLS(psprintf("%s take", expected));
		CHECK(latest_tick() == tick_at(at));
	}
}

/* The first id of all is 0. */
static void
try_first_tick(void)
{
	for (int32 shard = OWN; shard <= 0; shard += -OWN)
	{
		start("0", SHARD_ABOVE_SEQUENCE);
		clock_now = EPOCH;
		set_bounds(0, 10, 10);
		for (int i = 0; i < SEQUENCES; i++)
			minted_is(shard, 0, 0, i);
		clock_now = start_of(LAST_TICK + 1);
		fails(shard, "no tick");
		clock_now = EPOCH - 1;
		fails(shard, "no tick");
	}
}

/*
 * A clock that is behind is waited for as long as is tolerated, and looked at ten times a
 * second; the next call waits as long, from the beginning.
 */
static void
try_behind(void)
{
	static const int tolerances[] = {0, 1, 50, 100, 250, 1000};
	static const int more[] = {-1000, -1, 0, 1, 1000, 150000};

	for (int i = 0; i < lengthof(tolerances) * lengthof(more) * 4; i++)
	{
		int64		tolerated = tolerances[i / 4 / lengthof(more)] * 1000;
		int64		behind = tolerated + more[i / 4 % lengthof(more)];
		int32		shard = i & 1 ? OWN : 1;
		TimestampTz due;

		if (behind <= 0)
			continue;
		start("1", SHARD_ABOVE_SEQUENCE);
		due = clock_now = start_of(5000);
		set_bounds(5000, 6000, 6000);
		minted_is(shard, 5000, 1, 0);
		settings_clock_tolerance_ms = tolerated / 1000;
		woken_after = i & 2 ? 3 : 1;
		for (int n = 1; n < 3; n++)
		{
			char *expected =
				psprintf(" clock behind 1 %ld 5000", (long) behind);
			int64 left = behind;
			int64 patience = tolerated;

			clock_now = due - behind;
			forget_calls();
			while (left > 0 && patience > 0)
			{
				int64 us = left < patience ? left : patience;
				int64 lasts;

				us = us < 100000 ? us : 100000;
				lasts = (us + woken_after - 1) / woken_after;
				expected = psprintf(
					"%s SnowflakeClockBehind %ld counts %ld on 1 clock",
					expected, (long) us, (long) lasts);
				left -= lasts;
				patience -= lasts;
			}
			if (left > 0)
				fails(shard, psprintf("behind after %ld", (long) tolerated));
			else
			{
				expected = psprintf("%s take", expected);
				minted_is(shard, 5000, 1, n);
			}
			CHECK(strncmp(calls, expected, sizeof(calls) - 1) == 0);
			CHECK(our_shards[1].state.counters.clock_behind == n);
		}
	}
}

/* What the two workers do in a wait for the horizon, step by step. */
static const char *worker_does;

static void
take_step(void)
{
	char does = *worker_does ? *worker_does++ : '?';

	CHECK(strchr("lLhHcC.", does) != NULL);
	if (strchr("lL", does)) /* leases are lost, or found */
		leased_until = does == 'l' ? 11 : 12;
	if (strchr("hHC", does)) /* a horizon that is not far enough, or is */
		pg_atomic_write_u64(&our_bounds.horizon, does == 'h' ? 11 : 12);
	if (strchr("cC", does))
		is_clone = true;
}

static void
take_step_of_leases(int32 shard)
{
	CHECK(shard == ANY_SHARD);
	take_step();
}

/* The worker whose turn it is is waited for, and what it finds ends the call. */
static void
try_horizon(void)
{
#define CHECKED " layout clone"
#define HORIZON CHECKED " horizon 11"
#define LEASES CHECKED " lease -1"
#define COUNTED(us) " end counts " us " on 1"

	static const struct
	{
		const char *does;
		const char *calls;
	} rows[] = {
		{"H", HORIZON COUNTED("7") CHECKED},
		{"..H", HORIZON HORIZON HORIZON COUNTED("21") CHECKED},
		{"hH", HORIZON HORIZON COUNTED("14") CHECKED},
		{"lLH", HORIZON COUNTED("7") LEASES COUNTED("7") HORIZON COUNTED("7")
					CHECKED},
		{".l.LH", HORIZON HORIZON COUNTED("14") LEASES LEASES COUNTED("14")
					  HORIZON COUNTED("7") CHECKED},
		{"lH", HORIZON COUNTED("7") LEASES COUNTED("7") CHECKED},
		{"c", HORIZON CHECKED},
		{"lc", HORIZON COUNTED("7") LEASES CHECKED},
		{"C", HORIZON COUNTED("7") CHECKED},
	};

	for (int i = 0; i < lengthof(rows) * 2; i++)
	{
		int32 shard = i & 1 ? OWN : 1;

		start("1", SHARD_ABOVE_SEQUENCE);
		minted_is(shard, 10, 1, 0);
		clock_now = start_of(11);
		set_bounds(10, 11, 1000);
		leased_until = 12;
		in_horizon_wait = take_step;
		in_lease_wait = take_step_of_leases;
		worker_does = rows[i / 2].does;
		forget_calls();
		if (strpbrk(worker_does, "cC"))
		{
			fails(shard, "a clone");
			CHECK_CALLS(psprintf(" clock%s", rows[i / 2].calls));
			continue;
		}
		minted_is(shard, 11, 1, 0);
		CHECK_CALLS(psprintf(" clock%s clock%s", rows[i / 2].calls,
							 i & 1 ? " barrier take spread" : " take"));
		CHECK(counted_on[1] == waited);
	}
}

/* --- Waits for room ------------------------------------------------------ */

static TimestampTz clock_then;

static void
move_clock(void)
{
	clock_now = clock_then;
}

/* The tick is exhausted: the wait ends when the next one begins, by the clock then. */
static void
try_exhausted(void)
{
	for (int i = 0; i < 3 * 3 * 2; i++)
	{
		int32 shard = i & 1 ? OWN : 1;
		int64 next = start_of(11);
		char *expected =
			i & 1 ? " interrupts barrier clock" : " interrupts clock";
		int64 us;

		clock_then = start_of(9 + i / 2 / 3) + i / 2 % 3 - 1;
		start("1", SHARD_ABOVE_SEQUENCE);
		for (int n = 0; n < SEQUENCES; n++)
			minted_is(shard, 10, 1, n);
		us = next - clock_then < 1000 ? next - clock_then : 1000;
		after_clock = move_clock;
		forget_calls();
		minted_is(shard, 11, 1, 0);
		if (us > 0)
			expected =
				psprintf("%s SnowflakeExhausted %ld counts %ld on 1 clock",
						 expected, (long) us, (long) us);
		else
			expected = psprintf("%s clock", expected);
		CHECK(strstr(calls, expected) != NULL);
		CHECK(our_shards[1].state.counters.exhausted >= 1);
	}
}

static void
others_mint_later(void)
{
	clock_now = start_of(11);
	our_shards[1].state.last = position_of(11, 0);
	bounds_raise(&our_bounds.latest, 11);
}

/* Others are past this tick, after the clock was read: it is read again. */
static void
try_stale(void)
{
	for (int i = 0; i < 4; i++)
	{
		int32 shard = i & 1 ? OWN : 1;

		start("12", SHARD_ABOVE_SEQUENCE);
		minted_is(shard, 10, 1, 0);
		after_clock = others_mint_later;
		forget_calls();
		if (i & 2)
		{
			is_cancelled = true;
			fails(shard, "cancelled");
			continue;
		}
		minted_is(shard, 11, 1, 1);
		CHECK_CALLS(i & 1 ?
						" clock take interrupts clock barrier take spread" :
						" clock take interrupts clock take");
		CHECK(our_shards[1].state.counters.exhausted == 0);
	}
}

/* --- Leases -------------------------------------------------------------- */

static const char *opens; /* in the next waits: a shard; '.': none */

static void
open_next(int32 shard)
{
	if (*opens == '\0')
		elog(ERROR, "no lease comes");
	if (*opens != '.')
		open_shard(*opens - '0');
	opens++;
}

static void
start_with_leases(const char *list, const char *open)
{
	start(list, SHARD_ABOVE_SEQUENCE);
	need_leases = true;
	in_lease_wait = open_next;
	opens = "";
	for (int i = 0; i < SHARDS; i++)
	{
		if (strchr(open, '0' + i) == NULL)
			close_shard(i);
	}
}

static void
try_leases(void)
{
	/* its shards change, so the mark is held for all */
	start_with_leases("123", "2");
	minted_is(OWN, 10, 2, 0);
	CHECK_CALLS(" layout clone begin settings hold -1 own end clock barrier "
				"take spread layout clone first 168");
	minted_is(OWN, 10, 2, 1);
	CHECK_CALLS(" clock take");

	/* a shard that is closed is passed over, without a wait */
	open_shard(1);
	close_shard(2);
	clock_now = start_of(11);
	minted_is(OWN, 11, 1, 0);
	CHECK_CALLS(" clock barrier own end clock barrier take spread");
	open_shard(3);
	close_shard(1);
	bounds_raise(&our_bounds.latest, 12);
	clock_now = start_of(12);
	minted_is(OWN, 12, 3, 0);
	CHECK_CALLS(" clock barrier own end clock barrier take spread");

	/* no shard is open: the wait goes to the one that is found */
	close_shard(3);
	opens = "..2";
	clock_now = start_of(14) - 3 * WORKER_TAKES;
	minted_is(OWN, 14, 2, 0);
	CHECK_CALLS(" clock barrier own lease -1 own lease -1 own lease -1 own "
				"end counts 21 on 2 clock barrier take spread");

	/* nothing comes, and the next call waits again */
	close_shard(2);
	clock_now = start_of(16);
	fails(OWN, "no lease comes");
	forget_calls();
	opens = "1";
	clock_now = start_of(17) - WORKER_TAKES;
	minted_is(OWN, 17, 1, 0);
	CHECK_CALLS(
		" own lease -1 own end counts 7 on 1 clock barrier take spread");

	/* closed while it mints there: it goes on with what is open then */
	close_shard(1);
	open_shard(3);
	clock_now = start_of(18) - 50;
	minted_is(OWN, 18, 3, 0);
	CHECK(counted_on[3] == 50);

	/* a shard that is named is waited for alone */
	opens = ".21";
	clock_now = start_of(20) - 3 * WORKER_TAKES;
	forget_calls();
	minted_is(1, 20, 1, 0);
	CHECK_CALLS(" clock take interrupts lease 1 lease 1 lease 1 end counts 21 "
				"on 1 clock take");
	close_shard(1);
	fails(1, "no lease comes");
	is_cancelled = true;
	fails(1, "cancelled");
}

/* Where those meet that are not ordered; at first nobody has met anybody. */
static void
try_meeting(void)
{
	for (int i = 0; i < LAYOUT_KINDS * 4; i++)
	{
		LayoutKind kind = i / 4;
		bool	   meets = (i & 1) && kind != NO_SEQUENCE;
		bool	   is_ordered = kind != SEQUENCE_ABOVE_SHARD && (i & 2) == 0;

		start("012", kind);
		settings_ordering = i & 2 ? ORDER_SESSION : ORDER_SERVER;
		backend_index = 5;
		minted_is(OWN, 10, 0, 0);
		if (meets)
			our_shards[0].state.last = position_of(11, 0);
		clock_now = start_of(11);
		minted_is(OWN, 11, 0, meets);
		clock_now = start_of(12);
		minted_is(OWN, 12, meets && !is_ordered ? 5 % 3 : 0, 0);
	}
}

PG_FUNCTION_INFO_V1(mint_cases);
Datum
mint_cases(PG_FUNCTION_ARGS)
{
	keep_new_session();
	tried = 0;
	try_life();
	try_holds();
	try_lastval();
	try_refusals();
	try_lists();
	try_bounds();
	try_first_tick();
	try_behind();
	try_horizon();
	try_exhausted();
	try_stale();
	try_leases();
	try_meeting();
	PG_RETURN_INT64(tried);
}
