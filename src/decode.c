/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  SQL functions that take ids apart and put them together, and hash partitions
 *	  by shard.
 *
 * A thin layer over layout.c.  Each C function serves two of SQL: with a layout
 * argument, and without, for the server's own layout, which never changes while
 * the server runs.
 *
 * A call site keeps its layout argument in fn_extra, as text and parsed, and
 * parses again only if the text differs.  That memory is private to a process:
 * nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "errors.h"
#include "server.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(snowflake_decode);
PG_FUNCTION_INFO_V1(snowflake_decode_support);
PG_FUNCTION_INFO_V1(snowflake_fields);
PG_FUNCTION_INFO_V1(snowflake_timestamp);
PG_FUNCTION_INFO_V1(snowflake_shard);
PG_FUNCTION_INFO_V1(snowflake_sequence);
PG_FUNCTION_INFO_V1(snowflake_encode);
PG_FUNCTION_INFO_V1(snowflake_floor);
PG_FUNCTION_INFO_V1(snowflake_ceil);
PG_FUNCTION_INFO_V1(snowflake_shard_hash);
PG_FUNCTION_INFO_V1(snowflake_shard_hash_int4);
PG_FUNCTION_INFO_V1(snowflake_shard_hash_int2);

/* What a call site remembers from one call to the next. */
typedef struct CallSite
{
	HeapTuple row;		   /* a row of snowflake_decode(); else NULL */
	char	 *layout_text; /* what "layout" was parsed from, or NULL */
	size_t	  layout_length;
	Layout	  layout;
} CallSite;

/* The columns of snowflake_decode(), as they are in its row. */
typedef struct DecodedId
{
	TimestampTz created_at;
	int32		shard;
	int32		sequence;
} DecodedId;

/* --- Arguments ---------------------------------------------------------- */

static CallSite *
call_site(FunctionCallInfo fcinfo)
{
	FmgrInfo *flinfo = fcinfo->flinfo;

	if (flinfo->fn_extra == NULL)
		flinfo->fn_extra =
			MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(CallSite));
	return flinfo->fn_extra;
}

/* Parse a layout that is not the one the call site saw last. */
static void
remember_layout(FunctionCallInfo fcinfo, CallSite *site, const char *text,
				size_t length)
{
	if (site->layout_text != NULL)
		pfree(site->layout_text);
	site->layout_text = NULL;
	read_layout_or_fail(text, length, &site->layout);
	site->layout_length = length;
	site->layout_text =
		MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, Max(length, 1));
	memcpy(site->layout_text, text, length);
}

/* The layout that is argument number "argument", or else the server's. */
static const Layout *
layout_argument(FunctionCallInfo fcinfo, int argument)
{
	CallSite *site;
	text	 *arg;

	if (PG_NARGS() <= argument)
		return server_layout();
	arg = PG_GETARG_TEXT_PP(argument);
	site = call_site(fcinfo);
	if (site->layout_text == NULL ||
		site->layout_length != VARSIZE_ANY_EXHDR(arg) ||
		memcmp(site->layout_text, VARDATA_ANY(arg), site->layout_length) != 0)
		remember_layout(fcinfo, site, VARDATA_ANY(arg),
						VARSIZE_ANY_EXHDR(arg));
	return &site->layout;
}

/* The tick of a time; an error where no id of the layout has such a time. */
static int64
tick_argument(const Layout *layout, TimestampTz time)
{
	int64 tick;

	if (!layout_tick_of_time(layout, time, &tick))
		report_time_range(layout, time, layout_tick(layout, PG_INT64_MIN),
						  layout_tick(layout, PG_INT64_MAX));
	return tick;
}

/* --- Taking ids apart --------------------------------------------------- */

Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	int64		  id = PG_GETARG_INT64(0);
	const Layout *layout = layout_argument(fcinfo, 1);

	PG_RETURN_TIMESTAMPTZ(
		layout_time_of_tick(layout, layout_tick(layout, id)));
}

Datum
snowflake_shard(PG_FUNCTION_ARGS)
{
	int64		  id = PG_GETARG_INT64(0);
	const Layout *layout = layout_argument(fcinfo, 1);

	PG_RETURN_INT32(layout_shard(layout, id));
}

Datum
snowflake_sequence(PG_FUNCTION_ARGS)
{
	int64		  id = PG_GETARG_INT64(0);
	const Layout *layout = layout_argument(fcinfo, 1);

	PG_RETURN_INT32(layout_sequence(layout, id));
}

/* Make a row of snowflake_decode(), to be copied and filled. */
static pg_noinline void
make_row(FunctionCallInfo fcinfo, CallSite *site)
{
	static const Oid columns[] = {TIMESTAMPTZOID, INT4OID, INT4OID};
	Datum			 values[] = {TimestampTzGetDatum(0), Int32GetDatum(0),
								 Int32GetDatum(0)};
	bool			 nulls[lengthof(columns)] = {false};
	MemoryContext	 old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

	site->row = heap_form_tuple(result_row(fcinfo, columns, lengthof(columns)),
								values, nulls);
	Assert(site->row->t_len - site->row->t_data->t_hoff == sizeof(DecodedId));
	MemoryContextSwitchTo(old);
}

/*
 * One row: created_at, shard, sequence.  It is the call site's, copied and filled:
 * that takes half as long as to form one.
 */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	int64			id = PG_GETARG_INT64(0);
	const Layout   *layout = layout_argument(fcinfo, 1);
	CallSite	   *site = call_site(fcinfo);
	HeapTupleHeader row;
	DecodedId	   *decoded;

	if (site->row == NULL)
		make_row(fcinfo, site);
	row = palloc(site->row->t_len);
	memcpy(row, site->row->t_data, site->row->t_len);
	decoded = (DecodedId *) ((char *) row + row->t_hoff);
	decoded->created_at = layout_time_of_tick(layout, layout_tick(layout, id));
	decoded->shard = layout_shard(layout, id);
	decoded->sequence = layout_sequence(layout, id);
	PG_RETURN_HEAPTUPLEHEADER(row);
}

/*
 * SELECT (snowflake_decode($1)).created_at, and so on: calls of the same function,
 * so that the same rights and errors count.
 */
static Query *
query_of_columns(FuncExpr *call)
{
	FuncExpr *decode = copyObject(call);
	Query	 *query = makeNode(Query);
	TupleDesc row;
	ListCell *cell;

	if (get_expr_result_type((Node *) call, NULL, &row) != TYPEFUNC_COMPOSITE)
		return NULL;
	foreach (cell, decode->args)
	{
		Param *parameter = makeNode(Param);

		parameter->paramkind = PARAM_EXTERN;
		parameter->paramid = foreach_current_index(cell) + 1;
		parameter->paramtype = exprType(lfirst(cell));
		parameter->paramtypmod = -1;
		parameter->paramcollid = exprCollation(lfirst(cell));
		parameter->location = -1;
		lfirst(cell) = parameter;
	}
	for (int i = 0; i < row->natts; i++)
	{
		FieldSelect *column = makeNode(FieldSelect);
		char		*name = NameStr(TupleDescAttr(row, i)->attname);

		column->arg = copyObject((Expr *) decode);
		column->fieldnum = i + 1;
		column->resulttype = TupleDescAttr(row, i)->atttypid;
		column->resulttypmod = -1;
		query->targetList =
			lappend(query->targetList,
					makeTargetEntry((Expr *) column, i + 1, name, false));
	}
	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->jointree = makeFromExpr(NIL, NULL);
	return query;
}

/*
 * Planner support of snowflake_decode().  The row of a call in FROM is stored and
 * read again, which takes most of the time.  Servers that ask for it get a query
 * to put in the place of the call, and then compute only the columns that are
 * read.
 */
Datum
snowflake_decode_support(PG_FUNCTION_ARGS)
{
	FuncExpr *call = call_in_from((Node *) PG_GETARG_POINTER(0));

	PG_RETURN_POINTER(call == NULL ? NULL : query_of_columns(call));
}

/* What a field's value says to a person. */
static char *
meaning_of(const Layout *layout, const LayoutField *field, int64 id)
{
	int32 shard = layout_shard(layout, id);

	if (field->part == LAYOUT_TIMESTAMP)
		return time_text(layout_time_of_tick(layout, layout_tick(layout, id)));
	if (field->part == LAYOUT_SEQUENCE)
		return psprintf("number %d of 0 to " INT64_FORMAT " in its tick",
						layout_sequence(layout, id),
						layout_last_sequence(layout));
	if (field->bits == layout->shard_bits)
		return psprintf("shard %d of 0 to " INT64_FORMAT, shard,
						layout_last_shard(layout));
	return psprintf("%s part of shard %d",
					field->shift > layout->shard_shift ? "upper" : "lower",
					shard);
}

/* A row a field, for people: field, bits, shift, value, meaning. */
Datum
snowflake_fields(PG_FUNCTION_ARGS)
{
	static const Oid columns[] = {TEXTOID, INT4OID, INT4OID, INT8OID, TEXTOID};
	int64			 id = PG_GETARG_INT64(0);
	const Layout	*layout = layout_argument(fcinfo, 1);
	ReturnSetInfo	*result = result_rows(fcinfo, columns, lengthof(columns));

	for (int i = 0; i < layout->nfields; i++)
	{
		const LayoutField *field = &layout->fields[i];
		int64			   value = id >> field->shift;
		Row				   row = {0};

		if (field->part != LAYOUT_TIMESTAMP)
			value &= layout_mask(field->bits);

		row_add_text(&row, field->name);
		row_add(&row, Int32GetDatum(field->bits));
		row_add(&row, Int32GetDatum(field->shift));
		row_add(&row, Int64GetDatum(value));
		row_add_text(&row, meaning_of(layout, field, id));
		put_row(result, &row);
	}
	return (Datum) 0;
}

/* --- Putting ids together ----------------------------------------------- */

Datum
snowflake_encode(PG_FUNCTION_ARGS)
{
	TimestampTz	  created_at = PG_GETARG_TIMESTAMPTZ(0);
	int32		  shard = PG_GETARG_INT32(1);
	int32		  sequence = PG_GETARG_INT32(2);
	const Layout *layout = layout_argument(fcinfo, 3);
	int64		  tick = tick_argument(layout, created_at);

	if (shard < 0 || shard > layout_last_shard(layout))
		report_part_range(layout, "shard", shard, layout_last_shard(layout));
	if (sequence < 0 || sequence > layout_last_sequence(layout))
		report_part_range(layout, "sequence", sequence,
						  layout_last_sequence(layout));
	PG_RETURN_INT64(layout_pack(layout, tick, shard, sequence));
}

/* The least id of a time's tick. */
Datum
snowflake_floor(PG_FUNCTION_ARGS)
{
	TimestampTz	  time = PG_GETARG_TIMESTAMPTZ(0);
	const Layout *layout = layout_argument(fcinfo, 1);

	PG_RETURN_INT64(layout_pack(layout, tick_argument(layout, time), 0, 0));
}

/* The greatest id of a time's tick. */
Datum
snowflake_ceil(PG_FUNCTION_ARGS)
{
	TimestampTz	  time = PG_GETARG_TIMESTAMPTZ(0);
	const Layout *layout = layout_argument(fcinfo, 1);

	PG_RETURN_INT64(layout_pack(layout, tick_argument(layout, time), 0, 0) |
					layout_mask(layout->timestamp_shift));
}

/* --- Hash partitions by shard: operator class snowflake_shard_ops ------------- */

/* What hash_combine64(0, hash) of the server adds to a hash value. */
#define HASH_COMBINE_CONSTANT UINT64CONST(0x49a0f4dd15e5a8e3)

/*
 * The second support function of the operator class.  Hash partitioning adds a
 * constant to the hash value, and takes the remainder.  So the value is the shard
 * less that constant, and shard s is in remainder s % modulus.  The seed, a second
 * argument, is for hashes that must differ from others.
 */
static Datum
shard_hash(int64 id)
{
	PG_RETURN_UINT64((uint64) layout_shard(server_layout(), id) -
					 HASH_COMBINE_CONSTANT);
}

Datum
snowflake_shard_hash(PG_FUNCTION_ARGS)
{
	return shard_hash(PG_GETARG_INT64(0));
}

Datum
snowflake_shard_hash_int4(PG_FUNCTION_ARGS)
{
	return shard_hash(PG_GETARG_INT32(0));
}

Datum
snowflake_shard_hash_int2(PG_FUNCTION_ARGS)
{
	return shard_hash(PG_GETARG_INT16(0));
}
