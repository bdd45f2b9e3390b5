# soak.pl -- all promises at once, while everything breaks at random
#
# Three servers lease their shards from one registry: paris has a synchronous standby,
# lima an asynchronous one, oslo an archive of its WAL.  A fourth, cairo, has shards of its
# own, and a synchronous standby.  A subscriber merges the rows of all; those of paris come
# by two publications, a table each.  It is a hub, too: what it merged goes on to another database.
# Writers of every kind mint and store; readers follow each feed: on each server, on each
# standby, on the subscriber, behind it.  Meanwhile servers, standbys, the registry, clocks, disks
# and records are broken in every way, and settings change.
#
# The soak goes in phases of some faults each.  After each, all is mended, the clients
# come to their end, and all that they got is compared with all that is stored:
#	- no id came twice, to whomever, from whichever server, in this phase or before
#	- the ids of a session increase, those of a shard, and those of all sessions that name
#	  no shard, in the order of their calls
#	- no id is later than the clock of the server that minted it
#	- through each feed, each row that is there came once, in order
#	- no mark of a server goes back, but where history is lost
#	- each row is found by its id, through partitions by shard and by time
#	- who got no id got an error, and each error is one that says why
#
# "test/check.sh soak" runs it.  SNOWFLAKE_SOAK is the minutes and the seed: it gives the
# order of the faults, and what is random in each.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/perl";

# Four soaks may share a machine with all other tests.
BEGIN { $ENV{PGCTLTIMEOUT} //= 300; $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 900; }

use File::Path qw(rmtree);
use LeaseTest;
use List::Util qw(max shuffle sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RegistryFaults;
use SnowflakeTest;
use SoakClients;
use Test::More;
use Time::HiRes qw(sleep time);

my ($minutes, $seed) = split ' ', $ENV{SNOWFLAKE_SOAK} // '';
$minutes //= 1;
$seed //= int(rand(1_000_000));

my $LEASE = 8;                  # seconds
my $PHASE = 10;                 # faults
my ($SHARD_BITS, $SHARDS) = (4, 8);     # of the layout, and those to be had
my $EPOCH = 1704067200;

my $CONF = <<"CONF";
snowflake.layout = 'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:$SHARD_BITS,sequence:12'
restart_after_crash = on
log_statement = none
shared_buffers = 32MB
max_wal_size = 256MB
max_prepared_transactions = 50
max_replication_slots = 20
max_wal_senders = 20
wal_sender_timeout = 0
wal_receiver_timeout = 0
wal_retrieve_retry_interval = 500ms
autovacuum = off
CONF

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $LEASES = "snowflake.registry = 'host=$dir port=5432 dbname=postgres user=ids'\nsnowflake.shards = 'auto:2'\nsnowflake.lease = '${LEASE}s'\n";
my $LEASED = '(SELECT shard FROM snowflake_leases() WHERE held) AS held';
my @places = (
	{ name => 'paris', standby_is => 'sync' },
	{ name => 'lima', standby_is => 'async' },
	{ name => 'oslo', standby_is => '' },
	{ name => 'cairo', standby_is => 'sync', shards => '8,9' });
my %places = map { $_->{name} => $_ } @places;
my $archive;
my $made = 0;                   # servers and backups
my $clones = 0;
my $base = 0;                   # seconds that all clocks are ahead by now
my %offset;                     # of each server's clock, by name
my (%faults, %kinds);
my $began = time();

my $output = Test::More->builder->output;

sub say_so
{
	print { $output } '#: ', @_, "\n";     # which check.sh shows
	return;
}

sub now { return sprintf('%.1f s', time() - $began); }

# Up to so much in either direction.
sub around { my ($most) = @_; return rand(2 * $most) - $most; }

# --- Waiting

sub await
{
	my ($what, $done) = @_;
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;

	until (eval { $done->() })
	{
		die "$what, in vain: $@" if time() > $end;
		sleep(0.3);
	}
	return;
}

# Of a server that may be away: what psql reads by a pipe breaks when it is turned away.
sub ask
{
	my ($node, $sql, %options) = @_;
	my @answer = eval { $node->psql('postgres', $sql, %options) };

	return @answer ? @answer : (2, '', "$@");
}

sub gives_true
{
	my ($node, $query) = @_;
	my ($status, $out) = ask($node, $query);
	return $status == 0 && $out eq 't';
}

sub await_true
{
	my ($node, $query) = @_;
	await($node->name . ": $query", sub { gives_true($node, $query) });
	return;
}

# A command of ours that a crash may interrupt, such as one that a fault just caused.
sub command
{
	my ($node, $sql) = @_;
	await($node->name . ": $sql", sub { $node->safe_psql('postgres', $sql, timeout => 60); 1 });
	return;
}

sub await_standby
{
	my ($place) = @_;
	my $name = $place->{standby}->name;

	await_true($place->{node}, "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = '$name' AND state = 'streaming'"
		  . ($place->{standby_is} eq 'sync' ? q( AND sync_state = 'sync') : ''));
	return;
}

# --- Servers and their clocks

# A clock that is set back is noted, between which times that was: what was just minted is
# later than the clock is then.
sub turn_clock
{
	my ($node, $offset) = @_;
	my ($place) = grep { $_->{node} && $_->{node} == $node } @places;
	my $before = $offset{ $node->name } // $offset;
	my $began = time();

	$offset{ $node->name } = $offset;
	set_clock($node, $offset);
	return if !$place;
	push @{ $place->{set_back} }, [ time() + $before, $began + $offset ] if $offset < $before;
	$place->{highest} = max($place->{highest} // $offset, $offset);
	return;
}

# The clocks of all, which those of the servers are near.
sub advance
{
	my ($seconds) = @_;

	$base += $seconds;
	turn_registry_clock();
	return;
}

sub some_offset { return $base + (rand() < 0.3 ? around(3) : around(1)); }

sub all_nodes { return map { grep { defined } @$_{ 'node', 'standby' } } @places; }

sub processes_of
{
	my ($node) = @_;
	my $data = $node->data_dir;

	return map { s{/proc/}{}r }
	  grep { (readlink("$_/cwd") // '') =~ /^\Q$data\E/ } glob('/proc/[0-9]*');
}

# Wait until nobody is left of a server whose postmaster was killed.
sub await_end
{
	my ($node) = @_;

	await('waiting for the processes of ' . $node->name, sub { !processes_of($node) });
	# a start that failed may have left it the dead postmaster's pid
	$node->{_pid} = undef;
	return;
}

sub try_to_start
{
	my ($node, $offset, %place) = @_;

	await_end($node);
	turn_clock($node, $offset);
	return start_with_clock($node, $offset, disk => 1, fail_ok => 1, place => \%place);
}

sub bring_up
{
	my ($node, $offset, %place) = @_;

	await('starting ' . $node->name, sub { try_to_start($node, $offset, %place) });
	return;
}

# As a machine ends that loses its power: nobody finishes anything.
sub kill_all
{
	my ($node) = @_;

	kill('KILL', processes_of($node));
	$node->{_pid} = undef;
	return;
}

sub end_somehow
{
	my ($node) = @_;

	one_of(
		sub { $node->kill9 },
		sub { $node->stop('immediate') },
		sub { kill_all($node) })->();
	return;
}

# From a backup of a server that runs.
sub server_from
{
	my ($place, %options) = @_;
	my $new = PostgreSQL::Test::Cluster->new("$place->{name}_" . ++$made);
	my $node = $place->{node};

	await('a backup', sub { rmtree($node->backup_dir . '/' . $new->name); $node->backup($new->name); 1 });
	$options{meanwhile}->() if $options{meanwhile};
	$new->init_from_backup($node, $new->name, %{ $options{init} // {} });
	rmtree($node->backup_dir . '/' . $new->name);
	return $new;
}

sub new_standby
{
	my ($place) = @_;
	my $standby = $place->{standby} = server_from($place, init => { has_streaming => 1 });

	if ($place->{standby_is} eq 'sync')
	{
		$place->{node}->append_conf('postgresql.conf', 'synchronous_standby_names = ' . $standby->name);
		$place->{node}->reload;
	}
	bring_up($standby, $base + around(3));
	await_standby($place);
	point_at($dir, "$place->{name}.standby", $standby);
	return;
}

# Another server takes a place.  What is not there any more, readers may have read.  Who
# reads new rows comes to the new server before anybody writes there: rows of the old
# one could be of a later time.
sub replace
{
	my ($place, $new, %options) = @_;
	my $old = $place->{node};

	$offset{ $new->name } //= $base;
	$place->{node} = $new;
	turn_clock($new, $offset{ $new->name });
	$place->{has_lost} = 1 if $options{has_lost};
	await_true($new, 'SELECT NOT pg_is_in_recovery()');
	my $goes_on = $old->{_pid} && $options{beside};
	$goes_on ? end_clients($dir, "read.$place->{name}") : kill_all($old);
	point_at($dir, $place->{name}, $new);
	if ($goes_on)
	{
		begin_reader("read.$place->{name}");
		point_at($dir, 'old', $old);
		mint_beside('old');
		kill_all($old);
	}
	await_end($old);
	$old->clean_node;
	new_standby($place) if $place->{standby};
	begin_subscriptions();
	return;
}

sub mint_beside
{
	my ($at) = @_;
	my $name = 'mint.beside.' . ++$clones;

	begin_client($dir, $name, $at, $seed + $clones, writer_of($LEASED, only_mints => 1));
	sleep(1.5 * $LEASE);
	end_clients($dir, $name);
	return;
}

# --- The subscriber

my $least = q(snowflake_least_mark('events', '{paris,lima,oslo,cairo}'));

# A hub publishes a mark of its own: that of what it has got.
my $publish_hub = "INSERT INTO snowflake_marks SELECT 'archive', mark, clock_timestamp() FROM $least AS mark WHERE mark IS NOT NULL "
  . 'ON CONFLICT (server) DO UPDATE SET mark = excluded.mark, published_at = excluded.published_at;';
my %gatherers = (
	'read.archive' => [ 'archive', 'events', "SELECT $least", before => $publish_hub ],
	'read.clicks' => [ 'archive', 'clicks', q(SELECT snowflake_least_mark('clicks', '{paris/clicks}')) ],
	'read.beyond' => [ 'beyond', 'events', q(SELECT snowflake_least_mark('events', '{archive}')) ]);

sub begin_gatherers
{
	my (%last) = @_;

	for my $name (sort keys %gatherers)
	{
		my ($at, $rows, $mark, %options) = @{ $gatherers{$name} };

		unlink("$dir/$name");
		begin_client($dir, $name, $at, $seed, reader_of($dir, $name, $rows, $mark, %options, last => $last{$name}));
	}
	$archive->{is_read} = 1;
	return;
}

# What the hub truncates, the database behind it truncates some time later.
sub truncate_gathered
{
	my ($tables) = @_;

	command($archive, "TRUNCATE $tables");
	await('the database behind the hub is empty', sub {
		$archive->safe_psql('beyond', "SELECT count(*) = 0 FROM $_") eq 't' || return for grep { $_ ne 'clicks' } split(/, /, $tables);
		1;
	});
	return;
}

sub subscribe_to
{
	my ($place, $name, $publication) = @_;

	command($archive, sprintf('CREATE SUBSCRIPTION %s CONNECTION $$%s$$ PUBLICATION %s', $name, $place->{node}->connstr . ' dbname=postgres', $publication));
	return;
}

# Each time, as a server that takes another's place knows nothing of subscriptions.  What is
# prepared would keep its slot from being made.
sub begin_subscriptions
{
	end_clients($dir, sort keys %gatherers) if $archive->{is_read};
	end_prepared('true');
	for my $place (@places)
	{
		my $name = $place->{name};

		for my $subscription ($archive->{is_read} ? ($name, $name eq 'paris' ? 'paris_clicks' : ()) : ())
		{
			command($archive, "ALTER SUBSCRIPTION $subscription DISABLE; ALTER SUBSCRIPTION $subscription SET (slot_name = NONE); DROP SUBSCRIPTION $subscription");
		}
		await("$name drops its slots", sub {
			$place->{node}->safe_psql('postgres', 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_type = $$logical$$');
			1;
		});
	}
	truncate_gathered('events, clicks, snowflake_marks');
	subscribe_to($_, $_->{name}, 'soak') for @places;
	subscribe_to($places{paris}, 'paris_clicks', 'soak_clicks');
	begin_gatherers();
	return;
}

# --- The start of all

sub start_all
{
	begin_registries(dir => $dir, lease => $LEASE, clock => sub { $base }, bad => 0.1, not_wanted => [ $SHARDS .. (1 << $SHARD_BITS) - 1 ]);
	for my $place (@places)
	{
		my $node = $place->{node} = new_server("$place->{name}_" . ++$made, clock => 1,
			init => { allows_streaming => 'logical', has_archiving => !$place->{standby_is} },
			conf => $CONF . ($place->{shards} ? "snowflake.shards = '$place->{shards}'\n" : $LEASES));
		$offset{ $node->name } = $place->{highest} = 0;
		held_shards($node, 2) unless $place->{shards};
		create_soak_tables($node, $place->{name});
		point_at($dir, $place->{name}, $node);
		new_standby($place) if $place->{standby_is};
	}
	$archive = new_server('archive', init => { allows_streaming => 'logical' },
		conf => "$CONF\nsnowflake.shards = '15'\nmax_logical_replication_workers = 12\nmax_worker_processes = 20\n");
	$archive->safe_psql('postgres', 'CREATE DATABASE beyond');
	$archive->safe_psql('beyond', 'CREATE EXTENSION snowflake');
	for my $dbname ('postgres', 'beyond')
	{
		$archive->safe_psql($dbname, 'CREATE TABLE events (id snowflake PRIMARY KEY, how text); CREATE TABLE clicks (LIKE events INCLUDING ALL);' . $marks_table);
	}
	$archive->safe_psql('postgres', q(CREATE PUBLICATION hub FOR TABLE events, snowflake_marks WHERE (server = 'archive')));
	# in one server, a slot must be there before
	$archive->safe_psql('postgres', q(SELECT pg_create_logical_replication_slot('beyond', 'pgoutput')));
	$archive->safe_psql('beyond', sprintf('CREATE SUBSCRIPTION beyond CONNECTION $$%s$$ PUBLICATION hub WITH (create_slot = false)', $archive->connstr . ' dbname=postgres'));
	point_at($dir, 'archive', $archive);
	point_at($dir, 'beyond', $archive, 'beyond');
	begin_subscriptions();
	return;
}

# --- Faults.  Each gets a place.

sub kill_one
{
	my ($place, $whose) = @_;
	my ($status, $pid) = ask($place->{node}, "SELECT pid FROM pg_stat_activity WHERE $whose AND pid <> pg_backend_pid() LIMIT 1");

	kill('KILL', $pid) if $status == 0 && $pid;
	return;
}

sub change
{
	my ($node, @settings) = @_;

	$node->append_conf('postgresql.conf', join("\n", @settings, ''));
	$node->reload;
	return;
}

sub some_settings
{
	my ($place) = @_;
	my @leases = $place->{shards} ? () : (
		'snowflake.lease = ' . one_of('4s', '6s', '8s'),
		'snowflake.shards = ' . one_of(q('auto'), q('auto:2'), q('auto:2'), q('auto:3')),
		"snowflake.registry = 'host=$dir port=5432 dbname=postgres user=ids application_name=" . one_of(qw(a b)) . q('));

	return (
		@leases,
		'snowflake.reserve = ' . one_of('100ms', '200ms', '1s', '1s', '2s', '5s'),
		'snowflake.clock_tolerance = ' . one_of('0', '100ms', '1s', '5s'),
		'snowflake.spread = ' . one_of(0, 0, 3, 8));
}

# What survives a crash keeps the mark where it is, until somebody ends it.
sub leave_prepared
{
	my ($place) = @_;
	my $gid = 'left over ' . sum0(values %faults);

	ask($place->{node}, "BEGIN; INSERT INTO events (how) SELECT 'left over' FROM generate_series(1, 3); PREPARE TRANSACTION '$gid'");
	return;
}

sub end_prepared
{
	my ($which) = @_;

	for my $place (@places)
	{
		my ($status, $gids) = ask($place->{node}, "SELECT gid FROM pg_prepared_xacts WHERE $which");

		for my $gid (split(/\n/, $status == 0 ? $gids : ''))
		{
			my $end = rand() < 0.7 ? 'COMMIT' : 'ROLLBACK';

			# a writer may be faster
			await("$gid is ended", sub {
				ask($place->{node}, "$end PREPARED '$gid'", timeout => 60);
				gives_true($place->{node}, "SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid = '$gid'");
			});
		}
	}
	return;
}

my %damage = (
	flip => sub { my ($bytes) = @_; substr($bytes, rand(length $bytes), 1) ^= chr(1 + int(rand(255))); $bytes },
	cut => sub { my ($bytes) = @_; substr($bytes, 0, rand(length $bytes)) },
	overwrite => sub { my ($bytes) = @_; "\0" x length $bytes },
	remove => sub { undef });

sub put
{
	my ($path, $bytes) = @_;

	unlink($path);
	return unless defined $bytes;
	append_to_file($path, $bytes);
	chmod(0600, $path);
	return;
}

# A server that finds it does not mint, and says so: then the good record is put back.
sub damage_a_record
{
	my ($place) = @_;
	my $node = $place->{node};
	my $path = $node->data_dir . '/snowflake.' . one_of(qw(horizon layout lease));
	my $damage = one_of(sort keys %damage);

	rand() < 0.5 ? $node->stop('fast') : end_somehow($node);
	await_end($node);
	return bring_up($node, some_offset()) unless -e $path;
	my $good = slurp_file($path);
	put($path, $damage{$damage}->($good));
	print "soak: $damage of $path\n";
	my $starts = try_to_start($node, some_offset());
	my $error = 'it does not start';

	await('the damage is found, or mended', sub {
		(undef, undef, $error) = ask($node, q(SET statement_timeout = '60s'; SELECT snowflake_nextval() \g /dev/null));
		$error eq '' || $error =~ /snowflake\.(horizon|layout|lease)/;
	}) if $starts;
	return if $error eq '';
	print "soak: the good record is put back: $error\n";
	$node->stop('immediate') if $starts;
	await_end($node);
	put($path, $good);
	bring_up($node, some_offset());
	return;
}

my %server_fault = (
	'immediate stop' => sub {
		my ($place) = @_;
		$place->{node}->stop('immediate');
		bring_up($place->{node}, some_offset());
	},
	'clean stop' => sub {
		my ($place) = @_;
		$place->{node}->stop('fast');
		bring_up($place->{node}, some_offset());
	},
	'SIGKILL of the postmaster' => sub {
		my ($place) = @_;
		$place->{node}->kill9;
		bring_up($place->{node}, some_offset());
	},
	'SIGKILL of all processes' => sub {
		my ($place) = @_;
		kill_all($place->{node});
		bring_up($place->{node}, some_offset());
	},
	'a crash, and a start in another place' => sub {
		my ($place) = @_;
		end_somehow($place->{node});
		bring_up($place->{node}, some_offset(), HOST => 'host-' . ++$made);
	},
	'SIGKILL of a backend' => sub { kill_one($_[0], "backend_type = 'client backend'") },
	'SIGKILL of the worker of the horizon' => sub { kill_one($_[0], "backend_type = 'snowflake horizon'") },
	'SIGKILL of the worker that leases' => sub { kill_one($_[0], "backend_type = 'snowflake lease'") },
	'termination of backends and workers' => sub {
		my ($place) = @_;
		ask($place->{node}, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type ~ 'snowflake|client' AND random() < 0.4});
	},
	'steps of the clock' => sub {
		my ($place) = @_;
		for (1 .. 3)
		{
			turn_clock($place->{node}, $base + around(one_of(0.05, 0.5, 3)));
			sleep(rand(1));
		}
	},
	# What was minted ahead of time must be on disk by then, even on a slow
	# one; for afterwards the clock comes to that time once more.
	'a crash between steps ahead and back' => sub {
		my ($place) = @_;
		my $node = $place->{node};
		my $ahead = one_of(1, 5, 30);

		set_disk($node, 'fsync_ms=500') if rand() < 0.7;
		turn_clock($node, $base + $ahead);
		my $from = time();
		sleep(rand(0.7));
		kill_all($node);
		set_disk($node, '');
		bring_up($node, $base);
		sleep(rand(2));
		advance(max(0, $ahead - (time() - $from) - rand(1)));
		turn_clock($_, $base) for all_nodes();
		sleep(1);
	},
	'a broken disk' => sub {
		my ($place) = @_;
		set_disk($place->{node}, one_of(qw(write=ENOSPC fsync=EIO rename=EIO create=EACCES open=EMFILE write=short close=EIO)));
		sleep(rand(3));
		if (rand() < 0.3)
		{
			end_somehow($place->{node});
			set_disk($place->{node}, '');
			bring_up($place->{node}, some_offset());
		}
		set_disk($place->{node}, '');
	},
	'a slow disk' => sub { set_disk($_[0]{node}, join(' ', 'fsync_ms=' . one_of(0, 5, 50), 'wal_ms=' . one_of(0, 5))) },
	'a damaged record' => \&damage_a_record,
	'reloads in the middle of statements' => sub {
		my ($place) = @_;
		my $session = start_session($place->{node}, q(INSERT INTO events (how) SELECT 'long' FROM generate_series(1, 300) WHERE pg_sleep(0.01) IS NOT NULL), errors => '/dev/null');
		for (1 .. 4)
		{
			change($place->{node}, some_settings($place));
			sleep(rand(1));
		}
		finish_session($session);
	},
	'a prepared transaction is left over' => \&leave_prepared,
	'a clone beside its original' => sub {
		my ($place) = @_;
		$place = $places{paris} if $place->{shards};      # which would have the same ones
		my $clone = server_from($place);
		$clone->append_conf('postgresql.conf', "synchronous_standby_names = ''\narchive_mode = off\n");
		bring_up($clone, $base + around(3));
		point_at($dir, 'clone', $clone);
		mint_beside('clone');
		kill_all($clone);
		await_end($clone);
		$clone->clean_node;
	},
	'a crash of the subscriber' => sub {
		end_somehow($archive);
		await_end($archive);
		start_again($archive);
	});

my %standby_fault = (
	'a crash of the standby' => sub {
		my ($place) = @_;
		end_somehow($place->{standby});
		sleep(rand(2));
		bring_up($place->{standby}, $base + around(3));
		await_standby($place);
	},
	'a promotion' => sub {
		my ($place) = @_;
		my ($node, $standby) = @$place{ 'node', 'standby' };
		my $is_sync = $place->{standby_is} eq 'sync';

		await_standby($place);
		if ($is_sync)
		{
			# what a crash made visible before the standby had it
			my $lsn = $node->lsn('insert');
			await_true($node, "SELECT flush_lsn >= '$lsn' FROM pg_stat_replication WHERE application_name = '" . $standby->name . q('));
			turn_clock($standby, $offset{ $node->name } - one_of(1, 1, -1) * rand(3));
			end_somehow($node);
		}
		else
		{
			if (rand() < 0.5)
			{
				change($standby, "primary_conninfo = ''");
				sleep(rand(2));
			}
			turn_clock($standby, $place->{highest});
			end_somehow($node) if rand() < 0.5;
		}
		$standby->promote;
		replace($place, $standby, has_lost => !$is_sync, beside => !$is_sync);
	});

my %single_fault = (
	'the synchronous settings' => [ sync => sub {
		my ($place) = @_;
		my ($node, $standby) = @$place{ 'node', 'standby' };
		change($node, one_of(q{synchronous_standby_names = ''}, q{synchronous_standby_names = 'nobody'},
			'synchronous_commit = local', 'synchronous_commit = remote_write'));
		sleep(rand(2));
		change($node, 'synchronous_standby_names = ' . $standby->name, 'synchronous_commit = on');
	} ],
	'slow acknowledgements' => [ sync => sub {
		my ($place) = @_;
		my ($node, $standby) = @$place{ 'node', 'standby' };
		change($standby, 'recovery_min_apply_delay = ' . one_of('2s', '4s'));
		change($node, 'synchronous_commit = remote_apply');
		sleep(rand(6));
		change($standby, 'recovery_min_apply_delay = 0');
		change($node, 'synchronous_commit = on');
	} ],
	'a recovery' => [ oslo => sub {
		my ($place) = @_;
		my $node = $place->{node};
		my $goes_far = rand() < 0.5;
		my $new = server_from($place, init => $goes_far ? { has_restoring => 1, standby => 0 } : {}, meanwhile => sub {
			sleep(rand(2));
			return unless $goes_far;
			await('a segment is archived', sub {
				$node->safe_psql('postgres', 'SELECT pg_create_restore_point($$here$$)');
				my $wal = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
				wait_until($node, "SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver");
			});
			sleep(rand(2));
		});
		$new->enable_archiving;
		$new->append_conf('postgresql.conf', "recovery_target_name = here\nrecovery_target_action = promote\n") if $goes_far;
		end_somehow($node) if rand() < 0.5;
		bring_up($new, $place->{highest});
		await_true($new, 'SELECT NOT pg_is_in_recovery()');
		$new->append_conf('postgresql.conf', "recovery_target_name = ''\n");
		replace($place, $new, has_lost => 1, beside => 1);
	} ]);

# All of them: a name, and what it does.
my @sync = @places{qw(paris cairo)};
my %fault = (
	(map { my $name = $_; ($name => sub { $server_fault{$name}->(one_of(@places)) }) } keys %server_fault),
	(map { my $name = $_; my $of = $standby_fault{$name}; ("$name, synchronous" => sub { $of->(one_of(@sync)) }, "$name, asynchronous" => sub { $of->($places{lima}) }) } keys %standby_fault),
	(map { my ($where, $does) = @{ $single_fault{$_} }; ($_ => sub { $does->($where eq 'sync' ? one_of(@sync) : $places{$where}) }) } keys %single_fault),
	%registry_fault);

# The same for the same seed: an order of all faults, then another one, and so on.
my @order;

sub next_fault
{
	my $n = sum0(values %faults);

	srand($seed * 1000 + $n);
	@order = shuffle(sort keys %fault) unless @order;
	my $name = shift @order;
	print 'soak: ', now(), ": $name\n";
	$fault{$name}->();
	$faults{$name}++;
	advance(0.2);               # and steps back lose importance
	end_prepared('true') if $n % 4 == 3;
	sleep(rand(2));
	return;
}

# --- A phase

my @writers = map { my $place = $_->{name}; map { [ "$_.$place", $place ] } qw(write.1 write.2) } @places;
my %readers = (
	(map { ("read.$_" => [ $_, 'SELECT snowflake_settled()', before => "SELECT snowflake_publish_mark(name) FROM unnest('{$_,$_/clicks}'::text[]) AS name \\g /dev/null" ]) } keys %places),
	(map { ("read.$_.standby" => [ "$_.standby", "SELECT mark FROM snowflake_marks WHERE server = '$_'" ]) } map { $_->{name} } grep { $_->{standby_is} } @places));
my %last;                       # id that each has read

sub begin_reader
{
	my ($name) = @_;
	my ($at, $mark, %options) = @{ $readers{$name} };

	begin_client($dir, $name, $at, $seed, reader_of($dir, $name, 'written', $mark, %options, last => $last{$name}));
	return;
}

sub begin_phase
{
	my ($phase) = @_;

	for my $n (0 .. $#writers)
	{
		my ($name, $place) = @{ $writers[$n] };
		begin_client($dir, $name, $place, $seed * 1000 + $phase * 100 + $n, writer_of($places{$place}{shards} ? "unnest('{$places{$place}{shards}}'::int[]) AS shard" : $LEASED));
	}
	begin_reader($_) for keys %readers;
	return;
}

# All is mended, and everybody gets what there is to get.  Gives the last id of each place.
sub mend_all
{
	advance(max(0, map { $_->{highest} - $base } @places) + 1);
	for my $node (all_nodes())
	{
		turn_clock($node, $base);
		set_disk($node, '');
	}
	for my $place (@places)
	{
		await_true($place->{node}, q(SELECT state = 'held' FROM snowflake_lease_status())) unless $place->{shards};
		await_true($place->{node}, q(SET statement_timeout = '60s'; SELECT snowflake_nextval() > 0));
		await_standby($place) if $place->{standby};
	}
	end_clients($dir, map { $_->[0] } @writers);
	end_prepared('true');
	return map { end_row($_->{node}, 'events') } @places;
}

sub end_row
{
	my ($node, $table) = @_;
	my $id;

	await('the end', sub { $id = $node->safe_psql('postgres', "INSERT INTO $table (how) VALUES ('end') RETURNING id") });
	return $id;
}

sub has_read_all
{
	my ($name, @ends) = @_;
	my %read = map { $_ => 1 } ids_read($dir, $name);

	return !grep { !$read{$_} } @ends;
}

# Each row came once, in order, and no mark went back.  "has_lost": a history is lost, so
# others may have come that are gone; "marks_may_go_back": with its marks.
sub feed_is_good
{
	my ($name, $rows, %options) = @_;
	my @read = ids_read($dir, $name);
	my (%times, %there);

	$times{$_}++ for @read;
	$there{$_} = 1 for @$rows;
	my $missed = grep { !$times{$_} } @$rows;
	my $twice = grep { $times{$_} > 1 } keys %times;
	my $alien = $options{has_lost} ? 0 : grep { !$there{$_} } keys %times;
	my $in_order = !grep { $read[ $_ - 1 ] >= $read[$_] } 1 .. $#read;
	my @marks = $options{has_lost} || $options{marks_may_go_back} ? () : marks_read($dir, $name);
	my @back = grep { $marks[ $_ - 1 ] > $marks[$_] } 1 .. $#marks;

	is(@back, 0, "$name: of " . @marks . ' marks, none goes back') or say_so("$name: seed $seed: marks back: @marks[map { ($_ - 1, $_) } @back]");
	is("$missed missed, $twice twice, $alien that are not there, " . ($in_order ? 'in order' : 'out of order'),
		'0 missed, 0 twice, 0 that are not there, in order', "$name: " . @$rows . ' rows')
	  or say_so("$name: seed $seed: $missed missed, $twice twice, $alien alien");
	return;
}

sub rows_of { my ($node, $relation) = @_; return split(/\n/, $node->safe_psql('postgres', "SELECT id FROM $relation")); }

# --- What the clients got.  "received" is each id that somebody got, "minted" each that
# --- is stored or was only selected: a row that was received counts once in each.

my @sets = qw(received minted);

# Errors that say why: a server that stops, starts or is away, or a session ended with it;
# what a lease, a horizon or a clock may say; a prepared transaction that a server lost.
my $known = qr/^(?:57P0[1-3]|58000|58030|55006|55000|08\w{3}|25006|42704|42501|server closed|connection|could not)/;

sub read_phase
{
	my ($phase) = @_;
	my (%out, $order, $late, $silent, %unknown) = ();
	my ($got, $violations, $too_late) = (0, 0, 0);

	for my $set (@sets)
	{
		open($out{$set}, '|-', "LC_ALL=C sort -S 50M -T $dir >$dir/$set.$phase") or die "could not sort: $!";
	}
	for my $file (glob("$dir/write.*.* $dir/mint.*.*"))
	{
		next if $file =~ /\.sql$/;
		my ($place) = $file =~ /\.(\w+)$/;
		my @set_back = $places{$place} ? @{ $places{$place}{set_back} // [] } : ();
		my %highest;

		$silent += read_what_clients_got($file,
			sub { %highest = () },
			sub {
				my ($letter, $id, $clock) = @_;
				my $shard = ($id >> 12) & ((1 << $SHARD_BITS) - 1);
				my $time = ($id >> (12 + $SHARD_BITS)) / 1000 + $EPOCH;

				$got++;
				print { $out{received} } "$id\n";
				print { $out{minted} } "$id\n" if $letter =~ /[pn]/;
				for my $what ($letter eq 'B' ? () : "shard $shard", $letter =~ /p/i ? 'own' : ())
				{
					$violations++, say_so("$file: $id after $highest{$what}, $what") if ($highest{$what} // 0) >= $id;
					$highest{$what} = $id;
				}
				if ($time > $clock + 1e-6 && !grep { $time <= $_->[0] + 0.1 && $clock >= $_->[1] - 0.1 } @set_back)
				{
					$too_late++;
					say_so("$file: $id is of $time, at $clock");
				}
			},
			sub {
				my ($error) = @_;
				my ($state) = $error =~ /^(\w{5}): /;

				$kinds{ $state // 'no connection' }++;
				$unknown{ $error =~ s/\d{3,}/N/gr }++ if $error !~ $known;
			});
		unlink($file);
	}
	for my $place (@places)
	{
		print { $out{minted} } map { "$_\n" } rows_of($place->{node}, $_) for 'written', 'minted';
	}
	close($_) || die 'sort failed' for values %out;
	is($violations, 0, 'the ids of sessions and shards increase');
	is($too_late, 0, 'none is later than the clock');
	is(join("\n", map { "$unknown{$_} times $_" } sort keys %unknown), '', 'each error is one that says why');
	is($silent, 0, 'who got no id got an error');
	return $got;
}

# Among all phases so far, or the last two.
sub no_id_twice
{
	my ($name, @phases) = @_;
	my @twice;

	for my $set (@sets)
	{
		my $files = join(' ', map { "$dir/$set.$_" } @phases);
		push @twice, map { "$set $_" } split(/\n/, `LC_ALL=C sort -m $files | uniq -d`);
	}
	is(scalar(@twice), 0, "no id came twice: $name") or say_so("seed $seed: twice: @twice[0 .. ($#twice < 9 ? $#twice : 9)]");
	return scalar(@twice);
}

sub each_is_found
{
	my ($node, $table) = @_;

	is($node->safe_psql('postgres', "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_seqscan = off;
		SELECT (SELECT count(*) FROM $table) - count(*) FROM $table AS a, LATERAL (SELECT FROM $table AS b WHERE b.id = a.id OFFSET 0) AS b"),
		0, $node->name . ": each row of $table is found by its id");
	return;
}

sub end_phase
{
	my ($phase) = @_;
	my @ends = mend_all();
	my %end = map { $places[$_]{name} => $ends[$_] } 0 .. $#places;

	for my $name (sort keys %readers)
	{
		my ($place) = $name =~ /^read\.(\w+)/;
		await("$name comes to its end", sub { has_read_all($name, $end{$place}) });
	}
	$end{clicks} = end_row($places{paris}{node}, 'clicks');
	# while the readers of the servers publish marks
	for my $name (sort keys %gatherers)
	{
		await("$name comes to its end", sub { has_read_all($name, $name eq 'read.clicks' ? $end{clicks} : @ends) });
	}
	end_clients($dir, sort keys %readers);

	# --- the feeds
	my @merged;
	my $any_has_lost = grep { $_->{has_lost} } @places;
	for my $place (@places)
	{
		my @rows = rows_of($place->{node}, 'written');

		push @merged, rows_of($place->{node}, 'events');
		feed_is_good("read.$place->{name}", \@rows, has_lost => $place->{has_lost});
		feed_is_good("read.$place->{name}.standby", \@rows, marks_may_go_back => $place->{has_lost}) if $place->{standby};
		delete $place->{has_lost};
		each_is_found($_, 'events'), each_is_found($_, 'clicks') for $place->{node};
		mint_log_is_sound($place->{node}, 'minted', count_of($place->{node}, 'minted'), label => $place->{name});
	}
	my @clicks = rows_of($places{paris}{node}, 'clicks');
	feed_is_good($_, $_ eq 'read.clicks' ? \@clicks : \@merged, marks_may_go_back => $any_has_lost) for sort keys %gatherers;
	is(join(' ', sort { $a <=> $b } rows_of($archive, 'events')), join(' ', sort { $a <=> $b } @merged), 'the subscriber has the rows of all');
	for my $name (keys %readers)
	{
		$last{$name} = (ids_read($dir, $name))[-1];
		unlink("$dir/$name");
	}

	# --- the ids
	my $got = read_phase($phase);
	no_id_twice("phase $phase", $phase > 1 ? $phase - 1 : (), $phase);
	for my $place (@places)
	{
		$place->{set_back} = [];
		command($place->{node}, 'TRUNCATE events, clicks, minted');
	}
	end_clients($dir, sort keys %gatherers);
	my %last_gathered = map { ($_ => (ids_read($dir, $_))[-1]) } keys %gatherers;
	truncate_gathered('events, clicks');
	begin_gatherers(%last_gathered);
	say_so("phase $phase, ", now(), ': ', sum0(values %faults), " faults so far, $got ids received, ", scalar(@merged), ' rows merged');
	return;
}

# What no fault of ours brings about: a failed assertion, a PANIC, a crash by a
# signal that we did not send.
sub server_failures
{
	my @failures;

	for my $file (glob("$PostgreSQL::Test::Utils::log_path/*.log"))
	{
		push @failures, grep { /^TRAP:|PANIC:  |terminated by signal (?!9\b)/ } split(/\n/, slurp_file($file));
	}
	return @failures;
}

# --- The soak

say_so("seed $seed");
start_all();
my $phase = 0;
while ($phase == 0 || time() - $began < $minutes * 60)
{
	begin_phase(++$phase);
	do { next_fault() } while (sum0(values %faults) % $PHASE && time() - $began < $minutes * 60);
	end_phase($phase);
}
end_clients($dir, sort keys %gatherers);

my $twice = no_id_twice('all phases', 1 .. $phase);
chomp(my $ids = `cat $dir/minted.* | wc -l`);
is_deeply([ server_failures() ], [], 'no server failed by itself');
say_so(sprintf('%8d %s', $faults{$_}, $_)) for sort keys %faults;
say_so('errors seen by clients: ', join(', ', map { "$_ $kinds{$_} times" } sort keys %kinds) || 'none');
say_so("seed $seed, ", now(), ", $phase phases, ", sum0(values %faults), " faults: $ids ids, $twice duplicates");
diag("seed $seed; the evidence is in $dir") unless Test::More->builder->is_passing;
done_testing();
