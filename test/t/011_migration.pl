# A large table changes between bigint and snowflake without a rewrite, while
# foreign keys refer to it; and sessions that make the same partitions at once
# make each of them once, and stop nobody from reading and writing.
#
# SNOWFLAKE_ROWS sets the number of rows, for a show with 10000000 of them.
#
# Takes: long

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(time);

my $rows = $ENV{SNOWFLAKE_ROWS} // 1_000_000;
my $node = new_server('migration', conf => "fsync = off\nautovacuum = off\n");

# The pages of tables that sessions have used: what scans a table uses each of its pages.
sub pages_used { return $node->safe_psql('postgres', 'SELECT sum(heap_blks_hit + heap_blks_read) FROM pg_statio_user_tables') }

# Gives the pages that a script uses, and what the server says it does.
sub measured
{
	my ($what, $sql) = @_;
	my ($before, $began) = (pages_used(), time());
	my ($status, $out, $err) = $node->psql('postgres',
		"SET client_min_messages = debug1;\n$sql;\nSELECT pg_stat_force_next_flush();", on_error_stop => 1);
	my $ms = 1000 * (time() - $began);
	my $pages = pages_used() - $before;

	is($status, 0, $what) or diag($err);
	note(sprintf('%s: %.0f ms, %d pages', $what, $ms, $pages));
	return ($pages, $err);
}

# --- From bigint and back

$node->safe_psql('postgres', <<"SQL");
CREATE TABLE photos (id bigserial PRIMARY KEY, parent bigint, url text NOT NULL);
INSERT INTO photos (parent, url) SELECT NULLIF(n - 1, 0), 'https://example.org/' || n FROM generate_series(1, $rows) AS n;
CREATE INDEX photos_parent ON photos (parent);
ALTER TABLE photos ADD FOREIGN KEY (parent) REFERENCES photos;
CREATE TABLE comments (id bigserial PRIMARY KEY, photo bigint NOT NULL);
INSERT INTO comments (photo) SELECT id FROM photos;
CREATE INDEX comments_photo ON comments (photo);
ALTER TABLE comments ADD FOREIGN KEY (photo) REFERENCES photos ON DELETE CASCADE;
SQL

my $files = <<'SQL';
SELECT string_agg(relname || '=' || pg_relation_filenode(oid), ' ' ORDER BY relname)
  FROM pg_class WHERE relname ~ '^(photos|comments)' AND relkind IN ('r', 'i')
SQL
my $types = <<'SQL';
SELECT string_agg(attrelid::regclass || '.' || attname || ' ' || format_type(atttypid, NULL), ', ' ORDER BY attrelid::regclass::text, attnum)
  FROM pg_attribute WHERE attrelid IN ('photos'::regclass, 'comments'::regclass) AND attname IN ('id', 'parent', 'photo')
SQL
my $original = $node->safe_psql('postgres', $files);

# a comment on no photo: whoever validates the foreign key finds it
$node->safe_psql('postgres', "SET session_replication_role = replica; INSERT INTO comments (photo) VALUES (-1)");
fails_with($node, 'ALTER TABLE comments DROP CONSTRAINT comments_photo_fkey, ADD FOREIGN KEY (photo) REFERENCES photos',
	'23503', qr/Key \(photo\)=\(-1\) is not present/, 'a foreign key that is validated fails');

my @steps = (
	[ 'snowflake_adopt', "SELECT * FROM snowflake_adopt('photos', 'id', 5, dry_run => false)" ],
	[ 'back to bigint', <<'SQL' ],
BEGIN;
ALTER TABLE photos ALTER id DROP DEFAULT, ALTER id TYPE bigint, ALTER parent TYPE bigint;
ALTER TABLE comments ALTER photo TYPE bigint;
COMMIT;
SQL
	[ 'by hand', <<'SQL' ],
BEGIN;
ALTER TABLE photos ALTER id TYPE snowflake, ALTER parent TYPE snowflake, ALTER id SET DEFAULT snowflake_nextval(5);
ALTER TABLE comments ALTER photo TYPE snowflake;
COMMIT;
SQL
);
my %pages;
for my $step (@steps)
{
	my ($what, $sql) = @$step;
	my $type = $what =~ /back/ ? 'bigint' : 'snowflake';

	($pages{$what}, my $said) = measured("$rows rows: $what", $sql);
	is($node->safe_psql('postgres', $files), $original, "$what: no file is another");
	is($node->safe_psql('postgres', $types), "comments.id bigint, comments.photo $type, photos.id $type, photos.parent $type",
		"$what: the columns are $type");
	unlike($said, qr/rewriting table|building index|validating|verifying/, "$what: nothing rewritten, built or validated");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated"),
		2, "$what: both foreign keys are there");
	fails_with($node, 'INSERT INTO comments (photo) VALUES (-2)', '23503', qr/is not present/, "$what: and hold");
}
is($node->safe_psql('postgres', "INSERT INTO photos (parent, url) VALUES (1, 'new') RETURNING id > $rows"), 't', 'mints above');
$node->safe_psql('postgres', 'DELETE FROM comments WHERE photo = -1');

# the measure, and that the tests above can fail at all
my ($rewriting, $said) = measured("$rows rows: a rewrite of the same table", <<'SQL');
ALTER TABLE photos ADD COLUMN n int DEFAULT 1, ALTER url TYPE text COLLATE "C" USING url || '';
SQL
like($said, qr/rewriting table "photos"/, 'a rewrite says so');
isnt($node->safe_psql('postgres', $files), $original, 'and changes the files');
cmp_ok($pages{$_}, '<', $rewriting / 10, "$_: takes no tenth of its pages") for map { $_->[0] } @steps;

# --- From integer, which is a rewrite, with all that refers to it

my $few = $rows > 100_000 ? 100_000 : $rows;
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE users (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, boss int REFERENCES users, name text);
CREATE TABLE logins (who int REFERENCES users ON DELETE CASCADE, at date);
INSERT INTO users (boss, name) SELECT NULLIF(n % 10, 0), 'n' || n FROM generate_series(1, $few) AS n;
INSERT INTO logins SELECT id FROM users;
SQL
my $sums = 'SELECT count(*), sum(id), sum(boss), (SELECT sum(who) FROM logins) FROM users';
my $before = $node->safe_psql('postgres', $sums);
measured("$few rows from integer", "SELECT * FROM snowflake_adopt('users', 'id', 5, dry_run => false)");
is($node->safe_psql('postgres', $sums), $before, 'from integer: the values are the same');
$node->safe_psql('postgres', "WITH u AS (INSERT INTO users (name) VALUES ('new') RETURNING id) INSERT INTO logins SELECT id FROM u");
fails_with($node, 'INSERT INTO logins VALUES (-1)', '23503', qr/is not present/, 'from integer: foreign keys hold');

# --- An id that arrives while the key is adopted

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE late (id bigserial PRIMARY KEY);
CREATE TABLE gate (open boolean);
SQL
my $pass_gate = 'DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM gate) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$';
my $writer = start_session($node, <<"SQL");
BEGIN;
INSERT INTO late VALUES (snowflake_floor('2076-01-01'));
$pass_gate;
COMMIT;
SQL
wait_until($node, "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'late'::regclass AND mode = 'RowExclusiveLock')");
my $adopter = start_session($node, "\\set VERBOSITY verbose\nSELECT snowflake_adopt('late', 'id', 5, dry_run => false)");
ok(wait_until($node, "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'late'::regclass AND NOT granted)"),
	'snowflake_adopt waits for those who write');
$node->safe_psql('postgres', 'INSERT INTO gate VALUES (true)');
finish_session($writer);
ok(!finish_session($adopter), 'and sees what they wrote');
like($adopter->{err}, qr/55000: column "id" of table "late" holds an id that is not below those to be minted/, 'and says so');
$node->safe_psql('postgres', 'TRUNCATE gate');

# --- Partitions, made by several at once

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5), note text) PARTITION BY RANGE (id);
SELECT snowflake_make_partitions('events', date_trunc('month', now(), 'UTC'), now() + interval '1 hour', '1 month');
SQL
my $there = count_of($node, "pg_inherits WHERE inhparent = 'events'::regclass");
my $make = "SELECT snowflake_make_partitions('events', '2020-01-01Z', '2020-03-01Z', '1 month');";
my $lock_held = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'events'::regclass AND mode = 'ShareUpdateExclusiveLock' AND granted)";
my $waiting = "SELECT count(*) = %d FROM pg_locks WHERE relation = 'events'::regclass AND NOT granted";

my $first = start_session($node, <<"SQL");
BEGIN;
$make
$pass_gate;
COMMIT;
SQL
ok(wait_until($node, $lock_held), 'one session makes partitions');
is( $node->safe_psql('postgres', <<'SQL'), 'meanwhile', 'others write and read the table meanwhile');
SET lock_timeout = '5s';
INSERT INTO events (note) VALUES ('meanwhile');
SELECT note FROM events;
SQL
my $second = start_session($node, $make);
my $third = start_session($node, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 1;\n\\set VERBOSITY verbose\n$make\nCOMMIT;\n");
ok(wait_until($node, sprintf($waiting, 2)), 'who wants to make the same waits');
$node->safe_psql('postgres', 'INSERT INTO gate VALUES (true)');
ok(finish_session($first), 'the first ends') or diag($first->{err});
is($first->{out}, "events_20200101\nevents_20200201", 'and has made them');
ok(finish_session($second), 'the second goes on') or diag($second->{err});
is($second->{out}, '', 'and finds nothing missing');
ok(!finish_session($third), 'one with a snapshot from before fails');
like($third->{err}, qr/40001: could not serialize access due to partitions that were added concurrently/, 'and is told to try again');

my @sessions = in_parallel($node, 8,
	"SELECT snowflake_make_partitions('events', '2021-01-01Z', '2021-03-01Z', '1 day');" x 2);
my @made = map { split(/\n/, $_->{out}) } @sessions;
is(scalar(@made), 59, '8 sessions at once: 59 days, 59 partitions made');
is(count_of($node, "pg_inherits WHERE inhparent = 'events'::regclass"), $there + 2 + 59, 'and no more are there');

done_testing();
