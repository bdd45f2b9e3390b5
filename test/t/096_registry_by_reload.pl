# A registry that a reload names while no worker of leases runs: from the first id on,
# nothing is minted without a lease.
#
# Majors: ends

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $AWAY = "snowflake.registry = 'host=127.0.0.1 port=1 dbname=postgres'\n";    # nobody answers there

sub mints_nothing
{
	my ($node, $name) = @_;

	fails_with($node, 'SELECT snowflake_nextval()', '58000', qr/registry/, $name, at_last => 1);
	fails_with($node, 'SELECT snowflake_nextval(5)', '58000', qr/registry/, "$name, also on the shard itself");
	return;
}

my $paris = new_server('paris', init => { allows_streaming => 1 }, conf => "snowflake.shards = '5'\n");
$paris->safe_psql('postgres', 'SELECT snowflake_nextval()');

# --- A standby, which is promoted: at no time does it mint

$paris->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($paris, 'base', has_streaming => 1);
$standby->start;
$standby->append_conf('postgresql.conf', $AWAY);
reload($standby);
$standby->promote;
my ($status) = $standby->psql('postgres', 'SELECT snowflake_nextval()');
isnt($status, 0, 'a standby is promoted: its first call mints nothing');
mints_nothing($standby, 'nor does a later one');

# --- The worker ends, and is started after the reload

$paris->append_conf('postgresql.conf', $AWAY);
$paris->safe_psql('postgres', <<'SQL');
SELECT pg_terminate_backend(pid), pg_reload_conf() FROM pg_stat_activity WHERE backend_type = 'snowflake lease'
SQL
mints_nothing($paris, 'the worker starts with another setting: nothing is minted');
$_->stop for $standby, $paris;
done_testing();
