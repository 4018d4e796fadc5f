//! Rates: how many may start in a second, kept as one moment a counter.
//!
//! The moment is when the next start would be due if starts came evenly. It runs ahead of the clock with each
//! start, by the time between two; how far ahead it may be is the burst. So a rate needs no timer and no queue of
//! its own, and every node that reads the moment under its lock agrees.

use crate::time::Timestamp;

/// The highest rate that can be set: beyond it a rate bounds nothing.
pub const RATE_MAX: f64 = 1e6;

/// What a burst may bring forward: one second's worth.
const BURST_MS: f64 = 1000.0;

/// Part of a start that is forgiven, so that sums of fractions that should be whole are.
const HAIR: f64 = 1e-6;

/// So many starts a second. Fractions are fine: 0.5 is one start every two seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(f64);

impl Rate {
    /// A rate, if it is above zero and not beyond [`RATE_MAX`].
    pub fn new(per_s: f64) -> Option<Rate> {
        (per_s > 0.0 && per_s <= RATE_MAX).then_some(Rate(per_s))
    }

    /// How many may start now.
    pub fn room(self, next_at_ms: f64, now: Timestamp) -> u32 {
        let starts = (HAIR - self.beyond_ms(next_at_ms, now) / self.gap_ms()).floor() + 1.0;
        // Converting cuts off at zero and at the largest number.
        starts as u32
    }

    /// The moment after this many starts.
    pub fn after(self, next_at_ms: f64, now: Timestamp, starts: u32) -> f64 {
        self.moment(next_at_ms, now) + f64::from(starts) * self.gap_ms()
    }

    /// When at least one may start, or might have. Reckoned from now: a moment in milliseconds since 1970 is coarser than
    /// the part of a start that is forgiven, and whoever rests until then must find room.
    pub fn free_at(self, next_at_ms: f64, now: Timestamp) -> Timestamp {
        let wait_ms = (self.beyond_ms(next_at_ms, now) - HAIR * self.gap_ms()).ceil() as i64;
        let wait_ms = match self.room(next_at_ms, now) {
            0 => wait_ms.max(1),
            _ => wait_ms.min(0),
        };
        Timestamp::from_millis(now.as_millis() + wait_ms)
    }

    /// How much further ahead the moment is than one more start allows.
    fn beyond_ms(self, next_at_ms: f64, now: Timestamp) -> f64 {
        self.moment(next_at_ms, now) - now.as_millis() as f64 - self.burst_ms()
    }

    /// Never in the past, since what was not used is not saved up; and never further ahead than this rate itself
    /// can bring it, since the rate may have been lower before, and the clock may have been set back.
    fn moment(self, next_at_ms: f64, now: Timestamp) -> f64 {
        let now = now.as_millis() as f64;
        next_at_ms.max(now).min(now + self.burst_ms() + self.gap_ms())
    }

    fn gap_ms(self) -> f64 {
        1000.0 / self.0
    }

    /// How far ahead the moment may be for one more start.
    fn burst_ms(self) -> f64 {
        (BURST_MS - self.gap_ms()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEVER: f64 = 0.0;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + ms)
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e6] {
            assert_eq!(Rate::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_burst_is_one_seconds_worth_and_at_least_one() {
        for (rate, burst) in [(0.5, 1), (1.0, 1), (2.5, 2), (10.0, 10), (3000.0, 3000)] {
            assert_eq!(Rate::new(rate).unwrap().room(NEVER, at(0)), burst, "{rate}");
        }
    }

    #[test]
    fn half_a_start_a_second_is_one_every_two_seconds() {
        let rate = Rate::new(0.5).unwrap();
        let next = rate.after(NEVER, at(0), 1);
        assert_eq!(rate.room(next, at(1999)), 0);
        assert_eq!(rate.free_at(next, at(0)), at(2000));
        assert_eq!(rate.room(next, at(2000)), 1);
    }

    /// Found by the property below: the moment had lost what was forgiven.
    #[test]
    fn who_rests_until_a_start_is_free_finds_room() {
        let rate = Rate::new(72.763_019_954_107_01).unwrap();
        let next = rate.after(NEVER, at(0), 45);
        let next = rate.after(next, at(17), 28);
        let free = rate.free_at(next, at(17));
        assert!(free > at(17) && rate.room(next, at(17)) == 0);
        assert_eq!(rate.room(next, free), 1);
    }

    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let rate = Rate::new(5.0).unwrap();
        let next = rate.after(NEVER, at(0), 5);
        assert_eq!(rate.room(next, at(3_600_000)), 5);
    }

    #[test]
    fn a_higher_rate_counts_at_once_and_so_does_a_clock_that_was_set_back() {
        let slow = Rate::new(0.001).unwrap();
        let next = slow.after(NEVER, at(0), 1);
        let fast = Rate::new(10.0).unwrap();
        assert!(fast.free_at(next, at(0)) <= at(100));
        let next = fast.after(NEVER, at(3_600_000), 10);
        assert!(fast.free_at(next, at(0)) <= at(100));
    }

    proptest! {
        /// However starts are asked for, in any second and a bit there are no more than the rate and its burst.
        #[test]
        fn starts_never_exceed_the_rate_and_its_burst(
            per_s in 0.1f64..500.0,
            asks in proptest::collection::vec((0i64..700, 1u32..50), 1..80),
        ) {
            let rate = Rate::new(per_s).unwrap();
            let (mut next, mut now, mut starts) = (NEVER, 0i64, Vec::new());
            for (wait, asked) in asks {
                now += wait;
                let given = asked.min(rate.room(next, at(now)));
                if given > 0 {
                    next = rate.after(next, at(now), given);
                    starts.push((now, given));
                }
                prop_assert_eq!(rate.room(next, at(now)) > 0, rate.free_at(next, at(now)) <= at(now));
            }
            for (index, (from, _)) in starts.iter().enumerate() {
                let mut total = 0;
                for (moment, given) in &starts[index..] {
                    total += given;
                    let span = (moment - from) as f64 / 1000.0;
                    prop_assert!(f64::from(total) <= span * per_s + per_s.max(1.0) + 1e-3);
                }
            }
        }
    }
}
