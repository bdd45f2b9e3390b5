/* settled.h -- reading what is new. See settled.c. */
#ifndef SNOWFLAKE_SETTLED_H
#define SNOWFLAKE_SETTLED_H

#include "fmgr.h"

extern void settled_install_hooks(void);
extern Size settled_shmem_size(void);
extern void settled_shmem_startup(void);

extern PGDLLEXPORT Datum snowflake_settled(PG_FUNCTION_ARGS);

#endif /* SNOWFLAKE_SETTLED_H */
