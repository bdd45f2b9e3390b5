# Sixteen sessions mint on one shard, in every way that a session can: in
# plain calls, in one INSERT ... SELECT, by COPY with a DEFAULT, in a parallel
# plan.  No duplicate, and the shard's ids increase in the order in which
# they were minted, whoever minted them.
#
# SNOWFLAKE_EACH sets how many ids each of them mints.
#
# Majors: all
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $SESSIONS = 16;
my $EACH     = $ENV{SNOWFLAKE_EACH} // 200_000;
my $TOTAL    = $SESSIONS * $EACH;

my $node = new_server('concurrent', conf => 'fsync = off');

# plain calls: an INSERT for each id
create_mint_log($node, 'calls', 'snowflake_nextval(1)');
in_parallel($node, $SESSIONS, <<"SQL");
DO \$\$ BEGIN
	FOR i IN 1 .. $EACH LOOP
		INSERT INTO calls (n) VALUES (i);
	END LOOP;
END \$\$;
SQL
mint_log_is_sound($node, 'calls', $TOTAL);

# plain calls from clients, a statement and a transaction each
create_mint_log($node, 'statements', 'snowflake_nextval(1)');
$node->pgbench(
	"--no-vacuum --client=$SESSIONS --jobs=2 --protocol=prepared --transactions=2000",
	0,
	[qr/actually processed: 32000/],
	[qr/^$/],
	'pgbench mints in single statements',
	{ 'statements' => 'INSERT INTO statements (n) VALUES (:client_id)' });
mint_log_is_sound($node, 'statements', $SESSIONS * 2000);

# one statement
create_mint_log($node, 'one_insert', 'snowflake_nextval(1)');
in_parallel($node, $SESSIONS,
	"INSERT INTO one_insert (n) SELECT generate_series(1, $EACH)");
mint_log_is_sound($node, 'one_insert', $TOTAL);

# COPY, the DEFAULT evaluated by the server
my $file = $node->basedir . '/numbers';
append_to_file($file, join("\n", 1 .. $EACH) . "\n");
create_mint_log($node, 'by_copy', 'snowflake_nextval(1)');
in_parallel($node, $SESSIONS, "COPY by_copy (n) FROM '$file'");
mint_log_is_sound($node, 'by_copy', $TOTAL);

# parallel plans: the leader mints, since a session's ids would not increase in
# workers
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE source WITH (parallel_workers = 2) AS
	SELECT n FROM generate_series(1, $EACH) AS n;
CREATE UNLOGGED TABLE by_leaders (id snowflake);
SQL
my @sessions = in_parallel($node, $SESSIONS, <<"SQL");
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
	CREATE TEMP TABLE mine AS SELECT snowflake_nextval(1) AS id FROM source;
INSERT INTO by_leaders SELECT id FROM mine;
SELECT count(*) || ' ids not in order'
	FROM (SELECT id <= lag(id) OVER (ORDER BY ctid) AS is_wrong FROM mine) AS ids WHERE is_wrong;
SQL
my $workers = 0;
for my $session (@sessions)
{
	$workers += $1 if $session->{out} =~ /Workers Launched: (\d+)/;
	like($session->{out}, qr/^0 ids not in order$/m, 'the ids of a parallel plan increase');
}
cmp_ok($workers, '>', 0, 'parallel workers ran');
is(count_of($node, 'by_leaders'), $TOTAL, "parallel plans: $TOTAL ids minted");

# two databases, one shard
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', <<'SQL');
CREATE EXTENSION snowflake;
CREATE UNLOGGED TABLE minted (id snowflake);
SQL
$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE minted (id snowflake)');
my $mint = "INSERT INTO minted SELECT snowflake_nextval(1) FROM generate_series(1, $EACH)";
my @both = map {
	(start_session($node, $mint), start_session($node, $mint, dbname => 'other'))
} 1 .. 4;
finish_session($_) or die $_->{err} for @both;
my $dump = $node->basedir . '/other_minted';
$node->safe_psql('other', "COPY minted TO '$dump'");
$node->safe_psql('postgres', "COPY minted FROM '$dump'");
is(count_of($node, 'minted'), 8 * $EACH, 'two databases minted on one shard');

# and no id twice in all of that together
is( $node->safe_psql('postgres', <<'SQL'), 't', 'no duplicate in all of it');
SET work_mem = '1GB';
SELECT count(*) = count(DISTINCT id) FROM (
	SELECT id FROM calls UNION ALL SELECT id FROM statements
	UNION ALL SELECT id FROM one_insert UNION ALL SELECT id FROM by_copy
	UNION ALL SELECT id FROM by_leaders UNION ALL SELECT id FROM minted) AS all_ids
SQL

# the bounds are read before the clock: a clock that is before them was set back
is($node->safe_psql('postgres', 'SELECT sum(clock_behind) FROM pg_stat_snowflake'), 0, 'nobody took the clock for one that was set back');

done_testing();
