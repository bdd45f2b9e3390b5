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
    SELECT array_agg(least((to_jsonb(s) ->> field)::timestamptz, no_later) ORDER BY n)
      FROM unnest(shards) WITH ORDINALITY AS h (shard, n) LEFT JOIN snowflake_registry_shards AS s USING (shard)
$$;
-- A call with these numbers, for leases of a minute.  It shows when they began,
-- compared with the lease before, and how long they last, to ten seconds.
CREATE FUNCTION call(holder text, fence bigint, next bigint, held int[], wanted int[],
    auto int DEFAULT NULL, preferred int[] DEFAULT '{}', lease interval DEFAULT '1 min', until timestamptz DEFAULT NULL)
RETURNS TABLE (state text, shard int, began text, lasts numeric, other text) LANGUAGE sql VOLATILE AS $$
    SELECT l.state, l.shard,
           CASE WHEN l.lease_from > clock_timestamp() THEN 'in the future'
                WHEN l.lease_from = before.lease_until THEN 'at the end of the one before'
                WHEN l.lease_from = before.lease_from THEN 'as before'
                WHEN l.lease_from = s.not_before THEN 'at the end of the fence'
                WHEN l.shard IS NOT NULL AND before.shard IS NULL THEN 'when the registry began' END,
           round(extract(epoch FROM l.lease_until - clock_timestamp()), -1), l.other
      FROM (SELECT array_agg(b) AS rows FROM snowflake_registry_shards AS b) AS b,
           snowflake_registry_lease(holder, fence, next, 'host of ' || holder, 'epoch=x', 7,
                                    held, times(held, 'lease_from'), times(held, 'lease_until', until),
                                    wanted, auto, preferred, lease)
           WITH ORDINALITY AS l (state, shard, lease_from, lease_until, other, n)
      LEFT JOIN snowflake_registry_state AS s ON true
      LEFT JOIN unnest(b.rows) AS before ON before.shard = l.shard
     ORDER BY l.n
$$;
CREATE FUNCTION release(holder text, fence bigint, next bigint, shards int[], ends timestamptz[])
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT snowflake_registry_release(holder, fence, next, 'host of ' || holder, 'epoch=x', 7, shards, ends)
$$;
-- Let time pass.
CREATE PROCEDURE pass(seconds int) LANGUAGE sql AS $$
    UPDATE snowflake_registry_shards
       SET lease_from = lease_from - seconds * interval '1 s', lease_until = lease_until - seconds * interval '1 s';
    UPDATE snowflake_registry_state SET not_before = not_before - seconds * interval '1 s';
$$;

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
CALL pass(31);
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
\set VERBOSITY default
SELECT snowflake_registry_reserve(6, 'the importer');
SELECT * FROM call('i', 0, 1, '{}', '{6}');
SELECT free, reserved_for FROM snowflake_registry_leases WHERE shard = 6;
SELECT shards, leased, reserved, free, holders FROM snowflake_registry_summary;
SELECT snowflake_registry_unreserve(6);
SELECT snowflake_registry_unreserve(6);
SELECT state, shard, began FROM call('i', 1, 2, '{}', '{6}');

-- A fence: what is in force goes on, and nothing else begins before its end.
SELECT round(extract(epoch FROM snowflake_registry_fence() - clock_timestamp()), -1);
SELECT round(extract(epoch FROM snowflake_registry_fence('1 h') - clock_timestamp()), -1);
SELECT * FROM call('i', 2, 3, '{6}', '{5,6}');
SELECT * FROM call('j', 0, 3, '{}', NULL, 2);
SELECT free FROM snowflake_registry_summary;
CALL pass(3600);
SELECT state, shard, began FROM call('j', 3, 4, '{}', NULL, 2);

-- A registry that was moved is fenced by itself: as after a failover.
UPDATE snowflake_registry_state SET place = '1/00000001/1';
SELECT * FROM call('j', 4, 5, '{5}', NULL, 2);
SELECT * FROM call('k', 0, 5, '{}', NULL, 1);
SELECT place = snowflake_registry_place() AS known FROM snowflake_registry_state;
-- what it claims is over, by what it knows itself: the registry has an older lease
SELECT * FROM call('j', 5, 6, '{5}', '{5}', until => clock_timestamp() - interval '1 s');
-- a server that knows more than the registry goes on with what it claims
SELECT * FROM call('j', 50, 51, '{5,6}', NULL, 2);
-- and what it claims may have begun later than the lease that the registry has
SELECT l.lease_from = known.lease_from AS later
  FROM (SELECT clock_timestamp() AS lease_from) AS known,
       snowflake_registry_lease('j', 51, 52, 'host of j', 'epoch=x', 7, '{5}', ARRAY[known.lease_from],
                                ARRAY[clock_timestamp() + interval '1 s'], '{5}', NULL, '{}', '1 min') AS l
 WHERE l.shard = 5;
-- a holder that nobody has seen for long, and that left no trace, is forgotten
UPDATE snowflake_registry_holders SET seen_at = '2020-01-01' WHERE holder IN ('f', 'j');
SELECT state FROM call('l', 0, 1, '{}', '{}');
SELECT holder FROM snowflake_registry_holders WHERE holder IN ('f', 'j');

-- One layout, and one isolation level.
SELECT * FROM snowflake_registry_lease('z', 0, 1, 'z', 'epoch=y', 7, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
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
SELECT * FROM snowflake_registry_lease('z', 0, 1, 'z', 'epoch=x', 7, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
RESET ROLE;
SELECT snowflake_registry_grant('regress_snowflake_server');
SET ROLE regress_snowflake_server;
SELECT state FROM snowflake_registry_lease('z', 0, 1, 'z', 'epoch=x', 7, '{}', '{}', '{}', '{}', NULL, '{}', '1 min');
SELECT snowflake_registry_release('z', 1, 2, 'z', 'epoch=x', 7, '{}', '{}');
SELECT snowflake_registry_fence();
SELECT snowflake_registry_reserve(1, 'me');
SELECT * FROM snowflake_registry_leases;
DELETE FROM snowflake_registry_shards;
RESET ROLE;
-- nor does anybody else
SELECT p.oid::regprocedure AS function, prosecdef, proconfig::text ~ 'pg_catalog, \w+, pg_temp|pg_catalog, pg_temp' AS safe,
       has_function_privilege('public', p.oid, 'EXECUTE') AS public
  FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
 WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_registry') ORDER BY 1;
-- each object says what it is for
SELECT pg_describe_object(classid, objid, objsubid) AS lacks_comment FROM pg_depend AS d
 WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_registry') AND deptype = 'e'
   AND classid IN ('pg_proc'::regclass, 'pg_class'::regclass) AND obj_description(objid, classid::regclass::name) IS NULL;
SELECT attrelid::regclass, attname FROM pg_attribute JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = attrelid AND d.deptype = 'e'
 WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_registry') AND attnum > 0
   AND col_description(attrelid, attnum) IS NULL AND attname <> 'only_row';

REVOKE ALL ON SCHEMA public FROM regress_snowflake_server;
DROP EXTENSION snowflake_registry CASCADE;
DROP OWNED BY regress_snowflake_server;
DROP ROLE regress_snowflake_server;
