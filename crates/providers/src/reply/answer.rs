//! What a platform's answer means: done, worth another try, or in doubt.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use wakepost_domain::failure;

use super::{ReplyFailure, ReplyStep};
use crate::registration::Answered;

/// What is longer is cut: it is for an operator to read.
const SAID_CHARS_MAX: usize = 300;

/// Nobody waits longer than this, whatever a platform says.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The JSON of an answer; nothing if it is none.
pub(super) fn json(answered: &Answered<'_>) -> Value {
    serde_json::from_slice(answered.body).unwrap_or_default()
}

/// The failure that the status alone tells of. A call that does not act is never in doubt.
pub(super) fn failure(
    answered: &Answered<'_>,
    acts: bool,
    platform: &str,
    said: Option<&str>,
) -> ReplyFailure {
    let status = answered.status;
    let said = readable(said.unwrap_or_default());
    let error = failure::answered(platform, status.as_u16(), &said);
    let is_temporary = matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
    );
    // A good status with a body that nobody can read is no promise either way.
    let is_unclear = status.is_server_error() || status.is_success();
    ReplyFailure {
        error,
        retryable: is_temporary || is_unclear,
        retry_after: retry_after(answered.headers),
        doubtful: acts && is_unclear,
        replaced_is_gone: false,
    }
}

/// A failure that no further try would change.
pub(super) fn refused(error: impl Into<String>) -> ReplyFailure {
    ReplyFailure { error: error.into(), ..ReplyFailure::default() }
}

/// A look-up that could not be carried through: whether the part is there stays in doubt.
pub(super) fn still_in_doubt(failure: ReplyFailure) -> ReplyStep {
    ReplyStep::Failed(ReplyFailure { doubtful: true, ..failure })
}

/// `Retry-After` in seconds, also with a fraction.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    seconds(headers.get("retry-after")?.to_str().ok()?.trim().parse().ok()?)
}

/// A wait in seconds, rounded up so that nobody comes too early.
pub(super) fn seconds(seconds: f64) -> Option<Duration> {
    let ms = (seconds * 1000.0).ceil();
    (ms >= 0.0).then(|| Duration::from_millis(ms as u64).min(WAIT_MAX))
}

/// What a platform said, on one line and not too long.
pub(super) fn readable(said: &str) -> String {
    let line = said.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(SAID_CHARS_MAX).collect()
}

/// The same without a secret, should the platform repeat it.
pub(super) fn without(text: &str, secret: &str) -> String {
    if secret.is_empty() { text.to_owned() } else { text.replace(secret, "…") }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_status_says_what_may_be_tried_again_and_what_is_in_doubt() {
        for (status, retryable, doubtful) in [
            (200, true, true),
            (302, false, false),
            (400, false, false),
            (401, false, false),
            (403, false, false),
            (404, false, false),
            (408, true, false),
            (409, false, false),
            (425, true, false),
            (429, true, false),
            (500, true, true),
            (502, true, true),
            (503, true, true),
            (504, true, true),
        ] {
            let (headers, status) = (HeaderMap::new(), StatusCode::from_u16(status).unwrap());
            let answered = Answered { status, headers: &headers, body: b"" };
            let failure = failure(&answered, true, "It", None);
            assert_eq!((failure.retryable, failure.doubtful), (retryable, doubtful), "{status}");
            assert!(!super::failure(&answered, false, "It", None).doubtful);
        }
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_bounded() {
        let wait = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            retry_after(&HeaderMap::from_iter([(http::header::RETRY_AFTER, value)]))
        };
        assert_eq!(wait("30"), Some(Duration::from_secs(30)));
        assert_eq!(wait("0.0305"), Some(Duration::from_millis(31)));
        for endless in ["1e300", "99999999999", "inf"] {
            assert_eq!(wait(endless), Some(WAIT_MAX));
        }
        for none in ["-1", "NaN", "soon", "", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(wait(none), None, "{none}");
        }
    }

    #[test]
    fn what_was_said_is_one_bounded_line_without_the_secret() {
        let said = readable(&"a\r\nb".repeat(1000));
        assert_eq!(said.chars().count(), SAID_CHARS_MAX);
        assert!(!said.contains(['\r', '\n']));
        assert_eq!(without("bot TOKEN is bad", "TOKEN"), "bot … is bad");
        assert_eq!(without("as it is", ""), "as it is");
    }
}
