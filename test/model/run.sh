#!/usr/bin/env bash
#
# run.sh -- have spin check the models: of minting, of leases, and of reading
#           what is new
#
#   test/model/run.sh                  check all of them
#   test/model/run.sh --show SWITCH    how this switch mints an id twice, or
#                                      misses a row
#
# minting.pml, lease.pml and settled.pml tell what is modelled and what the
# switches do.  A model as it is must hold in every interleaving, and with each
# switch it must not, or it proves nothing.  Prints a line in TAP for each.  A
# search that was not completed, for lack of memory, depth or time, or that never
# came to some step of the model, is a failure.
#
# Needs spin and gcc, and leaves nothing behind.

set -euo pipefail

# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"

MODELS=$SOURCE/test/model
LIMIT=300                       # seconds for one search
MEMORY=1500                     # megabytes, likewise
DEPTH=1000000                   # steps

# The switches, each with its model and what it needs besides.
SWITCHES=(
    "minting PUBLISH_BEFORE_DURABLE"
    "minting NO_FLOOR"
    "minting LATEST_BEFORE_HORIZON"
    "minting UNLOCKED_TAKE"
    "minting SPREAD_ANEW -DPER_TICK=2"
    "minting RECORD_GOES_DOWN"
    "minting STOP_TOO_SOON"
    "minting PUBLISH_BEFORE_LOGGED -DPROMOTION"
    "minting WAIT_CUT_SHORT -DPROMOTION"
    "lease FROM_ZERO"
    "lease ANY_HOLDER"
    "lease ANY_PLACE"
    "lease KEEPS_OLD_LEASES"
    "lease NO_FLOOR"
    "lease MINT_BEFORE_DURABLE"
    "lease HORIZON_PAST_UNTIL"
    "lease OPEN_BELOW_HORIZON"
    "lease RENEW_KEEPS_FROM -DLEASE=1"
    "lease RENEW_LOWERS_FROM -DRESTORE"
    "lease RELEASE_WHILE_OPEN"
    "lease RELEASE_BEFORE_DISK"
    "lease RELEASE_BELOW_FROM"
    "lease RELEASE_BELOW_FLOOR"
    "lease CALLS_REPEAT"
    "lease UNFENCED -DRESTORE"
    "lease FENCE_BEHIND -DRESTORE"
    "lease RENEWS_UNCLAIMED -DRESTORE"
    "lease RENEWS_EXPIRED -DRESTORE"
    "settled NO_SLOTS"
    "settled NO_RING"
    "settled NO_RAISE"
    "settled NO_BARRIER"
    "settled RING_BEFORE_SLOTS"
    "settled CLEAR_BEFORE_RING"
    "settled RING_BEFORE_VISIBLE"
    "settled NO_REACH"
    "settled NO_TABLE -DPREPARED -DXIDS=2"
    "settled TABLE_TO_NOWHERE -DPREPARED -DXIDS=2"
)

# The search is not as it must be.
is_wrong() {
    not_ok "$1" <(sed '/^unreached in/,$d' log)
}

# Make a search of a model: "-DSAFETY" is depth first, "-DBFS" breadth first.  The
# other definitions are the model's.  With -o3 spin keeps statements apart, so
# that it can tell which were reached.
make_search() {
    local model=$1 how=$2
    shift 2
    rm -f ./*
    cp "$MODELS/$model.pml" model.pml
    spin -a -o3 "$@" model.pml >log 2>&1 &&
        gcc -O2 -w "$how" "-DMEMLIM=$MEMORY" -o pan pan.c >>log 2>&1
}

# Run it, to this depth.  What the search says is added to the log.
search() {
    timeout --kill-after=5 "$LIMIT" ./pan "$@" >>log 2>&1
}

# The steps that the search never came to, but for the ends of processes that
# have none.
unreached() {
    sed -n '/^unreached in/,$s/^.*state [0-9]*, "\(.*\)"$/\1/p' log | grep -v '^-end-$' || true
}

# A model holds.
holds() {
    local model=$1 what=$2 began=$SECONDS states missed
    shift 2
    if ! make_search "$model" -DSAFETY "$@" || ! search -b "-m$DEPTH"; then
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

# What goes wrong in a model with a switch, and the definitions that it needs.
failure_of() {
    if [[ $1 == settled ]]; then
        what='misses a row' wrong='assertion violated' definitions=(-DTICKS=2 "-D$2" "${@:3}")
    else
        what='mints an id twice' wrong='assertion violated  *!((minted&'
        definitions=(-DTICKS=3 -DONLY_TWICE "-D$2" "${@:3}")
    fi
}

# With that switch it fails.  The shortest way to the failure is found breadth
# first.  The leases are too many states for that; there a way is looked for that
# is not long.
fails() {
    local depth
    if [[ $1 == lease ]]; then
        make_search "$1" -DSAFETY "${definitions[@]}" || return 1
        for depth in 120 200 400 "$DEPTH"; do
            search "-m$depth" || true
            [[ ! -f model.pml.trail ]] || break
        done
    else
        make_search "$1" -DBFS "${definitions[@]}" || return 1
        search -b "-m$DEPTH" || true
    fi
    grep "$wrong" log >/dev/null && [[ -f model.pml.trail ]]
}

show() {
    local entry found=
    local -a parts
    for entry in "${SWITCHES[@]}"; do
        read -ra parts <<<"$entry"
        [[ ${parts[1]} == "$1" ]] || continue
        failure_of "${parts[@]}"
        fails "${parts[0]}" || die "$1: not so: it $what"
        say "In ${parts[0]}.pml:"
        spin -t "${definitions[@]}" model.pml |
            sed -n -E 's/^ +((a minter|server|the standby|power|the registry|transaction|the reader) .*)/\1/p'
        found=yes
    done
    [[ $found ]] || die "there is no switch $1"
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

holds minting 'one server, 5 ticks' -DTICKS=5
holds minting 'one server, 4 ticks of 2 ids' -DTICKS=4 -DPER_TICK=2
holds minting 'a server and its standby, 3 ticks' -DPROMOTION -DTICKS=3
holds lease 'leases, two servers and their clones, 4 ticks' -DTICKS=4
holds lease 'leases, a registry that is restored, 3 ticks' -DRESTORE -DTICKS=3
holds settled 'reading what is new, 3 transactions' -DTICKS=2
holds settled 'reading twice, 3 ticks' -DTICKS=3 -DXIDS=2 -DPOLLS=2
holds settled 'transactions that are prepared' -DTICKS=3 -DPREPARED -DXIDS=2
for entry in "${SWITCHES[@]}"; do
    read -ra parts <<<"$entry"
    failure_of "${parts[@]}"
    if fails "${parts[0]}"; then
        ok "${parts[0]}: ${parts[1]} $what"
    else
        is_wrong "${parts[0]}: with ${parts[1]}, not so: it $what"
    fi
done
done_testing
