# Crashes: fifty of them under load, at random moments, of the postmaster, of
# one backend, of everything at once; then with the clock set back before the
# restart.  Every id that a client received is written down by the client, and
# none may come twice in all of the server's lives.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use List::Util qw(max);
use Time::HiRes qw(sleep time);
use Test::More;

my $ROUNDS = $ENV{SNOWFLAKE_CRASH_ROUNDS} // 50;
my $SESSIONS = 8;

my $node = new_server('crash', clock => 1, conf => <<'CONF');
restart_after_crash = on
snowflake.shards = '0-1'
snowflake.reserve = 200ms
snowflake.clock_tolerance = 60s
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
		# it is there until the server has noticed
		wait_for(sub { !$pid || !kill(0, $pid) }) or die 'the server notices nothing';
		comes_back($node) or die 'the server does not come back';
	});
my @ways = sort keys %crash;

srand($ENV{SNOWFLAKE_SEED} // 20261121);
for my $round (1 .. $ROUNDS)
{
	my $way = $ways[ $round % @ways ];
	my @minters = start_minters($node, $SESSIONS, 'snowflake_nextval()');

	all_mint(200, @minters);
	sleep(rand(0.45));
	$crash{$way}->();
	push @files, stop_minters(@minters);
}
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

		$node->append_conf('postgresql.conf', 'snowflake.clock_tolerance = ' . ($step < 3600 ? '60s' : '200ms'));
		reload($node);
		my @minters = start_minters($node, 4, 'snowflake_nextval()');
		all_mint(20, @minters);
		$node->stop($stop);
		my @before = stop_minters(@minters);
		push @files, @before;
		start_again(-$step);
		if ($step < 3600)
		{
			my $last = max(map { slurp_file($_) =~ /^(\d+)\n/mg } @before);
			my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
			my $waited_to = time() - $step;

			cmp_ok($id, '>', $last, "$name: the first call succeeds");
			cmp_ok($waited_to, '>', $node->safe_psql('postgres', "SELECT extract(epoch FROM snowflake_timestamp($last))"),
				"$name: when it has waited for the clock");
		}
		else
		{
			fails_with($node, 'SELECT snowflake_nextval()', '58000',
				qr/clock is (?:59 min|1 h) .*behind the snowflake horizon that was found at the start/, "$name: the first call fails");
			set_clock($node, 1);
			like(mints_at_last($node, 'SELECT snowflake_nextval()'), qr/^\d+$/,
				"$name: and minting goes on when the clock has passed the horizon");
			set_clock($node, 0);
			mints_at_last($node, 'SELECT snowflake_nextval()');
		}
		@minters = start_minters($node, 4, 'snowflake_nextval()');
		all_mint(20, @minters);
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
	reload($node);
	my ($name, $value) = $line =~ /^(\S+) = (.*)/;
	wait_until($node, "SELECT current_setting('$name') = '$value'") or die "no $line";
	return;
}

reload_with('snowflake.clock_tolerance = 200ms');
reload_with('snowflake.reserve = 1min');
set_clock($node, 35);
ok(wait_until($node, 'SELECT seconds_ahead > 45 FROM (SELECT snowflake_nextval()) AS minted, snowflake_horizon()'), 'a long reserve');
my $horizon = $node->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
reload_with('snowflake.reserve = 200ms');
set_clock($node, 70);
$node->safe_psql('postgres', 'SELECT snowflake_nextval(), pg_sleep(0.1) FROM generate_series(1, 10)');
is( $node->safe_psql('postgres', "SELECT horizon >= '$horizon' FROM snowflake_horizon()"),
	't', 'a shorter reserve: the record stays');
set_clock($node, 75);
my $latest = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
$node->stop('immediate');
start_again(20);
fails_with($node, 'SELECT snowflake_nextval()', '58000', qr/clock is [\d.]+ m?s behind the snowflake horizon/,
	'a shorter reserve: after a crash the server knows how far it had minted');
set_clock($node, 150);
cmp_ok(mints_at_last($node, 'SELECT snowflake_nextval()'), '>', $latest,
	'a shorter reserve: and goes on above');

done_testing();
