# Dump and restore, plain and custom format: tables, defaults, indexes,
# partitions, views and domains on the type come back as they were, and the
# restored database mints on.
#
# Majors: all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('dump', conf => "snowflake.shards = '5'");
my $file = $node->basedir . '/dump';

$node->safe_psql('postgres', <<'SQL');
CREATE DOMAIN photo_id AS snowflake CHECK (VALUE >= 0);
CREATE TABLE photos (
	id      snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
	other   photo_id DEFAULT snowflake_nextval(5),
	made    timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED,
	history snowflake[],
	url     text NOT NULL
);
CREATE INDEX by_shard ON photos (snowflake_shard(id), id DESC);
CREATE INDEX by_hash ON photos USING hash (other);
CREATE TABLE comments (id snowflake PRIMARY KEY, photo bigint REFERENCES photos);
CREATE VIEW recent AS SELECT id, parts.* FROM photos, snowflake_decode(id, 'twitter') AS parts ORDER BY id DESC LIMIT 5;
CREATE TABLE by_time (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(5)) PARTITION BY RANGE (id);
CREATE TABLE by_time_low PARTITION OF by_time FOR VALUES FROM (MINVALUE) TO ('1000');
CREATE TABLE by_time_high PARTITION OF by_time FOR VALUES FROM ('1000') TO (MAXVALUE);
INSERT INTO photos (url, history) SELECT 'u' || n, ARRAY[snowflake_nextval(), 5::snowflake] FROM generate_series(1, 1000) AS n;
INSERT INTO comments SELECT snowflake_nextval(), id FROM photos;
INSERT INTO by_time VALUES (DEFAULT), (DEFAULT), ('7');
SQL

my $digest = <<'SQL';
SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM photos AS t;
SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM comments AS t;
SELECT md5(string_agg(tableoid::regclass || t::text, ',' ORDER BY id)) FROM by_time AS t;
SELECT * FROM recent;
SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1;
SELECT table_name, column_name, udt_name, column_default FROM information_schema.columns
	WHERE table_schema = 'public' ORDER BY 1, 2;
SQL
my $original = $node->safe_psql('postgres', $digest);

for my $format ('plain', 'custom')
{
	my $db = "restored_$format";

	$node->command_ok([ 'pg_dump', "--format=$format", '--no-sync', '-f', "$file.$format",
			'-d', $node->connstr('postgres') ], "$format: dumped");
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->command_ok(
		$format eq 'plain'
		? [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', "$file.$format" ]
		: [ 'pg_restore', '--exit-on-error', '-d', $node->connstr($db), "$file.$format" ],
		"$format: restored into a database without the extension");
	is($node->safe_psql($db, $digest), $original, "$format: all as it was");
	is( $node->safe_psql($db, "INSERT INTO photos (url) VALUES ('new') RETURNING id > (SELECT max(id) FROM photos)"),
		't', "$format: and minting goes on above");
	fails_with($node, 'DROP EXTENSION snowflake', '2BP01',
		qr/cannot drop extension snowflake because other objects depend on it.*DETAIL:.*column id of table photos depends on type snowflake/s,
		"$format: DROP EXTENSION is refused while columns use the type", dbname => $db);
	$node->safe_psql($db, 'DROP EXTENSION snowflake CASCADE; CREATE EXTENSION snowflake');
	is($node->safe_psql($db, 'SELECT snowflake_nextval() IS NOT NULL'), 't', "$format: dropped and created again");
}

done_testing();
