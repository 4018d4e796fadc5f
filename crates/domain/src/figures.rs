//! Figures: what was counted in a minute, how latencies were spread in it, and how the queue stood.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::work::Priority;

/// How many minutes are kept: two days.
pub const MINUTES_KEPT: i64 = 48 * 60;

/// What is counted. The number is what it is kept under, and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Requests of providers, whatever became of them.
    Received = 0,
    /// Of these, those with a new event.
    Accepted = 1,
    /// Of these, those with nothing but duplicates.
    Duplicates = 2,
    /// Of these, those that were refused.
    Rejected = 3,
    /// Events that were published.
    Published = 4,
    /// Jobs that succeeded.
    JobsSucceeded = 5,
    /// Runs of jobs that failed.
    JobsFailed = 6,
    /// Jobs that became dead letters.
    JobsDead = 7,
    /// Deliveries that were taken.
    DeliveriesSucceeded = 8,
    /// Tries to deliver that failed.
    DeliveriesFailed = 9,
    /// First tries to deliver.
    FirstAttempts = 10,
    /// Of these, those that were taken.
    FirstAttemptsSucceeded = 11,
    /// Deliveries that became dead letters.
    DeliveriesDead = 12,
}

/// How many figures there are.
const FIGURES: usize = Figure::ALL.len();

impl Figure {
    /// All figures, by their numbers.
    pub const ALL: [Figure; 13] = [
        Figure::Received,
        Figure::Accepted,
        Figure::Duplicates,
        Figure::Rejected,
        Figure::Published,
        Figure::JobsSucceeded,
        Figure::JobsFailed,
        Figure::JobsDead,
        Figure::DeliveriesSucceeded,
        Figure::DeliveriesFailed,
        Figure::FirstAttempts,
        Figure::FirstAttemptsSucceeded,
        Figure::DeliveriesDead,
    ];

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Figure::Received => "received",
            Figure::Accepted => "accepted",
            Figure::Duplicates => "duplicates",
            Figure::Rejected => "rejected",
            Figure::Published => "published",
            Figure::JobsSucceeded => "jobs_succeeded",
            Figure::JobsFailed => "jobs_failed",
            Figure::JobsDead => "jobs_dead",
            Figure::DeliveriesSucceeded => "deliveries_succeeded",
            Figure::DeliveriesFailed => "deliveries_failed",
            Figure::FirstAttempts => "first_attempts",
            Figure::FirstAttemptsSucceeded => "first_attempts_succeeded",
            Figure::DeliveriesDead => "deliveries_dead",
        }
    }
}

/// Where the spreads begin among the numbers that things are kept under.
const ACK_AT: usize = 64;
const DELIVERY_AT: usize = 96;

/// The upper bounds of a spread's parts, in microseconds; what is above the last is in a part of its own.
const BOUNDS_US: [u64; 15] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000, 30_000_000,
];
const PARTS: usize = BOUNDS_US.len() + 1;

/// How latencies were spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread([u64; PARTS]);

impl Spread {
    /// Counts one.
    pub fn observe(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0[BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Spread) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine = mine.saturating_add(more));
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// In milliseconds, what this share of them did not exceed; `None` if there were none. Within a part it goes by the
    /// straight line, so a bound is exceeded only if more than the rest lies above it.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = (share * count as f64).max(f64::MIN_POSITIVE);
        let mut below = 0.0;
        for (part, counted) in self.0.iter().enumerate() {
            let counted = *counted as f64;
            if counted > 0.0 && below + counted >= wanted {
                let low = part.checked_sub(1).map_or(0, |part| BOUNDS_US[part]) as f64;
                let last = BOUNDS_US[BOUNDS_US.len() - 1];
                let high = BOUNDS_US.get(part).copied().unwrap_or(last * 2) as f64;
                let us = low + (high - low) * (wanted - below) / counted;
                return Some((us / 10.0).round() / 100.0);
            }
            below += counted;
        }
        None
    }
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    counts: [u64; FIGURES],
    /// How long accepted requests waited for their answer.
    pub ack: Spread,
    /// How long tries to deliver took.
    pub delivery: Spread,
}

impl Figures {
    /// Counts this many more.
    pub fn count(&mut self, figure: Figure, more: u64) {
        let counted = &mut self.counts[figure as usize];
        *counted = counted.saturating_add(more);
    }

    /// How many there were.
    pub fn get(&self, figure: Figure) -> u64 {
        self.counts[figure as usize]
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Figures) {
        let both = self.counts.iter_mut().zip(other.counts);
        both.for_each(|(mine, more)| *mine = mine.saturating_add(more));
        self.ack.add(&other.ack);
        self.delivery.add(&other.delivery);
    }

    /// As it is kept: the number and the count of each that is not zero, seven bits a byte. A usual minute has some
    /// thirty bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let rooms: [(usize, &[u64]); 3] =
            [(0, &self.counts), (ACK_AT, &self.ack.0), (DELIVERY_AT, &self.delivery.0)];
        for (at, counts) in rooms {
            for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                write(&mut bytes, (at + index) as u64);
                write(&mut bytes, *count);
            }
        }
        bytes
    }

    /// From what is kept. What a newer program counted besides is passed over; `None` for what no program wrote.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Figures> {
        let mut figures = Figures::default();
        while !bytes.is_empty() {
            let (number, count) = (read(&mut bytes)?, read(&mut bytes)?);
            let number = usize::try_from(number).ok()?;
            let room = match number {
                DELIVERY_AT.. => figures.delivery.0.get_mut(number - DELIVERY_AT),
                ACK_AT.. => figures.ack.0.get_mut(number - ACK_AT),
                _ => figures.counts.get_mut(number),
            };
            if let Some(room) = room {
                *room = count;
            }
        }
        Some(figures)
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f).checked_shl(shift)?;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// How a tenant's queue stood at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// How many waited for their turn, by priority.
    pub queue: [u64; 3],
    /// How long ago the first of these was made, by priority.
    pub oldest_age_s: [Option<u64>; 3],
    /// How many waited for another try.
    pub retrying: u64,
    /// Webhooks whose circuit was not closed.
    pub open_circuits: u64,
    /// Dead letters that nobody had dealt with.
    pub dead_letters: u64,
}

impl Sample {
    /// Counts items that wait for their turn.
    pub fn waiting(&mut self, priority: Priority, count: u64, oldest_age_s: u64) {
        let place = priority as usize;
        self.queue[place] += count;
        let oldest = &mut self.oldest_age_s[place];
        *oldest = Some(oldest.map_or(oldest_age_s, |age| age.max(oldest_age_s)));
    }

    /// The greater of each: what a longer time came to.
    pub fn greatest(self, other: Sample) -> Sample {
        let of = |place: usize| self.queue[place].max(other.queue[place]);
        let age = |place: usize| self.oldest_age_s[place].max(other.oldest_age_s[place]);
        Sample {
            queue: [of(0), of(1), of(2)],
            oldest_age_s: [age(0), age(1), age(2)],
            retrying: self.retrying.max(other.retrying),
            open_circuits: self.open_circuits.max(other.open_circuits),
            dead_letters: self.dead_letters.max(other.dead_letters),
        }
    }
}

/// The minute that a moment is in, counted from 1970.
pub fn minute(at: Timestamp) -> i64 {
    at.as_secs().div_euclid(60)
}

/// When a minute begins.
pub fn begins(minute: i64) -> Timestamp {
    Timestamp::from_secs(minute.saturating_mul(60))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spread(of_ms: &[u64]) -> Spread {
        let mut spread = Spread::default();
        of_ms.iter().for_each(|ms| spread.observe(Duration::from_millis(*ms)));
        spread
    }

    #[test]
    fn a_quantile_is_above_a_bound_only_if_more_than_the_rest_is() {
        let half = spread(&[400, 400, 501, 501]);
        assert_eq!(half.quantile_ms(0.5), Some(500.0));
        let most = spread(&[400, 501, 501]);
        assert!(most.quantile_ms(0.5).unwrap() > 500.0);
        assert_eq!(Spread::default().quantile_ms(0.5), None);
        assert!(spread(&[3_600_000]).quantile_ms(0.5).unwrap() > 30_000.0);
    }

    #[test]
    fn what_a_newer_program_counts_is_passed_over() {
        let mut bytes = vec![40, 7];
        let mut figures = Figures::default();
        figures.count(Figure::Published, 300);
        bytes.extend(figures.to_bytes());
        assert_eq!(Figures::from_bytes(&bytes), Some(figures));
        assert_eq!(Figures::from_bytes(&[0x80]), None);
        assert_eq!(Figures::from_bytes(&[0]), None);
    }

    #[test]
    fn every_figure_has_its_place() {
        for (place, figure) in Figure::ALL.into_iter().enumerate() {
            assert_eq!(figure as usize, place);
        }
    }

    #[test]
    fn a_minute_begins_where_the_one_before_ends() {
        let at = Timestamp::from_millis(119_999);
        assert_eq!((minute(at), begins(minute(at))), (1, Timestamp::from_secs(60)));
    }

    proptest! {
        #[test]
        fn figures_read_back_as_written(
            counts in prop::collection::vec(any::<u64>(), FIGURES),
            ms in prop::collection::vec(0u64..100_000, 0..50),
        ) {
            let mut figures = Figures { ack: spread(&ms), ..Figures::default() };
            figures.counts.copy_from_slice(&counts);
            ms.iter().step_by(2).for_each(|ms| figures.delivery.observe(Duration::from_millis(*ms)));
            prop_assert_eq!(Figures::from_bytes(&figures.to_bytes()), Some(figures));
        }

        #[test]
        fn a_quantile_is_in_the_part_of_the_one_it_stands_for(
            mut ms in prop::collection::vec(1u64..40_000, 1..200), share in 0.01f64..1.0,
        ) {
            let told = spread(&ms).quantile_ms(share).unwrap();
            ms.sort_unstable();
            let place = ((share * ms.len() as f64).ceil() as usize).clamp(1, ms.len()) - 1;
            let us = ms[place] * 1000;
            let part = BOUNDS_US.partition_point(|bound| *bound < us);
            let low = part.checked_sub(1).map_or(0, |part| BOUNDS_US[part]);
            let high = BOUNDS_US.get(part).copied().unwrap_or(u64::MAX);
            prop_assert!((low as f64 / 1000.0) <= told && told <= (high as f64 / 1000.0), "{told}");
        }

        #[test]
        fn adding_up_loses_nothing(a in 0u64..1000, b in 0u64..1000) {
            let (mut x, mut y) = (Figures::default(), Figures::default());
            x.count(Figure::Accepted, a);
            y.count(Figure::Accepted, b);
            x.ack.observe(Duration::from_millis(a));
            y.ack.observe(Duration::from_millis(b));
            x.add(&y);
            prop_assert_eq!((x.get(Figure::Accepted), x.ack.count()), (a + b, 2));
        }
    }
}
