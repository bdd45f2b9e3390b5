"""Tables as applications have them, and their rows: a photo with two comments and two
tags, and one without any.  To a double their ids are all the same."""

import json

PHOTO, LONELY, FIRST, SECOND, RED, BLUE = range(175928847299117063, 175928847299117075, 2)


def tables(column):
    """Statements that make them, with ids of this type."""
    key = f"id {column} PRIMARY KEY DEFAULT snowflake_nextval()"
    return [
        "DROP TABLE IF EXISTS photo_tags, comments, tags, photos CASCADE",
        f"CREATE TABLE photos ({key}, url text NOT NULL)",
        f"CREATE TABLE comments ({key}, photo_id {column} NOT NULL REFERENCES photos)",
        f"CREATE TABLE tags ({key}, name text NOT NULL)",
        f"CREATE TABLE photo_tags (photo_id {column} REFERENCES photos, tag_id {column} REFERENCES tags)",
    ]


ROWS = [
    f"INSERT INTO photos (id, url) VALUES ({PHOTO}, 'a'), ({LONELY}, 'b')",
    f"INSERT INTO comments (id, photo_id) VALUES ({FIRST}, {PHOTO}), ({SECOND}, {PHOTO})",
    f"INSERT INTO tags (id, name) VALUES ({RED}, 'red'), ({BLUE}, 'blue')",
    f"INSERT INTO photo_tags (photo_id, tag_id) VALUES ({PHOTO}, {RED}), ({PHOTO}, {BLUE})",
]

AGGREGATE = """
SELECT p.id, array_agg(c.id ORDER BY c.id)
  FROM photos p LEFT JOIN comments c ON c.photo_id = p.id GROUP BY p.id ORDER BY p.id"""
AGGREGATED = [(PHOTO, [FIRST, SECOND]), (LONELY, [None])]

NESTED = """
SELECT json_build_object('id', p.id::text, 'comments', json_agg(c.id::text ORDER BY c.id))
  FROM photos p LEFT JOIN comments c ON c.photo_id = p.id GROUP BY p.id ORDER BY p.id"""


def is_nested(values):
    """Is this what NESTED gives, as JSON or as text?"""
    photos = [value if isinstance(value, dict) else json.loads(value) for value in values]
    return photos == [
        {"id": str(PHOTO), "comments": [str(FIRST), str(SECOND)]},
        {"id": str(LONELY), "comments": [None]},
    ]
