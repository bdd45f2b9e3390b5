--
-- Ids as short texts: published texts, the way back, the order, and every
-- text that is refused.
--
CREATE EXTENSION snowflake;

-- The forms in a table, so that one statement is about all three.
CREATE FUNCTION to_base(base integer, id bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE base WHEN 32 THEN snowflake_to_base32(id)
                     WHEN 58 THEN snowflake_to_base58(id)
                     WHEN 62 THEN snowflake_to_base62(id) END
$$;
CREATE FUNCTION from_base(base integer, id text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE base WHEN 32 THEN snowflake_from_base32(id)
                     WHEN 58 THEN snowflake_from_base58(id)
                     WHEN 62 THEN snowflake_from_base62(id) END
$$;

CREATE TABLE forms (base integer, width integer, alphabet text);
INSERT INTO forms VALUES
    (32, 13, '0123456789ABCDEFGHJKMNPQRSTVWXYZ'),
    (58, 11, '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'),
    (62, 11, '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz');

-- Numbers with the texts that others publish for them, most of which leave out
-- leading zeroes.
CREATE TABLE vectors (base integer, id bigint, published text, source text);

COPY vectors FROM STDIN (FORMAT csv);
32,1234,16J,the Elixir package crockford_base32
32,1000000000,XSNJG0,the Elixir package base32_crockford
32,9007199254740991,7ZZZZZZZZZZ,the npm package @darkwolf/base32crockford
32,1469918176385,01ARYZ6S41,the time in ULID's specification
32,281474976710655,7ZZZZZZZZZ,the last time in ULID's specification
32,-1,FZZZZZZZZZZZZ,the npm package numbase; 2^64 - 1
58,97,2g,Bitcoin's base58_encode_decode.json
58,6447714,a3gV,Bitcoin's base58_encode_decode.json
58,6513507,aPEr,Bitcoin's base58_encode_decode.json
58,1462650772,3EFU7m,Bitcoin's base58_encode_decode.json
58,281563422,Rt5zm,Bitcoin's base58_encode_decode.json
58,349694840079,ABnLTmg,Bitcoin's base58_encode_decode.json
58,656356767,zzzzz,Bitcoin's base58_encode_decode.json
58,656356768,211111,Bitcoin's base58_encode_decode.json
58,679457997,233QC4,draft-msporny-base58
58,6731191091817518,uZZybuNNy,Flux's job ids
58,0,11111111111,a block of Monero's addresses
58,1,11111111112,a block of Monero's addresses
58,-2,jpXCZedGfVP,Flux's job ids; 2^64 - 2
58,-1,jpXCZedGfVQ,a block of Monero's addresses; 2^64 - 1
62,10,A,the Rust package rustango
62,61,z,the Rust package rustango
62,62,10,the Rust package rustango
62,1234567890,0000000000000000000001LY7VK,the Ruby package ksuid
62,934556467467656,4HNODorwe,BaseConverter for .NET
62,839299365868340223,zzzzzzzzzz,62^10 - 1
62,839299365868340224,10000000000,62^10
62,9223372036854775807,AzL8n0Y58m7,Architect.Identities for .NET
62,-1,LygHa16AHYF,Architect.Identities for .NET; 2^64 - 1
\.

SELECT base, count(*), count(*) FILTER (WHERE to_base(base, id) = text) AS written,
       count(*) FILTER (WHERE from_base(base, text) = id) AS read
  FROM vectors
  JOIN forms USING (base),
       LATERAL (SELECT lpad(right(published, width), width, left(alphabet, 1))) AS padded (text)
 GROUP BY base
 ORDER BY base;

-- Published ids, and the ends.
SELECT id, snowflake_to_base32(id) AS base32, snowflake_to_base58(id) AS base58, snowflake_to_base62(id) AS base62
  FROM unnest(ARRAY[0, 1, 11637205501278089, 175928847299117063, 417244747766235137, 1541815603606036480,
                    9223372036854775807, -9223372036854775808, -1]) AS ids (id);

SELECT pg_typeof(snowflake_to_base32(1)), pg_typeof(snowflake_to_base58(1)), pg_typeof(snowflake_to_base62(1)),
       pg_typeof(snowflake_from_base32('0000000000001')), pg_typeof(snowflake_from_base58('11111111112')),
       pg_typeof(snowflake_from_base62('00000000001'));

SELECT snowflake_to_base62(1541815603606036480::snowflake) AS snowflake, snowflake_to_base62('1541815603606036480') AS quoted,
       snowflake_to_base62(1::integer) AS integer;

-- The way there and back: random ids of every size, powers of two and of each
-- base, and their neighbours.
CREATE TABLE samples AS
SELECT ('x' || left(md5(n::text), 16))::bit(64)::bigint >> (n % 64) AS id
  FROM generate_series(1, 3000) AS n
 UNION
VALUES (0), (1), (-1), (9223372036854775807), (-9223372036854775808)
 UNION
SELECT (1::bigint << n) + d FROM generate_series(1, 62) AS n, generate_series(-1, 1) AS d
 UNION
SELECT -(1::bigint << n) + d FROM generate_series(1, 62) AS n, generate_series(-1, 1) AS d
 UNION
SELECT (power(base::numeric, n) + d)::bigint
  FROM forms, generate_series(1, 12) AS n, generate_series(-1, 1) AS d
 WHERE power(base::numeric, n) < 9223372036854775807;

CREATE TABLE texts AS
SELECT base, id, to_base(base, id) COLLATE "C" AS text FROM forms, samples;

SELECT base, count(*) > 2500 AS many, count(*) FILTER (WHERE id < 0) > 1000 AS negative,
       count(DISTINCT text) = count(*) AS distinct,
       min(octet_length(text)) AS shortest, max(octet_length(text)) AS longest,
       count(*) FILTER (WHERE from_base(base, text) IS DISTINCT FROM id) AS changed
  FROM texts
 GROUP BY base
 ORDER BY base;

SELECT count(*) FILTER (WHERE snowflake_from_base32(lower(text)) IS DISTINCT FROM id) AS changed
  FROM texts
 WHERE base = 32;

-- the rule in decimal arithmetic: 64 bits without a sign, the most significant digit first
SELECT base, count(*) FILTER (WHERE text IS DISTINCT FROM digits) AS other
  FROM forms
  JOIN texts USING (base),
       LATERAL (SELECT string_agg(substr(alphabet, 1 + mod(div(id + CASE WHEN id < 0 THEN 18446744073709551616 ELSE 0 END,
                                                               power(base::numeric, place)), base)::integer, 1),
                                  '' ORDER BY place DESC)
                  FROM generate_series(0, width - 1) AS places (place)) AS rule (digits)
 GROUP BY base
 ORDER BY base;

-- The order: that of the ids from 0 up, whose texts come before those of negative ids.
SELECT base, count(*) FILTER (WHERE id >= 0) > 1250 AS many,
       count(*) FILTER (WHERE id >= 0 AND by_text <> by_id) AS misplaced,
       count(*) FILTER (WHERE by_text <> by_number) AS as_unsigned
  FROM (SELECT base, id, row_number() OVER (PARTITION BY base ORDER BY text) AS by_text,
               row_number() OVER (PARTITION BY base ORDER BY id < 0, id) AS by_number,
               row_number() OVER (PARTITION BY base, id < 0 ORDER BY id) AS by_id
          FROM texts) AS places
 GROUP BY base
 ORDER BY base;

SELECT base, max(text) FILTER (WHERE id >= 0) < min(text) FILTER (WHERE id < 0) AS negative_last
  FROM texts
 GROUP BY base
 ORDER BY base;

-- What a call fails with.
CREATE FUNCTION error_of(call text, OUT state text, OUT message text, OUT detail text, OUT hint text)
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    message := 'NO ERROR';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;

-- the length
SELECT call, state, message, detail
  FROM unnest(ARRAY[$$snowflake_from_base32('')$$,
                    $$snowflake_from_base32('0')$$,
                    $$snowflake_from_base32('04W86BB0G400')$$,
                    $$snowflake_from_base32('04W86BB0G40070')$$,
                    $$snowflake_from_base58('')$$,
                    $$snowflake_from_base58('QgmVVkniES')$$,
                    $$snowflake_from_base58('1QgmVVkniES1')$$,
                    $$snowflake_from_base62('')$$,
                    $$snowflake_from_base62('Czks0tP37X')$$,
                    $$snowflake_from_base62('0Czks0tP37X"')$$,
                    $$snowflake_from_base62('0Czks0tP37X ')$$,
                    $$snowflake_from_base62(repeat('0Czks0tP37X', 10000))$$]) AS call,
       error_of(call);

-- characters, the first that is wrong from the left
SELECT call, state, message, detail
  FROM unnest(ARRAY[$$snowflake_from_base32('04W86BU0G4007')$$,
                    $$snowflake_from_base32('04W86Bu0G4007')$$,
                    $$snowflake_from_base32('04W86-BB0G4007')$$,
                    $$snowflake_from_base32(' 04W86BB0G4007')$$,
                    $$snowflake_from_base32('-0000000000001')$$,
                    $$snowflake_from_base32('04W86BB0G400*')$$,
                    $$snowflake_from_base32('ZZZZZZZZZZZZU')$$,
                    $$snowflake_from_base58('0QgmVVkniES')$$,
                    $$snowflake_from_base58('1QgmVVkniOS')$$,
                    $$snowflake_from_base58('1QgmVVknIES')$$,
                    $$snowflake_from_base58('1QgmVVknlES')$$,
                    $$snowflake_from_base58('175928847299117063')$$,
                    $$snowflake_from_base62('0Czks0tP37_')$$,
                    $$snowflake_from_base62('0Czks/tP37X')$$,
                    $$snowflake_from_base62('+0Czks0tP37X')$$,
                    $$snowflake_from_base62('"Czks0tP37X')$$,
                    $$snowflake_from_base62('0Czks' || chr(10) || 'tP37X')$$,
                    $$snowflake_from_base62('0Czks0tP37' || chr(127))$$]) AS call,
       error_of(call);

-- too great, and where the text is past the last
SELECT call, state, message, detail, hint = '' AS no_hint
  FROM unnest(ARRAY[$$snowflake_from_base32('G000000000000')$$,
                    $$snowflake_from_base32('g000000000000')$$,
                    $$snowflake_from_base32('ZZZZZZZZZZZZZ')$$,
                    $$snowflake_from_base58('jpXCZedGfVR')$$,
                    $$snowflake_from_base58('jpXCa111111')$$,
                    $$snowflake_from_base58('k1111111111')$$,
                    $$snowflake_from_base58('zzzzzzzzzzz')$$,
                    $$snowflake_from_base62('LygHa16AHYG')$$,
                    $$snowflake_from_base62('LygHa170000')$$,
                    $$snowflake_from_base62('M0000000000')$$,
                    $$snowflake_from_base62('zzzzzzzzzzz')$$]) AS call,
       error_of(call);

SELECT snowflake_from_base32('FZZZZZZZZZZZZ') AS base32, snowflake_from_base58('jpXCZedGfVQ') AS base58,
       snowflake_from_base62('LygHa16AHYF') AS base62;

-- the hint
SELECT base, hint, count(*)
  FROM forms, unnest(ARRAY['', '_', repeat('1', 14)]) AS text,
       error_of(format('snowflake_from_base%s(%L)', base, text))
 GROUP BY base, hint
 ORDER BY base;

-- Every character of ASCII in every place: what is read, and as what.
CREATE TABLE trials AS
SELECT base, alphabet, code, place, overlay(repeat(left(alphabet, 1), width) PLACING chr(code) FROM place) AS text,
       power(base::numeric, width - place) AS weight
  FROM forms, generate_series(1, 127) AS code, generate_series(2, width) AS place;

CREATE FUNCTION try_base(base integer, text text, OUT id bigint, OUT error text) LANGUAGE plpgsql AS $$
BEGIN
    id := from_base(base, text);
EXCEPTION WHEN invalid_text_representation OR numeric_value_out_of_range THEN
    GET STACKED DIAGNOSTICS error = PG_EXCEPTION_DETAIL;
END $$;

CREATE TABLE results AS
SELECT trials.*, id, error FROM trials, try_base(base, text);

SELECT base, string_agg(chr(code), '' ORDER BY code) AS read
  FROM results
 WHERE place = 2 AND id IS NOT NULL
 GROUP BY base
 ORDER BY base;

SELECT base, count(*) AS trials,
       count(*) FILTER (WHERE id IS DISTINCT FROM digit * weight AND digit IS NOT NULL) AS misread,
       count(*) FILTER (WHERE digit IS NULL AND id IS NOT NULL) AS wrongly_read,
       count(*) FILTER (WHERE digit IS NULL AND error NOT LIKE format('Character %s, %%, is not in the alphabet.', place))
           AS misplaced
  FROM results,
       LATERAL (SELECT CASE WHEN base <> 32 THEN chr(code)
                            ELSE translate(upper(chr(code)), 'OIL', '011') END) AS means (character),
       LATERAL (SELECT nullif(strpos(alphabet, character), 0) - 1) AS digits (digit)
 GROUP BY base
 ORDER BY base;

SELECT base, error
  FROM results
 WHERE place = 2 AND code IN (1, 32, 34, 47, 58, 126, 127)
 ORDER BY base, code;

-- Look-alikes all at once.
SELECT snowflake_from_base32('04w86bb0g4007') AS lower, snowflake_from_base32('o4W86bBOg40O7') AS o,
       snowflake_from_base32('0LIO1ilo1oOiL') = snowflake_from_base32('0110111010011') AS all;

-- Characters of several bytes, cut apart nowhere: messages stay ASCII.
SELECT call, state, message, detail
  FROM unnest(ARRAY[$$snowflake_from_base58('1Qgm' || convert_from('\xc3a9', 'UTF8') || 'VkniES')$$,
                    $$snowflake_from_base32(convert_from('\xd090', 'UTF8') || '4W86BB0G4007')$$,
                    $$snowflake_from_base62('0Czks0tP37' || convert_from('\xe38182', 'UTF8'))$$,
                    $$snowflake_from_base62('0Czks0tP37X' || convert_from('\xf09f9880', 'UTF8'))$$,
                    $$snowflake_from_base62(repeat(convert_from('\xf09f9880', 'UTF8'), 1000))$$]) AS call,
       error_of(call);

SELECT base, count(*) AS trials,
       count(*) FILTER (WHERE state = '22P02' AND (message || detail || hint) ~ '^[ -~]+$' AND
                        detail LIKE format('Character %s, byte 0x%%, is not in the alphabet.', place)) AS refused
  FROM forms, generate_series(1, width) AS place,
       unnest(ARRAY['\xc3a9', '\xd090', '\xe38182', '\xefbc90', '\xf09f9880']::bytea[]) AS bytes,
       error_of(format('from_base(%s, %L)', base,
                       overlay(repeat('1', width) PLACING convert_from(bytes, 'UTF8') FROM place)))
 GROUP BY base
 ORDER BY base;

-- One text an id, but for the spellings of base32: whatever is read is written again.
SELECT base, count(*) AS texts, count(*) FILTER (WHERE id IS NOT NULL) > 500 AS many_read,
       count(*) FILTER (WHERE id IS NULL) > 500 AS many_refused,
       count(*) FILTER (WHERE to_base(base, id) <> text) AS otherwise_written,
       count(*) FILTER (WHERE (id IS NULL) <> (text COLLATE "C" > to_base(base, -1))) AS wrongly_refused
  FROM (SELECT base, string_agg(substr(alphabet, 1 + get_byte(decode(md5(n::text), 'hex'), place) % base, 1), '') AS text
          FROM forms, generate_series(1, 3000) AS n, generate_series(0, width - 1) AS place
         GROUP BY base, n) AS random,
       try_base(base, text)
 GROUP BY base
 ORDER BY base;

-- Behind a text that is too short, a row has what looks like its last digit.
CREATE TABLE neighbours (short text, digit "char");
INSERT INTO neighbours SELECT left(snowflake_to_base32(175928847299117063), 12), digit FROM unnest('{0,O,5}'::"char"[]) AS digit;
SELECT digit, error_of(format('(SELECT snowflake_from_base32(short) FROM neighbours WHERE digit = %L)', digit)) FROM neighbours;
DROP TABLE neighbours;

-- As people use it: a column to look up by, or only a spelling of the key.
CREATE TABLE links (
    id   snowflake PRIMARY KEY,
    slug text COLLATE "C" GENERATED ALWAYS AS (snowflake_to_base62(id)) STORED UNIQUE
);
INSERT INTO links VALUES (175928847299117063), (1541815603606036480);
SELECT slug FROM links ORDER BY slug;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM links WHERE id = snowflake_from_base62('1ptWyK4WgZU');
SELECT * FROM links WHERE id = snowflake_from_base62('1ptWyK4WgZU');
SELECT * FROM links WHERE id = snowflake_from_base32('1asd13xh1f800');
RESET enable_seqscan;

-- NULL in, NULL out
SELECT num_nulls(snowflake_to_base32(NULL), snowflake_from_base32(NULL), snowflake_to_base58(NULL),
                 snowflake_from_base58(NULL), snowflake_to_base62(NULL), snowflake_from_base62(NULL)) AS nulls_of_6;

DROP TABLE vectors, forms, samples, texts, trials, results, links;
DROP FUNCTION to_base, from_base, error_of, try_base;
DROP EXTENSION snowflake;
