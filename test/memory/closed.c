/*
 * closed.c -- a session that mints on a shard whose lease ends, the worker that leases,
 * which gives that shard back, and the horizon's, which the end of that lease held back
 *
 * No id is minted past the end of its shard's lease, or of what was given back.
 */
#include "harness.h"

#include "lease_table.h"
#include "positions.h"

#ifndef END
#define END 2 /* of the lease of shard 0, a tick */
#endif

static int64 id = -1;
static int64 end = -1;

static void
lease_from_shard(int first)
{
	static Lease leases[2];
	LeaseRecord	 record;

	record.caller.holder = 1;
	record.count = 0;
	record.lease = leases;
	for (int shard = first; shard < 2; shard++)
		leases[record.count++] = (Lease){.from = 0,
										 .until = shard == 0 ? END : 1000,
										 .shard = shard,
										 .kind = HELD_HERE};
	leases_publish(&record, true);
}

static void *
minter(void *argument)
{
	enter_process(0, 0, TICK);
	id = mint(0);
	check(tick_of(id) < END);
	return NULL;
}

static void *
leasing_worker(void *argument)
{
	enter_process(1, 1, 2, 2);
#ifdef GIVES_BACK /* from here on another server may have it */
	positions_close(0);
	end = positions_end(0);
#endif
	lease_from_shard(1);
	return NULL;
}

static void *
horizon_worker(void *argument)
{
	enter_process(2, 2, 0, 0);
	renew(5);
	return NULL;
}

int
main(void)
{
	long process[3];
	int	 count = 2;

	start_server(false);
	enter_process(3, 3, 1, 1);
	renew(-1);
	lease_from_shard(0);
#ifdef GIVES_BACK
	renew(5);
#else
	renew(1);
#endif
	process[0] = start_process(minter, 0);
	process[1] = start_process(leasing_worker, 0);
#ifndef GIVES_BACK
	process[count++] = start_process(horizon_worker, 0);
#endif
	for (int i = 0; i < count; i++)
		__VERIFIER_thread_join(process[i]);
	check(end == -1 || id == -1 || tick_of(id) < end);
	return 0;
}
