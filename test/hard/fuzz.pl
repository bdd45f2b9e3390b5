# Feed the pure parsers what nobody would write, and the client of the registry what
# no registry would say.
#
#   fuzz.pl SECONDS [HARNESS...]
#
# Each harness in test/hard/fuzz includes source files of src and states what
# must hold of whatever it is fed.  libFuzzer makes up the inputs, from the corpus
# beside it, so as to reach what was not reached; ASan and UBSan look on.  Each runs
# for so many seconds, as many at a time as there are processors.  After a find the
# input is shown.
#
# Needs the headers of a server.
# Packages: clang-14 libclang-rt-14-dev

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Test::More;
use Tool;

my $LENGTH = 240;    # bytes of an input, at most

my ($seconds, @harnesses) = @ARGV;
@harnesses = qw(layout registry shards text_forms) if !@harnesses;
my $work = scratch();
my $clang = $ENV{CLANG} // 'clang-14';
chomp(my ($include, $libpq, $libdir) = `pg_config --includedir-server --includedir --pkglibdir`);
chdir("$top/test/hard/fuzz") or die "$top: $!";

# libpgport has the server's own snprintf and so on, which format messages.  The
# corpus is read only, what is found goes to another directory.
my $build = "$clang -g -O1 -Wall -Werror -Wno-ignored-attributes -Wno-unused-function"
  . ' -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all'
  . " -I$include -I$libpq -I$top/src -I$top/src/lease {}.c -o $work/{} $libdir/libpgport.a";
my $run = "$work/{} -max_total_time=$seconds -max_len=$LENGTH -timeout=10 -seed=0"
  . " -artifact_prefix=$work/{}- -print_final_stats=1 $work/{}.found corpus/{}";
my $fuzz = "{ $build && mkdir $work/{}.found && $run && touch $work/{}.good; } >$work/{}.log 2>&1";

output_of('sh', '-c', "printf '%s\\n' @harnesses | xargs -P \$(nproc) -I{} sh -c '$fuzz'");
for my $name (@harnesses)
{
	my ($log) = output_of('cat', "$work/$name.log");
	my ($units) = $log =~ /^stat::number_of_executed_units: *(\d+)/m;

	ok(-f "$work/$name.good", "fuzz $name: " . ($units // 'no') . " inputs in $seconds s")
	  or diag_tail($log =~ s/^#[0-9].*\n//gmr);
}
done_testing();
