// knex.js -- ids of snowflake by knex

import { check, checkRows, done, fillRelated, makeRelated, ok, query, same, value } from './check.js';

import makeKnex from 'knex';

const knex = makeKnex({ client: 'pg', connection: {} });      // as the PG* environment variables say

// A migration
const createPhotos = {
    async up(knex) {
        await knex.schema.createTable('photos', (table) => {
            table.specificType('id', 'snowflake').primary().defaultTo(knex.raw('snowflake_nextval()'));
            table.text('url').notNullable();
            table.specificType('related', 'bigint[]').notNullable().defaultTo('{}');
        });
    },
    async down(knex) {
        await knex.schema.dropTable('photos');
    },
};

// The id of the new row
async function addPhoto(photo) {
    const [{ id }] = await knex('photos').insert(photo).returning('id');
    return id;
}

// A row, or several, by strings of digits or BigInt
async function findPhoto(id) {
    return knex('photos').where({ id }).first();
}

async function findPhotos(ids) {
    return knex('photos').whereIn('id', ids).orderBy('id');
}

// A page, newest first; the first one begins below '9223372036854775807'.
async function page(last, size) {
    return knex('photos').where('id', '<', last).orderBy('id', 'desc').limit(size);
}

// The rows that were minted at a time or later
async function photosSince(time) {
    return knex('photos').where('id', '>=', knex.raw('snowflake_floor(?)', [time])).orderBy('id');
}

// Ids for rows that are written later
async function fetchIds(n) {
    const { rows } = await knex.raw('SELECT snowflake_nextval() AS id FROM generate_series(1, ?)', [n]);
    return rows.map((row) => row.id);
}

// --- The test

async function ends() {
    return Object.values(await knex('photos').min('id as least').max('id as greatest').first());
}

const migrations = {
    migrationSource: {
        getMigrations: async () => ['1_photos'],
        getMigrationName: (name) => name,
        getMigration: async () => createPhotos,
    },
};
const COLUMN = `SELECT format_type(atttypid, NULL) || ' ' || pg_get_expr(adbin, adrelid) FROM pg_attribute
    JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE attrelid = 'photos'::regclass AND attname = 'id'`;

await knex.migrate.latest(migrations);
same(await value(COLUMN), 'snowflake snowflake_nextval()', 'a migration makes the table');
same((await knex.migrate.latest(migrations))[1], [], 'and then there is nothing to migrate');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });
await query('TRUNCATE photos; ALTER TABLE photos ALTER id TYPE bigint');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });
await knex.migrate.rollback(migrations);
same(await value("SELECT to_regclass('photos')"), null, 'it goes back');

await knex.schema.createTable('photos', (table) => {
    table.bigInteger('id').primary().defaultTo(knex.raw('snowflake_nextval()'));
});
same(await value(COLUMN), 'bigint snowflake_nextval()', 'a bigint column is made with the DEFAULT');
await knex.schema.dropTable('photos').createTable('photos', (table) => {
    table.bigIncrements('id');
});
same(await value(COLUMN), "bigint nextval('photos_id_seq'::regclass)", 'bigIncrements gives a sequence');
same((await knex.raw('SELECT ARRAY[1::snowflake] AS ids')).rows[0].ids, '{1}', 'an array of snowflake is text');
for (const type of ['snowflake', 'bigint']) {
    await makeRelated(type);
    await fillRelated();
    await checkRows(type, async (text) => (await knex.raw(text)).rows);
    const nested = await knex('photos').select(knex.raw('json_agg(comments) AS comments')).join('comments', 'photo_id', 'photos.id').first();
    ok((nested.comments[0].id !== nested.comments[1].id) === (type === 'snowflake'), 'without the cast, ids of a bigint are rounded in JSON');
}
await knex.destroy();
done();
