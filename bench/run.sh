#!/usr/bin/env bash
#
# run.sh -- how fast snowflake is, beside what else makes ids
#
# Starts a throwaway server, measures everything on it in one run, and writes
# tables and plots.  What is measured is said in measure/, how it goes in
# perl/Bench.pm; run.pl does it, and report.pl makes the tables and the plots.
# test/lib.sh tells how the rest of the machine is kept out of it.
#
# Figures of different runs do not compare, those of one run do: hence the
# peers.  Nothing else should run on the machine.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

RESULTS=$SOURCE/bench/results


usage() {
    cat <<END
Usage: bench/run.sh [--quick | --smoke | --readme] [--pg MAJOR] [--output DIR]
                    [--pgedge DIR]

Measure snowflake beside sequences and UUIDs on a throwaway server, print the
figures, and write them: results.txt, results.csv and plots.  The full run takes
less than half an hour on two cores and 15 GB of disk.

  --quick       a run of two minutes, to see where one is
  --smoke       everything once and next to nothing of it: does it work?
  --readme      measure nothing; put the table of bench/results into README.md
  --pg MAJOR    with this major of PostgreSQL (default: the distribution's own)
  --output DIR  write there.  Default: bench/results, and then README.md gets its
                table; of a quick run bench/results/quick, and of --smoke nowhere
  --pgedge DIR  compare with pgEdge's extension, too, whose library for the same
                major, snowflake.so, is in this directory
  --help        this text
END
}

# pgEdge's library can be loaded beside ours, but not the extension, which has
# our name.  It goes first: what it calls snowflake.node has to be a setting by
# the time ours reserves such names.
pgedge_settings() {
    mkdir "${SCRATCH[0]}/pgedge"
    cp "$pgedge/snowflake.so" "${SCRATCH[0]}/pgedge"
    chmod -R a+rX "${SCRATCH[0]}/pgedge"
    cat <<END
shared_preload_libraries = '$COPY/pgedge/snowflake.so, snowflake'
snowflake.node = 1
END
}

create_pgedge() {
    quietly env PGHOST="$COPY" PGUSER=postgres PGDATABASE=postgres psql -Xq --set=ON_ERROR_STOP=1 -c "
        CREATE SEQUENCE pgedge_seq;
        CREATE FUNCTION pgedge_nextval(regclass) RETURNS bigint
        AS '$COPY/pgedge/snowflake.so', 'snowflake_nextval' LANGUAGE C"
}

# The README's table, from the results that are beside it.
write_readme() {
    local text
    text=$(perl "$SOURCE/bench/report.pl" readme "$RESULTS/results.csv" "$SOURCE/README.md")
    printf '%s\n' "$text" >"$SOURCE/README.md"
}

report() {
    as_tester perl bench/report.pl "$@"
}

main() {
    local made mode more=
    parse_options 'quick smoke readme pg=MAJOR output=DIR pgedge=DIR' "$@"
    mode=${smoke:+smoke}${quick:+quick}
    mode=${mode:-whole}
    [[ $mode != whole || $output ]] || output=$RESULTS
    [[ $mode != quick || $output ]] || output=$RESULTS/quick
    [[ -z $pgedge || -r $pgedge/snowflake.so ]] || die "--pgedge needs a directory with snowflake.so"
    if [[ $readme ]]; then
        write_readme
        exit
    fi
    need_major perl gnuplot-nox

    say "Building snowflake for PostgreSQL $major and starting a server"
    make_copy ''
    [[ -z $pgedge ]] || more=$(pgedge_settings)
    start_measured_server "shared_buffers = 1GB
max_connections = 160
wal_level = replica
max_wal_size = 8GB
checkpoint_timeout = 1h
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
snowflake.shards = '0-7'
$more"
    [[ -z $pgedge ]] || create_pgedge

    say "Measuring ($mode)"
    with_server env PGDATA="$COPY/data" perl bench/run.pl "$mode" ../tmp/results.csv
    made=${SCRATCH[0]}/tmp
    report text ../tmp/results.csv >"${SCRATCH[0]}/log"
    report plots ../tmp/results.csv ../tmp
    say
    cat "${SCRATCH[0]}/log"

    if [[ $output ]]; then
        mkdir -p "$output"
        cat "${SCRATCH[0]}/log" >"$output/results.txt"
        cp "$made"/results.csv "$made"/*.svg "$output"
        say
        say "Written to $output"
    fi
    if [[ $output == "$RESULTS" ]]; then
        write_readme
    fi
}

main "$@"
