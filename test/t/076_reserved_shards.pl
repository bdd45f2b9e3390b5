# With a registry, ids for rows that exist are on shards that are reserved there, and a
# default mints on no shard of a lease by its number.  And what a server does when its
# registry is another one than before.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry');
my $paris = leasing_server('paris', $registry, 'auto:2', '1min', init => { allows_streaming => 1 });

sub history
{
	my ($shard, $layout) = @_;
	return "SELECT snowflake_history(now() - interval '1 day', $shard" . ($layout // '') . ') OVER () > 0';
}

# --- reserved shards alone, as the registry has them now
is(held_shards($paris, 2), '0,1', 'a server with "auto"');
for my $case ([ 0, 'a shard that it holds' ], [ 7, 'a shard that another server can get' ], [ 1023, 'the last one' ])
{
	my ($shard, $name) = @$case;

	fails_with($paris, history($shard), '55006',
		qr/shard $shard is not reserved in the registry\n.*HINT:  Call snowflake_registry_reserve\($shard, 'ids for old rows'\) in the registry/s, $name);
}
is($paris->safe_psql('postgres', history(0, ", 'discord'")), 't', 'another layout is not its business');
$registry->safe_psql('postgres', q(SELECT snowflake_registry_reserve(1023, 'old rows')));
is($paris->safe_psql('postgres', history(1023)), 't', 'once it is reserved, at once');
$registry->safe_psql('postgres', 'SELECT snowflake_registry_unreserve(1023)');
fails_with($paris, history(1023), '55006', qr/shard 1023 is not reserved in the registry/, 'and when it is no more, at once');

# --- a standby does not ask, and says so at once
$paris->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($paris, 'standby', has_streaming => 1);
$standby->start;
fails_with($standby, history(1023), '55000', qr/it is not known whether shard 1023 is reserved\n.*This server is a standby.*\nHINT:  Make the ids on the primary/s, 'on a standby');
$standby->stop;

# --- a long list, and no answer
$registry->safe_psql('postgres', q(SELECT snowflake_registry_reserve(2 * n + 2, 'every other one') FROM generate_series(1, 510) AS n));
is($paris->safe_psql('postgres', history(4)), 't', 'a long list');
# a statement asks for all of its shards at once
$registry->safe_psql('postgres', <<'SQL');
CREATE TABLE calls (at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION note_call() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN INSERT INTO public.calls DEFAULT VALUES; RETURN NULL; END';
CREATE TRIGGER note_call AFTER UPDATE ON snowflake_registry_holders EXECUTE FUNCTION note_call();
SQL
is($paris->safe_psql('postgres', q(SELECT count(DISTINCT id) FROM (SELECT snowflake_history(now() - interval '1 day', shard) OVER (PARTITION BY shard) FROM generate_series(4, 82, 2) AS shard) AS h (id))),
	40, 'ids of 40 shards');
cmp_ok($registry->safe_psql('postgres', 'DROP TRIGGER note_call ON snowflake_registry_holders; SELECT count(*) FROM calls'), '<', 20, 'for which the registry is not called 40 times');
# an answer is old in the next statement, and after a second
my $unreserve = 'psql -XAtq -d "' . $registry->connstr('postgres') . '" -c "SELECT snowflake_registry_unreserve(%d)"';
fails_with($paris, history(6) . ";\n\\! " . sprintf($unreserve, 6) . "\n" . history(6), '55006', qr/shard 6 is not reserved/, 'the next statement asks again');
fails_with($paris, sprintf(<<'SQL', map { s/'/''/gr } sprintf($unreserve, 8)), '55006', qr/shard 8 is not reserved/, 'and so does a long one');
DO $do$
BEGIN
	PERFORM snowflake_history(now() - interval '1 day', 8) OVER ();
	COPY (SELECT) TO PROGRAM '%s';
	PERFORM pg_sleep(1.1);
	PERFORM snowflake_history(now() - interval '1 day', 8) OVER ();
END
$do$
SQL
# a registry that is silent: an attempt goes on while the next call asks
my $again = 'PERFORM snowflake_history(now() - interval $$1 day$$, 4) OVER ()';
my $postmaster = postmaster_pid($registry);
kill 'STOP', $postmaster;
fails_with($paris, <<"SQL", '55000', qr/it is not known whether shard 4 is reserved/, 'a reload does not make an old answer a new one');
DO \$do\$
BEGIN
	BEGIN $again; EXCEPTION WHEN object_not_in_prerequisite_state THEN END;
	PERFORM pg_reload_conf(), pg_sleep(0.3);
	$again;
END
\$do\$
SQL
kill 'CONT', $postmaster;
$registry->stop;
fails_with($paris, history(4), '55000', qr/it is not known whether shard 4 is reserved\n.*The registry does not answer\./s, 'the registry is away: no guess');
$paris->restart;
fails_with($paris, history(4), '55000', qr/it is not known whether shard 4 is reserved/, 'nor after a restart');
$registry->start;
is($paris->safe_psql('postgres', history(4)), 't', 'it is back');

# --- a default that names a leased shard would fail with the next lease
$paris->safe_psql('postgres', 'CREATE TABLE photos (id serial PRIMARY KEY)');
my ($own) = split(/,/, held_shards($paris, 2));
fails_with($paris, "SELECT snowflake_adopt('photos', 'id', $own)", '55000',
	qr/shard $own is this server's for the time of a lease only\n.*"snowflake\.shards" is "auto:2".*Name no shard/s, 'snowflake_adopt() with "auto" and a shard');
like($paris->safe_psql('postgres', "SELECT snowflake_adopt('photos', 'id')"), qr/snowflake_nextval\(\)/, 'and with all of them');
$paris->stop;

# --- another registry: leases of the one before go on to their end, and are told once
my $another = new_registry('another');
my $tokyo = leasing_server('tokyo', $registry, '1,3', '20s');
is_holding($tokyo, '1,3', 'a server with a list');
my $before = -s $tokyo->logfile;
my $until = $tokyo->safe_psql('postgres', 'SELECT lease_until FROM snowflake_lease_status()');
$tokyo->append_conf('postgresql.conf', "snowflake.registry = '" . registry_setting($another) . "'\n");
reload($tokyo);
wait_for_log($tokyo, qr/LOG:  another registry leases snowflake shards to this server/, $before, 'another registry: logged');
wait_for_log($tokyo, qr/WARNING:  the registry of snowflake shards has lost what it told this server/, $before, 'and that it does not know the leases');
ok(mints($tokyo, 100), 'it mints on them to their end');
my $fenced = $another->safe_psql('postgres', 'SELECT not_before FROM snowflake_registry_summary');
is($another->safe_psql('postgres', "SELECT '$fenced' >= '$until'::timestamptz"), 't', 'the registry leases nothing before');
ok(wait_until($tokyo, "SELECT last_answer > clock_timestamp() - interval '1 s' AND last_answer > '$until'::timestamptz - interval '10 s' FROM snowflake_lease_status()"),
	'it calls again');
is($another->safe_psql('postgres', 'SELECT not_before FROM snowflake_registry_summary'), $fenced, 'and that fences the registry no longer');
ok(wait_until($tokyo, "SELECT state = 'held' AND lease_until > '$until' FROM snowflake_lease_status()"), 'then it has leases of the other registry');
is_holding($tokyo, '1,3', 'of the same shards');
ok(mints($tokyo, 100), 'and mints');
$tokyo->stop;

# --- more than the registry can tell: no guess, until it is less
my $wide = new_registry('wide');
my $oslo = leasing_server('oslo', $wide, 'auto:1', '1min',
	conf => "snowflake.layout = 'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:16,sequence:6'\n");
is(held_shards($oslo), 0, 'a server with 65,536 shards');
$wide->safe_psql('postgres', q(SELECT snowflake_registry_reserve(2 * n + 10, 'every other one') FROM generate_series(1, 2000) AS n));
fails_with($oslo, history($_), '54000',
	qr/it is not known whether shard $_ is reserved\n.*The registry has reserved more shards than it can tell\.\nHINT:  Reserve shards that follow each other\./, "shard $_, with too many to tell")
  for 12, 13;
is(held_shards($oslo), 0, 'and leases go on');
$wide->safe_psql('postgres', q(SELECT snowflake_registry_unreserve(2 * n + 10) FROM generate_series(1001, 2000) AS n));
is($oslo->safe_psql('postgres', history(12)), 't', 'fewer are told');

done_testing();
