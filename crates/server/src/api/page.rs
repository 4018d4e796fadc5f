//! Lists: pages by cursor, newest first.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use wakepost_domain::{Ulid, limits};
use wakepost_store::moves::Page;

use super::error::ApiError;

/// The parameters every list has.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PageQuery {
    /// How many rows.
    #[serde(deserialize_with = "number")]
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// A whole number in a query.
pub fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| {
        text.parse()
            .map_err(|_| serde::de::Error::custom("must be a whole number"))
    })
    .transpose()
}

impl PageQuery {
    /// The page that was asked for.
    pub fn page(&self) -> Result<Page<Ulid>, ApiError> {
        let limit = self.limit.unwrap_or(limits::PAGE_DEFAULT);
        if !(1..=limits::PAGE_MAX).contains(&limit) {
            return Err(ApiError::field(
                "limit",
                format!("must be from 1 to {}", limits::PAGE_MAX),
            ));
        }
        let before = match &self.cursor {
            None => None,
            Some(text) => Some(read(text).ok_or_else(|| {
                ApiError::field(
                    "cursor",
                    "is not a cursor of this list; take next_cursor as it is",
                )
            })?),
        };
        Ok(Page { before, limit })
    }
}

fn read(text: &str) -> Option<Ulid> {
    let bytes: [u8; 16] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    Some(Ulid::from_bytes(bytes))
}

/// A page of a list. It has a next one if it is full.
pub fn listed(rows: Vec<Value>, last: Option<Ulid>, limit: u32) -> Value {
    let next = last
        .filter(|_| rows.len() >= limit as usize)
        .map(|last| URL_SAFE_NO_PAD.encode(last.to_bytes()));
    json!({"data": rows, "next_cursor": next})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_rubbish_does_not() {
        let last = Ulid::from_bytes([7; 16]);
        let page = listed(vec![Value::Null], Some(last), 1);
        let cursor = page["next_cursor"].as_str().unwrap().to_owned();
        let query = PageQuery {
            limit: None,
            cursor: Some(cursor),
        };
        assert_eq!(query.page().unwrap().before, Some(last));
        for text in ["", "x", "AAAA", "!!!!"] {
            let query = PageQuery {
                limit: None,
                cursor: Some(text.to_owned()),
            };
            assert!(query.page().is_err());
        }
    }
}
