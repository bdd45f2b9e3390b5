# A base backup from which snowflake.horizon was left out is a clone, like any
# other backup.  The evidence, backup_label or recovery.signal, is gone when the
# recovery has ended.  So a server that crashes after the recovery, and before
# its worker has stored that it is a clone, must still be one when it starts
# again.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $original = new_server('original', init => { allows_streaming => 1, has_archiving => 1 }, conf => <<'CONF');
snowflake.shards = '0-1'
snowflake.refuse_clone = on
CONF
my $mint = 'SELECT snowflake_nextval()';

$original->safe_psql('postgres', $mint);
my ($who, $renewed) = split(/\|/, $original->safe_psql('postgres', 'SELECT incarnation, last_renewal FROM snowflake_horizon()'));
$original->backup('base');

# without the file the backup has a record only in the WAL that follows it
wait_until($original, "SELECT snowflake_nextval() > 0 AND last_renewal > '$renewed' FROM snowflake_horizon()") or die;
my $segment = $original->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
wait_until($original, "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver") or die;

# A server from the backup, without the file.
sub restored
{
	my ($name, $evidence) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $archive = $evidence eq 'recovery.signal';

	$node->init_from_backup($original, 'base', has_restoring => $archive, standby => 0);
	system_or_bail('cp', $original->archive_dir . "/$segment", $node->data_dir . '/pg_wal') unless $archive;
	# a hot standby would need as many workers as its primary may have
	$node->append_conf('postgresql.conf', "hot_standby = off\narchive_mode = off");
	unlink $node->data_dir . '/snowflake.horizon' or die;
	return $node;
}

# It takes no connections before the recovery has ended: see hot_standby.
sub start_and_recover
{
	my ($node) = @_;

	$node->start;
	comes_back($node) or die;
	return;
}

# A call waits until the worker knows who this is, so it comes first.
sub is_clone
{
	my ($node, $name) = @_;

	fails_with($node, $mint, '55000', qr/this server is a clone/, "$name: it does not mint");
	is($node->safe_psql('postgres', 'SELECT clone_of, clone_evidence FROM snowflake_horizon()'),
		"$who|it was recovered from a backup", "$name: because it is a clone");
	return;
}

for my $evidence ('recovery.signal', 'backup_label')
{
	my $name = "found by $evidence";

	# the page that came by the WAL says whose clone it is
	my $node = restored("undisturbed_$evidence", $evidence);
	start_and_recover($node);
	is_clone($node, $name);
	$node->stop('immediate');
	start_and_recover($node);
	is_clone($node, "$name, stored, crashed");
	$node->stop;

	# without room for it the worker never runs, and stores nothing
	$node = restored("disturbed_$evidence", $evidence);
	$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
	start_and_recover($node);
	$node->stop('immediate');
	ok(!-e $node->data_dir . "/$evidence", "$name, not stored, crashed: $evidence is gone");
	$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
	start_and_recover($node);
	is_clone($node, "$name, not stored, crashed");
	$node->stop;
}

done_testing();
