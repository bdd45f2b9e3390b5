<?php
// Assertions, printed as TAP.

const DISCORD = 175928847299117063;    // a double does not hold it

error_reporting(E_ALL & ~E_DEPRECATED);
set_error_handler(function (int $level, string $text, string $file, int $line): bool {
    if (!(error_reporting() & $level))
        return false;
    throw new ErrorException($text, 0, $level, $file, $line);
});

$count = 0;

function ok(bool $good, string $name): void
{
    global $count;
    $count++;
    echo $good ? 'ok' : 'not ok', " $count - $name\n";
}

function equal(mixed $got, mixed $want, string $name): void
{
    ok($got === $want, $name);
    if ($got !== $want)
        echo '#   got ', json_encode($got), "\n#   want ", json_encode($want), "\n";
}

// The text of the error that a function throws, or an empty one
function error_of(callable $function): string
{
    try {
        $function();
    } catch (Throwable $error) {
        return $error::class . ': ' . $error->getMessage();
    }
    return '';
}

function done(): void
{
    global $count;
    echo "1..$count\n";
}
