#!/usr/bin/env bash
#
# wal.sh -- what a million ids cost in WAL and in transaction numbers
#
# A sequence logs once for 32 values, or for as many as it caches if that is
# more, and each transaction in which it logs gets a transaction number, a
# commit record and a flush.  snowflake logs a record whenever its horizon
# moves, a few times in each second in which anybody mints, whatever the rate,
# and needs no transaction number.  So its WAL is a matter of time and not of
# ids; the rate is printed with it.
#
# All figures are of one run, on a throwaway server that does nothing else.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"

MILLION=1000000
CLIENTS=8
EACH=12500                      # transactions of a client

major=

usage() {
    cat <<END
Usage: bench/wal.sh [--pg MAJOR]

Mint ids with snowflake and with core's sequences, and print the WAL that was
written and the transaction numbers that were used, for a million of them.

  --pg MAJOR   with this major of PostgreSQL (default: the distribution's own)
  --help       this text
END
}

parse_arguments() {
    while (($#)); do
        case $1 in
            --pg)
                [[ ${2-} =~ ^[1-9][0-9]$ ]] || die "--pg needs a major version, such as 15"
                major=$2
                shift
                ;;
            --help)
                usage
                exit
                ;;
            *) die "unknown option \"$1\"; see --help" ;;
        esac
        shift
    done
}

query() {
    with_server psql -XAtqc "$1"
}

# The WAL's end, the next transaction number and the time in microseconds.
position() {
    query "SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot()),
                  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint" | tr '|' ' '
}

# Print what a command costs that draws $2 ids, as a line named $1.
measure() {
    local name=$1 ids=$2 wal xid us wal_before xid_before us_before
    shift 2
    read -r wal_before xid_before us_before < <(position)
    with_server "$@" >"${SCRATCH[0]}/log" 2>&1 || {
        show_tail "${SCRATCH[0]}/log" 20
        die "failed: $*"
    }
    read -r wal xid us < <(position)
    printf '  %-30s %14d %12d %12d\n' "$name" \
        $(((wal - wal_before) * MILLION / ids)) \
        $(((xid - xid_before) * MILLION / ids)) \
        $((ids * 1000000 / (us - us_before)))
}

# One statement that draws a million.
in_one() {
    measure "$1" "$MILLION" psql -XAtqc "SELECT count($2) FROM generate_series(1, $MILLION)"
}

# A transaction for each, from several clients at a time.
one_by_one() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    with_server bash -c 'echo "SELECT $1;" >../tmp/script.sql' bash "$2"
    measure "$1" $((CLIENTS * EACH)) pgbench --no-vacuum --client="$CLIENTS" --jobs=2 \
        --protocol=prepared --transactions="$EACH" --file=../tmp/script.sql
}

main() {
    local how
    parse_arguments "$@"
    if [[ -z $major ]]; then
        major=$(distribution_major)
    fi
    is_packaged "$major" || die "PostgreSQL $major is not in this distribution"
    # shellcheck disable=SC2046 # one word for each package
    install_packages $(build_packages "$major") || die "cannot go on without these packages"

    say "Building snowflake for PostgreSQL $major and starting a server"
    make_copy ''
    start_server "wal_level = replica
autovacuum = off
checkpoint_timeout = 1h
snowflake.shards = '0-7'"
    query 'CREATE EXTENSION snowflake;
           CREATE SEQUENCE cache_1 CACHE 1;
           CREATE SEQUENCE cache_1000 CACHE 1000'

    printf '\n%-32s %14s %12s %12s\n' 'For a million ids' 'bytes of WAL' xids 'ids/s'
    for how in in_one one_by_one; do
        case $how in
            in_one) say 'one statement' ;;
            one_by_one) say "a transaction each, $CLIENTS clients" ;;
        esac
        "$how" 'snowflake_nextval()' 'snowflake_nextval()'
        "$how" 'nextval, CACHE 1' "nextval('cache_1')"
        "$how" 'nextval, CACHE 1000' "nextval('cache_1000')"
    done
}

main "$@"
