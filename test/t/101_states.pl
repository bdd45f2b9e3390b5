# The states of test/perl/States.pm of a server that leases nothing, as test/perl/StateTest.pm
# tells.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PageTable;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StateTest;
use States;
use Test::More;

is(PageTable::with_table(page_text('doc/states.md'), States::table()), page_text('doc/states.md'), 'the page has the table');

# --- A primary server, and what is made from it

my $node = new_server('plain', clock => 1, disk => 1, init => { allows_streaming => 1 }, conf => <<'CONF');
snowflake.shards = '5'
max_prepared_transactions = 5
max_wal_senders = 5
log_min_messages = warning
CONF
furnish($node);
said_by_insert($node);
in_state($node, 'a primary server');

$node->backup('base');
for my $of ([ 'clone', 'off', 'a restored backup' ], [ 'refused', 'on', 'with snowflake.refuse_clone = on' ])
{
	my ($name, $refuse, $state) = @$of;
	my $clone = PostgreSQL::Test::Cluster->new($name);

	$clone->init_from_backup($node, 'base');
	$clone->append_conf('postgresql.conf', "snowflake.refuse_clone = $refuse");
	$offset{$name} = 5;    # past what the backup's server may have minted
	start($clone);
	in_state($clone, $state, mend => sub { $clone->safe_psql('postgres', 'SELECT ' . ($_[0] =~ /(snowflake_accept_clone\(\))/)[0]) });
	$clone->stop;
}
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
start($standby);
$node->wait_for_catchup($standby);
in_state($standby, 'a standby');
$standby->promote;
in_state($standby, 'a standby that was promoted');
$standby->stop;

# --- the horizon and its worker

my $horizon = $node->data_dir . '/snowflake.horizon';

in_state($node, 'the disk is full', cause => sub { set_disk($node, 'write=ENOSPC') }, mend => sub { set_disk($node, '') });
# (an INSERT whose horizon is far away waits in COMMIT, for ever: now that is over)
in_state($node, 'no synchronous standby answers',
	cause => sub { reconfigure($node, q{synchronous_standby_names = 'nobody'}); move_clock($node, 60) },
	mend => sub { reconfigure($node, q{synchronous_standby_names = ''}) });
my $worker = sub { $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'}) };
in_state($node, 'the worker is stopped (SIGSTOP)',
	finding => qr/snowflake's background worker has not answered for [56]\.\d s/,
	cause => sub { kill 'STOP', $worker->() },
	mend => sub { kill 'CONT', $node->safe_psql('postgres', statement_of($_[0], 'SELECT pid')) });
in_state($node, 'a disk of which each write takes 1.5 s', cause => sub { set_disk($node, 'fsync_ms=1500') }, mend => sub { set_disk($node, '') });

# Another horizon file, of a server that was stopped.
sub change_horizon
{
	my ($change) = @_;

	$node->stop;
	my $bytes = slurp_file($horizon);
	$change->(\$bytes);
	unlink $horizon;
	append_to_file($horizon, $bytes);
	start($node);
	return;
}
in_state($node, 'a byte of snowflake.horizon is damaged',
	cause => sub { change_horizon(sub { substr(${ $_[0] }, 20, 1) ^= "\xff" }) },
	mend => sub { unlink($node->data_dir . '/' . ($_[0] =~ /remove file "([\w.]+)"/)[0]) });
in_state($node, 'snowflake.horizon may not be read',
	cause => sub { $node->stop; chmod(0, $horizon); start($node) },
	mend => sub { chmod(oct(($_[0] =~ /with mode (\d+)/)[0]), $horizon) });
my $good;
in_state($node, 'snowflake.horizon is of a later version',
	cause => sub { change_horizon(sub { $good = ${ $_[0] }; substr(${ $_[0] }, 4, 4) = pack('L', 99) }) },
	mend => sub { unlink $horizon; append_to_file($horizon, $good) });
in_state($node, 'max_worker_processes is 0',
	cause => sub { restart($node, 'max_worker_processes = 0') },
	mend => sub { restart($node, 'max_worker_processes = ' . ($_[0] =~ /to (\d+) or more/)[0]) });
restart($node, 'max_worker_processes = 20');

# --- the library, the layout, shards

in_state($node, 'the library is not preloaded',
	is_blind => 1,
	cause => sub { restart($node, q{shared_preload_libraries = ''}) },
	mend => sub {
		is($node->safe_psql('postgres', statement_of($_[0], 'SELECT') =~ s/\*/setting || applied/r), "snowflakefalse\ntrue", 'the line that goes before');
		restart($node, q{shared_preload_libraries = } . ($_[0] =~ /Add ('\w+')/)[0]);
	});
in_state($node, 'snowflake.layout is another one',
	cause => sub { restart($node, q{snowflake.layout = 'discord'}) },
	mend => sub { restart($node, q{snowflake.layout = 'twitter'}) });
in_state($node, 'a change of snowflake.layout waits for a restart',
	cause => sub { reconfigure($node, q{snowflake.layout = 'discord'}) },
	mend => sub { reconfigure($node, q{snowflake.layout = 'twitter'}) });
in_state($node, 'snowflake.shards is empty',
	cause => sub { reconfigure($node, q{snowflake.shards = ''}) },
	mend => sub { reconfigure($node, q{snowflake.shards = } . ($_[0] =~ /such as ('\d+')/)[0]) });
in_state($node, 'a DEFAULT came from another server',
	cause => sub { $node->safe_psql('postgres', 'ALTER TABLE photos ALTER id SET DEFAULT snowflake_nextval(6)') },
	mend => sub { $node->safe_psql('postgres', $_[0]) });
in_state($node, 'a dump brought ALTER DATABASE ... SET snowflake.shards',
	cause => sub { $node->safe_psql('postgres', q{ALTER DATABASE postgres SET snowflake.shards = '6'}) },
	mend => sub { $node->safe_psql('postgres', statement_of($_[0], 'ALTER DATABASE')) });

# --- tables, and the feed

in_state($node, 'a table has an id of 2060',
	cause => sub { $node->safe_psql('postgres', q{INSERT INTO photos VALUES (snowflake_encode('2060-01-01Z', 5, 0))}) },
	mend => sub {
		like($node->safe_psql('postgres', $_[0]), qr/2060-01-01/, 'the audit shows it');
		$node->safe_psql('postgres', q{DELETE FROM photos WHERE id > now() + interval '1 day'});
	});
in_state($node, 'the last partition has ended',
	statement => 'INSERT INTO clicks DEFAULT VALUES',
	cause => sub {
		$node->safe_psql('postgres', q{CREATE TABLE clicks (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
			SELECT snowflake_make_partitions('clicks', '2026-01-01Z', '2026-02-01Z', '1 month')});
	},
	mend => sub { $node->safe_psql('postgres', $_[0]) });
in_state($node, 'a prepared transaction is forgotten',
	cause => sub {
		$node->safe_psql('postgres', "BEGIN; $insert; PREPARE TRANSACTION 'forgotten'");
		move_clock($node, 900);
	},
	mend => sub { $node->safe_psql('postgres', statement_of($_[0], 'ROLLBACK PREPARED')) });
$node->stop;

each_was_tried('states');

done_testing();
