# Tables as applications have them, and their rows: a photo with two comments and two
# tags, and one without any.  To a double their ids are all the same.

PHOTO, LONELY, FIRST, SECOND, RED, BLUE = (0..5).map { |n| 175928847299117063 + 2 * n }

def relations(column)
  key = "id #{column} PRIMARY KEY DEFAULT snowflake_nextval()"
  <<~SQL
    DROP TABLE IF EXISTS photos_tags, tags, comments, photos CASCADE;
    CREATE TABLE photos (#{key}, url text, related #{column}[]);
    CREATE TABLE comments (#{key}, photo_id #{column} REFERENCES photos);
    CREATE TABLE tags (#{key}, name text);
    CREATE TABLE photos_tags (photo_id #{column} REFERENCES photos, tag_id #{column} REFERENCES tags);
    INSERT INTO photos VALUES (#{PHOTO}, 'a', '{#{LONELY},NULL}'), (#{LONELY}, 'b', NULL);
    INSERT INTO comments VALUES (#{FIRST}, #{PHOTO}), (#{SECOND}, #{PHOTO});
    INSERT INTO tags VALUES (#{RED}, 'red'), (#{BLUE}, 'blue');
    INSERT INTO photos_tags VALUES (#{PHOTO}, #{RED}), (#{PHOTO}, #{BLUE})
  SQL
end

AGGREGATE = <<~SQL
  SELECT p.id, array_agg(c.id ORDER BY c.id) AS ids
    FROM photos p LEFT JOIN comments c ON c.photo_id = p.id GROUP BY p.id ORDER BY p.id
SQL
AGGREGATED = [[PHOTO, [FIRST, SECOND]], [LONELY, [nil]]]
