# shellcheck shell=bash
#
# lib.sh -- what check.sh, demo.sh and others share: a place where nothing can
# go wrong
#
# These scripts build snowflake and start PostgreSQL servers, on machines that
# may have nothing installed and on machines whose databases matter.  So:
#
# - Packages come from the machine's own apt, and only those that are missing.
#   Debian's server package creates and starts a cluster when it is installed;
#   for the moment of our installation that is switched off.
# - Work happens in a copy of the source tree in a directory of its own in
#   /tmp: the path of a Unix socket must stay below 108 bytes, so it has to be
#   short.  Data directory and socket are in there too, nothing listens on the
#   network, and the extension is staged there instead of installed.
# - The server refuses to run as root, so root hands the copy to "postgres"
#   (or to "nobody", for what needs no server).
# - The copy is used with an empty environment: somebody's PGHOST, PGDATA or
#   PGOPTIONS never gets in.
# - Whatever happens, the end is the same: servers stopped, copy removed.
#
# To be sourced.  Sets SOURCE, the top of the source tree.

export LC_ALL=C                 # what apt-cache says is read by us

SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

# The arguments are what passed, failed and was skipped.
totals() {
    local line="$1 passed, $2 failed"
    if (($3)); then
        line+=", $3 skipped"
    fi
    say "$line"
}

# Count the tests in a file of TAP into $passed and $failed, and show them.
count_tap_file() {
    local line
    while IFS= read -r line; do
        case $line in
            'ok '*)
                passed=$((passed + 1))
                say "    ok      ${line#* - }"
                ;;
            'not ok '*)
                failed=$((failed + 1))
                say "    FAILED  ${line#* - }"
                ;;
            '# '*) say "    | ${line#\# }" ;;
        esac
    done <"$1"
}

# Add a tally "passed failed skipped" in a file to ours; if the time is given
# when that began, say it.  No tally means that what leaves it was killed, which
# is one failure.
add_tally() {
    local p=0 f=1 s=0
    [[ ! -s $1 ]] || read -r p f s <"$1"
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    [[ -z ${2-} ]] || say "  $(totals "$p" "$f" "$s") in $((SECONDS - $2)) s"
}

# Show the end of a file, set off so that no line of it reads as one of ours.
show_tail() {
    tail -n "$2" "$1" | sed 's/^/    | /'
}

# ---------------------------------------------------------------------------
# Ending
#
# Commands that take long run as a child that we wait for, because bash does
# not run a trap before the command in the foreground has ended.

CHILD=
SCRATCH=()                      # directories to remove
CREATECLUSTER=                  # our file that keeps Debian from creating one

attend() {
    local status=0
    "$@" &
    CHILD=$!
    wait "$CHILD" || status=$?
    CHILD=
    return "$status"
}

# Stop the servers whose data directory is below $1.  A postmaster's working
# directory is its data directory, which tells it from a process that merely
# got the number of one that is gone.
stop_servers() {
    local file pid
    local -a pids=()
    while IFS= read -r file; do
        read -r pid <"$file" || continue
        if [[ $(readlink "/proc/$pid/cwd") == "${file%/*}" ]]; then
            kill -QUIT "$pid"
            pids+=("$pid")
        fi
    done < <(find "$1" -name postmaster.pid 2>/dev/null)
    for pid in "${pids[@]}"; do
        for _ in {1..50}; do
            [[ -d /proc/$pid ]] || break
            sleep 0.1
        done
    done
}

# End a child of ours: politely, then not.  unshare takes no polite word, but
# all that it started dies with it.
end_child() {
    kill "$1" 2>/dev/null || true
    for _ in {1..30}; do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

discard() {
    stop_servers "$1" || true
    rm -rf --one-file-system "$1"
}

cleanup() {
    local dir
    trap '' INT TERM HUP
    [[ -z $CHILD ]] || end_child "$CHILD"
    allow_clusters
    for dir in "${SCRATCH[@]}"; do
        discard "$dir"
    done
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---------------------------------------------------------------------------
# Packages

GIVEN_CONFIG=                   # of the installed server that the user named

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        sudo -- "$@"
    fi
}

can_be_root() {
    ((EUID == 0)) || command -v sudo >/dev/null
}

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Ask for the package lists once in a run.  Its failure shows when something
# is installed, or does not matter.
refresh_lists() {
    if [[ -z ${LISTS_FRESH-} ]] && can_be_root; then
        LISTS_FRESH=yes
        as_root apt-get -qq update >/dev/null 2>&1 </dev/null || true
    fi
}

knows_package() {
    apt-cache show "$1" >/dev/null 2>&1
}

# On a fresh machine or in a container image apt knows no package at all.
has_package() {
    knows_package postgresql || refresh_lists
    knows_package "$1"
}

# The major version of PostgreSQL that this distribution ships.
distribution_major() {
    has_package postgresql || die "apt knows no package named postgresql; try apt-get update"
    apt-cache depends postgresql |
        sed -n '0,/Depends: postgresql-\([0-9]\+\)$/s/.*Depends: postgresql-\([0-9]\+\)$/\1/p'
}

# Can this machine have that major?  If apt knows nothing, suppose so: its
# installation will tell.
is_packaged() {
    is_installed "postgresql-server-dev-$1" ||
        has_package "postgresql-server-dev-$1" ||
        ! knows_package postgresql
}

build_packages() {
    local server="postgresql-$1 postgresql-server-dev-$1"
    if [[ $GIVEN_CONFIG ]]; then
        server=
    fi
    echo "make gcc libc6-dev $server"
}

# Take the value of the option --pg.
choose_major() {
    [[ $1 =~ ^[1-9][0-9]$ ]] || die "--pg needs a major version, such as 15"
    major=$1
}

# Have the server and the headers of $major, the distribution's own if there is
# none yet, and the packages named.
need_major() {
    if [[ -z $major ]]; then
        major=$(distribution_major)
    fi
    is_packaged "$major" || die "PostgreSQL $major is not in this distribution"
    # shellcheck disable=SC2046 # one word for each package
    install_packages $(build_packages "$major") "$@" || die "cannot go on without these packages"
}

forbid_clusters() {
    local dir=/etc/postgresql-common/createcluster.d
    CREATECLUSTER=$dir/snowflake-test.conf
    as_root mkdir -p "$dir"
    as_root tee "$CREATECLUSTER" >/dev/null <<<'create_main_cluster = false'
}

allow_clusters() {
    if [[ -n $CREATECLUSTER ]]; then
        as_root rm -f "$CREATECLUSTER"
        as_root rmdir --ignore-fail-on-non-empty "${CREATECLUSTER%/*}" || true
        CREATECLUSTER=
    fi
}

# Install those of the named packages that are missing.
install_packages() {
    local package log status=0
    local -a missing=()
    if ! command -v dpkg-query >/dev/null; then
        say "Without Debian's package manager, what it calls $* must be there"
        return 0
    fi
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    ((${#missing[@]})) || return 0

    if ! can_be_root; then
        say "These packages are missing, and there is no sudo to install them with:"
        say "    ${missing[*]}"
        say "Ask for:  apt-get install --no-install-recommends ${missing[*]}"
        return 1
    fi
    say "Installing ${missing[*]}"
    refresh_lists
    if [[ " ${missing[*]}" == *" postgresql-"[0-9]* ]]; then
        forbid_clusters
    fi
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
        -o DPkg::Lock::Timeout=300 install --no-install-recommends \
        "${missing[@]}" >"$log" 2>&1 </dev/null || status=$?
    allow_clusters
    ((status == 0)) || show_tail "$log" 20
    rm -f "$log"
    return "$status"
}

# ---------------------------------------------------------------------------
# Other Debians
#
# Each is a directory that mmdebstrap fills with packages.  That is mostly
# waiting for the network, so it goes on while tests run.  In /var/tmp, since
# /tmp may be memory, and may not allow device files.

declare -A ROOT_DIR=()          # name -> directory
declare -A BUILDER=()           # name -> process that fills it

# Start to fill the root of a name with the packages of a Debian, unless
# SNOWFLAKE_ROOTS has it.  More arguments are mmdebstrap's.
begin_root() {
    local name=$1 packages=$3 dir
    local -a release=("$2")
    shift 3
    dir=$(mktemp -d "/var/tmp/snowflake-$name.XXXXXX")
    SCRATCH+=("$dir")
    ROOT_DIR[$name]=$dir/root
    chmod 755 "$dir"
    if [[ ! -f ${SNOWFLAKE_ROOTS:-/nowhere}/$name.tar ]]; then
        # experimental is an addition to sid, of which apt takes what it is told to
        if [[ ${release[0]} == experimental ]]; then
            # shellcheck disable=SC2016 # expanded by mmdebstrap
            release=(sid --setup-hook='
                sed "s/ sid / experimental /" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/experimental.list"
                printf "%s\n" "Package: postgresql-* libpq*" "Pin: release a=experimental" "Pin-Priority: 990" \
                    >"$1/etc/apt/preferences.d/experimental"')
        fi
        # An archive may be a snapshot, whose index is past its date.
        nice mmdebstrap --variant=apt --format=directory "$@" \
            --aptopt='Acquire::Check-Valid-Until "false"' \
            --include="${packages// /,}" \
            "${release[@]}" "$dir/root" </dev/null >"$dir/log" 2>&1 &
        BUILDER[$name]=$!
    fi
}

# Have that root ready, or skip what it is for.
finish_root() {
    local name=$1 what=$2 dir=${ROOT_DIR[$1]} status=0
    if [[ -z ${BUILDER[$name]-} ]]; then
        mkdir "$dir"
        attend tar -C "$dir" -xf "$SNOWFLAKE_ROOTS/$name.tar" ||
            die "$SNOWFLAKE_ROOTS/$name.tar could not be unpacked"
        return
    fi
    wait "${BUILDER[$name]}" || status=$?
    unset "BUILDER[$name]"
    if ((status != 0)); then
        skip "$what" "its Debian could not be downloaded"
        show_tail "${dir%/*}/log" 5
        return 1
    fi
}

end_builders() {
    local name
    for name in "${!BUILDER[@]}"; do
        end_child "${BUILDER[$name]}"
    done
}

# ---------------------------------------------------------------------------
# The copy
#
# ROOT is the root directory of the machine in which the copy is used: empty
# for this one, else a directory that holds another Debian.  COPY is the
# copy's directory as seen from within.  TESTER is the user that root hands it
# to.

ROOT=
COPY=
TESTER=postgres
BINDIR=                         # the server's programs, if not where Debian has them,
LIBDIR=                         # and its libraries, if they are a copy

# A copy of the source tree for the unprivileged user, in $COPY/tree of root $1.
make_copy() {
    local dir
    ROOT=$1
    dir=$(mktemp -d "$ROOT/tmp/snowflake.XXXXXX")
    SCRATCH+=("$dir")
    COPY=${dir#"$ROOT"}
    mkdir "$dir/tree" "$dir/tmp"
    tar -C "$SOURCE" -cf - --exclude-vcs --exclude='*.o' --exclude='*.bc' \
        --exclude='*.so' --exclude=./results --exclude=./output_iso \
        --exclude='./tmp_check*' --exclude=./log --exclude='./regression.*' . |
        tar -C "$dir/tree" -xf - --no-same-owner
    if ((EUID == 0)); then
        chroot "$ROOT/" chown -R "$TESTER:" "$COPY"
    fi
}

# Run a command in another root.  Mounts and processes live in namespaces of
# their own, so both are gone with the command, however it ends; and the
# binding of /dev can be met by no rm -rf of ours.  The shell stays, as
# process 1 in there, to reap the orphans.
enter_root() {
    local root=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    attend unshare --mount --propagation unchanged --pid --fork --kill-child bash -c '
        mount --make-rprivate / 2>/dev/null     # fails, harmless, in a chroot
        mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" || exit 125
        chroot "$0" "$@"
        exit $?' "$root" "$@"
}

# Run a command as an unprivileged user in the copy, with the programs of
# PostgreSQL $1 first in its path.
as_tester() {
    local major=$1
    shift
    # A child of a script starts out deaf to SIGINT, which a test may need.
    # shellcheck disable=SC2016 # expanded by the inner shell
    local -a command=(
        env -i --default-signal "PATH=${BINDIR:-/usr/lib/postgresql/$major/bin}:/usr/local/bin:/usr/bin:/bin"
        "HOME=$COPY" "TMPDIR=$COPY/tmp" SHELL=/bin/sh LC_ALL=C ${LIBDIR:+"LD_LIBRARY_PATH=$LIBDIR"}
        bash -c 'cd "$HOME/tree" && exec "$@"' bash "$@")

    if ((EUID == 0)); then
        command=(runuser -u "$TESTER" -- "${command[@]}")
    fi
    if [[ -n $ROOT ]]; then
        enter_root "$ROOT" "${command[@]}"
    else
        attend "${command[@]}"
    fi
}

# ---------------------------------------------------------------------------
# Any installed server
#
# Debian's packages find an extension that is staged (stage.sh), and so do
# servers of 18 and later.  An older server that was built from source finds
# extensions only in its own directories, which are not ours to write to.  But
# such an installation, below one directory, works wherever it is: we copy it,
# and install into the copy.

# Take the value of the option --pg-config; sets $major.
choose_server() {
    local option version
    [[ -f $1 && -x $1 ]] || die "--pg-config needs the path of a program pg_config"
    GIVEN_CONFIG=$(realpath "$1")
    version=$("$GIVEN_CONFIG" --version) || die "\"$1\" does not run"
    [[ $version =~ ^PostgreSQL\ ([1-9][0-9]) ]] || die "\"$1\" is no pg_config: it says \"${version%%$'\n'*}\""
    major=${BASH_REMATCH[1]}
    BINDIR=$("$GIVEN_CONFIG" --bindir)
    for option in "$BINDIR"/{postgres,initdb,psql,pg_config} "$("$GIVEN_CONFIG" --pgxs)"; do
        [[ -f $option ]] || die "the server of \"$1\" cannot be tested: there is no $option"
    done
    id postgres >/dev/null 2>&1 || TESTER=nobody
}

# Copy that server beside the copy of the tree, if it has a directory of its own.
copy_server() {
    local prefix=${BINDIR%/bin} option path
    local -a paths=()
    for option in bindir libdir sharedir includedir; do
        path=$("$GIVEN_CONFIG" "--$option")
        [[ $path == "$prefix"/* && $prefix != /usr ]] || return 0
        paths+=("${path#"$prefix"/}")
    done
    mkdir "$COPY/server"
    tar -C "$prefix" -cf - "${paths[@]}" | tar -C "$COPY/server" -xf - --no-same-owner
    if ((EUID == 0)); then
        chown -R "$TESTER:" "$COPY/server"
    fi
    BINDIR=$COPY/server/bin
    LIBDIR=$COPY/server/${paths[1]}
}

# ---------------------------------------------------------------------------
# A server in the copy, of PostgreSQL $major

# Run a command as the server's user; say what it said only if it fails.
quietly() {
    local log=${SCRATCH[0]}/log
    if ! as_tester "$major" "$@" >"$log" 2>&1; then
        show_tail "$log" 40
        die "failed: $*"
    fi
}

# Build the extension and start a server with it and with the settings given.
# It listens on a socket in the copy, which only its user can enter, so any
# port is free and nobody needs a password.
start_server() {
    quietly bash test/stage.sh "$COPY/stage"
    quietly initdb --no-sync --auth=trust --username=postgres --encoding=UTF8 \
        --pgdata="$COPY/data"
    cat "$COPY/stage/server.conf" - >>"$COPY/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$COPY'
timezone = 'UTC'
$1
END
    quietly pg_ctl start --wait --pgdata="$COPY/data" --log="$COPY/server.log"
}

# Run a client of that server.
with_server() {
    as_tester "$major" env PGHOST="$COPY" PGUSER=postgres PGDATABASE=postgres "$@"
}
