# Ids per second as sessions are added: on one shard, as README's example has it,
# which holds so many ids a millisecond and no more; on eight, in one order for all
# sessions and with sessions apart; and from the others.
#
# A statement draws thousands of ids, so that what is measured is not the
# traffic with the clients.

use strict;
use warnings FATAL => 'all';
use Bench;

# who: what they draw, and how much of it in a statement, so that with 150 sessions
# each statement ends within the time of a sample.
my %draw = (
	'one shard' => [ 'snowflake_nextval()', 10_000 ],
	'snowflake' => [ 'snowflake_nextval()', 10_000 ],
	'sessions apart' => [ 'snowflake_nextval()', 10_000 ],
	'nextval, CACHE 1' => [ "nextval('cache_1')", 10_000 ],
	'nextval, CACHE 1000' => [ "nextval('cache_1000')", 10_000 ],
	'random UUID' => [ 'gen_random_uuid()', 10_000 ]);

$draw{'uuidv7'} = [ 'uuidv7()', 10_000 ] if has('uuidv7()');

my @sessions = @{ by_mode([ 1, 4 ], [ 1, 4, 16, 150 ], [ 1, 2, 4, 16, 64, 150 ]) };

measurement(
	'backends',
	rounds => by_mode(1, 5, 5),
	turns => turns([ sort keys %draw ], \@sessions),
	take => sub {
		my ($subject, $sessions) = @_;
		my ($what, $ids) = @{ $draw{$subject} };

		reload_server("ALTER SYSTEM SET snowflake.ordering = 'session'") if $subject eq 'sessions apart';
		my $rate = pgbench("SELECT count($what) FROM (SELECT generate_series(1, $ids)) AS n",
			$sessions, by_mode(1, 1, 2), 'snowflake.shards' => $subject eq 'one shard' ? 5 : '0-7');

		reload_server('ALTER SYSTEM RESET snowflake.ordering') if $subject eq 'sessions apart';
		record($subject, $sessions, $ids * $rate, 'ids/s');
	});

1;
