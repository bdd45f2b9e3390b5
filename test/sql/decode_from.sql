--
-- snowflake_decode() in FROM: the same rows as elsewhere, in any query, by the same
-- rights; and from PostgreSQL 19 on only the columns that are read.
--
CREATE EXTENSION snowflake;
SET TIME ZONE 'UTC';
SET DateStyle = ISO;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE ids (id snowflake, other bigint, layout text);
INSERT INTO ids VALUES
    (175928847299117063, 1541815603606036480, 'discord'),
    (1541815603606036480, -1, 'twitter'),
    (NULL, 0, NULL);
CREATE VIEW decoded AS SELECT ids.*, d.* FROM ids, snowflake_decode(id, layout) AS d;

-- the same rows, for an id that is null too
SELECT * FROM ids, snowflake_decode(id, layout);
SELECT id, d, d IS NULL AS is_null FROM ids LEFT JOIN LATERAL snowflake_decode(id, 'twitter') AS d ON shard > 0;
SELECT d.*, d IS NULL AS is_null FROM ids LEFT JOIN LATERAL snowflake_decode(id) AS d ON true;
SELECT count(*), count(*) FILTER (WHERE d = snowflake_decode(id)) AS same FROM ids, snowflake_decode(id) AS d;
SELECT a.shard, b.shard, c.shard
  FROM ids, snowflake_decode(id) AS a, snowflake_decode(other) AS b, snowflake_decode(id, 'discord') AS c;
SELECT sequence FROM decoded WHERE other > 0;
SELECT shard, count(*) OVER () FROM ids, snowflake_decode(id) AS d (at, shard) WHERE at > '2012-01-01';
SELECT d FROM snowflake_decode(5) AS d;

-- beside calls elsewhere
SELECT (snowflake_decode(id)).shard, d.shard FROM ids, snowflake_decode(id) AS d WHERE (snowflake_decode(id)).shard > 0;
SELECT a.*, b FROM ids, snowflake_decode(id) AS a, to_json(snowflake_decode(id)) AS b;
SELECT a.*, b FROM ids, to_json(snowflake_decode(id)) AS b, snowflake_decode(id) AS a;
SELECT a.shard, (SELECT b.shard FROM snowflake_decode(ids.id) AS b) FROM ids, snowflake_decode(id) AS a;
SELECT count(*) FROM ids, snowflake_decode(id) WHERE EXISTS (SELECT FROM ids AS i LIMIT (snowflake_decode(ids.id)).shard);

-- beside functions in whose body it is called, which the server puts in their place
CREATE FUNCTION shard_of(bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT (snowflake_decode($1)).shard';
CREATE FUNCTION shard_of(bigint, text) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT (snowflake_decode($1, $2)).shard';
SELECT a, d.shard FROM ids, shard_of(ids.id) AS a, snowflake_decode(ids.id) AS d;
SELECT a, d.shard FROM ids, shard_of(id, layout) AS a, snowflake_decode(id, layout) AS d;
SELECT a, d.shard FROM ids LEFT JOIN LATERAL shard_of(id) AS a ON true LEFT JOIN LATERAL snowflake_decode(id) AS d ON true;
SELECT a, b, d.shard FROM ids, ROWS FROM (shard_of(id), shard_of(other)) AS f (a, b), snowflake_decode(id) AS d;
SELECT a.shard, count(*) FROM ids, snowflake_decode(id) AS a, generate_series(1, shard_of(id)) AS b GROUP BY 1 ORDER BY 1;
SELECT a.shard, count(*) FROM ids, generate_series(1, shard_of(id)) AS b, snowflake_decode(id) AS a GROUP BY 1 ORDER BY 1;
CREATE FUNCTION age_of(bigint) RETURNS interval LANGUAGE sql STABLE AS 'SELECT now() - (snowflake_decode($1)).created_at';
SELECT a > '1 hour' AS is_old, d.shard FROM ids, age_of(ids.id) AS a, snowflake_decode(ids.id) AS d;
CREATE FUNCTION parts_of(bigint, OUT at timestamptz, OUT shard integer, OUT sequence integer) LANGUAGE sql IMMUTABLE AS 'SELECT * FROM snowflake_decode($1)';
SELECT a.shard, b.shard FROM ids, parts_of(id) AS a, snowflake_decode(id) AS b;

-- with any argument
SELECT (snowflake_decode(id, lower('TWITTER'))).shard, d.shard FROM ids, snowflake_decode(id, lower('TWITTER')) AS d;
SELECT a.*, b.shard FROM ids, snowflake_decode(id) WITH ORDINALITY AS a, snowflake_decode(id) AS b;
SELECT a.*, b.shard FROM ids, ROWS FROM (snowflake_decode(id), generate_series(1, 2)) AS a, snowflake_decode(id) AS b;
SELECT shard FROM ids, snowflake_decode(id + 4096);
SELECT shard FROM snowflake_decode((SELECT max(id) FROM ids));
SELECT shard FROM snowflake_decode((random() * 0)::bigint);
SELECT shard FROM ids, snowflake_decode(id, 'no such');

-- the right to call it counts, and no other, also for a plan that another user made
CREATE ROLE regress_reader;
GRANT SELECT ON ids TO regress_reader;
SET plan_cache_mode = force_generic_plan;
PREPARE shards AS SELECT shard FROM ids, snowflake_decode(id);
EXECUTE shards;
REVOKE EXECUTE ON FUNCTION snowflake_timestamp(bigint), snowflake_shard(bigint), snowflake_sequence(bigint) FROM PUBLIC;
SET ROLE regress_reader;
EXECUTE shards;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_decode(bigint) FROM PUBLIC;
SELECT count(*) FROM ids, snowflake_decode(id);
EXECUTE shards;
SET ROLE regress_reader;
SELECT shard FROM ids, snowflake_decode(id);
EXECUTE shards;
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_decode(bigint) TO PUBLIC;

-- from 19 on no rows are stored, and the query is one over the table
CREATE FUNCTION is_planned_well(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    plan json;
    is_one boolean;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
    is_one := plan->0->'Plan'->>'Node Type' = 'Seq Scan';
    RETURN is_one = (current_setting('server_version_num')::integer >= 190000);
END $$;
SELECT is_planned_well(format('SELECT shard FROM ids, %s', call)) FROM
    (VALUES ('snowflake_decode(id)'), ('snowflake_decode(id, layout)'), ('snowflake_decode(id, ''discord'')'),
            ('snowflake_decode(other + 1) WHERE sequence > 0'), ('snowflake_decode(id) AS a, snowflake_decode(other) AS b (x, y)')) AS calls (call);

DROP OWNED BY regress_reader;
DROP ROLE regress_reader;
DROP FUNCTION shard_of(bigint), shard_of(bigint, text), parts_of, age_of, is_planned_well;
SET client_min_messages = warning;
DROP TABLE ids CASCADE;
DROP EXTENSION snowflake;
