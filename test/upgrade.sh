#!/usr/bin/env bash
#
# upgrade.sh -- pg_upgrade a server with snowflake from one major to another
#
#   test/upgrade.sh OLD NEW
#
# Both majors, with their headers, in /usr/lib/postgresql.  The part of check.sh
# that happens as an unprivileged user in a copy of the tree, once it has found
# or made a machine that has both.  An old server with all that depends on
# ids, in a layout that is not the default, is upgraded as the documentation of
# snowflake says: pg_upgrade, the settings, and the file snowflake.horizon.  Then
# the new server must answer as the old one did, and mint on above.
#
# Prints a line for each assertion and leaves "passed failed skipped" in
# ../tally.  Says so, and counts as skipped, if pg_upgrade between these two does
# not work without snowflake either; and goes on if there is a remedy for that.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

old=$1
new=$2
DIR=${PWD%/*}/upgrade           # short: sockets are in there
LOG=$DIR/log
BIN=/usr/lib/postgresql

passed=0
failed=0
skipped=0

leave_tally() {
    echo "$passed $failed $skipped" >"${DIR%/*}/tally"
}

pass() {
    passed=$((passed + 1))
    say "    ok      $1"
}

fail() {
    failed=$((failed + 1))
    say "    FAILED  $1"
}

# A step without which there is no going on.
step() {
    local name=$1
    shift
    if "$@" >"$LOG" 2>&1; then
        pass "$name"
    else
        fail "$name"
        show_tail "$LOG" 40
        leave_tally
        exit 1
    fi
}

# What the two servers answered to the same questions
is_same() {
    if [[ -s $2 ]] && diff -u "$2" "$3" >"$LOG"; then
        pass "$1"
    else
        fail "$1"
        show_tail "$LOG" 40
    fi
}

is_true() {
    local answer
    answer=$(query "$2" 2>&1) || true
    if [[ $answer == t ]]; then
        pass "$1"
    else
        fail "$1"
        say "    | $answer"
    fi
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
make_cluster() {
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

# ---------------------------------------------------------------------------
# What an old server may hold.  The bulk of the ids is from 2026, one in 20
# minutes, over shards 0 to 7; some are minted.

write_fixture() {
    cat >"$DIR/fixture.sql" <<'SQL'
CREATE EXTENSION snowflake;

CREATE FUNCTION made(n integer) RETURNS snowflake LANGUAGE sql IMMUTABLE
    AS $$ SELECT snowflake_encode('2026-01-01Z'::timestamptz + n * interval '20 min', n % 8, n % 4096) $$;

-- pg_upgrade makes domains and range types before the casts of extensions.  It
-- stumbles over a CHECK that needs one, unless that is NOT VALID.
CREATE DOMAIN photo_id AS snowflake;
ALTER DOMAIN photo_id ADD CHECK (VALUE >= 0) NOT VALID;
CREATE TYPE pair AS (one snowflake, other bigint);
CREATE TABLE photos (
    id       snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    twin     photo_id UNIQUE DEFAULT snowflake_nextval(5),
    made     timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'discord')) STORED,
    history  snowflake[],
    pair     pair,
    url      text NOT NULL
);
INSERT INTO photos (id, twin, history, pair, url)
    SELECT made(n), made(n + 1), ARRAY[made(n), '5'], ROW(made(n), made(n))::pair, 'u' || n
    FROM generate_series(1, 20000) AS n;
CREATE INDEX photos_shard ON photos (snowflake_shard(id), id DESC);
CREATE INDEX photos_hash ON photos USING hash (twin);
CREATE INDEX photos_brin ON photos USING brin (id);
CREATE INDEX photos_late ON photos (id) INCLUDE (url) WHERE id > 1470000000000000000;

CREATE TABLE comments (
    id     snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    photo  bigint NOT NULL REFERENCES photos ON DELETE CASCADE
);
INSERT INTO comments SELECT made(n + 30000), made(n) FROM generate_series(1, 20000) AS n;

CREATE TABLE by_time (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer)
    PARTITION BY RANGE (id);
CREATE TABLE by_time_q1 PARTITION OF by_time
    FOR VALUES FROM (snowflake_floor('2026-01-01Z')) TO (snowflake_floor('2026-04-01Z'));
CREATE TABLE by_time_q2 PARTITION OF by_time
    FOR VALUES FROM (snowflake_floor('2026-04-01Z')) TO (snowflake_floor('2026-07-01Z'));
CREATE TABLE by_time_rest PARTITION OF by_time DEFAULT;
INSERT INTO by_time SELECT made(n), n FROM generate_series(1, 20000) AS n;

CREATE TABLE by_shard (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer)
    PARTITION BY HASH (id snowflake_shard_ops);
SELECT format('CREATE TABLE by_shard_%s PARTITION OF by_shard FOR VALUES WITH (MODULUS 4, REMAINDER %1$s)', n)
    FROM generate_series(0, 3) AS n
\gexec
INSERT INTO by_shard SELECT made(n), n FROM generate_series(1, 20000) AS n;

CREATE VIEW recent AS SELECT id, parts.* FROM photos, snowflake_decode(id) AS parts
    WHERE id >= timestamptz '2026-09-01Z' ORDER BY id DESC LIMIT 5;
CREATE MATERIALIZED VIEW daily AS SELECT date_trunc('day', snowflake_timestamp(id) AT TIME ZONE 'UTC') AS day,
    count(*), max(id)::snowflake AS last FROM photos GROUP BY 1;

INSERT INTO photos (url) SELECT 'minted' FROM generate_series(1, 100);
INSERT INTO by_time (n) SELECT n FROM generate_series(1, 100) AS n;
INSERT INTO by_shard (n) SELECT n FROM generate_series(1, 100) AS n;
VACUUM ANALYZE;
SQL

    cat >"$DIR/data.sql" <<'SQL'
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM photos AS t;
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM comments AS t;
SELECT tableoid::regclass, count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM by_time AS t GROUP BY 1 ORDER BY 1;
SELECT tableoid::regclass, count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM by_shard AS t GROUP BY 1 ORDER BY 1;
SELECT * FROM recent;
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY day)) FROM daily AS t;
SELECT name, in_use, specification FROM snowflake_layouts ORDER BY name;
SHOW snowflake.layout;
-- by index, each row
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(b.id) FROM photos AS a JOIN photos AS b ON b.id = a.id;
SELECT count(b.id) FROM photos AS a JOIN photos AS b ON b.twin = a.twin;
SELECT count(b.id) FROM by_time AS a JOIN by_time AS b ON b.id = a.id;
SELECT count(b.id) FROM by_shard AS a JOIN by_shard AS b ON b.id = a.id;
SELECT shard, count(b.id) FROM generate_series(0, 7) AS shard JOIN photos AS b ON snowflake_shard(b.id) = shard
    GROUP BY 1 ORDER BY 1;
SQL

    # as the old server's own psql would not: the catalogs, the same in all
    cat >"$DIR/definitions.sql" <<'SQL'
SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1;
SELECT table_name, column_name, udt_name, domain_name, column_default, generation_expression
    FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2;
SELECT oid::regclass, pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid), pg_get_partition_constraintdef(oid)
    FROM pg_class WHERE relname ~ '^by_' AND relkind IN ('r', 'p') ORDER BY 1;
SELECT conrelid::regclass, conname, pg_get_constraintdef(oid, true), convalidated
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY 1, 2;
SELECT viewname, definition FROM pg_views WHERE viewname = 'recent';
SELECT extname, extversion FROM pg_extension WHERE extname = 'snowflake';
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
    WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake') AND deptype = 'e'
    AND (classid <> 'pg_type'::regclass OR objid::regtype::text !~ 'layouts|stat_|\[\]') ORDER BY 1;   -- from 17 on these are, too
SQL

    # 1470000000000000000 was in May 2026
    cat >"$DIR/plans.sql" <<'SQL'
\set QUIET on
\pset tuples_only on
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = 1470000000000000000;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id = '1470000000000000000';
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE twin = 1470000000000000000::bigint;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id < 1470000000000000000 ORDER BY id DESC LIMIT 20;
EXPLAIN (COSTS OFF) SELECT id, url FROM photos WHERE id > 1475000000000000000 ORDER BY id LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE snowflake_shard(id) = 5 ORDER BY id DESC LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM photos WHERE id >= timestamptz '2026-03-01Z' AND id < timestamptz '2026-03-02Z';
EXPLAIN (COSTS OFF) SELECT * FROM comments JOIN photos ON photos.id = photo WHERE comments.id = 1500000000000000000;
EXPLAIN (COSTS OFF) SELECT * FROM by_time WHERE id = 1470000000000000000;
EXPLAIN (COSTS OFF) SELECT * FROM by_time WHERE id >= timestamptz '2026-05-01Z' AND id < timestamptz '2026-05-02Z';
EXPLAIN (COSTS OFF) SELECT * FROM by_time WHERE id < snowflake_floor('2026-02-01Z') ORDER BY id DESC LIMIT 20;
EXPLAIN (COSTS OFF) SELECT * FROM by_shard WHERE id = 1470000000000000000;
EXPLAIN (COSTS OFF) SELECT * FROM by_shard WHERE id = '1470000000000000000';
SET plan_cache_mode = force_generic_plan;
PREPARE by_id (bigint) AS SELECT * FROM by_shard WHERE id = $1;
EXPLAIN (COSTS OFF) EXECUTE by_id(1470000000000000000);
PREPARE since (timestamptz) AS SELECT * FROM by_time WHERE id >= $1 AND id < snowflake_floor('2026-05-02Z');
EXPLAIN (COSTS OFF) EXECUTE since('2026-05-01Z');
SQL
}

# Answers of the running server, in files named after $1
answer() {
    local what
    for what in data definitions plans; do
        script "$DIR/$what.sql" >"$DIR/$what.$1" 2>&1 || echo "failed" >>"$DIR/$what.$1"
    done
}

# ---------------------------------------------------------------------------

rm -rf "$DIR"
mkdir "$DIR"
write_fixture

remedy=
if ! (can_upgrade '') >"$LOG" 2>&1; then
    skipped=1
    say "    SKIPPED pg_upgrade between these two packages as they are: it fails without snowflake, too"
    show_tail <(grep -m 1 'error:' "$LOG" || cat "$LOG") 5
    if ! (can_upgrade "$REMEDY") >"$LOG" 2>&1; then
        leave_tally
        exit
    fi
    say "    | It works after: ${REMEDY//$'\n'   /}"
    remedy=$REMEDY
fi

step "build for $old" build "$old"
step "build for $new" build "$new"
step "make a server of $old" make_cluster "$old"
start "$old"
step 'fill it' script "$DIR/fixture.sql"
answer "$old"
last=$(query 'SELECT greatest((SELECT max(id) FROM photos), (SELECT max(twin) FROM photos),
    (SELECT max(id) FROM by_time), (SELECT max(id) FROM by_shard), snowflake_nextval()::bigint)')
[[ -z $remedy ]] || query "$remedy"
stop "$old"

step "make a server of $new" make_cluster "$new"
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
is_same 'data are as they were' "$DIR"/data.{"$old","$new"}
is_same 'definitions are as they were' "$DIR"/definitions.{"$old","$new"}
is_same 'plans are as they were' "$DIR"/plans.{"$old","$new"}
is_true 'minting goes on above the old ids' "SELECT snowflake_nextval() > $last"
is_true 'so do the defaults' "INSERT INTO photos (url) VALUES ('new') RETURNING id > $last AND twin > $last"
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

leave_tally
((failed == 0))
