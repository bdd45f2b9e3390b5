# Ids per second with one order for all sessions, and with sessions that keep apart,
# beside a sequence, which has one order, too.  There are eight shards, and a statement
# draws thousands of ids.

use strict;
use warnings FATAL => 'all';
use Bench;

my %draw = (
	'snowflake' => 'snowflake_nextval()',
	'sessions apart' => 'snowflake_nextval()',
	'nextval, CACHE 1' => "nextval('cache_1')");
my $IDS = 10_000;    # in a statement, so that with 150 sessions each ends in time

sub set_ordering
{
	my ($statement) = @_;
	my $before = query('SELECT pg_conf_load_time()');

	query([ $statement, 'SELECT pg_reload_conf()' ]);
	while (query('SELECT pg_conf_load_time()') eq $before) { select(undef, undef, undef, 0.01) }
	return;
}

measurement(
	'order',
	rounds => by_mode(1, 5, 9),
	turns => turns([ sort keys %draw ], by_mode([2], [ 1, 2, 4, 16, 64, 150 ], [ 1, 2, 4, 16, 64, 150 ])),
	take => sub {
		my ($subject, $sessions) = @_;

		set_ordering("ALTER SYSTEM SET snowflake.ordering = 'session'") if $subject eq 'sessions apart';
		my $rate = pgbench("SELECT count($draw{$subject}) FROM (SELECT generate_series(1, $IDS)) AS n",
			$sessions, by_mode(1, 1, 2), 'snowflake.shards' => '0-7');
		set_ordering('ALTER SYSTEM RESET snowflake.ordering') if $subject eq 'sessions apart';
		record($subject, $sessions, $IDS * $rate, 'ids/s');
	});

1;
