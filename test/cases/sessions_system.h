/*-------------------------------------------------------------------------
 *
 * sessions_system.h
 *	  What is below sessions.c, for sessions_cases.c and mark_cases.c: shared memory,
 *	  spinlocks, barriers, and processes that take turns.
 *
 * Shared memory has anything in it before it is ours, and there is something behind it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "../../src/positions.h"
#include "../../src/sessions.h"
#include "cases.h"
#include "spinlocks.h"

#define PROCESSES 4

/* --- Processes ------------------------------------------------------------- */

typedef struct Process
{
	int					index; /* among those that can run SQL */
	int					pid;
	Oid					database;
	SessionSlot		   *slot; /* what it has as my_slot, and as my_held */
	int64				held;
	pg_on_exit_callback at_exit;
} Process;

static Process *me;

/* Another process runs. */
static void
become(Process *process)
{
	if (me)
	{
		me->slot = my_slot;
		me->held = my_held;
	}
	me = process;
	my_slot = me->slot;
	my_held = me->held;
}

#define MaxBackends PROCESSES
#define MyProcPid (me->pid)
#define MyDatabaseId (me->database)
#undef my_backend_index
#define my_backend_index() (me->index)
#define on_shmem_exit(function, argument) (me->at_exit = (function))

/* --- Shared memory ------------------------------------------------------------ */

#define GUARD 128 /* bytes behind what is ours */

typedef enum Fill
{
	ZEROS,
	ONES,
	OLD, /* what it had */
	FILLS
} Fill;

static char *room;
static Size	 room_size;
static Size	 room_used;
static bool	 is_there; /* from an earlier process */
static char *guards[2];
static int	 guard_count;
static int
	made; /* atomics of 64 bits, which may need that before they are used */

static void
begin_room(Fill fill, Size offset, bool found)
{
	if (fill != OLD)
		memset(room, fill == ONES ? 0xff : 0, room_size);
	room_used = offset;
	is_there = found;
	made = guard_count = 0;
}

static void *
our_struct(Size size, bool *found)
{
	char *start = room + room_used;

	room_used += size + GUARD;
	CHECK(room_used <= room_size);
	guards[guard_count++] = start + size;
	memset(start + size, 'g', GUARD);
	*found = is_there;
	return start;
}

static void
check_guards(void)
{
	for (int i = 0; i < guard_count * GUARD; i++)
		CHECK(guards[i / GUARD][i % GUARD] == 'g');
}

#define ShmemInitStruct(name, size, found) our_struct(size, found)
#define pg_atomic_init_u64(atomic, value) \
	(made++, pg_atomic_init_u64(atomic, value))

/* --- Barriers ----------------------------------------------------------------- */

static void (*at_barrier)(char kind);

static void
our_barrier(char kind)
{
	CHECK(spinning == 0);
	if (at_barrier)
		at_barrier(kind);
}

#undef pg_memory_barrier
#undef pg_read_barrier
#undef pg_write_barrier
#define pg_memory_barrier() our_barrier('m')
#define pg_read_barrier() our_barrier('r')
#define pg_write_barrier() our_barrier('w')

#include "../../src/sessions.c"

/* --- What is below it ------------------------------------------------------------ */

static Bounds our_bounds;
Bounds		 *bounds = &our_bounds;

static int64
latest_tick(void)
{
	return (int64) pg_atomic_read_u64(&bounds->latest);
}

bool
has_shard(const OwnShards *list, int32 shard)
{
	for (int i = 0; i < list->count; i++)
	{
		if (list->shard[i] == shard)
			return true;
	}
	return false;
}

/* Lists of shards that the mark is asked for; the first one is all. */
#define LISTS 4

static const OwnShards *
list_at(int i)
{
	static union
	{
		OwnShards list;
		int32	  room[4];
	} lists[LISTS];

	if (i == 0)
		return NULL;
	lists[i].list.count = i == 3 ? 2 : 1;
	lists[i].list.shard[0] = i == 2 ? 1 : 0;
	lists[i].list.shard[1] = 1;
	return &lists[i].list;
}

static bool
list_has(int i, int32 shard)
{
	return i == 0 || i == 3 || shard == i - 1;
}

/* A new process has of its own what the library has when it is loaded. */
static Process
new_process(int index, int pid, Oid database)
{
	return (Process){.index = index,
					 .pid = pid,
					 .database = database,
					 .held = HOLDS_NOTHING};
}
