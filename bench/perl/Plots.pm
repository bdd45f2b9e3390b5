# Plots.pm -- a table as a picture
#
# A dot for each median, a line for its spread, and the name and the figure beside
# it: no key to look up, and nothing has a length, so that an axis may be
# logarithmic.  It is as wide as a telephone, and its colours follow the reader's.

package Plots;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Figures;
use Tables;

our @EXPORT = qw(plot);

my ($width, $left, $right, $step) = (420, 184, 346, 20);    # the dots are between left and right

my $style = <<'END';
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: bold; }
.group { font-weight: bold; }
.small { font-size: 12px; fill: #57606a; }
.page { fill: #ffffff; }
.grid { stroke: #d0d7de; }
.ours { fill: #0969da; stroke: #0969da; stroke-width: 2; }
.other { fill: #57606a; stroke: #57606a; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.small { fill: #9aa4af; }
.page { fill: #0d1117; }
.grid { stroke: #30363d; }
.ours { fill: #58a6ff; stroke: #58a6ff; }
.other { fill: #9aa4af; stroke: #9aa4af; }
}
END

sub escaped
{
	my ($text) = @_;
	return $text =~ s/`//gr =~ s/&/&amp;/gr =~ s/</&lt;/gr =~ s/>/&gt;/gr;
}

sub text
{
	my ($class, $x, $y, $text, $anchor) = @_;

	return sprintf(qq(<text class="%s" x="%.1f" y="%d" text-anchor="%s">%s</text>\n),
		$class, $x, $y, $anchor // 'start', escaped($text));
}

# What stands below each other: names of groups, and dots with name and figure.
sub lines_of
{
	my ($table) = @_;
	my ($first) = @{ $table->{columns} };
	my @lines;

	for my $row (@{ $table->{rows} })
	{
		my @group = ({ group => $row->{what} });

		for my $column (@{ $table->{columns} })
		{
			my @cell = values %{ cells($row, $column) } or next;
			my ($low, $high) = spread(@cell);

			push @group, { class => $column eq $first ? 'ours' : 'other', name => heading($column),
				median => median(@cell), low => $low, high => $high, rounds => scalar(@cell) };
		}
		shift @group if $table->{list} || @group == 1;
		push @lines, @group;
	}
	return @lines;
}

# Round numbers along the axis, from zero or, if it is logarithmic, from a power
# of ten.
sub ticks
{
	my ($kind, $least, $most) = @_;
	my $power = sub { 10**(int(log($_[0]) / log(10) + 1000) - 1000) };
	my ($each) = grep { $_ * 5 >= $most } map { $_ * $power->($most / 5) } 1, 2, 5, 10;
	my @ticks = $kind eq 'log' ? $power->($least) : 0;

	push @ticks, $kind eq 'log' ? $ticks[-1] * 10 : $ticks[-1] + $each while $ticks[-1] < $most;
	return @ticks;
}

# A function that tells where a value is on an axis with such ticks.
sub place_on
{
	my ($kind, @ticks) = @_;
	my $scale = sub { $kind eq 'log' ? log($_[0] > $ticks[0] ? $_[0] : $ticks[0]) : $_[0] };
	my ($from, $to) = map { $scale->($_) } @ticks[ 0, -1 ];

	return sub { $left + ($right - $left) * ($scale->($_[0]) - $from) / ($to - $from) };
}

sub dot
{
	my ($y, $place, $dot) = @_;
	my ($class, $name, $median, $low, $high) = @$dot{qw(class name median low high)};

	return text('', $left - 8, $y, $name, 'end')
	  . sprintf(qq(<path class="%s" d="M%.1f,%d H%.1f"/>), $class, $place->($low), $y - 4, $place->($high))
	  . sprintf(qq(<circle class="%s" cx="%.1f" cy="%d" r="4"/>\n), $class, $place->($median), $y - 4)
	  . text('', $right + 8, $y, shown($median, $low, $high));
}

sub plot
{
	my ($table) = @_;
	my @lines = lines_of($table);
	my @dots = grep { $_->{name} } @lines;
	my @values = sort { $a <=> $b } grep { $_ > 0 } map { @$_{qw(low median high)} } @dots;
	my @ticks = @values ? ticks($table->{plot}, @values[ 0, -1 ]) : (1, 10);
	my $place = place_on($table->{plot}, @ticks);
	my ($rounds) = sort { $b <=> $a } map { $_->{rounds} } @dots;
	my $explained = @dots ? "dot: median of $rounds rounds; line: " . ($rounds < 9 ? 'all rounds' : '94 % interval of the median') : 'not measured in this run';
	my ($y, $bottom) = (52, 52 + $step * @lines);
	my $height = $bottom + 42;
	my $text = text('title', 8, 22, $table->{title});

	my $every = @ticks > 6 ? 2 : 1;    # a number at each of so many ticks, so that they do not overlap

	for my $n (0 .. $#ticks)
	{
		my $tick = $ticks[$n];
		my $x = $place->($tick);

		$text .= sprintf(qq(<path class="grid" d="M%.1f,%d V%d"/>\n), $x, $y - 14, $bottom - 8);
		$text .= text('small', $x, $bottom + 8, $tick >= 1e6 ? $tick / 1e6 . 'M' : $tick >= 1000 ? $tick / 1000 . 'k' : $tick, 'middle')
		  if $n % $every == 0;
	}
	for my $line (@lines)
	{
		$text .= $line->{name} ? dot($y, $place, $line) : text('group', 8, $y, $line->{group});
		$y += $step;
	}
	$text .= text('small', 8, $bottom + 30, $explained);
	return <<"END";
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $width $height" width="$width" height="$height" role="img" aria-labelledby="title desc">
<title id="title">@{[ escaped($table->{title}) ]}</title>
<desc id="desc">A dot plot of the table beside it; $explained.</desc>
<style>
$style</style>
<rect class="page" width="100%" height="100%" rx="8"/>
$text</svg>
END
}

1;
