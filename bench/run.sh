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
Usage: bench/run.sh [--quick | --smoke | --readme] [--only TOPIC] [--pg MAJOR]
                    [--pgedge DIR] [--output DIR]

Measure snowflake beside sequences and UUIDs on a throwaway server, print the
figures, and write them: results.csv and plots.  The full run takes half an hour
on two cores and 5 GB of disk.

  --quick       a run of some minutes, to see where one is
  --smoke       everything once and next to nothing of it: does it work?
  --readme      measure nothing; make the tables of README.md and doc/speed.md, and
                the plots, from bench/results/results.csv
  --only TOPIC  measure only this: $(cd "$SOURCE/bench/measure" && printf '%s\n' *.pl | sed 's/^[0-9]*_//; s/\.pl$//' | paste -sd ' ')
  --pg MAJOR    with this major of PostgreSQL (default: the distribution's own).
                One that this machine's distribution does not have is measured in
                a Debian that does, which is downloaded for it; only root can
  --pgedge DIR  compare with pgEdge's extension, too, whose library for the same
                major, snowflake.so, is in this directory
  --output DIR  write there.  Default: for a full run bench/results, and then
                README.md and doc/speed.md get their tables; for others, nowhere
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

report() { perl "$SOURCE/bench/report.pl" "$@"; }

# The plots, and the tables of the pages.
write_pages() {
    local page text
    report plots "$RESULTS/results.csv" "$RESULTS"
    for page in README.md doc/speed.md; do
        text=$(report page "$RESULTS/results.csv" "$SOURCE/$page")
        printf '%s\n' "$text" >"$SOURCE/$page"
    done
}

# Measure on this machine: $csv.
measure() {
    local more=
    # shellcheck disable=SC2119 # no more packages than those
    need_major
    say "Building snowflake for PostgreSQL $major and starting a server"
    make_copy ''
    [[ -z $pgedge ]] || more=$(pgedge_settings)
    start_measured_server "shared_buffers = 1GB
max_connections = 160
max_locks_per_transaction = 1000
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
    # shellcheck disable=SC2086 # no topic is none
    with_server env PGDATA="$COPY/data" perl bench/run.pl "$mode" ../tmp/results.csv $only
    csv=${SCRATCH[0]}/tmp/results.csv
}

# Have this script measure in another Debian: $csv.
measure_in_root() {
    local dir root
    [[ ${SUITE[$pg]-} ]] || die "no Debian has PostgreSQL $pg"
    ((EUID == 0)) || die "PostgreSQL $pg is not in this distribution; only root can measure it in another"
    say "Fetching the Debian that has PostgreSQL $pg"
    dir=$(mktemp -d /tmp/snowflake.XXXXXX)
    SCRATCH+=("$dir")
    root=$dir/$pg
    have_root "$root" "${SUITE[$pg]}" "$BUILD_PACKAGES postgresql-$pg postgresql-server-dev-$pg perl" ||
        die "could not download it"
    mkdir "$root/tree"
    tar -C "$SOURCE" -cf - --exclude-vcs . | tar -C "$root/tree" -xf - --no-same-owner
    [[ -z $pgedge ]] || cp -r "$pgedge" "$root/pgedge"
    # what was measured is worth keeping, whatever comes after it
    enter_root "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        /tree/bench/run.sh --pg "$pg" --output /output ${quick:+--quick} ${smoke:+--smoke} \
        ${only:+--only "$only"} ${pgedge:+--pgedge /pgedge} > >(sed -u '/^Measured/,$d') || true
    csv=$root/output/results.csv
    [[ -s $csv ]] || die "nothing was measured"
}

main() {
    local mode csv
    parse_options 'quick smoke readme only=TOPIC pg=MAJOR pgedge=DIR output=DIR' "$@"
    exclude_each_other quick smoke readme
    if [[ $readme ]]; then
        [[ -z $only$pg$pgedge$output ]] || die '--readme measures nothing, and takes no other option'
        write_pages
        exit
    fi
    mode=${smoke:+smoke}${quick:+quick}
    mode=${mode:-whole}
    [[ -z $only ]] || compgen -G "$SOURCE/bench/measure/*_$only.pl" >/dev/null || die "there is no topic \"$only\"; see --help"
    [[ -z $pgedge || -r $pgedge/snowflake.so ]] || die "--pgedge needs a directory with snowflake.so"
    if [[ $pg ]] && ! is_packaged "$pg"; then
        measure_in_root
    else
        measure
    fi
    [[ $mode != whole || $only || $output ]] || output=$RESULTS
    if [[ $output ]]; then
        mkdir -p "$output"
        cat "$csv" >"$output/results.csv"
        report plots "$csv" "$output"
    fi
    say 'Measured:'
    report print "$csv"
    [[ $output != "$RESULTS" ]] || write_pages
    [[ -z $output ]] || say "Written to $output"
}

main "$@"
