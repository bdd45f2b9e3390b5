# Nobody else's object is called by an extension's script, kept by what it makes, or called
# by that later.  A role that is no superuser owns the database and the schema.  It fills
# the schema with lures before the extension comes: for each operator and function of
# pg_catalog that a script names, one for all arguments with which it could be called, of
# all types that a script names; for each function of ours, one whose arguments are nearly
# of its types; and tables and types with the names of pg_catalog's.  A lure that runs says
# so.  The catalogs tell what is kept.
#
# And a schema can be renamed: nothing looks for the name of before.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use OwnCalls;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('lures', conf => "snowflake.shards = '5'\nmax_prepared_transactions = 5");
my @as_mallory = (extra_params => [ '-U', 'mallory' ]);
my $quiet = "SET client_min_messages = warning; SET search_path = pg_catalog;\n";

# --- The lures

my $sources = join("\n", map { slurp_file($_) } glob("$FindBin::RealBin/../../sql/*.sql"), glob("$FindBin::RealBin/../../sql/snowflake/*.sql"))
  =~ s/^ *--.*//gmr;
my $words = join(',', sort keys %{ { map { $_ => 1 } $sources =~ /(\w+)/g } });
my $operators = join(' ', sort keys %{ { map { $_ => 1 } $sources =~ m{([-+*/<>=~!@#%^&|`?]+)}g } });

$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION snowflake_registry;
CREATE ROLE mallory LOGIN;
CREATE ROLE ids LOGIN;
CREATE DATABASE hostile OWNER mallory;
SQL
my $own = $node->safe_psql('postgres', <<'SQL');
SELECT format('INSERT INTO own VALUES (%L, %L);', p.proname, ARRAY(SELECT unnest(p.proargtypes)))
  FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
  JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
 WHERE e.extname ~ 'snowflake' AND d.deptype = 'e'
   AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS t(type) WHERE type >= 16384 OR type IN ('internal'::regtype, 'cstring'::regtype))
SQL
$node->safe_psql('hostile', <<"SQL" . <<'SQL', @as_mallory);
SET client_min_messages = warning;
SET check_function_bodies = off;
CREATE TEMP TABLE words AS SELECT unnest('{$words}'::text[]) AS word;
CREATE TEMP TABLE operators AS SELECT unnest(string_to_array('$operators', ' ')) AS name;
CREATE TEMP TABLE own (name text, args oid[]);
$own
SQL
CREATE SCHEMA lured;
CREATE TEMP TABLE types AS
SELECT t.oid, t.oid::regtype AS type FROM pg_type AS t LEFT JOIN pg_type AS b ON b.oid = t.typelem
 WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm')
   AND (t.typname IN (SELECT word FROM words) OR t.oid::regtype::text IN (SELECT word FROM words)
        OR b.typname IN ('text', 'int4', 'oid', 'regclass') AND t.typname ~ '^_');
DO $$
DECLARE
    body CONSTANT text := $f$ LANGUAGE plpgsql AS 'BEGIN RAISE WARNING ''lured as %'', current_user; RAISE ''lured as %'', current_user; END' $f$;
    lure record;
BEGIN
    FOR lure IN SELECT l.type AS l, r.type AS r, row_number() OVER () AS n FROM types AS l, types AS r LOOP
        EXECUTE format('CREATE FUNCTION lured.operator%s(%s, %s) RETURNS boolean %s', lure.n, lure.l, lure.r, body);
        EXECUTE (SELECT string_agg(format('CREATE OPERATOR lured.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = lured.operator%s)', name, lure.l, lure.r, lure.n), ';')
                   FROM operators WHERE name IN (SELECT oprname FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace));
    END LOOP;
    FOR lure IN
        WITH RECURSIVE used AS (
            SELECT proname AS name, ARRAY(SELECT unnest(proargtypes)) || CASE WHEN provariadic = '"any"'::regtype THEN '{2276,2276}' ELSE '{}' END::oid[] AS args
              FROM pg_proc
             WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind IN ('f', 'a', 'w') AND proname IN (SELECT word FROM words)
               AND NOT proargtypes::oid[] && '{internal,cstring}'::regtype[]::oid[]
            UNION
            SELECT name, args FROM own
        ), fits AS (
            SELECT t.oid AS target, s.oid AS source FROM pg_type AS t, types AS s
             WHERE t.oid = s.oid OR EXISTS (SELECT FROM pg_cast WHERE castsource = s.oid AND casttarget = t.oid AND castcontext = 'i')
                OR t.typtype = 'p' AND (t.typname !~ 'array' OR s.type::text ~ '\[\]$') AND (t.typname !~ 'range' OR s.type::text ~ 'range')
        ), call(name, args, took) AS (
            SELECT name, args, '{}'::oid[] FROM used
            UNION
            SELECT c.name, c.args, c.took || f.source
              FROM call AS c JOIN fits AS f ON f.target = c.args[cardinality(c.took) + 1]
             WHERE cardinality(c.took) < 2 OR f.source = f.target
        )
        SELECT DISTINCT name, array_to_string(took::regtype[], ', ') AS args FROM call AS c
         WHERE name NOT IN (SELECT o.name FROM own AS o) OR cardinality(took) = cardinality(args) AND took NOT IN (SELECT o.args FROM own AS o WHERE o.name = c.name)
        UNION
        -- any number of arguments, of any type
        SELECT name, unnest('{"text, VARIADIC anyarray","text, anyelement, VARIADIC anyarray",VARIADIC text[],VARIADIC bigint[]}'::text[]) FROM used
         WHERE name NOT IN (SELECT o.name FROM own AS o)
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION lured.%I(%s) RETURNS text %s', lure.name, lure.args, body);
        EXCEPTION WHEN duplicate_function THEN
            NULL;   -- there is one with an array
        END;
    END LOOP;
    FOR lure IN SELECT word FROM words WHERE word IN (SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace) LOOP
        EXECUTE format('CREATE TABLE lured.%I (lured boolean)', lure.word);
    END LOOP;
    FOR lure IN SELECT typname FROM pg_type JOIN types USING (oid) LOOP
        EXECUTE format('CREATE DOMAIN lured.%I AS boolean', lure.typname);
    END LOOP;
END
$$;
SQL
my $lures = 'SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = s.oid), (SELECT count(*) FROM pg_operator WHERE oprnamespace = s.oid) FROM pg_namespace AS s WHERE nspname = $$lured$$';
like($node->safe_psql('hostile', $lures), qr/^\d{4,}\|\d{5,}$/, 'lures: ' . $node->safe_psql('hostile', $lures));
fails_with($node, "SET search_path = lured; SELECT format('%s', 1)", 'P0001', qr/lured as postgres/, 'they work', dbname => 'hostile');
fails_with($node, 'SET search_path = lured; SELECT bigint $$5$$ * interval $$1 s$$', 'P0001', qr/lured as postgres/, 'operators, too', dbname => 'hostile');
fails_with($node, 'SET ROLE mallory; CREATE EVENT TRIGGER lure ON ddl_command_end EXECUTE FUNCTION lured.version()', '42501', qr/superuser/,
	'(no event trigger: it takes a superuser)', dbname => 'hostile');

# --- What an extension's objects are bound to that is neither its own nor the server's

my $bound_elsewhere = <<'SQL';
WITH RECURSIVE own(classid, objid) AS (
    SELECT d.classid, d.objid FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
     WHERE e.extname ~ 'snowflake' AND d.deptype = 'e'
    UNION
    SELECT d.classid, d.objid FROM own JOIN pg_depend AS d ON d.refclassid = own.classid AND d.refobjid = own.objid AND d.deptype IN ('i', 'a')
), used(classid, objid, usedclass, used) AS (
    SELECT d.classid, d.objid, d.refclassid, d.refobjid FROM own JOIN pg_depend AS d USING (classid, objid)
     WHERE d.refclassid NOT IN ('pg_extension'::regclass, 'pg_namespace'::regclass, 'pg_language'::regclass)
    UNION
    SELECT classid, objid, classid, unnest(ARRAY[oprcom, oprnegate]) FROM own JOIN pg_operator AS o ON classid = 'pg_operator'::regclass AND o.oid = objid
)
SELECT string_agg(format('%s uses %s', pg_describe_object(classid, objid, 0), pg_describe_object(usedclass, used, 0)), E'\n')
  FROM used WHERE used > 16383 AND (usedclass, used) NOT IN (SELECT classid, objid FROM own)
SQL

sub is_bound_to_itself
{
	my ($name) = @_;

	is($node->safe_psql('hostile', "$quiet$bound_elsewhere"), '', "$name: nothing is bound to anything else");
	return;
}

# Call what is not C, with the lures in front of all else.  One that runs says so, whoever
# catches its error.  (A call itself is parsed before that.)
sub runs
{
	my ($schema, $name, @calls) = @_;
	my $sql = $quiet . in_schema($schema, map {
			!/\A(SELECT|TABLE) / ? $_ : "CREATE FUNCTION public.call() RETURNS void LANGUAGE sql BEGIN ATOMIC $_; END;
				SET search_path = OWN, pg_catalog; SELECT public.call(); SET search_path = pg_catalog; DROP FUNCTION public.call()"
		} @calls);
	my ($status, undef, $err) = $node->psql('hostile', $sql, on_error_stop => 1);

	is("$status$err", '0', "$name: no lure runs when it is called");
	return;
}

# --- The extension: trusted, and a superuser's

$node->safe_psql('hostile', 'CREATE TABLE lured.snowflake_plain (n integer)', @as_mallory);
fails_with($node, "SET ROLE mallory; CREATE EXTENSION snowflake SCHEMA lured", '42710', qr/snowflake_plain is in schema lured/,
	'snowflake_plain in its place', dbname => 'hostile');
$node->safe_psql('hostile', 'DROP TABLE lured.snowflake_plain', @as_mallory);

for my $role ('mallory', 'postgres')
{
	my $create = "SET ROLE $role; CREATE EXTENSION snowflake SCHEMA lured";

	is(($node->psql('hostile', $create))[2], '', "made by $role: no lure runs");
	is_bound_to_itself("made by $role");
	runs('lured', "made by $role", snowflake_calls());
	# what a careless call finds, with the caller's own rights
	fails_with($node, "SELECT lured.snowflake_to_base32(5)", 'P0001', qr/lured as postgres/, 'another function fits integer better than bigint', dbname => 'hostile');
	$node->safe_psql('hostile', 'ALTER SCHEMA lured RENAME TO "other Lures"');
	runs('"other Lures"', "made by $role, renamed", snowflake_calls());
	$node->safe_psql('hostile', 'DROP EXTENSION snowflake; ALTER SCHEMA "other Lures" RENAME TO lured');
}

# --- The registry, which takes the schema of a superuser: this one has lures already

fails_with($node, 'CREATE EXTENSION snowflake_registry SCHEMA lured', '42501', qr/in a schema whose owner is not a superuser/,
	"the registry in the role's schema", dbname => 'hostile');
$node->safe_psql('hostile', 'ALTER SCHEMA lured OWNER TO postgres; GRANT ALL ON SCHEMA lured TO mallory');
is(($node->psql('hostile', 'CREATE EXTENSION snowflake_registry SCHEMA lured'))[2], '', 'the registry: no lure runs');
is_bound_to_itself('the registry');

# what a server asks first, in a search_path that it did not choose
my ($question) = slurp_file("$FindBin::RealBin/../../src/lease/registry.c") =~ /execute\(((?:\s*"SELECT extnamespace[^"]*")(?:\s*"[^"]*")*)/;
$question = join('', $question =~ /"([^"]*)"/g);
is($node->safe_psql('hostile', "SET search_path = lured, pg_catalog; $question"), 'lured', 'a server finds it without help');
fails_with($node, 'SET search_path = lured, pg_catalog; ' . $question =~ s/OPERATOR\(pg_catalog\.=\)/=/r, 'P0001', qr/lured as postgres/,
	'and would not, if that named one operator less', dbname => 'hostile');

$node->safe_psql('hostile', q(CREATE VIEW lured.snowflake_registry_in_use AS SELECT 1 AS shard, 'x'::text AS host, now() AS lease_until), @as_mallory);
runs('lured', 'the registry', registry_calls());
is($node->safe_psql('hostile', q(SELECT relowner::regrole FROM pg_class WHERE relname = 'snowflake_registry_in_use')), 'postgres', 'its view stays nobody else\'s');
$node->safe_psql('hostile', 'ALTER SCHEMA lured RENAME TO "other Lures"');
runs('"other Lures"', 'the registry, renamed', registry_calls());

done_testing();
