-- sqlsmith.sql -- something for sqlsmith to write queries about
CREATE EXTENSION IF NOT EXISTS snowflake;
CREATE TABLE photos (
    id   snowflake PRIMARY KEY DEFAULT snowflake_nextval(1),
    url  text,
    made timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE comments (
    id    snowflake PRIMARY KEY DEFAULT snowflake_nextval(2),
    photo snowflake REFERENCES photos,
    shard int,
    body  text
);
CREATE TABLE events (id snowflake, n int) PARTITION BY RANGE (id);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('0') TO ('1000000000000000000');
CREATE TABLE events_2 PARTITION OF events DEFAULT;
CREATE TABLE spread (id snowflake) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE spread_0 PARTITION OF spread FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE spread_1 PARTITION OF spread FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO photos (url) SELECT 'photo ' || n FROM generate_series(1, 200) AS n;
INSERT INTO comments (photo, shard, body) SELECT id, snowflake_shard(id), url FROM photos;
INSERT INTO events SELECT id, 1 FROM photos;
INSERT INTO spread SELECT snowflake_nextval(n % 7) FROM generate_series(1, 200) AS n;
ANALYZE;

-- sqlsmith calls whatever its role may call, and a superuser may end the
-- server or overwrite its files.  So it is a role that owns nothing but may
-- write to these tables, and call all of the extension's functions.
CREATE ROLE smith LOGIN;
GRANT ALL ON ALL TABLES IN SCHEMA public TO smith;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO smith;
ALTER ROLE smith SET statement_timeout = '2s';

-- Of the thousands of functions that it would find in pg_proc few are ours, so
-- it gets to see another pg_proc: ours, and some that give them arguments.
CREATE SCHEMA smith;
CREATE VIEW smith.pg_proc AS
SELECT p.* FROM pg_catalog.pg_proc AS p
 WHERE EXISTS (SELECT FROM pg_depend AS d
                 JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'snowflake'
                WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
    OR p.pronamespace = 'pg_catalog'::regnamespace
       AND p.proname IN ('int8mul', 'int8pl', 'int84div', 'now', 'length', 'lower', 'upper', 'substr', 'md5',
                         'timestamptz_pl_interval', 'timestamptz_mi_interval', 'date_trunc', 'max', 'min', 'count',
                         'sum', 'random', 'int8', 'int4');
GRANT USAGE ON SCHEMA smith TO smith;
GRANT SELECT ON smith.pg_proc TO smith;
ALTER ROLE smith SET search_path = smith, pg_catalog, public;
