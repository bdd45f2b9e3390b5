# Reading what is new with snowflake_settled(), in one statement, while others
# write: each row that is committed is read once, in order, at every isolation
# level.  And what a reader may count on: one mark in a statement, a mark that
# goes on where nobody mints, and an error for a snapshot that is too old.
#
# SNOWFLAKE_ROWS sets how many rows are written, for a show with 1000000 of them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $ROWS = $ENV{SNOWFLAKE_ROWS} // 100_000;
my $WRITERS = 16;

my $node = new_server('settled', conf => <<'CONF');
snowflake.shards = '0-3'
max_prepared_transactions = 20
synchronous_commit = off
snowflake.reserve = 2s
CONF
my $rows_to_copy = PostgreSQL::Test::Utils::tempdir() . '/rows';
append_to_file($rows_to_copy, "copied\n" x 50);

$node->safe_psql('postgres', <<"SQL");
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), how text);
CREATE TABLE others (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), how text);
CREATE UNLOGGED TABLE got (reader text, place bigserial, id bigint);
CREATE SEQUENCE writers_done;

-- One transaction of a writer, in one of the ways in which rows are written
CREATE PROCEDURE write(way integer) LANGUAGE plpgsql AS \$\$
BEGIN
    CASE way
    WHEN 0 THEN
        INSERT INTO events (how) VALUES ('one');
    WHEN 1 THEN
        INSERT INTO events (how) SELECT 'many' FROM generate_series(1, 100);
    WHEN 2 THEN
        INSERT INTO events VALUES (snowflake_nextval(floor(random() * 4)::int), 'named shard');
    WHEN 3 THEN
        WITH first AS (INSERT INTO events (how) SELECT 'cte' FROM generate_series(1, 5) RETURNING id)
        INSERT INTO events (how) SELECT 'after ' || id FROM first;
    WHEN 4 THEN
        COPY events (how) FROM '$rows_to_copy';
    WHEN 5 THEN
        BEGIN
            INSERT INTO events (how) VALUES ('undone');
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
            INSERT INTO events (how) VALUES ('after an exception');
        END;
    WHEN 6 THEN
        PERFORM snowflake_nextval();      -- no row at all, or one much later
        IF random() < 0.5 THEN
            PERFORM pg_sleep(random() * 0.01);
            INSERT INTO events (how) VALUES ('late');
        END IF;
    ELSE
        BEGIN
            INSERT INTO events (how) SELECT 'in a block' FROM generate_series(1, 3);
        EXCEPTION WHEN division_by_zero THEN
        END;
        INSERT INTO events (how) VALUES ('after a block');
    END CASE;
    IF random() < 0.3 THEN
        PERFORM pg_sleep(random() * random() * random() * 0.05);
    END IF;
END \$\$;

-- All transactions of a writer
CREATE PROCEDURE write_all(transactions integer) LANGUAGE plpgsql AS \$\$
BEGIN
    FOR n IN 1 .. transactions LOOP
        CALL write(n % 8);
        IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
    PERFORM nextval('writers_done');
END \$\$;

-- A reader: one statement a poll, each in a transaction of its own
CREATE PROCEDURE read_all(me text, writers bigint) LANGUAGE plpgsql AS \$\$
DECLARE
    last bigint := 0;
    newest bigint;
    is_done boolean;
BEGIN
    LOOP
        WITH page AS (
            SELECT id FROM events WHERE id > last AND id < snowflake_settled() ORDER BY id LIMIT 1000),
        kept AS (
            INSERT INTO got (reader, id) SELECT me, id FROM page)
        SELECT max(id) INTO newest FROM page;
        COMMIT;
        IF newest IS NULL THEN
            EXIT WHEN is_done;
            -- a statement of its own, so that the next one sees all rows if this is so
            is_done := (SELECT last_value >= writers AND is_called FROM writers_done);
            COMMIT;
            is_done := is_done AND snowflake_settled() > (SELECT max(id) FROM events);
            COMMIT;
        ELSE
            last := newest;
        END IF;
    END LOOP;
END \$\$;
SQL

# --- Everybody at once

# one writer has savepoints, and transactions that are prepared
sub prepared_ones
{
	my ($count) = @_;
	my $script = '';

	for my $n (1 .. $count)
	{
		$script .= <<"SQL";
BEGIN;
INSERT INTO events (how) VALUES ('before a savepoint');
SAVEPOINT s; INSERT INTO events (how) VALUES ('undone'); ROLLBACK TO s;
SAVEPOINT t; INSERT INTO events (how) VALUES ('in a savepoint'); RELEASE t;
COMMIT;
BEGIN; INSERT INTO events (how) SELECT 'prepared' FROM generate_series(1, 3); PREPARE TRANSACTION 'p$n';
INSERT INTO events (how) VALUES ('meanwhile');
SQL
		$script .= ($n % 4 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'p$n';\n";
	}
	return $script . "SELECT nextval('writers_done');\n";
}

my $began = time();
my %level = (
	'read committed' => 'rc',
	'repeatable read' => 'rr',
	'serializable' => 'ser');
my @readers = map {
	start_session($node, "SET default_transaction_isolation = '$_'; CALL read_all('$level{$_}', $WRITERS)")
} sort keys %level;
my $each = int($ROWS / ($WRITERS - 1) / 18) + 1;    # transactions, of 18 rows that stay
my @writers = map { start_session($node, "CALL write_all($each)") } 2 .. $WRITERS;

push @writers, start_session($node, prepared_ones($each));
for my $session (@writers, @readers)
{
	finish_session($session) or die $session->{err};
}
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM events');
cmp_ok($rows, '>', $ROWS, sprintf('%d rows are written, in %.0f s', $rows, time() - $began));
is($node->safe_psql('postgres', 'SELECT count(DISTINCT how) FROM events WHERE how !~ $$^after [0-9]$$ AND how <> $$undone$$'),
	13, 'in all the ways');
for my $level (sort keys %level)
{
	is($node->safe_psql('postgres', <<"SQL"), "0|0|0|0", "$level: none missed, none twice, none that is not there, in order");
SELECT (SELECT count(*) FROM events WHERE NOT EXISTS (SELECT FROM got WHERE reader = '$level{$level}' AND got.id = events.id)),
       count(*) - count(DISTINCT id),
       count(*) FILTER (WHERE NOT EXISTS (SELECT FROM events WHERE events.id = got.id)),
       count(*) FILTER (WHERE id < before)
  FROM (SELECT id, lag(id) OVER (ORDER BY place) AS before FROM got WHERE reader = '$level{$level}') AS got
SQL
}

diag($node->safe_psql('postgres', <<'SQL')) if !Test::More->builder->is_passing;
SELECT got.reader, how, id, xmin, id > got.last AS is_after_the_last_that_was_read
  FROM events CROSS JOIN (SELECT reader, max(id) AS last FROM got GROUP BY reader) AS got
 WHERE NOT EXISTS (SELECT FROM got AS g WHERE g.reader = got.reader AND g.id = events.id) ORDER BY 1, 3
SQL

# --- What a reader may count on

# Until a second after the last id the mark follows the clock.
is($node->safe_psql('postgres', <<'SQL'), '1|t', 'a statement has one mark, however long it takes');
SELECT count(DISTINCT mark), bool_and(mark = snowflake_settled())
  FROM (SELECT snowflake_settled() AS mark, pg_sleep(0.01) FROM generate_series(1, 20)) AS marks
SQL
is($node->safe_psql('postgres', <<'SQL'), 't', 'the next statement has another, also in one transaction and one snapshot');
INSERT INTO others DEFAULT VALUES;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT snowflake_settled() AS mark \gset
SELECT pg_sleep(0.05) \g /dev/null
SELECT snowflake_settled() > :mark;
SQL
is($node->safe_psql('postgres', <<'SQL'), 't', 'and so has each round of a loop');
CREATE FUNCTION rounds() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    marks bigint[];
BEGIN
    FOR n IN 1 .. 20 LOOP
        marks := marks || snowflake_settled()::bigint;
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN (SELECT count(DISTINCT mark) FROM unnest(marks) AS mark);
END $$;
INSERT INTO others DEFAULT VALUES;
SELECT rounds() > 10;
SQL
is($node->safe_psql('postgres', <<'SQL'), 't|t', 'the mark is the first id of a tick that has begun');
SELECT mark = snowflake_floor(mark::timestamptz), mark::timestamptz <= clock_timestamp()
  FROM (SELECT snowflake_settled() AS mark) AS now
SQL

# --- Where nobody mints

sub milliseconds_to_last_row
{
	return $node->safe_psql('postgres', <<'SQL');
INSERT INTO others DEFAULT VALUES;
DO $$
BEGIN
    WHILE snowflake_settled() <= (SELECT max(id) FROM others) LOOP
        PERFORM pg_sleep(0.0002);
    END LOOP;
END $$;
SELECT extract(epoch FROM clock_timestamp() - snowflake_timestamp(max(id))) * 1000 FROM others;
SQL
}

my ($least) = sort { $a <=> $b } map { milliseconds_to_last_row() } 1 .. 20;
my $soon = $ENV{SNOWFLAKE_SEED} ? 500 : 20;    # ms; pauses between our steps make all slower
cmp_ok($least, '<', $soon, "the mark passes the last row soon: after $least ms");

# rows that nobody minted, of before now: the mark passes them
for my $age ('0 s', '0.5 s', '2 s')
{
	$node->safe_psql('postgres', "SELECT pg_sleep(1.5); INSERT INTO others SELECT snowflake_floor(clock_timestamp() - interval '$age')");
	ok(wait_until($node, 'SELECT snowflake_settled() > max(id) FROM others'), "an imported row, $age old, where nobody mints");
}
is($node->safe_psql('postgres', <<'SQL'), 't|t', 'the horizon is renewed ahead of the mark');
DO $$
BEGIN
    FOR n IN 1 .. 300 LOOP
        PERFORM snowflake_settled() FROM others LIMIT 1;
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT clock_timestamp() - snowflake_settled()::timestamptz < '1 s', horizon >= snowflake_settled()::timestamptz FROM snowflake_horizon();
SQL
is($node->safe_psql('postgres', 'SELECT snowflake_settled() > max(id) FROM events'), 't', 'and has all rows');
cmp_ok(milliseconds_to_last_row(), '<', 5000, 'when somebody mints again, the mark goes on');

# --- Other databases

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION snowflake');
my $elsewhere = start_session($node, 'BEGIN; SELECT snowflake_nextval(); SELECT pg_sleep(600)', dbname => 'other');
ok(wait_until($node, 'SELECT count(*) = 1 FROM pg_stat_snowflake_backends WHERE holding_since IS NOT NULL'),
	'a transaction of another database has minted');
cmp_ok(milliseconds_to_last_row(), '<', 5000, 'and does not hold the mark here');
is($node->safe_psql('other', 'SELECT snowflake_settled() <= min(oldest_id) FROM pg_stat_snowflake_backends'),
	't', 'but there');
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_snowflake_backends WHERE holding_since IS NOT NULL");
$elsewhere->{run}->finish;
ok(wait_until($node, 'SELECT count(*) = 0 FROM pg_stat_snowflake_backends WHERE holding_since IS NOT NULL'),
	'a session that is ended lets go');

# --- Old snapshots

$node->safe_psql('postgres', 'CREATE SEQUENCE gate MINVALUE 0 START 0; CREATE SEQUENCE given');
my $wait_for_gate = 'DO $$ BEGIN WHILE (SELECT last_value FROM gate) < %d LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;';
my $old = start_session($node, join("\n",
	'BEGIN ISOLATION LEVEL REPEATABLE READ;',
	q{SELECT nextval('gate') > 0 FROM events LIMIT 0; SELECT setval('gate', 1) \g /dev/null},
	sprintf($wait_for_gate, 2),
	'SELECT snowflake_settled() <= last_value FROM given;',
	q{SELECT setval('gate', 3) \g /dev/null},
	sprintf($wait_for_gate, 4),
	'SELECT snowflake_settled();'));

ok(wait_until($node, 'SELECT last_value = 1 FROM gate'), 'there is an old snapshot');
$node->safe_psql('postgres', <<'SQL');
WITH late AS (INSERT INTO others DEFAULT VALUES RETURNING id) SELECT setval('given', id) FROM late;
SELECT pg_sleep(0.05), setval('gate', 2);
SQL
ok(wait_until($node, 'SELECT last_value = 3 FROM gate'), 'it gets a mark');
in_parallel($node, 2, <<'SQL');
DO $$
BEGIN
    FOR n IN 1 .. 18000 LOOP
        INSERT INTO others DEFAULT VALUES;
        COMMIT;
    END LOOP;
END $$
SQL
$node->safe_psql('postgres', "SELECT setval('gate', 4)");
ok(!finish_session($old), 'when too much has happened since, it gets none');
is($old->{out}, 't', 'the mark was not above what it does not see');
like($old->{err}, qr/ERROR:  the snapshot is too old to tell which ids are settled\nDETAIL:  More than \d+ transactions that minted ids have ended since the snapshot was taken.\nHINT:  Call snowflake_settled\(\) in the first statement/,
	'and is told what to do');
is($node->safe_psql('postgres', 'SELECT snowflake_settled() IS NOT NULL'), 't', 'a new snapshot is as good as ever');

# --- Renewals, where the reader begins the ticks
#
# The renewal is due half of the reserve before the horizon, and the reader does
# not go beyond that.  Ticks are long, so that an id can be minted in that one.

$node->stop;
$node = new_server('settled_coarse', conf => <<'CONF');
snowflake.layout = 'epoch=2026-01-01 unit=1s fields=timestamp:31,shard:10,sequence:12'
snowflake.shards = '0'
snowflake.reserve = 4s
CONF
$node->safe_psql('postgres', 'CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO events DEFAULT VALUES');
ok(wait_until($node, q{SELECT clock_timestamp() >= horizon - interval '2 s' FROM snowflake_horizon()}), 'a renewal is due');
$node->safe_psql('postgres', 'SELECT snowflake_settled(); INSERT INTO events DEFAULT VALUES');
ok(wait_until($node, 'SELECT snowflake_settled() > max(id) FROM events'), 'the mark passes an id of that very tick');

done_testing();
