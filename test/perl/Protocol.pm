# Protocol.pm -- a client of the server in the same process, as far as tests need one
#
# Statements are text, and so are values.  A program such as psql is another process: to
# start it and to connect takes ten times as long.

package Protocol;

use strict;
use warnings;

use Errno;
use IO::Socket::UNIX;

# A session: of a server by its socket's file, with the settings that a client may send at
# the start.  It is there when the first answer is.
sub connect
{
	my ($class, $path, %settings) = @_;
	my $socket = IO::Socket::UNIX->new(Peer => $path) or die "could not connect to $path: $!\n";
	my $words = join("\0", %settings) . "\0\0";

	my $self = bless { socket => $socket, buffer => '', at => 0, rows => [] }, $class;

	$self->send(pack('NN', 8 + length($words), 196_608) . $words);
	return $self;
}

# To a session that has ended, nothing: it says so when it is read.
sub send
{
	my ($self, $bytes) = @_;

	local $SIG{PIPE} = 'IGNORE';
	while ($bytes ne '')
	{
		my $sent = syswrite($self->{socket}, $bytes);

		return if !defined $sent && !$!{EINTR};
		substr($bytes, 0, $sent // 0) = '';
	}
	return;
}

# More bytes; false, if there is no more.  A signal, for instance of a child, is no end.
sub receive
{
	my ($self) = @_;
	my $received;

	do { $received = sysread($self->{socket}, $self->{buffer}, 65536, length($self->{buffer})) } until defined $received || !$!{EINTR};
	return $received;
}

sub socket { my ($self) = @_; return $self->{socket} }

sub ask
{
	my ($self, $sql) = @_;

	return $self->send(pack('aNZ*', 'Q', 5 + length($sql), $sql));
}

# Read what there is of an answer.  Gives undef until it is whole; then its rows, and what
# the error says, by the protocol's letters, if it has one.
sub take_answer
{
	my ($self) = @_;

	$self->receive() or die "the session has ended\n";
	while (length($self->{buffer}) >= $self->{at} + 5)
	{
		my ($type, $length) = unpack("x$self->{at} aN", $self->{buffer});
		last if length($self->{buffer}) < $self->{at} + 1 + $length;
		my $body = substr($self->{buffer}, $self->{at} + 5, $length - 4);

		$self->{at} += 1 + $length;
		push @{ $self->{rows} }, [ columns_of($body) ] if $type eq 'D';
		$self->{error} = { map { unpack('aa*', $_) } split /\0/, $body } if $type eq 'E';
		return $self->end_answer() if $type eq 'Z' || $type eq 'E' && $self->{error}{S} =~ /^(?:FATAL|PANIC)$/;
		die "the server wants a password, or takes rows\n" if $type eq 'R' && $body ne "\0\0\0\0" || $type =~ /[GHW]/;
	}
	return;
}

sub end_answer
{
	my ($self) = @_;
	my %answer = (rows => $self->{rows}, error => delete $self->{error});

	@$self{qw(buffer at rows)} = ('', 0, []);
	return \%answer;
}

sub columns_of
{
	my ($body) = @_;
	my ($at, @values) = (2);

	for (1 .. unpack('n', $body))
	{
		my $length = unpack('l>', substr($body, $at, 4));
		push @values, $length < 0 ? undef : substr($body, $at + 4, $length);
		$at += 4 + ($length < 0 ? 0 : $length);
	}
	return @values;
}

sub answer
{
	my ($self) = @_;
	my $answer;

	until ($answer = $self->take_answer()) { }
	return $answer;
}

# Wait until the server's process has ended, too: what it held is free.
sub finish
{
	my ($self) = @_;

	$self->send(pack('aN', 'X', 4));
	while ($self->receive()) { }
	close($self->{socket});
	return;
}

1;
