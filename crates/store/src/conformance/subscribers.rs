//! Subscribers: webhooks with their lanes, and publications on their way to them, in a few words.

use std::ops::Deref;
use std::time::Duration;

use wakepost_domain::circuit::Circuit;
use wakepost_domain::event::{Event, Route};
use wakepost_domain::publication::{NO_SOURCE, about_job};
use wakepost_domain::receipt::Verdict;
use wakepost_domain::webhook::{Webhook, WebhookConfig};
use wakepost_domain::{EventId, ReceiptId, SourceId, TenantId, Timestamp, Ulid, WebhookId, WorkId};

use super::Harness;
use super::drafts::{ATTEMPTS, Inbox, rejection};
use super::world::{World, sealed};
use crate::error::Result;
use crate::moves::{
    Accepted, DedupKey, NewDelivery, NewEvent, Once, OrderKey, WebhookRecord, delivery_of,
};

const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// A webhook and the lane its deliveries wait in, which is claimed like a source's.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    pub id: WebhookId,
    inbox: Inbox,
}

impl Deref for Hook {
    type Target = Inbox;

    fn deref(&self) -> &Inbox {
        &self.inbox
    }
}

impl Hook {
    /// The id of its delivery of an event.
    pub fn delivery(&self, event: EventId) -> WorkId {
        delivery_of(event, self.id)
    }
}

/// An event on its way out. Unless told otherwise it has no dedup key, and goes to nobody.
#[derive(Debug, Clone)]
pub struct PublicationDraft {
    new: NewEvent,
    hooks: Vec<Hook>,
    order: Option<String>,
    run_at: Option<Timestamp>,
    max_attempts: i32,
    parent_id: Option<String>,
}

impl PublicationDraft {
    pub fn new(tenant: TenantId, id: EventId, receipt: Ulid) -> PublicationDraft {
        let event = Event {
            id,
            tenant,
            source: NO_SOURCE,
            event_type: "order.created".to_owned(),
            dedup_key: id.to_string(),
            route: Route::Published,
            verified: true,
            subject: None,
            thread: None,
            occurred_at: None,
            received_at: id.0.time(),
            payload_hash: [0; 32],
            duplicates: 0,
            remote_addr: None,
            latency_us: 900,
            part: None,
            trace: None,
            signature: None,
        };
        let nobody = Inbox { tenant, source: NO_SOURCE, lane: wakepost_domain::lane::LaneId(0) };
        let new = NewEvent {
            event,
            dedup: Vec::new(),
            dedup_until: id.0.time().after(MONTH),
            content: None,
            job: None,
            deliveries: Vec::new(),
            receipt: rejection(&nobody, ReceiptId(receipt), Verdict::Accepted),
            retry: None,
            our_fault: None,
        };
        let draft = PublicationDraft {
            new,
            hooks: Vec::new(),
            order: None,
            run_at: None,
            max_attempts: ATTEMPTS,
            parent_id: None,
        };
        draft.saying("the usual")
    }

    /// What it says: its body, and the hash of that.
    pub fn saying(mut self, text: &str) -> PublicationDraft {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        self.new.event.payload_hash = hash.as_ref().try_into().expect("SHA-256 has 32 bytes");
        self.new.content = Some(sealed(text));
        self
    }

    /// A key that makes a repeat return the first.
    pub fn with_key(mut self, key: &str) -> PublicationDraft {
        let tenant = self.new.event.tenant;
        if self.new.dedup.is_empty() {
            self.new.event.dedup_key = key.to_owned();
        }
        self.new.dedup.push(DedupKey::of_publication(tenant, b"key", key.as_bytes()));
        self
    }

    pub fn blocking_until(mut self, until: Timestamp) -> PublicationDraft {
        self.new.dedup_until = until;
        self
    }

    /// For these webhooks.
    pub fn to(mut self, hooks: &[&Hook]) -> PublicationDraft {
        self.hooks.extend(hooks.iter().copied());
        self
    }

    /// In order with others of this key, of each webhook.
    pub fn in_order(mut self, key: &str) -> PublicationDraft {
        self.order = Some(key.to_owned());
        self
    }

    /// Not before.
    pub fn at(mut self, run_at: Timestamp) -> PublicationDraft {
        self.run_at = Some(run_at);
        self
    }

    pub fn tried_at_most(mut self, attempts: i32) -> PublicationDraft {
        self.max_attempts = attempts;
        self
    }

    /// In somebody's trace.
    pub fn in_trace(mut self, trace: &str) -> PublicationDraft {
        self.new.event.trace = Some(trace.to_owned());
        self
    }

    /// By this job.
    pub fn published_by(mut self, job: &str) -> PublicationDraft {
        self.new.event.thread = Some(about_job(job));
        self.parent_id = Some(job.to_owned());
        self
    }

    pub fn of_type(mut self, event_type: &str) -> PublicationDraft {
        self.new.event.event_type = event_type.to_owned();
        self
    }

    pub fn about(mut self, subject: &str) -> PublicationDraft {
        self.new.event.subject = Some(subject.to_owned());
        self
    }

    pub fn build(self) -> NewEvent {
        self.into()
    }
}

impl From<PublicationDraft> for NewEvent {
    fn from(draft: PublicationDraft) -> NewEvent {
        let (tenant, event) = (draft.new.event.tenant, draft.new.event.id);
        let order = |hook: &Hook| {
            let text = draft.order.clone()?;
            Some((OrderKey::of_webhook(tenant, hook.id, text.as_bytes()), text))
        };
        let delivery = |hook: &Hook| NewDelivery {
            id: hook.delivery(event),
            lane: hook.lane,
            run_at: draft.run_at,
            max_attempts: draft.max_attempts,
            order: order(hook),
            parent_id: draft.parent_id.clone(),
        };
        let deliveries = draft.hooks.iter().map(delivery).collect();
        NewEvent { deliveries, ..draft.new }
    }
}

impl<H: Harness> World<'_, H> {
    /// A webhook's lane, of the default tenant. The webhook itself is not stored.
    pub async fn hook(&self) -> Hook {
        self.hook_of(TenantId::DEFAULT).await
    }

    pub async fn hook_of(&self, tenant: TenantId) -> Hook {
        let id = WebhookId(self.id());
        let lane = self.store.lane(Webhook::lane_key(tenant, id)).await.unwrap().id;
        Hook { id, inbox: Inbox { tenant, source: SourceId(id.0), lane } }
    }

    /// A webhook of the default tenant, stored.
    pub async fn subscriber(&self) -> (Hook, WebhookRecord) {
        let hook = self.hook().await;
        let record = self.record(&hook);
        self.subscribe(record.clone()).await;
        (hook, record)
    }

    /// A webhook with the usual settings.
    pub fn record(&self, hook: &Hook) -> WebhookRecord {
        let config = WebhookConfig {
            url: Some("https://hooks.example/in".to_owned()),
            events: vec!["order.*".to_owned()],
            ..WebhookConfig::default()
        };
        WebhookRecord {
            id: hook.id,
            tenant: hook.tenant,
            lane: hook.lane,
            config,
            secrets: sealed("secrets"),
            circuit: Circuit::default(),
            notices: Vec::new(),
            shut_until: None,
            due_at: None,
            version: 0,
        }
    }

    pub async fn subscribe(&self, record: WebhookRecord) {
        let audit = self.audit(record.tenant, "webhook.create");
        let made = self.store.create_webhook(record, 100, audit, None).await;
        assert_eq!(made.unwrap(), Once::Now(()));
    }

    /// Changes how long a webhook's lane is shut.
    pub async fn shut(&self, hook: &Hook, until: Option<Timestamp>) {
        let seen = self.store.webhook(hook.id).await.unwrap().expect("it is there");
        let shut = WebhookRecord { shut_until: until, ..seen };
        self.store.update_webhook(shut, None).await.unwrap();
    }

    pub fn publication(&self, tenant: TenantId) -> PublicationDraft {
        PublicationDraft::new(tenant, EventId(self.id()), self.id())
    }

    pub async fn publish(&self, new: impl Into<NewEvent>) -> Result<Accepted> {
        let mut answers = self.store.publish(vec![new.into()], None).await?;
        assert_eq!(answers.len(), 1);
        Ok(answers.remove(0))
    }

    /// A publication, stored.
    pub async fn published(&self, new: impl Into<NewEvent>) -> EventId {
        let new = new.into();
        let id = new.event.id;
        assert_eq!(self.publish(new).await.unwrap(), Accepted::New);
        id
    }

    /// This many publications for a webhook, oldest first.
    pub async fn published_many(&self, hook: &Hook, count: usize) -> Vec<EventId> {
        let new = || self.publication(hook.tenant).to(&[hook]).build();
        let batch: Vec<NewEvent> = (0..count).map(|_| new()).collect();
        let ids = batch.iter().map(|new| new.event.id).collect();
        let answers = self.store.publish(batch, None).await.unwrap();
        assert!(answers.into_iter().all(|answer| answer == Accepted::New));
        ids
    }
}
