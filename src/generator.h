/* generator.h -- minting. See generator.c. */
#ifndef SNOWFLAKE_GENERATOR_H
#define SNOWFLAKE_GENERATOR_H

#include "datatype/timestamp.h"
#include "fmgr.h"

/* After all ticks: where the mark is not held. */
#define GENERATOR_NO_TICK PG_INT64_MAX

/* What happened on a shard since the counters were set to 0. */
typedef struct ShardCounters
{
	int64 minted;		/* ids */
	int64 exhausted;	/* times that a call found a tick exhausted */
	int64 clock_behind; /* calls that met a clock that was behind */
	int64 waited_us;	/* by all calls together */
} ShardCounters;

typedef struct ShardStats
{
	ShardCounters counters;
	bool		  has_minted; /* since the server started */
	int64		  last_id;	  /* meaningless before any */
} ShardStats;

typedef struct BackendStats
{
	int	  pid;
	int64 minted;  /* ids */
	int64 last_id; /* meaningless before any */
	int64 waits;
	int64 waited_us;
	/* of the running transaction, if it holds the mark: */
	int64 held_tick; /* GENERATOR_NO_TICK: it does not */
	int64 first_id;
	bool  has_first_id;
} BackendStats;

extern PGDLLEXPORT Datum snowflake_nextval(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_nextval_shard(PG_FUNCTION_ARGS);

extern Size generator_shmem_size(void);
extern void generator_shmem_startup(void);

extern int64 generator_my_held_tick(void);
extern void	 generator_release_mark(void);
extern int64 generator_first_held_tick(Oid database);
/* for the worker that leases shards */
extern void	 generator_open_shard(int32 shard, int64 tick);
extern void	 generator_close_shard(int32 shard);
extern int64 generator_end_of_shard(int32 shard);

extern void		   generator_read_shard(int32 shard, ShardStats *stats);
extern bool		   generator_read_backend(int index, BackendStats *stats);
extern TimestampTz generator_stats_reset_at(void);
extern void		   generator_reset_stats(void);

#endif /* SNOWFLAKE_GENERATOR_H */
