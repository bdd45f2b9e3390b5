# RegistryFaults.pm -- a registry of leases that is stopped, put back in every way,
# promoted and made new, while servers lease from it
#
# The servers reach it by a proxy: they do not know when another one takes its place.

package RegistryFaults;

use strict;
use warnings;

use Exporter 'import';
use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RegistryProxy;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

our @EXPORT = qw(begin_registries end_registries turn_registry_clock stop_registry_for start_again %registry_fault);

my ($registry, $proxy, $dir, $lease, $clock, @not_wanted);
my $made = 0;                         # registries, backups and dumps

# With leases of so many seconds; "bad" is the part of the connections that are treated
# badly; "not_wanted" are shards that nobody gets, so that who begins as a new holder
# gets those that somebody else had; "clock" gives how many seconds the registry's
# clock is ahead, if it can be moved.
sub begin_registries
{
	my (%options) = @_;

	($dir, $lease, $clock, @not_wanted) = (@options{qw(dir lease clock)}, @{ $options{not_wanted} });
	$registry = new_registry('registry_0', clock => $clock, init => { allows_streaming => 1, has_archiving => 1 });
	$proxy = start_proxy($dir, $registry, $options{bad} // 0);
	reserve_what_is_not_wanted();
	return;
}

sub end_registries
{
	$registry->stop;
	stop_proxy($proxy);
	return;
}

sub turn_registry_clock { return set_clock($registry, $clock->()); }

sub start_registry
{
	my ($node, %options) = @_;
	return $clock ? start_with_clock($node, $clock->(), %options) : $node->start(%options);
}

sub reserve_what_is_not_wanted
{
	my $sql = "SELECT snowflake_registry_reserve(n, 'the test') FROM unnest('{@{[ join(',', @not_wanted) ]}}'::int[]) AS n";

	# somebody may have one of them by now, and there may be a fence for so long
	for (1 .. 20 * $lease)
	{
		return if eval { $registry->safe_psql('postgres', $sql); 1 };
		sleep(0.1);
	}
	note("shards are not reserved: $@");
	return;
}

sub pause { return sleep(rand($lease)); }

# What is left of a server whose postmaster was killed keeps it from starting for
# a while.
sub start_again
{
	my ($node, $start) = @_;

	for (1 .. 900)
	{
		$node->{_pid} = undef;
		return if $start ? $start->($node, fail_ok => 1) : $node->start(fail_ok => 1);
		sleep(0.1);
	}
	die $node->name . ' does not start again';
}

sub stop_registry_for
{
	my ($seconds) = @_;

	$registry->stop(rand() < 0.5 ? 'immediate' : 'fast');
	sleep($seconds);
	start_registry($registry);
	return;
}

# Another server is the registry from now on.
sub begin_registry
{
	my ($new) = @_;
	my $old = $registry;

	$registry = $new;
	point_proxy_at($proxy, $registry);
	$old->clean_node;
	return;
}

sub end_registry
{
	point_proxy_at($proxy, undef);
	$registry->stop(rand() < 0.5 ? 'immediate' : 'fast');
	return;
}

sub registry_from
{
	my ($node, %options) = @_;
	my $backup = 'backup_' . ++$made;
	my $new = PostgreSQL::Test::Cluster->new('registry_' . $made);

	$node->backup($backup);
	$new->init_from_backup($node, $backup, %options);
	$new->enable_archiving;           # into a directory of its own
	system_or_bail('rm', '-rf', $node->backup_dir . "/$backup");
	return $new;
}

sub dump_registry
{
	my ($node, @options) = @_;
	my $file = "$dir/dump_" . ++$made;

	system_or_bail('pg_dump', '-Fc', '-f', $file, @options, $node->connstr('postgres'));
	return $file;
}

# What CREATE EXTENSION makes leases nothing, until somebody says that no lease is
# longer than this.
sub open_registry
{
	my ($node) = @_;

	$node->safe_psql('postgres', "SELECT snowflake_registry_open('${lease}s')");
	return;
}

# What a restore says of what it finds there is not an end of it.
sub restore_registry
{
	my ($node, $file, @options) = @_;

	note(`pg_restore @options -d "@{[ $node->connstr('postgres') ]}" $file 2>&1`);
	pause();
	open_registry($node);
	return;
}

# A server whose data directory comes from the same image as each other one's.
my $image;

sub registry_from_image
{
	my $new = PostgreSQL::Test::Cluster->new('registry_' . ++$made);

	if (!$image)
	{
		$image = PostgreSQL::Test::Cluster->new('image');
		$image->init(allows_streaming => 1, has_archiving => 1);
	}
	$new->init(allows_streaming => 1, has_archiving => 1);
	for my $part (glob($image->data_dir . '/*'))
	{
		next if $part =~ m{/postgresql\.conf$|/pg_hba\.conf$};
		my ($name) = $part =~ m{([^/]+)$};
		system_or_bail('rm', '-rf', $new->data_dir . "/$name");
		system_or_bail('cp', '-a', $part, $new->data_dir . "/$name");
	}
	$new->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
	start_registry($new);
	$new->safe_psql('postgres', 'CREATE ROLE ids LOGIN');
	return $new;
}

# A registry of which nobody knows where it was.
sub begin_registry_from_image
{
	my $new = registry_from_image();

	end_registry();
	$new->safe_psql('postgres', "CREATE EXTENSION snowflake_registry; SELECT snowflake_registry_grant('ids')");
	open_registry($new);
	begin_registry($new);
	reserve_what_is_not_wanted();
	return;
}

# Its files are put back in place, in the same timeline, as rsync does it, or a tool that
# compares contents.  A restore of the same second as the backup could not be told.
sub put_back_in_place
{
	my ($files) = @_;

	pause();
	sleep(3);
	$registry->stop('fast');
	put_back_files($files, $registry->data_dir, rand() < 0.5);
	start_registry($registry);
	system_or_bail('rm', '-rf', $files);
	return;
}

our %registry_fault = (
	'the registry: files put back in place' => sub {
		my $files = "$dir/files_" . ++$made;
		$registry->stop('fast');
		save_files($registry->data_dir, $files);
		start_registry($registry);
		put_back_in_place($files);
	},
	'the registry: files of a base backup put back in place' => sub {
		my $files = "$dir/files_" . ++$made;
		save_files_online($registry, $files, \&pause);
		put_back_in_place($files);
	},
	'the registry: a base backup, simply started' => sub {
		my $new = registry_from($registry);
		pause();
		end_registry();
		start_registry($new);
		begin_registry($new);
	},
	'the registry: a dump restored into the same database' => sub {
		my $file = dump_registry($registry);
		pause();
		restore_registry($registry, $file, '--clean', '--if-exists');
	},
	'the registry: a restore of the data alone' => sub {
		my $file = dump_registry($registry, '--data-only');
		pause();
		$registry->safe_psql('postgres',
			'TRUNCATE snowflake_registry_state, snowflake_registry_holders, snowflake_registry_shards');
		restore_registry($registry, $file, '--data-only');
	},
	'the registry: a dump restored into a server of the same image' => sub {
		my $file = dump_registry($registry);
		my $new = registry_from_image();
		pause();
		end_registry();
		restore_registry($new, $file);
		begin_registry($new);
	},
	'the registry: recovery to a time' => sub {
		my $backup = 'backup_' . ++$made;
		my $new = PostgreSQL::Test::Cluster->new('registry_' . $made);
		$registry->backup($backup);
		pause();
		my $time = $registry->safe_psql('postgres', 'SELECT clock_timestamp()');
		pause();

		# recovery stops at the first transaction after the time, so there has to be one
		$registry->safe_psql('postgres', 'SELECT pg_current_xact_id()');
		my $wal = $registry->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
		wait_until($registry, "SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver") or die 'not archived';
		end_registry();
		$new->init_from_backup($registry, $backup, has_restoring => 1, standby => 0);
		$new->enable_archiving;
		$new->append_conf('postgresql.conf', "recovery_target_time = '$time'\nrecovery_target_action = promote");
		start_registry($new);
		$new->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no recovery';
		$new->append_conf('postgresql.conf', "recovery_target_time = ''");      # for its own standbys
		begin_registry($new);
	},
	'the registry: a standby that lags is promoted' => sub {
		my $new = registry_from($registry, has_streaming => 1);
		start_registry($new);
		$registry->wait_for_catchup($new);
		$new->append_conf('postgresql.conf', "primary_conninfo = ''");
		$new->reload;
		pause();
		end_registry();
		$new->promote;
		begin_registry($new);
	},
	'the registry: made new in another server, and opened' => \&begin_registry_from_image,
	'the registry: made new, and opened' => sub {
		$registry->safe_psql('postgres', 'DROP EXTENSION snowflake_registry CASCADE');
		$registry->safe_psql('postgres', "CREATE EXTENSION snowflake_registry; SELECT snowflake_registry_grant('ids')");
		pause();
		open_registry($registry);
		reserve_what_is_not_wanted();
	},
	'the registry: SIGKILL' => sub {
		$registry->kill9;
		sleep(rand(1));
		start_again($registry, \&start_registry);
	},
	'the registry: away for less than a lease' => sub { stop_registry_for(1 + rand($lease / 2)) },
	'the registry: away for longer than a lease' => sub { stop_registry_for($lease + 2) });

1;
