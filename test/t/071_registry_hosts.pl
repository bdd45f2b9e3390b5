# A registry of several hosts: one that hangs does not hide the next, the one that
# takes writes is found, and servers follow a promotion.  Connection strings that
# cannot be parsed are refused, and not repeated.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use IO::Select;
use IO::Socket::INET;
use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(time);

my $nextval = 'SELECT snowflake_nextval()';

sub set_by_reload
{
	my ($node, $conf) = @_;
	$node->append_conf('postgresql.conf', $conf);
	reload($node);
	return;
}

# --- a registry and its standby; a port that accepts, and is silent
my $first = new_registry('first', init => { allows_streaming => 1 });
$first->backup('base');
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($first, 'base', has_streaming => 1);
$second->start;
my $silent = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', LocalPort => PostgreSQL::Test::Cluster::get_free_port())
  or die "could not listen: $!";

# The setting for these, each a host and a port.
sub registry_of
{
	my (@hosts) = @_;
	my $hosts = join(',', map { $_->[0] } @hosts);
	my $ports = join(',', map { $_->[1] } @hosts);

	return "snowflake.registry = 'host=$hosts port=$ports dbname=postgres user=ids'\n";
}

# Connections that nobody has taken yet.
sub connections
{
	my ($listener) = @_;
	my @taken;

	push @taken, $listener->accept while IO::Select->new($listener)->can_read(0);
	return scalar @taken;
}

my @silent = ('127.0.0.1', $silent->sockport);
my @first = ($first->host, $first->port);
my @second = ($second->host, $second->port);

my $paris = leasing_server('paris', $first, 'auto:2', '8s', conf => registry_of(\@silent, \@second, \@first));
is(shards_of(mints($paris, 10)), '0', 'a host that accepts and is silent, and a standby, do not hide the registry');
ok(wait_until($paris, 'SELECT last_error IS NULL FROM snowflake_lease_status()'), 'nor do they count as failures');
connections($silent);
my $renewed = $paris->safe_psql('postgres', 'SELECT lease_until FROM snowflake_lease_status()');
ok(wait_until($paris, "SELECT lease_until > '$renewed' FROM snowflake_lease_status()"), 'the leases are renewed');
is(connections($silent), 0, 'the host that answered is asked first from then on');

# --- hosts with one port together
my $rome = leasing_server('rome', $first, 'auto:1', '8s', conf => "snowflake.registry = 'host=127.0.0.1,$first[0] port=$first[1] dbname=postgres user=ids'\n");
ok(mints($rome, 10), 'a port for all hosts');
unlike(slurp_file($rome->logfile), qr/terminated by signal/, 'and the worker lives');
$rome->stop;

# --- a last host that is a standby is named as one; in a service file, the primary is found
my $before = -s $paris->logfile;
set_by_reload($paris, registry_of(\@silent, \@second));
wait_for_log($paris, qr/could not lease snowflake shards: could not reach the registry: .*server is in hot standby mode/, $before, 'a standby at the end');
set_by_reload($paris, registry_of([ $second[0], 99999 ]));
wait_for_log($paris, qr/could not lease snowflake shards: could not reach the registry: invalid port number: "99999"/, $before, 'a port that cannot be');
my $service = PostgreSQL::Test::Utils::tempdir() . '/service.conf';
append_to_file($service, "[ids]\nhost=$second[0],$first[0]\nport=$second[1],$first[1]\ndbname=postgres\nuser=ids\n");
{
	local $ENV{PGSERVICEFILE} = $service;
	$paris->append_conf('postgresql.conf', "snowflake.registry = 'service=ids'\n");
	$paris->restart;
}
ok(mints($paris, 10), 'a service file with a standby first');
$paris->append_conf('postgresql.conf', registry_of(\@silent, \@second, \@first));
$paris->restart;
ok(mints($paris, 10), 'and without it');

# --- promotion: the server follows
$first->wait_for_catchup($second, 'replay');
$first->stop('immediate');
$second->promote;
ok(wait_until($second, q(SELECT max(seen_at) > pg_last_xact_replay_timestamp() FROM snowflake_registry_holders)),
	"the server calls the registry's standby when it is promoted");
ok(wait_until($paris, q(SELECT state = 'held' AND last_error IS NULL FROM snowflake_lease_status())), 'and renews its lease there');
ok(mints($paris, 10), 'and mints');

# --- nobody answers: the attempt ends, the worker does what the server asks of each process
# --- meanwhile, and does not keep the server from stopping
$before = -s $paris->logfile;
set_by_reload($paris, "snowflake.registry = 'host=$silent[0] port=$silent[1] dbname=postgres user=ids target_session_attrs=any'\n");
wait_for_log($paris, qr/did not answer within 5 s/, $before, 'a host has 5 s');
$before = -s $paris->logfile;
my $many = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', LocalPort => PostgreSQL::Test::Cluster::get_free_port())
  or die "could not listen: $!";
set_by_reload($paris, registry_of(([ '127.0.0.1', $many->sockport ]) x 4));
ok(wait_for(sub { connections($many) }), 'it asks the first of four');
$paris->safe_psql('postgres', q(SELECT pg_log_backend_memory_contexts(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake lease'));
wait_for_log($paris, qr/logging memory contexts of PID/, $before, 'it heeds a signal of the server');
my $answered = qr/could not lease snowflake shards: host "127\.0\.0\.1" of the registry did not answer within 3\.75 s/;
unlike(substr(slurp_file($paris->logfile), $before), $answered, 'while it waits');
wait_for_log($paris, $answered, $before, 'four hosts have 15 s together');
connections($many);
ok(wait_for(sub { connections($many) }), 'it asks again');
my $began = time;
$paris->stop;
cmp_ok(time - $began, '<', 10, 'the server stops before these 15 s have passed');

# --- a host that accepts nothing: its queue has no room.  A session that waits wakes the
# --- worker, which goes on to the next host in time all the same.
my $full = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => PostgreSQL::Test::Cluster::get_free_port())
  or die "could not listen: $!";
my @queue = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $full->sockport, Blocking => 0) } 1 .. 6;
my %took;
for my $case ([ oslo => @silent ], [ lima => '127.0.0.1', $full->sockport ])
{
	my ($name, @host) = @$case;
	my $node = leasing_server($name, $second, 'auto:1', '1h', conf => registry_of(\@host, \@second) =~ s/user=ids/user=ids tcp_user_timeout=0/r);

	$took{$name} = time;
	ok(mints($node, 10), "$name mints");
	$took{$name} = time - $took{$name};
	my $stat = slurp_file('/proc/' . $node->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease')) . '/stat');
	my ($user, $system) = (split / /, $stat =~ s/.*\) //sr)[ 11, 12 ];
	cmp_ok($user + $system, '<', 50, "$name: the worker waits without work");
	$node->stop;
}
cmp_ok($took{lima}, '<', 4 * $took{oslo}, "a host that accepts nothing costs $took{lima} s, one that is silent $took{oslo} s");

# --- strings that cannot be
$paris->append_conf('postgresql.conf', registry_of(\@second));
$paris->start;
for my $case (
	[ 'hots=nowhere password=Tr0ub4dor', 'libpq cannot parse it' ],
	[ 'postgresql://ids:Tr0ub4dor%zz@nowhere/registry', 'libpq cannot parse it' ],
	[ q(host=nowhere password='Tr0ub4dor), 'libpq cannot parse it' ],
	[ 'host=a,b,c port=1,2 password=Tr0ub4dor', 'It has one number of hosts, and another one of ports' ],
	[ 'host=a,b hostaddr=10.0.0.1 password=Tr0ub4dor', 'It has one number of names of hosts, and another one of addresses' ])
{
	my ($string, $fault) = @$case;
	my $quoted = $string =~ s/'/''/gr;
	my ($status, undef, $error) = $paris->psql('postgres', "\\set VERBOSITY verbose\nALTER SYSTEM SET snowflake.registry = '$quoted'");

	like($error, qr/ERROR:  22023: invalid value for parameter "snowflake\.registry"\nDETAIL:  The value is not a connection string\. \Q$fault\E\. It is not repeated here, because it may have a password\.\nHINT:  Try the value with psql/,
		"refused: $fault");
	unlike($error, qr/Tr0ub4dor/, 'and not repeated');
	$before = -s $paris->logfile;
	set_by_reload($paris, "snowflake.registry = '$quoted'\n");
	wait_for_log($paris, qr/invalid value for parameter "snowflake\.registry"/, $before, 'refused by a reload');
	unlike(substr(slurp_file($paris->logfile), $before), qr/Tr0ub4dor/, 'and not repeated in the log');
}
for my $string ('hostaddr=10.0.0.1', 'host=a hostaddr=10.0.0.1', 'host=a,b hostaddr=10.0.0.1,10.0.0.2 port=1,2')
{
	is(($paris->psql('postgres', "ALTER SYSTEM SET snowflake.registry = '$string'"))[0], 0, "not refused: $string");
}
$paris->safe_psql('postgres', 'ALTER SYSTEM RESET snowflake.registry');
like($paris->safe_psql('postgres', 'SHOW snowflake.registry'), qr/^host=\Q$second[0]\E port/, 'the string before stays');
$paris->stop;
$before = -s $paris->logfile;
ok(!$paris->start(fail_ok => 1), 'a server does not start with such a string');
unlike(substr(slurp_file($paris->logfile), $before), qr/Tr0ub4dor/, 'nor does its log repeat it');

done_testing();
