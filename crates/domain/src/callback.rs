//! Callbacks: a job's outcome on its way to whoever asked for it.

use serde::{Deserialize, Serialize};

use crate::work::State;

/// The address that a job names for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCallback {
    /// Where its outcome goes.
    pub url: String,
    /// Whether an administrator of all tenants named it: it may then be private.
    #[serde(default)]
    pub trusted: bool,
}

/// The word for a job's outcome; none while it has none.
pub fn outcome_type(state: State) -> Option<&'static str> {
    match state {
        State::Succeeded => Some("job.succeeded"),
        State::Cancelled => Some("job.cancelled"),
        State::DeadLetter => Some("job.dead_lettered"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_final_state_has_a_word_and_no_other_has() {
        for state in State::ALL {
            assert_eq!(outcome_type(state).is_some(), state.is_terminal(), "{state:?}");
        }
    }
}
