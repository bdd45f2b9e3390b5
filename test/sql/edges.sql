--
-- The edges of the type: the rarer statements, each as with a bigint column or
-- with what to write instead.
--
CREATE EXTENSION snowflake;
SET timezone = 'UTC';

CREATE TABLE events (id snowflake PRIMARY KEY, same bigint, kind integer);
INSERT INTO events SELECT i * 10, i * 10, i % 3 FROM generate_series(1, 12) AS i;
VACUUM ANALYZE events;

-- window frames
SELECT id, count(*) OVER (ORDER BY id RANGE UNBOUNDED PRECEDING) AS running,
       sum(same) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS rows,
       array_agg(id) OVER (ORDER BY id GROUPS 1 PRECEDING) AS groups
  FROM events WHERE id <= 40 ORDER BY id;
SELECT id, count(*) OVER (ORDER BY id RANGE BETWEEN 10 PRECEDING AND 20::bigint FOLLOWING) AS near
  FROM events WHERE id <= 40 ORDER BY id;
SELECT id, count(*) OVER (ORDER BY id::bigint RANGE BETWEEN 10 PRECEDING AND 20 FOLLOWING) AS near
  FROM events WHERE id <= 40 ORDER BY id;
SELECT id, count(*) OVER (ORDER BY snowflake_timestamp(id) RANGE BETWEEN interval '1 s' PRECEDING AND CURRENT ROW) AS second
  FROM events WHERE id <= 40 ORDER BY id;

-- grouping sets
SELECT id, kind, count(*), grouping(id, kind)
  FROM events WHERE id <= 30 GROUP BY GROUPING SETS ((id), (kind), ()) ORDER BY grouping(id, kind), id, kind;
SELECT id, kind, count(*) FROM events WHERE id <= 20 GROUP BY CUBE (id, kind) ORDER BY id, kind;

-- recursion: a step that computes is a bigint, and is cast back
WITH RECURSIVE chain (id) AS (
    SELECT id FROM events WHERE id = 10 UNION ALL SELECT id + 10 FROM chain WHERE id < 40
)
SELECT * FROM chain;
WITH RECURSIVE chain (id) AS (
    SELECT id FROM events WHERE id = 10 UNION ALL SELECT (id + 10)::snowflake FROM chain WHERE id < 40
)
SELECT id, pg_typeof(id) FROM chain;
CREATE TABLE comments (id snowflake PRIMARY KEY, parent snowflake REFERENCES comments);
INSERT INTO comments VALUES (1, NULL), (2, 1), (3, 1), (4, 2);
WITH RECURSIVE thread AS (
    SELECT id, parent, ARRAY[id] AS path FROM comments WHERE parent IS NULL
    UNION ALL
    SELECT c.id, c.parent, path || c.id FROM comments AS c JOIN thread AS t ON c.parent = t.id
)
SELECT id, path FROM thread ORDER BY path;
WITH RECURSIVE thread AS (
    SELECT id, parent FROM comments WHERE parent IS NULL
    UNION
    SELECT c.id, c.parent FROM comments AS c JOIN thread AS t ON c.parent = t.id
) SEARCH DEPTH FIRST BY id SET place CYCLE id SET is_cycle USING visited
SELECT id, place, is_cycle FROM thread ORDER BY place;

-- arrays: an element or array beside one is quoted, or cast
SELECT array_agg(id ORDER BY id DESC) AS agg, pg_typeof(array_agg(id)) FROM events WHERE id <= 30;
SELECT id, pg_typeof(id) FROM unnest('{3,1,NULL}'::snowflake[]) AS id ORDER BY id;
SELECT 3 = ANY ('{1,3}'::snowflake[]) AS "any", '3'::snowflake = ALL ('{3,3}') AS "all",
       '{1}'::snowflake[] || '2'::snowflake AS append, '1'::snowflake || '{2}'::snowflake[] AS prepend,
       '{1}'::snowflake[] || '{2}' AS cat;
SELECT array_append('{1}'::snowflake[], '2'), array_remove('{1,2}'::snowflake[], '1'),
       array_replace('{1,2}'::snowflake[], '1', '5'), array_position('{1,2}'::snowflake[], '2'),
       ('{1,2,3}'::snowflake[])[2:], cardinality('{1,2}'::snowflake[]);
SELECT '{1,2}'::snowflake[] < '{1,3}' AS lt, '{1,2}'::snowflake[] @> '{2}' AS contains,
       '{1,2}'::snowflake[] && '{2,3}' AS overlap, '{1,2}'::snowflake[]::bigint[] AS cast,
       '{1,2}'::bigint[]::snowflake[] AS back, '{1,2}'::snowflake[]::bigint[] = '{1,2}' AS same;
-- majors word this error differently
\set VERBOSITY sqlstate
SELECT '{1}'::snowflake[] || 2 AS bare;
\set VERBOSITY default
SELECT '{1}'::snowflake[] || '2' AS literal;
SELECT ids, pg_typeof(ids) FROM (SELECT '{1}'::snowflake[] || 2::bigint) AS appended (ids);
\set VERBOSITY sqlstate
SELECT '{1,2}'::snowflake[] @> '{2}'::bigint[] AS contains;
SELECT '{1,2}'::snowflake[] = '{1,2}'::bigint[] AS same;
\set VERBOSITY default
CREATE TABLE lists (ids snowflake[]);
CREATE INDEX lists_ids ON lists USING gin (ids);
INSERT INTO lists VALUES ('{1,2}'), ('{2,3}'), ('{}');
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT ids FROM lists WHERE ids @> '{2}';
SELECT ids FROM lists WHERE ids @> '{2}' ORDER BY ids;
RESET enable_seqscan;
UPDATE lists SET ids[1] = 7 WHERE ids = '{1,2}' RETURNING ids;

-- composite types
CREATE TYPE pointer AS (kind text, id snowflake);
SELECT ROW('a', 5)::pointer AS built, (ROW('a', 5)::pointer).id AS field, '(a,5)'::pointer = ROW('a', 5::bigint)::pointer AS same,
       ROW('a', 5)::pointer < ROW('a', 6)::pointer AS lt;
CREATE TABLE pointers (p pointer PRIMARY KEY);
INSERT INTO pointers VALUES (ROW('b', 2)), (ROW('a', 3)), (ROW('a', 1));
SELECT (p).* FROM pointers ORDER BY p;
SELECT ROW(id, kind) = ROW(10, 1) AS "=" FROM events WHERE id = 10;

-- domains
CREATE DOMAIN photo_id AS snowflake CHECK (VALUE >= 0) DEFAULT '7';
CREATE TABLE photos (id photo_id PRIMARY KEY, n integer);
INSERT INTO photos (n) VALUES (1);
INSERT INTO photos VALUES (8, 2), ('9', 3), (10::bigint, 4) RETURNING id, pg_typeof(id);
INSERT INTO photos VALUES (-1, 5);
SELECT id FROM photos WHERE id = 8 OR id = 9::bigint OR id = '10' ORDER BY id;
SELECT id, snowflake_shard(id) AS shard, id > timestamptz '2100-01-01Z' AS late FROM photos WHERE id = 8;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = 8;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id < 8::bigint ORDER BY id DESC LIMIT 1;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- ranges: a range type of one's own costs nothing, as it takes bigint's
-- operators; it is not discrete, so [1,9] is not [1,10)
CREATE TYPE idrange AS RANGE (subtype = snowflake);
SELECT idrange('1', '9') AS built, '[1,9]'::idrange AS literal, idrange(1::snowflake, 9::snowflake) @> 5::snowflake AS contains,
       idrange('1', '5') && idrange('4', '9') AS overlaps, idrange('1', '5') + idrange('5', '9') AS "union",
       idrange('1', '5') * idrange('4', '9') AS intersection, pg_typeof(upper(idrange('1', '9')));
SELECT '[1,9]'::idrange = '[1,10)' AS idrange, '[1,9]'::int8range = '[1,10)' AS int8range;
SELECT idrange('1', '9') @> '5'::snowflake AS snowflake, '5'::snowflake <@ idrange('1', '9') AS within,
       range_agg(r) AS multirange
  FROM unnest('{"[1,3)","[2,5)","[8,9)"}'::idrange[]) AS r;
\set VERBOSITY sqlstate
SELECT idrange(1, 9);
SELECT idrange('1', '9') @> 5::bigint;
\set VERBOSITY default
SELECT idrange(snowflake_floor('2026-01-01 00:00Z'), snowflake_floor('2026-01-02 00:00Z')) @> snowflake_encode('2026-01-01 12:00Z', 5, 7) AS of_that_day;
CREATE TABLE blocks (name text, ids idrange, EXCLUDE USING gist (ids WITH &&));
INSERT INTO blocks SELECT 'block ' || i, idrange((i * 10)::snowflake, (i * 10 + 10)::snowflake) FROM generate_series(1, 1000) AS i;
INSERT INTO blocks VALUES ('late', '[55,56)');
ANALYZE blocks;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT name FROM blocks WHERE ids @> '55'::snowflake;
SELECT name FROM blocks WHERE ids @> '55'::snowflake;
SELECT name, e.id FROM blocks JOIN events AS e ON ids @> e.id WHERE e.id <= 20 ORDER BY e.id;
SELECT idr.name FROM (SELECT name, int8range(lower(ids), upper(ids)) AS ids FROM blocks) AS idr WHERE ids @> 55::bigint;

-- indexes: partial, covering, of an expression
CREATE TABLE wide (id snowflake, same bigint, kind integer, made timestamptz);
INSERT INTO wide SELECT snowflake_encode('2026-01-01 00:00Z'::timestamptz + i * interval '1 s', 5, 0), i, i % 100, '2026-01-01 00:00Z'::timestamptz + i / 10 * interval '10 s'
  FROM generate_series(0, 9999) AS i;
UPDATE wide SET same = id;
CREATE UNIQUE INDEX wide_covering ON wide (id) INCLUDE (kind);
CREATE INDEX wide_covered ON wide (kind) INCLUDE (id);
VACUUM ANALYZE wide;
EXPLAIN (COSTS OFF) SELECT id, kind FROM wide WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT id FROM wide WHERE kind = 5;
SELECT count(*) FROM wide AS a JOIN wide AS b USING (id, kind) WHERE a.kind = 5;
DROP INDEX wide_covering, wide_covered;
CREATE INDEX wide_partial ON wide (kind) WHERE id >= 2006530812933046272;
CREATE INDEX wide_expression ON wide (snowflake_timestamp(id));
CREATE INDEX wide_shard ON wide (snowflake_shard(id), (id % 10));
VACUUM ANALYZE wide;
EXPLAIN (COSTS OFF) SELECT kind FROM wide WHERE id >= 2006530812933046272 ORDER BY kind LIMIT 1;
EXPLAIN (COSTS OFF) SELECT kind FROM wide WHERE id > 2006530812933046273::bigint ORDER BY kind LIMIT 1;
EXPLAIN (COSTS OFF) SELECT same FROM wide WHERE snowflake_timestamp(id) = '2026-01-01 01:00Z';
EXPLAIN (COSTS OFF) SELECT same FROM wide WHERE snowflake_shard(id) = 5 AND id % 10 = 3;
SELECT count(*) FROM wide WHERE snowflake_timestamp(id) >= '2026-01-01 01:00Z' AND snowflake_timestamp(id) < '2026-01-01 01:01Z';
DROP INDEX wide_partial, wide_expression, wide_shard;

-- a keyset of two columns
CREATE INDEX wide_made ON wide (made, id);
EXPLAIN (COSTS OFF) SELECT id FROM wide WHERE (made, id) < ('2026-01-01 01:00Z', 2006530812933046272) ORDER BY made DESC, id DESC LIMIT 3;
PREPARE page(timestamptz, bigint) AS SELECT id FROM wide WHERE (made, id) < ($1, $2) ORDER BY made DESC, id DESC LIMIT 3;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE page('2026-01-01 01:00Z', 0);
RESET plan_cache_mode;
SELECT count(*) AS rows, sum(n) AS sum FROM (
    WITH RECURSIVE pages AS (
        (SELECT made, id, 1 AS n FROM wide ORDER BY made DESC, id DESC LIMIT 1)
        UNION ALL
        SELECT next.made, next.id, 1 FROM pages,
            LATERAL (SELECT made, id FROM wide WHERE (wide.made, wide.id) < (pages.made, pages.id)
                      ORDER BY wide.made DESC, wide.id DESC LIMIT 1) AS next
    )
    SELECT n FROM pages) AS each;
DROP INDEX wide_made;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- duplicates are stored once, as a bigint's are
CREATE TABLE copies AS SELECT (i % 50)::snowflake AS id, (i % 50)::bigint AS same FROM generate_series(1, 20000) AS i;
CREATE INDEX copies_id ON copies (id);
CREATE INDEX copies_same ON copies (same);
CREATE INDEX copies_each ON copies (id) WITH (deduplicate_items = off);
SELECT pg_relation_size('copies_id') = pg_relation_size('copies_same') AS as_bigint,
       pg_relation_size('copies_id') * 2 < pg_relation_size('copies_each') AS smaller;

-- a generated column
CREATE TABLE dated (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5),
                    made timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED,
                    shard integer GENERATED ALWAYS AS (snowflake_shard(id)) STORED);
INSERT INTO dated (id) VALUES (snowflake_encode('2026-01-01 00:00Z', 7, 3)) RETURNING made AT TIME ZONE 'UTC' AS made, shard;
INSERT INTO dated DEFAULT VALUES RETURNING made = snowflake_timestamp(id) AS made, shard;
UPDATE dated SET id = snowflake_encode('2026-01-02 00:00Z', 8, 3) WHERE shard = 7 RETURNING made AT TIME ZONE 'UTC' AS made, shard;

-- identity columns are of integers; a default takes their place, and a grant
-- keeps others from giving an id
CREATE TABLE identities (id snowflake GENERATED ALWAYS AS IDENTITY);
CREATE TABLE identities (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5), note text);
CREATE ROLE regress_edges_writer;
GRANT INSERT (note), SELECT ON identities TO regress_edges_writer;
SET ROLE regress_edges_writer;
INSERT INTO identities (note) VALUES ('minted') RETURNING snowflake_shard(id), note;
INSERT INTO identities VALUES (5, 'given');
RESET ROLE;
DROP TABLE identities;
DROP ROLE regress_edges_writer;

-- inheritance
CREATE TABLE base (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5));
CREATE TABLE derived (note text) INHERITS (base);
CREATE UNIQUE INDEX derived_id ON derived (id);
INSERT INTO derived VALUES (2, 'derived');
INSERT INTO derived (note) VALUES ('minted') RETURNING snowflake_shard(id);
INSERT INTO base VALUES (1);
SELECT tableoid::regclass, id FROM base WHERE id IN (1, 2) ORDER BY id;
SELECT min(id) FROM base;
ALTER TABLE base ALTER id TYPE bigint;
SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'derived'::regclass AND attname = 'id';
ALTER TABLE base ALTER id TYPE snowflake;
CREATE TABLE other (id bigint) INHERITS (base);

-- PL/pgSQL
CREATE FUNCTION walk(list snowflake[], INOUT total snowflake DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
    each  snowflake;
    first events.id%TYPE;
    line  events%ROWTYPE;
    known CONSTANT snowflake NOT NULL := 40;
BEGIN
    FOREACH each IN ARRAY list LOOP
        total := total + each;
    END LOOP;
    first := list[1];
    list[2] := first + 1;
    SELECT * INTO STRICT line FROM events WHERE id = first;
    FOR each IN SELECT id FROM events WHERE id < first ORDER BY id LOOP
        RAISE NOTICE 'below: %', each;
    END LOOP;
    FOR i IN first .. first + 1 LOOP
        RAISE NOTICE 'step: % of %', i, pg_typeof(first);
    END LOOP;
    CASE line.id WHEN 30 THEN RAISE NOTICE 'thirty, % before %, then %', line.kind, known, list[2]; END CASE;
    EXECUTE 'SELECT id FROM events WHERE id = $1' INTO each USING line.id;
    UPDATE events SET kind = kind WHERE id = each RETURNING id INTO first;
    ASSERT first = line.id AND each = 30;
END $$;
SELECT walk('{30,5,7}');
CREATE FUNCTION next_of(snowflake) RETURNS snowflake LANGUAGE sql STABLE AS 'SELECT id FROM events WHERE id > $1 ORDER BY id LIMIT 1';
SELECT next_of('10'), next_of(next_of('10')), pg_typeof(next_of('10'));
\set VERBOSITY sqlstate
SELECT next_of(10);
\set VERBOSITY default

-- triggers and RETURNING, upserts and MERGE
CREATE TABLE stamped (id snowflake PRIMARY KEY, note text);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.id := COALESCE(NEW.id, snowflake_nextval(9));
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT ON stamped FOR EACH ROW EXECUTE FUNCTION stamp();
INSERT INTO stamped (note) VALUES ('a') RETURNING snowflake_shard(id) AS shard, id = snowflake_lastval() AS last;
INSERT INTO stamped VALUES (5, 'five') RETURNING id;
INSERT INTO stamped VALUES (5, 'again') ON CONFLICT (id) DO UPDATE SET note = excluded.note RETURNING id, note;
MERGE INTO stamped AS s USING (VALUES (5::bigint, 'merged'), (6, 'new')) AS v (id, note) ON s.id = v.id
    WHEN MATCHED THEN UPDATE SET note = v.note
    WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.note);
WITH gone AS (DELETE FROM stamped WHERE id < 100 RETURNING id, note) SELECT * FROM gone ORDER BY id;
SELECT count(*) FROM stamped;

-- materialized views
CREATE MATERIALIZED VIEW thirds AS SELECT id, kind FROM events WHERE kind = 0;
CREATE UNIQUE INDEX thirds_id ON thirds (id);
INSERT INTO events VALUES (130, 130, 0);
REFRESH MATERIALIZED VIEW CONCURRENTLY thirds;
SELECT max(id), count(*) FROM thirds;
REFRESH MATERIALIZED VIEW thirds;
SELECT pg_typeof(id) FROM thirds WHERE id = 130;

-- COPY in text, CSV and binary, to a snowflake and to a bigint
CREATE TABLE loaded (format text, id snowflake, same bigint);
CREATE TABLE landing (id snowflake, same bigint);
\copy (SELECT id, id AS same FROM events) TO 'results/edges.text'
\copy landing FROM 'results/edges.text'
INSERT INTO loaded SELECT 'text', * FROM landing;
TRUNCATE landing;
\copy (SELECT id, id AS same FROM events) TO 'results/edges.csv' (FORMAT csv, HEADER)
\copy landing FROM 'results/edges.csv' (FORMAT csv, HEADER)
INSERT INTO loaded SELECT 'csv', * FROM landing;
TRUNCATE landing;
\copy (SELECT id, id AS same FROM events) TO 'results/edges.bin' (FORMAT binary)
\copy landing FROM 'results/edges.bin' (FORMAT binary)
INSERT INTO loaded SELECT 'binary', * FROM landing;
TRUNCATE landing;
SELECT format, count(*), bool_and(l.id = l.same AND e.id IS NOT NULL) AS same
  FROM loaded AS l LEFT JOIN events AS e USING (id) GROUP BY format ORDER BY format;
COPY (SELECT id, NULL::snowflake AS none FROM events WHERE id <= 20) TO STDOUT (FORMAT csv, FORCE_QUOTE (id));

-- parallel plans
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
ALTER TABLE wide SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT count(*) FROM wide WHERE id > 5 AND snowflake_timestamp(id) > '2026-01-01 01:00Z';
SELECT count(*) FROM wide WHERE id > 5 AND snowflake_timestamp(id) > '2026-01-01 01:00Z';
EXPLAIN (COSTS OFF) SELECT count(*) FROM wide WHERE id >= timestamptz '2026-01-01 01:00Z';
SELECT count(*) FROM wide WHERE id >= timestamptz '2026-01-01 01:00Z';
SET enable_mergejoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM wide AS a JOIN wide AS b ON a.id = b.same;
SELECT count(*) FROM wide AS a JOIN wide AS b ON a.id = b.same;
CREATE INDEX wide_id ON wide (id);
SELECT count(*) FROM wide WHERE id = ANY (SELECT same FROM wide WHERE kind = 7);
RESET enable_mergejoin;
RESET enable_nestloop;

-- compiled code, where the server has a compiler
CREATE TABLE answers (jit boolean, answer text);
CREATE FUNCTION answer() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', count(*), sum(id % 1000), max(id), count(DISTINCT snowflake_shard(id)),
                     count(*) FILTER (WHERE id > timestamptz '2026-01-01 01:00Z'),
                     count(*) FILTER (WHERE id::snowflake = ANY (ARRAY[id, '5'])),
                     sum(extract(epoch FROM snowflake_timestamp(id))), md5(string_agg(id::text, ',' ORDER BY id DESC)))
      FROM wide WHERE id BETWEEN 5 AND 9223372036854775807 AND id <> '6'
$$;
SET jit = off;
INSERT INTO answers SELECT false, answer();
SET jit = on;
SET jit_above_cost = 0;
SET jit_inline_above_cost = 0;
SET jit_optimize_above_cost = 0;
INSERT INTO answers SELECT true, answer();
RESET jit;
RESET jit_above_cost;
RESET jit_inline_above_cost;
RESET jit_optimize_above_cost;
SELECT count(*), count(DISTINCT answer), min(answer) ~ '^10000 ' AS all FROM answers;

RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
RESET max_parallel_workers_per_gather;

SET client_min_messages = warning;
DROP FUNCTION walk, next_of, answer, stamp CASCADE;
DROP MATERIALIZED VIEW thirds;
DROP TABLE events, comments, lists, pointers, photos, blocks, wide, copies, dated, base, derived, stamped, loaded, landing, answers;
DROP TYPE idrange, pointer;
DROP DOMAIN photo_id;
DROP EXTENSION snowflake;
