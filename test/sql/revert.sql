--
-- snowflake_revert: the way back from snowflake_adopt.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET snowflake.shards = '5';

CREATE VIEW anatomy AS
SELECT format('%s.%s %s%s', attrelid::regclass, attname, format_type(atttypid, NULL),
              ' DEFAULT ' || pg_get_expr(adbin, adrelid)) AS thing
  FROM pg_attribute
  JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p')
  LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
 WHERE attnum > 0 AND NOT attisdropped AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'My Shop'))
UNION ALL
SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
 WHERE contype IN ('f', 'p') AND conrelid::regclass::text !~ '^pg_'
UNION ALL
SELECT format('sequence %s of %s.%s, owned by %s', oid::regclass, d.refobjid::regclass, a.attname, CASE WHEN relowner = to_regrole('regress_snowflake_reverter') THEN 'the role' ELSE 'us' END)
  FROM pg_class LEFT JOIN pg_depend AS d ON d.objid = oid AND d.deptype = 'a'
  LEFT JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
 WHERE relkind = 'S'
 ORDER BY 1;
CREATE ROLE regress_snowflake_reverter;

-- there and back, of tables that refer to each other, to themselves, with names to
-- be quoted, in another schema
CREATE SCHEMA "My Shop";
CREATE TABLE "My Shop"."Order's" ("Order Id" bigserial PRIMARY KEY, parent bigint REFERENCES "My Shop"."Order's", note text);
CREATE TABLE lines (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "order" bigint NOT NULL REFERENCES "My Shop"."Order's" ON DELETE CASCADE);
INSERT INTO "My Shop"."Order's" (note) VALUES ('a'), ('b');
INSERT INTO lines ("order") VALUES (1), (2);
CREATE TABLE before AS SELECT thing FROM anatomy;
CREATE TABLE files AS SELECT oid::regclass AS relation, pg_relation_filenode(oid) AS file FROM pg_class
 WHERE oid IN ('"My Shop"."Order''s"'::regclass, 'lines'::regclass);
SELECT count(*) FROM snowflake_adopt('"My Shop"."Order''s"', 'Order Id', dry_run => false);
SELECT count(*) FROM snowflake_adopt('lines', 'id', dry_run => false);
INSERT INTO "My Shop"."Order's" (parent) SELECT max("Order Id") FROM "My Shop"."Order's";
INSERT INTO lines ("order") SELECT max("Order Id") FROM "My Shop"."Order's";
SELECT * FROM snowflake_revert('"My Shop"."Order''s"', 'Order Id');
BEGIN READ ONLY;
SELECT count(*) FROM snowflake_revert('lines', 'id');
COMMIT;
-- pasted, and executed
BEGIN;
\o /dev/null
SELECT * FROM snowflake_revert('"My Shop"."Order''s"', 'Order Id') AS statement \gexec
\o
COMMIT;
SELECT * FROM snowflake_revert(relation => 'lines', column_name => 'id', dry_run => false);
SELECT thing FROM anatomy WHERE thing !~ 'before|files' EXCEPT SELECT * FROM before ORDER BY 1;
SELECT * FROM before EXCEPT SELECT thing FROM anatomy ORDER BY 1;
SELECT relation, file <> pg_relation_filenode(relation) AS rewritten FROM files ORDER BY relation;
-- new ids go on above the greatest, and references hold
INSERT INTO "My Shop"."Order's" DEFAULT VALUES RETURNING "Order Id" = (SELECT max("Order Id") + 1 FROM "My Shop"."Order's") AS goes_on;
INSERT INTO lines ("order") SELECT max("Order Id") FROM "My Shop"."Order's" RETURNING id = (SELECT max(id) + 1 FROM lines) AS goes_on;
INSERT INTO lines ("order") VALUES (99);
-- once more there is nothing to do; and there again
SELECT * FROM snowflake_revert('lines', 'id');
SELECT count(*) FROM snowflake_adopt('lines', 'id', dry_run => false);
DROP TABLE before, files, lines;
DROP SCHEMA "My Shop" CASCADE;

-- partitions, children, a name that is taken, a key without rows or without a default
CREATE TABLE logs (id snowflake DEFAULT snowflake_nextval(), at date NOT NULL, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE logs_id_seq (n int);
INSERT INTO logs (at) VALUES ('2026-01-01');
SELECT * FROM snowflake_revert('logs', 'id', false);
INSERT INTO logs (at) VALUES ('2026-01-02') RETURNING tableoid::regclass, id = (SELECT max(id) + 1 FROM logs) AS goes_on;
CREATE TABLE animals (id bigint PRIMARY KEY DEFAULT snowflake_nextval(5));
CREATE TABLE dogs () INHERITS (animals);
SELECT * FROM snowflake_revert('animals', 'id', false);
INSERT INTO dogs DEFAULT VALUES RETURNING id;
CREATE TABLE given (id snowflake PRIMARY KEY, other snowflake DEFAULT 7);
SELECT * FROM snowflake_revert('given', 'id', false);
SELECT * FROM snowflake_revert('given', 'other', false);
CREATE TABLE leftover (id bigserial PRIMARY KEY);
ALTER TABLE leftover ALTER id SET DEFAULT snowflake_nextval();
INSERT INTO leftover VALUES (41);
SELECT * FROM snowflake_revert('leftover', 'id', false);
INSERT INTO leftover DEFAULT VALUES RETURNING id;
SELECT * FROM anatomy WHERE thing !~ '_1|PRIMARY';
DROP TABLE logs, logs_id_seq, animals, dogs, given, leftover;

-- in the way: named
CREATE TABLE films (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), half bigint GENERATED ALWAYS AS (id / 2) STORED);
CREATE VIEW titles AS SELECT id FROM films;
CREATE TABLE stars (film snowflake REFERENCES films) PARTITION BY LIST (film);
CREATE DOMAIN film_id AS snowflake;
CREATE TABLE likes (film film_id REFERENCES films);
SELECT snowflake_revert('films', 'id');
\echo :SQLSTATE
DROP VIEW titles;
ALTER TABLE films ALTER half DROP EXPRESSION;
SELECT * FROM snowflake_revert('films', 'id');
CREATE TABLE clicks (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT snowflake_revert('clicks', 'id');
CREATE DOMAIN click_id AS snowflake;
CREATE TABLE with_domain (id click_id DEFAULT snowflake_nextval());
SELECT snowflake_revert('with_domain', 'id');
-- a reference whose default mints: that is dropped, not turned into a sequence
CREATE TABLE extras (film snowflake DEFAULT snowflake_nextval() REFERENCES films);
SELECT snowflake_revert('extras', 'film');
SELECT step, statement FROM snowflake_dependents() WHERE statement ~ 'extras.* DROP DEFAULT';
DROP TABLE films, stars, likes, clicks, with_domain, extras;
DROP DOMAIN click_id, film_id;

-- a table of another role, and who may insert there
CREATE ROLE regress_snowflake_app;
CREATE ROLE regress_snowflake_aide;
CREATE TABLE theirs (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), note text);
ALTER TABLE theirs OWNER TO regress_snowflake_reverter;
GRANT INSERT (note) ON theirs TO regress_snowflake_app, regress_snowflake_aide;
GRANT SELECT ON theirs TO PUBLIC;
SELECT * FROM snowflake_revert('theirs', 'id');
\echo :SQLSTATE
GRANT CREATE ON SCHEMA public TO regress_snowflake_reverter;
SELECT * FROM snowflake_revert('theirs', 'id', false);
SELECT * FROM anatomy WHERE thing ~ 'sequence';
SET ROLE regress_snowflake_app;
INSERT INTO theirs (note) VALUES ('a');
SELECT snowflake_revert('theirs', 'id');
\echo :SQLSTATE
RESET ROLE;
SET ROLE regress_snowflake_reverter;
SELECT count(*) FROM snowflake_adopt('theirs', 'id', dry_run => false);
SELECT * FROM snowflake_revert('theirs', 'id', false);
RESET ROLE;
DROP TABLE theirs;
DROP OWNED BY regress_snowflake_reverter, regress_snowflake_app;
DROP ROLE regress_snowflake_app, regress_snowflake_aide;

-- what is no key
CREATE TABLE wrong (t text, id bigint, g bigint GENERATED ALWAYS AS (1) STORED);
CREATE TABLE wrong_child () INHERITS (wrong);
SELECT snowflake_revert('wrong', 't');
\echo :SQLSTATE
SELECT snowflake_revert('wrong', 'g');
SELECT snowflake_revert('wrong_child', 'id');
SELECT snowflake_revert('wrong', 'none');
SELECT snowflake_revert(NULL, 'id');
\echo :SQLSTATE
SELECT snowflake_revert('wrong', 'id', NULL);
SELECT * FROM snowflake_revert('wrong', 'id');
DROP TABLE wrong, wrong_child;

-- the extension in another schema
CREATE SCHEMA "More Ids";
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5));
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA "More Ids";
SELECT * FROM "More Ids".snowflake_revert('photos', 'id', false);
DROP EXTENSION snowflake;
INSERT INTO photos DEFAULT VALUES RETURNING id;
DROP VIEW anatomy;
DROP TABLE photos;
DROP SCHEMA "More Ids";
DROP ROLE regress_snowflake_reverter;
