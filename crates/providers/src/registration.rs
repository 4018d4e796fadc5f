//! Registering a webhook at a provider: by a call where it has an API for it, else by hand.

use http::{HeaderMap, Method, StatusCode};

use crate::settings::Settings;

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
    /// A JSON POST.
    pub fn json(url: impl Into<String>, body: &serde_json::Value) -> ApiCall {
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
