# sqlalchemy_photos.py -- tests photos.py with a driver
#
# The argument is the driver: psycopg, psycopg2, pg8000 or asyncpg.  Connects as the
# PG* environment variables say to an empty database with the extension, and prints
# TAP.

import asyncio
import json
import os
import sys
from datetime import datetime, timedelta, timezone

import sqlalchemy
from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ForeignKey,
    MetaData,
    Table,
    any_,
    create_engine,
    event,
    func,
    inspect,
    literal,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, joinedload, mapped_column, relationship, selectinload

from photos import (
    Album,
    Base,
    Comment,
    Photo,
    Snowflake,
    Visit,
    add_photo,
    add_photos,
    Snowflakes,
    find_photos,
    ids_of_comments,
    page,
    photo_json,
    photos_since,
)
from relations import AGGREGATED, NESTED, PHOTO, ROWS, FIRST, SECOND, RED, BLUE, is_nested, tables
from tap import done, equal, error_of, ok

DISCORD = 175928847299117063  # a double does not hold it


class List(Base):
    __tablename__ = "lists"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    ids: Mapped[list[int]] = mapped_column(Snowflakes)


class WrongBase(DeclarativeBase):
    pass


class WrongPhoto(WrongBase):
    __tablename__ = "photos"

    id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, server_default=func.snowflake_nextval()
    )
    url: Mapped[str]


def test(connection):
    Base.metadata.create_all(connection)
    connection.commit()
    session = Session(connection)

    types = dict(
        connection.execute(
            text(
                "SELECT attrelid::regclass || '.' || attname, format_type(atttypid, NULL)"
                " FROM pg_attribute WHERE attrelid IN ('photos'::regclass, 'comments'::regclass,"
                " 'albums'::regclass, 'visits'::regclass) AND attnum > 0"
            )
        ).all()
    )
    equal(types["photos.id"], "snowflake", "create_all makes a snowflake column")
    equal(types["comments.photo_id"], "snowflake", "and so is what refers to it")
    equal(types["albums.photo_ids"], "bigint[]", "an array of ids is a bigint[]")
    equal(types["visits.id"], "bigint", "a bigint column can have the DEFAULT, too")

    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    first = add_photo(session, "first")
    second = add_photo(session, "second")
    ok(type(first) is int and first < second, "the id of a new row is an int, and ids increase")
    equal(
        session.execute(text("SELECT id::text FROM photos WHERE url = 'second'")).scalar(),
        str(second),
        "it is the row's",
    )
    session.add(Photo(id=DISCORD, url="discord"))
    session.flush()
    session.expunge_all()
    found = session.get(Photo, DISCORD)
    ok(found.id == DISCORD and found.url == "discord", "a row is found by an int")
    equal(session.get(Photo, int(str(DISCORD))), found, "and is one object, not two")
    equal(
        [p.url for p in find_photos(session, [first, DISCORD])],
        ["discord", "first"],
        "in_() takes a list",
    )
    equal(
        session.scalars(
            select(Photo.url).where(Photo.id == any_(literal([first, DISCORD], ARRAY(BigInteger))))
        ).all(),
        ["first", "discord"],
        "and any_() an array",
    )
    session.add(Comment(photo_id=DISCORD))
    session.add(Album(name="best", photo_ids=[DISCORD, first]))
    session.flush()
    session.expunge_all()
    equal(session.scalars(select(Comment)).one().photo_id, DISCORD, "a foreign key is an int")
    equal(
        session.get(Album, "best").photo_ids, [DISCORD, first], "an array of ids is a list of int"
    )
    equal(
        [p.url for p in session.scalars(select(Photo).join(Comment, Comment.photo_id == Photo.id))],
        ["discord"],
        "a join",
    )
    photo = session.get(Photo, DISCORD)
    photo.url = "new"
    session.flush()
    equal(
        session.execute(text(f"SELECT url FROM photos WHERE id = {DISCORD}")).scalar(),
        "new",
        "an update finds the row",
    )

    equal([p.url for p in photos_since(session, before)], ["first", "second"], "rows since a time")
    equal(
        photos_since(session, datetime.now(timezone.utc) + timedelta(hours=1)),
        [],
        "and since a later one",
    )

    # many rows
    statements = []
    event.listen(
        connection, "before_cursor_execute", lambda c, cursor, s, *rest: statements.append(s)
    )
    ids = add_photos(session, [f"u{n}" for n in range(100)])
    ok(len(set(ids)) == 100 and all(type(id) is int for id in ids), "ids fetched ahead are int")
    equal(len(statements), 2, "and then 100 rows are one INSERT")
    equal(
        session.execute(text("SELECT count(*) FROM photos WHERE url LIKE 'u%'")).scalar(),
        100,
        "of all rows",
    )
    statements.clear()
    more = [Photo(url=f"m{n}") for n in range(20)]
    session.add_all(more)
    session.flush()
    equal(len(statements), 20, "without ids, 20 rows are 20 INSERTs")
    equal(
        [(p.id, p.url) for p in more],
        [
            tuple(r)
            for r in session.execute(
                select(Photo.id, Photo.url).where(Photo.url.like("m%")).order_by(Photo.id)
            )
        ],
        "and each object has the id of its row, too",
    )

    seen, last = [], 2**63 - 1
    while rows := page(session, 40, last):
        seen += [p.id for p in rows]
        last = rows[-1].id
    equal(
        seen,
        sorted([first, second, DISCORD] + ids + [p.id for p in more], reverse=True),
        "pages: each row once, in order",
    )

    equal(
        json.loads(photo_json(photo))["id"],
        str(DISCORD),
        "JSON: the id is a string, with all digits",
    )

    visit = Visit()
    session.add(visit)
    session.flush()
    ok(type(visit.id) is int and visit.id > first, "bigint: the id of a new row is an int")
    session.commit()

    raw = text("SELECT id FROM photos WHERE url = 'new'")
    equal(connection.execute(raw).scalar(), str(DISCORD), "text() gives a str")
    equal(
        connection.execute(raw.columns(id=Snowflake)).scalar(),
        DISCORD,
        "unless it is told the type",
    )

    # reflection
    inspector = inspect(connection)
    reflected = {c["name"]: c for c in inspector.get_columns("photos")}["id"]
    ok(isinstance(reflected["type"], Snowflake), "reflection finds the type")
    equal(reflected["default"], "snowflake_nextval()", "and the DEFAULT")

    schema = connection.execute(
        text(
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'snowflake'"
        )
    ).scalar()
    own = {"photos", "comments", "albums", "visits", "lists"}
    visible, in_public = MetaData(), MetaData(schema="public")
    visible.reflect(connection, views=True)
    in_public.reflect(connection, views=True)
    ok(
        set(visible.tables) > own and "snowflake_layouts" in visible.tables,
        "reflection of views finds the extension's",
    )
    if schema != "public":
        equal(
            set(in_public.tables),
            {f"public.{name}" for name in own},
            f"the extension in {schema}, reflection of the schema public does not",
        )
        ok(isinstance(in_public.tables["public.photos"].c.id.type, Snowflake), "and finds the type")

    # an array of the type
    equal(connection.execute(text("SELECT atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'lists'::regclass AND attname = 'ids'")).scalar(), "snowflake[]", "create_all makes it")
    session.add(List(id=1, ids=[DISCORD, None]))
    session.flush()
    session.expunge_all()
    equal(session.get(List, 1).ids, [DISCORD, None], "an array of type snowflake[] is written and read")
    of_lists = {c["name"]: c for c in inspector.get_columns("lists")}["ids"]["type"]
    ok(isinstance(of_lists, ARRAY), "which reflection takes for an ARRAY(Snowflake)")
    session.rollback()

    # what the type is for
    session.expunge_all()
    wrong = WrongPhoto(url="wrong")
    session.add(wrong)
    session.flush()
    ok(type(wrong.id) is str, "without the type, an id is a str: do not do this")
    session.rollback()
    session.close()
    for column in ("snowflake", "bigint"):
        test_relations(connection, column)


def models(column):
    """Classes of the tables of relations.py, with ids of this type."""
    Type = Snowflake if column == "snowflake" else BigInteger

    class Related(DeclarativeBase):
        pass

    def key():
        return mapped_column(Type, primary_key=True, server_default=func.snowflake_nextval())

    links = Table(
        "photo_tags",
        Related.metadata,
        Column("photo_id", ForeignKey("photos.id"), primary_key=True),
        Column("tag_id", ForeignKey("tags.id"), primary_key=True),
    )

    class RelatedPhoto(Related):
        __tablename__ = "photos"
        id: Mapped[int] = key()
        url: Mapped[str]
        comments = relationship("RelatedComment", order_by="RelatedComment.id")
        tags = relationship("RelatedTag", secondary=links, order_by="RelatedTag.id")

    class RelatedComment(Related):
        __tablename__ = "comments"
        id: Mapped[int] = key()
        photo_id: Mapped[int] = mapped_column(ForeignKey("photos.id"))

    class RelatedTag(Related):
        __tablename__ = "tags"
        id: Mapped[int] = key()
        name: Mapped[str]

    return Related.metadata, RelatedPhoto, RelatedComment, RelatedTag


def test_relations(connection, column):
    metadata, RelatedPhoto, RelatedComment, RelatedTag = models(column)
    connection.execute(text(tables(column)[0]))
    metadata.create_all(connection)
    for statement in ROWS:
        connection.execute(text(statement))
    connection.commit()
    session = Session(connection)
    for load in (selectinload, joinedload):
        query = select(RelatedPhoto).options(load(RelatedPhoto.comments), load(RelatedPhoto.tags))
        photos = session.scalars(query.order_by(RelatedPhoto.id)).unique().all()
        equal(
            [([c.id for c in p.comments], [t.id for t in p.tags]) for p in photos],
            [([FIRST, SECOND], [RED, BLUE]), ([], [])],
            f"{column}: relations by {load.__name__}",
        )
        session.expunge_all()
    if column == "snowflake":
        equal([tuple(row) for row in ids_of_comments(session)], AGGREGATED, "an array with a NULL")
    else:
        query = select(RelatedPhoto.id, func.array_agg(RelatedComment.id)).outerjoin(RelatedPhoto.comments)
        got = session.execute(query.group_by(RelatedPhoto.id).order_by(RelatedPhoto.id)).all()
        equal([tuple(row) for row in got], AGGREGATED, "an array with a NULL, without a type of its own")
    ok(is_nested(session.scalars(text(NESTED)).all()), "nested JSON has all digits")
    session.add(RelatedPhoto(url="new", comments=[RelatedComment()], tags=[RelatedTag(name="new")]))
    session.flush()
    new = session.scalars(select(RelatedPhoto).where(RelatedPhoto.url == "new")).one()
    ok(new.comments[0].photo_id == new.id > PHOTO, "a row is stored with what belongs to it")
    session.rollback()
    session.close()


async def test_async():
    engine = create_async_engine(url("asyncpg"))
    async with engine.connect() as connection:
        await connection.run_sync(test)
    async with AsyncSession(engine) as session:
        id = await session.run_sync(add_photo, "async")
        photo = (await session.scalars(select(Photo).where(Photo.id == id))).one()
        equal(photo.url, "async", "an AsyncSession runs the same functions")
    await engine.dispose()


def url(driver):
    """Of a driver that reads the PG* environment variables by itself, the name is enough."""
    if driver != "pg8000":
        return f"postgresql+{driver}://"
    return URL.create(
        "postgresql+pg8000",
        username=os.environ["PGUSER"],
        database=os.environ["PGDATABASE"],
        query={"unix_sock": f"{os.environ['PGHOST']}/.s.PGSQL.{os.environ['PGPORT']}"},
    )


def main():
    driver = sys.argv[1]
    print("# SQLAlchemy", sqlalchemy.__version__, "with", driver)
    if driver == "asyncpg":
        asyncio.run(test_async())
    else:
        with create_engine(url(driver)).connect() as connection:
            test(connection)
    done()


if __name__ == "__main__":
    main()
