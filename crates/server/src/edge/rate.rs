//! How many requests a source takes in a second, where it has a limit.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wakepost_domain::SourceId;

/// How many sources with a limit are remembered; beyond it all start anew.
const SOURCES_MAX: usize = 50_000;

/// The buckets of this node. They outlive the copies of a source, which are read anew every second where there
/// are many nodes.
#[derive(Debug, Default)]
pub struct Rates {
    by_source: Mutex<HashMap<SourceId, Rate>>,
}

impl Rates {
    /// Takes a place of a source with this limit, or says how long until there is one.
    pub fn take(&self, source: SourceId, per_second: f64) -> Result<(), Duration> {
        let now = Instant::now();
        let mut by_source = self.by_source.lock();
        if by_source.len() >= SOURCES_MAX {
            by_source.clear();
        }
        let rate = by_source.entry(source).or_insert_with(|| Rate::new(per_second, now));
        if rate.per_second != per_second {
            *rate = Rate::new(per_second, now);
        }
        rate.take_at(now)
    }
}

/// A bucket that fills at the source's rate and holds one second's worth, so that a burst of that size passes.
#[derive(Debug)]
struct Rate {
    per_second: f64,
    seen: Instant,
    held: f64,
}

impl Rate {
    /// A full bucket.
    fn new(per_second: f64, now: Instant) -> Rate {
        Rate { per_second, seen: now, held: per_second.max(1.0) }
    }

    /// Takes one, or says how long until there is one again.
    fn take_at(&mut self, now: Instant) -> Result<(), Duration> {
        let filled = now.saturating_duration_since(self.seen).as_secs_f64() * self.per_second;
        self.seen = now.max(self.seen);
        self.held = (self.held + filled).min(self.per_second.max(1.0));
        if self.held >= 1.0 {
            self.held -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.held) / self.per_second))
    }
}

#[cfg(test)]
mod tests {
    use wakepost_domain::Ulid;

    use super::*;

    #[test]
    fn a_burst_of_one_second_passes_and_then_the_rate() {
        let start = Instant::now();
        let mut rate = Rate::new(5.0, start);
        let mut taken = |after_ms| rate.take_at(start + Duration::from_millis(after_ms)).is_ok();
        assert_eq!((0..10).filter(|_| taken(0)).count(), 5);
        assert!(!taken(199));
        assert!(taken(200));
        assert!(!taken(200));
        assert_eq!((0..10).filter(|_| taken(10_000)).count(), 5, "it holds one second's worth");
    }

    #[test]
    fn a_slow_rate_says_how_long_to_wait() {
        let start = Instant::now();
        let mut rate = Rate::new(0.1, start);
        assert_eq!(rate.take_at(start), Ok(()));
        let wait = rate.take_at(start).unwrap_err();
        assert!(wait > Duration::from_secs(9) && wait <= Duration::from_secs(10), "{wait:?}");
    }

    #[test]
    fn each_source_has_its_own_bucket_and_a_new_limit_a_new_one() {
        let rates = Rates::default();
        let [one, two] = [1, 2].map(|byte| SourceId(Ulid::from_bytes([byte; 16])));
        assert!(rates.take(one, 0.01).is_ok());
        assert!(rates.take(one, 0.01).is_err());
        assert!(rates.take(two, 0.01).is_ok());
        assert!(rates.take(one, 0.02).is_ok());
        assert!(rates.take(one, 0.02).is_err());
    }
}
