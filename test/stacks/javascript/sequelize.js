// sequelize.js -- ids of snowflake by Sequelize

import { ID, check, checkRows, done, fillRelated, foreignKeys, idsOf, ok, query, related, same, tagged, value } from './check.js';

import { DataTypes, Op, Sequelize } from 'sequelize';

const sequelize = new Sequelize({
    dialect: 'postgres',
    host: process.env.PGHOST,
    port: process.env.PGPORT,
    username: process.env.PGUSER,
    database: process.env.PGDATABASE,
    logging: false,
});

const Photo = sequelize.define('Photo', {
    id: { type: 'snowflake', primaryKey: true, defaultValue: sequelize.literal('snowflake_nextval()') },
    url: { type: DataTypes.TEXT, allowNull: false },
    related: { type: DataTypes.ARRAY(DataTypes.BIGINT), allowNull: false, defaultValue: [] },
}, { tableName: 'photos', timestamps: false });

// The id of the new row
async function addPhoto(photo) {
    return (await Photo.create(photo)).id;
}

// A row, or several, by strings of digits
async function findPhoto(id) {
    return Photo.findByPk(id);
}

async function findPhotos(ids) {
    return Photo.findAll({ where: { id: ids }, order: ['id'] });
}

// A page, newest first; the first one begins below '9223372036854775807'.
async function page(last, size) {
    return Photo.findAll({ where: { id: { [Op.lt]: last } }, order: [['id', 'DESC']], limit: size });
}

// The rows that were minted at a time or later
async function photosSince(time) {
    return Photo.findAll({ where: { id: { [Op.gte]: sequelize.fn('snowflake_floor', time) } }, order: ['id'] });
}

// Ids for rows that are written later
async function fetchIds(n) {
    const [rows] = await sequelize.query('SELECT snowflake_nextval() AS id FROM generate_series(1, $n)', { bind: { n } });
    return rows.map((row) => row.id);
}

// The least and the greatest id
async function ends() {
    const text = { dataType: DataTypes.STRING };       // or those of DataTypes.BIGINT are rounded
    return [await Photo.min('id', text), await Photo.max('id', text)];
}

// --- The test

const COLUMN = `SELECT format_type(atttypid, NULL) || ' ' || pg_get_expr(adbin, adrelid) FROM pg_attribute
    JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE attrelid = 'photos'::regclass AND attname = 'id'`;
const statements = [];
const alter = async () => {
    statements.length = 0;
    await Photo.sync({ alter: true, logging: (text) => statements.push(text) });
};

await Photo.sync();
same(await value(COLUMN), 'snowflake snowflake_nextval()', 'sync makes the table, with the DEFAULT');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });

const before = await value('SELECT array_agg(id::text ORDER BY id) FROM photos');
for (const type of ['snowflake', 'bigint']) {
    await query(`ALTER TABLE photos ALTER id TYPE ${type}`);
    await alter();
    ok(statements.some((text) => /ALTER COLUMN "url"/.test(text)) && !statements.some((text) => /COLUMN "id"/.test(text)),
        `${type}: sync with "alter" does not touch the id`);
    same([await value(COLUMN), await value('SELECT array_agg(id::text ORDER BY id) FROM photos')],
        [`${type} snowflake_nextval()`, before], 'which is as it was');
}

// A bigint column
await query('TRUNCATE photos; ALTER TABLE photos ALTER id TYPE bigint');
await check({ addPhoto, findPhoto, findPhotos, page, photosSince, fetchIds, ends, toJson: JSON.stringify });

// A model for a bigint column
await query('DROP TABLE photos');
const bigint = { type: DataTypes.BIGINT, primaryKey: true, defaultValue: sequelize.literal('snowflake_nextval()') };
const BigintPhoto = sequelize.define('BigintPhoto', { id: bigint }, { tableName: 'photos', timestamps: false });
await BigintPhoto.sync();
same(await value(COLUMN), 'bigint snowflake_nextval()', 'a bigint column is made with the DEFAULT');
await query(`INSERT INTO photos VALUES (${ID})`);
same([await BigintPhoto.min('id'), await BigintPhoto.min('id', { dataType: DataTypes.STRING })], [Number(ID), ID],
    'min() of a DataTypes.BIGINT is a number, which is rounded, unless another type is asked for');
await query('TRUNCATE photos');
same((await BigintPhoto.create()).id, await value('SELECT id::text FROM photos'), 'and its id is the one that was minted');

// What a model gets that is declared as people do for integers
await query('DROP TABLE photos');
await sequelize.define('Careless', { id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true } },
    { tableName: 'photos', timestamps: false }).sync();
same(await value(COLUMN), "bigint nextval('photos_id_seq'::regclass)", 'with autoIncrement the table gets a sequence');

// Relations
for (const type of ['snowflake', 'bigint']) {
    await query('DROP TABLE photos CASCADE');
    const define = (name, columns) => sequelize.define(name, {
        id: { type: type === 'bigint' ? DataTypes.BIGINT : type, primaryKey: true, defaultValue: sequelize.literal('snowflake_nextval()') },
        ...columns,
    }, { tableName: `${name}s`, timestamps: false });
    const RelatedPhoto = define('photo', { url: DataTypes.TEXT, related: DataTypes.ARRAY(DataTypes.BIGINT) });
    const Comment = define('comment', {});
    const Tag = define('tag', { name: DataTypes.TEXT });
    RelatedPhoto.hasMany(Comment, { foreignKey: { name: 'photo_id', allowNull: false } });
    Comment.belongsTo(RelatedPhoto, { foreignKey: 'photo_id' });
    RelatedPhoto.belongsToMany(Tag, { through: 'photo_tags', foreignKey: 'photo_id', otherKey: 'tag_id', timestamps: false });
    Tag.belongsToMany(RelatedPhoto, { through: 'photo_tags', foreignKey: 'tag_id', otherKey: 'photo_id', timestamps: false });
    for (const model of [RelatedPhoto, Comment, Tag, sequelize.models.photo_tags])
        await model.sync();
    same(await foreignKeys(), [type, type, type], `${type}: what refers to a key has its type, and no DEFAULT`);
    await fillRelated();
    const [red, blue] = await Tag.findAll({ order: ['id'] });
    await (await RelatedPhoto.findOne({ order: ['id'] })).addTags([red, blue]);
    for (const separate of [false, true])
        same(idsOf((await RelatedPhoto.findAll({ include: [{ model: Comment, separate }, Tag], order: ['id'] }))
            .map((photo) => photo.get({ plain: true }))), related, 'relations have all digits');
    await checkRows(type, async (text) => (await sequelize.query(text))[0]);
    await query('DROP TABLE photo_tags, comments, tags');
}
await sequelize.close();
done();
