/*-------------------------------------------------------------------------
 *
 * sql_cases.c
 *	  The rows of functions of SQL, and the functions that stand in for others.
 *
 * sql_cases() asks sql.c for the rows of functions, which declare the columns that are
 * filled or others.  It fills some and reads them again, and it looks for functions
 * that not everybody may execute.  It returns how many outcomes it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/regproc.h"
#include "utils/timestamp.h"

#include "cases.h"

PG_MODULE_MAGIC;

#include "../../src/sql.c"

/* --- Functions of SQL -------------------------------------------------------- */

static void
run(const char *sql)
{
	if (SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "%s", sql);
}

/* They are in a schema of their own; nobody calls them. */
static Oid
function_of(const char *name, const char *arguments, const char *result)
{
	run(psprintf("CREATE OR REPLACE FUNCTION %s(%s) %s "
				 "LANGUAGE internal AS 'now'",
				 name, arguments, result));
	return DatumGetObjectId(DirectFunctionCall1(
		regprocedurein,
		CStringGetDatum(psprintf("%s(%s)", name, result[0] ? arguments : ""))));
}

/* A call of a function, which asks for the row that it is to fill. */
static FmgrInfo		 called;
static ReturnSetInfo to_fill;
static const Oid	*types;
static int			 ntypes;
static TupleDesc	 row_type;

static void
begin_call(Oid function)
{
	fmgr_info(function, &called);
	to_fill = (ReturnSetInfo){.type = T_ReturnSetInfo,
							  .econtext = CreateStandaloneExprContext(),
							  .allowedModes = SFRM_Materialize};
}

static void
ask_row(void)
{
	LOCAL_FCINFO(fcinfo, 1);

	InitFunctionCallInfoData(*fcinfo, &called, 0, InvalidOid, NULL, NULL);
	row_type = result_row(fcinfo, types, ntypes);
}

static void
ask_rows(void)
{
	LOCAL_FCINFO(fcinfo, 1);

	InitFunctionCallInfoData(*fcinfo, &called, 0, InvalidOid, NULL,
							 (Node *) &to_fill);
	CHECK(result_rows(fcinfo, types, ntypes) == &to_fill);
}

/* --- Columns ------------------------------------------------------------------ */

/* Types, as they are declared and as they are filled. */
static const struct
{
	const char *declared;
	Oid			filled;
} kinds[] = {{"bigint", INT8OID}, {"text", TEXTOID}, {"integer", INT4OID}};

#define MOST_COLUMNS 3

/* All lists of up to three types. */
#define LISTS (3 + 9 + 27)

typedef struct Columns
{
	int count;
	int kind[MOST_COLUMNS];
} Columns;

static Columns
columns_of(int list)
{
	Columns columns = {1};
	int		lists = lengthof(kinds);

	for (; list >= lists; lists *= lengthof(kinds))
	{
		list -= lists;
		columns.count++;
	}
	for (int i = 0; i < columns.count; i++, list /= lengthof(kinds))
		columns.kind[i] = list % lengthof(kinds);
	return columns;
}

/* The first thing that differs; NULL: nothing. */
static const char *
difference(Columns declared, Columns filled)
{
	if (declared.count != filled.count)
		return psprintf("It is declared with %d columns, and the library "
						"returns %d.",
						declared.count, filled.count);
	for (int i = 0; i < filled.count; i++)
		if (declared.kind[i] != filled.kind[i])
			return psprintf("Column %d is declared as %s, and the library "
							"returns %s.",
							i + 1, kinds[declared.kind[i]].declared,
							kinds[filled.kind[i]].declared);
	return NULL;
}

static void
try_answer(void (*ask)(void), const char *name, const char *detail)
{
	ErrorData *error = raised_by(ask);

	CHECK((error == NULL) == (detail == NULL));
	if (error == NULL)
		return;
	CHECK(error->sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
	CHECK(strcmp(error->message,
				 psprintf("function \"%s\" and the library are of different "
						  "versions of snowflake",
						  name)) == 0);
	CHECK(strcmp(error->detail, detail) == 0);
	CHECK(strcmp(error->hint,
				 "Restart the server, so that it loads the library that is "
				 "installed, and then run ALTER EXTENSION snowflake "
				 "UPDATE.") == 0);
}

/* Both one row and many are refused if something differs. */
static void
try_row(const char *name, const Oid *filled, int count, const char *detail)
{
	types = filled;
	ntypes = count;
	try_answer(ask_row, name, detail);
	try_answer(ask_rows, name, detail);
}

static void
try_lists(int list)
{
	Columns		declared = columns_of(list);
	const char *name = psprintf("f%d", list);
	const char *arguments = "";

	for (int i = 0; i < declared.count; i++)
		arguments = psprintf("%s%sOUT %s", arguments, i > 0 ? ", " : "",
							 kinds[declared.kind[i]].declared);
	begin_call(function_of(psprintf("sql_cases.%s", name), arguments, ""));
	snprintf(what_is_tried, sizeof(what_is_tried), "%s", arguments);
	for (int other = 0; other < LISTS; other++)
	{
		Columns filled = columns_of(other);
		Oid		filled_types[MOST_COLUMNS + 1];

		for (int i = 0; i <= MOST_COLUMNS; i++)
			filled_types[i] =
				i < filled.count ? kinds[filled.kind[i]].filled : BOOLOID;
		if (declared.count == 1)
			CHECK(strcmp(message_of(ask_row),
						 "return type must be a row type") == 0);
		else
			try_row(name, filled_types, filled.count,
					difference(declared, filled));
	}
}

/* A type may be declared whose values are those of the type that is filled. */
static void
try_types(void)
{
	static const Oid filled[] = {INT8OID, TEXTOID, OIDOID, INT4OID};
	const char		*arguments = "OUT sql_cases.id, OUT varchar, OUT integer";

	begin_call(function_of("sql_cases.same", arguments, ""));
	try_row("same", filled, 3, NULL);
	begin_call(function_of("sql_cases.other",
						   psprintf("%s, OUT oid", arguments), ""));
	try_row("other", filled, 4,
			"Column 4 is declared as oid, and the library returns integer.");
}

/* --- Values ------------------------------------------------------------------- */

static const Oid value_types[] = {INT8OID, TEXTOID, TIMESTAMPTZOID};

static const struct
{
	int64		number;
	const char *text; /* NULL is NULL */
	TimestampTz time; /* and so is an infinite time */
} values[] = {{1, "a text", 5},
			  {PG_INT64_MIN, "", DT_NOBEGIN},
			  {0, NULL, DT_NOEND},
			  {PG_INT64_MAX, "another", 0}};

static void
add_values(Row *row, int i)
{
	row_add(row, Int64GetDatum(values[i].number));
	row_add_text(row, values[i].text);
	row_add_time(row, values[i].time);
}

static void
try_values(int i, const Datum *value, const bool *is_null)
{
	snprintf(what_is_tried, sizeof(what_is_tried), "values %d", i);
	CHECK(!is_null[0] && DatumGetInt64(value[0]) == values[i].number);
	CHECK(is_null[1] == (values[i].text == NULL));
	CHECK(is_null[1] ||
		  strcmp(TextDatumGetCString(value[1]), values[i].text) == 0);
	CHECK(is_null[2] == TIMESTAMP_NOT_FINITE(values[i].time));
	CHECK(is_null[2] || DatumGetTimestampTz(value[2]) == values[i].time);
}

/* The one row of a function, as the server takes it apart. */
static void
try_one_row(void)
{
	for (int i = 0; i < lengthof(values); i++)
	{
		Row				row = {0};
		Datum			value[lengthof(value_types)];
		bool			is_null[lengthof(value_types)];
		HeapTupleHeader header;

		ask_row();
		add_values(&row, i);
		header = DatumGetHeapTupleHeader(row_datum(row_type, &row));
		for (int column = 0; column < lengthof(value_types); column++)
			value[column] =
				GetAttributeByNum(header, column + 1, &is_null[column]);
		try_values(i, value, is_null);
	}
}

/* Many rows: each begins where the one before it has been put. */
static void
try_rows(void)
{
	Row				row = {0};
	TupleTableSlot *slot;

	ask_rows();
	slot = MakeSingleTupleTableSlot(to_fill.setDesc, &TTSOpsMinimalTuple);
	for (int i = 0; i < lengthof(values); i++)
	{
		add_values(&row, i);
		put_row(&to_fill, &row);
		CHECK(row.columns == 0);
	}
	for (int i = 0; i < lengthof(values); i++)
	{
		CHECK(tuplestore_gettupleslot(to_fill.setResult, true, false, slot));
		slot_getallattrs(slot);
		try_values(i, slot->tts_values, slot->tts_isnull);
	}
	CHECK(!tuplestore_gettupleslot(to_fill.setResult, true, false, slot));
	ExecDropSingleTupleTableSlot(slot);
}

/* --- Functions that stand in for others ------------------------------------------ */

/* The one of the call's schema, with these arguments, that everybody may execute. */
static void
try_stand_ins(void)
{
	const Oid	   of_time[] = {TIMESTAMPTZOID, INT8OID};
	const Oid	   of_id[] = {INT8OID};
	const FuncExpr call = {
		.funcid = function_of("sql_cases.called", "text", "RETURNS bigint")};
	Oid on_time = function_of("sql_cases.bound", "timestamptz, bigint",
							  "RETURNS bigint");
	Oid on_id = function_of("sql_cases.bound", "bigint", "RETURNS bigint");

	function_of("pg_temp.bound", "timestamptz", "RETURNS bigint");
	function_of("pg_temp.elsewhere", "bigint", "RETURNS bigint");
	CHECK(stand_in_function(&call, "bound", of_time, 2) == on_time);
	CHECK(stand_in_function(&call, "bound", of_id, 1) == on_id);
	CHECK(stand_in_function(&call, "bound", of_time, 1) == InvalidOid);
	CHECK(stand_in_function(&call, "elsewhere", of_id, 1) == InvalidOid);
	run("REVOKE EXECUTE ON FUNCTION sql_cases.bound(bigint) FROM PUBLIC");
	run("GRANT EXECUTE ON FUNCTION sql_cases.bound(bigint) TO CURRENT_USER");
	CHECK(stand_in_function(&call, "bound", of_id, 1) == InvalidOid);
	CHECK(stand_in_function(&call, "bound", of_time, 2) == on_time);
	run("REVOKE USAGE ON SCHEMA sql_cases FROM PUBLIC");
	run("GRANT EXECUTE ON FUNCTION sql_cases.bound(bigint) TO PUBLIC");
	CHECK(stand_in_function(&call, "bound", of_id, 1) == on_id);
}

PG_FUNCTION_INFO_V1(sql_cases);
Datum
sql_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	SPI_connect();
	run("CREATE SCHEMA sql_cases");
	run("CREATE DOMAIN sql_cases.id AS bigint");
	for (int list = 0; list < LISTS; list++)
		try_lists(list);
	try_types();
	begin_call(function_of("sql_cases.filled",
						   "OUT a bigint, OUT b text, OUT c timestamptz", ""));
	types = value_types;
	ntypes = lengthof(value_types);
	try_one_row();
	try_rows();
	try_stand_ins();
	run("DROP SCHEMA sql_cases CASCADE");
	SPI_finish();
	PG_RETURN_INT64(tried);
}
