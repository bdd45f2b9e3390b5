# Who hinders a call from locking the registry: each lock, granted or awaited, of each kind of
# session; and whose transaction a call may end.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use IPC::Run ();
use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry', clock => 1, init => { allows_streaming => 1 });
my @modes = ('ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE');
my $call = q(SELECT FROM moved.snowflake_registry_lease('%s', 0, 1, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min'));

sub ask { return $registry->safe_psql('postgres', $_[0]) }

$registry->append_conf('postgresql.conf', "max_prepared_transactions = 10\n");
$registry->stop;
start_with_clock($registry);
# a schema of another name than when it was made
ask('ALTER SCHEMA public RENAME TO moved; ALTER DATABASE postgres SET search_path = moved');

# Those who hinder: the names of sessions and of prepared transactions.
my $hinders = q(SELECT string_agg(name, ', ' ORDER BY pid IS NOT NULL, name COLLATE "C")
	FROM (SELECT l.pid, coalesce(a.application_name, substring(l.who FROM '^Prepared transaction "(.*?)" of user "postgres" has had it since \d{4}-'), l.who) AS name
			FROM moved.snowflake_registry_lockers() AS l LEFT JOIN pg_stat_activity AS a USING (pid)) AS named);

sub hinder { my ($names, $name) = @_; return is(ask($hinders), $names, $name) }

# Sessions with a name, which stay until they are ended.
my %session;
sub begin_session
{
	my ($name, $sql, $role) = @_;

	$session{$name} = start_session($registry, "BEGIN;\n$sql;\nSELECT pg_sleep(100000)", connection => " application_name='$name'" . ($role ? " user=$role" : ''), errors => '/dev/null');
	return;
}

sub is_there
{
	my ($name, $condition) = @_;

	ok(wait_until($registry, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$name' AND $condition"), "$name is there");
	return;
}

sub waits { return is_there($_[0], q(wait_event_type = 'Lock')) }
sub sleeps { return is_there($_[0], q(wait_event = 'PgSleep')) }

sub end_all
{
	ask(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'));
	finish_session($_) for values %session;
	%session = ();
	ok(wait_until($registry, q(SELECT count(*) = 0 FROM pg_locks WHERE relation::regclass::text ~ '^snowflake_registry_')), 'all are gone');
	return;
}

sub end_all_prepared
{
	my @names = @_;

	ask("ROLLBACK PREPARED '$_'") for @names;
	return;
}

# --- a lock that somebody has: it is told if and only if it hinders
ask(<<'SQL');
CREATE FUNCTION moved.is_locked(name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN EXCLUSIVE MODE NOWAIT', name);
    RETURN false;
EXCEPTION WHEN lock_not_available THEN
    RETURN true;
END
$$
SQL
for my $table (qw(state holders shards))
{
	my $script = join('', map { <<"SQL" } @modes);
BEGIN; LOCK TABLE snowflake_registry_$table IN $_ MODE; PREPARE TRANSACTION '$_';
SELECT concat('$_: ', ($hinders) = '$_', ' ', is_locked('snowflake_registry_$table'));
ROLLBACK PREPARED '$_';
SQL

	is(ask($script), join("\n", 'ACCESS SHARE:  f', map { "$_: t t" } @modes[ 1 .. $#modes ]), "each lock of $table");
}
is(ask(q(BEGIN; LOCK TABLE snowflake_registry_state, snowflake_registry_holders, snowflake_registry_shards IN EXCLUSIVE MODE; SELECT count(*) FROM snowflake_registry_lockers())), 0,
	'its own hinder nobody');
ask(q(BEGIN; INSERT INTO snowflake_registry_shards VALUES (1); SAVEPOINT a; INSERT INTO snowflake_registry_shards VALUES (2); LOCK TABLE snowflake_registry_holders IN SHARE MODE;
	PREPARE TRANSACTION 'many'));
ask(q(BEGIN; SELECT FROM snowflake_registry_shards FOR UPDATE; SELECT FROM snowflake_registry_state FOR UPDATE; PREPARE TRANSACTION 'another'));
hinder('another, many', 'a prepared transaction is named once');
begin_session('writer', 'SAVEPOINT a; INSERT INTO snowflake_registry_shards VALUES (3); SAVEPOINT b; INSERT INTO snowflake_registry_shards VALUES (4)');
sleeps('writer');
hinder('another, many, writer', 'so is a session with savepoints');
end_all_prepared('another', 'many');
end_all();

# the tables of another database, with the same numbers
$registry->safe_psql('template1', 'CREATE DATABASE beside TEMPLATE postgres');
$registry->safe_psql('beside', q(BEGIN; LOCK TABLE moved.snowflake_registry_state IN EXCLUSIVE MODE; PREPARE TRANSACTION 'of the database beside'));
hinder('', 'a lock in another database hinders nobody');
is($registry->safe_psql('beside', $hinders), 'of the database beside', 'but those there');
$registry->safe_psql('beside', q(ROLLBACK PREPARED 'of the database beside'));

# --- who waits: for a lock that would be granted before the one of a call, and hinder it
ask(q(BEGIN; LOCK TABLE snowflake_registry_shards IN ACCESS EXCLUSIVE MODE; PREPARE TRANSACTION 'first'));
begin_session($_, "LOCK TABLE snowflake_registry_shards IN $_ MODE") for @modes;
begin_session('has one', 'LOCK TABLE snowflake_registry_holders IN ROW SHARE MODE; LOCK TABLE snowflake_registry_shards IN SHARE MODE');
waits($_) for @modes, 'has one';
hinder('first, ACCESS EXCLUSIVE, SHARE, SHARE ROW EXCLUSIVE, SHARE UPDATE EXCLUSIVE, has one', 'who waits');
is(ask(q(SELECT string_agg(concat(a.application_name, substring(l.who FROM ', and waits.*')), ' ' ORDER BY a.application_name COLLATE "C")
	FROM snowflake_registry_lockers() AS l JOIN pg_stat_activity AS a USING (pid))), join(' ', 'ACCESS EXCLUSIVE, and waits for AccessExclusiveLock.', 'SHARE, and waits for ShareLock.',
		'SHARE ROW EXCLUSIVE, and waits for ShareRowExclusiveLock.', 'SHARE UPDATE EXCLUSIVE, and waits for ShareUpdateExclusiveLock.', 'has one'), 'and for what, if it has nothing');
end_all_prepared('first');
end_all();

# --- readers: only if somebody waits for them, who hinders the call
begin_session('reader', 'SELECT FROM snowflake_registry_shards');
begin_session('serializable', 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT FROM snowflake_registry_shards');
sleeps($_) for 'reader', 'serializable';
hinder('', 'readers hinder nobody');
ask(q(INSERT INTO snowflake_registry_shards VALUES (5); BEGIN; SELECT FROM snowflake_registry_shards FOR UPDATE; PREPARE TRANSACTION 'of the row'));
begin_session('for update', 'SELECT FROM snowflake_registry_shards FOR UPDATE');
waits('for update');
hinder('of the row, for update', 'nor if others wait for a row');
end_all_prepared('of the row');
sleeps('for update');
ask(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'for update'));
finish_session(delete $session{'for update'});
ask(q(BEGIN; LOCK TABLE snowflake_registry_holders, snowflake_registry_shards IN EXCLUSIVE MODE; PREPARE TRANSACTION 'first'));
begin_session('another', 'LOCK TABLE snowflake_registry_shards IN EXCLUSIVE MODE');
begin_session('vacuum of holders', 'LOCK TABLE snowflake_registry_holders IN ACCESS EXCLUSIVE MODE');
waits($_) for 'another', 'vacuum of holders';
hinder('first, vacuum of holders', 'nor if others wait, or for another table');
begin_session('vacuum', 'LOCK TABLE snowflake_registry_shards IN ACCESS EXCLUSIVE MODE');
waits('vacuum');
hinder('first, reader, serializable, vacuum, vacuum of holders', 'but if VACUUM FULL waits for them');
end_all_prepared('first');
end_all();

# --- whose transaction is overdue: one of a role that can only call, which is idle, or has lasted
# --- for 5 s and does not wait for a standby
my $overdue = q(SELECT string_agg(a.application_name, ', ' ORDER BY a.application_name) FROM moved.snowflake_registry_lockers() AS l JOIN pg_stat_activity AS a USING (pid) WHERE l.is_overdue);

ask(q(ALTER SYSTEM SET synchronous_standby_names = 'nobody'));
reload($registry);
begin_session('superuser', 'LOCK TABLE snowflake_registry_state IN ROW SHARE MODE');
begin_session('reader of tables', 'LOCK TABLE snowflake_registry_state IN ACCESS SHARE MODE; SELECT FROM snowflake_registry_state FOR UPDATE');
sleeps($_) for 'superuser', 'reader of tables';
is(ask($overdue), '', 'those who may do more');
end_all();
for my $case ([ 'busy', '; SELECT pg_sleep(100000)', q(wait_event = 'PgSleep'), 'busy' ], [ 'committing', '; COMMIT', q(wait_event = 'SyncRep'), '' ])
{
	my ($name, $then, $is_there, $overdue_then) = @$case;
	my $sql = sprintf($call, $name);
	my $began = time();

	stop_clock($registry, $began);
	$session{$name} = start_session($registry, "BEGIN;\n$sql$then", connection => " application_name='$name' user=ids", errors => '/dev/null');
	is_there($name, $is_there);
	hinder($name, "$name: it has the lock");
	stop_clock($registry, $began + 5);
	is(ask($overdue), '', "$name: it has lasted for 5 s");
	stop_clock($registry, $began + 5.001);
	is(ask($overdue), $overdue_then, "$name: it has lasted for more than 5 s");
	set_clock($registry, 0);
	end_all();
}
ask(q(ALTER SYSTEM RESET synchronous_standby_names));
reload($registry);

# --- a call waits for a transaction that ends in time
begin_session('short', <<'SQL');
LOCK TABLE snowflake_registry_shards IN SHARE MODE;
DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP; PERFORM pg_sleep(0.5); END $$;
COMMIT
SQL
sleeps('short');
is(($registry->psql('postgres', q(SELECT snowflake_registry_fence('0') IS NOT NULL)))[1], 't', 'a transaction that ends in time');
end_all();

# --- one that does not end is told so once, and the call fails
my $log = -s $registry->logfile;
$session{stuck} = start_session($registry, "BEGIN;\n" . sprintf($call, 'stuck') . '; SELECT pg_sleep(100000)', connection => q( application_name='stuck' user=ids), errors => '/dev/null');
sleeps('stuck');
my $stuck = ask(q(SELECT pid FROM pg_stat_activity WHERE application_name = 'stuck'));
kill 'STOP', $stuck;
set_clock($registry, 6);
like(($registry->psql('postgres', "SELECT snowflake_registry_fence('0')"))[2], qr/ERROR:  another transaction has locked the snowflake registry\n.*Process $stuck of/, 'one that does not end: it is told');
is(scalar(() = slurp_file($registry->logfile, $log) =~ /LOG:  ended a session that had locked the snowflake registry\n.*Process $stuck of/g), 1, 'it was to end, once');
kill 'CONT', $stuck;
set_clock($registry, 0);
end_all();

# --- a deadlock is no error of its own: who has the lock is told
my $caller = start_session($registry, sprintf(<<'SQL', sprintf($call, 'one of two')));
\set VERBOSITY verbose
SET deadlock_timeout = '10 ms';
SELECT pg_advisory_lock(5);
DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
%s
SQL
ok(wait_until($registry, q(SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory')), 'a caller, for whom another session waits');
begin_session('deadlocked', q(SET LOCAL deadlock_timeout = '10 min'; LOCK TABLE snowflake_registry_shards IN EXCLUSIVE MODE; SELECT pg_advisory_lock(5)));
finish_session($caller);
like($caller->{err}, qr/55P03: another transaction has locked the snowflake registry\n.*Process \d+ of user "[^"]+" \(active\)/, 'a deadlock: who has the lock is told');
end_all();

$registry->stop;
done_testing();
