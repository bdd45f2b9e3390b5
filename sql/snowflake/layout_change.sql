-- Change of the layout: what in this database depends on the server's layout, and
-- so is out of date when that is another one.
--
-- All of it is read from the catalogs: while "snowflake.layout" is not the
-- recorded layout, no function that goes by it may be called, not even by a
-- query on a table whose index calls one.  Hence the size of a partition tells
-- whether it holds rows.  Dependencies are followed through functions,
-- operators and views, but not through tables, which everything depends on.
-- The server does not know what a function depends on whose body is text, so
-- such a body is searched for names.

CREATE FUNCTION @extschema@.snowflake_layout_dependents(
        OUT object text, OUT uses text, OUT holds_rows boolean, OUT remedy text)
    RETURNS SETOF record ROWS 20
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    SET quote_all_identifiers = off
    SET jit = off
AS $$
    WITH RECURSIVE member(classid, objid) AS (
        SELECT d.classid, d.objid
          FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
         WHERE e.extname = 'snowflake' AND d.deptype = 'e'
    ), own_type AS (
        SELECT t.oid, t.typname FROM member AS m JOIN pg_type AS t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid
    ), own_function AS (
        SELECT p.oid, p.proname, p.proargtypes, coalesce('layout' = ANY (p.proargnames), false) AS names_layout
          FROM member AS m JOIN pg_proc AS p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
    ), reader(classid, objid, name) AS (
        -- functions that exist with a layout, too, and are called without;
        -- functions that the planner puts in the place of comparisons with
        -- times; these comparisons; partitions by shard, with the one operator class that
        -- is ours
        SELECT 'pg_proc'::regclass, f.oid, f.proname FROM own_function AS f
         WHERE NOT f.names_layout AND (f.proname IN (SELECT proname FROM own_function WHERE names_layout)
                                       OR f.proname IN ('snowflake_last_before', 'snowflake_last_until')
                                       OR (SELECT oid FROM own_type WHERE typname = 'snowflake_instant') = ANY (f.proargtypes))
        UNION ALL
        SELECT classid, objid, NULL FROM member WHERE classid = 'pg_opclass'::regclass
    ), dependent(classid, objid, by_classid, by_objid) AS (
        SELECT classid, objid, NULL, NULL FROM reader
        UNION
        SELECT 'pg_proc'::regclass, p.oid, r.classid, r.objid
          FROM pg_proc AS p
          JOIN pg_language AS l ON l.oid = p.prolang
          JOIN reader AS r ON p.prosrc ~ format('\m%s\M', r.name)
         WHERE l.lanname NOT IN ('internal', 'c')
           AND p.oid NOT IN (SELECT oid FROM own_function)
        UNION
        SELECT CASE WHEN view.oid IS NOT NULL THEN 'pg_class'::regclass ELSE d.classid END,
               coalesce(view.oid, d.objid), b.classid, b.objid
          FROM dependent AS b
          JOIN pg_depend AS d ON d.refclassid = b.classid AND d.refobjid = b.objid AND d.deptype IN ('n', 'a')
          LEFT JOIN pg_rewrite AS r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
          LEFT JOIN pg_class AS view ON view.oid = r.ev_class AND view.relkind IN ('v', 'm')
         WHERE b.classid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
            OR b.classid = 'pg_opclass'::regclass AND d.objid IN (SELECT partrelid FROM pg_partitioned_table)
            OR b.classid = 'pg_class'::regclass AND b.objid IN (SELECT oid FROM pg_class WHERE relkind IN ('v', 'm'))
    ), shown AS (
        SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS object, string_agg(DISTINCT
                   CASE WHEN f.oid IS NOT NULL THEN format('%s(%s)', f.proname, oidvectortypes(f.proargtypes))
                        WHEN w.oprleft IN (SELECT oid FROM own_type) THEN format('id %s timestamptz', w.oprname)
                        WHEN w.oprright IN (SELECT oid FROM own_type) THEN format('timestamptz %s id', w.oprname)
                        WHEN d.by_classid = 'pg_opclass'::regclass THEN 'snowflake_shard_ops'
                        ELSE pg_describe_object(d.by_classid, d.by_objid, 0) END, ', ') AS uses
          FROM dependent AS d
          LEFT JOIN own_function AS f ON d.by_classid = 'pg_proc'::regclass AND f.oid = d.by_objid
          LEFT JOIN pg_operator AS w ON d.by_classid = 'pg_operator'::regclass AND w.oid = d.by_objid
         WHERE d.by_objid <> d.objid
           AND NOT EXISTS (SELECT FROM member AS m WHERE m.classid = d.classid AND m.objid = d.objid)
         GROUP BY d.classid, d.objid
    ), expression AS (
        -- of a column, unless that of its parent table is shown
        SELECT e.oid, e.adrelid, e.adnum, a.attgenerated, s.uses
          FROM shown AS s
          JOIN pg_attrdef AS e ON s.classid = 'pg_attrdef'::regclass AND e.oid = s.objid
          JOIN pg_attribute AS a ON a.attrelid = e.adrelid AND a.attnum = e.adnum
         WHERE NOT EXISTS (
               SELECT FROM pg_inherits AS i
                 JOIN pg_attribute AS j ON j.attrelid = i.inhparent AND j.attname = a.attname
                 JOIN pg_attrdef AS h ON h.adrelid = j.attrelid AND h.adnum = j.attnum
                 JOIN shown AS o ON o.classid = 'pg_attrdef'::regclass AND o.objid = h.oid
                WHERE i.inhrelid = a.attrelid)
    ), updatable AS (
        SELECT attrelid, attnum, attname FROM pg_attribute
         WHERE attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity <> 'a'
    ), answer(place, object, uses, holds_rows, remedy) AS (
        -- what rows are checked by, whenever they change
        SELECT 1, CASE o.contypid WHEN 0 THEN s.object
                  ELSE format('constraint %I of domain %s', o.conname, o.contypid::regtype) END, s.uses, NULL::boolean,
               format(CASE o.contypid WHEN 0 THEN 'ALTER TABLE %1$s DROP CONSTRAINT %3$I, ADD CONSTRAINT %3$I %4$s;'
                      ELSE 'ALTER DOMAIN %2$s DROP CONSTRAINT %3$I; ALTER DOMAIN %2$s ADD CONSTRAINT %3$I %4$s;' END,
                      o.conrelid::regclass, o.contypid::regtype, o.conname, pg_get_constraintdef(o.oid))
          FROM shown AS s JOIN pg_constraint AS o ON s.classid = 'pg_constraint'::regclass AND o.oid = s.objid
         WHERE o.coninhcount = 0
        -- where rows are
        UNION ALL
        SELECT 2, s.object, s.uses, leaves.hold_rows,
               CASE WHEN NOT leaves.hold_rows THEN 'nothing: it holds no rows'
                    WHEN leaves.are_foreign THEN 'move rows by hand: partitions are foreign tables'
                    ELSE (SELECT format('UPDATE %s SET %2$I = %2$I;', pg_partition_root(p.partrelid), u.attname)
                            FROM updatable AS u WHERE u.attrelid = p.partrelid
                           ORDER BY u.attnum = ANY (p.partattrs) DESC, u.attnum LIMIT 1) END
          FROM shown AS s
          JOIN pg_partitioned_table AS p ON s.classid = 'pg_class'::regclass AND p.partrelid = s.objid
         CROSS JOIN LATERAL (
               SELECT coalesce(bool_or(c.relkind = 'f' OR pg_relation_size(c.oid) > 0), false) AS hold_rows,
                      bool_or(c.relkind = 'f') AS are_foreign
                 FROM pg_partition_tree(p.partrelid) AS t JOIN pg_class AS c ON c.oid = t.relid
                WHERE t.isleaf) AS leaves
        UNION ALL
        SELECT 3, pg_describe_object('pg_class'::regclass, p.partrelid, 0), 'ids as bounds of partitions', NULL,
               'drop the partitions that are still empty, and make them again'
          FROM pg_partitioned_table AS p
         WHERE p.partstrat = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = p.partrelid)
           -- a bigint holds snowflakes if its default mints them
           AND EXISTS (SELECT FROM pg_attribute AS a JOIN pg_type AS b ON b.oid = a.atttypid
                        WHERE a.attrelid = p.partrelid AND a.attnum = ANY (p.partattrs)
                          AND ((SELECT oid FROM own_type WHERE typname = 'snowflake') IN (b.oid, b.typbasetype)
                               OR EXISTS (SELECT FROM pg_attrdef AS e
                                            JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
                                            JOIN own_function AS f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
                                           WHERE e.adrelid = a.attrelid AND e.adnum = a.attnum
                                             AND f.proname = 'snowflake_nextval')))
        -- what is stored
        UNION ALL
        SELECT 4, pg_describe_object('pg_class'::regclass, e.adrelid, e.adnum), e.uses, NULL,
               (SELECT format('UPDATE %s SET %2$I = %2$I;', e.adrelid::regclass, u.attname)
                  FROM pg_depend AS d JOIN updatable AS u ON u.attrelid = d.refobjid AND u.attnum = d.refobjsubid
                 WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
                   AND d.refclassid = 'pg_class'::regclass AND d.refobjid = e.adrelid
                 ORDER BY u.attnum LIMIT 1)
          FROM expression AS e WHERE e.attgenerated = 's'
        UNION ALL
        SELECT 5, s.object, s.uses, NULL,
               format(CASE c.relkind WHEN 'm' THEN 'REFRESH MATERIALIZED VIEW %s;' ELSE 'REINDEX INDEX %s;' END, c.oid::regclass)
          FROM shown AS s JOIN pg_class AS c ON s.classid = 'pg_class'::regclass AND c.oid = s.objid
         WHERE c.relkind = 'm' OR c.relkind IN ('i', 'I') AND NOT c.relispartition
        UNION ALL
        SELECT 6, s.object, s.uses, NULL, format('ANALYZE %s;', x.stxrelid::regclass)
          FROM shown AS s JOIN pg_statistic_ext AS x ON s.classid = 'pg_statistic_ext'::regclass AND x.oid = s.objid
        -- what reads
        UNION ALL
        SELECT 7, s.object, s.uses, NULL, 'to read old ids, name their layout in it'
          FROM shown AS s
          LEFT JOIN pg_class AS c ON s.classid = 'pg_class'::regclass AND c.oid = s.objid
          LEFT JOIN pg_trigger AS t ON s.classid = 'pg_trigger'::regclass AND t.oid = s.objid
         WHERE s.classid NOT IN ('pg_constraint'::regclass, 'pg_statistic_ext'::regclass)
           AND coalesce(c.relkind = 'v', true) AND coalesce(t.tgparentid = 0, true)
           AND (s.classid <> 'pg_attrdef'::regclass OR s.objid IN (SELECT oid FROM expression WHERE attgenerated <> 's'))
    )
    SELECT object, uses, holds_rows, remedy FROM answer ORDER BY place, object COLLATE "C"
$$;

-- Go on with another layout.  A rollback does not undo that, so rows that would
-- be misplaced are looked for first; and transactions that are prepared and have minted:
-- their ids are of the old layout, and the mark that they hold would not be below them.

CREATE FUNCTION @extschema@.snowflake_accept_layout(allow_misplaced_rows boolean DEFAULT false,
        OUT object text, OUT uses text, OUT holds_rows boolean, OUT remedy text)
    RETURNS SETOF record ROWS 20
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    SET quote_all_identifiers = off
AS $$
DECLARE
    own        regnamespace;   -- the extension's schema
    is_changed boolean;
    unfinished text;
    holding    text;
    others     text;
BEGIN
    IF allow_misplaced_rows IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'allow_misplaced_rows must not be null';
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';

    -- Has it changed?  If the library is not preloaded, no layout is in use; the
    -- error about that, and about a standby, is snowflake_store_layout()'s.
    EXECUTE format('SELECT bool_or(in_use) AND NOT pg_is_in_recovery() FROM %s.snowflake_layouts()', own) INTO is_changed;
    IF is_changed THEN
        BEGIN
            EXECUTE format('SELECT false FROM %1$s.snowflake_shard(0::bigint)', own) INTO is_changed;
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            NULL;   -- the layout is not the recorded one
        END;
    END IF;
    IF is_changed THEN
        unfinished := (SELECT string_agg(format('%L of database %I', p.gid, p.database), ', ' ORDER BY p.database, p.gid)
                         FROM pg_prepared_xacts AS p
                        WHERE EXISTS (SELECT FROM pg_locks AS own JOIN pg_locks AS mark USING (virtualtransaction)
                                       WHERE own.transactionid = p.transaction
                                         AND mark.locktype = 'advisory' AND mark.objsubid = 24346));
        IF unfinished IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = 'transactions that minted ids of the old layout are prepared',
                DETAIL = format('Readers of what is new would miss their rows. They are %s.', unfinished),
                HINT = 'In its database, end each of them with COMMIT PREPARED or ROLLBACK PREPARED.';
        END IF;
        EXECUTE format('SELECT string_agg(object, '', '') FROM %s.snowflake_layout_dependents() WHERE holds_rows', own)
            INTO holding;
        IF holding IS NOT NULL AND NOT allow_misplaced_rows THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = 'rows are in partitions where the new layout does not look for them',
                DETAIL = format('The layout says which partition a row is in, and these hold rows: %s.', holding),
                HINT = 'Detach their partitions first. Or call snowflake_accept_layout(allow_misplaced_rows => true), '
                       'and move the rows before anybody uses the tables: its result says how.';
        END IF;
    END IF;

    EXECUTE format('SELECT %s.snowflake_store_layout()', own);

    IF is_changed THEN
        others := (SELECT string_agg(quote_ident(datname), ', ' ORDER BY datname) FROM pg_database
                    WHERE datname <> current_database() AND datallowconn AND NOT datistemplate);
        IF others IS NOT NULL THEN
            RAISE NOTICE USING
                MESSAGE = format('only database "%s" was searched', current_database()),
                HINT = format('Call snowflake_layout_dependents() in each other database that has the extension. '
                              'The others are %s.', others);
        END IF;
        RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_layout_dependents()', own);
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION @extschema@.snowflake_accept_layout(boolean) FROM PUBLIC;

COMMENT ON FUNCTION @extschema@.snowflake_layout_dependents() IS 'what in this database depends on the server''s layout, and what to do when that changes';
COMMENT ON FUNCTION @extschema@.snowflake_accept_layout(boolean) IS 'go on with a changed snowflake.layout';
