//! Reading: lists by cursor, and single things whole.

use async_trait::async_trait;
use wakepost_domain::effect::Runner;
use wakepost_domain::event::Event;
use wakepost_domain::lane::LaneId;
use wakepost_domain::receipt::{Evidence, Verdict};
use wakepost_domain::run::Run;
use wakepost_domain::source;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{
    EventId, OperationId, ReceiptId, RunId, SourceId, TenantId, Timestamp, Ulid, WorkId,
};

use super::accept::OrderKey;
use super::work::{NewWork, WorkMeta};
use crate::error::Result;
use crate::vault::Sealed;

/// A page of a list, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<K = Ulid> {
    /// Only things older than this.
    pub before: Option<K>,
    /// At most this many.
    pub limit: u32,
}

/// A page by plain ULID.
pub type Cursor = Page<Ulid>;

/// Which events a list should have.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Those that were published; else those that were received.
    pub published: bool,
    /// Of these sources only.
    pub sources: Option<Vec<SourceId>>,
    /// Of this type, or with this prefix if it ends with `*`.
    pub event_type: Option<String>,
    /// With this status.
    pub status: Option<String>,
    /// About this.
    pub subject: Option<String>,
    /// Of this conversation; of those that were published: about the job that did ([`about_job`]).
    ///
    /// [`about_job`]: wakepost_domain::publication::about_job
    pub thread: Option<String>,
    /// With this dedup key.
    pub dedup_key: Option<String>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// Whose id, type, subject or dedup key begins with this.
    pub prefix: Option<String>,
}

/// An event in a list, with the state of its work.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// The event.
    pub event: Event,
    /// The states of its work that was not replayed.
    pub work: Vec<State>,
}

/// Which work a list should have.
#[derive(Debug, Clone, Default)]
pub struct WorkFilter {
    /// Of this kind.
    pub kind: Option<WorkKind>,
    /// In this state.
    pub state: Option<State>,
    /// Of this source.
    pub source: Option<SourceId>,
    /// With this job kind.
    pub name: Option<String>,
    /// About this.
    pub subject: Option<String>,
    /// Whose event is of this conversation.
    pub thread: Option<String>,
    /// Not before.
    pub since: Option<Timestamp>,
}

/// One work item, live or finished.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkRow {
    /// Its id.
    pub id: WorkId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What executes it.
    pub kind: WorkKind,
    /// Its lane.
    pub lane: LaneId,
    /// Where it stands.
    pub state: State,
    /// When it may start.
    pub run_at: Timestamp,
    /// How often it was claimed, less what was given back.
    pub attempts: i32,
    /// How often it may be.
    pub max_attempts: i32,
    /// Its latest claim.
    pub fence: i32,
    /// The event it is about.
    pub event: Option<EventId>,
    /// Whose effects it shares.
    pub scope: Ulid,
    /// What it is about.
    pub subject: Option<String>,
    /// What it runs in order with.
    pub order: Option<OrderKey>,
    /// Whether an earlier item of its order key lives.
    pub behind: bool,
    /// Why it waits for an operator.
    pub held: Option<HeldReason>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The rest.
    pub meta: WorkMeta,
    /// Who has it, or had it last.
    pub worker: Option<String>,
    /// When the latest run began.
    pub started_at: Option<Timestamp>,
    /// When the live lease ends.
    pub lease_expires_at: Option<Timestamp>,
    /// Whether a stop was asked for.
    pub cancel_requested: bool,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What it was replayed as.
    pub replayed_as: Option<WorkId>,
    /// Which operation purged it: its row is all that is left.
    pub purged_by: Option<OperationId>,
}

impl WorkRow {
    /// The row a new item will have.
    pub fn new(item: &NewWork, now: Timestamp) -> WorkRow {
        let later = item.run_at.filter(|at| *at > now);
        WorkRow {
            id: item.id,
            tenant: item.tenant,
            kind: item.kind,
            lane: item.lane,
            state: item.first_state(later),
            run_at: later.unwrap_or(now),
            attempts: 0,
            max_attempts: item.max_attempts,
            fence: 0,
            event: item.event,
            scope: item.scope.unwrap_or(item.id.0),
            subject: item.subject.clone(),
            order: item.order,
            behind: false,
            held: item.meta.held(),
            last_error: None,
            meta: item.meta.clone(),
            worker: None,
            started_at: None,
            lease_expires_at: None,
            cancel_requested: false,
            finished_at: None,
            replayed_as: None,
            purged_by: None,
        }
    }

    /// Whether an event makes it pointless.
    pub(crate) fn is_cancelled_by(&self, event: &Event) -> bool {
        let wanted = self.meta.cancel_on.as_deref();
        self.tenant == event.tenant
            && self.subject == event.subject
            && wanted.is_some_and(|pattern| source::matches(pattern, &event.event_type))
    }

    /// Why it ends, or is asked to.
    pub(crate) fn cancel_reason(&self, by: EventId) -> String {
        match self.state {
            State::Running => format!("asked to stop: cancelled by {by}"),
            _ => format!("cancelled by {by}"),
        }
    }

    /// Its latest run, as the effect ledger knows it.
    pub fn runner(&self) -> Runner {
        Runner { work: self.id, fence: self.fence }
    }
}

/// What a job keeps apart from the queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobState {
    /// What the agent gets.
    pub input: Option<Sealed>,
    /// The agent's own state.
    pub checkpoint: Option<Sealed>,
    /// What came of it.
    pub result: Option<Sealed>,
    /// The text to reply with.
    pub reply: Option<Sealed>,
    /// What it cost so far.
    pub cost: Option<f64>,
    /// The tick of the schedule that made it.
    pub scheduled_for: Option<Timestamp>,
}

/// One kept request.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiptRow {
    /// Its id, which carries its time.
    pub id: ReceiptId,
    /// The event it became or repeated.
    pub event: Option<EventId>,
    /// Who sent it.
    pub remote_addr: Option<String>,
    /// What became of it.
    pub verdict: Verdict,
    /// How long it took.
    pub latency_us: i32,
    /// What an operator should know.
    pub detail: Option<String>,
    /// What a duplicate showed of itself.
    pub evidence: Option<Evidence>,
}

/// One sign of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressRow {
    /// Its number within the job.
    pub seq: i64,
    /// When.
    pub at: Timestamp,
    /// What the worker said, as JSON.
    pub content: Sealed,
}

/// What can be looked up. Every look-up is bound to a tenant.
#[async_trait]
pub trait Reading: Send + Sync {
    /// Events, newest first.
    async fn events(
        &self,
        tenant: TenantId,
        filter: EventFilter,
        page: Cursor,
    ) -> Result<Vec<EventRow>>;

    /// One event.
    async fn event(&self, tenant: TenantId, id: EventId) -> Result<Option<Event>>;

    /// Events by id; those that are not there are missing.
    async fn events_by_id(&self, ids: Vec<(TenantId, EventId)>) -> Result<Vec<Event>>;

    /// Headers and body of events, by id; those whose body was pruned are missing.
    async fn contents(&self, ids: Vec<EventId>) -> Result<Vec<(EventId, Sealed)>>;

    /// Duplicates of an event, oldest first.
    async fn receipts(&self, tenant: TenantId, event: EventId) -> Result<Vec<ReceiptRow>>;

    /// Kept requests of a source, newest first.
    async fn source_receipts(
        &self,
        tenant: TenantId,
        source: SourceId,
        page: Cursor,
    ) -> Result<Vec<ReceiptRow>>;

    /// Work items, newest first, live and finished.
    async fn work_list(
        &self,
        tenant: TenantId,
        filter: WorkFilter,
        page: Cursor,
    ) -> Result<Vec<WorkRow>>;

    /// One work item, live or finished.
    async fn work(&self, tenant: TenantId, id: WorkId) -> Result<Option<WorkRow>>;

    /// All work about an event, oldest first.
    async fn work_of_event(&self, tenant: TenantId, event: EventId) -> Result<Vec<WorkRow>>;

    /// The events that joined items, by item and in the order they did.
    async fn joined(&self, works: Vec<WorkId>) -> Result<Vec<(WorkId, EventId)>>;

    /// All events an item is about: the one it was made for, then those that joined it, in order.
    async fn events_of_work(&self, tenant: TenantId, work: WorkId) -> Result<Vec<EventId>> {
        let Some(row) = self.work(tenant, work).await? else {
            return Ok(Vec::new());
        };
        let joined = self.joined(vec![work]).await?;
        Ok(row.event.into_iter().chain(joined.into_iter().map(|(_, event)| event)).collect())
    }

    /// What jobs keep apart from the queue, by id; those that keep nothing are missing.
    async fn job_states(&self, ids: Vec<WorkId>) -> Result<Vec<(WorkId, JobState)>>;

    /// The finished runs of an item, oldest first.
    async fn runs(&self, tenant: TenantId, work: WorkId) -> Result<Vec<Run>>;

    /// How exactly the finished runs of an item went that did not succeed, oldest first.
    async fn run_details(&self, tenant: TenantId, work: WorkId) -> Result<Vec<(RunId, Sealed)>>;

    /// Signs of progress after a number, oldest first.
    async fn progress_after(
        &self,
        tenant: TenantId,
        work: WorkId,
        seq: i64,
    ) -> Result<Vec<ProgressRow>>;
}
