//! How long to wait before the same call again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LAST: Duration = Duration::from_secs(15);

/// Doubles from a quarter of a second to 15 s, each spread over half to all of it, so that workers that lost
/// their server together do not come back together.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    pub(crate) fn next(&mut self) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.tries.min(10)).min(LAST);
        self.tries += 1;
        // A hasher with random keys is all the chance this needs.
        let chance = RandomState::new().build_hasher().finish() as u32;
        whole.mul_f64(0.5 + f64::from(chance) / f64::from(u32::MAX) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_stay_bounded() {
        let mut backoff = Backoff::default();
        let first = backoff.next();
        assert!(first >= FIRST / 2 && first <= FIRST);
        let last = (0..100).map(|_| backoff.next()).last().expect("a wait");
        assert!(last >= LAST / 2 && last <= LAST);
    }
}
