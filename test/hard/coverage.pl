# Which lines and branches of src all suites together reached, after they were run
# with a build for gcov.  Enough of the lines must have been.
#
# A process counts when it exits, and the worker, by dump.h, when it waits, so that
# what is done only by one that is killed may not be seen.  Prints a table, and the
# lines that were not reached.  A line of a header is in gcov's document of every file
# that includes it, and is reached if it is in one.
#
# Runs in the copy of the tree, as the user of the server.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use JSON::PP;
use Test::More;
use Tool;

my $WANTED = 95;    # percent of the lines

my (%reached, %branches);
$| = 1;
chdir($top) or die "$top: $!";
open(my $gcov, '-|', 'gcov --branch-probabilities --json-format --stdout src/*.gcda src/lease/*.gcda 2>/dev/null') or die "gcov: $!";
while (my $document = <$gcov>)
{
	for my $file (grep { $_->{file} =~ m{^src/} } @{ decode_json($document)->{files} })
	{
		for my $line (@{ $file->{lines} })
		{
			my ($n, $i) = ($line->{line_number}, 0);
			$reached{ $file->{file} }{$n} += $line->{count};
			$branches{ $file->{file} }{$n}[ $i++ ] += $_->{count} for @{ $line->{branches} };
		}
	}
}
close($gcov) or die 'gcov could not read what the suites left';

my @total = (0) x 4;
printf "#: %-20s %6s %6s %7s %9s %6s %7s\n", qw(file lines not percent branches not percent);
for my $name (sort keys %reached)
{
	my @lines = values %{ $reached{$name} };
	my @branches = map { @$_ } values %{ $branches{$name} // {} };
	my @row = (scalar @lines, scalar(grep { !$_ } @lines), scalar @branches, scalar(grep { !$_ } @branches));
	show($name, @row);
	$total[$_] += $row[$_] for 0 .. 3;
}
show('all', @total);
show_unreached($_) for sort keys %reached;

sub percent { my ($all, $not) = @_; return $all ? 100 * ($all - $not) / $all : 100 }

sub show
{
	my ($name, $lines, $not, $branches, $untaken) = @_;
	printf "#: %-20s %6d %6d %7.1f %9d %6d %7.1f\n", $name, $lines, $not,
	  percent($lines, $not), $branches, $untaken, percent($branches, $untaken);
	return;
}

sub show_unreached
{
	my ($name) = @_;
	open my $in, '<', $name or die "$name: $!";
	while (my $text = <$in>)
	{
		print "#: $name:$.: $text" if exists $reached{$name}{$.} && !$reached{$name}{$.};
	}
	return;
}

my $percent = percent(@total[ 0, 1 ]);
ok($total[0] > 0 && $percent >= $WANTED,
	sprintf('%.1f%% of the lines are reached, %d%% are wanted', $percent, $WANTED));
done_testing();
