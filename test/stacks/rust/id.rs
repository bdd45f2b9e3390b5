// id.rs -- an id in Rust, for tokio_postgres.rs and sqlx.rs
//
// What stands in doc/languages.md is copied out of here.

use std::fmt;

use serde::{de, Deserialize, Deserializer, Serialize, Serializer};

/// An id.  In JSON it is a string, since a number of JavaScript has 53 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub i64);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Id).map_err(de::Error::custom)
    }
}
