# doc/managed.md: what it shows is what comes out, for an owner of a database who
# has no other right, and the ways to the C extension and back are as it says, while
# an application runs and never gets an error.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(sleep);
use Test::More;

my $page = page_text('doc/managed.md');
my $file = slurp_file("$FindBin::RealBin/../../sql/snowflake_plain.sql");
my $node = new_server('managed', conf => "timezone = 'UTC'\nsnowflake.shards = '6'");

# As the page says, by a role that owns its database and nothing else.
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE ROLE app LOGIN');
sub owned_database
{
	my ($name) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name OWNER owner");
	$node->safe_psql($name, "SET ROLE owner; CREATE SCHEMA plain; SET search_path = plain;\n$file");
	return;
}

owned_database('page');
$node->safe_psql('postgres', 'CREATE DATABASE pasted OWNER owner');
$ENV{PGUSER} = 'owner';
page_runs($node, 'managed', $page =~ s{^## The way to the C extension.*}{}msr, dbname => 'page');
delete $ENV{PGUSER};
is($node->safe_psql('page', q{SELECT count(*) FROM pg_extension WHERE extname LIKE 'snow%'}), 0, 'without any extension');
is($node->safe_psql('page', 'SET ROLE owner; GRANT USAGE ON SCHEMA plain TO app; SET ROLE app; SELECT plain.snowflake_shard(plain.snowflake_nextval())'),
	5, 'a role with USAGE on the schema mints');
fails_with($node, q{SET ROLE app; SELECT setval('plain.snowflake_shard_5', 1)}, '42501', qr/permission denied/, 'and moves no sequence', dbname => 'page');
fails_with($node, q{BEGIN READ ONLY; SELECT plain.snowflake_nextval()}, '25006', qr/read-only transaction/, 'nor in a read-only transaction', dbname => 'page');

# --- In any language of messages, with any name of a schema, and whatever is set: pasted, in
# --- one transaction, by an owner who has no other right.

my @HOSTILE = (
	'standard_conforming_strings = off', 'quote_all_identifiers = on', 'search_path = %s, pg_catalog', 'extra_float_digits = -15', 'bytea_output = escape',
	'DateStyle = "SQL, DMY"', 'IntervalStyle = sql_standard', 'TimeZone = "Asia/Kathmandu"', 'transform_null_equals = on', 'array_nulls = off', 'row_security = off',
	q{plpgsql.extra_errors = 'all'}, 'check_function_bodies = off', 'escape_string_warning = on', 'backslash_quote = off', 'client_min_messages = debug1',
	'default_transaction_isolation = serializable', 'plan_cache_mode = force_generic_plan', 'default_transaction_deferrable = on');
my @SCHEMAS = ('plain', 'a line b', 'Schema "x"', q{it's}, 'back\slash', '$f$ $ff$', '{schema} {own}', '100% %s', 'função line 3', 'snowflake_plain_setup(text,text)');

sub mints_in
{
	my ($dbname, $schema, $label, @settings) = @_;
	my $name = '"' . $schema =~ s/"/""/gr . '"';
	my $sets = join('', map { "SET $_;\n" } map { s/%s/$name/r } @settings);
	my ($code, $out, $err) = $node->psql($dbname, <<"SQL");
SET SESSION AUTHORIZATION owner;
$sets
BEGIN;
CREATE SCHEMA $name;
SET LOCAL search_path = $name;
$file
SELECT FROM snowflake_plain_setup('twitter', '5,7');
CREATE TABLE photos (id bigint DEFAULT snowflake_nextval(), at timestamptz);
COMMIT;
SET search_path = '';
INSERT INTO $name.photos SELECT FROM generate_series(1, 10);
SELECT 'good' FROM $name.photos HAVING count(*) = 10 AND count(DISTINCT id) = 10 AND min($name.snowflake_timestamp(id)) > now() - interval '1 min'
   AND bool_and($name.snowflake_shard(id) IN (5, 7) AND $name.snowflake_from_base58($name.snowflake_to_base58(id)) = id);
SELECT 'moved' FROM $name.snowflake_plain_setup('twitter', '7');
SELECT $name.snowflake_nextval(7) > max(id) FROM $name.photos;
DROP SCHEMA $name CASCADE;
SQL
	is($out, "good\nmoved\nt", "$label: set up, minted, set up again") or diag($err =~ s/^.*(?:DEBUG|WARNING|NOTICE).*\n//gmr);
	return;
}
$node->safe_psql('postgres', q{CREATE DATABASE names OWNER owner TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'});
# what this major has, and lets one set
@HOSTILE = grep { ($node->psql('names', 'SET ' . s/%s/plain/r))[0] == 0 } @HOSTILE;
cmp_ok(scalar @HOSTILE, '>', 15, 'settings are there to be set');
mints_in('names', $_, "schema $_") for @SCHEMAS;
mints_in('names', 'plain', $_, $_) for @HOSTILE;
mints_in('names', $SCHEMAS[4], 'all settings', @HOSTILE);

# gettext looks for the translations of these where the server's are
for my $language (qw(de fr ja ru zh_CN))
{
	local $ENV{LANGUAGE} = $language;
	$node->append_conf('postgresql.conf', "lc_messages = 'C.UTF-8'");
	$node->restart;
	my (undef, undef, $err) = $node->psql('names', 'SELECT 1/0');
  SKIP:
	{
		skip("messages are not in $language here: $err", 2) if $err =~ /division by zero/;
		mints_in('names', $_, "messages in $language, schema $_") for 'plain', 'a line b';
	}
}
$node->restart;

my $off = (grep { /^standard_conforming_strings/ } @HOSTILE) ? 'SET standard_conforming_strings = off;' : '';

# CREATE EXTENSION, which is a superuser's or an owner's, in schemas that it takes
for my $schema ('plain', 'a line b', 'função line 3')
{
	$node->safe_psql('names', qq{SET SESSION AUTHORIZATION owner; $off CREATE SCHEMA "$schema"; CREATE EXTENSION snowflake_plain SCHEMA "$schema"});
	is($node->safe_psql('names', qq{SET SESSION AUTHORIZATION owner; $off SELECT FROM "$schema".snowflake_plain_setup('twitter', '5'); SELECT "$schema".snowflake_shard("$schema".snowflake_nextval())}),
		5, "an extension in schema $schema");
	$node->safe_psql('names', qq{ALTER SCHEMA "$schema" RENAME TO renamed; SET SESSION AUTHORIZATION owner; SELECT FROM renamed.snowflake_plain_setup('twitter', '5,8'); DROP EXTENSION snowflake_plain; DROP SCHEMA renamed CASCADE});
}

# --- The way to the C extension, and back, while an application runs in sessions that stay
# --- open.  It has all that can name plain.

my ($change_over) = $page =~ /^(CREATE EXTENSION IF NOT EXISTS snowflake .*?^COMMIT;)$/ms;
my ($still_named) = $page =~ /^(SET search_path = pg_catalog;\nWITH named.*?);$/ms;
my ($drop_plain) = $page =~ /^(SELECT format\('DROP FUNCTION.*?);$/ms;

owned_database('app');
$node->safe_psql('app', q{SET ROLE owner; SELECT plain.snowflake_plain_setup('twitter', '4-5');
	CREATE DOMAIN photo_id AS bigint DEFAULT plain.snowflake_nextval(5);
	CREATE TABLE photos (id bigint PRIMARY KEY DEFAULT plain.snowflake_nextval(), n int, at timestamptz GENERATED ALWAYS AS (plain.snowflake_timestamp(id)) STORED,
		CONSTRAINT on_shard CHECK (plain.snowflake_shard(id) < 100));
	CREATE TABLE videos (id bigint PRIMARY KEY DEFAULT plain.snowflake_nextval(5), n int);
	CREATE TABLE domains (id photo_id, n int);
	CREATE INDEX photos_at ON photos (plain.snowflake_timestamp(id));
	CREATE VIEW recent AS SELECT id, plain.snowflake_shard(id) AS shard FROM photos WHERE id > plain.snowflake_floor(now() - interval '1 h');
	CREATE FUNCTION add(n int, id bigint DEFAULT plain.snowflake_nextval(4)) RETURNS bigint LANGUAGE sql AS 'SELECT id';
	CREATE FUNCTION body() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN plain.snowflake_nextval(); END';
	CREATE TABLE minted (id bigint, session int, n bigserial); CREATE INDEX ON minted (n)});

my @application = map { start_session($node, <<"SQL" x 50_000, dbname => 'app', connection => " application_name=app_$_") } 1 .. 6;
WITH p AS (INSERT INTO photos (n) SELECT generate_series(1, 3) RETURNING id) INSERT INTO minted SELECT id, $_ FROM p;
WITH p AS (INSERT INTO videos (n) SELECT generate_series(1, 3) RETURNING id) INSERT INTO minted SELECT id, 100 + $_ FROM p;
WITH p AS (INSERT INTO domains (n) SELECT generate_series(1, 2) RETURNING id) INSERT INTO minted SELECT id, 200 + $_ FROM p;
INSERT INTO minted VALUES (add(1), 300 + $_), (body(), 400 + $_);
SELECT count(shard) FROM recent WHERE id = 5;
SQL

# Whether the application goes on, on these shards alone.
sub mints_on
{
	my ($shards, $name) = @_;
	my $now = $node->safe_psql('app', 'SELECT max(n) FROM minted');

	wait_for(sub { (grep { has_ended($_) } @application) || $node->safe_psql('app', "SELECT count(DISTINCT session) >= 30 FROM minted WHERE n > $now + 200") eq 't' });
	is($node->safe_psql('app', <<"SQL"), $shards, "$name: the newest ids are of shard $shards");
SELECT string_agg(DISTINCT ((id >> 12) & 1023)::text, ',') FROM minted WHERE n > (SELECT max(n) FROM minted) - 100
SQL
	return;
}
mints_on('4,5', 'before');
$node->safe_psql('app', $change_over);
mints_on(6, 'the way to C');

# each of these orders is one session's, in one statement after the other
my $in_order = 'SELECT count(*) FROM (SELECT id < lag(id) OVER (PARTITION BY session %% 100 ORDER BY n) AS wrong FROM minted WHERE %s) AS m WHERE wrong';
is($node->safe_psql('app', sprintf($in_order =~ s/ %% 100//r, 'session >= 100')), 0, 'ids increase over the change');
fails_with($node, q{SELECT plain.snowflake_plain_setup('twitter', '6')}, '42710', qr/shard 6 is that of extension "snowflake"/, 'a shard of C', dbname => 'app');
my $twice = q{SELECT state, finding FROM public.snowflake_check() WHERE area = 'shards' AND state <> 'ok'};
is($node->safe_psql('app', $twice), '', 'snowflake_check() finds no shard twice');
is($node->safe_psql('app', qq{SET ROLE owner; CREATE SCHEMA second; SET search_path = second;\n$file\nSELECT FROM snowflake_plain_setup('twitter', '20'); ALTER SEQUENCE snowflake_shard_20 RENAME TO snowflake_shard_5; RESET ROLE; $twice; DROP SCHEMA second CASCADE}),
	'error|shard 5 is that of sequence plain.snowflake_shard_5, and of sequence second.snowflake_shard_5, so ids repeat', 'one in two schemas');
is($node->safe_psql('app', qq{SET snowflake.shards = '4'; $twice}), 'error|shard 4 is that of sequence plain.snowflake_shard_4, and of "snowflake.shards", so ids repeat', 'and one of plain and C');

# back, and to C again
$node->safe_psql('app', q{SET ROLE owner; SELECT plain.snowflake_plain_setup(layout, array_to_string(shards, ',')) FROM plain.snowflake_plain});
mints_on('4,5', 'the way back');
$node->safe_psql('app', $change_over);
mints_on(6, 'the way to C again');

# all that names plain, changed while the application runs; what locks a table waits for it
sub change_names
{
	my ($from, $to) = @_;
	my %other = (plain => $from, public => $to);
	my $list = $still_named =~ s/(?:\b|(?<=\\y))(plain|public)\b(?=\\?\.|'::regnamespace)/$other{$1}/gr;
	my ($code, $out, $err) = $node->psql('app', "$list \\gexec", on_error_stop => 0);

	is($err =~ s/^.*NOTICE.*\n?//gmr, '', "from $from to $to: each statement runs");
	is($node->safe_psql('app', "SELECT count(*) FROM ($list) AS l" =~ s/\(SET search_path = pg_catalog;\n/(/r), 0, "from $from to $to: nothing is named any more");
	return;
}
change_names('plain', 'public');
mints_on(6, 'by the names of C');
is(join('', stop_minters_of(@application)), '', 'the application never got an error');
is($node->safe_psql('app', 'SELECT count(*) - count(DISTINCT id) FROM minted'), 0, 'no id twice');
$node->safe_psql('app', "$drop_plain \\gexec");
is($node->safe_psql('app', q{SELECT count(*) FROM pg_namespace WHERE nspname = 'plain'}), 0, 'plain is dropped');
is($node->safe_psql('app', 'INSERT INTO photos (n) VALUES (1) RETURNING public.snowflake_shard(id)'), 6, 'without plain the application goes on');

# and the whole way back
$node->safe_psql('app', "SET ROLE owner; CREATE SCHEMA plain; SET search_path = plain;\n$file\nSELECT plain.snowflake_plain_setup('twitter', '8')");
change_names('public', 'plain');
$node->safe_psql('app', 'DROP EXTENSION snowflake');
is($node->safe_psql('app', 'INSERT INTO photos (n) VALUES (1) RETURNING plain.snowflake_shard(id)'), 8, 'without C the application goes on');
is($node->safe_psql('app', 'SELECT ((add(1) >> 12) & 1023, (body() >> 12) & 1023)::text'), '(8,8)', 'functions, too');
is($node->safe_psql('app', q{SET ROLE owner; SELECT FROM plain.snowflake_plain_setup('twitter', '6'); SELECT plain.snowflake_shard(plain.snowflake_nextval())}),
	6, 'and the shard that was of C may be of plain');

# Ends the application between two statements, as one that is stopped; gives what went wrong.
sub stop_minters_of
{
	my @sessions = @_;

	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'app\_%'});
	for my $session (@sessions)
	{
		eval { finish_session($session) };
	}
	return grep { !/terminating connection due to administrator command|no connection to the server|server closed|connection to server was lost|^\s*(?:This probably|before or while)/ } map { split(/^/, $_->{err}) } @sessions;
}

done_testing();
