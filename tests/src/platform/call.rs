//! One call to a platform's API, as it came, and what it is answered.

use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use serde_json::{Map, Value};

use super::violations::Violations;

/// A call that came.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Its path, as it was written.
    pub path: String,
    /// The fields of its query.
    pub query: Vec<(String, String)>,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// When it came.
    pub at: Instant,
}

impl Call {
    pub(super) fn new(method: Method, uri: &Uri, headers: HeaderMap, body: Bytes) -> Call {
        Call {
            method,
            path: uri.path().to_owned(),
            query: fields(uri.query().unwrap_or_default().as_bytes()),
            headers,
            body,
            at: Instant::now(),
        }
    }

    /// Whether the method and the path, such as `POST /emails`, hold this text.
    pub fn is_to(&self, fragment: &str) -> bool {
        format!("{} {}", self.method, self.path).contains(fragment)
    }

    /// The parts of the path.
    pub fn segments(&self) -> Vec<&str> {
        self.path.trim_start_matches('/').split('/').collect()
    }

    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The bearer token it shows.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization").strip_prefix("Bearer ")
    }

    /// A field of the query.
    pub fn asked(&self, name: &str) -> Option<&str> {
        let field = self.query.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str())
    }

    /// The fields of a body that must be a JSON object and say so.
    pub fn object(&self, violations: &mut Violations) -> Option<Map<String, Value>> {
        if !self.says("application/json") {
            violations.note(format!("{} is not said to be JSON", self.path));
            return None;
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(fields)) => Some(fields),
            _ => {
                violations.note(format!("{} has a body that is no JSON object", self.path));
                None
            }
        }
    }

    /// The fields of a form.
    pub fn form(&self) -> Vec<(String, String)> {
        fields(&self.body)
    }

    /// Whether its body is said to be of this media type.
    pub fn says(&self, media_type: &str) -> bool {
        self.header("content-type").split(';').next().unwrap_or_default().trim() == media_type
    }
}

fn fields(encoded: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(encoded).into_owned().collect()
}

/// What a call is answered.
#[derive(Debug, Clone)]
pub struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

impl Response {
    /// A JSON answer.
    pub fn json(status: u16, body: Value) -> Response {
        let media_type = ("content-type", "application/json; charset=utf-8".to_owned());
        Response { status, headers: vec![media_type], body: body.to_string() }
    }

    /// An answer without a body.
    pub fn empty(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: String::new() }
    }

    /// With one header more.
    pub fn with_header(mut self, name: &'static str, value: impl ToString) -> Response {
        self.headers.push((name, value.to_string()));
        self
    }
}
