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
# needs root and the network.  A major whose packages cannot be had, at the
# moment or at all, is skipped, loudly; a test that fails is never a skip.
#
# With --pg-config it is any server that is installed, also one that was built
# from source: lib.sh tells how it is left as it is.
#
# What needs no server, the format and the model, is checked once, right here.
#
# lib.sh tells how the rest of the machine is kept out of it; suites.sh is
# what happens for each major.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

SUPPORTED=(15 16 17 18 19)
declare -A SUITE=([15]=bookworm [17]=trixie [18]=forky [19]=experimental) # none has 16
TEST_PACKAGES=(perl libipc-run-perl libfaketime)
CLIENT_PACKAGES=(python3-psycopg libpostgresql-jdbc-java default-jdk-headless nodejs node-pg)
CLUSTER_EXTENSIONS=(pglogical)  # what test/cluster uses, and what it runs itself
CLUSTER_SERVICES=(patroni etcd-server)
CLUSTER_LIBRARIES=(python3-etcd)
FORMATTER=clang-format-14
MODEL_PACKAGES=(spin gcc libc6-dev)

passed=0
failed=0
skipped=0

usage() {
    cat <<END
Usage: test/check.sh [--pg MAJOR | --pg-config PATH | --all] [--cluster] [--packages]
                     [--soak MINUTES] [--hard] [--coverage]

Build snowflake and run its tests on throwaway servers.  Ends with a line
"N passed, N failed", and with "N skipped" if anything was; exits with 0 if
nothing failed.

  --pg MAJOR   with this major of PostgreSQL (default: the distribution's own)
  --pg-config PATH
               with the installed server to which this program pg_config belongs,
               such as one that was built from source; nothing is written to it
  --all        with each of ${SUPPORTED[*]}
  --cluster    with majors that this distribution has, with millions of rows
               and beside other projects' programs, too
  --packages   and then build, install and test the packages, with the first of
               these majors that a supported Debian has
  --soak N     and then run soak.sh for N minutes, with the default major
  --hard       and then the short steps of nightly.sh: fuzzers, sanitizers,
               static analysis and a proof
  --coverage   and then its step that tells which lines no test reaches
  --help       this text

A major that this distribution does not have is tested in a Debian that does,
which needs root (or sudo) and the network.  It is downloaded each time, unless
SNOWFLAKE_ROOTS names a directory that holds it as MAJOR.tar.
END
}

parse_arguments() {
    local major
    local servers=0
    majors=()
    cluster=()
    soak_minutes=0
    packages_too=
    nightly=()
    while (($#)); do
        case $1 in
            --all)
                majors=("${SUPPORTED[@]}")
                servers=$((servers + 1))
                ;;
            --pg | --pg-config)
                if [[ $1 == --pg ]]; then
                    choose_major "${2-}"
                else
                    choose_server "${2-}"
                fi
                majors=("$major")
                servers=$((servers + 1))
                shift
                ;;
            --cluster) cluster=(--cluster) ;;
            --packages) packages_too=yes ;;
            --soak)
                [[ ${2-} =~ ^[1-9][0-9]{0,3}$ ]] || die "--soak needs a number of minutes"
                soak_minutes=$2
                shift
                ;;
            --hard) nightly+=(fuzz sanitize analyze proof) ;;
            --coverage) nightly+=(coverage) ;;
            --help)
                usage
                exit
                ;;
            *) die "unknown option \"$1\"; see --help" ;;
        esac
        shift
    done
    ((servers <= 1)) || die "--pg, --pg-config and --all exclude each other"
}

# Sort the majors into those that this machine can have, those that need
# another Debian, and those that no Debian has.
plan() {
    local major
    here=()
    elsewhere=()
    nowhere=()
    if ((${#majors[@]} == 0)); then
        major=$(distribution_major)
        majors=("$major")
    fi
    for major in "${majors[@]}"; do
        if [[ $GIVEN_CONFIG ]] || is_packaged "$major"; then
            here+=("$major")
        elif [[ ${SUITE[$major]-} ]]; then
            elsewhere+=("$major")
        elif [[ " ${SUPPORTED[*]} " == *" $major "* ]]; then
            nowhere+=("$major")
        else
            die "PostgreSQL $major is neither in this distribution nor among ${SUPPORTED[*]}"
        fi
    done
    if ((${#cluster[@]} && ${#here[@]} == 0)); then
        die "--cluster needs a major that this distribution has"
    fi
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
    local -a sources
    say "Format"
    if ! is_installed "$FORMATTER" && ! has_package "$FORMATTER"; then
        skip format "$FORMATTER cannot be had from this distribution"
        return
    elif ! install_packages "$FORMATTER"; then
        skip format "$FORMATTER could not be installed"
        return
    fi
    # relative to the top, and none of them has a blank in its name
    mapfile -t sources < <(cd "$SOURCE" && printf '%s\n' src/*.[ch] bench/*.c test/shim/*.c test/hard/*.c test/hard/*/*.[ch])
    if report=$(cd "$SOURCE" && "$FORMATTER" --dry-run -Werror "${sources[@]}" 2>&1); then
        passed=$((passed + 1))
        say "    ok      ${#sources[@]} files"
    else
        failed=$((failed + 1))
        say "    FAILED  ${#sources[@]} files"
        show_tail <(grep -m 10 -A 2 'error:' <<<"$report") 30
        say "    To repair:  $FORMATTER -i ${sources[*]}"
    fi
}

# ---------------------------------------------------------------------------
# The model

# Let spin check test/model.  Its user is nobody, since there need not be a
# server here, and so no "postgres".
check_model() {
    local log status=0 passed_before=$passed failed_before=$failed
    # shellcheck disable=SC2034 # used by lib.sh
    local TESTER=nobody
    say "Model"
    if ! is_installed spin && ! has_package spin; then
        skip model "spin cannot be had from this distribution"
        return
    elif ! install_packages "${MODEL_PACKAGES[@]}"; then
        skip model "${MODEL_PACKAGES[*]} could not be installed"
        return
    fi
    make_copy ''
    log=${SCRATCH[-1]}/log
    as_tester "${majors[0]}" test/model/run.sh >"$log" 2>&1 || status=$?
    count_tap_file "$log"
    if ((failed == failed_before)) && ((status != 0 || passed == passed_before)); then
        failed=$((failed + 1))
        say "    FAILED  run.sh stopped half way"
    fi
    ((failed == failed_before)) || show_tail "$log" 40
    discard "${SCRATCH[-1]}"
}

# ---------------------------------------------------------------------------
# Clients
#
# What test/t/012_clients.pl talks to the server with, besides psql.  Only on
# this machine, and what cannot be had is skipped there.

# Is there, perhaps from elsewhere, what a package is wanted for?
has_client() {
    case $1 in
        default-jdk-headless) java --list-modules 2>/dev/null | grep '^jdk\.compiler@' >/dev/null ;;
        nodejs) node --version >/dev/null 2>&1 ;;
        node-pg) (cd "$SOURCE/test/clients" && NODE_PATH=/usr/share/nodejs node -e 'require("pg")') >/dev/null 2>&1 ;;
        *) is_installed "$1" ;;
    esac
}

install_clients() {
    local package
    for package in "${CLIENT_PACKAGES[@]}"; do
        # what a distribution has need not fit what else is installed
        if ! has_client "$package" && has_package "$package" &&
            apt-get -qq -s --no-install-recommends install "$package" >/dev/null 2>&1; then
            install_packages "$package" || true
        fi
    done
}

# Unpack a package whose installation would start a service.  The libraries
# that it depends on, and those named, are installed.
unpack_package() {
    local dir=$1 package=$2
    local -a libraries=()
    shift 2
    if ! is_installed "$package" && has_package "$package"; then
        mapfile -t libraries < <(apt-cache depends "$package" |
            sed -n 's/^  Depends: \(\(lib\|python3-\).*\)/\1/p')
        if install_packages "${libraries[@]}" "$@"; then
            (cd "$dir" && apt-get -qq download "$package" && dpkg -x "$package"_*.deb .) >/dev/null 2>&1 || true
        fi
    fi
}

# Into the copy goes what is not installed: PgBouncer; and a Node.js that is
# not the distribution's has its own way to a package.
add_clients() {
    local dir=$1 package
    mkdir "$dir/tools"
    [[ -x /usr/sbin/pgbouncer ]] || unpack_package "$dir/tools" pgbouncer
    # what doc/monitoring is tried with: two programs that need no libraries
    for package in prometheus-postgres-exporter prometheus; do
        (cd "$dir/tools" && apt-get -qq download "$package" && dpkg -x "$package"_*.deb .) >/dev/null 2>&1 || true
    done
    if ! has_client node-pg && has_client nodejs; then
        attend npm install --prefix "$dir/tree/test/clients" --no-package-lock --no-audit \
            --no-fund --ignore-scripts --fetch-retries=0 >/dev/null 2>&1 </dev/null || true
    fi
}

# ---------------------------------------------------------------------------
# What test/cluster runs with
#
# Like the clients: only on this machine, and what cannot be had is skipped
# there.

add_cluster() {
    local dir=$1 major=$2 name
    for name in "${CLUSTER_EXTENSIONS[@]}"; do
        if has_package "postgresql-$major-$name"; then
            install_packages "postgresql-$major-$name" || true
        fi
    done
    for name in "${CLUSTER_SERVICES[@]}"; do
        unpack_package "$dir/tools" "$name" "${CLUSTER_LIBRARIES[@]}"
    done
}

# ---------------------------------------------------------------------------
# The suites

# Run the suites for major $1 in root $2 (empty: this machine).
run_suites() {
    local major=$1 began=$SECONDS
    local -a options=()
    say "PostgreSQL $major${2:+ on Debian ${SUITE[$major]}}${GIVEN_CONFIG:+ of $GIVEN_CONFIG}"
    make_copy "$2"
    if [[ $GIVEN_CONFIG ]]; then
        copy_server
    fi
    if [[ -z $2 ]]; then
        add_clients "${SCRATCH[-1]}"
        options=("${cluster[@]}")
        ((${#options[@]} == 0)) || add_cluster "${SCRATCH[-1]}" "$major"
    fi
    as_tester "$major" bash test/suites.sh "${options[@]}" || true
    add_tally "${SCRATCH[-1]}/tally" "$began"
    discard "${SCRATCH[-1]}"
}

# ---------------------------------------------------------------------------
# pg_upgrade
#
# upgrade.sh wants two majors on one machine, and no Debian has two.  The old
# one is brought into the root of the new one.  Programs run on a later Debian,
# as far as they find the libraries that it no longer has; those have names of
# their own there, so they disturb nobody.

# Bring major $1 of root $2 (empty: this machine) into root $3.
bring_major() {
    local major=$1 from=$2 root=$3 name path
    local -a have=()
    [[ ! -d $root/usr/lib/postgresql/$major ]] || return 0
    tar -C "$from/" -cf - --exclude='*/bitcode' --exclude='*/llvmjit*' \
        "usr/lib/postgresql/$major" "usr/share/postgresql/$major" "usr/include/postgresql/$major" |
        tar -C "$root" -xf - || return 1
    mapfile -t have < <(chroot "$root" ldconfig -p | sed -n 's/^\t\([^ ]*\) .*/\1/p')
    while read -r name path; do
        if [[ " ${have[*]} " != *" $name "* ]]; then
            cp -L "$from$path" "$root/usr/local/lib/$name"
        fi
    done < <(chroot "$from/" find "/usr/lib/postgresql/$major" -type f \( -path '*/bin/*' -o -name '*.so' \) \
        ! -name 'llvmjit*' -exec ldd {} + 2>/dev/null | sed -n 's/^\t\([^ /]*\) => \(\/.*\) (.*/\1 \2/p' | sort -u)
    chroot "$root" ldconfig
    chroot "$root" "/usr/lib/postgresql/$major/bin/postgres" --version >/dev/null
}

run_upgrade() {
    local old=$1 new=$2 root=${ROOT_DIR[$2]} began=$SECONDS
    say "pg_upgrade from PostgreSQL $old to $new"
    if ! bring_major "$old" "${ROOT_DIR[$old]-}" "$root"; then
        skip "pg_upgrade to $new" "PostgreSQL $old does not run on Debian ${SUITE[$new]}"
        return
    fi
    make_copy "$root"
    as_tester "$new" bash test/upgrade.sh "$old" "$new" || true
    add_tally "${SCRATCH[-1]}/tally" "$began"
    discard "${SCRATCH[-1]}"
}

# ---------------------------------------------------------------------------
# What happens elsewhere
#
# Most tests wait most of the time, so the other Debians are tested while this
# machine's tests run, all at once: by a process, and one more for each root.
# What they report follows this machine's, and each has its own directories to
# remove.

ELSEWHERE=                      # the process
ELSEWHERE_DIR=                  # its report, and its tally
declare -A ROOT_TESTER=()       # its children, by major

# A process starts with the scripts' variables, and without their traps.
become_process() {
    SCRATCH=()
    CHILD=
    CREATECLUSTER=
    passed=0
    failed=0
    skipped=0
    # shellcheck disable=SC2064 # known now
    trap "$1" EXIT
    trap 'exit 143' INT TERM HUP
}

test_root() {
    become_process cleanup
    run_suites "$1" "${ROOT_DIR[$1]}"
    echo "$passed $failed $skipped" >"${ROOT_DIR[$1]%/*}/tally"
}

test_elsewhere() {
    local major old dir
    local -a ready=("${here[@]}")
    become_process 'end_builders; end_root_testers; cleanup'
    for major in "${elsewhere[@]}"; do
        begin_root "$major" "${SUITE[$major]}" "$(build_packages "$major") ${TEST_PACKAGES[*]}"
    done
    for major in "${elsewhere[@]}"; do
        if finish_root "$major" "PostgreSQL $major on Debian ${SUITE[$major]}"; then
            (test_root "$major") >"${ROOT_DIR[$major]%/*}/report" 2>&1 &
            ROOT_TESTER[$major]=$!
        fi
    done
    for major in "${elsewhere[@]}"; do
        [[ ${ROOT_TESTER[$major]-} ]] || continue
        wait "${ROOT_TESTER[$major]}" || true
        unset "ROOT_TESTER[$major]"
        dir=${ROOT_DIR[$major]%/*}
        cat "$dir/report"
        add_tally "$dir/tally"
        for old in "${ready[@]}"; do
            ((old > major)) || run_upgrade "$old" "$major"
        done
        ready+=("$major")
    done
    echo "$passed $failed $skipped" >"$ELSEWHERE_DIR/tally"
}

# A process cleans up after itself when it is told to end, however long that takes.
end_process() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

end_root_testers() {
    local major
    for major in "${!ROOT_TESTER[@]}"; do
        end_process "${ROOT_TESTER[$major]}"
    done
}

begin_elsewhere() {
    ((${#elsewhere[@]})) || return 0
    ELSEWHERE_DIR=$(mktemp -d)
    SCRATCH+=("$ELSEWHERE_DIR")
    (test_elsewhere) >"$ELSEWHERE_DIR/report" 2>&1 </dev/null &
    ELSEWHERE=$!
}

finish_elsewhere() {
    [[ $ELSEWHERE ]] || return 0
    wait "$ELSEWHERE" || true
    ELSEWHERE=
    cat "$ELSEWHERE_DIR/report"
    add_tally "$ELSEWHERE_DIR/tally"
}

end_elsewhere() {
    [[ -z $ELSEWHERE ]] || end_process "$ELSEWHERE"
}
trap 'end_elsewhere; cleanup' EXIT

# ---------------------------------------------------------------------------
# Packages

run_packages() {
    local major dir began=$SECONDS
    for major in "${majors[@]}" "${SUPPORTED[0]}"; do
        [[ ${SUITE[$major]-experimental} == experimental ]] || break
    done
    say "Packages, for PostgreSQL $major on Debian ${SUITE[$major]}"
    dir=$(mktemp -d "/var/tmp/snowflake-packages.XXXXXX")
    SCRATCH+=("$dir")
    attend "$SOURCE/test/packages.sh" "$major" "${SUITE[$major]}" "$dir" || true
    add_tally "$dir/tally" "$began"
    discard "$dir"
}

# A test among the others, which takes as long as one wants.
run_soak() {
    local log
    log=$(mktemp)
    say "Soak, $soak_minutes minutes"
    if attend "$SOURCE/test/soak.sh" --minutes "$soak_minutes" >"$log" 2>&1; then
        passed=$((passed + 1))
        say "    ok      soak: $(grep 'ids checked' "$log"), $(grep -E '^[0-9]+ faults' "$log")"
    else
        failed=$((failed + 1))
        say "    FAILED  soak"
        show_tail "$log" 60
    fi
    rm -f "$log"
}

# ---------------------------------------------------------------------------
# Hardening
#
# nightly.sh does it, on this machine and with its default major, prints as we
# do, and leaves its tally in a file.

run_nightly() {
    local tally
    say "Hardening"
    tally=$(mktemp)
    attend env SNOWFLAKE_TALLY="$tally" "$SOURCE/test/nightly.sh" --short "${nightly[@]}" || true
    add_tally "$tally"
    rm -f "$tally"
}

main() {
    local major
    local -a packages=()
    parse_arguments "$@"
    plan
    if [[ ${elsewhere[*]} || $packages_too ]] && ((EUID != 0)); then
        can_be_root || die "another Debian needs root here, or sudo"
        exec sudo -- env SNOWFLAKE_ROOTS="${SNOWFLAKE_ROOTS-}" "$0" "$@"
    fi

    for major in "${here[@]}"; do
        read -ra packages <<<"${packages[*]} $(build_packages "$major") ${TEST_PACKAGES[*]}"
    done
    if [[ ${elsewhere[*]} || $packages_too ]]; then
        packages+=(mmdebstrap debian-archive-keyring)
    fi
    install_packages "${packages[@]}" || die "cannot test without these packages"

    begin_elsewhere
    check_format
    check_model
    ((${#here[@]} == 0)) || install_clients
    for major in "${here[@]}"; do
        run_suites "$major" ''
    done
    if [[ $packages_too ]]; then
        run_packages
    fi
    if ((soak_minutes)); then
        run_soak
    fi
    if ((${#nightly[@]})); then
        run_nightly
    fi
    finish_elsewhere
    for major in "${nowhere[@]}"; do
        skip "PostgreSQL $major" "no Debian has it; with an installed one, run test/check.sh --pg-config PATH"
    done

    say "Took $((SECONDS / 60)) min $((SECONDS % 60)) s"
    totals "$passed" "$failed" "$skipped"
    ((failed == 0))
}

main "$@"
