# doc/pagination.md: to a snapshot that is older, a table that was rewritten seems to be empty.
# The mark cannot know; who locks the table first is safe.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('rewritten', conf => "snowflake.shards = '1'");
$node->safe_psql('postgres', 'CREATE TABLE outbox (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n int); CREATE SEQUENCE gate MINVALUE 0 START 0;'
	  . 'INSERT INTO outbox (n) SELECT generate_series(1, 3)');
my @ways = ('ALTER TABLE outbox ALTER n TYPE bigint', 'ALTER TABLE outbox ALTER n TYPE int');

# How many rows are below the mark of a snapshot, if the table is rewritten before it is read.
sub rows_below
{
	my ($way, $first) = @_;

	$node->safe_psql('postgres', q{SELECT setval('gate', 0)});
	my $reader = start_session($node, <<"SQL");
BEGIN ISOLATION LEVEL REPEATABLE READ;
$first;
CREATE TEMP TABLE mark AS SELECT snowflake_settled() AS mark;
SELECT setval('gate', 1);
DO \$\$ BEGIN WHILE (SELECT last_value FROM gate) < 2 LOOP PERFORM pg_sleep(0.01); END LOOP; END \$\$;
SELECT 'rows ' || count(*) FROM outbox, mark WHERE id < mark;
SQL
	wait_until($node, 'SELECT last_value = 1 FROM gate') or die 'there is no mark';
	my ($status, undef, $err) = $node->psql('postgres', "SET lock_timeout = '1s'; $way");
	$node->safe_psql('postgres', q{SELECT setval('gate', 2)});
	finish_session($reader) or die $reader->{err};
	return ($reader->{out} =~ /^rows (\d+)$/m, $status == 0 ? '' : $err);
}

for my $way (@ways)
{
	is_deeply([ rows_below($way, 'SELECT 1') ], [ 0, '' ], "$way: the reader finds the table empty");
	my ($rows, $err) = rows_below($way, 'LOCK TABLE outbox IN ACCESS SHARE MODE');
	is($rows, 3, 'but not if it has locked it first');
	like($err, qr/canceling statement due to lock timeout/, 'that waits');
	$node->safe_psql('postgres', $way);
}

$node->stop;
done_testing();
