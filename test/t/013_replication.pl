# Ids between servers: logical replication in text and in binary, with the
# column snowflake on one side and bigint on the other, and a table whose
# partitions by shard are on two other servers, by way of postgres_fdw.
#
# Majors: all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my %server;
my $shard = 10;

for my $name ('publisher', 'subscriber')
{
	$server{$name} = new_server($name, init => { allows_streaming => 'logical' },
		conf => 'snowflake.shards = ' . $shard++);
}
my ($publisher, $subscriber) = @server{ 'publisher', 'subscriber' };

# --- Logical replication

# The types of each pair of tables, on the publisher and on the subscriber.
# Types of extensions get their numbers as they come: make these differ.
$subscriber->safe_psql('postgres', 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake');
isnt($publisher->safe_psql('postgres', q{SELECT 'snowflake'::regtype::oid}),
	$subscriber->safe_psql('postgres', q{SELECT 'snowflake'::regtype::oid}),
	'the type has another number on the other server');

my @pairs = (
	[ 'to_bigint', 'snowflake', 'bigint' ],
	[ 'to_snowflake', 'bigint', 'snowflake' ],
	[ 'to_same', 'snowflake', 'snowflake' ]);

for my $mode ('text', 'binary')
{
	my $binary = $mode eq 'binary' ? 'true' : 'false';

	for my $pair (@pairs)
	{
		my ($name, $from, $to) = @$pair;

		for ([ $publisher, $from, "DEFAULT snowflake_nextval()" ], [ $subscriber, $to, '' ])
		{
			my ($node, $type, $default) = @$_;
			$node->safe_psql('postgres', <<"SQL");
CREATE TYPE ${name}_link AS (id $type, note text);
CREATE TABLE $name (id $type PRIMARY KEY $default, parent $type, list $type\[], link ${name}_link, note text);
CREATE TABLE ${name}_full (id $type, note text);
ALTER TABLE ${name}_full REPLICA IDENTITY FULL;
SQL
		}
		$publisher->safe_psql('postgres', <<"SQL");
INSERT INTO $name VALUES (5, NULL, '{1,NULL,-9223372036854775808}', ROW(7, 'x'), 'five'), (-9223372036854775808, 5, '{}', NULL, 'least'), (9223372036854775807, 5, NULL, NULL, 'greatest');
INSERT INTO $name (note) SELECT 'early' FROM generate_series(1, 1000);
INSERT INTO ${name}_full SELECT id, note FROM $name;
SQL
	}
	my $tables = join(', ', map { ($_->[0], "$_->[0]_full") } @pairs);

	$publisher->safe_psql('postgres', "CREATE PUBLICATION ids_$mode FOR TABLE $tables");
	$subscriber->safe_psql('postgres', sprintf(
			"CREATE SUBSCRIPTION ids_$mode CONNECTION '%s' PUBLICATION ids_$mode WITH (binary = $binary)",
			$publisher->connstr . ' dbname=postgres'));
	$subscriber->wait_for_subscription_sync($publisher, "ids_$mode");

	for my $pair (@pairs)
	{
		my ($name) = @$pair;
		same_rows($name, "$mode: $name: the rows that were there");
		same_rows("${name}_full", "$mode: $name without a key: the rows that were there");
	}

	for my $pair (@pairs)
	{
		my ($name) = @$pair;
		$publisher->safe_psql('postgres', <<"SQL");
INSERT INTO $name (parent, list, link, note) SELECT id, ARRAY[id, '6'], ROW(id, 'l')::${name}_link, 'late' FROM $name WHERE note = 'early';
UPDATE $name SET id = 6, parent = id WHERE id = 5;
DELETE FROM $name WHERE note = 'least';
INSERT INTO ${name}_full SELECT id, note FROM $name WHERE note = 'late' ORDER BY id LIMIT 5;
UPDATE ${name}_full SET note = 'changed' WHERE id = 5;
DELETE FROM ${name}_full WHERE note = 'greatest';
SQL
	}
	$publisher->wait_for_catchup("ids_$mode");

	for my $pair (@pairs)
	{
		my ($name, $from, $to) = @$pair;
		same_rows($name, "$mode: $name: then inserts, updates and deletes");
		same_rows("${name}_full", "$mode: $name without a key: the same");
		is(count_of($subscriber, "$name WHERE note = 'late' AND pg_typeof(id) = '$to'::regtype"),
			1000, "$mode: $name: as $to");
	}
	$subscriber->safe_psql('postgres', "DROP SUBSCRIPTION ids_$mode; DROP TABLE $tables");
	$publisher->safe_psql('postgres', "DROP PUBLICATION ids_$mode; DROP TABLE $tables");
	$_->safe_psql('postgres', join(';', map { "DROP TYPE $_->[0]_link" } @pairs)) for ($publisher, $subscriber);
}

# A publication takes no row filter on a type of an extension.
$publisher->safe_psql('postgres', 'CREATE TABLE filtered (id snowflake PRIMARY KEY, plain bigint)');
fails_with($publisher, 'CREATE PUBLICATION filtered FOR TABLE filtered WHERE (id > 5)', '0A000',
	qr/invalid publication WHERE expression.*User-defined types are not allowed/s,
	'a row filter on a snowflake column is refused');
$publisher->safe_psql('postgres', 'CREATE PUBLICATION filtered FOR TABLE filtered WHERE (plain > 5)');

sub same_rows
{
	my ($table, $name) = @_;
	my $digest = "SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t.id, t.note)) FROM $table AS t";

	is($subscriber->safe_psql('postgres', $digest), $publisher->safe_psql('postgres', $digest), $name);
	return;
}

# --- Partitions by shard on two other servers

my $router = new_server('router', conf => "snowflake.shards = '2-9'");
my @owners = map { new_server("owner$_", conf => "snowflake.shards = '$_'") } 0, 1;

$router->safe_psql('postgres', <<'SQL');
CREATE EXTENSION postgres_fdw;
CREATE TABLE photos (id snowflake NOT NULL DEFAULT snowflake_nextval(), url text)
	PARTITION BY HASH (id snowflake_shard_ops);
SQL
for my $n (0, 1)
{
	my $owner = $owners[$n];

	$owner->safe_psql('postgres',
		"CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text, CHECK (snowflake_shard(id) % 2 = $n))");
	$router->safe_psql('postgres', sprintf(<<'SQL', $n, $owner->host, $owner->port));
CREATE SERVER owner%1$d FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '%2$s', port '%3$d', dbname 'postgres', extensions 'snowflake');
CREATE USER MAPPING FOR CURRENT_USER SERVER owner%1$d;
CREATE FOREIGN TABLE photos_%1$d PARTITION OF photos FOR VALUES WITH (MODULUS 2, REMAINDER %1$d)
	SERVER owner%1$d OPTIONS (table_name 'photos');
SQL
}

$router->safe_psql('postgres', q{INSERT INTO photos SELECT snowflake_nextval(2 + n % 8), 'router' FROM generate_series(1, 800) AS n});

# a session mints on one shard, here by the default
$router->safe_psql('postgres', q{COPY photos (url) FROM PROGRAM 'seq 80'});
$owners[$_]->safe_psql('postgres', "INSERT INTO photos (url) SELECT 'owner $_' FROM generate_series(1, 100)") for 0, 1;

is(count_of($owners[$_], q{photos WHERE url = 'router'}), 400, "owner $_ has its half of the rows") for 0, 1;
is(count_of($owners[$_], "photos WHERE snowflake_shard(id) % 2 <> $_"), 0, "owner $_ has no other's") for 0, 1;
is(count_of($router, 'photos'), 1080, 'the router sees them all');
is(count_of($router, 'photos WHERE snowflake_shard(id) % 2 <> right(tableoid::regclass::text, 1)::int'),
	0, 'each in its place');

for my $n (0, 1)
{
	my $id = $router->safe_psql('postgres', "SELECT min(id) FROM photos WHERE url = 'owner $n'");

	for my $x ($id, "'$id'", "${id}::bigint", "'$id'::snowflake")
	{
		my $kind = $x =~ s/$id/X/r;

		sent_to($n, "SELECT * FROM photos WHERE id = $x", '', "id = $kind");
		is($router->safe_psql('postgres', "SELECT url FROM photos WHERE id = $x"), "owner $n", "id = $kind: the row");
	}
	for my $type ('bigint', 'snowflake')
	{
		for my $plan ('custom', 'generic')
		{
			sent_to($n, "EXECUTE by_id('$id')",
				"SET plan_cache_mode = force_${plan}_plan; PREPARE by_id($type) AS SELECT * FROM photos WHERE id = \$1;",
				"id = parameter of type $type, $plan plan", $plan eq 'generic');
		}
	}
	$router->safe_psql('postgres', "UPDATE photos SET url = 'seen' WHERE id = $id");
	is($owners[$n]->safe_psql('postgres', "SELECT url FROM photos WHERE id = $id"), 'seen', "an update reaches owner $n");
	$router->safe_psql('postgres', "DELETE FROM photos WHERE id = $id");
	is(count_of($owners[$n], "photos WHERE id = $id"), 0, 'and so does a delete');
}

# a range of times goes to both, and is selected there
my $plan = $router->safe_psql('postgres',
	"EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM photos WHERE id >= timestamptz '2026-01-01Z'");
is(() = $plan =~ /Remote SQL: SELECT id, url FROM public.photos WHERE \(\(id >= /g, 2, 'times are sent to both owners')
  or diag($plan);

# What has to be known.  Without the option "extensions", a server is asked for
# all its rows; and a table with foreign partitions has no unique index.
$router->safe_psql('postgres', 'ALTER SERVER owner0 OPTIONS (DROP extensions)');
like($router->safe_psql('postgres', 'EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM photos WHERE id = 5'),
	qr/Filter: .*\n\s*Remote SQL: SELECT id, url FROM public.photos$/, 'without the option, the condition stays here');
fails_with($router, 'ALTER TABLE photos ADD PRIMARY KEY (id)', '42809',
	qr/cannot create unique index on partitioned table "photos".*contains partitions that are foreign tables/s,
	'foreign partitions allow no primary key of the whole');

# Is the statement sent to this owner alone, with its condition?  A generic plan
# has both at hand, and runs one.
sub sent_to
{
	my ($n, $statement, $before, $name, $generic) = @_;
	my $plan = $router->safe_psql('postgres', "$before EXPLAIN (VERBOSE, ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $statement");
	my @scans = $plan =~ /Foreign Scan on public\.photos_(\d)/g;

	ok("@scans" eq $n && $plan =~ /Remote SQL: SELECT id, url FROM public\.photos WHERE \(\(id = .*\)\)$/m
		  && (!$generic || $plan =~ /Subplans Removed: 1/), "$name: one Foreign Scan, of owner $n")
	  or diag($plan);
	return;
}

done_testing();
