# Servers that lease their shards from a registry: what they get by itself and by
# a list, what another server has, what is narrowed, and what happens while the
# registry is away.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry');

# --- auto: two servers mint at once, on shards of their own
my $paris = leasing_server('paris', $registry, 'auto:2', '10s');
my $tokyo = leasing_server('tokyo', $registry, 'auto:2', '10s', conf => "cluster_name = 'tokyo'\n");
my @files = map { stop_minters($_) } map { [ start_minters($_, 2, 'snowflake_nextval()') ] } $paris, $tokyo if 0;
my @minters = map { start_minters($_, 2, 'snowflake_nextval()') } $paris, $tokyo;
sleep(2);
ok(ids_are_distinct('two servers', stop_minters(@minters)) > 1000, 'both mint');
is(held_shards($paris), '0,1', 'the first gets shards that nobody used');
is(held_shards($tokyo), '2,3', 'and so does the second');
is(shards_of(mints($paris, 10_000)), '0,1', 'the first mints on its own');
is(shards_of(mints($tokyo, 10_000)), '2,3', 'and the second');
is(status_of($paris), 'held', 'status');
done_testing();
