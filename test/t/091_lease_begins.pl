# No id is minted before the lease of its shard began: a holder before may have minted
# it.  A clock that is set back after the shard was opened is waited for.  What is said of the
# clock and of the registry's does not depend on how a session measures time.
#
# Majors: all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry');
$registry->safe_psql('postgres', 'INSERT INTO snowflake_registry_shards (shard, lease_until) VALUES (20, clock_timestamp())');
my $paris = leasing_server('paris', $registry, '20', '60s', clock => 1);
wait_for_log($paris, qr/this server has leased snowflake shards "20"/, 0, 'a shard that others had is leased');
my $from = $paris->safe_psql('postgres', 'SELECT lease_from FROM snowflake_leases()');
set_clock($paris, -3000);
fails_with($paris, 'SET snowflake.clock_tolerance = 0; SELECT snowflake_nextval()', '58000', qr/clock is \d.* s behind/,
	'the clock is set back to before the lease: no id');
set_clock($paris, 0);
is($paris->safe_psql('postgres', "SELECT bool_and(snowflake_timestamp(snowflake_nextval()) >= '$from') FROM generate_series(1, 100)"),
	't', 'the clock is right: ids of the lease');

# from 19 on a session may choose by which clock the server measures time: the processor's is
# often not well known, and after some hours many seconds from that of the system
set_clock($paris, 3600);
for my $source ('', split(/\n/, $paris->safe_psql('postgres', q{SELECT unnest(enumvals) FROM pg_settings WHERE name = 'timing_clock_source'})))
{
	my ($status, undef, $err) = $paris->psql('postgres', ($source ? "SET timing_clock_source = '$source'; " : '') . 'SELECT snowflake_nextval()');
	like($err, qr/clock is 59 min \d+ s ahead of the lease|invalid value for parameter/, "the clock is ahead: $source");
	like($err, qr/and the clock is at .*, (?:59 min 5\d|60 min \d) s ahead of the registry's|invalid value for parameter/, 'and of which other one');
}
set_clock($paris, 0);

# a lease is over at its end, and not only after it
change_settings($paris, lease => '1h');
ok(wait_until($paris, q(SELECT lease_until > now() + interval '50 min' FROM snowflake_lease_status())), 'a longer lease');
my $end = $paris->safe_psql('postgres', 'SELECT extract(epoch FROM lease_until) FROM snowflake_lease_status()');
replace_file($paris->basedir . '/clock', "\@$end\n");
is($paris->safe_psql('postgres', 'SELECT last_error FROM snowflake_horizon()'), "clock is 0 ms ahead of the lease of this server's shards", 'the clock stands at its end');
set_clock($paris, 0);
$_->stop for $paris, $registry;
done_testing();
