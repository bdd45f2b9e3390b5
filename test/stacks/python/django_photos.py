# django_photos.py -- tests django_fields.py, django_models.py and
# django_existing_table.py
#
# Another app, shop, has a table that Django made with a BigAutoField, and
# django_existing_table.py changes that.
#
# The argument is the driver: psycopg, psycopg2, or server, which is psycopg with
# parameters that the server binds.  Connects as the PG* environment variables say to
# an empty database with the extension, and prints TAP.

import atexit
import importlib
import io
import json
import os
import re
import shutil
import sys
import tempfile

from tap import done, equal, error_of, ok

driver = sys.argv[1]
if driver == "psycopg2":
    sys.modules["psycopg"] = None  # Django takes it if it is there

import django
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone


SHOP_MODELS = """
from django.db import models
from gallery.fields import SnowflakeField


class Item(models.Model):
    id = SnowflakeField(primary_key=True)


class Part(models.Model):
    id = SnowflakeField(primary_key=True)
    item = models.ForeignKey(Item, on_delete=models.CASCADE)
"""
RELATED_MODELS = """
from django.db import models
from gallery.fields import {field}


class {name}Tag(models.Model):
    id = {field}(primary_key=True)
    name = models.TextField()


class {name}Photo(models.Model):
    id = {field}(primary_key=True)
    url = models.TextField()
    tags = models.ManyToManyField({name}Tag)


class {name}Comment(models.Model):
    id = {field}(primary_key=True)
    photo = models.ForeignKey({name}Photo, models.CASCADE, related_name="comments")
"""
SHOP_FIRST_MIGRATION = """
from django.db import migrations, models
from gallery.fields import SnowflakeField


class Migration(migrations.Migration):
    operations = [
        migrations.CreateModel("Item", [("id", models.BigAutoField(primary_key=True, serialize=False))]),
        migrations.CreateModel(
            "Part",
            [
                ("id", SnowflakeField(primary_key=True, serialize=False)),
                ("item", models.ForeignKey("shop.item", models.CASCADE)),
            ],
        ),
    ]
"""


RELATED = [("Snowflake", "SnowflakeField"), ("Bigint", "SnowflakeBigintField")]


def write(path, text=""):
    with open(path, "w") as file:
        file.write(text)


def new_project():
    """A project with two apps."""
    here, top = os.path.dirname(os.path.abspath(__file__)), tempfile.mkdtemp()
    atexit.register(shutil.rmtree, top)
    for app in ("gallery", "shop", "related"):
        os.makedirs(f"{top}/{app}/migrations")
        write(f"{top}/{app}/__init__.py")
        write(f"{top}/{app}/migrations/__init__.py")
    write(f"{top}/shop/models.py", SHOP_MODELS)
    write(f"{top}/related/models.py", "".join(RELATED_MODELS.format(name=n, field=f) for n, f in RELATED))
    write(f"{top}/shop/migrations/0001_initial.py", SHOP_FIRST_MIGRATION)
    for name in ("fields", "models", "serializers"):
        shutil.copy(f"{here}/django_{name}.py", f"{top}/gallery/{name}.py")
    sys.path.insert(0, top)
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": os.environ["PGDATABASE"],
                "OPTIONS": {"server_side_binding": True} if driver == "server" else {},
            }
        },
        INSTALLED_APPS=["gallery", "shop", "related"],
        DEFAULT_AUTO_FIELD="gallery.fields.SnowflakeField",
        USE_TZ=True,
    )
    django.setup()
    return here, top


def manage(*arguments, **options):
    """The output of manage.py."""
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=out, **options)
    return out.getvalue()


def rows(sql, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


DISCORD = 175928847299117063  # a double does not hold it


def main():
    print("# Django", django.__version__, "with", driver)
    here, top = new_project()
    from gallery.fields import SnowflakeBigintField
    from gallery.models import Album, Comment, Photo, Visit
    from gallery.models import add_photo, fetch_ids, find_photos, ids_of_comments, page, photo_response, photos_since

    equal(
        connection.Database.__name__,
        "psycopg2" if driver == "psycopg2" else "psycopg",
        "the driver is used",
    )

    # migrations
    manage("makemigrations", "gallery", "related")
    with open(f"{top}/gallery/migrations/0001_initial.py") as file:
        ok("gallery.fields.SnowflakeField(" in file.read(), "the migration has the field")
    manage("migrate")
    ok(
        "No changes" in manage("makemigrations", "gallery", "--dry-run"),
        "a second makemigrations finds no change",
    )
    ok("No migrations to apply" in manage("migrate"), "and a second migrate has nothing to do")
    types = dict(
        rows(
            "SELECT attrelid::regclass || '.' || attname, format_type(atttypid, NULL)"
            " || coalesce(' ' || pg_get_expr(adbin, adrelid), '')"
            " FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
            " WHERE attrelid::regclass::text ~ '^gallery_[a-z]*$' AND attnum > 0"
        )
    )
    equal(
        types["gallery_photo.id"],
        "snowflake snowflake_nextval()",
        "the key is a snowflake with its DEFAULT",
    )
    equal(
        types["gallery_comment.id"],
        "snowflake snowflake_nextval()",
        "and so is one of DEFAULT_AUTO_FIELD",
    )
    equal(types["gallery_comment.photo_id"], "bigint", "a foreign key is a bigint, and has no DEFAULT")
    equal(types["gallery_album.photo_ids"], "bigint[]", "an array of ids is a bigint[]")
    equal(
        types["gallery_visit.id"],
        "bigint snowflake_nextval()",
        "a bigint column can have the DEFAULT, too",
    )

    # rows
    before = timezone.now() - timezone.timedelta(seconds=1)
    first, second = add_photo("first"), add_photo("second")
    ok(type(first) is int and first < second, "the id of a new row is an int, and ids increase")
    equal(
        rows("SELECT id::text FROM gallery_photo WHERE url = 'second'"),
        [(str(second),)],
        "it is the row's",
    )
    discord = Photo.objects.create(id=DISCORD, url="discord")
    equal(Photo.objects.get(id=DISCORD).id, DISCORD, "a row is found by an int")
    equal(Photo.objects.get(id=str(DISCORD)), discord, "and by a str")
    equal(
        [p.url for p in find_photos([first, str(DISCORD)])], ["discord", "first"], "and by a list"
    )
    Comment.objects.create(photo=discord)
    equal(
        list(ids_of_comments()),
        [(DISCORD, [Comment.objects.get().id]), (first, [None]), (second, [None])],
        "an array of ids with a NULL",
    )
    comment = Comment.objects.get()
    ok(type(comment.id) is int and comment.photo_id == DISCORD, "a foreign key is an int")
    equal([c.photo.url for c in Comment.objects.select_related("photo")], ["discord"], "a join")
    equal(discord.comment_set.count(), 1, "and back")
    equal(
        Photo.objects.prefetch_related("comment_set").get(id=DISCORD).comment_set.all()[0],
        comment,
        "prefetch",
    )
    equal(Photo.objects.aggregate(models.Max("id"))["id__max"], second, "max() is an int")
    Album.objects.create(name="best", photo_ids=[DISCORD, first])
    equal(Album.objects.get().photo_ids, [DISCORD, first], "an array of ids is a list of int")
    albums = Album.objects.filter(photo_ids__contains=[DISCORD])
    if driver == "server":
        ok(
            "'i' format" in error_of(albums.count),
            "Django sends an array's int above 32 bits as an int4, which fails",
        )
    else:
        equal(albums.count(), 1, "and is searched by an int")
    discord.url = "new"
    discord.save()
    equal(Photo.objects.get(url="new").id, DISCORD, "save() finds the row")
    equal([p.url for p in photos_since(before)], ["first", "second"], "rows since a time")
    equal(
        list(photos_since(timezone.now() + timezone.timedelta(hours=1))),
        [],
        "and since a later one",
    )

    # many rows
    bulk = Photo.objects.bulk_create([Photo(url=f"b{n}") for n in range(50)])
    equal(
        [(p.id, p.url) for p in bulk],
        list(Photo.objects.filter(url__startswith="b").order_by("id").values_list("id", "url")),
        "bulk_create gives each object the id of its row",
    )
    ids = fetch_ids(50)
    ok(len(set(ids)) == 50 and all(type(id) is int for id in ids), "ids fetched ahead are int")
    Photo.objects.bulk_create([Photo(id=id, url=f"u{n}") for n, id in enumerate(ids)])
    equal(
        list(Photo.objects.filter(url__startswith="u").order_by("id").values_list("id", flat=True)),
        ids,
        "and the rows have them",
    )
    seen, last = [], 2**63 - 1
    while some := list(page(40, last)):
        seen += [p.id for p in some]
        last = some[-1].id
    equal(
        seen,
        sorted([DISCORD, first, second] + [p.id for p in bulk] + ids, reverse=True),
        "pages: each row once, in order",
    )
    equal(
        json.loads(photo_response(discord).content)["id"],
        str(DISCORD),
        "JSON: the id is a string, with all digits",
    )
    visit = Visit.objects.create()
    ok(
        type(visit.id) is int and Visit.objects.get(id=visit.id) == visit,
        "bigint: the id of a new row is an int",
    )

    for name, _ in RELATED:
        test_relations(name)

    # what the field is for
    class Wrong(models.Model):
        id = models.BigIntegerField(primary_key=True)
        url = models.TextField()

        class Meta:
            app_label = "wrong"
            db_table = "gallery_photo"
            managed = False

    class AlsoWrong(models.Model):
        id = models.BigAutoField(primary_key=True)
        url = models.TextField()

        class Meta:
            app_label = "wrong"
            db_table = "gallery_photo"
            managed = False

    try:
        with transaction.atomic():
            Wrong.objects.create(url="wrong")
        failed = ""
    except IntegrityError as error:
        failed = str(error)
    ok("null value in column" in failed, "a BigIntegerField inserts NULL: do not use it")
    ok(
        type(AlsoWrong.objects.create(url="wrong").id) is str,
        "with a BigAutoField an id is a str: do not use it",
    )
    guess = re.search(
        r"class GalleryPhoto\(.*?\n +id = (.*)", manage("inspectdb", "gallery_photo")
    )[1]
    ok(
        guess.startswith("models.TextField("),
        "inspectdb takes an id for a text: correct it by hand",
    )

    # an app that Django began
    with tempfile.TemporaryDirectory() as elsewhere:
        os.chdir(elsewhere)
        manage("startapp", "made")
        with open("made/apps.py") as file:
            ok("default_auto_field" in file.read(), "startapp writes default_auto_field, which beats the setting")
        os.chdir(top)

    # a table that Django made with a BigAutoField
    rows_of_item = (
        "SELECT pg_typeof(id)::text, count(*) FILTER (WHERE id < 10) FROM shop_item GROUP BY 1"
    )
    from shop.models import Item, Part

    with connection.cursor() as cursor:
        cursor.execute(
            "WITH i AS (INSERT INTO shop_item DEFAULT VALUES RETURNING id) INSERT INTO shop_part (item_id) TABLE i"
        )
    manage("makemigrations", "shop", "--name", "wrong")
    with transaction.atomic():
        failed = error_of(lambda: manage("migrate", "shop"))
    ok("identity column type must be" in failed, "the migration that Django writes for it fails")
    with connection.schema_editor(collect_sql=True) as editor:
        fields = models.BigAutoField(primary_key=True), SnowflakeBigintField(primary_key=True)
        for field in fields:
            field.set_attributes_from_name("id")
            field.model = Item
        editor.alter_field(Item, *fields)
    ok(
        not re.search("IDENTITY|DEFAULT", "".join(editor.collected_sql)),
        "for a SnowflakeBigintField, the identity would stay",
    )
    os.remove(f"{top}/shop/migrations/0002_wrong.py")
    shutil.copy(f"{here}/django_existing_table.py", f"{top}/shop/migrations/0002_snowflake.py")
    importlib.invalidate_caches()
    manage("migrate", "shop")
    ok(
        "No changes" in manage("makemigrations", "--dry-run"),
        "with the identity dropped first, no change is left",
    )
    old, new = Part.objects.get().item, Item.objects.create()
    ok(old.id == 1 and new.id > DISCORD, "old keys stay, and new ones are minted")
    equal(rows(rows_of_item), [("snowflake", 1)], "in a snowflake column")
    done()


def test_relations(name):
    from django.apps import apps
    from django.contrib.postgres.aggregates import ArrayAgg
    from django.db.models.functions import Cast, JSONObject
    from gallery.serializers import IdSerializer

    Photo, Comment, Tag = (apps.get_model("related", name + kind) for kind in ("Photo", "Comment", "Tag"))
    photo = Photo.objects.create(id=DISCORD, url="a")
    lonely = Photo.objects.create(id=DISCORD + 2, url="b")
    comments = [Comment.objects.create(id=DISCORD + n, photo=photo).id for n in (4, 6)]
    tags = [Tag.objects.create(id=DISCORD + n, name="t").id for n in (8, 10)]
    photo.tags.set(tags)
    equal(
        [
            ([c.id for c in p.comments.all()], [t.id for t in p.tags.all()])
            for p in Photo.objects.order_by("id").prefetch_related("comments", "tags")
        ],
        [(comments, tags), ([], [])],
        f"{name}: relations",
    )
    equal(
        {c.photo.id for c in Comment.objects.select_related("photo")}, {DISCORD}, "and by a join"
    )
    ids = ArrayAgg(Cast("comments__id", models.BigIntegerField()), ordering="comments__id")
    equal(
        list(Photo.objects.annotate(ids=ids).order_by("id").values_list("ids", flat=True)),
        [comments, [None]],
        "an array with a NULL",
    )
    nested = JSONObject(id=Cast("id", models.TextField()))
    equal(
        list(Photo.objects.order_by("id").values_list(nested, flat=True)),
        [{"id": str(DISCORD)}, {"id": str(lonely.id)}],
        "JSON of the server has all digits, if an id is text there",
    )

    def serializer(model, base, names):
        meta = type("Meta", (), {"model": model, "fields": names})
        return type("Serializer", (base,), {"Meta": meta})

    from rest_framework.serializers import ModelSerializer

    of_photo, of_comment = serializer(Photo, IdSerializer, ["id", "tags"]), serializer(Comment, IdSerializer, ["id", "photo"])
    equal(
        [of_photo(photo).data, of_comment(Comment.objects.get(id=comments[0])).data],
        [{"id": str(DISCORD), "tags": [str(tag) for tag in tags]}, {"id": str(comments[0]), "photo": str(DISCORD)}],
        "REST framework: each id is a string",
    )
    sent = of_comment(data={"photo": str(DISCORD + 2)})
    ok(sent.is_valid() and sent.save().photo == lonely, "and a row is made with one")
    from gallery.models import Album

    deep = serializer(Comment, IdSerializer, ["photo"])
    deep.Meta.depth = 2
    equal(
        json.loads(json.dumps(deep(Comment.objects.get(id=comments[0])).data))["photo"],
        {"id": str(DISCORD), "url": "a", "tags": [{"id": str(tag), "name": "t"} for tag in tags]},
        "and so it is in nested rows",
    )
    of_album = serializer(Album, IdSerializer, ["name", "photo_ids"])
    sent = of_album(data={"name": name, "photo_ids": [str(DISCORD), str(DISCORD + 2)]})
    ok(sent.is_valid() and sent.save().photo_ids, "an array is made of strings")
    album = Album.objects.get(name=name)
    equal(
        [album.photo_ids, of_album(album).data["photo_ids"]],
        [[DISCORD, DISCORD + 2], [str(DISCORD), str(DISCORD + 2)]],
        "and read as strings",
    )
    from gallery.fields import IdConverter

    equal(
        [IdConverter().to_python(str(DISCORD)), error_of(lambda: IdConverter().to_python(str(2**63)))],
        [DISCORD, "ValueError: more than 63 bits"],
        "and is no path with IdConverter",
    )
    plain = serializer(Comment, ModelSerializer, ["photo"])(Comment.objects.get(id=comments[0]))
    equal(plain.data, {"photo": DISCORD}, "which a plain serializer makes a number")


if __name__ == "__main__":
    main()
