-- Comparing ids with times: each operator is exactly the comparison of
-- snowflake_timestamp(id), and plans as a comparison of bigints.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS snowflake;
RESET client_min_messages;
SET TIME ZONE 'UTC';
SET DateStyle TO ISO;

--
-- what they mean: random ids and times, near each other and far apart, before
-- the epoch and after the layout has expired, on ticks and between them; and corners
--
SELECT setseed(0.42);

CREATE TABLE pairs AS
SELECT id::snowflake, ts
  FROM (SELECT (random() * 9.2e18 * CASE WHEN random() < 0.2 THEN -1 ELSE 1 END)::bigint AS id
          FROM generate_series(1, 20000)) AS random_id,
       LATERAL (SELECT CASE (random() * 5)::int
                WHEN 0 THEN snowflake_timestamp(id)
                WHEN 1 THEN snowflake_timestamp(id) + interval '1 microsecond'
                WHEN 2 THEN snowflake_timestamp(id) - interval '1 microsecond'
                WHEN 3 THEN snowflake_timestamp(id) + random() * interval '1 ms'
                WHEN 4 THEN timestamptz '1900-01-01' + random() * interval '300 years'
                ELSE snowflake_timestamp(id) + (random() - 0.5) * interval '1 hour' END AS ts) AS near;

INSERT INTO pairs
SELECT id, ts
  FROM unnest(ARRAY[0, 1, -1, 4194303, 4194304, -4194304, 9223372036854775807, -9223372036854775808,
                    9223372036850581504, -9223372036850581505]) AS id,
       unnest(ARRAY['-infinity', 'infinity', '4714-11-24 BC', '294276-12-31 23:59:59.999999',
                    '1941-02-24', '2010-11-04 01:42:54.657', '2010-11-04 01:42:54.657001',
                    '2010-11-04 01:42:54.656999', '2080-07-10 17:30:30.207999',
                    '2080-07-10 17:30:30.208', '2080-07-10 17:30:30.208001',
                    '2080-07-10 17:30:30.209']::timestamptz[]) AS ts;
INSERT INTO pairs
SELECT '-9223372036854775808', snowflake_timestamp(-9223372036854775808) + n * interval '1 microsecond'
  FROM generate_series(-1, 1) AS n;

-- within a row, where the planner replaces nothing
EXPLAIN (COSTS OFF, VERBOSE) SELECT FROM pairs WHERE id < ts;
SELECT count(*) > 20000 AS pairs,
       count(*) FILTER (WHERE (id <  ts) <> (snowflake_timestamp(id) <  ts)) AS lt,
       count(*) FILTER (WHERE (id <= ts) <> (snowflake_timestamp(id) <= ts)) AS le,
       count(*) FILTER (WHERE (id =  ts) <> (snowflake_timestamp(id) =  ts)) AS eq,
       count(*) FILTER (WHERE (id <> ts) <> (snowflake_timestamp(id) <> ts)) AS ne,
       count(*) FILTER (WHERE (id >= ts) <> (snowflake_timestamp(id) >= ts)) AS ge,
       count(*) FILTER (WHERE (id >  ts) <> (snowflake_timestamp(id) >  ts)) AS gt,
       count(*) FILTER (WHERE (ts <  id) <> (ts <  snowflake_timestamp(id))) AS lt_mirrored,
       count(*) FILTER (WHERE (ts <= id) <> (ts <= snowflake_timestamp(id))) AS le_mirrored,
       count(*) FILTER (WHERE (ts =  id) <> (ts =  snowflake_timestamp(id))) AS eq_mirrored,
       count(*) FILTER (WHERE (ts <> id) <> (ts <> snowflake_timestamp(id))) AS ne_mirrored,
       count(*) FILTER (WHERE (ts >= id) <> (ts >= snowflake_timestamp(id))) AS ge_mirrored,
       count(*) FILTER (WHERE (ts >  id) <> (ts >  snowflake_timestamp(id))) AS gt_mirrored
  FROM pairs;

-- with a time from elsewhere, where it does; all but the one id that no layout
-- mints
CREATE TABLE ids AS
SELECT DISTINCT id, snowflake_timestamp(id) AS made
  FROM pairs WHERE id <> '-9223372036854775808' AND (id::bigint % 20 = 0 OR abs(id::bigint) < 5000000 OR id > 9223372036850000000);
CREATE TABLE times AS
SELECT DISTINCT ts FROM pairs WHERE isfinite(ts) IS FALSE OR extract(microseconds FROM ts)::bigint % 47 = 0
    OR abs(extract(epoch FROM ts)) > 1e10 OR id IN (0, 9223372036854775807);
EXPLAIN (COSTS OFF) SELECT FROM ids, times WHERE id < ts;

SELECT count(*) > 200000 AS pairs, sum(n) AS differences
  FROM (SELECT ((id <  ts) <> (made <  ts))::int + ((id <= ts) <> (made <= ts))::int +
               ((id =  ts) <> (made =  ts))::int + ((id <> ts) <> (made <> ts))::int +
               ((id >= ts) <> (made >= ts))::int + ((id >  ts) <> (made >  ts))::int +
               ((ts <  id) <> (ts <  made))::int + ((ts <= id) <> (ts <= made))::int +
               ((ts =  id) <> (ts =  made))::int + ((ts <> id) <> (ts <> made))::int +
               ((ts >= id) <> (ts >= made))::int + ((ts >  id) <> (ts >  made))::int AS n
          FROM ids, times) AS compared;

-- constants of every corner, where the planner may know the answer
CREATE FUNCTION differ(op text, ts timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM pairs WHERE (id %1$s %2$L::timestamptz) <> (snowflake_timestamp(id) %1$s %2$L::timestamptz)
                        OR (%2$L::timestamptz %1$s id) <> (%2$L::timestamptz %1$s snowflake_timestamp(id))', op, ts) INTO n;
    RETURN n;
END $$;
SELECT op, sum(differ(op, ts))
  FROM unnest(ARRAY['<', '<=', '=', '<>', '>=', '>']) AS op,
       (SELECT DISTINCT ts FROM pairs WHERE id IN (0, '9223372036854775807', '-9223372036854775808')) AS corner
 GROUP BY op ORDER BY op COLLATE "C";

-- NULL is neither
SELECT NULL::snowflake < now() AS "null id", 5::snowflake < NULL::timestamptz AS "null time",
       (SELECT id FROM pairs WHERE id IS NULL) >= 'infinity'::timestamptz AS "null and no id";
-- also where all ids compare so, or none does
SELECT id, id <= timestamptz 'infinity' AS le, id >= timestamptz '-infinity' AS ge, id = timestamptz 'infinity' AS eq, id < timestamptz '-infinity' AS lt
  FROM (VALUES (5::snowflake), (NULL)) AS with_null (id);

-- what is volatile is called once for each row
CREATE SEQUENCE calls;
CREATE FUNCTION an_id() RETURNS snowflake LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM nextval('calls');
    RETURN snowflake_floor('2026-01-01');
END $$;
CREATE FUNCTION a_time() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM nextval('calls');
    RETURN timestamptz '2026-01-01';
END $$;
SELECT count(*) FROM generate_series(1, 3) WHERE an_id() = timestamptz '2026-01-01';
SELECT count(*) FROM generate_series(1, 3) WHERE an_id() = now() - (now() - timestamptz '2026-01-01');
SELECT count(*) FROM (VALUES (snowflake_floor('2026-01-01'))) AS one (id) WHERE id = a_time();
SELECT last_value AS calls FROM calls;
DROP FUNCTION an_id, a_time;
DROP SEQUENCE calls;

-- what is a time and what is a number: date and timestamp come in by
-- themselves, a bare literal and an untyped parameter are numbers
SELECT count(*) > 0 AS date FROM pairs WHERE id >= date '2030-01-01';
SELECT count(*) > 0 AS timestamp FROM pairs WHERE id >= timestamp '2030-01-01';
SELECT count(*) FROM pairs WHERE id >= '2030-01-01';
SELECT count(*) > 0 AS number FROM pairs WHERE id >= '5';
PREPARE page AS SELECT count(*) > 0 AS number FROM pairs WHERE id < $1;
EXECUTE page('2124108955343917056');
SELECT count(*) > 0 AS "row" FROM pairs WHERE (id, ts) < ('2124108955343917056', now());
-- majors word this error differently
\set VERBOSITY sqlstate
SELECT 5::bigint < now();
SELECT 5::snowflake < time '12:00';
\set VERBOSITY default

-- outside a plan
DO $$
DECLARE id snowflake := snowflake_floor('2026-01-01');
BEGIN
    RAISE NOTICE 'id >= 2026: %, id < 2026: %', id >= timestamptz '2026-01-01', id < timestamptz '2026-01-01';
END $$;
CREATE TABLE checked (id snowflake CHECK (id >= timestamptz '2026-01-01'));
INSERT INTO checked VALUES (snowflake_floor('2026-01-01'));
INSERT INTO checked VALUES (snowflake_floor('2026-01-01')::bigint - 1);

--
-- plans
--
CREATE TABLE events (id snowflake PRIMARY KEY, n int);
INSERT INTO events
SELECT snowflake_encode(timestamptz '2026-01-01' + n * interval '1 hour', 1, 0), n
  FROM generate_series(0, 9999) AS n;
ANALYZE events;
SET enable_bitmapscan = off;
SET enable_seqscan = off;

EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id >= timestamptz '2026-03-01';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id >= timestamptz '2026-03-01' AND id < timestamptz '2026-04-01';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id BETWEEN timestamptz '2026-03-01' AND timestamptz '2026-04-01';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id >= now() - interval '1 day';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE timestamptz '2026-03-01' > id;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE NOT id < timestamptz '2026-03-01';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = timestamptz '2026-03-01';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id = timestamptz '2026-03-01 00:00:00.000001';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id >= timestamptz '2026-03-01' ORDER BY id DESC LIMIT 20;

SET plan_cache_mode = force_generic_plan;
PREPARE since (timestamptz) AS SELECT count(*) FROM events WHERE id >= $1 AND id < $1 + interval '1 day';
EXPLAIN (COSTS OFF) EXECUTE since('2026-03-01');
EXECUTE since('2026-03-01');
RESET plan_cache_mode;

CREATE TABLE spans (starts timestamptz, ends timestamptz);
INSERT INTO spans VALUES ('2026-03-01', '2026-03-02'), ('2026-05-01', '2026-05-03');
ANALYZE spans;
RESET enable_seqscan;
SET enable_material = off;
EXPLAIN (COSTS OFF)
SELECT starts, count(*) FROM spans JOIN events ON id >= starts AND id < ends GROUP BY starts;
SELECT starts, count(*) FROM spans JOIN events ON id >= starts AND id < ends GROUP BY starts ORDER BY starts;

-- partitions by time
CREATE TABLE parts (id snowflake PRIMARY KEY, n int) PARTITION BY RANGE (id);
CREATE TABLE parts_01 PARTITION OF parts FOR VALUES FROM (snowflake_floor('2026-01-01')) TO (snowflake_floor('2026-02-01'));
CREATE TABLE parts_02 PARTITION OF parts FOR VALUES FROM (snowflake_floor('2026-02-01')) TO (snowflake_floor('2026-03-01'));
CREATE TABLE parts_03 PARTITION OF parts FOR VALUES FROM (snowflake_floor('2026-03-01')) TO (snowflake_floor('2026-04-01'));
INSERT INTO parts SELECT * FROM events WHERE id < timestamptz '2026-04-01';
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM parts WHERE id >= timestamptz '2026-02-01' AND id < timestamptz '2026-03-01';
EXPLAIN (COSTS OFF) SELECT * FROM parts WHERE id < timestamptz '2026-01-15';
EXPLAIN (COSTS OFF) SELECT * FROM parts WHERE id BETWEEN timestamptz '2026-02-10' AND timestamptz '2026-03-10';

-- pruned when the query starts: for an expression and for a parameter
EXPLAIN (COSTS OFF) SELECT * FROM parts WHERE id >= now() + interval '500 years';
SET plan_cache_mode = force_generic_plan;
PREPARE part (timestamptz) AS SELECT count(*) FROM parts WHERE id >= $1 AND id < $1 + interval '1 day';
EXPLAIN (COSTS OFF) EXECUTE part('2026-03-05');
EXECUTE part('2026-03-05');
RESET plan_cache_mode;
RESET enable_indexscan;
RESET enable_bitmapscan;
RESET enable_material;

--
-- estimates: a million ids spread over a year, beside the same as bigint
--
CREATE TABLE year AS
SELECT id, id::bigint AS plain
  FROM (SELECT snowflake_encode(timestamptz '2026-01-01' + n * interval '31.536 s', 1, 0) AS id
          FROM generate_series(0, 999999) AS n) AS spread;
ANALYZE year;

CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan #>> '{0,Plan,Plan Rows}';
END $$;

SELECT share,
       of_times = of_numbers AS same,
       of_times BETWEEN 0.5 * share / 100 * 1000000 AND 2 * share / 100 * 1000000 AS sound
  FROM unnest(ARRAY[0.01, 0.1, 1, 10, 50]) AS share,
       LATERAL (SELECT timestamptz '2026-03-01' AS starts,
                       timestamptz '2026-03-01' + share / 100 * interval '365 days' AS ends) AS range,
       LATERAL (SELECT estimate(format('SELECT FROM year WHERE id >= %L::timestamptz AND id < %L::timestamptz', starts, ends)) AS of_times,
                       estimate(format('SELECT FROM year WHERE plain >= %s AND plain <= %s', snowflake_floor(starts),
                                       snowflake_floor(ends)::bigint - 1)) AS of_numbers) AS estimates;
-- and for a time that is known only when the query runs: the planner estimates
-- by what it is at the moment
SELECT hours,
       estimate(format('SELECT FROM year WHERE id >= %L::timestamptz + (now() - now())', ends - hours * interval '1 hour')) =
       estimate(format('SELECT FROM year WHERE plain > %s', snowflake_floor(ends - hours * interval '1 hour')::bigint - 1)) AS same
  FROM unnest(ARRAY[1, 24, 1000, 8000]) AS hours, (VALUES (timestamptz '2027-01-01')) AS year (ends);

-- the functions that EXPLAIN shows
SELECT snowflake_last_before('2026-01-01') = snowflake_floor('2026-01-01')::bigint - 1 AS before,
       snowflake_last_until('2026-01-01') = snowflake_ceil('2026-01-01') AS until,
       snowflake_last_before('2026-01-01 00:00:00.0001') = snowflake_ceil('2026-01-01') AS between,
       snowflake_last_before('-infinity') AS never, snowflake_last_until('infinity') AS always;

-- no subquery is executed twice
CREATE FUNCTION subqueries(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN (SELECT count(*) FROM regexp_matches(plan::text, '"InitPlan"', 'g'));
END $$;
SELECT subqueries('SELECT FROM year WHERE id = (SELECT now())') AS equal,
       subqueries($$SELECT FROM year WHERE (SELECT id FROM year LIMIT 1) = timestamptz '2026-03-01'$$) AS equal_id,
       subqueries('SELECT FROM year WHERE id >= (SELECT now())') AS greater;

-- who may not execute them has his times compared all the same
CREATE ROLE regress_snowflake_reader;
CREATE TABLE few AS SELECT id FROM year WHERE id < timestamptz '2026-01-01 00:02';
GRANT SELECT ON few TO regress_snowflake_reader;
PREPARE recent AS SELECT count(*) FROM few WHERE id >= now() - (now() - timestamptz '2026-01-01 00:01');
EXECUTE recent;
REVOKE EXECUTE ON FUNCTION snowflake_last_before(timestamptz) FROM PUBLIC;
EXECUTE recent;
SET ROLE regress_snowflake_reader;
EXPLAIN (COSTS OFF) SELECT FROM few WHERE id >= now();
SELECT count(*) FROM few WHERE id >= now() - (now() - timestamptz '2026-01-01 00:01');
-- as by a plan that another user made
EXECUTE recent;
-- only the bound that a comparison needs is looked up
EXPLAIN (COSTS OFF) SELECT FROM few WHERE id > now();
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_last_before(timestamptz) TO PUBLIC;

DROP TABLE pairs, ids, times, checked, events, spans, parts, year, few;
DROP FUNCTION differ, estimate, subqueries;
DROP EXTENSION snowflake;

-- a stored comparison needs no privilege on the schema of what it is planned to
CREATE SCHEMA regress_snowflake_private;
CREATE EXTENSION snowflake SCHEMA regress_snowflake_private;
SET search_path = public, regress_snowflake_private;
CREATE TABLE few (id snowflake PRIMARY KEY);
INSERT INTO few SELECT snowflake_floor(timestamptz '2026-01-01' + n * interval '1 day') FROM generate_series(1, 3) AS n;
CREATE VIEW late AS SELECT * FROM few WHERE id >= timestamptz '2026-01-03' + (now() - now());
GRANT SELECT ON late TO regress_snowflake_reader;
RESET search_path;
SET ROLE regress_snowflake_reader;
SELECT count(*) FROM late;
RESET ROLE;
DROP VIEW late;
DROP TABLE few;
DROP EXTENSION snowflake;
DROP SCHEMA regress_snowflake_private;
DROP ROLE regress_snowflake_reader;
