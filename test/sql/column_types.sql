--
-- A column of ids is a snowflake or a bigint.  What partitions, fills, reads or
-- audits such a column does the same with both.  Each becomes the other without a
-- rewrite, and keeps its ids, default, indexes and foreign keys.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET snowflake.shards = '5,6';

--
-- The same done to a column of each type gives the same
--
CREATE TABLE seen (type regtype, what text, result text);
DO $$
DECLARE
    type regtype;
BEGIN
    FOREACH type IN ARRAY '{snowflake,bigint}'::regtype[] LOOP
        -- partitions by time, a default, a foreign key
        EXECUTE format('CREATE TABLE clicks (id %s PRIMARY KEY DEFAULT snowflake_nextval(5), n integer) PARTITION BY RANGE (id)', type);
        INSERT INTO seen SELECT type, 'partitions', string_agg(p::text, ' ')
          FROM snowflake_make_partitions('clicks', '2020-01-01Z', '2020-04-01Z', '1 month') AS p;
        PERFORM snowflake_make_partitions('clicks', now() - interval '1 hour', now() + interval '1 hour', '2 hours');
        EXECUTE format('CREATE TABLE details (click %s REFERENCES clicks)', type);

        -- ids of rows that exist, from history; by a layout in which no test mints, since other tests mint on all shards
        INSERT INTO clicks
        SELECT snowflake_history(at, 9, 'epoch=2010-11-04T01:42:54.657Z unit=1ms fields=timestamp:41,shard:9,sequence:13') OVER (ORDER BY at, n), n
          FROM (SELECT n, timestamptz '2020-01-01Z' + n * interval '9 hours' AS at FROM generate_series(0, 200) AS n) AS old;
        INSERT INTO seen SELECT type, 'rows by partition', string_agg(format('%s %s', part, rows), ', ' ORDER BY part)
          FROM (SELECT tableoid::regclass::text AS part, count(*) AS rows FROM clicks GROUP BY 1) AS parts;
        INSERT INTO seen SELECT type, 'ids', md5(string_agg(id::text, ',' ORDER BY id)) FROM clicks;
        INSERT INTO seen SELECT type, 'audit', string_agg(audit::text, ' ')
          FROM snowflake_audit('clicks', 'id', 'twitter', '5,6') AS audit;

        -- minted, and read as what is new
        INSERT INTO clicks (n) SELECT 1000 FROM generate_series(1, 10);
        INSERT INTO details SELECT id FROM clicks;
        INSERT INTO seen SELECT type, 'minted', string_agg(DISTINCT snowflake_shard(id)::text, ',') FROM clicks WHERE n = 1000;
        INSERT INTO seen SELECT type, 'settled', count(*)
          FROM clicks WHERE id > snowflake_floor('2020-03-01Z') AND id < snowflake_settled();

        -- times: a bigint is cast, and its index and partitions are used all the same
        INSERT INTO seen SELECT type, 'since', count(*) FROM clicks WHERE id >= snowflake_floor('2020-02-01Z');
        INSERT INTO seen SELECT type, 'since, as time', count(*) FROM clicks WHERE id::snowflake >= timestamptz '2020-02-01Z';
        INSERT INTO seen SELECT type, 'time', max(snowflake_timestamp(id)) FROM clicks WHERE n < 1000;
        INSERT INTO seen SELECT type, 'text', snowflake_to_base62(min(id)) FROM clicks;

        -- partitions by shard
        EXECUTE format('CREATE TABLE events (id %s PRIMARY KEY DEFAULT snowflake_nextval(6)) PARTITION BY HASH (id snowflake_shard_ops)', type);
        CREATE TABLE events_0 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE events_1 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        INSERT INTO events SELECT snowflake_nextval(5);
        INSERT INTO events DEFAULT VALUES;
        INSERT INTO seen SELECT type, 'by shard', string_agg(format('%s in %s', snowflake_shard(id), tableoid::regclass), ', ' ORDER BY snowflake_shard(id))
          FROM events;

        -- what a change of the layout would touch
        INSERT INTO seen SELECT type, 'dependents', string_agg(format('%s: %s', object, uses), ', ') FROM snowflake_layout_dependents();
        DROP TABLE clicks, details, events;
    END LOOP;
END
$$;
SELECT what, a.result, a.result = b.result AS alike
  FROM seen AS a JOIN seen AS b USING (what)
 WHERE a.type = 'snowflake'::regtype AND b.type = 'bigint'::regtype AND what <> 'audit'
 ORDER BY what COLLATE "C";
SELECT count(DISTINCT result) AS audits, bool_and(result ~ 'unexpected shard",201') AS complete FROM seen WHERE what = 'audit';
-- a bigint that nobody mints could be any number
CREATE TABLE numbers (id bigint) PARTITION BY RANGE (id);
CREATE TABLE numbers_1 PARTITION OF numbers FOR VALUES FROM (1) TO (1000);
SELECT count(*) FROM snowflake_layout_dependents();
DROP TABLE numbers;

-- the plan of a bigint column with a time
CREATE TABLE plain (id bigint PRIMARY KEY);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT FROM plain WHERE id::snowflake >= timestamptz '2020-02-01Z';
EXPLAIN (COSTS OFF) SELECT FROM plain WHERE id >= snowflake_floor('2020-02-01Z');
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE plain;

--
-- From one type to the other, and back
--
CREATE TABLE albums (
    id     bigint PRIMARY KEY DEFAULT snowflake_nextval(5) CHECK (id > 0),
    parent bigint REFERENCES albums,
    title  text
);
CREATE INDEX albums_title ON albums (title, id);
CREATE INDEX albums_brin ON albums USING brin (id);
CREATE TABLE songs (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), album bigint NOT NULL REFERENCES albums ON DELETE CASCADE);
INSERT INTO albums (title) SELECT 'title ' || n FROM generate_series(1, 1000) AS n;
INSERT INTO songs (album) SELECT id FROM albums;
INSERT INTO albums (parent) SELECT id FROM albums LIMIT 10;

-- what must stay: ids, places of rows, files
CREATE VIEW state AS
SELECT format('rows %s', md5(string_agg(format('%s %s %s', ctid, id, parent), ',' ORDER BY ctid))) AS thing FROM albums
UNION ALL
SELECT format('rows %s', md5(string_agg(format('%s %s %s', ctid, id, album), ',' ORDER BY ctid))) FROM songs
UNION ALL
SELECT format('%s in file %s', c.oid::regclass, pg_relation_filenode(c.oid)) FROM pg_class AS c WHERE c.relname ~ '^(albums|songs)' AND c.relkind IN ('r', 'i')
UNION ALL
SELECT format('%s: %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid IN ('albums'::regclass, 'songs'::regclass)
UNION ALL
SELECT format('%s DEFAULT %s', adrelid::regclass, pg_get_expr(adbin, adrelid)) FROM pg_attrdef WHERE adrelid IN ('albums'::regclass, 'songs'::regclass);
-- a view on the columns would be in the way
CREATE TABLE before AS SELECT * FROM state;
SELECT pg_get_viewdef('state') AS definition \gset
DROP VIEW state;

BEGIN;
ALTER TABLE albums ALTER id TYPE snowflake, ALTER parent TYPE snowflake;
ALTER TABLE songs ALTER album TYPE snowflake;
SELECT relation::regclass, mode FROM pg_locks
 WHERE pid = pg_backend_pid() AND relation IN ('albums'::regclass, 'songs'::regclass) AND mode = 'AccessExclusiveLock'
 ORDER BY 1;
COMMIT;
CREATE VIEW state AS :definition
(TABLE before EXCEPT TABLE state) UNION ALL (TABLE state EXCEPT TABLE before);
DROP VIEW state;
INSERT INTO songs (album) VALUES (1);
INSERT INTO albums (title) VALUES ('new') RETURNING pg_typeof(id), snowflake_shard(id) AS shard;
DELETE FROM albums WHERE title = 'new';

-- back, by snowflake_adopt, which finds what refers to the key
SELECT * FROM snowflake_adopt('albums', 'id', 5, column_type => 'bigint');
SELECT count(*) FROM snowflake_adopt('albums', 'id', 5, false, 'bigint');
CREATE VIEW state AS :definition
(TABLE before EXCEPT TABLE state) UNION ALL (TABLE state EXCEPT TABLE before);
DROP VIEW state;
SELECT attrelid::regclass, attname, atttypid::regtype FROM pg_attribute
 WHERE attrelid IN ('albums'::regclass, 'songs'::regclass) AND attname IN ('id', 'parent', 'album') ORDER BY 1, 2;
-- there is nothing left to do, right after an id was minted
INSERT INTO albums (title) VALUES ('new');
SELECT * FROM snowflake_adopt('albums', 'id', 5, false, 'bigint');

-- what is in the way; 19 ends the detail of ALTER TABLE with a full stop
CREATE VIEW titles AS SELECT id, title FROM albums;
\set VERBOSITY terse
ALTER TABLE albums ALTER id TYPE snowflake;
\set VERBOSITY default
\echo :SQLSTATE
DROP VIEW titles;
ALTER TABLE albums ALTER id TYPE snowflake, ALTER parent TYPE snowflake;
CREATE VIEW places AS SELECT parent FROM albums;
SELECT * FROM snowflake_adopt('albums', 'id', 5, false, 'bigint');
CREATE VIEW titles AS SELECT id, title FROM albums;
\set VERBOSITY terse
ALTER TABLE albums ALTER id TYPE snowflake;
\set VERBOSITY default
ALTER TABLE songs ALTER album TYPE snowflake;
DROP VIEW titles, places;
DROP TABLE songs, albums, before;
CREATE TABLE parts (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
\set VERBOSITY sqlstate
ALTER TABLE parts ALTER id TYPE snowflake;
\set VERBOSITY default
DROP TABLE parts;

-- A statement that was prepared, and gives the column, has to be prepared again
CREATE TABLE kept (id bigint DEFAULT snowflake_nextval(5));
INSERT INTO kept DEFAULT VALUES;
PREPARE gives AS SELECT id FROM kept;
PREPARE takes(bigint) AS SELECT count(*) FROM kept WHERE id = $1;
ALTER TABLE kept ALTER id TYPE snowflake;
EXECUTE gives;
\echo :SQLSTATE
EXECUTE takes(0);
DEALLOCATE ALL;
DROP TABLE kept;

--
-- snowflake_adopt, for a key that is a bigint afterwards
--
CREATE TABLE users (id serial PRIMARY KEY, friend integer REFERENCES users);
CREATE TABLE visits (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who integer REFERENCES users);
INSERT INTO users (friend) VALUES (NULL), (1);
INSERT INTO visits (who) VALUES (2);
SELECT * FROM snowflake_adopt('users', 'id', column_type => 'bigint');
SELECT * FROM snowflake_adopt('visits', 'id', 5, column_type => 'bigint');
SELECT count(*) FROM snowflake_adopt('users', 'id', dry_run => false, column_type => 'bigint');
SELECT count(*) FROM snowflake_adopt('visits', 'id', 5, false, 'bigint');
INSERT INTO users DEFAULT VALUES RETURNING pg_typeof(id), id > 2 AS later;
INSERT INTO visits (who) SELECT max(id) FROM users RETURNING pg_typeof(id), pg_typeof(who), id > 1 AS later;
SELECT snowflake_adopt('users', 'id', column_type => 'text');
\echo :SQLSTATE
SELECT snowflake_adopt('users', 'id', column_type => NULL);
\echo :SQLSTATE
DROP TABLE visits, users, seen;
DROP EXTENSION snowflake;
