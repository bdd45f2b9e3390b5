/*-------------------------------------------------------------------------
 *
 * sql.c
 *	  What functions of SQL share: the rows that they return, and the calls that
 *	  planner support functions put in the place of ours.
 *
 * SQL and library may be of different versions: the library changes with the
 * package and a restart, the SQL with ALTER EXTENSION.  Then the server would
 * read a value that has another type than its column, or is missing.  So the
 * columns are compared before a row is filled.  (If the library lacks a function,
 * the server's own error says so.)
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc_d.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "sql.h"

/*
 * Does the SQL declare the columns that the library fills?  A column of type
 * snowflake is filled with a bigint.
 */
static void
check_row(FunctionCallInfo fcinfo, TupleDesc row, const Oid *types, int ntypes)
{
	char *detail = NULL;

	if (row->natts != ntypes)
		detail = psprintf("It is declared with %d columns, and the library "
						  "returns %d.",
						  row->natts, ntypes);
	for (int i = 0; i < ntypes && detail == NULL; i++)
	{
		Oid type = TupleDescAttr(row, i)->atttypid;

		if (!IsBinaryCoercible(type, types[i]))
			detail = psprintf("Column %d is declared as %s, and the library "
							  "returns %s.",
							  i + 1, format_type_be(type),
							  format_type_be(types[i]));
	}
	if (detail == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("function \"%s\" and the library are of different "
					"versions of snowflake",
					get_func_name(fcinfo->flinfo->fn_oid)),
			 errdetail_internal("%s", detail),
			 errhint("Restart the server, so that it loads the library that "
					 "is installed, and then run ALTER EXTENSION snowflake "
					 "UPDATE.")));
}

/* The type of the one row that a function returns. */
TupleDesc
result_row(FunctionCallInfo fcinfo, const Oid *types, int ntypes)
{
	TupleDesc row;

	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check_row(fcinfo, row, types, ntypes);
	return BlessTupleDesc(row);
}

/* Where a function that returns a set of rows is to put them. */
ReturnSetInfo *
result_rows(FunctionCallInfo fcinfo, const Oid *types, int ntypes)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	check_row(fcinfo, result->setDesc, types, ntypes);
	return result;
}

/* NULL if the time is infinite, as one is that nobody knows. */
void
row_add_time(Row *row, TimestampTz time)
{
	row_add_if(row, !TIMESTAMP_NOT_FINITE(time), TimestampTzGetDatum(time));
}

/* NULL stands for itself. */
void
row_add_text(Row *row, const char *text)
{
	row_add_if(row, text != NULL,
			   text == NULL ? (Datum) 0 : CStringGetTextDatum(text));
}

/* The value of a function that returns one row. */
Datum
row_datum(TupleDesc type, Row *row)
{
	Assert(row->columns == type->natts);
	return HeapTupleGetDatum(heap_form_tuple(type, row->value, row->is_null));
}

/* A row of a function that returns a set; then the next one is begun. */
void
put_row(ReturnSetInfo *result, Row *row)
{
	Assert(row->columns == result->setDesc->natts);
	tuplestore_putvalues(result->setResult, result->setDesc, row->value,
						 row->is_null);
	row->columns = 0;
}

/*
 * The function of ours to put in the place of a call: of the same schema, and
 * none unless everybody may execute it.  A plan may outlive the user that it was
 * made for; a REVOKE from PUBLIC ends the plan.  No user needs USAGE of the schema,
 * which is about names: a stored expression has none in it.
 */
Oid
stand_in_function(const FuncExpr *call, const char *name, const Oid *types,
				  int nargs)
{
	Oid function =
		GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						CStringGetDatum(name),
						PointerGetDatum(buildoidvector(types, nargs)),
						ObjectIdGetDatum(get_func_namespace(call->funcid)));

	if (!OidIsValid(function) ||
		function_aclcheck(function, ACL_ID_PUBLIC, ACL_EXECUTE) != ACLCHECK_OK)
		return InvalidOid;
	return function;
}
