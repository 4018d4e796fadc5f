//! What publishers and pullers were told, what receivers saw and answered, and when something was killed.

mod published;
mod pulled;
mod received;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use wakepost_tests::now;

pub use published::Publication;
pub use pulled::{End, Pulled, Turn};
pub use received::Receipt;

use super::hooks::Hook;
use crate::told::Told;

/// What everybody was told and saw.
pub struct Record {
    told: Arc<Told>,
    facts: Mutex<Facts>,
}

/// The facts.
#[derive(Default)]
pub struct Facts {
    /// By their dedup keys.
    pub publications: HashMap<String, Publication>,
    /// What came of an event at a receiver, in the order it came.
    pub receipts: HashMap<(Hook, String), Vec<Receipt>>,
    /// What a webhook's receiver was given for an event: always the same bytes.
    pub bodies: HashMap<(Hook, String), Bytes>,
    /// What pullers know of an event's delivery.
    pub pulled: HashMap<String, Pulled>,
    /// How many events a webhook should have, by what publishers did.
    pub expected: HashMap<Hook, Expected>,
    /// When something was killed, and when all was up again.
    pub faults: Vec<Fault>,
    /// Numbers for the report.
    pub counts: Counts,
}

/// How many events a webhook should have.
#[derive(Debug, Default, Clone, Copy)]
pub struct Expected {
    /// Their publishers know that they are there.
    pub known: u64,
    /// They were asked for, whatever came of it.
    pub asked: u64,
}

/// A time during which nobody knows what was recorded, in Unix milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Before anything was killed.
    pub begin: i64,
    /// When all was up again.
    pub end: i64,
}

/// Numbers for the report.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Events that their publishers know to be there.
    pub acknowledged: u64,
    /// Events that were answered as repeats.
    pub duplicates: u64,
    /// Calls of publishers without an answer.
    pub unanswered: u64,
    /// Requests at receivers.
    pub received: u64,
    /// Those among them that had come before.
    pub again: u64,
    /// Deliveries that pullers were given.
    pub pulled: u64,
    /// What the check found to have succeeded.
    pub succeeded: u64,
    /// What the check found to be dead.
    pub dead: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { acknowledged, duplicates, unanswered, received, again, pulled, .. } = self;
        write!(
            f,
            "events acknowledged {acknowledged}, duplicates answered {duplicates}, calls unanswered {unanswered}, \
             requests received {received} ({again} again), deliveries pulled {pulled}"
        )
    }
}

impl Record {
    /// An empty one. Broken promises go to `told`.
    pub fn new(told: Arc<Told>) -> Record {
        Record { told, facts: Mutex::default() }
    }

    /// The facts, for one look or one change.
    pub fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().expect("nobody panics while holding it")
    }

    /// The numbers so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Something is about to be killed.
    pub fn fault_begins(&self) {
        let begin = now().as_millis();
        self.lock().faults.push(Fault { begin, end: i64::MAX });
    }

    /// All is up again.
    pub fn fault_ends(&self) {
        if let Some(fault) = self.lock().faults.last_mut() {
            fault.end = now().as_millis();
        }
    }
}
