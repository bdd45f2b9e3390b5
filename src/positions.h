/* positions.h -- how far ids are minted. See positions.c. */
#ifndef SNOWFLAKE_POSITIONS_H
#define SNOWFLAKE_POSITIONS_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"

#include "settings.h"
#include "worker.h"

typedef struct Bounds
{
	pg_atomic_uint64 latest; /* a call that begins now mints there, or later */
	pg_atomic_uint64 horizon; /* the first tick not to mint in; 0: none yet */
	pg_atomic_uint64 renew;	  /* from this tick on, ask for a renewal */
	pg_atomic_uint64 found_horizon; /* the horizon that was found at the start */
	pg_atomic_uint32 are_known;		/* the found horizon is in force */
} Bounds;

/* As last position: the shard is closed.  take() adds 1 to it, without overflow. */
#define NEVER (PG_INT64_MAX - 1)

/* What happened on a shard since the counters were set to 0. */
typedef struct ShardCounters
{
	int64 minted;		/* ids */
	int64 exhausted;	/* times that a call found a tick exhausted */
	int64 clock_behind; /* calls that met a clock that was behind */
	int64 waited_us;	/* by all calls together */
} ShardCounters;

typedef struct ShardState
{
	slock_t		  lock;
	int64		  last; /* position of the last id; -1 before any; or NEVER */
	ShardCounters counters;
	int64 opened_with;	 /* what "last" was set to when the shard was opened */
	int64 minted_before; /* the last id's position then, or when it was closed */
} ShardState;

/* Each in a cache line of its own, so that neighbours do not disturb. */
typedef union PaddedShard
{
	ShardState state;
	char	   padding[PG_CACHE_LINE_SIZE];
} PaddedShard;

typedef struct ShardStats
{
	ShardCounters counters;
	bool		  has_minted; /* since the server started */
	int64		  last_id;	  /* meaningless before any */
} ShardStats;

/* In shared memory: the bounds, and one for each shard of the layout. */
extern OURS Bounds		*bounds;
extern OURS PaddedShard *shards;

/*
 * What a server with leases hands in.  It is asked only while positions_need_leases(), and
 * not on the way of an ordinary id.
 */
typedef struct Leasing
{
	/* the shards that this session mints on; none: wait */
	const OwnShards *(*own_shards)(void);

	/* wait for a shard, or any; in a loop: see lease_wait() */
	void (*wait)(WorkerWait *wait, int32 shard);

	/* raise the error of a call that lacks a lease: see snowflake_probe() */
	void (*check)(bool patient);

	/* raise an error unless no server mints on the shard */
	void (*check_reserved)(int32 shard);
} Leasing;

extern OURS const Leasing *leasing; /* NULL: built without leases */

extern Size positions_shmem_size(void);
extern void positions_shmem_startup(void);

/* leases, as far as all need to know of them */
extern bool				positions_need_leases(void);
extern bool				positions_are_leased(int64 tick);
extern bool				positions_have_changed(uint32 since);
extern const OwnShards *positions_own_shards(uint32 *changes);
extern void				positions_raise_horizon(int64 tick);
extern void				positions_heed_settings(void);

/* for the worker that leases shards */
extern void	 positions_set_common_end(TimestampTz end);
extern void	 positions_note_change(void);
extern void	 positions_open(int32 shard, int64 tick);
extern void	 positions_close(int32 shard);
extern int64 positions_end(int32 shard);

extern bool positions_is_open(int32 shard);
extern void positions_count_wait(int32 shard, int64 us);

extern void		   positions_read(int32 shard, ShardStats *stats);
extern TimestampTz positions_reset_at(void);
extern void		   positions_reset_counters(void);

/* of a clock that is behind; the last one for snowflake_probe() */
extern void positions_note_clock_behind(int32 shard, int64 behind_us,
										int64 latest_tick);
extern void positions_fail_clock_behind(TimestampTz now, int64 latest_tick,
										int64 waited_us);
extern void positions_check_clock(bool patient);

/* The ordered read: see positions.c. */
static inline void
bounds_read(int64 *horizon, int64 *latest)
{
	Bounds *shared = bounds;

	*horizon = (int64) pg_atomic_read_u64(&shared->horizon);
	pg_read_barrier();
	*latest = (int64) pg_atomic_read_u64(&shared->latest);
}

/* Is the horizon that was found at the start in force, and the server known? */
static inline bool
bounds_are_known(void)
{
	bool known = pg_atomic_read_u32(&bounds->are_known) != 0;

	pg_read_barrier();
	return known;
}

/* The only way to change a bound, or another tick that many raise.  Gives what it was. */
static inline int64
bounds_raise(pg_atomic_uint64 *bound, int64 tick)
{
	uint64 present = pg_atomic_read_u64(bound);

	while ((int64) present < tick &&
		   !pg_atomic_compare_exchange_u64(bound, &present, (uint64) tick))
		;
	return (int64) present;
}

#endif /* SNOWFLAKE_POSITIONS_H */
