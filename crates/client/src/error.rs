//! What can go wrong with a call, by what the caller can do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a call did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No answer: nobody listens, the name is unknown, or it took too long. The call may still have worked.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The server's base URL.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The server refused, and said why.
    #[error("{0}")]
    Api(Box<Problem>),
    /// The answer is not one that this server gives.
    #[error("the answer is not understood: {0}")]
    Protocol(String),
    /// The call cannot be sent as it is.
    #[error("{0}")]
    Request(String),
}

impl Error {
    /// The server's refusal, if it is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Api(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether the refusal has this stable code.
    pub fn is_code(&self, code: &str) -> bool {
        self.problem().is_some_and(|problem| problem.code == code)
    }

    /// Whether the same call may work later: no answer, 429, or the server's own trouble.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Api(problem) => problem.status == 429 || problem.status >= 500,
            Error::Protocol(_) | Error::Request(_) => false,
        }
    }
}

/// The server's refusal (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A stable word; empty if the answer was not Wakepost's (a proxy's page, say).
    pub code: String,
    /// What kind of problem.
    pub title: String,
    /// What exactly.
    pub detail: Option<String>,
    /// For 422: which fields, and why.
    pub errors: Vec<FieldError>,
    /// How long to wait, from the `Retry-After` header.
    pub retry_after_s: Option<u64>,
}

/// One refused field.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldError {
    /// Its name.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match &self.detail {
            Some(detail) if !detail.is_empty() => detail,
            _ => &self.title,
        };
        write!(f, "{text} ({}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        f.write_str(")")?;
        for error in &self.errors {
            write!(f, "; {}: {}", error.field, error.message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_one_sentence_with_its_fields() {
        let problem = Problem {
            status: 422,
            code: "invalid".to_owned(),
            title: "Invalid request".to_owned(),
            detail: None,
            errors: vec![FieldError {
                field: "note".to_owned(),
                message: "is required".to_owned(),
            }],
            retry_after_s: None,
        };
        assert_eq!(problem.to_string(), "Invalid request (422 invalid); note: is required");
    }
}
