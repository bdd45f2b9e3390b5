-- fixture.sql -- an old server's data, with all that depends on ids
--
-- The bulk of the ids is from 2026, one in 20 minutes, over shards 0 to 7; some
-- are minted.

CREATE EXTENSION snowflake;

CREATE FUNCTION made(n integer) RETURNS snowflake LANGUAGE sql IMMUTABLE
    AS $$ SELECT snowflake_encode('2026-01-01Z'::timestamptz + n * interval '20 min', n % 8, n % 4096) $$;

-- pg_upgrade makes domains and range types before the casts of extensions.  It
-- stumbles over a CHECK that needs one, unless that is NOT VALID.
CREATE DOMAIN photo_id AS snowflake;
ALTER DOMAIN photo_id ADD CHECK (VALUE >= 0) NOT VALID;
CREATE TYPE pair AS (one snowflake, other bigint);
CREATE TABLE photos (
    id       snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    mirror     photo_id UNIQUE DEFAULT snowflake_nextval(5),
    made     timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'discord')) STORED,
    history  snowflake[],
    pair     pair,
    url      text NOT NULL
);
INSERT INTO photos (id, mirror, history, pair, url)
    SELECT made(n), made(n + 1), ARRAY[made(n), '5'], ROW(made(n), made(n))::pair, 'u' || n
    FROM generate_series(1, 20000) AS n;
CREATE INDEX photos_shard ON photos (snowflake_shard(id), id DESC);
CREATE INDEX photos_hash ON photos USING hash (mirror);
CREATE INDEX photos_brin ON photos USING brin (id);
CREATE INDEX photos_late ON photos (id) INCLUDE (url) WHERE id > 1470000000000000000;

CREATE TABLE comments (
    id     snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    photo  bigint NOT NULL REFERENCES photos ON DELETE CASCADE
);
INSERT INTO comments SELECT made(n + 30000), made(n) FROM generate_series(1, 20000) AS n;

CREATE TABLE by_time (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer)
    PARTITION BY RANGE (id);
CREATE TABLE by_time_q1 PARTITION OF by_time
    FOR VALUES FROM (snowflake_floor('2026-01-01Z')) TO (snowflake_floor('2026-04-01Z'));
CREATE TABLE by_time_q2 PARTITION OF by_time
    FOR VALUES FROM (snowflake_floor('2026-04-01Z')) TO (snowflake_floor('2026-07-01Z'));
CREATE TABLE by_time_rest PARTITION OF by_time DEFAULT;
INSERT INTO by_time SELECT made(n), n FROM generate_series(1, 20000) AS n;

CREATE TABLE by_shard (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer)
    PARTITION BY HASH (id snowflake_shard_ops);
SELECT format('CREATE TABLE by_shard_%s PARTITION OF by_shard FOR VALUES WITH (MODULUS 4, REMAINDER %1$s)', n)
    FROM generate_series(0, 3) AS n
\gexec
INSERT INTO by_shard SELECT made(n), n FROM generate_series(1, 20000) AS n;

CREATE VIEW recent AS SELECT id, parts.* FROM photos, snowflake_decode(id) AS parts
    WHERE id >= timestamptz '2026-09-01Z' ORDER BY id DESC LIMIT 5;
CREATE MATERIALIZED VIEW daily AS SELECT date_trunc('day', snowflake_timestamp(id) AT TIME ZONE 'UTC') AS day,
    count(*), max(id)::snowflake AS last FROM photos GROUP BY 1;

INSERT INTO photos (url) SELECT 'minted' FROM generate_series(1, 100);
INSERT INTO by_time (n) SELECT n FROM generate_series(1, 100) AS n;
INSERT INTO by_shard (n) SELECT n FROM generate_series(1, 100) AS n;
VACUUM ANALYZE;
