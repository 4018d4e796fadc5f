//! Simulated time: it goes on only when nobody has anything to do, and over all lives of the server.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;

/// When every simulation begins.
const BEGINNING_MS: i64 = 1_790_000_000_000;

/// How far the server's clock may be behind what it showed before, in milliseconds: for more, and in several steps, no order
/// is promised (docs/guarantees.md).
pub const BACK_MS_MAX: i64 = 60_000;

/// How long the simulation has lasted, and by how much the server's clock is off. Each life of the server has a runtime
/// of its own, and with it a paused clock that begins anew.
#[derive(Debug, Default)]
pub struct Time(Mutex<Inner>);

#[derive(Debug, Default, Clone, Copy)]
struct Inner {
    /// What had passed when this life began.
    before: Duration,
    /// When it began; none between two lives.
    began: Option<Instant>,
    stepped_ms: i64,
    /// The latest that the clock showed before it was set, in Unix milliseconds.
    latest_ms: i64,
    steps: u32,
}

impl Time {
    /// A life begins; within its runtime.
    pub fn begin(&self) {
        self.lock().began = Some(Instant::now());
    }

    /// It ends; within its runtime.
    pub fn end(&self) {
        let passed = self.passed();
        let mut inner = self.lock();
        (inner.before, inner.began) = (passed, None);
    }

    /// How long the simulation has lasted.
    pub fn passed(&self) -> Duration {
        let inner = *self.lock();
        inner.before + inner.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// The moment of this life at which so much will have passed.
    pub fn moment(&self, passed: Duration) -> Instant {
        let inner = *self.lock();
        let began = inner.began.unwrap_or_else(Instant::now);
        began + passed.saturating_sub(inner.before)
    }

    /// Somebody sets the server's clock, not too far back; answers by how much.
    pub fn step(&self, by_ms: i64) -> i64 {
        let now = self.now().as_millis();
        let mut inner = self.lock();
        inner.latest_ms = inner.latest_ms.max(now);
        let by_ms = by_ms.max(inner.latest_ms - BACK_MS_MAX - now);
        (inner.stepped_ms, inner.steps) = (inner.stepped_ms + by_ms, inner.steps + 1);
        by_ms
    }

    /// How often somebody did.
    pub fn steps(&self) -> u32 {
        self.lock().steps
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

/// The server's clock.
impl Clock for Time {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.passed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(BEGINNING_MS + passed + self.lock().stepped_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_steps_back_are_together_no_more_than_a_minute() {
        let time = Time::default();
        let steps = [-50_000, -50_000, 30_000, -40_000, 100_000, -60_000].map(|by| time.step(by));
        assert_eq!(steps, [-50_000, -10_000, 30_000, -30_000, 100_000, -60_000]);
    }
}
