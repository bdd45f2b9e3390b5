--
-- Taking ids apart and putting them together: published ids, every preset,
-- the ends of every range.
--
CREATE EXTENSION snowflake;
SET TIME ZONE 'UTC';
SET DateStyle = ISO;

-- Ids with the times and fields that their makers, or articles about them,
-- give for them.
CREATE TABLE vectors (layout text, id bigint, created_at timestamptz, shard integer, sequence integer, note text);

COPY vectors FROM STDIN (FORMAT csv);
discord,175928847299117063,2016-04-30T11:18:25.796Z,32,7,worker 1 process 0; the id in Discord's developer documentation
discord,105484726235607040,2015-10-19T01:58:38.546Z,11,0,worker 0 process 11
discord,90339695967350784,2015-09-07T06:57:41.949Z,3,0,worker 0 process 3
twitter,1541815603606036480,2022-06-28T16:07:40.105Z,378,0,datacenter 11 worker 26; a tweet cited in the encyclopedia article on snowflake ids
instagram,11637205501278089,2011-09-09T22:28:04.721Z,1341,905,the worked example of Instagram's article (user 31341 on 2000 shards; sequence 5001)
pgedge,136169504773242881,2024-01-11T18:08:59.845Z,0,1,documented under an older bit order as node 1; the current order gives node 0 count 1
sonyflake,417244747766235137,2022-07-19T10:34:09.750Z,1,1,composed from the published rule: time field 24869724975 with sequence 1 and machine 1
mastodon,103270115826048975,2019-12-08T03:48:33.849Z,0,40911,the status in Mastodon's API documentation; created_at there is 52 ms later
clickhouse,7204436857747984384,2024-06-06T10:59:58.851Z,205,0,the id in ClickHouse's documentation of snowflakeIDToDateTime64
clickhouse,7199081390080409600,2024-05-22T16:19:15.859Z,484,0,the id in ClickHouse's documentation of generateSnowflakeID
pgdog,47839699276046336,2026-04-07T19:31:08.126Z,42,0,the ids in the tests of PgDog's unique_id.rs
pgdog,47839699276046337,2026-04-07T19:31:08.126Z,42,1,the second of the same millisecond
pgdog,47839699280240640,2026-04-07T19:31:08.127Z,42,0,the next millisecond
pgdog,415268863,2025-11-26T19:13:15.099Z,7,4095,the last of a millisecond
pgdog_compact,46718456326784,2026-04-07T19:31:08.126Z,42,0,made by PgDog's function for that time and node
pgdog_compact,406015,2025-11-26T19:13:15.099Z,7,63,the last of a millisecond
"epoch=1475796139634 unit=1ms fields=timestamp:40,node:10,sequence:14",25074801076895745,2016-10-24T06:31:54.245Z,2,1,an id in the tests of pgactive
\.

SELECT v.layout, v.id, d.*
  FROM vectors v, snowflake_decode(v.id, v.layout) AS d
 ORDER BY v.layout COLLATE "C", v.id;

SELECT count(*) AS vectors,
       count(*) FILTER (WHERE snowflake_decode(id, layout) = ROW (created_at, shard, sequence)) AS decode,
       count(*) FILTER (WHERE snowflake_timestamp(id, layout) = created_at) AS "timestamp",
       count(*) FILTER (WHERE snowflake_shard(id, layout) = shard) AS shard,
       count(*) FILTER (WHERE snowflake_sequence(id, layout) = sequence) AS sequence,
       count(*) FILTER (WHERE snowflake_encode(created_at, shard, sequence, layout) = id) AS encode,
       count(*) FILTER (WHERE id BETWEEN snowflake_floor(created_at, layout) AND snowflake_ceil(created_at, layout)) AS within
  FROM vectors;

-- without a layout the server's is meant, here twitter's
SELECT d.*, snowflake_timestamp(id) = v.created_at AS "timestamp", snowflake_shard(id) = v.shard AS shard,
       snowflake_sequence(id) = v.sequence AS sequence, id::snowflake::timestamptz = v.created_at AS "cast",
       snowflake_encode(v.created_at, v.shard, v.sequence) = id AS encode
  FROM vectors v, snowflake_decode(id) AS d
 WHERE v.layout = 'twitter';

-- the fields, for people
SELECT layout, fields.*
  FROM vectors, snowflake_fields(id, layout) AS fields
 WHERE id IN (175928847299117063, 11637205501278089, 136169504773242881, 417244747766235137);

SELECT * FROM snowflake_fields(1541815603606036480);
SELECT * FROM snowflake_fields(-1);
SELECT * FROM snowflake_fields(-1, 'epoch=2024-01-01 unit=1s fields=timestamp:31,sequence:2,node:31');
SELECT * FROM snowflake_fields(0, 'epoch=2024-01-01 unit=1us fields=timestamp:32,shard:1,worker:30,sequence:1');
SELECT (snowflake_fields(id)).field, (snowflake_fields(id)).value FROM vectors WHERE layout = 'twitter';

-- an id is a snowflake, a bigint, a literal, a text
SELECT snowflake_shard('1541815603606036480'::snowflake), snowflake_shard(1541815603606036480),
       snowflake_shard('1541815603606036480'), snowflake_shard(4096), snowflake_shard(4096::smallint);

-- Every 64-bit value comes back from its fields, in each of these layouts.
CREATE TABLE layouts AS
SELECT name AS layout FROM snowflake_layouts
 UNION ALL
VALUES ('epoch=2024-01-01 unit=1ms fields=timestamp:41,sequence:12,shard:10'),
       ('epoch=2024-01-01 unit=1ms fields=timestamp:41,sequence:12,worker:5,process:5'),
       ('epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:4,sequence:8'),
       ('epoch=2024-01-01T00:00:00.000005Z unit=7ms fields=timestamp:41,node:9,sequence:13'),
       ('epoch=2024-01-01 unit=1us fields=timestamp:61,shard:1,sequence:1'),
       ('epoch=2024-01-01 unit=1s fields=timestamp:20,shard:31,sequence:12'),
       ('epoch=2024-01-01 unit=60s fields=timestamp:20,sequence:31,shard:12'),
       ('epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:10'),
       ('epoch=2024-01-01 unit=1ms fields=timestamp:41,worker:5,process:5'),
       ('epoch=2024-01-01 unit=1us fields=timestamp:61,sequence:2');

CREATE TABLE samples AS
SELECT ('x' || left(md5(n::text), 16))::bit(64)::bigint AS id
  FROM generate_series(1, 1000) AS n
 UNION ALL
SELECT id FROM vectors
 UNION ALL
VALUES (0), (1), (-1), (9223372036854775807), (-9223372036854775808)
 UNION ALL
SELECT (1::bigint << n) + d FROM generate_series(1, 62) AS n, generate_series(-1, 1) AS d
 UNION ALL
SELECT -(1::bigint << n) + d FROM generate_series(1, 62) AS n, generate_series(-1, 1) AS d;

-- values beyond the server's times have none to come back from: see below
SELECT layout, count(*) AS samples, count(*) FILTER (WHERE isfinite(created_at)) AS finite,
       count(*) FILTER (WHERE isfinite(created_at) AND
                        snowflake_encode(created_at, shard, sequence, layout) IS DISTINCT FROM id) AS changed
  FROM layouts, samples, snowflake_decode(id, layout)
 GROUP BY layout
 ORDER BY layout COLLATE "C";

SELECT count(*) AS samples,
       count(*) FILTER (WHERE snowflake_encode(created_at, shard, sequence) IS DISTINCT FROM id) AS changed,
       count(*) FILTER (WHERE d IS DISTINCT FROM snowflake_decode(id, 'twitter')) AS not_twitter,
       count(*) FILTER (WHERE created_at IS DISTINCT FROM snowflake_timestamp(id)) AS "timestamp",
       count(*) FILTER (WHERE created_at IS DISTINCT FROM id::snowflake::timestamptz) AS "cast",
       count(*) FILTER (WHERE shard IS DISTINCT FROM snowflake_shard(id)) AS shard,
       count(*) FILTER (WHERE sequence IS DISTINCT FROM snowflake_sequence(id)) AS sequence
  FROM samples, snowflake_decode(id) AS d;

-- the published rule in SQL, which shifts and masks
SELECT count(*) AS samples,
       count(*) FILTER (WHERE snowflake_decode(id, 'twitter') IS DISTINCT FROM
           ROW (timestamptz '2010-11-04 01:42:54.657Z' + (id >> 22) * interval '1 ms',
                ((id >> 12) & 1023)::integer, (id & 4095)::integer)) AS twitter,
       count(*) FILTER (WHERE snowflake_decode(id, 'discord') IS DISTINCT FROM
           ROW (timestamptz '2015-01-01Z' + (id >> 22) * interval '1 ms',
                ((id >> 17 & 31) * 32 + (id >> 12 & 31))::integer, (id & 4095)::integer)) AS discord,
       count(*) FILTER (WHERE snowflake_decode(id, 'instagram') IS DISTINCT FROM
           ROW (timestamptz '2011-08-24 21:07:01.721Z' + (id >> 23) * interval '1 ms',
                ((id >> 10) & 8191)::integer, (id & 1023)::integer)) AS instagram,
       count(*) FILTER (WHERE snowflake_decode(id, 'sonyflake') IS DISTINCT FROM
           ROW (timestamptz '2014-09-01Z' + (id >> 24) * interval '10 ms',
                (id & 65535)::integer, ((id >> 16) & 255)::integer)) AS sonyflake,
       count(*) FILTER (WHERE snowflake_decode(id, 'sonyflake2') IS DISTINCT FROM
           ROW (timestamptz '2025-01-01Z' + (id >> 24) * interval '10 ms',
                (id & 65535)::integer, ((id >> 16) & 255)::integer)) AS sonyflake2,
       count(*) FILTER (WHERE snowflake_decode(id, 'pgedge') IS DISTINCT FROM
           ROW (timestamptz '2023-01-01Z' + (id >> 22) * interval '1 ms',
                ((id >> 12) & 1023)::integer, (id & 4095)::integer)) AS pgedge
  FROM samples;

-- a value beyond the server's times decodes all the same, to an infinite one
SELECT id, created_at, shard, sequence
  FROM (VALUES (9223372036854775807), (-9223372036854775808)) AS ids (id),
       snowflake_decode(id, 'epoch=2024-01-01 unit=1ms fields=timestamp:1,shard:1,sequence:1');

-- the server's first and last second, and the ticks beside them
SELECT at, snowflake_timestamp(id, layout) = at AS back,
       snowflake_timestamp(id - (1 << 19), layout) AS before, snowflake_timestamp(id + (1 << 19), layout) AS after
  FROM (VALUES ('epoch=2024-01-01 unit=1s fields=timestamp:20,shard:8,sequence:11')) AS l (layout),
       (VALUES ('4714-11-24 00:00:00 BC'::timestamptz), ('294276-12-31 23:59:59')) AS ends (at),
       snowflake_floor(at, layout) AS id
 ORDER BY at;

SELECT meaning
  FROM snowflake_fields(-9223372036854775808, 'epoch=2024-01-01 unit=1ms fields=timestamp:1,shard:1,sequence:1');

-- floor and ceil are the ends of the tick, and their neighbours have another
SELECT layout, count(*) AS samples,
       count(*) FILTER (WHERE id NOT BETWEEN floor AND ceil) AS outside,
       count(*) FILTER (WHERE snowflake_timestamp(floor, layout) <> created_at) AS floor,
       count(*) FILTER (WHERE snowflake_timestamp(ceil, layout) <> created_at) AS ceil,
       count(*) FILTER (WHERE snowflake_timestamp(floor - 1, layout) >= created_at) AS before,
       count(*) FILTER (WHERE snowflake_timestamp(ceil + 1, layout) <= created_at) AS after,
       count(*) FILTER (WHERE (snowflake_shard(floor, layout), snowflake_sequence(floor, layout)) <> (0, 0)) AS zeroes
  FROM (SELECT layout, id, snowflake_timestamp(id, layout) AS created_at FROM layouts, samples) AS times,
       LATERAL (SELECT snowflake_floor(created_at, layout), snowflake_ceil(created_at, layout)) AS ends (floor, ceil)
 WHERE isfinite(created_at)
   AND floor > -9223372036854775808 AND ceil < 9223372036854775807
 GROUP BY layout
 ORDER BY layout COLLATE "C";

SELECT snowflake_floor(created_at) = snowflake_floor(created_at, 'twitter') AS floor,
       snowflake_ceil(created_at) = snowflake_ceil(created_at, 'twitter') AS ceil,
       pg_typeof(snowflake_floor(created_at)), pg_typeof(snowflake_encode(created_at, 1, 1))
  FROM vectors
 WHERE layout = 'twitter';

-- digits of a time below the tick are dropped, before the epoch too
SELECT to_char(epoch + d, 'YYYY-MM-DD HH24:MI:SS.US') AS given,
       to_char(snowflake_timestamp(snowflake_encode(epoch + d, 1, 1)), 'SS.US') AS encode,
       to_char(snowflake_timestamp(snowflake_floor(epoch + d)), 'SS.US') AS floor,
       to_char(snowflake_timestamp(snowflake_ceil(epoch + d)), 'SS.US') AS ceil
  FROM (VALUES (snowflake_timestamp(0))) AS e (epoch),
       (VALUES ('2 ms'::interval), ('1.999 ms'), ('1 ms'), ('0.999 ms'), ('0.001 ms'), ('0'),
               ('-0.001 ms'), ('-0.999 ms'), ('-1 ms'), ('-1.001 ms')) AS ds (d)
 ORDER BY d DESC;

-- negative ids are before the epoch
SELECT id, d.*
  FROM (VALUES (0), (-1), (-4096), (-4194304), (-4194305), (-9223372036854775808)) AS ids (id),
       snowflake_decode(id) AS d
 ORDER BY id DESC;

-- the layout may differ from row to row, and so may its length
SELECT n, layout, snowflake_timestamp(0, layout) AS epoch, snowflake_shard(-1, layout) AS last_shard,
       snowflake_encode('2026-01-01', 1, 1, layout) AS id
  FROM unnest(ARRAY['twitter', 'discord', 'twitter', 'sonyflake', 'sonyflake2', 'sonyflake', NULL, 'discord',
                    'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:4,sequence:8',
                    'epoch=2024-01-02 unit=1ms fields=timestamp:41,shard:5,sequence:8',
                    'twitter']) WITH ORDINALITY AS rows (layout, n)
 ORDER BY n;

-- and an invalid one leaves nothing behind
DO $$
DECLARE
    l text;
BEGIN
    FOREACH l IN ARRAY ARRAY['twitter', 'discorx', 'discord', '', 'discord', 'discorx'] LOOP
        BEGIN
            RAISE NOTICE '%: %', l, snowflake_timestamp(0, l);
        EXCEPTION WHEN invalid_parameter_value THEN
            RAISE NOTICE '%: %', l, SQLERRM;
        END;
    END LOOP;
END $$;

-- a long one is read from where long values are kept
CREATE TABLE padded AS
SELECT rpad('epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:4,sequence:8', 100000) || 'epoch=0' AS wrong,
       rpad('epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:4,sequence:8', 100000) AS layout;
SELECT snowflake_shard(256 * n, layout) FROM padded, generate_series(1, 3) AS n;
SELECT snowflake_shard(256, wrong) FROM padded;

-- NULL in, NULL out
SELECT num_nulls(snowflake_timestamp(NULL), snowflake_shard(NULL), snowflake_sequence(NULL),
                 snowflake_timestamp(NULL, 'twitter'), snowflake_timestamp(1, NULL),
                 snowflake_shard(1, NULL), snowflake_sequence(1, NULL),
                 snowflake_encode(NULL, 1, 1), snowflake_encode(now(), NULL, 1), snowflake_encode(now(), 1, NULL),
                 snowflake_encode(now(), 1, 1, NULL),
                 snowflake_floor(NULL), snowflake_floor(now(), NULL),
                 snowflake_ceil(NULL), snowflake_ceil(now(), NULL),
                 NULL::snowflake::timestamptz) AS nulls_of_16;
SELECT * FROM snowflake_decode(NULL);
SELECT * FROM snowflake_decode(1, NULL);
SELECT * FROM snowflake_fields(NULL);
SELECT * FROM snowflake_fields(1, NULL);

-- What a call fails with.
CREATE FUNCTION error_of(call text, OUT state text, OUT message text, OUT detail text)
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    message := 'NO ERROR';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
END $$;

-- shard and sequence: the last that fit, and the first that do not
SELECT snowflake_decode(snowflake_encode('2026-01-01', 1023, 4095)),
       snowflake_decode(snowflake_encode('2026-01-01', 65535, 255, 'sonyflake'), 'sonyflake');

SELECT call, error.*
  FROM unnest(ARRAY[$$snowflake_encode('2026-01-01', 1024, 0)$$,
                    $$snowflake_encode('2026-01-01', -1, 0)$$,
                    $$snowflake_encode('2026-01-01', 2147483647, 0)$$,
                    $$snowflake_encode('2026-01-01', -2147483648, 0)$$,
                    $$snowflake_encode('2026-01-01', 0, 4096)$$,
                    $$snowflake_encode('2026-01-01', 0, -1)$$,
                    $$snowflake_encode('2026-01-01', 65536, 0, 'sonyflake')$$,
                    $$snowflake_encode('2026-01-01', 0, 256, 'sonyflake')$$,
                    $$snowflake_encode('2026-01-01', 8192, 0, 'instagram')$$,
                    $$snowflake_encode('2026-01-01', 0, 1024, 'instagram')$$]) AS call,
       error_of(call) AS error;

-- times: the ends of the range, and one tick, or microsecond, beyond
SELECT layout, first.created_at AS first, last.created_at AS last
  FROM layouts, snowflake_decode(-9223372036854775808, layout) AS first,
       snowflake_decode(9223372036854775807, layout) AS last
 ORDER BY layout COLLATE "C";

SELECT snowflake_floor('1941-02-27 09:55:19.105') AS first, snowflake_ceil('2080-07-10 17:30:30.208999') AS last;

SELECT call, error.*
  FROM unnest(ARRAY[$$snowflake_floor('1941-02-27 09:55:19.104999')$$,
                    $$snowflake_ceil('1941-02-27 09:55:19.104999')$$,
                    $$snowflake_encode('1941-02-27 09:55:19.104999', 0, 0)$$,
                    $$snowflake_floor('2080-07-10 17:30:30.209')$$,
                    $$snowflake_ceil('2080-07-10 17:30:30.209')$$,
                    $$snowflake_encode('2080-07-10 17:30:30.209', 0, 0)$$,
                    $$snowflake_floor('infinity')$$,
                    $$snowflake_ceil('-infinity')$$,
                    $$snowflake_encode('infinity', 0, 0)$$,
                    $$snowflake_floor('4713-01-01 BC')$$,
                    $$snowflake_floor('294276-12-31')$$,
                    $$snowflake_floor('2047-01-01', 'instagram')$$,
                    $$snowflake_ceil('2189-01-01', 'sonyflake')$$]) AS call,
       error_of(call) AS error;

-- no id is of an infinite time, also where ids go further than the server's times
SELECT call, state, message
  FROM unnest(ARRAY[$$floor('-infinity'$$, $$floor('infinity'$$, $$ceil('infinity'$$, $$encode('-infinity', 0, 0$$]) AS call,
       error_of(format('snowflake_%s, %L)', call, 'epoch=2024-01-01 unit=1s fields=timestamp:20,shard:8,sequence:11'));

-- a time that is out of range is found before a shard that is
SELECT state, message FROM error_of($$snowflake_encode('2081-01-01', -1, -1)$$);

DROP TABLE vectors, layouts, samples, padded;
DROP FUNCTION error_of;
DROP EXTENSION snowflake;
