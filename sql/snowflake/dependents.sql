-- The way out: what DROP EXTENSION would refuse for, or what stands in the way of the
-- statements that change it.  Like snowflake_revert(), it needs the catalogs alone, not
-- the library.

CREATE FUNCTION @extschema@.snowflake_dependents(OUT step integer, OUT object text, OUT statement text)
    RETURNS SETOF record ROWS 20
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    SET quote_all_identifiers = off
    SET jit = off
AS $$
    WITH RECURSIVE own(classid, objid) AS (
        -- what DROP EXTENSION drops
        SELECT tableoid, oid FROM pg_extension WHERE extname = 'snowflake'
        UNION
        SELECT d.classid, d.objid
          FROM own
          JOIN pg_depend AS d ON d.refclassid = own.classid AND d.refobjid = own.objid
         WHERE d.deptype IN ('e', 'i', 'a', 'x')
    ), types(oid, is_row) AS (
        -- its types, which of them are rows of its views, and the domains and arrays of them
        SELECT objid, EXISTS (SELECT FROM pg_type AS r WHERE r.oid IN (t.oid, t.typelem) AND r.typrelid <> 0)
          FROM own JOIN pg_type AS t ON own.classid = 'pg_type'::regclass AND t.oid = own.objid
         WHERE NOT EXISTS (SELECT FROM pg_depend AS x WHERE x.classid = 'pg_class'::regclass AND x.objid = t.typrelid AND x.deptype = 'x')
        UNION
        SELECT t.oid, is_row FROM types JOIN pg_type AS t ON types.oid IN (t.typbasetype, t.typelem)
    ), columns AS (
        SELECT a.attrelid, a.attnum, a.attname, a.attinhcount, c.relkind,
               CASE WHEN types.is_row THEN 'text' WHEN t.typcategory = 'A' THEN 'bigint[]' ELSE 'bigint' END AS new_type,
               CASE WHEN types.is_row THEN format(' USING %I::text', a.attname) END AS conversion,
               EXISTS (SELECT FROM pg_partitioned_table AS p
                        WHERE p.partrelid = a.attrelid AND a.attnum = ANY (p.partattrs)) AS is_partition_key
          FROM types
          JOIN pg_type AS t ON t.oid = types.oid
          JOIN pg_attribute AS a ON a.atttypid = t.oid
          JOIN pg_class AS c ON c.oid = a.attrelid
         WHERE (c.oid, 'pg_class'::regclass) NOT IN (SELECT objid, classid FROM own)
    ), uses AS (
        -- other objects that need the extension
        SELECT d.classid, d.objid, d.objsubid
          FROM own
          JOIN pg_depend AS d ON d.refclassid = own.classid AND d.refobjid = own.objid
         WHERE (d.classid, d.objid) NOT IN (SELECT classid, objid FROM own)
           AND NOT (d.classid = 'pg_class'::regclass AND d.objsubid > 0)
        UNION
        -- objects that keep such a column from changing its type
        SELECT d.classid, d.objid, d.objsubid
          FROM columns AS c
          JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass
               AND d.refobjid = c.attrelid AND d.refobjsubid = c.attnum
          LEFT JOIN pg_attrdef AS e ON d.classid = 'pg_attrdef'::regclass AND e.oid = d.objid
         WHERE d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass, 'pg_trigger'::regclass,
                             'pg_policy'::regclass, 'pg_publication_rel'::regclass)
            OR e.adnum <> c.attnum
    ), answer(step, object, statement) AS (
        SELECT 1, CASE WHEN r.oid IS NULL THEN pg_describe_object(u.classid, u.objid, u.objsubid)
                       ELSE pg_describe_object('pg_class'::regclass, r.ev_class, 0) END, NULL
          FROM uses AS u
          LEFT JOIN pg_rewrite AS r ON u.classid = 'pg_rewrite'::regclass AND r.oid = u.objid AND r.rulename = '_RETURN'
         WHERE u.classid <> 'pg_attrdef'::regclass
        UNION ALL
        SELECT 1, pg_describe_object('pg_class'::regclass, attrelid, attnum), NULL
          FROM columns WHERE is_partition_key AND attinhcount = 0
        UNION ALL
        -- a key goes back to a sequence; what else is computed or minted keeps its values
        SELECT CASE WHEN k.is_key THEN 3 ELSE 2 END, pg_describe_object(u.classid, u.objid, u.objsubid),
               CASE WHEN k.is_key THEN format('SELECT %s.snowflake_revert(%L, %L, false);', e.extnamespace::regnamespace, a.attrelid::regclass, a.attname)
                    ELSE format('ALTER TABLE %s ALTER %I DROP %s;', a.attrelid::regclass, a.attname,
                                CASE a.attgenerated WHEN '' THEN 'DEFAULT' ELSE 'EXPRESSION' END) END
          FROM uses AS u
          JOIN pg_extension AS e ON e.extname = 'snowflake'
          JOIN pg_attrdef AS d ON u.classid = 'pg_attrdef'::regclass AND d.oid = u.objid
          JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
          JOIN pg_class AS c ON c.oid = a.attrelid
         CROSS JOIN LATERAL (SELECT a.attinhcount = 0 AND c.relkind IN ('r', 'p') AND a.attgenerated = ''
               AND (a.atttypid = 'bigint'::regtype OR a.atttypid IN (SELECT objid FROM own WHERE classid = 'pg_type'::regclass))
               AND pg_get_expr(d.adbin, d.adrelid) ~ '^\(?([^()'']+\.)?snowflake_nextval\(\d*\)\)?(::[^()'']+)?$'
               AND NOT EXISTS (SELECT FROM pg_constraint AS f WHERE f.contype = 'f' AND f.conrelid = a.attrelid AND a.attnum = ANY (f.conkey))
               AND NOT EXISTS (SELECT FROM columns AS x WHERE x.attrelid = a.attrelid AND x.attnum = a.attnum AND x.is_partition_key)
               AND NOT EXISTS (SELECT FROM uses AS x WHERE x.classid = 'pg_class'::regclass AND x.objid = a.attrelid AND c.relkind = 'p')) AS k(is_key)
         WHERE a.attgenerated = '' OR a.attinhcount = 0
        UNION ALL
        SELECT 4, pg_describe_object('pg_class'::regclass, attrelid, attnum),
               format(CASE relkind WHEN 'c' THEN 'ALTER TYPE %s ALTER ATTRIBUTE %I TYPE %s;' ELSE 'ALTER TABLE %s ALTER %I TYPE %s%s;' END,
                      attrelid::regclass, attname, new_type, conversion)
          FROM columns
         WHERE relkind IN ('r', 'p', 'f', 'c') AND attinhcount = 0 AND NOT is_partition_key
    )
    SELECT step, object, statement FROM answer ORDER BY step, object COLLATE "C"
$$;

COMMENT ON FUNCTION @extschema@.snowflake_dependents() IS 'what in this database uses the extension, with the statement that changes it';
