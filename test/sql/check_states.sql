--
-- snowflake_check: what it makes of each answer of snowflake_horizon() and its like, which are
-- replaced here by functions that read their answers from settings.  (That servers give these
-- answers: test/t/087_check.pl, 101_states.pl, 106_states_in_time.pl.)
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET snowflake.shards = '5';

CREATE OR REPLACE FUNCTION snowflake_horizon(OUT horizon timestamptz, OUT seconds_ahead double precision, OUT last_renewal timestamptz,
        OUT last_error text, OUT waiting_for text, OUT waiting_since timestamptz, OUT incarnation text, OUT clone_of text, OUT clone_evidence text, OUT state text)
    LANGUAGE sql AS $$
SELECT * FROM jsonb_to_record(current_setting('fake.horizon')::jsonb) AS t(horizon timestamptz, seconds_ahead double precision, last_renewal timestamptz,
        last_error text, waiting_for text, waiting_since timestamptz, incarnation text, clone_of text, clone_evidence text, state text) $$;
CREATE OR REPLACE FUNCTION snowflake_lease_status(OUT state text, OUT holder text, OUT shards integer, OUT lease_until timestamptz, OUT last_answer timestamptz,
        OUT clock_ahead double precision, OUT last_error text, OUT losses integer, OUT last_loss text, OUT restart_pending boolean, OUT failure text, OUT next_step text)
    LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO state, holder, shards, lease_until, last_answer, clock_ahead, last_error, losses, last_loss, restart_pending, failure, next_step
      FROM jsonb_to_record(current_setting('fake.lease')::jsonb) AS t(state text, holder text, shards integer, lease_until timestamptz, last_answer timestamptz,
        clock_ahead double precision, last_error text, losses integer, last_loss text, restart_pending boolean, failure text, next_step text);
    PERFORM set_config('fake.asked', current_setting('fake.asked') || '+', false);
    last_error := last_error || ' ' || current_setting('fake.asked');
    IF state = 'no such function' THEN
        RAISE undefined_function;
    END IF;
END $$;
CREATE OR REPLACE FUNCTION snowflake_leases(OUT shard integer, OUT held boolean, OUT lease_from timestamptz, OUT lease_until timestamptz, OUT holder text)
    RETURNS SETOF record LANGUAGE sql AS $$
SELECT * FROM (VALUES (9, false, NULL::timestamptz, NULL::timestamptz, 'paris'), (8, true, NULL, NULL, 'us'), (7, false, NULL, NULL, 'tokyo')) AS t
 WHERE current_setting('fake.lease')::jsonb ? 'state' AND current_setting('fake.lease')::jsonb->>'state' <> 'off' $$;
CREATE OR REPLACE FUNCTION snowflake_layouts(OUT name text, OUT in_use boolean, OUT epoch timestamptz, OUT tick interval, OUT fields text, OUT shards bigint,
        OUT capacity bigint, OUT expires_at timestamptz, OUT specification text, OUT source text) RETURNS SETOF record LANGUAGE sql AS $$
SELECT n, n = (current_setting('fake.layout')::jsonb->>'in_use'), '2010-11-04 01:42:54.657+00'::timestamptz, '1 ms'::interval, '', 1024::bigint, 4096::bigint,
       (current_setting('fake.layout')::jsonb->>'expires_at')::timestamptz, 'spec of ' || n, ''
  FROM unnest('{discord,twitter}'::text[]) AS n $$;
CREATE OR REPLACE FUNCTION snowflake_probe(area text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE e jsonb := current_setting('fake.probe')::jsonb->area;
BEGIN
    IF e IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = coalesce(e->>'code', '55000'), MESSAGE = area || ' fails', DETAIL = coalesce(e->>'detail', ''), HINT = coalesce(e->>'hint', '');
    END IF;
END $$;

-- What is found where one answer is other than in a sound server, beside what is found there.
CREATE TYPE finding AS (area text, state text, finding text, next_step text);
CREATE FUNCTION found_with(horizon jsonb DEFAULT '{}', lease jsonb DEFAULT '{}', layout jsonb DEFAULT '{}', probe jsonb DEFAULT '{}') RETURNS SETOF finding
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('fake.horizon', ('{"horizon": "2001-02-03 04:05:06+00"}' || horizon)::text, false);
    PERFORM set_config('fake.lease', ('{"state": "off", "losses": 0, "restart_pending": false, "clock_ahead": 0}' || lease)::text, false);
    PERFORM set_config('fake.layout', ('{"in_use": "twitter", "expires_at": "3001-02-03 04:05:06+00"}' || layout)::text, false);
    PERFORM set_config('fake.probe', probe::text, false);
    PERFORM set_config('fake.asked', '', false);
    -- but for what "make installcheck" sets for its databases
    RETURN QUERY SELECT * FROM snowflake_check() AS c WHERE c.finding !~ '^DATABASE (contrib|isolation)_regression ';
END $$;
\pset format unaligned
CREATE TABLE sound AS SELECT * FROM found_with();
SELECT * FROM sound;
CREATE TABLE cases (no integer GENERATED ALWAYS AS IDENTITY, what text, horizon jsonb DEFAULT '{}', lease jsonb DEFAULT '{}', layout jsonb DEFAULT '{}', probe jsonb DEFAULT '{}');

INSERT INTO cases (what, horizon) VALUES
    ('no horizon', '{"horizon": null}'),
    ('a clone that mints', '{"clone_of": "0123", "clone_evidence": "another disk"}'),
    ('a wait', jsonb_build_object('waiting_for', 'disk', 'waiting_since', '2001-02-03 04:05:06+00')),
    ('a wait for a standby', jsonb_build_object('waiting_for', 'synchronous standby', 'waiting_since', '2001-02-03 04:05:06+00')),
    ('one of just now', jsonb_build_object('waiting_for', 'disk', 'waiting_since', now() + interval '1 min'));
INSERT INTO cases (what, horizon, probe) VALUES
    ('a clone that does not', '{"clone_of": "0123", "clone_evidence": "another disk"}', '{"clone": {"hint": "Look."}}'),
    ('a wait, and an error', '{"waiting_for": "disk", "waiting_since": "2001-02-03 04:05:06+00"}', '{"horizon": {"detail": "Why.", "hint": "Look."}}'),
    ('no answer of the worker', '{}', '{"worker": {"code": "57000", "hint": "Wait."}}');
INSERT INTO cases (what, probe)
    SELECT 'an error of ' || area, jsonb_build_object(area, '{"detail": "Why.", "hint": "Look."}'::jsonb) FROM unnest('{worker,horizon,layout,clone,clock,shards,leases}'::text[]) AS area;
INSERT INTO cases (what, layout, probe) VALUES
    ('expired', '{"expires_at": "2001-02-03 04:05:06+00"}', '{"clock": {"hint": "Look."}}'),
    ('within a year', jsonb_build_object('expires_at', now() + interval '360 days'), '{}'),
    ('within two years', jsonb_build_object('expires_at', now() + interval '370 days'), '{}'),
    ('nearly', jsonb_build_object('expires_at', now() + interval '725 days'), '{}'),
    ('later', jsonb_build_object('expires_at', now() + interval '735 days'), '{}'),
    ('another layout', '{"in_use": "discord"}', '{}'),
    ('no layout, and marks that are not read', '{"in_use": null}', '{}');
INSERT INTO cases (what, lease, probe) VALUES
    ('leases', '{"state": "held", "shards": 3, "lease_until": "2001-02-03 04:05:06+00"}', '{}'),
    ('leases of a standby', '{"state": "standby", "shards": 3, "lease_until": "2001-02-03 04:05:06+00"}', '{}'),
    ('a registry that is away', '{"state": "held", "shards": 3, "lease_until": "2001-02-03 04:05:06+00", "failure": "away", "last_error": "timeout", "next_step": "Look there."}', '{}'),
    ('and no lease', '{"state": "held", "shards": 3, "lease_until": "2001-02-03 04:05:06+00", "failure": "away", "last_error": "timeout", "next_step": "Look there."}', '{"leases": {"detail": "Why.", "hint": "Look."}}'),
    ('losses', '{"losses": 1, "last_loss": "of shard 5"}', '{}'),
    ('a registry that waits for a restart', '{"restart_pending": true}', '{}'),
    ('a clock 1 s ahead', '{"clock_ahead": 1}', '{}'),
    ('a clock 1.1 s ahead', '{"clock_ahead": 1.06}', '{}'),
    ('a clock behind', '{"clock_ahead": -1.06}', '{}'),
    ('a library without leases', '{"state": "no such function", "losses": 1, "restart_pending": true}', '{}');
SELECT c.no, c.what, f.area, f.state, CASE WHEN f.area = 'expiry' THEN regexp_replace(f.finding, '20\d\d-\d.*?[+]00', 'then') ELSE f.finding END AS finding, f.next_step
  FROM cases AS c CROSS JOIN LATERAL (SELECT * FROM found_with(c.horizon, c.lease, c.layout, c.probe) EXCEPT TABLE sound) AS f
 ORDER BY c.no, f.area, f.state, f.finding;
-- and what is found no more
SELECT c.no, c.what, f.area, f.state FROM cases AS c CROSS JOIN LATERAL (SELECT area, state FROM sound EXCEPT SELECT area, state FROM found_with(c.horizon, c.lease, c.layout, c.probe)) AS f
 ORDER BY c.no, f.area;
-- a part of the script that was not installed, the library of another major
BEGIN;
ALTER FUNCTION snowflake_lease_status() RENAME TO away;
SELECT * FROM found_with() EXCEPT TABLE sound ORDER BY area, finding;
ROLLBACK;
BEGIN;
CREATE OR REPLACE FUNCTION snowflake_layouts(OUT name text, OUT in_use boolean, OUT epoch timestamptz, OUT tick interval, OUT fields text, OUT shards bigint,
        OUT capacity bigint, OUT expires_at timestamptz, OUT specification text, OUT source text) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = 'of another major', DETAIL = 'Why.', HINT = current_setting('fake.hint');
END $$;
SET LOCAL fake.hint = '';
SELECT * FROM found_with() EXCEPT TABLE sound ORDER BY area, finding;
SET LOCAL fake.hint = 'Look.';
SELECT next_step FROM found_with() WHERE area = 'preload';
ROLLBACK;

-- no argument is null
SELECT * FROM snowflake_check(held_for => NULL);
SELECT * FROM snowflake_check(partitions_for => NULL);

-- a hint is that of its own area
SELECT area, state, next_step FROM found_with(probe => '{"worker": {"hint": "Look."}}') WHERE area IN ('worker', 'horizon', 'leases');

-- ids up to the horizon are no surprise, if the clock went back
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
INSERT INTO photos DEFAULT VALUES;
SELECT * FROM found_with() EXCEPT TABLE sound ORDER BY area, finding;
INSERT INTO photos VALUES (snowflake_encode('2060-01-01Z', 5, 0));
SELECT area, state, finding, next_step FROM found_with() EXCEPT TABLE sound ORDER BY area, finding;
SELECT area, state FROM found_with('{"horizon": "2059-12-31 23:59:59Z"}') WHERE area = 'columns';
SELECT area, state FROM found_with('{"horizon": "2060-01-01Z"}') WHERE area = 'columns';
SELECT area, state FROM found_with(probe => '{"layout": {}}') WHERE area = 'columns';
DROP TABLE photos;

-- where each DEFAULT names a shard
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5));
SELECT * FROM found_with() EXCEPT TABLE sound ORDER BY area, finding;
SELECT * FROM found_with(probe => '{"clock": {"hint": "Look."}, "shards": {"hint": "Look."}}') EXCEPT TABLE sound ORDER BY area, finding;
DROP TABLE photos;

-- who may see less
CREATE ROLE regress_snowflake_user;
GRANT SELECT ON cases, sound TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT * FROM found_with() EXCEPT TABLE sound ORDER BY area, finding;
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_horizon() TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT * FROM found_with() EXCEPT TABLE sound ORDER BY area, finding;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_horizon() FROM regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT f.area, f.state, f.finding FROM cases AS c CROSS JOIN LATERAL (SELECT * FROM found_with(c.horizon, c.lease, c.layout, c.probe) EXCEPT SELECT * FROM found_with()) AS f WHERE c.what ~ 'clone' ORDER BY c.no;
RESET ROLE;
DROP OWNED BY regress_snowflake_user;
DROP ROLE regress_snowflake_user;

-- shards of snowflake_plain: the same in two schemas, of another layout, number or kind; and ours
\set plain 'SELECT state, finding, next_step FROM found_with() WHERE area = ''shards'' AND state <> ''ok'''
CREATE SCHEMA one;
CREATE SCHEMA two;
CREATE SEQUENCE one.snowflake_shard_6;
COMMENT ON SEQUENCE one.snowflake_shard_6 IS 'the last position of a shard of layout "twitter"; see there';
CREATE SEQUENCE two.snowflake_shard_6;
CREATE SEQUENCE two.snowflake_shard_7;
COMMENT ON SEQUENCE two.snowflake_shard_7 IS 'the last position of a shard of layout "twitter"; see there';
CREATE SEQUENCE two.snowflake_shard_7a;
COMMENT ON SEQUENCE two.snowflake_shard_7a IS 'the last position of a shard of layout "twitter"; see there';
CREATE TABLE one.snowflake_shard_7 (n int);
COMMENT ON TABLE one.snowflake_shard_7 IS 'the last position of a shard of layout "twitter"; see there';
CREATE SEQUENCE one.other_shard_7;
COMMENT ON SEQUENCE one.other_shard_7 IS 'the last position of a shard of layout "twitter"; see there';
:plain;
COMMENT ON SEQUENCE two.snowflake_shard_6 IS 'the last position of a shard of layout "discord"; see there';
:plain;
COMMENT ON SEQUENCE two.snowflake_shard_6 IS 'the last position of a shard of layout "twitter"; see there';
:plain;
COMMENT ON SEQUENCE two.snowflake_shard_6 IS 'the last position of a shard of layout "spec of twitter"; see there';
CREATE FUNCTION repeats(shards text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('snowflake.shards', shards, true);
    RETURN QUERY SELECT finding FROM found_with() WHERE finding ~ 'so ids repeat$';
END $$;
SELECT shards, repeats(shards) FROM unnest('{5,6,7,16,67,5 - 6,"1,7-9","1, 6",8-20,"2-3,9",auto}'::text[]) AS shards;
COMMENT ON SEQUENCE one.snowflake_shard_6 IS 'the last position of a shard of layout "discord"; see there';
SELECT shards, repeats(shards) FROM unnest('{6}'::text[]) AS shards;
SET client_min_messages = warning;
DROP SCHEMA one, two CASCADE;

-- tables of marks: ordinary and partitioned ones, no views, no partitions; this server's mark
-- that is later than the present one; one that nobody may read into
CREATE SCHEMA one;
CREATE SCHEMA two;
CREATE TABLE one.snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL);
CREATE TABLE two.other (server text, mark bigint) PARTITION BY LIST (server);
CREATE TABLE two.snowflake_marks PARTITION OF two.other DEFAULT;
CREATE TABLE snowflake_marks (server text, mark bigint) PARTITION BY LIST (server);
CREATE TABLE marks_rest PARTITION OF snowflake_marks DEFAULT;
CREATE SCHEMA three;
CREATE VIEW three.snowflake_marks AS SELECT 5 AS wrong;
CREATE TABLE three.marks (server text, mark bigint);
\set marks 'SELECT state, regexp_replace(finding, ''\\d{10,}'', ''N'', ''g'') AS finding, next_step FROM found_with() WHERE area IN (''mark'', ''visibility'')'
SELECT format('%s/%s', system_identifier, current_database()) AS own FROM pg_control_system() \gset
INSERT INTO snowflake_marks VALUES (:'own', 5), ('paris', snowflake_floor('2060-01-01Z'));
INSERT INTO one.snowflake_marks VALUES (:'own', snowflake_floor('2060-01-01Z'));
INSERT INTO two.other VALUES (:'own', snowflake_floor('2060-01-01Z'));
:marks;
CREATE SCHEMA four;
CREATE TABLE four.snowflake_marks (server bytea, mark bigint);
INSERT INTO four.snowflake_marks VALUES ('', 5);
UPDATE snowflake_marks SET mark = snowflake_floor('2060-01-01Z') WHERE mark = 5;
DELETE FROM one.snowflake_marks;
:marks;
SELECT state, finding FROM found_with(probe => '{"layout": {}}') WHERE area = 'mark';
DROP SCHEMA one, two, three, four CASCADE;
DROP TABLE snowflake_marks;

-- the oldest ten sessions that hold the mark
CREATE OR REPLACE FUNCTION snowflake_stat_backends(OUT pid integer, OUT shard integer, OUT last_id snowflake, OUT minted bigint, OUT waits bigint, OUT waited interval,
    OUT holding_since timestamptz, OUT oldest_id snowflake, OUT holding_shard integer) RETURNS SETOF record LANGUAGE sql AS $$
SELECT n, 0, NULL::public.snowflake, 0::bigint, 0::bigint, '0'::interval, now() - n * interval '1 min', NULL::public.snowflake, 0 FROM generate_series(1, 20) AS n $$;
SELECT state, regexp_replace(finding, ' for .*', '') AS finding, next_step FROM found_with() WHERE area IN ('mark', 'columns');

DROP TABLE cases, sound;
DROP FUNCTION found_with, repeats;
DROP EXTENSION snowflake;
DROP TYPE finding;
