# Turns.pm -- one turn for all processes of a server, handed on at each of their steps
#
# test/hard/schedule.h, with which the library is built, has the other half of it, and says
# how it goes.  Here are the sessions, the clock, and the loop that gives the turn to one
# player after the other.  Who is next is the caller's to choose.
#
# What a player has to do is a list of statements.  A statement is a hash:
#   sql   text, or a function that gives it when the statement begins
#   port  without "sql", of the server to which the session is opened
#   done  is called with its rows, or with undef and the error
# or else a function, which the driver calls at its turn: it sets the clock, say.

package Turns;

use strict;
use warnings;

use Fcntl qw(O_RDWR O_CREAT O_NONBLOCK SEEK_SET);
use POSIX qw(mkfifo);
use Time::HiRes qw(sleep time);

use Protocol;

# As in schedule.h
my ($PLAYERS, $READINGS, $STEPS) = (12, 256, 8192);
my ($AT_PLAYER, $PLAYER_SIZE, $STEP_SIZE) = (288, 72, 128);
my ($OUT, $RUNS, $READY, $BLOCKED, $SLEEPS) = (0 .. 4);
my $AT_STEP = $AT_PLAYER + $PLAYERS * $PLAYER_SIZE;
our ($HORIZON, $LEASE) = (10, 11);
my $NOBODY = -1;

my $PATIENCE = 60;    # seconds for the steps of one turn
my $UNIX_EPOCH = 946_684_800;    # of a TimestampTz, in seconds

# The files that the library looks for.
sub new
{
	my ($class, $dir) = @_;
	my $self = bless { dir => $dir, session => {} }, $class;

	sysopen($self->{shared}, "$dir/shared", O_RDWR | O_CREAT, 0600) or die "$dir/shared: $!";
	truncate($self->{shared}, $AT_STEP + $STEPS * $STEP_SIZE) or die "$dir/shared: $!";
	for my $name ('driver', 0 .. $PLAYERS - 1)
	{
		mkfifo("$dir/$name", 0600) or die "$dir/$name: $!" if !-p "$dir/$name";
		sysopen($self->{pipe}{$name}, "$dir/$name", O_RDWR | O_NONBLOCK) or die "$dir/$name: $!";
	}
	$self->put(4, 'l', $NOBODY);
	$self->put(16, 'qq', int(time() - $UNIX_EPOCH) * 1_000_000, 0);
	return $self;
}

# --- What all share

sub put
{
	my ($self, $at, $template, @values) = @_;

	sysseek($self->{shared}, $at, SEEK_SET) && syswrite($self->{shared}, pack($template, @values)) or die "could not write: $!";
	return;
}

sub get
{
	my ($self, $at, $size, $template) = @_;

	sysseek($self->{shared}, $at, SEEK_SET) && sysread($self->{shared}, my $bytes, $size) or die "could not read: $!";
	return unpack($template, $bytes);
}

# Each player's state, and until when it sleeps.
sub players
{
	my ($self) = @_;

	return $self->get($AT_PLAYER, $PLAYERS * $PLAYER_SIZE, '(x4lx24qx32)' . $PLAYERS);
}

sub set_state
{
	my ($self, $player, $state) = @_;

	$self->put($AT_PLAYER + $player * $PLAYER_SIZE + 4, 'l', $state);
	return;
}

# --- The clock: as a TimestampTz, and how far ahead it is of the one that nobody can set

sub steady_us { my ($self) = @_; return $self->get(16, 8, 'q') }

sub clock_us { my ($self) = @_; my ($steady, $ahead) = $self->get(16, 16, 'qq'); return $steady + $ahead }

sub set_steady_us { my ($self, $us) = @_; $self->put(16, 'q', $us); return }

sub move_clock
{
	my ($self, $us) = @_;

	$self->put(24, 'q', $self->get(24, 8, 'q') + $us);
	return;
}

# By how many ms each reading moves both from now on, over and over.
sub set_ticks
{
	my ($self, @ms) = @_;

	$self->put(12, 'l', 0);
	$self->put(32, "C$READINGS", map { $ms[ $_ % @ms ] } 0 .. $READINGS - 1);
	return;
}

# --- Sessions

sub open_session
{
	my ($self, $player, @where) = @_;

	$self->connect($player, @where);
	$self->{session}{$player}->answer();
	return;
}

sub connect
{
	my ($self, $player, $port, $database) = @_;
	my %settings = (user => 'postgres', database => $database // 'postgres', application_name => "turn $player");

	$self->{session}{$player} = Protocol->connect("$self->{dir}/.s.PGSQL.$port", %settings);
	return;
}

# A statement before the game, or after it
sub ask
{
	my ($self, $player, $sql) = @_;
	my $session = $self->{session}{$player};

	$session->ask($sql);
	return $session->answer();
}

# --- Settings, by a reload.  When it returns, the workers have their signal, and the sessions
# --- most likely.

# The data directory of the server that is to be played with; its configuration includes
# what is written here.
sub set_data
{
	my ($self, $data) = @_;

	$self->{data} = $data;
	$self->{settings} = {};
	$self->write_settings(shards => '1-3');
	return;
}

sub data { my ($self) = @_; return $self->{data} }
sub setting { my ($self, $name) = @_; return $self->{settings}{$name} }

sub write_settings
{
	my ($self, %settings) = @_;

	$self->{settings}{$_} = $settings{$_} for keys %settings;
	open(my $file, '>', "$self->{data}/turns.conf") or die "turns.conf: $!";
	print $file map { "snowflake.$_ = '$self->{settings}{$_}'\n" } sort keys %{ $self->{settings} };
	close($file) or die "turns.conf: $!";
	return;
}

sub reload
{
	my ($self, %settings) = @_;
	my $count = sub { join(' ', map { $self->get($AT_PLAYER + $_ * $PLAYER_SIZE + 12, 4, 'l') } $HORIZON, $LEASE) };
	my @before = split(' ', $count->());
	my $wanted = join(' ', map { $_ + 1 } @before);
	my $began = time();

	$self->write_settings(%settings);
	open(my $file, '<', "$self->{data}/postmaster.pid") or die "postmaster.pid: $!";
	chomp(my $pid = <$file>);
	kill('HUP', $pid);
	sleep(0.0005) while $count->() ne $wanted && time() - $began < $PATIENCE;
	sleep(0.001);
	return;
}

# --- The loop

# From now on nobody makes a step without the turn, and the workers are in this state; what is
# left of a game before is gone, which may have ended anywhere.
sub begin_with
{
	my ($self, $state) = @_;

	while (sysread($self->{pipe}{driver}, my $bytes, 64)) { }
	$self->put(4, 'l', $NOBODY);
	$self->put($AT_PLAYER, 'x' . $PLAYERS * $PLAYER_SIZE);
	$self->set_state($_, $state) for $HORIZON, $LEASE;
	$self->put(0, 'l', 1);
	return;
}

# Of a server that runs, and sessions that are open.
sub begin { my ($self) = @_; return $self->begin_with($SLEEPS) }

# Of a server that starts: its workers want the turn.
sub begin_at_start { my ($self) = @_; $self->close_sessions(); return $self->begin_with($READY) }

# Everybody makes steps again.
sub end
{
	my ($self) = @_;

	$self->put(0, 'l', 0);
	syswrite($self->{pipe}{$_}, 'x') for 0 .. $PLAYERS - 1;
	$self->close_sessions();
	return;
}

sub close_sessions
{
	my ($self) = @_;

	$self->{session} = {};
	return;
}

# Those who want the turn.  If all sleep, the clock goes on to where the first one wakes, if
# there is still something to do.
sub wanting
{
	my ($self, $work) = @_;
	my @players = $self->players();
	my ($is_done, @wanting, @sleeping, $first) = (1);

	for my $player (0 .. $PLAYERS - 1)
	{
		my $state = $players[ 2 * $player ];

		if ($state == $OUT)
		{
			push @wanting, $player if $work->{$player} && @{ $work->{$player} };
			next;
		}
		$is_done = 0 if $player < $HORIZON || $state == $BLOCKED;
		if ($state == $READY) { push @wanting, $player }
		elsif ($state == $SLEEPS && (my $until = $players[ 2 * $player + 1 ]))
		{
			push @sleeping, $player;
			$first = $until if !defined($first) || $until < $first;
		}
	}
	push @wanting, grep { $_ >= $PLAYERS && @{ $work->{$_} } } sort keys %$work;
	return @wanting if !@sleeping;
	my $now = $self->steady_us();
	return @wanting if $now < $first && (@wanting || $is_done);
	if ($now < $first)
	{
		$self->set_steady_us($first);
		$now = $first;
	}
	for (grep { $players[ 2 * $_ + 1 ] <= $now } @sleeping)
	{
		$self->set_state($_, $READY);
		push @wanting, $_;
	}
	return @wanting;
}

# The answer to a statement has come: the session plays no more until the next one.
sub finish
{
	my ($self, $player, $statement, $answer) = @_;
	my $at = $AT_PLAYER + $player * $PLAYER_SIZE;
	my @players = $self->players();

	$self->put($at + 4, 'l', $OUT);
	$self->put($at + 40, 'q4', 0, 0, 0, 0);
	$self->put(4, 'l', $NOBODY);
	$self->set_state($_, $READY) for grep { $players[ 2 * $_ ] == $BLOCKED } 0 .. $PLAYERS - 1;
	my $error = $answer->{error} && "$answer->{error}{C}: $answer->{error}{M}";
	$statement->{done}->($error ? undef : $answer->{rows}, $error) if $statement->{done};
	return;
}

# Give a player the turn for some steps, and wait until it gives it back.
sub give
{
	my ($self, $player, $steps, $work, $running) = @_;

	if ($player >= $PLAYERS)
	{
		shift(@{ $work->{$player} })->();
		return;
	}
	$self->put($AT_PLAYER + $player * $PLAYER_SIZE + 4, 'll', $RUNS, $steps);
	$self->put(4, 'l', $player);
	if ($player < $HORIZON && !$running->{$player})
	{
		my $statement = $running->{$player} = shift @{ $work->{$player} };
		my $sql = $statement->{sql};
		if (!defined($sql)) { $self->connect($player, $statement->{port}) }
		else { $self->{session}{$player}->ask(ref($sql) ? $sql->() : $sql) }
	}
	else
	{
		syswrite($self->{pipe}{$player}, 'x');
	}
	$self->await($player, $running);
	return;
}

sub await
{
	my ($self, $player, $running) = @_;
	my ($pipe, $session) = ($self->{pipe}{driver}, $self->{session}{$player});
	my $asked = '';

	vec($asked, fileno($_), 1) = 1 for $pipe, $session ? $session->socket() : ();
	for (;;)
	{
		select(my $told = $asked, undef, undef, $PATIENCE) or die "player $player does not give the turn back\n";
		if (vec($told, fileno($pipe), 1))
		{
			sysread($pipe, my $bytes, 64);
			return;
		}
		my $answer = $session->take_answer() or next;
		$self->finish($player, delete $running->{$player}, $answer);
		return;
	}
}

# Let all play until what they have to do is done.  "choose" is given the statements that have
# begun, by player, and who wants the turn; and gives whose it is, and for how many steps, or
# nothing, if nobody is to go on.  False if all wait for ever.
sub play
{
	my ($self, $choose, %work) = @_;
	my %running;

	while (my @wanting = $self->wanting(\%work))
	{
		my ($player, $steps) = $choose->(\%running, @wanting) or last;
		$self->give($player, $steps, \%work, \%running);
	}
	return !%running;
}

# One after the other, each as long as it can.
sub play_in_order
{
	my ($self, %work) = @_;

	return $self->play(sub { ($_[1], 1_000_000) }, %work);
}

# --- The steps that were made

sub forget_steps { my ($self) = @_; $self->put(8, 'l', 0); return }

# Each with its player, function, what it did, and the value.
sub steps
{
	my ($self) = @_;
	my ($count) = $self->get(8, 4, 'l');

	$count = $STEPS if $count > $STEPS;
	return if !$count;
	my @fields = $self->get($AT_STEP, $count * $STEP_SIZE, '(qlZ36Z80)' . $count);
	return map { [ @fields[ 4 * $_ + 1, 4 * $_ + 2, 4 * $_ + 3, 4 * $_ ] ] } 0 .. $count - 1;
}

1;
