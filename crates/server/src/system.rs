//! The real clock and real chance.

use std::time::{SystemTime, UNIX_EPOCH};

use wakepost_domain::Timestamp;
use wakepost_domain::ports::{Clock, Entropy};

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The machine's random bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        // Without chance there are no keys and no ids: going on would be worse than stopping.
        getrandom::fill(buffer).expect("the system gives random bytes");
    }
}
