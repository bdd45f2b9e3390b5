/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  The horizon: the time up to which ids may be minted.
 *
 * Shared memory dies with the server, and when the server starts again its
 * clock may have been set back.  So no id is minted at or after the horizon, a
 * time that is already on disk; and a server that starts, is promoted or was
 * restored mints nothing before the horizon that it finds.  That is the whole
 * argument, and it needs no clock.
 *
 * The protocol.  One background worker alone renews the horizon, to "reserve"
 * after the tick of a session that asks for it:
 *
 *	1. It writes the record with the new horizon to the file, so that it
 *	   survives a loss of power: see record.c.
 *	2. It logs the same record as a page, flushes the WAL, and waits for
 *	   synchronous standbys as a commit does.
 *	3. Only then it raises the bound in shared memory: see positions.c.
 *
 * What each reader may assume:
 *	- A session that sees the horizon H knows that a record of H or later
 *	  survives this server, in the file and in the WAL.  It may mint in any tick
 *	  before H, however slow it is: the record never goes down while a session
 *	  lives.
 *	- The worker, once recovery has ended, takes the later of the file, which the
 *	  postmaster read, and the page as the found horizon, and only then publishes a
 *	  first horizon.  Until then nobody mints.
 *	- A server that is shut down lowers the file to the end of the latest tick, in the
 *	  postmaster's last moments, without sessions.  (If WAL is replayed, the page wins.)
 *
 * Hence no interleaving mints an id past what is stored: an id of tick t needs
 * a published H > t, publishing H needs the record of H on disk, and a server that
 * reads that record later starts at H.  A worker that dies between two steps leaves
 * a record that is too high, which costs at most a wait.
 *
 * The allowance.  A renewal that takes longer than the reserve would publish a
 * horizon that has passed.  So the horizon is set further ahead, by three
 * times as long as a renewal takes: one for the renewal itself, one for the next
 * renewal, and one in which a session asks for it.
 *
 * A clock that leaps ahead.  Who mints believes its clock: then an id has that time, and
 * no later one may have less.  But who reads what is new raises the latest tick as well,
 * with nothing to show for it, though only up to where the next renewal is due.  So for
 * readers the horizon is renewed only as far as the clock has been going on steadily; a
 * leap counts when it has lasted.
 *
 * A note about locking:
 *	- Bounds are atomics: see positions.c.  The worker alone raises "horizon",
 *	  "renew" and "found_horizon".
 *	- HorizonState is read and written under horizon_lock, an LWLock, but for
 *	  "wanted_tick" and "readers_tick", atomics that sessions raise, and "worker": see
 *	  worker.c.  The worker writes the rest.
 *	- horizon_lock is never held together with another lock, nor while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "horizon.h"
#include "positions.h"
#include "server.h"

/* How long the worker leaves the disk alone after a failure. */
#define RETRY_DELAY_MS 100

/* How often the worker looks whether a standby has the record. */
#define MIN_POLL_MS 1
#define MAX_POLL_MS 100

/* A single renewal that took longer than this may have been an accident. */
#define CREDIBLE_RENEWAL_US (60 * USECS_PER_SEC)

/* How long one that only looks waits for the worker's answer. */
#define ANSWER_PATIENCE_US (5 * USECS_PER_SEC)

/* A clock that has leapt ahead is believed, for readers, when it has been so long. */
#define LEAP_LASTS_US (10 * USECS_PER_SEC)

/* How often a reader wakes the worker, if that has not taken the tick that readers want. */
#define WAKE_AGAIN_US (100 * US_PER_MS)

/* No session wants anything of the worker. */
#define WANTED_BY_NOBODY (HORIZON_OPEN_ONLY - 1)

typedef struct HorizonState
{
	pg_atomic_uint64 wanted_tick;  /* in which a session is about to mint */
	pg_atomic_uint64 readers_tick; /* to which a reader would raise it */
	HorizonView		 view;
	Worker			 worker;
} HorizonState;

static HorizonState *state = NULL;
static LWLock		*horizon_lock = NULL;

/* --- Shared memory ------------------------------------------------------ */

/*
 * Is there a horizon, found at the start or stored since?  When a server starts for the
 * first time there is none until somebody wants it.
 */
static bool
has_horizon(void)
{
	return pg_atomic_read_u64(&bounds->renew) != 0;
}

/* Was it renewed since the start, past the one that was found? */
static bool
is_renewed(void)
{
	return pg_atomic_read_u64(&bounds->renew) !=
		   pg_atomic_read_u64(&bounds->found_horizon);
}

/* Lower the record to the end of the latest tick: all ids and all marks are before. */
static void
close_cleanly(int code, Datum arg)
{
	const Layout *layout = settings_layout();
	Record		  record;
	Trouble		  trouble;
	int64		  latest = (int64) pg_atomic_read_u64(&bounds->latest);

	if (code != 0 || !is_renewed())
		return;
	server_make_record(&record, layout_time_of_tick(layout, latest + 1));
	if (!record_write_file(HORIZON_RECORD, &record, &trouble))
		record_report(LOG, &trouble);
}

Size
horizon_shmem_size(void)
{
	return sizeof(HorizonState);
}

void
horizon_shmem_startup(void)
{
	bool found;

	horizon_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[HORIZON_LOCK].lock;
	state = ShmemInitStruct("snowflake horizon", sizeof(HorizonState), &found);
	if (found)
		return;
	memset(state, 0, sizeof(*state));
	pg_atomic_init_u64(&state->wanted_tick, (uint64) WANTED_BY_NOBODY);
	pg_atomic_init_u64(&state->readers_tick, (uint64) WANTED_BY_NOBODY);
	worker_shmem_startup(&state->worker);
	if (!IsUnderPostmaster)
		on_shmem_exit(close_cleanly, (Datum) 0);
}

/* --- Asking the worker, and waiting for it ------------------------------ */

/* Ask the worker to renew the horizon, to past a tick.  May be called often. */
void
horizon_ask_for_renewal(int64 tick)
{
	bounds_raise(&state->wanted_tick, tick);
	worker_wake(&state->worker);
}

/* When this process woke the worker for readers. */
static int64 woken_us = 0;

/*
 * Likewise for readers, who call it again and again.  The first one that wants a tick wakes
 * the worker.  The others wake it only now and then: the first one may have been stopped
 * before it could.
 */
static void
ask_for_readers(int64 tick)
{
	int64 now_us = steady_clock_us();

	if (bounds_raise(&state->readers_tick, tick) != WANTED_BY_NOBODY &&
		now_us - woken_us < WAKE_AGAIN_US)
		return;
	woken_us = now_us;
	worker_wake(&state->worker);
}

/* Raise the last attempt's error, if it failed and ended after the given. */
static void
report_failure(uint64 since_attempt)
{
	bool	failed;
	Trouble trouble;

	LWLockAcquire(horizon_lock, LW_SHARED);
	failed = state->view.failed &&
			 pg_atomic_read_u64(&state->worker.attempts) > since_attempt;
	trouble = state->view.trouble;
	LWLockRelease(horizon_lock);
	if (failed)
		record_report(ERROR, &trouble);
}

/*
 * Ask the worker, and wait for its next attempt to end; in a loop, until what is
 * waited for has come.  Raises what went wrong.
 */
void
horizon_wait(WorkerWait *wait, int64 tick)
{
	static WaitName event = {"SnowflakeHorizon", 0};

	if (worker_begin_wait(&state->worker, wait))
		return;
	report_failure(wait->attempts);
	horizon_ask_for_renewal(tick);
	worker_wait(&state->worker, wait, &event);
}

/*
 * The tick that it is now.  False before the epoch, and past the last tick that is minted
 * in: a horizon there would be far ahead, if the clock is wrong.
 */
static bool
find_present_tick(int64 *tick)
{
	const Layout *layout = settings_layout();

	return layout_tick_of_time(layout, GetCurrentTimestamp(), tick) &&
		   *tick > 0 && *tick <= layout->last_mint_tick;
}

/*
 * Raise the latest tick to the present one, though not past where the next renewal
 * is due; there, ask for that.  Waits until there is a horizon, found at the start or
 * stored since.
 */
void
horizon_begin_present_tick(void)
{
	WorkerWait wait = {0};
	int64	   tick;
	int64	   renew;

	if (!find_present_tick(&tick))
		return;
	while (!has_horizon())
		horizon_wait(&wait, tick);
	(void) worker_end_wait(&wait);
	renew = (int64) pg_atomic_read_u64(&bounds->renew);
	if (tick >= renew)
		ask_for_readers(tick);
	bounds_raise(&bounds->latest, Min(tick, renew));
}

/* Raise an error if there is no worker. */
void
horizon_check_worker(bool patient)
{
	worker_check(&state->worker, patient);
}

/* The worker does not answer: it is stopped, or hangs. */
static void
report_silence(int64 waited_us)
{
	ereport(ERROR,
			(errcode(ERRCODE_OPERATOR_INTERVENTION),
			 errmsg("snowflake's background worker has not answered for %s",
					duration_text(waited_us)),
			 errdetail("Calls of snowflake_nextval() wait for it."),
			 errhint(
				 "If its process is stopped, continue it by kill -CONT. Its "
				 "number: SELECT pid FROM pg_stat_activity WHERE "
				 "backend_type = 'snowflake horizon';")));
}

/*
 * Raise the error of the last attempt, if that failed.  With patience, try again, as a
 * call would; but wait neither for a slow disk nor for a standby: a call waits for
 * these, and does not fail.
 *
 * If the last one has not failed, only see whether the worker answers: to renew the
 * horizon by a clock that may be wrong is left to calls that mint.
 */
void
horizon_check(bool patient)
{
	static WaitName event = {"SnowflakeHorizon", 0};
	WorkerWait		wait = {0};
	HorizonView		view;
	int64			tick;

	if (!patient)
	{
		report_failure(0);
		return;
	}
	if (state->worker.latch == NULL)
		return; /* horizon_check_worker() tells */
	horizon_view(&view);
	if (!view.failed || !bounds_are_known() || !find_present_tick(&tick))
		tick = HORIZON_OPEN_ONLY;
	(void) worker_begin_wait(&state->worker, &wait);
	horizon_ask_for_renewal(tick);
	while (view.waits_for == WAITS_FOR_NOTHING &&
		   pg_atomic_read_u64(&state->worker.attempts) == wait.attempts)
	{
		if (wait.waited_us > ANSWER_PATIENCE_US)
			report_silence(wait.waited_us);
		worker_wait(&state->worker, &wait, &event);
		horizon_view(&view);
	}
	(void) worker_end_wait(&wait);
	report_failure(wait.attempts);
}

/* --- Storing a record --------------------------------------------------- */

/* Say what the worker waits for, in snowflake_horizon(). */
static void
show_wait(HorizonWaitsFor waits_for)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(horizon_lock, LW_EXCLUSIVE);
	state->view.waits_for = waits_for;
	state->view.waits_since = now;
	LWLockRelease(horizon_lock);
}

/*
 * Leave, or read the settings again.  After exit code 1 the server starts the
 * worker again, if it goes on.
 */
static void
heed_signals(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ShutdownRequestPending)
		proc_exit(1);
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
}

/*
 * Wait for synchronous standbys as a commit does, until they have the record, or the
 * settings do not ask for them any more.  An interrupt raises an error, and then the
 * record does not count as stored.
 */
static void
wait_for_standbys(XLogRecPtr lsn)
{
	int64 began_us = steady_clock_us();

	if (!record_awaits_standby(lsn))
		return;
	show_wait(WAITS_FOR_STANDBY);
	do
	{
		int64 poll_ms = (steady_clock_us() - began_us) / US_PER_MS / 8;

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(Max(poll_ms, MIN_POLL_MS), MAX_POLL_MS),
						 WAIT_EVENT_SYNC_REP);
		ResetLatch(MyLatch);
		heed_signals();
	} while (record_awaits_standby(lsn));
}

/* Have a record on disk and logged, as safe as a commit. */
static bool
store_record(const Record *record, Trouble *trouble)
{
	show_wait(WAITS_FOR_DISK);
	if (!record_write_file(HORIZON_RECORD, record, trouble))
		return false;
	wait_for_standbys(record_log_page(HORIZON_RECORD, record));
	return true;
}

/* --- Opening and renewing the horizon ----------------------------------- */

/*
 * Store what has changed.  The layout goes first: if the horizon's record has a
 * change of the layout, so has the layout's.  A wait for standbys is for both.
 */
static bool
store_change(const ServerChange *change, Trouble *trouble)
{
	if (change->stores_layout)
	{
		if (!record_write_file(LAYOUT_RECORD, &change->record, trouble))
			return false;
		(void) record_log_page(LAYOUT_RECORD, &change->record);
	}
	return !change->stores_record || store_record(&change->record, trouble);
}

/*
 * Put the horizon that was found in force: nothing is minted before it.  A new
 * holder of leases could mint there without repeating an id, but readers of what is
 * new are past it: see mark.c.
 *
 * False, with the trouble, if there is no telling.  While the layout differs
 * the horizon stays closed, and sessions know why.
 */
static bool
open_horizon(Trouble *trouble)
{
	ServerChange change;
	int64		 found;

	if (!bounds_are_known())
	{
		bool good;

		StartTransactionCommand(); /* to read pages */
		good = server_read_records(trouble);
		CommitTransactionCommand();
		if (!good)
			return false;
		server_compare_layout();
	}
	if (server_has_change(&change))
	{
		if (!store_change(&change, trouble))
			return false;
		server_note_change(&change);
	}
	if (bounds_are_known() || server_layout_differs())
		return true;
	positions_heed_settings();
	found = layout_first_tick_from(settings_layout(), server_horizon());
	bounds_raise(&bounds->found_horizon, found);
	bounds_raise(&bounds->latest, found);
	bounds_raise(&bounds->renew, found);
	pg_write_barrier();
	pg_atomic_write_u32(&bounds->are_known, true);
	return true;
}

/*
 * How long the next renewal is expected to take: as long as the last one.
 *
 * There is no cap, or a standby that is slower than the cap would stop minting
 * for ever.  But one long renewal may have been an accident, a standby that was
 * away for hours: beyond a minute, the shorter of the last two renewals counts.
 */
static int64 expected_us = 0;

static void
note_renewal_time(int64 us)
{
	static int64 before_us = 0;

	expected_us = Min(us, Max(before_us, CREDIBLE_RENEWAL_US));
	before_us = us;
}

/* Write the record of a horizon. */
static bool
store_horizon(TimestampTz horizon, Trouble *trouble)
{
	Record record;
	int64  began_us = steady_clock_us();

	server_make_record(&record, horizon);
	if (!store_record(&record, trouble))
		return false;
	server_note_renewal(&record);
	LWLockAcquire(horizon_lock, LW_EXCLUSIVE);
	state->view.renewed_at = GetCurrentTimestamp();
	LWLockRelease(horizon_lock);
	note_renewal_time(steady_clock_us() - began_us);
	return true;
}

/*
 * Renew the horizon, to "reserve" and an allowance after a tick: first on disk,
 * then for all.  The next renewal is due half of the reserve and two renewals
 * before sessions come to the horizon.  The sessions read the clock; the worker
 * needs none.
 *
 * If snowflake.reserve was made shorter, the horizon can be further ahead than this
 * renewal would set it.  Its record must stay, so there is nothing to do yet.
 *
 * After a crash the clock may stand before the horizon that was found.  That is on
 * disk already, so there is nothing to store until the clock has reached it; else
 * each crash would set the horizon another reserve ahead.
 *
 * Sessions see the horizon only as far as the leases reach: see positions.c.
 */
static bool
renew_horizon(int64 wanted_tick, Trouble *trouble)
{
	const Layout *layout = settings_layout();
	int64		  reserve_us = settings_reserve_ms * US_PER_MS;
	int64		  latest = (int64) pg_atomic_read_u64(&bounds->latest);

	/* sessions ask for each renewal more than once */
	if (wanted_tick >= (int64) pg_atomic_read_u64(&bounds->renew))
	{
		TimestampTz from =
			layout_time_of_tick(layout, Max(wanted_tick, latest));
		int64		tick = layout_first_tick_from(layout, from + reserve_us +
															  3 * expected_us);
		TimestampTz horizon = layout_time_of_tick(layout, tick);

		if (horizon > server_horizon() && !store_horizon(horizon, trouble))
			return false;
		bounds_raise(&bounds->renew,
					 layout_first_tick_from(layout, horizon - reserve_us / 2 -
														2 * expected_us));
	}
	positions_raise_horizon(layout_first_tick_from(layout, server_horizon()));
	return true;
}

/* --- The worker --------------------------------------------------------- */

/*
 * Open the horizon and, if a tick is wanted, renew it.  An error of the server
 * on the way is trouble like any other.
 */
static bool
try_renewal(int64 wanted_tick, Trouble *trouble)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool good = false;

	PG_TRY();
	{
		good = open_horizon(trouble) &&
			   (wanted_tick == HORIZON_OPEN_ONLY || server_layout_differs() ||
				renew_horizon(wanted_tick, trouble));
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		LWLockReleaseAll();
		XLogResetInsertion(); /* outside of transactions nobody else does */
		strlcpy(trouble->reason, error->message, sizeof(trouble->reason));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	MemoryContextReset(context); /* what an error left there */
	return good;
}

/* One attempt; tell the sessions that wait how it ended. */
static bool
attempt_renewal(int64 wanted_tick)
{
	Trouble trouble = {.kind = TROUBLE_STORING};
	bool	good;
	bool	is_news;

	pgstat_report_activity(STATE_RUNNING, "renewing the horizon");
	good = try_renewal(wanted_tick, &trouble);
	pgstat_report_activity(STATE_IDLE, NULL);
	(void) pgstat_report_stat(true); /* the WAL that was written */

	LWLockAcquire(horizon_lock, LW_EXCLUSIVE);
	is_news =
		!good && (!state->view.failed ||
				  strcmp(state->view.trouble.reason, trouble.reason) != 0);
	state->view.failed = !good;
	state->view.waits_for = WAITS_FOR_NOTHING;
	state->view.trouble = trouble;
	LWLockRelease(horizon_lock);
	worker_end_attempt(&state->worker);
	if (is_news)
		record_report(LOG, &trouble);
	return good;
}

/*
 * How far the clock is ahead of the one that nobody can set, as far as it is believed.  If
 * it was far ahead when the worker began, and was set back, the mark is not safe from a
 * leap to there until the worker begins again.
 */
static int64 ahead_us;

/*
 * The tick that readers want, or as much of it as their clock is believed.  A leap of up to
 * the reserve is believed at once, a greater one when it has lasted: by the least lead that
 * was seen meanwhile.  If the worker looks at a tick late, its clock seems to be set back:
 * so the greatest lead that was believed counts.
 */
static int64
credible_tick(int64 readers_tick)
{
	static int64  leapt_us = 0; /* by the steady clock; 0: it has not */
	static int64  leapt_to;		/* the least lead since then */
	const Layout *layout = settings_layout();
	int64		  reserve_us = settings_reserve_ms * US_PER_MS;
	int64		  steady_us = steady_clock_us();
	int64		  us = layout_time_of_tick(layout, readers_tick) - steady_us;
	int64		  tick;

	leapt_to = leapt_us == 0 ? us : Min(leapt_to, us);
	if (leapt_us != 0 && steady_us - leapt_us >= LEAP_LASTS_US)
	{
		ahead_us = Max(ahead_us, leapt_to);
		leapt_to = us;
		leapt_us = 0;
	}
	if (us - ahead_us <= reserve_us)
	{
		leapt_us = 0;
		ahead_us = Max(ahead_us, us);
		return readers_tick;
	}
	if (leapt_us == 0)
		leapt_us = steady_us;
	return layout_tick_of_time(layout, ahead_us + steady_us, &tick) ?
			   tick :
			   HORIZON_OPEN_ONLY;
}

/* What sessions want of the worker, since it looked last. */
static int64
take_wanted_tick(void)
{
	const uint64 nobody = (uint64) WANTED_BY_NOBODY;
	int64		 wanted_tick =
		(int64) pg_atomic_exchange_u64(&state->wanted_tick, nobody);
	int64 readers_tick =
		(int64) pg_atomic_exchange_u64(&state->readers_tick, nobody);

	if (readers_tick != WANTED_BY_NOBODY)
		readers_tick = credible_tick(readers_tick);
	return Max(wanted_tick, readers_tick);
}

static void
show_no_wait(void)
{
	show_wait(WAITS_FOR_NOTHING);
}

void
snowflake_horizon_main(Datum arg)
{
	worker_begin(&state->worker, show_no_wait);
	ahead_us = GetCurrentTimestamp() - steady_clock_us();

	/* record the layout; show what is wrong before anybody mints */
	(void) attempt_renewal(HORIZON_OPEN_ONLY);

	for (;;)
	{
		int64 wanted_tick;

		ResetLatch(MyLatch);
		heed_signals();
		wanted_tick = take_wanted_tick();
		if (wanted_tick == WANTED_BY_NOBODY)
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1,
							 PG_WAIT_EXTENSION);
		else if (!attempt_renewal(wanted_tick))
			pg_usleep(RETRY_DELAY_MS * US_PER_MS);
	}
}

/* What the worker does, for people. */
void
horizon_view(HorizonView *view)
{
	LWLockAcquire(horizon_lock, LW_SHARED);
	*view = state->view;
	LWLockRelease(horizon_lock);
}
