# photos.py -- tables with snowflake keys in SQLAlchemy 2
#
# doc/python.md shows it.  sqlalchemy_photos.py and alembic_photos.py test it.

import json

from sqlalchemy import BigInteger, ForeignKey, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY, base
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


class Snowflake(TypeDecorator):
    """An id: int in Python, snowflake in the database."""

    impl = BigInteger
    cache_ok = True

    def process_result_value(self, value, dialect):
        return None if value is None else int(value)


class Snowflakes(TypeDecorator):
    """An array of ids, of a snowflake[] column or of array_agg: read as a bigint[]."""

    impl = ARRAY(BigInteger)
    cache_ok = True

    def column_expression(self, column):
        return cast(column, ARRAY(BigInteger))


@compiles(Snowflake)
def name_in_ddl(type_, compiler, **kw):
    return "snowflake"


@compiles(Snowflakes)
def name_of_array_in_ddl(type_, compiler, **kw):
    return "snowflake[]"


base.ischema_names["snowflake"] = Snowflake  # for reflection, and for Alembic


class Base(DeclarativeBase):
    pass


class Photo(Base):
    __tablename__ = "photos"

    id: Mapped[int] = mapped_column(
        Snowflake, primary_key=True, server_default=func.snowflake_nextval()
    )
    url: Mapped[str]
    comments: Mapped[list["Comment"]] = relationship(order_by="Comment.id")


class Comment(Base):
    __tablename__ = "comments"

    id: Mapped[int] = mapped_column(
        Snowflake, primary_key=True, server_default=func.snowflake_nextval()
    )
    photo_id: Mapped[int] = mapped_column(ForeignKey("photos.id"))


class Album(Base):
    __tablename__ = "albums"

    name: Mapped[str] = mapped_column(primary_key=True)
    photo_ids: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))


class Visit(Base):
    __tablename__ = "visits"

    id: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, server_default=func.snowflake_nextval()
    )


def add_photo(session, url):
    """The id of the new row."""
    photo = Photo(url=url)
    session.add(photo)
    session.flush()
    return photo.id


def find_photos(session, ids):
    """Several rows at once, by a list of int."""
    return session.scalars(select(Photo).where(Photo.id.in_(ids)).order_by(Photo.id)).all()


def page(session, size, last=2**63 - 1):
    """The rows below the last id of the page before, newest first."""
    return session.scalars(
        select(Photo).where(Photo.id < last).order_by(Photo.id.desc()).limit(size)
    ).all()


def photos_since(session, when):
    """The rows that were made at this time or later; the time has a time zone."""
    return session.scalars(
        select(Photo).where(Photo.id >= func.snowflake_floor(when)).order_by(Photo.id)
    ).all()


def ids_of_comments(session):
    """For each photo the ids of its comments, or [None]."""
    return session.execute(
        select(Photo.id, func.array_agg(Comment.id, type_=Snowflakes))
        .outerjoin(Photo.comments)
        .group_by(Photo.id)
        .order_by(Photo.id)
    ).all()


def add_photos(session, urls):
    """Many rows in one INSERT: the ids are fetched ahead, in one query."""
    ids = session.scalars(
        select(func.snowflake_nextval(type_=Snowflake)).select_from(
            func.generate_series(1, len(urls))
        )
    ).all()
    session.add_all([Photo(id=id, url=url) for id, url in zip(ids, urls)])
    session.flush()
    return ids


def photo_json(photo):
    """For a browser: the id is a string, since JavaScript rounds numbers."""
    return json.dumps({"id": str(photo.id), "url": photo.url})
