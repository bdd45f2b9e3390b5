#!/usr/bin/env bash
#
# check.sh -- run every test of snowflake, from nothing
#
# The one command behind "are the tests green?", for a user, a contributor and
# the continuous integration alike.  On a bare Debian or Ubuntu machine it
# installs what it needs and tests with the distribution's own PostgreSQL.
#
# snowflake supports several majors and a distribution has one.  For another
# major we build the Debian release that has it, as a directory tree that
# mmdebstrap fills with packages, and do the same in there by chroot.  That
# needs root and the network.  A major whose packages cannot be had at the
# moment is skipped, loudly; a test that fails is never a skip.
#
# lib.sh tells how the rest of the machine is kept out of it; suites.sh is
# what happens for each major.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

SUPPORTED=(15 17 18)
declare -A SUITE=([15]=bookworm [17]=trixie [18]=forky)
TEST_PACKAGES=(perl libipc-run-perl libfaketime)
FORMATTER=clang-format-14

passed=0
failed=0
skipped=0

usage() {
    cat <<END
Usage: test/check.sh [--pg MAJOR | --all]

Build snowflake and run its tests on throwaway servers.  Ends with a line
"N passed, N failed", and with "N skipped" if anything was; exits with 0 if
nothing failed.

  --pg MAJOR   with this major of PostgreSQL (default: the distribution's own)
  --all        with each of ${SUPPORTED[*]}
  --help       this text

A major that this distribution does not have is tested in a Debian that does,
which needs root (or sudo) and the network.  It is downloaded each time, unless
SNOWFLAKE_ROOTS names a directory that holds it as MAJOR.tar.
END
}

parse_arguments() {
    majors=()
    while (($#)); do
        case $1 in
            --all) majors=("${SUPPORTED[@]}") ;;
            --pg)
                [[ ${2-} =~ ^[1-9][0-9]$ ]] || die "--pg needs a major version, such as 15"
                majors=("$2")
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
}

# Sort the majors into those that this machine can have and those that need
# another Debian.
plan() {
    local major
    here=()
    elsewhere=()
    if ((${#majors[@]} == 0)); then
        major=$(distribution_major)
        majors=("$major")
    fi
    for major in "${majors[@]}"; do
        if is_packaged "$major"; then
            here+=("$major")
        elif [[ ${SUITE[$major]-} ]]; then
            elsewhere+=("$major")
        else
            die "PostgreSQL $major is neither in this distribution nor among ${SUPPORTED[*]}"
        fi
    done
}

skip() {
    skipped=$((skipped + 1))
    say "SKIPPED: $1: $2"
}

# ---------------------------------------------------------------------------
# The format

# The formatter of another version formats differently, so it is this one, and
# where the distribution does not have it there is no failing over it.
check_format() {
    local report
    say "Format"
    if ! is_installed "$FORMATTER" && ! has_package "$FORMATTER"; then
        skip format "$FORMATTER cannot be had from this distribution"
        return
    elif ! install_packages "$FORMATTER"; then
        skip format "$FORMATTER could not be installed"
        return
    fi
    if report=$(cd "$SOURCE" && "$FORMATTER" --dry-run -Werror src/*.[ch] 2>&1); then
        passed=$((passed + 1))
        say "    ok      src"
    else
        failed=$((failed + 1))
        say "    FAILED  src"
        show_tail <(grep -m 10 -A 2 'error:' <<<"$report") 30
        say "    To repair:  $FORMATTER -i src/*.[ch]"
    fi
}

# ---------------------------------------------------------------------------
# Other Debians

declare -A ROOT_DIR=()          # major -> directory
declare -A BUILDER=()           # major -> process that fills it

# Start to fill a root for each major that needs one.  That is mostly waiting
# for the network, so it goes on while tests run.  In /var/tmp, since /tmp may
# be memory, and may not allow device files.
begin_roots() {
    local major dir packages
    for major in "${elsewhere[@]}"; do
        dir=$(mktemp -d "/var/tmp/snowflake-$major.XXXXXX")
        SCRATCH+=("$dir")
        ROOT_DIR[$major]=$dir/root
        chmod 755 "$dir"
        if [[ ! -f ${SNOWFLAKE_ROOTS:-/nowhere}/$major.tar ]]; then
            packages="$(build_packages "$major") ${TEST_PACKAGES[*]}"
            # An archive may be a snapshot, whose index is past its date.
            nice mmdebstrap --variant=apt --format=directory \
                --aptopt='Acquire::Check-Valid-Until "false"' \
                --include="${packages// /,}" \
                "${SUITE[$major]}" "$dir/root" </dev/null >"$dir/log" 2>&1 &
            BUILDER[$major]=$!
        fi
    done
}

# Have the root of a major ready, or fail.
finish_root() {
    local major=$1 dir=${ROOT_DIR[$1]} status=0
    if [[ -z ${BUILDER[$major]-} ]]; then
        mkdir "$dir"
        attend tar -C "$dir" -xf "$SNOWFLAKE_ROOTS/$major.tar" ||
            die "$SNOWFLAKE_ROOTS/$major.tar could not be unpacked"
        return
    fi
    wait "${BUILDER[$major]}" || status=$?
    unset "BUILDER[$major]"
    if ((status != 0)); then
        skip "PostgreSQL $major" "Debian ${SUITE[$major]} could not be downloaded"
        show_tail "${dir%/*}/log" 5
        return 1
    fi
}

end_builders() {
    local major
    for major in "${!BUILDER[@]}"; do
        end_child "${BUILDER[$major]}"
    done
}
trap 'end_builders; cleanup' EXIT

# ---------------------------------------------------------------------------
# The suites

# Run the suites for major $1 in root $2 (empty: this machine).
run_suites() {
    local major=$1 began=$SECONDS dir p=0 f=1 s=0
    say "PostgreSQL $major${2:+ on Debian ${SUITE[$major]}}"
    make_copy "$2"
    as_tester "$major" bash test/suites.sh || true
    dir=${SCRATCH[-1]}
    # No tally means that the suites were killed, which is one failure.
    [[ ! -f $dir/tally ]] || read -r p f s <"$dir/tally"
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    say "  $(totals "$p" "$f" "$s") in $((SECONDS - began)) s"
    discard "$dir"
}

main() {
    local major
    local -a packages=()
    parse_arguments "$@"
    plan
    if ((${#elsewhere[@]})) && ((EUID != 0)); then
        can_be_root || die "PostgreSQL ${elsewhere[*]} needs root here, or sudo"
        exec sudo -- env SNOWFLAKE_ROOTS="${SNOWFLAKE_ROOTS-}" "$0" "$@"
    fi

    for major in "${here[@]}"; do
        read -ra packages <<<"${packages[*]} $(build_packages "$major") ${TEST_PACKAGES[*]}"
    done
    if ((${#elsewhere[@]})); then
        packages+=(mmdebstrap debian-archive-keyring)
    fi
    install_packages "${packages[@]}" || die "cannot test without these packages"

    begin_roots
    check_format
    for major in "${here[@]}"; do
        run_suites "$major" ''
    done
    for major in "${elsewhere[@]}"; do
        if finish_root "$major"; then
            run_suites "$major" "${ROOT_DIR[$major]}"
        fi
        rm -rf --one-file-system "${ROOT_DIR[$major]}"
    done

    say "Took $((SECONDS / 60)) min $((SECONDS % 60)) s"
    totals "$passed" "$failed" "$skipped"
    ((failed == 0))
}

main "$@"
