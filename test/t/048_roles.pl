# A role has shards of its own, by ALTER ROLE, in the sessions that it begins, and
# takes nobody else's: what doc/security.md and doc/servers.md say.  It takes a
# login as that role, so it is not in test/sql/security.sql, which also runs on
# servers that let nobody in as somebody else.
#
# Majors: all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('roles', conf => "snowflake.shards = '5'");

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE app LOGIN;
ALTER ROLE app SET snowflake.shards = '7';
SQL

# What psql says to the role, in one session.
sub said_to_app
{
	my ($sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n$sql", extra_params => [ '-U', 'app' ], on_error_stop => 0);

	return join(' ', $out =~ s/\n/ /gr, $err =~ /ERROR:  (\w+)/g) =~ s/^ //r;
}

is(said_to_app('SELECT snowflake_shard(snowflake_nextval())'), '7', 'the role mints on its own shard');
is(said_to_app('SELECT snowflake_nextval(5)'), '42501', "and not on the server's");
is(said_to_app("SET snowflake.shards = '5'"), '42501', 'nor can it have that by SET');
is(said_to_app("SELECT set_config('snowflake.shards', '5', false)"), '42501', 'by set_config()');
is(said_to_app('RESET snowflake.shards'), '42501', 'by RESET');
is(said_to_app('RESET ALL; DISCARD ALL; SELECT snowflake_nextval(5)'), '42501', 'by RESET ALL and DISCARD ALL');
is(said_to_app("ALTER ROLE app SET snowflake.shards = '5'"), '42501', 'by ALTER ROLE SET');
is(said_to_app('ALTER ROLE app RESET snowflake.shards'), '42501', 'by ALTER ROLE RESET');
is(said_to_app('ALTER ROLE app RESET ALL'), '', 'ALTER ROLE RESET ALL is no error');
is( said_to_app("CREATE FUNCTION pg_temp.elsewhere() RETURNS snowflake LANGUAGE sql SET snowflake.shards = '5' AS 'SELECT snowflake_nextval()'"),
	'42501', 'nor by the settings of a function');
is(said_to_app("SET snowflake.clock_tolerance = '1h'"), '42501', 'another setting');
is(said_to_app("SET snowflake.layout = 'discord'"), '55P02', 'the layout');
is(said_to_app("SET snowflake.reserve = '1min'"), '55P02', 'the reserve');
is($node->safe_psql('postgres', "SELECT rolconfig FROM pg_roles WHERE rolname = 'app'"), '{snowflake.shards=7}', 'the role keeps its shard');
is($node->safe_psql('postgres', 'SET ROLE app; SELECT snowflake_shard(snowflake_nextval())'),
	'5', 'they are those of its sessions, not of whoever becomes it');

done_testing();
