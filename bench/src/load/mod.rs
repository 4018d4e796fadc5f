//! The load generator: many kept connections over a few threads, with as little of its own work as can be,
//! since it shares the cores with what it measures.

pub mod bare_client;
pub mod closed;
pub mod connection;
pub mod paced;
pub mod publications;
pub mod requests;
mod threads;

use std::time::Duration;

use crate::stats::percentile;
use requests::Events;

/// What a connection must be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The status.
    pub status: u16,
    /// A word in the body.
    pub word: &'static str,
}

/// How to load.
#[derive(Debug, Clone)]
pub struct Load {
    /// What to send, and where.
    pub events: Events,
    /// What must come back.
    pub expected: Expected,
    /// Over how many connections.
    pub connections: usize,
    /// Over how many threads.
    pub threads: usize,
    /// How long before the window opens.
    pub warm_up: Duration,
    /// How long the window is.
    pub window: Duration,
}

/// What the window saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Microseconds from request to answer of each exchange in the window, sorted.
    pub micros: Vec<u32>,
    /// Exchanges in all, warm-up included.
    pub exchanges: u64,
    /// How long the window was.
    pub window: Duration,
}

impl Seen {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.micros.len() as f64 / self.window.as_secs_f64()
    }

    /// The latency below which this share lies, in milliseconds.
    pub fn millis(&self, share: f64) -> f64 {
        f64::from(percentile(&self.micros, share)) / 1000.0
    }
}
