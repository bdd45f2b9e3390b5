#!/usr/bin/env bash
#
# packages.sh -- build snowflake's packages, install them and run their tests
#
#   test/packages.sh MAJOR SUITE [DIRECTORY]
#
# for a Debian release and the major of PostgreSQL that it has, such as
# 15 bookworm.  Needs root, the network, and mmdebstrap.  Everything happens in
# copies of a Debian that is made for this: a plain one with the server, and
# one that also has what builds packages.  Checked are
#
#   debian/       built with its tests, looked at by lintian, installed in a
#                 plain Debian where autopkgtest tests it, and purged
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

BUILDERS=(build-essential debhelper elfutils fakeroot git lintian pgxnclient postgresql-all
    postgresql-server-dev-all rpm rpmlint unzip)

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

make_debians() {
    attend mmdebstrap --variant=apt --format=directory \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --include="postgresql-$major" "$suite" "$DIR/plain" </dev/null &&
        copy_of_plain builder &&
        install_in "$DIR/builder" "${BUILDERS[@]}"
}

copy_of_plain() {
    cp -a "$DIR/plain" "$DIR/$1"
}

# In the copy of the source tree, in the builder.
build() {
    as_tester "$major" bash -euxc "$1"
}

# ---------------------------------------------------------------------------
# Debian's packages

# In a plain Debian, which nobody has made ready for us.
test_package() {
    local root=$DIR/tested
    copy_of_plain tested
    install_in "$root" autopkgtest
    cp "$DIR/builder$COPY/"*.deb "$root/tmp/"
    cp -a "$DIR/builder$COPY/tree" "$root/tmp/" # debian/control is of this major
    enter_root "$root" bash -euxc "
        cd /tmp
        autopkgtest ./postgresql-$major-snowflake_*.deb ./tree -- null"
}

# Install, and purge: nothing may stay.
purge_package() {
    local root=$DIR/tested package=postgresql-$major-snowflake
    install_in "$root" "/tmp/$(cd "$root/tmp" && echo "${package}_"*.deb)"
    [[ -f $root/usr/lib/postgresql/$major/lib/snowflake.so ]]
    enter_root "$root" apt-get -qq -y purge "$package"
    find "$root"/{etc,usr,var} -name '*snowflake*' >"$DIR/left"
    cat "$DIR/left"
    [[ ! -s $DIR/left ]]
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
                copy_of_plain "docker-$stage"
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

if ! make_debians >"$LOG" 2>&1; then
    skip "packages: Debian $suite could not be downloaded"
    show_tail "$LOG" 5
    leave
fi
make_copy "$DIR/builder"

if check 'Debian: builds, and passes its tests' build '
        pg_buildext updatecontrol
        dpkg-buildpackage -us -uc -b'; then
    check 'Debian: lintian finds no error' build 'lintian --fail-on error ../*.changes' || true
    check 'Debian: autopkgtest passes on the installed package' test_package || true
    check 'Debian: is purged without a trace' purge_package || true
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
    check 'RPM: builds from the tar.gz' build "
        cd ../clone
        mkdir -p ~/rpmbuild/SOURCES
        cp snowflake-*.tar.gz ~/rpmbuild/SOURCES/
        rpmbuild -bb --nodeps --define 'pgmajorversion $major' rpm/postgresql-snowflake.spec
        rpm -qlp ~/rpmbuild/RPMS/*/postgresql$major-snowflake-[0-9]*.rpm | grep /usr/pgsql-$major/lib/snowflake.so
        ! rpm -qlp ~/rpmbuild/RPMS/*/postgresql$major-snowflake-[0-9]*.rpm | grep /usr/lib/postgresql" || true
fi

if check 'Dockerfile: its steps work' docker_build; then
    check 'Dockerfile: the server mints' docker_run || true
fi

leave
