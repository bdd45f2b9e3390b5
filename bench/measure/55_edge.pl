# Many sessions that insert at the right edge of one index, beside a key that
# arrives anywhere, and beside tables of eight partitions: by the shard, each
# session minting on one of its own, and by the hash of the key.
#
# A statement inserts a hundred rows, and is not flushed: what is measured is
# how they get in each other's way.

use strict;
use warnings FATAL => 'all';
use Bench;

my %partitioned = ('partitions by shard' => '(id snowflake_shard_ops)', 'partitions by hash' => '(id)');
my @sessions = @{ by_mode([2], [ 1, 8 ], [ 1, 8, 32 ]) };
my @subjects = ('snowflake', 'random UUID', sort keys %partitioned);
my %table;

sub create
{
	my ($subject) = @_;

	return $table{$subject} = table_of('edge', $subject) unless $partitioned{$subject};
	my $table = $table{$subject} = 'edge_' . $subject =~ s/ /_/gr;
	query([ "CREATE TABLE $table (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), payload integer)
			PARTITION BY HASH $partitioned{$subject}",
		map { "CREATE TABLE ${table}_$_ PARTITION OF $table FOR VALUES WITH (MODULUS 8, REMAINDER $_)" } 0 .. 7 ]);
	return;
}

measurement(
	'edge',
	rounds => by_mode(1, 5, 7),
	setup => sub { create($_) for @subjects },
	turns => turns(\@subjects, \@sessions),
	take => sub {
		my ($subject, $sessions) = @_;
		my ($ids, $values) = $subject eq 'partitions by shard' ? ('id, ', 'snowflake_nextval(:client_id % 8), ') : ('', '');

		query("TRUNCATE $table{$subject}");
		my $rate = pgbench("INSERT INTO $table{$subject} (${ids}payload) SELECT ${values}generate_series(1, 100)",
			$sessions, by_mode(1, 1, 2), synchronous_commit => 'off');
		record($subject, $sessions, $rate * 100, 'rows/s');
	});

1;
