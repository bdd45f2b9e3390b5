#!/usr/bin/env bash
#
# packages.sh -- build snowflake's packages, install them and run their tests
#
#   test/packages.sh MAJOR SUITE
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
#
# Prints TAP.

# shellcheck disable=SC2317 # functions are called by way of check()

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

(($# == 2)) || die "usage: test/packages.sh MAJOR SUITE"
major=$1
suite=$2

PAGE=$SOURCE/doc/install.md
TOOLS=(elfutils git lintian pgxnclient rpm rpmlint unzip)

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
    as_tester bash -euxc "$1" 2>&1 | tee "$LOG"
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

((EUID == 0)) || die "making a Debian needs root"
DIR=$(mktemp -d "/var/tmp/snowflake-packages.XXXXXX")
SCRATCH+=("$DIR")
chmod 755 "$DIR"
LOG=$DIR/log
TESTER=builder

make_debian >"$LOG" 2>&1 || {
    tail -n 5 "$LOG" | sed 's/^/# /'
    skip_all "Debian $suite could not be downloaded"
}
check 'Debian: is prepared' prepare_debians || done_testing

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
    ok 'make dist # SKIP no git repository here'
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

done_testing
