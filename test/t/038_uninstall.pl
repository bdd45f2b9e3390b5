# doc/install.md does what it says.  A server is set up as the page says, a
# database uses the extension in every way there is, and the page's commands and
# SQL remove it: from two databases, from the settings, from the files of the
# server and of its standby.  Both then start where the library cannot be found,
# with each row as it was.  And a server that lost the library first is brought
# back as the page says.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Path qw(make_path);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $page = page_text('doc/install.md');
my $directory = '/var/lib/postgresql/15/main';
my $configuration = '/etc/postgresql/15/main';

# --- What the page has under a heading, up to the next one of that rank

sub section
{
	my ($heading) = @_;
	my ($rank, $text) = $page =~ /^(#+) \Q$heading\E\n(.*)/ms or die "no heading $heading";

	return $text =~ s/^#{1,${\length $rank}} .*//msr;
}

# The first of its blocks in this language that matches.
sub block
{
	my ($heading, $language, $pattern) = @_;
	my ($block) = grep { $_->[0] eq $language && $_->[1] =~ $pattern } fenced_blocks(section($heading));

	return $block ? $block->[1] : die "no block $pattern under $heading";
}

# Carry out shell commands of the page on a server of the test, whose files are
# in another place, and which the test starts and stops itself.
sub carry_out
{
	my ($node, $commands) = @_;
	my $data_dir = $node->data_dir;
	my $output = '';

	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	$commands =~ s/\Q$configuration\E(\/conf\.d)?/$data_dir\/conf.d/g;
	$commands =~ s/\Q$directory\E/$data_dir/g;
	for my $part (split(/^(sudo pg_ctlcluster 15 main \w+)\n/m, $commands))
	{
		if ($part =~ /^sudo pg_ctlcluster 15 main (\w+)$/)
		{
			$node->$1;
		}
		else
		{
			$part =~ s/\bsudo (-u postgres )?//g;
			my ($out, $err) = run_command([ 'bash', '-euc', $part ]);
			is($err, '', 'carried out: ' . ($part =~ /(.*)/)[0]);
			$output .= $out;
		}
	}
	return $output;
}

# A server that reads conf.d, as Debian's do, and knows nothing of snowflake.
sub bare_server
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	set_line($node, shared_preload_libraries => '');
	$node->append_conf('postgresql.conf', "timezone = 'UTC'\ninclude_dir = 'conf.d'");
	make_path($node->data_dir . '/conf.d');
	$node->start;
	return $node;
}

# Set a value in postgresql.conf; without one, remove the line.
sub set_line
{
	my ($node, $name, $value) = @_;
	my $path = $node->data_dir . '/postgresql.conf';
	my $conf = slurp_file($path) =~ s/^$name *=.*\n//mgr;

	unlink $path;
	append_to_file($path, $conf . ($value ? "$name = '$value'\n" : ''));
	return;
}

# As if the package had been removed: the server finds all libraries but this.
my $libraries = PostgreSQL::Test::Utils::tempdir();
chomp(my $installed = `pg_config --pkglibdir`);
symlink($_, $libraries . '/' . s{.*/}{}r) for grep { !m{/snowflake\.so$} } glob("$installed/*.so");

my @no_file = ('58P01', qr/could not access file "snowflake": No such file or directory/);

sub remove_library
{
	my ($node) = @_;

	set_line($node, dynamic_library_path => $libraries);
	set_line($node, $_ => '') for 'extension_destdir', 'extension_control_path';
	return;
}

# --- The page's own examples

my $node = bare_server('page');
carry_out($node, block('Before the first start: layout and shards', 'sh', qr/snowflake\.conf/));
page_runs($node, 'first id', section('The first id'));
page_runs($node, 'upgrade', section('Upgrade'));

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
# a server that mints writes its horizon, within half of the reserve
wait_for(sub { $node->safe_psql('postgres', 'SELECT snowflake_nextval()'); -e $standby->data_dir . '/global/11111' });

page_runs($node, 'the examples', (section('Uninstall') =~ /(.*?)^### /ms)[0]);

# What is in the tables, and in which of them, whatever they are called.
sub contents
{
	my ($server) = @_;

	return $server->safe_psql('postgres', <<'SQL');
SELECT 'photos', id::bigint, url, created_at::text FROM photos
UNION ALL SELECT 'comments', id::bigint, photo::text, NULL FROM comments
UNION ALL SELECT tableoid::regclass::text, id::bigint, url, NULL FROM clicks
UNION ALL SELECT tableoid::regclass::text, id::bigint, what, NULL FROM events ORDER BY 1, 2
SQL
}

my $files = q{SELECT string_agg(pg_relation_filenode(oid)::text, ' ' ORDER BY relname) FROM pg_class
	WHERE relname ~ '^(photos|comments|clicks_2.*|events_\d)(_pkey)?$'};
my $before = contents($node);
my $files_before = $node->safe_psql('postgres', $files);

# --- A second database, with everything else that can be in the way

$node->safe_psql('postgres', 'CREATE DATABASE extras');
$node->safe_psql('extras', <<'SQL');
CREATE SCHEMA "Own schema";
CREATE EXTENSION snowflake SCHEMA "Own schema";
ALTER DATABASE extras SET search_path = public, "Own schema";
SET search_path = public, "Own schema";

CREATE TABLE photos (
	"the id" snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
	url      text,
	digit    int GENERATED ALWAYS AS ("the id" % 10) STORED,
	minted   timestamptz GENERATED ALWAYS AS (snowflake_timestamp("the id", 'twitter')) STORED,
	CONSTRAINT our_shard CHECK (snowflake_shard("the id", 'twitter') < 8),
	CHECK ("the id" > 0)
);
CREATE INDEX by_minute ON photos (date_trunc('minute', snowflake_timestamp("the id", 'twitter') AT TIME ZONE 'UTC'));
CREATE INDEX by_url ON photos (url, "the id");
CREATE STATISTICS url_of_id ON "the id", url FROM photos;
CREATE TABLE more_photos (n int) INHERITS (photos);
CREATE DOMAIN photo_id AS snowflake CHECK (VALUE > 0);
CREATE TABLE likes (photo photo_id REFERENCES photos, old snowflake[], earlier photo_id[]);
CREATE TYPE pair AS (first snowflake, second int);
CREATE TYPE idrange AS RANGE (subtype = snowflake);
CREATE VIEW recent AS SELECT "the id" AS id FROM photos;
CREATE VIEW latest AS SELECT max(id) FROM recent;
CREATE VIEW urls AS SELECT url FROM photos;
CREATE MATERIALIZED VIEW by_shard AS SELECT snowflake_shard("the id"), count(*) FROM photos GROUP BY 1;
CREATE RULE no_delete AS ON DELETE TO photos WHERE "the id" = 5 DO INSTEAD NOTHING;
CREATE POLICY positive ON photos USING ("the id" > 0);
CREATE TRIGGER of_id BEFORE UPDATE OF "the id" ON photos
	FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE PUBLICATION ids FOR TABLE photos ("the id");
CREATE FUNCTION age_of(snowflake) RETURNS interval LANGUAGE sql AS 'SELECT now() - snowflake_timestamp($1)';
CREATE FUNCTION newest() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT max("the id") FROM photos; END;
CREATE FUNCTION mint() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN snowflake_nextval(); END';
CREATE FUNCTION seven() RETURNS int LANGUAGE sql SET snowflake.clock_tolerance = '7s' AS 'SELECT 7';
CREATE TABLE bare (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE far (id snowflake) SERVER elsewhere;
CREATE TABLE deep (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE deep_0 PARTITION OF deep FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE deep_1 PARTITION OF deep FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY RANGE (id);
SELECT snowflake_make_partitions('deep_1', '2026-01-01Z', '2026-03-01Z', '1 month');
CREATE TABLE deep_1_rest PARTITION OF deep_1 DEFAULT;

INSERT INTO photos (url) SELECT 'photo ' || n FROM generate_series(1, 1000) AS n;
INSERT INTO more_photos (url, n) VALUES ('more', 1);
INSERT INTO likes SELECT "the id", ARRAY["the id"], ARRAY["the id"]::photo_id[] FROM ONLY photos;
INSERT INTO bare DEFAULT VALUES;
INSERT INTO deep SELECT snowflake_encode('2026-01-15Z', n, n) FROM generate_series(0, 9) AS n;
INSERT INTO deep SELECT snowflake_encode('2026-02-15Z', n, n) FROM generate_series(0, 9) AS n;
INSERT INTO deep SELECT snowflake_nextval();
SQL

my $extras = q{
SELECT tableoid::regclass::text AS place, "the id"::bigint, url, digit, minted::text FROM photos
UNION ALL SELECT 'likes', photo::bigint, old::text, earlier[1]::int8 % 10, NULL FROM likes
UNION ALL SELECT tableoid::regclass::text, id::bigint, NULL, NULL, NULL FROM deep
UNION ALL SELECT 'bare', id::bigint, NULL, NULL, NULL FROM bare ORDER BY 1, 2};
my $extras_files = q{SELECT string_agg(relname || ' ' || pg_relation_filenode(oid), ', ' ORDER BY relname) FROM pg_class
	WHERE relname ~ '^(photos|more_photos|bare|deep_.*)(_pkey)?$' AND relkind IN ('r', 'i')};
my $extras_before = $node->safe_psql('extras', $extras);
my $extras_files_before = $node->safe_psql('extras', $extras_files);
is(carry_out($node, block('Uninstall', 'sh', qr/pg_database/)), "postgres\nextras",
	'the page finds the databases that have it');

# --- What the function lists, and what DROP EXTENSION names

is($node->safe_psql('extras', q{SELECT o FROM snowflake_dependents(), replace(replace(object, 'public.', ''), '"Own schema".', '') AS o WHERE statement IS NULL ORDER BY o COLLATE "C"}),
	<<'LIST' =~ s/\n\z//r, 'the function lists what has no statement');
constraint our_shard on table more_photos
constraint our_shard on table photos
function age_of(snowflake)
function idrange(snowflake,snowflake)
function idrange(snowflake,snowflake,text)
function newest()
index by_minute
materialized view by_shard
policy positive on table photos
publication of table more_photos in publication ids
publication of table photos in publication ids
rule no_delete on table photos
table deep
trigger of_id on table photos
type idrange
type photo_id
view latest
view recent
LIST

my %listed = map { $_ => 1 } split(/\n/, $node->safe_psql('extras', q{SELECT replace(replace(object, 'public.', ''), '"Own schema".', '') FROM snowflake_dependents()}));
my $refused = ($node->psql('extras', 'DROP EXTENSION snowflake'))[2];
my @named = $refused =~ /^(?:DETAIL:  )?(.*) depends on (?:type|function|operator class) \S*(?:snowflake|photo_id)/mg;
cmp_ok(scalar(@named), '>=', 15, 'DROP EXTENSION names ' . @named . ' objects');
is_deeply([ grep { !$listed{$_} && !$listed{"default value for $_"} && !/^column .* of (?:.*view|table more_photos$)/ } @named ], [],
	'the function lists each of them, but for columns that change with another');

# --- The steps of the page, there

my $functions = block('1. In each database', 'sql', qr/prosrc/);
is(join("\n", sort split(/\n/, $node->safe_psql('extras', $functions))),
	qq(age_of(snowflake)|\nmint()|\nseven()|{snowflake.clock_tolerance=7s}), 'functions that it finds by their text and settings');

my ($change) = block('1. In each database', 'sql', qr/\\gexec\nALTER TABLE photos/) =~ /^(SELECT statement.*?\\gexec\n)/ms;
fails_with($node, "BEGIN;\n$change", '0A000', qr/cannot (?:alter type of a column used by|change the type of column)/, 'what is in the way is named',
	dbname => 'extras');
$node->safe_psql('extras', <<'SQL' . $change);
DROP MATERIALIZED VIEW by_shard;
DROP VIEW recent, latest;
DROP RULE no_delete ON photos;
DROP POLICY positive ON photos;
DROP TRIGGER of_id ON photos;
DROP PUBLICATION ids;
DROP FUNCTION age_of, newest, mint;
ALTER FUNCTION seven RESET snowflake.clock_tolerance;
DROP INDEX by_minute;
DROP TYPE idrange;
ALTER TABLE photos DROP CONSTRAINT our_shard;
SQL
is($node->safe_psql('extras', q{SELECT replace(object, 'public.', '') FROM snowflake_dependents() ORDER BY 1}), "table deep\ntype photo_id", 'what is left then');

my $reduce = block('Partitioned tables', 'sql', qr/CREATE OPERATOR CLASS/);
my $attach = block('Partitioned tables', 'sql', qr/DETACH/);
$node->safe_psql('extras', $reduce . ($attach =~ s/\{clicks,events\}/{deep}/r));
$node->safe_psql('extras', 'DROP DOMAIN photo_id; DROP EXTENSION snowflake');
is($node->safe_psql('extras', $extras), $extras_before, 'each row is as it was, in the place where it was');
is($node->safe_psql('extras', $extras_files), $extras_files_before, 'no file was rewritten');
is($node->safe_psql('extras', "SELECT relid, parentrelid, level FROM pg_partition_tree('deep') ORDER BY relid::text COLLATE \"C\""),
	<<'TREE' =~ s/\n\z//r, 'partitions of partitions are attached');
deep||0
deep_0|deep|1
deep_1|deep|1
deep_1_20260101|deep_1|2
deep_1_20260201|deep_1|2
deep_1_rest|deep_1|2
TREE
is($node->safe_psql('extras', <<'SQL'), 0, 'no column has a type of the extension');
SELECT count(*) FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid WHERE typname ~ 'snowflake' AND attnum > 0
SQL

# --- And those for the page's examples

page_runs($node, '1. In each database', section('1. In each database'));
is(contents($node), $before, 'the rows of the examples are as they were, in the partitions where they were');
is($node->safe_psql('postgres', $files), $files_before, 'and in the same files');
like($node->safe_psql('postgres', 'EXPLAIN SELECT * FROM events WHERE id = 2006515713438658567'),
	qr/Index Scan using events_\d_pkey on events_\d/, 'a look-up by id visits one partition by shard');

# --- The settings, wherever they can be

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE "App 1";
CREATE ROLE app2;
ALTER SYSTEM SET snowflake.reserve = '2s';
ALTER ROLE "App 1" SET snowflake.shards = '5';
ALTER ROLE ALL SET snowflake.clock_tolerance = '2s';
ALTER DATABASE extras SET snowflake.shards = '5';
ALTER ROLE "App 1" IN DATABASE postgres SET snowflake.shards = '5';
ALTER ROLE app2 SET work_mem = '8MB';
GRANT SET ON PARAMETER snowflake.shards TO PUBLIC;
GRANT SET, ALTER SYSTEM ON PARAMETER snowflake.shards TO "App 1" WITH GRANT OPTION;
SET ROLE "App 1"; GRANT SET ON PARAMETER snowflake.shards TO app2; RESET ROLE;
SQL
page_runs($node, '2. The settings', section('2. The settings'));
is($node->safe_psql('postgres', <<'SQL'), 'app2: work_mem=8MB', 'other settings stay, and none of the extension');
SELECT rolname || ': ' || array_to_string(setconfig, ' ') FROM pg_db_role_setting LEFT JOIN pg_roles ON pg_roles.oid = setrole
 WHERE setconfig::text !~ 'search_path'
SQL

# --- The files, on both servers

my $remove = block('3. The files', 'sh', qr/snowflake\.horizon/);
$node->wait_for_catchup($standby);
ok(-e $standby->data_dir . '/global/11111', 'the standby has the page of the horizon');
for my $server ($node, $standby)
{
	my $data_dir = $server->data_dir;

	ok(-e "$data_dir/snowflake.horizon", $server->name . ' has the file of the horizon');
	append_to_file("$data_dir/$_", '') for 'global/11112', 'snowflake.horizon.tmp', 'snowflake.layout.tmp', 'snowflake.lease', 'snowflake.lease.tmp';
	carry_out($server, $remove);
	is(join(' ', map { s{.*/}{}r } glob("$data_dir/snowflake* $data_dir/conf.d/* $data_dir/global/1111*")), '', 'and it is gone, as all others');
	remove_library($server);
	$server->restart;
	fails_with($server, "LOAD 'snowflake'", @no_file, $server->name . ' runs where the library cannot be found');
}
is(contents($node), $before, 'the rows are as they were');
is($node->safe_psql('extras', $extras), $extras_before, 'in the other database, too');
page_runs($node, '3. The files', section('3. The files'));
is($node->safe_psql('postgres', <<'SQL'), 't|t|t', 'ids compare as bigint, new ones come after old ones, and routing works');
WITH new_event AS (INSERT INTO events SELECT id - (7::bigint << 12), 'again' FROM events WHERE what = 'logout' RETURNING tableoid)
SELECT (SELECT count(*) = 3 FROM photos WHERE id > 4000000000), (SELECT max(id) FROM photos) = (SELECT id FROM photos WHERE url = 'c.jpg'),
	(SELECT tableoid = 'events_1'::regclass FROM new_event)
SQL
$node->wait_for_catchup($standby);
is(contents($standby), contents($node), 'the standby goes on');
my ($dump) = run_command([ 'pg_dumpall', '-d', $node->connstr('postgres') ]);
like($dump, qr/CREATE TABLE public.photos/, 'a dump of the server has the tables');
is(join("\n", grep { /snowflake/i } split(/\n/, $dump)), '', 'and nothing of the extension');
$_->stop for $standby, $node;

# --- The package was removed first

my $lost = bare_server('lost');
my ($message) = block('The package was removed first', 'text', qr/FATAL/) =~ /(FATAL.*)/;
my ($grep, $copy) = map { $_->[1] } grep { $_->[0] eq '' } fenced_blocks(section('The package was removed first'));
carry_out($lost, block('Before the first start: layout and shards', 'sh', qr/snowflake\.conf/));
$lost->safe_psql('postgres', 'CREATE EXTENSION snowflake');
page_runs($lost, 'the examples, once more', (section('Uninstall') =~ /(.*?)^### /ms)[0]);
$lost->safe_psql('postgres', "ALTER SYSTEM SET snowflake.reserve = '2s'");
$before = contents($lost);

$lost->stop;
remove_library($lost);
ok(!$lost->start(fail_ok => 1), 'without the library the server does not start');
like(slurp_file($lost->logfile), qr/\Q$message\E$/m, 'and says what the page says');
is(carry_out($lost, $grep), join("\n", map { $lost->data_dir . "/$_" }
	"conf.d/snowflake.conf:shared_preload_libraries = 'snowflake'",
	"conf.d/snowflake.conf:snowflake.layout = 'twitter'",
	"conf.d/snowflake.conf:snowflake.shards = '5'",
	"postgresql.auto.conf:snowflake.reserve = '2s'"), 'the page finds the lines');
carry_out($lost, "sudo sed -i /shared_preload/d $configuration/conf.d/snowflake.conf\nsudo pg_ctlcluster 15 main start\n");

is($lost->safe_psql('postgres', 'SELECT count(*), bool_and(id > 4000000000 AND id = id::text::snowflake) FROM photos'),
	'2|t', 'a table can be read');
fails_with($lost, $_, @no_file, "fails: $_") for "INSERT INTO photos (url) VALUES ('c.jpg')", 'SELECT * FROM recent', 'SELECT * FROM events';
$lost->safe_psql('postgres', $copy);
$lost->safe_psql('postgres', $_) for
  block('1. In each database', 'sql', qr/\\gexec\nALTER TABLE photos/),
  ($attach =~ s/clicks,events/clicks/r),
  'DROP EXTENSION snowflake; ALTER TABLE events_new RENAME TO events';
page_runs($lost, 'without the library', (section('2. The settings') =~ /(.*?\\gexec\n```\n)/s)[0]);
carry_out($lost, $remove);
is_deeply([ sort(split(/\n/, contents($lost))) ], [ sort(split(/\n/, $before =~ s/^events_\d\|/events|/mgr)) ], 'the rows are as they were');
is($lost->safe_psql('postgres', "SELECT pg_typeof(id) FROM events UNION SELECT pg_typeof(id) FROM photos"), 'bigint', 'and the ids are numbers');

done_testing();
