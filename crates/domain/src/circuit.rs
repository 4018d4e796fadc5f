//! The circuit breaker of a webhook: when a receiver is given a rest, when it is tried again, and when it is given up.
//!
//! It is pure. Whoever ends a run tells it what came of the run; the store keeps it, and shuts the webhook's lane in
//! the transaction in which it opens.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How many changes are kept of a circuit.
pub const HISTORY_KEPT: usize = 50;
/// In how many parts the window is counted.
const SLOTS: u64 = 12;

/// When a circuit opens and closes. Everything has a usual value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitSettings {
    /// So many failures in a row open it; 0: nothing does.
    pub failures: u32,
    /// So does a share of failures above this, …
    pub rate: f64,
    /// … of at least so many tries, …
    pub min: u32,
    /// … within this time.
    pub window_s: u64,
    /// How long it stays open before one delivery is tried.
    pub open_s: u64,
    /// So many successes in a row close it then.
    pub close_after: u32,
    /// So long after the first opening that no close followed, the webhook is disabled.
    pub disable_after_s: u64,
}

impl Default for CircuitSettings {
    fn default() -> CircuitSettings {
        CircuitSettings {
            failures: 5,
            rate: 0.5,
            min: 20,
            window_s: 3600,
            open_s: 30 * 60,
            close_after: 2,
            disable_after_s: 72 * 3600,
        }
    }
}

impl CircuitSettings {
    /// What is wrong with them: the field, and why.
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let within = |value: u64, least: u64, most: u64| (least..=most).contains(&value);
        if self.failures > 1000 {
            Some(("failures", "must be 0 to 1000"))
        } else if !(0.0..=1.0).contains(&self.rate) {
            Some(("rate", "must be 0 to 1"))
        } else if !within(self.min.into(), 1, 100_000) {
            Some(("min", "must be 1 to 100000"))
        } else if !within(self.window_s, 12, 24 * 3600) {
            Some(("window_s", "must be 12 to 86400"))
        } else if !within(self.open_s, 2, 24 * 3600) {
            // Longer than any node may go by an old copy of the settings.
            Some(("open_s", "must be 2 to 86400"))
        } else if !within(self.close_after.into(), 1, 100) {
            Some(("close_after", "must be 1 to 100"))
        } else if !within(self.disable_after_s, 60, 90 * 24 * 3600) {
            Some(("disable_after_s", "must be 60 to 7776000"))
        } else {
            None
        }
    }

    fn is_off(&self) -> bool {
        self.failures == 0
    }
}

/// Where a circuit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CircuitState {
    /// Deliveries go out.
    #[default]
    Closed,
    /// None does.
    Open,
    /// One at a time does, to see whether the receiver is back.
    HalfOpen,
}

impl CircuitState {
    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            CircuitState::Closed => "closed",
            CircuitState::Open => "open",
            CircuitState::HalfOpen => "half_open",
        }
    }
}

/// A change of a circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// To what.
    pub state: CircuitState,
    /// Why.
    pub reason: String,
}

/// What was counted in one part of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    from: Timestamp,
    ok: u32,
    failed: u32,
}

/// A webhook's circuit, as it is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Circuit {
    /// Where it stands.
    pub state: CircuitState,
    /// Failures in a row.
    pub failures: u32,
    /// Successes in a row since it is half open.
    pub successes: u32,
    /// When it opened last, while it is not closed.
    pub opened_at: Option<Timestamp>,
    /// When it opened first since it was closed.
    pub first_opened_at: Option<Timestamp>,
    /// Until when nothing is tried.
    pub open_until: Option<Timestamp>,
    /// What became of it, newest last.
    pub history: Vec<Change>,
    slots: Vec<Slot>,
}

/// What runs came to, as a circuit counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// When the run began, by the clock that judges leases.
    pub started_at: Timestamp,
    /// Whether it was taken.
    pub ok: bool,
    /// Successes before it that nobody told of yet.
    pub ok_before: u32,
}

impl Circuit {
    /// Whether it has nothing to say about a success: most of the time.
    pub fn is_quiet(&self) -> bool {
        self.state == CircuitState::Closed && self.failures == 0
    }

    /// Whether a run that began then was to see whether the receiver is back. Nothing else begins while it is open.
    pub fn is_probe(&self, started_at: Timestamp) -> bool {
        self.state != CircuitState::Closed
            && self.open_until.is_some_and(|until| started_at >= until)
    }

    /// Counts a run.
    pub fn note(&mut self, settings: &CircuitSettings, outcome: Outcome, now: Timestamp) {
        if outcome.ok_before > 0 {
            self.count(settings, now, outcome.ok_before, 0);
            self.forgive();
        }
        self.count(settings, now, u32::from(outcome.ok), u32::from(!outcome.ok));
        match (self.state, outcome.ok) {
            (CircuitState::Closed, true) => self.forgive(),
            (CircuitState::Closed, false) => {
                self.failures = self.failures.saturating_add(1);
                if let Some(reason) = self.too_many(settings) {
                    self.open(settings, now, reason);
                }
            }
            // It began before the circuit opened: it says nothing of how the receiver is now.
            _ if !self.is_probe(outcome.started_at) => {}
            (_, true) => {
                self.half_open(now);
                self.successes += 1;
                self.failures = 0;
                if self.successes >= settings.close_after {
                    self.close(now, format!("{} tries in a row succeeded", self.successes));
                }
            }
            (_, false) => {
                self.failures = self.failures.saturating_add(1);
                self.open(settings, now, "the try to see whether it is back failed".to_owned());
            }
        }
    }

    /// The time of rest is over: one delivery may be tried. Says whether that is new.
    pub fn half_open(&mut self, now: Timestamp) -> bool {
        let due = self.open_until.is_none_or(|until| now >= until);
        if self.state != CircuitState::Open || !due {
            return false;
        }
        self.successes = 0;
        self.change(now, CircuitState::HalfOpen, "its rest is over".to_owned());
        true
    }

    /// Closes it, whatever was counted.
    pub fn close(&mut self, now: Timestamp, reason: String) {
        let history = std::mem::take(&mut self.history);
        let was = std::mem::take(self);
        self.history = history;
        if was.state != CircuitState::Closed {
            self.change(now, CircuitState::Closed, reason);
        }
    }

    /// When the webhook is given up, if nothing closes it before.
    pub fn disable_at(&self, settings: &CircuitSettings) -> Option<Timestamp> {
        let patience = Duration::from_secs(settings.disable_after_s);
        self.first_opened_at.map(|first| first.after(patience))
    }

    /// When somebody must look at it next, though nothing was tried.
    pub fn due_at(&self, settings: &CircuitSettings) -> Option<Timestamp> {
        let rest = self.open_until.filter(|_| self.state == CircuitState::Open);
        rest.into_iter().chain(self.disable_at(settings)).min()
    }

    fn forgive(&mut self) {
        if self.state == CircuitState::Closed {
            self.failures = 0;
        }
    }

    fn too_many(&self, settings: &CircuitSettings) -> Option<String> {
        if settings.is_off() {
            return None;
        }
        if self.failures >= settings.failures {
            return Some(format!("{} failures in a row", self.failures));
        }
        let (ok, failed) = self.slots.iter().fold((0u64, 0u64), |(ok, failed), slot| {
            (ok + u64::from(slot.ok), failed + u64::from(slot.failed))
        });
        let all = ok + failed;
        let often = all >= u64::from(settings.min) && failed as f64 > settings.rate * all as f64;
        often.then(|| format!("{failed} of {all} tries failed"))
    }

    fn open(&mut self, settings: &CircuitSettings, now: Timestamp, reason: String) {
        self.successes = 0;
        self.slots.clear();
        self.opened_at = Some(now);
        self.first_opened_at.get_or_insert(now);
        self.open_until = Some(now.after(Duration::from_secs(settings.open_s)));
        self.change(now, CircuitState::Open, reason);
    }

    fn change(&mut self, at: Timestamp, state: CircuitState, reason: String) {
        self.state = state;
        self.history.push(Change { at, state, reason });
        if self.history.len() > HISTORY_KEPT {
            self.history.remove(0);
        }
    }

    fn count(&mut self, settings: &CircuitSettings, now: Timestamp, ok: u32, failed: u32) {
        let window = Duration::from_secs(settings.window_s);
        let part = (window.as_millis() as i64 / SLOTS as i64).max(1);
        let oldest = now.before(window);
        // A clock that was set back leaves parts that lie ahead: they say nothing.
        self.slots.retain(|slot| slot.from > oldest && slot.from <= now);
        let from = Timestamp::from_millis(now.as_millis() - now.as_millis().rem_euclid(part));
        match self.slots.last_mut().filter(|slot| slot.from == from) {
            Some(slot) => {
                slot.ok = slot.ok.saturating_add(ok);
                slot.failed = slot.failed.saturating_add(failed);
            }
            None => self.slots.push(Slot { from, ok, failed }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_800_000_000;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(START).after(Duration::from_secs(secs))
    }

    fn run(circuit: &mut Circuit, secs: u64, ok: bool) {
        let outcome = Outcome { started_at: at(secs), ok, ok_before: 0 };
        circuit.note(&CircuitSettings::default(), outcome, at(secs));
    }

    fn opened() -> Circuit {
        let mut circuit = Circuit::default();
        (0..5).for_each(|secs| run(&mut circuit, secs, false));
        circuit
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_success_between_does_not() {
        let mut circuit = Circuit::default();
        for secs in 0..4 {
            run(&mut circuit, secs, false);
        }
        run(&mut circuit, 4, true);
        assert!(circuit.is_quiet());
        for secs in 5..9 {
            run(&mut circuit, secs, false);
        }
        assert_eq!((circuit.state, circuit.failures), (CircuitState::Closed, 4));
        run(&mut circuit, 9, false);
        assert_eq!(circuit.state, CircuitState::Open);
        assert_eq!(circuit.open_until, Some(at(9 + 1800)));
    }

    #[test]
    fn more_than_half_of_twenty_within_an_hour_open_it() {
        let mut circuit = Circuit::default();
        // Two of three fail, never five in a row.
        for secs in 0..19 {
            run(&mut circuit, secs, secs % 3 == 0);
        }
        assert_eq!(circuit.state, CircuitState::Closed);
        run(&mut circuit, 19, false);
        assert_eq!(circuit.state, CircuitState::Open);
        let mut slow = Circuit::default();
        for step in 0..40 {
            run(&mut slow, step * 300, step % 3 == 0);
        }
        assert_eq!(slow.state, CircuitState::Closed, "never twenty within an hour");
    }

    #[test]
    fn successes_that_were_told_of_late_count_before_the_failure() {
        let mut circuit = Circuit::default();
        (0..4).for_each(|secs| run(&mut circuit, secs, false));
        let outcome = Outcome { started_at: at(5), ok: false, ok_before: 30 };
        circuit.note(&CircuitSettings::default(), outcome, at(5));
        assert_eq!((circuit.state, circuit.failures), (CircuitState::Closed, 1));
    }

    #[test]
    fn two_tries_close_it_and_a_failed_one_opens_it_again() {
        use CircuitState::{Closed, HalfOpen, Open};
        let mut circuit = opened();
        assert!(!circuit.half_open(at(4 + 1799)));
        assert!(circuit.half_open(at(4 + 1800)) && !circuit.half_open(at(4 + 1801)));
        run(&mut circuit, 1900, true);
        assert_eq!(circuit.state, HalfOpen);
        run(&mut circuit, 1901, false);
        assert_eq!((circuit.state, circuit.open_until), (Open, Some(at(1901 + 1800))));
        assert_eq!(circuit.first_opened_at, Some(at(4)), "no close followed");
        run(&mut circuit, 4000, true);
        run(&mut circuit, 4001, true);
        assert_eq!(circuit.state, Closed);
        assert_eq!(
            (circuit.first_opened_at, circuit.due_at(&CircuitSettings::default())),
            (None, None)
        );
        let states: Vec<_> = circuit.history.iter().map(|change| change.state).collect();
        assert_eq!(states, [Open, HalfOpen, Open, HalfOpen, Closed]);
    }

    #[test]
    fn what_was_under_way_when_it_opened_changes_nothing() {
        let mut circuit = opened();
        for (secs, ok) in [(2, true), (3, false)] {
            let late = Outcome { started_at: at(secs), ok, ok_before: 0 };
            circuit.note(&CircuitSettings::default(), late, at(30));
        }
        assert_eq!((circuit.state, circuit.open_until), (CircuitState::Open, Some(at(4 + 1800))));
    }

    #[test]
    fn it_is_given_up_72_hours_after_the_first_opening() {
        let settings = CircuitSettings::default();
        let mut circuit = opened();
        let mut tries = 0;
        while circuit.open_until.unwrap() < circuit.disable_at(&settings).unwrap() {
            let due = circuit.due_at(&settings).unwrap();
            assert!(circuit.half_open(due));
            let outcome = Outcome { started_at: due, ok: false, ok_before: 0 };
            circuit.note(&settings, outcome, due);
            tries += 1;
        }
        assert_eq!(circuit.disable_at(&settings), Some(at(4 + 72 * 3600)));
        assert_eq!(tries, 72 * 2 - 1);
        assert_eq!(circuit.history.len(), HISTORY_KEPT);
    }

    #[test]
    fn it_can_be_turned_off() {
        let settings = CircuitSettings { failures: 0, ..CircuitSettings::default() };
        let mut circuit = Circuit::default();
        for secs in 0..100 {
            let outcome = Outcome { started_at: at(secs), ok: false, ok_before: 0 };
            circuit.note(&settings, outcome, at(secs));
        }
        assert_eq!(circuit.state, CircuitState::Closed);
    }

    proptest! {
        #[test]
        fn whatever_happens_it_is_kept_small_and_its_parts_agree(
            steps in prop::collection::vec((0u64..4000, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let settings = CircuitSettings::default();
            let (mut circuit, mut now) = (Circuit::default(), 0);
            for (wait, ok, wakes) in steps {
                now += wait;
                if wakes {
                    circuit.half_open(at(now));
                }
                run(&mut circuit, now, ok);
                prop_assert!(circuit.slots.len() as u64 <= SLOTS + 1);
                prop_assert!(circuit.history.len() <= HISTORY_KEPT);
                prop_assert_eq!(circuit.state == CircuitState::Closed, circuit.opened_at.is_none());
                prop_assert_eq!(circuit.opened_at.is_some(), circuit.disable_at(&settings).is_some());
            }
            let text = serde_json::to_string(&circuit).unwrap();
            prop_assert_eq!(serde_json::from_str::<Circuit>(&text).unwrap(), circuit);
        }
    }
}
