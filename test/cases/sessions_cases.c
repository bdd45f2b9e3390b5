/*-------------------------------------------------------------------------
 *
 * sessions_cases.c
 *	  All that sessions do in their slots, in all orders.
 *
 * sessions_cases() calls the functions of sessions.c as processes that take turns.  After
 * each step it compares what they tell with a truth of its own, and returns how many
 * conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "sessions_system.h"

PG_MODULE_MAGIC;

#include "common/pg_prng.h"

#define ROOM ((PROCESSES + 6) * PG_CACHE_LINE_SIZE)

static char memory[ROOM + PG_CACHE_LINE_SIZE];

/* --- What is true of a session ----------------------------------------------- */

typedef struct Truth
{
	bool  lives;
	bool  has_held; /* its slot, for somebody */
	bool  has_id;	/* its transaction */
	int64 waits;
	int64 waited_us;
	int64 minted;
	int64 last_id;
	int64 first_id;
	int32 shard;
	int64 tick; /* NO_TICK: it does not hold the mark */
	int64 others_tick;
} Truth;

static Process processes[PROCESSES];
static Truth   truths[PROCESSES];

/* A list without a shard of the transaction's gets the tick of the others. */
static int64
true_tick(const Truth *truth, int list)
{
	return truth->shard == ALL_SHARDS || list_has(list, truth->shard) ?
			   truth->tick :
			   truth->others_tick;
}

static void
check_slot(int i)
{
	const Truth *truth = &truths[i];
	SessionStats stats;

	memset(&stats, 0x55, sizeof(stats));
	CHECK(sessions_read(i, &stats) == truth->lives);
	CHECK(stats.pid == (truth->lives ? processes[i].pid : 0));
	CHECK(stats.mark_tick == truth->tick);
	if (!truth->has_held)
		CHECK(stats.first_id == NO_ID);
	if (!truth->lives)
		return;
	CHECK(stats.waits == truth->waits);
	CHECK(stats.waited_us == truth->waited_us);
	CHECK(stats.minted == truth->minted);
	CHECK(stats.last_id == truth->last_id);
	if (truth->tick == NO_TICK)
		return;
	CHECK(stats.first_id == truth->first_id);
	CHECK(stats.mark_shard ==
		  (truth->others_tick == NO_TICK ? truth->shard : ALL_SHARDS));
}

static void
check_marks(Oid database)
{
	int live = 0;

	for (int list = 0; list < LISTS; list++)
	{
		int64 first = NO_TICK;

		live = 0;
		for (int i = 0; i < PROCESSES; i++)
		{
			int64 tick = true_tick(&truths[i], list);

			live += truths[i].lives;
			if (truths[i].tick != NO_TICK && processes[i].database == database)
				first = Min(first, tick);
		}
		spins = 0;
		CHECK(sessions_first_mark_tick(database, list_at(list)) == first);
		CHECK(spins == live); /* a slot that is free costs no lock */
	}
}

/* What a process knows of itself. */
static void
check_me(int i)
{
	const Truth *truth = &truths[i];
	Hold		 hold;

	become(&processes[i]);
	hold = session_hold();
	CHECK(hold.tick == truth->tick);
	for (int list = 0; list < LISTS; list++)
		CHECK(hold_tick(&hold, list_at(list)) ==
			  (truth->tick == NO_TICK ? NO_TICK : true_tick(truth, list)));
	CHECK(my_held == (truth->tick == NO_TICK		? HOLDS_NOTHING :
					  !truth->has_id				? HOLDS_LATEST :
					  truth->others_tick != NO_TICK ? ALL_SHARDS :
													  truth->shard));
	if (truth->tick == NO_TICK)
		return;
	CHECK(hold.shard == truth->shard);
	CHECK(hold.others_tick == truth->others_tick);
}

static void
check_all(void)
{
	for (int i = 0; i < PROCESSES; i++)
	{
		check_slot(i);
		if (truths[i].lives)
			check_me(i);
	}
	check_marks(5);
	check_marks(6);
	CHECK(spinning == 0);
}

/* --- Steps ------------------------------------------------------------------- */

typedef enum Step
{
	BEGINS,
	LEAVES,
	HOLDS_0,
	HOLDS_1,
	HOLDS_ALL,
	MINTS,
	HOLDS_MORE,
	ENDS,
	WAITS,
	TIME_PASSES,
	STEPS
} Step;

static Step now_does;
static int	barriers;

/* What others see before the barrier, and this process has not yet. */
static void
look(char kind)
{
	barriers++;
	if (now_does == BEGINS)
		CHECK(kind == 'm' && my_slot == NULL &&
			  slot_at(me->index)->pid == me->pid);
	else
		CHECK(kind == 'w' &&
			  pg_atomic_read_u64(&my_slot->mark_tick) != NO_TICK);
}

static void
begin(int i)
{
	Truth *truth = &truths[i];

	processes[i] = new_process(i, processes[i].pid + 1, processes[i].database);
	me = NULL;
	become(&processes[i]);
	session_begin();
	CHECK(me->at_exit != NULL);
	truth->lives = true;
	truth->waits = truth->waited_us = truth->minted = 0;
	truth->last_id = NO_ID;
}

static void
hold(Truth *truth, int32 shard)
{
	session_hold_mark(shard);
	truth->has_held = true;
	truth->shard = shard;
	truth->tick = latest_tick();
	truth->others_tick = NO_TICK;
	truth->first_id = NO_ID;
}

/* As mint.c does: the id counts before its number. */
static void
mint(Truth *truth)
{
	int64 id = latest_tick() * 100 + truth->minted;

	if (!truth->has_id)
	{
		session_note_first_id(id, latest_tick());
		truth->first_id = id;
		truth->tick = latest_tick();
		truth->has_id = true;
	}
	truth->last_id = id;
	truth->minted++;
	pg_atomic_write_u64(&my_slot->last_id, (uint64) id);
	pg_atomic_write_u64(&my_slot->minted, (uint64) truth->minted);
}

static bool
is_possible(const Truth *truth, Step step)
{
	bool holds = truth->tick != NO_TICK;

	return step == TIME_PASSES					? true :
		   step == BEGINS						? !truth->lives :
		   !truth->lives						? false :
		   step >= HOLDS_0 && step <= HOLDS_ALL ? !truth->has_id :
		   step == MINTS || step == ENDS		? holds :
		   step == HOLDS_MORE ? truth->has_id && truth->shard != ALL_SHARDS &&
									truth->others_tick == NO_TICK :
								true;
}

static void
take_step(int i, Step step)
{
	Truth *truth = &truths[i];

	become(&processes[i]);
	now_does = step;
	barriers = 0;
	at_barrier = look;
	switch (step)
	{
		case BEGINS:
			begin(i);
			break;
		case LEAVES:
			me->at_exit(0, (Datum) 0);
			truth->lives = truth->has_id = false;
			truth->tick = NO_TICK;
			break;
		case HOLDS_0:
		case HOLDS_1:
			hold(truth, step - HOLDS_0);
			break;
		case HOLDS_ALL:
			hold(truth, ALL_SHARDS);
			break;
		case MINTS:
			mint(truth);
			break;
		case HOLDS_MORE:
			session_hold_mark_for_all();
			truth->others_tick = latest_tick();
			break;
		case ENDS:
			session_release_mark();
			truth->has_id = false;
			truth->tick = NO_TICK;
			break;
		case WAITS:
			session_count_wait(7 + i);
			truth->waits++;
			truth->waited_us += 7 + i;
			break;
		default:
			pg_atomic_write_u64(&bounds->latest, latest_tick() + 1);
	}
	at_barrier = NULL;
	CHECK(barriers == (step == BEGINS || step == ENDS));
}

/* All are away; two of them are of one database. */
static void
start(Fill fill, Size offset)
{
	pg_atomic_write_u64(&bounds->latest, 70);
	begin_room(fill, offset, false);
	sessions_shmem_startup();
	CHECK(made == 4 * PROCESSES);
	for (int i = 0; i < PROCESSES; i++)
	{
		processes[i] = new_process(i, 100 * (i + 1), i == 1 ? 6 : 5);
		truths[i] = (Truth){.tick = NO_TICK};
		CHECK(pg_atomic_read_u64(&slot_at(i)->last_id) == (uint64) NO_ID);
	}
	me = NULL;
	become(&processes[0]);
	check_all();

	/* a later process finds it all */
	take_step(0, BEGINS);
	begin_room(OLD, offset, true);
	slots = NULL;
	sessions_shmem_startup();
	CHECK(made == 0);
	check_all();
	take_step(0, LEAVES);
}

/* All that two sessions can do in so many steps. */
static void
try_steps(int depth)
{
	static char saved_rooms[6][ROOM];
	Process		saved_processes[PROCESSES];
	Truth		saved_truths[PROCESSES];
	uint64		saved_latest = latest_tick();

	if (depth == 0)
		return;
	become(&processes[0]);
	memcpy(saved_rooms[depth], room, ROOM);
	memcpy(saved_processes, processes, sizeof(processes));
	memcpy(saved_truths, truths, sizeof(truths));
	for (int step = 0; step < 2 * STEPS; step++)
	{
		int i = step / STEPS ? PROCESSES - 1 : 0;

		if (!is_possible(&truths[i], step % STEPS))
			continue;
		snprintf(what_is_tried, sizeof(what_is_tried), "step %d of %d, %d",
				 step % STEPS, i, depth);
		take_step(i, step % STEPS);
		check_all();
		try_steps(depth - 1);
		memcpy(room, saved_rooms[depth], ROOM);
		memcpy(processes, saved_processes, sizeof(processes));
		memcpy(truths, saved_truths, sizeof(truths));
		pg_atomic_write_u64(&bounds->latest, saved_latest);
		me = NULL;
		become(&processes[0]);
	}
}

static void
try_random(int count)
{
	pg_prng_state random;

	pg_prng_seed(&random, 1);
	for (int n = 0; n < count; n++)
	{
		int	 i = pg_prng_uint64_range(&random, 0, PROCESSES - 1);
		Step step = pg_prng_uint64_range(&random, 0, STEPS - 1);

		if (!is_possible(&truths[i], step) ||
			(step == LEAVES && pg_prng_bool(&random)))
			continue;
		snprintf(what_is_tried, sizeof(what_is_tried), "%d, step %d of %d", n,
				 step, i);
		take_step(i, step);
		check_all();
	}
}

/* A process that cannot run SQL. */
static void
try_others(void)
{
	static const int indexes[] = {-1, PROCESSES, PROCESSES + 1};

	for (int i = 0; i < lengthof(indexes); i++)
	{
		Process process = new_process(indexes[i], 9, 5);

		me = NULL;
		become(&process);
		CHECK(strcmp(message_of(session_begin),
					 "cannot mint ids in this kind of process") == 0);
		CHECK(my_slot == NULL && process.at_exit == NULL);
	}
	become(&processes[0]);
}

PG_FUNCTION_INFO_V1(sessions_cases);
Datum
sessions_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	room = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, memory);
	room_size = ROOM;
	for (int i = 0; i < 2 * 3; i++)
	{
		static const Size offsets[] = {0, 8, PG_CACHE_LINE_SIZE - 8};

		start(i % 2 ? ONES : ZEROS, offsets[i / 2]);
		if (i == 1)
			try_steps(5);
		else
			try_random(5000);
		try_others();
		check_guards();
	}
	PG_RETURN_INT64(tried);
}
