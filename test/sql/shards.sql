--
-- snowflake.shards: which shards this server mints, and how
-- snowflake_nextval() goes from one that is exhausted to the next.
--
CREATE EXTENSION snowflake;

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

-- The shard of the next id, in a millisecond of its own: within one, a session
-- does not go back to a lower shard.
CREATE FUNCTION next_shard() RETURNS integer
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(0.002);
    RETURN snowflake_shard(snowflake_nextval());
END $$;

-- one shard
SET snowflake.shards = '5';
SELECT next_shard(), snowflake_shard(snowflake_nextval(5));
SELECT snowflake_nextval(6);
SELECT state, message, detail, hint FROM error_of('SELECT snowflake_nextval(6)');
SELECT state, message FROM error_of('SELECT snowflake_nextval(1024)');

-- every shard at an edge: of the type, of the layout, of the list and its gap
SET snowflake.shards = '5,7';
SELECT shard, state, message
  FROM unnest(ARRAY[-2147483648, -1000000000, -1, 0, 4, 5, 6, 7, 8, 1022, 1023, 1024, 1000000000, 2147483647]) AS shard,
       error_of(format('SELECT snowflake_nextval(%s)', shard));

-- the last one
SET snowflake.shards = '1022-1023';
SELECT next_shard(), snowflake_shard(snowflake_nextval(1023));
SET snowflake.shards = '1023';
SELECT next_shard();
SET snowflake.shards = '5';

-- what is refused mints nothing
SELECT snowflake_nextval() AS last \gset
SELECT state FROM error_of('SELECT snowflake_nextval(6)');
SELECT snowflake_lastval() = :last AS minted_nothing;

-- lists and ranges
SET snowflake.shards = '0-7';
SELECT count(*) AS own
  FROM generate_series(0, 1023) AS shard, error_of(format('SELECT snowflake_nextval(%s)', shard))
 WHERE message = 'NO ERROR';

SET snowflake.shards = '1,5,9-12';
SELECT array_agg(shard ORDER BY shard) AS own
  FROM generate_series(0, 1023) AS shard, error_of(format('SELECT snowflake_nextval(%s)', shard))
 WHERE message = 'NO ERROR';
SELECT count(*) AS refused, min(state) AS state, max(state) AS same, count(DISTINCT detail) AS details
  FROM generate_series(0, 1023) AS shard, error_of(format('SELECT snowflake_nextval(%s)', shard))
 WHERE message = format('shard %s is not one of this server''s', shard);
SELECT next_shard();

-- as it is written without quotes, unsorted, twice, and with blanks
SET snowflake.shards = 1, 5;
SHOW snowflake.shards;
SELECT next_shard(), snowflake_shard(snowflake_nextval(5));
SET snowflake.shards = ' 12 , 9 - 10,9,10-11 ,0009';
SHOW snowflake.shards;
SELECT array_agg(shard ORDER BY shard) AS own
  FROM generate_series(0, 1023) AS shard, error_of(format('SELECT snowflake_nextval(%s)', shard))
 WHERE message = 'NO ERROR';
SELECT next_shard();
SET snowflake.shards = '0-1023';
SELECT next_shard(), snowflake_shard(snowflake_nextval(1023));
SET snowflake.shards = '1023';
SELECT next_shard();

-- nothing is any shard, if it is named
SET snowflake.shards = '';
SELECT snowflake_shard(snowflake_nextval(6));
SELECT state, message, hint FROM error_of('SELECT snowflake_nextval()');
SET snowflake.shards = ' ';
SELECT state FROM error_of('SELECT snowflake_nextval()');

-- what is no list of shards
SET snowflake.shards = '5';
SET snowflake.shards = '5x';
SET snowflake.shards = E'0\342\200\2237';
SET snowflake.shards = 'auto:x';
SELECT left(list, 22) AS list, state, detail
  FROM unnest(ARRAY['x', '5x', '5 6', '5;6', '-', '1-', '-1', '1--2', '1-2-3', '1,', '1, ', ',', ',1', '1,,2', '+1',
                    '1.5', '0x5', 'all', '7-3', '1024', '0-1024', '1024-1025', '2000-1999', '5,1024',
                    '99999999999999999', '99999999999999999999', '1,99999999999999999999',
                    repeat('1,', 50) || 'y', repeat('z', 100)]) AS list,
       error_of(format('SET snowflake.shards = %L', list)) AS error;
SHOW snowflake.shards;
SELECT n, state, detail FROM unnest(ARRAY[-1, 0, 1025]) AS n, error_of(format('SET snowflake.shards = ''auto:%s''', n));
SELECT next_shard();

-- like any setting: for a transaction, for a function, back to what it was
BEGIN;
SET LOCAL snowflake.shards = '6';
SELECT next_shard();
ROLLBACK;
SELECT next_shard();
CREATE FUNCTION mint_7() RETURNS snowflake
    LANGUAGE sql SET snowflake.shards = '7' AS 'SELECT snowflake_nextval()';
SELECT snowflake_shard(mint_7()), next_shard();
RESET snowflake.shards;
SELECT state FROM error_of('SELECT snowflake_nextval()');

-- and for a database
SELECT current_database() AS database \gset
ALTER DATABASE :database SET snowflake.shards = '8';
\c -
SHOW snowflake.shards;
SELECT next_shard();
ALTER DATABASE :database SET snowflake.shards = '';
\c -
SHOW snowflake.shards;

-- a table's DEFAULT
CREATE TABLE ids (id snowflake DEFAULT snowflake_nextval(), n integer);
INSERT INTO ids (n) VALUES (0);
SET snowflake.shards = '0-7';
INSERT INTO ids (n) VALUES (1), (2);
SELECT count(*), count(DISTINCT id) FROM ids;

-- Where one session mints more in a millisecond than one shard has, the ids go
-- on from the next, still distinct, still increasing.  16 ids to a row, so that
-- the statement gets there where the machine is fast enough;
-- test/t/003_spilling.pl gets there on every machine.  In ticks of its own.
SELECT pg_sleep(0.01);
CREATE TABLE rows (n integer, ids snowflake[], minted_by timestamptz);

\set four 'snowflake_nextval(), snowflake_nextval(), snowflake_nextval(), snowflake_nextval()'
INSERT INTO rows
SELECT n, ARRAY[:four, :four, :four, :four], clock_timestamp()
  FROM generate_series(1, 10000) AS n;

TRUNCATE ids;
INSERT INTO ids SELECT id, 16 * rows.n + i FROM rows, unnest(ids) WITH ORDINALITY AS u (id, i);

SELECT count(*), count(DISTINCT id), min(snowflake_shard(id)) AS from_shard, max(snowflake_shard(id)) <= 7 AS to_shard
  FROM ids;
SELECT count(*) FILTER (WHERE id <= before) AS out_of_order
  FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM ids) AS ids;

CREATE TABLE ticks AS
SELECT snowflake_timestamp(id) AS tick, snowflake_shard(id) AS shard, count(*) AS ids,
       max(snowflake_sequence(id)) AS last
  FROM ids
 GROUP BY 1, 2;

SELECT max(ids) <= 4096 AS at_most_full, bool_and(last = ids - 1) AS without_gaps FROM ticks;
SELECT count(*) AS future FROM rows, unnest(ids) AS id WHERE snowflake_timestamp(id) > minted_by;

-- a shard is used when the one below it is exhausted, and not before
SELECT count(*) AS used_too_early
  FROM ticks t
 WHERE shard > 0
   AND NOT EXISTS (SELECT FROM ticks WHERE tick = t.tick AND shard = t.shard - 1 AND ids = 4096);

-- with one shard there is none to go on from
SET snowflake.shards = '3';
TRUNCATE ids;
TRUNCATE rows;
INSERT INTO rows
SELECT n, ARRAY[:four, :four, :four, :four], clock_timestamp()
  FROM generate_series(1, 2500) AS n;
INSERT INTO ids SELECT id, 16 * rows.n + i FROM rows, unnest(ids) WITH ORDINALITY AS u (id, i);
SELECT count(DISTINCT id), min(snowflake_shard(id)) AS from_shard, max(snowflake_shard(id)) AS to_shard FROM ids;
SELECT count(*) FILTER (WHERE id <= before) AS out_of_order
  FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM ids) AS ids;
SELECT max(ids) <= 4096 AS at_most_full
  FROM (SELECT count(*) AS ids FROM ids GROUP BY snowflake_timestamp(id)) AS ticks;

-- The ids of a session increase even when it changes its shards, down or up.
CREATE FUNCTION alternate(times integer) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    before snowflake := 0;
    id snowflake;
    wrong bigint := 0;
BEGIN
    FOR i IN 1..times LOOP
        PERFORM set_config('snowflake.shards', CASE i % 3 WHEN 0 THEN '9' WHEN 1 THEN '2' ELSE '2,5' END, true);
        id := snowflake_nextval();
        wrong := wrong + (id <= before)::integer;
        before := id;
    END LOOP;
    RETURN wrong;
END $$;
SELECT alternate(300) AS out_of_order;

DROP TABLE ids, rows, ticks;
DROP FUNCTION error_of, next_shard, mint_7, alternate;
DROP EXTENSION snowflake;
