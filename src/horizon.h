/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  The bounds between which ids are minted.  See horizon.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_HORIZON_H
#define SNOWFLAKE_HORIZON_H

#include "layout.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"

/*
 * Ids are minted in the ticks from "latest" on, and before "horizon".  All
 * three only grow.  Whoever reads both bounds reads the horizon first: the
 * floor is raised before the first horizon is published.
 */
typedef struct Bounds
{
	pg_atomic_uint64 latest;  /* the latest tick minted in, or the floor */
	pg_atomic_uint64 horizon; /* the first tick that is not yet ours; 0: none */
	pg_atomic_uint64 renew;	  /* who mints from here on asks for a renewal */
} Bounds;

/* What a caller remembers while it waits for the worker; zero at first. */
typedef struct HorizonWait
{
	bool   begun;
	uint64 attempts; /* of the worker, when the wait began */
	int64  waited_us;
	int64  last_worker_us; /* of that, when there was a worker last */
} HorizonWait;

extern Bounds *horizon_bounds;

extern void horizon_register_worker(void);
extern Size horizon_shmem_size(void);
extern void horizon_shmem_startup(void);

extern const Layout *cluster_layout(void);
extern void			 refuse_to_mint_as_copy(void);

extern void horizon_ask_for_renewal(int64 tick);
extern void horizon_wait(HorizonWait *wait, int64 tick);

extern PGDLLEXPORT void snowflake_horizon_main(Datum arg);

#endif /* SNOWFLAKE_HORIZON_H */
