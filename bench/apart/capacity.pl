# Do calls wait as doc/capacity.md expects?
#
# pgbench calls snowflake_nextval() at random times, at rates that come near to
# what the shards have room for, and each call notes when it began and ended.
# The layout is a small one, so that pgbench can fill it: 16 ids in 50 ms.  The
# calls really wait.  Beside what was measured stand
#
# - what a queue does with the same calls that gives out 16 ids in each tick.
#   The generator must do the same, whatever else the machine is doing.
# - what doc/expected_waits.sql expects of calls at random times at that rate.
#   That needs calls at random times: on a busy machine pgbench comes late and
#   then makes up for it, which shows in their dispersion, and counts for
#   nothing.
#
# Neither counts the time for waking up, so that from the queue a tenth may be
# missing.  At 90 % the backlog differs a lot from minute to minute, and what is
# expected counts as equal up to a factor of one and a half.  Less than is worth
# measuring makes no difference.

use strict;
use warnings FATAL => 'all';
use Bench;
use Figures qw(contents);
use FindBin;
use List::Util qw(min);

my $QUEUE_TOLERANCE = 1.1;
my $TOLERANCE = 1.5;
my ($LEAST_SHARE, $LEAST_TICKS) = (0.01, 0.05);
my ($LEAST_DISPERSION, $MOST_DISPERSION) = (0.85, 1.15);    # of calls at random times
my $CLIENTS = 90;                                         # more than ever wait at once, or nobody arrives
my $IDS = 16;                                             # in a tick of a shard
my $TICKS = 20;                                           # in a second

my $here = "$FindBin::RealBin/capacity";
my $formula = contents("$FindBin::RealBin/../doc/expected_waits.sql");

# Are the shares, and the ticks that go with them, equal?
sub equal
{
	my ($share, $other_share, $ticks, $other_ticks, $factor) = @_;
	my $near = sub {
		my ($little, $less, $more) = (shift, sort { $a <=> $b } @_);
		return $more < $factor * $less || $more - $less < $little;
	};

	return $near->($LEAST_SHARE, $share, $other_share)
	  && ($near->($LEAST_TICKS, $ticks, $other_ticks) || min($share, $other_share) < $LEAST_SHARE);
}

# One run on so many shards, at a load in percent, and its line of the table.  Is
# it as it must be?
sub run_at
{
	my ($shards, $load) = @_;
	my $capacity = $IDS * $shards;

	query('TRUNCATE calls');
	pgbench(contents("$here/call.sql"), $CLIENTS, by_mode(0, 20, 90), 'snowflake.shards' => '0-' . ($shards - 1),
		synchronous_commit => 'off', arguments => [ '--jobs=1', '--rate=' . $capacity * $load * $TICKS / 100 ]);
	my ($per_tick, $dispersion, $share, $ticks, $queue_share, $queue_ticks, $e_share, $e_ticks) = split(/\|/,
		query("SELECT m.*, e.share, e.ticks FROM measured($capacity) AS m, expected_waits($capacity, m.per_tick) AS e"));
	my $verdict =
	    !equal($share, $queue_share, $ticks, $queue_ticks, $QUEUE_TOLERANCE) ? 'NOT AS THE QUEUE'
	  : $dispersion < $LEAST_DISPERSION || $dispersion > $MOST_DISPERSION ? 'not at random'
	  : !equal($share, $e_share, $ticks, $e_ticks, $TOLERANCE) ? 'NOT AS EXPECTED'
	  : 'equal';

	printf "%6d %6.1f %6.2f  %8.2f %8.2f %8.2f  %8.3f %8.3f %8.3f  %s\n", $shards, 100 * $per_tick / $capacity, $dispersion,
	  (map { 100 * $_ } $share, $queue_share, $e_share), $ticks, $queue_ticks, $e_ticks, $verdict;
	return $verdict !~ /NOT/;
}

start_server(<<"END");
fsync = off
autovacuum = off
snowflake.layout = 'epoch=2026-01-01 unit=50ms fields=timestamp:39,shard:8,sequence:4'
END
query([ 'CREATE EXTENSION snowflake', $formula, contents("$here/setup.sql") ]);

printf "\n%37s calls that wait, %%      and each of them, in ticks\n", '';
printf "%6s %6s %6s  %8s %8s %8s  %8s %8s %8s\n", qw(shards load% disp. measured queue expected measured queue expected);
my $wrong = 0;
for my $shards (1, 2)
{
	run_at($shards, $_) || $wrong++ for @{ by_mode([90], [ 50, 70, 80, 90 ], [ 50, 70, 80, 90 ]) };
}
exit($wrong && $Bench::mode ne 'smoke');
