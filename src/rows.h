/* rows.h -- the rows that SQL functions return. See rows.c. */
#ifndef SNOWFLAKE_ROWS_H
#define SNOWFLAKE_ROWS_H

#include "funcapi.h"

/* "types" are those of the columns that the caller fills. */
extern TupleDesc	  result_row(FunctionCallInfo fcinfo, const Oid *types,
								 int ntypes);
extern ReturnSetInfo *result_rows(FunctionCallInfo fcinfo, const Oid *types,
								  int ntypes);

#endif /* SNOWFLAKE_ROWS_H */
