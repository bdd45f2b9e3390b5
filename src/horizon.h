/*
 * horizon.h -- the horizon: the time up to which ids may be minted. See
 * horizon.c.
 */
#ifndef SNOWFLAKE_HORIZON_H
#define SNOWFLAKE_HORIZON_H

/* What a caller remembers while it waits for the worker; zero at first. */
typedef struct HorizonWait
{
	bool   begun;
	uint64 attempts; /* of the worker, when the wait began */
	int64  waited_us;
	int64 last_worker_us; /* how long it had waited when it last saw a worker */
} HorizonWait;

/* Ask the worker to open the horizon, and not to renew it. */
#define HORIZON_OPEN_ONLY (-1)

extern void horizon_register_worker(void);
extern Size horizon_shmem_size(void);
extern void horizon_shmem_startup(void);

extern void horizon_ask_for_renewal(int64 tick);
extern bool horizon_is_open(void);
extern void horizon_wait(HorizonWait *wait, int64 tick);
extern void horizon_wait_for_first(int64 tick);

extern PGDLLEXPORT void snowflake_horizon_main(Datum arg);

#endif /* SNOWFLAKE_HORIZON_H */
