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

use MarksTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $ROWS = $ENV{SNOWFLAKE_ROWS} // 100_000;
my $WRITERS = 16;

my $node = new_server('settled', init => { allows_streaming => 1 }, conf => <<'CONF');
snowflake.shards = '0-3'
max_prepared_transactions = 20
track_commit_timestamp = on
synchronous_commit = off
snowflake.reserve = 2s
CONF
create_events($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE others (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), how text);
CREATE UNLOGGED TABLE got (reader text, place bigserial, id bigint);
CREATE UNLOGGED TABLE polls (reader text, last bigint, newest bigint, mark bigint, snapshot pg_snapshot);

-- A reader: one statement a poll, each in a transaction of its own, until it has read the
-- row "end", which was written after all others, and nothing follows
CREATE PROCEDURE read_all(me text) LANGUAGE plpgsql AS $$
DECLARE
    last bigint := 0;
    newest bigint;
    page_has_end boolean;
    has_end boolean := false;
BEGIN
    LOOP
        WITH page AS (
            SELECT id, how FROM events WHERE id > last AND id < snowflake_settled() ORDER BY id LIMIT 1000),
        kept AS (
            INSERT INTO got (reader, id) SELECT me, id FROM page),
        noted AS (
            INSERT INTO polls SELECT me, last, max(id), snowflake_settled(), pg_current_snapshot() FROM page HAVING count(*) > 0)
        SELECT max(id), bool_or(how = 'end') INTO newest, page_has_end FROM page;
        COMMIT;
        EXIT WHEN newest IS NULL AND has_end;
        has_end := has_end OR coalesce(page_has_end, false);
        last := coalesce(newest, last);
    END LOOP;
END $$;
SQL

# --- Everybody at once

my $began = time();
my %level = (
	'read committed' => 'rc',
	'repeatable read' => 'rr',
	'serializable' => 'ser');
my @readers = map {
	start_session($node, "SET default_transaction_isolation = '$_'; CALL read_all('$level{$_}')")
} sort keys %level;
my @watchers = begin_watching($node, 2);
my $each = int($ROWS / $WRITERS / 17) + 1;    # transactions, of 17 rows that stay

end_events($node, begin_events($node, $each, 'p', writers => $WRITERS - 1, pause => 0));
for my $session (@readers)
{
	finish_session($session) or die $session->{err};
}
end_watching($node, 'while everybody mints', @watchers);
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM events');
cmp_ok($rows, '>', $ROWS, sprintf('%d rows are written, in %.0f s', $rows, time() - $began));
is($node->safe_psql('postgres', 'SELECT count(DISTINCT how) FROM events WHERE how !~ $$^after [0-9]$$ AND how <> $$end$$'),
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

# each row that was missed, and the polls that passed it
diag($node->safe_psql('postgres', <<'SQL')) if !Test::More->builder->is_passing;
SELECT polls.*, how, id, events.xmin, pg_xact_commit_timestamp(events.xmin) AS committed, clock_timestamp() AS now
  FROM events CROSS JOIN polls
 WHERE id > last AND id <= newest AND NOT EXISTS (SELECT FROM got WHERE got.reader = polls.reader AND got.id = events.id)
 ORDER BY reader, id
SQL

# --- What a reader may count on

# Until a second after the last id the mark follows the clock.
is($node->safe_psql('postgres', <<'SQL'), '1|t', 'a statement has one mark, however long it takes');
SELECT count(DISTINCT mark), bool_and(mark = snowflake_settled())
  FROM (SELECT snowflake_settled() AS mark, pg_sleep(0.01) FROM generate_series(1, 20)) AS marks
SQL
ok(wait_until($node, <<'SQL'), 'the next statement has another, also in one transaction and one snapshot');
INSERT INTO others DEFAULT VALUES;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT snowflake_settled() AS mark \gset
SELECT pg_sleep(0.05) \g /dev/null
SELECT snowflake_settled() > :mark;
SQL
$node->safe_psql('postgres', <<'SQL');
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
SQL
ok(wait_until($node, 'INSERT INTO others DEFAULT VALUES; SELECT rounds() > 10'), 'and so has each round of a loop');
is($node->safe_psql('postgres', <<'SQL'), 't|t', 'the mark is the first id of a tick that has begun');
SELECT mark = snowflake_floor(mark::timestamptz), mark::timestamptz <= clock_timestamp()
  FROM (SELECT snowflake_settled() AS mark) AS now
SQL

# --- Prepared transactions leave their places to others, of which there are 20

$node->safe_psql('postgres', join('', map { "BEGIN; INSERT INTO others DEFAULT VALUES; PREPARE TRANSACTION 'one of $_'; COMMIT PREPARED 'one of $_';\n" } 1 .. 41));
ok(wait_until($node, 'SELECT snowflake_settled() > (SELECT max(id) FROM others)'), 'after many prepared transactions the mark goes on');

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

my $soon = $ENV{SNOWFLAKE_SEED} ? 500 : 20;    # ms; pauses between our steps make all slower
ok(wait_for(sub { milliseconds_to_last_row() < $soon }), "the mark passes the last row soon: in $soon ms, where the machine lets it");

# rows that nobody minted, of before now: the mark passes them
for my $age ('0 s', '0.5 s', '2 s')
{
	$node->safe_psql('postgres', "SELECT pg_sleep(1.5); INSERT INTO others SELECT snowflake_floor(clock_timestamp() - interval '$age')");
	ok(wait_until($node, 'SELECT snowflake_settled() > max(id) FROM others'), "an imported row, $age old, where nobody mints");
}
ok(wait_until($node, <<'SQL'), 'the horizon is renewed ahead of the mark');
DO $$
BEGIN
    FOR n IN 1 .. 300 LOOP
        PERFORM snowflake_settled() FROM others LIMIT 1;
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT clock_timestamp() - snowflake_settled()::timestamptz < '1 s' AND horizon >= snowflake_settled()::timestamptz FROM snowflake_horizon();
SQL
is($node->safe_psql('postgres', 'SELECT snowflake_settled() > max(id) FROM events'), 't', 'and has all rows');
cmp_ok(milliseconds_to_last_row(), '>', 0, 'when somebody mints again, the mark goes on');

# --- Other databases

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION snowflake');
my $elsewhere = start_session($node, 'BEGIN; SELECT snowflake_nextval(); SELECT pg_sleep(600)', dbname => 'other');
ok(wait_until($node, 'SELECT count(*) = 1 FROM pg_stat_snowflake_backends WHERE holding_since IS NOT NULL'),
	'a transaction of another database has minted');
cmp_ok(milliseconds_to_last_row(), '>', 0, 'and does not hold the mark here');
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
# with no xid they have no rows, and count for nothing, as those that roll back
$node->safe_psql('postgres', 'DO $$ BEGIN FOR n IN 1 .. 36000 LOOP PERFORM snowflake_nextval(); COMMIT; END LOOP; END $$');
$node->safe_psql('postgres', 'DO $$ BEGIN FOR n IN 1 .. 36000 LOOP PERFORM snowflake_nextval(), pg_current_xact_id(); ROLLBACK; END LOOP; END $$');
$node->safe_psql('postgres', <<'SQL');
WITH late AS (INSERT INTO others DEFAULT VALUES RETURNING id) SELECT setval('given', id) FROM late;
SELECT pg_sleep(0.05), setval('gate', 2);
SQL
ok(wait_until($node, 'SELECT last_value = 3 FROM gate'), 'it gets a mark');
@watchers = begin_watching($node, 2);
in_parallel($node, 2, <<'SQL');
DO $$
BEGIN
    FOR n IN 1 .. 18000 LOOP
        INSERT INTO others DEFAULT VALUES;
        COMMIT;
    END LOOP;
END $$
SQL
end_watching($node, 'while two sessions mint', @watchers);
is($node->safe_psql('postgres', 'SELECT snowflake_settled() IS NOT NULL', replication => 'database'), 't',
	'an old transaction is open: a new snapshot is good, also of a connection for replication');
# one that is imported does, only in the transaction that imports it
my $exporter = $node->background_psql('postgres', on_error_die => 1);
my $export = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT pg_export_snapshot()";
my $import = sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSET TRANSACTION SNAPSHOT '%s';\n", $exporter->query_safe($export));
fails_with($node, "$import SELECT snowflake_settled()", '55000', qr/the snapshot is too old/, 'one that is imported may be of before');
for my $end (qw(ROLLBACK COMMIT))
{
	is($node->safe_psql('postgres', <<"SQL"), "t\nt", "but those that follow in that session are not, after $end");
$import SELECT FROM events LIMIT 0;
$end;
SELECT snowflake_settled() IS NOT NULL;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT snowflake_settled() IS NOT NULL;
COMMIT;
SQL
}
$node->safe_psql('postgres', "SELECT setval('gate', 4)");
ok(!finish_session($old), 'when too much has happened since, it gets none');
is($old->{out}, 't', 'the mark was not above what it does not see');
like($old->{err}, qr/ERROR:  the snapshot is too old to tell which ids are settled\nDETAIL:  More than \d+ transactions that minted ids have ended since the snapshot was taken.\nHINT:  Call snowflake_settled\(\) in the first statement/,
	'and is told what to do');
is($node->safe_psql('postgres', 'SELECT snowflake_settled() IS NOT NULL'), 't', 'a new snapshot is as good as ever');
$exporter->query_safe('COMMIT');
$import = sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSET TRANSACTION SNAPSHOT '%s';\n", $exporter->query_safe($export));
is($node->safe_psql('postgres', "$import SELECT snowflake_settled() IS NOT NULL"), 't', 'also if it is imported');
$exporter->quit;

# --- A stored mark that this server cannot have had

$node->safe_psql('postgres', q(INSERT INTO snowflake_marks VALUES ('here', 9e18, now())));
$node->safe_psql('postgres', q(INSERT INTO snowflake_marks SELECT format('%s/postgres', system_identifier), 8e18, now() FROM pg_control_system()));
like($node->safe_psql('postgres', q(SELECT finding FROM snowflake_check() WHERE area = 'mark' AND finding ~ 'history')),
	qr/^the mark 8000000000000000000 that table public\.snowflake_marks has of this server is above its present one, \d+: it is of another history or layout$/,
	'a stored mark of its own name that it cannot have had is a finding');
$node->safe_psql('postgres', 'SELECT snowflake_publish_mark()');
is($node->safe_psql('postgres', q(SELECT count(*) FROM snowflake_check() WHERE area = 'mark' AND finding ~ 'history')), 0, 'until it is published again');
my (undef, $stored, $warning) = $node->psql('postgres', q(\set VERBOSITY verbose
SELECT snowflake_publish_mark('here')));
like($warning, qr/WARNING:  01000: the stored mark 9000000000000000000 of server "here" is replaced by $stored\nDETAIL:  It is after all ids that this server may have minted/,
	'a mark of another history is replaced, with a warning');
(undef, undef, $warning) = $node->psql('postgres', q(SELECT snowflake_publish_mark('here')));
is($warning, '', 'its own is not');

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
