# doc/availability.md, clocks: a leap second sets the clock back by a second.  With the default
# tolerance calls wait for it and none fails; ids stay unique and in order.  A
# second that is left out makes nobody wait.  004_clock.pl has less tolerance.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('clocks', clock => 1, conf => "fsync = off\nsnowflake.shards = '1'");

like(page_text('doc/availability.md'), qr/clock_tolerance` is `1s` by default/, 'the page says what the default is');
is($node->safe_psql('postgres', 'SHOW snowflake.clock_tolerance'), '1s', 'and it is');
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE ids (n bigserial, who int, id snowflake);
CREATE TABLE gate (open boolean);
CREATE PROCEDURE mint_on(who int) LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT EXISTS (SELECT FROM gate) LOOP
		INSERT INTO ids (who, id) SELECT who, snowflake_nextval() FROM generate_series(1, 10);
		COMMIT;		-- and no pg_sleep(), which goes by the same clock
	END LOOP;
END $$;
SQL

my @sessions = map { start_session($node, "CALL mint_on($_)") } 1 .. 2;
my $minted = sub {
	my $before = count_of($node, 'ids');
	return wait_until($node, "SELECT count(*) > $before + 100 FROM ids");
};

ok($minted->(), 'two sessions mint');
is($node->safe_psql('postgres', 'SELECT clock_behind FROM pg_stat_snowflake'), 0, 'no clock is behind');
# (on a machine that is busy for a second nobody may notice: so, more than one)
my $waited = 0;
for (1 .. 10)
{
	set_clock($node, -1);
	ok($minted->(), 'and go on after a leap second');
	$waited = $node->safe_psql('postgres', 'SELECT clock_behind FROM pg_stat_snowflake');
	set_clock($node, 0);
	ok($minted->(), 'and after a second that is left out');
	last if $waited > 0;
}
cmp_ok($waited, '>', 0, 'for the leap second they waited');
$node->safe_psql('postgres', 'INSERT INTO gate VALUES (true)');
for my $session (@sessions)
{
	ok(finish_session($session), 'no call failed') or diag($session->{err});
}
is($node->safe_psql('postgres', <<'SQL'), '0|0', 'no id twice, and none that goes back');
SELECT count(*) - count(DISTINCT id), count(*) FILTER (WHERE id < before)
  FROM (SELECT id, lag(id) OVER (PARTITION BY who ORDER BY n) AS before FROM ids) AS i
SQL

done_testing();
