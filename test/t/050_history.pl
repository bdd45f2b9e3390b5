# snowflake_history() numbers a table with a bulk load in it: unique ids in
# order, each with its row's time or the next tick with room, in about the time
# and memory of row_number().  And it neither refuses nor repeats ids where one
# statement scans them in several ways.
#
# SNOWFLAKE_ROWS sets the number of rows, for a show with 10000000 of them.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use POSIX ();
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $rows = $ENV{SNOWFLAKE_ROWS} // 1_000_000;
my $node = new_server('history', conf => <<'CONF');
fsync = off
max_parallel_workers_per_gather = 0
work_mem = 64MB
jit = off
CONF

# a tenth of the rows are of one time, the others a hundredth of a second apart
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE events (nr bigint, created_at timestamptz);
INSERT INTO events
SELECT n, timestamptz '2024-05-01Z' + CASE WHEN n % 10 = 0 THEN interval '1 hour' ELSE n * interval '10 ms' END
  FROM generate_series(1, $rows) AS n;
VACUUM ANALYZE events;
SQL

# With little memory, rows that are numbered are let go, and no file holds them.
sub said_of_files
{
	my ($function) = @_;
	my (undef, undef, $said) = $node->psql('postgres', <<"SQL");
SET work_mem = '64kB'; SET enable_sort = off; SET enable_seqscan = off; SET log_temp_files = 0; SET client_min_messages = log;
SELECT max(id) FROM (SELECT $function AS id FROM events) AS e;
SQL
	return $said;
}

$node->safe_psql('postgres', 'CREATE INDEX by_time ON events (created_at, nr)');
like(said_of_files('last_value(nr) OVER (ORDER BY created_at, nr ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)'), qr/temporary file/, 'a function that needs all rows writes a file');
unlike(said_of_files('snowflake_history(created_at, 7) OVER (ORDER BY created_at, nr)'), qr/temporary file/, 'snowflake_history() does not');
$node->safe_psql('postgres', 'DROP INDEX by_time');

# The milliseconds of a processor that a window function takes over all rows, with the
# sort before it, and the kilobytes that its session holds at the most.  How long it has
# to wait for a processor is not its affair.  Few rows are numbered many times, so that
# what a session does once counts for little.
sub measure
{
	my ($function) = @_;
	my $number = "SELECT max(id) FROM (SELECT $function OVER (ORDER BY created_at, nr) AS id FROM events) AS e;\n";
	my $used = q{SELECT 'used ' || split_part(stat, ' ', 14)::int + split_part(stat, ' ', 15)::int FROM pg_read_file('/proc/' || pg_backend_pid() || '/stat') AS stat};
	my $said = $node->safe_psql('postgres', <<"SQL");
$used;
${\ ($number x POSIX::ceil(1_000_000 / $rows)) }$used;
SELECT 'peak ' || substring(pg_read_file('/proc/' || pg_backend_pid() || '/status') FROM 'VmHWM:\\s*(\\d+)');
SQL
	my ($before, $after) = $said =~ /used (\d+)/g;
	my ($kb) = $said =~ /peak (\d+)/;

	return (($after - $before) * 1000 / POSIX::sysconf(POSIX::_SC_CLK_TCK()), $kb);
}

# in turns, until half a second is measured: the server counts hundredths
my ($ours, $theirs) = ('snowflake_history(created_at, 9)', 'row_number()');
my (%ms, %kb);
until (($ms{$theirs} // 0) > 500)
{
	for my $function ($ours, $theirs)
	{
		my ($ms, $kb) = measure($function);

		$ms{$function} += $ms;
		$kb{$function} = $kb if $kb > ($kb{$function} // 0);
	}
}
note(sprintf('%d rows: %s %.0f ms and %d kB, %s %.0f ms and %d kB', $rows, map { ($_, $ms{$_}, $kb{$_}) } $ours, $theirs));
cmp_ok($ms{$ours}, '<', 2 * $ms{$theirs}, 'it takes less than twice the time of row_number()');
cmp_ok($kb{$ours}, '<', $kb{$theirs} + 8 * 1024, 'and no more memory, but for 8 MB');

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE numbered AS
SELECT nr, created_at, snowflake_history(created_at, 9) OVER (ORDER BY created_at, nr) AS id FROM events;
SQL
is($node->safe_psql('postgres', <<'SQL'), "$rows|$rows|t|t|t", 'unique, in order, and of the times of the rows');
SELECT count(*), count(DISTINCT id), bool_and(id > before),
       bool_and(id::timestamptz >= date_trunc('milliseconds', created_at)),
       bool_and(id::timestamptz - created_at < (SELECT count(*) FROM events WHERE nr % 10 = 0) / 4096.0 * interval '1 ms' + interval '1 s')
  FROM (SELECT id, created_at, lag(id, 1, 0::snowflake) OVER (ORDER BY created_at, nr) AS before FROM numbered) AS n
SQL
is($node->safe_psql('postgres', <<'SQL'), 't', 'but for the bulk load and what follows it, to the millisecond');
SELECT bool_and(id::timestamptz = date_trunc('milliseconds', created_at))
  FROM numbered
 WHERE created_at < timestamptz '2024-05-01 01:00Z' OR created_at > timestamptz '2024-05-01 01:10Z'
SQL

# --- shards on which this server mints: those of snowflake.shards, in a layout
# --- that is the server's, whatever its fields are called, and in no other; and
# --- those on which it has minted

my $one = "FROM (VALUES (timestamptz '2024-05-01Z')) AS v (t)";
my $own = "SET snowflake.shards = '3,5-7';";

fails_with($node, "$own SELECT snowflake_history(t, 6) OVER () $one", '55006',
	qr/this server mints ids on shard 6.*"snowflake\.shards" is "3,5-7".*keep it out/s, 'a shard of snowflake.shards is refused');
for my $layout ('twitter', 'epoch=1288834974657 unit=1ms fields=timestamp:41,shard:10,sequence:12')
{
	fails_with($node, "$own SELECT snowflake_history(t, 7, '$layout') OVER () $one", '55006',
		qr/this server mints ids on shard 7/, "and in the layout $layout");
}
for my $free ("2)", "4)", "8)", "6, 'pgedge')", "6, 'epoch=1288834974657 unit=1ms fields=timestamp:41,sequence:12,shard:10')")
{
	is($node->safe_psql('postgres', "$own SELECT snowflake_history(t, $free OVER () > 0 $one"), 't', "others are not: $free");
}
is($node->safe_psql('postgres', "SELECT snowflake_history(t, 811) OVER () > 0 $one"), 't', 'one on which nobody minted is not');
$node->safe_psql('postgres', 'SELECT snowflake_nextval(811)');
fails_with($node, "SELECT snowflake_history(t, 811) OVER () $one", '55006',
	qr/this server mints ids on shard 811.*It has minted there since it started/s, 'and one on which somebody minted is');

# --- plans: the same ids by a hash join, by a merge join, and by a nested loop,
# --- which is told to scan the window once, or refuses

my $update = <<'SQL';
UPDATE numbered SET id = new.id
  FROM (SELECT nr, snowflake_history(created_at, 9) OVER (ORDER BY created_at, nr) AS id FROM events WHERE nr <= 1000) AS new
 WHERE new.nr = numbered.nr
SQL
$node->safe_psql('postgres', 'DELETE FROM numbered WHERE nr > 1000; CREATE INDEX ON numbered (nr)');
my $sum = $node->safe_psql('postgres', "$update; SELECT md5(string_agg(id::text, ',' ORDER BY nr)) FROM numbered");
for my $plan ('hash', 'merge', 'nestloop')
{
	my @others = grep { $_ !~ /^$plan/ } 'hashjoin', 'mergejoin', 'nestloop';

	is($node->safe_psql('postgres', join('', map { "SET enable_$_ = off;\n" } @others)
			  . "$update; SELECT md5(string_agg(id::text, ',' ORDER BY nr)) FROM numbered"),
		$sum, "$plan: the same ids");
}
fails_with($node, <<'SQL', '22023', qr/shard 9 is in two window partitions/, 'a window that a plan scans for each row repeats no ids');
SELECT * FROM generate_series(1, 2) AS g,
       LATERAL (SELECT snowflake_history(created_at + 0 * g * interval '1 s', 9) OVER (ORDER BY nr) FROM events WHERE nr < 5) AS h
SQL

# --- a library that is not preloaded: with the layout named, as for reading

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is($node->safe_psql('postgres', "SELECT snowflake_shard(snowflake_history(t, 9, 'twitter') OVER (), 'twitter') $one"),
	'9', 'not preloaded, with the layout named it gives ids');
fails_with($node, "SELECT snowflake_history(t, 9) OVER () $one", '55000', qr/must be loaded via "shared_preload_libraries"/,
	'and without one it says what is missing');

done_testing();
