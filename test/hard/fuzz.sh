#!/usr/bin/env bash
#
# fuzz.sh -- feed the pure parsers what nobody would write
#
#   test/hard/fuzz.sh SECONDS [HARNESS...]
#
# Each harness in test/hard/fuzz includes one source file of src and states
# what must hold of whatever it is fed.  libFuzzer makes up the inputs, from
# the corpus beside it, so as to reach what was not reached; ASan and UBSan
# look on.  Each runs for so many seconds, as many at a time as there are
# processors.  Prints a line in TAP for each, and after a find the input.
#
# Needs clang-14, libclang-rt-14-dev and the headers of a server.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"

seconds=$1
shift
HERE=$(cd "$(dirname "$0")" && pwd)
LENGTH=240                      # bytes of an input, at most
CC=${CLANG:-clang-14}
WORK=$(mktemp -d)
SCRATCH=("$WORK")

harnesses=("$@")
(($#)) || harnesses=(layout shards text_forms)

# libpgport has the server's own snprintf and so on, which format messages.
build() {
    "$CC" -g -O1 -Wall -Werror -Wno-ignored-attributes -Wno-unused-function \
        -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
        -I"$(pg_config --includedir-server)" "$HERE/fuzz/$1.c" -o "$WORK/$1" \
        "$(pg_config --pkglibdir)/libpgport.a"
}

# The corpus is read only, what is found goes to another directory.
fuzz() {
    local name=$1
    build "$name" >"$WORK/$name.log" 2>&1 || return 1
    mkdir "$WORK/$name.found"
    "$WORK/$name" -max_total_time="$seconds" -max_len="$LENGTH" -timeout=10 -seed=0 \
        -artifact_prefix="$WORK/$name-" -print_final_stats=1 \
        "$WORK/$name.found" "$HERE/fuzz/corpus/$name" >>"$WORK/$name.log" 2>&1
}

for name in "${harnesses[@]}"; do
    (($(jobs -rp | wc -l) < $(nproc))) || wait -n || true
    (fuzz "$name" && touch "$WORK/$name.good") &
done
wait

for name in "${harnesses[@]}"; do
    if [[ -f $WORK/$name.good ]]; then
        units=$(sed -n 's/^stat::number_of_executed_units: *//p' "$WORK/$name.log")
        ok "fuzz $name: $units inputs in $seconds s"
    else
        not_ok "fuzz $name" <(grep -v '^#[0-9]' "$WORK/$name.log")
    fi
done
done_testing
