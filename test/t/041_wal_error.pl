# An error of the server while the horizon's record is logged: the worker says so,
# nothing is minted that the record does not cover, and the next attempt is a new
# one.  The server keeps what it was about to log, and its locks, until somebody resets
# them.  If nobody did, each later record would fail, or wait for ever.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

plan skip_all => 'this server has no lz4'
  if system('postgres -c wal_compression=lz4 -C wal_compression -D /nowhere 2>&1 | grep "invalid value" >/dev/null') == 0;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "wal_compression = lz4\nsnowflake.reserve = 100ms\nsnowflake.shards = '5'\nstatement_timeout = 60s");
my $file = PostgreSQL::Test::Utils::tempdir() . '/fails';
{
	local $ENV{LD_PRELOAD} = shim('wal_error');
	local $ENV{SNOWFLAKE_WAL_ERROR} = $file;
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()') > 0, 'a server mints');

append_to_file($file, '');
ok(wait_until($node, 'SELECT seconds_ahead < 0 FROM snowflake_horizon()'), 'the horizon has passed');
fails_with($node, 'SELECT snowflake_nextval()', '58030', qr/cannot mint snowflake ids: logging is made to fail/,
	'the record cannot be logged: nothing is minted') for 1 .. 2;
is($node->safe_psql('postgres', 'SELECT last_error FROM snowflake_horizon()'), 'logging is made to fail', 'snowflake_horizon() says why');
unlink $file or die;
ok(mints_at_last($node, 'SELECT snowflake_nextval()') > 0, 'it can be logged again: ids are minted');
ok(wait_until($node, 'SELECT last_error IS NULL FROM snowflake_horizon()'), 'and there is no trouble');
is(scalar(() = slurp_file($node->logfile) =~ /LOG:  cannot mint snowflake ids: /g), 1, 'the log has told it once');
unlike(slurp_file($node->logfile), qr/XLogBeginInsert was already called/, 'the attempt that failed left nothing');

done_testing();
