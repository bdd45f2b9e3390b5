# How long each call takes while 8 sessions call as fast as they can, the
# horizon's worker running.  More sessions than cores wait for each other's
# time on the processor, so the longest calls are beside those of a function
# that does nothing.

use strict;
use warnings FATAL => 'all';
use Bench;

my $sessions = 8;
my $ms = by_mode(100, 500, 2000);
my @percentiles = (50, 99, 99.9, 99.99, 100);

# who: the function and its argument.  64 shards are never exhausted.
my %call = (
	'nothing' => [ 'noop()', 0 ],
	'snowflake, own shards' => [ 'snowflake_nextval()', 0 ],
	'snowflake, one exhausted shard' => [ 'snowflake_nextval(integer)', 5 ],
	'nextval, CACHE 1' => [ 'nextval(regclass)', "'cache_1'::regclass::oid::bigint" ],
	'nextval, CACHE 1000' => [ 'nextval(regclass)', "'cache_1000'::regclass::oid::bigint" ]);

# What so much of the calls took at most, in ns; given is "ns|calls" by length.
sub percentile
{
	my ($percentile, @histogram) = @_;
	my $all = 0;
	my $seen = 0;

	$all += (split(/\|/))[1] for @histogram;
	for (@histogram)
	{
		my ($ns, $calls) = split(/\|/);

		$seen += $calls;
		return $ns if $seen >= $all * $percentile / 100;
	}
	die "nothing was called\n";
}

# The latencies of all calls of so many sessions, by length.
sub histogram
{
	my ($subject, $sessions) = @_;
	my ($function, $argument) = @{ $call{$subject} };

	query('TRUNCATE latencies');
	pgbench(
		"INSERT INTO latencies SELECT ns, calls FROM call_latencies('$function', $argument, $ms)",
		$sessions, 0,
		transactions => 1,
		settings => { 'snowflake.shards' => '0-63' });
	return split(/\n/, query('SELECT ns, sum(calls) FROM latencies GROUP BY ns ORDER BY ns'));
}

measurement(
	'latency',
	rounds => by_mode(1, 2, 4),
	setup => sub { query('CREATE UNLOGGED TABLE latencies (ns bigint, calls bigint)') },
	turns => [ map { [$_] } sort keys %call ],
	take => sub {
		my ($subject) = @_;
		my @histogram = histogram($subject, $sessions);

		record($subject, $_, percentile($_, @histogram), 'ns') for @percentiles;
	});

# the longest of all, where many sessions want the processor
measurement(
	'longest',
	rounds => by_mode(1, 2, 8),
	turns => [ map { [$_] } 'nothing', 'snowflake, own shards', 'nextval, CACHE 1000' ],
	take => sub {
		my ($subject) = @_;

		record($subject, 64, percentile(100, histogram($subject, 64)), 'ns');
	});

1;
