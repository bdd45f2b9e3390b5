#!/usr/bin/env bash
#
# functions.sh -- what functions cost, beside what one would write by hand
#
# Each pair of statements gives the same: one with a function of ours, one with
# SQL that needs none.  They run in turn, and it prints the median time of each
# and the median of the ratios, one ratio a round.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

usage() {
    cat <<END
Usage: bench/functions.sh [--pg MAJOR] [--rows N] [--rounds N]

Measure snowflake_decode(), snowflake_audit(), snowflake_make_partitions(),
snowflake_history(), and planning a query by time, beside the same by hand.

  --pg MAJOR  with this major of PostgreSQL (default: the one installed, or else
              the distribution's own)
  --rows N    of so many ids (default: 10000000)
  --rounds N  so often (default: 7)
  --help      this text
END
}

# Milliseconds that the statement $2 takes after $1, in a transaction that is
# rolled back.
milliseconds() {
    with_server psql -XAtq --set=ON_ERROR_STOP=1 -c 'SET client_min_messages = warning' \
        -c BEGIN -c "$1" -c '\timing on' -c "$2" -c '\timing off' -c ROLLBACK |
        sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
}

# The middle of the numbers of column $1.
median() { sort -n -k "$1" | awk -v column="$1" '{ value[NR] = $column } END { print value[int((NR + 1) / 2)] }'; }

# Measure a pair: what it is, what comes before, with a function, by hand.
compare() {
    local times='' ours by_hand
    for ((round = 0; round < rounds; round++)); do
        ours=$(milliseconds "$2" "$3")
        by_hand=$(milliseconds "$2" "$4")
        times+="$ours $by_hand $(awk -v a="$ours" -v b="$by_hand" 'BEGIN { print a / b }')"$'\n'
    done
    printf '%-48s %9.0f %9.0f %7.2f\n' "$1" "$(printf '%s' "$times" | median 1)" \
        "$(printf '%s' "$times" | median 2)" "$(printf '%s' "$times" | median 3)"
}

# SQL that makes 1,000 partitions of days, by such statements for each.
partitions_by_hand() {
    cat <<SQL
DO \$\$
DECLARE
    start timestamptz := '2026-01-01Z';
    name text;
    bounds text;
    statement text;
BEGIN
    FOR day IN 0..999 LOOP
        name := 'events_' || to_char(start, 'YYYYMMDD');
        bounds := format('FROM (%s) TO (%s)', snowflake_floor(start), snowflake_floor(start + '24 hours'));
        FOREACH statement IN ARRAY ARRAY[$1] LOOP
            EXECUTE replace(replace(statement, 'NAME', name), 'BOUNDS', bounds);
        END LOOP;
        start := start + '24 hours';
    END LOOP;
END \$\$
SQL
}

# SQL that plans a query 10,000 times.
plan() { printf "DO \$\$ BEGIN FOR i IN 1..10000 LOOP EXECUTE 'EXPLAIN SELECT n FROM hours WHERE %s'; END LOOP; END \$\$" "${1//\'/\'\'}"; }

parse_options 'pg=MAJOR rows=N rounds=N' "$@"
rows=${rows:-10000000} rounds=${rounds:-7}
need_major perl
make_copy ''
start_measured_server "shared_buffers = 1GB
work_mem = 256MB
jit = off
max_parallel_workers_per_gather = 0
max_wal_size = 8GB
max_locks_per_transaction = 1000
snowflake.shards = '0-7'"
with_server psql -Xq --set=ON_ERROR_STOP=1 -c "
    CREATE TABLE ids AS SELECT snowflake_nextval((n % 8)::integer) AS id FROM generate_series(1, $rows) AS n" -c "
    CREATE TABLE photos AS SELECT n, timestamptz '2024-01-01Z' + n * interval '5 ms' AS created_at
      FROM generate_series(1, $rows) AS n" -c "
    CREATE TABLE hours AS SELECT snowflake_floor(timestamptz '2026-01-01Z' + n * interval '1 hour') AS id, n
      FROM generate_series(1, 100000) AS n" -c '
    CREATE UNIQUE INDEX ON hours (id)' -c 'VACUUM ANALYZE'

by_hand='to_timestamp(((id >> 22) + 1288834974657) / 1000.0) AS created_at, (id >> 12) & 1023 AS shard, id & 4095 AS sequence'
sums='SELECT count(created_at), sum(shard), sum(sequence)'
table='CREATE TABLE events (id snowflake PRIMARY KEY, n integer) PARTITION BY RANGE (id)'
first='SELECT snowflake_make_partitions('\''events'\'', '\''2025-12-31Z'\'', '\''2026-01-01Z'\'', '\''1 day'\'')'
make='SELECT count(*) FROM snowflake_make_partitions('\''events'\'', '\''2026-01-01Z'\'', timestamptz '\''2026-01-01Z'\'' + interval '\''24000 hours'\'', '\''1 day'\'')'
from=$(with_server psql -XAtq -c "SELECT snowflake_floor('2030-01-01Z')")
to=$(with_server psql -XAtq -c "SELECT snowflake_floor('2030-01-02Z')")

printf '%-48s %9s %9s %7s\n' "Median of $rounds rounds, $rows ids" 'ours, ms' 'by hand' ratio
compare 'decode, in FROM' 'SELECT' \
    "$sums FROM ids, snowflake_decode(id)" "$sums FROM (SELECT $by_hand FROM ids) AS decoded"
compare 'decode, as columns' 'SELECT' \
    "$sums FROM (SELECT (snowflake_decode(id)).* FROM ids) AS decoded" "$sums FROM (SELECT $by_hand FROM ids) AS decoded"
compare 'the three functions of a field' 'SELECT' \
    'SELECT count(snowflake_timestamp(id)), sum(snowflake_shard(id)), sum(snowflake_sequence(id)) FROM ids' \
    "$sums FROM (SELECT $by_hand FROM ids) AS decoded"
compare 'audit' 'SELECT' "SELECT count(*) FROM snowflake_audit('ids', 'id')" "
    SELECT count(*) FROM (
        SELECT shard, created > extract(epoch FROM now()) * 1000, created < 1288834974657, sequence = 4095, count(*), min(id), max(id)
          FROM (SELECT id, (id >> 22) + 1288834974657 AS created, (id >> 12) & 1023 AS shard, id & 4095 AS sequence FROM ids) AS decoded
         GROUP BY 1, 2, 3, 4) AS groups"
compare '1,000 partitions / PARTITION OF' "$table" "$make" \
    "$(partitions_by_hand "'CREATE TABLE NAME PARTITION OF events FOR VALUES BOUNDS'")"
compare '1,000 more partitions / LIKE and ATTACH' "$table; $first" "$make" \
    "$(partitions_by_hand "'CREATE TABLE NAME (LIKE events)', 'ALTER TABLE events ATTACH PARTITION NAME FOR VALUES BOUNDS'")"
compare 'history' 'SELECT' \
    'SELECT max(id) FROM (SELECT snowflake_history(created_at, 900) OVER (ORDER BY created_at, n) AS id FROM photos) AS numbered' "
    SELECT max(id) FROM (SELECT ((extract(epoch FROM created_at) * 1000)::bigint - 1288834974657) << 22 | 900 << 12
           | row_number() OVER (PARTITION BY created_at ORDER BY n) - 1 AS id FROM photos) AS numbered"
compare 'plan: a range of times / of numbers' 'SELECT' \
    "$(plan "id >= timestamptz '2030-01-01Z' AND id < timestamptz '2030-01-02Z'")" \
    "$(plan "id >= $from AND id < $to")"
compare 'plan: id >= now() / its number' 'SELECT' \
    "$(plan 'id >= now()')" \
    "$(plan 'id >= (extract(epoch FROM now()) * 1000)::bigint - 1288834974657 << 22')"
