--
-- A snowflake reads, writes and is stored as a bigint: same text, same bytes,
-- same errors.
--
CREATE EXTENSION snowflake;

-- stored as a bigint
SELECT typname, typtype, typlen, typalign, typstorage, typcategory,
       typispreferred, typdelim, typcollation, typnotnull
  FROM pg_type
 WHERE oid IN ('snowflake'::regtype, 'bigint'::regtype)
 ORDER BY typname COLLATE "C";

-- by value or by reference, as this server stores a bigint
SELECT count(DISTINCT typbyval)
  FROM pg_type
 WHERE oid IN ('snowflake'::regtype, 'bigint'::regtype);

-- read and written by the server's own functions
SELECT p.proname, p.prosrc, l.lanname, p.provolatile, p.proisstrict, p.proparallel
  FROM pg_type t
  JOIN pg_proc p ON p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend)
  JOIN pg_language l ON l.oid = p.prolang
 WHERE t.oid = 'snowflake'::regtype
 ORDER BY p.proname COLLATE "C";

-- an array type of its own
SELECT typname, typelem::regtype, typcategory
  FROM pg_type
 WHERE oid = 'snowflake[]'::regtype;

SELECT '{1,NULL,-2}'::snowflake[] AS ids,
       ARRAY['1'::snowflake, '9223372036854775807'] AS more;

-- what text is read as, or what the error is
CREATE FUNCTION read_as(type regtype, input text) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    output text;
BEGIN
    EXECUTE format('SELECT %L::%s::text', input, type) INTO output;
    RETURN output;
EXCEPTION WHEN data_exception THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;

SELECT quote_literal(input) AS input, read_as('snowflake', input)
  FROM (VALUES (1, '0'), (2, '-0'), (3, '5'), (4, '+5'), (5, '-5'), (6, '007'),
               (7, ' 5'), (8, '5 '), (9, E'\t5\n'),
               (10, '175928847299117063'),
               (11, '9223372036854775807'), (12, '-9223372036854775808'),
               (13, '9223372036854775808'), (14, '-9223372036854775809'),
               (15, '99999999999999999999999999999999'),
               (16, ''), (17, ' '), (18, '5x'), (19, 'x5'), (20, '5 6'),
               (21, '- 5'), (22, '--5'), (23, '5.0'), (24, '1e3'), (25, '1,000'),
               (26, 'NaN'), (27, 'null')) AS inputs (n, input)
 ORDER BY n;

-- and whatever this server's version takes for a bigint
SELECT count(*) AS inputs,
       count(*) FILTER (WHERE read_as('snowflake', input) <> read_as('bigint', input)) AS differ
  FROM unnest(ARRAY['0', '-0', '5', '+5', '-5', '007', ' 5', '5 ', E'\t5\n',
                    '175928847299117063', '9223372036854775807',
                    '-9223372036854775808', '9223372036854775808',
                    '-9223372036854775809', '', ' ', '5x', '- 5', '5.0', '1e3',
                    '0x1F', '0o17', '0b101', '0x', '1_000', '_1', '1__0']) AS input;

-- the bytes on the wire
CREATE TABLE corners (n integer, id snowflake);

INSERT INTO corners VALUES
    (1, '0'), (2, '1'), (3, '-1'), (4, '175928847299117063'),
    (5, '9223372036854775807'), (6, '-9223372036854775808'), (7, NULL);

SELECT n, snowflake_send(id) AS wire, snowflake_send(id) = int8send(id) AS as_bigint
  FROM corners
 ORDER BY n;

-- what COPY writes in binary can be read back, as snowflake and as bigint
\copy corners TO 'results/type_io.bin' (FORMAT binary)

CREATE TABLE read_back (n integer, id snowflake);
CREATE TABLE read_as_bigint (n integer, id bigint);

\copy read_back FROM 'results/type_io.bin' (FORMAT binary)
\copy read_as_bigint FROM 'results/type_io.bin' (FORMAT binary)

SELECT n, c.id = s.id AS snowflake, c.id = b.id AS bigint
  FROM corners c JOIN read_back s USING (n) JOIN read_as_bigint b USING (n)
 ORDER BY n;

-- as text, too
COPY corners TO STDOUT;
COPY corners FROM STDIN;
8	+00175928847299117063
\.
COPY corners FROM STDIN;
9	175928847299117063x
\.
SELECT id FROM corners WHERE n > 7;

-- JSON gets a string: a JavaScript client would round a number to 53 bits
SELECT to_json(id), to_jsonb(id), jsonb_build_object('id', id), json_build_array(id)
  FROM corners
 WHERE n = 4;

SELECT to_json(corners), row_to_json(corners) FROM corners WHERE n = 4;

SELECT json_agg(corners ORDER BY n) FROM corners WHERE n IN (4, 7);

SELECT jsonb_agg(id ORDER BY n), json_object_agg(n, id ORDER BY n), to_json(array_agg(id ORDER BY n))
  FROM corners
 WHERE n IN (4, 5);

-- where a bigint would have been a number
SELECT to_json(id::bigint), to_jsonb(id + 0) FROM corners WHERE n = 4;

-- and from JSON an id is read as a string or a number, to the last digit
SELECT *
  FROM json_populate_recordset(NULL::corners, '[{"n": 1, "id": "175928847299117063"},
                                               {"n": 2, "id": 175928847299117063}]');

SELECT *
  FROM jsonb_to_recordset('[{"id": "175928847299117063"},
                            {"id": 175928847299117063}]') AS ids (id snowflake);

DROP TABLE corners, read_back, read_as_bigint;
DROP FUNCTION read_as;
DROP EXTENSION snowflake;
