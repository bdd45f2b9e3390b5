# A server whose layout has no shard has one, 0; and where the layout has no
# sequence number, a tick has room for one id on each shard.  Both mint as others
# do: no id twice, in order, with statistics, and over a restart.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('parts', conf => <<'CONF');
fsync = off
snowflake.layout = 'mastodon'
CONF

# The ids of so many sessions that mint at once, as often as given each, are
# distinct, and each session's increase.
sub mints_well
{
	my ($sessions, $each, $call, $name) = @_;
	my @sessions = in_parallel($node, $sessions, "SELECT $call FROM generate_series(1, $each)");
	my @ids = map { [ split(/\n/, $_->{out}) ] } @sessions;
	my %seen;
	my $in_order = 1;

	for my $ids (@ids)
	{
		$seen{$_}++ for @$ids;
		$in_order &&= $ids->[ $_ - 1 ] < $ids->[$_] for 1 .. $#$ids;
	}
	is(scalar(keys %seen), $sessions * $each, "$name: no id twice");
	ok($in_order, "$name: in order");
	return;
}

# --- no shard

mints_well(4, 20000, 'snowflake_nextval(0)', 'mastodon');
is($node->safe_psql('postgres', <<'SQL'), '0|t|t', 'its ids are of the present, and of shard 0');
SELECT shard, abs(extract(epoch FROM created_at - now())) < 60, snowflake_nextval(0) >> 16 >= extract(epoch FROM now()) * 1000 - 1
  FROM snowflake_decode(snowflake_nextval(0))
SQL
fails_with($node, 'SELECT snowflake_nextval(1)', '22023', qr/shard 1 is out of range.*has shard numbers 0 to 0/s, 'there is no shard 1');
fails_with($node, "SET snowflake.shards = '0-1'", '22023', qr/Shard 1 is out of range/, 'and none to be given');
$node->append_conf('postgresql.conf', "snowflake.shards = '0'");
my $last = $node->safe_psql('postgres', 'SELECT snowflake_nextval(0)');
$node->restart;
mints_well(3, 20000, 'snowflake_nextval()', 'mastodon, with its shard as its own');
cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $last, 'and above those of before the restart');
is($node->safe_psql('postgres', 'SELECT shard, minted > 60000 FROM pg_stat_snowflake'), '0|t', 'statistics have one row');
is($node->safe_psql('postgres', 'SET snowflake.spread = 8; ' . slow_ids() . <<'SQL'), "t\n65536", 'a spread moves the first id of a millisecond');
SELECT count(DISTINCT id & 65535) > 10 AND max(id & 65535) < 256 FROM ids;
SELECT capacity FROM snowflake_layouts WHERE in_use;
SQL
is($node->safe_psql('postgres', <<'SQL'), 't', 'partitions by shard have one that is used');
CREATE TABLE parted (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parted SELECT FROM generate_series(1, 100);
SELECT (SELECT count(*) FROM parted_0) = 100 AND EXISTS (SELECT FROM parted WHERE id = (SELECT max(id) FROM parted_0));
SQL
$node->safe_psql('postgres', 'DROP TABLE parted');

# --- no sequence number, the shard in one part and in two

for my $fields ('shard:10', 'worker:5,process:5')
{
	restart_with_layout($node, "epoch=2020-01-01 unit=1ms fields=timestamp:41,$fields");
	$node->append_conf('postgresql.conf', "snowflake.shards = '2-9'");
	reload($node);
	ok(wait_until($node, q{SELECT current_setting('snowflake.shards') = '2-9'}), "$fields: the setting is there");
	mints_well(4, 200, 'snowflake_nextval(5)', "$fields, one shard");
	mints_well(4, 1000, 'snowflake_nextval()', "$fields, eight shards");
	is($node->safe_psql('postgres', <<'SQL'), 't|t|t', "$fields: one id in a tick and shard, eight in a tick");
WITH m AS MATERIALIZED (SELECT snowflake_nextval() AS id FROM generate_series(1, 800))
SELECT count(DISTINCT snowflake_timestamp(id)) >= 100, max(snowflake_sequence(id)) = 0,
       bool_and(snowflake_shard(id) BETWEEN 2 AND 9)
  FROM m
SQL
	is($node->safe_psql('postgres', 'SELECT bool_and(exhausted > 0) FROM pg_stat_snowflake'), 't', "$fields: shards were exhausted");
	$node->append_conf('postgresql.conf', "snowflake.shards = ''");
}

done_testing();
