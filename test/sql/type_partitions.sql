--
-- Partitions by range and by hash of a snowflake: routed as a bigint is, and
-- pruned by numbers, texts, ids and parameters.
--
CREATE EXTENSION snowflake;
SET TIME ZONE 'UTC';

-- by month, with the bounds worked out from times
CREATE TABLE events (id snowflake PRIMARY KEY, note text) PARTITION BY RANGE (id);

CREATE TABLE events_2026_01 PARTITION OF events
    FOR VALUES FROM (snowflake_floor('2026-01-01')) TO (snowflake_floor('2026-02-01'));
CREATE TABLE events_2026_02 PARTITION OF events
    FOR VALUES FROM (snowflake_floor('2026-02-01')) TO (snowflake_floor('2026-03-01'));
CREATE TABLE events_2026_03 PARTITION OF events
    FOR VALUES FROM (snowflake_floor('2026-03-01')) TO (snowflake_floor('2026-04-01'));

SELECT relid::regclass AS partition, pg_get_expr(relpartbound, relid) AS bounds
  FROM pg_partition_tree('events') JOIN pg_class ON oid = relid
 WHERE isleaf
 ORDER BY relid::regclass::text COLLATE "C";

INSERT INTO events VALUES
    (snowflake_floor('2026-01-01'), 'the first of January'),
    (snowflake_ceil('2026-01-31 23:59:59.999'), 'the last of January'),
    (snowflake_floor('2026-02-01'), 'the first of February'),
    (snowflake_encode('2026-03-31 23:59:59.999', 5, 7), 'March');

SELECT tableoid::regclass AS partition, note FROM events ORDER BY id;

INSERT INTO events VALUES (snowflake_floor('2026-04-01'), 'no partition');
INSERT INTO events VALUES (snowflake_ceil('2025-12-31 23:59:59.999'), 'no partition');

-- pruned when planned
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id < 2010000000000000000;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE id <= '2010000000000000000'::snowflake;
EXPLAIN (COSTS OFF) SELECT note FROM events WHERE id > '2017042000000000000' AND id < '2017043000000000000';
EXPLAIN (COSTS OFF) SELECT note FROM events WHERE id >= snowflake_floor('2026-03-01');
EXPLAIN (COSTS OFF)
SELECT note FROM events
 WHERE id BETWEEN snowflake_floor('2026-02-10') AND snowflake_ceil('2026-02-11');
SELECT note FROM events WHERE id >= snowflake_floor('2026-02-01') AND id < snowflake_floor('2026-03-01');

-- and when run
SET plan_cache_mode = force_generic_plan;
PREPARE since(bigint) AS SELECT note FROM events WHERE id >= $1;
PREPARE one(snowflake) AS SELECT note FROM events WHERE id = $1;
EXPLAIN (COSTS OFF) EXECUTE since(2030000000000000000);
EXPLAIN (COSTS OFF) EXECUTE one(2017749737272246272);
EXECUTE one(2017749737272246272);
DEALLOCATE ALL;
RESET plan_cache_mode;

-- pages come in order from the partitions, without a sort
RESET enable_indexscan;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM events ORDER BY id DESC LIMIT 20;
RESET enable_seqscan;
SET enable_indexscan = off;
SELECT note FROM events ORDER BY id DESC LIMIT 2;

-- by hash: each value where bigint's hash puts it
CREATE TABLE hashed (id snowflake PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE hashed_2 PARTITION OF hashed FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE hashed_3 PARTITION OF hashed FOR VALUES WITH (MODULUS 4, REMAINDER 3);

CREATE TABLE plain (id bigint PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE plain_0 PARTITION OF plain FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE plain_1 PARTITION OF plain FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE plain_2 PARTITION OF plain FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE plain_3 PARTITION OF plain FOR VALUES WITH (MODULUS 4, REMAINDER 3);

INSERT INTO plain SELECT i * 4194304 FROM generate_series(-500, 500) AS i;
INSERT INTO hashed SELECT id FROM plain;

SELECT count(*), count(DISTINCT hashed.tableoid) AS partitions,
       count(*) FILTER (WHERE replace(hashed.tableoid::regclass::text, 'hashed', 'plain')
                              <> plain.tableoid::regclass::text) AS elsewhere
  FROM hashed JOIN plain USING (id);

-- one partition is left for one id
EXPLAIN (COSTS OFF) SELECT * FROM hashed WHERE id = 4194304;
EXPLAIN (COSTS OFF) SELECT * FROM hashed WHERE id = '4194304';
EXPLAIN (COSTS OFF) SELECT * FROM hashed WHERE id = '4194304'::snowflake;
EXPLAIN (COSTS OFF) SELECT * FROM hashed WHERE id = 0::smallint;
SELECT tableoid::regclass AS partition, id FROM hashed WHERE id = '4194304';

SET plan_cache_mode = force_generic_plan;
PREPARE one(bigint) AS SELECT * FROM hashed WHERE id = $1;
EXPLAIN (COSTS OFF) EXECUTE one(4194304);
EXECUTE one(4194304);
DEALLOCATE ALL;
RESET plan_cache_mode;

-- by list
CREATE TABLE listed (id snowflake) PARTITION BY LIST (id);
CREATE TABLE listed_1 PARTITION OF listed FOR VALUES IN (1, 2);
CREATE TABLE listed_rest PARTITION OF listed DEFAULT;
INSERT INTO listed VALUES (1), ('2'), (3);
SELECT tableoid::regclass AS partition, id FROM listed ORDER BY id;
EXPLAIN (COSTS OFF) SELECT * FROM listed WHERE id = 2;

DROP TABLE events, hashed, plain, listed;
DROP EXTENSION snowflake;
