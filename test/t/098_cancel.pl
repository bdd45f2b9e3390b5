# A call can be cancelled, whatever has broken: here is a library whose shards always tell
# that the tick is over, so that a call reads the clock for ever.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $tree = "$FindBin::RealBin/../..";
my $broken = PostgreSQL::Test::Utils::tempdir() . '/broken';

PostgreSQL::Test::Utils::system_or_bail('cp', '-r', "$tree/Makefile", "$tree/sql", "$tree/src", glob("$tree/*.control"), mkdir_of($broken));
my $source = slurp_file("$broken/src/mint.c");
$source =~ s/if \(likely\(position <= tick\.last\)\)/if (false)/ or die 'the rule is not found';
$source =~ s/id = last == NEVER \? NO_ROOM : STALE;/id = STALE;/ or die 'the rule is not found';
$source =~ s/else if \(last > tick\.last\)/else if (true)/ or die 'the rule is not found';
unlink("$broken/src/mint.c", "$broken/src/mint.o");
append_to_file("$broken/src/mint.c", $source);
PostgreSQL::Test::Utils::system_or_bail('make', '-s', '-C', $broken, 'with_llvm=no', 'snowflake.so');

my $node = new_server('cancel', conf => "snowflake.shards = '0-1'");
my $path = $node->safe_psql('postgres', 'SHOW dynamic_library_path');
$node->append_conf('postgresql.conf', "dynamic_library_path = '$broken:$path'");
$node->restart;
for my $call ('snowflake_nextval()', 'snowflake_nextval(1)')
{
	fails_with($node, "SET statement_timeout = '0.3s'; SELECT $call", '57014', qr/canceling statement due to statement timeout/, "$call can be cancelled");
}
$node->stop;
done_testing();

sub mkdir_of
{
	my ($dir) = @_;

	mkdir($dir) or die "could not make $dir: $!";
	return $dir;
}
