# LeaseTest.pm -- what the tests of leases share
#
# A registry, which is a server without the library, and servers that lease from
# it.

package LeaseTest;

use strict;
use warnings;

use Exporter 'import';
use File::Compare qw(compare);
use File::Find qw(find);
use Time::HiRes ();

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

our @EXPORT = qw(
  new_registry registry_setting lease_conf leasing_server change_settings
  save_files save_files_online put_back_files
  status_of held_shards is_holding mints mints_on_each shards_of wait_for_log
);

# A registry in its database postgres, which servers reach as role ids.
sub new_registry
{
	my ($name, %options) = @_;
	my $registry = PostgreSQL::Test::Cluster->new($name);

	$registry->init(%{ $options{init} // {} });
	$registry->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
	if ($options{clock})
	{
		start_with_clock($registry);
	}
	else
	{
		$registry->start;
	}
	$registry->safe_psql('postgres', <<'SQL');
CREATE EXTENSION snowflake_registry;
CREATE ROLE ids LOGIN;
SELECT snowflake_registry_grant('ids');
SELECT snowflake_registry_open('0');
SQL
	return $registry;
}

# --- Restores in place

# Save the files of a data directory, with their times.
sub save_files
{
	my ($from, $to) = @_;

	system_or_bail('cp', '-a', $from, $to);
	unlink("$to/postmaster.pid");
	return;
}

# Save the files of a server that goes on, as a base backup; what is done meanwhile is
# replayed.
sub save_files_online
{
	my ($node, $to, $meanwhile) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $backup = start_session($node, "SELECT pg_backup_start('in place', true); \\! until test -e $dir/saved; do sleep 0.1; done\n"
		  . "\\o $dir/label\nSELECT labelfile FROM pg_backup_stop(false);\n\\o\n");

	wait_until($node, q(SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ '^SELECT pg_backup_start' AND state = 'idle')) or die 'no backup';
	$meanwhile->();
	save_files($node->data_dir, $to);
	append_to_file("$dir/saved", '');
	finish_session($backup) or die "no backup: $backup->{err}";
	system_or_bail('rm', '-rf', "$to/pg_wal");
	save_files($node->data_dir . '/pg_wal', "$to/pg_wal");
	append_to_file("$to/backup_label", slurp_file("$dir/label") =~ s/\n\n\z/\n/r);
	return;
}

# Put saved files back over those that are there, as rsync -a --delete does: a file that
# has the same size and time is left alone; with "is_by_content", one that has the same
# bytes, as tools do that compare checksums.
sub put_back_files
{
	my ($from, $to, $is_by_content) = @_;

	find({
			no_chdir => 1,
			bydepth => 1,
			wanted => sub {
				my $name = substr($File::Find::name, length($to));
				return if -e "$from$name" || $name eq '';
				-d $File::Find::name && !-l $File::Find::name ? rmdir($File::Find::name) : unlink($File::Find::name);
			}
		},
		$to);
	find({ no_chdir => 1, wanted => sub { put_back_file($File::Find::name, $to . substr($File::Find::name, length($from)), $is_by_content) } }, $from);
	return;
}

sub put_back_file
{
	my ($from, $to, $is_by_content) = @_;

	if (-d $from)
	{
		mkdir($to, 0700);
		return;
	}
	my ($here, $there) = map { [ Time::HiRes::stat($_) ] } $from, $to;
	return if @$there && ($is_by_content ? compare($from, $to) == 0 : $here->[7] == $there->[7] && $here->[9] == $there->[9]);
	system_or_bail('cp', '-p', $from, "$to.new");
	rename("$to.new", $to) or die "could not rename $to.new: $!";
	return;
}

# The value of snowflake.registry, as it stands in postgresql.conf.
sub registry_setting
{
	my ($registry, $database) = @_;
	return ($registry->connstr($database // 'postgres') . ' user=ids') =~ s/'/''/gr;
}

sub lease_conf
{
	my ($registry, $shards, $lease) = @_;
	my $setting = registry_setting($registry);

	return <<"CONF";
snowflake.registry = '$setting'
snowflake.shards = '$shards'
snowflake.lease = '$lease'
shared_buffers = 64MB
CONF
}

sub leasing_server
{
	my ($name, $registry, $shards, $lease, %options) = @_;

	return new_server($name, %options, conf => lease_conf($registry, $shards, $lease) . ($options{conf} // ''));
}

# Settings of the extension by a reload, such as shards => '5,6'.
sub change_settings
{
	my ($node, %settings) = @_;

	$node->append_conf('postgresql.conf', "snowflake.$_ = '$settings{$_}'\n") for sort keys %settings;
	reload($node);
	return;
}

sub status_of
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT state FROM snowflake_lease_status()');
}

# The shards that a server holds, as a list.
my $held = q(SELECT coalesce(string_agg(shard::text, ',' ORDER BY shard), '') FROM snowflake_leases() WHERE held);

# Once it holds so many.
sub held_shards
{
	my ($node, $count) = @_;

	$count //= 1;
	wait_until($node, "SELECT count(*) >= $count FROM snowflake_leases() WHERE held")
	  or diag($node->name . " does not hold $count");
	return $node->safe_psql('postgres', $held);
}

# Wait until a server holds these shards.
sub is_holding
{
	my ($node, $shards, $name) = @_;

	ok(wait_until($node, "SELECT '$shards' = ($held)"), $name) or diag($node->safe_psql('postgres', $held));
	return;
}

# Mint so many ids, when the clock has come to what is found after a crash; gives them.
sub mints
{
	my ($node, $count, $mint) = @_;

	$mint //= 'snowflake_nextval()';
	return split(/\n/, mints_at_last($node, "SELECT $mint FROM generate_series(1, $count)"));
}

# Mint, and on each shard that the server has by its number as well: a busy machine
# may mint no more ids in a tick than the first shard has room for.
sub mints_on_each
{
	my ($node, $count) = @_;

	return split(/\n/, mints_at_last($node, "SELECT snowflake_nextval() FROM generate_series(1, $count)
		UNION ALL SELECT snowflake_nextval(shard) FROM snowflake_leases() WHERE held"));
}

# The shards of ids, as a list.
sub shards_of
{
	my (@ids) = @_;
	my %shards = map { ($_ >> 12) % 1024 => 1 } @ids;

	return join(',', sort { $a <=> $b } keys %shards);
}

# Wait for a line in the server's log, from an offset on.
sub wait_for_log
{
	my ($node, $pattern, $from, $name) = @_;

	ok(wait_for(sub { substr(slurp_file($node->logfile), $from) =~ $pattern }), $name);
	return;
}

1;
