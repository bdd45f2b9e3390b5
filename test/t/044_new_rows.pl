# The recipe of doc/pagination.md for reading what was minted elsewhere: each row once, and
# none missed, where remembering the last id misses some.  First with three
# transactions in a known order, then with many at random, among them some that
# roll back and some that are prepared.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('new_rows', conf => <<'CONF');
snowflake.shards = '0-3'
max_prepared_transactions = 10
autovacuum = off
CONF
my ($section) = page_text('doc/pagination.md') =~ /^## Reading what was minted elsewhere\n(.*)/ms;
my ($alter, $prepare) = map { $_->[1] } grep { $_->[0] eq 'sql' } fenced_blocks($section);

$node->safe_psql('postgres',
	'CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text);' . $alter);

# What the page says: the cursor is the last row that was read.
my @cursor = (0, 0);

sub new_photos
{
	my @rows = map { [ split(/\|/) ] } split(/\n/,
		$node->safe_psql('postgres', "$prepare EXECUTE new_photos('$cursor[0]', $cursor[1])"));

	@cursor = @{ $rows[-1] }[ 0, 1 ] if @rows;
	return map { $_->[2] } @rows;
}

# What it warns of
my $last_id = 0;

sub photos_after_last_id
{
	my @rows = map { [ split(/\|/) ] } split(/\n/,
		$node->safe_psql('postgres', "SELECT id, url FROM photos WHERE id > $last_id ORDER BY id"));

	$last_id = $rows[-1][0] if @rows;
	return map { $_->[1] } @rows;
}

# --- in a known order
$node->safe_psql('postgres', <<'SQL');
BEGIN; INSERT INTO photos (url) VALUES ('slow'); PREPARE TRANSACTION 'slow';
INSERT INTO photos (url) VALUES ('quick');
SQL
is_deeply([photos_after_last_id()], ['quick'], 'by id: what is committed is read');
is_deeply([new_photos()], [], 'by the recipe: not while an older transaction is open');
$node->safe_psql('postgres', "COMMIT PREPARED 'slow'");
is_deeply([photos_after_last_id()], [], 'by id: what was committed late is missed');
is_deeply([new_photos()], [ 'slow', 'quick' ], 'by the recipe: it is read');
is_deeply([new_photos()], [], 'once');

# --- at random: some transactions last, some roll back
my @writers = map { start_session($node, <<'SQL') } 1 .. 6;
DO $$
BEGIN
	FOR n IN 1 .. 60 LOOP
		INSERT INTO photos (url)
		SELECT pg_backend_pid() || ' ' || n || ' ' || part FROM generate_series(1, 1 + n % 3) AS part;
		PERFORM pg_sleep(random() * random() * 0.05);
		IF random() < 0.2 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
SQL
my @read;
wait_for(sub { push @read, new_photos(); @read > 0 });
push @read, map { new_photos() } 1 .. 10;
my $while_writing = @read;
finish_session($_) or die $_->{err} for @writers;
my $all = count_of($node, q{photos WHERE url ~ '^[0-9]'});
wait_for(sub { push @read, new_photos(); @read >= $all });
my @written = split(/\n/,
	$node->safe_psql('postgres', "SELECT url FROM photos WHERE url ~ '^[0-9]' ORDER BY url COLLATE \"C\""));
cmp_ok($while_writing, '>', 0, "$while_writing rows are read while others write");
cmp_ok(scalar(@written), '>', 300, scalar(@written) . ' are written');
is_deeply([ sort @read ], \@written, 'each is read once');

done_testing();
