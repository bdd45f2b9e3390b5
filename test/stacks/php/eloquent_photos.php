<?php
// eloquent_photos.php -- tests eloquent_provider.php, eloquent_migration.php and
// eloquent_models.php
//
// Connects as the PG* environment variables say to an empty database with the
// extension, and prints TAP.

require '/usr/share/php/Illuminate/Database/autoload.php';
require '/usr/share/php/Illuminate/Events/autoload.php';
require '/usr/share/php/Illuminate/Filesystem/autoload.php';
require '/usr/share/php/Illuminate/Pagination/autoload.php';
require __DIR__ . '/tap.php';
require __DIR__ . '/eloquent_provider.php';
require __DIR__ . '/eloquent_models.php';

use Illuminate\Database\Capsule\Manager;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\Migrations\DatabaseMigrationRepository;
use Illuminate\Database\Migrations\Migrator;
use Illuminate\Filesystem\Filesystem;
use Illuminate\Support\Facades\Facade;

// A database connection as an application of Laravel has it
$manager = new Manager();
$manager->addConnection([
    'driver' => 'pgsql',
    'host' => getenv('PGHOST'),
    'port' => getenv('PGPORT'),
    'username' => getenv('PGUSER'),
    'database' => getenv('PGDATABASE'),
]);
$manager->setAsGlobal();
$manager->bootEloquent();
$db = $manager->getConnection();
$container = $manager->getContainer();
$container->instance('db', $manager->getDatabaseManager());
$container->bind('db.schema', fn() => $db->getSchemaBuilder());
Facade::setFacadeApplication($container);

// Migrations
$directory = sys_get_temp_dir() . '/migrations' . getmypid();
mkdir($directory);
register_shutdown_function(fn() => (new Filesystem())->deleteDirectory($directory));
copy(__DIR__ . '/eloquent_migration.php', "$directory/2026_01_01_000000_create_photos.php");
$repository = new DatabaseMigrationRepository($manager->getDatabaseManager(), 'migrations');
$repository->createRepository();
$migrator = new Migrator($repository, $manager->getDatabaseManager(), new Filesystem());
equal(count($migrator->run([$directory])), 1, 'the migration is made');
equal($migrator->run([$directory]), [], 'and not again');
equal($migrator->rollback([$directory]) != [] && !$db->getSchemaBuilder()->hasTable('photos'), true, 'it goes back');
$migrator->run([$directory]);
equal($db->table('pg_attribute')
    ->selectRaw("attrelid::regclass || '.' || attname AS name, format_type(atttypid, NULL) || coalesce(' ' || pg_get_expr(adbin, adrelid), '') AS type")
    ->leftJoin('pg_attrdef', fn($join) => $join->on('adrelid', 'attrelid')->on('adnum', 'attnum'))
    ->whereIn('attname', ['id', 'photo_id'])
    ->whereRaw("attrelid IN ('photos'::regclass, 'comments'::regclass, 'visits'::regclass)")
    ->orderBy('name')->pluck('type', 'name')->all(), [
    'comments.id' => 'snowflake snowflake_nextval()',
    'comments.photo_id' => 'snowflake',
    'photos.id' => 'snowflake snowflake_nextval()',
    'visits.id' => 'bigint snowflake_nextval()',
], 'the types of the columns');

// Rows
$before = new DateTimeImmutable('-1 second');
$first = Photo::create(['url' => 'first']);
$second = Photo::create(['url' => 'second']);
ok(is_string($first->id) && (int) $first->id < (int) $second->id, 'the id of a new row is a string, and ids increase');
equal($db->scalar("SELECT id::text FROM photos WHERE url = 'second'"), $second->id, "it is the row's");
Photo::create(['id' => DISCORD, 'url' => 'discord']);
foreach ([DISCORD, (string) DISCORD] as $id) {
    $discord = Photo::find($id);
    equal($discord->id, (string) DISCORD, 'a row is found by a ' . get_debug_type($id));
    equal(Photo::findMany([$first->id, $id])->sortBy('id')->pluck('url')->all(), ['discord', 'first'], 'and by an array with one');
}
$comment = Comment::create(['photo_id' => $discord->id]);
$comment = $comment->fresh();
equal($comment->photo_id, (string) DISCORD, 'a foreign key is a string, too');
ok($comment->photo->is($discord), 'and finds its row');
ok(Comment::with('photo')->first()->photo->is($discord), 'also when rows are loaded together');
equal(Photo::with('comments')->find(DISCORD)->comments->pluck('id')->all(), [$comment->id], 'and back');
$discord->update(['url' => 'new']);
equal(Photo::firstWhere('url', 'new')->id, (string) DISCORD, 'an update finds the row');
equal(Photo::since($before)->pluck('url')->all(), ['first', 'second'], 'rows since a time');
equal(Photo::since(new DateTimeImmutable('+1 hour'))->count(), 0, 'and since a later one');
$db->statement("SET timezone = 'America/Los_Angeles'");
equal([Photo::since($before)->count(), Photo::whereRaw('id >= snowflake_floor(?)', [$before])->count()], [2, 0],
    'Eloquent sends a time without its time zone, so it is formatted');
$ids = Photo::fetchIds(100);
equal(count(array_unique($ids)), 100, 'ids fetched ahead');
Photo::insert(array_map(fn($id) => ['id' => $id, 'url' => 'u'], $ids));

// Pages
$all = [(string) DISCORD, $first->id, $second->id, ...$ids];
$seen = [];
$last = PHP_INT_MAX;
while (count($rows = Photo::page(40, $last)->get())) {
    array_push($seen, ...$rows->pluck('id'));
    $last = end($seen);
}
equal($seen, array_reverse($all), 'pages: each row once, in order');
$seen = [];
$cursor = null;
do {
    $page = Photo::orderByDesc('id')->cursorPaginate(40, cursor: $cursor);
    array_push($seen, ...array_column($page->items(), 'id'));
    $cursor = $page->nextCursor()?->encode();
} while ($cursor);
equal($seen, array_reverse($all), 'and by cursorPaginate()');
equal(Photo::query()->lazyById(40)->pluck('id')->all(), $all, 'and lazyById()');

equal(json_decode($discord->toJson())->id, (string) DISCORD, 'JSON: the id is a string, with all digits');
equal(json_decode($comment->toJson())->photo_id, (string) DISCORD, 'and so is a foreign key');
$visit = Visit::create();
ok(is_string($visit->id) && $visit->is(Visit::first()), 'bigint: an id is a string, too');


// Many to many, and JSON of what is nested
class Tag extends SnowflakeModel
{
}
class Snap extends SnowflakeModel
{
    public function tags()
    {
        return $this->belongsToMany(Tag::class, 'photo_tag', 'photo_id', 'tag_id');
    }
}
foreach (['snowflake', 'bigint'] as $column) {
    $db->statement("DROP TABLE IF EXISTS photo_tag, tags, snaps CASCADE");
    foreach (['tags', 'snaps'] as $table)
        $db->statement("CREATE TABLE $table (id $column PRIMARY KEY DEFAULT snowflake_nextval())");
    $db->statement("CREATE TABLE photo_tag (photo_id $column REFERENCES snaps, tag_id $column REFERENCES tags)");
    $snap = Snap::create(['id' => DISCORD]);
    $lonely = Snap::create();
    $snap->tags()->attach([Tag::create(['id' => DISCORD + 2])->id, Tag::create(['id' => DISCORD + 4])->id]);
    $loaded = Snap::with('tags')->orderBy('id')->get();
    equal($loaded->map(fn($snap) => $snap->tags->pluck('id')->sort()->values()->all())->all(),
        [[(string) (DISCORD + 2), (string) (DISCORD + 4)], []], "$column: relations have all digits");
    equal(array_column(json_decode($loaded[0]->makeHidden('pivot')->toJson())->tags, 'id'),
        [(string) (DISCORD + 2), (string) (DISCORD + 4)], 'and are strings in nested JSON');
}

$db->statement('CREATE TABLE likes (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), visit_id bigint REFERENCES visits)');
class RawLike extends SnowflakeModel
{
    protected $table = 'likes';
}
class Like extends SnowflakeModel
{
    protected $casts = ['visit_id' => 'string'];
}
Like::create(['visit_id' => $visit->id]);
equal(RawLike::first()->visit_id, (int) $visit->id, 'bigint: a foreign key is an int');
equal(Like::first()->visit_id, $visit->id, 'bigint: and with a cast a string');

// what the key type is for
class NumberedPhoto extends Model
{
    protected $table = 'photos';
}
ok(str_contains(NumberedPhoto::find(DISCORD)->toJson(), '"id":' . DISCORD), 'without $keyType, JSON has a number');
done();
