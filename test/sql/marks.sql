--
-- Marks that travel: what snowflake_publish_mark() stores and who may call it,
-- what snowflake_least_mark() makes of it, and snowflake_wait_settled().  Where marks
-- travel to is in test/t/080_marks_standby.pl and the next ones.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
CREATE ROLE regress_snowflake_job;
CREATE ROLE regress_snowflake_stranger;
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5), url text);
INSERT INTO photos (url) VALUES ('a.jpg');

-- The table is the application's.  Without it, there is a hint.
SELECT snowflake_publish_mark('paris');
\echo :SQLSTATE
SELECT snowflake_least_mark('photos', '{paris}');
\echo :SQLSTATE
SELECT snowflake_publish_mark('paris', 0::regclass);
SELECT snowflake_least_mark('photos', '{paris}', 0::regclass);
CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL);

-- Without a mark, nothing is known
SELECT count(*) FROM photos WHERE id < (SELECT mark FROM snowflake_marks WHERE server = 'paris');
SELECT snowflake_least_mark('photos', '{paris}') IS NULL AS nothing;

-- It is stored under a name: by itself, that of the server and the database
SELECT snowflake_wait_settled(max(id), '10 s') FROM photos;
SELECT snowflake_publish_mark('paris') > max(id) AS passes FROM photos;
SELECT snowflake_publish_mark() IS NOT NULL AS published;
SELECT count(*), bool_and(published_at <= clock_timestamp()) AS is_past FROM snowflake_marks;
SELECT count(*) FROM snowflake_marks, pg_control_system() WHERE server = system_identifier || '/' || current_database();
SELECT count(*) FROM photos WHERE id < (SELECT mark FROM snowflake_marks WHERE server = 'paris');

-- It does not go back
BEGIN;
SELECT snowflake_nextval(5) AS mine \gset
SELECT pg_sleep(0.01) \g /dev/null
UPDATE snowflake_marks SET mark = snowflake_floor(clock_timestamp()) WHERE server = 'paris' RETURNING mark AS before \gset
SELECT snowflake_settled() <= :mine AS is_held, snowflake_publish_mark('paris') = :before AS stays;
ROLLBACK;

-- But one that this server cannot have had is replaced
UPDATE snowflake_marks SET mark = snowflake_floor(clock_timestamp() + interval '1 day') WHERE server = 'paris' RETURNING mark AS before \gset
SET client_min_messages = error;     -- t/046_settled.pl has the warning
SELECT snowflake_publish_mark('paris') < :before AS is_replaced;
RESET ALL;
SELECT snowflake_timestamp(mark) <= clock_timestamp() AS is_past FROM snowflake_marks WHERE server = 'paris';

-- A transaction that has minted publishes none above its own id
BEGIN;
DELETE FROM snowflake_marks;
SELECT snowflake_nextval(5) AS mine \gset
SELECT pg_sleep(0.01) \g /dev/null
SELECT snowflake_publish_mark('paris') <= :mine AS is_held;
ROLLBACK;

-- The least mark of several, once all are there
DELETE FROM snowflake_marks WHERE server <> 'paris';
SELECT snowflake_least_mark('photos', '{paris,tokio}');
\echo :SQLSTATE
SELECT snowflake_publish_mark('tokyo') > 0 AS published;
SELECT snowflake_least_mark('photos', '{paris,tokyo}') = mark AS least FROM snowflake_marks WHERE server = 'paris';
SELECT snowflake_least_mark('photos', '{tokyo}') = mark AS own FROM snowflake_marks WHERE server = 'tokyo';
SELECT snowflake_least_mark('photos', '{paris,paris}') IS NOT NULL AS twice,
       snowflake_least_mark('photos', '{}') IS NULL AS of_none,
       snowflake_least_mark('photos', NULL) IS NULL AS of_null;
CREATE VIEW pictures AS SELECT * FROM photos;
SELECT snowflake_least_mark('pictures', '{paris}');
\echo :SQLSTATE
SELECT snowflake_least_mark(0::regclass, '{paris}');
\echo :SQLSTATE

-- The table can be another one, of another name and with a mark of the type
CREATE SCHEMA "More Marks";
CREATE TABLE "More Marks"."Marks" (published_at timestamptz NOT NULL, mark snowflake NOT NULL, server text PRIMARY KEY, note text);
SELECT snowflake_publish_mark('paris', '"More Marks"."Marks"') > 0 AS published;
SELECT snowflake_publish_mark('paris', '"More Marks"."Marks"') > 0 AS published;
SELECT snowflake_least_mark('photos', '{paris}', '"More Marks"."Marks"') = mark AS is_that, mark::timestamptz <= clock_timestamp() AS is_past FROM "More Marks"."Marks";
-- the caller's search_path finds it, when the function is called
PREPARE publish AS SELECT snowflake_publish_mark('lima') IS NOT NULL AS published;
ALTER TABLE "More Marks"."Marks" RENAME TO snowflake_marks;
SET search_path = "More Marks", public;
EXECUTE publish;
SELECT server FROM snowflake_marks ORDER BY server;
RESET search_path;
EXECUTE publish;
SELECT count(*) FROM snowflake_marks WHERE server = 'lima';
DELETE FROM snowflake_marks WHERE server = 'lima';
DROP SCHEMA "More Marks" CASCADE;

-- What the least mark is, by the tables that subscriptions bring, with their states, and by the marks
-- that came.  Nothing connects: rows are put into the catalog by hand.  (Real ones are in
-- test/t/101_marks_ways.pl and the next ones.)
BEGIN;
SET LOCAL client_min_messages = error;
CREATE SUBSCRIPTION regress_snowflake_a CONNECTION 'dbname=nowhere' PUBLICATION nothing WITH (connect = false, slot_name = NONE);
CREATE SUBSCRIPTION "regress_snowflake b" CONNECTION 'dbname=nowhere' PUBLICATION nothing WITH (connect = false, slot_name = NONE);
SET LOCAL client_min_messages = notice;
CREATE TABLE small_photos () INHERITS (photos);
CREATE TABLE root (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE leaf PARTITION OF root DEFAULT;
CREATE TABLE other (id snowflake, by oid, made_by oid GENERATED ALWAYS AS (by) STORED);
CREATE TABLE came (server text PRIMARY KEY, mark bigint, published_at timestamptz, by oid, came_by oid GENERATED ALWAYS AS (by) STORED);
CREATE TABLE not_generated (server text PRIMARY KEY, mark bigint, by oid, came_by oid, made_by oid GENERATED ALWAYS AS (by) STORED);
CREATE FUNCTION subscription(place text) RETURNS oid LANGUAGE sql AS $$ SELECT oid FROM pg_subscription WHERE subname ~ ('^regress_snowflake.' || place || '$') $$;
CREATE FUNCTION answer(relation regclass, brought text, came text, named text[], marks regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    DELETE FROM pg_subscription_rel;
    INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) SELECT subscription(m[1]), m[2]::regclass, m[3]::"char" FROM regexp_matches(brought, '(\w) (\w+) (\w)', 'g') AS m;
    EXECUTE format('TRUNCATE %s', marks);
    EXECUTE format('INSERT INTO %s (server, mark, by) SELECT m[1], m[2]::bigint, subscription(m[3]) FROM regexp_matches($1, $2, $3) AS m', marks) USING came, '(\w+) (\d+) (\S)', 'g';
    RETURN snowflake_least_mark(relation, named, marks);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' / ', SQLSTATE, SQLERRM, nullif(detail, ''));
END
$$;
SELECT n, answer(relation, brought, came, named, marks) FROM (VALUES
    -- no subscription
    (1, 'photos', '', 'paris 10 -', '{paris}'::text[], 'came'),
    (2, 'photos', '', 'paris 10 -, tokyo 20 -', '{tokyo,paris,NULL}', 'came'),
    (3, 'photos', '', '', '{paris}', 'came'),
    (4, 'photos', '', 'paris 10 -', '{quito,paris,lima}', 'came'),
    (5, 'photos', '', 'paris 10 -', '{paris}', 'not_generated'),
    -- one that brings rows, and marks
    (11, 'photos', 'a photos r, a came r', 'paris 10 a', '{paris}', 'came'),
    (12, 'photos', 'a photos d, a came r', 'paris 10 a', '{paris}', 'came'),
    (13, 'photos', 'a photos r, a came d', 'paris 10 a', '{paris}', 'came'),
    (14, 'photos', 'a photos r, a came r, a other d', 'paris 10 a', '{paris}', 'came'),
    (15, 'photos', 'a photos r, a came r', 'paris 10 a, here 5 -', '{paris}', 'came'),
    (16, 'photos', 'a photos r, a came r', 'paris 10 a, here 5 -', '{paris,here}', 'came'),
    (17, 'photos', 'a photos r, a came r', 'paris 10 a', NULL, 'came'),
    (18, NULL, 'a photos r, a came r', 'paris 10 a', '{paris}', 'came'),
    (19, 'photos', 'a photos r', 'paris 10 -', '{paris}', 'came'),
    (20, 'photos', 'a photos r, a not_generated r', 'paris 10 -', '{paris}', 'not_generated'),
    (21, 'photos', 'a not_generated r', 'paris 10 -', '{paris}', 'not_generated'),
    -- by way of a child, a partition, or what it is a partition of
    (31, 'photos', 'a small_photos r, a came r', 'paris 10 a', '{paris}', 'came'),
    (32, 'photos', 'a small_photos d, a came r', 'paris 10 a', '{paris}', 'came'),
    (33, 'root', 'a leaf d, a came r', 'paris 10 a', '{paris}', 'came'),
    (34, 'leaf', 'a root d, a came r', 'paris 10 a', '{paris}', 'came'),
    (35, 'photos', 'a leaf r, a came d', 'paris 10 -', '{paris}', 'came'),
    -- two
    (41, 'photos', 'a photos r, a came r, b photos r, b came r', 'paris 10 a, tokyo 20 b', '{paris,tokyo}', 'came'),
    (42, 'photos', 'a photos r, a came r, b photos r, b came r', 'paris 10 a, tokyo 20 b', '{paris}', 'came'),
    (43, 'photos', 'a photos r, a came r, b photos r, b came r', 'paris 10 a', '{paris}', 'came'),
    (44, 'photos', 'a photos r, a came r, b small_photos r', 'paris 10 a', '{paris}', 'came'),
    (45, 'photos', 'a photos r, a came r, b other r', 'paris 10 a', '{paris}', 'came'),
    (46, 'photos', 'a photos r, a came r, b came d', 'paris 10 a, tokyo 5 b', '{paris}', 'came'),
    (47, 'photos', 'a photos r, a came r, b came r', 'paris 10 b, lima 20 b', '{paris,lima}', 'came')) AS s (n, relation, brought, came, named, marks) ORDER BY n;
-- a mark that came is none of this server's
DELETE FROM snowflake_marks WHERE server ~ '/';
INSERT INTO came (server, mark, by) VALUES ('1234567890/elsewhere', 5, subscription('a'));
SELECT snowflake_publish_mark(marks => marks) > 0 AS alone FROM unnest('{snowflake_marks,came}'::regclass[]) AS marks;
ROLLBACK;
-- It can be partitioned.  A column came_by that is not of type oid counts for nothing.
CREATE TABLE divided (server text PRIMARY KEY, mark bigint, published_at timestamptz) PARTITION BY LIST (server);
CREATE TABLE divided_1 PARTITION OF divided DEFAULT;
INSERT INTO divided VALUES ('paris', 7), ('tokyo', 5);
SELECT server, mark, came_by IS NULL AS came_by_none FROM snowflake_read_marks('divided') ORDER BY server;
SELECT snowflake_least_mark('photos', '{paris,tokyo}', 'divided');
ALTER TABLE divided ADD came_by text DEFAULT 'the sea';
SELECT server, mark, came_by IS NULL AS came_by_none FROM snowflake_read_marks('divided') ORDER BY server;
SELECT snowflake_least_mark('photos', '{paris,tokyo}', 'divided');
DROP TABLE divided;
-- A mark of nobody, in a table without a key, is none.
CREATE TABLE anybody (server text, mark bigint, published_at timestamptz);
INSERT INTO anybody VALUES (NULL, 5);
SELECT snowflake_least_mark('photos', '{paris}', 'anybody');
INSERT INTO anybody VALUES ('tokyo', 7);
SELECT snowflake_least_mark('photos', '{paris}', 'anybody');
DROP TABLE anybody;

-- Who may write the table publishes, who may read it reads: the functions have the
-- rights of the caller.
GRANT SELECT ON snowflake_marks TO regress_snowflake_stranger;
SET ROLE regress_snowflake_stranger;
SELECT snowflake_least_mark('photos', '{paris}') > 0 AS known;
SELECT snowflake_publish_mark('paris');
\echo :SQLSTATE
RESET ROLE;
-- and of each column that is read
BEGIN;
ALTER TABLE snowflake_marks ADD came_by oid;
REVOKE SELECT ON snowflake_marks FROM regress_snowflake_stranger;
GRANT SELECT (mark, came_by) ON snowflake_marks TO regress_snowflake_stranger;
SET ROLE regress_snowflake_stranger;
SAVEPOINT by_columns;
SELECT server FROM snowflake_read_marks('snowflake_marks');
\echo :SQLSTATE
ROLLBACK TO by_columns;
RESET ROLE;
REVOKE SELECT (came_by) ON snowflake_marks FROM regress_snowflake_stranger;
GRANT SELECT (server) ON snowflake_marks TO regress_snowflake_stranger;
SET ROLE regress_snowflake_stranger;
SAVEPOINT by_columns;
SELECT snowflake_least_mark('photos', '{paris}');
\echo :SQLSTATE
ROLLBACK TO by_columns;
RESET ROLE;
GRANT SELECT (came_by) ON snowflake_marks TO regress_snowflake_stranger;
SET ROLE regress_snowflake_stranger;
SELECT snowflake_least_mark('photos', '{paris}') > 0 AS known;
ROLLBACK;
GRANT SELECT, INSERT, UPDATE ON snowflake_marks TO regress_snowflake_job;
GRANT CREATE ON DATABASE :DBNAME TO regress_snowflake_job;
SET ROLE regress_snowflake_job;
SELECT snowflake_publish_mark('paris') > 0 AS published, snowflake_publish_mark() > 0 AS by_itself;

-- They find nothing else by the caller's search_path
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped as %', current_user; END $$;
CREATE FUNCTION hostile.snowflake_settled() RETURNS public.snowflake LANGUAGE plpgsql AS $$ BEGIN RETURN hostile.trap()::int; END $$;
CREATE FUNCTION hostile.snowflake_is_before_horizon(bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.to_regclass(text) RETURNS regclass LANGUAGE sql AS $$ SELECT hostile.trap()::text::regclass $$;
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT hostile.trap()::text::timestamptz $$;
CREATE FUNCTION hostile.current_database() RETURNS name LANGUAGE sql AS $$ SELECT hostile.trap()::name $$;
CREATE FUNCTION hostile.pg_control_system(OUT system_identifier bigint) LANGUAGE sql AS $$ SELECT hostile.trap()::int $$;
CREATE FUNCTION hostile.compare(public.snowflake, public.snowflake) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.compare(timestamptz, timestamptz) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.compare(text, text) RETURNS text LANGUAGE sql AS $$ SELECT hostile.trap()::text $$;
CREATE OPERATOR hostile.> (FUNCTION = hostile.compare, LEFTARG = public.snowflake, RIGHTARG = public.snowflake);
CREATE OPERATOR hostile.<= (FUNCTION = hostile.compare, LEFTARG = timestamptz, RIGHTARG = timestamptz);
CREATE OPERATOR hostile.= (FUNCTION = hostile.compare, LEFTARG = public.snowflake, RIGHTARG = public.snowflake);
CREATE OPERATOR hostile.|| (FUNCTION = hostile.compare, LEFTARG = text, RIGHTARG = text);
SET search_path = hostile, pg_temp, pg_catalog, public;
SELECT clock_timestamp();
SELECT public.snowflake_publish_mark() IS NOT NULL AS published, public.snowflake_publish_mark('lima', 'public.snowflake_marks') IS NOT NULL AS named;
SELECT public.snowflake_least_mark('public.photos', '{lima}') IS NOT NULL AS found;
RESET search_path;
RESET ROLE;

-- What waits, waits no longer than it was told
SELECT snowflake_wait_settled(0, '0') AS is_settled;
SELECT snowflake_wait_settled(snowflake_ceil(clock_timestamp() + interval '1 h'), '0') AS is_settled;
SELECT snowflake_wait_settled(snowflake_ceil(clock_timestamp() + interval '1 h'), '-1 day') AS is_settled;
SELECT clock_timestamp() AS began \gset
SELECT snowflake_wait_settled(snowflake_ceil(clock_timestamp() + interval '1 h'), '200 ms') AS is_settled;
SELECT clock_timestamp() - :'began' >= '200 ms' AS waited;
SELECT snowflake_wait_settled(NULL, '1 s') IS NULL AS of_null, snowflake_wait_settled(5, NULL) IS NULL AS for_null;
BEGIN;
SET LOCAL statement_timeout = '100 ms';
SELECT snowflake_wait_settled(9223372036854775807, '1000 years');
\echo :SQLSTATE
ROLLBACK;
INSERT INTO photos (url) VALUES ('b.jpg');
SELECT snowflake_wait_settled(max(id), '1 min') AS is_settled FROM photos;
SELECT count(*) FROM photos WHERE id < snowflake_settled();
-- Lists that begin alike are different ones, also in one session
CREATE TEMP TABLE lists (place serial, list text);
INSERT INTO lists (list) VALUES ('5-7'), ('5'), ('50'), ('50-57'), ('6'), ('6-7'), ('4,5'), ('4'), ('4-5'), ('1023'), ('0-1023'), ('0-1022'), ('102');
INSERT INTO lists (list) SELECT list FROM lists ORDER BY place DESC;
BEGIN;
SELECT snowflake_nextval(5) AS mine \gset
SELECT snowflake_wait_settled(:mine, '1 min', '77') AS is_settled;
SELECT string_agg(list, ' ' ORDER BY place) AS held FROM lists WHERE snowflake_settled(list) <= :mine;
ROLLBACK;
BEGIN;
SELECT snowflake_nextval(1023) AS mine \gset
SELECT snowflake_wait_settled(:mine, '1 min', '77') AS is_settled;
SELECT string_agg(list, ' ' ORDER BY place) AS held FROM lists WHERE snowflake_settled(list) <= :mine;
ROLLBACK;
DROP TABLE lists;
-- A statement has one mark, beside those of the statements in its loop, and of more lists than are kept
DO $$
DECLARE
    first bigint;
    mark bigint;
BEGIN
    FOR mark IN SELECT snowflake_settled() FROM generate_series(1, 100) LOOP
        first := coalesce(first, mark);
        ASSERT mark = first;
        PERFORM snowflake_settled(), pg_sleep(0.001);
    END LOOP;
END
$$;
SELECT count(DISTINCT mark) AS marks
  FROM (SELECT snowflake_settled('5') AS mark, snowflake_settled(n::text) AS other, pg_sleep(0.001) FROM generate_series(0, 200) AS n) AS marks
 WHERE other IS NOT NULL;
-- a session that names many lists, good ones and others, does not grow
CREATE TEMP VIEW kept AS SELECT used_bytes AS bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext';
SELECT bytes FROM kept \gset
SELECT count(snowflake_settled(n || '-1023')) FROM generate_series(0, 1023) AS n;
DO $$
BEGIN
    FOR n IN 1 .. 10000 LOOP
        BEGIN
            PERFORM snowflake_settled('shard ' || n);
        EXCEPTION WHEN invalid_parameter_value THEN
        END;
    END LOOP;
END
$$;
SELECT bytes - :bytes < 100000 AS is_small FROM kept;
DROP VIEW kept;
-- It has no xid
BEGIN;
SELECT snowflake_wait_settled(max(id), '1 min') AS is_settled FROM photos;
SELECT pg_current_xact_id_if_assigned() IS NULL AS has_none;
COMMIT;
-- What would wait in vain fails at once
BEGIN;
SELECT snowflake_wait_settled(snowflake_nextval(5), '1 h');
\echo :SQLSTATE
ROLLBACK;
-- the mark is an id of shard 0 that can be minted
BEGIN;
SELECT snowflake_nextval(5) IS NOT NULL AS minted;
SELECT snowflake_wait_settled(snowflake_settled(), '1 h');
\echo :SQLSTATE
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT snowflake_wait_settled(snowflake_ceil(clock_timestamp() + interval '1 h'), '1 h');
\echo :SQLSTATE
ROLLBACK;

DROP OWNED BY regress_snowflake_job CASCADE;
DROP VIEW pictures;
DROP TABLE photos, snowflake_marks;
DROP EXTENSION snowflake;
DROP ROLE regress_snowflake_job;
DROP ROLE regress_snowflake_stranger;
