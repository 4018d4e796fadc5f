//! The client: where the server is, which key it gets, and how long to wait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use url::Url;

use crate::transport::Transport;
use crate::{Call, Error};

/// How long a call may take, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer that is read: a page of 500 events with their payloads fits.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A Wakepost server, as one key sees it. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) base: Arc<Url>,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) timeout: Duration,
    pub(crate) body_bytes_max: usize,
    pub(crate) transport: Transport,
    /// In whose name jobs are made.
    chain: Option<Arc<str>>,
    traceparent: Option<Arc<str>>,
}

impl Client {
    /// A client for the server at `url` (`https://hooks.example.com`, also with a path in front of the API).
    pub fn new(url: &str, key: &str) -> Result<Client, Error> {
        let mut authorization = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| Error::Request("the key has characters that no key has".to_owned()))?;
        authorization.set_sensitive(true);
        Ok(Client { authorization: Some(authorization), ..Client::without_key(url)? })
    }

    /// A client for what needs no key, such as [`Client::health`].
    pub fn without_key(url: &str) -> Result<Client, Error> {
        Ok(Client {
            base: Arc::new(base_url(url)?),
            authorization: None,
            tenant: None,
            timeout: TIMEOUT,
            body_bytes_max: BODY_BYTES_MAX,
            transport: Transport::new()?,
            chain: None,
            traceparent: None,
        })
    }

    /// Acts on this tenant, which an all-tenant key may.
    pub fn with_tenant(mut self, slug: &str) -> Client {
        self.tenant = Some(slug.into());
        self
    }

    /// Makes jobs in the name of a run: with the `chain` and `traceparent` that it was given. They know what led to
    /// them, and agents that call each other without end are stopped.
    pub fn on_behalf_of(mut self, chain: Option<&str>, traceparent: Option<&str>) -> Client {
        self.chain = chain.map(Into::into);
        self.traceparent = traceparent.map(Into::into);
        self
    }

    /// Adds to a call in whose name it is made.
    pub(crate) fn linked<T>(&self, call: Call<T>) -> Call<T> {
        let call = match &self.chain {
            Some(chain) => call.chain(chain),
            None => call,
        };
        match &self.traceparent {
            Some(traceparent) => call.traceparent(traceparent),
            None => call,
        }
    }

    /// Waits this long for an answer (30 s unless told otherwise; a long poll adds its own wait).
    pub fn with_timeout(mut self, timeout: Duration) -> Client {
        self.timeout = timeout;
        self
    }

    /// Reads answers up to this size (64 MiB unless told otherwise).
    pub fn with_body_bytes_max(mut self, body_bytes_max: usize) -> Client {
        self.body_bytes_max = body_bytes_max;
        self
    }

    /// The server's base URL.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The key, as the header that carries it.
    pub(crate) fn authorize(&self, headers: &mut http::HeaderMap) {
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
    }
}

impl fmt::Debug for Client {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url())
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}

fn base_url(text: &str) -> Result<Url, Error> {
    let refuse = |why: &str| Error::Request(format!("the server's URL {text:?} {why}"));
    let mut url = Url::parse(text).map_err(|error| refuse(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse("must begin with http:// or https:// and a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // Not repeated: it may hold a password.
        return Err(Error::Request(
            "the server's URL must not hold a user or password: use a key".to_owned(),
        ));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_never_shows_in_debug_output() {
        let client = Client::new("http://127.0.0.1:1", "secret-key").expect("a client");
        assert!(!format!("{client:?}").contains("secret-key"));
    }

    #[test]
    fn a_url_without_a_scheme_or_with_a_password_is_refused() {
        for text in ["127.0.0.1:8787", "ftp://host", "not a url", "http://u:p@h"] {
            let refused = Client::new(text, "k").expect_err(text);
            assert!(matches!(refused, Error::Request(_)), "{text}");
            assert!(!refused.to_string().contains(":p@"));
        }
    }
}
