# Tables.pm -- what is shown: the tables of README.md and doc/speed.md
#
# A table has lines and columns.  A line says over what it was measured and in which
# unit, and names the measurement, the point, and a scale that divides the figures;
# a column is a subject.  Where a line means another subject than its column, it
# says so in "of".  The first column is what the others are compared with.
#
# With "apart" they are not compared.  With "list" the subjects are the lines of the
# table, and its columns are the figure, its spread, the number of rounds and the
# difference.  A plot shows the same figures.

package Tables;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Figures;

our @EXPORT = qw(tables cells heading markdown machine_facts);

my @keys = ('snowflake', 'nextval, CACHE 1', 'nextval, CACHE 1000', 'uuidv7', 'random UUID');
my %heading = (
	'one shard' => 'snowflake, one shard',
	'sessions apart' => 'snowflake, sessions apart',
	'clock and lock' => 'the limit',
	'clock and lock, given a shard' => 'the limit, given a shard',
	'nextval, CACHE 1' => '`nextval`, CACHE 1',
	'nextval, CACHE 1000' => '`nextval`, CACHE 1000',
	'uuidv7' => '`uuidv7()`',
	'random UUID' => '`gen_random_uuid()`');
my @called = ('snowflake', 'snowflake, given a shard', 'clock and lock', 'clock and lock, given a shard');
my $million = 1e6;
my $mb = 1024**2;

sub row
{
	my ($what, $unit, $measurement, $at, $scale, %of) = @_;
	return { what => $what, unit => $unit, measurement => $measurement, at => $at, scale => $scale // 1, of => \%of };
}

# "8 clients"
sub count_of
{
	my ($number, $what) = @_;
	return "$number $what" . ($number == 1 ? '' : 's');
}

# How many rows a measurement took, as run.pl noted.
sub rows_of
{
	my ($measurement) = @_;
	return grouped(machine($measurement) =~ s/ .*//r) . ' rows';
}

# "1 to 250,000"
sub quarter
{
	my ($number) = @_;
	return join(' to ', map { grouped($_) } split(/ to /, machine("quarter $number")));
}

sub minting
{
	my ($sessions, $shards, %of) = @_;
	return row(count_of($sessions, 'session') . $shards, 'million ids/s', 'backends, ids/s', $sessions, $million, %of);
}

sub inserting
{
	my ($clients, $commit) = @_;
	return row("`INSERT` of a row, " . count_of($clients, 'client') . ", `synchronous_commit` $commit",
		'thousand rows/s', $commit eq 'on' ? 'insert, rows/s' : 'insert, no flush, rows/s', $clients, 1000);
}

sub quarters
{
	my ($what, $unit, $measurement, $scale) = @_;
	return map { row($what . 'rows ' . quarter($_), $unit, "large index, $measurement", $_, $scale) } 1 .. 4;
}

sub last_quarter
{
	my ($what, $unit, $measurement, $scale) = @_;
	return row("$what, rows " . quarter(4), $unit, "large index, $measurement", 4, $scale);
}

# By the name that the pages have for each.
sub tables
{
	my $call = row('a call, one session, 64 shards', 'ns over an empty C function', 'cost of call, ns', '');
	my $bulk = row('`INSERT ... SELECT` of ' . rows_of('INSERT ... SELECT'), 'thousand rows/s', 'bulk insert, rows/s', '', 1000);
	my $copy = row('`COPY` of ' . rows_of('COPY'), 'thousand rows/s', 'copy, rows/s', '', 1000);
	my $size = row('primary key of ' . rows_of('INSERT ... SELECT'), 'MB', 'bulk insert, bytes', '', $mb);
	my $wal = 'bytes for a million ids';

	return (
		readme => {
			columns => \@keys,
			rows => [
				inserting(8, 'on'), inserting(8, 'off'),
				$bulk,
				row("`INSERT`, index that outgrew the caches", 'thousand rows/s', 'large index, rows/s', 4, 1000),
				$size,
				row('a row of a statement, with a call, 64 shards', 'ns', 'call, ns', ''),
				minting(4, ', one shard, exhausted in each tick', snowflake => 'one shard'),
			],
		},
		call => {
			title => 'A call: nanoseconds over an empty function',
			list => 'function',
			rows => [$call],
			columns => [ @called, grep { my $subject = $_; !grep { $_ eq $subject } @called } subjects('cost of call, ns') ],
			plot => 'log',
		},
		limit => {
			list => 'function',
			apart => 1,
			rows => [ row('a call / one reading of the clock and one locked exchange', 'times', 'limit, times', '') ],
			columns => [ 'snowflake', 'snowflake, given a shard' ],
		},
		backends => {
			title => 'Million ids per second',
			columns => [ 'snowflake', 'one shard', @keys[ 1 .. 4 ] ],
			rows => [ map { minting($_, '') } 1, 4, 16, 64, 128 ],
			plot => 'linear',
		},
		order => {
			columns => [ 'snowflake', 'sessions apart', 'nextval, CACHE 1' ],
			rows => [ map { row(count_of($_, 'session'), 'million ids/s', 'order, ids/s', $_, $million) } 1, 2, 4, 16, 64, 150 ],
		},
		insert => {
			title => 'INSERT of a row: thousand rows per second',
			columns => \@keys,
			rows => [ (map { inserting($_, 'on') } 1, 8, 32), map { inserting($_, 'off') } 1, 8 ],
			plot => 'linear',
		},
		bulk => {
			columns => [ @keys, 'snowflake, full pages' ],
			rows => [ $bulk, $size, $copy ],
		},
		large => {
			title => 'A growing index: thousand rows per second',
			columns => \@keys,
			rows => [ quarters('', 'thousand rows/s', 'rows/s', 1000) ],
			plot => 'linear',
		},
		'large, cost' => {
			columns => \@keys,
			rows => [
				last_quarter('pages read', 'a thousand rows', 'pages read a row', 0.001),
				last_quarter('WAL', 'bytes a row', 'WAL bytes a row'),
				last_quarter('images of pages in it', 'a thousand rows', 'page images a row', 0.001),
				row('the index at the end', 'MB', 'large index, bytes', 4, $mb),
			],
		},
		edge => {
			title => 'One index or eight: thousand rows per second',
			columns => [ 'snowflake', 'partitions by shard', 'partitions by hash', 'random UUID' ],
			rows => [ map { row(count_of($_, 'session'), 'thousand rows/s', 'edge, rows/s', $_, 1000) } 1, 8, 32 ],
			plot => 'linear',
		},
		latency => {
			title => 'How long calls take, in microseconds',
			columns => [ 'snowflake', 'one shard', 'nextval, CACHE 1', 'nextval, CACHE 1000', 'nothing' ],
			rows => [
				(map { row(($_ == 50 ? "median" : "$_ % of the calls take no longer") . ", 8 sessions", 'us', 'latency, ns', $_, 1000) } 50, 99, 99.9, 99.99),
				row('the longest call, 8 sessions', 'us', 'latency, ns', 100, 1000),
				row('the longest call, 64 sessions', 'us', 'longest, ns', 64, 1000),
			],
			plot => 'log',
		},
		wal => {
			columns => [ @keys[ 0 .. 2 ] ],
			rows => [
				map {
					row("WAL for a million ids, $_", 'bytes', "wal, $wal", $_),
					row("transaction numbers for a million ids, $_", '', 'wal, xids for a million ids', $_)
				} 'in one statement', 'a transaction each' ],
		},
		plain => {
			apart => 1,
			columns => [ 'snowflake', 'snowflake_plain', 'nextval, CACHE 1', 'random UUID', map { "PL/pgSQL, $_" } 'modulo', 'checked', 'moved' ],
			rows => [
				row('8 sessions, 1,000 ids in a statement', 'thousand ids/s', 'plain, ids/s', '', 1000),
				row('ids that came more than once', 'of a million', 'plain, of a million', ''),
			],
		},
		decode => {
			apart => 1,
			columns => [ map { "snowflake_$_" } qw(timestamp shard sequence decode) ],
			rows => [
				map { row("an id, $_", 'ns over reading the id', 'cost of decode, ns', $_) }
				  'no layout', 'constant', 'column' ],
		},
		find => {
			columns => [ 'primary key', 'extra index' ],
			rows => [
				(map { row("$_ of " . rows_of('decoded and searched'), 'us', 'find, us', $_) } 'an hour', 'a page'),
				row('the index', 'MB', 'find, bytes', '', $mb),
			],
		},
		'by hand' => {
			columns => [ 'with a function', 'by hand' ],
			rows => [ map { row($_, 'ms', 'by hand, ms', $_) } points('by hand, ms') ],
		},
		parallel => {
			columns => [ 'the leader mints', 'workers mint', 'nextval' ],
			rows => [ map { row("$_ of " . rows_of('parallel scan'), 's', 'parallel, s', $_) } 'all', 'an eighth' ],
		},
		settled => {
			columns => [ 'no poller', 'ten polls a second', 'polls without a pause', grep { /^(reads|an old|a session)/ } subjects('settled, rows/s') ],
			rows => [
				row('8 writers', 'thousand rows/s', 'settled, rows/s', 8, 1000),
				row('a poll', 'us', 'settled, us', 8),
			],
		});
}

# The name of a subject.
sub heading
{
	my ($column) = @_;
	return $heading{$column} // $column;
}

# The rounds of a line's column.
sub cells
{
	my ($row, $column) = @_;
	my $figure = figure($row->{measurement}, $row->{of}{$column} // $column, $row->{at});

	return { map { $_ => $figure->{$_} / $row->{scale} } keys %$figure };
}

# What a line is of, in which unit, and whether more is better.
sub what
{
	my ($row) = @_;
	return join(', ', grep { $_ ne '' } @$row{ 'what', 'unit' }) . ($row->{unit} =~ /\/s$/ ? ' ↑' : ' ↓');
}

sub line
{
	return '| ' . join(' | ', @_) . " |\n";
}

sub head
{
	my ($first, @columns) = @_;
	return line($first, map { heading($_) } @columns) . '|---' . '|---:' x @columns . "|\n";
}

sub grid
{
	my ($table) = @_;
	my ($first, @columns) = @{ $table->{columns} };
	my $used = sub { my ($column) = @_; grep { %{ cells($_, $column) } } @{ $table->{rows} } };
	my $text;

	@columns = grep { $used->($_) } @columns;
	$text = head('', $first, @columns);
	for my $row (@{ $table->{rows} })
	{
		my $ours = cells($row, $first);
		my @cells;

		for my $column ($first, @columns)
		{
			my $figure = cells($row, $column);
			my @values = values %$figure;
			my $text = @values ? shown(median(@values), spread(@values)) : '';

			$text .= ' (' . difference($ours, $figure) . ')' if @values && %$ours && $column ne $first && !$table->{apart};
			push @cells, $text;
		}
		$text .= line(what($row), @cells) if grep { $_ ne '' } @cells;
	}
	return $text;
}

sub list
{
	my ($table) = @_;
	my ($row) = @{ $table->{rows} };
	my ($first) = @{ $table->{columns} };
	my $text = head($table->{list}, what($row), 'spread', 'rounds', $table->{apart} ? () : "beside $first");

	for my $column (@{ $table->{columns} })
	{
		my $figure = cells($row, $column);
		my @values = values %$figure or next;
		my ($low, $high) = spread(@values);

		$text .= line(heading($column), shown(median(@values), $low, $high),
			shown($low, $low, $high) . ' to ' . shown($high, $low, $high), scalar(@values),
			$table->{apart} ? () : $column eq $first ? '' : difference(cells($row, $first), $figure));
	}
	return $text;
}

sub markdown
{
	my ($table) = @_;
	my $text = $table->{list} ? list($table) : grid($table);
	return $text =~ tr/\n// > 2 ? $text : "Not measured in this run.\n";
}

# What the figures mean nothing without.
sub machine_facts
{
	return head('', '') . join('', map { line($_, machine($_)) } grep { !/^(?:run|quarter \d)$/ } machine());
}

1;
