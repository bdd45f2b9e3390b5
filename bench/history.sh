#!/usr/bin/env bash
#
# history.sh -- what snowflake_history() costs
#
# Numbers rows that exist, a tenth of them with one time, by snowflake_history()
# and by row_number() in the same statement otherwise, in turn, and prints the
# median time of each, its ratio to row_number(), and the most memory that the
# session's process used.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

ROUNDS=3

usage() {
    cat <<END
Usage: bench/history.sh [--pg MAJOR] [--rows N]

Measure snowflake_history() beside row_number().

  --pg MAJOR  with this major of PostgreSQL (default: the one installed, or else
              the distribution's own)
  --rows N    of so many rows (default: 10000000)
  --help      this text
END
}

# Milliseconds that a window function takes over the rows, and kilobytes that the
# session has used at most.
measure() {
    with_server psql -XAtq --set=ON_ERROR_STOP=1 -c '\timing on' \
        -c "SELECT max(id) FROM (SELECT $1 OVER (ORDER BY created_at, nr) AS id FROM photos) AS numbered" \
        -c '\timing off' -c "SELECT 'Memory: ' || substring(pg_read_file(format('/proc/%s/status', pg_backend_pid())) FROM 'VmHWM:\s*(\d+)')" |
        awk '/^Time:/ { ms = $2 } /^Memory:/ { print ms, $2 }'
}

median() { sort -n | sed -n "$(((ROUNDS + 1) / 2))p"; }

parse_options 'pg=MAJOR rows=N' "$@"
rows=${rows:-10000000}
need_major perl
make_copy ''
start_measured_server "shared_buffers = 1GB
work_mem = 256MB
jit = off
max_wal_size = 8GB"
with_server psql -Xq --set=ON_ERROR_STOP=1 -c "
    CREATE TABLE photos AS SELECT nr, timestamptz '2024-01-01Z' + least(nr, $rows * 0.9) * interval '5 ms' AS created_at
      FROM generate_series(1, $rows) AS nr" -c 'VACUUM ANALYZE photos'
declare -A took=([row]='' [history]='')
for ((round = 0; round < ROUNDS; round++)); do
    took[row]+=$(measure 'row_number()')$'\n'
    took[history]+=$(measure 'snowflake_history(created_at, 900)')$'\n'
done
read -r row_ms row_kb < <(printf '%s' "${took[row]}" | median)
read -r history_ms history_kb < <(printf '%s' "${took[history]}" | median)
say "$rows rows, a tenth with one time, median of $ROUNDS:"
awk -v a="$row_ms" -v b="$history_ms" -v m="$row_kb" -v n="$history_kb" 'BEGIN {
    printf "  row_number()        %6.1f s  %5.2f  %4d MB\n", a / 1000, 1, m / 1024
    printf "  snowflake_history() %6.1f s  %5.2f  %4d MB\n", b / 1000, b / a, n / 1024 }'
