# Ruby's libraries: ActiveRecord, Sequel and ruby-pg.  Each has a program in
# test/stacks/ruby, and doc/languages.md shows parts of these.
#
# Packages: ruby ruby-activerecord ruby-sequel ruby-pg

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $programs = "$FindBin::RealBin/ruby";

shows_what_is_tested('doc/languages.md', 'ruby',
	map { "$programs/$_.rb" }
	  qw(activerecord_initializer activerecord_migration activerecord_models sequel_migration sequel_photos pg_client));

my $node = stack_server('ruby');

# Run a program, if Ruby has its library, on a new database, with the extension in the
# schema public or in its own.
sub run_ruby
{
	my ($name, $schema, $library, $program, @arguments) = @_;

	return missing($name, $library) if !has_program('ruby', "-r$library", '-e', '');
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS app_2 WITH (FORCE)');
	new_database($node, 'app', $schema);
	return run_program($node, $name, [ 'ruby', "$programs/$program.rb", @arguments ], PGDATABASE => 'app');
}

run_ruby('ActiveRecord', 'public', 'active_record', 'activerecord_photos');
run_ruby('ActiveRecord, the extension in ext', 'ext', 'active_record', 'activerecord_photos');
run_ruby('ActiveRecord without the initializer', 'public', 'active_record', 'activerecord_photos', 'without');
run_ruby('Sequel', 'public', 'sequel', 'sequel_photos');
run_ruby('Sequel, the extension in ext', 'ext', 'sequel', 'sequel_photos');
run_ruby("ruby-pg, the extension in $_", $_, 'pg', 'pg_client') for 'public', 'ext';

# A test database, as "bin/rails db:test:prepare" makes it, by a role that is no superuser.
if (has_program('ruby', '-ractive_record', '-e', ''))
{
	run_program($node, 'ActiveRecord, a test database', [ 'ruby', "$programs/activerecord_test_database.rb" ]);
}

done_testing();
