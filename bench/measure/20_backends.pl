# Ids per second as backends are added: on one shard, which holds so many ids
# a millisecond and no more, and on all the server's own, beside sequences.
#
# A statement draws thousands of ids, so that what is measured is not the
# traffic with the clients.

use strict;
use warnings FATAL => 'all';
use Bench;

# who: what they draw, and how much of it in a statement.  With 128 backends
# on one shard, the latter takes a third of a second.
my %draw = (
	'one shard' => [ 'snowflake_nextval(5)', 10_000 ],
	'own shards' => [ 'snowflake_nextval()', 50_000 ],
	'nextval, CACHE 1' => [ "nextval('cache_1')", 50_000 ],
	'nextval, CACHE 1000' => [ "nextval('cache_1000')", 50_000 ]);

my $whole = by_mode(40_000, 1_000_000, 4_000_000);
my @many = @{ by_mode([ 1, 2 ], [ 1, 4, 16, 64 ], [ 1, 2, 4, 8, 16, 32, 64, 128 ]) };
my @some = @{ by_mode([ 1, 2 ], [ 1, 4, 16 ], [ 1, 2, 4, 8, 16, 64 ]) };

sub statement
{
	my ($what, $ids) = @_;
	return "SELECT count($what) FROM (SELECT generate_series(1, $ids)) AS n";
}

measurement(
	'backends',
	rounds => by_mode(1, 2, 4),
	turns => [
		[ 'one statement', 1 ],
		(map { [ 'one shard', $_ ] } @many),
		(map { my $backends = $_; map { [ $_, $backends ] } grep { $_ ne 'one shard' } sort keys %draw } @some) ],
	take => sub {
		my ($subject, $backends) = @_;

		if ($subject eq 'one statement')
		{
			my ($what) = @{ $draw{'one shard'} };

			record($subject, $backends, $whole / timed(statement($what, $whole)), 'ids/s');
		}
		else
		{
			my ($what, $ids) = @{ $draw{$subject} };
			my $rate = pgbench(statement($what, $ids), $backends, by_mode(1, 1, 2));

			record($subject, $backends, $ids * $rate, 'ids/s');
		}
	});

1;
