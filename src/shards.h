/* shards.h -- lists of shards, such as "1,5,9-12". See shards.c. */
#ifndef SNOWFLAKE_SHARDS_H
#define SNOWFLAKE_SHARDS_H

#include "layout.h"

extern bool shards_parse(const char *text, int64 last_shard, bool *mine,
						 LayoutError *error);
extern bool shards_parse_auto(const char *text, int64 last_shard, int32 *count,
							  LayoutError *error);
extern void shards_format(const int32 *shard, int count, char *buffer,
						  size_t size);

#endif /* SNOWFLAKE_SHARDS_H */
