# Progress.pm -- how the tests of check.sh go
#
# A formatter for prove: a line for each test that ends, with how many there
# are, the time, and the tests that run meanwhile; what failed at once with its
# diagnostics; all failures once more in the end, the first one last, with the command
# that runs each alone; how the first one begins; and the totals, of assertions.
#
# Tests run several at a time, so nothing is printed before a test ends, but for
# failures, skips, and comments that begin with "#:", which have its name.  While
# nothing is printed, a dot every five seconds shows that they go on.

package Progress;

use strict;
use warnings;
use parent 'TAP::Formatter::Base';

use IO::Handle;
use POSIX ();

# A process of its own prints, as a signal would end prove's select().
my $printer;

sub begin_printing
{
	my $parent = open($printer, '|-') // die "could not fork: $!";
	my $dots = 0;

	return $printer->autoflush if $parent;
	$SIG{$_} = 'IGNORE' for qw(INT TERM HUP);
	while (1)
	{
		vec(my $ready = '', fileno(STDIN), 1) = 1;
		my $is_ready = select($ready, undef, undef, 5);
		my $text = '.';

		last if $is_ready && !sysread(STDIN, $text, 65536);
		syswrite(STDOUT, ($dots && $is_ready ? "\n" : '') . $text);
		$dots = !$is_ready;
	}
	POSIX::_exit(0);
}

sub say_now { print {$printer} @_, "\n"; return }

sub prepare
{
	my ($self, @tests) = @_;
	$self->{count} = @tests;
	@{$self}{qw(done passed failed skipped)} = (0) x 4;
	@{$self}{qw(running failures)} = ([], []);
	$self->{skips} = {};
	$self->{began} = time;
	$SIG{$_} = sub { $self->summary(undef, 1); exit(1) }
	  for qw(INT TERM);
	begin_printing();
	say_now(scalar(@tests), ' tests');
	return;
}

sub elapsed { my ($self) = @_; my $s = time - $self->{began}; return sprintf('%d:%02d', $s / 60, $s % 60) }

sub open_test
{
	my ($self, $name, $parser) = @_;
	push @{ $self->{running} }, $name;
	return Progress::Test->new($self, $name, $parser);
}

# A test has ended: one line, and what it skipped.
sub close_test
{
	my ($self, $test, $outcome) = @_;
	$self->{running} = [ grep { $_ ne $test->{name} } @{ $self->{running} } ];
	my $running = @{ $self->{running} } ? "   (running: @{ $self->{running} })" : '';
	say_now(sprintf('[%*d/%d %6s] %-7s %s%s', length $self->{count}, ++$self->{done},
		$self->{count}, $self->elapsed, $outcome, $test->summary, $running));
	return;
}

sub summary
{
	my ($self, $aggregate, $interrupted) = @_;
	say_now("\n", 'Failures once more:') if @{ $self->{failures} };
	for my $failure (reverse @{ $self->{failures} })
	{
		my ($name, @lines) = @$failure;
		my $major = $name =~ /upgrade/ ? ' --all' : $name =~ m{^(\d+)/} ? " --pg $1" : '';
		# of the SQL tests each has a name
		my @alone = $name =~ m{^\d+/regress$} ? map { /: not ok.* - (\w+)/ ? $1 : () } @lines : ();
		say_now($_) for @lines;
		say_now("    $name: to run it alone:  test/check.sh$major --keep --only $_") for @alone ? @alone : $name;
	}
	$self->show_first(@{ $self->{failures}[0] }) if @{ $self->{failures} };
	say_now("\nInterrupted after $self->{done} of $self->{count} tests, in @{ $self->{running} }") if $interrupted;
	say_now('Took ', $self->elapsed);
	say_now("$self->{passed} passed, $self->{failed} failed",
		$self->{skipped} ? ", $self->{skipped} skipped" : '');
	close($printer);
	return;
}

# How the first failure begins, which often explains the others; or, if the test only
# ended, how it ended.
my $SHOWN = 15;

sub show_first
{
	my ($self, $name, @lines) = @_;
	say_now("\nThe first failure is of $name:");
	@lines = (grep { /: not ok/ } @lines) ? (@lines[ 0 .. $SHOWN - 1 ], '    ...') : ('    ...', @lines[ -$SHOWN .. -1 ])
	  if @lines > $SHOWN;
	say_now($_) for @lines;
	return;
}

package Progress::Test;

use strict;
use warnings;

my $KEPT = 30;    # lines of a test that ended without telling what failed

sub new
{
	my ($class, $all, $name, $parser) = @_;
	return bless {
		all => $all, name => $name, parser => $parser, began => time,
		lines => [], last => [], in_failure => 0
	}, $class;
}

# A line of its output.
sub result
{
	my ($self, $result) = @_;
	my $text = $result->raw;

	push @{ $self->{last} }, $text;
	shift @{ $self->{last} } if @{ $self->{last} } > $KEPT;
	if ($result->is_test)
	{
		$self->{in_failure} = !$result->is_ok;
		$self->{skipped}++ if $result->has_skip;
		$self->tell('SKIPPED: ' . $result->explanation) if $result->has_skip;
	}
	elsif ($text =~ /^#: (.*)/)
	{
		$self->tell($1);
	}
	elsif (!$result->is_comment && !$result->is_unknown)
	{
		$self->{in_failure} = 0;
	}
	$self->fail_with($text) if $self->{in_failure};
	return;
}

sub tell { my ($self, $text) = @_; Progress::say_now("    $self->{name}: $text"); return }

sub fail_with
{
	my ($self, $text) = @_;
	$text =~ s/^(.{300}).{20,}/$1 .../;
	$self->tell($text);
	push @{ $self->{lines} }, "    $self->{name}: $text";
	return;
}

sub summary
{
	my ($self) = @_;
	my $parser = $self->{parser};
	return "$self->{name}: " . ($parser->skip_all ? $parser->skip_all
		: join(', ', map { $_->[0] ? "$_->[0] $_->[1]" : () }
			[ scalar $parser->passed - ($self->{skipped} // 0), 'passed' ],
			[ $self->failures, 'failed' ], [ $self->{skipped}, 'skipped' ])
		  . ' in ' . (time - $self->{began}) . ' s');
}

# Its own failures, or one if it ended badly without any.
sub failures
{
	my ($self) = @_;
	my $parser = $self->{parser};
	return scalar($parser->failed) || ($parser->has_problems ? 1 : 0);
}

sub close_test
{
	my ($self) = @_;
	my ($all, $parser) = @{$self}{qw(all parser)};
	my $failures = $self->failures;

	$all->{passed} += $parser->passed - ($self->{skipped} // 0);
	$all->{failed} += $failures;
	$all->{skipped} += $self->{skipped} // 0;
	# what cannot be had is one thing, however many tests need it
	$all->{skipped}++ if $parser->skip_all && !$all->{skips}{ $parser->skip_all }++;
	if ($failures && !@{ $self->{lines} })
	{
		$self->fail_with($_) for @{ $self->{last} };
		$self->fail_with("it ended with status " . ($parser->exit // 0)
			  . join('', map { "; $_" } $parser->parse_errors));
	}
	push @{ $all->{failures} }, [ $self->{name}, @{ $self->{lines} } ] if $failures;
	$all->close_test($self, $failures ? 'FAILED' : $parser->skip_all ? 'SKIPPED' : 'ok');
	return;
}

1;
