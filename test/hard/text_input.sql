-- text_input.sql -- what the type reads, and what it writes, is bigint's
--
-- The type's input function is the server's own, which is not to be had as a
-- library, so no fuzzer can be linked to it; it is fed through SQL instead, for
-- "seconds", with texts that are nearly numbers.  Whatever bigint says, a value
-- or an error, snowflake must say, and a value comes back as the same text.

\set ON_ERROR_STOP on
SELECT set_config('text.seconds', :'seconds', false) \g /dev/null

-- the value, or the SQLSTATE and message
CREATE FUNCTION pg_temp.reads(input text, type regtype) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    EXECUTE format('SELECT %L::%s::text', input, type) INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;

CREATE FUNCTION pg_temp.some_text() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT overlay(number PLACING piece FROM 1 + (random() * length(number))::int FOR (random() * 1.4)::int)
      FROM (SELECT (ARRAY['0', '-1', '42', '9223372036854775807', '-9223372036854775808', '9223372036854775808',
                          '-9223372036854775809', '175928847299117063', '0x7f', '1_000', '0b1', '0o7',
                          (random() * 1e19)::numeric(20, 0)::text])[1 + (random() * 12)::int],
                   (ARRAY['', ' ', E'\t', E'\n', '-', '+', '_', '.', 'e', 'x', '0', '9', '00000000000000000000',
                          E'\u00a0', E'\u0660', chr(1 + (random() * 126)::int)])[1 + (random() * 15)::int])
           AS t (number, piece)
$$;

DO $$
DECLARE
    until timestamptz := clock_timestamp() + make_interval(secs => current_setting('text.seconds')::int);
    texts bigint := 0;
    good bigint := 0;
    input text;
    wanted text;
BEGIN
    WHILE clock_timestamp() < until LOOP
        input := pg_temp.some_text();
        wanted := pg_temp.reads(input, 'bigint');
        IF pg_temp.reads(input, 'snowflake') IS DISTINCT FROM wanted THEN
            RAISE EXCEPTION 'as bigint: %, as snowflake: %, of %', wanted,
                pg_temp.reads(input, 'snowflake'), quote_literal(input);
        END IF;
        IF pg_temp.reads(wanted, 'snowflake') = wanted THEN
            good := good + 1;
        END IF;
        texts := texts + 1;
    END LOOP;
    IF good = 0 OR good = texts THEN
        RAISE EXCEPTION 'of % texts % were ids', texts, good;
    END IF;
    RAISE NOTICE '% texts, % of them ids', texts, good;
END $$;
