# A fleet that leases its shards, under load, while its servers and the registry
# are stopped and started at random.  No id comes twice, shards change hands, and
# each gap in minting is explained by an error that says why.
#
# Three servers for half a minute; with SNOWFLAKE_ROWS set, eight servers and 64
# shards for more than a minute.  test/soak.pl has harder faults.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use List::Util qw(shuffle);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RegistryFaults;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $is_large = $ENV{SNOWFLAKE_ROWS};
my $SERVERS = $is_large ? 8 : 3;
my $EACH = $is_large ? 8 : 2;         # shards of a server
my $SHARD_BITS = $is_large ? 6 : 3;
my $SECONDS = $is_large ? 75 : 25;
my $LEASE = 4;                        # seconds
my $GAP = 15;                         # seconds that need an explanation
my (undef, $seed) = split ' ', $ENV{SNOWFLAKE_SOAK} // '';    # as check.sh --seed N sets it

$seed //= int(rand(1_000_000));
note("seed $seed");
srand($seed);

my $dir = PostgreSQL::Test::Utils::tempdir_short();
begin_registries(dir => $dir, lease => $LEASE, not_wanted => [ $SERVERS * $EACH .. (1 << $SHARD_BITS) - 1 ]);
my @servers = map {
	new_server("fleet_$_", init => { allows_streaming => 1 }, conf => <<"CONF")
snowflake.registry = 'host=$dir port=5432 dbname=postgres user=ids'
snowflake.shards = 'auto:$EACH'
snowflake.lease = '${LEASE}s'
snowflake.layout = 'epoch=2024-01-01 unit=1ms fields=timestamp:41,shard:$SHARD_BITS,sequence:12'
shared_buffers = 32MB
restart_after_crash = on
log_statement = none    # a start that fails shows the whole log
CONF
} 1 .. $SERVERS;

# --- The minters
#
# A client for each server runs scripts for as long as the test lasts.  Its file
# has, in order, a line with the time for each id, and what psql says of errors.

my $script = "$dir/script.sql";

append_to_file($script, "\\set VERBOSITY verbose\n" . <<'SQL' x 50);
SELECT 'id', extract(epoch FROM clock_timestamp()), snowflake_nextval() FROM generate_series(1, 20);
DO 'BEGIN PERFORM pg_sleep(0.02); END';
SQL

sub mint_until_told
{
	my ($node) = @_;
	my $parent = getppid();
	my $file = "$dir/" . $node->name;
	my $database = $node->connstr('postgres');

	until (getppid() != $parent || -e "$dir/stop" || -e "$file.stop")
	{
		system(qq(psql -XAtq -F " " -d "$database" -f "$script" >>"$file" 2>&1 </dev/null));
		sleep(0.05) if $? != 0;
	}
	return;
}

# When each server's minter began, and its end, by the server's name.
my (%began, %ended, %minter);

sub start_minter
{
	my ($node) = @_;
	my $name = $node->name;

	$began{$name} = time();
	$minter{$name} = fork() // die "could not fork: $!";
	return if $minter{$name};
	# leave without the ends of the servers, which are the parent's
	eval { mint_until_told($node); 1 } or POSIX::_exit(1);
	POSIX::_exit(0);
}

sub stop_minter
{
	my ($node) = @_;
	my $name = $node->name;

	append_to_file("$dir/$name.stop", '');
	waitpid($minter{$name}, 0);
	is($?, 0, 'a minter ends well');
	$ended{$name} = time();
	return;
}

# --- Faults

my $hosts = 0;

sub some_server { return $servers[ rand @servers ]; }

# From a moment on in which all servers have leases for another second.
sub registry_away_for
{
	my ($seconds) = @_;

	for my $node (@servers)
	{
		comes_back($node) && wait_until($node, q(SELECT lease_until > now() + interval '1 s' FROM snowflake_lease_status()))
		  or die $node->name . ' gets no lease';
	}
	my $began = time();

	stop_registry_for($seconds);
	return [ $began, time() ];
}

my (@short, @long);
my %fault = (
	'a clean stop' => sub {
		my $node = some_server();
		$node->stop('fast');
		sleep(rand(2));
		$node->start;
	},
	'a crash, and a start in the same place' => sub {
		my $node = some_server();
		$node->stop('immediate');
		sleep(rand(2));
		$node->start;
	},
	'a crash, and a start in another place' => sub {
		my $node = some_server();
		$node->stop('immediate');
		start_in_place($node, HOST => 'host-' . ++$hosts);
	},
	'SIGKILL of the postmaster' => sub {
		my $node = some_server();
		$node->kill9;
		start_again($node);
	},
	'SIGKILL of the worker that leases' => sub {
		my $node = some_server();
		my ($status, $pid) = $node->psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease'");
		kill('KILL', $pid) if $status == 0 && $pid;
		comes_back($node) or die $node->name . ' does not come back';
	},
	'termination of the worker that leases' => sub {
		my $node = some_server();
		$node->psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake lease'");
	},
	'the registry is away for less than a lease' => sub {
		push @short, registry_away_for(1 + rand($LEASE / 8));
	},
	'the registry is away for longer than a lease' => sub {
		push @long, registry_away_for($LEASE + 2);
	});

start_minter($_) for @servers;
my $began = time();
my %faults;

sleep(1);
for (my @order; time() - $began < $SECONDS || !@long || !@short;)
{
	@order = shuffle(sort keys %fault) unless @order;
	my $name = shift @order;

	note(sprintf('%.1f s: %s', time() - $began, $name));
	$fault{$name}->();
	$faults{$name}++;
	sleep(rand(1));
}

# all of them have all their shards again
sub all_have_shards
{
	for my $node (@servers)
	{
		comes_back($node) or die $node->name . ' does not come back';
		ok(wait_until($node, "SELECT state = 'held' AND shards = $EACH FROM snowflake_lease_status()"),
			$node->name . ' has its shards again');
	}
	return;
}

all_have_shards();

# --- Shards change hands: one server stops cleanly, and then those of another one,
# --- which is a new holder, are not free yet
my ($leaver, $taker) = @servers;
my $left = held_shards($leaver, $EACH);
$leaver->stop('fast');
$taker->stop('immediate');
start_in_place($taker, HOST => 'host-' . ++$hosts);
is_holding($taker, $left, 'shards change hands');
$leaver->start;
all_have_shards();
sleep(1);
stop_minter($_) for @servers;

# --- What the clients got
#
# Known errors are those of a server that stops, starts or is away, and these of
# leases.  Between two statements libpq tells of a stop as of a notice: without a code.

my $server_is_away = qr/57P0[1-3]|^FATAL:  terminating connection due to administrator command$|connection to server|server closed the connection|no connection to the server|lost|unexpected postmaster exit/;
my $no_lease = qr/58000: cannot mint snowflake ids: the registry |55006: no shard is free in the registry/;
my (@files, %kinds, @unknown, @unexplained);
my %when;                             # ids were minted, in tenths of a second

for my $name (sort keys %began)
{
	my $ids = "$dir/$name.ids";
	my ($last, $why, $own) = ($began{$name}, '', 0);

	open(my $in, '<', "$dir/$name") or die "could not read $dir/$name: $!";
	open(my $out, '>', $ids) or die "could not write $ids: $!";
	while (my $line = <$in>)
	{
		if ($line =~ /^id (\d+\.\d+) (\d+)\n\z/)
		{
			my ($at, $id) = ($1, $2);

			push @unexplained, sprintf('%s: %.1f s', $name, $at - $last) if $at - $last > $GAP && $why eq '';
			($last, $why) = ($at, '');
			$own++;
			$when{ int($at * 10) } = 1;
			print $out "$id\n";
		}
		elsif ($line =~ /(?:ERROR|FATAL|PANIC):  / || $line =~ /^psql:.*connection/)
		{
			$why = $line =~ s/.*ERROR:  //r;
			chomp($why);
			if ($why =~ $no_lease) { $kinds{leases}{ $why =~ s/\d+|: connection to server.*/N/gr }++ }
			elsif ($why =~ $server_is_away) { $kinds{away}++ }
			else { push @unknown, "$name: $why" }
		}
	}
	close($out) or die "could not write $ids: $!";
	push @unexplained, sprintf('%s: %.1f s at the end', $name, $ended{$name} - $last) if $ended{$name} - $last > $GAP && $why eq '';
	push @files, $ids;
	cmp_ok($own, '>', 100, "$name mints") if $ended{$name} - $began{$name} > 2 * $GAP;
}

note("$faults{$_} times $_") for sort keys %faults;
note("$kinds{leases}{$_} times $_") for sort keys %{ $kinds{leases} };
cmp_ok(ids_are_distinct('the fleet', @files), '>', 1000 * $SERVERS, 'the fleet mints');
is(join("\n", @unknown[ 0 .. ($#unknown < 9 ? $#unknown : 9) ]), '', 'each error is one that says why');
is(join(', ', @unexplained), '', 'each gap is explained by an error');

# --- The registry away: minting went on, and ended with the leases
sub minted_between
{
	my ($from, $to) = @_;
	return scalar(grep { $_ > $from * 10 && $_ < $to * 10 - 1 } keys %when);
}

for my $outage (@short)
{
	my ($from, $to) = @$outage;
	cmp_ok(minted_between($from, $to + 0.1), '>', 0, 'the registry away for less than a lease: ids are minted');
}
for my $outage (@long)
{
	my ($from, $to) = @$outage;
	cmp_ok(minted_between($from, $from + $LEASE / 2), '>', 0, 'the registry away for longer: ids are minted');
	is(minted_between($from + $LEASE + 1, $from + $LEASE + 2), 0, 'until the leases end');
}
ok((grep { /the registry cannot be reached/ } keys %{ $kinds{leases} }), 'and an error says so');

$_->stop for @servers;
end_registries();
done_testing();
