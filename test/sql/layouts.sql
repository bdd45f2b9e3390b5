--
-- Layouts: the presets as published, what a specification may say, and the
-- reason for each one that is refused.
--
CREATE EXTENSION snowflake;
SET TIME ZONE 'UTC';
SET DateStyle = ISO;
SET IntervalStyle = postgres;

-- the presets, and the server's own among them
SELECT name, in_use, epoch, tick, expires_at FROM snowflake_layouts;
SELECT name, fields, shards, capacity FROM snowflake_layouts;
SELECT name, specification FROM snowflake_layouts;
SELECT name, source FROM snowflake_layouts;

-- epochs in the form in which they were published
SELECT name, extract(epoch FROM epoch) * 1000 AS unix_ms FROM snowflake_layouts;

-- the last id to be minted is positive, and the next one would not be
SELECT name,
       snowflake_ceil(expires_at, name) > 0 AS last_is_positive,
       snowflake_timestamp(snowflake_ceil(expires_at, name), name) = expires_at AS last_is_then,
       snowflake_ceil(expires_at, name) = CASE name WHEN 'pgdog_compact' THEN 9007199254740991 ELSE 9223372036854775807 END AS nothing_follows
  FROM snowflake_layouts;

-- A layout is quoted in messages by the name of its preset, or in full.
CREATE FUNCTION quoted(layout text) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    PERFORM snowflake_encode(epoch, -1, 0, layout)
       FROM snowflake_timestamp(0, layout) AS epoch;
    RETURN 'no error';
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN substring(detail FROM '^Layout "(.*)" has ');
END $$;

-- a specification equal to a preset is that preset
SELECT name, quoted(name), quoted(specification) FROM snowflake_layouts;

SELECT name, count(*) AS ids,
       count(*) FILTER (WHERE snowflake_decode(id, name) IS DISTINCT FROM snowflake_decode(id, specification)) AS differ
  FROM snowflake_layouts,
       (SELECT ('x' || left(md5(n::text), 16))::bit(64)::bigint AS id
          FROM generate_series(1, 1000) AS n) AS ids
 GROUP BY name
 ORDER BY name COLLATE "C";

SELECT quoted('epoch=2010-11-04T01:42:54.657Z unit=1000us fields=timestamp:41,datacenter:5,worker:5,sequence:12');
SELECT quoted('fields=timestamp:41,datacenter:5,worker:5,sequence:12 epoch=1288834974657 unit=01ms');
SELECT quoted(format('fields=timestamp:41,datacenter:5,worker:5,sequence:12 epoch=%s unit=1ms', lpad('1288834974657', 18, '0')));
SELECT quoted(format('fields=timestamp:41,datacenter:5,worker:5,sequence:12 epoch=%s unit=1ms', lpad('1288834974657', 19, '0')));

-- and one that gives other names to the same bits is not
SELECT quoted('epoch=1288834974657 unit=1ms fields=timestamp:41,shard:10,sequence:12');
SELECT quoted('epoch=1288834974657 unit=1ms fields=timestamp:41,worker:5,datacenter:5,sequence:12');

-- what a specification may say: each decodes the same id
CREATE TABLE good (n serial, specification text);

INSERT INTO good (specification) VALUES
    -- epochs
    ('epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=1704067200000 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=0001704067200000 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=2024-02-29 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=2000-02-29 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=2023-12-31T23:59:59.9Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=2023-12-31T23:59:59.999Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=2023-12-31T23:59:59.000001Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=1969-07-20T20:17:40Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=1582-10-04 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=0001-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=9999-12-31T23:59:59.999999Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    -- units
    ('epoch=2024-01-01 unit=1us fields=timestamp:51,shard:6,sequence:6'),
    ('epoch=2024-01-01 unit=100us fields=timestamp:45,shard:6,sequence:12'),
    ('epoch=2024-01-01 unit=10ms fields=timestamp:39,shard:12,sequence:12'),
    ('epoch=2024-01-01 unit=1500ms fields=timestamp:32,shard:16,sequence:15'),
    ('epoch=2024-01-01 unit=1s fields=timestamp:32,shard:16,sequence:15'),
    ('epoch=2024-01-01 unit=60s fields=timestamp:27,shard:16,sequence:20'),
    ('epoch=2024-01-01 unit=86400s fields=timestamp:16,shard:16,sequence:31'),
    ('epoch=2024-01-01 unit=86400000ms fields=timestamp:16,shard:16,sequence:31'),
    ('epoch=2024-01-01 unit=86400000000us fields=timestamp:16,shard:16,sequence:31'),
    -- ids for as long as the server has times
    ('epoch=9999-12-31 unit=1s fields=timestamp:43,shard:8,sequence:12'),
    -- the order of the fields
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,sequence:12,shard:10'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,sequence:12,worker:5,process:5'),
    -- a shard by each name, and two of them
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,datacenter:10,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,worker:10,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,process:10,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,machine:10,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,node:10,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,datacenter:3,worker:7,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,node:9,process:1,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,machine:2,shard:8,sequence:12'),
    -- no sequence number, or no shard
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:22'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,worker:12,process:10'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,sequence:22'),
    -- widths: all 64 bits and few, the longest parts and the shortest
    ('epoch=2024-01-01 unit=1ms fields=timestamp:42,shard:10,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:4,sequence:8'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:1,shard:1,sequence:1'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:20,shard:31,sequence:12'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:20,sequence:31,shard:12'),
    ('epoch=2024-01-01 unit=1s fields=timestamp:2,shard:31,sequence:31'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:20,worker:15,process:16,sequence:12'),
    ('epoch=2024-01-01 unit=1us fields=timestamp:61,shard:1,sequence:1'),
    -- any order of the words, any number of blanks between them
    ('fields=timestamp:41,shard:10,sequence:12 unit=1ms epoch=2024-01-01'),
    ('  epoch=2024-01-01   unit=1ms fields=timestamp:41,shard:10,sequence:12 '),
    (E'\tepoch=2024-01-01\nunit=1ms\r\nfields=timestamp:41,shard:10,sequence:12\n'),
    -- the least and the greatest epoch that is a number
    ('epoch=100000000000 unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('epoch=253402300799999 unit=1ms fields=timestamp:41,shard:10,sequence:12');

SELECT n, quoted(specification) FROM good ORDER BY n;

SELECT n, created_at, shard, sequence
  FROM good, snowflake_decode(541815603606036480, specification)
 ORDER BY n;

SELECT count(*) AS specifications,
       count(*) FILTER (WHERE snowflake_decode(id, specification) IS DISTINCT FROM
                              snowflake_decode(id, quoted(specification))) AS changed_by_quoting
  FROM good, (VALUES (541815603606036480), (-541815603606036480)) AS ids (id);

-- what an error says in full
SELECT snowflake_shard(0, 'facebook');

-- The reason, for an error with that code and hint.
CREATE FUNCTION refused(layout text) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    state text;
    message text;
    hint text;
BEGIN
    PERFORM snowflake_shard(0, layout);
    RETURN 'NOT REFUSED';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    IF state = '22023' AND message LIKE 'invalid layout: %' AND hint ~ '^(Perhaps you meant "\w+"\. )?A layout is a preset \(twitter, .*\) or a specification such as ' THEN
        RETURN substr(message, length('invalid layout: ') + 1) || coalesce('; ' || substring(hint, '^Perhaps you meant "\w+"'), '');
    END IF;
    RETURN 'ANOTHER ERROR: ' || state || ' ' || message;
END $$;

-- no preset
SELECT left(layout, 58) AS layout, refused(layout)
  FROM unnest(ARRAY['', ' ', 'Twitter', 'twitter ', ' twitter', 'twitte', 'twitterr', 'sonyflake3',
                    'default', repeat('x', 100)]) AS layout;

-- words
SELECT left(layout, 58) AS layout, refused(layout)
  FROM unnest(ARRAY['=', 'colour=red', 'epoch', 'Epoch=2024-01-01',
                    'epoch = 2024-01-01',
                    'epoch=2024-01-01,unit=1ms',
                    'unit=1ms fields=timestamp:41,shard:10,sequence:12',
                    'epoch=0 fields=timestamp:41,shard:10,sequence:12',
                    'epoch=0 unit=1ms',
                    'epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:12 epoch=0',
                    'epoch=0 unit=1ms unit=1ms fields=timestamp:41,shard:10,sequence:12',
                    'fields=timestamp:41,shard:10,sequence:12 fields=timestamp:41,shard:10,sequence:12',
                    'epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:12 please',
                    'epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:12 twitter']) AS layout;

-- what a message quotes is one line of ASCII, with all else escaped
SELECT refused(E'twitter\n') AS newline, refused(E'\ttwitter') AS tab, refused(E'twi\\xtter') AS backslash;
SELECT refused('x' || repeat('y', 58) || E'\303\251\303\251') AS long,
       refused(E'twitt\320\265r') AS cyrillic,
       refused(E'epoch=0 unit=1ms fields=time\nstamp:41') AS line;

-- epochs
SELECT left(epoch, 40) AS epoch,
       refused('epoch=' || epoch || ' unit=1ms fields=timestamp:41,shard:10,sequence:12')
  FROM unnest(ARRAY['', '-1', '+1', '1e3', '0x10', '2024', '1700000000', '99999999999',
                    '253402300800000', '1000000000000000', '99999999999999999999',
                    'now', 'unix', '2024-01', '24-01-01', '2024-1-1', '2024/01/01', '20240101T',
                    '2024-00-01', '2024-13-01', '2024-01-00', '2024-01-32', '2024-04-31', '2024-02-30',
                    '2023-02-29', '1900-02-29', '2100-02-29', '10000-01-01', '-001-01-01',
                    '2024-01-01Z', '2024-01-01T', '2024-01-01T00:00Z', '2024-01-01T00:00:00',
                    '2024-01-01T00:00:00z', '2024-01-01t00:00:00Z', '2024-01-01T00:00:00+00',
                    '2024-01-01T24:00:00Z', '2024-01-01T00:60:00Z', '2016-12-31T23:59:60Z',
                    '2024-01-01T00:00:00.Z', '2024-01-01T00:00:00.1234567Z', '2024-01-01T00:00:00,5Z',
                    '2024-01-01T00:00:00ZZ', '2024-01-01T0:00:00Z', repeat('9', 100)]) AS epoch;

-- units
SELECT unit, refused('epoch=0 unit=' || unit || ' fields=timestamp:41,shard:10,sequence:12')
  FROM unnest(ARRAY['', '1', 'ms', '0ms', '0s', '-1ms', '+1ms', '1.5ms', '1MS', '1m', '1min', '1h', '1d',
                    '1ns', '1mss', 'ms1', '86401s', '86400001ms', '86400000001us',
                    '99999999999999999999us']) AS unit;

-- fields
SELECT fields, refused('epoch=0 unit=1ms fields=' || fields)
  FROM unnest(ARRAY['', ',', 'timestamp', 'timestamp:', 'timestamp:0', 'timestamp:64', 'timestamp:-1',
                    'timestamp:4x', 'timestamp:41:2', 'timestamp:99999999999999999999', ':41',
                    'time:41,shard:10,sequence:12', 'Timestamp:41,shard:10,sequence:12',
                    'timestamp:41,,sequence:12', 'timestamp:41,shard:10,sequence:12,',
                    ',timestamp:41,shard:10,sequence:12',
                    'timestamp:41,shard:10,counter:12', 'timestamp=41,shard=10,sequence=12',
                    -- too many, too few, in another order
                    'timestamp:41,datacenter:3,worker:3,process:3,sequence:12',
                    'timestamp:41,datacenter:3,worker:3,process:3', 'timestamp:41,datacenter:3,sequence:6,worker:3,process:3',
                    'timestamp:41,shard:5,shard:5,sequence:12', 'timestamp:20,timestamp:21,shard:10,sequence:12',
                    'timestamp:41,shard:10,sequence:6,sequence:6',
                    'timestamp:41', 'shard:10,sequence:12', 'sequence:12,timestamp:41',
                    'shard:10,timestamp:41,sequence:12', 'sequence:12,timestamp:41,shard:10',
                    'timestamp:41,worker:5,sequence:12,process:5',
                    -- widths
                    'timestamp:43,shard:10,sequence:12', 'timestamp:41,datacenter:6,worker:6,sequence:12',
                    'timestamp:63,shard:63,sequence:63',
                    'timestamp:20,shard:32,sequence:12', 'timestamp:20,shard:12,sequence:32',
                    'timestamp:20,worker:16,process:16,sequence:12']) AS fields;

-- times that the server cannot hold
SELECT left(layout, 58) AS layout, refused(layout)
  FROM unnest(ARRAY['epoch=0 unit=86400s fields=timestamp:41,shard:10,sequence:12',
                    'epoch=0 unit=1ms fields=timestamp:62,shard:1,sequence:1',
                    'epoch=9999-12-31 unit=1s fields=timestamp:44,shard:8,sequence:11']) AS layout;

-- ids of up to 53 bits, which JavaScript's numbers can hold
SELECT snowflake_ceil(timestamptz '2024-01-01' + 2199023255551 * interval '1 ms',
                      'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:4,sequence:8') = (1::bigint << 53) - 1
       AS last_id_of_53_bits;

-- NULL is no layout
SELECT snowflake_shard(5, NULL) IS NULL AS shard, snowflake_floor(now(), NULL) IS NULL AS floor;

DROP TABLE good;
DROP FUNCTION quoted, refused;
DROP EXTENSION snowflake;
