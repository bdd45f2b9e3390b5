# shellcheck shell=bash
#
# lib.sh -- what check.sh, demo.sh and bench share: a place where nothing can go
# wrong
#
# These scripts build snowflake and start PostgreSQL servers, on machines that
# may have nothing installed and on machines whose databases matter.  So:
#
# - Packages come from the machine's own apt, and only those that are missing.
# - Work happens in a copy of the source tree in a directory of its own in
#   /tmp: the path of a Unix socket must stay below 108 bytes, so it has to be
#   short.  Data directory and socket are in there too, nothing listens on the
#   network, and the extension is staged there instead of installed.
# - The server refuses to run as root, so root hands the copy to "postgres".
# - The copy is used with an empty environment: somebody's PGHOST, PGDATA or
#   PGOPTIONS never gets in.
# - Whatever happens, the end is the same: servers stopped, copy removed.
#
# To be sourced.  Sets SOURCE, the top of the source tree.

export LC_ALL=C                 # what apt says is read by us

SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PROGRAMS=/usr/lib/postgresql    # where Debian has the server's, by major
SUPPORTED=(15 16 17 18 19)      # majors
BUILD_PACKAGES='make gcc libc6-dev'
SPEED=5                         # megabytes in a second, if the network is an ordinary one
# shellcheck disable=SC2034 # for the scripts that source this
declare -A SUITE=([15]=bookworm [17]=trixie [18]=forky [19]=experimental) # the Debian of each; none has 16

say() { printf '%s\n' "$*"; }

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

# Show the end of a file, each line set off.
show_tail() { tail -n "$2" "$1" | sed 's/^/    | /'; }

# Read a script's options.  The first argument names those that it has: "keep"
# sets $keep to yes, "pg=MAJOR" wants a value and sets $pg, and "seconds=N" wants a
# number.  With "..." there may be arguments, which go to the array "arguments".
parse_options() {
    local known=" $1 " name value
    shift
    arguments=()
    for name in $known; do
        name=${name%%=*}
        [[ $name == ... ]] || printf -v "${name//-/_}" '%s' ''
    done
    while (($#)); do
        name=${1#--}
        case $1 in
            --help)
                usage
                exit
                ;;
            --*)
                if [[ $known == *" $name "* ]]; then
                    printf -v "${name//-/_}" yes
                elif [[ $known =~ " $name="([^ ]+)" " ]]; then
                    value=${BASH_REMATCH[1]}
                    [[ ${2-} && ($value != N || $2 =~ ^[1-9][0-9]{0,8}$) ]] ||
                        die "--$name needs a value: --$name $value"
                    printf -v "${name//-/_}" %s "$2"
                    shift
                else
                    die "unknown option \"$1\"; see --help"
                fi
                ;;
            *)
                [[ $known == *' ... '* ]] || die "unknown argument \"$1\"; see --help"
                arguments+=("$1")
                ;;
        esac
        shift
    done
}

# Of these options at most one may be given.
exclude_each_other() {
    local option
    local -a given=()
    for option in "$@"; do
        [[ -z ${!option} ]] || given+=("--${option//_/-}")
    done
    ((${#given[@]} < 2)) || die "${given[0]} and ${given[1]} exclude each other"
}

# --- Ending
#
# Commands that take long run as a child that we wait for, because bash does
# not run a trap before the command in the foreground has ended.

CHILD=
SCRATCH=()                      # directories to remove
LOG=                            # of a command, to remove
DOTS=                           # the process that writes them
UNPACKING=                      # is apt changing the machine?
CREATECLUSTER=                  # our file that tells Debian what cluster to create

attend() {
    local status=0
    "$@" &
    CHILD=$!
    wait "$CHILD" || status=$?
    CHILD=
    return "$status"
}

# A dot every five seconds, so that nobody takes what says nothing for what has died,
# until end_dots().  It has no child that could outlive it.
begin_dots() {
    DOTS_BEGAN=${EPOCHREALTIME/[.,]/}
    (
        exec {nothing}<> <(:)
        while [[ -d /proc/$$ ]] && ! read -r -t 5 -u "$nothing" _; do
            printf .
        done
    ) &
    DOTS=$!
}

# By SIGKILL: a signal that comes before its trap would be lost.
end_dots() {
    [[ $DOTS ]] || return 0
    kill -KILL "$DOTS" 2>/dev/null || true
    wait "$DOTS" 2>/dev/null || true
    ((${EPOCHREALTIME/[.,]/} - DOTS_BEGAN < 5000000)) || echo
    DOTS=
}

# Stop the servers whose data directory is below $1, and remove it.  A
# postmaster's working directory is its data directory, which tells it from a
# process that merely got the number of one that is gone.  What else works there, such as
# an initdb that was interrupted, would write on.
discard() {
    local file pid
    local -a others
    while IFS= read -r file; do
        read -r pid <"$file" || continue
        [[ $(readlink "/proc/$pid/cwd") == "${file%/*}" ]] || continue
        kill -QUIT "$pid"
        for _ in {1..50}; do
            [[ -d /proc/$pid ]] || break
            sleep 0.1
        done
    done < <(find "$1" -name postmaster.pid 2>/dev/null)
    for _ in {1..50}; do
        mapfile -t others < <(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$1/*" -printf '%h\n' 2>/dev/null)
        ((${#others[@]})) || break
        kill -KILL "${others[@]#/proc/}" 2>/dev/null || true
        sleep 0.1
    done
    [[ ${2-} == keep ]] || rm -rf --one-file-system "$1"
}

# End a child politely, then not.  unshare takes no polite word, but all that it
# started dies with it.  "-PID" is a group of processes.
end_child() {
    kill -TERM -- "$1" 2>/dev/null || return 0
    for _ in {1..80}; do
        kill -0 -- "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "$1" 2>/dev/null || true
}

cleanup() {
    local dir
    trap '' INT TERM HUP
    end_dots
    [[ -z $CHILD ]] || end_child "$CHILD"
    release_clusters
    [[ -z $UNPACKING ]] ||
        say "apt was interrupted, and may have left packages half installed. To finish: dpkg --configure -a, as root" >&2
    rm -f "$LOG"
    for dir in "${SCRATCH[@]}"; do
        discard "$dir"
    done
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- Packages: first we look at what is installed, then we ask apt

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        sudo -- "$@"
    fi
}

# May we do what only root may?  sudo may ask for a password.
can_be_root() {
    ((EUID == 0)) || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || sudo -v; }; }
}

knows_package() { apt-cache show "$1" >/dev/null 2>&1; }

# On a fresh machine, or in the image of a container, apt knows no package, and its
# lists are to be fetched once.
fetch_lists() {
    [[ -z ${LISTS_FETCHED-} ]] && ! knows_package postgresql && can_be_root || return 0
    export LISTS_FETCHED=yes
    say "Fetching apt's lists of packages, which are empty" >&2
    begin_dots >&2
    as_root apt-get -qq update >/dev/null 2>&1 </dev/null || true
    end_dots >&2
}

has_package() {
    fetch_lists
    knows_package "$1"
}

# Of these packages, those that are not installed, and those that apt knows.
list_missing() {
    printf '%s\n' "$@" | grep -Fvx -f <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
        sed -n 's/^installed //p') || true
}

list_known() { (($# == 0)) || apt-cache show --no-all-versions "$@" 2>/dev/null | sed -n 's/^Package: //p' | sort -u; }

# Is that major here, with what an extension is built with?
is_major_installed() {
    local config=$PROGRAMS/$1/bin/pg_config     # the client's package has it, too, and pgxs
    [[ -x $PROGRAMS/$1/bin/postgres && -f $("$config" --pgxs 2>/dev/null) &&
        -f $("$config" --includedir-server 2>/dev/null)/postgres.h ]]
}

# The latest major that is installed, or else the distribution's own.
default_major() {
    local major
    for major in $(printf '%s\n' "${SUPPORTED[@]}" | sort -r); do
        if is_major_installed "$major"; then
            echo "$major"
            return
        fi
    done
    has_package postgresql ||
        die "no PostgreSQL is installed, and apt knows no package \"postgresql\"; try: apt-get update"
    apt-cache depends postgresql |
        sed -n '0,/Depends: postgresql-\([0-9]\+\)$/s/.*Depends: postgresql-\([0-9]\+\)$/\1/p'
}

# Can this machine have that major?
is_packaged() { is_major_installed "$1" || has_package "postgresql-server-dev-$1"; }

# The packages of a server that is missing here.
server_packages() { is_major_installed "$1" || echo "postgresql-$1 postgresql-server-dev-$1"; }

# Debian's server package creates a cluster, "main", and starts it.  On a machine
# that has a cluster it shall create none.  Else it shall, as README's "Install"
# begins with one, but shall not start it.
hold_clusters() {
    local dir=/etc/postgresql-common/createcluster.d setting="start_conf = 'manual'"
    ! compgen -G '/etc/postgresql/*/*' >/dev/null || setting='create_main_cluster = false'
    CREATECLUSTER=$dir/snowflake-test.conf
    as_root mkdir -p "$dir"
    as_root tee "$CREATECLUSTER" >/dev/null <<<"$setting"
}

# From now on clusters are created and started as ever, that one, too.
release_clusters() {
    local start
    [[ $CREATECLUSTER ]] || return 0
    if grep -q manual "$CREATECLUSTER"; then
        for start in /etc/postgresql/*/main/start.conf; do
            [[ ! -f $start ]] || as_root sed -i 's/^manual$/auto/' "$start"
        done
    fi
    as_root rm -f "$CREATECLUSTER"
    as_root rmdir --ignore-fail-on-non-empty "${CREATECLUSTER%/*}" || true
    CREATECLUSTER=
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "$@" </dev/null 2>&1
}

# What apt would do, as it says: how much that is, and how long it takes.
how_much() {
    awk -v speed="$SPEED" '
        / newly installed, / { packages = $3 }
        /^Need to get / { unit = $5; sub("/.*", "", unit); download = $4; size["B"] = 1e-6; size["kB"] = 1e-3; size["MB"] = 1; size["GB"] = 1e3
                          seconds = $4 * size[unit] / speed }
        /^After this operation, / { disk = $4 " " $5 }
        END { seconds += packages / 3 + 5
              printf "%d packages, %s %s to download, %s on disk, about %d %s", packages, download, unit, disk,
                  (seconds < 100 ? seconds : seconds / 60 + 1), (seconds < 100 ? "s" : "min") }' "$1"
}

# Install those of the named packages that are missing.  Say before how much that
# is; a dot every five seconds shows that it goes on.
install_packages() {
    local status=0
    local -a missing=()
    command -v dpkg-query >/dev/null || {
        say "Without Debian's package manager, what it calls $* must be there"
        return 0
    }
    mapfile -t missing < <(list_missing "$@")
    ((${#missing[@]})) || return 0
    if ! can_be_root; then
        say "Packages are missing, and user $(id -un) may not run apt-get as root: sudo is missing, or refused"
        say "Ask for:  apt-get install --no-install-recommends ${missing[*]}"
        return 1
    fi
    fetch_lists
    LOG=$(mktemp)
    begin_dots
    apt_install -o APT::Get::Assume-Yes=false --assume-no "${missing[@]}" >"$LOG" || true
    end_dots
    say "Installing ${missing[*]} with apt: $(how_much "$LOG")"
    [[ " ${missing[*]}" != *" postgresql-"[0-9]* ]] || hold_clusters
    UNPACKING=yes
    begin_dots
    # a trap that runs where the output goes to the log would say what to do to the log
    (trap : INT; apt_install -q -y "${missing[@]}") >"$LOG" || status=$?
    end_dots
    UNPACKING=
    release_clusters
    ((status == 0)) || show_tail "$LOG" 20
    rm -f "$LOG"
    return "$status"
}

# Have the server of major $pg, by default any, its headers, and the packages
# named.  Sets $major.
need_major() {
    major=${pg-}
    [[ $major ]] || major=$(default_major)
    is_packaged "$major" || die "PostgreSQL $major is not in this distribution"
    # shellcheck disable=SC2046,SC2086 # one word for each package
    install_packages $BUILD_PACKAGES $(server_packages "$major") "$@" || die "cannot go on without these packages"
}

# Have the directory $1, filled with the packages $3 of the Debian $2, unless the
# directory SNOWFLAKE_ROOTS has it as a file NAME.tar, by the name of $1.  More
# arguments are mmdebstrap's.  Fails if it cannot be downloaded, and says why.
have_root() {
    local root=$1 log=$1.log packages=$3 tar=${SNOWFLAKE_ROOTS:-/nowhere}/${1##*/}.tar
    local -a release=("$2") fill
    shift 3
    # experimental is an addition to sid, of which apt takes what it is told to
    if [[ ${release[0]} == experimental ]]; then
        # shellcheck disable=SC2016 # expanded by mmdebstrap
        release=(sid --setup-hook='
            sed "s/ sid / experimental /" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/experimental.list"
            printf "%s\n" "Package: postgresql-* libpq*" "Pin: release a=experimental" "Pin-Priority: 990" \
                >"$1/etc/apt/preferences.d/experimental"')
    fi
    # An archive may be a snapshot, whose index is past its date.
    fill=(mmdebstrap --variant=apt --format=directory --dpkgopt=force-unsafe-io "$@" --aptopt='Acquire::Check-Valid-Until "false"'
        --include="${packages// /,}" "${release[@]}" "$root")
    if [[ -f $tar ]]; then
        mkdir "$root"
        fill=(tar -C "$root" -xf "$tar")
    fi
    attend "${fill[@]}" >"$log" 2>&1 </dev/null || {
        tail -n 5 "$log" | sed 's/^/# /'
        return 1
    }
    chmod 755 "$root"
}

# --- The copy
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
    local dir parent=${1:+$1/tmp}
    ROOT=$1
    dir=$(mktemp -d "${parent:-${SNOWFLAKE_COPIES:-/tmp}}/snowflake.XXXXXX")
    SCRATCH+=("$dir")
    COPY=${dir#"$ROOT"}
    mkdir "$dir/tree" "$dir/tmp"
    # what nobody may write to could not be removed
    tar -C "$SOURCE" -cf - --mode=u+rwX --exclude-vcs --exclude='*.o' --exclude='*.bc' \
        --exclude='*.so' --exclude=./results --exclude=./output_iso \
        --exclude='./tmp_check*' --exclude=./log --exclude='./regression.*' . |
        tar -C "$dir/tree" -xf - --no-same-owner
    own_copy
}

own_copy() { ((EUID != 0)) || chroot "$ROOT/" chown -R "$TESTER:" "$COPY"; }

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
# PostgreSQL $major first in its path.
as_tester() {
    # A child of a script starts out deaf to SIGINT, which a test may need.
    # shellcheck disable=SC2016 # expanded by the inner shell
    local -a command=(
        env -i --default-signal "PATH=${BINDIR:-$PROGRAMS/$major/bin}:/usr/local/bin:/usr/bin:/bin"
        "HOME=$COPY" "TMPDIR=$COPY/tmp" SHELL=/bin/sh LC_ALL=C ${LIBDIR:+"LD_LIBRARY_PATH=$LIBDIR"}
        bash -c 'cd "$HOME/tree" && exec "$@"' bash "$@")

    ((EUID != 0)) || command=(runuser -u "$TESTER" -- "${command[@]}")
    if [[ $ROOT ]]; then
        enter_root "$ROOT" "${command[@]}"
    else
        attend "${command[@]}"
    fi
}

# --- A server in the copy, of PostgreSQL $major

# Run a command as the server's user; say what it said only if it fails.
quietly() {
    as_tester "$@" >"${SCRATCH[0]}/log" 2>&1 || {
        show_tail "${SCRATCH[0]}/log" 40
        die "failed: $*"
    }
}

# Build the extension and start a server with it and with the settings given.
# It listens on a socket in the copy, which only its user can enter, so any
# port is free and nobody needs a password.
start_server() {
    quietly bash test/stage.sh "$COPY/stage"
    quietly initdb --no-sync --auth=trust --username=postgres --encoding=UTF8 --pgdata="$COPY/data"
    cat "$COPY/stage/server.conf" - >>"$COPY/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$COPY'
timezone = 'UTC'
$1
END
    quietly pg_ctl start --wait --pgdata="$COPY/data" --log="$COPY/server.log"
}

# Run a client of that server.
with_server() { as_tester env PGHOST="$COPY" PGUSER=postgres PGDATABASE=postgres "$@"; }
