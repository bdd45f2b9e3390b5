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
#[ORM\Entity, ORM\Table(name: 'bigphotos')]
class BigPhoto
{
    #[ORM\Id, ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: SnowflakeGenerator::class)]
    #[ORM\Column(type: 'bigint', options: ['default' => 'snowflake_nextval()'])]
    public int $id;

    #[ORM\ManyToMany(targetEntity: BigTag::class), ORM\JoinTable(name: 'bigphotos_tags')]
    #[ORM\JoinColumn(options: ['default' => null]), ORM\InverseJoinColumn(options: ['default' => null])]
    public $tags;
}
#[ORM\Entity, ORM\Table(name: 'bigtags')]
class BigTag
{
    #[ORM\Id, ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: SnowflakeGenerator::class)]
    #[ORM\Column(type: 'bigint', options: ['default' => 'snowflake_nextval()'])]
    public int $id;
}
#[ORM\Entity]
class WrongLinks
{
    #[ORM\Id, ORM\Column(type: 'snowflake')]
    public int $id;

    #[ORM\ManyToMany(targetEntity: Tag::class)]
    public $tags;
}

$tool = new SchemaTool($em);
$classes = array_map($em->getClassMetadata(...), [Photo::class, Tag::class, Comment::class, Visit::class, BigPhoto::class, BigTag::class]);
$tool->createSchema($classes);
equal($db->fetchAllKeyValue(<<<'SQL'
    SELECT attrelid::regclass || '.' || attname, format_type(atttypid, NULL) || coalesce(' ' || pg_get_expr(adbin, adrelid), '')
      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE attname ~ '^(.*_)?id$' AND attnum > 0 AND attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace)
     ORDER BY 1
    SQL), [
    'bigphotos.id' => 'bigint snowflake_nextval()',
    'bigphotos_tags.bigphoto_id' => 'bigint',
    'bigphotos_tags.bigtag_id' => 'bigint',
    'bigtags.id' => 'bigint snowflake_nextval()',
    'comments.id' => 'snowflake snowflake_nextval()',
    'comments.photo_id' => 'snowflake',
    'photos.id' => 'snowflake snowflake_nextval()',
    'photos_tags.photo_id' => 'snowflake',
    'photos_tags.tag_id' => 'snowflake',
    'tags.id' => 'snowflake snowflake_nextval()',
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

ok(str_contains(implode($tool->getCreateSchemaSql([$em->getClassMetadata(WrongLinks::class)])), 'tag_id snowflake DEFAULT snowflake_nextval()'),
    'and so has a column of many to many');

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
$em->persist($tag = new Tag());
$discord->tags->add($tag);
$em->persist($photo = new BigPhoto());
$em->persist($bigTag = new BigTag());
$photo->tags = [$bigTag];
$em->flush();
$em->clear();
equal($em->find(Photo::class, DISCORD)->tags[0]->id, $tag->id, 'many to many, snowflake');
equal($em->find(BigPhoto::class, $photo->id)->tags[0]->id, $bigTag->id, 'many to many, bigint');
$nested = "SELECT json_build_object('id', p.id::text, 'tags', json_agg(t.tag_id::text)) FROM photos p LEFT JOIN photos_tags t ON t.photo_id = p.id"
    . ' GROUP BY p.id ORDER BY p.id LIMIT 2';
equal(array_map(fn($json) => json_decode($json, true), $db->fetchFirstColumn($nested)),
    [['id' => (string) DISCORD, 'tags' => [(string) $tag->id]], ['id' => (string) $first, 'tags' => [null]]], 'nested JSON has all digits');
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
