#!/usr/bin/env bash
#
# psql_client.sh -- snowflake from psql and from shell scripts
#
# What stands in doc/clients.md is copied out of here.  Connects as the PG*
# environment variables say to a database with the table photos, and prints TAP.

set -euo pipefail

# The id of the new row.  -q, or the command tag follows it.
add_photo() {
    psql -XAtq -v url="$1" <<'SQL'
INSERT INTO photos (url) VALUES (:'url') RETURNING id;
SQL
}

# The url of a row.  Quoted, the id goes as text, and needs no trust: what is
# no number fails.
find_photo() {
    psql -XAt -v id="$1" <<'SQL'
SELECT url FROM photos WHERE id = :'id';
SQL
}

# The rows of the table, newest first, a page at a time, to a command.
each_page() {
    local page last=9223372036854775807
    while
        page=$(psql -XAt -v ON_ERROR_STOP=1 -v last="$last" <<'SQL'
SELECT id, url FROM photos WHERE id < :'last' ORDER BY id DESC LIMIT 40;
SQL
        )
        [[ $page ]]
    do
        "$@" <<<"$page"
        last=${page##*$'\n'}        # the last line
        last=${last%%|*}            # its first column
    done
}

# --- The test.  The ids are the extremes, the smallest, and one that a double
# --- does not hold: to pass, no digit may be lost.

IDS=(9223372036854775807 -9223372036854775808 1 175928847299117063)
count=0

# With the words of a condition: does it hold?
ok() {
    local name=$1
    shift
    count=$((count + 1))
    if "$@"; then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
    fi
}

query() {
    psql -XAtq -v ON_ERROR_STOP=1 "$@"
}

# Send each id by a script in which it is $1 (a number), $2 (text) or :id.
round_trip() {
    local name=$1 script=$2 id got='' want=''
    for id in "${IDS[@]}"; do
        got+="$(query -v id="$id" <<<"$script" || echo failed)"$'\n'
        want+="$id"$'\n'"$id"$'\n'"$id"$'\n'
    done
    ok "$name: ids come back as they were" test "$got" = "$want"
}

echo "# $(psql --version)"

first=$(add_photo first)
second=$(add_photo second)
ok 'ids are numbers that increase' test "$second" -gt "$first"
ok "and the id that RETURNING gave is the row's" \
    test "$(query -c "SELECT id FROM photos WHERE url = 'second'")" = "$second"
ok 'a row is found by it' test "$(find_photo "$second")" = second
ok 'text that is no number fails' grep -q 'invalid input syntax' <<<"$(find_photo '1 OR true' 2>&1)"

# every way to send
round_trip 'simple, as a number' "
INSERT INTO photos VALUES (:id, 'x') RETURNING id;
SELECT id FROM photos WHERE id = :id;
DELETE FROM photos WHERE id = :id RETURNING id;"
round_trip 'simple, as text' "
INSERT INTO photos VALUES (:'id', 'x') RETURNING id;
SELECT id FROM photos WHERE id = :'id';
DELETE FROM photos WHERE id = :'id' RETURNING id;"
for type in snowflake bigint; do
    round_trip "PREPARE, with a parameter of type $type" "
PREPARE put ($type) AS INSERT INTO photos VALUES (\$1, 'x') RETURNING id;
PREPARE get ($type) AS SELECT id FROM photos WHERE id = \$1;
PREPARE del ($type) AS DELETE FROM photos WHERE id = \$1 RETURNING id;
EXECUTE put (:id);
EXECUTE get (:'id');
EXECUTE del (:id);"
done
# shellcheck disable=SC2016 # for the server
if [[ $(psql --version) =~ \ ([0-9]+) ]] && ((BASH_REMATCH[1] >= 16)); then
    round_trip 'extended, by \bind' '
INSERT INTO photos VALUES ($1, $$x$$) RETURNING id \bind :id \g
SELECT id FROM photos WHERE id = $1 \bind :id \g
DELETE FROM photos WHERE id = $1 RETURNING id \bind :id \g'
else
    echo '# no extended protocol: psql has it from 16 on'
fi

# some hundred rows
for n in {1..20}; do
    add_photo "u$n" >/dev/null
done
query -c "INSERT INTO photos (url) SELECT 's' || n FROM generate_series(1, 280) AS n"

# binary, by COPY
file=$(mktemp)
trap 'rm -f "$file"' EXIT
for id in "${IDS[@]}"; do
    query -c "INSERT INTO photos VALUES ('$id', 'x')"
done
query -c "\\copy photos TO '$file' (FORMAT binary)"
query -c 'CREATE TABLE copied (LIKE photos)' -c "\\copy copied FROM '$file' (FORMAT binary)"
ok 'binary: COPY takes rows out and in as they were' test "$(query -c '
SELECT count(*) FROM photos AS a JOIN copied AS b USING (id) WHERE a = b')" = 306
query -c 'DROP TABLE copied' -c "DELETE FROM photos WHERE url = 'x'"

# pages
pages=0
seen=''
on_page() {
    pages=$((pages + 1))
    seen+=$(cat)$'\n'
}
each_page on_page
ok 'pages: each of 302 rows once, in order' \
    test "$seen" = "$(query -c 'SELECT id, url FROM photos ORDER BY id DESC')"$'\n'
ok 'in 8 pages' test "$pages" -eq 8
ok 'an id is looked up in the index' grep -q 'Index Cond: (' < <(
    query -c 'SET enable_seqscan = off' -c "EXPLAIN SELECT url FROM photos WHERE id < '$second'"
)

# JSON
query -c "INSERT INTO photos VALUES (175928847299117063, 'discord')"
for function in to_json row_to_json; do
    json=$(query -c "SELECT $function(photos) FROM photos WHERE url = 'discord'")
    ok "JSON: the id is a string by $function" \
        test "$json" = '{"id":"175928847299117063","url":"discord"}'
    ok 'JSON: no digit is lost' test "$(find_photo \
        "$(query -v json="$json" <<<"SELECT (:'json'::json ->> 'id')::snowflake")")" = discord
done

echo "1..$count"
