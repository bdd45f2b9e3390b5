--
-- A snowflake column plans as a bigint column does: index conditions on
-- whatever it is compared with, every kind of join, bigint's estimates.
--
CREATE EXTENSION snowflake;

CREATE TABLE events (id snowflake PRIMARY KEY, same bigint, kind integer, note text);

INSERT INTO events
SELECT i * 1000, i * 1000, i % 200, 'note ' || i
  FROM generate_series(1, 20000) AS i;

CREATE INDEX events_kind_id ON events (kind, id);
CREATE INDEX events_same ON events (same);
VACUUM ANALYZE events;

-- each of these could also be answered by way of a bitmap
SET enable_bitmapscan = off;

-- an index condition, whatever the id is compared with
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = 5000;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = 5000::bigint;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = 5000::smallint;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = '5000';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = '5000'::snowflake;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE 5000 = id;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id IN (175928847299117063, 1541815603606036480);
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id IN (5000, 1541815603606036480);
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id IN (5000, 6000::bigint);
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id IN ('5000', '6000');
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = ANY ('{5000,6000}'::bigint[]);
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = ANY ('{5000,6000}'::snowflake[]);
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id BETWEEN 5000 AND 9000;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id > 5000 AND id <= 9000::bigint;
EXPLAIN (COSTS OFF)
SELECT * FROM events
 WHERE id >= snowflake_floor('2026-01-01') AND id < snowflake_floor('2026-02-01');

-- and the rows to go with it
SELECT id FROM events WHERE id = '5000';
SELECT id FROM events WHERE id = 5000::smallint;
SELECT id FROM events WHERE id IN (5000, 6000) ORDER BY id;
SELECT id FROM events WHERE id = ANY ('{6000,5000,1}'::snowflake[]) ORDER BY id;
SELECT id FROM events WHERE id BETWEEN 5000 AND 7000 ORDER BY id;

-- pages: read from the index in order, never sorted
EXPLAIN (COSTS OFF) SELECT * FROM events ORDER BY id DESC LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id < 9000000 ORDER BY id DESC LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id > 9000000 ORDER BY id LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE kind = 3 AND id < 9000000 ORDER BY id DESC LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE (kind, id) > (3, 9000000) ORDER BY kind, id LIMIT 20;

SELECT id FROM events ORDER BY id DESC LIMIT 3;
SELECT id FROM events WHERE id < 19998000 ORDER BY id DESC LIMIT 3;
SELECT id FROM events WHERE kind = 3 AND id < 9000000 ORDER BY id DESC LIMIT 3;

-- min and max are one step in the index; versions print the rest differently
CREATE FUNCTION scans_of(query text) RETURNS SETOF text
    LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ 'Scan|Cond|Limit|Sort' THEN
            -- up to 18 the index skips NULLs, though a primary key has none
            CONTINUE WHEN line ~ 'Cond: \(id IS NOT NULL\)$';
            RETURN NEXT regexp_replace(ltrim(line, ' ->'), '\(\(id IS NOT NULL\) AND (.*)\)$', '\1');
        END IF;
    END LOOP;
END $$;

SELECT scans_of('SELECT min(id) FROM events');
SELECT scans_of('SELECT max(id) FROM events WHERE id < 9000000');
SELECT min(id), max(id) FROM events;
SELECT max(id) FROM events WHERE id < 9000000;

-- prepared statements with a bigint parameter, as drivers send them
PREPARE by_bigint(bigint) AS SELECT * FROM events WHERE id = $1;
PREPARE by_snowflake(snowflake) AS SELECT * FROM events WHERE id = $1;
PREPARE by_array(bigint[]) AS SELECT * FROM events WHERE id = ANY ($1);
PREPARE page(bigint) AS SELECT * FROM events WHERE id < $1 ORDER BY id DESC LIMIT 20;
PREPARE unknown AS SELECT * FROM events WHERE id = $1;

SELECT parameter_types FROM pg_prepared_statements WHERE name = 'unknown';

SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_bigint(5000);
EXPLAIN (COSTS OFF) EXECUTE by_snowflake(5000);
EXPLAIN (COSTS OFF) EXECUTE by_array('{5000,6000}');
EXPLAIN (COSTS OFF) EXECUTE page(9000000);
EXECUTE by_bigint(5000);
EXECUTE by_snowflake('5000');

SET plan_cache_mode = force_custom_plan;
EXPLAIN (COSTS OFF) EXECUTE by_bigint(5000);
EXPLAIN (COSTS OFF) EXECUTE by_snowflake(5000);
EXPLAIN (COSTS OFF) EXECUTE page(9000000);
EXECUTE by_bigint(5000);
RESET plan_cache_mode;
DEALLOCATE ALL;

-- joins of a snowflake with a bigint
CREATE TABLE likes (id bigint, who text);

INSERT INTO likes
SELECT i * 2000, 'user ' || i % 7
  FROM generate_series(1, 15000) AS i;

CREATE INDEX likes_id ON likes (id);
VACUUM ANALYZE likes;

SET enable_memoize = off;
SET max_parallel_workers_per_gather = 0;

SET enable_hashjoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM events JOIN likes USING (id);
SELECT count(*) FROM events JOIN likes USING (id);

SET enable_hashjoin = on;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM events JOIN likes USING (id);
SELECT count(*) FROM events JOIN likes USING (id);

SET enable_hashjoin = off;
SET enable_nestloop = on;
EXPLAIN (COSTS OFF) SELECT count(*) FROM events JOIN likes USING (id) WHERE note = 'note 4';
EXPLAIN (COSTS OFF) SELECT count(*) FROM likes JOIN events USING (id) WHERE likes.id < 9000;
SELECT count(*) FROM likes JOIN events USING (id) WHERE likes.id < 9000;

RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;

SELECT count(*) FROM likes LEFT JOIN events USING (id) WHERE events.id IS NULL;
SELECT count(*), count(events.same), count(who) FROM events FULL JOIN likes USING (id);
SELECT count(*) FROM events WHERE id IN (SELECT id FROM likes);
SELECT count(*) FROM events WHERE NOT EXISTS (SELECT 1 FROM likes WHERE likes.id = events.id);
SELECT pg_typeof(id) FROM events JOIN likes USING (id) LIMIT 1;

-- two snowflakes
EXPLAIN (COSTS OFF)
SELECT count(*) FROM events a JOIN events b ON a.id = b.id WHERE b.id = 5000;

-- the statistics of a snowflake column are a bigint's
CREATE FUNCTION estimate(query text, "column" text) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || format(query, "column") INTO plan;
    RETURN plan->0->'Plan'->>'Plan Rows';
END $$;

SELECT s.attname, s.n_distinct = t.n_distinct AS n_distinct, s.null_frac = t.null_frac AS null_frac,
       s.avg_width, s.correlation = t.correlation AS correlation,
       s.histogram_bounds::text = t.histogram_bounds::text AS histogram
  FROM pg_stats s, pg_stats t
 WHERE s.tablename = 'events' AND s.attname = 'id'
   AND t.tablename = 'events' AND t.attname = 'same';

CREATE TABLE questions (n integer, question text, rows bigint);

INSERT INTO questions VALUES
    (1, 'FROM events WHERE events.%1$s = 5000', 1),
    (2, 'FROM events WHERE events.%1$s < 10000000', 9999),
    (3, 'FROM events WHERE events.%1$s > 19990000', 10),
    (4, 'FROM events WHERE events.%1$s BETWEEN 3000000 AND 4000000', 1001),
    -- two rows, 200 to a bucket of the histogram
    (5, 'FROM events WHERE events.%1$s >= 7000000 AND events.%1$s < 7002000', 2),
    (6, 'FROM events WHERE events.%1$s >= 7000000 AND events.%1$s < 7100000', 100),
    (7, 'FROM events WHERE events.%1$s IN (1000, 2000, 3000)', 3),
    (8, 'FROM events WHERE events.%1$s = ANY (''{1000,2000}''::bigint[])', 2),
    (9, 'FROM events WHERE events.%1$s <> 5000', 19999),
    (10, 'FROM events WHERE events.%1$s < 1', 0),
    (11, 'FROM events JOIN likes ON events.%1$s = likes.id', 10000),
    (12, 'FROM events GROUP BY events.%1$s', 20000),
    -- a value that the planner does not know
    (13, 'FROM events WHERE events.%1$s < (SELECT 5::bigint)', NULL);

SELECT format(question, 'id') AS question, rows,
       estimate('SELECT ' || question, 'id') = estimate('SELECT ' || question, 'same') AS as_bigint,
       estimate('SELECT ' || question, 'id') BETWEEN rows / 2 AND rows * 2 + 1 AS close
  FROM questions
 ORDER BY n;

RESET enable_bitmapscan;
RESET enable_memoize;
RESET max_parallel_workers_per_gather;

-- other kinds of index
CREATE TABLE others (id snowflake, pad text);
INSERT INTO others SELECT i, repeat('x', 100) FROM generate_series(1, 20000) AS i;

CREATE INDEX others_hash ON others USING hash (id);
ANALYZE others;
EXPLAIN (COSTS OFF) SELECT * FROM others WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT * FROM others WHERE id = '5'::snowflake;
SELECT id FROM others WHERE id = 5;
SELECT id FROM others WHERE id = '5'::snowflake;
DROP INDEX others_hash;

CREATE INDEX others_brin ON others USING brin (id) WITH (pages_per_range = 4);
EXPLAIN (COSTS OFF) SELECT * FROM others WHERE id BETWEEN 5000 AND 5010;
SELECT count(*) FROM others WHERE id BETWEEN 5000 AND 5010;
SELECT count(*) FROM others WHERE id = '5000'::snowflake;
DROP INDEX others_brin;

CREATE INDEX others_brin ON others USING brin (id int8_minmax_multi_ops);
EXPLAIN (COSTS OFF) SELECT * FROM others WHERE id = 5000;
SELECT count(*) FROM others WHERE id = 5000;
DROP INDEX others_brin;

CREATE INDEX others_expression ON others ((id / 1000));
ANALYZE others;
EXPLAIN (COSTS OFF) SELECT * FROM others WHERE id / 1000 = 20;
SELECT count(*) FROM others WHERE id / 1000 = 20;

DROP TABLE events, likes, others, questions;
DROP FUNCTION scans_of, estimate;
DROP EXTENSION snowflake;
