//! Fixtures: requests that were kept to be sent again.

use async_trait::async_trait;
use wakepost_domain::{EventId, TenantId, Ulid, limits};

use super::read::Cursor;
use super::settings::{AuditEntry, Idempotency, Once};
use crate::error::{Result, StoreError};
use crate::vault::Sealed;

/// What a fixture is, without what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixture {
    /// Its place in lists, which carries the time it was kept; the record is bound to it.
    pub id: Ulid,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name, one of a kind within its tenant.
    pub name: String,
    /// Who sent the request.
    pub provider: String,
    /// What it told of; of a body that holds many, the event it was kept from.
    pub event_type: String,
    /// The event it was kept from.
    pub event: EventId,
    /// How long the body is.
    pub body_bytes: i64,
}

impl Fixture {
    /// Its tenant has one of that name.
    pub(crate) fn taken(&self) -> StoreError {
        StoreError::Exists(format!("there is a fixture {} already", self.name))
    }

    /// Its tenant has as many as it may.
    pub(crate) fn too_many() -> StoreError {
        let most = limits::FIXTURES_PER_TENANT_MAX;
        StoreError::Limit(format!("a tenant keeps at most {most} fixtures: delete one first"))
    }
}

/// What is kept until somebody deletes it.
#[async_trait]
pub trait Fixtures {
    /// Keeps a request. `Exists` if its tenant has one of that name, `Limit` if it has too many.
    async fn keep_fixture(
        &self,
        fixture: Fixture,
        content: Sealed,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// One fixture, with headers and body.
    async fn fixture(&self, tenant: TenantId, name: String) -> Result<Option<(Fixture, Sealed)>>;

    /// A tenant's fixtures, newest first.
    async fn fixtures(&self, tenant: TenantId, page: Cursor) -> Result<Vec<Fixture>>;

    /// Deletes a fixture.
    async fn delete_fixture(&self, tenant: TenantId, name: String, audit: AuditEntry)
    -> Result<()>;
}
