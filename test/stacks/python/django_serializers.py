# django_serializers.py -- gallery/serializers.py of a project with the Django REST
# framework
#
# doc/python.md shows it.  django_photos.py tests it.

from rest_framework import serializers

from .fields import SnowflakeBigintField, SnowflakeField

IDS = (SnowflakeField, SnowflakeBigintField)


class IdSerializer(serializers.ModelSerializer):
    """For a browser: each id is a string, that of another row, too."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        **dict.fromkeys(IDS, serializers.CharField),
    }

    def build_relational_field(self, field_name, relation_info):
        field, options = super().build_relational_field(field_name, relation_info)
        if isinstance(relation_info.related_model._meta.pk, IDS):
            options["pk_field"] = serializers.CharField()
        return field, options
