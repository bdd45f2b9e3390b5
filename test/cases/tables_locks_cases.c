/*-------------------------------------------------------------------------
 *
 * tables_locks_cases.c
 *	  What tables.c does where the caller has no rights, where a table is locked, and where
 *	  it changes while a lock is taken.
 *
 * tables_locks_cases() compares with what the head of tables.c says, as tables_cases() does,
 * and returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "tables_system.h"

PG_MODULE_MAGIC;

/* --- Rights ------------------------------------------------------------------ */

static void
try_rights(void)
{
	static const char *const grants[] = {"SELECT (x)", "SELECT (id)",
										 "SELECT"};
	static const char *const security[] = {
		"DISABLE ROW LEVEL SECURITY",
		"ENABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY",
		"FORCE ROW LEVEL SECURITY"};

	DO("CREATE ROLE reader");
	DO("CREATE ROLE owner");
	DO("GRANT USAGE ON SCHEMA s TO reader, owner");
	DO("CREATE SCHEMA private");
	DO("CREATE TABLE private.t (id bigint, x integer)");
	DO("CREATE TABLE private.child () INHERITS (private.t)");
	DO("ALTER TABLE private.t OWNER TO owner");
	DO("INSERT INTO private.child VALUES (3, 3)");
	DO("CREATE INDEX ON private.t (id)");
	DO("CREATE INDEX ON private.child (id)");
	for (int i = 0; i < 2 * 3 * 3 * 2 * 2; i++)
	{
		bool		has_schema = i % 2;
		int			grant = i / 2 % 3;
		int			secure = i / 6 % 3;
		bool		is_off = i / 18 % 2;
		bool		is_owner = i / 36;
		bool		hides = secure == 2 || (secure == 1 && !is_owner);
		bool		may_select = is_owner || grant > 0;
		const char *why = !has_schema || !may_select ? "no privilege" :
						  hides						 ? "row security" :
													   NULL;
		const char *error =
			!has_schema ? "42501: permission denied for schema private" :
			!may_select ? "42501: permission denied for table t" :
			!hides		? "3|-|0" :
						  psprintf("42501: query would be affected by row-level "
										"security policy for table \"t\"%s",
							   is_owner && is_off ?
									   "; To disable the policy for the table's "
									   "owner, use ALTER TABLE NO FORCE ROW "
									   "LEVEL SECURITY." :
									   "");

		DO("%s USAGE ON SCHEMA private %s reader, owner",
		   has_schema ? "GRANT" : "REVOKE", has_schema ? "TO" : "FROM");
		DO("REVOKE ALL ON private.t FROM reader");
		DO("GRANT %s ON private.t TO reader", grants[grant]);
		DO("ALTER TABLE private.t %s", security[secure]);
		DO("SET LOCAL row_security = %s", is_off ? "off" : "on");
		for (int thorough = 0; thorough < 2; thorough++)
		{
			Oid t = oid_of("private.t");

			DO("SET LOCAL ROLE %s", is_owner ? "owner" : "reader");
			forget_locks();
			CHECK_ANSWER(thorough ? error :
						 why	  ? psprintf("-|{\"private.t (%s)\"}|0", why) :
									"3|-|0",
						 "SELECT * FROM snowflake_newest(%u, 'id', %s, 100)",
						 t, thorough ? "true" : "false");
			DO("RESET ROLE");
			if (!thorough)
				check_locks("private.t", false);
		}
	}
}

/* The caller needs the rights of each column that there is. */
static void
try_rights_of_marks(void)
{
	static const char *const columns[] = {"server", "mark", "came_by"};

	DO("CREATE ROLE reader");
	DO("GRANT USAGE ON SCHEMA s TO reader");
	DO("CREATE TABLE m (server text, mark bigint, came_by oid)");
	DO("INSERT INTO m VALUES ('a', 1, 2)");
	for (int i = 0; i < 8 + 4; i++)
	{
		if (i == 8)
			DO("ALTER TABLE m DROP COLUMN came_by");
		DO("REVOKE ALL ON m FROM reader");
		for (int column = 0; column < lengthof(columns); column++)
		{
			if (i >> column & 1)
				DO("GRANT SELECT (%s) ON m TO reader", columns[column]);
		}
		DO("SET LOCAL ROLE reader");
		CHECK_ANSWER(i == 7		? "a|1|2" :
					 i == 8 + 3 ? "a|1|-" :
								  "42501: permission denied for table m",
					 "SELECT * FROM snowflake_read_marks('m')");
		DO("RESET ROLE");
	}
	CHECK_ANSWER("42P01: relation with OID 4000000000 does not exist",
				 "SELECT * FROM snowflake_read_marks(4000000000)");
}

/* --- Locks ------------------------------------------------------------------- */

/* The first tables are locked for so long, and a call has so much patience. */
static void
try_wait(int count, int locked_ms, int patience_ms, bool thorough)
{
	int			   left = Min(patience_ms, 5000);
	int			   passed = 0;
	int			   fails_at = 0;
	StringInfoData unseen;

	initStringInfo(&unseen);
	for (int i = 1; i <= count && !fails_at; i++)
	{
		int most = Max(Min(left, 200), 0);
		int needed = Max((locked_ms - passed + 4) / 5 * 5, 0);

		if (locked_ms - passed > most)
			appendStringInfo(&unseen, "%s\"s.t%d (locked)\"",
							 unseen.len ? "," : "", i);
		if (locked_ms - passed > most && thorough)
			fails_at = i;
		passed += Min(needed, most);
		left -= Min(needed, most);
	}
	locked_until = locked_ms * 1000;
	locked_count = count;
	forget_locks();
	CHECK_ANSWER(
		fails_at ?
			psprintf(
				"55P03: could not obtain lock on table s.t%d; The call has "
				"waited for %d ms, of which at most 200 for this table.; "
				"Call it again when the table is not locked: SELECT pid, "
				"mode FROM pg_locks WHERE relation = "
				"'s.t%d'::regclass;",
				fails_at, passed, fails_at) :
			psprintf("-|%s|%d",
					 unseen.len ? psprintf("{%s}", unseen.data) : "-", passed),
		"SELECT * FROM snowflake_newest('t', 'id', %s, %d)",
		thorough ? "true" : "false", patience_ms);
	if (!fails_at)
		check_locks("t", thorough);
}

static void
try_waits(void)
{
	static const int counts[] = {1, 2, LOCKED_TABLES};
	static const int locked_ms[] = {0, 5, 6, 200, 201, 399, 6000};
	static const int patience_ms[] = {PG_INT32_MIN, -1,	 0,	  1,	7,
									  199,			200, 201, 5000, 5001,
									  PG_INT32_MAX};

	DO("CREATE TABLE t (x integer, id bigint) PARTITION BY LIST (x)");
	DO("CREATE INDEX ON t (id)");
	for (int i = 1; i <= LOCKED_TABLES; i++)
	{
		DO("CREATE TABLE t%d PARTITION OF t FOR VALUES IN (%d)", i, i);
		locked[i - 1] = oid_of(psprintf("t%d", i));
	}
	for (int i = 0; i < lengthof(counts) * lengthof(locked_ms) *
							lengthof(patience_ms) * 2;
		 i++)
	{
		int rest = i / 2;
		int count = counts[rest % lengthof(counts)];

		rest /= lengthof(counts);
		try_wait(count, locked_ms[rest % lengthof(locked_ms)],
				 patience_ms[rest / lengthof(locked_ms)], i % 2);
	}
}

/* An index that is locked is as one that is not there. */
static void
try_locked_index(void)
{
	DO("CREATE TABLE t (id bigint)");
	DO("INSERT INTO t VALUES (1), (2)");
	DO("CREATE INDEX i ON t (id)");
	locked[0] = oid_of("i");
	locked_count = 1;
	locked_until = PG_INT64_MAX;
	for (int i = 0; i < 2; i++)
	{
		forget_locks();
		CHECK_ANSWER(i ? "2|-|100" : "-|{\"s.t (no index)\"}|100",
					 "SELECT * FROM snowflake_newest('t', 'id', %s, 100)",
					 i ? "true" : "false");
		check_locks("t", i);
	}
	locked_count = 0;
}

/* --- What changes meanwhile -------------------------------------------------- */

/* What goes, or changes, while the call takes a lock on it. */
static void
try_lost(void)
{
	static const char gone[] = "4000000000";

	for (int i = 0; i < 2; i++)
	{
		DO("CREATE TABLE t (id bigint)");
		meanwhile = "DROP TABLE s.t";
		meanwhile_on = oid_of("t");
		forget_locks();
		CHECK_ANSWER(i ? psprintf("42P01: relation with OID %u does not exist",
								  meanwhile_on) :
						 "-|-|0",
					 "SELECT * FROM snowflake_newest('t', 'id', %s, 0)",
					 i ? "true" : "false");
		CHECK(given_back == 1);
	}
	DO("DROP TABLE t");
	locked[0] = strtoul(gone, NULL, 10);
	locked_count = 1;
	locked_until = PG_INT64_MAX;
	CHECK_ANSWER(psprintf("-|{\"%s (locked)\"}|0", gone),
				 "SELECT * FROM snowflake_newest(%s, 'id', false, 0)", gone);
	locked_count = 0;
	for (int i = 0; i < 4; i++)
	{
		DO("CREATE TABLE t (id bigint)");
		DO("CREATE TABLE child () INHERITS (t)");
		meanwhile = i < 2 ? "DROP TABLE s.child" :
							"ALTER TABLE s.t RENAME COLUMN id TO another";
		meanwhile_on = oid_of("child");
		forget_locks();
		CHECK_ANSWER(i == 0 ? "-|{\"s.t (no index)\"}|0" :
					 i == 1 ? "-|-|0" :
					 i == 2 ? "-|{\"s.t (no index)\",\"s.child (not a stored "
							  "integer)\"}|0" :
							  "-|{\"s.child (not a stored integer)\"}|0",
					 "SELECT * FROM snowflake_newest('t', 'id', %s, 0)",
					 i % 2 ? "true" : "false");
		CHECK(is_in(meanwhile_on, held, held_count) == (i == 3));
		DO("DROP TABLE t CASCADE");
	}
	CHECK_ANSWER("42703: column \"id\" of relation \"pg_class\" does not exist",
				 "SELECT * FROM snowflake_newest('pg_class', 'id', false, 0)");
}

/* What happens while the call takes a lock on "first". */
static const struct
{
	const char *meanwhile;
	bool		leads; /* then, the other index to the greatest id */
} happenings[] = {{"DROP INDEX s.first", true},
				  {"DROP INDEX s.first, s.second", false},
				  {"UPDATE pg_index SET indisvalid = false WHERE indexrelid = "
				   "'s.first'::regclass; DROP INDEX s.second",
				   false},
				  {"UPDATE pg_index SET indisvalid = false WHERE indexrelid = "
				   "'s.first'::regclass",
				   true},
				  {"SELECT 1", true}};

static int happening;

static void
try_happening(void)
{
	bool thorough = happening % 2;
	bool sees = thorough || happenings[happening / 2].leads;

	DO("CREATE TABLE t (id bigint)");
	DO("INSERT INTO t VALUES (1), (2)");
	DO("CREATE INDEX first ON t (id)");
	DO("CREATE INDEX second ON t (id DESC)");
	meanwhile = happenings[happening / 2].meanwhile;
	meanwhile_on = oid_of("first");
	forget_locks();
	CHECK_ANSWER(sees ? "2|-|0" : "-|{\"s.t (no index)\"}|0",
				 "SELECT * FROM snowflake_newest('t', 'id', %s, 100)",
				 thorough ? "true" : "false");
	CHECK(meanwhile == NULL);

	/* an index that is gone is not locked: it has two locks on the table, and one more */
	if (strstr(happenings[happening / 2].meanwhile, "s.second") != NULL)
		CHECK(held_count == 3);
	if (!thorough)
		check_locks("t", false);
	else if (happening / 2 < lengthof(happenings) - 1)
		CHECK(!is_in(meanwhile_on, held, held_count));
}

static void
try_tables(void)
{
	and_undo(try_rights);
	and_undo(try_rights_of_marks);
	and_undo(try_waits);
	and_undo(try_locked_index);
	and_undo(try_lost);
	for (happening = 0; happening < lengthof(happenings) * 2; happening++)
		and_undo(try_happening);
}

PG_FUNCTION_INFO_V1(tables_locks_cases);
Datum
tables_locks_cases(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(try_functions(fcinfo->flinfo->fn_oid, try_tables));
}
