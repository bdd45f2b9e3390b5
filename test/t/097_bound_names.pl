# What the scripts, their functions' bodies, and the statements that these put together name
# can be bound to nobody else's object: test/hard/names.py reads them with the server's own
# parser.  It reads the statements twice: as they stand in the bodies, and as they ran.
# And it finds a name that has lost its schema.
#
# Packages: python3-pglast
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

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
pg_stat_statements.track = all
track_functions = all
CONF
$node->start;

my $catalog = "$scratch/catalog";
append_to_file($catalog, $node->safe_psql('postgres', join(' UNION ALL ', map { my ($kind, $table, $prefix) = @$_; "SELECT DISTINCT '$kind ' || ${prefix}name FROM $table WHERE ${prefix}namespace = 'pg_catalog'::regnamespace" }
			[qw(relation pg_class rel)], [qw(type pg_type typ)], [qw(function pg_proc pro)], [qw(operator pg_operator opr)], [qw(collation pg_collation coll)])));

# --- The scripts and their bodies

my @scripts = map { my ($script) = grep { -e } "sql/$_--1.0.sql", "$top/sql/$_--1.0.sql"; $script } qw(snowflake snowflake_registry);
my ($out, $err) = run_command([ @python, $catalog, @scripts ]);
like($out, qr/\A(\d{4}) statements read, 0 findings\z/, 'no name in the scripts could be bound to anything else');
diag("$out$err") if $out !~ /\A\d+ statements read, 0 /;

# Take one qualification out, wherever it stands: it is found.
my $seed = $ENV{SNOWFLAKE_SEED} // time();
srand($seed);
for my $path (@scripts)
{
	my $script = slurp_file($path);
	my ($name) = $path =~ /(\w+)--/;
	my @places;
	push @places, [ $-[0], $+[0] - $-[0] ] while $script =~ /\@extschema\@\.|%(?:1\$)?s\.(?=snowflake_)|SET (?:LOCAL )?search_path = pg_catalog, pg_temp;?/g;
	# not the one before the body of a function that is parsed when it is made
	@places = grep { substr($script, $_->[0], 100) !~ /\ASET search_path.*\n(    SET.*\n)*BEGIN ATOMIC/ } @places;
	cmp_ok(scalar @places, '>', 100, "$name: qualifications");
	for (1 .. 8)
	{
		my ($place, $length) = @{ $places[ rand(@places) ] };
		my $taken = $script;
		my $line = 1 + substr($script, 0, $place) =~ tr/\n//;
		substr($taken, $place, $length) = '';
		my $mutant = "$scratch/mutant$line.sql";
		append_to_file($mutant, $taken);
		like((run_command([ @python, $catalog, $mutant ]))[0], qr/ [1-9]\d* findings\z/, "$name: one that is taken out is found (line $line, seed $seed)");
		unlink $mutant;
	}
}

# --- The statements that ran

$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements; CREATE ROLE ids; CREATE SCHEMA extschema;
	CREATE EXTENSION snowflake SCHEMA extschema; CREATE EXTENSION snowflake_registry SCHEMA extschema');
$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
$node->safe_psql('postgres', "SET search_path = pg_catalog;\n" . in_schema('extschema', snowflake_calls(), registry_calls()));
my $ran = "$scratch/ran";
append_to_file($ran, $node->safe_psql('postgres', 'SELECT DISTINCT query FROM pg_stat_statements WHERE NOT toplevel', extra_params => ['-0']));
($out, $err) = run_command([ @python, '--statements', $catalog, $ran ]);
like($out, qr/\A(\d{3,}) statements read, 0 findings\z/, 'nor in the statements that ran');
diag("$out$err") if $out !~ /\A\d+ statements read, 0 /;
is($node->safe_psql('postgres', <<'SQL'), '', 'each body that is text was run');
SELECT p.oid::regprocedure FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
  JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid JOIN pg_language AS l ON l.oid = p.prolang
 WHERE e.extname ~ 'snowflake' AND d.deptype = 'e' AND p.prosqlbody IS NULL AND l.lanname NOT IN ('c', 'internal')
   AND p.oid NOT IN (SELECT funcid FROM pg_stat_user_functions)
SQL

done_testing();
