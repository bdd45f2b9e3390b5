// check.js -- what each library's program is asked
//
// The programs beside this one have functions of the same names, each by its library,
// on the table photos.  They connect as the PG* environment variables say and print
// TAP.  What they did is looked up by node-postgres, as text.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import pg from 'pg';

// Above 2^53 and odd: a double has no room for it.
export const ID = '175928847299117063';
const NEIGHBOUR = '175928847299117065';
const GREATEST = '9223372036854775807';

let count = 0;

export function ok(good, name) {
    count++;
    console.log(`${good ? 'ok' : 'not ok'} ${count} - ${name}`);
}

export function same(got, expected, name) {
    const [a, b] = [got, expected].map((value) => JSON.stringify(value, (_, part) =>
        typeof part === 'bigint' ? `${part}n` : part));
    ok(a === b, name);
    if (a !== b)
        console.log(`# got ${a}\n# expected ${b}`);
}

/** The rows of a statement, by a connection of its own
 * @returns {Promise<any[]>} */
export async function query(text, values) {
    const client = new pg.Client();
    await client.connect();
    try {
        return (await client.query(text, values)).rows;
    } finally {
        await client.end();
    }
}

// The first column of its first row
export async function value(text, values) {
    return Object.values((await query(text, values))[0])[0];
}

// Why does it fail? Its message, or nothing
export async function failure(action) {
    try {
        await action();
    } catch (error) {
        return error.message;
    }
    return '';
}

// A directory with some files, by their names, where a tool finds our packages
export function makeProject(files) {
    const directory = mkdtempSync(join(tmpdir(), 'project-'));
    symlinkSync(fileURLToPath(new URL('node_modules', import.meta.url)), join(directory, 'node_modules'));
    for (const [name, text] of Object.entries(files))
        writeFileSync(join(directory, name), text);
    process.on('exit', () => rmSync(directory, { recursive: true }));
    return directory;
}

// Run a package's tool in a project: all it prints
export function runTool(directory, tool, ...args) {
    const { stdout, stderr } = spawnSync(process.execPath, [join('node_modules', tool), ...args],
        { cwd: directory, encoding: 'utf8', input: '' });
    return stdout + stderr;
}

// Ask a library everything.  "integer" is what gives its ids, String or BigInt; "sends"
// is in which forms it takes one.
/** @param {any} functions @param {any} forms */
export async function check(functions, forms = {}) {
    const { addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson } = functions;
    const { integer = String, sends = [String, BigInt] } = forms;
    const kind = typeof integer(0);
    const convert = (ids) => ids.map(integer);

    const column = await value("SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'photos'::regclass AND attname = 'id'");

    const first = await addPhoto({ url: 'first' });
    ok(typeof first === kind, `${column}: the id of a new row is a ${kind}`);
    ok(String(first) === await value("SELECT id::text FROM photos WHERE url = 'first'"), 'and is the one that was minted');

    await addPhoto({ id: integer(ID), url: 'odd', related: convert([ID, NEIGHBOUR]) });
    same(await query("SELECT id::text, related::text FROM photos WHERE url = 'odd'"),
        [{ id: ID, related: `{${ID},${NEIGHBOUR}}` }], 'a given id is stored with all its digits, and an array');
    for (const send of sends) {
        const photo = await findPhoto(send(ID));
        same([photo?.id, photo?.url, photo?.related], [integer(ID), 'odd', convert([ID, NEIGHBOUR])],
            `a row is found by a ${typeof send(0)}, and its ids are read as ${kind}`);
        same((await findPhotos([ID, String(first)].map(send))).map((row) => row.id), [integer(ID), first],
            `rows are found by an array of ${typeof send(0)}`);
    }
    ok(!await findPhoto(integer(NEIGHBOUR)), 'and not by an id that rounds to the same double');

    await query("INSERT INTO photos (url) SELECT 'u' || i FROM generate_series(1, 45) i");
    const all = (await query('SELECT id::text FROM photos ORDER BY id DESC')).map((row) => integer(row.id));
    const seen = [];
    const sizes = [];
    for (let last = integer(GREATEST); sizes.length < 10;) {
        const rows = await page(last, 20);
        if (rows.length === 0)
            break;
        seen.push(...rows.map((row) => row.id));
        sizes.push(rows.length);
        last = rows[rows.length - 1].id;
    }
    same(seen, all, 'pages: each row once, newest first');
    same(sizes, [20, 20, 7], 'in pages of the size asked for');

    same(await ends(), [all[all.length - 1], all[0]], 'the least and the greatest id have all digits');

    // to the millisecond, since a JavaScript Date holds no more
    const time = await value(`SELECT snowflake_timestamp(id) FROM photos WHERE url = 'u45'`);
    const since = (await query('SELECT id::text FROM photos WHERE snowflake_timestamp(id) >= $1 ORDER BY id', [time]))
        .map((row) => integer(row.id));
    same((await photosSince(time)).map((row) => row.id), since, 'rows are found by a time');
    same((await photosSince(new Date('2011-01-01'))).map((row) => row.id), all.slice().reverse(), 'and by an old one');

    const ids = await fetchIds(5);
    ok(ids.length === 5 && ids.every((id, i) => typeof id === kind && (i === 0 || BigInt(id) > BigInt(ids[i - 1]))),
        'a batch of ids is fetched ahead');
    ok(await addPhoto({ id: ids[4], url: 'ahead' }) === ids[4], 'and one of them is used');
    ok(await value("SELECT id::text FROM photos WHERE url = 'ahead'") === String(ids[4]), 'as it was');

    same(JSON.parse(toJson(await findPhoto(integer(ID)))).id, ID, 'JSON: no digit is lost');
}

// Tables as applications have them, parent, child and many-to-many, with ids of a type,
// unless the library made them
export async function makeRelated(type) {
    await query(`DROP TABLE IF EXISTS photo_tags, comments, tags, photos CASCADE;
        CREATE TABLE photos (id ${type} PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL,
            related bigint[] NOT NULL DEFAULT '{}');
        CREATE TABLE comments (id ${type} PRIMARY KEY DEFAULT snowflake_nextval(), photo_id ${type} NOT NULL REFERENCES photos);
        CREATE TABLE tags (id ${type} PRIMARY KEY DEFAULT snowflake_nextval(), name text NOT NULL);
        CREATE TABLE photo_tags (photo_id ${type} REFERENCES photos, tag_id ${type} REFERENCES tags, PRIMARY KEY (photo_id, tag_id))`);
}

// Rows of them: a photo with two comments and two tags, and one without any.  To a double
// their ids are all the same.
const [PHOTO, LONELY, FIRST, SECOND, RED, BLUE] = [0, 2, 4, 6, 8, 10].map((i) => String(BigInt(ID) + BigInt(i)));

export async function fillRelated() {
    await query(`INSERT INTO photos (id, url, related) VALUES (${PHOTO}, 'a', '{${LONELY},${PHOTO}}'), (${LONELY}, 'b', '{}');
        INSERT INTO comments (id, photo_id) VALUES (${FIRST}, ${PHOTO}), (${SECOND}, ${PHOTO});
        INSERT INTO tags (id, name) VALUES (${RED}, 'red'), (${BLUE}, 'blue')`);
}

export const tagged = `INSERT INTO photo_tags (photo_id, tag_id) VALUES (${PHOTO}, ${RED}), (${PHOTO}, ${BLUE})`;

// Of photos as a library gives them with their comments and tags, the ids
export function idsOf(photos) {
    const ids = (rows) => rows.map((row) => String(row.id)).sort();
    return photos.map(({ id, comments, tags = [] }) => ({ id: String(id), comments: ids(comments), tags: ids(tags) }));
}

export const related = [
    { id: PHOTO, comments: [FIRST, SECOND], tags: [RED, BLUE] },
    { id: LONELY, comments: [], tags: [] },
];
export const untagged = related.map((photo) => ({ ...photo, tags: [] }));

// Each column that refers to another table: its type, and no DEFAULT
export async function foreignKeys() {
    return (await query(`SELECT format_type(atttypid, NULL) || coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), '') AS type
        FROM pg_constraint JOIN pg_attribute ON (attrelid, attnum) = (conrelid, conkey[1])
        LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE contype = 'f'`)).map((row) => row.type);
}

// Ask a library for the rows of related.sql: arrays with a NULL, a LEFT JOIN, JSON in JSON.
// The last argument is what it gives for the NULL.
/** @param {any} rows @param {any} nothing */
export async function checkRows(type, rows, nothing = null) {
    const comments = (photo, nothing) => photo.comments.length ? photo.comments : [nothing];
    same(await rows(readFileSync(new URL('related.sql', import.meta.url), 'utf8')),
        related.map((photo) => ({ id: photo.id, comments: comments(photo, nothing), nested: { id: photo.id, comments: comments(photo, null) } })),
        `${type}: arrays with a NULL and nested JSON have all digits, if ids are text there`);
}

export function done() {
    console.log(`1..${count}`);
}
