/*-------------------------------------------------------------------------
 *
 * record.c
 *	  The server's records, in files and on pages.
 *
 * The horizon's record says up to which time the server may have minted, with
 * which layout, and which server wrote it.  The layout's record says the layout
 * alone.  So the layout is known as long as either record can be read.  Each is
 * stored twice, with the same bytes.
 *
 * The files, snowflake.horizon and snowflake.layout in the data directory, are
 * what a server reads when it starts.  A file is replaced as a whole.
 *
 * The pages are for servers that are made from this one's WAL and not its files:
 * standbys, and backups that are recovered.  A record is logged as a full page
 * image of a page of no table: block 0 of a relation of the global tablespace whose
 * number neither initdb nor the server ever assigns.  The server itself replays it,
 * with or without this library.  The primary reads the pages only when it starts.
 *
 * Invariants:
 *	- bytes that are not a whole, undamaged record are never taken for one;
 *	- when record_write_file() returns true, the record survives a loss of
 *	  power; when it returns false, the record before it may still be there;
 *	- a page file without a whole page is damage, not absence: the server makes
 *	  that file only to put a page into it.
 *
 * The files are written by one process at a time: by the postmaster when it is
 * alone, else by the horizon's worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_tablespace_d.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/smgr.h"

#include "compat.h"
#include "record.h"

/*
 * The relations of the pages.  initdb gives shared relations numbers below 10000,
 * the server gives new relations numbers from 16384 on.
 */
#define HORIZON_RELATION 11111
#define LAYOUT_RELATION 11112

#define RECORD_VERSION 1

static const struct
{
	const char *file;
	const char *temp_file;
	const char *page_file;
	Oid			relation; /* of the page */
	uint32		magic;
} records[] = {[HORIZON_RECORD] = {"snowflake.horizon",
								   "snowflake.horizon.tmp",
								   "global/" CppAsString2(HORIZON_RELATION),
								   HORIZON_RELATION, 0x534E4F57 /* "SNOW" */},
			   [LAYOUT_RECORD] = {"snowflake.layout", "snowflake.layout.tmp",
								  "global/" CppAsString2(LAYOUT_RELATION),
								  LAYOUT_RELATION, 0x534E4F59 /* "SNOY" */}};

/* The format.  A change of these numbers needs a new version. */
StaticAssertDecl(sizeof(Record) == 528 && sizeof(Identity) == 344,
				 "the record has 528 bytes, 344 of them the identity");
StaticAssertDecl(offsetof(Record, horizon) == 8 &&
					 offsetof(Record, layout) == 16 &&
					 offsetof(Record, writer) == 176 &&
					 offsetof(Record, layout_changes) == 520 &&
					 offsetof(Record, crc) == 524,
				 "the fields of the record are where they were");
/* --- Bytes -------------------------------------------------------------- */

static pg_crc32c
crc_of(const Record *record)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, record, offsetof(Record, crc));
	FIN_CRC32C(crc);
	return crc;
}

/* The bytes of a record as they are stored; of the layout's, only that is told. */
static Record
seal(RecordKind kind, const Record *record)
{
	Record bytes = *record;

	if (kind == LAYOUT_RECORD)
	{
		bytes.horizon = DT_NOBEGIN;
		memset(&bytes.writer, 0, sizeof(bytes.writer));
	}
	bytes.magic = records[kind].magic;
	bytes.version = RECORD_VERSION;
	bytes.crc = crc_of(&bytes);
	return bytes;
}

/*
 * Make a record of the bytes that were read.  False, with the trouble, if they
 * are none; "damage" says which kind of trouble that is.
 */
static bool
parse(RecordKind kind, Record *record, const char *bytes, int length,
	  TroubleKind damage, Trouble *trouble)
{
	char  *reason = trouble->reason;
	size_t size = sizeof(trouble->reason);
	int	   whole = sizeof(*record);

	trouble->kind = damage;
	memset(record, 0, whole);
	memcpy(record, bytes, Min(length, whole));
	if (record->magic != records[kind].magic)
		snprintf(reason, size, "it is not a %s record",
				 kind == LAYOUT_RECORD ? "layout" : "horizon");
	else if (record->version != RECORD_VERSION)
	{
		trouble->kind = TROUBLE_VERSION;
		snprintf(reason, size,
				 "it is of version %u, and this library reads version %d",
				 record->version, RECORD_VERSION);
	}
	else if (length != whole)
		snprintf(reason, size, "it has %d of %d bytes", length, whole);
	else if (record->crc != crc_of(record))
		strlcpy(reason, "its checksum is wrong", size);
	else
	{
		record->layout[sizeof(record->layout) - 1] = '\0';
		return true;
	}
	return false;
}

/* Say which file or page the reason is about. */
static RecordResult
unreadable(Trouble *trouble, const char *what, const char *file)
{
	char why[sizeof(trouble->reason)];

	strlcpy(why, trouble->reason, sizeof(why));
	snprintf(trouble->reason, sizeof(trouble->reason),
			 "could not use %s \"%s\": %s", what, file, why);
	return RECORD_UNREADABLE;
}

/* The way out of trouble; %s is the file. */
static const char *
way_out(const Trouble *trouble)
{
	if (trouble->kind == TROUBLE_STORING)
		return "Remove the cause, such as a full disk. Minting goes on by itself "
			   "when the record can be stored.";
	if (trouble->kind == TROUBLE_VERSION)
		return "Install the version of snowflake that wrote it, or a "
			   "later one, and restart the server.";
	if (trouble->kind == TROUBLE_RIGHTS)
		return trouble->record == LAYOUT_RECORD ?
				   "Make the operating-system user of the server the owner of "
				   "file \"%s\", with mode 0600, and restart the server." :
				   "Make the operating-system user of the server the owner of "
				   "file \"%s\", with mode 0600. Do not remove it. Minting "
				   "goes on with the next call.";
	if (trouble->record == LAYOUT_RECORD)
		return "Stop the server, restore file \"%s\" from a backup, and start "
			   "the server. If there is none, and \"snowflake.layout\" is "
			   "the layout of the ids that are stored, remove the file "
			   "instead.";
	if (trouble->kind == TROUBLE_PAGE)
		return "Stop the server, check that the clock is past the newest "
			   "id, remove file \"%s\", and start the server.";
	return "Check that the clock is past the newest id, and remove "
		   "file \"%s\", or restore it from a copy that is not older than "
		   "the newest id. Minting goes on with the next call.";
}

/* Say that there is trouble, and the way out: in the log, or as an error. */
void
record_report(int level, const Trouble *trouble)
{
	const char *file = trouble->kind == TROUBLE_PAGE ?
						   records[trouble->record].page_file :
						   records[trouble->record].file;

	if (trouble->record == LAYOUT_RECORD && trouble->kind != TROUBLE_STORING)
		ereport(level,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("cannot tell the layout of this server: %s",
						trouble->reason),
				 errdetail("No id is minted, or read without a named layout, "
						   "until the layout is known."),
				 errhint(way_out(trouble), file)));
	else
		ereport(level,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("cannot mint snowflake ids: %s", trouble->reason),
				 errdetail("No id is minted unless the time up to which ids "
						   "may be minted is on disk."),
				 errhint(way_out(trouble), file)));
}

/* --- The file ----------------------------------------------------------- */

/* Note a failed operation on a file, errno included. */
static void
note_failure(Trouble *trouble, TroubleKind kind, const char *operation,
			 const char *file)
{
	trouble->kind = kind;
	snprintf(trouble->reason, sizeof(trouble->reason),
			 "could not %s file \"%s\": %s", operation, file, strerror(errno));
}

RecordResult
record_read_file(RecordKind kind, Record *record, Trouble *trouble)
{
	const char	*file = records[kind].file;
	char		 bytes[sizeof(Record) + 1];
	int			 fd = OpenTransientFile(file, O_RDONLY | PG_BINARY);
	int			 length;
	RecordResult result = RECORD_UNREADABLE;

	trouble->record = kind;
	if (fd < 0)
	{
		if (errno == ENOENT)
			return RECORD_MISSING;
		note_failure(trouble, errno == EACCES ? TROUBLE_RIGHTS : TROUBLE_FILE,
					 "open", file);
		return RECORD_UNREADABLE;
	}
	length = read(fd, bytes, sizeof(bytes));
	if (length < 0)
		note_failure(trouble, TROUBLE_FILE, "read", file);
	else if (parse(kind, record, bytes, length, TROUBLE_FILE, trouble))
		result = RECORD_FOUND;
	else
		(void) unreadable(trouble, "file", file);
	CloseTransientFile(fd);
	return result;
}

/* Note that storing failed, and return false. */
bool
record_not_stored(Trouble *trouble, const char *operation, const char *file)
{
	note_failure(trouble, TROUBLE_STORING, operation, file);
	return false;
}

/*
 * Replace a file as a whole.  When this returns true, the new bytes survive a
 * loss of power.
 */
bool
record_replace_file(const char *file, const char *temp_file, const void *bytes,
					size_t size, Trouble *trouble)
{
	int fd =
		OpenTransientFile(temp_file, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	ssize_t written;

	if (fd < 0)
		return record_not_stored(trouble, "create", temp_file);
	errno = 0;
	written = write(fd, bytes, size);
	if (written != (ssize_t) size)
	{
		/* if write didn't set errno, assume problem is no disk space */
		if (errno == 0)
			errno = ENOSPC;
		(void) record_not_stored(trouble, "write", temp_file);
		CloseTransientFile(fd);
		return false;
	}
	if (CloseTransientFile(fd) != 0)
		return record_not_stored(trouble, "close", temp_file);

	/*
	 * As durable_rename() does, but without its fsyncs of the file under its
	 * final name.  The temporary file is on disk already, and each fsync is a
	 * wait for the disk.
	 */
	if (fsync_fname_ext(temp_file, false, false, DEBUG1) != 0)
		return record_not_stored(trouble, "fsync", temp_file);
	if (rename(temp_file, file) != 0)
		return record_not_stored(trouble, "rename", temp_file);
	if (fsync_fname_ext(".", true, false, DEBUG1) != 0)
		return record_not_stored(trouble, "fsync directory of", file);
	return true;
}

bool
record_write_file(RecordKind kind, const Record *record, Trouble *trouble)
{
	Record bytes = seal(kind, record);

	trouble->record = kind;
	return record_replace_file(records[kind].file, records[kind].temp_file,
							   &bytes, sizeof(bytes), trouble);
}

/* --- The page ----------------------------------------------------------- */

static RelFileLocator
page_locator(RecordKind kind)
{
	RelFileLocator locator = {GLOBALTABLESPACE_OID, InvalidOid,
							  records[kind].relation};

	return locator;
}

/* Make a record of what a page has between its header and "lower". */
static bool
parse_page(RecordKind kind, Record *record, Page page, Trouble *trouble)
{
	const char *bytes = PageGetContents(page);
	int			length = (char *) page + ((PageHeader) page)->pd_lower - bytes;

	return parse(kind, record, bytes,
				 Min(Max(length, 0), (char *) page + BLCKSZ - bytes),
				 TROUBLE_PAGE, trouble);
}

/*
 * Read the page that this server replayed last.  A page that the server finds
 * damaged comes as zeros, so that the other record can still be read.  If the
 * server raises another error, the kind of trouble is set already.
 */
RecordResult
record_read_page(RecordKind kind, Record *record, Trouble *trouble)
{
	RelFileLocator locator = page_locator(kind);
	SMgrRelation   relation = smgropen(locator, INVALID_PROC_NUMBER);
	const char	  *file = records[kind].page_file;
	Buffer		   buffer;
	bool		   good;

	trouble->kind = TROUBLE_PAGE;
	trouble->record = kind;
	if (!smgrexists(relation, MAIN_FORKNUM))
		return RECORD_MISSING;
	if (smgrnblocks(relation, MAIN_FORKNUM) == 0)
	{
		strlcpy(trouble->reason, "it is shorter than a page",
				sizeof(trouble->reason));
		return unreadable(trouble, "file", file);
	}
	buffer = ReadBufferWithoutRelcache(locator, MAIN_FORKNUM, 0,
									   RBM_ZERO_ON_ERROR, NULL, true);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	good = parse_page(kind, record, BufferGetPage(buffer), trouble);
	UnlockReleaseBuffer(buffer);
	if (!good)
		return unreadable(trouble, "page 0 of file", file);
	return RECORD_FOUND;
}

/*
 * Log the record, and have the WAL on disk.  Returns the end of it in the WAL;
 * an invalid one if nobody can replay this server's WAL elsewhere.
 */
XLogRecPtr
record_log_page(RecordKind kind, const Record *record)
{
	Record		   bytes = seal(kind, record);
	PGAlignedBlock block;
	Page		   page = (Page) block.data;
	RelFileLocator locator = page_locator(kind);
	XLogRecPtr	   lsn;

	if (!XLogIsNeeded())
		return InvalidXLogRecPtr;
	PageInit(page, BLCKSZ, 0);
	memcpy(PageGetContents(page), &bytes, sizeof(bytes));
	((PageHeader) page)->pd_lower =
		PageGetContents(page) + sizeof(bytes) - block.data;
	lsn = log_newpage(&locator, MAIN_FORKNUM, 0, page, true);
	XLogFlush(lsn);
	return lsn;
}

/*
 * Would a commit at this place in the WAL wait for a synchronous standby, by the
 * settings as this process read them last?  The server's own wait,
 * SyncRepWaitForLSN(), would not read them again.  A page that was not logged awaits none.
 */
bool
record_awaits_standby(XLogRecPtr lsn)
{
	XLogRecPtr confirmed;
	int		   mode = synchronous_commit == SYNCHRONOUS_COMMIT_REMOTE_APPLY ?
						  SYNC_REP_WAIT_APPLY :
					  synchronous_commit == SYNCHRONOUS_COMMIT_REMOTE_WRITE ?
						  SYNC_REP_WAIT_WRITE :
						  SYNC_REP_WAIT_FLUSH;

	if (!SyncRepRequested() || SyncRepStandbyNames == NULL ||
		SyncRepStandbyNames[0] == '\0')
		return false;
	LWLockAcquire(SyncRepLock, LW_SHARED);
	confirmed = WalSndCtl->lsn[mode];
	LWLockRelease(SyncRepLock);
	return confirmed < lsn;
}
