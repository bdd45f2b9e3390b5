# snowflake_check() where SQL alone does not lead: without the library, with another
# layout, on a standby, on a clone, with clocks anywhere, with a disk that fails, with
# locks and prepared transactions in the way, and with a registry in each state.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# The findings of an area, or all that are not ok: state, finding and next step.
sub findings
{
	my ($node, $area, $arguments) = @_;
	my $which = $area ? "area = '$area'" : "state <> 'ok'";
	my ($status, $out, $err) = $node->psql('postgres',
		"SELECT area, state, finding, next_step FROM snowflake_check(" . ($arguments // '') . ") WHERE $which");

	return "$out$err";
}

sub finds
{
	my ($node, $area, $state, $finding, $next_step, $name, $arguments) = @_;
	my $found = findings($node, $area, $arguments);

	ok((grep { /^\Q$area|$state|\E/ && $_ =~ $finding && $_ =~ $next_step } split(/\n/, $found)), "$area: $name") or diag($found);
	return;
}

# Wait until it finds that.
sub comes_to_find
{
	my ($node, $area, $state, $finding, $next_step, $name) = @_;

	wait_until($node, "SELECT EXISTS (SELECT FROM snowflake_check() WHERE area = '$area' AND state = '$state' AND finding ~ '$finding')");
	return finds($node, $area, $state, qr/$finding/, $next_step, $name);
}

# --- A sound server; settings that wait for a restart; what others hold

my $node = new_server('sound', init => { allows_streaming => 1 },
	conf => "snowflake.shards = '5'\nmax_prepared_transactions = 5\nsnowflake.refuse_clone = off\nsnowflake.layout = 'twitter'\n");
$node->safe_psql('postgres', 'CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO photos DEFAULT VALUES');
is(findings($node), '', 'a sound server');

$node->safe_psql('postgres', q{ALTER SYSTEM SET snowflake.layout = 'discord'; ALTER SYSTEM SET max_connections = 50});
reload($node);
comes_to_find($node, 'settings', 'warning', 'snowflake.layout has another value', qr/Restart the server/, 'a change that waits for a restart');
unlike(findings($node, 'settings'), qr/max_connections/, 'settings of others are not our business');
$node->safe_psql('postgres', q{ALTER SYSTEM RESET snowflake.layout; ALTER SYSTEM RESET max_connections});
reload($node);

$node->safe_psql('postgres', "BEGIN; INSERT INTO photos DEFAULT VALUES; PREPARE TRANSACTION 'a ''quoted'' name'");
finds($node, 'mark', 'warning', qr/prepared transaction "a 'quoted' name" of database "postgres"/, qr/ROLLBACK PREPARED 'a ''quoted'' name';/,
	'a prepared transaction', "held_for => '0'");
wait_until($node, q{SELECT NOT EXISTS (SELECT FROM pg_settings WHERE pending_restart)});
is(findings($node), '', 'which is none yet');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'a ''quoted'' name'");

# A lock is not waited for.
$node->safe_psql('postgres', q{INSERT INTO photos VALUES (snowflake_encode('2060-01-01Z', 5, 0))});
finds($node, 'columns', 'warning', qr/newest id of table public\.photos is of 2060/, qr/snowflake_audit/, 'an id after the horizon');
my $locker = start_session($node, 'BEGIN; LOCK TABLE photos; SELECT pg_sleep(600)');
my $held = q{FROM pg_locks WHERE relation = 'photos'::regclass AND mode = 'AccessExclusiveLock' AND granted};
wait_until($node, "SELECT EXISTS (SELECT $held)");
is(findings($node), 'visibility|notice|not seen: the greatest id of 1 tables: public.photos (locked)|Call it again when the tables are not locked.',
	'a locked table is named');
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $held");
finish_session($locker);
wait_until($node, "SELECT NOT EXISTS (SELECT $held)");
$node->safe_psql('postgres', q{DELETE FROM photos WHERE id > now() + interval '1 day'});

# --- A standby, a clone

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is(findings($standby), 'standby|notice|this server is a standby: it mints nothing|Mint on the primary server.', 'a standby, and nothing else');
is(findings($standby, 'leases'), 'leases|ok|a standby holds no lease|', 'nor a lease');
$standby->stop;

my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($node, 'base');
$clone->append_conf('postgresql.conf', "snowflake.refuse_clone = off");
$clone->start;
comes_to_find($clone, 'clone', 'warning', 'this server is a clone of [0-9a-f]{16}', qr/SELECT snowflake_accept_clone\(\);$/, 'a clone that mints');
$clone->append_conf('postgresql.conf', "snowflake.refuse_clone = on");
$clone->restart;
comes_to_find($clone, 'clone', 'error', 'this server is a clone', qr/snowflake_accept_clone/, 'one that does not');
$clone->safe_psql('postgres', 'SELECT snowflake_accept_clone()');
is(findings($clone), '', 'an accepted one');
$clone->stop;

# --- A horizon that cannot be renewed

my $obstacle = $node->data_dir . '/snowflake.horizon.tmp';
wait_until($node, 'SELECT seconds_ahead < 0 FROM snowflake_horizon()');
mkdir $obstacle or die;
my ($minted) = $node->psql('postgres', "SET statement_timeout = '3s'; SELECT snowflake_nextval()");
comes_to_find($node, 'horizon', 'error', 'cannot mint snowflake ids: .*snowflake.horizon.tmp', qr/^[^|]*\|[^|]*\|.*\|Remove the cause, such as a full disk\./, 'a disk that fails');
rmdir $obstacle or die;
mints_at_last($node, 'SELECT snowflake_nextval()');

$node->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
reload($node);
wait_until($node, q{SELECT current_setting('synchronous_standby_names') = 'nobody'});
my $waiting = start_session($node, 'SELECT snowflake_nextval(), pg_sleep(0.01) FROM generate_series(1, 1000000)');
comes_to_find($node, 'horizon', 'warning', 'waits for synchronous standby since 2\d\d\d-\d\d-\d\d \d', qr/pg_stat_replication/, 'a standby that does not answer');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT snowflake_nextval'});
finish_session($waiting);
$node->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_standby_names');
reload($node);

# --- Another layout; the library not in memory, and not there at all

restart_with_layout($node, 'discord', not_accepted => 1);
finds($node, 'layout', 'error', qr/another layout than "snowflake\.layout"\. .*epoch=2015.*epoch=2010/, qr/snowflake_accept_layout\(\)/, 'another one than the recorded');
finds($node, 'visibility', 'notice', qr/the greatest id of each table/, qr/./, 'what it keeps from seeing');

$node->append_conf('postgresql.conf', "snowflake.layout = 'twitter'\nshared_preload_libraries = ''");
$node->restart;
is(join(' ', map { (split /\|/)[0, 1] } split(/\n/, findings($node))), 'preload error visibility notice', 'without preload');
finds($node, 'preload', 'error', qr/not preloaded/, qr/"shared_preload_libraries" in postgresql\.conf, and restart/, 'what to do');
# where plpgsql is, and nothing else
my $libraries = PostgreSQL::Test::Utils::tempdir();
chomp(my $installed = `pg_config --pkglibdir`);
symlink("$installed/plpgsql.so", "$libraries/plpgsql.so") or die "could not link plpgsql: $!";
$node->append_conf('postgresql.conf', "dynamic_library_path = '$libraries'");
$node->restart;
finds($node, 'preload', 'error', qr/could not access file "snowflake"/, qr/./, 'a library that is not there');
$node->stop;

# --- Clocks

my $late = new_server('late', clock => 1, conf => "snowflake.shards = '5'\nsnowflake.clock_tolerance = '100ms'\n");
$late->safe_psql('postgres', 'SELECT snowflake_nextval()');
is(findings($late), '', 'a right clock');
set_clock($late, -3600);
finds($late, 'clock', 'error', qr/clock is [56]\d min \d+ s behind the last snowflake id\. /, qr/time synchronization/, 'a clock that went back');
SKIP:
{
	skip 'the clock has no time after 2038', 2 if !has_late_times($late);
	set_clock($late, 86400 * 365 * 53);
	finds($late, 'expiry', 'warning', qr/expires at 2080/, qr/doc.layout\.md/, 'within two years') if $late->safe_psql('postgres', 'SELECT extract(year FROM now())') < 2080;
	my $days = $late->safe_psql('postgres', q{SELECT extract(day FROM timestamptz '2080-07-01' - '2026-11-22')}) - (time() - 1795300000) / 86400;
	set_clock($late, 86400 * $days);
	finds($late, 'expiry', 'warning', qr/expires at 2080/, qr/doc.layout\.md/, 'within some days');
}
$late->stop('immediate');

# --- A registry: away, without the extension, without the grant, held by another

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->append_conf('postgresql.conf', "shared_preload_libraries = ''");
my $paris = leasing_server('paris', $registry, 'auto', '10s');
comes_to_find($paris, 'registry', 'error', 'could not (reach|connect)|cannot be reached', qr/Check that the registry runs/, 'away');
$registry->start;
$registry->safe_psql('postgres', 'CREATE ROLE ids LOGIN');
comes_to_find($paris, 'registry', 'error', 'snowflake_registry', qr/Name .*"dbname".*run CREATE EXTENSION snowflake_registry there/, 'without the extension');
$registry->safe_psql('postgres', 'CREATE EXTENSION snowflake_registry');
comes_to_find($paris, 'registry', 'error', 'permission denied', qr/snowflake_registry_grant/, 'without the grant');
$registry->safe_psql('postgres', "SELECT snowflake_registry_grant('ids')");
$registry->safe_psql('postgres', "SELECT snowflake_registry_open('0')")
  if $registry->safe_psql('postgres', "SELECT count(*) FROM pg_proc WHERE proname = 'snowflake_registry_open'");
comes_to_find($paris, 'leases', 'ok', '1 shards are leased until', qr/./, 'held');
is(findings($paris), '', 'all is well');
my $tokyo = leasing_server('tokyo', $registry, $paris->safe_psql('postgres', 'SELECT shard FROM snowflake_leases()'), '10s');
comes_to_find($tokyo, 'leases', 'error', 'shard \\d+ is leased to another server. ', qr/shards of its own/, 'that of another');
$_->stop for $tokyo, $paris, $registry;

done_testing();
