# A registry that answers what this test tells it, word by word: what a server makes of each
# answer, what it claims in the next call, what it tells its sessions, and what it logs.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use JSON::PP qw(decode_json);
use LeaseTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $NUMBER = 'e9bd8ad7e43cbd5c';
my $registry = new_registry('registry');

# --- The registry: a function logs how it is called, and gives what a query gives

$registry->safe_psql('postgres', 'CREATE TABLE answers (function text PRIMARY KEY, query text NOT NULL); CREATE SEQUENCE times;
	CREATE FUNCTION fails(how text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING MESSAGE = how; END $$');
for my $function ('lease', 'release')
{
	my $arguments = $registry->safe_psql('postgres', "SELECT pg_get_function_arguments('snowflake_registry_$function'::regproc)");
	my $told = $function eq 'lease' ? q('held', held, 'auto', auto, 'preferred', preferred) : q('held', shards);

	$registry->safe_psql('postgres', <<"SQL");
DO \$do\$ BEGIN
    EXECUTE format('ALTER EXTENSION snowflake_registry DROP FUNCTION %s; DROP FUNCTION %1\$s', 'snowflake_registry_$function'::regproc::regprocedure);
END \$do\$;
CREATE FUNCTION snowflake_registry_$function($arguments)
    RETURNS TABLE (state text, shard int, lease_from timestamptz, lease_until timestamptz, other text) LANGUAGE plpgsql SECURITY DEFINER AS \$\$
BEGIN
    RAISE LOG 'call %', jsonb_build_object('function', '$function', 'pid', pg_backend_pid(), 'holder', holder,
        'fence', fence::text, 'next', next::text, 'confirmed', confirmed::text, 'registry', registry, $told);
    RETURN QUERY EXECUTE (SELECT a.query FROM public.answers AS a WHERE a.function = '$function');
END \$\$;
SQL
}

# The calls so far, in order.
sub calls { return map { decode_json($_) } slurp_file($registry->logfile) =~ /LOG:  call (\{.*\})$/mg }

sub last_call { my ($function) = @_; return (grep { $_->{function} eq $function } calls())[-1]; }

# What a call gets: it is accepted, and these rows, each of a state, a shard, two times and a text, as SQL.
sub answer
{
	my ($function, @rows) = @_;
	my $now = @rows && !ref $rows[0] ? shift @rows : 'clock_timestamp()';
	my $query = join(' UNION ALL ', "SELECT 'accepted', NULL::int, NULL::timestamptz, $now, '$NUMBER'",
		map { my ($state, $shard, $from, $until, $other) = map { $_ // 'NULL' } @$_[ 0 .. 4 ]; "SELECT '$state', $shard, $from, $until, $other" } @rows);

	answer_by($function, $query);
	return;
}

sub answer_by
{
	my ($function, $query) = @_;

	$registry->safe_psql('postgres', "INSERT INTO answers VALUES ('$function', \$sql\$$query\$sql\$) ON CONFLICT (function) DO UPDATE SET query = EXCLUDED.query");
	return;
}

my $HOUR_AGO = q(now() - interval '1 h');
my $LATER = q(now() + interval '2 h');

# A time that is the same in each answer.
sub in_time { my ($interval) = @_; return "timestamptz '" . $registry->safe_psql('postgres', "SELECT date_trunc('second', clock_timestamp()) + interval '$interval'") . "'" }

# A lease in force; what another server has; a row that comes in one answer only.
sub held { my ($shard, $from, $until) = @_; return [ 'held', $shard, $from // $HOUR_AGO, $until // $LATER ] }
sub taken { my ($shard) = @_; return [ 'taken', $shard, undef, $LATER, q('osaka') ] }

sub once
{
	my (@row) = @_;

	$registry->safe_psql('postgres', 'ALTER SEQUENCE times RESTART');
	return [ @row[ 0 .. 3 ], "$row[4] WHERE nextval('public.times') = 1" ];
}

answer('release');
answer('lease', held(5), held(6));
my $node = leasing_server('told', $registry, '5,6', '3h', clock => 1, conf => "snowflake.clock_tolerance = 0\n");

sub ask { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub status { my ($what) = @_; return ask("SELECT $what FROM snowflake_lease_status()") }

# Each shard that it shows, with whether it is held, and who has it.
sub shown { return ask(q(SELECT string_agg(concat_ws(' ', shard, held, holder), ', ' ORDER BY shard, held) FROM snowflake_leases())) }

# It calls by a reload, with other settings or none, and gets this answer.
sub told
{
	my ($settings, @rows) = @_;
	my $before = status('last_answer');

	answer('lease', @rows);
	%$settings ? change_settings($node, %$settings) : reload($node);
	wait_until($node, "SELECT coalesce(last_answer::text, '') <> '$before' FROM snowflake_lease_status()") or die 'it does not call';
	return;
}

sub claims { my ($shards, $name) = @_; return is(join(',', @{ last_call('lease')->{held} }), $shards, "$name: claimed are '$shards'") }

# --- What is left out of an answer is not held, nor claimed again

is_holding($node, '5,6', 'two shards');
told({}, held(5));
is(shown(), '5 t', 'one of them is left out of an answer');
wait_for_log($node, qr/this server has leased snowflake shards "5"\n.*Before, it had "5-6"/, 0, 'as the log says');
fails_with($node, 'SELECT snowflake_nextval(6)', '42501', qr/shard 6 is not leased to this server/, 'it mints there no more');
told({}, held(5), taken(6));
is(shown(), '5 t, 6 f osaka', 'it is another server\'s');
is(status('losses'), 0, 'that is no loss');
claims('5', 'left out');
fails_with($node, 'SELECT snowflake_nextval(6)', '55006', qr/shard 6 is leased to another server/, 'and is refused');

# --- What is given back: in one connection with the call for others

told({}, held(5), held(6));
told({ shards => '5' }, held(5));
is(join(',', @{ last_call('release')->{held} }), '6', 'a shard is given back');
is(last_call('release')->{pid}, last_call('lease')->{pid}, 'and the same connection leases');
told({ shards => '5,6' }, held(5));
claims('5', 'once it was given back');
answer('release', once('lost', 'NULL', 'NULL', 'NULL', q('something')));
told({ shards => '6' }, held(6));
is(status(q(losses || last_loss)), '1something', 'an answer to a release tells of a loss');

# another server calls in its name: the next call finds that, with the same fence
answer_by('release', q(SELECT 'clone', NULL::int, NULL::timestamptz, now(), 'osaka'));
told({ shards => '7' }, held(7));
is(last_call('lease')->{fence}, last_call('release')->{fence}, 'a release that the registry refuses: its fence does not count');
answer('release');

# --- An answer without leases: what is held goes on, and is not claimed; what was given
# --- back is claimed where it is wanted

my $end = in_time('2 h');
told({ shards => '4-6' }, held(4), held(5), held(6, $HOUR_AGO, $end));
told({ shards => '6' });
claims('6', 'two are given back');
is(shown(), '6 t', 'no answer about what it holds: that goes on');
my $looks = q(SELECT pid, substring(pg_read_file('/proc/' || pid || '/status') FROM '\nvoluntary_ctxt_switches:\s*(\d+)')
	FROM pg_stat_activity WHERE backend_type = 'snowflake lease');
my ($pid, $wakes, $same, $later) = ask("$looks; DO 'BEGIN FOR i IN 1 .. 100 LOOP PERFORM pg_sleep(0.02); END LOOP; END'; $looks") =~ /(\d+)/g;
is($same, $pid, 'the worker goes on');
cmp_ok($later - $wakes, '<', 50, 'and sleeps: no shard that was given back is waited for');
told({ shards => 'auto:2' });
claims('4', 'one is missing');
is(join(',', @{ last_call('lease')->{preferred} }), '4,5,6', 'it prefers what it knows');
told({ shards => 'auto:1' });
claims('', 'none is missing');
is(shown(), '6 t', 'that one is kept');
told({}, taken(4));
is(shown(), '6 t', 'whoever has a shard that it gave back does not matter');
told({ shards => '4-6' });
claims('5', 'nothing is left of one that another server has');
told({}, q(now() - interval '3 h'), taken(5));
is(status('losses'), 1, 'that another server has what was given back is no loss');
told({}, $end, taken(6));
is(status('losses'), 1, 'nor what has ended by the clock of the registry');
fails_with($node, q(SET snowflake.shards = '6'; SELECT snowflake_nextval()), '55006', qr/shard 6 is leased to another server/, 'it is refused');

# --- Another server has what is in force

told({ shards => '5,7' }, held(5), held(7));
ask('SELECT snowflake_nextval(5), snowflake_nextval(7)');
told({}, taken(5));
fails_with($node, 'SELECT snowflake_nextval(5)', 'XX001', qr/the registry gave shard 5 to another server/, 'a loss: no id on that shard');
is(shards_of(mints($node, 10)), '7', 'on the other one it mints');
is(status('losses'), 2, 'one loss');
told({ shards => '7,8' }, held(7), held(8));
told({}, once('lost', 8, $HOUR_AGO, $LATER, q('a lease')), held(7), taken(8));
is(status('losses'), 3, 'a loss that the answer names counts once');
is(shown(), '7 t, 8 f osaka', 'and is seen');
told({ shards => '7' }, [ 'fenced', 7, undef, $LATER ]);
is(shown(), '7 t', 'what it holds and cannot renew is seen once');
told({ shards => 'auto:1' }, held(7));
told({}, held(7), taken(9));
is(shown(), '7 t', 'with "auto" it does not matter who has a shard that it never had');

# a session finds that its only shard was closed, though none was opened
my $began = in_time('-1 h');
my $gate = $node->basedir . '/gate';
told({ shards => '7,8' }, held(7, $began), held(8, $began));
my $minting = start_session($node, <<"SQL");
SET statement_timeout = '60s';
SET snowflake.shards = '7';
SELECT snowflake_nextval();
\\! touch $gate; while [ -e $gate ]; do sleep 0.1; done
SELECT snowflake_nextval();
SQL
ok(wait_for(sub { -e $gate }), 'a session mints');
told({}, taken(7), held(8, $began));
unlink($gate) or die;
ok(!finish_session($minting), 'when its only shard is lost, it fails');
like($minting->{err}, qr/ERROR: .*the registry gave shard 7 to another server/, 'with the reason');

told({ shards => '0' }, taken(0));
is(shown(), '0 f osaka', 'the first shard of all');
fails_with($node, 'SELECT snowflake_nextval(0)', '55006', qr/shard 0 is leased to another server/, 'which it never had, is not lost');

# --- A refusal tells what another call would, for a second

my $before = calls();
ask('DO $$ BEGIN FOR i IN 1 .. 20 LOOP BEGIN PERFORM snowflake_nextval(); EXCEPTION WHEN object_in_use THEN END; END LOOP; END $$');
cmp_ok(calls() - $before, '<', 10, 'twenty calls that fail do not ask twenty times');
fails_with($node, q(SET statement_timeout = '8s'; SELECT snowflake_probe('leases')), '55006', qr/shard 0 is leased to another server/, 'a probe tells it, too');
wait_until($node, q(SELECT clock_timestamp() > last_answer + interval '1100 ms' FROM snowflake_lease_status())) or die;
answer('lease', held(0));
is(($node->psql('postgres', q(SELECT snowflake_probe('leases'))))[0], 0, 'after that it is asked for again');
is(shards_of(mints($node, 10)), '0', 'and minted on');

# --- While a call waits, what is held goes on

my $at_once = q(SET statement_timeout = '4s'; SELECT snowflake_nextval());
my $lock = start_session($registry, 'BEGIN; LOCK TABLE answers; SELECT pg_sleep(3600)');
my $is_waiting = q(SELECT count(*) = 1 FROM pg_stat_activity WHERE usename = 'ids' AND wait_event_type = 'Lock');
wait_until($registry, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep')) or die;
reload($node);
ok(wait_until($registry, $is_waiting), 'a call waits');
is(($node->psql('postgres', $at_once))[0], 0, 'ids are minted meanwhile');
$node->stop('immediate');
wait_until($registry, "SELECT NOT ($is_waiting)") or die;
start_with_clock($node, 0);
ok(wait_until($registry, $is_waiting), 'after a crash a call waits');
is(($node->psql('postgres', $at_once))[0], 0, 'ids are minted meanwhile');
end_sessions($registry, q(query LIKE '%pg_sleep%'), $lock);
wait_until($node, 'SELECT last_answer IS NOT NULL FROM snowflake_lease_status()') or die;

# --- Leases that begin later

told({ shards => '5,6' }, held(5, in_time('1 h')), held(6));
is(status('state'), 'held', 'one of two leases begins later');
is(status('last_error'), '', 'which is no error');
is(shards_of(mints($node, 10)), '6', 'the other one is minted on');
fails_with($node, 'SELECT snowflake_nextval(5)', '58000', qr/clock is (?:59 min \d+ s|60 min|1 h) .*behind the lease/, 'and not that one');
like(ask(q(SET snowflake.shards = '5'; SELECT last_error FROM snowflake_lease_status())), qr/behind the lease/, 'a session that asks for that one alone is told');
told({ shards => '9' }, held(9, in_time('4 s')));
my ($id, $switches) = split(/\n/, ask(q(SET snowflake.clock_tolerance = '60s'; SELECT snowflake_nextval(9);
	SELECT substring(pg_read_file('/proc/self/status') FROM '\nvoluntary_ctxt_switches:\s*(\d+)'))));
cmp_ok($id >> 12 & 1023, '==', 9, 'one that begins within the tolerance is waited for');
cmp_ok($switches, '<', 100, "the session sleeps: it wakes $switches times");
told({ shards => '10' }, held(10, in_time('4 s')));
my $answered = status('last_answer');
ok(wait_until($node, 'SELECT lease_until IS NOT NULL FROM snowflake_lease_status()'), 'one that nobody waits for begins');
is(status('last_answer'), $answered, 'without another call');

# --- Leases that are over, by both clocks

told({ shards => '11' }, held(11, $HOUR_AGO, q(now() - interval '1 min')));
fails_with($node, 'SELECT snowflake_nextval(11)', '58000', qr/the lease of this server's shards ended before it was renewed/, 'a lease that came too late');
told({ shards => '12' }, held(12, $HOUR_AGO, in_time('4 s')));
ok(wait_until($node, q(SELECT state = 'ended' FROM snowflake_lease_status())), 'a lease that is not renewed ends');
fails_with($node, 'SELECT snowflake_nextval()', '58000', qr/the lease of this server's shards ended before it was renewed/, 'and the registry, which answers, is not blamed');

# --- A shard that was left for another one

told({ shards => '20,21' }, held(20), held(21));
ask('SELECT snowflake_nextval(20), snowflake_nextval(21)');
told({ shards => '22' }, held(22));
fails_with($node, q(SET snowflake.shards = '21,22'; SELECT snowflake_nextval(21)), '42501', qr/shard 21 is not leased to this server/, 'nothing is minted on a shard that was left');

# a session forgets what it found before
cmp_ok(ask(<<'SQL'), '<', 100_000, 'finding its shards again takes a session no more memory');
CREATE TEMP VIEW used AS SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext';
CREATE TEMP TABLE before AS SELECT used_bytes, snowflake_nextval() FROM used;
DO $$ BEGIN FOR i IN 1 .. 5000 LOOP PERFORM set_config('snowflake.shards', CASE i % 2 WHEN 0 THEN '22' ELSE '22,23' END, false), snowflake_nextval(); END LOOP; END $$;
SELECT used.used_bytes - before.used_bytes FROM used, before
SQL

# --- What is logged: each failure once, and its end; the same call keeps its numbers

sub fails_by
{
	my ($how, $times) = @_;
	my $before = calls();

	answer_by('lease', "SELECT NULL, public.fails('$how'), NULL::timestamptz, NULL::timestamptz, NULL");
	reload($node);
	wait_for(sub { calls() >= $before + $times }) or die 'it does not call';
	my %numbers = map { ("$_->{fence} $_->{next}" => 1) } (calls())[ $before .. $before + $times - 1 ];
	is(scalar(keys %numbers), 1, "$how: the same call has the same numbers");
	ok(wait_until($node, "SELECT last_error ~ '$how' FROM snowflake_lease_status()"), "$how: the status has it");
	return;
}

sub answers_again
{
	my $offset = -s $node->logfile;

	answer('lease', held(22));
	wait_for_log($node, qr/the registry of snowflake shards answers again/, $offset, 'without a reload the server finds that the registry answers');
	return;
}

my $offset = -s $node->logfile;
my ($fine, $dull) = ('fine', 'dull');
fails_by($fine, 3);
fails_by($dull, 1);
answers_again();
fails_by($dull, 2);
answers_again();
told({}, held(22)) for 1, 2;
is(join(', ', map { s/could not lease snowflake shards: the registry refused: (\w+).*/$1/r } substr(slurp_file($node->logfile), $offset) =~ /LOG:  (could not lease.*|the registry.*answers again)/g),
	"$fine, $dull, the registry of snowflake shards answers again, $dull, the registry of snowflake shards answers again", 'the log has each change, and nothing twice');
unlike(slurp_file($node->logfile), qr/another registry leases/, 'nor that the registry is another one');

# a refusal is not the last word, either
told({ shards => '22,23' }, held(22), taken(23));
answer('lease', held(22), held(23));
is_holding($node, '22,23', 'without a reload it gets what is free');

# --- No file stays open

SKIP:
{
	skip 'no /proc here', 1 if !-d "/proc/$$/fd";
	my $pid = ask(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease'));
	is(join(', ', grep { /snowflake\.lease/ } map { readlink($_) // () } glob("/proc/$pid/fd/*")), '', 'the worker leaves no file open');
}

# --- A clean stop; another place; nothing held

my $stopped = calls();
$node->stop;
my $release = last_call('release');
start_with_clock($node, 0);
wait_until($node, 'SELECT last_answer IS NOT NULL FROM snowflake_lease_status()') or die;
my $first = (calls())[ $stopped + 1 ];
is("$first->{fence} $first->{confirmed}", "$release->{next} $release->{next}", 'a clean stop: what was answered is known');
$node->stop('immediate');
answer('lease');
start_with_clock($node, 0, place => { HOST => 'elsewhere' });
wait_until($node, 'SELECT last_answer IS NOT NULL FROM snowflake_lease_status()') or die;
isnt(last_call('lease')->{holder}, $first->{holder}, 'in another place it is another holder');
is(last_call('lease')->{registry}, $NUMBER, 'who knows which registry it was');
my $holder = status('holder');
$node->stop('immediate');
start_with_clock($node, 0, place => { HOST => 'elsewhere' });
ok(wait_until($node, "SELECT holder = '$holder' FROM snowflake_lease_status()"), 'a record of no lease counts');

# --- No registry any more: a lease goes on to its end

told({ shards => 'auto:1' }, held(20, $HOUR_AGO, in_time('8 s')));
$node->stop('immediate');
$node->append_conf('postgresql.conf', "snowflake.registry = ''\n");
start_with_clock($node, 0, place => { HOST => 'elsewhere' });
ok(wait_until($node, q(SELECT state = 'ended' FROM snowflake_lease_status())), 'no registry: a lease ends');
fails_with($node, 'SELECT snowflake_nextval()', '55000', qr/there is no registry to lease snowflake shards from/, 'and that is the reason');
$node->stop;

# --- All shards of a small layout; then a lease that began, and a clock that is set back

answer('lease', map { held($_) } 0 .. 3);
$node = leasing_server('small', $registry, '0-3', '3h', clock => 1,
	conf => "snowflake.layout = 'epoch=2020-01-01 unit=10ms fields=timestamp:39,shard:2,sequence:12'\nsnowflake.reserve = '60s'\nsnowflake.clock_tolerance = 0\n");
is_holding($node, '0,1,2,3', 'all shards');
$holder = status('holder');
$node->stop('immediate');
start_with_clock($node, 0);
ok(wait_until($node, 'SELECT last_answer IS NOT NULL FROM snowflake_lease_status()'), 'after a crash');
is(status('holder'), $holder, 'it is the same holder');

# the horizon stands at the end of the lease, and a worker that begins again counts that
told({ shards => '2' }, held(2, $HOUR_AGO, in_time('50 s')));
ok(wait_until($node, 'SELECT snowflake_nextval() > 0 AND horizon > lease_until FROM snowflake_horizon(), snowflake_lease_status()'), 'a lease that ends before the horizon on disk');
$registry->stop('immediate');
ask(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake lease'));
ok(mints($node, 1), 'the worker begins again while the registry is away: ids are minted');
$registry->start;

my $lease = held(1, in_time('1 h'), in_time('3 h'));
told({ shards => '1' }, $lease);
set_clock($node, 3700);
ok(wait_until($node, 'SELECT lease_until IS NOT NULL FROM snowflake_lease_status()'), 'a lease begins');
set_clock($node, 0);
fails_with($node, 'SELECT snowflake_nextval()', '58000', qr/clock is \S+ min .*behind the (?:last snowflake id|snowflake horizon)/, 'the clock is set back to before that: no id');
told({}, $lease);
is(status('lease_until IS NOT NULL'), 't', 'and the lease counts');

$_->stop for $node, $registry;
done_testing();
