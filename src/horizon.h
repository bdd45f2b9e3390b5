/*
 * horizon.h -- the horizon: the time up to which ids may be minted. See
 * horizon.c.
 */
#ifndef SNOWFLAKE_HORIZON_H
#define SNOWFLAKE_HORIZON_H

#include "record.h"
#include "worker.h"

/* Ask the worker to open the horizon, and not to renew it. */
#define HORIZON_OPEN_ONLY (-1)

typedef enum HorizonWaitsFor
{
	WAITS_FOR_NOTHING,
	WAITS_FOR_DISK,
	WAITS_FOR_STANDBY
} HorizonWaitsFor;

/* What the worker does, for people. */
typedef struct HorizonView
{
	TimestampTz		renewed_at; /* 0: not since the start */
	HorizonWaitsFor waits_for;
	TimestampTz		waits_since;
	bool			failed; /* the last attempt did, because of: */
	Trouble			trouble;
} HorizonView;

extern Size horizon_shmem_size(void);
extern void horizon_shmem_startup(void);

extern void horizon_ask_for_renewal(int64 tick);
extern void horizon_wait(WorkerWait *wait, int64 tick);
extern void horizon_begin_present_tick(void);
extern void horizon_view(HorizonView *view);
extern void horizon_check_worker(bool patient);
extern void horizon_check(bool patient);

extern PGDLLEXPORT void snowflake_horizon_main(Datum arg);

#endif /* SNOWFLAKE_HORIZON_H */
