/*-------------------------------------------------------------------------
 *
 * horizon_server.h
 *	  The server that horizon.c is a part of, for horizon_cases.c and
 *	  horizon_sessions_cases.c: its settings, its disk and standbys, what it knows of itself,
 *	  its positions, and its workers for those who wait.
 *
 *-------------------------------------------------------------------------
 */
#include "horizon_system.h"

/* --- The settings -------------------------------------------------------------------- */

static Layout layout;
int			  settings_reserve_ms;

const Layout *
settings_layout(void)
{
	return &layout;
}

char *
duration_text(int64 us)
{
	return psprintf(INT64_FORMAT " us", us);
}

/* --- What fails ------------------------------------------------------------------------ */

typedef enum Step
{
	NOTHING,
	READING,
	WRITING_LAYOUT,
	LOGGING_LAYOUT,
	WRITING_HORIZON,
	LOGGING_HORIZON,
	AWAITING_STANDBY,
	STEPS
} Step;

static Step		   failing;
static bool		   as_error; /* of the server; else as trouble */
static const char *reason = "";
static bool		   leaves_trouble; /* where it finds out all the same */

static bool
fails(Step step, Trouble *trouble)
{
	if (failing != step)
		return false;
	if (as_error || trouble == NULL)
	{
		our_acquire(&locks[MARK_LOCK].lock, LW_EXCLUSIVE);
		in_insertion = true;
		elog(ERROR, "%s", reason);
	}
	*trouble = (Trouble){TROUBLE_RIGHTS, LAYOUT_RECORD};
	strlcpy(trouble->reason, reason, sizeof(trouble->reason));
	return true;
}

/* --- Records ------------------------------------------------------------------------------ */

static bool			has_change;
static ServerChange change;
static TimestampTz	on_disk[2]; /* of horizon and layout */
static TimestampTz	in_wal[2];
static XLogRecPtr	wal_end = 100;
static int64		write_takes_us;
static int64		standby_takes_us;
static int64 confirmed_us; /* when a standby has it, by the steady clock */
static int	 writes[2];
static int	 reports;
static void (*when_written)(void);

bool
record_write_file(RecordKind kind, const Record *record, Trouble *trouble)
{
	HorizonView *view = &state->view;

	PROMISE(held == NULL && !in_transaction && !in_insertion);
	PROMISE(
		kind == LAYOUT_RECORD || !is_running ||
		(view->waits_for == WAITS_FOR_DISK && view->waits_since == wall_us));
	if (kind == HORIZON_RECORD && has_change && change.stores_layout)
		PROMISE(in_wal[LAYOUT_RECORD] == change.record.horizon);
	pass(write_takes_us);
	if (when_written)
		when_written();
	if (fails(kind == LAYOUT_RECORD ? WRITING_LAYOUT : WRITING_HORIZON,
			  trouble))
		return false;
	on_disk[kind] = record->horizon;
	writes[kind]++;
	return true;
}

XLogRecPtr
record_log_page(RecordKind kind, const Record *record)
{
	PROMISE(held == NULL && !in_transaction);
	PROMISE(on_disk[kind] == record->horizon); /* the file comes first */
	(void) fails(kind == LAYOUT_RECORD ? LOGGING_LAYOUT : LOGGING_HORIZON,
				 NULL);
	in_wal[kind] = record->horizon;
	wal_end++;
	if (kind == LAYOUT_RECORD)
		return wal_end;
	poll_from_us = steady_us;
	confirmed_us = steady_us + standby_takes_us;
	wants_interrupt = failing == AWAITING_STANDBY;
	return wal_end;
}

static int looks_at_standby;

bool
record_awaits_standby(XLogRecPtr lsn)
{
	bool waits = steady_us < confirmed_us;

	stop_after(&looks_at_standby, 100000);
	PROMISE(lsn == wal_end);
	if (waits && steady_us > poll_from_us)
		PROMISE(state->view.waits_for == WAITS_FOR_STANDBY);
	if (!waits)
		looks_at_standby = 0;
	return waits;
}

void
record_report(int level, const Trouble *trouble)
{
	PROMISE(held == NULL);
	if (level >= ERROR)
		elog(ERROR, "%s", trouble->reason);
	PROMISE(level == LOG);
	PROMISE(strcmp(trouble->reason, reason) == 0);
	reports++;
}

/* --- What is known of the server ------------------------------------------------------------ */

static TimestampTz found; /* in the records */
static TimestampTz known;
static bool		   is_other; /* the layout that is found */
static bool		   differs;	 /* it is known to */
static int		   reads;
static int		   notes;
static int		   heeds;

bool
server_read_records(Trouble *trouble)
{
	PROMISE(in_transaction && held == NULL);
	reads++;
	if (fails(READING, trouble))
		return false;
	if (leaves_trouble)
		strlcpy(trouble->reason, reason, sizeof(trouble->reason));
	known = found;
	return true;
}

void
server_compare_layout(void)
{
	PROMISE(!in_transaction && reads > 0);
	differs = is_other;
}

bool
server_layout_differs(void)
{
	return differs;
}

bool
server_has_change(ServerChange *stored)
{
	PROMISE(!in_transaction);
	PROMISE(reads > 0 || bounds_are_known());
	*stored = change;
	return has_change;
}

static bool
is_safe(RecordKind kind, TimestampTz horizon)
{
	return on_disk[kind] == horizon && in_wal[kind] == horizon &&
		   (kind == LAYOUT_RECORD || steady_us >= confirmed_us);
}

void
server_note_change(const ServerChange *noted)
{
	TimestampTz horizon = noted->record.horizon;

	PROMISE(!noted->stores_layout || is_safe(LAYOUT_RECORD, horizon));
	PROMISE(!noted->stores_record || is_safe(HORIZON_RECORD, horizon));
	has_change = false;
	notes++;
}

TimestampTz
server_horizon(void)
{
	return known;
}

void
server_make_record(Record *record, TimestampTz horizon)
{
	memset(record, 0, sizeof(*record));
	record->horizon = horizon;
}

void
server_note_renewal(const Record *record)
{
	PROMISE(is_safe(HORIZON_RECORD, record->horizon));
	known = record->horizon;
}

/* --- Positions ------------------------------------------------------------------------------- */

static int64 published;

void
positions_heed_settings(void)
{
	PROMISE(!bounds_are_known());
	heeds++;
}

/* All ids before it are of times before the horizon on disk. */
void
positions_raise_horizon(int64 tick)
{
	PROMISE(bounds_are_known() && held == NULL);
	PROMISE(tick == 0 || layout_time_of_tick(&layout, tick - 1) < known);
	published = tick;
}

/* --- What workers are for sessions ----------------------------------------------------------- */

static Worker *made;
static Latch   latch;
static int	   wakes;
static int	   waits;
static int	   looks_at_wait;
static bool	   is_prepared; /* to sleep */
static int	   checks;		/* of the worker; with patience, they count 10 */
static void (*when_waited)(void);

void
worker_shmem_startup(Worker *worker)
{
	made = worker;
	worker->latch = NULL;
	pg_atomic_init_u64(&worker->attempts, 0);
}

void
worker_begin(Worker *worker, void (*forget)(void))
{
	worker->latch = &latch;
	at_worker_exit = forget;
}

void
worker_end_attempt(Worker *worker)
{
	PROMISE(held == NULL && !is_running);
	pg_atomic_fetch_add_u64(&worker->attempts, 1);
}

void
worker_wake(const Worker *worker)
{
	is_latch_set = true;
	wakes++;
}

bool
worker_begin_wait(Worker *worker, WorkerWait *wait)
{
	stop_after(&looks_at_wait, 100000);
	if (wait->begun)
		return false;
	wait->begun = is_prepared = true;
	wait->attempts = pg_atomic_read_u64(&worker->attempts);
	return true;
}

void
worker_wait(Worker *worker, WorkerWait *wait, WaitName *event)
{
	stop_after(&waits, 1000);
	PROMISE(held == NULL && is_prepared);
	PROMISE(strcmp(event->name, "SnowflakeHorizon") == 0);
	wait->waited_us += USECS_PER_SEC;
	if (when_waited)
		when_waited();
}

int64
worker_end_wait(const WorkerWait *wait)
{
	is_prepared = false;
	return wait->waited_us;
}

void
worker_check(Worker *worker, bool patient)
{
	checks += patient ? 10 : 1;
}

/* --- A server ----------------------------------------------------------------- */

/* In ticks of 1 ms, 10 ms and 1 s. */
static const char *const layouts[] = {
	"epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,shard:10,sequence:12",
	"epoch=2024-01-01T00:00:00.123Z unit=10ms fields=timestamp:39,sequence:8,shard:16",
	"epoch=2030-01-01T00:00:00Z unit=1s fields=timestamp:35,shard:2"};

static TimestampTz
time_of(int64 tick)
{
	return layout.epoch + tick * layout.tick_us;
}

static bool
is_wanted_by_nobody(void)
{
	return bound_of(&state->wanted_tick) == WANTED_BY_NOBODY &&
		   bound_of(&state->readers_tick) == WANTED_BY_NOBODY;
}

static void
begin_with(const char *layout_text)
{
	LayoutError error;

	CHECK(layout_parse(layout_text, strlen(layout_text), &layout, &error));
	settings_reserve_ms = 1000;
	broken[0] = '\0';
}

/* A server starts, at ten days after the epoch. */
static void
begin(void)
{
	memset(&all_bounds, 0, sizeof(all_bounds));
	memset(memory, 0x55, sizeof(memory));
	memset(on_disk, 0, sizeof(on_disk));
	memset(in_wal, 0, sizeof(in_wal));
	memset(writes, 0, sizeof(writes));
	memset(&change, 0, sizeof(change));
	wall_us = layout.epoch + 10 * USECS_PER_DAY;
	known = found = DT_NOBEGIN;
	is_other = differs = has_change = leaves_trouble = false;
	failing = NOTHING;
	reason = "";
	write_takes_us = standby_takes_us = confirmed_us = 0;
	reads = notes = heeds = reports = barriers = published = 0;
	wakes = waits = reloads = sleeps = 0;
	locks_taken = looks_at_wait = 0;
	is_latch_set = is_prepared = false;
	at_exit = NULL;
	horizon_lock = NULL;
	made = NULL;
	horizon_shmem_startup();
	CHECK(made == &state->worker);
	memcpy(&seen, &state->view, sizeof(seen));
	state->worker.latch = &latch;
}
