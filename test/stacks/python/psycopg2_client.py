# psycopg2_client.py -- snowflake from psycopg2
#
# doc/python.md shows parts of this file.  Connects as the PG* environment variables
# say to an empty database with the extension, and prints TAP.

import json
from datetime import datetime, timedelta, timezone

import psycopg2
from psycopg2.extensions import new_array_type, new_type, register_type
from psycopg2.extras import execute_values

from relations import AGGREGATE, AGGREGATED, NESTED, ROWS, is_nested, tables
from tap import done, equal, error_of, ok


def connect():
    """A connection on which a snowflake is an int, as a bigint is."""
    conn = psycopg2.connect("")
    with conn.cursor() as cursor:
        cursor.execute("SELECT 'snowflake'::regtype::oid, 'snowflake[]'::regtype::oid")
        oid, array_oid = cursor.fetchone()
    conn.rollback()  # the transaction of this query
    snowflake = new_type((oid,), "snowflake", psycopg2.extensions.LONGINTEGER)
    register_type(snowflake, conn)
    register_type(new_array_type((array_oid,), "snowflake[]", snowflake), conn)
    return conn


def add_photo(cursor, url):
    """The id of the new row."""
    cursor.execute("INSERT INTO photos (url) VALUES (%s) RETURNING id", (url,))
    return cursor.fetchone()[0]


def find_photos(cursor, ids):
    """Several rows at once, by a list of int or of str."""
    cursor.execute("SELECT id, url FROM photos WHERE id = ANY(%s::bigint[]) ORDER BY id", (ids,))
    return cursor.fetchall()


def page(cursor, size, last=2**63 - 1):
    """The rows below the last id of the page before, newest first."""
    cursor.execute(
        "SELECT id, url FROM photos WHERE id < %s ORDER BY id DESC LIMIT %s", (last, size)
    )
    return cursor.fetchall()


def photos_since(cursor, when):
    """The rows that were made at this time or later; the time has a time zone."""
    cursor.execute("SELECT id, url FROM photos WHERE id >= snowflake_floor(%s) ORDER BY id", (when,))
    return cursor.fetchall()


def add_photos(cursor, urls):
    """Many rows in one INSERT; the ids are fetched ahead, in one query."""
    cursor.execute("SELECT snowflake_nextval() FROM generate_series(1, %s)", (len(urls),))
    ids = [id for (id,) in cursor]
    execute_values(cursor, "INSERT INTO photos (id, url) VALUES %s", zip(ids, urls))
    return ids


# --- The test

DISCORD = 175928847299117063  # a double does not hold it


def main():
    print("# psycopg2", psycopg2.__version__)
    conn = connect()
    conn.autocommit = True
    cursor = conn.cursor()

    def value(sql, *parameters):
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]

    cursor.execute(
        "CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL);"
        "CREATE TABLE visits (id bigint PRIMARY KEY DEFAULT snowflake_nextval())"
    )
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    first, second = add_photo(cursor, "first"), add_photo(cursor, "second")
    ok(type(first) is int and first < second, "the id of a new row is an int, and ids increase")
    equal(value("SELECT id::text FROM photos WHERE url = 'second'"), str(second), "it is the row's")
    equal(
        value("INSERT INTO photos VALUES (%s, 'discord') RETURNING id", DISCORD),
        DISCORD,
        "an int is stored",
    )
    equal(
        value("SELECT url FROM photos WHERE id = %s", DISCORD),
        "discord",
        "a row is found by an int",
    )
    equal(value("SELECT url FROM photos WHERE id = %s", str(DISCORD)), "discord", "and by a str")
    equal(
        [url for _, url in find_photos(cursor, [first, DISCORD])],
        ["discord", "first"],
        "and by a list of int",
    )
    equal(
        [url for _, url in find_photos(cursor, [str(DISCORD)])], ["discord"], "and by a list of str"
    )
    ok(
        "operator does not exist: snowflake = text"
        in error_of(value, "SELECT url FROM photos WHERE id = ANY(%s)", [str(DISCORD)]),
        "which needs the cast",
    )
    equal(
        value("SELECT array_agg(id ORDER BY id) FROM photos"),
        [DISCORD, first, second],
        "an array of ids is a list of int",
    )
    equal(
        [url for _, url in photos_since(cursor, before)], ["first", "second"], "rows since a time"
    )
    equal(photos_since(cursor, before + timedelta(hours=1)), [], "and since a later one")
    equal(
        value("SELECT count(*) FROM photos WHERE id >= %s", before),
        2,
        "a snowflake column is compared with a time itself",
    )
    ids = add_photos(cursor, [f"u{n}" for n in range(100)])
    ok(len(set(ids)) == 100 and all(type(id) is int for id in ids), "ids fetched ahead are int")
    seen, last = [], 2**63 - 1
    while rows := page(cursor, 40, last):
        seen += [id for id, _ in rows]
        last = rows[-1][0]
    equal(
        seen, sorted([first, second, DISCORD] + ids, reverse=True), "pages: each row once, in order"
    )
    equal(
        value("SELECT to_json(photos) FROM photos WHERE id = %s", DISCORD)["id"],
        str(DISCORD),
        "JSON that the server writes: the id is a string",
    )
    visit = value("INSERT INTO visits DEFAULT VALUES RETURNING id")
    ok(type(visit) is int and visit > first, "bigint: the id of a new row is an int")

    for column in ("bigint", "snowflake"):
        for statement in tables(column) + ROWS:
            cursor.execute(statement)
        cursor.execute(AGGREGATE)
        equal(cursor.fetchall(), AGGREGATED, f"{column}: an array with a NULL")
        cursor.execute(NESTED)
        ok(is_nested([row[0] for row in cursor]), "nested JSON has all digits")
        cursor.connection.commit()

    raw = psycopg2.connect("").cursor()
    ok(type(add_photo(raw, "raw")) is str, "without the lines of connect(), an id is a str")
    done()


if __name__ == "__main__":
    main()
