/*
 * shards.c -- a transaction that mints on one shard and then on another, and two that read
 * what is new, each on one of them
 *
 * No row is missed on the shard whose mark it is.
 */
#include "harness.h"

#define SHARDS 2

static int64		ids[SHARDS] = {-1, -1};
static SnapshotData snapshots[SHARDS];
static int64		marks[SHARDS] = {-1, -1};

static void *
writer(void *argument)
{
	enter_process(0, 0, 1, 1);
	for (int shard = 0; shard < SHARDS; shard++)
		ids[shard] = mint(shard);
#ifdef COMMITS
	commit();
#endif
#ifdef PREPARES
	prepare();
	commit_prepared(0);
#endif
	return NULL;
}

static void *
reader(void *argument)
{
	int shard = (int) (long) argument;

	enter_process(1 + shard, 1 + shard, 2, 2);
	take_snapshot(&snapshots[shard]);
	marks[shard] = mark_of_shard(&snapshots[shard], shard);
	return NULL;
}

int
main(void)
{
	long process[1 + SHARDS];

	start_server(true);
	process[0] = start_process(writer, 0);
	for (int shard = 0; shard < SHARDS; shard++)
		process[1 + shard] = start_process(reader, shard);
	for (int i = 0; i <= SHARDS; i++)
		__VERIFIER_thread_join(process[i]);
	for (int shard = 0; shard < SHARDS; shard++)
		check(ids[shard] == -1 || ids[shard] >= marks[shard] ||
			  sees(&snapshots[shard], 0));
	return 0;
}
