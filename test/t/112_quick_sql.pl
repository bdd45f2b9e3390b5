# safe_psql() of the tests does without psql where it can, and gives what psql gives.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use SnowflakeTest;
use Test::More;
use Time::HiRes qw(setitimer ITIMER_REAL);

my $node = new_server('quick');

# The answer, or the error from its first line on
sub answer_of
{
	my ($ask, $sql) = @_;
	my $answer = eval { $ask->($node, 'postgres', $sql) } // 'none';

	return $@ =~ /(ERROR:.*?)\n?'/s ? ($answer, $1) : ($answer, $@);
}

sub without_psql
{
	no warnings 'redefine';
	local *PostgreSQL::Test::Cluster::psql = sub { die "it takes psql\n" };
	return $node->safe_psql(@_[ 1, 2 ]);
}

for my $sql (
	'SELECT 1',
	'SELECT 1; SELECT 2;',
	"SELECT NULL, '', 'a|b', E'a\\nb'",
	"SELECT ''; SELECT ''",
	'SELECT WHERE false',
	'SELECT FROM generate_series(1, 2); SELECT 5',
	"SELECT ';', \$\$;\$\$, \$a\$;\$\$;\$a\$, E'\\';' AS \";\" -- ;\n; /* ; */ SELECT 2",
	"SELECT n, true, 1.50, '{1,NULL}'::int[] FROM generate_series(1, 3) AS n",
	'BEGIN; CREATE TEMP TABLE t (id snowflake); INSERT INTO t VALUES (1), (2) RETURNING id; ROLLBACK',
	"SET application_name = 'it'; SHOW application_name",
	'DO $$ BEGIN RAISE NOTICE \'heard\'; END $$; SELECT 3',
	"SELECT 1; SELECT 1/0; SELECT 2",
	"DO \$\$ BEGIN RAISE EXCEPTION 'one' USING DETAIL = 'two', HINT = 'three'; END \$\$",
	'SELECT current_setting(\'application_name\'), current_database(), current_user')
{
	my @by_psql = answer_of($QuickSql::by_psql, $sql);

	is_deeply([ answer_of(\&without_psql, $sql) ], \@by_psql, $sql =~ s/\n/ /gr);
}

# a session that ends
ok(!eval { without_psql($node, 'postgres', 'SELECT pg_terminate_backend(pg_backend_pid()); SELECT 2'); 1 }, 'a session that ends itself');
like($@, qr/terminating connection due to administrator command/, 'it says so');

# signals, while it waits and while it reads
{
	local $SIG{ALRM} = sub { };
	setitimer(ITIMER_REAL, 0.001, 0.001);
	is(without_psql($node, 'postgres', 'SELECT count(*), pg_sleep(0.3) FROM generate_series(1, 5)'), '5|', 'a signal each millisecond, and it waits');
	is(length(without_psql($node, 'postgres', "SELECT repeat('x', 10000) FROM generate_series(1, 2000)")), 2000 * 10001 - 1, 'and reads all');
	is(length(without_psql($node, 'postgres', "SELECT '" . 'x' x 5_000_000 . "'")), 5_000_000, 'and sends all');
	setitimer(ITIMER_REAL, 0);
}

# what psql alone does
for my $sql ('\echo 1', "COPY (SELECT 1) TO STDOUT", "\\set a 1\nSELECT :a")
{
	is($node->safe_psql('postgres', $sql), 1, $sql =~ s/\n/ /gr);
}
$node->stop;
ok(!eval { $node->safe_psql('postgres', 'SELECT 1'); 1 }, 'without a server');
like($@, qr/connection error: .*Is the server running/s, 'psql says why');

done_testing();
