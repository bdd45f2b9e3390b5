# sequel_migration.rb -- migrations/001_photos.rb
#
# doc/languages.md shows it.  sequel_photos.rb tests it.

Sequel.migration do
  change do
    create_table(:photos) do
      column :id, :snowflake, primary_key: true, default: Sequel.function(:snowflake_nextval)
      String :url, null: false
    end
    create_table(:comments) do
      column :id, :snowflake, primary_key: true, default: Sequel.function(:snowflake_nextval)
      foreign_key :photo_id, :photos, type: :snowflake
    end
    create_table(:albums) do
      String :name, primary_key: true
      column :photo_ids, "bigint[]"
    end
    create_table(:visits) do
      column :id, :bigint, primary_key: true, default: Sequel.function(:snowflake_nextval)
    end
  end
end
