# A registry that was put back, in each way that people restore a database: it
# leases nothing before all that it may have forgotten has ended, and nobody has to
# tell it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $create = q(CREATE EXTENSION snowflake_registry; SELECT snowflake_registry_open('0'); SELECT snowflake_registry_limit('1 h', 8));

# The states and shards of the rows that a call gets: a holder's first one for two shards.
sub call
{
	my ($node, $holder) = @_;

	return $node->safe_psql('postgres', <<"SQL");
SELECT string_agg(concat_ws(' ', state, shard), ', ' ORDER BY n) FROM snowflake_registry_lease('$holder', 0, 1, 0, 'the test', 'epoch=x', 7, NULL,
	'{}', '{}', '{}', NULL, 2, '{}', '10 min') WITH ORDINALITY AS l (state, shard, f, u, o, n) WHERE state <> 'set_aside'
SQL
}

sub is_fenced
{
	my ($node, $minutes, $name) = @_;

	is(call($node, 'new'), 'accepted, exhausted', "$name: it leases nothing");
	is($node->safe_psql('postgres', 'SELECT round(extract(epoch FROM not_before - clock_timestamp()) / 60) FROM snowflake_registry_summary'),
		$minutes, "$name: for $minutes minutes");
	$node->restart;
	my $until = 'SELECT not_before FROM snowflake_registry_summary';
	my $fenced = $node->safe_psql('postgres', $until);
	call($node, 'newer');
	is($node->safe_psql('postgres', $until), $fenced, "$name: it is fenced once");
	$node->stop;
	return;
}

# A server that is restored from a backup.
sub restored
{
	my ($name, $from, $backup, $conf, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init_from_backup($from, $backup, %options);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n" . ($conf // ''));
	$node->start;
	return $node if $options{has_streaming};
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die "$name does not end its recovery";
	return $node;
}

sub recovered
{
	my ($name, $from, $point) = @_;
	return restored($name, $from, 'empty', "recovery_target_name = '$point'\nrecovery_target_action = promote\n", has_restoring => 1, standby => 0);
}

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init(allows_streaming => 1, has_archiving => 1);
$registry->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$registry->start;
$registry->backup('empty');
$registry->safe_psql('postgres', q(SELECT pg_create_restore_point('nothing')));
$registry->safe_psql('postgres', $create);
$registry->safe_psql('postgres', q(SELECT pg_create_restore_point('unused')));
is(call($registry, 'first'), 'accepted, held 0, held 1', 'a registry');
$registry->backup('used');
my $dump = "$dir/dump";
command_ok([ 'pg_dump', '-Fc', '-f', $dump, $registry->connstr('postgres') ], 'a dump of it');
my $lagging = restored('lagging', $registry, 'used', '', has_streaming => 1);
$lagging->stop;
is(call($registry, 'second'), 'accepted, held 2, held 3', 'which has forgotten this');

# --- what is no restore: a restart, a crash, maintenance, a savepoint
$registry->safe_psql('postgres', 'VACUUM FULL snowflake_registry_state');
$registry->safe_psql('postgres', 'VACUUM FREEZE');
$registry->safe_psql('postgres', q(BEGIN; SAVEPOINT a; SELECT snowflake_registry_limit('1 h', 8); RELEASE a; SAVEPOINT b; SELECT snowflake_registry_open('0'); COMMIT));
$registry->restart;
$registry->stop('immediate');
$registry->start;
is(call($registry, 'third'), 'accepted, held 4, held 5', 'a registry that was not put back leases');

# --- a logical dump
$registry->safe_psql('postgres', q(CREATE DATABASE other));
my $restored = -s $registry->logfile;
command_ok([ 'pg_restore', '-d', $registry->connstr('other'), $dump ], 'a dump is restored into another database');
is($registry->safe_psql('other', 'SELECT bool_or(NOT is_open), count(*) FROM snowflake_registry_state'), 't|2', 'with the state that it had, beside its own');
is($registry->safe_psql('other', q(SELECT state FROM snowflake_registry_lease('new', 0, 1, 0, 'the test', 'epoch=x', 7, NULL, '{}', '{}', '{}', NULL, 2, '{}', '10 min'))),
	'closed', 'and is closed');
is($registry->safe_psql('other', q(SELECT string_agg(state, ' ') FROM generate_series(5, 8) AS n,
	snowflake_registry_lease('knows more', n, n + 1, n, 'the test', 'epoch=x', 7, NULL, '{}', '{}', '{}', NULL, 2, '{}', '10 min'))),
	'closed closed closed closed', 'calls show what it has forgotten');
is(scalar(() = substr(slurp_file($registry->logfile), $restored) =~ /LOG:  the snowflake registry is fenced/g), 1, 'its log tells once that it is fenced');
is($registry->safe_psql('other', q(SELECT snowflake_registry_open('30 min') > clock_timestamp() + interval '29 min')), 't', 'it is opened on purpose');
is($registry->safe_psql('other', q(SELECT layout, max_shards, count(*) OVER () FROM snowflake_registry_summary)), 'epoch=x|8|1', 'and has the settings of the dump');

my $copy = restored('copy', $registry, 'used');
is_fenced($copy, 10, 'a base backup that is simply started');
$copy->start;
$copy->safe_psql('postgres', q(BEGIN; UPDATE snowflake_registry_state SET not_before = '-infinity'; UPDATE snowflake_registry_state SET writer = xmin; COMMIT));
$copy->safe_psql('postgres', 'TRUNCATE snowflake_registry_state, snowflake_registry_holders, snowflake_registry_shards');
command_ok([ 'pg_restore', '--data-only', '-d', $copy->connstr('postgres'), $dump ], 'a dump of data alone');
is_fenced($copy, 10, 'data alone');
$copy->start;
$copy->safe_psql('postgres', q(BEGIN; UPDATE snowflake_registry_state SET not_before = '-infinity'; UPDATE snowflake_registry_state SET writer = xmin; COMMIT));
$copy->command_ok([ 'pg_restore', '--clean', '-d', $copy->connstr('postgres'), $dump ], 'a dump, by pg_restore --clean');
is(call($copy, 'new'), 'closed', 'it is closed');
$copy->stop;

# --- a dump, into a server that was made from the same image
my $image = PostgreSQL::Test::Cluster->new('image');
$image->init(allows_streaming => 1);
mkdir $image->backup_dir;
system_or_bail('cp', '-a', $image->data_dir, $image->backup_dir . '/image');
my @same = map { restored($_, $image, 'image') } 'one', 'other';
$same[0]->safe_psql('postgres', $create);
is(call($same[0], 'first'), 'accepted, held 0, held 1', 'a registry in a server made from an image');
$same[0]->command_ok([ 'pg_dump', '-Fc', '-f', "$dump.image", $same[0]->connstr('postgres') ], 'a dump of it');
$same[1]->command_ok([ 'pg_restore', '-d', $same[1]->connstr('postgres'), "$dump.image" ], 'restored in another server made from it');
is(call($same[1], 'new'), 'closed', 'it is closed');
$same[1]->stop;
$same[0]->safe_psql('postgres', 'TRUNCATE snowflake_registry_state, snowflake_registry_holders, snowflake_registry_shards');
$same[0]->command_ok([ 'pg_restore', '--data-only', '-d', $same[0]->connstr('postgres'), "$dump.image" ], 'its data alone, back in its place');
is_fenced($same[0], 10, 'data alone, in its place');

# --- files that are put back in place, with the same timeline and PG_VERSION.  A restore of
# --- the same second could not be told, so it is later.
my $place = new_registry('place', init => { allows_streaming => 1 });
$place->safe_psql('postgres', q(SELECT snowflake_registry_limit('10 min', 8)));

sub is_put_back
{
	my ($name, $copy, @by_content) = @_;

	$place->stop;
	wait_for(sub { time() > (stat("$copy/global/pg_control"))[9] + 3 });
	put_back_files($copy, $place->data_dir, @by_content);
	$place->start;
	my $before = -s $place->logfile;
	is_fenced($place, 10, $name);
	like(substr(slurp_file($place->logfile), $before), qr/LOG:  the snowflake registry is fenced.*\n.*traces of a restore: .* changed at \d/, "$name: the log says what was seen");
	$place->start;
	$place->safe_psql('postgres', 'CHECKPOINT');
	my $until = $place->safe_psql('postgres', 'SELECT not_before FROM snowflake_registry_summary');
	call($place, "after $name");
	is($place->safe_psql('postgres', 'SELECT not_before FROM snowflake_registry_summary'), $until, "$name: nor fenced again when the files are written");
	$place->safe_psql('postgres', q(BEGIN; DELETE FROM snowflake_registry_shards;
		UPDATE snowflake_registry_state SET not_before = '-infinity', first_unused = 0; UPDATE snowflake_registry_state SET writer = xmin; COMMIT));
	return;
}

my $files = "$dir/files";
for my $case ([ 'files by rsync -a' ], [ 'files whose content differs', 1 ])
{
	my ($name, @by_content) = @$case;

	call($place, "before $name");
	$place->stop;
	save_files($place->data_dir, $files);
	$place->start;
	is(call($place, "forgotten by $name"), 'accepted, held 2, held 3', "$name: what is forgotten");
	is_put_back($name, $files, @by_content);
	system_or_bail('rm', '-rf', $files);
}
# a base backup, in which all that the registry has is replayed
save_files_online($place, $files, sub {
	is(call($place, 'replayed'), 'accepted, held 0, held 1', 'a call during the backup');
	$place->safe_psql('postgres', q(SELECT snowflake_registry_limit('10 min', 8)));
});
is(call($place, 'forgotten'), 'accepted, held 2, held 3', 'what is forgotten');
is_put_back('a base backup by rsync -a', $files);
# what is no restore: it is written, moved, emptied, vacuumed, and indexed again
$place->safe_psql('postgres', 'VACUUM FULL; REINDEX DATABASE postgres; VACUUM FREEZE; CHECKPOINT');
$place->restart;
$place->stop('immediate');
$place->start;
is($place->safe_psql('postgres', q(SELECT traces::text <> '{}' AND snowflake_registry_traces() <@ traces FROM snowflake_registry_state)), 't', 'maintenance leaves no trace');
is(call($place, 'last'), 'accepted, held 0, held 1', 'and it leases');
$place->stop;

# --- the rest needs what is archived
$registry->safe_psql('postgres', 'SELECT pg_switch_wal()');
$registry->stop;
is_fenced(recovered('unused', $registry, 'unused'), 60, 'a recovery to before the first call');
my $nothing = recovered('nothing', $registry, 'nothing');
is($nothing->safe_psql('postgres', q(SELECT count(*) FROM pg_extension WHERE extname = 'snowflake_registry')), '0', 'a recovery to before CREATE EXTENSION: it is not there');
$nothing->safe_psql('postgres', 'CREATE EXTENSION snowflake_registry');
is(call($nothing, 'new'), 'closed', 'and is closed when it is made');
$nothing->stop;
$lagging->start;
$lagging->promote;
$lagging->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'it is not promoted';
is_fenced($lagging, 10, 'a standby that lagged, and was promoted');

# --- files that are copied, without a new timeline
mkdir $registry->backup_dir;
system_or_bail('cp', '-a', $registry->data_dir, $registry->backup_dir . '/files');
is_fenced(restored('files', $registry, 'files'), 10, 'files that were copied');

# --- a new timeline in the same files
$registry->append_conf('postgresql.conf', "restore_command = 'false'\n");
$registry->set_recovery_mode;
$registry->start;
$registry->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no end of recovery';
is_fenced($registry, 10, 'a recovery in place');

done_testing();
