# TurnServer.pm -- the server whose processes take turns: how it starts, ends and is promoted
#
# Its configuration includes turns.conf, which Turns.pm writes.  A server ends in a crash,
# in the middle of what goes on, or by itself; then nobody plays any more.

package TurnServer;

use strict;
use warnings;

use Faults qw(slurp);
use File::Path qw(remove_tree);
use Time::HiRes qw(sleep time);
use Tool;
use Turns;

my $PORT = 5432;    # the socket is in a directory of its own
my $PATIENCE = 60;    # seconds until it has ended

sub run_quietly
{
	my ($output, $status) = output_of(@_);

	die "@_\n$output" if $status != 0;
	return;
}

sub make_data
{
	my ($data) = @_;

	run_quietly('initdb', '--no-sync', '--auth=trust', '--username=postgres', '--encoding=UTF8', "--pgdata=$data");
	return;
}

# A server by this name, with settings, in a directory that it shares with others.
sub new
{
	my ($class, $turns, $dir, $name, $settings) = @_;
	my $self = bless { turns => $turns, dir => $dir, data => "$dir/$name" }, $class;

	if (!-d $self->{data})
	{
		make_data($self->{data});
		$self->add_line('postgresql.conf',
			slurp("$top/../stage/server.conf") . "$settings\nport = $PORT\nlisten_addresses = ''\nunix_socket_directories = '$dir'\ninclude 'turns.conf'");
	}
	$turns->set_data($self->{data});
	return $self;
}

sub add_line
{
	my ($self, $name, $line) = @_;

	open(my $out, '>>', "$self->{data}/$name") or die "$name: $!";
	print $out "$line\n";
	close($out) or die "$name: $!";
	return;
}

sub turns { my ($self) = @_; return $self->{turns} }
sub dir { my ($self) = @_; return $self->{dir} }
sub port { return $PORT }

sub control
{
	my ($self, $what, @options) = @_;

	run_quietly('pg_ctl', $what, '--wait', "--pgdata=$self->{data}", @options);
	return;
}

sub start { my ($self, @options) = @_; return $self->control('start', "--log=$self->{dir}/log", @options) }

# By itself: nobody plays from now on.  First all processes get their signal, and only then they
# go on; so what they still do does not depend on which of them goes on first.  Nothing shows
# that they have it; if the pause is too short, two runs of a schedule may differ.
sub stop
{
	my ($self, $mode) = @_;
	my $pid_file = "$self->{data}/postmaster.pid";

	return if !-f $pid_file;
	run_quietly('pg_ctl', 'stop', '--no-wait', "--mode=$mode", "--pgdata=$self->{data}");
	wait_until(sub { !-f $pid_file || (eval { slurp($pid_file) } // '') =~ /^stopping/m });
	sleep(0.02);
	$self->{turns}->end();
	wait_until(sub { !-f $pid_file });
	return;
}

sub wait_until
{
	my ($is_so) = @_;
	my $began = time();

	until ($is_so->())
	{
		die "the server does not end\n" if time() - $began > $PATIENCE;
		sleep(0.005);
	}
	return;
}

# In the middle of all steps.
sub crash { my ($self) = @_; return $self->control('stop', '--mode=immediate') }

# --- Another start, of which the workers wait for their turn at their first step

sub start_in_game { my ($self) = @_; $self->{turns}->begin_at_start(); return $self->start() }

# It follows nobody, and is promoted; meanwhile, "connect" is called.
sub start_as_standby
{
	my ($self, $connect) = @_;

	$self->add_line('standby.signal', '');
	$self->start_in_game();
	$connect->();
	return $self->control('promote');
}

# A server that has never run with the library, but has the extension and the tables of
# "setup".
sub replace_by_new
{
	my ($self, $setup) = @_;
	my $model = "$self->{data}.new";

	if (!-d $model)
	{
		make_data($model);
		run_quietly('cp', "$self->{data}/postgresql.conf", "$self->{data}/turns.conf", $model);
		my $new = bless { %$self, data => $model }, ref($self);
		$new->start(q(--options=-c shared_preload_libraries=''));
		run_quietly('psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-U', 'postgres', '-h', $self->{dir}, '-p', $PORT, '-c', $setup);
		$new->control('stop', '--mode=fast');
	}
	remove_tree($self->{data});
	run_quietly('cp', '-a', $model, $self->{data});
	return;
}

1;
