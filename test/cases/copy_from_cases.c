/*-------------------------------------------------------------------------
 *
 * copy_from_cases.c
 *	  Defaults that mint, as COPY FROM and others plan and compute them.
 *
 * copy_from_cases() makes tables whose defaults mint, plans and computes these as the server
 * does, and compares what is called with what the head of copy_from.c says.  It returns how
 * many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/rel.h"

#include "sql_calls.h"

PG_MODULE_MAGIC;

#include "../../src/copy_from.c"
#include "../../src/sql.c"

/* --- What mints --------------------------------------------------------------------- */

static int mints; /* calls of the two functions so far */

PG_FUNCTION_INFO_V1(snowflake_nextval);
Datum
snowflake_nextval(PG_FUNCTION_ARGS)
{
	CHECK(PG_NARGS() == 0);
	PG_RETURN_INT64(++mints);
}

/* It gives 100 for each shard, and NULL for that of NULL. */
PG_FUNCTION_INFO_V1(snowflake_nextval_shard);
Datum
snowflake_nextval_shard(PG_FUNCTION_ARGS)
{
	CHECK(PG_NARGS() == 1);
	mints++;
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_INT64(100 * PG_GETARG_INT32(0) + mints);
}

static void
make_functions(void)
{
	static const char *const functions[] = {
		"snowflake_nextval_support(internal) RETURNS internal STRICT",
		"snowflake_nextval() RETURNS bigint STRICT VOLATILE SUPPORT "
		"snowflake_nextval_support",
		"snowflake_nextval(shard integer) RETURNS bigint STRICT VOLATILE "
		"SUPPORT snowflake_nextval_support",
		"snowflake_copy_nextval(original internal) RETURNS bigint STABLE",
		"snowflake_copy_nextval(original internal, shard integer) RETURNS "
		"bigint STABLE"};

	for (int i = 0; i < lengthof(functions); i++)
		DO("CREATE FUNCTION %s LANGUAGE c AS '%s', '%s'", functions[i],
		   library,
		   i == 2 ? "snowflake_nextval_shard" :
					pnstrdup(functions[i], strcspn(functions[i], "(")));
}

static Oid
function_oid(const char *arguments)
{
	return strtoul(answer_to("SELECT 'snowflake_nextval%s'::regprocedure::oid",
							 arguments),
				   NULL, 10);
}

/* --- Defaults ------------------------------------------------------------------------ */

/* The first column's default, planned as without a query. */
static Expr *
planned_default(void)
{
	Oid relation = strtoul(answer_to("SELECT 't'::regclass::oid"), NULL, 10);
	Relation rel = relation_open(relation, AccessShareLock);
	Expr *planned = expression_planner((Expr *) build_column_default(rel, 1));

	relation_close(rel, AccessShareLock);
	return planned;
}

/* Does it insert in batches?  So it does if nothing in the default is volatile. */
static bool
is_in_batches(Expr *planned)
{
	return !contain_volatile_functions((Node *) planned);
}

/* Compute it for so many rows, by its plan, copied, and give the ids as text. */
static const char *
computed(Expr *planned, int rows)
{
	EState		  *estate = CreateExecutorState();
	ExprContext	  *context = GetPerTupleExprContext(estate);
	ExprState	  *state;
	StringInfoData ids;

	planned = stringToNode(nodeToString(copyObject(planned)));
	state = ExecInitExpr(planned, NULL);
	initStringInfo(&ids);
	for (int i = 0; i < rows; i++)
	{
		bool  is_null;
		Datum id = ExecEvalExprSwitchContext(state, context, &is_null);

		appendStringInfo(&ids, "%s%s", i ? " " : "",
						 is_null ?
							 "-" :
							 psprintf("%lld", (long long) DatumGetInt64(id)));
	}
	FreeExecutorState(estate);
	return ids.data;
}

static void
make_table(const char *expression)
{
	DO("CREATE TABLE t (id bigint DEFAULT %s, shard integer)", expression);
	mints = 0;
}

/* --- Cases -------------------------------------------------------------------------- */

static const struct
{
	const char *done; /* before */
	const char *expression;
	bool		is_batched; /* by COPY FROM */
	const char *ids;
} cases[] = {
	{"", "snowflake_nextval()", true, "1 2 3"},
	{"", "snowflake_nextval(7)", true, "701 702 703"},
	{"", "-snowflake_nextval()", true, "-1 -2 -3"},
	{"",
	 "snowflake_nextval(nullif(current_setting('max_connections'), "
	 "current_setting('max_connections'))::integer)",
	 true, "- - -"},
	{"ALTER FUNCTION snowflake_nextval(integer) CALLED ON NULL INPUT",
	 "snowflake_nextval(NULL) IS NULL AND snowflake_nextval(8) = 802", true,
	 "1 0 0"},
	{"", "snowflake_nextval((random() * 0)::integer)", false, "1 2 3"},
	{"ALTER FUNCTION snowflake_nextval() SET work_mem = '1MB'",
	 "snowflake_nextval()", false, "1 2 3"},
	{"ALTER FUNCTION snowflake_nextval() SECURITY DEFINER",
	 "snowflake_nextval()", false, "1 2 3"},
	{"CREATE OR REPLACE FUNCTION snowflake_nextval(shard integer) RETURNS "
	 "bigint LANGUAGE plpgsql STRICT VOLATILE SUPPORT "
	 "snowflake_nextval_support AS 'BEGIN RETURN 9; END'",
	 "snowflake_nextval(7)", false, "9 9 9"},
	{"DROP FUNCTION snowflake_copy_nextval(internal)", "snowflake_nextval()",
	 false, "1 2 3"},
	{"DROP FUNCTION snowflake_copy_nextval(internal)", "snowflake_nextval(7)",
	 true, "701 702 703"},
	{"REVOKE EXECUTE ON FUNCTION snowflake_copy_nextval(internal) FROM PUBLIC",
	 "snowflake_nextval()", false, "1 2 3"}};

static int case_number;

static void
try_case(void)
{
	const char *ids = cases[case_number].ids;

	if (cases[case_number].done[0] != '\0')
		DO("%s", cases[case_number].done);
	make_table(strstr(cases[case_number].expression, " AND ") ?
				   psprintf("(%s)::integer", cases[case_number].expression) :
				   cases[case_number].expression);
	for (int copies = 0; copies < 3; copies++)
	{
		bool  outer = copy_from_set(copies == 1);
		Expr *planned = planned_default();

		CHECK(!outer);
		CHECK(is_in_batches(planned) ==
			  (copies == 1 && cases[case_number].is_batched));

		/* the plan may outlive COPY */
		CHECK(copy_from_set(false) == (copies == 1));
		mints = 0;
		CHECK(strcmp(computed(planned, 3), ids) == 0);
	}
}

/* It is for COPY's defaults alone, which have no query around them. */
static void
try_queries(void)
{
	FuncExpr *call = makeFuncExpr(function_oid("()"), INT8OID, NIL, InvalidOid,
								  InvalidOid, COERCE_EXPLICIT_CALL);
	QualCost  cost;

	(void) copy_from_set(true);
	CHECK_ANSWER("Result   Output: snowflake_nextval()",
				 "EXPLAIN (VERBOSE, COSTS OFF) SELECT snowflake_nextval()");

	/* nor does it answer what else the planner asks */
	cost_qual_eval_node(&cost, (Node *) call, NULL);
	(void) copy_from_set(false);
	CHECK(cost.per_tuple > 0);
}

/* --- Rights ------------------------------------------------------------------------- */

static Expr *plan;
static int looks; /* of a hook, at an execution of snowflake_nextval(integer) */
static Oid looked_for;

static void
count_looks(ObjectAccessType access, Oid class, Oid object, int part,
			void *argument)
{
	if (access == OAT_FUNCTION_EXECUTE && object == looked_for)
		looks++;
}

static void
compute_plan(void)
{
	(void) computed(plan, 3);
}

/* Who may not call the function is told so, whenever that is found; so is a hook. */
static void
try_rights(void)
{
	static const char denied[] =
		"42501: permission denied for function snowflake_nextval";
	object_access_hook_type hook = object_access_hook;

	DO("CREATE ROLE reader");
	DO("GRANT USAGE ON SCHEMA s TO reader");
	make_table("snowflake_nextval(7)");
	looked_for = function_oid("(integer)");
	DO("REVOKE EXECUTE ON FUNCTION snowflake_nextval(integer) FROM PUBLIC");
	for (int i = 0; i < 4; i++)
	{
		bool may_plan = i & 1;
		bool may_call = i & 2;

		(void) copy_from_set(true);
		DO("SET LOCAL ROLE %s", may_plan ? "NONE" : "reader");
		plan = planned_default();
		CHECK(is_in_batches(plan) == may_plan);
		(void) copy_from_set(false);
		DO("SET LOCAL ROLE %s", may_call ? "NONE" : "reader");
		looks = 0;
		object_access_hook = count_looks;
		CHECK(strcmp(error_text(raised_by(compute_plan)),
					 may_call ? "" : denied) == 0);
		object_access_hook = hook;
		CHECK(looks == may_call);
		DO("RESET ROLE");
	}
}

/* --- The stand-in --------------------------------------------------------------------- */

/* What is behind its last argument is not its own. */
static void
try_stand_in(void)
{
	FmgrInfo flinfo = {.fn_mcxt = CurrentMemoryContext};
	LOCAL_FCINFO(call, 2);

	InitFunctionCallInfoData(*call, &flinfo, 1, InvalidOid, NULL, NULL);
	call->args[0].value = ObjectIdGetDatum(function_oid("()"));
	call->args[0].isnull = false;
	call->args[1].isnull = true;
	mints = 0;
	CHECK(DatumGetInt64(snowflake_copy_nextval(call)) == 1 && !call->isnull);
}

static void
try_copy(void)
{
	make_functions();
	for (case_number = 0; case_number < lengthof(cases); case_number++)
		and_undo(try_case);
	try_queries();
	try_rights();
	try_stand_in();
}

PG_FUNCTION_INFO_V1(copy_from_cases);
Datum
copy_from_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	try_by_sql(fcinfo->flinfo->fn_oid, try_copy);
	PG_RETURN_INT64(tried);
}
