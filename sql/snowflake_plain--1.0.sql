/* snowflake_plain--1.0.sql */

-- The ids of snowflake in SQL and PL/pgSQL alone, for servers that take no C
-- extension.  Run this file in any way: paste it, put it into a migration, or say
-- CREATE EXTENSION snowflake_plain.  Then, once for each database:
--
--	SELECT snowflake_plain_setup('twitter', '5');
--
-- That makes, in the schema of the function, a sequence for each shard and functions
-- with the names and the answers of the extension snowflake.  Ids are bigint.  It needs
-- PostgreSQL 13 or later, and no right but to create in the schema.
--
-- THE MINTING RULE.  A sequence's value is a position, tick << sequence bits |
-- sequence number, as in the C extension.  A call draws a value, and then reads the
-- clock.
--
--	1. The value's tick has begun, and the value is at most "slack" positions behind
--	   the clock's: it is the id.
--	2. The tick has not begun: the call waits for it, 10 s at most.  It is the id then.
--	3. The value is further behind: the call drops it, moves the sequence up to the
--	   clock, and draws again.
--
-- Why no id repeats.  nextval() gives no value twice, and an id is a value with the
-- shard.  So an id can only repeat if the sequence goes back.  Only move 3 sets it:
--
--	a. It holds the gate, a lock on a table, so one session sets at a time.
--	b. It reads the clock first, and then the sequence: the sequence's last value is
--	   more than "slack" behind the position P of that clock.  It sets it to P.
--	c. Between b's reading and its setting, others may draw.  A value that they draw
--	   is behind by more than the slack as well, as long as the clock does not go back:
--	   so they drop it, come for the gate, and wait.  So each session draws at most
--	   one, and the slack is greater than the number of sessions that a server can
--	   have.  So the sequence is still below P when it is set to P.
--
-- What repeats ids all the same; doc/managed.md shows each case:
--
--	- WAL that was lost (a crash with synchronous_commit off, a standby that lagged
--	  and was promoted, a dump that was restored) and a clock that is behind the
--	  sequence's last time of before.
--	- setval() or ALTER SEQUENCE ... RESTART, by whoever may call them.
--	- Two servers with one shard.
--	- A session that is stopped between reading and setting in step 3, while the clock
--	  is set back, for so long that the clock passes P again.
--
-- A note about locking: the gate is locked in a subtransaction that is always rolled
-- back, so every way out of it gives the lock back, and neither the lock nor the
-- subtransaction needs a transaction id.  setval() is not undone by it.  Who finds the
-- gate locked waits for it with a lock that all who wait get at once.  Nobody waits for
-- anything else with the gate locked.

-- A layout as numbers: the epoch (microseconds since 2000-01-01 UTC), the length of a
-- tick (microseconds), the shift of the timestamp, bits and shift of the shard, bits and
-- shift of the sequence number, the last tick that is minted in, and the first and the
-- last tick whose time a server can hold.
CREATE FUNCTION snowflake_plain_layout(layout text) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    specification text := CASE layout
        WHEN 'twitter' THEN 'epoch=1288834974657 unit=1ms fields=timestamp:41,datacenter:5,worker:5,sequence:12'
        WHEN 'discord' THEN 'epoch=1420070400000 unit=1ms fields=timestamp:42,worker:5,process:5,sequence:12'
        WHEN 'instagram' THEN 'epoch=1314220021721 unit=1ms fields=timestamp:41,shard:13,sequence:10'
        WHEN 'sonyflake' THEN 'epoch=1409529600000 unit=10ms fields=timestamp:39,sequence:8,machine:16'
        WHEN 'sonyflake2' THEN 'epoch=1735689600000 unit=10ms fields=timestamp:39,sequence:8,machine:16'
        WHEN 'pgedge' THEN 'epoch=1672531200000 unit=1ms fields=timestamp:41,node:10,sequence:12'
        WHEN 'mastodon' THEN 'epoch=0 unit=1ms fields=timestamp:48,sequence:16'
        WHEN 'clickhouse' THEN 'epoch=0 unit=1ms fields=timestamp:41,machine:10,sequence:12'
        ELSE layout END;
    -- how the parts may follow each other
    order_of_parts CONSTANT text := '^timestamp:\d+(,(shard|datacenter|worker|process|machine|node):\d+){0,2}(,sequence:\d+)?$'
        || '|^timestamp:\d+,sequence:\d+(,(shard|datacenter|worker|process|machine|node):\d+){0,2}$';
    least_us    CONSTANT numeric := -211813488000000000;        -- what a timestamptz can hold
    greatest_us CONSTANT numeric := 9223371331199999999;
    words       text[] := regexp_split_to_array(btrim(specification, E' \t\r\n'), E'[ \t\r\n]+');
    given       jsonb := '{}';
    word        text[];
    epoch       numeric;
    unit        numeric;
    field       text[];
    bits        int;
    width       int[] := '{0,0,0}';     -- of the timestamp, the shard, the sequence number
    total       int := 0;
    time_shift  int;
    last_mint   numeric;
BEGIN
    IF specification !~ '=' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: there is no preset %s', to_json(layout));
    END IF;
    FOR i IN 1 .. cardinality(words) LOOP
        word := regexp_match(words[i], '^(epoch|unit|fields)=(.*)$');
        IF word IS NULL OR given ? word[1] THEN
            RAISE invalid_parameter_value USING MESSAGE = CASE WHEN word IS NULL
                THEN format('invalid layout: %s is not epoch=..., unit=... or fields=...', to_json(words[i]))
                ELSE format('invalid layout: "%s" appears twice', word[1]) END;
        END IF;
        given := given || jsonb_build_object(word[1], word[2]);
    END LOOP;
    IF NOT given ?& '{epoch,unit,fields}' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'invalid layout: it needs epoch=..., unit=... and fields=...';
    END IF;

    IF given ->> 'epoch' ~ '^\d{1,15}$' THEN
        epoch := (given ->> 'epoch')::numeric;
        IF epoch <> 0 AND epoch NOT BETWEEN 100000000000 AND 253402300799999 THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: epoch "%s" is not 0 or from 100000000000 '
                'to 253402300799999 milliseconds since 1970', given ->> 'epoch');
        END IF;
        epoch := epoch * 1000 - 946684800000000;
    ELSIF given ->> 'epoch' ~ '^\d{4}-\d\d-\d\d(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?Z)?$' THEN
        BEGIN
            epoch := ((given ->> 'epoch')::date - date '2000-01-01') * 86400000000::numeric + coalesce(round(date_part('epoch',
                nullif(rtrim(substr(given ->> 'epoch', 12), 'Z'), '')::time)::numeric * 1000000), 0);
        EXCEPTION WHEN datetime_field_overflow THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: epoch %s is not a date', given -> 'epoch');
        END;
    ELSE
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: epoch %s is neither Unix milliseconds nor a '
            'UTC time such as 2024-01-01T00:00:00Z', given -> 'epoch');
    END IF;

    word := regexp_match(given ->> 'unit', '^(\d{1,15})(us|ms|s)$');
    unit := word[1]::numeric * CASE word[2] WHEN 'us' THEN 1 WHEN 'ms' THEN 1000 ELSE 1000000 END;
    IF unit IS NULL OR unit NOT BETWEEN 1 AND 86400000000 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: unit %s is not a length such as 1ms, 10ms or '
            '1s, of a day at most', given -> 'unit');
    END IF;

    IF given ->> 'fields' !~ order_of_parts OR given ->> 'fields' ~ '([a-z]+):.*\y\1:' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: fields %s are not a timestamp, and then a shard '
            'of one or two parts and a sequence in either order, each with a width', given -> 'fields');
    END IF;
    FOR field IN SELECT * FROM regexp_matches(given ->> 'fields', '([a-z]+):(\d+)', 'g') LOOP
        bits := least(field[2]::numeric, 99);
        IF bits NOT BETWEEN 1 AND 63 THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: field "%s:%s" needs a width from 1 to 63 bits', field[1], field[2]);
        END IF;
        total := total + bits;
        IF field[1] = 'timestamp' THEN
            width[1] := bits;
        ELSIF field[1] = 'sequence' THEN
            width[3] := bits;
        ELSE
            width[2] := width[2] + bits;
        END IF;
    END LOOP;
    IF width[2] + width[3] = 0 OR total > 64 OR greatest(width[2], width[3]) > 31 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: fields "%s" sum to %s bits, of which an id has 64, '
            'and the shard and the sequence 31 at most', given ->> 'fields', total);
    END IF;
    time_shift := width[2] + width[3];
    last_mint := 2::numeric ^ least(width[1], 63 - time_shift) - 1;
    IF last_mint > div(greatest_us - epoch, unit) THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: a timestamp of %s bits runs past the last time '
            'that the server can hold', width[1]);
    END IF;
    RETURN ARRAY[epoch, unit, time_shift,
        width[2], CASE WHEN given ->> 'fields' ~ 'sequence:\d+$' THEN width[3] ELSE 0 END,
        width[3], CASE WHEN given ->> 'fields' ~ 'sequence:\d+$' THEN 0 ELSE width[2] END,
        trunc(last_mint), div(least_us - epoch, unit), least(div(greatest_us - epoch, unit), 9223372036854775806)]::bigint[];
END
$$;
COMMENT ON FUNCTION snowflake_plain_layout(text) IS 'a layout as numbers, for the other functions';

-- Make the sequences and the functions.  Calling it again adds shards, and lets no
-- other than the last call's be minted on; it moves no sequence.
CREATE FUNCTION snowflake_plain_setup(layout text, shards text) RETURNS void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $setup$
DECLARE
    context   text;
    schema    text;
    numbers   bigint[];
    element   text;
    range     text[];
    own       int[] := '{}';
    last      bigint;
    before    text;
    sequence  record;
    mask      bigint;
    slack     bigint;
    code      text;
    variant   text;
    form      text[];
BEGIN
    -- the schema of this function is that of all others
    GET DIAGNOSTICS context = PG_CONTEXT;
    SELECT quote_ident(nspname) INTO STRICT schema
      FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace
     WHERE p.oid = (regexp_match(context, 'function (.*?) line'))[1]::regprocedure;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake' AND extnamespace = schema::regnamespace) THEN
        RAISE duplicate_object USING
            MESSAGE = format('extension "snowflake" is in schema %s already', schema),
            HINT = 'It has all that snowflake_plain would make, and is better. To have both, load snowflake_plain into another schema.';
    END IF;

    EXECUTE format('SELECT %s.snowflake_plain_layout($1)', schema) INTO numbers USING layout;
    last := (1::bigint << numbers[4]::int) - 1;
    FOREACH element IN ARRAY string_to_array(shards, ',') LOOP
        range := regexp_match(element, '^\s*(\d{1,10})\s*(?:-\s*(\d{1,10})\s*)?$');
        IF range IS NULL OR range[1]::bigint > coalesce(range[2], range[1])::bigint OR coalesce(range[2], range[1])::bigint > last THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('invalid list of shards: %s', to_json(shards)),
                DETAIL = format('%s is not a shard or a range of shards, of 0 to %s.', to_json(element), last),
                HINT = 'Give this server shards that no other server has, such as ''5'' or ''0-7''.';
        END IF;
        own := own || ARRAY(SELECT generate_series(range[1]::int, coalesce(range[2], range[1])::int));
    END LOOP;
    own := ARRAY(SELECT DISTINCT unnest(own) ORDER BY 1);
    IF cardinality(own) NOT BETWEEN 1 AND 1024 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid list of shards: %s', to_json(shards)),
            DETAIL = format('It has %s shards, and each is a sequence: give 1 to 1024.', cardinality(own));
    END IF;

    -- the gate, which also tells the layout and the shards
    EXECUTE format('CREATE TABLE IF NOT EXISTS %s.snowflake_plain (layout text NOT NULL, shards int[] NOT NULL)', schema);
    EXECUTE format('LOCK TABLE %s.snowflake_plain IN ACCESS EXCLUSIVE MODE', schema);
    EXECUTE format('SELECT layout FROM %s.snowflake_plain', schema) INTO before;
    IF before <> layout THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the layout of snowflake_plain in schema %s is "%s"', schema, before),
            HINT = 'Ids of another layout would repeat these. Load snowflake_plain into another schema, and use other tables.';
    END IF;
    EXECUTE format('DELETE FROM %s.snowflake_plain', schema);
    EXECUTE format('INSERT INTO %s.snowflake_plain VALUES ($1, $2)', schema) USING layout, own;

    mask := (1::bigint << numbers[6]::int) - 1;
    FOR i IN 1 .. cardinality(own) LOOP
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS %s.snowflake_shard_%s AS bigint MINVALUE 0 START 0 MAXVALUE %s CACHE 1 NO CYCLE',
            schema, own[i], numbers[8] << numbers[6]::int | mask);
        SELECT * INTO STRICT sequence FROM pg_sequence WHERE seqrelid = format('%s.snowflake_shard_%s', schema, own[i])::regclass;
        IF sequence.seqincrement <> 1 OR sequence.seqcache <> 1 OR sequence.seqcycle OR sequence.seqmin <> 0 THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('sequence %s.snowflake_shard_%s is not one of snowflake_plain', schema, own[i]),
                DETAIL = format('It has INCREMENT %s, CACHE %s, MINVALUE %s%s.', sequence.seqincrement, sequence.seqcache,
                    sequence.seqmin, CASE WHEN sequence.seqcycle THEN ', CYCLE' ELSE '' END),
                HINT = 'Rename it, and call snowflake_plain_setup again.';
        END IF;
    END LOOP;

    -- More positions than a server has processes, and at least 16 ticks of them, so that
    -- the sequence of a busy shard is moved seldom.
    slack := greatest(16::bigint << numbers[6]::int, 1024,
        4 * (current_setting('max_connections')::int + current_setting('max_worker_processes')::int));
    code := $template$
-- reading ids

CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_time(id bigint, l bigint[]) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$
SELECT CASE WHEN id >> l[3]::int < l[9] THEN '-infinity'::timestamptz
            WHEN id >> l[3]::int > l[10] THEN 'infinity'::timestamptz
            ELSE timezone('UTC', timestamp '2000-01-01'
                + (((id >> l[3]::int) * l[2] + l[1]) / 86400000000) * interval '1 day'
                + (((id >> l[3]::int) * l[2] + l[1]) % 86400000000) * interval '1 microsecond') END
$f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_shard(id bigint, l bigint[]) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$
SELECT ((id >> l[5]::int) & ((1::bigint << l[4]::int) - 1))::int
$f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_sequence(id bigint, l bigint[]) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$
SELECT ((id >> l[7]::int) & ((1::bigint << l[6]::int) - 1))::int
$f$;

-- making ids

CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_encode(created_at timestamptz, shard int, sequence int, l bigint[], layout text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    t    timestamp := timezone('UTC', created_at);
    us   numeric;
    tick numeric;
BEGIN
    IF isfinite(t) THEN
        us := (t::date - date '2000-01-01') * 86400000000::numeric
            + round(date_part('epoch', t - date_trunc('day', t))::numeric * 1000000);
        tick := floor((us - l[1]) / l[2]);
    END IF;
    IF tick IS NULL OR tick NOT BETWEEN -(2::numeric ^ (63 - l[3])) AND 2::numeric ^ (63 - l[3]) - 1 THEN
        RAISE datetime_field_overflow USING
            MESSAGE = format('time %s is out of the layout''s range', created_at),
            DETAIL = format('Layout "%s" holds the times from %s to %s.', layout,
                {schema}.snowflake_plain_time(-9223372036854775808, l), {schema}.snowflake_plain_time(9223372036854775807, l));
    END IF;
    IF shard NOT BETWEEN 0 AND (1::bigint << l[4]::int) - 1 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('shard %s is out of range', shard),
            DETAIL = format('Layout "%s" has shards 0 to %s.', layout, (1::bigint << l[4]::int) - 1);
    END IF;
    IF sequence NOT BETWEEN 0 AND (1::bigint << l[6]::int) - 1 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('sequence %s is out of range', sequence),
            DETAIL = format('Layout "%s" has sequence numbers 0 to %s.', layout, (1::bigint << l[6]::int) - 1);
    END IF;
    RETURN (tick::bigint << l[3]::int) | (shard::bigint << l[5]::int) | (sequence::bigint << l[7]::int);
END
$f$;

-- with the layout of snowflake_plain_setup, or with another one

$template$;
    FOREACH variant IN ARRAY ARRAY['', ', layout text'] LOOP
        code := code || format($template$
CREATE OR REPLACE FUNCTION {schema}.snowflake_timestamp(id bigint%1$s) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_time(id, %2$s) $f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_shard(id bigint%1$s) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_shard(id, %2$s) $f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_sequence(id bigint%1$s) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_sequence(id, %2$s) $f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_decode(id bigint%1$s, OUT created_at timestamptz, OUT shard int, OUT sequence int)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $f$
SELECT {schema}.snowflake_plain_time(id, %2$s), {schema}.snowflake_plain_shard(id, %2$s), {schema}.snowflake_plain_sequence(id, %2$s)
$f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_encode(created_at timestamptz, shard int, sequence int%1$s) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_encode(created_at, shard, sequence, %2$s, %3$s) $f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_floor(ts timestamptz%1$s) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_encode(ts, 0, 0, %2$s, %3$s) $f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_ceil(ts timestamptz%1$s) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$
SELECT {schema}.snowflake_plain_encode(ts, 0, 0, %2$s, %3$s) | ((1::bigint << (%2$s)[3]::int) - 1)
$f$;
$template$,
            variant,
            CASE variant WHEN '' THEN '{layout_numbers}' ELSE '{schema}.snowflake_plain_layout(layout)' END,
            CASE variant WHEN '' THEN '{layout_name}' ELSE 'layout' END);
    END LOOP;
    code := code || $template$

-- texts

CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_to_text(id bigint, alphabet text, width int) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    number numeric := CASE WHEN id < 0 THEN id + 2::numeric ^ 64 ELSE id END;
    digits text := '';
BEGIN
    FOR i IN 1 .. width LOOP
        digits := substr(alphabet, mod(number, length(alphabet))::int + 1, 1) || digits;
        number := div(number, length(alphabet));
    END LOOP;
    RETURN digits;
END
$f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_from_text(digits text, form text, alphabet text, width int) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    number numeric := 0;
    digit  int;
BEGIN
    IF length(digits) <> width THEN
        RAISE invalid_text_representation USING
            MESSAGE = format('invalid %s text %s', form, to_json(digits)),
            DETAIL = format('It has %s characters.', length(digits)),
            HINT = format('A %s text is exactly %s characters of "%s".', form, width, alphabet);
    END IF;
    FOR i IN 1 .. width LOOP
        digit := strpos(alphabet, substr(digits, i, 1)) - 1;
        IF digit < 0 THEN
            RAISE invalid_text_representation USING
                MESSAGE = format('invalid %s text %s', form, to_json(digits)),
                DETAIL = format('Character %s, %s, is not in the alphabet.', i, to_json(substr(digits, i, 1))),
                HINT = format('A %s text is exactly %s characters of "%s".', form, width, alphabet);
        END IF;
        number := number * length(alphabet) + digit;
    END LOOP;
    IF number >= 2::numeric ^ 64 THEN
        RAISE numeric_value_out_of_range USING
            MESSAGE = format('%s text "%s" is out of range', form, digits),
            DETAIL = 'It is a number of more than 64 bits.';
    END IF;
    RETURN CASE WHEN number >= 2::numeric ^ 63 THEN number - 2::numeric ^ 64 ELSE number END;
END
$f$;

$template$;
    FOREACH form SLICE 1 IN ARRAY ARRAY[
        ['base32', '0123456789ABCDEFGHJKMNPQRSTVWXYZ', '13', $x$translate(upper(id), 'ILO', '110')$x$],
        ['base58', '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz', '11', 'id'],
        ['base62', '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', '11', 'id']] LOOP
        code := code || format($template$
CREATE OR REPLACE FUNCTION {schema}.snowflake_to_%1$s(id bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_to_text(id, '%2$s', %3$s) $f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_from_%1$s(id text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_from_text(%4$s, '%1$s', '%2$s', %3$s) $f$;
$template$, form[1], form[2], form[3], form[4]);
    END LOOP;
    code := code || $template$

-- minting

CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_now() RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    us bigint := (date_part('epoch', clock_timestamp()) * 1000000)::bigint - {epoch};
BEGIN
    IF us < 0 THEN
        RAISE datetime_field_overflow USING
            MESSAGE = 'clock is before the epoch of the layout',
            HINT = 'Check the server''s clock, and the layout that snowflake_plain_setup was given.';
    END IF;
    IF us / {unit} > {last_tick} THEN
        RAISE datetime_field_overflow USING
            MESSAGE = 'the layout of snowflake ids has expired',
            DETAIL = 'Its last tick is {last_tick}, and the clock is past it.';
    END IF;
    RETURN us / {unit};
END
$f$;

-- Step 3: move the sequence up to the clock.  "patient" waits for its turn at the gate.
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_jump(shard int, patient boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    ids regclass := '{schema_literal}.snowflake_shard_' || shard;
    p   bigint;
BEGIN
    IF current_setting('max_connections')::int + current_setting('max_worker_processes')::int
        + current_setting('max_wal_senders')::int + current_setting('autovacuum_max_workers')::int >= {slack} THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'snowflake_plain was set up for fewer sessions than this server can have',
            DETAIL = format('It was set up for %s processes, and "max_connections" is %s.', {slack}, current_setting('max_connections')),
            HINT = 'Call snowflake_plain_setup again, with the same arguments.';
    END IF;
    IF pg_sequence_last_value(ids) >= ({schema}.snowflake_plain_now() << {sequence_bits}) - {slack} THEN
        RETURN;                         -- somebody else has moved it: draw again
    END IF;
    BEGIN
        IF patient THEN
            LOCK TABLE {schema}.snowflake_plain IN EXCLUSIVE MODE;
        ELSE
            LOCK TABLE {schema}.snowflake_plain IN EXCLUSIVE MODE NOWAIT;
        END IF;
        p := {schema}.snowflake_plain_now() << {sequence_bits};
        IF pg_sequence_last_value(ids) IS NULL OR pg_sequence_last_value(ids) < p - {slack} THEN
            PERFORM setval(ids, p, false);
        END IF;
        RAISE SQLSTATE 'SFJMP';
    EXCEPTION
        WHEN SQLSTATE 'SFJMP' THEN
            RETURN;
        WHEN lock_not_available THEN
            IF patient THEN
                RAISE;                  -- lock_timeout
            END IF;
    END;
    BEGIN
        LOCK TABLE {schema}.snowflake_plain IN ROW SHARE MODE;     -- until the gate is open
        RAISE SQLSTATE 'SFJMP';
    EXCEPTION WHEN SQLSTATE 'SFJMP' THEN
        RETURN;
    END;
END
$f$;

-- Step 2: wait until a tick begins, in short naps, so that a clock that is set right is seen.
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_wait(tick bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    us bigint;
BEGIN
    LOOP
        us := (tick - {schema}.snowflake_plain_now()) * {unit};
        EXIT WHEN us <= 0;
        IF us > greatest(10000000, 2 * {unit}) THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('clock is %s s behind the last snowflake id', us / 1000000),
                HINT = 'Check the server''s time synchronization. Minting goes on by itself when the clock has caught up. '
                    'Setting the sequence back repeats ids.';
        END IF;
        PERFORM pg_sleep(least(us, 100000) / 1000000.0);
    END LOOP;
END
$f$;

$template$;
    -- the rule, for a shard that is named and for the only one
    FOREACH form SLICE 1 IN ARRAY ARRAY[
        ['shard int', 'shard', $x$('{schema_literal}.snowflake_shard_' || shard)::pg_catalog.regclass$x$, $x$
    IF shard <> ALL {own} THEN
        RAISE insufficient_privilege USING
            MESSAGE = pg_catalog.format('shard %s is not one of this server''s', shard),
            DETAIL = 'snowflake_plain_setup was given the shards {own_text}.',
            HINT = 'Call snowflake_nextval() without an argument to mint on this server''s own shards.';
    END IF;$x$],
        ['', own[1]::text, $x$'{schema_literal}.snowflake_shard_{mine}'$x$, '']] LOOP
        code := code || replace(replace(replace(replace($template$
CREATE OR REPLACE FUNCTION {schema}.snowflake_nextval({arguments}) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT AS $f$
DECLARE
    c       bigint;
    tick    bigint;
    patient boolean := false;
BEGIN{check}
    LOOP
        c := pg_catalog.nextval({ids});
        -- after nextval: a session that was held up here draws again
        tick := ((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::bigint - {epoch}) / {unit};
        IF c >= (tick << {sequence_bits}) - {slack} THEN
            IF c >> {sequence_bits} > tick THEN
                PERFORM {schema}.snowflake_plain_wait(c >> {sequence_bits});
            END IF;
            RETURN ((c >> {sequence_bits}) << {time_shift}) | ({mine}::bigint << {shard_shift}) | ((c & {mask}) << {sequence_shift});
        END IF;
        PERFORM {schema}.snowflake_plain_jump({mine}, patient);
        patient := true;
    END LOOP;
END
$f$;
$template$, '{arguments}', form[1]), '{check}', form[4]), '{ids}', form[3]), '{mine}', form[2]);
    END LOOP;
    IF cardinality(own) > 1 THEN
        code := code || $template$
CREATE OR REPLACE FUNCTION {schema}.snowflake_nextval() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $f$
SELECT {schema}.snowflake_nextval({own}[1 + pg_catalog.pg_backend_pid() % {count}])
$f$;
$template$;
    END IF;
    code := code || $template$
COMMENT ON FUNCTION {schema}.snowflake_nextval(int) IS 'mint an id on a shard of this server';
COMMENT ON FUNCTION {schema}.snowflake_nextval() IS 'mint an id on a shard of this server, the same one in all of a session';
COMMENT ON TABLE {schema}.snowflake_plain IS 'the layout and the shards of snowflake_plain, and the lock of those who move a sequence';
REVOKE ALL ON TABLE {schema}.snowflake_plain FROM PUBLIC;

$template$;
    FOREACH form SLICE 1 IN ARRAY ARRAY[
        ['schema_literal', replace(schema, '''', '''''')],
        ['schema', schema],
        ['layout_numbers', quote_literal(numbers::text) || '::bigint[]'],
        ['layout_name', quote_literal(layout)],
        ['own_text', array_to_string(own, ', ')],
        ['own', format('(%L::int[])', own)],
        ['count', cardinality(own)::text],
        ['epoch', (numbers[1] + 946684800000000)::text],
        ['unit', numbers[2]::text],
        ['time_shift', numbers[3]::text],
        ['shard_shift', numbers[5]::text],
        ['sequence_bits', numbers[6]::text],
        ['sequence_shift', numbers[7]::text],
        ['last_tick', numbers[8]::text],
        ['mask', mask::text],
        ['slack', slack::text]] LOOP
        code := replace(code, '{' || form[1] || '}', form[2]);
    END LOOP;
    EXECUTE code;
END
$setup$;
COMMENT ON FUNCTION snowflake_plain_setup(text, text) IS 'make the sequences and the functions that mint ids of a layout on this server''s shards';
