#!/usr/bin/env bash
#
# demo.sh -- see snowflake at work, a minute after getting the source
#
# Builds the extension, starts a throwaway server that preloads it, and runs
# demo.sql, which prints each statement before its result.  Nothing remains,
# but for packages of the distribution that were missing; lib.sh tells how the
# rest of the machine is kept out of it.  With --keep the server goes on
# running, to play with.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

usage() {
    cat <<END
Usage: test/demo.sh [--pg MAJOR] [--keep]

Build snowflake and show it on a throwaway server.

  --pg MAJOR   with this major of PostgreSQL (default: the distribution's own)
  --keep       leave the server running, and say how to connect and to stop it
  --help       this text
END
}

tell_how_to_go_on() {
    local bin=$PROGRAMS/$major/bin as=
    ((EUID != 0)) || as='runuser -u postgres -- '
    cat <<END

The server is still running.  To connect:
    $bin/psql -h $COPY -U postgres
To stop and remove it:
    $as$bin/pg_ctl stop -D $COPY/data && rm -rf $COPY
END
}

main() {
    parse_options 'pg=MAJOR keep' "$@"
    # shellcheck disable=SC2119 # no more packages than those
    need_major

    say "Building snowflake for PostgreSQL $major and starting a server"
    begin_dots
    make_copy ''
    start_server "fsync = off
snowflake.shards = '5'"
    end_dots
    with_server psql --no-psqlrc --quiet --echo-queries --pset=pager=off \
        --set=ON_ERROR_STOP=1 --file=test/demo.sql
    say "To take this id apart in a browser, and see how ids are minted: open doc/explore.html"

    if [[ $keep ]]; then
        SCRATCH=()
        tell_how_to_go_on
    fi
}

main "$@"
