#!/usr/bin/env bash
#
# analyze.sh -- what three programs see in src that no test can
#
#   test/hard/analyze.sh
#
# cppcheck, clang-tidy and gcc -fanalyzer must find nothing.  What they find
# wrongly is suppressed, each with its reason: at the place, or in .clang-tidy
# where it is an idiom of the server.  Prints a line in TAP for each.
#
# Needs cppcheck, clang-tidy-14, gcc and the headers of a server.

# shellcheck disable=SC2317     # the functions are called by their names

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"
cd "$SOURCE"
INCLUDE=$(pg_config --includedir-server)
WORK=$(mktemp -d)
SCRATCH=("$WORK")
FLAGS=(-std=gnu99 -isystem "$INCLUDE" -DUSE_ASSERT_CHECKING)

run_cppcheck() {
    cppcheck -j "$(nproc)" --std=c99 --quiet --inline-suppr --error-exitcode=1 \
        --enable=warning,style,performance,portability --suppress=missingIncludeSystem src
}

run_clang_tidy() {
    printf '%s\0' src/*.c |
        xargs -0 -P "$(nproc)" -I{} "${CLANG_TIDY:-clang-tidy-14}" --quiet {} -- "${FLAGS[@]}" 2> >(grep -v 'warnings\? generated\|Suppressed')
}

run_gcc() {
    local file status=0
    for file in src/*.c; do
        gcc "${FLAGS[@]}" -O2 -fPIC -fanalyzer -Wall -Wextra -Werror \
            -Wno-unused-parameter -Wno-sign-compare -c "$file" -o "$WORK/object.o" || status=1
    done
    return "$status"
}

for program in cppcheck clang_tidy gcc; do
    check "${program/_/-} of src" "run_$program" || true
done
done_testing
