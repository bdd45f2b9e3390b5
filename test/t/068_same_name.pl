# A library that was loaded before ours, and has a function of the same name: our
# code still means our own function, so COPY inserts in batches.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $server = PostgreSQL::Test::Cluster->new('server');
$server->init;
$server->append_conf('postgresql.conf', "snowflake.shards = '5'");
{
	local $ENV{LD_PRELOAD} = SnowflakeTest::shim('same_name');
	$server->start;
}
$server->safe_psql('postgres', 'CREATE EXTENSION snowflake; CREATE EXTENSION pg_walinspect;
	CREATE TABLE photos (id snowflake DEFAULT snowflake_nextval(), url text)');

my $place = $server->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$server->safe_psql('postgres', "COPY photos (url) FROM STDIN;\n" . join('', map { "$_.jpg\n" } 1 .. 100) . "\\.\n");
is($server->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM photos'), 100, 'COPY mints');
cmp_ok(
	$server->safe_psql('postgres',
		"SELECT count(*) FROM pg_get_wal_records_info('$place', pg_current_wal_flush_lsn()) WHERE record_type ~ 'INSERT' AND resource_manager ~ '^Heap'"),
	'<', 10, 'in batches');

done_testing();
