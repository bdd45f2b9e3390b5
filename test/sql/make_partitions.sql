--
-- snowflake_make_partitions: a partition for each step of time, once.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET TIME ZONE 'UTC';

CREATE VIEW bounds AS
SELECT inhparent::regclass AS parent, oid::regclass AS partition, pg_get_expr(relpartbound, oid) AS bounds
  FROM pg_inherits JOIN pg_class ON oid = inhrelid
 WHERE relkind <> 'i'
 ORDER BY oid::regclass::text COLLATE "C";

CREATE TABLE photos (id snowflake PRIMARY KEY, url text) PARTITION BY RANGE (id);

SELECT * FROM snowflake_make_partitions('photos', '2026-01-01', '2026-04-01', '1 month');
SELECT partition, bounds FROM bounds WHERE parent = 'photos'::regclass;
SELECT partition, bounds = format('FOR VALUES FROM (''%s'') TO (''%s'')',
                                  snowflake_floor(to_timestamp(right(partition::text, 8), 'YYYYMMDD')),
                                  snowflake_floor(to_timestamp(right(partition::text, 8), 'YYYYMMDD') + interval '1 month')) AS by_floor
  FROM bounds WHERE parent = 'photos'::regclass;

INSERT INTO photos VALUES
    (snowflake_floor('2026-01-01'), 'the first of January'),
    (snowflake_ceil('2026-01-31 23:59:59.999'), 'the last of January'),
    (snowflake_floor('2026-02-01'), 'the first of February');
SELECT tableoid::regclass AS partition, url FROM photos ORDER BY id;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT url FROM photos
 WHERE id >= snowflake_floor('2026-02-01') AND id < snowflake_floor('2026-03-01');
RESET enable_indexscan;
RESET enable_bitmapscan;

-- a table without a partition is locked exclusively, and others are not
CREATE TABLE locks (id snowflake PRIMARY KEY) PARTITION BY RANGE (id);
BEGIN;
SELECT snowflake_make_partitions('locks', '2026-01-01', '2026-01-02', '1 day');
SELECT bool_or(mode = 'AccessExclusiveLock') AS exclusively FROM pg_locks WHERE relation = 'locks'::regclass AND pid = pg_backend_pid();
COMMIT;
BEGIN;
SELECT snowflake_make_partitions('locks', '2026-01-02', '2026-01-03', '1 day');
SELECT bool_or(mode = 'AccessExclusiveLock') AS exclusively FROM pg_locks WHERE relation = 'locks'::regclass AND pid = pg_backend_pid();
COMMIT;
DROP TABLE locks;

-- what is there is left, whatever its name; what is missing is made
SELECT * FROM snowflake_make_partitions('photos', '2026-01-01', '2026-04-01', '1 month');
ALTER TABLE photos_20260201 RENAME TO february;
ALTER TABLE photos DETACH PARTITION photos_20260301;
DROP TABLE photos_20260301;
SELECT * FROM snowflake_make_partitions('photos', '2025-12-01', '2026-05-01', '1 month');
SELECT count(*) FROM photos;

-- the last partition is a whole step
SELECT * FROM snowflake_make_partitions('photos', '2026-05-01', '2026-06-01 00:00:00.001', '1 month');
SELECT * FROM snowflake_make_partitions('photos', '2026-05-01', '2026-07-01', '1 month');

-- a session's time zone does not matter, nor does the day on which its clocks change
SET TIME ZONE 'America/New_York';
SELECT * FROM snowflake_make_partitions('photos', '2026-01-01 00:00 UTC', '2026-07-01 00:00 UTC', '1 month');
CREATE TABLE days (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT * FROM snowflake_make_partitions('days', '2026-03-07 00:00 UTC', '2026-03-10 00:00 UTC', '1 day');
SET DateStyle = 'SQL, DMY';
SET IntervalStyle = 'sql_standard';
SET TIME ZONE 'UTC';
SELECT * FROM snowflake_make_partitions('days', '2026-03-07', '2026-03-12', '24 hours');
RESET DateStyle;
RESET IntervalStyle;
SELECT bounds LIKE format('%%(''%s'') TO%%', snowflake_floor('2026-03-09')) AS midnight_utc
  FROM bounds WHERE partition = 'days_20260309'::regclass;

-- months from the 31st
CREATE TABLE ends (id snowflake) PARTITION BY RANGE (id);
SELECT * FROM snowflake_make_partitions('ends', '2026-01-31', '2026-05-01', '1 month');

-- names: as many digits as it takes
CREATE TABLE steps (id snowflake) PARTITION BY RANGE (id);
SELECT * FROM snowflake_make_partitions('steps', '2026-01-01', '2026-01-02', '6 hours');
SELECT * FROM snowflake_make_partitions('steps', '2026-01-02', '2026-01-16', '1 week');
SELECT * FROM snowflake_make_partitions('steps', '2026-01-16 06:00', '2026-01-18 06:00', '1 day');
SELECT * FROM snowflake_make_partitions('steps', '2026-02-01', '2026-02-01 00:01:30', '30 seconds');
SELECT * FROM snowflake_make_partitions('steps', '2026-03-01', '2026-03-01 00:00:00.006', '2 ms');
SELECT * FROM snowflake_make_partitions('steps', '2026-04-01 06:00', '2026-04-02', '18 hours');
SELECT * FROM snowflake_make_partitions('steps', '2026-04-03 00:00:30', '2026-04-03 00:01', '30 seconds');
SELECT * FROM snowflake_make_partitions('steps', '2026-04-04 00:00:00.5', '2026-04-04 00:00:01', '500 ms');
SELECT count(*), count(DISTINCT bounds) FROM bounds WHERE parent = 'steps'::regclass;

-- names that would be too long do not run into one another, nor are letters cut in two
SELECT repeat('x', 60) || 'a' AS a, repeat('x', 60) || 'b' AS b, repeat('é', 27) AS e, repeat('y', 54) AS y \gset
CREATE TABLE :a (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE :b (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE :e (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE :y (id snowflake) PARTITION BY RANGE (id);
SELECT p, octet_length(p::text) FROM snowflake_make_partitions(:'a', '2026-01-01', '2026-01-03', '1 day') AS p;
SELECT p, octet_length(p::text) FROM snowflake_make_partitions(:'b', '2026-01-01', '2026-01-03', '1 day') AS p;
SELECT replace(p::text, 'é', '') AS rest, octet_length(p::text) <= 65 AS fits
  FROM snowflake_make_partitions(:'e', '2026-01-01', '2026-01-01 02:00', '1 hour') AS p;
SELECT p, octet_length(p::text) FROM snowflake_make_partitions(:'y', '2026-01-01', '2026-01-02', '1 day') AS p;
SELECT p, octet_length(p::text) FROM snowflake_make_partitions(:'y', '2026-01-02', '2026-01-02 01:00', '1 hour') AS p;
DROP TABLE :a, :b, :e, :y;

-- names that need quotes, and partitions of a partition
CREATE SCHEMA "My Ids";
CREATE TABLE "My Ids"."Pho'tos" (tenant int, "The Id" snowflake) PARTITION BY LIST (tenant);
CREATE TABLE "My Ids"."te%nant" PARTITION OF "My Ids"."Pho'tos" FOR VALUES IN (1) PARTITION BY RANGE ("The Id");
SELECT * FROM snowflake_make_partitions('"My Ids"."te%nant"', '2026-01-01', '2026-01-02', '1 day');
INSERT INTO "My Ids"."Pho'tos" VALUES (1, snowflake_floor('2026-01-01 12:00')) RETURNING tableoid::regclass;

-- beside a partition that has partitions, and one whose detaching is not complete: the server takes none in its place
CREATE TABLE nested (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE nested_early PARTITION OF nested FOR VALUES FROM (MINVALUE) TO (0) PARTITION BY RANGE (id);
CREATE TABLE nested_early_all PARTITION OF nested_early DEFAULT;
CREATE TABLE leaving PARTITION OF nested FOR VALUES FROM (snowflake_floor('2026-01-01')) TO (snowflake_floor('2026-01-02'));
UPDATE pg_inherits SET inhdetachpending = true WHERE inhrelid = 'leaving'::regclass;
ALTER TABLE ONLY nested ALTER id SET STATISTICS 5;
\set VERBOSITY terse
SELECT * FROM snowflake_make_partitions('nested', '2026-01-01', '2026-01-03', '1 day');
\set VERBOSITY default
ALTER TABLE nested DETACH PARTITION leaving FINALIZE;
SELECT * FROM snowflake_make_partitions('nested', '2026-01-01', '2026-01-04', '1 day');
DROP TABLE nested, leaving;

-- a domain
CREATE DOMAIN photo_id AS snowflake CHECK (VALUE >= 0);
CREATE DOMAIN own_photo_id AS photo_id;
CREATE TABLE domains (id own_photo_id) PARTITION BY RANGE (id);
SELECT * FROM snowflake_make_partitions('domains', '2026-01-01', '2026-01-02', '1 day');
INSERT INTO domains VALUES (snowflake_floor('2026-01-01 12:00')) RETURNING tableoid::regclass;

-- a temporary table
CREATE TEMP TABLE fleeting (id snowflake) PARTITION BY RANGE (id);
SELECT * FROM snowflake_make_partitions('fleeting', '2026-01-01', '2026-01-02', '1 day');
SELECT relpersistence FROM pg_class WHERE oid = 'fleeting_20260101'::regclass;
DROP TABLE fleeting;

-- what a partition gets is what CREATE TABLE ... PARTITION OF gives
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_snowflake_disk LOCATION '';
RESET allow_in_place_tablespaces;
CREATE TABLE owners (id bigint PRIMARY KEY);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TABLE full_photos (
    dropped int,
    id      snowflake PRIMARY KEY DEFAULT snowflake_nextval(5),
    owner   bigint NOT NULL CONSTRAINT owned REFERENCES owners ON DELETE CASCADE DEFERRABLE,
    made    timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED,
    url     text COLLATE "C" DEFAULT 'none' CONSTRAINT has_url CHECK (url <> ''),
    UNIQUE (id, url)
) PARTITION BY RANGE (id) TABLESPACE regress_snowflake_disk;
ALTER TABLE full_photos DROP dropped;
ALTER TABLE full_photos ALTER url SET STORAGE external, ALTER url SET COMPRESSION pglz;
CREATE INDEX full_photos_lower ON full_photos (lower(url)) WHERE url <> 'none';
CREATE TRIGGER touch BEFORE UPDATE ON full_photos FOR EACH ROW WHEN (new.id > 5) EXECUTE FUNCTION touch();
CREATE TABLE full_comments (photo bigint REFERENCES full_photos);

CREATE TABLE full_photos_20260101 PARTITION OF full_photos
    FOR VALUES FROM (snowflake_floor('2026-01-01')) TO (snowflake_floor('2026-01-02'));
SELECT * FROM snowflake_make_partitions('full_photos', '2026-01-01', '2026-01-03', '1 day');

CREATE VIEW anatomy AS
WITH part AS (
    SELECT * FROM pg_class
     WHERE oid IN ('full_photos_20260101'::regclass, 'full_photos_20260102'::regclass))
SELECT relname AS partition, replace(fact, relname, '*') AS fact
  FROM (SELECT relname, format('table %s %s %s %s %s %s %s', relkind, relpersistence, relam, reltablespace, relowner, reloptions, relacl) AS fact
          FROM part
        UNION ALL
        SELECT relname, format('column %s %s %s', attname, to_jsonb(a) - '{attrelid,attcacheoff,attoptions}'::text[],
                               pg_get_expr(adbin, adrelid))
          FROM part JOIN pg_attribute AS a ON attrelid = part.oid
          LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE attnum > 0
        UNION ALL
        SELECT relname, format('constraint %s %s %s %s %s', conname, conislocal, coninhcount, conparentid <> 0, pg_get_constraintdef(c.oid))
          FROM part JOIN pg_constraint AS c ON conrelid = part.oid
        UNION ALL
        SELECT relname, format('index %s %s', pg_get_indexdef(indexrelid), EXISTS (SELECT FROM pg_inherits WHERE inhrelid = indexrelid))
          FROM part JOIN pg_index ON indrelid = part.oid
        UNION ALL
        SELECT relname, format('trigger %s %s %s %s', regexp_replace(tgname, '\d+', '*'), tgtype, tgparentid <> 0,
                               regexp_replace(pg_get_triggerdef(t.oid), '_[ac]_\d+"', '_*"'))
          FROM part JOIN pg_trigger AS t ON tgrelid = part.oid) AS facts;

SELECT split_part(fact, ' ', 1) AS facts, count(*) > 0 AS present
  FROM anatomy WHERE partition LIKE '%02' GROUP BY 1 ORDER BY 1;
(SELECT fact FROM anatomy WHERE partition LIKE '%01' EXCEPT ALL SELECT fact FROM anatomy WHERE partition LIKE '%02')
UNION ALL
(SELECT fact FROM anatomy WHERE partition LIKE '%02' EXCEPT ALL SELECT fact FROM anatomy WHERE partition LIKE '%01');

INSERT INTO owners VALUES (1);
INSERT INTO full_photos (id, owner) VALUES (snowflake_floor('2026-01-02'), 1) RETURNING tableoid::regclass, made, url;
INSERT INTO full_comments SELECT id FROM full_photos;
\set VERBOSITY sqlstate
DELETE FROM full_photos;
\set VERBOSITY default
DROP TABLE full_comments;
DROP VIEW anatomy;

-- the access method is that of each new table
CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE methods (id snowflake) PARTITION BY RANGE (id);
SET default_table_access_method = heap2;
SELECT snowflake_make_partitions('methods', '2026-01-01', '2026-01-02', '1 day');
SELECT amname FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam WHERE c.oid = 'methods_20260101'::regclass;
RESET default_table_access_method;
DROP TABLE methods;
DROP ACCESS METHOD heap2;

-- readers and writers go on meanwhile, and others who make partitions wait, even where there is nothing to make
BEGIN;
SELECT * FROM snowflake_make_partitions('photos', '2026-01-01', '2026-02-01', '1 month');
SELECT DISTINCT mode FROM pg_locks
 WHERE relation = 'photos'::regclass AND mode NOT IN ('AccessShareLock') ORDER BY mode;
ROLLBACK;
BEGIN;
SELECT * FROM snowflake_make_partitions('photos', '2026-07-01', '2026-08-01', '1 month');
SELECT DISTINCT mode FROM pg_locks
 WHERE relation = 'photos'::regclass AND mode NOT IN ('AccessShareLock') ORDER BY mode;
ROLLBACK;

-- what is below a partition is not locked
CREATE TABLE tree (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (1) TO (9) PARTITION BY RANGE (id);
CREATE TABLE tree_11 PARTITION OF tree_1 FOR VALUES FROM (1) TO (5);
BEGIN;
SELECT * FROM snowflake_make_partitions('tree', '2026-07-01', '2026-08-01', '1 month');
SELECT count(*) FROM pg_locks WHERE relation = 'tree_11'::regclass AND pid = pg_backend_pid();
ROLLBACK;
DROP TABLE tree;

-- as part of a transaction that is rolled back, or of one with an old snapshot
SELECT to_regclass('photos_20260701');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM snowflake_make_partitions('photos', '2026-07-01', '2026-08-01', '1 month');
SELECT * FROM snowflake_make_partitions('photos', '2026-07-01', '2026-09-01', '1 month');
COMMIT;

-- overlaps are refused, and nothing is made: a step that begins within, one that ends within, several at once
SELECT * FROM snowflake_make_partitions('photos', '2026-01-15', '2026-01-16', '1 month');
\echo :SQLSTATE
SELECT * FROM snowflake_make_partitions('photos', '2025-11-15', '2025-11-16', '1 month');
SELECT * FROM snowflake_make_partitions('photos', '2025-11-29', '2025-12-02', '1 day');
SELECT * FROM snowflake_make_partitions('photos', '2026-01-01', '2026-02-01', '1 day');
SELECT * FROM snowflake_make_partitions('photos', '2026-01-01', '2027-01-01', '1 year');
SELECT to_regclass('photos_20251129');
CREATE TABLE photos_old PARTITION OF photos FOR VALUES FROM (MINVALUE) TO (snowflake_floor('2025-01-01'));
CREATE TABLE photos_new PARTITION OF photos FOR VALUES FROM ('5000000000000000000') TO (MAXVALUE);
SELECT * FROM snowflake_make_partitions('photos', '2024-12-31', '2025-01-02', '1 day');
SELECT * FROM snowflake_make_partitions('photos', '2049-01-01', '2049-01-02', '1 day');
SELECT * FROM snowflake_make_partitions('photos', '2025-01-01', '2025-02-01', '1 month');

-- a name that is taken
CREATE VIEW photos_20260901 AS SELECT 1;
SELECT * FROM snowflake_make_partitions('photos', '2026-09-01', '2026-10-01', '1 month');
\echo :SQLSTATE
DROP VIEW photos_20260901;

-- a default partition that holds rows of that time, and the way out
CREATE TABLE photos_rest PARTITION OF photos DEFAULT;
INSERT INTO photos VALUES (snowflake_floor('2026-10-05'), 'early'), (snowflake_floor('2027-01-01'), 'too early');
SELECT * FROM snowflake_make_partitions('photos', '2026-09-01', '2026-11-01', '1 month');
\echo :SQLSTATE
SELECT * FROM snowflake_make_partitions('photos', '2026-09-01', '2026-10-01', '1 month');
BEGIN;
ALTER TABLE photos DETACH PARTITION photos_rest;
SELECT * FROM snowflake_make_partitions('photos', '2026-09-01', '2026-11-01', '1 month');
WITH moved AS (
    DELETE FROM photos_rest
     WHERE id >= snowflake_floor('2026-09-01') AND id < snowflake_floor('2026-11-01') RETURNING *)
INSERT INTO photos SELECT * FROM moved;
ALTER TABLE photos ATTACH PARTITION photos_rest DEFAULT;
COMMIT;
SELECT tableoid::regclass AS partition, url FROM photos WHERE url ~ 'early' ORDER BY id;

-- arguments
SELECT snowflake_make_partitions('photos', '2026-01-01', '2026-01-01', '1 day');
\echo :SQLSTATE
SELECT snowflake_make_partitions('photos', '2026-01-02', '2026-01-01', '1 day');
SELECT snowflake_make_partitions('photos', '2026-01-01', '2026-01-02', '0');
\echo :SQLSTATE
SELECT snowflake_make_partitions('photos', '2026-01-01', '2026-01-02', '-1 day');
SELECT snowflake_make_partitions('photos', '2028-01-01', '2028-09-01', '1 month -30 days');
SELECT snowflake_make_partitions('photos', '2028-01-01', '2028-01-02', '1 us');
SELECT snowflake_make_partitions('photos', '-infinity', '2026-01-02', '1 day');
SELECT snowflake_make_partitions('photos', '2026-01-01', 'infinity', '1 day');
SELECT snowflake_make_partitions('photos', NULL, '2026-01-02', '1 day');
\echo :SQLSTATE
SELECT snowflake_make_partitions(NULL, '2026-01-01', '2026-01-02', '1 day');
SELECT snowflake_make_partitions('photos', '2026-01-01', NULL, '100 years');
SELECT snowflake_make_partitions('photos', '2026-01-01', '2026-01-02', NULL);
SELECT snowflake_make_partitions('photos', '2300-01-01', '2300-01-02', '1 day');
\echo :SQLSTATE
SELECT snowflake_make_partitions(0, '2026-01-01', '2026-01-02', '1 day');
\echo :SQLSTATE

-- tables that are not partitioned so
CREATE TABLE plain (id snowflake);
SELECT snowflake_make_partitions('plain', '2026-01-01', '2026-01-02', '1 day');
\echo :SQLSTATE
CREATE TABLE hashed (id snowflake) PARTITION BY HASH (id);
SELECT snowflake_make_partitions('hashed', '2026-01-01', '2026-01-02', '1 day');
\echo :SQLSTATE
CREATE TABLE listed (id snowflake) PARTITION BY LIST (id);
SELECT snowflake_make_partitions('listed', '2026-01-01', '2026-01-02', '1 day');
CREATE TABLE pairs (id snowflake, n int) PARTITION BY RANGE (id, n);
SELECT snowflake_make_partitions('pairs', '2026-01-01', '2026-01-02', '1 day');
CREATE TABLE expressions (id snowflake) PARTITION BY RANGE ((id + 1));
SELECT snowflake_make_partitions('expressions', '2026-01-01', '2026-01-02', '1 day');
CREATE TABLE ints (id integer) PARTITION BY RANGE (id);
SELECT snowflake_make_partitions('ints', '2026-01-01', '2026-01-02', '1 day');
\echo :SQLSTATE
CREATE TABLE times (at timestamptz) PARTITION BY RANGE (at);
SELECT snowflake_make_partitions('times', '2026-01-01', '2026-01-02', '1 day');

-- somebody else's table, and a default partition of another table
CREATE ROLE regress_snowflake_other;
CREATE TABLE theirs (id snowflake) PARTITION BY RANGE (id);
CREATE TABLE theirs_rest PARTITION OF theirs DEFAULT;
ALTER TABLE theirs_rest OWNER TO regress_snowflake_other;
SELECT snowflake_make_partitions('days', '2026-04-01', '2026-04-02', '1 day');
DROP TABLE theirs;
GRANT ALL ON photos TO regress_snowflake_other;
SET ROLE regress_snowflake_other;
SELECT snowflake_make_partitions('photos', '2029-01-01', '2029-02-01', '1 month');
\echo :SQLSTATE
RESET ROLE;
DROP OWNED BY regress_snowflake_other;
DROP ROLE regress_snowflake_other;

-- the extension in a schema that is not searched, and a search_path that lies
DROP TABLE plain, hashed, listed, pairs, expressions, ints, times, days, ends, steps, domains, full_photos, owners;
DROP TABLESPACE regress_snowflake_disk;
CREATE SCHEMA lies;
CREATE FUNCTION lies.snowflake_floor(timestamptz) RETURNS bigint LANGUAGE sql AS 'SELECT 42::bigint';
CREATE FUNCTION lies.isfinite(timestamptz) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION lies.never(timestamp, interval) RETURNS timestamp LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END';
CREATE OPERATOR lies.+ (LEFTARG = timestamp, RIGHTARG = interval, FUNCTION = lies.never);
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA "My Ids";
CREATE TABLE lies.pg_class (id "My Ids".snowflake) PARTITION BY RANGE (id);
CREATE TEMP TABLE pg_inherits (inhrelid oid, inhparent oid, inhdetachpending boolean);
SET search_path = lies, pg_temp, pg_catalog;
SELECT * FROM "My Ids".snowflake_make_partitions('lies.pg_class', '2026-01-01', '2026-01-02', '1 day');
SELECT * FROM "My Ids".snowflake_make_partitions('lies.pg_class', '2026-01-01', '2026-01-03', '1 day');
SHOW search_path;
RESET search_path;
SELECT bounds FROM bounds WHERE parent = 'lies.pg_class'::regclass;
DROP TABLE pg_temp.pg_inherits;

DROP VIEW bounds;
DROP TABLE photos, lies.pg_class;
DROP SCHEMA lies CASCADE;
DROP TABLE "My Ids"."Pho'tos";
DROP FUNCTION touch;
DROP EXTENSION snowflake CASCADE;
DROP SCHEMA "My Ids";
