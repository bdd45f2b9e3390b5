#!/usr/bin/env bash
#
# instructions.sh -- how many instructions a call takes
#
# Times differ from run to run, and on a machine that does something else they
# say nothing.  The number of instructions is nearly the same each time, and so
# tells whether a change made a function cheaper.  It is not a time: it knows
# nothing of caches, locks and waiting.
#
# The server runs under valgrind's callgrind, which counts what each of its
# processes executes.  One session runs a statement over N rows, another over
# 2N; the difference is what N rows take.  Less the same for a function that
# does nothing, and over N, that is a call.  With "commit" before the expression,
# each row is a transaction that has an xid, evaluates it, and commits.
#
# Two things are not as they would be.  valgrind has the kernel read the clock,
# so that reading it costs a few instructions here and some twenty more in
# truth.  And everything is fifty times as slow, so that a tick has a
# fiftieth of the calls, and what happens once in each tick counts for more:
# hence the small differences between runs.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

CALLS=100000
COMMITS=5000
EXPRESSIONS=(
    'clock_and_lock()'
    'snowflake_nextval()'
    'snowflake_nextval(5)'
    "nextval('cache_1')"
    "nextval('cache_1000')"
    'snowflake_timestamp(id)'
    "snowflake_timestamp(id, 'discord')"
    'snowflake_timestamp(id, layout)'
    'snowflake_shard(id)'
    'commit snowflake_nextval()'
)

usage() {
    cat <<END
Usage: bench/instructions.sh [--pg MAJOR] [--annotate] [EXPRESSION...]

Print the instructions that a call of each function takes, over those of a
function that does nothing.  An expression is SQL that yields a bigint or what
casts to one silently; it can use the columns "id", a bigint, and "layout",
a text.  After the word "commit", it is evaluated in a transaction of its own,
without these columns.  Without any:

$(printf '  %s\n' "${EXPRESSIONS[@]}")

  --pg MAJOR   with this major of PostgreSQL (default: the distribution's own)
  --annotate   and show in which functions they are executed
  --help       this text
END
}

# What is started in the place of the server's program.
run_under_valgrind() {
    local program=${SCRATCH[0]}/postgres
    cat >"$program" <<END
#!/bin/sh
exec valgrind --quiet --tool=callgrind --callgrind-out-file=$COPY/tmp/callgrind.%p \\
    --log-file=$COPY/tmp/valgrind.log \$(command -v postgres) "\$@"
END
    chmod 755 "$program"
    quietly pg_ctl restart --wait --timeout=300 --pgdata="$COPY/data" \
        --log="$COPY/server.log" -p "$COPY/postgres"
}

# The rows of an expression.
rows_of() {
    case $1 in
        'commit '*) echo "$COMMITS" ;;
        *) echo "$CALLS" ;;
    esac
}

# Evaluate the expression for each of $2 rows.
statement() {
    case $1 in
        'commit '*) echo "DO \$\$ BEGIN FOR n IN 1 .. $2 LOOP PERFORM pg_current_xact_id(), ${1#commit }; COMMIT; END LOOP; END \$\$" ;;
        *) echo "SELECT count($1) FROM generate_series(1, $2) AS id(id), (SELECT text 'twitter' OFFSET 0) AS one(layout)" ;;
    esac
}

# The profile of a session that evaluates the expression for each of $2 rows.
# It is written when the session's process has ended.
profile() {
    local pid file
    pid=$(with_server psql -XAtq --set=ON_ERROR_STOP=1 \
        -c 'SELECT pg_backend_pid()' -c "$(statement "$1" "$2")") ||
        die "cannot evaluate $1"
    pid=${pid%%$'\n'*}
    file=${SCRATCH[0]}/tmp/callgrind.$pid
    for _ in {1..300}; do
        if grep -q '^totals:' "$file" 2>/dev/null; then
            echo "$file"
            return
        fi
        sleep 0.1
    done
    die "callgrind left nothing about process $pid"
}

total() {
    sed -n 's/^totals: //p' "$1"
}

# Instructions per call, the statement's own included.
count() {
    local once twice
    once=$(profile "$1" "$(rows_of "$1")") || return
    twice=$(profile "$1" "$((2 * $(rows_of "$1")))") || return
    echo $(($(total "$twice") - $(total "$once")))
}

# The functions of the extension, each with what it calls.  What the compiler
# put into another function is a line of the file that it comes from.
show_annotation() {
    local file calls
    calls=$((2 * $(rows_of "$1")))
    file=$(profile "$1" "$calls") || return
    callgrind_annotate --inclusive=yes --threshold=100 --show-percs=no --auto=no "$file" |
        awk -v calls="$calls" '
            $2 ~ /\/tree\/src\// {
                instructions = $1
                gsub(",", "", instructions)
                sub(".*/tree/src/", "", $2)
                if (instructions / calls >= 0.5)
                    printf "    | %-38s %12.0f\n", $2, instructions / calls
            }'
}

# What does nothing with the same arguments.
nothing_like() {
    case $1 in
        'commit '*) echo 'commit noop()' ;;
        *layout*) echo 'noop(id, layout)' ;;
        *'(id,'*) echo "noop(id, 'twitter')" ;;
        *'(id'*) echo 'noop(id)' ;;
        *) echo 'noop()' ;;
    esac
}

main() {
    local expression nothing instructions rows
    local -A counted=()         # what does nothing -> instructions
    parse_options 'pg=MAJOR annotate ...' "$@"
    ((${#arguments[@]})) || arguments=("${EXPRESSIONS[@]}")
    need_major valgrind

    say "Building snowflake for PostgreSQL $major and starting a server in valgrind"
    make_copy ''
    start_measured_server "shared_buffers = 16MB
autovacuum = off
synchronous_commit = off
checkpoint_timeout = 1h
work_mem = 64MB
jit = off
max_parallel_workers_per_gather = 0
snowflake.shards = '0-7'"
    run_under_valgrind
    # the first session finds nothing in the caches that are shared
    profile 'noop()' 1 >/dev/null

    printf '\n%-44s %s\n' 'One call of' 'instructions'
    for expression in "${arguments[@]}"; do
        nothing=$(nothing_like "$expression")
        [[ ${counted[$nothing]-} ]] || counted[$nothing]=$(count "$nothing")
        instructions=$(count "$expression") || exit
        rows=$(rows_of "$expression")
        printf '%-44s %12d\n' "$expression" \
            $(((instructions - counted["$nothing"] + rows / 2) / rows))
        [[ -z $annotate ]] || show_annotation "$expression"
    done
}

main "$@"
