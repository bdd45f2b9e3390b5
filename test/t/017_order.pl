# Order within a session: the ids of snowflake_nextval() increase, whatever the
# session mints by snowflake_nextval(shard) in between; and no such call makes a
# later snowflake_nextval() wait while one of the server's shards has room.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use SnowflakeTest;
use Test::More;

my $node = new_server('order', conf => "snowflake.shards = '0-7'");

# --- every preset with so many shards, the sequence below the shard and above

for my $layout (split(/\n/, $node->safe_psql('postgres', 'SELECT name FROM snowflake_layouts WHERE shards >= 8 ORDER BY name')))
{
	restart_with_layout($node, $layout);
	is( $node->safe_psql('postgres', <<'SQL'), "0\nt", "$layout: the ids of snowflake_nextval() increase");
CREATE TEMP TABLE minted (n serial, id snowflake);
DO $$ BEGIN
	FOR n IN 1 .. 1000 LOOP
		PERFORM snowflake_nextval(3);
		INSERT INTO minted (id) VALUES (snowflake_nextval());
		PERFORM snowflake_nextval(0);
		INSERT INTO minted (id) VALUES (snowflake_nextval());
		PERFORM snowflake_nextval(7);
	END LOOP;
END $$;
SELECT count(*) FROM (SELECT id <= lag(id) OVER (ORDER BY n) AS is_wrong FROM minted) AS ids WHERE is_wrong;
SELECT snowflake_nextval(7) = snowflake_lastval();
SQL
}

# --- ticks of two seconds with room for four ids on each of eight shards; the
# --- horizon is far away, so that a call waits for nothing but the next tick

# (after a restart minting begins with the next tick, for which a call waits)
$node->append_conf('postgresql.conf', "snowflake.reserve = 60s\nsnowflake.clock_tolerance = 60s");
restart_with_layout($node, 'epoch=2020-01-01 unit=2s fields=timestamp:40,shard:3,sequence:2');
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION my_waits() RETURNS bigint LANGUAGE SQL AS
	'SELECT coalesce(sum(waits), 0)::bigint FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid()';
SELECT snowflake_nextval();
CREATE PROCEDURE begin_tick() LANGUAGE plpgsql AS $$
DECLARE
	tick timestamptz := snowflake_timestamp(snowflake_floor(clock_timestamp()));
BEGIN
	WHILE snowflake_timestamp(snowflake_floor(clock_timestamp())) = tick LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SQL

my $past_exhausted = <<'SQL';
DO $$ BEGIN
	CALL begin_tick();
	PERFORM snowflake_nextval(7), snowflake_nextval(7), snowflake_nextval(7), snowflake_nextval(7);
	PERFORM snowflake_nextval() FROM generate_series(1, 24);
END $$;
SELECT my_waits();
SQL
is($node->safe_psql('postgres', $past_exhausted), 0, 'snowflake_nextval() does not go on from a named shard that is exhausted');

is( $node->safe_psql('postgres', <<'SQL'), 0, 'a session does not take its own named calls for another session');
DO $$ BEGIN
	FOR n IN 1 .. 3 LOOP
		CALL begin_tick();
		PERFORM snowflake_nextval(0);
		PERFORM snowflake_nextval();
		CALL begin_tick();
		PERFORM snowflake_nextval() FROM generate_series(1, 28);
	END LOOP;
END $$;
SELECT my_waits();
SQL

is($node->safe_psql('postgres', 'CALL begin_tick(); SELECT count(*) FROM (SELECT snowflake_nextval() FROM generate_series(1, 40)) AS ids; SELECT my_waits() > 0'),
	"40\nt", 'the count of waits would show one');

# --- the same ticks, the sequence above the shard: a call may go round to a lower shard

restart_with_layout($node, 'epoch=2020-01-01 unit=2s fields=timestamp:40,sequence:2,shard:3');
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
is($node->safe_psql('postgres', $past_exhausted), 0, 'sequence above: nor does it wait for a named shard that is exhausted');

done_testing();
