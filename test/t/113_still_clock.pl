# A clock that stands still, so that all edges of ticks can be met: the first tick of the
# layout, the tick from which the horizon is renewed, the first one not to mint in, how far
# a clock may be behind, and what a stop makes of the horizon.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $EPOCH = 1893456000;    # 2030-01-01
my $TICK = 15;
my $node = new_server('still', clock => 1, conf => <<"CONF");
snowflake.layout = 'epoch=2030-01-01 unit=${TICK}s fields=timestamp:30,shard:3,sequence:4'
snowflake.shards = '0-7'
snowflake.clock_tolerance = 0
snowflake.reserve = ${\ (4 * $TICK) }s
CONF
my $file = $node->data_dir . '/snowflake.horizon';
my $mint = 'SELECT snowflake_nextval(0)';
my $settled = 'SELECT snowflake_settled() IS NOT NULL';

# SQL that is run while the clock stands two seconds after a tick has begun.
sub at
{
	my ($tick, $sql) = @_;

	stop_clock($node, $EPOCH + $TICK * $tick + 2);
	return $node->safe_psql('postgres', $sql) if defined $sql;
	return;
}

sub start_at
{
	my ($tick) = @_;

	start_with_clock($node, $EPOCH + $TICK * $tick - time());
	at($tick);
	return;
}

my $horizon = "SELECT (extract(epoch FROM horizon) - $EPOCH) / $TICK FROM snowflake_horizon()";

sub horizon_is
{
	my ($tick, $name) = @_;

	ok(wait_until($node, "SELECT ($horizon) = $tick"), "$name: the horizon is $tick ticks after the epoch") or diag($node->safe_psql('postgres', $horizon));
	return;
}

$node->stop;
start_at(0);

# --- The first tick of the layout

$node->safe_psql('postgres', $settled);
is($node->safe_psql('postgres', 'SELECT horizon IS NULL FROM snowflake_horizon()'), 't', 'at the epoch a look asks for no horizon');
is($node->safe_psql('postgres', $mint), 0, 'the first id of all');
is($node->safe_psql('postgres', 'SELECT shard, minted, last_id FROM pg_stat_snowflake'), '0|1|0', 'is counted');
is($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), 1, 'and the next one follows');

# --- From which tick on the horizon is renewed: half of the reserve before it, and what a
# --- renewal takes, after which it is set a tick further ahead

horizon_is(4, 'the reserve after the first id');
at(1, $_) for $settled, $mint;
at(2, $settled);
horizon_is(7, 'a reader in the very tick in which that is due');
at(5, $mint);
horizon_is(10, 'a session that mints, likewise');

# a shorter reserve, by which it would be nearer, and then the same
$node->append_conf('postgresql.conf', 'snowflake.reserve = 100ms');
reload($node);
my $renewed = $node->safe_psql('postgres', 'SELECT last_renewal FROM snowflake_horizon()');
for my $tick (8, 9)
{
	at($tick, $mint);
	ok(wait_until($node, q{SELECT state = 'idle' AND wait_event = 'Extension' FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'}), 'the worker has looked');
	is($node->safe_psql('postgres', 'SELECT last_renewal FROM snowflake_horizon()'), $renewed, "tick $tick: with a shorter reserve nothing is stored before it is due");
	horizon_is(10, "tick $tick");
}

# --- The first tick not to mint in, while the disk refuses a later horizon

mkdir "$file.tmp" or die;
my $refused = qr/cannot mint snowflake ids: could not create file/;
at(10);
fails_with($node, $mint, '58030', $refused, 'in the tick of the horizon nothing is minted');
$node->safe_psql('postgres', $settled);
fails_with($node, $mint, '58030', $refused, 'nor when a reader has raised the latest tick to it');
# what looks at the server tries as a call would
fails_with($node, q(SELECT snowflake_probe('horizon')), '58030', $refused, "a look $_: the disk still refuses") for 'at once', 'and again';
rmdir "$file.tmp";
my $last = mints_at_last($node, $mint);
is($node->safe_psql('postgres', "SELECT (extract(epoch FROM snowflake_timestamp($last)) - $EPOCH) / $TICK = 10, snowflake_sequence($last) = 0"), 't|t', 'then it is the first id of that tick');
horizon_is(11, 'and a short reserve is a tick');

# --- A clock that is behind

at(7, $settled);
fails_with($node, $mint, '58000', qr/clock is 43\.0 s behind the last snowflake id/, 'a reader does not take the latest tick back');
is($node->safe_psql('postgres', q(SET snowflake.clock_tolerance = '44s'; SELECT snowflake_probe('clock'))), '', 'a look, with a tolerance of one second more');
fails_with($node, q(SET snowflake.clock_tolerance = '42s'; SELECT snowflake_probe('clock')), '58000', qr/clock is 43\.0 s behind the last/, 'and of one second less');

# as long as the tolerance, and no longer
my $waited = 100;
for (1 .. 20)
{
	my (undef, undef, $err) = $node->psql('postgres', "SET snowflake.clock_tolerance = '20ms'; $mint");
	($waited) = $err =~ /Waited (\d+) ms/ or die $err;
	last if $waited < 100;
}
cmp_ok($waited, '>=', 20, 'a call waits as long as the tolerance');
cmp_ok($waited, '<', 100, 'and not as long as until it looks again');
my $clock = clock_file($node);
my $set_back = sprintf(q(printf '@%%d\n' %d >%s.new && mv %s.new %s), $EPOCH + $TICK * 7, $clock, $clock, $clock);
at(10);
is($node->safe_psql('postgres', <<"SQL"), "0\n0:1 3:1", 'with no tolerance there is no wait; and a call that names no shard counts for the first one');
SELECT snowflake_nextval(3) \\g /dev/null
\\! $set_back
SELECT snowflake_stat_reset() \\g /dev/null
DO \$\$ BEGIN PERFORM snowflake_nextval(3); EXCEPTION WHEN system_error THEN END \$\$;
DO \$\$ BEGIN PERFORM snowflake_nextval(); EXCEPTION WHEN system_error THEN END \$\$;
SELECT waits FROM pg_stat_snowflake_backends WHERE pid = pg_backend_pid();
SELECT string_agg(shard || ':' || clock_behind, ' ' ORDER BY shard) FROM pg_stat_snowflake WHERE clock_behind > 0;
SQL

# --- A stop: what was not renewed stays, and what was not stopped cleanly

at(11, $mint);
horizon_is(12, 'before a crash');
my $bytes = slurp_file($file);
$node->stop('immediate');
ok(slurp_file($file) eq $bytes, 'an immediate stop leaves the file alone');
for my $way ('a crash', 'a start without ids')
{
	start_at(11);
	ok(wait_until($node, q(SELECT state IS DISTINCT FROM 'horizon' FROM snowflake_horizon())), "the server starts after $way");
	horizon_is(12, "after $way");
	$node->stop;
}

# --- The end of a tick: a call that waits for it wakes then, and not a tick later

$node->append_conf('postgresql.conf', q(snowflake.layout = 'epoch=2030-01-01 unit=3600s fields=timestamp:30,shard:3,sequence:1'));
start_at(1000);
$node->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
stop_clock($node, $EPOCH + 3600 * 10 - 1);
my $session = start_session($node, 'SELECT snowflake_nextval(1) FROM generate_series(1, 3)');
ok(wait_until($node, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 3)' AND wait_event_type = 'Extension')), 'a call waits, a second before the end of a tick');
my $began = time();
stop_clock($node, $EPOCH + 3600 * 10);
wait_for(sub { has_ended($session) }) or die 'the call sleeps on';
ok(finish_session($session), 'then it mints');
note(sprintf('after %d s', time() - $began));

$node->stop;
done_testing();
