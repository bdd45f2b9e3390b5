# Reading what is new on some shards, with snowflake_settled(shards): an import on a
# shard of its own holds the feed of no other one, and whoever asks for its shard, or for
# all, misses none of its rows.
#
# SNOWFLAKE_ROWS sets how many transactions each writer makes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $EACH = $ENV{SNOWFLAKE_ROWS} // 1500;

my $node = new_server('shards', conf => <<'CONF');
snowflake.shards = '0-8'
max_prepared_transactions = 20
synchronous_commit = off
CONF
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), name text);
CREATE FUNCTION marks() RETURNS text LANGUAGE sql AS $$
	SELECT format('all %s, 0-7 %s, 8 %s, 7-8 %s',
	              max(id) < snowflake_settled(), max(id) < snowflake_settled('0-7'),
	              max(id) < snowflake_settled('8'), max(id) < snowflake_settled('7-8')) FROM events WHERE name = 'meanwhile'
$$;
SQL

my $import;    # a session that does what it is told

sub importer_does
{
	my ($sql) = @_;
	return $import->query("$sql;");
}

# A row of somebody else's, in a later tick than all before.  What is below the marks then?
sub see_meanwhile
{
	my ($expected, $name) = @_;

	$node->safe_psql('postgres', "SELECT pg_sleep(0.01); INSERT INTO events (name) VALUES ('meanwhile')");
	# a mark that nobody holds gets past it soon: a renewal of the horizon may be awaited
	wait_until($node, "SELECT marks() LIKE '" . ($expected =~ tr/f/_/r) . "'");
	$node->safe_psql('postgres', 'SELECT pg_sleep(0.01)');
	return is($node->safe_psql('postgres', 'SELECT marks()'), $expected, $name);
}

sub mark_of_shards
{
	my ($shards) = @_;
	return $node->safe_psql('postgres', "SELECT snowflake_settled('$shards')");
}

sub holders
{
	return $node->safe_psql('postgres', q(SELECT string_agg(format('%s %s', gid, coalesce(shard::text, 'all')), ', ' ORDER BY since) FROM snowflake_unsettled));
}

# --- Who holds which mark

my $none = 'all t, 0-7 t, 8 t, 7-8 t';
my $eight = 'all f, 0-7 t, 8 f, 7-8 f';
my $all = 'all f, 0-7 f, 8 f, 7-8 f';

$import = $node->background_psql('postgres', on_error_stop => 0);
$import->set_query_timer_restart();
see_meanwhile($none, 'nobody holds a mark');
importer_does("BEGIN; INSERT INTO events VALUES (snowflake_nextval(8), 'import')");
see_meanwhile($eight, 'an import on a named shard holds the marks with that shard');
importer_does("INSERT INTO events SELECT snowflake_nextval(8), 'import' FROM generate_series(1, 10000)");
see_meanwhile($eight, 'with 10000 ids, too');
is(holders(), ' 8', 'as the view says');
is($node->safe_psql('postgres', "SELECT count(*) FROM events WHERE id < snowflake_settled('0-7') AND name = 'meanwhile'"), 3,
	'a feed of the others reads what came meanwhile');
my $mark = mark_of_shards('0-7');
my $second = importer_does("INSERT INTO events (name) VALUES ('import, by default') RETURNING id");
see_meanwhile($all, 'when it mints on another shard, it holds all marks');
importer_does("INSERT INTO events (name) VALUES ('import, once more')");
cmp_ok(mark_of_shards('0-7'), '<=', $second, 'from its first id there on, also when it mints there again');
is(holders(), ' all', 'as the view says, too');
is($node->safe_psql('postgres', "SELECT snowflake_settled('0-7') >= $mark"), 't', 'from then on: the mark does not go back');
is($node->safe_psql('postgres', "SELECT snowflake_settled('0-7') > max(id) FROM events WHERE name = 'meanwhile' AND id < $mark"), 't', 'nor what was below it');
importer_does("ROLLBACK");
see_meanwhile($none, 'and none when it has ended');

importer_does("SET snowflake.shards = '8'");
importer_does("BEGIN; INSERT INTO events (name) VALUES ('import')");
see_meanwhile($eight, 'likewise with a snowflake.shards of one shard, which names none');
importer_does("SET LOCAL snowflake.shards = '7'");
see_meanwhile($eight, 'another one to come changes nothing');
importer_does("INSERT INTO events (name) VALUES ('import')");
see_meanwhile($all, 'until an id is minted there');
importer_does('COMMIT');
see_meanwhile($none, 'none');
importer_does("BEGIN; INSERT INTO events (name) VALUES ('import'); SELECT snowflake_nextval(8); SELECT snowflake_nextval(8)");
see_meanwhile($eight, 'and once more');
importer_does('SAVEPOINT s; SELECT snowflake_nextval(77); ROLLBACK TO s');
importer_does('COMMIT; RESET snowflake.shards');
importer_does('BEGIN; SELECT snowflake_nextval(77)');
importer_does('ROLLBACK');
importer_does("BEGIN; SAVEPOINT s; SELECT snowflake_nextval(77); ROLLBACK TO s; INSERT INTO events VALUES (snowflake_nextval(8), 'import')");
see_meanwhile($eight, 'a call that failed counts for nothing');
importer_does('COMMIT');
importer_does("BEGIN; INSERT INTO events (name) VALUES ('ordinary')");
see_meanwhile($all, 'a transaction that names none of several counts for all');
importer_does('COMMIT');

# --- One mark of each list in a statement

is($node->safe_psql('postgres', <<'SQL'), '1|1|1|t', 'a statement has one mark of each list');
SELECT count(DISTINCT a), count(DISTINCT b), count(DISTINCT c), bool_and(a = snowflake_settled('0-7'))
  FROM (SELECT snowflake_settled('0-7') AS a, snowflake_settled('8') AS b, snowflake_settled() AS c, pg_sleep(0.01)
          FROM generate_series(1, 20)) AS marks
SQL
is($node->safe_psql('postgres', <<'SQL'), '1|t', 'a cursor keeps its own beside those of other statements');
CREATE FUNCTION in_a_loop(OUT marks bigint, OUT others_go_on boolean) LANGUAGE plpgsql AS $$
DECLARE
	of_cursor bigint[];
	of_others bigint[];
	mark bigint;
BEGIN
	FOR mark IN SELECT snowflake_settled('0-7') FROM generate_series(1, 200) LOOP
		of_cursor := of_cursor || mark;
		of_others := of_others || snowflake_settled('8')::bigint || snowflake_settled('0-7')::bigint || snowflake_settled()::bigint;
		PERFORM pg_sleep(0.001);
	END LOOP;
	marks := (SELECT count(DISTINCT m) FROM unnest(of_cursor) AS m);
	others_go_on := (SELECT count(DISTINCT m) > 3 FROM unnest(of_others) AS m);
END $$;
INSERT INTO events (name) VALUES ('now');
SELECT * FROM in_a_loop();
SQL
ok(wait_until($node, <<'SQL'), 'the next statement has another, also in one transaction and one snapshot');
INSERT INTO events (name) VALUES ('now');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT snowflake_settled('0-7') AS mark \gset
SELECT pg_sleep(0.05) \g /dev/null
SELECT snowflake_settled('0-7') > :mark;
SQL

# --- Waiting

importer_does("BEGIN; INSERT INTO events VALUES (snowflake_nextval(8), 'import')");
$node->safe_psql('postgres', "SELECT pg_sleep(0.01); INSERT INTO events (name) VALUES ('meanwhile')");
my $wait = "SELECT snowflake_wait_settled(max(id), '%s'%s) FROM events WHERE name = 'meanwhile'";
is($node->safe_psql('postgres', sprintf($wait, '1h', ", '0-7'")), 't', 'who waits for others does not wait for the import');
is($node->safe_psql('postgres', sprintf($wait, '10ms', '')), 'f', 'who waits for all does');
is($node->safe_psql('postgres', sprintf($wait, '10ms', ", '8'")), 'f', 'and who waits for its shard');
is(importer_does(sprintf($wait, '1h', ", '0-7'")), 't', 'it can wait itself for the others');
importer_does(sprintf($wait, '1h', ", '8'"));
like($import->{stderr}, qr/cannot wait for ids to be settled in a transaction that has minted/, 'but not for its own');
importer_does('ROLLBACK');

# --- Prepared transactions, over a restart

# Each has advisory locks of its own besides.
sub prepare
{
	my ($name, @ids) = @_;
	return $node->safe_psql('postgres', join(";\n", 'BEGIN', 'SELECT pg_advisory_xact_lock_shared(1), pg_advisory_xact_lock_shared(1, 2)', (map { "INSERT INTO events VALUES ($_, '$name'); SELECT pg_sleep(0.01), snowflake_settled()" } @ids),
		"PREPARE TRANSACTION '$name'"));
}

prepare('one', 'snowflake_nextval(8)');
see_meanwhile($eight, 'a prepared transaction holds the marks with its shard');
$node->restart;
see_meanwhile($eight, 'after a restart, too');
is(holders(), 'one 8', 'as the view says');
$node->safe_psql('postgres', "COMMIT PREPARED 'one'");
see_meanwhile($none, 'until it commits');
my $before = mark_of_shards('0-7');
prepare('two', 'snowflake_nextval(8)', 'snowflake_nextval(3)');
prepare('many', 'snowflake_nextval()');
for my $when ('', ' after a restart')
{
	see_meanwhile($all, "one of several shards holds all$when");
	is(holders(), 'two all, many all', "as the view says$when");
	is($node->safe_psql('postgres', <<'SQL'), 't|t|t|t', "from its first id on each$when");
SELECT snowflake_settled('8') <= first, snowflake_settled('8') > first - 4194304 * 9, snowflake_settled('3') > first, snowflake_settled('3') <= second
  FROM (SELECT min(second) AS second, snowflake_floor(since) AS first FROM snowflake_unsettled,
               LATERAL (SELECT snowflake_settled('0-7') AS second) AS s WHERE gid = 'two' GROUP BY since) AS two
SQL
	is($node->safe_psql('postgres', "SELECT snowflake_settled('0-7') >= $before"), 't', "and the mark of others has not gone back$when");
	$before = mark_of_shards('0-7');
	$node->restart if $when eq '';
}
$node->safe_psql('postgres', "COMMIT PREPARED 'many'");
see_meanwhile($all, 'also without another one');
$node->safe_psql('postgres', "COMMIT PREPARED 'two'");
see_meanwhile($none, 'until they end');
$import->quit;

# --- Lists that are none

for ([ '', 'No shard is named' ], [ '5000', 'Shard 5000 is out of range: the layout has shards 0 to 1023' ], [ 'auto:8', '"auto:8" is not a shard or a range of shards' ])
{
	my ($list, $reason) = @$_;
	fails_with($node, "SELECT snowflake_settled('$list')", '22023', qr/invalid list of shards "\Q$list\E"\nDETAIL:  \Q$reason\E.*HINT:  Write shards from 0 to 1023/s,
		"'$list' is no list of shards");
}
is($node->safe_psql('postgres', q(SELECT snowflake_settled(current_setting('snowflake.shards')) <= snowflake_settled(' 0 - 8 '), snowflake_settled(NULL) IS NULL)), 't|t',
	'the list may be that of the setting');

# --- Everybody at once
#
# Writers of each kind, and readers of lists that overlap.  A reader remembers the last id
# that it read, and its list's mark.

$node->safe_psql('postgres', <<'SQL');
TRUNCATE events;
CREATE UNLOGGED TABLE got (list text, id bigint);
CREATE UNLOGGED TABLE gone_back (list text, before bigint, mark bigint);
CREATE TABLE over ();
CREATE FUNCTION in_list(list text, id bigint) RETURNS boolean LANGUAGE sql AS $$
	SELECT list = '' OR snowflake_shard(id) BETWEEN split_part(list, '-', 1)::int AND split_part(list || '-' || list, '-', 2)::int
$$;
CREATE PROCEDURE write_all(each integer) LANGUAGE plpgsql AS $$
BEGIN
	FOR n IN 1 .. each LOOP
		CASE n % 6
		WHEN 0 THEN INSERT INTO events VALUES (snowflake_nextval(8), 'import');
		WHEN 1 THEN INSERT INTO events (name) VALUES ('ordinary');
		WHEN 2 THEN
			INSERT INTO events VALUES (snowflake_nextval(8), 'first');
			PERFORM pg_sleep(random() * 0.003);
			INSERT INTO events VALUES (snowflake_nextval(4), 'second');
		WHEN 3 THEN
			BEGIN
				INSERT INTO events VALUES (snowflake_nextval(4), 'undone');
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN
				INSERT INTO events VALUES (snowflake_nextval(5), 'after an exception');
			END;
		WHEN 4 THEN
			PERFORM set_config('snowflake.shards', (n % 9)::text, true);
			INSERT INTO events (name) VALUES ('with one shard');
		ELSE
			INSERT INTO events VALUES (snowflake_nextval(5), 'first');
			PERFORM pg_sleep(random() * 0.003);
			INSERT INTO events (name) VALUES ('and any');
		END CASE;
		IF random() < 0.3 THEN PERFORM pg_sleep(random() * random() * 0.02); END IF;
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CREATE PROCEDURE read_all(list text, as_of text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	last bigint := 0;
	newest bigint;
	before bigint := 0;
	below bigint;
	is_over boolean;
BEGIN
	as_of := coalesce(as_of, list);
	LOOP
		is_over := to_regclass('over') IS NULL;
		COMMIT;
		-- one statement has the mark and the page
		WITH bound AS MATERIALIZED (
			SELECT CASE as_of WHEN '' THEN snowflake_settled() ELSE snowflake_settled(as_of) END::bigint AS mark),
		page AS (
			SELECT id FROM events, bound WHERE id > last AND id < mark AND in_list(list, id)),
		kept AS (
			INSERT INTO got SELECT format('%s%s', list, nullif(' as of ' || as_of, ' as of ' || list)), id FROM page)
		SELECT (SELECT max(id) FROM page), mark INTO newest, below FROM bound;
		IF below < before THEN INSERT INTO gone_back VALUES (list, before, below); END IF;
		before := below;
		COMMIT;
		last := coalesce(newest, last);
		EXIT WHEN is_over AND NOT EXISTS (SELECT FROM events WHERE id > last AND in_list(list, id));
	END LOOP;
END $$;
SQL
my @lists = ('', '0-7', '8', '4', '4-8');
my @readers = map { start_session($node, "CALL read_all('$_')") } @lists;
push @readers, start_session($node, "CALL read_all('8', '4')");
in_parallel($node, 6, "CALL write_all($EACH)");
$node->safe_psql('postgres', 'DROP TABLE over');
for my $session (@readers)
{
	finish_session($session) or die $session->{err};
}
$node->safe_psql('postgres', 'CREATE INDEX ON got (list, id)');
for my $list (@lists)
{
	my ($rows, $missed, $twice) = split /\|/, $node->safe_psql('postgres', <<"SQL");
SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (SELECT FROM got WHERE list = '$list' AND got.id = events.id)),
       (SELECT count(*) - count(DISTINCT id) FROM got WHERE list = '$list')
  FROM events WHERE in_list('$list', id)
SQL
	cmp_ok($rows, '>', $EACH / 10, "the list \"$list\": $rows rows");
	is("$missed missed, $twice twice", '0 missed, 0 twice', 'each was read once');
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM gone_back'), 0, 'no mark went back');
cmp_ok($node->safe_psql('postgres', <<'SQL'), '>', 0, 'with the mark of other shards a reader misses some');
SELECT count(*) FROM events WHERE in_list('8', id) AND NOT EXISTS (SELECT FROM got WHERE list = '8 as of 4' AND got.id = events.id)
SQL

done_testing();
