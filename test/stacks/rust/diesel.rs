// diesel.rs -- snowflake from Rust, by diesel
//
// What stands in doc/languages.md is copied out of here.

mod library;

use std::cell::RefCell;

use chrono::{DateTime, Utc};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Timestamptz};
use serde::{Serialize, Serializer};

use library::{done, is_snowflake, ok, Library, Rows, ODD};

diesel::table! {
    photos {
        id -> BigInt,
        url -> Text,
    }
}

diesel::table! {
    albums (name) {
        name -> Text,
        photos -> Array<BigInt>,
    }
}

define_sql_function! {
    /// The least id of a time.
    fn snowflake_floor(at: Timestamptz) -> BigInt;
}

#[derive(Queryable, Selectable, Serialize)]
struct Photo {
    #[serde(serialize_with = "as_text")]
    id: i64,
    url: String,
}

/// A number of JavaScript has 53 bits.
fn as_text<S: Serializer>(id: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// The id of the new row.
fn add_photo(db: &mut PgConnection, url: &str) -> QueryResult<i64> {
    diesel::insert_into(photos::table)
        .values(photos::url.eq(url))
        .returning(photos::id)
        .get_result(db)
}

/// Several rows at once.
fn find_photos(db: &mut PgConnection, ids: &[i64]) -> QueryResult<Vec<Photo>> {
    photos::table
        .filter(photos::id.eq_any(ids))
        .order(photos::id)
        .select(Photo::as_select())
        .load(db)
}

/// A page of the table, newest first; the first one starts below i64::MAX.
fn page(db: &mut PgConnection, last: i64, size: i64) -> QueryResult<Vec<Photo>> {
    photos::table
        .filter(photos::id.lt(last))
        .order(photos::id.desc())
        .limit(size)
        .select(Photo::as_select())
        .load(db)
}

/// The rows from a time on.
fn photos_since(db: &mut PgConnection, from: DateTime<Utc>) -> QueryResult<Vec<Photo>> {
    photos::table
        .filter(photos::id.ge(snowflake_floor(from)))
        .order(photos::id)
        .select(Photo::as_select())
        .load(db)
}

/// Ids for rows that are not yet written.
fn fetch_ids(db: &mut PgConnection, n: i32) -> QueryResult<Vec<i64>> {
    #[derive(QueryableByName)]
    struct Fetched {
        #[diesel(sql_type = BigInt)]
        id: i64,
    }
    let rows: Vec<Fetched> = diesel::sql_query("SELECT snowflake_nextval() AS id FROM generate_series(1, $1)")
        .bind::<Integer, _>(n)
        .load(db)?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

// --- The test

fn rows(photos: QueryResult<Vec<Photo>>) -> Rows {
    photos.unwrap().into_iter().map(|photo| (photo.id, photo.url)).collect()
}

fn find_photo(db: &mut PgConnection, id: i64) -> Option<Photo> {
    photos::table.find(id).select(Photo::as_select()).first(db).optional().unwrap()
}

fn main() {
    let connection = RefCell::new(PgConnection::establish("").unwrap());
    let db = || connection.borrow_mut();

    Library {
        add: &|url| add_photo(&mut db(), url).unwrap(),
        put: &|id, url| {
            let row = (photos::id.eq(id), photos::url.eq(url));
            assert_eq!(diesel::insert_into(photos::table).values(row).execute(&mut *db()).unwrap(), 1);
        },
        find: &|id| find_photo(&mut db(), id).map(|photo| photo.url),
        find_many: &|wanted| rows(find_photos(&mut db(), wanted)),
        page: &|last, size| rows(page(&mut db(), last, size)),
        since: &|from| rows(photos_since(&mut db(), from)),
        fetch_ids: &|n| fetch_ids(&mut db(), n).unwrap(),
        album: &|name, ids| {
            let row = (albums::name.eq(name), albums::photos.eq(ids));
            diesel::insert_into(albums::table).values(row).returning(albums::photos).get_result(&mut *db()).unwrap()
        },
        json: &|id| serde_json::to_string(&find_photo(&mut db(), id).unwrap()).unwrap(),
    }
    .test();

    let stored: i64 = albums::table.filter(albums::photos.contains(vec![ODD])).count().get_result(&mut *db()).unwrap();
    ok(stored == 1, "an album is found by an id in its array");
    db().batch_execute("ALTER TABLE albums ALTER photos TYPE snowflake[] USING photos::snowflake[]").unwrap();
    let found = albums::table.filter(albums::photos.contains(vec![ODD])).count().get_result::<i64>(&mut *db());
    ok(found.is_err(), "but not in an array of type snowflake[]");
    let row = diesel::sql_query("SELECT FROM photos WHERE id >= $1").bind::<Timestamptz, _>(Utc::now()).execute(&mut *db());
    ok(row.is_ok() == is_snowflake(), "a snowflake is compared with a time");
    done();
}
