# The functions of the registry that run with its owner's rights, called among
# objects of people who would like to have these.  And who waits for the registry's
# lock is told for whom.

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

my $node = new_registry('registry');
my $fence = 0;

# As a server calls; gives the states.
sub call
{
	my ($before, %call) = @_;
	my $now = $fence++;
	my $next = $fence;
	my $confirmed = $now + ($call{lost} // 0);
	my $wanted = $call{wanted} // "'{1,2}', NULL";
	my $who = "'one', $now, $next, $confirmed, 'host', 'epoch=x', 7, NULL";

	return $node->safe_psql('hosted', ($before // '') . <<"SQL", extra_params => [ '-U', 'ids' ]);
SELECT string_agg(state, ' ') FROM reg.snowflake_registry_lease($who, '{}', '{}', '{}', $wanted, '{}', '1 min') WHERE state <> 'set_aside'
SQL
}

sub release
{
	my $now = $fence++;
	my $next = $fence;

	return $node->safe_psql('hosted', "SELECT state FROM reg.snowflake_registry_release('one', $now, $next, $now, 'host', 'epoch=x', 7, NULL, '{1,2}', '{-infinity,-infinity}')",
		extra_params => [ '-U', 'ids' ]);
}

sub nobody_gained
{
	my ($name) = @_;
	is($node->safe_psql('hosted', q(SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolsuper AND rolname IN ('bob', 'ids'))), '', "$name: nobody has become a superuser");
	return;
}

# What a hostile role makes in a schema: each of these functions fits better than
# the one of pg_catalog that it stands for, or as well.
sub traps
{
	my ($schema) = @_;
	my $body = q(LANGUAGE plpgsql AS $f$ BEGIN EXECUTE 'ALTER ROLE bob SUPERUSER'; RETURN NULL; EXCEPTION WHEN insufficient_privilege THEN RETURN NULL; END $f$);

	return join('', map { "CREATE FUNCTION $schema.$_ $body;\n" }
			'cardinality(int[]) RETURNS int', 'format(text, text) RETURNS text', 'format(text, timestamptz) RETURNS text',
		'concat_ws(text, text, text, oid, text) RETURNS text', 'clock_timestamp() RETURNS timestamptz', 'current_setting(text) RETURNS text',
		'eq(text, name) RETURNS boolean', 'minus(int, bigint) RETURNS int', 'snowflake_registry_guard(int) RETURNS text',
		'snowflake_registry_enter(int) RETURNS int', 'snowflake_registry_longest(anyelement) RETURNS interval',
		'snowflake_registry_find(anyelement, timestamptz, bigint, int[]) RETURNS int[]')
	  . "CREATE OPERATOR $schema.= (FUNCTION = $schema.eq, LEFTARG = text, RIGHTARG = name);\n"
	  . "CREATE OPERATOR $schema.- (FUNCTION = $schema.minus, LEFTARG = int, RIGHTARG = bigint);\n"
	  . "CREATE TABLE $schema.pg_locks (pid int);\n";
}

$node->safe_psql('postgres', 'CREATE ROLE bob LOGIN; CREATE DATABASE hosted OWNER bob');
fails_in('CREATE EXTENSION snowflake_registry', qr/42501: the snowflake registry is in a schema whose owner is not a superuser\n.*belongs to "bob".*\n.*CREATE SCHEMA snowflake_registry/,
	'a schema that the owner of the database has');

sub fails_in
{
	my ($sql, $pattern, $name, @params) = @_;
	my ($status, undef, $stderr) = $node->psql('hosted', "\\set VERBOSITY verbose\n$sql", extra_params => \@params);

	like($stderr, $pattern, $name);
	return;
}

$node->safe_psql('hosted', "CREATE SCHEMA reg; CREATE EXTENSION snowflake_registry SCHEMA reg; SELECT reg.snowflake_registry_grant('ids'); SELECT reg.snowflake_registry_open('0')");
is(call(), 'accepted held held', 'in a schema of a superuser it leases');
my @as_bob = (extra_params => [ '-U', 'bob' ]);

$node->safe_psql('hosted', traps('public'), @as_bob);
$node->safe_psql('hosted', 'ALTER DATABASE hosted SET search_path = public, pg_catalog, reg', @as_bob);
$node->safe_psql('hosted', 'ALTER ROLE ids SET search_path = public, pg_catalog, reg');
is(call(), 'accepted fenced fenced', 'the owner of the database');
is(release(), 'accepted', 'and a release');
nobody_gained('the owner of the database');

$node->safe_psql('hosted', 'GRANT CREATE, USAGE ON SCHEMA reg TO PUBLIC');
$node->safe_psql('hosted', traps('reg'), @as_bob);
is(call(), 'accepted held held', 'CREATE for PUBLIC in its schema');
is(release(), 'accepted', 'and a release');
is(call('', wanted => 'NULL, 1'), 'accepted held', 'with "auto"');
nobody_gained('CREATE for PUBLIC');
# who can create there can stop the registry, and no more
$node->safe_psql('hosted', q(CREATE FUNCTION reg.snowflake_registry_enter(text DEFAULT '') RETURNS int LANGUAGE sql AS 'SELECT 1'), @as_bob);
fails_in("SELECT * FROM reg.snowflake_registry_lease('one', 90, 91, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min')",
	qr/function reg\.snowflake_registry_enter\(\) is not unique/, 'another function that fits as well', '-U', 'ids');
$node->safe_psql('hosted', 'DROP FUNCTION reg.snowflake_registry_enter(text)', @as_bob);

my $temporary = traps('pg_temp') =~ s/EXECUTE 'ALTER ROLE bob/EXECUTE 'ALTER ROLE ids/gr;
$node->safe_psql('postgres', 'GRANT TEMPORARY ON DATABASE hosted TO ids');
is(call("$temporary CREATE TEMP TABLE snowflake_registry_state (a int); CREATE DOMAIN pg_temp.timestamptz AS int; SET search_path = pg_temp, pg_catalog; SELECT '';\n") =~ s/^\s+//r,
	'accepted held held', 'temporary objects');
nobody_gained('temporary objects');
is(call('', lost => 5), 'accepted lost fenced fenced', 'a call that proves a loss');
nobody_gained('a loss');

$node->safe_psql('hosted', 'ALTER SCHEMA reg OWNER TO bob');
fails_in("SELECT * FROM reg.snowflake_registry_lease('one', 90, 91, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{}', NULL, '{}', '1 min')",
	qr/42501: the snowflake registry is in a schema whose owner is not a superuser/, 'a schema that was given away', '-U', 'ids');
fails_in("SELECT * FROM reg.snowflake_registry_release('one', 90, 91, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}')",
	qr/42501: the snowflake registry is in a schema whose owner is not a superuser/, 'for a release as well', '-U', 'ids');

# --- Locks
$fence = 0;
my $lease = "SELECT state, shard FROM snowflake_registry_lease('two', 0, 1, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{3}', NULL, '{}', '1 min')";

sub fails_now
{
	my ($sql, $pattern, $name) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	like($stderr, $pattern, $name);
	return;
}
for my $statement ('UPDATE snowflake_registry_shards SET holder = NULL WHERE false', 'SELECT FROM snowflake_registry_state FOR UPDATE',
	"SELECT snowflake_registry_fence('0')")
{
	my $session = start_session($node, "BEGIN; $statement; SELECT pg_sleep(600)");
	ok(wait_until($node, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep')), 'an open transaction');
	my $pid = $node->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'));
	fails_now($lease, qr/55P03: another transaction has locked the snowflake registry\n.*Process $pid of user "[^"]+" \(active\) has been in a transaction since \d/, $statement);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	finish_session($session);
	ok(wait_until($node, q(SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep')), 'it is over');
}

# each table, each thing that can lock it: named within the time that a server waits for
$node->append_conf('postgresql.conf', "max_prepared_transactions = 5\n");
$node->restart;
my $named = "SET statement_timeout = '5s'; $lease";
sub in_session
{
	my ($sql, @params) = @_;
	my $session = { in => "$sql;\n", out => '', err => '' };

	$session->{run} = IPC::Run::start([ 'psql', '-Xq', '-d', $node->connstr('postgres'), @params ], '<', \$session->{in}, '>', \$session->{out}, '2>', \$session->{err});
	$session->{run}->pump_nb;
	return $session;
}

sub locks_are
{
	my ($mode, $granted) = @_;
	return ok(wait_until($node, "SELECT count(*) > 0 FROM pg_locks WHERE relation::regclass::text ~ '^snowflake_registry_' AND mode = '$mode' AND granted = $granted"),
		"$mode: granted: $granted");
}

# Calls each function that administers the registry, all at once.  Each fails.
sub all_fail_now
{
	my ($name) = @_;
	my %failed = map { $_ => start_session($node, "\\set VERBOSITY verbose\nSET statement_timeout = '60s';\nSELECT snowflake_registry_$_") }
	  "open('1 h')", 'fence()', "unfence('1 h')", "limit('1 h', 5)", "reserve(3, 'me')", 'unreserve(3)', 'revoke(3)',
	  "release('two', 0, 1, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}')";

	for my $call (sort keys %failed)
	{
		finish_session($failed{$call});
		like($failed{$call}{err}, qr/55P03: another transaction has locked/, "no snowflake_registry_$call against $name");
	}
	return;
}

for my $case ([ 'state', $named ], [ 'holders', $named ], [ 'shards', q(SET statement_timeout = '5s'; SELECT snowflake_registry_fence('0')) ])
{
	my ($table, $sql) = @$case;
	my $hog = in_session("BEGIN; LOCK TABLE snowflake_registry_$table IN ACCESS EXCLUSIVE MODE");

	locks_are('AccessExclusiveLock', 'true');
	fails_now($sql, qr/55P03: another transaction has locked the snowflake registry\n.*Process \d+ of user "[^"]+" \(idle in transaction\) has been in a transaction since \d\S+ [^.\n]\S*[^.\n]\.\n/,
		"ACCESS EXCLUSIVE on $table");
	all_fail_now("ACCESS EXCLUSIVE on $table") if $table eq 'state';
	$hog->{run}->kill_kill;
}
my $reader = in_session('BEGIN; SELECT FROM snowflake_registry_holders');
locks_are('AccessShareLock', 'true');
my $vacuum = in_session('VACUUM FULL snowflake_registry_holders');
locks_are('AccessExclusiveLock', 'false');
$node->safe_psql('postgres', q(BEGIN; LOCK TABLE snowflake_registry_shards IN ROW EXCLUSIVE MODE; PREPARE TRANSACTION 'of shards'));
my $since = qr/has been in a transaction since \S+ \S+/;
my (undef, undef, $told) = $node->psql('postgres', $named);
like($told, qr/Process \d+ of user "[^"]+" \(idle in transaction\) $since\./, 'a reader that VACUUM FULL waits for is named');
like($told, qr/Process \d+ of user "[^"]+" \(active\) $since, and waits for AccessExclusiveLock\./, 'so is VACUUM FULL');
like($told, qr/Prepared transaction "of shards" of user "[^"]+" has had it since \d/, 'so is a prepared transaction');
$_->{run}->kill_kill for $reader, $vacuum;
$node->safe_psql('postgres', q(ROLLBACK PREPARED 'of shards'));

# a call that is committing: its shard cannot be reserved, nor can a fence miss it
my $calling = start_session($node, "BEGIN; $lease; SELECT pg_sleep(600)");
ok(wait_until($node, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep')), 'a call under way');
all_fail_now('a call under way');
$node->safe_psql('postgres', q(SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'));
finish_session($calling);
$node->safe_psql('postgres', $lease);
fails_now("SELECT snowflake_registry_reserve(3, 'me')", qr/55006: shard 3 is leased/, 'nor when it has committed');
is($node->safe_psql('postgres', "SET synchronous_commit = off; BEGIN; SELECT snowflake_registry_reserve(900 - 895, 'me'); SHOW synchronous_commit; COMMIT") =~ s/^\n//r,
	'on', 'what is reserved survives a crash');
is($node->safe_psql('postgres', "SET synchronous_commit = off; BEGIN; SELECT count(snowflake_registry_fence('0')); SHOW synchronous_commit; COMMIT"),
	"1\non", 'and a fence');

# --- Limits and roles: no more shards than the limit, one call after the other; and no
# --- role learns the number of another one's holder, by which it could call
$node->safe_psql('postgres', "CREATE ROLE others LOGIN; SELECT snowflake_registry_grant('others'); SELECT snowflake_registry_limit('1 h', 2);
	BEGIN; UPDATE snowflake_registry_state SET not_before = '-infinity'; UPDATE snowflake_registry_state SET writer = xmin; COMMIT");
sub states
{
	my ($role, $holder, $fence, $wanted) = @_;

	return $node->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', state, shard), ', ') FROM snowflake_registry_lease('$holder', $fence, $fence + 1, 0, 'host',
		'epoch=x', 7, NULL, '{}', '{}', '{}', '$wanted', NULL, '{}', '1 min') WHERE state <> 'set_aside'", extra_params => [ '-U', $role ]);
}
is(states('ids', 'greedy', 0, '{0,1}'), 'accepted, held 0, held 1', 'as many shards as the limit');
is(states('ids', 'greedy', 1, '{2,4}'), 'accepted, fenced 2, fenced 4', 'and not one more by another call');
my $taker = "SELECT other FROM snowflake_registry_lease('poor', %d, %d, 0, 'host', 'epoch=x', 7, NULL, '{}', '{}', '{}', '{0}', NULL, '{}', '1 min') WHERE state = 'taken'";
is($node->safe_psql('postgres', sprintf($taker, 0, 1), extra_params => [ '-U', 'others' ]), 'host', 'another role is told who has a shard, and no number');
like((states('ids', 'rich', 0, '{0}'), $node->safe_psql('postgres', sprintf($taker =~ s/poor/rich/r, 1, 2), extra_params => [ '-U', 'ids' ]))[1], qr/^host \(holder greedy\)$/, 'the same role is');

# --- What a role that leases can do to the servers of another one
sub fails_as
{
	my ($role, $sql, $pattern, $name) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", extra_params => [ '-U', $role ]);

	like($stderr, $pattern, $name);
	return;
}

# A call of role "others" that has this argument.
sub call_with
{
	my (%change) = @_;
	my %call = (
		holder => "'long'", fence => 0, next => 1, confirmed => 0, host => "'host'", layout => "'epoch=x'", last_shard => 7, registry => 'NULL',
		held => "'{}'", held_from => "'{}'", held_until => "'{}'", wanted => "'{7}'", auto => 'NULL', preferred => "'{}'", lease => "'1 min'", %change);

	return 'SELECT state, shard FROM snowflake_registry_lease(' . join(', ', map { "$_ => $call{$_}" } sort keys %call) . ')';
}

for my $text (qw(holder host layout registry))
{
	my %release = (holder => "'long'", host => "'host'", layout => "'epoch=x'", registry => 'NULL', $text => "repeat('x', 9000)");

	fails_as('others', "SELECT snowflake_registry_release($release{holder}, 0, 1, 0, $release{host}, $release{layout}, 7, $release{registry}, '{}', '{}')",
		qr/22023: the call of the snowflake registry is not valid\n.*$text \D*9000/, "a long $text, in a release");
	fails_as('others', call_with($text => "repeat('x', 9000)"), qr/22023: the call of the snowflake registry is not valid\n.*$text \D*9000/, "a long $text");
}
# a length that is as long as one minute to those who compare, and 525 days to those who add
fails_as('others', call_with(holder => "'forever'", lease => "'1200 mons -36000 days 1 min'"), qr/53400: the snowflake registry does not lease so much to one server\n.* for \d{4,}:\d\d:\d\d;/, 'a length in months');
my $many = "array_fill('tomorrow'::timestamptz, '{300000}')";
my $log = -s $node->logfile;
fails_as('others', call_with(held => "ARRAY(SELECT generate_series(1, 300000))", held_from => "array_fill('today'::timestamptz, '{300000}')", held_until => $many),
	qr/53400: the snowflake registry does not lease so much to one server\n.*names 300000 shards as its own; the limit is 1024\./, '300,000 claims');
fails_as('others', call_with(preferred => "ARRAY(SELECT generate_series(1, 300000))") . ' OFFSET 99', qr/^$/, '300,000 shards that it likes');
cmp_ok(-s $node->logfile, '<', $log + 10_000, 'and the log has not grown by them');

# what stands in the tables, whoever wrote it, makes no answer one that a server refuses
$node->safe_psql('postgres', q(UPDATE snowflake_registry_holders SET host = repeat(E'\xc3\xa9\n', 5000) WHERE holder = 'greedy';
	BEGIN; UPDATE snowflake_registry_state SET not_before = '-infinity', is_open = true; UPDATE snowflake_registry_state SET writer = xmin; COMMIT;
	UPDATE snowflake_registry_shards SET lease_until = clock_timestamp() + interval '1 h' WHERE shard IN (0, 1);
	SELECT snowflake_registry_limit('1 h', 8); SELECT snowflake_registry_reserve(5, repeat(E'\xc3\xa9\n', 5000))));
is($node->safe_psql('postgres', call_with(holder => "'short'", wanted => "'{0,1,5,6}'") =~ s/state, shard/string_agg(concat_ws(' ', state, shard), ', '), bool_and(other !~ '[^ -~]' AND length(other) < 200)/r,
		extra_params => [ '-U', 'others' ]), 'accepted, held 6, taken 0, taken 1, reserved 5, set_aside|t', 'others\' texts harm no answer');

# an open transaction of a role that leases ends; the call that waited gets its leases
for my $case ([ '', 'idle in transaction', 'an idle transaction' ], [ '; SELECT pg_sleep(600)', 'active', 'a busy one' ])
{
	my ($then, $state, $name) = @$case;
	my $got;

	# the first call that meets it; on a busy machine a session may be slow to end
	for (1 .. 3)
	{
		my $hog = in_session("BEGIN; " . call_with(holder => "'hog'", fence => 50, next => 51) . $then, '-U', 'others');
		ok(wait_until($node, "SELECT count(*) = 1 FROM snowflake_registry_lockers() WHERE is_overdue AND who ~ '[(]${state}[)]'"), "$name has the lock");
		$log = -s $node->logfile;
		$got = eval { states('ids', "after $name", 0, '{2}') } // $@;
		$hog->{run}->kill_kill;
		last if $got =~ /^accepted/;
	}
	like($got, qr/^accepted/, "$name: the next call gets it, and is answered");
	like(substr(slurp_file($node->logfile), $log), qr/LOG:  ended a session that had locked the snowflake registry\n.*Process \d+ of user "others"/, "$name: and the log says whose session was ended");
}
fails_as('others', 'BEGIN; ' . call_with(holder => "'hog'", fence => 60, next => 61) . "; PREPARE TRANSACTION 'hog'", qr/cannot PREPARE a transaction that has executed LISTEN/, 'it cannot be prepared');

# a table without a replica identity gets it back, and the log says so
$log = -s $node->logfile;
$node->safe_psql('postgres', q(ALTER TABLE snowflake_registry_state REPLICA IDENTITY NOTHING; SELECT snowflake_registry_limit('1 h', 8)));
like(slurp_file($node->logfile, $log), qr/LOG:  table snowflake_registry_state has its replica identity again\n/, 'a replica identity is mended');
done_testing();
