# Writers everywhere, by logical replication: four servers that write at the
# same time and one that gathers their rows, and two servers that send each
# other theirs.  All have the same definition of the table, DEFAULT included.
# The SQL that sets them up is that of doc/servers.md.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use ManyServers;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my @names = qw(paris tokyo lima cairo);
my %server = (
	archive => small_server('archive', '9'),
	map { $names[$_] => small_server($names[$_], $_) } 0 .. $#names);
my @writers = @server{@names};

# --- Into one

run_section('The table', %server);

# half of the rows are there when the subscriptions begin
end_writing(begin_writing('photos', $ROWS / 2, @writers));
my @sessions = begin_writing('photos', $ROWS / 2, @writers);
run_section('Into one', %server);
$server{archive}->wait_for_subscription_sync;
end_writing(@sessions);
$server{$_}->wait_for_catchup("from_$_") for @names;

same_rows_as($server{archive}, 'photos', $ROWS, @writers);
no_conflict($server{archive});

# That would be seen: here is a row that two servers have.
$server{$_}->safe_psql('postgres', q{INSERT INTO photos VALUES (5, 'twice')}) for 'paris', 'tokyo';
ok( wait_until($server{archive}, 'SELECT sum(apply_error_count) > 0 FROM pg_stat_subscription_stats'),
	'a conflict is counted');
like(slurp_file($server{archive}->logfile), qr/ERROR:  (duplicate key|conflict detected)/, 'and logged');

# --- A DEFAULT that names another server's shard

$server{lima}->safe_psql('postgres', 'CREATE TABLE wrong (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(0), url text)');
fails_with($server{lima}, q{INSERT INTO wrong (url) VALUES ('a.jpg')}, '42501',
	qr/shard 0 is not one of this server's\nDETAIL:  "snowflake.shards" is "2"/,
	q{a DEFAULT with another server's shard is refused});
is(count_of($server{lima}, 'wrong'), 0, 'and nothing is inserted');

# --- Both ways

SKIP:
{
	skip 'subscriptions know their origin from PostgreSQL 16 on', 1
	  if $server{paris}->pg_version->major < 16;

	my @pair = @server{ 'paris', 'tokyo' };
	my $rows = $ROWS / 4;

	$server{archive}->stop;
	run_section('Both ways', %server);
	$_->wait_for_subscription_sync for @pair;
	end_writing(begin_writing('notes', $rows, @pair));

	# neither has anything left to send
	$pair[0]->wait_for_catchup('notes_of_paris');
	$pair[1]->wait_for_catchup('notes_of_tokyo');
	for my $node (@pair)
	{
		same_rows_as($node, 'notes', $rows, @pair);
		no_conflict($node);
	}
}

done_testing();
