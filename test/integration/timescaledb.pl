# TimescaleDB: a hypertable whose chunks are ranges of ids, as doc/tools.md sets it
# up, and each of the page's statements about chunks, policies and types.
#
# TimescaleDB is not in Debian.  Where it is not installed for this PostgreSQL, only
# what it relies on is tested, and the rest is skipped.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my ($section) = page_text('doc/tools.md') =~ /^## TimescaleDB\n(.*?)^## /ms;
my ($tables) = map { $_->[1] } grep { $_->[0] eq 'sql' } fenced_blocks($section);
my $day = '(86400000::bigint << 22)';

# --- What TimescaleDB asks PostgreSQL for: a number under the type, an immutable
# --- function from a number to a time, and a function that gives the greatest one

my $plain = new_server('plain', conf => "snowflake.shards = '0'");

is($plain->safe_psql('postgres', q{SELECT castmethod FROM pg_cast WHERE castsource = 'snowflake'::regtype AND casttarget = 'bigint'::regtype}),
	'b', 'a snowflake is a bigint in storage');
is($plain->safe_psql('postgres', q{SELECT provolatile FROM pg_proc WHERE oid = 'snowflake_timestamp(bigint)'::regprocedure}), 'i', 'the time of an id is immutable');
my ($now) = $tables =~ /^(CREATE FUNCTION .*?;)$/ms;
$plain->safe_psql('postgres', $now);
is($plain->safe_psql('postgres', <<'SQL'), 't|t', 'the function of the page gives the first id of this millisecond, whatever the search_path');
SET search_path = pg_catalog, pg_temp;
BEGIN;
SELECT public.clicks_now() = public.snowflake_floor(now()), public.snowflake_nextval()::bigint >= public.clicks_now();
SQL
$plain->stop;

# --- TimescaleDB itself

SKIP:
{
	my $library = `pg_config --pkglibdir`;
	chomp($library);
	skip('TimescaleDB is not installed', 1) unless -e "$library/timescaledb.so";

	my $node = new_server('hypertables', conf => <<'CONF');
shared_preload_libraries = 'timescaledb, snowflake'
snowflake.shards = '0-7'
timescaledb.telemetry_level = off
timezone = 'UTC'
CONF
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
	my $is = sub { my ($query, $expected, $name) = @_; return is($sql->($query), $expected, $name) };

	$sql->('CREATE EXTENSION timescaledb');
	note('TimescaleDB ' . $sql->(q{SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'}));
	# an Apache build has hypertables, but no policies and no compression
	my $has_all = $sql->('SHOW timescaledb.license') eq 'timescale';
	# policies run when the test calls them, and not before
	$tables =~ s/^SELECT (add_retention_policy.*);\n/$has_all ? "SELECT alter_job($1, scheduled => false);\n" : ''/me;
	$sql->("BEGIN;\n$tables\nCOMMIT");

	# 60 days of rows, every ten minutes, made before now; then rows of now, by many at
	# once, while chunks are dropped
	$sql->(q{INSERT INTO clicks SELECT snowflake_encode(now() - n * interval '10 minutes', 900, 0), 'old' FROM generate_series(1, 6 * 24 * 60) AS n});
	my $chunks = $sql->(q{SELECT count(*) FROM show_chunks('clicks')});
	ok($chunks >= 60 && $chunks <= 62, 'a chunk for each day') or diag($chunks);
	my @minters = start_minters($node, 3, '', statement => q{INSERT INTO clicks (url) SELECT 'new' FROM generate_series(1, 20) RETURNING id;});
	ok(wait_until($node, q{SELECT count(DISTINCT snowflake_shard(id)) > 1 AND count(*) > 2000 FROM clicks WHERE url = 'new'}), 'sessions mint into it');
	my $kept = q{FROM clicks WHERE url = 'old' AND id::snowflake >= now() - interval '50 days'};
	my $before = $sql->("SELECT md5(string_agg(id::text, ',' ORDER BY id)) $kept");
	cmp_ok($sql->(q{SELECT count(*) FROM drop_chunks('clicks', older_than => snowflake_floor(now() - interval '51 days')::bigint)}), '>=', 8, 'chunks are dropped by a time');
	$sql->("COPY clicks (url) FROM stdin;\n" . "copied\n" x 3000 . "\\.\n");
	cmp_ok(ids_are_distinct('into a hypertable', stop_minters(@minters)), '>', 2000, 'clients minted');
	$is->("SELECT md5(string_agg(id::text, ',' ORDER BY id)) $kept", $before, 'later rows are all there');
	$is->(q{SELECT count(*), count(DISTINCT id) FROM clicks WHERE url = 'copied'}, '3000|3000', 'COPY mints into it');

	# which chunks a condition reads
	my $read = sub {
		my ($condition, $table) = @_;
		my $plan = $sql->('EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT id FROM ' . ($table // 'clicks') . " WHERE $condition");
		my %seen = map { $_ => 1 } $plan =~ /on (_hyper_\d+_\d+_chunk)\b/g;

		return scalar(keys %seen);
	};
	for my $condition (q{id::snowflake >= now() - interval '1 hour'}, q{id >= snowflake_floor(now() - interval '1 hour')},
		q{id::snowflake >= timestamptz '} . $sql->(q{SELECT now() - interval '1 hour'}) . q{'}, 'id = snowflake_floor(now())::bigint')
	{
		my $count = $read->($condition);
		ok($count == 1 || $count == 2, 'other chunks are left out: ' . $condition =~ s/'2.*'/.../r) or diag($count);
	}

	# without a step, ids of different milliseconds are in different chunks
	$sql->(q{CREATE TABLE no_step (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); SELECT create_hypertable('no_step', by_range('id'))});
	$sql->(q{INSERT INTO no_step SELECT snowflake_encode(now() - n * interval '1 ms', 900, 0) FROM generate_series(1, 5) AS n});
	$is->(q{SELECT count(*) FROM show_chunks('no_step')}, 5, 'without a step each id has a chunk');

	# steps in time
	$sql->(<<'SQL');
CREATE TABLE by_time (id bigint PRIMARY KEY);
SELECT create_hypertable('by_time', by_range('id', interval '1 day', 'snowflake_timestamp(bigint)'::regprocedure));
INSERT INTO by_time SELECT snowflake_encode(now() - n * interval '1 day', 900, 0) FROM generate_series(0, 9) AS n;
SQL
	is($read->(q{id::snowflake >= now() - interval '1 hour'}, 'by_time'), 10, 'with steps in time all chunks are read');
	$is->(q{SELECT count(*) BETWEEN 3 AND 5 FROM drop_chunks('by_time', older_than => interval '5 days')}, 't', 'though they are dropped by an interval');

	# the type snowflake
	$sql->("CREATE TABLE s (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n int); SELECT create_hypertable('s', by_range('id', $day))");
	$sql->(q{INSERT INTO s SELECT snowflake_encode(now() - n * interval '1 day', 900, 0), n FROM generate_series(0, 9) AS n});
	$sql->(q{INSERT INTO s DEFAULT VALUES});
	cmp_ok($read->(q{id >= now() - interval '1 hour'}, 's'), '<=', 2, 'a snowflake column: other chunks are left out');
	fails_with($node, q{SELECT set_integer_now_func('s', 'clicks_now')}, '0A000', qr/custom time function not supported/, 'a snowflake column: no function for now');
	fails_with($node, q{SELECT last(n, id) FROM s}, '42883', qr/could not find a > operator for type snowflake/, 'a snowflake column: no last()');
	$is->(q{SELECT last(url, id) FROM clicks WHERE url <> 'new'}, 'copied', 'a bigint column has it');

	# adopting later
	fails_with($node, q{SELECT snowflake_adopt('clicks', 'id', dry_run => false)}, 'XX000', qr/cache lookup failed for type 0/, 'snowflake_adopt fails on a hypertable');
	$is->(q{SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'clicks'::regclass AND attname = 'id'}, 'bigint', 'and changes nothing');

	skip('this TimescaleDB has no policies and no compression', 1) unless $has_all;

	# policies, here at once: they have a search_path of their own
	my $job_of = sub { return $sql->("SELECT job_id FROM timescaledb_information.jobs WHERE hypertable_name = '$_[0]' AND proc_name = 'policy_$_[1]'") };
	$sql->('CALL run_job(' . $job_of->('clicks', 'retention') . ')');
	$is->(q{SELECT min(id)::snowflake BETWEEN now() - interval '31 days 1 hour' AND now() - interval '30 days' FROM clicks}, 't', 'rows of thirty days are kept');
	my $sum = q{SELECT count(*), count(DISTINCT id), sum(hashint8(id)::bigint) FROM clicks};
	my $rows = $sql->($sum);
	$sql->("ALTER TABLE clicks SET (timescaledb.compress, timescaledb.compress_orderby = 'id'); SELECT alter_job(add_compression_policy('clicks', compress_after => 3 * $day), scheduled => false)");
	$sql->('CALL run_job(' . $job_of->('clicks', 'compression') . ')');
	$is->(q{SELECT count(*) FILTER (WHERE is_compressed) >= 26 FROM timescaledb_information.chunks WHERE hypertable_name = 'clicks'}, 't', 'chunks of old ids are compressed');
	$is->($sum, $rows, 'with the same ids');
	my $hour = q{id::snowflake >= now() - interval '20 days' AND id::snowflake < now() - interval '20 days' + interval '1 hour'};
	like($sql->("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT id FROM clicks WHERE $hour"), qr/_ts_meta\w* (?:<=?|>=?) snowflake_last_before/, 'and conditions on times leave out batches of them');
	ok($sql->("SELECT count(*) FROM clicks WHERE $hour") =~ /^[67]$/, 'and find their rows');
	$sql->("CREATE MATERIALIZED VIEW daily WITH (timescaledb.continuous) AS SELECT time_bucket($day, id) AS day, count(*) FROM clicks GROUP BY 1 WITH NO DATA");
	$sql->(q{CALL refresh_continuous_aggregate('daily', NULL, NULL)});
	$is->('SELECT sum(count) = (SELECT count(*) FROM clicks) FROM daily', 't', 'a continuous aggregate by days counts all rows');

	# not for the type snowflake
	$sql->("SELECT add_retention_policy('s', drop_after => 5 * $day)");
	fails_with($node, 'CALL run_job(' . $job_of->('s', 'retention') . ')', '22015', qr/interval field value out of range/, 'a snowflake column: the job of retention fails');
	fails_with($node, "CREATE MATERIALIZED VIEW s_daily WITH (timescaledb.continuous) AS SELECT time_bucket($day, id) AS day, count(*) FROM s GROUP BY 1 WITH NO DATA",
		'0A000', qr/time bucket function must reference the primary hypertable dimension column/, 'a snowflake column: no continuous aggregate');
}

done_testing();
