// postgraphile.js -- ids of snowflake by PostGraphile
//
// The schema is asked without a web server between.

import { ID, check, done, fillRelated, idsOf, makeRelated, ok, query, related, same, tagged } from './check.js';

import { graphql, printSchema } from 'graphql';
import pg from 'pg';
import { createPostGraphileSchema, withPostGraphileContext } from 'postgraphile';

// What GraphQL cannot say, functions of the database say.
const functions = `
CREATE FUNCTION photos_by_ids(ids bigint[]) RETURNS SETOF photos
LANGUAGE sql STABLE AS $$ SELECT * FROM photos WHERE id = ANY(ids) ORDER BY id $$;

CREATE FUNCTION photos_below(last_id bigint) RETURNS SETOF photos
LANGUAGE sql STABLE AS $$ SELECT * FROM photos WHERE id < last_id ORDER BY id DESC $$;

CREATE FUNCTION photos_since("time" timestamptz) RETURNS SETOF photos
LANGUAGE sql STABLE AS $$ SELECT * FROM photos WHERE id >= snowflake_floor("time") ORDER BY id $$;
`;

const addPhoto = `
    mutation ($photo: PhotoInput!) {
        createPhoto(input: { photo: $photo }) { photo { id } }
    }`;

const findPhoto = `
    query ($id: BigFloat!) {
        photoById(id: $id) { id url related }
    }`;

const findPhotos = `
    query ($ids: [BigInt]!) {
        photosByIds(ids: $ids) { nodes { id url } }
    }`;

const page = `
    query ($size: Int!, $after: Cursor) {
        allPhotos(orderBy: ID_DESC, first: $size, after: $after) {
            nodes { id url }
            pageInfo { endCursor hasNextPage }
        }
    }`;

const pageBelow = `
    query ($lastId: BigInt!, $size: Int!) {
        photosBelow(lastId: $lastId, first: $size) { nodes { id url } }
    }`;

const photosSince = `
    query ($time: Datetime!) {
        photosSince(time: $time) { nodes { id } }
    }`;

const withComments = `
    {
        allPhotos(orderBy: ID_ASC) {
            nodes {
                id
                related
                commentsByPhotoId { nodes { id } }
                photoTagsByPhotoId { nodes { tagByTagId { id } } }
            }
        }
    }`;

// --- The test

const pool = new pg.Pool();
let schema;

async function run(source, variableValues) {
    return withPostGraphileContext({ pgPool: pool }, async (contextValue) => {
        const { data, errors } = await graphql({ schema, source, contextValue, variableValues });
        if (errors)
            throw errors[0];
        // as it goes to the browser
        return JSON.parse(JSON.stringify(data));
    });
}

const ends = `
    {
        least: allPhotos(orderBy: ID_ASC, first: 1) { nodes { id } }
        greatest: allPhotos(orderBy: ID_DESC, first: 1) { nodes { id } }
    }`;

// Pages by the cursors that PostGraphile makes
function byCursor() {
    let cursor = null;
    return async (_, size) => {
        const { nodes, pageInfo } = (await run(page, { size, after: cursor })).allPhotos;
        cursor = pageInfo.endCursor;
        return nodes;
    };
}

const byId = async (last, size) => (await run(pageBelow, { lastId: last, size })).photosBelow.nodes;

for (const [type, scalar, nextPage] of [['snowflake', 'BigFloat', byCursor()], ['bigint', 'BigInt', byId]]) {
    await query('DROP TABLE IF EXISTS photos CASCADE');
    await query(`CREATE TABLE photos (id ${type} PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL,
        related bigint[] NOT NULL DEFAULT '{}')`);
    await query(functions);
    schema = await createPostGraphileSchema(pool, ['public']);
    const text = printSchema(schema);
    ok(text.includes(`id: ${scalar}!`), `${type}: the schema has a type for ids`);
    ok(!/snowflake/i.test(text), 'and nothing of the extension');

    await check({
        addPhoto: async (photo) => (await run(addPhoto, { photo })).createPhoto.photo.id,
        findPhoto: async (id) => (await run(findPhoto.replace('BigFloat', scalar), { id })).photoById,
        findPhotos: async (ids) => (await run(findPhotos, { ids })).photosByIds.nodes,
        page: nextPage,
        photosSince: async (time) => (await run(photosSince, { time: time.toISOString() })).photosSince.nodes,
        ends: async () => Object.values(await run(ends)).map(({ nodes }) => nodes[0].id),
        fetchIds: async (n) =>
            (await query('SELECT snowflake_nextval() AS id FROM generate_series(1, $1)', [n])).map((row) => row.id),
        toJson: JSON.stringify,
    }, { sends: [String] });
}

// Relations
for (const type of ['snowflake', 'bigint']) {
    await makeRelated(type);
    await fillRelated();
    await query(tagged);
    schema = await createPostGraphileSchema(pool, ['public']);
    const photos = (await run(withComments)).allPhotos.nodes.map((photo) => ({
        ...photo,
        comments: photo.commentsByPhotoId.nodes,
        tags: photo.photoTagsByPhotoId.nodes.map((row) => row.tagByTagId),
    }));
    same(idsOf(photos), related, `${type}: relations have all digits`);
    same(photos[0].related, [related[1].id, related[0].id], 'and so has an array');
}

// In a cursor an id of a bigint column is a number, so it is rounded.
await query(`TRUNCATE photos CASCADE; INSERT INTO photos (id, url) SELECT ${ID} + i, i FROM generate_series(0, 19) i`);
const next = byCursor();
const [first, second] = [await next(null, 9), await next(null, 9)];
ok(BigInt(second[0].id) !== BigInt(first[8].id) - 1n, 'the second page of a bigint column does not follow the first one');
await pool.end();
done();
