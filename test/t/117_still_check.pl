# snowflake_check() while the clock stands still: a finding is not told at the time at which
# it is due, but a millisecond later.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $MS = 0.001;
my $DAY = 86400;
my $node = new_server('still', clock => 1, init => { allows_streaming => 1 }, conf => <<'CONF');
snowflake.layout = 'epoch=2025-01-01 unit=1ms fields=timestamp:41,shard:5,sequence:17'
snowflake.shards = '3'
max_prepared_transactions = 1
timezone = 'UTC'
CONF
my $now = time() + 100;

# The states of the rows of an area, while the clock stands at a time.
sub states_at
{
	my ($time, $area) = @_;

	stop_clock($node, $time);
	return $node->safe_psql('postgres', "SELECT string_agg(state, ' ' ORDER BY state) FROM snowflake_check() WHERE area = '$area'");
}

sub changes_at
{
	my ($time, $area, $before, $after, $name) = @_;

	is(states_at($time, $area), $before, "$name: not at that time");
	is(states_at($time + $MS, $area), $after, "$name: after it");
	return;
}

stop_clock($node, $now);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');

# --- For five minutes

$node->safe_psql('postgres', q(CREATE TABLE rows (n int); BEGIN; INSERT INTO rows VALUES (1); PREPARE TRANSACTION 'old'));
changes_at($now += 300, 'mark', 'ok', 'ok warning', 'a prepared transaction');
$node->safe_psql('postgres', q(ROLLBACK PREPARED 'old'));

stop_clock($node, $now += 1);
my $session = start_session($node, 'BEGIN; SELECT snowflake_nextval(); SELECT pg_sleep(100000);');
ok(wait_until($node, 'SELECT count(*) = 1 FROM pg_stat_snowflake_backends WHERE holding_since IS NOT NULL'), 'a session holds the mark');
changes_at($now += 300, 'mark', 'ok', 'warning', 'a session that holds the mark');
end_sessions($node, q(query LIKE '%pg_sleep(100000)%'), $session);

# --- For five seconds

$node->append_conf('postgresql.conf', q(synchronous_standby_names = 'nobody'));
reload($node);
stop_clock($node, $now += 100);
$session = start_session($node, 'SELECT snowflake_nextval()');
ok(wait_until($node, q(SELECT waiting_for = 'synchronous standby' FROM snowflake_horizon())), 'the horizon waits for a standby');
changes_at($now += 5, 'horizon', 'ok', 'warning', 'the horizon waits');
$node->append_conf('postgresql.conf', q(synchronous_standby_names = ''));
reload($node);
ok(finish_session($session), 'then it is stored');

# --- Partitions: a week before the end of the last one; and from that on rows are refused

my $end = $now + 30 * $DAY;
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE parts (id snowflake DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
DO 'BEGIN EXECUTE format(\$\$CREATE TABLE last_part PARTITION OF parts FOR VALUES FROM (%L) TO (%L)\$\$,
	snowflake_floor(to_timestamp($now)), snowflake_floor(to_timestamp($end))); END';
SQL
changes_at($end - 7 * $DAY, 'partitions', '', 'warning', 'a week before the end of the last partition');
changes_at($end - $MS, 'partitions', 'warning', 'error', 'the last time of the last partition');
$node->safe_psql('postgres', 'DROP TABLE parts');

# --- The layout: two years before its end, one year, and its last time

SKIP:
{
	skip 'the clock has no time after 2038', 8 if !has_late_times($node);
	my ($two, $one, $last) = map {
		$node->safe_psql('postgres', "SELECT extract(epoch FROM expires_at - interval '$_ years') FROM snowflake_layouts() WHERE in_use")
	} 2, 1, 0;
	changes_at($two, 'expiry', 'ok', 'notice', 'two years before the layout expires');
	changes_at($one, 'expiry', 'notice', 'warning', 'one year before');
	changes_at($last, 'expiry', 'warning', 'error', 'the last time of the layout');
	changes_at($last, 'clock', 'ok', '', 'until then it looks whether the clock is behind');
}

$node->stop('immediate');
done_testing();
