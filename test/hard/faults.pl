# Each rule of the code is switched off by itself, and a test has to find that.
#
#   faults.pl [NAME...]     all of them, or these
#
# test/perl/Faults.pm has the rules, a fault that breaks each, and what finds it: a test,
# some of them with pauses between our steps, those of perturb.h; or else a model, or the
# step memory, whose own business that is.
#
# Before, with all rules, all of these tests have to pass.  Runs in the copy of the tree, as
# the user of the server.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Faults;
use Test::More;
use Tool;
use Variant;

# A fault shows in a tenth of what the tests do by themselves.
$ENV{SNOWFLAKE_EACH} //= 20_000;
$ENV{SNOWFLAKE_CRASH_ROUNDS} //= 5;
$ENV{SNOWFLAKE_ROWS} //= 20_000;
$ENV{SNOWFLAKE_SEED} //= 1;    # of pauses

# ---------------------------------------------------------------------------

# The sources that are made again when these files have changed: for a header, all.
sub sources_of
{
	my @files = @_;

	return (grep { /\.h$/ } @files) ? glob('src/*.c src/lease/*.c') : grep { /\.c$/ } @files;
}

# Has a model the switch?
sub is_shown_by
{
	my ($what, $model, $switch) = @_;

	return ok(slurp("test/model/$model.pml") =~ /\b$switch\b/ && slurp('test/model/model.pl') =~ /\b$switch\b/,
		"$what: no test on this processor; model $model, switch $switch");
}

# A test finds what is wrong with the library that was built last.
sub is_found
{
	my ($what, $test) = @_;
	my ($failure, $seconds, $output) = first_failure($test);

	return ok(defined($failure), sprintf('%s: %s in %.0f s: %s', $what, $test, $seconds, $failure // 'NOT FOUND'))
	  || diag_tail($output);
}

my @faults = grep { $_->{finder} ne 'memory' } faults(@ARGV);
chdir($top) or die "$top: $!";
$| = 1;

# --- Each fault can be planted, and what is not broken passes
for my $fault (@faults)
{
	ok(eval { planted($fault) }, "$fault->{name} can be planted") or diag($@);
}
my %finders = map { $_->{finder} => 1 } @faults;
for my $test (@ARGV ? () : grep { !/^model/ } sort keys %finders)
{
	is(build_for($test), '', "an ordinary build for $test");
	my ($failure, $seconds, $output) = first_failure($test);
	is($failure, undef, sprintf('with all rules: %s passes in %.0f s', $test, $seconds)) or diag_tail($output);
}

# --- Each is planted by itself
for my $fault (@faults)
{
	my ($finder, $what) = ($fault->{finder}, "$fault->{name} ($fault->{rule})");
	my %planted = eval { planted($fault) } or next;
	my %right = map { $_ => slurp($_) } keys %planted;

	spurt($_, $planted{$_}) for keys %planted;
	if (is(build_for($finder, sources_of(keys %planted)), '', "without $fault->{name}"))
	{
		$finder =~ /^model (\w+) (\w+)$/ ? is_shown_by($what, $1, $2) : is_found($what, $finder);
	}
	spurt($_, $right{$_}) for keys %right;
}
done_testing();
