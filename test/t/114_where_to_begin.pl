# Where among its shards a session begins and goes on, while the clock stands still: at the
# first shard, or, where there is no order between sessions, at one of its own after it has
# met another session.  And what a change of the list makes of that in the middle of a tick.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use SnowflakeTest;
use Test::More;

my $EPOCH = 1893456000;    # 2030-01-01
my $HOUR = 3600;
my $tick = 0;
my $node = new_server('begins', clock => 1, conf => <<'CONF');
snowflake.layout = 'epoch=2030-01-01 unit=3600s fields=timestamp:30,shard:4,sequence:2'
snowflake.shards = '0-7'
snowflake.ordering = 'session'
CONF
my $clock = clock_file($node);
my $other = sprintf(q(psql -XAtq -d "%s" -c 'SELECT snowflake_nextval()' >/dev/null), $node->connstr('postgres'));
my $shard = 'SELECT snowflake_shard(snowflake_nextval());';

# The next tick, for psql's shell.
sub next_tick
{
	$tick++;
	return sprintf(q(printf '@%.1f' >%s.new && mv %s.new %s), $EPOCH + $HOUR * ($tick + 1) - 0.5, $clock, $clock, $clock);
}

sub restart_at
{
	my ($layout) = @_;

	$node->append_conf('postgresql.conf', $layout) if $layout;
	$node->stop;
	$tick += 10;
	start_with_clock($node, $EPOCH + $HOUR * $tick - time());
	$node->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
	stop_clock($node, $EPOCH + $HOUR * ++$tick);
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	return;
}

# A session that has met another one: its first shard, that where it begins in the next
# tick, and where it goes on when that and all above are exhausted.
sub of_one_that_has_met
{
	return split(/\n/, $node->safe_psql('postgres', <<"SQL"));
\\! @{[ next_tick() ]}
\\! $other
$shard
\\! @{[ next_tick() ]}
SELECT snowflake_shard(snowflake_nextval()) AS own \\gset
SELECT :own;
\\! @{[ next_tick() ]}
SELECT count(snowflake_nextval(s)) FROM generate_series(:own, 7) AS s, generate_series(1, CASE WHEN :own > 0 THEN 4 ELSE 0 END) \\g /dev/null
SELECT waits FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid() \\gset
$shard
SELECT waits - :waits FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SQL
}

# One that has not, though it mints on the named first shard before.
sub of_one_alone
{
	my $sql = '';

	$sql .= join("\n", '\! ' . next_tick(), 'SELECT snowflake_nextval(0) \g /dev/null', $shard, '') for 1 .. 3;
	return join(' ', split(/\n/, $node->safe_psql('postgres', $sql)));
}

# Where a session begins goes by its place among the server's processes: while one that
# does nothing has a place, the next one has another.
sub check_all
{
	my ($name) = @_;
	my @idle;

	is(of_one_alone(), '0 0 0', "$name: a session alone begins at the first shard");
	for my $try (1 .. 8)
	{
		push @idle, start_session($node, "SELECT $try, pg_sleep(3600)");
		wait_until($node, "SELECT count(*) = $try FROM pg_stat_activity WHERE wait_event = 'PgSleep'") or die 'no session sleeps';
		is(of_one_alone(), '0 0 0', "$name: so does the next one");
		my ($first, $own, $round, $waits) = of_one_that_has_met();
		next if $own == 0;
		is($first, 0, "$name: one that meets another session on the first shard");
		cmp_ok($own, '>', 0, "$name: begins at one of its own: $own");
		is($round, 0, "$name: goes round when that and all above are exhausted");
		is($waits, 0, "$name: and waits for nothing");
		last;
	}
	cmp_ok(scalar(@idle), '<', 8, "$name: there was such a session");
	end_sessions($node, q(query LIKE '%pg_sleep%'), @idle);
	return;
}

restart_at('');
check_all('no order between sessions');

# --- A list that changes in the middle of a tick

is($node->safe_psql('postgres', <<"SQL"), "3\n3", 'with lower shards in the list it goes on where it was');
\\! @{[ next_tick() ]}
SET snowflake.shards = '3-5';
$shard
SET snowflake.shards = '0-7';
$shard
SQL

# --- With the sequence number above the shard a session uses its shards evenly

$node->append_conf('postgresql.conf', q(snowflake.ordering = 'server'));
restart_at(q(snowflake.layout = 'epoch=2030-01-01 unit=3600s fields=timestamp:30,sequence:2,shard:4'));
is($node->safe_psql('postgres', <<"SQL"), "0 1 2 3 4 5 6 7 0 1\n2 3 4 2 3 4 2 3 4 2", 'sequence above: one shard after the other, and round past one that is exhausted');
\\! @{[ next_tick() ]}
SELECT string_agg(snowflake_shard(id)::text, ' ' ORDER BY n) FROM (SELECT n, snowflake_nextval() AS id FROM generate_series(1, 10) AS n OFFSET 0) AS m;
\\! @{[ next_tick() ]}
SET snowflake.shards = '2-5';
SELECT count(snowflake_nextval(5)) FROM generate_series(1, 4) \\g /dev/null
SELECT string_agg(snowflake_shard(id)::text, ' ' ORDER BY n) FROM (SELECT n, snowflake_nextval() AS id FROM generate_series(1, 10) AS n OFFSET 0) AS m;
SQL

# a session that has met another one begins at a shard of its own here, too
my @idle;
my $own = 0;
for my $try (1 .. 8)
{
	push @idle, start_session($node, "SELECT $try, pg_sleep(3600)");
	wait_until($node, "SELECT count(*) = $try FROM pg_stat_activity WHERE wait_event = 'PgSleep'") or die 'no session sleeps';
	is(of_one_alone(), '0 0 0', 'sequence above: a session alone begins at the first shard');
	(undef, $own) = split(/\n/, $node->safe_psql('postgres', join("\n", '\! ' . next_tick(), "\\! $other", $shard, '\! ' . next_tick(), $shard)));
	last if $own > 0;
}
cmp_ok($own, '>', 0, "sequence above: one that has met another session begins at one of its own: $own");
end_sessions($node, q(query LIKE '%pg_sleep%'), @idle);

$node->stop;
done_testing();
