# Python's libraries: SQLAlchemy with four drivers, Alembic, Django, and the drivers
# alone, but psycopg 3, which is in t/012_clients.pl.  Each has a program in
# test/stacks/python, and doc/python.md shows parts of these.
#
# Packages: python3-sqlalchemy python3-psycopg python3-psycopg2 python3-asyncpg
# Packages: python3-pg8000 alembic python3-django python3-djangorestframework python3-pandas

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $programs = "$FindBin::RealBin/python";

local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

shows_what_is_tested('doc/python.md', 'python',
	map { "$programs/$_.py" }
	  qw(photos alembic_env django_fields django_models django_existing_table django_apps django_serializers pandas_client asyncpg_client psycopg2_client pg8000_client));

my $node = stack_server('python');

# Run a program, if Python has what it imports, on a new database, with the extension
# in the schema public or in its own.
sub run_python
{
	my ($name, $schema, $modules, $program, @arguments) = @_;
	my $database = "app_$schema";

	return missing($name, $_) for grep { !has_program('python3', '-c', "import $_") } @$modules;
	new_database($node, $database, $schema);
	return run_program($node, $name, [ 'python3', "$programs/$program.py", @arguments ], PGDATABASE => $database);
}

for my $driver ('psycopg', 'psycopg2', 'asyncpg', 'pg8000')
{
	run_python("SQLAlchemy with $driver", 'public', [ 'sqlalchemy', $driver ], 'sqlalchemy_photos', $driver);
}
run_python('SQLAlchemy, the extension in ext', 'ext', [ 'sqlalchemy', 'psycopg' ], 'sqlalchemy_photos', 'psycopg');

run_python("pandas, the extension in $_", $_, [ 'pandas', 'sqlalchemy', 'psycopg' ], 'pandas_client') for 'public', 'ext';

run_python('Alembic', 'public', [ 'alembic', 'psycopg' ], 'alembic_photos');
run_python('Alembic, the extension in ext', 'ext', [ 'alembic', 'psycopg' ], 'alembic_photos');

run_python('Django with psycopg', 'public', [ 'django', 'rest_framework', 'psycopg' ], 'django_photos', 'psycopg');
run_python('Django with psycopg, bound by the server', 'public', [ 'django', 'rest_framework', 'psycopg' ], 'django_photos', 'server');
run_python('Django with psycopg2', 'public', [ 'django', 'rest_framework', 'psycopg2' ], 'django_photos', 'psycopg2');
run_python('Django, the extension in ext', 'ext', [ 'django', 'rest_framework', 'psycopg' ], 'django_photos', 'psycopg');

# "manage.py test", which makes a database of its own, as a role that is no superuser.
$node->safe_psql('postgres', 'CREATE DATABASE application OWNER app');
if (has_program('python3', '-c', 'import django.db.backends.postgresql.base'))
{
	run_program($node, 'Django, a test database', [ 'python3', "$programs/django_test_database.py" ]);
}
else
{
	missing('Django, a test database', 'django');
}

for my $driver ('asyncpg', 'psycopg2', 'pg8000')
{
	run_python("$driver, the extension in $_", $_, [$driver], "${driver}_client") for 'public', 'ext';
}

done_testing();
