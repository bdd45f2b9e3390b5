# The mark is not above the horizon that is on disk: who starts after a crash, with a
# clock that is behind, mints from there on.  And it does not go back: not where sessions
# mint that begin before the server knows its horizon, and wait long for the clock.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('disk', disk => 1, conf => "snowflake.shards = '5'\n");

$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
set_disk($node, 'create=ENOSPC');
ok( wait_until($node, <<'SQL'), 'the horizon is over, and cannot be renewed');
SELECT snowflake_settled() IS NOT NULL AND last_error IS NOT NULL AND clock_timestamp() > horizon + interval '1 s'
  FROM snowflake_horizon()
SQL
is($node->safe_psql('postgres', 'SELECT snowflake_settled()::timestamptz <= horizon FROM snowflake_horizon()'), 't', 'the mark stands');
set_disk($node, '');
ok(wait_until($node, q(SELECT snowflake_settled()::timestamptz > clock_timestamp() - interval '1 s')), 'and goes on when the disk does');
$node->stop;

# --- After a crash: who begins at once

$node = new_server('crashed', conf => "snowflake.shards = '5'\nsnowflake.reserve = 2s\nsnowflake.clock_tolerance = 60s\n");
my $file = PostgreSQL::Test::Utils::tempdir() . '/mint.sql';
append_to_file($file, "SELECT snowflake_nextval();\n");
my $connection = $node->connstr('postgres');
my $least = 0;
my @back;
for my $round (1 .. 5)
{
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	$least = $node->safe_psql('postgres', 'SELECT snowflake_settled()');
	$node->stop('immediate');
	# each tries until it is let in, and its call waits until the clock has reached the horizon
	my @minters = map {
		IPC::Run::start([ 'sh', '-c', "until psql -XAtq -d \"$connection\" -f $file; do :; done" ], '<', '/dev/null', '>', '/dev/null', '2>', '/dev/null',
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	} 1 .. 6;
	$node->start;
	for (1 .. 20)
	{
		my $mark = $node->safe_psql('postgres', 'SELECT snowflake_settled()');
		push @back, "$least to $mark" if $mark < $least;
		$least = $mark;
	}
	$_->finish for @minters;
}
is("@back", '', 'no mark goes back over a crash');
$node->stop;
done_testing();
