#!/usr/bin/env bash
#
# suites.sh -- build snowflake and run its test suites, for one major
#
#   test/suites.sh [--cluster]
#
# The part of check.sh that happens as an unprivileged user in a copy of the
# source tree, with nothing of the user's environment.  Builds with warnings
# as errors and with our assertions armed, then runs
#
#   regress     SQL against expected output, one throwaway server for all
#   isolation   interleavings of several sessions, likewise
#   tap         Perl scripts that start, crash and restart servers themselves
#
# and, when asked for, the latter with millions of rows, and
#
#   cluster     scripts that need other projects' programs
#
# through "make installcheck", which knows how each server version wants them
# run.  Prints a line for each test, and after a failure the end of the logs,
# since the copy does not outlive the run.  Leaves "passed failed skipped" in
# ../tally, counting tests in the first two and assertions in the others.  A
# suite that stops half way is a failure, and so is one without any test.
#
# The scripts of test/hard run them otherwise, through the environment:
# SNOWFLAKE_SUITES names some of the suites, SNOWFLAKE_COPT has more flags for
# the compiler, SNOWFLAKE_BINDIR is where pg_regress takes the server from, and
# SNOWFLAKE_LIMIT how many seconds a suite may take.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

LIMIT=${SNOWFLAKE_LIMIT:-600}     # seconds that a suite or TAP script may take
STAGE=${PWD%/*}/stage
LOG=${PWD%/*}/log
export SNOWFLAKE_TOOLS=${PWD%/*}/tools  # programs that check.sh could not install

passed=0
failed=0
skipped=0

leave_tally() {
    echo "$passed $failed $skipped" >../tally
}

fail() {
    failed=$((failed + 1))
    say "    FAILED  $*"
}

# Run "make installcheck" with the given variables and hand each line of its
# output to the function $1.  The exit status is make's.
installcheck() {
    local on_line=$1 line output status=0
    shift
    : >"$LOG"
    exec {output}< <(exec timeout --kill-after=10 "$LIMIT" make -s installcheck "$@" 2>&1)
    CHILD=$!
    while IFS= read -r -u "$output" line; do
        printf '%s\n' "$line" >>"$LOG"
        "$on_line" "$line"
    done
    wait "$CHILD" || status=$?
    CHILD=
    exec {output}<&-
    return "$status"
}

# A firing assertion ends one server process.  The test that caused it need
# not notice, when it was a background worker's.
look_for_assertions() {
    local log
    for log in "$@"; do
        if [[ -f $log ]] && grep -q '^TRAP:' "$log"; then
            fail "assertion, in ${log##*/}"
            grep '^TRAP:' "$log" | head -n 5 | sed 's/^/    | /'
        fi
    done
}

# ---------------------------------------------------------------------------
# regress and isolation

# Up to 15 pg_regress and pg_isolation_regress print
#     test layout                       ... ok           23 ms
# and from 16 on
#     ok 1         - layout                                     23 ms
count_regress() {
    local old='^(test)? +([^ ]+) +\.\.\. (ok|FAILED|failed)'
    local new='^(not )?ok [0-9]+ +[-+] ([^ ]+)'
    local name good

    if [[ $1 =~ $old ]]; then
        name=${BASH_REMATCH[2]}
        [[ ${BASH_REMATCH[3]} == ok ]] && good=yes || good=
    elif [[ $1 =~ $new ]]; then
        name=${BASH_REMATCH[2]}
        [[ -z ${BASH_REMATCH[1]} ]] && good=yes || good=
    else
        return 0
    fi
    if [[ $good ]]; then
        passed=$((passed + 1))
        say "    ok      $name"
    else
        fail "$name"
    fi
}

# The temporary instance must be one level deep, or pg_regress cannot make it.
run_regress() {
    local suite=$1 before=$((passed + failed)) failed_before=$failed status=0
    shift
    say "  $suite"
    rm -rf tmp_check log regression.diffs
    installcheck count_regress "$@" \
        EXTRA_REGRESS_OPTS="--temp-instance=tmp_check --temp-config=$STAGE/server.conf${SNOWFLAKE_BINDIR:+ --bindir=$SNOWFLAKE_BINDIR}" ||
        status=$?

    if ((passed + failed == before)); then
        fail "no test was run"
    elif ((status == 124 || status == 137)); then
        fail "stopped after $LIMIT seconds"
    elif ((status != 0 && failed == failed_before)); then
        fail "the suite stopped half way"
    fi
    look_for_assertions log/postmaster.log

    ((failed > failed_before)) || return 0
    if [[ -s regression.diffs ]]; then
        show_tail regression.diffs 100
    else
        show_tail "$LOG" 20
        [[ ! -f log/postmaster.log ]] || show_tail log/postmaster.log 20
    fi
}

# ---------------------------------------------------------------------------
# tap

# Assertions of script $name: the lines of the outermost level, since those of
# a subtest are indented.
count_tap() {
    local directive='# *(TODO|SKIP)'
    shopt -s nocasematch
    if [[ $1 =~ ^(not )?ok\ [0-9]+ ]]; then
        if [[ $1 =~ $directive && ${BASH_REMATCH[1]^^} == SKIP ]]; then
            skipped=$((skipped + 1))
            say "    SKIPPED $name:${1#*[Ss][Kk][Ii][Pp]}"
        elif [[ $1 == ok* || $1 =~ $directive ]]; then
            passed=$((passed + 1))
        else
            fail "$name: ${1#not ok }"
        fi
    elif [[ $1 =~ \ \.\.\ skipped: ]]; then
        skipped=$((skipped + 1))        # a whole script
        say "    SKIPPED $name: ${1##*skipped: }"
    fi
    shopt -u nocasematch
}

# One prove for each script, so that its exit status is that of one script.
# It tells of a missing plan, a wrong number of tests and an untimely death.
run_script() {
    local script=$1 name log status=0
    local failed_before=$failed passed_before=$passed skipped_before=$skipped
    name=${script##*/}
    name=${name%.pl}

    installcheck count_tap REGRESS= ISOLATION= PROVE_TESTS="$script" \
        PROVE_FLAGS='--verbose --nocolor' || status=$?

    if ((status == 124 || status == 137)); then
        fail "$name stopped after $LIMIT seconds"
    elif ((status != 0 && failed == failed_before)); then
        fail "$name died, or its plan was wrong"
    fi
    look_for_assertions tmp_check/log/*.log
    if ((failed == failed_before)); then
        say "    ok      $name: $(totals $((passed - passed_before)) 0 $((skipped - skipped_before)))"
        return 0
    fi
    show_tail "$LOG" 40
    for log in tmp_check/log/*"$name"*; do
        [[ -f $log ]] || continue
        say "    ${log##*/} ends with"
        show_tail "$log" 20
    done
}

# Run the scripts of a directory.
run_scripts() {
    local suite=$1 directory=$2 script before=$((passed + failed + skipped))
    say "  $suite"
    if ! grep '^enable_tap_tests.*= yes' "$(dirname "$(pg_config --pgxs)")/../Makefile.global" >/dev/null; then
        skipped=$((skipped + 1))
        say "    SKIPPED $suite: this server was built without --enable-tap-tests"
        return
    fi
    export TEMP_CONFIG=$STAGE/server.conf
    for script in "$directory"/*.pl; do
        [[ ! -f $script ]] || run_script "$script"
    done
    ((passed + failed + skipped > before)) || fail "no test was run"
}

# Programs that check.sh unpacked are in the path, last.
run_cluster() {
    export PATH=$PATH:$SNOWFLAKE_TOOLS/usr/bin:$SNOWFLAKE_TOOLS/usr/sbin
    export PYTHONPATH=$SNOWFLAKE_TOOLS/usr/lib/python3/dist-packages
    LIMIT=1800
    run_scripts cluster test/cluster
}

# ---------------------------------------------------------------------------

say "  build"
if ! bash test/stage.sh "$STAGE" COPT="-Werror -DUSE_ASSERT_CHECKING ${SNOWFLAKE_COPT-}" >"$LOG" 2>&1; then
    fail "build"
    # the first errors tell, the later ones follow from them
    show_tail <(grep -m 20 -E 'error|warning' "$LOG" || cat "$LOG") 20
    leave_tally
    exit 1
fi

if [[ ${1-} == --cluster ]]; then
    export SNOWFLAKE_ROWS=4000000
fi
for suite in ${SNOWFLAKE_SUITES:-regress isolation tap}; do
    case $suite in
        regress) run_regress regress ISOLATION= TAP_TESTS= ;;
        isolation) run_regress isolation REGRESS= TAP_TESTS= ;;
        tap) run_scripts tap test/t ;;
    esac
done
if [[ ${1-} == --cluster ]]; then
    run_cluster
fi
leave_tally
((failed == 0))
