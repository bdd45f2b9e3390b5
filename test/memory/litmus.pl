# Ask herd7, which has the processors' own models of memory, about the barriers that only
# ARM and POWER need: what goes wrong must never be seen with the barrier, and sometimes
# without it.
#
#   litmus.pl [ROOT]    with herd7 of this Debian, or of the one below ROOT

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Copy qw(copy);
use Test::More;
use Tool;

# What herd7 observes.  An exchange of ARM's LSE is a barrier by itself.
my %OBSERVED = (
	'ring-arm' => 'Never',
	'ring-arm-without' => 'Sometimes',
	'ring-arm-lse' => 'Never',
	'ring-arm-lse-without' => 'Never',
	'ring-power' => 'Never',
	'ring-power-without' => 'Sometimes',
	'order-arm' => 'Never',
	'order-power' => 'Never',
	'order-power-without' => 'Sometimes',
);

my $root = $ARGV[0] // '';
my $work = scratch($root ? "$root/tmp" : undef);

is_deeply([ sort map { m{([^/]*)\.litmus$} } glob("$top/test/memory/litmus/*") ], [ sort keys %OBSERVED ], 'all files are asked about');
for my $name (sort keys %OBSERVED)
{
	my $copy = "$work/$name.litmus";

	copy("$top/test/memory/litmus/$name.litmus", $copy) or die "$name: $!";
	my ($output) = output_of('timeout', 60, $root ? ('chroot', $root) : (), 'herd7', substr($copy, length($root)));
	is(($output =~ /^Observation \S+ (\w+)/m)[0], $OBSERVED{$name}, "$name: $OBSERVED{$name}") or diag_tail($output);
}
done_testing();
