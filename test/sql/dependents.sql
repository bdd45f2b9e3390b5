--
-- snowflake_dependents: each kind of object that keeps DROP EXTENSION, or the change of a
-- column, from being done, and what looks like one.  (That the statements lead out:
-- test/t/038_uninstall.pl.)
--
SET client_min_messages = error;
CREATE EXTENSION snowflake;
SELECT count(*) FROM snowflake_dependents();

-- keys, and defaults that are none: of children, references, partition keys, other types
CREATE TABLE photos (
    id snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    parent snowflake REFERENCES photos,
    url text,
    gone snowflake,
    digit int GENERATED ALWAYS AS (id % 10) STORED,
    minted timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'twitter')) STORED,
    other bigint DEFAULT snowflake_nextval(7),
    CONSTRAINT our_shard CHECK (snowflake_shard(id, 'twitter') < 8),
    CHECK (id > 0)
);
ALTER TABLE photos DROP gone;
CREATE TABLE more_photos (n int DEFAULT 5) INHERITS (photos);
CREATE TABLE "Order's" (n int DEFAULT 5, "the id" bigint PRIMARY KEY DEFAULT snowflake_nextval(5));
CREATE TABLE "Rest" (film snowflake DEFAULT snowflake_nextval() REFERENCES photos, n int DEFAULT snowflake_shard(5, 'twitter'),
                     text text DEFAULT snowflake_nextval(), later bigint DEFAULT snowflake_nextval() + 1);
CREATE TABLE clicks (id snowflake DEFAULT snowflake_nextval(), other snowflake DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE clicks_1 PARTITION OF clicks FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
CREATE TABLE clicks_1_1 PARTITION OF clicks_1 DEFAULT;
CREATE TABLE events (at date, id snowflake DEFAULT snowflake_nextval()) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events DEFAULT;
CREATE TABLE spread (id bigint DEFAULT snowflake_nextval()) PARTITION BY HASH (id snowflake_shard_ops);
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE far (id snowflake DEFAULT snowflake_nextval()) SERVER elsewhere;

-- types
CREATE DOMAIN photo_id AS snowflake CHECK (VALUE > 0);
CREATE DOMAIN some_id AS photo_id;
CREATE TABLE likes (photo photo_id, mine some_id, old snowflake[], earlier photo_id[] DEFAULT '{}');
CREATE TYPE pair AS (first snowflake, second int);
CREATE TYPE idrange AS RANGE (subtype = snowflake);
CREATE TABLE ranges (of_ids idrange);

-- what refers to columns, or calls functions
CREATE INDEX by_minute ON photos (date_trunc('minute', snowflake_timestamp(id, 'twitter') AT TIME ZONE 'UTC'));
CREATE INDEX by_url ON photos (url, id);
CREATE STATISTICS url_of_id ON id, url FROM photos;
CREATE VIEW recent AS SELECT id FROM photos;
CREATE VIEW latest AS SELECT max(id) AS id FROM recent;
CREATE VIEW urls AS SELECT url FROM photos;
CREATE VIEW numbers AS SELECT "the id" FROM "Order's";
CREATE VIEW layouts AS SELECT name FROM snowflake_layouts();
CREATE MATERIALIZED VIEW by_shard AS SELECT snowflake_shard(id), count(*) FROM photos GROUP BY 1;
CREATE RULE no_delete AS ON DELETE TO photos WHERE id = 5 DO INSTEAD NOTHING;
CREATE RULE no_url AS ON UPDATE TO photos WHERE old.url = '' DO INSTEAD NOTHING;
CREATE POLICY positive ON photos USING (id > 0);
CREATE POLICY with_url ON photos USING (url > '');
CREATE TRIGGER of_id BEFORE UPDATE OF id ON photos FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE TRIGGER of_url BEFORE UPDATE OF url ON photos FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE PUBLICATION ids FOR TABLE photos (id);
CREATE FUNCTION age_of(snowflake) RETURNS interval LANGUAGE sql AS 'SELECT now() - snowflake_timestamp($1)';
CREATE FUNCTION newest() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT max(id) FROM photos; END;
CREATE FUNCTION unrelated() RETURNS bigint LANGUAGE sql AS 'SELECT 5::bigint';
-- DROP EXTENSION drops this one, but not what calls it
CREATE FUNCTION dropped_too() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN snowflake_nextval(); END';
ALTER FUNCTION dropped_too DEPENDS ON EXTENSION snowflake;
CREATE VIEW calls AS SELECT dropped_too();
-- and a materialized view, but not what has its rows
CREATE MATERIALIZED VIEW dropped_rows AS SELECT 1 AS n;
ALTER MATERIALIZED VIEW dropped_rows DEPENDS ON EXTENSION snowflake;
CREATE TABLE holds_rows (m dropped_rows);
-- what is computed mints nothing, whatever the function is called
CREATE SCHEMA app;
CREATE FUNCTION app.snowflake_nextval() RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT 5::bigint';
CREATE TABLE computed (id snowflake GENERATED ALWAYS AS (app.snowflake_nextval()::snowflake) STORED);
\pset format unaligned
SELECT * FROM snowflake_dependents();

-- an extension that requires ours, as CREATE EXTENSION notes it
SET allow_system_table_mods = on;
CREATE TABLE known AS SELECT * FROM snowflake_dependents();
BEGIN;
INSERT INTO pg_depend SELECT 'pg_extension'::regclass, e.oid, 0, 'pg_extension'::regclass, o.oid, 0, 'n'
  FROM pg_extension AS e, pg_extension AS o WHERE e.extname = 'plpgsql' AND o.extname = 'snowflake';
SELECT * FROM snowflake_dependents() EXCEPT TABLE known;
ROLLBACK;

-- objects of another catalog, with the numbers of ours or of users' objects, change nothing:
-- what depends on them, and what they depend on
BEGIN;
INSERT INTO pg_depend SELECT 'pg_proc'::regclass, 'unrelated'::regproc, 0, 'pg_ts_parser'::regclass, refobjid, refobjsubid, deptype
  FROM (SELECT DISTINCT refobjid, refobjsubid FROM pg_depend WHERE refobjid >= 16384) AS d, unnest('{n,i,a,e}'::"char"[]) AS deptype;
SELECT * FROM snowflake_dependents() EXCEPT TABLE known;
ROLLBACK;
BEGIN;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, d.oid, 0, 'pg_class'::regclass, a.attrelid, a.attnum, 'n'
  FROM pg_attrdef AS d, pg_attribute AS a WHERE a.attrelid = 'photos'::regclass AND a.attnum > 0;
SELECT * FROM snowflake_dependents() EXCEPT TABLE known;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, o.oid, 0, 'pg_type'::regclass, 'snowflake'::regtype, 0, 'n'
  FROM (SELECT oid FROM pg_attrdef UNION ALL SELECT oid FROM pg_rewrite UNION ALL SELECT oid FROM pg_class WHERE relkind IN ('r', 'p')) AS o;
SELECT * FROM (SELECT * FROM snowflake_dependents() EXCEPT TABLE known) AS more WHERE object <> '' OR statement <> '';
TABLE known EXCEPT SELECT * FROM snowflake_dependents();
ROLLBACK;
BEGIN;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, o.oid, 0, 'pg_extension'::regclass, e.oid, 0, 'e'
  FROM (SELECT oid FROM pg_class UNION SELECT oid FROM pg_type WHERE oid < 16384 UNION SELECT oid FROM pg_rewrite) AS o, pg_extension AS e WHERE e.extname = 'snowflake';
SELECT * FROM snowflake_dependents() EXCEPT TABLE known;
TABLE known EXCEPT SELECT * FROM snowflake_dependents();
ROLLBACK;
-- nor whether a column has rows of a view, which are texts then
BEGIN;
CREATE TABLE holds_layouts (l snowflake_layouts, "all of them" snowflake_layouts[]);
CREATE TYPE holds_layout AS (l snowflake_layouts);
INSERT INTO holds_layouts SELECT l, ARRAY[l] FROM snowflake_layouts AS l WHERE name = 'twitter';
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, 'snowflake_layouts'::regclass, 0, 'pg_extension'::regclass, oid, 0, 'x'
  FROM pg_extension WHERE extname = 'snowflake';
SELECT * FROM snowflake_dependents() EXCEPT TABLE known ORDER BY object;
SELECT statement FROM (SELECT * FROM snowflake_dependents() EXCEPT TABLE known) AS more ORDER BY 1 \gexec
SELECT * FROM snowflake_dependents() EXCEPT TABLE known;
SELECT left(l, 9) AS l, left("all of them", 12) AS "all of them" FROM holds_layouts;
ROLLBACK;
RESET allow_system_table_mods;

DROP EXTENSION snowflake CASCADE;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;
DROP TABLE IF EXISTS known, photos, more_photos, "Order's", "Rest", clicks, events, spread, likes, ranges CASCADE;
DROP TYPE IF EXISTS pair, idrange, photo_id CASCADE;
DROP TABLE IF EXISTS computed, holds_rows;
DROP MATERIALIZED VIEW IF EXISTS dropped_rows;
DROP SCHEMA app CASCADE;
DROP FUNCTION unrelated;
