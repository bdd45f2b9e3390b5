# Tools for PostgreSQL, with a column of ids of each type: what doc/tools.md says of
# each, a row of its table and a test.  The versions are those of the page.
#
# Packages: postgresql-17-partman postgresql-17-repack postgresql-17-cron
# Packages: postgresql-17-pgaudit postgresql-17-hypopg pgpool2 gdal-bin
# Packages: odbc-postgresql unixodbc pgloader

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $page = page_text('doc/tools.md');
my ($rows) = $page =~ /^## Tools\n(.*?)^## /ms;
my %version_of = $rows =~ /^\| (\w+) \| (\d[\d.]*) \|/mg;
my %tested;

my $id = '175928847299117063';    # more than a double holds
my $user = getpwuid($<);
my $node = stack_server('tools', conf => <<'CONF');
shared_preload_libraries = 'snowflake, pg_cron, pgaudit'
cron.use_background_workers = on
wal_level = replica
max_wal_senders = 5
timezone = 'UTC'
CONF
my ($host, $port) = ($node->host, $node->port);
my $directory = PostgreSQL::Test::Utils::tempdir();

# Two tables with the same row, one of each type.
sub tables
{
	$node->safe_psql('postgres', <<"SQL");
DROP TABLE IF EXISTS s, b;
CREATE TABLE s (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text);
CREATE TABLE b (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), url text);
INSERT INTO s VALUES ($id, 'a');
INSERT INTO b VALUES ($id, 'a');
SQL
	return;
}

# The test of a tool, for whose version the package answers.
sub tool
{
	my ($name, $package, $test) = @_;
	my $installed = `dpkg-query -W -f '\${Version}' $package 2>/dev/null`;

	$tested{$name} = 1;
	return missing($name, $package) if !$installed;
	like($installed, qr/^(?:\d+:)?\Q$version_of{$name}\E(?!\d)/, "$name: the version that the page names");
	tables();
	return $test->();
}

# What a command prints; its errors are shown if it fails.
sub output_of
{
	my ($name, @command) = @_;
	my ($out, $err) = ('', '');
	my $good = IPC::Run::run(\@command, '<', '/dev/null', '>', \$out, '2>', \$err);

	ok($good, $name) || diag($out, $err);
	return $out;
}

sub file
{
	my ($name, $text) = @_;
	append_to_file("$directory/$name", $text);
	return "$directory/$name";
}

sub query { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }

# --- Extensions

tool(
	'pg_partman',
	'postgresql-17-partman',
	sub {
		query('CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman');
		query($_) for grep { /create_parent/ } map { $_->[1] } fenced_blocks(page_text('doc/partitions.md'));
		is(query('INSERT INTO clicks DEFAULT VALUES RETURNING tableoid::regclass::text ~ $$^clicks_p\d+$$'), 't', 'pg_partman: a bigint column, by a step in ids');
		is(query('SELECT count(*) FROM pg_inherits WHERE inhparent = $$clicks$$::regclass') > 5, 1, 'pg_partman: partitions ahead');
		query(q{INSERT INTO visits SELECT snowflake_to_base32(snowflake_encode(now() + n * interval '1 day', 5, 0)) FROM generate_series(-3, 3) AS n});
		query('INSERT INTO visits DEFAULT VALUES');
		my $days = q{SELECT count(DISTINCT tableoid), count(*) FILTER (WHERE tableoid::regclass::text <> to_char(snowflake_timestamp(snowflake_from_base32(id)), '"visits_p"YYYYMMDD')) FROM visits};
		is(query($days), '7|0', 'pg_partman: a column of base 32, a partition for each day');
		query(q{UPDATE partman.part_config SET retention = '2 days', retention_keep_table = false WHERE parent_table = 'public.visits'});
		query('CALL partman.run_maintenance_proc()');
		like(query($days), qr/^[56]\|0$/, 'pg_partman: of which it drops the old ones');

		query('CREATE TABLE refused (id snowflake PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE plain (id bigint PRIMARY KEY) PARTITION BY RANGE (id)');
		for my $step ("'1 day'", "'1000'")
		{
			fails_with($node, "SELECT partman.create_parent('public.refused', 'id', $step)", 'P0001', qr/only supports partitioning of data types/,
				"pg_partman: refuses a snowflake column, $step");
		}
		fails_with($node, "SELECT partman.create_parent('public.plain', 'id', '1 day')", 'P0001', qr/invalid input syntax for type bigint/,
			'pg_partman: no step in time for a bigint');
		fails_with($node, "SELECT partman.create_parent('public.plain', 'id', '1 day', p_time_encoder => 'public.text_of_time', p_time_decoder => 'public.time_of_text')",
			'P0001', qr/can only be used with text/, 'pg_partman: no function that encodes times for a bigint');
		query(q{SELECT partman.create_parent('public.plain', 'id', '1 day', p_epoch => 'milliseconds')});
		is(query('INSERT INTO plain VALUES (snowflake_nextval()) RETURNING tableoid::regclass'), 'plain_default', 'pg_partman: as milliseconds ids go to the default partition');
		query('DROP TABLE clicks, visits, refused, plain; DROP EXTENSION pg_partman; DROP SCHEMA partman CASCADE');
	});

tool(
	'pg_repack',
	'postgresql-17-repack',
	sub {
		query('CREATE EXTENSION pg_repack; INSERT INTO s (url) SELECT n::text FROM generate_series(1, 1000) AS n; INSERT INTO b (url) SELECT n::text FROM generate_series(1, 1000) AS n');
		for my $table ('s', 'b')
		{
			my $rows = "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM $table AS t";
			my $is = "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = '$table'::regclass AND attname = 'id'";
			my ($before, $type, $file) = (query($rows), query($is), query("SELECT pg_relation_filenode('$table')"));

			output_of("pg_repack: $type", 'pg_repack', '-h', $host, '-p', $port, '-d', 'postgres', '-t', $table, '-o', 'id DESC');
			isnt(query("SELECT pg_relation_filenode('$table')"), $file, "pg_repack, $type: the table is rewritten");
			is(query($rows), $before, "pg_repack, $type: with the same rows");
			is(query($is), $type, "pg_repack, $type: and type");
			is(query("SELECT bool_and(ok) FROM (SELECT id < lag(id) OVER (ORDER BY ctid) AS ok FROM $table) AS r WHERE ok IS NOT NULL"), 't', "pg_repack, $type: in order of ids");
			is(query("INSERT INTO $table (url) VALUES ('new') RETURNING snowflake_shard(id)"), 5, "pg_repack, $type: it mints on");
		}
		query('DROP EXTENSION pg_repack');
	});

tool(
	'pg_cron',
	'postgresql-17-cron',
	sub {
		query('CREATE EXTENSION pg_cron; CREATE TABLE days (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)');
		query(q{SELECT cron.schedule('partitions', '1 second', $$SELECT snowflake_make_partitions('days', date_trunc('day', now(), 'UTC'), now() + interval '2 days', '1 day')$$)});
		query(q{SELECT cron.schedule('mint', '1 second', $$INSERT INTO s (url) VALUES ('by cron')$$)});
		ok(wait_until($node, q{SELECT count(*) = 3 FROM pg_inherits WHERE inhparent = 'days'::regclass}), 'pg_cron: a job makes partitions');
		ok(wait_until($node, q{SELECT count(*) > 1 FROM s WHERE url = 'by cron'}), 'pg_cron: a job mints');
		query(q{SELECT cron.unschedule(jobid) FROM cron.job});
		ok(wait_until($node, q{SELECT count(*) = 0 FROM cron.job_run_details WHERE status IN ('starting', 'running', 'sending', 'connecting')}), 'pg_cron: the jobs have ended');
		# pg_cron ends a job that runs while it is unscheduled
		is(query(q{SELECT string_agg(DISTINCT status || ': ' || return_message, E'\n') FROM cron.job_run_details WHERE status <> 'succeeded' AND return_message !~ '^job cancell?ed$'}),
			'', 'pg_cron: all of them well');
		query('DROP TABLE days; DROP EXTENSION pg_cron');
	});

tool(
	'pgaudit',
	'postgresql-17-pgaudit',
	sub {
		my $offset = -s $node->logfile;

		query('CREATE EXTENSION pgaudit');
		query("SET pgaudit.log = 'write, function'; SET pgaudit.log_parameter = on; PREPARE one(bigint) AS UPDATE s SET url = 'b' WHERE id = \$1; EXECUTE one($id);
			INSERT INTO b (url) VALUES ('c'); SELECT snowflake_nextval()");
		my $log = slurp_file($node->logfile, $offset);
		like($log, qr/AUDIT: SESSION,\d+,\d+,WRITE,UPDATE,[^\n]*,$id$/m, 'pgaudit: a parameter, with all its digits');
		like($log, qr/AUDIT: SESSION,\d+,\d+,WRITE,INSERT,/, 'pgaudit: an INSERT with a minted default');
		like($log, qr/AUDIT: SESSION,\d+,\d+,FUNCTION,EXECUTE,FUNCTION,public\.snowflake_nextval,/, 'pgaudit: a call that mints');
		query('DROP EXTENSION pgaudit');
	});

tool(
	'hypopg',
	'postgresql-17-hypopg',
	sub {
		query('CREATE EXTENSION hypopg');
		for my $type ('snowflake', 'bigint')
		{
			my $plans = query(<<"SQL");
CREATE TABLE h AS SELECT snowflake_encode(timestamptz '2026-01-01Z' + n * interval '1 min', 5, 0)::$type AS id, n FROM generate_series(1, 10000) AS n;
ANALYZE h;
SELECT FROM hypopg_create_index('CREATE INDEX ON h (id)');
EXPLAIN SELECT * FROM h WHERE id = $id;
EXPLAIN SELECT * FROM h WHERE id::snowflake >= timestamptz '2026-01-07 22:00Z';
DROP TABLE h;
SQL
			is(scalar(() = $plans =~ /Index Scan using "?<\d+>btree_h_id/g), 2, "hypopg: an index that is not there, $type");
		}
		query('DROP EXTENSION hypopg');
	});

# --- Other databases and files

tool(
	'dblink',
	'postgresql-17',
	sub {
		my $there = "host=$host port=$port dbname=postgres";

		query('CREATE EXTENSION dblink');
		for my $type ('snowflake', 'bigint')
		{
			is(query("SELECT id FROM dblink('$there', 'SELECT id FROM s UNION ALL SELECT id FROM b') AS r(id $type)"), "$id\n$id", "dblink: both types as $type");
		}
		is(query("SELECT count(*) FROM dblink('$there', 'SELECT snowflake_nextval() FROM generate_series(1, 10)') AS r(id snowflake) WHERE id > now() - interval '1 day'"),
			10, 'dblink: mints there');
	});

tool(
	'postgres_fdw',
	'postgresql-17',
	sub {
		query(<<"SQL");
CREATE EXTENSION postgres_fdw;
CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', extensions 'snowflake');
CREATE USER MAPPING FOR CURRENT_USER SERVER there;
CREATE FOREIGN TABLE far_s (id snowflake, url text) SERVER there OPTIONS (table_name 's');
CREATE FOREIGN TABLE far_b (id bigint, url text) SERVER there OPTIONS (table_name 'b');
CREATE FOREIGN TABLE crossed (id snowflake, url text) SERVER there OPTIONS (table_name 'b');
SQL
		for my $table ('far_s', 'far_b', 'crossed')
		{
			is(query("SELECT id, url FROM $table WHERE id = $id"), "$id|a", "postgres_fdw: $table");
			like(query("EXPLAIN (VERBOSE, COSTS OFF) SELECT url FROM $table WHERE id::snowflake >= timestamptz '2026-01-01Z' AND id = $id"),
				qr/Remote SQL: .* WHERE .*20065\d+.* AND .*$id/, "postgres_fdw: $table: conditions go there");
			unlike(query("EXPLAIN (VERBOSE, COSTS OFF) SELECT url FROM $table WHERE id::snowflake >= now() - interval '1 day'"),
				qr/Remote SQL: .* WHERE/, "postgres_fdw: $table: but not one with now()");
		}
	});

tool(
	'file_fdw',
	'postgresql-17',
	sub {
		my $csv = file('rows.csv', "$id,a\n2124389752982491137,b\n");

		query('CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw');
		for my $type ('snowflake', 'bigint')
		{
			query("CREATE FOREIGN TABLE csv_$type (id $type, url text) SERVER files OPTIONS (filename '$csv', format 'csv')");
			is(query("SELECT id, url FROM csv_$type WHERE id::snowflake >= timestamptz '2026-01-01Z'"), '2124389752982491137|b', "file_fdw: $type");
		}
	});

# --- Programs

tool(
	'ogr2ogr',
	'gdal-bin',
	sub {
		my $source = "PG:host=$host port=$port dbname=postgres";
		my $convert = sub {
			my ($format, $table, @options) = @_;
			my $file = "$directory/$table-" . @options . '.' . lc($format);

			output_of("ogr2ogr: $table to $format", 'ogr2ogr', '-f', $format, @options, $file, $source, @options ? () : $table);
			return slurp_file($file);
		};
		is($convert->('CSV', 's'), "id,url\n\"$id\",a\n", 'ogr2ogr: a snowflake is a string');
		like($convert->('GeoJSON', 's'), qr/"id": "$id"/, 'ogr2ogr: also in JSON');
		is($convert->('CSV', 'b'), "url\na\n", 'ogr2ogr: a bigint key is the FID, and not in the file');
		is($convert->('CSV', 'b', '-sql', 'SELECT id::text AS id, url FROM b'), "id,url\n\"$id\",a\n", 'ogr2ogr: but as text');
		my $new = file('new.csv', "url\nnew\n");
		output_of("ogr2ogr: appends to $_", 'ogr2ogr', '-append', '-f', 'PostgreSQL', $source, $new, '-nln', $_) for 's', 'b';
		is(query("SELECT snowflake_shard(id), url FROM s WHERE url = 'new'"), '5|new', 'ogr2ogr: new rows of s have minted ids');
		is(query("SELECT snowflake_shard(id), url FROM b WHERE url = 'new'"), '5|new', 'ogr2ogr: and those of b');
	});

tool(
	'psqlODBC',
	'odbc-postgresql',
	sub {
		my $driver = "DRIVER=PostgreSQL Unicode;Servername=$host;Port=$port;Database=postgres;UID=$user";
		my $isql = sub {
			my ($sql) = @_;
			my ($out, $err) = ('', '');
			my $good = IPC::Run::run([ 'isql', '-b', '-k', $driver, '-d|' ], '<', \"$sql\n", '>', \$out, '2>', \$err);
			ok($good, "psqlODBC: $sql") || diag($out, $err);
			return $out;
		};
		my %type = (s => '12\|snowflake', b => '-5\|int8');
		for my $table ('s', 'b')
		{
			like($isql->("help $table"), qr/\|id\|$type{$table}\|/, "psqlODBC: the type of $table.id");
			like($isql->("SELECT id, url FROM $table WHERE id = $id"), qr/^$id\|a$/m, 'psqlODBC: all digits');
			like($isql->("INSERT INTO $table (url) VALUES ('new') RETURNING snowflake_shard(id) AS shard, url"), qr/^5\|new$/m, 'psqlODBC: RETURNING');
		}
	});

tool(
	'pgloader',
	'pgloader',
	sub {
		for my $table ('s', 'b')
		{
			my $given = file("given-$table.csv", "2124389752982491137,given\n");
			my $minted = file("minted-$table.csv", "one\ntwo\n");
			my $load = file("$table.load", join("\n", map { my ($csv, $columns) = @$_; "LOAD CSV FROM '$csv' ($columns) INTO postgresql://$user\@unix:$host:$port/postgres TARGET TABLE public.$table ($columns);" }
						[ $given, 'id, url' ], [ $minted, 'url' ]));

			output_of("pgloader: $table", 'pgloader', '--root-dir', $directory, $load);
			is(query("SELECT url FROM $table WHERE id = 2124389752982491137"), 'given', "pgloader: ids that are given, $table");
			is(query("SELECT count(*) FROM $table WHERE url IN ('one', 'two') AND snowflake_shard(id) = 5"), 2, "pgloader: ids that are minted, $table");
		}
	});

# --- Pgpool-II, before a primary and its standby

my $pgpool;

sub stop_pgpool
{
	return if !$pgpool;
	$pgpool->signal('INT');
	$pgpool->finish;
	undef $pgpool;
	return;
}

END { my $status = $?; stop_pgpool(); $? = $status }

tool(
	'Pgpool',
	'pgpool2',
	sub {
		$node->backup('base');
		my $standby = PostgreSQL::Test::Cluster->new('standby');
		$standby->init_from_backup($node, 'base', has_streaming => 1);
		$standby->start;
		$node->wait_for_catchup($standby->name);

		my $sockets = PostgreSQL::Test::Utils::tempdir_short();
		my ($listed) = $page =~ /^(primary_routing_query_pattern_list = .*)$/m;
		my $start = sub {
			my ($more) = @_;
			my $conf = "$sockets/pgpool.conf";
			my $log = '';

			unlink $conf;
			append_to_file($conf, <<"CONF");
backend_clustering_mode = 'streaming_replication'
listen_addresses = ''
unix_socket_directories = '$sockets'
pcp_socket_dir = '$sockets'
pcp_listen_addresses = ''
wd_ipc_socket_dir = '$sockets'
pid_file_name = '$sockets/pgpool.pid'
work_dir = '$sockets'
logdir = '$sockets'
memqcache_oiddir = '$sockets'
port = 9999
pcp_port = 9898
backend_hostname0 = '$host'
backend_port0 = $port
backend_weight0 = 0
backend_data_directory0 = '${\$node->data_dir}'
backend_flag0 = 'ALWAYS_PRIMARY'
backend_hostname1 = '${\$standby->host}'
backend_port1 = ${\$standby->port}
backend_weight1 = 1
sr_check_period = 0
sr_check_user = '$user'
health_check_period = 0
num_init_children = 4
enable_pool_hba = off
$more
CONF
			append_to_file("$sockets/empty", '') if !-e "$sockets/empty";
			$pgpool = IPC::Run::start([ '/usr/sbin/pgpool', '-n', '-f', $conf, '-F', "$sockets/empty", '-a', "$sockets/empty" ], '<', '/dev/null', '>&', "$sockets/log");
			for (1 .. 300)
			{
				last if system("psql -XAtq -h '$sockets' -p 9999 -d postgres -c 'SELECT 1' >/dev/null 2>&1") == 0;
				select(undef, undef, undef, 0.1);
			}
			return;
		};
		my $ask = sub {
			my ($sql) = @_;
			my ($out, $err) = ('', '');

			IPC::Run::run([ 'psql', '-XAtq', '-h', $sockets, '-p', '9999', '-d', 'postgres' ], '<', \$sql, '>', \$out, '2>', \$err);
			chomp($out, $err);
			return $out . $err;
		};

		my $whose_port = q{SELECT current_setting('port')};

		$start->('');
		is($ask->($whose_port), $standby->port, 'Pgpool: what reads goes to the standby');
		is($ask->('SELECT snowflake_shard(snowflake_nextval())'), '5', 'Pgpool: what mints goes to the primary');
		is($ask->("INSERT INTO s (url) VALUES ('x') RETURNING snowflake_shard(id)"), '5', 'Pgpool: and so does an INSERT');
		like($ask->('SELECT snowflake_settled() > 0'), qr/cannot tell which ids are settled during recovery/, 'Pgpool: snowflake_settled() goes to the standby');
		stop_pgpool();

		$start->($listed);
		is($ask->($whose_port), $standby->port, 'Pgpool, with the line of the page: what reads goes to the standby');
		is($ask->('SELECT snowflake_settled() > 0'), 't', 'Pgpool, with the line of the page: snowflake_settled() goes to the primary');
		is($ask->("SELECT count(*) FROM s WHERE id > 0 AND id < SNOWFLAKE_SETTLED()") > 0, 1, 'Pgpool, with the line of the page: also in a condition');
		stop_pgpool();
		$standby->stop;
	});

is_deeply([ sort keys %tested ], [ sort keys %version_of ], 'each tool of the page is tested');

done_testing();
