//! Webhooks and types of published events: settings of subscribers, and what their lanes hold.

use async_trait::async_trait;
use wakepost_domain::circuit::Circuit;
use wakepost_domain::event_type::{EventType, PER_TENANT_MAX};
use wakepost_domain::lane::LaneId;
use wakepost_domain::webhook::{Notice, Signature, WebhookConfig};
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, Timestamp, WebhookId};

use super::accept::NewDelivery;
use super::read::{Cursor, WorkRow};
use super::settings::{AuditEntry, Idempotency, Once};
use crate::error::{Result, StoreError};
use crate::vault::Sealed;

/// A webhook as it is stored: its secrets sealed.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookRecord {
    /// Its id.
    pub id: WebhookId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Where its deliveries wait.
    pub lane: LaneId,
    /// What may be shown.
    pub config: WebhookConfig,
    /// What may not.
    pub secrets: Sealed,
    /// How its receiver does.
    pub circuit: Circuit,
    /// What its owner has to hear of.
    pub notices: Vec<Notice>,
    /// Until when its lane hands out nothing. Written to the lane in the same transaction.
    pub shut_until: Option<Timestamp>,
    /// When somebody must look at it next, though nobody asked for that.
    pub due_at: Option<Timestamp>,
    /// How often it was changed.
    pub version: i64,
}

impl WebhookRecord {
    /// Whether it signs with a key whose public half everybody may know: a column of its own, to find these by.
    pub fn signs_publicly(&self) -> bool {
        self.config.signature == Signature::Ed25519
    }

    /// The tenant has as many as it may.
    pub(crate) fn too_many(most: u32) -> StoreError {
        StoreError::Limit(format!("a tenant has at most {most} webhooks"))
    }
}

/// Subscribers' settings.
#[async_trait]
pub trait Webhooks {
    /// Makes a webhook, if the tenant has fewer than `most`; `Limit` otherwise.
    async fn create_webhook(
        &self,
        record: WebhookRecord,
        most: u32,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// Changes a webhook and how long its lane is shut, in one transaction, if it still has the record's version, which
    /// then grows by one; `InvalidState` otherwise, `NotFound` if there is none. Changes that the gateway makes by itself have no audit entry.
    async fn update_webhook(&self, record: WebhookRecord, audit: Option<AuditEntry>) -> Result<()>;

    /// Deletes a webhook and opens its lane. Its deliveries stay.
    async fn delete_webhook(
        &self,
        tenant: TenantId,
        id: WebhookId,
        audit: AuditEntry,
    ) -> Result<()>;

    /// One webhook, whosever it is.
    async fn webhook(&self, id: WebhookId) -> Result<Option<WebhookRecord>>;

    /// All webhooks of a tenant, newest first.
    async fn webhooks(&self, tenant: TenantId) -> Result<Vec<WebhookRecord>>;

    /// Webhooks, whosever they are, that sign with a key whose public half everybody may know, by id and after this one.
    async fn signing_webhooks(
        &self,
        after: Option<WebhookId>,
        limit: u32,
    ) -> Result<Vec<WebhookRecord>>;

    /// Webhooks that somebody must look at by now (by the store's clock), the longest due first.
    async fn due_webhooks(&self, limit: u32) -> Result<Vec<WebhookRecord>>;

    /// Ends what waits in a lane, due or not, oldest id first, in one transaction; answers how many there were. Running
    /// items stay. No item of the lane is left behind another of its order key that is gone.
    async fn end_waiting(
        &self,
        lane: LaneId,
        state: State,
        reason: String,
        limit: u32,
    ) -> Result<u64>;

    /// The deliveries of a lane, live and finished, newest first.
    async fn deliveries(
        &self,
        tenant: TenantId,
        lane: LaneId,
        state: Option<State>,
        page: Cursor,
    ) -> Result<Vec<WorkRow>>;

    /// How many deliveries of a lane stand where, as far as they are kept: of at most `rows_max` that live and as
    /// many that ended, the newest. Costs a walk along the lane's part of two indexes.
    async fn delivery_counts(&self, lane: LaneId, rows_max: u32) -> Result<Vec<(State, i64)>>;

    /// Makes those of these deliveries that were never made, in one transaction; answers which they were. One whose event
    /// is not there, or was not published by the tenant, is not made.
    async fn add_deliveries(
        &self,
        tenant: TenantId,
        items: Vec<(EventId, NewDelivery)>,
    ) -> Result<Vec<NewDelivery>>;
}

/// The tenant has as many types as it may.
pub(crate) fn too_many_types() -> StoreError {
    StoreError::Limit(format!("a tenant has at most {PER_TENANT_MAX} event types"))
}

/// There is a type of that name.
pub(crate) fn type_exists(name: &str) -> StoreError {
    StoreError::Exists(format!("there is an event type {name} already"))
}

/// What waits is given up, or cancelled: it can come to no other end without a run.
pub(crate) fn check_end(state: State) -> Result<()> {
    match state {
        State::DeadLetter | State::Cancelled => Ok(()),
        _ => Err(StoreError::InvalidState(format!("what waits cannot end as {}", state.as_str()))),
    }
}

/// The catalogue of types.
#[async_trait]
pub trait EventTypes {
    /// Stores a type. With `only_new`, `Exists` if there is one of that name. `Limit` past the bound for a tenant.
    async fn put_event_type(
        &self,
        tenant: TenantId,
        event_type: EventType,
        only_new: bool,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// Deletes a type.
    async fn delete_event_type(
        &self,
        tenant: TenantId,
        name: String,
        audit: AuditEntry,
    ) -> Result<()>;

    /// All types of a tenant, by name.
    async fn event_types(&self, tenant: TenantId) -> Result<Vec<EventType>>;
}

/// An event that a user of PostgreSQL published within a transaction of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Outboxed {
    /// Its number in the outbox.
    pub number: i64,
    /// The id its publisher was told.
    pub event: EventId,
    /// Whose it is, by slug.
    pub tenant: String,
    /// Its type.
    pub event_type: String,
    /// Its subject, as JSON.
    pub data: String,
    /// What makes a repeat return the first.
    pub dedup_key: Option<String>,
}

/// What was published through SQL. SQLite has no such way: its lists are empty.
#[async_trait]
pub trait Outbox {
    /// What waits, oldest first, less what was set aside.
    async fn outbox(&self, limit: u32) -> Result<Vec<Outboxed>>;

    /// These are in the ledger.
    async fn outbox_done(&self, numbers: Vec<i64>) -> Result<()>;

    /// This one cannot be published; it stays, with the reason.
    async fn outbox_refused(&self, number: i64, reason: String) -> Result<()>;
}
