// drizzle.ts -- ids of snowflake by Drizzle, with drizzle_schema.ts and drizzle.config.ts

import { readFileSync, readdirSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { max, min } from 'drizzle-orm';
import { ID, check, checkRows, done, fillRelated, foreignKeys, idsOf, makeProject, makeRelated, ok, query, runTool, same, untagged, value } from './check.js';

import { desc, eq, gte, inArray, lt, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import * as schema from './drizzle_schema.js';

const { comments, photos } = schema;
const db = drizzle({ connection: {}, schema });     // as the PG* environment variables say

type NewPhoto = typeof photos.$inferInsert;

// The id of the new row
async function addPhoto(photo: NewPhoto) {
    const [{ id }] = await db.insert(photos).values(photo).returning({ id: photos.id });
    return id;
}

// A row, or several, by BigInt
async function findPhoto(id: bigint) {
    const [photo] = await db.select().from(photos).where(eq(photos.id, id));
    return photo;
}

async function findPhotos(ids: bigint[]) {
    return db.select().from(photos).where(inArray(photos.id, ids)).orderBy(photos.id);
}

// A page, newest first; the first one begins below 2n ** 63n - 1n.
async function page(last: bigint, size: number) {
    return db.select().from(photos).where(lt(photos.id, last)).orderBy(desc(photos.id)).limit(size);
}

// The rows that were minted at a time or later
async function photosSince(time: Date) {
    return db.select().from(photos).where(gte(photos.id, sql`snowflake_floor(${time})`)).orderBy(photos.id);
}

// Photos with their comments, in one query
async function withComments() {
    return db.query.photos.findMany({ with: { comments: true }, orderBy: photos.id });
}

// The same by a join, which is right for each type of column
async function joinComments() {
    return db.select().from(photos).leftJoin(comments, eq(comments.photoId, photos.id)).orderBy(photos.id, comments.id);
}

// Ids for rows that are written later
async function fetchIds(n: number) {
    const { rows } = await db.execute(sql`SELECT snowflake_nextval() AS id FROM generate_series(1, ${n})`);
    return rows.map((row) => BigInt(row.id as string));
}

// JSON.stringify refuses a BigInt, so make it a string.
function toJson(photo: object) {
    return JSON.stringify(photo, (key, value) => typeof value === 'bigint' ? value.toString() : value);
}

// --- The test

async function ends() {
    return Object.values((await db.select({ least: min(photos.id), greatest: max(photos.id) }).from(photos))[0]);
}

const source = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');
const config = source('drizzle.config.ts');
const unfiltered = config.replace(/ *tablesFilter.*\n/, '');
const schemaText = source('drizzle_schema.ts');
const ext = await value("SELECT nspname FROM pg_extension e JOIN pg_namespace n ON extnamespace = n.oid WHERE extname = 'snowflake'");
process.env.DATABASE_URL = `postgresql://${process.env.PGUSER}@/${process.env.PGDATABASE}`
    + `?host=${encodeURIComponent(process.env.PGHOST!)}&port=${process.env.PGPORT}`;

function project(config: string, files = {}) {
    return makeProject({ 'drizzle.config.ts': config, 'drizzle_schema.ts': schemaText, ...files });
}

function kit(directory: string, command: string, ...args: string[]) {
    return runTool(directory, 'drizzle-kit/bin.cjs', command, ...args);
}

// What is pulled from the database: its tables and views, as TypeScript
function pulled(config: string) {
    const directory = project(config);
    kit(directory, 'pull');
    return readFileSync(`${directory}/drizzle/schema.ts`, 'utf8');
}

if (ext === 'public') {
    ok(unfiltered !== config, 'a configuration without the filter');
    const output = kit(project(unfiltered), 'push', '--force');
    ok(/must be owner of view snowflake_layouts/.test(output),
        'without the filter push wants to drop a view of the extension, and fails');
    ok(await value("SELECT to_regclass('photos') IS NOT NULL"), 'after it has made the table');
    await query('DROP TABLE IF EXISTS comments, photos');
    ok(/pgView\("pg_stat_snowflake"/.test(pulled(unfiltered)), 'and pull brings the views');
} else {
    await query('CREATE VIEW of_application AS SELECT 1 AS one');
    ok(/pgView\("of_application"/.test(pulled(unfiltered)), 'without the filter pull brings views');
    ok(!/snowflake/i.test(pulled(unfiltered)), 'and none of the extension, which has a schema of its own');
    await query('DROP VIEW of_application');
}

const directory = project(ext === 'public' ? config : unfiltered);
ok(/Changes applied/.test(kit(directory, 'push')), 'push makes the table');
same(await query(`SELECT attname, format_type(atttypid, NULL) AS type, pg_get_expr(adbin, adrelid) AS value FROM pg_attribute
    LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE attrelid = 'photos'::regclass AND attname = 'id'`),
    [{ attname: 'id', type: 'snowflake', value: 'snowflake_nextval()' }], 'with a column of the type and its DEFAULT');
ok(/No changes detected/.test(kit(directory, 'push')), 'and then has no more to do');

same(await foreignKeys(), ['snowflake'], 'what refers to a key has its type, and no DEFAULT');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson },
    { integer: BigInt, sends: [BigInt] });

ok(/No changes detected/.test(kit(directory, 'push')), 'push leaves the rows alone');
kit(directory, 'generate');
const migrations = () => readdirSync(`${directory}/drizzle`).filter((name) => name.endsWith('.sql'));
same(migrations().length, 1, 'generate writes a migration');
ok(/"id" "snowflake" PRIMARY KEY DEFAULT snowflake_nextval\(\)/.test(readFileSync(`${directory}/drizzle/${migrations()[0]}`, 'utf8')),
    'with the type and the DEFAULT');
ok(/No schema changes/.test(kit(directory, 'generate')) && migrations().length === 1, 'and then no other one');

// What pull makes of the column: to be replaced by what drizzle_schema.ts has
const types = pulled(config);
ok(/id: unknown\("id"\)/.test(types), 'pull does not know the type');
ok(/related: bigint\(\{ mode: "number" \}\)/.test(types), 'and would make a double of a bigint');

// From snowflake to bigint push changes the type in place.  The other way it makes an
// error, and the application's migration says it in SQL.
const type = 'SELECT pg_typeof(id)::text AS type FROM photos LIMIT 1';
const ids = 'SELECT count(*), sum(id), min(id)::text FROM photos';
const before = await query(ids);
const bigintSchema = schemaText.replaceAll('snowflake()', "bigint({ mode: 'bigint' })").replaceAll("snowflake('photo_id')", "bigint('photo_id', { mode: 'bigint' })");
const bigint = project(ext === 'public' ? config : unfiltered,
    { 'drizzle_schema.ts': bigintSchema });
kit(bigint, 'push', '--force');
same(await value(type), 'bigint', 'push changes the column to bigint');
ok(/No changes detected/.test(kit(bigint, 'push')), 'and then has no more to do');
same(await query(ids), before, 'and the ids are as they were');
ok(before[0].min === ID, 'among them the odd one');
ok(/schema "undefined" does not exist/.test(kit(directory, 'push', '--force')), 'it cannot change it to snowflake');
await query('ALTER TABLE photos ALTER id TYPE snowflake; ALTER TABLE comments ALTER id TYPE snowflake, ALTER photo_id TYPE snowflake');
ok(/No changes detected/.test(kit(directory, 'push')), 'after ALTER TABLE it has no more to do');
same(await query(ids), before, 'and the ids are as they were');


// Relations.  The query of "with" makes JSON of the rows, and JSON has no digits to spare.
const bigints = await import(pathToFileURL(`${bigint}/drizzle_schema.ts`).href);
const bigintDb: any = drizzle({ connection: {}, schema: bigints });
for (const type of ['snowflake', 'bigint']) {
    await makeRelated(type);
    await fillRelated();
    const joined = await joinComments();
    same(idsOf([joined[0].photos, joined[2].photos].map(({ id }) => ({ id, comments: joined.filter((row) => row.photos.id === id && row.comments).map((row) => row.comments) }))),
        untagged, `${type}: a join has all digits`);
    await checkRows(type, async (text: string) => (await db.execute(sql.raw(text))).rows);
}
await makeRelated('snowflake');
await fillRelated();
same(idsOf(await withComments()), untagged, 'snowflake: what is nested has all digits');
const [{ photo }] = await db.query.comments.findMany({ with: { photo: true } });
ok(photo.related[0] === photo.related[1], 'but for an array of bigint, which is rounded');
await makeRelated('bigint');
await fillRelated();
const [{ comments: two }]: any = await bigintDb.query.photos.findMany({ with: { comments: true } });
ok(two[0].id === two[1].id, 'bigint: two nested rows have one id');
await bigintDb.$client.end();
await db.$client.end();
done();
