//! Settings: tenants, keys, sources, lanes; and who changed what.

use async_trait::async_trait;
use wakepost_domain::access::{Key, Reach, Role};
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::source::SourceConfig;
use wakepost_domain::tenant::{Tenant, TenantSettings};
use wakepost_domain::{AuditId, KeyId, SourceId, TenantId, Timestamp, Ulid};

use super::read::{Cursor, Page};
use crate::error::Result;
use crate::vault::Sealed;

/// A source as it is stored: its secrets sealed.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRecord {
    /// Its id.
    pub id: SourceId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Which adapter understands it.
    pub provider: String,
    /// What may be shown.
    pub config: SourceConfig,
    /// What may not.
    pub secrets: Sealed,
    /// When the secret was made that its requests are verified with.
    pub secret_made_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A key as it is stored: its secret only as a hash.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRecord {
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// The rest.
    pub key: Key,
}

/// Who did what, and why. Written in the transaction of the thing itself.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// Its id, which carries its time.
    pub id: AuditId,
    /// Whose data it touched; none: everybody's.
    pub tenant: Option<TenantId>,
    /// Which key.
    pub actor: String,
    /// What was done (`job.replay`).
    pub action: String,
    /// To what.
    pub target: String,
    /// Why.
    pub note: Option<String>,
}

/// An audit entry, read back.
pub type AuditRow = AuditEntry;

/// Which entries of the audit trail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    /// Whose data was touched. `None`: anybody's.
    pub tenant: Option<TenantId>,
    /// By which key.
    pub actor: Option<String>,
    /// How the action begins (`webhook.`).
    pub action: Option<String>,
    /// What it was done to.
    pub target: Option<String>,
    /// From then on.
    pub since: Option<Timestamp>,
    /// Before then.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// All entries of a tenant.
    pub fn of(tenant: TenantId) -> AuditFilter {
        AuditFilter { tenant: Some(tenant), ..AuditFilter::default() }
    }

    /// Where in the order of ids it begins and ends, with the page's own end.
    pub fn bounds(&self, cursor: Cursor) -> (Ulid, Ulid) {
        let last = cursor.before.unwrap_or(Ulid::MAX);
        let until = self.until.map_or(Ulid::MAX, Ulid::floor);
        (self.since.map_or(Ulid::MIN, Ulid::floor), last.min(until))
    }
}

/// What comes after all texts with a beginning.
pub(crate) fn after_prefix(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}

/// The hash that identifies a lane.
pub(crate) fn lane_hash(key: &LaneKey) -> [u8; 16] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.text().as_bytes());
    digest.as_ref()[..16].try_into().expect("SHA-256 has 32 bytes")
}

/// A caller's promise that a repeat with this key means the same request.
#[derive(Debug, Clone)]
pub struct Idempotency {
    /// Hash over tenant, caller, route and the key itself.
    pub key: [u8; 16],
    /// Hash of the request's body.
    pub body_hash: [u8; 32],
    /// The answer to give again, without secrets.
    pub answer: Sealed,
    /// Until when it is remembered.
    pub until: Timestamp,
}

/// An earlier answer under the same idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// Hash of that request's body: another one is a mistake of the caller's.
    pub body_hash: [u8; 32],
    /// What it was answered.
    pub answer: Sealed,
}

/// What a move under an idempotency key came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Once<T> {
    /// It happened now.
    Now(T),
    /// It had happened before.
    Before(Replayed),
}

/// What operators set up.
#[async_trait]
pub trait Settings {
    /// Makes a tenant. `Exists` if the slug is taken.
    async fn create_tenant(
        &self,
        slug: String,
        settings: TenantSettings,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<Tenant>>;

    /// Changes a tenant. `InvalidState` if its settings are no longer what was seen.
    async fn update_tenant(
        &self,
        tenant: TenantId,
        seen: TenantSettings,
        settings: TenantSettings,
        audit: AuditEntry,
    ) -> Result<()>;

    /// All tenants, by slug.
    async fn tenants(&self) -> Result<Vec<Tenant>>;

    /// Stores a key. `Exists` if its hash is there already.
    async fn create_key(
        &self,
        record: KeyRecord,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// The live key with this hash: neither revoked nor expired.
    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<Key>>;

    /// Keys that are not revoked, newest first. `None`: those of all tenants.
    async fn keys(&self, reach: Option<Reach>) -> Result<Vec<Key>>;

    /// Ends a key at once.
    async fn revoke_key(&self, id: KeyId, reach: Option<Reach>, audit: AuditEntry) -> Result<()>;

    /// Notes that keys were used.
    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<()>;

    /// Notes an action that leaves no other trace in the store.
    async fn note(&self, audit: AuditEntry, once: Option<Idempotency>) -> Result<Once<()>>;

    /// What was answered under an idempotency key, while it is remembered: for calls that do something before they are
    /// stored. Only the transaction that takes the key decides.
    async fn remembered(&self, key: [u8; 16]) -> Result<Option<Replayed>>;

    /// How many keys of a role are live; the first start makes one.
    async fn count_keys(&self, role: Role) -> Result<i64>;

    /// Makes a source.
    async fn create_source(
        &self,
        record: SourceRecord,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// Changes a source, if nobody has since `seen` (its `updated_at`); `InvalidState` otherwise.
    async fn update_source(
        &self,
        record: SourceRecord,
        seen: Timestamp,
        audit: AuditEntry,
    ) -> Result<()>;

    /// Deletes a source. Its events and jobs stay.
    async fn delete_source(&self, tenant: TenantId, id: SourceId, audit: AuditEntry) -> Result<()>;

    /// One source, whosever it is: its id is its public address.
    async fn source(&self, id: SourceId) -> Result<Option<SourceRecord>>;

    /// A tenant's sources, newest first.
    async fn sources(&self, tenant: TenantId, page: Page<SourceId>) -> Result<Vec<SourceRecord>>;

    /// A tenant's enabled sources whose secret was made before a moment, by id. Whether they have one is sealed.
    async fn sources_with_secrets_before(
        &self,
        tenant: TenantId,
        before: Timestamp,
        after: Option<SourceId>,
        limit: u32,
    ) -> Result<Vec<SourceRecord>>;

    /// Tenants that have such sources, or webhooks from before that moment that are not disabled: the next ones by id.
    async fn tenants_with_secrets_before(
        &self,
        before: Timestamp,
        after: Option<TenantId>,
        limit: u32,
    ) -> Result<Vec<TenantId>>;

    /// The lane of a key, made if need be.
    async fn lane(&self, key: LaneKey) -> Result<Lane>;

    /// Lanes by number, but for those of kinds that this program does not know.
    async fn lanes(&self, ids: Vec<LaneId>) -> Result<Vec<Lane>>;

    /// How many lanes a tenant has.
    async fn count_lanes(&self, tenant: TenantId) -> Result<i64>;

    /// The audit trail, newest first.
    async fn audit(&self, filter: AuditFilter, cursor: Cursor) -> Result<Vec<AuditRow>>;
}
