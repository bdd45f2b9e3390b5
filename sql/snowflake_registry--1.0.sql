/* snowflake_registry--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_registry" to load this file. \quit

-- The registry: which server may mint snowflake ids on which shard, and in which
-- time.  It needs nothing of the library, so that it can stand on any server.
--
-- A lease is (shard, holder, lease_from, lease_until): ids of that shard whose
-- time lies in [lease_from, lease_until) are the holder's alone.  These rules
-- make it so:
--
--	* A lease in force, lease_until > now, belongs to its holder.  Only its
--	  holder can move lease_until, and only upwards; a release lowers it to the
--	  end of the last id minted, never below lease_from.
--	* A shard whose lease_until has passed is free.  The next lease begins at
--	  the old lease_until, or later.  No lease begins before not_before, the
--	  time at which the registry was made or was fenced last.
--	* "now" is this server's clock, read under the lock on the one row of
--	  snowflake_registry_state.  All calls take that lock, one after the other.
--
-- A fence is a number that each call of a holder swaps for a greater one.  Two
-- servers that believe to be the same holder find out by it: the second to
-- call presents a number that is old.
--
-- What the registry committed and lost, by a restore or by a failover to a
-- standby that lagged, is made good by the fence in time: see
-- snowflake_registry_fence().

CREATE TABLE snowflake_registry_state (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    layout     text,
    last_shard int CHECK (last_shard >= 0),
    place      text NOT NULL,
    not_before timestamptz NOT NULL
);

CREATE TABLE snowflake_registry_holders (
    holder  text PRIMARY KEY,
    host    text NOT NULL,
    fence   bigint NOT NULL,
    lease   interval NOT NULL,
    seen_at timestamptz NOT NULL
);

CREATE TABLE snowflake_registry_shards (
    shard        int PRIMARY KEY CHECK (shard >= 0),
    holder       text,
    lease_from   timestamptz,
    lease_until  timestamptz,
    reserved_for text,
    CHECK ((holder IS NULL) = (lease_from IS NULL)),
    CHECK (lease_until >= lease_from)
);

SELECT pg_extension_config_dump('snowflake_registry_state', '');
SELECT pg_extension_config_dump('snowflake_registry_holders', '');
SELECT pg_extension_config_dump('snowflake_registry_shards', '');

COMMENT ON TABLE snowflake_registry_state IS 'the layout of all ids, and the time before which no new lease begins';
COMMENT ON COLUMN snowflake_registry_state.layout IS 'the layout of the servers that lease here; none before the first of them called';
COMMENT ON COLUMN snowflake_registry_state.last_shard IS 'the shards of the layout are 0 to this one';
COMMENT ON COLUMN snowflake_registry_state.place IS 'where the registry is: another place fences it';
COMMENT ON COLUMN snowflake_registry_state.not_before IS 'no new lease begins before this time';
COMMENT ON TABLE snowflake_registry_holders IS 'the servers that lease shards';
COMMENT ON COLUMN snowflake_registry_holders.holder IS 'a random number, which a server keeps as long as it goes on in the same place';
COMMENT ON COLUMN snowflake_registry_holders.host IS 'the server, for people';
COMMENT ON COLUMN snowflake_registry_holders.fence IS 'a number that each call of the holder swaps for a greater one';
COMMENT ON COLUMN snowflake_registry_holders.lease IS 'the length of the leases that it asked for last';
COMMENT ON COLUMN snowflake_registry_holders.seen_at IS 'when it called last';
COMMENT ON TABLE snowflake_registry_shards IS 'the last lease of each shard';
COMMENT ON COLUMN snowflake_registry_shards.shard IS 'the shard';
COMMENT ON COLUMN snowflake_registry_shards.holder IS 'who has the lease, or had it';
COMMENT ON COLUMN snowflake_registry_shards.lease_from IS 'the holder mints ids from this time on';
COMMENT ON COLUMN snowflake_registry_shards.lease_until IS 'and before this one; then the shard is free';
COMMENT ON COLUMN snowflake_registry_shards.reserved_for IS 'never leased, for this reason';

-- Where the registry is: the server, its timeline, and the database.  Each
-- failover and each recovery of a backup begins a new timeline, and a restored
-- dump is in another database.  A managed server may withhold this.
CREATE FUNCTION snowflake_registry_place() RETURNS text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system())
        || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        || '/' || (SELECT oid FROM pg_database WHERE datname = current_database());
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
        RETURN 'unknown';
END
$$;
COMMENT ON FUNCTION snowflake_registry_place() IS 'where the registry is: the server, its timeline, and the database';

-- No new lease begins before the end of all leases that the registry may have
-- forgotten.  Leases that it remembers, and that are in force, can be renewed:
-- nobody else can have got one of these shards, since that takes its end.  (A
-- lease that was released early is the exception: its holder does not claim it.)
CREATE FUNCTION snowflake_registry_fence(longest_lease interval DEFAULT NULL) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    fenced_until timestamptz;
BEGIN
    -- a registry may have forgotten all
    INSERT INTO snowflake_registry_state (place, not_before)
    VALUES (snowflake_registry_place(), '-infinity')
    ON CONFLICT DO NOTHING;
    PERFORM FROM snowflake_registry_state FOR UPDATE;
    UPDATE snowflake_registry_state
       SET place = snowflake_registry_place(),
           not_before = greatest(not_before, clock_timestamp()
               + coalesce($1, (SELECT max(lease) FROM snowflake_registry_holders WHERE lease > '0'), '10 min'))
     RETURNING not_before INTO fenced_until;
    RAISE LOG USING MESSAGE = format('the snowflake registry is fenced: no new lease begins before %s', fenced_until);
    RETURN fenced_until;
END
$$;
COMMENT ON FUNCTION snowflake_registry_fence(interval) IS 'let no new lease begin before the end of all that the registry may have forgotten';

-- What each call does first: it waits for its turn, makes the registry's row at
-- the first call, and fences a registry that was moved.  Gives not_before.
CREATE FUNCTION snowflake_registry_enter(layout text, last_shard int) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    state snowflake_registry_state;
BEGIN
    -- each statement has to see what the call before it committed
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE invalid_transaction_state USING
            MESSAGE = 'the snowflake registry must be called with isolation level "read committed"',
            DETAIL = format('The isolation level is "%s".', current_setting('transaction_isolation'));
    END IF;
    -- what a server is told has to survive a crash of this one
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    INSERT INTO snowflake_registry_state (layout, last_shard, place, not_before)
    VALUES ($1, $2, snowflake_registry_place(), clock_timestamp())
    ON CONFLICT DO NOTHING;
    SELECT * INTO state FROM snowflake_registry_state FOR UPDATE;
    UPDATE snowflake_registry_state SET layout = $1, last_shard = $2 WHERE layout IS NULL;
    IF state.layout <> $1 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'the snowflake registry is of another layout',
            DETAIL = format('The registry''s layout is "%s", and the server''s is "%s".', state.layout, $1),
            HINT = 'Make a registry for each layout, in a database of its own.';
    END IF;
    IF state.place <> snowflake_registry_place() THEN
        RETURN snowflake_registry_fence();
    END IF;
    RETURN state.not_before;
END
$$;
COMMENT ON FUNCTION snowflake_registry_enter(text, int) IS 'wait for the registry''s lock, and check the layout';

-- Swap the fence.  Is the caller the holder?  It is not if another call of the
-- same holder came between.  "next" may be in force already: then the answer to
-- an earlier call with the same numbers was lost, and this is that call again.
-- A fence that is less than the caller's is one of before a failover, or of
-- before a call that got lost: that one is refused, should it come yet.
CREATE FUNCTION snowflake_registry_swap(holder text, fence bigint, next bigint, host text, lease interval) RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO snowflake_registry_holders AS h (holder, host, fence, lease, seen_at)
    VALUES ($1, $4, $3, coalesce($5, '0'), clock_timestamp())
    ON CONFLICT (holder) DO UPDATE
       SET fence = excluded.fence, host = excluded.host, seen_at = excluded.seen_at,
           lease = coalesce($5, h.lease)
     WHERE h.fence <= $2 OR h.fence = $3;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION snowflake_registry_swap(text, bigint, bigint, text, interval) IS 'swap a holder''s fence, unless somebody else did';

-- The one call of a server: renew what it holds, and lease what it lacks.
--
--	* "held": the shards that it holds, as far as it knows, and their times;
--	* "wanted": the shards that it is to hold; or NULL for "auto" of them, of
--	  which it likes "preferred" best.
--
-- The first row says whether the call was accepted, and the registry's time.
-- Then a row a shard:
--
--	  state     | shard | lease_from | lease_until | other
--	 -----------+-------+------------+-------------+-----------------------
--	  accepted  |       |            | now         |
--	  clone     |       |            | now         | who called in its name
--	  held      | has   | has        | has         |
--	  taken     | has   |            | has         | who has it
--	  fenced    | has   |            | has         |
--	  reserved  | has   |            |             | for what
--	  exhausted |       |            | a shard is free then, if ever |
CREATE FUNCTION snowflake_registry_lease(
    holder text, fence bigint, next bigint, host text, layout text, last_shard int,
    held int[], held_from timestamptz[], held_until timestamptz[],
    wanted int[], auto int, preferred int[], lease interval)
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    not_before timestamptz := snowflake_registry_enter($5, $6);
    now        timestamptz := clock_timestamp();
    known      bigint := (SELECT h.fence FROM snowflake_registry_holders AS h WHERE h.holder = $1);
    granted    int[];
    more       int[];
BEGIN
    IF NOT snowflake_registry_swap($1, $2, $3, $4, $13) THEN
        RETURN QUERY SELECT 'clone', NULL::int, NULL::timestamptz, now, h.host
                       FROM snowflake_registry_holders AS h WHERE h.holder = $1;
        RETURN;
    END IF;

    -- a holder that is forgotten begins as a new one, and has nothing to lose
    DELETE FROM snowflake_registry_holders AS h
     WHERE known IS NULL AND h.seen_at < now - interval '90 days'
       AND NOT EXISTS (SELECT FROM snowflake_registry_shards AS s WHERE s.holder = h.holder);

    -- renew: what the caller claims, and what it got when the answer was lost.  A
    -- lease that is over by what the caller knows is no claim: after a restore
    -- the row can be of an older lease of its, and another server was there since.
    WITH claimed AS (
        SELECT c.shard, c.lease_from, c.lease_until
          FROM unnest($7, $8, $9) AS c (shard, lease_from, lease_until)
    ), renewed AS (
        UPDATE snowflake_registry_shards AS s
           SET lease_from = greatest(s.lease_from, c.lease_from),
               lease_until = greatest(s.lease_until, c.lease_until, now + $13)
          FROM snowflake_registry_shards AS same LEFT JOIN claimed AS c ON c.shard = same.shard
         WHERE s.shard = same.shard
           AND s.holder = $1 AND s.lease_until > now AND s.reserved_for IS NULL
           AND (c.lease_until > now OR known = $3 AND ($10 IS NULL OR s.shard = ANY ($10)))
        RETURNING s.shard)
    SELECT coalesce(array_agg(shard), '{}') INTO granted FROM renewed;

    -- lease: never used shards first, then those longest unused
    WITH free AS (
        SELECT a.shard, s.lease_until FROM generate_series(0, $6) AS a (shard)
          LEFT JOIN snowflake_registry_shards AS s USING (shard)
         WHERE s.reserved_for IS NULL AND not_before <= now
           AND coalesce(s.lease_until, '-infinity') <= now
           AND a.shard <> ALL (granted) AND ($10 IS NULL OR a.shard = ANY ($10))
         ORDER BY a.shard = ANY ($12) DESC NULLS LAST, s.lease_until NULLS FIRST, a.shard
         LIMIT CASE WHEN $10 IS NULL THEN greatest($11 - cardinality(granted), 0) END
    ), leased AS (
        INSERT INTO snowflake_registry_shards AS s (shard, holder, lease_from, lease_until)
        SELECT f.shard, $1, greatest(f.lease_until, not_before), now + $13 FROM free AS f
        ON CONFLICT (shard) DO UPDATE
           SET holder = excluded.holder, lease_from = excluded.lease_from, lease_until = excluded.lease_until
        RETURNING s.shard)
    SELECT granted || coalesce(array_agg(shard), '{}') INTO granted FROM leased;

    RETURN QUERY SELECT 'accepted', NULL::int, NULL::timestamptz, now, NULL;
    RETURN QUERY SELECT 'held', s.shard, s.lease_from, s.lease_until, NULL
                   FROM snowflake_registry_shards AS s WHERE s.shard = ANY (granted) ORDER BY s.shard;
    -- what it lacks, and what it believes to hold and does not
    RETURN QUERY SELECT CASE WHEN s.reserved_for IS NOT NULL THEN 'reserved' WHEN s.lease_until > now THEN 'taken'
                             ELSE 'fenced' END,
                        a.shard, NULL::timestamptz,
                        CASE WHEN s.reserved_for IS NULL THEN greatest(s.lease_until, not_before) END,
                        coalesce(s.reserved_for,
                                 CASE WHEN s.lease_until > now THEN format('%s (holder %s)', h.host, s.holder) END)
                   FROM (SELECT DISTINCT unnest($7 || $10)) AS a (shard)
                   LEFT JOIN snowflake_registry_shards AS s USING (shard)
                   LEFT JOIN snowflake_registry_holders AS h ON h.holder = s.holder
                  WHERE a.shard <> ALL (granted)
                  ORDER BY a.shard;
    IF $10 IS NULL AND cardinality(granted) < $11 THEN
        RETURN QUERY SELECT 'exhausted', NULL::int, NULL::timestamptz, greatest(min(s.lease_until), not_before), NULL
                       FROM snowflake_registry_shards AS s
                      WHERE s.reserved_for IS NULL AND s.shard <> ALL (granted);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry_lease(text, bigint, bigint, text, text, int, int[], timestamptz[], timestamptz[], int[], int, int[], interval)
    IS 'renew a server''s leases, and lease what it lacks; called by servers';

-- Give leases back: "ends" has, for each shard, the end of the last id minted.
CREATE FUNCTION snowflake_registry_release(
    holder text, fence bigint, next bigint, host text, layout text, last_shard int,
    shards int[], ends timestamptz[])
RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry_enter($5, $6);
    IF NOT snowflake_registry_swap($1, $2, $3, $4, NULL) THEN
        RETURN false;
    END IF;
    UPDATE snowflake_registry_shards AS s
       SET lease_until = greatest(s.lease_from, least(s.lease_until, e.lease_end))
      FROM unnest($7, $8) AS e (shard, lease_end)
     WHERE s.shard = e.shard AND s.holder = $1;
    RETURN true;
END
$$;
COMMENT ON FUNCTION snowflake_registry_release(text, bigint, bigint, text, text, int, int[], timestamptz[])
    IS 'give leases back; called by servers';

-- For people

CREATE VIEW snowflake_registry_leases AS
SELECT s.shard, s.holder, h.host, s.lease_from, s.lease_until,
       greatest(s.lease_until - clock_timestamp(), '0') AS time_left,
       s.reserved_for IS NULL AND greatest(s.lease_until, r.not_before) <= clock_timestamp() AS free,
       s.reserved_for
  FROM snowflake_registry_shards AS s
  LEFT JOIN snowflake_registry_holders AS h USING (holder)
  LEFT JOIN snowflake_registry_state AS r ON true;
COMMENT ON VIEW snowflake_registry_leases IS 'each shard that was ever leased or is reserved: who has it, where, and until when';
COMMENT ON COLUMN snowflake_registry_leases.shard IS 'the shard';
COMMENT ON COLUMN snowflake_registry_leases.holder IS 'who has the lease, or had it';
COMMENT ON COLUMN snowflake_registry_leases.host IS 'the holder''s server';
COMMENT ON COLUMN snowflake_registry_leases.lease_from IS 'the holder mints ids from this time on';
COMMENT ON COLUMN snowflake_registry_leases.lease_until IS 'and before this one';
COMMENT ON COLUMN snowflake_registry_leases.time_left IS 'how long the lease lasts';
COMMENT ON COLUMN snowflake_registry_leases.free IS 'whether a server can lease the shard now';
COMMENT ON COLUMN snowflake_registry_leases.reserved_for IS 'never leased, for this reason';

CREATE VIEW snowflake_registry_summary AS
SELECT r.layout, r.last_shard + 1 AS shards,
       count(*) FILTER (WHERE l.time_left > '0' AND l.reserved_for IS NULL)::int AS leased,
       count(l.reserved_for)::int AS reserved,
       CASE WHEN r.not_before > clock_timestamp() THEN 0
            ELSE r.last_shard + 1 - count(*) FILTER (WHERE NOT l.free) END::int AS free,
       count(DISTINCT l.holder) FILTER (WHERE l.time_left > '0')::int AS holders,
       r.not_before
  FROM snowflake_registry_state AS r
  LEFT JOIN snowflake_registry_leases AS l ON true
 GROUP BY r.layout, r.last_shard, r.not_before;
COMMENT ON VIEW snowflake_registry_summary IS 'how many shards are leased, reserved and free';
COMMENT ON COLUMN snowflake_registry_summary.layout IS 'the layout of the servers that lease here';
COMMENT ON COLUMN snowflake_registry_summary.shards IS 'how many shards the layout has';
COMMENT ON COLUMN snowflake_registry_summary.leased IS 'how many of them are leased';
COMMENT ON COLUMN snowflake_registry_summary.reserved IS 'how many are reserved';
COMMENT ON COLUMN snowflake_registry_summary.free IS 'how many a server can lease now';
COMMENT ON COLUMN snowflake_registry_summary.holders IS 'how many servers hold one';
COMMENT ON COLUMN snowflake_registry_summary.not_before IS 'no new lease begins before this time';

CREATE FUNCTION snowflake_registry_reserve(shard int, reason text) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    lease snowflake_registry_leases;
BEGIN
    PERFORM FROM snowflake_registry_state FOR UPDATE;
    SELECT * INTO lease FROM snowflake_registry_leases AS l WHERE l.shard = $1;
    IF lease.lease_until > clock_timestamp() THEN
        RAISE object_in_use USING
            MESSAGE = format('shard %s is leased', $1),
            DETAIL = format('%s (holder %s) has it until %s.', lease.host, lease.holder, lease.lease_until),
            HINT = 'Take the shard from that server''s "snowflake.shards", or wait until then.';
    END IF;
    INSERT INTO snowflake_registry_shards AS s (shard, reserved_for) VALUES ($1, $2)
    ON CONFLICT (shard) DO UPDATE SET reserved_for = excluded.reserved_for;
END
$$;

-- Ids may have been minted on it until now.
CREATE FUNCTION snowflake_registry_unreserve(shard int) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM snowflake_registry_state FOR UPDATE;
    UPDATE snowflake_registry_shards AS s
       SET reserved_for = NULL, lease_until = greatest(s.lease_until, clock_timestamp())
     WHERE s.shard = $1 AND s.reserved_for IS NOT NULL;
    IF NOT FOUND THEN
        RAISE undefined_object USING MESSAGE = format('shard %s is not reserved', $1);
    END IF;
END
$$;

COMMENT ON FUNCTION snowflake_registry_reserve(int, text) IS 'let no server lease a shard';
COMMENT ON FUNCTION snowflake_registry_unreserve(int) IS 'let servers lease a reserved shard again';

-- An extension cannot make a role.  This one gives a role what a server needs,
-- and nothing else.
CREATE FUNCTION snowflake_registry_grant(role regrole) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, @extschema@, pg_temp
AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '@extschema@', $1);
    EXECUTE format('GRANT EXECUTE ON FUNCTION
        snowflake_registry_lease(text, bigint, bigint, text, text, int, int[], timestamptz[], timestamptz[], int[], int, int[], interval),
        snowflake_registry_release(text, bigint, bigint, text, text, int, int[], timestamptz[]) TO %s', $1);
END
$$;
COMMENT ON FUNCTION snowflake_registry_grant(regrole) IS 'let a role lease shards, and do nothing else';

REVOKE EXECUTE ON FUNCTION
    snowflake_registry_place(),
    snowflake_registry_fence(interval),
    snowflake_registry_enter(text, int),
    snowflake_registry_swap(text, bigint, bigint, text, interval),
    snowflake_registry_lease(text, bigint, bigint, text, text, int, int[], timestamptz[], timestamptz[], int[], int, int[], interval),
    snowflake_registry_release(text, bigint, bigint, text, text, int, int[], timestamptz[]),
    snowflake_registry_reserve(int, text),
    snowflake_registry_unreserve(int),
    snowflake_registry_grant(regrole)
FROM PUBLIC;
