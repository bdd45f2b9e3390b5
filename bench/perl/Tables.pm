# Tables.pm -- what is shown: the tables of README.md and doc/speed.md
#
# A table has lines and columns.  A line says over what it was measured, and names
# the measurement and its unit, the point, and a scale that divides the figures;
# a column is a subject.  Where a line means another subject than its column, it
# says so in "of".  The first column is what the others are compared with.
#
# With "list" the subjects are the lines of the table, and its columns are the
# figure, its spread, the number of rounds and the difference.  A plot shows the
# same figures.

package Tables;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Figures;

our @EXPORT = qw(tables cells markdown machine_facts);

my @keys = ('snowflake', 'nextval, CACHE 1', 'nextval, CACHE 1000', 'uuidv7', 'random UUID');
my %heading = (
	'nextval, CACHE 1' => '`nextval`, CACHE 1',
	'nextval, CACHE 1000' => '`nextval`, CACHE 1000',
	'uuidv7' => '`uuidv7()`',
	'random UUID' => '`gen_random_uuid()`');
my $million = 1e6;
my $mb = 1024**2;

sub row
{
	my ($what, $measurement, $at, $scale, %of) = @_;
	return { what => $what, measurement => $measurement, at => $at, scale => $scale // 1, of => \%of };
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

sub minting
{
	my ($sessions) = @_;
	return row('million ids/s, ' . count_of($sessions, 'session') . ', 8 shards', 'backends, ids/s', $sessions, $million);
}

sub one_shard
{
	my ($sessions, $more) = @_;
	return row('million ids/s, ' . count_of($sessions, 'session') . ", one shard$more",
		'backends, ids/s', $sessions, $million, snowflake => 'one shard');
}

sub inserting
{
	my ($clients, $commit) = @_;
	return row("`INSERT` of a row, thousand rows/s, " . count_of($clients, 'client') . ", `synchronous_commit` $commit",
		$commit eq 'on' ? 'insert, rows/s' : 'insert, no flush, rows/s', $clients, 1000);
}

# By the name that the pages have for each.
sub tables
{
	my $quarters = sub { map { row("$_[0], rows " . join(' to ', map { grouped($_) } split(/ to /, machine("quarter $_"))), $_[1], $_, $_[2]) } 1 .. 4 };
	my $bulk = row('`INSERT ... SELECT` of ' . rows_of('INSERT ... SELECT') . ', thousand rows/s', 'bulk insert, rows/s', '', 1000);
	my $copy = row('`COPY` of ' . rows_of('COPY') . ', thousand rows/s', 'copy, rows/s', '', 1000);
	my $size = row('its primary key, MB', 'bulk insert, bytes', '', $mb);
	my $call = row('a call, one session, 64 shards, ns over an empty C function', 'cost of call, ns', '');
	my $wal = 'bytes for a million ids';

	return (
		readme => {
			columns => \@keys,
			rows => [
				$call,
				one_shard(1, ', as in the example above'), one_shard(4, ', exhausted in each tick'),
				minting(1), minting(4),
				inserting(1, 'on'), inserting(8, 'on'), inserting(8, 'off'),
				$bulk, $copy, { %$size, what => "primary key of those, MB" },
				row('`INSERT` at the end of growth, thousand rows/s: an index many times larger than the caches', 'large index, rows/s', 4, 1000),
				row('WAL of that, bytes a row', 'large index, WAL bytes a row', 4),
				row('WAL of a million ids in one statement, bytes', "wal, $wal", 'in one statement'),
			],
		},
		call => {
			title => 'What a call costs, in nanoseconds',
			list => 'function',
			rows => [$call],
			columns => [ 'snowflake', grep { $_ ne 'snowflake' } subjects('cost of call, ns') ],
			plot => 'log',
		},
		limit => {
			title => 'A call, in multiples of the limit',
			list => 'function',
			rows => [ row('a call / one reading of the clock and one locked exchange', 'limit, times', '') ],
			columns => [ 'clock and lock', 'snowflake', 'snowflake, given a shard', @keys[ 1 .. 4 ], 'pgEdge' ],
		},
		backends => {
			title => 'Million ids per second, by sessions',
			columns => \@keys,
			rows => [ (map { one_shard($_, '') } 1, 4, 16, 64, 128), map { minting($_) } 1, 4, 16, 64 ],
			plot => 'linear',
		},
		insert => {
			title => 'INSERT of a row: thousand rows per second',
			columns => \@keys,
			rows => [ (map { inserting($_, 'on') } 1, 8, 32), map { inserting($_, 'off') } 1, 8, 32 ],
			plot => 'linear',
		},
		bulk => {
			title => 'Many rows at once: thousand rows per second',
			columns => [ @keys, 'snowflake, full pages' ],
			rows => [ $bulk, $size, $copy ],
		},
		large => {
			title => 'An index that outgrows the caches: thousand rows per second',
			columns => \@keys,
			rows => [ $quarters->('thousand rows/s', 'large index, rows/s', 1000) ],
			plot => 'linear',
		},
		'large, cost' => {
			columns => \@keys,
			rows => [
				$quarters->('buffers read a row', 'large index, buffers read a row', 1),
				$quarters->('WAL, bytes a row', 'large index, WAL bytes a row', 1),
				$quarters->('full page images a thousand rows', 'large index, full page images a row', 0.001),
				row('the index at the end, MB', 'large index, bytes', 4, $mb) ],
		},
		edge => {
			title => 'One index or many: thousand rows per second',
			columns => [ 'snowflake', 'partitions by shard', 'partitions by hash', @keys[ 1 .. 4 ] ],
			rows => [ map { row('thousand rows/s, ' . count_of($_, 'session'), 'edge, rows/s', $_, 1000) } 1, 2, 8, 32 ],
			plot => 'linear',
		},
		latency => {
			title => 'How long calls take, in microseconds',
			columns => [ 'snowflake', 'one shard', 'nextval, CACHE 1', 'nextval, CACHE 1000', 'nothing' ],
			rows => [
				(map { row("$_ % of the calls, at most, us, 8 sessions", 'latency, ns', $_, 1000) } 50, 99, 99.9, 99.99),
				row('the longest call, us, 8 sessions', 'latency, ns', 100, 1000),
				row('the longest call, us, 64 sessions', 'longest, ns', 64, 1000) ],
			plot => 'log',
		},
		wal => {
			columns => [ @keys[ 0 .. 2 ] ],
			rows => [
				map {
					row("WAL for a million ids, $_, bytes", "wal, $wal", $_),
					row("transaction numbers for a million ids, $_", 'wal, xids for a million ids', $_)
				} 'in one statement', 'a transaction each' ],
		},
		decode => {
			columns => [ map { "snowflake_$_" } qw(timestamp shard sequence decode) ],
			rows => [
				row('an id, ns over an empty C function', 'cost of decode, ns', 'no layout'),
				map { row("the same with a layout that is a $_", 'cost of decode, ns', $_) } 'constant', 'column' ],
		},
		find => {
			columns => [ 'primary key', 'extra index' ],
			rows => [
				(map { row("$_, us", 'find, us', $_) } 'an hour', 'a page'),
				row('the index, MB', 'index, bytes', '', $mb) ],
		},
		'by hand' => {
			columns => [ 'ours', 'by hand' ],
			rows => [ map { row("$_, ms", 'by hand, ms', $_) } points('by hand, ms') ],
		},
		parallel => {
			columns => [ 'the leader mints', 'workers mint', 'nextval' ],
			rows => [ map { row("$_ of the rows, s", 'parallel, s', $_) } 'all', 'an eighth' ],
		},
		settled => {
			columns => [ 'no poller', 'ten polls a second', 'polls without a pause' ],
			rows => [
				row('writers, thousand rows/s', 'settled, rows/s', 8, 1000),
				row('a poll, us', 'settled, us', 8) ],
		});
}

# The rounds of a line's column.
sub cells
{
	my ($row, $column) = @_;
	my $figure = figure($row->{measurement}, $row->{of}{$column} // $column, $row->{at});

	return { map { $_ => $figure->{$_} / $row->{scale} } keys %$figure };
}

sub line
{
	return '| ' . join(' | ', @_) . " |\n";
}

sub head
{
	my ($first, @columns) = @_;
	return line($first, map { $heading{$_} // $_ } @columns) . '|---' . '|---:' x @columns . "|\n";
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

			$text .= ' (' . difference($ours, $figure) . ')' if @values && %$ours && $column ne $first;
			push @cells, $text;
		}
		$text .= line($row->{what}, @cells) if grep { $_ ne '' } @cells;
	}
	return $text;
}

sub list
{
	my ($table) = @_;
	my ($row) = @{ $table->{rows} };
	my ($first) = @{ $table->{columns} };
	my $text = head($table->{list}, $row->{what}, 'spread', 'rounds', "beside $first");

	for my $column (@{ $table->{columns} })
	{
		my $figure = cells($row, $column);
		my @values = values %$figure or next;
		my ($low, $high) = spread(@values);

		$text .= line($heading{$column} // $column, shown(median(@values), $low, $high),
			shown($low, $low, $high) . ' to ' . shown($high, $low, $high), scalar(@values),
			$column eq $first ? '' : difference(cells($row, $first), $figure));
	}
	return $text;
}

sub markdown
{
	my ($table) = @_;
	return $table->{list} ? list($table) : grid($table);
}

# What the figures mean nothing without.
sub machine_facts
{
	return head('', '') . join('', map { line($_, machine($_)) } grep { !/^quarter/ } machine());
}

1;
