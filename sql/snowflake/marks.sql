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
    marks regclass DEFAULT pg_catalog.to_regclass('snowflake_marks'::text)) RETURNS @extschema@.snowflake
    LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '1s'
AS $$
DECLARE
    own       regnamespace;    -- the extension's schema
    name      text := coalesce(server, (SELECT format('%s/%s', system_identifier, current_database()) FROM pg_control_system()));
    is_owned  boolean;
    statement text;
    mark      bigint[];        -- that is stored, and the one of before
BEGIN
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    EXECUTE format('SELECT %s.snowflake_settled()', own);   -- during recovery, its error says what to do
    SELECT pg_has_role(relowner, 'USAGE') INTO is_owned FROM pg_class WHERE oid = marks;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = 'there is no table for marks',
            DETAIL = 'The search_path finds no table "snowflake_marks", and no other one is named.',
            HINT = 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL)';
    END IF;
    statement := format(
        'WITH before AS (SELECT mark FROM %1$s WHERE server = %3$L) '
        'INSERT INTO %1$s AS published (server, mark, published_at) '
        'VALUES (%3$L, %2$s.snowflake_settled(), clock_timestamp()) '
        'ON CONFLICT (server) DO UPDATE '
        'SET mark = CASE WHEN %2$s.snowflake_is_before_horizon(published.mark::bigint) '
        'THEN greatest(published.mark, excluded.mark) ELSE excluded.mark END, '
        'published_at = excluded.published_at '
        'RETURNING ARRAY[mark::bigint, (SELECT mark FROM before)::bigint]', marks, own, name);
    IF is_owned THEN
        EXECUTE format('SELECT %s.snowflake_run_as_owner($1, $2)', own) INTO mark USING marks, statement;
    ELSE
        EXECUTE statement INTO mark;
    END IF;
    IF mark[1] < mark[2] THEN
        RAISE WARNING USING
            MESSAGE = format('the stored mark %s of server "%s" is replaced by %s', mark[2], name, mark[1]),
            DETAIL = 'It is after all ids that this server may have minted: it is of another layout, of another server, or of a history that is lost.',
            HINT = 'Let readers that went by the stored mark read again from the new one on.';
    END IF;
    RETURN mark[1];
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_publish_mark(text, regclass) IS 'store the mark of snowflake_settled() in a table, as that of this server';

-- The mark that a reader of several servers' rows goes by.
--
-- A subscription synchronizes each table by itself, and applies changes of others
-- meanwhile.  So a mark can be here before the rows of which it speaks, until both
-- tables are in state "r": from then on the same worker applies the changes of both,
-- in the order of their commits.  Marks that came by another subscription are in no
-- order with the rows at all.
--
-- All is read with the snapshot of the statement that calls it, as it is STABLE.
-- So there is nothing between the mark and the rows that this statement reads.
-- The table of marks is read row by row, so that no code of its owner's runs.
CREATE FUNCTION @extschema@.snowflake_least_mark(relation regclass, servers text[],
    marks regclass DEFAULT pg_catalog.to_regclass('snowflake_marks'::text)) RETURNS @extschema@.snowflake
    LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own    regnamespace;    -- the extension's schema
    names  text[] := (SELECT array_agg(DISTINCT name) FROM unnest(servers) AS name WHERE name IS NOT NULL);
    class  record;
    brings record;          -- what the subscriptions that bring rows of the relation are like
    least  bigint;
BEGIN
    IF relation IS NULL OR servers IS NULL THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = marks) THEN
        RAISE undefined_table USING
            MESSAGE = 'there is no table for marks',
            DETAIL = 'The search_path finds no table "snowflake_marks", and no other one is named.',
            HINT = 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL)';
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

    WITH part AS (
        SELECT relid FROM pg_partition_tree(relation)
        UNION SELECT relid FROM pg_partition_ancestors(relation)
        UNION SELECT relation),
    subscription AS (
        SELECT bool_or(srrelid = marks) AS has_marks,
               bool_and(srsubstate = 'r') FILTER (WHERE srrelid = marks OR srrelid IN (SELECT relid FROM part)) AS is_ready,
               (SELECT subname FROM pg_subscription WHERE oid = srsubid) AS name
          FROM pg_subscription_rel
         GROUP BY srsubid
        HAVING bool_or(srrelid IN (SELECT relid FROM part)))
    SELECT count(*) AS number, bool_and(is_ready) AS are_ready,
           string_agg(quote_ident(name), ', ' ORDER BY name) AS listed,
           string_agg(quote_ident(name), ', ' ORDER BY name) FILTER (WHERE NOT has_marks) AS without_marks
      INTO brings
      FROM subscription;
    IF brings.without_marks IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('no marks come with the rows of table "%s"', class.relname),
            DETAIL = format('They come by subscriptions without the table %s: %s.', marks, brings.without_marks),
            HINT = 'Add that table to the publication, and refresh the subscription.';
    END IF;
    IF brings.number > cardinality(names) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('table "%s" has rows of more servers than are named', class.relname),
            DETAIL = format('Servers named: %s. Subscriptions that bring rows: %s.', array_to_string(names, ', '), brings.listed),
            HINT = 'Name each server whose ids are in the table, as in the table of marks.';
    END IF;
    IF NOT brings.are_ready THEN
        RETURN NULL;
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    EXECUTE format('SELECT min(mark) FROM %s.snowflake_read_marks($1) WHERE server = ANY ($2) HAVING count(*) = cardinality($2)', own)
        INTO least USING marks, names;
    RETURN least;
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_least_mark(regclass, text[], regclass) IS 'all rows of a table with ids of these servers below it are here; NULL: nothing is known yet';
