//! What goes wrong, and how often: each seed has a temper of its own.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use wakepost_crash::chance::Chance;
use wakepost_store::failpoint::Whim;

/// How often things happen, out of 10,000.
#[derive(Debug, Clone, Copy)]
struct Temper {
    crash: u64,
    fail: u64,
    wait: u64,
    wake_lost: u64,
    answer_lost: u64,
    slow: u64,
}

/// What goes wrong.
pub struct Faults {
    chance: RefCell<Chance>,
    temper: Temper,
    is_on: Cell<bool>,
    is_crashed: Cell<bool>,
    /// How often something failed, waited or was lost.
    acted: Cell<u64>,
}

impl Faults {
    /// The faults of a seed; none until they are switched on.
    pub fn new(seed: u64) -> Faults {
        let mut chance = Chance::new(seed, 1);
        let mut often = |most: u64| if chance.percent(30) { 0 } else { chance.within(0, most) };
        let temper = Temper {
            crash: often(8),
            fail: often(150),
            wait: often(150),
            wake_lost: often(5000),
            answer_lost: often(500),
            slow: often(500),
        };
        Faults {
            chance: RefCell::new(chance),
            temper,
            is_on: Cell::new(false),
            is_crashed: Cell::new(false),
            acted: Cell::new(0),
        }
    }

    /// From now on things go wrong, or they do not.
    pub fn switch(&self, is_on: bool) {
        self.is_on.set(is_on);
    }

    /// Whether things go wrong.
    pub fn are_on(&self) -> bool {
        self.is_on.get()
    }

    /// How often something failed, waited or was lost.
    pub fn acted(&self) -> u64 {
        self.acted.get()
    }

    /// The server is gone.
    pub fn crash(&self) {
        self.is_crashed.set(true);
    }

    /// Whether the server is gone.
    pub fn is_crashed(&self) -> bool {
        self.is_crashed.get()
    }

    /// It is started again.
    pub fn revive(&self) {
        self.is_crashed.set(false);
    }

    /// What happens at a place of the program.
    pub fn at(&self, place: &'static str) -> Option<Whim> {
        if self.is_crashed() {
            return Some(Whim::Crash);
        }
        if !self.are_on() {
            return None;
        }
        let temper = self.temper;
        let happens = |often: u64| self.chance.borrow_mut().within(1, 10_000) <= often;
        if place == "wake.lost" {
            return self.count(happens(temper.wake_lost).then_some(Whim::Fail));
        }
        if happens(temper.crash) {
            self.crash();
            return Some(Whim::Crash);
        }
        // A commit passes several places.
        let share = if place.starts_with("store.") || place.starts_with("sqlite.") { 4 } else { 1 };
        if happens(temper.fail / share) {
            return self.count(Some(Whim::Fail));
        }
        let waits = happens(temper.wait / share);
        let time = waits.then(|| self.chance.borrow_mut().millis(1, 4000));
        self.count(time.map(Whim::Wait))
    }

    /// How long a request or an answer is on its way. Some are overtaken by others.
    pub fn latency(&self) -> Duration {
        let mut chance = self.chance.borrow_mut();
        let is_slow = self.are_on() && chance.within(1, 10_000) <= self.temper.slow;
        chance.millis(0, if is_slow { 5000 } else { 5 })
    }

    /// Whether an answer gets lost on its way.
    pub fn loses_answer(&self) -> bool {
        let lost = self.chance.borrow_mut().within(1, 10_000) <= self.temper.answer_lost;
        self.are_on() && lost
    }

    fn count(&self, whim: Option<Whim>) -> Option<Whim> {
        self.acted.set(self.acted.get() + u64::from(whim.is_some()));
        whim
    }
}
