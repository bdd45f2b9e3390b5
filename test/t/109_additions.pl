# "Add a preset" and "Add a text form" of CONTRIBUTING.md, typed as they stand there: the
# server and the plain edition both know the preset and the form, and agree.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $dir = PostgreSQL::Test::Utils::tempdir_short();

# The tree and its objects, so that only what changes is built.
system_or_bail('sh', '-c', 'tar -C "$0" -cf - --exclude-vcs --exclude="./tmp_check*" --exclude=./run . | tar -C "$1" -xf -', $top, $dir);

# --- Each step names a file, a text in it, and what comes above that text

my @steps = slurp_file("$top/CONTRIBUTING.md") =~ /^\d+\. In `(\S+)`, above `(.+?)`.*:\n   ```\w+\n((?:(?!   ```).*\n)*)   ```$/mg;
is(@steps / 3, 7, 'the page has seven steps');
my %texts;

while (my ($file, $below, $lines) = splice(@steps, 0, 3))
{
	my $text = $texts{$file} //= slurp_file("$dir/$file");

	is(() = $text =~ /\Q$below\E/g, 1, "$file has \"$below\" once");
	$texts{$file} =~ s/^(?=.*\Q$below\E)/$lines =~ s,^   ,,mgr/me;
}
for my $file (keys %texts)
{
	unlink("$dir/$file");
	append_to_file("$dir/$file", $texts{$file});
}

# --- A server with them

my ($made, $err) = build_in($dir, 'COPT=-Werror -DUSE_ASSERT_CHECKING');
if ($err =~ /this server finds extensions only where it is installed/)
{
	note($err);
	done_testing();
	exit;
}
is($err, '', 'it is built without a warning') or diag($made);
local $ENV{TEMP_CONFIG} = "$dir/stage/server.conf";
my $node = new_server('additions', conf => "fsync = off\nsnowflake.layout = 'acme'\nsnowflake.shards = '5'");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

is($sql->("SELECT snowflake_timestamp(0)"), '2023-11-14 22:13:20+00', 'a server takes the preset');
$sql->('CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())');
$sql->('INSERT INTO photos SELECT FROM generate_series(1, 1000)');
is($sql->('SELECT count(*) FROM photos WHERE snowflake_from_base36(snowflake_to_base36(id)) = id'), 1000, 'and writes ids in the form');
is($sql->("SELECT snowflake_to_base36(-1), snowflake_from_base36('0000000000010')"), '3W5E11264SGSF|36', 'whose digits are right');

# --- and the plain edition, in a schema of its own

$sql->('CREATE SCHEMA plain; CREATE EXTENSION snowflake_plain SCHEMA plain');
$sql->("SELECT plain.snowflake_plain_setup(layout => 'acme', shards => '0')");
is($sql->(q{SELECT count(*) FROM photos WHERE plain.snowflake_to_base36(id::bigint) = snowflake_to_base36(id)
	AND plain.snowflake_timestamp(id::bigint) = snowflake_timestamp(id)}), 1000, 'the plain edition says the same');

# --- and the page that shows ids

like($texts{'doc/explore.html'}, qr/^\t\t\['acme', .*\],\n\t\t\['pgdog', /m, 'the explorer lists it');
$node->stop;
done_testing();
