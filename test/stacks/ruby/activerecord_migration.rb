# activerecord_migration.rb -- db/migrate/1_create_photos.rb of a Rails application
#
# doc/languages.md shows it.  activerecord_photos.rb tests it.

class CreatePhotos < ActiveRecord::Migration[7.2]
  def change
    create_table :photos, id: :snowflake, default: -> { "snowflake_nextval()" } do |t|
      t.text :url, null: false
    end
    create_table :comments, id: :snowflake, default: -> { "snowflake_nextval()" } do |t|
      t.references :photo, type: :snowflake, null: false, foreign_key: true
    end
    create_table :albums, id: :text do |t|
      t.bigint :photo_ids, array: true
    end
    create_table :visits, id: :bigint, default: -> { "snowflake_nextval()" }
  end
end
