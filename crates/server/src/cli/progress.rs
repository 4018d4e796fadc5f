//! How far long work is, for whoever watches it on a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(200);

/// One line that is written again and again; nothing where nobody watches.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    shown: Option<Instant>,
    is_watched: bool,
}

impl Progress {
    /// Of this work.
    pub fn new(what: &'static str) -> Progress {
        Progress { what, shown: None, is_watched: std::io::stderr().is_terminal() }
    }

    /// So much of so much.
    pub fn show(&mut self, done: u64, all: u64) {
        if self.is_watched && self.shown.is_none_or(|at| at.elapsed() > PERIOD) {
            self.shown = Some(Instant::now());
            eprint!("\r{} {:3} %", self.what, done.saturating_mul(100) / all.max(1));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
