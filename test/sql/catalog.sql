--
-- What CREATE EXTENSION makes: properties of the functions, a comment on each
-- object, a schema of choice, and a way out.
--
CREATE EXTENSION snowflake;

-- every object, but for the types that come by themselves
SELECT pg_describe_object(classid, objid, 0) AS object
  FROM pg_depend
 WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
   AND NOT (classid = 'pg_type'::regclass AND objid <> 'snowflake'::regtype)
 ORDER BY pg_describe_object(classid, objid, 0) COLLATE "C";

-- those that have no comment: none
SELECT pg_describe_object(classid, objid, 0) AS object
  FROM pg_depend
 WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
   AND obj_description(objid, classid::regclass::name) IS NULL
   AND NOT (classid = 'pg_type'::regclass AND objid <> 'snowflake'::regtype)
   AND classid <> 'pg_rewrite'::regclass
 ORDER BY pg_describe_object(classid, objid, 0) COLLATE "C";

SELECT obj_description(oid, 'pg_extension') IS NOT NULL AS commented FROM pg_extension WHERE extname = 'snowflake';

-- what each function promises
SELECT p.oid::regprocedure AS function,
       CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
       CASE WHEN proisstrict THEN 'strict' ELSE 'not strict' END AS "NULL",
       CASE proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel,
       proleakproof AS leakproof, prosecdef AS definer,
       lanname AS language, proretset AS set, prorows AS rows, prorettype::regtype AS returns
  FROM pg_depend d
  JOIN pg_proc p ON p.oid = d.objid
  JOIN pg_language l ON l.oid = p.prolang
 WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
 ORDER BY p.oid::regprocedure::text COLLATE "C";

-- what is not everybody's
SELECT p.oid::regprocedure AS function
  FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
 WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
   AND NOT has_function_privilege('public', p.oid, 'EXECUTE')
 ORDER BY p.oid::regprocedure::text COLLATE "C";

SELECT has_table_privilege('public', 'snowflake_layouts', 'SELECT') AS "select",
       has_table_privilege('public', 'snowflake_layouts', 'UPDATE') AS "update",
       has_type_privilege('public', 'snowflake', 'USAGE') AS usage;

-- so that a query's constant parts are worked out once, and an index can hold the rest
CREATE TABLE events (id snowflake);
EXPLAIN (COSTS OFF, VERBOSE)
SELECT 1 FROM events WHERE snowflake_shard(1541815603606036480) = 378 AND id > 5;
CREATE INDEX events_time ON events (snowflake_timestamp(id));
CREATE INDEX events_shard ON events (snowflake_shard(id, 'discord'), snowflake_sequence(id));
ALTER TABLE events ADD created_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED;
-- each operator class is complete
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcname ~ 'snowflake';

-- majors word this error differently
\set VERBOSITY sqlstate
CREATE INDEX events_mint ON events ((snowflake_nextval(5) + id));
\set VERBOSITY default

-- a column keeps the extension, until it is dropped along with it
DROP EXTENSION snowflake;
DROP TYPE snowflake;
DROP FUNCTION snowflake_nextval();
DROP EXTENSION snowflake CASCADE;
SELECT attname FROM pg_attribute WHERE attrelid = 'events'::regclass AND attnum > 0 AND NOT attisdropped;
DROP TABLE events;

-- nothing is left behind
SELECT typname FROM pg_type WHERE typname ~ 'snowflake';
SELECT oid::regprocedure FROM pg_proc WHERE proname ~ 'snowflake';
SELECT relname FROM pg_class WHERE relname ~ 'snowflake';

-- in another schema, not searched
CREATE SCHEMA ids;
CREATE SCHEMA "More Ids";
CREATE EXTENSION snowflake SCHEMA ids;
CREATE TABLE events (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval(5), note text);
INSERT INTO events (note) VALUES ('one') RETURNING id > 0 AS minted;
SELECT shard FROM events, ids.snowflake_decode(id);
SELECT count(*) FROM events WHERE id > 5 AND id::timestamptz <= clock_timestamp();
SELECT name FROM ids.snowflake_layouts WHERE in_use;
SELECT 'snowflake'::regtype;

-- moved to a third
UPDATE pg_extension SET extrelocatable = true WHERE extname = 'snowflake';
ALTER EXTENSION snowflake SET SCHEMA "More Ids";
SELECT extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'snowflake';
INSERT INTO events (note) VALUES ('two') RETURNING id > 0 AS minted;
SELECT DISTINCT shard FROM events, "More Ids".snowflake_decode(id);
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'events'::regclass;
SELECT name FROM "More Ids".snowflake_layouts WHERE in_use;

-- nothing is in the schemas that it left
SELECT relname FROM pg_class WHERE relnamespace IN ('ids'::regnamespace, 'public'::regnamespace) AND relname ~ 'snowflake';
SELECT proname FROM pg_proc WHERE pronamespace IN ('ids'::regnamespace, 'public'::regnamespace) AND proname ~ 'snowflake';

DROP TABLE events;
DROP EXTENSION snowflake;
DROP SCHEMA ids;
DROP SCHEMA "More Ids";
