-- Audit: what a column holds that it should not, found in one pass.
--
-- Only reads, and leaves nothing behind, so that it works on a standby.  Being
-- STABLE, it sees all portions of the table as of its call.  A portion is so
-- many blocks of each partition and child, all read by way of the table that
-- was named, whose privileges count.  Rows are put into groups of like ones,
-- of which each finding then takes its share, so that a row is looked at once.
--
-- Blocks are read by src/tables.c, without a query on the table, so that no code of its
-- owner's runs.  A view is nothing but code: it is read as its owner, for
-- those who have the owner's rights.  (With row security an audit would be one of what
-- the caller may see.)

CREATE FUNCTION @extschema@.snowflake_audit(relation regclass, column_name name, layout text DEFAULT NULL,
        expected_shards text DEFAULT NULL, earliest timestamptz DEFAULT NULL,
        OUT finding text, OUT ids bigint, OUT shards text,
        OUT first_id @extschema@.snowflake, OUT first_at timestamptz,
        OUT last_id @extschema@.snowflake, OUT last_at timestamptz)
    RETURNS SETOF record ROWS 6
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    SET quote_all_identifiers = off
    SET row_security = off
    SET jit = off
AS $$
DECLARE
    portion   CONSTANT integer := 1024;         -- of blocks, 8 MB: what fits into memory
    least_step CONSTANT integer := 2048;        -- of blocks, between two notices
    steps     CONSTANT integer := 20;           -- at most
    own       regnamespace;    -- the extension's schema
    class     record;          -- of the relation in pg_class
    id_type   oid;
    now       timestamptz := clock_timestamp();
    reading   text;            -- further arguments of what reads ids
    minted    text;            -- an id's time, in a comparison with a time
    compares  regnamespace;    -- the schema of that comparison's operator
    last      record;          -- the layout's last shard and sequence number
    element   text;
    range     bigint[];
    expected  int8multirange;  -- NULL: not asked for
    -- the blocks of each partition and child
    sizes     bigint[];
    unseen    text[];          -- parts that were not read, with the reason
    step      bigint;
    at        bigint := 0;
    ids_of    text;            -- the call that reads a portion, or a view
    -- groups of ids, by shard and by what is remarkable
    of_shard  integer[];
    is_future boolean[];
    is_early  boolean[];
    is_end    boolean[];
    counts    bigint[];
    firsts    bigint[];
    lasts     bigint[];
BEGIN
    IF relation IS NULL OR column_name IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'relation and column_name must not be null';
    END IF;
    SELECT c.relname, c.relkind INTO class FROM pg_class AS c WHERE c.oid = relation;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', relation::oid);
    END IF;
    IF class.relkind = 'f' THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is a foreign table', class.relname),
            HINT = 'Audit it on its own server, or a materialized view of it here.';
    END IF;
    IF class.relkind NOT IN ('r', 'p', 'm', 'v') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a table or view', class.relname);
    END IF;
    SELECT a.atttypid INTO id_type FROM pg_attribute AS a
     WHERE a.attrelid = relation AND a.attname = column_name AND NOT a.attisdropped;
    IF NOT FOUND THEN
        RAISE undefined_column USING
            MESSAGE = format('column "%s" of relation "%s" does not exist', column_name, class.relname);
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    WHILE (SELECT typtype = 'd' FROM pg_type WHERE oid = id_type) LOOP
        id_type := (SELECT typbasetype FROM pg_type WHERE oid = id_type);
    END LOOP;
    IF id_type NOT IN ('bigint'::regtype, format('%s.snowflake', own)::regtype) THEN
        RAISE datatype_mismatch USING
            MESSAGE = format('column "%s" of relation "%s" holds no snowflakes', column_name, class.relname),
            DETAIL = format('It is of type %s, not snowflake or bigint.', format_type(id_type, NULL)),
            HINT = 'To audit ids that are stored otherwise, audit a view that casts them to bigint.';
    END IF;

    -- Arguments have exactly the functions' types, here and below: whoever may
    -- create functions in the extension's schema could offer a closer match.
    reading := coalesce(', ' || quote_literal(layout) || '::text', '');
    EXECUTE format('SELECT %1$s.snowflake_shard($2%2$s) AS shard, %1$s.snowflake_sequence($2%2$s) AS sequence, '
                   'coalesce($1, %1$s.snowflake_timestamp($3%2$s)) AS earliest', own, reading)
        INTO last USING earliest, -1::bigint, 0::bigint;

    -- In the server's layout the planner makes it a comparison with a bigint.
    IF layout IS NULL THEN
        minted := format('id::%1$s.snowflake::%1$s.snowflake_instant', own);
        compares := own;
    ELSE
        minted := format('%s.snowflake_timestamp(id%s)', own, reading);
        compares := 'pg_catalog';
    END IF;

    -- The server's own shards mean nothing in another layout, and those that it
    -- leases by 'auto' are others every day.
    IF expected_shards IS NULL AND layout IS NULL AND current_setting('snowflake.shards') !~ '^\s*auto' THEN
        expected_shards := current_setting('snowflake.shards');
    END IF;
    FOREACH element IN ARRAY coalesce(string_to_array(nullif(btrim(expected_shards), ''), ','), '{}') LOOP
        range := regexp_match(element, '^\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?$');
        IF range IS NULL OR range[2] < range[1] THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('invalid list of shards "%s"', expected_shards),
                DETAIL = format('"%s" is not a shard or a range of shards.', btrim(element)),
                HINT = 'A list of shards is written as in snowflake.shards: 5, 0-7 or 1,5,9-12.';
        END IF;
        IF coalesce(range[2], range[1]) > last.shard THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('shard %s is out of range', coalesce(range[2], range[1])),
                DETAIL = format('The layout has shards 0 to %s.', last.shard);
        END IF;
        expected := coalesce(expected, '{}') + int8multirange(int8range(range[1], coalesce(range[2], range[1]), '[]'));
    END LOOP;

    IF class.relkind = 'v' THEN
        sizes := '{0}';
        ids_of := format('%s.snowflake_read_view(%L::regclass, %L::name)', own, relation::oid, column_name);
    ELSE
        EXECUTE format('SELECT coalesce(array_agg(blocks) FILTER (WHERE unseen IS NULL), ''{}''), array_agg(unseen) FILTER (WHERE unseen IS NOT NULL) '
                       '  FROM %s.snowflake_parts($1, $2)', own) INTO sizes, unseen USING relation, column_name;
        ids_of := format('%s.snowflake_read_ids(%L::regclass, %L::name, $11, $12)', own, relation::oid, column_name);
    END IF;
    IF unseen <> '{}' THEN
        RAISE WARNING USING
            MESSAGE = format('%s parts of "%s" were not audited', cardinality(unseen), class.relname),
            DETAIL = format('They are %s.', array_to_string(unseen, ', '));
    END IF;
    step := greatest((SELECT max(size) FROM unnest(sizes) AS size) / steps + 1, least_step);

    LOOP
        EXECUTE format(
            'SELECT array_agg(shard), array_agg(is_future), array_agg(is_early), array_agg(is_end), '
            '       array_agg(ids), array_agg(first), array_agg(last) '
            '  FROM (SELECT shard, is_future, is_early, is_end, sum(ids) AS ids, min(first) AS first, max(last) AS last '
            '          FROM (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) '
            '                UNION ALL '
            '                SELECT %1$s.snowflake_shard(id%2$s), %4$s OPERATOR(%5$s.>) $8, '
            '                       %4$s OPERATOR(%5$s.<) $9, %1$s.snowflake_sequence(id%2$s) = $10, '
            '                       count(*), min(id), max(id) '
            '                  FROM %3$s AS portion(id) '
            '                 GROUP BY 1, 2, 3, 4) AS part(shard, is_future, is_early, is_end, ids, first, last) '
            '         GROUP BY shard, is_future, is_early, is_end) AS seen', own, reading, ids_of, minted, compares)
            INTO of_shard, is_future, is_early, is_end, counts, firsts, lasts
            USING of_shard, is_future, is_early, is_end, counts, firsts, lasts, now, last.earliest, last.sequence, at, at + portion;
        at := at + portion;
        IF step < ANY (sizes) AND (at % step < portion OR at >= ALL (sizes)) THEN
            RAISE NOTICE USING MESSAGE = (
                SELECT format('audited %s of %s blocks of "%s", %s%%', done, whole, class.relname, div(100 * done, whole))
                  FROM (SELECT sum(least(size, at)) AS done, sum(size) AS whole FROM unnest(sizes) AS size) AS progress);
        END IF;
        EXIT WHEN at >= ALL (sizes);
    END LOOP;

    RETURN QUERY EXECUTE format(
        'WITH seen AS (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) '
        '                  AS seen(shard, is_future, is_early, is_end, ids, first, last)), '
        'found AS (SELECT f.place, f.finding, s.shard, sum(s.ids) AS ids, min(s.first) AS first, max(s.last) AS last, '
        '                 row_number() OVER (PARTITION BY f.place ORDER BY sum(s.ids) DESC, s.shard) AS rank '
        '            FROM (VALUES (1, ''all ids''), (2, ''null''), (3, ''in the future''), (4, ''too early''), '
        '                         (5, ''unexpected shard''), (6, ''exhausted tick'')) AS f(place, finding) '
        '            LEFT JOIN seen AS s ON CASE f.place WHEN 1 THEN s.shard IS NOT NULL WHEN 2 THEN s.shard IS NULL '
        '                                   WHEN 3 THEN s.is_future WHEN 4 THEN s.is_early '
        '                                   WHEN 5 THEN NOT s.shard::bigint <@ $8 ELSE s.is_end END '
        '           GROUP BY f.place, f.finding, s.shard) '
        'SELECT finding, CASE WHEN place <> 5 OR $8 IS NOT NULL THEN coalesce(sum(ids), 0)::bigint END, '
        '       string_agg(format(''%%s: %%s'', shard, ids), '', '' ORDER BY rank) FILTER (WHERE rank <= 5 AND shard IS NOT NULL) '
        '           || CASE WHEN count(shard) > 5 THEN format('', %%s more'', count(shard) - 5) ELSE '''' END, '
        '       min(first)::%1$s.snowflake, %1$s.snowflake_timestamp(min(first)%2$s), '
        '       max(last)::%1$s.snowflake, %1$s.snowflake_timestamp(max(last)%2$s) '
        '  FROM found GROUP BY place, finding ORDER BY place', own, reading)
        USING of_shard, is_future, is_early, is_end, counts, firsts, lasts, expected;
END
$$;

COMMENT ON FUNCTION @extschema@.snowflake_audit(regclass, name, text, text, timestamptz) IS 'count the ids of a column that it should not hold';
