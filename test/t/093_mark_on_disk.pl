# The mark is not above the horizon that is on disk: who starts after a crash, with a
# clock that is behind, mints from there on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use SnowflakeTest;
use Test::More;

my $node = new_server('disk', disk => 1, conf => "snowflake.shards = '5'\n");

$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
set_disk($node, 'create=ENOSPC');
ok( wait_until($node, <<'SQL'), 'the horizon is over, and cannot be renewed');
SELECT snowflake_settled() IS NOT NULL AND last_error IS NOT NULL AND clock_timestamp() > horizon + interval '1 s'
  FROM snowflake_horizon()
SQL
is($node->safe_psql('postgres', 'SELECT snowflake_settled()::timestamptz <= horizon FROM snowflake_horizon()'), 't', 'the mark stands');
set_disk($node, '');
ok(wait_until($node, q(SELECT snowflake_settled()::timestamptz > clock_timestamp() - interval '1 s')), 'and goes on when the disk does');
$node->stop;
done_testing();
