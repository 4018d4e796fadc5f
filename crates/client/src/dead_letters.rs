//! Dead letters: work that was given up after its last try.

use serde::{Deserialize, Serialize};

use crate::call::{get, post};
use crate::lenient::null_as_default;
use crate::{Call, Client, Page, Replay, Replayed};

/// One dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeadLetter {
    /// The work item's id.
    pub id: String,
    /// `job`, `delivery`, `reply` or `callback`.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// The event it came from.
    pub event_id: Option<String>,
    /// The source it came from.
    pub source: Option<String>,
    /// How often it was tried.
    pub attempts: Option<u32>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it was given up.
    pub finished_at: Option<String>,
    /// The item that took its place.
    pub replayed_as: Option<String>,
}

/// Which dead letters to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeadLetterQuery {
    /// `job`, `delivery`, `reply` or `callback`.
    pub kind: Option<String>,
    /// Of this source.
    pub source: Option<String>,
    /// Given up at or after this time.
    pub since: Option<String>,
    /// Whose id, type, subject or dedup key begins so.
    pub q: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

impl Client {
    /// `GET /dead-letters`
    pub fn list_dead_letters(&self, query: &DeadLetterQuery) -> Call<Page<DeadLetter>> {
        self.call(get(&["dead-letters"]).query(query))
    }

    /// `POST /dead-letters/{id}/replay`
    pub fn replay_dead_letter(&self, id: &str, replay: &Replay) -> Call<Replayed> {
        self.call(post(&["dead-letters", id, "replay"], replay))
    }
}
