--
-- What converts to and from a snowflake, and when: as a bigint everywhere,
-- into a snowflake only by assignment or an explicit cast.
--
CREATE EXTENSION snowflake;

SELECT castsource::regtype AS source, casttarget::regtype AS target,
       CASE castcontext WHEN 'i' THEN 'implicit' WHEN 'a' THEN 'assignment'
            ELSE 'explicit' END AS context,
       CASE castmethod WHEN 'b' THEN 'same bits'
            ELSE castfunc::regprocedure::text END AS method
  FROM pg_cast
 WHERE 'snowflake'::regtype IN (castsource, casttarget)
 ORDER BY castsource::regtype::text COLLATE "C", casttarget::regtype::text COLLATE "C";

-- casts that are written out
SELECT 5::smallint::snowflake, 5::snowflake, 5::bigint::snowflake,
       5.5::snowflake AS rounded_up, (-5.5)::snowflake AS rounded_down,
       5.4::snowflake AS rounded, '5'::snowflake AS literal, '5'::text::snowflake AS text;

SELECT snowflake '5' + 1 AS bigint, '5'::snowflake::bigint, '5'::snowflake::text,
       '5'::snowflake::varchar(3) AS varchar;

SELECT '5'::float8::snowflake;
SELECT now()::snowflake;

-- the creation time, in UTC
SET TIME ZONE 'UTC';
SET DateStyle = ISO;

SELECT '1541815603606036480'::snowflake::timestamptz AS minted,
       CAST('0'::snowflake AS timestamptz) AS epoch;

-- assignment: INSERT, UPDATE, DEFAULT and COPY take any whole number's type
CREATE TABLE targets (n serial, id snowflake DEFAULT 42);

INSERT INTO targets (id) VALUES (1);
INSERT INTO targets (id) VALUES (4294967296);
INSERT INTO targets (id) VALUES ('9223372036854775807');
INSERT INTO targets (id) VALUES (-9223372036854775808);
INSERT INTO targets (id) SELECT 2::smallint;
INSERT INTO targets (id) SELECT 3::integer;
INSERT INTO targets (id) SELECT 4::bigint;
INSERT INTO targets (id) SELECT 5.4;
INSERT INTO targets (id) SELECT 5.5;
INSERT INTO targets (id) SELECT -5.5;
INSERT INTO targets (id) SELECT count(*) FROM pg_class WHERE false;
INSERT INTO targets (id) SELECT sum(8::bigint);
INSERT INTO targets DEFAULT VALUES;

UPDATE targets SET id = id + 1 WHERE n = 1;
UPDATE targets SET id = n WHERE n = 2;

SELECT n, id FROM targets ORDER BY n;

-- a number that does not fit, and what is no number
INSERT INTO targets (id) VALUES (9223372036854775808);
INSERT INTO targets (id) VALUES (9223372036854775807.5);
INSERT INTO targets (id) VALUES ('9223372036854775808');
INSERT INTO targets (id) VALUES ('NaN'::numeric);
INSERT INTO targets (id) VALUES ('1'::text);
INSERT INTO targets (id) VALUES (1::float8);
INSERT INTO targets (id) VALUES (now());
INSERT INTO targets (id) VALUES (true);
UPDATE targets SET id = id + 1 WHERE n = 3;

\set VERBOSITY sqlstate
INSERT INTO targets (id) VALUES (9223372036854775808);
INSERT INTO targets (id) VALUES ('9223372036854775808');
INSERT INTO targets (id) VALUES ('5x');
\set VERBOSITY default

SELECT count(*) FROM targets;

-- functions that take a bigint take a snowflake
CREATE FUNCTION takes_bigint(bigint) RETURNS text
    LANGUAGE sql AS $$ SELECT 'bigint ' || $1 $$;

SELECT takes_bigint(id) FROM targets WHERE n = 5;

-- but those that take a snowflake take no bigint, without a cast
CREATE FUNCTION takes_snowflake(snowflake) RETURNS text
    LANGUAGE sql AS $$ SELECT 'snowflake ' || $1 $$;

SELECT takes_snowflake(id), takes_snowflake('7'), takes_snowflake(7::snowflake)
  FROM targets
 WHERE n = 5;

-- majors word this error differently
\set VERBOSITY sqlstate
SELECT takes_snowflake(7::bigint);
SELECT takes_snowflake(7);

-- nothing in the database that was an error has become legal
SELECT 5::bigint < now();
SELECT 5 < now();
SELECT now() > 5::smallint;
SELECT 5.0 = now();
SELECT 5::bigint::timestamptz;
SELECT 5::bigint = '2026-01-01'::date;
\set VERBOSITY default

-- known limits: where types must agree, an integer literal needs a cast
SELECT COALESCE(id, 3) FROM targets WHERE n = 5;
SELECT COALESCE(id, 3::bigint), pg_typeof(COALESCE(id, 3::bigint)) FROM targets WHERE n = 5;
SELECT COALESCE(id, '3'), pg_typeof(COALESCE(id, '3')) FROM targets WHERE n = 5;
SELECT CASE WHEN n > 0 THEN id ELSE 0 END FROM targets WHERE n = 5;
SELECT CASE WHEN n > 0 THEN id ELSE 0::bigint END AS "case" FROM targets WHERE n = 5;
SELECT GREATEST(id, 3) FROM targets WHERE n = 5;
SELECT GREATEST(id, 3::bigint) FROM targets WHERE n = 5;
SELECT id FROM targets WHERE n = 5 UNION SELECT 7;
SELECT id FROM targets WHERE n = 5 UNION SELECT 7::bigint ORDER BY id;
SELECT ARRAY[id, 7] FROM targets WHERE n = 5;
SELECT ARRAY[id, 7::bigint], pg_typeof(ARRAY[id, 7::bigint]) FROM targets WHERE n = 5;

-- and other types of number are reached by way of bigint
SELECT id::numeric FROM targets WHERE n = 5;
SELECT id::bigint::numeric FROM targets WHERE n = 5;
\set VERBOSITY sqlstate
SELECT id = 4.0 FROM targets WHERE n = 5;
\set VERBOSITY default
SELECT id::bigint = 4.0 AS equal FROM targets WHERE n = 5;

DROP TABLE targets;
DROP FUNCTION takes_bigint, takes_snowflake;
DROP EXTENSION snowflake;
