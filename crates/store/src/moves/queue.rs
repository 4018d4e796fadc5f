//! The queue: claim under a lease, keep the lease, end the run.

use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Settlement;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, Timestamp, Ulid, WorkId};

use super::caps::Cap;
use super::settings::{Idempotency, Once};
use super::work::{NewWork, WorkMeta};
use crate::error::Result;
use crate::vault::Sealed;

/// One lane's part in a claim.
#[derive(Debug, Clone)]
pub struct ClaimLane {
    /// Which lane.
    pub lane: LaneId,
    /// At most this many.
    pub count: u32,
    /// How long each lease lasts.
    pub lease: Duration,
    /// How long each run may last in all.
    pub run_timeout: Duration,
    /// The bounds that apply, at most one of each kind for each scope.
    pub caps: Vec<Cap>,
}

/// A claim: who asks, and which lanes.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The worker's name.
    pub worker: String,
    /// The lanes, each once.
    pub lanes: Vec<ClaimLane>,
}

/// One item, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Item {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which it is.
    pub work: WorkId,
}

/// One item under a fresh lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// What the lease token says.
    pub ticket: Ticket,
    /// What executes it.
    pub kind: WorkKind,
    /// The lane it came from.
    pub lane: LaneId,
    /// The event it is about.
    pub event: Option<EventId>,
    /// Whose effects it shares.
    pub scope: Ulid,
    /// When the lease ends unless it is extended.
    pub lease_expires_at: Timestamp,
    /// What it carries besides.
    pub meta: WorkMeta,
}

/// A worker's sign of life.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat {
    /// The lease.
    pub ticket: Ticket,
    /// How long it should last from now.
    pub extend: Duration,
    /// What the run has cost so far.
    pub cost: Option<f64>,
}

/// What a heartbeat learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// When the lease ends now; never after the run's own limit.
    pub lease_expires_at: Timestamp,
    /// Whether an operator asked the job to stop.
    pub cancel_requested: bool,
}

/// On what condition a run may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The lease is live: the worker's own word.
    Live,
    /// The lease ended at this moment and nobody has touched it since: the rescuer's.
    ExpiredAt(Timestamp),
    /// A stop was asked for before this moment and the lease is the same: the sweep's.
    CancelledBefore(Timestamp),
}

/// The end of a run, however it came.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The lease.
    pub ticket: Ticket,
    /// On what condition.
    pub guard: Guard,
    /// What follows. If a stop was asked for, anything but success follows as `cancelled`.
    pub settlement: Settlement,
    /// What went wrong.
    pub error: Option<String>,
    /// What the run leaves behind.
    pub evidence: Evidence,
    /// What is to be done next, made together with a success and with nothing else.
    pub follow_up: Option<Box<NewWork>>,
    /// What the run found out about the event, if it was for that.
    pub expanded: Option<Expanded>,
}

impl Settle {
    /// How large what it brings is.
    pub(crate) fn bytes(&self) -> usize {
        let input = self.follow_up.as_ref().and_then(|next| next.input.as_ref());
        let content = self.expanded.as_ref().map(|expanded| &expanded.content);
        let Evidence { result, reply, detail, .. } = &self.evidence;
        let brought = [result.as_ref(), reply.as_ref(), detail.as_ref(), input, content];
        brought.into_iter().flatten().map(Sealed::len).sum()
    }
}

/// An event that only announced something, now whole.
#[derive(Debug, Clone)]
pub struct Expanded {
    /// The event.
    pub event: EventId,
    /// Its headers and body as received, and what was fetched besides: stored in place of what there was.
    pub content: Sealed,
    /// The thread it turned out to belong to.
    pub thread: Option<String>,
    /// Where its item goes on, with all its attempts, unless it ended.
    pub lane: LaneId,
}

/// What a run leaves behind.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The result, as JSON.
    pub result: Option<Sealed>,
    /// The text to reply with.
    pub reply: Option<Sealed>,
    /// What the run cost.
    pub cost: Option<f64>,
    /// How exactly it went, kept with the run unless it succeeded: then that is its result.
    pub detail: Option<Sealed>,
}

/// What ending a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Where the item stands.
    pub state: State,
    /// Its lane, which may have ready work now.
    pub lane: LaneId,
    /// The lane of the next item of its order key, which may go now.
    pub next_in_order: Option<LaneId>,
    /// Whether a bound on running items got a free place.
    pub freed_cap: bool,
    /// Whether this very call had been made before, and changed nothing now.
    pub repeated: bool,
}

impl Settled {
    /// Whether what was to follow a success was made now.
    pub fn makes_follow_up(&self) -> bool {
        self.state == State::Succeeded && !self.repeated
    }
}

/// A sign of progress.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The lease.
    pub ticket: Ticket,
    /// What the worker says, as JSON.
    pub content: Sealed,
}

/// The queue of live work.
#[async_trait]
pub trait Queue {
    /// Claims ready items, oldest first in each lane, of lanes that are not shut. Each gets a fence greater than any
    /// before it.
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>>;

    /// Claims one item of a lane by its id, on the same terms: it is due, first of its order key, and within
    /// the bounds that apply, and the lane is not shut. `None` if it is not, or if another has it.
    async fn claim_one(
        &self,
        worker: String,
        item: Item,
        lane: ClaimLane,
    ) -> Result<Option<Claimed>>;

    /// Extends live leases; `LeaseLost` for any other.
    async fn heartbeat(&self, batch: Vec<Heartbeat>) -> Vec<Result<HeartbeatAnswer>>;

    /// Ends runs: the run is recorded, the item moves on, its bounds are freed, in one transaction each.
    /// A repeat of the call that ended the run, with the same outcome, is answered as the first was.
    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<Settled>>;

    /// Makes work that a run asks for before its end, if the lease is live.
    async fn follow_up(
        &self,
        ticket: Ticket,
        item: NewWork,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// Replaces the agent's own state, if the lease is live.
    async fn checkpoint(&self, ticket: Ticket, state: Sealed) -> Result<()>;

    /// Adds a sign of progress, if the lease is live. The oldest go when there are too many.
    async fn progress(&self, progress: Progress) -> Result<()>;
}
