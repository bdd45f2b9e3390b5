# The figures in README.md and doc/speed.md are those of bench/results: the
# tables, and the text beside them, are what the report makes of results.csv, and
# so are the plots.  And the report computes what it says, from samples whose
# figures can be worked out by hand.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../bench/perl";

use Figures qw(shown difference);
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $results = "$top/bench/results/results.csv";
my $scratch = PostgreSQL::Test::Utils::tempdir();

sub report
{
	my (@arguments) = @_;
	my ($out, $err) = run_command([ 'perl', "$top/bench/report.pl", @arguments ]);

	is($err, '', "report.pl $arguments[0] has nothing to complain of");
	return $out;
}

# what comes through run_command has lost its last newline
sub text_of
{
	my ($path) = @_;
	return slurp_file($path) =~ s/\n\z//r;
}

# --- the pages, and what they show

for my $page ('README.md', 'doc/speed.md')
{
	my $text = text_of("$top/$page");

	is(report('page', $results, "$top/$page"), $text, "the tables in $page are those of results.csv");
	cmp_ok(scalar(my @tables = $text =~ /^<!-- bench: (?!end)/mg), '>', 1, "$page has tables");
}
is(join("\n", text_of("$top/doc/speed.md") =~ /^(?!\||A \w+ run of|.*(?:1\.25|4,096,000|PostgreSQL 1[68])).*\d (?:times|×|ns|us|ms|MB)\b.*$/mg),
	'', 'and no figure is typed by hand');

report('plots', $results, $scratch);
my @plots = map { s/.*\///r } glob("$scratch/*.svg");
is_deeply([ map { s/.*\///r } glob("$top/bench/results/*.svg") ], \@plots, 'each plot is there, and no other');
for my $plot (@plots)
{
	my $svg = slurp_file("$scratch/$plot");

	is(slurp_file("$top/bench/results/$plot"), $svg, "$plot is made of results.csv");
	like($svg, qr/<title[^>]*>\w.*<desc[^>]*>\w.*\@media \(prefers-color-scheme: dark\)/s, "$plot has a title, a description and a dark mode");
	cmp_ok((sort { $a <=> $b } $svg =~ /font(?:-size)?: (\d+)px/g)[0], '>=', 12, "its text can be read");
	cmp_ok(($svg =~ /viewBox="0 0 (\d+)/)[0], '<=', 420, 'on a telephone');
	unlike($svg =~ s/ xmlns="[^"]*"//r, qr/https?:|url\(|\@import|href/, 'and it needs nothing from elsewhere');
	ok(index(text_of("$top/doc/speed.md"), "](../bench/results/$plot)") >= 0, "$plot is on the page");
}

# --- digits: the last one is worth about a quarter of the spread
for (
	[ '51', 50.6, 48.4, 52.9 ], [ '50', 50.6, 43, 63 ], [ '26,400', 26387, 26200, 26700 ], [ '26,000', 26387, 24200, 28100 ],
	[ '4,090,000', 4093538, 4092141, 4094367 ], [ '0.8', 0.83, 0.5, 1.1 ], [ '1.46', 1.4567, 1.4567, 1.4567 ],
	[ '300', 280, 20, 2000 ], [ '0', 0, 0, 3 ], [ '100', 99.96, 99.9, 100.1 ])
{
	my ($shown, @figure) = @$_;
	is(shown(@figure), $shown, "$figure[0], from $figure[1] to $figure[2], is $shown");
}

# --- a difference: of each round, marked if zero is within the spread
sub rounds
{
	my $round = 0;
	return { map { ($round++ => $_) } @_ };
}

my @drifting = (100, 200, 300, 400, 500);
for (
	[ '2.0×', [@drifting], [ 200, 420, 580, 790, 1000 ], 'a ratio is one within a round' ],
	[ '~1.1×', [@drifting], [ 110, 150, 340, 490, 480 ], 'now more, now less' ],
	[ '1.10×', [@drifting], [ 109, 219, 331, 444, 550 ], 'a little more in each round' ],
	[ '~1.00×', [@drifting], [@drifting], 'the same' ],
	[ '1.00×', [@drifting], [ 100.1, 200.3, 300.2, 400.4, 500.3 ], 'a little more in each round, too little to be shown' ],
	[ '?', [ (1) x 4 ], [ (5) x 4 ], 'too few rounds' ],
	[ '5.00×', [ -1, 1, 1, 1, 0 ], [ (5) x 5 ], 'a round with nothing to divide by' ],
	[ 'more', [ (0) x 5 ], [ (5) x 5 ], 'nothing but such rounds' ],
	[ '~5×', [ (1) x 8 ], [ 0.9, (5) x 7 ], 'of eight rounds all count' ],
	[ '5.00×', [ (1) x 9 ], [ 0.9, (5) x 7, 20 ], 'of nine the outermost do not' ],
	[ '5.00×', [ (1) x 20 ], [ (0.9) x 5, (5) x 10, (20) x 5 ], 'of twenty five on each side' ],
	[ '~5×', [ (1) x 20 ], [ (0.9) x 6, (5) x 14 ], 'and no more' ])
{
	my ($difference, $first, $second, $name) = @$_;
	is(difference(rounds(@$first), rounds(@$second)), $difference, "difference: $name");
}

# --- a run of five rounds, made up
my $made_up = "$scratch/results.csv";
append_to_file($made_up, "measurement,subject,at,round,value,unit\n" . <<'CSV');
machine,processor,,0,"a ""new"", fast one",
call,nothing,,1,100,ns
call,nothing,,2,1100,ns
call,nothing,,3,100,ns
call,nothing,,4,100,ns
call,nothing,,5,100,ns
call,clock and lock,,1,120,ns
call,clock and lock,,2,1120,ns
call,clock and lock,,3,120,ns
call,clock and lock,,4,120,ns
call,clock and lock,,5,120,ns
call,snowflake,,1,125,ns
call,snowflake,,2,1126,ns
call,snowflake,,3,124,ns
call,snowflake,,4,125,ns
call,snowflake,,5,125,ns
call,"nextval, CACHE 1",,1,225,ns
call,"nextval, CACHE 1",,2,1230,ns
call,"nextval, CACHE 1",,3,220,ns
call,"nextval, CACHE 1",,4,225,ns
call,"nextval, CACHE 1",,5,225,ns
backends,one shard,4,1,4096000,ids/s
backends,one shard,4,2,2048000,ids/s
backends,"nextval, CACHE 1",4,1,2048000,ids/s
backends,"nextval, CACHE 1",4,2,1024000,ids/s
CSV
my $text = report('print', $made_up);

like($text, qr/^\| processor \| a "new", fast one \|$/m, 'facts with commas and quotes are read');
like($text, qr/^\| snowflake \| 25 \| 24 to 26 \| 5 \|  \|$/m, 'a cost is a difference within a round');
like($text, qr/^\| `nextval`, CACHE 1 \| 125 \| 120 to 130 \| 5 \| 5\.00× \|$/m, 'and is compared with ours');
like($text, qr/^\| snowflake \| 1\.25 \| 1\.20 to 1\.30 \| 5 \|$/m, 'it is so many times the limit');
like($text, qr/^\| 4 sessions, one shard.* \| 3 \| 1\.5 \(\?\) \|$/m, 'a line may mean another subject than its column');
unlike($text, qr/uuid/, 'nobody is in a table who was not measured');

# --- where the dots are: 25 and 125 on an axis from 10 to 1000
report('plots', $made_up, $scratch);
my ($from, $middle, $to) = slurp_file("$scratch/call.svg") =~ /class="grid" d="M([0-9.]+)/g;
my %dot = slurp_file("$scratch/call.svg") =~ /class="(ours|other)" cx="([0-9.]+)"/g;
is($to - $middle, $middle - $from, 'the axis is logarithmic');
is(sprintf('%.0f', $dot{ours}), sprintf('%.0f', $from + ($middle - $from) * log(2.5) / log(10)), 'a dot is at its median');
like(slurp_file("$scratch/edge.svg"), qr/not measured in this run/, 'a plot says that it has nothing to show');

done_testing();
