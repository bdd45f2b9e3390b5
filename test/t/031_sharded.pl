# A table of six partitions on three servers, by way of postgres_fdw, and a
# partition that moves from one of them to another under load, with its shard.
# The SQL is that of doc/sharding.md.  Its last part is done once more without
# the check of the clocks: then there are duplicates, so they would be seen.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use ManyServers;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

my @data = (
	small_server('data0', '0,1'),
	small_server('data1', '2,3', clock => 1),
	small_server('data2', '4,5'));
my $router = small_server('router', '6-11');
my %server = (router => $router, map { ("data$_" => $data[$_]) } 0 .. $#data);

run_section('The parts', %server);
run_section('The whole', %server);

# --- Writing

run_section('Writing', %server);

is(count_of($router, 'photos'), 6011, 'the router sees all rows');
is($router->safe_psql('postgres', q{SELECT bool_and(n BETWEEN 850 AND 1150) FROM
	(SELECT count(*) AS n FROM photos WHERE url LIKE 'photo %' GROUP BY tableoid) AS part}),
	't', 'spread over all partitions');
for my $n (0 .. 5)
{
	my $owner = $data[ int($n / 2) ];

	my $shard = 6 + $n;

	cmp_ok(count_of($owner, "photos_$n WHERE snowflake_shard(id) = $shard"), '>', 0,
		"rows of shard $shard are with " . $owner->name);
	is(count_of($owner, "photos_$n WHERE snowflake_shard(id) NOT IN ($n, $shard)"), 0, 'and no others');
}
is($router->safe_psql('postgres', q{SELECT count(*), count(DISTINCT tableoid) FROM photos WHERE url LIKE 'acme %'}),
	'10|1', 'the rows of a tenant are together');
is($router->safe_psql('postgres', q{SELECT tableoid::regclass, snowflake_shard(id) FROM photos WHERE url = 'local'}),
	'photos_2|2', 'a row that its server inserted is where the router looks');

like(slurp_file($data[0]->logfile),
	qr/execute .*INSERT INTO public\.photos_0\(url, id\) VALUES \(\$1, \$2\), .*\(\$199, \$200\)$/m,
	'rows arrive in batches of a hundred');

$router->safe_psql('postgres', q{COPY photos (url) FROM PROGRAM 'seq 600'});
is(count_of($router, 'photos'), 6611, 'COPY through the parent');
is(count_of($router, q{photos WHERE url ~ '^\d+$' AND snowflake_shard(id) - 6 <> right(tableoid::regclass::text, 1)::int}),
	0, 'to the same places');

# --- Reading

run_section('Reading', %server);

my $explain = 'EXPLAIN (VERBOSE, COSTS OFF)';
my $ids = $router->safe_psql('postgres', 'SELECT min(id) FROM photos GROUP BY tableoid ORDER BY tableoid');
my $part = 0;

for my $id (split(/\n/, $ids))
{
	touches($part, "$explain SELECT * FROM photos WHERE id = $id", 'a number');
	for my $plan ('custom', 'generic')
	{
		touches($part, "SET plan_cache_mode = force_${plan}_plan; PREPARE by_id(bigint) AS SELECT * FROM photos WHERE id = \$1;"
			  . "EXPLAIN (VERBOSE, ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE by_id($id)", "a parameter, $plan plan");
	}
	$part++;
}

my $page = 'SELECT id FROM photos ORDER BY id DESC LIMIT 20';
my $plan = $router->safe_psql('postgres', "$explain $page");

like($plan, qr/^Limit\n.*\n  ->  Merge Append\n/, 'a page is merged') or diag($plan);
is(() = $plan =~ /Remote SQL: SELECT id FROM public\.photos_\d ORDER BY id(::bigint)? DESC NULLS FIRST$/mg,
	6, 'from what the servers have sorted')
  or diag($plan);
is($router->safe_psql('postgres', $page),
	$router->safe_psql('postgres', 'SELECT id FROM (SELECT id FROM photos OFFSET 0) AS p ORDER BY id DESC LIMIT 20'),
	'and right');

$plan = $router->safe_psql('postgres', "$explain SELECT count(*) FROM photos WHERE url LIKE '%7'");
is(() = $plan =~ /->  Async Foreign Scan on public\.photos_\d/g, 6, 'what looks everywhere looks at once') or diag($plan);

# Does the statement look at one partition alone, by the id?
sub touches
{
	my ($part, $statement, $name) = @_;
	my $plan = $router->safe_psql('postgres', $statement);
	my @scans = $plan =~ /Foreign Scan on public\.photos_(\d)/g;

	ok("@scans" eq $part && $plan =~ /Remote SQL: SELECT .* WHERE \(\(id = .*\)\)$/m,
		"a look-up in partition $part by $name touches that one") or diag($plan);
	return;
}

# --- Moving a shard, to a server whose clock is behind

set_clock($data[1], -3);

# Clients that mint and insert, on both servers and on the router, and try
# again when they are refused.
my $try = "\\set ON_ERROR_STOP 0\n";
my $rest = 'SELECT pg_sleep(0.01);';
my $insert_1 = "INSERT INTO photos_1 (url) SELECT 'moving' FROM generate_series(1, 5) RETURNING id;";
my $mint_1 = 'SELECT snowflake_nextval(1) FROM generate_series(1, 20);';
my $insert = "INSERT INTO photos (url) SELECT 'routed' FROM generate_series(1, 20) RETURNING id;";
my @inserters = map { clients(@$_) } [ $data[0], $insert_1 ], [ $data[1], $insert_1 ], [ $router, $insert ];
my @minters = map { clients($_, $mint_1) } @data[ 0, 1 ];

sub clients
{
	my ($node, $statement) = @_;
	return start_minters($node, 2, '', statement => "$try$statement $rest", errors => '/dev/null');
}

my @steps = section('Moving a shard');
my ($give_up) = grep { $steps[$_] =~ /ALTER SYSTEM .* = '0'/ } 0 .. $#steps;
my ($wait) = grep { $steps[$_] =~ /pg_stat_activity/ } 0 .. $#steps;

run_example($_, %server) for @steps[ 0 .. $give_up - 1 ];

# a statement that began with the old setting, and lasts until a lock is free
my $holder = $data[0]->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
my $long_ids = PostgreSQL::Test::Utils::tempdir() . '/ids';
my $long = start_session($data[0],
	'SELECT snowflake_nextval(1) + length(pg_advisory_xact_lock(n % 2)::text) FROM generate_series(0, 99) AS n',
	to => $long_ids);
my $lasts = q{pg_stat_activity WHERE query LIKE '%advisory_xact_lock(n%' AND state = 'active' AND pid <> pg_backend_pid()};
ok(wait_until($data[0], "SELECT count(*) = 1 FROM $lasts AND wait_event = 'advisory'"), 'a long statement runs');
run_example($_, %server) for @steps[ $give_up .. $wait - 1 ];
fails_with($data[0], 'SELECT snowflake_nextval(1)', '42501', qr/shard 1 is not one/, 'the old server gave the shard up');
sleep(2);
is(run_on($data[0], $steps[$wait], 'wait'), "?column?\nf\n", 'the long statement is waited for');
$holder->quit;
run_example($steps[$wait], %server);
is(count_of($data[0], $lasts), 0, 'until it has ended');
ok(finish_session($long), 'it was not refused') or diag($long->{err});
fails_with($data[1], 'SELECT snowflake_nextval(1)', '42501', qr/shard 1 is not one/, 'the new server does not have it yet');
run_example($_, %server) for @steps[ $wait + 1 .. $#steps ];

my $before = $data[0]->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
my $later = "SELECT count(*) > 1000 FROM photos_1 WHERE snowflake_timestamp(id) > '$before'";
ok(wait_until($data[1], "$later AND snowflake_shard(id) = 1"), 'the new server mints on the shard');
ok(wait_until($data[1], "$later AND snowflake_shard(id) = 7"), 'the router writes to it');

my @inserted = stop_minters(@inserters);
ids_are_distinct('moved rows', @inserted);
ids_are_distinct('moved shard', @inserted, stop_minters(@minters), $long_ids);
is($router->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT id) FROM photos'), 0, 'no id twice in the table');
$router->safe_psql('postgres', 'CREATE TABLE got (id bigint)');
$router->safe_psql('postgres', "COPY got FROM PROGRAM 'sed -n /^[0-9][0-9]*\$/p $_'") for @inserted;
cmp_ok(count_of($router, 'got'), '>', 1000, 'rows were inserted meanwhile');
is(count_of($router, 'got WHERE id NOT IN (SELECT id FROM photos)'), 0, 'and none of them is lost');

# --- The same without the check, for shard 0: nobody waits for the clock

my @hasty = map { start_minters($_, 2, '', statement =>
		  "${try}SELECT snowflake_nextval(0) FROM generate_series(1, 200); SELECT pg_sleep(0.001);",
		errors => '/dev/null') } @data[ 0, 1 ];

all_mint(1, @hasty[ 0, 1 ]);
sleep(3);    # as much as the other clock is behind
set_shards($data[0], '12');
set_shards($data[1], '0-3');
# One right after the other: that takes less than the clock is behind
kill('HUP', map { $_->{_pid} } @data[ 0, 1 ]);
all_mint(1, @hasty[ 2, 3 ]);
sleep(3);

my ($hasty_ids, $twice) = duplicates(stop_minters(@hasty));
cmp_ok($twice, '>', 0, 'without the check of the clocks, ids come twice');
note("without the check: $hasty_ids ids, $twice of them twice");

sub set_shards
{
	my ($node, $shards) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET snowflake.shards = '$shards'");
	return;
}

done_testing();
