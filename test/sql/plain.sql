-- snowflake_plain, in SQL alone: the same answers as the C extension, for each
-- layout, and what it refuses.  Sessions, clocks and crashes: test/t/090_plain.pl.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE EXTENSION snowflake;
CREATE SCHEMA plain;
CREATE EXTENSION snowflake_plain SCHEMA plain;
SET TimeZone = 'America/New_York';

CREATE TABLE ids (id bigint);
INSERT INTO ids VALUES (0), (1), (-1), (4194303), (4194304), (-4194305), (9223372036854775807), (-9223372036854775808),
    (175928847299117063), (1541815603606036480), (4611686018427387904), (-4611686018427387905);
INSERT INTO ids SELECT hashint8extended(n, 1) FROM generate_series(1, 6) AS n;
CREATE TABLE times (ts timestamptz);
INSERT INTO times VALUES ('2010-11-04 01:42:54.657+00'), ('2026-01-01 00:00:00.000001+00'), ('2038-01-19 03:14:07.999999+00'),
    ('1969-12-31 23:59:59.999999+00'), ('1883-11-18 12:03:57.5+00'), ('2040-02-29 12:00:00.0005+00'), ('4000-01-01 BC'),
    ('infinity'), ('-infinity'), ('294276-12-31'), ('0001-06-01 BC');
INSERT INTO times SELECT timestamptz '2015-01-01' + n * n * interval '71 hours 13.456789 s' FROM generate_series(1, 5) AS n;

CREATE TABLE layouts (layout text);
INSERT INTO layouts SELECT name FROM snowflake_layouts WHERE name IS NOT NULL;     -- each preset of C
INSERT INTO layouts VALUES
    ('epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    ('fields=timestamp:30,sequence:20,worker:3,process:3 unit=1s   epoch=2024-02-29'),
    ('epoch=2020-06-01T12:34:56.000789Z unit=250us fields=timestamp:50,sequence:13'),
    ('epoch=0 unit=7s fields=timestamp:40,shard:23'),
    ('epoch=2023-01-01 unit=1s fields=timestamp:31,shard:31,sequence:1'),
    ('epoch=1999-01-01T00:00:00.5Z unit=1us fields=timestamp:53,node:5,sequence:6'),
    ('epoch=2024-01-01 unit=1ms fields=timestamp:42,shard:10,sequence:12'),
    ('epoch=2024-02-01 unit=1s fields=timestamp:31,shard:10,sequence:22'),
    ('epoch=2024-02-01 unit=1s fields=timestamp:30,sequence:12,shard:22'),
    ('epoch=2024-02-01 unit=1s fields=timestamp:32,sequence:31'),
    ('epoch=2020-01-01 unit=1us fields=timestamp:54,sequence:9'),
    ('epoch=9999-12-31T23:59:59.123457Z unit=1ms fields=timestamp:41,shard:10,sequence:12'),
    -- its last tick is the last one of a timestamptz
    ('epoch=1999-12-23T19:59:05.224193Z unit=2us fields=timestamp:62,sequence:1');

-- What a call gives, or its error.
CREATE FUNCTION answer(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    detail text;
    hint   text;
BEGIN
    EXECUTE 'SELECT ' || call INTO answer;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    -- plain quotes a layout as it was given
    RETURN concat_ws(' / ', SQLSTATE, SQLERRM, regexp_replace(detail, '^Layout "[^"]*=[^"]*"', 'Layout'), hint);
END
$$;

-- Each call, by both, with the layout as an argument.
CREATE FUNCTION differences(prefix text, suffix text) RETURNS TABLE (call text, ours text, plain text) LANGUAGE sql AS $$
SELECT call, answer(format(call, 'public', suffix)), answer(format(call, prefix, suffix))
  FROM (SELECT format('%%1$s.snowflake_%s(%s%%2$s)::text', function, id)
          FROM ids, unnest('{timestamp,shard,sequence,decode}'::text[]) AS function
        UNION ALL
        SELECT format('%%1$s.snowflake_%s(%L%%2$s)::bigint::text', function, ts) FROM times, unnest('{floor,ceil}'::text[]) AS function
        UNION ALL
        SELECT format('%%1$s.snowflake_encode(%L, %s, %s%%2$s)::bigint::text', ts, shard, sequence)
          FROM times, (VALUES (-1, 0), (0, -1), (7, 11), (1023, 4095), (1024, 0), (0, 4096), (NULL, 0)) AS v (shard, sequence)
       ) AS calls (call)
 WHERE answer(format(call, 'public', suffix)) IS DISTINCT FROM answer(format(call, prefix, suffix))
$$;

SELECT plain.snowflake_plain_setup('twitter', '5');
SELECT prosecdef AS as_owner FROM pg_proc WHERE oid = 'plain.snowflake_nextval()'::regprocedure;
SELECT layout, plain.snowflake_plain_layout(layout) FROM layouts ORDER BY layout COLLATE "C";
SELECT answer($$plain.snowflake_plain_layout('epoch=1999-12-23T19:59:05.224194Z unit=2us fields=timestamp:62,sequence:1')::text$$);

-- ids at random, and at each edge of each layout: the first and the last tick of a time,
-- of minting, of all, and that of 2000
CREATE TABLE edges AS
SELECT layout, (tick << l[3]::int) | (low & ((1::bigint << l[3]::int) - 1)) AS id
  FROM (SELECT layout, plain.snowflake_plain_layout(layout) AS l FROM layouts) AS s,
       unnest(ARRAY[l[8], l[9], l[10], l[11], 0, (9223372036854775807 >> l[3]::int), ((-9223372036854775808) >> l[3]::int)]) AS edge,
       LATERAL (SELECT edge + n FROM generate_series(-2, 2) AS n WHERE edge::numeric + n BETWEEN -9223372036854775808 AND 9223372036854775807) AS ticks (tick),
       unnest(ARRAY[0, -1, hashint8extended(tick, 2)]) AS low
UNION ALL
SELECT layout, hashint8extended(n, 3) >> n % 64 FROM layouts, generate_series(1, 80) AS n;
SELECT count(*) > 2000 AS many FROM edges;
SELECT layout, id, c, p FROM edges, LATERAL (SELECT snowflake_decode(id, layout)::text, plain.snowflake_decode(id, layout)::text) AS answers (c, p)
 WHERE c <> p ORDER BY layout, id LIMIT 20;
SELECT DISTINCT layout, call, answer(format(call, 'public')), answer(format(call, 'plain')) AS plain
  FROM edges, LATERAL (SELECT snowflake_timestamp(id, layout)) AS at (ts), unnest(ARRAY[-1, 0, 1]) AS us,
       unnest('{floor,ceil}'::text[]) AS function,
       LATERAL (SELECT format('%%s.snowflake_%s(%L::timestamptz + %L, %L)::bigint::text', function, ts, us || ' us', layout)) AS calls (call)
 WHERE hashint8(id) % 11 = 0 AND answer(format(call, 'public')) IS DISTINCT FROM answer(format(call, 'plain')) ORDER BY 1, 2 LIMIT 20;
-- the first and the last time of each layout, and those beside them
SELECT layout, call, answer(format(call, 'public')), answer(format(call, 'plain')) AS plain
  FROM layouts, unnest('{-9223372036854775808,9223372036854775807}'::bigint[]) AS id, LATERAL (SELECT snowflake_timestamp(id, layout)) AS at (ts),
       LATERAL (SELECT (plain.snowflake_plain_layout(layout))[2]) AS l (unit), unnest(ARRAY[-1, 0, unit - 1, unit]) AS us,
       LATERAL (SELECT format('%%s.snowflake_floor(%L::timestamptz + %L, %L)::bigint::text', ts, us || ' us', layout)) AS calls (call)
 WHERE isfinite(ts) AND answer(format(call, 'public')) IS DISTINCT FROM answer(format(call, 'plain')) ORDER BY 1, 2 LIMIT 20;
SELECT layout, d.* FROM layouts, differences('plain', format(', %L', layout)) AS d LIMIT 20;
SELECT count(DISTINCT answer(format('snowflake_timestamp(%s, %L)', id, layout))) > 200 AS many FROM ids, layouts;

-- and with that of snowflake_plain_setup
SELECT * FROM differences('plain', '') LIMIT 20;

-- other layouts, each in a schema of its own
CREATE TABLE minting (name text, layout text, shard int);
DO $$
DECLARE
    l   text;
    n   int := 0;
    d   record;
    file text;
BEGIN
    FOR l IN SELECT layout FROM layouts WHERE layout ~ '=|sony|masto' AND layout !~ '=9999' LOOP
        n := n + 1;
        EXECUTE format('CREATE SCHEMA plain_%s', n);
        -- as if the file was run there
        FOR file IN SELECT regexp_replace(pg_get_functiondef(oid), '(FUNCTION |DEFAULT '')plain\.', format('\1plain_%s.', n), 'g')
                      FROM pg_proc WHERE pronamespace = 'plain'::regnamespace AND proname IN ('snowflake_plain_setup', 'snowflake_plain_layout') ORDER BY proname LOOP
            EXECUTE file;
        END LOOP;
        INSERT INTO minting VALUES ('plain_' || n, l, CASE WHEN (plain.snowflake_plain_layout(l))[4] > 0 THEN CASE WHEN l ~ 'sequence:22' THEN 1023 ELSE n END ELSE 0 END);
        EXECUTE format('SELECT plain_%s.snowflake_plain_setup(%L, shard::text) FROM minting WHERE layout = %2$L', n, l);
        EXECUTE format('CREATE FUNCTION plain_%s.differs(bigint) RETURNS boolean LANGUAGE sql AS %L', n,
            format('SELECT (plain_%s.snowflake_decode($1))::text <> (snowflake_decode($1, %L))::text', n, l));
        EXECUTE format('SELECT count(*) FROM ids WHERE plain_%s.differs(id)', n) INTO d;
        IF d.count > 0 THEN RAISE WARNING '% ids of % are read differently', d.count, l; END IF;
        -- what it mints has the time of now
        EXECUTE format('SELECT snowflake_timestamp(id, %L) BETWEEN now() - %L::interval AND clock_timestamp() AS good, id '
            'FROM plain_%s.snowflake_nextval() AS id', l, '20 min', n) INTO d;
        IF NOT d.good THEN RAISE WARNING '% of % has another time', d.id, l; END IF;
    END LOOP;
END
$$;

-- texts
SELECT form, count(*) FILTER (WHERE answer(format('plain.snowflake_to_%s(%s)', form, id)) <> answer(format('snowflake_to_%s(%s)', form, id))) AS different,
       count(*) FILTER (WHERE answer(format('plain.snowflake_from_%s(snowflake_to_%1$s(%s))', form, id)) <> id::text) AS not_back
  FROM ids, unnest('{base32,base58,base62}'::text[]) AS form GROUP BY 1 ORDER BY 1;
SELECT t, form, answer(format('plain.snowflake_from_%s(%L)', form, t)) IS NOT DISTINCT FROM answer(format('snowflake_from_%s(%L)::bigint', form, t)) AS same
  FROM unnest('{"",0,04W86BB0G4007,04w86bb0g4oo7,O4W86BB0G4007,04W86BB0G400U,04W86BB0G40077,FZZZZZZZZZZZZ,G000000000000,jpXCZedGfVQ,jpXCZedGfVR,LygHa16AHYF,LygHa16AHYG," 4W86BB0G4007"}'::text[]) AS t,
       unnest('{base32,base58,base62}'::text[]) AS form
 WHERE answer(format('plain.snowflake_from_%s(%L)', form, t)) IS DISTINCT FROM answer(format('snowflake_from_%s(%L)::bigint', form, t));
-- characters at random, and any in each place
SELECT form, t, answer(format('plain.snowflake_from_%s(%L)', form, t)) AS plain, answer(format('snowflake_from_%s(%L)::bigint', form, t)) AS c
  FROM unnest('{base32,base58,base62}'::text[]) AS form,
       (SELECT string_agg(CASE WHEN hashint4(i * n) % 5 = 0 AND n % 3 > 0 THEN (ARRAY['u', 'L', E'\\', '"', ' ', E'\n', E'\x7f', 'é', 'ſ', 'ı', '😀', '%'])[1 + abs(hashint4(i + n)) % 12]
                               ELSE substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + abs(hashint4(i * 31 + n)) % 32, 1) END, '') AS t
          FROM generate_series(1, 400) AS n, generate_series(1, 10 + n % 5) AS i GROUP BY n
        UNION ALL SELECT repeat('ab', n) FROM generate_series(29, 40) AS n) AS texts
 WHERE answer(format('plain.snowflake_from_%s(%L)', form, t)) IS DISTINCT FROM answer(format('snowflake_from_%s(%L)::bigint', form, t)) ORDER BY 1, 2 LIMIT 10;
SELECT plain.snowflake_from_base58('AphdTxaWEék');
SELECT snowflake_from_base58('AphdTxaWEék');

-- layouts that are refused by both
SELECT layout, left(answer(format('snowflake_shard(1, %L)', layout)), 5) AS ours, left(answer(format('plain.snowflake_shard(1, %L)', layout)), 5) AS plain
  FROM unnest(ARRAY['', 'twiter', 'epoch=0', 'unit=1ms fields=timestamp:41,shard:10,sequence:12', 'epoch=12 unit=1ms fields=timestamp:41,sequence:12',
      'epoch=2023-02-29 unit=1ms fields=timestamp:41,sequence:12', 'epoch=0 epoch=0 unit=1ms fields=timestamp:41,sequence:12',
      'epoch=0 unit=1h fields=timestamp:41,sequence:12', 'epoch=0 unit=0ms fields=timestamp:41,sequence:12', 'epoch=0 unit=2days fields=timestamp:41,sequence:12',
      'epoch=0 unit=1ms fields=shard:10,timestamp:41,sequence:12', 'epoch=0 unit=1ms fields=timestamp:41', 'epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:32',
      'epoch=0 unit=1ms fields=timestamp:41,worker:5,sequence:12,process:5', 'epoch=0 unit=1ms fields=timestamp:41,worker:5,worker:5,sequence:12',
      'epoch=0 unit=1ms fields=timestamp:41,shard:13,sequence:12', 'epoch=0 unit=1ms fields=timestamp:0,shard:13,sequence:12',
      'epoch=0 unit=1s fields=timestamp:60,sequence:3', 'epoch=0 unit=1ms fields=timestamp:41,shrd:10,sequence:12', 'epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:12 x',
      'epoch=0 unit=1ms fields=timestamp:41,shard:10,sequence:12,', 'epoch=0 unit=1ms fields=timestamp:41,worker:5,process:5,node:2']) AS layout
 WHERE answer(format('snowflake_shard(1, %L)', layout)) !~ '^22023' OR answer(format('plain.snowflake_shard(1, %L)', layout)) !~ '^22023';
CREATE FUNCTION refusal(layout text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM plain.snowflake_shard(1, layout);
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END
$$;
SELECT refusal(layout) FROM unnest(ARRAY['twiter', 'epoch=0 unit', 'epoch=0 epoch=0', 'epoch=0 unit=1ms', 'epoch=12 unit=1s fields=', 'epoch=2023-02-29 unit=1s fields=',
    'epoch=2023 unit=1s fields=', 'epoch=now unit=1s fields=', 'epoch=0 unit=1h fields=', 'epoch=0 unit=1s fields=shard:5', 'epoch=0 unit=1s fields=timestamp:64,shard:5',
    'epoch=0 unit=1s fields=timestamp:41,shard:5,sequence:32', 'epoch=0 unit=1s fields=timestamp:60,sequence:3']) AS layout;
SELECT plain.snowflake_shard(1, E'twi\nter');

-- minting
CREATE TABLE minted AS SELECT n, plain.snowflake_nextval() AS id, clock_timestamp() AS at FROM generate_series(1, 10000) AS n;
SELECT count(*), count(DISTINCT id), bool_and(snowflake_shard(id) = 5), bool_and(snowflake_timestamp(id) <= at) FROM minted;
SELECT count(*) FROM (SELECT id <= lag(id) OVER (ORDER BY n) AS wrong FROM minted) AS m WHERE wrong;
SELECT plain.snowflake_nextval(6);
SELECT plain.snowflake_nextval(NULL) IS NULL;

-- more shards, and others; never another layout; whatever others call theirs
CREATE TABLE snowflake_shard_8 ();
CREATE SCHEMA others;
CREATE VIEW others.snowflake_plain AS SELECT 1 AS n;
SELECT plain.snowflake_plain_setup('twitter', '1023, 7-8');
SELECT shards FROM plain.snowflake_plain;
SELECT snowflake_shard(plain.snowflake_nextval()) IN (7, 8, 1023), snowflake_shard(plain.snowflake_nextval(8));
SELECT plain.snowflake_nextval(5);
SELECT plain.snowflake_plain_setup('discord', '5');
SELECT plain.snowflake_plain_setup('twitter', 'five');
SELECT plain.snowflake_plain_setup('twitter', '8-7');
SELECT plain.snowflake_plain_setup('twitter', '1024');
SELECT plain.snowflake_plain_setup('twitter', '');
-- one shard of one layout in one schema of the database
SELECT a.layout, b.layout AS other, regexp_replace(answer(format('%s.snowflake_plain_setup(%L, %L)::text', a.name, a.layout, a.shard || ', ' || b.shard)), 'plain_\d+', 'plain_N') AS answer
  FROM minting AS a, minting AS b WHERE a.name <> b.name AND a.layout ~ '2024-01-01' AND b.layout ~ '2024-01-01' ORDER BY 1, 2;
DROP TABLE snowflake_shard_8;
BEGIN;
CREATE SEQUENCE others.snowflake_shard_13;
COMMENT ON SEQUENCE others.snowflake_shard_13 IS 'layout "discord"';
SELECT answer('plain.snowflake_plain_setup(''twitter'', ''13'')::text');
CREATE SCHEMA more;
CREATE SEQUENCE more.snowflake_shard_13;
COMMENT ON SEQUENCE more.snowflake_shard_13 IS 'layout "no layout"';
SELECT answer('plain.snowflake_plain_setup(''twitter'', ''13'')::text');
ROLLBACK;
DROP SCHEMA others CASCADE;
BEGIN;
SET LOCAL snowflake.shards = '3,20-22';
SELECT shard, answer(format('plain.snowflake_plain_setup(''twitter'', ''%s'')::text', shard)) FROM unnest(ARRAY[2, 3, 4, 19, 20, 21, 22, 23]) AS shard;
SELECT count(*) AS one_at_a_time FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND mode = 'ExclusiveLock' AND objsubid = 1;
ROLLBACK;
CREATE FUNCTION with_sequence(options text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    DROP SEQUENCE IF EXISTS plain.snowflake_shard_9;
    EXECUTE 'CREATE SEQUENCE plain.snowflake_shard_9 ' || options;
    RETURN regexp_replace(answer('plain.snowflake_plain_setup(''twitter'', ''9'')::text'), ', and the owner .*', '');
END
$$;
SELECT options, with_sequence(options) FROM unnest('{MINVALUE 0 INCREMENT 2,MINVALUE 0 CACHE 2,MINVALUE 0 CYCLE,MINVALUE 0 AS integer,MINVALUE 1}'::text[]) AS options;

CREATE ROLE regress_plain;
GRANT ALL ON SCHEMA plain TO regress_plain;
SET ROLE regress_plain;
CREATE SEQUENCE plain.snowflake_shard_10 MINVALUE 0;
RESET ROLE;
SELECT plain.snowflake_plain_setup('twitter', '10');
SELECT plain.snowflake_plain_setup('twitter', '1023, 7-8');

-- a role that may execute the functions can mint, and can do nothing else; its own
-- functions, operators and types of the same names are not used
REVOKE CREATE ON SCHEMA plain FROM regress_plain;
CREATE SCHEMA own AUTHORIZATION regress_plain;
SET ROLE regress_plain;
DO $$
DECLARE
    types text[] := '{int,bigint,float8,numeric,interval,timestamp,timestamptz,text,regclass,int[],bigint[]}';
    name  text;
    other text;
    type  text;
BEGIN
    EXECUTE (SELECT string_agg(format('CREATE FUNCTION own.trap(%s, %s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION ''called as %%'', current_user; END $f$', a, b), ';')
               FROM unnest(types) AS a, unnest(types) AS b);
    FOR name IN SELECT DISTINCT m[1] FROM pg_proc, regexp_matches(prosrc, '[-+*/%<>=|&]+', 'g') AS m
                 WHERE pronamespace = 'plain'::regnamespace AND m[1] IN (SELECT oprname FROM pg_operator) LOOP
        EXECUTE (SELECT string_agg(format('CREATE OPERATOR own.%s (FUNCTION = own.trap, LEFTARG = %s, RIGHTARG = %s)', name, a, b), ';')
                   FROM unnest(types) AS a, unnest(types) AS b);
    END LOOP;
    FOR name IN SELECT DISTINCT m[1] FROM pg_proc, regexp_matches(prosrc, '([a-z_]+)\(', 'g') AS m
                 WHERE pronamespace = 'plain'::regnamespace AND m[1] IN (SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace) LOOP
        FOREACH type IN ARRAY types LOOP
            EXECUTE format('CREATE FUNCTION own.%I(%s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION ''called as %%'', current_user; END $f$', name, type);
            FOREACH other IN ARRAY types LOOP
                EXECUTE format('CREATE FUNCTION own.%I(%s, %s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION ''called as %%'', current_user; END $f$', name, type, other);
            END LOOP;
        END LOOP;
    END LOOP;
    FOR name IN SELECT DISTINCT m[1] FROM pg_proc, regexp_matches(prosrc, '[a-z0-9]+', 'g') AS m
                 WHERE pronamespace = 'plain'::regnamespace AND m[1] IN (SELECT typname FROM pg_type WHERE typtype = 'b') AND m[1] <> ALL ('{date,interval,timestamp,time}') LOOP
        EXECUTE format('CREATE TYPE own.%I AS ENUM ()', name);
    END LOOP;
END
$$;
SELECT count(*) > 1500 AS traps FROM pg_proc WHERE pronamespace = 'own'::regnamespace;
CREATE TABLE own.answers AS SELECT n, 1541815603606036480 + n AS id FROM generate_series(1, 3) AS n;
SET search_path = own, pg_catalog;
SELECT plain.snowflake_nextval(7) OPERATOR(pg_catalog.>) 0, plain.snowflake_nextval() OPERATOR(pg_catalog.>) 0;
SELECT plain.snowflake_timestamp(id), plain.snowflake_timestamp(id, 'sonyflake'), plain.snowflake_shard(id), plain.snowflake_shard(id, 'discord'), plain.snowflake_sequence(id),
       plain.snowflake_decode(id), plain.snowflake_encode(plain.snowflake_timestamp(id), 5, 6), plain.snowflake_floor(plain.snowflake_timestamp(id)),
       plain.snowflake_ceil(plain.snowflake_timestamp(id)), plain.snowflake_ceil(plain.snowflake_timestamp(id), 'discord'), plain.snowflake_from_base32(plain.snowflake_to_base32(id)),
       plain.snowflake_from_base58(plain.snowflake_to_base58(id)), plain.snowflake_from_base62(plain.snowflake_to_base62(id)) FROM answers WHERE n OPERATOR(pg_catalog.=) 1;
RESET search_path;
SELECT nextval('plain.snowflake_shard_7');
SELECT setval('plain.snowflake_open_7', 1);
SELECT plain.snowflake_plain_move(7, true);
TABLE plain.snowflake_plain;
BEGIN;
LOCK TABLE plain.snowflake_plain IN SHARE MODE;
ROLLBACK;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION plain.snowflake_nextval(int) FROM PUBLIC;
SET ROLE regress_plain;
SELECT plain.snowflake_nextval(7);
RESET ROLE;
DROP OWNED BY regress_plain CASCADE;
DROP ROLE regress_plain;

-- while step 4 moves the sequence, the shard is closed, and the gate locked; before and after that, it is open
CREATE SEQUENCE plain.meanwhile START 4;
SELECT plain.snowflake_nextval(7) > 0 AS minted, pg_sequence_last_value('plain.snowflake_open_7') IS NOT NULL AS open;
BEGIN;
CREATE OR REPLACE FUNCTION plain.snowflake_plain_wait(shard int, tick bigint, wait boolean) RETURNS void LANGUAGE sql
AS $$ SELECT setval('plain.meanwhile', 1 + (pg_sequence_last_value('plain.snowflake_open_7') IS NULL)::int
    + (SELECT count(*) FROM pg_locks WHERE relation = 'plain.snowflake_plain_gate'::regclass AND mode = 'ExclusiveLock' AND pid = pg_backend_pid())) $$;
SELECT FROM pg_sleep(0.2);    -- now the sequence is late
SELECT plain.snowflake_nextval(7) > 0 AS minted, pg_sequence_last_value('plain.snowflake_open_7') IS NOT NULL AS open;
SELECT last_value = 3 AS closed_and_locked, setval('plain.meanwhile', 4) FROM plain.meanwhile;
SELECT setval('plain.snowflake_open_7', 0, false);
SELECT plain.snowflake_plain_move(7, true);
ROLLBACK;
SELECT last_value = 3 AS closed_and_locked FROM plain.meanwhile;
DROP SEQUENCE plain.meanwhile;

-- Who opens a shard begins a tick that has not begun: far from the last id, and near it.
BEGIN;
DELETE FROM plain.snowflake_plain;
SELECT plain.snowflake_plain_setup('epoch=2024-01-01 unit=500ms fields=timestamp:41,shard:10,sequence:2', '900');
SELECT plain.snowflake_plain_now() AS before, plain.snowflake_nextval() AS id \gset
SELECT :id >> 12 > :before AS later, plain.snowflake_sequence(:id) AS sequence, setval('plain.snowflake_open_900', 0, false);
SELECT plain.snowflake_plain_now() AS before, plain.snowflake_nextval() AS id \gset
SELECT :id >> 12 > :before AS later, plain.snowflake_sequence(:id) AS sequence;
ROLLBACK;

-- The last tick of a layout: now, half a day from both its ends; and before, and after that
BEGIN;
CREATE FUNCTION plain.now_after(days numeric) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM plain.snowflake_plain;
    PERFORM plain.snowflake_plain_setup(to_char((now() - days * interval '1 day') AT TIME ZONE 'UTC', '"epoch="YYYY-MM-DD"T"HH24:MI:SS"Z unit=86400s fields=timestamp:14,shard:10"'), '901');
    RETURN answer('plain.snowflake_plain_now()::text');
END
$$;
SELECT days, plain.now_after(days) FROM unnest(ARRAY[-0.5, 16383.5, 16384.5]) AS days;
ROLLBACK;

-- another name for the schema, and who called by that of the function goes on
CREATE TABLE renamed (id bigint DEFAULT plain.snowflake_nextval(), at timestamptz GENERATED ALWAYS AS (plain.snowflake_timestamp(id)) STORED);
BEGIN;
ALTER SCHEMA plain RENAME TO "a line b";
SELECT "a line b".snowflake_plain_setup(layout, array_to_string(shards, ',')) FROM "a line b".snowflake_plain;
COMMIT;
INSERT INTO renamed DEFAULT VALUES RETURNING snowflake_shard(id) IN (7, 8, 1023) AS minted, at = snowflake_timestamp(id) AS same;
BEGIN;
ALTER SCHEMA "a line b" RENAME TO plain;
SELECT plain.snowflake_plain_setup(layout, array_to_string(shards, ',')) FROM plain.snowflake_plain;
COMMIT;
INSERT INTO renamed DEFAULT VALUES RETURNING snowflake_shard(id) IN (7, 8, 1023) AS minted, at = snowflake_timestamp(id) AS same;
DROP TABLE renamed;

-- each object has a comment
SELECT oid::regprocedure AS undescribed FROM pg_proc WHERE pronamespace = 'plain'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL
 UNION ALL
SELECT oid FROM pg_class WHERE relnamespace = 'plain'::regnamespace AND relname <> 'snowflake_shard_9' AND relkind IN ('r', 'v', 'S') AND obj_description(oid, 'pg_class') IS NULL;

-- never in the schema of the C extension, nor that one in its
DROP EXTENSION snowflake_plain;
CREATE EXTENSION snowflake_plain;
SELECT snowflake_plain_setup('twitter', '5');
DROP EXTENSION snowflake_plain;
DROP EXTENSION snowflake;
CREATE SCHEMA other;
CREATE EXTENSION snowflake_plain SCHEMA other;
CREATE TABLE other.snowflake_plain ();
ALTER TABLE other.snowflake_plain OWNER TO pg_monitor;
SELECT other.snowflake_plain_setup('twitter', '11');
DROP TABLE other.snowflake_plain;
CREATE TABLE other.snowflake_plain_gate ();
SELECT other.snowflake_plain_setup('twitter', '11');
DROP TABLE other.snowflake_plain_gate;
-- without the C extension its settings say nothing
SET snowflake.shards = '11';
SELECT other.snowflake_plain_setup('twitter', '11');
RESET snowflake.shards;
CREATE EXTENSION snowflake SCHEMA other;

SELECT format('DROP SCHEMA %s CASCADE', string_agg(nspname, ', ' ORDER BY oid)) FROM pg_namespace WHERE nspname ~ '^(other|plain.*)$' \gexec
DROP TABLE ids, times, layouts, minted, minting, edges;
DROP FUNCTION answer, differences, refusal, with_sequence;
