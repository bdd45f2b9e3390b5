/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  The bounds between which ids are minted, the upper one kept on disk.
 *
 * What shards remember dies with the server, and when it starts again the
 * clock may have been set back.  So no id is minted in a tick that is not
 * before the horizon, a time that is already on disk; and a server that
 * starts, is promoted or was restored mints nothing before the horizon that
 * it finds.  What was or may have been minted lies below that time, what will
 * be minted lies above: that is the whole argument, and it needs no clock.
 *
 * The protocol.  One background worker alone moves the horizon, to "reserve"
 * after the tick in which somebody mints who asks for it:
 *
 *	1. The record (the horizon, the layout and who writes it) is written to a
 *	   temporary file, fsynced, and renamed to snowflake.horizon, and the
 *	   directory fsynced: see record.c.
 *	2. The same record is logged as a page image (see below), flushed, and,
 *	   as synchronous_commit says of every commit, awaited on the standbys.
 *	3. Only then Bounds.horizon is raised to it.
 *
 * What each reader may assume:
 *	- A backend that sees Bounds.horizon = H knows that a record of H or later
 *	  survives this server, in the file and in the WAL.  It may mint in any
 *	  tick before H, however long it dawdles: the record never goes down while
 *	  a backend lives.
 *	- A server that starts reads the file in the postmaster, before anybody
 *	  can connect.  The worker, once recovery has ended, looks at the page as
 *	  well, raises Bounds.latest to the later of the two, and only then
 *	  publishes a first horizon.  Until it has, Bounds.horizon is 0 and nobody
 *	  mints.  A backend reads the horizon before it reads the latest tick, so
 *	  one that sees a horizon sees the floor that goes with it.
 *	- A server that is shut down, in whatever mode, lowers the record to what
 *	  was minted, in the postmaster's last moments, when every backend has gone.
 *
 * Hence no interleaving mints past what is stored: minting in tick t needs a
 * published H > t, publishing needs the record of H on disk, and whoever reads
 * that record later starts at H.  A worker that dies between two steps leaves
 * a record that is too high, which costs at most a wait.
 *
 * The page.  A physical standby does not get the file; it gets the WAL.  The
 * record is therefore logged as a full page image of a page of no table: block
 * 0 of a relation of the global tablespace whose number neither initdb nor the
 * server ever assigns.  Replaying it is the server's own business, with or
 * without this library.  The primary never looks at that page; a server that
 * was promoted or recovered finds in it the last horizon that was logged.  (The
 * time of the last replayed commit would not do: a primary whose clock was set
 * back goes on committing with early times.  A replication origin's progress
 * would, but a standby with fewer slots could not replay it.)
 *
 * The guard.  The record says who wrote it.  A server that starts and finds
 * somebody else there may be a copy whose twin mints the same ids: see
 * identity.c for what tells one.  The postmaster stores what it found before
 * recovery can take the evidence away.  The worker gives a server that was
 * promoted a new identity, and stores what somebody accepted, a copy or another
 * layout, before it publishes a horizon.  Either way the record's horizon stays
 * what it is.
 *
 * A note about locking:
 *	- Bounds are atomics that only grow.  "latest" is raised by those who mint,
 *	  the others by the worker alone.
 *	- HorizonState is written under its spinlock, by the postmaster when it is
 *	  alone, then by the worker, but for "wanted_tick" and what backends accept,
 *	  which they set.  It is read under the lock, except by the worker, and
 *	  except for "other_layout" and "is_copy", each a word by itself.
 *	- "attempted" is broadcast after each attempt to move the horizon.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_tablespace_d.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/smgr.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "horizon.h"
#include "identity.h"
#include "layout.h"
#include "record.h"
#include "report.h"
#include "settings.h"
#include "wait.h"

PG_FUNCTION_INFO_V1(snowflake_horizon);
PG_FUNCTION_INFO_V1(snowflake_accept_layout);
PG_FUNCTION_INFO_V1(snowflake_accept_clone);

/*
 * The relation that bears the page.  initdb gives shared relations numbers
 * below 10000, the server gives new ones numbers from 16384 on.
 */
#define HORIZON_RELATION 11111

/* How long a caller waits for the worker before it asks again. */
#define HORIZON_WAIT_US INT64CONST(1000000)

/* How long a worker that died is waited for; it is back after a second. */
#define WORKER_PATIENCE_US INT64CONST(5000000)

/* A worker that failed leaves the disk alone for so long. */
#define RETRY_DELAY_MS 100

/* From when on the log tells that the layout's times run out. */
#define EXPIRY_NOTICE_US (USECS_PER_DAY * 2 * 365)

/* What a renewal may last, and those who mint not come to the horizon. */
#define MAX_ALLOWANCE_US INT64CONST(10000000)

typedef enum HorizonStage
{
	STAGE_CLOSED, /* the record is known, or known to be missing */
	STAGE_BROKEN, /* there is a record, and it cannot be read */
	STAGE_OPEN	  /* the floor is in force */
} HorizonStage;

typedef struct HorizonState
{
	slock_t		 lock;
	HorizonStage stage;
	TimestampTz	 horizon; /* of the last record read or written */
	char		 recorded_layout[LAYOUT_TEXT_SIZE]; /* empty: no record */
	uint32		 recorded_changes;					/* of the layout so far */
	bool		 other_layout; /* than ours is the recorded one */
	TimestampTz	 renewed_at;   /* 0: not since start */
	int64	  wanted_tick; /* in which somebody is about to mint; -1: nobody */
	bool	  accept_layout; /* somebody accepted the change of layout */
	StartMode start;		 /* as the data directory asked for */
	Identity  self;			 /* who we are, as far as is known */
	bool	  is_copy;		 /* identity_is_copy() of it */
	bool	  accept_copy;	 /* somebody accepted that we are one */
	bool	  is_unsaved;	 /* the file or the WAL has another identity */
	uint64	  attempts;		 /* to move the horizon, ended */
	bool	  failed;		 /* the last one did */
	char	  reason[256];
	Latch	 *worker; /* NULL while there is none */
	ConditionVariable attempted;
} HorizonState;

typedef struct HorizonShared
{
	union
	{
		Bounds bounds;
		char   padding[PG_CACHE_LINE_SIZE];
	} hot;
	HorizonState state;
} HorizonShared;

StaticAssertDecl(sizeof(Bounds) <= PG_CACHE_LINE_SIZE,
				 "the bounds fit a cache line");

Bounds				*horizon_bounds = NULL;
static HorizonState *state = NULL;

/*-------------------------------------------------------------------------
 * The page
 *-------------------------------------------------------------------------
 */

/* Log the record, and wait for it as a commit would. */
static void
log_record(const HorizonRecord *record)
{
	PGAlignedBlock block;
	Page		   page = (Page) block.data;
	RelFileLocator locator = {GLOBALTABLESPACE_OID, InvalidOid,
							  HORIZON_RELATION};
	XLogRecPtr	   lsn;

	if (!XLogIsNeeded())
		return; /* nobody can replay this server's WAL elsewhere */
	PageInit(page, BLCKSZ, 0);
	memcpy(PageGetContents(page), record, sizeof(*record));
	((PageHeader) page)->pd_lower =
		PageGetContents(page) + sizeof(*record) - block.data;
	lsn = log_newpage(&locator, MAIN_FORKNUM, 0, page, true);
	XLogFlush(lsn);

	HOLD_INTERRUPTS();
	SyncRepWaitForLSN(lsn, true);
	RESUME_INTERRUPTS();

	/*
	 * A wait that was cut short must not count.  A shutdown sets both flags,
	 * but the postmaster's death only the one.
	 */
	if (ProcDiePending)
		InterruptPending = true;
	CHECK_FOR_INTERRUPTS();
}

/* The last record that this server replayed; as record_read_file() does. */
static bool
read_page(HorizonRecord *record, bool *found, char *reason, size_t size)
{
	RelFileLocator locator = {GLOBALTABLESPACE_OID, InvalidOid,
							  HORIZON_RELATION};
	SMgrRelation   relation = smgropen(locator, INVALID_PROC_NUMBER);
	Buffer		   buffer;
	Page		   page;
	char		   why[128];
	bool		   good;

	*found = false;
	if (!smgrexists(relation, MAIN_FORKNUM) ||
		smgrnblocks(relation, MAIN_FORKNUM) == 0)
		return true;
	buffer = ReadBufferWithoutRelcache(locator, MAIN_FORKNUM, 0, RBM_NORMAL,
									   NULL, true);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	good = record_parse(record, PageGetContents(page),
						(char *) page + ((PageHeader) page)->pd_lower -
							PageGetContents(page),
						why, sizeof(why));
	UnlockReleaseBuffer(buffer);
	if (!good)
		snprintf(reason, size,
				 "could not use page 0 of file \"global/%u\": %s",
				 HORIZON_RELATION, why);
	*found = good;
	return good;
}

/*-------------------------------------------------------------------------
 * Shared memory
 *-------------------------------------------------------------------------
 */

/*
 * Does the record tell the layout, rather than the one before?  Their horizons
 * do not say which is the later one: the file of a base backup may have a high
 * one, and a clean stop lowers it.  So changes are counted.
 */
static bool
tells_layout(const HorizonRecord *record)
{
	return record->changes > state->recorded_changes ||
		   (record->changes == state->recorded_changes &&
			record->horizon >= state->horizon);
}

/*
 * Take note of a record, or of a failure to read one.  Of two records the later
 * horizon counts.  The caller is alone or the worker.
 */
static HorizonStage
note_record(bool readable, bool found, const HorizonRecord *record)
{
	SpinLockAcquire(&state->lock);
	state->stage = readable ? STAGE_CLOSED : STAGE_BROKEN;
	if (readable && found)
	{
		if (tells_layout(record))
		{
			state->recorded_changes = record->changes;
			memcpy(state->recorded_layout, record->layout,
				   sizeof(state->recorded_layout));
		}
		state->horizon = Max(state->horizon, record->horizon);
	}
	SpinLockRelease(&state->lock);
	return state->stage;
}

/* Take note whether the recorded layout is another one than ours. */
static void
compare_layout(void)
{
	char ours[LAYOUT_TEXT_SIZE];
	bool other;

	layout_format(settings_layout(), ours, sizeof(ours));
	other = state->recorded_layout[0] != '\0' &&
			strcmp(state->recorded_layout, ours) != 0;
	SpinLockAcquire(&state->lock);
	state->other_layout = other;
	SpinLockRelease(&state->lock);
}

/* A record of the settings' layout, by this server. */
static void
make_record(HorizonRecord *record, TimestampTz horizon)
{
	char layout[LAYOUT_TEXT_SIZE];

	layout_format(settings_layout(), layout, sizeof(layout));
	record_make(record, horizon, layout, state->recorded_changes,
				&state->self);
}

/* Say that we are a copy: in the log, or as an error to who must not mint. */
static void
report_copy(int level, const Identity *self)
{
	char us[IDENTITY_NUMBER_SIZE];
	char them[IDENTITY_NUMBER_SIZE];

	identity_format_number(self->incarnation, us);
	identity_format_number(self->clone_of, them);
	ereport(
		level,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg("this server is a copy of one that has minted ids"),
		 errdetail("It is incarnation %s, a copy of %s: %s.", us, them,
				   self->evidence),
		 errhint(
			 "Give it other shards than its original's. When it has them, or when the original is gone for good, call snowflake_accept_clone().")));
}

/* Take note of who we are.  That this is a copy is said as it turns out. */
static void
note_identity(const Identity *self, bool is_unsaved)
{
	bool was_copy = state->is_copy;

	SpinLockAcquire(&state->lock);
	state->self = *self;
	state->is_copy = identity_is_copy(self);
	state->is_unsaved = is_unsaved;
	SpinLockRelease(&state->lock);
	if (state->is_copy && !was_copy)
		report_copy(LOG, self);
}

/*
 * Take note of the file's record, or of a failure to read it, and make out
 * who we are.
 */
static HorizonStage
note_file(bool readable, bool found, const HorizonRecord *record)
{
	HorizonStage stage = note_record(readable, found, record);
	Identity	 self = state->self;

	if (readable && found)
	{
		identity_recognise(&self, &record->writer, state->start);
		note_identity(&self,
					  memcmp(&self, &record->writer, sizeof(self)) != 0);
	}
	return stage;
}

static void
report_trouble(const char *reason)
{
	ereport(LOG, (errcode(ERRCODE_IO_ERROR),
				  errmsg("cannot mint snowflake ids: %s", reason)));
}

/*
 * In the postmaster's last moments every backend has gone, after an immediate
 * shutdown as well, so that nothing is minted after what has been.
 */
static void
close_cleanly(int code, Datum arg)
{
	const Layout *layout = settings_layout();
	HorizonRecord record;
	char		  reason[256];
	int64		  latest = (int64) pg_atomic_read_u64(&horizon_bounds->latest);

	/* without a tick between the bounds nothing was minted */
	if (code != 0 ||
		(int64) pg_atomic_read_u64(&horizon_bounds->horizon) <= latest)
		return;
	make_record(&record, layout_time_of_tick(layout, latest + 1));
	if (!record_write_file(&record, reason, sizeof(reason)))
		report_trouble(reason);
}

Size
horizon_shmem_size(void)
{
	return add_size(sizeof(HorizonShared), PG_CACHE_LINE_SIZE);
}

void
horizon_shmem_startup(void)
{
	bool		   found;
	HorizonShared *shared;
	HorizonRecord  record;
	char		   reason[256];
	bool		   readable;

	shared =
		ShmemInitStruct("snowflake horizon", horizon_shmem_size(), &found);
	shared = (HorizonShared *) TYPEALIGN(PG_CACHE_LINE_SIZE, shared);
	horizon_bounds = &shared->hot.bounds;
	state = &shared->state;
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	pg_atomic_init_u64(&horizon_bounds->latest, 0);
	pg_atomic_init_u64(&horizon_bounds->horizon, 0);
	pg_atomic_init_u64(&horizon_bounds->renew, 0);
	SpinLockInit(&state->lock);
	ConditionVariableInit(&state->attempted);
	state->horizon = DT_NOBEGIN;
	state->wanted_tick = -1;
	state->start = identity_start_mode();
	identity_look_around(&state->self);

	readable = record_read_file(&record, &found, reason, sizeof(reason));
	if (note_file(readable, found, &record) == STAGE_BROKEN)
		report_trouble(reason);
	else if (state->is_unsaved && state->self.incarnation != 0)
	{
		record_make(&record, state->horizon, state->recorded_layout,
					state->recorded_changes, &state->self);
		if (!record_write_file(&record, reason, sizeof(reason)))
			report_trouble(reason);
	}
	if (state->start == START_ALONE) /* else the file is as old as a backup */
		compare_layout();
	if (!IsUnderPostmaster)
		on_shmem_exit(close_cleanly, (Datum) 0);
}

/*-------------------------------------------------------------------------
 * What those who mint and read use
 *-------------------------------------------------------------------------
 */

/*
 * The cluster's layout.  An error where the library was not preloaded, and
 * where the data directory has minted with another layout: what it holds would
 * be misread, and what is minted would not fit to it.
 */
const Layout *
cluster_layout(void)
{
	const Layout *layout = settings_layout();
	char		  ours[LAYOUT_TEXT_SIZE];
	char		  theirs[LAYOUT_TEXT_SIZE];

	/* a word that changes hardly ever, and is looked at again under the lock */
	if (likely(!state->other_layout))
		return layout;
	layout_format(layout, ours, sizeof(ours));
	SpinLockAcquire(&state->lock);
	strlcpy(theirs, state->recorded_layout, sizeof(theirs));
	SpinLockRelease(&state->lock);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server has minted ids with another layout"),
			 errdetail("\"snowflake.layout\" is \"%s\", and the ids were "
					   "minted with \"%s\".",
					   ours, theirs),
			 errhint(
				 "Set \"snowflake.layout\" back and restart the server. To "
				 "go on with the new layout, call "
				 "snowflake_accept_layout(); to read an id, name its "
				 "layout.")));
	return NULL; /* keep compiler quiet */
}

/*
 * An error where minting is not for copies, and this is one.  Whether it is
 * one is known before there is a horizon; who waited for that looks again.
 */
void
refuse_to_mint_as_copy(void)
{
	Identity self;

	if (likely(!state->is_copy) || !settings_refuse_clone)
		return;
	SpinLockAcquire(&state->lock);
	self = state->self;
	SpinLockRelease(&state->lock);
	if (identity_is_copy(&self))
		report_copy(ERROR, &self);
}

/*
 * Ask the worker to move the horizon past a tick.  May be called often; the
 * worker comes when it has time.
 */
void
horizon_ask_for_renewal(int64 tick)
{
	Latch *worker;

	SpinLockAcquire(&state->lock);
	state->wanted_tick = Max(state->wanted_tick, tick);
	worker = state->worker;
	SpinLockRelease(&state->lock);
	if (worker != NULL)
		SetLatch(worker);
}

static bool
has_worker(void)
{
	bool there;

	SpinLockAcquire(&state->lock);
	there = state->worker != NULL;
	SpinLockRelease(&state->lock);
	return there;
}

/*
 * Raise an error if the caller has waited without a worker for so long that
 * one that died would be back.
 */
static void
report_missing_worker(HorizonWait *wait)
{
	if (has_worker())
		wait->last_worker_us = wait->waited_us;
	else if (wait->waited_us - wait->last_worker_us > WORKER_PATIENCE_US)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake's background worker is not running"),
			 errhint(
				 "Raise \"max_worker_processes\" and restart the server.")));
}

/* Raise the last attempt's error, if it failed and ended after the given. */
static void
report_failure(uint64 since_attempt)
{
	bool failed;
	bool broken;
	char reason[sizeof(state->reason)];

	SpinLockAcquire(&state->lock);
	failed = state->failed && state->attempts > since_attempt;
	broken = state->stage == STAGE_BROKEN;
	strlcpy(reason, state->reason, sizeof(reason));
	SpinLockRelease(&state->lock);
	if (!failed)
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_IO_ERROR), errmsg("cannot mint ids: %s", reason),
		 errdetail("No id is minted unless the time up to which ids may be "
				   "minted is on disk."),
		 broken ? errhint("Restore the file, or make sure that the clock is "
						  "past the newest id and remove it. Minting goes on "
						  "with the next call.") :
				  errhint("Minting goes on by itself when the file can be "
						  "written.")));
}

/*
 * Wait for the worker's next attempt to end, having asked for it; in a loop
 * until what the caller waits for has come.  Raises what went wrong.
 */
void
horizon_wait(HorizonWait *wait, int64 tick)
{
	static uint32 event = 0;

	if (event == 0)
		event = named_wait_event("SnowflakeHorizon");
	if (!wait->begun)
	{
		wait->begun = true;
		SpinLockAcquire(&state->lock);
		wait->attempts = state->attempts;
		SpinLockRelease(&state->lock);
		/* the caller looks again at what it waits for before it sleeps */
		ConditionVariablePrepareToSleep(&state->attempted);
		return;
	}
	report_failure(wait->attempts);
	report_missing_worker(wait);
	horizon_ask_for_renewal(tick);
	wait->waited_us +=
		wait_outside_locks(HORIZON_WAIT_US, event, &state->attempted);
}

/*-------------------------------------------------------------------------
 * The worker
 *-------------------------------------------------------------------------
 */

static void
raise_bound(pg_atomic_uint64 *bound, int64 tick)
{
	uint64 present = pg_atomic_read_u64(bound);

	while ((int64) present < tick &&
		   !pg_atomic_compare_exchange_u64(bound, &present, (uint64) tick))
		;
}

/* The first tick that does not begin before a time, from 0 up. */
static int64
first_tick_from(const Layout *layout, TimestampTz time)
{
	int64 tick;

	if (TIMESTAMP_IS_NOBEGIN(time))
		return 0;
	if (!layout_tick_of_time(layout, time, &tick))
		return time < layout->epoch ? 0 : layout->last_mint_tick + 1;
	if (layout_time_of_tick(layout, tick) < time)
		tick++;
	return Min(Max(tick, 0), layout->last_mint_tick + 1);
}

/*
 * Read what is on disk: the file, if the postmaster could not, and the page.
 * False, with the reason, as long as there is no telling.
 */
static bool
read_records(char *reason, size_t size)
{
	HorizonRecord record;
	TimestampTz	  in_file;
	Identity	  self;
	bool		  readable;
	bool		  found;

	if (state->stage == STAGE_BROKEN)
	{
		readable = record_read_file(&record, &found, reason, size);
		if (note_file(readable, found, &record) == STAGE_BROKEN)
			return false;
	}
	in_file = state->horizon;
	readable = read_page(&record, &found, reason, size);
	if (note_record(readable, found, &record) == STAGE_BROKEN)
		return false;
	if (!found)
		return true;

	/*
	 * Which of a standby's two records is the later one to tell of its
	 * primary, their horizons do not say: a clean stop lowers the file's.
	 */
	self = state->self;
	if (self.standby && record.writer.changes > self.changes)
		identity_follow(&self, &record.writer);
	else if (self.incarnation == 0)
	{
		identity_forget_place(&record.writer);
		identity_recognise(&self, &record.writer, state->start);
	}

	/* the file may be copied without the page, by pg_rewind for one */
	note_identity(&self, state->is_unsaved || record.horizon > in_file);
	return true;
}

/* Have a record on disk and logged. */
static bool
store_record(const HorizonRecord *record, char *reason, size_t size)
{
	if (!record_write_file(record, reason, size))
		return false;
	log_record(record);
	return true;
}

/*
 * Be who we are on disk, before there is a horizon: anew, if this server is
 * new or was promoted, and no copy any more, if that was accepted.  Likewise
 * the layout is ours, if that was accepted.  The horizon stays what it is.
 * Before the first one there is nothing to store.
 */
static bool
settle(char *reason, size_t size)
{
	HorizonRecord record;
	Identity	  self = state->self;
	char		  layout[LAYOUT_TEXT_SIZE];
	uint32		  changes = state->recorded_changes;
	bool		  accept_copy = state->accept_copy;
	bool		  accept_layout = state->accept_layout;
	bool		  is_new = self.incarnation == 0 || self.standby;

	strlcpy(layout, state->recorded_layout, sizeof(layout));
	if (is_new)
		identity_begin_anew(&self);
	if (accept_copy)
		identity_accept(&self);
	if (accept_layout)
	{
		changes++;
		layout_format(settings_layout(), layout, sizeof(layout));
	}
	if (!is_new && !accept_copy && !accept_layout && !state->is_unsaved)
		return true;
	record_make(&record, state->horizon, layout, changes, &self);
	if (!TIMESTAMP_IS_NOBEGIN(state->horizon) &&
		!store_record(&record, reason, size))
		return false;
	note_identity(&self, false);

	SpinLockAcquire(&state->lock);
	memcpy(state->recorded_layout, layout, sizeof(layout));
	state->recorded_changes = changes;
	state->other_layout &= !accept_layout;
	state->accept_layout &= !accept_layout;
	state->accept_copy &= !accept_copy;
	SpinLockRelease(&state->lock);
	return true;
}

/*
 * Put the floor in force: nothing is minted before the later one of the two
 * records.  False, with the reason, as long as there is no telling.
 */
static bool
open_horizon(char *reason, size_t size)
{
	if (state->stage != STAGE_OPEN)
	{
		bool good = read_records(reason, size);

		compare_layout();
		if (!good)
			return false;
	}
	if (!settle(reason, size))
		return false;
	if (state->stage == STAGE_OPEN)
		return true;
	if (state->other_layout)
	{
		snprintf(reason, size, "the layout has changed");
		return false;
	}
	raise_bound(&horizon_bounds->latest,
				first_tick_from(settings_layout(), state->horizon));
	SpinLockAcquire(&state->lock);
	state->stage = STAGE_OPEN;
	SpinLockRelease(&state->lock);
	return true;
}

/*
 * Say that the layout will run out of times, once a day from two years before
 * on: a change of layout takes preparation.
 */
static void
warn_of_expiry(const Layout *layout, TimestampTz horizon)
{
	static pg_atomic_uint64 log_after; /* the worker's alone, 0 at first */
	TimestampTz last = layout_time_of_tick(layout, layout->last_mint_tick);
	char		name[LAYOUT_TEXT_SIZE];
	char		at[LAYOUT_TIME_SIZE];

	if (last - horizon >= EXPIRY_NOTICE_US ||
		!may_log_now(&log_after, USECS_PER_DAY))
		return;
	layout_describe(layout, name, sizeof(name));
	layout_format_time(last, at, sizeof(at));
	ereport(LOG,
			(errmsg("the times of snowflake ids run out at %s", at),
			 errdetail("That is the last one that layout \"%s\" can hold. "
					   "Minting stops there.",
					   name),
			 errhint("Plan the change to another layout.")));
}

/* A record is on disk and logged: let snowflake_horizon() show it. */
static void
note_renewal(const HorizonRecord *record)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&state->lock);
	state->horizon = record->horizon;
	memcpy(state->recorded_layout, record->layout,
		   sizeof(state->recorded_layout));
	state->renewed_at = now;
	SpinLockRelease(&state->lock);
}

/*
 * Move the horizon to "reserve" after a tick, and by what a renewal lasts
 * further: on disk first, then for all.  The next one is due when half of the
 * reserve has passed, and so is done before those who mint come to the horizon.
 * Without the allowance a renewal that lasts longer than the reserve would end
 * with a horizon that is over.  The clock is theirs who mint; the worker needs
 * none.
 *
 * A reserve that was made shorter can ask for an earlier horizon than the one
 * that is published.  Its record must stay, so there is nothing to do yet.
 */
static bool
renew_horizon(int64 wanted_tick, char *reason, size_t size)
{
	static int64  allowance_us = 0;
	const Layout *layout = settings_layout();
	int64		  reserve_us = settings_reserve_ms() * INT64CONST(1000);
	int64		  latest = (int64) pg_atomic_read_u64(&horizon_bounds->latest);
	int64 present = (int64) pg_atomic_read_u64(&horizon_bounds->horizon);
	int64 from_tick = Max(wanted_tick, latest);
	int64 tick =
		first_tick_from(layout, layout_time_of_tick(layout, from_tick) +
									reserve_us + allowance_us);
	TimestampTz	  horizon = layout_time_of_tick(layout, Max(tick, present));
	HorizonRecord record;

	/*
	 * Who asks first after a crash may stand before the floor.  It is on disk
	 * already, so there is nothing to move until the clock has come there;
	 * else each crash would move it on by a reserve.
	 */
	if (present == 0 && wanted_tick < latest)
	{
		raise_bound(&horizon_bounds->horizon, latest);
		return true;
	}

	/* those who mint ask for each renewal more than once */
	if (from_tick < (int64) pg_atomic_read_u64(&horizon_bounds->renew))
		return true;

	if (tick > present)
	{
		instr_time began;
		instr_time lasted;

		INSTR_TIME_SET_CURRENT(began);
		make_record(&record, horizon);
		if (!store_record(&record, reason, size))
			return false;
		note_renewal(&record);
		warn_of_expiry(layout, horizon);
		INSTR_TIME_SET_CURRENT(lasted);
		INSTR_TIME_SUBTRACT(lasted, began);
		allowance_us =
			Min(2 * INSTR_TIME_GET_MICROSEC(lasted), MAX_ALLOWANCE_US);
	}
	raise_bound(&horizon_bounds->renew,
				first_tick_from(layout,
								horizon - reserve_us / 2 - allowance_us));
	raise_bound(&horizon_bounds->horizon, tick);
	return true;
}

/* Let go of what a failed attempt held.  An owner that did cannot be reused. */
static void
renew_resource_owner(void)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = NULL;
	if (owner != NULL) /* else the worker begins */
	{
		ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false,
							 true);
		ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, false, true);
		ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, false, true);
		ResourceOwnerDelete(owner);
	}
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "snowflake horizon");
}

/*
 * Open and, if a tick is wanted, renew.  What the server raises as an error on
 * the way, a page that cannot be read for one, is a reason like any other.
 */
static bool
try_to_renew(int64 wanted_tick, char *reason, size_t size)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool good = false;

	PG_TRY();
	{
		good = open_horizon(reason, size) &&
			   (wanted_tick < 0 || renew_horizon(wanted_tick, reason, size));
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		LWLockReleaseAll();
		abort_buffer_io(); /* or the next attempt waits for it for ever */
		UnlockBuffers();
		renew_resource_owner();
		strlcpy(reason, error->message, size);
		FreeErrorData(error);
	}
	PG_END_TRY();
	return good;
}

/* One attempt, and word of it to those who wait. */
static bool
attempt(int64 wanted_tick)
{
	char reason[sizeof(state->reason)] = "";
	bool good = try_to_renew(wanted_tick, reason, sizeof(reason));
	bool news;

	SpinLockAcquire(&state->lock);
	news = !good && strcmp(state->reason, reason) != 0;
	state->attempts++;
	state->failed = !good;
	strlcpy(state->reason, reason, sizeof(state->reason));
	SpinLockRelease(&state->lock);
	ConditionVariableBroadcast(&state->attempted);
	if (news)
		report_trouble(reason);
	MemoryContextReset(CurrentMemoryContext); /* what an error left there */
	return good;
}

static void
retire(int code, Datum arg)
{
	SpinLockAcquire(&state->lock);
	state->worker = NULL;
	SpinLockRelease(&state->lock);
}

/* What was asked for since the last time; -1 for nothing. */
static int64
take_wanted_tick(void)
{
	int64 tick;

	SpinLockAcquire(&state->lock);
	tick = state->wanted_tick;
	state->wanted_tick = -1;
	SpinLockRelease(&state->lock);
	return tick;
}

void
snowflake_horizon_main(Datum arg)
{
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext,
												"snowflake horizon",
												ALLOCSET_DEFAULT_SIZES));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	renew_resource_owner();

	on_shmem_exit(retire, (Datum) 0);
	SpinLockAcquire(&state->lock);
	state->worker = MyLatch;
	SpinLockRelease(&state->lock);

	/* what is wrong with the records shows before anybody mints */
	(void) attempt(-1);

	for (;;)
	{
		int64 wanted_tick;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		wanted_tick = take_wanted_tick();
		if (wanted_tick >= 0 && !attempt(wanted_tick))
			pg_usleep(RETRY_DELAY_MS * 1000L);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

void
horizon_register_worker(void)
{
	BackgroundWorker worker = {0};

	strlcpy(worker.bgw_name, "snowflake horizon", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "snowflake horizon", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "snowflake", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "snowflake_horizon_main", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}

/*-------------------------------------------------------------------------
 * SQL
 *-------------------------------------------------------------------------
 */

static const Oid horizon_columns[] = {TIMESTAMPTZOID, FLOAT8OID,
									  TIMESTAMPTZOID, TEXTOID,
									  TEXTOID,		  TEXTOID,
									  TEXTOID};

#define HORIZON_COLUMNS lengthof(horizon_columns)

/* The horizon as it is on disk, and who stored it. */
Datum
snowflake_horizon(PG_FUNCTION_ARGS)
{
	TupleDesc	row = result_row(fcinfo, horizon_columns, HORIZON_COLUMNS);
	TimestampTz horizon;
	TimestampTz renewed_at;
	Identity	self;
	bool		failed;
	bool		is_copy;
	char		reason[sizeof(state->reason)];
	char		us[IDENTITY_NUMBER_SIZE];
	char		them[IDENTITY_NUMBER_SIZE];
	Datum		values[HORIZON_COLUMNS];
	bool		nulls[HORIZON_COLUMNS] = {false};

	(void) settings_layout();
	SpinLockAcquire(&state->lock);
	horizon = state->horizon;
	renewed_at = state->renewed_at;
	self = state->self;
	is_copy = state->is_copy;
	failed = state->failed;
	strlcpy(reason, state->reason, sizeof(reason));
	SpinLockRelease(&state->lock);
	identity_format_number(self.incarnation, us);
	identity_format_number(self.clone_of, them);

	nulls[0] = nulls[1] = TIMESTAMP_IS_NOBEGIN(horizon);
	nulls[2] = renewed_at == 0;
	nulls[3] = !failed;
	nulls[4] = self.incarnation == 0 || self.standby;
	nulls[5] = nulls[6] = !is_copy;
	values[0] = TimestampTzGetDatum(horizon);
	values[1] =
		Float8GetDatum(nulls[0] ? 0 : (horizon - GetCurrentTimestamp()) / 1e6);
	values[2] = TimestampTzGetDatum(renewed_at);
	values[3] = CStringGetTextDatum(reason);
	values[4] = CStringGetTextDatum(us);
	values[5] = CStringGetTextDatum(them);
	values[6] = CStringGetTextDatum(self.evidence);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}

static void
check_may_accept(const char *what)
{
	(void) settings_layout();
	if (RecoveryInProgress())
		ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
						errmsg("cannot accept %s during recovery", what)));
}

static bool
is_layout_unsettled(void)
{
	return state->other_layout;
}

static bool
is_unsettled_copy(void)
{
	return state->is_copy;
}

/* Tell the worker that something is accepted, and wait until that is on disk. */
static void
accept_and_wait(bool *accepted, bool (*is_unsettled)(void))
{
	HorizonWait wait = {0};

	SpinLockAcquire(&state->lock);
	*accepted = true;
	SpinLockRelease(&state->lock);
	while (is_unsettled())
		horizon_wait(&wait, 0);
	ConditionVariableCancelSleep();
}

/* Go on with the layout that the settings name. */
Datum
snowflake_accept_layout(PG_FUNCTION_ARGS)
{
	check_may_accept("a layout");
	if (state->other_layout)
		accept_and_wait(&state->accept_layout, is_layout_unsettled);
	else
		ereport(NOTICE, (errmsg("the layout has not changed")));
	PG_RETURN_VOID();
}

/* Somebody says that this copy may mint beside its original, or instead. */
Datum
snowflake_accept_clone(PG_FUNCTION_ARGS)
{
	check_may_accept("a clone");
	if (state->is_copy)
		accept_and_wait(&state->accept_copy, is_unsettled_copy);
	else
		ereport(NOTICE, (errmsg("this server is not a copy")));
	PG_RETURN_VOID();
}
