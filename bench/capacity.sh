#!/usr/bin/env bash
#
# capacity.sh -- do calls wait as doc/capacity.md expects?
#
# pgbench calls snowflake_nextval() at random times, at rates that come near to
# what the shards have room for, and each call notes when it began and ended.
# The layout is a small one, so that pgbench can fill it: 16 ids in 50 ms.  The
# calls really wait.  Beside what was measured stand
#
# - what a queue does with the same calls that gives out 16 ids in each tick.
#   The generator must do the same, whatever else the machine is doing.
# - what the page's function expects of calls at random times at that rate.
#   That needs calls at random times: on a busy machine pgbench comes late and
#   then makes up for it, which shows in their dispersion, and counts for
#   nothing.
#
# Neither counts the time for waking up, so that from the queue a tenth may be
# missing.  At 90 % the backlog differs a lot from minute to minute, and what is
# expected counts as equal up to a factor of one and a half.  Less than is worth
# measuring makes no difference.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"

QUEUE_TOLERANCE=1.1
TOLERANCE=1.5
LEAST_SHARE=0.01
LEAST_TICKS=0.05
DISPERSION='0.85 AND 1.15'      # of calls at random times
LAYOUT='epoch=2026-01-01 unit=50ms fields=timestamp:39,shard:8,sequence:4'
CLIENTS=90                      # more than ever wait at once, or nobody arrives

usage() {
    cat <<END
Usage: bench/capacity.sh [--pg MAJOR] [--seconds N]

Measure how long calls wait at several loads, and compare with the formula of
doc/capacity.md.

  --pg MAJOR    with this major of PostgreSQL (default: the distribution's own)
  --seconds N   length of each run (default: 90)
  --help        this text
END
}

query() {
    with_server psql -XAtq -v ON_ERROR_STOP=1 -c "$1"
}

# The page's function.
formula() {
    # shellcheck disable=SC2016 # sed's, not ours
    sed -n '/^CREATE FUNCTION expected_waits/,/^```/{/^```/d;p}' "$SOURCE/doc/capacity.md"
}

# SQL that tells whether two shares, and the ticks that go with them, are equal
# up to a factor.
equal() {
    echo "(greatest($1, $2) < $5 * least($1, $2) OR abs($1 - $2) < $LEAST_SHARE)
          AND (greatest($3, $4) < $5 * least($3, $4) OR abs($3 - $4) < $LEAST_TICKS
               OR least($1, $2) < $LEAST_SHARE)"
}

# One run on so many shards, at a load in percent: sets "line", of the table.
measure() {
    local shards=$1 load=$2
    local capacity=$((16 * shards))
    query 'TRUNCATE calls'
    with_server env PGOPTIONS="-c snowflake.shards=0-$((shards - 1)) -c synchronous_commit=off" \
        pgbench --no-vacuum --client="$CLIENTS" --jobs=1 --protocol=prepared \
        --rate=$((capacity * load / 5)) --time="$seconds" \
        --file=bench/capacity/call.sql >"${SCRATCH[0]}/log" 2>&1 || {
        show_tail "${SCRATCH[0]}/log" 20
        die "pgbench failed"
    }
    line=$(query "
SELECT format('%6s %6s %6s  %8s %8s %8s  %8s %8s %8s  %s', $shards,
              round((100 * per_tick / $capacity)::numeric, 1), round(dispersion::numeric, 2),
              round((100 * m.share)::numeric, 2), round((100 * queue_share)::numeric, 2),
              round((100 * e.share)::numeric, 2),
              round(m.ticks::numeric, 3), round(queue_ticks::numeric, 3), round(e.ticks::numeric, 3),
              CASE WHEN NOT ($(equal m.share queue_share m.ticks queue_ticks $QUEUE_TOLERANCE)) THEN 'NOT AS THE QUEUE'
                   WHEN dispersion NOT BETWEEN $DISPERSION THEN 'not at random'
                   WHEN NOT ($(equal m.share e.share m.ticks e.ticks $TOLERANCE)) THEN 'NOT AS EXPECTED'
                   ELSE 'equal' END)
  FROM measured($capacity) AS m, expected_waits($capacity, m.per_tick) AS e")
}

main() {
    local shards load line different=0
    parse_options 'pg=MAJOR seconds=N' "$@"
    seconds=${seconds:-90}
    # shellcheck disable=SC2119 # no more packages than those
    need_major

    say "Building snowflake for PostgreSQL $major and starting a server"
    make_copy ''
    start_server "fsync = off
autovacuum = off
snowflake.layout = '$LAYOUT'"
    query 'CREATE EXTENSION snowflake'
    query "$(formula)"
    query "$(<"$SOURCE/bench/capacity/setup.sql")"

    printf '\n%37s calls that wait, %%      and each of them, in ticks\n' ''
    printf '%6s %6s %6s  %8s %8s %8s  %8s %8s %8s\n' shards load% disp. \
        measured queue expected measured queue expected
    for shards in 1 2; do
        for load in 50 70 80 90; do
            measure "$shards" "$load"
            say "$line"
            [[ $line != *NOT* ]] || different=1
        done
    done
    ((different == 0))
}

main "$@"
