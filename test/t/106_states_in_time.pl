# The states of test/perl/States.pm in which time goes by, and of servers that lease, as
# test/perl/StateTest.pm tells.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StateTest;
use Test::More;
use Time::HiRes qw(time);

my $node = new_server('plain', clock => 1, disk => 1, conf => <<'CONF');
snowflake.shards = '5'
log_min_messages = warning
CONF
furnish($node);
said_by_insert($node);

my $open;
in_state($node, 'a transaction that has minted is open',
	cause => sub {
		$open = start_session($node, "BEGIN; $insert; SELECT pg_sleep(600)");
		wait_until($node, q{SELECT EXISTS (SELECT FROM snowflake_unsettled)}) or die;
		move_clock($node, 900);
	},
	mend => sub { $node->safe_psql('postgres', statement_of($_[0], 'SELECT pg_terminate_backend')) });
ok(!finish_session($open), 'its session is ended');

# --- the clock

in_state($node, 'the clock is set back', cause => sub { said_by_insert($node); move_clock($node, -3600) }, mend => sub { move_clock($node, 3600) });
in_state($node, 'the clock was ahead, and is right again',
	cause => sub { move_clock($node, 7200); said_by_insert($node); move_clock($node, -7200) },
	mend => sub { move_clock($node, 7200) });
in_state($node, 'a crash, with snowflake.reserve = 60s',
	is_new => 1,    # it counts from nothing again
	cause => sub {
		reconfigure($node, q{snowflake.reserve = '60s'});
		wait_until($node, q{SELECT seconds_ahead > 45 FROM (SELECT snowflake_nextval()) AS minted, snowflake_horizon()}) or die;
		$node->kill9;
		move_clock($node, -300);    # so that it lasts
		wait_for(sub { $node->{_pid} = undef; start($node, fail_ok => 1) }) or die;
	},
	mend => sub { move_clock($node, 420) });
$node->stop;

# --- a layout that ends in 2028, and whose timestamp can be made longer

my $short = new_server('short', clock => 1, disk => 1, conf => "snowflake.shards = '5'\nsnowflake.layout = 'epoch=2024-01-01T00:00:00Z unit=1s fields=timestamp:27,shard:5,sequence:5'\n");
furnish($short);
in_state($short, 'the layout expires within a year', cause => sub { $offset{short} = 1_830_000_000 - time(); move_clock($short, 0) });
in_state($short, 'the layout has expired',
	cause => sub { $offset{short} = 1_850_000_000 - time(); move_clock($short, 0) },
	mend => sub {
		restart($short, "snowflake.layout = 'epoch=2024-01-01T00:00:00Z unit=1s fields=timestamp:37,shard:5,sequence:5'");
		$short->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
	});
$short->stop;

# --- a first start without a worker

my $first = PostgreSQL::Test::Cluster->new('first');
$first->init;
$first->append_conf('postgresql.conf', "snowflake.shards = '5'\nmax_worker_processes = 0\n");
start($first);
$first->safe_psql('postgres', 'CREATE EXTENSION snowflake');
furnish($first);
in_state($first, 'it is at the first start', mend => sub { restart($first, 'max_worker_processes = ' . ($_[0] =~ /to (\d+) or more/)[0]) });
$first->stop;

# --- leases

my $registry = new_registry('registry');
my $paris = leasing_server('paris', $registry, '4', '20s', init => { allows_streaming => 1 }, conf => "max_wal_senders = 5\n");
furnish($paris);
is_holding($paris, '4', 'it leases');
in_state($paris, 'a server that leases');
$paris->backup('base');
my $follower = PostgreSQL::Test::Cluster->new('follower');
$follower->init_from_backup($paris, 'base', has_streaming => 1);
$follower->start;
$paris->wait_for_catchup($follower);
in_state($follower, 'its standby');
$follower->stop;

in_state($paris, 'the role may not lease',
	cause => sub {
		$registry->safe_psql('postgres', q{REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM ids});
		wait_until($paris, q{SELECT failure = 'refused' FROM snowflake_lease_status()}) or die;
	},
	mend => sub { $registry->safe_psql('postgres', ($_[0] =~ /Run (SELECT \S+)/)[0]) });
change_settings($paris, lease => '60s');
wait_until($paris, q{SELECT lease_until > now() + interval '30 s' FROM snowflake_lease_status()}) or die;
in_state($paris, 'the registry is away',
	cause => sub {
		$registry->stop('immediate');
		change_settings($paris, lease => '59s');
		wait_until($paris, q{SELECT failure = 'away' FROM snowflake_lease_status()}) or die;
	});
in_state($paris, 'and the lease has ended',
	cause => sub { wait_until($paris, q{SELECT state = 'ended' FROM snowflake_lease_status()}) or die },
	mend => sub { $registry->start });

my $tokyo;
in_state(
	$tokyo = furnish(leasing_server('tokyo', $registry, '4', '20s')), 'another server has the shard',
	mend => sub { change_settings($tokyo, shards => '7') },
	leads_on => 1,
	cause => sub { $registry->safe_psql('postgres', q{SELECT snowflake_registry_reserve(7, 'the test')}) });
in_state($tokyo, 'the shard is reserved', mend => sub { $registry->safe_psql('postgres', 'SELECT ' . ($_[0] =~ /(snowflake_registry_unreserve\()/)[0] . '7)') });
in_state($tokyo, 'a lease was lost',
	cause => sub {
		$registry->safe_psql('postgres', 'UPDATE snowflake_registry_shards SET holder = (SELECT holder FROM snowflake_registry_shards WHERE shard = 4) WHERE shard = 7');
		change_settings($tokyo, shards => '7,8', lease => '19s');
		wait_until($tokyo, 'SELECT losses > 0 FROM snowflake_lease_status()') or die;
		change_settings($tokyo, shards => '8');
	},
	mend => sub { $tokyo->restart });
$registry->safe_psql('postgres', 'CREATE DATABASE second');
in_state($tokyo, 'the registry\'s database has no extension',
	cause => sub { $tokyo->append_conf('postgresql.conf', "snowflake.registry = '" . registry_setting($registry, 'second') . q{'}); $tokyo->restart },
	leads_on => 1,
	mend => sub {
		$registry->safe_psql('second', ($_[0] =~ /run (CREATE EXTENSION \w+)/)[0]);
		$registry->safe_psql('second', q{SELECT snowflake_registry_grant('ids')});
	});
in_state($tokyo, 'the registry is not open',
	mend => sub {
		$registry->safe_psql('second', (($_[0] =~ /Run (SELECT \S+)/)[0]) =~ s/'\.\.\.'/'0'/r);
		# it does not know the leases that its predecessor gave: a finding until the restart
		wait_until($tokyo, 'SELECT losses > 0 FROM snowflake_lease_status()') or die;
		$tokyo->restart;
	});
in_state($tokyo, 'snowflake.shards is auto, and there is no registry',
	cause => sub { $tokyo->append_conf('postgresql.conf', "snowflake.registry = ''\nsnowflake.shards = 'auto'"); $tokyo->restart },
	mend => sub { $tokyo->append_conf('postgresql.conf', q{snowflake.shards = '9'}); $tokyo->restart });
$_->stop for $tokyo, $paris, $registry;

each_was_tried('states_in_time');

done_testing();
