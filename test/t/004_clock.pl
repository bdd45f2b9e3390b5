# The clock set back under a running server: a call waits for a clock that is
# a little behind, fails with 58000 when it is far behind, and goes on when it
# has been put right.  Nothing is ever minted from the past.  A waiting call
# can be cancelled, times out, and dies alone.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

my $node = new_server('clock', clock => 1, conf => '');
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $wait_event = $version >= 170000 ? 'SnowflakeClockBehind' : 'Extension';

sub mint
{
	my ($shard) = @_;
	return $node->safe_psql('postgres', "SELECT snowflake_nextval($shard)");
}

# Seconds that a statement took by a clock that the test does not move.
sub timed
{
	my ($code) = @_;
	my $began = time();
	$code->();
	return time() - $began;
}

# --- half a second behind: wait, then succeed
my $before = mint(1);
set_clock($node, -0.5);
my $after = mint(1);
my $elapsed = time();
$elapsed -= $node->safe_psql('postgres', "SELECT extract(epoch FROM snowflake_timestamp($before))");
cmp_ok($after, '>', $before, 'half a second behind: the next id is greater');
cmp_ok($elapsed, '>', 0.49, 'because the call waited');
cmp_ok( $node->safe_psql('postgres', "SELECT snowflake_timestamp($after) <= clock_timestamp()"),
	'eq', 't', 'and is not from the future');

# --- the step shows on every shard, or ids would sort before older ones
$before = mint(1);
set_clock($node, -1.2);
$after = mint(2);
cmp_ok($after, '>', $before, 'another shard does not mint from the past either');

# --- an hour behind: an error that says so, at once with no tolerance
set_clock($node, 0);
$before = mint(1);
set_clock($node, -3600);
fails_with($node, 'SELECT snowflake_nextval(1)', '58000',
	qr/clock is 59 min \d+ s behind the last snowflake id.*Waited \d+\.\d s for the clock; "snowflake\.clock_tolerance" is 1\.0 s.*Minting goes on by itself when the clock has reached 20\d\d-\d\d-\d\dT/s,
	'an hour behind: 58000 names how far');
fails_with($node, "SET snowflake.clock_tolerance = 0;\nSELECT snowflake_nextval(1)",
	'58000', qr/behind the last snowflake id.*Waited 0 ms/s,
	'no tolerance, no wait');
fails_with($node, "SET snowflake.shards = '0-7'; SET snowflake.clock_tolerance = 0;\nSELECT snowflake_nextval()",
	'58000', qr/behind the last snowflake id/,
	'a clock that is behind does not spill to shards that were never used');
is($node->safe_psql('postgres', "SELECT snowflake_shard($before)"), 1,
	'ids can be read meanwhile');
set_clock($node, 0);
$after = mint(1);
cmp_ok($after, '>', $before, 'the clock put right, minting goes on');

# --- the clock far ahead for a moment, and nothing borrowed from the future
set_clock($node, 3600);
$before = mint(1);
set_clock($node, 0);
fails_with($node, 'SELECT snowflake_nextval(1)', '58000', qr/clock is 59 min \d+ s behind/,
	'back from an hour ahead: 58000');

# --- a call that waits: seen, cancelled, timed out, killed
$node->safe_psql('postgres', "ALTER SYSTEM SET snowflake.clock_tolerance = '1h'");
reload($node);
wait_until($node, "SELECT current_setting('snowflake.clock_tolerance') = '1h'");

$elapsed = timed(sub {
	fails_with($node, "SET statement_timeout = '200ms';\nSELECT snowflake_nextval(1)",
		'57014', qr/statement timeout/, 'statement_timeout ends the wait');
});
cmp_ok($elapsed, '<', 36, 'in less than a hundredth of it');
note(sprintf('statement_timeout of 200 ms: the call ended after %.0f ms', 1000 * $elapsed));

my $minting_query = q{FROM pg_stat_activity WHERE query LIKE 'SELECT snowflake_nextval(%' AND state = 'active' AND pid <> pg_backend_pid()};
my $waiting_query = "$minting_query AND wait_event_type = 'Extension' AND wait_event = '$wait_event'";

for my $how ('cancel', 'terminate')
{
	my @sessions = map { start_session($node, 'SELECT snowflake_nextval(1)') } 1 .. 2;
	ok(wait_until($node, "SELECT count(*) = 2 $waiting_query"),
		"pg_stat_activity shows the wait ($wait_event)");
	my $began = time();
	$node->safe_psql('postgres', "SELECT pg_${how}_backend(pid) $minting_query");
	for my $session (@sessions)
	{
		ok(!finish_session($session), "pg_${how}_backend ends the wait");
		like($session->{err}, $how eq 'cancel'
			? qr/canceling statement due to user request/
			: qr/terminating connection due to administrator command/,
			"with the usual message");
	}
	note(sprintf('pg_%s_backend: both calls ended after %.0f ms', $how, 1000 * (time() - $began)));
}

# one waits, and is killed; the others go on once the clock is right
my $killed = start_session($node, 'SELECT snowflake_nextval(1)');
wait_until($node, "SELECT count(*) = 1 $waiting_query");
my $victim = $node->safe_psql('postgres', "SELECT pid $minting_query");
my @survivors = map { start_session($node, 'SELECT snowflake_nextval(1)') } 1 .. 3;
wait_until($node, "SELECT count(*) = 4 $waiting_query");
kill 'TERM', $victim;
ok(!finish_session($killed), 'SIGTERM ends a waiting call');
set_clock($node, 3601);
ok(finish_session($_), 'the others mint when the clock is right') for @survivors;
my %ids = map { $_->{out} => 1 } @survivors;
is(scalar(keys %ids), 3, 'each an id of its own');
ok((grep { $_ > $before } keys %ids) == 3, 'and greater than those before');

# --- backends killed while they mint leave the others minting
$node->safe_psql('postgres', 'CREATE TABLE minted (id snowflake PRIMARY KEY)');
my @busy = map { start_session($node, <<'SQL') } 1 .. 4;
DO $$ BEGIN LOOP PERFORM snowflake_nextval(9); END LOOP; END $$;
SQL
my $busy_query = "FROM pg_stat_activity WHERE query LIKE 'DO %nextval(9)%' AND pid <> pg_backend_pid()";
wait_until($node, "SELECT count(*) = 4 $busy_query");
my $minting = start_session($node, 'INSERT INTO minted SELECT snowflake_nextval(9) FROM generate_series(1, 200000)');
kill 'TERM', split(/\n/, $node->safe_psql('postgres', "SELECT pid $busy_query"));
ok(!finish_session($_), 'SIGTERM ends a minting call') for @busy;
ok(finish_session($minting), 'and the others mint on');
is(count_of($node, 'minted'), 200000, 'every id of theirs');

# --- a clock outside the layout
restart_with_layout($node, 'epoch=2090-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:12');
fails_with($node, 'SELECT snowflake_nextval(1)', '22008',
	qr/clock is before the epoch of the layout.*The first time that layout .* can hold is 2090-01-01T00:00:00Z/s,
	'before the epoch nothing is minted');
restart_with_layout($node, 'epoch=2020-01-01 unit=1ms fields=timestamp:31,shard:10,sequence:12');
fails_with($node, 'SELECT snowflake_nextval(1)', '22008',
	qr/the layout of snowflake ids has expired.*can hold is 2020-01-25T.*Minting ended then/s,
	'nor when the layout has expired');

# a clock past the end by mistake, when a server starts for the first time, brings no horizon there,
# whether the layout has room for later ids or not
my $year = 1900 + (gmtime)[5];
$node->stop;
for my $layout ("epoch=@{[ $year - 2 ]}-01-01 unit=1s fields=timestamp:28,shard:10,sequence:10", "epoch=@{[ $year - 68 ]}-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:12")
{
	my $late = new_server('late' . length $layout, conf => "snowflake.layout = '$layout'");

	$late->stop;
	start_with_clock($late, 3600 * 2**16);
	fails_with($late, 'SELECT snowflake_nextval(1)', '22008', qr/the layout of snowflake ids has expired/, "$layout: past its end");
	is($late->safe_psql('postgres', 'SELECT snowflake_settled(); SELECT horizon FROM snowflake_horizon()'), "0\n", "$layout: there is no horizon");
	set_clock($late, 0);
	my $id = mints_at_last($late, 'SELECT snowflake_nextval(1)');
	$late->stop;
	start_with_clock($late, 3600 * 2**16);
	ok(wait_until($late, "SELECT snowflake_settled() > $id"), "$layout: past its end readers come to all rows");
	$late->stop;
}

done_testing();
