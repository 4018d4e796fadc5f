//! How long a failed attempt waits before the next.

use std::time::Duration;

/// A list of delays, the last of which repeats, each spread by jitter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    delays: Vec<Duration>,
}

/// Jobs: three attempts, after 10 s and 60 s, and 5 min for any further.
pub const JOB_ATTEMPTS: u32 = 3;

/// How often a reply is tried.
pub const REPLY_ATTEMPTS: u32 = 5;

/// How often what goes to somebody's webhook is tried: over about 37 hours.
pub const DELIVERY_ATTEMPTS: u32 = 10;
/// How long each of these tries but the first waits, in seconds.
const DELIVERY_DELAYS_S: [u64; 9] = [10, 30, 60, 300, 900, 3600, 4 * 3600, 8 * 3600, 24 * 3600];
const JOB_DELAYS: [Duration; 3] =
    [Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(300)];

/// The longest a delay may be, whatever was asked for.
pub const DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

impl Backoff {
    /// The delays of a policy; the default ones if it has none.
    pub fn new(delays: Vec<Duration>) -> Backoff {
        if delays.is_empty() { Backoff::default() } else { Backoff { delays } }
    }

    /// The delays of what goes to somebody's webhook.
    pub fn deliveries() -> Backoff {
        Backoff { delays: DELIVERY_DELAYS_S.map(Duration::from_secs).to_vec() }
    }

    /// How long to wait after attempt number `attempt` (the first is 1) has failed. `fraction` is chance
    /// in `0.0..1.0` and spreads the delay over half to one and a half of what the policy says.
    pub fn after(&self, attempt: u32, fraction: f64) -> Duration {
        let index = (attempt.max(1) as usize - 1).min(self.delays.len() - 1);
        let spread = 0.5 + fraction.clamp(0.0, 1.0);
        self.delays[index].min(DELAY_MAX).mul_f64(spread).min(DELAY_MAX)
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { delays: JOB_DELAYS.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn jobs_wait_ten_then_sixty_then_three_hundred_seconds() {
        let backoff = Backoff::default();
        let middle = |attempt| backoff.after(attempt, 0.5).as_secs();
        assert_eq!([middle(1), middle(2), middle(3), middle(9)], [10, 60, 300, 300]);
    }

    #[test]
    fn deliveries_are_tried_for_about_37_hours() {
        let backoff = Backoff::deliveries();
        let waits = (1..DELIVERY_ATTEMPTS).map(|attempt| backoff.after(attempt, 0.5).as_secs());
        assert_eq!(waits.clone().take(3).collect::<Vec<_>>(), [10, 30, 60]);
        assert_eq!(waits.sum::<u64>() / 3600, 37);
    }

    proptest! {
        #[test]
        fn jitter_stays_between_half_and_one_and_a_half(
            delays in prop::collection::vec(0u64..1_000_000, 0..5),
            attempt: u32,
            fraction in 0.0..1.0f64,
        ) {
            let backoff = Backoff::new(delays.into_iter().map(Duration::from_secs).collect());
            let (low, wait, high) =
                (backoff.after(attempt, 0.0), backoff.after(attempt, fraction), backoff.after(attempt, 1.0));
            prop_assert!(low <= wait && wait <= high && high <= DELAY_MAX);
        }
    }
}
