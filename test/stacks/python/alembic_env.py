# alembic_env.py -- the env.py of an Alembic environment for photos.py
#
# doc/python.md shows parts of it.

from alembic import context
from sqlalchemy import create_engine

from photos import Base, Snowflake


def render_item(kind, item, autogen_context):
    """How a migration writes the type."""
    if kind == "type" and isinstance(item, Snowflake):
        autogen_context.imports.add("from photos import Snowflake")
        return "Snowflake()"
    return False


options = context.config.attributes
with create_engine("postgresql+psycopg://").connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=options.get("metadata", Base.metadata),
        render_item=render_item,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()
