/*-------------------------------------------------------------------------
 *
 * record.c
 *	  The horizon's record, and the file that holds it.
 *
 * What horizon.c stores: as bytes that can be checked, and in a file that is
 * replaced as a whole.  It is in a file of its own because it knows nothing of
 * shared memory and of who may mint when.
 *
 * Invariants:
 *	- what is not a record, byte for byte, is never taken for one;
 *	- when record_write_file() returns true the record survives a loss of
 *	  power, and when it returns false the one before it may still be there.
 *
 * The file is written by one process at a time; horizon.c tells which.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "storage/fd.h"

#include "record.h"

#define HORIZON_FILE "snowflake.horizon"
#define HORIZON_TEMP_FILE HORIZON_FILE ".tmp"

#define HORIZON_MAGIC 0x534E4F57 /* "SNOW" */
#define HORIZON_VERSION 1

StaticAssertDecl(offsetof(HorizonRecord, crc) + sizeof(pg_crc32c) ==
					 sizeof(HorizonRecord),
				 "the record has no padding after its checksum");
static pg_crc32c
crc_of(const void *bytes, size_t length)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, bytes, length);
	FIN_CRC32C(crc);
	return crc;
}

void
record_make(HorizonRecord *record, TimestampTz horizon, const char *layout,
			uint32 changes, const Identity *writer)
{
	memset(record, 0, sizeof(*record));
	record->magic = HORIZON_MAGIC;
	record->version = HORIZON_VERSION;
	record->horizon = horizon;
	strlcpy(record->layout, layout, sizeof(record->layout));
	record->writer = *writer;
	record->changes = changes;
	record->crc = crc_of(record, offsetof(HorizonRecord, crc));
}

/*
 * Make a record of the bytes that were read.  False, with the reason, if they
 * are none.
 */
bool
record_parse(HorizonRecord *record, const char *bytes, int length,
			 char *reason, size_t size)
{
	memset(record, 0, sizeof(*record));
	memcpy(record, bytes, Min(length, sizeof(*record)));

	if (length < (int) offsetof(HorizonRecord, horizon) ||
		record->magic != HORIZON_MAGIC)
		snprintf(reason, size, "it is not a horizon record");
	else if (record->version != HORIZON_VERSION)
		snprintf(reason, size,
				 "it is of version %u, and this library reads version %d",
				 record->version, HORIZON_VERSION);
	else if (length != sizeof(*record))
		snprintf(reason, size, "it has %d of %d bytes", length,
				 (int) sizeof(*record));
	else if (record->crc != crc_of(record, offsetof(HorizonRecord, crc)))
		snprintf(reason, size, "its checksum is wrong");
	else
		return true;
	return false;
}

/* Keep what went wrong with the file, errno included, and return false. */
static bool
file_failed(char *reason, size_t size, const char *what, const char *file)
{
	snprintf(reason, size, "could not %s file \"%s\": %s", what, file,
			 strerror(errno));
	return false;
}

/*
 * Read the record.  False with the reason where there is a file that does not
 * give one; true with *found unset where there is none.
 */
bool
record_read_file(HorizonRecord *record, bool *found, char *reason, size_t size)
{
	char bytes[sizeof(HorizonRecord) + 1];
	char why[128];
	int	 fd = OpenTransientFile(HORIZON_FILE, O_RDONLY | PG_BINARY);
	int	 length;

	*found = false;
	if (fd < 0)
		return errno == ENOENT ?
				   true :
				   file_failed(reason, size, "open", HORIZON_FILE);
	length = read(fd, bytes, sizeof(bytes));
	if (length < 0)
		(void) file_failed(reason, size, "read", HORIZON_FILE);
	CloseTransientFile(fd);
	if (length < 0)
		return false;
	if (!record_parse(record, bytes, length, why, sizeof(why)))
	{
		snprintf(reason, size, "could not use file \"%s\": %s", HORIZON_FILE,
				 why);
		return false;
	}
	*found = true;
	return true;
}

bool
record_write_file(const HorizonRecord *record, char *reason, size_t size)
{
	int fd = OpenTransientFile(HORIZON_TEMP_FILE,
							   O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	int written;

	if (fd < 0)
		return file_failed(reason, size, "create", HORIZON_TEMP_FILE);
	errno = 0;
	written = write(fd, record, sizeof(*record));
	if (written != sizeof(*record))
	{
		/* if write didn't set errno, assume problem is no disk space */
		if (errno == 0)
			errno = ENOSPC;
		(void) file_failed(reason, size, "write", HORIZON_TEMP_FILE);
		CloseTransientFile(fd);
		return false;
	}
	if (CloseTransientFile(fd) != 0)
		return file_failed(reason, size, "close", HORIZON_TEMP_FILE);

	/*
	 * As durable_rename() does, but for its fsyncs of the file under its final
	 * name: each is a wait for the disk, and the file's own is done by then.
	 */
	if (fsync_fname_ext(HORIZON_TEMP_FILE, false, false, DEBUG1) != 0)
		return file_failed(reason, size, "fsync", HORIZON_TEMP_FILE);
	if (rename(HORIZON_TEMP_FILE, HORIZON_FILE) != 0)
		return file_failed(reason, size, "rename", HORIZON_TEMP_FILE);
	if (fsync_fname_ext(".", true, false, DEBUG1) != 0)
		return file_failed(reason, size, "fsync directory of", HORIZON_FILE);
	return true;
}
