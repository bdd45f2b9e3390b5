# snowflake.spread makes id % n even at low rates: one id in 5 ms, n from 2 to 64.
# Ids stay unique and in order, ticks have as much room as doc/capacity.md says,
# and exhausted ticks are counted as without it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('spread', conf => "fsync = off\nmax_connections = 40");

# --- even, to Pearson's chi-squared

# The value that chi-squared with so many degrees of freedom exceeds once in a
# billion times (Wilson and Hilferty).
sub chi_squared_limit
{
	my ($degrees) = @_;
	my $ninth = 2 / (9 * $degrees);

	return $degrees * (1 - $ninth + 6 * sqrt($ninth))**3;
}

# The n for which id % n is not even.
sub uneven
{
	my (@ids) = @_;
	my @uneven;

	for my $n (2 .. 64)
	{
		my @count = (0) x $n;
		my $expected = @ids / $n;
		my $sum = 0;

		$count[ $_ % $n ]++ for @ids;
		$sum += ($_ - $expected)**2 / $expected for @count;
		push @uneven, $n if $sum > chi_squared_limit($n - 1);
	}
	return @uneven;
}

# Ids at a low rate: each call of the statement is followed by a pause.
sub mint_slowly
{
	my ($spread, $count) = @_;

	return split(/\n/, $node->safe_psql('postgres', <<"SQL"));
SET snowflake.spread = $spread;
CREATE TEMP TABLE ids (id bigint);
DO \$\$ BEGIN
    FOR i IN 1 .. $count LOOP
        INSERT INTO ids VALUES (snowflake_nextval(5));
        PERFORM pg_sleep(0.005);
    END LOOP;
END \$\$;
SELECT id FROM ids;
SQL
}

my @slow = mint_slowly(8, 2000);
is_deeply([ sort { $a <=> $b } @slow ], \@slow, 'one id in 5 ms: in order');
is_deeply([ uneven(@slow) ], [], 'id % n is even for n from 2 to 64');
my @plain = mint_slowly(0, 300);
is(scalar(grep { $_ % 4096 } @plain), 0, 'without a spread each tick begins at 0');
cmp_ok(scalar(uneven(@plain)), '>', 5, 'and id % n is not even');
my @some = mint_slowly(3, 300);
is(scalar(grep { $_ % 4096 > 7 } @some), 0, 'a spread of 3 bits leaves the first of a tick below 8');
is_deeply([ grep { my $n = $_; grep { $_ == $n } uneven(@some) } 2, 4, 8 ], [], 'and is even for 2, 4 and 8');

# --- unique and in order: sessions with and without a spread on the same shards,
# --- as fast as they can, with the shard above and below the sequence

for my $layout ('twitter', 'sonyflake')
{
	restart_with_layout($node, $layout) if $layout ne 'twitter';
	my @sql = map { <<"SQL" } map { ($_, 8, 0) } 1, 3;
SET snowflake.shards = '4-7';
SET snowflake.spread = $_;
CREATE TABLE s_$layout\_$$\_XX AS SELECT n, snowflake_nextval() AS id FROM generate_series(1, 20000) AS n;
SELECT count(*), bool_and(id > before) IS NOT FALSE FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM s_$layout\_$$\_XX) AS s;
SQL
	my $number = 0;
	my @sessions = map { start_session($node, s/XX/$number/gr, $number++) } @sql;
	for my $session (@sessions)
	{
		ok(finish_session($session), "$layout: a session ends") or diag($session->{err});
		is($session->{out}, '20000|t', "$layout: its ids increase");
	}
	my $all = join(' UNION ALL ', map { "SELECT id FROM s_$layout\_$$\_$_" } 0 .. $#sql);
	is($node->safe_psql('postgres', "SELECT count(*) - count(DISTINCT id) FROM ($all) AS ids"), '0', "$layout: no id twice");
}

# --- room: in a tick of a day, with 16 sequence numbers and two shards

my $day = new_server('day', conf => <<'CONF');
snowflake.layout = 'epoch=2020-01-01 unit=86400s fields=timestamp:20,shard:10,sequence:4'
snowflake.shards = '0-1'
snowflake.spread = 3
CONF
my $fill = <<'SQL';
SET statement_timeout = '5s';
CREATE TABLE ids (id snowflake PRIMARY KEY, n serial);
DO $$ BEGIN
    FOR i IN 1 .. 100 LOOP
        INSERT INTO ids VALUES (snowflake_nextval());
        COMMIT;
    END LOOP;
END $$;
SQL
my ($status, $out, $err) = $day->psql('postgres', $fill);
like($err, qr/canceling statement due to statement timeout/, 'a day is exhausted after some ids');
is($day->safe_psql('postgres', <<'SQL'), "0|t|t\n1|t|t", 'each shard has filled it from a number below 8 to the end');
SELECT snowflake_shard(id), min(snowflake_sequence(id)) < 8,
       count(*) = 16 - min(snowflake_sequence(id)) AND max(snowflake_sequence(id)) = 15
  FROM ids GROUP BY 1 ORDER BY 1
SQL
# the call that waits looks at the second shard as often as it wakes up
is($day->safe_psql('postgres', <<'SQL'), "0|t|t\n1|t|t", 'statistics count what was minted, and the calls that met an exhausted shard');
SELECT s.shard, s.minted = (SELECT count(*) FROM ids WHERE snowflake_shard(id) = s.shard),
       CASE shard WHEN 0 THEN s.exhausted = 1 ELSE s.exhausted >= 1 END
  FROM pg_stat_snowflake s ORDER BY shard
SQL

# a spread that is wider than the sequence number leaves at least one id a tick
restart_with_layout($node, 'epoch=2020-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:2');
is($node->safe_psql('postgres', <<'SQL'), '500|500|t', 'a spread wider than the sequence number');
SET snowflake.spread = 8;
SELECT count(*), count(DISTINCT id), count(DISTINCT snowflake_timestamp(id)) >= 125
  FROM (SELECT snowflake_nextval(5) AS id FROM generate_series(1, 500)) AS m
SQL

# --- a session alone stays on its first shard: an id that does not begin with
# --- sequence number 0 is no sign of others

restart_with_layout($node, 'twitter');
is($node->safe_psql('postgres', "SET snowflake.spread = 8; SET snowflake.shards = '6-7'; " . slow_ids() . q(SELECT string_agg(DISTINCT snowflake_shard(id)::text, ',') FROM ids)),
	'6', 'a session alone does not think that it has met others');

done_testing();
