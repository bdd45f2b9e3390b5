# A script refuses what it does not know, before it does anything: an option, an
# argument, a value that is none, two options that exclude each other, a number
# that nothing asks for.  It says so in one line, exits with 2, and leaves nothing.
#
# Majors: one
# Takes: long

use strict;
use warnings;
use FindBin;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $scratch = PostgreSQL::Test::Utils::tempdir();
local $ENV{TMPDIR} = $scratch;

# What it says after its name
sub refuses
{
	my ($reason, $script, @arguments) = @_;
	my ($out, $err) = ('', '');
	my $name = $script =~ s/.*\///r;
	my $run = IPC::Run::start([ 'bash', "$top/$script", @arguments ], '<', '/dev/null', '>', \$out, '2>', \$err,
		IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default));

	$run->finish;
	my $shown = join(' ', $script, @arguments);
	is(($run->full_results)[0] >> 8, 2, "$shown: exits with 2");
	like($err, qr/\A\Q$name\E: $reason\n\z/, "$shown: says why");
	is($out, '', "$shown: does nothing");
	return;
}

# The tests that check.sh would run.  apt is slow, so it finds one that knows no package.
my $bin = PostgreSQL::Test::Utils::tempdir();
append_to_file("$bin/apt-cache", "#!/bin/sh\nexit 1\n");
chmod(0755, "$bin/apt-cache");

sub listed
{
	local $ENV{PATH} = "$bin:$ENV{PATH}";
	local $ENV{LISTS_FETCHED} = 'yes';
	my ($out, $err) = run_command([ 'bash', "$top/test/check.sh", '--list', @_ ]);

	is($err, '', "check.sh --list @_");
	return split /\n/, $out;
}

my @scripts = map { s/\A\Q$top\E\///r } grep { slurp_file($_) =~ /^main "\$@"$/m } glob("$top/test/*.sh $top/bench/*.sh");
cmp_ok(scalar @scripts, '>=', 3, 'there are scripts');
for my $script (@scripts)
{
	refuses(qr/unknown option "--nonsense"; see --help/, $script, '--nonsense');
	refuses(qr/unknown option "--pg=15"; see --help/, $script, '--pg=15');
	refuses(qr/--pg needs a value: --pg MAJOR/, $script, '--pg');
	refuses(qr/unknown (argument|step) "nonsense"; see --help/, $script, 'nonsense');

	my ($out, $err) = run_command([ 'bash', "$top/$script", '--help' ]);
	like($out, qr/\AUsage: \Q$script\E .*^  --pg MAJOR /ms, "$script --help");
}
refuses(qr/snowflake supports PostgreSQL 15 .*/, 'test/check.sh', '--pg', '14');
refuses(qr/there is no test "nonsense" in the steps .*/, 'test/check.sh', '--only', 'nonsense');
refuses(qr/--minutes needs a value: --minutes N/, 'test/check.sh', '--minutes', 'many', 'soak');
refuses(qr/--minutes is for the steps .*/, 'test/check.sh', '--minutes', '5', '--only', 'mint');
refuses(qr/--seed is for the steps .*/, 'test/check.sh', '--seed', '5', '--only', 'mint');
refuses(qr/there is no test "nonsense" in the steps .*/, 'test/check.sh', '--only', 'mint,nonsense');
refuses(qr/--only $$_[0] runs all .*, $$_[1] among them: name one or the other/, 'test/check.sh', '--only', "$$_[1],$$_[0]")
  for [ 'regress', 'mint' ], [ 'isolation', 'concurrent' ];
refuses(qr/--accept is for SQL tests: .*/, 'test/check.sh', @$_, '--accept') for [], [ '--only', 'mint,003_spilling' ];
refuses(qr/--all and --accept exclude each other/, 'test/check.sh', '--all', '--only', 'mint', '--accept');
refuses(qr/--all and --pg exclude each other/, 'test/check.sh', '--all', '--pg', '15');
refuses(qr/--pg and --pg-config exclude each other/, 'test/check.sh', '--pg', '15', '--pg-config', '/bin/true');
refuses(qr/".*true" is no pg_config: .*/, 'test/check.sh', '--pg-config', '/bin/true');
refuses(qr/--quick and --smoke exclude each other/, 'bench/run.sh', '--quick', '--smoke');
refuses(qr/.*nonsense.*/, 'bench/run.sh', '--only', 'nonsense');

# With --all, six turns have all tests that need a bare Debian, each one once.
my @bare = sort qw(packages/15 packages/bookworm-user), map { m{(stacks/\w+)\.pl$} } glob("$top/test/stacks/*.pl");
my @in_turn;
for my $turn (1000 .. 1005)
{
	local $ENV{SNOWFLAKE_TURN} = $turn;
	push @in_turn, [ grep { !/build$/ } listed('--all', 'stacks', 'packages') ];
}
is_deeply([ sort map { @$_ } @in_turn ], \@bare, 'each test that needs a bare Debian has its turn');
cmp_ok(scalar @$_, '<=', @bare / 6 + 1, 'which is a sixth of all') for @in_turn;
for my $turn (1000 .. 1003)
{
	local $ENV{SNOWFLAKE_TURN} = $turn;
	is_deeply([ listed('--all', 'analyze', 'proof') ], [ $turn % 2 ? 'proof' : 'analyze' ], "turn $turn: one of the two");
}
{
	local $ENV{SNOWFLAKE_TURN} = 1;
	refuses(qr/none of these tests has its turn in this commit; .*--whole/, 'test/check.sh', '--all', '--list', 'analyze');
}
is_deeply([ sort(listed('--all', '--whole', 'analyze', 'proof')) ], [ 'analyze', 'proof' ], '--whole: both');
is_deeply([ sort grep { !/build$/ } listed('--pg', '15', 'stacks', 'packages') ], \@bare, '--pg 15: all of them');
is_deeply([ sort grep { !/build$/ } listed('--all', '--whole', 'stacks', 'packages') ], [ sort @bare, 'packages/trixie-root' ], '--whole: and one more');
is_deeply([ listed('--all', '--only', 'rust', 'stacks') ], [ 'stacks/build', 'stacks/rust' ], 'a name: without a turn');
is_deeply([ glob("$scratch/*") ], [], 'nothing is left');

done_testing();
