//! What goes wrong on purpose.

use std::collections::VecDeque;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing goes wrong: it lets one call through, before the next fault of the script.
    Nothing,
    /// It is not done, and answered with a server's error.
    Fails,
    /// It is not done: there were too many before it.
    RateLimits {
        /// How long to wait, told in the platform's own form.
        retry_after_s: u32,
    },
    /// It is not done, and never answered.
    Hangs,
    /// It is done, and never answered.
    HangsAfter,
    /// It is not done, and the connection is closed without an answer.
    ClosesBefore,
    /// It is done, and the connection is closed without an answer: its sender cannot know.
    ClosesAfter,
}

/// The faults to come, each with the calls it is meant for.
#[derive(Debug, Default)]
pub(super) struct Script(VecDeque<(String, Fault)>);

impl Script {
    pub(super) fn add(&mut self, fragment: &str, fault: Fault) {
        self.0.push_back((fragment.to_owned(), fault));
    }

    /// The first fault that is meant for such a call; it is used up.
    pub(super) fn take(&mut self, is_to: impl Fn(&str) -> bool) -> Fault {
        let place = self.0.iter().position(|(fragment, _)| is_to(fragment));
        place.and_then(|place| self.0.remove(place)).map_or(Fault::Nothing, |(_, fault)| fault)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}
