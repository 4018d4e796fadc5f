//! Accepting: from a verified request to an event, its dedup keys, its job and its receipt, in one
//! transaction.

use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::event::{Event, Route};
use wakepost_domain::lane::LaneId;
use wakepost_domain::limits::CANCEL_ON_PER_SUBJECT_MAX;
use wakepost_domain::receipt::{Evidence, OurFault, Verdict};
use wakepost_domain::sequence::NO_NUMBER;
use wakepost_domain::thread::{Quiet, ThreadPolicy};
use wakepost_domain::webhook::delivery_id;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{
    AlertId, EventId, ReceiptId, SourceId, TenantId, Timestamp, WebhookId, WorkId,
};

use super::settings::AuditEntry;
use super::work::{Lineage, NewWork, WorkMeta};
use crate::error::{Result, StoreError};
use crate::vault::Sealed;

/// What makes a repeat a duplicate: a hash over tenant, source and the key itself. 128 bits: another
/// tenant's key cannot be met by chance, nor on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DedupKey(pub [u8; 16]);

/// What items run in order by: a hash over tenant and the key itself. Of all live items that share one,
/// only the first can be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(pub [u8; 16]);

impl OrderKey {
    /// The key of jobs that were made through the API.
    pub fn of_job(tenant: TenantId, key: &[u8]) -> OrderKey {
        OrderKey(hash(tenant, b"order", &[], key))
    }

    /// The key of what one job says: its replies are sent in order.
    pub fn of_replies(tenant: TenantId, job: WorkId) -> OrderKey {
        OrderKey(hash(tenant, b"replies", &job.to_bytes(), &[]))
    }

    /// The key of what a source sent.
    pub fn of_source(tenant: TenantId, source: SourceId, key: &[u8]) -> OrderKey {
        OrderKey(hash(tenant, b"order", &source.to_bytes(), key))
    }

    /// The key of what goes to one webhook in order.
    pub fn of_webhook(tenant: TenantId, webhook: WebhookId, key: &[u8]) -> OrderKey {
        OrderKey(hash(tenant, b"webhook", &webhook.to_bytes(), key))
    }

    /// The key of what is said of an alert through one source.
    pub fn of_alert(tenant: TenantId, source: SourceId, alert: AlertId) -> OrderKey {
        OrderKey(hash(tenant, b"alert", &source.to_bytes(), &alert.to_bytes()))
    }

    /// The key of a conversation's jobs, which is also what the thread is known by.
    pub fn of_thread(tenant: TenantId, source: SourceId, thread: &[u8]) -> OrderKey {
        OrderKey(hash(tenant, b"thread", &source.to_bytes(), thread))
    }
}

/// What makes a newer event supersede a queued older one: a hash over tenant, source, the value and what the
/// source puts its events in order by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoalesceKey(pub [u8; 16]);

impl CoalesceKey {
    /// The key of a value, among events of one order key or of none.
    pub fn new(
        tenant: TenantId,
        source: SourceId,
        value: &[u8],
        order: Option<OrderKey>,
    ) -> CoalesceKey {
        let order = order.map_or([0; 16], |order| order.0);
        CoalesceKey(hash(tenant, b"coalesce", &source.to_bytes(), &[&order, value].concat()))
    }
}

/// What an event finds the jobs by that it may cancel: a hash over tenant and subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CancelKey(pub [u8; 16]);

impl CancelKey {
    /// The key of a subject.
    pub fn new(tenant: TenantId, subject: &str) -> CancelKey {
        CancelKey(hash(tenant, b"cancel", &[], subject.as_bytes()))
    }

    /// The key of what an event is about.
    pub(crate) fn of_event(event: &Event) -> Option<CancelKey> {
        event.subject.as_deref().map(|subject| CancelKey::new(event.tenant, subject))
    }

    /// A subject has as many jobs that wait for an event as it may.
    pub(crate) fn too_many() -> StoreError {
        let most = CANCEL_ON_PER_SUBJECT_MAX;
        StoreError::Limit(format!("a subject has at most {most} jobs with cancel_on"))
    }
}

impl DedupKey {
    /// The key of something a source sent.
    pub fn new(tenant: TenantId, source: SourceId, key: &[u8]) -> DedupKey {
        DedupKey(hash(tenant, b"source", &source.to_bytes(), key))
    }

    /// The key of a job that was made through the API.
    pub fn of_job(tenant: TenantId, key: &[u8]) -> DedupKey {
        DedupKey(hash(tenant, b"job", &[], key))
    }

    /// The key of a change of an alert, told through one source.
    pub fn of_alert(tenant: TenantId, source: SourceId, alert: AlertId, change: &str) -> DedupKey {
        let key = [alert.to_bytes().as_slice(), change.as_bytes()].concat();
        DedupKey(hash(tenant, b"alert", &source.to_bytes(), &key))
    }

    /// The key of a published event. `room` keeps keys that come in different ways apart.
    pub fn of_publication(tenant: TenantId, room: &[u8], key: &[u8]) -> DedupKey {
        DedupKey(hash(tenant, b"publication", room, key))
    }
}

fn hash(tenant: TenantId, room: &[u8], source: &[u8], key: &[u8]) -> [u8; 16] {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    context.update(&tenant.0.to_be_bytes());
    for part in [room, source] {
        context.update(&[part.len() as u8]);
        context.update(part);
    }
    context.update(key);
    let mut short = [0u8; 16];
    short.copy_from_slice(&context.finish().as_ref()[..16]);
    short
}

/// The id of an event's delivery to a webhook.
pub fn delivery_of(event: EventId, webhook: WebhookId) -> WorkId {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    hash.update(b"delivery");
    hash.update(&webhook.to_bytes());
    delivery_id(event, hash.finish().as_ref()[..10].try_into().expect("SHA-256 has 32 bytes"))
}

/// A verified request, or a publication, ready to be stored.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The event's columns. Its id carries the time it was received.
    pub event: Event,
    /// One or two keys; either of them makes it a duplicate.
    pub dedup: Vec<DedupKey>,
    /// Until when the keys block a repeat.
    pub dedup_until: Timestamp,
    /// Headers and body, exactly as received; none where the event is a part of a shared body.
    pub content: Option<Sealed>,
    /// The job it makes; none if it is ignored, unmapped or published.
    pub job: Option<NewJob>,
    /// The deliveries it makes, if it was published.
    pub deliveries: Vec<NewDelivery>,
    /// The receipt in case it turns out to be a duplicate.
    pub receipt: NewReceipt,
    /// What the provider's retry header said, in that case.
    pub retry: Option<String>,
    /// How our own earlier answer failed, in that case.
    pub our_fault: Option<OurFault>,
}

/// What an event hands down to the work about it.
#[derive(Debug, Clone)]
pub(crate) struct HandedDown {
    /// What it is about.
    pub subject: Option<String>,
    /// The trace it goes on with.
    pub trace: Option<String>,
}

impl HandedDown {
    /// What this event hands down.
    pub(crate) fn by(event: &Event) -> HandedDown {
        HandedDown { subject: event.subject.clone(), trace: event.trace.clone() }
    }
}

impl NewEvent {
    /// Its job, where that has to do with no other: the usual job is a simple row.
    pub(crate) fn plain_job(&self) -> Option<&NewJob> {
        self.job.as_ref().filter(|job| job.is_plain())
    }

    /// Its job, where that has to do with others: in order, in a conversation, or superseding them.
    pub(crate) fn placed_job(&self) -> Option<&NewJob> {
        self.job.as_ref().filter(|job| !job.is_plain())
    }

    /// The item of a job that has to do with others.
    pub(crate) fn placed_work(&self, job: &NewJob) -> NewWork {
        let talking = job.thread.as_ref().and(self.event.thread.clone());
        let order_key = match &job.order {
            Some(order) => Some(order.text.clone()),
            None => talking.filter(|_| job.order_key().is_some()),
        };
        NewWork {
            id: WorkId::first_of(self.event.id),
            tenant: self.event.tenant,
            kind: WorkKind::Job,
            lane: job.lane,
            run_at: None,
            max_attempts: job.max_attempts,
            event: Some(self.event.id),
            scope: None,
            subject: self.event.subject.clone(),
            order: job.order_key(),
            meta: WorkMeta { order_key, callback_lane: job.callback_lane, ..WorkMeta::default() }
                .led_to_by(job.lineage.clone()),
            input: None,
            dedup: None,
        }
    }

    /// What it shows of itself as a duplicate, as text.
    pub(crate) fn evidence(&self) -> String {
        let evidence = Evidence {
            dedup_key: self.event.dedup_key.clone(),
            body: Evidence::body_text(&self.event.payload_hash),
            signature: self.event.signature,
            retry: self.retry.clone(),
            our_fault: self.our_fault,
        };
        serde_json::to_string(&evidence).expect("evidence is plain data")
    }
}

/// Headers and body of a request that tells of several events, stored once for all of them.
#[derive(Debug, Clone)]
pub struct SharedBody {
    /// Its id, which carries the time it was received.
    pub id: EventId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Headers and body, exactly as received.
    pub content: Sealed,
}

/// The job of a received event. It carries the event's own bits as its id.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Where it waits.
    pub lane: LaneId,
    /// How often it may be tried.
    pub max_attempts: i32,
    /// What it runs in order with.
    pub order: Option<NewOrder>,
    /// The conversation it belongs to.
    pub thread: Option<NewThread>,
    /// What makes it supersede older jobs that wait.
    pub coalesce: Option<CoalesceKey>,
    /// The lane of what tells its outcome, if somebody wants to know.
    pub callback_lane: Option<LaneId>,
    /// What led to it, where the request says so.
    pub lineage: Option<Lineage>,
}

impl NewJob {
    /// Whether it has to do with no other job, and nothing led to it.
    pub(crate) fn is_plain(&self) -> bool {
        self.order.is_none()
            && self.thread.is_none()
            && self.coalesce.is_none()
            && self.lineage.is_none()
    }

    /// Whether an order key is all it has to do with others by.
    pub(crate) fn is_only_ordered(&self) -> bool {
        let numbered = self.order.as_ref().is_some_and(|order| order.sequence.is_some());
        self.order.is_some() && !numbered && self.thread.is_none() && self.coalesce.is_none()
    }

    /// What it runs in order with: what the source says, or its thread.
    pub(crate) fn order_key(&self) -> Option<OrderKey> {
        let thread = self.thread.as_ref().filter(|thread| thread.policy != ThreadPolicy::Off);
        let of_thread = thread.map(|thread| thread.key);
        self.order.as_ref().map(|order| order.key).or(of_thread)
    }
}

/// A published event on its way to one webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// Its id, which follows from the event and the webhook: no event makes two.
    pub id: WorkId,
    /// The webhook's lane.
    pub lane: LaneId,
    /// When it may start, if not at once.
    pub run_at: Option<Timestamp>,
    /// How often it may be tried.
    pub max_attempts: i32,
    /// What it goes in order with, and that in the publisher's words.
    pub order: Option<(OrderKey, String)>,
    /// The job that published the event.
    pub parent_id: Option<String>,
}

impl NewDelivery {
    /// Its item, which is about what its event is about, and in the event's trace.
    pub(crate) fn work(
        &self,
        tenant: TenantId,
        event: EventId,
        HandedDown { subject, trace }: HandedDown,
    ) -> NewWork {
        let (order, order_key) = self.order.clone().unzip();
        NewWork {
            id: self.id,
            tenant,
            kind: WorkKind::Delivery,
            lane: self.lane,
            run_at: self.run_at,
            max_attempts: self.max_attempts,
            event: Some(event),
            scope: None,
            subject,
            order,
            meta: WorkMeta {
                order_key,
                parent_id: self.parent_id.clone(),
                trace,
                ..WorkMeta::default()
            },
            input: None,
            dedup: None,
        }
    }
}

/// The conversation that a received event's job belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewThread {
    /// What it is known by.
    pub key: OrderKey,
    /// Whether there is a job only if the agent takes part in it already.
    pub only_if_known: bool,
    /// What the message does while the thread is busy.
    pub policy: ThreadPolicy,
    /// How long the job waits for quiet.
    pub quiet: Quiet,
}

/// A received event's number among those of its order key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSequence {
    /// The number.
    pub number: i64,
    /// How long the job waits for one with a lower number.
    pub wait: Duration,
}

/// Where a new item stands besides its order key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Its number within its order key.
    pub number: i64,
    /// What supersedes it.
    pub coalesce: Option<CoalesceKey>,
    /// How long messages that join it may put it off.
    pub gathers_until: Option<Timestamp>,
}

impl Spot {
    /// Of an item that has to do with no other, or by its order key alone.
    pub const USUAL: Spot = Spot { number: NO_NUMBER, coalesce: None, gathers_until: None };
}

/// What a received event's job runs in order with.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// The key.
    pub key: OrderKey,
    /// The key as the payload has it, for people.
    pub text: String,
    /// Its number among the events of this key, where they have one.
    pub sequence: Option<NewSequence>,
}

/// One request and what became of it.
#[derive(Debug, Clone)]
pub struct NewReceipt {
    /// Its id, which carries its time.
    pub id: ReceiptId,
    /// Whose source it came to.
    pub tenant: TenantId,
    /// Which source.
    pub source: SourceId,
    /// Who sent it.
    pub remote_addr: Option<String>,
    /// What became of it.
    pub verdict: Verdict,
    /// How long it took.
    pub latency_us: i32,
    /// What an operator should know; never a secret.
    pub detail: Option<String>,
}

/// What accepting came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// Stored, with the job it asked for.
    New,
    /// Stored, with the job it asked for. What that superseded, or the event cancelled, stood before an item of this
    /// lane, which may go now.
    NewBefore(LaneId),
    /// Stored. It joined an earlier event's job.
    Joined {
        /// The job.
        work: WorkId,
        /// Its lane, which may have ready work now.
        lane: LaneId,
        /// Whether a bound on running items got a free place.
        freed_cap: bool,
    },
    /// Stored, without the job it asked for: the agent takes no part in its thread.
    Ignored,
    /// The first of its kind is this one.
    Duplicate {
        /// The first event.
        of: EventId,
        /// The job it made or joined.
        job: Option<WorkId>,
    },
}

impl Accepted {
    /// Whether it was stored now.
    pub fn is_new(self) -> bool {
        !matches!(self, Accepted::Duplicate { .. })
    }

    /// As it is, and an item of this lane may go now. Where there is no room to say so, the next resync finds it.
    pub(crate) fn before(self, lane: LaneId) -> Accepted {
        if self == Accepted::New { Accepted::NewBefore(lane) } else { self }
    }

    /// What an event led to that asked for this.
    pub fn route(self, asked: Route) -> Route {
        match self {
            Accepted::Joined { .. } => Route::Joined,
            Accepted::Ignored => Route::Ignored,
            Accepted::New | Accepted::NewBefore(_) | Accepted::Duplicate { .. } => asked,
        }
    }

    /// The job that an event has, which asked for this.
    pub fn job(self, event: EventId, asked: Route) -> Option<WorkId> {
        match self {
            Accepted::Joined { work, .. } => Some(work),
            Accepted::Ignored => None,
            Accepted::New | Accepted::NewBefore(_) => {
                (asked == Route::Job).then(|| WorkId::first_of(event))
            }
            Accepted::Duplicate { job, .. } => job,
        }
    }
}

/// One row's answer.
pub type Received = Result<Accepted>;

/// The ledger's front door.
#[async_trait]
pub trait Ledger {
    /// Stores events. Each event with its dedup keys, job and receipt commits wholly or not at all, and
    /// the answer comes after the commit. Of any number of copies, on any number of nodes, one is new.
    async fn accept(&self, batch: Vec<NewEvent>) -> Vec<Received>;

    /// Stores the events that one request told of, all or none, with their body if any of them is new.
    async fn accept_together(
        &self,
        body: SharedBody,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Accepted>>;

    /// Stores published events with their deliveries, all or none. A repeat (its dedup key is taken, its payload has the
    /// same hash) stores nothing and is only counted; one that says something else under the key fails all of them with
    /// `Mismatch`. The entry, if somebody does it by hand, is written with what is stored, and not if all are repeats.
    async fn publish(
        &self,
        events: Vec<NewEvent>,
        audit: Option<AuditEntry>,
    ) -> Result<Vec<Accepted>>;

    /// Keeps receipts of rejected requests, the latest few hundred of each source.
    async fn keep_rejections(&self, batch: Vec<NewReceipt>) -> Result<()>;
}
