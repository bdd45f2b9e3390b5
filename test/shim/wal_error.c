/*-------------------------------------------------------------------------
 *
 * wal_error.c
 *	  While the file that SNOWFLAKE_WAL_ERROR names is there, an error of the
 *	  server in the middle of logging the horizon, with a lock of the server held.
 *
 * To be preloaded by a server with wal_compression = lz4, which compresses the
 * image of a page after the record was begun and before the critical section, in
 * which an error would be a PANIC.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <dlfcn.h>
#include <unistd.h>

#include "storage/lwlock.h"

#pragma weak MainLWLockArray /* only the server has it */

#define CONTENTS 24		 /* where a page's contents begin */
#define MAGIC 0x534E4F57 /* of the horizon's record */

extern int LZ4_compress_default(const char *source, char *dest, int length,
								int capacity);

int
LZ4_compress_default(const char *source, char *dest, int length, int capacity)
{
	int (*real)(const char *, char *, int, int) =
		dlsym(RTLD_NEXT, "LZ4_compress_default");
	const char *file = getenv("SNOWFLAKE_WAL_ERROR");
	uint32		magic;

	memcpy(&magic, source + CONTENTS, sizeof(magic));
	if (magic == MAGIC && file && access(file, F_OK) == 0)
	{
		LWLockAcquire(AutovacuumScheduleLock, LW_EXCLUSIVE);
		elog(ERROR, "logging is made to fail");
	}
	return real(source, dest, length, capacity);
}
