# report.pl -- tables and plots of what run.pl measured
#
#   perl bench/report.pl text RESULTS.CSV               all of it, as text
#   perl bench/report.pl plots RESULTS.CSV DIRECTORY    plots, into a directory
#   perl bench/report.pl readme RESULTS.CSV README.MD   that README, with its
#                                                       table made again
#
# Everything comes from the file; nothing is measured or known here.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/perl";

use Figures;
use Plots;
use Samples;

# --- Numbers and tables

# Three or four digits that count, with thousands set off.
sub number
{
	my ($value) = @_;
	my $size = abs($value);
	my $text = sprintf($size >= 100 ? '%.0f' : $size >= 10 ? '%.1f' : $size >= 1 ? '%.2f' : '%.3f', $value);

	1 while $text =~ s/^(-?\d+)(\d{3})/$1,$2/;
	return $text;
}

sub megabytes
{
	my (@bytes) = @_;
	return map { $_ / 1024**2 } @bytes;
}

# The median, the quartiles, and in how many rounds.
sub spread
{
	my (@figure) = @_;
	return (
		number(median(@figure)),
		number(quantile(0.25, @figure)) . ' - ' . number(quantile(0.75, @figure)),
		scalar(@figure));
}

sub heading
{
	my ($title, @notes) = @_;
	return "\n$title\n" . '=' x length($title) . "\n" . join('', map { "$_\n" } @notes) . "\n";
}

# A line, with columns of the given widths: below 0 to the left.
sub line
{
	my ($widths, @cells) = @_;
	return join('  ', map { sprintf("%$widths->[$_]s", $cells[$_]) } 0 .. $#cells) =~ s/\s+\z//r . "\n";
}

my @wide = (-34, -20, 12, 24, 7);

# A row for each subject and point of a measurement.
sub table
{
	my ($measurement, $unit, $what, $at_what, $convert) = @_;
	my $text = line(\@wide, $what, $at_what, 'median', 'middle half', 'rounds');

	for my $subject (subjects($measurement, $unit))
	{
		for my $at (points($measurement, $unit))
		{
			my @figure = figure($measurement, $unit, $subject, $at);

			@figure = $convert->(@figure) if $convert;
			$text .= line(\@wide, $subject, $at, spread(@figure)) if @figure;
		}
	}
	return $text;
}

# --- The text

sub verdict
{
	my ($target) = @_;
	my ($direction, $limit) = split(/ /, $target->{limit});
	my $reaches = sub { $direction eq '<=' ? $_[0] <= $limit : $_[0] >= $limit };
	my @figure = @{ $target->{figure} };

	return 'yes' if $reaches->(median(@figure));
	return 'noise' if $reaches->(quantile($direction eq '<=' ? 0.25 : 0.75, @figure));
	return 'no';
}

sub text_of_targets
{
	my @widths = (2, -56, 8, 9, -10, 18, -5);
	my $text = heading('Targets',
		'What is to be reached, and whether the median does.  "noise": the median does not,',
		'but a quarter of the rounds or more do.');

	$text .= line(\@widths, '', 'what', 'target', 'measured', '', 'middle half', 'met');
	for my $target (targets())
	{
		my ($median, $quartiles) = spread(@{ $target->{figure} });

		$text .= line(\@widths, @$target{qw(item what limit)}, $median, $target->{unit}, $quartiles, verdict($target));
	}
	return $text;
}

sub text_of_calls
{
	my $text = heading('1. A call',
		'Nanoseconds in one backend, over a C function that does nothing; the WAL of sequences',
		'included.  On 64 shards, which a single backend never finds exhausted.');

	$text .= line(\@wide, 'function', '', 'median', 'middle half', 'rounds');
	$text .= line(\@wide, $_, '', spread(call_cost($_))) for grep { !/^nothing/ } subjects('call', 'ns');
	return $text;
}

sub text_of_growth
{
	my $text = heading('5. Growth',
		'Rows per second of batches into tables that grow side by side, on a server with',
		machine('while the index grows') . '.  Batches of each quarter of the growth.');

	$text .= line(\@wide, 'key', 'quarter', 'median', 'middle half', 'batches');
	for my $subject (subjects('growth', 'rows/s'))
	{
		$text .= line(\@wide, $subject, $_, spread(quarter_rates($subject, $_))) for 1 .. 4;
	}
	$text .= "\n" . table('growth', 'bytes', 'size of the primary key, MB', 'rows', \&megabytes);
	return $text;
}

sub text_of_decoding
{
	my $text = heading('7. Decoding',
		'Nanoseconds for an id of a table that is read, over a C function that does nothing with',
		'the same arguments.');

	$text .= line(\@wide, 'function', 'layout', 'median', 'middle half', 'rounds');
	for my $function (grep { $_ ne 'noop' } subjects('decode', 'ns'))
	{
		for my $with ('no layout', 'constant', 'column')
		{
			my @cost = decode_cost($function, $with);

			$text .= line(\@wide, $function, $with, spread(@cost)) if @cost;
		}
	}
	return $text;
}

sub text
{
	my $text = "snowflake's benchmark\n\nPrinted by bench/report.pl from results.csv, which bench/run.sh wrote.\n\n";

	$text .= sprintf("%-34s  %s\n", $_, machine($_)) for machine();
	$text .= text_of_targets() . text_of_calls();
	$text .= heading('2, 3. Backends',
		'Ids per second, by the number of backends that draw them.  One shard of this layout holds',
		'4,096,000; "one statement" is a single backend on one shard.')
	  . table('backends', 'ids/s', 'drawn from', 'backends');
	$text .= heading('4. INSERT of a row',
		'Rows per second with pgbench, a transaction each, by the number of clients, with',
		'synchronous_commit on.') . table('insert', 'rows/s', 'key', 'clients');
	$text .= heading('4. INSERT of a row, not flushed', 'The same with synchronous_commit off.')
	  . table('insert, no flush', 'rows/s', 'key', 'clients');
	$text .= heading('4. INSERT ... SELECT', 'Rows per second, into an empty table with a primary key.')
	  . table('bulk insert', 'rows/s', 'key', '');
	$text .= heading('4. COPY', 'Rows per second, from the client, into an empty table with a primary key.')
	  . table('copy', 'rows/s', 'key', '');
	$text .= heading('5. Index', 'Megabytes of the primary key after INSERT ... SELECT.')
	  . table('bulk insert', 'bytes', 'key', '', \&megabytes);
	$text .= text_of_growth();
	$text .= heading('6. Latency',
		'Nanoseconds that so many per cent of the calls took at most, 100 being the longest, with 8',
		'sessions calling as fast as they can.  Two looks at the clock are in each.')
	  . table('latency', 'ns', 'function', 'per cent');
	$text .= text_of_decoding();
	$text .= heading('8. Finding rows by time',
		'Microseconds of a query in one session: the sum over the rows of an hour, and the 50 rows',
		'before a time, through the primary key and through an index on a column with the time.')
	  . table('find', 'us', 'by', 'what');
	$text .= "\n" . table('index', 'bytes', 'size, MB', '', \&megabytes);
	$text .= heading('9. WAL and transaction numbers',
		'For a million ids, drawn in a transaction each by 8 clients, or in one statement.')
	  . table('wal', 'bytes for a million ids', 'bytes', 'drawn in') . "\n"
	  . table('wal', 'xids for a million ids', 'transaction numbers', 'drawn in');
	return $text;
}

# --- The README

# A row of its table: a name, and a figure for each of the columns.
sub row
{
	my ($name, @figures) = @_;
	return '| ' . join(' | ', $name, map { @$_ ? number(median(@$_)) : '' } @figures) . " |\n";
}

sub readme_block
{
	my @keys = ('snowflake', 'nextval', '', 'random UUID');
	my @functions = ('snowflake', 'nextval, CACHE 1', 'nextval, CACHE 1000', 'random UUID');
	my @drawn = ('own shards', @functions[ 1, 2, 3 ]);
	my ($clients, $backends) = (8, 4);
	my ($inserted, $copied) = map { number(machine($_) =~ s/ .*//r) } ('INSERT ... SELECT', 'COPY');
	my $of = sub {
		my ($measurement, $unit, $at, @subjects) = @_;
		return map { [ figure($measurement, $unit, $_, $at) ] } @subjects;
	};
	my $block = "| | snowflake | `nextval`, CACHE 1 | `nextval`, CACHE 1000 | `gen_random_uuid()` |\n"
	  . "|---|---:|---:|---:|---:|\n";

	$block .= row('a call, ns', map { [ call_cost($_) ] } @functions);
	$block .= row("ids/s, $backends backends, 8 shards", $of->('backends', 'ids/s', $backends, @drawn));
	$block .= row("`INSERT` of a row, rows/s, $clients clients", $of->('insert', 'rows/s', $clients, @keys));
	$block .= row("`INSERT ... SELECT` of $inserted rows, rows/s", $of->('bulk insert', 'rows/s', '', @keys));
	$block .= row("`COPY` of $copied rows, rows/s", $of->('copy', 'rows/s', '', @keys));
	$block .= row("primary key of $inserted rows, MB",
		map { [ megabytes(@$_) ] } $of->('bulk insert', 'bytes', '', @keys));
	$block .= row('WAL for a million ids in one statement, bytes',
		$of->('wal', 'bytes for a million ids', 'one statement', @functions));
	$block .= sprintf(
		"\nMedians of a %s run of `bench/run.sh` with PostgreSQL %s on %s cores (%s).\n"
		  . "What else was measured, the spread and the settings are in\n[its results](bench/results/results.txt).\n",
		machine('run'), machine('PostgreSQL') =~ s/ .*//r, machine('cores'), machine('processor'));
	$block .= "\n![ids per second by the number of backends](bench/results/backends.svg)\n";
	return $block;
}

sub readme
{
	my ($path) = @_;
	my ($begin, $end) = map { "<!-- bench: $_ -->\n" } ('begin', 'end');
	my $readme;

	open(my $file, '<', $path) or die "could not open $path: $!\n";
	$readme = do { local $/; readline($file) };
	$readme =~ s/\Q$begin\E.*\Q$end\E/$begin . readme_block() . $end/se
	  or die "$path has no place for the table\n";
	return $readme;
}

my ($what, $results, $where) = @ARGV;
load($results);
if ($what eq 'plots')
{
	draw_plots($where);
}
else
{
	print $what eq 'readme' ? readme($where) : text();
}
