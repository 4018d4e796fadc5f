//! The tenants' keys, wrapped by a master key.

use async_trait::async_trait;
use wakepost_domain::TenantId;

use super::settings::AuditEntry;
use crate::error::Result;
use crate::vault::{MasterKeyId, Sealed, Slot};

/// A key that only a master key opens.
#[derive(Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// Which master key.
    pub master: MasterKeyId,
    /// Nonce, ciphertext and tag.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WrappedKey({})", self.master)
    }
}

/// A stored key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataKeyRow {
    /// Its number, which is in every record that it sealed.
    pub number: i32,
    /// Whose it is.
    pub tenant: TenantId,
    /// The key.
    pub wrapped: WrappedKey,
}

/// The same key, wrapped anew.
#[derive(Debug, Clone)]
pub struct Rewrap {
    /// Which.
    pub number: i32,
    /// As it was seen: nothing changes if it is something else by now.
    pub seen: WrappedKey,
    /// As it shall be.
    pub wrapped: WrappedKey,
}

/// A record that is stored, and where: only its tenant's key opens it, and only there.
#[derive(Debug, Clone)]
pub struct SealedRow {
    /// Whose it is.
    pub tenant: TenantId,
    /// What it is, and of which row.
    pub slot: Slot<'static>,
    /// The record.
    pub record: Sealed,
}

/// Keys, and by what they are wrapped.
#[async_trait]
pub trait DataKeys {
    /// The key of a tenant, and its number; the given one is stored if there is none.
    async fn data_key(&self, tenant: TenantId, candidate: WrappedKey) -> Result<(i32, WrappedKey)>;

    /// How many keys each master key wraps.
    async fn data_keys_by_master(&self) -> Result<Vec<(MasterKeyId, i64)>>;

    /// Keys with a greater number that another master key wraps, by number.
    async fn wrapped_by_others(
        &self,
        master: MasterKeyId,
        after: i32,
        limit: u32,
    ) -> Result<Vec<DataKeyRow>>;

    /// Stores keys as they were wrapped anew, all or none; answers how many were still as seen.
    async fn rewrap(&self, changes: Vec<Rewrap>) -> Result<u64>;

    /// Of each of these tenants some records that its key sealed: the body of its newest event, if that is kept, and the
    /// secrets of a source and of a webhook.
    async fn sealed_by(&self, tenants: Vec<TenantId>) -> Result<Vec<SealedRow>>;

    /// Notes in the audit trail that a rotation begins.
    async fn note_rotation(&self, audit: AuditEntry) -> Result<()>;
}
