//! How far long work is: a bar on a terminal, nothing where nobody looks.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Bulk work whose end is not known before it is there.
const OPEN: &str = "{spinner} {pos} {msg} ({per_sec}, {elapsed})";
/// Work of a known length.
const BOUNDED: &str = "{bar:30} {pos}/{len} {msg} ({per_sec}, {eta} left)";
/// How often a bar moves by itself, to show that somebody is there.
const TICK: Duration = Duration::from_millis(120);

/// A bar on standard error that goes when it is dropped.
pub struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
}

impl Progress {
    /// For work that prints nothing until it is through.
    pub fn beside_nothing(what: &'static str) -> Progress {
        Progress::new(what, None, io::stderr().is_terminal())
    }

    /// For work that prints as it goes: on a terminal that is all one has to see.
    pub fn beside_output(what: &'static str, total: Option<u64>) -> Progress {
        let is_shown = io::stderr().is_terminal() && !io::stdout().is_terminal();
        Progress::new(what, total.filter(|total| *total > 1), is_shown)
    }

    fn new(what: &'static str, total: Option<u64>, is_shown: bool) -> Progress {
        let bar = is_shown.then(|| {
            let (bar, template) = match total {
                Some(total) => (ProgressBar::new(total), BOUNDED),
                None => (ProgressBar::no_length(), OPEN),
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message(what);
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress { bar, what }
    }

    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// So many are done, and so many failed.
    pub fn at(&self, done: u64, failed: u64) {
        let Some(bar) = &self.bar else {
            return;
        };
        bar.set_position(done);
        if failed > 0 {
            bar.set_message(format!("{}, {failed} failed", self.what));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
