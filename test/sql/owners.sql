--
-- Whose code runs when somebody looks at a table: a tenant lays a lure into each
-- place where a table can hold code, and a superuser and a role that monitors look.
-- No lure runs with their rights.  (Locks, other servers: test/t/099_owners.pl.)
--
CREATE EXTENSION snowflake;
CREATE EXTENSION file_fdw;
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
SET snowflake.shards = '5';
SET constraint_exclusion = on;
CREATE ROLE regress_snowflake_tenant;
CREATE ROLE regress_snowflake_monitor;
CREATE ROLE regress_snowflake_admin SUPERUSER;
GRANT pg_monitor TO regress_snowflake_monitor;
CREATE SCHEMA tenant AUTHORIZATION regress_snowflake_tenant;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
GRANT USAGE ON FOREIGN SERVER files TO regress_snowflake_tenant;
GRANT pg_read_server_files TO regress_snowflake_tenant;

-- A lure tells if it runs as somebody else, and as the owner tries to become somebody else.
SET ROLE regress_snowflake_tenant;
CREATE SEQUENCE tenant.ran_as_owner;
GRANT ALL ON SCHEMA tenant TO PUBLIC;
GRANT ALL ON SEQUENCE tenant.ran_as_owner TO PUBLIC;
CREATE FUNCTION tenant.lure(place text, value bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_setting('lure.armed', true) = 'on' AND current_user = 'regress_snowflake_tenant' THEN
        PERFORM nextval('tenant.ran_as_owner');
        BEGIN
            PERFORM set_config('role', 'none', false);
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;
        END;
        PERFORM set_config('search_path', 'tenant', false), set_config('row_security', 'on', false);
    END IF;
    IF current_user <> 'regress_snowflake_tenant' THEN
        RAISE WARNING 'lure: %', place;
    END IF;
    RETURN value;
END $$;
CREATE FUNCTION tenant.lure() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM tenant.lure('trigger', 1); RETURN new; END $$;
-- Between two statements: a view where a table was.
CREATE FUNCTION tenant.swap(value bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('tenant.between_statements_moved') IS NULL AND current_setting('lure.armed', true) = 'on' THEN
        ALTER TABLE tenant.between_statements_refers RENAME TO between_statements_moved;
        CREATE TABLE tenant.between_statements_refers (key integer CHECK (tenant.lure('another table', key) > 0));
        INSERT INTO tenant.between_statements_refers VALUES (1);
    END IF;
    RETURN tenant.lure('between statements', value);
END $$;
CREATE DOMAIN tenant.checked AS bigint CHECK (tenant.lure('domain', VALUE) > 0) DEFAULT tenant.lure('default of a domain', 1);

-- a table of its own for each place, "%1$s"
CREATE TABLE tenant.places (place name PRIMARY KEY, key text, statement text);
INSERT INTO tenant.places VALUES
    ('partial_index', NULL, 'CREATE INDEX ON %1$s (n) WHERE tenant.lure(''partial index'', 1) > 0'),
    ('partial_index_of_key', NULL, 'CREATE INDEX ON %1$s (id) WHERE tenant.lure(''partial index of the key'', 1) > 0'),
    ('expression_index', NULL, 'CREATE INDEX ON %1$s ((n + tenant.lure(''expression index'', 1)))'),
    ('expression_behind_key', NULL, 'CREATE INDEX ON %1$s (id, (tenant.lure(''expression behind the key'', 1)))'),
    ('descending', NULL, 'CREATE UNIQUE INDEX ON %1$s (id DESC NULLS LAST) WHERE tenant.lure(''descending'', id) > 0'),
    ('statistics', NULL, 'CREATE STATISTICS tenant.some ON (n + tenant.lure(''statistics'', 1)), n FROM %1$s'),
    ('check', NULL, 'ALTER TABLE %1$s ADD CHECK (n > 0 OR tenant.lure(''check'', 1) > 0)'),
    ('check_of_key', NULL, 'ALTER TABLE %1$s ADD CHECK (tenant.lure(''check of the key'', id) > 0)'),
    ('a_default', NULL, 'ALTER TABLE %1$s ALTER n SET DEFAULT tenant.lure(''default'', 1)'),
    ('generated', NULL, 'ALTER TABLE %1$s ADD g bigint GENERATED ALWAYS AS (n + tenant.lure(''generated'', 1)) STORED'),
    ('policy', NULL, 'CREATE POLICY p ON %1$s USING (tenant.lure(''policy'', 1) > 0); ALTER TABLE %1$s ENABLE ROW LEVEL SECURITY'),
    ('rule', NULL, 'CREATE RULE r AS ON INSERT TO %1$s DO ALSO SELECT tenant.lure(''rule'', 1)'),
    ('trigger', NULL, 'CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON %1$s FOR EACH ROW EXECUTE FUNCTION tenant.lure()'),
    ('domain', 'id tenant.checked PRIMARY KEY DEFAULT public.snowflake_nextval()', 'SELECT'),
    ('domain_beside', NULL, 'ALTER TABLE %1$s ADD d tenant.checked'),
    ('child', 'id integer', 'CREATE UNIQUE INDEX ON %1$s (id); CREATE TABLE %1$s_1 (CHECK (tenant.lure(''check of a child'', 1) > 0)) INHERITS (%1$s);
                     CREATE UNIQUE INDEX ON %1$s_1 (id); CREATE INDEX ON %1$s_1 (n) WHERE tenant.lure(''index of a child'', 1) > 0; INSERT INTO %1$s_1 VALUES (7, 7)'),
    ('foreign_child', 'id integer', 'CREATE UNIQUE INDEX ON %1$s (id); CREATE FOREIGN TABLE %1$s_1 (id integer, n bigint) SERVER files OPTIONS (filename ''/there is none'');
                             ALTER FOREIGN TABLE %1$s_1 INHERIT %1$s'),
    ('partition', 'id bigint PRIMARY KEY DEFAULT public.snowflake_nextval()', 'CREATE TABLE %1$s_1 PARTITION OF %1$s FOR VALUES FROM (0) TO (1000);
                     ALTER TABLE %1$s_1 ADD CHECK (tenant.lure(''check of a partition'', 1) > 0);
                     CREATE INDEX ON %1$s_1 (n) WHERE tenant.lure(''index of a partition'', 1) > 0'),
    ('default_partition', 'id bigint PRIMARY KEY DEFAULT public.snowflake_nextval()', 'CREATE TABLE %1$s_1 PARTITION OF %1$s DEFAULT;
                     ALTER TABLE %1$s_1 ADD CHECK (tenant.lure(''check of the default partition'', id) > 0)'),
    ('refers', 'id integer PRIMARY KEY', 'CREATE TABLE %1$s_1 (key integer CHECK (tenant.lure(''check of what refers'', key) > 0)
                     REFERENCES %1$s); CREATE INDEX ON %1$s_1 (key) WHERE tenant.lure(''index of what refers'', 1) > 0'),
    ('between_statements', 'id integer PRIMARY KEY CHECK (tenant.swap(id) > 0)',
        'CREATE TABLE %1$s_refers (key integer REFERENCES %1$s)');
CREATE TABLE tenant.tables (relation regclass, key name);
DO $$
DECLARE p record; relation text;
BEGIN
    FOR p IN SELECT * FROM tenant.places ORDER BY place LOOP
        relation := format('tenant.%I', p.place);
        EXECUTE format('CREATE TABLE %s (%s, n bigint)', relation, coalesce(p.key, 'id integer PRIMARY KEY'))
            || CASE WHEN p.place ~ 'partition' THEN ' PARTITION BY RANGE (id)' ELSE '' END;
        EXECUTE format(p.statement, relation);
        EXECUTE format('INSERT INTO %s (id, n) VALUES (1, 1), (2, 2)', relation);
        EXECUTE format('GRANT SELECT ON %s TO regress_snowflake_monitor', relation);
        INSERT INTO tenant.tables VALUES (relation, 'id');
    END LOOP;
END $$;
GRANT SELECT ON tenant.tables TO PUBLIC;
RESET ROLE;

-- What a statement calls: every table of the tenant's is "$1".
CREATE FUNCTION attack(statement text, pattern text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE t regclass;
BEGIN
    FOR t IN SELECT relation FROM tenant.tables WHERE relation::text ~ pattern ORDER BY relation::text LOOP
        BEGIN
            EXECUTE replace(statement, '$1', quote_literal(t));
        EXCEPTION WHEN OTHERS THEN
            RETURN NEXT format('%s: %s (%s)', t, sqlerrm, sqlstate);
        END;
    END LOOP;
END $$;

-- the lures work: one is stepped into when a query is planned, or the table changed
SELECT max(id) FROM tenant.partial_index;
BEGIN;
ALTER TABLE tenant.generated ALTER id TYPE bigint;
ROLLBACK;

-- adopt: a dry run, and then not
SET lure.armed = on;
SELECT attack('SELECT snowflake_adopt($1, ''id'')');
SELECT attack('SELECT snowflake_adopt($1, ''id'', dry_run => false)');

-- check and audit, by a superuser and by a role that monitors
SELECT area, state, finding, next_step FROM snowflake_check() WHERE area IN ('columns', 'visibility');
SELECT attack('SELECT * FROM snowflake_audit($1, ''id'')');
SET ROLE regress_snowflake_monitor;
SELECT area, state, finding FROM snowflake_check() WHERE area = 'visibility';
SELECT attack('SELECT * FROM snowflake_audit($1, ''id'')');
RESET ROLE;

-- revert: a dry run, and then not
SELECT attack('SELECT snowflake_revert($1, ''id'')');
SELECT attack('SELECT snowflake_revert($1, ''id'', false)');

-- partitions
SELECT attack('SELECT snowflake_make_partitions($1, ''2026-01-01Z'', ''2026-03-01Z'', ''1 month'')', 'partition');

-- a view where a table could be: for those who have its owner's rights, and as the owner
SET ROLE regress_snowflake_tenant;
CREATE VIEW tenant.view AS SELECT tenant.lure('view', id) AS id, 'paris'::text AS server, 5::bigint AS mark FROM tenant.child;
GRANT SELECT ON tenant.view TO regress_snowflake_monitor;
CREATE FOREIGN TABLE tenant.far (id bigint, server text, mark bigint) SERVER files OPTIONS (filename '/there is none');
GRANT SELECT ON tenant.far TO regress_snowflake_monitor;
RESET ROLE;
SELECT finding, ids FROM snowflake_audit('tenant.view', 'id') WHERE ids > 0;
SELECT snowflake_audit('tenant.far', 'id');
\echo :SQLSTATE
SELECT newest, unseen FROM snowflake_newest('tenant.view', 'id', false, 0);
SELECT newest, unseen FROM snowflake_newest('tenant.far', 'id', false, 0);
SELECT snowflake_least_mark('tenant.child', '{paris}', 'tenant.view');
\echo :SQLSTATE
SELECT snowflake_least_mark('tenant.child', '{paris}', 'tenant.far');
SELECT snowflake_read_view('tenant.child', 'id');
\echo :SQLSTATE
SET ROLE regress_snowflake_monitor;
\set VERBOSITY default
SELECT snowflake_audit('tenant.view', 'id');
\echo :SQLSTATE
\set VERBOSITY terse
RESET ROLE;

-- a table of marks with lures
SET ROLE regress_snowflake_tenant;
SET lure.armed = off;
CREATE TABLE tenant.marks (server text PRIMARY KEY, mark bigint CHECK (tenant.lure('mark', mark) > 0), published_at timestamptz);
CREATE INDEX ON tenant.marks (mark) WHERE tenant.lure('index of marks', 1) > 0;
INSERT INTO tenant.marks VALUES ('paris', 7), ('tokyo', 5);
RESET ROLE;
SET lure.armed = on;
SELECT snowflake_least_mark('tenant.child', '{paris,tokyo}', 'tenant.marks'), snowflake_least_mark('tenant.child', '{paris}', 'tenant.marks');
SET ROLE regress_snowflake_monitor;
SELECT snowflake_least_mark('tenant.child', '{paris}', 'tenant.marks');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT (server, mark) ON tenant.marks TO regress_snowflake_monitor;
SET ROLE regress_snowflake_monitor;
SELECT snowflake_least_mark('tenant.child', '{paris}', 'tenant.marks');
RESET ROLE;
ALTER TABLE tenant.marks ENABLE ROW LEVEL SECURITY;
SET ROLE regress_snowflake_monitor;
SELECT snowflake_least_mark('tenant.child', '{paris}', 'tenant.marks');
RESET ROLE;
-- the mark is stored as the owner: by a superuser, and by who could become the owner
SET ROLE regress_snowflake_tenant;
CREATE TRIGGER t BEFORE INSERT OR UPDATE ON tenant.marks FOR EACH ROW EXECUTE FUNCTION tenant.lure();
ALTER TABLE tenant.marks ALTER mark SET DEFAULT tenant.lure('default of marks', 1);
CREATE POLICY p ON tenant.marks USING (tenant.lure('policy of marks', 1) > 0);
ALTER TABLE tenant.marks FORCE ROW LEVEL SECURITY;
RESET ROLE;
SELECT last_value AS ran FROM tenant.ran_as_owner \gset
SELECT snowflake_publish_mark('paris', 'tenant.marks') > 7 AS published, snowflake_publish_mark('lima', 'tenant.marks') > 7 AS another;
GRANT regress_snowflake_tenant TO regress_snowflake_monitor;
SET ROLE regress_snowflake_monitor;
SELECT snowflake_publish_mark('lima', 'tenant.marks') > 7 AS published;
RESET ROLE;
REVOKE regress_snowflake_tenant FROM regress_snowflake_monitor;
SELECT last_value > :ran AS ran_as_owner FROM tenant.ran_as_owner;
SELECT current_user = session_user AS as_before, current_setting('search_path') AS search_path;
SET ROLE regress_snowflake_tenant;
CREATE TABLE tenant.wrong (server bytea, mark bigint);
RESET ROLE;
SELECT snowflake_least_mark('tenant.child', '{paris}', 'tenant.wrong');
\echo :SQLSTATE

-- tables of two owners: no code of one with the rights of the other
SET lure.armed = off;
CREATE TABLE ours (id integer PRIMARY KEY);
GRANT REFERENCES ON ours TO regress_snowflake_tenant;
CREATE TABLE parents (id integer);
CREATE TABLE clicks (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE clicks_rest PARTITION OF clicks DEFAULT;
CREATE TABLE children () INHERITS (parents);
ALTER TABLE ours OWNER TO regress_snowflake_admin;
ALTER TABLE parents OWNER TO regress_snowflake_admin;
ALTER TABLE clicks OWNER TO regress_snowflake_admin;
ALTER TABLE children OWNER TO regress_snowflake_tenant;
ALTER TABLE clicks_rest OWNER TO regress_snowflake_tenant;
SET ROLE regress_snowflake_tenant;
CREATE TABLE tenant.refers_to_ours (key integer REFERENCES ours);
CREATE INDEX ON tenant.refers_to_ours (key) WHERE tenant.lure('index of what refers to ours', 1) > 0;
ALTER TABLE children ADD CHECK (tenant.lure('check of a child of ours', id) > 0);
ALTER TABLE clicks_rest ADD CHECK (tenant.lure('check of the default partition of ours', id) > 0);
RESET ROLE;
SET lure.armed = on;
SET ROLE regress_snowflake_admin;
\set VERBOSITY default
SELECT snowflake_adopt('ours', 'id', dry_run => false);
\echo :SQLSTATE
SELECT snowflake_adopt('parents', 'id', dry_run => false);
SELECT snowflake_revert('parents', 'id', false);
SELECT snowflake_make_partitions('clicks', '2026-01-01Z', '2026-03-01Z', '1 month');
\echo :SQLSTATE
ALTER TABLE clicks OWNER TO regress_snowflake_monitor;
ALTER TABLE clicks_rest OWNER TO regress_snowflake_monitor;
SELECT snowflake_make_partitions('clicks', '2026-01-01Z', '2026-03-01Z', '1 month');
\echo :SQLSTATE
GRANT CREATE ON SCHEMA public TO regress_snowflake_monitor;
SELECT snowflake_make_partitions('clicks', '2026-01-01Z', '2026-03-01Z', '1 month');
SELECT DISTINCT relowner::regrole AS owner_of_the_partitions FROM pg_class WHERE relname ~ '^clicks';
-- a statement finds the names of the server, whatever path the caller has
SELECT snowflake_run_as_owner('ours', 'SELECT current_setting(''search_path'')');
-- it gives the first value, however long, if there is one; and says so if nothing was executed
SELECT snowflake_run_as_owner('ours', 'INSERT INTO public.ours VALUES (99)') IS NULL AS no_rows,
       snowflake_run_as_owner('ours', 'SELECT 1 WHERE false') IS NULL AS no_row,
       snowflake_run_as_owner('ours', 'SELECT id FROM public.ours') AS one,
       length(snowflake_run_as_owner('ours', 'SELECT repeat(''x'', 40000000)')) AS long;
SELECT snowflake_run_as_owner('ours', 'COMMIT');
-- nor for a member who would have the owner's rights only after SET ROLE
CREATE ROLE regress_snowflake_heir NOINHERIT IN ROLE regress_snowflake_admin;
SET ROLE regress_snowflake_heir;
SELECT snowflake_run_as_owner('ours', 'SELECT 1');
\echo :SQLSTATE
SET ROLE regress_snowflake_admin;
DROP ROLE regress_snowflake_heir;
-- the functions behind it give nobody anything
SET ROLE regress_snowflake_monitor;
SELECT * FROM snowflake_run_as_owner('ours', 'SELECT 1');
\echo :SQLSTATE
SELECT * FROM snowflake_newest('ours', 'id', true, 0);
\echo :SQLSTATE
SELECT newest, unseen FROM snowflake_newest('ours', 'id', false, 0);
SELECT * FROM snowflake_parts('ours', 'id');
SELECT * FROM snowflake_read_ids('ours', 'id', 0, 10);
SELECT * FROM snowflake_read_ids('tenant.child', 'no id', 0, 10);
SELECT * FROM snowflake_read_view('ours', 'id');
\echo :SQLSTATE
\set VERBOSITY terse
SELECT snowflake_parts(0, 'id');
\echo :SQLSTATE
SELECT snowflake_read_marks(0);
SELECT snowflake_read_view(0, 'id');

-- nor of any column of any relation that there is
CREATE FUNCTION pg_temp.look_everywhere(call text, OUT succeeded boolean, OUT without_the_right bigint) LANGUAGE plpgsql AS $$
DECLARE r record; n bigint;
BEGIN
    succeeded := false;
    without_the_right := 0;
    FOR r IN SELECT c.oid::regclass AS relation, a.attname, has_column_privilege(c.oid, a.attnum, 'SELECT') AND has_schema_privilege(c.relnamespace, 'USAGE') AS may_read
               FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
              WHERE NOT a.attisdropped AND c.relkind NOT IN ('v', 'i') LOOP
        BEGIN
            EXECUTE call INTO n USING r.relation, r.attname;
            succeeded := succeeded OR n IS NOT NULL;
            without_the_right := without_the_right + (n IS NOT NULL AND NOT r.may_read)::integer;
        EXCEPTION WHEN insufficient_privilege OR wrong_object_type OR undefined_column THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT * FROM pg_temp.look_everywhere('SELECT newest FROM snowflake_newest($1, $2, true, 0)');
SELECT * FROM pg_temp.look_everywhere('SELECT newest FROM snowflake_newest($1, $2, false, 0)');
SELECT * FROM pg_temp.look_everywhere('SELECT count(*) FROM snowflake_read_ids($1, $2, 0, 10)');
SELECT * FROM pg_temp.look_everywhere('SELECT count(*) FROM snowflake_parts($1, $2)');
RESET ROLE;

SELECT to_regclass('tenant.between_statements_moved') IS NOT NULL AS changed_between_statements;
SELECT last_value > 1 AS ran_as_owner FROM tenant.ran_as_owner;
SELECT current_user = session_user AS as_before, current_setting('search_path') AS search_path;

DROP FUNCTION attack;
DROP TABLE ours, parents, clicks CASCADE;
DROP OWNED BY regress_snowflake_tenant, regress_snowflake_monitor CASCADE;
DROP EXTENSION file_fdw CASCADE;
DROP EXTENSION snowflake CASCADE;
DROP ROLE regress_snowflake_tenant, regress_snowflake_monitor, regress_snowflake_admin;
