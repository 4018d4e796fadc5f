//! A conversation with a provider's API, step by step: what to send next follows from what was answered.

use http::StatusCode;
use serde_json::Value;
use wakepost_domain::failure;

use crate::payload::text_at;
use crate::registration::{Answered, ApiCall};
use crate::settings::ConfigError;

/// More than this of what a provider said against a call is left out.
const SAID_CHARS_MAX: usize = 300;

/// What comes next.
#[derive(Debug)]
pub enum Step<T> {
    /// Send this, and come again with the answer.
    Call(ApiCall),
    /// Keep this as the source's registration, and come again: what follows may already lead to requests.
    Keep(Value),
    /// It is over.
    Done(T),
    /// It cannot go on.
    Failed(Failure),
}

/// Why a conversation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, for people; never a secret.
    pub error: String,
    /// Whether another try makes sense.
    pub retryable: bool,
}

impl Failure {
    /// One that comes again however often it is tried.
    pub(crate) fn lasting(error: impl Into<String>) -> Failure {
        Failure { error: error.into(), retryable: false }
    }

    /// One that may not come again.
    pub(crate) fn passing(error: impl Into<String>) -> Failure {
        Failure { error: error.into(), retryable: true }
    }

    /// What an answer that is no success means.
    pub(crate) fn of(label: &str, answered: &Answered<'_>) -> Failure {
        let status = answered.status;
        let retryable = status.is_server_error()
            || matches!(
                status,
                StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
            );
        let said: Value = serde_json::from_slice(answered.body).unwrap_or_default();
        let words = ["/error/message", "/message", "/error_description", "/error"];
        let words = words.into_iter().find_map(|pointer| text_at(&said, pointer));
        let words: String = words.unwrap_or_default().chars().take(SAID_CHARS_MAX).collect();
        Failure { error: failure::answered(label, status.as_u16(), &words), retryable }
    }
}

impl From<ConfigError> for Failure {
    fn from(problem: ConfigError) -> Failure {
        Failure::lasting(problem.to_string())
    }
}

impl<T> From<Result<Step<T>, Failure>> for Step<T> {
    fn from(step: Result<Step<T>, Failure>) -> Step<T> {
        step.unwrap_or_else(Step::Failed)
    }
}

/// A conversation under way. It sends nothing itself.
pub trait Exchange<T>: Send {
    /// The next step. `answered`: what the call just before came to; none at the start and after all else.
    fn next(&mut self, answered: Option<&Answered<'_>>) -> Step<T>;
}

/// A conversation of one call.
pub(crate) struct OneCall<F> {
    call: Option<ApiCall>,
    read: F,
}

impl<F> OneCall<F> {
    pub(crate) fn new(call: ApiCall, read: F) -> OneCall<F> {
        OneCall { call: Some(call), read }
    }
}

impl<T, F> Exchange<T> for OneCall<F>
where
    F: FnMut(&Answered<'_>) -> Result<T, Failure> + Send,
{
    fn next(&mut self, answered: Option<&Answered<'_>>) -> Step<T> {
        match (self.call.take(), answered) {
            (Some(call), _) => Step::Call(call),
            (None, Some(answered)) => (self.read)(answered).map(Step::Done).into(),
            (None, None) => Step::Failed(Failure::passing("the call was not answered")),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn failure(status: u16, body: &str) -> Failure {
        let (status, headers) = (StatusCode::from_u16(status).unwrap(), HeaderMap::new());
        Failure::of("Acme", &Answered { status, headers: &headers, body: body.as_bytes() })
    }

    #[test]
    fn what_is_wrong_for_a_while_is_tried_again_and_what_stays_wrong_is_not() {
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert!(failure(status, "").retryable, "{status}");
        }
        for status in [301, 400, 401, 403, 404, 410, 422] {
            assert!(!failure(status, "").retryable, "{status}");
        }
    }

    #[test]
    fn the_providers_own_words_are_told_in_short() {
        assert_eq!(failure(500, "<html>").error, "Acme answered 500");
        assert_eq!(failure(404, r#"{"message":"none"}"#).error, "Acme answered 404: none");
        let google = r#"{"error":{"code":403,"message":"no access"}}"#;
        assert_eq!(failure(403, google).error, "Acme answered 403: no access");
        let long = format!(r#"{{"error":"{}"}}"#, "é".repeat(1000));
        assert_eq!(failure(400, &long).error.chars().count(), 19 + SAID_CHARS_MAX);
    }
}
