/*-------------------------------------------------------------------------
 *
 * bounds.h
 *	  The ticks between which ids are minted.
 *
 * Ids are minted in the ticks from "latest" on, and before "horizon".
 *
 * A note about locking: all bounds are atomics that only grow.  Sessions that
 * mint raise "latest"; the horizon's worker raises the others.  The worker
 * raises "latest" and "floor" before it publishes a first horizon.  So a reader
 * that reads the horizon first, as bounds_read() does, never sees a horizon
 * without the floor that belongs to it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_BOUNDS_H
#define SNOWFLAKE_BOUNDS_H

#include "compat.h"
#include "port/atomics.h"

typedef struct Bounds
{
	pg_atomic_uint64 latest;  /* the latest tick minted in, or the floor */
	pg_atomic_uint64 horizon; /* the first tick that is not on disk; 0: none */
	pg_atomic_uint64 renew;	  /* from this tick on, ask for a renewal */
	pg_atomic_uint64 floor;	  /* the horizon that was found at the start */
} Bounds;

/* In shared memory; horizon.c makes them. */
extern Bounds *bounds;

/* The ordered read: see the head of this file. */
static inline void
bounds_read(int64 *horizon, int64 *latest)
{
	Bounds *shared = bounds;

	if (!FAULT(horizon_read_first))
		*horizon = (int64) pg_atomic_read_u64(&shared->horizon);
	pg_read_barrier();
	*latest = (int64) pg_atomic_read_u64(&shared->latest);
	pg_read_barrier();
	if (FAULT(horizon_read_first))
		*horizon = (int64) pg_atomic_read_u64(&shared->horizon);
}

/* The only way to change a bound. */
static inline void
bounds_raise(pg_atomic_uint64 *bound, int64 tick)
{
	uint64 present = pg_atomic_read_u64(bound);

	while ((int64) present < tick &&
		   !pg_atomic_compare_exchange_u64(bound, &present, (uint64) tick))
		;
}

#endif /* SNOWFLAKE_BOUNDS_H */
