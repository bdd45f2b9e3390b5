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
#include "tcop/utility.h"

#include "copy_from.h"
#include "horizon.h"
#include "mark.h"
#include "positions.h"
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

static ProcessUtility_hook_type prev_process_utility = NULL;
static shmem_request_hook_type	prev_shmem_request_hook = NULL;
static shmem_startup_hook_type	prev_shmem_startup_hook = NULL;

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

/* Execute a utility statement; note what nothing else tells of it. */
static void
process_utility(PlannedStmt *statement, const char *text, bool is_read_only,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *receiver,
				QueryCompletion *completion)
{
	Node *node = statement->utilityStmt;
	bool  ends_prepared = mark_begin_utility(node);
	bool  outer = copy_from_set(IsA(node, CopyStmt) &&
								castNode(CopyStmt, node)->is_from);

	PG_TRY();
	{
		prev_process_utility(statement, text, is_read_only, context, params,
							 environment, receiver, completion);
	}
	PG_FINALLY();
	{
		(void) copy_from_set(outer);
	}
	PG_END_TRY();
	if (ends_prepared)
		mark_end_prepared();
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	settings_define(conninfo_fault);
	worker_register("snowflake horizon", "snowflake_horizon_main");
	leases_install();
	mark_install_callback();
	prev_process_utility =
		ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
}
