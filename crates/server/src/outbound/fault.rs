//! What went wrong in one step, before it is known how far the exchange had come.

use std::error::Error;
use std::io;

use super::client::SendErrorClass;

/// A failed step.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(super) struct Fault {
    pub(super) class: SendErrorClass,
    pub(super) text: String,
    pub(super) operator_text: Option<String>,
}

/// Receivers word some of these texts (a TLS alert, a bad header); they stay short.
const TEXT_CHARS_MAX: usize = 200;

impl Fault {
    pub(super) fn new(class: SendErrorClass, text: impl Into<String>) -> Fault {
        Fault {
            class,
            text: text.into().chars().take(TEXT_CHARS_MAX).collect(),
            operator_text: None,
        }
    }

    pub(super) fn refused(text: impl Into<String>, operator_text: String) -> Fault {
        Fault { operator_text: Some(operator_text), ..Fault::new(SendErrorClass::Refused, text) }
    }

    pub(super) fn protocol(text: impl Into<String>) -> Fault {
        Fault::new(SendErrorClass::Protocol, text)
    }

    /// From hyper's errors, which wrap their causes: our own connector's, TLS, or the peer's.
    pub(super) fn from_exchange(error: &(dyn Error + 'static)) -> Fault {
        let causes = || std::iter::successors(Some(error), |&cause| cause.source());
        if let Some(fault) = causes().find_map(|cause| cause.downcast_ref::<Fault>()) {
            return fault.clone();
        }
        if let Some(tls) = causes().find_map(tls_error) {
            return Fault::new(SendErrorClass::Tls, tls.to_string());
        }
        if let Some(http) = causes().find_map(|cause| cause.downcast_ref::<hyper::Error>()) {
            if http.is_parse_too_large() {
                return Fault::protocol("the headers of the answer are too large");
            }
            if http.is_incomplete_message() {
                return Fault::protocol("the connection closed before the answer was complete");
            }
            if http.is_parse() {
                return Fault::protocol("the answer is not valid HTTP");
            }
        }
        let deepest = causes().last().unwrap_or(error);
        Fault::protocol(deepest.to_string())
    }
}

/// TLS can also fail after the handshake, as when a client certificate is wanted; the error then
/// comes out of a read or a write, inside an `io::Error` that hides it from `source`.
fn tls_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}
