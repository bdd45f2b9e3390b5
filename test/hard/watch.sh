#!/usr/bin/env bash
#
# watch.sh -- have somebody watch the memory while the SQL suites run
#
#   test/hard/watch.sh sanitize|valgrind           prepare, before the build
#   test/hard/watch.sh sanitize|valgrind reports   afterwards
#
# sanitize builds the extension with ASan and UBSan and brings the former into
# the stock server by LD_PRELOAD; valgrind runs the server under memcheck.  The
# server is Debian's, built for neither: what it hands out by palloc is one
# large piece to both, so that they see all of our stack, globals and use of
# the C library, and of palloc'd memory only what leaves such a piece.
#
# To prepare is to make a directory ../bin of the server's programs, from which
# pg_regress starts another "postgres", and to print flags for the compiler.
# A report that has the extension in it is a failure, whatever the suites say.
# valgrind also reports of the server alone; those are counted and not ours.
#
# Runs in a copy of the tree, as the user of the server.

set -euo pipefail

how=$1
COPY=${PWD%/*}
BIN=$COPY/bin
REPORTS=$COPY/reports

# A directory of the server's programs, with another way to start it.
wrap_server() {
    mkdir "$BIN" "$REPORTS"
    ln -s "$(pg_config --bindir)"/* "$BIN"
    rm "$BIN/postgres"
    {
        echo '#!/bin/sh'
        printf 'exec %s %s "$@" 2>>%s\n' "$*" "$(pg_config --bindir)/postgres" "$REPORTS/log"
    } >"$BIN/postgres"
    chmod +x "$BIN/postgres"
}

# The server compiles with -fwrapv, which makes an overflow defined.  It is a
# mistake all the same.
prepare() {
    if [[ $how == sanitize ]]; then
        gcc -shared -fPIC -Wl,-z,initfirst test/hard/early.c -o "$COPY/early.so"
        wrap_server env "LD_PRELOAD=$(gcc -print-file-name=libasan.so):$COPY/early.so" \
            "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:abort_on_error=1"
        echo '-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -fno-wrapv'
    else
        wrap_server valgrind --quiet --trace-children=yes --leak-check=no --num-callers=25 --fullpath-after= \
            --suppressions="$PWD/test/hard/valgrind.supp" --error-markers=BEGIN,END "--log-file=$REPORTS/%p"
        echo '-O1 -g -fno-omit-frame-pointer'
    fi
}

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

if [[ ${2-} != reports ]]; then
    prepare
    exit
fi
if [[ ! -s $REPORTS/log ]]; then
    echo "not ok 1 - $how: the server did not run with it"
elif ours >"$COPY/ours"; then
    echo "not ok 1 - $how: no report of the extension"
    head -n 60 "$COPY/ours" | sed 's/^/# /'
else
    others=$(find "$REPORTS" -type f -exec cat {} + | grep -c BEGIN || true)
    echo "ok 1 - $how: no report of the extension, $others of the server alone"
fi
echo 1..1
