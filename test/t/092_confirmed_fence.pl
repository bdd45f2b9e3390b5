# A registry that has forgotten calls of a server, and of its leases none that the server
# claims, is fenced by what the server says of its last call: others may have lost more.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry');
my $paris = leasing_server('paris', $registry, '5', '60s');

is_holding($paris, '5', 'a shard');
my $fence = $registry->safe_psql('postgres', 'SELECT fence FROM snowflake_registry_holders');
change_settings($paris, shards => '6');
is_holding($paris, '6', 'another one, by later calls');
$registry->safe_psql('postgres', "UPDATE snowflake_registry_holders SET fence = $fence");
change_settings($paris, shards => '6,7');
wait_for_log($paris, qr/has lost what it told this server.*\n.*it has forgotten calls of this holder/, 0, 'the registry has forgotten these');
is($registry->safe_psql('postgres', q(SELECT not_before > clock_timestamp() + interval '30 s' FROM snowflake_registry_state)),
	't', 'and is fenced');
is(shards_of(mints($paris, 10)), '6', 'the server mints on what it holds');
$_->stop for $paris, $registry;
done_testing();
