//! How long history is kept.

use std::time::Duration;

use wakepost_domain::retention::{Ages, History, days, days_before};
use wakepost_domain::{Timestamp, figures};
use wakepost_store::moves::PruneBefore;

/// Days, by kind of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Headers and bodies.
    pub bodies_days: u64,
    /// Events.
    pub events_days: u64,
    /// Finished work, its runs and effects.
    pub runs_days: u64,
    /// Dead letters, with their events and bodies.
    pub dead_letters_days: u64,
    /// Receipts.
    pub receipts_days: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            bodies_days: 30,
            events_days: 90,
            runs_days: 30,
            dead_letters_days: 30,
            receipts_days: 7,
        }
    }
}

impl Retention {
    /// Of one kind.
    pub fn days(&self, kind: History) -> u64 {
        match kind {
            History::Bodies => self.bodies_days,
            History::Events => self.events_days,
            History::Runs => self.runs_days,
            History::DeadLetters => self.dead_letters_days,
            History::Receipts => self.receipts_days,
        }
    }

    /// How long a dedup key blocks: for its window, and never for less long than bodies are kept.
    pub fn blocks_for(&self, window: Duration) -> Duration {
        window.max(days(self.bodies_days))
    }

    /// What may go now.
    pub fn before(&self, now: Timestamp) -> PruneBefore {
        let before = |kind| days_before(now, self.days(kind));
        PruneBefore {
            bodies: before(History::Bodies),
            events: before(History::Events),
            runs: before(History::Runs),
            dead_letters: before(History::DeadLetters),
            receipts: before(History::Receipts),
            figures: figures::begins(figures::minute(now) - figures::MINUTES_KEPT),
        }
    }

    /// What may go now of a tenant with ages of its own, if it keeps less of that kind than the server.
    pub fn own_before(&self, own: &Ages, kind: History, now: Timestamp) -> Option<Timestamp> {
        let days = own.days(kind).map(u64::from).filter(|days| *days < self.days(kind))?;
        Some(days_before(now, days))
    }
}
