/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  A worker that sessions ask and wait for.
 *
 * The horizon has one, and so have leases.  Each is a session without a
 * database: pg_stat_activity shows it, and pg_terminate_backend() ends it.  The
 * server starts it again after a second.  It works in attempts.  A session wakes
 * it, sleeps until an attempt has ended, and looks again at what it waits for.
 *
 * A note about locking: the worker alone writes "latch", which others read
 * without a lock: a latch outlives its process, and to set one is harmless.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "worker.h"

/* How long a caller waits for the worker before it asks again. */
#define WAIT_US USECS_PER_SEC

/* How long a caller waits for a worker that died; it is back after a second. */
#define PATIENCE_US (5 * USECS_PER_SEC)

/* Our workers, two at most, and the server's own for subscriptions, which comes first. */
#define MISSING_PLACES 3

void
worker_register(const char *name, const char *function)
{
	BackgroundWorker worker = {0};

	strlcpy(worker.bgw_name, name, BGW_MAXLEN);
	strlcpy(worker.bgw_type, name, BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "snowflake", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, function, BGW_MAXLEN);
	worker.bgw_flags =
		BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}

void
worker_shmem_startup(Worker *worker)
{
	worker->latch = NULL;
	pg_atomic_init_u64(&worker->attempts, 0);
	ConditionVariableInit(&worker->attempted);
}

/* This process's worker, and what clears what it has said. */
static Worker *me;
static void (*forget_all)(void);

static void
leave(int code, Datum arg)
{
	me->latch = NULL;
	forget_all();
}

/* The process has started.  Its memory is for one attempt. */
void
worker_begin(Worker *worker, void (*forget)(void))
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext,
												"snowflake worker",
												ALLOCSET_DEFAULT_SIZES));
	me = worker;
	forget_all = forget;
	on_shmem_exit(leave, (Datum) 0);
	worker->latch = MyLatch;
}

/* The sessions that wait look again. */
void
worker_end_attempt(Worker *worker)
{
	(void) pg_atomic_fetch_add_u64(&worker->attempts, 1);
	ConditionVariableBroadcast(&worker->attempted);
}

void
worker_wake(const Worker *worker)
{
	Latch *latch = worker->latch;

	if (latch != NULL)
		SetLatch(latch);
}

/* True at the first call, after which the caller looks again before it sleeps. */
bool
worker_begin_wait(Worker *worker, WorkerWait *wait)
{
	if (wait->begun)
		return false;
	wait->begun = true;
	wait->attempts = pg_atomic_read_u64(&worker->attempts);
	ConditionVariablePrepareToSleep(&worker->attempted);
	return true;
}

/* It found no place when the server started.  Others of ours, too, may lack one. */
static void
report_no_worker(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake's background worker is not running"),
			 IsUnderPostmaster ?
				 errhint("Set \"max_worker_processes\" to %d or more, and "
						 "restart the server.",
						 max_worker_processes + MISSING_PLACES) :
				 errhint("The server is in single-user mode. Start it as "
						 "usual.")));
}

/*
 * Raise an error if the caller has waited without a worker for so long that a
 * worker that died would be back.  Else wake the worker, and wait for the end of
 * an attempt.
 */
void
worker_wait(Worker *worker, WorkerWait *wait, WaitName *event)
{
	if (worker->latch != NULL)
		wait->last_worker_us = wait->waited_us;
	else if (!IsUnderPostmaster ||
			 wait->waited_us - wait->last_worker_us > PATIENCE_US)
		report_no_worker();
	worker_wake(worker);
	wait->waited_us += wait_outside_locks(WAIT_US, event, &worker->attempted);
}

/* What was waited for has come.  Gives how long that took. */
int64
worker_end_wait(const WorkerWait *wait)
{
	ConditionVariableCancelSleep();
	return wait->waited_us;
}

/* Raise an error if there is no worker; with patience, if it does not come back. */
void
worker_check(Worker *worker, bool patient)
{
	static WaitName event = {"Extension", PG_WAIT_EXTENSION};
	WorkerWait		wait = {0};

	if (worker->latch != NULL)
		return;
	if (!patient)
		report_no_worker();
	(void) worker_begin_wait(worker, &wait);
	while (worker->latch == NULL)
		worker_wait(worker, &wait, &event);
	(void) worker_end_wait(&wait);
}
