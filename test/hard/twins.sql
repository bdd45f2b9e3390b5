-- twins.sql -- what twins.pl asks about, twice
--
-- Schema "ours" has the extension's type, functions and operators, schema "plain"
-- the same names in PL/pgSQL, over bigint.  The tables of both have the same rows.
CREATE SCHEMA plain;
CREATE SCHEMA ours;
CREATE SCHEMA extension;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake SCHEMA extension;

-- The arithmetic of three layouts, written down once more
SET search_path = plain;
CREATE DOMAIN snowflake AS bigint;

CREATE FUNCTION layout_of(name text, OUT epoch bigint, OUT shard_bits int, OUT sequence_bits int)
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT e, s, q INTO STRICT epoch, shard_bits, sequence_bits
      FROM (VALUES ('twitter', 1288834974657, 10, 12), ('discord', 1420070400000, 10, 12),
                   ('instagram', 1314220021721, 13, 10)) AS v (n, e, s, q)
     WHERE n = name;
END $$;

CREATE FUNCTION snowflake_timestamp(id bigint, layout text DEFAULT 'twitter') RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE l record := plain.layout_of(layout);
BEGIN
    RETURN timestamptz '1970-01-01 00:00:00Z' + ((id >> l.shard_bits + l.sequence_bits) + l.epoch) * interval '1 ms';
END $$;

CREATE FUNCTION snowflake_shard(id bigint, layout text DEFAULT 'twitter') RETURNS int
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE l record := plain.layout_of(layout);
BEGIN
    RETURN (id >> l.sequence_bits) & ((1 << l.shard_bits) - 1);
END $$;

CREATE FUNCTION snowflake_sequence(id bigint, layout text DEFAULT 'twitter') RETURNS int
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE l record := plain.layout_of(layout);
BEGIN
    RETURN id & ((1 << l.sequence_bits) - 1);
END $$;

CREATE FUNCTION snowflake_decode(id bigint, layout text DEFAULT 'twitter',
        OUT created_at timestamptz, OUT shard int, OUT sequence int)
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    created_at := plain.snowflake_timestamp(id, layout);
    shard := plain.snowflake_shard(id, layout);
    sequence := plain.snowflake_sequence(id, layout);
END $$;

CREATE FUNCTION snowflake_encode(created_at timestamptz, shard int, sequence int, layout text DEFAULT 'twitter') RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE l record := plain.layout_of(layout);
BEGIN
    RETURN (floor(extract(epoch FROM created_at) * 1000)::bigint - l.epoch << l.shard_bits + l.sequence_bits)
        | (shard::bigint << l.sequence_bits) | sequence;
END $$;

CREATE FUNCTION snowflake_floor(ts timestamptz, layout text DEFAULT 'twitter') RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN plain.snowflake_encode(ts, 0, 0, layout);
END $$;

CREATE FUNCTION snowflake_ceil(ts timestamptz, layout text DEFAULT 'twitter') RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE l record := plain.layout_of(layout);
BEGIN
    RETURN plain.snowflake_floor(ts, layout) + (1::bigint << l.shard_bits + l.sequence_bits) - 1;
END $$;

DO $do$
DECLARE o text; name text; other text;
BEGIN
    FOR o, name, other IN VALUES ('<', 'lt', '>'), ('<=', 'le', '>='), ('=', 'eq', '='),
                                 ('<>', 'ne', '<>'), ('>=', 'ge', '<='), ('>', 'gt', '<') LOOP
        EXECUTE format($$CREATE FUNCTION %1$I_time(bigint, timestamptz) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT
                         AS 'BEGIN RETURN plain.snowflake_timestamp($1) OPERATOR(pg_catalog.%2$s) $2; END'$$, name, o);
        EXECUTE format($$CREATE FUNCTION time_%1$I(timestamptz, bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT
                         AS 'BEGIN RETURN $1 OPERATOR(pg_catalog.%2$s) plain.snowflake_timestamp($2); END'$$, name, o);
        EXECUTE format('CREATE OPERATOR %1$s (LEFTARG = bigint, RIGHTARG = timestamptz, FUNCTION = %2$I_time)', o, name);
        EXECUTE format('CREATE OPERATOR %1$s (LEFTARG = timestamptz, RIGHTARG = bigint, FUNCTION = time_%2$I)', o, name);
    END LOOP;
END $do$;

-- The same on both sides.  Ids are of a few ticks, so that joins find partners, and
-- times are at, before and after the beginning of a tick.
CREATE FUNCTION public.fill() RETURNS void LANGUAGE plpgsql AS $$
DECLARE side text := current_schema;
BEGIN
    CREATE TABLE photos (id snowflake PRIMARY KEY, parent snowflake, made timestamptz, n int, url text);
    CREATE TABLE comments (id bigint PRIMARY KEY, parent bigint, made timestamptz, n int, url text);
    CREATE TABLE events (id snowflake NOT NULL, parent snowflake, made timestamptz, n int, url text) PARTITION BY RANGE (id);
    CREATE TABLE events_0 PARTITION OF events FOR VALUES FROM (MINVALUE) TO (2100000000000000000);
    CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (2100000000000000000) TO (2100000000100000000);
    CREATE TABLE events_2 PARTITION OF events DEFAULT;
    CREATE INDEX ON events (id);
    IF side = 'ours' THEN
        CREATE TABLE spread (id snowflake, parent snowflake, made timestamptz, n int, url text) PARTITION BY HASH (id snowflake_shard_ops);
        FOR i IN 0 .. 3 LOOP
            EXECUTE format('CREATE TABLE spread_%s PARTITION OF spread FOR VALUES WITH (MODULUS 4, REMAINDER %1$s)', i);
        END LOOP;
    ELSE
        CREATE TABLE spread (id snowflake, parent snowflake, made timestamptz, n int, url text) PARTITION BY LIST ((plain.snowflake_shard(id) % 4));
        FOR i IN 0 .. 3 LOOP
            EXECUTE format('CREATE TABLE spread_%s PARTITION OF spread FOR VALUES IN (%1$s)', i);
        END LOOP;
    END IF;
    INSERT INTO photos
    SELECT id, CASE WHEN i % 5 > 0 THEN id - (i % 3 << 22) END,
           CASE WHEN i % 7 > 0 THEN timestamptz '2026-09-15 23:13:10.77Z' + i % 9 * interval '0.5 ms' END, i % 6, 'u' || i % 4
      FROM (SELECT i, 2100000000000000000 + ((i / 3)::bigint << 22) + (i % 7 << 12) + i % 2 AS id FROM generate_series(1, 40) AS i) AS s;
    INSERT INTO comments SELECT * FROM photos WHERE n < 4;
    -- far away, but so that no sum of times leaves the layout: that is an error, and plans differ in what they compute
    INSERT INTO comments VALUES (100000000000000001, 4194303 << 32, '2011-08-07 00:00Z', 0, 'early'), (8600000000000000000, 100000000000000001, '2075-07-10 17:30:30.208Z', 1, 'late');
    INSERT INTO events SELECT id, parent, made, n, 'e' FROM photos WHERE n <> 2;
    INSERT INTO spread SELECT id, parent, made, n, 's' FROM photos WHERE n <> 3;
    CREATE VIEW decoded AS SELECT p.id, p.parent, d.created_at AS made, d.shard AS n, url FROM photos AS p, snowflake_decode(p.id) AS d;
    CREATE VIEW recent AS SELECT * FROM events WHERE id >= timestamptz '2026-09-15 23:13:10.772Z';
    -- bodies that the planner may put in the place of a call
    CREATE FUNCTION age_of(bigint) RETURNS interval LANGUAGE sql STABLE
        AS 'SELECT timestamptz ''2026-10-01Z'' - (snowflake_decode($1)).created_at';
    CREATE FUNCTION time_of(bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS 'SELECT snowflake_timestamp($1)';
    CREATE FUNCTION is_after(snowflake, timestamptz) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT $1 > $2';
    CREATE FUNCTION parts_of(bigint) RETURNS TABLE (created_at timestamptz, shard int, sequence int) LANGUAGE sql STABLE
        AS 'SELECT d.created_at, d.shard, d.sequence FROM snowflake_decode($1) AS d';
    CREATE FUNCTION ids_since(timestamptz) RETURNS SETOF bigint LANGUAGE sql STABLE AS 'SELECT id::bigint FROM photos WHERE id >= $1';
END $$;
SET search_path = plain, public;
SELECT fill();
SET search_path = ours, extension, public;
SELECT fill();
ANALYZE;
