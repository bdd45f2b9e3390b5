/*
 * prepared.c -- a transaction that mints, is prepared and then committed, and one that
 * reads what is new
 *
 * No row is missed.
 */
#include "harness.h"

static int64		id = -1;
static SnapshotData snapshot;
static int64		mark = -1;

static void *
writer(void *argument)
{
	enter_process(0, 0, 1, 1);
	id = mint(0);
	prepare();
	commit_prepared(0);
	return NULL;
}

static void *
reader(void *argument)
{
	enter_process(1, 1, 2, 2);
	take_snapshot(&snapshot);
	mark = mark_of_snapshot(&snapshot);
	return NULL;
}

int
main(void)
{
	long process[2];

	start_server(true);
	process[0] = start_process(writer, 0);
	process[1] = start_process(reader, 0);
	__VERIFIER_thread_join(process[0]);
	__VERIFIER_thread_join(process[1]);
	check(id == -1 || id >= mark || sees(&snapshot, 0));
	return 0;
}
