# The mark is not above the horizon that is on disk: who starts after a crash, with a
# clock that is behind, mints from there on.  And it does not go back, not where a call
# begins before the server knows its horizon, and waits long for the clock.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('disk', disk => 1, conf => "snowflake.shards = '5'\n");

$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
set_disk($node, 'create=ENOSPC');
is($node->safe_psql('postgres', <<'SQL'), 't', 'as far as that, the mark follows what is minted');
DO $$
DECLARE
    last bigint;
BEGIN
    LOOP
        BEGIN
            last := snowflake_nextval();
        EXCEPTION WHEN OTHERS THEN
            EXIT;
        END;
        COMMIT;
    END LOOP;
    PERFORM set_config('test.last', last::text, false);
END
$$;
SELECT snowflake_settled()::timestamptz = snowflake_timestamp(current_setting('test.last')::bigint);
SQL
ok( wait_until($node, <<'SQL'), 'the horizon is over, and cannot be renewed');
SELECT snowflake_settled() IS NOT NULL AND last_error IS NOT NULL AND clock_timestamp() > horizon + interval '1 s'
  FROM snowflake_horizon()
SQL
is($node->safe_psql('postgres', 'SELECT snowflake_settled()::timestamptz <= horizon FROM snowflake_horizon()'), 't', 'the mark stands');
set_disk($node, '');
ok(wait_until($node, q(SELECT snowflake_settled()::timestamptz > clock_timestamp() - interval '1 s')), 'and goes on when the disk does');
$node->stop;

# --- A call that begins after a crash, before the server knows its horizon

$node = new_server('crashed', clock => 1, conf => "snowflake.shards = '5'\nsnowflake.clock_tolerance = 600s\n");
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
my $least = $node->safe_psql('postgres', 'SELECT snowflake_settled()');
$node->stop('immediate');
set_disk($node, 'open=wait');
start_with_clock($node, -300, disk => 1);
my $call = start_session($node, 'SELECT snowflake_nextval()');
ok(wait_until($node, <<'SQL'), 'a call waits');
SELECT horizon IS NULL AND wait_event_type = 'Extension'
  FROM snowflake_horizon(), pg_stat_activity WHERE query = 'SELECT snowflake_nextval()'
SQL
set_disk($node, '');
ok(wait_until($node, 'SELECT horizon IS NOT NULL FROM snowflake_horizon()'), 'the server knows its horizon');
cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_settled()'), '>=', $least, 'the mark does not go back');
ok(!has_ended($call), 'though the call waits, now for the clock');
set_clock($node, 0);
ok(finish_session($call), 'until it has that right');
$node->stop;
done_testing();
