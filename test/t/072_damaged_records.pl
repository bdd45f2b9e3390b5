# The layout's guard holds beside any damage: of the file or the page of the
# horizon, or of the layout's own.  A row is found where it is, or the server
# refuses to look for it; and each start says which layout is in use.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use IPC::Run ();
use LeaseTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $seed = $ENV{SNOWFLAKE_SEED} // time() % 100_000;
srand($seed);
note("seed: SNOWFLAKE_SEED=$seed");

my $ID = '1541815603606036480';    # a Twitter id, of shard 378
my $LOOK = "SELECT 'found ' || count(*) FROM photos WHERE id = $ID";
my $DIFFERS = qr/this server has another layout than "snowflake.layout"/;
my @FILES = ('snowflake.horizon', 'snowflake.layout');
my @PAGES = ('global/11111', 'global/11112');

sub path
{
	my ($node, $place) = @_;
	return $node->data_dir . "/$place";
}

sub put
{
	my ($node, $place, $bytes) = @_;
	my $path = path($node, $place);

	chmod(0600, $path);
	unlink $path;
	append_to_file($path, $bytes) if defined $bytes;
	return;
}

sub whole
{
	my ($node, @places) = @_;
	return map { $_ => slurp_file(path($node, $_)) } @places;
}

# A byte of a page counts if the page has it: its header, or the record.
sub flip
{
	my ($bytes, $at) = @_;

	substr($bytes, $at, 1) ^= chr(1 + int(rand(255)));
	return $bytes;
}

# What can be done to a place, given what all places have and had.
my %damage = (
	'a flipped byte'  => sub { my ($good, $place) = @_; flip($good->{$place}, int(rand($place =~ /global/ ? 190 : length $good->{$place}))) },
	'cut'             => sub { my ($good, $place) = @_; substr($good->{$place}, 0, int(rand(length $good->{$place}))) },
	'overwritten'     => sub { my ($good, $place) = @_; "\0" x length $good->{$place} },
	'removed'         => sub { undef });

# --- A server with both files, and after a crash both pages

my $node = new_server('primary', init => { allows_streaming => 1 }, conf => 'snowflake.shards = \'5\'');
like(slurp_file($node->logfile), qr/LOG:  the layout of snowflake ids is "twitter"/, 'a start logs the layout in use');
$node->safe_psql('postgres', by_shard('photos', 3) . "INSERT INTO photos VALUES ($ID); SELECT snowflake_nextval()");
$node->stop('immediate');
$node->start;
mints_at_last($node, 'SELECT snowflake_nextval()');
$node->stop;
my %good = whole($node, @FILES, @PAGES);

# A server for one session, which starts in no time and mends nothing.
sub look_alone
{
	my ($server, $layout) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ 'postgres', '--single', '-c', "snowflake.layout=$layout", '-D', $server->data_dir, 'postgres' ],
		'<', \"$LOOK\n", '>', \$out, '2>', \$err);
	return $out . $err;
}

sub refuses_alone
{
	my ($layout, $name, $reason) = @_;
	my $told = look_alone($node, $layout);

	ok($told =~ /ERROR:  .*$reason/ && $told !~ /"found/, $name) or diag($told);
	return;
}

sub finds_alone
{
	my ($layout, $name) = @_;
	my $told = look_alone($node, $layout);

	like($told, qr/found 1/, $name);
	return;
}

refuses_alone('sonyflake', 'another layout is refused', $DIFFERS);

# --- each byte of each place damaged in each way, and each length: what reads it, in
# --- one process, takes none of it for a record

sub every_damage
{
	my ($function, $kind, $place) = @_;
	return tries_all($node, 'damage', $function, 'int, bytea', "$kind, pg_read_binary_file('$place')", 255 * length $good{$place}, "$place: no damage is taken for a record");
}
every_damage('damaged', $_, $FILES[$_]) for 0, 1;
every_damage('damaged_page', $_, $PAGES[$_]) for 0, 1;

# --- and all cases of reading and storing, where a page was replayed
tries_all($node, 'record_cases', 'record_cases', '', '', 1000, 'record_cases, with pages: each is as it should be');

# --- and what the server makes of it: each place damaged by itself

for my $place (@FILES, @PAGES)
{
	for my $kind (('a flipped byte') x 3, 'cut', 'overwritten', 'removed')
	{
		my $bytes = $damage{$kind}->(\%good, $place);

		put($node, $place, $bytes);
		refuses_alone('sonyflake', "$place, $kind: another layout is refused", $DIFFERS);
		finds_alone('twitter', "$place, $kind: its own layout finds the row");
	}
	put($node, $place, $good{$place});
}

# both pages may be of any time
put($node, $_, flip($good{$_}, 40)) for @PAGES;
refuses_alone($_, "both pages damaged: $_ is refused", qr/could not use page 0 of file "global/) for 'twitter', 'sonyflake';
put($node, $_, $good{$_}) for @PAGES;

# what the files say counts beside pages that were removed, and the other way round
put($node, $_, undef) for @PAGES;
refuses_alone('sonyflake', 'no pages: another layout is refused', $DIFFERS);
put($node, $_, $good{$_}) for @PAGES;
put($node, $_, undef) for @FILES;
refuses_alone('sonyflake', 'no files: another layout is refused', $DIFFERS);
put($node, $PAGES[0], undef);
put($node, $PAGES[1], flip($good{ $PAGES[1] }, 60));
$node->start;
fails_with($node, 'SELECT snowflake_nextval()', '58030', qr/cannot tell the layout of this server: could not use page 0 of file "\Q$PAGES[1]\E"/,
	'only a damaged page of the layout: it is named');
$node->stop;
put($node, $_, $good{$_}) for @FILES;

# one in the place of the other, both damaged, and the ways out
put($node, $_, undef) for @PAGES;
put($node, $FILES[0], $good{ $FILES[1] });
put($node, $FILES[1], $good{ $FILES[0] });
my $unknown = qr/cannot tell the layout of this server: could not use file "snowflake\.layout": it is not a layout record/;
refuses_alone($_, "files swapped: $_ is refused", $unknown) for 'twitter', 'sonyflake';
my $offset = -s $node->logfile;
$node->start;
fails_with($node, $LOOK, '58030', qr/$unknown.*HINT:  Stop the server, restore file "snowflake\.layout" from a backup, and start the server\./s,
	'files swapped: no look-up, and the way out');
is($node->safe_psql('postgres', "SELECT snowflake_shard($ID, 'twitter')"), 378, 'files swapped: an id is read by a named layout');
fails_with($node, 'SELECT snowflake_nextval()', '58030', qr/cannot tell the layout|cannot mint snowflake ids/, 'files swapped: no minting');
like(slurp_file($node->logfile, $offset), qr/LOG:  $unknown/, 'files swapped: the log says so');
$node->stop;
chmod(0, path($node, $FILES[1]));
$node->start;
fails_with($node, $LOOK, '58030',
	qr/could not open file "snowflake\.layout": Permission denied.*HINT:  Make the operating-system user of the server the owner of file "snowflake\.layout", with mode 0600, and restart the server\./s,
	'and the file of the layout is not the server\'s: the way out');
$node->stop;
chmod(0600, path($node, $FILES[1]));
put($node, $FILES[0], undef);
$node->start;
fails_with($node, $LOOK, '58030', $unknown, 'the horizon removed as its hint says: no look-up as long as the layout is not known');
$node->stop;
put($node, $FILES[1], $good{ $FILES[1] });
refuses_alone('sonyflake', 'a file restored: another layout is refused', $DIFFERS);

# --- while it runs as always, what is damaged is whole again

put($node, $FILES[0], $good{ $FILES[0] });
put($node, $FILES[1], flip($good{ $FILES[1] }, 30));
$offset = -s $node->logfile;
$node->start;
is($node->safe_psql('postgres', "$LOOK; SELECT snowflake_nextval() > 0"), "found 1\nt", 'the file of the layout damaged: all goes on');
like(slurp_file($node->logfile, $offset), qr/LOG:  could not use file "snowflake\.layout": its checksum is wrong.*\n.*The file is written again/,
	'the log says that it was');
ok(slurp_file(path($node, $FILES[1])) eq $good{ $FILES[1] }, 'and the file is whole again');
$node->stop;

# --- a standby that has the files of the time before a change of the layout

$node->start;
$node->backup('before');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'before', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $LOOK), 'found 1', 'a standby finds the row');

my %old = whole($node, @FILES);
$node->safe_psql('postgres', 'DROP TABLE photos');
restart_with_layout($node, 'sonyflake');
$node->safe_psql('postgres', by_shard('photos', 2) . "INSERT INTO photos VALUES ($ID)");
$node->wait_for_catchup($standby);
$node->stop;
$standby->stop;

my %received = whole($standby, @PAGES);
$damage{'the one before'} = sub { $good{ $_[1] } };    # of the layout before
for my $place (@PAGES)
{
	for my $kind (sort keys %damage)
	{
		my $bytes = $damage{$kind}->(\%received, $place);

		for my $layout ('twitter', 'sonyflake')
		{
			put($standby, $place, $bytes);
			$standby->append_conf('postgresql.conf', "snowflake.layout = '$layout'");
			$standby->start;
			$layout eq 'twitter'
			  ? fails_with($standby, $LOOK, '55000', $DIFFERS, "standby, $place, $kind: the layout before is refused")
			  : is($standby->safe_psql('postgres', $LOOK), 'found 1', "standby, $place, $kind: its primary's layout finds the row");
			$standby->stop;
		}
	}
	put($standby, $place, $received{$place});
}
put($standby, $_, flip($received{$_}, 60)) for @PAGES;
$standby->start;
fails_with($standby, $LOOK, '58030', qr/cannot tell the layout of the primary server: .*HINT:  Create the standby again/s, 'standby, both pages: refused');
$standby->promote;
fails_with($standby, $LOOK, '58030', qr/could not use page 0 of file "global/, 'and promoted so, refused');
$standby->stop;

# --- old copies of the primary's files, each beside the other as it is

%good = whole($node, @FILES);
put($node, $_, undef) for @PAGES;
for my $place (@FILES)
{
	put($node, $place, $old{$place});
	refuses_alone('twitter', "old $place: the layout before is refused", $DIFFERS);
	finds_alone('sonyflake', "old $place: the layout that was accepted finds the row");
	put($node, $place, $good{$place});
}
put($node, $FILES[1], $old{ $FILES[1] });
$node->start;
is($node->safe_psql('postgres', $LOOK), 'found 1', 'old snowflake.layout: the row is found');
ok(wait_until($node, "SELECT pg_read_binary_file('snowflake.layout') = '\\x" . unpack('H*', $good{ $FILES[1] }) . "'::bytea"),
	'and the file is written again');
$node->stop;

# --- a new server whose layout cannot be recorded reads no id by it

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
mkdir path($new, 'snowflake.layout.tmp') or die;
$new->start;
$new->safe_psql('postgres', 'CREATE EXTENSION snowflake');
fails_with($new, "SELECT snowflake_shard($ID)", '55000', qr/the layout of this server is not recorded yet.*HINT:  snowflake_check\(\) says why/s,
	'a layout that cannot be recorded is not used');
wait_until($new, 'SELECT last_error IS NOT NULL FROM snowflake_horizon()');
like($new->safe_psql('postgres', 'SELECT last_error FROM snowflake_horizon()'),
	qr/could not create file "snowflake\.layout\.tmp": Is a directory/, 'and snowflake_horizon() says why');
rmdir path($new, 'snowflake.layout.tmp') or die;
$new->restart;
is(mints_at_last($new, "SELECT snowflake_shard($ID)"), 378, 'when it is recorded, it is');
$new->stop;

# --- a page that cannot be opened: the way out is about that page, not about what was read before

for my $page (@PAGES)
{
	mkdir path($new, $page) or die;
	$new->start;
	wait_for_log($new, qr/LOG:  cannot [^\n]*could not open file "$page": Is a directory\n[^\n]*DETAIL:  [^\n]*\n[^\n]*HINT:  [^\n]* file "$page"/, 0, "$page is a directory");
	$new->stop;
	rmdir path($new, $page) or die;
}

# --- with leases, a call says so, too: none is asked for before the horizon is known

my $registry = new_registry('registry');
my $leasing = leasing_server('leasing', $registry, 'auto:2', '60s');
held_shards($leasing, 2);
mints($leasing, 1);
$leasing->stop('immediate');
my %whole = whole($leasing, $FILES[0]);
put($leasing, $FILES[0], $damage{overwritten}->(\%whole, $FILES[0]));
$leasing->start;
fails_with($leasing, q(SET statement_timeout = '60s'; SELECT snowflake_nextval()), '58030',
	qr/cannot mint snowflake ids: could not use file "snowflake.horizon": it is not a horizon record/, 'with leases, a damaged horizon is an error');
put($leasing, $FILES[0], $whole{ $FILES[0] });
is(mints_at_last($leasing, 'SELECT snowflake_nextval() > 0'), 't', 'and when it is good again, a shard is leased');
$leasing->stop;

# --- a record of leases that says how many it has, and has not as many, with whatever follows
$leasing->start;
ok(wait_until($leasing, q(SELECT state = 'held' FROM snowflake_lease_status())), 'a record of leases');
$leasing->stop('immediate');
my $record = $leasing->data_dir . '/snowflake.lease';
my $whole = slurp_file($record);
for my $count (3, 1000, 0x7fffffff, 0xffffffff)
{
	my $damaged = $whole;
	my $before = -s $leasing->logfile;

	substr($damaged, 360, 4) = pack('L', $count);
	open(my $file, '>:raw', $record) or die "could not write $record: $!";
	print $file $damaged;
	close($file);
	ok($leasing->start(fail_ok => 1), "$count leases: the server starts");
	wait_for_log($leasing, qr/its record of leases is damaged/, $before, 'and finds that its record is damaged');
	unlike(substr(slurp_file($leasing->logfile), $before), qr/terminated by signal/, 'and nothing crashes');
	$leasing->stop('immediate');
}
done_testing();
