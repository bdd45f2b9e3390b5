/*-------------------------------------------------------------------------
 *
 * time_operators_cases.c
 *	  Comparing ids with times, and what the planner compares instead.
 *
 * time_operators_cases() calls the operators of time_operators.c with ids and times at
 * the edges of layouts, and its support function with calls that the server's parser has
 * made.  It compares each answer with a comparison of bigint that the parser has made of
 * text, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "nodes/nodes.h"
#include "parser/analyze.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/regproc.h"

#include "cases.h"

PG_MODULE_MAGIC;

#include "../../src/layout.c"
#include "../../src/layout_text.c"
#include "../../src/time_operators.c"

#include "comparisons.h"

/* --- The system ------------------------------------------------------------- */

static Layout layout;
static bool
	is_closed[2]; /* may not everybody execute last_before, last_until? */
static Oid bounds[2];

const Layout *
server_layout(void)
{
	return &layout;
}

Oid
stand_in_function(const FuncExpr *call, const char *name, const Oid *types,
				  int nargs)
{
	int bound = strcmp(name, "snowflake_last_until") == 0;

	CHECK(bound || strcmp(name, "snowflake_last_before") == 0);
	CHECK(nargs == 1 && types[0] == TIMESTAMPTZOID);
	return is_closed[bound] ? InvalidOid : bounds[bound];
}

/* The operators: in SQL, in names of functions, and which ids they select. */
static const struct
{
	const char		*name;
	PGFunction		 with_time;
	PGFunction		 time_with;
	LayoutComparison of_id;
	LayoutComparison of_time; /* where the id is on the right */
} operators[] = {
	{"lt", snowflake_lt_time, snowflake_time_lt, LAYOUT_LT, LAYOUT_GT},
	{"le", snowflake_le_time, snowflake_time_le, LAYOUT_LE, LAYOUT_GE},
	{"eq", snowflake_eq_time, snowflake_time_eq, LAYOUT_EQ, LAYOUT_EQ},
	{"ge", snowflake_ge_time, snowflake_time_ge, LAYOUT_GE, LAYOUT_LE},
	{"gt", snowflake_gt_time, snowflake_time_gt, LAYOUT_GT, LAYOUT_LT},
	{"ne", snowflake_ne_time, snowflake_time_ne}};

static Oid
create_function(const char *name, const char *arguments, const char *result,
				const char *library)
{
	const char *sql =
		psprintf("CREATE OR REPLACE FUNCTION pg_temp.%s(%s) RETURNS %s "
				 "LANGUAGE c IMMUTABLE AS %s",
				 name, arguments, result, quote_literal_cstr(library));

	if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "there is no function %s", name);
	return DatumGetObjectId(DirectFunctionCall1(
		regprocedurein,
		CStringGetDatum(psprintf("pg_temp.%s(%s)", name, arguments))));
}

/* They are in the library that has the function that is called now. */
static void
create_functions(FunctionCallInfo fcinfo)
{
	char *library;

	SPI_connect();
	SPI_execute(psprintf("SELECT probin FROM pg_proc WHERE oid = %u",
						 fcinfo->flinfo->fn_oid),
				true, 1);
	library = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	for (int i = 0; i < lengthof(operators); i++)
	{
		create_function(psprintf("snowflake_%s_time", operators[i].name),
						"bigint, timestamptz", "boolean", library);
		create_function(psprintf("snowflake_time_%s", operators[i].name),
						"timestamptz, bigint", "boolean", library);
	}
	bounds[0] = create_function("snowflake_last_before", "timestamptz",
								"bigint", library);
	bounds[1] = create_function("snowflake_last_until", "timestamptz",
								"bigint", library);
	SPI_finish();
}

/* --- What the operators mean ------------------------------------------------------ */

static void
try_pair(int64 id, TimestampTz time)
{
	TimestampTz made = layout_time_of_tick(&layout, layout_tick(&layout, id));
	Datum		of_id = Int64GetDatum(id);
	Datum		of_time = TimestampTzGetDatum(time);

	snprintf(what_is_tried, sizeof(what_is_tried),
			 "id " INT64_FORMAT ", time " INT64_FORMAT, id, time);
	for (int i = 0; i < lengthof(operators); i++)
	{
		bool is_ne = strcmp(operators[i].name, "ne") == 0;
		bool right =
			is_ne ? made != time : compares(made, operators[i].of_id, time);
		bool left =
			is_ne ? made != time : compares(made, operators[i].of_time, time);

		CHECK(DatumGetBool(DirectFunctionCall2(operators[i].with_time, of_id,
											   of_time)) == right);
		CHECK(DatumGetBool(DirectFunctionCall2(operators[i].time_with, of_time,
											   of_id)) == left);
	}
}

/* An id that is at a bound compares otherwise than the next one. */
static void
try_bounds(TimestampTz time)
{
	static const PGFunction functions[] = {snowflake_last_before,
										   snowflake_last_until};

	for (int i = 0; i < lengthof(functions); i++)
	{
		int64 last = DatumGetInt64(
			DirectFunctionCall1(functions[i], TimestampTzGetDatum(time)));

		for (int next = 0; next <= 1; next++)
		{
			TimestampTz made =
				layout_time_of_tick(&layout,
									layout_tick(&layout, last + next));

			if (next == 0 ? last > PG_INT64_MIN : last < PG_INT64_MAX)
				CHECK(compares(made, i == 0 ? LAYOUT_LT : LAYOUT_LE, time) ==
					  !next);
		}
		try_pair(last, time);
		if (last < PG_INT64_MAX)
			try_pair(last + 1, time);
	}
}

/* --- What the planner has instead ------------------------------------------------- */

/* What stands on a side of an operator. */
typedef struct Side
{
	const char *text;
	bool		is_volatile;
	bool		is_constant;
	bool		has_subplan;
	bool		is_of_row; /* of the one of which the other side may be */
} Side;

static const Side ids[] = {
	{"a.id", .is_of_row = true},
	{"$1"},
	{"(random() * 0)::bigint", .is_volatile = true},
	{"(SELECT 1::bigint)", .has_subplan = true},
};

static const Side times[] = {
	{"a.at", .is_of_row = true},
	{"b.at"},
	{"now()"},
	{"$2"},
	{"clock_timestamp()", .is_volatile = true},
	{"(SELECT now())", .has_subplan = true},
	{"'2026-01-01'::timestamptz", .is_constant = true},
	{"'2026-01-01 00:00:00.0005'::timestamptz", .is_constant = true},
	{"'-infinity'::timestamptz", .is_constant = true},
	{"'infinity'::timestamptz", .is_constant = true},
};

/* An expression as the server parses it. */
static Node *
parsed(const char *expression)
{
	static const Oid types[] = {INT8OID, TIMESTAMPTZOID};
	const char		*sql =
		psprintf("SELECT %s FROM (VALUES (1::bigint, now())) AS a (id, at),"
				 " (VALUES (now())) AS b (at)",
				 expression);
	Query *query =
		parse_analyze_fixedparams(linitial_node(RawStmt, pg_parse_query(sql)),
								  sql, types, lengthof(types), NULL);

	return (Node *) linitial_node(TargetEntry, query->targetList)->expr;
}

static Node *
replacement_of(Node *call, NodeTag request_type)
{
	SupportRequestSimplify request = {.type = request_type,
									  .fcall = castNode(FuncExpr, call)};

	return (Node *) DatumGetPointer(
		DirectFunctionCall1(snowflake_time_support,
							PointerGetDatum(&request)));
}

/* All ids from the first to the last one of a range, and no bound that says nothing. */
static const char *
in_range(const char *id, LayoutIdRange range)
{
	const char *from =
		psprintf("%s >= '" INT64_FORMAT "'::bigint", id, range.first);
	const char *to =
		psprintf("%s <= '" INT64_FORMAT "'::bigint", id, range.last);

	if (range.last == PG_INT64_MAX)
		return from;
	return range.first == PG_INT64_MIN ? to : psprintf("%s AND %s", from, to);
}

/* NULL if not everybody may execute the function that it needs. */
static const char *
beside_bound(const char *id, LayoutComparison comparison, const char *time)
{
	bool until = comparison == LAYOUT_LE || comparison == LAYOUT_GT;
	bool is_upper = comparison == LAYOUT_LT || comparison == LAYOUT_LE;

	return is_closed[until] ? NULL :
							  psprintf("%s %s pg_temp.snowflake_last_%s(%s)",
									   id, is_upper ? "<=" : ">",
									   until ? "until" : "before", time);
}

/* What takes the place of a comparison; NULL for nothing. */
static const char *
expected_of(const Side *id, LayoutComparison comparison, const Side *time)
{
	const char *from;
	const char *to;

	if (id->is_volatile || time->is_volatile ||
		(id->is_of_row && time->is_of_row))
		return NULL;
	if (comparison == LAYOUT_EQ && (id->has_subplan || time->has_subplan))
		return NULL;
	if (time->is_constant)
		return in_range(
			id->text,
			layout_ids(&layout, comparison,
					   DatumGetTimestampTz(
						   castNode(Const, parsed(time->text))->constvalue)));
	if (comparison != LAYOUT_EQ)
		return beside_bound(id->text, comparison, time->text);
	from = beside_bound(id->text, LAYOUT_GE, time->text);
	to = beside_bound(id->text, LAYOUT_LE, time->text);
	return from && to ? psprintf("%s AND %s", from, to) : NULL;
}

static bool
lacks_function(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return (IsA(node, OpExpr) && !OidIsValid(((OpExpr *) node)->opfuncid)) ||
		   expression_tree_walker(node, lacks_function, context);
}

static void
try_call(const char *call, const char *expected)
{
	Node *node = parsed(call);
	Node *before = copyObject(node);
	Node *replacement = replacement_of(node, T_SupportRequestSimplify);

	snprintf(what_is_tried, sizeof(what_is_tried), "%s: %s", call,
			 expected ? expected : "as it is");
	CHECK((replacement == NULL) == (expected == NULL));
	CHECK(expected == NULL || equal(replacement, parsed(expected)));
	CHECK(!lacks_function(replacement, NULL));
	CHECK(equal(node, before));
	CHECK(replacement_of(node, T_SupportRequestCost) == NULL);
}

static void
try_sides(const Side *id, const Side *time)
{
	for (int i = 0; i < lengthof(operators); i++)
	{
		const char *name = operators[i].name;
		bool		is_ne = strcmp(name, "ne") == 0;

		try_call(psprintf("pg_temp.snowflake_%s_time(%s, %s)", name, id->text,
						  time->text),
				 is_ne ? NULL : expected_of(id, operators[i].of_id, time));
		try_call(psprintf("pg_temp.snowflake_time_%s(%s, %s)", name,
						  time->text, id->text),
				 is_ne ? NULL : expected_of(id, operators[i].of_time, time));
	}
}

/* --- All -------------------------------------------------------------------------- */

static const char *const layouts[] = {
	"twitter",
	/* its ids go beyond the times of the server */
	"epoch=2024-01-01 unit=1s fields=timestamp:20,shard:8,sequence:11"};

static void
try_layout(const char *text)
{
	LayoutError error;
	int64		edges[5];

	if (!layout_parse(text, strlen(text), &layout, &error))
		elog(ERROR, "%s", error.message);
	edges[0] = layout_tick(&layout, PG_INT64_MIN);
	edges[1] = layout_tick(&layout, PG_INT64_MAX);
	edges[2] = layout.first_tick;
	edges[3] = layout.last_tick;
	edges[4] = 0;
	try_bounds(DT_NOBEGIN);
	try_bounds(DT_NOEND);
	for (int i = 0; i < lengthof(edges); i++)
	{
		TimestampTz time = layout_time_of_tick(&layout, edges[i]);

		for (int us = -1; us <= 1; us++)
			if (IS_VALID_TIMESTAMP(time + us))
				try_bounds(time + us);
	}
	for (int i = 0; i < lengthof(ids) * lengthof(times) * 4; i++)
	{
		is_closed[0] = i & 1;
		is_closed[1] = i >> 1 & 1;
		try_sides(&ids[i / 4 % lengthof(ids)], &times[i / 4 / lengthof(ids)]);
	}
}

PG_FUNCTION_INFO_V1(time_operators_cases);
Datum
time_operators_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	create_functions(fcinfo);
	for (int i = 0; i < lengthof(layouts); i++)
		try_layout(layouts[i]);
	PG_RETURN_INT64(tried);
}
