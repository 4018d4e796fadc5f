//! A request as it was received, and one about to be sent.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::settings::ConfigError;

/// An inbound request, exactly as received.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a Method,
    /// The configured public base, then the path and query as received; never from the Host header.
    pub url: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its raw bytes.
    pub body: &'a [u8],
    /// What was fetched because of it, which no sender can bring along.
    pub fetched: Option<&'a [u8]>,
}

/// A request that [`Provider::sign`](crate::Provider::sign) completes, as the provider would send it.
#[derive(Clone)]
pub struct SignedRequest {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its raw bytes.
    pub body: Vec<u8>,
}

impl SignedRequest {
    /// A JSON POST that is not signed yet.
    pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> SignedRequest {
        let json = HeaderValue::from_static("application/json");
        SignedRequest {
            method: Method::POST,
            url: url.into(),
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, json)]),
            body: body.into(),
        }
    }

    /// The same request as its receiver sees it.
    pub fn as_request(&self) -> Request<'_> {
        Request {
            method: &self.method,
            url: &self.url,
            headers: &self.headers,
            body: &self.body,
            fetched: None,
        }
    }

    /// Sets one header in place of any of that name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let malformed = || ConfigError::new(name, "cannot stand in a header");
        let name = HeaderName::try_from(name).map_err(|_| malformed())?;
        let value = HeaderValue::try_from(value).map_err(|_| malformed())?;
        self.headers.insert(name, value);
        Ok(())
    }
}
