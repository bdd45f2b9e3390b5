# A hub merges the rows of two servers and sends them on.  It publishes a mark of its own: that
# of what it has got.  A reader behind it reads each row once, while the hub still copies what
# one server has, and while a row of that server waits there.  Behind one that sends the
# servers' own marks on, rows are missed; and where the mark of a server also comes directly,
# with other rows, it is refused.

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
my $tokyo = small_server('tokyo', '1', %$conf);
my $hub = small_server('hub', '2', %$conf);
my $archive = small_server('archive', '9', %$conf);
my $tables = "CREATE TABLE events (id bigint PRIMARY KEY, how text); $FIND_ENDS; " . 'CREATE TABLE orders (id bigint PRIMARY KEY);'
  . 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, '
  . 'came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED);';

sub job
{
	my ($node, $sql) = @_;
	return start_session($node, "DO \$\$ BEGIN LOOP $sql; COMMIT; PERFORM pg_sleep(0.02); END LOOP; END \$\$", errors => '/dev/null');
}

sub subscribe
{
	my ($node, $name, $publisher, $publication, %options) = @_;

	$node->safe_psql($options{dbname} // 'postgres', sprintf("CREATE SUBSCRIPTION $name CONNECTION '%s' PUBLICATION $publication", $publisher->connstr . ' dbname=postgres'));
	return;
}

sub wait_until_in
{
	my ($node, $dbname, $query) = @_;
	return wait_for(sub { $node->safe_psql($dbname, $query) eq 't' });
}

# --- The servers, the hub, and the databases behind it

for my $node ($paris, $tokyo)
{
	create_events($node);
	$node->safe_psql('postgres', q{CREATE TABLE orders (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
		INSERT INTO events (how) SELECT 'before' FROM generate_series(1, 1000);
		CREATE PUBLICATION events FOR TABLE events, snowflake_marks; CREATE PUBLICATION orders FOR TABLE orders, snowflake_marks});
}
my @jobs = map { job($_, 'PERFORM snowflake_publish_mark(\'' . $_->name . '\')') } $paris, $tokyo;
ok(wait_until($_, 'SELECT count(*) = 1 FROM snowflake_marks'), $_->name . ' publishes') for $paris, $tokyo;
$hub->safe_psql('postgres', $tables . q{
	CREATE PUBLICATION hub FOR TABLE events, snowflake_marks WHERE (server = 'hub');
	CREATE PUBLICATION relay FOR TABLE events, snowflake_marks WHERE (server <> 'hub')});
# also while it is refused
push @jobs, job($hub, <<'SQL');
BEGIN
    INSERT INTO snowflake_marks
    SELECT 'hub', mark, clock_timestamp() FROM snowflake_least_mark('events', '{paris,tokyo}') AS mark WHERE mark IS NOT NULL
        ON CONFLICT (server) DO UPDATE SET mark = excluded.mark, published_at = excluded.published_at;
EXCEPTION WHEN undefined_object OR object_not_in_prerequisite_state OR invalid_parameter_value THEN
END
SQL
my %behind = (hubbed => 'hub', relayed => 'relay', twice => 'relay');
for my $dbname (sort keys %behind)
{
	$archive->safe_psql('postgres', "CREATE DATABASE $dbname");
	$archive->safe_psql($dbname, "CREATE EXTENSION snowflake; $tables");
	subscribe($archive, $dbname, $hub, $behind{$dbname}, dbname => $dbname);
	ok(wait_until_in($archive, $dbname, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}), "$dbname: all is copied");
}

# --- The hub gets what tokyo has.  What paris has it cannot copy for now; but its mark comes

my $first = $paris->safe_psql('postgres', 'SELECT min(id) FROM events');
$hub->safe_psql('postgres', "INSERT INTO events VALUES ($first, 'in the way')");
subscribe($hub, 'from_paris', $paris, 'events');
subscribe($hub, 'from_tokyo', $tokyo, 'events');
my %reader = (
	hubbed => begin_reading($archive, q{SELECT snowflake_least_mark('events', '{hub}')}, dbname => 'hubbed', servers => 2),
	relayed => begin_reading($archive, q{SELECT min(mark) FROM snowflake_marks HAVING count(*) = 2}, dbname => 'relayed', servers => 2));
ok(wait_until($hub, q{SELECT count(*) FILTER (WHERE srsubstate = 'r') = 3 AND count(*) = 4 FROM pg_subscription_rel}), 'all tables but one are copied');
my $after = $tokyo->safe_psql('postgres', q{INSERT INTO events (how) VALUES ('after') RETURNING id});
ok(wait_for(sub { grep { $_ == $after } read_so_far($reader{relayed}) }), 'behind a hub that sends marks on, a reader passes the rows');
is($archive->safe_psql('relayed', q{SELECT snowflake_least_mark('events', '{paris,tokyo}') IS NOT NULL}), 't', 'as it cannot know of them');
is(scalar(() = read_so_far($reader{hubbed})), 0, 'behind one that has a mark of its own, nothing is read');
$hub->safe_psql('postgres', "DELETE FROM events WHERE id = $first");
ok(wait_until($hub, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}), 'all tables are copied');
ok(wait_for(sub { (() = read_so_far($reader{hubbed})) > 2000 }), 'then all is read');

# --- Writers, and a row of paris that waits at the hub

my @writers = map { begin_events($_, $TRANSACTIONS, $_->name, writers => 1) } $paris, $tokyo;
my $late = $paris->safe_psql('postgres', q{BEGIN; INSERT INTO events (how) VALUES ('late') RETURNING id; PREPARE TRANSACTION 'late'});

sub begin_late
{
	my ($node, $dbname) = @_;
	my $in_the_way = start_session($node, "BEGIN; INSERT INTO events VALUES ($late, 'in the way'); SELECT pg_sleep(3600)", dbname => $dbname, errors => '/dev/null');

	ok(wait_until($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%pg\_sleep(3600)%' AND wait_event = 'PgSleep'}), 'a row is in the way');
	return $in_the_way;
}

sub end_late
{
	my ($node, $in_the_way) = @_;

	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg\_sleep(3600)%' AND pid <> pg_backend_pid()});
	finish_session($in_the_way);
	return;
}

my $waits = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND backend_type LIKE 'logical replication%worker' AND wait_event_type = 'Lock'};
my $in_the_way = begin_late($hub, 'postgres');
$paris->safe_psql('postgres', q{COMMIT PREPARED 'late'});
ok(wait_until($hub, $waits), 'the late row waits at the hub');
my $passes = $tokyo->safe_psql('postgres', q{INSERT INTO events (how) VALUES ('meanwhile') RETURNING id});
ok(wait_until_in($archive, 'hubbed', "SELECT count(*) = 1 FROM events WHERE id = $passes"), 'a later one of tokyo is behind it');
is(scalar(grep { $_ >= $late } read_so_far($reader{hubbed})), 0, 'and is not read');
end_late($hub, $in_the_way);

# --- A mark that comes directly, too

$late = $paris->safe_psql('postgres', q{BEGIN; INSERT INTO events (how) VALUES ('late again') RETURNING id; PREPARE TRANSACTION 'late'});
$in_the_way = begin_late($archive, 'twice');
$paris->safe_psql('postgres', q{COMMIT PREPARED 'late'});
ok(wait_until_in($archive, 'twice', $waits), 'a row waits on its way through the hub');
$archive->safe_psql('twice', q{DELETE FROM snowflake_marks WHERE server = 'paris'});
subscribe($archive, 'orders_of_paris', $paris, 'orders', dbname => 'twice');
ok(wait_until_in($archive, 'twice', "SELECT count(*) = 1 FROM snowflake_marks WHERE server = 'paris' AND mark > $late"), 'the mark comes directly');
fails_with($archive, q{SELECT snowflake_least_mark('events', '{paris,tokyo}')}, '55000',
	qr/the mark of server "paris" did not come with the rows of table "events"\nDETAIL:  Subscriptions that bring rows: twice\. The mark came by another one\./, 'it is refused', dbname => 'twice', at_last => 1);
end_late($archive, $in_the_way);

# --- To the end

end_events($_, splice(@writers, 0, 2)) for $paris, $tokyo;
ok(finish_session($reader{$_}), "$_: the reader comes to its end") or diag($reader{$_}{err}) for sort keys %reader;
all_are_read($archive, 'behind the hub', [ read_so_far($reader{hubbed}) ], dbname => 'hubbed');
my ($missed) = missed_by($archive, [ read_so_far($reader{relayed}) ], dbname => 'relayed');
cmp_ok($missed, '>', 0, "behind a hub that sends marks on, $missed rows are missed");
end_sessions($_, q{query ~ '^DO'}, shift @jobs) for $paris, $tokyo, $hub;

done_testing();
