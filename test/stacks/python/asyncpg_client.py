# asyncpg_client.py -- snowflake from asyncpg
#
# doc/python.md shows parts of this file.  Connects as the PG* environment variables
# say to an empty database with the extension, and prints TAP.

import asyncio
import json
from datetime import datetime, timedelta, timezone

import asyncpg

from relations import AGGREGATE, AGGREGATED, NESTED, ROWS, is_nested, tables
from tap import done, equal, ok


async def init(conn):
    """A snowflake is an int, as a bigint is."""
    schema = await conn.fetchval(
        "SELECT nspname FROM pg_namespace n JOIN pg_type t ON typnamespace = n.oid"
        " WHERE t.oid = 'snowflake'::regtype"
    )
    await conn.set_builtin_type_codec("snowflake", schema=schema, codec_name="int8")


async def connect():
    return await asyncpg.create_pool(init=init)


async def add_photo(conn, url):
    """The id of the new row."""
    return await conn.fetchval("INSERT INTO photos (url) VALUES ($1) RETURNING id", url)


async def find_photos(conn, ids):
    """Several rows at once, by a list of int."""
    return await conn.fetch("SELECT id, url FROM photos WHERE id = ANY($1) ORDER BY id", ids)


async def page(conn, size, last=2**63 - 1):
    """The rows below the last id of the page before, newest first."""
    return await conn.fetch(
        "SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2", last, size
    )


async def photos_since(conn, when):
    """The rows that were made at this time or later; the time has a time zone."""
    return await conn.fetch(
        "SELECT id, url FROM photos WHERE id >= snowflake_floor($1) ORDER BY id", when
    )


async def add_photos(conn, urls):
    """Many rows by COPY; the ids are fetched ahead, in one query."""
    ids = [
        row[0]
        for row in await conn.fetch(
            "SELECT snowflake_nextval() FROM generate_series(1, $1)", len(urls)
        )
    ]
    await conn.copy_records_to_table("photos", records=zip(ids, urls), columns=["id", "url"])
    return ids


# --- The test

DISCORD = 175928847299117063  # a double does not hold it


async def error_of(call):
    try:
        await call
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


async def main():
    print("# asyncpg", asyncpg.__version__)
    conn = await connect()
    await conn.execute(
        "CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL);"
        "CREATE TABLE visits (id bigint PRIMARY KEY DEFAULT snowflake_nextval());"
        "CREATE TABLE albums (photo_ids bigint[], more snowflake[])"
    )
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    first, second = await add_photo(conn, "first"), await add_photo(conn, "second")
    ok(type(first) is int and first < second, "the id of a new row is an int, and ids increase")
    equal(
        await conn.fetchval("SELECT id::text FROM photos WHERE url = 'second'"),
        str(second),
        "it is the row's",
    )
    await conn.execute("INSERT INTO photos VALUES ($1, 'discord')", DISCORD)
    equal(
        await conn.fetchval("SELECT url FROM photos WHERE id = $1", DISCORD),
        "discord",
        "a row is found by an int",
    )
    equal(
        await conn.fetchval("SELECT url FROM photos WHERE id IN ($1, $2)", 1, DISCORD),
        "discord",
        "and by IN",
    )
    equal(
        await conn.fetchval("SELECT url FROM photos WHERE id = $1::text::bigint", str(DISCORD)),
        "discord",
        "and by a str with a cast",
    )
    ok(
        "DataError" in await error_of(conn.fetch("SELECT FROM photos WHERE id = $1", str(DISCORD))),
        "without it a str is refused",
    )
    equal(
        [r["url"] for r in await find_photos(conn, [first, DISCORD])],
        ["discord", "first"],
        "and by a list",
    )
    await conn.execute("INSERT INTO albums VALUES ($1, $2)", [DISCORD, first], [DISCORD])
    equal(
        tuple(await conn.fetchrow("SELECT * FROM albums")),
        ([DISCORD, first], [DISCORD]),
        "an array of ids is a list of int",
    )
    equal(
        [r["url"] for r in await photos_since(conn, before)],
        ["first", "second"],
        "rows since a time",
    )
    equal(await photos_since(conn, before + timedelta(hours=1)), [], "and since a later one")
    ok(
        "DataError" in await error_of(conn.fetch("SELECT FROM photos WHERE id >= $1", before)),
        "a time alone is refused",
    )
    equal(
        await conn.fetchval("SELECT count(*) FROM photos WHERE id >= $1::timestamptz", before),
        2,
        "a cast is as good, for a snowflake column",
    )
    ids = await add_photos(conn, [f"u{n}" for n in range(100)])
    ok(
        len(set(ids)) == 100 and all(type(id) is int for id in ids),
        "ids fetched ahead are int, and COPY takes them",
    )
    seen, last = [], 2**63 - 1
    while rows := await page(conn, 40, last):
        seen += [r["id"] for r in rows]
        last = rows[-1]["id"]
    equal(
        seen, sorted([first, second, DISCORD] + ids, reverse=True), "pages: each row once, in order"
    )
    text = await conn.fetchval("SELECT to_json(photos) FROM photos WHERE id = $1", DISCORD)
    equal(json.loads(text)["id"], str(DISCORD), "JSON that the server writes: the id is a string")
    visit = await conn.fetchval("INSERT INTO visits DEFAULT VALUES RETURNING id")
    ok(type(visit) is int and visit > first, "bigint: the id of a new row is an int")

    # what init() is for
    raw = await asyncpg.connect()
    ok(type(await add_photo(raw, "raw")) is str, "without init(), an id is a str")
    ok(
        "DataError"
        in await error_of(raw.execute("INSERT INTO photos VALUES ($1, 'x')", DISCORD + 1)),
        "INSERT wants a str",
    )
    ok(
        await raw.fetchval("SELECT url FROM photos WHERE id = $1", DISCORD) == "discord",
        "and WHERE an int",
    )
    ok(
        "no binary format encoder"
        in await error_of(raw.copy_records_to_table("photos", records=[("1", "x")])),
        "and COPY fails",
    )
    for column in ("snowflake", "bigint"):
        for statement in tables(column) + ROWS:
            await conn.execute(statement)
        equal([tuple(row) for row in await conn.fetch(AGGREGATE)], AGGREGATED, f"{column}: an array with a NULL")
        ok(is_nested([row[0] for row in await conn.fetch(NESTED)]), "nested JSON has all digits")
    await raw.close()
    await conn.close()
    done()


asyncio.run(main())
