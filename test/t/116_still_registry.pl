# A registry whose clock stands still: a lease, a fence and a claim end at their very time,
# not before and not after.  What people are shown then, and what they may do.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $registry = new_registry('registry', clock => 1);
my $END = time() + 100;
my $end = "to_timestamp($END)";

$registry->safe_psql('postgres', <<"SQL");
SELECT snowflake_registry_open('0', 'epoch=x', 7);
INSERT INTO snowflake_registry_holders VALUES ('a', 'ids', 'lima', 1, '1 min', now());
INSERT INTO snowflake_registry_shards (shard, holder, lease_from, lease_until, is_revoked)
VALUES (5, 'a', '2020-01-01', $end, false), (6, 'a', '2020-01-01', $end, true);
SQL

# What SQL gives, warns of and fails with, a millisecond before the end, or at it; it is undone.
sub says
{
	my ($ms, $sql) = @_;

	stop_clock($registry, $END + $ms / 1000);
	my (undef, $out, $err) = $registry->psql('postgres', "BEGIN;\n$sql;\nROLLBACK;", on_error_stop => 0);
	return join('; ', grep { $_ ne '' } $out =~ s/\n/, /gr, $err =~ /(?:WARNING|ERROR):  (.*)/g);
}

my $fenced = "UPDATE snowflake_registry_state SET not_before = $end; SELECT snowflake_registry_write(s) FROM snowflake_registry_state AS s \\g /dev/null\n";
my $free = 'SELECT string_agg(shard::text, $$ $$ ORDER BY shard) FROM snowflake_registry_leases WHERE free';

for my $case (
	[ 'a lease', 'SELECT shard, time_left, free, revoked FROM snowflake_registry_leases ORDER BY shard', '5|00:00:00.001|f|f, 6|00:00:00.001|f|t', '5|00:00:00|t|f, 6|00:00:00|t|f' ],
	[ 'all leases', 'SELECT leased, free, holders FROM snowflake_registry_summary', '2|6|1', '0|8|0' ],
	[ 'those in use', 'SELECT count(*) FROM snowflake_registry_in_use', '2', '0' ],
	[ 'free shards while it is fenced', "$fenced UPDATE snowflake_registry_shards SET lease_until = '2020-01-01'; $free", '', '5 6' ],
	[ 'their number', "$fenced SELECT free FROM snowflake_registry_summary", '0', '8' ],
	[ 'revoke()', "SELECT snowflake_registry_revoke(5) = $end", 't', 'shard 5 is not leased' ],
	[ 'reserve()', q(SELECT count(snowflake_registry_reserve(5, 'x'))), 'shard 5 is leased', '1; others may have minted ids of shard 5' ],
	[ 'reserve() of a fenced registry', "$fenced SELECT count(snowflake_registry_reserve(7, 'x'))", 'shard 7 may be leased', '0' ],
	[ 'the same, after the lease', "$fenced SELECT snowflake_registry_reserve(7, 'x', true) = $end", 't; others may have minted ids of shard 7', '' ],
	[ 'a shard that is reserved again', q(SELECT count(snowflake_registry_reserve(7, 'x')); SELECT snowflake_registry_unreserve(7) \g /dev/null
		SELECT lease_until = clock_timestamp() FROM snowflake_registry_leases WHERE shard = 7; SELECT count(snowflake_registry_reserve(7, 'y'))), '0, t, 1', '0, t, 1' ],
	[ 'another layout', "SELECT snowflake_registry_open('0', 'epoch=y', 7) >= $end", 'the snowflake registry has leases in another layout', 't' ],
	[ 'limit()', q(SELECT count(snowflake_registry_limit('1 s', 1))), '1; servers have more than the new limits of the snowflake registry', '1' ],
	[ 'unfence()', "$fenced SELECT $end - snowflake_registry_unfence('0')", '00:00:00.001; the fence of the snowflake registry was taken back', '00:00:00' ],
	[ 'what a holder has', q(SELECT has FROM snowflake_registry_meet(ROW('a', 1, 2, 1, 'lima', 'epoch=x', 7, NULL)::snowflake_registry_caller)), '2', '0' ],
	[ 'what a call proves', "SELECT coalesce(shard::text, 'registry') FROM snowflake_registry_state AS s, snowflake_registry_losses(s, NULL, 0, 'x', '{5}', '{2020-01-01}', ARRAY[$end])", 'registry, 5', '' ])
{
	my ($name, $sql, $before, $at) = @$case;

	is(says(-1, $sql), $before, "$name: a millisecond before the end");
	is(says(0, $sql), $at, "$name: at the end");
}

# the longest lease that it may have forgotten is no shorter than what is left of one in force
for my $left (0, 1000)
{
	is(says(-$left, q(UPDATE snowflake_registry_state SET longest_lease = '1 min'; SELECT snowflake_registry_limit('1 ms', 7) \g /dev/null
		SELECT longest_lease FROM snowflake_registry_state)) =~ s/;.*//r, $left ? '00:00:01' : '00:00:00.001', "the longest lease, $left ms before the end");
}

# a call listens, for a moment, where its transaction could be prepared: see snowflake_registry_lock()
is($registry->safe_psql('postgres', "LISTEN snowflake_registry; SELECT snowflake_registry_fence('0') \\g /dev/null\nSELECT pg_listening_channels()"),
	'snowflake_registry', 'where nothing can be prepared, a call leaves alone what its session listens to');

done_testing();
