/* snowflake--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

-- The type: to bigint what varchar is to text.  Bit for bit a bigint, read and
-- written by bigint's own functions, compared and indexed by bigint's own
-- operators, which it reaches through an implicit cast that costs nothing.

CREATE TYPE snowflake;

CREATE FUNCTION snowflake_in(cstring) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8in';
CREATE FUNCTION snowflake_out(snowflake) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8out';
CREATE FUNCTION snowflake_recv(internal) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8recv';
CREATE FUNCTION snowflake_send(snowflake) RETURNS bytea
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8send';

CREATE TYPE snowflake (
    INPUT = snowflake_in,
    OUTPUT = snowflake_out,
    RECEIVE = snowflake_recv,
    SEND = snowflake_send,
    LIKE = pg_catalog.int8,
    CATEGORY = 'N'
);

-- No cast into snowflake is implicit: one would let any bigint of the database
-- be compared with a time.

CREATE FUNCTION snowflake(smallint) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'int28';
CREATE FUNCTION snowflake(integer) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'int48';
CREATE FUNCTION snowflake(numeric) RETURNS snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'numeric_int8';

CREATE CAST (snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (bigint AS snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (smallint AS snowflake) WITH FUNCTION snowflake(smallint) AS ASSIGNMENT;
CREATE CAST (integer AS snowflake) WITH FUNCTION snowflake(integer) AS ASSIGNMENT;
CREATE CAST (numeric AS snowflake) WITH FUNCTION snowflake(numeric) AS ASSIGNMENT;

-- Taking ids apart.  Ids are read as bigint, so that snowflake columns, bigint
-- columns, literals and quoted text all fit.  Without a layout the cluster's
-- own is meant, which is fixed while the server runs.

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp';
CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp';

CREATE FUNCTION snowflake_shard(id bigint) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard';
CREATE FUNCTION snowflake_shard(id bigint, layout text) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard';

CREATE FUNCTION snowflake_sequence(id bigint) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_sequence';
CREATE FUNCTION snowflake_sequence(id bigint, layout text) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_sequence';

CREATE FUNCTION snowflake_decode(id bigint,
        OUT created_at timestamptz, OUT shard integer, OUT sequence integer)
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode';
CREATE FUNCTION snowflake_decode(id bigint, layout text,
        OUT created_at timestamptz, OUT shard integer, OUT sequence integer)
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode';

CREATE FUNCTION snowflake_fields(id bigint,
        OUT field text, OUT bits integer, OUT shift integer, OUT value bigint, OUT meaning text)
    RETURNS SETOF record ROWS 4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_fields';
CREATE FUNCTION snowflake_fields(id bigint, layout text,
        OUT field text, OUT bits integer, OUT shift integer, OUT value bigint, OUT meaning text)
    RETURNS SETOF record ROWS 4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_fields';

CREATE CAST (snowflake AS timestamptz) WITH FUNCTION snowflake_timestamp(bigint);

-- Putting ids together.

CREATE FUNCTION snowflake_encode(created_at timestamptz, shard integer, sequence integer)
    RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_encode';
CREATE FUNCTION snowflake_encode(created_at timestamptz, shard integer, sequence integer, layout text)
    RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_encode';

CREATE FUNCTION snowflake_floor(ts timestamptz) RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_floor';
CREATE FUNCTION snowflake_floor(ts timestamptz, layout text) RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_floor';

CREATE FUNCTION snowflake_ceil(ts timestamptz) RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_ceil';
CREATE FUNCTION snowflake_ceil(ts timestamptz, layout text) RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_ceil';

CREATE FUNCTION snowflake_layouts(
        OUT name text, OUT in_use boolean, OUT epoch timestamptz, OUT tick interval,
        OUT fields text, OUT shards bigint, OUT capacity bigint, OUT expires_at timestamptz,
        OUT specification text, OUT source text)
    RETURNS SETOF record ROWS 7
    LANGUAGE C STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_layouts';

CREATE VIEW snowflake_layouts AS SELECT * FROM snowflake_layouts();
GRANT SELECT ON snowflake_layouts TO PUBLIC;

-- Minting.

CREATE FUNCTION snowflake_nextval(shard integer) RETURNS snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval_shard';
CREATE FUNCTION snowflake_nextval() RETURNS snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_nextval';
CREATE FUNCTION snowflake_lastval() RETURNS snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'snowflake_lastval';

-- Durability: up to when ids may be minted, as it stands on disk.

CREATE FUNCTION snowflake_horizon(
        OUT horizon timestamptz, OUT seconds_ahead double precision,
        OUT last_renewal timestamptz, OUT last_error text)
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_horizon';
CREATE FUNCTION snowflake_accept_layout() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snowflake_accept_layout';
REVOKE EXECUTE ON FUNCTION snowflake_accept_layout() FROM PUBLIC;

-- What each of these is for, for \dT+, \df+, \dC+ and \dv+.

COMMENT ON TYPE snowflake IS '64-bit, time-ordered id; a bigint in all but name';
COMMENT ON FUNCTION snowflake_in(cstring) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake_out(snowflake) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake_recv(internal) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake_send(snowflake) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake(smallint) IS 'convert smallint to snowflake';
COMMENT ON FUNCTION snowflake(integer) IS 'convert integer to snowflake';
COMMENT ON FUNCTION snowflake(numeric) IS 'convert numeric to snowflake, rounding';
COMMENT ON CAST (snowflake AS bigint) IS 'the same 64 bits; lends snowflake all operators of bigint';
COMMENT ON CAST (bigint AS snowflake) IS 'the same 64 bits, on assignment';
COMMENT ON CAST (smallint AS snowflake) IS 'on assignment';
COMMENT ON CAST (integer AS snowflake) IS 'on assignment';
COMMENT ON CAST (numeric AS snowflake) IS 'on assignment';
COMMENT ON CAST (snowflake AS timestamptz) IS 'the time of minting, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS 'time of an id''s minting, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS 'time of an id''s minting, in a given layout';
COMMENT ON FUNCTION snowflake_shard(bigint) IS 'shard of an id, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_shard(bigint, text) IS 'shard of an id, in a given layout';
COMMENT ON FUNCTION snowflake_sequence(bigint) IS 'sequence number of an id within its tick and shard, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_sequence(bigint, text) IS 'sequence number of an id within its tick and shard, in a given layout';
COMMENT ON FUNCTION snowflake_decode(bigint) IS 'time, shard and sequence of an id, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS 'time, shard and sequence of an id, in a given layout';
COMMENT ON FUNCTION snowflake_fields(bigint) IS 'fields of an id explained, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_fields(bigint, text) IS 'fields of an id explained, in a given layout';
COMMENT ON FUNCTION snowflake_encode(timestamptz, integer, integer) IS 'id of a time, shard and sequence, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_encode(timestamptz, integer, integer, text) IS 'id of a time, shard and sequence, in a given layout';
COMMENT ON FUNCTION snowflake_floor(timestamptz) IS 'least id of a time''s tick, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_floor(timestamptz, text) IS 'least id of a time''s tick, in a given layout';
COMMENT ON FUNCTION snowflake_ceil(timestamptz) IS 'greatest id of a time''s tick, in the cluster''s layout';
COMMENT ON FUNCTION snowflake_ceil(timestamptz, text) IS 'greatest id of a time''s tick, in a given layout';
COMMENT ON FUNCTION snowflake_layouts() IS 'the preset layouts and the cluster''s own';
COMMENT ON VIEW snowflake_layouts IS 'the preset layouts and the cluster''s own';
COMMENT ON FUNCTION snowflake_nextval(integer) IS 'mint an id on a shard';
COMMENT ON FUNCTION snowflake_nextval() IS 'mint an id on this server''s own shards (snowflake.shards)';
COMMENT ON FUNCTION snowflake_lastval() IS 'last id minted in this session';
COMMENT ON FUNCTION snowflake_horizon() IS 'time up to which ids may be minted, as it stands on disk';
COMMENT ON FUNCTION snowflake_accept_layout() IS 'go on minting after a change of snowflake.layout';
