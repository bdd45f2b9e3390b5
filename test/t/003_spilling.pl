# snowflake_nextval() on several own shards: one session gets more ids in a
# tick than a shard has, and each session's ids still increase; many sessions,
# and explicit calls beside them, never clash; a clock set back under all that
# makes nobody mint from the past.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

# Each session's ids, and the order across sessions: of all ids, if the shard stands above
# the sequence number, else to the tick.
sub check_log
{
	my ($node, $table, $expected) = @_;
	my $is_ordered = $node->safe_psql('postgres', q(SELECT current_setting('snowflake.layout') !~ 'sonyflake|sequence:\d+,shard'));

	mint_log_is_sound($node, $table, $expected, partition => 'session',
		label => "$table: each session");
	mint_log_is_sound($node, $table, $expected, label => "$table: all sessions",
		$is_ordered eq 't' ? () : (what => 'snowflake_timestamp(id)', equal_allowed => 1));
	return;
}

# --- at full speed, in the layouts with the sequence below the shard and above
my $node = new_server('spilling', conf => <<'CONF');
snowflake.shards = '0-7'
fsync = off
CONF

sub check_full_speed
{
	my ($layout, $capacity, $rows) = @_;

	# nothing but minting in the statement's inner loop
	create_mint_log($node, "${layout}_alone", 'NULL');
	in_parallel($node, 1, <<"SQL");
INSERT INTO ${layout}_alone (n, session, before, id, after)
	SELECT n, 0, 2 * n, id, 2 * n + 1
	FROM unnest((SELECT array_agg(snowflake_nextval()) FROM generate_series(1, $rows)))
		WITH ORDINALITY AS minted (id, n);
SQL
	check_log($node, "${layout}_alone", $rows);
	is(count_of($node, "(SELECT FROM ${layout}_alone GROUP BY snowflake_timestamp(id), snowflake_shard(id) HAVING count(*) > $capacity) AS over"),
		0, "$layout: no shard more than its own");

	create_mint_log($node, "${layout}_many", 'snowflake_nextval()');
	my @sessions = map {
		start_session($node, "INSERT INTO ${layout}_many (n) SELECT generate_series(1, $rows)")
	} 1 .. 8;
	# explicit calls beside them: a session's own order is not promised when
	# it names the shard, so they are checked by the shard's
	create_mint_log($node, "${layout}_shard", 'snowflake_nextval(3)');
	push @sessions, start_session($node, "INSERT INTO ${layout}_shard (n) SELECT generate_series(1, $rows)");
	finish_session($_) or die $_->{err} for @sessions;
	check_log($node, "${layout}_many", 8 * $rows);
	mint_log_is_sound($node, "${layout}_shard", $rows);
	is( $node->safe_psql('postgres', <<"SQL"), 0, "$layout: explicit calls never clash with the rest");
SELECT count(*) FROM ${layout}_many JOIN ${layout}_shard USING (id)
SQL
	return;
}

check_full_speed('twitter', 4096, 100_000);
restart_with_layout($node, 'sonyflake');
check_full_speed('sonyflake', 256, 20_000);

# Whether these spill is the machine's affair, but 64 ids in 20 ms are few for
# every machine.
for my $fields ('sequence:6,shard:10', 'shard:10,sequence:6')
{
	my ($kind) = $fields =~ /^(\w+)/;
	my $name = "${kind}_above";

	restart_with_layout($node, "epoch=2020-01-01 unit=20ms fields=timestamp:39,$fields");
	check_full_speed($name, 64, 5_000);
	my $most = $node->safe_psql('postgres',
		"SELECT max(ids) FROM (SELECT count(*) AS ids FROM ${name}_alone GROUP BY snowflake_timestamp(id)) AS tick");
	cmp_ok($most, '>', 64, "$name: one session gets more ids in a tick than a shard has: $most");
}
is($node->safe_psql('postgres', <<'SQL'), 0, 'a shard is used when the one below it is exhausted, and not before');
WITH used AS (
	SELECT snowflake_timestamp(id) AS tick, snowflake_shard(id) AS shard, count(*) AS ids
	FROM shard_above_alone GROUP BY 1, 2)
SELECT count(*) FROM used AS upper
WHERE shard > 0 AND NOT EXISTS (
	SELECT FROM used WHERE tick = upper.tick AND shard = upper.shard - 1 AND ids = 64)
SQL
$node->stop;

# --- a clock set back under load, with sequences so short that all spills
for my $fields ('shard:10,sequence:2', 'sequence:2,shard:10')
{
	my ($kind) = $fields =~ /^(\w+)/;
	my $unsteady = new_server("unsteady_$kind", clock => 1, conf => <<"CONF");
snowflake.shards = '0-7'
snowflake.layout = 'epoch=2020-01-01 unit=10ms fields=timestamp:39,$fields'
fsync = off
CONF
	create_mint_log($unsteady, 'spilled', 'snowflake_nextval()');
	create_mint_log($unsteady, 'explicit', 'snowflake_nextval(3)');

	my $until = q{
DO $$
DECLARE stop timestamptz := clock_timestamp() + '4 s'; n int := 0;
BEGIN
	WHILE clock_timestamp() < stop LOOP
		INSERT INTO TABLE (n) SELECT n + i FROM generate_series(1, 100) AS i;
		n := n + 100;
	END LOOP;
END $$};
	my @sessions = (
		(map { start_session($unsteady, $until =~ s/TABLE/spilled/r) } 1 .. 8),
		start_session($unsteady, $until =~ s/TABLE/explicit/r));
	for my $offset (0, -0.05, -0.1, 0.05, 0)
	{
		set_clock($unsteady, $offset);
		sleep(0.5);
	}
	finish_session($_) or die $_->{err} for @sessions;

	my $count = count_of($unsteady, 'spilled');
	my $shards = $unsteady->safe_psql('postgres',
		'SELECT count(DISTINCT snowflake_shard(id)) FROM spilled');

	cmp_ok($shards, '==', 8, "$fields: all own shards were used");
	note("$fields: $count ids with the clock set back four times");
	check_log($unsteady, 'spilled', $count);
	mint_log_is_sound($unsteady, 'explicit', count_of($unsteady, 'explicit'));
	is(count_of($unsteady, 'spilled JOIN explicit USING (id)'), 0,
		"$fields: explicit calls never clash with the rest");
	$unsteady->stop;
}

done_testing();
