/*-------------------------------------------------------------------------
 *
 * copy.c
 *	  COPY FROM in batches, with a default that mints.
 *
 * COPY inserts a batch of rows at a time, unless a default expression is
 * volatile: it might look at the table, and not see the rows of its batch.
 * The server knows that its own nextval() does not; ours does not either, but
 * there is no way to tell it so.  Nor can snowflake_nextval() be declared
 * STABLE: ALTER TABLE ... ADD COLUMN would call it once for all rows.
 *
 * So there is a second function, snowflake_copy_nextval(), which mints as the
 * first one does and is STABLE.  COPY plans its defaults; the planner support
 * function of snowflake_nextval() puts a call of the second one in the place of
 * the first one's then, and at no other time.
 *
 * Invariants:
 *	- "copying" is true while the utility statement that is executed, the
 *	  innermost one if they are nested, is COPY FROM.  An ALTER TABLE in a
 *	  trigger that COPY fires finds it false.
 *	- Only a call that was put there can be executed; it is known by a location
 *	  that no text has.  So the second function is of no use as a default.
 *	- It is put only where the user may call either function.
 *	- What else is planned during COPY without a query, the constraints of
 *	  domains, gets it as well, and is kept for the session.  That does no harm:
 *	  no domain is checked once for many rows.
 *
 * "copying" is private to a process: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/supportnodes.h"
#include "tcop/utility.h"
#include "utils/acl.h"

#include "compat.h"
#include "copy.h"
#include "generator.h"
#include "planner.h"

/* The location of a call that was put in the place of another. */
#define PUT_BY_US (-2)

PG_FUNCTION_INFO_V1(snowflake_nextval_support);
PG_FUNCTION_INFO_V1(snowflake_copy_nextval);
PG_FUNCTION_INFO_V1(snowflake_copy_nextval_shard);

static ProcessUtility_hook_type prev_process_utility = NULL;
static bool						copying = false;

static bool
is_copy_from(const PlannedStmt *statement)
{
	return IsA(statement->utilityStmt, CopyStmt) &&
		   ((const CopyStmt *) statement->utilityStmt)->is_from;
}

/* Execute a utility statement, and know meanwhile whether it is COPY FROM. */
static void
process_utility(PlannedStmt *statement, const char *text, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *destination,
				QueryCompletion *completion)
{
	bool outer = copying;

	copying = is_copy_from(statement);
	PG_TRY();
	{
		prev_process_utility(statement, text, read_only_tree, context, params,
							 environment, destination, completion);
	}
	PG_FINALLY();
	{
		copying = outer;
	}
	PG_END_TRY();
}

void
copy_install_hook(void)
{
	prev_process_utility =
		ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
}

/* The call that COPY makes in place of the given one; NULL for none. */
static Node *
call_of_copy(const FuncExpr *call)
{
	const Oid type = INT4OID; /* of the argument, if there is one */
	FuncExpr *replacement;
	Oid		  function = function_to_put(call, "snowflake_copy_nextval", &type,
										 list_length(call->args));

	if (!OidIsValid(function) || function_aclcheck(call->funcid, GetUserId(),
												   ACL_EXECUTE) != ACLCHECK_OK)
		return NULL;
	replacement = copyObject((FuncExpr *) call);
	replacement->funcid = function;
	replacement->location = PUT_BY_US;
	return (Node *) replacement;
}

/* Planner support of snowflake_nextval(), with and without an argument. */
Datum
snowflake_nextval_support(PG_FUNCTION_ARGS)
{
	Node *request = (Node *) PG_GETARG_POINTER(0);
	Node *replacement = NULL;

	/* COPY's defaults have no query around them */
	if (IsA(request, SupportRequestSimplify) && copying &&
		((SupportRequestSimplify *) request)->root == NULL)
		replacement =
			call_of_copy(((SupportRequestSimplify *) request)->fcall);
	PG_RETURN_POINTER(replacement);
}

static void
insist_on_put(FunctionCallInfo fcinfo)
{
	Node *call = fcinfo->flinfo->fn_expr;

	if (call == NULL || !IsA(call, FuncExpr) ||
		((FuncExpr *) call)->location != PUT_BY_US)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("snowflake_copy_nextval can be called by COPY alone"),
				 errhint("Call snowflake_nextval instead.")));
}

Datum
snowflake_copy_nextval(PG_FUNCTION_ARGS)
{
	insist_on_put(fcinfo);
	return snowflake_nextval(fcinfo);
}

Datum
snowflake_copy_nextval_shard(PG_FUNCTION_ARGS)
{
	insist_on_put(fcinfo);
	return snowflake_nextval_shard(fcinfo);
}
