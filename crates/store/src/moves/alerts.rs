//! Alerts: fired once over all nodes, made worse or ended on the version they were seen at, and told of.

use async_trait::async_trait;
use wakepost_domain::alert::{AlertKind, Severity};
use wakepost_domain::{AlertId, SourceId, TenantId, Timestamp};

use super::read::{Cursor, ReceiptRow};
use crate::error::Result;

/// An alert, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// Its id, which tells when it fired.
    pub id: AlertId,
    /// Whose.
    pub tenant: TenantId,
    /// What is wrong.
    pub kind: AlertKind,
    /// With whom; nothing for the tenant as a whole.
    pub subject: String,
    /// How bad, at its worst.
    pub severity: Severity,
    /// In a few words.
    pub title: String,
    /// In a sentence or two.
    pub detail: String,
    /// How it is, or was when last seen.
    pub value: f64,
    /// From what on it is wrong.
    pub threshold: f64,
    /// Since when all is well again, while it is not over.
    pub good_since: Option<Timestamp>,
    /// When it was over.
    pub resolved_at: Option<Timestamp>,
    /// What somebody must still be told of it.
    pub untold: Untold,
    /// How often it was changed.
    pub version: i64,
}

/// What is to be told of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Untold {
    /// That it fired.
    pub fired: bool,
    /// That it got worse.
    pub escalated: bool,
    /// That it is over.
    pub resolved: bool,
}

impl Untold {
    pub(crate) fn code(self) -> i16 {
        i16::from(self.fired) | i16::from(self.escalated) << 1 | i16::from(self.resolved) << 2
    }

    pub(crate) fn from_code(code: i16) -> Untold {
        let has = |bit: i16| code & bit != 0;
        Untold { fired: has(1), escalated: has(2), resolved: has(4) }
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(self) -> bool {
        self == Untold::default()
    }
}

/// How runs of one source's jobs went, since it was last told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streak {
    /// Whose.
    pub tenant: TenantId,
    /// Which source.
    pub source: SourceId,
    /// Whether one of them succeeded.
    pub broken: bool,
    /// How many failed, since then or at all.
    pub failures: u32,
}

/// Alerts, and what only they look at.
#[async_trait]
pub trait Alerts {
    /// Keeps a new alert, unless one of its tenant, kind and subject fires already; answers whether it was kept.
    async fn fire_alert(&self, alert: Alert) -> Result<bool>;

    /// Changes an alert that is not over, if it still has the version, which then grows by one; answers whether it had.
    async fn change_alert(&self, alert: Alert) -> Result<bool>;

    /// Notes that of an alert this was told.
    async fn alert_told(&self, id: AlertId, told: Untold) -> Result<()>;

    /// Alerts of which something is still to be told, oldest first, from after one of them on.
    async fn untold_alerts(&self, after: Option<AlertId>, limit: u32) -> Result<Vec<Alert>>;

    /// Alerts that fire, of one tenant or of all, newest first.
    async fn firing_alerts(&self, tenant: Option<TenantId>, limit: u32) -> Result<Vec<Alert>>;

    /// A tenant's alerts, newest first: those that fire, those that are over, or all.
    async fn alerts(
        &self,
        tenant: TenantId,
        firing: Option<bool>,
        page: Cursor,
    ) -> Result<Vec<Alert>>;

    /// Notes how runs of sources' jobs went.
    async fn note_streaks(&self, streaks: Vec<Streak>) -> Result<()>;

    /// Sources of a tenant of which at least so many runs failed in a row, and how many did.
    async fn streaks(&self, tenant: TenantId, least: u32) -> Result<Vec<(SourceId, u32)>>;

    /// The errors of a tenant's dead letters that nobody dealt with, the most frequent first, of the latest `look`.
    async fn dead_letter_errors(
        &self,
        tenant: TenantId,
        look: u32,
        limit: u32,
    ) -> Result<Vec<(String, u64)>>;

    /// A tenant's receipts of duplicates since a moment, newest first.
    async fn duplicates_since(
        &self,
        tenant: TenantId,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<ReceiptRow>>;
}
