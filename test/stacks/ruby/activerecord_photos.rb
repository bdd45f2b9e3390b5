# activerecord_photos.rb -- tests activerecord_initializer.rb, activerecord_migration.rb
# and activerecord_models.rb
#
# With the argument "without", shows what the initializer is for.  Connects as the PG*
# environment variables say to an empty database with the extension, and prints TAP.

require "active_record"
require "fileutils"
require "json"
require "stringio"
require_relative "tap"
require_relative "relations"
require_relative "activerecord_initializer" unless ARGV[0] == "without"
require_relative "activerecord_models"

def connect_to(database)
  ActiveRecord::Base.establish_connection(adapter: "postgresql", database: database)
end

# What "bin/rails db:schema:dump" writes to schema.rb, without its comments
def schema
  file = StringIO.new
  ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection_pool, file)
  file.string
end

def sql(query)
  ActiveRecord::Base.connection.select_value(query)
end

def test_without
  ActiveRecord::Base.connection.create_table(:photos, id: :snowflake, default: -> { "snowflake_nextval()" }) do |t|
    t.text :url
  end
  ok(Photo.create!(url: "first").id.is_a?(String), "an id is a String")
  dumped = schema
  ok(dumped.include?('Could not dump table "photos"'), "schema.rb leaves the table out")
  ok(!dumped.include?('create_table "photos"'), "and has a comment only")

  # a bigint key does not need it
  ActiveRecord::Base.connection.create_table(:visits, id: :bigint, default: -> { "snowflake_nextval()" })
  ok(Visit.create!.id.is_a?(Integer), "bigint: an id is an Integer")
  dumped = schema
  ok(dumped.include?('enable_extension "snowflake"') &&
     dumped.include?('create_table "visits", id: :bigint, default: -> { "snowflake_nextval()" }'), "bigint: schema.rb has the extension and the table")
end

def test
  Dir.mktmpdir do |directory|
    FileUtils.cp("#{__dir__}/activerecord_migration.rb", "#{directory}/1_create_photos.rb")
    migrations = ActiveRecord::MigrationContext.new(directory)
    migrations.migrate
    ok(!migrations.needs_migration?, "the migration is made, and not again")
    equal(sql("SELECT string_agg(attrelid::regclass || ' ' || format_type(atttypid, NULL), ',' ORDER BY attrelid)
                 FROM pg_attribute WHERE attname = 'id' AND attrelid IN
                      ('photos'::regclass, 'comments'::regclass, 'visits'::regclass)").split(",").sort,
          ["comments snowflake", "photos snowflake", "visits bigint"], "the types of the keys")
    equal(sql("SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attname = 'photo_id'"), "snowflake",
          "and so is what refers to it")
  end

  # schema.rb
  dumped = schema
  ok(dumped.include?('create_table "photos", id: :snowflake, default: -> { "snowflake_nextval()" }'),
     "schema.rb has the table")
  ok(dumped.include?('create_table "visits", id: :bigint, default: -> { "snowflake_nextval()" }'),
     "and the one with a bigint")
  database = sql("SELECT current_database()")
  search_path = sql("SHOW search_path")
  ActiveRecord::Base.connection.create_database("#{database}_2")
  sql("ALTER DATABASE #{database}_2 SET search_path = #{search_path}")
  connect_to("#{database}_2")
  ActiveRecord::Schema.verbose = false
  eval(dumped)
  equal(schema, dumped, "and loaded into another database, it is the same again")
  ok(Photo.create!(url: "there").id.is_a?(Integer), "which mints")
  equal(sql("SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'snowflake'"), "public",
        "and has the extension in public")
  connect_to(database)

  # rows
  before = Time.now - 1
  first = Photo.create!(url: "first")
  second = Photo.create!(url: "second")
  ok(first.id.is_a?(Integer) && first.id < second.id, "the id of a new row is an Integer, and ids increase")
  equal(sql("SELECT id::text FROM photos WHERE url = 'second'"), second.id.to_s, "it is the row's")
  discord = Photo.create!(id: DISCORD, url: "discord")
  equal(Photo.find(DISCORD).id, DISCORD, "a row is found by an Integer")
  equal(Photo.find(DISCORD.to_s), discord, "and by a String")
  equal(Photo.where(id: [first.id, DISCORD.to_s]).order(:id).map(&:url), %w[discord first], "and by an Array")
  equal(Photo.where("id = ANY(ARRAY[?]::bigint[])", [first.id, DISCORD]).count, 2, "and by ANY")
  ok(error_of { Photo.find(2**64) } =~ /RangeError/, "what is no bigint is out of range")
  comment = Comment.create!(photo: discord)
  equal(Comment.find(comment.id).photo_id, DISCORD, "a foreign key is an Integer")
  equal(Comment.includes(:photo).first.photo, discord, "and finds its row")
  equal(Photo.joins(:comments).pluck(:id), [DISCORD], "a join")
  equal(discord.comments.to_a, [comment], "and back")
  Album.create!(id: "best", photo_ids: [DISCORD, first.id])
  equal(Album.find("best").photo_ids, [DISCORD, first.id], "an array of ids is an Array of Integer")
  discord.update!(url: "new")
  equal(Photo.find_by(url: "new").id, DISCORD, "an update finds the row")
  equal(Photo.since(before).map(&:url), %w[first second], "rows since a time")
  equal(Photo.since(before + 3600).to_a, [], "and since a later one")

  # many rows
  made = Photo.insert_all((1..50).map { |n| { url: "i#{n}" } }).cast_values
  equal(made, Photo.where("url LIKE 'i%'").order(:id).ids, "insert_all gives the ids")
  ids = Photo.fetch_ids(50)
  ok(ids.uniq.size == 50 && ids.all?(Integer), "ids fetched ahead are Integer")
  Photo.insert_all(ids.map { |id| { id: id, url: "u" } })
  equal(Photo.where(url: "u").order(:id).ids, ids, "and the rows have them")
  all = ([first.id, second.id, DISCORD] + made + ids).sort
  seen = []
  last = 2**63 - 1
  until (rows = Photo.page(40, last).to_a).empty?
    seen += rows.map(&:id)
    last = seen.last
  end
  equal(seen, all.reverse, "pages: each row once, in order")
  equal(Photo.find_each(batch_size: 40).map(&:id), all, "and find_each")

  equal(JSON.parse(discord.to_json), { "id" => DISCORD.to_s, "url" => "new" }, "JSON: the id is a string, with all digits")
  equal(JSON.parse(comment.to_json)["photo_id"], DISCORD.to_s, "and so is a foreign key")
  visit = Visit.create!
  ok(visit.id.is_a?(Integer) && visit.id > first.id, "bigint: the id of a new row is an Integer")
  equal(JSON.parse(visit.to_json)["id"], visit.id.to_s, "bigint: in JSON a string, too")
  equal(JSON.parse(Album.find("best").to_json)["photo_ids"], [DISCORD.to_s, first.id.to_s], "and so is each id of an array")
  %w[snowflake bigint].each { |column| test_relations(column) }
end

class RelatedPhoto < ApplicationRecord
  self.table_name = "photos"
  has_many :comments, -> { order(:id) }, foreign_key: :photo_id
  has_and_belongs_to_many :tags, -> { order(:id) }, class_name: "RelatedTag", join_table: "photos_tags",
                                                    foreign_key: :photo_id, association_foreign_key: :tag_id
end

class RelatedTag < ApplicationRecord
  self.table_name = "tags"
end

def test_relations(column)
  ActiveRecord::Base.connection.execute(relations(column))
  [RelatedPhoto, RelatedTag, Comment, Photo].each(&:reset_column_information)
  %i[preload eager_load].each do |load|
    equal(RelatedPhoto.send(load, :comments, :tags).order(:id).map { |p| [p.id, p.comments.map(&:id), p.tags.map(&:id)] },
          [[PHOTO, [FIRST, SECOND], [RED, BLUE]], [LONELY, [], []]], "#{column}: relations by #{load}")
  end
  equal(RelatedPhoto.left_joins(:comments).group(:id).order(:id)
          .pluck(:id, Arel.sql("array_agg(comments.id ORDER BY comments.id)")), AGGREGATED, "an array with a NULL")
  photo = RelatedPhoto.find(PHOTO)
  equal(JSON.parse(photo.to_json(include: :comments)),
        { "id" => PHOTO.to_s, "url" => "a", "related" => [LONELY.to_s, nil],
          "comments" => [FIRST, SECOND].map { |id| { "id" => id.to_s, "photo_id" => PHOTO.to_s } } },
        "nested JSON has strings, and so has an array")
  made = RelatedPhoto.create!(url: "new", related: [PHOTO, nil], tags: [RelatedTag.new(name: "new")])
  ok(made.reload.tags.first.id > made.id && made.related == [PHOTO, nil], "a row is stored with what belongs to it")
  ok(schema.include?("t.#{column} \"related\", array: true"), "schema.rb has an array of the type")
end

puts "# ActiveRecord #{ActiveRecord.version}"
ActiveRecord::Migration.verbose = false
connect_to(ENV["PGDATABASE"])
ARGV[0] == "without" ? test_without : test
done
