//! Accepting: from a verified request to an event, its dedup keys, its job and its receipt, in one
//! transaction.

use async_trait::async_trait;
use wakepost_domain::event::Event;
use wakepost_domain::lane::LaneId;
use wakepost_domain::receipt::{Evidence, OurFault, Verdict};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, ReceiptId, SourceId, TenantId, Timestamp, WorkId};

use super::work::{NewWork, WorkMeta};
use crate::error::Result;
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

/// A verified request, ready to be stored.
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
    /// The job it makes; none if it is ignored or unmapped.
    pub job: Option<NewJob>,
    /// The receipt in case it turns out to be a duplicate.
    pub receipt: NewReceipt,
    /// What the provider's retry header said, in that case.
    pub retry: Option<String>,
    /// How our own earlier answer failed, in that case.
    pub our_fault: Option<OurFault>,
}

impl NewEvent {
    /// Whether its job runs in order with others.
    pub(crate) fn is_ordered(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.order.is_some())
    }

    /// Its job, where that runs in order with no other.
    pub(crate) fn plain_job(&self) -> Option<&NewJob> {
        self.job.as_ref().filter(|job| job.order.is_none())
    }

    /// Its job, where that runs in order with others: the usual job is a simpler row.
    pub(crate) fn ordered_work(&self) -> Option<NewWork> {
        let job = self.job.as_ref()?;
        let order = job.order.as_ref()?;
        Some(NewWork {
            id: WorkId::first_of(self.event.id),
            tenant: self.event.tenant,
            kind: WorkKind::Job,
            lane: job.lane,
            run_at: None,
            max_attempts: job.max_attempts,
            event: Some(self.event.id),
            scope: None,
            subject: self.event.subject.clone(),
            order: Some(order.key),
            meta: WorkMeta { order_key: Some(order.text.clone()), ..WorkMeta::default() },
            input: None,
            dedup: None,
        })
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
}

/// What a received event's job runs in order with.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// The key.
    pub key: OrderKey,
    /// The key as the payload has it, for people.
    pub text: String,
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
    /// Stored.
    New,
    /// The first of its kind is this one, and this says whether it made a job.
    Duplicate {
        /// The first event.
        of: EventId,
        /// Whether it made a job.
        has_job: bool,
    },
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

    /// Keeps receipts of rejected requests, the latest few hundred of each source.
    async fn keep_rejections(&self, batch: Vec<NewReceipt>) -> Result<()>;
}
