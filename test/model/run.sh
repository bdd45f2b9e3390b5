#!/usr/bin/env bash
#
# run.sh -- have spin check the models: of minting and the horizon, and of
#           reading what is new
#
#   test/model/run.sh                  check all of it
#   test/model/run.sh --show SWITCH    how this switch mints an id twice, or
#                                      misses a row
#
# minting.pml and settled.pml tell what is modelled and what the switches do.  A
# model as it is must hold in every interleaving, and with each switch it must
# not, or it proves nothing.  Prints a line in TAP for each, and exits with 0 if all is
# as it must be.  A search that was not completed, for lack of memory, depth or
# time, or that never came to some step of the model, is a failure.
#
# Needs spin and gcc, and leaves nothing behind.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"

MODELS=$SOURCE/test/model
LIMIT=120                       # seconds for one search
MEMORY=1500                     # megabytes, likewise
DEPTH=200000                    # steps

# The switches of each model, each with what it needs besides.
MINTING=(
    PUBLISH_BEFORE_DURABLE
    NO_FLOOR
    LATEST_BEFORE_HORIZON
    UNLOCKED_TAKE
    "SPREAD_ANEW -DPER_TICK=2"
    RECORD_GOES_DOWN
    STOP_TOO_SOON
    "PUBLISH_BEFORE_LOGGED -DPROMOTION"
    "WAIT_CUT_SHORT -DPROMOTION"
)
SETTLED=(
    NO_SLOTS
    NO_RING
    NO_RAISE
    NO_BARRIER
    RING_BEFORE_SLOTS
    CLEAR_BEFORE_RING
    RING_BEFORE_VISIBLE
    NO_REACH
    "NO_TABLE -DPREPARED -DXIDS=2"
    "TABLE_TO_NOWHERE -DPREPARED -DXIDS=2"
)

# The search is not as it must be.
is_wrong() {
    not_ok "$1" <(sed '/^unreached in/,$d' log)
}

# Search a model with the given definitions.  The first says how: "-DSAFETY" is
# depth first, "-DBFS" breadth first, which finds the shortest way to an error.
# The others are the model's.  With -o3 spin keeps statements apart,
# so that it can tell which were reached.  What spin, gcc and the search say goes
# to log.
search() {
    local model=$1 how=$2
    shift 2
    rm -f ./*
    cp "$MODELS/$model" .
    spin -a -o3 "$@" "$model" >log 2>&1 &&
        gcc -O2 -w "$how" "-DMEMLIM=$MEMORY" -o pan pan.c >>log 2>&1 &&
        timeout --kill-after=5 "$LIMIT" ./pan -b "-m$DEPTH" >>log 2>&1
}

# The steps that the search never came to, but for the ends of processes that
# have none.
unreached() {
    sed -n '/^unreached in/,$s/^.*state [0-9]*, "\(.*\)"$/\1/p' log | grep -v '^-end-$' || true
}

# The model holds.
holds() {
    local what=$1 model=$2 began=$SECONDS states missed
    shift 2
    if ! search "$model" -DSAFETY "$@"; then
        is_wrong "$what: the search did not end"
        return
    fi
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' log)
    missed=$(unreached)
    if ! grep 'errors: 0$' log >/dev/null; then
        is_wrong "$what: there is an error"
    elif grep -E 'not completed|too small|MEMLIM bound|out of memory' log >/dev/null ||
        [[ -z $states ]]; then
        is_wrong "$what: the search is not complete"
    elif [[ $missed ]]; then
        is_wrong "$what: never came to: $missed"
    else
        ok "$what: $states states, $((SECONDS - began)) s"
    fi
}

# With that switch it does not, and what goes wrong is an id minted twice.
mints_twice() {
    local switch=$1
    shift
    search minting.pml -DBFS -DTICKS=3 -DONLY_TWICE "-D$switch" "$@" || true
    grep 'assertion violated  *!((minted&' log >/dev/null && [[ -f minting.pml.trail ]]
}

# With that switch it does not, and what goes wrong is a row missed.
misses_row() {
    local switch=$1
    shift
    search settled.pml -DBFS -DTICKS=2 "-D$switch" "$@" || true
    grep 'assertion violated' log >/dev/null && [[ -f settled.pml.trail ]]
}

show() {
    local switch
    for switch in "${MINTING[@]}"; do
        [[ ${switch%% *} == "$1" ]] || continue
        # shellcheck disable=SC2086 # several words
        if ! mints_twice $switch; then
            die "$1 does not mint twice"
        fi
        # shellcheck disable=SC2086
        spin -t -DTICKS=3 -DONLY_TWICE -D$switch minting.pml |
            sed -n -E 's/^ +((a minter|server|the standby|power) .*)/\1/p'
        return
    done
    for switch in "${SETTLED[@]}"; do
        [[ ${switch%% *} == "$1" ]] || continue
        # shellcheck disable=SC2086 # several words
        if ! misses_row $switch; then
            die "$1 does not miss a row"
        fi
        # shellcheck disable=SC2086
        spin -t -DTICKS=2 -D$switch settled.pml |
            sed -n -E 's/^ +((transaction|the reader) .*)/\1/p'
        return
    done
    die "there is no switch $1"
}

for program in spin gcc; do
    command -v "$program" >/dev/null || die "$program is not installed"
done
WORK=$(mktemp -d)
SCRATCH=("$WORK")
cd "$WORK"

case ${1-} in
    '') ;;
    --show)
        show "${2-}"
        exit
        ;;
    *) die "unknown option \"$1\"" ;;
esac

holds 'one server, 5 ticks' minting.pml -DTICKS=5
holds 'one server, 4 ticks of 2 ids' minting.pml -DTICKS=4 -DPER_TICK=2
holds 'a server and its standby, 3 ticks' minting.pml -DPROMOTION -DTICKS=3
for switch in "${MINTING[@]}"; do
    # shellcheck disable=SC2086 # several words
    if mints_twice $switch; then
        ok "${switch%% *} mints an id twice"
    else
        is_wrong "${switch%% *} does not mint an id twice"
    fi
done

holds 'reading what is new, 3 transactions' settled.pml -DTICKS=2
holds 'reading twice, 3 ticks' settled.pml -DTICKS=3 -DXIDS=2 -DPOLLS=2
holds 'transactions that are prepared' settled.pml -DTICKS=3 -DPREPARED -DXIDS=2
for switch in "${SETTLED[@]}"; do
    # shellcheck disable=SC2086 # several words
    if misses_row $switch; then
        ok "${switch%% *} misses a row"
    else
        is_wrong "${switch%% *} does not miss a row"
    fi
done
done_testing
