# activerecord_models.rb -- models of a Rails application
#
# doc/languages.md shows it.  activerecord_photos.rb tests it.

class ApplicationRecord < ActiveRecord::Base
  primary_abstract_class

  # The rows below the last id of the page before, newest first
  def self.page(size, last = 2**63 - 1)
    where(id: ...last).order(id: :desc).limit(size)
  end

  # The rows that were made at this time or later
  def self.since(time)
    where("id >= snowflake_floor(?)", time).order(:id)
  end

  # Ids for rows that you will insert
  def self.fetch_ids(count)
    connection.select_values("SELECT snowflake_nextval()::bigint FROM generate_series(1, #{Integer(count)})")
  end

  # For a browser, in JSON: what has 64 bits is a string, since JavaScript rounds numbers.
  def serializable_hash(options = nil)
    super.to_h do |name, value|
      type = self.class.type_for_attribute(name)
      next [name, value] unless type.type == :snowflake || type.limit == 8
      [name, value.is_a?(Array) ? value.map { |id| id&.to_s } : value&.to_s]
    end
  end
end

class Photo < ApplicationRecord
  has_many :comments
end

class Comment < ApplicationRecord
  belongs_to :photo
end

class Album < ApplicationRecord
end

class Visit < ApplicationRecord
end
