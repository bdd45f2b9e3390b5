/* sessions.h -- a slot for each session that mints. See sessions.c. */
#ifndef SNOWFLAKE_SESSIONS_H
#define SNOWFLAKE_SESSIONS_H

#include "port/atomics.h"
#include "storage/spin.h"

#include "compat.h"

/* Before all ids, in a tick that never is. */
#define NO_ID PG_INT64_MIN

/* After all ticks: where the mark is not held. */
#define NO_TICK PG_INT64_MAX

typedef struct SessionSlot
{
	slock_t			 lock;
	int				 pid; /* 0: free, and the rest is meaningless */
	Oid				 database;
	int64			 waits;
	int64			 waited_us;
	pg_atomic_uint64 last_id; /* NO_ID before any */
	pg_atomic_uint64 minted;  /* ids */
	/* of the running transaction: */
	pg_atomic_uint64 mark_tick; /* a tick at or before its first id's */
	pg_atomic_uint64 first_id;	/* NO_ID before any */
} SessionSlot;

/* How far the running transaction has come with holding the mark. */
typedef enum Hold
{
	HOLDS_NOTHING,
	HOLDS_LATEST, /* at the latest tick; it has not minted yet */
	HOLDS_FIRST_ID
} Hold;

typedef struct SessionStats
{
	int	  pid;
	int64 waits;
	int64 waited_us;
	int64 minted;
	int64 last_id;
	int64 mark_tick; /* NO_TICK: it does not hold the mark */
	int64 first_id;
} SessionStats;

/* This session's slot, from its first mint on; and its transaction's hold. */
extern OURS SessionSlot *my_slot;
extern OURS Hold		 my_hold;

extern Size sessions_shmem_size(void);
extern void sessions_shmem_startup(void);

extern void	 session_begin(void);
extern void	 session_hold_mark(void);
extern void	 session_note_first_id(int64 id, int64 tick);
extern void	 session_count_wait(int64 us);
extern int64 session_mark_tick(void);
extern void	 session_release_mark(void);

extern int64 sessions_first_mark_tick(Oid database);
extern bool	 sessions_read(int index, SessionStats *stats);

#endif /* SNOWFLAKE_SESSIONS_H */
