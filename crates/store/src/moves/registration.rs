//! Registrations: what the server itself keeps of a source, apart from what people set.

use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::{SourceId, TenantId, Timestamp};

use crate::error::Result;
use crate::vault::Sealed;

/// What the server keeps of a source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SourceState {
    /// What set-up made at the provider.
    pub registration: Option<Sealed>,
    /// When that ends unless it is renewed.
    pub expires_at: Option<Timestamp>,
    /// How far the provider's changes were read.
    pub position: Option<Sealed>,
    /// How often the position moved.
    pub version: i64,
}

/// A registration that should be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// Whose source it is of.
    pub tenant: TenantId,
    /// Which source.
    pub source: SourceId,
    /// Since when, as seen.
    pub due: Timestamp,
}

/// What set-up and reading leave behind.
#[async_trait]
pub trait Registrations {
    /// What is kept of a source; of one that was never set up, nothing.
    async fn source_state(&self, tenant: TenantId, source: SourceId) -> Result<SourceState>;

    /// Keeps what set-up made. `ends`: when it ends, and when somebody should renew it; none changes neither.
    /// `NotFound` where the source is gone.
    async fn keep_registration(
        &self,
        tenant: TenantId,
        source: SourceId,
        registration: Sealed,
        ends: Option<(Timestamp, Timestamp)>,
    ) -> Result<()>;

    /// Moves the position on, if nobody has since `seen` (its version); answers whether it moved.
    async fn move_position(
        &self,
        tenant: TenantId,
        source: SourceId,
        position: Sealed,
        seen: i64,
    ) -> Result<bool>;

    /// Registrations that should be renewed by now, the longest due first.
    async fn due_renewals(&self, limit: u32) -> Result<Vec<Renewal>>;

    /// Takes a renewal on, for this long; of any number of nodes that try, one does. Unless it keeps a new
    /// registration by then, it is due again.
    async fn claim_renewal(&self, renewal: Renewal, patience: Duration) -> Result<bool>;
}
