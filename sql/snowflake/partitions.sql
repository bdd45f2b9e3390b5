-- Partitions by time: a range of ids for each step of time.
--
-- A partition is made apart and then attached.  That gives what CREATE TABLE
-- ... PARTITION OF gives, but under a lock on the parent with which it is read
-- and written as before.  A parent that has no partition has no rows to read or
-- write, so there it is PARTITION OF, which takes half of the time.  The lock
-- makes two sessions that do this at once wait for each other.  Existing
-- partitions are known by their bounds, whatever their names are.
--
-- The statements run as the parent's owner (see src/owner.c), who owns the new partitions.
-- They can run code of the parent, of its ancestors and of a default partition, so
-- none of these may be of a role that lacks the owner's rights.

CREATE FUNCTION @extschema@.snowflake_make_partitions(parent regclass, start_time timestamptz,
        end_time timestamptz, step interval)
    RETURNS SETOF regclass
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    SET quote_all_identifiers = off
AS $$
DECLARE
    own        regnamespace;   -- the extension's schema
    relation   record;
    key        record;
    key_type   oid;
    existing   regclass[];
    spans      int8range[];    -- of each that exists; empty for the default
    -- one step; times are UTC, so that no session's time zone has a say
    origin     timestamp := start_time AT TIME ZONE 'UTC';
    n          integer := 0;
    from_time  timestamp;
    to_time    timestamp;
    from_id    bigint;
    to_id      bigint;
    span       int8range;
    other      record;
    from_other timestamp;
    to_other   timestamp;
    -- the name of its partition
    stamp      text;
    stamps     text;
    prefix     text;
    partition  text;
    placement  text;           -- of each, as of the parent
    statements text[];
    statement  text;
    message    text;
BEGIN
    IF parent IS NULL OR start_time IS NULL OR end_time IS NULL OR step IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'parent, start_time, end_time and step must not be null';
    END IF;
    IF NOT isfinite(start_time) OR NOT isfinite(end_time) OR NOT isfinite(step) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'start_time, end_time and step must be finite';
    END IF;
    IF end_time <= start_time THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'end_time must be later than start_time',
            DETAIL = format('The time range would start at %s and end at %s.', start_time, end_time);
    END IF;
    IF origin + step <= origin THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('step must be positive, not "%s"', step);
    END IF;

    SELECT c.relname, c.relkind, s.nspname, t.spcname, a.amname, c.relowner::regrole AS owner,
           pg_has_role(c.relowner, 'USAGE') AS is_owned
      INTO relation
      FROM pg_class AS c
      JOIN pg_namespace AS s ON s.oid = c.relnamespace
      LEFT JOIN pg_tablespace AS t ON t.oid = c.reltablespace
      LEFT JOIN pg_am AS a ON a.oid = c.relam
     WHERE c.oid = parent;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', parent::oid);
    END IF;
    IF relation.relkind <> 'p' THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a partitioned table', relation.relname),
            HINT = 'A table is partitioned from its creation on, with PARTITION BY RANGE.';
    END IF;
    IF NOT relation.is_owned THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of table %s', relation.relname);
    END IF;
    IF NOT has_schema_privilege(relation.owner::oid, relation.nspname, 'CREATE') THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('permission denied for schema %s', relation.nspname),
            DETAIL = format('The partitions are made as %s, the owner of table "%s".', relation.owner, relation.relname),
            HINT = format('GRANT USAGE, CREATE ON SCHEMA %I TO %s;', relation.nspname, relation.owner);
    END IF;

    SELECT p.partstrat, p.partnatts, p.partattrs[0] AS attnum, a.attname, a.atttypid
      INTO key
      FROM pg_partitioned_table AS p
      LEFT JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
     WHERE p.partrelid = parent;
    IF key.partstrat <> 'r' OR key.partnatts <> 1 OR key.attnum = 0 THEN
        RAISE wrong_object_type USING
            MESSAGE = format('table "%s" is not partitioned by the range of one column', relation.relname),
            DETAIL = format('Its partition key is %s.', pg_get_partkeydef(parent));
    END IF;
    key_type := key.atttypid;
    WHILE (SELECT typtype = 'd' FROM pg_type WHERE oid = key_type) LOOP
        key_type := (SELECT typbasetype FROM pg_type WHERE oid = key_type);
    END LOOP;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    IF key_type NOT IN ('bigint'::regtype, format('%s.snowflake', own)::regtype) THEN
        RAISE datatype_mismatch USING
            MESSAGE = format('table "%s" is partitioned by a column that holds no snowflakes', relation.relname),
            DETAIL = format('Column "%s" is of type %s, not snowflake or bigint.',
                            key.attname, key.atttypid::regtype);
    END IF;

    -- From here on this session alone adds partitions.
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', parent);

    -- A snapshot from before the lock does not show the partitions that
    -- another session has just made.
    IF current_setting('transaction_isolation') NOT LIKE 'read %' AND EXISTS (
            SELECT relid FROM pg_partition_tree(parent) WHERE parentrelid = parent
            EXCEPT
            SELECT inhrelid FROM pg_inherits WHERE inhparent = parent) THEN
        RAISE serialization_failure USING
            MESSAGE = 'could not serialize access due to partitions that were added concurrently',
            HINT = 'The transaction might succeed if retried.';
    END IF;

    SELECT c.oid::regclass AS name, c.relname, c.relowner::regrole AS owner INTO other
      FROM (SELECT relid FROM pg_partition_ancestors(parent)
            UNION
            SELECT t.relid FROM pg_partitioned_table AS p CROSS JOIN LATERAL pg_partition_tree(p.partdefid) AS t WHERE p.partrelid = parent) AS reached
      JOIN pg_class AS c ON c.oid = reached.relid
     WHERE NOT pg_has_role(c.relowner, relation.owner::oid, 'USAGE')
     ORDER BY c.relname, c.oid LIMIT 1;
    IF FOUND THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('table "%s" has another owner than table "%s"', other.relname, relation.relname),
            DETAIL = format('The partitions are made as %s, and this would run code that %s has put into the table.', relation.owner, other.owner),
            HINT = format('If that role is to have these rights: ALTER TABLE %s OWNER TO %s;', other.name, relation.owner);
    END IF;

    SELECT array_agg(bound.partition), array_agg(
               CASE WHEN bound.ends IS NULL THEN 'empty'
                    ELSE int8range(substring(bound.ends[1] FROM '-?\d+')::bigint,
                                   substring(bound.ends[2] FROM '-?\d+')::bigint) END)
      INTO existing, spans
      FROM (SELECT c.oid AS partition,
                   regexp_match(pg_get_expr(c.relpartbound, c.oid),
                                '^FOR VALUES FROM \((.*)\) TO \((.*)\)$') AS ends
              FROM pg_inherits AS i
              JOIN pg_class AS c ON c.oid = i.inhrelid
             WHERE i.inhparent = parent AND NOT i.inhdetachpending) AS bound;

    -- As many digits as it takes to tell any two steps apart.
    stamps := CASE
        WHEN origin = date_trunc('day', origin)
             AND origin + step = date_trunc('day', origin + step) THEN 'YYYYMMDD'
        WHEN origin = date_trunc('minute', origin)
             AND origin + step = date_trunc('minute', origin + step) THEN 'YYYYMMDD_HH24MI'
        WHEN origin = date_trunc('second', origin)
             AND origin + step = date_trunc('second', origin + step) THEN 'YYYYMMDD_HH24MISS'
        ELSE 'YYYYMMDD_HH24MISSUS'
    END;

    placement := coalesce(' USING ' || quote_ident(relation.amname), '')
              || coalesce(' TABLESPACE ' || quote_ident(relation.spcname), '');

    -- Counted from the origin: months after the 31st come back to the 31st.
    LOOP
        from_time := origin + n * step;
        EXIT WHEN from_time >= end_time AT TIME ZONE 'UTC';
        n := n + 1;
        to_time := origin + n * step;
        EXECUTE format('SELECT %1$s.snowflake_floor($1), %1$s.snowflake_floor($2)', own)
            INTO from_id, to_id
            USING from_time AT TIME ZONE 'UTC', to_time AT TIME ZONE 'UTC';
        IF to_id <= from_id THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('step must lead at least a tick forward in time, not "%s"', step),
                DETAIL = format('Step %s would lead from %sZ to %sZ.',
                                n, to_json(from_time) #>> '{}', to_json(to_time) #>> '{}');
        END IF;
        span := int8range(from_id, to_id);
        CONTINUE WHEN span = ANY (spans);

        -- A name that is too long is cut, and told from others that are cut
        -- alike by a digest of the whole.
        stamp := '_' || to_char(from_time, stamps);
        prefix := relation.relname;
        IF octet_length(prefix || stamp) > current_setting('max_identifier_length')::integer THEN
            stamp := '_' || left(encode(sha256(convert_to(prefix, getdatabaseencoding())), 'hex'), 8) || stamp;
            WHILE octet_length(prefix || stamp) > current_setting('max_identifier_length')::integer LOOP
                prefix := left(prefix, -1);
            END LOOP;
        END IF;
        partition := format('%I.%I', relation.nspname, prefix || stamp);

        SELECT e.name, lower(e.held) AS from_id, upper(e.held) AS to_id
          INTO other
          FROM unnest(existing, spans) AS e(name, held)
         WHERE e.held && span
         ORDER BY e.held
         LIMIT 1;
        IF FOUND THEN
            EXECUTE format('SELECT %1$s.snowflake_timestamp($1) AT TIME ZONE ''UTC'', '
                           '%1$s.snowflake_timestamp($2) AT TIME ZONE ''UTC''', own)
                INTO from_other, to_other
                USING other.from_id, other.to_id;
            RAISE invalid_object_definition USING
                MESSAGE = format('new partition "%s" would overlap partition "%s"', prefix || stamp,
                                 (SELECT relname FROM pg_class WHERE oid = other.name)),
                DETAIL = format('The new one would run from %sZ to %sZ (id %s to %s), the existing one runs from %s to %s.',
                                to_json(from_time) #>> '{}', to_json(to_time) #>> '{}', from_id, to_id,
                                coalesce((to_json(from_other) #>> '{}') || 'Z (id ' || other.from_id || ')', 'MINVALUE'),
                                coalesce((to_json(to_other) #>> '{}') || 'Z (id ' || other.to_id || ')', 'MAXVALUE')),
                HINT = 'Choose start_time, end_time and step so that new partitions meet existing ones at their bounds.';
        END IF;
        IF to_regclass(partition) IS NOT NULL THEN
            RAISE duplicate_table USING
                MESSAGE = format('relation "%s" already exists', prefix || stamp),
                DETAIL = format('It is not the partition of "%s" from %sZ to %sZ, which would get this name.',
                                relation.relname, to_json(from_time) #>> '{}', to_json(to_time) #>> '{}'),
                HINT = 'Rename it, or attach it if it holds the rows of that time.';
        END IF;

        IF existing IS NULL THEN
            statements := ARRAY[
                format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)', partition, parent, from_id, to_id) || placement];
        ELSE
            statements := ARRAY[
                format('CREATE TABLE %s (LIKE %s INCLUDING COMPRESSION INCLUDING CONSTRAINTS'
                       ' INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE)', partition, parent) || placement,
                format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', parent, partition, from_id, to_id)];
        END IF;
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE format('SELECT %s.snowflake_run_as_owner($1, $2)', own) USING parent, statement;
        END LOOP;
        RETURN NEXT partition;
    END LOOP;
EXCEPTION WHEN check_violation THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
    RAISE check_violation USING
        MESSAGE = message,
        DETAIL = format('Partition "%s" would run from %sZ to %sZ (id %s to %s).', prefix || stamp,
                        to_json(from_time) #>> '{}', to_json(to_time) #>> '{}', from_id, to_id),
        HINT = 'Detach the default partition, make the partitions, insert its rows into the parent, and attach it again.';
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_make_partitions(regclass, timestamptz, timestamptz, interval) IS 'make the missing partitions of a table for each step of time';
