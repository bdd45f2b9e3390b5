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
 *	SNOWFLAKE_BOOT		what the machine drew when it was booted
 *	SNOWFLAKE_SAME		all files are the same one, on the same device
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	if (result == 0 && getenv("SNOWFLAKE_SAME") != NULL)
	{
		status->stx_ino = 42;
		status->stx_btime = (struct statx_timestamp){.tv_sec = 42};
		status->stx_mask |= STATX_BTIME;
		status->stx_dev_major = status->stx_dev_minor = 42;
	}
	return result;
}

/* Give the file of the boot's number, if it is to be another. */
static int
open_boot(const char *path)
{
	const char *boot = getenv("SNOWFLAKE_BOOT");
	int			fd;

	if (boot == NULL || strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
		return -1;
	fd = memfd_create("boot", 0);
	if (write(fd, boot, strlen(boot)) < 0 || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

static int
open_file(const char *path, int flags, va_list arguments)
{
	int fd = open_boot(path);

	if (fd < 0)
		fd =
			syscall(SYS_openat, AT_FDCWD, path, flags,
					flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) :
													0);
	return fd;
}

int
open(const char *path, int flags, ...)
{
	va_list arguments;
	int		fd;

	va_start(arguments, flags);
	fd = open_file(path, flags, arguments);
	va_end(arguments);
	return fd;
}

int
open64(const char *path, int flags, ...)
{
	va_list arguments;
	int		fd;

	va_start(arguments, flags);
	fd = open_file(path, flags | O_LARGEFILE, arguments);
	va_end(arguments);
	return fd;
}
