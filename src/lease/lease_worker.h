/* lease_worker.h -- the worker that leases shards. See lease_worker.c. */
#ifndef SNOWFLAKE_LEASE_WORKER_H
#define SNOWFLAKE_LEASE_WORKER_H

#include "fmgr.h"

extern void lease_register_worker(void);

extern PGDLLEXPORT void snowflake_lease_main(Datum arg);

#endif /* SNOWFLAKE_LEASE_WORKER_H */
