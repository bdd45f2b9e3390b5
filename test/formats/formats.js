// formats.js -- tests of snowflake.js
//
//   node formats.js decode < LINES    layout,id in; layout,id,time,shard,sequence out
//   node formats.js encode < LINES    layout,tick,shard,sequence in; id out
//   node formats.js mint LAYOUT SHARD COUNT AFTER
//                                     so many ids, by several at once
//   node formats.js test              a clock that is set back and the like, in TAP

'use strict';

const fs = require('fs');
const { LAYOUTS, decode, encode, Generator } = require('./snowflake.js');

const lines = () => fs.readFileSync(0, 'utf8').trim().split('\n').map((line) => line.split(','));

let count = 0;

function ok(good, name) {
    count++;
    console.log(`${good ? 'ok' : 'not ok'} ${count} - ${name}`);
}

function fails(call, pattern, name) {
    try {
        call();
        ok(false, name);
    } catch (error) {
        ok(pattern.test(error.message), name);
    }
}

// With a clock that only the test moves
async function test() {
    const start = Date.UTC(2026, 0, 1);
    let time = start;
    const now = () => time;
    const make = (layout, after) => new Generator(layout, 0, { after, now });

    for (const layout of Object.keys(LAYOUTS)) {
        const room = 2 ** Number(LAYOUTS[layout][3][1]);
        const tick = Number(LAYOUTS[layout][1]);

        time = start;
        const generator = make(layout, time - tick);
        const ids = Array.from({ length: room }, () => generator.tryNext());
        ok(ids.every((id, i) => i === 0 || id > ids[i - 1]), `${layout}: ids increase`);
        ok(decode(ids[0], layout).sequence === 0 && decode(ids[room - 1], layout).sequence === room - 1,
            `${layout}: a tick has room for ${room}`);
        ok(ids.every((id) => Math.abs(decode(id, layout).createdAt - time) < tick), `${layout}: of the present`);
        ok(generator.tryNext() === undefined, `${layout}: then it is exhausted`);
        time += tick;
        const next = generator.tryNext();
        ok(next > ids[room - 1], `${layout}: the next tick has room`);
        time -= 5000;
        ok(generator.tryNext() === undefined, `${layout}: a clock that is set back gives no id`);
        time += 5000;
        ok(generator.tryNext() > next, `${layout}: put right, it gives the next`);

        // another one after it, as after a restart
        const last = generator.tryNext();
        const second = make(layout, last);
        time -= 60000;
        ok(second.tryNext() === undefined, `${layout}: after a restart none of before`);
        time += 60000;
        ok(second.tryNext() > last, `${layout}: but above the last id`);
        const third = make(layout, time);
        ok(third.tryNext() === undefined, `${layout}: nor of the tick of a time`);
        time += tick;
        ok(decode(third.tryNext(), layout).sequence === 0, `${layout}: but of the next`);
    }
    time = start;
    const behind = make('twitter', time + 3600000);
    const error = await behind.next(20).catch((e) => e);
    ok(/clock is behind/.test(error.message), 'it waits for a clock no longer than told');
    fails(() => new Generator('twitter', 1024, { after: 0 }), /no shard 1024/, 'a shard that is not there');
    fails(() => new Generator('twitter', 0, {}), /after must be/, 'without what it must know');
    console.log(`1..${count}`);
}

async function mint(layout, shard, number, after) {
    const generator = new Generator(layout, Number(shard), { after: BigInt(after) });
    const worker = async (n) => {
        for (let i = 0; i < n; i++)
            console.log(String(await generator.next()));
    };
    await Promise.all([1, 2, 3, 4].map(() => worker(Number(number) / 4)));
}

const [, , command, ...args] = process.argv;

if (command === 'decode') {
    for (const [layout, id] of lines()) {
        const { createdAt, shard, sequence } = decode(id, layout);
        console.log([layout, id, createdAt.toISOString(), shard, sequence].join(','));
    }
} else if (command === 'encode') {
    for (const [layout, tick, shard, sequence] of lines())
        console.log(String(encode(tick, shard, sequence, layout)));
} else if (command === 'mint') {
    mint(...args);
} else {
    test();
}
