# A renewal that is not on disk counts for nothing, also where a shard is given back in
# the same round: the server mints to the end of the lease that it has on disk.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry');
my $paris = leasing_server('paris', $registry, '20,21', '8s');
wait_for_log($paris, qr/this server has leased snowflake shards "20-21"/, 0, 'shards are leased');

# while the registry makes a call wait, something comes in the way of the file's new version
my $obstacle = $paris->data_dir . '/snowflake.lease.tmp';
my $lock = start_session($registry, 'BEGIN; LOCK TABLE snowflake_registry_holders; SELECT pg_sleep(3600)');
ok(wait_until($registry, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'}), 'somebody locks the registry');
change_settings($paris, shards => '20,22');
my $now = $registry->safe_psql('postgres', 'SELECT clock_timestamp()');
ok(wait_until($registry, "SELECT count(*) = 1 FROM pg_stat_activity WHERE usename = 'ids' AND wait_event_type = 'Lock' AND query_start > '$now'"), 'a call waits');
is($paris->safe_psql('postgres', q(SELECT state, query FROM pg_stat_activity WHERE backend_type = 'snowflake lease')), 'active|leasing shards', 'as pg_stat_activity shows');
wait_for(sub { mkdir($obstacle) }) or die "$obstacle: $!";
my $end = $paris->safe_psql('postgres', 'SELECT min(lease_until) FROM snowflake_leases()');
end_sessions($registry, q{query LIKE 'SELECT pg_sleep%'}, $lock);
ok(wait_until($registry, "SELECT lease_until > '$end' FROM snowflake_registry_shards WHERE shard = 20"), 'the registry renews a lease');
wait_for_log($paris, qr/could not create file "snowflake\.lease\.tmp": Is a directory/, 0, 'which the server cannot write down');
my $fence = $registry->safe_psql('postgres', 'SELECT fence FROM snowflake_registry_holders');
ok(wait_until($paris, "SELECT clock_timestamp() > '$end'"), 'the lease on disk ends');
fails_with($paris, 'SELECT snowflake_nextval(20)', '58000', qr/lease/, 'no id is minted by the renewal');
is_holding($paris, '20', 'and what was leased besides is not held');
is($registry->safe_psql('postgres', 'SELECT fence FROM snowflake_registry_holders'), $fence, 'nor is the registry called with a fence that is not on disk');
rmdir($obstacle) or die "$obstacle: $!";
ok(wait_for(sub { ($paris->psql('postgres', 'SELECT snowflake_nextval(20)'))[0] == 0 }), 'one that is written down counts');
$_->stop for $paris, $registry;
done_testing();
