--
-- COPY with a default that mints inserts rows in batches, as it does with
-- nextval(); and ALTER TABLE still mints for each row.
--
CREATE EXTENSION snowflake;
CREATE EXTENSION pg_walinspect;
SET snowflake.shards = '5';

-- how rows came into the table since a place in the WAL
CREATE FUNCTION inserted_since(place pg_lsn, target regclass) RETURNS SETOF text LANGUAGE SQL AS $$
    SELECT DISTINCT replace(record_type, '+INIT', '')
      FROM pg_get_wal_records_info(place, pg_current_wal_insert_lsn())
     WHERE record_type ~ 'INSERT' AND resource_manager ~ '^Heap'
       AND block_ref ~ ('/' || pg_relation_filenode(target) || ' ')
     ORDER BY 1 $$;

CREATE TABLE events (
    id    snowflake DEFAULT snowflake_nextval(),
    other bigint DEFAULT snowflake_nextval(6),
    what  text
);
ALTER TABLE events ALTER other DROP DEFAULT;

SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
one
two
three
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT count(*), count(DISTINCT id), count(DISTINCT snowflake_shard(id)), min(snowflake_shard(id)) FROM events;

-- on a named shard, and behind a cast
ALTER TABLE events ALTER other SET DEFAULT snowflake_nextval(5);
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
four
five
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT count(*), count(DISTINCT other), count(*) FILTER (WHERE id < other) FROM events WHERE other IS NOT NULL;

-- a volatile shard stays volatile: row by row
ALTER TABLE events ALTER other SET DEFAULT snowflake_nextval(5 + (random() * 0)::int);
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
six
seven
\.
SELECT * FROM inserted_since(:'place', 'events');
ALTER TABLE events DROP other;

-- ids that come along, and the order of rows
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events FROM stdin;
1	eight
2	nine
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT what FROM events ORDER BY id;

-- what is wrong is still wrong
ALTER TABLE events ALTER id SET DEFAULT snowflake_nextval(7);
COPY events (what) FROM stdin;
ten
\.
ALTER TABLE events ALTER id SET DEFAULT snowflake_nextval(NULL);
COPY events (what) FROM stdin;
eleven
\.
SELECT what FROM events WHERE id IS NULL;
ALTER TABLE events ALTER id SET DEFAULT snowflake_nextval();

-- a new column gets an id for each row, while a COPY goes on as well
ALTER TABLE events ADD added snowflake DEFAULT snowflake_nextval();
SELECT count(*), count(DISTINCT added) FROM events;

CREATE TABLE grown (what text);
INSERT INTO grown VALUES ('a'), ('b'), ('c');
CREATE FUNCTION grow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE grown ADD id snowflake DEFAULT snowflake_nextval();
    BEGIN
        ALTER TABLE grown ADD wrong snowflake DEFAULT snowflake_nextval(7);
    EXCEPTION WHEN insufficient_privilege THEN
        RAISE NOTICE 'caught: %', SQLERRM;
    END;
    RETURN NULL;
END $$;
CREATE TRIGGER grow BEFORE INSERT ON events EXECUTE FUNCTION grow();
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY events (what) FROM stdin;
twelve
thirteen
\.
SELECT * FROM inserted_since(:'place', 'events');
SELECT count(*), count(DISTINCT id) FROM grown;
DROP TRIGGER grow ON events;

-- COPY within COPY
CREATE FUNCTION nest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    COPY grown (what) FROM PROGRAM 'printf "d\ne\n"';
    RETURN NULL;
END $$;
CREATE TRIGGER nest AFTER INSERT ON events EXECUTE FUNCTION nest();
COPY events (what) FROM stdin;
fourteen
\.
SELECT count(*), count(DISTINCT id) FROM grown;
DROP TRIGGER nest ON events;

-- partitions
CREATE TABLE clicks (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), what text) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE clicks_0 PARTITION OF clicks FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE clicks_1 PARTITION OF clicks FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT pg_current_wal_insert_lsn() AS place \gset
COPY clicks (what) FROM stdin;
one
two
\.
SELECT * FROM inserted_since(:'place', 'clicks_1');

-- nobody else can call it, and it is no way around a privilege
SELECT snowflake_copy_nextval();
SELECT snowflake_copy_nextval(5);
COPY (SELECT snowflake_copy_nextval()) TO stdout;
ALTER TABLE events ADD stable snowflake DEFAULT snowflake_copy_nextval();
CREATE ROLE regress_snowflake_copier;
GRANT INSERT, SELECT ON events TO regress_snowflake_copier;
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC;
SET ROLE regress_snowflake_copier;
COPY events (what) FROM stdin;
fifteen
\.
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO regress_snowflake_copier;
SET ROLE regress_snowflake_copier;
COPY events (what) FROM stdin;
sixteen
\.
RESET ROLE;

-- without the privilege on what COPY calls, row by row
REVOKE EXECUTE ON FUNCTION snowflake_copy_nextval() FROM PUBLIC;
SELECT pg_current_wal_insert_lsn() AS place \gset
SET ROLE regress_snowflake_copier;
COPY events (what) FROM stdin;
seventeen
eighteen
\.
RESET ROLE;
SELECT * FROM inserted_since(:'place', 'events');
GRANT EXECUTE ON FUNCTION snowflake_copy_nextval() TO PUBLIC;

-- not even COPY's own triggers can call it
CREATE FUNCTION peek() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM snowflake_copy_nextval();
    RETURN NULL;
END $$;
CREATE TRIGGER peek AFTER INSERT ON events EXECUTE FUNCTION peek();
COPY events (what) FROM stdin;
nineteen
\.
DROP TRIGGER peek ON events;

-- what is planned during COPY and kept for the session goes on working
CREATE DOMAIN not_from_the_future AS bigint CHECK (value < snowflake_nextval(5)::bigint);
CREATE TABLE checked (id not_from_the_future);
\c -
SET snowflake.shards = '5';
COPY checked FROM stdin;
1
\.
INSERT INTO checked VALUES (2), (3);
SELECT 9223372036854775807::not_from_the_future;
SELECT * FROM checked;
DROP TABLE checked;
DROP DOMAIN not_from_the_future;

-- nothing of it is stored
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'events'::regclass ORDER BY adnum;

DROP TABLE events, grown, clicks;
DROP EXTENSION snowflake;

-- a default needs no privilege on the schema of its function
CREATE SCHEMA regress_snowflake_private;
CREATE EXTENSION snowflake SCHEMA regress_snowflake_private;
CREATE TABLE events (id bigint DEFAULT regress_snowflake_private.snowflake_nextval(5), what text);
GRANT INSERT ON events TO regress_snowflake_copier;
SELECT pg_current_wal_insert_lsn() AS place \gset
SET ROLE regress_snowflake_copier;
COPY events (what) FROM stdin;
one
two
\.
RESET ROLE;
SELECT * FROM inserted_since(:'place', 'events');
DROP TABLE events;
DROP EXTENSION snowflake;
DROP SCHEMA regress_snowflake_private;
DROP EXTENSION pg_walinspect;
DROP ROLE regress_snowflake_copier;
