--
-- snowflake_decode() in FROM: the planner puts the three functions of the fields in
-- its place, in FROM only, and the result is the same.
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

-- only what is read is computed, and the query is one over the table
EXPLAIN (VERBOSE, COSTS OFF) SELECT created_at FROM ids, snowflake_decode(id);
EXPLAIN (VERBOSE, COSTS OFF) SELECT d FROM ids, snowflake_decode(id, layout) AS d WHERE shard = 32;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a.shard, b.shard, c.shard
  FROM ids, snowflake_decode(id) AS a, snowflake_decode(other) AS b, snowflake_decode(id, 'discord') AS c;
CREATE VIEW decoded AS SELECT ids.*, d.* FROM ids, snowflake_decode(id, layout) AS d;
EXPLAIN (VERBOSE, COSTS OFF) SELECT sequence FROM decoded WHERE other = 0;

-- the same rows, for an id that is null too
SELECT * FROM ids, snowflake_decode(id, layout);
SELECT id, d, d IS NULL AS is_null FROM ids LEFT JOIN LATERAL snowflake_decode(id, 'twitter') AS d ON shard > 0;
SELECT count(*), count(*) FILTER (WHERE d = snowflake_decode(id)) AS same FROM ids, snowflake_decode(id) AS d;

-- elsewhere it stays what it is, even beside such a call in FROM
EXPLAIN (VERBOSE, COSTS OFF) SELECT snowflake_decode(id) FROM ids, snowflake_decode(id);
SELECT (snowflake_decode(id)).shard, d.shard FROM ids, snowflake_decode(id) AS d WHERE (snowflake_decode(id)).shard > 0;
SELECT a.*, b FROM ids, snowflake_decode(id) AS a, to_json(snowflake_decode(id)) AS b;
SELECT a.*, b FROM ids, to_json(snowflake_decode(id)) AS b, snowflake_decode(id) AS a;
CREATE FUNCTION shard_of(bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT (snowflake_decode($1)).shard';
SELECT a.shard, count(*) FROM ids, snowflake_decode(id) AS a, generate_series(1, shard_of(id)) AS b GROUP BY 1 ORDER BY 1;
SELECT a.shard, count(*) FROM ids, generate_series(1, shard_of(id)) AS b, snowflake_decode(id) AS a GROUP BY 1 ORDER BY 1;
SELECT a.shard, (SELECT b.shard FROM snowflake_decode(ids.id) AS b) FROM ids, snowflake_decode(id) AS a;
SELECT count(*) FROM ids, snowflake_decode(id) WHERE EXISTS (SELECT FROM ids AS i LIMIT (snowflake_decode(ids.id)).shard);

-- where the planner cannot
SELECT (snowflake_decode(id, lower('TWITTER'))).shard, d.shard FROM ids, snowflake_decode(id, lower('TWITTER')) AS d;
SELECT a.*, b.shard FROM ids, snowflake_decode(id) WITH ORDINALITY AS a, snowflake_decode(id) AS b;
SELECT a.*, b.shard FROM ids, ROWS FROM (snowflake_decode(id), generate_series(1, 2)) AS a, snowflake_decode(id) AS b;
SELECT shard FROM ids, snowflake_decode(id + 4096);
SELECT shard FROM ids, snowflake_decode(id, 'no such');

-- who may not call the stand-in gets the same
REVOKE EXECUTE ON FUNCTION snowflake_decode_row(bigint) FROM PUBLIC;
CREATE ROLE regress_reader;
GRANT SELECT ON ids TO regress_reader;
SET ROLE regress_reader;
EXPLAIN (COSTS OFF) SELECT shard FROM ids, snowflake_decode(id);
SELECT shard FROM ids, snowflake_decode(id);
RESET ROLE;

DROP OWNED BY regress_reader;
DROP ROLE regress_reader;
DROP FUNCTION shard_of;
SET client_min_messages = warning;
DROP TABLE ids CASCADE;
DROP EXTENSION snowflake;
