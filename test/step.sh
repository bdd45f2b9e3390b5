#!/usr/bin/env bash
#
# step.sh -- run one test of check.sh, and print TAP
#
#   test/step.sh NAME
#   test/step.sh PLACE/NAME
#
# A place is a copy of the source tree on this machine or in another Debian,
# built in some way, and the server to test it with:
#
#   15 16 17 18 19        a major; if this machine does not have it, in a Debian
#                         that does
#   sanitize valgrind     the major that is asked for, or else the default one,
#                         somebody watching its memory
#   coverage              that major, counting the lines that are reached
#   perturb               that major, with pauses: hard/perturb.h
#   schedules             that major, with turns: hard/schedule.h
#   core                  that major, without leases: LEASES=no of the Makefile
#   faults                that major, with one rule less: hard/faults.pl
#   mutants               that major, with a small mistake: hard/mutants.pl
#   i386 arm64            another processor
#   stacks                the Debian with the libraries that test/stacks wants
#
# Tests of a place can run at the same time, but for regress and isolation.
#
# The first test of a place, "build", makes it, and writes the file PLACE.place
# for the others, which skip if it is not there.  A place that cannot be had is
# skipped; a test that fails never is.  check.sh gives the directory for all
# places in SNOWFLAKE_RUN, and removes it.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

TEST_PACKAGES='perl libipc-run-perl'
PORT_MAJOR=15                   # on another processor, with its Debian
STACKS_MAJOR=17                 # with the libraries of its Debian

RUN=${SNOWFLAKE_RUN-}
GIVEN_CONFIG=${SNOWFLAKE_PG_CONFIG-}
place=${1%/*}
name=${1##*/}

skip_all() {
    say "1..0 # SKIP $*"
    exit
}

need_program() { command -v "$1" >/dev/null || skip_all "this distribution has no $1"; }

# One test, of one command.
test_command() {
    local what=$1 status=0
    shift
    LOG=$(mktemp)
    "$@" >"$LOG" 2>&1 || status=$?
    say 1..1
    if ((status == 0)); then
        say "ok 1 - $what"
        grep '^#:' "$LOG" || true
    else
        say "not ok 1 - $what"
        tail -n 60 "$LOG" | sed 's/^/# /'
    fi
    return "$status"
}

# What takes longest: root gives it the processor first.
go_first() { renice -n -10 -p $$ >/dev/null 2>&1 || true; }

# --- Places

# Make this place, and leave what as_tester() needs for the other tests.
make_place() {
    local root='' packages='' later
    local -a arch=()
    copt='-Werror -DUSE_ASSERT_CHECKING'
    limit=1200
    environment=()
    case $place in
        i386 | arm64)
            # The mirrors of security updates lag behind for some architectures.
            # shellcheck disable=SC2016 # expanded by mmdebstrap's shell
            arch=(--arch="$place" --setup-hook='sed -i /security/d "$1/etc/apt/sources.list"')
            arch-test "$place" >/dev/null || skip_all "this machine does not run programs of $place"
            major=$PORT_MAJOR
            ;;
        stacks)
            major=$STACKS_MAJOR
            limit=3600          # compilers
            environment=(PG_TEST_TIMEOUT_DEFAULT=600)
            # shellcheck disable=SC2086 # one word for each script
            packages=" $(sed -n 's/^# Packages: //p' /dev/null $SNOWFLAKE_STACKS | tr '\n' ' ')"
            # shellcheck disable=SC2086
            later=$(sed -n 's/^# Packages of forky: //p' /dev/null $SNOWFLAKE_STACKS | tr '\n' ' ')
            go_first
            packages+=$later
            # Of the next Debian these, and what only it has
            # shellcheck disable=SC2016 # expanded by mmdebstrap's shell
            [[ -z $later ]] || arch=(--setup-hook='
                sed -n "s/ trixie / forky /p" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/forky.list"
                printf "%s\n" "Package: *" "Pin: release n=forky" "Pin-Priority: 100" "" \
                    "Package: '"$later"'" "Pin: release n=forky" "Pin-Priority: 990" >"$1/etc/apt/preferences.d/forky"')
            ;;
        sanitize | valgrind | coverage | perturb | schedules | core | faults | mutants) major=${SNOWFLAKE_MAJOR:-$(default_major)} ;;
        *) major=$place ;;
    esac
    if [[ $place == arm64 ]]; then      # emulated, it takes many times as long
        limit=7200
        environment=(PGCTLTIMEOUT=600 PG_TEST_TIMEOUT_DEFAULT=1800)
    fi
    if [[ $packages || ${arch[*]} ]] || { [[ -z $GIVEN_CONFIG ]] && ! is_packaged "$major"; }; then
        [[ ${SUITE[$major]-} ]] ||
            skip_all "no Debian has PostgreSQL $major; with an installed one, run: test/check.sh --pg-config PATH"
        root=$RUN/$place
        have_root "$root" "${SUITE[$major]}" \
            "$BUILD_PACKAGES postgresql-$major postgresql-server-dev-$major $TEST_PACKAGES$packages" "${arch[@]}" ||
            skip_all "Debian ${SUITE[$major]} could not be downloaded"
    fi
    [[ ! $root || ! ${SNOWFLAKE_COPIES-} ]] || mount --bind "$SNOWFLAKE_COPIES" "$root/tmp"
    [[ -z $GIVEN_CONFIG ]] || id postgres >/dev/null 2>&1 || TESTER=nobody
    make_copy "$root"
    echo "${SCRATCH[-1]}" >>"$RUN/copies"
    SCRATCH=()                  # check.sh removes it
    [[ -z $GIVEN_CONFIG ]] || copy_server
    if [[ $place == stacks && $SNOWFLAKE_STACKS == */javascript.pl* ]]; then
        install_from_npm "$root$COPY/tree/test/stacks/javascript"
    elif [[ -z $root ]]; then
        link_tools
    fi
    case $place in
        sanitize | valgrind)
            limit=7200
            environment=(PGCTLTIMEOUT=120)
            copt+=" $(as_tester perl test/hard/watch.pl "$place")"
            ;;
        coverage)
            limit=1200
            copt+=" --coverage -O0 -fprofile-update=atomic -include $COPY/tree/test/hard/dump.h"
            ;;
        perturb)
            environment=("SNOWFLAKE_SEED=${SNOWFLAKE_TWINS##* }")
            say "#: perturbed by --seed ${SNOWFLAKE_TWINS##* }"
            copt+=" -include $COPY/tree/test/hard/perturb.h"
            ;;
        schedules) copt+=" -include $COPY/tree/test/hard/schedule.h" ;;
        core)
            environment=(LEASES=no)
            rm -r "$COPY/tree/src/lease" "$COPY/tree/sql/snowflake/leases.sql"
            ;;
    esac
    [[ $place != [1-9]* || $root ]] || take_objects
    test_command "build for PostgreSQL $major" as_tester env "${environment[@]}" bash test/stage.sh "$COPY/stage" COPT="$copt"
    [[ $place != [1-9]* || $root ]] || keep_objects
    declare -p major ROOT COPY TESTER BINDIR LIBDIR limit environment |
        sed 's/^declare /&-g /' >"$RUN/$place.place"
}

# --- What was compiled here before is not compiled again: tmp_check_objects keeps it, by
# --- the sums of all that it is made of.

# Set "objects": a line for each source, its object in the copy and in tmp_check_objects.
# The sums are those of the copy, as the tree may change meanwhile.
list_objects() {
    local common
    # shellcheck disable=SC2016 # expanded by the inner shell
    common=$(as_tester bash -c '
        pg_config | sed "s,$HOME,,g"
        $(pg_config --cc) --version
        pgxs=$(pg_config --pgxs)
        include=$(pg_config --includedir)
        cat "${pgxs%/makefiles/*}/Makefile.global" "$include"/{libpq-fe,postgres_ext}.h
        find "$(pg_config --includedir-server)" -name "*.h" | LC_ALL=C sort | xargs cat
        cat Makefile src/*.h src/*/*.h
        echo "$1"' bash "$copt" | sha256sum)
    mapfile -t objects < <(cd "$COPY/tree" && sha256sum src/*.c src/*/*.c | while read -r sum file; do
        echo "$COPY/tree/${file%.c}.o tmp_check_objects/${common:0:32}${sum:0:32}.o"
    done)
}

take_objects() {
    local object kept
    list_objects
    while read -r object kept; do
        [[ ! -f $kept ]] || { cp "$kept" "$object" && touch "$object"; }
    done < <(printf '%s\n' "${objects[@]}")
    own_copy
}

# A tree that cannot be written to keeps none, and nothing is kept for longer than a week.
keep_objects() {
    local object kept
    mkdir -p tmp_check_objects 2>/dev/null && [[ -w tmp_check_objects ]] || return 0
    while read -r object kept; do
        [[ -f $kept || ! -f $object ]] || { cp "$object" "$kept.$$" && mv "$kept.$$" "$kept"; } || break
    done < <(printf '%s\n' "${objects[@]}")
    find tmp_check_objects -type f -mtime +7 -delete || true
    ((EUID != 0)) || chown -R --reference=Makefile tmp_check_objects
}

# What scripts are run with and needs no installation: Debian's packages, unpacked;
# and for a Node.js that is not Debian's, its own way to packages.
fetch_tools() {
    local where
    trap 'touch "$RUN/tools.done"; cleanup' EXIT
    mkdir "$RUN/tools"
    # shellcheck disable=SC2086 # one word for each package
    (cd "$RUN/tools" && timeout 900 apt-get -qq download $SNOWFLAKE_UNPACKED &&
        printf '%s\0' ./*.deb | xargs -0 -n 1 -I{} dpkg -x {} .) || true
    for where in $SNOWFLAKE_NPM; do
        mkdir "$RUN/tools/$where"
        cp "test/$where/package.json" "$RUN/tools/$where"
        install_from_npm "$RUN/tools/$where"
    done
}

# A copy of the tree sees them when they are there.
link_tools() {
    local where
    for where in $SNOWFLAKE_NPM; do
        ln -s "$RUN/tools/$where/node_modules" "$COPY/tree/test/$where/"
    done
}

await_tools() {
    [[ -z $ROOT ]] && grep -q '^# \(Unpacked\|Npm\): ' "$SOURCE/$1" || return 0
    until [[ -f $RUN/tools.done ]]; do
        sleep 0.2
    done
}

# In a directory, the packages that its package.json names.  What needs them is
# skipped if they cannot be had, so say why.  By --prefix npm would not read the
# machine's npmrc, which may name the registry, a proxy or a certificate.
install_from_npm() {
    local log=$1/npm.log
    command -v npm >/dev/null || return 0       # Debian's Node.js comes without
    attend timeout 900 env -C "$1" npm install --no-package-lock --no-save --no-audit --no-fund \
        --ignore-scripts --fetch-retries=0 --loglevel=error >"$log" 2>&1 </dev/null || {
        say "#: npm could not install what ${1##*/}/package.json names:"
        head -n 5 "$log" | sed 's/^/#:   /'
    }
}

# Older servers that were built from source find extensions only in their own
# directories, which are not ours to write to.  But such an installation, below
# one directory, works wherever it is: we install into a copy of it.
copy_server() {
    local prefix option path
    local -a paths=()
    BINDIR=$("$GIVEN_CONFIG" --bindir)
    prefix=${BINDIR%/bin}
    for option in bindir libdir sharedir includedir; do
        path=$("$GIVEN_CONFIG" "--$option")
        [[ $path == "$prefix"/* && $prefix != /usr ]] || return 0
        paths+=("${path#"$prefix"/}")
    done
    mkdir "$COPY/server"
    tar -C "$prefix" -cf - "${paths[@]}" | tar -C "$COPY/server" -xf - --no-same-owner
    own_copy
    BINDIR=$COPY/server/bin
    LIBDIR=$COPY/server/${paths[1]}
}

# --- The suites, through "make installcheck", which knows how each major wants
# them run

installcheck() {
    local tools=$RUN/tools
    local -a size=()
    if [[ $place == perturb ]]; then
        size=(SNOWFLAKE_CRASH_ROUNDS=5 SNOWFLAKE_EACH=2000 SNOWFLAKE_ROWS=5000)
    elif [[ ${SNOWFLAKE_WHOLE-} ]]; then
        size=(SNOWFLAKE_ROWS=2000000)
    else
        size=(SNOWFLAKE_CRASH_ROUNDS=10 SNOWFLAKE_EACH=50000)
    fi
    as_tester env TEMP_CONFIG="$COPY/stage/server.conf" SNOWFLAKE_TEMPLATES="$COPY/templates" "${environment[@]}" \
        LD_LIBRARY_PATH="${LIBDIR:+$LIBDIR:}$(echo "$tools"/usr/lib/*-linux-gnu)" \
        SNOWFLAKE_TOOLS="$tools" PYTHONPATH="$tools/usr/lib/python3/dist-packages" \
        PATH="${BINDIR:-$PROGRAMS/$major/bin}:/usr/local/bin:/usr/bin:/bin:$tools/usr/bin:$tools/usr/sbin" \
        SNOWFLAKE_SOAK="${SNOWFLAKE_SOAK-}" SNOWFLAKE_TWINS="${SNOWFLAKE_TWINS-}" SNOWFLAKE_SECONDS="${SNOWFLAKE_SECONDS:-30}" "${size[@]}" \
        SNOWFLAKE_LONG="${SNOWFLAKE_LONG-}" timeout --kill-after=10 "$limit" make -s "$@" installcheck
}

# How a suite ended, as comments: it took too long, or an assertion fired, which
# ends one server process, and need not show to the test.  The arguments are logs.
explain() {
    ((status != 124 && status != 137)) || echo "# stopped after $limit seconds"
    if grep -h '^TRAP:' "$@" 2>/dev/null | head -n 5 | sed 's/^/# /'; then
        status=1
    fi
}

# pg_regress speaks TAP from 16 on.  The temporary instance must be one level
# deep, or pg_regress cannot make it.
run_regress() {
    local status=0 log=$DIR/$name.log tree=$DIR/tree test
    local -a options=("--temp-instance=tmp_check" "--temp-config=$COPY/stage/server.conf")
    [[ ! -d $DIR/bin ]] || options+=("--bindir=$COPY/bin")
    rm -rf "$tree"/{tmp_check,log,regression.diffs}
    installcheck TAP_TESTS= "$@" EXTRA_REGRESS_OPTS="${options[*]}" >"$log" 2>&1 || status=$?
    sed -nE -e 's/^(test)? +([^ ]+) +\.\.\. ok .*/ok - \2/p' \
        -e 's/^(test)? +([^ ]+) +\.\.\. (FAILED|failed) .*/not ok - \2/p' \
        -e 's/^(not ok|ok) [0-9]+ +[-+] ([^ ]+).*/\1 - \2/p' "$log" | sort -r >"$log.tap"
    cat "$log.tap"              # failures last, beside their differences
    if ((status)) && [[ -s $tree/regression.diffs ]]; then
        head -n 200 "$tree/regression.diffs" | sed 's/^/# /'
    elif ((status)); then
        tail -n 30 "$log" "$tree/log/postmaster.log" 2>/dev/null | sed 's/^/# /'
    fi
    for test in ${SNOWFLAKE_ACCEPT:+$SNOWFLAKE_SQL}; do
        [[ -f $tree/results/$test.out ]] || continue
        cat "$tree/results/$test.out" >"expected/$test.out"
        chown --reference=expected "expected/$test.out"
        say "#: expected/$test.out is what it printed: see git diff"
    done
    explain "$tree/log/postmaster.log"
    say "1..$(wc -l <"$log.tap")"       # none at all is a failure
    return "$((status > 0))"
}

# "make installcheck" has one script run by perl, rather than prove.  It does so in a
# directory of its own, so that scripts can run at the same time.  A server's test
# that says "Bail out!" would end all tests.
run_script() {
    local status=0 log pgxs script own=$COPY/run/$name
    script=$(find test/t test/integration test/stacks test/hard test/soak.pl -name "$name.pl")
    await_tools "$script"
    pgxs=$(as_tester pg_config --pgxs)
    grep '^enable_tap_tests.*= yes' "$ROOT${pgxs%/makefiles/*}/Makefile.global" >/dev/null ||
        skip_all 'this server was built without --enable-tap-tests'
    as_tester mkdir -p "$own"
    installcheck -C "$own" -f "$COPY/tree/Makefile" VPATH="$COPY/tree" \
        REGRESS= ISOLATION= PROVE=perl PROVE_FLAGS= PROVE_TESTS="$script" 2>&1 |
        sed -u 's/^Bail out!/not ok - Bail out!/' || status=$?
    explain "$ROOT$own"/tmp_check/log/*.log
    for log in "$ROOT$own"/tmp_check/log/{*"$name"*.log,regress_log_"$name"}; do   # its own last, as it says why
        [[ $status != 0 && -f $log ]] || continue
        echo "# ${log##*/} ends with"
        tail -n 20 "$log" | sed 's/^/#   /'
    done
    return "$status"
}

list_core_sql() {
    basename -as .sql test/sql/*.sql | grep -vxFf <(sed -n 's/^\([a-z0-9_]\+\) .*/\1/p' test/lease_tests) | paste -sd ' '
}

run_suite() {
    case $name in
        regress)
            [[ $place != core || ${SNOWFLAKE_SQL-} ]] || SNOWFLAKE_SQL=$(list_core_sql)
            run_regress ISOLATION= ${SNOWFLAKE_SQL:+REGRESS="$SNOWFLAKE_SQL"}
            ;;
        isolation) run_regress REGRESS= ${SNOWFLAKE_SPECS:+ISOLATION="$SNOWFLAKE_SPECS"} ;;
        soak | twins | citus | patroni | pglogical)
            limit=7200
            run_script
            ;;
        *)
            [[ -z ${SNOWFLAKE_LONG-} ]] || limit=7200
            run_script
            ;;
    esac
}

# What is known of mutants stays on this machine when the copy is gone.
run_mutants() {
    local state=${SNOWFLAKE_MUTANTS_STATE:-/var/tmp/snowflake-mutants}
    [[ $ROOT ]] || mkdir -p "$state"
    [[ $ROOT ]] || ((EUID != 0)) || chown -h "$TESTER" "$state"
    as_tester env SNOWFLAKE_SEED="${SNOWFLAKE_TWINS##* }" SNOWFLAKE_LONG="${SNOWFLAKE_LONG-}" \
        SNOWFLAKE_MUTANTS="${SNOWFLAKE_MUTANTS-}" SNOWFLAKE_MUTANTS_AT="${SNOWFLAKE_MUTANTS_AT-}" \
        SNOWFLAKE_MUTANTS_STATE="$state" SNOWFLAKE_TEMPLATES="$COPY/templates" \
        perl test/hard/mutants.pl "$@"
}

# Tests that want a tick exhausted may fail, as this is too slow for them;
# coverage is what matters.
tolerate() {
    ("$@") | sed -u -e 's/^not ok.*/& # TODO too slow when lines are counted/' || true
}

# The old major's place is made at the same time.
run_upgrade() {
    local old=$1 from=''
    if ! is_packaged "$old"; then
        from=$RUN/$old
        timeout 1800 sh -c "until test -f '$from.place'; do sleep 1; done" || skip_all "PostgreSQL $old could not be had"
    fi
    attend perl test/upgrade/bring.pl "$old" "$from" "$ROOT" || skip_all "PostgreSQL $old does not run on Debian ${SUITE[$major]}"
    as_tester perl test/upgrade/upgrade.pl "$old" "$major"
}

# The formatter of another version formats differently, so it is this one.
run_format() {
    need_program clang-format-14
    test_command 'C is as clang-format-14 writes it (to repair: clang-format-14 -i FILE)' \
        clang-format-14 --dry-run -Werror src/*.[ch] src/lease/*.[ch] bench/*.c test/shim/*.c test/cases/*.[ch] test/hard/*.c test/hard/*/*.[ch] \
        test/memory/*.[ch] test/memory/stub/*.h test/memory/stub/*/*.h
}

# The prover may be in another Debian.
run_proof() {
    command -v cbmc >/dev/null || have_root "$RUN/prover" trixie cbmc ||
        skip_all "Debian trixie could not be downloaded"
    with_major test/hard/proof.pl "$(command -v cbmc >/dev/null || echo "$RUN/prover")"
}

# herd7 is in no Debian that is released: its package, and what that needs, is unpacked
# beside.
run_litmus() {
    local root=''
    if ! command -v herd7 >/dev/null; then
        root=$RUN/litmus
        # shellcheck disable=SC2016 # expanded by mmdebstrap's shell
        have_root "$root" forky herdtools7 --variant=extract \
            --setup-hook='ln -s usr/lib "$1/lib"; ln -s usr/lib64 "$1/lib64"' ||
            skip_all "herd7 of Debian forky could not be downloaded"
    fi
    attend perl test/memory/litmus.pl "$root"
}

# Run a script that wants the headers of a server.
with_major() {
    attend env PATH="$PROGRAMS/$(default_major)/bin:$PATH" perl "$@"
}

cd "$SOURCE"
case $1 in
    format) run_format ;;
    model) need_program spin && attend perl test/model/model.pl ;;
    fuzz) need_program clang-14 && with_major test/hard/fuzz.pl "${SNOWFLAKE_SECONDS:-30}" ;;
    analyze) need_program clang-tidy-14 && with_major test/hard/analyze.pl ;;
    proof) run_proof ;;
    litmus) run_litmus ;;
    memory) need_program clang-14 && with_major test/memory/memory.pl ;;
    benchmark) test_command 'all topics can be measured' attend bench/run.sh --smoke ;;
    tools) test_command 'what is needed is unpacked, as far as there is any' fetch_tools ;;
    packages/*-*) attend perl test/first_hour.pl "${name%-*}" "${name#*-}" ;;
    packages/*) go_first && attend perl test/packages.pl "$name" "${SUITE[$name]}" ;;
    */build) make_place ;;
    *)
        [[ -f $RUN/$place.place ]] || skip_all "$place could not be built"
        # shellcheck disable=SC1090 # written by make_place()
        . "$RUN/$place.place"
        DIR=$ROOT$COPY
        case $place/$name in
            coverage/lines) as_tester perl test/hard/coverage.pl ;;
            faults/faults) as_tester perl test/hard/faults.pl ;;
            mutants/coverage) run_mutants coverage ;;
            mutants/*) run_mutants "$name" ;;
            schedules/schedules) as_tester perl test/hard/schedules.pl "${SNOWFLAKE_SCHEDULES% *}" "${SNOWFLAKE_SCHEDULES#* }" ;;
            coverage/*) tolerate run_suite ;;
            */upgrade-*) run_upgrade "${name#*-}" ;;
            */reports) as_tester perl test/hard/watch.pl "$place" reports ;;
            *) run_suite ;;
        esac
        ;;
esac
