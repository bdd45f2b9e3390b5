// tokio_postgres.rs -- snowflake from Rust, by tokio-postgres
//
// What stands in doc/languages.md is copied out of here and of id.rs.

mod id;
mod library;

use std::env;
use std::error::Error;

use bytes::BytesMut;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::{to_sql_checked, FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Client, NoTls, Row};

use id::Id;
use library::{done, is_snowflake, ok, Library, Rows, ODD};

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Id, Box<dyn Error + Sync + Send>> {
        i64::from_sql(&Type::INT8, raw).map(Id)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INT8 || ty.name() == "snowflake"
    }
}

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(&Type::INT8, out)
    }

    fn accepts(ty: &Type) -> bool {
        <Id as FromSql>::accepts(ty)
    }

    to_sql_checked!();
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Photo {
    id: Id,
    url: String,
}

impl From<&Row> for Photo {
    fn from(row: &Row) -> Photo {
        Photo { id: row.get("id"), url: row.get("url") }
    }
}

/// The id of the new row.
async fn add_photo(db: &Client, url: &str) -> Result<Id, tokio_postgres::Error> {
    let row = db.query_one("INSERT INTO photos (url) VALUES ($1) RETURNING id", &[&url]).await?;
    row.try_get(0)
}

/// Several rows at once.
async fn find_photos(db: &Client, ids: &[Id]) -> Result<Vec<Photo>, tokio_postgres::Error> {
    let rows = db.query("SELECT id, url FROM photos WHERE id = ANY ($1) ORDER BY id", &[&ids]).await?;
    Ok(rows.iter().map(Photo::from).collect())
}

/// A page of the table, newest first; the first one starts below Id(i64::MAX).
async fn page(db: &Client, last: Id, size: i64) -> Result<Vec<Photo>, tokio_postgres::Error> {
    let rows = db
        .query("SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2", &[&last, &size])
        .await?;
    Ok(rows.iter().map(Photo::from).collect())
}

/// The rows from a time on.
async fn photos_since(db: &Client, from: DateTime<Utc>) -> Result<Vec<Photo>, tokio_postgres::Error> {
    let rows = db
        .query("SELECT id, url FROM photos WHERE id >= snowflake_floor($1) ORDER BY id", &[&from])
        .await?;
    Ok(rows.iter().map(Photo::from).collect())
}

/// Ids for rows that are not yet written.
async fn fetch_ids(db: &Client, n: i32) -> Result<Vec<Id>, tokio_postgres::Error> {
    let rows = db.query("SELECT snowflake_nextval() FROM generate_series(1, $1)", &[&n]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

// --- The test

async fn connect() -> Client {
    let [host, port, user, database] = ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE"].map(|name| env::var(name).unwrap());
    let settings = format!("host={host} port={port} user={user} dbname={database}");
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn rows(photos: Result<Vec<Photo>, tokio_postgres::Error>) -> Rows {
    photos.unwrap().into_iter().map(|photo| (photo.id.0, photo.url)).collect()
}

fn ids(ids: &[i64]) -> Vec<Id> {
    ids.iter().copied().map(Id).collect()
}

async fn find_photo(db: &Client, id: Id) -> Option<Photo> {
    let row = db.query_opt("SELECT id, url FROM photos WHERE id = $1", &[&id]).await.unwrap();
    row.as_ref().map(Photo::from)
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let db = runtime.block_on(connect());

    Library {
        add: &|url| runtime.block_on(add_photo(&db, url)).unwrap().0,
        put: &|id, url| {
            let done = runtime.block_on(db.execute("INSERT INTO photos VALUES ($1, $2)", &[&Id(id), &url]));
            assert_eq!(done.unwrap(), 1);
        },
        find: &|id| runtime.block_on(find_photo(&db, Id(id))).map(|photo| photo.url),
        find_many: &|wanted| rows(runtime.block_on(find_photos(&db, &ids(wanted)))),
        page: &|last, size| rows(runtime.block_on(page(&db, Id(last), size))),
        since: &|from| rows(runtime.block_on(photos_since(&db, from))),
        fetch_ids: &|n| runtime.block_on(fetch_ids(&db, n)).unwrap().iter().map(|id| id.0).collect(),
        album: &|name, photos| {
            let add = "INSERT INTO albums VALUES ($1, $2) RETURNING photos";
            runtime.block_on(db.query_one(add, &[&name, &photos])).unwrap().get(0)
        },
        json: &|id| {
            let photo = runtime.block_on(find_photo(&db, Id(id))).unwrap();
            let json = serde_json::to_string(&photo).unwrap();
            assert_eq!(serde_json::from_str::<Photo>(&json).unwrap(), photo);
            json
        },
    }
    .test();

    let array = db.query_one("SELECT array_agg(id) FROM photos WHERE url = 'discord'", &[]);
    ok(runtime.block_on(array).unwrap().get::<_, Vec<Id>>(0) == [Id(ODD)], "an array of the column's type is read");

    // without the newtype
    let row = runtime.block_on(db.query_one("INSERT INTO photos (url) VALUES ('plain') RETURNING id", &[])).unwrap();
    ok(row.try_get::<_, i64>(0).is_err() == is_snowflake(), "an i64 is read from a bigint only");
    let written = runtime.block_on(db.query("SELECT FROM photos WHERE url = 'plain'", &[])).unwrap();
    ok(written.len() == 1, "but the row is written");
    let insert = db.execute("INSERT INTO photos VALUES ($1, 'plain')", &[&(ODD + 2)]);
    ok(runtime.block_on(insert).is_err() == is_snowflake(), "and written to a bigint only");
    let select = db.query("SELECT FROM photos WHERE id = $1", &[&ODD]);
    ok(runtime.block_on(select).unwrap().len() == 1, "it is compared with both");
    let select = db.query("SELECT id::bigint FROM photos WHERE id = $1", &[&ODD]);
    ok(runtime.block_on(select).unwrap()[0].get::<_, i64>(0) == ODD, "and read with a cast from both");

    let now = Utc::now();
    ok(runtime.block_on(db.query("SELECT FROM photos WHERE id >= $1", &[&now])).is_err(), "a time that is not told to be one is refused");
    let cast = runtime.block_on(db.query("SELECT FROM photos WHERE id >= $1::timestamptz", &[&now]));
    ok(cast.is_ok() == is_snowflake(), "with the cast a snowflake is compared with it");
    done();
}
