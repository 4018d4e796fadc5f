//! Lists: pages by cursor, newest first.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};
use wakepost_domain::{Ulid, limits};
use wakepost_store::moves::Page;

use super::error::ApiError;
use crate::schema;

/// The parameters every list has.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// How many rows.
    #[serde(deserialize_with = "number")]
    #[param(value_type = Option<schema::PageLimit>)]
    pub limit: Option<u32>,
    /// Where the page before ended: its `next_cursor`.
    pub cursor: Option<String>,
}

/// A whole number in a query.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(|_| serde::de::Error::custom("must be a whole number")))
        .transpose()
}

impl PageQuery {
    /// The page that was asked for.
    pub fn page(&self) -> Result<Page<Ulid>, ApiError> {
        Ok(Page { limit: self.limit()?, before: self.cursor(read)? })
    }

    /// The page that was asked for of a list by name: how many rows, and the name they come after.
    pub fn page_by_name(&self) -> Result<(usize, Option<String>), ApiError> {
        Ok((self.limit()? as usize, self.cursor(read_name)?))
    }

    fn limit(&self) -> Result<u32, ApiError> {
        let limit = self.limit.unwrap_or(limits::PAGE_DEFAULT);
        match (1..=limits::PAGE_MAX).contains(&limit) {
            true => Ok(limit),
            false => {
                Err(ApiError::field("limit", format!("must be from 1 to {}", limits::PAGE_MAX)))
            }
        }
    }

    fn cursor<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, ApiError> {
        let wrong = "is not a cursor of this list; take next_cursor as it is";
        let read = |text: &String| read(text).ok_or_else(|| ApiError::field("cursor", wrong));
        self.cursor.as_ref().map(read).transpose()
    }
}

fn read(text: &str) -> Option<Ulid> {
    let bytes: [u8; 16] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    Some(Ulid::from_bytes(bytes))
}

fn read_name(text: &str) -> Option<String> {
    let name = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    Some(name).filter(|name| !name.is_empty())
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(bound = "T: ToSchema")]
pub struct Listed<T> {
    /// The rows, newest first; what has only a name, by name.
    #[schema(schema_with = schema::rows::<T>)]
    data: Vec<T>,
    /// Where the next page begins, if there may be one.
    next_cursor: Option<String>,
}

/// A page of a list. It has a next one if it is full.
pub fn listed<T>(rows: Vec<T>, last: Option<Ulid>, limit: u32) -> Listed<T> {
    let next = last
        .filter(|_| rows.len() >= limit as usize)
        .map(|last| URL_SAFE_NO_PAD.encode(last.to_bytes()));
    Listed { data: rows, next_cursor: next }
}

/// A page of a list by name, and the last name on it, if there are more.
pub fn listed_by_name<T>(rows: Vec<T>, last: Option<&str>) -> Listed<T> {
    Listed { data: rows, next_cursor: last.map(|name| URL_SAFE_NO_PAD.encode(name)) }
}

/// A page of a list that is short enough to be read whole. `place`: what it is sorted by, largest first.
pub fn cut<T>(
    mut rows: Vec<T>,
    place: impl Fn(&T) -> Ulid,
    page: Page<Ulid>,
) -> (Vec<T>, Option<Ulid>) {
    rows.sort_by_key(|row| std::cmp::Reverse(place(row)));
    rows.retain(|row| page.before.is_none_or(|before| place(row) < before));
    rows.truncate(page.limit as usize);
    let last = rows.last().map(place);
    (rows, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_rubbish_does_not() {
        let last = Ulid::from_bytes([7; 16]);
        let query = PageQuery { limit: None, cursor: listed(vec![()], Some(last), 1).next_cursor };
        assert_eq!(query.page().unwrap().before, Some(last));
        for text in ["", "x", "AAAA", "!!!!"] {
            let query = PageQuery { limit: None, cursor: Some(text.to_owned()) };
            assert!(query.page().is_err());
        }
    }

    #[test]
    fn pages_of_a_short_list_hold_every_row_once() {
        let place = |row: &u8| Ulid::from_bytes([*row; 16]);
        let mut page = Page { before: None, limit: 2 };
        let mut seen = Vec::new();
        while let (rows, Some(last)) = cut(vec![2, 5, 1, 4, 3], place, page) {
            seen.extend(rows);
            page.before = Some(last);
        }
        assert_eq!(seen, [5, 4, 3, 2, 1]);
    }
}
