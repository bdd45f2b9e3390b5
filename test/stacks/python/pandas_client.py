# pandas_client.py -- ids in a DataFrame, of both types of column
#
# doc/python.md shows a part of it.  Connects as the PG* environment variables say to an
# empty database with the extension, and prints TAP.

import pandas
from sqlalchemy import create_engine, text

from relations import FIRST, LONELY, PHOTO, ROWS, SECOND, tables
from tap import done, equal, ok


def read(connection, sql):
    """Without the option, a column with a NULL would be float64, which rounds ids."""
    return pandas.read_sql(text(sql), connection, dtype_backend="numpy_nullable")


# --- The test

SQL = """
SELECT p.id::bigint, c.id::bigint AS comment
  FROM photos p LEFT JOIN comments c ON c.photo_id = p.id ORDER BY p.id, c.id"""


def main():
    print("# pandas", pandas.__version__)
    with create_engine("postgresql+psycopg://").connect() as connection:
        for column in ("snowflake", "bigint"):
            for statement in tables(column) + ROWS:
                connection.execute(text(statement))
            frame = read(connection, SQL)
            equal(list(frame.id), [PHOTO, PHOTO, LONELY], f"{column}: ids have all digits")
            equal(list(frame.comment[:2]), [FIRST, SECOND], "also in a column with a NULL")
            ok(frame.comment[2] is pandas.NA, "and the NULL is one")
            careless = pandas.read_sql(text(SQL), connection)
            ok(careless.comment[0] == careless.comment[1], "without the option, two ids are the same")
        connection.rollback()
    done()


if __name__ == "__main__":
    main()
