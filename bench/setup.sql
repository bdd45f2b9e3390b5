-- setup.sql -- what every measurement finds in its database
--
-- The variable "library" is the path of noop.c's library.

CREATE EXTENSION snowflake;

-- The same for all arguments: it looks at none.
CREATE FUNCTION noop() RETURNS bigint
	AS :'library', 'noop' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
CREATE FUNCTION noop(integer) RETURNS bigint
	AS :'library', 'noop' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
CREATE FUNCTION noop(bigint) RETURNS bigint
	AS :'library', 'noop' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION noop(bigint, text) RETURNS bigint
	AS :'library', 'noop' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION clock_and_lock() RETURNS bigint
	AS :'library', 'clock_and_lock' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
CREATE FUNCTION clock_and_lock(integer) RETURNS bigint
	AS :'library', 'clock_and_lock' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE FUNCTION call_latencies(function regprocedure, argument bigint, milliseconds integer)
	RETURNS TABLE (ns bigint, calls bigint)
	AS :'library', 'call_latencies' LANGUAGE C STRICT VOLATILE;

CREATE SEQUENCE cache_1 CACHE 1;
CREATE SEQUENCE cache_1000 CACHE 1000;
