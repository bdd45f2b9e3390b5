# Real clients, one program each in test/clients: psql, psycopg, JDBC and
# node-postgres, and two clients through PgBouncer.  Each talks to a server of
# ours and prints TAP, which becomes assertions here.  A client that is not
# installed is skipped; check.sh installs what it can get.  What doc/clients.md
# shows is what these programs contain.
#
# Packages: python3-psycopg libpostgresql-jdbc-java default-jdk-headless nodejs node-pg
# Unpacked: pgbouncer
# Npm: clients
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $clients = "$FindBin::RealBin/../clients";
my $tools = $ENV{SNOWFLAKE_TOOLS} // '/nonexistent';
my $jar = '/usr/share/java/postgresql.jar';

local $ENV{NODE_PATH} = '/usr/share/nodejs';
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

shows_what_is_tested('doc/clients.md', 'sh|python|java|javascript|ini',
	map { "$clients/$_" }
	  qw(psql_client.sh psycopg_client.py pgbouncer_clients.py JdbcClient.java node_postgres_client.js pgbouncer.ini));

my $node = stack_server('clients', tcp => 1);    # the JDBC driver knows TCP only

# Run a client on a fresh table.
sub run_client
{
	my ($name, $command, %environment) = @_;

	$node->safe_psql('postgres', 'SET ROLE app; DROP TABLE IF EXISTS photos; ' . slurp_file("$clients/photos.sql"));
	return run_program($node, $name, $command, %environment);
}

# --- The clients

run_client('psql', [ 'bash', "$clients/psql_client.sh" ]);

my ($python) = grep { has_program($_, '-c', 'import psycopg') } 'python3', '/usr/bin/python3';
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
		PGPASSWORD => $node->{password});
}
else
{
	missing('JDBC', 'the driver, or a JDK from 17 on,');
}

if (has_program('sh', '-c', "cd '$clients' && node -e 'require(\"pg\")'"))
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
postgres = host=${\$node->host} port=${\$node->port} user=app
CONF
	my $run = IPC::Run::start([ $pgbouncer, "$dir/pgbouncer.ini" ], '<', '/dev/null', '>&', \$log);
	wait_for(sub { IPC::Run::pump_nb($run); -S "$dir/.s.PGSQL.6432" });
	run_client('PgBouncer', [ $python, "$clients/pgbouncer_clients.py" ], PGHOST => $dir, PGPORT => 6432);
	$run->kill_kill;
}
else
{
	missing('PgBouncer', 'it, or psycopg 3,');
}

done_testing();
