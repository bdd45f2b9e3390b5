/*
 * known.c -- the horizon's worker, which opens it, and the worker that leases, which waits
 * for that
 *
 * Who knows that the server is open, sees the horizon that was found.
 */
#include "harness.h"

#include "positions.h"

static void *
worker(void *argument)
{
	enter_process(0, 0, 0, 0);
	renew(-1);
	return NULL;
}

static void *
leasing_worker(void *argument)
{
	enter_process(1, 1, 2, 2);
	if (!bounds_are_known())
		return NULL;
	check((int64) pg_atomic_read_u64(&bounds->found_horizon) == FOUND);
	check(positions_end(0) >= FOUND);
	lease(0, 0);
	check(positions_end(0) > FOUND);
	return NULL;
}

int
main(void)
{
	long process[2];

	start_server(false);
	process[0] = start_process(worker, 0);
	process[1] = start_process(leasing_worker, 0);
	__VERIFIER_thread_join(process[0]);
	__VERIFIER_thread_join(process[1]);
	return 0;
}
