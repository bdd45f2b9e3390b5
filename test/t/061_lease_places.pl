# Who goes on with its leases, and who is a new holder: servers that stop, crash, are
# copied, recovered, promoted, or start after a boot of the machine.  No id is
# minted twice, and each mints as soon as it may.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $nextval = 'SELECT snowflake_nextval()';
my $registry = new_registry('registry');

# All ids of all servers of this test.
my %minted;

# Mint on a server, at once, and on shards that are given; no id is known yet.
sub mints_new
{
	my ($node, $shards, $name) = @_;
	my @ids = mints_on_each($node, 20_000);
	my @known = grep { $minted{$_}++ } @ids;

	is(shards_of(@ids), $shards, "$name: mints on shards $shards");
	is(@known, 0, "$name: no id twice");
	return;
}

sub holder_of
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT holder FROM snowflake_lease_status()');
}

# The files of a server, in another place.
sub copy_of
{
	my ($node, $name) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name);

	mkdir $copy->basedir;
	system_or_bail('cp', '-a', $node->data_dir, $copy->data_dir);
	unlink $copy->data_dir . '/postmaster.pid';
	$copy->append_conf('postgresql.conf', sprintf("port = %d", $copy->port));
	return $copy;
}

# --- the same place: clean restart, crash, with and without the registry
my $paris = leasing_server('paris', $registry, 'auto:2', '5min', init => { allows_streaming => 1 });
mints_new($paris, '0,1', 'a new server');
wait_for_log($paris, qr/holder [0-9a-f]{16}: it has no record of leases\./, 0, 'a new server is a new holder');
my $holder = holder_of($paris);
$paris->stop;
is($registry->safe_psql('postgres', 'SELECT count(*) FROM snowflake_registry_leases WHERE NOT free'), 0,
	'a clean stop gives the shards back');
like(slurp_file($paris->logfile), qr/LOG:  this server has given back 2 leased snowflake shards/, 'and logs that');
my $free_from = $registry->safe_psql('postgres', 'SELECT min(lease_until) FROM snowflake_registry_leases');
my ($last) = sort { $b <=> $a } keys %minted;
cmp_ok($registry->safe_psql('postgres', 'SELECT extract(epoch FROM max(lease_until)) * 1000 FROM snowflake_registry_leases'),
	'==', ($last >> 22) + 1288834974657 + 1, 'up to the last tick that was minted in');
$paris->start;
mints_new($paris, '0,1', 'clean restart');
is(holder_of($paris), $holder, 'clean restart: the same holder');
$paris->stop('immediate');
$paris->start;
mints_new($paris, '0,1', 'crash');
# after a crash only the horizon tells what was minted: nothing less is given back
($last) = sort { $b <=> $a } keys %minted;
$paris->stop('immediate');
$paris->start;
is_holding($paris, '0,1', 'crash, and nothing minted since');
$paris->stop;
is($registry->safe_psql('postgres',
		sprintf('SELECT count(*) FROM snowflake_registry_leases WHERE lease_until <= to_timestamp(%.3f)', (($last >> 22) + 1288834974657) / 1000)),
	0, 'and stopped: the shards are given back from after the last id on');
# the horizon may be a second ahead, and then so is the end of the lease
$registry->poll_query_until('postgres', 'SELECT count(*) = 0 FROM snowflake_registry_leases WHERE NOT free') or die;
$paris->start;
mints_new($paris, '0,1', 'crash, and stopped');
$paris->stop('immediate');
$registry->stop;
$paris->start;
mints_new($paris, '0,1', 'crash, with the registry away');
is(holder_of($paris), $holder, 'crash: the same holder');
# it was cut off when it stopped: it keeps what it has
$paris->stop;
$paris->start;
mints_new($paris, '0,1', 'clean restart, with the registry away');
$registry->start;
ok(wait_until($paris, 'SELECT last_error IS NULL FROM snowflake_lease_status()'), 'the registry is back');

# the worker alone, ended by an administrator
$paris->safe_psql('postgres',
	q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake lease'));
mints_new($paris, '0,1', 'the worker was ended');
# a process crashed, and with it the memory of all
$paris->append_conf('postgresql.conf', 'restart_after_crash = on');
reload($paris);
my $pid;
wait_for(sub { $pid = $paris->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease')) }) or die 'there is no worker';
kill('KILL', $pid);
wait_for_log($paris, qr/PID $pid\) was terminated by signal 9/, 0, 'a process crashed');
ok(comes_back($paris), 'and the server comes back');
mints_new($paris, '0,1', 'a process crashed');
is(holder_of($paris), $holder, 'a process crashed: the same holder');

# --- clones, beside their original
$paris->safe_psql('postgres', 'CHECKPOINT');
my $running = copy_of($paris, 'running');
$running->start;
mints_new($running, '2,3', 'a running server copied');
mints_new($paris, '0,1', 'beside it, the original');
wait_for_log($running,
	qr/LOG:  this server is a new holder of snowflake leases\n.*DETAIL:  It is holder [0-9a-f]{16}: its record of leases is another server's\./,
	0, 'its log says that it is a new holder');
$running->stop;

$paris->backup('base');
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($paris, 'base');
$restored->start;
ok(wait_until($restored, q(SELECT state = 'held' FROM snowflake_lease_status())), 'base backup: it leases');
mints_new($restored, held_shards($restored, 2), 'base backup');
unlike(held_shards($restored, 2), qr/\b[01]\b/, 'base backup: shards of its own');
mints_new($paris, '0,1', 'beside it, the original');
$restored->stop;

$paris->stop;
my $stopped = copy_of($paris, 'stopped');
$paris->start;
mints_new($paris, '0,1', 'stopped and started');
$stopped->start;
mints_new($stopped, held_shards($stopped, 2), 'a stopped server copied');
unlike(held_shards($stopped, 2), qr/\b[01]\b/, 'a stopped server copied: shards of its own');
$stopped->stop;

# an older state of the files, copied back over them
$paris->stop('immediate');
my $saved = copy_of($paris, 'saved');
$paris->start;
mints_new($paris, '0,1', 'crash, and copied');
$paris->stop('immediate');
system_or_bail('cp', '-a', $saved->data_dir . '/.', $paris->data_dir);
$paris->append_conf('postgresql.conf', sprintf("port = %d", $paris->port));
$paris->start;
my $other = holder_of($paris);
isnt($other, $holder, 'an older state of the files: another holder');
mints_new($paris, held_shards($paris, 2), 'an older state of the files');
unlike(held_shards($paris, 2), qr/\b[01]\b/, 'an older state of the files: other shards');

# --- another boot of the machine, and no time of birth, are no proof
for my $place ([ BOOT => 'b29fc1f3-0e1c-4a80-95d8-6ad2a0e5b8b2' ], [ HOST => 'ids-1' ])
{
	my ($what, $value) = @$place;
	my $before = held_shards($paris, 2);

	$holder = holder_of($paris);
	$paris->stop('immediate');
	start_in_place($paris, $what => $value);
	mints_new($paris, held_shards($paris, 2), "another $what");
	isnt(holder_of($paris), $holder, "another $what: another holder");
	isnt(held_shards($paris, 2), $before, "another $what: fresh shards");
	$paris->stop('immediate');
	start_in_place($paris, $what => $value);
	mints_new($paris, held_shards($paris, 2), "another $what, crash");
}
wait_for_log($paris, qr/holder [0-9a-f]{16}: the machine was booted since\./, 0, 'the log tells why');
wait_for_log($paris, qr/holder [0-9a-f]{16}: its data directory is in another place\./, 0, 'in each case');
$paris->stop;

# --- a list waits for the lease before to end
my $lima = leasing_server('lima', $registry, '40', '20s');
is(shards_of(mints($lima, 10)), '40', 'a list');
$lima->stop('immediate');
start_in_place($lima, BOOT => 'another');
fails_with($lima, $nextval, '55006', qr/shard 40 is leased to another server/, 'after a boot it waits for its own lease');
is_holding($lima, '40', 'until it has ended');
$lima->stop;

# --- a record that is damaged

# CRC-32C of all bytes but its own, as it is stored.
sub crc_of
{
	my ($record) = @_;
	my $crc = 0xffffffff;

	for my $byte (unpack('C*', substr($record, 0, 364) . substr($record, 368)))
	{
		$crc ^= $byte;
		$crc = $crc & 1 ? $crc >> 1 ^ 0x82f63b78 : $crc >> 1 for 1 .. 8;
	}
	return pack('L', $crc ^ 0xffffffff);
}

is(unpack('H*', substr(slurp_file($lima->data_dir . '/snowflake.lease'), 364, 4)),
	unpack('H*', crc_of(slurp_file($lima->data_dir . '/snowflake.lease'))), 'the checksum of a record');
for my $damage (
	[ 'damaged', sub { substr($_[0], 100, 1) ^= "\1" } ],
	[ 'damaged in a lease', sub { substr($_[0], 380, 1) ^= "\1" } ],
	[ 'cut short', sub { substr($_[0], 300) = '' } ],
	[ 'cut short, and says that it is long', sub { substr($_[0], 360) = pack('L', 2**32 - 1) } ],
	[ 'of another kind', sub { substr($_[0], 0, 4) = 'NOLS'; substr($_[0], 364, 4) = crc_of($_[0]) } ],
	[ 'of another version', sub { substr($_[0], 4, 4) = pack('L', 2); substr($_[0], 364, 4) = crc_of($_[0]) } ],
	[ 'damaged where it says how long it is', sub { substr($_[0], 360, 4) = pack('L', 2**32 - 1) } ])
{
	my ($name, $change) = @$damage;
	my $file = $lima->data_dir . '/snowflake.lease';
	my $record = slurp_file($file);

	$change->($record);
	open(my $out, '>', $file) or die;
	binmode $out;
	print $out $record;
	close($out);
	my $size = -s $lima->logfile;
	$lima->start;
	wait_for_log($lima, qr/: its record of leases is damaged\./, $size, "a record that is $name does not count");
	is_holding($lima, '40', 'and the server leases again');
	$lima->stop;
}

# --- a layout that was accepted: the record is this server's, and of the layout before
my $log_end = -s $lima->logfile;
$lima->append_conf('postgresql.conf', "snowflake.layout = 'discord'");
$lima->start;
looks_seldom($lima, q{backend_type = 'snowflake lease'}, 'a worker that has to wait until the layout is accepted');
fails_with($lima, "SET statement_timeout = '60s'; $nextval", '55000', qr/layout/, 'so does a call, with an error');
$lima->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
wait_for_log($lima, qr/: its record of leases is of another layout\./, $log_end, 'with another layout it is a new holder, and the log says why');
$lima->append_conf('postgresql.conf', 'max_worker_processes = 0');
$lima->restart;
fails_with($lima, "SET statement_timeout = '60s'; $nextval", '55000', qr/background worker is not running/, 'no worker: an error');
$lima->stop;

# --- two servers of one that no evidence tells apart: they part at the next renewal
my $first = leasing_server('first_one', $registry, 'auto:1', '6s');
$first->stop;
start_in_place($first, SAME => 1);
my $shard = held_shards($first);
mints($first, 10);
$first->stop('immediate');
my $second = copy_of($first, 'second_one');
start_in_place($first, SAME => 1);
ok(mints($first, 10), 'the first one mints');
start_in_place($second, SAME => 1);
wait_for(sub { held_shards($first) ne held_shards($second) });
isnt(holder_of($first), holder_of($second), 'two of one: they are two holders');
isnt(held_shards($first), held_shards($second), 'two of one: they hold other shards');
ok(wait_for(sub { slurp_file($first->logfile) . slurp_file($second->logfile) =~
	/: (?:first|second)_one at \S+:\d+ also calls in the name of the holder before\./ }), 'two of one: the log tells');
mints_new($first, held_shards($first), 'the first one, after that');
mints_new($second, held_shards($second), 'the second one, after that');

done_testing();
