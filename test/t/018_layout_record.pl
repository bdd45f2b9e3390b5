# The layout is recorded at the first start that preloads the library.  A server
# whose setting differs from its record neither mints, nor reads ids without a
# named layout, nor hashes them by shard; and a standby never reads by another
# layout than its primary's.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep);
use Test::More;

my $ID = '1541815603606036480';    # a Twitter id, of shard 378
my $REFUSAL = qr/this server has another layout than "snowflake.layout"/;

my %READS = (
	'mints'                      => 'SELECT snowflake_nextval(5)',
	'reads an id'                => "SELECT * FROM snowflake_decode($ID)",
	'casts an id to a time'      => "SELECT '$ID'::snowflake::timestamptz",
	'compares an id with a time' => "SELECT '$ID'::snowflake > now()",
	'looks for a row by shard'   => "SELECT * FROM photos WHERE id = $ID",
	'puts a row by shard'        => "INSERT INTO photos VALUES ($ID)",
);

sub set_layout
{
	my ($node, $layout) = @_;

	$node->append_conf('postgresql.conf', "snowflake.layout = '$layout'");
	$node->restart;
	return;
}

sub refuses
{
	my ($node, $name, @what) = @_;

	fails_with($node, $READS{$_}, '55000', $REFUSAL, "$name: it no longer $_") for @what ? @what : sort keys %READS;
	is($node->safe_psql('postgres', "SELECT shard FROM snowflake_decode($ID, 'twitter')"),
		'378', "$name: it reads an id of a named layout");
	return;
}

sub reads_as
{
	my ($node, $shard, $name) = @_;

	is($node->safe_psql('postgres', "SELECT snowflake_shard($ID)"), $shard, $name);
	return;
}

# --- ids that were not minted here, as on a subscriber or after a restored dump

my $node = new_server('holder', init => { allows_streaming => 1 }, conf => '');
$node->safe_psql('postgres', by_shard('photos', 3) . "INSERT INTO photos VALUES ($ID)");
set_layout($node, 'sonyflake');
refuses($node, 'a server that never minted');
ok(wait_for(sub { slurp_file($node->logfile) =~ /LOG:  this server has another layout than "snowflake\.layout"\n.*DETAIL:  "snowflake\.layout" is / }), 'the log says so, too');
is($node->safe_psql('postgres', 'SELECT horizon IS NULL AND incarnation IS NOT NULL FROM snowflake_horizon()'),
	't', 'it has an incarnation, and no horizon');

# the log tells so even where nothing can be stored
my $obstacle = $node->data_dir . '/snowflake.layout.tmp';
$node->stop;
mkdir $obstacle or die;
my $offset = -s $node->logfile;
$node->start;
ok(wait_until($node, 'SELECT last_error IS NOT NULL FROM snowflake_horizon()'), 'its layout cannot be stored');
like(slurp_file($node->logfile, $offset), qr/LOG:  this server has another layout/, 'the log tells which it is, too');
rmdir $obstacle or die;
set_layout($node, 'twitter');
is(count_of($node, "photos WHERE id = $ID"), 1, 'with the layout set back, the row is found');
fails_with($node, "INSERT INTO photos VALUES ($ID)", '23505', qr/duplicate key/, 'and its id cannot be stored again');

# --- a standby made before a change of the layout

sub new_standby
{
	my ($name, $conf) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$node->backup($name);
	$standby->init_from_backup($node, $name, has_streaming => 1);
	$standby->append_conf('postgresql.conf', $conf);
	$standby->start;
	return $standby;
}

my @reading = grep { !/mints|puts/ } sort keys %READS;
my $before = new_standby('before', '');
my $promoted = new_standby('promoted', '');
reads_as($_, 378, $_->name . ' reads as its primary does') for $before, $promoted;

$node->safe_psql('postgres', 'DROP TABLE photos');
$node->append_conf('postgresql.conf', "snowflake.layout = 'sonyflake'");
$node->restart;
$node->safe_psql('postgres', 'SELECT snowflake_accept_layout(); ' . by_shard('photos', 1));
$node->wait_for_catchup($_) for $before, $promoted;
my $ours = $node->safe_psql('postgres', "SELECT snowflake_shard($ID)");
isnt($ours, 378, 'the primary reads by its new layout');
refuses($before, 'a standby that replayed the change', @reading);
$before->append_conf('postgresql.conf', "snowflake.layout = 'sonyflake'");
$before->restart;
reads_as($before, $ours, 'with the new setting it reads as its primary does');

# a session that read before the change was replayed does not read on
my $session = $before->background_psql('postgres', on_error_stop => 0) if $before->can('background_psql');
SKIP:
{
	skip 'this server has no background psql', 2 unless $session;
	like($session->query("SELECT snowflake_shard($ID)"), qr/^$ours$/, 'a session reads');
	restart_with_layout($node, 'twitter');
	$node->wait_for_catchup($before);
	$session->query("SELECT snowflake_shard($ID)");
	like($session->{stderr}, $REFUSAL, 'and refuses in the same session when the layout has changed');
	$session->quit;
	restart_with_layout($node, 'sonyflake');
	$node->wait_for_catchup($_) for $before, $promoted;
}

# --- promoted right after the change, with the old setting: not one answer by
# --- the old layout, neither before, nor while, nor after it is promoted

my $answers = start_session($promoted, <<"SQL");
\\set ON_ERROR_STOP off
@{[ "SELECT 'answer ' || snowflake_shard($ID);\n" x 3000 ]}
SQL
$promoted->promote;
finish_session($answers);
unlike($answers->{out}, qr/answer/, 'a standby with the old setting answers nothing while it is promoted');
like($answers->{err}, $REFUSAL, 'it refuses');
refuses($promoted, 'promoted with the old setting', @reading, 'mints');
set_layout($promoted, 'sonyflake');
reads_as($promoted, $ours, 'promoted, with the new setting it reads');
like(mints_at_last($promoted, 'SELECT snowflake_nextval(5)'), qr/^\d+$/, 'and mints');

# --- a standby made after the change

my $after = new_standby('after', "snowflake.layout = 'twitter'");
refuses($after, 'a standby made after the change', @reading);
$after->append_conf('postgresql.conf', "snowflake.layout = 'sonyflake'");
$after->restart;
reads_as($after, $ours, 'with its primary\'s setting it reads');

# --- a standby that is older than the library on its primary

my $late = PostgreSQL::Test::Cluster->new('late');
$late->init(allows_streaming => 1);
$late->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$late->start;
$node = $late;
my $early = new_standby('early', "shared_preload_libraries = 'snowflake'\nsnowflake.layout = 'discord'");
$late->safe_psql('postgres', 'CREATE EXTENSION snowflake');
$late->wait_for_catchup($early);
fails_with($early, "SELECT snowflake_shard($ID)", '55000',
	qr/the layout of the primary server is not known.*HINT:  Preload snowflake on the primary server, or name the layout/s,
	'without any record a standby does not read');
is($early->safe_psql('postgres', "SELECT snowflake_shard($ID, 'twitter')"), '378', 'but by a layout that is named');
$late->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'");
$late->restart;
ok(wait_until($late, 'SELECT incarnation IS NOT NULL FROM snowflake_horizon()'), 'the primary records its layout');
$late->wait_for_catchup($early);
refuses($early, 'a standby that receives the first record', 'reads an id');

done_testing();
