//! How many requests a source takes in a second, where it has a limit.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A bucket that fills at the source's rate and holds one second's worth, so that a burst of that size passes.
#[derive(Debug)]
pub struct Rate {
    per_second: f64,
    state: Mutex<(Instant, f64)>,
}

impl Rate {
    /// A full bucket.
    pub fn new(per_second: f64) -> Rate {
        let holds = per_second.max(1.0);
        Rate { per_second, state: Mutex::new((Instant::now(), holds)) }
    }

    /// Takes one, or says how long until there is one again.
    pub fn take(&self) -> Result<(), Duration> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock();
        let (seen, held) = *state;
        let filled = now.saturating_duration_since(seen).as_secs_f64() * self.per_second;
        let held = (held + filled).min(self.per_second.max(1.0));
        if held >= 1.0 {
            *state = (now.max(seen), held - 1.0);
            return Ok(());
        }
        *state = (now.max(seen), held);
        Err(Duration::from_secs_f64((1.0 - held) / self.per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_one_second_passes_and_then_the_rate() {
        let rate = Rate::new(5.0);
        let start = Instant::now();
        let taken = |after_ms| rate.take_at(start + Duration::from_millis(after_ms)).is_ok();
        assert_eq!((0..10).filter(|_| taken(0)).count(), 5);
        assert!(!taken(199));
        assert!(taken(200));
        assert!(!taken(200));
        assert_eq!((0..10).filter(|_| taken(10_000)).count(), 5, "it holds one second's worth");
    }

    #[test]
    fn a_slow_rate_says_how_long_to_wait() {
        let rate = Rate::new(0.1);
        let start = Instant::now();
        assert_eq!(rate.take_at(start), Ok(()));
        let wait = rate.take_at(start).unwrap_err();
        assert!(wait > Duration::from_secs(9) && wait <= Duration::from_secs(10), "{wait:?}");
    }
}
