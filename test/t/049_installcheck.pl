# "make installcheck" on a server that somebody uses: it passes whatever shards the
# server has, twice in a row, and leaves the server as it was, also after a failure.
# Where it cannot run, it says why.  One isolation test stands for all.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Cwd qw(abs_path);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = abs_path("$FindBin::RealBin/../..");
my $node = new_server('used', conf => "snowflake.shards = '12-13'");

# It runs in a directory of its own, so that it overwrites no other results.
my $place = PostgreSQL::Test::Utils::tempdir();

sub installcheck
{
	my ($env, @arguments) = @_;
	my $out = '';

	# nothing of the make that runs this test
	local %ENV = (
		(map { $_ => $ENV{$_} } grep { !/^(?:MAKE|MFLAGS|GNUMAKEFLAGS|REGRESS|ISOLATION|TAP_TESTS|PROVE|EXTRA_|IN_|PG)/ } keys %ENV),
		PGHOST => $node->host, PGPORT => $node->port, %$env);
	my $passed = IPC::Run::run([ 'make', '-C', $place, '-f', "$top/Makefile", "VPATH=$top", 'installcheck', 'TAP_TESTS=', @arguments ], '>', \$out, '2>&1');
	return ($passed, $out);
}

# All that a test could leave behind.
sub state_of
{
	return $node->safe_psql('postgres', <<'SQL') . slurp_file($node->data_dir . '/postgresql.auto.conf');
SELECT datname FROM pg_database ORDER BY 1;
SELECT rolname, rolconfig FROM pg_roles ORDER BY 1;
SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting ORDER BY 1, 2;
SELECT parname, paracl FROM pg_parameter_acl ORDER BY 1;
SELECT relname FROM pg_class ORDER BY 1;
SELECT spcname FROM pg_tablespace ORDER BY 1;
SQL
}

# --- It passes, and leaves nothing

my @some = ('ISOLATION=concurrent');
my $before = state_of();

# Once all, and again those that make roles.
for ([ 'first', qr/\d\d/], [ 'second', 3, 'REGRESS=security registry trusted' ])
{
	my ($run, $count, @only) = @$_;
	my ($passed, $out) = installcheck({}, @some, @only);

	ok($passed, "the $run run passes") or diag($out);
	like($out, qr/All $count tests passed.*All 1 tests passed/s, "the $run run ran the tests");
	is(state_of(), $before, "the $run run leaves the server as it was");
}

# --- A test that fails, and stops before it drops its role

mkdir "$place/sql";
append_to_file("$place/sql/fails.sql", <<'SQL');
CREATE ROLE regress_snowflake_left;
GRANT SET ON PARAMETER snowflake.shards TO regress_snowflake_left;
SELECT rolname FROM pg_roles WHERE rolname = 'regress_snowflake_left' \g left
SQL
my ($passed, $out) = installcheck({}, 'REGRESS=fails', 'ISOLATION=', "REGRESS_OPTS=--inputdir=$place --dbname=contrib_regression");
ok(!$passed, 'a test that fails is a failure') or diag($out);
like(slurp_file("$place/left"), qr/regress_snowflake_left/, 'it made a role');
is(state_of(), $before, 'that run leaves the server as it was, too');

# --- Where it cannot run, it says why, and does nothing

sub says
{
	my ($pattern, $name, %env) = @_;
	my ($has_passed, $said) = installcheck(\%env, @some);

	ok(!$has_passed, "$name: it does not pass");
	like($said, qr/^make installcheck: $pattern/m, "$name: it says why");
	unlike($said, qr/concurrent +\.\.\./, "$name: it runs no test");
	return;
}

$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN');
says(qr/cannot connect to the server/, 'nobody', PGUSER => 'nobody');
says(qr/creating the extension needs a superuser/, 'no superuser', PGUSER => 'plain');
$node->safe_psql('postgres', 'DROP ROLE plain');
$node->append_conf('postgresql.conf', "snowflake.registry = 'host=/nonexistent'");
reload($node);
wait_until($node, q{SELECT current_setting('snowflake.registry') <> ''}) or die;
says(qr/this server leases its shards from a registry/, 'a registry');
$node->append_conf('postgresql.conf', "snowflake.registry = ''");
reload($node);
restart_with_layout($node, 'discord');
says(qr/the tests are for the layout "twitter", and this server has "discord"/, 'another layout');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
says(qr/this server does not preload the library/, 'not preloaded');

# --- The TAP tests need no server, but a module.  (make exports its variables, and
# --- this one hides the module.)

mkdir "$place/IPC";
append_to_file("$place/IPC/Run.pm", 'die');
$node->stop;
($passed, $out) = installcheck({ PERL5LIB => $place }, 'REGRESS=', 'ISOLATION=', 'TAP_TESTS=1', 'PROVE_TESTS=none');
ok($passed, 'without IPC::Run it passes') or diag($out);
like($out, qr/^SKIPPED: the TAP tests: Perl has no module IPC::Run/m, 'and says that it skips the TAP tests');

done_testing();
