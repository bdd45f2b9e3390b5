# Samples.pm -- what was measured, as a file: results.csv
#
# A line for each sample: what was measured of whom, at which point (so many
# clients, for instance, or nothing), in which round, the value and its unit.
# Facts about the machine are samples of the measurement "machine", in round 0.
# All that is printed and drawn is computed from these lines alone.

package Samples;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT = qw(csv_line read_samples quantile median);

my @columns = qw(measurement subject at round value unit);

sub csv_line
{
	my (@fields) = @_;
	return join(',', map { /[",]/ ? '"' . s/"/""/gr . '"' : $_ } @fields) . "\n";
}

sub csv_fields
{
	my ($line) = @_;
	my @fields;

	push @fields, defined $1 ? $1 =~ s/""/"/gr : $2
	  while $line =~ /\G(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g;
	return @fields;
}

sub header
{
	return csv_line(@columns);
}

sub read_samples
{
	my ($path) = @_;
	my @samples;

	open(my $file, '<', $path) or die "could not open $path: $!\n";
	die "$path: not the results of a run\n" unless (readline($file) // '') eq header();
	while (my $line = readline($file))
	{
		my %sample;

		chomp($line);
		@sample{@columns} = csv_fields($line);
		push @samples, \%sample;
	}
	return @samples;
}

# The value below which a share of the given ones lies, between two if need be.
sub quantile
{
	my ($share, @values) = @_;
	my @sorted = sort { $a <=> $b } @values;
	my $place = $share * $#sorted;
	my $low = int($place);
	my $high = $low < $#sorted ? $low + 1 : $low;

	return $sorted[$low] + ($place - $low) * ($sorted[$high] - $sorted[$low]);
}

sub median
{
	return quantile(0.5, @_);
}

1;
