#!/usr/bin/env bash
#
# stage.sh -- build snowflake and make it usable without installing it
#
#   test/stage.sh DIRECTORY [make arguments]
#
# Builds in the current directory against the first pg_config in PATH, puts
# into DIRECTORY what "make install" would put into the system, and writes
# DIRECTORY/server.conf, the settings with which a server finds it there and
# preloads it.  check.sh and demo.sh run this in a copy of the tree.
#
# A server looks for libraries along dynamic_library_path.  For control files
# and scripts there is extension_control_path from PostgreSQL 18 on; before
# that Debian's packages, and Ubuntu's, have extension_destdir.  A server that
# has neither must be a copy made for this, beside DIRECTORY: it is installed
# into.

set -euo pipefail

stage=$1
shift

has_setting() {
    postgres --describe-config | grep "^$1	" >/dev/null
}

pkglibdir=$(pg_config --pkglibdir)
sharedir=$(pg_config --sharedir)
library_setting="dynamic_library_path = '$stage$pkglibdir:\$libdir'"
destination=$stage
if has_setting extension_control_path; then
    extension_setting="extension_control_path = '$stage$sharedir:\$system'"
elif has_setting extension_destdir; then
    extension_setting="extension_destdir = '$stage'"
elif [[ $pkglibdir == "${stage%/*}"/* ]]; then
    destination=                # and no path, or the library would be found twice
    library_setting=
    extension_setting=
else
    echo "stage.sh: this server finds extensions only where it is installed itself" >&2
    exit 1
fi

# a server looks for bitcode only where it is installed itself
make -s -j"$(nproc)" with_llvm=no "$@"
make -s install with_llvm=no DESTDIR="$destination" "$@" >/dev/null

mkdir -p "$stage"
cat test/snowflake.conf - >"$stage/server.conf" <<END
$library_setting
$extension_setting
END
