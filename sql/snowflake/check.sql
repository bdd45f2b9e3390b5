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
    SET standard_conforming_strings = on
    SET quote_all_identifiers = off
    SET datestyle = 'ISO'
    SET intervalstyle = 'postgres'
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
    code        text;
    status      jsonb;             -- of the horizon, then of the leases
    latest      timestamptz := clock_timestamp();  -- no id of this server is later
    hidden      text[] := '{}';
    unseen      text[] := '{}';    -- tables, with the reason
    looked      integer := 0;
    seen        oid[] := '{}';     -- looked into, with their children
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
    SELECT NULL AS name INTO layout;
    BEGIN
        EXECUTE format('SELECT * FROM %s.snowflake_layouts() WHERE in_use', own) INTO layout;
        IF layout.name IS NULL THEN
            RETURN QUERY SELECT 'preload', 'error', 'the library is not preloaded, so nothing mints, and ids are read in named layouts only',
                'Add ''snowflake'' to "shared_preload_libraries" in postgresql.conf, and restart the server. '
                'If it is there, another line goes before: SELECT * FROM pg_file_settings WHERE name = ''shared_preload_libraries'';';
        ELSE
            RETURN QUERY SELECT 'preload', 'ok', 'the library is preloaded', NULL;
        END IF;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, next_step = PG_EXCEPTION_HINT;
        RETURN QUERY SELECT 'preload', 'error', concat_ws('. ', message, nullif(rtrim(detail, '.'), '')), coalesce(nullif(next_step, ''), 'Install the package of snowflake for this major of PostgreSQL.');
    END;

    IF layout.name IS NOT NULL THEN
        own_shards := current_setting('snowflake.shards');
        IF has_function_privilege(format('%s.snowflake_horizon()', own), 'EXECUTE') THEN
            EXECUTE format('SELECT to_jsonb(h) FROM %s.snowflake_horizon() AS h', own) INTO status;
            latest := greatest(latest, (status->>'horizon')::timestamptz);
        ELSE
            hidden := hidden || ARRAY['the horizon', 'whether this is a clone'];
        END IF;
        IF is_standby THEN
            RETURN QUERY SELECT 'standby', 'notice', 'this server is a standby: it mints nothing', 'Mint on the primary server.';
        END IF;

        -- What a call of snowflake_nextval() would say now.  Where it would fail there is an
        -- error, in its own words.
        FOREACH area IN ARRAY CASE WHEN is_standby THEN '{layout}' ELSE '{worker,horizon,layout,clone,clock,shards}' END::text[]
        LOOP
            state := 'ok';
            next_step := NULL;
            BEGIN
                EXECUTE format('SELECT %s.snowflake_probe($1)', own) USING area;
                reads := reads OR area = 'layout';
                finding := CASE area
                    WHEN 'worker' THEN 'the background worker runs'
                    WHEN 'horizon' THEN coalesce('the horizon is ' || (status->>'horizon')::timestamptz, 'nothing hinders its renewal')
                    WHEN 'layout' THEN format('the layout is %s, as recorded', coalesce(layout.name, layout.specification))
                    WHEN 'clone' THEN 'this server is no clone'
                    WHEN 'clock' THEN 'the clock is not behind the last id'
                    ELSE format('snowflake.shards is ''%s''', own_shards) END;
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, next_step = PG_EXCEPTION_HINT, code = RETURNED_SQLSTATE;
                state := CASE code WHEN '57000' THEN 'warning' ELSE 'error' END;  -- if the worker does not answer, calls wait
                finding := concat_ws('. ', message, nullif(rtrim(detail, '.'), ''));
            END;
            CONTINUE WHEN area = 'clone' AND state = 'ok' AND status IS NULL OR area = 'clock' AND layout.expires_at < clock_timestamp();  -- expired: see below
            IF area = 'clone' AND state = 'ok' AND status->>'clone_of' IS NOT NULL THEN
                state := 'warning';
                finding := format('this server is a clone of %s: %s', status->>'clone_of', status->>'clone_evidence');
                next_step := 'Give it other shards than its original''s. Then, or if the original is gone for good: SELECT snowflake_accept_clone();';
            ELSIF area = 'horizon' AND state = 'ok' AND (status->>'waiting_since')::timestamptz < clock_timestamp() - interval '5 s' THEN
                state := 'warning';
                finding := format('the renewal of the horizon waits for %s since %s', status->>'waiting_for', (status->>'waiting_since')::timestamptz);
                next_step := CASE status->>'waiting_for' WHEN 'disk' THEN 'Look at the disk of the data directory.'
                    ELSE 'Start the standbys that "synchronous_standby_names" names, or change that: SELECT * FROM pg_stat_replication;' END;
            ELSIF area = 'shards' AND state = 'error' AND EXISTS (SELECT FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid = minters[2])
                  AND NOT EXISTS (SELECT FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid = minters[1]) THEN
                state := 'warning';  -- each DEFAULT names a shard
                finding := finding || ', so snowflake_nextval(shard) takes every shard, also another server''s';
            END IF;
            RETURN NEXT;
        END LOOP;

        -- Settings.
        RETURN QUERY SELECT 'settings', 'warning', format('%s has another value in the configuration file than in use', s.name),
                            'Restart the server, or take the value back from the file.'
                       FROM pg_settings AS s WHERE starts_with(s.name, 'snowflake.') AND s.pending_restart ORDER BY s.name;
        -- A dump with --create brings those of a database, and they may be another server's.
        RETURN QUERY SELECT 'settings', 'notice',
                            format('%s has snowflake.shards of its own, ''%s'', which go before those of the configuration file', of.target, split_part(c.setting, '=', 2)),
                            format('If they are another server''s: ALTER %s RESET snowflake.shards; and let its sessions connect again.', of.target)
                       FROM pg_db_role_setting AS s
                       LEFT JOIN pg_roles AS r ON r.oid = s.setrole
                       LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
                      CROSS JOIN LATERAL unnest(s.setconfig) AS c(setting)
                      CROSS JOIN LATERAL (SELECT CASE WHEN s.setrole = 0 THEN coalesce('DATABASE ' || quote_ident(d.datname), 'ROLE ALL')
                                                      ELSE concat_ws(' IN DATABASE ', 'ROLE ' || quote_ident(r.rolname), quote_ident(d.datname)) END) AS of(target)
                      WHERE starts_with(c.setting, 'snowflake.shards=') ORDER BY of.target;
        -- What snowflake_plain mints in this database: the comment of a sequence has its layout.
        RETURN QUERY
        WITH plain AS (SELECT c.oid::regclass AS name, substring(c.relname FROM '[0-9]+$')::numeric AS shard,
                              substring(obj_description(c.oid, 'pg_class') FROM '^the last position of a shard of layout "(.*)";') AS its_layout
                         FROM pg_class AS c WHERE c.relkind = 'S' AND c.relname ~ '^snowflake_shard_[0-9]+$')
        SELECT 'shards', 'error', format('shard %s is that of sequence %s, and of %s, so ids repeat', p.shard, p.name, coalesce('sequence ' || same.name, '"snowflake.shards"')),
               'Give one of them another shard: SELECT snowflake_plain_setup(layout, shards); or change "snowflake.shards". If nothing mints there any more, drop the sequence.'
          FROM plain AS p LEFT JOIN plain AS same ON same.shard = p.shard AND same.its_layout = p.its_layout AND same.name > p.name
         WHERE same.name IS NOT NULL
            OR p.its_layout IN (layout.name, layout.specification)
               AND EXISTS (SELECT FROM regexp_matches(own_shards, '(?:^|,)[[:space:]]*([0-9]+)[[:space:]]*(?:-[[:space:]]*([0-9]+))?', 'g') AS m
                            WHERE p.shard BETWEEN m[1]::numeric AND coalesce(m[2], m[1])::numeric)
         ORDER BY p.shard, p.name;
        area := 'expiry';
        state := CASE WHEN layout.expires_at < clock_timestamp() THEN 'error'
                      WHEN layout.expires_at < clock_timestamp() + interval '1 year' THEN 'warning'
                      WHEN layout.expires_at < clock_timestamp() + interval '2 years' THEN 'notice' ELSE 'ok' END;
        finding := format(CASE state WHEN 'error' THEN 'the layout has expired at %s: no id can be minted'
                                     WHEN 'ok' THEN 'the layout expires at %s'
                                     ELSE 'the layout expires at %s: no id can be minted afterwards' END, layout.expires_at);
        next_step := CASE WHEN state <> 'ok' THEN 'Change the layout: doc/layout.md.' END;
        RETURN NEXT;

        -- Leases.  Where the library was built without them there is no such function.
        status := NULL;
        IF to_regprocedure(format('%s.snowflake_lease_status()', own)) IS NULL THEN
            status := '{"state": "off"}';
        ELSIF NOT has_function_privilege(format('%s.snowflake_lease_status()', own), 'EXECUTE') THEN
            hidden := hidden || 'the leases'::text;
        ELSE
            BEGIN
                EXECUTE format('SELECT to_jsonb(l) FROM %s.snowflake_lease_status() AS l', own) INTO status;
            EXCEPTION WHEN undefined_function THEN  -- and if the library alone was
                status := '{"state": "off"}';
            END;
        END IF;
        area := 'leases';
        state := 'ok';
        next_step := NULL;
        IF is_standby THEN
            finding := 'a standby holds no lease';
        ELSE
            BEGIN
                EXECUTE format('SELECT %s.snowflake_probe($1)', own) USING area;
                finding := CASE WHEN status IS NULL THEN 'no lease is missing'
                                WHEN status->>'state' = 'off' THEN 'no registry is used: only "snowflake.shards" keeps servers apart'
                                ELSE format('%s shards are leased until %s', status->>'shards', (status->>'lease_until')::timestamptz) END;
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, next_step = PG_EXCEPTION_HINT;
                state := 'error';
                finding := concat_ws('. ', message, nullif(rtrim(detail, '.'), ''));
            END;
            IF status ? 'failure' THEN  -- it may be another by now
                EXECUTE format('SELECT to_jsonb(l) FROM %s.snowflake_lease_status() AS l', own) INTO status;
            END IF;
            IF status->>'failure' IS NOT NULL THEN
                area := 'registry';
                finding := CASE state WHEN 'ok' THEN format('%s (%s)', status->>'last_error', finding) ELSE finding END;
                state := CASE state WHEN 'ok' THEN 'warning' ELSE state END;
                next_step := status->>'next_step';
            END IF;
        END IF;
        RETURN NEXT;
        IF status ? 'failure' THEN
            IF (status->>'losses')::integer > 0 THEN
                RETURN QUERY SELECT 'registry', 'warning', format('the registry forgot leases of this server: %s', status->>'last_loss'),
                    'Audit the tables that have ids of that shard and time: snowflake_audit().';
            END IF;
            IF status->'restart_pending' = 'true' THEN
                RETURN QUERY SELECT 'settings', 'warning', '"snowflake.registry" has another value in the configuration file than in use', 'Restart the server.';
            END IF;
            IF abs((status->>'clock_ahead')::float8) > 1 THEN
                RETURN QUERY SELECT 'clock', 'warning', format('the clock is %s s ahead of the registry''s', (status->>'clock_ahead')::numeric(20, 1)),
                    'Check the time synchronization of this server and of the registry''s: timedatectl';
            END IF;
            RETURN QUERY EXECUTE format('SELECT ''leases'', ''warning'', format(''shard %%s is not this server''''s: %%s'', shard, holder), '
                '''Give each server shards of its own in "snowflake.shards", or set it to "auto".'' '
                '  FROM %s.snowflake_leases() WHERE NOT held AND $1 <> ''standby'' ORDER BY shard LIMIT 10', own) USING status->>'state';
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

    -- The columns of this database.  Partitions are their table's.  A child is its parent's as
    -- well, but for a key and a DEFAULT, which are its own.
    found_any := false;
    FOR item IN
        WITH RECURSIVE types AS (
               SELECT t.oid, t.oid = own_type AS is_own, false AS mints FROM pg_type AS t WHERE t.oid IN (own_type, 'bigint'::regtype)
               UNION ALL
               SELECT t.oid, b.is_own, EXISTS (SELECT FROM pg_depend AS p WHERE p.classid = 'pg_type'::regclass AND p.objid = t.oid
                                                 AND p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY (minters))
                 FROM types AS b JOIN pg_type AS t ON t.typbasetype = b.oid)
        SELECT c.oid::regclass AS name, a.attname, c.relkind, a.attidentity, a.attinhcount > 0 AS is_inherited,
               c.oid, d.mints, n.numbers_of, a.atthasdef OR y.typdefault IS NOT NULL AS has_default, i.is_key, i.is_indexed, r.refers, s.sequence,
               (SELECT substring(pg_get_expr(e.adbin, 0) FROM 'snowflake_nextval[(]([0-9]+)[)]')::numeric
                  FROM pg_attrdef AS e WHERE e.adrelid = c.oid AND e.adnum = a.attnum AND d.mints) AS shard
          FROM pg_class AS c
          JOIN pg_attribute AS a ON a.attrelid = c.oid
          JOIN types AS t ON t.oid = a.atttypid
          JOIN pg_type AS y ON y.oid = a.atttypid
         CROSS JOIN LATERAL (SELECT CASE WHEN a.atthasdef THEN EXISTS (
               SELECT FROM pg_attrdef AS e
                 JOIN pg_depend AS p ON p.classid = 'pg_attrdef'::regclass AND p.objid = e.oid
                WHERE e.adrelid = c.oid AND e.adnum = a.attnum
                  AND p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY (minters)) ELSE t.mints END) AS d(mints)
          -- The DEFAULT takes a sequence, and no function makes an id of its numbers.
         CROSS JOIN LATERAL (
               SELECT CASE WHEN NOT bool_or(p.refclassid = 'pg_proc'::regclass
                                            AND p.refobjid NOT IN (y.typinput, y.typoutput, y.typreceive, y.typsend))
                           THEN min(q.oid) FILTER (WHERE q.relkind = 'S')::regclass END
                 FROM pg_depend AS p LEFT JOIN pg_class AS q ON p.refclassid = 'pg_class'::regclass AND q.oid = p.refobjid
                -- by the index: both must be values
                WHERE p.classid = CASE WHEN a.atthasdef THEN 'pg_attrdef'::regclass ELSE 'pg_type' END
                  AND p.objid = CASE WHEN a.atthasdef THEN (SELECT e.oid FROM pg_attrdef AS e WHERE e.adrelid = c.oid AND e.adnum = a.attnum)
                                     ELSE a.atttypid END) AS n(numbers_of)
         CROSS JOIN LATERAL (
               SELECT bool_or(x.indisprimary), coalesce(bool_or(x.indisprimary AND x.indnkeyatts = 1), false), count(*) > 0
                 FROM pg_index AS x WHERE x.indrelid = c.oid AND a.attnum = ANY (x.indkey)) AS i(is_in_key, is_key, is_indexed)
         CROSS JOIN LATERAL (SELECT EXISTS (
               SELECT FROM pg_constraint AS f WHERE f.contype = 'f' AND f.conrelid = c.oid AND a.attnum = ANY (f.conkey))) AS r(refers)
          LEFT JOIN LATERAL (
               SELECT q.oid::regclass FROM pg_depend AS p JOIN pg_class AS q ON q.oid = p.objid AND q.relkind = 'S'
                WHERE p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_class'::regclass
                  AND p.refobjid = c.oid AND p.refobjsubid = a.attnum
                ORDER BY q.oid LIMIT 1) AS s(sequence) ON true
         WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition
           AND NOT pg_is_other_temp_schema(c.relnamespace)
           AND (t.is_own OR d.mints OR a.atttypid = 'bigint'::regtype AND i.is_in_key AND a.attidentity <> '')
         ORDER BY a.attinhcount > 0, c.relpages DESC, c.oid, a.attnum
    LOOP
        IF item.refers AND item.mints THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'warning',
                format('column "%s" of table %s is a foreign key whose DEFAULT mints: a forgotten value gets an id that refers to no row', item.attname, item.name),
                format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT;', item.name, item.attname);
        ELSIF item.is_key AND NOT item.refers AND NOT item.has_default AND item.attidentity = '' THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'notice', format('key "%s" of table %s has no DEFAULT', item.attname, item.name),
                format('If the server is to mint it: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval();', item.name, item.attname, own);
        ELSIF item.is_key AND NOT item.refers AND item.numbers_of IS NOT NULL THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'warning', format('key "%s" of table %s gets numbers of sequence %s, which are no ids', item.attname, item.name, item.numbers_of),
                format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval();', item.name, item.attname, own);
        END IF;
        IF item.shard IS NOT NULL AND own_shards ~ '^[0-9]' AND NOT EXISTS (
                SELECT FROM regexp_matches(own_shards, '(?:^|,)[[:space:]]*([0-9]+)[[:space:]]*(?:-[[:space:]]*([0-9]+))?', 'g') AS m
                 WHERE item.shard BETWEEN m[1]::numeric AND coalesce(m[2], m[1])::numeric) THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'error', format('the DEFAULT of column "%s" of table %s mints on shard %s, which is not one of this server''s', item.attname, item.name, item.shard),
                format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval();', item.name, item.attname, own);
        END IF;
        IF item.mints AND item.sequence IS NOT NULL THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'notice', format('column "%s" of table %s mints, and still owns sequence %s', item.attname, item.name, item.sequence),
                format('If no program takes numbers from it: DROP SEQUENCE %s;', item.sequence);
        END IF;
        -- What neither is a key nor mints refers to ids, of which some are looked at.
        CONTINUE WHEN NOT reads OR item.refers OR NOT (item.is_indexed OR item.mints OR item.relkind = 'f')
            OR item.is_inherited AND EXISTS (SELECT FROM pg_inherits AS h WHERE h.inhrelid = item.oid AND h.inhparent = ANY (seen));
        IF looked >= max_tables THEN
            unseen := unseen || format('%s (more than %s tables)', item.name, max_tables);
            CONTINUE;
        END IF;
        looked := looked + 1;
        seen := seen || item.oid;
        BEGIN
            EXECUTE format('SELECT * FROM %s.snowflake_newest($1, $2, false, $3)', own) INTO look USING item.oid::regclass, item.attname, patience;
            unseen := unseen || look.unseen;
            patience := patience - look.waited_ms;
            newest := look.newest;
            CONTINUE WHEN newest IS NULL;
            EXECUTE format('SELECT %s.snowflake_timestamp($1)', own) INTO minted_at USING newest;
            IF item.attidentity <> '' THEN
                -- a look at a sequence takes a lock, too
                PERFORM set_config('lock_timeout', greatest(least(patience, 200), 1)::text, true);
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
                RETURN QUERY SELECT 'columns', 'warning',
                    format('the newest id of table %s is of %s, after the horizon: what is minted then on shard %s can repeat it', item.name, minted_at, shard),
                    format('SELECT * FROM %s.snowflake_audit(%L, %L);', own, item.name, item.attname);
            END IF;
        EXCEPTION
            WHEN lock_not_available THEN
                patience := patience - 200;
                unseen := unseen || format('%s (locked)', item.name);
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
                      max((regexp_match(bound.expression, ' TO [(]''(-?[0-9]+)''[)]$'))[1]::bigint),
                      (array_agg((regexp_match(bound.expression, ' FROM [(]''(-?[0-9]+)''[)]'))[1]::bigint
                                 ORDER BY (regexp_match(bound.expression, ' TO [(]''(-?[0-9]+)''[)]$'))[1]::bigint DESC NULLS LAST))[1],
                      bool_or(bound.expression ~ ' TO [(]MAXVALUE[)]$')
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
        IF last_range.step NOT BETWEEN interval '1 min' AND interval '1 year' THEN     -- one that was there before its ids were adopted
            last_range.step := '1 month';
        END IF;
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
        CASE WHEN message ~ '[(]locked[)]' THEN 'Call it again when the tables are not locked.' END,
        CASE WHEN message ~ '[(]no index[)]' THEN 'An index that begins with the column shows its greatest id.' END,
        CASE WHEN message ~ '[(]foreign table[)]' THEN 'Look at foreign tables on their own servers.' END,
        CASE WHEN (hidden <> '{}' OR message ~ '[(](no privilege|row security)[)]') AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
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
