# Servers that lease their shards from a registry: what they get by themselves and
# by a list, what another server has, what is narrowed, what happens while the
# registry is away, and that a registry can be set and taken away by a reload.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $nextval = 'SELECT snowflake_nextval()';
my $registry = new_registry('registry');

# --- auto: two servers mint at once, on shards of their own
my $paris = leasing_server('paris', $registry, 'auto:2', '30s');
my $tokyo = leasing_server('tokyo', $registry, 'auto:2', '30s', conf => "cluster_name = 'tokyo'\n");
my @minters = map { start_minters($_, 2, 'snowflake_nextval()') } $paris, $tokyo;
all_mint(500, @minters);
cmp_ok(ids_are_distinct('two servers', stop_minters(@minters)), '>', 1000, 'both mint');
is(held_shards($paris), '0,1', 'the first gets shards that nobody used');
is(held_shards($tokyo), '2,3', 'and so does the second');
is(shards_of(mints_on_each($paris, 1000)), '0,1', 'the first mints on both of its own');
is(shards_of(mints_on_each($tokyo, 1000)), '2,3', 'and the second');
ok(wait_for(sub { $paris->safe_psql('postgres', 'SELECT * FROM snowflake_lease_status()') =~
	/^held\|[0-9a-f]{16}\|2\|\d{4}-[^|]+\|\d{4}-[^|]+\|-?[\d.e-]+\|\|0\|\|f\|\|$/ }), 'what it knows of the registry');
wait_for_log($paris, qr/LOG:  this server has leased snowflake shards "0-1"/, 0, 'its log says what it got');
is($registry->safe_psql('postgres', <<'SQL'), "0|t\n1|t\n2|f\n3|f", 'the registry knows who and where');
SELECT shard, holder = first_value(holder) OVER (ORDER BY shard) FROM snowflake_registry_leases
WHERE host ~ ':\d+$' AND NOT free ORDER BY shard
SQL
is($registry->safe_psql('postgres', q(SELECT count(*) FROM snowflake_registry_leases WHERE host ~ '^tokyo at .+:\d+$')),
	2, 'with a name that people gave');

# --- a shard that is another's, however it is asked for
fails_with($paris, 'SELECT snowflake_nextval(2)', '42501',
	qr/shard 2 is not leased to this server.*It holds 0-1 of the registry's shards\./s, 'a named shard of the other server');
fails_with($paris, "SET snowflake.shards = '2'; $nextval", '42501', qr/shard 2 is not leased to this server/, 'by SET');
fails_with($paris, "SET statement_timeout = '60s'; $nextval; SET snowflake.shards = '2'; $nextval",
	'42501', qr/shard 2 is not leased to this server/, 'by SET after an id');
$paris->safe_psql('postgres', "CREATE ROLE app SUPERUSER LOGIN; ALTER ROLE app SET snowflake.shards = '2-3'");
$paris->safe_psql('postgres', "CREATE DATABASE shop; ALTER DATABASE shop SET snowflake.shards = '1,2'");
$paris->safe_psql('shop', 'CREATE EXTENSION snowflake');
my ($status, $out, $err) = $paris->psql('postgres', $nextval, extra_params => [ '-U', 'app' ]);
like($err, qr/shard 2 is not leased to this server/, 'by ALTER ROLE: refused');
is($out, '', 'and nothing is minted');
my @ids = split(/\n/, $paris->safe_psql('shop', "SELECT snowflake_nextval() FROM generate_series(1, 50000)"));
is(shards_of(@ids), '1', 'by ALTER DATABASE: only what the server holds');
fails_with($paris, 'SELECT snowflake_nextval(2)', '42501', qr/shard 2 is not leased/, 'a named one as well', dbname => 'shop');
fails_with($paris, 'SELECT snowflake_nextval(0)', '42501', qr/shard 0 is not one of this server's/,
	'and what the database is not to mint on', dbname => 'shop');

# --- a list
my $lima = leasing_server('lima', $registry, '2,5', '10s');
is_holding($lima, '5', 'of a list, a server gets what is free');
is(shards_of(mints_on_each($lima, 1000)), '5', 'and mints on that');
fails_with($lima, 'SELECT snowflake_nextval(2)', '55006',
	qr/shard 2 is leased to another server\n.*tokyo at \S+:\d+ \(holder [0-9a-f]{16}\) has it until \d/s, 'the rest is refused, by name');
$lima->safe_psql('postgres', 'CREATE ROLE visitor LOGIN');
my (undef, undef, $told) = $lima->psql('postgres', 'SELECT snowflake_nextval(2)', extra_params => [ '-U', 'visitor' ]);
like($told, qr/shard 2 is leased to another server\n.*DETAIL:  Another server has it until \d/s, 'an ordinary user is not told which');
unlike($told, qr/tokyo|holder|:\d+ /, 'neither its host, nor its port, nor its number');
is($lima->safe_psql('postgres', q(SELECT shard, held, holder ~ '^tokyo at' FROM snowflake_leases() ORDER BY shard)),
	"2|f|t\n5|t|", 'and is seen');
wait_for_log($lima, qr/LOG:  the registry refuses 1 of the snowflake shards that this server wants/, 0, 'and logged');
$tokyo->stop;
is_holding($lima, '2,5', 'a clean stop gives shards back, and another server gets them');
wait_for_log($lima, qr/LOG:  the registry leases all snowflake shards that this server wants/, 0, 'which is logged, too');
is(shards_of(mints_on_each($lima, 1000)), '2,5', 'and a session that minted before mints on them');

# --- a limit that is lowered takes nothing away
my (undef, undef, $warned) = $registry->psql('postgres', q(SELECT snowflake_registry_limit('5 s', 1)));
like($warned, qr/WARNING:  servers have more than the new limits.*\n.*lima at \S+ \(holder [0-9a-f]{16}\) has 2 shards for 00:00:10\./, 'a lower limit names who has more');
change_settings($lima, shards => '2,5,6');
fails_with($lima, 'SELECT snowflake_nextval(6)', '53400', qr/the registry leases no more shards to this server\n.*Its limits are 1 shards, for 00:00:05\./s, 'it gets no more', at_last => 1);
my $ends = $lima->safe_psql('postgres', 'SELECT lease_until FROM snowflake_lease_status()');
ok(wait_until($lima, "SELECT lease_until > '$ends'::timestamptz FROM snowflake_lease_status()"), 'and what it has is renewed');
is(shards_of(mints_on_each($lima, 1000)), '2,5', 'and minted on');
$registry->safe_psql('postgres', q(SELECT snowflake_registry_limit('1 day', 1024)));
is_holding($lima, '2,5,6', 'a limit that is raised');
wait_for_log($lima, qr/LOG:  this server has leased snowflake shards "2,5-6"\n.*DETAIL:  Before, it had "2,5"\./, 0, 'the log has what it leased, and before');
is(join(' ', slurp_file($lima->logfile) =~ /LOG:  this server has leased snowflake shards (".*")\n.*DETAIL:  Before, it had \1\./g), '', 'and nothing where that is the same');
change_settings($lima, shards => '2,5');
is_holding($lima, '2,5', 'as before');
wait_for_log($lima, qr/LOG:  this server has leased snowflake shards "2,5"\n.*DETAIL:  Before, it had "2,5-6"\./, 0, 'the log has also what is given back');
is($lima->safe_psql('postgres', 'SELECT losses FROM snowflake_lease_status()'), 0, 'nothing of all that was a loss');

# --- settings by reload: other shards, more, fewer, none
sub set_by_reload
{
	my ($node, $conf) = @_;

	$node->append_conf('postgresql.conf', $conf);
	reload($node);
	return;
}

set_by_reload($lima, "snowflake.shards = '5,6'\n");
is_holding($lima, '5,6', 'another list: what is not wanted is given back');
ok(wait_until($registry, 'SELECT free FROM snowflake_registry_leases WHERE shard = 2'), 'and free');
fails_with($lima, 'SELECT snowflake_nextval(2)', '42501', qr/shard 2 is not/, 'and not minted on any more');
fails_with($lima, "SET snowflake.shards = '2'; SELECT snowflake_nextval(2)", '42501', qr/shard 2 is not/, 'whatever a session sets');
set_by_reload($lima, "snowflake.shards = 'auto:4'\n");
is_holding($lima, '4,5,6,7', 'four of them: it keeps what it has');
set_by_reload($lima, "snowflake.shards = 'auto'\n");
is_holding($lima, '4', 'one of them');
is(shards_of(mints_on_each($lima, 1000)), '4', 'and mints on that alone');
$registry->safe_psql('postgres', "SELECT snowflake_registry_reserve(9, 'the importer')");
set_by_reload($lima, "snowflake.shards = '9'\n");
ok(wait_until($lima, q(SELECT array_agg(shard) = '{9}' AND NOT bool_or(held) FROM snowflake_leases())), 'a reserved shard');
fails_with($lima, $nextval, '42501', qr/shard 9 is reserved in the registry\n.*reserved for: the importer\./s, 'is refused');
set_by_reload($lima, "snowflake.shards = ''\n");
ok(wait_until($lima, 'SELECT count(*) = 0 FROM snowflake_leases()'), 'no shard is asked for');
fails_with($lima, $nextval, '42501', qr/no shard is leased to this server\n.*It holds no shard\./s, 'and none is leased');
set_by_reload($lima, "snowflake.shards = 'auto:1025'\n");
wait_for_log($lima, qr/invalid value for parameter "snowflake\.shards": "auto:1025"\n.*"auto:1025" is not "auto" or "auto:N", with N from 1 to 1024\./s,
	0, 'more than there are: not accepted');

# --- without a registry all is as before, once it is taken away: after a restart
set_by_reload($lima, "snowflake.registry = ''\nsnowflake.shards = '4'\n");
is_holding($lima, '4', 'the registry is taken away: until a restart it goes on to lease');
$lima->restart;
is(status_of($lima), 'off', 'and then no more');
is(shards_of(mints($lima, 100)), '4', 'then the list is minted on');
set_by_reload($lima, "snowflake.shards = 'auto'\n");
ok(wait_until($lima, q(SELECT state = 'none' FROM snowflake_lease_status())), 'auto without a registry');
fails_with($lima, $nextval, '55000', qr/there is no registry to lease snowflake shards from/, 'is an error');
$lima->stop;
$lima->start;
fails_with($lima, $nextval, '55000', qr/there is no registry to lease snowflake shards from\n.*"auto"/s, 'at the start as well');
my $open = PostgreSQL::Test::Cluster->new('open');
$open->init;
$open->start;
$open->safe_psql('postgres', 'CREATE EXTENSION snowflake');
$open->safe_psql('postgres', 'SELECT snowflake_nextval(3)');
is(status_of($open), 'off', 'a server without a registry');
set_by_reload($open, lease_conf($registry, '3', '10s'));
is_holding($open, '3', 'gets one by a reload');
is(shards_of(mints($open, 100)), '3', 'and mints on its list');
fails_with($open, 'SELECT snowflake_nextval(5)', '42501', qr/shard 5 is not one of this server's/, 'and on nothing else');
$open->stop;

# --- the registry away, for shorter than a lease, and for longer
set_by_reload($paris, "snowflake.lease = '4s'\n");
$lima->stop;
my $before = -s $paris->logfile;
$registry->stop('immediate');
ok(mints($paris, 10), 'the registry is away: it goes on');
wait_for_log($paris, qr/LOG:  could not lease snowflake shards: could not reach the registry: /, $before, 'and logs that');
wait_for(sub { status_of($paris) eq 'ended' });
fails_with($paris, $nextval, '58000',
	qr/cannot mint snowflake ids: the registry cannot be reached\n.*This server's lease ended at \d.*: could not reach the registry: .*HINT:  Minting goes on by itself when the registry leases/s, 'the lease has ended: an error says why');
fails_with($paris, 'SELECT snowflake_nextval(1)', '58000', qr/cannot mint snowflake ids: the registry cannot be reached/, 'for a named shard as well');
is($paris->safe_psql('postgres', 'SELECT last_error ~ $$^could not reach the registry$$ FROM snowflake_lease_status()'), 't', 'the status has it');
$registry->start;
ok(wait_until($paris, q(SELECT state = 'held' FROM snowflake_lease_status())), 'the registry is back');
ok(mints($paris, 10), 'and minting goes on by itself');
wait_for_log($paris, qr/LOG:  the registry of snowflake shards answers again/, $before, 'and the log says so');

# --- a registry that hangs
my $postmaster = postmaster_pid($registry);
$before = -s $paris->logfile;
kill('STOP', $postmaster);
wait_for_log($paris, qr/could not lease snowflake shards: .*did not answer within 5 s/, $before, 'a registry that hangs: it is given up');
# pg_ctl would give up otherwise
$paris->stop;
pass('and does not keep the server from stopping');
kill('CONT', $postmaster);
$paris->start;
ok(mints($paris, 10), 'once it goes on, so does the server');

# --- an answer that is lost: a call that releases a shard waits in the registry,
# --- and comes late, when its lease has ended and the server has leased it again
$registry->append_conf('postgresql.conf', "log_statement = 'all'\n");
reload($registry);
ok(wait_until($registry, q(SELECT current_setting('log_statement') = 'all')), 'the registry logs its calls');
my $lossy = leasing_server('lossy', $registry, '20,21', '4s');
is_holding($lossy, '20,21', 'a server with a list');
my $number = $lossy->safe_psql('postgres', 'SELECT holder FROM snowflake_lease_status()');
my $session = start_session($registry, 'BEGIN; SELECT FROM snowflake_registry_state FOR UPDATE; SELECT pg_sleep(600)');
ok(wait_until($registry, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep')), 'the registry is locked');
$before = -s $registry->logfile;
set_by_reload($lossy, "snowflake.shards = '20'\n");
wait_for_log($registry, qr/snowflake_registry_release\(holder => '$number'/, $before, 'a shard is released');
set_by_reload($lossy, "snowflake.shards = '20,21'\n");
$before = -s $registry->logfile;
wait_for_log($registry, qr/snowflake_registry_lease\(holder => '$number'.*wanted => '\{20,21\}'::int\[\], auto => NULL/, $before, 'without an answer, and wanted again');
ok(wait_until($registry, q(SELECT max(lease_until) < clock_timestamp() FROM snowflake_registry_leases WHERE shard IN (20, 21))),
	'its lease has ended');
$registry->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'));
finish_session($session);
is_holding($lossy, '20,21', 'once the registry goes on, it is leased again');
my @calls = slurp_file($registry->logfile) =~ /\.(snowflake_registry_(?:lease|release)\(holder => '$number'::text, .*)\); COMMIT/g;
my ($release) = grep { /_release/ } @calls;
is($registry->safe_psql('postgres', "SET SESSION AUTHORIZATION ids; SELECT state FROM $release)"), 'clone', 'the release that comes late is refused');
is_holding($lossy, '20,21', 'and the shard stays');
is(shards_of(mints_on_each($lossy, 1000)), '20,21', 'and is minted on');
my %call_of;
push @{ $call_of{ (split(/, /))[2] }{$_} }, $_ for @calls;
is(join("\n", map { keys %$_ } grep { keys %$_ > 1 } values %call_of), '', 'no two different calls have the same number');
$lossy->stop;

# --- what the registry refuses, and an answer that a server refuses
$registry->safe_psql('postgres', 'CREATE DATABASE wrong');
$registry->safe_psql('wrong', <<'SQL');
CREATE EXTENSION snowflake_registry;
SELECT snowflake_registry_grant('ids');
SELECT snowflake_registry_open('0');
DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('snowflake_registry_lease_shards'::regproc), 'held'''', s.shard', 'held'''', s.shard + 5000');
    -- what the server brings is another registry's
    EXECUTE replace(pg_get_functiondef('snowflake_registry_prove'::regproc), 'lost_what IS NOT NULL', 'false');
    EXECUTE replace(pg_get_functiondef('snowflake_registry_admit'::regproc), 'lease_until, what)''', 'lease_until, what) WHERE false''');
END $$;
SQL
for my $case (
	[ 'a database without the extension', sub { registry_setting($registry, 'template1') },
		qr/the registry's database "template1" has no extension snowflake_registry/ ],
	[ 'a role without the right', sub { registry_setting($registry) =~ s/user=ids/user=nobody/r },
		qr/the registry refused: permission denied for function snowflake_registry_lease/ ],
	[ 'shards that there are not', sub { registry_setting($registry, 'wrong') },
		qr/the registry's answer is not valid: row 2 has no shard of the layout/ ])
{
	my ($name, $setting, $reason) = @$case;

	$registry->safe_psql('postgres', 'DROP ROLE IF EXISTS nobody; CREATE ROLE nobody LOGIN');
	$tokyo->append_conf('postgresql.conf', "snowflake.registry = '" . $setting->() . "'\n");
	$tokyo->start;
	fails_with($tokyo, $nextval, '58000', qr/cannot mint snowflake ids: .*$reason/s, $name);
	$tokyo->stop;
}
my $other = leasing_server('other', $registry, 'auto', '4s', conf => "snowflake.layout = 'discord'\n");
fails_with($other, $nextval, '58000',
	qr/the registry refused: the snowflake registry is of another layout\. The registry's layout is "epoch=2010-.*", with shards 0 to 1023, and the server's is "epoch=2015-/s,
	'one layout a registry');
$other->stop;

# --- none is free
$registry->safe_psql('postgres', <<'SQL');
SELECT snowflake_registry_reserve(n, 'test') FROM generate_series(0, 1023) AS n
WHERE n NOT IN (SELECT shard FROM snowflake_registry_leases WHERE NOT free)
SQL
my $late = leasing_server('late', $registry, 'auto', '4s');
fails_with($late, $nextval, '55006', qr/no shard is free in the registry\n.*The next shard is free at \d/s, 'no shard is free');
# pauses that double without end would be 8 s by the fifth call
my @answers;
ok( wait_for(
		sub {
			my $answer = $late->safe_psql('postgres', 'SELECT extract(epoch FROM last_answer) FROM snowflake_lease_status()');
			push @answers, $answer if !@answers || $answer != $answers[-1];
			return @answers > 4 && $answers[-1] - $answers[-2] < 5;
		}),
	'with a short lease the pauses between its calls stay short') or diag("@answers");
is(scalar(grep { $answers[$_] - $answers[ $_ - 1 ] < 1 } 1 .. $#answers), 0, 'and are not shorter than a second') or diag("@answers");
$paris->stop;
ok(wait_until($late, q(SELECT state = 'held' FROM snowflake_lease_status())), 'until one is');
ok(mints($late, 10), 'and minting begins by itself');
# other servers have the shard that it held, and the rest
$registry->safe_psql('postgres', "UPDATE snowflake_registry_shards SET holder = 'another', lease_until = now() + interval '1 h' WHERE reserved_for IS NULL");
ok(wait_until($late, q(SELECT state = 'none' FROM snowflake_lease_status())), 'it finds that it has lost its shard');
fails_with($late, $nextval, '55006', qr/no shard is free in the registry/, 'and with "auto" it is not that shard that it wants');

done_testing();
