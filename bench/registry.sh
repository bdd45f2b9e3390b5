#!/usr/bin/env bash
#
# registry.sh -- what does a server's renewal cost the registry?
#
# So many servers have lists of eight shards, in layouts of several sizes.  pgbench
# renews them at random, each time by a connection of its own, as servers do.  The
# processor time is that of the registry's processes, as their parent counts it
# when they have ended: connection, parsing and commit are in it.  Beside it stands
# what a connection with SELECT 1 takes in the same minute, and a renewal in a
# connection that stays.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"

usage() {
    cat <<END
Usage: bench/registry.sh [--pg MAJOR] [--seconds N]

Measure the processor time of a renewal of eight leases in the registry.

  --pg MAJOR    with this major of PostgreSQL (default: the distribution's own)
  --seconds N   length of each run (default: 20)
  --help        this text
END
}

query() {
    with_server psql -XAtq -v ON_ERROR_STOP=1 -c "$1"
}

# Clock ticks that the server's processes used which have ended.
used() {
    awk '{ print $16 + $17 }' "/proc/$(head -n 1 "$ROOT$COPY/data/postmaster.pid")/stat"
}

# Milliseconds of processor time for a transaction of pgbench with these options.
cost() {
    local before calls
    before=$(used)
    with_server pgbench --no-vacuum --client=1 --time="$seconds" "$@" >"${SCRATCH[0]}/log" 2>&1 || {
        show_tail "${SCRATCH[0]}/log" 20
        die "pgbench failed"
    }
    calls=$(sed -n 's/^number of transactions actually processed: //p' "${SCRATCH[0]}/log")
    awk -v calls="$calls" -v ticks="$(($(used) - before))" -v hz="$(getconf CLK_TCK)" \
        'BEGIN { printf "%.2f\n", 1000 * ticks / hz / calls }'
}

# One row: servers, and the layout's last shard.
measure() {
    local -a call=(--define=servers="$1" --define=last_shard="$2" --file=bench/registry/call.sql)
    query 'DROP EXTENSION IF EXISTS snowflake_registry CASCADE; CREATE EXTENSION snowflake_registry' 2>/dev/null
    query "SELECT snowflake_registry_open('0')" >/dev/null
    query "SELECT count(l.*) FROM generate_series(0, $1 - 1) AS n,
               LATERAL snowflake_registry_lease('server ' || n, 0, 1, 0, 'host', 'epoch=x', $2, NULL, '{}', '{}', '{}',
                   ARRAY(SELECT 8 * n + i FROM generate_series(0, 7) AS i), NULL, '{}', '10 min') AS l" >/dev/null
    query 'VACUUM ANALYZE'
    printf '%8d %9d %11s %9s %17s\n' "$1" "$(($2 + 1))" "$(cost --connect --file=bench/registry/nothing.sql)" \
        "$(cost --connect "${call[@]}")" "$(cost "${call[@]}")"
}

main() {
    parse_options 'pg=MAJOR seconds=N' "$@"
    seconds=${seconds:-20}
    # shellcheck disable=SC2119 # no more packages than those
    need_major
    say "Building snowflake for PostgreSQL $major and starting a server"
    make_copy ''
    start_server "shared_preload_libraries = ''
fsync = off"
    printf '\nMilliseconds of processor time:\n%8s %9s %11s %9s %17s\n' servers shards 'SELECT 1' renewal 'connection stays'
    measure 10 1023
    measure 1000 65535
    measure 1000 1048575
}

main "$@"
