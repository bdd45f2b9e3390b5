# pg8000_client.py -- snowflake from pg8000
#
# doc/python.md shows parts of this file.  Connects as the PG* environment variables
# say to an empty database with the extension, and prints TAP.

import os
from datetime import datetime, timedelta, timezone

import pg8000
import pg8000.native

from relations import AGGREGATE, AGGREGATED, NESTED, ROWS, is_nested, tables
from tap import done, equal, error_of, ok


def ids_from_text(text):
    """An array of ids; an error here would leave the connection one answer behind."""
    return [None if id == "NULL" else int(id) for id in text[1:-1].split(",") if id]


def register(conn):
    """A snowflake is an int, as a bigint is."""
    [[oid, array_oid]] = conn.run(
        "SELECT 'snowflake'::regtype::oid::int, 'snowflake[]'::regtype::oid::int"
    )
    conn.register_in_adapter(oid, int)
    conn.register_in_adapter(array_oid, ids_from_text)


def add_photo(conn, url):
    """The id of the new row."""
    return conn.run("INSERT INTO photos (url) VALUES (:url) RETURNING id", url=url)[0][0]


def find_photos(conn, ids):
    """Several rows at once, by a list of int."""
    return conn.run("SELECT id, url FROM photos WHERE id = ANY(:ids) ORDER BY id", ids=ids)


def page(conn, size, last=2**63 - 1):
    """The rows below the last id of the page before, newest first."""
    return conn.run(
        "SELECT id, url FROM photos WHERE id < :last ORDER BY id DESC LIMIT :size",
        last=last,
        size=size,
    )


def photos_since(conn, when):
    """The rows that were made at this time or later; the time has a time zone."""
    return conn.run(
        "SELECT id, url FROM photos WHERE id >= snowflake_floor(:t) ORDER BY id", t=when
    )


def fetch_ids(conn, count):
    """Ids for rows that you will insert."""
    rows = conn.run("SELECT snowflake_nextval() FROM generate_series(1, :n)", n=count)
    return [id for [id] in rows]


# --- The test

DISCORD = 175928847299117063  # a double does not hold it


def connect():
    return pg8000.native.Connection(
        os.environ["PGUSER"],
        database=os.environ["PGDATABASE"],
        unix_sock=f"{os.environ['PGHOST']}/.s.PGSQL.{os.environ['PGPORT']}",
    )


def main():
    print("# pg8000", pg8000.__version__)
    conn = connect()
    register(conn)
    conn.run(
        "CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL)"
    )
    conn.run("CREATE TABLE visits (id bigint PRIMARY KEY DEFAULT snowflake_nextval())")
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    first, second = add_photo(conn, "first"), add_photo(conn, "second")
    ok(type(first) is int and first < second, "the id of a new row is an int, and ids increase")
    equal(
        conn.run("SELECT id::text FROM photos WHERE url = 'second'"),
        [[str(second)]],
        "it is the row's",
    )
    equal(
        conn.run("INSERT INTO photos VALUES (:id, 'discord') RETURNING id", id=DISCORD),
        [[DISCORD]],
        "an int is stored",
    )
    equal(
        conn.run("SELECT url FROM photos WHERE id = :id", id=DISCORD),
        [["discord"]],
        "a row is found by an int",
    )
    equal(
        conn.run("SELECT url FROM photos WHERE id = :id", id=str(DISCORD)),
        [["discord"]],
        "and by a str",
    )
    equal(
        [url for _, url in find_photos(conn, [first, DISCORD])],
        ["discord", "first"],
        "and by a list",
    )
    equal(
        conn.run("SELECT array_agg(id ORDER BY id) FROM photos"),
        [[[DISCORD, first, second]]],
        "an array of ids is a list of int",
    )
    equal([url for _, url in photos_since(conn, before)], ["first", "second"], "rows since a time")
    equal(photos_since(conn, before + timedelta(hours=1)), [], "and since a later one")
    ok(
        error_of(lambda: conn.run("SELECT FROM photos WHERE id >= :t", t=before)) is not None,
        "a time alone is refused",
    )
    equal(
        conn.run("SELECT count(*) FROM photos WHERE id >= CAST(:t AS timestamptz)", t=before),
        [[2]],
        "a cast is as good, for a snowflake column",
    )
    ids = fetch_ids(conn, 100)
    ok(len(set(ids)) == 100 and all(type(id) is int for id in ids), "ids fetched ahead are int")
    conn.run("INSERT INTO photos SELECT id, 'u' FROM unnest(CAST(:ids AS bigint[])) AS id", ids=ids)
    seen, last = [], 2**63 - 1
    while rows := page(conn, 40, last):
        seen += [id for id, _ in rows]
        last = rows[-1][0]
    equal(
        seen, sorted([first, second, DISCORD] + ids, reverse=True), "pages: each row once, in order"
    )
    equal(
        conn.run("SELECT to_json(photos) FROM photos WHERE id = :id", id=DISCORD)[0][0]["id"],
        str(DISCORD),
        "JSON that the server writes: the id is a string",
    )
    [[visit]] = conn.run("INSERT INTO visits DEFAULT VALUES RETURNING id")
    ok(type(visit) is int and visit > first, "bigint: the id of a new row is an int")
    ok(type(add_photo(connect(), "raw")) is str, "without register(), an id is a str")
    for column in ("snowflake", "bigint"):
        for statement in tables(column) + ROWS:
            conn.run(statement)
        equal([tuple(row) for row in conn.run(AGGREGATE)], AGGREGATED, f"{column}: an array with a NULL")
        equal(
            [conn.run(f"SELECT '{name}'") for name in ("alice", "bob")],
            [[["alice"]], [["bob"]]],
            "and the next answers are to the next questions",
        )
        ok(is_nested([value for [value] in conn.run(NESTED)]), "nested JSON has all digits")
    done()


if __name__ == "__main__":
    main()
