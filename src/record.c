/*-------------------------------------------------------------------------
 *
 * record.c
 *	  The server's record, in a file and on a page.
 *
 * The record says up to which time the server may have minted, with which
 * layout, and which server wrote it.  It is stored twice, with the same bytes.
 *
 * The file, snowflake.horizon in the data directory, is what a server reads
 * when it starts.  It is replaced as a whole.
 *
 * The page is for servers that are made from this one's WAL: standbys, and
 * backups that are recovered.  They do not get the file; they get the WAL.  So
 * the record is logged as a full page image of a page of no table: block 0 of
 * a relation of the global tablespace whose number neither initdb nor the
 * server ever assigns.  The server itself replays it, with or without this
 * library.  The primary never reads that page.
 *
 * Invariants:
 *	- bytes that are not a whole, undamaged record are never taken for one;
 *	- when record_write_file() returns true, the record survives a loss of
 *	  power; when it returns false, the record before it may still be there;
 *	- a page file without a whole page is damage, not absence: the server makes
 *	  that file only to put a page into it.
 *
 * The file is written by one process at a time: by the postmaster when it is
 * alone, else by the horizon's worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_tablespace_d.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/smgr.h"

#include "compat.h"
#include "record.h"

#define RECORD_FILE "snowflake.horizon"
#define RECORD_TEMP_FILE RECORD_FILE ".tmp"

/*
 * The relation of the page.  initdb gives shared relations numbers below 10000,
 * the server gives new relations numbers from 16384 on.
 */
#define RECORD_RELATION 11111
#define PAGE_FILE "global/" CppAsString2(RECORD_RELATION)

#define RECORD_MAGIC 0x534E4F57 /* "SNOW" */
#define RECORD_VERSION 1

/* The format.  A change of these numbers needs a new version. */
StaticAssertDecl(sizeof(Record) == 528 && sizeof(Identity) == 344,
				 "the record has 528 bytes, 344 of them the identity");
StaticAssertDecl(offsetof(Record, horizon) == 8 &&
					 offsetof(Record, layout) == 16 &&
					 offsetof(Record, writer) == 176 &&
					 offsetof(Record, layout_changes) == 520 &&
					 offsetof(Record, crc) == 524,
				 "the fields of the record are where they were");

/*-------------------------------------------------------------------------
 * Bytes
 *-------------------------------------------------------------------------
 */

static pg_crc32c
crc_of(const Record *record)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, record, offsetof(Record, crc));
	FIN_CRC32C(crc);
	return crc;
}

void
record_make(Record *record, TimestampTz horizon, const char *layout,
			uint32 layout_changes, const Identity *writer)
{
	memset(record, 0, sizeof(*record));
	record->magic = RECORD_MAGIC;
	record->version = RECORD_VERSION;
	record->horizon = horizon;
	strlcpy(record->layout, layout, sizeof(record->layout));
	record->writer = *writer;
	record->layout_changes = layout_changes;
	record->crc = crc_of(record);
}

/*
 * Make a record of the bytes that were read.  False, with the trouble, if they
 * are none; "damage" says which kind of trouble that is.
 */
bool
record_parse(Record *record, const char *bytes, int length, TroubleKind damage,
			 Trouble *trouble)
{
	char  *reason = trouble->reason;
	size_t size = sizeof(trouble->reason);

	trouble->kind = damage;
	memset(record, 0, sizeof(*record));
	memcpy(record, bytes, Min(length, sizeof(*record)));

	if (length < (int) offsetof(Record, horizon) ||
		record->magic != RECORD_MAGIC)
		strlcpy(reason, "it is not a horizon record", size);
	else if (record->version != RECORD_VERSION)
	{
		trouble->kind = TROUBLE_VERSION;
		snprintf(reason, size,
				 "it is of version %u, and this library reads version %d",
				 record->version, RECORD_VERSION);
	}
	else if (length != sizeof(*record))
		snprintf(reason, size, "it has %d of %d bytes", length,
				 (int) sizeof(*record));
	else if (record->crc != crc_of(record))
		strlcpy(reason, "its checksum is wrong", size);
	else
	{
		reason[0] = '\0';
		return true;
	}
	return false;
}

/* Say which file or page the reason is about. */
static RecordResult
unreadable(Trouble *trouble, const char *what)
{
	char why[sizeof(trouble->reason)];

	strlcpy(why, trouble->reason, sizeof(why));
	snprintf(trouble->reason, sizeof(trouble->reason), "could not use %s: %s",
			 what, why);
	return RECORD_UNREADABLE;
}

/* Say that there is trouble, and the way out: in the log, or as an error. */
void
record_report(int level, const Trouble *trouble)
{
	const char *hint = NULL;

	switch (trouble->kind)
	{
		case TROUBLE_STORING:
			hint = "Minting goes on by itself when the record can be stored.";
			break;
		case TROUBLE_FILE:
			hint = "Check that the clock is past the newest id, and remove "
				   "file \"" RECORD_FILE "\", or restore it from a copy that "
				   "is not older than the newest id. Minting goes on with the "
				   "next call.";
			break;
		case TROUBLE_PAGE:
			hint = "Stop the server, check that the clock is past the newest "
				   "id, remove file \"" PAGE_FILE "\", and start the server.";
			break;
		case TROUBLE_VERSION:
			hint = "Install the version of snowflake that wrote it, or a "
				   "later one, and restart the server.";
			break;
	}
	ereport(level,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("cannot mint snowflake ids: %s", trouble->reason),
			 errdetail("No id is minted unless the time up to which ids may "
					   "be minted is on disk."),
			 errhint("%s", hint)));
}

/*-------------------------------------------------------------------------
 * The file
 *-------------------------------------------------------------------------
 */

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
record_read_file(Record *record, Trouble *trouble)
{
	char bytes[sizeof(Record) + 1];
	int	 fd = OpenTransientFile(RECORD_FILE, O_RDONLY | PG_BINARY);
	int	 length;

	if (fd < 0)
	{
		if (errno == ENOENT)
			return RECORD_MISSING;
		note_failure(trouble, TROUBLE_FILE, "open", RECORD_FILE);
		return RECORD_UNREADABLE;
	}
	length = read(fd, bytes, sizeof(bytes));
	if (length < 0)
		note_failure(trouble, TROUBLE_FILE, "read", RECORD_FILE);
	CloseTransientFile(fd);
	if (length < 0)
		return RECORD_UNREADABLE;
	if (!record_parse(record, bytes, length, TROUBLE_FILE, trouble))
		return unreadable(trouble, "file \"" RECORD_FILE "\"");
	return RECORD_FOUND;
}

/* Note that storing failed, and return false. */
static bool
storing_failed(Trouble *trouble, const char *operation, const char *file)
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
		return storing_failed(trouble, "create", temp_file);
	errno = 0;
	written = write(fd, bytes, size);
	if (written != (ssize_t) size)
	{
		/* if write didn't set errno, assume problem is no disk space */
		if (errno == 0)
			errno = ENOSPC;
		(void) storing_failed(trouble, "write", temp_file);
		CloseTransientFile(fd);
		return false;
	}
	if (CloseTransientFile(fd) != 0)
		return storing_failed(trouble, "close", temp_file);

	/*
	 * As durable_rename() does, but without its fsyncs of the file under its
	 * final name.  The temporary file is on disk already, and each fsync is a
	 * wait for the disk.
	 */
	if (fsync_fname_ext(temp_file, false, false, DEBUG1) != 0)
		return storing_failed(trouble, "fsync", temp_file);
	if (rename(temp_file, file) != 0)
		return storing_failed(trouble, "rename", temp_file);
	if (fsync_fname_ext(".", true, false, DEBUG1) != 0)
		return storing_failed(trouble, "fsync directory of", file);
	return true;
}

bool
record_write_file(const Record *record, Trouble *trouble)
{
	return record_replace_file(RECORD_FILE, RECORD_TEMP_FILE, record,
							   sizeof(*record), trouble);
}

/*-------------------------------------------------------------------------
 * The page
 *-------------------------------------------------------------------------
 */

static RelFileLocator
page_locator(void)
{
	RelFileLocator locator = {GLOBALTABLESPACE_OID, InvalidOid,
							  RECORD_RELATION};

	return locator;
}

/*
 * Read the page that this server replayed last.  The server itself may raise
 * an error about the page; then the kind of trouble is set already.
 */
RecordResult
record_read_page(Record *record, Trouble *trouble)
{
	RelFileLocator locator = page_locator();
	SMgrRelation   relation = smgropen(locator, INVALID_PROC_NUMBER);
	Buffer		   buffer;
	Page		   page;
	bool		   good;

	trouble->kind = TROUBLE_PAGE;
	if (!smgrexists(relation, MAIN_FORKNUM))
		return RECORD_MISSING;
	if (smgrnblocks(relation, MAIN_FORKNUM) == 0)
	{
		strlcpy(trouble->reason, "it is shorter than a page",
				sizeof(trouble->reason));
		return unreadable(trouble, "file \"" PAGE_FILE "\"");
	}
	buffer = ReadBufferWithoutRelcache(locator, MAIN_FORKNUM, 0, RBM_NORMAL,
									   NULL, true);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	good = record_parse(record, PageGetContents(page),
						(char *) page + ((PageHeader) page)->pd_lower -
							PageGetContents(page),
						TROUBLE_PAGE, trouble);
	UnlockReleaseBuffer(buffer);
	if (!good)
		return unreadable(trouble, "page 0 of file \"" PAGE_FILE "\"");
	return RECORD_FOUND;
}

/*
 * Log the record, and have the WAL on disk.  Returns the end of it in the WAL;
 * an invalid one if nobody can replay this server's WAL elsewhere.
 */
XLogRecPtr
record_log_page(const Record *record)
{
	PGAlignedBlock block;
	Page		   page = (Page) block.data;
	RelFileLocator locator = page_locator();
	XLogRecPtr	   lsn;

	if (!XLogIsNeeded())
		return InvalidXLogRecPtr;
	PageInit(page, BLCKSZ, 0);
	memcpy(PageGetContents(page), record, sizeof(*record));
	((PageHeader) page)->pd_lower =
		PageGetContents(page) + sizeof(*record) - block.data;
	lsn = log_newpage(&locator, MAIN_FORKNUM, 0, page, true);
	XLogFlush(lsn);
	return lsn;
}
