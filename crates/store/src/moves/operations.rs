//! Bulk work: one request that means many moves. It is done in steps, by one node at a time, and survives restarts.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use wakepost_domain::{OperationId, TenantId, Timestamp, Ulid};

use super::settings::{AuditEntry, Idempotency, Once};
use crate::error::Result;

/// What is done to each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Events are run again.
    InboxReplay = 0,
    /// Dead letters are tried again.
    DeadLetterReplay = 1,
    /// Dead letters are purged.
    DeadLetterPurge = 2,
    /// Deliveries to a webhook that failed are tried again.
    WebhookRecover = 3,
    /// Events that a webhook never got are delivered to it.
    WebhookBackfill = 4,
}

impl OperationKind {
    /// From storage.
    pub fn from_code(code: i16) -> Option<OperationKind> {
        use OperationKind::*;
        let known =
            [InboxReplay, DeadLetterReplay, DeadLetterPurge, WebhookRecover, WebhookBackfill];
        known.into_iter().find(|kind| *kind as i16 == code)
    }
}

/// One piece of bulk work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its id, which carries the time it was asked for.
    pub id: OperationId,
    /// Whose items it is about.
    pub tenant: TenantId,
    /// What is done to each.
    pub kind: OperationKind,
    /// What was asked for, as JSON.
    pub asked: String,
    /// The last item that was dealt with. It goes from the newest to the oldest.
    pub position: Option<Ulid>,
    /// How many items fitted so far.
    pub matched: i64,
    /// To how many it was done.
    pub done: i64,
    /// To how many it could not be done.
    pub failed: i64,
    /// Whose turn it is: grows whenever a node takes it.
    pub turn: i32,
    /// When it was through.
    pub finished_at: Option<Timestamp>,
}

impl Operation {
    /// One that was just asked for.
    pub fn new(id: OperationId, tenant: TenantId, kind: OperationKind, asked: String) -> Operation {
        let (matched, done, failed, turn) = (0, 0, 0, 0);
        let (position, finished_at) = (None, None);
        Operation { id, tenant, kind, asked, position, matched, done, failed, turn, finished_at }
    }
}

/// What one step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationStep {
    /// Which operation.
    pub id: OperationId,
    /// The turn it was done in: a later turn is another node's.
    pub turn: i32,
    /// The last item that was dealt with.
    pub position: Option<Ulid>,
    /// How many more items fitted.
    pub matched: i64,
    /// To how many more it was done.
    pub done: i64,
    /// To how many more it could not be done.
    pub failed: i64,
    /// Whether there is nothing more to do.
    pub is_over: bool,
}

/// Bulk work.
#[async_trait]
pub trait Operations {
    /// Notes what is to be done.
    async fn create_operation(
        &self,
        operation: Operation,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// One operation.
    async fn operation(&self, tenant: TenantId, id: OperationId) -> Result<Option<Operation>>;

    /// Takes an operation that no node has, for this long.
    async fn take_operation(&self, hold: Duration) -> Result<Option<Operation>>;

    /// Notes a step, and lets go. `false`: another node has it by now, and nothing was noted.
    async fn advance_operation(&self, step: OperationStep) -> Result<bool>;
}
