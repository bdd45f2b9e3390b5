/*-------------------------------------------------------------------------
 *
 * record_cases.c
 *	  Each way in which a record can be stored, read, and told of.
 *
 * record_cases() calls the functions of record.c, with a system of our own below them
 * that fails where it is told to.  It compares each outcome with what record.h and the
 * head of record.c say, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <sys/stat.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "fmgr.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/fd.h"

#include "cases.h"

PG_MODULE_MAGIC;

/* --- The system ----------------------------------------------------------- */

typedef enum Step
{
	NOTHING,
	OPENING,
	WRITING,
	WRITING_ALL, /* it writes half, and leaves errno alone */
	CLOSING,
	SYNCING,
	RENAMING,
	SYNCING_DIRECTORY,
	READING
} Step;

static Step failing;
static int	failure;

static int
fails(Step step, int result)
{
	if (failing == step)
	{
		errno = failure;
		return -1;
	}
	return result;
}

/* A call that succeeds may leave any errno. */
static int
our_open(const char *file, int flags)
{
	int fd = fails(OPENING, 0) < 0 ? -1 : OpenTransientFile(file, flags);

	if (fd >= 0)
		errno = EINVAL;
	return fd;
}

static ssize_t
our_write(int fd, const void *bytes, size_t size)
{
	if (failing == WRITING_ALL)
		return size / 2;
	return fails(WRITING, 0) < 0 ? -1 : write(fd, bytes, size);
}

static int
our_close(int fd)
{
	return fails(CLOSING, CloseTransientFile(fd));
}

/* No failure of it may be passed over. */
static int
our_fsync(const char *file, bool is_directory, bool passes_over, int level)
{
	CHECK(is_directory == (strcmp(file, ".") == 0));
	CHECK(!passes_over);
	return fails(is_directory ? SYNCING_DIRECTORY : SYNCING,
				 fsync_fname_ext(file, is_directory, passes_over, level));
}

static XLogRecPtr	  logged_until;
static XLogRecPtr	  flushed_until;
static bool			  is_needed;
static PGAlignedBlock logged;
static int			  logged_number;

static XLogRecPtr
our_log_newpage(int number, Page page, bool is_standard)
{
	CHECK(is_standard); /* or its hole would be logged, too */
	memcpy(logged.data, page, BLCKSZ);
	logged_number = number;
	return logged_until = 77;
}

#define OpenTransientFile(file, flags) our_open(file, flags)
#define CloseTransientFile(fd) our_close(fd)
#define write(fd, bytes, size) our_write(fd, bytes, size)
#define read(fd, bytes, size) \
	(fails(READING, 0) < 0 ? -1 : read(fd, bytes, size))
#define rename(from, to) (fails(RENAMING, 0) < 0 ? -1 : rename(from, to))
#define fsync_fname_ext(file, is_directory, passes_over, level) \
	our_fsync(file, is_directory, passes_over, level)
#define XLogFlush(lsn) (flushed_until = (lsn))
#undef XLogIsNeeded
#define XLogIsNeeded() is_needed

#include "../../src/compat.h"

#define log_newpage(locator, fork, block, page, is_standard) \
	our_log_newpage(((const Oid *) (locator))[2], page, is_standard)

/* Or what is replayed into its buffer would not be on disk after a restartpoint. */
static bool
our_permanence(bool is_permanent)
{
	CHECK(is_permanent);
	return is_permanent;
}

#define ReadBufferWithoutRelcache(locator, fork, block, mode, strategy, \
								  is_permanent)                         \
	ReadBufferWithoutRelcache(locator, fork, block, mode, strategy,     \
							  our_permanence(is_permanent))

#include "../../src/record.c"

/* --- Bytes ----------------------------------------------------------------- */

/* As everybody writes it down, to be sure that the server's is that. */
static uint32
crc32c(const unsigned char *bytes, int size)
{
	uint32 crc = 0xffffffff;

	for (int i = 0; i < size * 8; i++)
	{
		if (i % 8 == 0)
			crc ^= bytes[i / 8];
		crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static Record
example(void)
{
	Record record;

	memset(&record, 0x55, sizeof(record));
	memset(record.layout, 0, sizeof(record.layout));
	strcpy(record.layout, "a layout");
	return record;
}

static void
check_bytes(RecordKind kind, const Record *bytes)
{
	Record expected = example();

	expected.magic = kind == HORIZON_RECORD ? 0x534E4F57 : 0x534E4F59;
	expected.version = 1;
	if (kind == LAYOUT_RECORD)
	{
		expected.horizon = DT_NOBEGIN;
		memset(&expected.writer, 0, sizeof(expected.writer));
	}
	expected.crc = crc32c((unsigned char *) &expected, 524);
	CHECK(memcmp(bytes, &expected, sizeof(expected)) == 0);
}

/* What is read is nothing that was there before; whole records are read as they are. */
static void
try_lengths(RecordKind kind)
{
	Record record = example();
	Record whole = seal(kind, &record);
	char   bytes[sizeof(Record) + 1] = {0};

	memcpy(bytes, &whole, sizeof(whole));
	for (int length = 0; length <= sizeof(bytes); length++)
	{
		Trouble trouble = {0};
		bool	found;

		record = whole;
		found = parse(kind, &record, bytes, length, TROUBLE_PAGE, &trouble);
		CHECK(found == (length == sizeof(whole)));
		CHECK(found || strstr(trouble.reason, length < 4 ? "it is not a" :
											  length < 5 ? "of version 0" :
														   "it has"));
		CHECK(trouble.kind == (length == 4 ? TROUBLE_VERSION : TROUBLE_PAGE));
	}

	/* a text without an end gets one */
	memset(record.layout, 'x', sizeof(record.layout));
	whole = seal(kind, &record);
	CHECK(parse(kind, &record, (char *) &whole, sizeof(whole), TROUBLE_FILE,
				&(Trouble){0}));
	CHECK(strlen(record.layout) == sizeof(record.layout) - 1);
	CHECK(record.layout_changes == whole.layout_changes);
	CHECK(memcmp(&record.writer, &whole.writer, sizeof(Identity)) == 0);
}

/* --- Files ----------------------------------------------------------------- */

/* Store it, and read what is then in the file. */
static void
try_storing(RecordKind kind)
{
	Record	record = example();
	Record	found;
	Trouble trouble = {0};

	CHECK(record_write_file(kind, &record, &trouble));
	CHECK(record_read_file(kind, &found, &trouble) == RECORD_FOUND);
	check_bytes(kind, &found);
	CHECK(access(records[kind].temp_file, F_OK) != 0);
}

static const struct
{
	Step		step;
	const char *what; /* of the horizon's */
} failures[] = {{OPENING, "could not create file \"snowflake.horizon.tmp\": "},
				{WRITING, "could not write file \"snowflake.horizon.tmp\": "},
				{WRITING_ALL,
				 "could not write file \"snowflake.horizon.tmp\": "},
				{CLOSING, "could not close file \"snowflake.horizon.tmp\": "},
				{SYNCING, "could not fsync file \"snowflake.horizon.tmp\": "},
				{RENAMING,
				 "could not rename file \"snowflake.horizon.tmp\": "},
				{SYNCING_DIRECTORY,
				 "could not fsync directory of file \"snowflake.horizon\": "}};

static void
try_failures(void)
{
	Record	record = example();
	Record	found;
	Trouble trouble;

	for (int i = 0; i < lengthof(failures); i++)
	{
		const char *reason =
			psprintf("%s%s", failures[i].what,
					 strerror(failures[i].step == WRITING_ALL ? ENOSPC : EIO));

		memset(&trouble, 0xff, sizeof(trouble));
		failing = failures[i].step;
		failure = EIO;
		CHECK(!record_write_file(HORIZON_RECORD, &record, &trouble));
		CHECK(trouble.kind == TROUBLE_STORING);
		CHECK(trouble.record == HORIZON_RECORD);
		CHECK(strcmp(trouble.reason, reason) == 0);
		failing = NOTHING;
		CHECK(record_read_file(HORIZON_RECORD, &found, &trouble) ==
			  RECORD_FOUND);
		check_bytes(HORIZON_RECORD, &found);
	}
	unlink("snowflake.horizon.tmp");
}

static void
try_unreadable(RecordKind kind, Step step, int number, TroubleKind expected,
			   const char *what)
{
	Record	record;
	Trouble trouble;

	memset(&trouble, 0xff, sizeof(trouble));
	failing = step;
	failure = number;
	CHECK(record_read_file(kind, &record, &trouble) == RECORD_UNREADABLE);
	failing = NOTHING;
	CHECK(trouble.record == kind);
	CHECK(trouble.kind == expected);
	CHECK(strcmp(trouble.reason,
				 psprintf("could not %s file \"%s\"%s%s", what,
						  records[kind].file, number ? ": " : "",
						  number ? strerror(number) :
								   ": it is not a horizon record")) == 0);
}

static void
try_files(void)
{
	int input = dup(STDIN_FILENO);
	int free_fd = first_free_fd();

	for (RecordKind kind = HORIZON_RECORD; kind <= LAYOUT_RECORD; kind++)
	{
		try_lengths(kind);
		try_storing(kind);
		try_unreadable(kind, OPENING, EACCES, TROUBLE_RIGHTS, "open");
		try_unreadable(kind, OPENING, EIO, TROUBLE_FILE, "open");
		try_unreadable(kind, READING, EIO, TROUBLE_FILE, "read");
	}
	try_failures();
	CHECK(truncate("snowflake.horizon", sizeof(Record) + 1) == 0);
	CHECK(record_read_file(HORIZON_RECORD, &(Record){0}, &(Trouble){0}) ==
		  RECORD_UNREADABLE);
	CHECK(truncate("snowflake.horizon", 0) == 0);
	try_unreadable(HORIZON_RECORD, NOTHING, 0, TROUBLE_FILE, "use");
	unlink("snowflake.horizon");
	CHECK(record_read_file(HORIZON_RECORD, &(Record){0}, &(Trouble){0}) ==
		  RECORD_MISSING);

	/* a process without an input has 0 for the first file that it opens */
	close(STDIN_FILENO);
	try_storing(HORIZON_RECORD);
	dup2(input, STDIN_FILENO);
	CHECK(first_free_fd() == free_fd);
	close(input);
	unlink("snowflake.horizon");
	unlink("snowflake.layout");
}

/* --- Pages ----------------------------------------------------------------- */

static void
try_pages(void)
{
	for (RecordKind kind = HORIZON_RECORD; kind <= LAYOUT_RECORD; kind++)
	{
		Record		   record = example();
		Record		   found;
		Trouble		   trouble = {0};
		PGAlignedBlock block;
		PageHeader	   header = (PageHeader) logged.data;

		/* where the server has replayed one */
		CHECK(record_read_page(kind, &found, &trouble) ==
			  (access(records[kind].page_file, F_OK) == 0 ? RECORD_FOUND :
															RECORD_MISSING));

		is_needed = false;
		logged_until = flushed_until = InvalidXLogRecPtr;
		CHECK(record_log_page(kind, &record) == InvalidXLogRecPtr);
		CHECK(logged_until == InvalidXLogRecPtr);

		is_needed = true;
		CHECK(record_log_page(kind, &record) == logged_until);
		CHECK(logged_until != InvalidXLogRecPtr);
		CHECK(flushed_until == logged_until);
		CHECK(logged_number == (kind == HORIZON_RECORD ? 11111 : 11112));
		CHECK(header->pd_lower == SizeOfPageHeaderData + sizeof(Record));
		CHECK(header->pd_upper == BLCKSZ && header->pd_special == BLCKSZ);
		CHECK(parse_page(kind, &found, logged.data, &trouble));
		check_bytes(kind, &found);

		/* any other end than the record's is damage */
		for (int lower = 0; lower <= PG_UINT16_MAX; lower++)
		{
			if (lower == SizeOfPageHeaderData + sizeof(Record))
				continue;
			memcpy(block.data, logged.data, BLCKSZ);
			((PageHeader) block.data)->pd_lower = lower;
			CHECK(!parse_page(kind, &found, block.data, &trouble));
			CHECK(trouble.kind == TROUBLE_PAGE ||
				  trouble.kind == TROUBLE_VERSION);
		}
	}
}

/* --- Synchronous standbys -------------------------------------------------- */

static void
try_standbys(void)
{
	char	  *names = SyncRepStandbyNames;
	int		   mode = synchronous_commit;
	XLogRecPtr before[NUM_SYNC_REP_WAIT_MODE];

	memcpy(before, WalSndCtl->lsn, sizeof(before));
	WalSndCtl->lsn[SYNC_REP_WAIT_WRITE] = 300;
	WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] = 200;
	WalSndCtl->lsn[SYNC_REP_WAIT_APPLY] = 100;
	for (int commit = SYNCHRONOUS_COMMIT_OFF;
		 commit <= SYNCHRONOUS_COMMIT_REMOTE_APPLY; commit++)
	{
		XLogRecPtr confirmed =
			commit == SYNCHRONOUS_COMMIT_REMOTE_WRITE ? 300 :
			commit == SYNCHRONOUS_COMMIT_REMOTE_FLUSH ? 200 :
			commit == SYNCHRONOUS_COMMIT_REMOTE_APPLY ? 100 :
														1000;

		for (XLogRecPtr lsn = 0; lsn < 400; lsn++)
		{
			synchronous_commit = commit;
			SyncRepStandbyNames = "anybody";
			CHECK(record_awaits_standby(lsn) == (lsn > confirmed));
			SyncRepStandbyNames = "";
			CHECK(!record_awaits_standby(lsn));
		}
	}
	memcpy(WalSndCtl->lsn, before, sizeof(before));
	SyncRepStandbyNames = names;
	synchronous_commit = mode;
}

/* --- What people are told -------------------------------------------------- */

static const Trouble *reported;

static void
report(void)
{
	record_report(ERROR, reported);
}

static ErrorData *
report_of(const Trouble *trouble)
{
	ErrorData *error;

	reported = trouble;
	error = raised_by(report);
	CHECK(error != NULL);
	return error;
}

/* Of each kind of trouble, with the horizon and with the layout. */
static void
try_reports(void)
{
	static const char *const hints[][2] = {
		[TROUBLE_STORING] = {"Remove the cause, ", "Remove the cause, "},
		[TROUBLE_FILE] = {"Check that the clock is past the newest id, and "
						  "remove file \"snowflake.horizon\"",
						  "Stop the server, restore file \"snowflake.layout\""},
		[TROUBLE_RIGHTS] = {"Make the operating-system user of the server the "
							"owner of file \"snowflake.horizon\", with mode "
							"0600. Do not",
							"Make the operating-system user of the server the "
							"owner of file \"snowflake.layout\", with mode "
							"0600, and"},
		[TROUBLE_PAGE] = {"Stop the server, check that the clock is past the "
						  "newest id, remove file \"global/11111\"",
						  "Stop the server, restore file \"global/11112\""},
		[TROUBLE_VERSION] = {"Install the version", "Install the version"}};

	for (int i = 0; i < lengthof(hints) * 2; i++)
	{
		Trouble		trouble = {i / 2, i % 2, "why"};
		bool		is_layout = i % 2 && i / 2 != TROUBLE_STORING;
		ErrorData  *error = report_of(&trouble);
		const char *hint = hints[i / 2][i % 2];

		CHECK(error->sqlerrcode == ERRCODE_IO_ERROR);
		CHECK(strcmp(error->message,
					 is_layout ? "cannot tell the layout of this server: why" :
								 "cannot mint snowflake ids: why") == 0);
		CHECK(strstr(error->detail,
					 is_layout ? "until the layout is known" : "is on disk"));
		CHECK(strncmp(error->hint, hint, strlen(hint)) == 0);
	}
}

PG_FUNCTION_INFO_V1(record_cases);
Datum
record_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	failing = NOTHING;
	in_directory("record_cases", try_files);
	try_pages();
	try_standbys();
	try_reports();
	PG_RETURN_INT64(tried);
}
