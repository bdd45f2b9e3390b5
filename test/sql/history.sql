--
-- snowflake_history(): ids for rows that exist, by the minting rule applied to
-- their times.  In layouts that are not the server's, in which it has minted on
-- any shard: 050_history.pl has those.
--
CREATE EXTENSION snowflake;

-- What a statement fails with.
CREATE FUNCTION error_of(call text, OUT state text, OUT message text, OUT detail text, OUT hint text)
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    message := 'NO ERROR';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                            hint = PG_EXCEPTION_HINT;
END $$;

SET timezone = 'UTC';

-- The rule in plain SQL: the same tick's first id, or the successor of the last id.
CREATE FUNCTION ruled(times timestamptz[], shard integer, layout text) RETURNS SETOF bigint
    LANGUAGE plpgsql AS $$
DECLARE
    ts timestamptz;
    last timestamptz := '-infinity';
    number integer := 0;
    tick interval := (SELECT l.tick FROM snowflake_layouts l WHERE name = layout);
    capacity bigint := (SELECT l.capacity FROM snowflake_layouts l WHERE name = layout);
BEGIN
    FOREACH ts IN ARRAY times LOOP
        ts := snowflake_timestamp(snowflake_floor(ts, layout), layout);
        IF ts > last THEN
            last := ts;
            number := 0;
        ELSIF number < capacity - 1 THEN
            number := number + 1;
        ELSE
            last := last + tick;
            number := 0;
        END IF;
        RETURN NEXT snowflake_encode(last, shard, number, layout);
    END LOOP;
END $$;

-- rows apart: each id has its row's time, to the tick
CREATE TABLE photos (nr serial, created_at timestamptz);
INSERT INTO photos (created_at)
SELECT timestamptz '2024-05-01 12:00:00.0004Z' + n * interval '1.7 s' FROM generate_series(1, 10) AS n;
SELECT nr, d.*
  FROM (SELECT nr, snowflake_history(created_at, 9, 'discord') OVER (ORDER BY created_at, nr) AS id FROM photos) AS p, snowflake_decode(id, 'discord') AS d
 ORDER BY nr LIMIT 4;
SELECT pg_typeof(snowflake_history(created_at, 9, 'discord') OVER (ORDER BY created_at, nr)) AS type FROM photos LIMIT 1;

-- 10,000 rows of one time, and a few after it: the tick is exhausted, and so are
-- the next ones, until there is room
TRUNCATE photos RESTART IDENTITY;
INSERT INTO photos (created_at) SELECT '2024-05-01 12:00Z' FROM generate_series(1, 10000);
INSERT INTO photos (created_at) VALUES ('2024-05-01 12:00:00.001Z'), ('2024-05-01 12:00:00.002Z'), ('2024-05-01 12:00:00.0035Z');
SELECT d.created_at, count(*), min(d.sequence), max(d.sequence), min(nr) AS first, max(nr) AS last
  FROM (SELECT nr, snowflake_history(created_at, 9, 'discord') OVER (ORDER BY created_at, nr) AS id FROM photos) AS p, snowflake_decode(id, 'discord') AS d
 GROUP BY d.created_at ORDER BY d.created_at;

-- any times: as the rule says, strictly increasing, the same each time; dense
-- ones, bursts and gaps
CREATE TABLE times AS
SELECT n AS nr, timestamptz '2026-03-01Z' + (abs(hashint4(n)::bigint) % 40) * interval '0.3 ms'
                + (n % 3) * interval '1 day' AS created_at
  FROM generate_series(1, 30000) AS n;
CREATE FUNCTION history_of(layout text) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT array_agg(id ORDER BY created_at, nr)
              FROM (SELECT nr, created_at, snowflake_history(created_at, 7, layout) OVER (ORDER BY created_at, nr) AS id FROM times) AS h);
END $$;
SELECT layout, cardinality(ids) AS rows,
       ids = ARRAY(SELECT * FROM ruled(ARRAY(SELECT created_at FROM times ORDER BY created_at, nr), 7, layout)) AS by_the_rule,
       ids = ARRAY(SELECT DISTINCT id FROM unnest(ids) AS id ORDER BY id) AS increasing,
       ids = history_of(layout) AS the_same_again
  FROM unnest(ARRAY['discord', 'instagram', 'sonyflake', 'sonyflake2', 'pgedge', 'clickhouse', 'pgdog', 'pgdog_compact']) AS layout, history_of(layout) AS ids;

-- with no shard, and with no sequence number: then the rows of a millisecond
-- take as many
SELECT snowflake_sequence(snowflake_history('2024-05-01Z', 0, 'mastodon') OVER (), 'mastodon') FROM generate_series(1, 3);
SELECT d.created_at, d.shard, d.sequence
  FROM (SELECT snowflake_history('2024-05-01Z', 3, 'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:10') OVER () AS id
          FROM generate_series(1, 3)) AS h,
       snowflake_decode(id, 'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:10') AS d;

-- the first ids of a layout, and times before 2000
\set since_1970 'epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:12'
SELECT d.created_at, d.sequence
  FROM (SELECT snowflake_history(t, 3, :'since_1970') OVER (ORDER BY t) AS id FROM unnest('{1970-01-01Z,1970-01-01Z,1999-12-31Z}'::timestamptz[]) AS t) AS h,
       snowflake_decode(id, :'since_1970') AS d;

-- the last ids of a layout that has ended, which has two a tick, and one more
\set ended 'epoch=2000-01-01 unit=1ms fields=timestamp:30,shard:10,sequence:1'
\set last_at '2000-01-13 10:15:41.823Z'
SELECT d.created_at, d.sequence
  FROM (SELECT snowflake_history(:'last_at', 3, :'ended') OVER () AS id FROM generate_series(1, 2)) AS h, snowflake_decode(id, :'ended') AS d;
SELECT message FROM error_of(format('SELECT snowflake_history(%L, 3, %L) OVER () FROM generate_series(1, 3)', :'last_at', :'ended'));
SELECT state, message FROM error_of(format('SELECT snowflake_history(%L::timestamptz + interval ''1 ms'', 3, %L) OVER ()', :'last_at', :'ended'));

-- a shard for each of several groups, and what is taken for a time
SELECT d.shard, count(*), count(DISTINCT id), min(d.created_at), max(d.created_at)
  FROM (SELECT snowflake_history(created_at, nr % 3, 'discord') OVER (PARTITION BY nr % 3 ORDER BY created_at, nr) AS id FROM times) AS t, snowflake_decode(id, 'discord') AS d
 GROUP BY d.shard ORDER BY d.shard;
SELECT snowflake_timestamp(snowflake_history(date '2024-05-01', 9, 'discord') OVER (), 'discord'),
       snowflake_timestamp(snowflake_history(timestamp '2024-05-01 01:02:03', 9, 'discord') OVER (), 'discord');
SELECT snowflake_history(created_at, 9, 'discord') OVER (ORDER BY created_at) AS nothing FROM times WHERE nr < 0;

-- it needs a window
SELECT snowflake_history(now(), 9, 'discord');

-- NULL
SELECT state, message, detail, hint FROM error_of('SELECT snowflake_history(NULL, 9, ''discord'') OVER ()');
SELECT state, message FROM error_of('SELECT snowflake_history(now(), NULL, ''discord'') OVER ()');
SELECT state, message FROM error_of('SELECT snowflake_history(now(), 9, NULL) OVER ()');
SELECT state, message
  FROM error_of('SELECT snowflake_history(t, 9, ''discord'') OVER (ORDER BY t) FROM (VALUES (timestamptz ''2024-01-01Z''), (NULL)) AS v (t)');

-- times that go backwards; the same time, and one a microsecond later, do not
SELECT state, message, detail, hint
  FROM error_of('SELECT snowflake_history(t, 9, ''discord'') OVER () FROM (VALUES (timestamptz ''2024-01-01 00:00:00.000002Z''), (''2024-01-01 00:00:00.000001Z'')) AS v (t)');
SELECT message FROM error_of('SELECT snowflake_history(t, 9, ''discord'') OVER (ORDER BY t DESC) FROM (VALUES (timestamptz ''2024-01-01Z''), (''2024-01-02Z'')) AS v (t)');
SELECT message
  FROM error_of('SELECT snowflake_history(t, 9, ''discord'') OVER () FROM (VALUES (timestamptz ''2024-01-01Z''), (''2024-01-01Z''), (''2024-01-01 00:00:00.000001Z'')) AS v (t)');

-- times of the future, before the layout, and no times
SELECT state, regexp_replace(message, '\d{4}\S+', 'TIME') AS message, regexp_replace(detail, '\d{4}\S+Z', 'TIME') AS detail, hint
  FROM error_of($$SELECT snowflake_history(now() + interval '1 hour', 9, 'discord') OVER ()$$);
SELECT message FROM error_of($$SELECT snowflake_history('2200-01-01Z', 9, 'epoch=2200-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:12') OVER ()$$);
SELECT state, message, detail FROM error_of($$SELECT snowflake_history('2010-01-01Z', 9, 'discord') OVER ()$$);
SELECT state, message FROM error_of($$SELECT snowflake_history('2024-12-31Z', 9, 'sonyflake2') OVER ()$$);
SELECT message FROM error_of($$SELECT snowflake_history('2025-01-01Z', 9, 'sonyflake2') OVER ()$$);
SELECT state, message FROM unnest(ARRAY['infinity', '-infinity']) AS t, error_of(format('SELECT snowflake_history(%L, 9, ''discord'') OVER ()', t));

-- more rows of now than fit before now: this layout has two ids a day
SELECT state, message, regexp_replace(detail, '\d{4}\S+Z', 'TIME', 'g') AS detail, hint
  FROM error_of($$SELECT snowflake_history(statement_timestamp(), 9, 'epoch=2020-01-01 unit=86400s fields=timestamp:20,shard:10,sequence:1') OVER () FROM generate_series(1, 3)$$);

-- one shard in a window partition, and one window partition for a shard
SELECT state, message, detail, hint FROM error_of('SELECT snowflake_history(''2024-01-01Z'', n, ''discord'') OVER () FROM generate_series(1, 2) AS n');
SELECT state, message, detail, hint
  FROM error_of('SELECT snowflake_history(''2024-01-01Z'', 9, ''discord'') OVER (PARTITION BY n) FROM generate_series(1, 2) AS n');

-- shards that the layout does not have
SELECT state, message, detail FROM error_of('SELECT snowflake_history(''2024-01-01Z'', 1024, ''discord'') OVER ()');
SELECT state, message FROM error_of('SELECT snowflake_history(''2024-01-01Z'', -1, ''discord'') OVER ()');
SELECT message FROM error_of('SELECT snowflake_history(''2024-01-01Z'', 1024, ''instagram'') OVER ()');

-- layouts
SELECT state, message FROM error_of('SELECT snowflake_history(''2024-01-01Z'', 9, ''facebook'') OVER ()');
SELECT state, message
  FROM error_of('SELECT snowflake_history(''2024-01-01Z'', 9, l) OVER () FROM (VALUES (''twitter''), (''discord'')) AS v (l)');

-- a statement that is executed again begins again
PREPARE fill (timestamptz) AS SELECT snowflake_sequence(snowflake_history($1, 9, 'discord') OVER (), 'discord') FROM generate_series(1, 2);
EXECUTE fill ('2024-01-01Z');
EXECUTE fill ('2023-01-01Z');

DROP EXTENSION snowflake CASCADE;
DROP FUNCTION error_of, ruled, history_of;
DROP TABLE photos, times;
