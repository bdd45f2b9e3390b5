# A role that is no superuser makes a database, creates the extension there, mints, loads
# a dump, and drops the database: what test runners of frameworks do.  What template1
# has, each new database has.  And what test/sql/trusted.sql relies on: the script
# replaces nothing that was there before.  (Django, Rails and Prisma: test/stacks.)

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('test_databases', conf => "snowflake.shards = '5'");
$node->safe_psql('postgres', 'CREATE ROLE tester LOGIN CREATEDB');

# As the role, with what psql says.
sub as_tester
{
	my ($database, $sql) = @_;
	my ($status, $out, $err) = $node->psql($database, $sql, extra_params => [ '-U', 'tester' ]);

	return "$out$err";
}

is(as_tester('postgres', 'CREATE DATABASE app_test'), '', 'the role makes a database');
is(as_tester('app_test', <<'SQL'), 't', 'and the extension in it, which mints');
CREATE EXTENSION IF NOT EXISTS snowflake;
CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text);
CREATE VIEW recent AS SELECT * FROM photos WHERE id > now() - interval '1 hour';
INSERT INTO photos (url) VALUES ('a.jpg') RETURNING id IS NOT NULL;
SQL
like(as_tester('postgres', 'CREATE EXTENSION snowflake_registry'), qr/permission denied to create extension "snowflake_registry"/,
	'a registry is for superusers');

# structure.sql, and pg_restore
my $dump = $node->basedir . '/structure.sql';
$node->command_ok([ 'pg_dump', '--no-sync', '--no-owner', '-U', 'tester', '-f', $dump, '-d', $node->connstr('app_test') ], 'the role dumps it');
is(as_tester('postgres', 'CREATE DATABASE copy_test'), '', 'makes another');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-U', 'tester', '-f', $dump, '-d', $node->connstr('copy_test') ], 'and loads the dump');
is(as_tester('copy_test', "INSERT INTO photos (url) VALUES ('b.jpg') RETURNING id > (SELECT min(id) FROM photos); TABLE recent") =~ /^t\n.*a\.jpg\n.*b\.jpg$/s,
	1, 'which mints, too');
is(as_tester('postgres', "DROP DATABASE $_"), '', "$_ is dropped") for 'app_test', 'copy_test';

# A role to which somebody gave the right to create in a database
$node->safe_psql('postgres', 'CREATE DATABASE given; GRANT CREATE ON DATABASE given TO tester');
is(as_tester('given', 'CREATE EXTENSION snowflake; SELECT snowflake_nextval() IS NOT NULL'), 't', 'CREATE on the database is enough');

# For what makes tables before its first statement can be told: template1.
$node->safe_psql('template1', 'CREATE EXTENSION snowflake');
is(as_tester('postgres', 'CREATE DATABASE app_test'), '', 'a database from template1');
is(as_tester('app_test', 'CREATE EXTENSION IF NOT EXISTS snowflake; SELECT snowflake_nextval() IS NOT NULL') =~ s/^NOTICE.*\n?//mr =~ /^t/,
	1, 'has the extension');
is(as_tester('postgres', 'DROP DATABASE app_test'), '', 'and is dropped');

# The script
my $script = join('', map { slurp_file($_) } glob("$FindBin::RealBin/../../sql/snowflake/*.sql")) =~ s/^\s*--.*\n//mgr =~ s/\$\$.*?\$\$//sgr;
is(join("\n", $script =~ /^.*(?:\bOR REPLACE\b|CREATE\s+\w+\s+IF NOT EXISTS\b).*$/mg), '', 'the script replaces nothing');
is(join("\n", $script =~ /^.*(?:\bSECURITY DEFINER\b|CREATE\s+(?:UNLOGGED\s+)?TABLE\b).*$/mg), '', 'none of its functions has the rights of its owner, and it makes no table for a schema.rb to have');

done_testing();
