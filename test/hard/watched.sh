#!/usr/bin/env bash
#
# watched.sh -- run the SQL suites with somebody watching the memory
#
#   test/hard/watched.sh sanitize [SECONDS]
#   test/hard/watched.sh valgrind [SECONDS]
#
# sanitize builds the extension with ASan and UBSan and brings the former into
# the stock server by LD_PRELOAD; valgrind runs the server under memcheck.  The
# server is Debian's, built for neither: what it hands out by palloc is one
# large piece to both, so that they see all of our stack, globals and use of
# the C library, and of palloc'd memory only what leaves such a piece.
#
# A report that has the extension in it is a failure, whatever the tests say.
# valgrind also reports of the server alone; those are counted and not ours.
#
# Runs in a copy of the tree, as the user of the server, and prints a line in
# TAP for the suites and one for the reports.  SECONDS is what a suite may take.

set -euo pipefail

how=$1
limit=${2:-600}
COPY=${PWD%/*}
BIN=$COPY/bin
REPORTS=$COPY/reports
SERVER=$(pg_config --bindir)/postgres
copt='-O1 -g -fno-omit-frame-pointer'
suites='regress isolation'

# A directory of the server's programs, with another way to start it.
wrap_server() {
    mkdir "$BIN" "$REPORTS"
    ln -s "$(pg_config --bindir)"/* "$BIN"
    rm "$BIN/postgres"
    {
        echo '#!/bin/sh'
        printf 'exec %s %s "$@" 2>>%s\n' "$*" "$SERVER" "$REPORTS/log"
    } >"$BIN/postgres"
    chmod +x "$BIN/postgres"
}

# The server compiles with -fwrapv, which makes an overflow defined.  It is a
# mistake all the same.
case $how in
    sanitize)
        copt+=' -fsanitize=address,undefined -fno-sanitize-recover=all -fno-wrapv'
        gcc -shared -fPIC -Wl,-z,initfirst test/hard/early.c -o "$COPY/early.so"
        wrap_server env "LD_PRELOAD=$(gcc -print-file-name=libasan.so):$COPY/early.so" \
            "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:abort_on_error=1"
        ;;
    valgrind)
        suites=regress
        wrap_server valgrind --quiet --trace-children=yes --leak-check=no --num-callers=25 --fullpath-after= \
            --suppressions="$PWD/test/hard/valgrind.supp" --error-markers=BEGIN,END "--log-file=$REPORTS/%p"
        ;;
esac

PGCTLTIMEOUT=120 SNOWFLAKE_SUITES=$suites SNOWFLAKE_COPT=$copt SNOWFLAKE_BINDIR=$BIN \
    SNOWFLAKE_LIMIT=$limit bash test/suites.sh >"$COPY/suites.log" 2>&1 || true

# Reports with the extension in them.  valgrind's stand between markers, and a
# hook that only calls what the server would have called ("standard_...") does
# not count; of the others each is the end of a process, and nothing but the
# extension makes any.
ours() {
    if [[ $how == valgrind ]]; then
        find "$REPORTS" -type f -exec cat {} + |
            awk -v "ours=$PWD/src/" '/BEGIN/ { text = ""; found = 0 } { text = text $0 "\n" }
                index($0, ours) && !called_on { found = 1 } { called_on = /: standard_/ }
                /END/ && found { printf "%s", text }'
    else
        grep -A 30 -E 'runtime error:|ERROR: AddressSanitizer' "$REPORTS/log"
    fi
}

wrong=$(grep -hE '^ *FAILED |TRAP:' "$COPY/suites.log" "$REPORTS/log" || true)
if [[ -z $wrong && -f $COPY/tally ]]; then
    status=0
    echo "ok 1 - $how: the suites $suites"
else
    status=1
    echo "not ok 1 - $how: the suites $suites"
    tail -n 60 "$COPY/suites.log" | sed 's/^/# /'
fi
ours >"$COPY/ours" || true
if [[ -s $COPY/ours ]]; then
    status=1
    echo "not ok 2 - $how: reports"
    head -n 60 "$COPY/ours" | sed 's/^/# /'
else
    others=$(find "$REPORTS" -type f -exec cat {} + | grep -c BEGIN || true)
    echo "ok 2 - $how: no report of the extension, $others of the server alone"
fi
exit "$status"
