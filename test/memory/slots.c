/*
 * slots.c -- a session that mints and ends, one that takes its slot and mints, too, and a
 * transaction that reads what is new
 *
 * No row is missed.
 */
#include "harness.h"

static int64		ids[2] = {-1, -1};
static SnapshotData snapshot;
static int64		mark = -1;
static int left; /* the first one its slot, as the server hands it on */

static void *
first_writer(void *argument)
{
	enter_process(0, 0, 1, 1);
	ids[0] = mint(0);
	commit();
	leave_server();
	__atomic_store_n(&left, true, __ATOMIC_RELEASE);
	return NULL;
}

static void *
next_writer(void *argument)
{
	if (!__atomic_load_n(&left, __ATOMIC_ACQUIRE))
		return NULL;
	enter_process(1, 0, 1, 1);
	ids[1] = mint(1);
	commit();
	return NULL;
}

static void *
reader(void *argument)
{
	enter_process(2, 1, 2, 2);
	take_snapshot(&snapshot);
	mark = mark_of_snapshot(&snapshot);
	return NULL;
}

int
main(void)
{
	long process[3];

	start_server(true);
	process[0] = start_process(first_writer, 0);
	process[1] = start_process(next_writer, 0);
	process[2] = start_process(reader, 0);
	for (int i = 0; i < 3; i++)
		__VERIFIER_thread_join(process[i]);
	for (int i = 0; i < 2; i++)
		check(ids[i] == -1 || ids[i] >= mark || sees(&snapshot, i));
	return 0;
}
