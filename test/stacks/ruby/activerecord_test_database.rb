# activerecord_test_database.rb -- what "bin/rails db:schema:load" does in a test
# database, as a role that is no superuser
#
# Connects as the PG* environment variables say, as a role that may create databases,
# and prints TAP.

require "active_record"
require_relative "tap"
require_relative "activerecord_initializer"

class Photo < ActiveRecord::Base
end

SCHEMA = <<~RUBY
  ActiveRecord::Schema.define(version: 1) do
    enable_extension "plpgsql"
    enable_extension "snowflake"

    create_table "photos", id: :snowflake, default: -> { "snowflake_nextval()" }, force: :cascade do |t|
      t.text "url"
    end
  end
RUBY

def database_tasks(database)
  ActiveRecord::Tasks::PostgreSQLDatabaseTasks.new(
    ActiveRecord::DatabaseConfigurations::HashConfig.new("test", "primary", adapter: "postgresql", database: database)
  )
end

puts "# ActiveRecord #{ActiveRecord.version}"
ActiveRecord::Schema.verbose = false
tasks = database_tasks("application_test")
tasks.create
ActiveRecord::Base.establish_connection(adapter: "postgresql", database: "application_test")
eval(SCHEMA)
equal(ActiveRecord::Base.connection.select_value("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"), false,
      "the role is no superuser")
Photo.create!(url: "first")
equal(ActiveRecord::Base.connection.select_value("SELECT snowflake_shard(id) FROM photos"), 5, "the schema is loaded, and its table mints")
tasks.drop
equal(ActiveRecord::Base.connection.select_value("SELECT count(*) FROM pg_database WHERE datname = 'application_test'"), 0,
      "the test database is dropped")
done
