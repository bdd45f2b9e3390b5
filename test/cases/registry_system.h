/*-------------------------------------------------------------------------
 *
 * registry_system.h
 *	  What is below registry.c, for registry_cases.c, besides libpq: a clock, a latch,
 *	  limits of memory, and settings.  Each wait is compared with the time that is left.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <sys/resource.h>

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "../../src/clock.h"
#include "../../src/lease/conninfo.h"
#include "../../src/settings.h"
#include "cases.h"

#define NEVER PG_INT64_MAX
#define SECOND INT64CONST(1000000)
#define MINUTE (60 * SECOND)

/* --- Time, and who wakes us ---------------------------------------------- */

static int64 now_us;
static int64 end_us;		/* of the time for the host, or for the call */
static int64 stop_at_us;	/* then the server is asked to shut down */
static int64 stop_end_us;	/* so long after we know that */
static int64 wake_every_us; /* something else wakes us; 0: nothing does */
static bool	 is_stopping;
static bool	 is_latch_set;
static int	 wakes;
static int	 interrupts;
static int	 looks; /* at the clock */
static int	 waits;

/* What libpq waits for. */
static int	 awaited;
static int64 ready_us;

#define OUR_SOCKET 77

int64
steady_clock_us(void)
{
	CHECK(++looks <
		  20000); /* or it does not wait, and looks again and again */
	return now_us;
}

static int
our_wait(Latch *latch, int events, pgsocket socket, long timeout_ms)
{
	int64 until = now_us + timeout_ms * 1000;
	int64 wake = wake_every_us == 0 ?
					 NEVER :
					 (now_us / wake_every_us + 1) * wake_every_us;
	int64 end;

	if (is_stopping && stop_end_us == NEVER)
		stop_end_us = now_us + 3 * SECOND;
	end = Min(end_us, stop_end_us);
	CHECK(++waits < 1000);
	CHECK(latch == MyLatch && socket == OUR_SOCKET);
	CHECK(events ==
		  (WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | awaited));

	/* as long as is left, and not once more for a part of a millisecond */
	CHECK(now_us < end);
	CHECK(until >= end && until <= end + 1000);

	if (!is_latch_set)
	{
		until = Min(Min(until, wake), ready_us);
		if (!is_stopping)
			until = Min(until, stop_at_us);
		now_us = Max(now_us, until);
		is_latch_set = now_us == wake;
		if (!is_stopping && now_us == stop_at_us)
			is_stopping = is_latch_set = true;
	}
	wakes += is_latch_set;
	events =
		(is_latch_set ? WL_LATCH_SET : 0) | (now_us >= ready_us ? awaited : 0);
	return events == 0 ? WL_TIMEOUT : events;
}

/* --- The system ----------------------------------------------------------- */

#define PAGE_SIZE_HERE 16384

static bool			  has_limit; /* getrlimit() can tell it */
static struct rlimit  limit;
static const char	 *statm; /* NULL: there is no such file */
static int			  open_files;
static const char	 *host_name;
static const char	 *name_of_cluster;
static unsigned char *guard; /* behind the memory that was allocated last */

#define GUARD_SIZE 8
#define GUARD 0x5a

static int
our_getrlimit(int what, struct rlimit *found)
{
	CHECK(what == RLIMIT_DATA);
	*found = limit;
	return has_limit ? 0 : -1;
}

static int
our_setrlimit(int what, const struct rlimit *set)
{
	CHECK(what == RLIMIT_DATA);
	limit = *set;
	return 0;
}

static FILE *
our_allocate_file(const char *name, const char *mode)
{
	CHECK(strcmp(name, "/proc/self/statm") == 0 && strcmp(mode, "r") == 0);
	if (statm == NULL)
		return NULL;
	open_files++;
	return statm[0] == '\0' ? fopen("/dev/null", mode) :
							  fmemopen((char *) statm, strlen(statm), mode);
}

static int
our_free_file(FILE *file)
{
	open_files--;
	return fclose(file);
}

/* A name that has no room ends without a zero. */
static int
our_gethostname(char *name, size_t size)
{
	strncpy(name, host_name, size);
	return 0;
}

static void *
our_palloc(size_t size)
{
	char *memory = palloc(size + GUARD_SIZE);

	guard = (unsigned char *) memory + size;
	memset(guard, GUARD, GUARD_SIZE);
	return memory;
}

/* --- Settings ---------------------------------------------------------------- */

int				 settings_lease_ms;
const OwnShards *settings_asked_shards;
static Layout	 layout;

const Layout *
settings_layout(void)
{
	return &layout;
}

const char *
settings_layout_text(void)
{
	return "a layout";
}

const char *
settings_registry(void)
{
	return "the connection string";
}

char *
number_text(uint64 number)
{
	return psprintf("#%llx", (unsigned long long) number);
}
