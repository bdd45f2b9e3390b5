# A standby has logical slots from 16 on, and each gives a snapshot.  After a promotion there
# is no mark for it: nothing was noted of the transactions that ended on the primary since.
# A mark would be above rows that it does not see.
#
# Majors: all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $primary = new_server('promoted_primary', init => { allows_streaming => 'logical' }, conf => "snowflake.shards = '1'");

plan(skip_all => 'standbys have logical slots from PostgreSQL 16 on') if $primary->safe_psql('postgres', 'SHOW server_version_num') < 160000;
$primary->safe_psql('postgres', 'CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text)');
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('promoted_standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my $begin = 'BEGIN ISOLATION LEVEL REPEATABLE READ;';
my $over_promotion = <<'SQL';
SELECT count(*) FROM events;
DO $$ BEGIN WHILE pg_is_in_recovery() LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT count(*), snowflake_settled()::bigint FROM events;
SQL
my $walsender = start_session($standby, "$begin CREATE_REPLICATION_SLOT slot LOGICAL pgoutput (SNAPSHOT 'use');\n"
	  . "SELECT 'snapshot ' || pg_export_snapshot();\n$over_promotion", connection => ' replication=database');
ok( wait_for(
		sub {
			$primary->safe_psql('postgres', 'SELECT pg_log_standby_snapshot()');
			return $standby->safe_psql('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'DO%'}) eq 't';
		}),
	'a walsender of a standby has the snapshot of a slot');
my $snapshot;
wait_for(sub { $walsender->{run}->pump_nb; ($snapshot) = $walsender->{out} =~ /^snapshot (\S+)$/m }) or die 'the walsender prints no snapshot';
my $importer = start_session($standby, "$begin SET TRANSACTION SNAPSHOT '$snapshot';\n$over_promotion");
ok(wait_until($standby, q{SELECT count(*) = 2 FROM pg_stat_activity WHERE query LIKE 'DO%'}), 'and so has a session');
$primary->safe_psql('postgres', q{INSERT INTO events (name) VALUES ('since')});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$primary->stop('fast');
$standby->promote;
for my $reader ($walsender, $importer)
{
	ok(!finish_session($reader), 'after the promotion it gives no mark') or diag($reader->{out});
	like($reader->{err}, qr/ERROR:  the snapshot is too old to tell which ids are settled\nDETAIL:  The snapshot was taken during recovery\./, 'but an error');
}
is($standby->safe_psql('postgres', q{SELECT count(*) FROM events WHERE id < snowflake_settled()}), 1, 'a new snapshot has the row');
$standby->stop;
done_testing();
