# What a call costs, in one session: a statement's time for so many rows, to be
# compared with that for a function that does nothing.
#
# On 64 shards, as many as keep a single session from ever finding them exhausted:
# how fast an exhausted shard is, is the next measurement.

use strict;
use warnings FATAL => 'all';
use Bench;

my %call = (
	'nothing' => 'noop()',
	'nothing, given a shard' => 'noop(i & 63)',
	'clock and lock' => 'clock_and_lock()',
	'clock and lock, given a shard' => 'clock_and_lock(i & 63)',
	'snowflake' => 'snowflake_nextval()',
	'snowflake, given a shard' => 'snowflake_nextval(i & 63)',
	'nextval, CACHE 1' => "nextval('cache_1')",
	'nextval, CACHE 1000' => "nextval('cache_1000')",
	'random UUID' => 'gen_random_uuid()',
	'PL/pgSQL, modulo' => 'plpgsql_modulo()',
	'PL/pgSQL, checked' => 'plpgsql_checked()');

$call{'uuidv7'} = 'uuidv7()' if has('uuidv7()');
$call{'pgEdge'} = "pgedge_nextval('pgedge_seq')" if has('pgedge_nextval(regclass)');

my $rows = by_mode(20_000, 500_000, 4_000_000);

measurement(
	'call',
	rounds => by_mode(1, 9, 20),
	turns => [ map { [$_] } sort keys %call ],
	take => sub {
		my ($subject) = @_;
		my $n = $subject =~ /PL/ ? $rows / 20 : $subject =~ /uuid/i ? $rows / 4 : $rows;
		my $seconds = timed(
			"SELECT count($call{$subject}) FROM (SELECT generate_series(1, $n) AS i) AS n",
			'snowflake.shards' => '0-63');

		record($subject, '', $seconds / $n * 1e9, 'ns');
	});

1;
