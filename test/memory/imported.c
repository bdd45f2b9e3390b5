/*
 * imported.c -- two transactions that mint, and one that reads what is new with a snapshot
 * in which they ended in another order
 *
 * No row is missed.
 */
#include "harness.h"

static int64		ids[2] = {-1, -1};
static SnapshotData snapshot;
static int64		mark = -1;

static void *
writer(void *argument)
{
	int number = (int) (long) argument;

	enter_process(number, number, 1, 1);
	ids[number] = mint(number);
	commit();
	return NULL;
}

static void *
reader(void *argument)
{
	enter_process(2, 2, 2, 2);
	import_snapshot(&snapshot, 1);
	mark = mark_of_snapshot(&snapshot);
	return NULL;
}

int
main(void)
{
	long process[3];

	start_server(true);
	process[0] = start_process(writer, 0);
	process[1] = start_process(writer, 1);
	process[2] = start_process(reader, 0);
	for (int i = 0; i < 3; i++)
		__VERIFIER_thread_join(process[i]);
	for (int i = 0; i < 2; i++)
		check(ids[i] == -1 || ids[i] >= mark || sees(&snapshot, i));
	return 0;
}
