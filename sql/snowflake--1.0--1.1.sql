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

-- COPY inserts rows in batches when a default is not volatile.  It calls these
-- in place of snowflake_nextval(), and nobody else can.

CREATE FUNCTION snowflake_copy_nextval() RETURNS snowflake
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_copy_nextval(shard integer) RETURNS snowflake
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_copy_nextval_shard';
CREATE FUNCTION snowflake_nextval_support(internal) RETURNS internal
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
ALTER FUNCTION snowflake_nextval() SUPPORT snowflake_nextval_support;
ALTER FUNCTION snowflake_nextval(integer) SUPPORT snowflake_nextval_support;

COMMENT ON FUNCTION snowflake_copy_nextval() IS 'what COPY calls in place of snowflake_nextval()';
COMMENT ON FUNCTION snowflake_copy_nextval(integer) IS 'what COPY calls in place of snowflake_nextval(integer)';
COMMENT ON FUNCTION snowflake_nextval_support(internal) IS 'planner support of snowflake_nextval';
