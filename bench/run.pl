# run.pl -- measure everything, or one topic, on a server that it starts
#
#   perl bench/run.pl smoke|quick|whole RESULTS.CSV [TOPIC]
#
# run.sh starts it in a copy of the tree.  The measurements are in measure/, a file
# for each topic; each says there what it does.  What Bench.pm offers them, and how
# rounds go, is said there.  A topic of apart/ has a server of its own and prints
# its figures; there are no RESULTS.CSV then.  Dies if any of it fails.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/perl";

use Bench;

# What a command of the shell says.
sub said
{
	my ($command) = @_;
	return `$command` =~ s/\s+\z//r || 'unknown';
}

# What stands beside the results, since they mean nothing without it.
sub describe_machine
{
	my $flush = "dd if=/dev/zero of='$ENV{PGDATA}/flush' bs=8k count=100 oflag=dsync 2>&1";    # pages, each flushed

	record_machine('run', $Bench::mode);
	record_machine('day', query("SELECT current_date"));
	record_machine('command', $ENV{BENCH_COMMAND});
	record_machine('commit', $ENV{BENCH_COMMIT} || 'unknown');
	record_machine('processor', said(q(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)));
	record_machine('cores', said('nproc'));
	record_machine('memory', said(q(awk '/^MemTotal/ { printf "%.1f GB", $2 / 1024 ^ 2 }' /proc/meminfo)));
	record_machine('system', said('uname -sr'));
	record_machine('filesystem', said("stat --file-system --format=%T '$ENV{PGDATA}'") =~ s{ext2/ext3}{ext2, 3 or 4}r);
	record_machine('flush of a page', said($flush) =~ / ([0-9.e-]+) s,/ ? sprintf('%.2f ms', $1 * 1000 / 100) : 'unknown');
	record_machine('PostgreSQL', query('SHOW server_version'));
	record_machine('snowflake', query(q(SELECT extversion FROM pg_extension WHERE extname = 'snowflake')));
	record_machine(split(/\|/, $_, -1)) for split(/\n/, query(<<'SQL'));
SELECT name, current_setting(name) FROM pg_settings
WHERE name LIKE 'snowflake.%' AND setting <> '' OR name IN ('autovacuum', 'checkpoint_timeout', 'fsync', 'full_page_writes', 'jit',
	'max_parallel_workers_per_gather', 'max_wal_size', 'shared_buffers', 'synchronous_commit', 'wal_level')
ORDER BY name
SQL
	return;
}

($Bench::mode, my $results, my $topic) = @ARGV;
my $here = $FindBin::RealBin;
if (defined $topic && -e "$here/apart/$topic.pl")
{
	require "$here/apart/$topic.pl";
	exit;
}

# pgEdge's library can be loaded beside ours, but not the extension, which has our
# name.  It goes first: what it calls snowflake.node has to be a setting by the time
# ours reserves such names.
my $pgedge = -e "$ENV{HOME}/pgedge/snowflake.so" ? <<"END" : '';
shared_preload_libraries = '$ENV{HOME}/pgedge/snowflake.so, snowflake'
snowflake.node = 1
END
start_server(<<"END");
shared_buffers = 1GB
max_connections = 160
max_locks_per_transaction = 1000
wal_level = replica
max_wal_size = 8GB
checkpoint_timeout = 1h
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
snowflake.shards = '0-7'
$pgedge
END
make_subjects();
query([ 'CREATE SEQUENCE pgedge_seq', 'CREATE FUNCTION pgedge_nextval(regclass) RETURNS bigint '
	  . "AS '$ENV{HOME}/pgedge/snowflake.so', 'snowflake_nextval' LANGUAGE C" ]) if $pgedge;

print "Measuring ($Bench::mode)\n";
Bench::begin($results);
describe_machine();
for my $file (sort glob("$here/measure/*.pl"))
{
	require $file if !defined $topic || $file =~ /\d_$topic\.pl$/;
}
eval { run_rounds(); 1 } or die "\n$@";
