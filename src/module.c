/*-------------------------------------------------------------------------
 *
 * module.c
 *	  Loading the library: settings, shared memory and the workers.
 *
 * Listed in shared_preload_libraries, the library defines its settings,
 * reserves its shared memory and registers its workers.  Loaded any other way,
 * by the first call of one of its functions, it does none of that: a pure
 * function of its arguments works, and the other functions say what to set.
 *
 * Leases stand on top.  Here they are handed to the rest, which is built and works
 * without them: make LEASES=no.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "copy_from.h"
#include "horizon.h"
#include "mark.h"
#include "server.h"
#include "sessions.h"

#ifdef WITH_LEASES
#include "conninfo.h"
#include "lease_wait.h"
#else
#define conninfo_fault NULL
#define leases_install() ((void) 0)
#define leases_shmem_size() 0
#define leases_shmem_startup() ((void) 0)
#endif

SNOWFLAKE_MODULE_MAGIC;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(server_shmem_size());
	RequestAddinShmemSpace(horizon_shmem_size());
	RequestAddinShmemSpace(positions_shmem_size());
	RequestAddinShmemSpace(leases_shmem_size());
	RequestAddinShmemSpace(sessions_shmem_size());
	RequestAddinShmemSpace(mark_shmem_size());
	RequestNamedLWLockTranche(SERVER_LOCKS, SERVER_LOCK_COUNT);
}

/* Runs at server start, and again after a crash, with new shared memory. */
static void
start_shared_memory(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	server_shmem_startup();
	horizon_shmem_startup();
	positions_shmem_startup();
	leases_shmem_startup();
	sessions_shmem_startup();
	mark_shmem_startup();
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	settings_define(conninfo_fault);
	worker_register("snowflake horizon", "snowflake_horizon_main");
	leases_install();
	copy_from_install_hook();
	mark_install_hooks();
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
}
