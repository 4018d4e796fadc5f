//! How the queue of a tenant stands.

use async_trait::async_trait;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Timestamp};

use crate::error::Result;

/// Items of a lane that stand alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCount {
    /// Which lane.
    pub lane: LaneId,
    /// Where they stand.
    pub state: State,
    /// Whether they could be claimed now: due, behind no other, in a lane that is not shut.
    pub ready: bool,
    /// Who runs them, if they run.
    pub worker: Option<String>,
    /// How many.
    pub count: i64,
    /// When the first of them was made.
    pub oldest: Timestamp,
    /// When the latest run of them began, if there was one.
    pub started_at: Option<Timestamp>,
}

/// How a tenant's live work stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveCounts {
    /// The moment, by the database's clock.
    pub now: Timestamp,
    /// Counts by lane, state and worker.
    pub lanes: Vec<LiveCount>,
    /// Whether there is more than was looked at.
    pub cut_off: bool,
}

impl LiveCounts {
    pub(crate) fn new(now: Timestamp, lanes: Vec<LiveCount>, limit: u32) -> LiveCounts {
        let looked: i64 = lanes.iter().map(|lane| lane.count).sum();
        LiveCounts { now, lanes, cut_off: looked >= i64::from(limit) }
    }
}

/// How the queue stands.
#[async_trait]
pub trait Stats {
    /// How a tenant's live work stands, of which at most `limit` items are looked at, the oldest ones.
    async fn live_work(&self, tenant: TenantId, limit: u32) -> Result<LiveCounts>;
}
