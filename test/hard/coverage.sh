#!/usr/bin/env bash
#
# coverage.sh -- which lines and branches of src all suites together reach
#
# Builds with gcov and runs every test.  coverage.pl counts, and compares the
# lines that were not reached with those in the file "unreached".  A process
# counts when it exits, and the worker, by dump.h, when it waits, so that what
# is done only by one that is killed may not be seen.  Tests that want a tick
# of 1 ms filled may fail, as this is too slow for them; they are shown, and do
# not matter here.  Prints a table and a line in TAP for each thing that must
# hold.
#
# Runs in a copy of the tree, as the user of the server.

set -euo pipefail

COPY=${PWD%/*}
SNOWFLAKE_LIMIT=1200 \
    SNOWFLAKE_COPT="--coverage -O0 -fprofile-update=atomic -include $PWD/test/hard/dump.h" \
    bash test/suites.sh >"$COPY/suites.log" 2>&1 || true
if [[ ! -f $COPY/tally ]]; then
    tail -n 40 "$COPY/suites.log" | sed 's/^/# /'
    echo "Bail out! the suites stopped half way"
    exit 1
fi
grep 'FAILED' "$COPY/suites.log" | sed 's/^/# /' || true
gcov --branch-probabilities --json-format --stdout src/*.gcda 2>/dev/null >"$COPY/gcov.json"
perl test/hard/coverage.pl test/hard/unreached <"$COPY/gcov.json"
