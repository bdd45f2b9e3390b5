# The steady state.  A server that does not mint writes nothing; one that does
# renews its horizon a few times a second, whatever the rate; and nobody who
# mints waits for the disk, even where it is slow.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use List::Util qw(max);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

my $MOVES = 12;      # of the horizon are measured
my $STEADY = 10;     # each measurement of waiting lasts
my $SESSIONS = 8;
my $FSYNC_MS = 200;

# The server's own writers are kept quiet: what remains is ours.
my $node = new_server('steady', disk => 1, conf => <<'CONF');
fsync = on
wal_level = replica
autovacuum = off
checkpoint_timeout = 1h
snowflake.reserve = 1s
CONF
my $file = $node->data_dir . '/snowflake.horizon';

sub file_state
{
	my ($device, $inode, undef, undef, undef, undef, undef, $size, undef, $changed) =
	  Time::HiRes::stat($file);
	return "$inode $size $changed";
}

sub wal_position
{
	return $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
}

# How long the file takes to change so often while a session runs, in seconds from
# change to change.
sub seconds_of_moves
{
	my ($sql) = @_;
	my $session = start_session($node, $sql);
	my ($state, @moves) = (file_state());

	wait_for(sub {
		for (1 .. 20)
		{
			my $now = file_state();

			push @moves, time() if $now ne $state;
			$state = $now;
			sleep(0.005);
		}
		return @moves > $MOVES;
	});
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO%' AND pid <> pg_backend_pid()});
	finish_session($session);
	return @moves > $MOVES ? $moves[$MOVES] - $moves[0] : undef;
}

# --- how often the horizon moves

my $loop = <<'SQL';
DO $$ BEGIN
	LOOP
		PERFORM %s;
	END LOOP;
END $$;
SQL
for my $rate (
	[ 'as fast as it goes', 'snowflake_nextval(1) FROM generate_series(1, 1000)' ],
	[ 'ten ids a second', 'snowflake_nextval(1), pg_sleep(0.1)' ])
{
	my $seconds = seconds_of_moves(sprintf($loop, $rate->[1]));

	ok(defined $seconds, "$rate->[0]: the horizon moves");
	# one that was seen late makes the others seem faster
	cmp_ok($seconds, '>', ($MOVES - 3) / 3, "$rate->[0]: at most three times a second");
	note("$rate->[0]: $MOVES moves in $seconds s");
}

# --- idle: a session that has minted is still there
#
# The background writer logs the running transactions once after each burst of
# activity, at a time of its choice; nothing else may be in the WAL.

my $idler = start_session($node, 'SELECT snowflake_nextval(1); SELECT pg_sleep(3600);');
ok(wait_until($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND wait_event = 'PgSleep'}), 'a session has minted');
# the worker has nothing left to do
my ($state_before, $wal_before) = ('', '');
wait_for(sub {
	my @before = ($state_before, $wal_before);
	sleep(2);
	($state_before, $wal_before) = (file_state(), wal_position());
	return "@before" eq "$state_before $wal_before"
	  && $node->safe_psql('postgres', q{SELECT state = 'idle' AND wait_event = 'Extension' FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'}) eq 't';
}) or die 'the server is not idle';
sleep(10);
my $wal_after = wal_position();
is(file_state(), $state_before, 'idle: the file is not touched in 10 s');
my $logged = '';
if ($wal_after ne $wal_before)
{
	my ($out) = run_command(
		[ 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-s', $wal_before, '-e', $wal_after ]);
	$logged = join("\n", grep { !/ RUNNING_XACTS / } split(/\n/, $out));
}
is($logged, '', 'idle: nothing is logged in 10 s');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
finish_session($idler);

# --- WAL for a million ids

sub wal_of
{
	my ($sql) = @_;
	my $before = wal_position();

	$node->safe_psql('postgres', $sql);
	return $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$before'");
}

$node->safe_psql('postgres', 'CREATE SEQUENCE core CACHE 1');
my $ours = wal_of('SELECT count(snowflake_nextval(1)) FROM generate_series(1, 1000000)');
my $cores = wal_of(q{SELECT count(nextval('core')) FROM generate_series(1, 1000000)});
note("WAL bytes for a million ids: $ours, of a core sequence $cores");
cmp_ok(50 * $ours, '<', $cores, 'a million ids write less than a fiftieth of the WAL of a sequence');

# --- nobody waits for the disk
#
# Eight sessions mint at a rate that leaves the processors idle, so that a
# long call is a wait and not somebody else's turn.  A disk whose fsyncs take
# long must not make calls longer, and the waits for the horizon, which the
# server counts for each session, must not be any.

my $steady = <<"SQL";
DO \$\$
DECLARE
	until timestamptz := clock_timestamp() + '$STEADY s';
	began timestamptz;
	longest interval := '0';
	calls int := 0;
BEGIN
	PERFORM snowflake_nextval();
	WHILE clock_timestamp() < until LOOP
		began := clock_timestamp();
		PERFORM snowflake_nextval();
		longest := greatest(longest, clock_timestamp() - began);
		calls := calls + 1;
		PERFORM pg_sleep(0.001);
	END LOOP;
	RAISE NOTICE 'longest % ms in % calls',
		round(extract(epoch FROM longest) * 1000, 3), calls;
END \$\$;
SQL

# The longest call of all sessions in ms, and the number of calls.
sub longest_call
{
	my ($longest, $calls) = (0, 0);

	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	for my $session (in_parallel($node, $SESSIONS, $steady))
	{
		my ($ms, $count) = $session->{err} =~ /longest ([\d.]+) ms in (\d+) calls/
		  or die "no figures: $session->{err}";
		$longest = max($longest, $ms);
		$calls += $count;
	}
	return ($longest, $calls);
}

$node->append_conf('postgresql.conf', q{snowflake.shards = '1-8'});
reload($node);
my ($usual, $usual_calls) = longest_call();
note("longest of $usual_calls calls on this machine's disk: $usual ms");

set_disk($node, "fsync_ms=$FSYNC_MS");
# the first renewal is what tells how long they take
in_parallel($node, 1, 'SELECT snowflake_nextval(), pg_sleep(0.01) FROM generate_series(1, 200)');
my $delayed_before = () = disk_log($node);
my ($slow, $slow_calls) = longest_call();
my $delayed = (() = disk_log($node)) - $delayed_before;
note("longest of $slow_calls calls where each fsync takes $FSYNC_MS ms more: $slow ms, with $delayed such fsyncs");
cmp_ok($delayed, '>', $STEADY, "$delayed fsyncs were slow");
cmp_ok($slow, '<', $FSYNC_MS, "longest call with slow fsyncs: $slow ms");

# --- a disk so slow that a renewal lasts longer than the reserve: minting is
# --- slow, and goes on

$node->append_conf('postgresql.conf', q{snowflake.reserve = 100ms});
reload($node);
set_disk($node, 'fsync_ms=300');
my $progress = start_session($node, <<"SQL");
SET statement_timeout = '20s';
DO \$\$ BEGIN
	FOR i IN 1 .. 50 LOOP
		PERFORM snowflake_nextval(), pg_sleep(0.1);
	END LOOP;
END \$\$;
SQL
ok(finish_session($progress), 'minting goes on where a renewal lasts longer than the reserve')
  or diag($progress->{err});
set_disk($node, '');

$node->stop;
done_testing();
