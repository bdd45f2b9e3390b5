# Reading: ids taken apart, and rows found by the time in their id, in a table
# of events of a hundred days.  Beside its id, each has the time in a column
# of its own, with an index that the primary key makes superfluous.

use strict;
use warnings FATAL => 'all';
use Bench;

my $rows = by_mode(20_000, 500_000, 3_000_000);
my $days = 100;
my $gap = $days * 86400 * 1_000_000 / $rows;    # microseconds between two

# --- decoding: of whom, with which arguments

my %arguments = ('no layout' => 'id', 'constant' => "id, 'twitter'", 'column' => 'id, layout');
my @functions = ('nothing', map { "snowflake_$_" } qw(timestamp shard sequence decode));

measurement(
	'decode',
	rounds => by_mode(1, 5, 5),
	setup => sub {
		query([ 'CREATE TABLE events (id snowflake NOT NULL, created_at timestamptz, payload integer, layout text)',
			"INSERT INTO events
			 SELECT id, snowflake_timestamp(id), i, 'twitter'
			 FROM generate_series(1, $rows) AS i,
				snowflake_encode(timestamptz '2026-01-01Z' + i * interval '$gap us', i % 8, i % 4096) AS id",
			'ALTER TABLE events ADD PRIMARY KEY (id)',
			'CREATE INDEX events_created_at ON events (created_at)',
			'VACUUM ANALYZE events' ]);
	},
	turns => [ @{ turns(\@functions, ['no layout']) }, @{ turns([ @functions[ 0, 1 ] ], [ 'constant', 'column' ]) } ],
	take => sub {
		my ($function, $with) = @_;
		my $what = $function eq 'nothing' ? 'id' : "$function($arguments{$with})";

		query('SELECT count(id) FROM events');    # the first statement after others reads it into shared_buffers
		record($function, $with, timed("SELECT count($what) FROM events") / $rows * 1e9, 'ns');
	});

# --- finding: by which column, a range of times or a page of rows

my %condition = ('primary key' => 'id', 'extra index' => 'created_at');
my %index = ('primary key' => 'events_pkey', 'extra index' => 'events_created_at');
my $hours = $days * 24 - 1;
my $some_time = "timestamptz '2026-01-01Z' + :hour * interval '1 hour'";
my %find = (
	'an hour' => "SELECT sum(payload) FROM events WHERE COLUMN >= $some_time AND COLUMN < $some_time + interval '1 hour';",
	'a page' => "SELECT id, payload FROM events WHERE COLUMN < $some_time ORDER BY COLUMN DESC LIMIT 50;");

measurement(
	'find',
	rounds => by_mode(1, 5, 5),
	turns => turns([ sort keys %condition ], [ sort keys %find ]),
	take => sub {
		my ($by, $what) = @_;
		my $script = "\\set hour random(1, $hours)\n" . $find{$what} =~ s/COLUMN/$condition{$by}/gr;

		record($by, $what, 1e6 / pgbench($script, 1, by_mode(1, 1, 2)), 'us');
		record($by, '', query("SELECT pg_relation_size('$index{$by}')"), 'bytes');
	});

record_machine('decoded and searched', "$rows rows");

1;
