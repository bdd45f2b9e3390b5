# The horizon's worker answers its administrator: it is seen, SQL ends it, and
# it stops waiting for a synchronous standby when the settings no longer ask for
# one.  A wait that was cut short never counts as stored.  And however slow a
# standby is, minting has its turn.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

my $mint = 'SELECT snowflake_nextval(5)';
my $node = new_server('primary', init => { allows_streaming => 1 }, conf => "snowflake.shards = 5\nsnowflake.reserve = 100ms\nautovacuum = off");

sub set_system
{
	my ($setting, $value) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $setting = '$value'");
	reload($node);
	return;
}

sub worker
{
	return $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'});
}

my $is_waiting = q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE '%nextval(5)%' AND wait_event_type = 'Extension'};

# A call that has to wait for the worker, which waits for a standby.
sub start_waiting
{
	my $session;

	# how far ahead the horizon is depends on how long the last renewal took
	ok(wait_until($node, 'SELECT seconds_ahead < 0 FROM snowflake_horizon()'), 'the horizon has passed');
	$session = start_session($node, $mint);
	ok(wait_until($node, q{SELECT waiting_for = 'synchronous standby' AND waiting_since <= clock_timestamp() FROM snowflake_horizon()}),
		'snowflake_horizon() says what the worker waits for, and since when');
	ok(wait_until($node, $is_waiting), 'the call waits for the worker');
	return $session;
}

# --- it is seen

$node->safe_psql('postgres', $mint);
like(worker(), qr/^\d+$/, 'pg_stat_activity shows the worker');
is($node->safe_psql('postgres', 'SELECT waiting_for IS NULL AND waiting_since IS NULL FROM snowflake_horizon()'),
	't', 'it waits for nothing');

# --- the only synchronous standby is gone

for my $case (
	[ 'synchronous_commit is local', 'synchronous_commit', 'local', 'on' ],
	[ 'no standby is named', 'synchronous_standby_names', '', 'nobody' ])
{
	my ($name, $setting, $cure, $back) = @$case;

	set_system('synchronous_standby_names', 'nobody');
	my $waiting = start_waiting();
	ok(wait_until($node, q{SELECT coalesce(wait_event = 'SyncRep', false) FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'}),
		'pg_stat_activity shows its wait');
	set_system($setting, $cure);
	ok(finish_session($waiting) && $waiting->{out} =~ /^\d+$/, "$name: the call returns") or diag($waiting->{err});
	is($node->safe_psql('postgres', 'SELECT waiting_for IS NULL AND last_error IS NULL FROM snowflake_horizon()'), 't', "$name: no wait, no error");
	set_system($setting, $back);
}

# --- while it waits, it is not woken by each call that reads the mark

my $reader = start_session($node, 'DO $$ BEGIN LOOP PERFORM snowflake_settled(); COMMIT; END LOOP; END $$');
looks_seldom($node, q{backend_type = 'snowflake horizon'}, 'a wait for a standby');
end_sessions($node, q{query LIKE 'DO %snowflake_settled%'}, $reader);

# --- SQL ends it, and the record that it was waiting for does not count

my $waiting = start_waiting();
my $old = worker();
my $horizon = $node->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
my $ended_at = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
is($node->safe_psql('postgres', "SELECT pg_terminate_backend($old)"), 't', 'pg_terminate_backend() knows the worker');
ok(wait_until($node, qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'snowflake horizon' AND pid <> $old}),
	'the worker is ended, and back');
is($node->safe_psql('postgres', "SELECT backend_start > timestamptz '$ended_at' + interval '1 s' FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'"), 't', 'a second later');
ok(wait_until($node, q{SELECT waiting_for = 'synchronous standby' FROM snowflake_horizon()}), 'it waits again');
is($node->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()'), $horizon, 'the horizon has not moved');
fails_with($node, "SET statement_timeout = '1s'; $mint", '57014', qr/statement timeout/, 'nothing is minted');
is($node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'"), 't', 'the wait is cancelled');
ok(!finish_session($waiting), 'then a call that waits for it fails');
like($waiting->{err}, qr/cannot mint snowflake ids: canceling statement due to user request/, 'with the reason');
is($node->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()'), $horizon, 'and the horizon has not moved');

# until the server starts another one, which a stopped postmaster does not, none waits
$waiting = start_waiting();
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%nextval(5)%' AND pid <> pg_backend_pid()});
ok(!finish_session($waiting), 'a call asks the worker, and leaves');
$old = worker();
my $postmaster = postmaster_pid($node);
my (undef, $said) = $node->psql('postgres', <<"SQL");
\\! kill -STOP $postmaster
SELECT pg_terminate_backend($old);
\\! until grep -q ') Z' /proc/$old/stat; do sleep 0.1; done
SELECT waiting_for IS NULL AND waiting_since IS NULL FROM snowflake_horizon();
SQL
kill 'CONT', $postmaster;
is($said, "t\nt", 'a worker that has ended waits for nothing');

# the same for the first record of a server that has read its page: there is no trouble with that
$node->stop('immediate');
unlink($node->data_dir . '/snowflake.horizon') or die;
$node->start;
ok(wait_until($node, q{SELECT waiting_for = 'synchronous standby' FROM snowflake_horizon()}), 'after a crash, and without its file, it waits at once');
$waiting = start_session($node, $mint);
ok(wait_until($node, $is_waiting), 'a call waits for it');
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . worker() . ')');
ok(!finish_session($waiting), 'the call fails');
like($waiting->{err}, qr/cannot mint snowflake ids: canceling statement.*HINT:  Remove the cause, such as a full disk/s, 'as the record cannot be stored');

set_system('synchronous_standby_names', '');
like(mints_at_last($node, $mint), qr/^\d+$/, 'without a synchronous standby minting goes on');

# --- a standby that is slower than any reserve

my $DELAY = $ENV{SNOWFLAKE_STANDBY_DELAY} // 14;
my $standby = PostgreSQL::Test::Cluster->new('standby');
$node->backup('base');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "recovery_min_apply_delay = '${DELAY}s'");
$standby->start;
$node->safe_psql('postgres', 'CREATE TABLE written (n int)');

# Only commits are delayed, so there must be some all the time.  A call is timed
# beside a commit: each waits for what is in the WAL before it.
my $writers = start_session($node, "SET synchronous_commit = local;\n" . "INSERT INTO written VALUES (1); SELECT pg_sleep(0.2);\n" x (5 * 40 * $DELAY));
set_system('synchronous_standby_names', '*');
set_system('synchronous_commit', 'remote_apply');

sub time_of
{
	my ($sql) = @_;
	my $session = start_session($node, $sql);

	finish_session($session) or die $session->{err};
	return $session->{elapsed};
}

my $commit = time_of('INSERT INTO written VALUES (2)');
cmp_ok($commit, '>', $DELAY / 2, 'a commit takes as long as the standby');
my $first = time_of($mint);
note(sprintf('a commit took %.1f s, the first call %.1f s', $commit, $first));
cmp_ok($first, '<', 3.5 * $commit, 'the first call takes a few commits: one to see how slow the standby is, one to go on');

# from then on the horizon is renewed early enough
my @waits = map { sleep(1); (split(/\n/, $node->safe_psql('postgres', "$mint; SELECT waits FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid()")))[1] } 1 .. 2 * $DELAY;
cmp_ok(scalar(grep { $_ } @waits), '<', @waits / 4, 'later calls do not wait for the standby, unless it became slower') or diag("@waits");
is($node->safe_psql('postgres', 'SELECT last_error IS NULL FROM snowflake_horizon()'), 't', 'there was no error');

$writers->{run}->kill_kill;
$node->stop('immediate');
$standby->stop('immediate');
done_testing();
