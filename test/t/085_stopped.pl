# A process that is stopped just where it holds something of the feed: between its
# ticket of the ring and the entry, between the entry and what goes there, and between
# holding the mark and its first id.  Nobody waits for it, however often the ring goes
# round meanwhile, the mark is not above what it wrote, and no row is missed.  Likewise
# one that wants a later horizon, and has not woken the worker yet.
#
# A debugger brings the process there, and it is stopped by SIGSTOP.
#
# Packages: gdb

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use FeedTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

plan(skip_all => 'gdb is not installed') if system('gdb --version >/dev/null 2>&1') != 0;
my $node = new_server('stopped', conf => <<'CONF');
snowflake.shards = '0-3'
synchronous_commit = off
autovacuum = off
CONF

$node->safe_psql('postgres', 'CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text)');

# A session that is given one statement after another.
sub new_session
{
	my %session = (in => '', out => '', err => '');

	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
		'<', \$session{in}, '>', \$session{out}, '2>', \$session{err},
		IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	$session{pid} = answer(\%session, 'SELECT pg_backend_pid()');
	return \%session;
}

sub ask
{
	my ($session, $sql) = @_;

	$session->{out} = '';
	$session->{in} .= "$sql;\n\\echo done\n";
	$session->{run}->pump_nb;
	return;
}

sub answered
{
	my ($session) = @_;

	$session->{run}->pump until $session->{out} =~ s/^done\n\z//m;
	chomp($session->{out});
	return $session->{out};
}

sub answer
{
	my ($session, $sql) = @_;

	ask($session, $sql);
	return answered($session);
}

# The line of the source in which the text is.
sub line_of
{
	my ($file, $text) = @_;
	my @lines = split(/\n/, slurp_file("src/$file"));
	my ($line) = grep { index($lines[ $_ - 1 ], $text) >= 0 } 1 .. @lines;

	return "$file:" . ($line // die "$file has no $text");
}

# Run gdb on a process until it comes to a line; then it prints, and the process stays
# stopped when gdb has gone.
sub begin_to_stop
{
	my ($session, $line, @expressions) = @_;
	my %gdb = (out => '', err => '');
	my @commands = ('set breakpoint pending off', 'handle all nostop noprint pass', "tbreak $line", 'shell echo is there',
		'continue', (map { "print $_" } @expressions), "shell kill -STOP $session->{pid}", 'detach');

	$gdb{run} = IPC::Run::start([ 'gdb', '-nx', '-batch', '-p', $session->{pid}, map { ('-ex', $_) } @commands ],
		'<', '/dev/null', '>', \$gdb{out}, '2>', \$gdb{err}, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$gdb{run}->pump until $gdb{out} =~ /is there/ || !$gdb{run}->pumpable;
	return \%gdb;
}

# What it printed.
sub is_stopped
{
	my ($gdb, $session) = @_;

	$gdb->{run}->finish;
	wait_for(sub { state_of($session) eq 'T' });
	return $gdb->{out} =~ /^\$\d+ = (\d+)/mg;
}

sub state_of
{
	my ($session) = @_;
	return slurp_file("/proc/$session->{pid}/stat") =~ /\) (\w)/ ? $1 : '';
}

# A place of the code; what is true there of expressions; and whether the row is committed.
my @places = (
	{
		name => 'between ticket and entry',
		line => line_of('mark.c', 'RingEntry *entry = &ring[ticket % ring_size()];'),
		print => [ 'shared->tickets.value', 'ring[shared->tickets.value - 1].state.value' ],
		check => sub { my ($tickets, $state) = @_; return $tickets > 0 && $state == 0 },
		is_committed => 1
	},
	{
		name => 'between entry and transaction',
		line => line_of('mark.c', 'entry->completed = '),
		print => [ 'shared->tickets.value', 'ring[shared->tickets.value - 1].state.value' ],
		check => sub { my ($tickets, $state) = @_; return $state == 2 * ($tickets - 1) + 1 },
		is_committed => 1
	},
	{
		name => 'between holding the mark and the first id',
		line => line_of('sessions.c', 'my_held = HOLDS_LATEST;'),
		print => [ 'my_slot->mark_tick.value', 'my_slot->first_id.value' ],
		check => sub { my ($held, $first) = @_; return $held < 2**62 && $first > 2**62 },
		is_committed => 0
	});

my $try = new_session();
my $said = `gdb -nx -batch -p $try->{pid} -ex 'print ring[0].state.value' -ex 'print (int) MaxBackends' -ex detach 2>&1`;
my ($state, $backends) = $said =~ /^\$[12] = (\d+)/mg;
plan(skip_all => "gdb cannot look into a process here: $said") if !defined $backends;
my $ring_size = 32768 + 2 * $backends;

for my $place (@places)
{
	my $name = $place->{name};

	$try->{run}->finish;
	# so that tickets begin with 0
	$node->restart;
	$node->safe_psql('postgres', 'TRUNCATE events');
	new_reader();
	my ($early, $writer, $last, $old, $older) = map { new_session() } 1 .. 5;
	my $insert = "INSERT INTO events (name) VALUES ('stopped') RETURNING id";
	my $early_id = answer($early, q{BEGIN; INSERT INTO events (name) VALUES ('early') RETURNING id});
	answer($early, 'DO $$ BEGIN PERFORM pg_sleep(0.01); END $$');
	my $id = $place->{is_committed} ? answer($writer, "BEGIN; $insert") : undef;
	my $last_id = answer($last, q{BEGIN; INSERT INTO events (name) VALUES ('last') RETURNING id});

	answer($older, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM events');
	answer($early, 'COMMIT');
	my $gdb = begin_to_stop($writer, $place->{line}, @{ $place->{print} });
	ask($writer, $place->{is_committed} ? 'COMMIT' : $insert);
	my @values = is_stopped($gdb, $writer);
	ok(@values == 2 && $place->{check}->(@values), "$name: a process is stopped there") or diag("@values", $gdb->{out}, $gdb->{err});
	is($node->safe_psql('postgres', q{SELECT count(*) FROM events WHERE name = 'stopped'}), $place->{is_committed}, "$name: its row is committed: $place->{is_committed}");
	in_parallel($node, 1, q{INSERT INTO events (name) VALUES ('meanwhile')});
	my $mark = answer($older, 'SELECT snowflake_settled()');
	answer($older, 'COMMIT');

	# the ring goes round, up to the entry of the one that is stopped
	my $fillers = $ring_size - 2;
	my $poller = start_session($node, 'DO $$ BEGIN FOR n IN 1 .. 5000 LOOP PERFORM snowflake_settled(); COMMIT; END LOOP; END $$');
	in_parallel($node, 1, "DO \$\$ BEGIN FOR n IN 1 .. $fillers LOOP PERFORM pg_current_xact_id(), snowflake_nextval(); COMMIT; END LOOP; END \$\$");
	ok(finish_session($poller), "$name: $fillers transactions that mint, and 5000 polls, do not wait");
	is_deeply([ poll($node) ], ['early'], "$name: the mark is held, above what ended before");
	answer($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM events');
	answer($last, 'COMMIT');
	is(state_of($writer), 'T', "$name: it is still stopped");

	kill('CONT', $writer->{pid});
	$id //= answered($writer);
	answered($writer) if $place->{is_committed};
	cmp_ok($mark, '<=', $id, "$name: the mark of a snapshot that does not see the row was not above it");
	cmp_ok($mark, '<=', $early_id, "$name: nor above one that ended before it was stopped");
	cmp_ok(answer($old, 'SELECT snowflake_settled()'), '<=', $last_id, "$name: nor has the ring lost the one that came to its entry");
	answer($old, 'COMMIT');
	is_deeply([ sort(poll_to_the_end($node)) ], [ 'last', 'meanwhile', 'stopped' ], "$name: all is read");
	has_read_each_once($node, $name);
	$_->{run}->finish for $early, $writer, $last, $old, $older;
	$try = new_session();
}

# --- A reader that wants a later tick, and is stopped before it wakes the worker.  Nobody mints.

my $gdb = begin_to_stop($try, 'worker_wake');
ask($try, 'DO $$ BEGIN LOOP PERFORM snowflake_settled(); COMMIT; END LOOP; END $$');
is_stopped($gdb, $try);
is(state_of($try), 'T', 'a reader is stopped before it wakes the worker');
my $now = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
ok(wait_until($node, "SELECT snowflake_settled()::timestamptz > '$now'"), 'for others the mark goes on');
$try->{run}->kill_kill;
kill('CONT', $try->{pid});

done_testing();
