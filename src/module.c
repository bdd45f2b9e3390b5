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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "compat.h"
#include "copy_from.h"
#include "horizon.h"
#include "lease_table.h"
#include "mark.h"
#include "positions.h"
#include "server.h"
#include "sessions.h"
#include "settings.h"

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
	settings_define();
	worker_register("snowflake horizon", "snowflake_horizon_main");
	worker_register("snowflake lease", "snowflake_lease_main");
	copy_from_install_hook();
	mark_install_hooks();
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
}
