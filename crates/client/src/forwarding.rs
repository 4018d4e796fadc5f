//! Passing a received request on to a program of the user's own.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, Request};
use http_body_util::Full;
use url::Url;

use crate::Error;
use crate::transport::Transport;

/// As much of an answer as is read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// What belongs to one connection and not to what is sent over it.
const OF_THE_CONNECTION: [HeaderName; 10] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Posts requests to one address. It knows no key, and follows no redirect.
#[derive(Clone)]
pub struct Forwarder {
    transport: Transport,
    url: Url,
    timeout: Duration,
}

impl Forwarder {
    /// For this address, each request answered within `timeout`.
    pub fn new(url: &str, timeout: Duration) -> Result<Forwarder, Error> {
        let refuse = |why: &str| Error::Request(format!("the address {url:?} {why}"));
        let parsed = Url::parse(url).map_err(|error| refuse(&format!("is not a URL: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(refuse("must begin with http:// or https:// and a host"));
        }
        Ok(Forwarder { transport: Transport::new()?, url: parsed, timeout })
    }

    /// Where requests go.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Posts a body with these headers, less those of the connection they came over. Answers the status.
    pub async fn forward(&self, headers: HeaderMap, body: Bytes) -> Result<u16, Error> {
        let mut request = Request::post(self.url.as_str())
            .body(Full::from(body))
            .map_err(|error| Error::Request(error.to_string()))?;
        *request.headers_mut() = headers;
        for name in OF_THE_CONNECTION.iter().chain([&KEEP_ALIVE]) {
            request.headers_mut().remove(name);
        }
        let sent = self.transport.send(request, self.url(), self.timeout, ANSWER_BYTES_MAX);
        Ok(sent.await?.status.as_u16())
    }
}

impl std::fmt::Debug for Forwarder {
    /// Without what the address may hold of a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarder").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}
