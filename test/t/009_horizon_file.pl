# The horizon file damaged, the disk full, the layout changed, the worker gone:
# the server stays up, says what is wrong, and mints on when the cause is gone.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Copy;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep time);
use Test::More;

my $node = new_server('horizon', conf => <<'CONF');
snowflake.shards = '1'
snowflake.reserve = 200ms
snowflake.clock_tolerance = 60s
restart_after_crash = on
fsync = on
CONF
my $file = $node->data_dir . '/snowflake.horizon';
my $mint = 'SELECT snowflake_nextval(1)';

sub minted
{
	return $node->safe_psql('postgres', $mint);
}

# --- what there is to see
is($node->safe_psql('postgres', 'SELECT horizon IS NULL AND last_renewal IS NULL AND last_error IS NULL FROM snowflake_horizon()'),
	't', 'a new server has no horizon');
ok(wait_until($node, q{SELECT (pg_stat_file('snowflake.horizon', true)).size > 0}), 'but a file, with the layout');
my $last = minted();
# by the reserve, and by what a slow disk makes of it: ten seconds at most
is( $node->safe_psql('postgres',
		"SELECT horizon > snowflake_timestamp($last), seconds_ahead < 10.5, last_renewal <= clock_timestamp(), last_error IS NULL FROM snowflake_horizon()"),
	't|t|t|t', 'snowflake_horizon() shows it');
# a longer reserve is never that near while ids are minted: the next renewal comes at half of it
is($node->safe_psql('postgres', <<'SQL'), 't', 'and is ahead by snowflake.reserve');
DO $$ BEGIN
	FOR n IN 1 .. 10000 LOOP
		PERFORM snowflake_nextval(1), pg_sleep(0.005);
		EXIT WHEN (SELECT seconds_ahead <= 0.25 FROM snowflake_horizon());
	END LOOP;
END $$;
SELECT seconds_ahead <= 0.25 FROM snowflake_horizon();
SQL

# --- a damaged file: the server starts, and everything but minting works
my $good = slurp_file($file);
my $flipped = $good;
substr($flipped, 20, 1) ^= "\1";
my %damage = (
	'empty'        => [ sub { write_bytes('') }, qr/it is not a horizon record/ ],
	'truncated'    => [ sub { write_bytes(substr($good, 0, 100)) }, qr/it has 100 of \d+ bytes/ ],
	'longer'       => [ sub { write_bytes($good . "\0") }, qr/it has \d+ of \d+ bytes/ ],
	'bit-flipped'  => [ sub { write_bytes($flipped) }, qr/its checksum is wrong/ ],
	'of something else' => [ sub { write_bytes('x' x length $good) }, qr/it is not a horizon record/ ],
	'of a future version' => [ sub { my $new = $good; substr($new, 4, 4) = pack('L', 2); write_bytes($new) },
		qr/it is of version 2, and this library reads version 1/ ],
	'unreadable'   => [ sub { write_bytes($good); chmod(0, $file) }, qr/could not open file "snowflake\.horizon": Permission denied/ ],
	'a directory'  => [ sub { unlink $file; mkdir $file }, qr/could not read file "snowflake\.horizon": Is a directory/ ]);

sub write_bytes
{
	my ($bytes) = @_;
	open(my $fh, '>:raw', $file) or die "could not write $file: $!";
	print $fh $bytes;
	close($fh);
	return;
}

sub remove_file
{
	chmod(0600, $file);
	-d $file ? rmdir $file : unlink $file;
	return;
}

for my $name (sort keys %damage)
{
	my ($do, $pattern) = @{ $damage{$name} };

	$last = minted();
	$node->stop;
	$good = slurp_file($file);
	$flipped = $good;
	substr($flipped, 20, 1) ^= "\1";
	$do->();
	my $offset = -s $node->logfile;
	$node->start;
	ok(wait_for(sub { slurp_file($node->logfile, $offset) =~ /LOG:  cannot mint snowflake ids: could not .*"snowflake\.horizon"/ }),
		"$name: the log says so at start");
	my $way_out =
	  $name =~ /version/
	  ? qr/Install the version of snowflake that wrote it, or a later one, and restart the server/
	  : $name eq 'unreadable'
	  ? qr/Make the operating-system user of the server the owner of file "snowflake\.horizon", with mode 0600\. Do not remove it\. .* next call/
	  : qr/Check that the clock is past the newest id, and remove file "snowflake\.horizon", or restore it .* next call/;
	for (1, 2)
	{
		fails_with($node, $mint, '58030', qr/cannot mint snowflake ids: could not .*snowflake\.horizon.*HINT:  $way_out/s,
			"$name: 58030 names the file and the way out");
	}
	fails_with($node, $mint, '58030', $pattern, "$name: and what is wrong with it");
	like($node->safe_psql('postgres', 'SELECT last_error FROM snowflake_horizon()'), $pattern,
		"$name: snowflake_horizon() too");
	is($node->safe_psql('postgres', "CREATE TABLE t (id snowflake); INSERT INTO t VALUES ($last); SELECT snowflake_shard(id) FROM t; DROP TABLE t"),
		1, "$name: everything else works");
	$node->restart;
	fails_with($node, $mint, '58030', $pattern, "$name: nor does a restart start afresh");

	# the documented steps, in turn: the file given back, restored, or removed
	my $step = $name eq 'unreadable' ? 'given back' : $name lt 'm' ? 'restored' : 'removed';
	chmod(0600, $file) if $step eq 'given back';
	remove_file() if $step ne 'given back';
	write_bytes($good) if $step eq 'restored';
	cmp_ok(minted(), '>', $last, "$name: file $step, and the next call mints");
	ok(wait_until($node, 'SELECT last_error IS NULL FROM snowflake_horizon()'), "$name: the error is gone");
}

# --- damaged while the server runs: minting stops at the horizon, and resumes
minted();
# the worker may be about to write it
do { unlink $file } until mkdir $file;
# how far ahead the horizon is depends on how long the last renewal took
wait_for(sub { $node->psql('postgres', $mint) != 0 });
fails_with($node, $mint, '58030',
	qr/could not rename file "snowflake\.horizon\.tmp": Is a directory.*HINT:  .*Minting goes on by itself/s,
	'replaced by a directory while minting: 58030');
is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the server stays up');
rmdir $file;
like(mints_at_last($node, $mint), qr/^\d+$/, 'the directory gone, minting goes on by itself');

# --- a disk that refuses to write, under load
$node->stop;
start_with_slow_disk($node);
for my $trouble (
	[ 'create=ENOSPC', qr/could not create file "snowflake\.horizon\.tmp": No space left on device/ ],
	[ 'write=ENOSPC', qr/could not write file "snowflake\.horizon\.tmp": No space left on device/ ],
	[ 'write=short',  qr/could not write file "snowflake\.horizon\.tmp": No space left on device/ ],
	[ 'close=EIO',    qr/could not close file "snowflake\.horizon\.tmp": Input\/output error/ ],
	[ 'fsync=EIO',    qr/could not fsync file "snowflake\.horizon\.tmp": Input\/output error/ ],
	[ 'rename=EACCES', qr/could not rename file "snowflake\.horizon\.tmp": Permission denied/ ],
	[ 'directory=EIO', qr/could not fsync directory of file "snowflake\.horizon": Input\/output error/ ])
{
	my ($injected, $reason) = @$trouble;
	my $before = minted();
	my @minters = start_minters($node, 4, 'snowflake_nextval(1)', batch => 5);

	# while nobody waits for the file, or its reason is that of a half done attempt
	all_mint(1, @minters);
	set_disk($node, $injected);
	finish_session($_) for @minters;
	like($minters[0]{err}, qr/ERROR:  cannot mint snowflake ids: $reason/,
		"$injected: minting stops with the reason");
	fails_with($node, $mint, '58030', qr/cannot mint snowflake ids: $reason.*HINT:  .*Minting goes on by itself/s,
		"$injected: and goes on failing");
	is($node->safe_psql('postgres', 'CREATE TABLE t AS SELECT 1 AS one; SELECT one FROM t'), 1,
		"$injected: everything else works");
	$node->safe_psql('postgres', 'DROP TABLE t');
	set_disk($node, '');
	cmp_ok(mints_at_last($node, $mint), '>', $before, "$injected: minting goes on when the disk does");
	ids_are_distinct($injected, map { $_->{file} } @minters);
  SKIP:
	{
		skip 'no title tells the worker', 1 if !has_titles();
		my $open;
		ok(wait_for(sub { my $pid = worker_pid(); !($open = grep { (readlink // '') =~ /snowflake\.horizon/ } glob("/proc/$pid/fd/*")) }),
			"$injected: the worker keeps no file open") or diag($open);
	}
}

# --- a disk that refuses, and a session that asks again at once: the worker tries ten times a second
set_disk($node, 'create=ENOSPC');
wait_for(sub { $node->psql('postgres', $mint) != 0 });
my $began = time();
my $tried = disk_log($node);
$node->safe_psql('postgres', <<'SQL');
DO $$
BEGIN
	FOR n IN 1 .. 40 LOOP
		BEGIN
			PERFORM snowflake_nextval(1);
		EXCEPTION WHEN io_error THEN
		END;
	END LOOP;
END $$
SQL
my $tries = disk_log($node) - $tried;
cmp_ok($tries, '>', 0, "40 calls: $tries tries");
cmp_ok($tries, '<=', 2 + 10 * (time() - $began), 'not more than ten a second');
set_disk($node, '');
mints_at_last($node, $mint);

# --- a disk that refuses when the server is stopped
minted();
set_disk($node, 'create=ENOSPC');
my $log_end = -s $node->logfile;
$node->stop;
like(slurp_file($node->logfile, $log_end),
	qr/LOG:  cannot mint snowflake ids: could not create file "snowflake\.horizon\.tmp": No space left on device/,
	'a disk full at the end: the log says so, and the server stops');
$node->start;

# --- the worker gone: the postmaster starts it again

# It is found by its title.  An emulator's processes have only the emulator's.
sub has_titles
{
	my $command = '/proc/' . postmaster_pid($node) . '/cmdline';
	return -r $command && slurp_file($command) =~ m{^[^\0]*/postgres\0};
}

sub worker_pid
{
	my $postmaster = postmaster_pid($node);

	for my $stat (glob('/proc/[0-9]*/stat'))
	{
		my $line = eval { slurp_file($stat) } or next;
		my ($pid, $parent) = $line =~ /^(\d+) \(.*\) \w (\d+)/ or next;
		next unless $parent == $postmaster;
		my $command = eval { slurp_file("/proc/$pid/cmdline") } // '';
		return $pid if $command =~ /snowflake horizon/;
	}
	return undef;
}

sub worker_that_is_not
{
	my ($old) = @_;
	my $pid;

	return wait_for(sub { $pid = worker_pid(); $pid && $pid != $old }) ? $pid : undef;
}

SKIP:
{
	skip 'processes have no titles here', 4 unless has_titles();
	for my $signal ('TERM', 'KILL')
	{
		$last = minted();
		my $pid = worker_pid();
		kill($signal, $pid);
		ok(worker_that_is_not($pid), "SIG$signal: the worker is started again");
		comes_back($node) or die;
		cmp_ok(minted(), '>', $last, "SIG$signal: and minting survives it");
	}
}

# --- snowflake.reserve by reload
$node->append_conf('postgresql.conf', 'snowflake.reserve = 20s');
reload($node);
ok( wait_until($node, 'SELECT seconds_ahead > 15 FROM (SELECT snowflake_nextval(1)) AS minted, snowflake_horizon()'),
	'snowflake.reserve takes effect by reload');
$node->append_conf('postgresql.conf', 'snowflake.reserve = 200ms');
reload($node);
$last = minted();
$node->restart;
cmp_ok(minted(), '>', $last, 'after a clean stop there is no wait for a long reserve');

# --- crashes one after the other, none of them long enough for the clock to
# --- come to the horizon: each starts where the first one did
$node->append_conf('postgresql.conf', "snowflake.reserve = 10s\nsnowflake.clock_tolerance = 60s");
$node->restart;
SKIP:
{
	skip 'processes have no titles here', 1 unless has_titles();
	my ($horizon, $moved, $in_time);

	# on a busy machine the clock may come to the horizon: then once more
	for (1 .. 10)
	{
		minted();
		$horizon = $node->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
		for (1 .. 4)
		{
			my $pid = worker_pid();
			kill('KILL', $pid);
			worker_that_is_not($pid);
			comes_back($node) or die;
			$node->psql('postgres', "SET snowflake.clock_tolerance = 0; $mint");
		}
		($moved, $in_time) = split(/\|/,
			$node->safe_psql('postgres', "SELECT horizon, clock_timestamp() < '$horizon' FROM snowflake_horizon()"));
		last if $in_time eq 't';
	}
	skip 'four crashes lasted for longer than ten seconds, in each of ten rounds', 1 if $in_time ne 't';
	is($moved, $horizon, 'crashes in a row do not set the horizon further ahead');
}
$node->append_conf('postgresql.conf', 'snowflake.reserve = 200ms');
reload($node);
$last = minted();

# --- the layout changed
$last = minted();
my $twitter = "SELECT snowflake_shard($last, 'twitter')";
$node->append_conf('postgresql.conf', "snowflake.layout = 'instagram'");
$node->restart;
my $refused = qr/this server has another layout than "snowflake\.layout".*DETAIL:  "snowflake\.layout" is "epoch=2011-08-24T21:07:01\.721Z unit=1ms fields=timestamp:41,shard:13,sequence:10", and the server's recorded layout is "epoch=2010-11-04T01:42:54\.657Z unit=1ms fields=timestamp:41,datacenter:5,worker:5,sequence:12".*HINT:  Set "snowflake\.layout" back and restart the server.*snowflake_accept_layout\(\)/s;
fails_with($node, $mint, '55000', $refused, 'another layout: no minting');
fails_with($node, "SELECT $_", '55000', $refused, "another layout: no $_")
  for "snowflake_decode($last)", "snowflake_timestamp($last)", 'snowflake_floor(now())', "snowflake_fields($last)";
is($node->safe_psql('postgres', $twitter), 1, 'another layout: ids can be read by naming theirs');

$node->append_conf('postgresql.conf', "snowflake.layout = 'twitter'");
$node->restart;
is($node->safe_psql('postgres', "SELECT snowflake_nextval(1) > $last"), 't', 'the way back works');

$node->append_conf('postgresql.conf', "snowflake.layout = 'instagram'\nsnowflake.shards = ''");
$node->restart;
$node->safe_psql('postgres', 'CREATE ROLE app');
fails_with($node, 'SET ROLE app; SELECT snowflake_accept_layout()', '42501',
	qr/permission denied for function snowflake_accept_layout/, 'not everybody can accept a new layout');
# one that fails does not stay requested: neither a new worker nor a reader accepts
mkdir "$file.tmp" or die;
fails_with($node, 'SELECT snowflake_accept_layout()', '58030', qr/could not create file "snowflake\.horizon\.tmp"/,
	'a new layout that cannot be stored is not accepted');
rmdir "$file.tmp";
my $accepting = worker_pid();
kill('TERM', $accepting);
ok(worker_that_is_not($accepting), 'the worker is started again');
ok(wait_until($node, q{SELECT waiting_for IS NULL AND state = 'layout' FROM snowflake_horizon()}), 'it has read the records');
fails_with($node, $mint, '55000', $refused, 'and nothing was accepted');
$node->safe_psql('postgres', 'SELECT snowflake_accept_layout()');
is($node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval(8000))'), 8000, 'but the administrator can');
my ($status, $out, $err) = $node->psql('postgres', 'SELECT snowflake_accept_layout()');
like($err, qr/NOTICE:  the layout has not changed/, 'once');
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval(8000))'), 8000, 'and for good');
$node->append_conf('postgresql.conf', "snowflake.layout = 'twitter'");
$node->restart;
fails_with($node, $mint, '55000', qr/another layout/, 'there is only one layout at a time');
$node->append_conf('postgresql.conf', "snowflake.layout = 'instagram'");
$node->restart;

# --- a server without room for the worker
$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
fails_with($node, $mint, '55000', qr/snowflake's background worker is not running.*HINT:  Set "max_worker_processes" to \d+ or more/s,
	'no worker: an error says what to raise');
$node->stop;

$node->append_conf('postgresql.conf', "snowflake.layout = 'twitter'");
$node->start;
fails_with($node, 'SELECT snowflake_accept_layout()', '55000', qr/snowflake's background worker is not running/,
	'no worker: a layout is not accepted either');
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.layout = 'instagram'");

# --- single-user mode
my ($stdout, $stderr) = run_command([ 'sh', '-c',
	"echo 'SELECT snowflake_nextval(1)' | postgres --single -D '" . $node->data_dir . "' postgres" ]);
like($stderr, qr/ERROR:  cannot mint ids in single-user mode/, 'single-user mode does not mint');
($stdout, $stderr) = run_command([ 'sh', '-c', "echo 'SELECT snowflake_accept_clone()' | postgres --single -c statement_timeout=4s -D '" . $node->data_dir . "' postgres" ]);
like($stderr, qr/ERROR:  snowflake's background worker is not running\n.*HINT:  The server is in single-user mode\. Start it as usual\./s, 'nor does it accept anything, and says so at once');

done_testing();
