// kysely.ts -- ids of snowflake by Kysely

import { check, checkRows, done, fillRelated, idsOf, makeRelated, ok, query, same, untagged, value } from './check.js';

import { Generated, Kysely, Migration, Migrator, PostgresDialect, sql } from 'kysely';
import { jsonArrayFrom } from 'kysely/helpers/postgres';
import pg from 'pg';

interface Photos {
    id: Generated<string>;
    url: string;
    related: Generated<string[]>;
}

interface Comments {
    id: Generated<string>;
    photo_id: string;
}

const db = new Kysely<{ photos: Photos, comments: Comments }>({
    dialect: new PostgresDialect({ pool: new pg.Pool() }),      // as the PG* environment variables say
});

const createPhotos: Migration = {
    async up(db: Kysely<any>) {
        await db.schema.createTable('photos')
            .addColumn('id', sql`snowflake`, (column) => column.primaryKey().defaultTo(sql`snowflake_nextval()`))
            .addColumn('url', 'text', (column) => column.notNull())
            .addColumn('related', sql`bigint[]`, (column) => column.notNull().defaultTo('{}'))
            .execute();
    },
    async down(db: Kysely<any>) {
        await db.schema.dropTable('photos').execute();
    },
};

// The id of the new row
async function addPhoto(photo: { id?: string, url: string, related?: string[] }) {
    const { id } = await db.insertInto('photos').values(photo).returning('id').executeTakeFirstOrThrow();
    return id;
}

// A row, or several, by strings of digits
async function findPhoto(id: string) {
    return db.selectFrom('photos').selectAll().where('id', '=', id).executeTakeFirst();
}

async function findPhotos(ids: string[]) {
    return db.selectFrom('photos').selectAll().where('id', 'in', ids).orderBy('id').execute();
}

// A page, newest first; the first one begins below '9223372036854775807'.
async function page(last: string, size: number) {
    return db.selectFrom('photos').selectAll().where('id', '<', last).orderBy('id', 'desc').limit(size).execute();
}

// The rows that were minted at a time or later
async function photosSince(time: Date) {
    return db.selectFrom('photos').selectAll().where('id', '>=', sql<string>`snowflake_floor(${time})`).orderBy('id').execute();
}

// Photos with their comments: in JSON an id has to be text.
async function withComments() {
    return db.selectFrom('photos').select((eb) => [
        'id',
        jsonArrayFrom(
            eb.selectFrom('comments')
                .select((eb) => eb.cast<string>('comments.id', 'text').as('id'))
                .whereRef('comments.photo_id', '=', 'photos.id'),
        ).as('comments'),
    ]).orderBy('id').execute();
}

// Ids for rows that are written later
async function fetchIds(n: number) {
    const { rows } = await sql<{ id: string }>`SELECT snowflake_nextval() AS id FROM generate_series(1, ${n})`.execute(db);
    return rows.map((row) => row.id);
}

// --- The test

async function ends() {
    return Object.values(await db.selectFrom('photos').select(({ fn }) => [fn.min('id').as('least'), fn.max('id').as('greatest')]).executeTakeFirstOrThrow());
}

const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ createPhotos }) } });
const COLUMN = `SELECT format_type(atttypid, NULL) || ' ' || pg_get_expr(adbin, adrelid) FROM pg_attribute
    JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE attrelid = 'photos'::regclass AND attname = 'id'`;

await migrator.migrateToLatest();
same(await value(COLUMN), 'snowflake snowflake_nextval()', 'a migration makes the table');
same((await migrator.migrateToLatest()).results, [], 'and then there is nothing to migrate');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });
await query('TRUNCATE photos; ALTER TABLE photos ALTER id TYPE bigint');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });
await migrator.migrateDown();
same(await value("SELECT to_regclass('photos')"), null, 'it goes back');

await db.schema.createTable('photos')
    .addColumn('id', 'bigint', (column) => column.primaryKey().defaultTo(sql`snowflake_nextval()`))
    .execute();
same(await value(COLUMN), 'bigint snowflake_nextval()', 'a bigint column is made with the DEFAULT');
for (const type of ['snowflake', 'bigint']) {
    await makeRelated(type);
    await fillRelated();
    same(idsOf(await withComments()), untagged, `${type}: nested rows have all digits`);
    const [careless] = await db.selectFrom('photos').select((eb) => jsonArrayFrom(
        eb.selectFrom('comments').select('id').whereRef('photo_id', '=', 'photos.id')).as('comments')).execute();
    ok((careless.comments[0].id !== careless.comments[1].id) === (type === 'snowflake'), 'without the cast, those of a bigint are rounded');
    await checkRows(type, async (text: string) => (await sql.raw(text).execute(db)).rows);
}
await db.destroy();
done();
