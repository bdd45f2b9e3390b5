CREATE TABLE photos (
    id   snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    url  text NOT NULL
);
CREATE TABLE albums (
    name    text PRIMARY KEY,
    photos  bigint[] NOT NULL
);
