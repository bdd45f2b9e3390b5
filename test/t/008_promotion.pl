# Another server goes on where one was lost, with its clock three seconds
# behind: a promoted standby, a restore from archive and base backup, a base
# backup started on its own.  Nothing is minted twice, whether ids went into
# tables or were only returned, in transactions that wrote nothing.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Copy;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep);
use Test::More;

my $BEHIND = -3;
my $conf = <<'CONF';
snowflake.shards = '0-1'
snowflake.clock_tolerance = 60s
max_wal_senders = 5
wal_keep_size = 256MB
CONF

my %into = (
	'in tables' => {
		statement =>
		  'INSERT INTO minted SELECT snowflake_nextval() FROM generate_series(1, 20) RETURNING id;'
	},
	'by SELECT in read-only transactions' => { read_only => 1 });

# Mint on the server that took over, long enough for its clock to pass the
# time at which the other one was lost, and compare with all that was minted.  The
# lost server minted in each tick, so that some ids in each show whether they repeat.
my $SOME = 'SELECT snowflake_nextval() FROM generate_series(1, 20); SELECT pg_sleep(0.001);';

sub takes_over
{
	my ($name, $successor, %options) = @_;
	my @files = @{ $options{files} };
	my $first = $successor->safe_psql('postgres', 'SELECT snowflake_nextval()');
	my @minters = start_minters($successor, 4, undef, statement => $SOME);

	cmp_ok($first, '>', max(map { slurp_file($_) =~ /^(\d+)\n/mg } @files), "$name: the successor mints above all that was lost");
	all_mint(1, @minters);
	sleep(1 - $BEHIND);
	$successor->stop('immediate');
	ids_are_distinct($name, @files, stop_minters(@minters));
	return;
}

# The primary is lost, with the WAL that an asynchronous standby has not yet received.
# Of horizons, it has to have the last one: so none is stored from when it has that.
sub lose
{
	my ($primary, $standby) = @_;
	my $worker = $primary->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake horizon'});

	kill('STOP', $worker);
	$primary->wait_for_catchup($standby, 'flush', $primary->lsn('flush'));
	$primary->kill9;
	kill('KILL', $worker);
	return;
}

# --- promotion, asynchronous and synchronous
for my $kind ('asynchronous', 'synchronous')
{
	for my $where (sort keys %into)
	{
		my $name = "$kind standby, ids $where";
		my $tag = ($kind =~ s/chronous//r) . ($where =~ /tables/ ? '_tables' : '_select');
		my $primary = new_server("primary_$tag", init => { allows_streaming => 1 },
			clock => 1, conf => $conf);

		$primary->safe_psql('postgres', 'CREATE TABLE minted (id snowflake PRIMARY KEY)');
		$primary->backup('base');
		my $standby = PostgreSQL::Test::Cluster->new("standby_$tag");
		$standby->init_from_backup($primary, 'base', has_streaming => 1);
		start_with_clock($standby, $BEHIND);
		fails_with($standby, 'SELECT snowflake_accept_layout()', '25006',
			qr/cannot accept a layout during recovery/, "$name: accepts no layout");
		if ($kind eq 'synchronous')
		{
			$primary->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = '*'");
			reload($primary);
			$primary->poll_query_until('postgres',
				"SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'") or die;
		}
		my @minters = start_minters($primary, 4, 'snowflake_nextval()', %{ $into{$where} });
		all_mint(100, @minters);
		sleep(1);
		$kind eq 'synchronous' ? $primary->stop('immediate') : lose($primary, $standby);
		my @files = stop_minters(@minters);
		$standby->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = ''");
		$standby->promote;
		takes_over($name, $standby, files => \@files);
	}
}

# --- a primary whose clock was ahead for a while and set back before it was
# --- lost: the time of its last commit says nothing of what it minted
{
	my $primary = new_server('primary_ahead', init => { allows_streaming => 1 },
		clock => 1, conf => $conf);

	$primary->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby_ahead');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	start_with_clock($standby, 0);
	set_clock($primary, 4);
	my @minters = start_minters($primary, 4, 'snowflake_nextval()');
	all_mint(100, @minters);
	my @files = stop_minters(@minters);
	set_clock($primary, 0);
	$primary->safe_psql('postgres', 'CREATE TABLE later AS SELECT now()');
	$primary->wait_for_catchup($standby);
	$primary->stop('immediate');
	$standby->promote;
	takes_over('clock set back before the loss', $standby, files => \@files);
}

# --- restore from a base backup and the archive, to the latest point
{
	my $primary = new_server('primary_archive',
		init => { allows_streaming => 1, has_archiving => 1 }, clock => 1, conf => $conf);

	$primary->backup('base');
	my @minters = start_minters($primary, 4, 'snowflake_nextval()');
	all_mint(100, @minters);
	sleep(1);
	$primary->stop('immediate');
	my @files = stop_minters(@minters);

	# what was not archived yet is taken from the lost server's pg_wal
	for my $segment (glob($primary->data_dir . '/pg_wal/????????????????????????'))
	{
		my $archived = $primary->archive_dir . '/' . ($segment =~ s/.*\///r);
		copy($segment, $archived) unless -e $archived;
	}
	my $restored = PostgreSQL::Test::Cluster->new('restored');
	$restored->init_from_backup($primary, 'base', has_restoring => 1, standby => 0);
	start_with_clock($restored, $BEHIND);
	$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
	takes_over('restored to the latest point', $restored, files => \@files);
}

# --- a base backup started on its own, without any archive
{
	my $primary = new_server('primary_backup', init => { allows_streaming => 1 },
		clock => 1, conf => $conf);
	my @minters = start_minters($primary, 4, 'snowflake_nextval()');

	all_mint(100, @minters);
	my @files = stop_minters(@minters);
	$primary->backup('base');
	$primary->stop('immediate');
	my $copy = PostgreSQL::Test::Cluster->new('copy');
	$copy->init_from_backup($primary, 'base');
	start_with_clock($copy, $BEHIND);
	takes_over('base backup on its own', $copy, files => \@files);
}

# --- a synchronous standby that is not there yet: nothing is minted past what
# --- it has, and who stops the server need not wait for it
{
	my $primary = new_server('primary_alone', init => { allows_streaming => 1 }, conf => $conf);
	my $file = $primary->data_dir . '/snowflake.horizon';

	$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
	$primary->restart;
	my $session = start_session($primary, 'SELECT snowflake_nextval(0)');
	ok(wait_until($primary, q(SELECT waiting_for = 'synchronous standby' FROM snowflake_horizon())), 'standby not there: the worker waits');
	ok(-e $file, 'standby not there: the horizon is on disk');
	$primary->stop('fast');
	finish_session($session);
	is($session->{out}, '', 'standby not there: but no id is minted');
	like(slurp_file($primary->logfile), qr/background worker "snowflake horizon" \(PID \d+\) exited with exit code 1/,
		'standby not there: a stop ends the wait');
}

done_testing();
