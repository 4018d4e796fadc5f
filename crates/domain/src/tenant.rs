//! The unit of isolation: every row, key, lane and page belongs to one tenant.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::executor::Executor;
use crate::retention::Ages;
use crate::time::Timestamp;

/// A tenant's number in the database. Clients know it by its slug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub i32);

impl TenantId {
    /// The tenant that is always there, with the slug `default`.
    pub const DEFAULT: TenantId = TenantId(1);
}

/// The slug of the tenant that is always there.
pub const DEFAULT_SLUG: &str = "default";

/// One tenant and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Its number.
    pub id: TenantId,
    /// The name chosen by the user: lower-case letters, digits and hyphens.
    pub slug: String,
    /// What can be changed.
    pub settings: TenantSettings,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What a tenant's administrator can change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantSettings {
    /// A name for people.
    pub name: String,
    /// The tenant's share of claims, beside others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// How many of its jobs may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many of its jobs may start in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// How its jobs run, where the source does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_executor: Option<Executor>,
    /// How often its jobs are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_s: Option<Vec<u64>>,
    /// Whether only events of registered types may be published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_types: Option<bool>,
    /// How many webhooks it may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_webhooks: Option<u32>,
    /// How long each attempt at a delivery waits, the first one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_s: Option<Vec<u64>>,
    /// How long its history is kept, where that is less than the server keeps it.
    #[serde(skip_serializing_if = "Ages::is_empty")]
    pub retention: Ages,
    /// Events or their work from before this may be gone, by an age that was changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_before: Option<Timestamp>,
}

impl TenantSettings {
    /// Sets how long history is kept, and remembers what may be gone by then.
    pub fn keep_for(&mut self, retention: Ages, now: Timestamp) {
        self.gone_before = self.whole_since(now);
        self.retention = retention;
    }

    /// From when on every event has its work: before, one of them may have gone by the tenant's own ages.
    pub fn whole_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.retention.whole_since(now).max(self.gone_before)
    }

    /// The tenant's weight in turns, at least one.
    pub fn turn_weight(&self) -> u32 {
        self.weight.unwrap_or(1).max(1)
    }

    /// The tenant's backoff, if it has its own.
    pub fn backoff(&self) -> Option<Vec<Duration>> {
        self.backoff_s.as_ref().map(|list| list.iter().copied().map(Duration::from_secs).collect())
    }
}

/// Whether a text may be a tenant's slug: 1 to 63 of `a-z`, `0-9` and inner hyphens.
pub fn is_slug(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::days_before;

    #[test]
    fn what_an_age_took_is_remembered_when_the_age_is_raised() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let mut settings = TenantSettings::default();
        settings.keep_for(Ages { bodies_days: Some(1), ..Ages::default() }, now);
        assert_eq!(settings.whole_since(now), None, "a body may always be gone");
        settings
            .keep_for(Ages { runs_days: Some(3), events_days: Some(7), ..Ages::default() }, now);
        assert_eq!(settings.whole_since(now), Some(days_before(now, 3)));
        settings.keep_for(Ages::default(), now);
        assert_eq!(settings.whole_since(now), Some(days_before(now, 3)));
        let later = now.after(Duration::from_secs(30 * 24 * 3600));
        assert_eq!(settings.whole_since(later), Some(days_before(now, 3)));
    }

    #[test]
    fn slugs_are_plain() {
        assert!(["a", "acme", "acme-2", "0"].iter().all(|slug| is_slug(slug)));
        assert!(
            ["", "-a", "a-", "A", "a b", "*", "ä", &"a".repeat(64)]
                .iter()
                .all(|slug| !is_slug(slug))
        );
    }
}
