/*-------------------------------------------------------------------------
 *
 * slowdisk.c
 *	  A slow, full or broken disk, for a server's horizon file alone.
 *
 * To be preloaded (LD_PRELOAD) into a server.  The environment variable
 * SNOWFLAKE_DISK names the control file, which is read again at each call that
 * it may concern, so the disk can be changed under a running server.  It holds
 * words, separated by blanks or line ends; a file that is missing or empty
 * leaves everything alone:
 *
 *	fsync_ms=N		each fsync of the horizon file lasts N ms longer
 *	wal_ms=N		likewise each fsync or fdatasync of a file in pg_wal
 *	fsync=E			fsync of the horizon file fails
 *	directory=E		the fsync of its directory fails that follows a rename
 *	open=E			open of it fails, for reading and for writing
 *	open=wait		open of it fails in the server itself, and waits in the server's
 *					children until this word is gone
 *	create=E		open of it for writing fails
 *	write=E			write to it fails
 *	write=short		write to it writes half, and leaves errno alone
 *	close=E			close of it fails (the descriptor is gone all the same)
 *	rename=E		rename of it fails
 *
 * E is ENOSPC, EIO, EACCES, EDQUOT, EROFS, EMFILE or a number.  The horizon
 * file is every file whose path contains "snowflake.horizon", the temporary
 * one included; its directory counts as well for the one fsync that follows a
 * rename, which is the directory's part of it.
 *
 * What was done is told in the file that is named like the control file with
 * ".log" behind it, a line for each call, such as "fsync 200 ms", "wal 200 ms"
 * or "write ENOSPC".  So a test can prove that the disk was as bad as it
 * thinks.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
/*
 * A server of 32 bits is compiled for large files: where it says open, it calls
 * open64.  With the same setting so do we, and define open64 where we say open.
 */
#if __SIZEOF_LONG__ < 8
#define _FILE_OFFSET_BITS 64
#define LARGE "64"
#else
#define LARGE ""
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HORIZON "snowflake.horizon"
#define WAL "pg_wal/"
#define MAX_FDS 4096
#define CONTROL_SIZE 512

typedef enum Kind
{
	OTHER,
	HORIZON_FILE,
	HORIZON_DIRECTORY,
	WAL_FILE
} Kind;

/* What is open, by descriptor.  Inherited by fork, as the descriptors are. */
static unsigned char kinds[MAX_FDS];

/* Was the horizon file renamed, and the directory not yet fsynced? */
static bool renamed;

static const struct
{
	const char *name;
	int			number;
} errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},		{"EACCES", EACCES},
			  {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EMFILE", EMFILE}};

#define REAL(function) REAL_AS(function, #function)
#define REAL_AS(function, name)        \
	static __typeof__(&function) real; \
	if (real == NULL)                  \
	real = (__typeof__(&function)) dlsym(RTLD_NEXT, name)

/*
 * The value of a word of the control file, or NULL.  System calls, because the
 * library's functions are ours.
 */
static const char *
setting(const char *word, char *buffer)
{
	const char *path = getenv("SNOWFLAKE_DISK");
	char	   *save = NULL;
	long		length;
	int			fd;

	if (path == NULL)
		return NULL;
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	length = syscall(SYS_read, fd, buffer, CONTROL_SIZE - 1);
	syscall(SYS_close, fd);
	if (length <= 0)
		return NULL;
	buffer[length] = '\0';
	for (char *at = strtok_r(buffer, " \t\n", &save); at != NULL;
		 at = strtok_r(NULL, " \t\n", &save))
	{
		size_t size = strlen(word);

		if (strncmp(at, word, size) == 0 && at[size] == '=')
			return at + size + 1;
	}
	return NULL;
}

static void
tell(const char *what, const char *value)
{
	const char *path = getenv("SNOWFLAKE_DISK");
	char		name[4096];
	char		line[CONTROL_SIZE + 64];
	int			length;
	int			fd;

	snprintf(name, sizeof(name), "%s.log", path);
	length = snprintf(line, sizeof(line), "%s %s\n", what, value);
	fd = syscall(SYS_openat, AT_FDCWD, name,
				 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	(void) !syscall(SYS_write, fd, line, length);
	syscall(SYS_close, fd);
}

/* Is this call to fail?  If so, errno says how. */
static bool
fails(const char *word)
{
	char		buffer[CONTROL_SIZE];
	int			saved = errno;
	const char *value = setting(word, buffer);
	int			number = 0;

	errno = saved;
	if (value == NULL)
		return false;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
	{
		if (strcmp(value, errors[i].name) == 0)
			number = errors[i].number;
	}
	if (number == 0)
		number = atoi(value);
	if (number == 0)
		return false;
	tell(word, value);
	errno = number;
	return true;
}

/* A signal cuts no fsync short, so none cuts this. */
static void
delay(const char *word, const char *what)
{
	char			buffer[CONTROL_SIZE];
	char			told[64];
	int				saved = errno;
	const char	   *value = setting(word, buffer);
	long			ms = value != NULL ? atol(value) : 0;
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	if (ms > 0)
	{
		while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR)
			;
		snprintf(told, sizeof(told), "%ld ms", ms);
		tell(what, told);
	}
	errno = saved;
}

static pid_t first_process;

__attribute__((constructor)) static void
note_first_process(void)
{
	first_process = getpid();
}

/* Is "open" to fail, because of "open=wait"?  In a child, wait until it is not. */
static bool
open_is_held_up(void)
{
	char				  buffer[CONTROL_SIZE];
	int					  saved = errno;
	const char			 *value;
	const struct timespec pause = {0, 10 * 1000000};

	while ((value = setting("open", buffer)) != NULL &&
		   strcmp(value, "wait") == 0)
	{
		if (getpid() == first_process)
		{
			errno = EIO;
			return true;
		}
		(void) syscall(SYS_nanosleep, &pause, NULL);
	}
	errno = saved;
	return false;
}

static Kind
kind_of(int fd)
{
	return fd >= 0 && fd < MAX_FDS ? kinds[fd] : OTHER;
}

static bool
is_horizon(const char *path)
{
	return strstr(path, HORIZON) != NULL;
}

int
open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	int	   fd;
	REAL_AS(open, "open" LARGE);

	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE)
	{
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	if (is_horizon(path) &&
		(open_is_held_up() || fails("open") ||
		 ((flags & O_ACCMODE) != O_RDONLY && fails("create"))))
		return -1;
	fd = real(path, flags, mode);
	if (fd >= 0 && fd < MAX_FDS)
		kinds[fd] = is_horizon(path)				  ? HORIZON_FILE :
					renamed && strcmp(path, ".") == 0 ? HORIZON_DIRECTORY :
					strstr(path, WAL) != NULL		  ? WAL_FILE :
														OTHER;
	return fd;
}

int
close(int fd)
{
	Kind kind = kind_of(fd);
	int	 result;
	REAL(close);

	if (kind != OTHER)
		kinds[fd] = OTHER;
	result = real(fd);
	if (kind == HORIZON_FILE && fails("close"))
		return -1;
	return result;
}

ssize_t
write(int fd, const void *bytes, size_t count)
{
	char		buffer[CONTROL_SIZE];
	const char *value;
	REAL(write);

	if (kind_of(fd) == HORIZON_FILE)
	{
		int saved = errno;

		if (fails("write"))
			return -1;
		value = setting("write", buffer);
		if (value != NULL && strcmp(value, "short") == 0)
		{
			tell("write", "short");
			count /= 2;
		}
		errno = saved;
	}
	return real(fd, bytes, count);
}

ssize_t
pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
	REAL_AS(pwrite, "pwrite" LARGE);

	if (kind_of(fd) == HORIZON_FILE && fails("write"))
		return -1;
	return real(fd, bytes, count, offset);
}

static bool
before_fsync(int fd)
{
	Kind kind = kind_of(fd);

	if (kind == WAL_FILE)
		delay("wal_ms", "wal");
	else if (kind != OTHER)
	{
		if (kind == HORIZON_DIRECTORY)
			renamed = false;
		delay("fsync_ms", "fsync");
		return !fails("fsync") &&
			   !(kind == HORIZON_DIRECTORY && fails("directory"));
	}
	return true;
}

int
fsync(int fd)
{
	REAL(fsync);

	return before_fsync(fd) ? real(fd) : -1;
}

int
fdatasync(int fd)
{
	REAL(fdatasync);

	return before_fsync(fd) ? real(fd) : -1;
}

int
rename(const char *from, const char *to)
{
	int result;
	REAL(rename);

	if (is_horizon(to) && fails("rename"))
		return -1;
	result = real(from, to);
	if (result == 0 && is_horizon(to))
		renamed = true;
	return result;
}
