//! Figures over time: what nodes counted in each minute, and how queues stood.

use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::TenantId;
use wakepost_domain::figures::{Figures, Sample};

use crate::error::{Result, StoreError};

/// Something of a tenant and a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InMinute<T> {
    /// Whose.
    pub tenant: TenantId,
    /// Which minute, counted from 1970.
    pub minute: i64,
    /// What.
    pub what: T,
}

/// What of a tenant is counted only now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Dead letters that nobody dealt with, as far as they were counted.
    pub dead_letters: u64,
    /// Webhooks whose circuit is not closed.
    pub open_circuits: u64,
}

/// Figures over time.
#[async_trait]
pub trait Series {
    /// Keeps what a node counted, in place of what it told of the same minutes before: a repeat counts nothing twice.
    async fn keep_figures(&self, node: i64, figures: Vec<InMinute<Figures>>) -> Result<()>;

    /// Keeps how queues stood, in place of what was known of the same minutes.
    async fn keep_samples(&self, samples: Vec<InMinute<Sample>>) -> Result<()>;

    /// What all nodes counted for a tenant, minute by minute, oldest first. `until` is the first minute that is left out.
    async fn figures(&self, tenant: TenantId, from: i64, until: i64)
    -> Result<Vec<(i64, Figures)>>;

    /// How a tenant's queue stood, oldest first. `until` is the first minute that is left out.
    async fn samples(&self, tenant: TenantId, from: i64, until: i64) -> Result<Vec<(i64, Sample)>>;

    /// How all tenants' queues stood when they were looked at last, unless that was before a minute.
    async fn latest_samples(&self, since: i64) -> Result<Vec<Sample>>;

    /// Tenants that have live work, dead letters that nobody dealt with, or figures since a minute: the next ones by id.
    async fn busy_tenants(
        &self,
        since: i64,
        after: Option<TenantId>,
        limit: u32,
    ) -> Result<Vec<TenantId>>;

    /// How a tenant stands beside its queue; dead letters are counted up to `dead_max`.
    async fn standing(&self, tenant: TenantId, dead_max: u32) -> Result<Standing>;

    /// Takes the turn to do something that one node should do, unless another took it less than `hold` ago.
    async fn take_turn(&self, what: &'static str, hold: Duration) -> Result<bool>;
}

/// What nodes counted, by minute: each node's row is added to its minute's.
pub(crate) fn summed(rows: Vec<(i64, Vec<u8>)>) -> Result<Vec<(i64, Figures)>> {
    let mut minutes: Vec<(i64, Figures)> = Vec::new();
    for (minute, counted) in rows {
        let counted = Figures::from_bytes(&counted)
            .ok_or_else(|| StoreError::Corrupt("figures cannot be read".to_owned()))?;
        match minutes.last_mut() {
            Some((last, figures)) if *last == minute => figures.add(&counted),
            _ => minutes.push((minute, counted)),
        }
    }
    Ok(minutes)
}
