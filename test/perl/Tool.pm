# Tool.pm -- what tests share that run programs, rather than a server

package Tool;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use File::Spec;
use File::Temp qw(tempdir);
use Test::More;

our @EXPORT = qw($top output_of succeeds diag_tail is_program scratch);

our $top = abs_path(dirname(__FILE__) . '/../..');    # of the source tree

my $SHOWN = 60;    # lines of output of a command that fails

# What a command prints, to either stream, and its status.
sub output_of
{
	my @command = @_;
	my $pid = open(my $out, '-|') // die "could not fork: $!";

	if (!$pid)
	{
		open(STDERR, '>&', \*STDOUT) or die "could not redirect: $!";
		exec(@command) or do { print "could not run $command[0]: $!\n"; exit(127) };
	}
	my $output = do { local $/; <$out> } // '';
	close($out);
	return ($output, $? >> 8 || $? & 127);
}

# A test: a command succeeds.  Its output shows only if it does not.
sub succeeds
{
	my ($name, @command) = @_;
	my ($output, $status) = output_of(@command);

	return ok($status == 0, $name) || diag_tail($output);
}

# The end of an output, as the reason of a failure.
sub diag_tail
{
	my @lines = split /\n/, $_[0];
	splice(@lines, 0, -$SHOWN) if @lines > $SHOWN;
	diag($_) for @lines;
	return 0;
}

# A directory to work in, by default in that for temporary files.  It is removed at
# the end, also after a signal.
sub scratch
{
	my ($parent) = @_;

	$SIG{$_} = sub { exit(1) }
	  for qw(INT TERM HUP);
	return tempdir('snowflake-XXXXXX', DIR => $parent // File::Spec->tmpdir, CLEANUP => 1);
}

sub is_program { my ($name) = @_; return scalar grep { -x "$_/$name" } split /:/, $ENV{PATH} }

1;
