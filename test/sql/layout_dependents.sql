--
-- snowflake_layout_dependents: what depends on the server's layout, found in the
-- catalogs, and what to do about it.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';

CREATE VIEW found AS SELECT * FROM snowflake_layout_dependents();
SELECT * FROM found;

-- No function is forgotten: whatever could be told a layout and is not, goes by
-- the server's, and so do comparisons with times.
CREATE TABLE ids (id snowflake, at timestamptz, n integer);
DO $$
DECLARE f record;
BEGIN
    FOR f IN SELECT p.proname AS name, p.prokind, p.pronargs, p.proargtypes[0]::regtype AS type
               FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
              WHERE 'layout' <> ALL (coalesce(proargnames, '{}'))
                AND proname IN (SELECT proname FROM pg_proc WHERE 'layout' = ANY (proargnames)) LOOP
        EXECUTE format(CASE f.prokind WHEN 'w' THEN 'CREATE VIEW uses_%1$s AS SELECT %1$s(%2$s) OVER () AS x FROM ids'
                       ELSE 'CREATE VIEW uses_%1$s AS SELECT 1 AS x FROM ids, %1$s(%2$s)' END, f.name,
                       CASE f.type WHEN 'bigint'::regtype THEN 'id' ELSE 'at' END || repeat(', n', f.pronargs - 1));
    END LOOP;
    FOR f IN SELECT oid, oprname, oprleft FROM pg_operator
              WHERE 'snowflake_instant'::regtype IN (oprleft, oprright) LOOP
        EXECUTE format(CASE f.oprleft WHEN 'timestamptz'::regtype THEN 'CREATE VIEW compares_%s AS SELECT at %s id AS x FROM ids'
                       ELSE 'CREATE VIEW compares_%s AS SELECT id %s at AS x FROM ids' END, f.oid, f.oprname);
    END LOOP;
END $$;
CREATE VIEW by_cast AS SELECT id::timestamptz FROM ids;
-- those that need no layout
CREATE VIEW independent AS
SELECT snowflake_timestamp(id, 'twitter'), snowflake_floor(at, 'twitter'), snowflake_nextval(), snowflake_to_base32(id) FROM ids;
SELECT regexp_replace(object, 'compares_\d+', 'compares') AS object, uses FROM found ORDER BY uses COLLATE "C", object COLLATE "C";
SELECT relname FROM pg_class WHERE relname ~ '^(uses|compares|by_cast|independent)' AND relkind = 'v'
   AND 'view public.' || relname NOT IN (SELECT object FROM found) ORDER BY 1;
-- The other functions of ids.  A new function comes to this list: if what it gives
-- goes by the server's layout, snowflake_layout_dependents() has to know it.
SELECT p.oid::regprocedure AS knows_no_layout
  FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
 WHERE ('bigint'::regtype = ANY (proargtypes) OR 'snowflake'::regtype = ANY (proargtypes))
   AND 'layout' <> ALL (coalesce(proargnames, '{}'))
   AND 'snowflake_instant'::regtype <> ALL (proargtypes)
   AND proname NOT IN (SELECT proname FROM pg_proc WHERE 'layout' = ANY (proargnames))
 ORDER BY p.oid::regprocedure::text COLLATE "C";
SET client_min_messages = warning;
DROP TABLE ids CASCADE;
RESET client_min_messages;

-- Each kind of object once: by the order in which to do it.
CREATE TABLE photos (
    kind integer,
    id   snowflake PRIMARY KEY,
    url  text DEFAULT 'at ' || snowflake_timestamp(5),
    at   timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED,
    own  timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'twitter')) STORED,
    CONSTRAINT recent CHECK (id > timestamptz '2020-01-01Z')
) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE photos_0 PARTITION OF photos FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE photos_1 PARTITION OF photos FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY RANGE (id);
CREATE TABLE photos_1_all PARTITION OF photos_1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
CREATE INDEX photos_at ON photos (snowflake_timestamp(id));
CREATE INDEX photos_url ON photos (url) WHERE id > timestamptz '2026-01-01Z';
CREATE INDEX photos_own ON photos (snowflake_timestamp(id, 'twitter'));
CREATE DOMAIN young AS bigint CONSTRAINT young CHECK (snowflake_timestamp(VALUE) > '2026-01-01Z');
CREATE STATISTICS photos_shards ON (snowflake_shard(id)), id FROM photos;
CREATE POLICY past ON photos USING (id <= now());
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER noted BEFORE INSERT ON photos FOR EACH ROW WHEN (snowflake_shard(new.id) > 4) EXECUTE FUNCTION note();
CREATE RULE past AS ON UPDATE TO photos WHERE old.id < snowflake_floor(now()) DO ALSO SELECT 1;
SELECT * FROM found;
DROP RULE past ON photos;
DROP TRIGGER noted ON photos;

-- By way of functions, whose bodies the server has parsed or has not; of
-- operators; of views on views.  What only stands on the table is no part of it.
CREATE FUNCTION day(id bigint) RETURNS date LANGUAGE sql IMMUTABLE RETURN (snowflake_timestamp(id) AT TIME ZONE 'UTC')::date;
CREATE FUNCTION textual_day(id bigint) RETURNS date LANGUAGE plpgsql IMMUTABLE
    AS 'BEGIN RETURN (snowflake_timestamp(id) AT TIME ZONE ''UTC'')::date; END';
CREATE FUNCTION same_day(bigint, date) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN day($1) = $2;
CREATE OPERATOR @@@ (LEFTARG = bigint, RIGHTARG = date, FUNCTION = same_day);
CREATE TABLE plain (id bigint PRIMARY KEY, refers snowflake REFERENCES photos, name text);
CREATE INDEX plain_day ON plain (day(id));
CREATE INDEX plain_textual_day ON plain (textual_day(id));
CREATE INDEX plain_some_day ON plain (name) WHERE id @@@ '2026-05-01';
CREATE INDEX plain_hash ON plain USING hash (id snowflake_shard_ops);
CREATE VIEW days AS SELECT day(id), name FROM plain;
CREATE VIEW names AS SELECT name FROM days;
CREATE MATERIALIZED VIEW counts AS SELECT name, count(*) FROM names GROUP BY name;
CREATE VIEW urls AS SELECT url FROM photos;
-- what is of another extension is shown, too
ALTER EXTENSION plpgsql ADD VIEW days;
SELECT object, uses, remedy FROM found WHERE object !~ 'photos|young';
ALTER EXTENSION plpgsql DROP VIEW days;

-- Rows in partitions, also in those by an expression: by the size of their
-- files, which rows that are gone leave behind until VACUUM.
SELECT object, holds_rows, remedy FROM found WHERE holds_rows IS NOT NULL;
INSERT INTO photos (id) VALUES (snowflake_floor('2026-05-01Z'));
SELECT object, holds_rows, remedy FROM found WHERE holds_rows IS NOT NULL;
TRUNCATE photos, plain;
SELECT object, holds_rows, remedy FROM found WHERE holds_rows IS NOT NULL;
CREATE TABLE by_year (id bigint GENERATED ALWAYS AS IDENTITY, note text) PARTITION BY LIST (extract(year FROM snowflake_timestamp(id) AT TIME ZONE 'UTC'));
SELECT object, holds_rows, remedy FROM found WHERE object ~ 'by_year';
CREATE TABLE by_year_any PARTITION OF by_year DEFAULT;
INSERT INTO by_year (note) VALUES ('a row');
SELECT object, holds_rows, remedy FROM found WHERE object ~ 'by_year';
CREATE ROLE regress_snowflake_looker;
SET ROLE regress_snowflake_looker;
SELECT object, holds_rows, remedy FROM snowflake_layout_dependents() WHERE object ~ 'by_year';
RESET ROLE;
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE TABLE far (id snowflake) PARTITION BY HASH (id snowflake_shard_ops);
CREATE FOREIGN TABLE far_0 PARTITION OF far FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER nowhere;
SELECT object, holds_rows, remedy FROM found WHERE object ~ 'far';

-- Bounds are numbers, whose times were the old layout's.
CREATE TABLE clicks (id snowflake) PARTITION BY RANGE (id);
SELECT * FROM found WHERE object ~ 'clicks';
CREATE TABLE clicks_2026 PARTITION OF clicks FOR VALUES FROM (snowflake_floor('2026-01-01Z')) TO (snowflake_floor('2027-01-01Z'));
CREATE TABLE numbers (id bigint DEFAULT snowflake_shard(snowflake_lastval())) PARTITION BY RANGE (id);
CREATE TABLE numbers_0 PARTITION OF numbers FOR VALUES FROM (0) TO (10);
SELECT * FROM found WHERE object ~ 'clicks|numbers';

-- With the same layout there is nothing to accept.
SELECT * FROM snowflake_accept_layout();
SELECT * FROM snowflake_accept_layout(allow_misplaced_rows => true);
SELECT * FROM snowflake_accept_layout(NULL);
\echo :SQLSTATE

DROP VIEW found;
SET client_min_messages = warning;
DROP TABLE photos, plain, by_year, far, clicks, numbers CASCADE;
RESET client_min_messages;
DROP SERVER nowhere;
DROP FOREIGN DATA WRAPPER nowhere;
DROP OPERATOR @@@ (bigint, date);
DROP FUNCTION day, textual_day, same_day, note CASCADE;
DROP DOMAIN young;
DROP ROLE regress_snowflake_looker;

-- The extension in a schema that is not searched.
CREATE SCHEMA "More Ids";
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA "More Ids";
CREATE VIEW times AS SELECT "More Ids".snowflake_timestamp(5);
SELECT * FROM "More Ids".snowflake_layout_dependents();
SELECT * FROM "More Ids".snowflake_accept_layout();
DROP VIEW times;
DROP EXTENSION snowflake;
DROP SCHEMA "More Ids";
