//! How long history is kept: its kinds, and what a tenant says of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A kind of history, with an age of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// Headers and bodies.
    Bodies,
    /// Events.
    Events,
    /// Finished work, its runs and effects; but for dead letters.
    Runs,
    /// Dead letters, with all that is theirs.
    DeadLetters,
    /// Receipts.
    Receipts,
}

impl History {
    /// All kinds.
    pub const ALL: [History; 5] =
        [History::Bodies, History::Events, History::Runs, History::DeadLetters, History::Receipts];

    /// What its age is called in settings.
    pub fn setting(self) -> &'static str {
        match self {
            History::Bodies => "bodies_days",
            History::Events => "events_days",
            History::Runs => "runs_days",
            History::DeadLetters => "dead_letters_days",
            History::Receipts => "receipts_days",
        }
    }
}

/// For how many days a tenant's history is kept, by kind, where that is less than the server keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ages {
    /// Headers and bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bodies_days: Option<u32>,
    /// Events, with their bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_days: Option<u32>,
    /// Finished work, its runs and effects; but for dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_days: Option<u32>,
    /// Dead letters, with all that is theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters_days: Option<u32>,
    /// Receipts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts_days: Option<u32>,
}

impl Ages {
    /// Of one kind.
    pub fn days(&self, kind: History) -> Option<u32> {
        match kind {
            History::Bodies => self.bodies_days,
            History::Events => self.events_days,
            History::Runs => self.runs_days,
            History::DeadLetters => self.dead_letters_days,
            History::Receipts => self.receipts_days,
        }
    }

    /// Sets that of one kind.
    pub fn set(&mut self, kind: History, days: Option<u32>) {
        *match kind {
            History::Bodies => &mut self.bodies_days,
            History::Events => &mut self.events_days,
            History::Runs => &mut self.runs_days,
            History::DeadLetters => &mut self.dead_letters_days,
            History::Receipts => &mut self.receipts_days,
        } = days;
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Ages::default()
    }

    /// Before when an event may be without its work, or the other way round.
    pub fn whole_since(&self, now: Timestamp) -> Option<Timestamp> {
        let days = [self.events_days, self.runs_days, self.dead_letters_days];
        days.into_iter().flatten().min().map(|days| days_before(now, days.into()))
    }
}

/// So many days, however many.
pub fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(24 * 3600))
}

/// The moment so many days before another, and not before 1970: nothing is older.
pub fn days_before(now: Timestamp, days: u64) -> Timestamp {
    now.before(self::days(days)).max(Timestamp::from_millis(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_days_is_too_many() {
        let now = Timestamp::from_secs(1_700_000_000);
        assert_eq!(days(2), Duration::from_secs(172_800));
        assert!(now.after(days(u64::MAX)) > now.after(days(1_000_000)));
        assert_eq!(days_before(now, u64::MAX), Timestamp::from_millis(0));
    }
}
