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
# that Debian's packages, and Ubuntu's, have extension_destdir.

set -euo pipefail

stage=$1
shift

has_setting() {
    postgres --describe-config | grep "^$1	" >/dev/null
}

make -s -j"$(nproc)" "$@"
make -s install DESTDIR="$stage" "$@" >/dev/null

if has_setting extension_control_path; then
    extension_setting="extension_control_path = '$stage$(pg_config --sharedir):\$system'"
elif has_setting extension_destdir; then
    extension_setting="extension_destdir = '$stage'"
else
    echo "stage.sh: this server finds extensions only where it is installed itself" >&2
    exit 1
fi

cat test/snowflake.conf - >"$stage/server.conf" <<END
dynamic_library_path = '$stage$(pg_config --pkglibdir):\$libdir'
$extension_setting
END
