--
-- COPY with a default that mints inserts rows in batches, as it does with
-- nextval(); and ALTER TABLE still mints for each row.
--
CREATE EXTENSION snowflake;
CREATE EXTENSION pg_walinspect;
SET snowflake.shards = '5';

-- how rows came into the table since a place in the WAL
CREATE FUNCTION inserted_since(place pg_lsn, target regclass) RETURNS SETOF text LANGUAGE SQL AS $$
    SELECT DISTINCT replace(record_type, '+INIT', '')
      FROM pg_get_wal_records_info(place, pg_current_wal_flush_lsn())
     WHERE record_type ~ 'INSERT' AND resource_manager ~ '^Heap'
       AND block_ref ~ ('/' || pg_relation_filenode(target) || ' ')
     ORDER BY 1 $$;

CREATE TABLE events (
    id    snowflake DEFAULT snowflake_nextval(),
    other bigint DEFAULT snowflake_nextval(6),
    what  text
);
ALTER TABLE events ALTER other DROP DEFAULT;

SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
one
two
three
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT count(*), count(DISTINCT id), count(DISTINCT snowflake_shard(id)), min(snowflake_shard(id)) FROM events;

-- on a named shard, and behind a cast
ALTER TABLE events ALTER other SET DEFAULT snowflake_nextval(5);
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
four
five
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT count(*), count(DISTINCT other), count(*) FILTER (WHERE id < other) FROM events WHERE other IS NOT NULL;

-- a volatile shard stays volatile: row by row
ALTER TABLE events ALTER other SET DEFAULT snowflake_nextval(5 + (random() * 0)::int);
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
six
seven
\.
SELECT * FROM inserted_since(:'place', 'events');
ALTER TABLE events DROP other;

-- ids that come along, and the order of rows
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events FROM stdin;
1	eight
2	nine
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT what FROM events ORDER BY id;

-- what is wrong is still wrong
ALTER TABLE events ALTER id SET DEFAULT snowflake_nextval(7);
COPY events (what) FROM stdin;
ten
\.
ALTER TABLE events ALTER id SET DEFAULT snowflake_nextval(NULL);
COPY events (what) FROM stdin;
eleven
\.
ALTER TABLE events ALTER id SET DEFAULT snowflake_nextval(nullif(current_setting('snowflake.shards'), '5')::integer);
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
NULL at run time
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT what FROM events WHERE id IS NULL;
ALTER TABLE events ALTER id SET DEFAULT snowflake_nextval();

-- a new column gets an id for each row, while a COPY goes on as well
ALTER TABLE events ADD added snowflake DEFAULT snowflake_nextval();
SELECT count(*), count(DISTINCT added) FROM events;

CREATE TABLE grown (what text);
INSERT INTO grown VALUES ('a'), ('b'), ('c');
CREATE FUNCTION grow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE grown ADD id snowflake DEFAULT snowflake_nextval();
    BEGIN
        ALTER TABLE grown ADD wrong snowflake DEFAULT snowflake_nextval(7);
    EXCEPTION WHEN insufficient_privilege THEN
        RAISE NOTICE 'caught: %', SQLERRM;
    END;
    RETURN NULL;
END $$;
CREATE TRIGGER grow BEFORE INSERT ON events EXECUTE FUNCTION grow();
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
twelve
thirteen
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT count(*), count(DISTINCT id) FROM grown;
DROP TRIGGER grow ON events;

-- COPY within COPY
CREATE FUNCTION nest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    COPY grown (what) FROM PROGRAM 'printf "d\ne\n"';
    RETURN NULL;
END $$;
CREATE TRIGGER nest AFTER INSERT ON events EXECUTE FUNCTION nest();
COPY events (what) FROM stdin;
fourteen
\.
SELECT count(*), count(DISTINCT id) FROM grown;
DROP TRIGGER nest ON events;

-- COPY within the beginning of ALTER TABLE, which goes on to get an id for each row
CREATE FUNCTION begin_alter() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    COPY grown (what) FROM PROGRAM 'printf "f\n"';
END $$;
CREATE EVENT TRIGGER begin_alter ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION begin_alter();
ALTER TABLE grown ADD later snowflake DEFAULT snowflake_nextval();
DROP EVENT TRIGGER begin_alter;
SELECT count(*), count(DISTINCT later) FROM grown;

-- partitions
CREATE TABLE clicks (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), what text) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE clicks_0 PARTITION OF clicks FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE clicks_1 PARTITION OF clicks FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY clicks (what) FROM stdin;
one
two
\.
SELECT * FROM inserted_since(:'place', 'clicks_1');

-- what was put on the function takes effect, row by row: settings,
ALTER FUNCTION snowflake_nextval() SET snowflake.shards = '6';
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
settings
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT snowflake_shard(id) FROM events WHERE what = 'settings';
ALTER FUNCTION snowflake_nextval() RESET ALL;

-- SECURITY DEFINER,
ALTER FUNCTION snowflake_nextval() SECURITY DEFINER;
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
definer
\.
SELECT * FROM inserted_since(:'place', 'events');
ALTER FUNCTION snowflake_nextval() SECURITY INVOKER;

-- and another body, which looks at the table: it sees the rows before its own
BEGIN;
CREATE OR REPLACE FUNCTION snowflake_nextval() RETURNS snowflake LANGUAGE plpgsql
    SUPPORT snowflake_nextval_support
    AS $$ BEGIN RETURN (SELECT count(*) FROM events WHERE what = 'replaced'); END $$;
COPY events (what) FROM stdin;
replaced
replaced
replaced
\.
SELECT id FROM events WHERE what = 'replaced' ORDER BY id;
ROLLBACK;

-- then it is batches again
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
as before
\.
SELECT * FROM inserted_since(:'place', 'events');

-- No SQL can call what COPY calls.  (What the server says to it depends on its
-- minor version.)
DO $$
DECLARE
    statement text;
    said text;
BEGIN
    FOREACH statement IN ARRAY ARRAY[
        'SELECT snowflake_copy_nextval(NULL)',
        'SELECT snowflake_copy_nextval(''%s'')',
        'SELECT snowflake_copy_nextval(%s)',
        'SELECT snowflake_copy_nextval(%s, 5)',
        'PREPARE calling(internal) AS SELECT snowflake_copy_nextval($1); EXECUTE calling(NULL)',
        'PREPARE calling_too(internal) AS SELECT snowflake_copy_nextval($1); EXECUTE calling_too(''%s'')',
        'ALTER TABLE events ADD stable snowflake DEFAULT snowflake_copy_nextval(''%s'', 5)'] LOOP
        said := 'called by';
        BEGIN
            EXECUTE format(statement, 'snowflake_nextval()'::regprocedure::oid);
        EXCEPTION WHEN OTHERS THEN
            said := 'refused to';
        END;
        RAISE NOTICE '% %', said, statement;
    END LOOP;
END $$;

-- And it is no way around a privilege.  (\copy, because psql before 15.20 takes
-- the data for SQL if the server refuses COPY FROM stdin before it wants data.)
CREATE ROLE regress_snowflake_copier;
GRANT INSERT, SELECT ON events TO regress_snowflake_copier;
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC;
\copy (SELECT 'fifteen') TO 'results/copy.text'
SET ROLE regress_snowflake_copier;
\copy events (what) FROM 'results/copy.text'
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO regress_snowflake_copier;
SET ROLE regress_snowflake_copier;
\copy events (what) FROM 'results/copy.text'
RESET ROLE;
SELECT count(*) FROM events WHERE what = 'fifteen';

-- without the privilege on what COPY calls, row by row
REVOKE EXECUTE ON FUNCTION snowflake_copy_nextval(internal) FROM PUBLIC;
SELECT pg_current_wal_insert_lsn() AS place \gset
SET ROLE regress_snowflake_copier;
COPY events (what) FROM stdin;
sixteen
seventeen
\.
RESET ROLE;
SELECT * FROM inserted_since(:'place', 'events');
GRANT EXECUTE ON FUNCTION snowflake_copy_nextval(internal) TO PUBLIC;

-- A domain's constraint that is planned during COPY is kept for the session.
-- (A session of its own, since this one has planned others.)
CREATE DOMAIN minted_on AS integer CHECK (value = snowflake_shard(snowflake_nextval()));
CREATE DOMAIN judged_by AS integer CHECK (snowflake_nextval(value) IS NOT NULL);
CREATE TABLE checked (shard minted_on);
CREATE TABLE judged (shard judged_by);
GRANT INSERT ON checked TO regress_snowflake_copier;
\c -
SET snowflake.shards = '5';
COPY checked FROM stdin;
5
\.
COPY judged FROM stdin;
5
\.
INSERT INTO checked VALUES (5), (5);
INSERT INTO checked VALUES (6);
-- each statement calls the function as it is then: with settings,
ALTER FUNCTION snowflake_nextval() SET snowflake.shards = '6';
INSERT INTO checked VALUES (6);
INSERT INTO checked VALUES (5);
ALTER FUNCTION snowflake_nextval() RESET ALL;
-- replaced,
BEGIN;
CREATE OR REPLACE FUNCTION snowflake_nextval() RETURNS snowflake LANGUAGE SQL
    AS $$ SELECT snowflake_encode(now(), 7, 0) $$;
INSERT INTO checked VALUES (7);
ROLLBACK;
-- and with the privileges of then
SET ROLE regress_snowflake_copier;
INSERT INTO checked VALUES (5);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM regress_snowflake_copier;
SET ROLE regress_snowflake_copier;
INSERT INTO checked VALUES (5);
RESET ROLE;
SET SESSION AUTHORIZATION regress_snowflake_copier;
INSERT INTO checked VALUES (5);
RESET SESSION AUTHORIZATION;
-- a function that was strict, and is not any more, is called with NULL
INSERT INTO judged VALUES (NULL);
BEGIN;
CREATE OR REPLACE FUNCTION snowflake_nextval(shard integer) RETURNS snowflake LANGUAGE SQL
    AS 'SELECT snowflake_encode(now(), 7, 0)';
INSERT INTO judged VALUES (NULL);
ROLLBACK;
DROP TABLE checked, judged;
DROP DOMAIN minted_on, judged_by;

-- nothing of it is stored
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'events'::regclass ORDER BY adnum;

DROP TABLE events, grown, clicks;
DROP EXTENSION snowflake;

-- a default needs no privilege on the schema of its function
CREATE SCHEMA regress_snowflake_private;
CREATE EXTENSION snowflake SCHEMA regress_snowflake_private;
CREATE TABLE events (id bigint DEFAULT regress_snowflake_private.snowflake_nextval(5), what text);
GRANT INSERT ON events TO regress_snowflake_copier;
SELECT pg_current_wal_insert_lsn() AS place \gset
SET ROLE regress_snowflake_copier;
COPY events (what) FROM stdin;
one
two
\.
RESET ROLE;
SELECT * FROM inserted_since(:'place', 'events');
DROP TABLE events;
DROP EXTENSION snowflake;
DROP SCHEMA regress_snowflake_private;
DROP EXTENSION pg_walinspect;
DROP ROLE regress_snowflake_copier;
