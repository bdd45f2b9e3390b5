--
-- A snowflake has bigint's operators and operator classes, and none of its
-- own that compare it with a number.
--
CREATE EXTENSION snowflake;

-- Nothing but times may be compared with a snowflake by an operator of ours.
-- No rows in either.
SELECT oid::regoperator AS operator
  FROM pg_operator
 WHERE 'snowflake'::regtype IN (oprleft, oprright, oprresult)
   AND 'timestamptz'::regtype NOT IN (oprleft, oprright);

SELECT opcname FROM pg_opclass WHERE 'snowflake'::regtype IN (opcintype, opckeytype);

CREATE TABLE ids (n integer, id snowflake, b bigint);

INSERT INTO ids
SELECT n, b, b
  FROM unnest(ARRAY[-9223372036854775808, -1, 0, 1, 5, 7, 175928847299117063,
                    9223372036854775807]) WITH ORDINALITY AS v (b, n);

-- comparison, with whatever numbers are compared with
SELECT n,
       id = 5 AS integer, id = 5::bigint AS bigint, id = 5::smallint AS smallint,
       id = '5' AS literal, id = '5'::snowflake AS snowflake, 5 = id AS mirrored
  FROM ids
 ORDER BY n;

SELECT n, id < 5 AS lt, id <= 5 AS le, id <> 5 AS ne, id >= 5 AS ge, id > 5 AS gt,
       id BETWEEN 0 AND 5 AS "between", id IN (1, 5) AS "in",
       id NOT IN (1, 5::bigint) AS "not in", id = ANY ('{1,5}'::bigint[]) AS any_bigint,
       id = ANY ('{1,5}'::snowflake[]) AS any_snowflake, id > ALL ('{1,5}'::integer[]) AS all_integer
  FROM ids
 ORDER BY n;

SELECT count(*) AS pairs,
       count(*) FILTER (WHERE (x.id < y.id) IS DISTINCT FROM (x.b < y.b)) AS lt,
       count(*) FILTER (WHERE (x.id <= y.id) IS DISTINCT FROM (x.b <= y.b)) AS le,
       count(*) FILTER (WHERE (x.id = y.id) IS DISTINCT FROM (x.b = y.b)) AS eq,
       count(*) FILTER (WHERE (x.id <> y.id) IS DISTINCT FROM (x.b <> y.b)) AS ne,
       count(*) FILTER (WHERE (x.id >= y.id) IS DISTINCT FROM (x.b >= y.b)) AS ge,
       count(*) FILTER (WHERE (x.id > y.b) IS DISTINCT FROM (x.b > y.id)) AS gt
  FROM ids x, ids y;

SELECT id IS DISTINCT FROM 5 AS "distinct", NULLIF(id, 5) AS "null",
       (id, n) < (5, 6) AS "row", id BETWEEN SYMMETRIC 9 AND 1 AS symmetric
  FROM ids
 WHERE id = 5;

-- arithmetic gives bigint
SELECT id + 1 AS plus, id - 9 AS minus, id * 2 AS times, id / 2 AS over,
       id % 2 AS modulo, -id AS negated, @ (-id) AS absolute,
       id & 4 AS "and", id | 2 AS "or", id # 1 AS "xor", ~id AS "not",
       id << 2 AS "left", id >> 1 AS "right", abs(id), mod(id, 3)
  FROM ids
 WHERE id = 5;

SELECT pg_typeof(id + 1) AS sum, pg_typeof(id % 2) AS modulo, pg_typeof(id - id) AS difference,
       pg_typeof(-id) AS negated
  FROM ids
 WHERE id = 5;

SELECT id + 1 FROM ids WHERE n = 8;

-- aggregates: min and max are bigint again
SELECT min(id), max(id), sum(id), avg(id)::numeric(3, 1), count(DISTINCT id),
       array_agg(id ORDER BY id DESC), string_agg(id::text, ' ' ORDER BY id)
  FROM ids
 WHERE id BETWEEN 0 AND 100;

SELECT pg_typeof(min(id)) AS min, pg_typeof(max(id)) AS max, pg_typeof(sum(id)) AS sum,
       pg_typeof(array_agg(id)) AS array_agg, pg_typeof(max(id)::snowflake) AS max_cast
  FROM ids;

-- text
SELECT id || 'x' AS joined, format('%s', id), to_hex(id), to_char(id, '0009'), length(id::text)
  FROM ids
 WHERE id = 5;

-- sorting, grouping, windows, sets
SELECT id FROM ids ORDER BY id DESC LIMIT 3;

SELECT id % 2 AS odd, count(*) FROM ids WHERE id BETWEEN 0 AND 100 GROUP BY id % 2 ORDER BY odd;

SELECT DISTINCT id FROM (SELECT id FROM ids UNION ALL SELECT id FROM ids) AS twice
 WHERE id BETWEEN 0 AND 6
 ORDER BY id;

SELECT id, lag(id) OVER (ORDER BY id), rank() OVER (ORDER BY id DESC)
  FROM ids
 WHERE id BETWEEN 0 AND 6
 ORDER BY id;

SELECT pg_typeof(id), id FROM (SELECT id FROM ids UNION SELECT b FROM ids) AS u WHERE id = 5;
SELECT id FROM ids WHERE n < 7 INTERSECT SELECT b FROM ids WHERE n > 4 ORDER BY 1;
SELECT b FROM ids EXCEPT SELECT id FROM ids WHERE n > 2 ORDER BY 1;

SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id) AS median FROM ids;

-- by sorting and by hashing
SET enable_hashagg = off;
SELECT count(*) FROM (SELECT id FROM ids UNION SELECT b FROM ids) AS sorted;
RESET enable_hashagg;
SET enable_sort = off;
SELECT count(*) FROM (SELECT id FROM ids UNION SELECT b FROM ids) AS hashed;
RESET enable_sort;

-- arrays
SELECT array_agg(id) = array_agg(b::snowflake) AS equal,
       array_agg(id) @> '{5,7}' AS contains,
       array_position(array_agg(id ORDER BY id), 5::snowflake),
       5 = ANY (array_agg(id)) AS "any"
  FROM ids;

-- ranges
SELECT int8range(id, id + 3), int8range(0, 9) @> id::bigint AS contains FROM ids WHERE id = 5;

-- CASE and COALESCE with a bigint
SELECT n, CASE WHEN n < 3 THEN id ELSE b END AS "case", COALESCE(NULLIF(id, 5), b + 1) AS "coalesce",
       pg_typeof(CASE WHEN n < 3 THEN id ELSE b END) AS case_type
  FROM ids
 WHERE id BETWEEN 0 AND 6
 ORDER BY n;

-- a domain
CREATE DOMAIN positive_id AS snowflake CHECK (VALUE > 0);
SELECT '5'::positive_id, pg_typeof('5'::positive_id + 1) AS sum;
SELECT 0::positive_id;

DROP DOMAIN positive_id;
DROP TABLE ids;
DROP EXTENSION snowflake;
