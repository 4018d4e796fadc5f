//! Work items from outside a run: made through the API, cancelled, released, replayed.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, TenantId, Timestamp, Ulid, WorkId};

use super::accept::{DedupKey, OrderKey};
use super::settings::{AuditEntry, Idempotency, Once};
use crate::error::Result;
use crate::vault::Sealed;

/// What an item carries besides what the queue needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkMeta {
    /// The job's kind, where its lane is shared by many names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who asked for it, in the caller's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The work that led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Its order key, in the caller's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// The item that took its place before it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// What is unusual about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl WorkMeta {
    /// What the item's replay carries: what was unusual about the old one is no longer so.
    pub(crate) fn replayed(self, old: String) -> WorkMeta {
        WorkMeta { parent_id: Some(old), superseded_by: None, flags: Vec::new(), ..self }
    }
}

/// A new item.
#[derive(Debug, Clone)]
pub struct NewWork {
    /// Its id, which carries its time.
    pub id: WorkId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What executes it.
    pub kind: WorkKind,
    /// Where it waits.
    pub lane: LaneId,
    /// When it may start, if not at once.
    pub run_at: Option<Timestamp>,
    /// How often it may be tried.
    pub max_attempts: i32,
    /// The event it is about.
    pub event: Option<EventId>,
    /// Whose effects it shares; none: its own.
    pub scope: Option<Ulid>,
    /// What it is about.
    pub subject: Option<String>,
    /// What it runs in order with.
    pub order: Option<OrderKey>,
    /// The rest.
    pub meta: WorkMeta,
    /// What the agent gets, as JSON.
    pub input: Option<Sealed>,
    /// What makes a repeat return the first, and until when.
    pub dedup: Option<(DedupKey, Timestamp)>,
}

/// What cancelling came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is cancelled.
    Cancelled {
        /// The lane of the next item of its order key, which may go now.
        next_in_order: Option<LaneId>,
    },
    /// It runs, and will learn of it.
    Requested,
}

impl CancelOutcome {
    /// The lane of the next item of its order key, which may go now.
    pub fn next_in_order(self) -> Option<LaneId> {
        match self {
            CancelOutcome::Cancelled { next_in_order } => next_in_order,
            CancelOutcome::Requested => None,
        }
    }
}

/// What a replay starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayFrom {
    /// A finished item.
    Work(WorkId),
    /// An event that never made an item, which gets its first in this lane.
    Event(EventId, LaneId),
}

/// A replay: a new item in the place of a finished one.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Whose it is.
    pub tenant: TenantId,
    /// What it starts from.
    pub from: ReplayFrom,
    /// The new item's id.
    pub id: WorkId,
    /// Whether committed effects may happen again.
    pub fresh_scope: bool,
    /// What the agent gets, sealed anew, since a record is bound to its row.
    pub input: Option<Sealed>,
    /// How often the new item may be tried.
    pub max_attempts: i32,
    /// Who replays, and why.
    pub audit: AuditEntry,
}

/// Moves of work items that no worker makes.
#[async_trait]
pub trait WorkMoves {
    /// Makes items, all or none. The answer has one entry an item: its own id, or the id of the first item
    /// with the same dedup key. If all were there before, nothing is kept under the idempotency key: the
    /// dedup keys answer a repeat.
    async fn create_work(
        &self,
        items: Vec<NewWork>,
        once: Option<Idempotency>,
    ) -> Result<Once<Vec<WorkId>>>;

    /// Gives an item up. A running one is asked to stop.
    async fn cancel(
        &self,
        tenant: TenantId,
        work: WorkId,
        audit: AuditEntry,
    ) -> Result<CancelOutcome>;

    /// Lets a held item go on; answers its lane.
    async fn release(&self, tenant: TenantId, work: WorkId, audit: AuditEntry) -> Result<LaneId>;

    /// Makes a new item in the place of a finished one, which then says what it was replayed as. An item
    /// is replayed at most once, so that its effects have one live owner.
    async fn replay(
        &self,
        replay: Replay,
        once: Option<Idempotency>,
    ) -> Result<Once<(WorkId, LaneId)>>;
}
