<?php
// doctrine_photos.php -- tests doctrine_type.php and doctrine_entities.php
//
// The argument is the driver, pdo_pgsql or pgsql.  Connects as the PG* environment
// variables say to an empty database with the extension, and prints TAP.

require '/usr/share/php/Doctrine/ORM/autoload.php';
require '/usr/share/php/Symfony/Component/Cache/autoload.php';
require __DIR__ . '/tap.php';
require __DIR__ . '/doctrine_type.php';
require __DIR__ . '/doctrine_entities.php';

use Doctrine\DBAL\ArrayParameterType;
use Doctrine\DBAL\DriverManager;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\Mapping as ORM;
use Doctrine\ORM\ORMSetup;
use Doctrine\ORM\Tools\SchemaTool;

$parameters = [
    'driver' => $argv[1],
    'host' => getenv('PGHOST'),
    'port' => (int) getenv('PGPORT'),
    'user' => getenv('PGUSER'),
    'dbname' => getenv('PGDATABASE'),
];
$db = DriverManager::getConnection($parameters);
$em = new EntityManager($db, ORMSetup::createAttributeMetadataConfiguration([__DIR__], true));

// The schema: what "orm:schema-tool" and "migrations:diff" would do
$tool = new SchemaTool($em);
$classes = array_map($em->getClassMetadata(...), [Photo::class, Comment::class, Visit::class]);
$tool->createSchema($classes);
equal($db->fetchAllKeyValue(<<<'SQL'
    SELECT attrelid::regclass || '.' || attname, format_type(atttypid, NULL) || coalesce(' ' || pg_get_expr(adbin, adrelid), '')
      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE attname IN ('id', 'photo_id') AND attrelid IN ('photos'::regclass, 'comments'::regclass, 'visits'::regclass)
     ORDER BY 1
    SQL), [
    'comments.id' => 'snowflake snowflake_nextval()',
    'comments.photo_id' => 'snowflake',
    'photos.id' => 'snowflake snowflake_nextval()',
    'visits.id' => 'bigint snowflake_nextval()',
], 'the types of the columns; a foreign key has no DEFAULT');
equal($tool->getUpdateSchemaSql($classes), [], 'a second run finds no change');

#[ORM\Entity]
class Wrong
{
    #[ORM\Id, ORM\ManyToOne, ORM\JoinColumn(nullable: false)]
    public Photo $photo;
}
ok(str_contains(implode($tool->getCreateSchemaSql([$em->getClassMetadata(Wrong::class)])), 'photo_id snowflake DEFAULT snowflake_nextval()'),
    'without the option, a foreign key has the DEFAULT, too');

// Rows
$before = new DateTimeImmutable('-1 second');
$first = addPhoto($em, 'first');
$second = addPhoto($em, 'second');
ok($first < $second, 'ids increase');
equal($db->fetchOne("SELECT id::text FROM photos WHERE url = 'second'"), (string) $second, "the id is the row's");
$db->insert('photos', ['id' => DISCORD, 'url' => 'discord']);
$discord = $em->find(Photo::class, DISCORD);
equal($discord->id, DISCORD, 'a row is found by an int');
equal($em->find(Photo::class, (string) DISCORD), $discord, 'and by a string');
equal(array_column($em->getRepository(Photo::class)->findBy(['id' => [$first, DISCORD]], ['id' => 'ASC']), 'url'),
    ['discord', 'first'], 'and by an array');
equal($db->fetchFirstColumn('SELECT url FROM photos WHERE id IN (?) ORDER BY id', [[$first, DISCORD]], [ArrayParameterType::INTEGER]),
    ['discord', 'first'], 'and in the DBAL');
$em->persist(new Comment($discord));
$em->flush();
$em->clear();
equal($em->getRepository(Comment::class)->findOneBy([])->photo->id, DISCORD, 'a foreign key is an int');
equal($em->createQuery('SELECT p.url FROM Comment c JOIN c.photo p')->getSingleScalarResult(), 'discord', 'a join');
$discord = $em->find(Photo::class, DISCORD);
$discord->url = 'new';
$em->flush();
equal($db->fetchOne('SELECT url FROM photos WHERE id = ?', [DISCORD]), 'new', 'an update finds the row');
equal(array_column(photosSince($em, $before), 'url'), ['first', 'second'], 'rows since a time');
equal(photosSince($em, new DateTimeImmutable('+1 hour')), [], 'and since a later one');
$ids = fetchIds($em, 100);
ok(count(array_unique($ids)) == 100 && array_filter($ids, is_int(...)) == $ids, 'ids fetched ahead are int');
foreach ($ids as $id)
    $db->insert('photos', ['id' => $id, 'url' => 'u']);
$seen = [];
$last = PHP_INT_MAX;
while ($rows = page($em, 40, $last)) {
    array_push($seen, ...array_column($rows, 'id'));
    $last = end($seen);
}
equal($seen, [...array_reverse($ids), $second, $first, DISCORD], 'pages: each row once, in order');
equal(json_decode(photoJson($discord))->id, (string) DISCORD, 'JSON: the id is a string, with all digits');
$visit = new Visit();
$em->persist($visit);
$em->flush();
equal($db->fetchOne('SELECT id FROM visits'), $visit->id, 'bigint: an id is an int');

// Who follows snowflake_settled() needs each id and its row from one transaction.
$reader = DriverManager::getConnection($parameters);
$isSettled = fn(int $id): bool => $reader->fetchOne('SELECT snowflake_settled() > ?', [$id]);
$photo = new Photo('late');
$em->persist($photo);
for ($tries = 0; !$isSettled($photo->id) && $tries < 1000; $tries++)
    usleep(10000);
ok($tries < 1000, 'persist() mints before the transaction of flush()');
$em->flush();
$em->wrapInTransaction(function () use ($em, $isSettled): void {
    $photo = new Photo('in time');
    $em->persist($photo);
    usleep(50000);      // long enough for it to settle, if it could
    ok(!$isSettled($photo->id), 'in wrapInTransaction() it mints in the transaction');
});

// what not to use
ok(str_contains(error_of($db->lastInsertId(...)), 'No identity value was generated'),
    'lastInsertId(), which the strategy IDENTITY takes, fails');
$db->executeStatement('CREATE SEQUENCE other START 7');
$db->executeQuery("SELECT nextval('other')");
addPhoto($em, 'third');
equal((int) $db->lastInsertId(), 7, "or it is the number of another table's sequence");
done();
