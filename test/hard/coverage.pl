#!/usr/bin/perl
#
# coverage.pl -- count what gcov saw
#
#   coverage.pl PERCENT < OUTPUT
#
# OUTPUT is that of gcov --json-format, one document a line.  A line of a
# header is in the document of every file that includes it, and is reached if
# it is in one.

use strict;
use warnings;

use JSON::PP;

my ($wanted) = @ARGV;
my (%reached, %branches);
while (my $document = <STDIN>)
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

my @total = (0) x 4;
printf "#: %-20s %6s %6s %7s %9s %6s %7s\n", qw(file lines not percent branches not percent);
for my $name (sort keys %reached)
{
	my @lines = values %{ $reached{$name} };
	my @branches = map { @$_ } values %{ $branches{$name} // {} };
	my @row = (scalar @lines, scalar(grep { !$_ } @lines),
		scalar @branches, scalar(grep { !$_ } @branches));
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
printf "%s 1 - %.1f%% of the lines are reached, %d%% are wanted\n1..1\n",
  $total[0] > 0 && $percent >= $wanted ? 'ok' : 'not ok', $percent, $wanted;
