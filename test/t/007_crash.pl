# Crashes: fifty of them under load, at random moments, of the postmaster, of
# one backend, of everything at once; then with the clock set back before the
# restart.  Every id that a client received is written down by the client, and
# none may come twice in all of the server's lives.
#
# Majors: ends

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

my $ROUNDS = $ENV{SNOWFLAKE_CRASH_ROUNDS} // 50;
my $SESSIONS = 8;

my $node = new_server('crash', clock => 1, conf => <<'CONF');
restart_after_crash = on
snowflake.shards = '0-1'
snowflake.reserve = 200ms
snowflake.clock_tolerance = 10s
CONF
my @files;

# A postmaster that was killed leaves backends for a moment, and they keep the
# next one from starting.
sub start_again
{
	my ($offset) = @_;

	for (1 .. 300)
	{
		# a start that failed may have left it the dead postmaster's pid
		$node->{_pid} = undef;
		return if start_with_clock($node, $offset, fail_ok => 1);
		sleep(0.1);
	}
	die 'the server does not start any more';
}

my %crash = (
	'immediate stop' => sub {
		$node->stop('immediate');
		start_again(0);
	},
	'SIGKILL of the postmaster' => sub {
		$node->kill9;
		start_again(0);
	},
	'SIGKILL of a backend' => sub {
		# by the operating system, for the server may be restarting already
		my $pid = eval {
			$node->safe_psql('postgres',
				"SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT snowflake%' AND pid <> pg_backend_pid() LIMIT 1");
		};
		kill('KILL', $pid) if $pid;
		comes_back($node) or die 'the server does not come back';
	});
my @ways = sort keys %crash;
my $productive = 0;

srand($ENV{SNOWFLAKE_SEED} // 20261121);
for my $round (1 .. $ROUNDS)
{
	my $way = $ways[ $round % @ways ];
	my @minters = start_minters($node, $SESSIONS, 'snowflake_nextval()');

	sleep(0.15 + rand(0.45));
	$crash{$way}->();
	my @new = stop_minters(@minters);
	$productive++ if grep { -s $_ } @new;
	push @files, @new;
}
cmp_ok($productive, '>=', $ROUNDS / 2, "ids were minted in $productive of $ROUNDS lives");
my $ids = ids_are_distinct("$ROUNDS crashes", @files);
cmp_ok($ids, '>', 1000 * $ROUNDS, "$ids ids were received");

# --- the clock set back before the restart, after a crash and after a clean stop
#
# A short step is waited for, a long one is an error; and when the clock has
# passed the horizon, minting goes on.

for my $stop ('immediate', 'fast')
{
	for my $step (0.1, 4, 3600)
	{
		my $name = "$stop stop, clock back $step s";

		$node->append_conf('postgresql.conf', 'snowflake.clock_tolerance = ' . ($step < 3600 ? '20s' : '200ms'));
		$node->reload;
		my @minters = start_minters($node, 4, 'snowflake_nextval()');
		sleep(0.5);
		$node->stop($stop);
		my @before = stop_minters(@minters);
		push @files, @before;
		start_again(-$step);
		if ($step < 3600)
		{
			my $began = time();
			my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
			cmp_ok(time() - $began, '>', $step < 1 ? 0 : 0.5, "$name: the first call waits");
			like($id, qr/^\d+$/, "$name: and succeeds");
		}
		else
		{
			fails_with($node, 'SELECT snowflake_nextval()', '58000',
				qr/clock is 59 min \d+ s behind the snowflake horizon that was found at the start/, "$name: the first call fails");
			set_clock($node, 1);
			ok(wait_until($node, 'SELECT snowflake_nextval() IS NOT NULL'),
				"$name: and minting goes on when the clock has passed the horizon");
			set_clock($node, 0);
			sleep(1.5);
		}
		@minters = start_minters($node, 4, 'snowflake_nextval()');
		sleep($step < 3600 ? 0.3 + $step : 0.5);
		$node->stop('immediate');
		push @files, stop_minters(@minters);
		start_again(0);
	}
}
ids_are_distinct('all of it', @files);

# --- a reserve made shorter must not lower the record of a horizon that is
# --- published already: minting goes on up to that one
sub reload_with
{
	my ($line, $shown) = @_;

	$node->append_conf('postgresql.conf', $line);
	$node->reload;
	my ($name, $value) = $line =~ /^(\S+) = (.*)/;
	wait_until($node, "SELECT current_setting('$name') = '$value'") or die "no $line";
	# the worker has its own time to notice
	sleep(0.5);
	return;
}

reload_with('snowflake.clock_tolerance = 200ms');
reload_with('snowflake.reserve = 20s');
set_clock($node, 5);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
my $horizon = $node->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
reload_with('snowflake.reserve = 200ms');
set_clock($node, 17);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()') for 1 .. 3;
sleep(0.5);
is( $node->safe_psql('postgres', "SELECT horizon >= '$horizon' FROM snowflake_horizon()"),
	't', 'a shorter reserve: the record stays');
set_clock($node, 21);
my $latest = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
$node->stop('immediate');
start_again(17);
fails_with($node, 'SELECT snowflake_nextval()', '58000', qr/clock is [\d.]+ m?s behind the snowflake horizon/,
	'a shorter reserve: after a crash the server knows how far it had minted');
set_clock($node, 30);
cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $latest,
	'a shorter reserve: and goes on above');

done_testing();
