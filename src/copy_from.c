/*-------------------------------------------------------------------------
 *
 * copy_from.c
 *	  COPY FROM inserts in batches where a default mints.
 *
 * If a default is volatile, COPY inserts row by row, because the default might
 * read the table, and miss the rows of its batch.  The server makes an exception
 * for its own nextval() alone.  Row by row takes 1.4 times as long, and writes up
 * to 3.5 times the WAL.  snowflake_nextval() cannot be STABLE: ALTER TABLE ... ADD
 * COLUMN would then mint one id for all rows.
 *
 * So there is a stand-in, snowflake_copy_nextval(), which is STABLE.  While the
 * server plans the defaults of a COPY FROM, the planner support function of
 * snowflake_nextval() puts the stand-in in its place, with the OID of the
 * original as an argument.
 *
 * The stand-in calls the original as the server would call it now: it checks
 * EXECUTE for the current user, and whatever was put on the original, or in its
 * place, takes effect.
 *
 * Invariants:
 *	- "copying" is true while the innermost utility statement in execution is
 *	  COPY FROM.  An ALTER TABLE in a trigger that COPY fires finds it false.
 *	- The stand-in is put only where the server would enter our C function
 *	  directly.  If the function has settings, is SECURITY DEFINER or was
 *	  replaced, COPY goes row by row.
 *	- It is put only if the current user may call both functions.
 *	- No SQL can call the stand-in, since no SQL has a value of type internal.
 *	- The stand-in can outlive COPY: the server keeps the plan of a domain's
 *	  constraint for the session.  That does no harm, because each query sets up
 *	  the calls of such a plan again, and so looks at the original again.
 *
 * "copying" is private to a process: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "copy_from.h"
#include "mint.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(snowflake_nextval_support);
PG_FUNCTION_INFO_V1(snowflake_copy_nextval);

static bool copying = false;

/* A utility statement begins, or goes on.  Gives what to go back to when it ends. */
bool
copy_from_set(bool is_copy_from)
{
	bool outer = copying;

	copying = is_copy_from;
	return outer;
}

/* Does a call of the function enter our C code, and nothing before it? */
static bool
is_ours(Oid function)
{
	FmgrInfo flinfo;

	fmgr_info(function, &flinfo);
	return flinfo.fn_addr == snowflake_nextval ||
		   flinfo.fn_addr == snowflake_nextval_shard;
}

/* The call that COPY makes in place of the given one; NULL for none. */
static Node *
call_of_copy(const FuncExpr *call)
{
	const Oid types[] = {INTERNALOID, INT4OID};
	Oid	   function = stand_in_function(call, "snowflake_copy_nextval", types,
										1 + list_length(call->args));
	Const *original;

	if (!OidIsValid(function) || !is_ours(call->funcid) ||
		function_aclcheck(call->funcid, GetUserId(), ACL_EXECUTE) !=
			ACLCHECK_OK)
		return NULL;
	original = makeConst(INTERNALOID, -1, InvalidOid, sizeof(Pointer),
						 ObjectIdGetDatum(call->funcid), false, true);
	return (Node *) makeFuncExpr(function, call->funcresulttype,
								 list_concat(list_make1(original), call->args),
								 call->funccollid, call->inputcollid,
								 COERCE_EXPLICIT_CALL);
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

/* Set up calls of a function, as the executor does once in each query. */
static FmgrInfo *
set_up_call(Oid function, MemoryContext context)
{
	AclResult allowed = function_aclcheck(function, GetUserId(), ACL_EXECUTE);
	FmgrInfo *flinfo;

	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
	flinfo = MemoryContextAlloc(context, sizeof(FmgrInfo));
	fmgr_info_cxt(function, flinfo, context);
	return flinfo;
}

/*
 * The stand-in, with and without a shard.  It is not strict: if the shard is NULL,
 * the original decides.
 */
Datum
snowflake_copy_nextval(PG_FUNCTION_ARGS)
{
	FmgrInfo *original = fcinfo->flinfo->fn_extra;
	Datum	  id;
	LOCAL_FCINFO(call, 1);

	if (original == NULL)
		fcinfo->flinfo->fn_extra = original =
			set_up_call(PG_GETARG_OID(0), fcinfo->flinfo->fn_mcxt);
	InitFunctionCallInfoData(*call, original, PG_NARGS() - 1,
							 PG_GET_COLLATION(), NULL, NULL);
	if (PG_NARGS() > 1)
	{
		if (PG_ARGISNULL(1) && original->fn_strict)
			PG_RETURN_NULL();
		call->args[0] = fcinfo->args[1];
	}
	id = FunctionCallInvoke(call);
	fcinfo->isnull = call->isnull;
	return id;
}
