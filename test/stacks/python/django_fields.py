# django_fields.py -- gallery/fields.py of a Django project: keys that the server mints
#
# doc/python.md shows it.  django_photos.py tests it.

from django.db import models


class SnowflakeField(models.BigAutoField):
    """A key: int in Python, snowflake in the database, which mints it.  Foreign keys are bigint."""

    def db_type(self, connection):
        return "snowflake"

    def db_type_suffix(self, connection):
        return "DEFAULT snowflake_nextval()"

    def from_db_value(self, value, expression, connection):
        return None if value is None else int(value)


class SnowflakeBigintField(models.BigAutoField):
    """The same with a bigint in the database."""

    def db_type_suffix(self, connection):
        return "DEFAULT snowflake_nextval()"


class SnowflakeFloor(models.Func):
    """The least id of a time."""

    function = "snowflake_floor"
    output_field = models.BigIntegerField()


class IdConverter:
    """For a path: <id:id>, after register_converter(IdConverter, "id").  No id has more than 63 bits."""

    regex = "[0-9]+"

    def to_python(self, value):
        if int(value) >= 2**63:
            raise ValueError("more than 63 bits")
        return int(value)

    def to_url(self, value):
        return str(value)
