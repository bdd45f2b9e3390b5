# Settings that are wrong, at start, at reload and by ALTER DATABASE; a server
# that does not preload the library; a standby; and bytes that are no id.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('settings', init => { allows_streaming => 1 },
	conf => "snowflake.shards = '0-3'");

# --- at start: never with a value that was not understood
sub refuses_to_start
{
	my ($line, $pattern, $name) = @_;
	my $conf = $node->data_dir . '/postgresql.conf';
	my $good = slurp_file($conf);
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf', $line);
	$node->stop;
	ok(!$node->start(fail_ok => 1), "$name: the server does not start");
	like(slurp_file($node->logfile, $offset), $pattern, "$name: and says why");
	unlink $conf;
	append_to_file($conf, $good);
	$node->start;
	return;
}

my $invalid = 'invalid value for parameter';
refuses_to_start("snowflake.layout = 'twiter'",
	qr/FATAL:  $invalid "snowflake\.layout": "twiter".*DETAIL:  Invalid layout: there is no preset "twiter"\..*HINT:  Perhaps you meant "twitter"\. A layout is a preset \(twitter, discord/s,
	'unknown layout');
refuses_to_start("snowflake.layout = 'epoch=2020-01-01 unit=1ms fields=timestamp:41,shard:12,sequence:12'",
	qr/FATAL:  $invalid.*DETAIL:  Invalid layout: fields sum to 65 bits, and an id has 64\./s,
	'layout of 65 bits');
refuses_to_start("snowflake.layout = 'epoch=2020-01-01 unit=1ms fields=timestamp:41,shard:17,sequence:5'",
	qr/FATAL:  $invalid.*DETAIL:  The layout has 17 shard bits, and a server mints at most 16 of them\./s,
	'layout of too many shards');
refuses_to_start("snowflake.shards = '5x'",
	qr/FATAL:  $invalid "snowflake\.shards": "5x".*DETAIL:  "5x" is not a shard or a range of shards\./s,
	'shards that are no list');
refuses_to_start("snowflake.shards = '1024'",
	qr/FATAL:  $invalid.*DETAIL:  Shard 1024 is out of range: the layout has shards 0 to 1023\./s,
	'a shard that the layout does not have');
refuses_to_start("snowflake.clock_tolerance = 'long'",
	qr/FATAL:  $invalid "snowflake\.clock_tolerance": "long"/,
	'a tolerance that is no time');

# --- at reload: the old value stays, and the log says why
my $offset = -s $node->logfile;
$node->append_conf('postgresql.conf', "snowflake.shards = '3-1'");
reload($node);
$node->wait_for_log(qr/$invalid "snowflake\.shards": "3-1".*?The range 3-1 runs backwards\./s, $offset);
is($node->safe_psql('postgres', 'SHOW snowflake.shards'), '0-3', 'a bad reload changes nothing');
$offset = -s $node->logfile;
$node->append_conf('postgresql.conf', "snowflake.layout = 'discord'\nsnowflake.shards = '2'");
reload($node);
$node->wait_for_log(qr/parameter "snowflake\.layout" cannot be changed without restarting the server/, $offset);
ok(wait_until($node, "SELECT current_setting('snowflake.shards') = '2'"), 'a good reload of shards takes effect');
is($node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval())'), 2, 'and is what is minted on');
fails_with($node, 'SELECT snowflake_nextval(0)', '42501',
	qr/shard 0 is not one of this server's.*DETAIL:  "snowflake\.shards" is "2"\..*HINT:  Call snowflake_nextval\(\)/s,
	'a shard not owned');
$node->append_conf('postgresql.conf', "snowflake.layout = 'twitter'\nsnowflake.shards = '0-3'");
reload($node);
wait_until($node, "SELECT current_setting('snowflake.shards') = '0-3'");

# --- by ALTER DATABASE and ALTER ROLE
fails_with($node, "ALTER DATABASE postgres SET snowflake.shards = '0,,1'", '22023',
	qr/$invalid "snowflake\.shards".*DETAIL:  "" is not a shard or a range/s,
	'ALTER DATABASE checks the list');
fails_with($node, "ALTER DATABASE postgres SET snowflake.layout = 'discord'", '55P02',
	qr/cannot be changed without restarting the server/, 'the layout is no database\'s own');
fails_with($node, "ALTER DATABASE postgres SET snowflake.clock_tolerance = '-1'", '22023',
	qr/-1 ms is outside the valid range/, 'ALTER DATABASE checks the tolerance');
fails_with($node, "SET snowflake.no_such = 1", '42602', qr/invalid configuration parameter name "snowflake\.no_such".*"snowflake" is a reserved prefix/s,
	'a setting that does not exist');
$node->safe_psql('postgres', <<'SQL');
CREATE DATABASE one;
CREATE ROLE app LOGIN;
ALTER DATABASE one SET snowflake.shards = '1';
ALTER ROLE app IN DATABASE postgres SET snowflake.shards = '3';
SQL
$node->safe_psql('one', 'CREATE EXTENSION snowflake');
is($node->safe_psql('one', 'SELECT snowflake_shard(snowflake_nextval())'), 1, 'a database may have shards of its own');
is( $node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval())', extra_params => [ '-U', 'app' ]),
	3, 'and so may a role');
fails_with($node, "SET ROLE app;\nSET snowflake.shards = '0-7'", '42501',
	qr/permission denied to set parameter "snowflake\.shards"/, 'but a role cannot set its own');

# --- a standby mints nothing and reads ids
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
fails_with($standby, 'SELECT snowflake_nextval(1)', '25006',
	qr/cannot mint ids during recovery.*HINT:  Mint on the primary server/s, 'a standby does not mint');
fails_with($standby, 'SELECT snowflake_nextval()', '25006', qr/cannot mint ids during recovery/, 'in neither form');
is($standby->safe_psql('postgres', 'SELECT snowflake_shard(20480)'), 5, 'but reads ids');
$standby->stop;

# --- a server without the library preloaded
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nmax_connections = 400");
$node->restart;
my $memory = $node->safe_psql('postgres', 'SELECT sum(allocated_size) FROM pg_shmem_allocations');
is( $node->safe_psql('postgres', "SELECT '5'::snowflake, 7::snowflake + 1, '{1,2}'::snowflake[]"),
	'5|8|{1,2}', 'not preloaded: the type works');
is( $node->safe_psql('postgres', "SET timezone = 'UTC'; SELECT * FROM snowflake_decode('175928847299117063', 'discord')"),
	'2016-04-30 11:18:25.796+00|32|7', 'not preloaded: decoding in a given layout works');
is( $node->safe_psql('postgres', 'SELECT count(*), bool_or(in_use) FROM snowflake_layouts'),
	'10|f', 'not preloaded: the presets are shown');
for my $call (
	'snowflake_nextval(1)', 'snowflake_nextval()', 'snowflake_lastval()',
	'snowflake_decode(1)', 'snowflake_fields(1)', 'snowflake_timestamp(1)',
	'snowflake_shard(1)', 'snowflake_sequence(1)', 'snowflake_encode(now(), 1, 1)',
	'snowflake_floor(now())', 'snowflake_ceil(now())', '1::snowflake::timestamptz', q(snowflake_probe('worker')), q(snowflake_probe('')),
	'snowflake_accept_clone()', 'snowflake_accept_layout()', 'snowflake_stat_reset()', 'snowflake_stat_shards()', 'snowflake_stat_backends()',
	'snowflake_horizon()', 'snowflake_is_before_horizon(1)')
{
	fails_with($node, "SELECT $call", '55000',
		qr/snowflake must be loaded via "shared_preload_libraries".*HINT:  Add "snowflake" to "shared_preload_libraries" in postgresql\.conf and restart/s,
		"not preloaded: $call says what to set");
}

# --- preloaded after a library that wants to be called at the same moments
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_stat_statements, snowflake'");
$node->restart;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');
is($node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval(1))'), 1, 'after another library: ids are minted');
is( $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_statements WHERE query ~ 'CREATE EXTENSION'}),
	1, 'after another library: that one works as well');
# and before it; with so many sessions and shards that no room is left over for what none asked for
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake, pg_stat_statements'
snowflake.layout = 'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:16,sequence:6'
max_connections = 2000
max_prepared_transactions = 5000
CONF
$node->restart;
$node->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_statements WHERE query ~ 'accept_layout'}), 1, 'before another library: that one works as well');
is( $node->safe_psql('postgres', "SET snowflake.shards = '65535'; SELECT snowflake_shard(snowflake_nextval()), snowflake_shard(snowflake_nextval(65535))"),
	'65535|65535', 'with as many shards as there can be, the last one is minted on');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\nmax_connections = 400\nmax_prepared_transactions = 0");
$node->restart;
# the server rounds to 8 kB
is($node->safe_psql('postgres', "SELECT sum(allocated_size) - $memory > sum(allocated_size) FILTER (WHERE name LIKE 'snowflake%') - 8192 FROM pg_shmem_allocations"),
	't', 'the library asks for as much memory as it takes');

# --- layouts of the server's own
restart_with_layout($node, 'epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,shard:10,sequence:12');
is( $node->safe_psql('postgres', 'SELECT name, specification FROM snowflake_layouts WHERE in_use'),
	'custom|epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,shard:10,sequence:12',
	'a specification as the layout of the server');
is( $node->safe_psql('postgres', "SET timezone = 'UTC'; SELECT snowflake_timestamp(0), snowflake_floor('2024-01-01Z')"),
	'2024-01-01 00:00:00+00|0', 'is what functions without a layout mean');
is( $node->safe_psql('postgres', "SELECT snowflake_timestamp(id) BETWEEN now() - interval '1 min' AND clock_timestamp() FROM (SELECT snowflake_nextval(1) AS id) AS minted"),
	't', 'and what is minted');

# A tick of 1 us and an epoch before 2000: the last tick is the last int64.
restart_with_layout($node, 'epoch=1970-01-01 unit=1us fields=timestamp:51,shard:6,sequence:6');
for my $ids ('(VALUES (5::snowflake)) AS t (id)', "(SELECT '5'::snowflake AS id OFFSET 0) AS t")    # folded, and as a range of ids
{
	is($node->safe_psql('postgres', "SELECT id < 'infinity'::timestamptz, id >= 'infinity'::timestamptz, id > '294276-12-31 23:59:59.999999Z'::timestamptz FROM $ids"),
		't|f|f', "no id is made at the end of time, in the finest of layouts: $ids");
}

# A tick of 1 s: there are ids of the server's last second, and of later ones, which are infinite.
restart_with_layout($node, 'epoch=2024-01-01 unit=1s fields=timestamp:42,shard:8,sequence:11');
is($node->safe_psql('postgres', <<'SQL'), 't|t|f|t|f', 'the last second of all times has ids');
CREATE TEMP TABLE last_ids AS SELECT snowflake_floor('294276-12-31 23:59:59Z') AS id;
SELECT id = '294276-12-31 23:59:59Z'::timestamptz, id >= '294276-12-31 23:59:59Z'::timestamptz, id > '294276-12-31 23:59:59Z'::timestamptz,
       id <= '294276-12-31 23:59:59.5Z'::timestamptz, id = 'infinity'::timestamptz
  FROM last_ids
SQL

# --- bytes that are no id
$node->safe_psql('postgres', 'CREATE TABLE t (id snowflake)');
my $header = "PGCOPY\n\377\r\n\0" . pack('NN', 0, 0);
for my $case ([ 8, pack('q>', -2) ], [ 4, pack('N', 1) ], [ 9, "\0" x 9 ], [ 0, '' ])
{
	my ($length, $bytes) = @$case;
	my $file = $node->basedir . "/binary_$length";

	append_to_file($file, $header . pack('nN', 1, $length) . $bytes . pack('n', 0xffff));
	if ($length == 8)
	{
		$node->safe_psql('postgres', "COPY t FROM '$file' (FORMAT binary)");
		is($node->safe_psql('postgres', 'SELECT id FROM t'), -2, 'binary: 8 bytes are an id');
		$node->safe_psql('postgres', "COPY t TO '$file.out' (FORMAT binary)");
		ok(slurp_file("$file.out") eq slurp_file($file), 'binary: and the same 8 bytes come out');
	}
	else
	{
		fails_with($node, "COPY t FROM '$file' (FORMAT binary)",
			$length < 8 ? '08P01' : '22P03',
			$length < 8 ? qr/insufficient data left in message/ : qr/incorrect binary data format/,
			"binary: $length bytes are not");
	}
}

done_testing();
