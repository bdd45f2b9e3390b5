/*-------------------------------------------------------------------------
 *
 * tables_cases.c
 *	  What tables.c sees of users' tables, of all kinds and in all states.
 *
 * tables_cases() makes tables, calls the functions of tables.c by SQL, and compares what
 * they give with what the head of tables.c says, and plain SQL.  It returns how many
 * conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "tables_system.h"

PG_MODULE_MAGIC;

/* --- The greatest id ---------------------------------------------------------- */

/* snowflake_newest() gives these: the id, and the parts that it did not see. */
static void
check_newest(const char *table, const char *column, bool thorough,
			 const char *newest, const char *unseen)
{
	forget_locks();
	CHECK_ANSWER(psprintf("%s|%s|0", newest, unseen),
				 "SELECT * FROM snowflake_newest('%s', '%s', %s, 100)", table,
				 column, thorough ? "true" : "false");
	check_locks(table, thorough);
}

static const struct
{
	const char *name;
	int			width;
} types[] = {{"smallint", 2}, {"integer", 4}, {"bigint", 8}, {"small", 2},
			 {"middle", 4},	  {"large", 8},	  {"own", 8}};

/* Types that are integers below. */
static void
make_types(void)
{
	DO("CREATE DOMAIN small AS smallint");
	DO("CREATE DOMAIN half AS integer");
	DO("CREATE DOMAIN middle AS half");
	DO("CREATE DOMAIN large AS bigint");
	DO("CREATE TYPE own");
	DO("CREATE FUNCTION own_in(cstring) RETURNS own LANGUAGE internal "
	   "IMMUTABLE STRICT AS 'int8in'");
	DO("CREATE FUNCTION own_out(own) RETURNS cstring LANGUAGE internal "
	   "IMMUTABLE STRICT AS 'int8out'");
	DO("CREATE TYPE own (INPUT = own_in, OUTPUT = own_out, LIKE = bigint)");
	DO("CREATE CAST (own AS bigint) WITHOUT FUNCTION AS IMPLICIT");
	DO("CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler");
	DO("CREATE OPERATOR CLASS alike FOR TYPE bigint USING btree AS OPERATOR "
	   "1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, "
	   "FUNCTION 1 btint8cmp(bigint, bigint)");
}

static const struct
{
	const char *definition; /* of an index */
	bool		leads;		/* to the greatest id */
} indexes[] = {{NULL, false},
			   {"(id)", true},
			   {"(id DESC)", true},
			   {"(id NULLS FIRST)", true},
			   {"(id DESC NULLS LAST)", true},
			   {"(id, x)", true},
			   {"(x, id)", false},
			   {"(id) INCLUDE (x)", true},
			   {"(id) WHERE x > 0", false},
			   {"((x + 1), id)", false},
			   {"USING hash (id)", false},
			   {"USING brin (id)", false},
			   {"(id alike)", false}};

/* What happens to a table; "%s" is the greatest id of its type. */
static const char *const steps[] = {
	"",
	"INSERT INTO t VALUES (1, NULL), (2, NULL)",
	"INSERT INTO t VALUES (1, '-5'), (1, '-7'), (2, '-6')",
	"INSERT INTO t VALUES (9, '3'), (5, '%s'), (-7, '12')",
	"UPDATE t SET id = NULL WHERE id::text = '%s'",
	"DELETE FROM t WHERE id::text = '12'",
	"DELETE FROM t"};

static void
try_indexes(int type, bool is_heap)
{
	static const char *const greatest[] = {"30000", "2000000000",
										   "9000000000000000000"};

	DO("CREATE TABLE t (x integer, gone text, id %s) USING %s",
	   types[type].name, is_heap ? "heap" : "other");
	DO("ALTER TABLE t DROP COLUMN gone");
	for (int i = 0; i < lengthof(indexes); i++)
	{
		const char *definition = indexes[i].definition;
		bool		leads = indexes[i].leads && is_heap;

		if (definition && strstr(definition, "alike") && types[type].width < 8)
			continue;
		if (definition)
			DO("CREATE INDEX i ON t %s", definition);
		oldest_xmin = ReadNextTransactionId(); /* the index is older */
		for (int step = 0; step < lengthof(steps); step++)
		{
			const char *newest;

			DO(steps[step], greatest[types[type].width / 4]);
			newest = pstrdup(answer_to("SELECT max(id::bigint) FROM t"));
			check_newest("t", "id", true, newest, "-");
			check_newest("t", "id", false, leads ? newest : "-",
						 leads ? "-" : "{\"s.t (no index)\"}");
		}
		if (definition)
			DO("DROP INDEX i");
	}
	DO("DROP TABLE t");
}

/* An index that may be read is valid, and of all rows that the snapshot sees. */
static void
try_index_states(void)
{
	DO("CREATE TABLE t (id bigint)");
	DO("INSERT INTO t VALUES (1), (2)");
	DO("CREATE INDEX i ON t (id)");
	for (int i = 0; i < 8; i++)
	{
		bool is_valid = i & 1;
		bool is_checked = i & 2;
		bool is_old = i & 4;
		bool leads = is_valid && (!is_checked || is_old);

		DO("UPDATE pg_index SET indisvalid = %s, indcheckxmin = %s WHERE "
		   "indexrelid = 'i'::regclass",
		   is_valid ? "true" : "false", is_checked ? "true" : "false");
		oldest_xmin =
			is_old ? ReadNextTransactionId() : FirstNormalTransactionId;
		check_newest("t", "id", true, "2", "-");
		check_newest("t", "id", false, leads ? "2" : "-",
					 leads ? "-" : "{\"s.t (no index)\"}");
	}
	DO("DROP TABLE t");
}

/* --- Kinds of tables, and of columns ------------------------------------------- */

/* What cannot be read, and why. */
static const struct
{
	const char *made_by;
	const char *column;
	const char *why;
} unreadable[] = {
	{"CREATE FOREIGN TABLE t (id bigint) SERVER elsewhere", "id",
	 "foreign table"},
	{"CREATE FOREIGN TABLE t (id text) SERVER elsewhere", "id",
	 "foreign table"},
	{"CREATE VIEW t AS SELECT bigint '1' AS id", "id", "not a table"},
	{"CREATE SEQUENCE t", "last_value", "not a table"},
	{"CREATE TYPE t AS (id bigint)", "id", "not a table"},
	{"CREATE TABLE u (id bigint); CREATE INDEX t ON u (id)", "id",
	 "not a table"},
	{"CREATE MATERIALIZED VIEW t AS SELECT bigint '1' AS id WITH NO DATA",
	 "id", "not populated"},
	{"CREATE TEMPORARY TABLE t (id bigint); CREATE SCHEMA pg_temp_99; UPDATE "
	 "pg_class SET relnamespace = 'pg_temp_99'::regnamespace WHERE oid = "
	 "'t'::regclass; SET LOCAL search_path = pg_temp_99, s",
	 "id", "temporary table of another session"},
	{"CREATE TABLE t (id bigint)", "ctid", "not a stored integer"},
	{"CREATE TABLE t (id bigint)", "tableoid", "not a stored integer"},
	{"CREATE TABLE t (id bigint)", "xmin", "not a stored integer"},
	{"CREATE TABLE t (id numeric)", "id", "not a stored integer"},
	{"CREATE TABLE t (id text)", "id", "not a stored integer"},
	{"CREATE TABLE t (id oid)", "id", "not a stored integer"},
	{"CREATE TABLE t (id money)", "id", "not a stored integer"},
	{"CREATE TABLE t (id timestamptz)", "id", "not a stored integer"},
	{"CREATE TABLE t (id bigint[])", "id", "not a stored integer"},
	{"CREATE DOMAIN d AS text; CREATE TABLE t (id d)", "id",
	 "not a stored integer"},
	{"CREATE TABLE t (id bigint); UPDATE pg_attribute SET attgenerated = 'v' "
	 "WHERE attrelid = 't'::regclass AND attname = 'id'",
	 "id", "not a stored integer"}};

static int kind;

static void
try_unreadable(void)
{
	const char *name;

	DO("CREATE FOREIGN DATA WRAPPER nothing");
	DO("CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing");
	DO("%s", unreadable[kind].made_by);
	name = strstr(unreadable[kind].made_by, "TEMP") ? "pg_temp_99.t" : "s.t";
	for (int i = 0; i < 2; i++)
	{
		forget_locks();
		CHECK_ANSWER(psprintf("-|{\"%s (%s)\"}|0", name, unreadable[kind].why),
					 "SELECT * FROM snowflake_newest('t', '%s', %s, 100)",
					 unreadable[kind].column, i ? "true" : "false");
		check_locks("t", i);
	}
	CHECK_ANSWER(psprintf("-|%s (%s)", name, unreadable[kind].why),
				 "SELECT * FROM snowflake_parts('t', '%s')",
				 unreadable[kind].column);
	CHECK_ANSWER("", "SELECT * FROM snowflake_read_ids('t', '%s', 0, 9)",
				 unreadable[kind].column);
}

/* What can be read. */
static const struct
{
	const char *made_by; /* empty, or with the ids 1 and 2 */
	bool		is_readable_in_recovery;
} readable[] = {
	{"CREATE TABLE t (id bigint)", true},
	{"CREATE TABLE t AS SELECT * FROM ids", true},
	{"CREATE UNLOGGED TABLE t AS SELECT * FROM ids", false},
	{"CREATE TEMPORARY TABLE t AS SELECT * FROM ids", false},
	{"CREATE MATERIALIZED VIEW t AS SELECT * FROM ids", true},
	{"CREATE TABLE t (n integer, id bigint GENERATED ALWAYS AS (n + 1) "
	 "STORED); INSERT INTO t VALUES (0), (1)",
	 true}};

static void
try_readable(void)
{
	const char *newest;
	const char *ids;

	DO("CREATE TABLE ids AS SELECT generate_series(1, 2) AS id");
	DO("%s", readable[kind].made_by);
	newest = answer_to("SELECT max(id) FROM t");
	ids = answer_to("SELECT id FROM t");
	for (int i = 0; i < 2; i++)
	{
		in_recovery = i && readable[kind].is_readable_in_recovery;
		check_newest("t", "id", true, newest, "-");
		CHECK_ANSWER(newest[0] == '2' ? "1|-" : "0|-",
					 "SELECT * FROM snowflake_parts('t', 'id')");
		CHECK_ANSWER(ids, "SELECT * FROM snowflake_read_ids('t', 'id', 0, 9)");
	}
	in_recovery = !readable[kind].is_readable_in_recovery;
	if (in_recovery)
		CHECK_ANSWER("", "SELECT * FROM snowflake_read_ids('t', 'id', 0, 9)");
	if (in_recovery)
		CHECK(strstr(answer_to("SELECT * FROM snowflake_parts('t', 'id')"),
					 ".t (not on a standby)") != NULL);
	in_recovery = false;
}

/* --- Parts --------------------------------------------------------------------- */

/* Of tables with the same column at different places. */
static void
make_parts(void)
{
	DO("CREATE TABLE t (x integer, id bigint) PARTITION BY RANGE (x)");
	DO("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)");
	DO("CREATE TABLE t2 (gone text, id bigint, x integer)");
	DO("ALTER TABLE t2 DROP COLUMN gone");
	DO("ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (10) TO (20)");
	DO("CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (20) TO (40) "
	   "PARTITION BY RANGE (x)");
	DO("CREATE TABLE t4 PARTITION OF t3 FOR VALUES FROM (20) TO (30)");
	DO("CREATE TABLE t5 PARTITION OF t3 FOR VALUES FROM (30) TO (40)");
	DO("CREATE INDEX ON t (id)");
	DO("INSERT INTO t VALUES (1, 5), (2, 6), (11, 8), (21, 7), (22, NULL)");
	DO("CREATE TABLE child (y integer, id bigint, x integer)");
	DO("CREATE TABLE parent (x integer, id bigint)");
	DO("ALTER TABLE child INHERIT parent");
	DO("CREATE INDEX ON child (id)");
	DO("CREATE INDEX ON parent (id)");
	DO("INSERT INTO parent VALUES (1, 9), (1, 11)");
	DO("INSERT INTO child VALUES (1, 10, 1)");
}

static void
try_parts(void)
{
	make_parts();
	for (int i = 0; i < 2; i++)
	{
		check_newest("t", "id", i, "8", "-");
		check_newest("t3", "id", i, "7", "-");
		check_newest("t5", "id", i, "-", "-");
		check_newest("parent", "id", i, "11", "-");
		check_newest("child", "id", i, "10", "-");
	}
	forget_locks();
	CHECK_ANSWER("1|- 1|- 1|- 0|-",
				 "SELECT * FROM snowflake_parts('t', 'id')");
	check_locks("t", true);
	forget_locks();
	CHECK_ANSWER("5 6 8 7 -",
				 "SELECT * FROM snowflake_read_ids('t', 'id', 0, 1)");
	check_locks("t", true);
	CHECK_ANSWER("9 11 10",
				 "SELECT * FROM snowflake_read_ids('parent', 'id', 0, 1)");

	/* each that was not seen is told, by its own name */
	DO("CREATE FOREIGN DATA WRAPPER nothing");
	DO("CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing");
	DO("CREATE FOREIGN TABLE \"T 6\" PARTITION OF t FOR VALUES FROM (50) TO "
	   "(60) SERVER elsewhere");
	DO("CREATE FOREIGN TABLE t7 PARTITION OF t FOR VALUES FROM (60) TO (70) "
	   "SERVER elsewhere");
	DO("CREATE TABLE t8 PARTITION OF t FOR VALUES FROM (70) TO (80)");
	CHECK_ANSWER("1|- 1|- -|s.\"T 6\" (foreign table) -|s.t7 (foreign table) "
				 "0|- 1|- 0|-",
				 "SELECT * FROM snowflake_parts('t', 'id')");
	check_newest("t", "id", false, "8",
				 "{\"s.\\\"T 6\\\" (foreign table)\",\"s.t7 (foreign "
				 "table)\"}");
}

/* A quick call sees at most a thousand parts. */
static void
try_many(void)
{
	DO("CREATE TABLE t (id bigint)");
	for (copies_of_parts = 999; copies_of_parts <= 1002; copies_of_parts++)
	{
		forget_locks();
		CHECK_ANSWER(psprintf("%d|%s|%d", Min(copies_of_parts, 1000),
							  copies_of_parts > 1000 ? "t" : "f", 0),
					 "SELECT cardinality(array_remove(unseen, 's.t (more than "
					 "1000 parts)')), 's.t (more than 1000 parts)' = ANY "
					 "(unseen), waited_ms FROM snowflake_newest('t', 'id', "
					 "false, 100)");
		check_locks("t", false);
		check_newest("t", "id", true, "-", "-");
	}
	copies_of_parts = 1;
}

/* --- Blocks ----------------------------------------------------------------- */

/* A table with a row in each of its blocks; its ids begin at the given one. */
static void
make_blocks(const char *table, const char *method, int first, int count)
{
	DO("CREATE TABLE %s (filler text, id integer) USING %s", table, method);
	DO("ALTER TABLE %s ALTER filler SET STORAGE PLAIN", table);
	DO("INSERT INTO %s SELECT repeat('x', 5000), i FROM generate_series(%d, "
	   "%d) i",
	   table, first, first + count - 1);
	DO("UPDATE %s SET id = NULL WHERE ctid = '(1,1)'", table);
}

/* What is in these blocks of a table, by SQL. */
static const char *
rows_of(const char *table, int64 from_block, int64 to_block, bool has_blocks)
{
	if (from_block < 0 || to_block <= 0 || (from_block > 0 && !has_blocks))
		return "";
	if (!has_blocks)
		to_block = PG_INT32_MAX;
	return pstrdup(answer_to(
		"SELECT id FROM ONLY %s WHERE (ctid::text::point)[0] >= %lld AND "
		"(ctid::text::point)[0] < %lld ORDER BY ctid",
		table, (long long) from_block, (long long) to_block));
}

static void
try_blocks(void)
{
	static const int64 edges[] = {
		PG_INT64_MIN,		 -1,		  0, 1, 2, 3, 4, 5, 6, 7,
		INT64CONST(1) << 32, PG_INT64_MAX};

	make_blocks("t", "heap", 100, 3);
	make_blocks("t1", "heap", 200, 5);
	make_blocks("t2", "other", 300, 3);
	DO("ALTER TABLE t1 INHERIT t");
	DO("ALTER TABLE t2 INHERIT t");
	for (int i = 0; i < lengthof(edges) * lengthof(edges); i++)
	{
		int64		from = edges[i % lengthof(edges)];
		int64		to = edges[i / lengthof(edges)];
		const char *rows[] = {rows_of("t", from, to, true),
							  rows_of("t1", from, to, true),
							  rows_of("t2", from, to, false)};

		CHECK_ANSWER(psprintf("%s%s%s%s%s", rows[0],
							  rows[0][0] && rows[1][0] ? " " : "", rows[1],
							  rows[1][0] && rows[2][0] ? " " : "", rows[2]),
					 "SELECT * FROM snowflake_read_ids('t', 'id', %lld, %lld)",
					 (long long) from, (long long) to);
	}
	CHECK_ANSWER("4|- 6|- 4|-", "SELECT * FROM snowflake_parts('t', 'id')");

	/* a call can be cancelled at each row */
	interrupts = 0;
	CHECK_ANSWER("100 102 -",
				 "SELECT * FROM snowflake_read_ids('t', 'id', 0, 4) LIMIT 3");
	CHECK(interrupts >= 3 + 1);
}

/* A query that begins after a call begins at the first block, though the table is big. */
static void
try_big_table(void)
{
	Relation	  rel;
	TableScanDesc scan;

	make_blocks("t", "heap", 0, 3 * BIG_TABLE);
	CHECK_ANSWER(psprintf("%d", 2 * BIG_TABLE + 4 - 1),
				 "SELECT count(*) FROM snowflake_read_ids('t', 'id', 0, %d)",
				 2 * BIG_TABLE + 4);
	rel = relation_open(oid_of("t"), NoLock);
	allows_ring = allows_sync = true;
	scan = as_if_big(rel, begin_as_asked);
	CHECK(((HeapScanDesc) scan)->rs_startblock == 0);
	table_endscan(scan);
	relation_close(rel, NoLock);
}

/* --- Marks ------------------------------------------------------------------ */

static const struct
{
	const char *made_by;
	const char *rows; /* or the error */
} marks[] = {
	{"CREATE TABLE m (server text, mark bigint, came_by oid); INSERT INTO m "
	 "VALUES ('a', 1, 2), ('b', NULL, 3), (NULL, 4, NULL), ('c', 5, NULL), "
	 "(NULL, NULL, NULL)",
	 "a|1|2 b|-|3 -|4|- c|5|- -|-|-"},
	{"CREATE TABLE m (mark smallint, server text); INSERT INTO m VALUES (-1, "
	 "'a'), (NULL, 'b'), (3, NULL)",
	 "a|-1|- b|-|- -|3|-"},
	{"CREATE TABLE m (came_by text, mark large, server text); INSERT INTO m "
	 "VALUES ('z', 1, 'a')",
	 "a|1|-"},
	{"CREATE DOMAIN name_of_server AS text; CREATE TABLE m (came_by oid, mark "
	 "own, server name_of_server); INSERT INTO m VALUES (7, '1', 'a')",
	 "a|1|7"},
	{"CREATE TABLE m (server text, mark bigint) PARTITION BY LIST (server); "
	 "CREATE TABLE m1 (mark bigint, gone text, server text); ALTER TABLE m1 "
	 "DROP COLUMN gone; ALTER TABLE m ATTACH PARTITION m1 FOR VALUES IN "
	 "('a'); CREATE TABLE m2 PARTITION OF m FOR VALUES IN ('b'); INSERT INTO "
	 "m VALUES ('b', 1), ('a', 2), ('a', 3)",
	 "a|2|- a|3|- b|1|-"},
	{"CREATE TABLE m (server text, mark bigint)", ""},
	{"CREATE TABLE m (server text, mark numeric)", ""},
	{"CREATE TABLE m (server varchar, mark bigint)",
	 "42804: column \"server\" of relation \"m\" is not of type text"},
	{"CREATE TABLE m (server text, id bigint)",
	 "42703: column \"mark\" of relation \"m\" does not exist"},
	{"CREATE TABLE m (mark bigint)",
	 "42703: column \"server\" of relation \"m\" does not exist"},
	{"CREATE VIEW m AS SELECT text 'a' AS server, bigint '1' AS mark",
	 "42809: \"m\" is not a table"},
	{"CREATE MATERIALIZED VIEW m AS SELECT text 'a' AS server, bigint '1' AS "
	 "mark",
	 "42809: \"m\" is not a table"}};

static void
try_marks(void)
{
	DO("%s", marks[kind].made_by);
	forget_locks();
	CHECK_ANSWER(marks[kind].rows, "SELECT * FROM snowflake_read_marks('m')");
	if (strncmp(marks[kind].made_by, "CREATE TABLE", 12) == 0 &&
		marks[kind].rows[0] == 'a')
		check_locks("m", true);
}

/* --- All --------------------------------------------------------------------- */

static void
try_tables(void)
{
	make_types();
	for (int i = 0; i < lengthof(types) * 2; i++)
		try_indexes(i / 2, i % 2);
	try_index_states();
	for (kind = 0; kind < lengthof(unreadable); kind++)
		and_undo(try_unreadable);
	for (kind = 0; kind < lengthof(readable); kind++)
		and_undo(try_readable);
	and_undo(try_parts);
	and_undo(try_many);
	and_undo(try_blocks);
	and_undo(try_big_table);
	for (kind = 0; kind < lengthof(marks); kind++)
		and_undo(try_marks);
}

PG_FUNCTION_INFO_V1(tables_cases);
Datum
tables_cases(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(try_functions(fcinfo->flinfo->fn_oid, try_tables));
}
