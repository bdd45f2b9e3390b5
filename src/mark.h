/* mark.h -- reading what is new. See mark.c. */
#ifndef SNOWFLAKE_MARK_H
#define SNOWFLAKE_MARK_H

#include "nodes/parsenodes.h"
#include "utils/snapshot.h"

#include "settings.h"

extern void mark_install_callback(void);
extern bool mark_begin_utility(const Node *node);
extern void mark_end_prepared(void);
extern Size mark_shmem_size(void);
extern void mark_shmem_startup(void);

extern int64 mark_unsettled_tick(Snapshot snapshot, const OwnShards *shards);

#endif /* SNOWFLAKE_MARK_H */
