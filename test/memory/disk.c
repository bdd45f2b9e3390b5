/*
 * disk.c -- a reader of what is new, the horizon's worker, which opens the server, and the
 * one that leases, which opens a shard in a tick that is not on disk yet
 *
 * No mark is above what is on disk: a later start may mint from there on.
 */
#include "harness.h"

#include "lease_table.h"

static void *
reader(void *argument)
{
	static SnapshotData snapshot;
	int64				mark;

	enter_process(0, 0, 9, 9);
	take_snapshot(&snapshot);
	mark = tick_of(mark_of_snapshot(&snapshot));
	check(mark == FOUND || mark <= horizon_on_disk());
	return NULL;
}

static void *
horizon_worker(void *argument)
{
	enter_process(1, 1, 0, 0);
	renew(3);
	return NULL;
}

static void *
leasing_worker(void *argument)
{
	static Lease lease;
	LeaseRecord	 record;

	enter_process(2, 2, 8, 8);
	lease = (Lease){.from = 8, .until = 1000, .shard = 1, .kind = HELD_HERE};
	record.caller.holder = 1;
	record.count = 1;
	record.lease = &lease;
	leases_publish(&record, true);
	return NULL;
}

int
main(void)
{
	long process[3];

	start_server(false);
	enter_process(3, 3, 1, 1);
	renew(-1);
	process[0] = start_process(reader, 0);
	process[1] = start_process(horizon_worker, 0);
	process[2] = start_process(leasing_worker, 0);
	for (int i = 0; i < 3; i++)
		__VERIFIER_thread_join(process[i]);
	return 0;
}
