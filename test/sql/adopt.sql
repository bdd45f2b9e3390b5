--
-- snowflake_adopt: the DDL that turns a key into one that mints itself.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never

-- what became of a database: columns, defaults, foreign keys, sequences
CREATE VIEW anatomy AS
SELECT format('%s.%s %s%s', attrelid::regclass, attname, format_type(atttypid, NULL),
              ' DEFAULT ' || pg_get_expr(adbin, adrelid)) AS thing
  FROM pg_attribute
  JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p')
  LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
 WHERE attnum > 0 AND NOT attisdropped AND relname <> 'files' AND relnamespace = 'public'::regnamespace
UNION ALL
SELECT format('%s %s%s', conrelid::regclass, pg_get_constraintdef(oid), CASE WHEN convalidated THEN '' ELSE ' not valid' END)
  FROM pg_constraint
 WHERE contype IN ('f', 'p') AND connamespace = 'public'::regnamespace
UNION ALL
SELECT format('sequence %s', oid::regclass) FROM pg_class WHERE relkind = 'S'
 ORDER BY 1;

-- where a table is stored, before and after
CREATE TABLE files (relation text, file oid);
CREATE VIEW rewritten AS
SELECT relation, file <> pg_relation_filenode(relation::regclass) AS rewritten FROM files ORDER BY relation;

-- a table that has nothing to do with the others
CREATE SCHEMA others;
CREATE TABLE others.photos (id bigint DEFAULT 5);

-- bigserial, with a reference of its own and one from elsewhere
CREATE TABLE photos (
    id bigserial PRIMARY KEY,
    parent bigint REFERENCES photos ON DELETE SET NULL DEFERRABLE,
    url text
);
CREATE TABLE comments (id bigserial PRIMARY KEY, photo bigint NOT NULL REFERENCES photos ON DELETE CASCADE);
INSERT INTO photos (parent, url) SELECT NULLIF(n - 1, 0), 'u' || n FROM generate_series(1, 100) AS n;
INSERT INTO comments (photo) SELECT id FROM photos;
INSERT INTO files SELECT r, pg_relation_filenode(r)
  FROM unnest('{photos, photos_pkey, comments, comments_pkey}'::regclass[]) AS r;

SELECT * FROM snowflake_adopt('photos', 'id', 5);
SELECT * FROM anatomy;
-- so far nothing was minted, in a transaction that may only read
BEGIN READ ONLY;
SELECT count(*) FROM snowflake_adopt(relation => 'photos', column_name => 'id', shard => 5, dry_run => true);
COMMIT;
SELECT snowflake_lastval();
\echo :SQLSTATE
SELECT * FROM snowflake_adopt('photos', 'id', 5, dry_run => false);
SELECT snowflake_shard(snowflake_lastval()) AS minted_on;
SELECT * FROM anatomy;
SELECT * FROM rewritten;
INSERT INTO photos (url) VALUES ('new') RETURNING id > 100 AS later, snowflake_shard(id) AS shard;
INSERT INTO comments (photo) SELECT max(id) FROM photos;
INSERT INTO comments (photo) VALUES (101);
DELETE FROM photos WHERE url IN ('new', 'u7');
SELECT count(*) FROM comments;

-- once more there is nothing to do, but for another default
SELECT * FROM snowflake_adopt('photos', 'id', 5);
SELECT * FROM snowflake_adopt('photos', 'id', 6, false);
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'photos'::regclass;

-- all of the server's own shards
SELECT * FROM snowflake_adopt('comments', 'id');
\echo :SQLSTATE
SET snowflake.shards = '7-8';
SELECT * FROM snowflake_adopt('comments', 'id', dry_run => false);
INSERT INTO comments (photo) VALUES (1) RETURNING snowflake_shard(id) AS shard;
SELECT * FROM snowflake_adopt('comments', 'id', 5);
\echo :SQLSTATE
SET snowflake.shards = ' 1, 3 - 6 ,9-12';
SELECT shard, count(*) FROM generate_series(0, 1023) AS shard, snowflake_adopt('photos', 'id', shard)
 WHERE shard IN (1, 3, 5, 9, 12) GROUP BY shard ORDER BY shard;
DO $$
DECLARE refused int[];
BEGIN
    FOR shard IN 0..13 LOOP
        BEGIN
            PERFORM snowflake_adopt('photos', 'id', shard);
        EXCEPTION WHEN insufficient_privilege THEN
            refused := refused || shard;
        END;
    END LOOP;
    RAISE NOTICE 'refused: %', refused;
END $$;
RESET snowflake.shards;
SELECT * FROM snowflake_adopt('comments', 'id', 1024);
\echo :SQLSTATE
SELECT * FROM snowflake_adopt('comments', 'id', -1);

-- the statements do the same when they are pasted, wherever one stands
DROP TABLE photos, comments;
DELETE FROM files;
CREATE SCHEMA "My Shop";
CREATE TABLE "My Shop"."Order's" ("Order Id" integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text);
CREATE TABLE "My Shop"."line ""items""" (id smallint PRIMARY KEY, "order" integer REFERENCES "My Shop"."Order's");
CREATE TABLE "My Shop".parcels ("order" int REFERENCES "My Shop"."Order's", line smallint REFERENCES "My Shop"."line ""items""");
INSERT INTO "My Shop"."Order's" (note) SELECT 'n' || n FROM generate_series(1, 3) AS n;
INSERT INTO "My Shop"."line ""items""" VALUES (1, 1), (2, 1), (3, 3);
INSERT INTO "My Shop".parcels VALUES (1, 1), (3, 3);
SET search_path = "My Shop";
SELECT * FROM public.snowflake_adopt('"Order''s"', 'Order Id', 5) AS statement;
SELECT * FROM public.snowflake_adopt('"Order''s"', 'Order Id', 5) \gexec
RESET search_path;
SELECT * FROM snowflake_adopt('"My Shop"."Order''s"', 'Order Id', 5);
SELECT attrelid::regclass AS "table", attname AS "column", atttypid::regtype AS type, attidentity AS identity
  FROM pg_attribute JOIN pg_class ON oid = attrelid
 WHERE relnamespace = '"My Shop"'::regnamespace AND relkind = 'r' AND attnum > 0
 ORDER BY 1, attnum;
INSERT INTO "My Shop"."Order's" (note) VALUES ('new') RETURNING "Order Id" > 3 AS minted;
SELECT * FROM "My Shop".parcels ORDER BY 1;
INSERT INTO "My Shop".parcels VALUES (99, 1);
DROP SCHEMA "My Shop" CASCADE;

-- keys that are also references, one after the other; each table changes after those that it refers to
CREATE TABLE people (id int PRIMARY KEY);
CREATE TABLE staff (id int PRIMARY KEY REFERENCES people, boss int REFERENCES staff);
CREATE TABLE desks (staff int REFERENCES staff, person int REFERENCES people);
CREATE TABLE badges (holder int REFERENCES people REFERENCES staff);
INSERT INTO people VALUES (1), (2);
INSERT INTO staff VALUES (1, NULL), (2, 1);
INSERT INTO desks VALUES (1, 2);
INSERT INTO badges VALUES (2);
SELECT * FROM snowflake_adopt('people', 'id', 5, false);
SELECT * FROM anatomy;
SELECT * FROM desks;
SELECT snowflake_adopt('staff', 'id', 5);
\echo :SQLSTATE
DROP TABLE people, staff, desks, badges;

-- a key of two columns
CREATE TABLE tenants (tenant int, id serial, PRIMARY KEY (tenant, id));
CREATE TABLE visits (tenant int, visitor int, FOREIGN KEY (tenant, visitor) REFERENCES tenants (tenant, id));
INSERT INTO tenants VALUES (1), (2);
INSERT INTO visits SELECT * FROM tenants;
SELECT * FROM snowflake_adopt('tenants', 'id', 5, false);
SELECT * FROM anatomy;
DROP TABLE tenants, visits;

-- a partitioned table, which is referred to, and refers to itself by a partition
CREATE TABLE logs (at date, id bigserial, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE logs_2 (at date NOT NULL, id bigint NOT NULL);
ALTER TABLE logs ATTACH PARTITION logs_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE notes (at date, log int, FOREIGN KEY (at, log) REFERENCES logs (at, id)) PARTITION BY RANGE (at);
CREATE TABLE notes_1 PARTITION OF notes DEFAULT;
INSERT INTO logs VALUES ('2026-01-01'), ('2026-02-01');
INSERT INTO notes SELECT * FROM logs;
SELECT * FROM snowflake_adopt('logs', 'id', 5, false);
SELECT * FROM anatomy WHERE thing ~ '\.|sequence';
INSERT INTO logs VALUES ('2026-02-02') RETURNING tableoid::regclass, id > 2 AS minted;
SELECT count(*) FROM logs JOIN notes ON id = log;
DROP TABLE logs, notes;

-- a table partitioned by another number than its ids, or otherwise, has no end for them
CREATE TABLE by_tenant (id bigint, tenant bigint) PARTITION BY RANGE (tenant);
CREATE TABLE by_tenant_1 PARTITION OF by_tenant FOR VALUES FROM (0) TO (100);
CREATE TABLE by_both (id bigint, tenant bigint) PARTITION BY RANGE (id, tenant);
CREATE TABLE by_both_1 PARTITION OF by_both FOR VALUES FROM (0, 0) TO (100, 100);
CREATE TABLE by_list (id bigint) PARTITION BY LIST (id);
CREATE TABLE by_list_1 PARTITION OF by_list FOR VALUES IN (100);
CREATE TABLE by_hash (id bigint) PARTITION BY HASH (id);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT t AS adopted FROM unnest(ARRAY['by_both', 'by_hash', 'by_list', 'by_tenant']::regclass[]) AS t, snowflake_adopt(t, 'id', 5, column_type => 'bigint')
 GROUP BY t ORDER BY t::text;
DROP TABLE by_tenant, by_both, by_list, by_hash;

-- a table partitioned by its serial ids, with no partition for those that are minted; the hint
-- leads out
CREATE TABLE clicks (id bigserial PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE clicks_1 PARTITION OF clicks FOR VALUES FROM (0) TO (1000000);
INSERT INTO clicks DEFAULT VALUES;
\set VERBOSITY terse
SELECT * FROM snowflake_adopt('clicks', 'id', 5, column_type => 'bigint');
SELECT * FROM snowflake_adopt('clicks', 'id', 5, false, 'bigint');
\set VERBOSITY default
DO $$
DECLARE
    hint text;
BEGIN
    PERFORM snowflake_adopt('clicks', 'id', 5, column_type => 'bigint');
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    EXECUTE substring(hint FROM 'CREATE TABLE .*;');
END
$$;
SELECT * FROM snowflake_adopt('clicks', 'id', 5, false, 'bigint');
INSERT INTO clicks DEFAULT VALUES RETURNING tableoid::regclass, id > 1000000 AS minted;
SELECT area, state FROM snowflake_check(partitions_for => '100 days') WHERE area IN ('columns', 'partitions');
SELECT rtrim(next_step, ';') AS make FROM snowflake_check(partitions_for => '100 days') WHERE area = 'partitions' \gset
SELECT count(*) >= 3 AS made FROM (:make) AS made;
SELECT area, state FROM snowflake_check(partitions_for => '100 days') WHERE area IN ('columns', 'partitions');
CREATE TABLE clicks_rest PARTITION OF clicks DEFAULT;
DROP TABLE clicks;

-- a table with children
CREATE TABLE animals (id serial PRIMARY KEY, name text);
CREATE TABLE dogs () INHERITS (animals);
INSERT INTO dogs (name) VALUES ('Rex');
SELECT * FROM snowflake_adopt('animals', 'id', 5, false);
SELECT * FROM anatomy WHERE thing ~ '\.id|sequence';
INSERT INTO dogs (name) VALUES ('Wolf') RETURNING id > 1 AS minted;

-- sequences: one that others use too stays, and so does one that is nobody's
CREATE TABLE one (id serial PRIMARY KEY);
CREATE TABLE two (id int PRIMARY KEY DEFAULT nextval('one_id_seq'));
CREATE SEQUENCE free;
CREATE TABLE three (id bigint PRIMARY KEY DEFAULT nextval('free'));
SELECT * FROM snowflake_adopt('one', 'id', 5, false);
SELECT * FROM snowflake_adopt('three', 'id', 5, false);
DROP TABLE one;
INSERT INTO two VALUES (DEFAULT) RETURNING id;
DROP TABLE two, three;
DROP SEQUENCE one_id_seq, free;

-- a default that would be lost
CREATE FUNCTION next_id() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE TABLE kept (id bigint PRIMARY KEY DEFAULT 42);
CREATE TABLE kept_too () INHERITS (kept);
SELECT snowflake_adopt('kept', 'id', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('kept', 'id', 5, false);
CREATE SEQUENCE "it's \one";
DO $$
DECLARE
    value text;
    refused text;
BEGIN
    FOREACH value IN ARRAY ARRAY['next_id()', 'nextval(''"it''''s \one"'') * 2', '1 + nextval(''"it''''s \one"'')',
                                 'nextval(''"it''''s \one"'') + nextval(''"it''''s \one"'')', 'snowflake_nextval(5) + 1',
                                 'snowflake_nextval(extract(hour from now())::int)', 'snowflake_nextval(5 + 1)',
                                 '''5''', 'lastval()', 'snowflake_floor(now())',
                                 'nextval(''"it''''s \one"'')', '(nextval(''"it''''s \one"'')::int)',
                                 'nextval(''"it''''s \one"''::text::regclass)', 'snowflake_nextval()', 'snowflake_nextval(7)::bigint'] LOOP
        EXECUTE 'ALTER TABLE kept ALTER id SET DEFAULT ' || value;
        BEGIN
            PERFORM snowflake_adopt('kept', 'id', 5);
            RAISE NOTICE 'replaced: %', value;
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            GET STACKED DIAGNOSTICS refused = PG_EXCEPTION_DETAIL;
            RAISE NOTICE '%', refused;
        END;
    END LOOP;
END $$;
-- a child's or a partition's own
ALTER TABLE kept_too ALTER id SET DEFAULT 43;
SELECT snowflake_adopt('kept', 'id', 5);
ALTER TABLE kept_too ALTER COLUMN id DROP DEFAULT;
SELECT snowflake_adopt('kept', 'id', 5);
DROP TABLE kept, kept_too;
DROP SEQUENCE "it's \one";
DROP FUNCTION next_id();

-- no default, no index
CREATE TABLE plain (id bigint);
SELECT * FROM snowflake_adopt('plain', 'id', 5, false);
INSERT INTO plain VALUES (DEFAULT) RETURNING id > 0 AS minted;
DROP TABLE plain;

-- identities: of a child, which goes as well; of what refers to the key, which is in the way
CREATE TABLE parents (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY);
CREATE TABLE children () INHERITS (parents);
ALTER TABLE children ALTER id ADD GENERATED ALWAYS AS IDENTITY;
SELECT * FROM snowflake_adopt('parents', 'id', 5, false);
SELECT * FROM anatomy WHERE thing ~ 'parents|children';
CREATE TABLE friends (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE pets (id int GENERATED ALWAYS AS IDENTITY REFERENCES friends, name text);
SELECT snowflake_adopt('friends', 'id', 5);
\echo :SQLSTATE
ALTER TABLE pets ALTER id TYPE bigint;
SELECT * FROM snowflake_adopt('friends', 'id', 5, false);
-- and that of a partition, which from 17 on is its parent's, also with an index of its own
CREATE TABLE rooms (id bigint GENERATED ALWAYS AS IDENTITY, floor int) PARTITION BY LIST (floor);
CREATE TABLE rooms_1 PARTITION OF rooms FOR VALUES IN (1);
CREATE INDEX ON rooms_1 (id);
SELECT * FROM snowflake_adopt('rooms', 'id', 5, false);
DROP TABLE parents, children, friends, pets, rooms;

-- what Citus refuses, which keeps such a list
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass NOT NULL, partmethod "char" NOT NULL, partkey text,
                                           colocationid integer NOT NULL DEFAULT 0, repmodel "char" NOT NULL DEFAULT 'c');
RESET allow_system_table_mods;
CREATE TABLE spread (tenant bigint, id bigserial, code bigint, nr int GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (tenant, id));
CREATE TABLE nearby (id bigint PRIMARY KEY, note text);
CREATE TABLE linked (nearby bigint REFERENCES nearby, other int REFERENCES nearby);
SELECT count(*) FROM snowflake_adopt('spread', 'tenant', 5);
INSERT INTO pg_dist_partition
SELECT relid, 'h', format('{VAR :varno 1 :varattno %s :vartype 20 :vartypmod -1 :varcollid 0 :varlevelsup 0 :location -1}', attnum)
  FROM (VALUES ('spread'::regclass, 1), ('linked', 1)) AS distributed(relid, attnum);
INSERT INTO pg_dist_partition VALUES ('nearby', 'n', NULL);
SELECT snowflake_adopt('spread', 'tenant', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('spread', 'id', 5);
SELECT snowflake_adopt('spread', 'nr', 5);
SELECT * FROM snowflake_adopt('spread', 'code', 5);
ALTER TABLE spread ALTER code TYPE snowflake, ALTER code SET DEFAULT snowflake_nextval(5), ALTER tenant TYPE snowflake;
SELECT snowflake_adopt('spread', 'tenant', 5);
ALTER TABLE spread ALTER tenant SET DEFAULT snowflake_nextval(5);
SELECT * FROM snowflake_adopt('spread', 'tenant', 5);
SELECT * FROM snowflake_adopt('spread', 'code', 6);
SELECT * FROM snowflake_adopt('nearby', 'id', 5);
UPDATE pg_dist_partition SET partkey = replace(partkey, 'varattno 1', 'varattno 2') WHERE logicalrelid = 'linked'::regclass;
SELECT * FROM snowflake_adopt('nearby', 'id', 5);
SET allow_system_table_mods = on;
DROP TABLE pg_catalog.pg_dist_partition;
RESET allow_system_table_mods;
DROP TABLE spread, linked, nearby;

-- checks are checked again, indexes on expressions are built again; both hold afterwards
CREATE TABLE checked (id bigserial PRIMARY KEY CHECK (id > 0));
CREATE INDEX checked_odd ON checked ((id % 2)) WHERE id > 10;
SELECT * FROM snowflake_adopt('checked', 'id', 5, false);
SELECT pg_get_indexdef('checked_odd'::regclass), pg_get_constraintdef(oid)
  FROM pg_constraint WHERE conrelid = 'checked'::regclass AND contype = 'c';
INSERT INTO checked VALUES (-1);
DROP TABLE checked;

-- in the way: of the key, of a short reference, of one that may stay bigint
CREATE TABLE films (id bigserial PRIMARY KEY, title text);
CREATE VIEW titles AS SELECT id, title FROM films;
SELECT snowflake_adopt('films', 'id', 5);
\echo :SQLSTATE
DROP VIEW titles;
CREATE POLICY low ON films USING (id < 5);
ALTER TABLE films ADD half bigint GENERATED ALWAYS AS (id / 2) STORED;
SELECT snowflake_adopt('films', 'id', 5);
DROP POLICY low ON films;
ALTER TABLE films DROP half;
CREATE TABLE shows (film int REFERENCES films, at date);
CREATE VIEW showing AS SELECT film FROM shows;
SELECT snowflake_adopt('films', 'id', 5);
DROP VIEW showing;
ALTER TABLE shows ALTER film TYPE bigint;
CREATE VIEW showing AS SELECT film FROM shows;
SELECT * FROM snowflake_adopt('films', 'id', 5);
CREATE TABLE byfilm (film bigint REFERENCES films) PARTITION BY LIST (film);
CREATE DOMAIN film_id AS bigint;
CREATE TABLE with_domain (film film_id REFERENCES films);
SELECT * FROM snowflake_adopt('films', 'id', 5, false);
SELECT * FROM anatomy WHERE thing ~ 'film';
DROP VIEW showing;
DROP TABLE films, shows, byfilm, with_domain;
DROP DOMAIN film_id;
CREATE TABLE films (id serial PRIMARY KEY);
CREATE TABLE actors (id int PRIMARY KEY);
CREATE TABLE stars (film int REFERENCES films CONSTRAINT also REFERENCES actors);
SELECT snowflake_adopt('films', 'id', 5);
DROP TABLE stars;
CREATE DOMAIN film_id AS int;
CREATE TABLE stars (film film_id REFERENCES films);
SELECT snowflake_adopt('films', 'id', 5);
DROP TABLE films, actors, stars;
DROP DOMAIN film_id;

-- an id that is not below those to be minted
CREATE TABLE ahead (id bigserial PRIMARY KEY);
INSERT INTO ahead VALUES (snowflake_floor('2076-01-01')), (1);
\set VERBOSITY terse
SELECT snowflake_adopt('ahead', 'id', 5);
\echo :SQLSTATE
\set VERBOSITY default
UPDATE ahead SET id = snowflake_floor(clock_timestamp() - interval '1 s') WHERE id > 1;
SELECT * FROM snowflake_adopt('ahead', 'id', 5);
DROP TABLE ahead;

-- what is no key of one's own
CREATE TABLE wrong (t text, n numeric, g bigint GENERATED ALWAYS AS (1) STORED, gone int, id bigint) PARTITION BY RANGE (id);
CREATE TABLE wrong_1 PARTITION OF wrong DEFAULT;
ALTER TABLE wrong DROP gone;
CREATE VIEW seen AS SELECT 1::bigint AS id;
SELECT snowflake_adopt('wrong', 't', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('wrong', 'n', 5);
SELECT snowflake_adopt('wrong', 'g', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('wrong', 'none', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('wrong', '........pg.dropped.4........', 5);
SELECT snowflake_adopt('wrong', 'ctid', 5);
SELECT snowflake_adopt('wrong', 'id', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('wrong_1', 'id', 5);
SELECT snowflake_adopt('dogs', 'id', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('seen', 'id', 5);
\echo :SQLSTATE
SELECT snowflake_adopt(0, 'id', 5);
\echo :SQLSTATE
SELECT snowflake_adopt(NULL, 'id', 5);
\echo :SQLSTATE
SELECT snowflake_adopt('wrong', NULL, 5);
SELECT snowflake_adopt('wrong', 'id', 5, NULL);
DROP VIEW seen;
DROP TABLE wrong, animals, dogs;

-- somebody else's table, and one's own that others refer to
CREATE ROLE regress_snowflake_adopter;
CREATE TABLE theirs (id bigserial PRIMARY KEY);
CREATE TABLE refers (theirs bigint REFERENCES theirs);
GRANT ALL ON theirs TO regress_snowflake_adopter;
SET ROLE regress_snowflake_adopter;
SELECT snowflake_adopt('theirs', 'id', 5);
\echo :SQLSTATE
RESET ROLE;
ALTER TABLE theirs OWNER TO regress_snowflake_adopter;
ALTER TABLE theirs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SET ROLE regress_snowflake_adopter;
SELECT snowflake_adopt('theirs', 'id', 5);
\echo :SQLSTATE
ALTER TABLE theirs NO FORCE ROW LEVEL SECURITY;
-- who may not mint
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_nextval(integer) FROM PUBLIC;
SET ROLE regress_snowflake_adopter;
SELECT snowflake_adopt('theirs', 'id', 5);
\echo :SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval(integer) TO PUBLIC;
SET ROLE regress_snowflake_adopter;
SELECT * FROM snowflake_adopt('theirs', 'id', 5, false);
RESET ROLE;
SELECT * FROM anatomy WHERE thing ~ 'their';
DROP TABLE theirs, refers;
DROP OWNED BY regress_snowflake_adopter;
DROP ROLE regress_snowflake_adopter;

-- in the caller's transaction
CREATE TABLE undone (id serial PRIMARY KEY);
BEGIN;
SELECT count(*) FROM snowflake_adopt('undone', 'id', 5, false);
ROLLBACK;
INSERT INTO undone VALUES (DEFAULT) RETURNING id;
DROP TABLE undone;

-- the extension in a schema that is not searched, and a search_path that lies
CREATE SCHEMA "More Ids";
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA "More Ids";
CREATE SCHEMA lies;
CREATE FUNCTION lies.snowflake_nextval(integer) RETURNS bigint LANGUAGE sql AS 'SELECT 42::bigint';
CREATE FUNCTION lies.never(oid, oid) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END';
CREATE OPERATOR lies.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = lies.never);
CREATE DOMAIN lies.snowflake AS text;
CREATE TABLE lies.pg_class (id serial PRIMARY KEY);
SET search_path = lies, pg_catalog;
SELECT * FROM "More Ids".snowflake_adopt('lies.pg_class', 'id', 5, false);
INSERT INTO lies.pg_class VALUES (DEFAULT) RETURNING id > 42 AS minted;
RESET search_path;
DROP TABLE lies.pg_class;
DROP SCHEMA lies CASCADE;

DROP VIEW anatomy, rewritten;
DROP TABLE files, others.photos;
DROP SCHEMA others;
DROP EXTENSION snowflake;
DROP SCHEMA "More Ids";
