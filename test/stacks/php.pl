# PHP's libraries: PDO, Doctrine's DBAL and ORM, and Eloquent.  Each has a program in
# test/stacks/php, and doc/languages.md shows parts of these.
#
# Packages: php-cli php-pgsql php-doctrine-dbal php-doctrine-orm php-symfony-cache
# Packages: php-illuminate-database php-illuminate-events php-illuminate-filesystem
# Packages: php-illuminate-pagination

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use StackTest;
use Test::More;

my $programs = "$FindBin::RealBin/php";
my $php = '/usr/share/php';

shows_what_is_tested('doc/languages.md', 'php',
	map { "$programs/$_.php" }
	  qw(doctrine_type doctrine_entities eloquent_provider eloquent_migration eloquent_models));

my $node = stack_server('php');

# Run a program, if PHP has its library, on a new database, with the extension in the
# schema public or in its own.
sub run_php
{
	my ($name, $schema, $needs, $program, @arguments) = @_;

	return missing($name, 'PDO for PostgreSQL') if !has_program('php', '-r', 'exit((int) !extension_loaded("pdo_pgsql"));');
	return missing($name, $_) for grep { !-e } @$needs;
	new_database($node, 'app', $schema);
	return run_program($node, $name, [ 'php', "$programs/$program.php", @arguments ], PGDATABASE => 'app');
}

my @doctrine = ("$php/Doctrine/ORM/autoload.php", "$php/Symfony/Component/Cache/autoload.php");
my @eloquent = map { "$php/Illuminate/$_/autoload.php" } qw(Database Events Filesystem Pagination);

run_php('PDO', 'public', [], 'pdo_client');
run_php("Doctrine with $_", 'public', \@doctrine, 'doctrine_photos', $_) for 'pdo_pgsql', 'pgsql';
run_php('Doctrine, the extension in ext', 'ext', \@doctrine, 'doctrine_photos', 'pdo_pgsql');
run_php('Doctrine without the type', 'public', \@doctrine, 'doctrine_without');
run_php('Eloquent', 'public', \@eloquent, 'eloquent_photos');
run_php('Eloquent, the extension in ext', 'ext', \@eloquent, 'eloquent_photos');

done_testing();
