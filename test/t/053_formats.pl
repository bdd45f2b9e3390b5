# Ids are read alike everywhere: by the extension, by the script that makes
# doc/vectors.csv without it, and by the functions of doc/formats.md in other
# languages.  And the page's generator makes ids beside the server.  A language
# that is not installed is skipped; DuckDB is the package @duckdb/node-api of npm.
#
# Majors: one
# Packages: python3-minimal golang-go nodejs
# Unpacked: clickhouse-common clickhouse-server clickhouse-client
# Npm: formats

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $formats = "$top/test/formats";
my $vectors = slurp_file("$top/doc/vectors.csv");
my @rows = split(/\n/, $vectors);

shift @rows;
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
# the Go compiler wants a place for what it compiled
local $ENV{GOCACHE} = PostgreSQL::Test::Utils::tempdir();

# --- the page shows what is tested

my %source = map { $_ => "\n" . slurp_file("$formats/$_") }
  qw(snowflake.js snowflake.py snowflake.go duckdb.sql clickhouse.sql);
my $page = page_text('doc/formats.md');
my %shown;

for my $block (fenced_blocks($page))
{
	my ($language, $text) = @$block;
	next if $language eq 'text' || $text =~ /^decode\(|^const generator/;
	my @pieces = split(/\n(?=function encode|\/\/ Mints ids)/, $text);
	for my $piece (@pieces)
	{
		my ($title) = $piece =~ /(.*)/;
		my @files = grep { index($source{$_}, "\n" . $piece =~ s/\n+$/\n/r) >= 0 } keys %source;

		ok(@files > 0, "the page shows what is tested: $title");
		$shown{$_} = 1 for @files;
	}
}
is_deeply([ sort keys %shown ], [ sort keys %source ], 'the page shows a part of each program');

# --- the file, by the script and by the extension

# Is a program there?  IPC::Run dies of one that is not.
sub runs
{
	my @command = @_;
	return scalar(eval { run_log(\@command, '>', '/dev/null', '2>', '/dev/null') });
}

# The lines that a program writes for the given ones
sub output_for
{
	my ($command, @lines) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run($command, '<', \(join('', map { "$_\n" } @lines)), '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default)) or diag($err);
	return [ split(/\n/, $out) ];
}

my $has_python = runs('python3', '--version');
SKIP:
{
	skip('Python is not installed', 1) unless $has_python;
	is_deeply(output_for([ 'python3', "$formats/vectors.py" ]), [ split(/\n/, $vectors) ],
		'doc/vectors.csv is what the script writes');
}

my $node = new_server('formats', conf => "timezone = 'UTC'\nsnowflake.shards = '5-6'");
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE vectors (layout text, id bigint, created_at timestamptz, shard integer, sequence integer);
\\copy vectors FROM '$top/doc/vectors.csv' CSV HEADER
SQL
my $count = @rows;
is($node->safe_psql('postgres', <<'SQL'), "$count|$count|$count|0", 'the extension reads and makes all ids of the file');
SELECT count(*),
       count(*) FILTER (WHERE snowflake_decode(id, layout) = ROW (created_at, shard, sequence)),
       count(*) FILTER (WHERE snowflake_encode(created_at, shard, sequence, layout) = id),
       (SELECT count(*) FROM snowflake_layouts WHERE name NOT IN (SELECT layout FROM vectors))
  FROM vectors
SQL
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT layout FROM vectors GROUP BY layout HAVING count(DISTINCT id) < 10) AS few'),
	'0', 'with ten ids and more of each preset');

# --- other languages

my @ids = map { /^([^,]+,[^,]+)/ } @rows;
my %decoders = (
	Python => [ $has_python, 'python3', "$formats/snowflake.py" ],
	JavaScript => [ runs('node', '--version'), 'node', "$formats/formats.js", 'decode' ],
	Go => [ runs('go', 'version'), 'go', 'run', "$formats/snowflake.go" ],
	DuckDB => [ runs('sh', '-c', "cd '$formats' && node -e 'require(\"\@duckdb/node-api\")'"), 'node', "$formats/duckdb.js" ],);

for my $name (sort keys %decoders)
{
	my ($is_there, @command) = @{ $decoders{$name} };
  SKIP:
	{
		skip("$name is not installed", 1) unless $is_there;
		is_deeply(output_for(\@command, @ids), \@rows, "$name reads all ids of the file");
	}
}

# --- ClickHouse, by a server of its own

# Debian's has no function from milliseconds to a time, so these are compared.
sub clickhouse_rows
{
	my ($layout, $client) = @_;
	my ($epoch, $tick, $where) = split(/\|/, $node->safe_psql('postgres', <<"SQL"));
SELECT (extract(epoch FROM epoch) * 1000)::bigint, (extract(epoch FROM tick) * 1000)::int,
       (SELECT string_agg(format('%s AS %s_shift, %s AS %s_bits', coalesce(shift, 0), part, coalesce(bits, 0), part), ', ' ORDER BY part DESC)
          FROM (VALUES ('shard'), ('sequence')) AS p (part)
          LEFT JOIN (SELECT CASE field WHEN 'sequence' THEN field ELSE 'shard' END AS part, min(shift) AS shift, sum(bits) AS bits
                       FROM snowflake_fields(0, '$layout') WHERE field <> 'timestamp' GROUP BY 1) AS f USING (part))
  FROM snowflake_layouts WHERE name = '$layout'
SQL
	my $sql = $source{'clickhouse.sql'};

	$sql =~ s/WITH .*/WITH $epoch AS epoch, $tick AS tick, $where/;
	$sql =~ s/fromUnixTimestamp64Milli\((.*), 'UTC'\)/$1/ or die;
	$sql =~ s/FROM ids/FROM ids WHERE layout = '$layout' ORDER BY n FORMAT CSV/;
	return @{ output_for([ @$client, '--query', $sql ]) };
}

sub start_clickhouse
{
	my ($server) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $client = [ 'clickhouse-client', '--host', '127.0.0.1', '--port', $port ];
	my $said = '';

	append_to_file("$dir/users.xml", <<'XML');
<yandex>
	<profiles><default/></profiles>
	<users><default><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
	<quotas><default/></quotas>
</yandex>
XML
	append_to_file("$dir/config.xml", <<"XML");
<yandex>
	<logger><level>warning</level><log>$dir/log</log><errorlog>$dir/errors</errorlog></logger>
	<tcp_port>$port</tcp_port>
	<listen_host>127.0.0.1</listen_host>
	<path>$dir/data/</path>
	<tmp_path>$dir/tmp/</tmp_path>
	<users_config>$dir/users.xml</users_config>
	<default_profile>default</default_profile>
	<mark_cache_size>5368709120</mark_cache_size>
</yandex>
XML
	my $run = IPC::Run::start([ $server, "--config-file=$dir/config.xml" ], '<', '/dev/null', '>&', \$said);
	wait_for(sub { IPC::Run::pump_nb($run); runs(@$client, '--query', 'SELECT 1') });
	return ($run, $client);
}

my ($clickhouse) = grep { -x } '/usr/sbin/clickhouse-server', '/usr/bin/clickhouse-server', map { "$_/clickhouse-server" } split(/:/, $ENV{PATH});
SKIP:
{
	skip('ClickHouse is not installed', 1) unless $clickhouse && runs('clickhouse-client', '--version');
	my ($run, $client) = start_clickhouse($clickhouse);
	my (@got, @expected);

	output_for([ @$client, '--query', 'CREATE TABLE ids (layout String, id Int64, n Int64) ENGINE = Memory' ]);
	output_for([ @$client, '--query', 'INSERT INTO ids FORMAT CSV' ], map { "$ids[$_],$_" } 0 .. $#ids);
	for my $layout (split(/\n/, $node->safe_psql('postgres', 'SELECT name FROM snowflake_layouts')))
	{
		push @got, clickhouse_rows($layout, $client);
		push @expected, split(/\n/, $node->safe_psql('postgres', <<"SQL"));
SELECT concat_ws(',', id, (extract(epoch FROM created_at) * 1000)::bigint, shard, sequence) FROM vectors WHERE layout = '$layout'
SQL
	}
	is_deeply(\@got, \@expected, 'ClickHouse reads all ids of the file');
	$run->kill_kill;
}

# --- the generator in JavaScript

SKIP:
{
	skip('Node.js is not installed', 1) unless $decoders{JavaScript}[0];

	my @encoded = split(/\n/, $node->safe_psql('postgres', <<'SQL'));
SELECT concat_ws(',', v.layout, f.value, shard, sequence)
  FROM vectors v, snowflake_fields(id, layout) AS f WHERE f.field = 'timestamp'
SQL
	is_deeply(output_for([ 'node', "$formats/formats.js", 'encode' ], @encoded),
		[ map { (split(/,/))[1] } @rows ], 'JavaScript makes all ids of the file');
	my @said = @{ output_for([ 'node', "$formats/formats.js", 'test' ]) };
	is_deeply([ grep { !/^ok / } @said ], [ '1..' . (@said - 1) ], 'the generator keeps to its clock, whatever that does');

	# beside the server, for one table, on a shard that is not the server's
	$node->safe_psql('postgres', 'CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), who text)');
	my $before = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	my $server = start_session($node, "INSERT INTO photos (who) SELECT 'server' FROM generate_series(1, 100000)");
	my $minted = output_for([ 'node', "$formats/formats.js", 'mint', 'twitter', 1000, 20000, $before ]);
	ok(finish_session($server), 'the server mints at the same time') or diag($server->{err});
	is(scalar(@$minted), 20000, 'and the generator');
	my $file = PostgreSQL::Test::Utils::tempdir() . '/ids';
	append_to_file($file, join('', map { "$_\tgenerator\n" } @$minted));
	$node->safe_psql('postgres', "\\copy photos FROM '$file'");
	is($node->safe_psql('postgres', <<"SQL"), "generator|20000|1000|t\nserver|100000|5|t", 'no id twice, each on its shard, none of the future');
SELECT who, count(*), string_agg(DISTINCT snowflake_shard(id)::text, ',' ORDER BY snowflake_shard(id)::text) FILTER (WHERE snowflake_shard(id) <> 6),
       bool_and(id > $before AND id <= clock_timestamp())
  FROM photos GROUP BY who ORDER BY who
SQL

	# and again, after a restart of the generator
	my $last = $minted->[-1];
	my $more = output_for([ 'node', "$formats/formats.js", 'mint', 'twitter', 1000, 4000, $last ]);
	is(scalar(grep { $_ <= $last } @$more), 0, 'restarted, the generator goes on above its last id');
}

done_testing();
