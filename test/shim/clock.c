/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  A clock that can be set under a running server.
 *
 * To be preloaded (LD_PRELOAD) into the programs that start a server.  The
 * environment variable SNOWFLAKE_CLOCK names a file with the seconds by which
 * the clock is wrong, such as "-1800.500", or with the time at which it stands still, in
 * seconds since 1970, such as "@1893456000.05".  It is read again each time somebody asks
 * for the time.  The file is to be replaced, never written over: a reader
 * that met half of it would see another time.  If it cannot be read, the clock
 * is as it was when it last could.
 *
 * A server asks for the time in signal handlers as well, so nothing here
 * allocates or locks.  (libfaketime does: its readers have died in malloc, and have
 * waited for each other for ever.)  The monotonic clock is left alone.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000

static const char *file;
static int (*real_clock)(clockid_t, struct timespec *);

typedef struct Wrong
{
	bool	  stands_still;
	long long nanoseconds; /* by which it is wrong, or since 1970 */
} Wrong;

static Wrong last; /* as the file was when it could be read */

__attribute__((constructor)) static void
find_clock(void)
{
	const char *name = getenv("SNOWFLAKE_CLOCK");

	if (name != NULL)
		file = strdup(name); /* a server overwrites its environment */
	real_clock = dlsym(RTLD_NEXT, "clock_gettime");
}

/* What the file holds: "@" or a sign or none, seconds, and up to nine decimals. */
static Wrong
read_clock(void)
{
	char	  text[64];
	int		  fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	ssize_t	  length;
	long long sum = 0;
	long long unit = 0; /* of the next decimal; 0 before the point */

	if (fd < 0)
		return last;
	length = syscall(SYS_read, fd, text, sizeof(text));
	syscall(SYS_close, fd);
	for (ssize_t i = 0; i < length; i++)
	{
		long long digit = text[i] - '0';

		if (text[i] == '.')
			unit = BILLION / 10;
		else if (digit < 0 || digit > 9)
			continue; /* the sign, and the line's end */
		else if (unit == 0)
			sum = sum * 10 + digit * BILLION;
		else
		{
			sum += digit * unit;
			unit /= 10;
		}
	}
	if (length > 0)
		last = (Wrong){text[0] == '@', text[0] == '-' ? -sum : sum};
	return last;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int		  before = errno;
	int		  result;
	Wrong	  wrong;
	long long nanoseconds;

	if (real_clock == NULL)
		find_clock();
	result = real_clock(clock, now);
	if (result != 0 || file == NULL ||
		(clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return result;
	wrong = read_clock();
	if (wrong.stands_still)
		*now = (struct timespec){0, 0};
	nanoseconds = now->tv_nsec + wrong.nanoseconds % BILLION + BILLION;
	now->tv_sec += wrong.nanoseconds / BILLION - 1 + nanoseconds / BILLION;
	now->tv_nsec = nanoseconds % BILLION;
	errno = before;
	return 0;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	int				result = clock_gettime(CLOCK_REALTIME, &precise);

	(void) zone;
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return result;
}

time_t
time(time_t *now)
{
	struct timespec precise;

	clock_gettime(CLOCK_REALTIME, &precise);
	if (now != NULL)
		*now = precise.tv_sec;
	return precise.tv_sec;
}
