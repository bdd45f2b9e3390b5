--
-- snowflake_check: which columns, sequences and partitions it finds, of all that there can be.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET snowflake.shards = '5';
\pset format unaligned

-- each type with each DEFAULT and each kind of key: what is found of each, in short
CREATE SEQUENCE numbers;
CREATE DOMAIN own_id AS snowflake;
CREATE DOMAIN numbered AS snowflake DEFAULT nextval('numbers');
CREATE DOMAIN minted AS own_id DEFAULT snowflake_nextval();
CREATE DOMAIN big_minted AS bigint DEFAULT snowflake_nextval();
CREATE TABLE target (id bigint PRIMARY KEY);
CREATE TABLE kinds (no integer GENERATED ALWAYS AS IDENTITY, type text, value text, key text);
INSERT INTO kinds (type, value, key) SELECT * FROM
    unnest('{snowflake,bigint,integer,own_id,numbered,minted,big_minted}'::text[]) AS type,
    unnest(ARRAY['', '5', 'nextval(''numbers'')', 'snowflake_nextval()', 'snowflake_nextval(5)', 'snowflake_nextval(6)',
                 'snowflake_encode(clock_timestamp(), 5, (nextval(''numbers'') % 4096)::integer)']) AS value,
    unnest('{"",PRIMARY KEY,"PRIMARY KEY (n, id)",REFERENCES target,PRIMARY KEY REFERENCES target}'::text[]) AS key
 WHERE type <> 'integer' OR value !~ 'snowflake' AND key !~ 'REF';
DO $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT * FROM kinds ORDER BY no LOOP
        EXECUTE format('CREATE TABLE t_%s (n integer DEFAULT 1, id %s %s %s %s)', k.no, k.type, nullif('DEFAULT ' || k.value, 'DEFAULT '),
                       CASE WHEN k.key ~ '[(]' THEN ', ' END, k.key);
    END LOOP;
END $$;
\set short '(SELECT CASE WHEN finding ~ \'is a foreign key\' THEN \'reference\' WHEN finding ~ \'has no DEFAULT\' THEN \'none\' WHEN finding ~ \'numbers of\' THEN \'numbers\' WHEN finding ~ \'mints on shard\' THEN \'shard\' ELSE finding END AS found, (substring(finding FROM \'table public[.]t_([0-9]+)\'))::integer AS no, state FROM snowflake_check() WHERE area = \'columns\')'
SELECT key, found, state, type, string_agg(value, ', ' ORDER BY no) AS defaults FROM kinds JOIN :short AS f USING (no)
 GROUP BY key, found, state, type ORDER BY key COLLATE "C", found, type COLLATE "C";
-- of no other; the number of a table is none of a sequence
CREATE TABLE of_table (id snowflake PRIMARY KEY DEFAULT 'target'::regclass::oid::bigint);
SELECT count(*) FROM :short AS f WHERE no IS NULL;
-- the same, whatever stands in other catalogs under these numbers
SET allow_system_table_mods = on;
CREATE TABLE known AS SELECT * FROM snowflake_check() WHERE area = 'columns';
BEGIN;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, d.oid, 0, 'pg_proc'::regclass, 'snowflake_nextval()'::regprocedure, 0, 'n'
  FROM (SELECT oid FROM pg_attrdef UNION ALL SELECT oid FROM pg_type WHERE oid >= 16384 UNION ALL SELECT oid FROM pg_class WHERE oid >= 16384) AS d;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, d.oid, 0, 'pg_class'::regclass, 'numbers'::regclass, 0, 'n' FROM pg_attrdef AS d;
INSERT INTO pg_depend SELECT d.classid, d.objid, d.objsubid, 'pg_ts_parser'::regclass, o, 0, 'n'
  FROM (SELECT DISTINCT classid, objid, objsubid FROM pg_depend WHERE objid >= 16384 AND classid IN ('pg_attrdef'::regclass, 'pg_type'::regclass)) AS d,
       unnest(ARRAY['snowflake_nextval()'::regprocedure, 'snowflake_nextval(integer)'::regprocedure, 'numbers'::regclass]::oid[]) AS o;
INSERT INTO pg_depend SELECT 'pg_class'::regclass, 'numbers'::regclass, 0, 'pg_ts_parser'::regclass, attrelid, attnum, 'a' FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, 'numbers'::regclass, 0, 'pg_class'::regclass, attrelid, attnum, 'a' FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0;
SELECT * FROM snowflake_check() WHERE area = 'columns' EXCEPT TABLE known;
TABLE known EXCEPT SELECT * FROM snowflake_check();
ROLLBACK;
RESET allow_system_table_mods;
-- one that is computed, and one of another schema's function of that name
CREATE SCHEMA app;
CREATE FUNCTION app.snowflake_nextval(integer) RETURNS snowflake LANGUAGE sql AS 'SELECT $1::bigint::snowflake';
CREATE TABLE strangers (n bigint, id snowflake GENERATED ALWAYS AS (n::snowflake) STORED PRIMARY KEY, other snowflake DEFAULT app.snowflake_nextval(77));
SELECT * FROM snowflake_check() WHERE area = 'columns' AND finding ~ 'strangers';
DROP TABLE strangers;
DROP SCHEMA app CASCADE;
-- an area that is not ok has no row that says so
SELECT count(*) FROM known WHERE state = 'ok';
DROP TABLE known, of_table;
DO $$ BEGIN FOR n IN 1..(SELECT max(no) FROM kinds) LOOP EXECUTE format('DROP TABLE t_%s', n); END LOOP; END $$;

-- which shards are the server's
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(6), "its photo" bigint DEFAULT snowflake_nextval(7)::bigint);
CREATE FUNCTION not_ours(shards text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('snowflake.shards', shards, true);
    RETURN QUERY SELECT state || ': ' || finding || ' ' || next_step FROM snowflake_check() WHERE finding ~ 'mints on shard';
END $$;
SELECT shards, not_ours(shards) FROM unnest('{5,6,16,"7,6",5-7,"1, 6 - 7","5,8-9",auto,""}'::text[]) AS shards;
SELECT DISTINCT state FROM snowflake_check() WHERE area = 'columns';
DROP TABLE photos;

-- a sequence that is owned still: by a column that mints; not one of another column, nor one that is free
CREATE TABLE a (id bigserial PRIMARY KEY, other bigserial);
ALTER TABLE a ALTER id SET DEFAULT snowflake_nextval();
CREATE SEQUENCE free;
CREATE TABLE b (id bigint PRIMARY KEY DEFAULT nextval('free'));
ALTER TABLE b ALTER id SET DEFAULT snowflake_nextval();
CREATE INDEX ON b (id);
CREATE TABLE c (n serial, id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
SELECT finding, next_step FROM snowflake_check() WHERE area = 'columns';
ALTER SEQUENCE free OWNED BY c.id;
SELECT finding, next_step FROM snowflake_check() WHERE area = 'columns';
DROP TABLE a, b, c;
-- partitions are their table's, and with one finding there is no "ok"
CREATE TABLE p2 (id snowflake PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE p2_1 PARTITION OF p2 DEFAULT;
SELECT state, finding FROM snowflake_check() WHERE area = 'columns';
DROP TABLE p2;

-- which columns are looked into, in which order, and how long for locks: a look says so
CREATE OR REPLACE FUNCTION snowflake_newest(relation regclass, column_name name, thorough boolean, patience_ms integer, OUT newest bigint, OUT unseen text[], OUT waited_ms integer)
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE NOTICE '% % % %', relation, column_name, thorough, patience_ms;
    waited_ms := 100;
    IF relation::text ~ 'fails' THEN
        RAISE 'as told';
    ELSIF relation::text ~ 'locked' THEN
        RAISE lock_not_available;
    ELSIF relation::text ~ 'unseen' THEN
        unseen := string_to_array(current_setting('fake.unseen'), '|');
    ELSE
        newest := current_setting('fake.newest');
    END IF;
END $$;
SELECT set_config('fake.newest', snowflake_floor('2060-01-01Z')::bigint::text, false) IS NOT NULL AS set;
CREATE TABLE p1 (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE p1_1 PARTITION OF p1 DEFAULT;
CREATE TABLE indexed (id snowflake UNIQUE);
CREATE TABLE not_indexed (id snowflake);
CREATE TABLE refers (id snowflake PRIMARY KEY DEFAULT snowflake_nextval() REFERENCES indexed (id));
CREATE TABLE mints (id bigint DEFAULT snowflake_nextval(), gone snowflake UNIQUE, also snowflake UNIQUE);
ALTER TABLE mints DROP gone;
CREATE TABLE parent (id snowflake PRIMARY KEY);
CREATE TABLE child (own snowflake UNIQUE, PRIMARY KEY (id)) INHERITS (parent);
CREATE TABLE bare (id snowflake);
CREATE TABLE its_child (PRIMARY KEY (id)) INHERITS (bare);
CREATE VIEW a_view AS SELECT * FROM indexed;
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE far (id snowflake, n bigint) SERVER elsewhere;
CREATE TABLE locked (id snowflake PRIMARY KEY);
CREATE TABLE fails (id snowflake PRIMARY KEY);
CREATE TABLE large (id snowflake PRIMARY KEY, n text);
INSERT INTO large SELECT n, repeat('.', 1000) FROM generate_series(1, 100) AS n;
ANALYZE large;
SELECT state, finding, next_step FROM snowflake_check() WHERE area IN ('columns', 'visibility') AND finding !~ 'has no DEFAULT';
DROP VIEW a_view;
DROP TABLE p1, refers, indexed, not_indexed, mints, child, parent, its_child, bare, locked, fails, large;
DROP FOREIGN TABLE far;
SET client_min_messages = warning;

-- identities: behind what was minted; not with other ids, nor with a sequence that is beyond them
CREATE TABLE identity (n integer, id bigint GENERATED ALWAYS AS IDENTITY, no_key bigint, PRIMARY KEY (n, id));
CREATE TABLE no_key (id bigint GENERATED ALWAYS AS IDENTITY, n integer PRIMARY KEY);
CREATE TABLE not_bigint (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE FUNCTION found_of_identity(id bigint, its_last bigint) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('fake.newest', id::text, true), setval('identity_id_seq', coalesce(its_last, 1), its_last IS NOT NULL);
    RETURN QUERY SELECT finding || ' ' || next_step FROM snowflake_check() WHERE area = 'columns' AND state <> 'ok';
END $$;
SELECT snowflake_nextval()::bigint AS minted \gset
SELECT what, found_of_identity(id, its_last) FROM (VALUES ('never called', :minted, NULL), ('below', :minted, :minted - 1), ('there', :minted, :minted), ('above', :minted, :minted + 1),
    ('small', 5, 1), ('of 29 days', snowflake_floor((SELECT epoch FROM snowflake_layouts WHERE name = 'twitter') + interval '29 days'), 1),
    ('of 31 days', snowflake_floor((SELECT epoch FROM snowflake_layouts WHERE name = 'twitter') + interval '31 days'), 1),
    ('of 2060', snowflake_floor('2060-01-01Z'), 1)) AS t(what, id, its_last);
DROP TABLE identity, no_key, not_bigint;

-- what is not seen, and what to do about it
CREATE TABLE unseen (id snowflake DEFAULT snowflake_nextval());
CREATE FUNCTION not_seen(tables text) RETURNS TABLE (finding text, next_step text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('fake.unseen', tables, true);
    RETURN QUERY SELECT c.finding, c.next_step FROM snowflake_check() AS c WHERE area = 'visibility';
END $$;
CREATE ROLE regress_snowflake_user;
GRANT pg_monitor TO regress_snowflake_user;
SELECT f.* FROM unnest('{a (locked),a (no index),a (foreign table),a (no privilege),a (row security)|b (locked)}'::text[]) AS tables, not_seen(tables) AS f;
SELECT f.* FROM generate_series(10, 11) AS n, not_seen((SELECT string_agg(format('t%s (no index)', i), '|') FROM generate_series(1, n) AS i)) AS f;
SET ROLE regress_snowflake_user;
SELECT f.* FROM unnest('{a (locked),a (no privilege),a (row security)|b (no index)}'::text[]) AS tables, not_seen(tables) AS f;
RESET ROLE;
DROP OWNED BY regress_snowflake_user;
DROP ROLE regress_snowflake_user;
DROP TABLE unseen;

-- no more than a thousand
DO $$ BEGIN EXECUTE (SELECT 'CREATE FOREIGN TABLE wide (' || string_agg(format('id_%s snowflake', n), ',') || ') SERVER elsewhere' FROM generate_series(1, 1001) AS n); END $$;
SELECT count(*) FROM snowflake_check() WHERE area = 'columns';
SET fake.newest = 5;
SELECT * FROM not_seen('');
ALTER FOREIGN TABLE wide DROP id_1;
SELECT * FROM not_seen('');
DROP FOREIGN TABLE wide;

-- partitions that end: by ids, of any such type, or of a bigint that mints; not by other numbers,
-- by more than one, by lists, without an end, or by a column that mints beside the key
CREATE TABLE by_domain (id own_id) PARTITION BY RANGE (id);
CREATE TABLE by_bigint (other snowflake, id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE by_other (id bigint, n snowflake DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE by_serial (id bigserial) PARTITION BY RANGE (id);
CREATE TABLE by_two (id snowflake, n integer) PARTITION BY RANGE (id, n);
CREATE TABLE by_list (id snowflake) PARTITION BY LIST (id);
CREATE TABLE by_hash (id snowflake) PARTITION BY HASH (id);
CREATE TABLE without (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE without_1 PARTITION OF without DEFAULT;
CREATE TABLE with_default (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE with_default_1 PARTITION OF with_default DEFAULT;
CREATE TABLE endless (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE endless_1 PARTITION OF endless FOR VALUES FROM (100) TO (MAXVALUE);
CREATE TABLE from_least (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE from_least_1 PARTITION OF from_least FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE from_nowhere (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE from_nowhere_1 PARTITION OF from_nowhere FOR VALUES FROM (MINVALUE) TO (20);
CREATE TABLE by_two_1 PARTITION OF by_two FOR VALUES FROM (0, 0) TO (10, 10);
CREATE TABLE by_list_1 PARTITION OF by_list FOR VALUES IN (7);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 1, REMAINDER 0);
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY '{by_domain,by_bigint,by_other,by_serial,with_default,endless,from_least}'::text[] LOOP
        EXECUTE format('CREATE TABLE %1$s_5 PARTITION OF %1$s FOR VALUES FROM (9) TO (20)', t);
        EXECUTE format('CREATE TABLE %1$s_6 PARTITION OF %1$s FOR VALUES FROM (2) TO (9)', t);
    END LOOP;
END $$;
SET client_min_messages = error;
\set next 'regexp_replace(next_step, \'\'\'20(2[6-9]|[3-9])[-\\d :.+]*\'\'\', \'...\') AS next_step'
SELECT state, finding, :next FROM snowflake_check() WHERE area = 'partitions';
DROP TABLE by_domain, by_bigint, by_other, by_serial, by_two, by_list, by_hash, without, with_default, endless, from_least, from_nowhere;
-- when: at their end, and before; the length of the last one, if it is that of a partition by time
CREATE TABLE clicks (id snowflake) PARTITION BY RANGE (id);
CREATE FUNCTION ends_in(lasts interval, ends interval, later interval) RETURNS TABLE (state text, hours_from_now numeric, step text) LANGUAGE plpgsql AS $$
DECLARE
    last timestamptz := date_trunc('second', now()) + ends;
BEGIN
    EXECUTE format('CREATE TABLE clicks_1 PARTITION OF clicks FOR VALUES FROM (%s) TO (%s)', snowflake_floor(last - lasts), snowflake_floor(last));
    -- what months are in hours depends on the day
    RETURN QUERY SELECT c.state, CASE WHEN m[2] !~ 'mon' THEN round(extract(epoch FROM m[1]::timestamptz - now()) / 3600) END, CASE WHEN m[2] ~ '^\d+ mons' THEN 'months' ELSE m[2] END
        FROM snowflake_check(partitions_for => later) AS c, regexp_match(c.next_step, ''', ''([^'']*)'', ''([^'']*)''[)];$') AS m WHERE area = 'partitions';
    DROP TABLE clicks_1;
END $$;
SELECT e.*, f.* FROM (VALUES ('1 day', '-3 days', '7 days'), ('1 day', '3 days', '7 days'), ('7 days', '6 days', '7 days'), ('7 days', '9 days', '7 days'),
    ('7 days', '9 days', '10 days'), ('360 days', '3 days', '7 days'), ('400 days', '3 days', '7 days'), ('2 h', '3 days', '7 days'), ('30 min', '3 days', '7 days'), ('59 s', '3 days', '7 days')) AS e(lasts, ends, later),
    ends_in(e.lasts::interval, e.ends::interval, e.later::interval) AS f;
DROP FUNCTION ends_in, not_seen, found_of_identity, not_ours;
DROP TABLE clicks, kinds, target;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;
DROP DOMAIN minted, numbered, own_id, big_minted;
DROP EXTENSION snowflake;
DROP SEQUENCE numbers;
