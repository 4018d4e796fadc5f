//! What goes wrong, and how often: each seed has a temper of its own.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use wakepost_crash::chance::Chance;
use wakepost_store::failpoint::{Passing, Whim};

use crate::places::Places;
use crate::time::Time;

/// Places that every move of the store passes patiently: before its commit, and between the commit and the answer.
const MOVES: [&str; 2] = ["store.busy", "store.after_commit"];
/// How long the server may deal with what went wrong: its longest lease of its own, renewals and repeats.
const AFTERMATH: Duration = Duration::from_secs(60);
/// The first passes of each place, and how much likelier it is that something goes wrong there: else next to nothing ever
/// would at those that are seldom passed.
const FIRST_PASSES: u64 = 4;
const FIRST_TIMES: u64 = 10;

/// How often things happen, out of 10,000.
#[derive(Debug, Clone, Copy)]
struct Temper {
    crash: u64,
    fail: u64,
    wait: u64,
    wake_lost: u64,
    answer_lost: u64,
    slow: u64,
    /// How long any move of the store takes at most, before its commit and after it, in milliseconds.
    drag_ms: u64,
}

/// When things go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Season {
    /// At the first start, while the database is made.
    Beginning,
    /// Not now.
    Calm,
    /// While clients are at work.
    Load,
}

/// What goes wrong.
pub struct Faults {
    time: Arc<Time>,
    chance: RefCell<Chance>,
    temper: Temper,
    season: Cell<Season>,
    is_crashed: Cell<bool>,
    /// When the life began that lasts, if it does not end before the story, but by a crash.
    lasting_since: Cell<Option<Duration>>,
    /// How often something failed, waited or was lost.
    acted: Cell<u64>,
    /// When anything did, or the server was gone; lost hints apart, which undo nothing.
    moments: RefCell<Vec<Duration>>,
    /// Where anything could.
    places: RefCell<Places>,
}

impl Faults {
    /// The faults of a seed.
    pub fn new(seed: u64, time: Arc<Time>) -> Faults {
        let mut chance = Chance::new(seed, 1);
        let mut often = |most: u64| if chance.percent(30) { 0 } else { chance.within(0, most) };
        let temper = Temper {
            crash: often(8),
            fail: often(150),
            wait: often(150),
            wake_lost: often(5000),
            answer_lost: often(500),
            slow: often(500),
            drag_ms: often(40),
        };
        Faults {
            time,
            chance: RefCell::new(chance),
            temper,
            season: Cell::new(Season::Beginning),
            is_crashed: Cell::new(false),
            lasting_since: Cell::default(),
            acted: Cell::new(0),
            moments: RefCell::default(),
            places: RefCell::default(),
        }
    }

    /// From now on it is this season.
    pub fn turn(&self, season: Season) {
        self.season.set(season);
    }

    /// Whether things go wrong while clients are at work.
    pub fn are_on(&self) -> bool {
        self.season.get() == Season::Load
    }

    /// Whether nothing goes wrong.
    pub fn is_calm(&self) -> bool {
        self.season.get() == Season::Calm
    }

    /// Where something could go wrong, and did.
    pub fn places(&self) -> Places {
        self.places.borrow().clone()
    }

    /// How often something failed, waited or was lost.
    pub fn acted(&self) -> u64 {
        self.acted.get()
    }

    /// Whether nothing went wrong at this moment, and for so long after it that its traces are gone.
    pub fn is_quiet_after(&self, moment: Duration) -> bool {
        let aftermath = moment..=moment + AFTERMATH;
        !self.moments.borrow().iter().any(|at| aftermath.contains(at))
    }

    /// The server begins a life, whose time is limited or not.
    pub fn begin_life(&self, lasts: bool) {
        self.lasting_since.set(lasts.then(|| self.time.passed()));
    }

    /// How long the server has lived a life that lasts as long as nothing goes wrong.
    pub fn lasting_for(&self) -> Option<Duration> {
        self.lasting_since.get().map(|since| self.time.passed().saturating_sub(since))
    }

    /// Whether the server is gone.
    pub fn is_crashed(&self) -> bool {
        self.is_crashed.get()
    }

    /// The server is gone, by a crash or because its time was up, and will be started again.
    pub fn revive(&self) {
        self.is_crashed.set(false);
        self.disturb();
    }

    fn disturb(&self) {
        self.moments.borrow_mut().push(self.time.passed());
    }

    /// What goes wrong at a place of the program.
    pub fn at(&self, place: &'static str, passing: Passing) -> Option<Whim> {
        if self.is_crashed() {
            return Some(Whim::Crash);
        }
        if self.is_calm() {
            return None;
        }
        let passes = self.places.borrow_mut().passed(place);
        let whim = self.whim(place, passing, passes);
        if whim.is_some() {
            self.places.borrow_mut().acted(place);
        }
        whim
    }

    fn whim(&self, place: &'static str, passing: Passing, passes: u64) -> Option<Whim> {
        let temper = self.temper;
        let happens = |often: u64| self.chance.borrow_mut().within(1, 10_000) <= often;
        if place == "wake.lost" {
            return self.count(happens(temper.wake_lost).then_some(Whim::Fail));
        }
        let times = if passes <= FIRST_PASSES { FIRST_TIMES } else { 1 };
        if happens(temper.crash * times) {
            self.is_crashed.set(true);
            self.disturb();
            return Some(Whim::Crash);
        }
        // A commit passes several places.
        let share = if place.starts_with("store.") || place.starts_with("sqlite.") { 4 } else { 1 };
        if happens(temper.fail * times / share) {
            self.disturb();
            return self.count(Some(Whim::Fail));
        }
        if passing == Passing::AtOnce || !happens(temper.wait * times / share) {
            return None;
        }
        self.disturb();
        let time = self.chance.borrow_mut().millis(1, 4000);
        self.count(Some(Whim::Wait(time)))
    }

    /// What a move of the store takes at this place, where nothing goes wrong.
    pub fn drag(&self, place: &'static str) -> Option<Whim> {
        let drags = self.are_on() && self.temper.drag_ms > 0 && MOVES.contains(&place);
        let time = drags.then(|| self.chance.borrow_mut().millis(0, self.temper.drag_ms));
        time.filter(|time| !time.is_zero()).map(Whim::Wait)
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
