-- definitions.sql -- the definitions, by the catalogs, which each psql shows alike

SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1;
SELECT table_name, column_name, udt_name, domain_name, column_default, generation_expression
    FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2;
SELECT oid::regclass, pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid), pg_get_partition_constraintdef(oid)
    FROM pg_class WHERE relname ~ '^by_' AND relkind IN ('r', 'p') ORDER BY 1;
SELECT conrelid::regclass, conname, pg_get_constraintdef(oid, true), convalidated
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY 1, 2;
SELECT viewname, definition FROM pg_views WHERE viewname = 'recent';
SELECT extname, extversion FROM pg_extension WHERE extname = 'snowflake';
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
    WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') AND deptype = 'e'
    AND (classid <> 'pg_type'::regclass OR objid::regtype::text !~ 'layouts|stat_|unsettled|\[\]') ORDER BY 1;   -- from 17 on these are, too
