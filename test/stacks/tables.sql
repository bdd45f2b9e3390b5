CREATE TABLE photos (
    id   snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    url  text NOT NULL
);
CREATE TABLE comments (
    id     snowflake PRIMARY KEY DEFAULT snowflake_nextval(),
    photo  snowflake NOT NULL REFERENCES photos
);
CREATE TABLE tags (
    id  snowflake PRIMARY KEY DEFAULT snowflake_nextval()
);
CREATE TABLE photos_tags (
    photo  snowflake REFERENCES photos,
    tag    snowflake REFERENCES tags,
    PRIMARY KEY (photo, tag)
);
CREATE TABLE albums (
    name    text PRIMARY KEY,
    photos  bigint[] NOT NULL
);
