# One order for a server: a call of snowflake_nextval() that begins after another one
# has returned gives a greater id, in whatever session.  Also where ticks are exhausted,
# shards are leased, given back and leased again, and settings are read again, all in the
# middle of the load; with a spread, and by COPY.  With snowflake.ordering = 'session' it
# is not so, which shows that the test can find it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $ROUNDS = 60;    # in which shards are opened
my $ROWS = 50;    # of a statement

my $registry = new_registry('registry');
my $node = leasing_server('order', $registry, '0-7', '60s', conf => <<'CONF');
snowflake.layout = 'epoch=2020-01-01 unit=10ms fields=timestamp:39,shard:10,sequence:4'
fsync = off
CONF

# These sessions have one list, whatever the server leases; see snowflake_leases().
$node->safe_psql('postgres', "CREATE ROLE app SUPERUSER LOGIN; ALTER ROLE app SET snowflake.shards = '0-7'");
my $copied = PostgreSQL::Test::Utils::tempdir() . '/copied';
append_to_file($copied, "0\n" x $ROWS);

sub begin_load
{
	my ($table) = @_;
	create_mint_log($node, $table, 'snowflake_nextval()');
	my $load = sub {
		my ($statement, $first) = @_;
		return start_session($node, <<"SQL", connection => ' user=app');
$first;
DO \$\$
BEGIN
    WHILE to_regclass('${table}_ends') IS NULL LOOP
        $statement;
        COMMIT;
    END LOOP;
END \$\$
SQL
	};
	return (
		(map { $load->("INSERT INTO $table (n) VALUES (0)", '') } 1 .. 2),
		$load->("INSERT INTO $table (n) SELECT generate_series(1, $ROWS)", ''),
		$load->("INSERT INTO $table (n) SELECT generate_series(1, $ROWS)", 'SET snowflake.spread = 2'),
		$load->("COPY $table (n) FROM '$copied'", ''));
}

# Gives how many calls got an id that is not greater than one that had been returned.
sub end_load
{
	my ($table, @sessions) = @_;

	$node->safe_psql('postgres', "CREATE TABLE ${table}_ends ()");
	finish_session($_) or die $_->{err} for @sessions;
	return inversions($node, $table);
}

# --- Shards come and go, the lower ones among the others

my ($openings, $reloads) = (0, 0);
my %had;
srand($ENV{SNOWFLAKE_SEED} // 1);
my @sessions = begin_load('ordered');
for my $round (1 .. $ROUNDS)
{
	my @wanted = sort { $a <=> $b } (shuffle(0 .. 7))[ 0 .. 1 + int(rand(5)) ];

	change_settings($node, shards => join(',', @wanted));
	$reloads++;
	$openings += grep { !$had{$_} } @wanted;
	%had = map { $_ => 1 } @wanted;
	wait_until($node, sprintf(q(SELECT '%s' = string_agg(shard::text, ',' ORDER BY shard) FROM snowflake_leases() WHERE held), join(',', @wanted)))
	  or die 'shards are not leased';
}
ok(wait_until($node, <<'SQL'), 'ticks were exhausted, and the next shard was used');
SELECT sum(shards - 1) >= 1000 FROM (SELECT count(DISTINCT snowflake_shard(id)) AS shards FROM ordered GROUP BY snowflake_timestamp(id)) AS ticks
SQL
is(end_load('ordered', @sessions), 0, 'no call gets a lesser id than one that had returned before it began');
is($node->safe_psql('postgres', 'SELECT count(*) = count(DISTINCT id), count(DISTINCT session) FROM ordered'), 't|5', 'of all sessions, none twice');

cmp_ok($openings, '>=', 100, "shards were opened $openings times");
cmp_ok($reloads, '>=', 20, "settings were read $reloads times");

# --- The control: sessions that keep apart, until the setting is changed

$_->stop for $node, $registry;
$node = new_server('apart', conf => <<'CONF');
snowflake.shards = '0-7'
snowflake.ordering = 'session'
fsync = off
CONF
$node->safe_psql('postgres', 'CREATE ROLE app SUPERUSER LOGIN');
for my $ordering ('session', 'server')
{
	change_settings($node, ordering => $ordering);
	@sessions = begin_load($ordering);
	ok(wait_until($node, "SELECT count(*) > 50000 FROM $ordering"), "ordering $ordering: sessions mint");
	cmp_ok(end_load($ordering, @sessions), $ordering eq 'server' ? '==' : '>', 0, 'inversions across sessions');
	is(inversions($node, $ordering, partition => 'session'), 0, 'none in a session');
}
fails_with($node, "SET snowflake.ordering = 'session'", '55P02', qr/parameter "snowflake.ordering" cannot be changed now/,
	'a session has no say');

$node->stop;
done_testing();
