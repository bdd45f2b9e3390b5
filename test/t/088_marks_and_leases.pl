# Marks that travel, of servers that lease their shards: while rows are written in many
# ways, shards change hands from one server to the other, one crashes and comes back as a
# new holder with a clock that is behind, and a standby is promoted whose clock is
# behind.  Readers on the standby, and on a subscriber that merges two servers, read each
# row once.  By the last id alone rows are missed.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeaseTest;
use ManyServers;
use MarksTest;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $TRANSACTIONS = $ENV{SNOWFLAKE_TRANSACTIONS} // 100;
my $registry = new_registry('registry');
my %options = (
	clock => 1,
	init => { allows_streaming => 'logical' },
	conf => "snowflake.clock_tolerance = 60s\nmax_prepared_transactions = 20\nautovacuum = off\n");
my $paris = leasing_server('paris', $registry, 'auto:3', '60s', %options);
my $lima = leasing_server('lima', $registry, 'auto:2', '60s', %options);
my $archive = small_server('archive', '9', conf => "max_prepared_transactions = 20\nwal_retrieve_retry_interval = 500ms");
my $mark = q{SELECT mark FROM snowflake_marks WHERE server = 'paris'};
my $least = q{SELECT snowflake_least_mark('events', '{paris,lima}')};

held_shards($paris, 3);
create_events($_, names_none => 1) for $paris, $lima;
$paris->backup('backup');
my $tokyo = PostgreSQL::Test::Cluster->new('tokyo');
$tokyo->init_from_backup($paris, 'backup', has_streaming => 1);
start_with_clock($tokyo, -60);

$archive->safe_psql('postgres', "CREATE TABLE events (id bigint PRIMARY KEY, how text); $FIND_ENDS; "
	  . 'CREATE TABLE snowflake_marks (server text PRIMARY KEY, mark bigint NOT NULL, published_at timestamptz NOT NULL, '
	  . 'came_by oid GENERATED ALWAYS AS (snowflake_came_by(mark)) STORED)');
for my $node ($paris, $lima)
{
	$node->safe_psql('postgres', sprintf(q{SELECT snowflake_publish_mark('%s')}, $node->name));
	$node->safe_psql('postgres', 'CREATE PUBLICATION events FOR TABLE events, snowflake_marks');
	$archive->safe_psql('postgres', sprintf("CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION events", $node->name, $node->connstr . ' dbname=postgres'));
}

# paris writes the row "end" twice: before its standby is promoted, and after
my %reader = (
	'on the standby, by the mark' => begin_reading($tokyo, $mark, servers => 2),
	'on the standby, by the last id alone' => begin_reading($tokyo, '', servers => 2),
	'on the subscriber, by the least mark' => begin_reading($archive, $least, servers => 2),
	'on the subscriber, by the last id alone' => begin_reading($archive, '', servers => 2));
my %publisher = map { $_->name => begin_publishing($_, $_->name, errors => '/dev/null') } $paris, $lima;
my %writers = map { $_->name => [ begin_events($_, $TRANSACTIONS, $_->name, errors => '/dev/null') ] } $paris, $lima;

sub reads { return scalar(() = read_so_far($reader{ $_[0] })) }

# Wait until so many rows are read in all.
sub has_read
{
	my ($name, $count) = @_;

	return ok(wait_for(sub { reads($name) >= $count }), "$name: rows are read");
}

# What was being prepared when a server ended would hold the mark for ever.
sub roll_back_prepared
{
	my ($node) = @_;

	$node->safe_psql('postgres', "ROLLBACK PREPARED '$_'") for split(/\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts'));
	return;
}

# --- Shards change hands

has_read($_, 100) for grep { /mark/ } sort keys %reader;
my @of_paris = split(/,/, held_shards($paris, 3));
my $taken = $of_paris[1];
$paris->safe_psql('postgres', "INSERT INTO events VALUES (snowflake_nextval($taken), 'on a shard that is given back')");
change_settings($paris, shards => $of_paris[0]);
is_holding($paris, $of_paris[0], 'paris gives two shards back');
change_settings($lima, shards => join(',', $taken, split(/,/, held_shards($lima, 2))));
ok(wait_until($lima, "SELECT held FROM snowflake_leases() WHERE shard = $taken"), 'lima takes one of them');
push @{ $writers{lima} }, begin_events($lima, $TRANSACTIONS, 'lima on more', errors => '/dev/null');
ok(wait_until($lima, "SELECT count(*) > 50 FROM events WHERE snowflake_shard(id) = $taken"), 'and mints on it');
cmp_ok($paris->safe_psql('postgres', "SELECT count(*) FROM events WHERE snowflake_shard(id) = $taken"), '>', 0, 'as paris did');

# --- One crashes, and is a new holder with a clock that is behind

my $holder = $lima->safe_psql('postgres', 'SELECT holder FROM snowflake_lease_status()');
$lima->stop('immediate');
$lima->append_conf('postgresql.conf', "snowflake.shards = 'auto:2'\n");
finish_session($_) for @{ $writers{lima} }, $publisher{lima};
start_with_clock($lima, -5, place => { HOST => 'elsewhere' });
held_shards($lima, 2);
isnt($lima->safe_psql('postgres', 'SELECT holder FROM snowflake_lease_status()'), $holder, 'lima comes back as a new holder');
roll_back_prepared($lima);
$publisher{lima} = begin_publishing($lima, 'lima');
end_events($lima, begin_events($lima, $TRANSACTIONS, 'lima again'));
end_events($paris, @{ $writers{paris} });
# that of one which is idle goes on
$_ = start_session($_->[0], "DO \$\$ BEGIN LOOP PERFORM snowflake_publish_mark('$_->[1]'); COMMIT; PERFORM pg_sleep(0.02); END LOOP; END \$\$", errors => '/dev/null')
  for my @idle = ([ $paris, 'paris' ], [ $lima, 'lima' ]);
my %ids;
for my $name (grep { /subscriber/ } sort keys %reader)
{
	ok(finish_session($reader{$name}), "$name: the reader comes to its end") or diag($reader{$name}{err});
	$ids{$name} = [ read_so_far($reader{$name}) ];
}
is(count_of($archive, 'events'), count_of($paris, 'events') + count_of($lima, 'events'), 'the subscriber has the rows of both');
all_are_read($archive, 'two servers', $ids{'on the subscriber, by the least mark'});
my ($missed) = missed_by($archive, $ids{'on the subscriber, by the last id alone'});
cmp_ok($missed, '>', 0, "by the last id alone, $missed rows are missed");
my @of_lima = split(/\n/, $lima->safe_psql('postgres', 'SELECT id FROM events'));

# --- A standby is promoted, with a clock that is behind

my $standby = 'on the standby, by the mark';
my $before = reads($standby);
my @writers = begin_events($paris, 100 * $TRANSACTIONS, 'paris at last', errors => '/dev/null');
has_read($standby, $before + 500);
$paris->stop('immediate');
$lima->stop('immediate');
finish_session($_) for @writers, @idle, $publisher{paris}, $publisher{lima};
$tokyo->promote;
ok(wait_until($tokyo, q(SELECT state = 'held' FROM snowflake_lease_status())), 'the standby is promoted, and leases shards');
roll_back_prepared($tokyo);
fails_with($tokyo, q(SET snowflake.clock_tolerance = 0; INSERT INTO events (how) VALUES ('too early')), '58000',
	qr/clock is \d.* behind the snowflake horizon that was found at the start/, 'its clock is behind');
set_clock($tokyo, -10);
is($tokyo->safe_psql('postgres', "SELECT count(*) FROM snowflake_leases() WHERE shard = $of_paris[0] AND held"), 0, 'on others than paris, whose lease still runs');
my $publishing = begin_publishing($tokyo, 'paris', ends => 2);
end_events($tokyo, begin_events($tokyo, $TRANSACTIONS, 'tokyo'));
finish_session($publishing) or die $publishing->{err};
for my $name (grep { /standby/ } sort keys %reader)
{
	ok(finish_session($reader{$name}), "$name: the reader comes to its end") or diag($reader{$name}{err});
	$ids{$name} = [ read_so_far($reader{$name}) ];
}
all_are_read($tokyo, 'the standby', $ids{'on the standby, by the mark'});
($missed) = missed_by($tokyo, $ids{'on the standby, by the last id alone'});
cmp_ok($missed, '>', 0, "by the last id alone, $missed rows are missed");
my %on_tokyo = map { $_ => 1 } split(/\n/, $tokyo->safe_psql('postgres', 'SELECT id FROM events'));
is(scalar(grep { $on_tokyo{$_} } @of_lima), 0, 'no id is on two servers');

done_testing();
