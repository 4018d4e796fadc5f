//! Drafts: events, jobs, claims and their small print, in a few words.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::backoff::Backoff;
use wakepost_domain::effect::OnDoubt;
use wakepost_domain::event::{Event, Part, Route};
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::receipt::Verdict;
use wakepost_domain::thread::{Quiet, ThreadPolicy};
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{AuditId, EventId, ReceiptId, SourceId, TenantId, Timestamp, Ulid, WorkId};

use super::world::sealed;
use crate::moves::{
    AuditEntry, Begin, Cap, CapScope, ClaimLane, ClaimRequest, Claimed, CoalesceKey, DedupKey,
    Evidence, Guard, Idempotency, Lineage, NewEvent, NewJob, NewOrder, NewReceipt, NewSequence,
    NewThread, NewWork, OrderKey, Settle, Store, WorkMeta,
};
use crate::vault::Sealed;

/// How often a drafted item may be tried.
pub const ATTEMPTS: i32 = 5;
/// How long a drafted lease lasts, in seconds.
pub const LEASE_S: u64 = 100;
/// How long a drafted run may last, in seconds.
pub const RUN_S: u64 = 1000;

const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// A tenant's source, and the lane its jobs wait in.
#[derive(Debug, Clone, Copy)]
pub struct Inbox {
    pub tenant: TenantId,
    pub source: SourceId,
    pub lane: LaneId,
}

impl Inbox {
    pub fn tenant_cap(&self, limit: u32) -> Cap {
        Cap::running(CapScope::Tenant(self.tenant), limit)
    }

    pub fn source_cap(&self, limit: u32) -> Cap {
        Cap::running(CapScope::Source(self.source), limit)
    }
}

/// An event on its way in. Unless told otherwise it has one key of its own and makes a job.
#[derive(Debug, Clone)]
pub struct EventDraft {
    new: NewEvent,
    lane: LaneId,
    order: Option<NewOrder>,
    thread: Option<NewThread>,
    coalesce: Option<CoalesceKey>,
    callback_lane: Option<LaneId>,
    lineage: Option<Lineage>,
}

impl EventDraft {
    pub fn new(inbox: &Inbox, id: EventId, receipt: Ulid) -> EventDraft {
        let mut payload_hash = [0; 32];
        payload_hash[..16].copy_from_slice(&id.to_bytes());
        let event = Event {
            id,
            tenant: inbox.tenant,
            source: inbox.source,
            event_type: "issues.opened".to_owned(),
            dedup_key: id.to_string(),
            route: Route::Job,
            verified: true,
            subject: None,
            thread: None,
            occurred_at: None,
            received_at: id.0.time(),
            payload_hash,
            duplicates: 0,
            remote_addr: Some("192.0.2.1".to_owned()),
            latency_us: 1500,
            part: None,
            trace: None,
            signature: None,
        };
        let receipt = rejection(inbox, ReceiptId(receipt), Verdict::Accepted);
        let new = NewEvent {
            event,
            dedup: Vec::new(),
            dedup_until: id.0.time().after(MONTH),
            content: Some(sealed("{}")),
            job: None,
            deliveries: Vec::new(),
            receipt,
            retry: None,
            our_fault: None,
        };
        EventDraft {
            new,
            lane: inbox.lane,
            order: None,
            thread: None,
            coalesce: None,
            callback_lane: None,
            lineage: None,
        }
    }

    /// A key that makes a repeat a duplicate; the first one is also shown.
    pub fn with_key(mut self, key: &str) -> EventDraft {
        let (tenant, source) = (self.new.event.tenant, self.new.event.source);
        if self.new.dedup.is_empty() {
            self.new.event.dedup_key = key.to_owned();
        }
        self.new.dedup.push(DedupKey::new(tenant, source, key.as_bytes()));
        self
    }

    pub fn blocking_until(mut self, until: Timestamp) -> EventDraft {
        self.new.dedup_until = until;
        self
    }

    pub fn with_id(mut self, id: EventId) -> EventDraft {
        self.new.event.id = id;
        self.new.event.received_at = id.0.time();
        self
    }

    pub fn of_type(mut self, event_type: &str) -> EventDraft {
        self.new.event.event_type = event_type.to_owned();
        self
    }

    pub fn about(mut self, subject: &str) -> EventDraft {
        self.new.event.subject = Some(subject.to_owned());
        self
    }

    /// In somebody's trace.
    pub fn in_trace(mut self, trace: &str) -> EventDraft {
        self.new.event.trace = Some(trace.to_owned());
        self
    }

    pub fn with_body(mut self, body: Vec<u8>) -> EventDraft {
        self.new.content = Some(Sealed::from_stored(body));
        self
    }

    /// With a job that runs in order with others of this key.
    pub fn in_order(mut self, key: &str) -> EventDraft {
        let (tenant, source) = (self.new.event.tenant, self.new.event.source);
        let order = OrderKey::of_source(tenant, source, key.as_bytes());
        self.order = Some(NewOrder { key: order, text: key.to_owned(), sequence: None });
        self
    }

    /// With a number among the events of its order key.
    pub fn numbered(mut self, number: i64, wait_s: u64) -> EventDraft {
        let order = self.order.as_mut().expect("only what has an order key has a number");
        order.sequence = Some(NewSequence { number, wait: Duration::from_secs(wait_s) });
        self
    }

    /// A message of a conversation, which the job is about at once.
    pub fn in_thread(mut self, thread: &str, policy: ThreadPolicy) -> EventDraft {
        let (tenant, source) = (self.new.event.tenant, self.new.event.source);
        let key = OrderKey::of_thread(tenant, source, thread.as_bytes());
        self.new.event.thread = Some(thread.to_owned());
        self.thread = Some(NewThread { key, only_if_known: false, policy, quiet: Quiet::NONE });
        self
    }

    /// Only if the agent takes part in its thread.
    pub fn if_known(mut self) -> EventDraft {
        self.thread.as_mut().expect("a message has a thread").only_if_known = true;
        self
    }

    /// Once its thread is quiet for so long, or it waited for so long in all.
    pub fn after_quiet_s(mut self, seconds: u64, cap_s: u64) -> EventDraft {
        let (for_, cap) = (Duration::from_secs(seconds), Duration::from_secs(cap_s));
        self.thread.as_mut().expect("a message has a thread").quiet = Quiet { for_, cap };
        self
    }

    /// In the place of older ones with this value.
    pub fn instead_of(mut self, value: &str) -> EventDraft {
        let (tenant, source) = (self.new.event.tenant, self.new.event.source);
        let order = self.order.as_ref().map(|order| order.key);
        self.coalesce = Some(CoalesceKey::new(tenant, source, value.as_bytes(), order));
        self
    }

    /// With a job whose outcome somebody wants to know.
    pub fn calling_back(mut self, lane: LaneId) -> EventDraft {
        self.callback_lane = Some(lane);
        self
    }

    /// One of several events of a shared body.
    pub fn part_of(mut self, body: EventId, index: u16) -> EventDraft {
        self.new.event.part = Some(Part { body, index });
        self.new.content = None;
        self
    }

    pub fn led_to_by(mut self, lineage: Lineage) -> EventDraft {
        self.lineage = Some(lineage);
        self
    }

    pub fn ignored(mut self) -> EventDraft {
        self.new.event.route = Route::Ignored;
        self
    }

    pub fn unmapped(mut self) -> EventDraft {
        self.new.event.route = Route::Unmapped;
        self
    }

    pub fn build(self) -> NewEvent {
        self.into()
    }
}

impl From<EventDraft> for NewEvent {
    fn from(draft: EventDraft) -> NewEvent {
        let key = draft.new.event.dedup_key.clone();
        let draft = if draft.new.dedup.is_empty() { draft.with_key(&key) } else { draft };
        let makes_job = draft.new.event.route == Route::Job;
        let EventDraft { lane, order, thread, coalesce, callback_lane, lineage, .. } = draft;
        let max_attempts = ATTEMPTS;
        let job = NewJob { lane, max_attempts, order, thread, coalesce, callback_lane, lineage };
        let job = makes_job.then_some(job);
        NewEvent { job, ..draft.new }
    }
}

/// A kept request that became nothing.
pub fn rejection(inbox: &Inbox, id: ReceiptId, verdict: Verdict) -> NewReceipt {
    NewReceipt {
        id,
        tenant: inbox.tenant,
        source: inbox.source,
        remote_addr: Some("192.0.2.7".to_owned()),
        verdict,
        latency_us: 321,
        detail: Some("said the harness".to_owned()),
    }
}

/// A job made through the API.
#[derive(Debug, Clone)]
pub struct WorkDraft(NewWork);

impl WorkDraft {
    pub fn new(inbox: &Inbox, id: WorkId) -> WorkDraft {
        WorkDraft(NewWork {
            id,
            tenant: inbox.tenant,
            kind: WorkKind::Job,
            lane: inbox.lane,
            run_at: None,
            max_attempts: ATTEMPTS,
            event: None,
            scope: None,
            subject: None,
            order: None,
            meta: WorkMeta::default(),
            input: None,
            dedup: None,
        })
    }

    pub fn at(mut self, run_at: Timestamp) -> WorkDraft {
        self.0.run_at = Some(run_at);
        self
    }

    pub fn of_kind(mut self, kind: WorkKind) -> WorkDraft {
        self.0.kind = kind;
        self
    }

    pub fn of_event(mut self, event: EventId) -> WorkDraft {
        self.0.event = Some(event);
        self
    }

    pub fn with_id(mut self, id: WorkId) -> WorkDraft {
        self.0.id = id;
        self
    }

    pub fn with_input(mut self, input: &str) -> WorkDraft {
        self.0.input = Some(sealed(input));
        self
    }

    pub fn about(mut self, subject: &str) -> WorkDraft {
        self.0.subject = Some(subject.to_owned());
        self
    }

    pub fn with_meta(mut self, meta: WorkMeta) -> WorkDraft {
        self.0.meta = meta;
        self
    }

    pub fn with_key(mut self, key: &str, until: Timestamp) -> WorkDraft {
        self.0.dedup = Some((DedupKey::of_job(self.0.tenant, key.as_bytes()), until));
        self
    }

    pub fn in_order(mut self, key: &str) -> WorkDraft {
        self.0.order = Some(OrderKey::of_job(self.0.tenant, key.as_bytes()));
        self
    }

    pub fn tried_at_most(mut self, attempts: i32) -> WorkDraft {
        self.0.max_attempts = attempts;
        self
    }

    pub fn build(self) -> NewWork {
        self.0
    }
}

impl From<WorkDraft> for NewWork {
    fn from(draft: WorkDraft) -> NewWork {
        draft.0
    }
}

/// A worker that asks one lane for work.
#[derive(Clone)]
pub struct ClaimDraft {
    store: Arc<dyn Store>,
    worker: String,
    lane: ClaimLane,
}

impl ClaimDraft {
    pub fn new(store: Arc<dyn Store>, inbox: &Inbox) -> ClaimDraft {
        let lane = ClaimLane {
            lane: inbox.lane,
            count: 1,
            lease: Duration::from_secs(LEASE_S),
            run_timeout: Duration::from_secs(RUN_S),
            caps: Vec::new(),
        };
        ClaimDraft { store, worker: "ada".to_owned(), lane }
    }

    pub fn on(mut self, node: Arc<dyn Store>) -> ClaimDraft {
        self.store = node;
        self
    }

    pub fn by(mut self, worker: &str) -> ClaimDraft {
        self.worker = worker.to_owned();
        self
    }

    pub fn up_to(mut self, count: u32) -> ClaimDraft {
        self.lane.count = count;
        self
    }

    pub fn leased_s(mut self, seconds: u64) -> ClaimDraft {
        self.lane.lease = Duration::from_secs(seconds);
        self
    }

    pub fn capped(mut self, cap: Cap) -> ClaimDraft {
        self.lane.caps.push(cap);
        self
    }

    pub fn lane(self) -> ClaimLane {
        self.lane
    }

    pub async fn take(self) -> Vec<Claimed> {
        let request = ClaimRequest { worker: self.worker, lanes: vec![self.lane] };
        self.store.claim(request).await.unwrap()
    }

    pub async fn one(self) -> Claimed {
        let mut claimed = self.up_to(1).take().await;
        assert_eq!(claimed.len(), 1, "exactly one item was to be claimed");
        claimed.remove(0)
    }
}

pub fn audit_entry(id: AuditId, tenant: TenantId, action: &str) -> AuditEntry {
    AuditEntry {
        id,
        tenant: Some(tenant),
        actor: "key_grace".to_owned(),
        action: action.to_owned(),
        target: "what it was done to".to_owned(),
        note: Some("because".to_owned()),
    }
}

/// A caller's promise that a repeat means the same, remembered until then.
pub fn once(key: u8, answer: &str, until: Timestamp) -> Idempotency {
    Idempotency { key: [key; 16], body_hash: [key; 32], answer: sealed(answer), until }
}

/// The worker's own word that a run ended like this.
pub fn end(ticket: &Ticket, ending: Ending) -> Settle {
    let (attempt, most) = (ticket.attempt, ticket.max_attempts);
    Settle {
        ticket: *ticket,
        guard: Guard::Live,
        settlement: transition::settle(ending, attempt, most, &Backoff::default(), 0.5),
        error: (ending != Ending::Succeeded).then(|| format!("{ending:?}")),
        evidence: Evidence::default(),
        follow_up: None,
        expanded: None,
    }
}

/// A request to act; a doubt about it holds the job.
pub fn begin(ticket: &Ticket, key: &str) -> Begin {
    let description = Some(format!("would do {key}"));
    Begin {
        ticket: *ticket,
        key: key.to_owned(),
        description,
        on_doubt: OnDoubt::Hold,
        draft: None,
    }
}
