<?php
// eloquent_provider.php -- what boot() of AppServiceProvider does, so that migrations
// know the type
//
// doc/languages.md shows it.  eloquent_photos.php tests it.

use Illuminate\Database\Query\Expression;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Database\Schema\ColumnDefinition;
use Illuminate\Database\Schema\Grammars\PostgresGrammar;

PostgresGrammar::macro('typeSnowflake', fn() => 'snowflake');
Blueprint::macro('snowflake', function (string $column): ColumnDefinition {
    return $this->addColumn('snowflake', $column);
});
Blueprint::macro('snowflakeKey', function (string $column = 'id', string $type = 'snowflake'): ColumnDefinition {
    return $this->addColumn($type, $column)->primary()->default(new Expression('snowflake_nextval()'));
});
