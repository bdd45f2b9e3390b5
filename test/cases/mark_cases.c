/*-------------------------------------------------------------------------
 *
 * mark_cases.c
 *	  The mark, in all orders of what transactions do, also of those that are prepared and
 *	  survive a restart.
 *
 * mark_cases() calls the functions of mark.c and sessions.c as sessions that take turns:
 * first in all orders of a few steps, then in random ones.  It compares each mark with the
 * truth of mark_model.h, and returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "mark_model.h"

PG_MODULE_MAGIC;

/* --- Steps -------------------------------------------------------------------------- */

typedef enum Step
{
	MINTS_0,
	MINTS_1,
	MINTS_ALL,
	COMMITS,
	PREPARES,
	COMMITS_PREPARED,
	TIME_PASSES,
	LOOKS,
	OFTEN, /* all before are */
	GETS_XID = OFTEN,
	HOLDS,
	ROLLS_BACK,
	ROLLS_BACK_PREPARED,
	IMPORTS,
	LEAVES,
	RESTARTS,
	RECOVERS,
	STEPS
} Step;

static bool
is_any_prepared(void)
{
	for (int i = 0; i < all_count; i++)
	{
		if (all[i].is_prepared && runs(&all[i]) && !all[i].is_awaited)
			return true;
	}
	return false;
}

static bool
is_possible(const Session *session, Step step)
{
	Phase phase = session->phase;
	bool  can_write = phase == RUNS && !in_recovery && !session->is_foreign;
	bool  is_idle = phase == RUNS && session->transaction == NULL;

	switch (step)
	{
		case MINTS_0:
		case MINTS_1:
		case MINTS_ALL:
		case GETS_XID:
			return can_write;
		case HOLDS:
			return can_write &&
				   (!session->transaction || !has_id(session->transaction));
		case COMMITS:
			return phase <= COMMITTED;
		case ROLLS_BACK:
			return phase <= BEFORE_PREPARE && phase != COMMITTED;
		case PREPARES:
			return phase == BEFORE_PREPARE || (can_write && most_prepared > 0);
		case COMMITS_PREPARED:
		case ROLLS_BACK_PREPARED:
			return (phase > BEFORE_PREPARE) ||
				   (can_write && is_idle && is_any_prepared());
		case LOOKS:
			return phase == RUNS && !in_recovery && !session->is_foreign;
		case IMPORTS:
			return is_idle && !in_recovery && !session->is_foreign;
		case LEAVES:
			return is_idle;
		case RECOVERS:
			return in_recovery;
		default:
			return true;
	}
}

static void
take_step(int i, Step step)
{
	int fill;

	turn_to(&sessions[i]);
	switch (step)
	{
		case MINTS_0:
		case MINTS_1:
			mint(step - MINTS_0, step - MINTS_0);
			break;
		case MINTS_ALL:
			mint(0, ALL_SHARDS);
			break;
		case GETS_XID:
			give_xid(own_transaction());
			break;
		case HOLDS:
			hold_mark(random_below(SHARDS + 1) + ALL_SHARDS);
			break;
		case COMMITS:
			commit();
			break;
		case ROLLS_BACK:
			roll_back();
			break;
		case PREPARES:
			prepare_transaction();
			break;
		case COMMITS_PREPARED:
		case ROLLS_BACK_PREPARED:
			end_prepared(step == COMMITS_PREPARED);
			break;
		case LOOKS:
			take_snapshot(&seens[next_seen++ % MOST_SEEN], current);
			break;
		case IMPORTS:
			import();
			break;
		case LEAVES:
			drop_snapshots(current);
			if (me->at_exit)
				me->at_exit(0, (Datum) 0);
			begin_session(i);
			break;
		case RESTARTS:
			fill = random_below(FILLS);
			restart(fill, random_below(2));
			break;
		case RECOVERS:
			end_recovery();
			break;
		default:
			present++;
	}
}

/* All transactions end; a session that ends one that is prepared may fail after that. */
static void
finish(void)
{
	end_recovery();
	for (int i = 0; i < PROCESSES; i++)
	{
		turn_to(&sessions[i]);
		if (current->phase == ENDED_PREPARED)
			current->ends = NULL;
		else if (current->phase == COMMITTED)
			commit();
		else
		{
			roll_back();
			if (current->phase == ABORTED)
				roll_back();
		}
		current->ends = NULL;
		current->phase = RUNS;
	}
	turn_to(&sessions[0]);
	while (is_any_prepared())
	{
		for (int part = 0; part < 3; part++)
			end_prepared(true);
	}
	mark_end_prepared();
	CHECK(pg_atomic_read_u32(&shared->prepared_count) == 0);
	check_marks();
	drop_snapshots(NULL);
	all_count = 0;
}

/* Two sessions have begun; or have minted; or what the first one did is prepared, too. */
typedef enum Begin
{
	BEGUN,
	MINTED,
	PREPARED,
	BEGINS
} Begin;

static void
begin_both(Begin begin)
{
	for (int i = 0; i < 2; i++)
	{
		turn_to(&sessions[i]);
		give_xid(own_transaction());
		if (begin == BEGUN)
			continue;
		present++;
		mint(0, i == 0 ? 0 : ALL_SHARDS);
	}
	if (begin < PREPARED)
		return;
	take_step(0, MINTS_1);
	take_step(0, PREPARES);
	take_step(0, PREPARES);
}

/* All that sessions can do from there in so many steps. */
#define STEPS_AT_ONCE 4

static void
try_steps(Begin begin)
{
	static const struct
	{
		int	 session;
		Step step;
	} choices[] = {{0, MINTS_0},	 {0, MINTS_1},	 {0, COMMITS},
				   {0, PREPARES},	 {1, MINTS_ALL}, {1, COMMITS},
				   {2, TIME_PASSES}, {2, LOOKS},	 {3, COMMITS_PREPARED}};
	int ways = 1;

	for (int i = 0; i < STEPS_AT_ONCE; i++)
		ways *= lengthof(choices);
	for (int way = 0; way < ways; way++)
	{
		snprintf(what_is_tried, sizeof(what_is_tried), "begin %d, way %d",
				 begin, way);
		begin_both(begin);
		for (int i = 0, rest = way; i < STEPS_AT_ONCE;
			 i++, rest /= lengthof(choices))
		{
			int	 which = choices[rest % lengthof(choices)].session;
			Step step = choices[rest % lengthof(choices)].step;

			if (!is_possible(&sessions[which], step))
				continue;
			take_step(which, step);
			check_marks();
		}
		finish();
	}
}

/*
 * What is prepared survives a restart, with where it holds the mark: for one shard, for one
 * and the others, or for all.
 */
static void
try_restarts(void)
{
	for (int i = 0; i < FILLS * 2 * 3; i++)
	{
		int kind = i / FILLS / 2;

		snprintf(what_is_tried, sizeof(what_is_tried), "restart %d", i);
		start_anew(ONES, 2);
		for (int shard = 0; shard <= (kind == 1); shard++)
		{
			turn_to(&sessions[0]);
			present++;
			mint(shard, kind == 2 ? ALL_SHARDS : 0);
		}
		take_step(0, PREPARES);
		take_step(0, PREPARES);
		present++;
		restart(i % FILLS, i / FILLS % 2);
		for (int part = 0; part < 3; part++)
			take_step(1, COMMITS);
		end_recovery();
		check_marks();
		finish();
	}
}

static void
try_random(int runs_count, int steps)
{
	static const uint64 xids[] = {UINT64CONST(0x3000003e8),
								  UINT64CONST(0x3fffffff0),
								  UINT64CONST(0x57ffffff0),
								  UINT64CONST(0x6fffffffd)};

	for (int run = 0; run < runs_count; run++)
	{
		if (run % 10 == 0)
		{
			next_xid.value =
				xids[run / 10 % lengthof(xids)] + ((uint64) run << 34);
			completed = next_xid;
			FullTransactionIdRetreat(&completed);
			start_anew(run % FILLS, random_below(4));
		}
		for (int n = 0; n < steps; n++)
		{
			int	 i = random_below(PROCESSES);
			Step step =
				random_below(3) ? random_below(OFTEN) : random_below(STEPS);

			if (!is_possible(&sessions[i], step) ||
				(step == RESTARTS && random_below(3)))
				continue;
			snprintf(what_is_tried, sizeof(what_is_tried),
					 "run %d, %d: step %d of %d", run, n, step, i);
			take_step(i, step);
			if (!in_recovery && random_below(2))
				check_marks();
		}
		finish();
		check_guards();
	}
}

PG_FUNCTION_INFO_V1(mark_cases);
Datum
mark_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	begin_model();
	start_anew(ONES, 2);
	for (Begin begin = BEGUN; begin < BEGINS; begin++)
		try_steps(begin);
	try_restarts();
	try_random(300, 60);
	PG_RETURN_INT64(tried);
}
