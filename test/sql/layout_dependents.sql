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
CREATE VIEW uses_last_before AS SELECT snowflake_last_before(at) FROM ids;
CREATE VIEW uses_last_until AS SELECT snowflake_last_until(at) FROM ids;
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
-- what is of another extension is shown, too, and what only depends on this one
ALTER EXTENSION plpgsql ADD VIEW days;
ALTER INDEX plain_day DEPENDS ON EXTENSION snowflake;
SELECT object, uses, remedy FROM found WHERE object !~ 'photos|young';
ALTER EXTENSION plpgsql DROP VIEW days;

-- Rows in partitions, also in those by an expression: by the size of their
-- files, which rows that are gone leave behind until VACUUM.
SELECT object, holds_rows, remedy FROM found WHERE holds_rows IS NOT NULL;
INSERT INTO photos (id) VALUES (snowflake_floor('2026-05-01Z'));
SELECT object, holds_rows, remedy FROM found WHERE holds_rows IS NOT NULL;
TRUNCATE photos, plain;
SELECT object, holds_rows, remedy FROM found WHERE holds_rows IS NOT NULL;
CREATE TABLE by_year (gone integer, id bigint GENERATED ALWAYS AS IDENTITY, twice bigint GENERATED ALWAYS AS (id * 2) STORED, note text) PARTITION BY LIST (extract(year FROM snowflake_timestamp(id) AT TIME ZONE 'UTC'));
ALTER TABLE by_year DROP gone;
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
CREATE TABLE numbers (id bigint DEFAULT snowflake_shard(snowflake_lastval()), other bigint DEFAULT snowflake_nextval(), third snowflake) PARTITION BY RANGE (id);
CREATE TABLE numbers_0 PARTITION OF numbers FOR VALUES FROM (0) TO (10);
CREATE TABLE minted (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE minted_0 PARTITION OF minted FOR VALUES FROM (0) TO (10);
SELECT * FROM found WHERE object ~ 'clicks|numbers|minted';

-- A partition's own default is shown, whatever that of the table, and that of a table with a column of the same name.
ALTER TABLE photos ALTER kind SET DEFAULT 7;
ALTER TABLE photos_0 ALTER kind SET DEFAULT snowflake_shard(5);
CREATE TABLE apart (kind integer DEFAULT snowflake_shard(5), twice integer GENERATED ALWAYS AS (kind * 2) STORED);
CREATE STATISTICS apart ON kind, twice FROM apart;
SELECT object, uses, remedy FROM found WHERE object ~ '(column|statistics) ';

-- A field of a composite type is no column, and a partition's copy of a trigger is not named.
CREATE TYPE pair AS (x bigint, y integer);
CREATE TABLE of_pairs (id bigint, p pair, s integer GENERATED ALWAYS AS (snowflake_shard((p).x)) STORED);
CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''%'', snowflake_shard(new.id); RETURN new; END';
CREATE TRIGGER told BEFORE INSERT ON minted FOR EACH ROW EXECUTE FUNCTION tells();
SELECT object, uses, remedy FROM found WHERE object ~ 'of_pairs|told';
DROP TABLE of_pairs;
DROP FUNCTION tells CASCADE;
DROP TYPE pair;

-- Objects of different catalogs may have the same oid.  So have these.
CREATE TABLE stranger (id bigint DEFAULT 5, n bigint CONSTRAINT positive CHECK (n > 0)) PARTITION BY RANGE (id);
CREATE STATISTICS strange ON id, n FROM stranger;
CREATE TRIGGER strange BEFORE UPDATE ON stranger FOR EACH ROW EXECUTE FUNCTION note();
CREATE VIEW strange AS SELECT 1;
CREATE MATERIALIZED VIEW stored_strange AS SELECT 1;
CREATE TABLE before AS SELECT * FROM found;
BEGIN;
UPDATE pg_attrdef SET oid = 'days'::regclass WHERE adrelid = 'photos'::regclass AND pg_get_expr(adbin, adrelid) = '7';
UPDATE pg_attrdef SET oid = 'names'::regclass WHERE adrelid = 'apart'::regclass AND pg_get_expr(adbin, adrelid) = '(kind * 2)';
UPDATE pg_constraint SET oid = 'days'::regclass WHERE conname = 'positive';
UPDATE pg_statistic_ext SET oid = 'days'::regclass WHERE stxname = 'strange';
UPDATE pg_trigger SET oid = 'days'::regclass WHERE tgname = 'strange';
UPDATE pg_rewrite SET oid = (SELECT oid FROM pg_attrdef WHERE adrelid = 'apart'::regclass AND adnum = 1) WHERE ev_class = 'strange'::regclass;
-- with what refers to them
CREATE TEMP TABLE moved AS SELECT 'pg_policy'::regclass AS catalog, (SELECT oid FROM pg_policy WHERE polname = 'past') AS old, 'stranger'::regclass::oid AS new
 UNION ALL SELECT 'pg_statistic_ext', (SELECT oid FROM pg_statistic_ext WHERE stxname = 'photos_shards'), 'stored_strange'::regclass
 UNION ALL SELECT 'pg_proc', 'snowflake_to_base32(bigint)'::regprocedure, 'days'::regclass
 UNION ALL SELECT 'pg_operator', min(oid), 'days'::regclass FROM pg_operator WHERE 'snowflake_instant'::regtype IN (oprleft, oprright);
UPDATE pg_policy SET oid = new FROM moved WHERE catalog = 'pg_policy'::regclass AND oid = old;
UPDATE pg_statistic_ext SET oid = new FROM moved WHERE catalog = 'pg_statistic_ext'::regclass AND oid = old;
UPDATE pg_proc SET oid = new FROM moved WHERE catalog = 'pg_proc'::regclass AND oid = old;
UPDATE pg_operator SET oid = new FROM moved WHERE catalog = 'pg_operator'::regclass AND oid = old;
UPDATE pg_depend SET objid = new FROM moved WHERE classid = catalog AND objid = old;
-- members and references
INSERT INTO pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
SELECT 'pg_ts_config'::regclass, object, 0, 'pg_extension'::regclass, oid, 0, 'e' FROM pg_extension, unnest(ARRAY['days'::regclass::oid, 'day'::regproc, 'date'::regtype]) AS object WHERE extname = 'snowflake'
UNION ALL
SELECT 'pg_class'::regclass, 'names'::regclass, 0, 'pg_ts_config'::regclass, oid, 0, 'e' FROM pg_extension WHERE extname = 'snowflake'
UNION ALL
SELECT 'pg_attrdef'::regclass, oid, 0, 'pg_ts_config'::regclass, adrelid, 1, 'a' FROM pg_attrdef WHERE adrelid = 'photos'::regclass
UNION ALL
SELECT 'pg_ts_config'::regclass, oid, 0, 'pg_class'::regclass, adrelid, 1, 'a' FROM pg_attrdef WHERE adrelid = 'photos'::regclass
UNION ALL
SELECT 'pg_attrdef'::regclass, oid, 0, 'pg_ts_config'::regclass, 'snowflake_nextval()'::regprocedure, 0, 'n' FROM pg_attrdef WHERE adrelid = 'numbers'::regclass
UNION ALL
SELECT 'pg_ts_config'::regclass, oid, 0, 'pg_proc'::regclass, 'snowflake_nextval()'::regprocedure, 0, 'n' FROM pg_attrdef WHERE adrelid = 'numbers'::regclass
UNION ALL
SELECT 'pg_class'::regclass, 'strange'::regclass, 0, 'pg_ts_config'::regclass, 'day'::regproc, 0, 'n';
(TABLE found EXCEPT ALL TABLE before) UNION ALL (TABLE before EXCEPT ALL TABLE found);
ROLLBACK;
DROP TABLE before, stranger CASCADE;
DROP VIEW strange;
DROP MATERIALIZED VIEW stored_strange;

-- With the same layout there is nothing to accept.
SELECT * FROM snowflake_accept_layout();
SELECT * FROM snowflake_accept_layout(allow_misplaced_rows => true);
SELECT * FROM snowflake_accept_layout(NULL);
\echo :SQLSTATE

DROP VIEW found;
SET client_min_messages = warning;
DROP TABLE photos, plain, by_year, far, clicks, numbers, minted, apart CASCADE;
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
