--
-- snowflake_adopt and snowflake_revert beside things that only look like theirs: other
-- columns, tables, sequences, constraints and rights.  (What they do: adopt.sql, revert.sql.)
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET snowflake.shards = '5';
SET client_min_messages = warning;
CREATE ROLE regress_snowflake_owner;
CREATE ROLE regress_snowflake_other;
GRANT CREATE ON SCHEMA public TO regress_snowflake_owner;

-- bystanders: a key of the same name and number, with each kind of thing
CREATE TABLE other (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code bigserial UNIQUE, n bigint DEFAULT 7);
CREATE TABLE other_refers (id bigint REFERENCES other, code bigint REFERENCES other (code));
CREATE TABLE other_owned (id bigserial PRIMARY KEY);
CREATE TABLE other_refers_to_owned (id bigint REFERENCES other_owned);
ALTER TABLE other_owned OWNER TO regress_snowflake_other;
ALTER TABLE other_refers_to_owned OWNER TO regress_snowflake_other;
GRANT INSERT (id) ON other TO regress_snowflake_other;
CREATE VIEW other_view AS SELECT id FROM other;
CREATE TABLE other_list (n integer, id bigint) PARTITION BY LIST (id);
CREATE TABLE other_list_1 PARTITION OF other_list FOR VALUES IN (1);
CREATE TABLE other_range (id bigint) PARTITION BY RANGE (id);
CREATE TABLE other_range_1 PARTITION OF other_range FOR VALUES FROM (0) TO (10);

-- a table with a key among other columns, that others refer to by other columns, too
CREATE TABLE films (a integer DEFAULT 5, id bigserial PRIMARY KEY, code bigserial UNIQUE, short integer UNIQUE, b text DEFAULT 'none', c bigint DEFAULT nextval('films_id_seq'));
CREATE INDEX ON films (id);
CREATE VIEW titles AS SELECT a, code, b FROM films;
CREATE TABLE cast_of (film bigint REFERENCES films, code bigint REFERENCES films (code), other bigint REFERENCES other, short integer REFERENCES films (short));
SELECT snowflake_adopt('films', 'id');
SELECT snowflake_adopt('films', 'a');
CREATE TABLE twice (film integer REFERENCES films (id) REFERENCES films (short));
SELECT snowflake_adopt('films', 'id');
ALTER TABLE twice DROP CONSTRAINT twice_film_fkey1;
CREATE TABLE of_other (film integer REFERENCES films (id) REFERENCES other (id), beside integer REFERENCES films (short));
SELECT snowflake_adopt('films', 'id', dry_run => false);
SELECT snowflake_adopt('films', 'id', dry_run => false);
SELECT snowflake_revert('films', 'id');
SELECT snowflake_revert('other', 'id');
SELECT count(*) FROM snowflake_revert('other', 'n');
DROP TABLE twice, of_other, cast_of;

-- references that go round; views and partition keys of a partition of what refers
CREATE TABLE people (id bigint PRIMARY KEY);
CREATE TABLE x (id bigint PRIMARY KEY REFERENCES people);
CREATE TABLE y (id bigint PRIMARY KEY REFERENCES x);
ALTER TABLE x ADD FOREIGN KEY (id) REFERENCES y;
CREATE TABLE notes (n integer, person bigint REFERENCES people) PARTITION BY LIST (n);
CREATE TABLE notes_1 PARTITION OF notes FOR VALUES IN (1);
CREATE TABLE notes_2 PARTITION OF notes FOR VALUES IN (2) PARTITION BY LIST (person);
CREATE VIEW some_notes AS SELECT person FROM notes_1;
SET statement_timeout = '30s';
SET client_min_messages = notice;
SELECT snowflake_adopt('people', 'id');
SET client_min_messages = warning;
RESET statement_timeout;
DROP TABLE people, x, y, notes CASCADE;

-- going back: nothing below 1 is a place for a sequence; names; who may insert
CREATE TABLE zero (gone integer, id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), note text);
GRANT INSERT (gone) ON zero TO regress_snowflake_other;
ALTER TABLE zero DROP gone;
GRANT INSERT ON zero TO PUBLIC;
INSERT INTO zero VALUES (0), (-5);
CREATE INDEX ON zero (id);
SELECT snowflake_revert('zero', 'id', false);
INSERT INTO zero VALUES (DEFAULT) RETURNING id;
SELECT count(*) FROM snowflake_adopt('zero', 'id', dry_run => false);
INSERT INTO zero VALUES (41) ON CONFLICT DO NOTHING;
DELETE FROM zero WHERE id > 41;
SELECT snowflake_revert('zero', 'id', false);
INSERT INTO zero VALUES (DEFAULT) RETURNING id;
DROP TABLE zero;
CREATE TABLE theirs (id snowflake DEFAULT snowflake_nextval(), note text);
ALTER TABLE theirs OWNER TO regress_snowflake_owner;
INSERT INTO theirs VALUES (0), (-5);
SELECT snowflake_revert('theirs', 'id', false);
INSERT INTO theirs VALUES (DEFAULT) RETURNING id;
SELECT count(*) FROM snowflake_adopt('theirs', 'id', dry_run => false);
INSERT INTO theirs VALUES (41);
DELETE FROM theirs WHERE id > 41;
SELECT snowflake_revert('theirs', 'id', false);
INSERT INTO theirs VALUES (DEFAULT) RETURNING id;
DROP TABLE theirs;

-- a child of a superuser, whose rights its owner has, but not the other way round
CREATE TABLE parents (id integer);
CREATE TABLE children () INHERITS (parents);
ALTER TABLE parents OWNER TO regress_snowflake_owner;
\set VERBOSITY terse
SELECT snowflake_adopt('parents', 'id');
\set VERBOSITY default
ALTER TABLE children OWNER TO regress_snowflake_owner;
-- what is in the way of a child's column, of a partition's
CREATE VIEW some_children AS SELECT id FROM children;
SELECT snowflake_adopt('parents', 'id');
DROP TABLE parents, children CASCADE;
CREATE TABLE logs (at date, id bigint) PARTITION BY RANGE (at);
CREATE TABLE logs_1 PARTITION OF logs DEFAULT;
CREATE VIEW some_logs AS SELECT id FROM logs_1;
SELECT snowflake_adopt('logs', 'id');
DROP VIEW some_logs;
-- partitions by an expression of the key, by another column
CREATE TABLE odd (n integer, id bigint) PARTITION BY RANGE ((id % 2));
SELECT snowflake_adopt('odd', 'id');
SELECT count(*) FROM snowflake_adopt('odd', 'n');
DROP TABLE logs, odd;

-- ids that are ahead, of a table without an index, in earnest; none where the default stays
CREATE TABLE ahead (id bigint);
INSERT INTO ahead VALUES (snowflake_floor('2076-01-01'));
\set VERBOSITY terse
SELECT snowflake_adopt('ahead', 'id');
SELECT snowflake_adopt('ahead', 'id', dry_run => false);
ALTER TABLE ahead ALTER id TYPE snowflake, ALTER id SET DEFAULT snowflake_nextval();
SELECT count(*) FROM snowflake_adopt('ahead', 'id', dry_run => false);
DROP TABLE ahead;
\set VERBOSITY default
-- partitions that end before what is minted, while those of other tables do, too, or have no end
CREATE TABLE ends (id bigint, n bigint) PARTITION BY RANGE (id);
CREATE TABLE ends_1 PARTITION OF ends FOR VALUES FROM (0) TO (100);
\set VERBOSITY terse
SELECT snowflake_adopt('ends', 'id', column_type => 'bigint');
\set VERBOSITY default
SELECT snowflake_adopt('ends', 'n', column_type => 'bigint');
DROP TABLE ends;
-- what cannot be looked at
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere;
CREATE TABLE clicks (at date, id bigint) PARTITION BY RANGE (at);
CREATE FOREIGN TABLE clicks_1 PARTITION OF clicks DEFAULT SERVER elsewhere;
SELECT snowflake_adopt('clicks', 'id');
DROP TABLE clicks;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;

-- locks and settings: the caller's own are as before
CREATE TABLE locked (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
BEGIN;
SELECT snowflake_adopt('locked', 'id', dry_run => false);
SELECT mode FROM pg_locks WHERE relation = 'locked'::regclass AND mode = 'AccessExclusiveLock';
ROLLBACK;
BEGIN;
SET LOCAL lock_timeout = '7s';
SELECT snowflake_adopt('locked', 'id');
SHOW lock_timeout;
SELECT mode FROM pg_locks WHERE relation = 'locked'::regclass AND mode = 'AccessExclusiveLock';
COMMIT;
SHOW lock_timeout;

-- shards of leases; arguments that are null
SET snowflake.shards = 'auto';
SELECT snowflake_adopt('locked', 'id', 5);
SELECT snowflake_adopt('locked', 'id');
SET snowflake.shards = '5';
SELECT snowflake_revert('locked', NULL);
SELECT snowflake_revert(NULL, 'id');
SELECT snowflake_adopt('locked', 'id', column_type => NULL);
SELECT snowflake_adopt('locked', NULL);
DROP TABLE locked;

-- rights: on the function that the default calls, on no other; on our schema, for the way there
CREATE TABLE theirs (id bigserial PRIMARY KEY);
ALTER TABLE theirs OWNER TO regress_snowflake_owner;
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC;
SET ROLE regress_snowflake_owner;
SELECT snowflake_adopt('theirs', 'id');
SELECT count(*) FROM snowflake_adopt('theirs', 'id', 5);
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO PUBLIC;
REVOKE EXECUTE ON FUNCTION snowflake_nextval(integer) FROM PUBLIC;
SET ROLE regress_snowflake_owner;
SELECT count(*) FROM snowflake_adopt('theirs', 'id', dry_run => false);
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval(integer) TO PUBLIC;
CREATE SCHEMA ids;
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA ids;
SELECT ids.snowflake_revert('theirs', 'id', false);
SELECT ids.snowflake_adopt('theirs', 'id');
ALTER EXTENSION snowflake SET SCHEMA public;
DROP TABLE theirs;

-- Citus: a column that it distributes by, and one beside it
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass NOT NULL, partkey text);
RESET allow_system_table_mods;
CREATE SEQUENCE free;
CREATE TABLE spread (tenant bigint, id snowflake DEFAULT nextval('free'));
INSERT INTO pg_dist_partition VALUES ('spread', ':varattno 1 ');
SELECT snowflake_adopt('spread', 'id');
SELECT snowflake_adopt('other_owned', 'id');
SET allow_system_table_mods = on;
DROP TABLE pg_catalog.pg_dist_partition;
RESET allow_system_table_mods;
DROP TABLE spread;
DROP SEQUENCE free;

-- objects of another catalog, with the numbers of these, change nothing
CREATE TABLE parents (id bigint GENERATED ALWAYS AS IDENTITY, plain bigserial, minted snowflake DEFAULT snowflake_nextval(), owner bigint DEFAULT nextval('other_code_seq'));
CREATE SEQUENCE minted_too OWNED BY parents.minted;
CREATE FUNCTION all_of_them() RETURNS SETOF text LANGUAGE sql AS $$
SELECT snowflake_adopt('parents', 'id') UNION ALL SELECT snowflake_adopt('parents', 'plain') UNION ALL SELECT snowflake_revert('parents', 'minted')
UNION ALL SELECT snowflake_adopt('films', 'id') UNION ALL SELECT snowflake_adopt('films', 'code') UNION ALL SELECT snowflake_revert('films', 'id') UNION ALL SELECT snowflake_adopt('parents', 'owner') $$;
DROP VIEW titles;
SELECT all_of_them();
SET allow_system_table_mods = on;
CREATE TABLE known AS SELECT all_of_them() AS statement;
-- they depend on these objects
BEGIN;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, o.oid, 0, 'pg_class'::regclass, a.attrelid, a.attnum, t
  FROM pg_attribute AS a, (SELECT oid FROM pg_attrdef UNION SELECT oid FROM pg_class WHERE oid >= 16384) AS o, unnest('{n,a,i}'::"char"[]) AS t
 WHERE a.attrelid IN ('parents'::regclass, 'films'::regclass) AND a.attnum > 0;
SELECT all_of_them() EXCEPT TABLE known;
TABLE known EXCEPT SELECT all_of_them();
ROLLBACK;
-- or these on them
BEGIN;
INSERT INTO pg_depend SELECT c, o.oid, 0, 'pg_ts_parser'::regclass, a.attrelid, a.attnum, t
  FROM pg_attribute AS a, (SELECT 'pg_class'::regclass, oid FROM pg_class WHERE oid >= 16384 AND relkind IN ('S', 'r', 'v') UNION SELECT 'pg_rewrite'::regclass, oid FROM pg_rewrite WHERE oid >= 16384) AS o(c, oid),
       unnest('{n,a,i}'::"char"[]) AS t
 WHERE a.attrelid IN ('parents'::regclass, 'films'::regclass) AND a.attnum > 0;
INSERT INTO pg_depend SELECT 'pg_class'::regclass, 'other_view'::regclass, 0, 'pg_ts_parser'::regclass, oid, 0, 'n' FROM pg_class WHERE relkind = 'S';
INSERT INTO pg_depend SELECT 'pg_class'::regclass, a.attrelid, a.attnum, 'pg_ts_parser'::regclass, a.attrelid, 0, 'i' FROM pg_attribute AS a WHERE a.attrelid IN ('parents'::regclass, 'films'::regclass) AND a.attnum > 0;
INSERT INTO pg_depend SELECT 'pg_ts_parser'::regclass, a.attrelid, a.attnum, 'pg_class'::regclass, a.attrelid, 0, 'i' FROM pg_attribute AS a WHERE a.attrelid IN ('parents'::regclass, 'films'::regclass) AND a.attnum > 0;
SELECT all_of_them() EXCEPT TABLE known;
TABLE known EXCEPT SELECT all_of_them();
ROLLBACK;
RESET allow_system_table_mods;

DROP FUNCTION all_of_them;
DROP TABLE films, parents, known, other, other_refers, other_owned, other_refers_to_owned, other_list, other_range CASCADE;
DROP SEQUENCE films_id_seq;
DROP OWNED BY regress_snowflake_owner, regress_snowflake_other;
DROP ROLE regress_snowflake_owner, regress_snowflake_other;
DROP EXTENSION snowflake;
DROP SCHEMA ids;
