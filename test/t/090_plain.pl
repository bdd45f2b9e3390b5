# snowflake_plain mints no id twice: with many sessions that wake at once, with
# sessions stopped, cancelled and ended at each line of the rule while the clock goes
# back and forth, over crashes, far steps of the clock and promotions, while an owner does
# all that doc/managed.md tells to do.  And what that page says can repeat an id does so
# here.
#
# "test/check.sh --minutes 30 --only 090_plain" lets the storm last so long; else each thing
# happens once.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Path qw(rmtree);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

my $MINUTES = $ENV{SNOWFLAKE_LONG} || 0;
my $MINT = 'plain.snowflake_nextval()';
my $file = slurp_file("$FindBin::RealBin/../../sql/snowflake_plain.sql");

# A server whose clock can be moved, with snowflake_plain.
sub plain_server
{
	my ($name, %options) = @_;
	my $node = new_server($name, clock => 1, init => { allows_streaming => 1 }, conf => "max_connections = 100\nmax_wal_senders = 5\n" . ($options{conf} // ''));

	$node->safe_psql('postgres', "CREATE SCHEMA plain; SET search_path = plain;\n$file");
	set_up($node, $options{layout} // 'twitter');
	return $node;
}

sub set_up
{
	my ($node, $layout) = @_;

	$node->safe_psql('postgres', "SELECT plain.snowflake_plain_setup('$layout', '5')");
	return;
}

# A server that crashed leaves backends for a moment, and they keep the next one from starting.
sub start_again
{
	my ($node, $offset) = @_;

	for (1 .. 300)
	{
		$node->{_pid} = undef;
		return if start_with_clock($node, $offset, fail_ok => 1);
		sleep(0.1);
	}
	die 'the server does not start any more';
}

# Ids into a file, as they are received.
sub mint_into
{
	my ($node, $to, $count, $before) = @_;

	$node->psql('postgres', ($before // '') . "SELECT $MINT FROM generate_series(1, $count)", stdout => \my $out, stderr => \my $err, on_error_stop => 0);
	append_to_file($to, "$out\n") if $out =~ /\d/;
	return $err;
}

# --- Many sessions that wake at once, and statements of 1 and of many ids.  In the log
# --- of what was minted each id is above those that were surely minted before it.

my $node = plain_server('plain');
create_mint_log($node, 'log', $MINT);
my $BURSTS = 12;
my $sessions = 64;
my $wake = q{SELECT pg_sleep_until(date_bin('200 ms', clock_timestamp(), 'epoch') + interval '200 ms');};
my $burst = "$wake\nINSERT INTO log (n) VALUES (1);\n" x $BURSTS . "INSERT INTO log (n) SELECT generate_series(1, 1000);\n";
in_parallel($node, $sessions, $burst);
$node->safe_psql('postgres', 'INSERT INTO log (n) SELECT generate_series(1, 10000)');
mint_log_is_sound($node, 'log', $sessions * ($BURSTS + 1000) + 10000, label => '64 sessions');
is(count_of($node, "log WHERE plain.snowflake_shard(id) <> 5 OR plain.snowflake_timestamp(id) > clock_timestamp()"), 0,
	'64 sessions: on their shard, and none later than the clock');

# --- Nothing is sent to a client while the sequence is moved: one that does not read would
# --- keep the gate locked.  Each step of a transaction would be told.

for my $sets ('', 'plain.snowflake_plain_move(5, true), ')
{
	$node->psql('postgres', "SELECT pg_sleep(0.05);\nSET client_min_messages = debug5;\nSELECT $sets$MINT;", stderr => \my $told);
	like($told, qr/StartTransaction/, 'a client is told all');
	unlike($told, qr/SubTransaction/, 'but nothing while the sequence is moved');
}

# --- Nor does a lock of others keep anybody from minting: those of a statement that looks at
# --- all tables, of those who save a database, and of a migration that has called setup.

my $migration = $node->background_psql('postgres', on_error_die => 1);
$migration->query_safe("BEGIN; ANALYZE; SELECT plain.snowflake_plain_setup('twitter', '5')");
$migration->query_safe($_) for split(/\n/, $node->safe_psql('postgres',
		q{SELECT format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', oid::regclass) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'plain'::regnamespace}));
for (1 .. 3)
{
	my ($code, undef, $err) = $node->psql('postgres', "SELECT pg_sleep(0.05);\nSET lock_timeout = '10s';\nSELECT $MINT, plain.snowflake_nextval(5) FROM generate_series(1, 100)");
	is($err, '', 'tables are locked, and minting goes on');
}
$migration->query_safe('COMMIT');
$migration->quit;

# --- Exhausted ticks: two ids in 10 ms.  What is too much for a tick waits for the next.

$node->safe_psql('postgres', 'DROP TABLE log; DROP SEQUENCE log_moment; DROP SCHEMA plain CASCADE');
$node->safe_psql('postgres', "CREATE SCHEMA plain; SET search_path = plain;\n$file");
set_up($node, 'epoch=2024-01-01 unit=10ms fields=timestamp:42,shard:10,sequence:1');
create_mint_log($node, 'log', $MINT);
in_parallel($node, 4, 'INSERT INTO log (n) SELECT generate_series(1, 25)');
mint_log_is_sound($node, 'log', 100, label => 'exhausted ticks');
cmp_ok($node->safe_psql('postgres', 'SELECT extract(epoch FROM max(plain.snowflake_timestamp(id)) - min(plain.snowflake_timestamp(id))) FROM log'),
	'>=', 0.49, 'exhausted ticks: it took as many ticks as it had to');

# --- Stopped, cancelled and ended at each line that moves the sequence, while the clock
# --- goes back and forth, and others mint.  Each line of the function waits for a lock if
# --- the session is the one to be stopped.  The layout is slow, so that others can catch
# --- up with what the stopped session has read.

$node->safe_psql('postgres', 'DROP TABLE log; DROP SEQUENCE log_moment; DROP SCHEMA plain CASCADE');
$node->safe_psql('postgres', "CREATE SCHEMA plain; SET search_path = plain;\n$file");
set_up($node, 'epoch=2024-01-01 unit=10ms fields=timestamp:42,shard:10,sequence:5');
my $lines = 0;
my %line;

# Lets a session stop at each line that moves the sequence, or draws.
sub stop_at_lines
{
	($lines, %line) = (0);
	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION plain.stop_at(line int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('application_name') = 'stopped_at_' || line THEN
		PERFORM pg_advisory_lock(line);
		PERFORM pg_advisory_unlock(line);
	END IF;
END
$$;
SQL
	for my $function ('snowflake_plain_move(int, boolean)', 'snowflake_nextval()')
	{
		my $source = $node->safe_psql('postgres', "SELECT pg_get_functiondef('plain.$function'::regprocedure)");

		# before each statement of the bodies of blocks; "last >> 5" and the like stay whole
		$source =~ s/^(\s+)(?=(IF pg_|tick :=|PERFORM |last :=|first :=|c :=|behind :=|RETURN \(|RAISE SQLSTATE|LOCK TABLE))/$line{$2} = ++$lines; "$1PERFORM plain.stop_at($lines); "/gme;
		$node->safe_psql('postgres', $source);
	}
	return;
}
stop_at_lines();
cmp_ok($lines, '>=', 15, "there are $lines lines to stop at");

my $ids = PostgreSQL::Test::Utils::tempdir() . '/ids';
my %stopped = map { $_ => 0 } 'goes on', 'is cancelled', 'is ended';
for my $line (1 .. $lines)
{
	my $how = $line % 2 ? 'goes on' : $line % 4 ? 'is cancelled' : 'is ended';
	my $holder = $node->background_psql('postgres', on_error_die => 1);
	$holder->query_safe("SELECT pg_advisory_lock($line)");

	sleep(0.05);    # the shard is idle, so the sequence is to be moved
	my $began = time();
	my $session = start_session($node, "SELECT $MINT;\n", connection => " application_name=stopped_at_$line");
	my $where = "pg_stat_activity WHERE application_name = 'stopped_at_$line'";
	my $is_there;
	wait_for(sub { ($is_there = $node->safe_psql('postgres', "SELECT count(*) FROM $where AND wait_event = 'advisory'")) || has_ended($session) })
	  or die "line $line: neither stopped nor at its end";
	if ($is_there)
	{
		# others mint past the time at which it was stopped; then it is that time again
		set_clock($node, $began - 0.3 - time());
		$node->psql('postgres', "SET statement_timeout = '700ms';\n" . "SELECT $MINT FROM generate_series(1, 40);\n" x 60, stdout => \my $out, on_error_stop => 1);
		append_to_file($ids, "$out\n") if $out =~ /\d/;
		set_clock($node, $began - 0.1 - time());
		my %do = ('is cancelled' => 'pg_cancel_backend', 'is ended' => 'pg_terminate_backend');
		$node->safe_psql('postgres', "SELECT $do{$how}(pid) FROM $where") if $do{$how};
		$stopped{$how}++;
	}
	$holder->quit;
	my $good = finish_session($session);
	append_to_file($ids, "$session->{out}\n") if $good;
	ok($good || $how ne 'goes on', "stopped at line $line") or diag($session->{err});
	set_clock($node, 0);
	is(mint_into($node, $ids, 60), '', "after line $line, where a session was stopped and $how, others mint") if $is_there;
}
cmp_ok($stopped{$_}, '>', 2, "$stopped{$_} times a session was stopped and $_") for sort keys %stopped;
cmp_ok(ids_are_distinct('stopped at each line', $ids), '>', 200, 'and ids were minted');

# --- Sessions that have seen the shard open draw while it is moved: more than lie between the
# --- last position and the one it is moved to.  In a tick of a minute there are four.

# Mint an id in ticks of a minute.  If it waits for the next tick, the clock goes on by a minute.
my $minutes = 0;
sub next_minute { my ($server) = @_; set_clock($server, 60 * ++$minutes); return }
sub mint_in_minutes
{
	my ($server, $to, $dbname) = @_;
	my $session = start_session($server, "SELECT $MINT;\n", dbname => $dbname, connection => ' application_name=in_minutes');

	wait_for(sub { has_ended($session) || $server->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'in_minutes' AND wait_event = 'PgSleep'}) });
	next_minute($server) if !has_ended($session);
	ok(finish_session($session), 'an id in ticks of a minute') || diag($session->{err});
	append_to_file($to, "$session->{out}\n");
	return;
}

$node->safe_psql('postgres', "DROP SCHEMA plain CASCADE; CREATE SCHEMA plain; SET search_path = plain;\n$file");
set_up($node, 'epoch=2024-01-01 unit=60s fields=timestamp:36,shard:10,sequence:2');
mint_in_minutes($node, $ids);
stop_at_lines();
my $stopper = $node->background_psql('postgres', on_error_die => 1);
$stopper->query_safe("SELECT pg_advisory_lock($line{$_})") for 'c :=', 'first :=';
my $stopped_at = sub {
	my ($statement, $count) = @_;
	wait_until($node, "SELECT count(*) = $count FROM pg_stat_activity WHERE application_name = 'stopped_at_$line{$statement}' AND wait_event = 'advisory'")
	  or die "not stopped at $statement";
};
my @drawers = map { start_session($node, "SELECT $MINT;\n", connection => " application_name=stopped_at_$line{'c :='}") } 1 .. 5;
$stopped_at->('c :=', 5);
$node->safe_psql('postgres', q{SELECT setval('plain.snowflake_open_5', 0, false)});    # as one that was ended in step 4 leaves it
my $mover = start_session($node, "SELECT $MINT;\n", connection => " application_name=stopped_at_$line{'first :='}");
$stopped_at->('first :=', 1);
$stopper->query_safe("SELECT pg_advisory_unlock($line{'c :='})");
wait_until($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'stopped_at_$line{'c :='}' AND wait_event = 'advisory'");
my $drawn = 'SELECT last_value FROM plain.snowflake_shard_5';
my $at_last = $node->safe_psql('postgres', $drawn);
ok(wait_for(sub { my $now = $node->safe_psql('postgres', $drawn); my $same = $now == $at_last; $at_last = $now; return $same }), 'all have drawn');
$stopper->quit;
for (1 .. 6)
{
	next_minute($node);
	sleep(0.3);
}
# one that is far ahead of the clock may say so, and has no id
ok(finish_session($_) || $_->{err} =~ /clock is \d+ s behind/, 'a session that was past the gate') || diag($_->{err}) for @drawers, $mover;
append_to_file($ids, "$_->{out}\n") for @drawers, $mover;
mint_into($node, $ids, 3);
ids_are_distinct('sessions past the gate', $ids);
set_clock($node, 0);

# --- A storm: minters with statements of 1 and of many ids, and crashes, clocks, cancels
# --- and promotions among them.  The clock is right after a crash; before, it goes
# --- where it likes.  Meanwhile the owner does what doc/managed.md tells to do, again and
# --- again: so the schema gets another name, other shards, and the way to C and back.

$node->stop('immediate');
my $master = plain_server('storm', conf => <<'CONF');
restart_after_crash = on
synchronous_commit = off
wal_keep_size = 256MB
snowflake.shards = '6'
CONF
my ($change_over) = page_text('doc/managed.md') =~ /^(CREATE EXTENSION IF NOT EXISTS snowflake .*?^COMMIT;)$/ms;
my (@files, %happened);
my $standbys = 0;
my ($owner, @minters);

# What a crash left as the owner was about to change it.
my $PUT_RIGHT = <<'SQL';
SELECT 'ALTER SCHEMA ids RENAME TO plain' WHERE to_regnamespace('ids') IS NOT NULL \gexec
SELECT plain.snowflake_plain_setup('twitter', '5');
SQL

# Each pauses, so that others mint meanwhile; each may fail, as a crash or a cancel comes.
my $OWNER = <<"SQL";
\\set ON_ERROR_STOP off
$PUT_RIGHT
SELECT pg_sleep(0.05);
BEGIN; ANALYZE; LOCK TABLE plain.snowflake_plain IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(0.1); COMMIT;
VACUUM FULL plain.snowflake_plain;
SELECT 'shards', plain.snowflake_plain_setup('twitter', '5,7');
SELECT pg_sleep(0.05);
SELECT plain.snowflake_plain_setup('twitter', '7');
SELECT pg_sleep(0.05);
SELECT plain.snowflake_plain_setup('twitter', '5');
BEGIN;
ALTER SCHEMA plain RENAME TO ids;
SELECT ids.snowflake_plain_setup(layout, array_to_string(shards, ',')) FROM ids.snowflake_plain;
COMMIT;
SELECT 'ids', pg_sleep(0.05);
BEGIN;
ALTER SCHEMA ids RENAME TO plain;
SELECT plain.snowflake_plain_setup(layout, array_to_string(shards, ',')) FROM plain.snowflake_plain;
COMMIT;
SELECT pg_sleep(0.05);
$change_over
SELECT 'c', pg_sleep(0.1);
SQL

sub stop_owner
{
	end_sessions($master, q{application_name = 'owner'}, $owner);
	$master->safe_psql('postgres', $PUT_RIGHT);
	return;
}

my $CALLERS = q{FROM pg_stat_activity WHERE query LIKE 'SELECT%snowflake%' AND pid <> pg_backend_pid()};
srand($ENV{SNOWFLAKE_SEED} // 20261123);
my @events = (
	[ 'an immediate stop' => sub { $master->stop('immediate'); start_again($master, 0) } ],
	[ 'SIGKILL of the postmaster' => sub { $master->kill9; start_again($master, 0) } ],
	[ 'SIGKILL of a backend' => sub {
			my $pid = eval { $master->safe_psql('postgres', "SELECT pid $CALLERS LIMIT 1") };
			kill('KILL', $pid) if $pid;
			# it is there until the server has noticed
			wait_for(sub { !$pid || !kill(0, $pid) }) or die 'the server notices nothing';
			comes_back($master) or die 'the server does not come back';
		} ],
	[ 'the clock back and forth' => sub {
			for my $offset (-1, 0.5, -3, 0) { set_clock($master, $offset); sleep(0.2) }
		} ],
	[ 'cancelled and ended sessions' => sub {
			for my $what ('cancel', 'terminate', 'cancel')
			{
				$master->safe_psql('postgres', "SELECT pg_${what}_backend(pid) $CALLERS AND random() < 0.5");
				sleep(0.1);
			}
		} ],
	[ 'a dump of the schema in its own place' => sub {
			my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';

			stop_owner();
			system_or_bail('pg_dump', '-n', 'plain', '--clean', '-f', $dump, $master->connstr('postgres'));
			end_sessions($master, q{query LIKE '%snowflake%'}, @minters);
			system_or_bail('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $master->connstr('postgres'));
		} ],
	[ 'a promotion' => sub {
			my $standby = PostgreSQL::Test::Cluster->new('standby_' . ++$standbys);
			my $old = $master;

			$old->backup("b$standbys");
			$standby->init_from_backup($old, "b$standbys", has_streaming => 1);
			start_with_clock($standby, 0);
			# and some WAL is lost
			$standby->safe_psql('postgres', q{ALTER SYSTEM SET primary_conninfo = ''});
			reload($standby);
			wait_until($standby, 'SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)');
			sleep(0.2);
			$old->stop('immediate');
			$standby->promote;
			$standby->safe_psql('postgres', 'ALTER SYSTEM RESET primary_conninfo');
			rmtree([ $old->backup_dir . "/b$standbys", $old->data_dir ]);
			$master = $standby;
		} ]);

my $began = time();
for (my $round = 0; $round < @events || time() < $began + 60 * $MINUTES; $round++)
{
	my ($what, $event) = @{ $events[ $round % @events ] };
	$owner = start_session($master, $OWNER x 500, connection => ' application_name=owner', map { $_ => PostgreSQL::Test::Utils::tempdir() . "/owner_$_" } 'to', 'errors');
	# they find the functions wherever the schema is, and go on after an error
	@minters = map {
		start_minters($master, $_->[0], 'snowflake_nextval()', batch => $_->[1], pause => $_->[2],
			before => "\\set ON_ERROR_STOP off\nSET search_path = plain, ids;\n", errors => PostgreSQL::Test::Utils::tempdir() . '/errors')
	} [ 3, 1, 0.01 ], [ 2, 100, 0.05 ], [ 1, 5000, 0.5 ];

	all_mint(1, @minters[ 0 .. 4 ]);
	sleep($MINUTES ? 2 + rand(6) : 0.5);
	eval { $event->(); 1 } or die "$what: $@", grep { /terminated by signal|PANIC|TRAP/ } split(/^/, slurp_file($master->logfile));
	$happened{$what}++;
	push @files, stop_minters(@minters);
	stop_owner();
	push @files, PostgreSQL::Test::Utils::tempdir() . '/after';
	is(mint_into($master, $files[-1], 1000), '', "$what: minting goes on");
}
cmp_ok(ids_are_distinct('the storm', @files), '>=', 1000 * @events, join(', ', map { "$happened{$_} times $_" } sort keys %happened));
my %shards;
for my $file (@files)
{
	open(my $ids, '<', $file) or next;    # of one that got none
	while (<$ids>) { $shards{ ($_ >> 12) & 1023 }++ if /^\d+$/ }
	close($ids);
}
is(join(',', sort keys %shards), '5,6,7', 'on each of its shards, and that of C');
$master->stop('immediate');

# --- What can repeat an id, as the page says: WAL was lost, and the clock is behind.  The
# --- layout is slow, so that each position of a tick is used.

my $slow = 'epoch=2024-01-01 unit=10ms fields=timestamp:42,shard:10,sequence:5';
my $lossy = plain_server('lossy', layout => $slow, conf => "synchronous_commit = off\nautovacuum = off\n");
my $files = 0;
sub ids_of
{
	my ($count, %options) = @_;
	my $to = PostgreSQL::Test::Utils::tempdir() . '/ids' . ++$files;

	append_to_file($to, $lossy->safe_psql($options{dbname} // 'postgres', "SELECT $MINT FROM generate_series(1, $count)") . "\n");
	return $to;
}

# Those of the time that follows, by a clock that is set back before a session may have
# begun.
sub ids_from
{
	my ($began, %options) = @_;

	set_clock($lossy, $began - time() - 3);
	return ids_of(12_000, %options);
}

# Mint ids, and crash before their WAL is written: the WAL writer stands still meanwhile.
sub mint_and_crash
{
	my ($count) = @_;
	my $writer = $lossy->safe_psql('postgres', "CHECKPOINT; SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");

	kill('STOP', $writer) or die "the WAL writer: $!";
	my $ids = ids_of($count);
	$lossy->kill9;
	kill('KILL', $writer);
	return $ids;
}

# How many ids came twice after a crash.
sub repeated_after_crash
{
	my ($behind) = @_;
	my $began = time();
	my $before = mint_and_crash(600);

	start_again($lossy, $behind ? $began - time() - 5 : 0);
	my (undef, $twice) = duplicates($before, $behind ? ids_from($began) : ids_of(2000));
	set_clock($lossy, 0);
	return $twice;
}
is(repeated_after_crash(0), 0, 'lost WAL, and the clock is right: no id twice');
cmp_ok(repeated_after_crash(1), '>', 0, 'lost WAL, and the clock is behind: ids twice');

# --- A crash is over within a tick, and WAL was lost: the ids of that tick are not given again.
my $long = 3;
$lossy->safe_psql('postgres', "DROP SCHEMA plain CASCADE; CREATE SCHEMA plain; SET search_path = plain;\n$file");
set_up($lossy, "epoch=2024-01-01 unit=${long}s fields=timestamp:40,shard:10,sequence:10");
ids_of(1);
my $early = (int(time() / $long) + 1) * $long + 0.5;
sleep($early - time());
my $given = mint_and_crash(20);
my $crashed = time();
start_again($lossy, $crashed - time());
set_clock($lossy, $crashed - time());
is((duplicates($given, ids_of(20)))[1], 0, 'a crash within a tick: no id twice');
set_clock($lossy, 0);

# --- A dump that is restored within the tick carries no open shard: into another database,
# --- and in the place of what it was made of.
$lossy->safe_psql('postgres', "DROP SCHEMA plain CASCADE; CREATE SCHEMA plain; SET search_path = plain;\n$file");
set_up($lossy, 'epoch=2024-01-01 unit=60s fields=timestamp:36,shard:10,sequence:10');
$minutes = 0;
my @in_tick = (ids_of(0));
mint_in_minutes($lossy, $in_tick[0]);
my @dumps = map { PostgreSQL::Test::Utils::tempdir() . "/dump_$_" } 'whole', 'schema';
command_ok([ 'pg_dump', '-f', $dumps[0], $lossy->connstr('postgres') ], 'a dump');
command_ok([ 'pg_dump', '-n', 'plain', '--clean', '-f', $dumps[1], $lossy->connstr('postgres') ], 'a dump of the schema');
push @in_tick, ids_of(10);
$lossy->safe_psql('postgres', 'CREATE DATABASE within');
for (my $i = 0; $i < 2; $i++)
{
	my $dbname = ('within', 'postgres')[$i];

	system_or_bail('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dumps[$i], $lossy->connstr($dbname));
	push @in_tick, PostgreSQL::Test::Utils::tempdir() . "/within_$i";
	mint_in_minutes($lossy, $in_tick[-1], $dbname);
	append_to_file($in_tick[-1], slurp_file(ids_of(10, dbname => $dbname)));
	is((duplicates(@in_tick))[1], 0, "restored within the tick into $dbname: no id twice");
	pop @in_tick if $dbname eq 'within';    # two databases of a server have one shard
	next_minute($lossy);
}

# From now on the whole minute is to come in which the last id was minted.
sub begin_minute
{
	set_clock($lossy, 1704067201 + 60 * $lossy->safe_psql('postgres', 'SELECT last_value >> 10 FROM plain.snowflake_shard_5') - time());
	return;
}

# So does one of a single table: of an application's, and of the shard's sequence.
$lossy->safe_psql('postgres', "CREATE TABLE photos (id bigint DEFAULT $MINT)");
for my $table ('photos', 'plain.snowflake_shard_5')
{
	my $dump = PostgreSQL::Test::Utils::tempdir() . "/dump_$table";

	push @in_tick, PostgreSQL::Test::Utils::tempdir() . "/before_$table";
	mint_in_minutes($lossy, $in_tick[-1]);
	begin_minute();
	command_ok([ 'pg_dump', '-t', $table, '--clean', '-f', $dump, $lossy->connstr('postgres') ], "a dump of $table");
	push @in_tick, ids_of(10);
	system_or_bail('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $lossy->connstr('postgres'));
	push @in_tick, PostgreSQL::Test::Utils::tempdir() . "/after_$table";
	mint_in_minutes($lossy, $in_tick[-1]);
	append_to_file($in_tick[-1], $lossy->safe_psql('postgres', 'INSERT INTO photos DEFAULT VALUES RETURNING id') . "\n");
	is((duplicates(@in_tick))[1], 0, "a dump of $table in its own place, within the tick: no id twice");
}

# --- What can repeat an id as well, as the page says: setval() by the owner
begin_minute();
my $before = ids_of(100);
$lossy->safe_psql('postgres', q{SELECT setval('plain.snowflake_shard_5', last_value - 20) FROM plain.snowflake_shard_5});
is((duplicates($before, ids_of(50)))[1], 20, 'setval() by the owner: ids twice');
set_clock($lossy, 0);
$lossy->safe_psql('postgres', "DROP TABLE photos; DROP SCHEMA plain CASCADE; CREATE SCHEMA plain; SET search_path = plain;\n$file");
set_up($lossy, $slow);

# --- a backup or dump, too
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
command_ok([ 'pg_dump', '-f', $dump, $lossy->connstr('postgres') ], 'a dump');
$began = time();
my $dumped = ids_of(600);

# How many ids come twice in a database that is restored from it.
sub repeated_in
{
	my ($name) = @_;

	$lossy->safe_psql('postgres', "CREATE DATABASE $name");
	system_or_bail('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $lossy->connstr($name));
	return (duplicates($dumped, $name =~ /behind/ ? ids_from($began, dbname => $name) : ids_of(2000, dbname => $name)))[1];
}
is(repeated_in('restored_right'), 0, 'restored, and the clock is right: no id twice');
# on a busy machine a session may begin too late
my $databases = 0;
ok(wait_for(sub { repeated_in('restored_behind_' . ++$databases) > 0 }), 'restored, and the clock is behind: ids twice');
set_clock($lossy, 0);

# --- A clock that was far ahead: calls fail at once, use no values up, and go on
set_clock($lossy, 3600);
my $ahead = ids_of(10);
set_clock($lossy, 0);
my $at = $lossy->safe_psql('postgres', 'SELECT last_value FROM plain.snowflake_shard_5');
fails_with($lossy, "SELECT $MINT", '58000', qr/clock is \d+ s behind the last snowflake id/, 'a clock that was far ahead') for 1 .. 4;
cmp_ok($lossy->safe_psql('postgres', 'SELECT last_value FROM plain.snowflake_shard_5') - $at, '<=', 1, 'calls that fail use no values up');
$lossy->safe_psql('postgres', "SELECT plain.snowflake_plain_setup('$slow', '6')");
is($lossy->safe_psql('postgres', "SELECT plain.snowflake_shard($MINT)"), 6, 'a shard that was never used mints at once');
set_clock($lossy, 3596);
$lossy->safe_psql('postgres', "SELECT plain.snowflake_plain_setup('$slow', '5')");
is((duplicates($ahead, ids_of(100)))[1], 0, 'and the shard itself when the clock has caught up, and no id twice');

done_testing();
