# A server that holds a lease and cannot mint says why, and nobody waits without an
# error: clocks that are wrong, on either side, a registry that is locked, a server's
# own lease of before, and leases that the registry gave to somebody else.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RegistryProxy;
use SnowflakeTest;
use Test::More;

# Without an error of its own, the statement ends by this.
my $nextval = "SET statement_timeout = '60s'; SELECT snowflake_nextval()";
my $registry = new_registry('registry', clock => 1);

sub in_registry
{
	return $registry->safe_psql('postgres', $_[0]);
}

# Leases begin at this time at the earliest.
sub set_not_before
{
	my ($time) = @_;

	in_registry("BEGIN; UPDATE snowflake_registry_state SET not_before = $time;
		SELECT snowflake_registry_write(s) FROM snowflake_registry_state AS s; COMMIT");
	return;
}

# --- a server whose clock is 40 s ahead of the registry's stops cleanly and starts
set_not_before(q(now() - interval '1 day'));
set_clock($registry, -40);
my $paris = leasing_server('paris', $registry, '5,6', '5min');
ok(mints($paris, 10), 'a list');
$paris->restart;
my ($status, $out, $err) = $paris->psql('postgres', $nextval);
is("$status$err", '0', 'a clean restart, with a clock 40 s ahead of the registry: it mints at once');
is_holding($paris, '5,6', 'on its own list');
$paris->stop;
$paris->append_conf('postgresql.conf', "snowflake.lease = '10s'\n");
$paris->start;
fails_with($paris, $nextval, '58000',
	qr/clock is [\d.]+ m?s ahead of the lease of this server's shards\n.*The lease ends at .*, and the clock is at .*, [34]\d(?:\.\d)? s ahead of the registry's/s,
	'and with a lease that is shorter than that: an error, which blames the clock');
$paris->stop;

# --- the registry's clock goes back by an hour, and then another shard is wanted
set_clock($registry, 0);
ok(wait_until($registry, 'SELECT count(*) = 0 FROM snowflake_registry_leases WHERE NOT free'), 'all shards are free');
my $tokyo = leasing_server('tokyo', $registry, '7', '1min');
ok(mints($tokyo, 10), 'a server with a list');
set_not_before(q(not_before - interval '1 day'));
set_clock($registry, -3600);
change_settings($tokyo, shards => '8');
is_holding($tokyo, '8', 'another shard, once the clock of the registry was set back');
fails_with($tokyo, $nextval, '58000',
	qr/clock is (?:5\d min [\d.]+ s|1 h \d+ min) ahead of the lease of this server's shards\n.*(?:5\d min \d+ s|1 h \d+ min|60 min \d s) ahead of the registry's/s,
	'it says why it cannot mint there');
fails_with($tokyo, "SET statement_timeout = '60s'; SELECT snowflake_nextval(8)", '58000', qr/ahead of the lease of this server's shards/,
	'for a shard that is named, too');
set_clock($registry, 0);
ok(wait_until($tokyo, q(SELECT lease_until > now() FROM snowflake_lease_status())), 'the clock is right again');
ok(mints($tokyo, 10), 'and the server mints');

# --- the horizon is past the end of a lease: a server that minted without a lease
my $lima = new_server('lima', conf => "snowflake.shards = '9'\nsnowflake.reserve = '60s'\nshared_buffers = 64MB\n");
ok(mints($lima, 10), 'a server without a registry');
change_settings($lima, registry => registry_setting($registry), lease => '5s');
fails_with($lima, $nextval, '58000',
	qr/snowflake horizon is \d+(?:\.\d)? s ahead of the lease of this server's shards\n.*The lease ends at .*, and the horizon is .*\. The clock is .* the registry's\./s,
	'a lease that ends before the horizon: an error');
$lima->stop;

# --- no lease begins before a time that is ahead
set_not_before(q(now() + interval '1 h'));
change_settings($tokyo, shards => '10');
ok(wait_until($tokyo, q(SELECT array_agg(shard) = '{10}' AND NOT bool_or(held) FROM snowflake_leases())), 'a registry that was fenced for an hour');
fails_with($tokyo, $nextval, '55006', qr/shard 10 is not free yet\n.*The registry was fenced, or .* No lease begins before/s, 'an error for a list');
change_settings($tokyo, shards => 'auto');
ok(wait_until($tokyo, q(SELECT count(*) = 0 FROM snowflake_leases())), 'the same for "auto"');
fails_with($tokyo, $nextval, '55006', qr/no shard is free in the registry/, 'an error');
set_not_before(q(now() - interval '1 day'));
ok(wait_until($tokyo, q(SELECT state = 'held' FROM snowflake_lease_status())), 'the fence ends');

# --- an administrator's open transaction has the lock
my $lock = start_session($registry, 'BEGIN; SELECT FROM snowflake_registry_state FOR UPDATE; SELECT pg_sleep(600)');
ok(wait_until($registry, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep')), 'the registry is locked');
change_settings($tokyo, shards => '11');
is_holding($tokyo, '', 'the shard that it had is not wanted any more');
fails_with($tokyo, $nextval, '58000', qr/cannot mint snowflake ids: .*registry/, 'an error, and no endless wait');
in_registry(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'));
finish_session($lock);
is_holding($tokyo, '11', 'and when the lock is gone, it goes on');

# --- a release that the registry did not take: the server's own lease is nobody else's
change_settings($tokyo, lease => '5min', shards => '11,12');
is_holding($tokyo, '11,12', 'two shards');
ok(wait_until($tokyo, q(SELECT lease_until > now() + interval '4 min' FROM snowflake_lease_status())), 'with a long lease');
in_registry(q(ALTER FUNCTION snowflake_registry_release RENAME TO moved));
change_settings($tokyo, shards => '11');
is_holding($tokyo, '11', 'one is given back, which fails');
in_registry(q(ALTER FUNCTION moved RENAME TO snowflake_registry_release));
change_settings($tokyo, shards => '11,12');
ok(wait_until($tokyo, q(SELECT bool_or(shard = 12 AND NOT held) FROM snowflake_leases())), 'and wanted again');
fails_with($tokyo, 'SELECT snowflake_nextval(12)', '55006',
	qr/shard 12 is not free yet\n.*an earlier lease of this server itself\. No lease begins before \d/s, 'it is not told that another server has it');

# --- the registry gave a lease in force to somebody else
my $before = -s $tokyo->logfile;
in_registry(<<'SQL');
INSERT INTO snowflake_registry_holders (holder, role, host, fence, lease, seen_at) VALUES ('another', 'ids', 'osaka:5432', 1, '1 min', now());
UPDATE snowflake_registry_shards SET holder = 'another' WHERE shard = 11;
SQL
change_settings($tokyo, shards => '11');
my $notices = 'SELECT losses, last_loss FROM snowflake_lease_status()';
wait_for_log($tokyo,
	qr/WARNING:  the registry of snowflake shards has lost what it told this server\n.*DETAIL:  Shard 11, leased from \d.* until \d.*osaka:5432.*\n.*HINT:  Ids can exist twice\./,
	$before, 'a lease in force is another server\'s: logged');
fails_with($tokyo, $nextval, 'XX001',
	qr/the registry gave shard 11 to another server during a lease of this server\n.*osaka:5432.* has it now\. The lease was from \d.* until \d.*snowflake_audit\(\)/s,
	'sessions are told');
ok(wait_until($tokyo, "SELECT last_answer > '" . $tokyo->safe_psql('postgres', 'SELECT clock_timestamp()') . "' FROM snowflake_lease_status()"), 'it has called again');
like($tokyo->safe_psql('postgres', $notices), qr/^1\|shard 11, from \d.* until \d.*osaka:5432/, 'and the status tells of it, once');

# --- a lease that is over, and that the registry did not renew: the clock is not blamed
set_clock($registry, 0);
set_not_before(q(now() - interval '1 day'));
my $oslo = leasing_server('oslo', $registry, 'auto:1', '4s');
ok(mints($oslo, 1), 'a short lease');
in_registry(q(SELECT snowflake_registry_fence('10 min');
	DELETE FROM snowflake_registry_shards AS s USING snowflake_registry_holders AS h WHERE h.holder = s.holder AND h.host ~ 'oslo'));
ok(wait_until($oslo, q(SELECT lease_until < now() FROM snowflake_lease_status())), 'it is forgotten, and ends');
fails_with($oslo, $nextval, '55006', qr/no shard is free in the registry/, 'what is missing is said');

# --- answers that come later than the lease lasts: nor is it blamed for these
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $proxy = start_proxy($dir, $registry, 0);
set_not_before(q(now() - interval '1 day'));
in_registry(q(SELECT snowflake_registry_reserve(19, 'whom the error does not name')));
my $quito = new_server('quito', conf => <<"CONF");
snowflake.registry = 'host=$dir port=5432 dbname=postgres user=ids'
snowflake.shards = '19,20'
snowflake.lease = '2s'
shared_buffers = 64MB
CONF
ok(mints($quito, 1), 'a lease of two seconds, through a proxy');
ok(wait_until($quito, 'SELECT abs(clock_ahead) < 1 FROM snowflake_lease_status()'), 'the clocks agree');
delay_answers($proxy, 3);
my $now = $quito->safe_psql('postgres', 'SELECT clock_timestamp()');
ok(wait_until($quito, "SELECT last_answer > '$now'::timestamptz + interval '3 s' AND lease_until < now() FROM snowflake_lease_status()"),
	'an answer that comes three seconds late');
fails_with($quito, $nextval, '58000',
	qr/the lease of this server's shards ended before it was renewed\n.*It ended at \d.*\. The registry's last answer took [34]\.\d s\.\n.*HINT:  Minting goes on by itself/s,
	'the error tells of it', at_last => 1);
ok(wait_until($quito, 'SELECT abs(clock_ahead) < 1 FROM snowflake_lease_status()'), 'the clocks still agree');
delay_answers($proxy, 0);
ok(wait_until($quito, q(SELECT lease_until > now() FROM snowflake_lease_status())), 'answers in time');
ok(mints($quito, 1), 'it mints');
$quito->stop;
stop_proxy($proxy);

done_testing();
