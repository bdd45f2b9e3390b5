# Random queries by sqlsmith, for SNOWFLAKE_SECONDS.  Their only wrong answer is
# a crash, which shows in the server's log.
#
# Packages: sqlsmith

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

plan skip_all => 'sqlsmith is not installed' unless grep { -x "$_/sqlsmith" } split /:/, $ENV{PATH};

my $seconds = $ENV{SNOWFLAKE_SECONDS} // 30;
my $node = new_server('sqlsmith');
my $program = "$PostgreSQL::Test::Utils::tmp_check/sqlsmith.log";

$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/sqlsmith.sql"));
system("timeout --preserve-status $seconds sqlsmith --verbose --exclude-catalog --target='host="
	  . $node->host . ' port=' . $node->port . " dbname=postgres user=smith' >$program 2>&1");
is($? >> 8, 128 + 15, "sqlsmith ran for $seconds s, until it was stopped")
  or diag(substr(slurp_file($program), -2000));

my @lines = split /\n/, slurp_file($node->logfile);
my @crashes = grep { /TRAP:|was terminated by signal|PANIC/ } @lines;
is_deeply(\@crashes, [], 'no process of the server crashed');
note(scalar(grep { /ERROR:/ } @lines), ' errors');
is($node->safe_psql('postgres', 'SELECT snowflake_nextval(1) > 0'), 't', 'and the server mints');
done_testing();
