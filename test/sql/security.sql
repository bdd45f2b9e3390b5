--
-- Who can do what: the claims and the recipes of doc/security.md, with roles
-- that have no privileges, and a search_path that is out to deceive.
--
CREATE EXTENSION snowflake;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SET datestyle = 'ISO';
CREATE ROLE regress_snowflake_stranger;
CREATE ROLE regress_snowflake_app;
CREATE ROLE regress_snowflake_mint NOLOGIN;

CREATE VIEW members AS
SELECT p.oid::regprocedure AS function, p.*
  FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
 WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake');

-- None runs with its owner's rights; what is parsed when it runs, does so with a
-- search_path of its own; and of those that everybody may call, these alone may
-- change from one call to the next: two mint, two tell, one waits, one stores a mark
-- and the others write DDL, with the caller's own rights.
SELECT function FROM members WHERE prosecdef;
SELECT function FROM members
 WHERE prolang NOT IN (SELECT oid FROM pg_language WHERE lanname IN ('c', 'internal'))
   AND prosqlbody IS NULL AND 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(proconfig, '{}'));
SELECT function FROM members
 WHERE provolatile = 'v' AND has_function_privilege('public', oid, 'EXECUTE')
 ORDER BY function::text COLLATE "C";
-- whose privileges are a superuser's to give
SELECT bool_and(NOT has_function_privilege('public', oid, 'EXECUTE')) AS kept
  FROM members WHERE proname ~ '^snowflake_(accept_|store_|stat_reset)';
-- nobody but the owner writes to a relation of the extension
SELECT c.oid::regclass, privilege_type
  FROM pg_depend AS d JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
 CROSS JOIN LATERAL aclexplode(c.relacl)
 WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
   AND grantee <> c.relowner AND privilege_type <> 'SELECT';

-- Anybody mints, and reads any id's time, as far as nobody prevents it.
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5), url text);
GRANT SELECT, INSERT ON photos TO regress_snowflake_stranger, regress_snowflake_app;
SET ROLE regress_snowflake_stranger;
SELECT snowflake_nextval(5) > 0 AS minted;
INSERT INTO photos (url) VALUES ('a.jpg');
SELECT count(*) FROM photos WHERE snowflake_timestamp(id) < now() + interval '1 min';
RESET ROLE;

-- Only some roles mint.  A default is worked out with the rights of whoever inserts.
REVOKE EXECUTE ON FUNCTION snowflake_nextval(), snowflake_nextval(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_nextval(), snowflake_nextval(integer) TO regress_snowflake_app;
SET ROLE regress_snowflake_stranger;
SELECT snowflake_nextval(5);
\echo :SQLSTATE
SELECT snowflake_nextval();
INSERT INTO photos (url) VALUES ('b.jpg');
\echo :SQLSTATE
PREPARE minting AS INSERT INTO photos VALUES (DEFAULT, 'b.jpg');
EXECUTE minting;
CREATE TEMP TABLE mine (id bigint DEFAULT snowflake_nextval(5), n integer);
INSERT INTO mine VALUES (DEFAULT);
\copy (SELECT 1) TO 'results/security.text'
\copy mine (n) FROM 'results/security.text'
INSERT INTO photos VALUES (5, 'an id of one''s own');
SET ROLE regress_snowflake_app;
INSERT INTO photos (url) VALUES ('b.jpg');
SELECT snowflake_nextval(5) > 0 AS minted;
RESET ROLE;

-- Inserting mints, and nothing else does: neither a call nor an id of one's own.
REVOKE EXECUTE ON FUNCTION snowflake_nextval(), snowflake_nextval(integer) FROM regress_snowflake_app;
GRANT EXECUTE ON FUNCTION snowflake_nextval(integer) TO regress_snowflake_mint;
ALTER TABLE photos ALTER id DROP DEFAULT;
CREATE FUNCTION mint_id() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$ BEGIN new.id := public.snowflake_nextval(5); RETURN new; END $$;
ALTER FUNCTION mint_id() OWNER TO regress_snowflake_mint;
REVOKE EXECUTE ON FUNCTION mint_id() FROM PUBLIC;
CREATE TRIGGER mint_id BEFORE INSERT ON photos FOR EACH ROW EXECUTE FUNCTION mint_id();
REVOKE INSERT ON photos FROM regress_snowflake_app;
GRANT INSERT (url) ON photos TO regress_snowflake_app;
SET ROLE regress_snowflake_app;
INSERT INTO photos (url) VALUES ('c.jpg') RETURNING snowflake_shard(id);
INSERT INTO photos VALUES (6, 'an id of one''s own');
\echo :SQLSTATE
SELECT snowflake_nextval(5);
\echo :SQLSTATE
CREATE TEMP TABLE mine_too (id snowflake);
CREATE TRIGGER mint_id BEFORE INSERT ON mine_too FOR EACH ROW EXECUTE FUNCTION mint_id();
\echo :SQLSTATE
RESET ROLE;
DROP TRIGGER mint_id ON photos;
DROP FUNCTION mint_id();

-- (A role with shards of its own, by ALTER ROLE, has them in its sessions:
-- test/t/048_roles.pl.)
GRANT EXECUTE ON FUNCTION snowflake_nextval(), snowflake_nextval(integer) TO regress_snowflake_app;

-- Who else may set them, for a while.
GRANT SET ON PARAMETER snowflake.shards TO regress_snowflake_stranger;
SET ROLE regress_snowflake_stranger;
SET snowflake.shards = '9';
SET snowflake.clock_tolerance = '1h';
RESET ROLE;
REVOKE SET ON PARAMETER snowflake.shards FROM regress_snowflake_stranger;
RESET snowflake.shards;
SET ROLE regress_snowflake_stranger;
SET snowflake.shards = '9';

RESET ROLE;
SET ROLE regress_snowflake_app;

-- What is a superuser's, or whose he says.
SELECT snowflake_accept_layout();
\echo :SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_accept_layout(boolean) TO regress_snowflake_app;
SET ROLE regress_snowflake_app;
SELECT snowflake_accept_layout();
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_store_layout() TO regress_snowflake_app;
SET ROLE regress_snowflake_app;
SELECT snowflake_accept_layout();
RESET ROLE;

-- Who may look.
REVOKE EXECUTE ON FUNCTION snowflake_lastval() FROM PUBLIC;
SET ROLE regress_snowflake_app;
SELECT snowflake_horizon();
\echo :SQLSTATE
SELECT snowflake_lastval();
\echo :SQLSTATE
SET ROLE pg_monitor;
SELECT horizon IS NOT NULL AS known FROM snowflake_horizon();
RESET ROLE;

-- DDL that the extension writes needs the rights that DDL by hand would.
SET ROLE regress_snowflake_stranger;
SELECT snowflake_adopt('photos', 'id', 5, false);
\echo :SQLSTATE
RESET ROLE;

-- An id tells its time to whoever sees it, so let them see another key.
REVOKE SELECT ON photos FROM regress_snowflake_app;
ALTER TABLE photos ADD public_id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid();
GRANT SELECT (public_id, url) ON photos TO regress_snowflake_app;
SET ROLE regress_snowflake_app;
SELECT count(public_id) FROM photos WHERE url = 'c.jpg';
SELECT id FROM photos;
\echo :SQLSTATE
SELECT public_id FROM photos ORDER BY id;
SELECT public_id FROM photos WHERE id > now() - interval '1 day';
SELECT snowflake_audit('photos', 'id');
RESET ROLE;
DROP TABLE photos;

-- A search_path that is out to deceive: a schema with a trap for every operator
-- there is, for every function, type and relation that the extension's SQL
-- names, and one with a double of each of its own functions.  And beside these
-- themselves, others of their names, for arguments that are nearly of the type.
CREATE SCHEMA hostile;
CREATE SCHEMA double;
CREATE VIEW words AS
SELECT DISTINCT word FROM (SELECT prosrc FROM members WHERE prolang NOT IN (SELECT oid FROM pg_language WHERE lanname IN ('c', 'internal'))
                           UNION ALL
                           SELECT pg_get_viewdef(objid) FROM pg_depend
                            WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_extension'::regclass AND deptype = 'e'
                              AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')) AS bodies,
       LATERAL regexp_matches(prosrc, '\w+', 'g') AS match, unnest(match) AS word;
DO $$
DECLARE
    o record;
    near text;
    trap text := 'BEGIN RAISE ''trapped by %%'', %L; END';
BEGIN
    FOR o IN SELECT oid::regoperator AS signature, oprname, oprleft::regtype, oprright::regtype, oprresult::regtype, oid
               FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace LOOP
        EXECUTE format('CREATE FUNCTION hostile.o%s(%s) RETURNS %s LANGUAGE plpgsql AS %L', o.oid,
                       concat_ws(', ', nullif(o.oprleft::text, '-'), o.oprright), o.oprresult, format(trap, o.signature));
        EXECUTE format('CREATE OPERATOR hostile.%s (%sRIGHTARG = %s, FUNCTION = hostile.o%s)', o.oprname,
                       CASE WHEN o.oprleft <> 0 THEN format('LEFTARG = %s, ', o.oprleft) END, o.oprright, o.oid);
    END LOOP;
    FOR o IN SELECT p.oid::regprocedure AS signature, p.proname, p.prorettype::regtype AS result, m.oid IS NOT NULL AS is_own,
                    -- what takes "any" is trapped with texts, or without arguments
                    CASE WHEN '"any"'::regtype = ANY (p.proargtypes)
                         THEN CASE WHEN p.provariadic <> 0 THEN 'text, VARIADIC text[]' ELSE '' END
                         ELSE (SELECT string_agg(CASE WHEN p.provariadic <> 0 AND n = p.pronargs THEN 'VARIADIC ' ELSE '' END || type::regtype, ', ' ORDER BY n)
                                 FROM unnest(p.proargtypes) WITH ORDINALITY AS each(type, n)) END AS arguments
               FROM pg_proc AS p LEFT JOIN members AS m ON m.oid = p.oid
              WHERE (m.oid IS NOT NULL OR p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN (SELECT word FROM words))
                AND NOT p.proargtypes::oid[] || p.prorettype && '{internal,cstring}'::regtype[]::oid[] LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION %s.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
                       CASE WHEN o.is_own THEN 'double' ELSE 'hostile' END, o.proname,
                       o.arguments, o.result, format(trap, o.signature));
    END LOOP;
    FOR o IN SELECT proname, array_to_string(proargtypes::regtype[], ', ') AS arguments, prorettype::regtype AS result
               FROM members WHERE proname IN (SELECT word FROM words) AND proargtypes::oid[] && '{bigint,text,regclass}'::regtype[]::oid[] LOOP
        FOREACH near IN ARRAY ARRAY[replace(o.arguments, 'bigint', 'integer'), replace(o.arguments, 'text', 'name'),
                                   -- what bare literals would rather go to, where a user's call does not name it
                                   CASE WHEN o.proname ~ '^snowflake_(newest|parts|read_|run_)' THEN replace(replace(o.arguments, 'regclass', 'text'), 'name', 'text') ELSE o.arguments END] LOOP
            IF near <> o.arguments THEN
                EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
                               o.proname, near, o.result, format(trap, near));
            END IF;
        END LOOP;
    END LOOP;
    FOR o IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm') AND typname IN (SELECT word FROM words) LOOP
        EXECUTE format('CREATE DOMAIN hostile.%I AS boolean', o.typname);
    END LOOP;
    FOR o IN SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relname IN (SELECT word FROM words) LOOP
        EXECUTE format('CREATE TABLE hostile.%I (trapped boolean)', o.relname);
    END LOOP;
END $$;
-- nothing was left out
SELECT count(*) > 700 AS many_operators FROM pg_operator WHERE oprnamespace = 'hostile'::regnamespace;
SELECT word FROM words
 WHERE word IN (SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace)
   AND word NOT IN (SELECT proname FROM pg_proc WHERE pronamespace = 'hostile'::regnamespace) ORDER BY word;

-- tables, and whatever else is to be called then
CREATE TABLE clicks (id snowflake PRIMARY KEY, url text) PARTITION BY RANGE (id);
CREATE TABLE orders (id bigserial PRIMARY KEY, parent bigint REFERENCES orders);
CREATE VIEW recent AS SELECT url FROM clicks WHERE id BETWEEN timestamptz '2026-01-10Z' AND statement_timestamp();
SELECT string_agg(format('TABLE %s', objid::regclass), '; ') AS views FROM pg_depend
 WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_extension'::regclass AND deptype = 'e'
   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') \gset
CREATE FUNCTION careless(n integer) RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN n + 1; END';
CREATE FUNCTION careless() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN max(n) FROM generate_series(1, 3) AS n; END';
CREATE FUNCTION careless(text) RETURNS regclass LANGUAGE plpgsql AS 'BEGIN RETURN $1::regclass; END';

DO $$
DECLARE relation name;
BEGIN
    FOR relation IN SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = 'hostile'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('CREATE TEMP TABLE %I (trapped boolean)', relation);
    END LOOP;
END $$;

SET search_path = double, hostile, pg_catalog, public;
-- the traps work
SELECT public.careless(1);
SELECT public.careless();
SELECT public.careless('public.clicks');
SELECT relname FROM pg_class;
SELECT snowflake_nextval(5);

-- and none is stepped into
SELECT * FROM public.snowflake_make_partitions('public.clicks', '2026-01-01Z', '2026-03-01Z', '1 month');
SELECT * FROM public.snowflake_make_partitions('public.clicks', '2026-01-15Z', '2026-02-15Z', '1 month');
INSERT INTO public.clicks SELECT public.snowflake_encode('2026-01-20Z', 5, 4095), 'a.html';
TABLE public.recent;
SELECT * FROM public.snowflake_adopt('public.orders', 'id', 5);
SELECT * FROM public.snowflake_adopt('public.orders', 'id', 5, false);
SELECT * FROM public.snowflake_revert('public.orders', 'id', false);
SELECT * FROM public.snowflake_audit('public.clicks', 'id', NULL, '0-4', '2026-02-01Z');
SELECT finding, ids FROM public.snowflake_audit('public.clicks', 'id', 'discord');
SELECT * FROM public.snowflake_audit('public.clicks', 'id', 'discord', '0,x');
SELECT * FROM public.snowflake_accept_layout();
\o /dev/null
:views;
SELECT * FROM public.snowflake_layout_dependents();
SELECT * FROM public.snowflake_check();
SELECT * FROM public.snowflake_dependents();
\o
RESET search_path;
DISCARD TEMP;
DROP VIEW recent;
DROP TABLE clicks, orders;

-- made in that very schema, with it in front
SET client_min_messages = warning;
DROP SCHEMA double CASCADE;
DROP VIEW members CASCADE;
DROP FUNCTION careless(integer), careless(), careless(text);
DROP EXTENSION snowflake CASCADE;
SET search_path = hostile, pg_catalog;
CREATE EXTENSION snowflake SCHEMA hostile;
CREATE TABLE public.orders (id bigint);
SELECT * FROM hostile.snowflake_adopt('public.orders', 'id', 5, false);
INSERT INTO public.orders VALUES (DEFAULT);
SELECT name FROM hostile.snowflake_layouts LIMIT 1;
SELECT finding, ids FROM hostile.snowflake_audit('public.orders', 'id') LIMIT 1;
RESET search_path;
DROP TABLE orders;
DROP EXTENSION snowflake;
DROP SCHEMA hostile CASCADE;
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosrc ~ 'trapped' LOOP
        EXECUTE format('DROP FUNCTION %s', f);
    END LOOP;
END $$;
DROP OWNED BY regress_snowflake_stranger, regress_snowflake_app, regress_snowflake_mint;
DROP ROLE regress_snowflake_stranger, regress_snowflake_app, regress_snowflake_mint;
