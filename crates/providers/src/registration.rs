//! Registering a webhook at a provider: by a call where it has an API for it, else by hand.

use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use wakepost_domain::Timestamp;

use crate::settings::{ConfigError, Settings};

/// A request to a provider's API, to be sent by someone else.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiCall {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

impl ApiCall {
    /// A GET, with this token for proof.
    pub fn get(url: impl Into<String>, token: &str) -> Result<ApiCall, ConfigError> {
        let (url, headers) = (url.into(), HeaderMap::new());
        ApiCall { method: Method::GET, url, headers, body: Vec::new() }.with_token(token)
    }

    /// The same with this token for proof.
    pub fn with_token(mut self, token: &str) -> Result<ApiCall, ConfigError> {
        let value = http::HeaderValue::try_from(format!("Bearer {token}"));
        let mut value =
            value.map_err(|_| ConfigError::new("the API's token", "cannot stand in a header"))?;
        value.set_sensitive(true);
        self.headers.insert(http::header::AUTHORIZATION, value);
        Ok(self)
    }

    /// A JSON POST.
    pub fn json(url: impl Into<String>, body: &Value) -> ApiCall {
        let mut headers = HeaderMap::new();
        let json = http::HeaderValue::from_static("application/json");
        headers.insert(http::header::CONTENT_TYPE, json);
        ApiCall { method: Method::POST, url: url.into(), headers, body: body.to_string().into() }
    }
}

/// Without its address, headers and body, which hold secrets.
impl std::fmt::Debug for ApiCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiCall({} …)", self.method)
    }
}

/// What a provider's API answered.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: &'a [u8],
}

/// What is to be registered.
#[derive(Clone, Copy)]
pub struct Registration<'a> {
    /// The public address of the source.
    pub webhook_url: &'a str,
    /// Its secret.
    pub secret: &'a str,
    /// Its settings, secret ones included.
    pub settings: &'a Settings,
}

/// A registration, and what is known of the one before it.
#[derive(Clone)]
pub struct Registering<'a> {
    /// What is to be registered.
    pub at: Registration<'a>,
    /// What was kept of the registration before, which this one is to follow.
    pub before: Option<&'a Value>,
    /// How far the provider's changes were read, where any were.
    pub position: Option<&'a Value>,
    /// An id that nothing else has.
    pub fresh_id: String,
    /// The time now.
    pub now: Timestamp,
}

/// What a registration came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Registered {
    /// What is to be kept of it.
    pub registration: Option<Value>,
    /// When it ends, unless it is renewed.
    pub expires_at: Option<Timestamp>,
    /// Where to read the provider's changes from, if they were not read before.
    pub position: Option<Value>,
    /// What may be sent once all this is kept; whatever comes of it, the registration stands.
    pub after: Option<ApiCall>,
}
