// postgresjs.js -- ids of snowflake by postgres.js

import { ID, check, checkRows, done, failure, fillRelated, makeRelated, ok, query, same } from './check.js';

import postgres from 'postgres';

const sql = postgres();             // as the PG* environment variables say

// The id of the new row
async function addPhoto(photo) {
    const [{ id }] = await sql`INSERT INTO photos ${sql(photo)} RETURNING id`;
    return id;
}

// A row, or several, by strings of digits
async function findPhoto(id) {
    const [photo] = await sql`SELECT * FROM photos WHERE id = ${id}`;
    return photo;
}

async function findPhotos(ids) {
    return sql`SELECT * FROM photos WHERE id = ANY(${ids}) ORDER BY id`;
}

// A page, newest first; the first one begins below '9223372036854775807'.
async function page(last, size) {
    return sql`SELECT * FROM photos WHERE id < ${last} ORDER BY id DESC LIMIT ${size}`;
}

// The rows that were minted at a time or later
async function photosSince(time) {
    return sql`SELECT * FROM photos WHERE id >= snowflake_floor(${time}) ORDER BY id`;
}

// Ids for rows that are written later
async function fetchIds(n) {
    const rows = await sql`SELECT snowflake_nextval() AS id FROM generate_series(1, ${n})`;
    return rows.map((row) => row.id);
}

// A client for which an id is a BigInt, of a bigint column, too
async function connectWithBigInt() {
    const [{ oid }] = await sql`SELECT 'snowflake'::regtype::oid::int AS oid`;
    return postgres({
        types: {
            bigint: postgres.BigInt,
            snowflake: { to: oid, from: [oid], serialize: String, parse: BigInt },
        },
    });
}

// There an array of BigInt has to be told its type, which is bigint[].
async function findByBigInts(sql, ids) {
    return sql`SELECT * FROM photos WHERE id = ANY(${sql.array(ids, 1016)}) ORDER BY id`;
}

// --- The test

async function ends() {
    return Object.values((await sql`SELECT min(id) AS least, max(id) AS greatest FROM photos`)[0]);
}

for (const type of ['snowflake', 'bigint']) {
    await query('DROP TABLE IF EXISTS photos');
    await query(`CREATE TABLE photos (id ${type} PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL,
        related bigint[] NOT NULL DEFAULT '{}')`);
    await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify }, { sends: [String] });

    const typed = await connectWithBigInt();
    const [odd] = await findByBigInts(typed, [BigInt(ID), 1n]);
    same([odd.id, odd.related[0]], [BigInt(ID), BigInt(ID)], `${type}: with the types ids are BigInt`);
    same((await typed`SELECT url FROM photos WHERE id = ${odd.id}`)[0].url, 'odd', 'and are sent so');
    const [{ id }] = await typed`INSERT INTO photos ${sql({ id: odd.id + 2n, url: 'next' })} RETURNING id`;
    same(id, BigInt(ID) + 2n, 'and are stored');
    ok(/of type bigint/.test(await failure(() => typed`UPDATE photos SET related = ${[odd.id]} WHERE id = ${odd.id}`)),
        'an array of BigInt without its type fails');
    await typed.end();
}
for (const type of ['snowflake', 'bigint']) {
    await makeRelated(type);
    await fillRelated();
    await checkRows(type, async (text) => Array.from(await sql.unsafe(text)), 'NULL');
}
await sql.end();
done();
