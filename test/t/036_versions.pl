# Versions: every way from one version of the SQL to a later one ends with the
# catalog of a fresh install, keeps what users built on the old one, and works
# with today's library.  SQL that is newer than the library fails cleanly.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Copy qw(copy);
use File::Path qw(make_path);
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my ($default) = slurp_file("$top/snowflake.control") =~ /^default_version = '(.*)'$/m;
my %known = map { $_ => 1 } map { m{snowflake--([^/]+)\.sql$} ? split(/--/, $1) : () } glob("$top/sql/*.sql");

my $node = new_server('versions', conf => "snowflake.shards = '5'\ntimezone = 'UTC'");
my $databases = 0;

sub new_database
{
	my $name = 'versions_' . ++$databases;

	$node->safe_psql('postgres', "CREATE DATABASE $name");
	return $name;
}

# --- All that the catalogs say about the extension's objects, whatever kinds of
# --- objects those are: each one's row with its definition, comment and
# --- dependencies.

my $SNAPSHOT = <<'SQL';
SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION pg_temp.row_of(catalog oid, object oid) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	found jsonb;
BEGIN
	EXECUTE format('SELECT to_jsonb(c) FROM %s AS c WHERE oid = $1', catalog::regclass) INTO found USING object;
	-- parse trees name objects by number; the definitions say the same by name
	RETURN found - ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = catalog AND atttypid = 'pg_node_tree'::regtype);
END $$;

CREATE TEMPORARY TABLE members AS
WITH RECURSIVE member AS (
	SELECT 'pg_extension'::regclass::oid AS classid, oid AS objid FROM pg_extension WHERE extname = 'snowflake'
	UNION
	SELECT d.classid, d.objid FROM pg_depend AS d JOIN member AS m ON d.refclassid = m.classid AND d.refobjid = m.objid
	WHERE d.deptype IN ('e', 'i', 'a'))
SELECT * FROM member;

-- numbers that differ from database to database
SELECT 'name', objid, pg_describe_object(classid, objid, 0) FROM members
UNION ALL SELECT 'name', oid, 'schema ' || nspname FROM pg_namespace WHERE oid >= 16384 ORDER BY 2;

SELECT 'is', pg_describe_object(classid, objid, 0), row.* FROM members, jsonb_each(pg_temp.row_of(classid, objid)) AS row
UNION ALL
SELECT 'is', pg_describe_object(1259, attrelid, attnum), row.* FROM pg_attribute AS a, jsonb_each(to_jsonb(a)) AS row
	WHERE attrelid IN (SELECT objid FROM members WHERE classid = 1259) ORDER BY 2, 3;

SELECT 'does', pg_describe_object(classid, objid, 0), CASE classid
	WHEN 'pg_proc'::regclass THEN pg_get_functiondef(objid)
	WHEN 'pg_rewrite'::regclass THEN pg_get_ruledef(objid)
	WHEN 'pg_constraint'::regclass THEN pg_get_constraintdef(objid)
	WHEN 'pg_class'::regclass THEN pg_get_viewdef(objid) END FROM members ORDER BY 2;

SELECT 'needs', pg_describe_object(classid, objid, objsubid), deptype, pg_describe_object(refclassid, refobjid, refobjsubid)
	FROM pg_depend JOIN members USING (classid, objid) ORDER BY 2, 3, 4;
SELECT 'comment', pg_describe_object(classoid, objoid, objsubid), description
	FROM pg_description JOIN members ON (classoid, objoid) = (classid, objid) ORDER BY 2;
SELECT 'allows', pg_describe_object(classoid, objoid, objsubid), privtype, initprivs
	FROM pg_init_privs JOIN members ON (classoid, objoid) = (classid, objid) ORDER BY 2;
SQL

# One text, in which objects go by their names.
sub snapshot
{
	my ($db, $change) = @_;
	my $begin = $change ? "BEGIN; $change;\n" : '';
	my $text = $node->safe_psql($db, "SET client_min_messages = warning;\n$begin$SNAPSHOT");
	my %name = $text =~ /^name\|(\d+)\|(.*)$/mg;

	$text =~ s/^name\|.*\n//mg;
	$text =~ s/\b(\d{5,})\b/$name{$1} \/\/ $1/ge;
	$text =~ s/, "pg_signal_backend=X[^"]*"//;    # what a user granted stays
	$text =~ s/"pg_attver=\d+"//g;          # some releases stamp the columns
	return $text;
}

# "is", but a difference is shown by its lines alone
sub is_same
{
	my ($got, $expected, $name) = @_;
	my %got = map { $_ => 1 } split(/\n/, $got);
	my %expected = map { $_ => 1 } split(/\n/, $expected);

	ok($got eq $expected, $name)
	  or diag(map { "$_\n" } grep { defined } ((map { "  - $_" } grep { !$got{$_} } sort keys %expected)[ 0 .. 9 ],
		(map { "  + $_" } grep { !$expected{$_} } sort keys %got)[ 0 .. 9 ]));
	return;
}

# --- A call of each function, and what a user may build on each object

my %SAMPLE = (
	'bigint'                   => ['175928847299117063'],
	'integer'                  => ['5'],
	'smallint'                 => ['5::smallint'],
	'numeric'                  => ['5.4'],
	'boolean'                  => ['true'],
	'interval'                 => [q{interval '1 month'}],
	'timestamp with time zone' => [ q{timestamptz '2026-01-01Z'}, q{timestamptz '2026-02-01Z'} ],
	'snowflake'                => [q{'175928847299117063'::snowflake}],
	'snowflake_instant'        => [q{'175928847299117063'::snowflake::snowflake_instant}],
	'name'                     => [q{'id'}],
	'cstring'                  => [q{'5'}],
);
my %TEXT = (
	layout                => q{'discord'},
	expected_shards       => q{'0-7'},
	snowflake_from_base32 => q{'04W86BB0G4007'},
	snowflake_from_base58 => q{'11111111112'},
	snowflake_from_base62 => q{'00000000001'},
);
my %TABLE = (parent => q{'by_time'}, 'table' => q{'serials'}, relation => q{'serials'});

# What a version had to drop and create anew, because it gives other columns.
my %REPLACED = ('snowflake_horizon()' => 1);

# The functions that SQL can call, each as [ signature, call, volatility ].
sub calls
{
	my ($db) = @_;
	my @calls;

	for (split(/\n/, $node->safe_psql($db, <<'SQL')))
SELECT p.oid::regprocedure, proname, provolatile,
	(SELECT string_agg(format_type(type, NULL) || '=' || coalesce(proargnames[n], ''), ',' ORDER BY n)
	 FROM unnest(proargtypes) WITH ORDINALITY AS a(type, n))
FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') AND d.deptype = 'e'
	AND 'internal'::regtype <> ALL (proargtypes) ORDER BY 1
SQL
	{
		my ($signature, $name, $volatility, $arguments) = split(/\|/, $_, 4);
		my %used;
		my @values;

		for (split(/,/, $arguments))
		{
			my ($type, $argument) = split(/=/, $_, 2);
			my $samples = $SAMPLE{$type};
			my $value =
				$type eq 'text'                       ? $TEXT{$name} // $TEXT{$argument}
			  : $type eq 'regclass'                   ? $TABLE{ $argument } // $TABLE{table}
			  : $samples                              ? $samples->[ $used{$type}++ % @$samples ]
			  :                                         undef;
			die "no sample of $argument $type for $signature" unless defined $value;
			push @values, $value;
		}
		push @calls, [ $signature, "$name(" . join(', ', @values) . ')', $volatility ];
	}
	return @calls;
}

# What is built on a version of the extension, whose schema is searched.
sub fill
{
	my ($db) = @_;

	$node->safe_psql($db, <<'SQL');
CREATE TABLE photos (
	id    snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
	made  timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'twitter')) STORED,
	list  snowflake[],
	url   text
);
CREATE INDEX photos_time ON photos (snowflake_timestamp(id, 'twitter'));
CREATE DOMAIN photo_id AS snowflake CHECK (VALUE > 0);
CREATE TABLE by_shard (id photo_id PRIMARY KEY DEFAULT snowflake_nextval(5)) PARTITION BY HASH (id snowflake_shard_ops);
CREATE TABLE by_shard_0 PARTITION OF by_shard FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_shard_1 PARTITION OF by_shard FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE by_time (id snowflake PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE serials (id serial PRIMARY KEY);
CREATE VIEW recent AS SELECT id, parts.* FROM photos, snowflake_decode(id, 'twitter') AS parts
	WHERE id >= timestamptz '2026-01-01Z' ORDER BY id DESC LIMIT 5;
CREATE VIEW layouts AS SELECT * FROM snowflake_layouts;
INSERT INTO photos (url) SELECT 'u' || n FROM generate_series(1, 1000) AS n;
INSERT INTO by_shard SELECT FROM generate_series(1, 100);
GRANT EXECUTE ON FUNCTION snowflake_accept_layout() TO pg_signal_backend;
SQL
	my $n = 0;
	$node->safe_psql($db,
		join("\n", map { $n++; "CREATE FUNCTION use_$n() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM $_->[1]; END;" } grep { !$REPLACED{ $_->[0] } } calls($db)));
	return;
}

my $DIGEST = <<'SQL';
SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM photos AS t;
SELECT md5(string_agg(tableoid::regclass || t::text, ',' ORDER BY id)) FROM by_shard AS t;
SELECT * FROM recent;
SELECT * FROM layouts ORDER BY name;
SELECT oid::regprocedure, pg_get_functiondef(oid) FROM pg_proc WHERE proname ~ '^use_' ORDER BY oid;
SELECT has_function_privilege('pg_signal_backend', 'snowflake_accept_layout()', 'EXECUTE');
SQL

sub mints_on
{
	my ($db, $name) = @_;

	is($node->safe_psql($db, <<'SQL'), "t\nt\nt", $name);
INSERT INTO photos (url) VALUES ('new') RETURNING id > (SELECT max(id) FROM photos) AND made <= clock_timestamp();
INSERT INTO by_shard VALUES (DEFAULT) RETURNING tableoid = 'by_shard_1'::regclass AND id > (SELECT max(id) FROM by_shard);
SET enable_seqscan = off;
SELECT count(*) = 1 FROM photos WHERE snowflake_timestamp(id, 'twitter') = (SELECT max(made) FROM photos);
SQL
	return;
}

# --- The versions

is( join(' ', sort keys %known),
	$node->safe_psql('postgres', q{SELECT string_agg(DISTINCT source, ' ' ORDER BY source) FROM pg_extension_update_paths('snowflake')}),
	'the server knows every version that the scripts name');
is( $node->safe_psql('postgres', q{SELECT extversion FROM pg_extension WHERE extname = 'snowflake'}),
	$default, 'and installs the default');

# from => [ to, and what is on the way ]; the shortest ways, as the server goes
my %paths;
for (split(/\n/, $node->safe_psql('postgres', q{SELECT * FROM pg_extension_update_paths('snowflake') WHERE path <> ''})))
{
	my ($from, $to, $path) = split(/\|/);

	$paths{$from}{$to} = [ (split(/--/, $path))[ 1 .. split(/--/, $path) - 1 ] ];
}
my @older = grep { $_ ne $default } sort keys %known;
cmp_ok(scalar(@older), '>', 0, 'there are older versions');
ok($paths{$_}{$default}, "a way leads from $_ to $default") for @older;

my %fresh;
sub fresh
{
	my ($version, $schema) = @_;

	return $fresh{$version}{$schema} //= do {
		my $db = new_database();

		$node->safe_psql($db, qq{CREATE SCHEMA IF NOT EXISTS "$schema"; CREATE EXTENSION snowflake SCHEMA "$schema" VERSION '$version'});
		snapshot($db);
	};
}

for my $from (@older)
{
	for my $schema ('public', 'More Ids')
	{
		my $db = new_database();

		$node->safe_psql($db, <<"SQL");
CREATE SCHEMA IF NOT EXISTS "$schema";
ALTER DATABASE $db SET search_path = public, "$schema";
CREATE EXTENSION snowflake SCHEMA "$schema" VERSION '$from';
SQL
		fill($db);
		my $before = $node->safe_psql($db, $DIGEST);
		for my $to (@{ $paths{$from}{$default} })
		{
			my $name = "from $from to $to in \"$schema\"";

			my ($status, $out, $err) = $node->psql($db, "ALTER EXTENSION snowflake UPDATE TO '$to'");
			ok($status == 0, "$name: goes through, whatever was built on it") or diag($err);
			is_same(snapshot($db), fresh($to, $schema), "$name: the catalog of a fresh install");
			is($node->safe_psql($db, $DIGEST), $before, "$name: what users built is as it was");
		}
		mints_on($db, "from $from to $default in \"$schema\": minting goes on above");

		# a dump says CREATE EXTENSION, and the rest is the default version's
		my $restored = new_database();
		$node->safe_psql($restored, "ALTER DATABASE $restored SET search_path = public, \"$schema\"");
		$node->command_ok([ 'pg_dump', '--no-sync', '-f', $node->basedir . '/dump', '-d', $node->connstr($db) ], 'dumped');
		$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($restored), '-f', $node->basedir . '/dump' ],
			'restored');
		is_same(snapshot($restored), snapshot($db), "dumped and restored from \"$schema\": the same catalog");
		mints_on($restored, "dumped and restored from \"$schema\": minting goes on above");
	}
}

# What was built on a function that had to be replaced is in the way, and named.
my $watched = new_database();
$node->safe_psql($watched, 'CREATE EXTENSION snowflake VERSION \'1.0\'; CREATE VIEW watch AS SELECT * FROM snowflake_horizon()');
my $watched_before = snapshot($watched);
fails_with($node, 'ALTER EXTENSION snowflake UPDATE', '2BP01',
	qr/cannot drop function snowflake_horizon\(\) because other objects depend on it.*DETAIL:  view watch depends/s,
	'a view on what is replaced keeps the update from going through', dbname => $watched);
is_same(snapshot($watched), $watched_before, 'and nothing has changed');
$node->safe_psql($watched, 'DROP VIEW watch; ALTER EXTENSION snowflake UPDATE');
is_same(snapshot($watched), fresh($default, 'public'), 'without the view it does');

# Would a difference be seen?  One of each kind, undone at once.
my $plain = new_database();
$node->safe_psql($plain, 'CREATE EXTENSION snowflake');
is_same(snapshot($plain), fresh($default, 'public'), 'two fresh installs are the same');
for my $change (
	'COMMENT ON FUNCTION snowflake_nextval() IS NULL',
	'REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC',
	'ALTER FUNCTION snowflake_shard(bigint) COST 2',
	'ALTER FUNCTION snowflake_shard(bigint) RESET ALL VOLATILE',
	'GRANT UPDATE ON snowflake_layouts TO PUBLIC',
	'CREATE OR REPLACE VIEW snowflake_layouts AS SELECT * FROM snowflake_layouts() WHERE true',
	q{ALTER VIEW snowflake_layouts ALTER in_use SET DEFAULT true},
	'ALTER TYPE snowflake SET (STORAGE = plain, TYPMOD_IN = NONE, ANALYZE = array_typanalyze)',
	'ALTER OPERATOR < (snowflake_instant, timestamptz) SET (RESTRICT = scalarltsel)',
	'ALTER OPERATOR FAMILY snowflake_shard_ops USING hash DROP OPERATOR 1 (bigint, integer)',
	'ALTER OPERATOR FAMILY snowflake_shard_ops USING hash DROP FUNCTION 2 (integer, integer)',
	'ALTER EXTENSION snowflake DROP CAST (integer AS snowflake)',
	'DROP CAST IF EXISTS (text AS snowflake); CREATE CAST (text AS snowflake) WITH INOUT; ALTER EXTENSION snowflake ADD CAST (text AS snowflake)')
{
	isnt(snapshot($plain, $change), fresh($default, 'public'), "seen: $change");
}

# --- A library newer than the SQL: each function of each older version works,
# --- and says what that of the default version says

$node->safe_psql($plain, 'CREATE TABLE by_time (id snowflake PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE serials (id serial PRIMARY KEY)');
for my $version (@older)
{
	my $db = new_database();

	$node->safe_psql($db, "CREATE EXTENSION snowflake VERSION '$version'");
	$node->safe_psql($db, 'CREATE TABLE by_time (id snowflake PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE serials (id serial PRIMARY KEY)');
	$node->safe_psql($db, 'DO $$ BEGIN PERFORM snowflake_nextval(); END $$');
	my %today = map { $_->[0] => 1 } calls($plain);
	for my $call (calls($db))
	{
		my ($signature, $expression, $volatility) = @$call;
		my $sql = "SELECT snowflake_nextval() > 0; SELECT x IS NOT NULL, count(*) FROM $expression AS x GROUP BY 1";
		my ($status, $out, $err);

		$sql = "SELECT * FROM $expression" if $volatility ne 'v';
		($status, $out, $err) = $node->psql($db, $sql);
		ok($status == 0 && $out ne '', "$signature of $version works with today's library") or diag($err);
		is($out, $node->safe_psql($plain, $sql), "and $signature is that of $default")
		  if $volatility ne 'v' && $today{$signature};
	}
}

# --- SQL newer than the library.  What keeps an old library, which nobody can
# --- change any more, from reading arguments that are not there, or from filling
# --- columns that it does not know: a symbol keeps what it takes and gives.

sub symbols
{
	my ($version) = @_;
	my $db = new_database();
	my %declared;

	$node->safe_psql($db, "CREATE EXTENSION snowflake VERSION '$version'");
	for (split(/\n/, $node->safe_psql($db, <<'SQL')))
SELECT prosrc, proargtypes::regtype[], prorettype::regtype, proretset, proallargtypes::regtype[]
FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') AND d.deptype = 'e'
	AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'c') ORDER BY 1
SQL
	{
		my ($symbol, $declaration) = split(/\|/, $_, 2);

		$declared{$symbol}{$declaration} = 1;
	}
	return %declared;
}

my %symbols = map { $_ => { symbols($_) } } sort keys %known;
for my $from (@older)
{
	for my $to (sort keys %{ $paths{$from} })
	{
		my @changed = grep {
			my $symbol = $_;
			$symbols{$from}{$symbol} && grep { !$symbols{$from}{$symbol}{$_} } keys %{ $symbols{$to}{$symbol} }
		} sort keys %{ $symbols{$to} };

		is("@changed", '', "from $from to $to no symbol takes or gives something else");
	}
}

# A version that wants what this library lacks.  Its script is in a copy of
# what is installed, where the server is told to look.
my $share = $node->config_data('--sharedir');
my $where = $node->safe_psql('postgres', q{SELECT name, setting FROM pg_settings WHERE name IN ('extension_destdir', 'extension_control_path') ORDER BY name});
my %where = map { split(/\|/, $_, 2) } split(/\n/, $where);
SKIP:
{
	skip 'this server finds extensions only where it is installed itself', 6 unless %where;
	my $by_path = exists $where{extension_control_path};
	my ($installed) =
	  $by_path
	  ? grep { -e "$_/extension/snowflake.control" } map { $_ eq '$system' ? $share : $_ } split(/:/, $where{extension_control_path})
	  : grep { -e "$_/extension/snowflake.control" } ("$where{extension_destdir}$share", $share);
	my $root = $node->basedir . '/newer';
	my $copy = "$root$share/extension";

	make_path($copy);
	copy($_, $copy) or die "could not copy $_: $!" for glob("$installed/extension/snowflake*");
	append_to_file("$copy/snowflake--$default--newer.sql", <<'SQL');
COMMENT ON TYPE snowflake IS 'of the newer version';
CREATE FUNCTION snowflake_of_tomorrow() RETURNS integer LANGUAGE C AS 'MODULE_PATHNAME', 'snowflake_of_tomorrow';
SQL
	$node->append_conf('postgresql.conf', $by_path ? "extension_control_path = '$root$share:\$system'" : "extension_destdir = '$root'");
	$node->restart;

	fails_with($node, q{ALTER EXTENSION snowflake UPDATE TO 'newer'}, '42883',
		qr/could not find function "snowflake_of_tomorrow" in file ".*snowflake/, 'the library lacks a function of a newer version',
		dbname => $plain);
	fails_with($node, q{CREATE EXTENSION snowflake VERSION 'newer'}, '42883',
		qr/could not find function "snowflake_of_tomorrow"/, 'at installation as well', dbname => new_database());
	is_same(snapshot($plain), fresh($default, 'public'), 'and nothing has changed');
	is($node->safe_psql($plain, 'SELECT snowflake_nextval() > 0'), 't', 'minting goes on');
}

# --- The last line: rows of other columns than the library fills

my $other = new_database();
$node->safe_psql($other, 'CREATE EXTENSION snowflake; CREATE SCHEMA other; SET search_path = other, public');
my @rows = split(/\n/, $node->safe_psql($other, <<'SQL'));
SELECT DISTINCT ON (prosrc) prosrc, proname, proretset,
	(SELECT string_agg(format_type(type, NULL), ', ' ORDER BY n) FROM unnest(proargtypes) WITH ORDINALITY AS a(type, n)),
	(SELECT string_agg(format('OUT %I %s', proargnames[n], format_type(type, NULL)), ', ' ORDER BY n)
	 FROM unnest(proallargtypes) WITH ORDINALITY AS a(type, n) WHERE proargmodes[n] IN ('o', 't'))
FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') AND d.deptype = 'e'
	AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'c') AND proallargtypes IS NOT NULL
ORDER BY prosrc, pronargs
SQL
cmp_ok(scalar(@rows), '>', 2, 'there are functions that return rows');
my %calls = map { $_->[0] =~ /^(\w+)\(/ && ($1 => $_->[1]) } reverse calls($other);
for (@rows)
{
	my ($symbol, $name, $is_set, $in, $out) = split(/\|/);
	my @columns = split(/, /, $out);
	my ($arguments) = $calls{$name} =~ /(\(.*\))/;
	my %variants = (
		'a column more'         => [ @columns, 'OUT more text' ],
		'a column less'         => [ @columns[ 0 .. $#columns - 1 ] ],
		'a column of type text' => [ map { s/ (integer|boolean|double precision|timestamp.*)$/ text/r } @columns ],
	);

	for my $variant (sort keys %variants)
	{
		my $wanted = join(', ', grep { $_ ne '' } $in, @{ $variants{$variant} });

		$node->safe_psql($other, 'DROP SCHEMA other CASCADE; CREATE SCHEMA other;'
			. "CREATE FUNCTION other.$name($wanted) " . ($is_set eq 't' ? 'RETURNS SETOF record ' : '')
			. "LANGUAGE C STRICT AS 'snowflake', '$symbol'");
		fails_with($node, "SELECT * FROM other.$name$arguments", '55000',
			qr/function "$name" and the library are of different versions of snowflake.*DETAIL:  \w.*declared .* and the library returns .*HINT:  Restart the server/s,
			"$symbol with $variant", dbname => $other);
	}
}
is($node->safe_psql($other, 'SELECT snowflake_nextval() > 0'), 't', 'the server is in good health');
unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:/, 'no process has crashed');

done_testing();
