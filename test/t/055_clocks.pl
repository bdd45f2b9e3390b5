# doc/availability.md, clocks: a leap second sets the clock back by a second.  With the default
# tolerance calls wait for it and none fails; ids stay unique and in order.  A
# second that is left out makes nobody wait.  004_clock.pl has less tolerance.
#
# And a clock that is an hour ahead for a moment, while nobody mints, and somebody asks for
# the mark or waits for it.

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

# The server's instr_time is no clock to wait by: with 19, a second of it may be too short by a
# thousandth, and a session chooses which clock it is.
is(join(' ', grep { slurp_file($_) =~ m{INSTR_TIME|instr_time\.h} } glob('src/*.[ch] src/lease/*.[ch]')), '', 'no source measures time as the server does');

# --- An hour ahead, for a moment
#
# A first poll would ask for a horizon of then, and later ones would go there.  Nobody has
# asked since the start.  What has lasted for ten seconds is no moment: then, once more.
my $polls = <<'SQL';
DO $$
BEGIN
	FOR n IN 1 .. 50 LOOP
		PERFORM snowflake_settled();
		PERFORM snowflake_wait_settled(snowflake_ceil(clock_timestamp() + interval '1 day'), '3 ms');
		COMMIT;
	END LOOP;
END $$;
SQL
my $follows = "SELECT snowflake_settled()::timestamptz > clock_timestamp() - interval '1 min'";
my ($ahead, $took, $mark) = (0, 60);
$node->stop;
start_with_clock($node);
# a leap is one from the clock that the worker found
ok(wait_until($node, q{SELECT state = 'idle' AND wait_event = 'Extension' FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'}),
	'the worker has looked at the clock');
for (my $n = 0; $took > 8 && $n < 10; $n++)
{
	set_clock($node, $ahead = 7200 * $n);
	ok(wait_until($node, $follows), 'the mark follows the clock') if $n > 0;
	set_clock($node, $ahead + 600);
	my $began = time();
	$mark = $node->safe_psql('postgres', "$polls SELECT extract(epoch FROM snowflake_settled()::timestamptz)");
	$took = time() - $began;
	set_clock($node, $ahead);
}
cmp_ok($mark, '<', time() + $ahead + 300, 'but not where it is ten minutes ahead for a moment, while somebody asks and waits');
is($node->safe_psql('postgres', "SET snowflake.clock_tolerance = '60s'; SELECT snowflake_timestamp(snowflake_nextval()) < clock_timestamp() + interval '1 min'"),
	't', 'and afterwards an id is minted, of the right time');
set_clock($node, $ahead + 3600);
ok(wait_until($node, $follows), 'if the clock stays there, the mark follows');

done_testing();
