/* snowflake--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION snowflake UPDATE TO '1.1'" to load this file. \quit

-- Statistics.  What was minted and when is not everybody's to see: they are for
-- whoever may monitor the server.  A view's functions are called with the
-- rights of who reads it, hence the grants on both.

CREATE FUNCTION snowflake_stat_shards(OUT shard integer, OUT minted bigint, OUT exhausted bigint,
    OUT clock_behind bigint, OUT waited interval, OUT last_id snowflake,
    OUT last_minted_at timestamptz, OUT stats_reset timestamptz)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_stat_backends(OUT pid integer, OUT shard integer, OUT last_id snowflake,
    OUT minted bigint, OUT waits bigint, OUT waited interval)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_stat_reset() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';

CREATE VIEW pg_stat_snowflake AS SELECT * FROM snowflake_stat_shards();
CREATE VIEW pg_stat_snowflake_backends AS SELECT * FROM snowflake_stat_backends();

REVOKE ALL ON FUNCTION snowflake_stat_shards(), snowflake_stat_backends(), snowflake_stat_reset() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_stat_shards(), snowflake_stat_backends() TO pg_monitor;
GRANT SELECT ON pg_stat_snowflake, pg_stat_snowflake_backends TO pg_monitor;

COMMENT ON FUNCTION snowflake_stat_shards() IS 'statistics of shards: see the view pg_stat_snowflake';
COMMENT ON FUNCTION snowflake_stat_backends() IS 'statistics of sessions: see the view pg_stat_snowflake_backends';
COMMENT ON FUNCTION snowflake_stat_reset() IS 'set the counters of pg_stat_snowflake to 0';
COMMENT ON VIEW pg_stat_snowflake IS 'what each shard has minted, and how its calls waited';
COMMENT ON VIEW pg_stat_snowflake_backends IS 'what each live session has minted, and how it waited';
