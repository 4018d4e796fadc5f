//! Why a run stopped short.

use crate::{Error, Failure};

/// Why a run stopped short. Any error becomes a [`Stop::Failed`] that may be retried, so `?` works.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// It failed: this is reported.
    Failed(Failure),
    /// The run has ended on the server already (held, awaiting approval, lease lost): nothing is reported.
    Ended,
}

impl Stop {
    /// It failed, and may be tried again.
    pub fn retry(error: impl Into<String>) -> Stop {
        Stop::Failed(Failure { error: error.into(), ..Failure::default() })
    }

    /// It failed for good: straight to the dead letters.
    pub fn give_up(error: impl Into<String>) -> Stop {
        Stop::Failed(Failure { error: error.into(), retryable: Some(false), ..Failure::default() })
    }

    /// What a refused call about the job means for the run.
    pub(crate) fn of(error: &Error) -> Stop {
        if error.is_code("lease_lost") { Stop::Ended } else { Stop::retry(error.to_string()) }
    }
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::retry(with_causes(&error))
    }
}

/// An error with what caused it, as one line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
