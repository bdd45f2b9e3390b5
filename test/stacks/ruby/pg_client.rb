# pg_client.rb -- snowflake from ruby-pg
#
# doc/languages.md shows parts of this file.  Connects as the PG* environment variables say
# to an empty database with the extension, and prints TAP.

require "json"
require "pg"
require "time"
require_relative "tap"
require_relative "relations"

# A connection on which a snowflake is an Integer, as a bigint is
def connect
  conn = PG.connect
  registry = PG::BasicTypeRegistry.new.register_default_types
  registry.register_type(0, "snowflake", PG::TextEncoder::Integer, PG::TextDecoder::Integer)
  conn.type_map_for_results = PG::BasicTypeMapForResults.new(conn, registry: registry)
  conn.type_map_for_queries = PG::BasicTypeMapForQueries.new(conn)
  conn
end

# The id of the new row
def add_photo(conn, url)
  conn.exec_params("INSERT INTO photos (url) VALUES ($1) RETURNING id", [url]).getvalue(0, 0)
end

# Several rows at once, by an array of Integer
def find_photos(conn, ids)
  conn.exec_params("SELECT id, url FROM photos WHERE id = ANY($1) ORDER BY id", [ids]).to_a
end

# The rows below the last id of the page before, newest first
def page(conn, size, last = 2**63 - 1)
  conn.exec_params("SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2",
                   [last, size]).to_a
end

# The rows that were made at this time or later
def photos_since(conn, time)
  conn.exec_params("SELECT id, url FROM photos WHERE id >= snowflake_floor($1) ORDER BY id",
                   [time.iso8601(6)]).to_a
end

# Ids for rows that you will insert
def fetch_ids(conn, count)
  conn.exec_params("SELECT snowflake_nextval() FROM generate_series(1, $1)", [count]).column_values(0)
end

# For a browser: the id is a string, since JavaScript rounds numbers.
def photo_json(photo)
  JSON.generate(photo.merge("id" => photo["id"].to_s))
end

# --- The test

puts "# ruby-pg #{PG::VERSION}"
conn = connect
conn.exec(<<~SQL)
  CREATE TABLE photos (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), url text NOT NULL);
  CREATE TABLE albums (photo_ids bigint[], more snowflake[]);
  CREATE TABLE visits (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
SQL
before = Time.now - 1
first = add_photo(conn, "first")
second = add_photo(conn, "second")
ok(first.is_a?(Integer) && first < second, "the id of a new row is an Integer, and ids increase")
equal(conn.exec("SELECT id::text FROM photos WHERE url = 'second'").getvalue(0, 0), second.to_s, "it is the row's")
equal(conn.exec_params("INSERT INTO photos VALUES ($1, 'discord') RETURNING id", [DISCORD]).getvalue(0, 0), DISCORD,
      "an Integer is stored")
[DISCORD, DISCORD.to_s].each do |id|
  equal(conn.exec_params("SELECT url FROM photos WHERE id = $1", [id]).column_values(0), ["discord"],
        "a row is found by a #{id.class}")
end
equal(find_photos(conn, [first, DISCORD]).map { |row| row["url"] }, %w[discord first], "and by an Array")
conn.exec_params("INSERT INTO albums VALUES ($1, $2::bigint[]::snowflake[])", [[DISCORD, first], [DISCORD]])
equal(conn.exec("SELECT * FROM albums").values, [[[DISCORD, first], [DISCORD]]], "an array of ids is an Array of Integer")
equal(photos_since(conn, before).map { |row| row["url"] }, %w[first second], "rows since a time")
equal(photos_since(conn, before + 3600), [], "and since a later one")
ok(error_of { conn.exec_params("SELECT FROM photos WHERE id >= $1", [before.iso8601]) } =~ /invalid input syntax/,
   "a time alone is refused")
equal(conn.exec_params("SELECT count(*) FROM photos WHERE id >= $1::timestamptz", [before.iso8601(6)]).getvalue(0, 0), 2,
      "a cast is as good, for a snowflake column")
ids = fetch_ids(conn, 100)
ok(ids.uniq.size == 100 && ids.all?(Integer), "ids fetched ahead are Integer")
conn.exec_params("INSERT INTO photos SELECT id, 'u' FROM unnest($1::bigint[]) AS id", [ids])
seen = []
last = 2**63 - 1
until (rows = page(conn, 40, last)).empty?
  seen += rows.map { |row| row["id"] }
  last = seen.last
end
equal(seen, ([first, second, DISCORD] + ids).sort.reverse, "pages: each row once, in order")
equal(JSON.parse(photo_json(find_photos(conn, [DISCORD]).first))["id"], DISCORD.to_s,
      "JSON: the id is a string, with all digits")
visit = conn.exec("INSERT INTO visits DEFAULT VALUES RETURNING id").getvalue(0, 0)
ok(visit.is_a?(Integer) && visit > first, "bigint: the id of a new row is an Integer")

%w[snowflake bigint].each do |column|
  conn.exec(relations(column))
  equal(conn.exec(AGGREGATE).values, AGGREGATED, "#{column}: an array with a NULL")
  equal(conn.exec("SELECT related FROM photos ORDER BY id").column_values(0), [[LONELY, nil], nil], "and of a column")
end
ok(add_photo(PG.connect, "raw").is_a?(String), "without the lines of connect, an id is a String")
done
