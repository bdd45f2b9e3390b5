# What the scripts, their functions' bodies, and the statements that these put together name
# can be bound to nobody else's object: test/hard/names.py reads them with the server's own
# parser.  It reads the statements twice: as they stand in the bodies, and as they ran, over
# the SQL tests of all functions that put statements together.  And it finds a name that
# has lost its schema.
#
# Packages: python3-pglast
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use IPC::Run ();
use OwnCalls;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $scratch = PostgreSQL::Test::Utils::tempdir();
my @python = ('/usr/bin/python3', "$top/test/hard/names.py");

my ($has_parser) = run_command([ '/usr/bin/python3', '-c', 'import pglast; print("yes")' ]);
plan skip_all => 'there is no python3-pglast' if $has_parser ne 'yes';

my $node = PostgreSQL::Test::Cluster->new('names');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'snowflake, pg_stat_statements'
snowflake.shards = '5'
max_prepared_transactions = 5
pg_stat_statements.track = none
pg_stat_statements.max = 10000
track_functions = all
CONF
$node->start;

my $catalog = "$scratch/catalog";
append_to_file($catalog, $node->safe_psql('postgres', join(' UNION ALL ', map { my ($kind, $table, $prefix) = @$_; "SELECT DISTINCT '$kind ' || ${prefix}name FROM $table WHERE ${prefix}namespace = 'pg_catalog'::regnamespace" }
			[qw(relation pg_class rel)], [qw(type pg_type typ)], [qw(function pg_proc pro)], [qw(operator pg_operator opr)], [qw(collation pg_collation coll)])));
my $seed = $ENV{SNOWFLAKE_SEED} // time();
srand($seed);

sub reads
{
	my ($name, $mode, @files) = @_;
	my ($out, $err) = run_command([ @python, @$mode, $catalog, @files ]);

	like($out, qr/\A\d{3,} statements read, 0 findings\z/, "$name: no name could be bound to anything else");
	diag("$out$err") if $out !~ /\A\d+ statements read, 0 /;
	return;
}

# Take one of these places out of the text: it is found.
sub finds_each
{
	my ($name, $mode, $text, @places) = @_;

	cmp_ok(scalar @places, '>', 50, "$name: qualifications");
	for (1 .. 8)
	{
		my ($place, $length) = @{ $places[ rand(@places) ] };
		my $taken = $text;
		my $line = 1 + substr($text, 0, $place) =~ tr/\n//;
		substr($taken, $place, $length) = '';
		my $mutant = "$scratch/mutant$line.sql";
		append_to_file($mutant, $taken);
		like((run_command([ @python, @$mode, $catalog, $mutant ]))[0], qr/ [1-9]\d* findings\z/, "$name: one that is taken out is found (line $line, seed $seed)");
		unlink $mutant;
	}
	return;
}

sub places
{
	my ($text, $pattern) = @_;
	my @places;

	push @places, [ $-[0], $+[0] - $-[0] ] while $text =~ /$pattern/g;
	return @places;
}

# --- The scripts and their bodies

my @scripts = map { my ($script) = grep { -e } "sql/$_--1.0.sql", "$top/sql/$_--1.0.sql"; $script } qw(snowflake snowflake_registry snowflake_plain);
reads('the scripts', [], @scripts);
for my $path (@scripts[ 0, 1 ])
{
	my $script = slurp_file($path);

	# not the one before the body of a function that is parsed when it is made
	finds_each($path =~ /(\w+)--/, [], $script,
		grep { substr($script, $_->[0], 100) !~ /\ASET search_path.*\n(    SET.*\n)*BEGIN ATOMIC/ }
		  places($script, qr/\@extschema\@\.|%(?:1\$)?s\.(?=snowflake_)|SET (?:LOCAL )?search_path = pg_catalog, pg_temp;?/));
}

# --- The functions that snowflake_plain makes

$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->safe_psql('plain', "CREATE SCHEMA extschema; CREATE EXTENSION snowflake_plain SCHEMA extschema; SELECT extschema.snowflake_plain_setup('twitter', '5,6')");
my $made = $node->safe_psql('plain', "SELECT string_agg(pg_get_functiondef(oid), E';\\n') FROM pg_proc
	WHERE pronamespace = 'extschema'::regnamespace AND proname NOT IN ('snowflake_plain_layout', 'snowflake_plain_setup')");
append_to_file("$scratch/made", $made);
reads('snowflake_plain', ['--made'], "$scratch/made");
finds_each('snowflake_plain', ['--made'], $made, places($made, qr/(?<!FUNCTION )extschema\.(?=snowflake_)/));

# --- The statements that ran: those of our functions and of what they call, and not those
# --- of functions of the tests'

$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements; CREATE ROLE ids; GRANT SET ON PARAMETER pg_stat_statements.track TO PUBLIC');
$node->safe_psql($_, <<'SQL') for qw(postgres template1);
CREATE SCHEMA recorder;
CREATE FUNCTION recorder.record() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
          JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
          JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
         WHERE e.extname ~ '^snowflake' AND p.prosqlbody IS NULL AND l.lanname IN ('sql', 'plpgsql')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET pg_stat_statements.track = ''all''', function);
    END LOOP;
END $$;
CREATE EVENT TRIGGER record ON ddl_command_end WHEN TAG IN ('CREATE EXTENSION') EXECUTE FUNCTION recorder.record();
SQL
$node->safe_psql('postgres', 'CREATE SCHEMA extschema; CREATE EXTENSION snowflake SCHEMA extschema; CREATE EXTENSION snowflake_registry SCHEMA extschema');
$node->safe_psql('postgres', "SET search_path = pg_catalog;\n" . in_schema('extschema', snowflake_calls(), registry_calls()));
is($node->safe_psql('postgres', <<'SQL'), '', 'each body that is text was run');
SELECT p.oid::regprocedure FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
  JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid JOIN pg_language AS l ON l.oid = p.prolang
 WHERE e.extname ~ 'snowflake' AND d.deptype = 'e' AND p.prosqlbody IS NULL AND l.lanname NOT IN ('c', 'internal')
   AND p.oid NOT IN (SELECT funcid FROM pg_stat_user_functions)
SQL

# the SQL tests, whatever they print; not snowflake_plain's, which is long, and was read above
my @tests = grep { !/plain/ && slurp_file($_) =~ /snowflake_(?:adopt|revert|audit|check|make_partitions|publish_mark|accept_layout|dependents|registry)/ } glob("$top/test/sql/*.sql");
cmp_ok(scalar @tests, '>=', 12, 'SQL tests');
$node->safe_psql('postgres', 'CREATE DATABASE tests');
IPC::Run::run([ 'psql', '-Xq', '-d', $node->connstr('tests'), map { ('-f', $_) } @tests ], '>', '/dev/null', '2>', '/dev/null');

# (not of a temporary table, which has no schema in front, nor the code of a table's owner)
my $ran = $node->safe_psql('postgres', q(SELECT DISTINCT query FROM pg_stat_statements WHERE NOT toplevel AND query !~ 'fleeting|tenant\.lure'), extra_params => ['-0']);
append_to_file("$scratch/ran", $ran);
reads('what ran', ['--statements'], "$scratch/ran");
cmp_ok(scalar(() = $ran =~ /\0/g), '>', 500, 'these are many');
like($ran, qr/\0$_/, "there is $_") for 'ALTER TABLE', 'CREATE SEQUENCE', 'DROP SEQUENCE', 'CREATE TABLE \S+ \(LIKE', 'GRANT', 'LOCK TABLE', 'WITH before', 'CREATE OR REPLACE VIEW';
finds_each('what ran', ['--statements'], $ran, places($ran, qr/\b(?:public|extschema)\.(?=\w)/));

$node->stop;
done_testing();
