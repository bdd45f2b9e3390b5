# Real clients, one program each in test/clients: psql, psycopg, JDBC and
# node-postgres, and two clients through PgBouncer.  Each talks to a server of
# ours and prints TAP, which becomes assertions here.  A client that is not
# installed is skipped; check.sh installs what it can get.  What doc/clients.md
# shows is what these programs contain.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $clients = "$FindBin::RealBin/../clients";
my $tools = $ENV{SNOWFLAKE_TOOLS} // '/nonexistent';
my $jar = '/usr/share/java/postgresql.jar';

local $ENV{NODE_PATH} = '/usr/share/nodejs';
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

# --- doc/clients.md

my %language = (
	sql => ['photos.sql'],
	sh => ['psql_client.sh'],
	python => [ 'psycopg_client.py', 'pgbouncer_clients.py' ],
	java => ['JdbcClient.java'],
	javascript => ['node_postgres_client.js'],
	ini => ['pgbouncer.ini'],);
my %source = map { $_ => "\n" . slurp_file("$clients/$_") } map { @$_ } values %language;
my $doc = slurp_file("$FindBin::RealBin/../../doc/clients.md");
my %shown;

while ($doc =~ /^```(\w*)\n(.*?)^```$/msg)
{
	my ($language, $block) = ($1, $2);
	my ($title) = $block =~ /(.*)/;
	my $method = $block =~ s/^(?=.)/    /mgr;    # a block is whole lines
	my @files = grep { index($source{$_}, "\n$block") >= 0 || index($source{$_}, "\n$method") >= 0 }
	  @{ $language{$language} // [] };

	ok(@files > 0, "doc/clients.md shows what is tested: $title");
	$shown{$_} = 1 for @files;
}
is_deeply([ sort keys %shown ], [ sort keys %source ], 'doc/clients.md shows a part of each program');

# --- The server.  The JDBC driver knows TCP only, and there a password is
# --- asked for, since other users of this machine can connect as well.

my $node = new_server('clients',
	init => { extra => ['--encoding=UTF8'] },
	conf => "snowflake.shards = '5'");
my $password = unpack('H*', join('', map { chr(int(rand(256))) } 1 .. 16));

$node->safe_psql('postgres', "CREATE ROLE java LOGIN PASSWORD '$password'");
unlink($node->data_dir . '/pg_hba.conf');
$node->append_conf('pg_hba.conf', <<'CONF');
local all all  trust
host  all java 127.0.0.1/32 scram-sha-256
CONF
$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
$node->restart;

# Run a client on a fresh table, and turn its lines into assertions.
sub run_client
{
	my ($name, $command, %environment) = @_;
	my ($out, $err) = ('', '');

	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS photos; '
		  . slurp_file("$clients/photos.sql") . 'GRANT ALL ON photos TO java');

	local @ENV{qw(PGHOST PGPORT PGUSER PGDATABASE)} =
	  ($node->host, $node->port, scalar(getpwuid($<)), 'postgres');
	local @ENV{ keys %environment } = values %environment;
	my $good = eval {
		IPC::Run::run($command, '<', '/dev/null', '>', \$out, '2>', \$err,
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	};

	my ($lines, $plan) = (0, -1);
	for my $line (split(/\n/, $out))
	{
		if ($line =~ /^(not )?ok \d+ - (.*)/)
		{
			$lines++;
			ok(!$1, "$name: $2");
		}
		elsif ($line =~ /^1\.\.(\d+)$/)
		{
			$plan = $1;
		}
		else
		{
			note($line);
		}
	}
	ok($good && $lines == $plan, "$name: came to its end") or diag($@, $err);
	return;
}

sub runs { return scalar(run_log([@_], '>', '/dev/null', '2>', '/dev/null')) }

sub missing
{
	my ($name, $what) = @_;
  SKIP: { skip("$name: $what is not installed", 1) }
	return;
}

# --- The clients

run_client('psql', [ 'bash', "$clients/psql_client.sh" ]);

my ($python) = grep { runs($_, '-c', 'import psycopg') } 'python3', '/usr/bin/python3';
if ($python)
{
	run_client('psycopg', [ $python, "$clients/psycopg_client.py" ]);
}
else
{
	missing('psycopg', 'psycopg 3');
}

# from 17 on, with the compiler
if (-e $jar && `java --list-modules 2>/dev/null` =~ /^jdk\.compiler@(\d+)/m && $1 >= 17)
{
	run_client('JDBC', [ 'java', '-cp', $jar, "$clients/JdbcClient.java" ],
		PGUSER => 'java', PGPASSWORD => $password);
}
else
{
	missing('JDBC', 'the driver, or a JDK from 17 on,');
}

if (runs('sh', '-c', "cd '$clients' && node -e 'require(\"pg\")'"))
{
	run_client('node-postgres', [ 'node', "$clients/node_postgres_client.js" ]);
}
else
{
	missing('node-postgres', 'Node.js, or its package pg,');
}

my ($pgbouncer) = grep { -x } "$tools/usr/sbin/pgbouncer", '/usr/sbin/pgbouncer';
if ($python && $pgbouncer)
{
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $log = '';

	append_to_file("$dir/pgbouncer.ini", slurp_file("$clients/pgbouncer.ini") . <<"CONF");
unix_socket_dir = $dir
listen_port = 6432
[databases]
postgres = host=${\$node->host} port=${\$node->port} user=${\scalar(getpwuid($<))}
CONF
	my $run = IPC::Run::start([ $pgbouncer, "$dir/pgbouncer.ini" ], '<', '/dev/null', '>&', \$log);
	for (1 .. 100)
	{
		last if -S "$dir/.s.PGSQL.6432";
		IPC::Run::pump_nb($run);
		select(undef, undef, undef, 0.1);
	}
	run_client('PgBouncer', [ $python, "$clients/pgbouncer_clients.py" ], PGHOST => $dir, PGPORT => 6432);
	$run->kill_kill;
}
else
{
	missing('PgBouncer', 'it, or psycopg 3,');
}

done_testing();
