# The core, alone: the library is built with src/lease/ taken away (make LEASES=no), and a
# server with it mints, crashes and starts again.  test/lease_tests lists the tests that it
# does not pass.
#
# What a server without leases does not carry:
#   - the settings: a "snowflake.registry" and the "auto" of "snowflake.shards" are
#     refused, and such a server does not start; "snowflake.lease" has no effect
#   - the functions snowflake_leases() and snowflake_lease_status()
#   - the worker that leases, its file, and libpq in the library
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";

# --- Built without them, in a place of its own, from a tree that was built with them
my $core = PostgreSQL::Test::Utils::tempdir() . '/core';
mkdir($_) or die "$_: $!" for $core, "$core/test";
PostgreSQL::Test::Utils::system_or_bail('cp', '-rp', "$top/Makefile", "$top/sql", "$top/src", glob("$top/*.control"), $core);
PostgreSQL::Test::Utils::system_or_bail('cp', "$top/test/stage.sh", "$top/test/snowflake.conf", "$core/test");
PostgreSQL::Test::Utils::system_or_bail('sh', '-c', "cd '$core' && rm -rf src/lease sql/snowflake/leases.sql");
my ($out, $err) = build_in($core, 'LEASES=no');
plan skip_all => 'this server finds extensions only where it is installed' if $err =~ /this server finds extensions only where it is installed/;
ok(-f "$core/stage/server.conf", 'the core is built without src/lease') or BAIL_OUT("$out$err");
my ($library) = split(/\n/, `find '$core/stage' -name snowflake.so`);
my $libraries = `ldd '$library' 2>&1`;
unlike($libraries, qr/libpq/, 'its library does not need libpq');

# --- The list of tests is that of the tests there are
my @listed = page_text('test/lease_tests') =~ /^(\w+) /mg;
my %is_listed = map { $_ => 1 } @listed;
is_deeply([ grep { !-f "$top/test/t/$_.pl" && !-f "$top/test/sql/$_.sql" } @listed ], [], 'each test that is listed is there');
my @leasing = grep { slurp_file("$top/test/t/$_.pl") =~ /^use LeaseTest;/m } map { /(\w+)\.pl$/ } glob("$top/test/t/*.pl");
is_deeply([ grep { !$is_listed{$_} } @leasing ], [], 'and each that leases is listed');

# --- It mints, crashes, and goes on
my $paths = join("\n", slurp_file("$core/stage/server.conf") =~ /^((?:dynamic_library|extension_)\w+ = .*)$/mg);
my $node = new_server('core', conf => "$paths\nsnowflake.shards = '5-6'");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

$sql->('CREATE TABLE t (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())');
$sql->('INSERT INTO t SELECT FROM generate_series(1, 20000)');
my $greatest = $sql->('SELECT max(id) FROM t');
$node->stop('immediate');
$node->start;
$sql->('INSERT INTO t DEFAULT VALUES');
is($sql->("SELECT max(id) > $greatest, count(*) FROM t"), 't|20001', 'after a crash it mints above all its ids');
$node->restart;
is($sql->('SELECT snowflake_nextval(6) > max(id) FROM t'), 't', 'and after a restart');
is($sql->("SELECT string_agg(area || ': ' || finding, '; ') FROM snowflake_check() WHERE state = 'error'"), '', 'snowflake_check() finds no error');
is($sql->("SELECT finding FROM snowflake_check() WHERE area = 'leases'"),
	'no registry is used: only "snowflake.shards" keeps servers apart', 'and says what keeps servers apart');
is($sql->(q{SELECT count(*) FROM (SELECT snowflake_history(timestamptz '2026-01-01Z', 9) OVER ()) AS h}), 1, 'it makes ids for rows that exist');

# --- What it does not carry
is($sql->(q{SELECT to_regprocedure('snowflake_leases()') IS NULL AND to_regprocedure('snowflake_lease_status()') IS NULL}), 't', 'it has no functions of leases');
is($sql->(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'snowflake lease'}), 0, 'and no worker for them');
my $refusal = qr/DETAIL:  This library was built without leases\..*HINT:  Give each server shards of its own/s;

for ([ registry => "'host=registry.example password=secret'" ], [ shards => "'auto:4'" ])
{
	my ($name, $value) = @$_;
	my ($status, undef, $error) = $node->psql('postgres', "ALTER SYSTEM SET snowflake.$name = $value");

	isnt($status, 0, "snowflake.$name = $value is refused");
	like($error, qr/This library was built without leases\./, 'with the reason');
	like($error, $refusal, 'and the way out');
	unlike($error, qr/secret/, 'without a password');
}
$node->stop;
for ([ registry => q('host=registry.example') ], [ shards => q('auto') ])
{
	my ($name, $value) = @$_;
	my $conf = slurp_file($node->data_dir . '/postgresql.conf');
	my $from = -s $node->logfile;

	$node->append_conf('postgresql.conf', "snowflake.$name = $value");
	ok(!$node->start(fail_ok => 1), "a server with snowflake.$name = $value does not start");
	like(substr(slurp_file($node->logfile), $from), qr/FATAL:  invalid value for parameter "snowflake\.$name".*$refusal/s, 'and says why');
	replace_file($node->data_dir . '/postgresql.conf', $conf);
}
$node->start;
is($sql->('SELECT snowflake_nextval() > max(id) FROM t'), 't', 'without them it starts again');
$node->stop;
done_testing();
