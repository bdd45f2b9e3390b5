/*-------------------------------------------------------------------------
 *
 * shards.h
 *	  Lists of shards, such as "1,5,9-12".
 *
 * A pure function of its arguments, as all of layout.h.  See shards.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SHARDS_H
#define SNOWFLAKE_SHARDS_H

#include "layout.h"

extern bool shards_parse(const char *text, int64 last_shard, bool *mine,
						 LayoutError *error);

#endif /* SNOWFLAKE_SHARDS_H */
