/* mint.h -- minting. See mint.c. */
#ifndef SNOWFLAKE_MINT_H
#define SNOWFLAKE_MINT_H

#include "fmgr.h"

extern PGDLLEXPORT Datum snowflake_nextval(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_nextval_shard(PG_FUNCTION_ARGS);

extern void mint_check_shards(bool patient);

#endif /* SNOWFLAKE_MINT_H */
