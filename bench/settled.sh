#!/usr/bin/env bash
#
# settled.sh -- what a poller of snowflake_settled() costs, and costs writers
#
# pgbench inserts a row a transaction, in turn alone and beside a poller that
# reads what is new, without a pause or ten times a second.  Prints the writers'
# transactions a second as a ratio to those without a poller, and the poller's
# polls, rows and microseconds a poll.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

ROUNDS=5
SECONDS_EACH=10
WRITERS=8

# Poll until the writers have stopped: polls, rows, and microseconds a poll.
poll() {
    with_server psql -XAtqF ' ' --set=ON_ERROR_STOP=1 -c "CALL poll($1)"
}

# The writers' transactions a second, beside a poller with this pause, or none.
measure() {
    local pause=$1 poller=
    with_server psql -Xq -c 'TRUNCATE events' -c "SELECT setval('stop', 1, false)" >/dev/null
    if [[ $pause != none ]]; then
        poll "$pause" >"${SCRATCH[0]}/tmp/polls" &
        poller=$!
    fi
    with_server pgbench -n -c "$WRITERS" -j 2 -T "$SECONDS_EACH" \
        -f "${SCRATCH[0]}/tmp/insert.sql" postgres | awk '/^tps/ { print $3 }'
    with_server psql -Xq -c "SELECT nextval('stop')" >/dev/null
    [[ -z $poller ]] || wait "$poller"
}

median() { sort -n | sed -n "$(((ROUNDS + 1) / 2))p"; }

need_major perl
make_copy ''
start_measured_server "max_wal_size = 8GB
synchronous_commit = off
snowflake.shards = '0-7'"
echo 'INSERT INTO events DEFAULT VALUES;' >"${SCRATCH[0]}/tmp/insert.sql"
cat >"${SCRATCH[0]}/tmp/setup.sql" <<'SQL'
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
CREATE SEQUENCE stop;
CREATE PROCEDURE poll(pause float8, INOUT polls bigint DEFAULT 0, INOUT rows bigint DEFAULT 0, INOUT us float8 DEFAULT 0)
LANGUAGE plpgsql AS $$
DECLARE
    last bigint := 0;
    page record;
    began timestamptz;
BEGIN
    WHILE (SELECT NOT is_called FROM stop) LOOP
        began := clock_timestamp();
        SELECT count(*) AS rows, max(id) AS last INTO page
          FROM (SELECT id FROM events WHERE id > last AND id < snowflake_settled() ORDER BY id LIMIT 1000) AS new;
        COMMIT;
        us := us + extract(epoch FROM clock_timestamp() - began) * 1e6;
        polls := polls + 1;
        rows := rows + page.rows;
        last := coalesce(page.last, last);
        IF page.rows < 1000 THEN
            PERFORM pg_sleep(pause);
        END IF;
    END LOOP;
    us := round(us / greatest(polls, 1));
END $$;
SQL
with_server psql -Xq --set=ON_ERROR_STOP=1 --file="${SCRATCH[0]}/tmp/setup.sql"
say "$WRITERS writers, $SECONDS_EACH s, median of $ROUNDS, ratio to no poller:"
declare -A tps=([none]='' [0.1]='' [0]='') polls=([none]='-' [0.1]='' [0]='')
for ((round = 0; round < ROUNDS; round++)); do
    for pause in none 0.1 0; do
        tps[$pause]+=$(measure "$pause")$'\n'
        [[ $pause == none ]] || polls[$pause]=$(<"${SCRATCH[0]}/tmp/polls")
    done
done
alone=$(printf '%s' "${tps[none]}" | median)
for pause in none 0.1 0; do
    printf '  pause %-5s %8.0f tps %6.3f   polls, rows, us a poll (last round): %s\n' "$pause" \
        "$(printf '%s' "${tps[$pause]}" | median)" \
        "$(printf '%s' "${tps[$pause]}" | median | awk -v one="$alone" '{ print $1 / one }')" "${polls[$pause]}"
done
