# Plots.pm -- the plots of a run, drawn by gnuplot

package Plots;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Figures;
use Samples;

our @EXPORT = qw(draw_plots);

# Each keeps its colour from plot to plot, and the colour-blind tell them apart.
my %colour = (
	'snowflake' => '#0072b2',
	'own shards' => '#0072b2',
	'snowflake, own shards' => '#0072b2',
	'one shard' => '#56b4e9',
	'snowflake, one exhausted shard' => '#56b4e9',
	'nextval' => '#e69f00',
	'nextval, CACHE 1' => '#e69f00',
	'nextval, CACHE 1000' => '#d55e00',
	'identity' => '#cc79a7',
	'random UUID' => '#555555',
	'uuidv7' => '#009e73',
	'nothing' => '#aaaaaa');

# What says too little where it stands alone.
my %title = (
	'own shards' => 'snowflake, own shards 0-7',
	'one shard' => 'snowflake, one shard');

# Lines of "x, median, quartiles", as a data block of gnuplot's.
sub block
{
	my ($name, @lines) = @_;
	return join("\n", "\$$name << END", @lines, 'END') . "\n";
}

# A line for each subject over the points of a measurement.
sub curves
{
	my ($measurement, $unit, $scale, @subjects) = @_;
	my (@blocks, @plots);

	for my $subject (@subjects)
	{
		my $name = 'curve' . @blocks;
		my @lines;

		for my $at (points($measurement, $unit))
		{
			my @figure = map { $_ / $scale } figure($measurement, $unit, $subject, $at) or next;

			push @lines, join(' ', $at, median(@figure), quantile(0.25, @figure), quantile(0.75, @figure));
		}
		next unless @lines;
		push @blocks, block($name, @lines);
		push @plots,
		  "\$$name using 1:2:3:4 with yerrorlines linewidth 2 pointtype 7 pointsize 0.5"
		  . " linecolor rgb '$colour{$subject}' title '" . ($title{$subject} // $subject) . "'";
	}
	return (join('', @blocks), @plots);
}

sub draw
{
	my ($path, $script, @plots) = @_;

	return unless @plots;
	open(my $gnuplot, '|-', 'gnuplot') or die "could not start gnuplot: $!\n";
	print $gnuplot <<"END", $script, 'plot ', join(", \\\n", @plots), "\n";
set terminal svg size 860,420 noenhanced font 'sans-serif,13' background 'white'
set output '$path'
set grid ytics linecolor rgb '#dddddd'
set border 3
set tics nomirror
set key outside right center vertical Left reverse samplen 2 spacing 1.3
END
	close($gnuplot) or die "gnuplot could not draw $path\n";
	return;
}

sub draw_backends
{
	my ($path) = @_;
	my ($blocks, @plots) =
	  curves('backends', 'ids/s', 1e6, 'own shards', 'nextval, CACHE 1000', 'nextval, CACHE 1', 'one shard');

	draw($path, <<"END", @plots, "4.096 with lines dashtype 2 linecolor rgb '#56b4e9' title 'what a shard holds'");
set title 'Ids per second, by the number of backends'
set xlabel 'backends'
set ylabel 'million ids per second'
set logscale x 2
set xrange [0.9:*]
set yrange [0:*]
$blocks
END
	return;
}

sub draw_inserts
{
	my ($path) = @_;
	my ($blocks, @plots) = curves('insert', 'rows/s', 1, 'snowflake', 'nextval', 'identity', 'random UUID');

	draw($path, <<"END", @plots);
set title 'INSERT of a row, a transaction each, synchronous_commit on'
set xlabel 'clients'
set ylabel 'rows per second'
set logscale x 2
set xrange [0.9:*]
set yrange [0:*]
$blocks
END
	return;
}

sub draw_growth
{
	my ($path) = @_;
	my ($blocks, @plots) = curves('growth', 'rows/s', 1000, 'snowflake', 'nextval', 'uuidv7', 'random UUID');
	my $settings = machine('while the index grows');

	draw($path, <<"END", map { s/ using 1:/ using (\$1 \/ 1e6):/r } @plots);
set title 'Inserting as the index grows ($settings)'
set xlabel 'million rows in the table'
set ylabel 'thousand rows per second'
set xrange [0:*]
set yrange [0:*]
$blocks
END
	return;
}

# Bars, by length; each has its number beside it.
sub draw_calls
{
	my ($path) = @_;
	my @calls =
	  sort { $b->[1] <=> $a->[1] } map { [ $_, median(call_cost($_)) ] } grep { !/^nothing/ } subjects('call', 'ns');
	my @lines = map { "$_ $calls[$_][1] \"$calls[$_][0]\"" } 0 .. $#calls;
	my $blocks = block('calls', @lines);
	my @plots = (
		'$calls using 2:1:(1):2:($1 - 0.35):($1 + 0.35):yticlabels(3) with boxxyerror linecolor rgb "#0072b2" notitle',
		'$calls using 2:1:(sprintf("%.0f", $2)) with labels left offset 0.6,0 notitle');

	draw($path, <<"END", @plots);
set title 'What a call costs, over a function that does nothing'
set xlabel 'nanoseconds'
set logscale x
set xrange [1:*]
set ytics scale 0
set style fill solid 0.8
unset grid
set grid xtics linecolor rgb '#dddddd'
set yrange [-0.6:@{[ @calls - 0.4 ]}]
$blocks
END
	return;
}

sub draw_latencies
{
	my ($path) = @_;
	my @points = points('latency', 'ns');
	my ($blocks, @plots) = curves('latency', 'ns', 1e9, 'snowflake, own shards', 'snowflake, one exhausted shard',
		'nextval, CACHE 1', 'nextval, CACHE 1000', 'nothing');
	my $tics = join(', ', map { sprintf('"%s" %d', $points[$_] == 100 ? 'longest' : "$points[$_]%%", $_) } 0 .. $#points);

	# the points are names here: evenly apart
	draw($path, <<"END", map { s/ using 1:/ using 0:/r } @plots);
set title 'How long so many of the calls took at most, 8 sessions'
set ylabel 'time of a call'
set format y '%.0s %cs'
set logscale y
set xtics ($tics)
set xrange [-0.3:@{[ $#points + 0.3 ]}]
$blocks
END
	return;
}

sub draw_plots
{
	my ($directory) = @_;

	draw_backends("$directory/backends.svg");
	draw_calls("$directory/call.svg");
	draw_inserts("$directory/insert.svg");
	draw_growth("$directory/growth.svg");
	draw_latencies("$directory/latency.svg");
	return;
}

1;
