# pgbouncer_clients.py -- two clients through PgBouncer in transaction mode
#
# What stands in doc/clients.md is copied out of here.  Connects as the PG*
# environment variables say to a PgBouncer that has one connection to a server
# for all clients; there is the table photos.  Prints TAP.

import threading

from psycopg_client import add_photo, connect, pages


def connect_by_pgbouncer():
    """A connection that keeps nothing on a server beyond a transaction."""
    conn = connect()
    conn.prepare_threshold = None
    return conn


def add_two_photos(conn, one, two):
    """The ids of two new rows; within a transaction the session is ours."""
    with conn.transaction():
        conn.execute("INSERT INTO photos (url) VALUES (%s)", (one,))
        first = conn.execute("SELECT snowflake_lastval()").fetchone()[0]
        return first, add_photo(conn, two)


# --- The test

count = 0


def ok(good, name):
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {name}")


def main():
    clients = [connect_by_pgbouncer(), connect_by_pgbouncer()]
    a, b = clients

    pids = {c.execute("SELECT pg_backend_pid()").fetchone()[0] for c in clients}
    ok(len(pids) == 1, "two clients take turns on one session of the server")

    # the caveat: the session is not the client's
    ids = [add_photo(a, "a"), add_photo(b, "b")]
    ok(ids[0] < ids[1], "both mint")
    ok(
        a.execute("SELECT snowflake_lastval()").fetchone()[0] == ids[1],
        "outside a transaction snowflake_lastval may be another client's",
    )

    # at the same time
    minted = {0: [], 1: []}

    def work(n):
        for i in range(100):
            first, second = add_two_photos(clients[n], f"{n} {i}", f"{n} {i} too")
            urls = clients[n].execute(
                "SELECT url FROM photos WHERE id IN (%s, %s) ORDER BY id", (first, second)
            ).fetchall()
            if urls == [(f"{n} {i}",), (f"{n} {i} too",)]:
                minted[n] += [first, second]

    threads = [threading.Thread(target=work, args=(n,)) for n in minted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ok(
        [len(minted[n]) for n in minted] == [200, 200],
        "within a transaction it is the client's own, each time",
    )
    ok(all(minted[n] == sorted(minted[n]) for n in minted), "each client's ids increase")
    ids += minted[0] + minted[1]
    ok(len(set(ids)) == 402, "no id comes twice")

    # a page needs nothing that the last one left on the server
    seen = {a: [], b: []}
    for page_a, page_b in zip(pages(a, 40), pages(b, 40)):
        seen[a] += [id for id, _ in page_a]
        seen[b] += [id for id, _ in page_b]
    ids.sort(reverse=True)
    ok(seen[a] == ids and seen[b] == ids, "pages: two readers see each row once, in order")
    print(f"1..{count}")


main()
