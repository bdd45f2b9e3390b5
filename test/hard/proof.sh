#!/usr/bin/env bash
#
# proof.sh -- have CBMC prove what test/hard/proof/layout.c states
#
#   test/hard/proof.sh [ROOT]
#
# For each preset, over all values of 64 bits.  What must not be provable is
# tried as well: with each of the faults below, put into a copy of the source,
# some proof must fail, or all of them prove nothing.
#
# The source goes to CBMC preprocessed, so that it needs no headers, and CBMC
# may be in another Debian, the directory ROOT, if this one has none.  Prints
# a line in TAP for each.  Needs gcc and the headers of a server, and root if
# there is a ROOT.

# shellcheck disable=SC2317 # functions are called by way of check()

set -euo pipefail

root=${1-}
HERE=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/lib.sh
. "$HERE/../lib.sh"
LIMIT=60                        # seconds for one proof
PROOFS=(pack_unpack unpack_pack order position_after minted)
SONYFLAKE=3                     # the first preset that every proof is about
WORK=$(mktemp -d "$root/tmp/snowflake-proof.XXXXXX")
SCRATCH=("$WORK")

# Faults: a sed script for src/layout.[ch] and the proof that must fail with it.
FAULTS=(
    's/return id >> layout->timestamp_shift/return id >> layout->shard_bits/ pack_unpack'
    's/(uint64) tick << layout->timestamp_shift/(uint64) (tick << layout->timestamp_shift)/ pack_unpack'
    's/(uint64) shard << layout->shard_shift/(uint64) shard << layout->sequence_shift/ unpack_pack'
    's/return position >> layout->sequence_bits/return -(position >> layout->sequence_bits)/ order'
    's/shard > layout_shard(layout, id) ?/shard >= layout_shard(layout, id) ?/ position_after'
    's/layout_mask(tick_bits)/layout_mask(tick_bits + 1)/ minted'
    's/total > ID_BITS/total > ID_BITS + 1/ place_fields'
)

# Preprocess the tree $1 for preset $2.
prepare() {
    local include
    include=$(pg_config --includedir-server)
    gcc -I"$include" "$1/test/hard/proof/presets.c" -o "$WORK/presets" \
        "$(pg_config --pkglibdir)/libpgport.a"
    "$WORK/presets" >"$WORK/presets.inc"
    gcc -E -P -I"$include" -I"$WORK" -DPRESET="$2" \
        "$1/test/hard/proof/layout.c" -o "$WORK/preset$2.i"
}

# Prove $1 of preset $2.  Ends with 0 if proved, 10 if refuted.
prove() {
    local -a cbmc=(cbmc "${WORK#"$root"}/preset$2.i" --function "proof_$1" --unwind 6
        --unwinding-assertions --signed-overflow-check --undefined-shift-check
        --bounds-check --pointer-check --div-by-zero-check)
    if [[ $root ]]; then
        cbmc=(chroot "$root" "${cbmc[@]}")
    fi
    timeout "$LIMIT" "${cbmc[@]}"
}

# Is proof $1 about preset $2?
is_about() {
    [[ $1 != position_after ]] ||
        ! sed -n "$(($2 + 1))p" "$WORK/presets.inc" | grep -q 'sequence_shift = 0,'
}

refutes() {
    local script=$1 proof=$2 status=0
    rm -rf "$WORK/broken"
    mkdir -p "$WORK/broken/test/hard"
    cp -r "$HERE/../../src" "$WORK/broken/src"
    cp -r "$HERE/proof" "$WORK/broken/test/hard/proof"
    sed -i "$script" "$WORK/broken/src/"layout*.[ch]
    if diff -r "$HERE/../../src" "$WORK/broken/src" >/dev/null; then
        echo "this fault is not there to be made"
        return 1
    fi
    prepare "$WORK/broken" "$SONYFLAKE"
    prove "$proof" "$SONYFLAKE" || status=$?
    ((status == 10))
}

presets=$(grep -c '^	 "epoch=' "$HERE/../../src/layout_text.c")
for ((preset = 0; preset < presets; preset++)); do
    prepare "$HERE/../.." "$preset"
    name=$(sed -n "$((preset + 1))s|.*/\* \(.*\) \*/|\1|p" "$WORK/presets.inc")
    for proof in "${PROOFS[@]}"; do
        is_about "$proof" "$preset" || continue
        check "proved of $name: ${proof//_/ }" prove "$proof" "$preset" || true
    done
done
check "proved of all specifications: place fields" prove place_fields 0 || true
for fault in "${FAULTS[@]}"; do
    check "refuted: ${fault##* } with ${fault% *}" refutes "${fault% *}" "${fault##* }" || true
done
done_testing
