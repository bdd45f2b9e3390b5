# psycopg_client.py -- snowflake from Python, by psycopg 3
#
# What stands in doc/clients.md is copied out of here.  Connects as the PG*
# environment variables say to a database with the table photos, and prints TAP.

import json

import psycopg
from psycopg.types import TypeInfo
from psycopg.types.numeric import Int8BinaryLoader, IntLoader


def connect():
    """A connection on which a snowflake is an int, as a bigint is."""
    conn = psycopg.connect(autocommit=True)
    info = TypeInfo.fetch(conn, "snowflake")
    info.register(conn)
    conn.adapters.register_loader(info.oid, IntLoader)
    conn.adapters.register_loader(info.oid, Int8BinaryLoader)
    return conn


def add_photo(conn, url):
    """The id of the new row."""
    return conn.execute(
        "INSERT INTO photos (url) VALUES (%s) RETURNING id", (url,)
    ).fetchone()[0]


def find_photo(conn, id):
    """The url of a row; the id may be an int or a str of digits."""
    row = conn.execute("SELECT url FROM photos WHERE id = %s", (id,)).fetchone()
    return row and row[0]


def find_photos(conn, ids):
    """Several rows at once, by a list of int."""
    return conn.execute(
        "SELECT id, url FROM photos WHERE id = ANY(%s) ORDER BY id", (ids,)
    ).fetchall()


def copy_photos(conn, rows):
    """COPY in binary, which wants to be told the types: an id is an int8."""
    with conn.cursor() as cursor:
        with cursor.copy("COPY photos (id, url) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int8", "text"])
            for row in rows:
                copy.write_row(row)


def pages(conn, size):
    """The rows of the table, newest first, a page at a time."""
    last = 2**63 - 1
    while True:
        page = conn.execute(
            "SELECT id, url FROM photos WHERE id < %s ORDER BY id DESC LIMIT %s",
            (last, size),
        ).fetchall()
        if not page:
            return
        yield page
        last = page[-1][0]


def photo_json(conn, id):
    """A row as the server writes it in JSON, and its id as an int."""
    row = conn.execute(
        "SELECT to_json(photos)::text FROM photos WHERE id = %s", (id,)
    ).fetchone()
    return row[0], int(json.loads(row[0])["id"])


# --- The test.  The ids are the extremes, the smallest, and one that a double
# --- does not hold: to pass, no digit may be lost.

IDS = [2**63 - 1, -(2**63), 1, 175928847299117063]
count = 0


def ok(good, name):
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {name}")


def fails(function, *arguments):
    """Does the server find no operator for a parameter of that type?"""
    try:
        function(*arguments)
    except psycopg.errors.UndefinedFunction:
        return True
    return False


def round_trip(name, execute, integer="%s", text="%s::text::snowflake"):
    """Send each id as an int and as a str, and read it as both."""
    for sent_as, mark, convert in (
        ("int", integer, int),
        ("str", text, str),
    ):
        got = []
        for id in IDS:
            got.append(
                execute(
                    f"INSERT INTO photos VALUES ({mark}, 'x') RETURNING id, id::text",
                    (convert(id),),
                )
            )
            got.append(
                execute(f"SELECT id, id::text FROM photos WHERE id = {mark}", (convert(id),))
            )
            execute(f"DELETE FROM photos WHERE id = {mark} RETURNING id, id::text", (convert(id),))
        want = [(id, str(id)) for id in IDS for _ in range(2)]
        ok(got == want, f"{name}: ids sent as {sent_as} come back as they were")


def main():
    print("# psycopg", psycopg.__version__)
    raw = psycopg.connect(autocommit=True)
    conn = connect()

    # what connect() is for
    first = add_photo(raw, "first")
    ok(isinstance(first, str), "unregistered, an id is a str")
    got = raw.cursor(binary=True).execute("SELECT id FROM photos").fetchone()[0]
    ok(isinstance(got, bytes), "unregistered, in binary it is bytes")
    second = add_photo(conn, "second")
    ok(isinstance(second, int) and second > int(first), "registered, it is an int")
    ok(
        conn.execute("SELECT id::text FROM photos WHERE url = 'second'").fetchone()[0]
        == str(second),
        "and the id that RETURNING gave is the row's",
    )
    ok(find_photo(conn, second) == "second", "a row is found by an int")
    ok(find_photo(conn, first) == "first", "and by a str")
    ok(fails(find_photo, conn, 2**63), "an int that is no bigint is refused")
    ok(
        find_photos(conn, [int(first), second])
        == [(int(first), "first"), (second, "second")],
        "rows are found by a list",
    )
    ok(
        conn.execute("SELECT array_agg(id ORDER BY id) FROM photos").fetchone()[0]
        == [int(first), second],
        "an array of ids is a list of int",
    )

    # every way to send and to receive
    client = psycopg.ClientCursor(conn)
    round_trip("simple", lambda q, p: client.execute(q, p).fetchone(), text="%s")
    round_trip("extended", lambda q, p: conn.execute(q, p).fetchone(), text="%s")
    round_trip(
        "prepared", lambda q, p: conn.execute(q, p, prepare=True).fetchone(), text="%s"
    )
    ok(
        conn.execute(
            "SELECT count(*) > 0 FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'"
        ).fetchone()[0],
        "and statements were prepared",
    )
    binary = conn.cursor(binary=True)
    round_trip(
        "binary",
        lambda q, p: binary.execute(q, p).fetchone(),
        integer="%b",
        text="%b::snowflake",
    )
    binary.execute("SELECT id FROM photos")
    ok(binary.pgresult.fformat(0) == 1, "and results were binary")
    ok(
        fails(conn.execute, "SELECT FROM photos WHERE id = %b", (first,)),
        "a str in binary needs a cast",
    )

    # bulk
    ids = [int(first), second]
    urls = [f"u{n}" for n in range(300)]
    with conn.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO photos (url) VALUES (%s) RETURNING id",
            [(url,) for url in urls],
            returning=True,
        )
        while True:
            ids.append(cursor.fetchone()[0])
            if not cursor.nextset():
                break
    copy_photos(conn, [(ids[-1] + n, f"copy {n}") for n in range(1, 11)])
    ids += [ids[-1] + n for n in range(1, 11)]
    ok(len(set(ids)) == 312 and ids == sorted(ids), "ids increase, COPY included")

    # pages
    seen = [row for page in pages(conn, 40) for row in page]
    ok([id for id, _ in seen] == ids[::-1], f"pages: each of {len(ids)} rows once, in order")
    ok([len(page) for page in pages(conn, 40)] == [40] * 7 + [32], "in 8 pages")
    ok([len(page) for page in pages(conn, 156)] == [156] * 2, "the last page may be full")
    conn.execute("SET enable_seqscan = off")
    plan = conn.execute("EXPLAIN SELECT url FROM photos WHERE id < %s", (second,)).fetchall()
    ok("Index Cond: (" in str(plan), "an int is looked up in the index")

    # JSON
    conn.execute("INSERT INTO photos VALUES (175928847299117063, 'discord')")
    text, id = photo_json(conn, 175928847299117063)
    ok(id == 175928847299117063, "JSON: no digit is lost")
    ok('"id":"175928847299117063"' in text, "JSON: the id is a string")
    got = conn.execute("SELECT row_to_json(photos) FROM photos WHERE url = 'discord'").fetchone()[0]
    ok(got == {"id": "175928847299117063", "url": "discord"}, "JSON: parsed by psycopg as well")

    print(f"1..{count}")


if __name__ == "__main__":
    main()
