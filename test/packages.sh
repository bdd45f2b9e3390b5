#!/usr/bin/env bash
#
# packages.sh -- build snowflake's packages, install them and run their tests
#
#   test/packages.sh MAJOR SUITE [DIRECTORY]
#
# for a Debian release and the major of PostgreSQL that it has, such as
# 15 bookworm.  Needs root, the network, and mmdebstrap.  Everything happens in
# copies of a bare Debian that is made for this.  It checks
#
#   doc/install.md  by a user with sudo, with the commands and the SQL of the page
#                 and no other: the package is built with its tests, installed,
#                 configured, mints, is upgraded, and is uninstalled without a
#                 trace, and all rows stay; the same from source
#   debian/       lintian looks at that package, and autopkgtest tests it in a
#                 Debian that has the server alone
#   make dist     of the last commit: both archives, built and installed by
#                 PGXN's client
#   rpm/          built from the archive with rpmbuild, in PGDG's directories
#   Dockerfile    its steps carried out by hand, since there is no Docker here
#
# Prints a line for each check.  check.sh gives a directory to work in, and finds
# "passed failed skipped" in its file tally.

# shellcheck disable=SC2317 # functions are called by way of check()

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

(($# == 2 || $# == 3)) || die "usage: test/packages.sh MAJOR SUITE [DIRECTORY]"
major=$1
suite=$2

PAGE=$SOURCE/doc/install.md
TOOLS=(elfutils git lintian pgxnclient rpm rpmlint unzip)

passed=0
failed=0
skipped=0

leave() {
    echo "$passed $failed $skipped" >"$DIR/tally"
    [[ -z $standalone ]] || totals "$passed" "$failed" "$skipped"
    exit $((failed > 0))
}

skip() {
    skipped=$((skipped + 1))
    say "    SKIPPED $1"
}

# Run a command that tells whether something is good.
check() {
    local name=$1
    shift
    if "$@" >"$LOG" 2>&1; then
        passed=$((passed + 1))
        say "    ok      $name"
    else
        failed=$((failed + 1))
        say "    FAILED  $name"
        show_tail "$LOG" 40
        return 1
    fi
}

# ---------------------------------------------------------------------------
# The Debians

install_in() {
    local root=$1
    shift
    enter_root "$root" env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get -qq -o Acquire::Check-Valid-Until=false update &&
        apt-get -qq -y --no-install-recommends install "$@"' sh "$@"
}

# A bare one, where apt-get does not ask.
make_debian() {
    attend mmdebstrap --variant=apt --format=directory \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Get::Assume-Yes "true"' \
        --include=passwd,sudo "$suite" "$DIR/bare" </dev/null
}

# In it, a user who builds and may use sudo; and another one with the server.
prepare_debians() {
    chroot "$DIR/bare" useradd --create-home "$TESTER" &&
        echo "$TESTER ALL=(ALL) NOPASSWD: ALL" >"$DIR/bare/etc/sudoers.d/$TESTER" &&
        copy_of bare plain &&
        install_in "$DIR/plain" "postgresql-$major"
}

copy_of() {
    cp -a "$DIR/$1" "$DIR/$2"
}

# In the copy of the source tree, as that user.
build() {
    as_tester "$major" bash -euxc "$1"
}

# ---------------------------------------------------------------------------
# The page

# What the page has under a heading, up to the next one of that rank: commands
# as they are, SQL for psql, for this major.  With "text", what it shows.
page() {
    awk -v heading="$1" -v wanted="${2-sh sql}" '
        /^```/ && block == "" {
            block = substr($0, 4) == "" ? "none" : substr($0, 4)
            is_printed = depth && index(" " wanted " ", " " block " ")
            if (is_printed && block == "sql")
                print "sudo -u postgres psql -X -v ON_ERROR_STOP=1 <<\047END OF SQL\047"
            next
        }
        /^```/ {
            if (is_printed && block == "sql")
                print "END OF SQL"
            block = ""
            next
        }
        block != "" {
            if (is_printed)
                print
            next
        }
        /^#/ {
            rank = index($0, " ") - 1
            if (depth && rank <= depth)
                exit
            if (substr($0, rank + 2) == heading)
                depth = rank
        }' "$PAGE" | sed "s/\<15\>/$major/g"
}

# Is each line that the page shows under a heading in the log?
is_shown() {
    local -a alike=(sed -e 's/--*/-/g' -e 's/  */ /g' -e 's/ $//')
    page "$1" text | "${alike[@]}" >"$DIR/shown"
    [[ -s $DIR/shown ]] || return 1
    "${alike[@]}" "$LOG" | grep -vxFf - "$DIR/shown" | sed 's/^/not in the output: /' >"$DIR/missing"
    cat "$DIR/missing"
    [[ ! -s $DIR/missing ]]
}

# What is installed: set up the server, and mint.  No process outlives a build.
sets_up() {
    build "
        $(page 'Before the first start: layout and shards')
        $(page 'The first id')
        sudo pg_ctlcluster $major main stop" &&
        is_shown 'The first id'
}

# A later package is this one with another version.
upgrades() {
    build "
        mkdir ../released
        mv ../postgresql-$major-snowflake_*.deb ../released/
        dpkg-deb --raw-extract ../released/*.deb ../later
        sed -i 's/^Version: .*/&.1/' ../later/DEBIAN/control
        dpkg-deb --root-owner-group --build ../later ..
        sudo pg_ctlcluster $major main start
        $(page 'Upgrade')
        sudo pg_ctlcluster $major main stop
        dpkg-query --show postgresql-$major-snowflake | grep '\.1$'
        rm ../postgresql-$major-snowflake_*.deb
        mv ../released/*.deb .."
}

# Afterwards the server runs, has the rows, and nothing of ours stays.
uninstalls() {
    build "
        sudo pg_ctlcluster $major main start
        $(page 'Uninstall')
        sudo pg_ctlcluster $major main restart
        sudo -u postgres psql -XAtc 'SELECT count(*), pg_typeof(max(id)) FROM photos' | grep -x '3|bigint'
        sudo pg_ctlcluster $major main stop" &&
        is_shown 'Uninstall' &&
        nothing_is_left etc usr var
}

unmakes() {
    build 'sudo make uninstall' && nothing_is_left usr
}

nothing_is_left() {
    (cd "$ROOT" && find "$@" -name '*snowflake*') >"$DIR/left"
    cat "$DIR/left"
    [[ ! -s $DIR/left ]]
}

# ---------------------------------------------------------------------------
# Debian's package

# In a Debian that has the server, and that nobody has made ready for us.
test_package() {
    local root=$DIR/tested
    copy_of plain tested
    install_in "$root" autopkgtest
    cp "$ROOT$COPY/"*.deb "$root/tmp/"
    cp -a "$ROOT$COPY/tree" "$root/tmp/" # debian/control is of this major
    enter_root "$root" bash -euxc "
        cd /tmp
        autopkgtest ./postgresql-$major-snowflake_*.deb ./tree -- null"
}

# ---------------------------------------------------------------------------
# The archives, of the last commit

# "make dist" wants git, and the source tree may be somebody else's.
clone() {
    git -c safe.directory='*' clone --quiet --no-local --depth 1 "file://$SOURCE" "$1" &&
        chroot "$ROOT/" chown -R "$TESTER:" "${1#"$ROOT"}"
}

# As PGXN's users install it, into the builder itself.
install_from_pgxn() {
    enter_root "$ROOT" bash -euxc "
        pgxn install --nosudo --pg_config /usr/lib/postgresql/$major/bin/pg_config $COPY/clone/snowflake-*.zip
        ls /usr/lib/postgresql/$major/lib/snowflake.so"
}

# ---------------------------------------------------------------------------
# The RPM

# PGDG has each major in a directory of its own; Debian's pg_config tells of
# Debian's.  This one says where things would go.
make_pgdg_directory() {
    local dir=$ROOT/usr/pgsql-$major/bin
    mkdir -p "$dir"
    cat >"$dir/pg_config" <<END
#!/bin/sh
case \$1 in
    --sharedir) echo /usr/pgsql-$major/share ;;
    --pkglibdir) echo /usr/pgsql-$major/lib ;;
    --docdir) echo /usr/pgsql-$major/doc ;;
    *) exec /usr/lib/postgresql/$major/bin/pg_config "\$@" ;;
esac
END
    chmod 755 "$dir/pg_config"
}

# ---------------------------------------------------------------------------
# The Dockerfile

# Stands for "docker build": a copy of the plain Debian for each FROM.
docker_build() {
    local instruction rest stage=final root=
    while read -r instruction rest; do
        case $instruction in
            '' | '#'* | ARG) ;;
            FROM)
                stage=final
                [[ $rest != *' AS '* ]] || stage=${rest##* }
                root=$DIR/docker-$stage
                copy_of plain "docker-$stage"
                ;;
            COPY)
                case $rest in
                    --from=*)
                        read -r stage from to <<<"$rest"
                        cp -a "$DIR/docker-${stage#--from=}$from/." "$root$to"
                        ;;
                    '. '*) cp -a "$SOURCE" "$root${rest#. }" ;;
                    *) return 1 ;;
                esac
                ;;
            RUN) enter_root "$root" env "PG_MAJOR=$major" DEBIAN_FRONTEND=noninteractive sh -exc "$rest" || return 1 ;;
            *)
                echo "not understood: $instruction"
                return 1
                ;;
        esac
    done < <(sed -e ':a' -e '/\\$/N; s/ *\\\n */ /; ta' "$SOURCE/Dockerfile")
}

docker_run() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    enter_root "$DIR/docker-final" runuser -u postgres -- \
        env "PATH=/usr/lib/postgresql/$major/bin:/usr/bin:/bin" LC_ALL=C bash -euxc '
            cd /tmp
            initdb --auth=trust --pgdata=data
            pg_ctl start --wait --pgdata=data --log=log \
                --options="-c listen_addresses= -c unix_socket_directories=/tmp -c snowflake.shards=5"
            [[ $(psql -XAtq -h /tmp postgres -c "CREATE EXTENSION snowflake" -c "SELECT snowflake_shard(snowflake_nextval())") == 5 ]]
            pg_ctl stop --wait --pgdata=data'
}

# ---------------------------------------------------------------------------

((EUID == 0)) || die "making a Debian needs root"
standalone=
DIR=${3-}
if [[ -z $DIR ]]; then
    standalone=yes
    DIR=$(mktemp -d "/var/tmp/snowflake-packages.XXXXXX")
    SCRATCH+=("$DIR")
fi
chmod 755 "$DIR"
LOG=$DIR/log
TESTER=builder

if ! make_debian >"$LOG" 2>&1; then
    skip "packages: Debian $suite could not be downloaded"
    show_tail "$LOG" 5
    leave
fi
check 'Debian: is prepared' prepare_debians || leave

copy_of bare sourced
make_copy "$DIR/sourced"
if check 'install.md: builds and installs from source' build "$(page 'From source')"; then
    check 'install.md: the server mints' sets_up || true
    check 'install.md: make uninstall leaves nothing' unmakes || true
fi

copy_of bare builder
make_copy "$DIR/builder"
if check 'install.md: builds a Debian package, which passes its tests, and installs it' build "$(page 'From packages')"; then
    check 'install.md: the server mints' sets_up || true
    check 'install.md: upgrades' upgrades || true
    check 'install.md: uninstalls without a trace, and all rows stay' uninstalls || true
    install_in "$ROOT" "${TOOLS[@]}" >"$LOG" 2>&1
    check 'Debian: lintian finds no error' build 'lintian --fail-on error ../*.changes' || true
    check 'Debian: autopkgtest passes on the installed package' test_package || true
fi

if [[ ! -e $SOURCE/.git ]]; then
    skip 'make dist: no git repository here'
elif check 'make dist: is made of what is committed' clone "${SCRATCH[-1]}/clone" &&
    check 'make dist: makes two archives of the same files' build '
        cd ../clone
        make dist
        mkdir tar zip
        tar -xf snowflake-*.tar.gz -C tar
        unzip -q snowflake-*.zip -d zip
        diff -r tar zip'; then
    check 'make dist: PGXN'\''s client builds and installs the zip' install_from_pgxn || true
    check 'RPM: rpmlint finds no error in the spec' build 'rpmlint ../clone/rpm/postgresql-snowflake.spec' || true
    make_pgdg_directory
    # the dependencies are those of another distribution
    commands=$(page 'As an RPM')
    check 'install.md: builds an RPM' build "
        cd ../clone
        ${commands/rpmbuild -bb/rpmbuild -bb --nodeps}
        rpm -qlp ~/rpmbuild/RPMS/*/postgresql$major-snowflake-[0-9]*.rpm | grep /usr/pgsql-$major/lib/snowflake.so
        ! rpm -qlp ~/rpmbuild/RPMS/*/postgresql$major-snowflake-[0-9]*.rpm | grep /usr/lib/postgresql" || true
fi

if check 'Dockerfile: its steps work' docker_build; then
    check 'Dockerfile: the server mints' docker_run || true
fi

leave
