/* sessions.h -- a slot for each session that mints. See sessions.c. */
#ifndef SNOWFLAKE_SESSIONS_H
#define SNOWFLAKE_SESSIONS_H

#include "port/atomics.h"
#include "storage/spin.h"

#include "settings.h"

/* Before all ids, in a tick that never is. */
#define NO_ID PG_INT64_MIN

/* After all ticks: where the mark is not held. */
#define NO_TICK PG_INT64_MAX

/* In place of the shard of a hold: all of them. */
#define ALL_SHARDS (-1)

/* Where a transaction holds the mark. */
typedef struct Hold
{
	int32 shard; /* "tick" is for the ids of this shard; or ALL_SHARDS */
	int64 tick;	 /* not after the tick of the first of them; or NO_TICK */
	int64 others_tick; /* the same for the ids of all other shards */
} Hold;

typedef struct SessionSlot
{
	slock_t			 lock;
	int				 pid; /* 0: free, and the rest is meaningless */
	Oid				 database;
	int64			 waits;
	int64			 waited_us;
	pg_atomic_uint64 last_id; /* NO_ID before any */
	pg_atomic_uint64 minted;  /* ids */
	/* where the running transaction holds the mark: see Hold; and its first id */
	int32			 mark_shard;
	int64			 mark_others_tick;
	pg_atomic_uint64 mark_tick;
	pg_atomic_uint64 first_id; /* NO_ID before any */
} SessionSlot;

/*
 * In place of the shard that the transaction holds the mark for, before its first id.  Both
 * are less than ALL_SHARDS, and that is less than any shard.
 */
#define HOLDS_NOTHING PG_INT64_MIN
#define HOLDS_LATEST (PG_INT64_MIN + 1) /* at the latest tick */

typedef struct SessionStats
{
	int	  pid;
	int64 waits;
	int64 waited_us;
	int64 minted;
	int64 last_id;
	int64 mark_tick;  /* NO_TICK: it does not hold the mark */
	int32 mark_shard; /* of this shard alone, or ALL_SHARDS */
	int64 first_id;
} SessionStats;

/*
 * This session's slot, from its first mint on; and the shard that its transaction holds
 * the mark for, ALL_SHARDS, or one of the two above.
 */
extern OURS SessionSlot *my_slot;
extern OURS int64		 my_held;

extern Size sessions_shmem_size(void);
extern void sessions_shmem_startup(void);

extern void session_begin(void);
extern void session_hold_mark(int32 shard);
extern void session_hold_mark_for_all(void);
extern void session_note_first_id(int64 id, int64 tick);
extern void session_count_wait(int64 us);
extern Hold session_hold(void);
extern void session_release_mark(void);

extern int64 hold_tick(const Hold *hold, const OwnShards *shards);
extern int64 sessions_first_mark_tick(Oid database, const OwnShards *shards);
extern bool	 sessions_read(int index, SessionStats *stats);

#endif /* SNOWFLAKE_SESSIONS_H */
