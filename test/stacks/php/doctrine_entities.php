<?php
// doctrine_entities.php -- entities with snowflake keys
//
// doc/languages.md shows it.  doctrine_photos.php tests it.

use Doctrine\Common\Collections\ArrayCollection;
use Doctrine\Common\Collections\Collection;
use Doctrine\ORM\EntityManagerInterface;
use Doctrine\ORM\Mapping as ORM;

#[ORM\Entity, ORM\Table(name: 'photos')]
class Photo
{
    #[ORM\Id, ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: SnowflakeGenerator::class)]
    #[ORM\Column(type: 'snowflake', options: ['default' => 'snowflake_nextval()'])]
    public int $id;

    #[ORM\ManyToMany(targetEntity: Tag::class), ORM\JoinTable(name: 'photos_tags')]
    #[ORM\JoinColumn(options: ['default' => null]), ORM\InverseJoinColumn(options: ['default' => null])]
    public Collection $tags;

    public function __construct(
        #[ORM\Column(type: 'text')]
        public string $url,
    ) {
        $this->tags = new ArrayCollection();
    }
}

#[ORM\Entity, ORM\Table(name: 'tags')]
class Tag
{
    #[ORM\Id, ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: SnowflakeGenerator::class)]
    #[ORM\Column(type: 'snowflake', options: ['default' => 'snowflake_nextval()'])]
    public int $id;
}

#[ORM\Entity, ORM\Table(name: 'comments')]
class Comment
{
    #[ORM\Id, ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: SnowflakeGenerator::class)]
    #[ORM\Column(type: 'snowflake', options: ['default' => 'snowflake_nextval()'])]
    public int $id;

    public function __construct(
        #[ORM\ManyToOne]
        #[ORM\JoinColumn(nullable: false, options: ['default' => null])]
        public Photo $photo,
    ) {
    }
}

#[ORM\Entity, ORM\Table(name: 'visits')]
class Visit
{
    #[ORM\Id, ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: SnowflakeGenerator::class)]
    #[ORM\Column(type: 'bigint', options: ['default' => 'snowflake_nextval()'])]
    public int $id;
}

// The id of the new row
function addPhoto(EntityManagerInterface $em, string $url): int
{
    $photo = new Photo($url);
    $em->persist($photo);
    $em->flush();
    return $photo->id;
}

// The rows below the last id of the page before, newest first
function page(EntityManagerInterface $em, int $size, int $last = PHP_INT_MAX): array
{
    return $em->createQuery('SELECT p FROM Photo p WHERE p.id < :last ORDER BY p.id DESC')
        ->setParameter('last', $last)
        ->setMaxResults($size)
        ->getResult();
}

// The rows that were made at this time or later
function photosSince(EntityManagerInterface $em, DateTimeInterface $time): array
{
    $first = $em->getConnection()
        ->fetchOne('SELECT snowflake_floor(?)', [$time->format(DATE_RFC3339_EXTENDED)]);
    return $em->createQuery('SELECT p FROM Photo p WHERE p.id >= :first ORDER BY p.id')
        ->setParameter('first', $first)
        ->getResult();
}

// Ids for rows that you will insert by the DBAL
function fetchIds(EntityManagerInterface $em, int $count): array
{
    return $em->getConnection()
        ->fetchFirstColumn('SELECT snowflake_nextval()::bigint FROM generate_series(1, ?)', [$count]);
}

// For a browser: the id is a string, since JavaScript rounds numbers.
function photoJson(Photo $photo): string
{
    return json_encode(['id' => (string) $photo->id, 'url' => $photo->url]);
}
