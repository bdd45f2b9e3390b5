/*
 * back.c -- a transaction that mints, and two sessions that read what is new, one after
 * the other
 *
 * The mark does not go back: a snapshot that is taken after a mark was returned gives no
 * lesser one.  With SHARD that of this shard, and the transaction mints on it second.
 */
#include "harness.h"

#ifdef SHARD
#define MARK(snapshot) mark_of_shard(snapshot, SHARD)
#else
#define MARK(snapshot) mark_of_snapshot(snapshot)
#endif

static SnapshotData one;
static SnapshotData other;
static int64		mark; /* that was returned */

static void *
writer(void *argument)
{
	enter_process(0, 0, 1, 1);
	(void) mint(0);
#ifdef SHARD
	(void) mint(SHARD);
#endif
#ifdef COMMITS
	commit();
#endif
	return NULL;
}

static void *
reader(void *argument)
{
	enter_process(1, 1, 2, 2);
	take_snapshot(&one);
	__atomic_store_n(&mark, MARK(&one), __ATOMIC_RELEASE);
	return NULL;
}

static void *
later_reader(void *argument)
{
	int64 before = __atomic_load_n(&mark, __ATOMIC_ACQUIRE);

	if (before == 0)
		return NULL;
	enter_process(2, 2, 2, 2);
	take_snapshot(&other);
	check(MARK(&other) >= before);
	return NULL;
}

int
main(void)
{
	long process[3];

	start_server(true);
	process[0] = start_process(writer, 0);
	process[1] = start_process(reader, 0);
	process[2] = start_process(later_reader, 0);
	for (int i = 0; i < 3; i++)
		__VERIFIER_thread_join(process[i]);
	return 0;
}
