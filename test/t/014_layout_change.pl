# Changing the layout of a primary with standbys.  A standby's file is as old
# as its base backup and tells of the old layout, with a horizon that may be
# later than the one that came by the WAL; the new layout came there alone.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $primary = new_server('primary', init => { allows_streaming => 1 },
	conf => "snowflake.shards = '7'\nsnowflake.reserve = 60s\nwal_keep_size = 256MB");
my $old = $primary->safe_psql('postgres', 'SELECT snowflake_nextval()');
my $ahead = $primary->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
$primary->backup('base');

my %standby;
for my $name ('follows', 'left_behind')
{
	$standby{$name} = PostgreSQL::Test::Cluster->new($name);
	$standby{$name}->init_from_backup($primary, 'base', has_streaming => 1);
}
$primary->append_conf('postgresql.conf', "snowflake.reserve = 100ms");
restart_with_layout($primary, 'discord');
my $new = $primary->safe_psql('postgres', 'SELECT snowflake_nextval()');
is($primary->safe_psql('postgres', "SELECT horizon < '$ahead' FROM snowflake_horizon()"), 't',
	'the backup has a later horizon than the primary');

$standby{follows}->append_conf('postgresql.conf', "snowflake.layout = 'discord'");
$_->start for values %standby;
$primary->wait_for_catchup($_) for values %standby;
my $read = "SELECT snowflake_shard($new), abs(extract(epoch FROM now() - snowflake_timestamp($new))) < 86400";
is($standby{follows}->safe_psql('postgres', $read), '7|t', 'a standby reads ids with its setting');
$standby{follows}->restart;
is($standby{follows}->safe_psql('postgres', $read), '7|t', 'after a restart, too');

$primary->stop;
$_->promote for values %standby;
wait_until($_, "SELECT incarnation IS NOT NULL FROM snowflake_horizon()") for values %standby;

is($standby{follows}->safe_psql('postgres', $read), '7|t', 'promoted with the new layout, it reads');
fails_with($standby{follows}, "SET snowflake.clock_tolerance = 0; SELECT snowflake_nextval()", '58000',
	qr/clock is [\d.]+ m?s behind the snowflake horizon/, 'and keeps the later horizon of the two');
my $refused = qr/another layout.*"snowflake\.layout" is "epoch=2010.*recorded layout is "epoch=2015/s;
fails_with($standby{left_behind}, 'SELECT snowflake_nextval()', '55000', $refused,
	'promoted with the old layout, it does not mint');
fails_with($standby{left_behind}, "SELECT snowflake_shard($new)", '55000', $refused, 'nor read');

# what is recorded stays with it, through a crash and beside what is damaged
$standby{left_behind}->stop('immediate');
$standby{left_behind}->start;
fails_with($standby{left_behind}, "SELECT snowflake_shard($new)", '55000', $refused, 'nor after a crash');
$standby{left_behind}->stop;
my $page = $standby{left_behind}->data_dir . '/global/11111';
my $good = slurp_file($page);
open(my $file, '+<', $page) or die "cannot open $page: $!";
print {$file} "\0" x 8192;
close($file);
$standby{left_behind}->start;
fails_with($standby{left_behind}, 'SELECT snowflake_nextval()', '55000', $refused, 'nor mint where the page is damaged');
fails_with($standby{left_behind}, "SELECT snowflake_shard($new)", '55000', $refused, 'nor read');
is($standby{left_behind}->safe_psql('postgres', "SELECT snowflake_shard($old, 'twitter')"), 7,
	'but by a layout that is named');

# the way back: the page as it was, and the layout as it was accepted
$standby{left_behind}->stop;
open($file, '+<', $page) or die "cannot open $page: $!";
print {$file} $good;
close($file);
$standby{left_behind}->append_conf('postgresql.conf', "snowflake.layout = 'discord'");
start_with_clock($standby{left_behind}, 120);
is($standby{left_behind}->safe_psql('postgres', $read), '7|t', 'with the layout that was accepted it reads');
is($standby{left_behind}->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval())'), 7, 'and mints');
$_->stop for values %standby;

done_testing();
