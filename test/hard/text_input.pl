# What the type reads from text, for SNOWFLAKE_SECONDS: text_input.sql.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use SnowflakeTest;
use Test::More;

my $node = new_server('text_input', init => { extra => ['--encoding=UTF8'] });
my ($status, undef, $stderr) = $node->psql('postgres', '', extra_params =>
	  [ '-v', 'seconds=' . ($ENV{SNOWFLAKE_SECONDS} // 30), '-f', "$FindBin::RealBin/text_input.sql" ]);
is($status, 0, 'snowflake reads text as bigint does') or diag($stderr);
note($stderr);
done_testing();
