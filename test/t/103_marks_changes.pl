# What changes around marks that travel: a child whose rows are copied later, a partition
# that is attached later, a server or a table that comes to a publication, a server that is
# gone, a name that changes or is misspelt, a dump.  A reader by snowflake_least_mark() reads each
# row once, or is told what to change; and the recipes of doc/pagination.md work.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use ManyServers;
use MarksTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $paris = small_server('paris', '0');
my $tokyo = small_server('tokyo', '1');
my $archive = small_server('archive', '9', conf => 'wal_retrieve_retry_interval = 500ms');
my $marks = 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, '
  . 'came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED);';

# On all: tables, and on those that mint publications; rows that are there before
my $tables = <<"SQL";
CREATE TABLE events (id snowflake PRIMARY KEY, how text NOT NULL);
CREATE TABLE events_child (PRIMARY KEY (id)) INHERITS (events);
CREATE TABLE orders (id snowflake PRIMARY KEY);
CREATE TABLE visits (id snowflake, kind text, PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
CREATE TABLE visits_web PARTITION OF visits FOR VALUES IN ('web');
CREATE TABLE calls (id snowflake, kind text, PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
CREATE TABLE calls_web PARTITION OF calls FOR VALUES IN ('web');
$marks
SQL
$_->safe_psql('postgres', $tables) for $paris, $tokyo, $archive;
$paris->safe_psql('postgres', <<'SQL');
INSERT INTO events SELECT snowflake_nextval(), 'before' FROM generate_series(1, 100);
INSERT INTO events_child SELECT snowflake_nextval(), 'before' FROM generate_series(1, 100);
INSERT INTO visits VALUES (snowflake_nextval(), 'web');
INSERT INTO calls VALUES (snowflake_nextval(), 'web');
CREATE PUBLICATION events FOR TABLE events, snowflake_marks WHERE (server = 'paris');
CREATE PUBLICATION visits FOR TABLE visits, snowflake_marks WHERE (server = 'paris/visits');
CREATE PUBLICATION calls FOR TABLE calls, snowflake_marks WHERE (server = 'paris/calls') WITH (publish_via_partition_root = true);
SQL
$tokyo->safe_psql('postgres', <<'SQL');
INSERT INTO events SELECT snowflake_nextval(), 'of tokyo' FROM generate_series(1, 100);
CREATE PUBLICATION all_of_tokyo FOR TABLE orders, snowflake_marks WHERE (server = 'tokyo');
SQL

# Publish a mark above all that is there, and wait until it has arrived.
sub publish
{
	my ($node, $name, $subscription) = @_;
	my $newest = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');

	ok(wait_until($node, "SELECT snowflake_publish_mark('$name') > $newest"), "$name is published");
	$node->wait_for_catchup($subscription);
	return;
}

sub subscribe
{
	my ($node, $subscription, $publication) = @_;

	$archive->safe_psql('postgres', sprintf("CREATE SUBSCRIPTION $subscription CONNECTION '%s' PUBLICATION $publication", $node->connstr . ' dbname=postgres'));
	return;
}

sub is_copied
{
	my ($name) = @_;
	return ok(wait_until($archive, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}), "$name is copied");
}

# The next rows of a reader, which keeps its last id.
my %last;

sub poll
{
	my ($table, $names) = @_;
	my $last = $last{$table} // 0;
	my @ids = split(/\n/, $archive->safe_psql('postgres',
		"SELECT id FROM $table WHERE id > $last AND id < (SELECT snowflake_least_mark('$table', '{$names}')) ORDER BY id"));

	$last{$table} = $ids[-1] if @ids;
	return scalar(@ids);
}

my $least = q{SELECT snowflake_least_mark('events', '{%s}')};
my $is_null = q{SELECT snowflake_least_mark('events', '{%s}') IS NULL};

# --- A child is copied later than its parent

my $first = $paris->safe_psql('postgres', 'SELECT min(id) FROM events_child');
$archive->safe_psql('postgres', "INSERT INTO events_child VALUES ($first, 'in the way')");
$paris->safe_psql('postgres', qq{SELECT snowflake_publish_mark('paris$_')}) for '', '/visits', '/calls';
subscribe($paris, 'from_paris', 'events');
ok(wait_until($archive, q{SELECT count(*) FILTER (WHERE srsubstate = 'r') = 2 FROM pg_subscription_rel}), 'the parent is copied, and the marks');
publish($paris, 'paris', 'from_paris');
is($archive->safe_psql('postgres', sprintf($is_null, 'paris')), 't', 'until the child is copied there is no mark');
$archive->safe_psql('postgres', "DELETE FROM events_child WHERE id = $first");
is_copied('the child');
is(poll('events', 'paris'), 200, 'then all is read');

# --- A partition is attached later

subscribe($paris, 'visits_of_paris', 'visits');
subscribe($paris, 'calls_of_paris', 'calls');
is_copied('a partition');
publish($paris, "paris/$_", "${_}_of_paris") for 'visits', 'calls';
is(poll($_, "paris/$_"), 1, "$_: the first is read") for 'visits', 'calls';

# with rows, and then it is refreshed: they are below what is read meanwhile
$_->safe_psql('postgres', q{CREATE TABLE visits_app PARTITION OF visits FOR VALUES IN ('app')}) for $archive, $paris;
$paris->safe_psql('postgres', q{INSERT INTO visits VALUES (snowflake_nextval(), 'app'); INSERT INTO visits VALUES (snowflake_nextval(), 'web')});
publish($paris, 'paris/visits', 'visits_of_paris');
is(poll('visits', 'paris/visits'), 1, 'of two rows, that of the partition that is known is read');
$archive->safe_psql('postgres', 'ALTER SUBSCRIPTION visits_of_paris REFRESH PUBLICATION');
is_copied('the new partition');
publish($paris, 'paris/visits', 'visits_of_paris');
is(poll('visits', 'paris/visits'), 0, 'the other one is missed');

# empty, and refreshed before a row comes
$_->safe_psql('postgres', q{CREATE TABLE visits_tv PARTITION OF visits FOR VALUES IN ('tv')}) for $archive, $paris;
$archive->safe_psql('postgres', 'ALTER SUBSCRIPTION visits_of_paris REFRESH PUBLICATION');
is_copied('a partition that is empty');
$paris->safe_psql('postgres', q{INSERT INTO visits VALUES (snowflake_nextval(), 'tv'); INSERT INTO visits VALUES (snowflake_nextval(), 'web')});
publish($paris, 'paris/visits', 'visits_of_paris');
is(poll('visits', 'paris/visits'), 2, 'an empty one that was refreshed: both are read');

# by way of the root, a new partition needs nothing
$_->safe_psql('postgres', q{CREATE TABLE calls_app PARTITION OF calls FOR VALUES IN ('app')}) for $archive, $paris;
$paris->safe_psql('postgres', q{INSERT INTO calls VALUES (snowflake_nextval(), 'app'); INSERT INTO calls VALUES (snowflake_nextval(), 'web')});
publish($paris, 'paris/calls', 'calls_of_paris');
is(poll('calls', 'paris/calls'), 2, 'by way of the root: both are read');

# --- A server comes: its mark is here for another table

subscribe($tokyo, 'from_tokyo', 'all_of_tokyo');
is_copied('another table of tokyo');
publish($tokyo, 'tokyo', 'from_tokyo');
fails_with($archive, sprintf($least, 'paris,tokyo'), '55000',
	qr/the mark of server "tokyo" did not come with the rows of table "events"/, 'a mark of another table does not count');
$archive->safe_psql('postgres', sprintf('INSERT INTO events VALUES (%s, $$in the way$$)', $tokyo->safe_psql('postgres', 'SELECT min(id) FROM events')));
$tokyo->safe_psql('postgres', 'ALTER PUBLICATION all_of_tokyo ADD TABLE events, events_child');
$archive->safe_psql('postgres', 'ALTER SUBSCRIPTION from_tokyo REFRESH PUBLICATION');
is($archive->safe_psql('postgres', sprintf($is_null, 'paris,tokyo')), 't', 'nor while the table is copied');
$archive->safe_psql('postgres', q{DELETE FROM events WHERE how = 'in the way'});
is_copied('the table');
fails_with($archive, sprintf($least, 'paris'), '22023',
	qr/Servers named: paris\. Others whose marks come with the rows: tokyo\. Subscriptions that bring rows: from_paris, from_tokyo\./, 'then the server must be named');
publish($tokyo, 'tokyo', 'from_tokyo');
publish($paris, 'paris', 'from_paris');
my $old = $archive->safe_psql('postgres', "SELECT count(*) FROM events WHERE id <= $last{events} AND snowflake_shard(id) = 1");
is($old + poll('events', 'paris,tokyo'), 100, 'its old rows are read by its shard, the others by the mark');

# --- A name that is misspelt; one that changes

fails_with($archive, sprintf($least, 'paris,tokio'), '42704',
	qr/there is no mark of server "tokio"\nDETAIL:  The table public\.snowflake_marks has those of: paris, paris\/calls, paris\/visits, tokyo\.\nHINT:  Name servers as/, 'a misspelt name');
$paris->safe_psql('postgres', q{ALTER PUBLICATION events SET TABLE events, events_child, snowflake_marks WHERE (server = 'lutetia')});
publish($paris, 'lutetia', 'from_paris');
fails_with($archive, sprintf($least, 'paris,tokyo'), '22023', qr/Others whose marks come with the rows: lutetia\./, 'a new name is not the old one');
$archive->safe_psql('postgres', q{DELETE FROM snowflake_marks WHERE server = 'paris'});
$paris->safe_psql('postgres', q{DELETE FROM snowflake_marks WHERE server = 'paris'; INSERT INTO events VALUES (snowflake_nextval(), 'of lutetia')});
publish($tokyo, 'tokyo', 'from_tokyo');
publish($paris, 'lutetia', 'from_paris');
publish($tokyo, 'tokyo', 'from_tokyo');
is(poll('events', 'lutetia,tokyo'), 1, 'under the new name, reading goes on');

# --- A server that is gone

$tokyo->stop;
$archive->safe_psql('postgres', 'ALTER SUBSCRIPTION from_tokyo DISABLE; ALTER SUBSCRIPTION from_tokyo SET (slot_name = NONE); DROP SUBSCRIPTION from_tokyo');
fails_with($archive, sprintf($least, 'lutetia,tokyo'), '55000', qr/the mark of server "tokyo" did not come with the rows/, 'a server that is gone has no mark any more');
$archive->safe_psql('postgres', q{DELETE FROM snowflake_marks WHERE server = 'tokyo'});
$paris->safe_psql('postgres', q{INSERT INTO events VALUES (snowflake_nextval(), 'without tokyo')});
publish($paris, 'lutetia', 'from_paris');
is(poll('events', 'lutetia'), 1, 'without its name, reading goes on');

# --- A dump of the subscriber has marks that are true of its rows

my $file = $archive->basedir . '/dump';
$archive->command_ok([ 'pg_dump', '--no-sync', '--no-subscriptions', '-f', $file, '-d', $archive->connstr('postgres') ], 'dumped');
$archive->safe_psql('postgres', 'CREATE DATABASE restored');
$archive->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $archive->connstr('restored'), '-f', $file ], 'and restored');
is( $archive->safe_psql('restored', q{SELECT count(*) FROM events WHERE id < (SELECT snowflake_least_mark('events', '{lutetia}'))}),
	$archive->safe_psql('postgres', 'SELECT count(*) FROM events'), 'all rows are below its mark');

# --- The default name changes with that of the database

my $finds = q{SELECT finding || ' ' || next_step FROM snowflake_check() WHERE finding ~ 'under names'};
$paris->safe_psql('postgres', 'CREATE DATABASE shop');
$paris->safe_psql('shop', "CREATE EXTENSION snowflake; $marks SELECT snowflake_publish_mark()");
is($paris->safe_psql('shop', $finds), '', 'a default name is no finding');
my $name = $paris->safe_psql('shop', 'SELECT server FROM snowflake_marks');
$paris->safe_psql('postgres', 'ALTER DATABASE shop RENAME TO store');
my (undef, undef, $notice) = $paris->psql('store', 'SELECT snowflake_publish_mark()');
like($notice, qr/NOTICE:  the mark of "\d+\/store" begins, beside "\Q$name\E"\nDETAIL:  By itself, a mark has the name of the server and of the database\..*\nHINT:  Let readers go by the new name, and delete the old row\./,
	'after the database was renamed, a notice has the old name');
(undef, undef, $notice) = $paris->psql('store', 'SELECT snowflake_publish_mark()');
is($notice, '', 'once');
like($paris->safe_psql('store', $finds), qr/table public\.snowflake_marks has marks under names .*: '\Q$name\E' If one .*: DELETE FROM public\.snowflake_marks WHERE server IN \('\Q$name\E'\);/, 'it is a finding');
$paris->safe_psql('store', "DELETE FROM snowflake_marks WHERE server = '$name'");
is($paris->safe_psql('store', $finds), '', 'until the row is deleted');
is($archive->safe_psql('postgres', $finds), '', 'names that a subscription brought are none');

done_testing();
