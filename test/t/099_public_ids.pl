# Ids for the public: doc/security.md turns ids into UUIDs and back, in SQL, JavaScript and
# Python.  All three give the page's vectors, and for random ids the same; each id comes
# back, and nothing that was made up, changed in a bit, or made with another key.
#
# Majors: one
# Packages: nodejs python3-cryptography

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my ($page) = page_text('doc/security.md') =~ /^## Ids for the public\n(.*?)^## /ms;
my ($key) = $page =~ /`([0-9a-f]{64})`/;
my @vectors = $page =~ /^\| (\d+) \| ([0-9a-f-]{36}) \|$/mg;
my %uuid_of = @vectors;
my ($javascript) = map { $_->[1] } grep { $_->[0] eq 'javascript' } fenced_blocks($page);
my ($python) = map { $_->[1] } grep { $_->[0] eq 'python' } fenced_blocks($page);
my ($functions) = map { $_->[1] } grep { $_->[0] eq 'sql' } fenced_blocks($page);

cmp_ok(scalar(keys %uuid_of), '>=', 5, 'the page has vectors');

# --- SQL, for both types of a column

my $node = new_server('public', conf => '');
$node->safe_psql('postgres', $functions =~ s/^INSERT.*$/INSERT INTO id_keys VALUES (1, decode('$key', 'hex'));/mr);
for my $type ('bigint', 'snowflake')
{
	is(join(' ', map { $node->safe_psql('postgres', "SELECT public_of('$_'::$type)") } sort keys %uuid_of), join(' ', @uuid_of{ sort keys %uuid_of }), "the page's vectors, of $type");
}
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE photos (id bigint PRIMARY KEY);
CREATE TABLE clicks (id snowflake PRIMARY KEY);
INSERT INTO photos SELECT CASE WHEN i < 9000 THEN snowflake_nextval(5)::bigint ELSE i - 9500 END FROM generate_series(1, 10000) AS i;
INSERT INTO clicks SELECT id FROM photos;
ANALYZE photos, clicks;
SQL
is($node->safe_psql('postgres', <<'SQL'), '10000|10000|0|0', 'each id comes back; what was changed or made up does not');
SELECT count(*) FILTER (WHERE id_of(shown) = id), count(DISTINCT shown),
       count(id_of(overlay(shown::text PLACING CASE substr(shown::text, at, 1) WHEN '0' THEN '1' ELSE '0' END FROM at)::uuid)),
       count(id_of(gen_random_uuid()))
  FROM (SELECT id, public_of(id) AS shown, (1 + abs(id) % 8)::integer AS at FROM photos) AS shown
SQL
for my $table ('photos', 'clicks')
{
	like($node->safe_psql('postgres', "EXPLAIN SELECT * FROM $table WHERE id = id_of('$uuid_of{1}')"), qr/Index.* using ${table}_pkey.*Index Cond/s, "a look-up in $table uses the primary key");
}
$node->safe_psql('postgres', q{INSERT INTO id_keys VALUES (2, gen_random_bytes(32))});
my $shown = $node->safe_psql('postgres', 'SELECT public_of(1)');
isnt($shown, $uuid_of{1}, 'another key makes other UUIDs');
is($node->safe_psql('postgres', "SELECT id_of('$shown'), id_of('$uuid_of{1}')"), '1|1', 'and both are read');
$node->safe_psql('postgres', 'DELETE FROM id_keys WHERE version = 1; CREATE ROLE nobody');
is($node->safe_psql('postgres', "SELECT id_of('$shown'), id_of('$uuid_of{1}') IS NULL"), '1|t', 'until the key is deleted');
fails_with($node, "SET ROLE nobody; SELECT public_of(1)", '42501', qr/permission denied/, 'not everybody may call them');
fails_with($node, "SET ROLE nobody; SELECT key FROM id_keys", '42501', qr/permission denied/, 'or see the key');
$node->stop;

# --- Other languages: a program reads ids, and writes what it makes of each, the id that
# --- it makes of that, and what it makes of a UUID that was made up

my $directory = PostgreSQL::Test::Utils::tempdir();
append_to_file("$directory/public.mjs", $javascript . <<'JS');
import { readFileSync } from "node:fs";
const key = Buffer.from(process.argv[2], "hex");
for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const shown = publicOf(BigInt(line), key);
  console.log(shown, String(idOf(shown, key)), String(idOf(shown.replace(/^./, (c) => (c === "0" ? "1" : "0")), key) ?? "none"));
}
JS
append_to_file("$directory/public.py", $python . <<'PYTHON');
import sys
key = bytes.fromhex(sys.argv[1])
for line in sys.stdin:
    shown = public_of(int(line), key)
    print(shown, id_of(shown, key), "none" if id_of(uuid.UUID(int=shown.int ^ 1 << 127), key) is None else "read")
PYTHON
for my $language ([ 'JavaScript', 'node', "$directory/public.mjs" ], [ 'Python', 'python3', "$directory/public.py" ])
{
	my ($name, @command) = @$language;
  SKIP:
	{
		skip("$name is not installed", 1) unless grep { -x "$_/$command[0]" } split(/:/, $ENV{PATH});
		skip('the package cryptography is not installed', 1) if $name eq 'Python' && system('python3 -c "import cryptography" 2>/dev/null');
		my ($out, $err) = ('', '');
		IPC::Run::run([ @command, $key ], '<', \join('', map { "$_\n" } sort keys %uuid_of), '>', \$out, '2>', \$err) or diag($err);
		is($out, join('', map { "$uuid_of{$_} $_ none\n" } sort keys %uuid_of), "$name makes and reads the page's vectors");
	}
}

done_testing();
