# Is this server a clone of another one?  Each way to start a data directory, by
# the table in doc/servers.md: which servers are found to be clones, which are
# not, and what a clone does.  All servers refuse to mint as clones.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $conf = <<'CONF';
snowflake.shards = '0-1'
snowflake.clock_tolerance = 60s
snowflake.refuse_clone = on
restart_after_crash = on
wal_log_hints = on
max_wal_senders = 5
wal_keep_size = 256MB
CONF
my $mint = 'SELECT snowflake_nextval()';
my $found = qr/LOG:  this server is a clone of another server/;
my $way_out = qr/Give it other shards than its original's.*call snowflake_accept_clone\(\)\./;

my $copied = qr/the files of its data directory were copied/;
my $restored = qr/it was recovered from a backup/;

sub incarnation
{
	my ($node) = @_;

	wait_until($node, 'SELECT incarnation IS NOT NULL FROM snowflake_horizon()');
	return $node->safe_psql('postgres', 'SELECT incarnation FROM snowflake_horizon()');
}

sub horizon_file
{
	my ($node) = @_;
	return $node->data_dir . '/snowflake.horizon';
}

sub write_bytes
{
	my ($file, $bytes) = @_;

	open(my $fh, '>:raw', $file) or die "could not write $file: $!";
	print $fh $bytes;
	close($fh);
	return;
}

# What the log says from the last start on
my %log_offset;

sub log_of
{
	my ($node) = @_;
	return slurp_file($node->logfile, $log_offset{ $node->name } // 0);
}

sub begin_log
{
	my ($node) = @_;
	$log_offset{ $node->name } = -s $node->logfile;
	return;
}

sub crash
{
	my ($node) = @_;
	$node->stop('immediate');
	begin_log($node);
	$node->start;
	return;
}

# A session killed: shared memory is created again.
sub crash_a_backend
{
	my ($node) = @_;

	my $session = start_session($node, 'SELECT pg_sleep(300)');
	my $sleeper = "pg_stat_activity WHERE query = 'SELECT pg_sleep(300)'";

	wait_until($node, "SELECT count(*) = 1 FROM $sleeper") or die;
	begin_log($node);
	kill('KILL', $node->safe_psql('postgres', "SELECT pid FROM $sleeper"));
	finish_session($session);
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log_offset{ $node->name });
	comes_back($node) or die;
	return;
}

sub is_itself
{
	my ($node, $incarnation, $name) = @_;

	like($node->safe_psql('postgres', $mint), qr/^\d+$/, "$name: mints");
	is($node->safe_psql('postgres', 'SELECT incarnation, clone_of, clone_evidence FROM snowflake_horizon()'),
		"$incarnation||", "$name: is who it was");
	unlike(log_of($node), $found, "$name: and says nothing");
	return;
}

sub is_clone
{
	my ($node, $original, $evidence, $name) = @_;

	# a call waits until the worker knows who this is
	fails_with($node, 'SELECT snowflake_nextval(0)', '55000', qr/this server is a clone/, "$name: it mints on no shard");
	my ($us, $them, $why) =
	  split(/\|/, $node->safe_psql('postgres', 'SELECT incarnation, clone_of, clone_evidence FROM snowflake_horizon()'));

	like(log_of($node), qr/$found.*DETAIL:  It is incarnation $us, a clone of $original: $evidence\..*HINT:  $way_out/s,
		"$name: the log says so");
	like($us, qr/^[0-9a-f]{16}$/, "$name: it has an incarnation");
	isnt($us, $original, "$name: which is another");
	is($them, $original, "$name: snowflake_horizon() names the original");
	like($why, qr/^$evidence$/, "$name: and the evidence");
	fails_with($node, $mint, '55000',
		qr/this server is a clone of another server.*DETAIL:  It is incarnation $us, a clone of $them: $evidence\..*HINT:  $way_out/s,
		"$name: it does not mint");
	is($node->safe_psql('postgres', 'SELECT snowflake_shard(20480), snowflake_timestamp(snowflake_floor(now())) <= now()'),
		'5|t', "$name: it reads ids");
	return $us;
}

# From a data directory as it lies there
sub copy_of
{
	my ($node, $name) = @_;
	my $clone = PostgreSQL::Test::Cluster->new($name);

	mkdir $clone->basedir;
	PostgreSQL::Test::RecursiveCopy::copypath($node->data_dir, $clone->data_dir);
	adjust($clone);
	return $clone;
}

sub adjust
{
	my ($node) = @_;

	unlink $node->data_dir . '/postmaster.pid';
	chmod(0700, $node->data_dir);
	$node->append_conf('postgresql.conf', sprintf("port = %d", $node->port));
	return;
}

my $original = new_server('original', init => { allows_streaming => 'logical', has_archiving => 1, no_data_checksums => 1 },
	conf => $conf);
my $who = incarnation($original);

# --- the same server
is_itself($original, $who, 'a new server');
begin_log($original);
$original->restart;
is_itself($original, $who, 'restarted');
crash($original);
is_itself($original, $who, 'crashed');
crash_a_backend($original);
is_itself($original, $who, 'a process crashed');

# --- recovered from base backup and archive; first, since all the others put
# --- their WAL into the same archive
$original->backup('base');
$original->safe_psql('postgres', "SELECT pg_create_restore_point('here'), pg_switch_wal()");
$original->poll_query_until('postgres', 'SELECT last_archived_wal IS NOT NULL AND pg_walfile_name(pg_current_wal_lsn()) > last_archived_wal FROM pg_stat_archiver') or die;
my $recovered = PostgreSQL::Test::Cluster->new('recovered');
$recovered->init_from_backup($original, 'base', has_restoring => 1, standby => 0);
$recovered->append_conf('postgresql.conf', "recovery_target_name = 'here'\nrecovery_target_action = pause");
$recovered->start;
$recovered->poll_query_until('postgres', "SELECT pg_get_wal_replay_pause_state() = 'paused'") or die;
ok(slurp_file(horizon_file($recovered)) =~ $restored, 'what was found is on disk before recovery ends');
fails_with($recovered, 'SELECT snowflake_accept_clone()', '25006',
	qr/cannot accept a clone during recovery/, 'recovered: nothing is accepted before it has ended');
my $recovered_is = incarnation($recovered);
begin_log($recovered);
$recovered->restart;
$recovered->poll_query_until('postgres', "SELECT pg_get_wal_replay_pause_state() = 'paused'") or die;
$recovered->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
is(is_clone($recovered, $who, $restored, 'recovered'), $recovered_is, 'recovered: one incarnation, restarted on the way or not');
$recovered->safe_psql('postgres', 'SELECT snowflake_accept_clone()');
crash($recovered);
is_itself($recovered, $recovered_is, 'recovered, accepted, crashed');
$recovered->stop;

# --- a base backup started on its own
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($original, 'base');
$clone->start;
my $clone_is = is_clone($clone, $who, $restored, 'base backup');
begin_log($clone);
$clone->restart;
is(is_clone($clone, $who, $restored, 'base backup restarted'), $clone_is, 'base backup restarted: it is who it was');
crash($clone);
is(is_clone($clone, $who, $restored, 'base backup crashed'), $clone_is, 'base backup crashed: it is who it was');
crash_a_backend($clone);
is(is_clone($clone, $who, $restored, 'a process of the base backup crashed'), $clone_is, 'nor does that change it');

# --- with the guard off it mints, and goes on saying what it is
fails_with($clone, 'SET snowflake.refuse_clone = off', '55P02',
	qr/parameter "snowflake\.refuse_clone" cannot be changed now/, 'no session switches the guard off');
$clone->append_conf('postgresql.conf', 'snowflake.refuse_clone = off');
begin_log($clone);
$clone->restart;
ok(wait_for(sub { log_of($clone) =~ /$found.*$restored/s }), 'guard off: the log says so all the same');
like($clone->safe_psql('postgres', $mint), qr/^\d+$/, 'guard off: it mints');
is($clone->safe_psql('postgres', 'SELECT clone_of FROM snowflake_horizon()'), $who, 'guard off: it is a clone');
$clone->append_conf('postgresql.conf', 'snowflake.refuse_clone = on');
reload($clone);
ok(wait_until($clone, "SELECT current_setting('snowflake.refuse_clone') = 'on'"), 'guard on, by reload');
fails_with($clone, $mint, '55000', qr/this server is a clone/, 'guard on: it does not mint');

# --- a clone of the clone; its standby, promoted in its place
$clone->backup('again');
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($clone, 'again');
$second->start;
is_clone($second, $clone_is, $restored, 'base backup of a clone');
$second->stop;

sub standby_of
{
	my ($node, $backup, $name) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$standby->init_from_backup($node, $backup, has_streaming => 1);
	$standby->start;
	return $standby;
}

my $heir = standby_of($clone, 'again', 'heir');
my $later_heir = standby_of($clone, 'again', 'later_heir');
# restarted, its file is as it should be: nothing but the promotion has to be stored
$heir->restart;
$clone->wait_for_catchup($heir);
$heir->promote;
my $heir_is = incarnation($heir);
is($heir->safe_psql('postgres', 'SELECT clone_of, incarnation <> clone_of FROM snowflake_horizon()'),
	"$who|t", 'promoted in place of a clone: a clone as well');
crash($heir);
is(incarnation($heir), $heir_is, 'promoted, crashed before it minted: it is who it was');
$heir->stop;

# a standby that had lost its file, and crashes when it is promoted, before its worker could
# store what it is
$original->backup('of_original');
my $fileless = standby_of($original, 'of_original', 'fileless');
$fileless->stop;
unlink horizon_file($fileless);
$fileless->start;
# its page has the primary's record, as that renews its horizon
$original->restart;
$original->safe_psql('postgres', $mint);
$original->wait_for_catchup($fileless);
my $follower = start_session($fileless, 'DO $$ BEGIN WHILE pg_is_in_recovery() LOOP PERFORM pg_sleep(0.01); END LOOP; END $$');
ok(wait_until($fileless, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'DO%'}), 'a session follows a standby without a file');
promote_without_workers($fileless);
ok(finish_session($follower), 'it is promoted');
$fileless->kill9;
ok(wait_for(sub { $fileless->{_pid} = undef; $fileless->start(fail_ok => 1) }), 'and crashes');
like(incarnation($fileless), qr/^(?!$who)[0-9a-f]{16}$/, 'it is another server than its primary');
is($fileless->safe_psql('postgres', 'SELECT clone_of FROM snowflake_horizon()'), '', 'and no clone of that');
$fileless->stop;

# --- accepted, by who may, when it is on disk
$clone->safe_psql('postgres', 'CREATE ROLE app');
fails_with($clone, 'SET ROLE app; SELECT snowflake_accept_clone()', '42501',
	qr/permission denied for function snowflake_accept_clone/, 'not everybody can accept a clone');
$clone->stop;
start_with_slow_disk($clone);
set_disk($clone, 'create=ENOSPC');
fails_with($clone, 'SELECT snowflake_accept_clone()', '58030',
	qr/could not create file "snowflake\.horizon\.tmp": No space left on device/, 'nor can it be accepted on a full disk');
set_disk($clone, '');
$clone->safe_psql('postgres', 'SELECT snowflake_accept_clone()');
# its standby learns of that, with nothing minted since
$clone->wait_for_catchup($later_heir);
$later_heir->promote;
isnt(incarnation($later_heir), $clone_is, 'promoted in place of an accepted clone: another incarnation');
is_itself($later_heir, incarnation($later_heir), 'promoted in place of an accepted clone');
$later_heir->stop;
begin_log($clone);
is_itself($clone, $clone_is, 'accepted');
my ($status, $out, $err) = $clone->psql('postgres', 'SELECT snowflake_accept_clone()');
is($status, 0, 'accepted twice: nothing happens');
like($err, qr/NOTICE:  this server is not a clone/, 'accepted twice: and it says so');
begin_log($clone);
$clone->restart;
is_itself($clone, $clone_is, 'accepted, restarted');
crash($clone);
is_itself($clone, $clone_is, 'accepted, crashed');
$clone->stop;

# --- a standby: following, promoted, and what may befall it in between
sub is_promoted
{
	my ($node, $name) = @_;
	my $is = incarnation($node);

	isnt($is, $who, "$name: another incarnation");
	is_itself($node, $is, $name);
	return $is;
}

my $standby = standby_of($original, 'base', 'standby');
my $orphan = standby_of($original, 'base', 'orphan');
is($standby->safe_psql('postgres', 'SELECT incarnation, clone_of, clone_evidence FROM snowflake_horizon()'),
	'||', 'a standby has no incarnation and is no clone');
fails_with($standby, 'SELECT snowflake_accept_clone()', '25006',
	qr/cannot accept a clone during recovery/, 'nor is there anything to accept');
$original->safe_psql('postgres', $mint);
$original->wait_for_catchup($standby);
begin_log($standby);
$standby->restart;
unlike(log_of($standby), $found, 'a standby restarted says nothing');
$standby->promote;
my $promoted_is = is_promoted($standby, 'promoted');
begin_log($standby);
$standby->restart;
is_itself($standby, $promoted_is, 'promoted, restarted');
crash($standby);
is_itself($standby, $promoted_is, 'promoted, crashed');
$standby->stop;
my $snapshot = copy_of($standby, 'of_promoted');
$snapshot->start;
is_clone($snapshot, $promoted_is, $copied, 'the files of a promoted server');
$snapshot->stop;

# made a standby again, as an old primary would be
system_or_bail('pg_rewind', '--target-pgdata', $standby->data_dir, '--source-server', $original->connstr('postgres'));
$standby->append_conf('postgresql.conf', sprintf("port = %d", $standby->port));
$standby->enable_streaming($original);
begin_log($standby);
$standby->start;
$original->safe_psql('postgres', $mint);
$original->wait_for_catchup($standby);
$standby->promote;
isnt(is_promoted($standby, 'rewound and promoted'), $promoted_is, 'rewound and promoted: not who it was either');
$standby->stop;

# made a server of its own
SKIP:
{
	skip 'pg_createsubscriber came with 17', 8 unless $original->pg_version >= 17;
	my $subscriber = standby_of($original, 'base', 'subscriber');
	$original->wait_for_catchup($subscriber);
	$subscriber->stop;
	system_or_bail('pg_createsubscriber', '--pgdata', $subscriber->data_dir,
		'--publisher-server', $original->connstr('postgres'), '--database', 'postgres',
		'--subscriber-port', $subscriber->port, '--socketdir', $subscriber->host);
	begin_log($subscriber);
	$subscriber->start;
	my ($us, $them) = split(/\|/, $subscriber->safe_psql('postgres', 'SELECT incarnation, clone_of FROM snowflake_horizon()'));
	is_clone($subscriber, $them, qr/its horizon was written under system identifier \d+, and its own is \d+/, 'a logical replica');
	$subscriber->stop;
}

# as if it had died right after the promotion, with nothing written yet
$orphan->stop;
my $astray = copy_of($orphan, 'astray');
unlink $_->data_dir . '/standby.signal' for $orphan, $astray;
begin_log($orphan);
$orphan->start;
is_promoted($orphan, 'promoted and lost at once');
$orphan->stop;
$astray->start;
is_clone($astray, $who, $copied, 'the files of a standby, started as a primary');
$astray->stop;

# --- files copied, a directory renamed, another host
$original->stop;
my $beside = copy_of($original, 'beside');
my $old_files = copy_of($original, 'old_files');
my $cramped = copy_of($original, 'cramped');
$beside->start;
is_clone($beside, $who, $copied, 'files copied');
$beside->stop;
start_in_place($old_files, NO_BIRTH => 1);
is_clone($old_files, $who, $copied, 'files copied, births unknown');
$old_files->stop;

start_with_slow_disk($cramped, 'create=ENOSPC');
ok(wait_for(sub { log_of($cramped) =~ /LOG:  cannot mint snowflake ids: could not create file "snowflake\.horizon\.tmp": No space left/ }),
	'files copied to a full disk: the log says that this cannot be stored');
wait_until($cramped, 'SELECT last_error IS NOT NULL FROM snowflake_horizon()');
set_disk($cramped, '');
is_clone($cramped, $who, $copied, 'files copied to a full disk');
begin_log($cramped);
$cramped->restart;
is_clone($cramped, $who, $copied, 'files copied to a full disk, restarted');
$cramped->stop;

my $saved = copy_of($original, 'saved');
system_or_bail('cp', '-a', $saved->data_dir . '/.', $original->data_dir);
adjust($original);
begin_log($original);
$original->start;
is_itself($original, $who, 'files copied back');
$original->stop;

my $renamed = PostgreSQL::Test::Cluster->new('renamed');
mkdir $renamed->basedir;
rename($original->data_dir, $renamed->data_dir) or die;
adjust($renamed);
$renamed->start;
is_itself($renamed, $who, 'directory renamed');
$renamed->stop;

SKIP:
{
	my $born = `stat -c %W '@{[ $renamed->data_dir ]}/PG_VERSION'`;
	skip 'no births on this file system', 3 unless $born =~ /^[1-9]/;
	begin_log($renamed);
	start_in_place($renamed, INODE => 42);
	is_itself($renamed, $who, 'files with other numbers');
	$renamed->stop;
}

for my $container ('0123456789ab', 'ba9876543210')
{
	begin_log($renamed);
	start_in_place($renamed, HOST => $container);
	is_itself($renamed, $who, "in container $container");
	$renamed->stop;
}
for my $host ('ids-0', 'ids-0')
{
	begin_log($renamed);
	start_in_place($renamed, HOST => $host);
	is_itself($renamed, $who, 'on a host with a name');
	$renamed->stop;
}
begin_log($renamed);
start_in_place($renamed, HOST => 'ids-1');
my $moved_is = is_clone($renamed, $who, qr/its data directory was in use on host "ids-0", and this is host "ids-1"/, 'on another host');
$renamed->safe_psql('postgres', 'SELECT snowflake_accept_clone()');
$renamed->stop;
begin_log($renamed);
start_in_place($renamed, HOST => 'ids-1');
is_itself($renamed, $moved_is, 'on another host, accepted');

# --- the file alone, in another server
my $stranger = new_server('stranger', init => { allows_streaming => 1 }, conf => $conf);
my $id = qr/\d{10,}/;
$stranger->stop;
$renamed->stop;
write_bytes(horizon_file($stranger), slurp_file(horizon_file($renamed)));
begin_log($stranger);
$stranger->start;
is_clone($stranger, $moved_is, qr/its horizon was written under system identifier $id, and its own is $id/, 'file of another server');
$stranger->stop;

# --- the page, too, as a server leaves it that has replayed it
start_in_place($renamed, HOST => 'ids-1');
$renamed->safe_psql('postgres', $mint);
$renamed->stop('immediate');
start_in_place($renamed, HOST => 'ids-1');
my $adopted_is = incarnation($renamed);
$renamed->stop;
my $page = slurp_file($renamed->data_dir . '/global/11111');

# a version to come is left alone, copied or not
my $future = copy_of($renamed, 'future');
my $record = slurp_file(horizon_file($future));
substr($record, 4, 4) = pack('L', 2);
write_bytes(horizon_file($future), $record);
$future->start;
fails_with($future, $mint, '58030', qr/it is of version 2/, 'of a version to come: no minting');
$future->stop;
ok(slurp_file(horizon_file($future)) eq $record, 'of a version to come: the file is left as it is');

# what came by the WAL and cannot be read may be of any time; each hint works
unlink horizon_file($future);
my $remove = qr/Stop the server, check that the clock is past the newest id, remove file "global\/11111", and start the server\./;
my $used = qr/could not use page 0 of file "global\/11111":/;
for my $damage (
	[ 'of something else', qr/$used it is not a horizon record/, $remove, sub { substr($_[0], 24, 4) = "\377" x 4; $_[0] } ],
	[ 'with a broken header', qr/$used it is not a horizon record/, $remove, sub { substr($_[0], 12, 4) = "\377" x 4; $_[0] } ],
	[ 'with a bit flipped', qr/$used its checksum is wrong/, $remove, sub { substr($_[0], 44, 1) ^= "\1"; $_[0] } ],
	[ 'of half a size', qr/could not use file "global\/11111": it is shorter than a page/, $remove, sub { substr($_[0], 0, 4096) } ],
	[ 'of no size', qr/could not use file "global\/11111": it is shorter than a page/, $remove, sub { '' } ],
	[ 'of a version to come', qr/$used it is of version 2/, qr/Install the version of snowflake that wrote it, or a later one, and restart/, sub { substr($_[0], 28, 4) = pack('L', 2); $_[0] } ])
{
	my ($name, $reason, $hint, $change) = @$damage;
	my $page_file = $future->data_dir . '/global/11111';
	my $damaged = $page;

	write_bytes($page_file, $change->($damaged));
	$future->start;
	fails_with($future, $mint, '58030', qr/cannot mint snowflake ids: $reason.*HINT:  $hint/s, "page $name: no minting");
	$future->stop;
	$name =~ /version/ ? write_bytes($page_file, $page) : unlink $page_file;
	start_in_place($future, HOST => 'ids-1');
	like($future->safe_psql('postgres', $mint), qr/^\d+$/, "page $name: the hint followed, minting goes on");
	$future->stop;
	unlink horizon_file($future);
}

# --- the file lost: what came by the WAL knows who, but not where
start_in_place($renamed, HOST => 'ids-1');
$renamed->safe_psql('postgres', $mint);
$renamed->stop('immediate');
start_in_place($renamed, HOST => 'ids-1');
$renamed->stop;
unlink horizon_file($renamed);
begin_log($renamed);
start_in_place($renamed, HOST => 'ids-8');
is_itself($renamed, $adopted_is, 'without its file');
$renamed->stop;

done_testing();
