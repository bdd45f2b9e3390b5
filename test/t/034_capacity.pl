# What doc/expected_waits.sql expects of calls that come at random: its function agrees
# with a simulation of the queue, and the generator does with calls what such a
# queue does.  The latter is measured by bench/run.sh --only capacity for longer; how busy
# the machine is plays no part, since the queue gets the calls as they came.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $CAPACITY = 16;
my $node = new_server('capacity', conf => <<'CONF');
max_connections = 120
fsync = off
snowflake.shards = '0'
snowflake.layout = 'epoch=2026-01-01 unit=20ms fields=timestamp:39,shard:8,sequence:4'
CONF
$node->safe_psql('postgres', join('', map { slurp_file("$top/$_.sql") } 'doc/expected_waits', 'bench/capacity/setup'));

# Are two numbers equal up to a factor, or to what does not matter?
sub about
{
	my ($got, $expected, $factor, $little, $name) = @_;
	my ($less, $more) = sort { $a <=> $b } $got, $expected;

	ok($more <= $less * $factor || $more - $less <= $little, $name)
	  or diag("got $got, expected $expected");
	return;
}

# --- The function, against the queue with a million ids and calls at random
# --- times.  The page says how exact it is.

sub simulate
{
	my ($capacity, $per_tick) = @_;
	my ($now, $position, $calls, $waited, $ticks) = (0, -1, 0, 0, 0);

	while ($now < 1_000_000 / $capacity)
	{
		$now += -log(1 - rand()) / $per_tick;
		$position = int($now) * $capacity > $position ? int($now) * $capacity : $position + 1;
		my $served = int($position / $capacity);
		$calls++;
		next unless $served > $now;
		$waited++;
		$ticks += $served - $now;
	}
	return ($waited / $calls, $waited ? $ticks / $waited : 0);
}

srand(5);
for ([ 16, 0.7 ], [ 16, 0.9 ], [ 64, 0.9 ], [ 64, 0.95 ])
{
	my ($capacity, $load) = @$_;
	my ($share, $ticks) = simulate($capacity, $capacity * $load);
	my ($e_share, $e_ticks) = split(/\|/,
		$node->safe_psql('postgres', "SELECT * FROM expected_waits($capacity, $capacity * $load)"));

	about($e_share, $share, 1.15, 0.001, "$capacity ids per tick, load $load: share of calls that wait");
	about($e_ticks, $ticks, 1.2, 0, "$capacity ids per tick, load $load: for how long");
	note("share $e_share, simulated $share; ticks $e_ticks, simulated $ticks");
}
is($node->safe_psql('postgres', 'SELECT * FROM expected_waits(16, 16)'), '1|Infinity',
	'no end to waiting where there is no headroom');

# --- The generator, at half of its capacity and near to it: for some 5 s, and
# --- until each client has made its calls, however long it takes to connect.

my $clients = 90;
my (%share, %dispersion);
for my $load (50, 95)
{
	my ($per_tick, $ticks, $queue_share, $queue_ticks);
	my $rate = $CAPACITY * $load / 2;
	my $each = int(5 * $rate / $clients);

	$node->safe_psql('postgres', 'TRUNCATE calls');
	command_ok([ 'pgbench', '--no-vacuum', "--client=$clients", '--jobs=1', '--protocol=prepared',
			"--transactions=$each", "--rate=$rate", "--file=$top/bench/capacity/call.sql",
			'-d', $node->connstr('postgres') ], "load $load %: calls at random times");
	is(count_of($node, 'calls'), $clients * $each, "load $load %: all of them");
	($per_tick, $dispersion{$load}, $share{$load}, $ticks, $queue_share, $queue_ticks) =
	  split(/\|/, $node->safe_psql('postgres', "SELECT * FROM measured($CAPACITY)"));

	about($share{$load}, $queue_share, 1.3, 0.05, "load $load %: as many calls wait as in the queue");
	is($node->safe_psql('postgres', <<"SQL"), '0', "load $load %: an id is the next one of the queue, or the first one of its tick");
WITH minted AS (
    SELECT (id::bigint >> 12) * $CAPACITY + (id::bigint & 15) AS position FROM calls
), pair AS (
    SELECT position, lag(position) OVER (ORDER BY position) AS last FROM minted
)
SELECT count(*) FROM pair WHERE position <> last + 1 AND (position % $CAPACITY <> 0 OR position = last)
SQL
	is($node->safe_psql('postgres', 'SELECT count(*) FROM calls WHERE snowflake_timestamp(id) > ended'), 0,
		"load $load %: and a call ends when its tick has begun");
	note("$per_tick calls per tick, dispersion $dispersion{$load}; share $share{$load}, queue $queue_share; ticks $ticks, queue $queue_ticks");
}
SKIP:
{
	skip 'the machine is too busy for calls at random times', 1 if $dispersion{50} > 1.5;
	cmp_ok($share{95}, '>', 5 * $share{50}, 'many more calls wait under the higher load');
}

done_testing();
