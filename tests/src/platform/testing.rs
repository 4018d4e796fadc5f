//! How a stand-in's own tests call it.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::http::{Answer, Http};

/// Sends a request with these headers.
pub(super) async fn send(
    method: Method,
    url: &str,
    headers: &[(&'static str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let headers = headers.iter().map(|(name, value)| {
        (HeaderName::from_static(name), HeaderValue::try_from(*value).expect("a header"))
    });
    Http::default().send(method, url, HeaderMap::from_iter(headers), body).await
}
