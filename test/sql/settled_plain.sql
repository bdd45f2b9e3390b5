-- snowflake_settled() in plain SQL.  Who holds the mark and when is in
-- test/specs/settled.spec, and under load in test/t/046_settled.pl.
CREATE EXTENSION snowflake;

CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5), name text);
INSERT INTO events (name) SELECT 'event ' || n FROM generate_series(1, 100) AS n;
ANALYZE events;

-- It is an id, the first of a tick, and not of the future
SELECT pg_typeof(mark), mark = snowflake_floor(mark::timestamptz) AS is_first_of_tick,
       snowflake_shard(mark), snowflake_sequence(mark), mark::timestamptz <= clock_timestamp() AS has_begun
  FROM (SELECT snowflake_settled() AS mark) AS now;

-- The primary key finds what is new, in a bigint column too
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id > 0 AND id < snowflake_settled() ORDER BY id LIMIT 1000;
CREATE TABLE bigints (id bigint PRIMARY KEY DEFAULT snowflake_nextval(5));
EXPLAIN (COSTS OFF) SELECT * FROM bigints WHERE id > 0 AND id < snowflake_settled() ORDER BY id LIMIT 1000;

-- Partitions by time are pruned when the query runs
CREATE TABLE parted (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5)) PARTITION BY RANGE (id);
CREATE TABLE parted_past PARTITION OF parted FOR VALUES FROM (0) TO (snowflake_floor('2080-01-01Z'));
CREATE TABLE parted_future PARTITION OF parted FOR VALUES FROM (snowflake_floor('2080-01-01Z')) TO (MAXVALUE);
EXPLAIN (COSTS OFF) SELECT * FROM parted WHERE id < snowflake_settled();

-- A transaction that has minted holds the mark for itself, too
BEGIN;
INSERT INTO events (name) VALUES ('mine');
SELECT snowflake_settled() <= max(id) AS holds FROM events;
ROLLBACK;

-- A transaction that only reads an id, or makes one, does not
BEGIN;
SELECT snowflake_floor(now()) > 0 AS makes;
SELECT holding_since, oldest_id FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
COMMIT;

DROP TABLE events, bigints, parted;
DROP EXTENSION snowflake;
