# sequel_photos.rb -- snowflake from Sequel, with the migration sequel_migration.rb
#
# doc/languages.md shows parts of this file.  Connects as the PG* environment variables say
# to an empty database with the extension, and prints TAP.

require "fileutils"
require "json"
require "sequel"
require_relative "tap"
require_relative "relations"

DB = Sequel.connect("postgres:///", database: ENV["PGDATABASE"])

def migrate
  Sequel.extension :migration
  Dir.mktmpdir do |directory|
    FileUtils.cp("#{__dir__}/sequel_migration.rb", "#{directory}/001_photos.rb")
    Sequel::Migrator.run(DB, directory)
    Sequel::Migrator.run(DB, directory)
    ok(Sequel::Migrator.is_current?(DB, directory), "the migration is made, and not again")
  end
end

puts "# Sequel #{Sequel.version}"
migrate
DB[:photos].insert(url: "raw")
ok(DB[:photos].get(:id).is_a?(String), "without the next lines, an id is a String")
DB[:photos].delete

# An id is an Integer.
DB.add_named_conversion_proc(:snowflake, &:to_i)
DB.extension :pg_array
DB.register_array_type(:snowflake)

class Photo < Sequel::Model
  one_to_many :comments

  # The rows below the last id of the page before, newest first
  def self.page(size, last = 2**63 - 1)
    where { id < last }.reverse(:id).limit(size)
  end

  # The rows that were made at this time or later
  def self.since(time)
    where { id >= Sequel.function(:snowflake_floor, time) }.order(:id)
  end

  # Many rows in one INSERT; the ids are fetched ahead, in one query.
  def self.add(urls)
    ids = db.from { generate_series(1, urls.size) }.select_map(Sequel.function(:snowflake_nextval))
    import([:id, :url], ids.zip(urls))
    ids
  end

  # For a browser: the id is a string, since JavaScript rounds numbers.
  def to_json(*args)
    values.merge(id: id.to_s).to_json(*args)
  end
end

class Comment < Sequel::Model
  many_to_one :photo
end

# --- The test

class Album < Sequel::Model
end

class Visit < Sequel::Model
end

types = DB[<<~SQL].map([:column, :type])
  SELECT attrelid::regclass || '.' || attname AS column, format_type(atttypid, NULL) AS type
    FROM pg_attribute
   WHERE attname IN ('id', 'photo_id')
     AND attrelid IN ('photos'::regclass, 'comments'::regclass, 'visits'::regclass)
SQL
equal(types.to_h, { "photos.id" => "snowflake", "comments.id" => "snowflake", "comments.photo_id" => "snowflake",
                    "visits.id" => "bigint" }, "the types of the columns")

before = Time.now - 1
first = Photo.create(url: "first")
second = Photo.create(url: "second")
ok(first.id.is_a?(Integer) && first.id < second.id, "the id of a new row is an Integer, and ids increase")
equal(DB[:photos].where(url: "second").get(Sequel.cast(:id, :text)), second.id.to_s, "it is the row's")
DB[:photos].insert(id: DISCORD, url: "discord")
equal(Photo[DISCORD].url, "discord", "a row is found by an Integer")
equal(Photo[DISCORD.to_s].id, DISCORD, "and by a String")
equal(Photo.where(id: [first.id, DISCORD]).order(:id).map(:url), %w[discord first], "and by an Array")
comment = Comment.create(photo: Photo[DISCORD])
equal(Comment[comment.id].photo_id, DISCORD, "a foreign key is an Integer")
equal(Comment.new(photo_id: DISCORD.to_s).photo_id, DISCORD.to_s, "a String that is assigned stays a String")
equal(Comment.eager(:photo).all.first.photo.url, "discord", "and finds its row")
equal(Photo[DISCORD].comments.map(&:id), [comment.id], "and back")
DB[:albums].insert(name: "best", photo_ids: Sequel.pg_array([DISCORD, first.id], :bigint))
equal(DB[:albums].get(:photo_ids).to_a, [DISCORD, first.id], "an array of ids is an Array of Integer")
equal(DB[:photos].get { array_agg(:id).order(:id) }.to_a, [DISCORD, first.id, second.id], "one of the type snowflake, too")
Photo[DISCORD].update(url: "new")
equal(Photo.first(url: "new").id, DISCORD, "an update finds the row")
equal(Photo.since(before).map(:url), %w[first second], "rows since a time")
equal(Photo.since(before + 3600).all, [], "and since a later one")
ids = Photo.add((1..100).map { |n| "u#{n}" })
ok(ids.uniq.size == 100 && ids.all?(Integer), "ids fetched ahead are Integer")
seen = []
last = 2**63 - 1
until (rows = Photo.page(40, last).all).empty?
  seen += rows.map(&:id)
  last = seen.last
end
equal(seen, ([first.id, second.id, DISCORD] + ids).sort.reverse, "pages: each row once, in order")
equal(JSON.parse(Photo[DISCORD].to_json), { "id" => DISCORD.to_s, "url" => "new" }, "JSON: the id is a string, with all digits")
visit = Visit.create
ok(visit.id.is_a?(Integer) && visit.id > first.id, "bigint: the id of a new row is an Integer")

%w[bigint snowflake].each do |column|
  DB.run(relations(column))
  related = Class.new(Sequel::Model(:photos)) do
    one_to_many :comments, class: Class.new(Sequel::Model(:comments)), key: :photo_id, order: :id
    many_to_many :tags, class: Class.new(Sequel::Model(:tags)), join_table: :photos_tags,
                        left_key: :photo_id, right_key: :tag_id, order: Sequel[:tags][:id]
  end
  equal(related.eager(:comments, :tags).order(:id).map { |p| [p.id, p.comments.map(&:id), p.tags.map(&:id)] },
        [[PHOTO, [FIRST, SECOND], [RED, BLUE]], [LONELY, [], []]], "#{column}: relations")
  equal(DB[AGGREGATE].map { |row| [row[:id], row[:ids].to_a] }, AGGREGATED, "an array with a NULL")
end

DB.extension :schema_dumper
ok(DB.dump_schema_migration =~ /create_table\(:photos\) do\s+String :id, :null=>false\n/,
   "dump_schema_migration makes a String of an id, without its DEFAULT")
ok(DB.dump_schema_migration(same_db: true).include?(
     'column :id, "snowflake", :default=>Sequel::LiteralString.new("snowflake_nextval()"), :null=>false'
   ), "unless it is told that the database is the same")
done
