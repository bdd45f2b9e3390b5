# Files of src/ in all cases: each test/cases/*_cases.c includes one, puts another system below
# it, and compares what it does in each case with what its head says.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Basename qw(basename);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# The library is not in the server: a table of cases has what it needs of it.
my $node = PostgreSQL::Test::Cluster->new('cases');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");

# Those of the file that changed last come first.
my $top = "$FindBin::RealBin/../..";
my ($changed) = map { basename($_, '.c') } sort { -M $a <=> -M $b } glob("$top/src/*.c $top/src/lease/*.c");
my @tables = map { basename($_, '.c') } sort glob("$top/test/cases/*_cases.c");

for my $cases (grep({ /^$changed/ } @tables), grep { !/^$changed/ } @tables)
{
	tries_all($node, $cases, $cases, '', '', 300, "$cases: each is as it should be");
}
done_testing();
