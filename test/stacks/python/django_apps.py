# django_apps.py -- gallery/apps.py of a Django project: makes the extension, in a test
# database, too
#
# doc/python.md shows it.  django_test_database.py tests it.

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import pre_migrate


def create_extension(using, **kwargs):
    with connections[using].cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS snowflake")


class GalleryConfig(AppConfig):
    name = "gallery"

    def ready(self):
        pre_migrate.connect(create_extension, sender=self)
