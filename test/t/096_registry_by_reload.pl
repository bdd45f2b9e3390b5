# A registry that a reload names while no worker of leases runs: from the first id on,
# nothing is minted without a lease.  And signals that reach that worker during a call.
# The workers read the file at a reload, and at no other time.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $AWAY = "snowflake.registry = 'host=127.0.0.1 port=1 dbname=postgres'\n";    # nobody answers there

sub mints_nothing
{
	my ($node, $name) = @_;

	fails_with($node, 'SELECT snowflake_nextval()', '58000', qr/registry/, $name, at_last => 1);
	fails_with($node, 'SELECT snowflake_nextval(5)', '58000', qr/registry/, "$name, also on the shard itself");
	return;
}

my $paris = new_server('paris', init => { allows_streaming => 1 }, conf => "snowflake.shards = '5'\n");
$paris->safe_psql('postgres', 'SELECT snowflake_nextval()');

# --- A standby, which is promoted: at no time does it mint

$paris->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($paris, 'base', has_streaming => 1);
$standby->start;
$standby->append_conf('postgresql.conf', $AWAY);
reload($standby);
$standby->promote;
my ($status) = $standby->psql('postgres', 'SELECT snowflake_nextval()');
isnt($status, 0, 'a standby is promoted: its first call mints nothing');
mints_nothing($standby, 'nor does a later one');

# --- The worker ends, and is started after the reload

$paris->append_conf('postgresql.conf', $AWAY);
$paris->safe_psql('postgres', <<'SQL');
SELECT pg_terminate_backend(pid), pg_reload_conf() FROM pg_stat_activity WHERE backend_type = 'snowflake lease'
SQL
mints_nothing($paris, 'the worker starts with another setting: nothing is minted');
$_->stop for $standby, $paris;

# --- A signal reaches the worker while it waits for an answer: it heeds that after the
# call, and not when the next one is due

my $registry = new_registry('registry');
my $tokyo = leasing_server('tokyo', $registry, '40', '10min');
is_holding($tokyo, '40', 'a server leases');
my $last_answer = 'SELECT last_answer FROM snowflake_lease_status()';
my $answered = $tokyo->safe_psql('postgres', $last_answer);

# How often the worker went to sleep, and for how long it ran, in hundredths of a second.
sub activity_of
{
	my ($pid) = @_;
	my ($sleeps) = slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s*(\d+)/m;
	my @stat = split(' ', slurp_file("/proc/$pid/stat") =~ s/.*\) //sr);

	return ($sleeps, $stat[11] + $stat[12]);
}

my $sleeper = $tokyo->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease'));
ok(wait_until($tokyo, q(SELECT state = 'idle' FROM pg_stat_activity WHERE backend_type = 'snowflake lease')), 'its worker is idle');
my @activity = activity_of($sleeper);
# longer than between two attempts; woken twice, as it says so before it looks what to do
ok(wait_until($tokyo, "SELECT clock_timestamp() > '$answered'::timestamptz + interval '2 s'"), 'a while later');
my @since = activity_of($sleeper);
cmp_ok($since[0] - $activity[0], '<', 10, 'the worker sleeps: it wakes ' . ($since[0] - $activity[0]) . ' times');
cmp_ok($since[1] - $activity[1], '<', 20, 'nor does it run');
for (1 .. 2)
{
	my $offset = -s $tokyo->logfile;
	my $pid = $tokyo->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease' AND pg_log_backend_memory_contexts(pid)));
	$tokyo->wait_for_log(qr/logging memory contexts of PID $pid/, $offset);
	my $of_attempts = qr/\[$pid\] .*snowflake worker: \d+ total in (\d+) blocks/;
	$tokyo->wait_for_log($of_attempts, $offset);
	is((substr(slurp_file($tokyo->logfile), $offset) =~ $of_attempts)[0], 1, 'what an attempt needed is freed');
}
is($tokyo->safe_psql('postgres', $last_answer), $answered, 'the worker woken, and no call that waits for it: the registry is not asked');

# Have the worker wait in a call with other settings, do something, for instance send it a
# signal, and let the registry answer.
sub do_during_call
{
	my ($settings, $do) = @_;
	my $go_on = PostgreSQL::Test::Utils::tempdir() . '/go_on';
	my $lock = start_session($registry, "BEGIN; LOCK TABLE snowflake_registry_state; \\! until test -e $go_on; do sleep 0.01; done\n");

	wait_until($registry, q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'snowflake_registry_state'::regclass AND mode = 'AccessExclusiveLock' AND granted})
	  or die 'no lock';
	change_settings($tokyo, %$settings);
	wait_until($registry, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'snowflake lease' AND wait_event_type = 'Lock'})
	  or die 'no call waits';
	$do->();
	append_to_file($go_on, '');
	finish_session($lock) or die $lock->{err};
	return;
}

do_during_call({ shards => 41 }, sub { change_settings($tokyo, shards => '42') });
is_holding($tokyo, '42', 'settings that are read again during a call');

my $worker = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease'};
my $pid = $tokyo->safe_psql('postgres', $worker);
do_during_call({ shards => 43 }, sub { $tokyo->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") });
ok(wait_until($tokyo, "SELECT count(*) = 1 FROM ($worker) AS w WHERE pid <> $pid"), 'the worker is ended during a call: it leaves, and is back');
is_holding($tokyo, '43', 'and leases');
do_during_call({ shards => 40 }, sub {
	is($tokyo->safe_psql('postgres', 'SELECT last_error FROM snowflake_lease_status()'), 'cannot mint snowflake ids: the registry has not answered yet', 'before an answer, the status says that it waits for one');
});
is_holding($tokyo, '40', 'another shard');
wait_for_log($tokyo, qr/LOG:  this server has leased snowflake shards "40"\n.*DETAIL:  Before, it had "43"/, 0, 'as the log says');
do_during_call({ shards => 43 }, sub { });
is_holding($tokyo, '43', 'the one before');

# --- A call that failed with the settings of before a reload

$tokyo->append_conf('postgresql.conf', $AWAY);
reload($tokyo);
ok(wait_until($tokyo, "SELECT failure = 'away' FROM snowflake_lease_status()"), 'nobody answers');
do_during_call({ registry => registry_setting($registry) }, sub {
	is($tokyo->safe_psql('postgres', 'SELECT failure FROM snowflake_lease_status()'), '', 'other settings: the failure is forgotten');
});
is_holding($tokyo, '43', 'and it leases');

# --- The file changes after a reload

change_settings($tokyo, shards => '44', reserve => '2s');
is_holding($tokyo, '44', 'a reload');
my $changed = $tokyo->safe_psql('postgres', 'SELECT clock_timestamp()');
$tokyo->append_conf('postgresql.conf', "snowflake.shards = '44-45'\nsnowflake.reserve = '5min'\n");
fails_with($tokyo, q(SELECT snowflake_history(now() - interval '1 day', 7) OVER ()), '55006', qr/shard 7 is not reserved/, 'the registry is asked');
is($tokyo->safe_psql('postgres', q(SELECT string_agg(shard::text, ',') FROM snowflake_leases() WHERE held)), '44', 'what the file says now is not asked for');
ok(wait_until($tokyo, "SELECT snowflake_nextval() > 0 AND last_renewal > '$changed' FROM snowflake_horizon()"), 'the horizon is renewed');
is($tokyo->safe_psql('postgres', q(SELECT horizon < clock_timestamp() + interval '2 min' FROM snowflake_horizon())), 't', 'as far as before');

$_->stop for $tokyo, $registry;
done_testing();
