//! Budgets: how much of a source's work may run on one day.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// The largest cost a run may report, and the largest a day may have.
pub const COST_MAX: f64 = 1e12;

/// What a source may use on one day, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The most runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_day: Option<u32>,
    /// The most that its runs may cost, in the units that workers report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_day: Option<f64>,
    /// What happens beyond it.
    #[serde(default)]
    pub over: Over,
}

/// What becomes of work that is over its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// It waits for the next day.
    #[default]
    Wait,
    /// It is held: an operator decides.
    Refuse,
}

/// What was used of a day's budget.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Runs that started.
    pub runs: i64,
    /// What they cost so far.
    pub cost: f64,
}

impl Budget {
    /// The same, but nothing is ever over it: what an operator let go is counted, and runs.
    pub fn only_counted(self) -> Budget {
        Budget { runs_per_day: None, cost_per_day: None, ..self }
    }

    /// How many more runs may start. What runs already may still cost more than is left: a run's cost is known
    /// only once it was told.
    pub fn room(&self, spent: Spent) -> u32 {
        if self.cost_per_day.is_some_and(|most| spent.cost >= most) {
            return 0;
        }
        let runs =
            self.runs_per_day.map_or(i64::from(u32::MAX), |most| i64::from(most) - spent.runs);
        u32::try_from(runs.max(0)).unwrap_or(u32::MAX)
    }

    /// When there is, or again will be, something left: today began, or tomorrow begins.
    pub fn free_at(&self, spent: Spent, now: Timestamp) -> Timestamp {
        let days = day(now) + i64::from(self.room(spent) == 0);
        Timestamp::from_millis(days * DAY_MS)
    }
}

/// The number of a moment's day, in UTC.
pub fn day(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

/// Whether a cost can be one: a number, not below zero, not absurd.
pub fn is_cost(cost: f64) -> bool {
    (0.0..=COST_MAX).contains(&cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_bounds_the_tighter_one_holds() {
        let budget = Budget { runs_per_day: Some(10), cost_per_day: Some(5.0), over: Over::Wait };
        assert_eq!(budget.room(Spent { runs: 4, cost: 4.9 }), 6);
        assert_eq!(budget.room(Spent { runs: 12, cost: 0.0 }), 0);
        assert_eq!(budget.room(Spent { runs: 0, cost: 5.0 }), 0);
        assert!(budget.only_counted().room(Spent { runs: 12, cost: 50.0 }) > 0);
    }

    #[test]
    fn a_spent_budget_is_free_when_the_next_day_begins() {
        let budget = Budget { runs_per_day: Some(1), ..Budget::default() };
        let noon: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let spent = Spent { runs: 1, cost: 0.0 };
        assert_eq!(budget.free_at(spent, noon).to_string(), "2026-11-17T00:00:00.000Z");
        let today = budget.free_at(Spent::default(), noon);
        assert_eq!(today.to_string(), "2026-11-16T00:00:00.000Z");
    }

    #[test]
    fn a_cost_is_a_plain_number_that_is_not_negative() {
        assert!([0.0, 0.5, 1e12].into_iter().all(is_cost));
        assert!([-0.1, f64::NAN, f64::INFINITY, 1e13].into_iter().all(|cost| !is_cost(cost)));
    }
}
