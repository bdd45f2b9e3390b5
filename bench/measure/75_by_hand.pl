# What functions cost, beside what one would write by hand.  Each pair of
# statements gives the same: one with a function of ours, one with SQL that needs
# none.  Each runs in a transaction that is rolled back.

use strict;
use warnings FATAL => 'all';
use Bench;

my $rows = by_mode(20_000, 300_000, 2_000_000);
my $partitions = by_mode(20, 200, 1000);
my $plans = by_mode(100, 1000, 5000);

my $by_hand = 'to_timestamp(((id >> 22) + 1288834974657) / 1000.0) AS created_at,
	(id >> 12) & 1023 AS shard, id & 4095 AS sequence';
my $sums = 'SELECT count(created_at), sum(shard), sum(sequence)';
my $sums_by_hand = "$sums FROM (SELECT $by_hand FROM ids) AS decoded";
my $parent = 'CREATE TABLE parent (id snowflake PRIMARY KEY, n integer) PARTITION BY RANGE (id)';
my $make = "SELECT count(*) FROM snowflake_make_partitions('parent', '2026-01-01Z',
	timestamptz '2026-01-01Z' + $partitions * interval '24 hours', '1 day')";

# SQL that makes the partitions, by such statements for each.
sub partitions_by_hand
{
	my $statements = join(', ', map { "'$_'" } @_);

	return "DO \$\$
	DECLARE
		start timestamptz := '2026-01-01Z';
		bounds text;
		statement text;
	BEGIN
		FOR day IN 1..$partitions LOOP
			bounds := format('FROM (%s) TO (%s)', snowflake_floor(start), snowflake_floor(start + '24 hours'));
			FOREACH statement IN ARRAY ARRAY[$statements] LOOP
				EXECUTE replace(replace(statement, 'NAME', 'parent_' || to_char(start, 'YYYYMMDD')), 'BOUNDS', bounds);
			END LOOP;
			start := start + '24 hours';
		END LOOP;
	END \$\$";
}

# SQL that plans a query so many times.
sub plan
{
	my ($condition) = @_;
	$condition =~ s/'/''/g;
	return "DO \$\$ BEGIN FOR i IN 1..$plans LOOP EXECUTE 'EXPLAIN SELECT n FROM hours WHERE $condition'; END LOOP; END \$\$";
}

sub number_of
{
	my ($time) = @_;
	return "(extract(epoch FROM $time) * 1000)::bigint - 1288834974657 << 22";
}

sub numbered
{
	my ($id) = @_;
	return "SELECT max(id) FROM (SELECT $id AS id FROM photos) AS numbered";
}

my $milliseconds = '(extract(epoch FROM created_at) * 1000)::bigint - 1288834974657';

# What it is, with a function, by hand, and what comes before either.
my @pairs = (
	[ 'decode, in FROM', "$sums FROM ids, snowflake_decode(id)", $sums_by_hand ],
	[ 'decode, as columns', "$sums FROM (SELECT (snowflake_decode(id)).* FROM ids) AS decoded", $sums_by_hand ],
	[ 'the three functions of a field',
		'SELECT count(snowflake_timestamp(id)), sum(snowflake_shard(id)), sum(snowflake_sequence(id)) FROM ids', $sums_by_hand ],
	[ 'audit', "SELECT count(*) FROM snowflake_audit('ids', 'id')",
		'SELECT count(*) FROM (
			SELECT shard, created > extract(epoch FROM now()) * 1000, created < 1288834974657, sequence = 4095, count(*), min(id), max(id)
			  FROM (SELECT id, (id >> 22) + 1288834974657 AS created, (id >> 12) & 1023 AS shard, id & 4095 AS sequence FROM ids) AS decoded
			 GROUP BY 1, 2, 3, 4) AS groups' ],
	[ 'new partitions / PARTITION OF', $make, partitions_by_hand('CREATE TABLE NAME PARTITION OF parent FOR VALUES BOUNDS'), $parent ],
	[ 'more partitions / LIKE and ATTACH', $make,
		partitions_by_hand('CREATE TABLE NAME (LIKE parent)', 'ALTER TABLE parent ATTACH PARTITION NAME FOR VALUES BOUNDS'),
		$parent, "SELECT snowflake_make_partitions('parent', '2025-12-31Z', '2026-01-01Z', '1 day')" ],
	[ 'history', numbered('snowflake_history(created_at, 900) OVER (ORDER BY created_at, n)'),
		numbered("($milliseconds) << 22 | 900 << 12 | row_number() OVER (PARTITION BY created_at ORDER BY n) - 1") ],
	[ 'history / row_number() alone', numbered('snowflake_history(created_at, 900) OVER (ORDER BY created_at, n)'),
		numbered('row_number() OVER (ORDER BY created_at, n)') ],
	[ 'plan a range of times / of numbers', plan("id >= timestamptz '2030-01-01Z' AND id < timestamptz '2030-01-02Z'"),
		plan(sprintf('id >= %d AND id < %d', map { $_ * 1000 - 1288834974657 << 22 } 1893456000, 1893542400)) ],
	[ 'plan id >= now() / its number', plan('id >= now()'), plan('id >= ' . number_of('now()')) ]);

measurement(
	'by hand',
	rounds => by_mode(1, 5, 5),
	setup => sub {
		query([
			"CREATE TABLE ids AS SELECT snowflake_nextval((n % 8)::integer) AS id FROM generate_series(1, $rows) AS n",
			"CREATE TABLE photos AS SELECT n, timestamptz '2024-01-01Z' + least(n, $rows * 0.9) * interval '5 ms' AS created_at
			  FROM generate_series(1, $rows) AS n",
			"CREATE TABLE hours AS SELECT snowflake_floor(timestamptz '2026-01-01Z' + n * interval '1 hour') AS id, n
			  FROM generate_series(1, 100000) AS n",
			'CREATE UNIQUE INDEX ON hours (id)', 'VACUUM ANALYZE' ]);
	},
	turns => turns([ 'with a function', 'by hand' ], \@pairs),
	take => sub {
		my ($subject, $pair) = @_;
		my ($what, $ours, $by_hand, @before) = @$pair;
		my $told = query([ 'BEGIN', @before, '\timing on', $subject eq 'by hand' ? $by_hand : $ours, 'ROLLBACK' ], work_mem => '256MB');

		record($subject, $what, $1, 'ms') if $told =~ /^Time: ([0-9.]+) ms/m;
	});

record_machine('by hand', "$rows ids, $partitions partitions, $plans plans");

1;
