# Reading what is new with snowflake_settled(), where shards are leased.  Whoever
# begins to mint, as a new holder or not, with a clock that is behind, mints nothing
# below the horizon that was found: a reader that goes on with its last id gets each
# row once.  And the mark goes on with the clock, whether the registry answers or
# not, and whether somebody mints or not.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use FeedTest;
use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# A clock that is set back, in seconds: so far that what was found is waited for, and to
# before the lease began
my $BEHIND = -100;
my $BEFORE_LEASE = -30;
my $registry = new_registry('registry');
my $paris = leasing_server('paris', $registry, 'auto:2', '120s', clock => 1,
	init => { allows_streaming => 1, has_archiving => 1 }, conf => "snowflake.clock_tolerance = 60s\nwal_keep_size = 1GB\n");

$paris->safe_psql('postgres', 'CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text)');

sub writes
{
	my ($node, $name) = @_;
	return $node->safe_psql('postgres', "INSERT INTO events (name) VALUES ('$name') RETURNING id");
}

# Rows, which are read, and the mark as far ahead of them as it gets.
sub goes_far
{
	my ($node, $name) = @_;

	writes($node, $name);
	is_deeply([ poll_to_the_end($node) ], [$name], "$name: read");
	return mark_of($node);
}

# A server that has started $BEHIND: it waits for what it found, as without leases.
sub goes_on
{
	my ($node, $mark, $name) = @_;

	wait_until($node, q(SELECT state = 'held' FROM snowflake_lease_status())) or die "$name: no lease";
	fails_with($node, "SET snowflake.clock_tolerance = 0; INSERT INTO events (name) VALUES ('too early')", '58000',
		qr/clock is \d.* behind the snowflake horizon that was found at the start/, "$name: nothing is minted before the horizon");
	cmp_ok(mark_of($node), '>=', $mark, "$name: the mark does not go back");
	set_clock($node, 0);
	cmp_ok(writes($node, $name), '>=', $mark, "$name: nothing is below the mark that was given");
	is_deeply([ poll_to_the_end($node) ], [$name], "$name: the reader goes on");
	has_read_each_once($node, $name);
	return;
}

sub standby_of
{
	my ($node, $name) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "archive_mode = off\nprimary_conninfo = '"
		  . $node->connstr . " application_name=$name'\n");
	start_with_clock($standby, $BEHIND);
	return $standby;
}

# --- The same place, another place, another boot
my $mark = goes_far($paris, 'before a crash');

# by its clock, its own lease has not begun yet, and that is waited for
$paris->stop('immediate');
start_with_clock($paris, $BEFORE_LEASE);
goes_on($paris, $mark, 'after a crash');
for my $place ([ HOST => 'ids-1' ], [ BOOT => 'another' ], ['directory'])
{
	my ($what, @value) = @$place;
	my $holder = $paris->safe_psql('postgres', 'SELECT holder FROM snowflake_lease_status()');

	$mark = goes_far($paris, "before another $what");
	$paris->stop($what eq 'BOOT' ? 'fast' : 'immediate');
	if (!@value)
	{
		rename($paris->data_dir, $paris->data_dir . '_before') or die "could not rename: $!";
		system_or_bail('cp', '-a', $paris->data_dir . '_before', $paris->data_dir);
	}
	start_with_clock($paris, $BEHIND, place => { @value ? ($what => @value) : () });
	goes_on($paris, $mark, "after another $what");
	isnt($paris->safe_psql('postgres', 'SELECT holder FROM snowflake_lease_status()'), $holder, "another $what: a new holder");
}

# --- A clone, beside its original
$mark = goes_far($paris, 'before a clone');
$paris->backup('base');
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($paris, 'base');
$clone->append_conf('postgresql.conf', "archive_mode = off\n");
start_with_clock($clone, $BEHIND);
goes_on($clone, $mark, 'on a clone');
$clone->stop;
# the reader was there
new_reader();
poll_to_the_end($paris);
writes($paris, 'beside it');
is_deeply([ poll_to_the_end($paris) ], ['beside it'], 'beside it, the original');

# --- A recovery to the end of what was archived
$paris->backup('base_2');
$mark = goes_far($paris, 'before a recovery');
my $segment = $paris->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
$paris->poll_query_until('postgres', "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver") or die 'not archived';
my $recovered = PostgreSQL::Test::Cluster->new('recovered');
$recovered->init_from_backup($paris, 'base_2', has_restoring => 1, standby => 0);
$recovered->append_conf('postgresql.conf', "archive_mode = off\n");
start_with_clock($recovered, $BEHIND);
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
goes_on($recovered, $mark, 'after a recovery');
$recovered->stop;
new_reader();
poll_to_the_end($paris);

# --- A synchronous standby: nothing is missed, whatever the old primary wrote last
my $tokyo = standby_of($paris, 'tokyo');

$paris->append_conf('postgresql.conf', "synchronous_standby_names = 'tokyo'\n");
reload($paris);
ok(wait_until($paris, q(SELECT sync_state = 'sync' FROM pg_stat_replication)), 'a synchronous standby');
$mark = goes_far($paris, 'before a promotion');
$paris->stop('immediate');
$tokyo->promote;
goes_on($tokyo, $mark, 'after a promotion');

# --- An asynchronous one: nothing below the horizon that it received
$tokyo->append_conf('postgresql.conf', "snowflake.reserve = 1s\n");
reload($tokyo);
$tokyo->backup('base');
my $oslo = standby_of($tokyo, 'oslo');
goes_far($tokyo, 'before an asynchronous promotion');
$tokyo->wait_for_catchup($oslo, 'replay', $tokyo->lsn('insert'));
$oslo->append_conf('postgresql.conf', "primary_conninfo = ''\n");
reload($oslo);
ok(wait_until($oslo, 'SELECT count(*) = 0 FROM pg_stat_wal_receiver'), 'a standby is cut off');
my $received = $oslo->safe_psql('postgres', 'SELECT max(id) FROM events');
$oslo->promote;
goes_on($oslo, $received, 'after an asynchronous promotion');
$oslo->stop;
$tokyo->stop;

# --- The mark goes on: the registry away, just promoted, nobody mints, imported rows
$paris->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
start_with_clock($paris, 0);
$paris->safe_psql('postgres', 'TRUNCATE events');
new_reader();
writes($paris, 'before the registry went away');
$paris->backup('base_3');
my $lima = PostgreSQL::Test::Cluster->new('lima');
$lima->init_from_backup($paris, 'base_3', has_streaming => 1);
$lima->append_conf('postgresql.conf', "archive_mode = off\n");
$lima->start;
$paris->wait_for_catchup($lima, 'replay', $paris->lsn('insert'));
$registry->stop('immediate');
$paris->stop('immediate');
$lima->promote;
is_deeply([ poll_to_the_end($lima) ], ['before the registry went away'],
	'promoted with the registry away: all that is there is read');
ok(wait_until($lima, q{SELECT state = 'none' FROM snowflake_lease_status()}), 'and no lease is held');

sub mark_passes_an_import
{
	my ($node, $name) = @_;

	$node->safe_psql('postgres', "INSERT INTO events VALUES (snowflake_floor(clock_timestamp()), '$name')");
	is_deeply([ poll_to_the_end($node) ], [$name], $name);
	ok(wait_until($node, 'SELECT snowflake_settled()::timestamptz > clock_timestamp() - interval $$1 s$$'), "$name: the mark follows the clock");
	return;
}
mark_passes_an_import($lima, 'promoted, with the registry away, nobody mints');
$lima->stop('immediate');
$lima->start;
mark_passes_an_import($lima, 'and started again');
$registry->start;
held_shards($lima, 2);
writes($lima, 'the registry is back');
is_deeply([ poll_to_the_end($lima) ], ['the registry is back'], 'the registry is back');
mark_passes_an_import($lima, 'minted once, and no more');
$lima->append_conf('postgresql.conf', "snowflake.shards = 'auto:1'\n");
reload($lima);
ok(wait_until($lima, 'SELECT shards = 1 FROM snowflake_lease_status()'), 'a shard is given back');
mark_passes_an_import($lima, 'a shard given back');
$registry->stop('immediate');
$lima->stop('fast');
$lima->start;
mark_passes_an_import($lima, 'restarted, with the registry away');
has_read_each_once($lima, 'at the end');
$lima->stop;

# --- A lease ends while readers ask for the mark, and so begin each tick: nobody mints past it
$registry->start;
my $busy = leasing_server('busy', $registry, 'auto:1', '5s', conf => "snowflake.reserve = 30s\n");
held_shards($busy);
$busy->safe_psql('postgres', 'CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text)');
my @readers = map { start_session($busy, 'DO $$ BEGIN LOOP PERFORM snowflake_settled(); COMMIT; END LOOP; END $$', errors => '/dev/null') } 1, 2;
my @writers = map { start_session($busy, <<'SQL') } 1, 2;
DO $$
BEGIN
	LOOP
		INSERT INTO events (name) VALUES ('until the end');
		COMMIT;
	END LOOP;
END $$
SQL
ok(wait_until($busy, 'SELECT count(*) > 100 FROM events'), 'some write');
$registry->stop('immediate');
my $until = $busy->safe_psql('postgres', 'SELECT lease_until FROM snowflake_lease_status()');
finish_session($_) for @writers;
like($_->{err}, qr/This server's lease ended at/, 'the lease ends') for @writers;
is($busy->safe_psql('postgres', "SELECT count(*) FROM events WHERE id >= timestamptz '$until'"), 0,
	'and nothing is minted past it');
end_sessions($busy, "query LIKE 'DO%'", @readers);
$busy->stop;

done_testing();
