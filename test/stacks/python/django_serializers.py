# django_serializers.py -- gallery/serializers.py of a project with the Django REST
# framework
#
# doc/python.md shows it.  django_photos.py tests it.

from django.db import models
from rest_framework import serializers

from .fields import SnowflakeBigintField, SnowflakeField

IDS = (SnowflakeField, SnowflakeBigintField)


class IdSerializer(serializers.ModelSerializer):
    """For a browser: each id is a string; that of another row, of a nested one, and in an array, too."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        **dict.fromkeys(IDS, serializers.CharField),
    }

    def build_relational_field(self, field_name, relation_info):
        field, options = super().build_relational_field(field_name, relation_info)
        if isinstance(relation_info.related_model._meta.pk, IDS):
            options["pk_field"] = serializers.CharField()
        return field, options

    def build_standard_field(self, field_name, model_field):
        field, options = super().build_standard_field(field_name, model_field)
        if isinstance(getattr(model_field, "base_field", None), models.BigIntegerField):
            options["child"] = serializers.CharField()
        return field, options

    def build_nested_field(self, field_name, relation_info, nested_depth):
        field, options = super().build_nested_field(field_name, relation_info, nested_depth)
        return type("NestedSerializer", (IdSerializer,), {"Meta": field.Meta}), options
