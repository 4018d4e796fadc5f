//! Answers that many calls share.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

/// One page of a list, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// Where the next page begins; `None`: this was the last.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Which page of a list that has no filters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PageQuery {
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

/// Something was moved: what, and where it stands now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Moved {
    /// Its id.
    pub id: Option<String>,
    /// Where it stands now.
    pub status: Option<String>,
}

/// An answer with nothing in it worth reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nothing;

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nothing, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Nothing)
    }
}
