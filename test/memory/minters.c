/*
 * minters.c -- sessions that mint on one shard, and the horizon's worker, which opens it
 *
 * No id is minted twice, none past what is on disk, and none before what was found there.
 */
#include "harness.h"

#ifndef TICK /* that the clock of the first one shows, and then */
#define TICK 2, 2
#endif

static int64 ids[2];
static int	 has_minted[2];

static void *
minter(void *argument)
{
	int number = (int) (long) argument;

	if (number == 0)
		enter_process(0, 0, TICK);
	else
		enter_process(1, 1, 2, 2);
	ids[number] = mint(0);
	has_minted[number] = true;
	check(tick_of(ids[number]) < horizon_on_disk());
	check(tick_of(ids[number]) >= FOUND);
	return NULL;
}

static void *
worker(void *argument)
{
	enter_process(2, 2, 0, 0);
	renew(3);
	return NULL;
}

int
main(void)
{
	long process[3];

	start_server(false);
	process[0] = start_process(minter, 0);
	process[1] = start_process(minter, 1);
	process[2] = start_process(worker, 0);
	for (int i = 0; i < 3; i++)
		__VERIFIER_thread_join(process[i]);
	check(!has_minted[0] || !has_minted[1] || ids[0] != ids[1]);
	return 0;
}
