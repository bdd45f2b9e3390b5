/*
 * harness.c -- the server around the real files of src, for the model checker
 *
 * A thread is a process of the server, and a lock of the server's is the checker's.  A
 * call that would wait, or fails, ends its process there: others go on, and what comes of
 * waiting is searched as another order of steps.
 */
#include "harness.h"

#include "access/transam.h"
#include "access/xact.h"
#include "clock.h"
#include "errors.h"
#include "fmgr.h"
#include "horizon.h"
#include "lease_table.h"
#include "mark.h"
#include "miscadmin.h"
#include "mint.h"
#include "nodes/parsenodes.h"
#include "positions.h"
#include "replication/walsender.h"
#include "server.h"
#include "sessions.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#ifndef PREPARED
#define PREPARED 0 /* transactions that can be */
#endif
#ifndef RING
#define RING 2 /* entries */
#endif
#ifndef LEASES
#define LEASES false
#endif

extern int __VERIFIER_thread_create(const void *attributes,
									void *(*process)(void *), void *argument);

extern Datum snowflake_nextval(PG_FUNCTION_ARGS);
extern Datum snowflake_nextval_shard(PG_FUNCTION_ARGS);
extern void	 horizon_attempt(int64 tick); /* in horizon_worker.c */

const int ring_entries = RING;

/* --- The process ---------------------------------------------------------------- */

static __thread int	  number;	 /* of its transaction */
static __thread int	  backend;	 /* its slot, from 1 */
static __thread int64 time_now;	 /* what its clock shows, */
static __thread int64 time_then; /* and from the second look on */
static __thread pg_on_exit_callback at_exit;

static void
gone(void)
{
	__VERIFIER_thread_exit(NULL);
}

bool
errstart(int level, const char *domain)
{
	if (level >= ERROR)
		gone();
	return false;
}

bool
errstart_cold(int level, const char *domain)
{
	return errstart(level, domain);
}

int64
wait_outside_locks(int64 us, WaitName *event, ConditionVariable *condition)
{
	gone();
	return 0;
}

static void
wait_for_lease(WorkerWait *wait, int32 shard)
{
	gone();
}

static const Leasing leases = {.own_shards = leases_own_shards,
							   .wait = wait_for_lease};

int64
present_mint_tick(const Layout *layout, TimestampTz now)
{
	int64 tick;

	if (!layout_tick_of_time(layout, now, &tick))
		gone();
	return tick;
}

void
report_part_range(const Layout *layout, const char *part, int32 value,
				  int64 last)
{
	gone();
	__builtin_unreachable();
}

void
ProcessInterrupts(void)
{
	gone();
}

void
record_report(int level, const Trouble *trouble)
{
	if (level >= ERROR)
		gone();
}

/* --- PostgreSQL -------------------------------------------------------------------- */

#define FIRST_XID 10

#if PG_VERSION_NUM >= 170000
static TransamVariablesData transam;
TransamVariablesData	   *TransamVariables = &transam;
#else
static VariableCacheData transam;
VariableCache			 ShmemVariableCache = &transam;
#endif

static slock_t		proc_array;
static int			ended; /* a bit for each transaction */
static int			took_effect;
static XactCallback at_transaction_event;

int					  MaxBackends = PROCESSES;
int					  max_prepared_xacts = PREPARED;
int					  MyProcPid = 1;
int					  ParallelWorkerNumber = -1;
bool				  IsUnderPostmaster = true;
bool				  am_walsender = false;
int					  XactIsoLevel = XACT_READ_COMMITTED;
Oid					  MyDatabaseId = 5;
volatile sig_atomic_t InterruptPending;

int *
my_backend_id(void)
{
	return &backend;
}

static LWLockPadded locks[SERVER_LOCK_COUNT];

LWLockPadded *
GetNamedLWLockTranche(const char *name)
{
	return locks;
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	SpinLockAcquire(&lock->state);
	return true;
}

void
LWLockRelease(LWLock *lock)
{
	SpinLockRelease(&lock->state);
}

/* each piece of shared memory begins at a cache line */
static PaddedShard arena[400];
static int		   arena_used;

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	void *piece = &arena[arena_used];

	arena_used += (size + sizeof(PaddedShard) - 1) / sizeof(PaddedShard);
	*found = false;
	return piece;
}

Size
add_size(Size one, Size other)
{
	return one + other;
}

Size
mul_size(Size one, Size other)
{
	return one * other;
}

TimestampTz
GetCurrentTimestamp(void)
{
	int64 now = time_now;

	time_now = time_then;
	return now;
}

bool
RecoveryInProgress(void)
{
	return false;
}

bool
TransactionStartedDuringRecovery(void)
{
	return false;
}

void
on_shmem_exit(pg_on_exit_callback function, Datum argument)
{
	at_exit = function;
}

void
RegisterXactCallback(XactCallback function, void *argument)
{
	at_transaction_event = function;
}

FullTransactionId
ReadNextFullTransactionId(void)
{
	return (FullTransactionId){.value = 1000};
}

FullTransactionId
GetTopFullTransactionIdIfAny(void)
{
	return (FullTransactionId){.value = FIRST_XID + number};
}

/* "xcnt" has a bit for each transaction that the snapshot sees. */
bool
XidInMVCCSnapshot(TransactionId xid, Snapshot snapshot)
{
	return !(snapshot->xcnt >> (xid - FIRST_XID) & 1);
}

bool
TransactionIdIsInProgress(TransactionId xid)
{
	bool runs;

	SpinLockAcquire(&proc_array);
	runs = !(ended >> (xid - FIRST_XID) & 1);
	SpinLockRelease(&proc_array);
	return runs;
}

/* ProcArrayEndTransaction() */
static void
end_transaction(int which, bool commits)
{
	SpinLockAcquire(&proc_array);
	if (transam.latestCompletedXid.value < FIRST_XID + which)
		transam.latestCompletedXid.value = FIRST_XID + which;
	ended |= 1 << which;
	if (commits)
		took_effect |= 1 << which;
	SpinLockRelease(&proc_array);
}

static LockData no_locks;

LockData *
GetLockStatusData(void)
{
	return &no_locks;
}

LockAcquireResult
LockAcquire(const LOCKTAG *tag, LOCKMODE mode, bool session, bool dont_wait)
{
	return LOCKACQUIRE_OK;
}

void
ConditionVariableInit(ConditionVariable *condition)
{
}

void
ConditionVariablePrepareToSleep(ConditionVariable *condition)
{
}

#if PG_VERSION_NUM >= 170000
bool
ConditionVariableCancelSleep(void)
{
	return false;
}
#else
void
ConditionVariableCancelSleep(void)
{
}
#endif

void
ConditionVariableBroadcast(ConditionVariable *condition)
{
}

void
SetLatch(Latch *latch)
{
}

void
StartTransactionCommand(void)
{
}

void
CommitTransactionCommand(void)
{
}

/* there is one such statement */
int
strcmp(const char *one, const char *other)
{
	return 0;
}

size_t
strlcpy(char *to, const char *from, size_t size)
{
	return 0;
}

char *
psprintf(const char *format, ...)
{
	return NULL;
}

/* Where a session keeps its shards, and a worker the leases of before. */
static int64	 own_shards[PROCESSES][4];
static HeldLease held_before[2];

MemoryContext TopMemoryContext;

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return own_shards[backend - 1];
}

void
pfree(void *pointer)
{
}

HeldLease *
copy_held(const HeldLease *held, int count)
{
	for (int i = 0; i < count; i++)
		held_before[i] = held[i];
	return held_before;
}

void *
bsearch(const void *key, const void *array, size_t count, size_t size,
		int (*compare)(const void *, const void *))
{
	for (size_t i = 0; i < count; i++)
		if (compare(key, (const char *) array + i * size) == 0)
			return (void *) ((const char *) array + i * size);
	return NULL;
}

/* --- The rooms of src that are not searched -------------------------------------------- */

/* two shards, and two ids a tick on each; a tick is a microsecond */
static const Layout layout = {.tick_us = 1,
							  .timestamp_shift = 2,
							  .shard_bits = 1,
							  .shard_shift = 1,
							  .sequence_bits = 1,
							  .last_mint_tick = 1000,
							  .last_tick = 1000};

static const OwnShards all_shards;
const OwnShards		  *settings_asked_shards = &all_shards;
uint32				   settings_shards_changes = 1;
char				  *settings_shards_text;
int					   settings_spread;
int					   settings_ordering = ORDER_SERVER;
int					   settings_clock_tolerance_ms;
int					   settings_reserve_ms;
bool				   settings_refuse_clone;

const Layout *
settings_layout(void)
{
	return &layout;
}

const Layout *
server_layout(void)
{
	return &layout;
}

void
server_check_clone(void)
{
}

bool
settings_want_leases(void)
{
	return LEASES;
}

bool
settings_ask_for(int32 shard)
{
	return true;
}

bool
settings_name_shard(int32 shard)
{
	return true;
}

int
index_of_shard(const OwnShards *own, int32 shard)
{
	int index = 0;

	while (index < own->count && own->shard[index] < shard)
		index++;
	return index;
}

bool
has_shard(const OwnShards *list, int32 shard)
{
	return list->shard[0] == shard;
}

bool
may_log_now(pg_atomic_uint64 *after, int64 interval_us)
{
	return false;
}

int64
steady_clock_us(void)
{
	return 0;
}

/* the disk: the horizon of the record, and what the worker knows of it */
static int64 disk;
static int64 known_horizon;

bool
server_read_records(Trouble *trouble)
{
	known_horizon = FOUND;
	return true;
}

void
server_compare_layout(void)
{
}

bool
server_has_change(ServerChange *change)
{
	return false;
}

bool
server_layout_differs(void)
{
	return false;
}

TimestampTz
server_horizon(void)
{
	return known_horizon;
}

void
server_make_record(Record *record, TimestampTz horizon)
{
	record->horizon = horizon;
}

void
server_note_renewal(const Record *record)
{
	known_horizon = record->horizon;
}

bool
record_write_file(RecordKind kind, const Record *record, Trouble *trouble)
{
	__atomic_store_n(&disk, record->horizon, __ATOMIC_RELAXED);
	return true;
}

XLogRecPtr
record_log_page(RecordKind kind, const Record *record)
{
	return InvalidXLogRecPtr;
}

bool
record_awaits_standby(XLogRecPtr lsn)
{
	return false;
}

/* --- What a scenario is made of ------------------------------------------------------- */

void
start_server(bool is_open)
{
	transam.latestCompletedXid.value = FIRST_XID - 1;
	positions_shmem_startup();
	sessions_shmem_startup();
	mark_shmem_startup();
	horizon_shmem_startup();
	leases_shmem_startup();
	leasing = &leases;
	mark_install_callback();
	if (!is_open)
		return;
	bounds_raise(&bounds->found_horizon, FOUND);
	bounds_raise(&bounds->latest, FOUND);
	bounds_raise(&bounds->renew, 50);
	bounds_raise(&bounds->horizon, 100);
	pg_atomic_write_u32(&bounds->are_known, true);
}

long
start_process(void *(*process)(void *), long argument)
{
	return __VERIFIER_thread_create(NULL, process, (void *) argument);
}

void
enter_process(int new_number, int slot, int64 tick, int64 later_tick)
{
	number = new_number;
	backend = slot + 1;
	time_now = tick;
	time_then = later_tick;
}

int64
tick_of(int64 id)
{
	return layout_tick(&layout, id);
}

int64
mint(int shard)
{
	union
	{
		FunctionCallInfoBaseData info;
		char room[sizeof(FunctionCallInfoBaseData) + sizeof(NullableDatum)];
	} call;

	call.info.args[0].value = Int32GetDatum(shard);
	return DatumGetInt64(snowflake_nextval_shard(&call.info));
}

int64
mint_next(void)
{
	return DatumGetInt64(snowflake_nextval(NULL));
}

void
commit(void)
{
	at_transaction_event(XACT_EVENT_PRE_COMMIT, NULL);
	end_transaction(number, true);
	at_transaction_event(XACT_EVENT_COMMIT, NULL);
}

void
roll_back(void)
{
	end_transaction(number, false);
	at_transaction_event(XACT_EVENT_ABORT, NULL);
}

void
prepare(void)
{
	at_transaction_event(XACT_EVENT_PRE_PREPARE, NULL);
	at_transaction_event(XACT_EVENT_PREPARE, NULL);
}

void
commit_prepared(int which)
{
	TransactionStmt end;

	end.type = T_TransactionStmt;
	end.kind = TRANS_STMT_COMMIT_PREPARED;
	(void) mark_begin_utility((Node *) &end);
	end_transaction(which, true);
	mark_end_prepared();
}

void
leave_server(void)
{
	at_exit(0, (Datum) 0);
}

void
take_snapshot(SnapshotData *snapshot)
{
	SpinLockAcquire(&proc_array);
	snapshot->xmax = transam.latestCompletedXid.value + 1;
	snapshot->xcnt = took_effect;
	SpinLockRelease(&proc_array);
	snapshot->xmin = FIRST_XID;
	snapshot->copied = true;
}

/* One that sees a transaction, and none before or after it, though they have begun. */
void
import_snapshot(SnapshotData *snapshot, int seen)
{
	VariableSetStmt set;

	set.type = T_VariableSetStmt;
	set.kind = VAR_SET_MULTI;
	set.name = "TRANSACTION SNAPSHOT";
	(void) mark_begin_utility((Node *) &set);
	snapshot->xmin = FIRST_XID;
	snapshot->xmax = FIRST_XID + seen + 1;
	snapshot->xcnt = 1 << seen;
	snapshot->copied = true;
}

bool
sees(const SnapshotData *snapshot, int which)
{
	return snapshot->xcnt >> which & 1;
}

int64
mark_of_snapshot(SnapshotData *snapshot)
{
	return layout_pack(&layout, mark_unsettled_tick(snapshot, NULL), 0, 0);
}

int64
mark_of_shard(SnapshotData *snapshot, int shard)
{
	union
	{
		OwnShards list;
		char	  room[sizeof(OwnShards) + sizeof(int32)];
	} wanted;

	wanted.list.count = 1;
	wanted.list.shard[0] = shard;
	return layout_pack(&layout, mark_unsettled_tick(snapshot, &wanted.list), 0,
					   0);
}

void
renew(int64 tick)
{
	horizon_attempt(tick);
}

int64
horizon_on_disk(void)
{
	return __atomic_load_n(&disk, __ATOMIC_RELAXED);
}

/* From now on this server has leased these shards. */
void
lease(int first, int last)
{
	static Lease leases[2]; /* the worker's own */
	LeaseRecord	 record;

	record.caller.holder = 1;
	record.count = 0;
	record.lease = leases;
	for (int shard = first; shard <= last; shard++)
		leases[record.count++] = (Lease){.from = 0,
										 .until = 1000,
										 .shard = shard,
										 .kind = HELD_HERE};
	leases_publish(&record, true);
}
