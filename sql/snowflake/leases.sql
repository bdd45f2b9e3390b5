-- Leases: see extension snowflake_registry.

CREATE FUNCTION @extschema@.snowflake_leases(OUT shard integer, OUT held boolean,
    OUT lease_from timestamptz, OUT lease_until timestamptz, OUT holder text)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_lease_status(OUT state text, OUT holder text, OUT shards integer,
    OUT lease_until timestamptz, OUT last_answer timestamptz,
    OUT clock_ahead double precision, OUT last_error text,
    OUT losses integer, OUT last_loss text, OUT restart_pending boolean,
    OUT failure text, OUT next_step text)
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';

REVOKE EXECUTE ON FUNCTION @extschema@.snowflake_leases(), @extschema@.snowflake_lease_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.snowflake_leases(), @extschema@.snowflake_lease_status() TO pg_monitor;

COMMENT ON FUNCTION @extschema@.snowflake_leases() IS 'shards that this server has leased from the registry, and shards that it wants and cannot get';
COMMENT ON FUNCTION @extschema@.snowflake_lease_status() IS 'what this server knows of the registry';
