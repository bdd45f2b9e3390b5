# What does a server's renewal cost the registry?
#
# So many servers have lists of eight shards, in layouts of several sizes.  pgbench
# renews them at random, each time by a connection of its own, as servers do.  The
# processor time is that of the registry's processes, as their parent counts it
# when they have ended: connection, parsing and commit are in it.  Beside it stands
# what a connection with SELECT 1 takes in the same minute, and a renewal in a
# connection that stays.

use strict;
use warnings FATAL => 'all';
use Bench;
use Figures qw(contents);
use POSIX ();

# A renewal of eight leases, as a server makes it: it connects, looks where the
# extension is, and calls.
my $renewal = <<'SQL';
\set n random(0, :servers - 1)
\set s 8 * :n
SELECT extnamespace::pg_catalog.regnamespace FROM pg_catalog.pg_extension WHERE extname = 'snowflake_registry' LIMIT 1;
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE \; SET LOCAL search_path = pg_catalog \; SET LOCAL statement_timeout = 5000 \;
SELECT * FROM public.snowflake_registry_lease(holder => 'server :n'::text, fence => (extract(epoch FROM clock_timestamp()) * 1e6)::bigint,
    next => (extract(epoch FROM clock_timestamp()) * 1e6)::bigint + 1, confirmed => bigint '1', registry => NULL::text,
    host => 'host'::text, layout => 'epoch=x'::text, last_shard => :last_shard,
    held => ARRAY[:s, :s + 1, :s + 2, :s + 3, :s + 4, :s + 5, :s + 6, :s + 7],
    held_from => array_fill(now(), '{8}'), held_until => array_fill(now() + interval '1 s', '{8}'),
    wanted => ARRAY[:s, :s + 1, :s + 2, :s + 3, :s + 4, :s + 5, :s + 6, :s + 7], auto => NULL::int,
    preferred => '{}'::int[], lease => interval '600000 ms') \; COMMIT;
SQL

# The seconds of a processor that the server's sessions used, which have all ended:
# the postmaster counts one when it has waited for it.
sub used
{
	my ($postmaster) = split(/\n/, contents("$ENV{PGDATA}/postmaster.pid"));
	my $is_session = sub { (eval { contents("/proc/$_[0]/cmdline") } // 'gone') =~ /^$|\[local\]/ };

	select(undef, undef, undef, 0.01)
	  while grep { $is_session->($_) } split(/ /, contents("/proc/$postmaster/task/$postmaster/children"));
	my @stat = split(/ /, contents("/proc/$postmaster/stat"));
	return ($stat[15] + $stat[16]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# Milliseconds of processor time for a run of the script.
sub cost
{
	my ($script, @arguments) = @_;
	my $before = used();
	my ($runs) = pgbench_output($script, 1, by_mode(0, 5, 20), arguments => [ '--protocol=simple', @arguments ])
	  =~ /^number of transactions actually processed: (\d+)/m;

	return sprintf('%.2f', 1000 * (used() - $before) / $runs);
}

start_server(<<'END');
shared_preload_libraries = ''
fsync = off
END
printf "\nMilliseconds of processor time:\n%8s %9s %11s %9s %17s\n", 'servers', 'shards', 'SELECT 1', 'renewal', 'connection stays';
for ([ 10, 1023 ], [ 1000, 65535 ], [ 1000, 1048575 ])
{
	my ($servers, $last_shard) = @$_;
	my @defined = ("--define=servers=$servers", "--define=last_shard=$last_shard");

	query([ 'DROP EXTENSION IF EXISTS snowflake_registry CASCADE', 'CREATE EXTENSION snowflake_registry', q(SELECT snowflake_registry_open('0')),
		"SELECT count(l.*) FROM generate_series(0, $servers - 1) AS n,
			LATERAL snowflake_registry_lease('server ' || n, 0, 1, 0, 'host', 'epoch=x', $last_shard, NULL, '{}', '{}', '{}',
				ARRAY(SELECT 8 * n + i FROM generate_series(0, 7) AS i), NULL, '{}', '10 min') AS l",
		'VACUUM ANALYZE' ]);
	printf "%8d %9d %11s %9s %17s\n", $servers, $last_shard + 1,
	  cost('SELECT 1', '--connect'), cost($renewal, @defined, '--connect'), cost($renewal, @defined);
}

1;
