# django_existing_table.py -- a migration that changes a key from BigAutoField
#
# doc/python.md shows it.  django_photos.py tests it.

from django.db import migrations

from gallery.fields import SnowflakeField


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE shop_item ALTER id DROP IDENTITY,"
            " ALTER id SET DEFAULT snowflake_nextval()"
        ),
        migrations.AlterField("item", "id", SnowflakeField(primary_key=True, serialize=False)),
    ]
