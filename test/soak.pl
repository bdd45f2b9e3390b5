# soak.pl -- minutes of load, crashes, moved clocks and promotions
#
# Eight clients mint in two databases, on their server's own shards and on
# named ones, in tables and in read-only transactions, while a primary and its
# synchronous standby are crashed in every way, have their clocks moved and
# their settings reloaded, and are promoted and replaced.  Each client writes
# down every id that it receives.  At the end the ids of all the servers' lives
# are searched for duplicates.  Then a fleet that leases its shards is treated
# likewise, for a third as long: test/t/064_fleet.pl.
#
# "test/check.sh soak" runs it.  SNOWFLAKE_SOAK is the minutes, and the seed of
# what is random.
#
# Minters are processes of their own, which run short psql scripts for as long
# as the soak lasts, on the server that is the primary at the time.  What psql
# receives goes to files, in which a server's life is told from the next by
# nothing: an id is an id.  The parent breaks the servers meanwhile.
#
# The standby is synchronous, because ids of which it knows nothing cannot be
# protected by it; while there is none, the primary mints only up to the
# horizon that it has, and so comes to a halt.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/perl";

use File::Path qw(rmtree);
use List::Util qw(max sum0);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my ($minutes, $seed) = split ' ', $ENV{SNOWFLAKE_SOAK} // '1 1';

my $MINTERS = 8;
my @DATABASES = ('postgres', 'other');
my $BACK_WITHIN = 120;               # seconds, or the server counts as lost
my $ENOUGH = 20_000 * $minutes;      # ids; fewer prove nothing

my $CONF = <<'CONF';
fsync = on
restart_after_crash = on
log_statement = none
max_connections = 40
shared_buffers = 64MB
max_wal_size = 256MB
synchronous_standby_names = '*'
synchronous_commit = on
wal_sender_timeout = 0
wal_receiver_timeout = 0
snowflake.shards = '0-3'
CONF

my $dir = "$PostgreSQL::Test::Utils::tmp_check/soak";
my $began = time();
my %faults;
my ($primary, $standby);
my $servers = 0;                # made so far
my $base = 0;                   # seconds that all clocks are ahead by now
my %offset;                     # of each server's clock, by name

# The remarks of the server's modules belong into the log, where STDOUT goes.
my $output = Test::More->builder->output;

Test::More->builder->output(\*STDOUT);

sub say_so
{
	print { $output } '#: ', @_, "\n";     # which check.sh shows
	return;
}

sub now { return sprintf('%.1f s', time() - $began); }

# Up to so much in either direction.
sub around { my ($most) = @_; return rand(2 * $most) - $most; }

sub one_of { return $_[ rand @_ ]; }

# --- The minters

# Where they find the server, replaced at once when that changes.
sub point_minters_at
{
	my ($node) = @_;

	append_to_file("$dir/server.new", $node->connstr('') =~ s/ ?dbname='?'?//r);
	rename("$dir/server.new", "$dir/server") or die "could not rename $dir/server.new: $!";
	return;
}

# A few seconds' work: mostly small statements with pauses, so that many ticks
# see an id, and now and then one that exhausts ticks.  The plain statements give
# all of their ids or none; COPY gives each as it is minted.
#
# A session prints a line for its begin, and then one for each id: a letter for
# how it was minted, p by snowflake_nextval() and n on a named shard, or P and N
# if it was stored; and the id.
sub script
{
	my @statements;

	push @statements, "\\set VERBOSITY verbose\n\\echo begin\n";
	for (1 .. 60)
	{
		my $pause = sprintf('%.3f', rand(0.05));
		my ($letter, $mint) = @{ one_of([ p => 'snowflake_nextval()' ], [ p => 'snowflake_nextval()' ],
			[ n => 'snowflake_nextval(' . one_of(0 .. 3) . ')' ]) };
		my $count = rand() < 0.01 ? 10_000 : 1 + int(rand(100));
		my $several = "SELECT '$letter' || $mint FROM generate_series(1, $count)";
		my $between = "SELECT 'n' || snowflake_nextval(" . one_of(0 .. 3) . "), 'p' || snowflake_nextval()";

		push @statements, one_of(
			"$several;",
			"BEGIN READ ONLY; $several; COMMIT;",
			"COPY ($several) TO STDOUT;",
			"SELECT '$letter' || $mint;",
			"\\pset fieldsep '\\n'\n$between FROM generate_series(1, $count);\n\\pset fieldsep '|'",
			'INSERT INTO stored SELECT ' . "$mint FROM generate_series(1, "
			  . (1 + int(rand(5)))
			  . ") RETURNING '" . uc($letter) . "' || id;");
		push @statements, "DO 'BEGIN PERFORM pg_sleep($pause); END';";
	}
	return join("\n", @statements) . "\n";
}

sub mint_until_told
{
	my ($number) = @_;
	my $parent = getppid();
	my $script = "$dir/script.$number";

	srand($seed * 1000 + $number);
	while (getppid() == $parent && !-e "$dir/stop")
	{
		my $server = slurp_file("$dir/server");
		my $database = one_of(@DATABASES);

		open(my $file, '>', $script) or die "could not write $script: $!";
		print $file script();
		close($file);
		system("psql -XAtq -d \"$server dbname=$database\" -f $script >>$dir/ids.$number 2>>$dir/errors.$number </dev/null");
		sleep(0.1) if $? != 0;
	}
	return;
}

sub start_minter
{
	my ($number) = @_;
	my $pid = fork() // die "could not fork: $!";

	return $pid if $pid;
	# leave without the ends of the servers, which are the parent's
	eval { mint_until_told($number); 1 } or POSIX::_exit(1);
	POSIX::_exit(0);
}

# --- Servers and their clocks

sub turn_clock
{
	my ($node, $offset) = @_;

	$offset{ $node->name } = $offset;
	set_clock($node, $offset);
	return;
}

# Poll until it is so, for as long as a server may take to come back.
sub await
{
	my ($what, $done) = @_;
	my $end = time() + $BACK_WITHIN;

	until (eval { $done->() })
	{
		die "$what, in vain" if time() > $end;
		sleep(0.05);
	}
	return;
}

sub processes_of
{
	my ($node) = @_;
	my $data = $node->data_dir;

	return map { s{/proc/}{}r }
	  grep { (readlink("$_/cwd") // '') =~ /^\Q$data\E/ } glob('/proc/[0-9]*');
}

# Wait until nobody is left of a server whose postmaster was killed.  They keep
# the next one from starting, and so does for a moment the dead one's number.
sub await_end
{
	my ($node) = @_;

	await('waiting for the processes of ' . $node->name, sub { !processes_of($node) });
	# a start that failed may have left it the dead postmaster's pid
	$node->{_pid} = undef;
	return;
}

sub bring_up
{
	my ($node, $offset) = @_;

	turn_clock($node, $offset);
	await('starting ' . $node->name, sub {
		await_end($node);
		start_with_clock($node, $offset, disk => 1, fail_ok => 1);
	});
	return;
}

sub gives_true
{
	my ($node, $query) = @_;
	my ($status, $out) = $node->psql('postgres', $query);
	return $status == 0 && $out eq 't';
}

sub await_server
{
	await('waiting for ' . $primary->name, sub { gives_true($primary, 'SELECT true') });
	return;
}

sub await_minting
{
	await('waiting for ' . $primary->name . ' to mint',
		sub { gives_true($primary, q{SET statement_timeout = '5s'; SELECT snowflake_nextval(3) > 0}) });
	return;
}

sub await_standby
{
	await('waiting for ' . $standby->name, sub {
		gives_true($primary, q{SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'})
	});
	return;
}

sub new_standby
{
	my $name = 'server_' . ++$servers;

	$standby = PostgreSQL::Test::Cluster->new($name);
	$primary->backup($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	rmtree($primary->backup_dir . "/$name");
	bring_up($standby, $base + around(3));
	await_standby();
	return;
}

# The first server, with a database more and a table in each.
sub start_all
{
	mkdir($dir) or die "could not make $dir: $!";
	$primary = new_server('server_' . ++$servers, clock => 1,
		init => { allows_streaming => 1 }, conf => "$CONF\nsynchronous_standby_names = ''");
	$primary->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE postgres');
	$primary->safe_psql($_, 'CREATE TABLE stored (id snowflake PRIMARY KEY)')
	  for @DATABASES;
	$primary->append_conf('postgresql.conf', q{synchronous_standby_names = '*'});
	$primary->reload;
	new_standby();
	point_minters_at($primary);
	$offset{ $primary->name } = 0;
	return;
}

# --- Faults

# What the clock of a server shows when it starts.
sub some_offset
{
	return $base + (rand() < 0.3 ? around(5) : around(1));
}

sub kill_one
{
	my ($whose) = @_;
	my ($status, $pid) = $primary->psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE $whose AND pid <> pg_backend_pid() LIMIT 1");

	kill('KILL', $pid) if $status == 0 && $pid;
	return;
}

sub reload_settings
{
	my @settings = (
		'snowflake.reserve = ' . one_of('100ms', '200ms', '1s', '1s', '2s', '5s'),
		'snowflake.clock_tolerance = ' . one_of('0', '100ms', '1s', '5s'),
		'snowflake.shards = ' . one_of(q{'0-3'}, q{'0-3'}, q{'0-3'}, q{'2,3'}, q{'3'}, q{''}));

	$primary->append_conf('postgresql.conf', join("\n", @settings));
	$primary->reload;
	return;
}

sub set_synchrony
{
	$primary->append_conf('postgresql.conf', join("\n", @_));
	$primary->reload;
	return;
}

# As a machine ends that loses its power: nobody finishes anything, whereas a
# postmaster writes at the end of an immediate stop, and a worker whose
# postmaster was killed comes to the end of a renewal.
sub kill_all
{
	my ($node) = @_;

	kill('KILL', processes_of($node));
	$node->{_pid} = undef;
	return;
}

sub end_primary
{
	one_of(
		sub { $primary->kill9 },
		sub { $primary->stop('immediate') },
		sub { kill_all($primary) })->();
	return;
}

my %fault;
%fault = (
	'immediate stop' => [ 4, sub {
		$primary->stop('immediate');
		bring_up($primary, some_offset());
	} ],
	'clean stop' => [ 1, sub {
		$primary->stop('fast');
		bring_up($primary, some_offset());
	} ],
	'SIGKILL of the postmaster' => [ 4, sub {
		$primary->kill9;
		bring_up($primary, some_offset());
	} ],
	'SIGKILL of all processes' => [ 4, sub {
		kill_all($primary);
		bring_up($primary, some_offset());
	} ],
	'SIGKILL of a backend' => [ 4, sub {
		kill_one("backend_type = 'client backend'");
	} ],
	'SIGKILL of the worker' => [ 3, sub {
		kill_one("backend_type = 'snowflake horizon'");
	} ],
	'termination of the worker' => [ 2, sub {
		$primary->psql('postgres',
			q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'});
	} ],
	'step of the clock' => [ 6, sub {
		turn_clock($primary, $base + around(one_of(0.05, 0.5, 5)));
	} ],
	# What was minted ahead of time must be on disk by then, even on a slow
	# one; for afterwards the clock comes to that time once more.
	'crash between steps ahead and back' => [ 3, sub {
		my $ahead = one_of(1, 5, 60);

		reload_settings() if rand() < 0.3;
		sleep(rand(1));
		set_disk($primary, 'fsync_ms=500') if rand() < 0.7;
		my $began = time();
		turn_clock($primary, $base + $ahead);
		sleep(rand(0.7));
		kill_all($primary);
		set_disk($primary, '');
		bring_up($primary, $base);
		sleep(rand(3));
		$base += $ahead - (time() - $began) - rand(1);
		turn_clock($_, $base) for ($primary, $standby);
		sleep(2);
	} ],
	'reload' => [ 4, sub {
		reload_settings();
	} ],
	'slower or faster disk' => [ 2, sub {
		set_disk($primary, 'fsync_ms=' . one_of(0, 5, 15));
	} ],
	# The ids of the time without a synchronous standby are safe as soon as the
	# standby has caught up.
	'reload of the synchronous settings' => [ 3, sub {
		set_synchrony(one_of(q{synchronous_standby_names = ''}, q{synchronous_standby_names = 'nobody'},
			'synchronous_commit = local', 'synchronous_commit = remote_write'));
		sleep(rand(2));
		$fault{'termination of the worker'}->[1]->() if rand() < 0.3;
		set_synchrony(q{synchronous_standby_names = '*'}, 'synchronous_commit = on');
		await_standby();
		$primary->wait_for_catchup($standby, 'flush');
	} ],
	'slow acknowledgements' => [ 2, sub {
		$standby->append_conf('postgresql.conf', 'recovery_min_apply_delay = ' . one_of('2s', '6s'));
		$standby->reload;
		set_synchrony('synchronous_commit = remote_apply');
		sleep(rand(10));
		$standby->append_conf('postgresql.conf', 'recovery_min_apply_delay = 0');
		$standby->reload;
		set_synchrony('synchronous_commit = on');
		await_standby();
	} ],
	'crash of the standby' => [ 1, sub {
		$standby->stop('immediate');
		sleep(rand(2));
		bring_up($standby, $base + around(3));
		await_standby();
	} ],
	'promotion' => [ 3, sub {
		await_server();
		await_standby();
		# the clock of the next primary is mostly behind this one's
		turn_clock($standby,
			$offset{ $primary->name } - one_of(1, 1, -1) * rand(3));
		sleep(rand(1));
		end_primary();
		$standby->promote;
		my $old = $primary;
		$primary = $standby;
		await('waiting for the promotion', sub { gives_true($primary, 'SELECT NOT pg_is_in_recovery()') });
		point_minters_at($primary);
		await_end($old);
		$old->clean_node;
		new_standby();
	} ]);
my @lots = map { ($_) x $fault{$_}->[0] } sort keys %fault;

# --- What the clients got

# Duplicates among the lines that a command prints, the first few of them told
# about; gives the number of lines and of duplicates.
sub search
{
	my ($what, $command) = @_;
	my ($lines) = `$command | wc -l`;
	my @duplicates =
	  `$command | LC_ALL=C sort -S 200M -T $dir | uniq -d`;

	chomp($lines, @duplicates);
	for my $id (@duplicates[ 0 .. ($#duplicates < 9 ? $#duplicates : 9) ])
	{
		say_so("duplicate among $what: $id, of "
			. $primary->safe_psql('postgres', "SELECT snowflake_timestamp($id), snowflake_shard($id), snowflake_sequence($id)"));
	}
	return ($lines, scalar(@duplicates));
}

# Only whole lines count.
my $received = "perl -ne 'print if s/^[pnPN](\\d+)\\n\\z/\$1\\n/' $dir/ids.*";
my $selected = "perl -ne 'print if s/^[pn](\\d+)\\n\\z/\$1\\n/' $dir/ids.*";

# How often a session's ids of snowflake_nextval(), or its ids of one shard, do
# not increase.
sub order_violations
{
	my $violations = 0;

	for my $file (glob("$dir/ids.*"))
	{
		my (%last, $line);

		open(my $handle, '<', $file) or die "could not read $file: $!";
		while ($line = <$handle>)
		{
			%last = () if $line =~ /begin/;
			my ($letter, $id) = $line =~ /^([pnPN])(\d+)\n\z/ or next;
			for my $what (lc($letter) eq 'p' ? 'own' : (), 'shard ' . ($id >> 12 & 1023))
			{
				$violations++, say_so("order: $what, $id after $last{$what}, in $file")
				  if defined $last{$what} && $id <= $last{$what};
				$last{$what} = $id;
			}
		}
	}
	return $violations;
}

sub errors_by_sqlstate
{
	my %errors;

	for my $file (glob("$dir/errors.*"))
	{
		open(my $handle, '<', $file) or die "could not read $file: $!";
		while (<$handle>)
		{
			if (/(?:ERROR|FATAL|PANIC):  ([0-9A-Z]{5}): /) { $errors{$1}++; }
			elsif (/connection to server|server closed/) { $errors{'no connection'}++; }
		}
	}
	return %errors;
}

# What no fault of ours brings about: a failed assertion, a PANIC, a crash by a
# signal that we did not send.
sub server_failures
{
	my @failures;

	for my $file (glob("$PostgreSQL::Test::Utils::log_path/*server_*.log"))
	{
		push @failures, grep { /^TRAP:|PANIC:  |terminated by signal (?!9\b)/ }
		  split(/\n/, slurp_file($file));
	}
	return @failures;
}

# --- The soak

start_all();
srand($seed);
my @minters = map { start_minter($_) } 1 .. $MINTERS;
my $reported = 0;

while (time() - $began < $minutes * 60)
{
	my $name = one_of(@lots);

	print "soak: ", now(), ": $name\n";
	$fault{$name}->[1]->();
	$faults{$name}++;
	await_server();
	$base += 0.5;               # and steps back lose importance
	sleep(rand() < 0.5 ? rand(0.5) : rand(4));
	await_minting() if rand() < 0.3;
	if (int((time() - $began) / 60) > $reported)
	{
		$reported = int((time() - $began) / 60);
		my $bytes = sum0(map { -s $_ } glob("$dir/ids.*"));
		say_so("minute $reported: ", sum0(values %faults), ' faults, about ',
			sprintf('%.1f', $bytes / 20e6), ' million ids');
	}
}

# In the end all is well again.
$base += 30;
turn_clock($_, $base) for ($primary, $standby);
await_minting();
append_to_file("$dir/stop", '');
for my $pid (@minters)
{
	waitpid($pid, 0);
	die 'a minter died' if $? != 0;
}
die 'minting stopped' unless gives_true($primary, 'SELECT snowflake_nextval(3) > 0');

# Whatever was stored is there, and no other id is equal to it: those that were
# only selected least of all.
for my $database (@DATABASES)
{
	$primary->safe_psql($database, "COPY stored TO '$dir/stored.$database'");
}
my ($ids, $duplicates) = search('received ids', $received);
my ($others, $more) = search('stored and other ids', "{ $selected; cat $dir/stored.*; }");
my $kept = $others - `$selected | wc -l`;
my $disorder = order_violations();
my %errors = errors_by_sqlstate();
my @failures = server_failures();
my $violations = $errors{'23505'} // 0;

say_so("seed $seed, ", now(), ", $servers servers");
say_so("$ids ids checked, and $kept stored ones");
say_so(sum0(values %faults), ' faults');
say_so(sprintf('%8d %s', $faults{$_}, $_)) for sort keys %faults;
say_so('errors seen by clients: ',
	join(', ', map { "$_ $errors{$_} times" } sort keys %errors) || 'none');
Test::More->builder->output($output);
is(max($duplicates, $more, $violations), 0, "no id came twice among $ids");
is($disorder, 0, 'ids were in order in sessions and in shards');
is_deeply(\@failures, [], 'no server failed by itself');
cmp_ok($ids, '>=', $ENOUGH, 'enough ids to tell');

# --- A fleet with a registry, by the program that tests one
$_->stop for $standby, $primary;
{
	local $ENV{PERL5LIB} = join(':', @INC);
	local $ENV{SNOWFLAKE_FLEET} = $minutes * 20;
	my $log = "$PostgreSQL::Test::Utils::log_path/soak_fleet";
	my $failed = system(qq("$^X" "$FindBin::RealBin/t/064_fleet.pl" >"$log" 2>&1));
	my $printed = slurp_file($log);

	is($failed, 0, 'a fleet that leases its shards: ' . ($printed =~ /# the fleet: (.*)/ ? $1 : 'no ids')) or diag($printed);
}
diag("seed $seed; the evidence is in $dir") unless Test::More->builder->is_passing;
done_testing();
