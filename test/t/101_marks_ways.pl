# One name for one way: a mark speaks of the rows that came the same way.  Rows of one server
# come to a subscriber by two subscriptions, in several layouts.  In each, a transaction
# that minted early commits late and waits at the subscriber, while the other subscription
# goes on and brings a mark that is above it.  Readers by snowflake_least_mark() read each
# row once, or are told what to change; by the mark alone they miss the row.
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

my $TRANSACTIONS = $ENV{SNOWFLAKE_TRANSACTIONS} // 60;
my $conf = { conf => "max_prepared_transactions = 20\nsnowflake.clock_tolerance = 60s\nwal_retrieve_retry_interval = 500ms" };
my $paris = small_server('paris', '0', %$conf);
my $archive = small_server('archive', '9', %$conf);

# --- Each layout: its publications on paris and the tables with the names of their marks,
# --- the names that a reader gives, and a mark alone that passes the row

my $one_name = q{snowflake_marks WHERE (server = 'paris')};
my %layout = (
	'one name for both' => {
		dbname => 'one_name', names => 'paris', alone => 'paris',
		publications => { both_events => "events, $one_name", both_orders => "orders, $one_name" },
		refused => qr/the mark of server "paris" did not come with the rows of table "events"\nDETAIL:  Subscriptions that bring rows: both_events\. The mark came by another one\.\nHINT:  Publish a mark of its own for each publication: .* WHERE \(server = 'NAME'\)/ },
	'a name for each' => {
		dbname => 'each_has', names => 'paris/events', alone => 'paris/orders',
		publications => { events => q{events, snowflake_marks WHERE (server = 'paris/events')}, orders => q{orders, snowflake_marks WHERE (server = 'paris/orders')} } },
	'one table in two parts' => {
		dbname => 'parts', names => 'paris/late,paris/rest', alone => 'paris/rest',
		publications => { late => q{events WHERE (how = 'late'), snowflake_marks WHERE (server = 'paris/late')}, rest => q{events WHERE (how <> 'late'), snowflake_marks WHERE (server = 'paris/rest')} } },
	'one table in two parts, with one name' => {
		dbname => 'parts_of_one', names => 'paris', alone => 'paris',
		publications => { one_late => qq{events WHERE (how = 'late'), $one_name}, one_rest => qq{events WHERE (how <> 'late'), $one_name} },
		refused => qr/table "events" has rows of more servers than are named/ },
	'a server that is a subscriber, too' => {
		dbname => 'own', names => 'paris/own,archive', alone => 'archive', mints => 1,
		publications => { own => q{events, snowflake_marks WHERE (server = 'paris/own')} } });
my @published = qw(paris paris/events paris/orders paris/late paris/rest paris/own);
my $here = 'came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED';

create_events($paris);
$paris->safe_psql('postgres', 'CREATE TABLE orders (id snowflake PRIMARY KEY DEFAULT snowflake_nextval())');
for my $layout (map { $layout{$_} } sort keys %layout)
{
	my $dbname = $layout->{dbname};

	$archive->safe_psql('postgres', "CREATE DATABASE $dbname");
	$archive->safe_psql($dbname, <<"SQL");
CREATE EXTENSION snowflake;
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), how text NOT NULL);
$FIND_ENDS;
CREATE TABLE orders (id bigint PRIMARY KEY);
CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, $here);
SQL
	for my $name (sort keys %{ $layout->{publications} })
	{
		$paris->safe_psql('postgres', "CREATE PUBLICATION $name FOR TABLE $layout->{publications}{$name}");
	}
}

# --- A job publishes all names, and each layout is subscribed to

my $names = join(', ', map { "'$_'" } @published);
my $job = start_session($paris, "DO \$\$ BEGIN LOOP PERFORM snowflake_publish_mark(name) FROM unnest(ARRAY[$names]) AS name; COMMIT; PERFORM pg_sleep(0.02); END LOOP; END \$\$", errors => '/dev/null');
my $own_job = start_session($archive, "DO \$\$ BEGIN LOOP PERFORM snowflake_publish_mark('archive'); COMMIT; PERFORM pg_sleep(0.02); END LOOP; END \$\$", errors => '/dev/null', dbname => 'own');
ok(wait_until($paris, 'SELECT count(*) = ' . @published . ' FROM snowflake_marks'), 'marks are published');
for my $layout (map { $layout{$_} } sort keys %layout)
{
	my $copies = 1;

	for my $name (sort keys %{ $layout->{publications} })
	{
		# what comes twice can be copied once
		$archive->safe_psql($layout->{dbname}, sprintf("CREATE SUBSCRIPTION $name CONNECTION '%s' PUBLICATION $name WITH (copy_data = %s)",
				$paris->connstr . ' dbname=postgres', $copies ? 'true' : 'false'));
		$copies = $layout->{names} =~ /\//;
	}
	ok(wait_until_in($layout->{dbname}, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}), "$layout->{dbname}: all is copied");
}

sub wait_until_in
{
	my ($dbname, $query) = @_;
	return wait_for(sub { $archive->safe_psql($dbname, $query) eq 't' });
}

sub least
{
	my ($layout) = @_;
	return "SELECT snowflake_least_mark('events', '{$layout->{names}}')";
}

# --- Readers and writers, and a transaction that commits late

my %reader;
for my $name (sort keys %layout)
{
	my $layout = $layout{$name};
	my %options = (dbname => $layout->{dbname}, servers => $layout->{mints} ? 2 : 1);

	$reader{"$name, by the least mark"} = begin_reading($archive, least($layout), %options) unless $layout->{refused};
	$reader{"$name, by a mark alone"} = begin_reading($archive, "SELECT mark FROM snowflake_marks WHERE server = '$layout->{alone}'", %options);
}
my @writers = begin_events($paris, $TRANSACTIONS, 'p', writers => 1);
my @own_writers = start_session($archive, "DO \$\$ BEGIN FOR n IN 1 .. $TRANSACTIONS LOOP INSERT INTO events (how) VALUES ('own'); COMMIT; END LOOP; END \$\$", dbname => 'own');

# The transaction has minted, another one commits after it, and then it commits; but at
# the subscriber a row is in its way.
my ($late, $early);
my @in_the_way;

sub begin_late
{
	my (@dbnames) = @_;

	$late = $paris->safe_psql('postgres', q{BEGIN; INSERT INTO events (how) VALUES ('late') RETURNING id; PREPARE TRANSACTION 'late'});
	$early = $paris->safe_psql('postgres', q{INSERT INTO events (how) VALUES ('early') RETURNING id});
	@in_the_way = map { start_session($archive, "BEGIN; INSERT INTO events VALUES ($late, 'in the way'); SELECT pg_sleep(3600)", dbname => $_, errors => '/dev/null') } @dbnames;
	ok(wait_until($archive, q{SELECT count(*) = } . @dbnames . q{ FROM pg_stat_activity WHERE query LIKE '%pg\_sleep(3600)%' AND wait_event = 'PgSleep'}), 'a row is in the way')
	  or die 'it is not';
	$paris->safe_psql('postgres', q{COMMIT PREPARED 'late'});
	for my $dbname (@dbnames)
	{
		ok(wait_until_in($dbname, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND backend_type LIKE 'logical replication%worker' AND wait_event_type = 'Lock'}),
			"$dbname: the late row waits");
	}
	return;
}

sub end_late
{
	$archive->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg\_sleep(3600)%' AND pid <> pg_backend_pid()});
	finish_session($_) for @in_the_way;
	return;
}

begin_late(map { $_->{dbname} } values %layout);
for my $name (sort keys %layout)
{
	my $layout = $layout{$name};
	my $alone = $reader{"$name, by a mark alone"};

	# rows that come by the same subscription wait as well
	my $passed = $name =~ /parts/ ? $paris->safe_psql('postgres', q{SELECT min(id) FROM events WHERE how <> 'late' AND id > } . $late)
	  : $layout->{mints} ? $archive->safe_psql('own', q{INSERT INTO events (how) VALUES ('own') RETURNING id}) : $early;

	ok(wait_for(sub { grep { $_ == $passed } read_so_far($alone) }), "$name: by a mark alone a reader passes it");
	$layout->{refused}
	  ? fails_with($archive, least($layout), '\w{5}', $layout->{refused}, "$name: is refused", dbname => $layout->{dbname})
	  : is($archive->safe_psql($layout->{dbname}, "SELECT count(*) FROM events WHERE id >= $late AND id < (" . least($layout) . ')'), 0, "$name: the least mark does not");
}
end_late();

# --- To the end

end_events($paris, @writers);
finish_session($_) for @own_writers;
$archive->safe_psql('own', q{INSERT INTO events (how) VALUES ('end')});
for my $name (sort keys %reader)
{
	ok(finish_session($reader{$name}), "$name: the reader comes to its end") or diag($reader{$name}{err});
}
for my $name (sort keys %layout)
{
	my $dbname = $layout{$name}{dbname};
	my ($missed) = missed_by($archive, [ read_so_far($reader{"$name, by a mark alone"}) ], dbname => $dbname);

	cmp_ok($missed, '>', 0, "$name, by a mark alone, $missed rows are missed");
	all_are_read($archive, $name, [ read_so_far($reader{"$name, by the least mark"}) ], dbname => $dbname) unless $layout{$name}{refused};
}
fails_with($archive, q{SELECT snowflake_least_mark('events', '{paris/rest}')}, '22023',
	qr/DETAIL:  Servers named: paris\/rest\. Others whose marks come with the rows: paris\/late\. Subscriptions that bring rows: late, rest\./,
	'a part that is forgotten', dbname => 'parts');

# --- The wrong subscription is dropped: its last mark stays, and does not count until the
# --- right one has brought a newer one

my $mark_of = q{SELECT mark FROM snowflake_marks WHERE server = 'paris'};
begin_late('one_name');
ok(wait_until_in('one_name', "SELECT ($mark_of) > $early"), 'the other subscription has brought a mark');
end_sessions($paris, q{query ~ 'publish_mark'}, $job);
$paris->wait_for_catchup('both_orders');
$archive->safe_psql('one_name', 'DROP SUBSCRIPTION both_orders');
fails_with($archive, q{SELECT snowflake_least_mark('events', '{paris}')}, '55000', qr/did not come with the rows/, 'it is dropped, and its mark does not count', dbname => 'one_name');
end_late();
$paris->wait_for_catchup('both_events');
$paris->safe_psql('postgres', q{SELECT snowflake_publish_mark('paris')});
$paris->wait_for_catchup('both_events');
is($archive->safe_psql('one_name', q{SELECT count(*) FROM events WHERE id >= (SELECT snowflake_least_mark('events', '{paris}'))}), 0, 'that of the right one does');
end_sessions($archive, q{query ~ 'publish_mark'}, $own_job);

done_testing();
