# An audit on a standby, which can write nothing: it finds there what the
# primary finds, says how far it is while it runs, and can be cancelled.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $primary = new_server('primary', init => { allows_streaming => 1 }, conf => "snowflake.shards = '0-3'");

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# five thousand blocks of a row each, ids of another server and the future among them
$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), filler text);
ALTER TABLE photos ALTER filler SET STORAGE PLAIN;
INSERT INTO photos (filler) SELECT repeat('x', 8000) FROM generate_series(1, 4900);
INSERT INTO photos SELECT snowflake_encode(now() + n * interval '1 day' - interval '51 days', 4 + n % 2, 4095), repeat('x', 8000)
  FROM generate_series(1, 100) AS n;
CREATE VIEW endless AS SELECT id FROM photos, generate_series(1, 1000000000) AS again(n);
SQL
$primary->wait_for_catchup($standby);

my $audit = q{SELECT * FROM snowflake_audit('photos', 'id')};
my %found;

for my $node ($primary, $standby)
{
	my ($status, $out, $err) = $node->psql('postgres', $audit);

	is($status, 0, $node->name . ': an audit succeeds');
	$found{ $node->name } = $out;
	is( () = $err =~ /^psql:.*NOTICE:  audited \d+ of 5000 blocks of "photos", \d+%$/mg, 3,
		$node->name . ': it tells of its progress')
	  or diag($err);
	like($out, qr/^in the future\|49\|[45]: \d+, [45]: \d+\|/m, $node->name . ': ids in the future');
	like($out, qr/^unexpected shard\|100\|4: 50, 5: 50\|/m, $node->name . ': ids of other shards');
}
is($found{standby}, $found{primary}, 'both find the same');

# an audit keeps few blocks of a table that is larger than a quarter of the buffers: the
# second one reads it again
$primary->append_conf('postgresql.conf', "shared_buffers = '80MB'\nautovacuum = off");
$primary->restart;
$primary->safe_psql('postgres', 'SELECT pg_stat_reset()');
$primary->safe_psql('postgres', "$audit \\g /dev/null\n" x 2 . 'SELECT pg_stat_force_next_flush()');
ok(wait_until($primary, q(SELECT heap_blks_read + heap_blks_hit >= 10000 FROM pg_statio_user_tables WHERE relname = 'photos')), 'two audits of 5000 blocks');
cmp_ok($primary->safe_psql('postgres', q(SELECT heap_blks_read FROM pg_statio_user_tables WHERE relname = 'photos')), '>', 9000, 'leave the buffers to others');

# one that would take for ever
my $running = start_session($standby, q{SET application_name = 'audit'; SELECT * FROM snowflake_audit('endless', 'id')});
ok(wait_until($standby, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'audit' AND query ~ 'endless'}),
	'an audit runs');
$standby->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'audit'});
ok(!finish_session($running), 'it ends when it is cancelled');
like($running->{err}, qr/canceling statement due to user request/, 'for that reason');

# --- when it tells how far it is: beside a table of one block, others whose files are made longer
# --- without data.  Portions are of 1024 blocks, and steps of 2048 or more: 20 at most

my %notices = (2048 => 0, 2049 => 2, 3072 => 2, 61459 => 20);
for my $blocks (keys %notices)
{
	$primary->safe_psql('postgres', <<"SQL");
CREATE TABLE large_$blocks (id snowflake, is_first boolean) PARTITION BY LIST (is_first);
CREATE TABLE large_${blocks}_1 PARTITION OF large_$blocks FOR VALUES IN (true);
CREATE TABLE large_${blocks}_2 PARTITION OF large_$blocks FOR VALUES IN (false);
INSERT INTO large_$blocks VALUES (snowflake_nextval(), true), (snowflake_nextval(), false);
SQL
}
my %path = map { $_ => $primary->safe_psql('postgres', "SELECT pg_relation_filepath('large_${_}_2')") } keys %notices;
my $block_size = $primary->safe_psql('postgres', 'SHOW block_size');
$primary->stop;
truncate($primary->data_dir . "/$path{$_}", $_ * $block_size) or die "$path{$_}: $!" for keys %notices;
$primary->start;
for my $blocks (sort { $a <=> $b } keys %notices)
{
	my ($status, $out, $err) = $primary->psql('postgres', "SELECT ids FROM snowflake_audit('large_$blocks', 'id') WHERE finding = 'all ids'");
	my @done = $err =~ /NOTICE:  audited (\d+) of ${\($blocks + 1)} blocks/g;

	is("$status $out", '0 2', "$blocks blocks: all is read");
	is(scalar(@done), $notices{$blocks}, "$blocks blocks: so many notices");
	is($done[-1] // $blocks + 1, $blocks + 1, "$blocks blocks: the last one tells that all is done");
}

# --- the ids that two servers have, as the page shows

my ($compare) = map { $_->[1] } grep { $_->[0] eq 'sh' } fenced_blocks(page_text('doc/audit.md'));
for my $database ('one', 'two')
{
	$primary->safe_psql('postgres', "CREATE DATABASE $database");
	$primary->safe_psql($database, <<"SQL");
CREATE EXTENSION snowflake;
CREATE TABLE photos AS SELECT snowflake_encode('2026-01-01Z', shard, n) AS id FROM generate_series(5, 6) AS shard, generate_series(8, 10) AS n;
UPDATE photos SET id = snowflake_nextval() WHERE snowflake_sequence(id) < 10;
SQL
	$ENV{ uc $database } = $primary->connstr($database);
}
my ($both, $trouble) = run_command([ 'bash', '-c', $compare ]);
is("$both$trouble", $primary->safe_psql('postgres', "SELECT snowflake_encode('2026-01-01Z', 5, 10)"), 'the page finds the id of both servers');

$standby->stop;
$primary->stop;
done_testing();
