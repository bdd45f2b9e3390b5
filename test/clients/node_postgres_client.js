// node_postgres_client.js -- snowflake from JavaScript, by node-postgres
//
// What stands in doc/clients.md is copied out of here.  Connects as the PG*
// environment variables say to a database with the table photos, and prints TAP.

'use strict';

const pg = require('pg');

// A client for which a snowflake is a BigInt.  Without the parser it is a
// string of digits, which is as good a key; what it must never be is a number.
async function connect() {
    const client = new pg.Client();
    await client.connect();
    const { rows } = await client.query("SELECT 'snowflake'::regtype::oid::int AS oid");
    client.setTypeParser(rows[0].oid, BigInt);
    return client;
}

// The id of the new row
async function addPhoto(client, url) {
    const { rows } = await client.query(
        'INSERT INTO photos (url) VALUES ($1) RETURNING id', [url]);
    return rows[0].id;
}

// The url of a row; the id may be a BigInt or a string of digits.
async function findPhoto(client, id) {
    const { rows } = await client.query('SELECT url FROM photos WHERE id = $1', [id]);
    return rows[0]?.url;
}

// Several rows at once, by an array of BigInt or of strings
async function findPhotos(client, ids) {
    const { rows } = await client.query(
        'SELECT id, url FROM photos WHERE id = ANY($1) ORDER BY id', [ids]);
    return rows;
}

// The rows of the table, newest first, a page at a time
async function* pages(client, size) {
    let last = 2n ** 63n - 1n;
    for (;;) {
        const { rows } = await client.query({
            name: 'page',
            text: 'SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2',
            values: [last, size],
        });
        if (rows.length === 0)
            return;
        yield rows;
        last = rows[rows.length - 1].id;
    }
}

// A row as the server writes it in JSON; JSON.parse leaves the id a string.
async function photoJson(client, id) {
    const { rows } = await client.query(
        'SELECT to_json(photos)::text AS json FROM photos WHERE id = $1', [id]);
    return JSON.parse(rows[0].json);
}

// What a web API sends: JSON.stringify refuses a BigInt, so make it a string.
function apiResponse(photo) {
    return JSON.stringify(photo, (key, value) =>
        typeof value === 'bigint' ? value.toString() : value);
}

// --- The test.  The ids are the extremes, the smallest, and one that a double
// --- does not hold: to pass, no digit may be lost.

const IDS = [2n ** 63n - 1n, -(2n ** 63n), 1n, 175928847299117063n];
let count = 0;

function ok(good, name) {
    count++;
    console.log(`${good ? 'ok' : 'not ok'} ${count} - ${name}`);
}

// BigInts included
function same(a, b) {
    return apiResponse(a) === apiResponse(b);
}

// node-postgres sends a Buffer in binary.  (It receives in text: its option
// "binary" takes the bytes for UTF-8, whatever the type.)
function inBinary(id) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64BE(BigInt(id));
    return bytes;
}

// Send each id as a BigInt and as a string, and read it as both.
async function roundTrip(name, execute) {
    for (const convert of [BigInt, String]) {
        const got = [];
        for (const id of IDS) {
            got.push(await execute("INSERT INTO photos VALUES ($1, 'x') RETURNING id, id::text AS text", convert(id)));
            got.push(await execute('SELECT id, id::text AS text FROM photos WHERE id = $1', convert(id)));
            await execute('DELETE FROM photos WHERE id = $1 RETURNING id, id::text AS text', convert(id));
        }
        ok(got.every((row, i) => row.id === IDS[i >> 1] && row.text === String(IDS[i >> 1])),
            `${name}: ids sent as ${convert.name} come back as they were`);
    }
}

async function main() {
    const raw = new pg.Client();
    await raw.connect();
    const client = await connect();
    const value = async (query, values) => Object.values((await client.query(query, values)).rows[0])[0];

    // what connect() is for
    const first = await addPhoto(raw, 'first');
    ok(typeof first === 'string', 'without the parser an id is a string');
    const second = await addPhoto(client, 'second');
    ok(typeof second === 'bigint' && second > BigInt(first), 'with it it is a BigInt');
    ok(await value("SELECT id::text FROM photos WHERE url = 'second'") === String(second),
        "and the id that RETURNING gave is the row's");
    ok(await findPhoto(client, second) === 'second', 'a row is found by a BigInt');
    ok(await findPhoto(client, first) === 'first', 'and by a string');
    ok(same((await findPhotos(client, [BigInt(first), second])).map((row) => row.url), ['first', 'second']),
        'rows are found by an array of BigInt');
    ok((await findPhotos(client, [first, String(second)])).length === 2, 'and of strings');

    // every way to send and to receive
    await roundTrip('simple', async (text, id) =>
        (await client.query(text.replace('$1', typeof id === 'string' ? `'${id}'` : `(${id})`))).rows[0]);
    await roundTrip('extended', async (text, id) => (await client.query(text, [id])).rows[0]);
    await roundTrip('prepared', async (text, id) =>
        (await client.query({ name: text.slice(0, 6), text, values: [id] })).rows[0]);
    ok(await value("SELECT count(*)::int FROM pg_prepared_statements WHERE name IN ('INSERT', 'SELECT', 'DELETE')") === 3,
        'and statements were prepared');
    await roundTrip('binary', async (text, id) =>
        (await client.query(text, [inBinary(id)])).rows[0]);

    // some hundred rows
    const ids = [BigInt(first), second];
    for (let n = 0; n < 300; n++)
        ids.push(await addPhoto(client, `u${n}`));
    ok(new Set(ids).size === 302 && ids.every((id, i) => i === 0 || id > ids[i - 1]), 'ids increase');

    // pages
    const seen = [];
    const sizes = [];
    for await (const page of pages(client, 40)) {
        seen.push(...page.map((row) => row.id));
        sizes.push(page.length);
    }
    ok(same(seen, ids.slice().reverse()), `pages: each of ${ids.length} rows once, in order`);
    ok(same(sizes, [40, 40, 40, 40, 40, 40, 40, 22]), 'in 8 pages');
    const halves = [];
    for await (const page of pages(client, 151))
        halves.push(page.length);
    ok(same(halves, [151, 151]), 'the last page may be full');
    await client.query('SET enable_seqscan = off');
    const plan = await client.query('EXPLAIN SELECT url FROM photos WHERE id < $1', [second]);
    ok(JSON.stringify(plan.rows).includes('Index Cond: ('), 'a BigInt is looked up in the index');

    // JSON
    await client.query("INSERT INTO photos VALUES ('175928847299117063', 'discord')");
    const photo = await photoJson(client, 175928847299117063n);
    ok(photo.id === '175928847299117063' && BigInt(photo.id) === 175928847299117063n, 'JSON: no digit is lost');
    ok(same(await value("SELECT row_to_json(photos) FROM photos WHERE url = 'discord'"),
        { id: '175928847299117063', url: 'discord' }), 'JSON: parsed by node-postgres as well');
    ok(apiResponse((await findPhotos(client, [175928847299117063n]))[0]) === '{"id":"175928847299117063","url":"discord"}',
        'JSON: written by an API');
    ok(JSON.parse(await value("SELECT json_build_object('id', id::bigint)::text FROM photos WHERE url = 'discord'")).id
        === 175928847299117056, 'JSON: what becomes of a bigint');

    console.log(`1..${count}`);
    await raw.end();
    await client.end();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
