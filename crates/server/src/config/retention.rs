//! How long history is kept.

use std::time::Duration;

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
    /// What may go now.
    pub fn before(&self, now: Timestamp) -> PruneBefore {
        let days = |days: u64| now.before(Duration::from_secs(days * 24 * 3600));
        PruneBefore {
            bodies: days(self.bodies_days),
            events: days(self.events_days),
            runs: days(self.runs_days),
            dead_letters: days(self.dead_letters_days),
            receipts: days(self.receipts_days),
            figures: figures::begins(figures::minute(now) - figures::MINUTES_KEPT),
        }
    }
}
