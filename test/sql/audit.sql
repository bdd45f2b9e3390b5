--
-- snowflake_audit: what a column holds that it should not.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- nothing at all
CREATE TABLE photos (id snowflake, url text);
SELECT * FROM snowflake_audit('photos', 'id');

-- some of everything; now lies between 2026 and 2070
INSERT INTO photos (id)
SELECT snowflake_encode('2026-01-01 12:00Z'::timestamptz + n * interval '1 min', n % 3, n % 7) FROM generate_series(1, 100) AS n
UNION ALL VALUES
    (NULL), (NULL),
    (snowflake_encode('2075-06-01Z', 1, 5)), (snowflake_encode('2074-06-01Z', 9, 5)),
    (snowflake_encode('2009-01-01Z', 2, 0)),
    (snowflake_encode('2026-01-02Z', 1, 4095)), (snowflake_encode('2026-01-03Z', 1, 4095)), (snowflake_encode('2026-01-01Z', 2, 4095)),
    ('-1'), (9223372036854775807);
SELECT * FROM snowflake_audit('photos', 'id');
SELECT * FROM snowflake_audit('photos', 'id', expected_shards => '1');
SELECT * FROM snowflake_audit('photos', 'id', expected_shards => '0, 2 - 9', earliest => '2026-01-01 12:30Z');

-- each counts what a query of its own counts
SELECT finding, ids = CASE finding
           WHEN 'all ids' THEN count(id)
           WHEN 'null' THEN count(*) FILTER (WHERE id IS NULL)
           WHEN 'in the future' THEN count(*) FILTER (WHERE id > now())
           WHEN 'too early' THEN count(*) FILTER (WHERE id < timestamptz '2026-01-01 12:30Z')
           WHEN 'unexpected shard' THEN count(*) FILTER (WHERE snowflake_shard(id) NOT IN (0, 2))
           WHEN 'exhausted tick' THEN count(*) FILTER (WHERE snowflake_sequence(id) = 4095) END AS right
  FROM snowflake_audit('photos', 'id', NULL, '0,2', '2026-01-01 12:30Z'), photos
 GROUP BY finding, ids ORDER BY finding;

-- expected without being told: this server's own; not in another layout, and not with an empty list
SET snowflake.shards = '0-2,9';
SELECT ids, shards FROM snowflake_audit('photos', 'id') WHERE finding = 'unexpected shard';
SELECT ids, shards FROM snowflake_audit('photos', 'id', 'discord') WHERE finding = 'unexpected shard';
SELECT ids, shards FROM snowflake_audit('photos', 'id', expected_shards => ' ') WHERE finding = 'unexpected shard';
SET snowflake.shards = 'auto:1';
SET snowflake.shards = 'auto:1024';
SET snowflake.shards = 'auto:2';
SELECT ids, shards FROM snowflake_audit('photos', 'id') WHERE finding = 'unexpected shard';
RESET snowflake.shards;

-- more shards than are shown
CREATE TABLE many AS
SELECT snowflake_encode('2026-01-01Z', shard, n) AS id FROM generate_series(1, 1000) AS shard, generate_series(0, shard % 10) AS n;
SELECT ids, shards FROM snowflake_audit('many', 'id') WHERE finding = 'all ids';

-- other layouts, one with times beyond the server's, and bigint, a domain, a view, a materialized one
CREATE DOMAIN foreign_id AS bigint;
CREATE TABLE messages (id foreign_id);
INSERT INTO messages VALUES (175928847299117063), (175928847299121663), (NULL);
SELECT * FROM snowflake_audit('messages', 'id', 'discord', '0-31');
SELECT finding, ids, first_at, last_at
  FROM snowflake_audit('messages', 'id', 'epoch=0 unit=86400s fields=timestamp:20,sequence:12,machine:12') WHERE ids > 0;
CREATE VIEW seen AS SELECT id::text::bigint AS "the id" FROM messages;
SELECT finding, ids, shards FROM snowflake_audit('seen', 'the id', 'discord');
CREATE MATERIALIZED VIEW stored AS TABLE seen;
SELECT finding, ids, shards FROM snowflake_audit('stored', 'the id', 'discord') WHERE ids > 0;

-- partitions and children
CREATE TABLE clicks (id bigint, n int) PARTITION BY LIST (n);
SELECT ids FROM snowflake_audit('clicks', 'id') WHERE finding = 'all ids';
CREATE TABLE clicks_1 PARTITION OF clicks FOR VALUES IN (1) PARTITION BY LIST (n);
CREATE TABLE clicks_1_1 PARTITION OF clicks_1 FOR VALUES IN (1);
CREATE TABLE clicks_2 (n int, id bigint);
ALTER TABLE clicks ATTACH PARTITION clicks_2 FOR VALUES IN (2);
CREATE TABLE "cli'cks" () INHERITS (messages);
INSERT INTO clicks SELECT snowflake_encode('2026-01-01Z', n, 0), n FROM generate_series(1, 2) AS n;
INSERT INTO "cli'cks" SELECT id FROM clicks;
SELECT ids, shards FROM snowflake_audit('clicks', 'id') WHERE finding = 'all ids';
SELECT ids, shards FROM snowflake_audit('clicks_1', 'id') WHERE finding = 'all ids';
SELECT ids, shards FROM snowflake_audit('messages', 'id') WHERE finding = 'all ids';
SELECT ids, shards FROM snowflake_audit('"cli''cks"', 'id') WHERE finding = 'all ids';

-- a table that is no heap has no blocks to go by: all of it is read in the first portion, and not again
CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE other_method (id snowflake, filler text) USING heap2;
ALTER TABLE other_method ALTER filler SET STORAGE PLAIN;
INSERT INTO other_method SELECT snowflake_encode('2026-01-01Z', n, 0), repeat('x', 8000) FROM generate_series(1, 3) AS n;
SELECT finding, ids, shards FROM snowflake_audit('other_method', 'id') WHERE ids > 0;
SELECT portion, count(id) FROM generate_series(-1, 2) AS portion LEFT JOIN LATERAL snowflake_read_ids('other_method', 'id', portion, portion + 1) AS id ON true GROUP BY portion ORDER BY portion;

-- the greatest value of a column of each type that holds integers, and of no other; with an index of either order, or none
CREATE DOMAIN small_number AS smallint;
CREATE TABLE columns (two smallint, small small_number, four integer, eight bigint, id snowflake, text text, number numeric, oid oid, time timestamptz,
                      partly bigint DEFAULT 1, twice bigint DEFAULT 1, stored bigint GENERATED ALWAYS AS (eight * 2) STORED);
INSERT INTO columns SELECT n, n, n, n, n::bigint, n, n, n, to_timestamp(n) FROM unnest(ARRAY[-3, 2, 7, 5, NULL]) AS n;
CREATE INDEX ON columns (two);
CREATE INDEX ON columns (small DESC);
CREATE INDEX ON columns (four DESC);
CREATE INDEX ON columns (id DESC NULLS LAST);
CREATE INDEX ON columns (text);
CREATE INDEX ON columns (partly) WHERE partly < 1;
CREATE UNIQUE INDEX CONCURRENTLY not_valid ON columns (twice);
SELECT attname, rows.newest AS of_rows, split_part(rows.unseen[1], ' ', 2) AS why_unseen, "index".newest AS of_index, split_part("index".unseen[1], ' ', 2) AS why_unseen
  FROM pg_attribute LEFT JOIN LATERAL snowflake_newest('columns', attname, true, 0) AS rows ON true
  LEFT JOIN LATERAL snowflake_newest('columns', attname, false, 0) AS "index" ON true
 WHERE attrelid = 'columns'::regclass AND attnum > 0 ORDER BY attnum;
-- by an index of this transaction; one that is not valid is let go
BEGIN;
CREATE INDEX ON columns (eight);
SELECT newest, array_to_string(unseen, ' ') AS unseen FROM snowflake_newest('columns', 'eight', false, 0);
ROLLBACK;
BEGIN;
SELECT newest, array_to_string(unseen, ' ') AS unseen FROM snowflake_newest('columns', 'twice', false, 0);
SELECT count(*) FROM pg_locks WHERE relation = 'not_valid'::regclass AND pid = pg_backend_pid();
COMMIT;
-- negative values alone
DELETE FROM columns WHERE eight > 0;
SELECT by_index.newest, by_rows.newest FROM snowflake_newest('columns', 'two', false, 0) AS by_index, snowflake_newest('columns', 'eight', true, 0) AS by_rows;
-- what is no table, or no table any more, is named, and no lock is left
BEGIN;
SELECT newest, array_to_string(unseen, ' ') AS unseen FROM snowflake_newest(4294967295, 'id', false, 0);
SELECT count(*) FROM pg_locks WHERE relation = 4294967295;
COMMIT;
DROP TABLE columns;
DROP DOMAIN small_number;

-- a large table, a row a block: read in portions, each row once, whatever plans the session would like better
CREATE TABLE large (id snowflake, filler text) PARTITION BY LIST (id);
CREATE UNLOGGED TABLE large_1 PARTITION OF large FOR VALUES IN (NULL);
CREATE UNLOGGED TABLE large_2 PARTITION OF large DEFAULT;
ALTER TABLE large_1 ALTER filler SET STORAGE PLAIN;
ALTER TABLE large_2 ALTER filler SET STORAGE PLAIN;
INSERT INTO large SELECT nullif(n, least(n, 100)), repeat('x', 8000) FROM generate_series(1, 4596) AS n;
SELECT pg_stat_force_next_flush();
BEGIN;
SELECT finding, ids, shards, first_id, last_id FROM snowflake_audit('large', 'id');
SELECT relname, seq_tup_read FROM pg_stat_xact_user_tables WHERE relname ~ '^large_' ORDER BY relname;
COMMIT;
SET client_min_messages = warning;
SET enable_tidscan = off;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT pg_stat_force_next_flush();
BEGIN;
SELECT sum(ids) FROM snowflake_audit('large', 'id') WHERE finding IN ('all ids', 'null');
SELECT relname, seq_tup_read FROM pg_stat_xact_user_tables WHERE relname ~ '^large_' ORDER BY relname;
COMMIT;
RESET ALL;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- for whom there is but the column
CREATE ROLE regress_snowflake_auditor;
GRANT SELECT (id) ON large TO regress_snowflake_auditor;
SET ROLE regress_snowflake_auditor;
SELECT ids FROM snowflake_audit('large', 'id') WHERE finding = 'all ids';
RESET ROLE;

-- with a table that has no blocks to go by among the partitions
CREATE EXTENSION file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE large_3 (id snowflake, filler text) SERVER files OPTIONS (program 'echo 175928847299117063,x', format 'csv');
ALTER TABLE large DETACH PARTITION large_2;
CREATE TABLE larger (id snowflake, filler text);
ALTER TABLE large_2 INHERIT larger;
ALTER FOREIGN TABLE large_3 INHERIT larger;
CREATE FOREIGN TABLE large_4 () INHERITS (larger) SERVER files OPTIONS (filename '/there is none');
SELECT newest, array_to_string(unseen, ' ') AS unseen FROM snowflake_newest('large_3', 'filler', false, 0);
SELECT blocks, blocks IS NULL AS is_unknown, unseen FROM snowflake_parts('larger', 'id') AS parts (blocks, unseen);
SELECT ids, last_id FROM snowflake_audit('larger', 'id') WHERE finding = 'all ids';
DROP TABLE large, larger CASCADE;
DROP EXTENSION file_fdw CASCADE;

-- it can be stopped
CREATE VIEW endless AS SELECT generate_series(1, 1000000000000000) AS id;
BEGIN;
SET LOCAL statement_timeout = '200ms';
SELECT * FROM snowflake_audit('endless', 'id');
\echo :SQLSTATE
ROLLBACK;

-- what is asked wrongly
SELECT snowflake_audit(NULL, 'id');
\echo :SQLSTATE
SELECT snowflake_audit('photos', NULL);
SELECT snowflake_audit(0, 'id');
\echo :SQLSTATE
CREATE INDEX photos_url ON photos (url);
SELECT snowflake_audit('photos_url', 'url');
\echo :SQLSTATE
SELECT snowflake_audit('photos', 'relname');
\echo :SQLSTATE
CREATE TABLE dropped (id snowflake);
ALTER TABLE dropped DROP id;
SELECT snowflake_audit('dropped', '........pg.dropped.1........');
DROP TABLE dropped;
SELECT snowflake_audit('photos', 'url');
\echo :SQLSTATE
SELECT snowflake_audit('photos', 'ctid');
SELECT snowflake_audit('photos', 'id', 'facebook');
\echo :SQLSTATE
SELECT snowflake_audit('photos', 'id', '');
SELECT snowflake_audit('photos', 'id', expected_shards => '1,x');
\echo :SQLSTATE
SELECT snowflake_audit('photos', 'id', expected_shards => '1,5-3');
SELECT count(*) FROM snowflake_audit('photos', 'id', expected_shards => '1,3-3,1023');
SELECT snowflake_audit('photos', 'id', expected_shards => '1,,3');
SELECT snowflake_audit('photos', 'id', expected_shards => '0-1024');
\echo :SQLSTATE
SELECT snowflake_audit('photos', 'id', 'sonyflake', '0-1024') IS NOT NULL AS done LIMIT 1;

-- one sees all of the rows or none
SET ROLE regress_snowflake_auditor;
SELECT snowflake_audit('clicks', 'id');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT (id) ON clicks TO regress_snowflake_auditor;
SET ROLE regress_snowflake_auditor;
SELECT ids FROM snowflake_audit('clicks', 'id') WHERE finding = 'all ids';
SELECT snowflake_audit('clicks_1', 'id');
RESET ROLE;
ALTER TABLE clicks ENABLE ROW LEVEL SECURITY;
SET ROLE regress_snowflake_auditor;
SELECT snowflake_audit('clicks', 'id');
\echo :SQLSTATE
RESET ROLE;
SET ROLE regress_snowflake_auditor;
SET row_security = off;
SELECT newest, array_to_string(unseen, ' ') AS unseen FROM snowflake_newest('clicks', 'id', false, 0);
RESET row_security;
RESET ROLE;
-- the right to the table, and none to its schema
CREATE SCHEMA closed;
CREATE TABLE closed.photos (id bigint PRIMARY KEY);
GRANT SELECT ON closed.photos TO regress_snowflake_auditor;
SELECT 'closed.photos'::regclass::oid AS closed \gset
SET ROLE regress_snowflake_auditor;
SELECT newest, array_to_string(unseen, ' ') AS unseen FROM snowflake_newest(:closed, 'id', false, 0);
SELECT newest, array_to_string(unseen, ' ') AS unseen FROM snowflake_newest(:closed, 'id', true, 0);
\echo :SQLSTATE
RESET ROLE;
DROP SCHEMA closed CASCADE;
DROP OWNED BY regress_snowflake_auditor;
DROP ROLE regress_snowflake_auditor;

-- the extension in a schema that is not searched
CREATE SCHEMA "More Ids";
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA "More Ids";
SELECT finding, ids FROM "More Ids".snowflake_audit('photos', 'id') WHERE ids > 0;
SELECT finding, ids FROM "More Ids".snowflake_audit('photos', 'id', 'epoch=2015-01-01 unit=1ms fields=timestamp:41,node:10,sequence:12') WHERE ids > 0;

DROP TABLE photos, many, messages, clicks, other_method CASCADE;
DROP ACCESS METHOD heap2;
DROP VIEW endless;
DROP DOMAIN foreign_id;
DROP EXTENSION snowflake;
DROP SCHEMA "More Ids";
