# Leases and clocks that are wrong: a server's clock that is ahead or behind, a
# standby that is promoted, and a backup that is recovered, with a clock that is
# behind.  And a registry that has lost something: restored, or failed over.
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
my $registry = new_registry('registry', init => { allows_streaming => 1 });

# --- a clock ahead: an error that says so, and no id from the future
my $paris = leasing_server('paris', $registry, 'auto:1', '60s', clock => 1, init => { allows_streaming => 1, has_archiving => 1 });
my %minted = map { $_ => 1 } mints($paris, 1000);
# the registry was there long before
$registry->safe_psql('postgres', q(BEGIN; UPDATE snowflake_registry_state SET not_before = not_before - interval '1 day';
	UPDATE snowflake_registry_state SET writer = xmin; COMMIT));
set_clock($paris, 3600);
fails_with($paris, $nextval, '58000',
	qr/clock is (?:5\d min \d+ s|1 h \d+ min|60 min \d+ s) ahead of the lease of this server's shards.*The lease ends at \d.*ahead of the registry's\..*HINT:  Check the time sync/s,
	'a clock an hour ahead');
cmp_ok($paris->safe_psql('postgres', 'SELECT clock_ahead FROM snowflake_lease_status()'), '>', 3500, 'the status says by how much');
set_clock($paris, 0);
my @ids = mints($paris, 1000);
ok(@ids, 'the clock is right again: minting goes on at once');
cmp_ok(($ids[-1] >> 22) + 1288834974657, '<', (time() + 10) * 1000, 'no id is from the future');
$paris->stop;
start_with_clock($paris, 3600);
fails_with($paris, $nextval, '58000', qr/clock is .* ahead of the lease/, 'started with a clock an hour ahead');
$paris->stop;

# --- a crash, and a clock that was set back meanwhile: nothing below its own horizon
start_with_clock($paris, 0);
my ($last) = mints($paris, 1);
$paris->stop('immediate');
start_with_clock($paris, -300);
fails_with($paris, $nextval, '58000', qr/clock is [2-5] min \d+ s behind the (?:snowflake horizon that was found at the start|lease of this server's shards)/,
	'a crash, and the clock was set back: it waits');
$paris->stop;
my ($shard, $ms) = ($last >> 12 & 1023, ($last >> 22) + 1288834974657);
cmp_ok($registry->safe_psql('postgres', "SELECT extract(epoch FROM lease_until) * 1000 FROM snowflake_registry_shards WHERE shard = $shard"),
	'>', $ms, 'what it gives back then, without having opened it, is after its ids');

# --- a clock behind: as without a registry, on shards that nobody used lately
start_with_clock($paris, 0);
ok(mints($paris, 1), 'a clock that is right');
my $lima = leasing_server('lima', $registry, 'auto:1', '60s', clock => 1);
$lima->stop;
unlink $lima->data_dir . '/snowflake.lease', $lima->data_dir . '/snowflake.horizon';
$registry->safe_psql('postgres', q(DELETE FROM snowflake_registry_shards WHERE shard > 0));
start_with_clock($lima, -3600);
@ids = mints($lima, 1000);
cmp_ok(($ids[-1] >> 22) + 1288834974657, '<', (time() - 3500) * 1000, 'a clock an hour behind: mints');
$lima->stop;

# --- behind the beginning of a lease
my $ahead = new_registry('ahead', clock => 1);
set_clock($ahead, 1800);
$ahead->safe_psql('postgres', q(SELECT snowflake_registry_open('0')));
my $lagging = leasing_server('lagging', $ahead, 'auto:1', '60s');
fails_with($lagging, $nextval, '58000',
	qr/clock is (?:2\d min \d+ s|30 min 0 s) behind the lease of this server's shards.*The lease begins at \d.*behind the registry's\./s,
	'a clock that is behind the beginning of a lease: an error says so');
$_->stop for $lagging, $ahead;

# --- a standby that lacks the last seconds, promoted with a clock that is behind,
# --- while the old primary goes on
$paris->backup('base');
my $tokyo = PostgreSQL::Test::Cluster->new('tokyo');
$tokyo->init_from_backup($paris, 'base', has_streaming => 1);
$tokyo->append_conf('postgresql.conf', "archive_mode = off\n");
start_with_clock($tokyo, -300);
fails_with($tokyo, $nextval, '25006', qr/cannot mint ids during recovery/, 'a standby');
mints($paris, 1);
$paris->wait_for_catchup($tokyo);
$tokyo->append_conf('postgresql.conf', "primary_conninfo = ''\n");
reload($tokyo);
ok(wait_until($tokyo, 'SELECT count(*) = 0 FROM pg_stat_wal_receiver'), 'is cut off');
my @minters = start_minters($paris, 2, 'snowflake_nextval()');
$paris->safe_psql('postgres', 'SELECT pg_sleep(1)');
$tokyo->promote;
fails_with($tokyo, 'SET snowflake.clock_tolerance = 0; SELECT snowflake_nextval()', '58000',
	qr/clock is [2-5] min \d+ s behind the snowflake horizon that was found/, 'promoted with a clock 5 minutes behind: it waits');
my $horizon = $tokyo->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
$tokyo->stop;
start_with_clock($tokyo, -300);
is($tokyo->safe_psql('postgres', "SELECT horizon >= '$horizon' FROM snowflake_horizon()"), 't', 'a clean stop does not forget what was found');
set_clock($tokyo, 0);
@ids = mints($tokyo, 1000);
push @minters, start_minters($tokyo, 2, 'snowflake_nextval()');
all_mint(500, @minters);
cmp_ok(ids_are_distinct('old primary and new', stop_minters(@minters)), '>', 1000, 'both mint');
isnt(held_shards($tokyo), held_shards($paris), 'on other shards');
$tokyo->stop;

# --- an old primary that the registry cannot be reached from, at the same time
my $oslo = PostgreSQL::Test::Cluster->new('oslo');
$oslo->init_from_backup($paris, 'base', has_streaming => 1);
$registry->safe_psql('postgres', "CREATE ROLE oslo LOGIN; SELECT snowflake_registry_grant('oslo')");
$oslo->append_conf('postgresql.conf', "archive_mode = off\nsnowflake.registry = '"
	  . registry_setting($registry) =~ s/user=ids/user=oslo/r . "'\n");
$oslo->start;
$paris->append_conf('postgresql.conf', "snowflake.lease = '10s'\n");
reload($paris);
ok(wait_until($paris, q(SELECT lease_until < now() + interval '11 s' FROM snowflake_lease_status())), 'a short lease');
mints($paris, 1);
$paris->wait_for_catchup($oslo);
$oslo->append_conf('postgresql.conf', "primary_conninfo = ''\n");
reload($oslo);
ok(wait_until($oslo, 'SELECT count(*) = 0 FROM pg_stat_wal_receiver'), 'another standby is cut off');
@minters = start_minters($paris, 2, 'snowflake_nextval()', errors => '/dev/null');
$registry->safe_psql('postgres', 'ALTER ROLE ids NOLOGIN');
ok(wait_until($paris, q(SELECT last_error LIKE '%not permitted to log in%' FROM snowflake_lease_status())),
	'the old primary is cut off from the registry');
$oslo->promote;
mints($oslo, 1);
push @minters, start_minters($oslo, 2, 'snowflake_nextval()');
ok(wait_until($paris, q(SELECT state = 'ended' FROM snowflake_lease_status())), 'its lease ends');
fails_with($paris, $nextval, '58000', qr/This server's lease ended at .*not permitted to log in/s, 'and it mints no more');
ok(mints($oslo, 1000), 'the new one mints');
$registry->safe_psql('postgres', 'ALTER ROLE ids LOGIN');
ok(wait_until($paris, q(SELECT state = 'held' FROM snowflake_lease_status())), 'the old one leases again');
push @minters, start_minters($paris, 1, 'snowflake_nextval()');
all_mint(600, @minters[ -3 .. -1 ]);
isnt(held_shards($oslo), held_shards($paris), 'on other shards than the new one');
cmp_ok(ids_are_distinct('an old primary that was cut off, and the new one', stop_minters(@minters)), '>', 1000, 'both mint');
$oslo->stop;

# --- a backup that is recovered to an earlier time, with a clock behind
$paris->safe_psql('postgres', "SELECT pg_create_restore_point('here'), pg_switch_wal()");
my @lost = mints($paris, 5000);
$paris->safe_psql('postgres', 'SELECT pg_switch_wal()');
$paris->poll_query_until('postgres',
	'SELECT last_archived_wal IS NOT NULL AND pg_walfile_name(pg_current_wal_lsn()) > last_archived_wal FROM pg_stat_archiver') or die;
my $recovered = PostgreSQL::Test::Cluster->new('recovered');
$recovered->init_from_backup($paris, 'base', has_restoring => 1, standby => 0);
$recovered->append_conf('postgresql.conf', "recovery_target_name = 'here'\nrecovery_target_action = promote\narchive_mode = off\n");
start_with_clock($recovered, -300);
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
fails_with($recovered, 'SET snowflake.clock_tolerance = 0; SELECT snowflake_nextval()', '58000',
	qr/clock is [2-5] min \d+ s behind the snowflake horizon that was found/, 'recovered to an earlier time, with a clock 5 minutes behind: it waits');
set_clock($recovered, 0);
@ids = mints($recovered, 5000);
my %lost = map { $_ => 1 } @lost;
is(scalar(grep { $lost{$_} } @ids), 0, 'and repeats nothing');
$recovered->stop;
$paris->stop;

sub use_registry
{
	my ($node, $which) = @_;

	$node->append_conf('postgresql.conf', "snowflake.registry = '" . registry_setting($which) . "'\n");
	reload($node);
	return;
}

# --- a registry that is restored from a backup of before the leases: it fences
# itself for as long as a lease can be
my $early = new_registry('early', init => { allows_streaming => 1 });
$early->safe_psql('postgres', "SELECT snowflake_registry_limit('25 s', 1024)");
$early->backup('empty');
my $first = leasing_server('first', $early, 'auto:1', '16s');
is(held_shards($first), '0', 'a lease that the backup does not know of');
$early->stop('immediate');
my $again = PostgreSQL::Test::Cluster->new('again');
$again->init_from_backup($early, 'empty');
$again->append_conf('postgresql.conf', "hot_standby = on\n");
$again->start;
my $second = new_server('second', conf => lease_conf($early, 'auto:1', '16s'));
$second->stop;
$second->append_conf('postgresql.conf', "snowflake.registry = '" . registry_setting($again) . "'\n");
$second->start;
use_registry($first, $again);
@minters = start_minters($first, 1, 'snowflake_nextval()');
fails_with($second, $nextval, '55006', qr/no shard is free in the registry.*The next shard is free at \d/s,
	'a registry that was restored and fenced leases nothing yet');
my $fenced_until = $again->safe_psql('postgres', 'SELECT not_before FROM snowflake_registry_summary');
ok(wait_until($second, q(SELECT state = 'held' FROM snowflake_lease_status())), 'but it does later');
is($again->safe_psql('postgres', "SELECT min(lease_from) >= '$fenced_until' FROM snowflake_registry_leases"), 't',
	'no lease begins before the end of the fence');
push @minters, start_minters($second, 1, 'snowflake_nextval()');
ok(wait_until($first, q(SELECT state = 'held' FROM snowflake_lease_status())), 'the first server gets one as well');
push @minters, start_minters($first, 1, 'snowflake_nextval()');
$first->safe_psql('postgres', 'SELECT pg_sleep(1)');
ids_are_distinct('registry restored', stop_minters(@minters));

# --- a registry that fails over to a standby that lacks the last renewals
$again->backup('now');
my $heir = PostgreSQL::Test::Cluster->new('heir');
$heir->init_from_backup($again, 'now', has_streaming => 1);
$heir->start;
# these two cannot lease from a standby
my $third = leasing_server('third', $heir, 'auto:1', '16s');
my $fourth = leasing_server('fourth', $heir, '900', '16s');
fails_with($third, $nextval, '58000', qr/server is in hot standby mode/, 'a standby leases nothing');
$again->wait_for_catchup($heir);
$heir->append_conf('postgresql.conf', "primary_conninfo = ''\n");
reload($heir);
ok(wait_until($heir, 'SELECT count(*) = 0 FROM pg_stat_wal_receiver'), 'a standby of the registry is cut off');
my $held = held_shards($first);
ok(wait_until($again, "SELECT lease_until > clock_timestamp() + interval '15 s' FROM snowflake_registry_leases WHERE shard = $held"),
	'and lacks a renewal');
$again->stop('immediate');
$heir->promote;
@minters = map { start_minters($_, 1, 'snowflake_nextval()') } $first, $second;
use_registry($_, $heir) for $first, $second;
wait_for_log($_, qr/LOG:  the registry refuses 1 of the snowflake shards/, 0, 'the standby is promoted') for $third, $fourth;
fails_with($third, $nextval, '55006', qr/no shard is free in the registry/, 'it fences itself');
fails_with($fourth, $nextval, '55006', qr/shard 900 is not free yet.*The registry was fenced, or .* No lease begins before \d/s, 'for a list as well');
wait_for_log($heir, qr/LOG:  the snowflake registry is fenced: no new lease begins before /, 0, 'and logs that');
ok( wait_until($heir, "SELECT lease_until > clock_timestamp() + interval '15 s' FROM snowflake_registry_leases WHERE shard = $held"),
	'and renews what is in force');
is(held_shards($first), $held, 'the first server goes on');
ok(wait_until($third, q(SELECT state = 'held' FROM snowflake_lease_status())), 'the third server leases after that');
push @minters, start_minters($third, 1, 'snowflake_nextval()');
$third->safe_psql('postgres', 'SELECT pg_sleep(1)');
ids_are_distinct('registry failed over', stop_minters(@minters));

done_testing();
