-- Marks that travel.  "All rows of this server with an id below the mark are
-- committed": a row of a table that says so goes wherever the WAL or a publication
-- goes, and arrives after the rows of which it speaks.  The table is the application's,
-- as one of an extension gets into dumps of the schema that cannot be loaded.
--
-- Why it does.  A mark is that of the snapshot of the statement that stores it.  Let
-- T be a transaction with a row below the mark.
--
--	* The snapshot saw T.  The server writes the commit record of a transaction before
--	  others see it, and that of the mark's own transaction comes later than the
--	  mark.  So T's commit is before the mark's in the WAL, where a standby replays
--	  it, and where logical decoding finds the order in which it sends transactions.
--	* The snapshot did not see T.  Then T's row cannot appear any more: this is what
--	  snowflake_settled() promises.
--
-- A mark that was true stays true.  So the greater of two is stored, in whatever
-- order they are.  But one that is after the horizon was never this server's: it came
-- from another layout, or from a server that this one was restored from, and ids
-- below it may still be minted.  It is replaced, with a warning.
--
-- Who could become the owner of the table stores the mark as the owner (see src/owner.c):
-- so a superuser's job runs nobody's triggers with its rights.  To others it is an INSERT
-- of theirs.
--
-- The default of "marks" is worked out where the function is called, and so by the
-- caller's search_path.  Who finds the row locked, by another call whose transaction
-- is still open, waits no longer than the timeout.

CREATE FUNCTION @extschema@.snowflake_is_before_horizon(id bigint) RETURNS boolean
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.snowflake_is_before_horizon(bigint) IS 'called by snowflake_publish_mark';

CREATE FUNCTION @extschema@.snowflake_publish_mark(server text DEFAULT NULL,
    marks regclass DEFAULT pg_catalog.to_regclass('snowflake_marks')) RETURNS @extschema@.snowflake
    LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '1s'
AS $$
DECLARE
    own       regnamespace;    -- the extension's schema
    name      text := coalesce(server, (SELECT format('%s/%s', system_identifier, current_database()) FROM pg_control_system()));
    is_owned  boolean;
    statement text;
    marked    text[];          -- the mark that is stored, the one of before, and default names
    stored    bigint;
    before    bigint;
BEGIN
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    EXECUTE format('SELECT %s.snowflake_settled()', own);   -- during recovery, its error says what to do
    SELECT pg_has_role(relowner, 'USAGE') INTO is_owned FROM pg_class WHERE oid = marks;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = 'there is no table for marks',
            DETAIL = 'The search_path finds no table "snowflake_marks", and no other one is named.',
            HINT = concat('CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, '
                          'came_by oid GENERATED ALWAYS AS (', own, '.snowflake_came_by(mark)) STORED)');
    END IF;
    -- default names of before: of servers, not of what came here
    statement := format(
        'WITH before AS (SELECT mark FROM %1$s WHERE server = %3$L) '
        'INSERT INTO %1$s AS published (server, mark, published_at) '
        'VALUES (%3$L, %2$s.snowflake_settled(), clock_timestamp()) '
        'ON CONFLICT (server) DO UPDATE '
        'SET mark = CASE WHEN %2$s.snowflake_is_before_horizon(published.mark::bigint) '
        'THEN greatest(published.mark, excluded.mark) ELSE excluded.mark END, '
        'published_at = excluded.published_at '
        'RETURNING ARRAY[mark::text, (SELECT mark FROM before)::text, '
        '(SELECT string_agg(format(''"%%s"'', server), '', '' ORDER BY server) FROM %1$s WHERE server ~ ''^[0-9]{10,}/'' %4$s)]',
        marks, own, name, (SELECT 'AND came_by IS NULL' FROM pg_attribute WHERE attrelid = marks AND attname = 'came_by'));
    IF is_owned THEN
        EXECUTE format('SELECT %s.snowflake_run_as_owner($1, $2)', own) INTO marked USING marks, statement;
    ELSE
        EXECUTE statement INTO marked;
    END IF;
    stored := marked[1];
    before := marked[2];
    IF stored < before THEN
        RAISE WARNING USING
            MESSAGE = format('the stored mark %s of server "%s" is replaced by %s', before, name, stored),
            DETAIL = 'It is after all ids that this server may have minted: it is of another layout, of another server, or of a history that is lost.',
            HINT = 'Let readers that went by the stored mark read again from the new one on.';
    END IF;
    IF server IS NULL AND before IS NULL AND marked[3] IS NOT NULL THEN
        RAISE NOTICE USING
            MESSAGE = format('the mark of "%s" begins, beside %s', name, marked[3]),
            DETAIL = 'By itself, a mark has the name of the server and of the database. One of the two has changed, as after pg_upgrade or ALTER DATABASE RENAME.',
            HINT = 'Let readers go by the new name, and delete the old row.';
    END IF;
    RETURN stored;
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_publish_mark(text, regclass) IS 'store the mark of snowflake_settled() in a table, as that of this server';

-- By which way a mark came.
--
-- A mark speaks of the rows that came the same way: that of the worker which applied
-- it, as that applies changes in the order of their commits.  The same mark can come by
-- another subscription, and be ahead of rows that still wait here.  So the table of marks
-- has a generated column: each time a row is written, it keeps the subscription of the
-- session, and NULL where a mark was published, or restored with the rows that it is of.
-- As the server wants it, the function is declared immutable; where it is called with a
-- constant, it is called once.

CREATE FUNCTION @extschema@.snowflake_came_by(mark bigint) RETURNS oid
    LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
    RETURN (SELECT s.subid FROM pg_catalog.pg_stat_get_subscription(NULL::pg_catalog.oid) AS s WHERE s.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid());

COMMENT ON FUNCTION @extschema@.snowflake_came_by(bigint) IS 'for the column came_by of a table of marks: the subscription that brought the row';

-- The mark that a reader of several servers' rows goes by.
--
-- Of each subscription that brings rows of the table, all marks that it brought must be
-- named, and no mark of another subscription.  Then each row of those servers that is
-- still to come has an id above one of the marks.
--
-- A subscription synchronizes each table by itself, and applies changes of others
-- meanwhile.  So a mark can be here before the rows of which it speaks, until both
-- tables are in state "r": from then on the same worker applies the changes of both,
-- in the order of their commits.
--
-- All is read with the snapshot of the statement that calls it, as it is STABLE.
-- So there is nothing between the mark and the rows that this statement reads.
-- The table of marks is read row by row, so that no code of its owner's runs.
CREATE FUNCTION @extschema@.snowflake_least_mark(relation regclass, servers text[],
    marks regclass DEFAULT pg_catalog.to_regclass('snowflake_marks')) RETURNS @extschema@.snowflake
    LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own    regnamespace;    -- the extension's schema
    names  text[] := (SELECT coalesce(array_agg(DISTINCT name), '{}') FROM unnest(servers) AS name WHERE name IS NOT NULL);
    class  record;
    brings record;          -- what the subscriptions that bring rows of the relation are like
    seen   record;          -- in the table of marks
BEGIN
    IF relation IS NULL OR servers IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = marks) THEN
        RAISE undefined_table USING
            MESSAGE = 'there is no table for marks',
            DETAIL = 'The search_path finds no table "snowflake_marks", and no other one is named.',
            HINT = concat('CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, '
                          'came_by oid GENERATED ALWAYS AS (', own, '.snowflake_came_by(mark)) STORED)');
    END IF;
    SELECT relname, relkind INTO class FROM pg_class WHERE oid = relation;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', relation::oid);
    END IF;
    IF class.relkind NOT IN ('r', 'p') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a table', class.relname),
            HINT = 'Name the table whose rows are read, rather than a view of it.';
    END IF;

    -- The relation, its children and partitions, and what it is a partition of.
    WITH RECURSIVE part(relid) AS (
        SELECT relation::oid
        UNION SELECT inhrelid FROM pg_inherits JOIN part ON inhparent = relid),
    subscription AS (
        SELECT srsubid, (SELECT subname FROM pg_subscription WHERE oid = srsubid) AS name,
               bool_or(srrelid = marks) AS has_marks,
               bool_or(is_part) AS has_rows,
               bool_and(srsubstate = 'r') FILTER (WHERE srrelid = marks OR is_part) AS is_ready
          FROM pg_subscription_rel
         CROSS JOIN LATERAL (SELECT srrelid IN (SELECT relid FROM part UNION SELECT relid FROM pg_partition_ancestors(relation))) AS p(is_part)
         GROUP BY srsubid)
    SELECT coalesce(array_agg(srsubid) FILTER (WHERE has_rows), '{}') AS subscriptions,
           bool_and(is_ready) FILTER (WHERE has_rows) AS are_ready,
           bool_or(has_marks) AS bring_marks,
           string_agg(quote_ident(name), ', ' ORDER BY name) FILTER (WHERE has_rows) AS listed,
           string_agg(quote_ident(name), ', ' ORDER BY name) FILTER (WHERE has_rows AND NOT has_marks) AS without_marks
      INTO brings
      FROM subscription;
    IF brings.without_marks IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('no marks come with the rows of table "%s"', class.relname),
            DETAIL = format('They come by subscriptions without the table %s: %s.', marks, brings.without_marks),
            HINT = 'Add that table to the publication, and refresh the subscription.';
    END IF;
    IF brings.bring_marks AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = marks AND attname = 'came_by' AND attgenerated = 's') THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the table %s does not tell by which subscription a mark came', marks),
            HINT = format('ALTER TABLE %s ADD came_by oid GENERATED ALWAYS AS (%s.snowflake_came_by(mark)) STORED', marks, own);
    END IF;
    IF NOT brings.are_ready THEN
        RETURN NULL;
    END IF;

    EXECUTE format($query$
        WITH present AS (
            SELECT server, mark, came_by, server = ANY ($2) AS is_named, came_by = ANY ($3) AS is_with_rows, came_by <> ALL ($3) AND came_by IS NOT NULL AS is_apart
              FROM %s.snowflake_read_marks($1))
        SELECT min(mark) FILTER (WHERE is_named) AS least,
               string_agg(server, ', ' ORDER BY server) AS listed,
               array_agg(server) FILTER (WHERE server IS NOT NULL) AS servers,
               min(server) FILTER (WHERE is_named AND is_apart) AS apart,
               string_agg(server, ', ' ORDER BY server) FILTER (WHERE is_with_rows AND NOT is_named) AS not_named,
               array_agg(came_by) AS subscriptions
          FROM present$query$, own)
        INTO seen USING marks, names, brings.subscriptions;
    -- while nobody has published, all of it is NULL: no condition below is true
    IF NOT names <@ seen.servers THEN
        RAISE undefined_object USING
            MESSAGE = format('there is no mark of server "%s"', (SELECT min(name) FROM unnest(names) AS name WHERE name <> ALL (seen.servers))),
            DETAIL = format('The table %s has those of: %s.', marks, seen.listed),
            HINT = 'Name servers as they are named where their marks are published.';
    END IF;
    IF seen.apart IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the mark of server "%s" did not come with the rows of table "%s"', seen.apart, class.relname),
            DETAIL = format('Subscriptions that bring rows: %s. The mark came by another one.', coalesce(brings.listed, 'none')),
            HINT = format('Publish a mark of its own for each publication: snowflake_publish_mark(''NAME''), and TABLE %s, %s WHERE (server = ''NAME'').', relation, marks);
    END IF;
    IF NOT brings.subscriptions <@ seen.subscriptions OR seen.not_named IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('table "%s" has rows of more servers than are named', class.relname),
            DETAIL = format('Servers named: %s. Others whose marks come with the rows: %s. Subscriptions that bring rows: %s.',
                            array_to_string(names, ', '), coalesce(seen.not_named, 'none yet'), brings.listed),
            HINT = 'Name each server whose ids are in the table, as in the table of marks.';
    END IF;
    RETURN seen.least;
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_least_mark(regclass, text[], regclass) IS 'all rows of a table with ids of these servers below it are here; NULL: nothing is known yet';
