//! Dead letters: work that was given up after its last try.

use serde::{Deserialize, Serialize};

use crate::call::{get, post};
use crate::lenient::null_as_default;
use crate::{
    Call, Client, Envelope, Error, Job, Nothing, OperationBegun, Page, Pieces, Replay, Replayed,
    Scope,
};

/// One dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeadLetter {
    /// The work item's id.
    pub id: String,
    /// A job's kind; else `delivery`, `reply` or `callback`.
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

/// One dead letter with everything about it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct DeadLetterWhole {
    /// The item itself: its runs, effects and documents.
    #[serde(flatten)]
    pub job: Job,
    /// What to do next.
    pub next_action: Option<String>,
    /// The event that it is about.
    pub envelope: Option<Envelope>,
}

/// Which dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeadLetterFilter {
    /// One of these, by its id: at most 500; empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// `job`, `delivery`, `reply` or `callback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Of this source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Given up at or after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Given up before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whose id, event, kind or subject begins so, or whose last error has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
}

/// Which dead letters to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeadLetterQuery {
    /// Which.
    #[serde(flatten)]
    pub filter: DeadLetterFilter,
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

/// Which dead letters are tried again, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeadLetterReplay {
    /// Which.
    pub filter: DeadLetterFilter,
    /// Who, and why.
    pub note: String,
    /// Whether effects that were committed are done again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// Which dead letters are purged, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeadLetterPurge {
    /// Which.
    pub filter: DeadLetterFilter,
    /// Who, and why.
    pub note: String,
}

#[derive(Serialize)]
struct DryRun<'a> {
    #[serde(flatten)]
    replay: &'a DeadLetterReplay,
    dry_run: bool,
}

impl Client {
    /// `GET /dead-letters`
    pub fn list_dead_letters(&self, query: &DeadLetterQuery) -> Call<Page<DeadLetter>> {
        self.call(get(&["dead-letters"]).query(query))
    }

    /// `GET /dead-letters/{id}`
    pub fn get_dead_letter(&self, id: &str) -> Call<DeadLetterWhole> {
        self.call(get(&["dead-letters", id]))
    }

    /// `POST /dead-letters/{id}/replay`
    pub fn replay_dead_letter(&self, id: &str, replay: &Replay) -> Call<Replayed> {
        self.call(post(&["dead-letters", id, "replay"], replay))
    }

    /// `POST /dead-letters/replay`: many at once, each once.
    pub fn replay_dead_letters(&self, replay: &DeadLetterReplay) -> Call<OperationBegun> {
        self.call(post(&["dead-letters", "replay"], replay))
    }

    /// `POST /dead-letters/replay` as a dry run: the operation only counts them.
    pub fn count_dead_letters(&self, replay: &DeadLetterReplay) -> Call<OperationBegun> {
        self.call(post(&["dead-letters", "replay"], &DryRun { replay, dry_run: true }))
    }

    /// `POST /dead-letters/purge`
    pub fn purge_dead_letters(&self, purge: &DeadLetterPurge) -> Call<OperationBegun> {
        self.call(post(&["dead-letters", "purge"], purge))
    }

    /// `GET /dead-letters/export`: one JSON object a line, piece by piece as it comes.
    pub async fn export_dead_letters(&self, filter: &DeadLetterFilter) -> Result<Pieces, Error> {
        let path = ["dead-letters", "export"];
        self.call::<Nothing>(get(&path).query(filter)).pieces().await
    }
}
