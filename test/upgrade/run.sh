#!/usr/bin/env bash
#
# run.sh -- pg_upgrade a server with snowflake from one major to another
#
#   test/upgrade/run.sh OLD NEW
#
# Both majors, with their headers, in /usr/lib/postgresql.  The part of check.sh
# that happens as an unprivileged user in a copy of the tree, once it has found
# or made a machine that has both.  An old server with all that depends on
# ids, in a layout that is not the default, is upgraded as the documentation of
# snowflake says: pg_upgrade, the settings, and the file snowflake.horizon.  Then
# the new server must answer as the old one did, and mint on above.
#
# Prints TAP.  If pg_upgrade between these two does not work without snowflake
# either, this is skipped, unless there is a remedy.

# shellcheck disable=SC2317 # functions are called by way of check()

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"

old=$1
new=$2
DIR=${PWD%/*}/upgrade           # short: sockets are in there
SQL=$PWD/test/upgrade
BIN=/usr/lib/postgresql

# A step without which there is no going on.
step() {
    check "$@" || done_testing
}

# What the two servers answered to the same questions
is_same() {
    check "$1" diff -u "$DIR/$2.$old" "$DIR/$2.$new" || true
}

is_true() {
    check "$1" answers_true "$2" || true
}

answers_true() {
    local answer
    answer=$(query "$1" 2>&1) || true
    echo "$answer"
    [[ $answer == t ]]
}

query() {
    "$BIN/$new/bin/psql" -XAtq -v ON_ERROR_STOP=1 -h "$DIR" -d postgres -c "$1"
}

script() {
    "$BIN/$new/bin/psql" -Xq -v ON_ERROR_STOP=1 -h "$DIR" -d postgres -f "$1"
}

build() {
    make -s clean >/dev/null
    # a major that was brought here may lack the compiler for its bitcode
    PATH=$BIN/$1/bin:$PATH bash test/stage.sh "$DIR/stage$1" with_llvm=no
}

# The settings are the administrator's to carry over.
make_server() {
    "$BIN/$1/bin/initdb" --no-sync --auth=trust --encoding=UTF8 --locale=C \
        --data-checksums --pgdata="$DIR/data$1"
    cat "$DIR/stage$1/server.conf" - >>"$DIR/data$1/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$DIR'
timezone = 'UTC'
fsync = off
jit = off
snowflake.layout = 'discord'
snowflake.shards = '5'
END
}

# Between two data directories; what went wrong is in a file for each database.
upgrade() {
    "$BIN/$new/bin/pg_upgrade" --retain --socketdir="$DIR" \
        --old-bindir="$BIN/$old/bin" --new-bindir="$BIN/$new/bin" \
        --old-datadir="$1" --new-datadir="$2" && return
    find "$2/pg_upgrade_output.d" -name 'pg_upgrade_dump_*.log' -exec grep -h -A 20 'error:' {} +
    return 1
}

# Does pg_upgrade work between these two without snowflake, after the SQL $1?
can_upgrade() {
    local major
    cd "$DIR"
    rm -rf plain*
    for major in "$old" "$new"; do
        "$BIN/$major/bin/initdb" --no-sync --auth=trust --encoding=UTF8 --locale=C \
            --data-checksums --pgdata="$DIR/plain$major" || return 1
        printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$DIR'" \
            >>"$DIR/plain$major/postgresql.conf"
    done
    start "$old" "$DIR/plain$old"
    query "CREATE TABLE plain (n integer); $1" || return 1
    stop "$old" "$DIR/plain$old"
    upgrade "$DIR/plain$old" "$DIR/plain$new"
}

# Minor releases of a time may not fit: 15.20 and 17.12 store an option with
# each column, pg_attver, which 18.6 and 19rc1 do not know.  Without it they do
# not read what statistics tell of values of a row type.
REMEDY="SET allow_system_table_mods = on;
    UPDATE pg_attribute SET attoptions = NULL WHERE attrelid >= 16384 AND attoptions::text ~ 'pg_attver';
    DELETE FROM pg_statistic WHERE starelid >= 16384"

start() {
    "$BIN/$1/bin/pg_ctl" start --wait --silent --pgdata="${2-$DIR/data$1}" --log="$DIR/server.log"
}

stop() {
    "$BIN/$1/bin/pg_ctl" stop --wait --silent --pgdata="${2-$DIR/data$1}"
}

# Answers of the running server, in files named after $1
answer() {
    local what
    for what in data definitions plans; do
        script "$SQL/$what.sql" >"$DIR/$what.$1" 2>&1 || echo "failed on $1" >>"$DIR/$what.$1"
    done
}

# ---------------------------------------------------------------------------

rm -rf "$DIR"
mkdir "$DIR"

remedy=
log=${PWD%/*}/log
if ! (can_upgrade '') >"$log" 2>&1; then
    grep -m 1 'error:' "$log" | sed 's/^/# /' || true
    (can_upgrade "$REMEDY") >"$log" 2>&1 ||
        skip_all "pg_upgrade from $old to $new fails without snowflake, too"
    echo "# pg_upgrade fails without snowflake, too; it works after: ${REMEDY//$'\n'   /}"
    remedy=$REMEDY
fi

step "build for $old" build "$old"
step "build for $new" build "$new"
step "make a server of $old" make_server "$old"
start "$old"
step 'fill it' script "$SQL/fixture.sql"
answer "$old"
last=$(query 'SELECT greatest((SELECT max(id) FROM photos), (SELECT max(mirror) FROM photos),
    (SELECT max(id) FROM by_time), (SELECT max(id) FROM by_shard), snowflake_nextval()::bigint)')
[[ -z $remedy ]] || query "$remedy"
stop "$old"

step "make a server of $new" make_server "$new"
cd "$DIR"                       # pg_upgrade leaves its things here
step 'pg_upgrade' upgrade "$DIR/data$old" "$DIR/data$new"

# Somebody may forget the file: the clock alone is then what keeps ids apart.
cp -r "$DIR/data$new" "$DIR/without"
step "the old server's horizon is there to be copied" cp "$DIR/data$old/snowflake.horizon" "$DIR/data$new/"

# The record that came along knows the layout, and the time.
echo "snowflake.layout = 'twitter'" >>"$DIR/data$new/postgresql.conf"
start "$new"
is_true 'another layout is noticed' "$(
    cat <<'SQL'
DO $$ BEGIN PERFORM snowflake_nextval(); RAISE 'minted';
EXCEPTION WHEN object_not_in_prerequisite_state THEN END $$; SELECT true
SQL
)"
stop "$new"
echo "snowflake.layout = 'discord'" >>"$DIR/data$new/postgresql.conf"
library=$(echo /usr/lib/*/faketime/libfaketime.so.1)
LD_PRELOAD=$library FAKETIME=-1h FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 start "$new"
is_true 'so is a clock that is behind the old ids' "$(
    cat <<'SQL'
DO $$ BEGIN PERFORM snowflake_nextval(); RAISE 'minted';
EXCEPTION WHEN system_error THEN END $$; SELECT true
SQL
)"
stop "$new"

start "$new"
step 'collect statistics' query 'VACUUM ANALYZE' # before 18 they do not come along, and some never
answer "$new"
is_same 'data are as they were' data
is_same 'definitions are as they were' definitions
is_same 'plans are as they were' plans
is_true 'minting goes on above the old ids' "SELECT snowflake_nextval() > $last"
is_true 'so do the defaults' "INSERT INTO photos (url) VALUES ('new') RETURNING id > $last AND mirror > $last"
is_true 'in range partitions' \
    "INSERT INTO by_time VALUES (DEFAULT, 0) RETURNING id > $last AND tableoid = 'by_time_rest'::regclass"
is_true 'in hash partitions' \
    "INSERT INTO by_shard VALUES (DEFAULT, 0) RETURNING id > $last AND tableoid = 'by_shard_1'::regclass"
is_true 'foreign keys hold' "WITH gone AS (DELETE FROM photos WHERE url = 'u7' RETURNING id)
    SELECT count(*) = 1 FROM gone"
is_true 'with their cascades' 'SELECT NOT EXISTS (SELECT FROM comments WHERE photo = made(7))'
is_true 'a domain keeps its CHECK, which can be validated' "$(
    cat <<'SQL'
ALTER DOMAIN photo_id VALIDATE CONSTRAINT photo_id_check;
DO $$ BEGIN PERFORM '-1'::photo_id; RAISE 'accepted';
EXCEPTION WHEN check_violation THEN END $$; SELECT true
SQL
)"
stop "$new"

start "$new" "$DIR/without"
is_true 'without the file, minting goes on above the old ids as long as the clock does' \
    "SELECT snowflake_nextval() > $last"
stop "$new" "$DIR/without"

done_testing
