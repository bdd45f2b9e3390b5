/*-------------------------------------------------------------------------
 *
 * planner.h
 *	  What support functions put in the place of a call.  See planner.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_PLANNER_H
#define SNOWFLAKE_PLANNER_H

#include "nodes/primnodes.h"

extern Oid function_to_put(const FuncExpr *call, const char *name,
						   const Oid *types, int nargs);

#endif /* SNOWFLAKE_PLANNER_H */
