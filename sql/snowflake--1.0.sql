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

COMMENT ON TYPE snowflake IS '64-bit, time-ordered id; a bigint in all but name';
COMMENT ON FUNCTION snowflake_in(cstring) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake_out(snowflake) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake_recv(internal) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake_send(snowflake) IS 'I/O: bigint''s own';

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

COMMENT ON FUNCTION snowflake(smallint) IS 'convert smallint to snowflake';
COMMENT ON FUNCTION snowflake(integer) IS 'convert integer to snowflake';
COMMENT ON FUNCTION snowflake(numeric) IS 'convert numeric to snowflake, rounding';
COMMENT ON CAST (snowflake AS bigint) IS 'the same 64 bits; lends snowflake all operators of bigint';
COMMENT ON CAST (bigint AS snowflake) IS 'the same 64 bits, on assignment';
COMMENT ON CAST (smallint AS snowflake) IS 'on assignment';
COMMENT ON CAST (integer AS snowflake) IS 'on assignment';
COMMENT ON CAST (numeric AS snowflake) IS 'on assignment';

-- Taking ids apart.  Ids are read as bigint, so that snowflake columns, bigint
-- columns, literals and quoted text all fit.  Without a layout, that of
-- the server is meant, which is fixed while the server runs.

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

CREATE FUNCTION snowflake_decode_support(internal) RETURNS internal
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_support';

CREATE FUNCTION snowflake_decode(id bigint,
        OUT created_at timestamptz, OUT shard integer, OUT sequence integer)
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_decode_support AS 'MODULE_PATHNAME', 'snowflake_decode';
CREATE FUNCTION snowflake_decode(id bigint, layout text,
        OUT created_at timestamptz, OUT shard integer, OUT sequence integer)
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_decode_support AS 'MODULE_PATHNAME', 'snowflake_decode';

CREATE FUNCTION snowflake_fields(id bigint,
        OUT field text, OUT bits integer, OUT shift integer, OUT value bigint, OUT meaning text)
    RETURNS SETOF record ROWS 4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_fields';
CREATE FUNCTION snowflake_fields(id bigint, layout text,
        OUT field text, OUT bits integer, OUT shift integer, OUT value bigint, OUT meaning text)
    RETURNS SETOF record ROWS 4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_fields';

CREATE CAST (snowflake AS timestamptz) WITH FUNCTION snowflake_timestamp(bigint);

COMMENT ON CAST (snowflake AS timestamptz) IS 'the time of minting, in the server''s layout';
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS 'time of an id''s minting, in the server''s layout';
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS 'time of an id''s minting, in a given layout';
COMMENT ON FUNCTION snowflake_shard(bigint) IS 'shard of an id, in the server''s layout';
COMMENT ON FUNCTION snowflake_shard(bigint, text) IS 'shard of an id, in a given layout';
COMMENT ON FUNCTION snowflake_sequence(bigint) IS 'sequence number of an id within its tick and shard, in the server''s layout';
COMMENT ON FUNCTION snowflake_sequence(bigint, text) IS 'sequence number of an id within its tick and shard, in a given layout';
COMMENT ON FUNCTION snowflake_decode(bigint) IS 'time, shard and sequence number of an id, in the server''s layout';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS 'time, shard and sequence number of an id, in a given layout';
COMMENT ON FUNCTION snowflake_decode_support(internal) IS 'planner support of snowflake_decode';
COMMENT ON FUNCTION snowflake_fields(bigint) IS 'fields of an id explained, in the server''s layout';
COMMENT ON FUNCTION snowflake_fields(bigint, text) IS 'fields of an id explained, in a given layout';

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
    RETURNS SETOF record ROWS 9
    LANGUAGE C STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_layouts';

CREATE VIEW snowflake_layouts AS SELECT * FROM snowflake_layouts();
GRANT SELECT ON snowflake_layouts TO PUBLIC;

COMMENT ON FUNCTION snowflake_encode(timestamptz, integer, integer) IS 'id of a time, shard and sequence number, in the server''s layout';
COMMENT ON FUNCTION snowflake_encode(timestamptz, integer, integer, text) IS 'id of a time, shard and sequence number, in a given layout';
COMMENT ON FUNCTION snowflake_floor(timestamptz) IS 'least id of a time''s tick, in the server''s layout';
COMMENT ON FUNCTION snowflake_floor(timestamptz, text) IS 'least id of a time''s tick, in a given layout';
COMMENT ON FUNCTION snowflake_ceil(timestamptz) IS 'greatest id of a time''s tick, in the server''s layout';
COMMENT ON FUNCTION snowflake_ceil(timestamptz, text) IS 'greatest id of a time''s tick, in a given layout';
COMMENT ON FUNCTION snowflake_layouts() IS 'the preset layouts and the server''s own';
COMMENT ON VIEW snowflake_layouts IS 'the preset layouts and the server''s own';

-- Comparing ids with times: exactly snowflake_timestamp(id) OPERATOR time.  The
-- operators are on a type of their own, an id seen as its time, to which
-- snowflake casts implicitly: on snowflake itself they would match a quoted
-- literal or an untyped parameter more exactly than bigint's operators do.

CREATE TYPE snowflake_instant;

CREATE FUNCTION snowflake_instant_in(cstring) RETURNS snowflake_instant
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8in';
CREATE FUNCTION snowflake_instant_out(snowflake_instant) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8out';

CREATE TYPE snowflake_instant (
    INPUT = snowflake_instant_in,
    OUTPUT = snowflake_instant_out,
    LIKE = pg_catalog.int8,
    CATEGORY = 'U'
);

CREATE CAST (snowflake AS snowflake_instant) WITHOUT FUNCTION AS IMPLICIT;

CREATE FUNCTION snowflake_last_before(ts timestamptz) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_last_before';
CREATE FUNCTION snowflake_last_until(ts timestamptz) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_last_until';
CREATE FUNCTION snowflake_time_support(internal) RETURNS internal
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_support';

CREATE FUNCTION snowflake_lt_time(snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_lt_time';
CREATE FUNCTION snowflake_time_lt(timestamptz, snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_lt';
CREATE FUNCTION snowflake_le_time(snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_le_time';
CREATE FUNCTION snowflake_time_le(timestamptz, snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_le';
CREATE FUNCTION snowflake_eq_time(snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_eq_time';
CREATE FUNCTION snowflake_time_eq(timestamptz, snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_eq';
CREATE FUNCTION snowflake_ne_time(snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_ne_time';
CREATE FUNCTION snowflake_time_ne(timestamptz, snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_ne';
CREATE FUNCTION snowflake_ge_time(snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_ge_time';
CREATE FUNCTION snowflake_time_ge(timestamptz, snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_ge';
CREATE FUNCTION snowflake_gt_time(snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_gt_time';
CREATE FUNCTION snowflake_time_gt(timestamptz, snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_gt';

CREATE OPERATOR < (LEFTARG = snowflake_instant, RIGHTARG = timestamptz, FUNCTION = snowflake_lt_time,
    COMMUTATOR = >, NEGATOR = >=);
CREATE OPERATOR < (LEFTARG = timestamptz, RIGHTARG = snowflake_instant, FUNCTION = snowflake_time_lt,
    COMMUTATOR = >, NEGATOR = >=);
CREATE OPERATOR <= (LEFTARG = snowflake_instant, RIGHTARG = timestamptz, FUNCTION = snowflake_le_time,
    COMMUTATOR = >=, NEGATOR = >);
CREATE OPERATOR <= (LEFTARG = timestamptz, RIGHTARG = snowflake_instant, FUNCTION = snowflake_time_le,
    COMMUTATOR = >=, NEGATOR = >);
CREATE OPERATOR = (LEFTARG = snowflake_instant, RIGHTARG = timestamptz, FUNCTION = snowflake_eq_time,
    COMMUTATOR = =, NEGATOR = <>);
CREATE OPERATOR = (LEFTARG = timestamptz, RIGHTARG = snowflake_instant, FUNCTION = snowflake_time_eq,
    COMMUTATOR = =, NEGATOR = <>);
CREATE OPERATOR <> (LEFTARG = snowflake_instant, RIGHTARG = timestamptz, FUNCTION = snowflake_ne_time,
    COMMUTATOR = <>, NEGATOR = =);
CREATE OPERATOR <> (LEFTARG = timestamptz, RIGHTARG = snowflake_instant, FUNCTION = snowflake_time_ne,
    COMMUTATOR = <>, NEGATOR = =);
CREATE OPERATOR >= (LEFTARG = snowflake_instant, RIGHTARG = timestamptz, FUNCTION = snowflake_ge_time,
    COMMUTATOR = <=, NEGATOR = <);
CREATE OPERATOR >= (LEFTARG = timestamptz, RIGHTARG = snowflake_instant, FUNCTION = snowflake_time_ge,
    COMMUTATOR = <=, NEGATOR = <);
CREATE OPERATOR > (LEFTARG = snowflake_instant, RIGHTARG = timestamptz, FUNCTION = snowflake_gt_time,
    COMMUTATOR = <, NEGATOR = <=);
CREATE OPERATOR > (LEFTARG = timestamptz, RIGHTARG = snowflake_instant, FUNCTION = snowflake_time_gt,
    COMMUTATOR = <, NEGATOR = <=);

COMMENT ON TYPE snowflake_instant IS 'an id seen as its time; not meant to be named';
COMMENT ON FUNCTION snowflake_instant_in(cstring) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION snowflake_instant_out(snowflake_instant) IS 'I/O: bigint''s own';
COMMENT ON CAST (snowflake AS snowflake_instant) IS 'lends snowflake the operators with timestamptz';
COMMENT ON FUNCTION snowflake_last_before(timestamptz) IS 'last id of a time before the given one';
COMMENT ON FUNCTION snowflake_last_until(timestamptz) IS 'last id of the given time or one before it';
COMMENT ON FUNCTION snowflake_time_support(internal) IS 'planner support of the operators between ids and times';
COMMENT ON FUNCTION snowflake_lt_time(snowflake_instant, timestamptz) IS 'implementation of < operator';
COMMENT ON FUNCTION snowflake_time_lt(timestamptz, snowflake_instant) IS 'implementation of < operator';
COMMENT ON OPERATOR < (snowflake_instant, timestamptz) IS 'id was minted before the time';
COMMENT ON OPERATOR < (timestamptz, snowflake_instant) IS 'id was minted after the time';
COMMENT ON FUNCTION snowflake_le_time(snowflake_instant, timestamptz) IS 'implementation of <= operator';
COMMENT ON FUNCTION snowflake_time_le(timestamptz, snowflake_instant) IS 'implementation of <= operator';
COMMENT ON OPERATOR <= (snowflake_instant, timestamptz) IS 'id was minted at or before the time';
COMMENT ON OPERATOR <= (timestamptz, snowflake_instant) IS 'id was minted at or after the time';
COMMENT ON FUNCTION snowflake_eq_time(snowflake_instant, timestamptz) IS 'implementation of = operator';
COMMENT ON FUNCTION snowflake_time_eq(timestamptz, snowflake_instant) IS 'implementation of = operator';
COMMENT ON OPERATOR = (snowflake_instant, timestamptz) IS 'id was minted at the time';
COMMENT ON OPERATOR = (timestamptz, snowflake_instant) IS 'id was minted at the time';
COMMENT ON FUNCTION snowflake_ne_time(snowflake_instant, timestamptz) IS 'implementation of <> operator';
COMMENT ON FUNCTION snowflake_time_ne(timestamptz, snowflake_instant) IS 'implementation of <> operator';
COMMENT ON OPERATOR <> (snowflake_instant, timestamptz) IS 'id was minted not at the time';
COMMENT ON OPERATOR <> (timestamptz, snowflake_instant) IS 'id was minted not at the time';
COMMENT ON FUNCTION snowflake_ge_time(snowflake_instant, timestamptz) IS 'implementation of >= operator';
COMMENT ON FUNCTION snowflake_time_ge(timestamptz, snowflake_instant) IS 'implementation of >= operator';
COMMENT ON OPERATOR >= (snowflake_instant, timestamptz) IS 'id was minted at or after the time';
COMMENT ON OPERATOR >= (timestamptz, snowflake_instant) IS 'id was minted at or before the time';
COMMENT ON FUNCTION snowflake_gt_time(snowflake_instant, timestamptz) IS 'implementation of > operator';
COMMENT ON FUNCTION snowflake_time_gt(timestamptz, snowflake_instant) IS 'implementation of > operator';
COMMENT ON OPERATOR > (snowflake_instant, timestamptz) IS 'id was minted after the time';
COMMENT ON OPERATOR > (timestamptz, snowflake_instant) IS 'id was minted before the time';

-- Hash partitions by shard: shard s belongs to remainder s % modulus.  For
-- bigint, so that plain bigint columns have it too.

CREATE FUNCTION snowflake_shard_hash(id bigint, seed bigint) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_hash';

CREATE OPERATOR CLASS snowflake_shard_ops FOR TYPE bigint USING hash AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashint8(bigint),
    FUNCTION 2 snowflake_shard_hash(bigint, bigint);

-- Small literals are integers, and compare with ids by operators of their own.
CREATE FUNCTION snowflake_shard_hash(id integer, seed bigint) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_hash_int4';
CREATE FUNCTION snowflake_shard_hash(id smallint, seed bigint) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_hash_int2';

ALTER OPERATOR FAMILY snowflake_shard_ops USING hash ADD
    OPERATOR 1 pg_catalog.= (bigint, integer),
    OPERATOR 1 pg_catalog.= (bigint, smallint),
    OPERATOR 1 pg_catalog.= (integer, bigint),
    OPERATOR 1 pg_catalog.= (smallint, bigint),
    OPERATOR 1 pg_catalog.= (integer, integer),
    OPERATOR 1 pg_catalog.= (integer, smallint),
    OPERATOR 1 pg_catalog.= (smallint, integer),
    OPERATOR 1 pg_catalog.= (smallint, smallint),
    FUNCTION 1 (integer, integer) pg_catalog.hashint4(integer),
    FUNCTION 2 (integer, integer) snowflake_shard_hash(integer, bigint),
    FUNCTION 1 (smallint, smallint) pg_catalog.hashint2(smallint),
    FUNCTION 2 (smallint, smallint) snowflake_shard_hash(smallint, bigint);

COMMENT ON FUNCTION snowflake_shard_hash(bigint, bigint) IS 'hash support of snowflake_shard_ops';
COMMENT ON FUNCTION snowflake_shard_hash(integer, bigint) IS 'hash support of snowflake_shard_ops';
COMMENT ON FUNCTION snowflake_shard_hash(smallint, bigint) IS 'hash support of snowflake_shard_ops';
COMMENT ON OPERATOR CLASS snowflake_shard_ops USING hash IS 'hash partitions by shard: shard s in remainder s % modulus';
COMMENT ON OPERATOR FAMILY snowflake_shard_ops USING hash IS 'hash partitions by shard';

-- Minting.  If a DEFAULT is volatile, COPY inserts row by row.  So the planner
-- support function puts snowflake_copy_nextval(), which is STABLE, in the place
-- of snowflake_nextval(), for COPY alone.  No SQL can call it, because no SQL has
-- a value of type internal.  See src/copy_from.c.

CREATE FUNCTION snowflake_nextval_support(internal) RETURNS internal
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_nextval(shard integer) RETURNS snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED SUPPORT snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_shard';
CREATE FUNCTION snowflake_nextval() RETURNS snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED SUPPORT snowflake_nextval_support AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_lastval() RETURNS snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_settled() RETURNS snowflake
    LANGUAGE C STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_wait_settled(after bigint, timeout interval) RETURNS boolean
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_copy_nextval(original internal, shard integer) RETURNS snowflake
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_copy_nextval(original internal) RETURNS snowflake
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION snowflake_nextval(integer) IS 'mint an id on a shard';
COMMENT ON FUNCTION snowflake_nextval() IS 'mint an id on this server''s own shards (snowflake.shards)';
COMMENT ON FUNCTION snowflake_lastval() IS 'last id minted in this session';
COMMENT ON FUNCTION snowflake_settled() IS 'id below which no row can still appear that the snapshot does not see';
COMMENT ON FUNCTION snowflake_wait_settled(bigint, interval) IS 'wait until the mark of snowflake_settled() has passed an id';
COMMENT ON FUNCTION snowflake_copy_nextval(internal) IS 'what COPY calls in place of snowflake_nextval()';
COMMENT ON FUNCTION snowflake_copy_nextval(internal, integer) IS 'what COPY calls in place of snowflake_nextval(integer)';
COMMENT ON FUNCTION snowflake_nextval_support(internal) IS 'planner support of snowflake_nextval';

-- Ids for rows that exist, by the minting rule applied to the past.  Not STRICT,
-- because the server does not look at that for a window function: it refuses NULL
-- itself.

CREATE FUNCTION snowflake_history(created_at timestamptz, shard integer) RETURNS snowflake WINDOW
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_history';
CREATE FUNCTION snowflake_history(created_at timestamptz, shard integer, layout text) RETURNS snowflake WINDOW
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_history';

COMMENT ON FUNCTION snowflake_history(timestamptz, integer) IS 'id for a row that exists, with its time, in the server''s layout';
COMMENT ON FUNCTION snowflake_history(timestamptz, integer, text) IS 'id for a row that exists, with its time, in a given layout';

-- Durability and identity: the time up to which ids may be minted, as it is on
-- disk, and which server wrote it.

CREATE FUNCTION snowflake_horizon(
        OUT horizon timestamptz, OUT seconds_ahead double precision,
        OUT last_renewal timestamptz, OUT last_error text,
        OUT waiting_for text, OUT waiting_since timestamptz,
        OUT incarnation text, OUT clone_of text, OUT clone_evidence text)
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_store_layout() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_accept_clone() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';

REVOKE EXECUTE ON FUNCTION snowflake_horizon(), snowflake_store_layout(), snowflake_accept_clone() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_horizon() TO pg_monitor;

COMMENT ON FUNCTION snowflake_horizon() IS 'time up to which ids may be minted, as it is on disk, and which server stored it';
COMMENT ON FUNCTION snowflake_store_layout() IS 'called by snowflake_accept_layout';
COMMENT ON FUNCTION snowflake_accept_clone() IS 'go on minting on a server that was found to be a clone';

-- Leases: see extension snowflake_registry.

CREATE FUNCTION snowflake_leases(OUT shard integer, OUT held boolean,
    OUT lease_from timestamptz, OUT lease_until timestamptz, OUT holder text)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_lease_status(OUT state text, OUT holder text, OUT shards integer,
    OUT lease_until timestamptz, OUT last_answer timestamptz,
    OUT clock_ahead double precision, OUT last_error text,
    OUT losses integer, OUT last_loss text, OUT restart_pending boolean)
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';

REVOKE EXECUTE ON FUNCTION snowflake_leases(), snowflake_lease_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_leases(), snowflake_lease_status() TO pg_monitor;

COMMENT ON FUNCTION snowflake_leases() IS 'shards that this server has leased from the registry, and shards that it wants and cannot get';
COMMENT ON FUNCTION snowflake_lease_status() IS 'what this server knows of the registry';

-- Statistics.  They are for roles that may monitor the server, since they show
-- what was minted and when.  A view calls its functions with the rights of the
-- role that reads it, hence the grants on both.

CREATE FUNCTION snowflake_stat_shards(OUT shard integer, OUT minted bigint, OUT exhausted bigint,
    OUT clock_behind bigint, OUT waited interval, OUT last_id snowflake,
    OUT last_minted_at timestamptz, OUT stats_reset timestamptz)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_stat_backends(OUT pid integer, OUT shard integer, OUT last_id snowflake,
    OUT minted bigint, OUT waits bigint, OUT waited interval,
    OUT holding_since timestamptz, OUT oldest_id snowflake)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME';
CREATE FUNCTION snowflake_stat_reset() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';

CREATE VIEW pg_stat_snowflake AS SELECT * FROM snowflake_stat_shards();
CREATE VIEW pg_stat_snowflake_backends AS SELECT * FROM snowflake_stat_backends();

-- A transaction that is prepared has an advisory lock of a kind of its own, whose key is
-- the time at which it holds the mark: see src/settled.c.
CREATE VIEW snowflake_unsettled AS
WITH locks AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks)
SELECT a.datname AS database, b.pid, NULL::text AS gid, a.usename AS "user", a.application_name,
       b.holding_since AS since, b.oldest_id
  FROM pg_stat_snowflake_backends b JOIN pg_catalog.pg_stat_activity a USING (pid)
 WHERE b.holding_since IS NOT NULL
UNION ALL
SELECT p.database, NULL, p.gid, p.owner, NULL,
       timestamptz '2000-01-01 00:00:00+00'
           + (mark.classid::bigint << 32 | mark.objid::bigint) * interval '1 microsecond', NULL
  FROM locks AS mark
  JOIN locks AS own ON own.locktype = 'transactionid' AND own.mode = 'ExclusiveLock' AND own.pid IS NULL
       AND own.virtualtransaction = mark.virtualtransaction
  JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = own.transactionid
 WHERE mark.locktype = 'advisory' AND mark.objsubid = 24346 AND mark.pid IS NULL;

REVOKE ALL ON FUNCTION snowflake_stat_shards(), snowflake_stat_backends(), snowflake_stat_reset() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_stat_shards(), snowflake_stat_backends() TO pg_monitor;
GRANT SELECT ON pg_stat_snowflake, pg_stat_snowflake_backends, snowflake_unsettled TO pg_monitor;

COMMENT ON FUNCTION snowflake_stat_shards() IS 'statistics of shards: see the view pg_stat_snowflake';
COMMENT ON FUNCTION snowflake_stat_backends() IS 'statistics of sessions: see the view pg_stat_snowflake_backends';
COMMENT ON FUNCTION snowflake_stat_reset() IS 'set the counters of pg_stat_snowflake to 0';
COMMENT ON VIEW pg_stat_snowflake IS 'what each shard has minted, and how its calls waited';
COMMENT ON VIEW pg_stat_snowflake_backends IS 'what each live session has minted, and how it waited';
COMMENT ON VIEW snowflake_unsettled IS 'transactions, of sessions or prepared, that hold the mark of snowflake_settled()';

-- Marks that travel.  "All rows of this server with an id below the mark are
-- committed": a row of a table that says so goes wherever the WAL or a publication
-- goes, and arrives after the rows of which it speaks.  The table is the application's,
-- as one of an extension gets into dumps of the schema that cannot be loaded.
--
-- Why it does.  A mark is that of the snapshot of the statement that stores it.  Let
-- T be a transaction with a row below the mark.
--
--	* The snapshot saw T.  The server writes the commit record of a transaction before
--	  others see it, and that of the mark's own transaction comes later than the
--	  mark.  So T's commit is before the mark's in the WAL, where a standby replays
--	  it, and where logical decoding finds the order in which it sends transactions.
--	* The snapshot did not see T.  Then T's row cannot appear any more: this is what
--	  snowflake_settled() promises.
--
-- A mark that was true stays true.  So the greater of two is stored, in whatever
-- order they are.  But one that is after the horizon was never this server's: it came
-- from another layout, or from a server that this one was restored from, and ids
-- below it may still be minted.  It is replaced.
--
-- The default of "marks" is worked out where the function is called, and so by the
-- caller's search_path.  Who finds the row locked, by another call whose transaction
-- is still open, waits no longer than the timeout.

CREATE FUNCTION snowflake_is_before_horizon(id bigint) RETURNS boolean
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION snowflake_is_before_horizon(bigint) IS 'called by snowflake_publish_mark';

CREATE FUNCTION snowflake_publish_mark(server text DEFAULT NULL,
    marks regclass DEFAULT pg_catalog.to_regclass('snowflake_marks'::text)) RETURNS snowflake
    LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '1s'
AS $$
DECLARE
    own    regnamespace;    -- the extension's schema
    stored bigint;
BEGIN
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    EXECUTE format('SELECT %s.snowflake_settled()', own);   -- during recovery, its error says what to do
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = marks) THEN
        RAISE undefined_table USING
            MESSAGE = 'there is no table for marks',
            DETAIL = 'The search_path finds no table "snowflake_marks", and no other one is named.',
            HINT = 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL)';
    END IF;
    EXECUTE format('INSERT INTO %1$s AS published (server, mark, published_at) '
                   'VALUES ($1, %2$s.snowflake_settled(), clock_timestamp()) '
                   'ON CONFLICT (server) DO UPDATE '
                   'SET mark = CASE WHEN %2$s.snowflake_is_before_horizon(published.mark::bigint) '
                   'THEN greatest(published.mark, excluded.mark) ELSE excluded.mark END, '
                   'published_at = excluded.published_at '
                   'RETURNING mark', marks, own)
        INTO stored
        USING coalesce(server, (SELECT format('%s/%s', system_identifier, current_database()) FROM pg_control_system()));
    RETURN stored;
END
$$;

COMMENT ON FUNCTION snowflake_publish_mark(text, regclass) IS 'store the mark of snowflake_settled() in a table, as that of this server';

-- The mark that a reader of several servers' rows goes by.
--
-- A subscription synchronizes each table by itself, and applies changes of others
-- meanwhile.  So a mark can be here before the rows of which it speaks, until both
-- tables are in state "r": from then on the same worker applies the changes of both,
-- in the order of their commits.  Marks that came by another subscription are in no
-- order with the rows at all.
--
-- All is read with the snapshot of the statement that calls it, as it is STABLE.
-- So there is nothing between the mark and the rows that this statement reads.
CREATE FUNCTION snowflake_least_mark(relation regclass, servers text[],
    marks regclass DEFAULT pg_catalog.to_regclass('snowflake_marks'::text)) RETURNS snowflake
    LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    names  text[] := (SELECT array_agg(DISTINCT name) FROM unnest(servers) AS name WHERE name IS NOT NULL);
    class  record;
    brings record;          -- what the subscriptions that bring rows of the relation are like
    least  bigint;
BEGIN
    IF relation IS NULL OR servers IS NULL THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = marks) THEN
        RAISE undefined_table USING
            MESSAGE = 'there is no table for marks',
            DETAIL = 'The search_path finds no table "snowflake_marks", and no other one is named.',
            HINT = 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL)';
    END IF;
    SELECT relname, relkind INTO class FROM pg_class WHERE oid = relation;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', relation::oid);
    END IF;
    IF class.relkind NOT IN ('r', 'p') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a table', class.relname),
            HINT = 'Name the table whose rows are read, rather than a view of it.';
    END IF;

    WITH part AS (
        SELECT relid FROM pg_partition_tree(relation)
        UNION SELECT relid FROM pg_partition_ancestors(relation)
        UNION SELECT relation),
    subscription AS (
        SELECT bool_or(srrelid = marks) AS has_marks,
               bool_and(srsubstate = 'r') FILTER (WHERE srrelid = marks OR srrelid IN (SELECT relid FROM part)) AS is_ready,
               (SELECT subname FROM pg_subscription WHERE oid = srsubid) AS name
          FROM pg_subscription_rel
         GROUP BY srsubid
        HAVING bool_or(srrelid IN (SELECT relid FROM part)))
    SELECT count(*) AS number, bool_and(is_ready) AS are_ready,
           string_agg(quote_ident(name), ', ' ORDER BY name) AS listed,
           string_agg(quote_ident(name), ', ' ORDER BY name) FILTER (WHERE NOT has_marks) AS without_marks
      INTO brings
      FROM subscription;
    IF brings.without_marks IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('no marks come with the rows of table "%s"', class.relname),
            DETAIL = format('They come by subscriptions without the table %s: %s.', marks, brings.without_marks),
            HINT = 'Add that table to the publication, and refresh the subscription.';
    END IF;
    IF brings.number > cardinality(names) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('table "%s" has rows of more servers than are named', class.relname),
            DETAIL = format('Servers named: %s. Subscriptions that bring rows: %s.', array_to_string(names, ', '), brings.listed),
            HINT = 'Name each server whose ids are in the table, as in the table of marks.';
    END IF;
    IF NOT brings.are_ready THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT min(mark) FROM %s WHERE server = ANY ($1) HAVING count(*) = cardinality($1)', marks)
        INTO least USING names;
    RETURN least;
END
$$;

COMMENT ON FUNCTION snowflake_least_mark(regclass, text[], regclass) IS 'all rows of a table with ids of these servers below it are here; NULL: nothing is known yet';

-- Short texts for URLs.  All of a form have one length, and from id 0 up they
-- sort as the ids do under COLLATE "C".

CREATE FUNCTION snowflake_to_base32(id bigint) RETURNS text
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'snowflake_to_base32';
CREATE FUNCTION snowflake_from_base32(id text) RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_base32';

CREATE FUNCTION snowflake_to_base58(id bigint) RETURNS text
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'snowflake_to_base58';
CREATE FUNCTION snowflake_from_base58(id text) RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_base58';

CREATE FUNCTION snowflake_to_base62(id bigint) RETURNS text
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'snowflake_to_base62';
CREATE FUNCTION snowflake_from_base62(id text) RETURNS snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_base62';

COMMENT ON FUNCTION snowflake_to_base32(bigint) IS 'id as 13 characters in Crockford''s base32';
COMMENT ON FUNCTION snowflake_from_base32(text) IS 'id from 13 characters in Crockford''s base32';
COMMENT ON FUNCTION snowflake_to_base58(bigint) IS 'id as 11 characters in Bitcoin''s base58';
COMMENT ON FUNCTION snowflake_from_base58(text) IS 'id from 11 characters in Bitcoin''s base58';
COMMENT ON FUNCTION snowflake_to_base62(bigint) IS 'id as 11 characters in base62, 0-9A-Za-z';
COMMENT ON FUNCTION snowflake_from_base62(text) IS 'id from 11 characters in base62, 0-9A-Za-z';

-- Partitions by time: a range of ids for each step of time.
--
-- A partition is made apart and then attached.  That gives what CREATE TABLE
-- ... PARTITION OF gives, but under a lock on the parent with which it is read
-- and written as before.  A parent that has no partition has no rows to read or
-- write, so there it is PARTITION OF, which takes half of the time.  The lock
-- makes two sessions that do this at once wait for each other.  Existing
-- partitions are known by their bounds, whatever their names are.

CREATE FUNCTION snowflake_make_partitions(parent regclass, start_time timestamptz,
        end_time timestamptz, step interval)
    RETURNS SETOF regclass
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own        regnamespace;   -- the extension's schema
    relation   record;
    key        record;
    key_type   oid;
    existing   regclass[];
    spans      int8range[];    -- of each that exists; empty for the default
    -- one step; times are UTC, so that no session's time zone has a say
    origin     timestamp := start_time AT TIME ZONE 'UTC';
    n          integer := 0;
    from_time  timestamp;
    to_time    timestamp;
    from_id    bigint;
    to_id      bigint;
    span       int8range;
    other      record;
    from_other timestamp;
    to_other   timestamp;
    -- the name of its partition
    stamp      text;
    stamps     text;
    prefix     text;
    partition  text;
    placement  text;           -- of each, as of the parent
    message    text;
BEGIN
    IF parent IS NULL OR start_time IS NULL OR end_time IS NULL OR step IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'parent, start_time, end_time and step must not be null';
    END IF;
    IF NOT isfinite(start_time) OR NOT isfinite(end_time) OR NOT isfinite(step) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'start_time, end_time and step must be finite';
    END IF;
    IF end_time <= start_time THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'end_time must be later than start_time',
            DETAIL = format('The time range would start at %s and end at %s.', start_time, end_time);
    END IF;
    IF origin + step <= origin THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('step must be positive, not "%s"', step);
    END IF;

    SELECT c.relname, c.relkind, s.nspname, t.spcname, a.amname,
           pg_has_role(c.relowner, 'USAGE') AS is_owned
      INTO relation
      FROM pg_class AS c
      JOIN pg_namespace AS s ON s.oid = c.relnamespace
      LEFT JOIN pg_tablespace AS t ON t.oid = c.reltablespace
      LEFT JOIN pg_am AS a ON a.oid = c.relam
     WHERE c.oid = parent;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', parent::oid);
    END IF;
    IF relation.relkind <> 'p' THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a partitioned table', relation.relname),
            HINT = 'A table is partitioned from its creation on, with PARTITION BY RANGE.';
    END IF;
    IF NOT relation.is_owned THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of table %s', relation.relname);
    END IF;

    SELECT p.partstrat, p.partnatts, p.partattrs[0] AS attnum, a.attname, a.atttypid
      INTO key
      FROM pg_partitioned_table AS p
      LEFT JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
     WHERE p.partrelid = parent;
    IF key.partstrat <> 'r' OR key.partnatts <> 1 OR key.attnum = 0 THEN
        RAISE wrong_object_type USING
            MESSAGE = format('table "%s" is not partitioned by the range of one column', relation.relname),
            DETAIL = format('Its partition key is %s.', pg_get_partkeydef(parent));
    END IF;
    key_type := key.atttypid;
    WHILE (SELECT typtype = 'd' FROM pg_type WHERE oid = key_type) LOOP
        key_type := (SELECT typbasetype FROM pg_type WHERE oid = key_type);
    END LOOP;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    IF key_type NOT IN ('bigint'::regtype, format('%s.snowflake', own)::regtype) THEN
        RAISE datatype_mismatch USING
            MESSAGE = format('table "%s" is partitioned by a column that holds no snowflakes', relation.relname),
            DETAIL = format('Column "%s" is of type %s, not snowflake or bigint.',
                            key.attname, key.atttypid::regtype);
    END IF;

    -- From here on this session alone adds partitions.
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', parent);

    -- A snapshot from before the lock does not show the partitions that
    -- another session has just made.
    IF current_setting('transaction_isolation') NOT LIKE 'read %' AND EXISTS (
            SELECT relid FROM pg_partition_tree(parent) WHERE parentrelid = parent
            EXCEPT
            SELECT inhrelid FROM pg_inherits WHERE inhparent = parent) THEN
        RAISE serialization_failure USING
            MESSAGE = 'could not serialize access due to partitions that were added concurrently',
            HINT = 'The transaction might succeed if retried.';
    END IF;

    SELECT array_agg(bound.partition), array_agg(
               CASE WHEN bound.ends IS NULL THEN 'empty'
                    ELSE int8range(substring(bound.ends[1] FROM '-?\d+')::bigint,
                                   substring(bound.ends[2] FROM '-?\d+')::bigint) END)
      INTO existing, spans
      FROM (SELECT c.oid::regclass AS partition,
                   regexp_match(pg_get_expr(c.relpartbound, c.oid),
                                '^FOR VALUES FROM \((.*)\) TO \((.*)\)$') AS ends
              FROM pg_inherits AS i
              JOIN pg_class AS c ON c.oid = i.inhrelid
             WHERE i.inhparent = parent AND NOT i.inhdetachpending) AS bound;

    -- As many digits as it takes to tell any two steps apart.
    stamps := CASE
        WHEN origin = date_trunc('day', origin)
             AND origin + step = date_trunc('day', origin + step) THEN 'YYYYMMDD'
        WHEN origin = date_trunc('minute', origin)
             AND origin + step = date_trunc('minute', origin + step) THEN 'YYYYMMDD_HH24MI'
        WHEN origin = date_trunc('second', origin)
             AND origin + step = date_trunc('second', origin + step) THEN 'YYYYMMDD_HH24MISS'
        ELSE 'YYYYMMDD_HH24MISSUS'
    END;

    placement := coalesce(' USING ' || quote_ident(relation.amname), '')
              || coalesce(' TABLESPACE ' || quote_ident(relation.spcname), '');

    -- Counted from the origin: months after the 31st come back to the 31st.
    LOOP
        from_time := origin + n * step;
        EXIT WHEN from_time >= end_time AT TIME ZONE 'UTC';
        n := n + 1;
        to_time := origin + n * step;
        EXECUTE format('SELECT %1$s.snowflake_floor($1), %1$s.snowflake_floor($2)', own)
            INTO from_id, to_id
            USING from_time AT TIME ZONE 'UTC', to_time AT TIME ZONE 'UTC';
        IF to_id <= from_id THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('step must lead at least a tick forward in time, not "%s"', step),
                DETAIL = format('Step %s would lead from %sZ to %sZ.',
                                n, to_json(from_time) #>> '{}', to_json(to_time) #>> '{}');
        END IF;
        span := int8range(from_id, to_id);
        CONTINUE WHEN span = ANY (spans);

        -- A name that is too long is cut, and told from others that are cut
        -- alike by a digest of the whole.
        stamp := '_' || to_char(from_time, stamps);
        prefix := relation.relname;
        IF octet_length(prefix || stamp) > current_setting('max_identifier_length')::integer THEN
            stamp := '_' || left(encode(sha256(convert_to(prefix, getdatabaseencoding())), 'hex'), 8) || stamp;
            WHILE octet_length(prefix || stamp) > current_setting('max_identifier_length')::integer LOOP
                prefix := left(prefix, -1);
            END LOOP;
        END IF;
        partition := format('%I.%I', relation.nspname, prefix || stamp);

        SELECT e.name, lower(e.held) AS from_id, upper(e.held) AS to_id
          INTO other
          FROM unnest(existing, spans) AS e(name, held)
         WHERE e.held && span
         ORDER BY e.held
         LIMIT 1;
        IF FOUND THEN
            EXECUTE format('SELECT %1$s.snowflake_timestamp($1) AT TIME ZONE ''UTC'', '
                           '%1$s.snowflake_timestamp($2) AT TIME ZONE ''UTC''', own)
                INTO from_other, to_other
                USING other.from_id, other.to_id;
            RAISE invalid_object_definition USING
                MESSAGE = format('new partition "%s" would overlap partition "%s"', prefix || stamp,
                                 (SELECT relname FROM pg_class WHERE oid = other.name)),
                DETAIL = format('The new one would run from %sZ to %sZ (id %s to %s), the existing one runs from %s to %s.',
                                to_json(from_time) #>> '{}', to_json(to_time) #>> '{}', from_id, to_id,
                                coalesce((to_json(from_other) #>> '{}') || 'Z (id ' || other.from_id || ')', 'MINVALUE'),
                                coalesce((to_json(to_other) #>> '{}') || 'Z (id ' || other.to_id || ')', 'MAXVALUE')),
                HINT = 'Choose start_time, end_time and step so that new partitions meet existing ones at their bounds.';
        END IF;
        IF to_regclass(partition) IS NOT NULL THEN
            RAISE duplicate_table USING
                MESSAGE = format('relation "%s" already exists', prefix || stamp),
                DETAIL = format('It is not the partition of "%s" from %sZ to %sZ, which would get this name.',
                                relation.relname, to_json(from_time) #>> '{}', to_json(to_time) #>> '{}'),
                HINT = 'Rename it, or attach it if it holds the rows of that time.';
        END IF;

        IF existing IS NULL THEN
            EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)', partition, parent, from_id, to_id)
                 || placement;
        ELSE
            EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING COMPRESSION INCLUDING CONSTRAINTS'
                           ' INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE)', partition, parent)
                 || placement;
            EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
                           parent, partition, from_id, to_id);
        END IF;
        RETURN NEXT partition::regclass;
    END LOOP;
EXCEPTION WHEN check_violation THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
    RAISE check_violation USING
        MESSAGE = message,
        DETAIL = format('Partition "%s" would run from %sZ to %sZ (id %s to %s).', prefix || stamp,
                        to_json(from_time) #>> '{}', to_json(to_time) #>> '{}', from_id, to_id),
        HINT = 'Detach the default partition, make the partitions, insert its rows into the parent, and attach it again.';
END
$$;

COMMENT ON FUNCTION snowflake_make_partitions(regclass, timestamptz, timestamptz, interval) IS 'make the missing partitions of a table for each step of time';

-- Change of the layout: what in this database depends on the server's layout, and
-- so is out of date when that is another one.
--
-- All of it is read from the catalogs: while "snowflake.layout" is not the
-- recorded layout, no function that goes by it may be called, not even by a
-- query on a table whose index calls one.  Hence the size of a partition tells
-- whether it holds rows.  Dependencies are followed through functions,
-- operators and views, but not through tables, which everything depends on.
-- The server does not know what a function depends on whose body is text, so
-- such a body is searched for names.

CREATE FUNCTION snowflake_layout_dependents(
        OUT object text, OUT uses text, OUT holds_rows boolean, OUT remedy text)
    RETURNS SETOF record ROWS 20
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
    WITH RECURSIVE member(classid, objid) AS (
        SELECT d.classid, d.objid
          FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
         WHERE e.extname = 'snowflake' AND d.deptype = 'e'
    ), own_type AS (
        SELECT t.oid, t.typname FROM member AS m JOIN pg_type AS t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid
    ), own_function AS (
        SELECT p.oid, p.proname, p.proargtypes, coalesce('layout' = ANY (p.proargnames), false) AS names_layout
          FROM member AS m JOIN pg_proc AS p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
    ), reader(classid, objid, name) AS (
        -- functions that exist with a layout, too, and are called without;
        -- functions that the planner puts in the place of comparisons with
        -- times; these comparisons; partitions by shard
        SELECT 'pg_proc'::regclass::oid, f.oid, f.proname FROM own_function AS f
         WHERE NOT f.names_layout AND (f.proname IN (SELECT proname FROM own_function WHERE names_layout)
                                       OR f.proname IN ('snowflake_last_before', 'snowflake_last_until')
                                       OR (SELECT oid FROM own_type WHERE typname = 'snowflake_instant') = ANY (f.proargtypes))
        UNION ALL
        SELECT m.classid, m.objid, NULL
          FROM member AS m JOIN pg_opclass AS o ON m.classid = 'pg_opclass'::regclass AND o.oid = m.objid
         WHERE o.opcname = 'snowflake_shard_ops'
    ), dependent(classid, objid, by_classid, by_objid) AS (
        SELECT classid, objid, NULL::oid, NULL::oid FROM reader
        UNION
        SELECT 'pg_proc'::regclass, p.oid, r.classid, r.objid
          FROM pg_proc AS p
          JOIN pg_language AS l ON l.oid = p.prolang
          JOIN reader AS r ON p.prosrc ~ format('\m%s\M', r.name)
         WHERE p.prosqlbody IS NULL AND l.lanname NOT IN ('internal', 'c')
           AND p.oid NOT IN (SELECT oid FROM own_function)
        UNION
        SELECT CASE WHEN view.oid IS NOT NULL THEN 'pg_class'::regclass ELSE d.classid END,
               coalesce(view.oid, d.objid), b.classid, b.objid
          FROM dependent AS b
          JOIN pg_depend AS d ON d.refclassid = b.classid AND d.refobjid = b.objid AND d.deptype IN ('n', 'a')
          LEFT JOIN pg_rewrite AS r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
          LEFT JOIN pg_class AS view ON view.oid = r.ev_class AND view.relkind IN ('v', 'm')
         WHERE b.classid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
            OR b.classid = 'pg_opclass'::regclass AND d.objid IN (SELECT partrelid FROM pg_partitioned_table)
            OR b.classid = 'pg_class'::regclass AND b.objid IN (SELECT oid FROM pg_class WHERE relkind IN ('v', 'm'))
    ), shown AS (
        SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS object, string_agg(DISTINCT
                   CASE WHEN f.oid IS NOT NULL THEN format('%s(%s)', f.proname, oidvectortypes(f.proargtypes))
                        WHEN w.oprleft IN (SELECT oid FROM own_type) THEN format('id %s timestamptz', w.oprname)
                        WHEN w.oprright IN (SELECT oid FROM own_type) THEN format('timestamptz %s id', w.oprname)
                        WHEN d.by_classid = 'pg_opclass'::regclass THEN 'snowflake_shard_ops'
                        ELSE pg_describe_object(d.by_classid, d.by_objid, 0) END, ', ') AS uses
          FROM dependent AS d
          LEFT JOIN own_function AS f ON d.by_classid = 'pg_proc'::regclass AND f.oid = d.by_objid
          LEFT JOIN pg_operator AS w ON d.by_classid = 'pg_operator'::regclass AND w.oid = d.by_objid
         WHERE d.by_objid <> d.objid
           AND NOT EXISTS (SELECT FROM member AS m WHERE m.classid = d.classid AND m.objid = d.objid)
         GROUP BY d.classid, d.objid
    ), expression AS (
        -- of a column, unless that of its parent table is shown
        SELECT e.oid, e.adrelid, e.adnum, a.attgenerated, s.uses
          FROM shown AS s
          JOIN pg_attrdef AS e ON s.classid = 'pg_attrdef'::regclass AND e.oid = s.objid
          JOIN pg_attribute AS a ON a.attrelid = e.adrelid AND a.attnum = e.adnum
         WHERE NOT EXISTS (
               SELECT FROM pg_inherits AS i
                 JOIN pg_attribute AS j ON j.attrelid = i.inhparent AND j.attname = a.attname
                 JOIN pg_attrdef AS h ON h.adrelid = j.attrelid AND h.adnum = j.attnum
                 JOIN shown AS o ON o.classid = 'pg_attrdef'::regclass AND o.objid = h.oid
                WHERE i.inhrelid = a.attrelid)
    ), updatable AS (
        SELECT attrelid, attnum, attname FROM pg_attribute
         WHERE attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity <> 'a'
    ), answer(place, object, uses, holds_rows, remedy) AS (
        -- what rows are checked by, whenever they change
        SELECT 1, CASE o.contypid WHEN 0 THEN s.object
                  ELSE format('constraint %I of domain %s', o.conname, o.contypid::regtype) END, s.uses, NULL::boolean,
               format(CASE o.contypid WHEN 0 THEN 'ALTER TABLE %1$s DROP CONSTRAINT %3$I, ADD CONSTRAINT %3$I %4$s;'
                      ELSE 'ALTER DOMAIN %2$s DROP CONSTRAINT %3$I; ALTER DOMAIN %2$s ADD CONSTRAINT %3$I %4$s;' END,
                      o.conrelid::regclass, o.contypid::regtype, o.conname, pg_get_constraintdef(o.oid))
          FROM shown AS s JOIN pg_constraint AS o ON s.classid = 'pg_constraint'::regclass AND o.oid = s.objid
         WHERE o.contype = 'c' AND o.coninhcount = 0
        -- where rows are
        UNION ALL
        SELECT 2, s.object, s.uses, leaves.hold_rows,
               CASE WHEN NOT leaves.hold_rows THEN 'nothing: it holds no rows'
                    WHEN leaves.are_foreign THEN 'move rows by hand: partitions are foreign tables'
                    ELSE (SELECT format('UPDATE %s SET %2$I = %2$I;', pg_partition_root(p.partrelid), u.attname)
                            FROM updatable AS u WHERE u.attrelid = p.partrelid
                           ORDER BY u.attnum = ANY (p.partattrs) DESC, u.attnum LIMIT 1) END
          FROM shown AS s
          JOIN pg_partitioned_table AS p ON s.classid = 'pg_class'::regclass AND p.partrelid = s.objid
         CROSS JOIN LATERAL (
               SELECT coalesce(bool_or(c.relkind = 'f' OR pg_relation_size(c.oid) > 0), false) AS hold_rows,
                      coalesce(bool_or(c.relkind = 'f'), false) AS are_foreign
                 FROM pg_partition_tree(p.partrelid) AS t JOIN pg_class AS c ON c.oid = t.relid
                WHERE t.isleaf) AS leaves
        UNION ALL
        SELECT 3, pg_describe_object('pg_class'::regclass, p.partrelid, 0), 'ids as bounds of partitions', NULL,
               'drop the partitions that are still empty, and make them again'
          FROM pg_partitioned_table AS p
         WHERE p.partstrat = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = p.partrelid)
           -- a bigint holds snowflakes if its default mints them
           AND EXISTS (SELECT FROM pg_attribute AS a JOIN pg_type AS b ON b.oid = a.atttypid
                        WHERE a.attrelid = p.partrelid AND a.attnum = ANY (p.partattrs)
                          AND ((SELECT oid FROM own_type WHERE typname = 'snowflake') IN (b.oid, b.typbasetype)
                               OR EXISTS (SELECT FROM pg_attrdef AS e
                                            JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
                                            JOIN own_function AS f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
                                           WHERE e.adrelid = a.attrelid AND e.adnum = a.attnum
                                             AND f.proname = 'snowflake_nextval')))
        -- what is stored
        UNION ALL
        SELECT 4, pg_describe_object('pg_class'::regclass, e.adrelid, e.adnum), e.uses, NULL,
               (SELECT format('UPDATE %s SET %2$I = %2$I;', e.adrelid::regclass, u.attname)
                  FROM pg_depend AS d JOIN updatable AS u ON u.attrelid = d.refobjid AND u.attnum = d.refobjsubid
                 WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
                   AND d.refclassid = 'pg_class'::regclass AND d.refobjid = e.adrelid
                 ORDER BY u.attnum LIMIT 1)
          FROM expression AS e WHERE e.attgenerated = 's'
        UNION ALL
        SELECT 5, s.object, s.uses, NULL,
               format(CASE c.relkind WHEN 'm' THEN 'REFRESH MATERIALIZED VIEW %s;' ELSE 'REINDEX INDEX %s;' END, c.oid::regclass)
          FROM shown AS s JOIN pg_class AS c ON s.classid = 'pg_class'::regclass AND c.oid = s.objid
         WHERE c.relkind = 'm' OR c.relkind IN ('i', 'I') AND NOT c.relispartition
        UNION ALL
        SELECT 6, s.object, s.uses, NULL, format('ANALYZE %s;', x.stxrelid::regclass)
          FROM shown AS s JOIN pg_statistic_ext AS x ON s.classid = 'pg_statistic_ext'::regclass AND x.oid = s.objid
        -- what reads
        UNION ALL
        SELECT 7, s.object, s.uses, NULL, 'to read old ids, name their layout in it'
          FROM shown AS s
          LEFT JOIN pg_class AS c ON s.classid = 'pg_class'::regclass AND c.oid = s.objid
          LEFT JOIN pg_trigger AS t ON s.classid = 'pg_trigger'::regclass AND t.oid = s.objid
         WHERE s.classid NOT IN ('pg_constraint'::regclass, 'pg_statistic_ext'::regclass)
           AND coalesce(c.relkind = 'v', true) AND coalesce(t.tgparentid = 0, true)
           AND (s.classid <> 'pg_attrdef'::regclass OR s.objid IN (SELECT oid FROM expression WHERE attgenerated <> 's'))
    )
    SELECT object, uses, holds_rows, remedy FROM answer ORDER BY place, object COLLATE "C"
$$;

-- Go on with another layout.  A rollback does not undo that, so rows that would
-- be misplaced are looked for first.

CREATE FUNCTION snowflake_accept_layout(allow_misplaced_rows boolean DEFAULT false,
        OUT object text, OUT uses text, OUT holds_rows boolean, OUT remedy text)
    RETURNS SETOF record ROWS 20
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own        regnamespace;   -- the extension's schema
    is_changed boolean;
    holding    text;
    others     text;
BEGIN
    IF allow_misplaced_rows IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'allow_misplaced_rows must not be null';
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';

    -- Has it changed?  If the library is not preloaded, no layout is in use; the
    -- error about that, and about a standby, is snowflake_store_layout()'s.
    EXECUTE format('SELECT bool_or(in_use) AND NOT pg_is_in_recovery() FROM %s.snowflake_layouts()', own) INTO is_changed;
    IF is_changed THEN
        BEGIN
            EXECUTE format('SELECT false FROM %1$s.snowflake_shard(0::bigint)', own) INTO is_changed;
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            NULL;   -- the layout is not the recorded one
        END;
    END IF;
    IF is_changed THEN
        EXECUTE format('SELECT string_agg(object, '', '') FROM %s.snowflake_layout_dependents() WHERE holds_rows', own)
            INTO holding;
        IF holding IS NOT NULL AND NOT allow_misplaced_rows THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = 'rows are in partitions where the new layout does not look for them',
                DETAIL = format('The layout says which partition a row is in, and these hold rows: %s.', holding),
                HINT = 'Detach their partitions first. Or call snowflake_accept_layout(allow_misplaced_rows => true), '
                       'and move the rows before anybody uses the tables: its result says how.';
        END IF;
    END IF;

    EXECUTE format('SELECT %s.snowflake_store_layout()', own);

    IF is_changed THEN
        others := (SELECT string_agg(quote_ident(datname), ', ' ORDER BY datname) FROM pg_database
                    WHERE datname <> current_database() AND datallowconn AND NOT datistemplate);
        IF others IS NOT NULL THEN
            RAISE NOTICE USING
                MESSAGE = format('only database "%s" was searched', current_database()),
                HINT = format('Call snowflake_layout_dependents() in each other database that has the extension. '
                              'The others are %s.', others);
        END IF;
        RETURN QUERY EXECUTE format('SELECT * FROM %s.snowflake_layout_dependents()', own);
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION snowflake_accept_layout(boolean) FROM PUBLIC;

COMMENT ON FUNCTION snowflake_layout_dependents() IS 'what in this database depends on the server''s layout, and what to do when that changes';
COMMENT ON FUNCTION snowflake_accept_layout(boolean) IS 'go on with a changed snowflake.layout';

-- Migration: the DDL that turns an existing key into one that mints itself.
--
-- The statements are an administrator's own, in an order in which they can be
-- pasted; nothing reaches into a catalog.  Columns that refer to the key by
-- foreign keys, directly or by way of others, change with it: those that are
-- shorter must, and those that are bigint should, so that ids look alike
-- wherever they stand.  From bigint that rewrites nothing.  The column can be a
-- bigint afterwards, too.  The way back is the same walk, to bigint and a sequence.
-- (Without JIT: the planner takes the look into the catalogs for a query that is
-- worth it.)

CREATE FUNCTION snowflake_change_key(relation regclass, column_name name, shard integer,
        dry_run boolean, column_type regtype, reverts boolean)
    RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET row_security = off
    SET jit = off
AS $$
DECLARE
    own       regnamespace;    -- the extension's schema
    own_type  oid;             -- snowflake
    class     record;          -- of the relation in pg_class
    key       record;
    tree      oid[];           -- the table, its partitions and children
    minter    regprocedure;    -- snowflake_nextval
    call      text;            -- how a call of it begins
    mint      text;
    distributed oid[];         -- by Citus
    distributed_by text[];     -- table.column
    obstacle  text;
    own_shards text;
    last_shard integer;
    probe     bigint;
    least     bigint;
    greatest  bigint;
    todo      record;
    sequence  record;
    clauses   text;
    default_clause text;
    statement text;
    statements text[] := '{}';
    is_new    boolean := false;
    verb      text := CASE WHEN reverts THEN 'revert' ELSE 'adopt' END;
    sequence_name text;        -- of the one that a key goes back to
BEGIN
    IF reverts AND (relation IS NULL OR column_name IS NULL OR dry_run IS NULL) THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'relation, column_name and dry_run must not be null';
    END IF;
    IF relation IS NULL OR column_name IS NULL OR dry_run IS NULL OR column_type IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'relation, column_name, dry_run and column_type must not be null';
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    own_type := format('%s.snowflake', own)::regtype;
    IF column_type NOT IN ('bigint'::regtype, own_type) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('column_type must be snowflake or bigint, not "%s"', format_type(column_type, NULL));
    END IF;
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction USING
            MESSAGE = format('cannot %s a column during recovery', verb),
            HINT = format('Call snowflake_%s() on the primary server.', verb);
    END IF;
    SELECT c.relname, c.relkind, c.relispartition, c.relnamespace::regnamespace AS schema, c.relacl, c.relowner::regrole AS owner,
           pg_has_role(c.relowner, 'USAGE') AS is_owned
      INTO class FROM pg_class AS c WHERE c.oid = relation;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', relation::oid);
    END IF;
    IF class.relkind NOT IN ('r', 'p') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a table', class.relname);
    END IF;
    IF NOT class.is_owned THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of table %s', class.relname);
    END IF;

    -- No id comes in between the look at the greatest one and the change.
    IF NOT dry_run THEN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
    END IF;

    SELECT a.attnum, a.atttypid, a.attidentity, a.attgenerated, a.attinhcount,
           pg_get_expr(d.adbin, d.adrelid) AS value
      INTO key
      FROM pg_attribute AS a
      LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = relation AND a.attname = column_name AND NOT a.attisdropped;
    IF NOT FOUND THEN
        RAISE undefined_column USING
            MESSAGE = format('column "%s" of relation "%s" does not exist', column_name, class.relname);
    END IF;
    IF key.attnum < 0 OR key.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, own_type) THEN
        IF reverts THEN
            RAISE datatype_mismatch USING
                MESSAGE = format('column "%s" of relation "%s" holds no snowflakes', column_name, class.relname),
                DETAIL = format('It is of type %s, not snowflake or bigint.', format_type(key.atttypid, NULL));
        END IF;
        RAISE datatype_mismatch USING
            MESSAGE = format('column "%s" of table "%s" cannot become a snowflake', column_name, class.relname),
            DETAIL = format('It is of type %s, not smallint, integer or bigint.', format_type(key.atttypid, NULL));
    END IF;
    IF key.attgenerated <> '' THEN
        RAISE wrong_object_type USING
            MESSAGE = format('column "%s" of table "%s" is a generated column', column_name, class.relname),
            DETAIL = 'Its values are computed, so none can be minted for it.';
    END IF;
    IF key.attinhcount > 0 THEN
        RAISE wrong_object_type USING
            MESSAGE = format('column "%s" of table "%s" is inherited', column_name, class.relname),
            DETAIL = format('The table is %s of "%s".',
                            CASE WHEN class.relispartition THEN 'a partition' ELSE 'a child' END,
                            (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation
                              ORDER BY inhseqno LIMIT 1)),
            HINT = format('Call snowflake_%s() for the topmost table: the others change with it.', verb);
    END IF;
    FOR todo IN
        SELECT f.conname, f.confrelid::regclass AS referenced FROM pg_constraint AS f
         WHERE f.contype = 'f' AND f.conrelid = relation AND key.attnum = ANY (f.conkey)
         ORDER BY f.conname
    LOOP
        RAISE wrong_object_type USING
            MESSAGE = format('column "%s" of table "%s" refers to another key', column_name, class.relname),
            DETAIL = format('By foreign key "%s" its values come from table "%s", so none can be minted for it.',
                            todo.conname, todo.referenced),
            HINT = format('Call snowflake_%s() for the key that it refers to: this column changes with it.', verb);
    END LOOP;

    tree := ARRAY(
        WITH RECURSIVE members(oid) AS (
            SELECT relation::oid
            UNION
            SELECT i.inhrelid FROM members AS m JOIN pg_inherits AS i ON i.inhparent = m.oid)
        SELECT oid FROM members);

    -- A default is replaced if nothing is lost with it: if it is a sequence's,
    -- or mints.
    minter := format('%s.snowflake_nextval(%s)', own, CASE WHEN shard IS NOT NULL THEN 'integer' END)::regprocedure;
    call := left(format('%s.snowflake_nextval()', own)::regprocedure::text, -1);
    mint := call || coalesce(shard::text, '') || ')';
    IF reverts THEN
        -- To a sequence of its own, if the key mints; any other default stays.
        mint := NULL;
        IF starts_with(regexp_replace(key.value, '^\((.*)\)::[^()'']+$', '\1'), call) THEN
            FOR sequence IN
                SELECT q.oid::regclass AS name FROM pg_depend AS d JOIN pg_class AS q ON q.oid = d.objid AND q.relkind = 'S'
                 WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                   AND d.refobjid = relation AND d.refobjsubid = key.attnum AND d.deptype = 'a'
            LOOP
                sequence_name := sequence.name;
            END LOOP;
            -- the name that serial would have given it
            FOR n IN 0..1000 LOOP
                EXIT WHEN sequence_name IS NOT NULL AND (n = 0 OR to_regclass(sequence_name) IS NULL);
                sequence_name := format('%s.%I', class.schema,
                                        concat(left(class.relname, 28), '_', left(column_name, 28), '_seq', nullif(n, 0)));
                is_new := true;
            END LOOP;
            IF is_new THEN
                statements := ARRAY[format('CREATE SEQUENCE %s;', sequence_name)]
                    || CASE WHEN class.owner <> current_user::regrole
                            THEN ARRAY[format('ALTER SEQUENCE %s OWNER TO %s;', sequence_name, class.owner)] END
                    || ARRAY[format('ALTER SEQUENCE %s OWNED BY %s.%I;', sequence_name, relation, column_name)];
            END IF;
            -- Who may insert needs it, as nobody needs it for an id that is minted.
            statements := statements || ARRAY(
                SELECT format('GRANT USAGE ON SEQUENCE %s TO %s;', sequence_name,
                              CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
                  FROM (SELECT grantee, privilege_type FROM aclexplode(class.relacl)
                        UNION ALL SELECT b.grantee, b.privilege_type FROM pg_attribute AS a, aclexplode(a.attacl) AS b
                                   WHERE a.attrelid = relation AND NOT a.attisdropped) AS granted
                 WHERE privilege_type = 'INSERT' AND grantee <> class.owner::oid
                 GROUP BY grantee ORDER BY grantee::regrole::text);
            mint := format('nextval(%L::regclass)', sequence_name);
        END IF;
    END IF;
    FOR todo IN
        SELECT d.adrelid::regclass AS name, c.relname, pg_get_expr(d.adbin, d.adrelid) AS value
          FROM pg_attrdef AS d
          JOIN pg_attribute AS m ON m.attrelid = d.adrelid AND m.attnum = d.adnum
          JOIN pg_class AS c ON c.oid = d.adrelid
         CROSS JOIN LATERAL regexp_replace(pg_get_expr(d.adbin, d.adrelid), '^\((.*)\)::[^()'']+$', '\1') AS bare(value)
         WHERE m.attrelid = ANY (tree) AND m.attname = column_name
           AND bare.value !~ '^nextval\(\(?''([^'']|'''')*''(::text\))?::regclass\)$'
           AND NOT (starts_with(bare.value, call) AND substr(bare.value, length(call) + 1) ~ '^\d*\)$')
         ORDER BY array_position(tree, d.adrelid)
    LOOP
        EXIT WHEN reverts;
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('column "%s" of table "%s" has a default that is not a sequence''s', column_name, todo.relname),
            DETAIL = format('The default is %s.', todo.value),
            HINT = format('If new rows no longer need it, drop it first: ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT;',
                          todo.name, column_name);
    END LOOP;

    -- Citus refuses some changes of the tables that it distributes.
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT array_agg(logicalrelid::oid), '
                '       array_agg(format(''%s.%s'', logicalrelid::oid, substring(partkey FROM '':varattno (\d+)''))) '
                '  FROM pg_catalog.pg_dist_partition'
            INTO distributed, distributed_by;
    END IF;
    IF relation = ANY (distributed) AND (key.atttypid <> column_type OR key.value IS DISTINCT FROM coalesce(mint, key.value)) THEN
        obstacle := CASE
            WHEN format('%s.%s', relation::oid, key.attnum) = ANY (distributed_by)
                THEN 'the type or the default of a distribution column'
            WHEN key.attidentity <> '' THEN 'an identity column'
            WHEN key.atttypid <> column_type AND key.value ~ '::regclass' THEN 'the type of a column whose default is a sequence''s'
        END;
        IF obstacle IS NOT NULL THEN
            RAISE feature_not_supported USING
                MESSAGE = format('cannot %s column "%s" of table "%s", which Citus distributes',
                                 verb, column_name, class.relname),
                DETAIL = format('Citus does not change %s.', obstacle),
                HINT = format('Call undistribute_table(), %s the column, and distribute the table again.', verb)
                    || CASE WHEN reverts THEN '' ELSE ' Better adopt a column before its table is distributed.' END;
        END IF;
    END IF;

    IF NOT reverts THEN
        -- Will the default work?  snowflake_shard() complains where the library is
        -- not preloaded, or the layout is not the recorded one.
        EXECUTE format('SELECT %s.snowflake_shard(-1::bigint)', own) INTO last_shard;
        own_shards := current_setting('snowflake.shards');
        IF shard IS NULL AND btrim(own_shards) = '' THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = 'no shard is configured for this server',
                HINT = 'Set "snowflake.shards" to the shards that are this server''s alone, such as ''5'' or ''0-7'', '
                       'or name a shard, as in snowflake_adopt(''photos'', ''id'', 5).';
        END IF;
        IF NOT shard BETWEEN 0 AND last_shard THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('shard %s is out of range', shard),
                DETAIL = format('The layout has shards 0 to %s.', last_shard);
        END IF;
        IF shard IS NOT NULL AND own_shards ~ '^\s*auto' THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('shard %s is this server''s for the time of a lease only', shard),
                DETAIL = format('"snowflake.shards" is "%s".', own_shards),
                HINT = 'Name no shard, to mint on those that the server has leased.';
        END IF;
        IF btrim(own_shards) <> '' AND shard IS NOT NULL AND NOT EXISTS (
                SELECT FROM string_to_table(own_shards, ',') AS element,
                            regexp_match(element, '(\d+)\s*(?:-\s*(\d+))?') AS ends
                 WHERE shard BETWEEN ends[1]::bigint AND coalesce(ends[2], ends[1])::bigint) THEN
            RAISE insufficient_privilege USING
                MESSAGE = format('shard %s is not one of this server''s', shard),
                DETAIL = format('"snowflake.shards" is "%s".', own_shards),
                HINT = 'Name one of them, or none to mint on all of them.';
        END IF;
        IF NOT has_function_privilege(minter, 'EXECUTE') THEN
            RAISE insufficient_privilege USING
                MESSAGE = 'permission denied for function snowflake_nextval';
        END IF;

        -- Existing ids have to be below those of any shard from now on.  These
        -- begin with the tick of an id that is minted now, which also tries the
        -- default out.  A dry run mints nothing, and goes by the clock.  If the default
        -- stays, ids may be of this very tick.
        EXECUTE format('SELECT max(%I) FROM %s', column_name, relation) INTO greatest;
        IF dry_run THEN
            EXECUTE format('SELECT %s.snowflake_floor(clock_timestamp())', own) INTO least;
        ELSE
            EXECUTE 'SELECT ' || mint INTO probe;
            EXECUTE format('SELECT %1$s.snowflake_floor(%1$s.snowflake_timestamp($1))', own) INTO least USING probe;
        END IF;
        IF greatest >= least AND mint IS DISTINCT FROM key.value THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('column "%s" of table "%s" holds an id that is not below those to be minted',
                                 column_name, class.relname),
                DETAIL = format('Its greatest id is %s, and the least that could be minted now is %s.', greatest, least),
                HINT = 'Choose a layout (snowflake.layout) in which the existing ids lie in the past.';
        END IF;
    END IF;

    -- An identity comes off in a statement of its own, as the server wants it.
    FOR todo IN
        SELECT m.attrelid::regclass AS name FROM pg_attribute AS m
         WHERE m.attrelid = ANY (tree) AND m.attname = column_name AND m.attidentity <> ''
           -- a partition may have its parent's
           AND EXISTS (SELECT FROM pg_depend AS d
                        WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                          AND d.refobjid = m.attrelid AND d.refobjsubid = m.attnum AND d.deptype = 'i')
         ORDER BY array_position(tree, m.attrelid)
    LOOP
        EXIT WHEN reverts;
        statements := statements || format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY;', todo.name, column_name);
    END LOOP;

    -- The key and what refers to it, a table at a time, each table after those
    -- that it refers to; what refers to its own table changes along with it.
    FOR todo IN
        WITH RECURSIVE referring(relid, attname, level, path) AS (
            SELECT relation::oid, column_name, 0, ARRAY[ROW(relation::oid, column_name)::text]
            UNION ALL
            SELECT f.relid, a.attname, r.level + (f.relid <> r.relid)::integer,
                   r.path || ROW(f.relid, a.attname)::text
              FROM referring AS r
             CROSS JOIN LATERAL (SELECT relid::oid FROM pg_partition_tree(r.relid)
                                 UNION SELECT unnest(tree) WHERE r.relid = relation
                                 UNION SELECT r.relid) AS member(relid)
              JOIN pg_attribute AS k ON k.attrelid = member.relid AND k.attname = r.attname
              JOIN pg_constraint AS c ON c.contype = 'f' AND c.confrelid = member.relid
             CROSS JOIN LATERAL unnest(c.conkey, c.confkey) AS pair(attnum, referred)
              JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = pair.attnum
             CROSS JOIN LATERAL (SELECT coalesce(pg_partition_root(c.conrelid), c.conrelid)::oid) AS f(relid)
             WHERE pair.referred = k.attnum AND ROW(f.relid, a.attname)::text <> ALL (r.path)
        ), columns AS (
            SELECT relid, attname, max(level) AS level FROM referring GROUP BY relid, attname
        )
        SELECT x.relid::regclass AS name, x.attname, x.level, c.relname, a.atttypid,
               CASE WHEN reverts THEN own_type NOT IN (a.atttypid, b.typbasetype)
                    ELSE a.atttypid = column_type OR b.typtype = 'd' AND b.typbasetype IN ('bigint'::regtype, own_type) END AS is_done,
               lead(ROW(x.level, x.relid)) OVER follow IS DISTINCT FROM ROW(x.level, x.relid) AS is_last,
               -- what the server would not let the type be changed under
               concat_ws(', ',
                   CASE WHEN b.typtype = 'd' THEN 'type ' || format_type(a.atttypid, NULL) END,
                   CASE WHEN a.attinhcount > 0 THEN 'its inheritance' END,
                   CASE WHEN a.attidentity <> '' AND (x.relid, x.attname) <> (relation, column_name) THEN 'its identity' END,
                   CASE WHEN format('%s.%s', a.attrelid, a.attnum) = ANY (distributed_by)
                        THEN 'that Citus distributes by it' END,
                   CASE WHEN NOT pg_has_role(c.relowner, 'USAGE')
                        THEN 'ownership of table ' || c.relname END,
                   (SELECT string_agg(DISTINCT d.object, ', ' ORDER BY d.object)
                      FROM pg_attribute AS m
                      JOIN pg_depend AS p ON p.refclassid = 'pg_class'::regclass
                           AND p.refobjid = m.attrelid AND p.refobjsubid = m.attnum
                      LEFT JOIN pg_attrdef AS g ON p.classid = 'pg_attrdef'::regclass AND g.oid = p.objid
                     CROSS JOIN LATERAL pg_describe_object(p.classid, p.objid, p.objsubid) AS d(object)
                     WHERE m.attname = x.attname
                       AND (m.attrelid = x.relid OR x.relid = relation AND m.attrelid = ANY (tree)
                            OR m.attrelid IN (SELECT relid FROM pg_partition_tree(x.relid)))
                       AND (p.classid IN ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass,
                                          'pg_proc'::regclass, 'pg_publication_rel'::regclass)
                            OR g.adnum <> m.attnum)),
                   (SELECT string_agg('partition key of ' || d.object, ', ' ORDER BY d.object)
                      FROM pg_attribute AS m
                      JOIN pg_depend AS p ON p.classid = 'pg_class'::regclass AND p.objid = m.attrelid
                           AND p.objsubid = m.attnum AND p.refclassid = 'pg_class'::regclass
                           AND p.refobjid = m.attrelid AND p.refobjsubid = 0 AND p.deptype = 'i'
                     CROSS JOIN LATERAL pg_describe_object(p.refclassid, p.refobjid, 0) AS d(object)
                     WHERE m.attname = x.attname
                       AND (m.attrelid = x.relid OR m.attrelid IN (SELECT relid FROM pg_partition_tree(x.relid)))),
                   (SELECT string_agg(format('foreign key %s to a column of type %s', o.conname,
                                             format_type(k.atttypid, NULL)), ', ' ORDER BY o.conname)
                      FROM pg_constraint AS o
                     CROSS JOIN LATERAL unnest(o.conkey, o.confkey) AS pair(attnum, referred)
                      JOIN pg_attribute AS k ON k.attrelid = o.confrelid AND k.attnum = pair.referred
                     WHERE o.contype = 'f' AND o.conrelid = x.relid AND pair.attnum = a.attnum
                       AND k.atttypid IN ('smallint'::regtype, 'integer'::regtype)
                       AND NOT EXISTS (SELECT FROM columns AS y WHERE y.attname = k.attname
                                         AND y.relid = coalesce(pg_partition_root(o.confrelid), o.confrelid)))
               ) AS obstacle
          FROM columns AS x
          JOIN pg_class AS c ON c.oid = x.relid
          JOIN pg_attribute AS a ON a.attrelid = x.relid AND a.attname = x.attname
          JOIN pg_type AS b ON b.oid = a.atttypid
        WINDOW follow AS (ORDER BY x.level, c.relname, x.relid, a.attnum)
         ORDER BY x.level, c.relname, x.relid, a.attnum
    LOOP
        IF todo.is_done THEN
            NULL;
        ELSIF todo.obstacle = '' THEN
            clauses := concat_ws(', ', clauses, format('ALTER COLUMN %I TYPE %s', todo.attname, column_type));
        ELSIF (reverts OR todo.atttypid IN ('bigint'::regtype, own_type)) AND todo.level + (todo.attname <> column_name)::integer > 0 THEN
            RAISE NOTICE USING
                MESSAGE = format('column "%s" of table "%s" stays %s', todo.attname, todo.relname,
                                 CASE todo.atttypid WHEN own_type THEN 'snowflake' ELSE format_type(todo.atttypid, NULL) END),
                DETAIL = format('In the way of a change of its type: %s.', todo.obstacle);
        ELSE
            RAISE feature_not_supported USING
                MESSAGE = format('cannot change the type of column "%s" of table "%s"', todo.attname, todo.relname),
                DETAIL = format('In the way: %s.', todo.obstacle),
                HINT = 'Drop what is in the way, and create it again afterwards.'
                    || CASE WHEN reverts
                            THEN ' A generated column keeps its values by ALTER COLUMN ... DROP EXPRESSION. For partitions by the column see doc/install.md.'
                            WHEN todo.atttypid = 'bigint'::regtype
                            THEN format(' Or keep bigint, which mints as well: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;',
                                        todo.name, todo.attname, mint)
                            ELSE '' END;
        END IF;
        IF todo.level = 0 AND todo.attname = column_name AND mint IS DISTINCT FROM key.value AND mint IS NOT NULL THEN
            default_clause := format('ALTER COLUMN %I SET DEFAULT %s', column_name, mint);
        END IF;
        IF todo.is_last THEN
            clauses := concat_ws(', ', clauses, default_clause);
            IF clauses <> '' THEN
                statements := statements || format('ALTER TABLE %s %s;', todo.name, clauses);
            END IF;
            clauses := NULL;
            default_clause := NULL;
        END IF;
    END LOOP;

    -- The sequence that the key had for itself.
    FOR sequence IN
        SELECT s.oid::regclass AS name, EXISTS (
                   SELECT FROM pg_depend AS u
                     LEFT JOIN pg_attrdef AS e ON u.classid = 'pg_attrdef'::regclass AND e.oid = u.objid
                     LEFT JOIN pg_attribute AS o ON o.attrelid = e.adrelid AND o.attnum = e.adnum
                    WHERE u.refclassid = 'pg_class'::regclass AND u.refobjid = s.oid
                      AND (e.adrelid = ANY (tree) AND o.attname = column_name) IS NOT TRUE) AS is_shared
          FROM pg_attribute AS m
          JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass
               AND d.refobjid = m.attrelid AND d.refobjsubid = m.attnum
          JOIN pg_class AS s ON d.classid = 'pg_class'::regclass AND s.oid = d.objid AND s.relkind = 'S'
         WHERE m.attrelid = ANY (tree) AND m.attname = column_name AND d.deptype = 'a' AND NOT reverts
         ORDER BY s.relname, s.oid
    LOOP
        statements := statements
            || format(CASE WHEN sequence.is_shared THEN 'ALTER SEQUENCE %s OWNED BY NONE;' ELSE 'DROP SEQUENCE %s;' END,
                      sequence.name);
    END LOOP;

    IF sequence_name IS NOT NULL THEN
        statements := statements || format('SELECT setval(%L, max(%I)) FROM %s HAVING max(%2$I) > 0;', sequence_name, column_name, relation);
    END IF;

    FOREACH statement IN ARRAY statements LOOP
        IF NOT dry_run THEN
            EXECUTE statement;
        END IF;
        RETURN NEXT statement;
    END LOOP;
END
$$;

CREATE FUNCTION snowflake_adopt(relation regclass, column_name name, shard integer DEFAULT NULL,
        dry_run boolean DEFAULT true, column_type regtype DEFAULT 'snowflake')
    RETURNS SETOF text LANGUAGE sql VOLATILE PARALLEL UNSAFE
    BEGIN ATOMIC SELECT snowflake_change_key(relation, column_name, shard, dry_run, column_type, false); END;
CREATE FUNCTION snowflake_revert(relation regclass, column_name name, dry_run boolean DEFAULT true)
    RETURNS SETOF text LANGUAGE sql VOLATILE PARALLEL UNSAFE
    BEGIN ATOMIC SELECT snowflake_change_key(relation, column_name, NULL::integer, dry_run, 'bigint'::regtype, true); END;

COMMENT ON FUNCTION snowflake_change_key(regclass, name, integer, boolean, regtype, boolean) IS 'called by snowflake_adopt and snowflake_revert';
COMMENT ON FUNCTION snowflake_revert(regclass, name, boolean) IS 'turn a key that mints itself into a bigint with a sequence';
COMMENT ON FUNCTION snowflake_adopt(regclass, name, integer, boolean, regtype) IS 'turn a serial, identity or integer key into one that mints itself';

-- Audit: what a column holds that it should not, found in one pass.
--
-- Only reads, and leaves nothing behind, so that it works on a standby.  Being
-- STABLE, it sees all portions of the table as of its call.  A portion is so
-- many blocks of each partition and child, all read by way of the table that
-- was named, whose privileges count.  Rows are put into groups of like ones,
-- of which each finding then takes its share, so that a row is looked at once.
-- (A planner that might take a parallel plan would read the whole table
-- for each portion; with row security an audit would be one of what the caller
-- may see.)

CREATE FUNCTION snowflake_audit(relation regclass, column_name name, layout text DEFAULT NULL,
        expected_shards text DEFAULT NULL, earliest timestamptz DEFAULT NULL,
        OUT finding text, OUT ids bigint, OUT shards text,
        OUT first_id snowflake, OUT first_at timestamptz,
        OUT last_id snowflake, OUT last_at timestamptz)
    RETURNS SETOF record ROWS 6
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET row_security = off
    SET jit = off
    SET enable_tidscan = on
    SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    least_portion CONSTANT integer := 2048;     -- of blocks, 16 MB
    portions  CONSTANT integer := 20;           -- at most
    own       regnamespace;    -- the extension's schema
    class     record;          -- of the relation in pg_class
    id_type   oid;
    now       timestamptz := clock_timestamp();
    reading   text;            -- further arguments of what reads ids
    minted    text;            -- an id's time, in a comparison with a time
    compares  regnamespace;    -- the schema of that comparison's operator
    last      record;          -- the layout's last shard and sequence number
    element   text;
    range     bigint[];
    expected  int8multirange;  -- NULL: not asked for
    -- the blocks of each partition and child
    sizes     bigint[];
    portion   bigint;
    at        bigint := 0;
    place     text := '';
    -- groups of ids, by shard and by what is remarkable
    of_shard  integer[];
    is_future boolean[];
    is_early  boolean[];
    is_end    boolean[];
    counts    bigint[];
    firsts    bigint[];
    lasts     bigint[];
BEGIN
    IF relation IS NULL OR column_name IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'relation and column_name must not be null';
    END IF;
    SELECT c.relname, c.relkind INTO class FROM pg_class AS c WHERE c.oid = relation;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', relation::oid);
    END IF;
    IF class.relkind NOT IN ('r', 'p', 'm', 'v', 'f') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('"%s" is not a table or view', class.relname);
    END IF;
    SELECT a.atttypid INTO id_type FROM pg_attribute AS a
     WHERE a.attrelid = relation AND a.attname = column_name AND NOT a.attisdropped;
    IF NOT FOUND THEN
        RAISE undefined_column USING
            MESSAGE = format('column "%s" of relation "%s" does not exist', column_name, class.relname);
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    WHILE (SELECT typtype = 'd' FROM pg_type WHERE oid = id_type) LOOP
        id_type := (SELECT typbasetype FROM pg_type WHERE oid = id_type);
    END LOOP;
    IF id_type NOT IN ('bigint'::regtype, format('%s.snowflake', own)::regtype) THEN
        RAISE datatype_mismatch USING
            MESSAGE = format('column "%s" of relation "%s" holds no snowflakes', column_name, class.relname),
            DETAIL = format('It is of type %s, not snowflake or bigint.', format_type(id_type, NULL)),
            HINT = 'To audit ids that are stored otherwise, audit a view that casts them to bigint.';
    END IF;

    -- Arguments have exactly the functions' types, here and below: whoever may
    -- create functions in the extension's schema could offer a closer match.
    reading := coalesce(', ' || quote_literal(layout) || '::text', '');
    EXECUTE format('SELECT %1$s.snowflake_shard($2%2$s) AS shard, %1$s.snowflake_sequence($2%2$s) AS sequence, '
                   'coalesce($1, %1$s.snowflake_timestamp($3%2$s)) AS earliest', own, reading)
        INTO last USING earliest, -1::bigint, 0::bigint;

    -- In the server's layout the planner makes it a comparison with a bigint.
    IF layout IS NULL THEN
        minted := format('id::%1$s.snowflake::%1$s.snowflake_instant', own);
        compares := own;
    ELSE
        minted := format('%s.snowflake_timestamp(id%s)', own, reading);
        compares := 'pg_catalog'::regnamespace;
    END IF;

    -- The server's own shards mean nothing in another layout, and those that it
    -- leases by 'auto' are others every day.
    IF expected_shards IS NULL AND layout IS NULL AND current_setting('snowflake.shards') !~ '^\s*auto' THEN
        expected_shards := current_setting('snowflake.shards');
    END IF;
    FOREACH element IN ARRAY coalesce(string_to_array(nullif(btrim(expected_shards), ''), ','), '{}') LOOP
        range := regexp_match(element, '^\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?$')::bigint[];
        IF range IS NULL OR range[2] < range[1] THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('invalid list of shards "%s"', expected_shards),
                DETAIL = format('"%s" is not a shard or a range of shards.', btrim(element)),
                HINT = 'A list of shards is written as in snowflake.shards: 5, 0-7 or 1,5,9-12.';
        END IF;
        IF coalesce(range[2], range[1]) > last.shard THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('shard %s is out of range', coalesce(range[2], range[1])),
                DETAIL = format('The layout has shards 0 to %s.', last.shard);
        END IF;
        expected := coalesce(expected, '{}') + int8multirange(int8range(range[1], coalesce(range[2], range[1]), '[]'));
    END LOOP;

    -- What is no ordinary table through and through has no blocks to go by,
    -- and who may read but some columns may not name one.  Both are read in
    -- one portion.
    WITH RECURSIVE members(oid) AS (
        SELECT relation::oid
        UNION
        SELECT i.inhrelid FROM members AS m JOIN pg_inherits AS i ON i.inhparent = m.oid)
    SELECT CASE WHEN has_table_privilege(relation, 'SELECT')
                     AND bool_and(c.relkind = 'p' OR a.amname IS NOT DISTINCT FROM 'heap')
                THEN array_agg(coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint)
                     FILTER (WHERE c.relkind <> 'p') END
      INTO sizes
      FROM members
      JOIN pg_class AS c ON c.oid = members.oid
      LEFT JOIN pg_am AS a ON a.oid = c.relam;
    portion := greatest((SELECT max(size) FROM unnest(sizes) AS size) / portions + 1, least_portion);

    LOOP
        IF portion < ANY (sizes) THEN
            place := format('WHERE ctid >= ''(%s,0)''', at)
                || CASE WHEN at + portion < ANY (sizes) THEN format(' AND ctid < ''(%s,0)''', at + portion) ELSE '' END;
        END IF;
        EXECUTE format(
            'SELECT array_agg(shard), array_agg(is_future), array_agg(is_early), array_agg(is_end), '
            '       array_agg(ids), array_agg(first), array_agg(last) '
            '  FROM (SELECT shard, is_future, is_early, is_end, sum(ids)::bigint AS ids, min(first) AS first, max(last) AS last '
            '          FROM (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) '
            '                UNION ALL '
            '                SELECT %1$s.snowflake_shard(id%2$s), %6$s OPERATOR(%7$s.>) $8, '
            '                       %6$s OPERATOR(%7$s.<) $9, %1$s.snowflake_sequence(id%2$s) = $10, '
            '                       count(*), min(id), max(id) '
            '                  FROM (SELECT %3$I::bigint AS id FROM %4$s %5$s) AS portion '
            '                 GROUP BY 1, 2, 3, 4) AS part(shard, is_future, is_early, is_end, ids, first, last) '
            '         GROUP BY shard, is_future, is_early, is_end) AS seen', own, reading, column_name, relation, place,
            minted, compares)
            INTO of_shard, is_future, is_early, is_end, counts, firsts, lasts
            USING of_shard, is_future, is_early, is_end, counts, firsts, lasts, now, last.earliest, last.sequence;
        EXIT WHEN place = '';
        at := at + portion;
        RAISE NOTICE USING MESSAGE = (
            SELECT format('audited %s of %s blocks of "%s", %s%%', done, whole, class.relname, div(100 * done, whole))
              FROM (SELECT sum(least(size, at)) AS done, sum(size) AS whole FROM unnest(sizes) AS size) AS progress);
        EXIT WHEN at >= ALL (sizes);
    END LOOP;

    RETURN QUERY EXECUTE format(
        'WITH seen AS (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) '
        '                  AS seen(shard, is_future, is_early, is_end, ids, first, last)), '
        'found AS (SELECT f.place, f.finding, s.shard, sum(s.ids) AS ids, min(s.first) AS first, max(s.last) AS last, '
        '                 row_number() OVER (PARTITION BY f.place ORDER BY sum(s.ids) DESC, s.shard) AS rank '
        '            FROM (VALUES (1, ''all ids''), (2, ''null''), (3, ''in the future''), (4, ''too early''), '
        '                         (5, ''unexpected shard''), (6, ''exhausted tick'')) AS f(place, finding) '
        '            LEFT JOIN seen AS s ON CASE f.place WHEN 1 THEN s.shard IS NOT NULL WHEN 2 THEN s.shard IS NULL '
        '                                   WHEN 3 THEN s.is_future WHEN 4 THEN s.is_early '
        '                                   WHEN 5 THEN NOT s.shard::bigint <@ $8 ELSE s.is_end END '
        '           GROUP BY f.place, f.finding, s.shard) '
        'SELECT finding, CASE WHEN place <> 5 OR $8 IS NOT NULL THEN coalesce(sum(ids), 0)::bigint END, '
        '       string_agg(format(''%%s: %%s'', shard, ids), '', '' ORDER BY rank) FILTER (WHERE rank <= 5 AND shard IS NOT NULL) '
        '           || CASE WHEN count(shard) > 5 THEN format('', %%s more'', count(shard) - 5) ELSE '''' END, '
        '       min(first)::%1$s.snowflake, %1$s.snowflake_timestamp(min(first)%2$s), '
        '       max(last)::%1$s.snowflake, %1$s.snowflake_timestamp(max(last)%2$s) '
        '  FROM found GROUP BY place, finding ORDER BY place', own, reading)
        USING of_shard, is_future, is_early, is_end, counts, firsts, lasts, expected;
END
$$;

COMMENT ON FUNCTION snowflake_audit(regclass, name, text, text, timestamptz) IS 'count the ids of a column that it should not hold';

-- One question: what is wrong?  A row a finding, in the order in which one is the
-- cause of the next, and a row for each part in which nothing was found.
--
-- Being STABLE, it can neither mint nor change anything, and it works on a standby,
-- without the library in memory, and for those who may see little: what they may not
-- see, it names.  It reads catalogs, the state of the server, and of a table the
-- greatest id alone, by an index: no table is scanned, none is waited for, and no more
-- than a thousand are looked into.

CREATE FUNCTION snowflake_check(held_for interval DEFAULT '5 min', partitions_for interval DEFAULT '7 days',
        OUT area text, OUT state text, OUT finding text, OUT next_step text)
    RETURNS SETOF record ROWS 20
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
    SET lock_timeout = '200ms'
AS $$
DECLARE
    max_tables CONSTANT integer := 1000;
    own         regnamespace;  -- the extension's schema
    own_type    oid;           -- snowflake
    minters     oid[];         -- snowflake_nextval
    is_standby  boolean := pg_is_in_recovery();
    own_shards  text;
    layout      record;        -- in use
    reads       boolean := false;  -- ids in it
    message     text;
    detail      text;
    hint        text;
    status      jsonb;
    latest      timestamptz := clock_timestamp();  -- no id of this server is later
    hidden      text[] := '{}';
    unseen      integer := 0;
    looked      integer := 0;
    item        record;
    newest      bigint;
    minted_at   timestamptz;
    shard       integer;
    last_range  record;
    found_any   boolean;
BEGIN
    IF held_for IS NULL OR partitions_for IS NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'held_for and partitions_for must not be null';
    END IF;
    SELECT extnamespace INTO STRICT own FROM pg_extension WHERE extname = 'snowflake';
    own_type := format('%s.snowflake', own)::regtype;
    minters := ARRAY[format('%s.snowflake_nextval()', own)::regprocedure, format('%s.snowflake_nextval(integer)', own)::regprocedure];

    -- The library, and the layout.
    SELECT NULL::text AS name, NULL::timestamptz AS expires_at INTO layout;
    BEGIN
        EXECUTE format('SELECT * FROM %s.snowflake_layouts() WHERE in_use', own) INTO layout;
        IF layout.name IS NULL THEN
            RETURN QUERY SELECT 'preload', 'error', 'the library is not preloaded, so nothing mints, and ids are read in named layouts only',
                'Add ''snowflake'' to "shared_preload_libraries" in postgresql.conf, and restart the server.';
        ELSE
            RETURN QUERY SELECT 'preload', 'ok', 'the library is preloaded', NULL;
            reads := true;
            EXECUTE format('SELECT %s.snowflake_shard(0::bigint)', own);
            RETURN QUERY SELECT 'layout', 'ok', format('the layout is %s, as recorded', coalesce(layout.name, layout.specification)), NULL;
        END IF;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        RETURN QUERY SELECT CASE WHEN reads THEN 'layout' ELSE 'preload' END, 'error',
            concat_ws('. ', message, nullif(detail, '')), nullif(hint, '');
        reads := false;
    END;
    IF layout.expires_at < clock_timestamp() + interval '2 years' THEN
        RETURN QUERY SELECT 'expiry', CASE WHEN layout.expires_at < clock_timestamp() + interval '90 days' THEN 'error' ELSE 'warning' END,
            format('the layout expires at %s: no id can be minted afterwards', layout.expires_at),
            'Plan the change of the layout: doc/layout_plan.md.';
    ELSIF layout.name IS NOT NULL THEN
        RETURN QUERY SELECT 'expiry', 'ok', format('the layout expires at %s', layout.expires_at), NULL;
    END IF;

    IF layout.name IS NOT NULL THEN
        -- Settings.
        own_shards := current_setting('snowflake.shards', true);
        IF btrim(own_shards) = '' THEN
            RETURN QUERY SELECT 'shards', 'warning',
                'no shard is configured: snowflake_nextval() fails, and snowflake_nextval(shard) takes every shard, also another server''s',
                'Give this server shards that are its own, in postgresql.conf: snowflake.shards = ''5''';
        ELSE
            RETURN QUERY SELECT 'shards', 'ok', format('snowflake.shards is ''%s''', own_shards), NULL;
        END IF;
        RETURN QUERY SELECT 'settings', 'warning', format('%s has another value in the configuration file than in use', s.name),
                            'Restart the server, or take the value back from the file.'
                       FROM pg_settings AS s WHERE s.name LIKE 'snowflake.%' AND s.pending_restart ORDER BY s.name;

        -- The server: standby, horizon, clone.
        IF is_standby THEN
            RETURN QUERY SELECT 'standby', 'notice', 'this server is a standby: it mints nothing', 'Mint on the primary server.';
        END IF;
        IF NOT has_function_privilege(format('%s.snowflake_horizon()', own), 'EXECUTE') THEN
            hidden := hidden || ARRAY['the horizon', 'whether this is a clone'];
        ELSE
            EXECUTE format('SELECT to_jsonb(h) FROM %s.snowflake_horizon() AS h', own) INTO status;
            latest := greatest(latest, (status->>'horizon')::timestamptz);
            IF status->>'clone_of' IS NOT NULL THEN
                RETURN QUERY SELECT 'clone', CASE WHEN current_setting('snowflake.refuse_clone', true)::boolean THEN 'error' ELSE 'warning' END,
                    format('this server is a clone of %s: %s', status->>'clone_of', status->>'clone_evidence'),
                    'Give it other shards than its original''s. Then, or if the original is gone for good: SELECT snowflake_accept_clone();';
            ELSIF NOT is_standby THEN
                RETURN QUERY SELECT 'clone', 'ok', 'this server is no clone', NULL;
            END IF;
            IF status->>'last_error' IS NOT NULL THEN
                RETURN QUERY SELECT 'horizon', 'error', format('the horizon cannot be renewed: %s', status->>'last_error'),
                    'Remove the cause, such as a full disk. Minting goes on by itself then.';
            ELSIF (status->>'waiting_since')::timestamptz < clock_timestamp() - interval '5 s' THEN
                RETURN QUERY SELECT 'horizon', 'warning',
                    format('the renewal of the horizon waits for %s since %s', status->>'waiting_for', status->>'waiting_since'),
                    CASE status->>'waiting_for' WHEN 'disk' THEN 'Look at the disk of the data directory.'
                    ELSE 'Start the standbys that "synchronous_standby_names" names, or change that: SELECT * FROM pg_stat_replication;' END;
            ELSE
                RETURN QUERY SELECT 'horizon', 'ok', coalesce('the horizon is ' || (status->>'horizon'), 'nothing was minted yet'), NULL;
            END IF;
            IF NOT is_standby AND (status->>'seconds_ahead')::float8 > 1 + 2 * extract(epoch FROM current_setting('snowflake.reserve')::interval)
                                                                 + extract(epoch FROM current_setting('snowflake.clock_tolerance')::interval) THEN
                RETURN QUERY SELECT 'clock', 'error',
                    format('the clock is behind the horizon, which is %s s ahead: calls fail until it has passed', (status->>'seconds_ahead')::numeric(20, 1)),
                    'Check the clock: timedatectl. If it is right, minting begins by itself at the horizon.';
            ELSIF NOT is_standby THEN
                RETURN QUERY SELECT 'clock', 'ok', 'the clock is not behind the horizon', NULL;
            END IF;
        END IF;

        -- Leases.
        IF NOT has_function_privilege(format('%s.snowflake_lease_status()', own), 'EXECUTE') THEN
            hidden := hidden || 'the leases'::text;
        ELSE
            EXECUTE format('SELECT to_jsonb(l) FROM %s.snowflake_lease_status() AS l', own) INTO status;
            IF status->>'state' = 'off' THEN
                RETURN QUERY SELECT 'leases', CASE WHEN own_shards ~ '^\s*auto' THEN 'error' ELSE 'ok' END,
                    'no registry is used: only "snowflake.shards" keeps servers apart',
                    CASE WHEN own_shards ~ '^\s*auto' THEN 'List the shards of this server, or set "snowflake.registry".' END;
            ELSIF is_standby AND status->>'state' <> 'held' THEN
                RETURN QUERY SELECT 'leases', 'ok', 'a standby holds no lease', NULL;
            ELSIF status->>'last_error' IS NOT NULL THEN
                RETURN QUERY SELECT 'registry', CASE status->>'state' WHEN 'held' THEN 'warning' ELSE 'error' END,
                    format('%s (leases: %s, until %s)', status->>'last_error', status->>'state', coalesce(status->>'lease_until', 'none')),
                    CASE WHEN status->>'last_error' ~ 'not open'
                         THEN 'In the registry''s database: SELECT snowflake_registry_open(longest_lease); where ''0'' says that no server ever had a lease in this layout.'
                         WHEN status->>'last_error' ~ 'no extension|does not exist'
                         THEN 'Correct "dbname" in "snowflake.registry". Only if the registry is to be new, in its database: CREATE EXTENSION snowflake_registry;'
                         WHEN status->>'last_error' ~ 'permission denied'
                         THEN 'In the registry''s database, for the role in "snowflake.registry": SELECT snowflake_registry_grant(''role'');'
                         ELSE 'Check that the registry runs, and try "snowflake.registry" from this server: psql ''host=... dbname=... user=...''' END;
            ELSE
                RETURN QUERY SELECT 'leases', CASE status->>'state' WHEN 'held' THEN 'ok' ELSE 'error' END,
                    CASE status->>'state' WHEN 'held' THEN format('%s shards are leased until %s', status->>'shards', status->>'lease_until')
                                          WHEN 'none' THEN 'this server holds no lease'
                                          ELSE format('the leases ended at %s', status->>'lease_until') END,
                    CASE status->>'state' WHEN 'held' THEN NULL ELSE 'SELECT * FROM snowflake_leases(); shows the shards that others hold.' END;
            END IF;
            IF (status->>'losses')::integer > 0 THEN
                RETURN QUERY SELECT 'registry', 'error', format('the registry forgot leases of this server: %s', status->>'last_loss'),
                    'Audit the tables that have ids of that shard and time: snowflake_audit().';
            END IF;
            IF (status->>'restart_pending')::boolean THEN
                RETURN QUERY SELECT 'settings', 'warning', '"snowflake.registry" has another value in the configuration file than in use', 'Restart the server.';
            END IF;
            IF abs((status->>'clock_ahead')::float8) > 1 THEN
                RETURN QUERY SELECT 'clock', 'warning', format('the clock is %s s ahead of the registry''s', (status->>'clock_ahead')::numeric(20, 1)),
                    'Check the time synchronization of this server and of the registry''s: timedatectl';
            END IF;
            RETURN QUERY EXECUTE format('SELECT ''leases'', ''error'', format(''shard %%s is not this server''''s: %%s'', shard, holder), '
                '''Give each server shards of its own in "snowflake.shards", or set it to "auto".'' '
                '  FROM %s.snowflake_leases() WHERE NOT held ORDER BY shard LIMIT 10', own);
        END IF;

        -- What holds up those who read new rows.
        IF NOT reads OR NOT has_function_privilege(format('%s.snowflake_stat_backends()', own), 'EXECUTE') THEN
            hidden := hidden || 'sessions that hold the mark'::text;
        ELSE
            found_any := false;
            FOR item IN EXECUTE format('SELECT pid, clock_timestamp() - holding_since AS held FROM %s.snowflake_stat_backends() '
                                       ' WHERE holding_since < clock_timestamp() - $1 ORDER BY holding_since LIMIT 10', own) USING held_for LOOP
                found_any := true;
                RETURN QUERY SELECT 'mark', 'warning', format('session %s has held the mark of snowflake_settled() for %s', item.pid, item.held),
                    format('End its transaction, or: SELECT pg_terminate_backend(%s);', item.pid);
            END LOOP;
            IF NOT found_any THEN
                RETURN QUERY SELECT 'mark', 'ok', format('no session has held the mark for %s', held_for), NULL;
            END IF;
        END IF;
        RETURN QUERY SELECT 'mark', 'warning', format('prepared transaction "%s" of database "%s" is open since %s, and may hold the mark', p.gid, p.database, p.prepared),
                            format('In database "%s": COMMIT PREPARED %L; or ROLLBACK PREPARED %2$L;', p.database, p.gid)
                       FROM pg_prepared_xacts AS p WHERE p.prepared < clock_timestamp() - held_for ORDER BY p.prepared LIMIT 10;
    END IF;

    -- The columns of this database.  Partitions and children are their parents'.
    found_any := false;
    FOR item IN
        SELECT c.oid::regclass AS name, a.attname, a.atttypid, c.relkind, a.attidentity, a.atthasdef,
               d.mints, i.is_key, i.is_indexed, r.refers, s.sequence,
               has_column_privilege(c.oid, a.attnum, 'SELECT') AND NOT row_security_active(c.oid) AS is_visible
          FROM pg_class AS c
          JOIN pg_attribute AS a ON a.attrelid = c.oid
          JOIN pg_type AS t ON t.oid = a.atttypid
         CROSS JOIN LATERAL (SELECT EXISTS (
               SELECT FROM pg_attrdef AS e
                 JOIN pg_depend AS p ON p.classid = 'pg_attrdef'::regclass AND p.objid = e.oid
                WHERE e.adrelid = c.oid AND e.adnum = a.attnum
                  AND p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY (minters))) AS d(mints)
         CROSS JOIN LATERAL (
               SELECT coalesce(bool_or(x.indisprimary AND x.indnkeyatts = 1), false), coalesce(bool_or(x.indpred IS NULL AND m.amname = 'btree' AND x.indisvalid), false)
                 FROM pg_index AS x JOIN pg_class AS o ON o.oid = x.indexrelid JOIN pg_am AS m ON m.oid = o.relam
                WHERE x.indrelid = c.oid AND x.indkey[0] = a.attnum) AS i(is_key, is_indexed)
         CROSS JOIN LATERAL (SELECT EXISTS (
               SELECT FROM pg_constraint AS f WHERE f.contype = 'f' AND f.conrelid = c.oid AND a.attnum = ANY (f.conkey))) AS r(refers)
          LEFT JOIN LATERAL (
               SELECT q.oid::regclass FROM pg_depend AS p JOIN pg_class AS q ON q.oid = p.objid AND q.relkind = 'S'
                WHERE p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_class'::regclass
                  AND p.refobjid = c.oid AND p.refobjsubid = a.attnum AND p.deptype IN ('a', 'i')
                ORDER BY q.oid LIMIT 1) AS s(sequence) ON true
         WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped AND a.attinhcount = 0
           AND NOT pg_is_other_temp_schema(c.relnamespace) AND has_schema_privilege(c.relnamespace, 'USAGE')
           AND (t.oid IN (own_type, 'bigint'::regtype) OR t.typbasetype IN (own_type, 'bigint'::regtype))
           AND (own_type IN (t.oid, t.typbasetype) OR d.mints
                OR a.atttypid = 'bigint'::regtype AND i.is_key AND a.attidentity <> '')
         ORDER BY c.relpages DESC, c.oid, a.attnum
    LOOP
        IF item.refers AND item.mints THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'warning',
                format('column "%s" of table %s is a foreign key whose DEFAULT mints: a forgotten value gets an id that refers to no row', item.attname, item.name),
                format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT;', item.name, item.attname);
        ELSIF item.is_key AND NOT item.refers AND NOT item.atthasdef AND item.attidentity = '' THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'notice', format('key "%s" of table %s has no DEFAULT', item.attname, item.name),
                format('If the server is to mint it: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.snowflake_nextval();', item.name, item.attname, own);
        END IF;
        IF item.mints AND item.sequence IS NOT NULL THEN
            found_any := true;
            RETURN QUERY SELECT 'columns', 'notice', format('column "%s" of table %s mints, and still owns sequence %s', item.attname, item.name, item.sequence),
                format('If no program takes numbers from it: DROP SEQUENCE %s;', item.sequence);
        END IF;
        CONTINUE WHEN NOT reads OR item.refers OR NOT item.is_indexed;
        IF NOT item.is_visible OR looked >= max_tables THEN
            unseen := unseen + 1;
            CONTINUE;
        END IF;
        looked := looked + 1;
        BEGIN
            EXECUTE format('SELECT max(%I)::bigint FROM %s%s', item.attname, CASE item.relkind WHEN 'r' THEN 'ONLY ' END, item.name) INTO newest;
            EXECUTE format('SELECT %s.snowflake_timestamp($1)', own) INTO minted_at USING newest;
            IF item.attidentity <> '' THEN
                IF minted_at BETWEEN layout.epoch + interval '30 days' AND latest
                   AND coalesce(pg_sequence_last_value(item.sequence), 0) < newest THEN
                    found_any := true;
                    RETURN QUERY SELECT 'columns', 'warning',
                        format('column "%s" of table %s holds ids that were minted, and its identity gives numbers below them', item.attname, item.name),
                        format('SELECT snowflake_adopt(%L, %L);', item.name, item.attname);
                END IF;
            ELSIF minted_at > latest THEN
                found_any := true;
                EXECUTE format('SELECT %s.snowflake_shard($1)', own) INTO shard USING newest;
                RETURN QUERY SELECT 'columns', 'error',
                    format('the newest id of table %s is of %s, after the horizon: what is minted then on shard %s can repeat it', item.name, minted_at, shard),
                    format('SELECT * FROM snowflake_audit(%L, %L);', item.name, item.attname);
            END IF;
        EXCEPTION
            WHEN lock_not_available THEN
                unseen := unseen + 1;
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
                RETURN QUERY SELECT 'columns', 'notice', format('table %s could not be looked into: %s', item.name, message), NULL;
        END;
    END LOOP;

    -- Partitions that end soon.
    FOR item IN
        SELECT p.partrelid::regclass AS name, a.attname, b.has_default, b.last_from, b.last_to
          FROM pg_partitioned_table AS p
          JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
          JOIN pg_type AS t ON t.oid = a.atttypid
         CROSS JOIN LATERAL (
               SELECT bool_or(bound.expression = 'DEFAULT'),
                      max((regexp_match(bound.expression, ' TO \(''(-?\d+)''\)$'))[1]::bigint),
                      (array_agg((regexp_match(bound.expression, ' FROM \(''(-?\d+)''\)'))[1]::bigint
                                 ORDER BY (regexp_match(bound.expression, ' TO \(''(-?\d+)''\)$'))[1]::bigint DESC NULLS LAST))[1],
                      bool_or(bound.expression ~ ' TO \(MAXVALUE\)$')
                 FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
                CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid)) AS bound(expression)
                WHERE i.inhparent = p.partrelid) AS b(has_default, last_to, last_from, is_endless)
         WHERE reads AND p.partstrat = 'r' AND p.partnatts = 1 AND b.last_to IS NOT NULL AND NOT b.is_endless
           AND (own_type IN (t.oid, t.typbasetype) OR EXISTS (
                SELECT FROM pg_attrdef AS e JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
                 WHERE e.adrelid = a.attrelid AND e.adnum = a.attnum AND d.refclassid = 'pg_proc'::regclass AND d.refobjid = ANY (minters)))
         ORDER BY p.partrelid
    LOOP
        EXECUTE format('SELECT %1$s.snowflake_timestamp($1) AS ends, age(%1$s.snowflake_timestamp($1) AT TIME ZONE ''UTC'', '
                       '%1$s.snowflake_timestamp($2) AT TIME ZONE ''UTC'') AS step', own) INTO last_range USING item.last_to, item.last_from;
        IF last_range.ends < clock_timestamp() + partitions_for THEN
            found_any := true;
            RETURN QUERY SELECT 'partitions',
                CASE WHEN item.has_default OR last_range.ends > clock_timestamp() THEN 'warning' ELSE 'error' END,
                format('the last partition of table %s ends at %s%s', item.name, last_range.ends,
                       CASE WHEN item.has_default THEN ': later rows go into the default partition' ELSE ': later rows are refused' END),
                format('SELECT snowflake_make_partitions(%L, %L, %L, %L);', item.name, last_range.ends,
                       greatest(last_range.ends, clock_timestamp()) + partitions_for + coalesce(last_range.step, '1 day'), coalesce(last_range.step, '1 day'));
        END IF;
    END LOOP;
    IF NOT found_any THEN
        RETURN QUERY SELECT 'columns', 'ok', 'nothing was found in the id columns and partitions of this database', NULL;
    END IF;
    IF NOT reads THEN
        hidden := hidden || 'the greatest id of each table'::text;
    END IF;
    IF unseen > 0 THEN
        hidden := hidden || format('the greatest id of %s columns', unseen);
    END IF;
    IF hidden <> '{}' THEN
        RETURN QUERY SELECT 'visibility', 'notice', format('not seen: %s', array_to_string(hidden, ', ')),
            format('To see all, call it as a superuser, or as an owner of the tables in: GRANT pg_monitor TO %I;', current_user);
    END IF;
END
$$;

COMMENT ON FUNCTION snowflake_check(interval, interval) IS 'what is wrong with minting on this server and with ids in this database, and what to do';

-- The way out: what DROP EXTENSION would refuse for, or what stands in the way of the
-- statements that change it.  Like snowflake_revert(), it needs the catalogs alone, not
-- the library.

CREATE FUNCTION snowflake_dependents(OUT step integer, OUT object text, OUT statement text)
    RETURNS SETOF record ROWS 20
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
    WITH RECURSIVE own(classid, objid) AS (
        -- what DROP EXTENSION drops
        SELECT d.classid, d.objid
          FROM pg_extension AS e
          JOIN pg_depend AS d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
         WHERE e.extname = 'snowflake' AND d.deptype = 'e'
        UNION
        SELECT d.classid, d.objid
          FROM own
          JOIN pg_depend AS d ON d.refclassid = own.classid AND d.refobjid = own.objid
         WHERE d.deptype IN ('i', 'a')
    ), types(oid) AS (
        -- its types, and the domains and arrays of them
        SELECT objid FROM own WHERE classid = 'pg_type'::regclass
        UNION
        SELECT t.oid FROM types JOIN pg_type AS t ON types.oid IN (t.typbasetype, t.typelem)
    ), columns AS (
        SELECT a.attrelid, a.attnum, a.attname, a.attinhcount, c.relkind,
               CASE t.typcategory WHEN 'A' THEN 'bigint[]' ELSE 'bigint' END AS new_type,
               EXISTS (SELECT FROM pg_partitioned_table AS p
                        WHERE p.partrelid = a.attrelid AND a.attnum = ANY (p.partattrs)) AS is_partition_key
          FROM types
          JOIN pg_type AS t ON t.oid = types.oid
          JOIN pg_attribute AS a ON a.atttypid = t.oid AND NOT a.attisdropped
          JOIN pg_class AS c ON c.oid = a.attrelid
         WHERE (c.oid, 'pg_class'::regclass::oid) NOT IN (SELECT objid, classid FROM own)
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
               format(CASE relkind WHEN 'c' THEN 'ALTER TYPE %s ALTER ATTRIBUTE %I TYPE %s;' ELSE 'ALTER TABLE %s ALTER %I TYPE %s;' END,
                      attrelid::regclass, attname, new_type)
          FROM columns
         WHERE relkind IN ('r', 'p', 'f', 'c') AND attinhcount = 0 AND NOT is_partition_key
    )
    SELECT step, object, statement FROM answer ORDER BY step, object COLLATE "C"
$$;

COMMENT ON FUNCTION snowflake_dependents() IS 'what in this database uses the extension, with the statement that changes it';

-- Say what comes next.  (Which layout is in use is known only to a preloaded library.)
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM snowflake_layouts WHERE in_use) THEN
        RAISE WARNING USING MESSAGE = 'snowflake is not preloaded, so no id can be minted yet',
            HINT = 'Add "snowflake" to "shared_preload_libraries" in postgresql.conf and restart the server.';
    END IF;
END
$$;
