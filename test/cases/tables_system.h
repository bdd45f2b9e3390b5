/*-------------------------------------------------------------------------
 *
 * tables_system.h
 *	  What is below tables.c, for its tables of cases: the server's tables, with locks of
 *	  sessions that are not there, and a clock that only waits move.  And its functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/pg_inherits.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "clock.h"
#include "sql_calls.h"

/* --- Locks ---------------------------------------------------------------- */

#define LOCKED_TABLES 30

/* The first ones of these are locked by another session, up to a time. */
static Oid	 locked[LOCKED_TABLES];
static int	 locked_count;
static int64 locked_until;
static int64 now_us;
static int	 waits;

static const char *meanwhile; /* what is done before a lock is given on this: */
static Oid		   meanwhile_on;

static Oid held[3000]; /* locks of the function; InvalidOid: given back */
static int held_count;
static int given_back;

static bool
is_in(Oid relation, const Oid *list, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (list[i] == relation)
			return true;
	}
	return false;
}

static bool
our_lock(Oid relation, LOCKMODE mode)
{
	const char *run = meanwhile;

	CHECK(mode == AccessShareLock);
	if (now_us < locked_until && is_in(relation, locked, locked_count))
		return false;
	if (run != NULL && relation == meanwhile_on)
	{
		meanwhile = NULL;
		execute(run);
	}
	held[held_count++] = relation;
	CHECK(held_count < lengthof(held));
	return ConditionalLockRelationOid(relation, mode);
}

static void
give_back(Oid relation, LOCKMODE mode)
{
	int i = held_count - 1;

	CHECK(mode == AccessShareLock);
	while (i >= 0 && held[i] != relation)
		i--;
	CHECK(i >= 0);
	held[i] = InvalidOid;
	given_back++;
}

static void
our_unlock(Oid relation, LOCKMODE mode)
{
	give_back(relation, mode);
	UnlockRelationOid(relation, mode);
}

static void
our_close(Relation rel, LOCKMODE mode)
{
	if (mode != NoLock)
		give_back(RelationGetRelid(rel), mode);
	relation_close(rel, mode);
}

int64
wait_outside_locks(int64 us, WaitName *event, ConditionVariable *condition)
{
	CHECK(us > 0 && us <= 5000 && condition == NULL);
	if (++waits > 10000)
		elog(ERROR, "it waits for ever");
	now_us += us;
	return us;
}

#define ConditionalLockRelationOid(relation, mode) our_lock(relation, mode)
#define UnlockRelationOid(relation, mode) our_unlock(relation, mode)
#define relation_close(rel, mode) our_close(rel, mode)

/* --- The server -------------------------------------------------------------- */

static bool			 in_recovery;
static TransactionId oldest_xmin;
static int copies_of_parts; /* as if a table had so many times its parts */
static int interrupts;		/* looked for */

/* A table of more blocks than this is a big one. */
#define BIG_TABLE 16

static TableScanDesc
as_if_big(Relation rel, TableScanDesc (*begin)(Relation rel))
{
	int			  buffers = NBuffers;
	TableScanDesc scan;

	NBuffers = BIG_TABLE * 4;
	scan = begin(rel);
	NBuffers = buffers;
	return scan;
}

static bool allows_ring;
static bool allows_sync;

static TableScanDesc
begin_as_asked(Relation rel)
{
	return table_beginscan_strat(rel, GetActiveSnapshot(), 0, NULL,
								 allows_ring, allows_sync);
}

/* What is read of a big table takes no more of the server's memory than a ring. */
static TableScanDesc
our_beginscan(Relation rel, bool ring, bool sync)
{
	TableScanDesc scan;

	allows_ring = ring;
	allows_sync = sync;
	scan = as_if_big(rel, begin_as_asked);
	if (RelationGetNumberOfBlocks(rel) > BIG_TABLE)
		CHECK(((HeapScanDesc) scan)->rs_strategy != NULL);
	return scan;
}

/* Nobody knows what is above a value that is smaller than a Datum. */
static Datum
with_garbage(TupleDesc row, AttrNumber column, Datum value)
{
	Form_pg_attribute attribute = TupleDescAttr(row, column - 1);

	return attribute->attbyval && attribute->attlen < sizeof(Datum) ?
			   value ^ (UINT64CONST(0x55) << (8 * attribute->attlen)) :
			   value;
}

static List *
our_inheritors(Oid relation, LOCKMODE mode)
{
	List *parts = find_all_inheritors(relation, mode, NULL);
	List *copies = NIL;

	for (int i = 0; i < copies_of_parts; i++)
		copies = list_concat(list_copy(parts), copies);
	return copies;
}

#define RecoveryInProgress() in_recovery
#define TransactionXmin oldest_xmin
#define table_beginscan_strat(rel, snapshot, nkeys, keys, ring, sync) \
	our_beginscan(rel, ring, sync)
#define slot_getattr(slot, column, is_null)           \
	with_garbage((slot)->tts_tupleDescriptor, column, \
				 slot_getattr(slot, column, is_null))
#define heap_getattr(tuple, column, row, is_null) \
	with_garbage(row, column, heap_getattr(tuple, column, row, is_null))
#define find_all_inheritors(relation, mode, counts) \
	our_inheritors(relation, mode)
#undef CHECK_FOR_INTERRUPTS
#define CHECK_FOR_INTERRUPTS() (interrupts++)

#include "../../src/sql.c"
#include "../../src/tables.c"

/* --- Calls ---------------------------------------------------------------- */

static void
make_functions(void)
{
	static const char *const functions[] = {
		"snowflake_newest(relation regclass, column_name name, thorough "
		"boolean, patience_ms integer, OUT newest bigint, OUT unseen text[], "
		"OUT waited_ms integer)",
		"snowflake_parts(relation regclass, column_name name, OUT blocks "
		"bigint, OUT unseen text) RETURNS SETOF record",
		"snowflake_read_ids(relation regclass, column_name name, from_block "
		"bigint, to_block bigint) RETURNS SETOF bigint",
		"snowflake_read_marks(marks regclass, OUT server text, OUT mark "
		"bigint, OUT came_by oid) RETURNS SETOF record"};

	for (int i = 0; i < lengthof(functions); i++)
		DO("CREATE FUNCTION %s LANGUAGE c STABLE STRICT AS '%s'", functions[i],
		   library);
}

static Oid
oid_of(const char *relation)
{
	return strtoul(answer_to("SELECT '%s'::regclass::oid", relation), NULL,
				   10);
}

/* What is needed before each call. */
static void
forget_locks(void)
{
	held_count = given_back = waits = 0;
	now_us = 0;
}

/* A quick call keeps no lock; a thorough one keeps those of all parts. */
static void
check_locks(const char *table, bool thorough)
{
	List	 *parts = find_all_inheritors(oid_of(table), NoLock, NULL);
	ListCell *cell;

	foreach (cell, parts)
		CHECK(is_in(lfirst_oid(cell), held, held_count) == thorough);
	for (int i = 0; i < held_count && !thorough; i++)
		CHECK(held[i] == InvalidOid);
	CHECK(!thorough || given_back == 0);
}

static void (*cases_of_tables)(void);

static void
try_with_functions(void)
{
	make_functions();
	cases_of_tables();
}

/* Try cases that call the functions; "self" is the function of the table. */
static int64
try_functions(Oid self, void (*try_cases)(void))
{
	tried = 0;
	copies_of_parts = 1;
	oldest_xmin = FirstNormalTransactionId;
	cases_of_tables = try_cases;
	try_by_sql(self, try_with_functions);
	return tried;
}
