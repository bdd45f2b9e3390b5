/* sql.h -- what functions of SQL share. See sql.c. */
#ifndef SNOWFLAKE_SQL_H
#define SNOWFLAKE_SQL_H

#include "funcapi.h"
#include "nodes/primnodes.h"

/* A row that is being filled, a column after the other. */
typedef struct Row
{
	int	  columns;
	Datum value[10];
	bool  is_null[10];
} Row;

static inline void
row_add(Row *row, Datum value, bool is_null)
{
	row->value[row->columns] = value;
	row->is_null[row->columns++] = is_null;
}

extern void row_add_text(Row *row, const char *text);

/* "types" are those of the columns that the caller fills. */
extern TupleDesc	  result_row(FunctionCallInfo fcinfo, const Oid *types,
								 int ntypes);
extern ReturnSetInfo *result_rows(FunctionCallInfo fcinfo, const Oid *types,
								  int ntypes);
extern Datum		  row_datum(TupleDesc type, Row *row);
extern void			  put_row(ReturnSetInfo *result, Row *row);

extern Oid stand_in_function(const FuncExpr *call, const char *name,
							 const Oid *types, int nargs);

#endif /* SNOWFLAKE_SQL_H */
