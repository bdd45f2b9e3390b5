# alembic_photos.py -- Alembic's migrations of photos.py, with alembic_env.py
#
# Connects as the PG* environment variables say to an empty database with the
# extension, and prints TAP.

import io
import os
import re
import shutil
import tempfile
import warnings

import alembic
from alembic import command
from alembic.config import Config
from sqlalchemy import BigInteger, MetaData, create_engine, inspect, text
from sqlalchemy.dialects.postgresql import base

from photos import Base, Snowflake
from tap import done, error_of, ok

engine = create_engine("postgresql+psycopg://")


def scalar(sql):
    with engine.begin() as connection:
        return connection.execute(text(sql)).scalar()


def new_environment(directory):
    """What "alembic init" makes, but for env.py."""
    templates = os.path.join(os.path.dirname(alembic.__file__), "templates/generic")
    os.makedirs(f"{directory}/versions")
    shutil.copy(f"{templates}/script.py.mako", directory)
    shutil.copy(f"{os.path.dirname(__file__)}/alembic_env.py", f"{directory}/env.py")
    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", directory)
    return config


def autogenerate(config, name):
    """alembic revision --autogenerate: the path and the text of the new migration."""
    path = command.revision(config, name, autogenerate=True).path
    with open(path) as file:
        return path, file.read()


def body(migration):
    """What upgrade() does, without its comments."""
    lines = re.search(r"def upgrade.*?\n(.*?)\n\n", migration, re.S)[1]
    return re.sub(r"^ *#.*\n?", "", lines, flags=re.M).strip()


def changed_types(**types):
    """The metadata with other types of the id of some tables."""
    metadata = MetaData()
    for table in Base.metadata.sorted_tables:
        table.to_metadata(metadata)
    for table, type_ in types.items():
        metadata.tables[table].c.id.type = type_
    return metadata


def is_unchanged(config):
    """alembic check"""
    return error_of(command.check, config) is None


def main():
    print("# Alembic", alembic.__version__)
    with tempfile.TemporaryDirectory() as directory:
        test(new_environment(f"{directory}/migrations"))
    done()


def test(config):
    _, migration = autogenerate(config, "first")
    ok(
        "sa.Column('id', Snowflake(), server_default=sa.text('snowflake_nextval()'), nullable=False)"
        in migration,
        "the migration has the type and the DEFAULT",
    )
    ok("from photos import Snowflake" in migration, "and imports the type")
    ok("snowflake_layouts" not in migration, "and does not touch the extension's views")
    command.upgrade(config, "head")
    ok(
        scalar("INSERT INTO photos (url) VALUES ('first') RETURNING pg_typeof(id)::text")
        == "snowflake",
        "the table of the migration mints",
    )
    ok(is_unchanged(config), "a second run finds no change")
    second, migration = autogenerate(config, "second")
    ok(body(migration) == "pass", "and writes none")
    os.remove(second)

    # the other type, in both directions, and the same ids
    id = scalar("SELECT id::text FROM photos")
    file = scalar("SELECT pg_relation_filenode('visits')")
    config.attributes["metadata"] = changed_types(photos=BigInteger(), visits=Snowflake())
    ok(not is_unchanged(config), "another type in the model is a change")
    third, _ = autogenerate(config, "third")
    command.upgrade(config, "head")
    ok(is_unchanged(config), "which one migration makes")
    ok(
        scalar("SELECT pg_typeof(id)::text || id FROM photos") == "bigint" + id,
        "from snowflake to bigint, the ids stay",
    )
    ok(
        scalar("SELECT pg_relation_filenode('visits')") == file,
        "from bigint to snowflake, no table is rewritten",
    )
    command.downgrade(config, "-1")
    config.attributes.clear()
    os.remove(third)
    ok(is_unchanged(config), "and back")
    ok(scalar("SELECT pg_typeof(id)::text || id FROM photos") == "snowflake" + id, "the ids stay")

    # without the type in ischema_names
    del base.ischema_names["snowflake"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unchanged = is_unchanged(config)
    ok(
        any("Did not recognize type 'snowflake'" in str(w.message) for w in caught),
        "without ischema_names there is a warning",
    )
    config.attributes["metadata"] = changed_types(photos=BigInteger())
    ok(unchanged and is_unchanged(config), "and a change of the type is not seen")
    config.attributes.clear()
    command.downgrade(config, "base")
    ok("photos" not in inspect(engine).get_table_names(), "back to the beginning")


if __name__ == "__main__":
    main()
