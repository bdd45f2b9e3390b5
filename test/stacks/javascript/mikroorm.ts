// mikroorm.ts -- ids of snowflake by MikroORM

import { ManyToOne } from '@mikro-orm/postgresql';
import { ID, check, done, ok, query, same, value } from './check.js';

import 'reflect-metadata';
import { Entity, MikroORM, Opt, PrimaryKey, Property, raw } from '@mikro-orm/postgresql';

@Entity({ tableName: 'photos' })
export class Photo {
    @PrimaryKey({ type: 'string', columnType: 'snowflake', defaultRaw: 'snowflake_nextval()' })
    id!: string & Opt;

    @Property({ type: 'text' })
    url!: string;

    @Property({ type: 'string[]', columnType: 'bigint[]', defaultRaw: "'{}'" })
    related!: string[] & Opt;               // ids of other rows
}

export const orm = await MikroORM.init({
    host: process.env.PGHOST,
    port: Number(process.env.PGPORT),
    user: process.env.PGUSER,
    dbName: process.env.PGDATABASE,
    entities: [Photo],
});

// The id of the new row
async function addPhoto(photo: { id?: string, url: string, related?: string[] }): Promise<string> {
    const em = orm.em.fork();
    const created = em.create(Photo, photo);
    await em.persistAndFlush(created);
    return created.id;
}

// A row, or several, by strings of digits
async function findPhoto(id: string): Promise<Photo | null> {
    return orm.em.fork().findOne(Photo, { id });
}

async function findPhotos(ids: string[]): Promise<Photo[]> {
    return orm.em.fork().find(Photo, { id: { $in: ids } }, { orderBy: { id: 'asc' } });
}

// A page, newest first; the first one begins below '9223372036854775807'.
async function page(last: string, size: number): Promise<Photo[]> {
    return orm.em.fork().find(Photo, { id: { $lt: last } }, { orderBy: { id: 'desc' }, limit: size });
}

// The rows that were minted at a time or later
async function photosSince(time: Date): Promise<Photo[]> {
    return orm.em.fork().find(Photo, { id: { $gte: raw('snowflake_floor(?)', [time]) } }, { orderBy: { id: 'asc' } });
}

// Ids for rows that are written later
async function fetchIds(n: number): Promise<string[]> {
    const rows = await orm.em.fork().execute('SELECT snowflake_nextval() AS id FROM generate_series(1, ?)', [n]);
    return rows.map((row) => row.id);
}
// The same on a bigint column
@Entity({ tableName: 'photos' })
export class BigintPhoto {
    @PrimaryKey({ type: 'string', columnType: 'bigint', autoincrement: false, defaultRaw: 'snowflake_nextval()' })
    id!: string & Opt;

    @Property({ type: 'text' })
    url!: string;

    @Property({ type: 'string[]', columnType: 'bigint[]', defaultRaw: "'{}'" })
    related!: string[] & Opt;
}

// --- The test: first what becomes of the DEFAULT if "autoincrement: false" is forgotten

@Entity({ tableName: 'photos' })
class Careless {
    @PrimaryKey({ type: 'bigint', defaultRaw: 'snowflake_nextval()' })
    id!: string & Opt;

    @Property({ type: 'text' })
    url!: string;

    @Property({ type: 'string[]', columnType: 'bigint[]', defaultRaw: "'{}'" })
    related!: string[] & Opt;
}

const IDS = 'SELECT array_agg(id::text ORDER BY url) FROM photos';
const COLUMN = `SELECT format_type(atttypid, NULL) || ' ' || pg_get_expr(adbin, adrelid) FROM pg_attribute
    JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE attrelid = 'photos'::regclass AND attname = 'id'`;

const declared = async (entity: any) => MikroORM.init({ ...orm.config.getAll(), entities: [entity] } as any);
const careless = await declared(Careless);
const bigint = await declared(BigintPhoto);

// The statements that updateSchema() would run, and migration:create writes
async function pending(orm: MikroORM): Promise<string[]> {
    return (await orm.schema.getUpdateSchemaSQL({ wrap: false })).split('\n').filter((line) => line);
}

async function makeTable(type: string) {
    await query(`DROP TABLE IF EXISTS photos;
        CREATE TABLE photos (id ${type} PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL,
            related bigint[] NOT NULL DEFAULT '{}');
        INSERT INTO photos (id, url) VALUES (${ID}, 'a'), (${ID} + 2, 'b')`);
}

@Entity({ tableName: 'photos' })
class PhotoOfExt {
    @PrimaryKey({ type: 'string', columnType: 'ext.snowflake', defaultRaw: 'snowflake_nextval()' })
    id!: string & Opt;

    @Property({ type: 'text' })
    url!: string;

    @Property({ type: 'string[]', columnType: 'bigint[]', defaultRaw: "'{}'" })
    related!: string[] & Opt;
}

if (await value("SELECT to_regtype('ext.snowflake') IS NOT NULL")) {
    const ext = await declared(PhotoOfExt);
    await makeTable('snowflake');
    same(await pending(orm), ['alter table "photos" alter column "id" type snowflake using ("id"::snowflake);'],
        'the type is not recognized if it is in another schema');
    same(await pending(ext), [], 'if it is declared with its schema, there is nothing to migrate');
    await orm.close();
    await ext.close();
    done();
    process.exit();
}

await careless.schema.updateSchema();
same(await value(COLUMN), "bigint nextval('photos_id_seq'::regclass)", 'bigint without it: the table gets a sequence');
await makeTable('snowflake');
await careless.schema.updateSchema();
same(await value(COLUMN), "bigint nextval('photos_id_seq'::regclass)", 'and a snowflake column that is declared so, too');

await query('DROP TABLE photos');
await bigint.schema.updateSchema();
same(await value(COLUMN), 'bigint snowflake_nextval()', 'with it a bigint column has the DEFAULT');
await query(`INSERT INTO photos (id, url) VALUES (${ID}, 'a')`);
same(await pending(bigint), ['alter table "photos" alter column "id" type bigint using ("id"::bigint);'],
    'a statement is always left to migrate');
const file = await value("SELECT pg_relation_filenode('photos')");
await bigint.schema.updateSchema();
same([await value(COLUMN), await value(IDS), await value("SELECT pg_relation_filenode('photos')")],
    ['bigint snowflake_nextval()', [ID], file], 'which changes nothing');

await makeTable('snowflake');
const before = await value(IDS);
same(await pending(orm), [], 'a snowflake column that is declared so: nothing to migrate');
same(await pending(bigint), ['alter table "photos" alter column "id" type bigint using ("id"::bigint);'],
    'declared as bigint: its type would be changed');
await bigint.schema.updateSchema();
same([await value(COLUMN), await value(IDS)], ['bigint snowflake_nextval()', before], 'which leaves the ids as they are');
await orm.schema.updateSchema();
same([await value(COLUMN), await value(IDS)], ['snowflake snowflake_nextval()', before], 'and back');
await careless.close();
await bigint.close();

// What the application does, on a table that MikroORM makes
await query('DROP TABLE photos');
await orm.schema.updateSchema();
same([await value(COLUMN), await pending(orm)], ['snowflake snowflake_nextval()', []],
    'updateSchema makes the table, and then has no more to do');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, toJson: JSON.stringify });
same(await pending(orm), [], 'and has none after that');
await orm.close();

// A foreign key
@Entity({ tableName: 'likes' })
class Like {
    @PrimaryKey({ type: 'string', columnType: 'snowflake', defaultRaw: 'snowflake_nextval()' })
    id!: string & Opt;

    @ManyToOne(() => Photo)
    photo!: Photo;
}

const withLikes = await MikroORM.init({ ...orm.config.getAll(), entities: [Photo, Like] } as any);
await withLikes.schema.updateSchema();
same(await pending(withLikes), [], 'with a foreign key: nothing to migrate');
const em = withLikes.em.fork();
em.create(Like, { photo: em.getReference(Photo, ID) });
await em.flush();
same(await query('SELECT pg_typeof(photo_id)::text AS type, photo_id::text AS id FROM likes'),
    [{ type: 'snowflake', id: ID }], 'and it has the type of the key');
await withLikes.close();
done();
