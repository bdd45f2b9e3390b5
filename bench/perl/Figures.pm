# Figures.pm -- the figures that follow from what was measured
#
# results.csv has a line for each sample: what was measured of whom, at which
# point (so many sessions, for instance, or nothing), in which round, the value
# and its unit.  Facts about the machine are samples of the measurement "machine",
# in round 0.  All that is printed and drawn is computed from these lines alone.
#
# A figure is a hash: a value for each round.  Differences and ratios are made
# within a round: what disturbed a round disturbed both sides.  Its spread is the
# narrowest range from one of the smallest rounds to the corresponding largest that
# has the true median in it in fifteen cases of sixteen: from five to eight rounds
# that is all of them.  It decides how many digits are shown, and whether two
# figures differ at all.

package Figures;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(contents csv_line load machine figure subjects points median spread grouped shown difference);

my @columns = qw(measurement subject at round value unit);
my $enough = 5;    # rounds that tell a spread
my (%value, %machine, @facts);

# --- Samples

sub contents
{
	my ($path) = @_;

	open(my $file, '<', $path) or die "could not open $path: $!\n";
	return do { local $/; readline($file) };
}

sub csv_line
{
	my (@fields) = @_;
	return join(',', map { /[",]/ ? '"' . s/"/""/gr . '"' : $_ } @fields ? @fields : @columns) . "\n";
}

sub csv_fields
{
	my ($line) = @_;
	my @fields;

	push @fields, defined $1 ? $1 =~ s/""/"/gr : $2
	  while $line =~ /\G(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g;
	return @fields;
}

sub load
{
	my ($path) = @_;

	open(my $file, '<', $path) or die "could not open $path: $!\n";
	die "$path: not the results of a run\n" unless (readline($file) // '') eq csv_line();
	while (my $line = readline($file))
	{
		chomp($line);
		my ($measurement, $subject, $at, $round, $value, $unit) = csv_fields($line);

		if ($measurement eq 'machine')
		{
			push @facts, $subject;
			$machine{$subject} = $value;
			next;
		}
		$value{"$measurement, $unit"}{$subject}{$at}{$round} = $value;
	}
	derive();
	return;
}

# That one of a kind which has the same argument as a subject.
sub like
{
	my ($subject, $kind) = @_;
	return $subject =~ /(, given a shard)$/ ? $kind . $1 : $kind;
}

# What follows round by round: the cost of a function over that of one which does
# nothing, or over reading the id, and how many times the limit that is.
sub derive
{
	for my $of ('call', 'decode')
	{
		my $all = $value{"$of, ns"};

		for my $subject (grep { !/^nothing/ } keys %$all)
		{
			my $nothing = like($subject, 'nothing');

			$value{"cost of $of, ns"}{$subject}{$_} = minus($all->{$subject}{$_}, $all->{$nothing}{$_})
			  for keys %{ $all->{$subject} };
		}
	}
	my $costs = $value{'cost of call, ns'};
	$costs->{'clock and lock'} or return;
	$value{'limit, times'}{$_}{''} = quotient($costs->{$_}{''}, $costs->{ like($_, 'clock and lock') }{''}) for keys %$costs;
	return;
}

# What is known of the machine; without a name, the names.
sub machine
{
	my ($name) = @_;
	return defined $name ? $machine{$name} // 'unknown' : @facts;
}

# The subjects of a measurement, such as "insert, rows/s".
sub subjects
{
	my ($measurement) = @_;
	return sort keys %{ $value{$measurement} // {} };
}

# And the points at which they were measured.
sub points
{
	my ($measurement) = @_;
	my %points = map { map { ($_ => 1) } keys %$_ } values %{ $value{$measurement} // {} };

	return sort keys %points;
}

sub figure
{
	my ($measurement, $subject, $at) = @_;
	return (($value{$measurement} // {})->{$subject} // {})->{$at} // {};
}

# --- Arithmetic

sub minus
{
	my ($left, $right) = @_;
	return { map { ($_ => $left->{$_} - $right->{$_}) } grep { exists $right->{$_} } keys %$left };
}

# Of the rounds in which there is something to divide by: on a busy machine, what
# is left of a call may be less than nothing.
sub quotient
{
	my ($left, $right) = @_;
	return { map { ($_ => $left->{$_} / $right->{$_}) } grep { ($right->{$_} // 0) > 0 } keys %$left };
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

sub spread
{
	my @sorted = sort { $a <=> $b } @_;
	my $outer = 0;                         # rounds left out on each side
	my $chance = my $more = 0.5**@sorted;    # that the true median is below the others

	while ($chance + ($more *= (@sorted - $outer) / ($outer + 1)) <= 1 / 32)
	{
		$chance += $more;
		$outer++;
	}
	return @sorted[ $outer, $#sorted - $outer ];
}

# With thousands set off.
sub grouped
{
	my ($text) = @_;

	1 while $text =~ s/^(-?\d+)(\d{3})/$1,$2/;
	return $text;
}

# A value whose last digit is worth about a quarter of the spread, but with one
# digit at least and three at most.
sub shown
{
	my ($value, $low, $high) = @_;
	my $places = sub { $_[0] > 0 ? int(log($_[0]) / log(10) + 1000 + 1e-9) - 1000 : -99 };
	my $most = $places->(sprintf('%.2e', abs($value)));
	my $unit = $places->(($high - $low) / 4 * sqrt(10));

	return '0' if $value == 0;
	$unit = $most - 2 if $unit < $most - 2;
	$unit = $most if $unit > $most;
	return grouped($unit < 0 ? sprintf('%.*f', -$unit, $value) : sprintf('%.0f', $value / 10**$unit) * 10**$unit);
}

# How many times as large the second figure is as the first: with "~" if the spread
# of their differences has zero in it, so that the runs do not agree which one is
# larger; "?" if there are too few rounds to tell.
sub difference
{
	my ($first, $second) = @_;
	my @differences = values %{ minus($second, $first) };
	my @ratios = values %{ quotient($second, $first) };

	return '?' if @differences < $enough;
	my ($low, $high) = spread(@differences);
	my $unclear = $low <= 0 && $high >= 0 ? '~' : '';
	return $unclear || ($low > 0 ? 'more' : 'less') unless @ratios;
	return $unclear . shown(median(@ratios), spread(@ratios)) . '×';
}

1;
