# RegistryProxy.pm -- a bad network between servers and their registry
#
# A process that listens on a Unix socket, and passes what it gets to the
# registry's.  It cuts connections, delays bytes, and sends again what a client
# said in a connection of before.  A file says where the registry is, so that the
# servers need not know when another one takes its place.

package RegistryProxy;

use strict;
use warnings;

use Exporter 'import';
use IO::Select;
use IO::Socket::UNIX;
use List::Util qw(min);
use PostgreSQL::Test::Utils;
use SnowflakeTest qw(replace_file);
use Time::HiRes qw(time);

our @EXPORT = qw(start_proxy point_proxy_at delay_answers stop_proxy);

my $KEPT = 30;                  # conversations that may be replayed
my $LONGEST_DELAY = 7;          # seconds: longer than a server waits

# In a directory; "bad" is the part of the connections that are treated badly.
sub start_proxy
{
	my ($dir, $registry, $bad) = @_;
	my $proxy = { dir => $dir, bad => $bad };

	point_proxy_at($proxy, $registry);
	my $listener = IO::Socket::UNIX->new(Local => "$dir/.s.PGSQL.5432", Listen => 64)
	  or die "could not listen in $dir: $!";
	$proxy->{pid} = fork() // die "could not fork: $!";
	if ($proxy->{pid} == 0)
	{
		eval { serve($proxy, $listener, getppid()); 1 } or print STDERR "proxy: $@";
		POSIX::_exit(0);
	}
	close($listener);
	return $proxy;
}

# undef: nowhere.
sub point_proxy_at
{
	my ($proxy, $registry) = @_;

	return replace_file("$proxy->{dir}/target", $registry ? $registry->host . '/.s.PGSQL.' . $registry->port : '');
}

# From now on, each answer in a connection that begins comes so many seconds late.
sub delay_answers
{
	my ($proxy, $seconds) = @_;

	return replace_file("$proxy->{dir}/delay", $seconds);
}

sub stop_proxy
{
	my ($proxy) = @_;

	kill('KILL', $proxy->{pid});
	waitpid($proxy->{pid}, 0);
	return;
}

# --- In the process

my @conversations;
my %counts;

sub connect_to_target
{
	my ($proxy) = @_;
	my $target = slurp_file("$proxy->{dir}/target");

	return $target eq '' ? undef : IO::Socket::UNIX->new(Peer => $target);
}

# What will happen to a connection: nothing, or one of these.
sub choose_fate
{
	my ($proxy) = @_;
	my $link = { said => '', passed => 0, cut => 1e9, delay => 0, from => 1e9 };
	my $file = "$proxy->{dir}/delay";

	@$link{ 'answers_late', 'delay' } = (1, slurp_file($file)) if -e $file && slurp_file($file) > 0;
	return $link if rand() > $proxy->{bad};
	if (rand() < 0.6) { $link->{cut} = int(rand(2500)) }
	else { @$link{ 'from', 'delay' } = (int(rand(2500)), rand($LONGEST_DELAY)) }
	return $link;
}

sub close_link
{
	my ($select, $of, $link) = @_;

	for my $end (grep { $_ } @$link{ 'client', 'server' })
	{
		$select->remove($end);
		delete $of->{$end};
		close($end);
	}
	$link->{closed} = 1;
	push @conversations, $link->{said} if length($link->{said}) > 200;
	shift @conversations if @conversations > $KEPT;
	return;
}

# Say again what was said, to whoever is the registry now.
sub replay
{
	my ($proxy) = @_;
	my $server = connect_to_target($proxy) or return;

	syswrite($server, $conversations[ rand @conversations ]);
	shutdown($server, 1);
	local $SIG{ALRM} = sub { die "slow\n" };
	eval {
		alarm(2);
		1 while sysread($server, my $answer, 65536);
		alarm(0);
	};
	alarm(0);
	close($server);
	return;
}

sub serve
{
	my ($proxy, $listener, $parent) = @_;
	my $select = IO::Select->new($listener);
	my (%of, @late);

	local $SIG{PIPE} = 'IGNORE';
	srand($$);
	while (getppid() == $parent)
	{
		my $now = time();

		# bytes whose time has come
		for my $late (grep { $_->[0] <= $now && !$_->[2]{closed} } @late)
		{
			syswrite($late->[1], $late->[3]);
		}
		@late = grep { $_->[0] > $now && !$_->[2]{closed} } @late;
		replay($proxy) if @conversations && rand() < $proxy->{bad} / 50;
		for my $ready ($select->can_read(@late ? 0.02 : 0.1))
		{
			if ($ready == $listener)
			{
				my $client = $listener->accept or next;
				my $server = connect_to_target($proxy);

				if (!$server) { close($client); next; }
				my $link = choose_fate($proxy);
				@$link{ 'client', 'server' } = ($client, $server);
				$of{$_} = $link for $client, $server;
				$select->add($client, $server);
				next;
			}
			my $link = $of{$ready} or next;
			my $other = $ready == $link->{client} ? $link->{server} : $link->{client};
			my $bytes;

			if (!sysread($ready, $bytes, 65536)) { close_link($select, \%of, $link); next; }
			$link->{said} .= $bytes if $ready == $link->{client};
			$link->{passed} += length($bytes);
			if ($link->{passed} > $link->{cut})
			{
				# the other end gets a part of it, or all
				syswrite($other, $bytes, int(rand(length($bytes) + 1)));
				close_link($select, \%of, $link);
			}
			elsif ($link->{passed} > $link->{from}
				|| $link->{answers_late} && $ready == $link->{server}
				|| grep { $_->[1] == $other } @late)
			{
				push @late, [ $now + $link->{delay}, $other, $link, $bytes ];
			}
			else { syswrite($other, $bytes) }
		}
	}
	return;
}

1;
