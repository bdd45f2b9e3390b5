// library.rs -- what the programs of this directory share: the assertions, as TAP
//
// A program fills a Library with the functions that the page shows, for a database
// with the tables of tables.sql.

use std::cell::Cell;
use std::env;

use chrono::{DateTime, TimeDelta, Utc};

/// A double does not hold it: 175928847299117056 is what it makes of it.
pub const ODD: i64 = 175928847299117063;

pub type Rows = Vec<(i64, String)>;

pub struct Library<'a> {
    pub add: &'a dyn Fn(&str) -> i64,
    pub put: &'a dyn Fn(i64, &str),
    pub find: &'a dyn Fn(i64) -> Option<String>,
    pub find_many: &'a dyn Fn(&[i64]) -> Rows,
    pub page: &'a dyn Fn(i64, i64) -> Rows,
    pub since: &'a dyn Fn(DateTime<Utc>) -> Rows,
    pub fetch_ids: &'a dyn Fn(i32) -> Vec<i64>,
    /// Store, and read again.
    pub album: &'a dyn Fn(&str, &[i64]) -> Vec<i64>,
    pub json: &'a dyn Fn(i64) -> String,
}

thread_local!(static COUNT: Cell<u32> = const { Cell::new(0) });

pub fn ok(good: bool, name: &str) {
    COUNT.set(COUNT.get() + 1);
    println!("{} {} - {}", if good { "ok" } else { "not ok" }, COUNT.get(), name);
}

pub fn done() {
    println!("1..{}", COUNT.get());
}

/// Is the column of ids a snowflake, or a bigint?
pub fn is_snowflake() -> bool {
    env::var("COLUMN").unwrap() == "snowflake"
}

fn increase(ids: &[i64]) -> bool {
    ids.windows(2).all(|pair| pair[0] < pair[1])
}

impl Library<'_> {
    pub fn test(&self) {
        let began = Utc::now() - TimeDelta::minutes(1);

        let first = (self.add)("first");
        let second = (self.add)("second");
        ok(first > ODD && second > first, "an id is an i64, and ids increase");
        ok((self.find)(second).as_deref() == Some("second"), "a row is found by it");

        (self.put)(ODD, "discord");
        ok((self.find)(ODD).as_deref() == Some("discord"), "a row with a given id is found");
        ok((self.find)(ODD - 7).is_none(), "and only by all its digits");
        let both = [(ODD, "discord".to_string()), (second, "second".to_string())];
        ok((self.find_many)(&[second, ODD]) == both, "rows are found by an array, with all digits");
        ok((self.album)("mine", &[second, ODD]) == [second, ODD], "an array of ids comes back as it was");
        let new = [(first, "first".to_string()), (second, "second".to_string())];
        ok((self.since)(began) == new, "rows are found by time");

        let ids = (self.fetch_ids)(1000);
        ok(ids.len() == 1000 && ids[0] > second && increase(&ids), "a thousand ids fetched ahead are different, and in order");
        (self.put)(ids[999], "fetched");
        ok((self.find)(ids[999]).as_deref() == Some("fetched"), "and one is used");

        let mut seen = vec![];
        let mut last = i64::MAX;
        loop {
            let page = (self.page)(last, 3);
            let Some((id, _)) = page.last() else { break };
            last = *id;
            seen.extend(page.iter().map(|(id, _)| *id));
        }
        ok(seen == [ids[999], second, first, ODD], "pages show each row once, newest first");

        let json = r#"{"id":"175928847299117063","url":"discord"}"#;
        ok((self.json)(ODD) == json, "JSON has the id as a string");
    }
}
