/*
 * order.c -- two sessions that mint one after the other, and the worker that leases, which
 * opens and closes a shard meanwhile
 *
 * A call that begins after another one has returned gives the
 * greater id.  With a reader in the place of the second session: no row is missed.
 */
#include "harness.h"

#ifndef FIRST /* ticks in which the first one mints */
#define FIRST 2, 2
#endif
#ifndef NEXT
#define NEXT 2, 2
#endif

static int64		first_ids[2] = {-1, -1};
static int64		id; /* that was returned */
static int64		next_id = -1;
static SnapshotData snapshot;
static int64		mark = -1;

static void *
first_minter(void *argument)
{
	enter_process(0, 0, FIRST);
	first_ids[0] = mint_next();
#ifdef TWICE
	first_ids[1] = mint_next();
	check(first_ids[1] > first_ids[0]);
	__atomic_store_n(&id, first_ids[1], __ATOMIC_RELEASE);
#else
	__atomic_store_n(&id, first_ids[0], __ATOMIC_RELEASE);
#endif
	return NULL;
}

static void *
next_minter(void *argument)
{
	int64 before = __atomic_load_n(&id, __ATOMIC_ACQUIRE);

	if (before == 0)
		return NULL;
	enter_process(1, 1, NEXT);
	next_id = mint_next();
	check(next_id > before);
	return NULL;
}

static void *
leasing_worker(void *argument)
{
	enter_process(2, 2, 2, 2);
#ifdef CLOSES
	lease(1, 1);
#endif
	lease(0, 1);
	return NULL;
}

static void *
reader(void *argument)
{
	enter_process(3, 3, 3, 3);
	take_snapshot(&snapshot);
	mark = mark_of_snapshot(&snapshot);
	return NULL;
}

int
main(void)
{
	long process[4];
	int	 count = 0;

	start_server(true);
	enter_process(3, 3, 1, 1);
#ifdef CLOSES
	lease(0, 1);
#else
	lease(1, 1);
#endif
	process[count++] = start_process(first_minter, 0);
	process[count++] = start_process(leasing_worker, 0);
#ifdef READER
	process[count++] = start_process(reader, 0);
#else
	process[count++] = start_process(next_minter, 0);
#endif
	for (int i = 0; i < count; i++)
		__VERIFIER_thread_join(process[i]);
	if (mark != -1) /* none of them has ended */
		for (int i = 0; i < 2; i++)
			check(first_ids[i] == -1 || first_ids[i] >= mark);
	return 0;
}
