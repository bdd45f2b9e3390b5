--
-- A bigint column becomes a snowflake column, and back, without a rewrite of
-- the table or of an index.
--
CREATE EXTENSION snowflake;

CREATE TABLE legacy (id bigserial PRIMARY KEY, parent bigint REFERENCES legacy, note text);
CREATE INDEX legacy_note_id ON legacy (note, id);
CREATE INDEX legacy_hash ON legacy USING hash (id);
CREATE INDEX legacy_brin ON legacy USING brin (id);
CREATE TABLE details (legacy bigint REFERENCES legacy);

INSERT INTO legacy (parent, note) SELECT NULLIF(i - 1, 0), 'note ' || i FROM generate_series(1, 1000) AS i;
INSERT INTO details SELECT id FROM legacy;

-- where table and indexes are stored, before and after
CREATE TABLE files AS
SELECT relname AS relation, pg_relation_filenode(oid) AS file
  FROM pg_class
 WHERE oid = 'legacy'::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'legacy'::regclass);

CREATE VIEW rewritten AS
SELECT relation, file <> pg_relation_filenode(to_regclass(relation::text)) AS rewritten
  FROM files
 ORDER BY relation;

ALTER TABLE legacy ALTER id TYPE snowflake;
ALTER TABLE legacy ALTER parent TYPE snowflake;
ALTER TABLE details ALTER legacy TYPE snowflake;

SELECT * FROM rewritten;

SELECT attrelid::regclass AS "table", attname AS "column", atttypid::regtype AS type
  FROM pg_attribute
 WHERE attrelid IN ('legacy'::regclass, 'details'::regclass) AND attnum > 0
 ORDER BY attrelid::regclass::text COLLATE "C", attnum;

-- all of it works on: rows, indexes, default, foreign keys
SELECT count(*), sum(id), count(parent) FROM legacy;
SET enable_seqscan = off;
SELECT note FROM legacy WHERE id = 500;
SELECT id FROM legacy WHERE note = 'note 500' AND id > 0;
RESET enable_seqscan;
INSERT INTO legacy (note) VALUES ('new') RETURNING id;
INSERT INTO details VALUES (1001), (1002);
DELETE FROM legacy WHERE id = 500;

ALTER TABLE legacy ALTER id SET DEFAULT snowflake_nextval(5);
INSERT INTO legacy (note) VALUES ('newer') RETURNING id > 1001 AS later, snowflake_shard(id) AS shard;

-- and back
ALTER TABLE legacy ALTER id DROP DEFAULT;
ALTER TABLE legacy ALTER id TYPE bigint;
ALTER TABLE legacy ALTER parent TYPE bigint;
SELECT * FROM rewritten;
SELECT atttypid::regtype AS type FROM pg_attribute WHERE attrelid = 'legacy'::regclass AND attname = 'id';
SELECT count(*), min(id) FROM legacy;

-- the counterpart, so that "not rewritten" is not said of everything
DROP TABLE details;
DROP INDEX legacy_note_id, legacy_brin, legacy_hash;
ALTER TABLE legacy DROP parent, ALTER id TYPE numeric;
SELECT * FROM rewritten;

-- an integer is shorter, so that table is rewritten
CREATE TABLE short (id integer PRIMARY KEY);
INSERT INTO short VALUES (1), (-2147483648);
ALTER TABLE short ALTER id TYPE snowflake;
SELECT id FROM short ORDER BY id;

-- text needs to be told
CREATE TABLE texts (id text);
INSERT INTO texts VALUES ('175928847299117063');
ALTER TABLE texts ALTER id TYPE snowflake;
ALTER TABLE texts ALTER id TYPE snowflake USING id::snowflake;
SELECT id, pg_typeof(id) FROM texts;

-- an identity column first has to become a plain one
CREATE TABLE identities (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text);
INSERT INTO identities (note) VALUES ('old');
ALTER TABLE identities ALTER id TYPE snowflake;
ALTER TABLE identities ALTER id DROP IDENTITY, ALTER id TYPE snowflake;
ALTER TABLE identities ALTER id DROP IDENTITY;
ALTER TABLE identities ALTER id TYPE snowflake, ALTER id SET DEFAULT snowflake_nextval(5);
INSERT INTO identities (note) VALUES ('new');
SELECT note, id > 1 AS minted FROM identities ORDER BY id;

DROP VIEW rewritten;
DROP TABLE legacy, files, short, texts, identities;
DROP EXTENSION snowflake;
