<?php
// doctrine_without.php -- what Doctrine does without doctrine_type.php
//
// Connects as doctrine_photos.php does, and prints TAP.

require '/usr/share/php/Doctrine/DBAL/autoload.php';
require __DIR__ . '/tap.php';

use Doctrine\DBAL\DriverManager;

$db = DriverManager::getConnection([
    'driver' => 'pdo_pgsql',
    'host' => getenv('PGHOST'),
    'port' => (int) getenv('PGPORT'),
    'user' => getenv('PGUSER'),
    'dbname' => getenv('PGDATABASE'),
]);
$db->executeStatement('CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text)');
$db->executeStatement('CREATE TABLE others (id int PRIMARY KEY)');
ok(str_contains(error_of($db->createSchemaManager()->introspectSchema(...)), 'Unknown database type "snowflake" requested'),
    'introspection of the whole schema stops');
done();
