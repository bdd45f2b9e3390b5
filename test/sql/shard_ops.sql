-- Hash partitions by shard: shard s lands in remainder s % modulus, look-ups by
-- id touch one partition, and the primary key is the id alone.

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS snowflake;
RESET client_min_messages;

CREATE TABLE photos (id snowflake PRIMARY KEY, url text) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE photos_0 PARTITION OF photos FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE photos_1 PARTITION OF photos FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE photos_2 PARTITION OF photos FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE photos_3 PARTITION OF photos FOR VALUES WITH (MODULUS 4, REMAINDER 3);

-- minted ids of every shard
INSERT INTO photos SELECT snowflake_nextval(shard), 'u' FROM generate_series(0, 1023) AS shard;
SELECT tableoid::regclass AS partition, count(*), bool_and(snowflake_shard(id) % 4 = right(tableoid::regclass::text, 1)::int) AS right_one
  FROM photos GROUP BY tableoid ORDER BY 1;

-- any 64 bits have a shard
INSERT INTO photos SELECT id, 'v' FROM unnest(ARRAY[0, -1, 1, 4096, 9223372036854775807, -9223372036854775808]) AS id;
SELECT tableoid::regclass AS partition, id, snowflake_shard(id) FROM photos WHERE url = 'v' ORDER BY id;

-- one partition for a look-up, whatever the id's type
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = 20480;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = '20480';
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = '20480'::snowflake;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = 20480::bigint;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = 20480::smallint;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = 2028083346993954816;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id IN ('20480', '24576');
RESET enable_bitmapscan;
EXPLAIN (COSTS OFF) UPDATE photos SET url = 'w' WHERE id = 20480;
SET plan_cache_mode = force_generic_plan;
PREPARE by_id (bigint) AS SELECT * FROM photos WHERE id = $1;
EXPLAIN (COSTS OFF) EXECUTE by_id(20480);
PREPARE by_untyped AS SELECT * FROM photos WHERE id = $1;
EXPLAIN (COSTS OFF) EXECUTE by_untyped('24576');
RESET plan_cache_mode;

-- plain bigint columns have it, too
CREATE TABLE plain (id bigint PRIMARY KEY) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE plain_0 PARTITION OF plain FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE plain_1 PARTITION OF plain FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO plain SELECT snowflake_nextval(n % 10) FROM generate_series(1, 100) AS n;
SELECT tableoid::regclass AS partition, count(*), bool_and(snowflake_shard(id) % 2 = right(tableoid::regclass::text, 1)::int) AS right_one
  FROM plain GROUP BY tableoid ORDER BY 1;

-- The constant that the operator class takes off is the server's own.  Were it
-- another one, some of these remainders would differ: the product of the
-- moduli is far beyond 2^64, so that only equality satisfies them all.
SELECT count(*) AS checked,
       count(*) FILTER (WHERE NOT satisfies_hash_partition('photos'::regclass, modulus, shard % modulus,
                                                           snowflake_encode('2026-01-01', shard, 7))) AS wrong
  FROM unnest(ARRAY[2, 3, 4, 5, 7, 8, 11, 16, 1000, 1024, 65536, 16777213, 2147483629, 2147483647]) AS modulus,
       unnest(ARRAY[0, 1, 5, 377, 1023]) AS shard;

-- it is an operator class like others, though it makes no good hash index
CREATE TABLE other (id bigint);
CREATE INDEX ON other USING hash (id snowflake_shard_ops);
INSERT INTO other SELECT generate_series(1, 1000);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM other WHERE id = 77;
SELECT * FROM other WHERE id = 77;

-- a role that may call no function of ours looks ids up, too
CREATE TABLE read (id bigint) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE read_0 PARTITION OF read FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO read VALUES (5);
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
CREATE ROLE regress_snowflake_reader;
GRANT SELECT ON read TO regress_snowflake_reader;
SET ROLE regress_snowflake_reader;
SELECT * FROM read WHERE id = 5;
SELECT * FROM read WHERE id = 5::smallint;
SELECT * FROM read WHERE id = 5::bigint;
RESET ROLE;

DROP TABLE photos, plain, other, read;
DROP ROLE regress_snowflake_reader;
DROP EXTENSION snowflake;
