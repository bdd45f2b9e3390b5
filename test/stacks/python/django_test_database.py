# django_test_database.py -- tests django_apps.py: "manage.py test" as a role that is no
# superuser
#
# Django makes the test database, and in it a table of its own, with a key of
# DEFAULT_AUTO_FIELD, before any migration.
#
# Connects as the PG* environment variables say, as a role that may create databases, and

import atexit
import os
import shutil
import sys
import tempfile

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from tap import done, equal, error_of, ok

TESTS = """
from django.db import connection
from django.test import TestCase, TransactionTestCase
from gallery.models import Comment, Photo, add_photo


class FixtureTest(TransactionTestCase):
    fixtures = ["photos"]
    reset_sequences = True

    def test_fixed_ids(self):
        self.assertEqual([photo.id for photo in Photo.objects.order_by("id")], [1, 175928847299117063])
        self.assertGreater(add_photo("minted"), 175928847299117063)


class PhotoTest(TestCase):
    def test_minting(self):
        photo = add_photo("first")
        comment = Comment.objects.create(photo_id=photo)
        self.assertLess(photo, comment.id)
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_database(), snowflake_shard(%s)", [photo])
            database, shard = cursor.fetchone()
        self.assertTrue(database.startswith("test_application"))
        self.assertEqual(shard, 5)
"""
FIXTURE = """[
    {"model": "gallery.photo", "pk": 1, "fields": {"url": "small"}},
    {"model": "gallery.photo", "pk": "175928847299117063", "fields": {"url": "discord"}}
]"""


def new_project():
    here, top = os.path.dirname(os.path.abspath(__file__)), tempfile.mkdtemp()
    atexit.register(shutil.rmtree, top)
    os.makedirs(f"{top}/gallery/migrations")
    os.makedirs(f"{top}/gallery/fixtures")
    with open(f"{top}/gallery/fixtures/photos.json", "w") as file:
        file.write(FIXTURE)
    for name, text in (("__init__", ""), ("migrations/__init__", ""), ("tests", TESTS)):
        with open(f"{top}/gallery/{name}.py", "w") as file:
            file.write(text)
    for name in ("fields", "models", "apps"):
        shutil.copy(f"{here}/django_{name}.py", f"{top}/gallery/{name}.py")
    sys.path.insert(0, top)
    os.chdir(top)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "application",
        "USER": os.environ["PGUSER"],
    }
    settings.configure(
        DATABASES={"default": database},
        INSTALLED_APPS=["gallery.apps.GalleryConfig"],
        DEFAULT_AUTO_FIELD="gallery.fields.SnowflakeField",
        USE_TZ=True,
    )
    django.setup()


def main():
    print("# Django", django.__version__)
    new_project()
    call_command("makemigrations", "gallery", verbosity=0)
    for workers in (1, 2):
        failed = error_of(
            lambda: call_command("test", "gallery", verbosity=0, interactive=False, parallel=workers)
        )
        equal(failed, None, f"manage.py test --parallel {workers}")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'test_application%'")
        equal(cursor.fetchone(), (0,), "the test database is gone")
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        ok(not cursor.fetchone()[0], "the role is no superuser")
    done()


if __name__ == "__main__":
    main()
