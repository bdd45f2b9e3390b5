--
-- A role that is no superuser, and owns a database, creates the extension there: the
-- script runs as the bootstrap superuser in a schema in which that role made what
-- it liked before.  Nothing of it is taken over, and what only administrators may do
-- stays theirs.  (That nothing of it is run or bound: test/t/098_lures.pl.)
--
\set SHOW_CONTEXT never
\set database :DBNAME
SET client_min_messages = warning;
CREATE ROLE regress_snowflake_owner CREATEDB;
SET ROLE regress_snowflake_owner;
CREATE DATABASE regress_snowflake_trusted;
RESET ROLE;
ALTER DATABASE regress_snowflake_trusted SET snowflake.shards = '';
\c regress_snowflake_trusted
SET client_min_messages = warning;

-- What the extension has, to be imitated.
CREATE EXTENSION snowflake;
CREATE VIEW members AS
SELECT d.classid, d.objid FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
 WHERE e.extname = 'snowflake' AND d.deptype = 'e';
CREATE TABLE own_functions AS
SELECT proname AS name, oidvectortypes(proargtypes) AS arguments
  FROM members JOIN pg_proc AS p ON classid = 'pg_proc'::regclass AND p.oid = objid;
CREATE TABLE own_relations AS
SELECT relname AS name FROM members JOIN pg_class AS c ON classid = 'pg_class'::regclass AND c.oid = objid;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO regress_snowflake_owner;
DROP EXTENSION snowflake;

SET ROLE regress_snowflake_owner;

-- Whatever is there with the name of an object of ours is neither replaced nor taken
-- over: the script fails.
CREATE FUNCTION refusal(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    EXECUTE 'CREATE EXTENSION snowflake';
    RETURN 'made in spite of: ' || statement;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
SELECT count(*) > 40 AS many, refusal(format('CREATE FUNCTION public.%I(%s) RETURNS integer LANGUAGE sql AS ''SELECT 1''', name, arguments))
  FROM own_functions WHERE arguments !~ 'internal|cstring|snowflake' GROUP BY 2;
SELECT count(*) > 2 AS many, refusal(format('CREATE TABLE public.%I (n int)', name)) FROM own_relations GROUP BY 2;
-- with one more argument, that has a default, no call of it is decided
SELECT refusal('CREATE FUNCTION public.snowflake_layouts(n integer DEFAULT 1) RETURNS integer LANGUAGE sql AS ''SELECT 1''');
SELECT type, made, refusal(format(made, type))
  FROM unnest('{snowflake,snowflake_instant}'::text[]) AS type,
       unnest('{CREATE TYPE public.%s AS (n int),CREATE DOMAIN public.%s AS bigint}'::text[]) AS made;

ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO regress_snowflake_owner;

CREATE EXTENSION snowflake;
SELECT extowner::regrole FROM pg_extension WHERE extname = 'snowflake';
RESET ROLE;

-- Of what was made, nothing is the role's.
CREATE VIEW owned AS
SELECT classid, objid FROM pg_shdepend
 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND refclassid = 'pg_authid'::regclass AND refobjid = to_regrole('regress_snowflake_owner');
SELECT pg_describe_object(classid, objid, 0) FROM members JOIN owned USING (classid, objid);

-- It works, for the role and for a superuser.
SET ROLE regress_snowflake_owner;
CREATE TABLE photos (id bigint PRIMARY KEY DEFAULT snowflake_nextval(5));
CREATE TABLE clicks (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
INSERT INTO photos DEFAULT VALUES RETURNING id IS NOT NULL AS minted;
SELECT created_at IS NOT NULL AS decoded, shard FROM photos, snowflake_decode(photos.id);
RESET ROLE;
SELECT name FROM snowflake_layouts WHERE in_use;
SELECT * FROM snowflake_accept_layout();
SELECT * FROM snowflake_layout_dependents();
SELECT area, state, next_step FROM snowflake_check() WHERE area NOT IN ('shards', 'settings', 'expiry', 'mark') AND state <> 'ok';
SELECT finding, ids FROM snowflake_audit('photos', 'id'::name, 'twitter'::text);
SELECT * FROM snowflake_adopt('photos', 'id'::name, 5, dry_run => false);
SELECT * FROM snowflake_make_partitions('clicks', '2026-01-01Z', '2026-02-01Z', '1 month'::interval);
SELECT shard FROM pg_stat_snowflake WHERE shard IN (5);
CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL);
SELECT snowflake_publish_mark('paris'::text, 'snowflake_marks'::regclass) > 0 AS first, snowflake_publish_mark('paris'::text, 'snowflake_marks'::regclass) > 0 AS second;
SELECT snowflake_least_mark('photos'::regclass, '{paris}'::text[], 'snowflake_marks'::regclass) > 0 AS known;
DROP TABLE snowflake_marks;

-- It owns the extension, and not what is in it.
SET ROLE regress_snowflake_owner;
CREATE SCHEMA own_schema;
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
SELECT statement, outcome(statement) FROM pg_catalog.unnest(ARRAY[
    'SELECT snowflake_accept_layout()', 'SELECT snowflake_store_layout()', 'SELECT snowflake_accept_clone()',
    'SELECT snowflake_stat_reset()', 'SELECT snowflake_horizon()', 'SELECT snowflake_leases()', 'SELECT snowflake_lease_status()',
    'SELECT FROM pg_stat_snowflake', 'SELECT FROM pg_stat_snowflake_backends',
    'SET snowflake.shards = ''5''', 'ALTER DATABASE regress_snowflake_trusted SET snowflake.shards = ''5''',
    'GRANT EXECUTE ON FUNCTION snowflake_stat_reset() TO regress_snowflake_owner',
    'CREATE OR REPLACE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz LANGUAGE sql AS ''SELECT now()''',
    'ALTER FUNCTION snowflake_nextval() SECURITY DEFINER', 'ALTER FUNCTION snowflake_nextval() OWNER TO regress_snowflake_owner',
    'CREATE OR REPLACE VIEW snowflake_layouts AS SELECT 1', 'DROP FUNCTION snowflake_nextval()',
    'ALTER EXTENSION snowflake DROP FUNCTION snowflake_nextval()', 'CREATE EXTENSION snowflake_registry', 'ALTER EXTENSION snowflake SET SCHEMA own_schema']) AS statement;

-- The way out; and in another schema.
ALTER TABLE photos ALTER id DROP DEFAULT, ALTER id TYPE bigint;
DROP EXTENSION snowflake;
SELECT count(*) FROM members;
CREATE EXTENSION snowflake SCHEMA own_schema;
SELECT own_schema.snowflake_nextval(5) IS NOT NULL AS minted;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake SCHEMA pg_catalog;
\echo :SQLSTATE

-- But what one owns, one can replace: a superuser's call finds what has that name.  Not
-- where a superuser made the extension, in a schema of its own.
CREATE FUNCTION snowflake_check() RETURNS text LANGUAGE sql AS 'SELECT ''not the extension''''s''';
RESET ROLE;
SELECT snowflake_check();
CREATE SCHEMA ext;
GRANT USAGE ON SCHEMA ext TO PUBLIC;
CREATE EXTENSION snowflake SCHEMA ext;
SET ROLE regress_snowflake_owner;
SELECT statement, outcome(statement) FROM pg_catalog.unnest(ARRAY[
    'DROP EXTENSION snowflake', 'DROP SCHEMA ext CASCADE', 'ALTER SCHEMA ext RENAME TO own_schema_2', 'ALTER SCHEMA ext OWNER TO regress_snowflake_owner',
    'CREATE FUNCTION ext.snowflake_check() RETURNS text LANGUAGE sql AS ''SELECT NULL''', 'DROP FUNCTION ext.snowflake_check(interval, interval)',
    'ALTER EXTENSION snowflake DROP FUNCTION ext.snowflake_check(interval, interval)', 'ALTER EXTENSION snowflake ADD FUNCTION public.snowflake_check()',
    'CREATE TYPE ext.t AS ENUM ()', 'CREATE EXTENSION snowflake SCHEMA own_schema']) AS statement;
RESET ROLE;
SELECT count(*) > 3 AS is_the_extension FROM ext.snowflake_check();
DROP EXTENSION snowflake;

-- One who may not create in the database gets no extension.
CREATE ROLE regress_snowflake_visitor;
SET ROLE regress_snowflake_visitor;
CREATE EXTENSION snowflake;
\echo :SQLSTATE
RESET ROLE;

\c :database
SET client_min_messages = warning;
SET ROLE regress_snowflake_owner;
DROP DATABASE regress_snowflake_trusted;
RESET ROLE;
DROP ROLE regress_snowflake_owner, regress_snowflake_visitor;
