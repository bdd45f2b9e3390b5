#!/usr/bin/env bash
#
# nightly.sh -- the tests that try to break snowflake, each for as long as it
# takes
#
# Beside check.sh, whose --hard runs the short ones of these and whose
# --coverage runs that one.  Each is explained where it is, in test/hard:
#
#   fuzz       libFuzzer on the pure parsers, and the type's input by SQL
#   sanitize   the SQL suites with ASan and UBSan in the extension
#   analyze    cppcheck, clang-tidy and gcc -fanalyzer
#   proof      CBMC on the arithmetic of layouts
#   valgrind   the regression suite under memcheck
#   sqlsmith   random queries, whose only wrong answer is a crash
#   coverage   all suites, and what of src they do not reach
#   i386       all suites on 32 bits
#   arm64      all suites on another processor, emulated by qemu
#
# What is needed comes from the machine's own apt, and a step that cannot have
# it is skipped, loudly.  CBMC may be missing from this Debian and be in
# another, and the last two steps need a Debian of their architecture; these
# mmdebstrap builds as directory trees, or SNOWFLAKE_ROOTS names a directory
# that holds them as prover.tar, i386.tar and arm64.tar.  That needs root.
# For check.sh, the file SNOWFLAKE_TALLY gets "passed failed skipped".

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

STEPS=(fuzz sanitize analyze proof valgrind sqlsmith coverage i386 arm64)
SHORT_STEPS=(fuzz sanitize analyze proof)
FUZZ_PACKAGES=(clang-14 libclang-rt-14-dev)
ANALYZE_PACKAGES=(gcc cppcheck clang-tidy-14)
TAP_PACKAGES=(perl libipc-run-perl libfaketime)
PROVER_SUITE=trixie             # has cbmc
PORT_SUITE=bookworm             # has the other architectures
PORT_MAJOR=15

passed=0
failed=0
skipped=0

usage() {
    cat <<END
Usage: test/nightly.sh [--short] [STEP...]

Run these steps: ${STEPS[*]} (all).
Ends with a line "N passed, N failed", and exits with 0 if nothing failed.

  --short   fuzz for 30 s instead of 10 min each, and if no step is named
            only these: ${SHORT_STEPS[*]}
  --help    this text
END
}

parse_arguments() {
    short=
    steps=()
    while (($#)); do
        case $1 in
            --short) short=yes ;;
            --help)
                usage
                exit
                ;;
            *)
                [[ " ${STEPS[*]} " == *" $1 "* ]] || die "unknown step or option \"$1\"; see --help"
                steps+=("$1")
                ;;
        esac
        shift
    done
    if ((${#steps[@]} == 0)); then
        steps=("${STEPS[@]}")
        [[ -z $short ]] || steps=("${SHORT_STEPS[@]}")
    fi
    seconds=600
    [[ -z $short ]] || seconds=30
}

skip() {
    skipped=$((skipped + 1))
    say "    SKIPPED $1: $2"
}

# Have packages, or skip what needs them.
need() {
    local what=$1 package
    shift
    for package in "$@"; do
        if ! is_installed "$package" && ! has_package "$package"; then
            skip "$what" "$package cannot be had from this distribution"
            return 1
        fi
    done
    if ! install_packages "$@"; then
        skip "$what" "$* could not be installed"
        return 1
    fi
}

# Run a command that prints TAP, and count it.
count() {
    local log=${SCRATCH[0]}/tap status=0 before=$((passed + failed)) failed_before=$failed
    "$@" >"$log" 2>&1 || status=$?
    count_tap_file "$log"
    if ((failed == failed_before)) && ((status != 0 || passed + failed == before)); then
        failed=$((failed + 1))
        say "    FAILED  stopped half way"
        show_tail "$log" 40
    fi
}

# The same in a copy of the tree, as an unprivileged user.
count_in_copy() {
    make_copy ''
    count as_tester "$major" "$@"
    discard "${SCRATCH[-1]}"
}

# ---------------------------------------------------------------------------
# The steps

run_fuzz() {
    if need fuzz "${FUZZ_PACKAGES[@]}"; then
        count_in_copy test/hard/fuzz.sh "$seconds"
    fi
    make_copy ''
    start_server ''
    with_server psql -qX -c 'CREATE EXTENSION snowflake'
    count text_input
    discard "${SCRATCH[-1]}"
}

text_input() {
    local output
    if output=$(with_server psql -qXv "seconds=$seconds" -f test/hard/text_input.sql 2>&1); then
        say "ok 1 - fuzz text input: ${output##*NOTICE:  }"
    else
        say "not ok 1 - fuzz text input"
        say "# $output"
    fi
}

run_sanitize() {
    count_in_copy bash test/hard/watched.sh sanitize
}

run_valgrind() {
    if need valgrind valgrind; then
        count_in_copy bash test/hard/watched.sh valgrind 7200
    fi
}

run_analyze() {
    if need analyze "${ANALYZE_PACKAGES[@]}"; then
        count_in_copy test/hard/analyze.sh
    fi
}

run_coverage() {
    if need coverage "${TAP_PACKAGES[@]}"; then
        count_in_copy test/hard/coverage.sh
    fi
}

# The prover's root is begun first, since it waits for the network.
begin_prover() {
    if ! is_installed cbmc && ! has_package cbmc && can_have_roots; then
        begin_root prover "$PROVER_SUITE" cbmc
    fi
}

run_proof() {
    if [[ ${ROOT_DIR[prover]-} ]]; then
        if finish_root prover proof; then
            count with_path "$SOURCE/test/hard/proof.sh" "${ROOT_DIR[prover]}"
        fi
    elif need proof cbmc; then
        count with_path "$SOURCE/test/hard/proof.sh"
    fi
}

can_have_roots() {
    ((EUID == 0)) && install_packages mmdebstrap debian-archive-keyring arch-test
}

with_path() {
    attend env PATH="/usr/lib/postgresql/$major/bin:$PATH" "$@"
}

# A crash restarts the server, which shows in its log.
run_sqlsmith() {
    need sqlsmith sqlsmith || return 0
    make_copy ''
    start_server ''
    with_server psql -qX -v ON_ERROR_STOP=1 -f test/hard/sqlsmith.sql
    count queries
    discard "${SCRATCH[-1]}"
}

queries() {
    local dir=${SCRATCH[-1]} log status=0
    log=$dir/server.log
    with_server timeout --preserve-status "$seconds" sqlsmith --verbose --exclude-catalog \
        --target="host=$COPY dbname=postgres user=smith" >"$dir/sqlsmith.log" 2>&1 || status=$?
    if grep -E 'TRAP:|was terminated by signal|PANIC' "$log" >"$dir/crashes"; then
        say "not ok 1 - sqlsmith: the server crashed"
        grep -B 3 -A 10 -m 3 -E 'TRAP:|was terminated by signal|PANIC' "$log" | sed 's/^/# /'
    elif ((status != 143)); then    # SIGTERM, after the time that it was given
        say "not ok 1 - sqlsmith: it stopped by itself, with status $status"
    elif with_server psql -qXAt -c 'SELECT snowflake_nextval(1) > 0' >/dev/null; then
        say "ok 1 - sqlsmith: no crash in $seconds s, $(grep -c 'ERROR:' "$log") errors"
    else
        say "not ok 1 - sqlsmith: the server does not answer"
    fi
    tail -n 3 "$dir/sqlsmith.log" | sed 's/^/# /'
}

# ---------------------------------------------------------------------------
# Other architectures

run_i386() {
    suites_on i386
}

# An emulated machine needs many times as long, also for what a test waits for.
run_arm64() {
    if need arm64 qemu-user-static; then
        emulate aarch64
        suites_on arm64 SNOWFLAKE_LIMIT=7200 PGCTLTIMEOUT=600 PG_TEST_TIMEOUT_DEFAULT=1800
    fi
}

# Run the suites in a Debian of an architecture; more arguments are their
# environment.
suites_on() {
    local arch=$1 began=$SECONDS
    shift
    if ! can_have_roots; then
        skip "$arch" "another Debian needs root, and mmdebstrap"
    elif ! arch-test "$arch" >/dev/null; then
        skip "$arch" "this machine does not run its programs"
    else
        # The mirrors of security updates lag behind for some architectures.
        # shellcheck disable=SC2016 # expanded by mmdebstrap's shell
        begin_root "$arch" "$PORT_SUITE" "$(build_packages "$PORT_MAJOR") ${TAP_PACKAGES[*]}" \
            --arch="$arch" --setup-hook='sed -i /security/d "$1/etc/apt/sources.list"'
        finish_root "$arch" "$arch" || return 0
        make_copy "${ROOT_DIR[$arch]}"
        as_tester "$PORT_MAJOR" env "$@" bash test/suites.sh || true
        add_tally "${SCRATCH[-1]}/tally" "$began"
        discard "${ROOT_DIR[$arch]%/*}"
    fi
}

# Let the kernel run another processor's programs by qemu, which installing it
# does where the kernel's register is mounted.
BINFMT=/proc/sys/fs/binfmt_misc
emulated=
mounted=

emulate() {
    if [[ ! -e $BINFMT/status ]] && mount -t binfmt_misc none "$BINFMT" 2>/dev/null; then
        mounted=yes
    fi
    if [[ ! -e $BINFMT/qemu-$1 ]] &&
        cat "/usr/lib/binfmt.d/qemu-$1.conf" 2>/dev/null >"$BINFMT/register"; then
        emulated=$BINFMT/qemu-$1
    fi
}

end_emulation() {
    [[ -z $emulated ]] || echo -1 >"$emulated"
    [[ -z $mounted ]] || umount "$BINFMT"
}

# ---------------------------------------------------------------------------

main() {
    local step began packages
    parse_arguments "$@"
    SCRATCH=("$(mktemp -d)")
    major=$(distribution_major)
    read -ra packages <<<"$(build_packages "$major")"
    install_packages "${packages[@]}" || die "cannot test without these packages"
    [[ " ${steps[*]} " != *' proof '* ]] || begin_prover
    for step in "${steps[@]}"; do
        began=$SECONDS
        say "  $step"
        "run_$step"
        say "    $step took $((SECONDS - began)) s"
    done
    say "$(totals "$passed" "$failed" "$skipped")"
    [[ -z ${SNOWFLAKE_TALLY-} ]] || say "$passed $failed $skipped" >"$SNOWFLAKE_TALLY"
    ((failed == 0))
}

trap 'end_builders; cleanup; end_emulation' EXIT

main "$@"
