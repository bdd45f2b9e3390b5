/*-------------------------------------------------------------------------
 *
 * place.c
 *	  Another host, and another file system, for a server that stays here.
 *
 * To be preloaded (LD_PRELOAD) into a server.  What it is to see is in its
 * environment; what is not set is as it is:
 *
 *	SNOWFLAKE_HOST		the name of the host
 *	SNOWFLAKE_INODE		the inode of the file PG_VERSION
 *	SNOWFLAKE_NO_BIRTH	the file system does not tell when a file was made
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int
gethostname(char *name, size_t size)
{
	const char	  *host = getenv("SNOWFLAKE_HOST");
	struct utsname here;

	if (host == NULL && uname(&here) != 0)
		return -1;
	strncpy(name, host != NULL ? host : here.nodename, size);
	return 0;
}

int
statx(int directory, const char *path, int flags, unsigned int mask,
	  struct statx *status)
{
	const char *inode = getenv("SNOWFLAKE_INODE");
	int result = syscall(SYS_statx, directory, path, flags, mask, status);

	if (result == 0 && strcmp(path, "PG_VERSION") == 0)
	{
		if (inode != NULL)
			status->stx_ino = strtoull(inode, NULL, 10);
		if (getenv("SNOWFLAKE_NO_BIRTH") != NULL)
			status->stx_mask &= ~STATX_BTIME;
	}
	return result;
}
