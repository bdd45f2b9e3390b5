# What pg_stat_snowflake and pg_stat_snowflake_backends say is what happened:
# exact under load, with the waits where they were, and not for everybody.  And
# what the log says of clocks and layouts, once and not once a call.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# 16 ids a tick and shard, so that calls meet exhausted ticks; it expires in a year
my $epoch = 1000 * (time() - 2**33 / 100 + 365 * 86400);
my $small = "epoch=$epoch unit=10ms fields=timestamp:33,shard:4,sequence:4";
my $node = new_server('stats', clock => 1, conf => <<"CONF");
snowflake.layout = '$small'
snowflake.shards = '0-2,15'
snowflake.clock_tolerance = 60s
autovacuum = off
max_logical_replication_workers = 0
CONF

sub shard_stats
{
	my ($columns, $condition) = @_;
	return $node->safe_psql('postgres',
		"SELECT $columns FROM pg_stat_snowflake WHERE $condition");
}

# How often the server said so since it started.
sub times_logged
{
	my ($pattern) = @_;
	return scalar(() = slurp_file($node->logfile) =~ /$pattern/g);
}

is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_snowflake'),
	0, 'no row for a shard that has not minted');

# --- Exact under load

my $sessions = 16;
my $each = 200;

$node->safe_psql('postgres', 'CREATE TABLE given (id snowflake)');
in_parallel($node, $sessions, <<"SQL");
SET snowflake.shards = '0-2';
INSERT INTO given SELECT snowflake_nextval() FROM generate_series(1, $each);
INSERT INTO given SELECT snowflake_nextval(g % 2) FROM generate_series(1, $each) AS g;
SET snowflake.shards = '15';
BEGIN; SELECT snowflake_nextval(15); ROLLBACK;
SQL
is($node->safe_psql('postgres', <<'SQL'), "0|t|t\n1|t|t\n2|t|t", 'each shard minted what the clients were given');
SELECT shard, minted = count(*), last_id = max(id)
  FROM pg_stat_snowflake JOIN given ON snowflake_shard(id) = shard
 GROUP BY shard, minted, last_id ORDER BY shard
SQL
is(shard_stats('minted', 'shard = 15'), $sessions, 'and what was rolled back');
is(shard_stats('bool_and(last_minted_at = snowflake_timestamp(last_id))', 'true'),
	't', 'the last time is that of the last id');
is(shard_stats('bool_and(exhausted > 0)', 'shard < 3'), 't', 'exhausted ticks were met');
is(shard_stats("sum(waited) > interval '0.1 s'", 'true'), 't', 'and waited for');
is(shard_stats('sum(clock_behind)', 'true'), 0, 'the clock was never behind');
is(shard_stats('bool_and(stats_reset < now())', 'true'), 't', 'counted since the start');

# --- Sessions

is($node->safe_psql('postgres', <<'SQL'), "0\n10\n1|10|t|t", 'a session sees itself, once it has minted');
SELECT count(*) FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SELECT count(snowflake_nextval(1)) FROM generate_series(1, 10);
SELECT shard, minted, last_id = snowflake_lastval(), waits >= 0 AND waited >= interval '0'
  FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SQL
is($node->safe_psql('postgres', <<'SQL'), "400\nt|t", 'its waits are counted');
SELECT count(snowflake_nextval(1)) FROM generate_series(1, 400);
SELECT waits >= 1, waited > interval '1 ms'
  FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SQL
is($node->safe_psql('postgres', <<'SQL'), "t|\nt|t\n||", 'the oldest id is of this transaction: none while no call has succeeded, nor after it');
SELECT snowflake_nextval(1) \g /dev/null
BEGIN;
DO $$ BEGIN PERFORM snowflake_nextval(3); EXCEPTION WHEN insufficient_privilege THEN END $$;
SELECT holding_since IS NOT NULL, oldest_id FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SELECT snowflake_nextval(1) AS first \gset
SELECT snowflake_nextval(1) \g /dev/null
SELECT holding_since IS NOT NULL, oldest_id = :first FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
COMMIT;
SELECT holding_since, oldest_id, holding_shard FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SQL
is($node->safe_psql('postgres', <<'SQL'), "||0", 'one that has only tried to mint has no id');
DO $$ BEGIN PERFORM snowflake_nextval(3); EXCEPTION WHEN insufficient_privilege THEN END $$;
SELECT shard, last_id, minted FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SQL
ok(wait_until($node, 'SELECT count(*) = 0 FROM pg_stat_snowflake_backends'),
	'sessions that ended are gone');
# all slots of sessions have had one that waited: from 17 on they go round
my $waits = "SELECT count(snowflake_nextval(1)) FROM generate_series(1, 40) \\g /dev/null\n\\c\n";
is($node->safe_psql('postgres', $waits x 60 . <<'SQL'), '0||0|00:00:00', 'and whoever has the slot of one has nothing of it');
DO $$ BEGIN PERFORM snowflake_nextval(3); EXCEPTION WHEN insufficient_privilege THEN END $$;
SELECT minted, last_id, waits, waited FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SQL

my $waiting = start_session($node, 'SELECT snowflake_nextval(1), pg_sleep(60)');
ok(wait_until($node, <<'SQL'), 'others are seen while they run');
SELECT count(*) = 1 FROM pg_stat_snowflake_backends JOIN pg_stat_activity USING (pid)
 WHERE shard = 1 AND minted = 1
SQL
$waiting->{run}->signal('KILL');
finish_session($waiting);
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_snowflake_backends');

# --- Reset

my $reset_at = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
is($node->safe_psql('postgres', <<"SQL"), "\n4|0|0|00:00:00|t|t", 'a reset sets counters to 0, and keeps the last ids');
SELECT snowflake_stat_reset();
SELECT count(*), sum(minted), sum(exhausted), sum(waited),
	   bool_and(stats_reset BETWEEN '$reset_at' AND clock_timestamp()), count(last_id) = 4
  FROM pg_stat_snowflake
SQL
$node->safe_psql('postgres', 'SELECT snowflake_nextval(2)');
is(shard_stats('minted', 'shard = 2'), 1, 'and counting goes on');

# --- A clock that is behind

is(times_logged('behind the last snowflake id'), 0, 'the log says nothing while the clock is right');
$node->safe_psql('postgres', 'SELECT snowflake_nextval(1)');
set_clock($node, -3600);
# in one session, as the log says it again after ten seconds
is($node->safe_psql('postgres', <<'SQL'), '', 'the clock is behind');
SET snowflake.clock_tolerance = '20ms';
DO $$ DECLARE shard int; BEGIN
	FOREACH shard IN ARRAY '{1,1,2}'::int[] LOOP
		BEGIN
			RAISE 'minted %', snowflake_nextval(shard);
		EXCEPTION WHEN system_error THEN
		END;
	END LOOP;
END $$;
SQL
is(shard_stats("string_agg(shard || ':' || clock_behind, ' ' ORDER BY shard)", 'clock_behind > 0'),
	'1:2 2:1', 'calls that met it are counted');
is(shard_stats("waited >= interval '40 ms'", 'shard = 1'), 't', 'and what they waited');
is(times_logged('LOG:  clock is 59 min \d+ s behind the last snowflake id'), 1, 'the log says so, once');
is(times_logged('DETAIL:  Calls of snowflake_nextval wait for it'), 1, 'and what follows');
sleep(10);
fails_with($node, "SET snowflake.clock_tolerance = 0;\nSELECT snowflake_nextval()",
	'58000', qr/behind the last snowflake id/, 'still behind');
is(times_logged('LOG:  clock is .* behind the last snowflake id'), 2, 'and says it again after a while');
is(shard_stats('clock_behind', 'shard = 0'), 1, 'a call that names no shard counts for the first');
set_clock($node, 0);

# --- A layout that expires in a year

is(times_logged('LOG:  the layout of snowflake ids expires at 20'), 1,
	'the log tells once that the layout expires');
is(times_logged('DETAIL:  That is the last time that layout "epoch=\S+ unit=10ms fields=timestamp:33,shard:4,sequence:4" can hold'),
	1, 'and which one it is');

# --- A crash begins again

$node->safe_psql('postgres', 'SELECT snowflake_nextval(1)');
$node->stop('immediate');
start_with_clock($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_snowflake'), 0, 'after a crash counting begins again');

# --- Who may see it

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE nobody;
CREATE ROLE watcher IN ROLE pg_monitor;
SELECT snowflake_nextval(1);
SQL
for my $view (qw(pg_stat_snowflake pg_stat_snowflake_backends))
{
	fails_with($node, "SET ROLE nobody;\nSELECT * FROM $view", '42501',
		qr/permission denied for view $view/, "$view is not everybody's");
	is($node->safe_psql('postgres', "SET ROLE watcher; SELECT count(*) > 0 OR '$view' ~ 'backends' FROM $view"),
		't', 'whoever may monitor the server reads it');
}
for my $role (qw(nobody watcher))
{
	fails_with($node, "SET ROLE $role;\nSELECT snowflake_stat_reset()", '42501',
		qr/permission denied for function snowflake_stat_reset/, "$role may not reset it");
}

# --- A layout that lasts

restart_with_layout($node, 'twitter');
$node->safe_psql('postgres', 'SELECT snowflake_nextval(1)');
is(times_logged('layout of snowflake ids expires'), 2, 'of one that lasts for years the log says nothing');

# --- The first slot
#
# From 17 on it is the first session's that a server has.  Before, it is the first process's,
# and as no launcher is there, one of our workers has it from the start on; the session that
# begins when they have ended gets it.
ok(wait_until($node, <<'SQL'), 'the session that has the first slot mints, and is seen') if $node->pg_version < 17;
SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type LIKE 'snowflake %' \g /dev/null
\c
SELECT snowflake_nextval(1) \g /dev/null
SELECT bool_or(virtualtransaction LIKE '1/%') FROM pg_locks JOIN pg_stat_snowflake_backends USING (pid) WHERE pid = pg_backend_pid();
SQL

done_testing();
