--
-- The registry of leases, as its servers call it.  It needs nothing of the
-- library.
--
CREATE EXTENSION snowflake_registry;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- What a holder knows of its leases: what the registry has, or an earlier end.
CREATE FUNCTION times(shards int[], field text, no_later timestamptz DEFAULT NULL) RETURNS timestamptz[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(least((to_jsonb(s) ->> field)::timestamptz, no_later) ORDER BY n), '{}')
      FROM unnest(shards) WITH ORDINALITY AS h (shard, n) LEFT JOIN snowflake_registry_shards AS s USING (shard)
$$;
-- A call with these numbers, for leases of a minute.  It shows when they began,
-- compared with the lease before, and how long they last, to half a minute: a busy machine
-- may need some of it.
CREATE FUNCTION call(holder text, fence bigint, next bigint, held int[], wanted int[],
    auto int DEFAULT NULL, preferred int[] DEFAULT '{}', lease interval DEFAULT '1 min', until timestamptz DEFAULT NULL,
    confirmed bigint DEFAULT 0, registry text DEFAULT NULL)
RETURNS TABLE (state text, shard int, began text, lasts numeric, other text) LANGUAGE sql VOLATILE AS $$
    SELECT l.state, l.shard,
           CASE WHEN l.lease_from > clock_timestamp() THEN 'in the future'
                WHEN l.lease_from = before.lease_until THEN 'at the end of the one before'
                WHEN l.lease_from = before.lease_from THEN 'as before'
                WHEN l.lease_from = s.not_before THEN 'at the end of the fence'
                WHEN l.shard IS NOT NULL AND before.shard IS NULL THEN 'when the registry began' END,
           30 * ceil(extract(epoch FROM l.lease_until - clock_timestamp()) / 30),
           CASE l.state WHEN 'accepted' THEN CASE l.other WHEN s.number THEN 'its number' END
           ELSE regexp_replace(l.other, '\d{4}-\S+ \S+', 'TIME') END
      FROM (SELECT array_agg(b) AS rows FROM snowflake_registry_shards AS b) AS b,
           snowflake_registry_lease(holder, fence, next, confirmed, 'host of ' || holder, 'epoch=x', 7, registry,
                                    held, times(held, 'lease_from'), times(held, 'lease_until', until),
                                    wanted, auto, preferred, lease)
           WITH ORDINALITY AS l (state, shard, lease_from, lease_until, other, n)
      LEFT JOIN snowflake_registry_state AS s ON true
      LEFT JOIN unnest(b.rows) AS before ON before.shard = l.shard
     ORDER BY l.n
$$;
CREATE FUNCTION release(holder text, fence bigint, next bigint, shards int[], ends timestamptz[])
RETURNS SETOF text LANGUAGE sql VOLATILE AS $$
    SELECT state FROM snowflake_registry_release(holder, fence, next, 0, 'host of ' || holder, 'epoch=x', 7, NULL, shards, ends)
$$;
-- Let time pass.
CREATE PROCEDURE pass(seconds int) LANGUAGE sql AS $$
    UPDATE snowflake_registry_shards
       SET lease_from = lease_from - seconds * interval '1 s', lease_until = lease_until - seconds * interval '1 s';
    UPDATE snowflake_registry_state SET not_before = not_before - seconds * interval '1 s';
    UPDATE snowflake_registry_state SET writer = xmin;
$$;

-- A publication of all tables changes nothing; all that follows is published.
\set VERBOSITY terse
SET client_min_messages = error;
CREATE PUBLICATION everything FOR ALL TABLES;
RESET client_min_messages;
\set VERBOSITY default

-- It is born closed: a call changes nothing.
SELECT * FROM call('a', 0, 5, '{}', '{0}');
SELECT is_open, layout, free FROM snowflake_registry_summary;
BEGIN;
SELECT snowflake_registry_reserve(6, 'the importer');
ROLLBACK;
SELECT count(*) FROM snowflake_registry_holders;
-- What a server brings meanwhile counts when it is opened.
BEGIN;
SELECT state, other FROM call('a', 4, 5, '{}', '{0}', lease => '20 min', confirmed => 4);
SELECT 30 * ceil(extract(epoch FROM snowflake_registry_open('0') - clock_timestamp()) / 30);
ROLLBACK;
-- Opened on purpose.
SELECT snowflake_registry_open(NULL);
SELECT snowflake_registry_open('-1 s');
SELECT snowflake_registry_open('2 years');
SELECT snowflake_registry_open('0', 'epoch=x');
SELECT snowflake_registry_open('0', 'epoch=x', 1048576);
BEGIN;
SELECT 30 * ceil(extract(epoch FROM snowflake_registry_open('1 h', 'epoch=y', 7) - clock_timestamp()) / 30);
SELECT 30 * ceil(extract(epoch FROM snowflake_registry_open('0') - clock_timestamp()) / 30) AS still;
SELECT is_open, layout, shards, free FROM snowflake_registry_summary;
ROLLBACK;
SELECT snowflake_registry_open('0') <= clock_timestamp() AS opened;
-- and not dropped without a thought
DROP EXTENSION snowflake_registry;

-- A registry that was lost and made again is fenced before its first call: no
-- shard is leased, and the call makes the registry of its layout.
BEGIN;
SELECT snowflake_registry_fence('1 h') > clock_timestamp() + interval '59 min' AS fenced;
SELECT state, shard, lasts, other FROM call('a', 0, 5, '{}', '{0}');
SELECT layout, shards, free, not_before > clock_timestamp() + interval '59 min' AS fenced FROM snowflake_registry_summary;
CALL pass(3600);
SELECT state, shard, began FROM call('a', 5, 6, '{}', '{0}');
ROLLBACK;

-- auto: shards that nobody used
SELECT * FROM call('a', 0, 5, '{}', NULL, 2);
SELECT * FROM call('b', 0, 7, '{}', NULL, 1);
-- a list: what is free, and who has the rest
SELECT * FROM call('c', 0, 7, '{}', '{1,2,3,4}');
-- a renewal: a lease begins when it began
CALL pass(30);
SELECT * FROM call('a', 5, 6, '{0,1}', NULL, 2);
-- an old fence: there is a clone
SELECT * FROM call('a', 5, 9, '{0,1}', NULL, 2);
-- an answer that was lost: the same call again, and it is renewed
SELECT * FROM call('a', 6, 8, '{0,1}', NULL, 3);
SELECT * FROM call('a', 6, 8, '{0,1}', NULL, 3);
-- a shorter lease does not shorten the one in force
SELECT * FROM call('a', 8, 9, '{0,1,5}', NULL, 3, lease => '10 s');
-- and what its holder does not claim stays as it is
SELECT * FROM call('a', 9, 10, '{0,1}', NULL, 2);
SELECT shard, holder, host, time_left > '0' AS in_force, free FROM snowflake_registry_leases ORDER BY shard;

-- The end: never used shards first, then those longest unused, and liked ones
-- before them.
SELECT shard, host FROM snowflake_registry_in_use ORDER BY shard;
CALL pass(31);
SELECT shard, host FROM snowflake_registry_in_use ORDER BY shard;
SELECT shard, holder, free FROM snowflake_registry_leases ORDER BY shard;
SELECT * FROM call('d', 0, 1, '{}', NULL, 3);
SELECT * FROM call('e', 0, 1, '{}', NULL, 2, '{4}');
-- none is left
SELECT * FROM call('f', 0, 1, '{}', NULL, 8);

-- A release ends a lease when the last id was minted, not before it began, and
-- not after it would have ended.
CALL pass(61);
SELECT count(*) FROM call('g', 0, 1, '{}', '{0,1,2}') WHERE state = 'held';
SELECT release('g', 1, 2, '{0,1,2,3}', ARRAY['-infinity', clock_timestamp() - interval '1 ms', 'infinity', '-infinity']);
SELECT shard, lease_until = lease_from AS at_once, lease_until < clock_timestamp() AS ended, holder FROM snowflake_registry_shards
 WHERE shard < 4 ORDER BY shard;
SELECT release('g', 1, 3, '{2}', '{-infinity}');
SELECT release('unknown', 1, 3, '{2}', '{-infinity}');
SELECT state, shard, began FROM call('h', 0, 1, '{}', '{0,1,2}');
-- back in its place, a server gets its own again
SELECT state, shard, began FROM call('h', 1, 2, '{0,1}', '{0,1}');

-- Reserved for good, or until it is given back.
\set VERBOSITY terse
SELECT snowflake_registry_reserve(0, 'the importer');
SELECT snowflake_registry_reserve(6, 'the importer') <= clock_timestamp() AS ended;
\set VERBOSITY default
-- or when the lease ends, which is not renewed, though its server has a list
BEGIN;
SELECT state, shard FROM call('list', 0, 1, '{}', '{5}');
\set VERBOSITY terse
SELECT snowflake_registry_reserve(5, 'the importer', true) = lease_until AS ends FROM snowflake_registry_shards WHERE shard = 5;
SELECT * FROM call('list', 1, 2, '{5}', '{5}');
CALL pass(61);
SELECT * FROM call('list', 2, 3, '{5}', '{5}');
-- it has ids: none for old rows
SELECT state, other FROM call('list', 3, 4, '{}', '{}') WHERE state = 'set_aside';
SELECT snowflake_registry_unreserve(5);
SELECT snowflake_registry_reserve(5, 'the importer') = lease_until AS ended FROM snowflake_registry_shards WHERE shard = 5;
SELECT snowflake_registry_fence('1 h') = snowflake_registry_reserve(4, 'the importer', true) AS ends;
\set VERBOSITY default
ROLLBACK;
SELECT * FROM call('i', 0, 1, '{}', '{6}');
SELECT free, reserved_for FROM snowflake_registry_leases WHERE shard = 6;
SELECT shards, leased, reserved, free, holders FROM snowflake_registry_summary;
SELECT snowflake_registry_unreserve(6);
SELECT snowflake_registry_unreserve(6);
SELECT state, shard, began FROM call('i', 1, 2, '{}', '{6}');

-- A fence: what is in force goes on, and nothing else begins before its end.
SELECT 30 * ceil(extract(epoch FROM snowflake_registry_fence() - clock_timestamp()) / 30);
SELECT 30 * ceil(extract(epoch FROM snowflake_registry_fence('1 h') - clock_timestamp()) / 30);
SELECT snowflake_registry_fence('25 h');
SELECT snowflake_registry_fence('-1 s');
SELECT snowflake_registry_limit('2 days', 4);
-- one that ends too late is taken back; none is made by that
BEGIN;
UPDATE snowflake_registry_state SET not_before = '3000-01-01';
UPDATE snowflake_registry_state SET writer = xmin;
COMMIT;
\set VERBOSITY terse
SELECT snowflake_registry_unfence('2 days');
SELECT regexp_replace(snowflake_registry_unfence('1 h')::text, '.*', 'a time');
SELECT regexp_replace(snowflake_registry_unfence('2 h')::text, '.*', 'a time');
SELECT 30 * ceil(extract(epoch FROM not_before - clock_timestamp()) / 30) FROM snowflake_registry_summary;
\set VERBOSITY default
SELECT * FROM call('i', 2, 3, '{6}', '{5,6}');
-- a shard that nobody ever had
BEGIN;
DELETE FROM snowflake_registry_shards WHERE shard = 5;
SELECT * FROM call('i', 3, 4, '{6}', '{5}');
ROLLBACK;
SELECT * FROM call('j', 0, 3, '{}', NULL, 2);
SELECT free FROM snowflake_registry_summary;
CALL pass(3600);
SELECT state, shard, began FROM call('j', 3, 4, '{}', NULL, 2);

-- A registry that was moved is fenced by itself: as after a failover.
BEGIN;
UPDATE snowflake_registry_state SET place = '1/00000001/1/1';
UPDATE snowflake_registry_state SET writer = xmin;
COMMIT;
SELECT * FROM call('j', 4, 5, '{5}', NULL, 2);
SELECT * FROM call('k', 0, 5, '{}', NULL, 1);
SELECT place = snowflake_registry_place() AS known FROM snowflake_registry_state;
-- whoever calls first
CREATE FUNCTION fences(call text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    fenced boolean;
BEGIN
    UPDATE snowflake_registry_state SET place = '1/00000001/1/1', not_before = '-infinity';
    UPDATE snowflake_registry_state SET writer = xmin;
    EXECUTE call;
    SELECT not_before > clock_timestamp() INTO fenced FROM snowflake_registry_state;
    RAISE EXCEPTION USING MESSAGE = fenced;    -- it is undone
EXCEPTION WHEN raise_exception THEN
    RETURN SQLERRM::boolean;
END
$$;
SET client_min_messages = error;
SELECT call, fences(call)
  FROM unnest(ARRAY['CALL pass(0)', 'SELECT snowflake_registry_limit(''1 day'', 1024)', 'SELECT snowflake_registry_fence(''0'')',
                    'SELECT snowflake_registry_revoke(5)', 'SELECT snowflake_registry_reserve(7, ''the importer'', true)',
                    'SELECT snowflake_registry_open(''0'')']) AS call;
RESET client_min_messages;
DROP FUNCTION fences(text);
-- what it claims is over, by what it knows itself: the registry has an older lease
SELECT * FROM call('j', 5, 6, '{5}', '{5}', until => clock_timestamp() - interval '1 s');
-- a server that knows more than the registry goes on with what it claims
SELECT * FROM call('j', 50, 51, '{5,6}', NULL, 2);
-- and what it claims may have begun later than the lease that the registry has
SELECT l.lease_from = known.lease_from AS later
  FROM (SELECT clock_timestamp() AS lease_from) AS known,
       snowflake_registry_lease('j', 51, 52, 0, 'host of j', 'epoch=x', 7, NULL, '{5}', ARRAY[known.lease_from],
                                ARRAY[clock_timestamp() + interval '30 s'], '{5}', NULL, '{}', '1 min') AS l
 WHERE l.shard = 5;
-- a holder that nobody has seen for long is not forgotten, and has lost nothing
UPDATE snowflake_registry_holders SET seen_at = '2020-01-01' WHERE holder = 'f';
SELECT state FROM call('f', 1, 2, '{}', '{}', confirmed => 1);

-- A call proves that the registry has forgotten something: it is fenced, for the
-- longest lease known or presented.  What is below has an answer that was lost,
-- a release that was lost, a clone, a lease that is over, a lease that another
-- server has since, and a revoked lease: none of them proves anything.
CALL pass(86400);
CREATE FUNCTION claim(holder text, fence bigint, next bigint, confirmed bigint, shard int, lasts interval,
    registry text DEFAULT NULL)
RETURNS TABLE (state text, shard int, other text) LANGUAGE sql VOLATILE AS $$
    SELECT l.state, l.shard,
           regexp_replace(CASE WHEN l.state <> 'accepted' THEN l.other END, '\d{4}-\S+ \S+|[0-9a-f]{16}', 'X', 'g')
      FROM snowflake_registry_lease(holder, fence, next, confirmed, 'host of ' || holder, 'epoch=x', 7, registry,
                                    ARRAY[shard], ARRAY[clock_timestamp() - interval '1 min'], ARRAY[clock_timestamp() + lasts], '{}', NULL, '{}', '1 min') AS l
     WHERE l.state IN ('accepted', 'clone', 'lost')
$$;
CREATE FUNCTION fenced() RETURNS numeric LANGUAGE sql VOLATILE AS
    'SELECT greatest(30 * ceil(extract(epoch FROM not_before - clock_timestamp()) / 30), 0) FROM snowflake_registry_state';
BEGIN;
UPDATE snowflake_registry_state SET longest_lease = '1 min';
UPDATE snowflake_registry_state SET writer = xmin;
COMMIT;
SELECT state, shard FROM call('p', 0, 5, '{}', '{0,1}');
SELECT state, shard FROM call('p', 0, 5, '{}', '{0,1}', confirmed => 0);
SELECT state, shard FROM call('p', 5, 6, '{0,1}', '{0,1}', confirmed => 5, registry => (SELECT number FROM snowflake_registry_state));
SELECT state FROM call('p', 6, 7, '{0,1}', '{0,1}', confirmed => 6, until => clock_timestamp() + interval '30 s');
SELECT state, other FROM call('p', 6, 99, '{0,1}', '{0,1}', confirmed => 6);
SELECT state, other FROM claim('p', 6, 99, 6, 5, '1 min');
SELECT state FROM call('q', 7, 8, '{}', '{}');
SELECT release('p', 7, 8, '{1}', '{-infinity}');
SELECT state FROM call('q', 8, 9, '{}', '{1}');
SELECT release('p', 7, 8, '{1}', '{-infinity}');
SELECT state FROM call('p', 8, 9, '{0,1}', '{0}', confirmed => 8, until => clock_timestamp() - interval '1 s');
SELECT snowflake_registry_revoke(0) > clock_timestamp() + interval '30 s' AS then_it_ends;
SELECT * FROM call('p', 9, 10, '{0}', '{0}', confirmed => 9);
SELECT * FROM call('p', 10, 11, '{0}', NULL, 1, confirmed => 10);
SELECT shard, host, revoked FROM snowflake_registry_leases WHERE shard = 0;
SELECT fenced();
-- the holder, a call, another registry
BEGIN; SELECT * FROM call('r', 7, 8, '{}', '{}', confirmed => 7); SELECT fenced(); ROLLBACK;
BEGIN; SELECT * FROM claim('p', 99, 100, 98, 5, '-1 s'); SELECT fenced(); ROLLBACK;
BEGIN; SELECT * FROM claim('r', 0, 1, 0, 6, '1 s', '0123456789abcdef'); SELECT fenced(); ROLLBACK;
-- a server that comes from another registry, with leases that are over, or none: made from an image
BEGIN; SELECT * FROM claim('r', 0, 1, 0, 5, '-1 s', '0123456789abcdef'); SELECT fenced(); ROLLBACK;
BEGIN; SELECT state, shard FROM call('r', 0, 1, '{}', NULL, 1, registry => '0123456789abcdef'); SELECT fenced(); ROLLBACK;
-- also a release
BEGIN;
SELECT state, shard, CASE state WHEN 'lost' THEN other END AS lost FROM snowflake_registry_release('r', 7, 8, 7, 'host of r', 'epoch=x', 7, NULL, '{}', '{}');
SELECT fenced();
ROLLBACK;
-- a lease: that it never gave, that it gave until an earlier time, that another server has
BEGIN; SELECT * FROM claim('p', 11, 12, 11, 6, '10 min'); SELECT fenced(); ROLLBACK;
BEGIN; SELECT * FROM claim('p', 11, 12, 11, 0, '20 min'); SELECT fenced(); ROLLBACK;
BEGIN; SELECT * FROM claim('p', 11, 12, 11, 1, '30 s'); SELECT fenced(); ROLLBACK;
-- and that one keeps it
BEGIN; SELECT state, shard FROM call('p', 11, 12, '{1}', '{1}', confirmed => 11); ROLLBACK;
-- no claim fences it for longer than a lease can be
BEGIN; SELECT * FROM claim('p', 11, 12, 11, 6, '1000 years'); SELECT fenced(); ROLLBACK;
-- no shard is leased then, nor reserved
BEGIN;
SELECT count(*) FROM claim('p', 11, 12, 11, 6, '10 min');
SELECT state, shard FROM call('q', 9, 10, '{}', '{6}');
\set VERBOSITY terse
SELECT snowflake_registry_reserve(6, 'the importer');
\set VERBOSITY default
ROLLBACK;

-- What it takes, and how much of it.
SELECT snowflake_registry_revoke(6);
SELECT snowflake_registry_reserve(8, 'the importer');
SELECT snowflake_registry_limit('0', 4);
SELECT snowflake_registry_limit('2 min', 2);
SELECT max_lease, max_shards FROM snowflake_registry_summary;
SELECT state FROM call('none', 0, 1, '{}', '{}', lease => '3 min');
SELECT state FROM call('none', 0, 1, '{}', '{2,3,4}');
SELECT state FROM call('none', 0, 1, '{}', NULL, 3);
-- one that has more keeps it, and the length of its leases, and gets no more
BEGIN;
SELECT snowflake_registry_limit('1 h', 5);
SELECT state, shard, lasts FROM call('big', 0, 1, '{}', '{2,4,5}', lease => '20 min');
SELECT snowflake_registry_limit('10 min', 2);
SELECT state, shard, lasts, other FROM call('big', 1, 2, '{2,4,5}', '{2,4,5}', lease => '20 min');
SELECT state, shard, lasts, other FROM call('big', 2, 3, '{2,4,5}', '{2,4,5,6}', lease => '20 min');
SELECT state, shard, lasts, other FROM call('big', 3, 4, '{2,4,5}', NULL, 5, lease => '30 min');
SELECT longest_lease FROM snowflake_registry_state;
-- nor does it in a fence, and learns when it may have more
UPDATE snowflake_registry_state SET not_before = clock_timestamp() + interval '1 min';
UPDATE snowflake_registry_state SET writer = xmin;
SELECT state, shard, lasts, other FROM call('big', 4, 5, '{2,4,5}', '{2,4,6}', lease => '20 min');
SELECT release('big', 5, 6, '{2,4,5}', '{-infinity,-infinity,-infinity}');
SELECT state, shard, lasts, other FROM call('big', 6, 7, '{}', '{2,4,5}', lease => '20 min');
ROLLBACK;
-- it has 0, which was revoked, and 3, which it does not claim
SELECT state, shard, lasts > 0 AS later FROM call('p', 11, 12, '{}', '{2,4}');
SELECT state, shard, lasts > 0 AS later FROM call('p', 12, 13, '{}', NULL, 2);
SELECT snowflake_registry_limit('1 day', 1024);
SELECT state FROM call('p', 13, 14, '{}', '{8}');
SELECT state FROM call('p', 13, 14, '{}', '{0}', lease => '0');
SELECT state FROM call('p', 13, 14, '{}', '{0}', lease => NULL);
SELECT state FROM call(NULL, 13, 14, '{}', '{0}');
SELECT state, shard FROM call('p', 13, 14, '{}', '{6}');
SELECT snowflake_registry_open('0', 'epoch=z', 15);

-- The longest lease is noted, and forgotten only when it is over: a fence lasts for it.
BEGIN;
CALL pass(86400);
UPDATE snowflake_registry_state SET longest_lease = '1 min', not_before = '-infinity', is_open = true;
UPDATE snowflake_registry_state SET writer = xmin;
SELECT state, shard, lasts FROM call('long', 0, 1, '{}', '{1}', lease => '2 h');
SELECT longest_lease FROM snowflake_registry_state;
SELECT snowflake_registry_open('1 min') IS NOT NULL AS opened;
SELECT longest_lease FROM snowflake_registry_state;
SELECT snowflake_registry_limit('10 min', 1024);
SELECT longest_lease > '119 min' AS still FROM snowflake_registry_state;
SELECT snowflake_registry_fence() > clock_timestamp() + interval '119 min' AS as_long;
-- no claim makes a lease longer than it can be
SELECT l.state, l.lease_until <= clock_timestamp() + interval '2 h' AS not_longer
  FROM snowflake_registry_lease('long', 1, 2, 0, 'host', 'epoch=x', 7, NULL, '{1}', '{2020-01-01}', '{9999-01-01}', '{1}', NULL, '{}', '2 h') AS l
 WHERE l.shard = 1 AND l.state = 'held';
ROLLBACK;
-- A revoked lease is over for its holder; the next holder renews its own.
BEGIN;
CALL pass(86400);
SELECT state, shard FROM call('one', 0, 1, '{}', '{2}');
SELECT snowflake_registry_revoke(2) IS NOT NULL AS revoked;
CALL pass(61);
SELECT state, shard FROM call('next', 0, 1, '{}', '{2}');
CALL pass(31);
SELECT state, shard, lasts FROM call('next', 1, 2, '{2}', '{2}');
-- in a smaller layout, "auto" takes no shard of the larger one, whatever the server likes
CALL pass(86400);
SELECT snowflake_registry_open('0', 'epoch=z', 3) IS NOT NULL AS opened;
SELECT state, shard FROM snowflake_registry_lease('small', 0, 1, 0, 'host', 'epoch=z', 3, NULL, '{}', '{}', '{}', NULL, 6, '{5}', '1 min');
ROLLBACK;

-- A lease is in force a microsecond before its end, and over at its end, in each rule.
BEGIN;
CALL pass(86400);
SELECT state, shard FROM call('exact', 0, 1, '{}', '{3}');
CREATE FUNCTION caller(holder text) RETURNS snowflake_registry_caller LANGUAGE sql AS $$ SELECT holder, 1, 2, 0, 'host', 'epoch=x', 7, NULL $$;
CREATE VIEW at_end AS
    SELECT us, s.lease_until + us * interval '1 us' AS now, interval '0' AS none, s.lease_from, s.lease_until, r, h
      FROM snowflake_registry_shards AS s JOIN snowflake_registry_holders AS h USING (holder), snowflake_registry_state AS r, unnest(ARRAY[-1, 0]) AS us
     WHERE s.shard = 3;
SELECT us, snowflake_registry_find(r, now, 1, '{3}') = '{3}' AS liked, 3 = ANY (snowflake_registry_find(r, now, 8, '{}')) AS unused,
       snowflake_registry_renew(caller('exact'), now, none, none, false, '{3}', ARRAY[lease_from], '{infinity}', NULL) AS renewed,
       snowflake_registry_renew(caller('exact'), now, none, none, true, '{}', '{}', '{}', NULL) AS again
  FROM at_end;
SELECT us, snowflake_registry_renew(caller('exact'), now - interval '1 s', none, none, false, '{3}', ARRAY[lease_from],
                                    ARRAY[lease_until - interval '1 s'], NULL) AS claimed,
       (snowflake_registry_losses(r, h, 0, NULL, '{3}', ARRAY[now], '{infinity}')).what ~ 'know' AS is_another,
       (SELECT count(*) FROM snowflake_registry_losses(r, h, 0, NULL, '{3}', ARRAY[lease_from], ARRAY[now + interval '1 us'])) AS lost
  FROM at_end;
SELECT us, l.state, l.other, l.lease_until = at_end.lease_until AS until
  FROM at_end, snowflake_registry_lacks(r, caller('other'), now, NULL, '{3}', '{}', '{}') AS l;
UPDATE snowflake_registry_shards SET lease_from = lease_until, is_revoked = true WHERE shard = 3;
SELECT us, l.state, l.other ~ 'revoked' AS because, l.lease_until IS NULL AS unknown
  FROM at_end, snowflake_registry_lacks(r, caller('other'), now, NULL, '{3}', '{}', '{}') AS l;
SELECT us, (SELECT count(*) FROM snowflake_registry_losses(r, jsonb_populate_record(h, '{"holder": "other"}'), 0, NULL, '{3}', ARRAY[lease_from - interval '1 h'],
                                                           ARRAY[now + interval '1 us'])) AS lost_to_exact
  FROM at_end;
SELECT us, l.free, l.full_until = lease_until AS until
  FROM at_end, snowflake_registry_lease_free(jsonb_populate_record(r, '{"max_shards": 1}'), caller('exact'), now, none, false, '{4}', 0, '{}') AS l;
SELECT us, l.free AS after_fence
  FROM at_end, snowflake_registry_lease_free(jsonb_populate_record(r, jsonb_build_object('not_before', lease_until)), caller('other'), now, none, false, '{5}', 0, '{}') AS l;
SELECT us, l.* FROM at_end, snowflake_registry_lease_free(r, caller('other'), now, none, false, '{3}', 0, '{}') AS l;
ROLLBACK;

-- A holder that is not known leaves no place of a message empty.
BEGIN;
CALL pass(86400);
SELECT count(*) FROM call('gone', 0, 1, '{}', '{1}');
DELETE FROM snowflake_registry_holders WHERE holder = 'gone';
SELECT state, shard, other FROM call('asks', 0, 1, '{}', '{1}');
SELECT * FROM claim('asks', 1, 2, 1, 1, '30 s');
ROLLBACK;

-- One layout, and one isolation level.
SELECT * FROM snowflake_registry_lease('z', 0, 1, 0, 'z', 'epoch=y', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
\echo :SQLSTATE
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM call('z', 0, 1, '{}', '{}');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT state FROM call('z', 0, 1, '{}', '{}');
SHOW synchronous_commit;
ROLLBACK;

-- A role that leases, and does nothing else.
CREATE ROLE regress_snowflake_server;
SET ROLE regress_snowflake_server;
SELECT * FROM snowflake_registry_lease('z', 0, 1, 0, 'z', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
RESET ROLE;
SELECT snowflake_registry_grant('regress_snowflake_server');
SET ROLE regress_snowflake_server;
SELECT state FROM snowflake_registry_lease('z', 0, 1, 0, 'z', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
SELECT state FROM snowflake_registry_release('z', 1, 2, 0, 'z', 'epoch=x', 7, NULL, '{}', '{}');
SELECT snowflake_registry_fence();
SELECT snowflake_registry_open('0');
SELECT snowflake_registry_reserve(1, 'me');
SELECT snowflake_registry_revoke(1);
SELECT * FROM snowflake_registry_leases;
DELETE FROM snowflake_registry_shards;
RESET ROLE;
-- A holder belongs to its role: another one cannot call in its name, nor read its number.
SET SESSION AUTHORIZATION regress_snowflake_server;
SELECT state FROM snowflake_registry_lease('y', 0, 1, 0, 'y', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{4}', NULL, '{}', '1 min');
SELECT shard, other FROM snowflake_registry_lease('y', 1, 2, 0, 'y', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{6}', NULL, '{}', '1 min') WHERE state = 'taken';
\set VERBOSITY terse
SELECT state FROM snowflake_registry_lease('p', 20, 21, 0, 'y', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{6}', NULL, '{}', '1 min');
SELECT state FROM snowflake_registry_release('p', 20, 21, 0, 'y', 'epoch=x', 7, NULL, '{6}', '{-infinity}');
\set VERBOSITY default
RESET SESSION AUTHORIZATION;
SELECT shard, host FROM snowflake_registry_leases WHERE shard IN (4, 6) ORDER BY 1;
-- nor does anybody else
SELECT proname AS function, prosecdef, 'search_path=pg_catalog, pg_temp' = ANY (proconfig) AS safe,
       has_function_privilege('public', p.oid, 'EXECUTE') AS public
  FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
 WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_registry') ORDER BY 1;
SELECT has_type_privilege('public', 'snowflake_registry_caller', 'USAGE') AS public;
-- each object says what it is for
SELECT pg_describe_object(classid, objid, objsubid) AS lacks_comment FROM pg_depend AS d
 WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_registry') AND deptype = 'e'
   AND classid IN ('pg_proc'::regclass, 'pg_class'::regclass) AND obj_description(objid, classid::regclass::name) IS NULL;
SELECT attrelid::regclass, attname FROM pg_attribute JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = attrelid AND d.deptype = 'e'
 WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_registry') AND attnum > 0
   AND col_description(attrelid, attnum) IS NULL;

-- Nor does a table stop the calls that has no replica identity.
SELECT c.relname, c.relreplident FROM pg_class AS c WHERE c.relname ~ '^snowflake_registry_(state|holders|shards)$' ORDER BY 1;
ALTER TABLE snowflake_registry_state REPLICA IDENTITY NOTHING;
ALTER TABLE snowflake_registry_holders REPLICA IDENTITY NOTHING;
ALTER TABLE snowflake_registry_shards REPLICA IDENTITY NOTHING;
SET SESSION AUTHORIZATION regress_snowflake_server;
SELECT state, shard FROM snowflake_registry_lease('y', 2, 3, 0, 'y', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{5}', NULL, '{}', '1 min');
SELECT state FROM snowflake_registry_release('y', 3, 4, 0, 'y', 'epoch=x', 7, NULL, '{5}', '{infinity}');
RESET SESSION AUTHORIZATION;
SELECT snowflake_registry_limit('1 day', 1024);
SELECT c.relname, c.relreplident FROM pg_class AS c WHERE c.relname ~ '^snowflake_registry_(state|holders|shards)$' ORDER BY 1;
ALTER TABLE snowflake_registry_shards REPLICA IDENTITY FULL;
SELECT snowflake_registry_revoke(5) > now() AS revoked;
SELECT c.relname, c.relreplident FROM pg_class AS c WHERE c.relname = 'snowflake_registry_shards';

-- A managed server withholds functions, each in its own way.  Calls do without them.
CREATE FUNCTION without(withheld regprocedure, reason text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    other text := pg_get_functiondef(withheld);
    place text;
BEGIN
    EXECUTE format('ALTER FUNCTION %s RENAME TO withheld', withheld);
    EXECUTE regexp_replace(other, 'LANGUAGE internal(.*)AS \$function\$.*$',
                           format('LANGUAGE plpgsql\1AS $x$ BEGIN RAISE %s; END $x$', reason));
    ALTER FUNCTION snowflake_registry_place() COST 5;       -- which has it planned again
    ALTER FUNCTION snowflake_registry_traces() COST 5;
    ALTER FUNCTION snowflake_registry_leave_file() COST 5;
    place := snowflake_registry_place();
    PERFORM snowflake_registry_traces(), snowflake_registry_leave_file();
    RAISE reading_sql_data_not_permitted;   -- it is not withheld for long
EXCEPTION WHEN reading_sql_data_not_permitted THEN
    RETURN regexp_replace(place, '[0-9A-F]+', 'N', 'g');
END $$;
SELECT withheld, string_agg(DISTINCT without(withheld, reason), ', ') AS place
  FROM unnest(ARRAY['pg_control_system()', 'pg_walfile_name(pg_lsn)', 'pg_stat_file(text)', 'pg_stat_file(text, boolean)',
                    'pg_read_file(text, bigint, bigint, boolean)', 'pg_relation_filepath(regclass)']::regprocedure[]) AS withheld,
       unnest(ARRAY['insufficient_privilege', 'feature_not_supported', 'undefined_function']) AS reason
 GROUP BY withheld ORDER BY withheld::text;
DROP FUNCTION without(regprocedure, text);

DROP PUBLICATION everything;
REVOKE ALL ON SCHEMA public FROM regress_snowflake_server;
DROP EXTENSION snowflake_registry CASCADE;
DROP OWNED BY regress_snowflake_server;
DROP ROLE regress_snowflake_server;
