# Libraries of JavaScript and TypeScript: a program each in test/stacks/javascript,
# which doc/javascript.md shows.  Each has a database of its own, in another time zone
# than the program, and is run a second time where the extension has a schema of its own.
#
# Packages: nodejs
# The libraries are npm's: test/stacks/javascript/package.json names their versions.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $programs = "$FindBin::RealBin/javascript";

# name => [ program, the packages that it needs ]
my %libraries = (
	TypeORM => [ 'typeorm.ts', 'typeorm', 'reflect-metadata' ],
	Prisma => [ 'prisma.ts', 'prisma', '@prisma/adapter-pg', '@prisma/schema-engine-wasm' ],
	Drizzle => [ 'drizzle.ts', 'drizzle-orm', 'drizzle-kit' ],
	Sequelize => [ 'sequelize.js', 'sequelize' ],
	knex => [ 'knex.js', 'knex' ],
	'postgres.js' => [ 'postgresjs.js', 'postgres' ],
	Kysely => [ 'kysely.ts', 'kysely' ],
	PostGraphile => [ 'postgraphile.js', 'postgraphile', 'graphql' ],
	MikroORM => [ 'mikroorm.ts', '@mikro-orm/postgresql', 'reflect-metadata' ],
);
my $has_node = has_program('node', '--version');

local $ENV{PRISMA_SCHEMA_ENGINE_BINARY} = "$programs/prisma_engine.js";
local $ENV{CHECKPOINT_DISABLE} = 1;    # or Prisma asks its makers for news
local $ENV{TZ} = 'America/St_Johns';
chdir($programs) || die "$programs: $!";

sub has_package
{
	my ($package) = @_;
	return -e "node_modules/$package/package.json";
}

shows_what_is_tested('doc/javascript.md', 'javascript|typescript|prisma|sql',
	map { "$programs/$_" } 'related.sql', 'drizzle_schema.ts', 'drizzle.config.ts', 'schema.prisma', 'prisma.config.ts',
	map { $_->[0] } values %libraries);

my %version = slurp_file('package.json') =~ /"([^"]+)": "(\d[^"]*)"/g;
my @names = qw(typeorm prisma drizzle-orm drizzle-kit sequelize knex postgres kysely @mikro-orm/core postgraphile);
is_deeply([ grep { page_text('doc/javascript.md') !~ /^\|.*\Q$version{$_}\E/m } @names ], [], 'the page names the versions that are tested');

my $node = stack_server('javascript', conf => "timezone = 'Asia/Kolkata'\n");

# what doc/install.md says of a schema of its own
my ($ext) = page_text('doc/install.md') =~ /^## In a schema of its own\n.*?^```sql\n(.*?)^```/ms;

# Run a library's program in a new database, with the extension in the schema public or
# in its own.
sub run_library
{
	my ($name, $schema) = @_;
	my ($program, @packages) = @{ $libraries{$name} };
	my $database = lc("${name}_$schema") =~ s/\W//gr;
	my @missing = grep { !has_package($_) } 'tsx', 'pg', @packages;

	return missing($name, 'Node.js') if !$has_node;
	return missing($name, "the package @missing") if @missing;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database,
		($schema eq 'public' ? 'CREATE EXTENSION snowflake;' : $ext =~ s/\bapp\b/$database/r) . 'GRANT ALL ON SCHEMA public TO app');
	return run_program($node, "$name, the extension in $schema", [ 'node', '--import', 'tsx', $program ], PGDATABASE => $database);
}

# Prisma's client is generated, and by its type the page is checked.
SKIP:
{
	skip('Node.js, Prisma or TypeScript is not installed', 2)
	  if !$has_node || !has_package('prisma') || !has_package('typescript');
	command_ok([ qw(node node_modules/prisma/build/index.js generate) ], 'Prisma generates its client');
	command_ok([ qw(node node_modules/typescript/bin/tsc -p .) ], 'what is written in TypeScript agrees with the types of the libraries');
}

for my $library (sort keys %libraries)
{
	run_library($library, $_) for 'public', 'ext';
}

done_testing();
