#!/usr/bin/perl
#
# coverage.pl -- count what gcov saw, and hold it against a list
#
#   coverage.pl UNREACHED < OUTPUT
#
# OUTPUT is that of gcov --json-format, one document a line.  A line of a
# header is in the document of every file that includes it, and is reached if
# it is in one.  UNREACHED says of each line that no test reaches why that is:
#
#   # The reason, for all lines up to the next reason.
#   src/file.c function: the line as it reads
#
# Lines are told by what they say, not by their numbers, which move.  A reason
# that begins with "Sometimes" allows its lines to be reached as well.

use strict;
use warnings;

use JSON::PP;

my $WANTED = 95;    # percent of the lines

my (%reached, %branches, %function);
while (my $document = <STDIN>)
{
	for my $file (@{ decode_json($document)->{files} })
	{
		my $name = $file->{file};
		next unless $name =~ m{^src/};
		for my $line (@{ $file->{lines} })
		{
			my $n = $line->{line_number};
			my $i = 0;
			$reached{$name}{$n} += $line->{count};
			$function{$name}{$n} = $line->{function_name} // '';
			$branches{$name}{$n}[ $i++ ] += $_->{count} for @{ $line->{branches} };
		}
	}
}

sub percent { my ($part, $all) = @_; return $all ? 100 * $part / $all : 100 }

my @total = (0) x 4;
printf "# %-20s %6s %6s %7s %9s %6s %7s\n",
  qw(file lines not percent branches not percent);
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

sub show
{
	my ($name, $lines, $not, $branches, $untaken) = @_;
	printf "# %-20s %6d %6d %7.1f %9d %6d %7.1f\n", $name, $lines, $not,
	  percent($lines - $not, $lines), $branches, $untaken,
	  percent($branches - $untaken, $branches);
	return;
}

# The lines not reached, as the list would name them.
my (%unreached, %source);
for my $name (keys %reached)
{
	open my $in, '<', $name or die "$name: $!";
	while (my $text = <$in>)
	{
		next unless exists $reached{$name}{$.};
		my $line = "$name $function{$name}{$.}: " . $text =~ s/^\s+|\s+$//gr;
		$source{$line} = 1;
		$unreached{$line} = $. unless $reached{$name}{$.};
	}
}

my (%reason, $reason);
open my $list, '<', $ARGV[0] or die "$ARGV[0]: $!";
while (my $line = <$list>)
{
	chomp $line;
	if ($line =~ /^# (.*)/) { $reason = $1 }
	elsif ($line ne '') { $reason{$line} = $reason }
}

my @unexplained = grep { !exists $reason{$_} } sort keys %unreached;
my @stale = grep {
	!exists $source{$_} || (!exists $unreached{$_} && $reason{$_} !~ /^Sometimes/)
} sort keys %reason;

my ($n, $failed) = (0, 0);

sub check
{
	my ($good, $name, @lines) = @_;
	printf "%s %d - %s\n", $good ? 'ok' : 'not ok', ++$n, $name;
	print map { "#   $_\n" } @lines;
	$failed = 1 unless $good;
	return;
}

my $percent = percent($total[0] - $total[1], $total[0]);
check($total[0] > 0 && $percent >= $WANTED,
	sprintf('%.1f%% of the lines are reached, %d%% are wanted', $percent, $WANTED));
check(!@unexplained, 'every line not reached is listed with the reason', @unexplained);
check(!@stale, 'and no other', @stale);
exit $failed;
