# Reading what is new with snowflake_settled(), over restarts: transactions that
# are prepared hold the mark until they end, a reader that goes on after a crash
# or a promotion misses nothing, and a clock that is set back moves no mark back.
#
# SNOWFLAKE_CRASH_ROUNDS sets the number of crashes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use FeedTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

my $ROUNDS = $ENV{SNOWFLAKE_CRASH_ROUNDS} // 9;

my $node = new_server('settled_restart', clock => 1, init => { allows_streaming => 1 }, conf => <<'CONF');
restart_after_crash = on
snowflake.shards = '0-3'
snowflake.clock_tolerance = 60s
max_prepared_transactions = 20
CONF
my $create = 'CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text)';

$node->safe_psql('postgres', $create);

# What is committed now is not read, because somebody holds the mark.
sub holds
{
	my ($server, $name) = @_;

	$server->safe_psql('postgres', "INSERT INTO events (name) VALUES ('meanwhile')");
	sleep(0.05);
	return is_deeply([ poll($server) ], [], $name);
}

# --- Prepared transactions

sub prepare
{
	my ($name) = @_;

	return $node->safe_psql('postgres', "BEGIN; INSERT INTO events (name) VALUES ('$name'); PREPARE TRANSACTION '$name'");
}

prepare('first');
holds($node, 'a transaction that is prepared holds the mark');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_snowflake_backends WHERE holding_since IS NOT NULL"),
	0, 'and no session does');
$node->stop('fast');
start_with_clock($node);
holds($node, 'after a restart as well');
$node->stop('immediate');
start_with_clock($node);
holds($node, 'and after a crash');
$node->safe_psql('postgres', "COMMIT PREPARED 'first'");
is_deeply([ poll_to_the_end($node) ], [ 'first', ('meanwhile') x 3 ], 'when it commits, its row is read');

prepare('second');
holds($node, 'another one');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'second'");
is_deeply([ poll_to_the_end($node) ], ['meanwhile'], 'when it rolls back, the mark goes on');

# more one after the other than can be prepared at once
for my $n (1 .. 100)
{
	prepare("many $n");
	$node->safe_psql('postgres', ($n % 2 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'many $n'");
}
is(scalar(poll_to_the_end($node)), 50, 'one after the other');

# at once, as many as can be
$node->safe_psql('postgres', join('', map { "BEGIN; INSERT INTO events (name) VALUES ('all'); PREPARE TRANSACTION 'all $_';\n" } 1 .. 20));
fails_with($node, "BEGIN;\nINSERT INTO events (name) VALUES ('too many');\nPREPARE TRANSACTION 'too many'",
	'53200', qr/maximum number of prepared transactions reached/, 'and not more');
holds($node, 'they hold the mark');
$node->safe_psql('postgres', join('', map { "COMMIT PREPARED 'all $_';\n" } reverse 2 .. 20));
is_deeply([ poll($node) ], [], 'the first of them as well');
$node->safe_psql('postgres', "COMMIT PREPARED 'all 1'");
is(scalar(poll_to_the_end($node)), 21, 'and when they have ended, all is read');

$node->safe_psql('postgres', "BEGIN; CREATE TABLE minted_nothing (); PREPARE TRANSACTION 'minted nothing'");
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION snowflake; CREATE TABLE events (id snowflake DEFAULT snowflake_nextval())");
$node->safe_psql('other', "BEGIN; INSERT INTO events DEFAULT VALUES; PREPARE TRANSACTION 'elsewhere'");
for my $restart (0, 1)
{
	$node->safe_psql('postgres', "INSERT INTO events (name) VALUES ('free')");
	is_deeply([ poll_to_the_end($node) ], ['free'],
		'those that minted nothing, or are of another database, do not hold it' . ($restart ? ' after a restart' : ''));
	is($node->safe_psql('other', 'SELECT snowflake_settled() < clock_timestamp() - interval $$20 ms$$ FROM pg_sleep(0.05)'),
		't', 'but there' . ($restart ? ' after a restart' : ''));
	$node->stop('fast');
	start_with_clock($node);
}
$node->safe_psql('postgres', "COMMIT PREPARED 'minted nothing'");
$node->safe_psql('other', "COMMIT PREPARED 'elsewhere'");

# --- A snapshot that is older than what is known of them

prepare('unnoticed');
$node->stop('fast');
start_with_clock($node);
$node->safe_psql('postgres', 'CREATE SEQUENCE gate MINVALUE 0 START 0');
my $old = start_session($node, <<'SQL');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 FROM events;
SELECT setval('gate', 1);
DO $$ BEGIN WHILE (SELECT last_value FROM gate) < 2 LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT snowflake_settled();
SQL
ok(wait_until($node, 'SELECT last_value = 1 FROM gate'), 'there is a snapshot of before');
$node->safe_psql('postgres', "COMMIT PREPARED 'unnoticed'");
$node->safe_psql('postgres', "SELECT setval('gate', 2)");
ok(finish_session($old), 'a transaction that was prepared before the restart has ended since');
my ($mark_of_then) = $old->{out} =~ /(\d+)\z/;
is($node->safe_psql('postgres', "SELECT $mark_of_then <= id FROM events WHERE name = 'unnoticed'"), 't', 'the mark is not above it');
is_deeply([ poll_to_the_end($node) ], ['unnoticed'], 'a new snapshot has its row');

# --- A standby, and its promotion

$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION pass_when(condition text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    holds boolean;
BEGIN
    LOOP
        EXECUTE 'SELECT ' || condition INTO holds;
        EXIT WHEN holds;
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
CREATE FUNCTION fail_when(condition text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pass_when(condition);
    RAISE 'the condition holds';
END $$;
SQL
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('settled_standby');

$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
prepare('ends early');
prepare('on the primary');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
fails_with($standby, 'SELECT snowflake_settled()', '25006', qr/cannot tell which ids are settled during recovery/, 'a standby has no mark');
my ($mark_of_primary, $lsn) = split(/\|/,
	$node->safe_psql('postgres', q{INSERT INTO events (name) VALUES ('before it'); SELECT snowflake_settled(), pg_current_wal_insert_lsn()}));
ok(wait_until($standby, "SELECT pg_last_wal_replay_lsn() >= '$lsn'"), 'the standby has replayed as far as the primary was');
is($standby->safe_psql('postgres', "SELECT count(*) FROM events WHERE id < $mark_of_primary"),
	$node->safe_psql('postgres', "SELECT count(*) FROM events WHERE id < $mark_of_primary"),
	'and has the rows below the mark of the primary');

# Its sessions may outlive its promotion, and end what is prepared before its worker has
# started; but no transaction of theirs commits before that, and no utility statement begins,
# as either would look for what is prepared.
my $reader = start_session($standby, <<'SQL');
\set ON_ERROR_STOP 0
SELECT fail_when('NOT pg_is_in_recovery()');
\set ON_ERROR_STOP 1
SELECT pg_advisory_lock(1), pass_when($$NOT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = 'ends early')$$), snowflake_settled();
SQL
my $ender = start_session($standby, <<'SQL');
\set ON_ERROR_STOP 0
SELECT fail_when($$EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1)$$);
\set ON_ERROR_STOP 1
COMMIT PREPARED 'ends early';
SQL
$old = start_session($standby, <<'SQL');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 FROM events;
SELECT pass_when($$NOT pg_is_in_recovery() AND NOT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = 'ends early')$$);
SELECT snowflake_settled();
SQL
my $begun = start_session($standby, <<'SQL');
BEGIN;
SELECT pass_when('NOT pg_is_in_recovery()');
SELECT snowflake_settled();
COMMIT;
SQL
ok(wait_until($standby, q{SELECT count(*) = 4 FROM pg_stat_activity WHERE query ~ '^SELECT (fail|pass)_when'}), 'there is a snapshot of before the promotion');
$node->stop('fast');
my $postmaster = promote_without_workers($standby);
ok(finish_session($ender), 'a session of the standby ends what was prepared, once that is promoted') or diag($ender->{err});
kill('CONT', $postmaster);
ok(finish_session($reader), 'another one has the mark of a snapshot of before that') or diag($reader->{err});
my ($mark_of_reader) = $reader->{out} =~ /(\d+)\s*$/;
is($standby->safe_psql('postgres', "SELECT $mark_of_reader <= id FROM events WHERE name = 'ends early'"), 't', 'which is not above it');
ok(finish_session($begun), 'and so has a transaction of before, of a snapshot of after') or diag($begun->{err});
ok(!finish_session($old), 'a snapshot of before gives no mark');
like($old->{err}, qr/ERROR:  the snapshot is too old to tell which ids are settled\nDETAIL:  The snapshot was taken during recovery./,
	'but an error');
is_deeply([ poll($standby) ], ['ends early'], 'a new snapshot has its row');
holds($standby, 'after the promotion, what was prepared on the primary holds the mark');
$standby->safe_psql('postgres', "COMMIT PREPARED 'on the primary'");
is_deeply([ poll_to_the_end($standby) ], [ 'on the primary', 'before it', 'meanwhile' ], 'until it ends');
$standby->stop('fast');
start_with_clock($node);
$node->safe_psql('postgres', "ROLLBACK PREPARED 'on the primary'; ROLLBACK PREPARED 'ends early'; TRUNCATE events");
new_reader();

# --- Crashes at random

my $write = <<'SQL';
DO $$
BEGIN
    FOR n IN 1 .. 100000 LOOP
        INSERT INTO events (name) SELECT 'row' FROM generate_series(1, 1 + n % 3);
        IF random() < 0.5 THEN
            PERFORM pg_sleep(random() * random() * 0.03);
        END IF;
        IF random() < 0.2 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END $$
SQL
my @crashes = (
	sub { $node->stop('immediate'); start_with_clock($node) },
	sub {
		my $pid = $node->safe_psql('postgres', "SELECT min(pid) FROM pg_stat_activity WHERE query LIKE 'DO%'");
		kill('KILL', $pid) if $pid;
		# it is there until the server has noticed
		wait_for(sub { !$pid || !kill(0, $pid) }) or die 'the server notices nothing';
		comes_back($node) or die 'the server does not come back';
	});
my $polled = 0;

srand($ENV{SNOWFLAKE_SEED} // 20261122);
for my $round (1 .. $ROUNDS)
{
	my @writers = map { start_session($node, $write, errors => '/dev/null') } 1 .. 6;

	wait_until($node, q{SELECT count(*) = 6 FROM pg_stat_activity WHERE query LIKE 'DO%'}) or die 'not all write';
	my $until = time() + 0.3 + rand(1);
	$polled += poll($node);
	prepare("of round $round");
	while (time() < $until)
	{
		$polled += poll($node);
	}
	$crashes[ $round % @crashes ]->();
	finish_session($_) for @writers;
	$polled += poll($node);
	$node->safe_psql('postgres', ($round % 3 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'of round $round'") if $round % 4;
}
$node->safe_psql('postgres', "COMMIT PREPARED 'of round $_'") for grep { $_ % 4 == 0 } 1 .. $ROUNDS;
my $rest = poll_to_the_end($node);

cmp_ok($polled, '>', 0, "over $ROUNDS crashes, $polled rows are read, and $rest afterwards");
has_read_each_once($node, 'after the crashes');

# --- The clock set back

$node->append_conf('postgresql.conf', 'snowflake.reserve = 30s');
reload($node);
$node->safe_psql('postgres', 'INSERT INTO events (name) VALUES ($$before$$)');
ok(wait_until($node, 'SELECT snowflake_settled() IS NOT NULL AND seconds_ahead > 15 FROM snowflake_horizon()'), 'the mark can go far ahead of the last id');
sleep(4);
poll_to_the_end($node);
my $mark = mark_of($node);

set_clock($node, -3);
cmp_ok(mark_of($node), '>=', $mark, 'the clock goes back, and not the mark');
cmp_ok($node->safe_psql('postgres', q{INSERT INTO events (name) VALUES ('after') RETURNING id}),
	'>=', $mark, 'nothing is minted below it');
is_deeply([ poll_to_the_end($node) ], ['after'], 'and reading goes on');

done_testing();
