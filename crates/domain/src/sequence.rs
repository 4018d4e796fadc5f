//! Sequences: events whose payload numbers them, and what happens when a number is missing.

use std::time::Duration;

/// How long an event waits for an earlier one, unless the source says otherwise.
pub const ORDER_WAIT: Duration = Duration::from_secs(30);
/// How long the numbers of an order key are remembered after the last one.
pub const REMEMBERED_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// The flag of an event that ran although an earlier one was missing.
pub const OUT_OF_ORDER: &str = "out_of_order";
/// The flag of an event whose later one had begun before it came.
pub const LATE: &str = "late";
/// The place of an item without a number: behind all that have one.
pub const NO_NUMBER: i64 = i64::MAX;

/// What is known of an order key's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// The one that should come next; none before the first.
    pub next: Option<i64>,
    /// The highest one that was ever run.
    pub begun: Option<i64>,
}

/// How an event's number stands to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is the one that should come, or the first: whatever follows it without a gap may go too.
    Now,
    /// One before it has not come yet.
    Early,
    /// It is lower than one that came, none of which has begun: it still runs before them.
    Before,
    /// A higher one has begun.
    Late,
}

impl Numbers {
    /// The number that should come next. What ran without its earlier ones no longer waits for them.
    pub fn expected(self) -> Option<i64> {
        let after = self.begun.map(|begun| begun.saturating_add(1));
        self.next.max(after)
    }

    /// How a number stands.
    pub fn turn(self, number: i64) -> Turn {
        match self.expected() {
            None => Turn::Now,
            Some(expected) if number == expected => Turn::Now,
            Some(expected) if number > expected => Turn::Early,
            Some(_) if self.begun.is_some_and(|begun| number < begun) => Turn::Late,
            Some(_) => Turn::Before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_sets_the_start() {
        assert_eq!(Numbers::default().turn(17), Turn::Now);
    }

    #[test]
    fn numbers_are_early_in_turn_before_or_late() {
        let known = Numbers { next: Some(6), begun: Some(4) };
        let turns = [3, 4, 5, 6, 7].map(|number| known.turn(number));
        assert_eq!(turns, [Turn::Late, Turn::Before, Turn::Before, Turn::Now, Turn::Early]);
    }

    #[test]
    fn what_ran_without_its_earlier_ones_sets_a_new_start() {
        let known = Numbers { next: Some(6), begun: Some(9) };
        assert_eq!(known.expected(), Some(10));
        assert_eq!(known.turn(10), Turn::Now);
        assert_eq!(known.turn(6), Turn::Late);
    }
}
