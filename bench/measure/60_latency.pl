# How long each call takes while 8 sessions call as fast as they can, the
# horizon's worker running; and the longest call where 64 do.  More sessions than
# cores wait for each other's time on the processor, so the longest calls are
# beside those of a function that does nothing.

use strict;
use warnings FATAL => 'all';
use Bench;

my $ms = by_mode(100, 500, 2000);
my @percentiles = (50, 99, 99.9, 99.99, 100);

# who: the function and its argument.  64 shards are never exhausted.
my %call = (
	'nothing' => [ 'noop()', 0 ],
	'snowflake' => [ 'snowflake_nextval()', 0 ],
	'one shard' => [ 'snowflake_nextval(integer)', 5 ],
	'nextval, CACHE 1' => [ 'nextval(regclass)', "'cache_1'::regclass::oid::bigint" ],
	'nextval, CACHE 1000' => [ 'nextval(regclass)', "'cache_1000'::regclass::oid::bigint" ]);

# What such shares of the calls of so many sessions took at most, in ns.
sub percentiles
{
	my ($subject, $sessions, @percentiles) = @_;
	my ($function, $argument) = @{ $call{$subject} };

	query('TRUNCATE latencies');
	pgbench("INSERT INTO latencies SELECT ns, calls FROM call_latencies('$function', $argument, $ms)",
		$sessions, 0, transactions => 1, 'snowflake.shards' => '0-63');
	return map { query("
		SELECT min(ns) FROM (SELECT ns, sum(calls) OVER (ORDER BY ns) AS seen, sum(calls) OVER () AS all FROM latencies) AS sorted
		 WHERE seen >= sorted.all * $_ / 100.0") } @percentiles;
}

measurement(
	'latency',
	rounds => by_mode(1, 5, 5),
	setup => sub { query('CREATE UNLOGGED TABLE latencies (ns bigint, calls bigint)') },
	turns => [ map { [$_] } sort keys %call ],
	take => sub {
		my ($subject) = @_;
		my @ns = percentiles($subject, 8, @percentiles);

		record($subject, $percentiles[$_], $ns[$_], 'ns') for 0 .. $#percentiles;
	});

measurement(
	'longest',
	rounds => by_mode(1, 5, 9),
	turns => [ map { [$_] } 'nothing', 'snowflake', 'nextval, CACHE 1000' ],
	take => sub {
		my ($subject) = @_;
		record($subject, 64, percentiles($subject, 64, 100), 'ns');
	});

1;
