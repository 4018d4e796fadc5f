//! Marks: lower bounds that keep the queue's walks from index entries of rows that are gone.
//!
//! Under an old snapshot (a dump, a slow report) vacuum cannot remove such entries, and without a bound
//! each walk along an index would read past all of them. A mark is only ever a cache: it ends by itself
//! after a while, and the next walk looks at everything.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wakepost_domain::lane::LaneId;

use super::claim::millis;

/// No row enters the queue with a `run_at` older than this: it is longer than any hot statement may
/// take, and `run_at` is never set into the past.
pub const LOW_LAG: Duration = Duration::from_secs(15);
/// How long a mark is trusted. What it could hide (a row that another claim had locked and then gave
/// back, or one from before the database's clock was set back) is found at the latest after this.
const TRUST: Duration = Duration::from_secs(10);
const LOW_MARKS_MAX: usize = 65_536;

/// Per lane, the oldest `run_at` that may still be ready. Under an old snapshot (a dump, a slow report)
/// vacuum cannot remove the index entries of finished items; without this, each claim would read past all
/// of them.
#[derive(Default)]
pub struct LowMarks {
    marks: Mutex<HashMap<LaneId, LowMark>>,
}

struct LowMark {
    run_at: i64,
    since: Instant,
}

impl LowMarks {
    /// The bound for the next claim; zero: look at everything.
    pub fn low(&self, lane: LaneId) -> i64 {
        let marks = self.marks.lock();
        marks.get(&lane).filter(|mark| mark.since.elapsed() < TRUST).map_or(0, |mark| mark.run_at)
    }

    /// After a claim that was bounded by `low` and got rows: nothing ready is older than the oldest of
    /// them, or, if there were fewer than asked for, nothing ready is left. Only a claim that looked at
    /// everything makes the mark trusted anew.
    pub fn learn(&self, lane: LaneId, low: i64, oldest: Option<i64>, now: i64) {
        let run_at = oldest.unwrap_or(now).min(now - millis(LOW_LAG));
        let mut marks = self.marks.lock();
        if low == 0 {
            if marks.len() >= LOW_MARKS_MAX {
                marks.clear();
            }
            marks.insert(lane, LowMark { run_at, since: Instant::now() });
        } else if let Some(mark) = marks.get_mut(&lane) {
            mark.run_at = mark.run_at.max(run_at);
        }
    }
}

/// How long before the latest look a lease that ended is looked at again: its rescue may have failed.
const RESCUE_LAG: Duration = Duration::from_secs(60);

/// The end of the oldest lease that may still have to be rescued.
#[derive(Default)]
pub struct RescueMark {
    mark: Mutex<Option<(i64, Instant)>>,
}

impl RescueMark {
    /// The bound for the next look; zero: look at everything.
    pub fn low(&self) -> i64 {
        let mark = *self.mark.lock();
        mark.filter(|(_, since)| since.elapsed() < RESCUE_LAG).map_or(0, |(low, _)| low)
    }

    /// After a look, bounded by `low`, that saw all leases which had ended by `now`.
    pub fn learn(&self, low: i64, now: i64) {
        let next = now - millis(RESCUE_LAG);
        let mut mark = self.mark.lock();
        match &mut *mark {
            _ if low == 0 => *mark = Some((next, Instant::now())),
            Some((known, _)) => *known = next.max(*known),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    #[test]
    fn a_lane_nobody_claimed_from_has_no_lower_bound() {
        assert_eq!(LowMarks::default().low(LaneId(1)), 0);
    }

    #[test]
    fn a_full_claim_bounds_the_next_by_its_oldest_row_and_a_short_one_by_the_recent_past() {
        let marks = LowMarks::default();
        marks.learn(LaneId(1), 0, Some(50), NOW);
        assert_eq!(marks.low(LaneId(1)), 50);
        marks.learn(LaneId(1), 50, None, NOW);
        assert_eq!(marks.low(LaneId(1)), NOW - 15_000);
        assert_eq!(marks.low(LaneId(2)), 0);
    }

    #[test]
    fn a_bound_never_covers_what_a_slow_statement_may_still_commit() {
        let marks = LowMarks::default();
        marks.learn(LaneId(1), 0, Some(NOW - 10), NOW);
        assert_eq!(marks.low(LaneId(1)), NOW - 15_000);
    }

    #[test]
    fn after_a_look_at_everything_the_next_starts_a_little_before_it() {
        let mark = RescueMark::default();
        assert_eq!(mark.low(), 0);
        mark.learn(0, NOW);
        assert_eq!(mark.low(), NOW - 60_000);
        mark.learn(NOW - 60_000, NOW + 5_000);
        assert_eq!(mark.low(), NOW - 55_000);
    }
}
