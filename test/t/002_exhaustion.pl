# A shard whose tick is exhausted makes the call wait for the next one: no error,
# no duplicate, never more ids in a tick than the layout has, and no CPU
# burned.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

# CPU time that a process has used, in seconds; undef where /proc is not had.
sub cpu_seconds
{
	my ($pid) = @_;
	my $stat = -r "/proc/$pid/stat" ? slurp_file("/proc/$pid/stat") : return undef;
	my @fields = split(/ /, $stat =~ s/^.*\) //r);

	return ($fields[11] + $fields[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# Four sessions at full speed, on one shard
sub is_sound
{
	my ($node, $table, $capacity, $each) = @_;
	my $sessions = 4;

	create_mint_log($node, $table, 'snowflake_nextval(7)');
	in_parallel($node, $sessions,
		"INSERT INTO $table (n) SELECT generate_series(1, $each)");
	mint_log_is_sound($node, $table, $sessions * $each);
	cmp_ok(most_in_a_tick($node, $table), '<=', $capacity, "$table: a tick has at most $capacity ids");
	return;
}

sub most_in_a_tick
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres',
		"SELECT max(ids) FROM (SELECT count(*) AS ids FROM $table GROUP BY snowflake_timestamp(id)) AS tick");
}

# How many ids a millisecond gets is the machine's affair
my $node = new_server('exhaustion', conf => "snowflake.layout = 'instagram'");
is_sound($node, 'instagram', 1024, 100_000);

# but 64 in 20 ms are few for every machine.
for my $fields ('shard:10,sequence:6', 'sequence:6,shard:10')
{
	my ($kind) = $fields =~ /^(\w+)/;
	my $table = "${kind}_above";

	restart_with_layout($node, "epoch=2020-01-01 unit=20ms fields=timestamp:39,$fields");
	is_sound($node, $table, 64, 2_000);
	is(most_in_a_tick($node, $table), 64, "$table: ticks are exhausted");
	is($node->safe_psql('postgres', "SELECT max(snowflake_sequence(id)) FROM $table"),
		63, "$table: to the last sequence number");
}

# CPU while waiting: 8,000 ids take 2.5 s, nearly all of it waiting
SKIP:
{
	skip 'no /proc here', 2 unless -r '/proc/self/stat';

	# it begins when it is told to
	$node->safe_psql('postgres', 'CREATE SEQUENCE gate MINVALUE 0 START 0');
	my $session = start_session($node, <<'SQL');
SET application_name = 'waits';
DO $$ BEGIN WHILE (SELECT last_value FROM gate) < 1 LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT count(snowflake_nextval(8)) FROM generate_series(1, 8000);
SELECT pg_sleep(3600);
SQL
	my $pid;
	wait_for(sub { $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'waits' AND query LIKE 'DO%'}) })
	  or die 'there is no session';
	my ($began, $cpu) = (time(), cpu_seconds($pid));
	$node->safe_psql('postgres', q{SELECT setval('gate', 1)});

	wait_until($node, "SELECT query LIKE '%pg_sleep(3600)%' FROM pg_stat_activity WHERE pid = $pid");
	my $elapsed = time() - $began;
	my $share = (cpu_seconds($pid) - $cpu) / $elapsed;

	cmp_ok($elapsed, '>', 0.5, 'the session waited');
	cmp_ok($share, '<', 0.2, 'less than a fifth of a core while waiting');
	note(sprintf('%.1f%% of a core over %.1f s', 100 * $share, $elapsed));
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	finish_session($session);
}

# waits of less than a millisecond are seen, too
my $is_short = q(query LIKE '%generate_series(1, 100000000)%' AND pid <> pg_backend_pid());
restart_with_layout($node, 'epoch=2020-01-01 unit=1ms fields=timestamp:41,shard:10,sequence:1');
my $short = start_session($node, 'SELECT count(snowflake_nextval(8)) FROM generate_series(1, 100000000)');
ok(wait_until($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE $is_short AND wait_event_type = 'Extension'"), 'pg_stat_activity shows short waits');
end_sessions($node, $is_short, $short);

# a long tick, so that there is time to look: the wait has a name, holds no
# lock that keeps other shards, and ends when it is told to
$node->stop;
$node = new_server('long_tick',
	conf => "snowflake.layout = 'epoch=2020-01-01 unit=3600s fields=timestamp:30,shard:10,sequence:1'");
my $waiting = start_session($node, 'SELECT snowflake_nextval(1) FROM generate_series(1, 5)');
my ($type, $event) = $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000
  ? ('Extension', 'SnowflakeExhausted') : ('Extension', 'Extension');
ok( wait_until($node, <<"SQL"), 'pg_stat_activity shows what it waits for');
SELECT count(*) = 1 FROM pg_stat_activity
WHERE query LIKE '%generate_series(1, 5)%' AND pid <> pg_backend_pid()
AND wait_event_type = '$type' AND wait_event = '$event'
SQL
is($node->safe_psql('postgres', 'SELECT count(snowflake_nextval(2)) FROM generate_series(1, 2)'),
	2, 'another shard mints meanwhile');
$node->safe_psql('postgres',
	"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 5)%' AND pid <> pg_backend_pid()");
ok(!finish_session($waiting), 'a cancelled call ends');
like($waiting->{err}, qr/canceling statement due to user request/, 'because it was cancelled');
fails_with($node, "SET statement_timeout = '100ms';\nSELECT snowflake_nextval(1) FROM generate_series(1, 5)",
	'57014', qr/statement timeout/, 'statement_timeout ends a call that waits for an hour');

done_testing();
