# Ids per second as sessions are added: on one shard, as README's example has it,
# which holds so many ids a millisecond and no more; on eight; and from the others.
#
# A statement draws thousands of ids, so that what is measured is not the
# traffic with the clients.

use strict;
use warnings FATAL => 'all';
use Bench;

# who: what they draw, and how much of it in a statement.  With 128 sessions
# on one shard, the latter takes a third of a second.
my %draw = (
	'one shard' => [ 'snowflake_nextval()', 10_000 ],
	'snowflake' => [ 'snowflake_nextval()', 50_000 ],
	'nextval, CACHE 1' => [ "nextval('cache_1')", 50_000 ],
	'nextval, CACHE 1000' => [ "nextval('cache_1000')", 50_000 ],
	'random UUID' => [ 'gen_random_uuid()', 10_000 ]);

$draw{'uuidv7'} = [ 'uuidv7()', 10_000 ] if has('uuidv7()');

my @sessions = @{ by_mode([2], [ 1, 4, 64 ], [ 1, 4, 16, 64 ]) };

measurement(
	'backends',
	rounds => by_mode(1, 5, 5),
	turns => [ @{ turns([ sort keys %draw ], \@sessions) }, [ 'one shard', 128 ] ],
	take => sub {
		my ($subject, $sessions) = @_;
		my ($what, $ids) = @{ $draw{$subject} };
		my $rate = pgbench("SELECT count($what) FROM (SELECT generate_series(1, $ids)) AS n",
			$sessions, by_mode(1, 1, 2), 'snowflake.shards' => $subject eq 'one shard' ? 5 : '0-7');

		record($subject, $sessions, $ids * $rate, 'ids/s');
	});

1;
