# django_models.py -- gallery/models.py of a Django project
#
# doc/python.md shows it.  django_photos.py tests it.

from django.contrib.postgres.aggregates import ArrayAgg
from django.contrib.postgres.fields import ArrayField
from django.db import connection, models
from django.db.models.functions import Cast
from django.http import JsonResponse

from .fields import SnowflakeBigintField, SnowflakeField, SnowflakeFloor


class Photo(models.Model):
    id = SnowflakeField(primary_key=True)
    url = models.TextField()


class Comment(models.Model):  # its key is of the type DEFAULT_AUTO_FIELD
    photo = models.ForeignKey(Photo, on_delete=models.CASCADE)


class Album(models.Model):
    name = models.TextField(primary_key=True)
    photo_ids = ArrayField(models.BigIntegerField())


class Visit(models.Model):
    id = SnowflakeBigintField(primary_key=True)


def add_photo(url):
    """The id of the new row."""
    return Photo.objects.create(url=url).id


def find_photos(ids):
    """Several rows at once, by a list of int or of str."""
    return Photo.objects.filter(id__in=ids).order_by("id")


def page(size, last=2**63 - 1):
    """The rows below the last id of the page before, newest first."""
    return Photo.objects.filter(id__lt=last).order_by("-id")[:size]


def photos_since(when):
    """The rows that were made at this time or later; the time has a time zone."""
    return Photo.objects.filter(id__gte=SnowflakeFloor(models.Value(when))).order_by("id")


def fetch_ids(count):
    """Ids for rows that you will insert: Photo(id=..., url=...)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT snowflake_nextval()::bigint FROM generate_series(1, %s)", [count])
        return [id for (id,) in cursor]


def ids_of_comments():
    """For each photo the ids of its comments, or [None]: an array of ids is read as bigint[]."""
    ids = ArrayAgg(Cast("comment__id", models.BigIntegerField()))
    return Photo.objects.annotate(ids=ids).order_by("id").values_list("id", "ids")


def photo_response(photo):
    """For a browser: the id is a string, since JavaScript rounds numbers."""
    return JsonResponse({"id": str(photo.id), "url": photo.url})
