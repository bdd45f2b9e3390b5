# Have somebody watch the memory while the SQL suites run.
#
#   watch.pl sanitize|valgrind           prepare, before the build
#   watch.pl sanitize|valgrind reports   afterwards
#
# sanitize builds the extension with ASan and UBSan and brings the former into the
# stock server by LD_PRELOAD; valgrind runs the server under memcheck.  The server is
# Debian's, built for neither: what it hands out by palloc is one large piece to both,
# so that they see all of our stack, globals and use of the C library, and of palloc'd
# memory only what leaves such a piece.
#
# To prepare is to make a directory ../bin of the server's programs, from which
# pg_regress starts another "postgres", and to print flags for the compiler.  A report
# that has the extension in it is a failure, whatever the suites say.  valgrind also
# reports of the server alone; those are counted and not ours.
#
# Runs in the copy of the tree, as the user of the server.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Basename qw(dirname);
use Test::More;
use Tool;

my ($how, $what) = @ARGV;
my $copy = dirname($top);
my $reports = "$copy/reports";

# A directory of the server's programs, with another way to start it.
sub wrap_server
{
	my ($watcher) = @_;
	my ($output, $status) = output_of('sh', '-ec', <<'END', 'sh', $watcher, $copy);
bindir=$(pg_config --bindir)
mkdir "$2/bin" "$2/reports"
ln -s "$bindir"/* "$2/bin"
rm "$2/bin/postgres"
printf '#!/bin/sh\nexec %s %s/postgres "$@" 2>>%s/reports/log\n' "$1" "$bindir" "$2" >"$2/bin/postgres"
chmod +x "$2/bin/postgres"
END
	die $output if $status;
	return;
}

# The server compiles with -fwrapv, which makes an overflow defined.  It is a mistake
# all the same.
sub prepare
{
	if ($how eq 'sanitize')
	{
		my ($output, $status) =
		  output_of('gcc', '-shared', '-fPIC', '-Wl,-z,initfirst', "$top/test/hard/early.c", '-o', "$copy/early.so");
		die $output if $status;
		chomp(my $asan = `gcc -print-file-name=libasan.so`);
		wrap_server("env LD_PRELOAD=$asan:$copy/early.so"
			  . ' ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:abort_on_error=1');
		return '-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -fno-wrapv';
	}
	wrap_server('valgrind --quiet --trace-children=yes --leak-check=no --num-callers=25 --fullpath-after='
		  . " --suppressions=$top/test/hard/valgrind.supp --error-markers=BEGIN,END --log-file=$reports/%p");
	return '-O1 -g -fno-omit-frame-pointer';
}

# Reports with the extension in them, and the number of others.  valgrind's stand
# between markers, and a hook that only calls what the server would have called
# ("standard_...") does not count.  Of ASan and UBSan each is the end of a process,
# and nothing but the extension makes any.
sub find_reports
{
	my ($text) = @_;
	return (join('', $text =~ /^.*(?:runtime error:|ERROR: AddressSanitizer)(?:.*\n?){1,31}/mg), 0) if $how eq 'sanitize';
	my @reports = $text =~ /^\S+ BEGIN\n.*?^\S+ END$/msg;
	my @ours = grep { s/: standard_.*\n(?:.*: standard_.*\n)*.*//gr =~ m{\Q$top\E/src/} } @reports;
	return (join("\n", @ours), @reports - @ours);
}

if (($what // '') ne 'reports')
{
	print prepare(), "\n";
	exit;
}
my ($text) = output_of('find', $reports, '-type', 'f', '-exec', 'cat', '{}', '+');
my ($ours, $others) = find_reports($text);
ok(-s "$reports/log", "$how: the server ran with it");
ok($ours eq '', "$how: no report of the extension, $others of the server alone") or diag(substr($ours, 0, 6000));
done_testing();
