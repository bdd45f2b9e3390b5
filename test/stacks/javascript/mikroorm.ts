// mikroorm.ts -- ids of snowflake by MikroORM

import { EntitySchema } from '@mikro-orm/postgresql';
import { ID, check, checkRows, done, fillRelated, foreignKeys, idsOf, ok, query, related, same, tagged, value } from './check.js';

import 'reflect-metadata';
import { BigIntType, Entity, MikroORM, Opt, PrimaryKey, Property, raw } from '@mikro-orm/postgresql';

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
    @PrimaryKey({ type: new BigIntType('string'), columnType: 'bigint', autoincrement: false, defaultRaw: 'snowflake_nextval()' })
    id!: string & Opt;

    @Property({ type: 'text' })
    url!: string;

    @Property({ type: 'string[]', columnType: 'bigint[]', defaultRaw: "'{}'" })
    related!: string[] & Opt;
}

// --- The test: first what becomes of the DEFAULT if "autoincrement: false" is forgotten

async function ends(): Promise<unknown[]> {
    return Object.values(await orm.em.fork().createQueryBuilder(Photo).select([raw('min(id) AS least'), raw('max(id) AS greatest')]).execute('get'));
}

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

const type = await value("SELECT CASE WHEN to_regtype('ext.snowflake') IS NULL THEN 'snowflake' ELSE 'ext.snowflake' END");
if (type === 'ext.snowflake') {
    const ext = await declared(PhotoOfExt);
    await makeTable('snowflake');
    same(await pending(orm), ['alter table "photos" alter column "id" type snowflake using ("id"::snowflake);'],
        'the type is not recognized if it is in another schema');
    same(await pending(ext), [], 'if it is declared with its schema, there is nothing to migrate');
    await ext.close();
} else {
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
}

// What the application does, on a table that MikroORM makes
await query('DROP TABLE photos');
await orm.schema.updateSchema();
same(await value(COLUMN), 'snowflake snowflake_nextval()', 'updateSchema makes the table');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });
same(await pending(orm), type === 'snowflake' ? [] : [`alter table "photos" alter column "id" type snowflake using ("id"::snowflake);`],
    'and has no more to do, but for the type in another schema');

// A bigint column
await query('DROP TABLE photos');
await bigint.schema.updateSchema();
const em = bigint.em.fork();
const made = em.create(BigintPhoto, { url: 'new' });
await em.persistAndFlush(made);
same([made.id, JSON.parse(JSON.stringify(made)).id], Array(2).fill(await value('SELECT id::text FROM photos')), 'bigint: an id is a string, in JSON, too');
same(typeof (await bigint.em.fork().findOneOrFail(BigintPhoto, { id: made.id })).id, 'string', 'and when it is read');
await careless.close();
await bigint.close();
await orm.close();

// Relations
for (const key of [type, 'bigint']) {
    const column = key === 'bigint' ? { type: new BigIntType('string'), columnType: key, autoincrement: false } : { type: 'string', columnType: key };
    const id: any = { primary: true, ...column, defaultRaw: 'snowflake_nextval()' };
    const photo = new EntitySchema<any>({
        name: 'RelatedPhoto', tableName: 'photos',
        properties: {
            id, url: { type: 'text' }, related: { type: 'string[]', columnType: 'bigint[]', defaultRaw: "'{}'" },
            comments: { kind: '1:m', entity: 'RelatedComment', mappedBy: 'photo' },
            tags: { kind: 'm:n', entity: 'RelatedTag', pivotTable: 'photo_tags', joinColumn: 'photo_id', inverseJoinColumn: 'tag_id' },
        },
    });
    const comment = new EntitySchema<any>({
        name: 'RelatedComment', tableName: 'comments', properties: { id, photo: { kind: 'm:1', entity: 'RelatedPhoto' } },
    });
    const tag = new EntitySchema<any>({ name: 'RelatedTag', tableName: 'tags', properties: { id, name: { type: 'text' } } });
    await query('DROP TABLE IF EXISTS photo_tags, comments, tags, photos CASCADE');
    const withRelations = await MikroORM.init({ ...orm.config.getAll(), entities: [photo, comment, tag] } as any);
    await withRelations.schema.updateSchema();
    same((await pending(withRelations)).filter((line) => !/"id" type bigint/.test(line)), [], `${key}, with relations: nothing to migrate`);
    same(await foreignKeys(), Array(3).fill(key.replace('ext.', '')), 'what refers to a key has its type, and no DEFAULT');
    await fillRelated();
    await query(tagged);
    for (const strategy of ['joined', 'select-in'] as const) {
        const found = await withRelations.em.fork().findAll(photo, { populate: ['comments', 'tags'], orderBy: { id: 'asc' }, strategy } as any);
        same(idsOf(found.map((row: any) => ({ id: row.id, comments: row.comments.getItems(), tags: row.tags.getItems() }))), related,
            `relations have all digits, ${strategy}`);
        same(JSON.parse(JSON.stringify(found))[0].comments.map((row: any) => typeof row.id), ['string', 'string'], 'and go into JSON as strings');
    }
    await checkRows(key, (text: string) => withRelations.em.fork().execute(text));
    const em = withRelations.em.fork();
    const create = (entity: any, values: object): object => em.create(entity, values as any);
    create(comment, { photo: create(photo, { url: 'new', tags: [create(tag, { name: 'new' })] }) });
    await em.flush();
    same(await value(`SELECT count(*)::int FROM photos JOIN comments ON photo_id = photos.id JOIN photo_tags USING (photo_id)
        JOIN tags ON tag_id = tags.id WHERE url = 'new'`), 1, 'and are stored');
    await withRelations.close();
}
done();
