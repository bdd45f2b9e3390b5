/*
 * counters.c -- sessions that mint on one shard, and one that reads and resets its counters
 *
 * No id is minted twice, and no process leaves a lock that another one has taken.
 */
#include "harness.h"

#include "positions.h"

static int64 ids[2] = {-1, -2};

static void *
minter(void *argument)
{
	int number = (int) (long) argument;

	enter_process(number, number, 2, 2);
	ids[number] = mint(0);
	return NULL;
}

static void *
monitor(void *argument)
{
	ShardStats stats;

	enter_process(2, 2, 2, 2);
	positions_note_clock_behind(0, 1, 2);
	positions_count_wait(0, 1);
	positions_read(0, &stats);
	(void) positions_is_open(0);
	(void) positions_end(0);
	positions_reset_counters();
	return NULL;
}

int
main(void)
{
	long process[3];

	start_server(true);
	process[0] = start_process(minter, 0);
	process[1] = start_process(minter, 1);
	process[2] = start_process(monitor, 0);
	for (int i = 0; i < 3; i++)
		__VERIFIER_thread_join(process[i]);
	check(ids[0] != ids[1]);
	return 0;
}
