/*-------------------------------------------------------------------------
 *
 * decode_from.c
 *	  snowflake_decode() in FROM costs no more than the fields that a query reads.
 *
 * FROM ids, snowflake_decode(id) calls the function for each row, and stores each
 * result in a tuplestore of its own, which takes most of the time.  The server can
 * replace a call in FROM by the query of an SQL function, but only if that function
 * returns a set.  So there is a stand-in, snowflake_decode_row(), an SQL function
 * that returns a set of one row.  The support function replaces the call by the
 * stand-in, and the server replaces the stand-in by its query.  In the end the plan
 * calls snowflake_timestamp() and so on, for the columns that the query reads.
 *
 * Invariants:
 *	- The stand-in is put in FROM only.  Elsewhere a call that returns a set would
 *	  fail.  See is_from_item().
 *	- It is put only if each argument is a column or a constant: the query reads
 *	  them three times.
 *	- It is put only if the current user may call it.
 *	- If the server cannot put the query in its place, the stand-in returns the
 *	  same row, if slowly.
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"

#include "compat.h"
#include "stand_in.h"

PG_FUNCTION_INFO_V1(snowflake_decode_support);

static bool
has_simple_arguments(const FuncExpr *call)
{
	ListCell *cell;

	foreach (cell, call->args)
	{
		Node *argument = strip_implicit_coercions(lfirst(cell));

		if (!IsA(argument, Var) && !IsA(argument, Const))
			return false;
	}
	return true;
}

/*
 * Is this call an item of FROM?  The planner does not say so.  But it simplifies
 * the functions in FROM first, and looks for LATERAL items after that, before it
 * simplifies anything else.  An item with a column as its argument is LATERAL.
 * If all such functions have only columns and constants as arguments, none of
 * them has this call as an argument.
 */
static bool
is_from_item(const PlannerInfo *root, const FuncExpr *call)
{
	bool	  found = false;
	ListCell *item_cell;
	ListCell *cell;

	if (root == NULL || root->hasLateralRTEs || !has_simple_arguments(call))
		return false;
	foreach (item_cell, root->parse->rtable)
	{
		const RangeTblEntry *item = lfirst(item_cell);

		if (item->rtekind != RTE_FUNCTION || !item->lateral)
			continue;
		foreach (cell, item->functions)
		{
			const FuncExpr *function =
				(FuncExpr *) lfirst_node(RangeTblFunction, cell)->funcexpr;

			if (!IsA(function, FuncExpr) || !has_simple_arguments(function))
				return false;
			if (function->funcid == call->funcid &&
				equal(function->args, call->args))
				found = true;
		}
	}
	return found;
}

/* Planner support of snowflake_decode(), with and without a layout. */
Datum
snowflake_decode_support(PG_FUNCTION_ARGS)
{
	static const Oid		types[] = {INT8OID, TEXTOID};
	SupportRequestSimplify *request =
		(SupportRequestSimplify *) PG_GETARG_POINTER(0);
	FuncExpr *stand_in = NULL;

	if (IsA(request, SupportRequestSimplify) &&
		is_from_item(request->root, request->fcall))
	{
		FuncExpr *call = request->fcall;
		Oid function = stand_in_function(call, "snowflake_decode_row", types,
										 list_length(call->args));

		if (OidIsValid(function))
		{
			stand_in = makeFuncExpr(function, call->funcresulttype, call->args,
									call->funccollid, call->inputcollid,
									COERCE_EXPLICIT_CALL);
			stand_in->funcretset = true;
		}
	}
	PG_RETURN_POINTER(stand_in);
}
