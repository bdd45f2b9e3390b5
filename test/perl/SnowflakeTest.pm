# SnowflakeTest.pm -- what the TAP tests of snowflake share
#
# Servers, clocks that can be moved while a server runs, sessions that run at
# the same time, and the checks that every set of minted ids must pass.

package SnowflakeTest;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(dirname);
use IPC::Run ();
use List::Util qw(min);
use Time::HiRes qw(sleep time);

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QuickSql;
use Test::More;

our @EXPORT = qw(
  new_server replace_file start_with_clock set_clock stop_clock clock_file has_late_times
  start_with_slow_disk set_disk disk_log start_in_place shim tries_all
  fails_with wait_for wait_until looks_seldom comes_back reload mints_at_last
  start_session finish_session has_ended is_asleep postmaster_pid promote_without_workers in_parallel
  create_mint_log inversions mint_log_is_sound count_of by_shard slow_ids
  restart_with_layout end_sessions start_minters all_mint stop_minters duplicates ids_are_distinct
  page_text fenced_blocks page_runs build_in
);

# Before the server's own programs: an initdb that is quicker
$ENV{PATH} = dirname(__FILE__) . "/../quick:$ENV{PATH}" if $ENV{SNOWFLAKE_TEMPLATES};

# A server with the extension in its database postgres.
sub new_server
{
	my ($name, %options) = (shift, conf => '', @_);
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%{ $options{init} // {} });
	$node->append_conf('postgresql.conf', <<"CONF");
max_connections = 50
max_worker_processes = 48
max_parallel_workers = 48
shared_buffers = 256MB
max_wal_size = 4GB
$options{conf}
CONF
	if ($options{clock})
	{
		start_with_clock($node, 0, disk => $options{disk});
	}
	elsif ($options{disk})
	{
		start_with_slow_disk($node);
	}
	else
	{
		$node->start;
	}
	$node->safe_psql('postgres', 'CREATE EXTENSION snowflake');
	# a new server can be asked before its worker has recorded who it is, and its layout
	wait_until($node, 'SELECT incarnation IS NOT NULL FROM snowflake_horizon()') or die "$name has no worker";
	return $node;
}

# Give a file another text, at once: who reads it never meets half of it.
sub replace_file
{
	my ($file, $text) = @_;

	append_to_file("$file.new", $text);
	rename("$file.new", $file) or die "could not rename $file.new: $!";
	return;
}

# --- A clock that can be moved under a running server: test/shim/clock.c
# --- reads by how much from a file each time somebody asks for the time.

sub clock_file
{
	my ($node) = @_;
	return $node->basedir . '/clock';
}

# Set the server's clock to so many seconds from the real one, at once.
sub set_clock
{
	my ($node, $seconds) = @_;

	return replace_file(clock_file($node), sprintf("%+.3f\n", $seconds));
}

# Can it be set to times after 2038?
sub has_late_times { my ($node) = @_; return $node->safe_psql('postgres', q(SELECT version() !~ ', 32-bit')) eq 't' }

# Have it stand still at a time, in seconds since 1970.
sub stop_clock
{
	my ($node, $time) = @_;

	return replace_file(clock_file($node), sprintf("@%.3f\n", $time));
}

# With "disk", its disk can be changed as well, and with "place" it is somewhere else,
# both as described next.
sub start_with_clock
{
	my ($node, $offset, %options) = @_;

	set_clock($node, $offset // 0);
	my %place = %{ delete $options{place} // {} };
	local $ENV{LD_PRELOAD} = join(':', map { shim($_) } 'clock', $options{disk} ? 'slowdisk' : (), %place ? 'place' : ());
	local @ENV{ map { "SNOWFLAKE_$_" } keys %place } = values %place;
	local $ENV{SNOWFLAKE_DISK} = disk_file($node);
	local $ENV{SNOWFLAKE_CLOCK} = clock_file($node);
	return $node->start(%options);
}

# --- A disk that can be made slow, full or broken under a running server, for
# --- the horizon file alone: test/shim/slowdisk.c tells what it understands.

sub disk_file
{
	my ($node) = @_;
	return $node->basedir . '/disk';
}

# Make the disk so, such as "fsync_ms=200" or "write=ENOSPC"; '' makes it good.
sub set_disk
{
	my ($node, $words) = @_;

	return replace_file(disk_file($node), "$words\n");
}

# What was done to the server so far: a line for each call.
sub disk_log
{
	my ($node) = @_;
	my $file = disk_file($node) . '.log';

	return -e $file ? split(/\n/, slurp_file($file)) : ();
}

my %shims;

# As the server has sources compiled, but for -O2, which takes longer than it saves.  An index
# that is not of its array is a trap: else, what lies beside the array decides what is seen.
my @OPTIONS = qw(-O0 -fwrapv -fno-strict-aliasing -fsanitize=bounds -fsanitize-undefined-trap-on-error);

sub shim
{
	my ($name) = @_;
	return $shims{$name} if $shims{$name};
	my $shim = PostgreSQL::Test::Utils::tempdir() . "/$name.so";
	my $top = dirname(__FILE__) . '/../..';
	my ($source) = grep { -f } map { "$top/test/$_/$name.c" } qw(shim cases);
	chomp(my ($headers, $libpq) = `pg_config --includedir-server --includedir`);
	system_or_bail('cc', '-shared', '-fPIC', @OPTIONS, "-I$headers", "-I$libpq", "-I$top/src", '-o', $shim, $source, '-ldl');
	return $shims{$name} = $shim;
}

# A function of such a library tries cases, in one session of a server that is stopped, and
# gives how many it tried.  What never ends, such as a loop that calls nothing, is killed.
sub tries_all
{
	my ($node, $library, $function, $arguments, $call, $least, $name) = @_;
	my ($out, $err) = ('', '');
	my $sql = "CREATE OR REPLACE FUNCTION $function($arguments) RETURNS bigint LANGUAGE c AS '@{[ shim($library) ]}'; SELECT 'tried ' || $function($call);";

	IPC::Run::run([ 'timeout', '-s', 'KILL', $PostgreSQL::Test::Utils::timeout_default, 'postgres', '--single', '-j', '-D', $node->data_dir, 'postgres' ],
		'<', \"$sql\n", '>', \$out, '2>', \$err);
	my ($tried) = $out =~ /tried (\d+)/;
	cmp_ok($tried // 0, '>=', $least, $name) or diag($err);
	return;
}

sub start_with_slow_disk
{
	my ($node, $words, %options) = @_;

	set_disk($node, $words // '');
	local $ENV{LD_PRELOAD} = shim('slowdisk');
	local $ENV{SNOWFLAKE_DISK} = disk_file($node);
	return $node->start(%options);
}

# --- A server that takes itself to be elsewhere: test/shim/place.c tells what
# --- can be set.

sub start_in_place
{
	my ($node, %place) = @_;

	local $ENV{LD_PRELOAD} = shim('place');
	local @ENV{ map { "SNOWFLAKE_$_" } keys %place } = values %place;
	return $node->start;
}

# --- Changes of the layout, which a server does not take from its configuration
# --- alone: with not_accepted, that is left to the caller

sub restart_with_layout
{
	my ($node, $layout, %options) = @_;

	restart_with_configuration($node, "snowflake.layout = '$layout'", %options);
	return;
}

sub restart_with_configuration
{
	my ($node, $conf, %options) = @_;

	$node->append_conf('postgresql.conf', $conf);
	$node->restart;
	$node->safe_psql('postgres', 'SELECT snowflake_accept_layout()') unless $options{not_accepted};
	return;
}

# --- Sessions

# Does the statement fail with this SQLSTATE and a message that matches?  With "at_last",
# if not now, then later.
sub fails_with
{
	my ($node, $sql, $sqlstate, $pattern, $name, %options) = @_;
	my ($status, $out, $err);
	my $ask = sub {
		($status, $out, $err) = $node->psql($options{dbname} // 'postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 1);
		return $err =~ /ERROR:  $sqlstate: / && $err =~ $pattern;
	};

	ok($options{at_last} ? wait_for($ask) : $ask->(), $name)
	  or diag("expected $sqlstate and $pattern, got: $err$out");
	return;
}

# Ask until it is true, less often as time goes by, for as long as the server's own tests
# wait.
sub wait_for
{
	my ($ask) = @_;
	my $began = time();

	until ($ask->())
	{
		my $waited = time() - $began;
		return 0 if $waited > $PostgreSQL::Test::Utils::timeout_default;
		sleep(min(0.5, 0.05 + $waited / 8));
	}
	return 1;
}

# A process goes on looking, but seldom: while it wakes often enough to be counted, a session
# that sleeps for 1 ms each time wakes more than four times as often.
sub looks_seldom
{
	my ($node, $which, $name) = @_;
	my $sleeper = start_session($node, 'DO $$ BEGIN LOOP PERFORM pg_sleep(0.001); END LOOP; END $$');
	my $is_sleeper = q{query LIKE 'DO %pg_sleep(0.001)%'};
	my $wakes = sub {
		my $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $_[0]") or return 0;
		return (slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s*(\d+)/m)[0];
	};
	my ($before, $sleeps, $looks) = ($wakes->($which), 0, 0);

	ok(wait_for(sub { $sleeps = $wakes->($is_sleeper); $looks = $wakes->($which) - $before; $looks > 60 && $sleeps > 1000 }), "$name: it goes on looking");
	cmp_ok($looks, '<', $sleeps / 4, "$name: seldom, $looks times, while a session that sleeps for 1 ms each does $sleeps times");
	end_sessions($node, $is_sleeper, $sleeper);
	return;
}

# Poll until the query gives t.
sub wait_until
{
	my ($node, $query) = @_;
	return wait_for(sub { $node->safe_psql('postgres', $query) eq 't' });
}

# Call until it succeeds; gives the result.
sub mints_at_last
{
	my ($node, $query) = @_;
	my ($status, $out, $err);

	wait_for(sub { ($status, $out, $err) = $node->psql('postgres', $query); $status == 0 }) or die $err;
	return $out;
}

# Have the server read its settings again.  It does so some time after it was told to;
# from then on sessions that begin have them, and each process knows of them.
sub reload
{
	my ($node) = @_;
	my $loaded = load_time($node);

	$node->reload;
	has_reloaded($node, $loaded);
	return;
}

# And whose commits wait for standbys is the checkpointer's to tell all: it sleeps when it has.
sub load_time
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT pg_conf_load_time()');
}

sub has_reloaded
{
	my ($node, $before) = @_;

	wait_for(sub { load_time($node) ne $before }) or die $node->name . ' does not read its settings';
	my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
	wait_for(sub { is_asleep($pid) });
	return;
}

# Whether a process waits for something; where nothing tells, it does.
sub is_asleep
{
	my ($pid) = @_;
	return !-r "/proc/$pid/stat" || slurp_file("/proc/$pid/stat") =~ /\) S/;
}

sub postmaster_pid
{
	my ($node) = @_;
	return (split(/\n/, slurp_file($node->data_dir . '/postmaster.pid')))[0];
}

# Promote a standby whose postmaster is stopped, so that it starts no worker.  Gives the
# number of that process, to let it go on.
sub promote_without_workers
{
	my ($node) = @_;
	my $postmaster = postmaster_pid($node);
	my $startup = $node->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'));

	kill('STOP', $postmaster);
	append_to_file($node->data_dir . '/promote', '');
	kill('USR2', $startup);
	return $postmaster;
}

# Wait for a server that crashed to take connections again.  Not by a query:
# what feeds psql its input dies when psql has been turned away.
sub comes_back
{
	my ($node) = @_;
	return wait_for(sub { system('pg_isready', '-q', '-d', $node->connstr('postgres')) == 0 });
}

# Start psql on a script, and return at once.  The script is a file: what
# IPC::Run feeds by a pipe flows only while somebody waits for the session.
# With "to", what the session prints goes to that file, and so survives it; with
# "errors", so do its errors, of which a pipe holds only so many.
my %scripts;

sub start_session
{
	my ($node, $sql, %options) = @_;
	my %session = (out => '', err => '', began => time());
	my $script = $scripts{$sql};

	if (!$script)
	{
		$script = $scripts{$sql} =
		  PostgreSQL::Test::Utils::tempdir_short() . '/session.sql';
		append_to_file($script, $sql);
	}
	$session{run} = IPC::Run::start(
		[
			'psql', '-XAtq',
			'-v', 'ON_ERROR_STOP=1',
			'-d', $node->connstr($options{dbname} // 'postgres') . ($options{connection} // ''),
			'-f', $script
		],
		'<', '/dev/null',
		'>', $options{to} // \$session{out},
		'2>', $options{errors} // \$session{err},
		IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	return \%session;
}

# Wait for it; gives whether it succeeded.  {elapsed} is in seconds.
sub finish_session
{
	my ($session) = @_;
	my $good = $session->{run}->finish;

	$session->{elapsed} = time() - $session->{began};
	chomp($session->{$_}) for qw(out err);
	return $good;
}

# Whether it has come to its end, which one that has not connected yet has not.
sub has_ended
{
	my ($session) = @_;
	my $run = $session->{run};

	$run->pump_nb if $run->pumpable;
	return !$run->pumpable;
}

# Run a script in so many sessions at once; dies if one fails.
sub in_parallel
{
	my ($node, $count, $sql, %options) = @_;
	my @sessions = map { start_session($node, $sql, %options) } 1 .. $count;

	for my $session (@sessions)
	{
		finish_session($session)
		  or die "session failed: $session->{err}";
	}
	return @sessions;
}

# --- The log of all that was minted
#
# Each row holds an id between two values of a sequence, one drawn before the
# id was minted and one after.  Where the second of row a is less than the
# first of row b, a was surely minted before b, whoever minted them.  The
# session is the backend's pid; COPY fills everything but n by itself.

sub create_mint_log
{
	my ($node, $table, $mint) = @_;

	$node->safe_psql('postgres', <<"SQL");
CREATE SEQUENCE ${table}_moment CACHE 1;
CREATE UNLOGGED TABLE $table (
	n       bigint,
	session int       DEFAULT pg_backend_pid(),
	before  bigint    DEFAULT nextval('${table}_moment'),
	id      snowflake DEFAULT $mint,
	after   bigint    DEFAULT nextval('${table}_moment')
);
SQL
	return;
}

sub count_of
{
	my ($node, $query) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM $query");
}

# Build another tree, and install it into its directory "stage".  Gives what that printed, and
# what to standard error.  Of the make that runs this test it knows nothing.
sub build_in
{
	my ($tree, @variables) = @_;
	local %ENV = map { $_ => $ENV{$_} } grep { !/^(?:MAKE|MFLAGS|GNUMAKEFLAGS|IN_|VPATH)/ } keys %ENV;

	return run_command([ 'sh', '-c', 'cd "$0" && exec bash test/stage.sh "$0/stage" COPT=-Werror "$@"', $tree, @variables ]);
}

# SQL that makes a table of ids, partitioned by shard into so many.
sub by_shard
{
	my ($table, $count) = @_;

	return join('', "CREATE TABLE $table (id snowflake PRIMARY KEY) PARTITION BY HASH (id snowflake_shard_ops);\n",
		map { "CREATE TABLE ${table}_$_ PARTITION OF $table FOR VALUES WITH (MODULUS $count, REMAINDER $_);\n" } 0 .. $count - 1);
}

# SQL that mints into a temporary table "ids", so slowly that each id has a tick of its own.
sub slow_ids
{
	return <<'SQL';
CREATE TEMP TABLE ids (id snowflake);
DO $$ BEGIN
    FOR i IN 1 .. 50 LOOP
        INSERT INTO ids VALUES (snowflake_nextval());
        PERFORM pg_sleep(0.002);
    END LOOP;
END $$;
SQL
}

# How often an id, or "what", of a call is not greater than that of a call that had
# returned before it began: within a session, and across sessions.  "partition"
# restricts the comparison to equals of an expression.
sub inversions
{
	my ($node, $table, %options) = @_;
	my $what = $options{what} // 'id';
	my $wrong = $options{equal_allowed} ? '<' : '<=';
	my $partition = $options{partition} ? "PARTITION BY $options{partition}" : '';

	return $node->safe_psql('postgres', <<"SQL");
SET work_mem = '512MB';
SELECT count(*) FROM (
	SELECT is_before, $what AS what,
		max(CASE WHEN NOT is_before THEN $what END)
			OVER ($partition ORDER BY moment) AS high
	FROM (SELECT true AS is_before, before AS moment, id, session FROM $table
		  UNION ALL
		  SELECT false, after, id, session FROM $table) AS event) AS seen
WHERE is_before AND what $wrong high
SQL
}

# No duplicate, and no inversion.
sub mint_log_is_sound
{
	my ($node, $table, $expected, %options) = @_;
	my $what = $options{what} // 'id';
	my $label = $options{label} // $table;

	is(count_of($node, $table), $expected, "$label: $expected ids minted");
	is($node->safe_psql('postgres', "SELECT count(DISTINCT id) FROM $table"),
		$expected, "$label: no duplicate");
	is(inversions($node, $table, %options), 0, "$label: $what in minting order");
	return;
}

# --- Clients that write down what they got
#
# Each prints ids as it receives them, in small batches, until the server or
# the test ends it; what it printed is what a user may have stored elsewhere.

# Start so many, each minting by "mint" in its own file, after what is "before"; gives the
# sessions.
sub start_minters
{
	my ($node, $count, $mint, %options) = @_;
	my $batch = $options{batch} // 20;
	my $pause = $options{pause} // 0.002;
	my $begin = ($options{before} // '') . ($options{read_only} ? "SET default_transaction_read_only = on;\n" : '');
	# a moment between, or they would take the processors from all other tests
	my $each = $options{statement}
	  // "SELECT $mint FROM generate_series(1, $batch); SELECT pg_sleep($pause);";

	# the file is read as fast as psql executes it
	return map {
		my $file = PostgreSQL::Test::Utils::tempdir() . '/ids';
		my $session = start_session($node, $begin . "$each\n" x 20_000, to => $file,
			dbname => $options{dbname}, errors => $options{errors});
		$session->{file} = $file;
		$session
	} 1 .. $count;
}

# End sessions, and what they had the server do, which may know nothing of it yet; "which"
# tells these among the others, by columns of pg_stat_activity.
sub end_sessions
{
	my ($node, $which, @sessions) = @_;

	for my $session (@sessions)
	{
		$session->{run}->signal('TERM');
		finish_session($session);
	}
	wait_until($node, "SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE $which AND backend_type = 'client backend' AND pid <> pg_backend_pid()")
	  or die 'not all sessions end';
	return;
}

# Wait until each of them has got so many ids.
sub all_mint
{
	my ($ids, @sessions) = @_;
	my $bytes = 20 * ($ids - 1);    # an id has 19 digits

	wait_for(sub { !grep { (-s $_->{file} // 0) <= $bytes } @sessions }) or die 'not all sessions mint';
	return;
}

# Wait for their end, which the server brought about, and give their files.
sub stop_minters
{
	my (@sessions) = @_;

	for my $session (@sessions)
	{
		$session->{run}->signal('TERM');
		finish_session($session);
	}
	return map { $_->{file} } @sessions;
}

# How many ids there are in all the files together, and how many of them twice.
# The last line of a client that was killed may be cut short, and does not
# count.
sub duplicates
{
	my (@files) = @_;
	my $list = PostgreSQL::Test::Utils::tempdir() . '/files';
	my $lines = qq{xargs -0 perl -ne 'print if /^\\d+\\n\\z/' <"$list"};

	append_to_file($list, join("\0", @files));
	return map { output_of($_) } (
		"$lines | wc -l",
		"$lines | LC_ALL=C sort -S 200M | uniq -d | wc -l");
}

# What a pipeline prints, if no part of it fails.
sub output_of
{
	my ($pipeline) = @_;

	open(my $pipe, '-|', 'bash', '-o', 'pipefail', '-c', $pipeline) or die "could not run bash: $!";
	chomp(my $output = do { local $/; <$pipe> });
	close($pipe) or die "failed: $pipeline";
	return $output;
}

# No id twice in all the files together; gives how many ids there are.
sub ids_are_distinct
{
	my ($name, @files) = @_;
	my ($ids, $duplicates) = duplicates(@files);

	is($duplicates, 0, "$name: no duplicate");
	note("$name: $ids ids, $duplicates duplicates");
	return $ids;
}

# --- Pages of the documentation, which do what they say

# A page by its path from the top of the source tree, such as "doc/audit.md".
sub page_text
{
	my ($path) = @_;
	return slurp_file(dirname(__FILE__) . "/../../$path");
}

# Its fenced blocks in order, each a language and a text; a list item's are
# indented.
sub fenced_blocks
{
	my ($text) = @_;
	my @blocks;

	push @blocks, [ $2, $3 ] while $text =~ /^( *)```(\w*)\n(.*?)^\1```$/msg;
	return @blocks;
}

# psql pads its columns and draws lines as long as the widest row, and editors
# take the former away.  Pages leave out how many rows there are, unless none.
sub comparable
{
	my ($text) = @_;
	my @lines = grep { !/^\([1-9]\d* rows?\)$/ } map { s/^-[-+]+$/---/r } map { s/ +/ /gr } map { s/^\s+|\s+$//gr } split(/\n/, $text);
	pop @lines while @lines && $lines[-1] eq '';
	return join("\n", @lines);
}

# The SQL of a page, or of a part of one, runs in order; what is shown below it
# is what comes out; and where it tells to change the configuration, that is
# changed.
sub page_runs
{
	my ($node, $name, $text, %options) = @_;
	my @blocks = fenced_blocks($text);

	for my $i (0 .. $#blocks)
	{
		my ($language, $what) = @{ $blocks[$i] };
		my ($title) = $what =~ /(\S.*)/;
		my ($out, $err) = ('', '');

		restart_with_configuration($node, $what, %options) if $language eq 'conf';
		next unless $language eq 'sql';
		my $loaded = $what =~ /pg_reload_conf/ ? load_time($node) : undef;
		ok( IPC::Run::run(
				[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($options{dbname} // 'postgres') ],
				'<', \$what, '>', \$out, '2>', \$err), "$name runs: $title")
		  or diag($err);
		has_reloaded($node, $loaded) if defined $loaded;
		is(comparable($out), comparable($blocks[ $i + 1 ][1]), "$name shows: $title")
		  if $i < $#blocks && $blocks[ $i + 1 ][0] eq 'text';
	}
	return;
}

1;
