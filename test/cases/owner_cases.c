/*-------------------------------------------------------------------------
 *
 * owner_cases.c
 *	  Statements and views that run as the owner, for all kinds of callers.
 *
 * owner_cases() calls the functions of owner.c by SQL, with roles of our own, and compares
 * what runs, as whom, and what is left of it with what the head of owner.c says.  It returns
 * how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "sql_calls.h"

PG_MODULE_MAGIC;

/* A value so long has memory of its own; what SPI has freed is somebody else's at once. */
#define LONG_VALUE 300000

static int
our_finish(void)
{
	int code = SPI_finish();

	for (int i = 0; i < 3; i++)
		memset(palloc(LONG_VALUE + VARHDRSZ), '#', LONG_VALUE + VARHDRSZ);
	return code;
}

#define SPI_finish() our_finish()

#include "../../src/owner.c"

#define NO_ROLE 4000000000

/* Roles, and whether they can become the owner, who is no superuser. */
static const struct
{
	const char *name;
	bool		may;
	const char *hint; /* what else they need */
} callers[] = {{"root", true, NULL},
			   {"\"the Owner\"", true, NULL},
			   {"member", true, NULL},
			   {"stranger", false, "GRANT \"the Owner\" TO stranger;"},
			   {"\"member without rights\"", false,
				"GRANT \"the Owner\" TO \"member without rights\";"}};

static void
make_roles(void)
{
	DO("CREATE ROLE root SUPERUSER");
	DO("CREATE ROLE \"the Owner\"");
	DO("CREATE ROLE member IN ROLE \"the Owner\"");
	DO("CREATE ROLE stranger");
	DO("CREATE ROLE \"member without rights\" NOINHERIT IN ROLE \"the Owner\"");
	DO("GRANT USAGE, CREATE ON SCHEMA s TO PUBLIC");
	DO("CREATE FUNCTION snowflake_run_as_owner(relation regclass, statement "
	   "text) RETURNS text LANGUAGE c STRICT AS '%s'",
	   library);
	DO("CREATE FUNCTION snowflake_read_view(view regclass, column_name name) "
	   "RETURNS SETOF bigint LANGUAGE c STRICT AS '%s'",
	   library);
	DO("CREATE TABLE t (id bigint, who text DEFAULT current_user)");
	DO("CREATE TABLE \"of root\" ()");
	DO("CREATE VIEW \"a View\" AS SELECT CASE WHEN current_user = 'the Owner' "
	   "AND current_setting('search_path') = 'pg_catalog, pg_temp' THEN i END "
	   "AS \"Id\", i > 1 AS is_not, NULL::integer AS nothing FROM "
	   "generate_series(1, 3) i");
	DO("ALTER TABLE t OWNER TO \"the Owner\"");
	DO("ALTER VIEW \"a View\" OWNER TO \"the Owner\"");
	DO("ALTER TABLE \"of root\" OWNER TO root");
}

/* The error of a caller who cannot become the owner. */
static const char *
refused(int caller, const char *relation)
{
	return psprintf("42501: must be able to SET ROLE \"the Owner\"; Role \"the "
					"Owner\" owns \"%s\", and the statement runs as the "
					"owner.; %s",
					relation, callers[caller].hint);
}

/* A call gives this, and leaves the session as it was. */
static void
check_call(const char *caller, const char *expected, const char *call)
{
	static const char settings[] =
		"SELECT current_user, current_setting('search_path'), "
		"current_setting('work_mem')";
	const char *before;

	DO("SET LOCAL ROLE %s", caller);
	before = answer_to("%s", settings);
	CHECK_ANSWER(expected, "%s", call);
	CHECK_ANSWER(before, "%s", settings);
	CHECK(!InSecurityRestrictedOperation());
	DO("RESET ROLE");
}

/* --- Statements ----------------------------------------------------------------- */

/* What a statement gives: its first value, if it has one. */
static const struct
{
	const char *statement;
	const char *expected;
} statements[] = {
	{"SELECT current_user", "the Owner"},
	{"SHOW search_path", "pg_catalog, pg_temp"},
	{"SELECT 7, 8", "7"},
	{"SELECT i FROM pg_catalog.generate_series(3, 9) i", "3"},
	{"SELECT 1 WHERE false", "-"},
	{"SELECT NULL", "-"},
	{"INSERT INTO s.t VALUES (1), (2)", "-"},
	{"INSERT INTO s.t VALUES (1), (2) RETURNING who", "the Owner"},
	{"UPDATE s.t SET id = 1 WHERE false RETURNING id", "-"},
	{"SET work_mem = ''123kB''", "-"},
	{"SET search_path = s", "-"},
	{"ALTER TABLE s.t ADD COLUMN more text", "-"},
	{"SELECT 1 / 0", "22012: division by zero"},
	{"BEGIN",
	 "XX000: could not run a statement as the owner: SPI_ERROR_TRANSACTION"},
	{"COPY s.t FROM STDIN",
	 "XX000: could not run a statement as the owner: SPI_ERROR_COPY"}};

static void
try_statements(void)
{
	for (int i = 0; i < lengthof(callers) * lengthof(statements); i++)
	{
		int caller = i % lengthof(callers);
		int statement = i / lengthof(callers);

		if (statement == 11 && caller > 0)
			continue; /* it has the column */
		check_call(callers[caller].name,
				   callers[caller].may ? statements[statement].expected :
										 refused(caller, "t"),
				   psprintf("SELECT snowflake_run_as_owner('t', '%s')",
							statements[statement].statement));
	}
	CHECK_ANSWER("t",
				 "SELECT snowflake_run_as_owner('t', 'SELECT "
				 "repeat(''x'', %d)') = repeat('x', %d)",
				 LONG_VALUE, LONG_VALUE);
	check_call("member",
			   "42501: must be able to SET ROLE \"root\"; Role \"root\" owns "
			   "\"of root\", and the statement runs as the owner.; Let a "
			   "superuser call it.",
			   "SELECT snowflake_run_as_owner('\"of root\"', 'SELECT 1')");
	check_call("member", "42P01: relation with OID 4000000000 does not exist",
			   "SELECT snowflake_run_as_owner(4000000000, 'SELECT 1')");
}

/* The owner's code leaves nothing for later, unless the owner calls. */
static void
try_restricted(void)
{
	for (int i = 0; i < 3; i++)
		check_call(callers[i].name,
				   i == 1 ? "-" :
							"42501: cannot create temporary table within "
							"security-restricted operation",
				   "SELECT snowflake_run_as_owner('t', 'CREATE TEMPORARY TABLE "
				   "later ()')");
}

/* --- Views ---------------------------------------------------------------------- */

static void
try_views(void)
{
	for (int i = 0; i < lengthof(callers); i++)
	{
		const char *error = refused(i, "a View");

		check_call(callers[i].name, callers[i].may ? "1 2 3" : error,
				   "SELECT * FROM snowflake_read_view('\"a View\"', 'Id')");
		check_call(callers[i].name, callers[i].may ? "- - -" : error,
				   "SELECT * FROM snowflake_read_view('\"a View\"', "
				   "'nothing')");
		check_call(callers[i].name,
				   callers[i].may ?
					   "42846: cannot cast type boolean to bigint" :
					   error,
				   "SELECT * FROM snowflake_read_view('\"a View\"', 'is_not')");
		check_call(callers[i].name,
				   callers[i].may ? "42809: \"t\" is not a view" :
									refused(i, "t"),
				   "SELECT * FROM snowflake_read_view('t', 'id')");
	}
	check_call("member", "42P01: relation with OID 4000000000 does not exist",
			   "SELECT * FROM snowflake_read_view(4000000000, 'id')");
}

/* --- Roles that are gone ------------------------------------------------------------ */

static void
try_gone(void)
{
	Oid user;
	int context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(NO_ROLE, context);
	CHECK_ANSWER("42704: invalid role OID: 4000000000",
				 "SELECT s.snowflake_run_as_owner('s.t', 'SELECT 1')");
	SetUserIdAndSecContext(user, context);
	DO("UPDATE pg_class SET relowner = 4000000000 WHERE oid = 't'::regclass");
	check_call("member", "42704: invalid role OID: 4000000000",
			   "SELECT snowflake_run_as_owner('t', 'SELECT 1')");
}

static void
try_owners(void)
{
	make_roles();
	try_statements();
	try_restricted();
	try_views();
	try_gone();
}

PG_FUNCTION_INFO_V1(owner_cases);
Datum
owner_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	try_by_sql(fcinfo->flinfo->fn_oid, try_owners);
	PG_RETURN_INT64(tried);
}
