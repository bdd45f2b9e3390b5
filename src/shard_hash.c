/*-------------------------------------------------------------------------
 *
 * shard_hash.c
 *	  Hash partitions by shard: the operator class snowflake_shard_ops.
 *
 * Hash partitioning takes the remainder of the sum of a constant and the hash
 * value that the operator class's second support function gives.  Ours gives
 * the shard less that constant, so that shard s is in remainder s % modulus.
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"
#include "layout.h"
#include "server.h"

/* What hash_combine64(0, hash) of the server adds to a hash value. */
#define HASH_COMBINE_CONSTANT UINT64CONST(0x49a0f4dd15e5a8e3)

PG_FUNCTION_INFO_V1(snowflake_shard_hash);
PG_FUNCTION_INFO_V1(snowflake_shard_hash_int4);
PG_FUNCTION_INFO_V1(snowflake_shard_hash_int2);

/*
 * Such that hash partitioning takes the remainder of the shard.  The seed,
 * which all of these have for a second argument, serves hashes that must
 * differ from others; this one must not.
 */
static Datum
shard_hash(int64 id)
{
	PG_RETURN_UINT64((uint64) layout_shard(server_layout(), id) -
					 HASH_COMBINE_CONSTANT);
}

Datum
snowflake_shard_hash(PG_FUNCTION_ARGS)
{
	return shard_hash(PG_GETARG_INT64(0));
}

Datum
snowflake_shard_hash_int4(PG_FUNCTION_ARGS)
{
	return shard_hash(PG_GETARG_INT32(0));
}

Datum
snowflake_shard_hash_int2(PG_FUNCTION_ARGS)
{
	return shard_hash(PG_GETARG_INT16(0));
}
