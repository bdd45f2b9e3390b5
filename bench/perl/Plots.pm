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

my ($width, $left, $right, $step) = (420, 184, 364, 20);    # the dots are between left and right

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
	return sprintf(qq(<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>\n), $class, $x, $y, $anchor // 'start', escaped($text));
}

# Round numbers along the axis, from zero or, if it is logarithmic, from a power
# of ten.
sub ticks
{
	my ($kind, $least, $most) = @_;
	my $power = sub { 10**(int(log($_[0]) / log(10) + 1000) - 1000) };
	my @ticks;

	if ($kind eq 'log')
	{
		@ticks = ($power->($least));
		push @ticks, $ticks[-1] * 10 while $ticks[-1] < $most;
		return @ticks;
	}
	my ($each) = grep { $_ * 5 >= $most } map { $_ * $power->($most / 5) } 1, 2, 5, 10;
	@ticks = (0);
	push @ticks, $ticks[-1] + $each while $ticks[-1] < $most;
	return @ticks;
}

sub plot
{
	my ($table) = @_;
	my ($first) = @{ $table->{columns} };
	my (@lines, @values);
	my $rounds = 0;
	my $y = 52;

	for my $row (@{ $table->{rows} })
	{
		my @group = ([ 'group', $row->{what} ]);

		for my $column (@{ $table->{columns} })
		{
			my @cell = values %{ cells($row, $column) } or next;
			push @group, [ $column eq $first ? 'ours' : 'other', heading($column), median(@cell), spread(@cell) ];
			push @values, @{ $group[-1] }[ 2 .. 4 ];
			$rounds = @cell if @cell > $rounds;
		}
		shift @group if $table->{list};
		push @lines, @group if @group > 1;
	}
	@values = sort { $a <=> $b } grep { $_ > 0 } @values;

	my @ticks = @values ? ticks($table->{plot}, @values[ 0, -1 ]) : (1, 10);
	my $scale = sub { $table->{plot} eq 'log' ? log($_[0] > $ticks[0] ? $_[0] : $ticks[0]) : $_[0] };
	my ($from, $to) = map { $scale->($_) } @ticks[ 0, -1 ];
	my $place = sub { $left + ($right - $left) * ($scale->($_[0]) - $from) / ($to - $from) };
	my $end = $y + $step * @lines;
	my $text = '';

	for my $tick (@ticks)
	{
		my $x = $place->($tick);
		$text .= sprintf(qq(<path class="grid" d="M%.1f,%d V%d"/>\n), $x, $y - 14, $end - 8);
		$text .= text('small', $x, $end + 8, $tick >= 1000 ? $tick / 1000 . 'k' : $tick, 'middle');
	}
	for (@lines)
	{
		my ($class, $name, $median, $low, $high) = @$_;

		if ($class eq 'group')
		{
			$text .= text($class, 8, $y, $name);
		}
		else
		{
			$text .= text('', $left - 8, $y, $name, 'end');
			$text .= sprintf(qq(<path class="%s" d="M%.1f,%d H%.1f"/><circle class="%s" cx="%.1f" cy="%d" r="4"/>\n),
				$class, $place->($low), $y - 4, $place->($high), $class, $place->($median), $y - 4);
			$text .= text('', $right + 8, $y, shown($median, $low, $high));
		}
		$y += $step;
	}
	$end += 30;
	my $explained = @values ? "dot: median of $rounds rounds; line: their spread" : 'not measured in this run';
	return sprintf(<<'END', $width, $end + 12, $width, $end + 12, escaped($table->{title}), $explained, $style, text('title', 8, 22, $table->{title}), $text, text('small', 8, $end, $explained));
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">
<title id="title">%s</title>
<desc id="desc">A dot plot of the table beside it; %s.</desc>
<style>
%s</style>
<rect class="page" width="100%%" height="100%%" rx="8"/>
%s%s%s</svg>
END
}

1;
