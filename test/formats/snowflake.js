// snowflake.js -- reading ids, and minting them, in JavaScript
//
// What stands in doc/formats.md is copied out of here.  formats.js beside it tests
// it.  An id is a BigInt, or a string of digits; as a number it would be rounded.

'use strict';

// Epoch and tick in milliseconds, then shift and bits of shard and sequence number
const LAYOUTS = {
    twitter: [1288834974657n, 1n, [12n, 10n], [0n, 12n]],
    discord: [1420070400000n, 1n, [12n, 10n], [0n, 12n]],
    instagram: [1314220021721n, 1n, [10n, 13n], [0n, 10n]],
    sonyflake: [1409529600000n, 10n, [0n, 16n], [16n, 8n]],
    sonyflake2: [1735689600000n, 10n, [0n, 16n], [16n, 8n]],
    pgedge: [1672531200000n, 1n, [12n, 10n], [0n, 12n]],
    mastodon: [0n, 1n, [0n, 0n], [0n, 16n]],
    clickhouse: [0n, 1n, [12n, 10n], [0n, 12n]],
    pgdog: [1764184395000n, 1n, [12n, 10n], [0n, 12n]],
    pgdog_compact: [1764184395000n, 1n, [6n, 6n], [0n, 6n]],
};

function decode(id, layout) {
    const [epoch, tick, shard, sequence] = LAYOUTS[layout];
    const part = ([shift, bits]) => Number(BigInt(id) >> shift & (1n << bits) - 1n);
    return {
        createdAt: new Date(Number((BigInt(id) >> shard[1] + sequence[1]) * tick + epoch)),
        shard: part(shard),
        sequence: part(sequence),
    };
}

function encode(tick, shard, sequence, layout) {
    const [, , [shardShift, shardBits], [sequenceShift, sequenceBits]] = LAYOUTS[layout];
    return BigInt(tick) << shardBits + sequenceBits
        | BigInt(shard) << shardShift | BigInt(sequence) << sequenceShift;
}

// Mints ids on a shard that nobody else has: no server, no other process, no
// other generator in this one.  "after" is an id of this shard, or a time in
// milliseconds, such that no id above it was ever minted.
class Generator {
    constructor(layout, shard, { after, now = Date.now }) {
        const [epoch, tick, [, shardBits], [sequenceShift, sequenceBits]] = LAYOUTS[layout];
        if (!Number.isInteger(shard) || shard < 0 || shard >= 2 ** Number(shardBits))
            throw new RangeError(`layout ${layout} has no shard ${shard}`);
        if (typeof after !== 'bigint' && typeof after !== 'number')
            throw new TypeError('after must be an id (BigInt) or a time (number of milliseconds)');
        Object.assign(this, { layout, shard, now, epoch, tick, bits: sequenceBits });
        // a position is a tick and a sequence number in one
        this.last = typeof after === 'number' ? (this.tickOf(after) + 1n << sequenceBits) - 1n
            : (after >> shardBits + sequenceBits) << sequenceBits
                | after >> sequenceShift & (1n << sequenceBits) - 1n;
    }

    tickOf(ms) {
        return (BigInt(Math.floor(ms)) - this.epoch) / this.tick;
    }

    // The next id, or undefined if there is none yet: this tick is exhausted, or
    // the clock was set back.  No id is of the past, none of the future.
    tryNext() {
        const tick = this.tickOf(this.now());
        const first = tick << this.bits;
        const position = first > this.last ? first : this.last + 1n;
        if (position >> this.bits > tick)
            return undefined;
        this.last = position;
        return encode(position >> this.bits, this.shard, position & (1n << this.bits) - 1n, this.layout);
    }

    // Waits for it, up to so many milliseconds.
    async next(patience = 1000) {
        for (const end = performance.now() + patience; ;) {
            const id = this.tryNext();
            if (id !== undefined)
                return id;
            if (performance.now() > end)
                throw new Error('the clock is behind the last id');
            await new Promise((resolve) => setTimeout(resolve, 1));
        }
    }
}

module.exports = { LAYOUTS, decode, encode, Generator };
