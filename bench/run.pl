# run.pl -- measure everything, on the server that PGHOST names
#
#   perl bench/run.pl smoke|quick|whole RESULTS.CSV
#
# run.sh starts it beside a server of its own.  The measurements are in
# measure/, a file for each topic; each says there what it does.  What Bench.pm
# offers them, and how rounds go, is said there.  Dies if any of it fails.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/perl";

use Bench;

# The first line of a file that matches, without what matched.
sub line_of
{
	my ($path, $pattern) = @_;

	open(my $file, '<', $path) or return 'unknown';
	while (my $line = readline($file))
	{
		return $line =~ s/\s+\z//r if $line =~ s/$pattern//;
	}
	return 'unknown';
}

# The time that the disk takes for a commit, roughly: for a page that is
# written and flushed, which dd does so many times.
sub flush_ms
{
	my $times = 100;
	my $file = "$ENV{PGDATA}/flush";
	my $said = `dd if=/dev/zero of=$file bs=8k count=$times oflag=dsync 2>&1`;

	unlink($file);
	return $said =~ / ([0-9.e-]+) s,/ ? sprintf('%.2f ms', $1 * 1000 / $times) : 'unknown';
}

# What stands beside the results, since they mean nothing without it.
sub describe_machine
{
	my $memory = line_of('/proc/meminfo', qr/^MemTotal: +/);
	my ($filesystem) = `df --output=fstype '$ENV{PGDATA}'` =~ /\n(\S+)/;
	my ($cores, $kernel) = map { s/\s+\z//r } (`nproc`, `uname -sr`);

	record_machine('run', $Bench::mode);
	record_machine('day', query("SELECT current_date"));
	record_machine('processor', line_of('/proc/cpuinfo', qr/^model name\s*: /));
	record_machine('cores', $cores);
	record_machine('memory', $memory =~ /^(\d+) kB/ ? sprintf('%.1f GB', $1 / 1024**2) : $memory);
	record_machine('system', $kernel);
	record_machine('filesystem', $filesystem // 'unknown');
	record_machine('flush of a page', flush_ms());
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

($Bench::mode, my $results) = @ARGV;
Bench::begin($results);
describe_machine();
for my $file (sort glob("$FindBin::RealBin/measure/*.pl"))
{
	require $file;
}
eval { run_rounds(); 1 } or die "\n$@";
