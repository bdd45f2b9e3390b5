--
-- Minting in one session: as a DEFAULT, in bulk, in transactions; what an id
-- holds; what is refused, and then mints nothing.
--
CREATE EXTENSION snowflake;
SET TIME ZONE 'UTC';

-- What a call fails with.
CREATE FUNCTION error_of(call text, OUT state text, OUT message text, OUT detail text, OUT hint text)
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    message := 'NO ERROR';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                            hint = PG_EXCEPTION_HINT;
END $$;

-- before any
SELECT snowflake_lastval();
SELECT state, message, hint FROM error_of('SELECT snowflake_lastval()');

-- no shard is this server's own, so one has to be named
SHOW snowflake.shards;
SELECT snowflake_nextval();
SELECT state FROM error_of('SELECT snowflake_nextval()');

-- and a failed call is no mint
SELECT state FROM error_of('SELECT snowflake_lastval()');

-- as a DEFAULT
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5), n integer, url text);

INSERT INTO photos (n, url) VALUES (1, 'a.jpg') RETURNING pg_typeof(id), id > 0 AS positive, url;
INSERT INTO photos (n, url) VALUES (2, 'b.jpg'), (3, 'c.jpg'), (4, 'd.jpg') RETURNING snowflake_shard(id) AS shard, url;
INSERT INTO photos (id, n) VALUES (DEFAULT, 5), (snowflake_nextval(5), 6);
INSERT INTO photos (n) SELECT n FROM generate_series(7, 10000) AS n;

SELECT count(*), count(DISTINCT id), count(DISTINCT snowflake_shard(id)) AS shards, min(snowflake_shard(id)) AS shard
  FROM photos;

-- in the order in which they were minted, each is greater than the one before
CREATE FUNCTION order_of(relation regclass, OUT ids bigint, OUT out_of_order bigint)
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT count(*), count(*) FILTER (WHERE id <= before)
                      FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM %s) AS ids', relation)
       INTO ids, out_of_order;
END $$;

SELECT * FROM order_of('photos');
SELECT snowflake_lastval() = max(id) AS last FROM photos;

-- the time of an id is that of the call, in whole milliseconds
SELECT clock_timestamp() AS before, snowflake_nextval(5) AS id \gset
SELECT clock_timestamp() AS after \gset
SELECT snowflake_timestamp(:id) >= date_trunc('milliseconds', :'before'::timestamptz) AS not_before,
       snowflake_timestamp(:id) <= :'after' AS not_after,
       snowflake_timestamp(:id) = date_trunc('milliseconds', snowflake_timestamp(:id)) AS whole;

-- that of the call, and not of the transaction or the statement
BEGIN;
SELECT pg_sleep(0.01);
SELECT snowflake_timestamp(snowflake_nextval(5)) >= now() + interval '9 ms' AS not_of_transaction;
COMMIT;

SELECT snowflake_timestamp(snowflake_nextval(5)) >= statement_timestamp() + interval '9 ms' AS not_of_statement
  FROM (SELECT pg_sleep(0.01) OFFSET 0) AS first;

-- a volatile function, called for each row and each mention
SELECT count(DISTINCT id) FROM (SELECT snowflake_nextval(5) AS id FROM generate_series(1, 10) OFFSET 0) AS ids;
SELECT snowflake_nextval(5) < snowflake_nextval(5) AS increasing;

-- A shard mints at most 4096 ids a millisecond, waits for the next, and goes
-- on.  16 ids to a row, so that the statement gets there where the machine is
-- fast enough; test/t/002_exhaustion.pl gets there on every machine.
CREATE TABLE rows (n integer, ids snowflake[], minted_by timestamptz);

\set four 'snowflake_nextval(7), snowflake_nextval(7), snowflake_nextval(7), snowflake_nextval(7)'
INSERT INTO rows
SELECT n, ARRAY[:four, :four, :four, :four], clock_timestamp()
  FROM generate_series(1, 10000) AS n;

CREATE TABLE burst AS
SELECT 16 * rows.n + i AS n, id, minted_by, lag(minted_by, 16) OVER (ORDER BY rows.n, i) AS minted_after
  FROM rows, unnest(ids) WITH ORDINALITY AS u (id, i);

SELECT count(*), count(DISTINCT id) FROM burst;
SELECT * FROM order_of('burst');

-- never more than a whole tick, and none begun in the middle
CREATE TABLE ticks AS
SELECT snowflake_timestamp(id) AS tick, count(*) AS ids, min(snowflake_sequence(id)), max(snowflake_sequence(id))
  FROM burst
 GROUP BY tick;

SELECT max(ids) <= 4096 AS at_most_full, bool_and(min = 0) AS from_0, bool_and(max = ids - 1) AS without_gaps FROM ticks;

-- nothing from the future, and nothing from the past
SELECT count(*) FILTER (WHERE snowflake_timestamp(id) > minted_by) AS future,
       count(*) FILTER (WHERE snowflake_timestamp(id) < date_trunc('milliseconds', minted_after)) AS past
  FROM burst;

-- it stops when it is told to, waiting or not
BEGIN;
SET LOCAL statement_timeout = '30ms';
SELECT max(snowflake_nextval(7)) FROM generate_series(1, 100000000);
ROLLBACK;

-- every shard of the layout
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE snowflake_shard(id) <> shard) AS of_another_shard
  FROM (SELECT shard, snowflake_nextval(shard) AS id FROM generate_series(0, 1023) AS shard OFFSET 0) AS ids;

-- nothing is taken back
CREATE TABLE kept (n serial, id bigint);

BEGIN;
SELECT snowflake_nextval(5) AS lost \gset
ROLLBACK;
SELECT snowflake_nextval(5) > :lost AS greater, snowflake_lastval() > :lost AS last_is_greater;

BEGIN;
INSERT INTO kept (id) VALUES (snowflake_nextval(5));
SAVEPOINT one;
SELECT snowflake_nextval(5) AS lost \gset
ROLLBACK TO one;
INSERT INTO kept (id) VALUES (snowflake_nextval(5));
SAVEPOINT two;
INSERT INTO kept (id) VALUES (snowflake_nextval(5));
RELEASE two;
COMMIT;
SELECT * FROM order_of('kept');
SELECT count(*) FILTER (WHERE id > :lost) AS after, count(*) FILTER (WHERE id < :lost) AS before,
       count(*) FILTER (WHERE id = :lost) AS again
  FROM kept;

-- an INSERT that fails, or finds its row there, has used its id
SELECT snowflake_lastval() AS before \gset
SELECT state FROM error_of('INSERT INTO photos (id, n) SELECT max(id), snowflake_nextval(5) % 1 FROM photos');
SELECT snowflake_lastval() > :before AS used;

SELECT snowflake_lastval() AS before \gset
INSERT INTO photos (id, n) SELECT max(id), snowflake_nextval(5) % 1 FROM photos ON CONFLICT DO NOTHING;
SELECT snowflake_lastval() > :before AS used;

-- no transaction id
BEGIN;
SELECT snowflake_nextval(5) > 0 AS minted;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid;
COMMIT;

-- read-only transactions mint
BEGIN READ ONLY;
SELECT snowflake_nextval(5) > :before AS minted;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT snowflake_nextval(5) > :before AS minted;
COMMIT;

-- parallel workers do not: the leader mints what they read
CREATE TABLE big AS SELECT n FROM generate_series(1, 20000) AS n;
ANALYZE big;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF, VERBOSE) SELECT snowflake_nextval(9) FROM big;
CREATE TABLE together AS SELECT snowflake_nextval(9) AS id FROM big;
SELECT count(*), count(DISTINCT id), min(snowflake_shard(id)) AS from_shard, max(snowflake_shard(id)) AS to_shard
  FROM together;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

-- shards that the layout does not have
SELECT snowflake_nextval(1024);
SELECT shard, state, message, detail, hint
  FROM unnest(ARRAY[-2147483648, -1, 1024, 2147483647]) AS shard,
       error_of(format('SELECT snowflake_nextval(%s)', shard));

SELECT snowflake_nextval(1023) AS last \gset
SELECT snowflake_shard(:last);
SELECT state FROM error_of('SELECT snowflake_nextval(-1)');
SELECT snowflake_lastval() = :last AS minted_nothing;

-- NULL is no shard
SELECT snowflake_nextval(NULL) IS NULL AS "null", snowflake_lastval() = :last AS minted_nothing;

-- lastval is the session's
SELECT snowflake_nextval(3) = snowflake_lastval() AS last;
SELECT snowflake_shard(snowflake_lastval());
\c -
SELECT snowflake_lastval();
SELECT snowflake_nextval(1023) > :last AS greater;
SELECT snowflake_lastval() > :last AS defined;

-- with one shard of its own a session holds the mark for that, with several for all
SET snowflake.shards = '8';
BEGIN;
SELECT snowflake_nextval() > :last AS greater;
SELECT shard FROM snowflake_unsettled WHERE pid = pg_backend_pid();
COMMIT;
SET snowflake.shards = '8-9';
BEGIN;
SELECT snowflake_nextval() > :last AS greater;
SELECT shard IS NULL AS of_all FROM snowflake_unsettled WHERE pid = pg_backend_pid();
COMMIT;
RESET snowflake.shards;

DROP TABLE photos, rows, burst, ticks, kept, big, together;
DROP FUNCTION error_of, order_of;
DROP EXTENSION snowflake;
