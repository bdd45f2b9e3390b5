# Reading what is new with snowflake_settled(): snapshots that follow another order
# than that in which transactions became visible, first polls after a start, who holds
# the mark, and that nobody waits for anybody.
#
# SNOWFLAKE_RESTARTS sets the number of restarts.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

my $RESTARTS = $ENV{SNOWFLAKE_RESTARTS} // 10;

my $node = new_server('snapshots', init => { allows_streaming => 1 }, conf => <<'CONF');
snowflake.shards = '0-3'
max_connections = 100
max_prepared_transactions = 20
wal_level = logical
max_replication_slots = 4
synchronous_commit = local
snowflake.clock_tolerance = 60s
CONF
my $dir = PostgreSQL::Test::Utils::tempdir();

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text);
CREATE PROCEDURE wait_for_gate(place integer) LANGUAGE plpgsql AS $$
BEGIN
	WHILE pg_read_file('gate')::integer < place LOOP PERFORM pg_sleep(0.01); END LOOP;
END $$;
SQL

# In a file: a sequence would take an xid.
sub open_gate
{
	my ($place) = @_;

	return replace_file($node->data_dir . '/gate', $place);
}

open_gate(0);

# A transaction that inserts a row, and commits when the gate is open.
sub start_writer
{
	my ($name, $place, $begin) = @_;
	my $session = start_session($node, ($begin // '') . <<"SQL");
BEGIN;
INSERT INTO events (name) VALUES ('$name');
SET application_name = '$name';
CALL wait_for_gate($place);
COMMIT;
SQL
	ok(wait_until($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$name'"), "$name has a row");
	return $session;
}

# The snapshot that somebody has exported, and written to a file.
sub exported_to
{
	my ($file) = @_;

	my $snapshot;
	return $snapshot
	  if wait_for(sub { ($snapshot) = -e "$dir/$file" ? slurp_file("$dir/$file") =~ /^exported\|[^|]*\|([^|]+)\|.*\n/m : (); $snapshot });
	diag($node->safe_psql('postgres', 'SELECT pid, backend_type, state, wait_event, query FROM pg_stat_activity'));
	die "nobody writes to $file";
}

# --- A snapshot that a replication slot exports follows the WAL
#
# The slot waits for "first", and then for "second".  "late" and "waits" begin between
# these, so the slot does not wait for them.  "waits" has committed in the WAL and
# waits for a synchronous standby that is not there; then the slot has its place in the
# WAL; then "late" commits, and is visible first; and then "waits" is.
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\n");
reload($node);
my $first = start_writer('first', 1);
my $slot = start_session($node, <<"SQL", connection => ' replication=database');
\\o $dir/slot
CREATE_REPLICATION_SLOT exported TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export');
\\o
\\! for n in \$(seq 1800); do [ -e $dir/done ] && break; sleep 0.1; done
SQL
# one that a connection for replication uses itself is the same, but for the export
my $user = start_session($node, <<'SQL', connection => ' replication=database');
BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ;
\o /dev/null
CREATE_REPLICATION_SLOT used TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use');
CALL wait_for_gate(5);
\o
SELECT 'mark ' || snowflake_settled()::bigint;
COMMIT;
SQL
my $is_waiting = q(SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock');
ok(wait_until($node, $is_waiting), 'a slot waits for the first');
my $second = start_writer('second', 3);
open_gate(1);
ok(finish_session($first), 'the first ends');
ok(wait_until($node, $is_waiting), 'the slot waits for the second');
my $late = start_writer('late', 4);
$node->safe_psql('postgres', 'SELECT pg_sleep(0.01)');
my $waits = start_writer('waits', 2, "SET synchronous_commit = on;\n");
open_gate(2);
ok(wait_until($node, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event = 'SyncRep')),
	'the commit of one waits for a standby');
open_gate(3);
ok(finish_session($second), 'the second ends');
ok(wait_for(sub { slurp_file($node->logfile) =~ /found consistent point/ }), 'the slot has its place in the WAL');
open_gate(4);
ok(finish_session($late), 'the late one ends, and is visible first');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
reload($node);
ok(finish_session($waits), 'the one that waited ends');
my $snapshot = exported_to('slot');
my $import = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot';";
is($node->safe_psql('postgres', "$import SELECT string_agg(name, ' ' ORDER BY name) FROM events"), 'first second waits',
	'the snapshot sees the one that was visible later, and not the other one');
is($node->safe_psql('postgres', "$import SELECT snowflake_settled() AS mark \\gset\nCOMMIT; SELECT :mark <= id FROM events WHERE name = 'late'"),
	't', 'the mark is not above what the snapshot does not see');
is($node->safe_psql('postgres', 'SELECT snowflake_settled() > id FROM events WHERE name = $$late$$'),
	't', 'but with a snapshot of its own a statement has it below the mark');
append_to_file("$dir/done", '');
ok(finish_session($slot), 'the slot goes');
open_gate(5);
ok(finish_session($user), 'a connection that uses its snapshot gets a mark') or diag($user->{err});
my ($mark) = $user->{out} =~ /^mark (\d+)$/m;
is($node->safe_psql('postgres', "SELECT $mark <= id FROM events WHERE name = 'late'"), 't', 'which is not above what it does not see, either');

# one that a session exports is as good as that session's
open_gate(0);
my $exporter = start_session($node, <<"SQL");
BEGIN ISOLATION LEVEL REPEATABLE READ;
\\o $dir/session
SELECT 'exported', '', pg_export_snapshot(), '';
\\o
CALL wait_for_gate(1);
SQL
$snapshot = exported_to('session');
$node->safe_psql('postgres', "INSERT INTO events (name) VALUES ('after it')");
is($node->safe_psql('postgres', <<"SQL"), 't|t', 'a snapshot that a session exported gives a mark');
BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'; SELECT snowflake_settled() AS mark \\gset
COMMIT;
SELECT :mark <= id, :mark > (SELECT id FROM events WHERE name = 'waits') FROM events WHERE name = 'after it';
SQL
open_gate(1);
finish_session($exporter);

# --- A snapshot of logical decoding, which tells nothing of what is visible

my $plugin = SnowflakeTest::shim('decode_mark');
$node->append_conf('postgresql.conf', "dynamic_library_path = '" . dirname($plugin) . ':' . $node->safe_psql('postgres', 'SHOW dynamic_library_path') . "'");
# newer minor releases have a list of those that may be used
$node->append_conf('postgresql.conf', $_)
  for split(/\n/, $node->safe_psql('postgres', q(SELECT name || ' = decode_mark' FROM pg_settings WHERE name = 'output_plugin_libraries')));
reload($node);
fails_with($node, <<'SQL', 'XX000', qr/cannot tell which ids are settled without a snapshot/, 'an output plugin that asks for the mark gets an error');
SELECT pg_create_logical_replication_slot('asks', 'decode_mark');
INSERT INTO events (name) VALUES ('decoded');
SELECT * FROM pg_logical_slot_get_binary_changes('asks', NULL, NULL);
SQL
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('asks'); DELETE FROM events WHERE name = 'decoded'");

# --- A snapshot of before the first call after a start
#
# What was prepared before the start holds the mark from the start on, whoever ends it,
# and what others do meanwhile does not count.
$node->safe_psql('postgres', "BEGIN; INSERT INTO events (name) VALUES ('prepared'); PREPARE TRANSACTION 'prepared'");
# who holds the mark: not what has minted nothing
$node->safe_psql('postgres', "BEGIN; CREATE TABLE minted_nothing (); PREPARE TRANSACTION 'minted nothing'");
my $holding = <<'SQL';
SELECT string_agg(concat_ws(' ', database, application_name, gid), ', ' ORDER BY since),
       bool_and(since BETWEEN now() - interval '1 h' AND now()), bool_and((pid IS NULL) = (gid IS NOT NULL) AND (pid IS NULL) = (oldest_id IS NULL))
  FROM snowflake_unsettled
SQL
open_gate(0);
my $session = start_writer('a session', 1);
is($node->safe_psql('postgres', $holding), 'postgres prepared, postgres a session|t|t', 'two hold the mark');
open_gate(1);
finish_session($session);
$node->restart;
is($node->safe_psql('postgres', $holding), 'postgres prepared|t|t', 'and after a restart, one');
is($node->safe_psql('postgres', 'SELECT snowflake_settled()::timestamptz = since FROM snowflake_unsettled'), 't', 'from where the mark stands');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'minted nothing'");
open_gate(0);
my $other = start_writer('another one', 1);
my $reader = start_session($node, <<'SQL');
SET application_name = 'reader';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 FROM events;
CALL wait_for_gate(2);
SELECT snowflake_settled() <= min(id) FROM events WHERE name = 'prepared';
SELECT snowflake_settled();
SQL
ok(wait_until($node, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'reader' AND query LIKE 'CALL%')), 'there is a snapshot');
open_gate(1);
ok(finish_session($other), 'a transaction that it does not see ends');
$node->safe_psql('postgres', "COMMIT PREPARED 'prepared'");
open_gate(2);
ok(finish_session($reader), 'and the first call with that snapshot succeeds') or diag($reader->{err});
my ($mark) = $reader->{out} =~ /(\d+)\z/;
is($node->safe_psql('postgres', "SELECT $mark <= id FROM events WHERE name = 'prepared'"), 't',
	'with a mark that is not above what was prepared before the start');

# --- A snapshot of before the numbers of transactions wrap around, and a call after that
my $wraps = new_server('wraps', conf => "snowflake.shards = '0-3'\nautovacuum = off\n");
my $near_end = 2**32 - 6;

$wraps->safe_psql('postgres', 'CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text)');
$wraps->safe_psql($_, 'VACUUM FREEZE') for 'postgres', 'template1';
$wraps->stop;
my $clog = sprintf('%s/pg_xact/%04X', $wraps->data_dir, $near_end >> 20);
append_to_file($clog, "\0" x 2**18) if !-e $clog;
system_or_bail('pg_resetwal', '-x', $near_end, '-u', $near_end - 100, '-D', $wraps->data_dir);
$wraps->start;
my $of_before = $wraps->background_psql('postgres', on_error_die => 1);
$of_before->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM events');
my $unseen = $wraps->safe_psql('postgres', q{INSERT INTO events (name) VALUES ('unseen') RETURNING id});
$wraps->safe_psql('postgres', "SELECT pg_current_xact_id();\n" x 10);
is($wraps->safe_psql('postgres', 'SELECT pg_current_xact_id()::text::numeric > 2::numeric ^ 32'), 't', 'the numbers of transactions have wrapped around');
cmp_ok($of_before->query_safe('SELECT snowflake_settled()'), '<=', $unseen, 'the mark is not above what a snapshot of before does not see');
$of_before->quit;
$wraps->stop;

# --- First polls after a start
my $write = <<'SQL';
DO $$
BEGIN
	FOR n IN 1 .. 1000000 LOOP
		INSERT INTO events (name) VALUES ('busy');
		COMMIT;
	END LOOP;
END $$
SQL
my $failed = 0;

for my $n (1 .. $RESTARTS)
{
	$node->stop($n % 2 ? 'fast' : 'immediate');
	$node->start;
	my @writers = map { start_session($node, $write, errors => '/dev/null') } 1 .. 4;
	my @polls = map { start_session($node, "SELECT snowflake_settled();\n") } 1 .. 6;
	$failed += grep { !finish_session($_) } @polls;
	end_sessions($node, "query LIKE 'DO%'", @writers);
}
is($failed, 0, "of 6 first polls after each of $RESTARTS restarts none failed");

# --- Nobody waits for anybody
#
# 64 writers that commit without a pause, 4 pollers, and one with an old snapshot: no
# sample shows somebody who waits for a lock of ours.
# the horizon's lock is another matter
$node->append_conf('postgresql.conf', "synchronous_commit = off\nsnowflake.reserve = 60s\n");
reload($node);
my $poll = q{DO $$ BEGIN WHILE pg_read_file('gate')::integer < 4 LOOP FOR n IN 1 .. 100 LOOP PERFORM snowflake_settled(); COMMIT; END LOOP; END LOOP; END $$};
my $commit = <<'SQL';
DO $$ BEGIN WHILE pg_read_file('gate')::integer < 4 LOOP FOR n IN 1 .. 100 LOOP INSERT INTO events (name) VALUES ('row'); COMMIT; END LOOP; END LOOP; END $$
SQL
my $old = <<'SQL';
BEGIN ISOLATION LEVEL REPEATABLE READ;
DO $$
BEGIN
	WHILE pg_read_file('gate')::integer < 4 LOOP
		BEGIN
			PERFORM snowflake_settled();
		EXCEPTION WHEN object_not_in_prerequisite_state THEN
		END;
	END LOOP;
END $$
SQL
open_gate(0);
my @busy = ((map { start_session($node, $commit) } 1 .. 64), (map { start_session($node, $poll) } 1 .. 4), start_session($node, $old));
ok(wait_until($node, q(SELECT count(*) = 69 FROM pg_stat_activity WHERE query LIKE 'DO%')), '64 writers, 4 pollers, an old snapshot');
$node->safe_psql('postgres', <<'SQL');
CREATE UNLOGGED TABLE samples AS SELECT pid, wait_event_type, wait_event FROM pg_stat_activity WHERE false;
DO $$
BEGIN
	FOR n IN 1 .. 300 LOOP
		INSERT INTO samples SELECT pid, wait_event_type, wait_event FROM pg_stat_activity WHERE query LIKE 'DO%' AND pid <> pg_backend_pid();
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$
SQL
open_gate(4);
ok(finish_session($_), 'a session ends') for @busy;
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM samples'), '>', 10_000, 'samples');
is($node->safe_psql('postgres', q(SELECT count(*) FROM samples WHERE wait_event ILIKE '%snowflake%' AND wait_event_type = 'LWLock')), 0,
	'in none of them somebody waits for a lock of ours')
  or diag($node->safe_psql('postgres', 'SELECT wait_event_type, wait_event, count(*) FROM samples GROUP BY 1, 2 ORDER BY 3 DESC'));

done_testing();
