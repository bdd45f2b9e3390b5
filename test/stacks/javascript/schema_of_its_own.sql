CREATE SCHEMA ext;
CREATE EXTENSION snowflake SCHEMA ext;
ALTER DATABASE app SET search_path = public, ext;
