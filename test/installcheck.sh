#!/usr/bin/env bash
#
# installcheck.sh -- run the tests against a server that somebody uses
#
#   test/installcheck.sh "DATABASE ..." COMMAND...
#
# "make installcheck" runs this, and COMMAND is PGXS's own installcheck.  The
# server is set up as README says: installed, preloaded, with shards.  Afterwards
# it is as before, and so the tests can run again.
#
# - The SQL and isolation tests run in the DATABASEs, each of which is created
#   here, with the settings that the tests expect, and dropped at the end.  Roles
#   that a test leaves behind when it fails are dropped as well.
# - The TAP tests start servers of their own, and need nothing of this one.
#   Where they cannot run, that is said.
#
# A server that pg_regress starts for itself (--temp-instance) needs none of it.

set -euo pipefail

databases=$1
shift

die() {
    printf 'make installcheck: %s\n' "$@" >&2
    exit 1
}

skip() {
    printf '\nSKIPPED: the TAP tests: %s\n\n' "$1"
    set_aside=$1
}

# In psql, as whoever runs this.
sql() {
    psql -XAtqv ON_ERROR_STOP=1 -d postgres -c "$1"
}

# ---------------------------------------------------------------------------
# TAP

set_aside=
if [[ ${TAP_TESTS-yes} ]]; then
    if ! perl -MIPC::Run -e 1 2>/dev/null; then
        skip 'Perl has no module IPC::Run (on Debian, install libipc-run-perl)'
    elif ((EUID == 0)); then
        skip 'root cannot start a server'
    fi
    [[ ! $set_aside ]] || set -- "$@" TAP_TESTS=
fi

if [[ ${EXTRA_REGRESS_OPTS-} == *--temp-instance* || ! ${REGRESS-yes}${ISOLATION-yes} ]]; then
    exec "$@"
fi

# ---------------------------------------------------------------------------
# The server

is_superuser=$(sql 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user') ||
    die 'cannot connect to the server. Run it as a superuser of the server: on Debian that is postgres,' \
        'in a directory that postgres may write to. If the server has another port, set PGPORT.'
[[ $is_superuser == t ]] ||
    die 'creating the extension needs a superuser of the server.'
[[ $(sql 'SELECT pg_is_in_recovery()') == f ]] ||
    die 'this server is a standby: run it on the primary server.'
sql "SELECT pg_extension_update_paths('snowflake')" >/dev/null 2>&1 ||
    die 'the extension is not installed in this server: run "make install".'
layout=$(sql "SELECT setting FROM pg_settings WHERE name = 'snowflake.layout'")
[[ $layout ]] ||
    die "this server does not preload the library: see \"Install\" in README.md."
[[ $layout == twitter ]] ||
    die "the tests are for the layout \"twitter\", and this server has \"$layout\"." \
        'Run test/check.sh instead, which starts servers of its own.'
[[ ! $(sql 'SHOW snowflake.registry') ]] ||
    die 'this server leases its shards from a registry, and the tests mint on many shards.' \
        'Run test/check.sh instead, which starts servers of its own.'

# ---------------------------------------------------------------------------
# What the tests make, and the end of it

roles_before=$(sql "SELECT coalesce(array_agg(rolname), '{}') FROM pg_roles")

# shellcheck disable=SC2317        # it is the trap's
leave_nothing() {
    local database role
    for database in $databases; do
        sql "DROP DATABASE IF EXISTS \"$database\" WITH (FORCE)" 2>/dev/null || true
    done
    for role in $(sql "SELECT rolname FROM pg_roles
                        WHERE rolname LIKE 'regress%' AND rolname <> ALL ('$roles_before')"); do
        sql "DROP OWNED BY \"$role\"; DROP ROLE \"$role\"" || true
    done
}
trap leave_nothing EXIT
trap 'exit 1' INT TERM HUP

# As pg_regress would create them, and with no shards of its own.
for database in $databases; do
    sql "DROP DATABASE IF EXISTS \"$database\"" 2>/dev/null
    sql "CREATE DATABASE \"$database\" TEMPLATE template0"
    for setting in "lc_messages = 'C'" "lc_monetary = 'C'" "lc_numeric = 'C'" "lc_time = 'C'" \
        "bytea_output = 'hex'" "timezone_abbreviations = 'Default'" \
        "snowflake.shards = ''" "snowflake.clock_tolerance = '1s'"; do
        sql "ALTER DATABASE \"$database\" SET $setting"
    done
done

status=0
"$@" EXTRA_REGRESS_OPTS="${EXTRA_REGRESS_OPTS-} --use-existing" || status=$?
[[ ! $set_aside ]] || printf '\nSKIPPED: the TAP tests: %s\n' "$set_aside"
exit "$status"
