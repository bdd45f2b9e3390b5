# A registry whose files were put back in place, where the server's recovery hides it: its
# replay writes the files of the tables again, or nothing was written since the backup.
# What shows it is the file that each call writes.  And what shows that WAL was thrown away.
#
# Majors: one

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
my $registry = new_registry('registry');
$registry->append_conf('postgresql.conf', "checkpoint_timeout = 1d\n");
$registry->safe_psql('postgres', q(SELECT snowflake_registry_limit('10 min', 8)));

# The states and shards of the rows that a call for two shards gets.
sub call
{
	my ($holder) = @_;

	return $registry->safe_psql('postgres', <<"SQL");
SELECT string_agg(concat_ws(' ', state, shard), ', ' ORDER BY n) FROM snowflake_registry_lease('$holder', 0, 1, 0, 'the test', 'epoch=x', 7, NULL,
	'{}', '{}', '{}', NULL, 2, '{}', '10 min') WITH ORDINALITY AS l (state, shard, f, u, o, n) WHERE state <> 'set_aside'
SQL
}

my $until = 'SELECT not_before FROM snowflake_registry_summary';

sub is_fenced
{
	my ($name, $before) = @_;

	$registry->start;
	$registry->safe_psql('postgres', $before) if $before;
	is(call("new $name"), 'accepted, exhausted', "$name: it leases nothing");
	my $fenced = $registry->safe_psql('postgres', $until);
	call("newer $_ $name") for 1 .. 2;
	$registry->safe_psql('postgres', q(BEGIN; SELECT snowflake_registry_fence('0'); ROLLBACK; VACUUM FULL));
	$registry->stop('immediate');
	$registry->start;
	call("newest $name");
	is($registry->safe_psql('postgres', $until), $fenced, "$name: it is fenced once");
	is($registry->safe_psql('postgres', 'SELECT count(*) FROM snowflake_registry_state, unnest(traces) AS t WHERE t ~ $$^snowflake_registry$$'), '0', "$name: and forgets the trace");
	return;
}

# The file is written once a second.
sub wait_for_next_second
{
	my ($file) = glob($registry->data_dir . '/snowflake_registry.*');

	ok(wait_for(sub { time() > (stat($file))[9] }), 'the next second');
	return;
}

sub forget_all
{
	$registry->safe_psql('postgres', q(BEGIN; DELETE FROM snowflake_registry_shards;
		UPDATE snowflake_registry_state SET not_before = '-infinity', first_unused = 0; UPDATE snowflake_registry_state SET writer = xmin; COMMIT; CHECKPOINT));
	return;
}

# files of a server that crashed, with all the WAL since: put back, they are replayed
is(call('known'), 'accepted, held 0, held 1', 'a registry');
$registry->stop('immediate');
save_files($registry->data_dir, "$dir/files");
$registry->start;
my $table = $registry->data_dir . '/' . $registry->safe_psql('postgres', q(SELECT pg_relation_filepath('snowflake_registry_shards')));
wait_for_next_second();
is(call('forgotten'), 'accepted, held 2, held 3', 'what is forgotten');
$registry->stop('immediate');
wait_for(sub { time() > (stat("$dir/files/global/pg_control"))[9] + 3 });
put_back_files("$dir/files", $registry->data_dir);
$registry->start;
$registry->safe_psql('postgres', 'CHECKPOINT');
cmp_ok((stat($table))[10] - (stat($table))[9], '<=', 1, 'its table tells nothing');
$registry->stop;
# a call that is rolled back does not hide it
my $rolled_back = q(BEGIN; SELECT snowflake_registry_fence('0'); ROLLBACK);
is_fenced('files that were replayed', $rolled_back);

# the file is not there
forget_all();
$registry->stop;
unlink(glob($registry->data_dir . '/snowflake_registry.*')) == 1 or die 'which file?';
is_fenced('a restore that removes the file', $rolled_back);

# WAL is thrown away
forget_all();
wait_for_next_second();
is(call('crashed'), 'accepted, held 0, held 1', 'a registry that crashes');
$registry->stop('immediate');
command_ok([ 'pg_resetwal', '-f', $registry->data_dir ], 'and gets a new WAL');
is_fenced('pg_resetwal');
$registry->stop;

done_testing();
