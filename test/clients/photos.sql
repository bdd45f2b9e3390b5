CREATE TABLE photos (
    id   snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    url  text NOT NULL
);
