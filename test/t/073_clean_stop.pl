# The horizon's worker leaves as the server's own workers do: a clean stop logs
# nothing that alarms, and what it wrote to the WAL is in the server's statistics.  And no id
# is minted in a tick of before.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_server('stopped', init => { allows_streaming => 1 }, conf => <<'CONF');
autovacuum = off
snowflake.reserve = 100ms
CONF

# --- statistics: of so many renewals, each an image of a page; others write few

$node->safe_psql('postgres', 'CREATE TABLE before AS SELECT wal_fpi FROM pg_stat_wal');
$node->safe_psql('postgres', <<'SQL');
DO $$
DECLARE
	seen timestamptz := '-infinity';
	renewals integer := 0;
	renewed timestamptz;
BEGIN
	WHILE renewals < 40 LOOP
		PERFORM snowflake_nextval(1), pg_sleep(0.01);
		SELECT last_renewal INTO renewed FROM snowflake_horizon();
		IF renewed > seen THEN
			renewals := renewals + 1;
			seen := renewed;
		END IF;
	END LOOP;
END $$
SQL
ok(wait_until($node, 'SELECT s.wal_fpi >= b.wal_fpi + 39 FROM pg_stat_wal AS s, before AS b'), 'the WAL of its renewals is counted while it runs');

# --- stops, while it is idle and while it waits

# Without what is said of the test's own sessions, which may just be leaving.
sub log_of_stop
{
	my ($mode) = @_;
	my $offset = -s $node->logfile;

	$node->stop($mode);
	return slurp_file($node->logfile, $offset) =~ s/^.*\Q073_clean_stop.pl\E .*\n//gmr;
}

my $alarm = qr/WARNING|ERROR|FATAL|PANIC/;
my $log = log_of_stop('fast');
unlike($log, $alarm, 'a fast stop logs nothing that alarms');
like($log, qr/background worker "snowflake horizon" \(PID \d+\) exited with exit code 1/, 'the worker left as asked');
$node->start;
$node->safe_psql('postgres', 'SELECT snowflake_nextval(1)');
unlike(log_of_stop('smart'), $alarm, 'nor does a smart stop');

$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
$node->start;
my @sessions = start_session($node, 'SELECT snowflake_nextval(1)');
ok(wait_until($node, q{SELECT waiting_for = 'synchronous standby' FROM snowflake_horizon()}), 'the worker waits for a standby');
# a second one wakes it, and then it sleeps again
push @sessions, start_session($node, 'SELECT snowflake_nextval(1)');
ok(wait_until($node, q{SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'client backend' AND wait_event_type = 'Extension'}), 'and two sessions for the worker');
my $worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'";
my $pid = $node->safe_psql('postgres', $worker);
my $asleep = grep { sleep(0.05); is_asleep($pid) } 1 .. 20;
cmp_ok($asleep, '>=', 5, "looked at 20 times, it sleeps $asleep times");
$log = log_of_stop('fast');
unlike($log =~ s/FATAL:  terminating connection due to administrator command//r, $alarm, 'nor a stop while it waits');
finish_session($_) for @sessions;

# --- an administrator who ends it: the server starts it again

$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$node->start;
ok(wait_until($node, "SELECT EXISTS ($worker)"), 'the worker runs');
$pid = $node->safe_psql('postgres', $worker);
is($node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)"), 't', 'it can be ended');
ok(wait_until($node, "SELECT coalesce(bool_or(pid <> $pid), false) FROM ($worker) AS w"), 'and is back');
like($node->safe_psql('postgres', 'SELECT snowflake_nextval(1)'), qr/^\d+$/, 'and renews');

# --- a standby that has written a record, and flushes none before the end of a segment

my $slot = [ 'pg_receivewal', '-D', PostgreSQL::Test::Utils::tempdir(), '-d', $node->connstr('postgres') . ' application_name=writes', '-S', 'writes' ];
system_or_bail(@$slot, '--create-slot');
my $receiver = IPC::Run::start([ @$slot, '-s', 1 ], '<', '/dev/null', '>', \my $received, '2>', \my $complaints);
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'writes'\nsynchronous_commit = remote_write");
reload($node);
ok(wait_until($node, q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'}), 'a synchronous standby only writes');
ok(wait_until($node, 'SELECT seconds_ahead < 0 FROM snowflake_horizon()'), 'the horizon has passed');
my $session = start_session($node, 'SELECT snowflake_nextval(1)');
ok(wait_for(sub { has_ended($session) }), 'that is enough for remote_write');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
reload($node);
ok(finish_session($session), 'the call succeeds');
$receiver->kill_kill;
$node->stop;

# --- the tick that was minted in last is over for the next start, here a minute

my $minute = int(time() / 60) * 60 + 120;
sub in_minute { my ($seconds) = @_; return $minute + $seconds - time() }
my $slow = new_server('slow', clock => 1, conf => "snowflake.layout = 'epoch=2020-01-01 unit=60s fields=timestamp:30,shard:3,sequence:8'\n");
set_clock($slow, in_minute(5));
my $last = $slow->safe_psql('postgres', 'SELECT max(snowflake_nextval(1)) FROM generate_series(1, 5)');
$slow->stop;
start_with_clock($slow, in_minute(5));
fails_with($slow, 'SET snowflake.clock_tolerance = 0; SELECT snowflake_nextval(1)', '58000', qr/behind the snowflake horizon that was found/,
	'started within the tick of its last id, it waits');
set_clock($slow, in_minute(65));
is($slow->safe_psql('postgres', "SELECT snowflake_nextval(1) > $last"), 't', 'and mints in the next one');
# of which the first id can still be minted
$slow->safe_psql('postgres', 'CREATE TABLE this_minute (id bigint PRIMARY KEY); INSERT INTO this_minute VALUES (snowflake_floor(clock_timestamp()))');
fails_with($slow, "SELECT snowflake_adopt('this_minute', 'id', 1)", '55000', qr/holds an id that is not below those to be minted/,
	'a table with the first id of that tick is not adopted');
$slow->stop;

done_testing();
