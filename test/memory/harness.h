/*
 * harness.h -- what a scenario is made of: see harness.c
 *
 * A thread is a process of the server.  It begins with enter_process(), which gives it
 * its number and what its clock shows.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include "postgres.h"

#include "lease_record.h"
#include "utils/snapshot.h"

#define PROCESSES 4
#define FOUND 1 /* the horizon of the last run, a tick */

extern void *__VERIFIER_thread_join(long thread);
extern void	 __VERIFIER_thread_exit(void *value) __attribute__((noreturn));
extern void	 __VERIFIER_assert_fail(const char *what, const char *file,
									int line);
#define check(what) \
	((what) ? (void) 0 : __VERIFIER_assert_fail(#what, __FILE__, __LINE__))

/* shared memory; the server is opened, unless its worker shall do that */
extern void start_server(bool is_open);
extern long start_process(void *(*process)(void *), long argument);
extern void enter_process(int number, int slot, int64 tick, int64 later_tick);

/* a transaction, whose xid tells its number */
extern int64 mint(int shard);
extern int64 mint_next(void); /* snowflake_nextval() */
extern void	 commit(void);
extern void	 roll_back(void);
extern void	 prepare(void);
extern void	 commit_prepared(int number);
extern void	 leave_server(void);

/* a statement that reads what is new */
extern void	 take_snapshot(SnapshotData *snapshot);
extern void	 import_snapshot(SnapshotData *snapshot, int seen);
extern bool	 sees(const SnapshotData *snapshot, int number);
extern int64 mark_of_snapshot(SnapshotData *snapshot);
extern int64 mark_of_shard(SnapshotData *snapshot, int shard);

extern int64 tick_of(int64 id);

/* the workers */
extern void renew(int64 tick); /* -1: only open it */
extern void lease(int first, int last);

extern int64 horizon_on_disk(void);

#endif
