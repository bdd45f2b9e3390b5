/*-------------------------------------------------------------------------
 *
 * time_operators.c
 *	  Comparing ids with times, and having the planner compare numbers.
 *
 * The operators between an id and a timestamptz compare snowflake_timestamp(id).
 * An operator and a time select a range of ids, see layout_ids().  So a planner
 * support function puts bigint's own operators, on the bounds of that range, in
 * the place of ours.  From there on all is bigint's: index conditions, pruning,
 * estimates.
 *
 * The operators are declared on the type snowflake_instant, to which snowflake
 * casts implicitly.  Were they declared on snowflake itself, they would match
 * it more exactly than bigint's operators do, and "id < '5'", or a parameter
 * without a type, would be taken for a time.
 *
 * A time that is known when the query is planned gives the range exactly.  One
 * that is not, now() or a parameter, is compared by the last id before it or
 * at it, so that there is one condition, which is estimated like any of
 * bigint's.  The price is one value: nothing is below -9223372036854775808,
 * so where no id is early enough, that one counts as if it were.  No layout
 * mints it.
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "server.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(snowflake_last_before);
PG_FUNCTION_INFO_V1(snowflake_last_until);
PG_FUNCTION_INFO_V1(snowflake_time_support);

static TimestampTz
time_of_id(int64 id)
{
	const Layout *layout = server_layout();

	return layout_time_of_tick(layout, layout_tick(layout, id));
}

/*
 * The functions of an operator, with the id on the left and on the right.  The
 * last line takes the semicolon.
 */
#define TIME_OPERATOR(name, operator)                            \
	PG_FUNCTION_INFO_V1(snowflake_##name##_time);                \
	Datum snowflake_##name##_time(PG_FUNCTION_ARGS)              \
	{                                                            \
		TimestampTz left = time_of_id(PG_GETARG_INT64(0));       \
                                                                 \
		PG_RETURN_BOOL(left operator PG_GETARG_TIMESTAMPTZ(1));  \
	}                                                            \
	PG_FUNCTION_INFO_V1(snowflake_time_##name);                  \
	Datum snowflake_time_##name(PG_FUNCTION_ARGS)                \
	{                                                            \
		TimestampTz right = time_of_id(PG_GETARG_INT64(1));      \
                                                                 \
		PG_RETURN_BOOL(PG_GETARG_TIMESTAMPTZ(0) operator right); \
	}                                                            \
	extern int no_such_variable

TIME_OPERATOR(lt, <);
TIME_OPERATOR(le, <=);
TIME_OPERATOR(eq, ==);
TIME_OPERATOR(ne, !=);
TIME_OPERATOR(ge, >=);
TIME_OPERATOR(gt, >);

/* Those that the planner replaces; "<>" selects no range. */
static const struct
{
	PGFunction		 function;
	LayoutComparison comparison; /* of the id with the time */
	int				 id_argument;
} replaced[] = {
	{snowflake_lt_time, LAYOUT_LT, 0}, {snowflake_time_lt, LAYOUT_GT, 1},
	{snowflake_le_time, LAYOUT_LE, 0}, {snowflake_time_le, LAYOUT_GE, 1},
	{snowflake_eq_time, LAYOUT_EQ, 0}, {snowflake_time_eq, LAYOUT_EQ, 1},
	{snowflake_ge_time, LAYOUT_GE, 0}, {snowflake_time_ge, LAYOUT_LE, 1},
	{snowflake_gt_time, LAYOUT_GT, 0}, {snowflake_time_gt, LAYOUT_LT, 1}};

/* --- Bounds for times that are known only at run time ------------------- */

/* The last id whose time is before a given one. */
Datum
snowflake_last_before(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(
		layout_ids(server_layout(), LAYOUT_LT, PG_GETARG_TIMESTAMPTZ(0)).last);
}

/* The last id whose time is at a given one, or before it. */
Datum
snowflake_last_until(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(
		layout_ids(server_layout(), LAYOUT_LE, PG_GETARG_TIMESTAMPTZ(0)).last);
}

/* --- The support function ----------------------------------------------- */

/* A comparison of an id with a bound, by bigint's own operator. */
static Node *
compare_id(Node *id, StrategyNumber strategy, Node *bound)
{
	Oid oid =
		get_opfamily_member(INTEGER_BTREE_FAM_OID, INT8OID, INT8OID, strategy);
	Node *as_bigint = applyRelabelType(copyObject(id), INT8OID, -1, InvalidOid,
									   COERCE_IMPLICIT_CAST, -1, false);
	OpExpr *clause =
		(OpExpr *) make_opclause(oid, BOOLOID, false, (Expr *) as_bigint,
								 (Expr *) bound, InvalidOid, InvalidOid);

	set_opfuncid(clause);
	return (Node *) clause;
}

static Node *
bigint_constant(int64 value)
{
	return (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
							  Int64GetDatum(value), false, FLOAT8PASSBYVAL);
}

/* The range of a time that is known when the query is planned. */
static Node *
compare_with_range(Node *id, LayoutIdRange range)
{
	List *clauses = NIL;

	if (range.first > PG_INT64_MIN || range.last == PG_INT64_MAX)
		clauses = lappend(clauses, compare_id(id, BTGreaterEqualStrategyNumber,
											  bigint_constant(range.first)));
	if (range.last < PG_INT64_MAX)
		clauses = lappend(clauses, compare_id(id, BTLessEqualStrategyNumber,
											  bigint_constant(range.last)));
	return (Node *) make_ands_explicit(clauses);
}

/*
 * A comparison with a time that is known only when the query runs: with the
 * bound that a function of ours gives for it, and of "=" with two bounds.  NULL
 * if not everybody may call the function.
 */
static Node *
compare_with_time(const FuncExpr *call, Node *id, LayoutComparison comparison,
				  Node *time)
{
	const Oid	   type = TIMESTAMPTZOID;
	const char	  *name = "snowflake_last_until";
	StrategyNumber strategy = BTGreaterStrategyNumber;
	Oid			   function;

	if (comparison == LAYOUT_EQ)
	{
		Node *since = compare_with_time(call, id, LAYOUT_GE, time);
		Node *until = compare_with_time(call, id, LAYOUT_LE, time);

		if (since == NULL || until == NULL)
			return NULL;
		return (Node *) make_andclause(list_make2(since, until));
	}
	if (comparison == LAYOUT_LT || comparison == LAYOUT_GE)
		name = "snowflake_last_before";
	if (comparison == LAYOUT_LT || comparison == LAYOUT_LE)
		strategy = BTLessEqualStrategyNumber;
	function = stand_in_function(call, name, &type, 1);
	if (!OidIsValid(function))
		return NULL;
	return compare_id(id, strategy,
					  (Node *) makeFuncExpr(function, INT8OID,
											list_make1(copyObject(time)),
											InvalidOid, InvalidOid,
											COERCE_EXPLICIT_CALL));
}

/*
 * Is there an index condition to be had: an id, and a time from elsewhere?  In the
 * place of "=" there are two comparisons, and, as with the server's own inlining, no
 * subquery is executed twice.  (A time that no id has takes two comparisons as well.)
 */
static bool
is_worth_replacing(PlannerInfo *root, Node *id, LayoutComparison comparison,
				   Node *time)
{
	if (contain_volatile_functions(id))
		return false;
	if (comparison == LAYOUT_EQ &&
		(contain_subplans(id) || contain_subplans(time)))
		return false;
	return !contain_volatile_functions(time) &&
		   !bms_overlap(pull_varnos(root, id), pull_varnos(root, time));
}

/* What takes the place of a call of one of our operators; NULL for nothing. */
static Node *
simplify(PlannerInfo *root, const FuncExpr *call)
{
	FmgrInfo flinfo;

	fmgr_info(call->funcid, &flinfo);
	for (int i = 0; i < lengthof(replaced); i++)
	{
		LayoutComparison comparison = replaced[i].comparison;
		Node			*id = list_nth(call->args, replaced[i].id_argument);
		Node *time = list_nth(call->args, 1 - replaced[i].id_argument);

		if (flinfo.fn_addr != replaced[i].function)
			continue;
		if (!is_worth_replacing(root, id, comparison, time))
			return NULL;
		if (IsA(time, Const))
			return compare_with_range(
				id,
				layout_ids(server_layout(), comparison,
						   DatumGetTimestampTz(((Const *) time)->constvalue)));
		return compare_with_time(call, id, comparison, time);
	}
	return NULL;
}

Datum
snowflake_time_support(PG_FUNCTION_ARGS)
{
	Node *request = (Node *) PG_GETARG_POINTER(0);
	Node *replacement = NULL;

	if (IsA(request, SupportRequestSimplify))
		replacement = simplify(((SupportRequestSimplify *) request)->root,
							   ((SupportRequestSimplify *) request)->fcall);
	PG_RETURN_POINTER(replacement);
}
