/* snowflake_plain.sql */

-- The ids of snowflake in SQL and PL/pgSQL alone, for servers that take no C
-- extension.  Run this file in any way: paste it, put it into a migration, or say
-- CREATE EXTENSION snowflake_plain.  Then, once for each database:
--
--	SELECT snowflake_plain_setup('twitter', '5');
--
-- That makes, in the schema of the function, two sequences for each shard, and functions
-- with the names and the answers of the extension snowflake.  Ids are bigint.  It needs
-- PostgreSQL 13 or later, and no right but to create in the schema.
--
-- THE MINTING RULE.  The value of snowflake_shard_N is a position, tick << sequence
-- bits | sequence number, as in the C extension.  snowflake_open_N says whether the
-- shard is open: its value is the mark of snowflake_shard_N in this run of the server; any
-- other, or none, is closed.  A call
--
--	1. looks whether the shard is open; if not, it goes to 4.
--	2. draws a value, and then reads the clock.
--	3. The value's tick is this one or one of the few before it: it is the id.  The
--	   tick has not begun: the call waits for it, 10 s at most; then it is the id.
--	   The tick is long over: the call drops the value.
--	4. takes the gate, a lock on a view.  It closes the shard, reads the sequence, moves
--	   it up to P, the first position of the clock's tick, opens the shard, leaves the
--	   gate, and goes to 1.
--
-- Why no id repeats.  An id is a value with the shard, and nextval() gives no value twice
-- while the sequence does not go back.  Only step 4 sets it:
--
--	a. The gate is held, so one session at a time sets it.
--	b. A session that draws has seen the shard open.  In step 4 it is closed.  So only
--	   sessions that were between 1 and 2 when it was closed can still draw, once each:
--	   fewer values than the server can have processes, "sessions".
--	c. The sequence is read after the closing.  It is set only if it is more than
--	   "sessions" below P.  So it still is below P when it is set.  If it is nearer, it
--	   is drawn up to P.
--	d. Whoever is stopped in step 4 leaves the shard closed: the next call does step 4.
--
-- So neither the clock nor the time that a step takes matters to a, b, and c.
--
-- After a crash, WAL may be lost, and the sequence goes back with it; so it does where a
-- dump is restored, whole or of that sequence.  Then the clock decides: no id was given
-- whose tick is later than the clock was.  Each start of a server and each sequence that a
-- dump brings has another mark, so the shard is closed, and who opens a closed shard moves
-- the sequence past the present tick.  Where a process crashes and the server goes on, its
-- run stays the same; but snowflake_open_N is unlogged, and a recovery sets it back.
-- (Before 15 no sequence can be unlogged: then an id that was not committed can be
-- repeated if the server goes on within 16 ms, or within a tick that is longer.)
--
-- What repeats ids all the same; doc/managed.md shows each case:
--
--	- WAL that was lost (a crash with synchronous_commit off, a standby that lagged and
--	  was promoted, a backup or dump that was restored) and a clock that is behind the
--	  last lost id.
--	- setval(), nextval() or ALTER SEQUENCE on these sequences, by their owner.
--	- Two servers with one shard, or two databases of one server.  In one database
--	  snowflake_plain_setup refuses a shard that another schema has.
--
-- A note about locking: the gate is locked in a subtransaction that is always rolled
-- back, so every way out of it gives the lock back.  setval() is not undone by it.  Who
-- finds the gate locked waits for it with a lock that all who wait get at once.  Nobody
-- waits for anything else with the gate locked.  It is a view, because ANALYZE, VACUUM
-- and those who save a database lock tables; setup locks it only when it makes it.
--
-- Nothing is sent to a client with the gate locked either: one that does not read
-- would keep it.  Whatever client_min_messages says, step 4 sends errors alone, and
-- those when it has left the gate.
--
-- A note about rights: snowflake_nextval() runs as its owner, so that callers need
-- EXECUTE alone, and cannot touch the sequences.
--
-- A note about names: a function either has a search_path of its own, or names the
-- schema of all that it uses, because it has the caller's search_path: one of its own
-- would cost as much as the id, or keep the planner out.  In the texts below {schema}
-- stands for that of all functions, and {+} for OPERATOR(pg_catalog.+).

-- A layout as numbers: the epoch (microseconds since 2000-01-01 UTC), the length of a
-- tick (microseconds), the shift of the timestamp, bits and shift of the shard, bits and
-- shift of the sequence number, the last tick that is minted in, the first and the last
-- tick whose time a server can hold, and the tick in which 2000 began, with the
-- microseconds from 2000 to its begin, 0 or less, so that no product passes 64 bits.
CREATE FUNCTION snowflake_plain_layout(layout pg_catalog.text) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
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
        WHEN 'pgdog' THEN 'epoch=1764184395000 unit=1ms fields=timestamp:41,node:10,sequence:12'
        WHEN 'pgdog_compact' THEN 'epoch=1764184395000 unit=1ms fields=timestamp:41,node:6,sequence:6'
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
    first_tick  numeric;            -- of 2000
BEGIN
    IF specification !~ '=' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: there is no preset %s', to_json(layout));
    END IF;
    FOR i IN 1 .. cardinality(words) LOOP
        word := regexp_match(words[i], '^(epoch|unit|fields)=(.*)$');
        IF word IS NULL THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: %s is not epoch=..., unit=... or fields=...', to_json(words[i]));
        ELSIF given ? word[1] THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: "%s" appears twice', word[1]);
        END IF;
        given := given || jsonb_build_object(word[1], word[2]);
    END LOOP;
    IF NOT given ?& '{epoch,unit,fields}' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: %s=... is missing', (SELECT part FROM unnest('{epoch,unit,fields}'::text[]) AS part WHERE NOT given ? part LIMIT 1));
    END IF;

    IF given ->> 'epoch' ~ '^\d{1,15}$' THEN
        epoch := given ->> 'epoch';
        IF epoch <> 0 AND epoch NOT BETWEEN 100000000000 AND 253402300799999 THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: epoch "%s" is not 0 or from 100000000000 to 253402300799999 milliseconds since 1970', given ->> 'epoch');
        END IF;
        epoch := epoch * 1000 - 946684800000000;
    ELSIF given ->> 'epoch' ~ '^\d{4}-\d\d-\d\d(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?Z)?$' THEN
        BEGIN
            epoch := ((given ->> 'epoch')::date - date '2000-01-01') * 86400000000 + coalesce(round(date_part('epoch',
                nullif(rtrim(substr(given ->> 'epoch', 12), 'Z'), '')::time)::numeric * 1000000), 0);
        EXCEPTION WHEN datetime_field_overflow THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: epoch %s is not a date', given -> 'epoch');
        END;
    ELSE
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: epoch %s is neither Unix milliseconds nor a UTC time such as 2024-01-01T00:00:00Z', given -> 'epoch');
    END IF;

    word := regexp_match(given ->> 'unit', '^(\d{1,15})(us|ms|s)$');
    unit := word[1]::numeric * CASE word[2] WHEN 'us' THEN 1 WHEN 'ms' THEN 1000 ELSE 1000000 END;
    IF unit IS NULL OR unit NOT BETWEEN 1 AND 86400000000 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: unit %s is not a length such as 1ms, 10ms or 1s, of a day at most', given -> 'unit');
    END IF;

    IF given ->> 'fields' !~ order_of_parts OR given ->> 'fields' ~ '([a-z]+):.*\y\1:' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: fields %s are not a timestamp, and then a shard of one or two parts and a sequence in either order, each with a width', given -> 'fields');
    END IF;
    FOR field IN SELECT * FROM regexp_matches(given ->> 'fields', '([a-z]+):(\d+)', 'g') LOOP
        bits := least(field[2]::numeric, 99);
        IF bits NOT BETWEEN 1 AND 63 THEN
            RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: field "%s" needs a width from 1 to 63 bits', field[1]);
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
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: fields "%s" sum to %s bits, of which an id has 64, and its shard or its sequence number 31 at most', given ->> 'fields', total);
    END IF;
    time_shift := width[2] + width[3];
    last_mint := 2::numeric ^ least(width[1], 63 - time_shift) - 1;
    IF last_mint > div(greatest_us - epoch, unit) THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid layout: a timestamp of %s bits runs past the last time that the server can hold', width[1]);
    END IF;
    first_tick := div(-epoch, unit) - CASE WHEN mod(-epoch, unit) < 0 THEN 1 ELSE 0 END;
    RETURN ARRAY[epoch, unit, time_shift,
        width[2], CASE WHEN given ->> 'fields' ~ 'sequence:\d+$' THEN width[3] ELSE 0 END,
        width[3], CASE WHEN given ->> 'fields' ~ 'sequence:\d+$' THEN 0 ELSE width[2] END,
        trunc(last_mint), div(least_us - epoch, unit), least(div(greatest_us - epoch, unit), 9223372036854775806),
        first_tick, epoch + first_tick * unit];
END
$$;
COMMENT ON FUNCTION snowflake_plain_layout(pg_catalog.text) IS 'a layout as numbers, for the other functions';

-- Make the sequences and the functions.  Calling it again adds shards, and lets no
-- other than the last call's be minted on; it moves no sequence.  The last argument is
-- never given: its default tells the schema, which the server keeps by number.
CREATE FUNCTION snowflake_plain_setup(layout pg_catalog.text, shards pg_catalog.text,
        neighbour pg_catalog.regprocedure DEFAULT 'snowflake_plain_layout(pg_catalog.text)') RETURNS pg_catalog.void
    LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET client_min_messages = warning
AS $setup$
DECLARE
    schema    text := (SELECT quote_ident(nspname) FROM pg_proc JOIN pg_namespace AS n ON n.oid = pronamespace WHERE pg_proc.oid = neighbour);
    numbers   bigint[];
    element   text;
    range     text[];
    own       int[] := '{}';
    last      bigint;
    before    text;
    sequence  record;
    same      record;
    is_same   boolean;
    foreign_one record;
    mask      bigint;
    code      text;
    variant   text;
    form      text[];
    parts     jsonb;
    quote     text := '$f$';
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake' AND extnamespace = schema::regnamespace) THEN
        RAISE duplicate_object USING
            MESSAGE = format('extension "snowflake" is in schema %s, with functions of the same names', schema),
            HINT = 'Use it: it has all that snowflake_plain would make. To go from one to the other, load snowflake_plain into a schema of its own.';
    END IF;

    EXECUTE format('SELECT %s.snowflake_plain_layout($1)', schema) INTO numbers USING layout;
    last := (1::bigint << numbers[4]::int) - 1;
    FOREACH element IN ARRAY string_to_array(shards, ',') LOOP
        range := regexp_match(element, '^\s*(\d{1,10})\s*(?:-\s*(\d{1,10})\s*)?$');
        IF range IS NULL OR range[1]::bigint > coalesce(range[2], range[1])::bigint OR coalesce(range[2], range[1])::bigint > last THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('invalid list of shards %s', to_json(shards)),
                DETAIL = format('%s is not a shard or a range of shards, of 0 to %s.', to_json(element), last),
                HINT = 'Give this server shards that no other server has, such as ''8'' or ''8-15''.';
        END IF;
        own := own || ARRAY(SELECT generate_series(range[1]::int, coalesce(range[2], range[1])::int));
    END LOOP;
    own := ARRAY(SELECT DISTINCT unnest(own) ORDER BY 1);
    IF cardinality(own) NOT BETWEEN 1 AND 1024 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid list of shards %s', to_json(shards)),
            DETAIL = format('It has %s shards, and each is a sequence: give 1 to 1024.', cardinality(own));
    END IF;

    -- one at a time; no lock of this function keeps anybody from minting
    PERFORM pg_advisory_xact_lock(hashtextextended('snowflake_plain_setup', 0));

    -- who else has these shards of this layout here
    FOR same IN
        SELECT shard, format('sequence %s', c.oid::regclass) AS name, substring(obj_description(c.oid, 'pg_class') FROM 'layout "(.*)"') AS layout
          FROM unnest(own) AS shard JOIN pg_class AS c ON c.relname = 'snowflake_shard_' || shard
         WHERE c.relkind = 'S' AND c.relnamespace <> schema::regnamespace
        UNION ALL
        SELECT shard, 'extension "snowflake"', current_setting('snowflake.layout', true)
          FROM unnest(own) AS shard
         WHERE EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake')
           AND EXISTS (SELECT FROM regexp_matches(current_setting('snowflake.shards', true), '(?:^|,)\s*(\d+)\s*(?:-\s*(\d+))?', 'g') AS m
                        WHERE shard BETWEEN m[1]::numeric AND coalesce(m[2], m[1])::numeric)
    LOOP
        BEGIN
            EXECUTE format('SELECT %s.snowflake_plain_layout($1) = $2', schema) INTO is_same USING same.layout, numbers;
        EXCEPTION WHEN invalid_parameter_value THEN
            is_same := NULL;
        END;
        IF is_same IS NOT FALSE THEN
            RAISE duplicate_object USING
                MESSAGE = format('shard %s is that of %s', same.shard, same.name),
                DETAIL = 'In one database, each id would be given twice.',
                HINT = 'Call its snowflake_nextval(), which serves all schemas, or give another shard. '
                    'If nothing mints there any more, drop the sequence, or take the shard from "snowflake.shards".';
        END IF;
    END LOOP;

    -- the layout and the shards, and the gate
    EXECUTE format('CREATE TABLE IF NOT EXISTS %s.snowflake_plain (layout text NOT NULL, shards int[] NOT NULL)', schema);
    IF to_regclass(format('%s.snowflake_plain_gate', schema)) IS NULL THEN
        EXECUTE format('CREATE VIEW %s.snowflake_plain_gate AS SELECT ''who moves a sequence locks this view'' AS note', schema);
        EXECUTE format('COMMENT ON VIEW %s.snowflake_plain_gate IS %L', schema, 'the lock of those who move a sequence');
    END IF;
    SELECT relname, CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE 'relation' END AS kind INTO foreign_one FROM pg_class
     WHERE relnamespace = schema::regnamespace AND relname IN ('snowflake_plain', 'snowflake_plain_gate')
       AND (relkind <> CASE relname WHEN 'snowflake_plain' THEN 'r' ELSE 'v' END OR relowner <> current_user::regrole);
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('%s %s.%s is not the one of snowflake_plain', foreign_one.kind, schema, foreign_one.relname),
            HINT = 'Rename it, and call snowflake_plain_setup again.';
    END IF;
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
        EXECUTE format('CREATE %s SEQUENCE IF NOT EXISTS %s.snowflake_open_%s AS bigint MINVALUE 0 START 0 CACHE 1 NO CYCLE',
            CASE WHEN current_setting('server_version_num')::int >= 150000 THEN 'UNLOGGED' ELSE '' END, schema, own[i]);
        FOREACH element IN ARRAY ARRAY['shard', 'open'] LOOP
            SELECT * INTO STRICT sequence FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
             WHERE seqrelid = format('%s.snowflake_%s_%s', schema, element, own[i])::regclass;
            IF sequence.seqincrement <> 1 OR sequence.seqcache <> 1 OR sequence.seqcycle OR sequence.seqmin <> 0
                OR sequence.seqtypid <> 'bigint'::regtype OR sequence.relowner <> current_user::regrole THEN
                RAISE object_not_in_prerequisite_state USING
                    MESSAGE = format('sequence %s.snowflake_%s_%s is not one of snowflake_plain', schema, element, own[i]),
                    DETAIL = format('It has INCREMENT %s, CACHE %s, MINVALUE %s, type %s%s, and the owner %s.', sequence.seqincrement,
                        sequence.seqcache, sequence.seqmin, sequence.seqtypid::regtype, CASE WHEN sequence.seqcycle THEN ', CYCLE' ELSE '' END,
                        sequence.relowner::regrole),
                    HINT = 'Rename it, and call snowflake_plain_setup again.';
            END IF;
            EXECUTE format('COMMENT ON SEQUENCE %s.snowflake_%s_%s IS %L', schema, element, own[i], CASE element
                WHEN 'shard' THEN format('the last position of a shard of layout "%s"; only snowflake_nextval() may touch it', layout)
                ELSE 'whether the shard is open; only snowflake_nextval() may touch it' END);
        END LOOP;
    END LOOP;

    code := $template$
-- reading ids

CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_time(id bigint, l bigint[]) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$
SELECT CASE WHEN (id {>>} l[3]::int) {<} l[9] THEN '-infinity'::pg_catalog.timestamptz
            WHEN (id {>>} l[3]::int) {>} l[10] THEN 'infinity'::pg_catalog.timestamptz
            ELSE pg_catalog.timezone('UTC', timestamp '2000-01-01'
                {+} (((((id {>>} l[3]::int) {-} l[11]) {*} l[2] {+} l[12]) {/} 86400000000)::double precision {*} interval '1 day')
                {+} (((((id {>>} l[3]::int) {-} l[11]) {*} l[2] {+} l[12]) {%} 86400000000)::double precision {*} interval '1 microsecond')) END
$f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_shard(id bigint, l bigint[]) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$
SELECT ((id {>>} l[5]::int) {&} ((1::bigint {<<} l[4]::int) {-} 1))::int
$f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_sequence(id bigint, l bigint[]) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$
SELECT ((id {>>} l[7]::int) {&} ((1::bigint {<<} l[6]::int) {-} 1))::int
$f$;

-- A time as messages show it, whatever the DateStyle and the TimeZone.
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_time_text(at timestamptz) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    t    timestamp := timezone('UTC', at);
    year int;
BEGIN
    IF NOT isfinite(t) THEN
        RETURN t;
    END IF;
    year := date_part('year', t);
    year := CASE WHEN year < 0 THEN year + 1 ELSE year END;
    RETURN CASE WHEN year < 0 THEN '-' || lpad((-year)::text, greatest(3, length((-year)::text)), '0')
                ELSE lpad(year::text, greatest(4, length(year::text)), '0') END
        || to_char(t, '-MM-DD"T"HH24:MI:SS') || CASE to_char(t, 'US') WHEN '000000' THEN ''
               ELSE '.' || CASE WHEN to_char(t, 'US') LIKE '%000' THEN to_char(t, 'MS') ELSE to_char(t, 'US') END END || 'Z';
END
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
        us := (t::date - date '2000-01-01') * 86400000000
            + round(date_part('epoch', t - date_trunc('day', t))::numeric * 1000000);
        tick := div(us - l[1], l[2]) - CASE WHEN mod(us - l[1], l[2]) < 0 THEN 1 ELSE 0 END;     -- "/" rounds
    END IF;
    IF tick IS NULL OR tick NOT BETWEEN -(2::numeric ^ (63 - l[3])) AND 2::numeric ^ (63 - l[3]) - 1 THEN
        RAISE datetime_field_overflow USING
            MESSAGE = format('time %s is out of the layout''s range', {schema}.snowflake_plain_time_text(created_at)),
            DETAIL = format('Layout "%s" holds the times from %s to %s.', layout,
                {schema}.snowflake_plain_time_text({schema}.snowflake_plain_time((-9223372036854775808)::bigint, l)),
                {schema}.snowflake_plain_time_text({schema}.snowflake_plain_time(9223372036854775807::bigint, l)));
    END IF;
    IF shard NOT BETWEEN 0 AND (1::bigint << l[4]::int) - 1 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('shard %s is out of range', shard),
            DETAIL = format('Layout "%s" has shard numbers 0 to %s.', layout, (1::bigint << l[4]::int) - 1);
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
SELECT {schema}.snowflake_plain_encode(ts, 0, 0, %2$s, %3$s) {|} ((1::bigint {<<} (%2$s)[3]::int) {-} 1)
$f$;
COMMENT ON FUNCTION {schema}.snowflake_timestamp(bigint%4$s) IS 'creation time of an id';
COMMENT ON FUNCTION {schema}.snowflake_shard(bigint%4$s) IS 'shard of an id';
COMMENT ON FUNCTION {schema}.snowflake_sequence(bigint%4$s) IS 'sequence number of an id';
COMMENT ON FUNCTION {schema}.snowflake_decode(bigint%4$s) IS 'creation time, shard and sequence number of an id';
COMMENT ON FUNCTION {schema}.snowflake_encode(timestamptz, int, int%4$s) IS 'an id of a time, a shard and a sequence number';
COMMENT ON FUNCTION {schema}.snowflake_floor(timestamptz%4$s) IS 'the least id of the tick of a time';
COMMENT ON FUNCTION {schema}.snowflake_ceil(timestamptz%4$s) IS 'the greatest id of the tick of a time';
$template$,
            variant,
            CASE variant WHEN '' THEN '{layout_numbers}' ELSE '{schema}.snowflake_plain_layout(layout)' END,
            CASE variant WHEN '' THEN '{layout_name}' ELSE 'layout' END,
            CASE variant WHEN '' THEN '' ELSE ', text' END);
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
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_from_text(given text, form text, alphabet text, last text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    digits text := CASE form WHEN 'base32' THEN translate(given, 'abcdefghijklmnopqrstuvwxyzILO', 'ABCDEFGH1JK1MN0PQRSTUVWXYZ110') ELSE given END;
    number numeric := 0;
    digit  int;
    beyond int := 0;        -- by how much the first digit that differs is beyond that of the last text
    place  int := 1;        -- and which it is
    fault  text;
    bytes  bytea;
    byte   int;
    shown  text[] := ARRAY[]::text[];   -- the bytes as a message quotes them
BEGIN
    FOR i IN 1 .. length(last) LOOP
        digit := strpos(alphabet, substr(digits, i, 1)) - 1;
        IF i > length(digits) THEN
            fault := 'Character %s is missing.';
            place := i;
        ELSIF digit < 0 THEN
            fault := 'Character %s, %s, is not in the alphabet.';
            place := i;
        END IF;
        EXIT WHEN fault IS NOT NULL;
        IF beyond = 0 THEN
            beyond := digit - strpos(alphabet, substr(last, i, 1)) + 1;
            place := i;
        END IF;
        number := number * length(alphabet) + digit;
    END LOOP;
    IF fault IS NULL AND length(digits) > length(last) THEN
        fault := 'Character %s, %s, is past the end.';
        place := length(last) + 1;
    END IF;
    IF fault IS NOT NULL THEN
        bytes := convert_to(given, getdatabaseencoding());
        FOR i IN 1 .. length(bytes) LOOP
            byte := get_byte(bytes, i - 1);
            shown := shown || CASE WHEN byte BETWEEN 32 AND 126 THEN chr(byte) WHEN byte = 10 THEN chr(92) || 'n'
                                   ELSE chr(92) || 'x' || lpad(to_hex(byte), 2, '0') END;
            IF i < length(bytes) AND length(array_to_string(shown, '')) >= 64 THEN
                shown := shown || text '...';
                EXIT;
            END IF;
        END LOOP;
        IF place <= length(bytes) THEN
            byte := get_byte(bytes, place - 1);     -- those before it are of one byte
        END IF;
        RAISE invalid_text_representation USING
            MESSAGE = format('invalid %s text "%s"', form, array_to_string(shown, '')),
            DETAIL = format(fault, place, CASE WHEN byte BETWEEN 32 AND 126 THEN '"' || chr(byte) || '"' ELSE 'byte 0x' || lpad(to_hex(byte), 2, '0') END),
            HINT = format('A %s text is exactly %s characters of "%s".', form, length(last), alphabet);
    ELSIF beyond > 0 THEN
        RAISE numeric_value_out_of_range USING
            MESSAGE = format('%s text "%s" is out of range', form, given),
            DETAIL = format('Character %s, "%s", takes it past "%s", the last text of 64 bits.', place, substr(given, place, 1), last);
    END IF;
    RETURN CASE WHEN number >= 2::numeric ^ 63 THEN number - 2::numeric ^ 64 ELSE number END;
END
$f$;

$template$;
    FOREACH form SLICE 1 IN ARRAY ARRAY[
        ['base32', '0123456789ABCDEFGHJKMNPQRSTVWXYZ', 'FZZZZZZZZZZZZ'],
        ['base58', '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz', 'jpXCZedGfVQ'],
        ['base62', '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', 'LygHa16AHYF']] LOOP
        code := code || format($template$
CREATE OR REPLACE FUNCTION {schema}.snowflake_to_%1$s(id bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {schema}.snowflake_plain_to_text(id, '%2$s'::pg_catalog.text, %4$s) $f$;
CREATE OR REPLACE FUNCTION {schema}.snowflake_from_%1$s(id text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $f$ SELECT {schema}.snowflake_plain_from_text(id, '%1$s'::pg_catalog.text, '%2$s'::pg_catalog.text, '%3$s'::pg_catalog.text) $f$;
COMMENT ON FUNCTION {schema}.snowflake_to_%1$s(bigint) IS 'an id as %1$s, which sorts as the ids do';
COMMENT ON FUNCTION {schema}.snowflake_from_%1$s(text) IS 'the id of a %1$s text';
$template$, form[1], form[2], form[3], length(form[3]));
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

-- The mark that says that a shard is open: the start of this run of the server, and the
-- number that the shard's sequence has in this database.
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_mark(ids regclass) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE AS $f$
SELECT (pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) {*} 1000000)::bigint {#} (ids::bigint {<<} 20)
$f$;

-- Step 4: move the sequence up to the clock.  "patient" waits for its turn at the gate.
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_move(shard int, patient boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $f$
DECLARE
    ids      regclass := {ids_name} || shard;
    open     regclass := {open_name} || shard;
    mark     bigint := {schema}.snowflake_plain_mark(ids);
    sessions bigint := (SELECT sum(setting::int) FROM pg_settings WHERE name IN ('max_connections', 'max_worker_processes',
                        'max_wal_senders', 'autovacuum_max_workers', 'autovacuum_worker_slots'));
    tick     bigint;
    last     bigint;
    first    bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction USING MESSAGE = 'cannot mint ids during recovery';
    END IF;
    BEGIN
        IF patient THEN
            LOCK TABLE {schema}.snowflake_plain_gate IN EXCLUSIVE MODE;
        ELSE
            LOCK TABLE {schema}.snowflake_plain_gate IN EXCLUSIVE MODE NOWAIT;
        END IF;
        tick := {schema}.snowflake_plain_now();
        IF pg_sequence_last_value(open) IS DISTINCT FROM mark THEN
            tick := tick + 1;           -- ids of this one may be lost
        ELSIF pg_sequence_last_value(ids) >> {sequence_bits} >= tick - {late} THEN
            RAISE SQLSTATE 'SFGAT';     -- somebody else has moved it
        END IF;
        PERFORM setval(open, 0, false);
        last := coalesce(pg_sequence_last_value(ids), -1);
        first := tick << {sequence_bits};
        IF last + sessions < first THEN
            PERFORM setval(ids, first - 1);
        ELSE
            PERFORM nextval(ids) FROM generate_series(last + 2, first);
        END IF;
        PERFORM {schema}.snowflake_plain_wait(shard, last >> {sequence_bits}, false);
        PERFORM setval(open, mark);
        RAISE SQLSTATE 'SFGAT';
    EXCEPTION
        WHEN SQLSTATE 'SFGAT' THEN
            RETURN;
        WHEN lock_not_available THEN
            IF patient THEN
                RAISE;                  -- lock_timeout
            END IF;
    END;
    BEGIN
        LOCK TABLE {schema}.snowflake_plain_gate IN ROW SHARE MODE;     -- until the gate is open
        RAISE SQLSTATE 'SFGAT';
    EXCEPTION WHEN SQLSTATE 'SFGAT' THEN
        RETURN;
    END;
END
$f$;

-- Wait until a tick begins, in short naps, so that a clock that is set right is seen.  If
-- it is far ahead, the shard is closed, so that calls that fail use no values up.
CREATE OR REPLACE FUNCTION {schema}.snowflake_plain_wait(shard int, tick bigint, wait boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
    us bigint;
BEGIN
    LOOP
        us := (tick - {schema}.snowflake_plain_now()) * {unit};
        IF us > greatest(10000000, 2 * {unit}) THEN
            PERFORM setval(({open_name} || shard)::regclass, 0, false);
            RAISE system_error USING
                MESSAGE = format('clock is %s s behind the last snowflake id', us / 1000000),
                HINT = 'Check the server''s time synchronization. Minting goes on by itself when the clock has caught up. '
                    'To mint before that, call snowflake_plain_setup with a shard that was never used.';
        END IF;
        EXIT WHEN us <= 0 OR NOT wait;
        PERFORM pg_sleep(least(us, 100000) / 1000000.0);
    END LOOP;
END
$f$;

$template$;
    -- the rule, for a shard that is named and for the only one; always in PL/pgSQL, because a
    -- call that begins while a function gets another language takes the text for the old one's
    FOREACH form SLICE 1 IN ARRAY ARRAY[
        ['shard int', 'shard', 'pg_catalog.concat({open_name}, shard)::pg_catalog.regclass', 'ids', $x$
    IF shard {<>} ALL {own} THEN
        RAISE insufficient_privilege USING
            MESSAGE = pg_catalog.format('shard %s is not one of this server''s', shard),
            DETAIL = 'snowflake_plain_setup was given {own_text}.',
            HINT = 'Call snowflake_nextval() without an argument to mint on this server''s own shards.';
    END IF;
    ids := pg_catalog.concat({ids_name}, shard)::pg_catalog.regclass;$x$],
        ['', own[1]::text, '{first_open}', '{first_ids}', '']] LOOP
        code := code || format($template$
CREATE OR REPLACE FUNCTION {schema}.snowflake_nextval(%1$s) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER AS $f$
DECLARE
    open    pg_catalog.regclass;
    ids     pg_catalog.regclass;
    c       bigint;
    behind  bigint;                     -- ticks
    patient boolean := false;
BEGIN%5$s
    open := %3$s;
    LOOP
        IF pg_catalog.pg_sequence_last_value(open) {=} ((pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) {*} 1000000)::bigint
                {#} (%4$s::bigint {<<} 20)) THEN
            c := pg_catalog.nextval(%4$s);
            behind := (((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) {*} 1000000)::bigint {-} {epoch}) {/} {unit})
                {-} (c {>>} {sequence_bits});
            IF behind {<=} {late} THEN
                IF behind {<} 0 THEN
                    PERFORM {schema}.snowflake_plain_wait(%2$s, c {>>} {sequence_bits}, true);
                END IF;
                RETURN ((c {>>} {sequence_bits}) {<<} {time_shift}) {|} (%2$s::bigint {<<} {shard_shift}) {|} ((c {&} {mask}) {<<} {sequence_shift});
            END IF;
        END IF;
        PERFORM {schema}.snowflake_plain_move(%2$s, patient);
        patient := true;
    END LOOP;
END
$f$;
$template$, form[1], form[2], form[3], form[4], form[5]);
    END LOOP;
    IF cardinality(own) > 1 THEN
        code := code || $template$
CREATE OR REPLACE FUNCTION {schema}.snowflake_nextval() RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $f$
BEGIN
    RETURN {schema}.snowflake_nextval({own}[1 {+} (pg_catalog.pg_backend_pid() {%} {count})]);
END
$f$;
$template$;
    END IF;
    code := code || $template$
COMMENT ON FUNCTION {schema}.snowflake_nextval(int) IS 'mint an id on a shard of this server';
COMMENT ON FUNCTION {schema}.snowflake_nextval() IS 'mint an id on a shard of this server, the same one in all of a session';
COMMENT ON FUNCTION {schema}.snowflake_plain_now() IS 'the tick of now';
COMMENT ON FUNCTION {schema}.snowflake_plain_mark(regclass) IS 'the value that says that a shard is open';
COMMENT ON FUNCTION {schema}.snowflake_plain_move(int, boolean) IS 'move the sequence of a shard up to the clock';
COMMENT ON FUNCTION {schema}.snowflake_plain_wait(int, bigint, boolean) IS 'wait until a tick begins, or refuse to';
COMMENT ON FUNCTION {schema}.snowflake_plain_time_text(timestamptz) IS 'a time as messages show it';
COMMENT ON FUNCTION {schema}.snowflake_plain_time(bigint, bigint[]) IS 'creation time of an id of a layout';
COMMENT ON FUNCTION {schema}.snowflake_plain_shard(bigint, bigint[]) IS 'shard of an id of a layout';
COMMENT ON FUNCTION {schema}.snowflake_plain_sequence(bigint, bigint[]) IS 'sequence number of an id of a layout';
COMMENT ON FUNCTION {schema}.snowflake_plain_encode(timestamptz, int, int, bigint[], text) IS 'an id of a layout';
COMMENT ON FUNCTION {schema}.snowflake_plain_to_text(bigint, text, int) IS 'an id in an alphabet';
COMMENT ON FUNCTION {schema}.snowflake_plain_from_text(text, text, text, text) IS 'the id of a text in an alphabet';
COMMENT ON TABLE {schema}.snowflake_plain IS 'the layout and the shards of snowflake_plain';
REVOKE ALL ON TABLE {schema}.snowflake_plain, {schema}.snowflake_plain_gate FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.snowflake_plain_move(int, boolean), {schema}.snowflake_plain_wait(int, bigint, boolean) FROM PUBLIC;

$template$;
    parts := jsonb_build_object(
        'schema', schema,
        'ids_name', quote_literal(schema || '.snowflake_shard_'),
        'open_name', quote_literal(schema || '.snowflake_open_'),
        'first_ids', quote_literal(format('%s.snowflake_shard_%s', schema, own[1])) || '::pg_catalog.regclass',
        'first_open', quote_literal(format('%s.snowflake_open_%s', schema, own[1])),
        'layout_numbers', quote_literal(numbers) || '::bigint[]',
        'layout_name', quote_literal(layout) || '::pg_catalog.text',
        'own_text', array_to_string(own, ', '),
        'own', format('(%L::int[])', own),
        'count', cardinality(own),
        'epoch', numbers[1] + 946684800000000,
        'unit', numbers[2],
        'time_shift', numbers[3],
        'shard_shift', numbers[5],
        'sequence_bits', numbers[6],
        'sequence_shift', numbers[7],
        'last_tick', numbers[8],
        'mask', mask,
        'late', 16000 / numbers[2]);
    -- what is put in is not looked at again, whatever a schema is called, and ends no body
    WHILE strpos(schema, quote) > 0 LOOP
        quote := replace(quote, 'f', 'ff');
    END LOOP;
    EXECUTE (SELECT string_agg(CASE WHEN n % 2 = 1 THEN replace(part, '$f$', quote)
                                    ELSE coalesce(parts ->> part, format('OPERATOR(pg_catalog.%s)', part)) END, '' ORDER BY n)
               FROM regexp_split_to_table(code, '[{}]') WITH ORDINALITY AS split (part, n));
END
$setup$;
COMMENT ON FUNCTION snowflake_plain_setup(pg_catalog.text, pg_catalog.text, pg_catalog.regprocedure) IS 'make the sequences and the functions that mint ids of a layout on this server''s shards';
