/*-------------------------------------------------------------------------
 *
 * worker_cases.c
 *	  All that a session can meet when it waits, and a worker in its life.
 *
 * worker_cases() calls the functions of clock.c and worker.c, with a server of our own
 * below them: another clock, other sleeps, another process.  It tries all cases, compares
 * each with what the heads of the two files say, and returns how many it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "../../src/compat.h"
#include "calls.h"

PG_MODULE_MAGIC;

/* --- The server ---------------------------------------------------------- */

static int64			   clock_ns;
static int64			   asleep_ns; /* how long each sleep lasts */
static int				   sleeps;
static int				   sleep_of_latch; /* in this sleep a worker comes */
static bool				   under_postmaster;
static int				   worker_places;
static Latch			   our_latch;
static BackgroundWorker	   registered;
static pg_on_exit_callback at_exit;

static void our_sleep(void);

static void
our_gettime(clockid_t id, struct timespec *time)
{
	time->tv_sec = (id == CLOCK_MONOTONIC ? clock_ns : 0) / 1000000000;
	time->tv_nsec = (id == CLOCK_MONOTONIC ? clock_ns : 0) % 1000000000;
}

#define clock_gettime(id, time) our_gettime(id, time)
#define MyLatch (&our_latch)
#define IsUnderPostmaster under_postmaster
#define max_worker_processes worker_places

#undef CHECK_FOR_INTERRUPTS
#define CHECK_FOR_INTERRUPTS() called(" interrupts")
#undef named_wait_event
#define named_wait_event(name) (called(" name %s", name), 77)

#define WaitLatch(latch, wakes, ms, event)                                   \
	(called(" latch %ld ms event %u%s", (long) (ms), event,                  \
			(latch) == &our_latch && (wakes) == (WL_LATCH_SET | WL_TIMEOUT | \
												 WL_EXIT_ON_PM_DEATH) ?      \
				"" :                                                         \
				" ?"),                                                       \
	 our_sleep(), 0)
#define ResetLatch(latch) called(" reset")
#define SetLatch(latch) called((latch) == &our_latch ? " wake" : " ?")
#define pgstat_report_wait_start(event) called(" event %u", event)
#define pgstat_report_wait_end() called(" end")
#undef pg_usleep
#define pg_usleep(us) (called(" sleep %ld us", (long) (us)), our_sleep())

#define ConditionVariableInit(condition) called(" init")
#define ConditionVariableBroadcast(condition) called(" broadcast")
#define ConditionVariablePrepareToSleep(condition) called(" prepare")
#define ConditionVariableCancelSleep() called(" cancel")
#define ConditionVariableTimedSleep(condition, ms, event)                   \
	(called(" condition %ld ms event %u", (long) (ms), event), our_sleep(), \
	 false)

#define RegisterBackgroundWorker(worker) (registered = *(worker))
#undef pqsignal
#define pqsignal(number, handler)                         \
	called(" %s %s", (number) == SIGHUP ? "HUP" : "TERM", \
		   (handler) == SignalHandlerForConfigReload ? "reload" : "shutdown")
#define BackgroundWorkerUnblockSignals() called(" unblock")
#define BackgroundWorkerInitializeConnection(database, user, flags) \
	called(" connect %s", (database) || (user) || (flags) ? "?" : "")
#define on_shmem_exit(function, argument) \
	(called(" at exit"), at_exit = (function))

#include "../../src/clock.c"
#include "../../src/worker.c"

static Worker worker;

static void
our_sleep(void)
{
	clock_ns += asleep_ns;
	if (++sleeps == sleep_of_latch)
		worker.latch = MyLatch;
}

/* --- The clock, and waiting ---------------------------------------------- */

static void
try_clock(void)
{
	for (clock_ns = 0; clock_ns < INT64CONST(3000000000); clock_ns += 499999)
		CHECK(steady_clock_us() * 1000 == clock_ns - clock_ns % 1000);
}

/* A line is logged when it is due, and then at the end of the next interval. */
static void
try_logging(void)
{
	pg_atomic_uint64 after;

	for (int due = 0; due < 10; due++)
	{
		for (int now = 0; now < 10; now++)
		{
			bool is_due = due < now || due == now;

			pg_atomic_init_u64(&after, due);
			clock_ns = now * 1000;
			CHECK(may_log_now(&after, 5) == is_due);
			CHECK(pg_atomic_read_u64(&after) == (is_due ? now + 5 : due));
			CHECK(!may_log_now(&after, 5) || !is_due);
		}
	}
}

static void
try_waits(void)
{
	static const int64 waits[] = {0,	1,	  999,	1000,  1999,
								  2000, 2001, 2999, 50000, 1000000};
	ConditionVariable  condition;

	for (int i = 0; i < lengthof(waits) * 4; i++)
	{
		int64	 us = waits[i / 4];
		bool	 is_named = i & 1;
		bool	 is_of_condition = i & 2;
		WaitName event = {"Reason", is_named ? 5 : 0};
		int		 number = is_named ? 5 : 77;
		char	*how;

		/* the server's waits last whole milliseconds; two at least */
		how = is_of_condition ?
				  psprintf("condition %ld ms event %d", (long) us / 1000,
						   number) :
			  us < 2000 ?
				  psprintf("event %d sleep %ld us end", number, (long) us) :
				  psprintf("latch %ld ms event %d reset", (long) us / 1000,
						   number);
		clock_ns = INT64CONST(7000000000);
		asleep_ns = (us + 3) * 1000;
		CHECK(wait_outside_locks(us, &event,
								 is_of_condition ? &condition : NULL) ==
			  us + 3);
		CHECK_CALLS(psprintf("%s interrupts %s interrupts",
							 is_named ? "" : " name Reason", how));
		CHECK(event.number == number);
	}
}

/* --- A worker's life ----------------------------------------------------- */

static void
try_registration(void)
{
	memset(&registered, 0xff, sizeof(registered));
	worker_register("snowflake test", "test_main");
	CHECK(strcmp(registered.bgw_name, "snowflake test") == 0);
	CHECK(strcmp(registered.bgw_type, "snowflake test") == 0);
	CHECK(strcmp(registered.bgw_library_name, "snowflake") == 0);
	CHECK(strcmp(registered.bgw_function_name, "test_main") == 0);
	CHECK(registered.bgw_flags ==
		  (BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION));
	CHECK(registered.bgw_start_time == BgWorkerStart_RecoveryFinished);
	CHECK(registered.bgw_restart_time == 1);
	CHECK(registered.bgw_notify_pid == 0 && registered.bgw_main_arg == 0);
}

static void
forget(void)
{
	called(" forget%s", worker.latch ? " ?" : "");
}

static void
try_process(void)
{
	MemoryContext context = CurrentMemoryContext;

	memset(&worker, 0xff, sizeof(worker));
	worker_shmem_startup(&worker);
	CHECK(worker.latch == NULL);
	CHECK(pg_atomic_read_u64(&worker.attempts) == 0);
	CHECK_CALLS(" init");
	worker_wake(&worker);
	CHECK_CALLS("");

	worker_begin(&worker, forget);
	CHECK(strcmp(CurrentMemoryContext->name, "snowflake worker") == 0);
	CHECK(CurrentMemoryContext->parent == TopMemoryContext);
	MemoryContextDelete(MemoryContextSwitchTo(context));
	CHECK(worker.latch == MyLatch);
	CHECK_CALLS(" HUP reload TERM shutdown unblock connect  at exit");
	worker_wake(&worker);
	CHECK_CALLS(" wake");

	for (int i = 1; i < 4; i++)
	{
		worker_end_attempt(&worker);
		CHECK(pg_atomic_read_u64(&worker.attempts) == i);
		CHECK_CALLS(" broadcast");
	}
	at_exit(0, (Datum) 0);
	CHECK(worker.latch == NULL);
	CHECK_CALLS(" forget");
}

/* --- Waiting for a worker ------------------------------------------------ */

static WorkerWait a_wait;
static WaitName	  a_reason = {"Reason", 5};

static void
wait_for_it(void)
{
	worker_wait(&worker, &a_wait, &a_reason);
}

/* The error where there is no worker. */
static const char *
no_worker(void)
{
	return psprintf("55000: snowflake's background worker is not running; %s",
					under_postmaster ?
						"Set \"max_worker_processes\" to 11 or more, and "
						"restart the server." :
						"The server is in single-user mode. Start it as "
						"usual.");
}

static const char asleep[] =
	" interrupts condition 1000 ms event 5 interrupts";

/* A worker that was seen is missed for so long. */
static void
try_patience(void)
{
	static const int64 missed[] = {0, 1, 4999999, 5000000, 5000001, 9000000};

	for (int i = 0; i < lengthof(missed) * 4; i++)
	{
		bool		is_there = i & 1;
		bool		fails;
		const int64 seen_us = INT64CONST(100000000);
		const int64 waited_us = seen_us + missed[i / 4];

		under_postmaster = i & 2;
		worker.latch = is_there ? MyLatch : NULL;
		a_wait =
			(WorkerWait){.waited_us = waited_us, .last_worker_us = seen_us};
		fails = !is_there && (!under_postmaster || missed[i / 4] > 5000000);
		CHECK(strcmp(error_of(wait_for_it), fails ? no_worker() : "") == 0);
		CHECK(a_wait.waited_us == waited_us + (fails ? 0 : 30));
		CHECK(a_wait.last_worker_us == (is_there ? waited_us : seen_us));
		CHECK_CALLS(
			psprintf("%s%s", is_there ? " wake" : "", fails ? "" : asleep));
	}
}

static void
try_wait(void)
{
	a_wait = (WorkerWait){0};
	pg_atomic_write_u64(&worker.attempts, 7);
	CHECK(worker_begin_wait(&worker, &a_wait));
	CHECK(a_wait.begun && a_wait.attempts == 7);
	CHECK_CALLS(" prepare");
	pg_atomic_write_u64(&worker.attempts, 8);
	CHECK(!worker_begin_wait(&worker, &a_wait));
	CHECK(a_wait.begun && a_wait.attempts == 7);
	CHECK_CALLS("");
	a_wait.waited_us = 9;
	CHECK(worker_end_wait(&a_wait) == 9);
	CHECK_CALLS(" cancel");
}

static void
check_now(void)
{
	worker_check(&worker, false);
}

static void
check_with_patience(void)
{
	worker_check(&worker, true);
}

/* Is there a worker?  It comes in one of the sleeps, of a second each; or never. */
static void
try_checks(void)
{
	static const char slept[] = " interrupts condition 1000 ms event "
								"%u interrupts";

	asleep_ns = INT64CONST(1000000000);
	for (int comes = 0; comes < 9; comes++)
	{
		char *expected = pstrdup("");

		sleep_of_latch = comes;
		for (int is_postmaster = 0; is_postmaster < 2; is_postmaster++)
		{
			under_postmaster = is_postmaster;
			worker.latch = comes == 0 ? MyLatch : NULL;
			CHECK(strcmp(error_of(check_now), comes == 0 ? "" : no_worker()) ==
				  0);
			CHECK_CALLS("");
		}
		worker.latch = comes == 0 ? MyLatch : NULL;
		sleeps = 0;

		/* after 5 seconds its patience ends, but not in that moment */
		CHECK(strcmp(error_of(check_with_patience),
					 comes <= 6 ? "" : no_worker()) == 0);
		for (int i = 0; i < Min(comes, 6); i++)
			expected =
				psprintf("%s%s", expected, psprintf(slept, PG_WAIT_EXTENSION));
		if (comes > 0)
			expected = psprintf(" prepare%s%s", expected,
								comes <= 6 ? " cancel" : "");
		CHECK_CALLS(expected);
	}
}

PG_FUNCTION_INFO_V1(worker_cases);
Datum
worker_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	forget_calls();
	worker_places = 8;
	try_clock();
	try_logging();
	try_waits();
	try_registration();
	try_process();
	asleep_ns = 30000;
	try_patience();
	try_wait();
	try_checks();
	PG_RETURN_INT64(tried);
}
