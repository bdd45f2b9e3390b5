#!/usr/bin/env bash
#
# check.sh -- run the tests of snowflake, from nothing
#
# The one command behind "are the tests green?", for a user, a contributor and
# the continuous integration alike.  On a bare Debian or Ubuntu machine it
# installs what it needs and tests with the distribution's own PostgreSQL.
#
# snowflake supports several majors and a distribution has one.  For another
# major we fill a directory with the Debian release that has it, and do the same
# in there by chroot.  That needs root and the network.
#
# Here we list the tests and install packages; prove runs step.sh for each test,
# several at a time, and perl/Progress.pm shows how they go.  lib.sh tells how
# the rest of the machine is kept out of it.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

STEPS=(format model regress isolation tap twins integration stacks upgrade packages soak benchmark
    fuzz analyze proof litmus memory sanitize perturb schedules core faults mutants valgrind sqlsmith coverage i386 arm64)
DEFAULT=(format regress isolation tap twins)
TIMED=(soak fuzz sqlsmith twins memory perturb schedules mutants)     # that --minutes is for
SEEDED=(soak twins perturb schedules mutants)                         # that --seed is for
ACCEPT_IS_FOR='--accept is for SQL tests: --only NAME,NAME --accept'
JOBS=$((6 * $(nproc) < 16 ? 6 * $(nproc) : 16))     # tests mostly wait

# What a step needs, and is skipped without.  What a script needs is in its head,
# as "# Packages: ..."; "# Unpacked: ..." are packages that need no installation, and
# "# Npm: ..." a directory of test/ whose package.json names others.
declare -A PACKAGES=(
    [format]=clang-format-14
    [litmus]='mmdebstrap debian-archive-keyring'
    [stacks]='mmdebstrap debian-archive-keyring'
    [packages]='mmdebstrap debian-archive-keyring'
    [valgrind]=valgrind
    [i386]='mmdebstrap debian-archive-keyring arch-test'
    [arm64]='mmdebstrap debian-archive-keyring arch-test qemu-user-static'
)
declare -A MEGABYTES=([stacks]=100 [packages]=500)    # to download for each test of a place; for a major:
MAJOR_MEGABYTES=130

usage() {
    cat <<END
Usage: test/check.sh [OPTION...] [STEP...]

Build snowflake and run its tests on throwaway servers.  Ends with a line
"N passed, N failed", and with "N skipped" if anything was; exits with 0 if
nothing failed.  The steps are

  format       is the source formatted?
  model        models, searched for duplicates and for missed rows
  regress      SQL against expected output
  isolation    interleavings of several sessions
  tap          scripts that start, crash and restart servers
  twins        random queries, with the extension and with PL/pgSQL in its place
  integration  scripts that need other projects' programs
  stacks       libraries of other languages, and tools, in a bare Debian
  upgrade      pg_upgrade between majors
  packages     build, install and remove the packages, in a bare Debian
  soak         a fleet in which all breaks at random, and all promises are checked
  benchmark    does bench/run.sh work? on a shared machine it tells no times
  fuzz         libFuzzer on the parsers
  analyze      cppcheck, clang-tidy and gcc -fanalyzer
  proof        CBMC on the arithmetic of layouts
  litmus       herd7 on the barriers that ARM and POWER need
  memory       GenMC on the real files: all orders of steps, with weak memory; without
               GenMC, the scenarios are only compiled
  sanitize     the SQL tests with ASan and UBSan in the extension
  perturb      tests of concurrency, and the soak, with pauses between the extension's steps
  schedules    server processes whose steps come in orders that a seed chooses
  core         the tests that are not in lease_tests, of a server without leases
  faults       each rule of the code is switched off, and a test has to find it
  mutants      small mistakes at random, which tests have to find; goes on where it
               stopped; --only mutants/coverage learns which tests reach a line
  valgrind     the SQL tests under memcheck
  sqlsmith     random queries, whose only wrong answer is a crash
  coverage     which lines all tests together reach
  i386, arm64  the suites on another processor

and without any: ${DEFAULT[*]}.

  --pg MAJOR        with this major of PostgreSQL (default: the one installed,
                    or else the distribution's own)
  --pg-config PATH  with the installed server to which this program pg_config
                    belongs, such as one that was built from source; nothing is
                    written to it
  --all             with each of ${SUPPORTED[*]}; but each script with one of them,
                    by turns, unless its head says that much depends on the major;
                    and, by turns of commits (or SNOWFLAKE_TURN=0 to 5), a sixth of
                    stacks and packages, and one of analyze and proof
  --whole           leave nothing out: each script with each major, millions of rows
  --only NAME,...   only these tests: a TAP script such as 003_spilling, an SQL or
                    isolation test such as mint, or a name as it is printed, 17/regress
  --accept          with --only and SQL tests: what they print is expected from now
                    on, in expected/; read the difference before you commit it
  --list            say which tests these are, and run none
  --keep            keep the servers' directories, and say where they are
  --minutes N       soak so long (default: 1) and ask twins so long (default: ten
                    seconds), and give each fuzzer and sqlsmith a quarter of it
                    (default: fifteen seconds); search in memory what takes longer, and
                    so long in schedules (default: 1); with --only 090_plain, let its
                    storm last so long; begin mutants so long in each room
                    (default: until 20 compile)
  --seed N          soak with this order of faults, ask twins these queries, perturb
                    with these pauses, begin schedules with this one, make these
                    mutants (default: 1)
  --help            this text

A major that this distribution does not have is tested in a Debian that does,
which needs root (or sudo) and the network.  It is downloaded each time, unless
SNOWFLAKE_ROOTS names a directory that holds it as MAJOR.tar.
END
}

wants() { [[ " ${steps[*]} " == *" $1 "* ]]; }

wants_any() {
    local step
    for step; do
        ! wants "$step" || return 0
    done
    return 1
}

declare -A HERE=()              # major -> can this machine have it? apt is slow

is_here() {
    [[ ${HERE[$1]-} ]] || HERE[$1]=$({ [[ $pg_config ]] || is_packaged "$1"; } && echo yes || echo no)
    [[ ${HERE[$1]} == yes ]]
}

# The majors that are asked for.
choose_majors() {
    local version program
    exclude_each_other all pg pg_config
    exclude_each_other all accept
    [[ -z $accept || $only ]] || die "$ACCEPT_IS_FOR"
    majors=("${pg:-}")
    if [[ $all ]]; then
        majors=("${SUPPORTED[@]}")
    elif [[ $pg_config ]]; then
        [[ -f $pg_config && -x $pg_config ]] || die '--pg-config needs the path of a program pg_config'
        pg_config=$(realpath "$pg_config")
        version=$("$pg_config" --version) || die "\"$pg_config\" does not run"
        [[ $version =~ ^PostgreSQL\ ([1-9][0-9]) ]] ||
            die "\"$pg_config\" is no pg_config: it says \"${version%%$'\n'*}\""
        majors=("${BASH_REMATCH[1]}")
        for program in "$("$pg_config" --bindir)"/{postgres,initdb,psql,pg_config} "$("$pg_config" --pgxs)"; do
            [[ -f $program ]] || die "the server of \"$pg_config\" cannot be tested: there is no $program"
        done
    elif [[ -z $pg ]]; then
        majors=("$(default_major)")
    fi
    [[ " ${SUPPORTED[*]} " == *" ${majors[0]} "* ]] || die "snowflake supports PostgreSQL ${SUPPORTED[*]}"
}

# --- The tests

# Of many majors, those that have scripts, which take turns: a script runs with one of
# them, but with all if its head says "# Majors: all", as much depends on the major, and
# with the first if that says "# Majors: one", as nothing does.  One that needs more than
# a server runs with the first one that this machine has.
choose_turns() {
    local major
    turns=()
    turn_here=
    for major in "${majors[@]}"; do
        if is_here "$major"; then
            turn_here=${turn_here:-$major}
        elif [[ $major == 16 ]]; then
            continue
        fi
        turns+=("$major")
    done
}

# Has this script a turn in this place?
has_turn() {
    local script=$1 number
    [[ ! $whole && ${#turns[@]} -gt 1 && " ${turns[*]} " == *" $2 "* ]] || return 0
    ! grep -q '^# Majors: all$' "$script" || return 0
    if [[ $turn_here ]] && grep -q '^# \(Packages\|Unpacked\|Npm\): ' "$script"; then
        [[ $turn_here == "$2" ]]
        return
    fi
    number=${script##*/}
    number=${number%%[!0-9]*}
    ! grep -q '^# Majors: one$' "$script" || number=0
    [[ ${turns[10#${number:-0} % ${#turns[@]}]} == "$2" ]]
}

# With --all, print each Nth line of standard input; the commit decides which, or SNOWFLAKE_TURN.
# These tests take longest, and few changes need them.
take_turns() {
    local every=1 commit turn
    [[ ! $all || $whole || $only ]] || every=$1
    commit=$(git -c safe.directory='*' -C "$SOURCE" rev-parse --verify --quiet HEAD 2>/dev/null) || true
    turn=${SNOWFLAKE_TURN:-$((16#0${commit:0:7}))}
    awk -v every="$every" -v turn="$turn" 'NR % every == turn % every'
}

# The names of scripts in a directory, in a place.  Those whose head says "# Takes: long"
# begin first, so that none of them is alone at the end; then the last ones of t/.
list_scripts() {
    local script
    for script in "$SOURCE/test/$1"/*.pl; do
        ! has_turn "$script" "$2" || echo "$(grep -c '^# Takes: long$' "$script") $script"
    done | sort -r | sed "s,.*/\(.*\)\.pl$,$2/\1,"
}

# A place, and those of the suites there that are among the steps.
list_suites() {
    local place=$1 step
    shift
    echo "$place/build"
    for step in "$@"; do
        case $step in
            regress | isolation | twins) echo "$place/$step" ;;
            tap) list_scripts t "$place" ;;
        esac
    done
}

# The majors that are upgraded to this one: the last one before it, or all.
majors_before() {
    local old
    for old in "${majors[@]}"; do
        ((old >= $1)) || { [[ $old == 16 ]] && ! is_here 16; } || echo "$old"
    done | if [[ $whole ]]; then cat; else tail -n 1; fi
}

# The tests of a major; without any, it is not built.
list_major() {
    local old
    local -a users=(regress isolation tap twins integration upgrade)
    [[ $1 != "${majors[0]}" ]] || users+=(soak fuzz sqlsmith)
    wants_any "${users[@]}" || return 0
    if [[ $1 == 16 ]] && ! is_here 16; then
        echo 16/build           # says that there is none
        return
    fi
    if wants integration && is_here "$1"; then      # they take longest
        list_scripts integration "$1"
    fi
    list_suites "$1" "${steps[@]}"
    if wants upgrade && ! is_here "$1"; then
        for old in $(majors_before "$1"); do
            echo "$1/upgrade-$old"
        done
    fi
}

# What is perturbed: some tests that take seconds, and the soak; with --only, any script.
list_perturbed() {
    if [[ $only ]]; then
        list_suites perturb isolation tap
    else
        printf 'perturb/%s\n' build isolation 001_concurrent 046_settled
    fi
    echo perturb/soak
}

# A server without leases passes all tests but those in lease_tests.
list_core() {
    list_suites core regress isolation tap | grep -vwFf <(sed -n 's,^\([a-z0-9_]\+\) .*,core/\1,p' "$SOURCE/test/lease_tests")
}

# What is learned only when it is asked for, the rooms, and all of them in a table.
list_mutants() {
    echo mutants/build
    [[ " ${only[*]//,/ } " != *' mutants/coverage '* ]] || echo mutants/coverage
    perl "-I$SOURCE/test/perl" -MMutantRooms -e 'print "mutants/$_\n" for rooms(), "table"'
}

# Tests that need a bare Debian of their own.  That of the package is of one that is released.
list_bare() {
    local packaged=15
    ! wants stacks || list_scripts stacks stacks
    [[ ${majors[0]} =~ ^(16|19)$ ]] || packaged=${majors[0]}
    ! wants packages || printf 'packages/%s\n' "$packaged" bookworm-user ${whole:+trixie-root}
}

# All tests that are wanted.  Places are built, and their tests begin, in this order:
# compilers of other languages take longest, and packages, and what slows the extension
# down.  See write_rules() for those that stand alone.
list_tests() {
    local step major
    local -a bare seldom
    mapfile -t bare < <(list_bare | take_turns 6)
    mapfile -t seldom < <(printf '%s\n' proof analyze | take_turns 2)
    [[ " ${bare[*]}" != *' stacks/'* ]] || echo stacks/build
    ((${#bare[@]} == 0)) || printf '%s\n' "${bare[@]}"
    ! wants sanitize || printf 'sanitize/%s\n' build regress isolation reports
    ! wants perturb || list_perturbed
    ! wants schedules || printf 'schedules/%s\n' build schedules
    for major in "${majors[@]}"; do     # what is downloaded begins first
        is_here "$major" || list_major "$major"
    done
    for major in "${majors[@]}"; do
        ! is_here "$major" || list_major "$major"
    done
    for step in "${steps[@]}"; do
        case $step in
            format | model | benchmark | litmus | memory) echo "$step" ;;
            analyze | proof) [[ " ${seldom[*]} " != *" $step "* ]] || echo "$step" ;;
            fuzz) printf '%s\n' fuzz "${majors[0]}/text_input" ;;
            soak | sqlsmith) echo "${majors[0]}/$step" ;;
            core) list_core ;;
            faults) printf 'faults/%s\n' build faults ;;
            mutants) list_mutants ;;
            valgrind) printf 'valgrind/%s\n' build regress reports ;;
            coverage | i386 | arm64)
                list_suites "$step" regress isolation tap
                [[ $step != coverage ]] || echo coverage/lines
                ;;
        esac
    done
}

# Those with this name among the tests, and the builds that they need.
tests_named() {
    local only=$1 test
    shift
    for test in "$@"; do
        [[ $test == "$only" || $test == */"$only" ]] || continue
        printf '%s\n' "${test%/*}/build" "$test"
        [[ $test != */upgrade-* ]] || echo "${test##*-}/build"
    done
}

# The step that a test belongs to.
step_of() {
    case $1 in
        stacks/* | sanitize/* | perturb/* | schedules/* | core/* | faults/* | mutants/* | valgrind/* | coverage/* | i386/* | arm64/* | packages/*) echo "${1%/*}" ;;
        */upgrade-*) echo upgrade ;;
        */text_input) echo fuzz ;;
        */build) echo regress ;;
        */citus | */explore | */patroni | */pgactive | */pglogical | */readers | */timescaledb) echo integration ;;
        */regress | */isolation | */soak | */sqlsmith | */twins) echo "${1#*/}" ;;
        */*) echo tap ;;
        *) echo "$1" ;;
    esac
}

# Set "names", and "steps" to those that they belong to.
choose_tests() {
    choose_names
    [[ -z $(heads 'Unpacked\|Npm') ]] || names=(tools "${names[@]}")
}

choose_names() {
    choose_turns
    mapfile -t names < <(list_tests)
    ((${#names[@]})) || die "none of these tests has its turn in this commit; to run them all the same: --whole"
    [[ $only ]] || return 0
    name_suites
    select_tests
    mapfile -t steps < <(for name in "${names[@]}"; do step_of "$name"; done | sort -u)
}

# An SQL test, or an isolation test, is a part of a suite: set "only" to names of tests.
name_suites() {
    local name
    local -a sql=() specs=() tests=()
    for name in ${only//,/ }; do
        if [[ -f $SOURCE/test/sql/$name.sql ]]; then
            sql+=("$name")
            name=regress
        elif [[ -f $SOURCE/test/specs/$name.spec ]]; then
            specs+=("$name")
            name=isolation
        fi
        [[ -z $accept || $name == regress && ${#sql[@]} != 0 ]] ||
            die "$ACCEPT_IS_FOR"
        [[ " ${tests[*]} " == *" $name "* ]] || tests+=("$name")
    done
    [[ ",$only," != *,regress,* || ! ${sql[*]} ]] || die "--only regress runs all SQL tests, ${sql[0]} among them: name one or the other"
    [[ ",$only," != *,isolation,* || ! ${specs[*]} ]] || die "--only isolation runs all isolation tests, ${specs[0]} among them: name one or the other"
    only=("${tests[@]}")
    export SNOWFLAKE_SQL="${sql[*]}" SNOWFLAKE_SPECS="${specs[*]}" SNOWFLAKE_ACCEPT=$accept
}

# Leave of "names" those in "only".  If no step was asked for, a name may be of any.
select_tests() {
    local name
    local -a all=("${names[@]}") selected=() found
    if ((${#arguments[@]} == 0)); then
        steps=("${STEPS[@]}")
        mapfile -t all < <(list_tests)
    fi
    for name in "${only[@]}"; do
        mapfile -t found < <(tests_named "$name" "${names[@]}")
        ((${#found[@]})) || mapfile -t found < <(tests_named "$name" "${all[@]}")
        ((${#found[@]})) || die "there is no test \"$name\" in the steps ${steps[*]}"
        selected+=("${found[@]}")
    done
    mapfile -t names < <(printf '%s\n' "${all[@]}" | grep -Fx -f <(printf '%s\n' "${selected[@]}") | uniq)
}

# --- Packages

# Is this test one of a server, or of a machine, that is not here?
is_elsewhere() {
    case $1 in
        stacks/* | packages/* | i386/* | arm64/*) return 0 ;;
        [1-9]*/*) ! is_here "${1%/*}" ;;
        *) return 1 ;;
    esac
}

# What the heads of the scripts that run here say under these words, a line each.
heads() {
    local name script
    local -a scripts=(/dev/null)
    for name in "${names[@]}"; do
        for script in "$SOURCE"/test/{t,integration,model,memory,hard}/"${name##*/}.pl"; do
            [[ ! -f $script ]] || is_elsewhere "$name" || scripts+=("$script")
        done
    done
    sed -n "s/^# \($1\): //p" "${scripts[@]}" | sed "s/MAJOR/${majors[0]}/g" | sort -u
}

words() { tr ' ' '\n' | sed '/^$/d' | sort -u; }

# Add to "wanted" those of the packages that can be installed together with the
# others and with what is here: what a distribution has need not fit what else is
# installed.
add_installable() {
    if (($# == 0)) ||
        apt-get -qq -s --no-install-recommends install "${wanted[@]}" "$@" >/dev/null 2>&1; then
        wanted+=("$@")
    elif (($# > 1)); then
        add_installable "${@:1:$#/2}"
        add_installable "${@:$#/2+1}"
    fi
}

# Java, Node.js and its module may be here from elsewhere.
is_client_here() {
    case $1 in
        default-jdk-headless) java --list-modules 2>/dev/null | grep '^jdk\.compiler@' >/dev/null ;;
        nodejs | node-pg) command -v node >/dev/null ;;
        *) return 1 ;;
    esac
}

# The packages without which there is nothing to test.
list_needed() {
    local major
    echo perl
    for major in "${majors[@]}"; do
        if ! is_here "$major"; then
            echo "mmdebstrap debian-archive-keyring"
        else
            echo "libipc-run-perl $BUILD_PACKAGES"
            [[ $pg_config ]] || server_packages "$major"
        fi
    done
}

# The others, with the libraries of what is only unpacked.
list_others() {
    local step unpacked
    for step in "${steps[@]}"; do
        echo "${PACKAGES[$step]-}"
    done
    heads Packages
    unpacked=$(heads Unpacked)
    # shellcheck disable=SC2086 # one word for each package
    [[ -z $unpacked ]] || apt-cache depends $unpacked 2>/dev/null |
        sed -n 's/^  Depends: \(\(lib\|python3-\)[^<]*\)$/\1/p'
}

install_all() {
    local package
    local -a needed wanted=() others=()
    fetch_lists
    mapfile -t needed < <(list_needed | words)
    mapfile -t others < <(list_others | words)
    mapfile -t others < <(list_missing "${others[@]}")
    mapfile -t others < <(list_known "${others[@]}")
    for package in "${others[@]}"; do
        is_client_here "$package" || wanted+=("$package")
    done
    others=("${wanted[@]}")
    wanted=()
    begin_dots
    ((${#others[@]} == 0)) || add_installable "${others[@]}"
    end_dots
    install_packages "${needed[@]}" "${wanted[@]}" || install_packages "${needed[@]}" ||
        die 'cannot test without these packages'
}

# Say what is downloaded while the tests run.
announce() {
    local place megabytes sum=0
    local -a what=()
    for place in $(places); do
        [[ ${MEGABYTES[$place]-} ]] || is_elsewhere "$place/build" || continue
        [[ $place != 16 ]] || continue
        [[ ! -f ${SNOWFLAKE_ROOTS:-/nowhere}/$place.tar ]] || continue
        megabytes=$MAJOR_MEGABYTES
        [[ ! ${MEGABYTES[$place]-} ]] ||
            megabytes=$((MEGABYTES[$place] * $(printf '%s\n' "${names[@]}" | grep -v /build | grep -c "^$place/")))
        sum=$((sum + megabytes))
        what+=("$place ($megabytes MB)")
    done
    ((sum == 0)) || say "While tests run, a Debian is downloaded for each of ${what[*]}: $sum MB in all," \
        "$(((sum / SPEED + 59) / 60)) minutes at $SPEED MB/s"
}

# A number that no test asks for is a mistake.
check_numbers() {
    local -a scripts=("${only[@]/#/$SOURCE/test/t/}")
    [[ -z $minutes ]] || grep -qs SNOWFLAKE_LONG "${scripts[@]/%/.pl}" || wants_any "${TIMED[@]}" ||
        die "--minutes is for the steps ${TIMED[*]}"
    [[ -z $seed ]] || wants_any "${SEEDED[@]}" || die "--seed is for the steps ${SEEDED[*]}"
}

needs_root() {
    local major
    ((EUID != 0)) || return 1
    for major in "${majors[@]}"; do
        is_here "$major" || return 0
    done
    wants stacks || wants packages || wants i386 || wants arm64
}

places() { printf '%s\n' "${names[@]}" | sed -n 's,/.*,,p' | uniq; }

# The order of tests, for prove: what scripts wait for begins first; a place is built
# first, and pg_regress wants a directory that scripts do not; all else at the same time.
# Of what can begin, prove takes what stands by itself, and then the lists in their order.
# Tests without a place are a list, before the first major that this machine has: so what is
# downloaded begins earlier.
write_rules() {
    local place name alone=$'  - par:\n      - "*"'
    printf '%s\n' 'par:' '  - tools'
    for place in $(places); do
        if [[ $alone && $place == [1-9]* ]] && is_here "$place"; then
            say "$alone"
            alone=
        fi
        local -a suites=() scripts=() last=()
        for name in "${names[@]}"; do
            case $name in
                "$place"/build) ;;
                # these use the same directories
                "$place"/regress | "$place"/isolation | "$place"/reports | "$place"/upgrade-*) suites+=("$name") ;;
                "$place"/lines) last+=("$name") ;;
                mutants/*) [[ $place != mutants ]] || suites+=("$name") ;;
                "$place"/*) scripts+=("$name") ;;
            esac
        done
        printf '%s\n' '  - seq:' "      - $place/build" '      - par:'
        [[ -z ${suites[*]} ]] || printf '%s\n' '          - seq:' "${suites[@]/#/              - }"
        # what stands by itself would begin before what stands in a list
        [[ -z ${scripts[*]} ]] || printf '          - seq:\n              - %s\n' "${scripts[@]}"
        [[ -z ${last[*]} ]] || printf '      - %s\n' "${last[@]}"
    done
    [[ -z $alone ]] || say "$alone"
}

# prove in a group of processes of its own, which we can end.
run_tests() {
    SNOWFLAKE_UNPACKED=$(heads Unpacked | words | paste -sd ' ')
    SNOWFLAKE_NPM=$(heads Npm)
    SNOWFLAKE_STACKS=$(printf '%s\n' "${names[@]}" | sed -n '/build$/!s,^stacks/.*,test/&.pl,p' | paste -sd ' ')
    export SNOWFLAKE_UNPACKED SNOWFLAKE_NPM SNOWFLAKE_STACKS SNOWFLAKE_WHOLE=$whole
    export SNOWFLAKE_RUN=$RUN SNOWFLAKE_PG_CONFIG=$pg_config SNOWFLAKE_MAJOR=$pg
    ! wants mutants || seed=${seed:-1}
    seed=${seed:-$RANDOM}
    export SNOWFLAKE_SOAK="${minutes:-1} $seed" SNOWFLAKE_TWINS="$((${minutes:-0} * 60 ? minutes * 60 : 10)) $seed"
    export SNOWFLAKE_SCHEDULES="${minutes:-1} $seed"
    export SNOWFLAKE_SECONDS=$((${minutes:-1} * 15)) SNOWFLAKE_LONG=$minutes
    export HARNESS_RULESFILE=$RUN/rules.yml
    write_rules >"$HARNESS_RULESFILE"
    PERL5LIB=$SOURCE/test/perl attend setsid --wait \
        prove --merge --formatter Progress --jobs "$JOBS" --exec "bash $SOURCE/test/step.sh" "${names[@]}"
}

# --- A file system in memory

# Gigabytes of memory that can be filled: of this machine, and of our control group.
free_gigabytes() {
    local free limit used dir=/sys/fs/cgroup
    free=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
    read -r limit 2>/dev/null <$dir/memory.max || read -r limit 2>/dev/null <$dir/memory/memory.limit_in_bytes || limit=max
    read -r used 2>/dev/null <$dir/memory.current || read -r used 2>/dev/null <$dir/memory/memory.usage_in_bytes || used=0
    if [[ $limit =~ ^[0-9]{1,15}$ ]] && (((limit - used) / 1024 < free)); then
        free=$(((limit - used) / 1024))
    fi
    echo $((free >> 20))
}

# The tests make and remove a thousand data directories: in memory, that costs the kernel a
# quarter of the time.  Root begins again in a namespace of its own, where make_run() has a file
# system for the copies of the tree; it is gone with the last process, whatever happens.
move_into_memory() {
    [[ ! $keep && ! ${SNOWFLAKE_IN_MEMORY-} ]] && ((EUID == 0)) || return 0
    (($(free_gigabytes) >= 4 + 2 * ${#majors[@]})) || return 0
    unshare --mount --propagation private mount -t tmpfs snowflake /tmp 2>/dev/null || return 0
    SNOWFLAKE_IN_MEMORY=yes exec unshare --mount --propagation private "$0" "$@"
}

# Set RUN, the directory of this run.
make_run() {
    RUN=$(mktemp -d /var/tmp/snowflake.XXXXXX)
    touch "$RUN/copies"
    trap 'end_tests; cleanup' EXIT
    chmod 755 "$RUN"
    [[ ${SNOWFLAKE_IN_MEMORY-} ]] || return 0
    SNOWFLAKE_COPIES=$(mktemp -d /tmp/snowflake.XXXXXX)
    export SNOWFLAKE_COPIES
    mount -t tmpfs -o mode=1777 snowflake "$SNOWFLAKE_COPIES"
}

# shellcheck disable=SC2317 # called by a trap
remove_run() {
    local -a mounted
    if [[ ${SNOWFLAKE_COPIES-} ]]; then
        mapfile -t mounted < <(awk -v copies="$SNOWFLAKE_COPIES" -v run="$RUN/" \
            '$2 == copies || index($2, run) == 1 { print $2 }' /proc/mounts)
        ((${#mounted[@]} == 0)) || umount --lazy "${mounted[@]}"
        rmdir "$SNOWFLAKE_COPIES"
    fi
    discard "$RUN"
}

# Copies live in memory, in /tmp, or in the other Debians.
# shellcheck disable=SC2317 # called by a trap
end_tests() {
    local copy
    trap '' INT TERM HUP
    [[ -z $CHILD ]] || end_child "-$CHILD"
    CHILD=
    while read -r copy; do
        discard "$copy" "${keep:+keep}"
    done <"$RUN/copies"
    if [[ $keep ]]; then
        say "Kept: $(tr '\n' ' ' <"$RUN/copies")and $RUN"
    else
        remove_run
    fi
}

main() {
    local step status=0
    parse_options 'all whole pg=MAJOR pg-config=PATH only=NAME accept list keep minutes=N seed=N ...' "$@"
    steps=("${arguments[@]}")
    ((${#steps[@]})) || steps=("${DEFAULT[@]}")
    for step in "${steps[@]}"; do
        [[ " ${STEPS[*]} " == *" $step "* ]] || die "unknown step \"$step\"; see --help"
    done
    choose_majors
    [[ $list ]] || move_into_memory "$@"
    choose_tests
    check_numbers
    if [[ $list ]]; then
        printf '%s\n' "${names[@]}"
        exit
    fi
    if needs_root; then
        can_be_root || die 'another Debian needs root here, or sudo'
        exec sudo -- env SNOWFLAKE_ROOTS="${SNOWFLAKE_ROOTS-}" SNOWFLAKE_TURN="${SNOWFLAKE_TURN-}" "$0" "$@"
    fi
    install_all
    announce
    make_run
    run_tests || status=$?
    exit "$status"
}

main "$@"
