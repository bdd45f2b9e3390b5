-- What demo.sh shows.  psql runs this with --echo-queries, so that each
-- statement stands before its result.

\echo
\echo '==== A table that mints its own keys'
\echo

CREATE EXTENSION snowflake;

CREATE TABLE photos (
    id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    url  text NOT NULL
);

INSERT INTO photos (url) VALUES ('first.jpg')
    RETURNING id, snowflake_timestamp(id);

\echo '==== Four sessions at once, for two seconds'
\echo
-- pgbench puts in the number of its client.
\set insert 'INSERT INTO photos (url) VALUES (format(\'session-%s.jpg\', :client_id));'
\setenv INSERT :insert
\echo :insert
\! echo "$INSERT" | pgbench --no-vacuum --client=4 --jobs=4 --time=2 --rate=500 --file=- | grep 'actually processed'
\echo

SELECT count(*), count(DISTINCT id) FROM photos;

\echo '==== What an id tells'
\echo

SELECT id, decoded.*
  FROM photos, snowflake_decode(id) AS decoded
 ORDER BY id DESC LIMIT 1;

SELECT id AS newest FROM photos ORDER BY id DESC LIMIT 1 \gset
\echo '-> newest is' :newest
\echo

SELECT * FROM snowflake_fields(:newest);

\echo '==== An id of Discord'
\echo

SELECT * FROM snowflake_decode('175928847299117063', 'discord');

SELECT * FROM snowflake_fields('175928847299117063', 'discord');

\echo '==== Newest first, five to a page'
\echo

SELECT id, url, snowflake_timestamp(id) FROM photos ORDER BY id DESC LIMIT 5;

\echo '==== The next page starts where this one ended'
\echo

SELECT min(id) AS last
  FROM (SELECT id FROM photos ORDER BY id DESC LIMIT 5) AS page \gset
\echo '-> last is' :last
\echo

SELECT id, url, snowflake_timestamp(id) FROM photos
 WHERE id < :last ORDER BY id DESC LIMIT 5;

EXPLAIN (COSTS OFF)
SELECT * FROM photos WHERE id < :last ORDER BY id DESC LIMIT 5;

\echo '==== With the type snowflake an id is a string in JSON: JavaScript does not round it'
\echo

ALTER TABLE photos ALTER id TYPE snowflake;

SELECT to_json(photos) FROM photos ORDER BY id DESC LIMIT 1;
