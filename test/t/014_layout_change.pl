# Changing the layout of a primary with standbys.  A standby's file is as old
# as its base backup and tells of the old layout, with a horizon that may be
# later than the one that came by the WAL; the new layout came there alone.
#
# And what a change leaves behind: rows in partitions by shard, and what else
# was built on the old layout.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $primary = new_server('primary', init => { allows_streaming => 1 },
	conf => "snowflake.shards = '7'\nsnowflake.reserve = 60s\nwal_keep_size = 256MB");
my $old = $primary->safe_psql('postgres', 'SELECT snowflake_nextval()');
my $ahead = $primary->safe_psql('postgres', 'SELECT horizon FROM snowflake_horizon()');
$primary->backup('base');

my %standby;
for my $name ('follows', 'left_behind')
{
	$standby{$name} = PostgreSQL::Test::Cluster->new($name);
	$standby{$name}->init_from_backup($primary, 'base', has_streaming => 1);
}
$primary->append_conf('postgresql.conf', "snowflake.reserve = 100ms");
restart_with_layout($primary, 'discord');
my $new = $primary->safe_psql('postgres', 'SELECT snowflake_nextval()');
is($primary->safe_psql('postgres', "SELECT horizon < '$ahead' FROM snowflake_horizon()"), 't',
	'the backup has a later horizon than the primary');

$standby{follows}->append_conf('postgresql.conf', "snowflake.layout = 'discord'");
# the later horizon is a minute ahead, which a busy machine may need to come so far
start_with_clock($_, -3600) for values %standby;
$primary->wait_for_catchup($_) for values %standby;
my $read = "SELECT snowflake_shard($new), abs(extract(epoch FROM now() - snowflake_timestamp($new))) < 86400";
is($standby{follows}->safe_psql('postgres', $read), '7|t', 'a standby reads ids with its setting');
$standby{follows}->stop;
start_with_clock($standby{follows}, -3600);
is($standby{follows}->safe_psql('postgres', $read), '7|t', 'after a restart, too');

$primary->stop;
$_->promote for values %standby;
wait_until($_, "SELECT incarnation IS NOT NULL FROM snowflake_horizon()") for values %standby;

is($standby{follows}->safe_psql('postgres', $read), '7|t', 'promoted with the new layout, it reads');
fails_with($standby{follows}, "SET snowflake.clock_tolerance = 0; SELECT snowflake_nextval()", '58000',
	qr/clock is \d.* behind the snowflake horizon/, 'and keeps the later horizon of the two');
ok($standby{follows}->safe_psql('postgres', "SELECT horizon >= '$ahead' FROM snowflake_horizon()") eq 't', 'which is that of the backup');
my $refused = qr/another layout.*"snowflake\.layout" is "epoch=2010.*recorded layout is "epoch=2015/s;
fails_with($standby{left_behind}, 'SELECT snowflake_nextval()', '55000', $refused,
	'promoted with the old layout, it does not mint');
fails_with($standby{left_behind}, "SELECT snowflake_shard($new)", '55000', $refused, 'nor read');

# what is recorded stays with it, through a crash and beside what is damaged
$standby{left_behind}->stop('immediate');
$standby{left_behind}->start;
fails_with($standby{left_behind}, "SELECT snowflake_shard($new)", '55000', $refused, 'nor after a crash');
$standby{left_behind}->stop;
my $page = $standby{left_behind}->data_dir . '/global/11111';
my $good = slurp_file($page);
open(my $file, '+<', $page) or die "cannot open $page: $!";
print {$file} "\0" x 8192;
close($file);
$standby{left_behind}->start;
fails_with($standby{left_behind}, 'SELECT snowflake_nextval()', '55000', $refused, 'nor mint where the page is damaged');
fails_with($standby{left_behind}, "SELECT snowflake_shard($new)", '55000', $refused, 'nor read');
is($standby{left_behind}->safe_psql('postgres', "SELECT snowflake_shard($old, 'twitter')"), 7,
	'but by a layout that is named');

# the way back: the page as it was, and the layout as it was accepted
$standby{left_behind}->stop;
open($file, '+<', $page) or die "cannot open $page: $!";
print {$file} $good;
close($file);
$standby{left_behind}->append_conf('postgresql.conf', "snowflake.layout = 'discord'");
start_with_clock($standby{left_behind}, 120);
is($standby{left_behind}->safe_psql('postgres', $read), '7|t', 'with the layout that was accepted it reads');
is($standby{left_behind}->safe_psql('postgres', 'SELECT snowflake_shard(snowflake_nextval())'), 7, 'and mints');
$_->stop for values %standby;

# --- What was built on the old layout

my $server = new_server('changed', conf => "snowflake.shards = '0-7'\ntimezone = 'UTC'\nmax_prepared_transactions = 5");
$server->safe_psql('postgres', $_) for 'CREATE DATABASE other', 'CREATE DATABASE closed ALLOW_CONNECTIONS false', <<'SQL';
CREATE TABLE photos (
	id snowflake PRIMARY KEY,
	n  integer NOT NULL,
	at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED
) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE photos_0 PARTITION OF photos FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE photos_1 PARTITION OF photos FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE photos_2 PARTITION OF photos FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE INDEX photos_time ON photos (snowflake_timestamp(id));
CREATE INDEX photos_since ON photos (n) WHERE id >= timestamptz '2020-01-01Z';
INSERT INTO photos SELECT snowflake_nextval(n % 8), n FROM generate_series(1, 400) AS n;
CREATE TABLE likes (photo snowflake NOT NULL REFERENCES photos ON DELETE CASCADE);
INSERT INTO likes SELECT id FROM photos;
CREATE TABLE minted AS SELECT id FROM photos;
-- how many ids the table finds, and how many it takes once more
CREATE FUNCTION found() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	looked_for bigint;
	there bigint;
	total bigint := 0;
BEGIN
	FOR looked_for IN SELECT id FROM minted LOOP
		EXECUTE 'SELECT count(*) FROM photos WHERE id = ' || looked_for INTO there;
		total := total + there;
	END LOOP;
	RETURN total;
END $$;
CREATE FUNCTION taken_again() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE again bigint;
BEGIN
	INSERT INTO photos SELECT id, 0 FROM minted ON CONFLICT DO NOTHING;
	GET DIAGNOSTICS again = ROW_COUNT;
	RAISE EXCEPTION 'never mind';
EXCEPTION WHEN raise_exception THEN
	RETURN again;
END $$;
SQL
$server->safe_psql('other', "CREATE EXTENSION snowflake; CREATE VIEW elsewhere AS SELECT snowflake_shard(5)");
is($server->safe_psql('postgres', 'SELECT found(), taken_again()'), '400|0', 'each row is found, and is there once');

# three that are prepared: two have minted, one on a shard that it named
$server->safe_psql('other', "BEGIN; SELECT snowflake_nextval(3); PREPARE TRANSACTION 'an import'");
$server->safe_psql('postgres', $_) for "BEGIN; CREATE TABLE late AS SELECT snowflake_nextval() AS id; PREPARE TRANSACTION 'it''s late'",
  "BEGIN; CREATE TABLE minted_nothing (); PREPARE TRANSACTION 'minted nothing'";

restart_with_layout($server, 'instagram', not_accepted => 1);
fails_with($server, 'SELECT * FROM photos WHERE id = 5', '55000', qr/another layout/, 'partitions are not looked into');
my $dependents = 'SELECT object, holds_rows FROM snowflake_layout_dependents()';
my $list = <<'LIST';
table public.photos|t
column at of table public.photos|
index public.photos_since|
index public.photos_time|
LIST
chomp($list);
is($server->safe_psql('postgres', $dependents), $list, 'what depends on the layout can be listed');
is($server->safe_psql('other', $dependents), 'view public.elsewhere|', 'in each database');
fails_with($server, 'SELECT * FROM snowflake_accept_layout(allow_misplaced_rows => true)', '55000',
	qr/transactions that minted ids of the old layout are prepared\nDETAIL:  Readers of what is new would miss their rows\. They are 'an import' of database other, 'it''s late' of database postgres\.\nHINT:  In its database, end each/,
	'while transactions are prepared that have minted, it is not accepted');
fails_with($server, 'SELECT snowflake_nextval()', '55000', qr/another layout/, 'and nothing was accepted');
$server->safe_psql('postgres', "COMMIT PREPARED 'it''s late'");
fails_with($server, 'SELECT * FROM snowflake_accept_layout(allow_misplaced_rows => true)', '55000', qr/They are 'an import' of database other\.$/m, 'until the last one has ended');
$server->safe_psql('other', "ROLLBACK PREPARED 'an import'");
fails_with($server, 'SELECT * FROM snowflake_accept_layout()', '55000',
	qr/rows are in partitions where the new layout does not look.*DETAIL:.*hold rows: table public\.photos\..*HINT:.*allow_misplaced_rows/s,
	'nor with rows in partitions by shard');
fails_with($server, 'SELECT snowflake_nextval()', '55000', qr/another layout/, 'again nothing was accepted');

my ($code, $rows, $notices) =
  $server->psql('postgres', 'SELECT object, holds_rows FROM snowflake_accept_layout(allow_misplaced_rows => true)');
is($rows, $list, 'accepted, the list is the result');
like($notices, qr/NOTICE:  only database "postgres" was searched.*The others are other\.$/s, 'and the other databases are named');
my $found = $server->safe_psql('postgres', 'SELECT found()');
cmp_ok($found, '<', 400, "only $found of 400 rows are found");
is($server->safe_psql('postgres', 'SELECT taken_again()'), 400 - $found, 'and the others can be inserted once more');

is(scalar(() = $server->safe_psql('postgres', <<'SQL') =~ /./g), 0, 'the statements of the list are executed');
SELECT remedy FROM snowflake_layout_dependents() WHERE remedy LIKE '%;' \gexec
SQL
is($server->safe_psql('postgres', 'SELECT found(), taken_again()'), '400|0', 'each row is found again, and is there once');
is($server->safe_psql('postgres', 'SELECT count(*) FROM likes JOIN photos ON id = photo'), 400, 'what refers to them is there');
is($server->safe_psql('postgres', 'SELECT count(*) FROM photos WHERE at IS DISTINCT FROM snowflake_timestamp(id)'), 0,
	'the generated column is of the new layout');
is( $server->safe_psql('postgres', <<'SQL'), "t|t|t\nt|t|t", 'and so is what indexes hold');
SELECT count(*) = 400, bool_and(snowflake_timestamp(id) = at), bool_and(n > 0) FROM photos
 WHERE snowflake_timestamp(id) >= (SELECT min(at) FROM photos);
SET enable_seqscan = off;
SELECT count(*) = 400, bool_and(snowflake_timestamp(id) = at), bool_and(n > 0) FROM photos
 WHERE snowflake_timestamp(id) >= (SELECT min(at) FROM photos);
SQL
is($server->safe_psql('postgres', 'INSERT INTO photos VALUES (snowflake_nextval(), -1) RETURNING snowflake_shard(id)'), 0,
	'new rows come');

# the other way: with partitions detached, there is nothing to be misplaced
$server->safe_psql('postgres', <<'SQL');
DROP TABLE likes;
DELETE FROM photos WHERE n < 0;
ALTER TABLE photos DETACH PARTITION photos_0;
ALTER TABLE photos DETACH PARTITION photos_1;
ALTER TABLE photos DETACH PARTITION photos_2;
SQL
restart_with_layout($server, 'twitter');
$server->safe_psql('postgres', <<'SQL');
SELECT format('CREATE TABLE new_%1$s PARTITION OF photos FOR VALUES WITH (MODULUS 3, REMAINDER %1$s)', n)
  FROM generate_series(0, 2) AS n
\gexec
SELECT format('INSERT INTO photos (id, n) SELECT id, n FROM photos_%s', n) FROM generate_series(0, 2) AS n \gexec
SQL
is($server->safe_psql('postgres', 'SELECT found(), taken_again()'), '400|0', 'detached before, the rows are inserted again');
$server->stop;

# --- The documentation walks through a change

my $walked = new_server('walked', conf => "timezone = 'UTC'");
my ($change, $plan) = page_text('doc/layout.md') =~ /^(.*)(^## Plan it years ahead\n.*)/ms;
page_runs($walked, 'layout, change it', $change, not_accepted => 1);
$walked->stop;

# --- and so does the one that plans a change years ahead

my $planned = new_server('planned', conf => "timezone = 'UTC'\nsnowflake.layout = 'instagram'");
page_runs($planned, 'layout, plan it', $plan, not_accepted => 1);
$planned->stop;

done_testing();
