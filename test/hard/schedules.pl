# Schedules: real server processes, of which one at a time makes its steps, handed on by a
# seed.  So rare orders of steps are common, and one that fails can be had again.
#
#   schedules.pl MINUTES SEED                    what holds, holds; and each fault shows
#   schedules.pl MINUTES SEED holds [NAME...]    only what holds, in scenarios whose names begin so
#   schedules.pl MINUTES SEED FAULT...           these faults show
#   schedules.pl 0 SEED                          this schedule of each scenario, with its steps
#
# test/perl/Schedules.pm has the scenarios, and the faults of Faults.pm that show in each.
# Runs in the copy of the tree, as the user of the server, where the library was built with
# -include test/hard/schedule.h.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Faults;
use Schedules;
use Test::More;
use Time::HiRes qw(time);
use Tool;
use Turns;
use TurnServer;
use Variant;

my $MOST = 500;    # schedules of a seed until a fault shows
my $SEEDS = 3;    # with each that misses it, 1000 apart: a fault that shows in one of 100 is missed by one in 150
my $OFTEN = 100;    # schedules, of which each tenth is run again; after that, one in a hundred
my $SAME = 0.95;    # of the schedules that are run again are the same
my $SHOWN = 400;    # steps of a schedule that fails

my ($minutes, $first_seed, @names) = @ARGV;
$minutes //= 1;
$first_seed //= 1;
chdir($top) or die "$top: $!";
my $dir = scratch();
my ($turns, $server);

# A server for a scenario.  Those for scenarios with leases have other settings.
sub start_server
{
	my ($scenario) = @_;

	$ENV{SNOWFLAKE_TURNS} = $dir;
	$turns //= Turns->new($dir);
	$server = TurnServer->new($turns, $dir, $scenario->{leases} ? 'leases' : 'data', conf_of($scenario, $dir));
	$server->start();
	begin_game($server, $scenario);
	return;
}

sub stop_server { return $server && $server->stop('immediate') }

END
{
	local $?;
	stop_server();
}

# --- Schedules

sub shows
{
	my ($scenario, $seed, $schedule) = @_;
	my @lines = split /\n/, steps_text($schedule);

	diag("$scenario->{name}, seed $seed: $_") for @{ $schedule->{failures} };
	diag("to repeat: test/hard/schedules.pl 0 $seed");
	diag(@lines - $SHOWN . ' steps before') && splice(@lines, 0, -$SHOWN) if @lines > $SHOWN;
	diag($_) for @lines;
	return;
}

# A schedule, even if a process of it dies.
sub try_schedule
{
	my ($scenario, $seed, $keeps_steps) = @_;
	my $schedule = eval { run_schedule($server, $scenario, $seed, $keeps_steps) };

	return $schedule // { failures => [$@], steps => [ $turns->steps() ], first_tick => 0 };
}

# Two runs of one seed that are not the same.
sub keep_different
{
	my ($name, @runs) = @_;
	my $where = $ENV{SNOWFLAKE_DIFFERENT} or return;

	spurt("$where/$name, $_", $runs[$_]) for 0, 1;
	return;
}

# The right code holds, for so long; and the same seed gives the same schedule.
sub holds
{
	my ($scenario, $seconds) = @_;
	my ($began, $seed, $count, $steps, $again, $same, $failed) = (time(), $first_seed, 0, 0, 0, 0, 0);

	while (time() - $began < $seconds && !$failed)
	{
		my $is_again = $count % ($count < $OFTEN ? 10 : 100) == 0;
		my $schedule = try_schedule($scenario, $seed, $is_again);

		$failed = @{ $schedule->{failures} };
		shows($scenario, $seed, $schedule) if $failed;
		if ($is_again && !$failed)
		{
			$again++;
			$steps += @{ $schedule->{steps} };
			my ($one, $other) = map { steps_text($_, 1) } $schedule, try_schedule($scenario, $seed, 1);
			if ($one eq $other) { $same++ }
			else { keep_different("$scenario->{name} $seed", $one, $other) }
		}
		$seed++;
		$count++;
	}
	ok(!$failed, sprintf('%s: %d schedules hold, %.0f a second, of %.0f steps', $scenario->{name}, $count, $count / (time() - $began), $steps / ($again || 1)));
	ok($same >= int($SAME * $again), "$scenario->{name}: $same of $again are the same when they are run again") if $again;
	return;
}

# With a fault, soon one does not.
sub shows_fault
{
	my ($scenario, $fault) = @_;
	my $what = "$scenario->{name}, $fault->{name} ($fault->{rule})";
	my %planted = eval { planted($fault) } or return fail("$what cannot be planted: $@");
	my %right = map { $_ => slurp($_) } keys %planted;
	my @sources = (grep { /\.h$/ } keys %planted) ? glob('src/*.c src/lease/*.c') : keys %planted;
	my ($count, @failures) = (0);

	spurt($_, $planted{$_}) for keys %planted;
	if (is(build_variant("-include $top/test/hard/schedule.h", @sources), '', "without $fault->{name}"))
	{
		start_server($scenario);
		while ($count < $MOST * $SEEDS && !@failures)
		{
			my $seed = $first_seed + 1000 * int($count / $MOST) + $count % $MOST;
			@failures = @{ try_schedule($scenario, $seed)->{failures} };
			$count++;
		}
		stop_server();
		ok(@failures, sprintf('%s: in %d schedules: %s', $what, $count, $failures[0] // 'NOT FOUND'));
	}
	spurt($_, $right{$_}) for keys %right;
	return;
}

$| = 1;
my $only_holds = @names && $names[0] eq 'holds' && shift @names;
my $beginnings = join('|', map { quotemeta } @names);
my @scenarios = $only_holds ? grep { $_->{name} =~ /^(?:$beginnings)/ } @SCENARIOS : @names ? () : @SCENARIOS;
for my $scenario (@scenarios)
{
	start_server($scenario);
	holds($scenario, $minutes * 60 / @scenarios) if $minutes > 0;
	shows($scenario, $first_seed, try_schedule($scenario, $first_seed, 1)) if $minutes == 0;
	stop_server();
}
if ($minutes > 0 && !$only_holds)
{
	my %wanted = map { $_ => 1 } @names;
	for my $scenario (@SCENARIOS)
	{
		my @faults = grep { !@names || $wanted{$_} } @{ $scenario->{faults} };
		shows_fault($scenario, $_) for @faults ? faults(@faults) : ();
	}
}
elsif ($minutes == 0)
{
	pass("the steps of seed $first_seed");
}
done_testing();
