/* worker.h -- a worker that sessions ask and wait for. See worker.c. */
#ifndef SNOWFLAKE_WORKER_H
#define SNOWFLAKE_WORKER_H

#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"

#include "clock.h"

/* In shared memory. */
typedef struct Worker
{
	Latch *volatile latch;		/* NULL while there is none */
	pg_atomic_uint64  attempts; /* at its work, ended */
	ConditionVariable attempted;
} Worker;

/* What a caller remembers while it waits; zero at first. */
typedef struct WorkerWait
{
	bool   begun;
	uint64 attempts; /* when the wait began */
	int64  waited_us;
	int64  last_worker_us; /* how long it had waited when it saw a worker */
} WorkerWait;

/* for the postmaster */
extern void worker_register(const char *name, const char *function);
extern void worker_shmem_startup(Worker *worker);

/* for the worker itself */
extern void worker_begin(Worker *worker, void (*forget)(void));
extern void worker_end_attempt(Worker *worker);

/* for sessions */
extern void	 worker_wake(const Worker *worker);
extern bool	 worker_begin_wait(Worker *worker, WorkerWait *wait);
extern void	 worker_wait(Worker *worker, WorkerWait *wait, WaitName *event);
extern int64 worker_end_wait(const WorkerWait *wait);
extern void	 worker_check(Worker *worker, bool patient);

#endif /* SNOWFLAKE_WORKER_H */
