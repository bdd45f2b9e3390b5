/* sql.h -- what functions of SQL share. See sql.c. */
#ifndef SNOWFLAKE_SQL_H
#define SNOWFLAKE_SQL_H

#include "funcapi.h"
#include "nodes/primnodes.h"

#define ROW_MAX_COLUMNS 12

/* A row that is being filled, a column after the other. */
typedef struct Row
{
	int	  columns;
	Datum value[ROW_MAX_COLUMNS];
	bool  is_null[ROW_MAX_COLUMNS];
} Row;

/* Add a value if it is known, else NULL. */
static inline void
row_add_if(Row *row, bool is_known, Datum value)
{
	row->value[row->columns] = value;
	row->is_null[row->columns++] = !is_known;
}

static inline void
row_add(Row *row, Datum value)
{
	row_add_if(row, true, value);
}

extern void row_add_text(Row *row, const char *text);
extern void row_add_time(Row *row, TimestampTz time);

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
