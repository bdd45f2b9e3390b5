/* snowflake--1.0.sql, put together of the files in sql/snowflake */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

-- In every extension of this project: a script, and what it makes, look names up in
-- pg_catalog alone, and name each object of their own by its schema.  So nobody who
-- may create objects anywhere else can put one in the place of another, as a script
-- may run with more rights than he has.  The server puts the schema in the place of its
-- variable while the script runs; no comment has that, as a name may have a line break.  Whatever is kept as text has to look it up in pg_extension
-- each time, since a schema can be renamed; whatever is parsed now (BEGIN ATOMIC,
-- views, defaults) is kept by its oid.  test/t/097_bound_names.pl checks it.

SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_class WHERE relname = 'snowflake_plain' AND relnamespace = '@extschema@'::regnamespace) THEN
        RAISE duplicate_object USING
            MESSAGE = 'snowflake_plain is in schema @extschema@, with functions of the same names',
            HINT = 'Create the extension in another schema: CREATE EXTENSION snowflake SCHEMA other. Then let the columns call its functions.';
    END IF;
END
$$;

-- The type: to bigint what varchar is to text.  Bit for bit a bigint, read and
-- written by bigint's own functions, compared and indexed by bigint's own
-- operators, which it reaches through an implicit cast that costs nothing.

CREATE TYPE @extschema@.snowflake;

CREATE FUNCTION @extschema@.snowflake_in(cstring) RETURNS @extschema@.snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8in';
CREATE FUNCTION @extschema@.snowflake_out(@extschema@.snowflake) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8out';
CREATE FUNCTION @extschema@.snowflake_recv(internal) RETURNS @extschema@.snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8recv';
CREATE FUNCTION @extschema@.snowflake_send(@extschema@.snowflake) RETURNS bytea
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8send';

CREATE TYPE @extschema@.snowflake (
    INPUT = @extschema@.snowflake_in,
    OUTPUT = @extschema@.snowflake_out,
    RECEIVE = @extschema@.snowflake_recv,
    SEND = @extschema@.snowflake_send,
    LIKE = pg_catalog.int8,
    CATEGORY = 'N'
);

COMMENT ON TYPE @extschema@.snowflake IS '64-bit, time-ordered id; a bigint in all but name';
COMMENT ON FUNCTION @extschema@.snowflake_in(cstring) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION @extschema@.snowflake_out(@extschema@.snowflake) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION @extschema@.snowflake_recv(internal) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION @extschema@.snowflake_send(@extschema@.snowflake) IS 'I/O: bigint''s own';

-- No cast into snowflake is implicit: one would let any bigint of the database
-- be compared with a time.

CREATE FUNCTION @extschema@.snowflake(smallint) RETURNS @extschema@.snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'int28';
CREATE FUNCTION @extschema@.snowflake(integer) RETURNS @extschema@.snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'int48';
CREATE FUNCTION @extschema@.snowflake(numeric) RETURNS @extschema@.snowflake
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'numeric_int8';

CREATE CAST (@extschema@.snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (bigint AS @extschema@.snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (smallint AS @extschema@.snowflake) WITH FUNCTION @extschema@.snowflake(smallint) AS ASSIGNMENT;
CREATE CAST (integer AS @extschema@.snowflake) WITH FUNCTION @extschema@.snowflake(integer) AS ASSIGNMENT;
CREATE CAST (numeric AS @extschema@.snowflake) WITH FUNCTION @extschema@.snowflake(numeric) AS ASSIGNMENT;

COMMENT ON FUNCTION @extschema@.snowflake(smallint) IS 'convert smallint to snowflake';
COMMENT ON FUNCTION @extschema@.snowflake(integer) IS 'convert integer to snowflake';
COMMENT ON FUNCTION @extschema@.snowflake(numeric) IS 'convert numeric to snowflake, rounding';
COMMENT ON CAST (@extschema@.snowflake AS bigint) IS 'the same 64 bits; lends snowflake all operators of bigint';
COMMENT ON CAST (bigint AS @extschema@.snowflake) IS 'the same 64 bits, on assignment';
COMMENT ON CAST (smallint AS @extschema@.snowflake) IS 'on assignment';
COMMENT ON CAST (integer AS @extschema@.snowflake) IS 'on assignment';
COMMENT ON CAST (numeric AS @extschema@.snowflake) IS 'on assignment';

-- Taking ids apart.  Ids are read as bigint, so that snowflake columns, bigint
-- columns, literals and quoted text all fit.  Without a layout, that of
-- the server is meant, which is fixed while the server runs.

CREATE FUNCTION @extschema@.snowflake_timestamp(id bigint) RETURNS timestamptz
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp';
CREATE FUNCTION @extschema@.snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_timestamp';

CREATE FUNCTION @extschema@.snowflake_shard(id bigint) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard';
CREATE FUNCTION @extschema@.snowflake_shard(id bigint, layout text) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard';

CREATE FUNCTION @extschema@.snowflake_sequence(id bigint) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_sequence';
CREATE FUNCTION @extschema@.snowflake_sequence(id bigint, layout text) RETURNS integer
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_sequence';

CREATE FUNCTION @extschema@.snowflake_decode_support(internal) RETURNS internal
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_decode_support';

CREATE FUNCTION @extschema@.snowflake_decode(id bigint,
        OUT created_at timestamptz, OUT shard integer, OUT sequence integer)
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_decode_support AS 'MODULE_PATHNAME', 'snowflake_decode';
CREATE FUNCTION @extschema@.snowflake_decode(id bigint, layout text,
        OUT created_at timestamptz, OUT shard integer, OUT sequence integer)
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_decode_support AS 'MODULE_PATHNAME', 'snowflake_decode';

CREATE FUNCTION @extschema@.snowflake_fields(id bigint,
        OUT field text, OUT bits integer, OUT shift integer, OUT value bigint, OUT meaning text)
    RETURNS SETOF record ROWS 4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_fields';
CREATE FUNCTION @extschema@.snowflake_fields(id bigint, layout text,
        OUT field text, OUT bits integer, OUT shift integer, OUT value bigint, OUT meaning text)
    RETURNS SETOF record ROWS 4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_fields';

CREATE CAST (@extschema@.snowflake AS timestamptz) WITH FUNCTION @extschema@.snowflake_timestamp(bigint);

COMMENT ON CAST (@extschema@.snowflake AS timestamptz) IS 'the time of minting, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_timestamp(bigint) IS 'time of an id''s minting, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_timestamp(bigint, text) IS 'time of an id''s minting, in a given layout';
COMMENT ON FUNCTION @extschema@.snowflake_shard(bigint) IS 'shard of an id, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_shard(bigint, text) IS 'shard of an id, in a given layout';
COMMENT ON FUNCTION @extschema@.snowflake_sequence(bigint) IS 'sequence number of an id within its tick and shard, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_sequence(bigint, text) IS 'sequence number of an id within its tick and shard, in a given layout';
COMMENT ON FUNCTION @extschema@.snowflake_decode(bigint) IS 'time, shard and sequence number of an id, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_decode(bigint, text) IS 'time, shard and sequence number of an id, in a given layout';
COMMENT ON FUNCTION @extschema@.snowflake_decode_support(internal) IS 'planner support of snowflake_decode';
COMMENT ON FUNCTION @extschema@.snowflake_fields(bigint) IS 'fields of an id explained, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_fields(bigint, text) IS 'fields of an id explained, in a given layout';

-- Putting ids together.

CREATE FUNCTION @extschema@.snowflake_encode(created_at timestamptz, shard integer, sequence integer)
    RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_encode';
CREATE FUNCTION @extschema@.snowflake_encode(created_at timestamptz, shard integer, sequence integer, layout text)
    RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_encode';

CREATE FUNCTION @extschema@.snowflake_floor(ts timestamptz) RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_floor';
CREATE FUNCTION @extschema@.snowflake_floor(ts timestamptz, layout text) RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_floor';

CREATE FUNCTION @extschema@.snowflake_ceil(ts timestamptz) RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_ceil';
CREATE FUNCTION @extschema@.snowflake_ceil(ts timestamptz, layout text) RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_ceil';

CREATE FUNCTION @extschema@.snowflake_layouts(
        OUT name text, OUT in_use boolean, OUT epoch timestamptz, OUT tick interval,
        OUT fields text, OUT shards bigint, OUT capacity bigint, OUT expires_at timestamptz,
        OUT specification text, OUT source text)
    RETURNS SETOF record ROWS 9
    LANGUAGE C STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_layouts';

CREATE VIEW @extschema@.snowflake_layouts AS SELECT * FROM @extschema@.snowflake_layouts();
GRANT SELECT ON @extschema@.snowflake_layouts TO PUBLIC;

COMMENT ON FUNCTION @extschema@.snowflake_encode(timestamptz, integer, integer) IS 'id of a time, shard and sequence number, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_encode(timestamptz, integer, integer, text) IS 'id of a time, shard and sequence number, in a given layout';
COMMENT ON FUNCTION @extschema@.snowflake_floor(timestamptz) IS 'least id of a time''s tick, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_floor(timestamptz, text) IS 'least id of a time''s tick, in a given layout';
COMMENT ON FUNCTION @extschema@.snowflake_ceil(timestamptz) IS 'greatest id of a time''s tick, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_ceil(timestamptz, text) IS 'greatest id of a time''s tick, in a given layout';
COMMENT ON FUNCTION @extschema@.snowflake_layouts() IS 'the preset layouts and the server''s own';
COMMENT ON VIEW @extschema@.snowflake_layouts IS 'the preset layouts and the server''s own';

-- Comparing ids with times: exactly snowflake_timestamp(id) OPERATOR time.  The
-- operators are on a type of their own, an id seen as its time, to which
-- snowflake casts implicitly: on snowflake itself they would match a quoted
-- literal or an untyped parameter more exactly than bigint's operators do.

CREATE TYPE @extschema@.snowflake_instant;

CREATE FUNCTION @extschema@.snowflake_instant_in(cstring) RETURNS @extschema@.snowflake_instant
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8in';
CREATE FUNCTION @extschema@.snowflake_instant_out(@extschema@.snowflake_instant) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int8out';

CREATE TYPE @extschema@.snowflake_instant (
    INPUT = @extschema@.snowflake_instant_in,
    OUTPUT = @extschema@.snowflake_instant_out,
    LIKE = pg_catalog.int8,
    CATEGORY = 'U'
);

CREATE CAST (@extschema@.snowflake AS @extschema@.snowflake_instant) WITHOUT FUNCTION AS IMPLICIT;

CREATE FUNCTION @extschema@.snowflake_last_before(ts timestamptz) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_last_before';
CREATE FUNCTION @extschema@.snowflake_last_until(ts timestamptz) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_last_until';
CREATE FUNCTION @extschema@.snowflake_time_support(internal) RETURNS internal
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_support';

CREATE FUNCTION @extschema@.snowflake_lt_time(@extschema@.snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_lt_time';
CREATE FUNCTION @extschema@.snowflake_time_lt(timestamptz, @extschema@.snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_lt';
CREATE FUNCTION @extschema@.snowflake_le_time(@extschema@.snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_le_time';
CREATE FUNCTION @extschema@.snowflake_time_le(timestamptz, @extschema@.snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_le';
CREATE FUNCTION @extschema@.snowflake_eq_time(@extschema@.snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_eq_time';
CREATE FUNCTION @extschema@.snowflake_time_eq(timestamptz, @extschema@.snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_eq';
CREATE FUNCTION @extschema@.snowflake_ne_time(@extschema@.snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_ne_time';
CREATE FUNCTION @extschema@.snowflake_time_ne(timestamptz, @extschema@.snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_time_ne';
CREATE FUNCTION @extschema@.snowflake_ge_time(@extschema@.snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_ge_time';
CREATE FUNCTION @extschema@.snowflake_time_ge(timestamptz, @extschema@.snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_ge';
CREATE FUNCTION @extschema@.snowflake_gt_time(@extschema@.snowflake_instant, timestamptz) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_gt_time';
CREATE FUNCTION @extschema@.snowflake_time_gt(timestamptz, @extschema@.snowflake_instant) RETURNS boolean
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT @extschema@.snowflake_time_support AS 'MODULE_PATHNAME', 'snowflake_time_gt';

CREATE OPERATOR @extschema@.< (LEFTARG = @extschema@.snowflake_instant, RIGHTARG = timestamptz, FUNCTION = @extschema@.snowflake_lt_time,
    COMMUTATOR = OPERATOR(@extschema@.>), NEGATOR = OPERATOR(@extschema@.>=));
CREATE OPERATOR @extschema@.< (LEFTARG = timestamptz, RIGHTARG = @extschema@.snowflake_instant, FUNCTION = @extschema@.snowflake_time_lt,
    COMMUTATOR = OPERATOR(@extschema@.>), NEGATOR = OPERATOR(@extschema@.>=));
CREATE OPERATOR @extschema@.<= (LEFTARG = @extschema@.snowflake_instant, RIGHTARG = timestamptz, FUNCTION = @extschema@.snowflake_le_time,
    COMMUTATOR = OPERATOR(@extschema@.>=), NEGATOR = OPERATOR(@extschema@.>));
CREATE OPERATOR @extschema@.<= (LEFTARG = timestamptz, RIGHTARG = @extschema@.snowflake_instant, FUNCTION = @extschema@.snowflake_time_le,
    COMMUTATOR = OPERATOR(@extschema@.>=), NEGATOR = OPERATOR(@extschema@.>));
CREATE OPERATOR @extschema@.= (LEFTARG = @extschema@.snowflake_instant, RIGHTARG = timestamptz, FUNCTION = @extschema@.snowflake_eq_time,
    COMMUTATOR = OPERATOR(@extschema@.=), NEGATOR = OPERATOR(@extschema@.<>));
CREATE OPERATOR @extschema@.= (LEFTARG = timestamptz, RIGHTARG = @extschema@.snowflake_instant, FUNCTION = @extschema@.snowflake_time_eq,
    COMMUTATOR = OPERATOR(@extschema@.=), NEGATOR = OPERATOR(@extschema@.<>));
CREATE OPERATOR @extschema@.<> (LEFTARG = @extschema@.snowflake_instant, RIGHTARG = timestamptz, FUNCTION = @extschema@.snowflake_ne_time,
    COMMUTATOR = OPERATOR(@extschema@.<>), NEGATOR = OPERATOR(@extschema@.=));
CREATE OPERATOR @extschema@.<> (LEFTARG = timestamptz, RIGHTARG = @extschema@.snowflake_instant, FUNCTION = @extschema@.snowflake_time_ne,
    COMMUTATOR = OPERATOR(@extschema@.<>), NEGATOR = OPERATOR(@extschema@.=));
CREATE OPERATOR @extschema@.>= (LEFTARG = @extschema@.snowflake_instant, RIGHTARG = timestamptz, FUNCTION = @extschema@.snowflake_ge_time,
    COMMUTATOR = OPERATOR(@extschema@.<=), NEGATOR = OPERATOR(@extschema@.<));
CREATE OPERATOR @extschema@.>= (LEFTARG = timestamptz, RIGHTARG = @extschema@.snowflake_instant, FUNCTION = @extschema@.snowflake_time_ge,
    COMMUTATOR = OPERATOR(@extschema@.<=), NEGATOR = OPERATOR(@extschema@.<));
CREATE OPERATOR @extschema@.> (LEFTARG = @extschema@.snowflake_instant, RIGHTARG = timestamptz, FUNCTION = @extschema@.snowflake_gt_time,
    COMMUTATOR = OPERATOR(@extschema@.<), NEGATOR = OPERATOR(@extschema@.<=));
CREATE OPERATOR @extschema@.> (LEFTARG = timestamptz, RIGHTARG = @extschema@.snowflake_instant, FUNCTION = @extschema@.snowflake_time_gt,
    COMMUTATOR = OPERATOR(@extschema@.<), NEGATOR = OPERATOR(@extschema@.<=));

COMMENT ON TYPE @extschema@.snowflake_instant IS 'an id seen as its time; not meant to be named';
COMMENT ON FUNCTION @extschema@.snowflake_instant_in(cstring) IS 'I/O: bigint''s own';
COMMENT ON FUNCTION @extschema@.snowflake_instant_out(@extschema@.snowflake_instant) IS 'I/O: bigint''s own';
COMMENT ON CAST (@extschema@.snowflake AS @extschema@.snowflake_instant) IS 'lends snowflake the operators with timestamptz';
COMMENT ON FUNCTION @extschema@.snowflake_last_before(timestamptz) IS 'last id of a time before the given one';
COMMENT ON FUNCTION @extschema@.snowflake_last_until(timestamptz) IS 'last id of the given time or one before it';
COMMENT ON FUNCTION @extschema@.snowflake_time_support(internal) IS 'planner support of the operators between ids and times';
COMMENT ON FUNCTION @extschema@.snowflake_lt_time(@extschema@.snowflake_instant, timestamptz) IS 'implementation of < operator';
COMMENT ON FUNCTION @extschema@.snowflake_time_lt(timestamptz, @extschema@.snowflake_instant) IS 'implementation of < operator';
COMMENT ON OPERATOR @extschema@.< (@extschema@.snowflake_instant, timestamptz) IS 'id was minted before the time';
COMMENT ON OPERATOR @extschema@.< (timestamptz, @extschema@.snowflake_instant) IS 'id was minted after the time';
COMMENT ON FUNCTION @extschema@.snowflake_le_time(@extschema@.snowflake_instant, timestamptz) IS 'implementation of <= operator';
COMMENT ON FUNCTION @extschema@.snowflake_time_le(timestamptz, @extschema@.snowflake_instant) IS 'implementation of <= operator';
COMMENT ON OPERATOR @extschema@.<= (@extschema@.snowflake_instant, timestamptz) IS 'id was minted at or before the time';
COMMENT ON OPERATOR @extschema@.<= (timestamptz, @extschema@.snowflake_instant) IS 'id was minted at or after the time';
COMMENT ON FUNCTION @extschema@.snowflake_eq_time(@extschema@.snowflake_instant, timestamptz) IS 'implementation of = operator';
COMMENT ON FUNCTION @extschema@.snowflake_time_eq(timestamptz, @extschema@.snowflake_instant) IS 'implementation of = operator';
COMMENT ON OPERATOR @extschema@.= (@extschema@.snowflake_instant, timestamptz) IS 'id was minted at the time';
COMMENT ON OPERATOR @extschema@.= (timestamptz, @extschema@.snowflake_instant) IS 'id was minted at the time';
COMMENT ON FUNCTION @extschema@.snowflake_ne_time(@extschema@.snowflake_instant, timestamptz) IS 'implementation of <> operator';
COMMENT ON FUNCTION @extschema@.snowflake_time_ne(timestamptz, @extschema@.snowflake_instant) IS 'implementation of <> operator';
COMMENT ON OPERATOR @extschema@.<> (@extschema@.snowflake_instant, timestamptz) IS 'id was minted not at the time';
COMMENT ON OPERATOR @extschema@.<> (timestamptz, @extschema@.snowflake_instant) IS 'id was minted not at the time';
COMMENT ON FUNCTION @extschema@.snowflake_ge_time(@extschema@.snowflake_instant, timestamptz) IS 'implementation of >= operator';
COMMENT ON FUNCTION @extschema@.snowflake_time_ge(timestamptz, @extschema@.snowflake_instant) IS 'implementation of >= operator';
COMMENT ON OPERATOR @extschema@.>= (@extschema@.snowflake_instant, timestamptz) IS 'id was minted at or after the time';
COMMENT ON OPERATOR @extschema@.>= (timestamptz, @extschema@.snowflake_instant) IS 'id was minted at or before the time';
COMMENT ON FUNCTION @extschema@.snowflake_gt_time(@extschema@.snowflake_instant, timestamptz) IS 'implementation of > operator';
COMMENT ON FUNCTION @extschema@.snowflake_time_gt(timestamptz, @extschema@.snowflake_instant) IS 'implementation of > operator';
COMMENT ON OPERATOR @extschema@.> (@extschema@.snowflake_instant, timestamptz) IS 'id was minted after the time';
COMMENT ON OPERATOR @extschema@.> (timestamptz, @extschema@.snowflake_instant) IS 'id was minted before the time';

-- Hash partitions by shard: shard s belongs to remainder s % modulus.  For
-- bigint, so that plain bigint columns have it too.

CREATE FUNCTION @extschema@.snowflake_shard_hash(id bigint, seed bigint) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_hash';

CREATE OPERATOR CLASS @extschema@.snowflake_shard_ops FOR TYPE bigint USING hash AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashint8(bigint),
    FUNCTION 2 @extschema@.snowflake_shard_hash(bigint, bigint);

-- Small literals are integers, and compare with ids by operators of their own.  No
-- partition key is one: their hashes find partitions to leave out.  In C, as a function
-- in SQL would call another, which a role that reads the table may have no right to.
CREATE FUNCTION @extschema@.snowflake_shard_hash(id integer, seed bigint) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_hash_int4';
CREATE FUNCTION @extschema@.snowflake_shard_hash(id smallint, seed bigint) RETURNS bigint
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_shard_hash_int2';

ALTER OPERATOR FAMILY @extschema@.snowflake_shard_ops USING hash ADD
    OPERATOR 1 pg_catalog.= (bigint, integer),
    OPERATOR 1 pg_catalog.= (bigint, smallint),
    OPERATOR 1 pg_catalog.= (integer, bigint),
    OPERATOR 1 pg_catalog.= (smallint, bigint),
    OPERATOR 1 pg_catalog.= (integer, integer),
    OPERATOR 1 pg_catalog.= (integer, smallint),
    OPERATOR 1 pg_catalog.= (smallint, integer),
    OPERATOR 1 pg_catalog.= (smallint, smallint),
    FUNCTION 1 (integer, integer) pg_catalog.hashint4(integer),
    FUNCTION 2 (integer, integer) @extschema@.snowflake_shard_hash(integer, bigint),
    FUNCTION 1 (smallint, smallint) pg_catalog.hashint2(smallint),
    FUNCTION 2 (smallint, smallint) @extschema@.snowflake_shard_hash(smallint, bigint);

COMMENT ON FUNCTION @extschema@.snowflake_shard_hash(bigint, bigint) IS 'hash support of snowflake_shard_ops';
COMMENT ON FUNCTION @extschema@.snowflake_shard_hash(integer, bigint) IS 'hash support of snowflake_shard_ops';
COMMENT ON FUNCTION @extschema@.snowflake_shard_hash(smallint, bigint) IS 'hash support of snowflake_shard_ops';
COMMENT ON OPERATOR CLASS @extschema@.snowflake_shard_ops USING hash IS 'hash partitions by shard: shard s in remainder s % modulus';
COMMENT ON OPERATOR FAMILY @extschema@.snowflake_shard_ops USING hash IS 'hash partitions by shard';

-- Minting.  If a DEFAULT is volatile, COPY inserts row by row.  So the planner
-- support function puts snowflake_copy_nextval(), which is STABLE, in the place
-- of snowflake_nextval(), for COPY alone.  No SQL can call it, because no SQL has
-- a value of type internal.  See src/copy_from.c.

CREATE FUNCTION @extschema@.snowflake_nextval_support(internal) RETURNS internal
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_nextval(shard integer) RETURNS @extschema@.snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED SUPPORT @extschema@.snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval_shard';
CREATE FUNCTION @extschema@.snowflake_nextval() RETURNS @extschema@.snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED SUPPORT @extschema@.snowflake_nextval_support AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_lastval() RETURNS @extschema@.snowflake
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_settled() RETURNS @extschema@.snowflake
    LANGUAGE C STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_settled(shards text) RETURNS @extschema@.snowflake
    LANGUAGE C STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_wait_settled(after bigint, timeout interval) RETURNS boolean
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_wait_settled(after bigint, timeout interval, shards text) RETURNS boolean
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_copy_nextval(original internal, shard integer) RETURNS @extschema@.snowflake
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_copy_nextval(original internal) RETURNS @extschema@.snowflake
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION @extschema@.snowflake_nextval(integer) IS 'mint an id on a shard';
COMMENT ON FUNCTION @extschema@.snowflake_nextval() IS 'mint an id on this server''s own shards (snowflake.shards)';
COMMENT ON FUNCTION @extschema@.snowflake_lastval() IS 'last id minted in this session';
COMMENT ON FUNCTION @extschema@.snowflake_settled() IS 'every row with an id below this one is already visible to the statement';
COMMENT ON FUNCTION @extschema@.snowflake_settled(text) IS 'likewise of the rows with ids on these shards, such as ''0-7''';
COMMENT ON FUNCTION @extschema@.snowflake_wait_settled(bigint, interval) IS 'wait until the mark of snowflake_settled() has passed an id';
COMMENT ON FUNCTION @extschema@.snowflake_wait_settled(bigint, interval, text) IS 'wait until the mark of snowflake_settled(shards) has passed an id';
COMMENT ON FUNCTION @extschema@.snowflake_copy_nextval(internal) IS 'what COPY calls in place of snowflake_nextval()';
COMMENT ON FUNCTION @extschema@.snowflake_copy_nextval(internal, integer) IS 'what COPY calls in place of snowflake_nextval(integer)';
COMMENT ON FUNCTION @extschema@.snowflake_nextval_support(internal) IS 'planner support of snowflake_nextval';

-- Ids for rows that exist, by the minting rule applied to the past.  Not STRICT,
-- because the server does not look at that for a window function: it refuses NULL
-- itself.

CREATE FUNCTION @extschema@.snowflake_history(created_at timestamptz, shard integer) RETURNS @extschema@.snowflake WINDOW
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_history';
CREATE FUNCTION @extschema@.snowflake_history(created_at timestamptz, shard integer, layout text) RETURNS @extschema@.snowflake WINDOW
    LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_history';

COMMENT ON FUNCTION @extschema@.snowflake_history(timestamptz, integer) IS 'id for a row that exists, with its time, in the server''s layout';
COMMENT ON FUNCTION @extschema@.snowflake_history(timestamptz, integer, text) IS 'id for a row that exists, with its time, in a given layout';

-- Durability and identity: the time up to which ids may be minted, as it is on
-- disk, and which server wrote it.

CREATE FUNCTION @extschema@.snowflake_horizon(
        OUT horizon timestamptz, OUT seconds_ahead double precision,
        OUT last_renewal timestamptz, OUT last_error text,
        OUT waiting_for text, OUT waiting_since timestamptz,
        OUT incarnation text, OUT clone_of text, OUT clone_evidence text, OUT state text)
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_probe(area text) RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_store_layout() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_accept_clone() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';

REVOKE EXECUTE ON FUNCTION @extschema@.snowflake_horizon(), @extschema@.snowflake_store_layout(), @extschema@.snowflake_accept_clone() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.snowflake_horizon() TO pg_monitor;

COMMENT ON FUNCTION @extschema@.snowflake_horizon() IS 'time up to which ids may be minted, as it is on disk, which server stored it, and what hinders minting';
COMMENT ON FUNCTION @extschema@.snowflake_probe(text) IS 'called by snowflake_check';
COMMENT ON FUNCTION @extschema@.snowflake_store_layout() IS 'called by snowflake_accept_layout';
COMMENT ON FUNCTION @extschema@.snowflake_accept_clone() IS 'go on minting on a server that was found to be a clone';

-- Statistics.  They are for roles that may monitor the server, since they show
-- what was minted and when.  A view calls its functions with the rights of the
-- role that reads it, hence the grants on both.

CREATE FUNCTION @extschema@.snowflake_stat_shards(OUT shard integer, OUT minted bigint, OUT exhausted bigint,
    OUT clock_behind bigint, OUT waited interval, OUT last_id @extschema@.snowflake,
    OUT last_minted_at timestamptz, OUT stats_reset timestamptz)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10 AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_stat_backends(OUT pid integer, OUT shard integer, OUT last_id @extschema@.snowflake,
    OUT minted bigint, OUT waits bigint, OUT waited interval,
    OUT holding_since timestamptz, OUT oldest_id @extschema@.snowflake, OUT holding_shard integer)
    RETURNS SETOF record
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 100 AS 'MODULE_PATHNAME';
CREATE FUNCTION @extschema@.snowflake_stat_reset() RETURNS void
    LANGUAGE C VOLATILE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';

CREATE VIEW @extschema@.pg_stat_snowflake AS SELECT * FROM @extschema@.snowflake_stat_shards();
CREATE VIEW @extschema@.pg_stat_snowflake_backends AS SELECT * FROM @extschema@.snowflake_stat_backends();

-- A transaction that is prepared has advisory locks of kinds of their own: the key of one
-- is the time at which it holds the mark, that of another the shard, and that of a third
-- the time for other shards: see src/mark.c.
CREATE VIEW @extschema@.snowflake_unsettled AS
WITH locks AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks)
SELECT a.datname AS database, b.pid, NULL::text AS gid, a.usename AS "user", a.application_name,
       b.holding_since AS since, b.oldest_id, b.holding_shard AS shard
  FROM @extschema@.pg_stat_snowflake_backends b JOIN pg_catalog.pg_stat_activity a USING (pid)
 WHERE b.holding_since IS NOT NULL
UNION ALL
SELECT p.database, NULL, p.gid, p.owner, NULL,
       timestamptz '2000-01-01 00:00:00+00'
           + (mark.classid::bigint << 32 | mark.objid::bigint) * interval '1 microsecond', NULL,
       (SELECT pg_catalog.min(one.objid::bigint)::integer FROM locks AS one
         WHERE one.virtualtransaction = mark.virtualtransaction AND one.locktype = 'advisory' AND one.pid IS NULL
           AND one.objsubid IN (24347, 24348)
        HAVING pg_catalog.max(one.objsubid) = 24347)
  FROM locks AS mark
  JOIN locks AS own ON own.locktype = 'transactionid' AND own.mode = 'ExclusiveLock' AND own.pid IS NULL
       AND own.virtualtransaction = mark.virtualtransaction
  JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = own.transactionid
 WHERE mark.locktype = 'advisory' AND mark.objsubid = 24346 AND mark.pid IS NULL;

REVOKE ALL ON FUNCTION @extschema@.snowflake_stat_shards(), @extschema@.snowflake_stat_backends(), @extschema@.snowflake_stat_reset() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.snowflake_stat_shards(), @extschema@.snowflake_stat_backends() TO pg_monitor;
GRANT SELECT ON @extschema@.pg_stat_snowflake, @extschema@.pg_stat_snowflake_backends, @extschema@.snowflake_unsettled TO pg_monitor;

COMMENT ON FUNCTION @extschema@.snowflake_stat_shards() IS 'statistics of shards: see the view pg_stat_snowflake';
COMMENT ON FUNCTION @extschema@.snowflake_stat_backends() IS 'statistics of sessions: see the view pg_stat_snowflake_backends';
COMMENT ON FUNCTION @extschema@.snowflake_stat_reset() IS 'set the counters of pg_stat_snowflake to 0';
COMMENT ON VIEW @extschema@.pg_stat_snowflake IS 'what each shard has minted, and how its calls waited';
COMMENT ON VIEW @extschema@.pg_stat_snowflake_backends IS 'what each live session has minted, and how it waited';
COMMENT ON VIEW @extschema@.snowflake_unsettled IS 'transactions, of sessions or prepared, that hold the mark of snowflake_settled()';

-- Short texts for URLs.  All of a form have one length, and from id 0 up they
-- sort as the ids do under COLLATE "C".

CREATE FUNCTION @extschema@.snowflake_to_base32(id bigint) RETURNS text
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'snowflake_to_base32';
CREATE FUNCTION @extschema@.snowflake_from_base32(id text) RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_base32';

CREATE FUNCTION @extschema@.snowflake_to_base58(id bigint) RETURNS text
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'snowflake_to_base58';
CREATE FUNCTION @extschema@.snowflake_from_base58(id text) RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_base58';

CREATE FUNCTION @extschema@.snowflake_to_base62(id bigint) RETURNS text
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'snowflake_to_base62';
CREATE FUNCTION @extschema@.snowflake_from_base62(id text) RETURNS @extschema@.snowflake
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'snowflake_from_base62';

COMMENT ON FUNCTION @extschema@.snowflake_to_base32(bigint) IS 'id as 13 characters in Crockford''s base32';
COMMENT ON FUNCTION @extschema@.snowflake_from_base32(text) IS 'id from 13 characters in Crockford''s base32';
COMMENT ON FUNCTION @extschema@.snowflake_to_base58(bigint) IS 'id as 11 characters in Bitcoin''s base58';
COMMENT ON FUNCTION @extschema@.snowflake_from_base58(text) IS 'id from 11 characters in Bitcoin''s base58';
COMMENT ON FUNCTION @extschema@.snowflake_to_base62(bigint) IS 'id as 11 characters in base62, 0-9A-Za-z';
COMMENT ON FUNCTION @extschema@.snowflake_from_base62(text) IS 'id from 11 characters in base62, 0-9A-Za-z';
