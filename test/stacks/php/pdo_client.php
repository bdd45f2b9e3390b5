<?php
// pdo_client.php -- snowflake from PDO
//
// Connects as the PG* environment variables say
// to an empty database with the extension, and prints TAP.

require __DIR__ . '/tap.php';

// The id of the new row
function addPhoto(PDO $db, string $url): int
{
    $insert = $db->prepare('INSERT INTO photos (url) VALUES (?) RETURNING id');
    $insert->execute([$url]);
    return (int) $insert->fetchColumn();
}

// Several rows at once, by an array of ids
function findPhotos(PDO $db, array $ids): array
{
    $select = $db->prepare('SELECT id, url FROM photos WHERE id = ANY(CAST(? AS bigint[])) ORDER BY id');
    $select->execute(['{' . implode(',', $ids) . '}']);
    return $select->fetchAll(PDO::FETCH_ASSOC);
}

// The rows below the last id of the page before, newest first
function page(PDO $db, int $size, int|string $last = PHP_INT_MAX): array
{
    $select = $db->prepare('SELECT id, url FROM photos WHERE id < ? ORDER BY id DESC LIMIT ?');
    $select->execute([$last, $size]);
    return $select->fetchAll(PDO::FETCH_ASSOC);
}

// The rows that were made at this time or later
function photosSince(PDO $db, DateTimeInterface $time): array
{
    $select = $db->prepare('SELECT id, url FROM photos WHERE id >= snowflake_floor(?) ORDER BY id');
    $select->execute([$time->format(DATE_RFC3339_EXTENDED)]);
    return $select->fetchAll(PDO::FETCH_ASSOC);
}

// Ids for rows that you will insert
function fetchIds(PDO $db, int $count): array
{
    $select = $db->prepare('SELECT snowflake_nextval() FROM generate_series(1, ?)');
    $select->execute([$count]);
    return $select->fetchAll(PDO::FETCH_COLUMN);
}

// For a browser: the id is a string, since JavaScript rounds numbers.
function photoJson(array $photo): string
{
    return json_encode(['id' => (string) $photo['id']] + $photo);
}

// --- The test

echo '# PDO of PHP ', PHP_VERSION, "\n";
function connect(bool $emulate): PDO
{
    return new PDO('pgsql:dbname=' . getenv('PGDATABASE'), options: [PDO::ATTR_EMULATE_PREPARES => $emulate]);
}

$db = connect(false);
$db->exec('CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL)');
$db->exec('CREATE TABLE visits (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');

foreach (['prepared' => false, 'emulated' => true] as $how => $emulate) {
    $db = connect($emulate);
    $db->exec('TRUNCATE photos');
    $before = new DateTimeImmutable('-1 second');
    $first = addPhoto($db, 'first');
    $second = addPhoto($db, 'second');
    ok($first < $second, "$how: ids increase");
    equal($db->query("SELECT id::text FROM photos WHERE url = 'second'")->fetchColumn(), (string) $second,
        "$how: the id is the row's");
    $insert = $db->prepare("INSERT INTO photos VALUES (?, 'discord') RETURNING id");
    $insert->execute([DISCORD]);
    equal($insert->fetchColumn(), (string) DISCORD, "$how: in a result an id is a string");
    foreach ([DISCORD, (string) DISCORD] as $id) {
        equal(array_column(findPhotos($db, [$id, $first]), 'url'), ['discord', 'first'],
            "$how: rows are found by an array with a " . get_debug_type($id));
        $select = $db->prepare('SELECT url FROM photos WHERE id = ?');
        $select->execute([$id]);
        equal($select->fetchColumn(), 'discord', "$how: a row is found by it");
        $select->bindValue(1, $id, is_int($id) ? PDO::PARAM_INT : PDO::PARAM_STR);
        $select->execute();
        equal($select->fetchColumn(), 'discord', "$how: also when it is bound as one");
    }
    equal(array_column(photosSince($db, $before), 'url'), ['first', 'second'], "$how: rows since a time");
    equal(photosSince($db, new DateTimeImmutable('+1 hour')), [], "$how: and since a later one");
    $ids = fetchIds($db, 100);
    equal(count(array_unique($ids)), 100, "$how: ids fetched ahead");
    $insert = $db->prepare("INSERT INTO photos SELECT id, 'u' FROM unnest(CAST(? AS bigint[])) AS id");
    $insert->execute(['{' . implode(',', $ids) . '}']);
    $seen = [];
    $last = PHP_INT_MAX;
    while ($rows = page($db, 40, $last)) {
        array_push($seen, ...array_column($rows, 'id'));
        $last = end($seen);
    }
    equal($seen, array_map(strval(...), [...array_reverse($ids), $second, $first, DISCORD]),
        "$how: pages: each row once, in order");
    equal(json_decode(photoJson(findPhotos($db, [DISCORD])[0]))->id, (string) DISCORD,
        "$how: JSON: the id is a string, with all digits");
    equal(get_debug_type($db->query('INSERT INTO visits DEFAULT VALUES RETURNING id')->fetchColumn()), 'int',
        "$how: bigint: an id is an int");
}

// what not to use
$db = connect(false);
addPhoto($db, 'third');
ok(str_contains(error_of(fn() => $db->lastInsertId()), 'lastval is not yet defined'), 'lastInsertId() fails');
$db->exec("CREATE SEQUENCE other START 7; SELECT nextval('other')");
addPhoto($db, 'fourth');
equal($db->lastInsertId(), '7', "or it is the number of another table's sequence");
done();
