# What programs see in src that no test can: twice.pl, cppcheck, clang-tidy and gcc
# -fanalyzer must find nothing, and each fault has its place.  What they find wrongly is
# suppressed, each with its reason: at the place, or in .clang-tidy where it is an idiom of
# the server.
#
# Needs gcc and the headers of a server.
# Packages: cppcheck clang-tidy-14

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Faults;
use Test::More;
use Tool;

my $work = scratch();
my $tidy = $ENV{CLANG_TIDY} // 'clang-tidy-14';
chomp(my ($server, $libpq) = `pg_config --includedir-server --includedir`);
my $flags = "-std=gnu99 -Isrc -Isrc/lease -isystem $server -isystem $libpq -DUSE_ASSERT_CHECKING";
my %command = (
	cppcheck => 'cppcheck -j $(nproc) --std=c99 --quiet --inline-suppr --error-exitcode=1'
	  . ' --enable=warning,style,performance,portability --suppress=missingIncludeSystem -Isrc -Isrc/lease src',
	'clang-tidy' => "ls src/*.c src/lease/*.c | xargs -P \$(nproc) -I{} $tidy --quiet {} -- $flags 2>&1"
	  . " | sed '/warnings\\? generated\\|Suppressed/d'",
	gcc => "ls src/*.c src/lease/*.c | xargs -P \$(nproc) -I{} gcc $flags -O2 -fPIC -fanalyzer -Wall -Wextra -Werror"
	  . " -Wno-unused-parameter -Wno-sign-compare -c {} -o $work/{}.o",);

mkdir("$work/$_") or die "$work: $!" for 'src', 'src/lease';
chdir($top) or die "$top: $!";
succeeds('what is evaluated twice', $^X, "$FindBin::RealBin/twice.pl");
is_deeply([ map { eval { planted($_) } ? () : "$_->{name}: $@" } faults() ], [], 'each fault of Faults.pm can be planted');
succeeds("$_ of src", 'bash', '-o', 'pipefail', '-c', $command{$_}) for sort keys %command;
done_testing();
