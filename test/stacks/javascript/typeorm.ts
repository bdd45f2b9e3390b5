// typeorm.ts -- ids of snowflake by TypeORM

import { EntitySchema } from 'typeorm';
import { ID, check, checkRows, done, failure, fillRelated, foreignKeys, idsOf, ok, query, related, same, tagged, value } from './check.js';

import 'reflect-metadata';
import { Column, DataSource, Entity, In, LessThan, PrimaryColumn, Raw } from 'typeorm';

const snowflake = 'snowflake' as any;       // a type that TypeORM does not know

@Entity('photos')
export class Photo {
    @PrimaryColumn({ type: snowflake, default: () => 'snowflake_nextval()' })
    id!: string;

    @Column('text')
    url!: string;

    @Column('bigint', { array: true, default: [] })
    related!: string[];                     // ids of other rows
}

export const dataSource = new DataSource({
    type: 'postgres',
    host: process.env.PGHOST,
    port: Number(process.env.PGPORT),
    username: process.env.PGUSER,
    database: process.env.PGDATABASE,
    entities: [Photo],
});
dataSource.driver.supportedDataTypes.push(snowflake);      // before initialize()

const photos = dataSource.getRepository(Photo);

// The id of the new row
async function addPhoto(photo: Partial<Photo>): Promise<string> {
    return (await photos.save(photos.create(photo))).id;
}

// A row, or several, by strings of digits
async function findPhoto(id: string): Promise<Photo | null> {
    return photos.findOneBy({ id });
}

async function findPhotos(ids: string[]): Promise<Photo[]> {
    return photos.find({ where: { id: In(ids) }, order: { id: 'ASC' } });
}

// A page, newest first; the first one begins below '9223372036854775807'.
async function page(last: string, size: number): Promise<Photo[]> {
    return photos.find({ where: { id: LessThan(last) }, order: { id: 'DESC' }, take: size });
}

// The rows that were minted at a time or later
async function photosSince(time: Date): Promise<Photo[]> {
    return photos.find({
        where: { id: Raw((id) => `${id} >= snowflake_floor(:time)`, { time }) },
        order: { id: 'ASC' },
    });
}

// Ids for rows that are written later
async function fetchIds(n: number): Promise<string[]> {
    const rows = await dataSource.query('SELECT snowflake_nextval() AS id FROM generate_series(1, $1)', [n]);
    return rows.map((row: { id: string }) => row.id);
}

// The least and the greatest id: minimum() and maximum() round them
async function ends(): Promise<string[]> {
    const row = await photos.createQueryBuilder('photo')
        .select('min(photo.id)', 'least').addSelect('max(photo.id)', 'greatest').getRawOne();
    return [row.least, row.greatest];
}

// --- The test: first what becomes of a table's ids without those lines

const IDS = 'SELECT array_agg(id::text ORDER BY url) FROM photos';
const TYPE = "SELECT atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'photos'::regclass AND attname = 'id'";

@Entity('photos')
class BigintPhoto {
    @PrimaryColumn({ type: 'bigint', default: () => 'snowflake_nextval()' })
    id!: string;

    @Column('text')
    url!: string;

    @Column('bigint', { array: true, default: [] })
    related!: string[];
}

// A data source as the one above, with another entity and without its last line
function other(entity: Function, options = {}): DataSource {
    return new DataSource({ ...dataSource.options, entities: [entity], ...options } as any);
}

async function makeTable(type: string) {
    await query(`DROP TABLE IF EXISTS photos;
        CREATE TABLE photos (id ${type} PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL,
            related bigint[] NOT NULL DEFAULT '{}');
        INSERT INTO photos (id, url) VALUES (${ID}, 'a'), (${ID} + 2, 'b')`);
}

// The statements that synchronize() would run, and migration:generate writes
async function pending(source: DataSource): Promise<string[]> {
    return (await source.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query);
}

async function showDanger(type: string, entity: Function, prepare = (_: DataSource) => {}) {
    await makeTable(type);
    const before = await value(IDS);
    const source = other(entity);
    prepare(source);
    await source.initialize();
    ok((await pending(source)).includes('ALTER TABLE "photos" DROP COLUMN "id"'),
        `${type}, declared otherwise: a migration would drop the column`);
    await source.synchronize();
    const after = await value(IDS);
    ok(after.length === 2 && after.every((id: string) => !before.includes(id)),
        'and synchronize does, and gives each row another id');
    await source.destroy();
}

await showDanger('snowflake', BigintPhoto);
await showDanger('bigint', Photo, (source) => source.driver.supportedDataTypes.push(snowflake));

await makeTable('snowflake');
const unsupported = await failure(() => other(Photo).initialize());
ok(/Data type "snowflake" in "Photo.id" is not supported/.test(unsupported), 'without the last line it does not start');

const before = await value(IDS);
await dataSource.initialize();
same(await pending(dataSource), [], 'with these lines there is nothing to migrate');
await dataSource.synchronize();
same([await value(IDS), await value(TYPE)], [before, 'snowflake'], 'and synchronize leaves the ids as they are');

await makeTable('bigint');
const bigint = await other(BigintPhoto).initialize();
same(await pending(bigint), [], 'a bigint column that is declared so: nothing to migrate');
await bigint.destroy();

// What the application does, on a table that TypeORM makes
await query('DROP TABLE photos');
await dataSource.synchronize();
same([await value(TYPE), await pending(dataSource)], ['snowflake', []], 'synchronize makes the table, and then has no more to do');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });
same(typeof await photos.maximum('id' as never), 'number', 'maximum() gives a number: do not use it');
await query('TRUNCATE photos; ALTER TABLE photos ALTER id TYPE bigint');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });
await dataSource.destroy();

// The type with the schema of the extension is another one to TypeORM.
if (await value("SELECT to_regtype('ext.snowflake') IS NOT NULL")) {
    @Entity('photos')
    class QualifiedPhoto {
        @PrimaryColumn({ type: 'ext.snowflake' as any, default: () => 'snowflake_nextval()' })
        id!: string;

        @Column('text')
        url!: string;

        @Column('bigint', { array: true, default: [] })
        related!: string[];
    }
    await showDanger('snowflake', QualifiedPhoto, (source) => source.driver.supportedDataTypes.push('ext.snowflake' as any));
}

// Relations
for (const type of [snowflake, 'bigint']) {
    const id = { type, primary: true, default: () => 'snowflake_nextval()' };
    const photo = new EntitySchema<any>({
        name: 'RelatedPhoto', tableName: 'photos',
        columns: { id, url: { type: 'text' }, related: { type: 'bigint', array: true, default: [] } },
        relations: {
            comments: { type: 'one-to-many', target: 'RelatedComment', inverseSide: 'photo' },
            tags: {
                type: 'many-to-many', target: 'RelatedTag', cascade: true,
                joinTable: { name: 'photo_tags', joinColumn: { name: 'photo_id' }, inverseJoinColumn: { name: 'tag_id' } },
            },
        },
    });
    const comment = new EntitySchema<any>({
        name: 'RelatedComment', tableName: 'comments', columns: { id },
        relations: { photo: { type: 'many-to-one', target: 'RelatedPhoto', joinColumn: { name: 'photo_id' }, nullable: false } },
    });
    const tag = new EntitySchema<any>({ name: 'RelatedTag', tableName: 'tags', columns: { id, name: { type: 'text' } } });
    const source = new DataSource({ ...dataSource.options, entities: [photo, comment, tag] } as any);
    source.driver.supportedDataTypes.push(snowflake);
    await query('DROP TABLE IF EXISTS photo_tags, comments, tags, photos CASCADE');
    await source.initialize();
    await source.synchronize();
    same(await pending(source), [], `${type}, with relations: nothing to migrate`);
    same(await foreignKeys(), [type, type, type], 'what refers to a key has its type, and no DEFAULT');
    await fillRelated();
    await query(tagged);
    same(idsOf(await source.getRepository(photo).find({ relations: { comments: true, tags: true }, order: { id: 'ASC' } })), related,
        'relations have all digits');
    await checkRows(type, (text: string) => source.query(text));
    const saved = await source.getRepository(photo).save({ url: 'new', tags: [{ name: 'new' }] });
    await source.getRepository(comment).save({ photo: saved });
    same(await value(`SELECT count(*)::int FROM photos JOIN comments ON photo_id = photos.id JOIN photo_tags USING (photo_id)
        JOIN tags ON tag_id = tags.id WHERE photos.id = ${saved.id} AND tags.id = ${saved.tags[0].id}`), 1, 'and are stored');
    await source.destroy();
}
done();
