/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  Looking at users' tables, so that no code of theirs runs.
 *
 * Who looks for what is wrong is often a superuser, and any role can own the table
 * that he looks at.  A query runs code of the owner's before it reads a row: the
 * planner works out what is constant in partial and expression indexes, in CHECK
 * constraints and in policies, and it would run with the rights of the caller.
 * So nothing is planned here.  A part of a table, which is the table itself, a
 * partition or a child, is read row by row, and its greatest id is found at the end
 * of an index.  No expression is computed: neither of an index, nor a default, a
 * policy, a trigger, a rule, a domain's check or a generated column.  A foreign
 * table is never asked, and a view has code only: see owner.c.
 *
 * The caller's own rights come first: SELECT on the column, and no row
 * security that hides rows from him.  As in a query, parts need the rights of the
 * table that was named.  A table is known by its OID, and looked at again
 * once it is locked, so that nothing can be put in its place meanwhile.
 *
 * A lock is tried again and again for a short time, rather than waited for: so
 * there is nobody in the queue behind it.  What could not be looked at is named,
 * with the reason.  Locks are ACCESS SHARE.  There is no state here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "clock.h"
#include "compat.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(snowflake_newest);
PG_FUNCTION_INFO_V1(snowflake_parts);
PG_FUNCTION_INFO_V1(snowflake_read_ids);
PG_FUNCTION_INFO_V1(snowflake_read_marks);

/* For one lock, for all that a call takes, and between two attempts. */
#define LOCK_PATIENCE_US (200 * INT64CONST(1000))
#define CALL_PATIENCE_US (5000 * INT64CONST(1000))
#define LOCK_PAUSE_US (5 * INT64CONST(1000))

/* What a look without patience goes through, of partitions and children. */
#define MOST_PARTS 1000

/*
 * One call, and what it could not look at.  A thorough one reads without an index,
 * keeps its locks, and fails if the caller may not read or a table is locked.
 */
typedef struct Look
{
	bool			 thorough;
	int64			 patience_us; /* left for waits */
	int64			 waited_us;
	ArrayBuildState *unseen;
} Look;

/* An open part of a table, and the column in it. */
typedef struct Part
{
	Relation   rel;
	AttrNumber column;
	int16	   width; /* of the column's values, which are integers */
} Part;

/* --- What may be read ------------------------------------------------------- */

/* The name that a user would write. */
static char *
name_of(Oid relation)
{
	char *name = get_rel_name(relation);

	if (name == NULL)
		return psprintf("%u", relation);
	return quote_qualified_identifier(get_namespace_name(
										  get_rel_namespace(relation)),
									  name);
}

static void
leave_out(Look *look, Oid part, const char *why)
{
	look->unseen =
		accumArrayResult(look->unseen,
						 CStringGetTextDatum(
							 psprintf("%s (%s)", name_of(part), why)),
						 false, TEXTOID, CurrentMemoryContext);
}

/* As in a query, which needs the schema to name the table. */
static bool
may_use_schema(Relation rel)
{
	return schema_aclcheck(RelationGetNamespace(rel), GetUserId(),
						   ACL_USAGE) == ACLCHECK_OK;
}

static bool
may_select(Relation rel, AttrNumber column)
{
	Oid relation = RelationGetRelid(rel);

	return pg_class_aclcheck(relation, GetUserId(), ACL_SELECT) ==
			   ACLCHECK_OK ||
		   pg_attribute_aclcheck(relation, column, GetUserId(), ACL_SELECT) ==
			   ACLCHECK_OK;
}

/*
 * Fail unless the caller may read all rows of the column: with the server's own
 * errors, as a query with row_security = off would.
 */
static void
check_may_read(Relation rel, AttrNumber column)
{
	if (!may_use_schema(rel))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA,
					   get_namespace_name(RelationGetNamespace(rel)));
	if (!may_select(rel, column))
		aclcheck_error(ACLCHECK_NO_PRIV,
					   get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));
	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, false) ==
		RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("query would be affected by row-level security policy "
						"for table \"%s\"",
						RelationGetRelationName(rel))));
}

/* Why the caller may not look at the table; NULL if he may. */
static const char *
why_forbidden(const Look *look, Relation rel, AttrNumber column)
{
	if (look->thorough)
		check_may_read(rel, column);
	else if (!may_use_schema(rel) || !may_select(rel, column))
		return "no privilege";
	else if (check_enable_rls(RelationGetRelid(rel), InvalidOid, true) ==
			 RLS_ENABLED)
		return "row security";
	return NULL;
}

/* Why the part has no rows that can be read; NULL if it has. */
static const char *
why_unreadable(Relation rel)
{
	if (rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
		return "foreign table";
	if (rel->rd_rel->relkind != RELKIND_RELATION &&
		rel->rd_rel->relkind != RELKIND_MATVIEW)
		return "not a table";
	if (RELATION_IS_OTHER_TEMP(rel))
		return "temporary table of another session";
	if (!RelationIsPopulated(rel))
		return "not populated";
	if (!RelationIsPermanent(rel) && RecoveryInProgress())
		return "not on a standby";
	return NULL;
}

/* The column as an integer; false if it is none that is stored. */
static bool
find_integer(Part *part, const char *column)
{
	Form_pg_attribute attribute;
	Oid				  type;

	part->column = get_attnum(RelationGetRelid(part->rel), column);
	if (part->column <= 0)
		return false;
	attribute = TupleDescAttr(RelationGetDescr(part->rel), part->column - 1);
	type = getBaseType(attribute->atttypid);
	part->width = attribute->attlen;
	return (type == INT2OID || type == INT4OID ||
			IsBinaryCoercible(type, INT8OID)) &&
		   (attribute->attgenerated == '\0' ||
			attribute->attgenerated == ATTRIBUTE_GENERATED_STORED);
}

static int64
integer_of(const Part *part, Datum value)
{
	return part->width == sizeof(int16) ? DatumGetInt16(value) :
		   part->width == sizeof(int32) ? DatumGetInt32(value) :
										  DatumGetInt64(value);
}

/* --- Locks, and opening ------------------------------------------------------ */

static bool
lock_in_time(Look *look, Oid relation)
{
	static WaitName event = {"SnowflakeTable", 0};
	int64			left_us = Min(LOCK_PATIENCE_US, look->patience_us);

	while (!ConditionalLockRelationOid(relation, AccessShareLock))
	{
		int64 passed_us;

		if (left_us <= 0)
			return false;
		passed_us =
			wait_outside_locks(Min(left_us, LOCK_PAUSE_US), &event, NULL);
		left_us -= passed_us;
		look->patience_us -= passed_us;
		look->waited_us += passed_us;
	}
	return true;
}

static void
fail_locked(const Look *look, Oid relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on table %s", name_of(relation)),
			 errdetail("The call has waited for %lld ms, of which at most "
					   "%lld for this table.",
					   (long long) (look->waited_us / 1000),
					   (long long) (LOCK_PATIENCE_US / 1000)),
			 errhint("Call it again when the table is not locked: SELECT pid, "
					 "mode FROM pg_locks WHERE relation = '%s'::regclass;",
					 name_of(relation))));
}

/* NULL if it is locked, which is noted, or was dropped. */
static Relation
open_in_time(Look *look, Oid relation)
{
	Relation rel;

	if (!lock_in_time(look, relation))
	{
		if (look->thorough)
			fail_locked(look, relation);
		leave_out(look, relation, "locked");
		return NULL;
	}
	rel = try_relation_open(relation, NoLock);
	if (rel == NULL)
		UnlockRelationOid(relation, AccessShareLock);
	return rel;
}

static void
close_look(const Look *look, Relation rel)
{
	relation_close(rel, look->thorough ? NoLock : AccessShareLock);
}

/* Open a part that can be read; false if there is nothing to read, or not now. */
static bool
open_part(Look *look, Oid relation, const char *column, Part *part)
{
	const char *why;

	part->rel = open_in_time(look, relation);
	if (part->rel == NULL)
		return false;
	if (part->rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
	{
		why = why_unreadable(part->rel);
		if (why == NULL && !find_integer(part, column))
			why = "not a stored integer";
		if (why == NULL)
			return true;
		leave_out(look, relation, why);
	}
	close_look(look, part->rel);
	return false;
}

static void
fail_missing(Oid relation)
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
					errmsg("relation with OID %u does not exist", relation)));
}

/* The parts of a table; NIL if the caller may not look at them. */
static List *
parts_of(Look *look, Oid relation, const char *column)
{
	Relation	rel = open_in_time(look, relation);
	AttrNumber	attnum;
	const char *why;
	List	   *parts = NIL;

	if (rel == NULL && look->thorough)
		fail_missing(relation);
	if (rel == NULL)
		return NIL;
	attnum = get_attnum(relation, column);
	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						column, RelationGetRelationName(rel))));
	why = why_forbidden(look, rel, attnum);
	if (why == NULL)
		parts = find_all_inheritors(relation, NoLock, NULL);
	else
		leave_out(look, relation, why);
	if (!look->thorough && list_length(parts) > MOST_PARTS)
	{
		leave_out(look, relation, "more than 1000 parts");
		parts = list_truncate(parts, MOST_PARTS);
	}
	close_look(look, rel);
	return parts;
}

/* --- The greatest id --------------------------------------------------------- */

/*
 * Can the index be read from its end?  As in the planner: one that is valid for
 * the snapshot, of all rows, and in the order of integers.
 */
static bool
leads_to_greatest(Oid index, AttrNumber column, bool *descends)
{
	HeapTuple	  tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool		  is_null;
	bool		  leads;
	oidvector	 *classes;
	int2vector	 *options;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	leads = form->indisvalid && form->indkey.values[0] == column &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
			(!form->indcheckxmin ||
			 TransactionIdPrecedes(HeapTupleHeaderGetXmin(tuple->t_data),
								   TransactionXmin));
	if (leads)
	{
		classes = (oidvector *) DatumGetPointer(
			SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indclass,
							&is_null));
		options = (int2vector *) DatumGetPointer(
			SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indoption,
							&is_null));
		leads =
			get_opclass_family(classes->values[0]) == INTEGER_BTREE_FAM_OID;
		*descends = (options->values[0] & INDOPTION_DESC) != 0;
	}
	ReleaseSysCache(tuple);
	return leads;
}

static Relation
open_index(Look *look, const Part *part, bool *descends)
{
	Oid		  relation = RelationGetRelid(part->rel);
	ListCell *cell;

	foreach (cell, RelationGetIndexList(part->rel))
	{
		Relation index;

		if (!leads_to_greatest(lfirst_oid(cell), part->column, descends) ||
			!lock_in_time(look, lfirst_oid(cell)))
			continue;
		index = try_relation_open(lfirst_oid(cell), NoLock);
		if (index != NULL && index->rd_index->indisvalid &&
			index->rd_index->indrelid == relation)
			return index;
		if (index != NULL)
			relation_close(index, NoLock);
		UnlockRelationOid(lfirst_oid(cell), AccessShareLock);
	}
	return NULL;
}

static void
raise_newest(NullableDatum *newest, int64 id)
{
	if (newest->isnull || id > DatumGetInt64(newest->value))
		newest->value = Int64GetDatum(id);
	newest->isnull = false;
}

/* The first one at the index's end that is visible. */
static void
newest_by_index(const Part *part, Relation index, bool descends,
				NullableDatum *newest)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyEntryInitialize(&key, SK_ISNULL | SK_SEARCHNOTNULL, part->column,
						   InvalidStrategy, InvalidOid, InvalidOid, InvalidOid,
						   (Datum) 0);
	scan = systable_beginscan_ordered(part->rel, index, GetActiveSnapshot(), 1,
									  &key);
	tuple = systable_getnext_ordered(scan, descends ? ForwardScanDirection :
													  BackwardScanDirection);
	if (HeapTupleIsValid(tuple))
	{
		bool  is_null;
		Datum value = heap_getattr(tuple, part->column,
								   RelationGetDescr(part->rel), &is_null);

		if (!is_null)
			raise_newest(newest, integer_of(part, value));
	}
	systable_endscan_ordered(scan);
}

/* --- Rows -------------------------------------------------------------------- */

/* Begin to read a part's rows, of some of its blocks; NULL: there are none. */
static TableScanDesc
begin_rows(Relation rel, int64 from_block, int64 to_block)
{
	TableScanDesc scan;
	int64		  blocks = PG_INT64_MAX;

	/* What is no heap has no blocks to go by: all of it is in the first. */
	if (rel->rd_rel->relam == HEAP_TABLE_AM_OID)
		blocks = RelationGetNumberOfBlocks(rel);
	else if (from_block > 0)
		return NULL;
	if (from_block < 0 || from_block >= Min(to_block, blocks))
		return NULL;
	scan =
		table_beginscan_strat(rel, GetActiveSnapshot(), 0, NULL, true, false);
	if (rel->rd_rel->relam == HEAP_TABLE_AM_OID)
		heap_setscanlimits(scan, (BlockNumber) from_block,
						   (BlockNumber) (Min(to_block, blocks) - from_block));
	return scan;
}

static bool
next_row(TableScanDesc scan, TupleTableSlot *slot)
{
	CHECK_FOR_INTERRUPTS();
	return table_scan_getnextslot(scan, ForwardScanDirection, slot);
}

static void
newest_by_rows(const Part *part, NullableDatum *newest)
{
	TableScanDesc	scan = begin_rows(part->rel, 0, MaxBlockNumber);
	TupleTableSlot *slot;

	if (scan == NULL)
		return;
	slot = table_slot_create(part->rel, NULL);
	while (next_row(scan, slot))
	{
		bool  is_null;
		Datum value = slot_getattr(slot, part->column, &is_null);

		if (!is_null)
			raise_newest(newest, integer_of(part, value));
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
}

/* --- SQL --------------------------------------------------------------------- */

/*
 * snowflake_newest(relation, column_name, thorough, patience_ms): the greatest id
 * of a table's parts, the parts that were not looked at, and how long it waited.
 */
Datum
snowflake_newest(PG_FUNCTION_ARGS)
{
	static const Oid types[] = {INT8OID, TEXTARRAYOID, INT4OID};
	TupleDesc		 row_type = result_row(fcinfo, types, lengthof(types));
	const char		*column = NameStr(*PG_GETARG_NAME(1));
	Look			 look = {.thorough = PG_GETARG_BOOL(2)};
	NullableDatum	 newest = {.isnull = true};
	Row				 row = {0};
	ListCell		*cell;

	look.patience_us =
		Min(PG_GETARG_INT32(3) * INT64CONST(1000), CALL_PATIENCE_US);
	foreach (cell, parts_of(&look, PG_GETARG_OID(0), column))
	{
		Part	 part;
		Relation index = NULL;
		bool	 descends = false;

		if (!open_part(&look, lfirst_oid(cell), column, &part))
			continue;
		if (part.rel->rd_rel->relam == HEAP_TABLE_AM_OID)
			index = open_index(&look, &part, &descends);
		if (index != NULL)
		{
			newest_by_index(&part, index, descends, &newest);
			close_look(&look, index);
		}
		else if (look.thorough)
			newest_by_rows(&part, &newest);
		else
			leave_out(&look, lfirst_oid(cell), "no index");
		close_look(&look, part.rel);
	}
	row_add_if(&row, !newest.isnull, newest.value);
	row_add_if(&row, look.unseen != NULL,
			   look.unseen == NULL ?
				   (Datum) 0 :
				   makeArrayResult(look.unseen, CurrentMemoryContext));
	row_add(&row, Int32GetDatum((int32) (look.waited_us / 1000)));
	PG_RETURN_DATUM(row_datum(row_type, &row));
}

/*
 * snowflake_parts(relation, column_name): the blocks of each part that can be
 * read, and the names of the others.  All stay locked until the transaction ends.
 */
Datum
snowflake_parts(PG_FUNCTION_ARGS)
{
	static const Oid types[] = {INT8OID, TEXTOID};
	ReturnSetInfo	*result = result_rows(fcinfo, types, lengthof(types));
	const char		*column = NameStr(*PG_GETARG_NAME(1));
	Look	  look = {.thorough = true, .patience_us = CALL_PATIENCE_US};
	ListCell *cell;

	foreach (cell, parts_of(&look, PG_GETARG_OID(0), column))
	{
		Oid	 relation = lfirst_oid(cell);
		Part part;
		Row	 row = {0};

		look.unseen = NULL;
		if (open_part(&look, relation, column, &part))
		{
			row_add(&row, Int64GetDatum(RelationGetNumberOfBlocks(part.rel)));
			row_add_text(&row, NULL);
			put_row(result, &row);
			close_look(&look, part.rel);
		}
		else if (look.unseen != NULL)
		{
			row_add_if(&row, false, (Datum) 0);
			row_add(&row, look.unseen->dvalues[0]);
			put_row(result, &row);
		}
	}
	return (Datum) 0;
}

/*
 * snowflake_read_ids(relation, column_name, from_block, to_block): the column's
 * values in these blocks of each part.
 */
Datum
snowflake_read_ids(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const char	  *column = NameStr(*PG_GETARG_NAME(1));
	Look		   look = {.thorough = true, .patience_us = CALL_PATIENCE_US};
	ListCell	  *cell;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach (cell, parts_of(&look, PG_GETARG_OID(0), column))
	{
		Part			part;
		TableScanDesc	scan;
		TupleTableSlot *slot;

		if (!open_part(&look, lfirst_oid(cell), column, &part))
			continue;
		slot = table_slot_create(part.rel, NULL);
		scan = begin_rows(part.rel, PG_GETARG_INT64(2), PG_GETARG_INT64(3));
		while (scan != NULL && next_row(scan, slot))
		{
			bool  is_null;
			Datum value = slot_getattr(slot, part.column, &is_null);

			if (!is_null)
				value = Int64GetDatum(integer_of(&part, value));
			tuplestore_putvalues(result->setResult, result->setDesc, &value,
								 &is_null);
		}
		if (scan != NULL)
			table_endscan(scan);
		ExecDropSingleTupleTableSlot(slot);
		close_look(&look, part.rel);
	}
	return (Datum) 0;
}

static void
put_marks(ReturnSetInfo *result, const Part *part, AttrNumber server,
		  AttrNumber came_by)
{
	TableScanDesc	scan = begin_rows(part->rel, 0, MaxBlockNumber);
	TupleTableSlot *slot = table_slot_create(part->rel, NULL);

	while (scan != NULL && next_row(scan, slot))
	{
		Row	  row = {0};
		bool  is_null;
		Datum value = slot_getattr(slot, server, &is_null);

		row_add_if(&row, !is_null, value);
		value = slot_getattr(slot, part->column, &is_null);
		row_add_if(&row, !is_null,
				   is_null ? value : Int64GetDatum(integer_of(part, value)));
		is_null = !AttributeNumberIsValid(came_by);
		if (!is_null)
			value = slot_getattr(slot, came_by, &is_null);
		row_add_if(&row, !is_null, value);
		put_row(result, &row);
	}
	if (scan != NULL)
		table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * snowflake_read_marks(marks): the servers and their marks in a table of marks,
 * and the subscriptions that brought them, if there is a column for it.
 */
Datum
snowflake_read_marks(PG_FUNCTION_ARGS)
{
	static const Oid types[] = {TEXTOID, INT8OID, OIDOID};
	ReturnSetInfo	*result = result_rows(fcinfo, types, lengthof(types));
	Oid				 marks = PG_GETARG_OID(0);
	char			 kind = get_rel_relkind(marks);
	Look	  look = {.thorough = true, .patience_us = CALL_PATIENCE_US};
	ListCell *cell;

	if (kind == '\0')
		fail_missing(marks);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("\"%s\" is not a table", get_rel_name(marks))));
	(void) parts_of(&look, marks, "server");
	if (AttributeNumberIsValid(get_attnum(marks, "came_by")))
		(void) parts_of(&look, marks, "came_by");
	foreach (cell, parts_of(&look, marks, "mark"))
	{
		Part	   part;
		AttrNumber server;
		AttrNumber came_by;

		if (!open_part(&look, lfirst_oid(cell), "mark", &part))
			continue;
		server = get_attnum(RelationGetRelid(part.rel), "server");
		came_by = get_attnum(RelationGetRelid(part.rel), "came_by");
		if (get_atttype(RelationGetRelid(part.rel), came_by) != OIDOID)
			came_by = InvalidAttrNumber;
		if (getBaseType(get_atttype(RelationGetRelid(part.rel), server)) !=
			TEXTOID)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"server\" of relation \"%s\" is not of "
							"type text",
							RelationGetRelationName(part.rel))));
		put_marks(result, &part, server, came_by);
		close_look(&look, part.rel);
	}
	return (Datum) 0;
}
