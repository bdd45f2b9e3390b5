# shellcheck shell=bash
#
# lib.sh -- what run.sh and instructions.sh share: a server to measure on
#
# To be sourced, after test/lib.sh.  Works on the throwaway server of $major.

# Build the extension and noop.c, start a server with the settings given, and
# make in it what is measured.
start_measured_server() {
    start_server "$1"
    quietly make -s -C bench
    quietly env PGHOST="$COPY" PGUSER=postgres PGDATABASE=postgres \
        psql -Xq --set=ON_ERROR_STOP=1 --set=library="$COPY/tree/bench/noop" \
        --file=bench/setup.sql --file=bench/peers.sql
}
