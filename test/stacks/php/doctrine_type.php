<?php
// doctrine_type.php -- the type snowflake in Doctrine DBAL, and ids from it in the ORM
//
// doc/languages.md shows it.  doctrine_photos.php tests it.

use Doctrine\DBAL\Platforms\AbstractPlatform;
use Doctrine\DBAL\Types\BigIntType;
use Doctrine\DBAL\Types\Type;
use Doctrine\ORM\EntityManagerInterface;
use Doctrine\ORM\Id\AbstractIdGenerator;

final class SnowflakeType extends BigIntType
{
    public function getSQLDeclaration(array $column, AbstractPlatform $platform): string
    {
        return 'snowflake';
    }

    public function getMappedDatabaseTypes(AbstractPlatform $platform): array
    {
        return ['snowflake'];
    }
}

final class SnowflakeGenerator extends AbstractIdGenerator
{
    public function generateId(EntityManagerInterface $em, ?object $entity): int
    {
        return (int) $em->getConnection()->fetchOne('SELECT snowflake_nextval()');
    }
}

Type::addType('snowflake', SnowflakeType::class);
