# Marks that travel by logical replication: a subscriber of one server, and one that
# merges three into one table.  Rows are written in many ways before, during and
# after the initial synchronization; the subscriber and a publisher crash.  Readers by
# snowflake_least_mark() read each row once.  By the last id alone rows are missed,
# and so they are by the marks alone, without a look at what is copied still.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use ManyServers;
use MarksTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $TRANSACTIONS = $ENV{SNOWFLAKE_TRANSACTIONS} // 100;
my @names = qw(paris tokyo lima);
my $prepares = { conf => "max_prepared_transactions = 20\nsnowflake.clock_tolerance = 60s" };
my %server = map { $names[$_] => small_server($names[$_], $_, %$prepares) } 0 .. $#names;
my $archive = small_server('archive', '9', conf => "$prepares->{conf}\nwal_retrieve_retry_interval = 500ms");
my $list = join(', ', map { "'$_'" } @names);
my $least = "SELECT snowflake_least_mark('events', ARRAY[$list])";

create_events($_) for values %server;
$archive->safe_psql('postgres', 'CREATE DATABASE one');
$archive->safe_psql('one', 'CREATE EXTENSION snowflake');
$archive->safe_psql($_, "CREATE TABLE events (id bigint PRIMARY KEY, how text); $FIND_ENDS; "
	  . 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED)')
  for 'postgres', 'one';

sub subscribe
{
	my ($name, $database, %options) = @_;

	$archive->safe_psql($database, sprintf(
			"CREATE SUBSCRIPTION ${database}_$name CONNECTION '%s' PUBLICATION events WITH (two_phase = %s)",
			$server{$name}->connstr . ' dbname=postgres', $options{two_phase} ? 'true' : 'false'));
	return;
}

# Many rows that are there already, and some marks
for my $name (@names)
{
	$server{$name}->safe_psql('postgres', <<"SQL");
INSERT INTO events (how) SELECT 'before' FROM generate_series(1, 20000);
SELECT snowflake_publish_mark('$name');
CREATE PUBLICATION events FOR TABLE events, snowflake_marks;
SQL
}

# --- Until a table is copied no mark counts

my @publishers = map { begin_publishing($server{$_}, $_, errors => '/dev/null') } @names;
my @writers = map { [ begin_events($server{$_}, 100 * $TRANSACTIONS, $_, errors => '/dev/null') ] } qw(paris tokyo);

# lima's rows cannot be copied for now, as one is there already; and its mark comes
my $in_the_way = $server{lima}->safe_psql('postgres', 'SELECT min(id) FROM events');
$archive->safe_psql('postgres', "INSERT INTO events VALUES ($in_the_way, 'in the way')");
subscribe($_, 'postgres', two_phase => $_ eq 'tokyo') for @names;
subscribe('paris', 'one');
my %reader = (
	'by the least mark' => begin_reading($archive, $least, servers => 3),
	'by the marks alone' => begin_reading($archive, "SELECT min(mark) FROM snowflake_marks WHERE server IN ($list) HAVING count(*) = 3", servers => 3),
	'by the last id alone' => begin_reading($archive, '', servers => 3),
	'of one, by the least mark' => begin_reading($archive, "SELECT snowflake_least_mark('events', '{paris}')", dbname => 'one'),
	'of one, by the last id alone' => begin_reading($archive, '', dbname => 'one'));
ok( wait_until($archive, q{SELECT count(*) FILTER (WHERE srsubstate = 'r') = 5 AND count(*) FILTER (WHERE srsubstate <> 'r') = 1 FROM pg_subscription_rel}),
	'all tables but one are copied') or die 'there is nothing to look at';
ok(wait_until($archive, 'SELECT count(*) = 3 FROM snowflake_marks'), 'the mark of its server is here') or die 'it does not come';
is($archive->safe_psql('postgres', $least), '', 'and does not count');
is($archive->safe_psql('postgres', q{SELECT snowflake_least_mark('events', '{lima,a,b}') IS NULL}), 't', 'nor does it by itself');
# until whoever goes by the marks alone has passed the rows that are still to come
my $passed = $server{lima}->safe_psql('postgres', 'SELECT max(id) FROM events');
wait_for(sub { ((read_so_far($reader{'by the marks alone'}))[-1] // 0) > $passed });
is(scalar(() = read_so_far($reader{'by the least mark'})), 0, 'so nothing is read');
$archive->safe_psql('postgres', "DELETE FROM events WHERE id = $in_the_way");
push @writers, [ begin_events($server{lima}, $TRANSACTIONS, 'lima') ];
ok(wait_until($archive, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}), 'all tables are copied');
# three times 20,000 were there before
ok(wait_for(sub { (() = read_so_far($reader{'by the least mark'})) > 61000 }), 'then all are read');

# --- Crashes: a publisher, and the subscriber

sub restart
{
	my ($node) = @_;

	$node->stop('immediate');
	$node->start;
	return;
}

restart($server{paris});
finish_session($_) for @{ shift @writers }, shift @publishers;
# what was being prepared at that moment would hold the mark for ever
for my $gid (split(/\n/, $server{paris}->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts')))
{
	$server{paris}->safe_psql('postgres', "ROLLBACK PREPARED '$gid'");
}
unshift @publishers, begin_publishing($server{paris}, 'paris');
unshift @writers, [ begin_events($server{paris}, $TRANSACTIONS, 'paris again') ];

my %ids;
restart($archive);
for my $name (sort keys %reader)
{
	my $dbname = $name =~ /of one/ ? 'one' : 'postgres';
	my ($mark) = $name =~ /least/ ? ($dbname eq 'one' ? "SELECT snowflake_least_mark('events', '{paris}')" : $least)
	  : $name =~ /marks/ ? "SELECT min(mark) FROM snowflake_marks WHERE server IN ($list) HAVING count(*) = 3" : '';

	finish_session($reader{$name});
	$ids{$name} = [ read_so_far($reader{$name}) ];
	$reader{$name} = begin_reading($archive, $mark, dbname => $dbname, servers => $dbname eq 'one' ? 1 : 3, last => $ids{$name}[-1] // 0);
}

# --- To the end: tokyo, which would go on for long, is ended

end_sessions($server{tokyo}, q{query !~ 'publish'}, @{ $writers[1] });
for my $gid (split(/\n/, $server{tokyo}->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts')))
{
	$server{tokyo}->safe_psql('postgres', "COMMIT PREPARED '$gid'");
}
end_events($server{tokyo});
end_events($server{lima}, @{ $writers[2] });
finish_session($publishers[1]);
finish_session($publishers[2]);

# lima and tokyo are idle from now on, and their marks go on: neither has a second row "end"
@publishers[ 1, 2 ] = map { begin_publishing($server{$_}, $_, ends => 2, errors => '/dev/null') } qw(tokyo lima);

# one that commits late, however fast the readers are
$server{paris}->safe_psql('postgres', q{BEGIN; INSERT INTO events (how) VALUES ('late'); PREPARE TRANSACTION 'late'});
my $early = $server{paris}->safe_psql('postgres', q{INSERT INTO events (how) VALUES ('early') RETURNING id});
ok(wait_for(sub { grep { $_ == $early } read_so_far($reader{'of one, by the last id alone'}) }), 'by the last id alone, one that is not committed is passed');
$server{paris}->safe_psql('postgres', q{COMMIT PREPARED 'late'});
end_events($server{paris}, @{ $writers[0] });
for my $name (sort keys %reader)
{
	ok(finish_session($reader{$name}), "$name: the reader comes to its end") or diag($reader{$name}{err});
	push @{ $ids{$name} }, read_so_far($reader{$name});
}
my $rows = 0;
$rows += count_of($_, 'events') for values %server;
is(count_of($archive, 'events'), $rows, "the subscriber has the $rows rows of all");
all_are_read($archive, 'three, by the least mark', $ids{'by the least mark'});
all_are_read($archive, 'one, by the least mark', $ids{'of one, by the least mark'}, dbname => 'one');
for my $name ('by the marks alone', 'by the last id alone', 'of one, by the last id alone')
{
	my ($missed) = missed_by($archive, $ids{$name}, dbname => $name =~ /of one/ ? 'one' : 'postgres');

	cmp_ok($missed, '>', 0, "$name, $missed rows are missed");
}

# --- What cannot be right is an error

fails_with($archive, q{SELECT snowflake_least_mark('events', '{paris,tokyo}')}, '22023',
	qr/table "events" has rows of more servers than are named\nDETAIL:  Servers named: paris, tokyo\. Others whose marks come with the rows: lima\. Subscriptions that bring rows: postgres_lima, postgres_paris, postgres_tokyo\.\nHINT:  Name each server/,
	'a server that was forgotten');
$server{lima}->safe_psql('postgres', 'ALTER PUBLICATION events DROP TABLE snowflake_marks');
$archive->safe_psql('postgres', 'ALTER SUBSCRIPTION postgres_lima REFRESH PUBLICATION');
fails_with($archive, $least, '55000',
	qr/no marks come with the rows of table "events"\nDETAIL:  They come by subscriptions without the table public\.snowflake_marks: postgres_lima\.\nHINT:  Add that table to the publication/,
	'a subscription that brings no marks');
$archive->safe_psql('postgres', 'CREATE TABLE parted (id bigint PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parted DEFAULT');
fails_with($archive, q{SELECT snowflake_least_mark('parted', '{tokyo,paris}')}, '55000',
	qr/the mark of server "paris" did not come with the rows of table "parted"\nDETAIL:  Subscriptions that bring rows: none\./,
	'a table that no subscription fills: it names the first server');
$server{paris}->safe_psql('postgres', 'CREATE TABLE part (id bigint PRIMARY KEY); CREATE PUBLICATION parts FOR TABLE part');
$archive->safe_psql('postgres', sprintf(q{CREATE SUBSCRIPTION parts CONNECTION '%s' PUBLICATION parts}, $server{paris}->connstr . ' dbname=postgres'));
for my $relation ('parted', 'part')
{
	fails_with($archive, "SELECT snowflake_least_mark('$relation', '{paris}')", '55000', qr/no marks come with the rows of table "$relation"/,
		"$relation: partitions are looked at, too");
}

# --- A dump has the marks, which are true of its rows

my $file = $server{paris}->basedir . '/dump';
$server{paris}->safe_psql('postgres', q{SELECT snowflake_publish_mark('paris'); SELECT snowflake_publish_mark()});
$server{paris}->command_ok([ 'pg_dump', '--no-sync', '-f', $file, '-d', $server{paris}->connstr('postgres') ], 'dumped');
$server{paris}->safe_psql('postgres', 'CREATE DATABASE restored');
$server{paris}->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $server{paris}->connstr('restored'), '-f', $file ], 'and restored');
is($server{paris}->safe_psql('restored', q{SELECT tablename FROM pg_publication_tables WHERE pubname = 'events' ORDER BY 1}), "events\nsnowflake_marks", 'with the publication');
is($server{paris}->safe_psql('restored', q{SELECT count(*) = (SELECT count(*) FROM events) FROM events WHERE id < (SELECT mark FROM snowflake_marks WHERE server = 'paris')}), 't', 'the rows are below the mark');
is($server{paris}->safe_psql('restored', q{INSERT INTO events (how) VALUES ('new'); SELECT max(id) > (SELECT max(mark) FROM snowflake_marks) FROM events}), 't', 'and a new one is not');
is($server{paris}->safe_psql('restored', q{SELECT snowflake_publish_mark(); SELECT count(*) FROM snowflake_marks WHERE server ~ '/(postgres|restored)$'}) =~ s/^\d+\n//r, 2, 'by itself, its mark has a name of its own');

done_testing();
