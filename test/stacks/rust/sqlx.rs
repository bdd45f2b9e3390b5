// sqlx.rs -- snowflake from Rust, by sqlx
//
// What stands in doc/languages.md is copied out of here and of id.rs.

mod id;
mod library;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgConnectOptions, PgHasArrayType, PgPool, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, FromRow, Postgres, Type, TypeInfo};

use id::Id;
use library::{done, is_snowflake, ok, Library, Rows, ODD};

impl Type<Postgres> for Id {
    fn type_info() -> PgTypeInfo {
        <i64 as Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <i64 as Type<Postgres>>::compatible(ty) || ty.name() == "snowflake"
    }
}

impl Encode<'_, Postgres> for Id {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<Postgres>>::encode_by_ref(&self.0, buffer)
    }
}

impl Decode<'_, Postgres> for Id {
    fn decode(value: PgValueRef) -> Result<Id, BoxDynError> {
        <i64 as Decode<Postgres>>::decode(value).map(Id)
    }
}

impl PgHasArrayType for Id {
    fn array_type_info() -> PgTypeInfo {
        i64::array_type_info()
    }

    fn array_compatible(ty: &PgTypeInfo) -> bool {
        i64::array_compatible(ty) || ty.name() == "snowflake[]"
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, FromRow)]
struct Photo {
    id: Id,
    url: String,
}

/// The id of the new row.
async fn add_photo(db: &PgPool, url: &str) -> sqlx::Result<Id> {
    sqlx::query_scalar("INSERT INTO photos (url) VALUES ($1) RETURNING id").bind(url).fetch_one(db).await
}

/// Several rows at once.
async fn find_photos(db: &PgPool, ids: &[Id]) -> sqlx::Result<Vec<Photo>> {
    sqlx::query_as("SELECT id, url FROM photos WHERE id = ANY ($1) ORDER BY id").bind(ids).fetch_all(db).await
}

/// A page of the table, newest first; the first one starts below Id(i64::MAX).
async fn page(db: &PgPool, last: Id, size: i64) -> sqlx::Result<Vec<Photo>> {
    sqlx::query_as("SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2")
        .bind(last)
        .bind(size)
        .fetch_all(db)
        .await
}

/// The rows from a time on.
async fn photos_since(db: &PgPool, from: DateTime<Utc>) -> sqlx::Result<Vec<Photo>> {
    sqlx::query_as("SELECT id, url FROM photos WHERE id >= snowflake_floor($1) ORDER BY id")
        .bind(from)
        .fetch_all(db)
        .await
}

/// A row, by the macro: the column is told to be an Id.
async fn find_photo(db: &PgPool, id: Id) -> sqlx::Result<Option<Photo>> {
    sqlx::query_as!(Photo, r#"SELECT id AS "id: Id", url FROM photos WHERE id = $1"#, id.0)
        .fetch_optional(db)
        .await
}

/// A row with an id that was fetched ahead, by the macro: the parameter is told to be an Id.
async fn put_photo(db: &PgPool, photo: &Photo) -> sqlx::Result<()> {
    sqlx::query!("INSERT INTO photos (id, url) VALUES ($1, $2)", photo.id as Id, photo.url)
        .execute(db)
        .await?;
    Ok(())
}

/// Ids for rows that are not yet written.
async fn fetch_ids(db: &PgPool, n: i32) -> sqlx::Result<Vec<Id>> {
    sqlx::query_scalar("SELECT snowflake_nextval() FROM generate_series(1, $1)").bind(n).fetch_all(db).await
}

// --- The test

fn rows(photos: sqlx::Result<Vec<Photo>>) -> Rows {
    photos.unwrap().into_iter().map(|photo| (photo.id.0, photo.url)).collect()
}

fn ids(ids: &[i64]) -> Vec<Id> {
    ids.iter().copied().map(Id).collect()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let db = runtime.block_on(PgPool::connect_with(PgConnectOptions::new())).unwrap();

    Library {
        add: &|url| runtime.block_on(add_photo(&db, url)).unwrap().0,
        put: &|id, url| {
            let photo = Photo { id: Id(id), url: url.to_string() };
            runtime.block_on(put_photo(&db, &photo)).unwrap();
        },
        find: &|id| runtime.block_on(find_photo(&db, Id(id))).unwrap().map(|photo| photo.url),
        find_many: &|wanted| rows(runtime.block_on(find_photos(&db, &ids(wanted)))),
        page: &|last, size| rows(runtime.block_on(page(&db, Id(last), size))),
        since: &|from| rows(runtime.block_on(photos_since(&db, from))),
        fetch_ids: &|n| runtime.block_on(fetch_ids(&db, n)).unwrap().iter().map(|id| id.0).collect(),
        album: &|name, photos| {
            let add = sqlx::query_scalar("INSERT INTO albums VALUES ($1, $2) RETURNING photos").bind(name).bind(photos).fetch_one(&db);
            runtime.block_on(add).unwrap()
        },
        json: &|id| {
            let photo = runtime.block_on(find_photo(&db, Id(id))).unwrap().unwrap();
            let json = serde_json::to_string(&photo).unwrap();
            assert_eq!(serde_json::from_str::<Photo>(&json).unwrap(), photo);
            json
        },
    }
    .test();

    let array = sqlx::query_scalar("SELECT array_agg(id) FROM photos WHERE url = 'discord'").fetch_one(&db);
    ok(runtime.block_on(array).is_ok_and(|ids: Vec<Id>| ids == [Id(ODD)]), "an array of the column's type is read");

    // without the newtype
    let insert = sqlx::query_scalar("INSERT INTO photos (url) VALUES ('plain') RETURNING id").fetch_one(&db);
    let id: sqlx::Result<i64> = runtime.block_on(insert);
    ok(id.is_err() == is_snowflake(), "an i64 is read from a bigint only");
    let written = sqlx::query("SELECT FROM photos WHERE url = 'plain'").fetch_all(&db);
    ok(runtime.block_on(written).unwrap().len() == 1, "but the row is written");
    let insert = sqlx::query("INSERT INTO photos VALUES ($1, 'plain')").bind(ODD + 2).execute(&db);
    ok(runtime.block_on(insert).is_ok(), "it is written to both");
    let select = sqlx::query_scalar("SELECT id::bigint FROM photos WHERE id = $1").bind(ODD + 2).fetch_one(&db);
    ok(runtime.block_on(select).is_ok_and(|id: i64| id == ODD + 2), "and read with a cast from both");

    let select = sqlx::query("SELECT FROM photos WHERE id >= $1").bind(Utc::now()).fetch_all(&db);
    ok(runtime.block_on(select).is_ok() == is_snowflake(), "a snowflake is compared with a time");
    done();
}
