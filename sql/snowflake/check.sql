-- One question: what is wrong?  A row a finding, in the order in which one is the
-- cause of the next, and a row for each part in which nothing was found.
--
-- Being STABLE, it can neither mint nor change anything, and it works on a standby,
-- without the library in memory, and for those who may see little: what they may not
-- see, it names.  It reads catalogs, the state of the server, and of a table the
-- greatest id alone, by an index: no table is scanned, none runs code of its owner's
-- (see src/tables.c), locks are waited for 0.2 s each and 5 s in all, and no more than a
-- thousand tables are looked into.

CREATE FUNCTION @extschema@.snowflake_check(held_for interval DEFAULT '5 min', partitions_for interval DEFAULT '7 days',
        OUT area text, OUT state text, OUT finding text, OUT next_step text)
    RETURNS SETOF record ROWS 20
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
    SET lock_timeout = '200ms'
AS $$
DECLARE
    max_tables CONSTANT integer := 1000;
    own         regnamespace;  -- the extension's schema
    own_type    oid;           -- snowflake
    minters     oid[];         -- snowflake_nextval
    is_standby  boolean := pg_is_in_recovery();
    own_shards  text;
    layout      record;        -- in use
    reads       boolean := false;  -- ids in it
    message     text;
    detail      text;
    hint        text;
    status      jsonb;
    latest      timestamptz := clock_timestamp();  -- no id of this server is later
    hidden      text[] := '{}';
    unseen      text[] := '{}';    -- tables, with the reason
    looked      integer := 0;
    patience    integer := 5000;   -- for locks, in ms
    look        record;
    item        record;
    newest      bigint;
    minted_at   timestamptz;
    shard       integer;
    last_range  record;
    found_any   boolean;
BEGIN
    IF held_for IS NULL OR partitions_for IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'held_for and partitions_for must not be null';
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    own_type := format('%s.snowflake', own)::regtype;
    minters := ARRAY[format('%s.snowflake_nextval()', own)::regprocedure, format('%s.snowflake_nextval(integer)', own)::regprocedure];

    -- The library, and the layout.
    SELECT NULL::text AS name, NULL::timestamptz AS expires_at INTO layout;
    BEGIN
        EXECUTE format('SELECT * FROM %s.snowflake_layouts() WHERE in_use', own) INTO layout;
        IF layout.name IS NULL THEN
            RETURN QUERY SELECT 'preload', 'error', 'the library is not preloaded, so nothing mints, and ids are read in named layouts only',
                'Add ''snowflake'' to "shared_preload_libraries" in postgresql.conf, and restart the server.';
        ELSE
            RETURN QUERY SELECT 'preload', 'ok', 'the library is preloaded', NULL;
            reads := true;
            EXECUTE format('SELECT %s.snowflake_shard(0::bigint)', own);
            RETURN QUERY SELECT 'layout', 'ok', format('the layout is %s, as recorded', coalesce(layout.name, layout.specification)), NULL;
        END IF;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        RETURN QUERY SELECT CASE WHEN reads THEN 'layout' ELSE 'preload' END, 'error',
            concat_ws('. ', message, nullif(detail, '')), nullif(hint, '');
        reads := false;
    END;
    IF layout.expires_at < clock_timestamp() + interval '2 years' THEN
        RETURN QUERY SELECT 'expiry', CASE WHEN layout.expires_at < clock_timestamp() + interval '90 days' THEN 'error' ELSE 'warning' END,
            format('the layout expires at %s: no id can be minted afterwards', layout.expires_at),
            'Plan the change of the layout: doc/layout.md.';
    ELSIF layout.name IS NOT NULL THEN
        RETURN QUERY SELECT 'expiry', 'ok', format('the layout expires at %s', layout.expires_at), NULL;
    END IF;

    IF layout.name IS NOT NULL THEN
        -- Settings.
        own_shards := current_setting('snowflake.shards', true);
        IF btrim(own_shards) = '' THEN
            RETURN QUERY SELECT 'shards', 'warning',
                'no shard is configured: snowflake_nextval() fails, and snowflake_nextval(shard) takes every shard, also another server''s',
                'Give this server shards that are its own, in postgresql.conf: snowflake.shards = ''5''';
        ELSE
            RETURN QUERY SELECT 'shards', 'ok', format('snowflake.shards is ''%s''', own_shards), NULL;
        END IF;
        -- What snowflake_plain mints in this database: the comment of a sequence has its layout.
        RETURN QUERY
        WITH plain AS (SELECT c.oid::regclass AS name, substring(c.relname FROM '[0-9]+$')::numeric AS shard,
                              substring(obj_description(c.oid, 'pg_class') FROM '^the last position of a shard of layout "(.*)";') AS its_layout
                         FROM pg_class AS c WHERE c.relkind = 'S' AND c.relname ~ '^snowflake_shard_[0-9]+$')
        SELECT 'shards', 'error', format('shard %s is that of sequence %s, and of %s, so ids repeat', p.shard, p.name, coalesce('sequence ' || same.name, '"snowflake.shards"')),
               'Give one of them another shard: SELECT snowflake_plain_setup(layout, shards); or change "snowflake.shards". If nothing mints there any more, drop the sequence.'
          FROM plain AS p LEFT JOIN plain AS same ON same.shard = p.shard AND same.its_layout = p.its_layout AND same.name::oid > p.name::oid
         WHERE same.name IS NOT NULL
            OR p.its_layout IN (layout.name, layout.specification)
               AND EXISTS (SELECT FROM regexp_matches(own_shards, '(?:^|,)[[:space:]]*([0-9]+)[[:space:]]*(?:-[[:space:]]*([0-9]+))?', 'g') AS m
                            WHERE p.shard BETWEEN m[1]::numeric AND coalesce(m[2], m[1])::numeric)
         ORDER BY p.shard, p.name;
        RETURN QUERY SELECT 'settings', 'warning', format('%s has another value in the configuration file than in use', s.name),
                            'Restart the server, or take the value back from the file.'
                       FROM pg_settings AS s WHERE s.name LIKE 'snowflake.%' AND s.pending_restart ORDER BY s.name;

        -- The server: standby, horizon, clone.
        IF is_standby THEN
            RETURN QUERY SELECT 'standby', 'notice', 'this server is a standby: it mints nothing', 'Mint on the primary server.';
        END IF;
        IF NOT has_function_privilege(format('%s.snowflake_horizon()', own), 'EXECUTE') THEN
            hidden := hidden || ARRAY['the horizon', 'whether this is a clone'];
        ELSE
            EXECUTE format('SELECT to_jsonb(h) FROM %s.snowflake_horizon() AS h', own) INTO status;
            latest := greatest(latest, (status->>'horizon')::timestamptz);
            IF status->>'clone_of' IS NOT NULL THEN
                RETURN QUERY SELECT 'clone', CASE WHEN current_setting('snowflake.refuse_clone', true)::boolean THEN 'error' ELSE 'warning' END,
                    format('this server is a clone of %s: %s', status->>'clone_of', status->>'clone_evidence'),
                    'Give it other shards than its original''s. Then, or if the original is gone for good: SELECT snowflake_accept_clone();';
            ELSIF NOT is_standby THEN
                RETURN QUERY SELECT 'clone', 'ok', 'this server is no clone', NULL;
            END IF;
            IF status->>'last_error' IS NOT NULL THEN
                RETURN QUERY SELECT 'horizon', 'error', format('the horizon cannot be renewed: %s', status->>'last_error'),
                    'Remove the cause, such as a full disk. Minting goes on by itself then.';
            ELSIF (status->>'waiting_since')::timestamptz < clock_timestamp() - interval '5 s' THEN
                RETURN QUERY SELECT 'horizon', 'warning',
                    format('the renewal of the horizon waits for %s since %s', status->>'waiting_for', status->>'waiting_since'),
                    CASE status->>'waiting_for' WHEN 'disk' THEN 'Look at the disk of the data directory.'
                    ELSE 'Start the standbys that "synchronous_standby_names" names, or change that: SELECT * FROM pg_stat_replication;' END;
            ELSE
                RETURN QUERY SELECT 'horizon', 'ok', coalesce('the horizon is ' || (status->>'horizon'), 'nothing was minted yet'), NULL;
            END IF;
            IF NOT is_standby AND (status->>'seconds_ahead')::float8 > 1 + 2 * extract(epoch FROM current_setting('snowflake.reserve')::interval)
                                                                 + extract(epoch FROM current_setting('snowflake.clock_tolerance')::interval) THEN
                RETURN QUERY SELECT 'clock', 'error',
                    format('the clock is behind the horizon, which is %s s ahead: calls fail until it has passed', (status->>'seconds_ahead')::numeric(20, 1)),
                    'Check the clock: timedatectl. If it is right, minting begins by itself at the horizon.';
            ELSIF NOT is_standby THEN
                RETURN QUERY SELECT 'clock', 'ok', 'the clock is not behind the horizon', NULL;
            END IF;
        END IF;

        -- Leases.
        IF NOT has_function_privilege(format('%s.snowflake_lease_status()', own), 'EXECUTE') THEN
            hidden := hidden || 'the leases'::text;
        ELSE
            EXECUTE format('SELECT to_jsonb(l) FROM %s.snowflake_lease_status() AS l', own) INTO status;
            IF status->>'state' = 'off' THEN
                RETURN QUERY SELECT 'leases', CASE WHEN own_shards ~ '^\s*auto' THEN 'error' ELSE 'ok' END,
                    'no registry is used: only "snowflake.shards" keeps servers apart',
                    CASE WHEN own_shards ~ '^\s*auto' THEN 'List the shards of this server, or set "snowflake.registry".' END;
            ELSIF is_standby AND status->>'state' <> 'held' THEN
                RETURN QUERY SELECT 'leases', 'ok', 'a standby holds no lease', NULL;
            ELSIF status->>'last_error' IS NOT NULL THEN
                RETURN QUERY SELECT 'registry', CASE status->>'state' WHEN 'held' THEN 'warning' ELSE 'error' END,
                    format('%s (leases: %s, until %s)', status->>'last_error', status->>'state', coalesce(status->>'lease_until', 'none')),
                    CASE WHEN status->>'last_error' ~ 'not open'
                         THEN 'In the registry''s database: SELECT snowflake_registry_open(longest_lease); where ''0'' says that no server ever had a lease in this layout.'
                         WHEN status->>'last_error' ~ 'no extension|does not exist'
                         THEN 'Correct "dbname" in "snowflake.registry". Only if the registry is to be new, in its database: CREATE EXTENSION snowflake_registry;'
                         WHEN status->>'last_error' ~ 'permission denied'
                         THEN 'In the registry''s database, for the role in "snowflake.registry": SELECT snowflake_registry_grant(''role'');'
                         ELSE 'Check that the registry runs, and try "snowflake.registry" from this server: psql ''host=... dbname=... user=...''' END;
            ELSE
                RETURN QUERY SELECT 'leases', CASE status->>'state' WHEN 'held' THEN 'ok' ELSE 'error' END,
                    CASE status->>'state' WHEN 'held' THEN format('%s shards are leased until %s', status->>'shards', status->>'lease_until')
                                          WHEN 'none' THEN 'this server holds no lease'
                                          ELSE format('the leases ended at %s', status->>'lease_until') END,
                    CASE status->>'state' WHEN 'held' THEN NULL ELSE 'SELECT * FROM snowflake_leases(); shows the shards that others hold.' END;
            END IF;
            IF (status->>'losses')::integer > 0 THEN
                RETURN QUERY SELECT 'registry', 'error', format('the registry forgot leases of this server: %s', status->>'last_loss'),
                    'Audit the tables that have ids of that shard and time: snowflake_audit().';
            END IF;
            IF (status->>'restart_pending')::boolean THEN
                RETURN QUERY SELECT 'settings', 'warning', '"snowflake.registry" has another value in the configuration file than in use', 'Restart the server.';
            END IF;
            IF abs((status->>'clock_ahead')::float8) > 1 THEN
                RETURN QUERY SELECT 'clock', 'warning', format('the clock is %s s ahead of the registry''s', (status->>'clock_ahead')::numeric(20, 1)),
                    'Check the time synchronization of this server and of the registry''s: timedatectl';
            END IF;
            RETURN QUERY EXECUTE format('SELECT ''leases'', ''error'', format(''shard %%s is not this server''''s: %%s'', shard, holder), '
                '''Give each server shards of its own in "snowflake.shards", or set it to "auto".'' '
                '  FROM %s.snowflake_leases() WHERE NOT held ORDER BY shard LIMIT 10', own);
        END IF;

        -- What holds up those who read new rows.
        IF NOT reads OR NOT has_function_privilege(format('%s.snowflake_stat_backends()', own), 'EXECUTE') THEN
            hidden := hidden || 'sessions that hold the mark'::text;
        ELSE
            found_any := false;
            FOR item IN EXECUTE format('SELECT pid, clock_timestamp() - holding_since AS held FROM %s.snowflake_stat_backends() '
                                       ' WHERE holding_since < clock_timestamp() - $1 ORDER BY holding_since LIMIT 10', own) USING held_for LOOP
                found_any := true;
                RETURN QUERY SELECT 'mark', 'warning', format('session %s has held the mark of snowflake_settled() for %s', item.pid, item.held),
                    format('End its transaction, or: SELECT pg_terminate_backend(%s);', item.pid);
            END LOOP;
            IF NOT found_any THEN
                RETURN QUERY SELECT 'mark', 'ok', format('no session has held the mark for %s', held_for), NULL;
            END IF;
        END IF;
        RETURN QUERY SELECT 'mark', 'warning', format('prepared transaction "%s" of database "%s" is open since %s, and may hold the mark', p.gid, p.database, p.prepared),
                            format('In database "%s": COMMIT PREPARED %L; or ROLLBACK PREPARED %2$L;', p.database, p.gid)
                       FROM pg_prepared_xacts AS p WHERE p.prepared < clock_timestamp() - held_for ORDER BY p.prepared LIMIT 10;

        -- A mark never goes back: one of this server's own name that is above the present
        -- one is of another history.
        FOR item IN
            SELECT c.oid::regclass AS name FROM pg_class AS c
             WHERE reads AND NOT is_standby AND c.relname = 'snowflake_marks' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND NOT pg_is_other_temp_schema(c.relnamespace)
             ORDER BY c.oid LIMIT 10
        LOOP
            BEGIN
                EXECUTE format('SELECT server, mark, present FROM (SELECT %1$s.snowflake_settled()::bigint AS present) AS p, '
                               '%1$s.snowflake_read_marks($1) WHERE mark > present AND server = (SELECT format(''%%s/%%s'', '
                               'system_identifier, current_database()) FROM pg_control_system())', own)
                    INTO last_range USING item.name;
                IF last_range.mark IS NOT NULL THEN
                    RETURN QUERY SELECT 'mark', 'warning', format('the mark %s that table %s has of this server is above its present one, %s: it is of another history or layout',
                                                                  last_range.mark, item.name, last_range.present),
                        format('SELECT %s.snowflake_publish_mark(marks => %L);', own, item.name);
                END IF;
                -- One under a name that was the default before pg_upgrade or ALTER DATABASE RENAME stands still.
                EXECUTE format('SELECT string_agg(quote_literal(server), '', '' ORDER BY server) AS names FROM %s.snowflake_read_marks($1) WHERE came_by IS NULL '
                               'AND server ~ ''^[0-9]{10,}/'' AND server <> (SELECT format(''%%s/%%s'', system_identifier, current_database()) FROM pg_control_system())', own)
                    INTO last_range USING item.name;
                IF last_range.names IS NOT NULL THEN
                    RETURN QUERY SELECT 'mark', 'warning', format('table %s has marks under names that are not this database''s, and no subscription brought them: %s', item.name, last_range.names),
                        format('If one of them was its name, let readers go by the new one. Then: DELETE FROM %s WHERE server IN (%s);', item.name, last_range.names);
                END IF;
            EXCEPTION
                WHEN OTHERS THEN
                    hidden := hidden || format('marks in table %s', item.name);
            END;
        END LOOP;
    END IF;

    -- The columns of this database.  Partitions and children are their parents'.
    found_any := false;
    FOR item IN
        SELECT c.oid::regclass AS name, a.attname, a.atttypid, c.relkind, a.attidentity, a.atthasdef,
               c.oid, d.mints, i.is_key, i.is_indexed, r.refers, s.sequence
          FROM pg_class AS c
          JOIN pg_attribute AS a ON a.attrelid = c.oid
          JOIN pg_type AS t ON t.oid = a.atttypid
         CROSS JOIN LATERAL (SELECT EXISTS (
               SELECT FROM pg_attrdef AS e
                 JOIN pg_depend AS p ON p.classid = 'pg_attrdef'::regclass AND p.objid = e.oid
                WHERE e.adrelid = c.oid AND e.adnum = a.attnum
                  AND p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY (minters))) AS d(mints)
         CROSS JOIN LATERAL (
               SELECT coalesce(bool_or(x.indisprimary AND x.indnkeyatts = 1), false), coalesce(bool_or(x.indpred IS NULL AND m.amname = 'btree' AND x.indisvalid), false)
                 FROM pg_index AS x JOIN pg_class AS o ON o.oid = x.indexrelid JOIN pg_am AS m ON m.oid = o.relam
                WHERE x.indrelid = c.oid AND x.indkey[0] = a.attnum) AS i(is_key, is_indexed)
         CROSS JOIN LATERAL (SELECT EXISTS (
               SELECT FROM pg_constraint AS f WHERE f.contype = 'f' AND f.conrelid = c.oid AND a.attnum = ANY (f.conkey))) AS r(refers)
          LEFT JOIN LATERAL (
               SELECT q.oid::regclass FROM pg_depend AS p JOIN pg_class AS q ON q.oid = p.objid AND q.relkind = 'S'
                WHERE p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_class'::regclass
                  AND p.refobjid = c.oid AND p.refobjsubid = a.attnum AND p.deptype IN ('a', 'i')
                ORDER BY q.oid LIMIT 1) AS s(sequence) ON true
         WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped AND a.attinhcount = 0
           AND NOT pg_is_other_temp_schema(c.relnamespace)
           AND (t.oid IN (own_type, 'bigint'::regtype) OR t.typbasetype IN (own_type, 'bigint'::regtype))
           AND (own_type IN (t.oid, t.typbasetype) OR d.mints
                OR a.atttypid = 'bigint'::regtype AND i.is_key AND a.attidentity <> '')
         ORDER BY c.relpages DESC, c.oid, a.attnum
    LOOP
        IF item.refers AND item.mints THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'warning',
                format('column "%s" of table %s is a foreign key whose DEFAULT mints: a forgotten value gets an id that refers to no row', item.attname, item.name),
                format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT;', item.name, item.attname);
        ELSIF item.is_key AND NOT item.refers AND NOT item.atthasdef AND item.attidentity = '' THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'notice', format('key "%s" of table %s has no DEFAULT', item.attname, item.name),
                format('If the server is to mint it: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval();', item.name, item.attname, own);
        END IF;
        IF item.mints AND item.sequence IS NOT NULL THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'notice', format('column "%s" of table %s mints, and still owns sequence %s', item.attname, item.name, item.sequence),
                format('If no program takes numbers from it: DROP SEQUENCE %s;', item.sequence);
        END IF;
        -- What neither is a key nor mints refers to ids, of which some are looked at.
        CONTINUE WHEN NOT reads OR item.refers OR NOT (item.is_indexed OR item.is_key OR item.mints);
        IF looked >= max_tables THEN
            unseen := unseen || format('%s (more than %s tables)', item.name, max_tables);
            CONTINUE;
        END IF;
        looked := looked + 1;
        BEGIN
            EXECUTE format('SELECT * FROM %s.snowflake_newest($1, $2, false, $3)', own) INTO look USING item.oid::regclass, item.attname, patience;
            unseen := unseen || look.unseen;
            patience := patience - look.waited_ms;
            newest := look.newest;
            CONTINUE WHEN newest IS NULL;
            EXECUTE format('SELECT %s.snowflake_timestamp($1)', own) INTO minted_at USING newest;
            IF item.attidentity <> '' THEN
                IF minted_at BETWEEN layout.epoch + interval '30 days' AND latest
                   AND coalesce(pg_sequence_last_value(item.sequence), 0) < newest THEN
                    found_any := true;
                    RETURN QUERY SELECT 'columns', 'warning',
                        format('column "%s" of table %s holds ids that were minted, and its identity gives numbers below them', item.attname, item.name),
                        format('SELECT %s.snowflake_adopt(%L, %L);', own, item.name, item.attname);
                END IF;
            ELSIF minted_at > latest THEN
                found_any := true;
                EXECUTE format('SELECT %s.snowflake_shard($1)', own) INTO shard USING newest;
                RETURN QUERY SELECT 'columns', 'error',
                    format('the newest id of table %s is of %s, after the horizon: what is minted then on shard %s can repeat it', item.name, minted_at, shard),
                    format('SELECT * FROM %s.snowflake_audit(%L, %L);', own, item.name, item.attname);
            END IF;
        EXCEPTION
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
                RETURN QUERY SELECT 'columns', 'notice', format('table %s could not be looked into: %s', item.name, message), NULL;
        END;
    END LOOP;

    -- Partitions that end soon.
    FOR item IN
        SELECT p.partrelid::regclass AS name, a.attname, b.has_default, b.last_from, b.last_to
          FROM pg_partitioned_table AS p
          JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
          JOIN pg_type AS t ON t.oid = a.atttypid
         CROSS JOIN LATERAL (
               SELECT bool_or(bound.expression = 'DEFAULT'),
                      max((regexp_match(bound.expression, ' TO \(''(-?\d+)''\)$'))[1]::bigint),
                      (array_agg((regexp_match(bound.expression, ' FROM \(''(-?\d+)''\)'))[1]::bigint
                                 ORDER BY (regexp_match(bound.expression, ' TO \(''(-?\d+)''\)$'))[1]::bigint DESC NULLS LAST))[1],
                      bool_or(bound.expression ~ ' TO \(MAXVALUE\)$')
                 FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
                -- with its relation it would wait for the relation's lock
                CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, 0)) AS bound(expression)
                WHERE i.inhparent = p.partrelid) AS b(has_default, last_to, last_from, is_endless)
         WHERE reads AND p.partstrat = 'r' AND p.partnatts = 1 AND b.last_to IS NOT NULL AND NOT b.is_endless
           AND (own_type IN (t.oid, t.typbasetype) OR EXISTS (
                SELECT FROM pg_attrdef AS e JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
                 WHERE e.adrelid = a.attrelid AND e.adnum = a.attnum AND d.refclassid = 'pg_proc'::regclass AND d.refobjid = ANY (minters)))
         ORDER BY p.partrelid
    LOOP
        EXECUTE format('SELECT %1$s.snowflake_timestamp($1) AS ends, age(%1$s.snowflake_timestamp($1) AT TIME ZONE ''UTC'', '
                       '%1$s.snowflake_timestamp($2) AT TIME ZONE ''UTC'') AS step', own) INTO last_range USING item.last_to, item.last_from;
        IF last_range.ends < clock_timestamp() + partitions_for THEN
            found_any := true;
            RETURN QUERY SELECT 'partitions',
                CASE WHEN item.has_default OR last_range.ends > clock_timestamp() THEN 'warning' ELSE 'error' END,
                format('the last partition of table %s ends at %s%s', item.name, last_range.ends,
                       CASE WHEN item.has_default THEN ': later rows go into the default partition' ELSE ': later rows are refused' END),
                format('SELECT %s.snowflake_make_partitions(%L, %L, %L, %L);', own, item.name, last_range.ends,
                       greatest(last_range.ends, clock_timestamp()) + partitions_for + coalesce(last_range.step, '1 day'), coalesce(last_range.step, '1 day'));
        END IF;
    END LOOP;
    IF NOT found_any THEN
        RETURN QUERY SELECT 'columns', 'ok', 'nothing was found in the id columns and partitions of this database', NULL;
    END IF;
    IF NOT reads THEN
        hidden := hidden || 'the greatest id of each table'::text;
    END IF;
    message := array_to_string(unseen, ', ');
    next_step := concat_ws(' ',
        CASE WHEN message ~ '\(locked\)' THEN 'Call it again when the tables are not locked.' END,
        CASE WHEN message ~ '\(no index\)' THEN 'An index that begins with the column shows its greatest id.' END,
        CASE WHEN message ~ '\(foreign table\)' THEN 'Look at foreign tables on their own servers.' END,
        CASE WHEN (hidden <> '{}' OR message ~ '\((no privilege|row security)\)') AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
             THEN format('To see all, call it as a superuser, or as an owner of the tables in: GRANT pg_monitor TO %I;', current_user) END);
    IF unseen <> '{}' THEN
        hidden := hidden || format('the greatest id of %s tables: %s%s', cardinality(unseen), array_to_string(unseen[:10], ', '),
                                   CASE WHEN cardinality(unseen) > 10 THEN ', ...' END);
    END IF;
    IF hidden <> '{}' THEN
        RETURN QUERY SELECT 'visibility', 'notice', format('not seen: %s', array_to_string(hidden, ', ')),
            coalesce(nullif(next_step, ''), 'Take the other steps first, and call it again.');
    END IF;
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_check(interval, interval) IS 'what is wrong with minting on this server and with ids in this database, and what to do';
