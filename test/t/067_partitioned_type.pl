# The statement of doc/clients.md that changes the type of a partition key, on trees that
# the page does not show: partitions by shard with partitions by time below them, and
# a default partition.  There and back, each row keeps its id and its place.
#
# Majors: all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('partitioned_type', conf => "snowflake.shards = '5-8'");
my ($statement) = map { $_->[1] } grep { $_->[1] =~ /^\\set relation clicks\n/ } fenced_blocks(page_text('doc/clients.md'));

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE "the clicks" (
	"the id" bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	url text NOT NULL DEFAULT 'a' CHECK (url <> '')
) PARTITION BY HASH ("the id" snowflake_shard_ops);
CREATE TABLE even PARTITION OF "the clicks" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE odd PARTITION OF "the clicks" FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY RANGE ("the id");
CREATE TABLE "odd rest" PARTITION OF odd DEFAULT;
SELECT snowflake_make_partitions('odd', '2026-01-01Z', '2026-03-01Z', '1 month');
CREATE INDEX ON "the clicks" (url, "the id");
INSERT INTO "the clicks" ("the id") SELECT snowflake_encode(timestamptz '2025-12-20Z' + n * interval '1 day', 5 + n % 4, 0) FROM generate_series(0, 99) AS n;
INSERT INTO "the clicks" SELECT snowflake_nextval(shard) FROM generate_series(5, 8) AS shard;
SQL

# All that must stay: rows with their places, defaults, constraints, indexes, bounds.
my $state = <<'SQL';
SELECT md5(string_agg(format('%s %s %s %s', tableoid::regclass, ctid, "the id", url), ',' ORDER BY "the id")) FROM "the clicks";
SELECT relid::text, parentrelid, isleaf, pg_get_expr(relpartbound, pg_class.oid), pg_get_partkeydef(relid)
	FROM pg_partition_tree('"the clicks"') JOIN pg_class ON pg_class.oid = relid ORDER BY 1;
SELECT adrelid::regclass::text, pg_get_expr(adbin, adrelid) FROM pg_attrdef ORDER BY 1, 2;
SELECT conrelid::regclass::text, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid IN (SELECT relid FROM pg_partition_tree('"the clicks"'))
	ORDER BY 1, 3;
SELECT indrelid::regclass::text, regexp_replace(pg_get_indexdef(indexrelid), 'INDEX .* ON', '') FROM pg_index
	WHERE indrelid IN (SELECT relid FROM pg_partition_tree('"the clicks"')) ORDER BY 1, 2;
SELECT relid::text, pg_relation_filenode(relid) FROM pg_partition_tree('"the clicks"') WHERE isleaf ORDER BY 1;
SQL
my $before = $node->safe_psql('postgres', $state);

for my $type ('snowflake', 'bigint')
{
	my $of_this = $statement =~ s/^\\set (relation|column|type) \K.*/{ relation => q('"the clicks"'), column => q('the id'), type => $type }->{$1}/gemr;

	$node->safe_psql('postgres', $of_this);
	is($node->safe_psql('postgres', $state), $before, "to $type: all is as it was");
	is($node->safe_psql('postgres', <<'SQL'), $type, "to $type: in each table of the tree");
SELECT string_agg(DISTINCT format_type(atttypid, NULL), ',') FROM pg_attribute
	WHERE attrelid IN (SELECT relid FROM pg_partition_tree('"the clicks"')) AND attname = 'the id'
SQL
	is($node->safe_psql('postgres', 'BEGIN; INSERT INTO "the clicks" DEFAULT VALUES RETURNING "the id" > snowflake_floor(now()); ROLLBACK'), 't', "to $type: the default mints");
}

done_testing();
