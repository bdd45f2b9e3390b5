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
--	  time at which the registry was opened or was fenced last.
--	* "now" is this server's clock, read under a lock that all calls, and all
--	  functions for people, take first: one after the other.  It lets nobody
--	  else write, so what they find is what they change.
--
-- A fence is a number that each call of a holder swaps for a greater one.  Two
-- servers that believe to be the same holder find out by it: the second to
-- call presents a number that is old.
--
-- All of that holds as long as the registry keeps what it committed.  A registry
-- that lost something is fenced: no lease begins before the end of all that it
-- may have forgotten.  Leases that it remembers, and that are in force, are
-- renewed: nobody else can have got one of these shards, since that takes its
-- end.  (A lease that was released early is the exception: its holder does not
-- claim it.)
--
--	* It is born closed, and leases nothing until snowflake_registry_open() says
--	  how long a lease of before can last.
--	* It finds that it was put back.  snowflake_registry_place() changes if all files
--	  are copied, a timeline begins or the database is another; and
--	  snowflake_registry_traces() has what a restore in place leaves behind.  The row of the
--	  state has the transaction that wrote it, in "writer", which is its xmin
--	  unless a dump brought it.  Such a row stands beside the one that CREATE
--	  EXTENSION made, which is closed: a restored dump is closed.
--	* A server's call proves that it lost something: see
--	  snowflake_registry_losses().
--
-- Rights.  Two functions run with the rights of the extension's owner: _lease and
-- _release.  Nothing here looks a name up where somebody else may create, as in each
-- script of this project (see the head of the other one): a body is either parsed
-- when it is made, BEGIN ATOMIC, or looks its schema up, "own", and finds all else in
-- pg_catalog.  Own functions get arguments of the very types, so that no other function
-- fits better.  So nobody but the schema's owner can slip in something of his, and
-- _guard refuses a schema whose owner is no superuser.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION @extschema@.snowflake_registry_guard() RETURNS void
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own   regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    owner name := (SELECT a.rolname FROM pg_namespace AS n
                     JOIN pg_database AS d ON d.datname = current_database()
                     JOIN pg_authid AS a ON a.oid = CASE n.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
                    WHERE n.oid = own AND NOT a.rolsuper);
BEGIN
    IF owner IS NOT NULL THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'the snowflake registry is in a schema whose owner is not a superuser',
            DETAIL = format('Schema %s belongs to "%s", who could put functions of his own in the place of the registry''s.', own, owner),
            HINT = 'Run CREATE SCHEMA snowflake_registry and CREATE EXTENSION snowflake_registry SCHEMA snowflake_registry as a superuser, or give this schema to one.';
    END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_guard() IS 'refuse a schema whose owner is not a superuser';
SELECT @extschema@.snowflake_registry_guard();

CREATE TABLE @extschema@.snowflake_registry_state (
    number        text PRIMARY KEY,
    is_open       boolean NOT NULL,
    layout        text,
    last_shard    int,
    not_before    timestamptz NOT NULL,
    longest_lease interval NOT NULL,
    max_lease     interval NOT NULL,
    max_shards    int NOT NULL,
    first_unused  int NOT NULL,
    place         text NOT NULL,
    traces        text[] NOT NULL,
    writer        xid
);

CREATE TABLE @extschema@.snowflake_registry_holders (
    holder  text PRIMARY KEY,
    role    name NOT NULL,
    host    text NOT NULL,
    fence   bigint NOT NULL,
    lease   interval NOT NULL,
    seen_at timestamptz NOT NULL
);

CREATE TABLE @extschema@.snowflake_registry_shards (
    shard        int PRIMARY KEY CHECK (shard >= 0),
    holder       text,
    lease_from   timestamptz,
    lease_until  timestamptz,
    is_revoked   boolean NOT NULL DEFAULT false,
    reserved_for text,
    CHECK ((holder IS NULL) = (lease_from IS NULL)),
    CHECK (lease_until >= lease_from)
);
CREATE INDEX snowflake_registry_shards_of_holder ON @extschema@.snowflake_registry_shards (holder);
CREATE INDEX snowflake_registry_shards_by_end ON @extschema@.snowflake_registry_shards (lease_until, shard) WHERE reserved_for IS NULL;
CREATE INDEX snowflake_registry_shards_reserved ON @extschema@.snowflake_registry_shards (shard) WHERE reserved_for IS NOT NULL;

SELECT pg_extension_config_dump('@extschema@.snowflake_registry_state', '');
SELECT pg_extension_config_dump('@extschema@.snowflake_registry_holders', '');
SELECT pg_extension_config_dump('@extschema@.snowflake_registry_shards', '');

COMMENT ON TABLE @extschema@.snowflake_registry_state IS 'the layout of all ids, and the time before which no new lease begins';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.number IS 'the random number of this registry';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.is_open IS 'whether it leases shards';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.layout IS 'the layout of the servers that lease here; none before the first of them called';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.last_shard IS 'the shards of the layout are 0 to this one';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.not_before IS 'no new lease begins before this time';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.longest_lease IS 'no server had a longer lease, as far as is known; 0: nothing is known';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.max_lease IS 'no server gets a longer lease';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.max_shards IS 'no server gets more shards';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.first_unused IS 'each shard below this one was leased or reserved';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.place IS 'where the registry is: another place fences it';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.traces IS 'traces of restores that it has been fenced for: another one fences it';
COMMENT ON COLUMN @extschema@.snowflake_registry_state.writer IS 'the transaction that wrote this row: another one than its xmin fences it';
COMMENT ON TABLE @extschema@.snowflake_registry_holders IS 'the servers that lease shards';
COMMENT ON COLUMN @extschema@.snowflake_registry_holders.holder IS 'a random number, which a server keeps as long as it goes on in the same place';
COMMENT ON COLUMN @extschema@.snowflake_registry_holders.role IS 'the role that it logs in as; no other role can call in its name';
COMMENT ON COLUMN @extschema@.snowflake_registry_holders.host IS 'the server, for people';
COMMENT ON COLUMN @extschema@.snowflake_registry_holders.fence IS 'a number that each call of the holder swaps for a greater one';
COMMENT ON COLUMN @extschema@.snowflake_registry_holders.lease IS 'the length of the leases that it asked for last';
COMMENT ON COLUMN @extschema@.snowflake_registry_holders.seen_at IS 'when it called last';
COMMENT ON TABLE @extschema@.snowflake_registry_shards IS 'the last lease of each shard';
COMMENT ON COLUMN @extschema@.snowflake_registry_shards.shard IS 'the shard';
COMMENT ON COLUMN @extschema@.snowflake_registry_shards.holder IS 'who has the lease, or had it';
COMMENT ON COLUMN @extschema@.snowflake_registry_shards.lease_from IS 'the holder mints ids from this time on';
COMMENT ON COLUMN @extschema@.snowflake_registry_shards.lease_until IS 'and before this one; then the shard is free';
COMMENT ON COLUMN @extschema@.snowflake_registry_shards.is_revoked IS 'the lease is not renewed any more';
COMMENT ON COLUMN @extschema@.snowflake_registry_shards.reserved_for IS 'never leased, for this reason';

-- Where the registry is: the server, its timeline, the database, and when the
-- file PG_VERSION of the data directory got its inode.  Each failover and each
-- recovery of a backup begins a new timeline; a restored dump is in another
-- database; files that are copied have inodes of another time.  What a managed
-- server withholds is "unknown".
CREATE FUNCTION @extschema@.snowflake_registry_place() RETURNS text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    server   text := 'unknown';
    timeline text := 'unknown';
    files    text := 'unknown';
BEGIN
    BEGIN
        server := (SELECT system_identifier FROM pg_control_system());
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    END;
    BEGIN
        timeline := substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    END;
    BEGIN
        files := extract(epoch FROM (pg_stat_file('PG_VERSION')).change)::bigint;
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    END;
    RETURN concat_ws('/', server, timeline, (SELECT oid FROM pg_database WHERE datname = current_database()), files);
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_place() IS 'where the registry is: the server, its timeline, the database, and the time of its files';

-- What restores in place have left behind.  A tool such as rsync leaves a file alone
-- that has the same size and time: PG_VERSION, for example.  But it gives a file that
-- it puts back the time of the backup's, and no program can set the time at which it
-- did so: that of the inode.  Where the server writes a file, both are the same.  So
-- these files were put back: those of the registry's tables and indexes whose inode
-- changed at another time than they did.  (Both are whole seconds, and one second may
-- lie between.)  As soon as the server writes such a file, that is over; so the state
-- notes which ones it was fenced for.
--
-- What is replayed is written.  A base backup is replayed, but then the server renames
-- its file backup_label.  And no WAL writes the file that each call leaves: see
-- snowflake_registry_leave_file().  It is another one in each backup, so that a restore
-- has to put it back, or to remove it.  It names the transaction of the call: one that is
-- still to come was lost, as by pg_resetwal.
CREATE FUNCTION @extschema@.snowflake_registry_traces() RETURNS text[]
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own   regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    file  text := (SELECT concat('snowflake_registry.', d.oid) FROM pg_database AS d WHERE d.datname = current_database());
    wrote text[];              -- a transaction, and when it began
    found text[] := '{}';
BEGIN
    wrote := regexp_match(pg_read_file(file, 0, 60, true), '^([0-9]{1,19}) ([0-9.]{1,30})\n');
    IF (pg_stat_file(file, true)).size IS NULL THEN
        found := ARRAY[format('%s is missing', file)];
    ELSIF wrote[1]::xid8 > pg_current_xact_id()
          OR wrote[1]::xid8 = pg_current_xact_id() AND wrote[2]::numeric <> extract(epoch FROM transaction_timestamp()) THEN
        found := ARRAY[format('%s is of transaction %s, which is still to come', file, wrote[1])];
    END IF;
    RETURN found || ARRAY(
        WITH tables AS (
            SELECT c.oid FROM pg_class AS c
             WHERE c.relnamespace = own AND c.relname IN ('snowflake_registry_state', 'snowflake_registry_holders', 'snowflake_registry_shards')
        ), files AS (
            SELECT pg_relation_filepath(t.oid) AS path, true AS is_written FROM tables AS t
             UNION ALL SELECT pg_relation_filepath(i.indexrelid), true FROM pg_index AS i JOIN tables AS t ON i.indrelid = t.oid
             UNION ALL SELECT 'backup_label.old', false
             UNION ALL SELECT file, true
        )
        SELECT format('%s changed at %s', f.path, extract(epoch FROM s.change)::bigint)
          FROM files AS f CROSS JOIN LATERAL pg_stat_file(f.path, true) AS s
         WHERE s.change IS NOT NULL
           AND (NOT f.is_written OR abs(extract(epoch FROM s.change) - extract(epoch FROM s.modification)) > 1)
         ORDER BY 1);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    RETURN '{}';
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_traces() IS 'what restores in place have left behind';

-- Write a file of this transaction into the data directory, for
-- snowflake_registry_traces(); once a second, as it has the time of that second anyway.
-- Who does that has committed a fence for all traces that are there: else they would be
-- lost if this transaction was rolled back.
CREATE FUNCTION @extschema@.snowflake_registry_leave_file() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    file text := (SELECT concat('snowflake_registry.', d.oid) FROM pg_database AS d WHERE d.datname = current_database());
BEGIN
    IF (pg_stat_file(file, true)).modification IS DISTINCT FROM date_trunc('second', clock_timestamp()) THEN
        EXECUTE format('COPY (SELECT %L) TO %L', concat(pg_current_xact_id(), ' ', extract(epoch FROM transaction_timestamp())),
                       concat(current_setting('data_directory'), '/', file));
    END IF;
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_leave_file() IS 'write a file that no restore can leave alone';

-- What hinders a call from locking the registry: who has a lock of one of its tables,
-- and who waits for one before the call, such as VACUUM FULL behind a reader.  A
-- transaction is overdue if a role has it that can do nothing here but call, and if it
-- is none of a server's call: a server sends all at once, and gives up after 5 s.
CREATE FUNCTION @extschema@.snowflake_registry_lockers(OUT pid int, OUT is_overdue boolean, OUT who text) RETURNS SETOF record
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH locks AS (
        SELECT l.pid, l.virtualtransaction, l.mode, l.granted, l.relation
          FROM pg_locks AS l
         WHERE l.locktype = 'relation' AND l.mode <> 'SIReadLock' AND l.pid IS DISTINCT FROM pg_backend_pid()
           AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
           AND l.relation IN ('@extschema@.snowflake_registry_state'::regclass, '@extschema@.snowflake_registry_holders'::regclass,
                              '@extschema@.snowflake_registry_shards'::regclass)
    ), lockers AS (
        SELECT l.pid, l.virtualtransaction, bool_or(l.granted) AS has_one, string_agg(l.mode, ', ') AS modes
          FROM locks AS l
         WHERE CASE WHEN NOT l.granted THEN l.mode NOT IN ('ExclusiveLock', 'AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
                    ELSE l.mode <> 'AccessShareLock'
                         OR EXISTS (SELECT FROM locks AS w WHERE w.relation = l.relation AND w.mode = 'AccessExclusiveLock') END
         GROUP BY l.pid, l.virtualtransaction
    )
    SELECT l.pid,
           has_table_privilege(a.usesysid, '@extschema@.snowflake_registry_state'::regclass, 'SELECT, INSERT, UPDATE, DELETE') IS FALSE
           AND a.wait_event IS DISTINCT FROM 'SyncRep'
           AND (a.state LIKE 'idle in transaction%' OR a.xact_start < clock_timestamp() - interval '5 s'),
           CASE WHEN l.pid IS NULL
                THEN format('Prepared transaction "%s" of user "%s" has had it since %s.',
                            coalesce(x.gid, 'unknown'), coalesce(x.owner, 'unknown'), coalesce(x.prepared::text, 'an unknown time'))
                WHEN a.pid IS NULL THEN format('Process %s has had it.', l.pid)
                ELSE format('Process %s of user "%s" (%s) has been in a transaction since %s%s.',
                            l.pid, coalesce(a.usename, a.backend_type), coalesce(a.state, a.backend_type), coalesce(a.xact_start::text, 'an unknown time'),
                            CASE WHEN l.has_one THEN '' ELSE ', and waits for ' || l.modes END) END
      FROM lockers AS l
      LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
      LEFT JOIN pg_locks AS own ON own.pid IS NULL AND own.locktype = 'transactionid' AND own.virtualtransaction = l.virtualtransaction
      LEFT JOIN pg_prepared_xacts AS x ON x.transaction = own.transactionid
     ORDER BY a.xact_start, l.pid;
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_lockers() IS 'who hinders a call from locking the registry';

-- Wait for the registry's lock, for 3.5 s in all: a server waits for its answer for
-- longer, so it is told whose transaction it waited for.  In the midst of that, end
-- what is overdue, so that no role that leases can stop the servers of another one.
-- It cannot prepare its transaction: one that has listened cannot be prepared.
--
-- With the lock it mends a replica identity, without which nothing can be written once
-- somebody publishes all tables.
--
-- Nothing that is parsed before this has run may have a row of a table as a type:
-- that waits for the table's lock, and for how long is not limited.
CREATE FUNCTION @extschema@.snowflake_registry_lock() RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '3500ms'
AS $$
DECLARE
    own   regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    began timestamptz := clock_timestamp();
    part  text;
    who   text;
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
    IF current_setting('max_prepared_transactions')::int > 0 THEN
        LISTEN snowflake_registry;
        UNLISTEN snowflake_registry;
    END IF;
    FOR seconds IN 1..2 LOOP
        BEGIN
            FOREACH part IN ARRAY ARRAY['state', 'holders', 'shards'] LOOP
                PERFORM set_config('lock_timeout', greatest(extract(epoch FROM began + seconds * interval '1750 ms' - clock_timestamp()) * 1000, 1)::text, true);
                EXECUTE format('LOCK TABLE %s.snowflake_registry_%s IN EXCLUSIVE MODE', own, part);
            END LOOP;
            FOR part IN SELECT c.relname FROM pg_class AS c
                         WHERE c.relnamespace = own AND c.relname IN ('snowflake_registry_state', 'snowflake_registry_holders', 'snowflake_registry_shards')
                           AND c.relreplident = 'n' LOOP
                EXECUTE format('ALTER TABLE %s.%s REPLICA IDENTITY DEFAULT', own, part);
                RAISE LOG USING
                    MESSAGE = format('table %s has its replica identity again', part),
                    DETAIL = 'It had none. Then a publication of all tables refuses what each call of the snowflake registry writes.';
            END LOOP;
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        END;
        IF seconds = 1 THEN
            BEGIN
                EXECUTE format('SELECT string_agg(l.who, '' '') FROM %s.snowflake_registry_lockers() AS l '
                               ' WHERE l.is_overdue AND pg_terminate_backend(l.pid)', own) INTO who;
                IF who IS NOT NULL THEN
                    RAISE LOG USING MESSAGE = 'ended a session that had locked the snowflake registry', DETAIL = who;
                END IF;
            EXCEPTION WHEN insufficient_privilege THEN
            END;
        END IF;
    END LOOP;
    EXECUTE format('SELECT string_agg(l.who, '' '') FROM %s.snowflake_registry_lockers() AS l', own) INTO who;
    RAISE lock_not_available USING
        MESSAGE = 'another transaction has locked the snowflake registry',
        DETAIL = coalesce(who, 'It has ended by now.'),
        HINT = 'Commit it or roll it back. pg_terminate_backend() ends a process, ROLLBACK PREPARED a prepared transaction.';
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_lock() IS 'wait for the registry''s lock';

-- A text of one server that another one may be told, so that it harms nobody: not
-- longer than a server remembers, and in no encoding.
CREATE FUNCTION @extschema@.snowflake_registry_words(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT regexp_replace(left($1, 150), '[^ -~]', '?', 'g');
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_words(text) IS 'a text, as a server is told it';

-- Refuse a call whose texts are longer than a server's, before anything is done with
-- them.
CREATE FUNCTION @extschema@.snowflake_registry_check(holder text, host text, layout text, registry text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF octet_length(holder) > 64 OR octet_length(host) > 256 OR octet_length(layout) > 160 OR octet_length(registry) > 64 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the call of the snowflake registry is not valid',
            DETAIL = format('Its holder has %s bytes, of 64 at most; its host %s, of 256; its layout %s, of 160; its registry %s, of 64.',
                            octet_length(holder), octet_length(host), octet_length(layout), coalesce(octet_length(registry), 0));
    END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_check(text, text, text, text) IS 'refuse a call whose texts are too long';

-- Write the state.  The row has to be written twice in the same transaction, or
-- subtransaction, to have its own xmin.
CREATE FUNCTION @extschema@.snowflake_registry_write(state @extschema@.snowflake_registry_state) RETURNS void
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    DELETE FROM @extschema@.snowflake_registry_state;
    INSERT INTO @extschema@.snowflake_registry_state SELECT ($1).*;
    UPDATE @extschema@.snowflake_registry_state SET place = @extschema@.snowflake_registry_place(), traces = @extschema@.snowflake_registry_traces(), writer = xmin;
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_write(@extschema@.snowflake_registry_state) IS 'write the state, here and now';

-- Let no lease begin before this time; the log says why, if that is news.
CREATE FUNCTION @extschema@.snowflake_registry_fence_until(state @extschema@.snowflake_registry_state, until timestamptz, why text)
    RETURNS @extschema@.snowflake_registry_state
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    state.not_before := greatest(state.not_before, until);
    EXECUTE format('SELECT %s.snowflake_registry_write($1)', (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'snowflake_registry'))
      USING state;
    IF why IS NOT NULL THEN
        RAISE LOG USING
            MESSAGE = format('the snowflake registry is fenced: no new lease begins before %s', state.not_before),
            DETAIL = why;
    END IF;
    RETURN state;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_fence_until(@extschema@.snowflake_registry_state, timestamptz, text)
    IS 'let no new lease begin before a time';

-- How long a lease can last that the registry has forgotten.
CREATE FUNCTION @extschema@.snowflake_registry_longest(state @extschema@.snowflake_registry_state) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT CASE WHEN ($1).longest_lease > interval '0' THEN ($1).longest_lease ELSE ($1).max_lease END;
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_longest(@extschema@.snowflake_registry_state)
    IS 'how long a lease can last that the registry has forgotten';

-- What each function does first when it has the registry's lock: it fences a registry
-- that was put back.  Gives the state.
CREATE FUNCTION @extschema@.snowflake_registry_enter(OUT state @extschema@.snowflake_registry_state)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own    regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    here   text;
    traces text[];
    rows   bigint;
    mine   record;             -- the row that this registry wrote, if there is one
BEGIN
    EXECUTE format('SELECT %1$s.snowflake_registry_place(), %1$s.snowflake_registry_traces()', own) INTO here, traces;
    EXECUTE format('SELECT * FROM %1$s.snowflake_registry_state AS s '
                   ' WHERE s.writer = s.xmin AND s.place = $1 AND $2 <@ s.traces AND (SELECT count(*) FROM %1$s.snowflake_registry_state) = 1', own)
       INTO state USING here, traces;
    IF state.number IS NOT NULL THEN
        EXECUTE format('SELECT %s.snowflake_registry_leave_file()', own);
        IF NOT state.traces <@ traces THEN
            EXECUTE format('SELECT %s.snowflake_registry_write($1)', own) USING state;
        END IF;
        RETURN;
    END IF;
    EXECUTE format('SELECT count(*) FROM %s.snowflake_registry_state', own) INTO rows;
    -- the row of a restored dump has the settings; it is not open if another is not
    EXECUTE format('SELECT * FROM %s.snowflake_registry_state AS s ORDER BY s.is_open DESC, s.writer = s.xmin DESC LIMIT 1', own) INTO state;
    EXECUTE format('SELECT number, place FROM %s.snowflake_registry_state AS s WHERE s.writer = s.xmin LIMIT 1', own) INTO mine;
    IF rows = 0 THEN
        state := ROW(right(replace(gen_random_uuid()::text, '-', ''), 16), false, NULL, NULL, '-infinity', '0', '1 day', 1024, 0, here, traces, NULL);
        EXECUTE format('SELECT %s.snowflake_registry_write($1)', own) USING state;
        RETURN;
    END IF;
    EXECUTE format('SELECT bool_and(s.is_open), max(s.not_before), max(s.longest_lease), 0 FROM %s.snowflake_registry_state AS s', own)
       INTO state.is_open, state.not_before, state.longest_lease, state.first_unused;
    state.number := coalesce(mine.number, state.number);
    EXECUTE format('SELECT * FROM %1$s.snowflake_registry_fence_until($1, clock_timestamp() + %1$s.snowflake_registry_longest($1), $2)', own)
       INTO state
      USING state, CASE WHEN rows = 1 AND mine.place IS NOT NULL
                        THEN format('It was at %s, and is at %s; traces of a restore: %s.', mine.place, here,
                                    coalesce(nullif(array_to_string(traces, ', '), ''), 'none'))
                        ELSE 'A dump brought its state.' END;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_enter() IS 'fence a registry that was put back';
SELECT @extschema@.snowflake_registry_enter() IS NOT NULL AS made;

-- What a call for leases, or a release, proves that this registry has forgotten.
--
-- Each of these happens when nothing was lost, and gives no row:
--
--	* An answer, a renewal's or a release's, got lost.  Then the holder's fence in
--	  the registry is the one of that call, so at least "confirmed", and its
--	  leases end when it knows, or later.
--	* A server that leased from another registry has come here, and all its leases
--	  are over: a server made from an image, for example.
--	* The first call of a holder got lost on its way.  The registry does not know
--	  it, and nothing of it is confirmed.
--	* A release lowered an end.  A server stores that it does not hold a shard any
--	  more before it tells the registry, so it does not claim it.
--	* A clone, or the server that it is of, presents an old fence.  The caller
--	  looks for that first, and does not get here.
--	* A server was off for long.  Holders are not forgotten, and leases that are
--	  over are no claim.
--	* A lease was revoked: its end stays.  A shard was reserved: that waits for
--	  the end of its lease.
--	* A restored server presents numbers of before: it is a new holder, since its
--	  place has changed, and knows nothing.
CREATE FUNCTION @extschema@.snowflake_registry_losses(
    state @extschema@.snowflake_registry_state, known @extschema@.snowflake_registry_holders,
    confirmed bigint, registry text, held int[], held_from timestamptz[], held_until timestamptz[])
RETURNS TABLE (shard int, lease_from timestamptz, lease_until timestamptz, what text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT NULL::int, NULL::timestamptz, NULL::timestamptz,
           format('it is registry %s, and the server knows registry %s', (state).number, registry)
     WHERE registry <> (state).number AND EXISTS (SELECT FROM unnest(held_until) AS u (ends) WHERE u.ends > clock_timestamp())
    UNION ALL
    SELECT NULL, NULL, NULL,
           CASE WHEN (known).fence IS NULL THEN 'it does not know this holder'
                ELSE format('it has forgotten calls of this holder since %s', (known).seen_at) END
     WHERE confirmed > coalesce((known).fence, 0)
    UNION ALL
    (SELECT c.shard, c.lease_from, c.lease_until,
            CASE WHEN s.holder IS NULL OR s.lease_until <= c.lease_from THEN format('it does not know this lease of shard %s', c.shard)
                 WHEN s.holder = (known).holder THEN format('its lease of shard %s ends at %s', c.shard, s.lease_until)
                 ELSE format('shard %s was given to %s at %s', c.shard, coalesce(h.host, 'a server that it does not know'), s.lease_from) END
       FROM unnest(held, held_from, held_until) AS c (shard, lease_from, lease_until)
       LEFT JOIN @extschema@.snowflake_registry_shards AS s ON s.shard = c.shard
       LEFT JOIN @extschema@.snowflake_registry_holders AS h ON h.holder = s.holder
      WHERE c.lease_until > clock_timestamp()
        AND (s.holder IS NULL
             OR s.holder = (known).holder AND s.lease_until < c.lease_until
             OR s.holder IS DISTINCT FROM (known).holder AND s.lease_from < c.lease_until)
      ORDER BY c.shard);
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_losses(@extschema@.snowflake_registry_state, @extschema@.snowflake_registry_holders,
    bigint, text, int[], timestamptz[], timestamptz[]) IS 'what a call proves that the registry has forgotten';

-- Shards for "auto": those that the caller likes, then those that nobody ever
-- used, then those longest unused.  The search for never used ones goes on where
-- the last one ended, so that no call looks at the whole layout.
CREATE FUNCTION @extschema@.snowflake_registry_find(
    state @extschema@.snowflake_registry_state, now timestamptz, count int, preferred int[]) RETURNS int[]
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own      regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    shards   int[];
    unused   int[];
    longest  int[];            -- unused
BEGIN
    EXECUTE format('SELECT ARRAY(SELECT p.shard FROM (SELECT DISTINCT unnest($1) AS shard) AS p '
                   '               LEFT JOIN %s.snowflake_registry_shards AS s ON s.shard = p.shard '
                   '              WHERE p.shard BETWEEN 0 AND $2 AND s.reserved_for IS NULL '
                   '                AND (s.lease_until IS NULL OR s.lease_until <= $3) '
                   '              ORDER BY s.lease_until NULLS FIRST, p.shard LIMIT $4)', own)
       INTO shards USING preferred, state.last_shard, now, count;
    IF cardinality(shards) < count AND state.first_unused <= state.last_shard THEN
        EXECUTE format('SELECT ARRAY(SELECT n.shard FROM (SELECT generate_series($1, $2) AS shard) AS n '
                       '              WHERE n.shard <> ALL ($3) '
                       '                AND (SELECT s.shard FROM %s.snowflake_registry_shards AS s WHERE s.shard = n.shard) IS NULL LIMIT $4)', own)
           INTO unused USING state.first_unused, state.last_shard, shards, count - cardinality(shards);
        shards := shards || unused;
        state.first_unused := CASE WHEN cardinality(shards) < count THEN state.last_shard ELSE unused[cardinality(unused)] END + 1;
        EXECUTE format('SELECT %s.snowflake_registry_write($1)', own) USING state;
    END IF;
    EXECUTE format('SELECT ARRAY(SELECT s.shard FROM %s.snowflake_registry_shards AS s '
                   '              WHERE s.reserved_for IS NULL AND s.lease_until <= $1 AND s.shard <> ALL ($2) AND s.shard <= $3 '
                   '              ORDER BY s.lease_until, s.shard LIMIT $4)', own)
       INTO longest USING now, shards, state.last_shard, count - cardinality(shards);
    RETURN shards || longest;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_find(@extschema@.snowflake_registry_state, timestamptz, int, int[])
    IS 'free shards for a server that takes any';

-- Which shards are reserved and were never leased, as a list; NULL if that is too long
-- to be told.  Servers make ids for old rows on these.
CREATE FUNCTION @extschema@.snowflake_registry_set_aside() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH reserved AS (
        SELECT s.shard FROM @extschema@.snowflake_registry_shards AS s WHERE s.reserved_for IS NOT NULL AND s.lease_from IS NULL ORDER BY s.shard LIMIT 10001
    ), numbered AS (
        SELECT r.shard, r.shard - row_number() OVER (ORDER BY r.shard) AS range FROM reserved AS r
    ), ranges AS (
        SELECT min(n.shard) AS first, max(n.shard) AS last FROM numbered AS n GROUP BY n.range
    ), list AS (
        SELECT coalesce(string_agg(concat_ws('-', a.first, nullif(a.last, a.first)), ',' ORDER BY a.first), '') AS list,
               coalesce(sum(a.last - a.first + 1), 0) AS shards
          FROM ranges AS a
    )
    SELECT CASE WHEN l.shards <= 10000 AND length(l.list) <= 8000 THEN l.list END FROM list AS l;
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_set_aside() IS 'which shards are reserved, as a list';

-- Who calls: a server, and the numbers by which it and the registry know each other.
CREATE TYPE @extschema@.snowflake_registry_caller AS (
    holder text, fence bigint, next bigint, confirmed bigint, host text, layout text, last_shard int, registry text
);
REVOKE USAGE ON TYPE @extschema@.snowflake_registry_caller FROM PUBLIC;
COMMENT ON TYPE @extschema@.snowflake_registry_caller IS 'a server that calls';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.holder IS 'its number';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.fence IS 'its fence before this call';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.next IS 'its fence from this call on';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.confirmed IS 'the fence of its last call that was answered';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.host IS 'the server, for people';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.layout IS 'its layout';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.last_shard IS 'the shards of its layout are 0 to this one';
COMMENT ON COLUMN @extschema@.snowflake_registry_caller.registry IS 'the number of the registry that answered that call';

-- What a call finds: the state, the holder if it called before, the time, how many
-- leases it has, and what the call is to be answered.
--
-- Is the caller the holder?  It is not if another call of the same holder came
-- between.  "next" may be in force already: then the answer to an earlier call with
-- the same numbers was lost, and this is that call again.  A fence that is less than
-- the caller's is one of before a failover, or of before a call that got lost: that
-- one is refused, should it come yet.
CREATE FUNCTION @extschema@.snowflake_registry_meet(
    caller @extschema@.snowflake_registry_caller,
    OUT reg @extschema@.snowflake_registry_state, OUT known @extschema@.snowflake_registry_holders,
    OUT now timestamptz, OUT has int, OUT verdict text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
BEGIN
    EXECUTE format('SELECT * FROM %s.snowflake_registry_enter()', own) INTO reg;
    now := clock_timestamp();
    EXECUTE format('SELECT * FROM %s.snowflake_registry_holders AS h WHERE h.holder = $1', own) INTO known USING caller.holder;
    EXECUTE format('SELECT count(*) FROM %s.snowflake_registry_shards AS s WHERE s.holder = $1 AND s.lease_until > $2', own)
       INTO has USING caller.holder, now;
    verdict := CASE WHEN NOT reg.is_open THEN 'closed'
                    WHEN known.fence > caller.fence AND known.fence <> caller.next THEN 'clone'
                    ELSE 'accepted' END;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_meet(@extschema@.snowflake_registry_caller) IS 'what a call finds';

-- Refuse a call that is not valid, that is not for this registry, that names or asks
-- for more than it gives, or that another role makes.  What a release does not ask for
-- is NULL.
CREATE FUNCTION @extschema@.snowflake_registry_refuse(
    caller @extschema@.snowflake_registry_caller, reg @extschema@.snowflake_registry_state, known @extschema@.snowflake_registry_holders,
    has int, named int, is_valid boolean, asked int, lease interval) RETURNS void
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF named > greatest(reg.max_shards, has, 1024) THEN
        RAISE configuration_limit_exceeded USING
            MESSAGE = 'the snowflake registry does not lease so much to one server',
            DETAIL = format('The server names %s shards as its own; the limit is %s.', named, greatest(reg.max_shards, has, 1024)),
            HINT = 'An administrator of the registry can call snowflake_registry_limit().';
    ELSIF (is_valid AND caller.holder IS NOT NULL AND caller.fence <= caller.next
           AND caller.layout <> '' AND caller.last_shard BETWEEN 0 AND 1048575) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the call of the snowflake registry is not valid',
            DETAIL = format('The last shard is %s, of 1048575 at most, in layout "%s"; a lease of %s is wanted.',
                            caller.last_shard, caller.layout, coalesce(lease, interval '0'));
    ELSIF caller.layout <> reg.layout OR caller.last_shard <> reg.last_shard THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'the snowflake registry is of another layout',
            DETAIL = format('The registry''s layout is "%s", with shards 0 to %s, and the server''s is "%s", with shards 0 to %s.',
                            reg.layout, reg.last_shard, caller.layout, caller.last_shard),
            HINT = 'Make a registry for each layout, in a database of its own.';
    ELSIF has = 0 AND (lease > reg.max_lease OR asked > reg.max_shards) THEN
        RAISE configuration_limit_exceeded USING
            MESSAGE = 'the snowflake registry does not lease so much to one server',
            DETAIL = format('The server asks for %s shards for %s; the limits are %s shards and %s.', asked, lease, reg.max_shards, reg.max_lease),
            HINT = 'An administrator of the registry can call snowflake_registry_limit().';
    ELSIF known.role <> session_user THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'this holder of snowflake leases belongs to another role',
            DETAIL = format('The server has logged in as "%s", and leased as "%s" before.', session_user, known.role),
            HINT = 'Let it log in as that role, or set column role of snowflake_registry_holders.';
    END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_refuse(@extschema@.snowflake_registry_caller, @extschema@.snowflake_registry_state,
    @extschema@.snowflake_registry_holders, int, int, boolean, int, interval) IS 'refuse a call that is not for this registry';

-- Fence the registry if a call proves that it has forgotten something, for no longer
-- than a lease can be, whatever the caller claims.  Gives the losses.
CREATE FUNCTION @extschema@.snowflake_registry_prove(
    caller @extschema@.snowflake_registry_caller, reg @extschema@.snowflake_registry_state, known @extschema@.snowflake_registry_holders,
    now timestamptz, length interval, held int[], held_from timestamptz[], held_until timestamptz[],
    OUT lost_shards int[], OUT lost_from timestamptz[], OUT lost_until timestamptz[], OUT lost_what text[])
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own   regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    same  int;                 -- claims that end here no earlier
    claim interval;
    loss  text;
BEGIN
    -- nothing is lost if this registry knows as much as the caller, and no claim ends
    -- later than here; else look closer
    EXECUTE format('SELECT count(*) FROM %s.snowflake_registry_shards AS s '
                   ' WHERE s.shard = ANY ($1) AND s.holder = $2 AND s.lease_until >= ALL ($3)', own)
       INTO same USING held, caller.holder, held_until;
    IF known.holder IS NULL OR caller.registry <> reg.number OR caller.confirmed > known.fence OR cardinality(held) > same THEN
        EXECUTE format('SELECT array_agg(l.shard), array_agg(l.lease_from), array_agg(l.lease_until), array_agg(l.what) '
                       '  FROM %s.snowflake_registry_losses($1, $2, $3, $4, $5, $6, $7) AS l', own)
           INTO lost_shards, lost_from, lost_until, lost_what
          USING reg, known, caller.confirmed, caller.registry, held, held_from, held_until;
    END IF;
    IF lost_what IS NOT NULL THEN
        loss := (SELECT string_agg(l.what || CASE WHEN l.lease_from IS NULL THEN '' ELSE format(' (it was from %s until %s)', l.lease_from, l.lease_until) END, '; ')
                   FROM unnest(lost_from[:8], lost_until[:8], lost_what[:8]) AS l (lease_from, lease_until, what))
                || CASE WHEN cardinality(lost_what) > 8 THEN format('; and %s more', cardinality(lost_what) - 8) ELSE '' END;
        claim := CASE WHEN length IS NOT NULL      -- a release claims nothing
                      THEN least(greatest(reg.max_lease, length), greatest(length, (SELECT max(u.ends) FROM unnest(held_until) AS u (ends)) - now)) END;
        EXECUTE format('SELECT %1$s.snowflake_registry_fence_until($1, $2 + CASE WHEN $3 > ($1).longest_lease THEN $3 '
                       '                                                         ELSE %1$s.snowflake_registry_longest($1) END, $4)', own)
          USING reg, now, claim, CASE WHEN reg.is_open OR reg.not_before <= now      -- a closed one hears of it at each call
                                      THEN format('%s (holder %s) proves that the registry has forgotten something: %s.', caller.host, caller.holder, loss) END;
    END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_prove(@extschema@.snowflake_registry_caller, @extschema@.snowflake_registry_state,
    @extschema@.snowflake_registry_holders, timestamptz, interval, int[], timestamptz[], timestamptz[])
    IS 'fence the registry if a call proves that it has forgotten something';

-- Begin the answer to a call that is not refused: whether it is accepted, and a row
-- for each loss.  If it is accepted, swap the fence, and note what is new.
CREATE FUNCTION @extschema@.snowflake_registry_admit(
    verdict text, caller @extschema@.snowflake_registry_caller, reg @extschema@.snowflake_registry_state, known @extschema@.snowflake_registry_holders,
    now timestamptz, length interval, held int[], held_from timestamptz[], held_until timestamptz[])
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own  regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    lost record;
BEGIN
    IF verdict = 'clone' THEN
        RETURN QUERY EXECUTE format('SELECT ''clone'', NULL::int, NULL::timestamptz, $1, %s.snowflake_registry_words($2)', own) USING now, known.host;
        RETURN;
    END IF;
    EXECUTE format('SELECT * FROM %s.snowflake_registry_prove($1, $2, $3, $4, $5, $6, $7, $8)', own)
       INTO lost USING caller, reg, known, now, length, held, held_from, held_until;
    IF verdict = 'closed' THEN
        RETURN QUERY SELECT 'closed', NULL::int, NULL::timestamptz, now, current_database()::text;
        RETURN;
    END IF;
    EXECUTE format('INSERT INTO %s.snowflake_registry_holders AS h (holder, role, host, fence, lease, seen_at) '
                   'VALUES ($1, session_user, $2, $3, coalesce($4, interval ''0''), $5) '
                   'ON CONFLICT (holder) DO UPDATE '
                   '   SET fence = excluded.fence, host = excluded.host, seen_at = excluded.seen_at, lease = coalesce($4, h.lease)', own)
      USING caller.holder, caller.host, caller.next, length, now;
    IF reg.layout IS NULL OR length > reg.longest_lease THEN
        EXECUTE format('UPDATE %s.snowflake_registry_state SET layout = $1, last_shard = $2, longest_lease = greatest(longest_lease, $3)', own)
          USING caller.layout, caller.last_shard, length;
        EXECUTE format('SELECT %1$s.snowflake_registry_write(r) FROM %1$s.snowflake_registry_state AS r', own);
    END IF;
    RETURN QUERY SELECT 'accepted', NULL::int, NULL::timestamptz, now, reg.number;
    RETURN QUERY EXECUTE format('SELECT ''lost'', l.shard, l.lease_from, l.lease_until, %s.snowflake_registry_words(l.what) '
                                '  FROM unnest($1, $2, $3, $4) AS l (shard, lease_from, lease_until, what)', own)
        USING lost.lost_shards, lost.lost_from, lost.lost_until, lost.lost_what;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_admit(text, @extschema@.snowflake_registry_caller, @extschema@.snowflake_registry_state,
    @extschema@.snowflake_registry_holders, timestamptz, interval, int[], timestamptz[], timestamptz[]) IS 'begin the answer to a call, and swap the fence';

-- Renew what the caller claims, and what it got when the answer was lost.  A lease
-- that is over by what the caller knows is no claim: after a restore the row can be
-- of an older lease of its, and another server was there since.  Gives the shards.
CREATE FUNCTION @extschema@.snowflake_registry_renew(
    caller @extschema@.snowflake_registry_caller, now timestamptz, length interval, longest interval, is_again boolean,
    held int[], held_from timestamptz[], held_until timestamptz[], wanted int[]) RETURNS int[]
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH claims AS (
        SELECT c.shard, c.claimed_from, c.claimed_until FROM unnest(held, held_from, held_until) AS c (shard, claimed_from, claimed_until)
         UNION ALL
        SELECT s.shard, NULL, NULL FROM @extschema@.snowflake_registry_shards AS s
         WHERE s.holder = (caller).holder AND s.shard <> ALL (held)
    ), renewed AS (
        UPDATE @extschema@.snowflake_registry_shards AS s
           SET lease_from = greatest(s.lease_from, c.claimed_from),
               lease_until = greatest(s.lease_until, least(coalesce(c.claimed_until, s.lease_until), now + longest), now + length)
          FROM claims AS c
         WHERE s.shard = c.shard
           AND s.holder = (caller).holder AND s.lease_until > now AND s.reserved_for IS NULL AND NOT s.is_revoked
           AND (c.claimed_until > now OR is_again AND (wanted IS NULL OR s.shard = ANY (wanted)))
        RETURNING s.shard
    )
    SELECT coalesce(array_agg(r.shard), '{}') FROM renewed AS r;
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_renew(@extschema@.snowflake_registry_caller, timestamptz, interval, interval, boolean,
    int[], timestamptz[], timestamptz[], int[]) IS 'renew a server''s leases';

-- Lease what is free of "wanted", or else so many shards; but not while the registry is
-- fenced, nor if the caller asks for more than it gets ("is_more"), nor more than a holder
-- may have.  Then "full_until" says when it may have more.
CREATE FUNCTION @extschema@.snowflake_registry_lease_free(
    reg @extschema@.snowflake_registry_state, caller @extschema@.snowflake_registry_caller, now timestamptz, length interval, is_more boolean,
    wanted int[], count int, preferred int[], OUT free int[], OUT full_until timestamptz)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    has int;
BEGIN
    IF reg.not_before > now OR is_more THEN
        free := '{}';
    ELSIF wanted IS NULL THEN
        EXECUTE format('SELECT %s.snowflake_registry_find($1, $2, $3, $4)', own) INTO free USING reg, now, count, preferred[:reg.max_shards];
    ELSE
        EXECUTE format('SELECT ARRAY(SELECT DISTINCT w.shard FROM unnest($1) AS w (shard) '
                       '               LEFT JOIN %s.snowflake_registry_shards AS s ON s.shard = w.shard '
                       '              WHERE s.reserved_for IS NULL AND (s.lease_until IS NULL OR s.lease_until <= $2))', own)
           INTO free USING wanted, now;
    END IF;
    EXECUTE format('SELECT count(*), min(s.lease_until) FROM %s.snowflake_registry_shards AS s WHERE s.holder = $1 AND s.lease_until > $2', own)
       INTO has, full_until USING caller.holder, now;
    IF has + cardinality(free) > reg.max_shards THEN
        free := free[:reg.max_shards - has];
    ELSE
        full_until := NULL;
    END IF;
    EXECUTE format('INSERT INTO %1$s.snowflake_registry_shards AS s (shard, holder, lease_from, lease_until) '
                   'SELECT f.shard, $1, greatest(o.lease_until, $2), $3 '
                   '  FROM unnest($4) AS f (shard) LEFT JOIN %1$s.snowflake_registry_shards AS o ON o.shard = f.shard '
                   'ON CONFLICT (shard) DO UPDATE '
                   '   SET holder = excluded.holder, lease_from = excluded.lease_from, lease_until = excluded.lease_until, is_revoked = false', own)
      USING caller.holder, reg.not_before, now + length, free;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_lease_free(@extschema@.snowflake_registry_state, @extschema@.snowflake_registry_caller,
    timestamptz, interval, boolean, int[], int, int[]) IS 'lease free shards';

-- What a server lacks, and what it believes to hold and does not: each of these shards
-- that is not granted.
CREATE FUNCTION @extschema@.snowflake_registry_lacks(
    reg @extschema@.snowflake_registry_state, caller @extschema@.snowflake_registry_caller, now timestamptz, full_until timestamptz,
    held int[], wanted int[], granted int[])
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT CASE WHEN s.reserved_for IS NOT NULL OR s.is_revoked AND s.lease_until > now THEN 'reserved'
                WHEN s.lease_until > now AND s.holder <> (caller).holder THEN 'taken' ELSE 'fenced' END,
           a.shard, NULL::timestamptz,
           CASE WHEN s.reserved_for IS NULL AND (s.is_revoked AND s.lease_until > now) IS NOT TRUE
                THEN greatest(s.lease_until, (reg).not_before, full_until) END,
           @extschema@.snowflake_registry_words(
               CASE WHEN s.reserved_for IS NOT NULL THEN s.reserved_for
                    WHEN s.lease_until <= now THEN NULL
                    WHEN s.is_revoked THEN format('others: its lease was revoked, and ends at %s', s.lease_until)
                    WHEN s.holder <> (caller).holder
                    THEN format('%s%s', coalesce(h.host, 'a server that it does not know'),
                                ' (holder ' || CASE WHEN h.role = session_user THEN s.holder END || ')') END)
      FROM (SELECT unnest(held) AS shard UNION SELECT unnest(wanted)) AS a
      LEFT JOIN @extschema@.snowflake_registry_shards AS s ON s.shard = a.shard
      LEFT JOIN @extschema@.snowflake_registry_holders AS h ON h.holder = s.holder
     WHERE a.shard <> ALL (granted)
     ORDER BY a.shard;
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_lacks(@extschema@.snowflake_registry_state, @extschema@.snowflake_registry_caller,
    timestamptz, timestamptz, int[], int[], int[]) IS 'why a server lacks a shard, and until when';

-- Renew what an admitted server holds, lease what it lacks, and tell it.
CREATE FUNCTION @extschema@.snowflake_registry_lease_shards(
    reg @extschema@.snowflake_registry_state, caller @extschema@.snowflake_registry_caller, now timestamptz, length interval,
    is_again boolean, is_more boolean, held int[], held_from timestamptz[], held_until timestamptz[], wanted int[], auto int, preferred int[])
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own     regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    granted int[];
    is_all  boolean;           -- are these all that it asks for?
    added   record;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_renew($1, $2, $3, $4, $5, $6, $7, $8, $9)', own) INTO granted
      USING caller, now, length, greatest(reg.max_lease, length), is_again, held, held_from, held_until, wanted;
    is_all := NOT is_more AND held <@ granted AND CASE WHEN wanted IS NULL THEN cardinality(granted) >= auto ELSE wanted <@ granted END;
    IF NOT is_all THEN
        EXECUTE format('SELECT * FROM %s.snowflake_registry_lease_free($1, $2, $3, $4, $5, $6, $7, $8)', own) INTO added
          USING reg, caller, now, length, is_more, wanted, greatest(auto - cardinality(granted), 0), preferred;
        granted := granted || added.free;
    END IF;
    RETURN QUERY EXECUTE format('SELECT ''held'', s.shard, s.lease_from, s.lease_until, NULL '
                                '  FROM %s.snowflake_registry_shards AS s WHERE s.shard = ANY ($1) ORDER BY s.shard', own) USING granted;
    IF NOT is_all THEN
        RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_registry_lacks($1, $2, $3, $4, $5, $6, $7)', own)
            USING reg, caller, now, added.full_until, held, CASE WHEN NOT is_more THEN wanted END, granted;
        IF is_more THEN
            RETURN QUERY SELECT 'limited', NULL::int, NULL::timestamptz, NULL::timestamptz, format('%s shards, for %s', reg.max_shards, reg.max_lease);
        ELSIF wanted IS NULL AND cardinality(granted) < auto THEN
            RETURN QUERY EXECUTE format(
                'SELECT ''exhausted'', NULL::int, NULL::timestamptz, '
                '       greatest($1, $2, (SELECT s.lease_until FROM %s.snowflake_registry_shards AS s '
                '                          WHERE s.reserved_for IS NULL AND s.shard <> ALL ($3) '
                '                          ORDER BY s.lease_until LIMIT 1)), NULL', own) USING reg.not_before, added.full_until, granted;
        END IF;
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT ''set_aside'', NULL::int, NULL::timestamptz, NULL::timestamptz, %s.snowflake_registry_set_aside()', own);
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_lease_shards(@extschema@.snowflake_registry_state, @extschema@.snowflake_registry_caller,
    timestamptz, interval, boolean, boolean, int[], timestamptz[], timestamptz[], int[], int, int[]) IS 'renew a server''s leases, lease what it lacks, and tell it';

CREATE FUNCTION @extschema@.snowflake_registry_lease_call(
    caller @extschema@.snowflake_registry_caller, held int[], held_from timestamptz[], held_until timestamptz[],
    wanted int[], auto int, preferred int[], lease interval)
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own     regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    -- in seconds: '12 mons -360 days' is 0 to those who compare, and 5 days to those who add
    length  interval := make_interval(secs => extract(epoch FROM lease)::float8);
    longest interval;
    asked   int := coalesce(cardinality(wanted), auto);
    is_more boolean;           -- does it ask for more than it gets?
    met     record;
BEGIN
    EXECUTE format('SELECT * FROM %s.snowflake_registry_meet($1)', own) INTO met USING caller;
    EXECUTE format('SELECT %s.snowflake_registry_refuse($1, $2, $3, $4, $5, $6, $7, $8)', own)
      USING caller, met.reg, met.known, met.has, greatest(cardinality(held), cardinality(held_from), cardinality(held_until)),
            cardinality(held) = cardinality(held_from) AND cardinality(held) = cardinality(held_until) AND length > interval '0'
            AND coalesce(auto, 0) >= 0 AND (wanted IS NULL OR 0 <= ALL (wanted) AND caller.last_shard >= ALL (wanted)), asked, length;

    -- a limit that was lowered takes nothing from a server that holds something: it keeps
    -- that, and the length of its leases, and gets no more
    longest := greatest((met.reg).max_lease, (met.known).lease);
    is_more := coalesce(length > longest OR asked > greatest((met.reg).max_shards, met.has), false);
    length := least(length, longest);
    RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_registry_admit($1, $2, $3, $4, $5, $6, $7, $8, $9)', own)
        USING met.verdict, caller, met.reg, met.known, met.now, length, held, held_from, held_until;
    IF met.verdict = 'accepted' THEN
        RETURN QUERY EXECUTE format('SELECT l.* FROM %1$s.snowflake_registry_state AS r CROSS JOIN LATERAL '
                                    '%1$s.snowflake_registry_lease_shards(r, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS l', own)
            USING caller, met.now, length, (met.known).fence = caller.next, is_more, held, held_from, held_until, wanted, auto, preferred;
    END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_lease_call(@extschema@.snowflake_registry_caller, int[], timestamptz[], timestamptz[],
    int[], int, int[], interval) IS 'what a server''s call for leases does';

CREATE FUNCTION @extschema@.snowflake_registry_release_call(
    caller @extschema@.snowflake_registry_caller, shards int[], ends timestamptz[])
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    met record;
BEGIN
    EXECUTE format('SELECT * FROM %s.snowflake_registry_meet($1)', own) INTO met USING caller;
    EXECUTE format('SELECT %s.snowflake_registry_refuse($1, $2, $3, $4, $5, $6, $7, $8)', own)
      USING caller, met.reg, met.known, met.has, greatest(cardinality(shards), cardinality(ends)), cardinality(shards) = cardinality(ends),
            NULL::int, NULL::interval;
    RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_registry_admit($1, $2, $3, $4, $5, $6, $7, $8, $9)', own)
        USING met.verdict, caller, met.reg, met.known, met.now, NULL::interval, '{}'::int[], '{}'::timestamptz[], '{}'::timestamptz[];
    IF met.verdict = 'accepted' THEN
        EXECUTE format('UPDATE %s.snowflake_registry_shards AS s '
                       '   SET lease_until = greatest(s.lease_from, least(s.lease_until, e.lease_end)) '
                       '  FROM unnest($2, $3) AS e (shard, lease_end) '
                       ' WHERE s.shard = e.shard AND s.holder = $1', own) USING caller.holder, shards, ends;
    END IF;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_release_call(@extschema@.snowflake_registry_caller, int[], timestamptz[])
    IS 'what a server''s release does';

-- The one call of a server: renew what it holds, and lease what it lacks.
--
--	* "confirmed": the fence of its last call that was answered; "registry": the
--	  number of the registry that answered;
--	* "held": the shards that it holds, as far as it knows, and their times;
--	* "wanted": the shards that it is to hold; or NULL for "auto" of them, of
--	  which it likes "preferred" best.
--
-- The first row says whether the call was accepted, and the registry's time.
-- Then a row a shard, a row for each loss that the call proved, and one that
-- lists the reserved shards:
--
--	  state     | shard | lease_from | lease_until | other
--	 -----------+-------+------------+-------------+-----------------------
--	  accepted  |       |            | now         | the registry's number
--	  clone     |       |            | now         | who called in its name
--	  closed    |       |            | now         | the registry's database
--	  lost      | if one| as claimed | as claimed  | what was forgotten
--	  held      | has   | has        | has         |
--	  taken     | has   |            | has         | who has it
--	  fenced    | has   |            | has         |
--	  reserved  | has   |            |             | for what
--	  exhausted |       |            | a shard is free then, if ever |
--	  limited   |       |            |             | 16 shards, for 10 min
--	  set_aside |       |            |             | 900-903,1000
CREATE FUNCTION @extschema@.snowflake_registry_lease(
    holder text, fence bigint, next bigint, confirmed bigint, host text, layout text, last_shard int, registry text,
    held int[], held_from timestamptz[], held_until timestamptz[],
    wanted int[], auto int, preferred int[], lease interval)
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT @extschema@.snowflake_registry_guard();
    SELECT @extschema@.snowflake_registry_check(holder, host, layout, registry);
    SELECT @extschema@.snowflake_registry_lock();
    SELECT * FROM @extschema@.snowflake_registry_lease_call(
        ROW(holder, fence, next, confirmed, host, layout, last_shard, registry)::@extschema@.snowflake_registry_caller,
        held, held_from, held_until, wanted, auto, preferred, lease);
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_lease(text, bigint, bigint, bigint, text, text, int, text,
    int[], timestamptz[], timestamptz[], int[], int, int[], interval)
    IS 'renew a server''s leases, and lease what it lacks; called by servers';

-- Give leases back: "ends" has, for each shard, the end of the last id minted.  The
-- answer is the first row of the above, and a row for each loss.
CREATE FUNCTION @extschema@.snowflake_registry_release(
    holder text, fence bigint, next bigint, confirmed bigint, host text, layout text, last_shard int, registry text,
    shards int[], ends timestamptz[])
RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT @extschema@.snowflake_registry_guard();
    SELECT @extschema@.snowflake_registry_check(holder, host, layout, registry);
    SELECT @extschema@.snowflake_registry_lock();
    SELECT * FROM @extschema@.snowflake_registry_release_call(
        ROW(holder, fence, next, confirmed, host, layout, last_shard, registry)::@extschema@.snowflake_registry_caller, shards, ends);
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_release(text, bigint, bigint, bigint, text, text, int, text, int[], timestamptz[])
    IS 'give leases back; called by servers';

-- For people

CREATE VIEW @extschema@.snowflake_registry_leases AS
SELECT s.shard, s.holder, h.host, s.lease_from, s.lease_until,
       greatest(s.lease_until - clock_timestamp(), interval '0') AS time_left,
       r.is_open AND s.reserved_for IS NULL AND greatest(s.lease_until, r.not_before) <= clock_timestamp() AS free,
       s.is_revoked AND s.lease_until > clock_timestamp() AS revoked,
       s.reserved_for
  FROM @extschema@.snowflake_registry_shards AS s
  LEFT JOIN @extschema@.snowflake_registry_holders AS h ON h.holder = s.holder
  LEFT JOIN @extschema@.snowflake_registry_state AS r ON true;
COMMENT ON VIEW @extschema@.snowflake_registry_leases IS 'each shard that was ever leased or is reserved: who has it, where, and until when';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.shard IS 'the shard';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.holder IS 'who has the lease, or had it';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.host IS 'the holder''s server';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.lease_from IS 'the holder mints ids from this time on';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.lease_until IS 'and before this one';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.time_left IS 'how long the lease lasts';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.free IS 'whether a server can lease the shard now';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.revoked IS 'whether the lease is in force, and is not renewed any more';
COMMENT ON COLUMN @extschema@.snowflake_registry_leases.reserved_for IS 'never leased, for this reason';

CREATE VIEW @extschema@.snowflake_registry_summary AS
SELECT r.layout, r.last_shard + 1 AS shards,
       count(*) FILTER (WHERE l.time_left > interval '0' AND l.reserved_for IS NULL)::int AS leased,
       count(l.reserved_for)::int AS reserved,
       CASE WHEN r.is_open AND r.not_before <= clock_timestamp()
            THEN r.last_shard + 1 - count(*) FILTER (WHERE NOT l.free)::int ELSE 0 END AS free,
       count(DISTINCT l.holder) FILTER (WHERE l.time_left > interval '0')::int AS holders,
       r.not_before, r.is_open, r.max_lease, r.max_shards, r.number
  FROM @extschema@.snowflake_registry_state AS r
  LEFT JOIN @extschema@.snowflake_registry_leases AS l ON true
 GROUP BY r.layout, r.last_shard, r.not_before, r.is_open, r.max_lease, r.max_shards, r.number;
COMMENT ON VIEW @extschema@.snowflake_registry_summary IS 'how many shards are leased, reserved and free';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.layout IS 'the layout of the servers that lease here';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.shards IS 'how many shards the layout has';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.leased IS 'how many of them are leased';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.reserved IS 'how many are reserved';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.free IS 'how many a server can lease now';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.holders IS 'how many servers hold one';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.not_before IS 'no new lease begins before this time';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.is_open IS 'whether the registry leases shards';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.max_lease IS 'no server gets a longer lease';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.max_shards IS 'no server gets more shards';
COMMENT ON COLUMN @extschema@.snowflake_registry_summary.number IS 'the random number of the registry';

-- Lease shards from now on, to servers that may have leases that this registry
-- does not know, none of them longer than this.  The view is not the extension's:
-- so DROP EXTENSION needs CASCADE once there can be leases.
CREATE FUNCTION @extschema@.snowflake_registry_open(longest_lease interval, layout text DEFAULT NULL, last_shard int DEFAULT NULL)
    RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    reg record;                -- the state
    has_leases boolean;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_lock()', own);
    EXECUTE format('SELECT * FROM %s.snowflake_registry_enter()', own) INTO reg;
    IF longest_lease IS NULL OR longest_lease NOT BETWEEN interval '0' AND interval '1 day' OR (layout IS NULL) <> (last_shard IS NULL)
       OR last_shard NOT BETWEEN 0 AND 1048575 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the snowflake registry cannot be opened in this way',
            DETAIL = format('The longest lease is %s; the layout is %s, and its last shard %s, of 1048575 at most.',
                            coalesce(longest_lease::text, 'NULL'), coalesce('"' || layout || '"', 'not given'), coalesce(last_shard::text, 'is not given')),
            HINT = 'Give the longest "snowflake.lease" of all servers, 1 day at most; ''0'' if no server ever leased a shard in this layout. A layout comes with its last shard.';
    END IF;
    IF layout <> reg.layout OR last_shard <> reg.last_shard THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %s.snowflake_registry_shards AS s WHERE s.lease_until > clock_timestamp())', own)
           INTO has_leases;
        IF has_leases THEN
            RAISE object_in_use USING
                MESSAGE = 'the snowflake registry has leases in another layout',
                DETAIL = format('Its layout is "%s", with shards 0 to %s.', reg.layout, reg.last_shard),
                HINT = 'Wait until they have ended: see view snowflake_registry_leases.';
        END IF;
        reg.first_unused := 0;
    END IF;
    EXECUTE format('UPDATE %s.snowflake_registry_state AS r SET layout = coalesce($1, r.layout), last_shard = coalesce($2, r.last_shard), '
                   'longest_lease = greatest(r.longest_lease, $3), first_unused = $4, is_open = true', own)
      USING layout, last_shard, longest_lease, reg.first_unused;
    EXECUTE format('SELECT f.* FROM %1$s.snowflake_registry_state AS r CROSS JOIN LATERAL %1$s.snowflake_registry_fence_until(r, $1, $2) AS f', own)
       INTO reg USING clock_timestamp() + longest_lease, 'Somebody has opened it.';
    EXECUTE format('CREATE OR REPLACE VIEW %1$s.snowflake_registry_in_use AS '
                   'SELECT l.shard, l.host, l.lease_until FROM %1$s.snowflake_registry_leases AS l WHERE l.time_left > interval ''0''', own);
    EXECUTE format('COMMENT ON VIEW %s.snowflake_registry_in_use IS %L', own,
                   'the leases in force; made by snowflake_registry_open(), so that nobody drops them by mistake');
    -- or it would stay the view of whoever made one of this name, for others to read
    EXECUTE format('ALTER VIEW %s.snowflake_registry_in_use OWNER TO %s', own,
                   (SELECT extowner::regrole FROM pg_extension WHERE extname = 'snowflake_registry'));
    RETURN reg.not_before;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_open(interval, text, int)
    IS 'lease shards, after the end of all leases that other registries may have given';

CREATE FUNCTION @extschema@.snowflake_registry_fence(longest_lease interval DEFAULT NULL) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    ends timestamptz;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_lock()', own);
    EXECUTE format('SELECT %s.snowflake_registry_enter()', own);
    IF longest_lease NOT BETWEEN interval '0' AND interval '1 day' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('no snowflake lease lasts for %s', longest_lease),
            DETAIL = 'It lasts for 1 day at most.';
    END IF;
    EXECUTE format('SELECT f.not_before FROM %1$s.snowflake_registry_state AS r CROSS JOIN LATERAL '
                   '%1$s.snowflake_registry_fence_until(r, clock_timestamp() + coalesce($1, %1$s.snowflake_registry_longest(r)), $2) AS f', own)
       INTO ends USING longest_lease, 'Somebody asked for it.';
    RETURN ends;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_fence(interval) IS 'let no new lease begin before the end of all that the registry may have forgotten';

-- Take a fence back that ends too late: somebody gave a time that was too long, or this
-- server's clock was ahead.  What the registry knows of stays as it is.
CREATE FUNCTION @extschema@.snowflake_registry_unfence(longest_lease interval) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own  regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    ends timestamptz;
    was  timestamptz;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_lock()', own);
    EXECUTE format('SELECT not_before FROM %s.snowflake_registry_enter()', own) INTO was;
    IF longest_lease NOT BETWEEN interval '0' AND interval '1 day' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('no snowflake lease lasts for %s', longest_lease),
            DETAIL = 'It lasts for 1 day at most.';
    END IF;
    ends := least(was, clock_timestamp() + longest_lease);
    IF ends < was THEN
        RAISE WARNING USING
            MESSAGE = 'the fence of the snowflake registry was taken back',
            DETAIL = format('New leases begin at %s, and not at %s. Ids can exist twice if a server has a lease that the registry has forgotten, and that ends later.', ends, was),
            HINT = 'Roll this back, unless no server can have had a lease that was longer than the time that you gave.';
    END IF;
    EXECUTE format('UPDATE %s.snowflake_registry_state AS r SET not_before = $1', own) USING ends;
    EXECUTE format('SELECT %1$s.snowflake_registry_write(r) FROM %1$s.snowflake_registry_state AS r', own);
    RETURN ends;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_unfence(interval) IS 'take a fence back that ends too late';

-- A longest lease that is less than what servers had is no excuse for a fence that
-- ends before theirs.
CREATE FUNCTION @extschema@.snowflake_registry_limit(max_lease interval, max_shards int) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    who text;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_lock()', own);
    EXECUTE format('SELECT %s.snowflake_registry_enter()', own);
    IF max_lease > interval '1 day' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('no snowflake lease lasts for %s', max_lease),
            DETAIL = 'It lasts for 1 day at most.';
    ELSIF max_lease <= interval '0' OR max_shards < 1 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'a limit of the snowflake registry is too low',
            DETAIL = format('A lease of %s and %s shards would let no server mint.', max_lease, max_shards);
    END IF;
    EXECUTE format('SELECT string_agg(format(''%%s (holder %%s) has %%s shards for %%s.'', c.host, c.holder, c.shards, c.lease), '' '') '
                   '  FROM (SELECT h.host, h.holder, h.lease, count(*) AS shards FROM %1$s.snowflake_registry_holders AS h '
                   '          JOIN %1$s.snowflake_registry_shards AS s ON s.holder = h.holder '
                   '         WHERE s.lease_until > clock_timestamp() GROUP BY h.holder HAVING count(*) > $2 OR h.lease > $1 '
                   '         ORDER BY count(*) DESC, h.holder LIMIT 20) AS c', own) INTO who USING max_lease, max_shards;
    IF who IS NOT NULL THEN
        RAISE WARNING USING
            MESSAGE = 'servers have more than the new limits of the snowflake registry',
            DETAIL = who,
            HINT = 'They keep what they hold, and get no more. Let them ask for less by "snowflake.shards" and "snowflake.lease": when one has lost its leases, it is refused.';
    END IF;
    EXECUTE format('UPDATE %1$s.snowflake_registry_state AS r SET max_lease = $1, max_shards = $2, longest_lease = least(r.longest_lease, '
                   'greatest($1, (SELECT max(s.lease_until) FROM %1$s.snowflake_registry_shards AS s) - clock_timestamp()))', own)
      USING max_lease, max_shards;
    EXECUTE format('SELECT %1$s.snowflake_registry_write(r) FROM %1$s.snowflake_registry_state AS r', own);
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_limit(interval, int) IS 'set how long a lease can be, and how many shards a server can have';

-- Reserve a shard that nobody can have: not while it is leased, nor while the registry
-- may have forgotten a lease of it; or from now on, to be minted on when that has
-- ended.  Gives until when others may mint ids of it, or could.
CREATE FUNCTION @extschema@.snowflake_registry_reserve(shard int, reason text, after_lease boolean DEFAULT false) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own   regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    reg   record;              -- the state
    lease record;              -- of the shard
    ends  timestamptz;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_lock()', own);
    EXECUTE format('SELECT * FROM %s.snowflake_registry_enter()', own) INTO reg;
    IF $1 NOT BETWEEN 0 AND coalesce(reg.last_shard, 1048575) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('the layout has no shard %s', $1),
            DETAIL = format('Its shards are 0 to %s.', coalesce(reg.last_shard, 1048575));
    END IF;
    EXECUTE format('SELECT * FROM %s.snowflake_registry_leases AS l WHERE l.shard = $1', own) INTO lease USING $1;
    ends := greatest(lease.lease_until, CASE WHEN reg.not_before > clock_timestamp() THEN reg.not_before END);
    IF lease.lease_until > clock_timestamp() AND NOT $3 THEN
        RAISE object_in_use USING
            MESSAGE = format('shard %s is leased', $1),
            DETAIL = format('%s (holder %s) has it until %s.', coalesce(lease.host, 'A server that it does not know'), lease.holder, lease.lease_until),
            HINT = format('Take the shard from that server''s "snowflake.shards", or call snowflake_registry_reserve(%s, ..., after_lease => true) and mint on it after that time.', $1);
    ELSIF reg.not_before > clock_timestamp() AND NOT $3 THEN
        RAISE object_in_use USING
            MESSAGE = format('shard %s may be leased', $1),
            DETAIL = format('The registry is fenced until %s: it may have forgotten leases.', reg.not_before),
            HINT = format('Wait until then, or call snowflake_registry_reserve(%s, ..., after_lease => true) and mint on it after that time.', $1);
    ELSIF lease.lease_from IS NOT NULL OR ends > clock_timestamp() THEN
        RAISE WARNING USING
            MESSAGE = format('others may have minted ids of shard %s', $1),
            DETAIL = format('Their times are before %s.', ends),
            HINT = 'Mint no id of an earlier time on it: snowflake_history() needs another shard.';
    ELSIF NOT reg.is_open THEN
        RAISE WARNING USING
            MESSAGE = 'the snowflake registry is not open, and does not know who mints on this shard',
            HINT = 'Mint on it after the time that snowflake_registry_open() returns.';
    END IF;
    EXECUTE format('INSERT INTO %s.snowflake_registry_shards (shard, reserved_for) VALUES ($1, $2) '
                   'ON CONFLICT (shard) DO UPDATE SET reserved_for = excluded.reserved_for', own) USING $1, $2;
    RETURN ends;
END
$$;

-- Ids may have been minted on it until now.
CREATE FUNCTION @extschema@.snowflake_registry_unreserve(shard int) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    was integer;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_lock()', own);
    EXECUTE format('SELECT %s.snowflake_registry_enter()', own);
    EXECUTE format('UPDATE %s.snowflake_registry_shards AS s '
                   '   SET reserved_for = NULL, lease_until = greatest(s.lease_until, clock_timestamp()) '
                   ' WHERE s.shard = $1 AND s.reserved_for IS NOT NULL RETURNING s.shard', own) INTO was USING $1;
    IF was IS NULL THEN
        RAISE undefined_object USING MESSAGE = format('shard %s is not reserved', $1);
    END IF;
END
$$;

-- The holder mints until the end of its lease, or until its next call.
CREATE FUNCTION @extschema@.snowflake_registry_revoke(shard int) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    ends timestamptz;
BEGIN
    EXECUTE format('SELECT %s.snowflake_registry_lock()', own);
    EXECUTE format('SELECT %s.snowflake_registry_enter()', own);
    EXECUTE format('UPDATE %s.snowflake_registry_shards AS s SET is_revoked = true '
                   ' WHERE s.shard = $1 AND s.lease_until > clock_timestamp() RETURNING s.lease_until', own) INTO ends USING $1;
    IF ends IS NULL THEN
        RAISE undefined_object USING MESSAGE = format('shard %s is not leased', $1);
    END IF;
    RETURN ends;
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_registry_reserve(int, text, boolean) IS 'let no server lease a shard';
COMMENT ON FUNCTION @extschema@.snowflake_registry_unreserve(int) IS 'let servers lease a reserved shard again';
COMMENT ON FUNCTION @extschema@.snowflake_registry_revoke(int) IS 'do not renew the lease of a shard any more; gives when it ends';

-- The functions of this extension with one of these names.
CREATE FUNCTION @extschema@.snowflake_registry_functions(names text) RETURNS SETOF regprocedure
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT p.oid FROM pg_proc AS p
      JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
      JOIN pg_extension AS e ON d.refobjid = e.oid     -- an entry of type 'e' is of an extension
     WHERE e.extname = 'snowflake_registry' AND p.proname ~ $1;
END;
COMMENT ON FUNCTION @extschema@.snowflake_registry_functions(text) IS 'the functions of this extension whose names match';

-- An extension cannot make a role.  This one gives a role what a server needs,
-- and nothing else.
CREATE FUNCTION @extschema@.snowflake_registry_grant(role regrole) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake_registry');
    function regprocedure;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', own, role);
    FOR function IN EXECUTE format('SELECT %s.snowflake_registry_functions($1)', own) USING '_(lease|release)$' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', function, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION @extschema@.snowflake_registry_grant(regrole) IS 'let a role lease shards, and do nothing else';

DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN SELECT @extschema@.snowflake_registry_functions(''::text) LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$$;
