# How many instructions does a call take?
#
# Times differ from run to run, and on a machine that does something else they
# say nothing.  The number of instructions is nearly the same each time, and so
# tells whether a change made a function cheaper.  It is not a time: it knows
# nothing of caches, locks and waiting.
#
# The server runs under valgrind's callgrind, which counts what each of its
# processes executes.  One session runs a statement over N rows, another over
# 2N; the difference is what N rows take.  Less the same for a function that
# does nothing, and over N, that is a call.  With "commit" before the expression,
# each row is a transaction that has an xid, evaluates it, and commits.
#
# Two things are not as they would be.  valgrind has the kernel read the clock,
# so that reading it costs a few instructions here and some twenty more in
# truth.  And everything is fifty times as slow, so that a tick has a
# fiftieth of the calls, and what happens once in each tick counts for more:
# hence the small differences between runs.

use strict;
use warnings FATAL => 'all';
use Bench;
use Figures qw(contents);

# SQL that yields a bigint, or what casts to one silently, and what does nothing with
# the same arguments.  It can use the columns "id", a bigint, and "layout", a text;
# not after "commit".
my @expressions = (
	[ 'clock_and_lock()', 'noop()' ],
	[ 'snowflake_nextval()', 'noop()' ],
	[ 'snowflake_nextval(5)', 'noop()' ],
	[ "nextval('cache_1')", 'noop()' ],
	[ "nextval('cache_1000')", 'noop()' ],
	[ 'snowflake_timestamp(id)', 'noop(id)' ],
	[ "snowflake_timestamp(id, 'discord')", "noop(id, 'twitter')" ],
	[ 'snowflake_timestamp(id, layout)', 'noop(id, layout)' ],
	[ 'snowflake_shard(id)', 'noop(id)' ],
	[ 'commit snowflake_nextval()', 'commit noop()' ]);
my %counted;

# Have the server restarted in valgrind.
sub restart_in_valgrind
{
	my ($out, $program) = ($ENV{TMPDIR}, "$ENV{TMPDIR}/postgres");

	open(my $file, '>', $program) or die "could not create $program: $!\n";
	print $file <<"END";
#!/bin/sh
exec valgrind --quiet --tool=callgrind --callgrind-out-file=$out/callgrind.%p --log-file=$out/valgrind.log \$(command -v postgres) "\$@"
END
	close($file) or die "could not write $program: $!\n";
	chmod(0755, $program);
	output_of('pg_ctl', 'restart', '--wait', '--silent', '--timeout=300', "--log=$ENV{HOME}/server.log", '-p', $program);
	return;
}

# The instructions of a session that evaluates the expression for each of so many
# rows.  Its profile is there when its process has ended.
sub total
{
	my ($expression, $rows) = @_;
	my $statement = $expression =~ /^commit (.*)/
	  ? "DO \$\$ BEGIN FOR n IN 1 .. $rows LOOP PERFORM pg_current_xact_id(), $1; COMMIT; END LOOP; END \$\$"
	  : "SELECT count($expression) FROM generate_series(1, $rows) AS id(id), (SELECT text 'twitter' OFFSET 0) AS one(layout)";
	my ($pid) = split(/\n/, query([ 'SELECT pg_backend_pid()', $statement ]));
	my $profile = "$ENV{TMPDIR}/callgrind.$pid";

	for (1 .. 600)
	{
		return $1 if -e $profile && contents($profile) =~ /^totals: (\d+)/m;
		select(undef, undef, undef, 0.1);
	}
	die "callgrind left nothing about process $pid\n";
}

# The instructions of one evaluation, the statement's own included.
sub count_of
{
	my ($expression) = @_;
	my $rows = $expression =~ /^commit/ ? by_mode(100, 2_500, 5_000) : by_mode(1_000, 50_000, 100_000);

	return $counted{$expression} //= (total($expression, 2 * $rows) - total($expression, $rows)) / $rows;
}

start_server(<<'END');
shared_buffers = 16MB
autovacuum = off
synchronous_commit = off
checkpoint_timeout = 1h
work_mem = 64MB
jit = off
max_parallel_workers_per_gather = 0
snowflake.shards = '0-7'
END
make_subjects();
restart_in_valgrind();
total('noop()', 1);    # the first session finds nothing in the caches that are shared
printf "\n%-44s %s\n", 'One call of', 'instructions';
printf "%-44s %12.0f\n", $_->[0], count_of($_->[0]) - count_of($_->[1]) for @expressions;

1;
