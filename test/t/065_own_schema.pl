# The extension in a schema of its own, as doc/install.md says for those whose tools
# read their tables: a role with no rights but the usual ones works there, and a
# dump is restored with it.  Where the schema is not in the search_path, comparing
# an id with a time is an error, and nothing else is: objects that exist keep their
# operators.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use OwnCalls;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('own_schema');
$node->init;
$node->append_conf('postgresql.conf', "snowflake.shards = '5'\ntimezone = 'UTC'\nmax_prepared_transactions = 5");
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN; CREATE DATABASE app OWNER app');

my ($section) = page_text('doc/install.md') =~ /^## In a schema of its own\n(.*?)^## /ms;
page_runs($node, 'install', $section, dbname => 'app');

my @no_operator = ('42883', qr/operator does not exist: ext\.snowflake >= timestamp with time zone/);

# --- What was made with the schema in the path works without it

$node->safe_psql('app', <<'SQL');
CREATE TABLE clicks (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	photo snowflake REFERENCES photos CHECK (photo > timestamptz '2020-01-01Z')
) PARTITION BY RANGE (id);
SELECT snowflake_make_partitions('clicks', now() - interval '1 hour', now() + interval '1 hour', '2 hours');
CREATE VIEW recent AS SELECT * FROM photos WHERE id >= now() - interval '1 day';
CREATE INDEX photos_late ON photos (url) WHERE id >= timestamptz '2020-01-01Z';
CREATE MATERIALIZED VIEW times AS SELECT id::timestamptz AS at FROM photos WHERE id < now();
INSERT INTO clicks (photo) SELECT id FROM photos;
GRANT ALL ON ALL TABLES IN SCHEMA public TO app;
SQL

sub without_path
{
	my ($database, $name) = @_;
	my $path = 'SET search_path = public';

	is($node->safe_psql($database, "$path; SELECT count(*) FROM recent"), 2, "$name: a view compares with a time");
	is($node->safe_psql($database, "$path; REFRESH MATERIALIZED VIEW times; SELECT count(*) FROM times"), 2, "$name: and a materialized one");
	is($node->safe_psql($database, "$path; BEGIN; INSERT INTO photos (url) VALUES ('c'); INSERT INTO clicks (photo) SELECT id FROM photos; SELECT count(*) FROM clicks; ROLLBACK"),
		5, "$name: defaults, a check, partitions");
	is($node->safe_psql($database, "$path; SET enable_seqscan = off; EXPLAIN SELECT url FROM photos WHERE id OPERATOR(ext.>=) timestamptz '2020-01-01Z' AND url = 'b'")
			=~ /photos_late/, 1, "$name: an index with a condition on a time");
	fails_with($node, "$path; SELECT FROM photos WHERE id >= now()", @no_operator, "$name: but a query does not", dbname => $database);
	fails_with($node, "$path; SELECT FROM photos WHERE id BETWEEN now() AND now()", @no_operator, "$name: nor BETWEEN", dbname => $database);
	fails_with($node, "$path; SELECT ext.snowflake_adopt('clicks', 'photo')", '42809', qr/refers to another key/, "$name: functions find their own",
		dbname => $database);
	return;
}

without_path('app', 'without the path');

# --- An ordinary role

my ($status, $out, $err) = $node->psql('app', "INSERT INTO photos (url) VALUES ('by app') RETURNING id > now() - interval '1 day'; DELETE FROM photos WHERE url = 'by app'",
	extra_params => [ '-U', 'app' ]);
is("$out$err", 't', 'a role that owns nothing mints, and compares with times');

# --- Dump and restore: with --create the path comes back, too

my $dump = $node->basedir . '/dump.sql';
my $digest = 'SELECT md5(string_agg(t::text, $$,$$ ORDER BY id)) FROM photos AS t';
my $original = $node->safe_psql('app', $digest);

$node->command_ok([ 'pg_dump', '--no-sync', '-f', $dump, '-d', $node->connstr('app') ], 'dumped');
$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('plain'), '-f', $dump ], 'restored');
is($node->safe_psql('plain', $digest), $original, 'with the same rows');
is($node->safe_psql('plain', q{SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'snowflake'}), 'ext', 'and the extension in its schema');
without_path('plain', 'restored');

$node->command_ok([ 'pg_dump', '--create', '--no-sync', '-f', "$dump.create", '-d', $node->connstr('app') ], 'dumped with --create');
$node->safe_psql('postgres', 'DROP DATABASE app');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', "$dump.create" ], 'restored');
is($node->safe_psql('app', 'SELECT count(*) FROM photos WHERE id BETWEEN now() - interval $$1 day$$ AND now()'), 2, 'its search_path is there');

# --- An extension that is in public moves, and tables keep what they have

my ($recipe) = $section =~ /^(BEGIN;\nUPDATE pg_extension.*?^COMMIT;\n)/ms;
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION snowflake;
CREATE TABLE old (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
CREATE SCHEMA ext;
$recipe
INSERT INTO old (n) VALUES (1);
SQL
is($node->safe_psql('postgres', q{SELECT extrelocatable FROM pg_extension WHERE extname = 'snowflake'}), 'f', 'moved as the page says');
fails_with($node, 'ALTER EXTENSION snowflake SET SCHEMA public', '0A000', qr/does not support SET SCHEMA/, 'by itself it stays where it is');
is($node->safe_psql('postgres', 'SELECT count(*) FROM old WHERE id >= ext.snowflake_floor(now() - interval $$1 day$$)'), 1, 'after a move the default mints');
fails_with($node, 'SELECT FROM old WHERE id >= now()', @no_operator, 'and times need the path');
is($node->safe_psql('postgres', q{SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'old'}),
	0, 'no view of the extension is among the tables');

# --- Names of schemas: all of it works, or the server refuses

$node->safe_psql('postgres', 'CREATE DATABASE named');
for my $name ('a"b', q(a'b), 'a$b', 'a\\b')
{
	my $quoted = '"' . $name =~ s/"/""/gr . '"';
	fails_with($node, "CREATE SCHEMA $quoted; CREATE EXTENSION snowflake SCHEMA $quoted", '22P02', qr/invalid (character|string) in extension "snowflake" schema/,
		"refused: $quoted", dbname => 'named');
}
for my $name ('"Ä b.c;"', 'snowflake', '"select"', qq("a\nCREATE TABLE public.mine();\n--"), '"a--b"', '"a/*b"', '"a*/b"')
{
	my ($code, undef, $err) = $node->psql('named', "\\set VERBOSITY verbose\nCREATE SCHEMA $name; CREATE EXTENSION snowflake SCHEMA $name", on_error_stop => 1);
	if ($code != 0 && $name =~ m{--|/\*|\*/})
	{
		# the minor releases of 2026 refuse them
		like($err, qr/ERROR:  22P02: invalid string in extension "snowflake" schema|ERROR:  22P02: invalid character in extension "snowflake" schema/, "refused: $name");
		next;
	}
	is($err, '', "installed in $name");
	is(($node->psql('named', in_schema($name, snowflake_calls()), on_error_stop => 1))[0], 0, "all of it works in $name");
	$node->safe_psql('named', 'DROP EXTENSION snowflake');
}
is($node->safe_psql('named', q(SELECT to_regclass('public.mine') IS NULL)), 't', 'no name of a schema is a statement');

done_testing();
