//! The world a promise is told in: two nodes, a clock that can be moved, ids, and the usual moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use wakepost_domain::event::Event;
use wakepost_domain::lane::LaneKey;
use wakepost_domain::lease::Ticket;
use wakepost_domain::run::Run;
use wakepost_domain::tenant::TenantSettings;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{Priority, State, WorkKind};
use wakepost_domain::{AuditId, EventId, SourceId, TenantId, Timestamp, Ulid, WorkId};

use super::Harness;
use super::drafts::{ClaimDraft, EventDraft, Inbox, WorkDraft, audit_entry, end};
use crate::error::{Result, StoreError};
use crate::moves::{
    Accepted, AuditEntry, AuditFilter, Claimed, Cursor, EffectRow, JobState, NewEvent, NewWork,
    Once, Page, ProgressRow, Settle, Settled, Store, WorkRow,
};
use crate::vault::Sealed;

/// A page that holds all a promise ever makes.
pub const ALL: Cursor = Page { before: None, limit: 10_000 };

/// How far two readings of a running clock may be apart and still count as the same moment.
const MOMENT: Duration = Duration::from_secs(10);

pub struct World<'h, H> {
    harness: &'h H,
    pub store: Arc<dyn Store>,
    pub other: Arc<dyn Store>,
    began: Timestamp,
    moved_ms: AtomicI64,
    ids: AtomicU64,
}

impl<'h, H: Harness> World<'h, H> {
    pub async fn new(harness: &'h H) -> World<'h, H> {
        let store = harness.store();
        let began = store.now().await.unwrap();
        World {
            other: harness.other_node(),
            harness,
            store,
            began,
            moved_ms: AtomicI64::new(0),
            ids: AtomicU64::new(0),
        }
    }

    pub async fn now(&self) -> Timestamp {
        self.store.now().await.unwrap()
    }

    pub async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
        self.moved_ms.fetch_add(by.as_millis() as i64, Ordering::Relaxed);
    }

    pub async fn advance_s(&self, seconds: u64) {
        self.advance(Duration::from_secs(seconds)).await;
    }

    /// One of the two nodes, in turn.
    pub fn node(&self, turn: usize) -> Arc<dyn Store> {
        if turn.is_multiple_of(2) { self.store.clone() } else { self.other.clone() }
    }

    /// An id greater than every id before it.
    pub fn id(&self) -> Ulid {
        let moved = self.moved_ms.load(Ordering::Relaxed);
        // The low bits stay free: a run's id is its item's plus a small number.
        let turn = u128::from(self.ids.fetch_add(1, Ordering::Relaxed) + 1) << 32;
        Ulid::from_parts(Timestamp::from_millis(self.began.as_millis() + moved), turn)
    }

    pub async fn tenant(&self, slug: &str) -> TenantId {
        let audit = AuditEntry { tenant: None, ..self.audit(TenantId::DEFAULT, "tenant.create") };
        let settings = TenantSettings::default();
        match self.store.create_tenant(slug.to_owned(), settings, audit, None).await.unwrap() {
            Once::Now(tenant) => tenant.id,
            Once::Before(_) => unreachable!("no idempotency key was given"),
        }
    }

    /// A source of the default tenant.
    pub async fn inbox(&self) -> Inbox {
        self.inbox_of(TenantId::DEFAULT).await
    }

    pub async fn inbox_of(&self, tenant: TenantId) -> Inbox {
        let source = SourceId(self.id());
        let key = LaneKey {
            tenant,
            kind: WorkKind::Job,
            priority: Priority::Webhook,
            origin: Some(source.0),
            name: String::new(),
            executor: None,
        };
        Inbox { tenant, source, lane: self.store.lane(key).await.unwrap().id }
    }

    pub fn event(&self, inbox: &Inbox) -> EventDraft {
        EventDraft::new(inbox, EventId(self.id()), self.id())
    }

    pub fn job(&self, inbox: &Inbox) -> WorkDraft {
        WorkDraft::new(inbox, WorkId(self.id()))
    }

    pub fn audit(&self, tenant: TenantId, action: &str) -> AuditEntry {
        audit_entry(AuditId(self.id()), tenant, action)
    }

    pub async fn accept(&self, new: impl Into<NewEvent>) -> Accepted {
        let mut answers = self.store.accept(vec![new.into()]).await;
        assert_eq!(answers.len(), 1);
        answers.remove(0).unwrap()
    }

    /// A new event with a job, stored.
    pub async fn accepted(&self, inbox: &Inbox) -> WorkId {
        let new = self.event(inbox).build();
        let id = new.event.id;
        assert_eq!(self.accept(new).await, Accepted::New);
        WorkId::first_of(id)
    }

    /// This many new events with jobs, stored, oldest first.
    pub async fn accepted_many(&self, inbox: &Inbox, count: usize) -> Vec<WorkId> {
        let batch: Vec<NewEvent> = (0..count).map(|_| self.event(inbox).build()).collect();
        let ids = batch.iter().map(|new| WorkId::first_of(new.event.id)).collect();
        let answers = self.store.accept(batch).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap() == Accepted::New));
        ids
    }

    /// A job made through the API, stored.
    pub async fn created(&self, new: impl Into<NewWork>) -> WorkId {
        let new = new.into();
        let id = new.id;
        assert_eq!(self.store.create_work(vec![new], None).await.unwrap(), Once::Now(vec![id]));
        id
    }

    pub fn claim(&self, inbox: &Inbox) -> ClaimDraft {
        ClaimDraft::new(self.store.clone(), inbox)
    }

    /// A fresh job and its first claim.
    pub async fn running(&self, inbox: &Inbox) -> Claimed {
        let work = self.accepted(inbox).await;
        let claimed = self.claim(inbox).one().await;
        assert_eq!(claimed.ticket.work, work, "another item was waiting");
        claimed
    }

    pub async fn settle(&self, settle: Settle) -> Result<Settled> {
        let mut answers = self.store.settle(vec![settle]).await;
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    pub async fn finish(&self, ticket: &Ticket, ending: Ending) -> Settled {
        let settled = self.settle(end(ticket, ending)).await.unwrap();
        assert!(!settled.repeated);
        settled
    }

    /// Runs the lane's next item to this end.
    pub async fn run_to(&self, inbox: &Inbox, ending: Ending) -> Claimed {
        let claimed = self.claim(inbox).one().await;
        self.finish(&claimed.ticket, ending).await;
        claimed
    }

    /// Runs the lane's next item to its end, if there is one.
    pub async fn run_to_end(&self, inbox: &Inbox) {
        if let Some(claimed) = self.claim(inbox).take().await.pop() {
            self.finish(&claimed.ticket, Ending::Succeeded).await;
        }
    }

    /// A fresh job that ended like this.
    pub async fn ended(&self, inbox: &Inbox, ending: Ending) -> WorkId {
        let claimed = self.running(inbox).await;
        self.finish(&claimed.ticket, ending).await;
        claimed.ticket.work
    }

    pub async fn row(&self, tenant: TenantId, work: WorkId) -> WorkRow {
        self.store.work(tenant, work).await.unwrap().expect("the item is there")
    }

    pub async fn state(&self, tenant: TenantId, work: WorkId) -> State {
        self.row(tenant, work).await.state
    }

    pub async fn stored(&self, tenant: TenantId, event: EventId) -> Event {
        self.store.event(tenant, event).await.unwrap().expect("the event is there")
    }

    /// What a job keeps apart from the queue.
    pub async fn kept(&self, work: WorkId) -> JobState {
        let mut states = self.store.job_states(vec![work]).await.unwrap();
        states.pop().map(|(_, state)| state).unwrap_or_default()
    }

    pub async fn actions(&self, tenant: TenantId) -> Vec<String> {
        let trail = self.store.audit(AuditFilter::of(tenant), ALL).await.unwrap();
        trail.into_iter().map(|entry| entry.action).collect()
    }

    /// Everything there is to see about an item, to tell whether anything changed.
    pub async fn picture(&self, tenant: TenantId, work: WorkId) -> Picture {
        let row = self.row(tenant, work).await;
        Picture {
            runs: self.store.runs(tenant, work).await.unwrap(),
            effects: self.store.effects(tenant, row.scope).await.unwrap(),
            progress: self.store.progress_after(tenant, work, 0).await.unwrap(),
            kept: self.kept(work).await,
            row,
        }
    }
}

#[derive(Debug, PartialEq)]
pub struct Picture {
    pub row: WorkRow,
    pub runs: Vec<Run>,
    pub effects: Vec<EffectRow>,
    pub progress: Vec<ProgressRow>,
    pub kept: JobState,
}

pub fn sealed(text: &str) -> Sealed {
    Sealed::from_stored(text.as_bytes().to_vec())
}

pub fn failed() -> Ending {
    Ending::Failed { retryable: true, retry_after: Some(Duration::ZERO) }
}

pub fn failed_for_s(seconds: u64) -> Ending {
    Ending::Failed { retryable: true, retry_after: Some(Duration::from_secs(seconds)) }
}

pub fn given_up() -> Ending {
    Ending::Failed { retryable: false, retry_after: None }
}

#[track_caller]
pub fn assert_lost<T: std::fmt::Debug>(answer: Result<T>) {
    assert!(matches!(answer, Err(StoreError::LeaseLost)), "not LeaseLost: {answer:?}");
}

#[track_caller]
pub fn assert_not_found<T: std::fmt::Debug>(answer: Result<T>) {
    assert!(matches!(answer, Err(StoreError::NotFound)), "not NotFound: {answer:?}");
}

#[track_caller]
pub fn assert_invalid<T: std::fmt::Debug>(answer: Result<T>) {
    assert!(matches!(answer, Err(StoreError::InvalidState(_))), "not InvalidState: {answer:?}");
}

/// The two are the same moment, read from a clock that may run.
#[track_caller]
pub fn assert_near(a: Timestamp, b: Timestamp) {
    assert!(a.distance(b) <= MOMENT, "{a} is not near {b}");
}
