//! Bounds: how many run, how many start in a second, how much runs on a day.

use wakepost_domain::budget::Budget;
use wakepost_domain::lane::LaneId;
use wakepost_domain::rate::Rate;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{SourceId, Timestamp, WorkId};
use wakepost_store::moves::{Bound, Cap, CapScope, JobState};

use super::Model;
use crate::call::{Answer, HELD_AT_ONCE, tell};
use crate::planning::unbound;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// A burst is what one second may start.
const SECOND_MS: i64 = 1000;

/// The day of a moment, in UTC.
pub fn day(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

/// The time between two starts. A sequence has only rates for which that is a whole number.
fn gap_ms(rate: Rate) -> i64 {
    [1, 2, 4]
        .into_iter()
        .find(|per_s| Rate::new(f64::from(*per_s)) == Some(rate))
        .map(|per_s| SECOND_MS / i64::from(per_s))
        .expect("a rate of the sequences")
}

impl Model {
    /// How many of a scope run.
    pub fn running(&self, scope: CapScope) -> i64 {
        let counts = |item: &&super::Item| item.is_running() && item.caps.contains(&scope);
        self.items.values().filter(counts).count() as i64
    }

    /// How many more these bounds let start now.
    pub fn room(&self, caps: &[Cap]) -> u32 {
        caps.iter().map(|cap| self.room_of(cap)).min().unwrap_or(u32::MAX)
    }

    fn room_of(&self, cap: &Cap) -> u32 {
        let room = match cap.bound {
            Bound::Running(most) => i64::from(most) - self.running(cap.scope),
            Bound::Rate(rate) => {
                let (gap, ahead) = (gap_ms(rate), self.ahead_ms(cap.scope));
                let burst = SECOND_MS - gap;
                if ahead > burst { 0 } else { (burst - ahead) / gap + 1 }
            }
            Bound::Budget(budget) => {
                let CapScope::Source(source) = cap.scope else { unreachable!("only sources") };
                self.left(source, &budget)
            }
        };
        u32::try_from(room.max(0)).unwrap_or(u32::MAX)
    }

    /// How far starts are ahead of an even pace. A clock that was set back makes nobody wait longer than a burst.
    fn ahead_ms(&self, scope: CapScope) -> i64 {
        let next = self.next_starts_ms.get(&scope).copied().unwrap_or(0);
        (next - self.now.as_millis()).clamp(0, SECOND_MS)
    }

    /// How many more runs a day's budget has.
    fn left(&self, source: SourceId, budget: &Budget) -> i64 {
        let today = (source, day(self.now));
        let (runs, cost) = self.spent.get(&today).copied().unwrap_or_default();
        if budget.cost_per_day.is_some_and(|most| cost >= most) {
            return 0;
        }
        budget.runs_per_day.map_or(i64::MAX, |most| i64::from(most) - runs)
    }

    /// One start counts by all these bounds.
    pub(super) fn count_start(&mut self, caps: &[Cap]) {
        for cap in caps {
            match (cap.bound, cap.scope) {
                (Bound::Rate(rate), scope) => {
                    let next = self.now.as_millis() + self.ahead_ms(scope) + gap_ms(rate);
                    self.next_starts_ms.insert(scope, next);
                }
                (Bound::Budget(_), CapScope::Source(source)) => {
                    self.spent.entry((source, day(self.now))).or_default().0 += 1;
                }
                // Who runs is counted by who runs.
                _ => {}
            }
        }
    }

    /// A run says what it cost in all so far. It counts for the day it began on.
    pub(super) fn cost(&mut self, id: WorkId, cost: f64) {
        let item = self.item(id);
        let before = item.costs.insert(item.row.fence, cost).unwrap_or(0.0);
        let all = item.costs.values().sum();
        item.kept.get_or_insert_with(JobState::default).cost = Some(all);
        let (lane, started) = (item.row.lane, item.row.started_at.expect("it runs"));
        if item.caps.is_empty() {
            return;
        }
        if let Some(source) = self.origins[&lane]
            && let Some(spent) = self.spent.get_mut(&(source, day(started)))
        {
            spent.1 += cost - before;
        }
    }

    pub(super) fn hold_over(&mut self, lane: LaneId, source: SourceId, budget: &Budget) -> Answer {
        if self.left(source, budget) > 0 {
            return tell(Ok(0u32));
        }
        let held: Vec<_> =
            self.ready(&unbound(lane)).into_iter().take(HELD_AT_ONCE as usize).collect();
        for id in &held {
            let row = &mut self.item(*id).row;
            row.state = State::Held;
            row.held = Some(HeldReason::Budget);
        }
        tell(Ok(held.len() as u32))
    }
}
