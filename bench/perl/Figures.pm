# Figures.pm -- the figures that follow from the samples
#
# A figure is a list of values, one of each round in which all was measured
# that it takes.  Differences and ratios are made within a round and only then
# put in order: what disturbed a round disturbed both sides.

package Figures;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Samples;

our @EXPORT = qw(load machine figure subjects points ratio call_cost decode_cost quarter_rates targets);

my (%value, %order, %machine, @facts);

# --- Samples

sub load
{
	my ($path) = @_;

	for my $sample (read_samples($path))
	{
		my ($measurement, $subject, $at, $round, $value, $unit) =
		  @$sample{qw(measurement subject at round value unit)};

		if ($measurement eq 'machine')
		{
			push @facts, $subject;
			$machine{$subject} = $value;
			next;
		}
		$value{$measurement}{$unit}{$subject}{$at}{$round} = $value;
	}
	return;
}

# What is known of the machine; without a name, the names.
sub machine
{
	my ($name) = @_;
	return defined $name ? $machine{$name} // 'unknown' : @facts;
}

# Who was measured.
sub subjects
{
	my ($measurement, $unit) = @_;
	return sort keys %{ $value{$measurement}{$unit} // {} };
}

sub by_number_or_name
{
	return "$a$b" =~ /^[0-9.]+$/ ? $a <=> $b : $a cmp $b;
}

# At which points it was measured, of everybody together.
sub points
{
	my ($measurement, $unit) = @_;
	my %points = map { ($_ => 1) } map { keys %$_ } values %{ $value{$measurement}{$unit} // {} };

	return (sort by_number_or_name keys %points);
}

# --- Figures

sub rounds_of
{
	my ($measurement, $unit, $subject, $at) = @_;
	my $found = \%value;

	# step by step, since looking further would create what is not there
	$found = $found->{$_} // return {} for $measurement, $unit, $subject, $at // '';
	return $found;
}

sub in_order
{
	my ($rounds) = @_;
	return map { $rounds->{$_} } sort { $a <=> $b } keys %$rounds;
}

sub figure
{
	return in_order(rounds_of(@_));
}

# Put two together, round by round.
sub combine
{
	my ($how, $left, $right) = @_;
	my %combined = map { ($_ => $how->($left->{$_}, $right->{$_})) } grep { exists $right->{$_} } keys %$left;

	return \%combined;
}

sub quotient
{
	my ($left, $right) = @_;
	return combine(sub { $_[0] / $_[1] }, $left, $right);
}

sub difference
{
	my ($left, $right) = @_;
	return combine(sub { $_[0] - $_[1] }, $left, $right);
}

# How many times as much the first has as the second, at the same point.
sub ratio
{
	my ($measurement, $unit, $first, $second, $at) = @_;
	return in_order(
		quotient(
			rounds_of($measurement, $unit, $first, $at),
			rounds_of($measurement, $unit, $second, $at)));
}

sub call_cost_rounds
{
	my ($subject) = @_;
	my $nothing = $subject =~ /given a shard/ ? 'nothing, given a shard' : 'nothing';

	return difference(rounds_of('call', 'ns', $subject), rounds_of('call', 'ns', $nothing));
}

sub call_cost
{
	return in_order(call_cost_rounds(@_));
}

sub decode_cost_rounds
{
	my ($function, $with) = @_;
	return difference(rounds_of('decode', 'ns', $function, $with), rounds_of('decode', 'ns', 'noop', $with));
}

sub decode_cost
{
	return in_order(decode_cost_rounds(@_));
}

# The points of a growing table's quarter.
sub points_of_quarter
{
	my ($quarter) = @_;
	my @points = points('growth', 'rows/s');
	my $each = @points / 4;

	return @points[ int($each * ($quarter - 1)) .. int($each * $quarter) - 1 ];
}

# The rates of all batches in it.
sub quarter_rates
{
	my ($subject, $quarter) = @_;
	return map { figure('growth', 'rows/s', $subject, $_) } points_of_quarter($quarter);
}

# The median rate of a quarter, by round.
sub quarter_rounds
{
	my ($subject, $quarter) = @_;
	my @batches = map { rounds_of('growth', 'rows/s', $subject, $_) } points_of_quarter($quarter);

	return { map { my $round = $_; ($round => median(map { $_->{$round} } @batches)) } keys %{ $batches[0] // {} } };
}

# --- Targets: what is to be reached, and the figure that says whether it is

my @targets;

sub target
{
	my ($item, $what, $limit, $unit, @figure) = @_;
	push @targets, { item => $item, what => $what, limit => $limit, unit => $unit, figure => \@figure }
	  if @figure;
	return;
}

# "3 clients"
sub count_of
{
	my ($number, $what) = @_;
	return "$number $what" . ($number == 1 ? '' : 's');
}

# Limits as text, "<= 0.5", since that is how they are printed.
sub targets
{
	my $capacity = 4096 * 1000;    # ids of a shard in a second
	my $in_shards = sub { map { $_ / $capacity } figure('backends', 'ids/s', @_) };

	@targets = ();
	for my $call ('snowflake', 'snowflake, given a shard')
	{
		target(1, "a call of $call / nextval, CACHE $_->[0]", $_->[1], 'times',
			in_order(quotient(call_cost_rounds($call), call_cost_rounds("nextval, CACHE $_->[0]"))))
		  for [ 1, '<= 0.167' ], [ 1000, '<= 0.5' ];
		target(1, "a call of $call / clock and lock alone", '<= 1.25', 'times',
			in_order(quotient(call_cost_rounds($call), call_cost_rounds('clock and lock'))));
	}
	target(2, 'one shard, one backend, one statement', '>= 0.98', 'of 4096/ms', $in_shards->('one statement', 1));
	target(2, 'one shard, ' . count_of($_, 'backend'), '>= 0.98', 'of 4096/ms', $in_shards->('one shard', $_))
	  for grep { $_ >= 2 && $_ <= 64 } points('backends', 'ids/s');
	target(2, 'one shard, 128 backends / 64 backends', '>= 0.95', 'times',
		in_order(quotient(map { rounds_of('backends', 'ids/s', 'one shard', $_) } (128, 64))));
	target(3, 'own shards, ' . count_of($_, 'backend') . ' / nextval CACHE 1000', '>= 1', 'times',
		ratio('backends', 'ids/s', 'own shards', 'nextval, CACHE 1000', $_))
	  for grep { $_ <= 16 } points('backends', 'ids/s');
	target(4, 'INSERT of a row, ' . count_of($_, 'client') . ' / nextval', '>= 1', 'times',
		ratio('insert', 'rows/s', 'snowflake', 'nextval', $_))
	  for points('insert', 'rows/s');
	target(4, 'INSERT ... SELECT / nextval', '>= 1.15', 'times', ratio('bulk insert', 'rows/s', 'snowflake', 'nextval'));
	target(4, 'INSERT ... SELECT / random UUID', '>= 3', 'times',
		ratio('bulk insert', 'rows/s', 'snowflake', 'random UUID'));
	target(4, 'COPY / nextval', '>= 0.95', 'times', ratio('copy', 'rows/s', 'snowflake', 'nextval'));
	target(5, 'primary key / that of a random UUID', '<= 0.5', 'times',
		ratio('bulk insert', 'bytes', 'snowflake', 'random UUID'));
	target(5, 'the same with fillfactor = 100 / UUID\'s', '<= 0.5', 'times',
		ratio('bulk insert', 'bytes', 'snowflake, full pages', 'random UUID'));
	target(5, 'rate of a growing table, last quarter / first', '>= 0.9', 'times',
		in_order(quotient(quarter_rounds('snowflake', 4), quarter_rounds('snowflake', 1))));
	target(6, 'longest call, 64 backends on own shards / nextval CACHE 1000', '<= 1', 'times',
		ratio('longest', 'ns', 'snowflake, own shards', 'nextval, CACHE 1000', 64));
	target(7, 'snowflake_timestamp(id)', '<= 15', 'ns', decode_cost('snowflake_timestamp', 'no layout'));
	for my $with ('constant', 'column')
	{
		target(7, "snowflake_timestamp(id, $with)", '<= 30', 'ns', decode_cost('snowflake_timestamp', $with));
		target(7, "snowflake_timestamp(id, $with) / (id)", '<= 2', 'times',
			in_order(
				quotient(
					decode_cost_rounds('snowflake_timestamp', $with),
					decode_cost_rounds('snowflake_timestamp', 'no layout'))));
	}
	return @targets;
}

1;
