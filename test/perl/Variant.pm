# Variant.pm -- what the tests share that build the library in another way, and run
# other tests with that
#
# They run in a copy of the tree, as the user of the server.

package Variant;

use strict;
use warnings;

use Cwd qw(getcwd);
use Exporter 'import';
use Time::HiRes qw(sleep time);

our @EXPORT = qw(build_for build_variant first_failure run_command way_of);

my $LIMIT = 900;    # seconds for one test, which finds nothing by being slow
our $limit = $LIMIT;    # for the one that runs
my $stage = getcwd() . '/../stage';    # what a server of a test uses
my %differs;    # objects that are not as an ordinary build makes them
my $group;    # of the processes that run now

$ENV{TEMP_CONFIG} = "$stage/server.conf";
$SIG{$_} = sub { kill('TERM', -$group) if $group; exit(1) } for qw(INT TERM HUP);

# What a command prints and its status; what its lines are given to can end it.
sub run_command
{
	my ($command, $wants_more) = @_;
	my $output = '';
	my $pid = open(my $out, '-|') // die "could not fork: $!";

	if (!$pid)
	{
		setpgrp();
		open(STDERR, '>&', \*STDOUT) or die "could not redirect: $!";
		exec(@$command) or die "could not run $command->[0]: $!";
	}
	$group = $pid;
	local $SIG{ALRM} = sub { $output .= "stopped after $limit s\n"; kill('TERM', -$pid) };
	alarm($limit);
	while (my $line = <$out>)
	{
		$output .= $line;
		next if !$wants_more || $wants_more->($line);
		kill('TERM', -$pid);
		$wants_more = undef;
	}
	close($out);
	my $status = $?;
	alarm(0);
	for (1 .. 300) { last if !kill(0, -$pid); sleep(0.1) }
	kill('KILL', -$pid);
	$group = undef;
	return ($output, $status);
}

# Build with these definitions, which matter to these sources; and make again what was
# built with others.  Gives what went wrong.
sub build_variant
{
	my ($definitions, @sources) = @_;
	my @objects = map { s/\.c$/.o/r } @sources;

	# make takes what a library was made of for secondary, and does not miss it
	unlink('snowflake.so', @objects, keys %differs);
	%differs = map { $_ => 1 } @objects;
	my ($output, $status) = run_command(
		[ 'bash', 'test/stage.sh', $stage, 'with_llvm=no', "COPT=-Werror -DUSE_ASSERT_CHECKING $definitions" ]);
	return $status == 0 ? '' : $output;
}

# The header that some tests have included: "perturbed NAME" has pauses between our steps,
# "schedules" a turn for each.
my %HEADER = (perturbed => 'perturb.h', schedules => 'schedule.h');

# How the library is built for a test.
sub way_of { my ($test) = @_; my ($word) = split(' ', $test); return $word && $HEADER{$word} ? $word : 'ordinary' }

# Build for a test what has changed: where a header is included, all.
sub build_for
{
	my ($test, @sources) = @_;
	my $header = $HEADER{ way_of($test) } or return build_variant('', @sources);

	return build_variant("-include test/hard/$header", glob('src/*.c src/lease/*.c'));
}

# The processes that work below tmp_check.
sub processes_here
{
	my $here = getcwd() . '/tmp_check/';

	return map { m{/(\d+)/} } grep { index(readlink($_) // '', $here) == 0 } glob('/proc/[0-9]*/cwd');
}

# End the servers of a test that was ended, and did not come to that.  A mutant in a loop of
# its own looks at no signal.
sub end_servers
{
	kill('QUIT', processes_here());
	for (1 .. 50) { return if !processes_here(); sleep(0.1) }
	kill('KILL', processes_here());
	return;
}

# What fails, by a line of a script's output, or of the program that compares output.
sub failure_in
{
	my ($line, $is_script) = @_;

	return $line =~ /^\s*not ok \d+ +- (?!.*# (?:TODO|SKIP))(.*)/ ? $1 : undef if $is_script;
	return $line =~ /^(?:test +|not ok \d+ +[-+] )(\w+)(?: +\.\.\. (?:FAILED|failed)| +\d+ ms)/ ? "the output of $1 is another one" : undef;
}

# The command that runs a test, and whether it prints what a script does.
sub command_of
{
	my ($test) = @_;
	my @names = grep { $_ ne 'perturbed' } split(' ', $test);
	my @make = ('make', '-s', 'installcheck', 'with_llvm=no', 'COPT=-Werror -DUSE_ASSERT_CHECKING');
	my @instance = ("EXTRA_REGRESS_OPTS=--temp-instance=tmp_check --temp-config=$ENV{TEMP_CONFIG}", 'TAP_TESTS=');

	return (1, 'perl', 'test/hard/schedules.pl', 1, $ENV{SNOWFLAKE_SEED} || 1, 'holds') if $test eq 'schedules';
	return (1, @make, 'REGRESS=', 'ISOLATION=', 'PROVE=perl', 'PROVE_FLAGS=', "PROVE_TESTS=test/t/$names[0].pl") if -f "test/t/$names[0].pl";
	return (0, @make, @instance, "REGRESS=@names", 'ISOLATION=') if -f "test/sql/$names[0].sql";
	return (0, @make, @instance, 'REGRESS=', "ISOLATION=@names") if -f "test/specs/$names[0].spec";
	die "there is no test \"$test\"\n";
}

# Run a test: a script, SQL tests or isolation tests, one or more, or a minute of schedules,
# as build_for() has built for it.  Gives the first thing that it finds, if any, and how many
# seconds that took.  If a number of seconds is given, one that takes longer has found
# something.
sub first_failure
{
	my ($test, $most) = @_;
	my ($is_script, @command) = command_of($test);
	my ($began, $failure) = (time());

	system('rm', '-rf', 'tmp_check');
	local $limit = $most // $LIMIT;
	my ($output, $status) = run_command(\@command, sub { return !defined($failure = failure_in($_[0], $is_script)) });
	my $seconds = time() - $began;
	end_servers();

	if (!defined($failure) && $output =~ /^(stopped after \d+ s)$/m)
	{
		$failure = $1 if $most;
	}
	elsif (!defined($failure) && $status != 0)
	{
		my ($last) = $output =~ /^(?!make|#\s*$)(\S.*)\n(?:make.*\n|\s*\n)*\z/m;
		$failure = $is_script ? $last // 'it ends with an error' : 'the output is another one';
	}
	return ($failure, $seconds, $output);
}

1;
