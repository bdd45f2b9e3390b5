--
-- The edges of each rule of the registry: its own functions, called by themselves.
-- Each value that is just good, and the next one, which is not.
--
\set VERBOSITY terse
\set SHOW_CONTEXT never
-- its messages of level LOG are printed, and nothing else of that level
SET log_statement = none;
SET log_duration = off;
SET log_min_duration_statement = -1;
CREATE ROLE regress_snowflake_owner SUPERUSER;
SET SESSION AUTHORIZATION regress_snowflake_owner;
CREATE EXTENSION snowflake_registry;
RESET SESSION AUTHORIZATION;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SELECT snowflake_registry_open('0', 'epoch=x', 7) <= clock_timestamp() AS opened;

-- Whose functions are its own: not another extension's, nor one that only depends on it
CREATE FUNCTION regress_my_lease() RETURNS int LANGUAGE sql AS 'SELECT 1';
ALTER FUNCTION regress_my_lease() DEPENDS ON EXTENSION snowflake_registry;
SELECT proname FROM pg_proc WHERE oid IN (SELECT snowflake_registry_functions('_(lease|release)$')) ORDER BY 1;
SELECT has_function_privilege('public', 'plpgsql_inline_handler(internal)', 'EXECUTE') AS still_public;
-- nor one whose number another object of the extension has
BEGIN;
INSERT INTO pg_depend SELECT 'pg_class'::regclass, 'regress_my_lease()'::regprocedure, 0, 'pg_extension'::regclass, oid, 0, 'e' FROM pg_extension WHERE extname = 'snowflake_registry';
SELECT count(*) FROM snowflake_registry_functions('regress');
ROLLBACK;
-- A role that leases can look into the schema
BEGIN;
CREATE ROLE regress_snowflake_other;
REVOKE USAGE ON SCHEMA public FROM PUBLIC;
SELECT snowflake_registry_grant('regress_snowflake_other');
SELECT has_schema_privilege('regress_snowflake_other', 'public', 'USAGE') AS can_look;
ROLLBACK;

-- What a statement fails with; it is undone.
CREATE FUNCTION fails(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    BEGIN
        EXECUTE statement;
        RAISE reading_sql_data_not_permitted;
    EXCEPTION WHEN reading_sql_data_not_permitted THEN
        RETURN NULL;
    WHEN others THEN
        GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
        RETURN concat_ws('; ', SQLERRM, nullif(detail, ''));
    END;
END
$$;
-- The state, a holder and a caller, with this changed.
CREATE FUNCTION reg(changes jsonb DEFAULT '{}') RETURNS snowflake_registry_state LANGUAGE sql AS
    'SELECT jsonb_populate_record(s, changes) FROM snowflake_registry_state AS s';
CREATE FUNCTION known(changes jsonb DEFAULT '{}') RETURNS snowflake_registry_holders LANGUAGE sql AS $$
    SELECT jsonb_populate_record(ROW('a', session_user, 'host of a', 5, '1 min', '2020-01-01')::snowflake_registry_holders, changes)
$$;
CREATE FUNCTION caller(changes jsonb DEFAULT '{}') RETURNS snowflake_registry_caller LANGUAGE sql AS $$
    SELECT jsonb_populate_record(ROW('a', 5, 6, 5, 'host of a', 'epoch=x', 7, NULL)::snowflake_registry_caller, changes)
$$;

-- The length of each text
SELECT field, length - longest AS more, fails(format('SELECT snowflake_registry_check(holder => %s, host => %s, layout => %s, registry => %s)',
           VARIADIC ARRAY(SELECT CASE f WHEN field THEN format('repeat(''x'', %s)', length) ELSE quote_literal('x') END
                            FROM unnest(ARRAY['holder', 'host', 'layout', 'registry']) WITH ORDINALITY AS u (f, n) ORDER BY n)))
  FROM (VALUES ('holder', 64), ('host', 256), ('layout', 160), ('registry', 64)) AS v (field, longest), generate_series(longest, longest + 1) AS length;
SELECT fails('SELECT snowflake_registry_check(repeat(''x'', 65), ''x'', ''x'', NULL)');

-- Refused before anything else: a schema whose owner is no superuser, and such a text
CREATE FUNCTION refuses(length int, OUT lease text, OUT release text) LANGUAGE plpgsql AS $$
DECLARE
    begins text := format('repeat(''x'', %s), 0, 1, 0, ''host'', ''epoch=x'', 7, NULL, ''{}'', ''{}''', length);
BEGIN
    lease := split_part(fails(format('SELECT snowflake_registry_lease(%s, ''{}'', ''{}'', NULL, ''{}'', ''1 min'')', begins)), ';', 1);
    release := split_part(fails(format('SELECT snowflake_registry_release(%s)', begins)), ';', 1);
END
$$;
SELECT length, r.* FROM unnest('{64,65}'::int[]) AS length, refuses(length) AS r;
BEGIN;
CREATE ROLE regress_snowflake_other;
ALTER SCHEMA public OWNER TO regress_snowflake_other;
SELECT (refuses(64)).*;
ROLLBACK;

-- How long a lease can last that is forgotten
SELECT longest, snowflake_registry_longest(reg(jsonb_build_object('longest_lease', longest)))
  FROM unnest('{0,1 us,2 days}'::interval[]) AS longest;

-- The log tells of a fence, if there is news
BEGIN;
SET LOCAL client_min_messages = log;
\set VERBOSITY default
SELECT (snowflake_registry_fence_until(reg(), 'infinity', 'For this reason.')).not_before;
SELECT (snowflake_registry_fence_until(reg(), '2030-01-01', 'It was fenced for longer.')).not_before;
SELECT (snowflake_registry_fence_until(reg(), 'infinity', NULL)).not_before;
\set VERBOSITY terse
ROLLBACK;

-- Which calls are refused
SELECT change, replace(fails(format('SELECT snowflake_registry_refuse(caller(%L), reg(%L), known(%L), %s, %s, %L, %s, %L)',
           change -> 'caller', change -> 'reg', change -> 'known', coalesce(change ->> 'has', '0'), coalesce(change ->> 'named', '0'),
           CASE WHEN change ? 'valid' THEN change ->> 'valid' ELSE 'true' END, coalesce(change ->> 'asked', '0'), coalesce(change ->> 'lease', '1 min'))), session_user, 'its caller') AS fails
  FROM unnest(ARRAY[
    '{}',
    '{"named": 1024}', '{"named": 1025}', '{"named": 1025, "reg": {"max_shards": 1025}}', '{"named": 1026, "reg": {"max_shards": 1025}}',
    '{"named": 1026, "has": 1026}', '{"named": 1027, "has": 1026}', '{"named": 1024, "reg": {"max_shards": 5}}',
    '{"valid": false}', '{"valid": null}',
    '{"caller": {"holder": null}}', '{"caller": {"fence": 6}}', '{"caller": {"fence": 7}}', '{"caller": {"fence": null}}',
    '{"caller": {"layout": "", "last_shard": 7}, "reg": {"layout": null, "last_shard": null}}', '{"caller": {"layout": null}}',
    '{"caller": {"last_shard": -1}, "reg": {"layout": null, "last_shard": null}}', '{"caller": {"last_shard": 0}, "reg": {"layout": null, "last_shard": null}}',
    '{"caller": {"last_shard": 1048575}, "reg": {"layout": null, "last_shard": null}}', '{"caller": {"last_shard": 1048576}, "reg": {"layout": null, "last_shard": null}}',
    '{"caller": {"layout": "epoch=y"}}', '{"caller": {"last_shard": 6}}', '{"caller": {"last_shard": 8}}',
    '{"lease": "1 day"}', '{"lease": "1 day 00:00:00.000001"}', '{"lease": "2 days", "has": 1}',
    '{"asked": 1024}', '{"asked": 1025}', '{"asked": 1025, "has": 1}', '{"asked": null, "lease": null}',
    '{"known": {"role": "another"}}', '{"known": {"role": null}}']::jsonb[]) WITH ORDINALITY AS c (change, n) ORDER BY n;

-- Which shards "auto" finds: 0 and 1 were leased, 2 is reserved, nobody had the others
INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until, reserved_for)
VALUES (0, 'b', '2020-01-01', '2020-01-03', NULL), (1, 'b', '2020-01-01', '2020-01-02', NULL), (2, NULL, NULL, NULL, 'old rows'), (4, 'b', '2020-01-01', '2020-01-01', 'b, before');
CREATE FUNCTION finds(count int, preferred int[], first_unused int, OUT shards int[], OUT next int, OUT is_written boolean) LANGUAGE plpgsql AS $$
DECLARE
    before tid := (SELECT ctid FROM snowflake_registry_state);
    was snowflake_registry_state := reg();
BEGIN
    shards := snowflake_registry_find(reg(jsonb_build_object('first_unused', first_unused)), '2020-01-03', count, preferred);
    SELECT s.first_unused, s.ctid <> before INTO next, is_written FROM snowflake_registry_state AS s;
    PERFORM snowflake_registry_write(was);
END
$$;
SELECT c.*, f.* FROM (VALUES (1, '{}', 0), (1, '{6}', 0), (1, '{2}', 0), (1, '{4}', 0), (2, '{6,5}', 0), (2, '{5}', 0), (3, '{5}', 0), (2, '{0}', 0), (3, '{1,1}', 0),
                      (4, '{}', 0), (5, '{}', 0), (9, '{}', 0), (1, '{8,-1}', 7), (1, '{}', 6), (1, '{}', 7), (1, '{}', 8), (2, '{}', 8), (2, '{1}', 8), (0, '{}', 0)) AS c (count, preferred, first),
                     finds(c.count, c.preferred::int[], c.first) AS f;

-- Which shards are reserved, as a list: 10,000 shards, and 8,000 characters
CREATE FUNCTION set_aside(shards int[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM snowflake_registry_shards;
    INSERT INTO snowflake_registry_shards (shard, reserved_for) SELECT s.shard, 'old rows' FROM unnest(shards) AS s (shard);
    INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until, reserved_for)
    VALUES (200001, NULL, NULL, NULL, NULL), (200002, 'b', '2020-01-01', '2020-01-02', 'b, before'), (200003, 'b', '2020-01-01', '2020-01-02', NULL);
    RETURN snowflake_registry_set_aside();
END
$$;
SELECT shards, set_aside(shards) FROM unnest(ARRAY['{}', '{5}', '{5,6}', '{7,6,5}', '{0,2,3,4,6,9,10}']::text[]) AS u (list), CAST(list AS int[]) AS shards;
SELECT count, set_aside(ARRAY(SELECT generate_series(1, count))) FROM unnest('{10000,10001}'::int[]) AS count;
SELECT last, length(set_aside(last || ARRAY(SELECT generate_series(1000, 1000 + 2 * 1598, 2)))) FROM unnest('{10000,100000}'::int[]) AS last;

-- What a call proves, and how the log tells it
DELETE FROM snowflake_registry_shards;
INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until) VALUES (0, 'a', '2020-01-01', '3000-01-01'), (1, 'a', '2020-01-01', '3000-01-02');
CREATE FUNCTION proves(caller jsonb, reg jsonb, known jsonb, held int[], held_until timestamptz[], length interval DEFAULT '1 min',
    OUT lost text[], OUT fenced timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    state snowflake_registry_state := reg('{"not_before": "-infinity", "longest_lease": "0"}');
BEGIN
    PERFORM snowflake_registry_write(state);
    SELECT p.lost_what INTO lost
      FROM snowflake_registry_prove(caller(caller), reg('{"not_before": "2020-01-01", "longest_lease": "1 h", "number": "of this"}' || reg), known(known), '2020-01-01', length,
                                    held, array_fill(timestamptz '2020-01-01', ARRAY[cardinality(held)]), held_until) AS p;
    fenced := not_before FROM snowflake_registry_state;
    PERFORM snowflake_registry_write(state);
END
$$;
SET client_min_messages = log;
\set VERBOSITY default
-- nothing
SELECT * FROM proves('{}', '{}', '{}', '{}', '{}');
SELECT * FROM proves('{}', '{}', '{}', '{0,1}', '{3000-01-01,3000-01-01}');
SELECT * FROM proves('{}', '{}', '{}', '{0,1}', '{3000-01-01,3000-01-02}');
SELECT * FROM proves('{"registry": "of this"}', '{}', '{}', '{0,1}', '{3000-01-01,3000-01-02}');
SELECT * FROM proves('{"registry": "another"}', '{}', '{}', '{}', '{}');
-- another registry; calls; leases
SELECT * FROM proves('{"registry": "another"}', '{}', '{}', '{0,1}', '{3000-01-01,3000-01-01}');
SELECT * FROM proves('{"confirmed": 6}', '{}', '{}', '{0,1}', '{3000-01-01,3000-01-01}');
SELECT * FROM proves('{"confirmed": 1}', '{}', '{"holder": null, "fence": null}', '{}', '{}');
SELECT * FROM proves('{}', '{}', '{}', '{0,1}', '{3000-01-02,3000-01-02}');
SELECT * FROM proves('{}', '{}', '{}', '{7}', '{3000-01-02}');
SELECT cardinality(lost) AS lost, fenced
  FROM generate_series(7, 8) AS count, proves('{"confirmed": 6}', '{}', '{}', ARRAY(SELECT generate_series(11, 10 + count)), array_fill(timestamptz '3000-01-02', ARRAY[count]));
-- for the longest lease known or presented, and no longer than one can be; a release presents none
SELECT n, fenced
  FROM (VALUES (1, '{}', '59 min', '{2020-01-01 00:59}'), (2, '{}', '1 h', '{2020-01-01 01:00}'), (3, '{}', '2 h', '{2020-01-01 01:00}'), (4, '{}', '1 min', '{2020-01-01 03:00}'),
               (5, '{}', '1 min', '{2020-01-01 03:00,2020-01-01 04:00}'), (6, '{}', '1 min', '{3000-01-01}'), (7, '{"max_lease": "2 h"}', '1 min', '{3000-01-01}'),
               (8, '{"max_lease": "2 h"}', '3 h', '{3000-01-01}'), (9, '{"max_lease": "2 h"}', '1 min', '{}'), (10, '{"longest_lease": "0"}', NULL, '{3000-01-01}'),
               (11, '{}', NULL, '{3000-01-01}')) AS v (n, reg, length, held_until),
       proves('{"confirmed": 6}', reg::jsonb, '{}', ARRAY(SELECT generate_series(11, 10 + cardinality(held_until::text[]))), held_until::timestamptz[], length::interval);
-- a closed one hears of it at each call, and logs it once
SELECT * FROM proves('{"confirmed": 6}', '{"is_open": false}', '{}', '{}', '{}');
SELECT * FROM proves('{"confirmed": 6}', '{"is_open": false, "not_before": "2020-01-01 00:00:00.000001"}', '{}', '{}', '{}');
SELECT * FROM proves('{"confirmed": 6}', '{"is_open": true, "not_before": "2020-01-01 00:00:00.000001"}', '{}', '{}', '{}');
RESET client_min_messages;
\set VERBOSITY terse


-- Which of a server's leases are renewed, and until when; 0 and 1 are its own
DELETE FROM snowflake_registry_shards;
CREATE FUNCTION renews(is_again boolean, held int[], held_until text[], wanted int[], length interval DEFAULT '1 min', longest interval DEFAULT '1 h') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM snowflake_registry_shards;
    INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until, is_revoked, reserved_for)
    VALUES (0, 'a', '2020-01-01', '2020-01-01 00:10', false, NULL), (1, 'a', '2020-01-01', '2020-01-01 00:10', false, NULL), (2, 'b', '2020-01-01', '2020-01-01 00:10', false, NULL),
           (3, 'a', '2020-01-01', '2020-01-01 00:10', true, NULL), (4, 'a', '2020-01-01', '2020-01-01 00:10', false, 'old rows');
    PERFORM snowflake_registry_renew(caller(), '2020-01-01', length, longest, is_again, held, array_fill(timestamptz '2019-01-01', ARRAY[cardinality(held)]), held_until::timestamptz[], wanted);
    RETURN string_agg(format('%s until %s', s.shard, s.lease_until - '2020-01-01'), ', ' ORDER BY s.shard) FROM snowflake_registry_shards AS s WHERE s.lease_until <> '2020-01-01 00:10';
END
$$;
SELECT n, renews(is_again, held::int[], held_until::text[], wanted::int[], length::interval)
  FROM (VALUES (1, false, '{0,1,2,3,4}', '{2020-01-01 00:00,2020-01-01 00:00:00.000001,2021-01-01,2021-01-01,2021-01-01}', NULL, '20 min'), (2, false, '{0}', '{2020-01-01 00:30}', NULL, '20 min'),
               (3, false, '{0}', '{2020-01-01 02:00}', '{}', '20 min'), (4, true, '{}', '{}', NULL, '20 min'), (5, true, '{}', '{}', '{1,2,3,4}', '20 min'), (6, true, '{}', '{}', '{}', '20 min'),
               (7, true, '{0}', '{2020-01-01 00:30}', NULL, '20 min'), (8, true, '{0}', '{2019-01-01}', '{0}', '20 min'), (9, true, '{0}', '{2019-01-01}', '{1}', '20 min')) AS v (n, is_again, held, held_until, wanted, length) ORDER BY n;

-- What is leased that is free, and when a server may have more
CREATE FUNCTION leases(reg jsonb, is_more boolean, wanted int[], OUT free int[], OUT full_until text) LANGUAGE plpgsql AS $$
DECLARE
    was snowflake_registry_state := reg();
BEGIN
    DELETE FROM snowflake_registry_shards;
    INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until) VALUES (0, 'a', '2020-01-01', '2020-01-01 00:10'), (1, 'a', '2020-01-01', '2020-01-01 00:20');
    SELECT l.free, l.full_until - '2020-01-01' INTO free, full_until
      FROM snowflake_registry_lease_free(reg('{"not_before": "2020-01-01"}' || reg), caller(), '2020-01-01', '1 min', is_more, wanted, 9, '{}') AS l;
    PERFORM snowflake_registry_write(was);
END
$$;
SELECT * FROM leases('{}', false, '{4,5}');
SELECT * FROM leases('{}', true, '{4,5}');
SELECT * FROM leases('{"not_before": "2020-01-01 00:00:00.000001"}', false, '{4,5}');
SELECT * FROM leases('{"max_shards": 4}', false, '{4,5}');
SELECT * FROM leases('{"max_shards": 3}', false, '{4,5}');
SELECT * FROM leases('{"max_shards": 2}', false, '{4,5}');
SELECT * FROM leases('{"max_shards": 4}', false, NULL);

-- Whole calls.  Each is undone, and begins with these leases.
CREATE FUNCTION calls(call jsonb, OUT n bigint, OUT state text, OUT shard int, OUT lasts numeric, OUT other text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
    rows jsonb;
BEGIN
    BEGIN
        DELETE FROM snowflake_registry_shards;
        INSERT INTO snowflake_registry_holders VALUES ('a', session_user, 'host of a', 5, '1 min', '2020-01-01');
        INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until, reserved_for)
        VALUES (0, 'a', '2020-01-01', clock_timestamp() + interval '10 min', NULL), (1, 'a', '2020-01-01', clock_timestamp() + interval '10 min', NULL),
               (2, 'b', '2020-01-01', clock_timestamp() + interval '2 h', NULL), (3, 'b', '2020-01-01', clock_timestamp() + interval '1 h', NULL),
               (4, 'b', '2020-01-01', clock_timestamp() + interval '5 min', 'old rows'), (7, 'b', '2020-01-01', '2020-01-02', NULL);
        SELECT jsonb_agg(to_jsonb(l)) INTO rows
          FROM jsonb_to_record('{"held": [], "wanted": null, "preferred": [], "lease": "1 min", "last_shard": 7, "until": "2020-01-01"}' || call)
            AS c (held int[], held_from timestamptz[], held_until timestamptz[], wanted int[], auto int, preferred int[], lease interval, last_shard int, minutes int),
               snowflake_registry_lease('a', 5, 6, 5, 'host of a', 'epoch=x', c.last_shard, NULL, c.held,
                                        coalesce(c.held_from, array_fill(timestamptz '2020-01-01', ARRAY[cardinality(c.held)])),
                                        coalesce(c.held_until, array_fill(clock_timestamp() + coalesce(c.minutes, 9) * interval '1 min', ARRAY[cardinality(c.held)])),
                                        c.wanted, c.auto, c.preferred, c.lease)
                 WITH ORDINALITY AS l (state, shard, lease_from, lease_until, other, n) WHERE l.state NOT IN ('accepted', 'set_aside');
        RAISE reading_sql_data_not_permitted;
    EXCEPTION WHEN reading_sql_data_not_permitted THEN
        RETURN QUERY SELECT l.n, l.state, l.shard, ceil(extract(epoch FROM l.lease_until - clock_timestamp()) / 60), regexp_replace(l.other, '\d{4}-\S+ \S+', 'TIME')
                       FROM jsonb_to_recordset(rows) AS l (state text, shard int, lease_until timestamptz, other text, n bigint);
    WHEN raise_exception OR invalid_parameter_value OR configuration_limit_exceeded THEN
        other := SQLERRM;
        RETURN NEXT;
    END;
END
$$;
SELECT call, l.state, l.shard, l.lasts, l.other
  FROM unnest(ARRAY[
    '{"held": [0,1], "auto": 2}', '{"held": [0,1], "auto": 2, "minutes": 30}', '{"held": [0,3], "auto": 1}', '{"held": [0,1], "auto": 1}',
    '{"held": [0,1], "wanted": [0,1], "lease": "2 days"}', '{"held": [0,1], "wanted": [0,1], "auto": 5}', '{"held": [0,1], "wanted": [0,2], "auto": 5}', '{"held": [0,1]}',
    '{"held": [0,1], "auto": 6}', '{"held": [0,1], "auto": 5}', '{"auto": 0}', '{"auto": -1}', '{"wanted": [7]}', '{"wanted": [0,8]}', '{"wanted": [-1]}', '{"wanted": []}',
    '{"held": [0], "held_until": []}', '{"held": [0], "held_from": []}', '{"held": [], "held_until": ["2020-01-01"]}', '{"auto": 1, "lease": "1 us"}', '{"auto": 1, "lease": "0"}']::jsonb[])
         WITH ORDINALITY AS c (call, m) LEFT JOIN calls(call) AS l ON true
 ORDER BY c.m, l.n;
-- too many, in each of the lists alone
SELECT field, c.other FROM unnest(ARRAY['held', 'held_from', 'held_until']) AS field,
       calls(jsonb_build_object(field, to_jsonb(CASE field WHEN 'held' THEN array_fill('5'::text, '{1025}') ELSE array_fill('2020-01-01'::text, '{1025}') END))
             || CASE field WHEN 'held' THEN '{"held_from": [], "held_until": []}'::jsonb ELSE '{}' END) AS c;
SELECT list, fails(format('SELECT snowflake_registry_release(''a'', 5, 6, 5, ''host'', ''epoch=x'', 7, NULL, %L, %L)', CASE list WHEN 'shards' THEN many::int[] ELSE '{}' END,
                          CASE list WHEN 'ends' THEN array_fill('2020-01-01'::text, ARRAY[cardinality(many)]) ELSE '{}' END))
  FROM unnest(ARRAY['shards', 'ends']) AS list, array_fill(5, '{1025}') AS many;

-- A server that has all that it asks for, and knows no more than the registry: nothing else is looked for
BEGIN;
SET LOCAL track_functions = 'all';
DELETE FROM snowflake_registry_shards;
INSERT INTO snowflake_registry_holders VALUES ('a', session_user, 'host of a', 5, '1 min', '2020-01-01');
INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until) VALUES (0, 'a', '2020-01-01', '3000-01-01');
SELECT count(*) FROM snowflake_registry_lease('a', 5, 6, 5, 'host of a', 'epoch=x', 7, (SELECT number FROM snowflake_registry_state), '{0}', '{2020-01-01}', '{3000-01-01}', NULL, 1, '{}', '1 min')
 WHERE state = 'held';
SELECT name, coalesce(pg_stat_get_xact_function_calls(('snowflake_registry_' || name)::regproc), 0) AS calls FROM unnest('{renew,losses,lease_free,lacks}'::text[]) AS name;
ROLLBACK;

-- Each function leaves one row of the state, which this registry wrote, and a call that brings nothing new leaves it alone
DELETE FROM snowflake_registry_shards;
CREATE FUNCTION own_rows() RETURNS text LANGUAGE sql AS $$ SELECT string_agg((s.writer = s.xmin)::text, ' ') FROM snowflake_registry_state AS s $$;
CREATE VIEW call AS
SELECT state, shard FROM snowflake_registry_lease('first', 0, 1, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{3}', NULL, '{}', '1 min') WHERE state <> 'set_aside';
UPDATE snowflake_registry_state SET layout = NULL, last_shard = NULL, longest_lease = '0', is_open = false, not_before = '-infinity', max_lease = '1 day';
UPDATE snowflake_registry_state SET writer = xmin;
SELECT snowflake_registry_open('1 h') > clock_timestamp() + interval '59 min' AS opened;
SELECT own_rows();
TABLE call;
SELECT own_rows();
SELECT layout, last_shard, longest_lease FROM snowflake_registry_state;
SELECT xmin AS was FROM snowflake_registry_state \gset
TABLE call;
SELECT xmin = :was AS left_alone FROM snowflake_registry_state;
SELECT regexp_replace(snowflake_registry_unfence('0')::text, '.*', 'a time');
SELECT own_rows();
SELECT snowflake_registry_limit('1 h', 4);
SELECT own_rows();
SELECT snowflake_registry_fence('0') <= clock_timestamp() AS fenced;
SELECT own_rows();
SELECT xmin AS was FROM snowflake_registry_state \gset
SELECT state, shard FROM snowflake_registry_lease('first', 1, 2, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{3}', NULL, '{}', '1 h') WHERE state <> 'set_aside';
SELECT xmin = :was AS left_alone FROM snowflake_registry_state;

-- Whatever is called locks the three tables, and fences a registry that was put back
CREATE FUNCTION does(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    done text;
BEGIN
    UPDATE snowflake_registry_state SET place = 'elsewhere', not_before = '-infinity';
    UPDATE snowflake_registry_state SET writer = xmin;
    INSERT INTO snowflake_registry_shards (shard, reserved_for) VALUES (7, 'old rows');
    EXECUTE call;
    SELECT format('%s locked, fenced: %s', count(*), (SELECT not_before > clock_timestamp() FROM snowflake_registry_state)) INTO done
      FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ExclusiveLock' AND relation::regclass::text ~ '^snowflake_registry_(state|holders|shards)$';
    RAISE EXCEPTION USING MESSAGE = done;    -- it is undone
EXCEPTION WHEN raise_exception THEN
    RETURN SQLERRM;
END
$$;
SET client_min_messages = error;
SELECT call, does('SELECT snowflake_registry_' || call)
  FROM unnest(ARRAY['lease(''b'', 0, 1, 0, ''host'', ''epoch=x'', 7, NULL, ''{}'', ''{}'', ''{}'', ''{}'', NULL, ''{}'', ''1 min'')', 'release(''b'', 0, 1, 0, ''host'', ''epoch=x'', 7, NULL, ''{}'', ''{}'')',
                    'open(''0'')', 'fence(''0'')', 'unfence(''1 day'')', 'limit(''1 day'', 1024)', 'reserve(6, ''old rows'', true)', 'unreserve(7)', 'revoke(3)']) AS call;
-- The row of a restored dump, beside the one of this registry, before it or behind it; or alone
CREATE FUNCTION enters(own jsonb, other jsonb, OUT before text, OUT behind text) LANGUAGE plpgsql AS $$
DECLARE
    is_before boolean;
    found text;
    was snowflake_registry_state := reg();
BEGIN
    FOREACH is_before IN ARRAY ARRAY[true, false] LOOP
        DELETE FROM snowflake_registry_state;
        IF is_before THEN
            INSERT INTO snowflake_registry_state SELECT (jsonb_populate_record(was, other)).*;
        END IF;
        INSERT INTO snowflake_registry_state SELECT (jsonb_populate_record(was, own)).* WHERE own IS NOT NULL;
        UPDATE snowflake_registry_state AS s SET writer = s.xmin, place = 'elsewhere' WHERE s.number = own ->> 'number';
        IF NOT is_before THEN
            INSERT INTO snowflake_registry_state SELECT (jsonb_populate_record(was, other)).*;
        END IF;
        PERFORM snowflake_registry_enter();
        SELECT string_agg(concat_ws(' ', s.number, s.is_open, s.layout, CASE WHEN s.not_before > clock_timestamp() THEN 'fenced' END, s.not_before::date, s.longest_lease, s.max_shards, s.first_unused, s.writer = s.xmin), ';')
          INTO found FROM snowflake_registry_state AS s;
        IF is_before THEN before := found; ELSE behind := found; END IF;
    END LOOP;
    PERFORM snowflake_registry_write(was);
END
$$;
SELECT n, e.*
  FROM (VALUES (1, '{"number": "own", "is_open": false, "layout": "epoch=own", "not_before": "3000-01-01", "longest_lease": "1 h", "max_shards": 1}',
                   '{"number": "other", "is_open": true, "layout": "epoch=other", "not_before": "3000-01-02", "longest_lease": "2 h", "max_shards": 2, "writer": null}'),
               (2, '{"number": "own", "is_open": true, "layout": "epoch=own", "not_before": "3000-01-02", "longest_lease": "2 h", "max_shards": 1}',
                   '{"number": "other", "is_open": true, "layout": "epoch=other", "not_before": "3000-01-01", "longest_lease": "1 h", "max_shards": 2, "writer": "3"}'),
               (3, '{"number": "own", "is_open": true, "layout": "epoch=own", "not_before": "3000-01-02", "longest_lease": "2 h", "max_shards": 1}',
                   '{"number": "other", "is_open": false, "layout": "epoch=other", "not_before": "3000-01-01", "longest_lease": "1 h", "max_shards": 2, "writer": null}'),
               (4, NULL, '{"number": "other", "is_open": true, "layout": "epoch=other", "not_before": "3000-01-01", "longest_lease": "1 h", "max_shards": 2, "writer": "3"}')) AS v (n, own, other),
       enters(own::jsonb, other::jsonb) AS e ORDER BY n;
-- in its place, a second row counts
BEGIN;
INSERT INTO snowflake_registry_state SELECT (reg('{"number": "other", "writer": null}')).*;
SELECT count(*) FROM snowflake_registry_enter();
SELECT count(*), min(not_before) > clock_timestamp() + interval '59 min' AS fenced FROM snowflake_registry_state;
ROLLBACK;
RESET client_min_messages;

-- Another layout: of either kind of change, and only without leases; the search for shards begins again
CREATE FUNCTION opens(layout text, last_shard int, lease_until timestamptz) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    outcome text;
BEGIN
    PERFORM snowflake_registry_write(reg('{"first_unused": 5, "not_before": "2020-01-01"}'));
    UPDATE snowflake_registry_shards SET lease_from = '2020-01-01', lease_until = opens.lease_until;
    PERFORM snowflake_registry_open('0', layout, last_shard);
    SELECT format('"%s", 0 to %s, from %s', s.layout, s.last_shard, s.first_unused) INTO outcome FROM snowflake_registry_state AS s;
    RAISE reading_sql_data_not_permitted;
EXCEPTION WHEN reading_sql_data_not_permitted THEN
    RETURN outcome;
WHEN object_in_use THEN
    RETURN SQLERRM;
END
$$;
SET client_min_messages = warning;
SELECT layout, last_shard, opens(layout, last_shard, 'infinity') AS with_leases, opens(layout, last_shard, '2020-01-02') AS without
  FROM (VALUES ('epoch=x', 7), ('epoch=y', 7), ('epoch=x', 6), ('epoch=y', 6), (NULL, NULL)) AS v (layout, last_shard);
SELECT snowflake_registry_open('0', 'epoch=x', 7) <= clock_timestamp() AS opened;
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'snowflake_registry_in_use'::regclass;

-- Limits, and whom they are told to concern
INSERT INTO snowflake_registry_holders SELECT h, session_user, 'host of ' || h, 1, lease, '2020-01-01' FROM (VALUES ('one', interval '1 h'), ('two', interval '1 h'), ('none', '2 days')) AS v (h, lease);
DELETE FROM snowflake_registry_shards;
INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until)
VALUES (0, 'one', '2020-01-01', '3000-01-01'), (1, 'two', '2020-01-01', '3000-01-01'), (2, 'two', '2020-01-01', '3000-01-01'), (3, 'none', '2020-01-01', '2020-01-02');
\set VERBOSITY default
SELECT snowflake_registry_limit('1 h', 2);
SELECT snowflake_registry_limit('1 h', 1);
SELECT snowflake_registry_limit('59 min', 2);
\set VERBOSITY terse
SELECT max_lease, fails(format('SELECT snowflake_registry_limit(%L, %s)', max_lease, max_shards)), max_shards
  FROM (VALUES ('1 day', 1024), ('1 day 1 us', 1024), ('1 us', 1), ('0', 1), ('1 us', 0)) AS v (max_lease, max_shards);
RESET client_min_messages;
SELECT snowflake_registry_limit('1 day', 1024);

-- Reserved: who is warned, and what is given back
SELECT snowflake_registry_reserve(5, 'old rows') IS NULL AS never;
SELECT snowflake_registry_reserve(3, 'old rows');
SELECT snowflake_registry_reserve(0, 'old rows', true);
SELECT snowflake_registry_fence('1 h') = snowflake_registry_reserve(6, 'old rows', true) AS fenced;
SELECT snowflake_registry_unreserve(0), snowflake_registry_unreserve(3), snowflake_registry_unreserve(6);
SELECT shard, CASE WHEN lease_until > '2020-01-02' AND lease_until <= clock_timestamp() THEN 'now' ELSE lease_until::text END AS lease_until, reserved_for FROM snowflake_registry_shards ORDER BY shard;

-- What the views count, and their types
SELECT regexp_replace(snowflake_registry_unfence('0')::text, '.*', 'a time');
SELECT shards, leased, reserved, free, holders FROM snowflake_registry_summary;
UPDATE snowflake_registry_shards SET reserved_for = 'old rows' WHERE shard = 0;
SELECT shards, leased, reserved, free, holders FROM snowflake_registry_summary;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'snowflake_registry_summary'::regclass AND attnum > 0 ORDER BY attnum;

-- What a call is told to be on disk for: no less than its session asks for, and only then
SET synchronous_commit = off;
SELECT state FROM snowflake_registry_lease('sync', 0, 1, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
SHOW synchronous_commit;
SHOW lock_timeout;
SET synchronous_commit = remote_apply;
BEGIN;
SELECT state FROM snowflake_registry_lease('sync', 1, 2, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
SHOW synchronous_commit;
ROLLBACK;
RESET synchronous_commit;
-- A table of another schema has nothing to do with it
CREATE SCHEMA regress_elsewhere;
CREATE TABLE regress_elsewhere.snowflake_registry_shards ();
ALTER TABLE regress_elsewhere.snowflake_registry_shards REPLICA IDENTITY NOTHING;
ALTER TABLE snowflake_registry_shards REPLICA IDENTITY FULL;
SELECT snowflake_registry_fence('0') IS NOT NULL AS called;
SELECT relnamespace::regnamespace, relreplident FROM pg_class WHERE relname = 'snowflake_registry_shards' ORDER BY 2;

SET client_min_messages = error;
DROP SCHEMA regress_elsewhere CASCADE;
DROP EXTENSION snowflake_registry CASCADE;
RESET client_min_messages;
DROP FUNCTION fails, refuses, finds, set_aside, proves, renews, leases, calls, own_rows, does, enters, opens;
DROP ROLE regress_snowflake_owner;
