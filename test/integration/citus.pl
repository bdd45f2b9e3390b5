# Citus: a coordinator and two workers, set up as doc/tools.md says, and each of
# its statements about who mints, where a row goes and what is colocated.
#
# Citus is not in Debian.  Where it is not installed for this PostgreSQL, only
# what it relies on is tested, and the rest is skipped.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

my $page = slurp_file("$FindBin::RealBin/../../doc/tools.md");
$page =~ s/^## Change streams.*//ms;
my ($conf) = $page =~ /^```conf\n(.*?)^```$/ms;
my ($tables, $same_hash) = $page =~ /^```sql\n(.*?)^```$/msg;

# --- What Citus asks PostgreSQL for

my $plain = new_server('plain', conf => "snowflake.shards = '0'");

is($plain->safe_psql('postgres', $same_hash), 't', 'the hash of a snowflake is that of its number');
$plain->safe_psql('postgres', 'CREATE TABLE hashed (id snowflake)');
$plain->safe_psql('postgres', 'CREATE INDEX hashed_index ON hashed USING hash (id)');
is( $plain->safe_psql('postgres', <<'SQL'), 'int8_ops|bigint|hashint8', 'by the default operator class, which is that of bigint');
SELECT opcname, opcintype::regtype, amproc
FROM pg_index JOIN pg_opclass AS class ON class.oid = indclass[0]
JOIN pg_amproc ON amprocfamily = opcfamily AND amproclefttype = opcintype AND amprocrighttype = opcintype AND amprocnum = 1
WHERE indexrelid = 'hashed_index'::regclass
SQL
is( $plain->safe_psql('postgres', <<'SQL'), 'a', 'a bigint is assignable to a snowflake');
SELECT castcontext FROM pg_cast WHERE castsource = 'bigint'::regtype AND casttarget = 'snowflake'::regtype
SQL
$plain->stop;

# --- Citus itself

SKIP:
{
	my $library = `pg_config --pkglibdir`;
	chomp($library);
	skip 'Citus is not installed', 1 unless -e "$library/citus.so";

	# nodes talk to each other by TCP, where other users of this machine could
	# join in: so there is a password
	my $password = unpack('H*', join('', map { chr(int(rand(256))) } 1 .. 16));
	my $user = getpwuid($<);
	my $passfile = PostgreSQL::Test::Utils::tempdir() . '/pgpass';

	append_to_file($passfile, "*:*:*:*:$password\n");
	chmod(0600, $passfile);
	local $ENV{PGPASSFILE} = $passfile;

	my $first_shard = 0;
	my @nodes = map {
		my $node = PostgreSQL::Test::Cluster->new($_);
		my $shards = $first_shard . '-' . ($first_shard + 7);

		$first_shard += 8;
		$node->init(allows_streaming => 1);
		unlink($node->data_dir . '/pg_hba.conf');
		$node->append_conf('pg_hba.conf', "local all,replication all trust\nhost all,replication all 127.0.0.1/32 scram-sha-256\n");
		$node->append_conf('postgresql.conf', $conf =~ s/'8-15'/'$shards'/r);
		$node->append_conf('postgresql.conf', <<'CONF');
listen_addresses = '127.0.0.1'
citus.node_conninfo = 'sslmode=prefer'
citus.shard_count = 8
max_connections = 300
max_prepared_transactions = 20
wal_level = logical
CONF
		$node->start;
		$node->safe_psql('postgres', "ALTER ROLE \"$user\" PASSWORD '$password'");
		$node->safe_psql('postgres', 'CREATE EXTENSION citus');
		$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
		$node
	} 'coordinator', 'worker1', 'worker2';
	my ($coordinator, @workers) = @nodes;

	$coordinator->safe_psql('postgres', "SELECT citus_set_coordinator_host('127.0.0.1', " . $coordinator->port . ')');
	$coordinator->safe_psql('postgres', "SELECT citus_add_node('127.0.0.1', " . $_->port . ')') for @workers;
	$coordinator->safe_psql('postgres', $tables);

	# each node mints for the clients that are connected to it
	for my $n (0 .. $#nodes)
	{
		my $name = $nodes[$n]->name;
		my $own = "snowflake_shard(id) BETWEEN 8 * $n AND 8 * $n + 7";
		my %insert = (
			'of one row' => "INSERT INTO photos (url) VALUES ('one $n')",
			'of rows' => "INSERT INTO photos (url) VALUES ('rows $n'), ('rows $n'), ('rows $n')",
			'by COPY' => "COPY photos (url) FROM stdin;\ncopy $n\ncopy $n\n\\.\n",
			'into a reference table' => "INSERT INTO licences (name) VALUES ('$n')");

		$nodes[$n]->safe_psql('postgres', $_) for values %insert;
		is(count_of($coordinator, "photos WHERE url LIKE '% $n' AND $own"), 6, "through $name: its own shards");
		is(count_of($coordinator, "licences WHERE name = '$n' AND $own"), 1, "through $name: also for a reference table");
	}
	is($coordinator->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM photos'), 18, 'all ids differ');
	my @copies = map { $_->safe_psql('postgres', q{SELECT string_agg(id || name, ',' ORDER BY id) FROM licences}) } @nodes;
	is_deeply([ @copies[ 1, 2 ] ], [ @copies[ 0, 0 ] ], 'reference tables are the same on all nodes');

	# wherever this is evaluated, that node has shards
	$coordinator->safe_psql('postgres', "INSERT INTO photos (url) SELECT 'again ' || url FROM photos");
	is($coordinator->safe_psql('postgres', 'SELECT count(*) = 36 AND count(DISTINCT id) = 36 FROM photos'), 't',
		'INSERT ... SELECT: all ids differ');
	is( $coordinator->safe_psql('postgres', 'SELECT count(DISTINCT made) FROM (SELECT snowflake_nextval() AS made FROM photos) AS made'),
		36, 'minted by a query: all ids differ');
	fails_with($coordinator, 'UPDATE licences SET id = snowflake_nextval()', '0A000', qr/VOLATILE/, 'not by UPDATE');

	# many at once, through all nodes
	my @files = stop_when_all_minted(map { start_minters($_, 2, '',
			statement => "INSERT INTO photos (url) SELECT 'many' FROM generate_series(1, 20) RETURNING id;") } @nodes);
	cmp_ok(ids_are_distinct('through all nodes', @files), '>', 100, 'clients minted');

	# one id, one node
	my $id = $coordinator->safe_psql('postgres', 'SELECT max(id) FROM photos');
	for my $condition ("id = $id", "id = '$id'", "id = ANY ('{$id}'::bigint[])", "id = $id\::snowflake")
	{
		like($coordinator->safe_psql('postgres', "EXPLAIN SELECT url FROM photos WHERE $condition"),
			qr/Task Count: 1$/m, 'one node is asked: ' . $condition =~ s/$id/.../r);
	}
	like($coordinator->safe_psql('postgres', "EXPLAIN SELECT url FROM photos WHERE id >= now() - interval '1 day'"),
		qr/Task Count: 8$/m, 'all nodes are asked for a time');
	is(count_of($coordinator, "photos WHERE id >= now() - interval '1 day'"), count_of($coordinator, 'photos'),
		'and find what is of it');

	# colocation is by type
	$coordinator->safe_psql('postgres', "INSERT INTO likes (photo, who) SELECT id, 'me' FROM photos");
	is(count_of($coordinator, 'photos JOIN likes ON photo = photos.id'), count_of($coordinator, 'photos'),
		'a join of colocated tables');
	$coordinator->safe_psql('postgres', 'CREATE TABLE numbers (photo bigint)');
	fails_with($coordinator, "SELECT create_distributed_table('numbers', 'photo', colocate_with => 'photos')", 'XX000',
		qr/Distribution column types don't match/, 'a bigint column is not colocated with a snowflake one');

	# --- With a registry: what Citus copies to all nodes, and a clone of a node, mint
	# --- on no other node's shards

	my $registry = new_registry('registry');
	my $setting = registry_setting($registry);

	for my $node (@nodes)
	{
		$node->append_conf('postgresql.conf', "snowflake.registry = '$setting'\nsnowflake.shards = 'auto:4'\nsnowflake.lease = '30s'\n");
		reload($node);
		ok(wait_until($node, q(SELECT state = 'held' AND shards = 4 FROM snowflake_lease_status())), $node->name . ' leases shards');
	}

	# a role's setting goes to all nodes, and lets only one of them mint
	my $of_coordinator = held_shards($coordinator);
	$coordinator->safe_psql('postgres', <<"SQL");
CREATE ROLE app LOGIN PASSWORD '$password';
GRANT INSERT, SELECT ON photos TO app;
ALTER ROLE app SET snowflake.shards = '$of_coordinator';
SQL
	is_deeply([ map { $_->safe_psql('postgres', q(SELECT count(*) FROM pg_db_role_setting WHERE setconfig::text ~ 'snowflake.shards')) } @nodes ],
		[ (1) x @nodes ], 'ALTER ROLE is copied to all nodes');
	for my $node (@nodes)
	{
		my ($status, $out, $err) = $node->psql('postgres', "INSERT INTO photos (url) VALUES ('by app') RETURNING snowflake_shard(id)",
			extra_params => [ '-U', 'app' ]);

		if ($node == $coordinator) { ok((grep { $_ eq $out } split(/,/, $of_coordinator)), 'through the node that has the shards: it mints') }
		else { like($err, qr/shard \d+ is not leased to this server/, 'through ' . $node->name . ': refused') }
	}
	$coordinator->safe_psql('postgres', 'ALTER ROLE app RESET snowflake.shards');
	fails_with($coordinator, <<"SQL", '42501', qr/shard \d+ is not leased to this server.*while executing command on 127\.0\.0\.1/s, 'SET LOCAL that is sent to all nodes');
BEGIN;
SET LOCAL citus.propagate_set_commands = 'local';
SET LOCAL snowflake.shards = '$of_coordinator';
INSERT INTO photos (url) SELECT 'set local' FROM photos;
COMMIT;
SQL

	# a clone of a node that is promoted beside it
	if ($coordinator->safe_psql('postgres', q(SELECT count(*) FROM pg_proc WHERE proname = 'citus_promote_clone_and_rebalance')) > 0)
	{
		my $clone = PostgreSQL::Test::Cluster->new('clone');

		$workers[0]->backup('clone');
		$clone->init_from_backup($workers[0], 'clone', has_streaming => 1);
		# Citus looks for its address among the standbys of the node
		$clone->append_conf('postgresql.conf', "primary_conninfo = 'host=127.0.0.1 port=" . $workers[0]->port
			  . " user=$user passfile=''$passfile'' application_name=clone'\n");
		$clone->start;
		$workers[0]->wait_for_catchup($clone->name);
		my @minters = start_minters($workers[0], 2, 'snowflake_nextval()');
		my $nodeid = $coordinator->safe_psql('postgres', sprintf(q(SELECT citus_add_clone_node('127.0.0.1', %d, '127.0.0.1', %d)),
				$clone->port, $workers[0]->port));
		$coordinator->safe_psql('postgres', "SELECT citus_promote_clone_and_rebalance($nodeid)");
		ok(wait_until($clone, q(SELECT state = 'held' FROM snowflake_lease_status())), 'a clone that is promoted leases shards');
		isnt(held_shards($clone), held_shards($workers[0]), 'others than its original');
		push @minters, start_minters($clone, 2, 'snowflake_nextval()');
		cmp_ok(ids_are_distinct('a node and its clone', stop_when_all_minted(@minters)), '>', 100, 'both mint');
	}
	else
	{
		note('this Citus cannot promote a clone');
	}
}

# Let them mint for a moment, and until each has minted.
sub stop_when_all_minted
{
	my (@minters) = @_;

	sleep(2);
	for my $minter (@minters)
	{
		wait_for(sub { -s $minter->{file} });
	}
	return stop_minters(@minters);
}

done_testing();
