/* settings.h -- the settings snowflake.*, parsed and checked. See settings.c. */
#ifndef SNOWFLAKE_SETTINGS_H
#define SNOWFLAKE_SETTINGS_H

#include "compat.h"
#include "layout.h"

/* Each shard takes a cache line: 2^16, the most of any format in use, take 8 MB. */
#define SETTINGS_MAX_SHARD_BITS 16

/* Shards to mint on, in ascending order. */
typedef struct OwnShards
{
	int	  count;	 /* 0: snowflake.shards is empty, or "auto" */
	int32 automatic; /* so many of the registry's choice; 0: none */
	int32 shard[FLEXIBLE_ARRAY_MEMBER];
} OwnShards;

/* snowflake.spread counts bits of the sequence number. */
#define SETTINGS_MAX_SPREAD 8

/* snowflake.ordering */
typedef enum Order
{
	ORDER_SERVER,
	ORDER_SESSION
} Order;

extern OURS int	  settings_clock_tolerance_ms;
extern OURS int	  settings_reserve_ms;
extern OURS int	  settings_lease_ms;
extern OURS bool  settings_refuse_clone;
extern OURS int	  settings_spread;
extern OURS int	  settings_ordering;
extern OURS char *settings_shards_text;

/* The same, parsed; and how often it was set in this process: see mint.c. */
extern OURS const OwnShards *settings_asked_shards;
extern OURS uint32			 settings_shards_changes;

extern void settings_define(const char *(*registry_fault)(const char *text));

extern bool			 settings_preloaded(void);
extern const Layout *settings_layout(void);
extern const char	*settings_layout_text(void);
extern int			 index_of_shard(const OwnShards *own, int32 shard);
extern bool			 has_shard(const OwnShards *list, int32 shard);
extern bool			 settings_name_shard(int32 shard);
extern bool			 settings_ask_for(int32 shard);
extern bool			 settings_want_leases(void);
extern const char	*settings_registry(void);
extern bool			 settings_leave_registry(void);

#endif /* SNOWFLAKE_SETTINGS_H */
