# Patroni, etcd and two nodes, configured as doc/availability.md shows.  The
# leader is killed while clients mint, the replica whose clock is behind is
# promoted, the old leader comes back as its replica, and becomes the leader
# again by a switchover.  The clients follow by themselves; each notes every id
# that it received, and none is there twice.
#
# Then the two are the registry of other servers, and the leader is killed again.
#
# Everything runs on loopback, as the user of the test, in directories of the
# test.  Only the replica's postgres has another clock; Patroni and etcd, which
# count seconds to see who is alive, have the true one.
#
# Packages: python3-etcd
# Unpacked: patroni etcd-server

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use HTTP::Tiny;
use LeaseTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

my $tools = $ENV{SNOWFLAKE_TOOLS} // '/nonexistent';
my ($patroni, $etcd) = map {
	my $name = $_;
	(grep { -x } map { "$_/$name" } "$tools/usr/bin", split(/:/, $ENV{PATH}))[0]
} 'patroni', 'etcd';
local $ENV{PYTHONPATH} = "$tools/usr/lib/python3/dist-packages";

plan skip_all => 'Patroni is not installed' unless $patroni;
plan skip_all => 'etcd is not installed' unless $etcd;

# Further behind than a failover takes, so that the new leader's clock is still
# before the last id of the old one when it is promoted: a leader's key lasts
# for "ttl" at most, a node looks every "loop_wait", and promotion takes a while.
my $BEHIND = 34;

# Minting goes on for so long before the leader is lost that its ids reach back
# to where the new leader's clock begins: there has to be something to repeat.
my $HISTORY = 20;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $host = '127.0.0.1';
my %password = map { $_ => unpack('H*', join('', map { chr(int(rand(256))) } 1 .. 16)) }
  'SUPERUSER', 'REPLICATION', 'REWIND';
my $dcs = PostgreSQL::Test::Cluster::get_free_port();
my %node = map {
	$_ => {
		name => $_,
		dir => "$dir/$_",
		port => PostgreSQL::Test::Cluster::get_free_port(),
		rest => PostgreSQL::Test::Cluster::get_free_port()
	}
} 'a', 'b';
my ($first, $second) = @node{ 'a', 'b' };

# --- Programs, which must not outlive the test

my %running;
my $test = $$;

sub start_program
{
	my ($name, @command) = @_;
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>>', "$dir/$name.log");
		open(STDERR, '>&', \*STDOUT);
		exec(@command) or POSIX::_exit(127);
	}
	$running{$pid} = 1;
	return $pid;
}

sub end_program
{
	my ($signal, $pid) = @_;

	kill($signal, $pid);
	waitpid($pid, 0);
	delete $running{$pid};
	return;
}

sub postmaster
{
	my ($node) = @_;
	my $file = "$node->{dir}/data/postmaster.pid";

	return -e $file ? (split(/\n/, slurp_file($file)))[0] : undef;
}

END
{
	# a Patroni that lives would start its server again
	if ($$ == $test)
	{
		my $status = $?;

		end_program('KILL', $_) for keys %running;
		for my $pid (grep { $_ } map { postmaster($_) } values %node)
		{
			kill('QUIT', $pid);
			for (1 .. 50) { last unless kill(0, $pid); sleep(0.1) }
		}
		$? = $status;
	}
}
$SIG{$_} = sub { exit 1 } for 'INT', 'TERM', 'HUP';

# --- The nodes

# The page's file, made for this node and this machine.  What is put in its place
# must be there.
my $page = slurp_file("$FindBin::RealBin/../../doc/availability.md");

sub configuration
{
	my ($node) = @_;
	my $bin = `pg_config --bindir`;
	my ($yaml) = $page =~ /^```yaml\n(.*?)^```$/ms;
	my $local = join('', map { "    $_\n" } "unix_socket_directories: $node->{dir}",
		'fsync: off', 'logging_collector: on', "log_directory: $node->{dir}",
		"log_filename: postgres.log", "log_line_prefix: '%m '", 'log_timezone: UTC',
		map { s/ *= */: /r } grep { /dynamic_library_path|extension_/ } split(/\n/, slurp_file($ENV{TEMP_CONFIG})));
	chomp($bin);

	my @here = (
		[ 'name: a' => "name: $node->{name}" ],
		[ '10.0.0.11:8008' => "$host:$node->{rest}" ],
		[ '10.0.0.10:2379' => "$host:$dcs" ],
		[ '10.0.0.11:5432' => "$host:$node->{port}" ],
		[ '10.0.0.0/24' => "$host/32" ],
		[ '/var/lib/postgresql/15/photos' => "$node->{dir}/data" ],
		[ '/usr/lib/postgresql/15/bin' => "$node->{dir}/bin" ],
		[ '/var/lib/postgresql/pgpass.photos' => "$node->{dir}/pgpass" ],
		[ "    unix_socket_directories: /var/run/postgresql\n" => $local ],
		map { [ "$_-PASSWORD" => $password{$_} ] } keys %password);
	for (@here)
	{
		my ($there, $here) = @$_;
		$yaml =~ s/\Q$there\E/$here/g or die "doc/availability.md has no \"$there\"";
	}

	# the server's programs, and for postgres one that changes its clock
	my $clock = shim('clock');
	mkdir($_) or die "could not make $_: $!" for $node->{dir}, "$node->{dir}/bin";
	symlink($_, "$node->{dir}/bin/" . s/.*\///r) for grep { !/\/postgres$/ } glob("$bin/*");
	append_to_file("$node->{dir}/bin/postgres", <<"SH");
#!/bin/sh
SNOWFLAKE_CLOCK='$node->{dir}/clock' LD_PRELOAD='$clock' exec '$bin/postgres' "\$@"
SH
	chmod(0700, "$node->{dir}/bin/postgres");
	append_to_file("$node->{dir}/patroni.yml", $yaml);
	set_node_clock($node, 0);
	return;
}

# Patroni compares the time at which a server says it was started with the
# kernel's, so a server starts with the true clock, and loses it then.
sub set_node_clock
{
	my ($node, $seconds) = @_;

	return replace_file("$node->{dir}/clock", sprintf("%+.3f\n", $seconds));
}

sub start_patroni
{
	my ($node) = @_;
	$node->{patroni} = start_program("patroni_$node->{name}", $patroni, "$node->{dir}/patroni.yml");
	return;
}

# What Patroni says of a node: /leader, /replica and so on give 200 where true.
sub is_node
{
	my ($node, $what) = @_;
	return HTTP::Tiny->new(timeout => 5)->get("http://$host:$node->{rest}/$what")->{status} == 200;
}

sub comes
{
	my ($what, $condition) = @_;

	return pass($what) if wait_for($condition);
	fail($what);
	for my $log (glob("$dir/*.log $dir/*/postgres.log"))
	{
		diag("$log:\n", join("\n", grep { defined } (split(/\n/, slurp_file($log)))[ -15 .. -1 ]));
	}
	die "$what: has not come";
}

sub sql
{
	my ($node, $query) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PGPASSWORD} = $password{SUPERUSER};

	IPC::Run::run(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', "host=$node->{dir} port=$node->{port} user=postgres dbname=postgres" ],
		'<', \$query, '>', \$out, '2>', \$err);
	chomp($out);
	return $err eq '' ? $out : "error: $err";
}

# --- The clients
#
# Each is psql in a loop: what makes it fail ends it, and the next connects to
# whichever node takes writes.  Before its ids it prints whom it is talking to.

my $anyone = "host=$host,$host port=$first->{port},$second->{port} user=postgres dbname=postgres"
  . ' target_session_attrs=read-write connect_timeout=3';

sub start_client
{
	my ($name, $statement) = @_;

	append_to_file("$dir/$name.sql", "\\echo server :PORT\n" . "$statement\n" x 500);
	return start_program($name, 'sh', '-c', <<'SH', 'sh', $dir, $name, $anyone);
while [ ! -e "$1/stop" ]; do
    psql -XAtq -v ON_ERROR_STOP=1 -d "$3" -f "$1/$2.sql" >>"$1/$2.ids"
    sleep 0.1
done
SH
}

# The least and the greatest id above a number that clients had of a server.
sub range_of
{
	my ($above, $node) = @_;
	my ($least, $greatest);

	for my $file (glob("$dir/*.ids"))
	{
		my $port = 0;

		open(my $ids, '<', $file) or die "could not open $file: $!";
		while (<$ids>)
		{
			$port = $1 if /^server (\d+)$/;
			next unless $port == $node->{port} && /^(\d+)\n/ && $1 > $above;
			$least = $1 if !defined $least || $1 < $least;
			$greatest = $1 if !defined $greatest || $1 > $greatest;
		}
	}
	return ($least, $greatest);
}

# Seconds since 1970, by the clock of the node that minted or logged.
sub seconds
{
	my ($expression) = @_;
	return sql($second, "SELECT extract(epoch FROM $expression)");
}

sub last_promotion
{
	my ($node) = @_;
	my @times = slurp_file("$node->{dir}/postgres.log") =~ /^(\S+ \S+ UTC) LOG:  received promote request$/mg;

	return seconds("timestamptz '$times[-1]'");
}

# --- Two nodes, the second a synchronous replica with its clock behind

start_program('etcd', $etcd, '--name', 'test', '--data-dir', "$dir/etcd",
	'--listen-client-urls', "http://$host:$dcs", '--advertise-client-urls', "http://$host:$dcs",
	map { ('--listen-peer-urls', $_, '--initial-advertise-peer-urls', $_, '--initial-cluster', "test=$_") }
	  "http://$host:" . PostgreSQL::Test::Cluster::get_free_port());
configuration($_) for $first, $second;
start_patroni($first);
comes('Patroni made a leader', sub { is_node($first, 'leader') });
is(sql($first, 'CREATE EXTENSION snowflake; CREATE TABLE minted (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())'),
	'', 'which has the extension');
start_patroni($second);
comes('and a synchronous replica of it', sub { is_node($second, 'synchronous') });
set_node_clock($second, -$BEHIND);

$ENV{PGPASSWORD} = $password{SUPERUSER};
my @clients = map {
	start_client("insert$_", 'INSERT INTO minted SELECT FROM generate_series(1, 5), pg_sleep(0.001) RETURNING id;'),
	start_client("select$_", 'SELECT snowflake_nextval() FROM generate_series(1, 5), pg_sleep(0.001);')
} 1 .. 2;
delete $ENV{PGPASSWORD};
sleep($HISTORY);
is(sql($first, q{SELECT sync_state FROM pg_stat_replication}), 'sync', 'the replica is in step');

# --- The leader is lost

my $killed = time();
kill('KILL', postmaster($first));
end_program('KILL', $first->{patroni});
comes('the replica is promoted', sub { is_node($second, 'leader') });
is(sql($second, 'SHOW snowflake.shards'), '8-15', 'it has the shards of the one that was lost');
comes('and mints', sub { (range_of(0, $second))[0] });
sleep(3);

my (undef, $last_a) = range_of(0, $first);
my ($first_b) = range_of(0, $second);
my $promoted = last_promotion($second);
my $first_time = seconds("snowflake_timestamp($first_b, 'twitter')");
my $last_time = seconds("snowflake_timestamp($last_a, 'twitter')");

cmp_ok($first_b, '>', $last_a, 'its ids are greater than all before');
SKIP:
{
	my $lasted = $promoted + $BEHIND - $killed;

	skip(sprintf('the failover lasted for %.0f s, longer than the clock was behind', $lasted), 2) if $lasted > $BEHIND - 3;
	cmp_ok($promoted, '<', $last_time, 'its clock was behind the last id of the old leader');
	like(join('', map { slurp_file($_) } glob("$dir/select?.log")), qr/clock is [\d.]+ m?s behind the snowflake horizon/,
		'meanwhile clients were told why');
}
unlike(sql($second, $_), qr/error|^$/, 'the page runs: ' . (/(.*)/)[0]) for $page =~ /^```sql\n(.*?)^```$/msg;
note(sprintf('failover: promoted %.1f s after the kill, first id %.1f s after promotion; the clock was %.1f s behind the last id',
		$promoted + $BEHIND - $killed, $first_time - $promoted, $last_time - $promoted));

# --- It comes back as a replica, and is made the leader again

set_node_clock($second, 0);
start_patroni($first);
comes('the old leader is a synchronous replica', sub { is_node($first, 'synchronous') });
my (undef, $last_b) = range_of(0, $second);
my $answer = HTTP::Tiny->new(timeout => 60)->post("http://$host:$second->{rest}/switchover",
	{ content => '{"leader": "b", "candidate": "a"}', headers => { 'Content-Type' => 'application/json' } });
is($answer->{status}, 200, 'switchover') or diag($answer->{content});
comes('the leader is the first one again', sub { is_node($first, 'leader') });
comes('and mints', sub { (range_of($last_b, $first))[0] });
sleep(2);

append_to_file("$dir/stop", '');
waitpid($_, 0) for @clients;
(undef, $last_b) = range_of(0, $second);
my ($first_a) = range_of($last_a, $first);
cmp_ok($first_a, '>', $last_b, 'its ids are greater than all before');
note(sprintf('switchover: first id %.1f s after promotion',
		seconds("snowflake_timestamp($first_a, 'twitter')") - last_promotion($first)));

# --- All that the clients received

cmp_ok(ids_are_distinct('failover and switchover', glob("$dir/*.ids")), '>', 1000, 'clients minted');

# --- The registry of other servers

comes('the other one is a synchronous replica', sub { is_node($second, 'synchronous') });
is(sql($first, "CREATE EXTENSION snowflake_registry; CREATE ROLE ids LOGIN PASSWORD 'of_the_test'; SELECT FROM snowflake_registry_grant('ids')"),
	'', 'the leader has a registry');
unlike(sql($first, "SELECT snowflake_registry_open('0')"), qr/error/, 'which is open');

my $lease = 90;                       # seconds: longer than a failover
my @leasing = map {
	new_server($_, conf => <<"CONF")
snowflake.registry = 'host=$host,$host port=$second->{port},$first->{port} dbname=postgres user=ids password=of_the_test'
snowflake.shards = 'auto'
snowflake.lease = '${lease}s'
shared_buffers = 32MB
CONF
} 'paris', 'oslo';
my ($paris, $oslo) = @leasing;
my @before = map { mints($_, 1000) } @leasing;
my %shard = map { $_->name => held_shards($_) } @leasing;
$oslo->stop('immediate');

kill('KILL', postmaster($first));
end_program('KILL', $first->{patroni});
my @meanwhile = mints($paris, 1000);
comes('the registry fails over', sub { is_node($second, 'leader') });
my $since = $paris->safe_psql('postgres', 'SELECT clock_timestamp()');
ok(wait_until($paris, "SELECT last_answer > '$since' AND last_error IS NULL FROM snowflake_lease_status()"), 'the server finds the new leader');
is(held_shards($paris), $shard{paris}, 'and has its lease renewed');
my @after = mints($paris, 1000);
is(sql($second, 'SELECT not_before > clock_timestamp() FROM snowflake_registry_summary'), 't', 'the registry has fenced itself');
start_in_place($oslo, HOST => 'another');
fails_with($oslo, 'SELECT snowflake_nextval()', '55006', qr/no shard is free in the registry/, 'a new holder waits for the end of the fence');
ok(wait_until($oslo, q(SELECT state = 'held' FROM snowflake_lease_status())), 'then it leases');
append_to_file("$dir/leased.all", join('', map { "$_\n" } @before, @meanwhile, @after, mints($oslo, 1000)));
cmp_ok(ids_are_distinct('a registry that failed over', "$dir/leased.all"), '>=', 5000, 'both minted');
$_->stop for @leasing;
done_testing();
