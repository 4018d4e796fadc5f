//! What clients were told, and nothing else: the checker's whole knowledge.
//!
//! Every call of a client ends here. What contradicts what was told before is a violation at once (`events`,
//! `job`, `runs`, `effects`, `lines`); what must still be there once faults have stopped is asked for at the end (`check`).

mod effects;
mod events;
mod job;
mod lines;
mod runs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard};

pub use effects::{EffectTold, Next};
pub use events::EventTold;
pub use job::{End, JobTold};
pub use lines::Lines;
pub use runs::{Run, Verdict};

/// Violations of one rule that are kept in words; the rest are only counted.
const DESCRIBED_MAX: usize = 8;

/// A rule (a number of the invariants, or a word) and how it was broken.
pub type Problem = (&'static str, String);

/// What clients were told.
#[derive(Debug, Default)]
pub struct Told(Mutex<Inner>);

/// The facts.
#[derive(Debug, Default)]
pub struct Inner {
    /// By the sender's own id.
    pub events: HashMap<String, EventTold>,
    /// By the job's id.
    pub jobs: HashMap<String, JobTold>,
    /// Jobs that wait for each other.
    pub lines: Lines,
    /// Numbers for the report.
    pub counts: Counts,
    /// What the check found in the end.
    pub found: Found,
    /// Which stretch between two faults this is.
    pub round: u32,
    /// Whose effects a job shares, where that is not itself.
    owners: HashMap<String, String>,
    broken: BTreeMap<&'static str, Broken>,
    results: u64,
}

/// What broke one rule: how often, and a few times in words.
#[derive(Debug, Default)]
struct Broken {
    times: usize,
    described: Vec<String>,
}

/// Numbers for the report.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Requests of senders that were answered with an event that was new.
    pub accepted: u64,
    /// Requests of senders that were answered as repeats.
    pub duplicates: u64,
    /// Requests of senders without an answer.
    pub unanswered: u64,
    /// Leases.
    pub leases: u64,
    /// Ends of jobs that a worker was told of; after the check, all ends.
    pub finished: u64,
    /// Acts in the world outside.
    pub executed: u64,
    /// Effects that nobody could vouch for.
    pub in_doubt: u64,
    /// Calls with a stale token that were refused.
    pub stale_refused: u64,
    /// Broken promises.
    pub violations: u64,
}

/// What there is once faults have stopped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Events that are listed.
    pub events: usize,
    /// Jobs that are listed.
    pub jobs: usize,
    /// Jobs that succeeded.
    pub succeeded: usize,
    /// Effects that are committed.
    pub effects: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { duplicates, unanswered, leases, finished, executed, in_doubt, .. } = self;
        write!(
            f,
            "duplicates answered {duplicates}, requests unanswered {unanswered}, leases \
             {leases}, jobs finished {finished}, effects executed {executed}, in doubt {in_doubt}, stale \
             calls refused {}, violations {}",
            self.stale_refused, self.violations
        )
    }
}

impl Told {
    /// The facts, for one look or one change.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics while holding it")
    }

    /// The numbers so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// A promise was broken.
    pub fn violation(&self, rule: &'static str, what: String) {
        self.lock().violation(rule, what);
    }

    /// The rules that were broken.
    pub fn broken(&self) -> BTreeSet<&'static str> {
        self.lock().broken.keys().copied().collect()
    }

    /// The broken promises in words, a few of each kind.
    pub fn described(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (rule, broken) in &self.lock().broken {
            lines.extend(broken.described.iter().map(|what| format!("{rule}: {what}")));
            let more = broken.times - broken.described.len();
            lines.extend((more > 0).then(|| format!("{rule}: {more} more")));
        }
        lines
    }

    /// How many events their senders know to be there.
    pub fn acknowledged(&self) -> usize {
        self.lock().events.values().filter(|event| event.ids.is_some()).count()
    }

    /// A result that no other call carries.
    pub fn new_result(&self) -> u64 {
        let mut inner = self.lock();
        inner.results += 1;
        inner.results
    }
}

impl Inner {
    /// A promise was broken.
    pub fn violation(&mut self, rule: &'static str, what: String) {
        self.counts.violations += 1;
        let broken = self.broken.entry(rule).or_default();
        broken.times += 1;
        if broken.described.len() < DESCRIBED_MAX {
            broken.described.push(what);
        }
    }
}
