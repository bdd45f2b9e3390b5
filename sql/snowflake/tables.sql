-- Looking at users' tables without running their code, and running statements as the
-- tables' owners.  Everybody may call these: they give nothing that the caller
-- could not get by a SELECT or by SET ROLE.  See src/tables.c and src/owner.c.

CREATE FUNCTION @extschema@.snowflake_newest(relation regclass, column_name name, thorough boolean, patience_ms integer,
        OUT newest bigint, OUT unseen text[], OUT waited_ms integer)
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_parts(relation regclass, column_name name, OUT blocks bigint, OUT unseen text) RETURNS SETOF record
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_read_ids(relation regclass, column_name name, from_block bigint, to_block bigint) RETURNS SETOF bigint
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE ROWS 100000 AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_read_marks(marks regclass, OUT server text, OUT mark bigint, OUT came_by oid) RETURNS SETOF record
    LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 10 AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_read_view(view regclass, column_name name) RETURNS SETOF bigint
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE ROWS 100000 AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_run_as_owner(relation regclass, statement text) RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.snowflake_newest(regclass, name, boolean, integer) IS 'called by snowflake_check, snowflake_adopt and snowflake_revert';
COMMENT ON FUNCTION @extschema@.snowflake_parts(regclass, name) IS 'called by snowflake_audit';
COMMENT ON FUNCTION @extschema@.snowflake_read_ids(regclass, name, bigint, bigint) IS 'called by snowflake_audit';
COMMENT ON FUNCTION @extschema@.snowflake_read_marks(regclass) IS 'called by snowflake_least_mark';
COMMENT ON FUNCTION @extschema@.snowflake_read_view(regclass, name) IS 'called by snowflake_audit';
COMMENT ON FUNCTION @extschema@.snowflake_run_as_owner(regclass, text) IS 'called by snowflake_adopt, snowflake_revert and snowflake_make_partitions';
