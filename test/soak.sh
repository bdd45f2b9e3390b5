#!/usr/bin/env bash
#
# soak.sh -- minutes of everything that could make an id come twice
#
# Eight clients mint in two databases, on their server's own shards and on
# named ones, in tables and in read-only transactions, while a primary and its
# synchronous standby are crashed in every way, have their clocks moved and
# their settings reloaded, and are promoted and replaced.  Each client writes
# down every id that it receives.  At the end the ids of all the servers' lives
# are searched for duplicates.
#
# soak.pl does that; this makes the place for it.  lib.sh tells how the rest of
# the machine is kept out of it.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

minutes=
major=
seed=$RANDOM

usage() {
    cat <<END
Usage: test/soak.sh --minutes N [--pg MAJOR] [--seed N]

Mint under load, crashes, moved clocks and promotions for N minutes, and look
for duplicates.  Ends with a line "N duplicates"; exits with 0 if there were
none, the servers came back every time, and enough ids were minted to tell.

  --minutes N  for so long; the search takes a moment more
  --pg MAJOR   with this major of PostgreSQL (default: the distribution's own)
  --seed N     with this order of faults (default: a random one)
  --help       this text
END
}

parse_arguments() {
    while (($#)); do
        case $1 in
            --minutes)
                [[ ${2-} =~ ^[1-9][0-9]{0,3}$ ]] || die "--minutes needs a number"
                minutes=$2
                shift
                ;;
            --pg)
                choose_major "${2-}"
                shift
                ;;
            --seed)
                [[ ${2-} =~ ^[0-9]{1,9}$ ]] || die "--seed needs a number"
                seed=$2
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
    [[ $minutes ]] || die "for how long?  See --help"
}

# In the copy, as its user: build, and run soak.pl as "make installcheck" would
# run a test, but without a summary of its own.
soak() {
    local server_files
    # shellcheck disable=SC2016 # expanded by the inner shell
    server_files=$(as_tester "$major" bash -c 'echo "$(pg_config --pkglibdir)/pgxs/src/test"')
    as_tester "$major" bash test/stage.sh "$COPY/stage" COPT=-DUSE_ASSERT_CHECKING \
        >"${SCRATCH[0]}/log" 2>&1 || {
        show_tail "${SCRATCH[0]}/log" 20
        die "could not build"
    }
    # TESTDIR up to PostgreSQL 15, the other two from 16 on
    as_tester "$major" env "TEMP_CONFIG=$COPY/stage/server.conf" "TESTDIR=$COPY/tree" \
        "TESTDATADIR=$COPY/tree/tmp_check" "TESTLOGDIR=$COPY/tree/tmp_check/log" \
        "PG_REGRESS=$server_files/regress/pg_regress" \
        perl "-I$server_files/perl" test/soak.pl "$minutes" "$seed"
}

main() {
    local status=0
    parse_arguments "$@"
    need_major perl libipc-run-perl libfaketime

    say "Soaking PostgreSQL $major for $minutes minutes, with seed $seed"
    make_copy ''
    soak || status=$?
    if ((status != 0)); then
        show_tail "${SCRATCH[0]}/tree/tmp_check/log/regress_log_soak" 20
        stop_servers "${SCRATCH[0]}"
        say "What is left is in ${SCRATCH[0]}"
        SCRATCH=()
    fi
    exit "$status"
}

main "$@"
