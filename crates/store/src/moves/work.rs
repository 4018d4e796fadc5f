//! Work items from outside a run: made through the API, cancelled, released, replayed.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use wakepost_domain::approval::Mode;
use wakepost_domain::callback::OwnCallback;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{EventId, ScheduleId, TenantId, Timestamp, Ulid, WorkId};

use super::accept::{CancelKey, DedupKey, OrderKey};
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
    /// How many agents led to it.
    #[serde(skip_serializing_if = "is_zero")]
    pub hops: u32,
    /// The trace it belongs to, where that is not its event's or its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Its order key, in the caller's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// The item that took its place before it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// Whether a person must agree before it acts, by its maker's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What is unusual about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_id: Option<ScheduleId>,
    /// Which of its ticks did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<Timestamp>,
    /// An event of this type, or that fits this pattern, with the same subject cancels it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_on: Option<String>,
    /// Where its outcome goes, where it names that for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<OwnCallback>,
    /// The lane of what tells its outcome, which its end makes; none: nobody wants to know. A column of its own,
    /// since the end of every item looks at it.
    #[serde(skip)]
    pub callback_lane: Option<LaneId>,
}

fn is_zero(hops: &u32) -> bool {
    *hops == 0
}

/// What an item flagged with this waits for: an operator must let it go on, since too many agents led to it.
pub const HOP_LIMIT: &str = "hop_limit";

/// What led to a new item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lineage {
    /// The job whose agent asked for it.
    pub parent_id: Option<String>,
    /// How many agents led to it.
    pub hops: u32,
    /// The trace it goes on with.
    pub trace: Option<String>,
    /// Whether these are too many.
    pub over: bool,
}

impl WorkMeta {
    /// As it is stored; most items carry nothing.
    pub(crate) fn text(&self) -> Option<String> {
        let text = serde_json::to_string(self).expect("plain data");
        (text != "{}").then_some(text)
    }

    /// The same, of an item that was led to.
    pub fn led_to_by(self, lineage: Option<Lineage>) -> WorkMeta {
        let Some(Lineage { parent_id, hops, trace, over }) = lineage else {
            return self;
        };
        let flags = over.then(|| HOP_LIMIT.to_owned());
        let flags = self.flags.into_iter().chain(flags).collect();
        WorkMeta { parent_id, hops, trace, flags, ..self }
    }

    /// Why a new item waits for an operator from the start.
    pub(crate) fn held(&self) -> Option<HeldReason> {
        let over = self.flags.iter().any(|flag| flag == HOP_LIMIT);
        over.then_some(HeldReason::HopLimit)
    }

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

impl NewWork {
    /// What an event finds it by that may cancel it.
    pub(crate) fn cancel_key(&self) -> Option<CancelKey> {
        let subject = self.subject.as_deref().filter(|_| self.meta.cancel_on.is_some())?;
        Some(CancelKey::new(self.tenant, subject))
    }

    /// Where it stands once it is made: held, waiting for its time, or ready.
    pub(crate) fn first_state(&self, later: Option<Timestamp>) -> State {
        match (self.meta.held(), later) {
            (Some(_), _) => State::Held,
            (None, Some(_)) => State::Scheduled,
            (None, None) => State::Pending,
        }
    }
}

/// A part of a tenant's live items that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectStep {
    /// The jobs about the subject.
    pub found: Vec<WorkId>,
    /// Where to look on; none: all were seen.
    pub next: Option<WorkId>,
}

impl SubjectStep {
    /// From what was looked at, in the order of ids: which item, and whether it is one.
    pub(crate) fn of(seen: Vec<(WorkId, bool)>, rows_max: u32) -> SubjectStep {
        let last = seen.last().map(|(id, _)| *id);
        SubjectStep {
            next: last.filter(|_| seen.len() >= rows_max as usize),
            found: seen.into_iter().filter(|(_, fits)| *fits).map(|(id, _)| id).collect(),
        }
    }
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
    /// The lane of what tells its outcome, if it is an event's first. Any other has it from the old one.
    pub callback_lane: Option<LaneId>,
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

    /// Gives up those of these items that still live, all in one transaction, and answers what that came to.
    async fn cancel_many(
        &self,
        tenant: TenantId,
        works: Vec<WorkId>,
        audit: Option<AuditEntry>,
    ) -> Result<Vec<CancelOutcome>>;

    /// Looks at the next few live items of a tenant, in the order of their ids, and picks the jobs about a subject.
    async fn live_of_subject(
        &self,
        tenant: TenantId,
        subject: String,
        after: Option<WorkId>,
        rows_max: u32,
    ) -> Result<SubjectStep>;

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
