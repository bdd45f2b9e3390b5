#!/usr/bin/env bash
#
# parallel.sh -- what it costs that parallel workers do not mint
#
# snowflake_nextval() is PARALLEL RESTRICTED: the leader mints, so that the ids
# of a session increase.  This runs CREATE TABLE AS over a parallel scan with
# it, with the same function declared PARALLEL SAFE, so that workers mint, and
# with core's nextval(), in turn, and prints each as a ratio to the first.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

ROWS=3000000
ROUNDS=5

# Milliseconds that CREATE TABLE AS takes with an id of this expression.
milliseconds() {
    with_server psql -XAtq --set=ON_ERROR_STOP=1 \
        -c 'SET min_parallel_table_scan_size = 0' \
        -c '\timing on' \
        -c "CREATE TABLE made AS SELECT $1 AS id, n, t FROM source WHERE t LIKE '$2'" \
        -c '\timing off' \
        -c 'DROP TABLE made' | awk '/^Time:/ { print $2 }'
}

median() { sort -n | sed -n "$(((ROUNDS + 1) / 2))p"; }

need_major perl
make_copy ''
start_measured_server "max_wal_size = 8GB
snowflake.shards = '0-63'"
with_server psql -Xq -c "CREATE TABLE source AS
    SELECT n, md5(n::text) AS t FROM generate_series(1, $ROWS) AS n" -c 'VACUUM ANALYZE source'
say "CREATE TABLE AS over a parallel scan, median of $ROUNDS, ratio to the leader minting:"
for pattern in '%' '%aa%'; do
    declare -A took=([leader]='' [workers]='' [nextval]='')
    for ((round = 0; round < ROUNDS; round++)); do
        with_server psql -Xq -c 'ALTER FUNCTION snowflake_nextval() PARALLEL RESTRICTED'
        took[leader]+=$(milliseconds 'snowflake_nextval()' "$pattern")$'\n'
        with_server psql -Xq -c 'ALTER FUNCTION snowflake_nextval() PARALLEL SAFE'
        took[workers]+=$(milliseconds 'snowflake_nextval()' "$pattern")$'\n'
        took[nextval]+=$(milliseconds "nextval('cache_1')" "$pattern")$'\n'
    done
    leader=$(printf '%s' "${took[leader]}" | median)
    for who in leader workers nextval; do
        printf "  rows like %-6s %-8s %5.2f\n" "'$pattern'" "$who" \
            "$(printf '%s' "${took[$who]}" | median | awk -v one="$leader" '{ print $1 / one }')"
    done
done
