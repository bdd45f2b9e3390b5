#!/usr/bin/env bash
#
# run.sh -- how fast snowflake is, beside what else makes ids
#
# Makes a copy of the tree, and has run.pl start a server there and measure.
# What is measured is said in measure/ and apart/, how it goes in perl/Bench.pm;
# report.pl makes the tables and the plots.  test/lib.sh tells how the rest of
# the machine is kept out of it.
#
# Figures of different runs do not compare, those of one run do: hence the
# peers.  Nothing else should run on the machine.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../test/lib.sh"

RESULTS=$SOURCE/bench/results

# The topics in a directory.
topics() { (cd "$SOURCE/bench/$1" && printf '%s\n' *.pl | sed 's/^[0-9]*_//; s/\.pl$//' | paste -sd ' '); }

usage() {
    cat <<END
Usage: bench/run.sh [--quick | --smoke | --readme] [--only TOPIC] [--pg MAJOR]
                    [--pgedge DIR]

Measure snowflake beside sequences and UUIDs on a throwaway server, and print the
figures.  The full run takes half an hour on two cores and 5 GB of disk; it writes
bench/results, and the tables of README.md and doc/speed.md.

  --quick       a run of some minutes, to see where one is
  --smoke       all but instructions once, and next to nothing of it: does it work?
  --readme      measure nothing; make the tables of README.md and doc/speed.md, and
                the plots, from bench/results/results.csv
  --only TOPIC  measure only this: $(topics measure)
                or this, which is in no other run and only printed: $(topics apart)
  --pg MAJOR    with this major of PostgreSQL (default: the distribution's own).
                One that this machine's distribution does not have is measured in
                a Debian that does, which is downloaded for it; only root can
  --pgedge DIR  compare with pgEdge's extension, too, whose library for the same
                major, snowflake.so, is in this directory
  --help        this text
END
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

# Have PostgreSQL and the packages named, in this machine or in another Debian: sets
# $major and $root.
have_postgres() {
    local dir
    root=
    if [[ -z $pg ]] || is_packaged "$pg"; then
        need_major "$@"
        return
    fi
    [[ ${SUITE[$pg]-} ]] || die "no Debian has PostgreSQL $pg"
    ((EUID == 0)) || die "PostgreSQL $pg is not in this distribution; only root can measure it in another"
    say "Fetching the Debian that has PostgreSQL $pg"
    dir=$(mktemp -d /tmp/snowflake.XXXXXX)
    SCRATCH+=("$dir")
    major=$pg
    root=$dir/$pg
    have_root "$root" "${SUITE[$pg]}" "$BUILD_PACKAGES $(server_packages "$pg") $*" || die "could not download it"
}

main() {
    local mode csv root topic command_line=$*
    parse_options 'quick smoke readme only=TOPIC pg=MAJOR pgedge=DIR' "$@"
    exclude_each_other quick smoke readme
    if [[ $readme ]]; then
        [[ -z $only$pg$pgedge ]] || die '--readme measures nothing, and takes no other option'
        write_pages
        exit
    fi
    mode=${smoke:+smoke}${quick:+quick}
    mode=${mode:-whole}
    [[ -z $only || " $(topics measure) $(topics apart) " == *" $only "* ]] || die "there is no topic \"$only\"; see --help"
    [[ -z $pgedge || -r $pgedge/snowflake.so ]] || die "--pgedge needs a directory with snowflake.so"

    # shellcheck disable=SC2046 # no package is none
    have_postgres perl $([[ $only != instructions ]] || echo valgrind)
    make_copy "$root"
    if [[ $pgedge ]]; then
        install -D -m 644 "$pgedge/snowflake.so" "$ROOT$COPY/pgedge/snowflake.so"
        own_copy
    fi
    # A directory of this machine means nothing to a reader.
    as_tester env BENCH_COMMAND="bench/run.sh ${command_line/"$pgedge"/${pgedge:+DIR}}" \
        BENCH_COMMIT="$(git -c safe.directory='*' -C "$SOURCE" describe --always --dirty 2>/dev/null)" \
        perl bench/run.pl "$mode" ../tmp/results.csv ${only:+"$only"}
    csv=$ROOT$COPY/tmp/results.csv
    [[ -s $csv ]] || exit 0     # it was apart

    say 'Measured:'
    report print "$csv"
    [[ $mode != smoke || $only ]] || for topic in capacity registry; do as_tester perl bench/run.pl smoke '' "$topic"; done
    [[ $mode == whole && -z $only ]] || exit 0
    cat "$csv" >"$RESULTS/results.csv"
    write_pages
    say "Written to $RESULTS, README.md and doc/speed.md"
}

main "$@"
