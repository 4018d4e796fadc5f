//! Runs: one try at a work item, with its evidence.

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::time::Timestamp;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// It did the work.
    Succeeded = 0,
    /// It said, or showed, that it failed.
    Failed = 1,
    /// Its lease ran out: what it did is not known.
    LeaseExpired = 2,
    /// It gave the work back untouched.
    HandedBack = 3,
    /// An operator must decide first.
    Held = 4,
    /// It was told to stop.
    Cancelled = 5,
    /// A new message of its thread ended it.
    Interrupted = 6,
    /// It proposed an act, and a person must decide first.
    AwaitingApproval = 7,
}

impl RunOutcome {
    /// From storage.
    pub fn from_code(code: i16) -> Option<RunOutcome> {
        [
            RunOutcome::Succeeded,
            RunOutcome::Failed,
            RunOutcome::LeaseExpired,
            RunOutcome::HandedBack,
            RunOutcome::Held,
            RunOutcome::Cancelled,
            RunOutcome::Interrupted,
            RunOutcome::AwaitingApproval,
        ]
        .into_iter()
        .find(|outcome| *outcome as i16 == code)
    }
}

/// One finished run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Which try it was.
    pub attempt: i32,
    /// Who ran it.
    pub worker: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What went wrong.
    pub error: Option<String>,
    /// What it cost, if it said so.
    pub cost: Option<f64>,
}
