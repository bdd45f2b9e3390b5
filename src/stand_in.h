/*
 * stand_in.h -- what support functions put in the place of a call. See
 * stand_in.c.
 */
#ifndef SNOWFLAKE_STAND_IN_H
#define SNOWFLAKE_STAND_IN_H

#include "nodes/primnodes.h"

extern Oid stand_in_function(const FuncExpr *call, const char *name,
							 const Oid *types, int nargs);

#endif /* SNOWFLAKE_STAND_IN_H */
