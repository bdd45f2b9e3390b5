# Servers that leave a registry, join one, and change their shards, by reloads and in
# the middle of statements: no id is minted twice, and nobody leaves without a restart.
#
# Majors: one
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

my $registry = new_registry('registry');
my $setting = registry_setting($registry);

# The statement reads the settings once, and mints to its end, errors or not.
sub start_long_statement
{
	my ($node) = @_;

	return start_session($node, <<'SQL');
DO $$
BEGIN
    FOR i IN 1 .. 1000000 LOOP
        EXIT WHEN clock_timestamp() > statement_timestamp() + interval '20 s';
        BEGIN
            INSERT INTO minted SELECT snowflake_nextval() FROM generate_series(1, 5);
        EXCEPTION WHEN others THEN
            PERFORM pg_sleep(0.005);
        END;
        PERFORM pg_sleep(0.002);
    END LOOP;
END $$
SQL
}

sub ids_of
{
	my ($node) = @_;
	return split(/\n/, $node->safe_psql('postgres', 'SELECT id FROM minted'));
}

sub check_ids
{
	my ($name, @nodes) = @_;
	my %times;
	my @counts;

	for my $node (@nodes)
	{
		my @ids = ids_of($node);

		$times{$_}++ for @ids;
		push @counts, scalar(@ids);
		$node->safe_psql('postgres', 'TRUNCATE minted');
	}
	is(scalar(grep { $_ > 1 } values %times), 0, "$name: no id twice");
	cmp_ok($_, '>', 0, "$name: a server minted") for @counts;
	return;
}

my $paris = leasing_server('paris', $registry, '0,1', '2s');
my $tokyo = leasing_server('tokyo', $registry, 'auto', '2s');
$_->safe_psql('postgres', 'CREATE UNLOGGED TABLE minted (id bigint)') for $paris, $tokyo;
is_holding($paris, '0,1', 'a server has a list');
is_holding($tokyo, '2', 'another one has what is free');

# --- leaving with a list, while the other server wants what it had
my @sessions = map { start_long_statement($_) } $paris, $paris, $tokyo;
ok(wait_until($paris, q(SELECT count(*) = 2 FROM pg_stat_activity WHERE query LIKE 'DO%' AND xact_start < clock_timestamp() - interval '1 s')),
	'statements run');
my $before = -s $paris->logfile;
change_settings($paris, registry => '', shards => '40');
change_settings($tokyo, shards => '0,1,40');
wait_for_log($paris, qr/LOG:  "snowflake\.registry" was emptied, which takes a restart of this server/, $before, 'leaving takes a restart: logged');
ok(wait_until($paris, 'SELECT restart_pending FROM snowflake_lease_status()'), 'and in the status');
ok(wait_until($tokyo, q(SELECT count(*) FILTER (WHERE held) >= 2 FROM snowflake_leases())), 'the other server gets what is free');
reload($paris);
push @sessions, map { start_long_statement($_) } $paris, $tokyo;
ok(finish_session($_), 'a statement ends') for @sessions;
check_ids('leaving with a list', $paris, $tokyo);
is(scalar(() = substr(slurp_file($paris->logfile), $before) =~ /was emptied, which takes a restart/g), 1, 'a reload does not say so again');

# --- every order: each state to each other one, on both servers, in statements that go on
my %state = (
	auto => { registry => $setting, shards => 'auto' },
	list => { registry => $setting, shards => '0-2,40' },
	left => { registry => '', shards => '40' },
	left_auto => { registry => '', shards => 'auto:2' });
my @names = sort keys %state;
my @orders = map { my $from = $_; map { [ $from, $_ ] } grep { $_ ne $from } @names } @names;

@sessions = ();
for my $i (0 .. $#orders)
{
	my ($one, $other) = @{ $orders[$i] };

	push @sessions, map { start_long_statement($_) } $paris, $tokyo if $i % 4 == 0;
	change_settings($paris, %{ $state{$one} });
	change_settings($tokyo, %{ $state{$other} });
	sleep(0.7);
	change_settings($paris, %{ $state{$other} });
	change_settings($tokyo, %{ $state{$one} });
	sleep(0.7);
}
ok(finish_session($_), 'a statement ends') for @sessions;
check_ids('every order', $paris, $tokyo);

# --- the restart: leases are given back to the registry that they came from
change_settings($tokyo, %{ $state{auto} });
change_settings($paris, %{ $state{left} });
is_holding($paris, '40', 'until the restart its list is leased');
$paris->restart;
is(status_of($paris), 'off', 'after the restart it has no registry');
is($registry->safe_psql('postgres', 'SELECT time_left FROM snowflake_registry_leases WHERE shard = 40'), '00:00:00',
	'and gave back what it had');
is(shards_of(mints($paris, 100)), '40', 'and mints on its list');

# --- joining: the shard that it minted on is leased to the other server at once
@sessions = map { start_long_statement($_) } $paris, $tokyo;
ok(wait_until($paris, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'DO%' AND xact_start < clock_timestamp() - interval '1 s')),
	'a statement runs');
change_settings($paris, registry => $setting, shards => '50');
is_holding($paris, '50', 'the registry is set by a reload, with another list');
change_settings($tokyo, shards => '40');
is_holding($tokyo, '40', 'another server gets the shard that it had');
push @sessions, start_long_statement($tokyo);
ok(finish_session($_), 'a statement ends') for @sessions;
check_ids('joining', $paris, $tokyo);

done_testing();
