--
-- A snowflake is a key wherever a bigint is one: primary, unique, foreign in
-- both directions, excluded, and the target of ON CONFLICT and MERGE.
--
CREATE EXTENSION snowflake;

-- primary key
CREATE TABLE accounts (id snowflake PRIMARY KEY, name text);

INSERT INTO accounts VALUES (1, 'one'), (175928847299117063, 'two'), (-3, 'three');
INSERT INTO accounts VALUES (175928847299117063, 'again');
INSERT INTO accounts VALUES (NULL, 'none');
UPDATE accounts SET id = 1 WHERE id = -3;

-- ON CONFLICT
INSERT INTO accounts VALUES (1, 'un'), (4, 'four')
    ON CONFLICT (id) DO UPDATE SET name = accounts.name || ', ' || EXCLUDED.name
    RETURNING id, name;
INSERT INTO accounts VALUES (1, 'not seen') ON CONFLICT DO NOTHING;

-- MERGE, from bigints
MERGE INTO accounts
USING (VALUES (1::bigint, 'uno'), (5, 'cinque')) AS news (id, name) ON accounts.id = news.id
 WHEN MATCHED THEN UPDATE SET name = news.name
 WHEN NOT MATCHED THEN INSERT VALUES (news.id, news.name);
MERGE INTO accounts
USING (VALUES (4::bigint), (5)) AS gone (id) ON gone.id = accounts.id
 WHEN MATCHED AND accounts.id < 5 THEN DELETE;

SELECT * FROM accounts ORDER BY id;

-- foreign keys, from bigint to snowflake
CREATE TABLE posts (
    n        integer,
    account  bigint REFERENCES accounts ON UPDATE CASCADE ON DELETE CASCADE
);

INSERT INTO posts VALUES (1, 1), (2, 175928847299117063), (3, 5), (4, NULL);
INSERT INTO posts VALUES (5, 6);

UPDATE accounts SET id = 10 WHERE id = 1;
DELETE FROM accounts WHERE id = 5;
SELECT * FROM posts ORDER BY n;

-- from snowflake to bigint
CREATE TABLE rooms (id bigint PRIMARY KEY);
CREATE TABLE guests (
    n     integer,
    room  snowflake REFERENCES rooms ON UPDATE CASCADE ON DELETE CASCADE
);

INSERT INTO rooms VALUES (1), (2), (3);
INSERT INTO guests VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO guests VALUES (4, 4);

UPDATE rooms SET id = 20 WHERE id = 2;
DELETE FROM rooms WHERE id = 3;
SELECT * FROM guests ORDER BY n;

-- from snowflake to snowflake
CREATE TABLE replies (
    n        integer,
    account  snowflake REFERENCES accounts ON UPDATE SET NULL
);

INSERT INTO replies VALUES (1, 10), (2, -3);
INSERT INTO replies VALUES (3, 11);
DELETE FROM accounts WHERE id = -3;
UPDATE accounts SET id = 7 WHERE id = -3;
SELECT * FROM replies ORDER BY n;

-- added to tables that have rows already, and checked
CREATE TABLE old_posts AS SELECT 1 AS n, 10::bigint AS account;
ALTER TABLE old_posts ADD FOREIGN KEY (account) REFERENCES accounts;
INSERT INTO old_posts VALUES (2, 99);
ALTER TABLE old_posts DROP CONSTRAINT old_posts_account_fkey;
INSERT INTO old_posts VALUES (2, 99);
ALTER TABLE old_posts ADD FOREIGN KEY (account) REFERENCES accounts;

DROP TABLE posts, replies, old_posts, accounts, guests, rooms;

-- exclusion
CREATE EXTENSION btree_gist;

CREATE TABLE bookings (
    room    snowflake,
    during  int4range,
    EXCLUDE USING gist (room WITH =, during WITH &&)
);

INSERT INTO bookings VALUES (1, '[1,5)'), (1, '[5,9)'), (2, '[1,5)');
INSERT INTO bookings VALUES (1, '[4,6)');
SELECT * FROM bookings ORDER BY room, during;

SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM bookings WHERE room = 1::bigint AND during && '[2,3)';
SELECT * FROM bookings WHERE room = 1::bigint AND during && '[2,3)';
RESET enable_seqscan;
RESET enable_bitmapscan;

DROP TABLE bookings;
DROP EXTENSION btree_gist;

-- unique, NULL included
CREATE TABLE tokens (id snowflake UNIQUE NULLS NOT DISTINCT);
INSERT INTO tokens VALUES (1), (NULL);
INSERT INTO tokens VALUES (1);
INSERT INTO tokens VALUES (NULL);

-- generated from another column
CREATE TABLE halves (id snowflake, half bigint GENERATED ALWAYS AS (id / 2) STORED,
                     copy snowflake GENERATED ALWAYS AS (id) STORED);
INSERT INTO halves VALUES (9);
SELECT * FROM halves;

-- checked
CREATE TABLE minted (id snowflake CHECK (id > 0));
INSERT INTO minted VALUES (-1);

DROP TABLE tokens, halves, minted;
DROP EXTENSION snowflake;
