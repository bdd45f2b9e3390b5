/*-------------------------------------------------------------------------
 *
 * server.c
 *	  What this data directory is: its layout and its identity.
 *
 * The layout.  One-argument functions that read ids use the layout of the
 * setting snowflake.layout, and indexes, partitions and generated columns are
 * built on them.  So the layout is recorded at the first start that preloads
 * the library, and a server whose setting differs from its record neither
 * mints nor reads ids without a named layout.
 *
 * Two records tell the layout, the horizon's and its own, each in a file and on a
 * page that came by the WAL: see record.c.  Any of the four will do, so that a
 * damaged or removed one does not take the guard away.  Each change of the
 * layout is counted, and the record with more changes is right.  The horizon's
 * worker reads all four when recovery has ended and settles which layout is
 * right, for as long as the server runs.  Until then, and on a standby for ever,
 * each call looks at the pages itself.  So a standby refuses to read ids as soon as
 * it has replayed a change of its primary's layout, until its own setting agrees.
 *
 * As long as no record tells the layout, no id is read; calls on a new server wait
 * until its worker has stored them.  At each start the worker stores the layout's
 * record again, so that what was damaged is whole, and standbys get the page.
 *
 * The identity.  The record says which server wrote it.  A server that finds
 * another server's record may be a clone, and a clone mints the ids of its
 * original: identity.c tells what gives a clone away.  Recovery removes some of
 * that evidence.  So the postmaster stores what it found before recovery
 * begins; if there is no file, it stores a record that says nothing else.
 *
 * The worker gives a new identity to a server that is new or was promoted, and
 * stores what somebody accepted, a clone or a layout, before it publishes a
 * horizon.  The recorded horizon stays what it is.
 *
 * A note about locking:
 *	- ServerState is read and written under server_lock, an LWLock.  It is
 *	  written by the postmaster when it is alone, and then by the worker, which
 *	  reads it without the lock.
 *	- "layout_state" and "is_clone" are atomics, because each call looks at
 *	  them.  Only the worker changes them.
 *	- "accepted" is an atomic, which sessions set and the worker clears.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "errors.h"
#include "server.h"
#include "settings.h"

typedef enum LayoutState
{
	LAYOUT_UNKNOWN, /* the worker has not read the records */
	LAYOUT_AGREES,	/* the setting is as recorded */
	LAYOUT_DIFFERS
} LayoutState;

typedef struct ServerState
{
	pg_atomic_uint32 layout_state;
	pg_atomic_uint32 is_clone;
	pg_atomic_uint32 accepted; /* but not stored yet */
	Record	  known;	  /* by all records so far; its writer: this server */
	StartMode start;	  /* how the data directory asks to be started */
	bool	  is_unsaved; /* the file or the WAL has another identity */
	bool	  file_is_unread;	/* there is a file that could not be read */
	bool	  layout_is_stored; /* in its own record, since the start */
	Trouble	  layout_trouble;	/* with the file of the layout */
} ServerState;

/* When the log begins to tell that the layout expires. */
#define EXPIRY_NOTICE_US (USECS_PER_DAY * 2 * 365)

/* How long a call waits for a new server's record, and looks for it. */
#define RECORD_PATIENCE_US INT64CONST(5000000)
#define RECORD_POLL_US INT64CONST(10000)

static LWLock	   *server_lock = NULL;
static ServerState *server = NULL;

/* --- Records ------------------------------------------------------------ */

static bool
tells_layout(const Record *record)
{
	return record->layout[0] != '\0';
}

/*
 * Does a record tell the layout, rather than what was known before?  Horizons do
 * not say which is later: the file of a base backup may have a late one, and a
 * clean stop lowers it.  So the changes of the layout count first.
 */
static bool
has_later_layout(const Record *record, const Record *known)
{
	if (!tells_layout(record) || !tells_layout(known))
		return tells_layout(record);
	if (record->layout_changes != known->layout_changes)
		return record->layout_changes > known->layout_changes;
	return record->horizon >= known->horizon;
}

/* Take over from a record what is later than what was known. */
static void
merge_record(const Record *record, Record *known)
{
	if (has_later_layout(record, known))
	{
		memcpy(known->layout, record->layout, sizeof(known->layout));
		known->layout_changes = record->layout_changes;
	}
	known->horizon = Max(known->horizon, record->horizon);
}

static bool
agrees_with_setting(const Record *known)
{
	return strcmp(known->layout, settings_layout_text()) == 0;
}

static void
report_layout_differs(int level, const char *recorded)
{
	ereport(
		level,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg("this server has another layout than \"snowflake.layout\""),
		 errdetail("\"snowflake.layout\" is \"%s\", and the server's recorded "
				   "layout is \"%s\".",
				   settings_layout_text(), recorded),
		 RecoveryInProgress() ?
			 errhint("Set \"snowflake.layout\" as on the primary server and "
					 "restart this server, or name the layout of the id.") :
			 errhint(
				 "Set \"snowflake.layout\" back and restart the server. To "
				 "go on with the new layout, call "
				 "snowflake_accept_layout(). To read an id, name its "
				 "layout.")));
}

/* Settle whether the setting is the recorded layout, if that is known. */
void
server_compare_layout(void)
{
	bool agrees = agrees_with_setting(&server->known);

	if (!tells_layout(&server->known))
		return;
	if (!agrees && !server_layout_differs())
		report_layout_differs(LOG, server->known.layout);
	pg_atomic_write_u32(&server->layout_state,
						agrees ? LAYOUT_AGREES : LAYOUT_DIFFERS);
}

/* Say that this server is a clone: in the log, or as an error. */
static void
report_clone(int level, const Identity *self)
{
	ereport(level,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server is a clone of another server"),
			 errdetail("It is incarnation %s, a clone of %s: %s.",
					   number_text(self->incarnation),
					   number_text(self->clone_of), self->evidence),
			 errhint(
				 "Give it other shards than its original's. When it has them, "
				 "or when the original is gone for good, call "
				 "snowflake_accept_clone().")));
}

/* Note which server this is.  When it turns out to be a clone, log that. */
static void
note_identity(const Identity *self, bool is_unsaved)
{
	bool was_clone = server_is_clone();

	LWLockAcquire(server_lock, LW_EXCLUSIVE);
	server->known.writer = *self;
	server->is_unsaved = is_unsaved;
	LWLockRelease(server_lock);
	pg_atomic_write_u32(&server->is_clone, identity_is_clone(self));
	if (identity_is_clone(self) && !was_clone)
		report_clone(LOG, self);
}

/* Read the file, and find out from it which server this is. */
static RecordResult
read_file(Trouble *trouble)
{
	Record		 record;
	Identity	 self = server->known.writer;
	RecordResult result = record_read_file(HORIZON_RECORD, &record, trouble);

	server->file_is_unread = result == RECORD_UNREADABLE;
	if (result != RECORD_FOUND)
		return result;
	LWLockAcquire(server_lock, LW_EXCLUSIVE);
	merge_record(&record, &server->known);
	LWLockRelease(server_lock);
	if (identity_is_from_backup(&record.writer))
		server->start = START_FROM_BACKUP;
	identity_recognise(&self, &record.writer, server->start);
	note_identity(&self, memcmp(&self, &record.writer, sizeof(self)) != 0);
	return RECORD_FOUND;
}

/* Read the file of the layout's record. */
static void
read_layout_file(void)
{
	Record record;

	if (record_read_file(LAYOUT_RECORD, &record, &server->layout_trouble) ==
		RECORD_FOUND)
		merge_record(&record, &server->known);
}

/*
 * Read both pages.  False, with the trouble, if one is there and neither can be
 * read: then the files may be older than the layout.
 */
static bool
read_pages(Record *known, Record *page, RecordResult *result, Trouble *trouble)
{
	Record		 layout;
	RecordResult layout_result =
		record_read_page(LAYOUT_RECORD, &layout, trouble);
	Trouble layout_trouble = *trouble;

	*result = record_read_page(HORIZON_RECORD, page, trouble);
	if (layout_result == RECORD_FOUND)
		merge_record(&layout, known);
	if (*result == RECORD_FOUND)
		merge_record(page, known);
	else if (layout_result == RECORD_UNREADABLE && *result == RECORD_MISSING)
		*trouble = layout_trouble;
	return layout_result == RECORD_FOUND || *result == RECORD_FOUND ||
		   (layout_result == RECORD_MISSING && *result == RECORD_MISSING);
}

/*
 * Read what is on disk: the files, if the postmaster could not, and the pages.
 * False, with the trouble, as long as the horizon's record cannot be read, or
 * the layout is not known.  When all is read, a later error is trouble with storing.
 */
bool
server_read_records(Trouble *trouble)
{
	Record		 known;
	Record		 page;
	Identity	 self;
	RecordResult result;
	TimestampTz	 in_file;

	if (server->file_is_unread && read_file(trouble) == RECORD_UNREADABLE)
		return false;
	known = server->known;
	in_file = known.horizon;
	if (!read_pages(&known, &page, &result, trouble) ||
		result == RECORD_UNREADABLE)
		return false;
	if (!tells_layout(&known) && server->layout_trouble.reason[0] != '\0')
	{
		*trouble = server->layout_trouble;
		return false;
	}
	trouble->kind = TROUBLE_STORING; /* all is read */
	LWLockAcquire(server_lock, LW_EXCLUSIVE);
	server->known = known;
	LWLockRelease(server_lock);
	if (result == RECORD_MISSING)
		return true;

	/* of a standby's two records the one with more changes is later */
	self = known.writer;
	if (self.standby && page.writer.changes > self.changes)
		identity_follow(&self, &page.writer);
	else if (self.incarnation == 0)
	{
		identity_forget_place(&page.writer);
		identity_recognise(&self, &page.writer, server->start);
	}

	/* the file may be copied without the page, for instance by pg_rewind */
	note_identity(&self, server->is_unsaved || page.horizon > in_file);
	return true;
}

/* What is known, as a record with another horizon. */
void
server_make_record(Record *record, TimestampTz horizon)
{
	*record = server->known;
	record->horizon = horizon;
}

TimestampTz
server_horizon(void)
{
	return server->known.horizon;
}

/*
 * Warn in the log that the layout expires, once a day from two years before: a
 * change of the layout takes preparation.
 */
static void
warn_of_expiry(const Layout *layout, TimestampTz horizon)
{
	static pg_atomic_uint64 log_after; /* the worker's alone, 0 at first */
	TimestampTz last = layout_time_of_tick(layout, layout->last_mint_tick);

	if (last - horizon < EXPIRY_NOTICE_US &&
		may_log_now(&log_after, USECS_PER_DAY))
		ereport(LOG, (errmsg("the layout of snowflake ids expires at %s",
							 time_text(last)),
					  errdetail("That is the last time that layout \"%s\" can "
								"hold. Minting ends then.",
								layout_name(layout)),
					  errhint("Plan the change to another layout.")));
}

/* A record with a later horizon is on disk and logged. */
void
server_note_renewal(const Record *record)
{
	LWLockAcquire(server_lock, LW_EXCLUSIVE);
	server->known.horizon = record->horizon;
	LWLockRelease(server_lock);
	warn_of_expiry(settings_layout(), record->horizon);
}

/*
 * Has a record to be stored, because this server has just started, is new, was
 * promoted, records its layout for the first time, or because somebody accepted
 * something?  Then *change has it.
 */
bool
server_has_change(ServerChange *change)
{
	Record *record = &change->record;
	bool	is_first = !tells_layout(&server->known);
	bool	is_new =
		server->known.writer.incarnation == 0 || server->known.writer.standby;

	*record = server->known;
	change->accepts = pg_atomic_read_u32(&server->accepted);
	if (is_new)
		identity_draw_incarnation(&record->writer);
	if (change->accepts & ACCEPTS_CLONE)
		identity_accept(&record->writer);
	if (change->accepts & ACCEPTS_LAYOUT)
		record->layout_changes++;
	if ((change->accepts & ACCEPTS_LAYOUT) != 0 || is_first)
	{
		memset(record->layout, 0, sizeof(record->layout));
		strlcpy(record->layout, settings_layout_text(),
				sizeof(record->layout));
	}
	change->stores_layout =
		!server->layout_is_stored || (change->accepts & ACCEPTS_LAYOUT) != 0;
	change->stores_record =
		is_new || change->accepts != 0 || server->is_unsaved;
	return change->stores_layout || change->stores_record;
}

/* The records of a change are on disk and logged. */
void
server_note_change(const ServerChange *change)
{
	note_identity(&change->record.writer, false);
	LWLockAcquire(server_lock, LW_EXCLUSIVE);
	server->known = change->record;
	server->layout_is_stored = true;
	LWLockRelease(server_lock);
	server_compare_layout();
	server_accept(change->accepts, false);
}

/* --- Shared memory ------------------------------------------------------ */

Size
server_shmem_size(void)
{
	return sizeof(ServerState);
}

/* Store what the data directory tells now, and recovery will remove. */
static void
store_evidence(RecordResult file)
{
	Record	record = server->known;
	Trouble trouble;

	if (file == RECORD_MISSING && server->start != START_AS_PRIMARY)
		identity_note_start(&record.writer, server->start);
	else if (!server->is_unsaved)
		return;
	if (!record_write_file(HORIZON_RECORD, &record, &trouble))
		record_report(LOG, &trouble);
}

/* Say which layout is in use, and which file is damaged or missing. */
static void
log_layout(RecordResult file)
{
	ereport(LOG, (errmsg("the layout of snowflake ids is \"%s\"",
						 layout_name(settings_layout()))));
	if (file == RECORD_MISSING && tells_layout(&server->known))
		ereport(LOG, (errmsg("file \"snowflake.horizon\" is missing"),
					  errdetail("The server does not know up to which time "
								"it has minted."),
					  errhint("Check that the clock is past the newest id.")));
	if (server->layout_trouble.reason[0] == '\0')
		return;
	if (!tells_layout(&server->known))
		record_report(LOG, &server->layout_trouble);
	else
		ereport(LOG, (errmsg("%s", server->layout_trouble.reason),
					  errdetail("The layout is known by file "
								"\"snowflake.horizon\", too. The file is "
								"written again.")));
}

/* The postmaster, alone. */
void
server_shmem_startup(void)
{
	bool		 found;
	Trouble		 trouble = {0};
	RecordResult file;

	server_lock = &GetNamedLWLockTranche(SERVER_LOCKS)[SERVER_LOCK].lock;
	server = ShmemInitStruct("snowflake server", server_shmem_size(), &found);
	if (found)
		return;
	memset(server, 0, sizeof(*server));
	pg_atomic_init_u32(&server->layout_state, LAYOUT_UNKNOWN);
	pg_atomic_init_u32(&server->is_clone, false);
	pg_atomic_init_u32(&server->accepted, 0);
	server->known.horizon = DT_NOBEGIN;
	server->start = identity_start_mode();
	identity_look_around(&server->known.writer);

	read_layout_file();
	file = read_file(&trouble);
	log_layout(file);
	if (file == RECORD_UNREADABLE)
		record_report(LOG, &trouble);
	store_evidence(file);
}

/* --- What sessions use -------------------------------------------------- */

/* Raise an error because no record tells the layout. */
static void
report_unknown_layout(const Trouble *trouble)
{
	if (trouble->reason[0] != '\0' && RecoveryInProgress())
		ereport(ERROR, (errcode(ERRCODE_IO_ERROR),
						errmsg("cannot tell the layout of the primary "
							   "server: %s",
							   trouble->reason),
						errhint("Create the standby again from its primary. "
								"To read an id, name its layout.")));
	if (trouble->reason[0] != '\0')
		record_report(ERROR, trouble);
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the layout of the primary server is not known"),
				 errdetail("This server has received no record of it."),
				 errhint("Preload snowflake on the primary server, or name "
						 "the layout of the id.")));
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("the layout of this server is not recorded yet"),
					errhint("snowflake_check() says why. To read an id, "
							"name its layout.")));
}

/* What the records say of the layout.  False, with the trouble, if nothing. */
static bool
read_layout(Record *known, Trouble *trouble)
{
	Record		 page;
	RecordResult result;
	Trouble		 trouble_of_file;

	LWLockAcquire(server_lock, LW_SHARED);
	*known = server->known;
	trouble_of_file = server->layout_trouble;
	LWLockRelease(server_lock);
	if (!read_pages(known, &page, &result, trouble))
		return false;
	*trouble = trouble_of_file;
	return tells_layout(known);
}

/*
 * Compare the layout with the records, as the worker will.  On a standby this
 * is done again whenever something was replayed.  If there is no record, and
 * none is damaged, this server is new: wait until it has one.
 */
static pg_noinline void
check_unknown_layout(void)
{
	static bool		  checked = false;
	static XLogRecPtr checked_at;
	static WaitName	  event = {"Extension", PG_WAIT_EXTENSION};
	XLogRecPtr		  replayed = GetXLogReplayRecPtr(NULL);
	Record			  known;
	Trouble			  trouble = {0};
	int64			  waited_us = 0;

	if (checked && checked_at == replayed)
		return;
	while (!read_layout(&known, &trouble))
	{
		if (trouble.reason[0] != '\0' || RecoveryInProgress() ||
			!IsUnderPostmaster || waited_us > RECORD_PATIENCE_US)
			report_unknown_layout(&trouble);
		waited_us += wait_outside_locks(RECORD_POLL_US, &event, NULL);
	}
	if (!agrees_with_setting(&known))
		report_layout_differs(ERROR, known.layout);
	checked = true;
	checked_at = replayed;
}

/*
 * The layout.  An error where the library was not preloaded, and where the
 * setting is another layout than the recorded one.
 */
const Layout *
server_layout(void)
{
	const Layout *layout = settings_layout();
	LayoutState	  layout_state;
	Record		  known;

	layout_state = pg_atomic_read_u32(&server->layout_state);
	if (likely(layout_state == LAYOUT_AGREES))
		return layout;
	if (layout_state == LAYOUT_UNKNOWN)
	{
		check_unknown_layout();
		return layout;
	}
	server_known(&known);
	report_layout_differs(ERROR, known.layout);
	return NULL; /* keep compiler quiet */
}

/* Has the worker read the records? */
bool
server_knows_layout(void)
{
	return pg_atomic_read_u32(&server->layout_state) != LAYOUT_UNKNOWN;
}

bool
server_layout_differs(void)
{
	return pg_atomic_read_u32(&server->layout_state) == LAYOUT_DIFFERS;
}

bool
server_is_clone(void)
{
	return pg_atomic_read_u32(&server->is_clone) != 0;
}

/*
 * Raise an error if this server is a clone and clones may not mint.  Whether
 * it is a clone is known before there is a horizon.
 */
void
server_check_clone(void)
{
	Record known;

	if (likely(!server_is_clone()) || !settings_refuse_clone)
		return;
	server_known(&known);
	if (identity_is_clone(&known.writer))
		report_clone(ERROR, &known.writer);
}

/* What the records tell; the writer is this server, as far as is known. */
void
server_known(Record *record)
{
	LWLockAcquire(server_lock, LW_SHARED);
	*record = server->known;
	LWLockRelease(server_lock);
}

/* Ask the worker to accept, or stop asking. */
void
server_accept(uint32 what, bool accept)
{
	if (accept)
		(void) pg_atomic_fetch_or_u32(&server->accepted, what);
	else
		(void) pg_atomic_fetch_and_u32(&server->accepted, ~what);
}
