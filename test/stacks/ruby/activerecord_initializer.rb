# activerecord_initializer.rb -- config/initializers/snowflake.rb of a Rails application
#
# doc/languages.md shows it.  activerecord_photos.rb tests it.

class SnowflakeType < ActiveRecord::Type::BigInteger
  def type = :snowflake
end

ActiveSupport.on_load(:active_record_postgresqladapter) do
  singleton_class.prepend(Module.new do
    def initialize_type_map(map)
      super
      map.register_type("snowflake", SnowflakeType.new)
    end
  end)
  self::NATIVE_DATABASE_TYPES[:snowflake] = { name: "snowflake" }
  ActiveRecord::ConnectionAdapters::PostgreSQL::TableDefinition.send(:define_column_methods, :snowflake)
end
