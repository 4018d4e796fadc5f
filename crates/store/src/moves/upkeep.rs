//! Upkeep: what keeps the queue moving and the ledger small.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Timestamp, Ulid};

use super::queue::Item;
use crate::error::Result;

/// A lane that has, or will have, ready work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueLane {
    /// Which lane.
    pub lane: LaneId,
    /// When its first waiting item may start.
    pub run_at: Timestamp,
}

/// A run whose lease ended, or that was asked to stop and did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// The lease.
    pub ticket: Ticket,
    /// Its lane, which says whose policy applies.
    pub lane: LaneId,
    /// When the lease ended, as seen.
    pub lease_expires_at: Timestamp,
    /// Whether a stop was asked for.
    pub cancel_requested: bool,
}

/// Before when each kind of history may go.
#[derive(Debug, Clone, Copy)]
pub struct PruneBefore {
    /// Headers and bodies.
    pub bodies: Timestamp,
    /// Events.
    pub events: Timestamp,
    /// Finished work and its runs, effects and state, but for dead letters.
    pub runs: Timestamp,
    /// Dead letters with all that is theirs, their event and its body among it.
    pub dead_letters: Timestamp,
    /// Receipts.
    pub receipts: Timestamp,
    /// Figures by minute.
    pub figures: Timestamp,
}

impl PruneBefore {
    /// From when on what work left behind goes with its row: that is looked for, so the later of both ages is enough.
    pub(crate) fn of_work(&self) -> Timestamp {
        self.runs.max(self.dead_letters)
    }
}

/// How much one step of retention removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Rows, or partitions' worth of rows.
    pub rows: u64,
    /// Whether there is more to do at once.
    pub more: bool,
}

/// A walk through what a tenant keeps for less long than the server does: what is from before the moment goes, unless it is
/// needed. It ends: the moment stands, and the place of the walk only grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnWalk {
    /// Headers and bodies, found by their events.
    Bodies(TenantId, Timestamp),
    /// Events, with their bodies: without its event nobody would find a body.
    Events(TenantId, Timestamp),
    /// Finished work with all that is its, but for dead letters.
    Runs(TenantId, Timestamp),
    /// Dead letters, with all that is theirs.
    DeadLetters(TenantId, Timestamp),
    /// Receipts, of all such tenants at once: they do not lie by tenant.
    Receipts(Arc<[(TenantId, Timestamp)]>),
}

/// What one step of such a walk did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// How many rows it removed.
    pub rows: u64,
    /// After which id the next step looks; none: the walk is through.
    pub next: Option<Ulid>,
}

/// How many rows a step of a walk removes.
pub(crate) const OWN_STEP: usize = 500;
/// How many it looks at: most of a walk passes what an earlier one left, such as events whose bodies are gone.
pub(crate) const OWN_LOOK: usize = 5_000;

/// What a step of a walk found.
#[derive(Default)]
pub(crate) struct Found<Id> {
    /// What may go, oldest first.
    pub ids: Vec<Id>,
    /// Beside each, where the rest of it lies: a body's id, or the scope of effects.
    pub beside: Vec<Id>,
    /// How many rows were looked at.
    pub looked: usize,
    /// The last of them.
    pub last: Option<Id>,
}

impl<Id: Copy> Found<Id> {
    /// Looks at the next row.
    pub fn see(&mut self, id: Id, beside: Id, may_go: bool) {
        self.looked += 1;
        self.last = Some(id);
        if may_go {
            self.ids.push(id);
            self.beside.push(beside);
        }
    }

    /// After which id the next step looks.
    pub fn next(&self) -> Option<Id> {
        match self.ids.len() >= OWN_STEP {
            true => self.ids.last().copied(),
            false => self.last.filter(|_| self.looked >= OWN_LOOK),
        }
    }
}

/// How many live items stand somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatCount {
    /// Whose.
    pub tenant: TenantId,
    /// Where.
    pub state: State,
    /// How many.
    pub count: i64,
}

/// The loops behind the scenes.
#[async_trait]
pub trait Upkeep {
    /// Whether the database answers, and is writable.
    async fn ping(&self) -> Result<()>;

    /// How many moves of this node wait for the database or are under way.
    fn waiting(&self) -> usize;

    /// The time by which leases and due times go.
    async fn now(&self) -> Result<Timestamp>;

    /// The largest id below another of all bodies and of all jobs that were made with an input: about the newest id of all.
    async fn newest_id(&self, below: Ulid) -> Result<Option<Ulid>>;

    /// Every lane with waiting work that is not shut, and when its first item may start. For start-up and slow resyncs.
    async fn waiting_lanes(&self) -> Result<Vec<DueLane>>;

    /// Holds what waits in lanes of kinds that this program does not know: a newer one made it, and will know what to
    /// do. Answers how many there were, of at most `limit`.
    async fn hold_unknown(&self, lanes: Vec<LaneId>, limit: u32) -> Result<u64>;

    /// Lanes whose timers fell due in the last `within`, less those that are shut, and until when that was.
    async fn due_lanes(&self, within: Duration) -> Result<(Timestamp, Vec<LaneId>)>;

    /// The items of a lane that can be claimed now, oldest first; none of one that is shut.
    async fn ready(&self, lane: LaneId, limit: u32) -> Result<Vec<Item>>;

    /// Runs whose lease has ended, oldest first, and runs that were asked to stop longer than
    /// `cancel_patience` ago.
    async fn expired(&self, cancel_patience: Duration, limit: u32) -> Result<Vec<Expired>>;

    /// One small step of retention.
    async fn prune(&self, before: PruneBefore) -> Result<Pruned>;

    /// One small step along what a tenant keeps for less long, from the rows after `after` on. What [`Upkeep::prune`]
    /// keeps because something needs it is kept here too.
    async fn prune_own(&self, walk: OwnWalk, after: Ulid) -> Result<Walked>;

    /// Counts of live work. Costs a scan of the live queue.
    async fn live_counts(&self) -> Result<Vec<StatCount>>;
}
